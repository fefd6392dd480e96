"""Charts over time: the same axis, stalls on each, series that add up."""

from pathlib import Path
from typing import Any

import pytest

from blklab.render import chart_theme as theme
from blklab.render.chart import Chart
from blklab.trace import page
from blklab.trace.charts import over_time
from blklab.trace.tables import life as life_tables
from blklab.trace.tables import load
from blklab.trace.view import ProfileView
from tests.trace.conftest import life, read_trace
from tests.trace.generated import write_trace


def chart(view: ProfileView, name: str) -> Chart:
    return next(chart for chart in page.charts(page.sections(view)) if chart.name == name)


def scale(drawn: Chart) -> dict[str, Any]:
    colours: dict[str, Any] = drawn.spec["layer"][0]["encoding"]["color"]["scale"]
    return dict(zip(colours["domain"], colours["range"], strict=True))


def test_every_chart_over_time_has_the_same_axis_and_the_stalls(pgbench: ProfileView) -> None:
    charts = [c for c in page.charts(page.sections(pgbench)) if "layer" in c.spec and "x" in c.spec.get("encoding", {})]
    assert len(charts) >= 12
    assert len({tuple(c.spec["encoding"]["x"]["scale"]["domain"]) for c in charts}) == 1
    for drawn in charts:
        (stall,) = [part for part in drawn.spec["layer"] if part["mark"].get("color") == "@error"]
        assert {"t": 44.222642, "t2": 44.941258} in stall["data"]["values"], drawn.name
        assert drawn.note.endswith("Red: stalls, in which nothing completed although I/Os were in flight.") or (
            drawn.name in {"working-set"}
        )


def test_latency_is_a_band_from_the_median_to_the_99th_percentile(pgbench: ProfileView) -> None:
    band, median = chart(pgbench, "latency-over-time").spec["layer"][:2]
    assert (band["encoding"]["y"]["field"], band["encoding"]["y2"]["field"]) == ("p50", "p99")
    assert median["encoding"]["y"]["field"] == "p50"


def test_processes_add_up(pgbench: ProfileView) -> None:
    drawn = chart(pgbench, "processes-over-time")
    width = pgbench.focus.data.processes_over_time.width_ns / 1e9
    rows = drawn.spec["data"]["values"]
    total = sum(value for row in rows for key, value in row.items() if key.startswith("v")) * width
    assert total == pytest.approx(pgbench.focus.ios, rel=1e-3)
    colours = scale(drawn)
    assert list(colours) == ["fio", "postgres", "jbd2/dm-0-8", "kworker/u4:2", "kworker/u4:3", "others"]


def test_members_keep_their_colours_which_are_not_those_of_processes(pgbench: ProfileView) -> None:
    members, utilisation = scale(chart(pgbench, "devices-over-time")), scale(chart(pgbench, "utilisation"))
    assert list(members) == ["vdc", "vdd"]
    assert members == {name: utilisation[name] for name in members}
    assert not set(theme.MEMBERS) & set(theme.PROCESSES)
    assert not {"@read", "@write", "@discard", "@flush"} & {*theme.MEMBERS, *theme.PROCESSES}


def test_utilisation_is_the_share_of_busy_time(pgbench: ProfileView) -> None:
    rows = chart(pgbench, "utilisation").spec["data"]["values"]
    mean = sum(row["v0"] for row in rows[:-1]) * 4 * (1 << 28) / 83e9
    idle = pgbench.focus.data.in_flight.idle_share
    assert idle is not None
    assert mean == pytest.approx(1 - idle, abs=0.01)


def test_the_slowest_ios_are_listed(scsi: ProfileView) -> None:
    table = life_tables.slowest(scsi.focus, 2)
    assert [row[:3] for row in table.rows] == [["13.572 s", "69.3 ms", "write"], ["12.289 s", "64.9 ms", "read"]]
    assert table.rows[0][3:8] == ["3072", "4 KiB", "dd", "G2I 40.1 ms", "256"]
    assert table.rows[0][8] == "274 writes"


def test_a_stall_says_what_ended_it(pgbench: ProfileView) -> None:
    table = life_tables.stalls(pgbench.focus)
    longest = max(pgbench.focus.data.slow.stalls, key=lambda stall: stall.length_ns)
    assert (longest.start_ns, longest.length_ns) == (44_222_642_060, 718_616_430)
    assert ["44.223 s", "719 ms", "write of postgres", "–"] in table.rows


def test_a_trace_of_one_io(tmp_path: Path) -> None:
    view = read_trace(write_trace(tmp_path / "t", life(5, 0)))
    assert [drawn.name for drawn in over_time.charts(view)] == [
        "iops", "throughput", "latency-over-time", "depth-over-time", "utilisation"
    ]  # fmt: skip
    assert load.over_time(view.focus).rows[0][0] == "IOPS"
    assert "Slowest I/Os" in page.render(view)
