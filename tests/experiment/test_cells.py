"""From files to cells: the examples, the matrix, fio's semantics, queues by kernel, capacities."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blklab import kernels
from blklab.devices import stock_models
from blklab.errors import BlklabError, UsageError
from blklab.experiment import capacity, host_cell, load, sim_cell
from blklab.experiment.cells import plan
from blklab.experiment.load import add_targets
from blklab.experiment.overrides import parse_set
from tests.experiment.conftest import SMALL, Expand

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
GOLDEN = Path(__file__).parent / "golden" / "unbalanced-21.json"
"""Cell 21 of examples/unbalanced.toml: `blklab run --dry-run --json` writes it."""


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_expands(path: Path) -> None:
    source = load.read(path)
    form = sim_cell.FORM if "stacks" in source.raw else host_cell.FORM
    result = plan(add_targets(source, ("/srv",) if form.on_targets else ()), form=form)
    assert result.title
    assert [cell.number for cell in result.cells] == list(range(1, len(result.cells) + 1))
    json.dumps(result.as_dict(), allow_nan=False)


def test_a_cell_is_what_the_simulator_takes() -> None:
    cell = plan(ROOT / "examples" / "unbalanced.toml").cells[20]
    assert cell.labels == {"stack": "near", "workload": "rand40read", "kernel": "4.19", "repeat": "1"}
    assert json.loads(json.dumps(cell.document)) == json.loads(GOLDEN.read_text())


def job(expand: Expand, words: str) -> dict[str, Any]:
    text = SMALL.replace('rw = "randread"\nbs = "4k"\nsize = "8GiB"', words)
    (cell,) = expand(text=text).cells
    (document,) = cell.document["jobs"]
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", {"read_share": 1.0, "random": False, "read_sizes": [(4096, 1.0)], "size": 10 << 30}),
        ('rw = "randrw"', {"read_share": 0.5, "random": True}),
        ('rw = "rw"\nrwmixwrite = 30', {"read_share": 0.7}),
        ('bs = "4k,64k"', {"read_sizes": [(4096, 1.0)], "write_sizes": [(65536, 1.0)]}),
        (
            'rw = "randrw"\nbssplit = "4k/60:64k/40,8k"',
            {"read_sizes": [(4096, 0.6), (65536, 0.4)], "write_sizes": [(8192, 1.0)], "align": 4096},
        ),
        ('bssplit = "4k/50:8k/:16k"', {"read_sizes": [(4096, 0.5), (8192, 0.25), (16384, 0.25)]}),
        ("iodepth = 8\niodepth_batch = 0", {"batch_submit": 8}),
        ("iodepth = 8\niodepth_batch = 99", {"batch_submit": 8}),
        ("iodepth = 8\niodepth_low = 2", {"iodepth_low": 2}),
        ("iodepth = 8\niodepth_low = 9", {"iodepth_low": 0}),
        ('random_distribution = "zipf:1.2"', {"distribution": {"kind": "zipf", "theta": 1.2}}),
        ('random_distribution = "pareto:0.3"', {"distribution": {"kind": "pareto", "h": 0.3}}),
        ('random_distribution = "normal:20"', {"distribution": {"kind": "normal", "deviation": 20.0}}),
        (
            'random_distribution = "zoned:60/10:30/20:8/30:2/40"',
            {"distribution": {"kind": "zoned", "zones": [(60, 10), (30, 20), (8, 30), (2, 40)]}},
        ),
        ('size = "50%"\noffset = "10%"', {"size": 5 << 30, "offset": 1 << 30}),
        ('size = "1g"\nio_size = "3g"', {"io_bytes": 3 << 30}),
        ("thinktime = 100", {"thinktime_ns": 100_000, "thinktime_blocks": 1}),
        ('thinktime = "2ms"\nthinktime_blocks = 4', {"thinktime_ns": 2_000_000}),
        ("rate_iops = 100", {"rate_iops": 100.0}),
        ('rate = "1m"\nbs = "4k"', {"rate_iops": 256.0}),
        ('rw = "randrw"\nrwmixread = 75\nrate_iops = 75', {"rate_iops": 100.0}),
        ('runtime = "5s"\ntime_based = true', {"io_bytes": 1 << 62}),
        ("fsync = 32", {"fsync": 32}),
        ("options = { fdatasync = 1 }", {"fsync": 1}),
        ("options = { sync = 1 }", {"fua": True}),
    ],
)
def test_words_mean_what_fio_means(expand: Expand, words: str, expected: dict[str, Any]) -> None:
    document = job(expand, words)
    for key, value in expected.items():
        assert document[key] == (pytest.approx(value) if isinstance(value, float) else value)


@pytest.mark.parametrize(
    ("words", "random_map"),
    [
        ("", "repeated"),
        ("time_based = true\nruntime = 1", "reshuffled"),
        ("options = { norandommap = false }", "repeated"),
        ("options = { norandommap = true }", "off"),
        ('options = { norandommap = "1" }', "off"),
        ('random_distribution = "zipf:1.1"', "off"),
        ("blockalign = 512", "off"),
        ('bssplit = "4k/50:8k/50"', "off"),
    ],
)
def test_random_offsets_repeat_where_those_of_fio_do(expand: Expand, words: str, random_map: str) -> None:
    bs = "" if "bssplit" in words else 'bs = "4k"\n'
    assert expand('bs = "4k"\n', f"{bs}{words}\n").cells[0].document["jobs"][0]["random_map"] == random_map


@pytest.mark.parametrize(
    ("kind", "kernel", "queue"),
    [
        ("ssd", "2.6.24", ("cfq", 128, 31, 512, False, 0)),
        ("hdd", "4.9", ("cfq", 128, 31, 1280, True, 0)),
        ("ssd", "4.19", ("mq-deadline", 64, 32, 1280, False, 2000)),
        ("hdd", "6.1.0-18-amd64", ("mq-deadline", 64, 32, 1280, True, 75000)),
        ("ssd", "6.17", ("mq-deadline", 64, 32, 4096, False, 2000)),
        ("nvme", "4.9", ("none", 1023, 1023, 1280, False, 0)),
        ("nvme", "5.x", None),
        ("throttled", "6.1", ("none", 256, 256, 1280, True, 75000)),
    ],
)
def test_a_kernel_has_its_queues(kind: kernels.Kind, kernel: str, queue: tuple[object, ...] | None) -> None:
    if queue is None:
        with pytest.raises(ValueError, match="invalid kernel"):
            kernels.parse(kernel)
        return
    version = kernels.parse(kernel)
    scheduler, depth = kernels.scheduler(kind, version), kernels.queue_depth(kind, version)
    rotational = kernels.rotational(kind)
    wbt = kernels.wbt_lat_usec(kind, version, scheduler, rotational)
    requests, most = kernels.requests(scheduler, depth), kernels.max_sectors_kb(version)
    assert (scheduler, requests, depth, most, rotational, wbt) == queue


def test_what_a_device_says_goes_before_settings_and_kernel(expand: Expand) -> None:
    (cell,) = expand(
        "[devices.ssd]", '[devices.ssd]\nscheduler = "none"\nqueue_depth = 8\nwrite_cache = "write through"', more=""
    ).cells
    nvme, ssd = (device["queue"] for device in cell.document["devices"])
    assert (ssd["scheduler"], ssd["nr_requests"], ssd["queue_depth"]) == ("none", 8, 8)
    assert (ssd["write_back"], nvme["write_back"]) == (False, False)


@pytest.mark.parametrize(
    ("level", "members", "layout", "expected"),
    [
        ("linear", [10, 20], 2, 30),
        ("raid0", [10, 21], 2, 30),
        ("raid1", [10, None, 20], 2, 10),
        ("raid10", [10, 10, 10], 0x102, 14),
        ("raid10", [10, 10], 0x201, 8),
        ("raid10", [10, 10, 10], 0x10301, 6),
        ("raid5", [11, 10, 10], 2, 20),
        ("raid6", [10, 10, None, 10], 2, 20),
    ],
)
def test_capacities(level: str, members: list[int | None], layout: int, expected: int) -> None:
    # In units of half a chunk.
    sizes = [None if member is None else member << 12 for member in members]
    array = capacity.array(level, layout, 2 << 12, sizes)
    assert array is not None
    assert array.capacity * 512 == expected << 12


@pytest.mark.parametrize(
    ("present", "near", "runs"),
    [("1100", 2, False), ("1010", 2, True), ("0110", 2, True), ("100", 2, False), ("101", 2, True)],
)
def test_raid10_runs_with_a_copy_of_everything(present: str, near: int, runs: bool) -> None:
    lost = [slot for slot, letter in enumerate(present) if letter == "0"]
    array = capacity.array("raid10", near | 0x100, 4096, [1 << 20] * len(present))
    assert array is not None
    assert array.runs_without(lost) == runs


def test_the_matrix_makes_every_combination(expand: Expand) -> None:
    result = expand("[matrix]", '[matrix]\niodepth = [1, 32]\n"near.chunk" = ["64K", "1M"]')
    assert result.varied == ["iodepth", "near.chunk"]
    assert [(cell.labels["iodepth"], cell.labels["near.chunk"]) for cell in result.cells] == [
        ("1", "64K"),
        ("1", "1M"),
        ("32", "64K"),
        ("32", "1M"),
    ]
    assert result.cells[1].document["stack"]["md"]["chunk"] == 1 << 20
    assert result.cells[2].document["jobs"][0]["iodepth"] == 32


def test_repeats_have_seeds_of_their_own(expand: Expand) -> None:
    result = expand("\n[devices.nvme]", "seed = 7\nrepeats = 3\n[devices.nvme]")
    assert [cell.document["seed"] for cell in result.cells] == [7, 8, 9]
    assert result.varied == ["repeat"]


def test_set_replaces_an_axis(expand: Expand) -> None:
    expand("[matrix]", '[matrix]\nkernel = ["4.19", "5.3"]\niodepth = [1, 2]')
    changes = [parse_set("kernel=6.1"), parse_set("nvme.size=9GiB")]
    result = plan(Path("exp.toml"), changes=changes, seed=5, only={"iodepth": "2"})
    (cell,) = result.cells
    assert (cell.number, cell.document["kernel"], cell.document["seed"]) == (2, "6.1", 5)
    assert cell.capacity == 9 << 30


@pytest.mark.parametrize(
    ("text", "bitmap", "lockless"), [("true", True, None), ("false", False, None), ("lockless", True, True)]
)
def test_set_chooses_the_bitmap(expand: Expand, text: str, bitmap: bool, lockless: bool | None) -> None:
    expand()
    (cell,) = plan(Path("exp.toml"), changes=[parse_set(f"near.bitmap={text}"), parse_set("kernel=6.18")]).cells
    md = cell.document["stack"]["md"]
    assert (md["bitmap"], md.get("lockless")) == (bitmap, lockless)


def test_set_may_make_an_array_missing_a_member(expand: Expand) -> None:
    expand()
    (cell,) = plan(Path("exp.toml"), changes=[parse_set("near.members=['nvme', 'missing']")]).cells
    assert [slot["node"] for slot in cell.document["stack"]["md"]["members"]] == [{"device": 0}, None]


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("kernel=9.1", "exp.toml: --set kernel: unknown kernel '9.1': expected MAJOR.MINOR, "
                       "from 2.6 to 7.x, such as 4.19 or 6.1"),
        ("iodpth=1", "exp.toml: --set iodpth: no such key; did you mean 'iodepth'?"),
        ("near.chunk=6k", "exp.toml: --set near.chunk: 6 KiB is not a multiple of 4 KiB"),
        ("chunk=3", "exp.toml: --set chunk: is a key of one stack, expected one of near.chunk"),
        ("latency_ns=300us", "exp.toml: --set latency_ns: has an effect only on throttled devices, and there is none"),
        ("latency_ns=1.5", "exp.toml: --set latency_ns: '1.5ns' is not a whole number of nanoseconds"),
        ("host={ submit = 3 }", "exp.toml: --set host.submit: no such key; did you mean 'submit_ns'?"),
        ("workload=x", "exp.toml: --set workload: there is no workload 'x'; allowed: reads"),
    ],
)  # fmt: skip
def test_set_is_checked(expand: Expand, text: str, output: str) -> None:
    expand()
    with pytest.raises(UsageError) as caught:
        plan(Path("exp.toml"), changes=[parse_set(text)])
    assert str(caught.value) == output


@pytest.mark.parametrize(
    "text",
    ["host={ submit_ns = 200000 }", "host={ submit_ns = '200us' }", "host.submit_ns=200us", "host.submit_ns=200000",
     "settings.host.submit_ns=0.2ms"],
)  # fmt: skip
def test_set_takes_tables_and_their_keys(expand: Expand, text: str) -> None:
    expand()
    result = plan(Path("exp.toml"), changes=[parse_set(text)])
    assert result.cells[0].document["host"]["submit_ns"] == 200_000


@pytest.mark.parametrize(
    ("text", "nanoseconds"), [("300us", 300_000), ("300", 300), ("0.3ms", 300_000), ("7.0", 7), ("0", 0)]
)
def test_settings_are_for_all_devices_without_their_own(expand: Expand, text: str, nanoseconds: int) -> None:
    throttled = '[devices.{}]\nkind = "throttled"\nsize = "10GiB"\n'
    other = throttled.format("b") + 'latency_ns = "1ms"\nrotational = true\n'
    expand(text=SMALL[SMALL.index("[stacks") :].replace('"nvme", "ssd"', '"a", "b"') + throttled.format("a") + other)
    changes = [parse_set(f"latency_ns={text}"), parse_set("rotational=false")]
    devices = plan(Path("exp.toml"), changes=changes).cells[0].document["devices"]
    assert [device["model"]["latency_ns"] for device in devices] == [nanoseconds, 1_000_000]
    assert [device["queue"]["rotational"] for device in devices] == [False, True]


@pytest.mark.parametrize(
    ("key", "text", "nanoseconds"),
    [("reads.thinktime", "1.5", 1500), ("reads.thinktime", "2", 2000), ("settings.ramp_time", "2", 2 * 10**9)],
)
def test_a_number_after_set_has_the_unit_of_its_key(expand: Expand, key: str, text: str, nanoseconds: int) -> None:
    expand()
    document = plan(Path("exp.toml"), changes=[parse_set(f"{key}={text}")]).cells[0].document
    assert nanoseconds in (document["jobs"][0]["thinktime_ns"], document["ramp_ns"])


PAIRS = """
[stacks.single]
device = "nvme"

