"""Arrays that do not start after accidents: what `md rescue` prints is typed, and every file is compared.

The accidents are in inside/accidents.py, and what they showed in docs/explanation/rescue.md.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import payload
from tests.md.guest.rig import Rig

SHAPES = [VirtualDiskShape(f"disk{at}", 24 << 20) for at in range(8)]
STORE = VirtualDiskShape("store", 512 << 20)  # For overlays and saved metadata

OUTCOMES: Final = {
    "two_cables_of_a_raid5": "behind saved",
    "created_again_in_wrong_order_and_not_saved": "overwritten saved",
    "two_halves_of_a_mirror": "diverged refused",
}
"""The condition that blklab recognises, and how it ends: `saved` if all files are on the array as they were."""

ACCIDENTS: Final = list(OUTCOMES)[: int(os.environ.get("BLKLAB_ACCIDENTS", len(OUTCOMES)))]
TIMEOUT_S: Final = 1200


@pytest.fixture(scope="module")
def machine(guest_image: GuestImage, python: Path) -> Iterator[Rig]:
    with Rig(guest_image, python, [*SHAPES, STORE], memory=1 << 30) as booted:
        booted.run("modprobe", "-a", "dm-mod", "loop", "dm-snapshot")
        yield booted


@pytest.mark.guest
@pytest.mark.parametrize("name", ACCIDENTS)
def test_what_is_printed_after_an_accident_saves_the_files(machine: Rig, name: str) -> None:
    *disks, store = machine.names([*SHAPES, STORE])
    done = machine.run(*payload.command("inside.accidents"), name, "--", store, *disks, check=False, timeout=TIMEOUT_S)
    assert done.status == 0, done.stderr
    (result,) = json.loads(done.stdout)
    log = "\n".join(result["log"])
    assert not result["problems"], f"{result['problems']}\n{log}"
    assert result["outcome"] == OUTCOMES[name], log
