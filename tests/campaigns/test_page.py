"""The report on campaigns as text: sections as the data are, hostile labels inert."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import altair
import pytest

from blklab.campaigns import view
from blklab.campaigns.page import ExperimentReport
from blklab.campaigns.view import ExperimentView
from blklab.compare.metrics import with_direction
from blklab.errors import UsageError
from blklab.outcome import Outcome
from blklab.render import picture_export as export
from blklab.render.shell import AxisChooser, SentenceList
from blklab.render.table import TextTable
from blklab.store import query
from blklab.store.campaigns import Store
from tests.campaigns import made
from tests.campaigns.conftest import Reported, host, labels, simulated
from tests.compare.test_host_outliers import forty
from tests.compare.test_host_outliers import run as of_hosts
from tests.conftest import Run
from tests.trace.test_page import Parsed

HOSTILE = '</script><img src=x onerror=alert(1)>"\u2028|@read'


def plain(html: str) -> str:
    """Returns the page's words."""
    return re.sub(r"<[^>]+>", "", html).replace("\u00a0", " ")


def charts_of(report: Any) -> set[str]:
    return {chart.name for chart in report.charts}


def test_what_was_run_once_is_not_ranked_as_if_it_were_known(store: Store, reported: Reported) -> None:
    once = [result for result in labels() if result["repeat"] == "1"]

    def steady(result: made.Labels) -> tuple[dict[str, Any], list[Any]]:
        iops = {"raid1": 1e5, "near": 1.2e5, "far": 0.8e5}[result["stack"]]
        return made.measured(result, iops), made.series(iops)

    made.add(store, once, steady)
    output = dict(reported("1").sentences)["randread"]
    assert "+20.0 % against raid1; it was run once, so this can be chance" in output


@pytest.mark.usefixtures("both")
def test_prediction_and_measurement_stand_side_by_side(reported: Reported) -> None:
    report = reported("1", "2")
    assert [section.anchor for section in report.sections] == [
        *("result", "cells", "time", "latency", "members", "axes", "diagnostics", "setup", "raw")
    ]
    assert [series.name for series in report.view.series] == ["host", "sim"]
    output = dict(report.sentences)
    assert output["randread"].startswith("host: near is fastest with 122,400 IOPS, +20.0 %")
    assert output["seqread"].startswith("host: near is fastest with 478 MiB/s")
    assert "9 cells were both predicted and measured" in output["Prediction"]
    assert "the median error of predictions is 8 %, the largest +100.0 %" in output["Prediction"]
    assert "the fastest was predicted correctly in 2 of 3 comparisons" in output["Prediction"]
    (prediction,) = [item for item in report.diagnostics if item.code == "prediction"]
    assert "1 are outside of the interval of their prediction" in prediction.message
    assert prediction.severity == "warning"
    assert report.doubts == [
        "Read these figures with care: measurements are outside of the intervals of their predictions."
    ]


def test_the_slow_host_of_a_fleet_is_named(store: Store, reported: Reported) -> None:
    def fleet(result: made.Labels) -> tuple[dict[str, Any], list[Any]]:
        outcome, points = host(result)
        seed = int(result["repeat"])
        return {
            **outcome,
            "hosts": of_hosts(forty(seed, h7=0.6 if result["stack"] == "far" else 1)).as_document()["hosts"],
        }, points

    made.add(store, labels(), fleet, runner="fleet")
    (section,) = [section for section in reported("1").sections if section.anchor == "hosts"]
    lines, *tables = section.items
    assert isinstance(lines, SentenceList)
    by_cell = dict(lines.sentences)
    assert len(by_cell) == len(tables) == 9
    for cell, line in by_cell.items():
        if cell.startswith("far"):
            assert re.fullmatch(
                r"h7 is slower than the other hosts: I/Os a second: 0\.\d+ times .* \(0\.\d+ to 0\.\d+\)", line
            )
        else:
            assert line == "no host differs from the others more than they do from each other"
    assert "h7 is slower" in reported("1").markdown()


