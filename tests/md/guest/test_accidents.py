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
    "one_after_the_other": "behind saved",
    "power_cut_in_a_write": "sound saved",
    "power_cut_of_a_mirror": "sound saved",
    "power_cut_of_a_degraded_raid5": "unclean saved",
    "one_member_left_before": "degraded saved",
    "a_controller_drops_four_of_eight": "behind saved",
    "swapped_disks": "sound saved",
    "a_zeroed_superblock": "incomplete saved",
    "a_wiped_start": "incomplete saved",
    "two_halves_of_a_mirror": "diverged refused",
    "one_half_of_a_mirror_is_chosen": "diverged saved",
    "power_cut_in_a_rebuild": "unclean saved",
    "power_cut_in_a_rebuild_and_another_cable": "behind saved",
    "power_cut_in_a_reshape": "reshaping saved",
    "all_cables_of_a_stripe": "sound saved",
    "three_of_six_with_old_metadata": "behind saved",
    "three_of_six_with_metadata_at_the_end": "behind saved",
    "two_zeroed_superblocks": "sound saved",
    "created_again_in_another_order": "sound saved",
    "created_again_with_another_chunk": "sound saved",
    "created_again_and_not_saved": "overwritten saved",
    "created_again_with_another_offset_and_not_saved": "overwritten saved",
    "too_little_space_for_overlays": "behind refused",
    "a_list_on_the_wrong_member": "sound saved",
    "a_journal_is_missing": "unclear saved",
    "a_copied_member": "unclear saved",
    "a_superblock_with_a_wrong_checksum": "degraded saved",
    "a_partition_table_over_a_member": "incomplete saved",
    "a_spare_is_not_shown": "sound saved",
    "an_old_member_returns": "stale saved",
    "held_inactive_by_md": "behind saved",
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
