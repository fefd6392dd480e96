"""fio's client: one process that drives the servers of all hosts, and gets their results.

The result of a fleet: sums of its hosts, with latencies merged from their histograms.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, cast

from blklab import child_process
from blklab.errors import BlklabError
from blklab.fio import output
from blklab.fio.node import FioDocument
from blklab.outcome import ChangedSetting, ClockOffset, DeviceResult, FleetResult, HostResult, MeasuredResult
from blklab.runners.fio import jobfile, process
from blklab.runners.fio.process import FioExit, Progress, complaint
from blklab.store.series import JOBS, SeriesPoint
from blklab.text import printable


@dataclass(frozen=True)
class ClientRun:
    """What fio's client wrote about all hosts."""

    document: FioDocument
    text: str
    messages: str
    logs: Mapping[str, str]

    def only(self, sockets: list[str]) -> FioDocument:
        """Returns the document with the results of some hosts, by their sockets, which are fio's names of them."""
        kept = {key: self.document.get(key, []) for key in ("client_stats", "disk_util")}
        hosts = {key: [part for part in parts if part.get("hostname") in sockets] for key, parts in kept.items()}
        hosts["client_stats"] = [part for part in hosts["client_stats"] if part.get("jobname") != "All clients"]
        return {**self.document, **hosts}

    def of(self, socket: str) -> FioExit | None:
        """Returns what fio would have written on a host; None if fio got no result from it."""
        document = self.only([socket])
        if not document["client_stats"]:
            return None
        ending = f".{socket}"
        logs = {name.removesuffix(ending): text for name, text in self.logs.items() if name.endswith(ending)}
        return FioExit(json.dumps(document), self.messages, logs, [])


def run(fio: str, jobs: Mapping[str, str], directory: Path, seconds: float | None, progress: Progress) -> ClientRun:
    """Runs a job on each host, by the names of their sockets in `directory`. Raises BlklabError."""
    written = directory / "client.json"
    with ExitStack() as stack:
        command = [fio, "--output-format=json+", f"--output={written.name}", "--eta=always"]
        stack.callback(written.unlink, missing_ok=True)
        for socket, job in jobs.items():
            file = directory / f"{socket}.fio"
            file.write_text(job)
            stack.callback(file.unlink)
            command += [f"--client=sock:{socket}", file.name]
        with child_process.started(command, directory) as (client, pipes):
            messages = process.watch(client, pipes[0], seconds, progress, "measure")
        text = written.read_text(errors="replace") if written.exists() else ""
        logs = {}
        for path in directory.glob(f"{jobfile.LOG}_*"):
            logs[path.name] = path.read_text(errors="replace")
            path.unlink()
    if "client_stats" not in text:
        words = printable(complaint(messages + text, client.returncode))
        raise BlklabError(f"fio failed: {words}")
    return ClientRun(output.parse_document(text), text, messages, logs)


class FinishedPart(TypedDict):
    """The message `finished` of a host."""

    outcome: MeasuredResult
    points: list[list[Any]]  # The fields of `SeriesPoint`
    seconds: float


Parts = Mapping[str, FinishedPart]  # By host


def fleet_outcome(
    document: FioDocument, parts: Parts, failures: Mapping[str, str], clocks: Mapping[str, ClockOffset | None]
) -> FleetResult:
    """Returns the outcome of all hosts. `document` is fio's, of the hosts with `parts`; `clocks` has every host."""
    whole = output.outcome(document)
    outcomes = {name: part["outcome"] for name, part in parts.items()}
    count = len(clocks)
    lacking = [f"{name}: {why}; the totals are of {len(parts)} of {count} hosts" for name, why in failures.items()]
    result: FleetResult = {
        **whole,
        "hosts": [_host(name, clock, outcomes.get(name), failures.get(name)) for name, clock in clocks.items()],
        "devices": [_named(name, device) for name, part in outcomes.items() for device in part["devices"]],
        "watched_ns": max(part["watched_ns"] for part in outcomes.values()),
        "warnings": [*lacking, *_together({name: part["warnings"] for name, part in outcomes.items()})],
        "settings": [
            cast(ChangedSetting, {**change, "where": f"{name}:{change['where']}"})
            for name, part in outcomes.items()
            for change in part["settings"]
        ],
        "forced": list(dict.fromkeys(code for part in outcomes.values() for code in part["forced"])),
    }
    return result


def _host(name: str, clock: ClockOffset | None, part: MeasuredResult | None, failure: str | None) -> HostResult:
    if part is None:
        return {"name": name, "failure": failure or "no result", "clock": clock}
    figures = {"read": part["read"], "write": part["write"], "devices": part["devices"]}
    return cast(HostResult, {"name": name, "failure": None, "clock": clock, **figures})


def _named(host: str, device: DeviceResult) -> DeviceResult:
    above = [f"{host}:{name}" for name in device.get("above", ())]
    return {**device, "name": f"{host}:{device['name']}", "above": above}


def _together(by_host: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns each warning once, with the hosts that it is about."""
    hosts: dict[str, list[str]] = {}
    for name, warnings in by_host.items():
        for warning in dict.fromkeys(warnings):
            hosts.setdefault(warning, []).append(name)
    every = len(by_host)
    return [
        f"{'all hosts' if len(names) == every > 1 else ', '.join(names)}: {warning}" for warning, names in hosts.items()
    ]


def fleet_series(parts: Parts) -> list[SeriesPoint]:
    """Returns the jobs of all hosts added up, and the devices of each host."""
    jobs: dict[int, SeriesPoint] = {}
    devices = []
    for name, part in parts.items():
        for values in part["points"]:
            point = SeriesPoint(*values)
            if point.source == JOBS:
                jobs[point.time_ns] = _sum(jobs[point.time_ns], point) if point.time_ns in jobs else point
            else:
                devices.append(SeriesPoint(f"{name}:{point.source}", *values[1:]))
    return [*(jobs[at] for at in sorted(jobs)), *devices]


def _sum(point: SeriesPoint, other: SeriesPoint) -> SeriesPoint:
    def mean(direction: str) -> float | None:
        pairs = [(getattr(each, f"{direction}_clat_ns"), getattr(each, f"{direction}_ios")) for each in (point, other)]
        ios = sum(count for latency, count in pairs if latency is not None)
        return sum(latency * count for latency, count in pairs if latency is not None) / ios if ios else None

    return SeriesPoint(
        JOBS,
        point.time_ns,
        max(point.width_ns, other.width_ns),
        point.read_ios + other.read_ios,
        point.write_ios + other.write_ios,
        point.read_bytes + other.read_bytes,
        point.write_bytes + other.write_bytes,
        mean("read"),
        mean("write"),
    )