def test_before_and_after(store: Store, reported: Reported) -> None:
    def later(result: made.Labels) -> tuple[dict[str, Any], list[Any]]:
        outcome, points = host(result)
        if result["stack"] == "far":
            outcome["read"] = {**outcome["read"], "iops": outcome["read"]["iops"] * 1.5}
        return outcome, points

    made.add(store, labels(), host)
    made.add(store, labels(), later, name="after")
    report = reported("1", "2")
    verdict = [sentence.text for sentence in report.sentences if sentence.topic == "Verdict"]
    assert verdict[0].startswith("after is better than unbalanced in 3 of 9 cells: ")
    assert "far randread: I/Os a second +50.0 %" in verdict[0]
    assert re.search(r"are the same within ±[\d.]+ %\.", verdict[0])
    assert report.sentences[0].topic == "Verdict"


def test_stacks_that_are_alike(store: Store, reported: Reported) -> None:
    def alike(result: made.Labels) -> tuple[dict[str, Any], list[Any]]:
        return made.measured(result, 1e5 + 100 * int(result["repeat"])), made.series(1e5)

    made.add(store, labels(), alike)
    output = dict(reported("1").sentences)["randread"]
    assert output == "no difference between raid1, near and far: the same within ±0.5 %: about 100,200 IOPS."


@pytest.mark.usefixtures("both")
def test_every_chart_follows_the_schema(reported: Reported) -> None:
    report = reported("1", "2")
    assert len(report.charts) == len(charts_of(report)) > 20
    for chart in report.charts:
        spec = export.standalone(chart)
        json.dumps(spec, allow_nan=False)
        altair.Chart.from_dict(spec, validate=True)
        assert chart.table.rows, chart.name
        assert chart.title


@pytest.mark.usefixtures("sweep")
def test_charts_of_a_sweep_follow_the_schema(reported: Reported) -> None:
    report = reported("1")
    for chart in report.charts:
        altair.Chart.from_dict(export.standalone(chart), validate=True)
    axes = {name for name in charts_of(report) if name.startswith("axis-")}
    assert axes == {*("axis-0-0-bw", "axis-0-0-iops", "axis-0-0-mean"), *("axis-1-0-iops", "axis-1-0-mean")}
    by_depth = next(chart for chart in report.charts if chart.name == "axis-1-0-iops")
    assert "Diamonds" in by_depth.note
    assert len(by_depth.table.rows) == 12


@pytest.mark.usefixtures("both")
def test_reads_and_writes_of_a_mix_are_in_one_bar(reported: Reported) -> None:
    report = reported("1")
    random = next(chart for chart in report.charts if chart.name == "fastest-random")
    rows = random.spec["data"]["values"]
    mixed = [row for row in rows if row["name"] == "raid1 rand75read"]
    assert [row["op"] for row in mixed] == ["read", "write"]
    assert mixed[0]["v"] + mixed[1]["v"] == mixed[0]["total"] == 102_000
    assert (mixed[0]["least"], mixed[0]["most"]) == (101_000, 103_000)
    assert mixed[0]["low"] < 101_500
    assert mixed[0]["high"] > 102_500
    assert {row["name"].split()[1] for row in rows} == {"randread", "rand75read"}
    assert "fastest-sequential" in charts_of(report)


def test_an_interval_that_dwarfs_the_bars_is_cut_off_with_an_arrow_that_says_so(
    store: Store, reported: Reported
) -> None:
    def wild(result: made.Labels) -> tuple[dict[str, Any], list[Any]]:
        return made.measured(result, {"1": 1e3, "2": 1e5, "3": 2e5}[result["repeat"]]), []

    made.add(store, labels(), wild)
    chart = next(chart for chart in reported("1").charts if chart.name == "fastest-random")
    rows = chart.spec["data"]["values"]
    largest = max(max(row["total"], row["most"]) for row in rows)
    assert max(row["high"] for row in rows) > 3 * largest
    assert {row["high_drawn"] for row in rows} == {1.5 * largest}
    assert {row["cut"] for row in rows} == {True}
    assert "An arrow: the interval goes on beyond the chart" in chart.note
    arrows = [part for part in chart.spec["layer"] if part["mark"].get("shape") == "triangle-right"]
    assert len(arrows) == 1
    assert "interval_text" in str(arrows)
    altair.Chart.from_dict(export.standalone(chart), validate=True)