[workloads.writes]
rw = "randwrite"
size = "1GiB"

[[cells]]
stack = "near"
workload = ["reads", "writes"]

[[cells]]
stack = "single"
workload = "writes"
"""


def test_cells_are_pairs_of_stacks_and_workloads(expand: Expand) -> None:
    def pairs(*changes: str) -> list[tuple[str, str]]:
        cells = plan(Path("exp.toml"), changes=[parse_set(text) for text in changes]).cells
        return [(cell.labels["stack"], cell.labels["workload"]) for cell in cells]

    expand(more="iodepth = [1, 2]" + PAIRS)
    every = [("near", "reads"), ("near", "writes"), ("single", "writes")]
    assert pairs() == [pair for pair in every for _ in range(2)]
    assert pairs("iodepth=1", "stack=[near]") == every[:2]
    assert pairs("iodepth=1", "workload=writes") == every[1:]
    with pytest.raises(UsageError, match=r"--set stack and --set workload: \[\[cells\]\] has no such pair"):
        pairs("stack=single", "workload=reads")


@pytest.mark.parametrize(
    ("old", "new", "output"),
    [
        ('"single"\nw', '"singel"\nw', "cells[1].stack: there is no stack 'singel'; did you mean 'single'?"),
        ('stack = "single"', 'stac = "single"', "no such key; did you mean 'stack'?"),
        ('stack = "single"', "stack = []", "cells[1].stack: is empty: expected at least one"),
        ('"single"\nworkload', '["near"]\nworkload', "cells[1]: found stack 'near' with workload 'writes' twice"),
        ("[stacks.single]", 'stack = ["near"]\n[stacks.single]', "matrix.stack: [[cells]] names each stack as well"),
    ],
)
def test_mistakes_in_pairs(expand: Expand, old: str, new: str, output: str) -> None:
    assert old in PAIRS
    with pytest.raises(UsageError) as caught:
        expand(more=PAIRS.replace(old, new))
    assert output in str(caught.value)


def test_a_list_after_set_is_an_axis_with_or_without_quotes(expand: Expand) -> None:
    expand()
    for text in ('bs=["4k", "8k"]', "bs=[4k, 8k]"):
        result = plan(Path("exp.toml"), changes=[parse_set(text)])
        assert [cell.labels["bs"] for cell in result.cells] == ["4k", "8k"]


def test_one_name_of_two_things_is_told_by_the_key() -> None:
    changes = [parse_set("recorded.speed=2"), parse_set("recorded.bitmap=true")]
    result = plan(ROOT / "examples" / "replay.toml", changes=changes)
    assert result.cells[0].document["replay"]["speed"] == 2
    assert result.cells[0].document["stack"]["md"]["bitmap"]


def test_nested_arrays(expand: Expand) -> None:
    (cell,) = expand(
        "[workloads.reads]",
        '[devices.more]\nmodel = "sm883"\nsize = "10GiB"\ncount = 2\n'
        '[stacks.other]\nlevel = 1\nmembers = ["more"]\nrebuilding = ["more2"]\n'
        '[stacks.top]\nlevel = 0\nchunk = "64K"\nmembers = ["near", "other"]\n[workloads.reads]',
    ).cells
    assert cell.labels["stack"] == "top"
    assert cell.capacity == 20 << 30
    near, other = (slot["node"]["md"] for slot in cell.document["stack"]["md"]["members"])
    assert [slot["node"] for slot in other["members"]] == [{"device": 2}, {"device": 3}]
    assert (near["sync"], other["sync"]) == ("idle", "recover")


def test_calibrated_devices(expand: Expand) -> None:
    text = "[device]\n" + (stock_models.DIRECTORY / "pm983.toml").read_text()
    Path("mine.toml").write_text(text)
    change = ('model = "pm983"', 'calibrated = "mine.toml"\nunits = 3')
    (cell,) = expand(*change).cells
    assert cell.document["devices"][0]["model"]["units"] == 3
    Path("mine.toml").write_text(text.replace("page_bytes", "pagebytes"))
    with pytest.raises(UsageError) as caught:
        expand(*change)
    assert str(caught.value) == (
        "mine.toml: device.page_bytes: is missing; device.pagebytes: no such key; did you mean 'page_bytes'?"
    )


@pytest.mark.parametrize("name", stock_models.names())
def test_stock_models_are_whole(expand: Expand, name: str) -> None:
    (cell,) = expand('model = "pm983"', f'model = "{name}"').cells
    assert cell.document["devices"][0]["model"]["kind"] in {"ssd", "nvme", "hdd", "throttled"}
    assert stock_models.stock(name)["source"]


LINES = [line for path in EXAMPLES for line in path.read_text().splitlines() if line]
LEAVES = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.booleans(),
    st.text(max_size=8),
    st.lists(st.text(max_size=4), max_size=2),
    st.sampled_from(["missing", "4k", "10%", "1e9", "4.19", "zipf:0", "n2", "nvme", "near"]),
)


def mangled(value: Any, draw: st.DrawFn) -> Any:
    """Returns the tables with one thing at a random place replaced, removed or renamed."""
    if not isinstance(value, dict) or not value or draw(st.integers(0, 5)) == 0:
        return draw(LEAVES)
    key = draw(st.sampled_from(sorted(value)))
    match draw(st.integers(0, 6)):
        case 0:
            return {name: inner for name, inner in value.items() if name != key}
        case 1:
            return {**value, draw(st.text(max_size=6)): value[key]}
    return {**value, key: mangled(value[key], draw)}


TABLES = [tomllib.loads(SMALL), *(tomllib.loads(path.read_text()) for path in EXAMPLES[1:])]


@st.composite
def experiments(draw: st.DrawFn) -> Any:
    return mangled(draw(st.sampled_from(TABLES)), draw)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=experiments())
def test_any_tables_work_or_are_refused(raw: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = raw if isinstance(raw, dict) else {"devices": raw}
    monkeypatch.setattr("blklab.experiment.load.read_toml", lambda _path: table)
    refused_or_expanded(tmp_path / "exp.toml")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.sampled_from(LINES), max_size=12), noise=st.text(max_size=12), at=st.integers(0, 200))
def test_any_text_works_or_is_refused(lines: list[str], noise: str, at: int, tmp_path: Path) -> None:
    text = "\n".join(lines)
    path = tmp_path / "exp.toml"
    path.write_bytes((text[:at] + noise + text[at:]).encode("utf-8", "replace"))
    refused_or_expanded(path)


def refused_or_expanded(path: Path) -> None:
    try:
        result = plan(path)
    except BlklabError as error:
        assert "\n" not in str(error)
    else:
        json.dumps(result.as_dict(), allow_nan=False)


def test_raid0_counts_as_the_kernel_does(expand: Expand) -> None:
    text = SMALL.replace('level = 10\nlayout = "n2"\nchunk = "512K"', 'level = 0\nchunk = "12k"')
    text = text.replace("10GiB", "64MiB").replace('size = "8GiB"', "")
    (cell,) = expand(text=text).cells
    # 131,064 sectors of each are whole chunks; 131,048 are left by the mask ~(24 - 1).
    assert cell.capacity == 2 * 512 * (131_064 & ~23)
    assert cell.document["jobs"][0]["size"] == cell.capacity // 4096 * 4096


def test_a_byte_order_mark_is_no_mistake(expand: Expand) -> None:
    assert len(expand(text="\ufeff" + SMALL).cells) == 1


def test_only_builds_the_cells_that_it_chooses(tmp_path: Path) -> None:
    (tmp_path / "exp.toml").write_text((ROOT / "examples" / "unbalanced.toml").read_text())
    every = plan(tmp_path / "exp.toml", changes=[parse_set("iodepth=[1, 2, 4, 8]")])
    built = []
    real = sim_cell.FORM.document

    def document(*words: Any) -> Any:
        built.append(words[2:4])
        return real(*words)

    form = replace(sim_cell.FORM, document=document)
    only = {"stack": "far", "workload": "rand*read", "iodepth": "8"}
    few = plan(tmp_path / "exp.toml", changes=[parse_set("iodepth=[1, 2, 4, 8]")], only=only, form=form)
    assert len(built) == len(few.cells) == 6
    assert few.cells == [cell for cell in every.cells if cell.number in {each.number for each in few.cells}]
    assert few.varied == every.varied


def test_a_replay_that_ignores_the_recorded_times_says_so(tmp_path: Path) -> None:
    path = tmp_path / "replay.toml"
    trace = ROOT / "tests/data/traces/pgbench-raid1"
    text = (
        '[devices]\nd = {{ model = "sm883" }}\n[stacks.s]\ndevice = "d"\n'
        '[workloads.db]\nreplay = "{trace}"\ndevice = "md127"\n{timing}'
    )
    path.write_text(text.format(trace=trace, timing=""))
    assert plan(path).notes == [
        'db: the trace is replayed as fast as 32 I/Os in flight allow; timing = "recorded" keeps its times'
    ]
    for timing in ('timing = "closed"', 'timing = "recorded"'):
        path.write_text(text.format(trace=trace, timing=timing))
        assert not plan(path).notes
