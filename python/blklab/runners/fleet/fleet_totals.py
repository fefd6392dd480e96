"""Adds up what was measured on each host."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from blklab.fio import output
from blklab.fio.node import FioDocument
from blklab.grouping import by_key
from blklab.outcome import ClockOffset, DeviceResult, HostResult, Outcome
from blklab.store.series import JOBS, FinishedRun, SeriesPoint

Parts = Mapping[str, FinishedRun]  # By host


def fleet_outcome(
    document: FioDocument, parts: Parts, failures: Mapping[str, str], clocks: Mapping[str, ClockOffset | None]
) -> Outcome:
    """Returns the outcome of all hosts. `document` is fio's, of the hosts with `parts`; `clocks` has every host."""
    total = output.outcome(document)
    outcomes = {name: part.outcome for name, part in parts.items()}
    count = len(clocks)
    lacking = [f"{name}: {why}; the totals are of {len(parts)} of {count} hosts" for name, why in failures.items()]
    settings = []
    for name, part in outcomes.items():
        for change in part.settings or ():
            settings.append(replace(change, where=f"{name}:{change.where}"))
    return replace(
        total,
        hosts=[_host(name, clock, outcomes.get(name), failures.get(name)) for name, clock in clocks.items()],
        devices=[_add_host_name(name, device) for name, part in outcomes.items() for device in part.devices],
        watched_ns=max(part.watched_ns or 0 for part in outcomes.values()),
        warnings=[*lacking, *_together({name: part.warnings for name, part in outcomes.items()})],
        settings=settings,
        forced=list(dict.fromkeys(code for part in outcomes.values() for code in part.forced)),
    )


def _host(name: str, clock: ClockOffset | None, part: Outcome | None, failure: str | None) -> HostResult:
    if part is None:
        return HostResult(name, failure or "no result", clock)
    return HostResult(name, None, clock, part.read, part.write, part.devices)


def _add_host_name(host: str, device: DeviceResult) -> DeviceResult:
    return replace(device, name=f"{host}:{device.name}", above=[f"{host}:{name}" for name in device.above])


def _together(by_host: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns each warning once, with the hosts that it is about."""
    pairs = []
    for name, warnings in by_host.items():
        for warning in dict.fromkeys(warnings):
            pairs.append((warning, name))
    lines = []
    for warning, names in by_key(pairs).items():
        hosts = "all hosts" if len(names) == len(by_host) > 1 else ", ".join(names)
        lines.append(f"{hosts}: {warning}")
    return lines


def fleet_series(parts: Parts) -> list[SeriesPoint]:
    """Returns the jobs of all hosts added up, and the devices of each host."""
    jobs: dict[int, SeriesPoint] = {}
    devices = []
    for name, part in parts.items():
        for point in part.points:
            if point.source == JOBS:
                jobs[point.time_ns] = _sum(jobs[point.time_ns], point) if point.time_ns in jobs else point
            else:
                devices.append(replace(point, source=f"{name}:{point.source}"))
    return [*(jobs[time_ns] for time_ns in sorted(jobs)), *devices]


def _sum(point: SeriesPoint, other: SeriesPoint) -> SeriesPoint:
    return SeriesPoint(
        source=JOBS,
        time_ns=point.time_ns,
        width_ns=max(point.width_ns, other.width_ns),
        read_ios=point.read_ios + other.read_ios,
        write_ios=point.write_ios + other.write_ios,
        read_bytes=point.read_bytes + other.read_bytes,
        write_bytes=point.write_bytes + other.write_bytes,
        read_clat_ns=_mean([(point.read_clat_ns, point.read_ios), (other.read_clat_ns, other.read_ios)]),
        write_clat_ns=_mean([(point.write_clat_ns, point.write_ios), (other.write_clat_ns, other.write_ios)]),
    )


def _mean(latencies: Sequence[tuple[float | None, int]]) -> float | None:
    """Returns the mean of latencies with the numbers of their I/Os; None if none is known."""
    known_latencies = [(latency, ios) for latency, ios in latencies if latency is not None]
    all_ios = sum(ios for _, ios in known_latencies)
    return sum(latency * ios for latency, ios in known_latencies) / all_ios if all_ios else None