@pytest.mark.usefixtures("both")
def test_figures_that_were_not_measured_have_no_section(reported: Reported) -> None:
    anchors = {section.anchor for section in reported("2").sections}
    assert {"raw", "members"}.isdisjoint(anchors)
    assert {"result", "cells", "time", "latency", "axes"} <= anchors


def test_a_run_without_a_series_is_not_drawn_over_time(store: Store, reported: Reported) -> None:
    def bare(result: made.Labels) -> tuple[dict[str, Any], list[Any]]:
        return made.measured(result), []

    made.add(store, labels()[:1], bare, environment={}, raw="")
    report = reported("1")
    assert [s.anchor for s in report.sections if s.anchor in {"time", "raw"}] == []
    ((topic, output),) = report.sentences
    assert topic == "seqread"
    assert output == "391 MiB/s; an I/O takes 1.05 ms, 99 % of them at most 3.50 ms."


@pytest.mark.usefixtures("both")
def test_who_served_what(reported: Reported) -> None:
    report = reported("1")
    (section,) = [section for section in report.sections if section.anchor == "members"]
    tables = [item for item in section.items if isinstance(item, TextTable)]
    tree = next(table for table in tables if table.title == "Devices below raid1")
    assert [row[0] for row in tree.rows] == ["md4", "└ sda3", "  └ sda", "└ nvme0n1p3", "  └ nvme0n1"]
    reads = next(chart for chart in report.charts if chart.name == "members-read")
    shares = {row["device"]: row["share"] for row in reads.spec["data"]["values"]}
    assert shares == {"nvme0n1": 0.6, "sda": 0.4}


@pytest.mark.usefixtures("both")
def test_set_up(reported: Reported) -> None:
    text = plain(reported("1").html())
    assert "32 × AMD EPYC 7302P" in text
    assert (
        "mdadm --create /dev/md4 --level=raid10 --raid-devices=2 --layout=n2 --chunk=512K"
        " --bitmap=none --metadata=1.2 /dev/nvme0n1p3 /dev/sda3" in text
    )
    assert "mkfs.ext4 /dev/md4" in text
    assert "rw=randrw\nbs=4k\niodepth=32" in text
    assert "sdaschedulermq-deadlinenone27 runs" in re.sub(r"\n\s*", "", text)


def test_commands_of_simulated_stacks(store: Store, reported: Reported) -> None:
    stacks = {
        "near": {"level": 10, "members": ["a", "b"], "layout": "o2", "bitmap": True},
        "outer": {"level": 1, "members": ["near", "c", "missing"], "write_mostly": ["c"]},
        "wide": {"level": 0, "members": ["d", "e"], "chunk": "64K"},
        "new": {"level": "raid5", "members": ["f", "g", "h"], "bitmap": "lockless"},
    }
    made.add(store, labels()[:3], host, runner="sim", environment={}, experiment={"stacks": stacks})
    text = plain(reported("1").html())
    assert (
        "mdadm --create /dev/md/near --level=10 --raid-devices=2 --layout=o2 --chunk=512K"
        " --bitmap=internal /dev/a /dev/b" in text
    )
    assert "--bitmap=none /dev/md/near missing --write-mostly /dev/c" in text
    assert "mdadm --create /dev/md/wide --level=0 --raid-devices=2 --chunk=64K /dev/d /dev/e" in text
    assert "--chunk=512K --bitmap=lockless /dev/f /dev/g /dev/h" in text


