"""What somebody who knows storage would ask back about a set of runs, each with its figures.

Thresholds are where the detectors are: `suspicions` (single measurements), `oddities` (series and
repeats), and here. Of the same remark about many runs one sentence is made.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from blklab.analysis import compare, explain, oddities
from blklab.analysis.comparison import Comparison
from blklab.analysis.metrics import METRICS, leaves, scale, watched
from blklab.analysis.resampling import Difference
from blklab.analysis.samples import Points, over_time
from blklab.analysis.suspicions import suspicions
from blklab.documents.outcome import DiskStats
from blklab.errors import UsageError
from blklab.outcome import Outcome, measured, predicted
from blklab.runners.registry import predicts
from blklab.store.query import Run
from blklab.store.series import JOBS, Point

BUSY: Final = 0.98
"""Share of the time that a device has something to do without pause: iostat's %util near 100."""

PROCESSOR: Final = 0.95
"""Share of a CPU from which on a job waits for its CPU and not for its I/O."""

MACHINE: Final = 0.05
"""Share of all CPUs, idle or waiting for I/O, below which none is left for more."""

OFF: Final = 0.10
"""A prediction that is nearer is good: devices of one model differ by as much."""

SHOWN: Final = 3
"""Runs named in a sentence."""


@dataclass(frozen=True)
class Notice:
    """One thing that was noticed."""

    topic: str
    text: str
    runs: Sequence[int]
    """The runs that it is about."""

    grave: bool
    """Whether it casts doubt on the figures; otherwise it helps to read them."""


@dataclass(frozen=True)
class _Found:
    topic: str
    run: Run
    text: str
    grave: bool = True
    weight: float = 0.0
    """The heaviest are said in full."""


def noticed(runs: Sequence[Run], points: Points) -> list[Notice]:
    """Returns what is to be noticed about runs, the grave first.

    Runs of several campaigns may be among them; those that are not done are told if they failed.
    """
    done = [run for run in runs if run.outcome]
    names = _Names(runs)
    found = [*_failed(runs)]
    for run in done:
        found += _said(run)
        found += _course(run, points(run.id))
        found += _limits(run)
        if not predicts(run.runner):
            found += [_Found(topic, run, text) for topic, text in suspicions(run)]
    notices = [*_merged(found, names), *_repeats(done, names), *_campaigns(done)]
    notices += [*_predictions(done, points), *_busy(done)]
    return sorted(notices, key=lambda one: not one.grave)


class _Names:
    """What runs are called: by the labels that tell them apart."""

    def __init__(self, runs: Sequence[Run]) -> None:
        labels = dict.fromkeys(label for run in runs for label in run.labels)
        self._told = [label for label in labels if len({run.labels.get(label) for run in runs}) > 1]
        self._several = len({run.campaign for run in runs}) > 1

    def of(self, run: Run, *, repeat: bool = True) -> str:
        """Returns `raid1 randread iodepth=4, run 12`."""
        parts = [run.runner] if self._several else []
        for label in self._told:
            if label != compare.REPEAT and label in run.labels:
                plain = label in {"stack", "workload"}
                parts.append(run.labels[label] if plain else f"{label}={run.labels[label]}")
        name = " ".join(parts)
        if not repeat:
            return name or run.name
        return f"{name}, run {run.id}" if name else f"run {run.id}"


def _merged(found: Sequence[_Found], names: _Names) -> Iterator[Notice]:
    """Makes one sentence of the same topic, with the heaviest in full."""
    topics: dict[tuple[str, str], list[_Found]] = {}
    for one in found:
        # What was said by a program is one remark for each thing said.
        topics.setdefault((one.topic, one.text if one.topic in SAID else ""), []).append(one)
    for (topic, said), members in topics.items():
        members.sort(key=lambda one: -one.weight)
        ids = list(dict.fromkeys(one.run.id for one in members))
        grave = any(one.grave for one in members)
        if said:
            yield Notice(
                topic, f"{said} ({_runs([one.run for one in members], names)}).", ids, grave
            )
            continue
        shown: dict[str, _Found] = {}
        for one in members:  # of repeats, the heaviest
            shown.setdefault(names.of(one.run, repeat=False), one)
        parts = [f"{names.of(one.run)}: {one.text}" for one in list(shown.values())[:SHOWN]]
        rest = len(ids) - len(parts)
        more = f"; and the like in {rest} more runs" if rest > 1 else ""
        more = "; and the like in another run" if rest == 1 else more
        yield Notice(topic, f"{'; '.join(parts)}{more}.", ids, grave)


SAID: Final = frozenset({"Warning", "Forced", "Settings"})


def _runs(runs: Sequence[Run], names: _Names) -> str:
    different = list(dict.fromkeys(run.id for run in runs))
    if len(different) > SHOWN:
        return f"{len(different)} runs"
    return "; ".join(names.of(run) for run in runs[:SHOWN])


