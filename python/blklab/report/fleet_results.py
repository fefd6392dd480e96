"""Results of a fleet: a table of hosts, and those that differ from the others."""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean, median
from typing import TYPE_CHECKING

from blklab.analysis.host_outliers import FEWEST, HostOutlier, outliers, values
from blklab.analysis.metrics import METRICS
from blklab.outcome import Outcome
from blklab.report import formatting
from blklab.report.tables.base import TextTable, figures, text
from blklab.text import by_key, printable

if TYPE_CHECKING:
    from blklab.runners.base import RunResult

LATENCIES = ("read.p50", "read.p99", "write.p50", "write.p99")


def grouped(results: "Sequence[RunResult]") -> "list[list[RunResult]]":
    """Returns the results of fleets, the repeats of a cell together."""
    fleets = [result for result in results if result.outcome.hosts]
    labels = (tuple(pair for pair in result.labels.items() if pair[0] != "repeat") for result in fleets)
    return list(by_key(zip(labels, fleets, strict=True)).values())


def as_dicts(results: "Sequence[RunResult]") -> list[dict[str, object]]:
    """Returns results for `--json`; those of fleets with the outliers among their hosts."""
    by_number = {
        result.number: [asdict(outlier) for outlier in outliers([each.outcome for each in group])]
        for group in grouped(results)
        for result in group
    }
    return [
        result.as_dict() | ({"outliers": by_number[result.number]} if result.number in by_number else {})
        for result in results
    ]


def hosts_table(cell: str, outcomes: Sequence[Outcome]) -> TextTable:
    """Returns the table of the hosts of a cell: means of its repeats."""
    names = list(dict.fromkeys(host.name for outcome in outcomes for host in outcome.hosts))
    different = outliers(outcomes)
    metrics = [name for name in LATENCIES if any(values(outcome, name) for outcome in outcomes)]
    means = {name: _means(outcomes, name) for name in ("iops", *metrics)}
    middle = median(means["iops"].values()) if means["iops"] else None
    rows = [
        [
            printable(name),
            formatting.NONE if iops is None else f"{iops:,.0f}",
            formatting.NONE if iops is None or not middle else f"{100 * iops / middle:.0f} %",
            *(formatting.duration(means[metric].get(name)) for metric in metrics),
            _clock(outcomes, name),
        ]
        for name in names
        for iops in [means["iops"].get(name)]
    ]
    columns = [text("host"), *figures("IOPS", "of median", *(metric.replace(".", " ") for metric in metrics), "clock")]
    strong = frozenset(names.index(outlier.host) for outlier in different)
    note = "of median: share of the median host's IOPS. clock: how far its clock is ahead of this one's."
    return TextTable(f"{printable(cell)}: hosts", columns, rows, note, strong=strong)


def outlier_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """Returns a sentence about each outlier, or that there are none if there are enough hosts to tell."""
    different = outliers(outcomes)
    if different:
        return [_sentence(outlier) for outlier in different]
    count = min(len(values(outcome, "iops")) for outcome in outcomes)
    return ["no host differs from the others more than they do from each other"] if count >= FEWEST else []


def _sentence(outlier: HostOutlier) -> str:
    interval = "set repeats = 3 or more for an interval"
    if outlier.low is not None and outlier.high is not None:
        interval = f"{formatting.number(1 + outlier.low)} to {formatting.number(1 + outlier.high)}"
    return (
        f"{printable(outlier.host)} is {'slower' if outlier.worse else 'faster'} than the other hosts: "
        f"{METRICS[outlier.metric].what}: {formatting.number(1 + outlier.change)} times the median ({interval})"
    )


def _means(outcomes: Sequence[Outcome], metric: str) -> dict[str, float]:
    samples = by_key(pair for outcome in outcomes for pair in values(outcome, metric).items())
    return {name: fmean(of_host) for name, of_host in samples.items()}


def _clock(outcomes: Sequence[Outcome], name: str) -> str:
    hosts = [host for outcome in outcomes for host in outcome.hosts if host.name == name]
    clock = next((host.clock for host in hosts if host.clock), None)
    if clock is None:
        return formatting.NONE
    sign = "-" if clock.offset_ns < 0 else "+"
    return f"{sign}{formatting.duration(abs(clock.offset_ns))} ± {formatting.duration(clock.error_ns)}"