@pytest.mark.parametrize(
    ("level", "files", "option"),
    [
        ("raid1", {"bitmap/location": "+8"}, " --bitmap=internal"),
        ("raid1", {"bitmap_type": "none bitmap [llbitmap]"}, " --bitmap=lockless"),
        ("raid1", {}, " --bitmap=none"),
        ("raid0", {"bitmap/location": "none"}, ""),
    ],
)
def test_commands_for_arrays_say_which_bitmap(
    store: Store, reported: Reported, level: str, files: dict[str, str], option: str
) -> None:
    """mdadm 4.4 asks without --bitmap, and with --run makes none; mdadm 4.2 refuses even `none` for RAID-0."""
    md = {"level": level, "raid_disks": "2", "metadata_version": "1.2", "members": {"sda": {"slot": "0"}}, **files}
    environment = {**made.ENVIRONMENT, "devices": [{"name": "md4", "md": md}]}
    made.add(store, labels()[:1], host, environment=environment)
    shown = f"mdadm --create /dev/md4 --level={level} --raid-devices=2{option} --metadata=1.2 /dev/sda"
    assert shown in plain(reported("1").html())


def hostile(store: Store) -> None:
    def outcome(result: made.Labels) -> tuple[dict[str, Any], list[Any]]:
        figures, points = host({**result, "workload": "randread", "stack": "raid1"})
        figures["devices"][1]["name"] = figures["devices"][2]["name"] = HOSTILE
        figures["warnings"] = [HOSTILE]
        return figures, points

    every = [{**item, "stack": HOSTILE + item["stack"], HOSTILE: "1"} for item in labels()]
    environment = {**made.ENVIRONMENT, "programs": {HOSTILE: HOSTILE}}
    made.add(
        store,
        every,
        outcome,
        title=HOSTILE,
        raw=HOSTILE,
        environment=environment,
        experiment={"stacks": {HOSTILE: {"level": 1, "members": [HOSTILE]}}},
        options=lambda actual: {"rw": "randread" if actual["stack"] else "", "name": HOSTILE},
    )


def test_hostile_labels_are_text(store: Store, reported: Reported) -> None:
    hostile(store)
    report = reported("1", title=HOSTILE, command=HOSTILE)
    result = Parsed(report.html())
    assert "img" not in {tag for tag, _ in result.elements}
    assert len(result.scripts) == 3
    data = json.loads(result.scripts[0])
    assert data.keys() == {"config", "specs", "chooser"}
    for tag, attributes in result.elements:
        assert tag not in {"link", "iframe", "base", "object"}
        assert not attributes.keys() & {"src", "srcset", "action"}
        assert not any(name.startswith("on") for name in attributes)
    for chart in report.charts:
        altair.Chart.from_dict(export.standalone(chart), validate=True)
    lines = report.markdown().splitlines()
    assert "\u2028" not in report.markdown()
    fenced = False
    for line in lines:
        fenced ^= line.startswith("```")
        assert fenced or "<img" not in line


@pytest.mark.usefixtures("both")
def test_what_the_chooser_begins_with(reported: Reported) -> None:
    def chooser(**rest: str) -> AxisChooser:
        (section,) = [s for s in reported("1", **rest).sections if s.anchor == "axes"]
        (item,) = [item for item in section.items if isinstance(item, AxisChooser)]
        return item

    names = {field["name"]: field["title"] for field in chooser().fields}
    assert names[chooser().start["x"]] == "stack"
    assert names[chooser(metric="p99").start["y"]] == "99th percentile of the latency of reads"
    assert names[chooser(x="workload").start["x"]] == "workload"
    assert len(chooser().rows) == 9
    with pytest.raises(UsageError, match="--x: no label 'iodepht'"):
        reported("1", x="iodepht")
    with pytest.raises(UsageError, match="no metric 'iosp'; did you mean"):
        reported("1", metric="iosp")


