"""Tables of the hosts and groups of a trace that consists of shards."""

from collections.abc import Iterator, Sequence

from blklab.report import formatting
from blklab.report.tables.base import TextTable, figures, pruned, text
from blklab.report.view import ProfileView
from blklab.text import printable
from blklab.trace.shards.figures import Figures

NOTE = "devices of a host added up, without those that get their I/O from others; times of different shards are laid"
NOTE += " over each other in figures over time"


def summary(view: ProfileView) -> Iterator[TextTable]:
    """Yields the tables of groups and hosts, if there are any."""
    if view.shards is not None:
        yield _table("Groups", view.shards["groups"], "")
        yield _table("Hosts", view.shards["hosts"], NOTE)


def _table(title: str, rows: Sequence[Figures], note: str) -> TextTable:
    headings = figures("shards", "I/Os", "bytes", "time", "IOPS", "read p50", "read p99", "write p50", "write p99")
    cells = [
        [
            printable(row["name"]),
            formatting.count(row["shards"]),
            formatting.count(row["ios"]),
            formatting.size(row["bytes"]),
            formatting.duration(row["observed_ns"]),
            formatting.number(row["iops"]),
            *(
                formatting.duration(value)
                for value in (row["read_p50_ns"], row["read_p99_ns"], row["write_p50_ns"], row["write_p99_ns"])
            ),
        ]
        for row in rows
    ]
    return pruned(
        TextTable(title, [text(""), *headings], cells, note, spare=("time", "shards", "read p50", "write p50"))
    )
