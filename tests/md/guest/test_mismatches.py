"""Where `mismatches` says that parity differs: against what was damaged on a member, below the array."""

import json
from collections.abc import Callable, Sequence

import pytest

from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest.rig import Rig

SHAPES = [VirtualDiskShape(f"disk{at}", 64 << 20) for at in range(4)]
DAMAGED = (800, 4096)
"""Sectors of a member, from its data offset, each the first of a page."""


@pytest.mark.guest
@pytest.mark.parametrize("level", [5, 6])
def test_damage_is_found_where_it_is(rig: Callable[[Sequence[VirtualDiskShape]], Rig], level: int) -> None:
    machine = rig(SHAPES)
    members = machine.names(SHAPES)
    machine.create("/dev/md0", members, f"--level={level}", "--chunk=64", "--bitmap=none")
    offset = int(machine.read(f"/sys/block/md0/md/dev-{members[1][5:]}/offset"))
    for sector in DAMAGED:
        machine.write(SHAPES[1], (offset + sector) * 512, b"x" * 4096)
    machine.run("mdadm", "--action=check", "/dev/md0")
    machine.run("mdadm", "--wait", "/dev/md0", check=False)
    assert machine.read("/sys/block/md0/md/mismatch_cnt") == str(8 * len(DAMAGED))
    document = json.loads(machine.blklab("md", "audit", "--json").stdout)
    (finding,) = [finding for finding in document["findings"] if finding["code"] == "mismatches"]
    places = [(place["stripe_sector"], place["sectors"]) for place in finding["ranges"]]
    assert places == [(sector, 8) for sector in DAMAGED]
    data = sum(piece["sectors"] for place in finding["ranges"] for piece in place["array_ranges"])
    assert data == len(DAMAGED) * 8 * (4 - (level - 4))
    assert not any("action=repair" in line for line in finding["remedy"])
