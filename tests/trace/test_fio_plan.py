"""From a profile to figures and to the text of a job."""

import copy
import re
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import BlklabError
from blklab.trace.fio.jobfile import JobTarget, render
from blklab.trace.fio.plan import OffsetZone, fifth_by_chance, judge_loop, make_plan, poisson_rate


def document(value: Any, name: str = "") -> Any:
    """The objects of a profile of these keys; some of its keys have tables."""
    if isinstance(value, list):
        return [document(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {key: document(item, key) for key, item in value.items()}
    return fields if name in {"ops", "life", "latency_ns"} else SimpleNamespace(**fields)


def op(sizes: dict[int, int], **more: int) -> dict[str, Any]:
    ios = sum(sizes.values())
    total = sum(size * count for size, count in sizes.items())
    exact = [{"bytes": size, "count": count} for size, count in sizes.items()]
    return {"ios": ios, "fua": 0, "sizes": {"exact": exact, "mean_bytes": total / ios if ios else None}, **more}


def level(most: int, p95: int, busy: float, idle: float) -> Any:
    return {"max": most, "p95": p95, "mean_when_busy": busy, "idle_share": idle, "histogram": []}


def profile(**changes: Any) -> Any:
    streams = {"sequential_share": 0.1, "peak_concurrent_streams": 1}
    device: dict[str, Any] = {
        "device": "9,127",
        "name": "md127",
        "first_ns": 0,
        "last_ns": 10 * 10**9,
        "in_flight": level(8, 8, 7.0, 0.05),
        "load": {
            "ops": {
                "read": op({4096: 700, 8192: 0}),
                "write": op({4096: 200, 16384: 100}),
                "discard": op({}),
                "flush": {"ios": 0},
            },
            "first_sector": 0,
            "end_sector": (1 << 20) + 1,
        },
        "life": {"all": {"completed": 1000}},
        "pattern": {"read_streams": streams, "write_streams": dict(streams), "arrivals": {"pattern": "bursty"}},
        "hotness": {
            "accesses": 1000,
            "unique_blocks": 900,
            "unique_bytes": 900 * 4096,
            "hottest": [{"fraction": 0.2, "io_share": 0.28}],
            "rank_curve": [],
            "zipf": {"verdict": "uniform", "exponent": 0.1},
        },
    }
    for path, value in changes.items():
        at = device
        *parents, last = path.split("__")
        for parent in parents:
            at = at[parent]
        at[last] = value
    inputs = [{"name": "md127", "files": ["md127.blktrace.0"]}]
    return document({"focus": "9,127", "devices": [device], "trace": {"inputs": inputs, "device_names": []}})


def options(text: str, section: str = "global") -> dict[str, str]:
    body = re.split(r"^\[(.+)\]$", text, flags=re.M)
    lines = dict(zip(body[1::2], body[2::2], strict=True))[section].splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def job(section: str, **changes: Any) -> dict[str, str]:
    return options(render(make_plan(profile(**changes)), JobTarget()), section)


def test_a_mixed_closed_load() -> None:
    text = render(make_plan(profile()), JobTarget())
    result = options(text, "md127-mixed")
    assert result["rw"] == "randrw"
    assert result["rwmixread"] == "70"
    assert result["percentage_random"] == "90,90"
    assert result["bssplit"] == "4096/100,4096/67:16384/33"
    assert result["iodepth"] == "8"
    assert "rate_iops" not in result
    assert options(text)["norandommap"] == "1"


def test_the_default_target_is_no_device() -> None:
    assert options(render(make_plan(profile()), JobTarget()))["filename_format"] == "blklab.fio"
    named = render(make_plan(profile()), JobTarget(filename="/dev/disk/by-path/pci-0:1"))
    assert options(named)["filename"] == "/dev/disk/by-path/pci-0\\:1"


def test_an_open_load_has_rates() -> None:
    result = job("md127-mixed", in_flight=level(50, 5, 2.0, 0.5))
    assert result["rate_iops"] == "70,30"
    assert result["rate_process"] == "poisson"
    assert result["iodepth"] == "50"


def test_rates_of_mixed_sizes_are_rounded_so_that_the_mix_is_right() -> None:
    result = job(
        "md127-mixed", in_flight=level(50, 5, 2.0, 0.5), last_ns=95 * 10**9, load__ops__read=op({4096: 350, 65536: 350})
    )
    assert (result["rate_iops"], result["rate_process"]) == ("7,3", "poisson")


def test_a_process_that_waits_for_each_io_pauses_between_them() -> None:
    result = job("md127-mixed", in_flight={**level(1, 1, 1.0, 0.6), "time_ns": 10**10})
    assert (result["iodepth"], result["thinktime"]) == ("1", "6000")
    assert "rate" not in result


def test_rates_too_low_for_whole_ios_are_in_bytes() -> None:
    slow = job("md127-mixed", in_flight=level(50, 5, 2.0, 0.5), last_ns=900 * 10**9)
    assert "rate_iops" not in slow
    reads, writes = slow["rate"].split(",")
    assert int(reads) == round(700 / 900 * 4096)
    assert int(writes) == round(300 / 900 * (4096 * 67 + 16384 * 33) / 100)


def test_flushes_part_reads_and_writes() -> None:
    changes = {"load__ops__flush": {"ios": 100}}
    text = render(make_plan(profile(**changes)), JobTarget())
    assert options(text, "md127-writes")["fdatasync"] == "3"
    assert options(text)["flow_id"] == "1"
    flows = [int(options(text, f"md127-{name}")["flow"]) for name in ("reads", "writes")]
    assert flows == [1000, round(400 / 700 * 1000)]  # a flush counts as one of fio's I/Os


def test_flushes_of_an_open_load_have_a_section() -> None:
    opened = render(make_plan(profile(load__ops__flush={"ios": 100}), loop="open"), JobTarget())
    flushed = options(opened, "md127-flushed")
    assert (flushed["bssplit"], flushed["fdatasync"]) == ("4096/100", "1")
    assert flushed["rate"] == str(10 * 4096)
    assert "rate_process" not in flushed  # it would crash fio 3.33
    mixed = options(opened, "md127-mixed")
    assert "fdatasync" not in mixed
    assert mixed["rate_iops"] == "70,20"
    assert mixed["bssplit"] == "4096/100,4096/50:16384/50"


def test_more_flushes_than_writes_of_a_size() -> None:
    opened = render(make_plan(profile(load__ops__flush={"ios": 290}), loop="open"), JobTarget())
    assert options(opened, "md127-writes").keys() >= {"rate", "fdatasync"}
    assert "rate_process" not in options(opened, "md127-writes")


def test_discards_have_a_section() -> None:
    text = render(make_plan(profile(load__ops__discard=op({1 << 20: 10}))), JobTarget())
    result = options(text, "md127-trims")
    assert (result["rw"], result["ioengine"]) == ("randtrim", "falloc")
    device = JobTarget(filename="/dev/null0", is_device=True)
    text = render(make_plan(profile(load__ops__discard=op({1 << 20: 10}))), device)
    assert "ioengine" not in options(text, "md127-trims")


def test_sequential_streams_side_by_side() -> None:
    streams = {"sequential_share": 0.99, "peak_concurrent_streams": 4}
    changes = {"load__ops__write": op({}), "pattern__read_streams": streams, "in_flight": level(32, 32, 30.0, 0.0)}
    result = job("md127-reads", **changes)
    assert (result["rw"], result["numjobs"], result["iodepth"]) == ("read", "4", "8")
    assert int(result["offset_increment"]) == int(result["size"])


def test_zipf_and_fua() -> None:
    zipf = {"verdict": "zipf", "exponent": 1.0}
    changes = {"hotness__zipf": zipf, "load__ops__write": op({4096: 10}, fua=9)}
    text = render(make_plan(profile(**changes)), JobTarget())
    assert options(text)["random_distribution"] == "zipf:1.005"  # fio refuses 1
    assert options(text, "md127-mixed")["sync"] == "dsync"


def test_hot_blocks_become_zones() -> None:
    curve = [{"fraction": 0.01, "io_share": 0.4}, {"fraction": 0.2, "io_share": 0.6}]
    hot = {
        "hotness__zipf": {"verdict": "not zipf", "exponent": None},
        "hotness__hottest": [{"fraction": 0.2, "io_share": 0.6}],
        "hotness__rank_curve": curve,
    }
    plan = make_plan(profile(**hot))
    assert plan.locality.zones[0] == OffsetZone(40, 9 * 4096)
    assert sum(zone.percent for zone in plan.locality.zones) == 100
    assert sum(zone.bytes for zone in plan.locality.zones) == plan.locality.size
    large = plan.locality.for_sizes_from(65536, 4096)
    assert sum(zone.bytes for zone in large.zones) == large.size - 65536 + 4096
    assert large.zones[0] == OffsetZone(40, 65536)


def test_a_hostile_name_stays_in_its_comment() -> None:
    made = profile(name="md0\nfilename=/dev/sda\x1b[31m")
    made.trace.inputs[0].name = "x]\n[evil]\nfilename=/dev/sda"
    text = render(make_plan(made), JobTarget())
    assert options(text)["filename_format"] == "blklab.fio"
    assert "\x1b" not in text
    assert len(re.findall(r"^\[", text, re.M)) == 2


def test_without_completions_the_depth_is_a_guess() -> None:
    plan = make_plan(profile(life={"all": {"completed": 0}}))
    assert (plan.loop, plan.jobs[0].iodepth, plan.depth_known) == ("open", 32, False)
    assert "unknown in the trace" in render(plan, JobTarget())


def test_nothing_to_reproduce() -> None:
    empty = copy.deepcopy(profile())
    empty.focus = None
    with pytest.raises(BlklabError, match="nothing to reproduce"):
        make_plan(empty)
    with pytest.raises(BlklabError, match="no read, write or discard"):
        make_plan(profile(load__ops__read=op({}), load__ops__write=op({})))


@pytest.mark.parametrize(
    ("most", "p95", "busy", "idle", "ios", "loop"),
    [
        (128, 128, 89.2, 0.03, 1000, "closed"),  # fio, 4 jobs of depth 32
        (4, 4, 2.5, 0.21, 1000, "closed"),
        (52, 5, 2.5, 0.38, 1000, "open"),  # PostgreSQL
        (517, 23, 8.4, 0.46, 1000, "open"),  # git
        (1, 1, 1.0, 0.1, 1000, "closed"),
        (1, 1, 1.0, 0.9, 1000, "closed"),  # a process that waits for each I/O, and pauses
        (1, 1, 1.0, 0.9, 50, "open"),  # too few I/Os for two at the same time by chance
    ],
)
def test_closed_or_open(most: int, p95: int, busy: float, idle: float, ios: int, loop: str) -> None:
    assert judge_loop(document(level(most, p95, busy, idle)), ios)[0] == loop


@given(st.floats(1.001, 500))
def test_poisson_rate_gives_the_mean_of_those_touched(mean: float) -> None:
    import math

    rate = poisson_rate(mean)
    assert rate / -math.expm1(-rate) == pytest.approx(mean, rel=1e-3)


@given(st.floats(1.0, 200))
def test_the_hottest_fifth_has_at_least_a_fifth(mean: float) -> None:
    assert 0.199 <= fifth_by_chance(mean) <= 1.0