@pytest.mark.usefixtures("both")
def test_a_label_that_only_one_campaign_has_makes_series_of_it(store: Store, reported: Reported) -> None:
    every = [{**item, "kernel": kernel} for item in labels() for kernel in ("4.19", "5.3")]
    made.add(store, every, host, runner="sim", raw="")
    report = reported("1", "3")
    assert [series.name for series in report.view.series] == ["host", "sim kernel=4.19", "sim kernel=5.3"]


def test_raw_output_beyond_the_budget_is_not_loaded(store: Store) -> None:
    made.add(store, [{"workload": "randread", "repeat": str(at)} for at in range(60)], host_alike, raw="x" * 60_000)
    (selection,) = query.open_selections(None, ["1"])[1]
    loaded: list[int] = []

    def raw(run: int) -> str:
        loaded.append(run)
        return query.raw(store, run)

    report = ExperimentReport(ExperimentView([selection], lambda run: query.points(store, run)), raw)
    assert len(loaded) == 22  # of 48 KiB each, and 1 MiB in all
    assert "22 runs of 60; the others: blklab runs show" in plain(report.html())


def test_figures_of_all_cells_are_computed_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    made.add(store, [{"workload": "randread", "iodepth": str(at)} for at in range(1, 41)], host_alike, raw="")
    (selection,) = query.open_selections(None, ["1"])[1]
    asked: list[str] = []

    def direction_of(metric: str, sides: Sequence[Sequence[Outcome]]) -> str:
        asked.append(metric)
        return with_direction(metric, sides)

    monkeypatch.setattr(view, "with_direction", direction_of)
    cells = ExperimentView([selection], lambda run: query.points(store, run)).cells
    for metric in ("iops", "p99", "read.bw", "p99"):
        assert all(cell.value(metric) for cell in cells)
    assert asked == ["iops", "p99", "read.bw"]


def host_alike(result: made.Labels) -> tuple[dict[str, Any], list[Any]]:
    return made.measured(result, 1e5 + 10 * int(result.get("repeat", result.get("iodepth", "1")))), []


def test_raw_output_is_cut(store: Store, reported: Reported) -> None:
    made.add(store, labels()[:1], host, raw="x" * 100_000)
    html = reported("1").html()
    assert html.count("x" * 40_000) == 1
    assert "x" * 50_000 not in html
    assert "--raw" in plain(html)


def test_a_page_of_long_runs_stays_small(store: Store, reported: Reported) -> None:
    def long(result: made.Labels) -> tuple[dict[str, Any], list[Any]]:
        return made.measured(result, 1e5), made.series(1e5, 3600)

    every = [
        {"stack": stack, "workload": f"randread{n}", "repeat": str(repeat)}
        for stack in ("raid1", "near")
        for n in range(8)
        for repeat in (1, 2)
    ]
    made.add(store, every, long, options=lambda _: {"rw": "randread"}, raw="")
    report = reported("1")
    chart = next(chart for chart in report.charts if chart.name == "time-0")
    rows = chart.spec["data"]["values"]
    assert len(rows) == 2 * 240
    assert all(row["l"] <= row["v"] <= row["h"] for row in rows)
    assert "15 intervals in a point" in chart.note
    assert chart.table.rows[0][2] == "3,600"
    assert len(report.html()) < 3_000_000