def _failed(runs: Sequence[Run]) -> Iterator[_Found]:
    for run in runs:
        if run.state == "failed":
            yield _Found("Failed", run, run.message or "no reason was given")


def _said(run: Run) -> Iterator[_Found]:
    outcome = measured(run.outcome or {})
    steady = outcome.get("steady")
    if steady and not steady.get("reached"):
        rounds = steady.get("rounds") or []
        last = ", ".join(f"{iops:,.0f}" for iops in rounds[-5:])
        yield _Found(
            "Not steady",
            run,
            f"no steady state in {len(rounds)} rounds (the last ones: {last} IOPS); it was measured"
            " all the same",
        )
    for warning in outcome.get("warnings") or []:
        if not str(warning).startswith("no steady state"):
            yield _Found("Warning", run, str(warning).rstrip("."))
    if forced := outcome.get("forced"):
        yield _Found("Forced", run, f"measured in spite of: {', '.join(map(str, forced))}")


def _course(run: Run, points: Sequence[Point]) -> Iterator[_Found]:
    values = over_time("iops", points)
    mine = [point for point in points if point.source == JOBS and point.width_ns > 0]
    counts = [float(point.read_ios + point.write_ios) for point in mine][: len(values)]
    change = oddities.drift(values)
    if change is not None:
        third = len(values) // 3
        first, last = sum(values[:third]) / third, sum(values[-third:]) / third
        yield _Found(
            "Drift",
            run,
            f"from {first:,.0f} IOPS in the first third to {last:,.0f} in the last"
            f" ({_percent(change)})",
            weight=abs(change),
        )
    elif levels := oddities.levels(values, counts):
        yield _Found(
            "Two levels",
            run,
            f"{levels.share_low * 100:.0f} % of the time about {levels.low:,.0f} IOPS and else"
            f" about {levels.high:,.0f}, nothing between: the mean is neither",
            weight=levels.high / max(1.0, levels.low),
        )
    if stalls := oddities.stalls(values, counts):
        worst = stalls[0]
        second = mine[worst.at].time_ns / 1e9
        more = f"; {len(stalls)} such intervals" if len(stalls) > 1 else ""
        yield _Found(
            "Outliers",
            run,
            f"{worst.value:,.0f} IOPS {second:.4g} s after its start, where {worst.median:,.0f} are"
            f" usual{more}",
            weight=abs(worst.value / worst.median - 1) if worst.median else 0.0,
        )


def _limits(run: Run) -> Iterator[_Found]:
    if (cores := cores_per_job(run)) is not None and cores >= PROCESSOR:
        yield _Found(
            "Processor",
            run,
            f"each job keeps its CPU busy for {min(1.0, cores) * 100:.0f} % of the time: the CPU is"
            " measured, not the device",
            weight=cores,
        )
    cpu = measured(run.outcome or {}).get("cpu") or {}
    if cpu and cpu.get("idle", 1) + cpu.get("iowait", 0) < MACHINE:
        left = cpu.get("idle", 0) + cpu.get("iowait", 0)
        yield _Found("CPUs", run, f"{left * 100:.0f} % of the machine's CPUs were left", weight=1.0)


def _busy(runs: Sequence[Run]) -> Iterator[Notice]:
    """Which devices had no pause, in how many of the runs in which they did anything."""
    counted: dict[tuple[str, str, str], list[int]] = {}
    used: dict[tuple[str, str], int] = {}
    for run in runs:
        outcome = run.outcome or {}
        runtime = watched(outcome)
        for device in leaves(outcome):
            where = (run.runner, str(device["name"]))
            used[where] = used.get(where, 0) + bool(sum(device["ios"]))
            if "work" in device:
                share, name = explain.saturation(cast(DiskStats, device), runtime)
                part = explain.PARTS[name] if share >= explain.BUSY else ""
            else:
                busy = (device.get("busy_ns") or 0) / runtime
                part = "never idle" if busy >= BUSY else ""
            if part:
                counted.setdefault((*where, part), []).append(run.id)
    several = len({runner for runner, *_ in counted}) > 1
    parts = [
        f"{name}{f' ({runner})' if several else ''} in {len(ids)} of {used[runner, name]} runs"
        f" ({part})"
        for (runner, name, part), ids in sorted(counted.items(), key=lambda one: -len(one[1]))
    ]
    if parts:
        rest = f", and {len(parts) - 8} more" if len(parts) > 8 else ""
        text = f"Worked without pause: {', '.join(parts[:8])}{rest}."
        if any(part == "never idle" for *_, part in counted):
            text += " A disk that rotates is at its limit then; flash, only if nothing is gained by"
            text += " more in flight."
        runs_ = dict.fromkeys(number for ids in counted.values() for number in ids)
        yield Notice("Busy devices", text, list(runs_), False)


