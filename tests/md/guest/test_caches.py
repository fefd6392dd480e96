"""`blklab cache status` and `cache check` on caches of a real kernel."""

import json
from collections.abc import Callable, Sequence

import pytest

from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest.rig import Rig

SLOW = VirtualDiskShape("slow", 1 << 30)
FAST = VirtualDiskShape("fast", 264 << 20)
BACKING = VirtualDiskShape("backing", 512 << 20)
BUCKETS = VirtualDiskShape("buckets", 320 << 20)

FIO = (
    "fio", "--name=load", "--direct=1", "--ioengine=libaio", "--iodepth=4", "--bs=4k", "--rw=randrw",
    "--rwmixread=80", "--random_distribution=zipf:1.1", "--size=384m", "--rate_iops=480,120",
)  # fmt: skip


def dm_cache(machine: Rig, *options: str) -> str:
    """Makes a dm-cache of 256 MiB with chunks of 64 KiB and returns its path."""
    slow, fast = machine.names([SLOW, FAST])
    for module in ("dm-cache", "dm-cache-smq"):
        machine.run("modprobe", module)
    machine.run("dmsetup", "create", "metadata", "--table", f"0 16384 linear {fast} 0")
    machine.run("dmsetup", "create", "blocks", "--table", f"0 524288 linear {fast} 16384")
    parts = f"/dev/dm-0 /dev/dm-1 {slow}"
    table = f"0 2097152 cache {parts} 128 {len(options)} {' '.join(options)} smq 0"
    machine.run("dmsetup", "create", "cached", "--table", table)
    return "/dev/dm-2"


@pytest.mark.guest
def test_a_dm_cache_counts_as_its_policy_should(rig: Callable[[Sequence[VirtualDiskShape]], Rig]) -> None:
    machine = rig([SLOW, FAST])
    path = dm_cache(machine, "writeback")
    before = machine.blklab("cache", "status", "--json")
    assert before.status == 0, before.stderr
    (cache,) = json.loads(before.stdout)["caches"]
    words = {key: cache[key] for key in ("kind", "title", "mode", "policy", "size", "block", "origin_size", "dirty")}
    assert words == {
        "kind": "dm-cache", "title": "cached", "mode": "writeback", "policy": "smq", "size": 256 << 20,
        "block": 64 << 10, "origin_size": 1 << 30, "dirty": 0,
    }  # fmt: skip
    machine.run("mkdir", "/run/traced")
    blktrace = ["blktrace", "-d", path, "-D", "/run/traced", "-a", "queue", "-a", "complete"]
    with machine.guest.agent.running(blktrace, cwd="/run/traced"):
        machine.run(*FIO, f"--filename={path}", "--number_ios=9000")
    after = machine.blklab("cache", "status", "--json")
    (used,) = json.loads(after.stdout)["caches"]
    assert used["counters"]["read_hits"] > 1000
    assert used["counters"]["promotions"] * (64 << 10) == used["used"]
    assert used["dirty"] <= used["used"]  # less by now, if the guest was idle for a second
    for name, output in (("before", before), ("after", after)):
        machine.guest.agent.write(f"/run/{name}.json", output.stdout)
    files = ("--before", "/run/before.json", "--after", "/run/after.json")
    check = machine.blklab("cache", "check", "/run/traced/dm-2", *files, "--json")
    document = json.loads(check.stdout)
    assert (check.status, document["as_expected"]) == (0, True), check.stdout + check.stderr
    assert document["empty_at_first"] is True
    for figure in document["figures"]:
        # Both ends are those of a few simulated runs: a run is beyond them now and then, hardly ever by half of their
        # distance.
        width = (figure["high"] - figure["low"]) / 2
        slack = max(width, 0.005 if figure["name"].endswith("hits") else 0.05 * figure["high"])
        assert figure["low"] - slack <= figure["counted"] <= figure["high"] + slack, figure


@pytest.mark.guest
def test_the_status_of_a_bcache_is_what_sysfs_has(rig: Callable[[Sequence[VirtualDiskShape]], Rig]) -> None:
    machine = rig([BACKING, BUCKETS])
    backing, buckets = machine.names([BACKING, BUCKETS])
    machine.run("modprobe", "-q", "bcache", check=False)
    machine.run("make-bcache", "--writeback", "-B", backing, "-C", buckets)
    for disk in (buckets, backing):
        machine.guest.agent.write("/sys/fs/bcache/register", disk)
    # On a slow machine the load takes longer than writeback waits: then nothing is dirty at its end.
    machine.guest.agent.write("/sys/block/bcache0/bcache/writeback_running", "0")
    machine.run(*FIO, "--filename=/dev/bcache0", "--number_ios=12000")
    output = machine.blklab("cache", "status", "--json")
    assert output.status == 0, output.stderr
    (cache,) = json.loads(output.stdout)["caches"]
    assert (cache["kind"], cache["name"], cache["mode"], cache["block"]) == (
        "bcache", "bcache0", "writeback", 512 << 10
    )  # fmt: skip
    assert 300 << 20 <= cache["size"] <= 320 << 20
    read = machine.read
    total = int(read("/sys/block/bcache0/bcache/stats_total/cache_hits"))
    assert cache["counters"]["read_hits"] == pytest.approx(total, abs=100)
    assert 0 < cache["dirty"] <= 384 << 20
    shown = machine.blklab("cache", "status")
    assert "bcache0" in shown.stdout, shown.stderr