def test_imported_runs_say_less(store: Store, reported: Reported) -> None:
    def imported(result: made.Labels) -> tuple[dict[str, Any], list[Any]]:
        outcome = made.measured(result)
        for direction in ("read", "write"):
            clat = dict(outcome[direction]["clat_ns"])
            clat.pop("bins", None)
            few = {"p99_9": None, "p99_99": None}
            if result["workload"] == "randread":  # only a mean is known
                few |= dict.fromkeys(made.QUANTILES)
            outcome[direction] = {**outcome[direction], "clat_ns": clat | few}
        for device in outcome["devices"]:
            device.update(dict.fromkeys(("sectors", "merges", "ticks_ns", "busy_ns", "queue_ns")))
        for key in ("cpu", "settings", "steady"):
            del outcome[key]
        return outcome, []

    made.add(store, labels(), imported, runner="fio", environment={}, raw="")
    report = reported("1")
    assert "imported" in report.facts
    assert report.diagnostics == []
    assert {"result", "cells", "latency", "members"} <= {item.anchor for item in report.sections}
    for chart in report.charts:
        altair.Chart.from_dict(export.standalone(chart), validate=True)
    assert "<html" in report.html()


def test_commands_have_their_time(store: Store, reported: Reported) -> None:
    def command(result: made.Labels) -> tuple[dict[str, Any], list[Any]]:
        outcome = made.measured(result, 0)
        took = 10**9 * (1 if result["stack"] == "near" else 2) + 10**6 * int(result["repeat"])
        item = {"wall_ns": took, "user_ns": 10**8, "system_ns": 10**8, "status": 0}
        outcome |= {"command": {"argv": ["git", "grep"], "runs": [item, item]}, "devices": []}
        return outcome, []

    made.add(store, labels(), command)
    report = reported("1")
    text = plain(report.html())
    assert "near is fastest with 1.00 s, −50.0 % against raid1" in text
    assert "Commands" in text


def test_fsyncs_without_latency_have_no_chart(store: Store, reported: Reported) -> None:
    """A simulated disk whose cache is safe completes flushes at once; a logarithmic axis has no 0."""
    nothing = dict.fromkeys(("mean", "min", "max", *made.QUANTILES), 0)
    sync = {"total_ios": 20, "iops": 2.0, "lat_ns": {"count": 20, **nothing}}
    made.add(store, labels(), lambda result: ({**made.measured(result), "sync": sync}, []))
    names = [chart.name for chart in reported("1").charts if chart.name.startswith("percentiles")]
    assert names
    assert not any(name.endswith("-sync") for name in names)


def test_load_ramps_have_a_chart(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "ramp.toml"
    path.write_text(
        '[devices.ssd]\nmodel = "pm983"\n[stacks.one]\ndevice = "ssd"\n[workloads.mixed]\n'
        'rw = "randrw"\niodepth = 8\nrate = "ramp"\np99_below = "1s"\n'
        '[settings]\nruntime = "50ms"\n'
    )
    assert run("run", path).status == 0
    assert run("report", "ramp", "-o", tmp_path / "r.md").status == 0
    page = (tmp_path / "r.md").read_text()
    assert "Latency against load" in page
    assert "reads: 99th percentile of the latency" in page
    assert "writes: 99th percentile of the latency" in page
    assert "The highest measured rate with a 99th percentile below 1 s: " in page


def scales(spec: Any) -> Iterator[tuple[str, list[str]]]:
    """Yields what tells the lines of a chart apart: the looks of each channel."""
    for value in spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ():
        yield from scales(value)
    for channel in ("color", "opacity", "strokeDash") if isinstance(spec, dict) else ():
        if isinstance(found := spec.get(channel), dict) and "range" in found.get("scale", {}):
            yield channel, [str(look) for look in found["scale"]["range"]]


@pytest.mark.parametrize("runner", ["host", "sim"])
def test_charts_draw_as_many_campaigns_as_look_different(store: Store, reported: Reported, runner: str) -> None:
    for _ in range(9):
        made.add(store, labels()[:6], simulated if runner == "sim" else host, runner=runner)
    made.add(store, labels()[:6], host)
    report = reported(*(str(number) for number in range(1, 11)))
    assert "charts have the first 6 of 10 campaigns" in report.facts
    assert len(report.view.series) == 10
    found = [(chart.name, *scale) for chart in report.charts for scale in scales(chart.spec)]
    assert found
    assert [(name, channel) for name, channel, looks in found if len(set(looks)) < len(looks)] == []
