"""Cells for the lab: virtual disks, stacks that only a real kernel has, jobs in fio's words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blklab.errors import UsageError
from blklab.experiment import lab_cell, sim_cell
from blklab.experiment.cell_form import CellForm
from blklab.experiment.cells import ExperimentPlan, plan
from blklab.experiment.documents import extent, writes

EXPERIMENT = """
[devices.fast]
kind = "throttled"
iops_total = 1000
size = "1GiB"

[devices.slow]
kind = "throttled"
size = "2GiB"

[stacks.top]
level = 1
members = ["fast", "slow"]

[workloads.reads]
rw = "randread"
bs = "4k"
size = "64MiB"
runtime = "1s"
"""

ARRAY = 'level = 1\nmembers = ["fast", "slow"]'
VOLUME = 'kind = "lvm"\nmembers = ["fast", "slow"]'
CACHE = 'kind = "lvmcache"\norigin = "slow"\ncache = "fast"'
BCACHE = 'kind = "bcache"\nbacking = "slow"\ncache = "fast"'

Expand = Callable[..., ExperimentPlan]


@pytest.fixture
def expand(tmp_path: Path) -> Expand:
    def expand(old: str = "", new: str = "", *, more: str = "", form: CellForm = lab_cell.FORM) -> ExperimentPlan:
        assert old in EXPERIMENT
        path = tmp_path / "exp.toml"
        path.write_text((EXPERIMENT.replace(old, new, 1) if old else EXPERIMENT) + more)
        return plan(path, form=form)

    return expand


@pytest.fixture
def document(expand: Expand) -> Callable[..., dict[str, Any]]:
    def document(*arguments: str, **named: str) -> dict[str, Any]:
        (cell,) = expand(*arguments, **named).cells
        return dict(cell.document)

    return document


Document = Callable[..., dict[str, Any]]


def test_a_cell(document: Document) -> None:
    result = document()
    assert result["lab"] == {"scale": "auto", "cpus": 2, "memory": 1 << 30}
    assert [device["name"] for device in result["devices"]] == ["fast", "slow"]
    assert result["devices"][0]["virtual"] == {
        "logical_block_size": 512,
        "physical_block_size": 512,
        "discard": True,
        "queue": {"rotational": "1"},
    }
    assert result["stack"]["md"]["level"] == "raid1"
    assert result["failures"] == []
    assert result["filesystem"] is None
    assert result["room"] <= 1 << 30
    assert (result["runtime_ns"], result["ramp_ns"]) == (10**9, 0)
    ((options, name),) = [(job["options"], job["name"]) for job in result["jobs"]]
    assert name == "reads"
    assert (options["size"], options["direct"]) == (str(64 << 20), "1")
    assert result["alone"] == [], "throttled disks say their rates themselves"
    assert result["settings"] == {}


def test_a_queue_is_a_power_of_two(document: Document) -> None:
    result = document('kind = "throttled"\niops_total = 1000', 'kind = "throttled"\nqueue_depth = 31')["devices"][0]
    assert result["virtual"]["queue_depth"] == 16
    assert result["queue"]["queue_depth"] == 31


def test_a_disk_says_what_it_is(document: Document) -> None:
    result = document(
        'kind = "throttled"\niops_total = 1000',
        'kind = "throttled"\nlogical_block_size = 4096\ndiscard = false\nrotational = true\n'
        'scheduler = "none"\nnr_requests = 32\nwbt_lat_usec = 0\nwrite_cache = "write through"\n'
        "latency_ns = 2_000_000",
    )["devices"][0]
    assert result["virtual"] == {
        "logical_block_size": 4096,
        "physical_block_size": 4096,
        "discard": False,
        "queue": {"rotational": "1", "scheduler": "none", "nr_requests": "32", "wbt_lat_usec": "0"},
    }
    assert result["queue"]["rotational"] is True
    assert result["queue"]["write_back"] is False
    assert result["model"]["latency_ns"] == 2_000_000


def test_settings_are_changed_in_the_guest(document: Document) -> None:
    result = document(
        more='[settings]\nread_ahead = 128\nscheduler = "none"\nkernel = "6.12"\n'
        '[lab]\nscale = 3\ncpus = 4\nmemory = "2GiB"\n'
    )
    assert result["kernel"] == "6.12"
    assert result["settings"] == {"read_ahead_kb": "128"}
    queues = [device["virtual"]["queue"] for device in result["devices"]]
    assert queues == [{"rotational": "1", "scheduler": "none"}] * 2
    assert result["lab"] == {"scale": 3.0, "cpus": 4, "memory": 2 << 30}


def test_a_devices_own_setting_goes_before_all_devices_and_its_order_is_kept(document: Document) -> None:
    result = document(
        'kind = "throttled"\niops_total = 1000',
        'kind = "throttled"\niops_total = 1000\nnr_requests = 32\nrotational = false',
        more='[settings]\nnr_requests = 64\nscheduler = "mq-deadline"\n',
    )
    own, other = (device["virtual"]["queue"] for device in result["devices"])
    # A change of scheduler resets nr_requests: it comes before.
    assert list(own.items()) == [("rotational", "0"), ("scheduler", "mq-deadline"), ("nr_requests", "32")]
    assert other["nr_requests"] == "64"


def test_what_is_tried_replaces_what_is_given(tmp_path: Path) -> None:
    path = tmp_path / "exp.toml"
    path.write_text(
        '[devices.a]\nkind = "throttled"\nsize = "1GiB"\nscheduler = "none"\n'
        '[stacks.bare]\ndevice = "a"\n[workloads.r]\nrw = "randread"\n'
        '[sweep]\nscheduler = ["mq-deadline"]\nnomerges = [2]\n'
    )
    usual, scheduler, merges = (cell.document for cell in plan(path, form=lab_cell.FORM).cells)
    assert usual["devices"][0]["virtual"]["queue"]["scheduler"] == "none"
    assert scheduler["devices"][0]["virtual"]["queue"]["scheduler"] == "mq-deadline"
    assert (scheduler["settings"], merges["settings"]) == ({}, {"nomerges": "2"})


def test_a_volume(document: Document) -> None:
    result = document(ARRAY, VOLUME + '\nstripes = 2\nstripe_size = "128KiB"')["stack"]
    assert result["lvm"] == {
        "name": "top",
        "members": [{"device": 0}, {"device": 1}],
        "level": None,
        "stripes": 2,
        "stripe_size": 128 << 10,
        "region_size": 2 << 20,
    }


def test_caches(document: Document) -> None:
    result = document(ARRAY, CACHE + '\nmode = "writeback"\nstate = "warm"')["stack"]["lvmcache"]
    assert (result["origin"], result["cache"]) == ({"device": 0}, {"device": 1})
    assert (result["mode"], result["state"], result["chunk"]) == ("writeback", "warm", 64 << 10)
    result = document(ARRAY, BCACHE + '\nsequential_cutoff = "0"')["stack"]["bcache"]
    assert (result["backing"], result["cache"]) == ({"device": 0}, {"device": 1})
    assert (result["sequential_cutoff"], result["mode"]) == (0, "writethrough")


def test_members_that_fail(document: Document) -> None:
    fail = '\nbitmap = true\nfail = [{ member = "slow", at = "500ms", re_add = "900ms" }]'
    assert document(ARRAY, ARRAY + fail)["failures"] == [
        {"array": "top", "slot": 1, "at_ns": 5 * 10**8, "re_add_ns": 9 * 10**8}
    ]


def test_a_file_leaves_room_for_its_filesystem(document: Document) -> None:
    result = document(more='[settings]\nfilesystem = "xfs"\n')
    assert result["filesystem"] == {"type": "xfs"}
    assert 0.85 < result["room"] / (1 << 30) < 0.9


def test_a_journal_on_another_device(document: Document) -> None:
    result = document(ARRAY, 'device = "fast"', more='[settings]\nfilesystem = { type = "ext4", journal = "slow" }\n')
    assert result["stack"] == {"device": 0}
    assert result["filesystem"] == {"type": "ext4", "journal": {"device": 1}}
    assert [device["name"] for device in result["devices"]] == ["fast", "slow"]


def test_models_are_simulated_alone_within_the_smallest(document: Document) -> None:
    result = document('kind = "throttled"\niops_total = 1000', 'model = "pm983"')
    (alone,) = result["alone"]
    assert alone["name"] == "reads"
    assert alone["size"] == 64 << 20


@pytest.mark.parametrize(
    ("old", "new", "output"),
    [
        (ARRAY, VOLUME + "\nstripes = 3", "stacks.top.stripes: found 3, expected at most the number of members"),
        (ARRAY, VOLUME + '\nstripe_size = "12KiB"', "stacks.top.stripe_size: 12 KiB is not a power of two"),
        (ARRAY, CACHE + '\nchunk = "40KiB"', "stacks.top.chunk: 40 KiB is not a multiple of 32 KiB"),
        (ARRAY, CACHE + '\nmode = "writearound"', "stacks.top.mode: "),
        (ARRAY, CACHE + '\nmetdata = "8MiB"', "stacks.top.metdata: no such key; did you mean 'metadata'?"),
        (ARRAY, CACHE.replace("slow", "missing"), "stacks.top.origin: expected one device or stack"),
        (ARRAY, CACHE.replace("slow", "fast"), "stacks.top.cache: 'fast' is used twice"),
        (ARRAY, CACHE.replace("slow", "slwo"), "no device or stack 'slwo'; did you mean 'slow'?"),
        (ARRAY, CACHE.replace("slow", "top"), "'top' would contain itself: top → top"),
        (ARRAY, BCACHE + '\nbucket = "96KiB"', "stacks.top.bucket: 96 KiB is not a power of two"),
        (ARRAY, BCACHE + '\nbucket = "4MiB"', "stacks.top.bucket: the cache device has 256 buckets"),
        (ARRAY, BCACHE + "\nwriteback_percent = 41", "stacks.top.writeback_percent: "),
        (
            ARRAY,
            ARRAY.replace("level = 1", 'kind = "zfs"'),
            "stacks.top.kind: found 'zfs', expected one of lvm, lvmcache, bcache, writecache, delay; for an md array,"
            " set level",
        ),
        (
            ARRAY,
            ARRAY + '\nfail = [{ member = "other", at = "1s" }]',
            "stacks.top.fail[0].member: there is no device or stack 'other'",
        ),
        (
            ARRAY,
            ARRAY + '\nfail = [{ member = "slow", at = "2s", re_add = "1s" }]',
            "stacks.top.fail: 'slow' must fail before it is re-added",
        ),
        (
            ARRAY,
            ARRAY.replace("1", "0") + '\nfail = [{ member = "slow", at = "2s" }]',
            "stacks.top.fail: level 0 has no redundancy",
        ),
        ("[stacks.top]", "[lab]\nscale = 0.5\n[stacks.top]", "lab.scale: found 0.5, expected 1 or more"),
        ("[stacks.top]", '[lab]\nscale = "big"\n[stacks.top]', "lab.scale: "),
        ("[stacks.top]", "[lab]\ncpus = 0\n[stacks.top]", "lab.cpus: "),
        ("[stacks.top]", '[lab]\nmemory = "64MiB"\n[stacks.top]', "lab.memory: "),
        ("[stacks.top]", "[lab]\nspeed = 1\n[stacks.top]", "lab.speed: no such key"),
        (
            "[stacks.top]",
            '[settings]\nfilesystem = "ext3"\n[stacks.top]',
            "settings.filesystem: 'ext3' is not available in the lab: use ext4 or xfs",
        ),
        (
            "[stacks.top]",
            '[stacks.other]\nlevel = 1\nmembers = ["slow", "missing"]\nbitmap = "lockless"\n[stacks.top]',
            "stacks.other.bitmap: a lockless bitmap needs mdadm 4.6, which no lab image has: use --on sim",
        ),
        ('size = "2GiB"', 'size = "2GiB"\nlogical_block_size = 1000', "devices.slow.logical_block"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(expand: Expand, old: str, new: str, output: str) -> None:
    with pytest.raises(UsageError) as caught:
        expand(old, new)
    assert output in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_simulator_refuses_what_only_a_kernel_has(expand: Expand) -> None:
    failing = ARRAY + '\nfail = [{ member = "slow", at = "1s" }]'
    with pytest.raises(UsageError, match=r"stacks\.top\.fail: .*--on lab"):
        expand(ARRAY, failing, form=sim_cell.FORM)


@pytest.mark.parametrize(("cache", "kind"), [(CACHE, "lvmcache"), (BCACHE, "bcache")])
def test_caches_are_simulated(expand: Expand, cache: str, kind: str) -> None:
    (cell,) = expand(ARRAY, cache, form=sim_cell.FORM).cells
    assert cell.document["stack"][kind]["state"] == "empty"


def test_a_writecache_has_the_names_of_its_table(expand: Expand) -> None:
    words = 'kind = "writecache"\norigin = "slow"\ncache = "fast"\nmax_age = "5s"'
    for form in (sim_cell.FORM, lab_cell.FORM):
        (cell,) = expand(ARRAY, words, form=form).cells
        node = cell.document["stack"]["writecache"]
        assert (node["max_age_ns"], node["high_watermark"], node["low_watermark"]) == (5 * 10**9, 50, 45)
    with pytest.raises(UsageError, match=r"stacks\.top\.low_watermark: 60 is more than high_watermark, 50"):
        expand(ARRAY, words + "\nlow_watermark = 60")


TRACE = Path(__file__).parents[1] / "data" / "traces" / "pgbench-raid1"
LARGE = f"""
[devices.large]
kind = "throttled"
size = "4GiB"
[devices.ssd]
model = "sm883"
size = "4GiB"
[stacks.large]
device = "large"
[stacks.flash]
device = "ssd"
[workloads.trace]
replay = "{TRACE}"
device = "md127"
[[cells]]
stack = "large"
workload = "trace"
"""


def test_a_trace_is_a_log_for_fio(expand: Expand) -> None:
    (cell,) = expand(more=LARGE.replace('"md127"', '"md127"\niodepth = 4')).cells
    (job,) = cell.document["jobs"]
    assert [job["options"][key] for key in ("rw", "iodepth")] == ["randrw", "4"]
    replay = cell.document["replay"]
    assert (replay["timed"], replay["name"], replay["ios"]) == (False, "md127", 17_929)
    assert writes(cell.document)
    assert extent(cell.document) == int(job["options"]["size"]) == 2_017_763_328
    timed = '"md127"\ntiming = "recorded"\nspeed = {}\nruntime = "2s"'
    made = expand(more=LARGE.replace('"md127"', timed.format(1.255)) + "[settings]\nmax_ios = 9")
    (cell,) = made.cells
    assert (cell.document["runtime_ns"], cell.document["jobs"][0]["options"]["replay_time_scale"]) == (2 * 10**9, "125")
    assert made.notes == [
        "workloads.trace.speed: fio counts it in per cent: 1.25",
        "workloads.trace.timing: fio collects completions late at recorded times: latencies are left out",
        "settings.max_ios has no effect on workload 'trace': no job of fio counts its I/Os",
    ]
    with pytest.raises(UsageError, match=r"workloads\.trace\.speed: fio replays at 0\.01 or more"):
        expand(more=LARGE.replace('"md127"', timed.format(0.001)))
    with pytest.raises(UsageError, match=r"trace\.replay: the trace of 'md127' reaches to 1\.88 GiB, beyond the end"):
        expand(more=LARGE.replace('stack = "large"', 'stack = "top"'))


def test_a_modelled_disk_is_as_fast_as_it_is_with_such_a_load(expand: Expand) -> None:
    (cell,) = expand(more=LARGE.replace('stack = "large"', 'stack = "flash"')).cells
    (alone,) = cell.document["alone"]
    (size, _), *others = alone["read_sizes"]
    assert (alone["read_share"], alone["iodepth"], alone["random"], others) == (0.92, 32, True, [])
    assert size % 512 == 0
    assert 4096 <= size <= 65536


def test_commands_are_not_in_the_guest(expand: Expand) -> None:
    with pytest.raises(
        UsageError,
        match=r"workloads\.reads\.command: commands do not run in "
        r"the lab",
    ):
        expand('rw = "randread"\nbs = "4k"\nsize = "64MiB"\nruntime = "1s"', 'command = ["true"]')


@pytest.mark.parametrize(
    ("second", "place"),
    [
        ('at = "1s"', r"fail\[1\]\.at: 1 s is after the end of the load, which takes 1 s with its ramp"),
        ('at = "999ms", re_add = "5s"', r"fail\[1\]\.re_add: 5 s is after the end of the load"),
    ],
)
def test_what_would_happen_after_the_load(expand: Expand, second: str, place: str) -> None:
    fails = f'{ARRAY}\nfail = [{{ member = "slow", at = "0s" }}, {{ member = "slow", {second} }}]'
    with pytest.raises(UsageError, match=rf"stacks\.top\.{place}"):
        expand(ARRAY, fails)
    ramp = '\n[settings]\nramp_time = "10s"\n'
    assert len(expand(ARRAY, fails, more=ramp).cells[0].document["failures"]) == 2
    assert expand('runtime = "1s"', "", more=f"[stacks.other]\n{fails}\n").cells
