"""The chunk that `bitmap-page` prints: a real mdadm accepts it, no data change, and the finding is gone."""

import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import payload
from tests.md.guest.rig import Rig

SHAPES = [VirtualDiskShape(f"disk{at}", 112 << 20, physical_block_size=4096) for at in range(2)]
"""Disks of which 27,000 to 30,000 chunks of 4 KiB hold data: with a smaller bitmap, its last page is never whole."""


def find_bitmap_page(machine: Rig) -> dict[str, Any] | None:
    document = json.loads(machine.blklab("md", "audit", "--json").stdout)
    return next((finding for finding in document["findings"] if finding["code"] == "bitmap-page"), None)


def read_digest(machine: Rig) -> str:
    """Returns the SHA-256 of the array, read from its disks."""
    machine.run("blockdev", "--flushbufs", "/dev/md0")
    return machine.run(*payload.command("inside.digest"), "read", "/dev/md0").stdout


@pytest.mark.guest
def test_the_chunk_that_is_printed_keeps_the_data(rig: Callable[[Sequence[VirtualDiskShape]], Rig]) -> None:
    machine = rig(SHAPES)
    machine.create("/dev/md0", machine.names(SHAPES), "--level=1", "--bitmap=internal")
    machine.run(*payload.command("inside.digest"), "write", "/dev/md0", "1", "64")
    before = read_digest(machine)
    finding = find_bitmap_page(machine)
    assert finding is not None
    assert "md writes 512 bytes of the bitmap's last page" in finding["message"]
    comment, remove, add = finding["remedy"]
    assert comment.startswith("# ")
    assert add == "mdadm --grow --bitmap=internal --bitmap-chunk=4K /dev/md0"
    machine.run(*shlex.split(remove))
    assert machine.read("/sys/block/md0/md/bitmap/location") == "none"
    machine.run(*shlex.split(add))
    assert machine.read("/sys/block/md0/md/bitmap/chunksize") == "4096"
    assert find_bitmap_page(machine) is None
    assert read_digest(machine) == before
    machine.run(*payload.command("inside.digest"), "write", "/dev/md0", "2", "8")
    after = read_digest(machine)
    assert after != before
    machine.run("mdadm", "--stop", "/dev/md0")
    machine.run("mdadm", "--assemble", "/dev/md0", *machine.names(SHAPES))
    assert machine.read("/sys/block/md0/md/bitmap/chunksize") == "4096"
    assert read_digest(machine) == after
    machine.run("mdadm", "--action=check", "/dev/md0")
    machine.run("mdadm", "--wait", "/dev/md0", check=False)
    assert machine.read("/sys/block/md0/md/mismatch_cnt") == "0"
