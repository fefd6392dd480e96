"""Latency against offered load: measures a cell at several rates, and searches the highest rate
whose 99th percentile is below a limit.

The jobs first run without a limit. Then each runs with `rate_iops` at shares of what it reached.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from blklab.experiment.documents import RAMP_SEARCHES, LoadRampDocument
from blklab.outcome import LoadRamp, LoadStep, Outcome
from blklab.store.series import FinishedRun

KINDS = ("read", "write")
FIGURES = ("mean", "p50", "p95", "p99", "p99_9")

Document = TypeVar("Document", bound=Mapping[str, object])


def measure_ramp(document: Document, measure: Callable[[Document], FinishedRun]) -> FinishedRun:
    """Measures a cell; if it has a ramp, at each of its rates, with the steps in the outcome.

    The figures of the outcome itself are those without a limit.
    """
    ramp = cast(LoadRampDocument | None, document.get("load_ramp"))
    if not ramp:
        return measure(document)
    bare = without_ramp(document)
    full = measure(bare)
    seconds = full.seconds
    top = _step(None, full.outcome)
    steps = [top]

    def measure_step(rate: float) -> LoadStep:
        nonlocal seconds
        finished_run = measure(_limit_rates(bare, full.outcome, rate / top.iops))
        seconds += finished_run.seconds
        steps.append(_step(rate, finished_run.outcome))
        return steps[-1]

    for share in ramp["shares"]:
        measure_step(share * top.iops)
    limit = ramp["p99_ns"]
    best = None if limit is None else _search(steps, limit, measure_step)
    steps.sort(key=lambda step: step.offered_iops or float("inf"))
    outcome = replace(full.outcome, load_ramp=LoadRamp(steps, limit, best))
    return replace(full, outcome=outcome, seconds=seconds)


def without_ramp(document: Document) -> Document:
    """Returns a cell that is measured once, without a limit."""
    return cast(Document, {key: value for key, value in document.items() if key != "load_ramp"})


def _search(steps: Sequence[LoadStep], limit_ns: int, measure_step: Callable[[float], LoadStep]) -> float | None:
    """Returns the highest measured IOPS with a 99th percentile below the limit, None without one.

    The percentile is taken to rise with the rate: the interval between the last step below the
    limit and the first one above it is halved.
    """
    by_rate = sorted(steps, key=lambda step: step.offered_iops or step.iops)
    first_above = next((step for step in by_rate if _p99(step) > limit_ns), None)
    if first_above is None:
        return by_rate[-1].iops
    steps_below = by_rate[: by_rate.index(first_above)]
    low = steps_below[-1].iops if steps_below else 0.0
    best = steps_below[-1].iops if steps_below else None
    high = first_above.offered_iops or first_above.iops
    for _ in range(RAMP_SEARCHES):
        rate = (low + high) / 2
        step = measure_step(rate)
        if _p99(step) > limit_ns:
            high = rate
        else:
            low = rate
            best = step.iops
    return best


def _p99(step: LoadStep) -> float:
    """Returns the larger 99th percentile of reads and writes, ns."""
    return max((latency.get("p99", 0.0) for latency in step.latency_ns.values()), default=0.0)


def _step(rate: float | None, outcome: Outcome) -> LoadStep:
    iops = outcome.read.iops + outcome.write.iops
    figures = {}
    for kind in KINDS:
        latency = outcome.latency(kind)
        if latency.count:
            known = {key: getattr(latency, key) for key in FIGURES}
            figures[kind] = {key: float(value) for key, value in known.items() if value}
    return LoadStep(iops, figures, rate)


def _limit_rates(document: Document, outcome: Outcome, share: float) -> Document:
    """Returns the cell with every job limited to a share of the rates that it reached."""
    groups = {group.name: group for group in outcome.groups}
    jobs = []
    for job in cast(Sequence[Mapping[str, Any]], document["jobs"]):
        group = groups[job["name"]]
        rates = [group.read.iops * share, group.write.iops * share]
        options = job.get("options")
        if options is None:  # the simulator's own form
            jobs.append({**job, "rate_iops": sum(rates) / job["numjobs"]})
            continue
        processes = int(options.get("numjobs", "1"))
        # fio limits each direction of each process separately; 0 would be no limit.
        rate_option = ",".join(str(max(1, round(rate / processes))) for rate in rates)
        jobs.append({**job, "options": {**options, "rate_iops": rate_option}})
    return cast(Document, {**document, "jobs": jobs})