def cores(outcome: Outcome) -> float | None:
    """Returns how many CPUs the jobs of a run kept busy; None if it is not known."""
    simulated = predicted(outcome)
    if simulated is not None and simulated["runtime_ns"]:
        return simulated["processor_ns"] / simulated["runtime_ns"]
    fio = measured(outcome).get("fio")
    if fio is not None:
        return (fio["usr_cpu"] + fio["sys_cpu"]) / 100
    return None


def cores_per_job(run: Run) -> float | None:
    """Returns the share of a CPU that each job of a run kept busy; None if it is not known."""
    jobs = 0
    for job in run.cell.get("jobs") or []:
        jobs += int(job.get("options", job).get("numjobs", 1))
    found = cores(run.outcome or {})
    return None if found is None or not jobs else found / jobs


def _cells(runs: Sequence[Run]) -> Iterator[list[Run]]:
    found: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        labels = tuple(pair for pair in sorted(run.labels.items()) if pair[0] != compare.REPEAT)
        found.setdefault((run.campaign, labels), []).append(run)
    yield from found.values()


def _repeats(runs: Sequence[Run], names: _Names) -> Iterator[Notice]:
    for members in _cells(runs):
        values = [METRICS["iops"].of(run.outcome or {}) or 0.0 for run in members]
        for odd in oddities.misfits(values):
            run = members[odd.at]
            yield Notice(
                "Odd one out",
                f"{names.of(run)}: {odd.value:,.0f} IOPS, where its {len(members)} repeats have"
                f" {odd.median:,.0f} in the median.",
                [run.id],
                True,
            )


def _campaigns(runs: Sequence[Run]) -> Iterator[Notice]:
    """A drift that all cells share comes from outside: heat, wear, a filling disk, a neighbour."""
    for campaign in dict.fromkeys(run.campaign for run in runs):
        ratios = []
        for members in _cells([run for run in runs if run.campaign == campaign]):
            values = [METRICS["iops"].of(run.outcome or {}) for run in members]
            known = [value for value in values if value]
            if len(known) < 2:
                continue
            mean = sum(known) / len(known)
            ratios += [
                (run.started or "", run.id, value / mean)
                for run, value in zip(members, values, strict=True)
                if value
            ]
        change = oddities.course([ratio for *_, ratio in sorted(ratios)])
        if change is not None:
            yield Notice(
                "Drift of the campaign",
                f"Campaign {campaign}: its later runs brought {_percent(change)} IOPS compared with"
                " earlier repeats of the same, whatever was run: something else changed meanwhile.",
                [run.id for run in runs if run.campaign == campaign],
                True,
            )


def _predictions(runs: Sequence[Run], points: Points) -> Iterator[Notice]:
    campaigns = {run.campaign: run.runner for run in runs}
    predicted = [number for number, runner in campaigns.items() if predicts(runner)]
    measured = [number for number, runner in campaigns.items() if not predicts(runner)]
    # Of scaled devices, nobody predicts the rates.
    true = [run for run in runs if scale(run.outcome or {}) == 1]
    for sim in predicted:
        for other in measured:
            chosen = [
                (f"{campaigns[number]} {number}", [run for run in true if run.campaign == number])
                for number in (other, sim)
            ]
            try:
                sides = compare.sides(chosen)
                found = compare.compare(sides, ["iops"], points)
            except UsageError:  # they have no cell in common
                continue
            off, pairs = _off(found)
            if not off:
                continue
            labels, difference = max(off, key=lambda one: abs(one[1].change))
            of = f", {' '.join(labels.values())}," if labels else ""
            assert difference.low is not None and difference.high is not None  # noqa: S101  # judged
            yield Notice(
                "Prediction",
                f"Of {pairs} cells that were predicted and measured, {len(off)} are off by more"
                f" than {OFF * 100:.0f} % and the interval; the most{of}"
                f" by {_percent(difference.change)} ({_percent(difference.low)} to"
                f" {_percent(difference.high)}).",
                [run.id for run in runs if run.campaign == sim],
                True,
            )


def _percent(share: float) -> str:
    return f"{100 * share:+.0f} %".replace("-", "−")


def _off(
    found: Comparison,
) -> tuple[list[tuple[Mapping[str, str], Difference]], int]:
    pairs = [
        (row.labels, one, verdict)
        for row in found.rows
        for one, verdict in zip(row.differences, row.verdicts, strict=True)
        if one is not None
    ]
    off = [
        (labels, one)
        for labels, one, verdict in pairs
        if verdict in {"better", "worse", "differ"} and abs(one.change) > OFF
    ]
    return off, len(pairs)
