"""The lab, briefly: one real guest measures every kind of stack."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blklab.experiment import lab_cell
from blklab.experiment.cells import Cell, plan
from blklab.outcome import DeviceResult, Outcome
from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.runner import LabRunner
from blklab.runners.lab.stacks import filesystem
from tests.conftest import Run
from tests.runners.collecting import Collected
from tests.runners.conftest import reads
from tests.runners.lab.conftest import guests, left, own_cache

pytestmark = pytest.mark.guest

DEVICES = """
[devices]
fast = { kind = "throttled", iops_total = 1000, size = "64MiB" }
slow = { kind = "throttled", iops_total = 200, size = "64MiB" }
traced = { kind = "throttled", iops_total = 250, size = "64MiB" }
watched = { kind = "throttled", iops_total = 50, size = "64MiB" }
quick = { kind = "throttled", iops_total = 250, size = "64MiB" }
sluggish = { kind = "throttled", iops_total = 50, size = "64MiB" }
third = { kind = "throttled", iops_total = 1000, size = "64MiB" }
large = { kind = "throttled", iops_total = 1000, size = "256MiB" }
"""

BARE = (
    DEVICES
    + """
[stacks.raid1]
level = 1
members = ["traced", "watched"]
[stacks.near]
level = 10
layout = "n2"
members = ["quick", "sluggish"]
[stacks.frail]
level = 1
bitmap = true
members = ["fast", "third"]
fail = [{ member = "third", at = "500ms", re_add = "2s" }]
[stacks.cached]
kind = "lvmcache"
origin = "slow"
cache = "large"
[stacks.bcached]
kind = "bcache"
backing = "slow"
bucket = "128KiB"
congested_read_threshold_us = 0
cache = "large"
[stacks.a-b]
kind = "lvm"
members = ["slow"]
[stacks.a_b]
kind = "lvm"
members = ["a-b"]
[stacks.array_of_a_name_that_mdadm_does_not_take]
level = 1
members = ["a_b", "third"]
rebuilding = ["third"]
write_mostly = ["third"]
sync_speed_max = 4096
[stacks.nested]
kind = "lvmcache"
origin = "array_of_a_name_that_mdadm_does_not_take"
cache = "large"
[workloads.reads]
rw = "randread"
bs = "4k"
iodepth = 32
size = "1MiB"
time_based = true
[settings]
kernel = "6.1"
runtime = "3s"
"""
)

WITH_FILES = (
    DEVICES
    + """
