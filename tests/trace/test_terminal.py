import io
import re

import pytest
from rich.console import Console

from blklab.render import terminal
from blklab.render.table import BAR, TableColumn, TextTable
from blklab.trace import histogram
from blklab.trace import terminal as trace_terminal
from blklab.trace.view import ProfileView


def printed(view: ProfileView, width: int, *, all_devices: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False)
    trace_terminal.stat(console, view, all_devices=all_devices)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_nothing_is_wider_than_the_terminal_nor_squeezed(pgbench: ProfileView, width: int) -> None:
    text = printed(pgbench, width, all_devices=True)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    # Names stand whole, on one line.
    for name in ("└ md127", "jbd2/dm-0-8", "queued on vdc itself", "kworker/u4:2"):
        assert re.search(rf"^ *{re.escape(name)} ", text, re.M), name


def test_a_narrow_terminal_is_told_what_it_misses(pgbench: ProfileView) -> None:
    assert "Columns hidden (terminal too narrow): rate" in printed(pgbench, 80)
    assert "Columns hidden" not in printed(pgbench, 120)


def test_it_begins_with_five_sentences(pgbench: ProfileView) -> None:
    text = printed(pgbench, 100)
    topics = re.findall(r"^(Load|Pattern|Latency|Locality|Origin) ", text, re.M)
    assert topics == ["Load", "Pattern", "Latency", "Locality", "Origin"]
    assert text.index("Origin ") < text.index("\nDevices\n") < text.index("\nOperations\n")
    assert "Others: --device dm-0 and --device vdc, or --all-devices." in text


def test_all_devices_are_shown_when_asked_for(pgbench: ProfileView) -> None:
    text = printed(pgbench, 100, all_devices=True)
    assert len(re.findall(r"^Load ", text, re.M)) == 5
    assert "--all-devices" not in text


def test_errors_are_shown(scsi: ProfileView) -> None:
    assert re.search(r"read +ENODATA \(61\) +6", printed(scsi, 100))


def test_bars() -> None:
    assert terminal.bar(1, 1, 4) == "████"
    assert terminal.bar(0.5, 1, 4) == "██"
    assert terminal.bar(1e-9, 1, 4) == "▏"
    assert terminal.bar(0, 1, 4) == ""
    assert terminal.bar(1, 0, 4) == ""


def test_columns_are_left_out_in_the_order_of_the_table() -> None:
    columns = [TableColumn("name", numeric=False), TableColumn("much"), BAR, TableColumn("more")]
    table = TextTable("t", columns, [["x", "1", "0.5", "2"]], spare=("", "more"))
    assert terminal.fit_table(table, 80) == (table, [])
    shown, left_out = terminal.fit_table(table, 12)
    assert [column.heading for column in shown.columns] == ["name", "much"]
    assert left_out == ["more"]


def test_histograms(pgbench: ProfileView) -> None:
    console = Console(file=io.StringIO(), width=80, markup=False, emoji=False, highlight=False)
    result = [(pgbench.focus, build(pgbench.focus)) for build in histogram.KINDS.values()]
    histogram.print_histograms(console, result)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"^  4 KiB  █+ +13,680 +83 % +83 %", text, re.M)
    assert "Q2C of reads" in text
    assert "I/Os in flight" in text
    assert "Seek distances" in text


def test_sizes_are_binned_around_multiples_of_4_kib(pgbench: ProfileView) -> None:
    reads = histogram.sizes(pgbench.focus)[0]
    first = reads.bins[0]
    assert (first.label, first.low, first.high, first.count) == ("4 KiB", 2048, 6144, 13680)
    assert reads.total == 16471


def test_depths_add_up_to_the_time_observed(pgbench: ProfileView) -> None:
    depth = histogram.depth(pgbench.focus)[0]
    assert depth.total == pgbench.focus.data.in_flight.time_ns
    assert [item.label for item in depth.bins][-2:] == ["17–32", "33–64"]
