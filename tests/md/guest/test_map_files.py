"""Which files lie on bad blocks: against blocks that say whose they are, found on the disks."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import payload
from tests.md.guest.rig import Rig

MIB = 1 << 20

SHAPES = {
    "/dev/md0": [VirtualDiskShape(f"mirror{at}", 64 * MIB) for at in range(2)],
    "/dev/md1": [VirtualDiskShape(f"parity{at}", 176 * MIB) for at in range(3)],
}

OPTIONS = {"/dev/md0": ["--level=1"], "/dev/md1": ["--level=5", "--chunk=64"]}

HALF = 30 * MIB // 512
"""Sectors of each piece of the volume: the one that is last on the array is its first."""

FIRST = {"/dev/md0": HALF, "/dev/md1": 0}
"""Sectors of the array."""


def made(machine: Rig) -> dict[str, str]:
    """Makes arrays, a volume of two pieces on one and a partition on the other; mounts them."""
    for array, shapes in SHAPES.items():
        machine.create(array, machine.names(shapes), "--bitmap=none", *OPTIONS[array])
    lines = f"0 {HALF} linear 9:0 {HALF}\n{HALF} {HALF} linear 9:0 0\n"
    machine.guest.agent.write("/run/table", lines)
    machine.run("dmsetup", "create", "volume", "/run/table")
    machine.run(*payload.command("inside.patterns"), "table", "/dev/md1")
    machine.run("blockdev", "--rereadpt", "/dev/md1")
    on = {"/dev/md0": "/dev/dm-0", "/dev/md1": "/dev/md1p1"}
    for array, device in on.items():
        point = f"/run/on-{array[5:]}"
        kind = "xfs" if array == "/dev/md1" else "ext4"
        make = ["mkfs.xfs", "-q", "-m", "rmapbt=1"] if kind == "xfs" else ["mke2fs", "-q", "-t", "ext4", "-b", "4096"]
        machine.run(*make, device)
        machine.run("mkdir", "-p", point)
        machine.run("mount", "-t", kind, device, point)
    return on


@pytest.mark.guest
def test_files_are_those_whose_blocks_they_are(rig: Callable[[Sequence[VirtualDiskShape]], Rig]) -> None:
    machine = rig([shape for shapes in SHAPES.values() for shape in shapes])
    on = made(machine)
    wanted: dict[str, list[tuple[int, str, int]]] = {}
    for array in on:
        member = machine.names(SHAPES[array])[0]
        output = machine.run(*payload.command("inside.patterns"), "lay", f"/run/on-{array[5:]}", member)
        blocks = json.loads(output.stdout)
        begin = int(machine.read(f"/sys/block/{array[5:]}/md/dev-{member[5:]}/offset"))
        if array == "/dev/md1":
            # Parity of a block and of nothing is that block: the first disk's of every third row.
            blocks = [item for item in blocks if (item[0] - begin) // 128 % 3 != 2]
        assert len(blocks) > 40
        wanted[array] = blocks[:: len(blocks) // 12]
        for sector, _, _ in wanted[array]:
            where = f"/sys/block/{array[5:]}/md/dev-{member[5:]}/bad_blocks"
            machine.guest.agent.write(where, f"{sector} 8")
        # And what is at the beginning of the filesystem, and of the array.
        machine.guest.agent.write(where, f"{begin + FIRST[array]} 8")
    output = machine.blklab("md", "audit", "--map-files", "--json")
    document = json.loads(output.stdout)
    assert not document["unseen"]
    for array in on:
        result = entries(document, array[5:])
        for sector, path, offset in wanted[array]:
            at = next(
                item for item in result
                if item["member_sector"] <= sector < item["member_sector"] + item["sectors"]
            )  # fmt: skip
            pieces = [item for item in at["files"] if item["path"] == path]
            assert any(item["offset_bytes"] <= offset < item["offset_bytes"] + item["bytes"] for item in pieces), (
                array,
                sector,
                path,
                offset,
                at,
            )
        facts = sum(item["bytes"] for at in result for item in (*at["files"], *at["others"]))
        listed = 512 * sum(item["sectors"] for at in result for item in at["array_ranges"])
        assert facts == listed, array
    first = {array: with_path(document, array[5:], FIRST[array])["others"] for array in on}
    assert [item["what"] for item in first["/dev/md0"]] == ["the filesystem's own metadata"]
    what = "between partitions or volumes, or in their tables"
    assert [item["what"] for item in first["/dev/md1"]] == [what]


def with_path(document: dict[str, Any], array: str, sector: int) -> dict[str, Any]:
    return next(
        item
        for item in entries(document, array)
        if any(at["sector"] <= sector < at["sector"] + at["sectors"] for at in item["array_ranges"])
    )


def entries(document: dict[str, Any], array: str) -> list[dict[str, Any]]:
    return next(
        item["ranges"] for item in document["findings"] if (item["array"], item["rule"]) == (array, "bbl-entries")
    )
