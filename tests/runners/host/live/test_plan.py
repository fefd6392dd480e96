"""What a live tuning would change, and what it refuses."""

import os
from typing import Any

import pytest

from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.runners.host.live import slices
from blklab.runners.host.live.plan import parse_setting
from blklab.runners.host.live.plan_report import describe_plan
from blklab.runners.host.live.slices import divide_time, shuffle_values
from tests.runners.host.live.conftest import QUICK, plan_for, value_of
from tests.system.machine import Machine

SECOND = 10**9


def test_an_arrays_scheduler_is_that_of_its_disks(array: Machine) -> None:
    plan = plan_for(array, "scheduler", ["none", "mq-deadline"])
    assert plan.values == ("as is", "none")
    assert [(file.device, file.present) for file in plan.files] == [("sda", "mq-deadline"), ("sdb", "mq-deadline")]
    assert plan.notes == (
        "scheduler is mq-deadline now: 'as is' measures this value",
        f"{array.roots.dev}/md5 is on the same disks: the change meets its load as well",
    )
    assert sorted(node.name for node in plan.arrays) == ["md0", "md5"]
    assert value_of(array, "sda/queue/scheduler") == "none [mq-deadline] bfq"


def test_an_arrays_read_ahead_is_its_own(array: Machine) -> None:
    plan = plan_for(array, "read_ahead_kb", ["128", "4096"])
    assert plan.values == ("as is", "128", "4096")
    assert [file.device for file in plan.files] == ["md0"]
    assert plan.metric == "bw"


def test_a_disk_by_itself(array: Machine) -> None:
    plan = plan_for(array, "nr_requests", ["32"], "sda")
    assert [file.device for file in plan.files] == ["sda"]
    assert plan.metric == "iops"  # The latency of a disk does not count the wait for a free request
    assert [node.name for node in plan.arrays] == ["md0"]


def test_a_loop_device_is_changed_alone(array: Machine) -> None:
    array.device("loop0", "7:0", loop__backing_file="/dev/sda", queue__scheduler="[none] bfq")
    plan = plan_for(array, "scheduler", ["bfq"], "loop0")
    assert [changed.device for changed in plan.files] == ["loop0"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("write_cache=write through", "write_cache: cannot be changed under a load: expected one of scheduler, nr_req"),
        ("vm.dirty_ratio=5", "vm.dirty_ratio: cannot be changed under a load"),
        ("wbt_lat_usec=0", "wbt_lat_usec: cannot be changed under a load"),
        ("scheduler", "expected KEY=VALUE,VALUE"),
        ("scheduler=none,", "expected KEY=VALUE,VALUE"),
        ("scheduler=none,none", "the same value twice"),
        ("nr_requests=2", "found '2', expected a number from 4 to 65536"),
        ("read_ahead_kb=many", "found 'many', expected a number from 0"),
        ("read_ahead_kb=129", "expected a multiple of 4"),
        ("stripe_cache_size=16", "expected a number from 17 to 32768"),
        ("sync_speed_max=0", "expected a number from 1 to 2147483647 or 'system'"),
    ],
)
def test_settings_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_setting(text)


@pytest.mark.parametrize(
    ("key", "values", "device", "message"),
    [
        ("scheduler", ["kyber"], "md0", "sda: scheduler: found 'kyber', expected one of none, mq-deadline, bfq"),
        ("scheduler", ["mq-deadline"], "md0", "mq-deadline is the present value: name another one"),
        ("read_ahead_kb", ["64"], "sda1", "a partition has no settings by itself: name its disk, .*/sda"),
        ("stripe_cache_size", ["512"], "sda", "stripe_cache_size is a setting of arrays, and this is a disk"),
        ("stripe_cache_size", ["512"], "md0", "not found on md0"),
        ("scheduler", ["none"], "nosuch", "nosuch: no device has this id"),
    ],
)
def test_devices_and_values_that_are_refused(
    array: Machine, key: str, values: list[str], device: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        plan_for(array, key, values, device)


def test_other_kinds_of_devices_are_refused(array: Machine) -> None:
    array.device("dm-0", "253:0", slaves="md0", dm__name="vg-lv", queue__read_ahead_kb="128")
    with pytest.raises(UsageError, match="found a device of kind dm, expected a whole disk or an md array"):
        plan_for(array, "read_ahead_kb", ["64"], "dm-0")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"md__degraded": "1"}, "degraded: 1 of its members missing; live tuning needs a complete array"),
        ({"md__sync_action": "recover"}, "found sync_action recover, expected idle: wait until it ends: mdadm --wait"),
        ({"md__sync_action": "check"}, "found sync_action check, expected idle"),
        ({"md__array_state": "readonly"}, "found array_state readonly, expected an array in use"),
    ],
)
@pytest.mark.parametrize("device", ["md0", "sda"])
def test_arrays_that_are_not_well(array: Machine, files: dict[str, str], message: str, device: str) -> None:
    array.write(array.roots.sys / "block/md0", files)
    with pytest.raises(BlklabError, match=f"md0: {message}"):
        plan_for(array, "nr_requests", ["32"], device)