[stacks.striped]
level = 5
chunk = "64KiB"
members = ["fast", "slow", "third"]
[workloads.writes]
rw = "randwrite"
bs = "4KiB"
iodepth = 4
size = "4MiB"
[settings]
kernel = "6.1"
filesystem = "ext4"
runtime = "1s"
"""
)


class Measured:
    """What every cell measured, by its stack, and what else was seen."""

    def __init__(self, directory: Path) -> None:
        self.traces = directory / "traces"
        self.options = ""
        self.outcomes: dict[str, Outcome] = {}
        self.failed: dict[str, str] = {}
        self.guests: list[int] = []
        self.left: list[str] = []


@pytest.fixture(scope="module")
def measured(guest_image: GuestImage, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    parent = tmp_path_factory.mktemp("cells")
    ours = own_cache(guest_image, parent)
    result = Measured(parent)
    cells: list[Cell] = []
    for name, text in (("bare", BARE), ("files", WITH_FILES)):
        path = parent / f"{name}.toml"
        path.write_text(text)
        cells += [
            replace(cell, number=len(cells) + at + 1) for at, cell in enumerate(plan(path, form=lab_cell.FORM).cells)
        ]
    create = filesystem.create

    def created(guest: Any, *arguments: Any) -> str:
        directory = create(guest, *arguments)
        result.options = guest.read("/proc/fs/ext4/md0/options")
        return directory

    ledger = Collected()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(filesystem, "create", created)
        patched.setenv("XDG_CACHE_HOME", str(parent / "cache"))
        LabRunner(accelerator="tcg", trace=["traced", "watched"], traces=result.traces).run(cells, ledger)
    stacks = {cell.number: cell.labels["stack"] for cell in cells}
    result.outcomes = {stacks[at]: item.outcome for at, item in ledger.ended.items()}
    result.failed = {stacks[at]: message for at, message in ledger.failed.items()}
    result.guests, result.left = guests(ours), left(ours)
    return result


def test_every_cell_is_measured_and_nothing_is_left(measured: Measured) -> None:
    assert measured.failed == {}
    assert set(measured.outcomes) == {"raid1", "near", "frail", "cached", "bcached", "nested", "striped"}
    assert measured.guests == []
    costs = [outcome.lab.io_cost for outcome in measured.outcomes.values() if outcome.lab is not None]
    for outcome in measured.outcomes.values():
        assert outcome.lab is not None and outcome.lab.io_cost is not None
        assert outcome.lab.accel == "tcg"
        assert outcome.lab.scale == 1
        assert outcome.lab.io_cost == costs[0], "one guest"
        assert min(vars(outcome.lab.io_cost).values()) > 0
        assert "after the load" not in str(outcome.warnings)


@pytest.mark.parametrize(("stack", "fast"), [("raid1", "traced"), ("near", "quick")])
def test_mirrors_of_unequal_flash_share_reads_by_their_rates(measured: Measured, stack: str, fast: str) -> None:
    """By the shortest queue (drivers/md, 6.1), the slow disk has 50 reads a second, and the other all others.

    These are 250, or fewer where the guest has no time for more.
    """
    outcome = measured.outcomes[stack]
    leaves = replace(outcome, devices=[item for item in outcome.devices if item.leaf])
    assert reads(leaves)[fast] == pytest.approx(1 - 50 / outcome.read.iops, abs=0.05)


def test_a_member_that_fails_comes_back(measured: Measured) -> None:
    outcome = measured.outcomes["frail"]
    (array,) = outcome.targets
    (stayed, returned) = array["members"]
    assert stayed["state"] == "in_sync"
    assert returned["name"] == "third"
    assert returned["state"] in {"in_sync", "spare"}  # or it is being recovered
    assert not any("frail" in warning for warning in outcome.warnings)
    shares = devices(outcome)
    assert shares["third"].ios[0] < shares["fast"].ios[0]


def test_a_cache_counts_every_read(measured: Measured) -> None:
    outcome = measured.outcomes["cached"]
    (cache,) = outcome.targets
    assert cache["kind"] == "lvmcache"
    counted = cache["read_hits"] + cache["read_misses"]
    assert counted == pytest.approx(outcome.read.total_ios, rel=0.05)
    assert cache["blocks"] > 0


def test_a_bcache_counts_and_keeps_what_was_read(measured: Measured) -> None:
    outcome = measured.outcomes["bcached"]
    (cache,) = outcome.targets
    assert cache["kind"] == "bcache"
    assert cache["cache_hits"] > 0
    assert cache["cache_misses"] > 0
    known = sum(cache[key] for key in ("cache_hits", "cache_misses", "cache_bypass_hits", "cache_bypass_misses"))
    assert known == pytest.approx(outcome.read.total_ios, rel=0.1)


def test_a_rebuild_below_others_is_under_way_with_the_load(measured: Measured) -> None:
    outcome = measured.outcomes["nested"]
    array, _ = outcome.targets
    assert array["sync_action"] == "recover"
    assert "write_mostly" in array["members"][1]["state"].split(",")
    shares = devices(outcome)
    assert shares["third"].sectors[0] < shares["third"].sectors[1]
    assert shares["a-b"].above == ["a_b"]
    assert shares["a_b"].ios[0] > 0


def test_a_filesystem_knows_the_stripes(measured: Measured) -> None:
    """Two of three members hold data: 2 × 64 KiB are 32 blocks."""
    assert "stripe=32" in measured.options.splitlines()
    outcome = measured.outcomes["striped"]
    assert outcome.write.total_ios > 0
    assert {item.name for item in outcome.devices if item.leaf} == {"fast", "slow", "third"}


def test_a_trace_has_what_fio_did(measured: Measured, run: Run) -> None:
    (directory,) = measured.traces.iterdir()
    outcome = measured.outcomes["raid1"]
    assert outcome.lab is not None and outcome.lab.traces == str(directory)
    output = run("trace", "stat", directory, "--json")
    assert output.status == 0, output.err
    traced = json.loads(output.out)["devices"]
    queued = {item["name"]: item["events"]["Q"] for item in traced}
    # md may read or write its superblock meanwhile.
    assert sum(queued.values()) == pytest.approx(outcome.read.total_ios, abs=4)
    counted = [item.ios[0] for item in outcome.devices if item.leaf]
    assert sorted(queued.values()) == pytest.approx(sorted(counted), abs=4)


def devices(outcome: Outcome) -> dict[str, DeviceResult]:
    return {item.name: item for item in outcome.devices}
