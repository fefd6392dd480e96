"""Tables of load ramps: latency against offered load."""

from blklab.outcome import LoadRamp
from blklab.report import formatting
from blklab.report.tables.base import TableColumn, TextTable

FIGURES = ("p50", "p99")


def ramp_table(title: str, ramp: LoadRamp) -> TextTable:
    """Returns the table of a ramp, with the rate that was searched below it."""
    kinds = [kind for kind in ("read", "write") if any(kind in step["latency_ns"] for step in ramp["steps"])]
    columns = [TableColumn("offered IOPS"), TableColumn("IOPS")]
    columns += [TableColumn(f"{kind} {figure}") for kind in kinds for figure in FIGURES]
    rows = []
    for step in ramp["steps"]:
        offered = step["offered_iops"]
        latencies = [step["latency_ns"].get(kind, {}).get(figure) for kind in kinds for figure in FIGURES]
        rows.append(
            [
                "no limit" if offered is None else f"{offered:,.0f}",
                f"{step['iops']:,.0f}",
                *(formatting.duration(latency) for latency in latencies),
            ]
        )
    return TextTable(title, columns, rows, best_rate(ramp))


def best_rate(ramp: LoadRamp) -> str:
    """Returns a sentence about the highest rate below the limit; empty without a limit."""
    limit, best = ramp["p99_limit_ns"], ramp["best_iops"]
    if limit is None:
        return ""
    under = f"99th percentile below {formatting.duration(limit)}"
    if best is None:
        return f"No measured rate has a {under}."
    return f"The highest measured rate with a {under}: {best:,.0f} IOPS."
