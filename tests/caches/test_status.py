"""Caches as sysfs and dmsetup show them, and what is wrong with them."""

import io

import pytest
from rich.console import Console

from blklab.caches import report
from blklab.caches.status import find_problems, hit_share, read_bcaches, read_caches
from blklab.md.exporter import metrics
from tests.caches.conftest import CacheMachine

TABLE = "cache 254:2 254:1 8:0 128 2 metadata2 writethrough smq 0"

STATUS = (
    "cache 8 29/2048 128 1022/2044 600 400 30 70 5 1027 12 2 metadata2 writethrough 2 migration_threshold 2048 smq 0"
    " rw - "
)


def lvm(machine: CacheMachine, status: str = STATUS, table: str = TABLE) -> None:
    machine.device("sda", "8:0")
    machine.device("sdb", "8:16")
    machine.device("dm-1", "254:1", slaves="sdb", dm__name="vg0-pool_cdata", dm__uuid="LVM-pool")
    machine.mapped("dm-3", "254:3", "vg0-data", table, status, slaves="sda dm-1")


def codes(machine: CacheMachine) -> dict[str, str]:
    return {finding.code: finding.severity for finding in find_problems(read_caches(machine.roots).caches)}


def test_status_of_lvmcache_is_read(machine: CacheMachine) -> None:
    lvm(machine)
    (cache,) = read_caches(machine.roots).caches
    assert (cache.kind, cache.name, cache.title, cache.mode, cache.policy) == (
        "dm-cache", "dm-3", "vg0-data", "writethrough", "smq",
    )  # fmt: skip
    assert (cache.size, cache.used, cache.dirty, cache.block) == (2044 << 16, 1022 << 16, 12 << 16, 1 << 16)
    assert (hit_share(cache.counters, "read"), hit_share(cache.counters, "write")) == (0.6, 0.3)
    assert (cache.counters["demotions"], cache.counters["promotions"]) == (5, 1027)
    assert cache.settings == {"migration_threshold": 2048}
    assert codes(machine) == {}


@pytest.mark.parametrize(
    ("old", "new", "code", "severity"),
    [
        ("smq 0 rw -", "cleaner 0 rw -", "cache-cleaner", "warning"),
        ("smq 0 rw -", "smq 0 rw needs_check", "cache-broken", "critical"),
        ("smq 0 rw -", "smq 0 ro -", "cache-broken", "critical"),
        ("2 metadata2 writethrough", "2 metadata2 writeback", "cache-not-redundant", "warning"),
        ("2 metadata2 writethrough", "2 metadata2 passthrough", "cache-passthrough", "note"),
        ("29/2048 128", "29/2048 512", "cache-migration-threshold", "note"),
        ("29/2048 128", "29/2048 4096", "cache-migration-threshold", "warning"),
        ("29/2048", "2000/2048", "cache-metadata-full", "warning"),
        (STATUS, "cache Fail", "cache-broken", "critical"),
    ],
)
def test_risks_of_lvmcache_are_reported(machine: CacheMachine, old: str, new: str, code: str, severity: str) -> None:
    lvm(machine, STATUS.replace(old, new))
    assert codes(machine).get(code, "") == severity


def test_writeback_on_a_mirror_is_redundant(machine: CacheMachine) -> None:
    machine.device("sda", "8:0")
    machine.device("sdb", "8:16")
    machine.device("sdc", "8:32")
    machine.device("md0", "9:0", slaves="sdb sdc", md__level="raid1")
    machine.device("dm-1", "254:1", slaves="md0", dm__name="vg0-pool_cdata")
    machine.mapped("dm-3", "254:3", "vg0-data", TABLE, STATUS.replace("writethrough", "writeback"), slaves="sda dm-1")
    assert "cache-not-redundant" not in codes(machine)