def test_an_array_on_the_same_disks_counts(array: Machine) -> None:
    array.write(array.roots.sys / "block/md5", {"md__degraded": "1"})
    with pytest.raises(BlklabError, match="md5: degraded"):
        plan_for(array, "scheduler", ["none"], "md0")


def test_sync_speeds_need_a_check(array: Machine) -> None:
    with pytest.raises(BlklabError, match="sync speeds have an effect only while an array is checked; start a check"):
        plan_for(array, "sync_speed_min", ["50000"])
    array.write(array.roots.sys / "block/md0", {"md__sync_action": "recover"})
    with pytest.raises(BlklabError, match="found sync_action recover, expected check"):
        plan_for(array, "sync_speed_min", ["50000"])
    array.write(array.roots.sys / "block/md0", {"md__sync_action": "check"})
    plan = plan_for(array, "sync_speed_min", ["50000", "system"])
    assert plan.values == ("as is", "50000")


@pytest.mark.parametrize(("user", "message"), [(1000, "run it as root"), (0, "containers have a read-only /sys")])
def test_files_that_cannot_be_written(array: Machine, monkeypatch: pytest.MonkeyPatch, user: int, message: str) -> None:
    def refuse(*_arguments: Any) -> bool:
        return False

    monkeypatch.setattr(os, "access", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(EnvironmentLacks, match=message):
        plan_for(array, "scheduler", ["none"])


def test_the_memory_of_stripes_is_told(array: Machine) -> None:
    plan = plan_for(array, "stripe_cache_size", ["8192", "32768"], "md5")
    assert plan.notes[0] == "stripe_cache_size 32768 takes 256 MiB of memory on md5, with 2 members"


def test_a_stripe_cache_that_takes_the_memory_is_refused(array: Machine) -> None:
    array.write(array.roots.proc, {"meminfo": "MemTotal: 900000 kB\nMemAvailable:   800000 kB\n"})
    with pytest.raises(UsageError, match="32768 takes 256 MiB of memory on md5, more than a quarter of the 781 MiB"):
        plan_for(array, "stripe_cache_size", ["32768"], "md5")


def test_time_is_divided() -> None:
    two_hours = divide_time(7200 * SECOND, 2)
    assert (two_hours.slice_ns, two_hours.settle_ns, two_hours.blocks) == (30 * SECOND, 5 * SECOND, 120)
    short = divide_time(256 * SECOND, 2)
    assert (short.slice_ns, short.blocks) == (16 * SECOND, slices.FEWEST_BLOCKS)
    day = divide_time(86400 * SECOND, 3)
    assert (day.slice_ns, day.blocks) == (240 * SECOND, 120)
    with pytest.raises(UsageError, match=r"--for 2m 00s: too short: 2 values with 8 slices of 15 s each need 4m 00s"):
        divide_time(120 * SECOND, 2)


def test_slices_are_balanced_and_in_random_order() -> None:
    values = ("as is", "none", "bfq")
    order = shuffle_values(values, 50, seed=3)
    blocks = [[value for number, value in order if number == block] for block in range(1, 51)]
    assert all(sorted(block) == sorted(values) for block in blocks)
    assert {block[0] for block in blocks} == set(values)
    assert order == shuffle_values(values, 50, seed=3)
    assert order != shuffle_values(values, 50, seed=4)


def test_the_plan_is_told(array: Machine) -> None:
    plan = plan_for(array, "scheduler", ["none"], limit_ms=20)
    text = "\n".join(describe_plan(plan, QUICK, "no trace can be recorded (blktrace is not installed)"))
    for expected in (
        "as is (mq-deadline)",
        f"{array.roots.sys}/devices/block/sda/queue/scheduler    mq-deadline",
        "4 slices of 40 ms, 2 of each value; seed 1",
        "the mean latency of md0 is above 20 ms in 2 successive intervals of 10 ms",
        "The mean, not the 99th percentile: no trace can be recorded (blktrace is not installed).",
        "Arrays: md0, md5: if one becomes degraded or begins to sync, blklab restores and ends.",
    ):
        assert expected in text
    assert "recorded with blktrace, is above 20 ms" in "\n".join(describe_plan(plan, QUICK, ""))
