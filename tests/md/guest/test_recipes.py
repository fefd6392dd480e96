"""Everything that blklab prints for md is executed on a real kernel, and no data may be lost.

Each command must succeed at least once; md may refuse one, such as a re-add without a bitmap.

`BLKLAB_ARRAYS` is the number of arrays; those of the default number print every command at least once.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest

from blklab.md.command_lines import COMMANDS
from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import payload
from tests.md.guest.inside.arrays import ACCIDENTS
from tests.md.guest.rig import Rig

SHAPES = [VirtualDiskShape(f"disk{at}", 32 << 20) for at in range(8)]
COMPLETE: Final = 52
"""Arrays that together print or run every command."""

ARRAYS: Final = int(os.environ.get("BLKLAB_ARRAYS", COMPLETE))
TIMEOUT_S: Final = 3600

OF_OVERLAYS: Final = (
    "assemble_and_run",
    "assemble_read_only",
    "attach_file",
    "check_btrfs",
    "check_ext",
    "check_xfs",
    "create_on_overlays",
    "detach_file",
    "fix_assemble",
    "hide_rule",
    "load_modules",
    "make_snapshot",
    "mount_read_only",
    "mount_to_replay",
    "mount_without_replay",
    "reload_rules",
    "remove_snapshot",
    "set_read_only",
    "set_read_write",
    "show_content",
    "start_overlays",
    "stop_overlays",
)
"""Commands of `md overlays` and `md fix assemble`."""

OF_CHANGES: Final = (
    "add_disks",
    "change_level",
    "change_level_adding",
    "replace_with_spare",
    "reshape_adding",
    "reshape_array",
    "set_array_size",
    "set_member_size",
)
"""Commands of `md plan`."""

OF_FILESYSTEMS: Final = (
    "check_ext_before_shrinking",
    "grow_xfs",
    "resize_btrfs",
    "resize_ext",
    "resize_physical_volume",
)
"""Commands of `md plan` for what lies on an array."""

NOT_ARRAYS: Final = {
    "add_journal": "for arrays with a write journal: test_write_journal.py executes it",
    "give_up_journal": "for arrays with a write journal: test_write_journal.py executes it",
    "make_read_only": "for arrays with a write journal: test_write_journal.py executes it",
    "add_to_container": "for RAIDs of firmware: test_containers.py executes it",
    "fix_entries_from": "has a file in it: test_rescue.py executes it",
    "fix_metadata": "has a directory in it: test_rescue.py executes it",
    "save_sectors": "only reads; test_rescue.py executes it",
    "raise_stripe_cache": "a setting of md's memory, which changes no data",
    "examine_disks": "only reads, and is printed for pasted text",
    "show_details": "only reads, and is printed for pasted text",
    "fix_bbl_of_arrays": "several arrays: test_repair.py executes it",
    "fix_bbl_of_host": "all arrays: test_repair.py executes it",
    "create_mirrors_of_partitions": "makes arrays: test_repair.py executes it",
    "add_bitmap_with_chunk": "only for disks with blocks of 4 KiB: test_bitmap.py executes it",
    "append_rule": "a setting of a disk, which virtual disks lack",
    "enable_timers": "starts timers of systemd, which this guest lacks",
    "clear_want_replacement": "after a real write error: test_repair.py executes it",
    "limit_retries": "a setting of a disk, which virtual disks lack",
    "list_lvm_raids": "lists LVM's RAIDs",
    "raise_sync_speed": "for a resync next to other I/O: test_states.py executes it",
    "set_timeout": "a setting of a disk, which virtual disks lack",
    "show_signatures": "only reads; arrays of firmware are not made here",
    "show_smart_of_kind": "only reads",
    "stop_swap": "swap on an array with parity",
    "stop_unit": "stops a service",
    "assemble_by_uuid": "after a power cut during a reshape: test_plan.py executes it",
    "continue_reshape": "after a power cut during a reshape, if it does not go on: test_plan.py",
    "set_consistency_policy": "for arrays with a PPL, whose data it does not change",
    **dict.fromkeys(OF_CHANGES, "for a change of an array: test_plan.py executes it"),
    **dict.fromkeys(OF_FILESYSTEMS, "for a filesystem, whose programs the guest lacks"),
    **dict.fromkeys(OF_OVERLAYS, "for an array that does not start: test_accidents.py executes it"),
}
"""Commands that do nothing to an array, and why no array here prints them."""


@pytest.fixture(scope="module")
def machine(guest_image: GuestImage, python: Any) -> Iterator[Rig]:
    with Rig(guest_image, python, SHAPES, memory=768 << 20) as booted:
        yield booted


def made(machine: Rig, *words: str) -> dict[str, Any]:
    done = machine.run(
        *payload.command("inside.recipes"), *words, *machine.names(SHAPES), check=False, timeout=TIMEOUT_S
    )
    assert done.status == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.guest
def test_the_comparison_finds_data_that_a_recipe_loses(machine: Rig) -> None:
    """A member rebuilt from one with a list, or with sectors that it cannot read: what blklab printed once."""
    result = made(machine, "control")
    # A rebuild lists 64 KiB where it has no source, of which 8 KiB could not be read.
    first, second = result["problems"]
    assert first == ["1 pages cannot be read any more: [256]"]
    assert second == ["16 pages cannot be read any more: [512, 513, 514, 515, 516]"]


@pytest.mark.guest
def test_commands_that_are_printed_lose_no_data(machine: Rig) -> None:
    result = made(machine, "0", str(ARRAYS))
    cases = result["cases"]
    told = ("seed", "level", "metadata", "condition", "accident", "followed", "ran")
    problems = {json.dumps({name: case.get(name) for name in told}):
                case["problems"] for case in cases if case["problems"]}  # fmt: skip
    assert not problems
    printed = {name for case in cases for name in case["printed"]}
    followed = Counter(case.get("followed") for case in cases)
    if ARRAYS >= COMPLETE:
        assert {command.__name__ for command in COMMANDS} - set(result["executed"]) <= set(NOT_ARRAYS)
        # Others have the same commands, and some appear only by chance, such as those for read errors.
        names = {"absent", "broken", "degraded", "state", "unfinished", "writes-suspended", "repair-unfinished"}
        assert names <= set(followed)
        assert {case["accident"] for case in cases} == {*ACCIDENTS}
    print(  # noqa: T201  # figures for the record
        f"{len(cases)} arrays, {len(printed)} kinds of recipes, {sum(followed.values())} followed,"
        f" {sum(len(case.get('ran', ())) for case in cases)} commands, {sum(case['bytes'] for case in cases):,} bytes"
    )