def test_rates_since_the_last_call_are_shown(machine: CacheMachine) -> None:
    lvm(machine)
    assert read_caches(machine.roots, remember=True).earlier == {}
    machine.say("vg0-data", STATUS.replace(" 600 400 ", " 690 410 ").replace(" 1027 ", " 1127 "))
    inventory = read_caches(machine.roots, remember=True)
    (cache,) = inventory.caches
    periods = report.activity(cache, inventory)
    assert periods["set-up"]["read_hits"] == 690 / 1100
    assert periods["last call"]["read_hits"] == 0.9
    assert periods["last call"]["promotions"] == 100
    a_day = 100 * (1 << 16) / (2044 << 16) * 86_400 / periods["last call"]["seconds"]
    assert periods["last call"]["drive_writes_a_day"] == pytest.approx(a_day)
    # After a boot, or if the counters began at 0 again, the last call does not count.
    machine.proc("sys/kernel/random/boot_id", "second")
    assert read_caches(machine.roots, remember=True).earlier == {}
    machine.say("vg0-data", STATUS)
    assert read_caches(machine.roots, remember=True).earlier == {}


def test_damaged_record_of_the_last_call_is_ignored(machine: CacheMachine) -> None:
    lvm(machine)
    machine.roots.state.mkdir(mode=0o700)
    for damaged in ("{", "[]", '{"at": "x"}'):
        (machine.roots.state / "caches.json").write_text(damaged)
        assert len(read_caches(machine.roots, remember=True).caches) == 1


def test_unknown_status_is_reported_and_others_are_shown(machine: CacheMachine) -> None:
    lvm(machine, "cache 8 29")
    machine.mapped(
        "dm-4", "254:4", "vg0-wc", "writecache s 8:0 254:1 4096 0", "writecache 0 100 40 0 9 3 50 1 2 3 44 5 6 7"
    )
    inventory = read_caches(machine.roots)
    assert [cache.title for cache in inventory.caches] == ["vg0-wc"]
    assert inventory.unseen == ("vg0-data: not seen: unknown status 'cache 8 29'",)
    (cache,) = inventory.caches
    assert (cache.size, cache.used, cache.counters["reads"], cache.counters["blocked"]) == (409_600, 245_760, 9, 5)
    assert {finding.code for finding in find_problems(inventory.caches)} == {"cache-not-redundant", "cache-blocked"}


def test_bcache_is_read_without_dmsetup(machine: CacheMachine) -> None:
    machine.bcache()
    (cache,) = read_bcaches(machine.roots)
    assert (cache.name, cache.identity, cache.mode, cache.policy, cache.device) == (
        "bcache0", "6a2e", "writeback", "lru", "8:16",
    )  # fmt: skip
    assert (cache.size, cache.used, cache.dirty) == (1 << 30, 3 << 28, 40 << 20)
    assert hit_share(cache.counters, "read") == 0.9
    assert cache.counters["written_bytes"] == 3 << 29
    assert cache.counters["bypassed_bytes"] == round(1.2 * 2**30)
    assert codes(machine) == {
        "cache-not-redundant": "warning", "cache-congestion-bypass": "note", "cache-sequential-bypass": "note",
    }  # fmt: skip


def test_bcache_without_cache_device_is_broken(machine: CacheMachine) -> None:
    machine.bcache(state="no cache")
    assert codes(machine)["cache-broken"] == "critical"


def test_report_shows_names_without_control_characters(machine: CacheMachine) -> None:
    machine.bcache()
    lvm_title = "vg\x1b[31m-data"
    machine.device("dm-1", "254:1", dm__name="x")
    machine.mapped("dm-3", "254:3", lvm_title, TABLE, STATUS)
    inventory = read_caches(machine.roots)
    console = Console(file=io.StringIO(), width=120)
    report.show(console, inventory, find_problems(inventory.caches))
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    assert "\x1b" not in printed
    assert "bcache0" in printed and "90 %" in printed and "sequential_cutoff is 4 MiB" in printed
    assert report.as_dict(inventory, [])["caches"][0]["activity"]["set-up"]["read_hits"] == 0.6


def test_caches_are_exported(machine: CacheMachine) -> None:
    lvm(machine)
    (cache,) = read_caches(machine.roots).caches
    samples = {metric.name: value for metric, _, value in metrics.cache_samples(cache)}
    assert samples["cache_promotions_total"] == 1027
    assert (samples["cache_broken"], samples["cache_dirty_bytes"]) == (False, 12 << 16)
    assert samples.keys() <= metrics.METRICS.keys()
