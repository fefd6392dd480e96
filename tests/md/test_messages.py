"""Every finding of the audit and every refusal of a repair is rendered once, with all clauses of its message."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import blklab
from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError, UsageError
from blklab.md.audit import RULES, absent, find_problems, host, log, smart, split
from blklab.md.audit.smart import RULES_FILE
from blklab.md.inventory import read_array
from blklab.md.log_events import find_events
from blklab.md.model import (
    LIST_NOT_IN_TEXT,
    NOT_IN_TEXT,
    Array,
    ArrayMember,
    ArrayPart,
    BlockContent,
    DiskHealth,
    Geometry,
    Inventory,
    ListedArray,
    MemberBitmap,
    OtherSpare,
    PhysicalDisk,
    Software,
    SyncPass,
    Waiting,
)
from blklab.md.repair import plan, preconditions, restart, slot_plan
from blklab.md.repair.array_state import BadBlockListState, MemberState, SlotState
from blklab.md.repair.preconditions import check_preconditions
from blklab.md.repair.steps import Stop, decide_next_step
from blklab.md.superblocks import SectorRange, Superblock
from blklab.system.diskstats import DeviceCounters
from blklab.system.identity import of_node
from blklab.system.users import Opener
from tests.md.audit.test_cases import (
    NIGHT,
    mirror_with_an_unreadable_sector,
    raid5_with_an_unreadable_sector,
    read_case,
)
from tests.md.audit.test_log import DISABLED, DISABLED_SDB1, OTHER_MESSAGES, REASONS, raid5
from tests.md.conftest import Arrays
from tests.md.crafted import make_superblock
from tests.md.repair.test_next_step import state_of, task_of
from tests.md.repair.test_preconditions import ARRAY, MEMBERS
from tests.md.test_good_copies import OFFSET, array_of
from tests.md.test_log_events import BOOT, TROUBLE

PACKAGE = Path(str(blklab.__file__)).parent / "md"
SHORTEST = 8
"""Shorter pieces of messages, such as ` and `, are not looked for."""

PATTERNS = ("%Y", "^")
"""With what strings with blanks begin that are no messages."""

UNFINISHED = re.compile(r"[{}]|\bNone\b|object at 0x")
"""What a text has whose words are not filled in."""


def clauses(module: str, functions: set[str] | None = None) -> set[str]:
    """Returns the pieces of text between the values of all messages in a module, or in some of its functions."""
    found: set[str] = set()
    for outer in ast.parse((PACKAGE / module).read_text()).body:
        if functions is not None and getattr(outer, "name", "") not in functions:
            continue
        docstrings = {id(node.value) for node in ast.walk(outer) if isinstance(node, ast.Expr)}
        for node in ast.walk(outer):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                text = node.value.strip()
                if len(text) >= SHORTEST and " " in text and not text.startswith(PATTERNS):
                    found.add(text)
    return found


def missing(clauses_of: set[str], rendered: list[str]) -> list[str]:
    """Returns the clauses that no text has. Asserts that the words of all texts are filled in."""
    assert not [text for text in rendered if UNFINISHED.search(text) and RULES_FILE not in text]
    return sorted(clause for clause in clauses_of if not any(clause in text for text in rendered))


def texts(findings: Iterator[Diagnostic] | list[Diagnostic]) -> Iterator[str]:
    for finding in findings:
        yield finding.message
        yield from finding.remedy


# --- arrays for the audit ------------------------------------------------------------------------


def member(at: int, *, states: tuple[str, ...] = ("in_sync",), **values: Any) -> ArrayMember:
    """Returns the member of a slot, with a superblock whose values are the arguments `sb_…`."""
    own = {"slot": at, "level": 1}
    own |= {name.removeprefix("sb_"): values.pop(name) for name in list(values) if name.startswith("sb_")}
    wanted: dict[str, Any] = {"slot": at, "data_offset": OFFSET, **values}
    return ArrayMember(f"sd{at}", f"/dev/sd{at}", states=states, superblock=make_superblock(**own), **wanted)


def array(level: str, *members: ArrayMember, **values: Any) -> Array:
    disks = values.pop("raid_disks", len(members))
    made = array_of(level, 2 if level == "raid5" else 0x102 if level == "raid10" else 0, disks, {})
    return replace(made, **{"members": members, "size": 200 << 30, "degraded": disks - len(members), **values})


def stopped(level: str, *members: ArrayMember, **values: Any) -> Array:
    """Returns an array that is read from images or that was not assembled."""
    return array(level, *(replace(each, states=()) for each in members), live=False, path="", **values)


def bad_blocks(*entries: tuple[int, int], sectors: int = 8) -> dict[str, Any]:
    found = [{"sector": sector, "sectors": count} for sector, count in entries]
    return {"sector": 0, "sectors": sectors, "shift": 0, "active": True, "entries": found}


def two(**values: Any) -> tuple[ArrayMember, ArrayMember]:
    return member(0, **values), member(1, **values)


def slow(ms: int) -> DeviceCounters:
    """Returns the counters of a device whose reads and writes took so long."""
    done = (20_000, 0, 160_000, ms * 20_000)
    return DeviceCounters("8:0", "sda", *done, *done, 0, 0, 0)


def sd(at: int, **values: Any) -> ArrayMember:
    """Returns a member that has no superblock, because it could not be read."""
    return replace(member(at, **values), superblock=None)


SOFTWARE = Software(kernel=(6, 12), mdadm=(4, 2), lists_off=False, kernels=("6.1.0-37-amd64",))
CHECKED = (
    Software(autocheck=False, shares_spares=True),
    Software(shares_spares=False),
    Software(timers=("mdcheck_start.timer", "mdcheck_continue.timer")),
)
PARTITION = ArrayPart("md0p1", "/dev/md0p1", 4096, mounts=("/boot/efi",))
EXT4 = Geometry("ext4", "/dev/md0p1", 4096, 0, 0)
CHECK = SyncPass("check", 10, 100, 1000)
OLD = make_superblock(uuid="e:f:g:h", offset=0)
REFUSED = [
    {"reason": "features", "message": "it has unknown features"},
    {"reason": "newer-kernel", "message": "it has 4 KiB blocks"},
]
LOCKLESS = {"offset": 8192, "version": 6, "uuid": "a:b:c:d", "sync_size": 192, "state": 0, "chunk": 65536,
            "daemon_sleep": 5}  # fmt: skip
RESHAPE = {"delta_disks": 0, "level": 5, "layout": 2, "chunk": 65536}
BROKEN = ("read error not correctable (sector 60000 on sd0)",)


def arrays_with_bad_blocks() -> Iterator[Array]:
    for night in NIGHT.values():
        yield night()
    yield raid5_with_an_unreadable_sector(outside=True)
    yield mirror_with_an_unreadable_sector()
    mirrors = array_of("raid1", 0, 2, {0: [(64, 8)]})
    yield mirrors
    yield replace(mirrors, sync=SyncPass("repair", 10, 100, 1000))
    yield array_of("raid1", 0, 3, {0: [(64, 8)]})
    yield replace(mirrors, level="raid0", chunk=8192)
    yield replace(mirrors, level="raid0", layout=99)
    yield array_of("raid10", 0x102, 4, {0: [(64, 8)]})
    yield array_of("raid5", 2, 3, {0: [(64, 8)]})
    yield array_of("raid10", 0x505, 4, {0: [(64, 8)]})
    copied = array_of("raid1", 0, 2, {0: [(64, 8)], 1: [(64, 8)]})
    yield copied
    yield replace(copied, live=False, path="")
    yield array_of("raid1", 0, 2, {0: [(64, 8), (200, 8)], 1: [(64, 8), (300, 8)]})
    yield array_of("raid1", 0, 3, {0: [(64, 8), (128, 8)], 1: [(64, 8), (96, 8)], 2: [(128, 8), (96, 8)]})
    yield array_of("raid5", 2, 3, {0: [(64, 16)], 1: [(64, 8)]})
    garbage = array_of("raid1", 0, 2, {0: [(64, 8), (1 << 40, 8)]})
    yield replace(garbage, members=tuple(replace(each, superblock=make_superblock()) for each in garbage.members))
    yield array("raid1", *two(sb_bad_blocks=bad_blocks((2048, 1), sectors=0)), degraded=0)
    yield array("raid1", *two(sb_bad_blocks=bad_blocks(*((2048 + 2 * at, 1) for at in range(64)), sectors=1)))
    yield array("raid1", sd(0, listed=(SectorRange(2050, 8),), listed_cut=True), sd(1))
    yield array("raid1", *two(sb_bad_blocks=bad_blocks((2048, 0), (2056, 8))))
    yield array("raid1", *two(sb_bad_blocks=bad_blocks()))
    yield array("raid1", member(0, sb_bad_blocks=bad_blocks()), member(1))
    yield array("raid1", *two(sb_bad_blocks=bad_blocks((2050, 2)), listed=()))
    yield array("raid1", *two(states=("in_sync", "write_error", "want_replacement")))
    yield array("raid1", *two())


def arrays_without_redundancy() -> Iterator[Array]:
    first, second = two()
    failed = replace(member(2, states=("faulty",), sb_events=90), slot=None)
    spare = replace(member(3, states=("spare",), sb_role="spare", sb_slot=None), slot=None)
    for level in ("raid5", "raid10", "raid6"):
        yield array(level, first, second, raid_disks=4 if level == "raid10" else 3, member_sectors=1 << 31)
    yield array("raid5", first, second, spare, raid_disks=3, degraded=1)
    yield array("raid5", first, second, failed, raid_disks=3, degraded=1, sync=SyncPass("recover", 1, 1 << 31, 1000))
    yield array("raid6", first, second, raid_disks=4, degraded=2, member_sectors=1 << 31, sync=SyncPass("recover"))
    yield array("raid1", first, failed, degraded=0)
    for level in ("raid1", "raid5"):
        broken = array(level, first, state="broken", raid_disks=3)
        yield broken
        yield replace(broken, kernel_errors=BROKEN, repairing=True)
    listed = bad_blocks((2048, 0))
    yield array("raid1", *two(sb_bad_blocks=listed), state="broken")
    yield array("raid1", *two(), repairing=True)
    yield array("raid1", first, repairing=True, degraded=1, unfinished_repair=("sdb is out", "cat \n"))
    yield array("raid1", *two(), suspended=True)
    yield array("raid1", first, member(1, sb_events=7))
    yield array("raid1", first, replace(second, slot=0), raid_disks=2)
    yield stopped("raid1", first, absent=(1,), raid_disks=2)
    yield stopped("raid1", *two(sb_resync_offset=64, sb_recovery_offset=64))
    for sync in (CHECK, SyncPass("recover"), SyncPass("resync", 10, 100)):
        yield array("raid1", *two(), sync=sync, bitmap=False, mismatches=8, last_action="none")
    yield array("raid1", *two(), bitmap=False, mismatches=8, state="clean")
    yield array("raid5", *two(), mismatches=8)


def arrays_that_change() -> Iterator[Array]:
    """Yields arrays with reshapes, slow sync actions and write journals."""
    for delta, chunk, level, layout in ((1, 65536, 5, 2), (-2, 131072, 6, 5)):
        reshape = {"delta_disks": delta, "level": level, "layout": layout, "chunk": chunk}
        members = two(sb_reshape=reshape, sb_reshape_position=640)
        yield array("raid5", *members, raid_disks=3, reshaping=True, reshape_position=640)
        yield array("raid5", *members, reshaping=True, reshape_position=1 << 40, sync=SyncPass("reshape", 1, 10, 3))
    yield array("raid4", *two(), raid_disks=3, reshaping=True)
    yield array("raid5", *two(), raid_disks=3, degraded=1, logical_block=4096)
    yield array("raid5", *two(), raid_disks=3, state="inactive", bitmap=True)
    yield array("raid5", *two(), raid_disks=3, state="inactive", reshaping=True)
    yield array("raid5", *two(), sync=SyncPass("resync", 1, 10, 1000, 1000, 200_000))
    yield array("raid5", *two(), sync=SyncPass("recover", 1, 10, 200_000, 1000, 200_000))
    journal = replace(member(2, states=("faulty",), sb_role="journal", sb_slot=None), slot=None)
    yield from arrays_with_journals()
    yield array("raid1", *two(states=("in_sync", "failfast")), bitmap=True)
    yield array("raid1", member(0, sb_bad_blocks=bad_blocks()), raid_disks=2)
    yield array("raid5", *two(sb_journal=True), journal, consistency="journal", state="clean")


def arrays_with_journals() -> Iterator[Array]:
    """Yields RAID-5s whose journal is missing, has failed, is outside, in use, or behind."""
    values: dict[str, Any] = {"states": (), "sb_role": "journal", "sb_slot": None, "sb_journal": True}
    journal = replace(member(3, **values), slot=None)
    stale = replace(member(3, sb_events=7, **values), slot=None)
    members = (*two(sb_journal=True), member(2, sb_journal=True))
    for outside in ((), (journal,), (stale,), (replace(journal, users=("mounted at /",)),)):
        for state in ("readonly", "clean", "inactive"):
            yield array("raid5", *members, state=state, outside=outside)
    yield array("raid5", *members, replace(journal, states=("faulty", "journal")), raid_disks=3, state="clean")
    yield array("raid5", *members[:2], raid_disks=3, state="readonly")


def arrays_that_do_not_run() -> Iterator[Array]:
    first = member(0)
    behind, refused = member(1, sb_events=90), member(1, sb_checksum={"stored": 1, "computed": 2})
    half, spare = member(2, sb_recovery_offset=64), member(2, states=("spare",))
    outside = (replace(member(3, sb_events=95), slot=None),)
    for others in ((behind, half), (refused, spare), (behind, sd(2)), (behind,), ()):
        for out in ((), outside):
            yield stopped("raid5", first, *others, raid_disks=4, outside=out)
            yield array("raid5", first, *others, raid_disks=4, outside=out, state="inactive")
            yield stopped("raid10", first, *others, raid_disks=4, outside=out)
    yield stopped("raid5", first, behind, raid_disks=3, reshaping=True)
    yield stopped("raid5", first, member(1, sb_events=7, sb_updated=1_700_000_000), raid_disks=3)
    yield stopped("raid0", first, raid_disks=2)
    yield stopped("linear", first, raid_disks=3)
    for covered in (("/dev/sdx",), ("/dev/sdx", "/dev/sdy")):
        yield stopped("raid5", first, raid_disks=4, covered=covered)
    yield array("raid0", first, raid_disks=3, state="broken")
    yield array("raid5", first, sd(1, unseen="denied"), raid_disks=3, state="inactive")
    yield array("raid5", first, member(1), raid_disks=3, state="inactive")
    yield array("raid5", first, member(1), raid_disks=4, state="inactive", outside=outside)
    yield array("raid5", first, member(1), raid_disks=3, state="inactive", outside=(replace(spare, states=()),))
    yield array("raid1", *two(), state="inactive")


def arrays_with_other_metadata() -> Iterator[Array]:
    for live in (True, False):
        made = array if live else stopped
        yield made("raid1", *two(sb_checksum={"stored": 1, "computed": 2}))
        yield made("raid1", *two(sb_refusal_reasons=REFUSED, sb_problems=["its size is 0"]))
        yield made("raid1", member(0), member(1, sb_refusal_reasons=REFUSED), member(2))
    yield array("raid1", *two(sb_bitmap_superblock=LOCKLESS))
    yield array("raid1", *two(leftovers=(OLD, replace_uuid(OLD, "")), foreign=("ddf",)), uuid="")
    yield from arrays_of_firmware()
    paths = two(wwn="5000c500a1b2c3d4", path_of="mpatha")
    yield array("raid1", *(replace(own, disk=own.name) for own in paths))
    yield array("raid1", *two(multipath="mpatha"))
    yield array("raid1", member(0), member(1, sb_raid_disks=2))
    for version in ("0.90", "1.0", "1.2"):
        yield array("raid1", *two(), metadata=version, parts=(PARTITION,))


def arrays_with_slow_bitmaps() -> Iterator[Array]:
    slow_disk = {"logical_block": 512, "physical_block": 4096, "transport": "NVMe", "rotational": False}
    for optimal_io in (0, 4096):
        for rotational in (True, False):
            disk = {**slow_disk, "optimal_io": optimal_io, "rotational": rotational}
            disks = (sd(0, **disk), sd(1, **disk))
            for bits in (57_228, 57_344, 40_000):
                yield array("raid1", *disks, bitmap=True, bitmap_chunk=1 << 26, bitmap_sector=8, state="clean",
                            member_sectors=bits << 17)  # fmt: skip


def arrays_with_spares_elsewhere() -> Iterator[Array]:
    failed = replace(member(2, states=("faulty",)), slot=None)
    for shared in (True, False):
        yield array(
            "raid1", member(0), failed, degraded=1, raid_disks=2, other_spares=(OtherSpare("md1", "sde", shared),)
        )


def arrays_with_mismatches() -> Iterator[Array]:
    places = (SectorRange(8, 8),)
    part = ArrayPart("md0", "/dev/md0", 0)
    free = BlockContent(0, 1 << 20, "/dev/md0", what="free space")
    for level in ("raid5", "raid6"):
        made = array_of(level, 2, 4, {})
        yield replace(made, mismatches=8)
        yield replace(made, mismatches=16, mismatch_ranges=places)
        yield replace(made, mismatches=8, mismatch_ranges=places, contents=(free,))
    mirror = array_of("raid1", 0, 2, {})
    yield replace(mirror, mismatches=8, users=("md0 is used as swap (/dev/md0)",))
    yield replace(array_of("raid1", 0, 3, {}), mismatches=8)
    for filesystem in ("btrfs", "xfs"):
        yield replace(mirror, mismatches=8, parts=(replace(part, filesystem=filesystem),))


def arrays_of_firmware() -> Iterator[Array]:
    """Yields containers and volumes, complete or degraded, with spares or without."""
    first, second, third = (member(at) for at in range(3))
    for kind, idle, missing in product(("imsm", "ddf"), ((), (third,), (second, third)), (0, 1)):
        held = array("container", *two(), metadata=f"external:{kind}", state="inactive", name="md127", idle=idle)
        made = array("raid1", first, degraded=missing, metadata="external:/md127/0", state="clean", name="md126")
        yield replace(made, container_array=held)
        for volumes in ((), (made,), (made, made)):
            yield replace(held, volumes=volumes)
    yield array("container", first, metadata="external:imsm", state="inactive")
    volume = array("raid5", *two(), metadata="external:/md127/0", state="inactive", name="md126", raid_disks=3)
    for degraded, dirty in ((1, True), (2, True), (0, False), (None, None)):
        yield replace(volume, degraded=degraded, dirty=dirty)


def replace_uuid(superblock: Superblock, uuid: str) -> Superblock:
    return make_superblock(uuid=uuid, offset=superblock.offset)


def arrays_of_other_devices() -> Iterator[Array]:
    disk, flash = member(0, rotational=True), member(1, rotational=False)
    mostly = member(0, rotational=True, states=("in_sync", "write_mostly"))
    for level in ("raid1", "raid10", "raid5"):
        yield array(level, disk, flash)
    yield array("raid1", mostly, flash)
    yield array("raid1", mostly)
    for level in ("raid1", "raid5"):
        yield array(level, member(0, rotational=True, activity=slow(1)), member(1, rotational=True, activity=slow(9)))
    for layout in (0x201, 0x10201):
        yield replace(array("raid10", *two(rotational=False, errors=7)), layout=layout)
    yield array("raid1", member(0, start=512, physical_block=4096), member(1, start=0, data_offset=2049))
    xfs = replace(EXT4, kind="xfs", unit_bytes=4096, width_bytes=8192)
    for level in ("raid0", "raid5"):
        for start in (4096, 16384):
            parts = (replace(PARTITION, start=start, geometry=EXT4), replace(PARTITION, mounts=(), geometry=xfs))
            yield array(level, *(member(at) for at in range(4)), parts=parts)


ARRAYS = (
    arrays_with_bad_blocks, arrays_without_redundancy, arrays_that_do_not_run, arrays_with_other_metadata,
    arrays_of_other_devices, arrays_that_change, arrays_with_slow_bitmaps,
    arrays_with_mismatches, arrays_with_spares_elsewhere,
)  # fmt: skip


def inventories(directory: Path) -> Iterator[Inventory]:
    """Yields hosts with arrays that are not assembled, or are in two halves."""
    yield Inventory((array("raid1", *two()),), software=SOFTWARE, volumes=("vg/lv",), firmware_raids=("isw_1",),
                    strays=(sd(5), sd(6, foreign=("DDF", "Intel IMSM"))))  # fmt: skip
    yield Inventory((array("raid1", *two()),), software=replace(SOFTWARE, config="/etc/mdadm.conf"))
    events = find_events(["[1.0] sd 2:0:0:0: [sda] Sense Key : Medium Error"])
    errors = tuple(replace(event, device="sd5") for event in events)
    yield Inventory((array("raid1", *two()),), strays=(sd(5),), log=errors)
    for name in ("15-two-halves-of-one-mirror", "17-inactive-array-wrong-layout"):
        yield read_case(name, directory)
    lines = [ListedArray("/dev/md0", "a:b:c:d", file="/etc/mdadm.conf"), ListedArray("<ignore>", "a:b:c:d", file="x")]
    other = ListedArray("/dev/md9", "1:2:3:4", file="/etc/mdadm.conf")
    for unassembled in arrays_not_assembled():
        for listed in ((), (lines[0],), (lines[1],), (other,)):
            yield Inventory((), unassembled=(unassembled,), software=SOFTWARE, listed=listed)
    yield Inventory((), listed=(other, ListedArray("", "", name="home", file="x")), software=SOFTWARE, unread=("sdx",))
    yield Inventory((array("raid1", *two()),), listed=(other,), software=SOFTWARE)
    one, second = (member(at, sb_level=1, sb_raid_disks=2, sb_present=[at == 0, at == 1]) for at in range(2))
    for newer in (replace(second, superblock=None, unseen="denied"), second, member(1, sb_events=200)):
        first = array("raid1", replace(one, superblock=newer.superblock and one.superblock), uuid="a:b:c:d")
        yield Inventory((first, replace(first, name="md127", members=(newer,), state="inactive")))
        yield Inventory((replace(first, outside=(newer,)),))

    yield Inventory(
        (
            array(
                "raid1",
                replace(first.members[0], users=()),
                raid_disks=2,
                repairing=True,
                unfinished_repair=("sdb is out", "cat a\nb"),
            ),
        )
    )


def arrays_not_assembled() -> Iterator[Array]:
    parted = {"uuid": "a:b:c:d", "name": "home"}
    first, second, third = (member(at) for at in range(3))
    behind, half = member(1, sb_events=90), member(1, sb_recovery_offset=64)
    refused = member(1, sb_checksum={"stored": 1, "computed": 2})
    spare = replace(member(4, states=(), sb_role="spare", sb_slot=None), slot=None)
    for members in (
        (first, second, third), (first, second), (first,), (first, behind), (first, half), (first, refused, spare),
        (first, member(1, sb_events=99, sb_updated=1 << 60), member(2, users=("mounted at /",))), (first, sd(1)),
        (spare,), (replace(first, users=("mounted at /",)),), (replace(first, logical_volume=True), second),
        (replace(first, logical_volume=True),),
    ):  # fmt: skip
        yield stopped("raid5", *members, raid_disks=3, **parted)
    yield stopped("raid5", *two(sb_resync_offset=64), raid_disks=3, **parted)
    yield stopped("raid5", first, second, raid_disks=3, reshaping=True, **parted)
    yield stopped("raid5", *two(sb_journal=True), raid_disks=3, **parted)


def arrays_that_dropped_members() -> Iterator[Array]:
    """Yields RAID-5s whose superblocks have the same event count, and disagree on which members work."""
    last = member(2, sb_level=5, sb_present=[False, False, True])
    for first in (member(0, sb_updated=1_767_225_590), member(0, sb_updated=1_767_000_000)):
        yield stopped("raid5", first, member(1, sb_events=90, sb_updated=1_767_225_580), last, raid_disks=3)
        yield stopped("raid5", first, member(1, sb_updated=1_767_225_580), last, raid_disks=3, reshaping=True)


def arrays_that_are_dirty_and_degraded() -> Iterator[Array]:
    """Yields RAID-5s that were not shut down, and lack a member."""
    dirty = (
        member(0, sb_level=5, sb_resync_offset=0, sb_present=[True, True, False]),
        member(1, sb_level=5, sb_resync_offset=0, sb_present=[True, True, False]),
    )
    for live in (True, False):
        yield replace(
            stopped("raid5", *dirty, raid_disks=3), live=live, path="/dev/md0" if live else "", state="inactive"
        )
    # Members dropped out, and one was not given.
    last = member(2, sb_level=5, sb_raid_disks=4, sb_present=[False, False, True, True])
    first = member(0, sb_level=5, sb_raid_disks=4, sb_updated=1_767_225_590)
    yield stopped("raid5", first, last, raid_disks=4, absent=(3,))


def disks() -> Iterator[PhysicalDisk]:
    sick = DiskHealth(
        model="ST4000", serial="Z1", protocol="ATA", rotation=5900, passed=False, failing=("Reallocated",), pending=8,
        uncorrectable=1, uncorrected=1, media_errors=1, reallocated=9, used_percent=120, self_test="read failure",
        temperature=70, temperature_limit=60, link=(1_500_000_000, 6_000_000_000), shingled=True, erc=False,
    )  # fmt: skip
    for limits, can in ((None, False), ((None, None), True), ((70.0, 70.0), True)):
        yield PhysicalDisk("sda", "/dev/sda", ("md0",), replace(sick, erc=can, erc_seconds=limits), timeout=30)
    known = replace(sick, erc=False, erc_seconds=None, wwn="wwn-0x5000c50012345678")
    yield PhysicalDisk("sdb", "/dev/sdb", ("md0",), known, timeout=30)
    yield PhysicalDisk("sde", "/dev/sde", ("md0",), replace(known, erc=True, erc_seconds=(None, None)), timeout=30)
    yield PhysicalDisk("sdc", "/dev/sdc", ("md0",), replace(known, wwn="", serial="a b"), timeout=30)
    yield PhysicalDisk("sda", "/dev/sda", ("md0",), replace(sick, erc=False), timeout=30, timeout_is_default=True)
    yield PhysicalDisk("sg2,1", "/dev/sg2", (), replace(sick, critical_warning=63, temperature=None), kind="megaraid,1")


def arrays_of_texts() -> Iterator[Array]:
    """Yields arrays as only pasted text has them."""
    yield array("raid5", sd(0, unseen=NOT_IN_TEXT), raid_disks=3, state="inactive")
    yield array("raid1", *two(), raid_disks=24, degraded=22, size=1 << 29)
    waits: tuple[Waiting, ...] = ("pending", "remote")
    for waiting in waits:
        for state in ("read-auto", "readonly", "clean"):
            yield array("raid1", *two(), state=state, sync=SyncPass("resync", waiting=waiting))
    journal = replace(member(2, sb_role="journal", sb_slot=None, sb_events=10), slot=None)
    for journals in ((), (journal,)):
        yield stopped("raid5", *two(), *journals, consistency="journal", raid_disks=2)
    for events, cleared in ((100, 50), (100, 95), (10, 5)):
        bitmap = MemberBitmap("a:b:c:d", events, cleared, is_out_of_date=False, chunk=1 << 26, bits=100, dirty=3)
        left = member(2, sb_events=90)
        yield array("raid5", *(replace(own, member_bitmap=bitmap) for own in two()), left, raid_disks=3)
    moved = make_superblock(reshape=RESHAPE, new_data_offset=1024, reshape_backwards=True, reshape_position=8)
    yield array("raid5", replace(sd(0), superblock=moved), reshaping=True)


def audited(directory: Path) -> Iterator[str]:
    """Yields the messages and remedies of all findings about these arrays, hosts and disks."""
    for made in ARRAYS:
        for each in made():
            patched_software = Software(kernel=(6, 1), md_changes=frozenset({"md: another fix"}))
            for software in (None, SOFTWARE, Software(kernel=(6, 1)), patched_software, *CHECKED):
                for rule in RULES:
                    yield from texts(rule(each, software))
    for inventory in inventories(directory):
        for each in inventory.arrays:
            for rule in RULES:
                yield from texts(rule(each, inventory.software))
        yield from texts(find_problems(replace(inventory, unread=("sdx: denied",))))
        for check in (absent.check_absent, split.check_split, host.check_host):
            yield from texts(check(inventory))
    yield from texts(find_problems(Inventory(tuple(arrays_that_dropped_members()))))
    for made_array in (*arrays_that_are_dirty_and_degraded(), *arrays_of_texts()):
        yield from texts(find_problems(Inventory((made_array,))))
    unseen_list = replace(member(0, sb_bad_blocks=bad_blocks()), unseen=LIST_NOT_IN_TEXT)
    yield from texts(find_problems(Inventory((array("raid1", unseen_list, member(1)),))))
    slow_pass = SyncPass("reshape", 1, 10, 3, minimum_kib=1000)
    for shares in ((0.99, 0.1, 0.1), (0.99, 0.95, 0.95), (0.1, 0.05, 0.05)):
        slow_array = array("raid5", *two(), member(2), sync=slow_pass, stripes=256, stripes_in_use=256)
        names = [other.name for other in slow_array.members]
        slow_array = replace(slow_array, busy_shares=tuple(zip(names, shares, strict=True)))
        yield from texts(find_problems(Inventory((slow_array,))))
    mirrors = [replace(array("raid1", *two(sb_bad_blocks=bad_blocks())), name=name) for name in ("md0", "md1")]
    yield from texts(find_problems(Inventory(tuple(mirrors))))
    for inventory in inventories_with_logs():
        for finding in log.check_log(inventory):
            yield from (finding.message, *finding.timeline)
    yield from texts(smart.check_disks(Inventory((array("raid1", *two()),), disks=tuple(disks()))))


LOGS = (
    DISABLED, *(reason + DISABLED_SDB1 for reason in REASONS), *OTHER_MESSAGES,
    "md/raid:md0: Disk failure on sd0, disabling device.\n",
    "".join(f"md/raid:md0: Disk failure on sd{at}, disabling device.\n" for at in range(9)),
    "md: kicking non-fresh sd0 from array!\nmd: kicking non-fresh sd1 from array!\n", BOOT + TROUBLE,
    BOOT + "ata2: hard resetting link\nata2: SATA link up 3.0 Gbps (SStatus 123)\n",
    BOOT + "ata2.00: qc timeout (cmd 0xec)\nata2: hard resetting link\n", BOOT + "ata2: SError: { BadCRC }\n",
    "[ 1.0] sd 8:0:0:0: [sda] killing request\n[ 1.5] sd 9:0:0:0: [sdb] killing request\n",
    "md/raid:md0: read error corrected (8 sectors at 2048 on sd2)\n",
    "".join(f"md/raid:md0: read error corrected (8 sectors at {at} on sd2)\n" for at in (2064, 2072)),
)  # fmt: skip


def inventories_with_logs() -> Iterator[Inventory]:
    behind = array("raid1", member(0), member(1, sb_events=90))
    arrays = (raid5("sda", "sdb", "sdc"), raid5("sda1", "sdb1", "sdc1"), array_of("raid5", 2, 3, {}), behind)
    for text in LOGS:
        events = tuple(find_events(text.splitlines()))
        yield Inventory((), log=events)
        for each in arrays:
            yield Inventory((each,), log=events, disks=tuple(disks()))


AUDIT = tuple(f"audit/{path.name}" for path in sorted((PACKAGE / "audit").glob("*.py")))


def test_every_message_of_the_audit_is_rendered(tmp_path: Path) -> None:
    wanted = set[str]().union(*map(clauses, AUDIT))
    assert missing(wanted, list(audited(tmp_path))) == []


# --- repairs -------------------------------------------------------------------------------------

FILES: list[dict[str, str]] = [
    *(files for files, _ in ARRAY),
    *({f"dev-sdb__{name}": value for name, value in files.items()} for files, _ in MEMBERS),
    {"array_state": "broken", "degraded": "1"},
    {"consistency_policy": "ppl"},
    {"level": "raid5", "layout": "99"},
    {"dev-sdb__bad_blocks": "2050 8"},
]
"""What sysfs has in the directory `md` of an array that is refused."""


def machine_of(directory: Path) -> Arrays:
    """Returns a machine with a mirror, another array with a spare, and a disk that is in both."""
    machine = Arrays(directory)
    machine.mirror()
    machine.disk("sdc", "8:32")
    machine.array("md1", "9:1", {"sdc": {"state": "spare", "slot": "none"}}, uuid="x")
    return machine


def refused_by_sysfs(directory: Path) -> Iterator[str]:
    for at, files in enumerate(FILES):
        machine = machine_of(directory / f"md{at}")
        machine.write(machine.roots.sys / "block/md0/md", files)
        found = read_array(machine.roots.sys / "block/md0", machine.roots)
        for entries in (False, True):
            yield from texts(check_preconditions(found, SOFTWARE, machine.roots, entries=entries))
        for reason in (*slot_plan._check_array(found, "add", machine.roots), *restart._check(found, [], machine.roots)):
            yield from reason[1:]


def refused_by_the_array(machine: Arrays) -> Iterator[str]:
    """Yields what refuses arrays whose members are as in these examples, and the risks of a repair of them."""
    machine.proc("sys/kernel/osrelease", "6.12.0")
    machine.proc("swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/md0 partition 9 0 -2")
    machine.device("sdb2", "8:18", parent="sdb")
    machine.array("md2", "9:2", {"sdb2": {}}, sync_action="check")
    machine.write(machine.roots.sys / "fs/cgroup", {"cgroup.procs": "1", "cgroup.events": "frozen 0"})
    spare = replace(member(3, states=("spare",), sb_role="spare", sb_slot=None), slot=None)
    refused, distrusted = {"stored": 1, "computed": 2}, {**LOCKLESS, "version": 4, "state": 2}
    listed = bad_blocks((2048, 1))
    for each in (
        array("raid5", *two(), spare, raid_disks=2, users=("mounted at /",)), array("raid1", *two(), spare),
        array("raid1", member(0), member(1, sb_events=7)), array("raid1", member(0), sd(1, unseen="denied")),
        array("raid1", member(0), sd(1)), array("raid1", *two(sb_checksum=refused)), array("raid10", *two(), state=""),
        array("raid1", *two(sb_bitmap_superblock=distrusted)), array("raid1", *two(unacknowledged=1)),
        array("raid1", *two(states=("in_sync", "want_replacement"))), array("raid1", *two(sb_bad_blocks=listed)),
        array("raid10", *two(listed=(SectorRange(2050, 8),)), reshaping=True), array("raid5", *two(), raid_disks=3),
        array("raid1", *two(sb_role="journal", sb_bad_blocks=bad_blocks((2048, 0))), state="suspended", users=("lv",)),
    ):  # fmt: skip
        for entries in (False, True):
            yield from texts(check_preconditions(each, SOFTWARE, machine.roots, entries=entries))
        risky = replace(each, mismatches=8, members=tuple(replace(own, errors=9) for own in each.members))
        yield from (message for _, message in plan._risks(risky, SOFTWARE, machine.roots))
        for reason in (
            *slot_plan._check_array(each, "rebuild", machine.roots),
            *slot_plan._check_taking_out(each, each.members[0], machine.roots),
            *slot_plan._check_taking_out(replace(each, layout=99, level="raid10"), spare, machine.roots),
            *slot_plan._check_taking_out(array("raid1", member(0)), replace(member(0), states=()), machine.roots),
            *restart._check(replace(each, level="raid5"), list(each.members), machine.roots),
            *restart._check(replace(each, state="inactive", reshaping=True), list(each.members), machine.roots),
        ):
            yield from reason[1:]


def refused_by_a_monitor(directory: Path) -> Iterator[str]:
    """Yields why mdadm --monitor or udev may change the array meanwhile."""
    for at, (words, config, boot) in enumerate((
        ("--config=x", "POLICY action=re-add", ""), ("", "POLICY domain=d1", "btime 9000000000"), ("", "", "btime 1"),
        ("", None, ""),
    )):  # fmt: skip
        for group in ("", "0::/system.slice/mdmonitor.service"):
            machine = machine_of(directory / f"monitor{at}{bool(group)}")
            machine.proc("77/cmdline", f"mdadm\0--monitor\0{words}\0")
            machine.proc("77/stat", f"77 (mdadm) S {' '.join('0' * 18)} 100 0")
            machine.proc("77/cgroup", group)
            machine.proc("stat", boot)
            if config is None:
                (machine.root / "etc/mdadm.conf").mkdir(parents=True)
            else:
                machine.write(machine.root, {"etc__mdadm.conf": config})
            yield from texts(check_preconditions(array("raid1", *two()), SOFTWARE, machine.roots))
            for reason in slot_plan._check_taking_out(array("raid1", *two()), member(0), machine.roots):
                yield from reason[1:]
    machine = machine_of(directory / "container")
    (machine.roots.proc / "self/ns").mkdir()
    (machine.roots.proc / "self/ns/pid").symlink_to("pid:[4026532201]")
    yield from texts(check_preconditions(array("raid1", *two()), SOFTWARE, machine.roots))


def refused_disks(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yields why a disk cannot become a member."""
    disk = of_node((machine.roots.sys / "class/block/sdc").resolve(), machine.roots)
    (machine.roots.dev / "sdc").write_bytes(b"data")
    own = replace(array("raid1", *two()), member_sectors=1 << 40)
    yield from slot_plan._warn_of_raw_data(disk, machine.roots)
    monkeypatch.setattr(slot_plan, "beneath", lambda *_: {"9:0"})
    monkeypatch.setattr(slot_plan, "partitions", lambda _: ["sdc1"])
    monkeypatch.setattr(slot_plan, "uses", lambda *_: ["mounted at /"])
    monkeypatch.setattr(slot_plan, "signatures", lambda _: ["ext4 at 0x438"])
    monkeypatch.setattr(slot_plan, "locate_signatures", lambda _: [("swap", 0)])
    apart = replace(own, members=(member(0, sb_present=[True, False, True]), member(1)))
    for each, superblock in (
        (own, None), (own, make_superblock(events=200)), (apart, make_superblock(slot=1, present=[False] * 3)),
        (replace(own, members=(replace(member(0), name="sdc"),)), None),
    ):  # fmt: skip
        for _, message, *_ in slot_plan.check_new_disk(each, disk, superblock, machine.roots):
            yield message


def refused_in_plans(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yields errors of plans, and what refuses the lists that no member in use has."""
    repairing = array("raid1", *two(), repairing=True)
    listed = array("raid1", *two(sb_bad_blocks=bad_blocks((2048, 1))))
    with pytest.raises(BlklabError) as error:
        plan.refuse_unfinished_repair(repairing, machine.roots)
    yield str(error.value)
    with pytest.raises(UsageError) as error:
        slot_plan.find_member(listed, "7", machine.roots)
    yield str(error.value)
    monkeypatch.setattr(plan, "resolve", lambda *_: of_node(machine.roots.sys / "block/sda", machine.roots))
    with pytest.raises(UsageError) as error:
        plan.find_array("sda", machine.roots)
    yield str(error.value)
    for _, message in slot_plan.check_adding(listed, SOFTWARE):
        yield message
    monkeypatch.setattr(slot_plan, "has_uuid", lambda *_: True)
    for _, message in slot_plan.check_duplicates(listed, machine.roots):
        yield message
    monkeypatch.setattr(plan, "find_array", lambda *_: array("raid1", *two()))
    monkeypatch.setattr(plan, "check_preconditions", lambda *_: ())
    monkeypatch.setattr(plan, "_plan_steps", lambda *_: ((), ""))
    monkeypatch.setattr(plan, "find_members_with_lists", lambda *_: ["/dev/sdc"])
    yield from texts(list(plan.make_plan("md0", machine.roots).refused))


def stopped_repairs() -> Iterator[str]:
    """Yields why repairs stop, from all states of two members, and what the user can do."""
    task = task_of("raid1", 2)
    states = [
        replace(state_of(task), slots=(first, second), degraded=degraded)
        for first_state, second_state in product(
            MemberState, (MemberState.IN_SYNC, MemberState.OUT, MemberState.REBUILDING)
        )
        for first_list, second_list in product(BadBlockListState, BadBlockListState)
        for occupant in ("", "/dev/sdx")
        for first in [SlotState("device0", "/dev/sd0", first_state, first_list, occupant=occupant)]
        for second in [SlotState("device1", "/dev/sd1", second_state, second_list, has_write_error=bool(occupant))]
        for degraded in (0, 1)
    ]
    changes: list[dict[str, Any]] = [
        {}, {"sync": "frozen"}, {"sync": "recover"}, {"array_state": "inactive"}, {"array_state": ""},
        {"array_state": "readonly"}, {"array_state": "broken"}, {"array_state": "broken", "unusable": ("/dev/sd1",)},
        {"with_bad_blocks": ("/dev/sd1",)}, {"has_unplanned_member": True},
    ]  # fmt: skip
    tasks = [
        task,
        replace(task, level="raid0"),
        replace(task, taken="device0"),
        replace(task, taken="device0", returned=True),
        replace(task, tried=frozenset({"device0"})),
    ]
    for state, change, own in product(states, changes, tasks):
        step = decide_next_step(replace(state, **change), own)
        if isinstance(step, Stop):
            yield step.reason
            yield from step.remedy


CHECKS = {
    "repair/preconditions.py": None,
    "repair/environment_checks.py": None,
    "repair/plan.py": None,
    "repair/steps.py": None,
    "repair/slot_plan.py": {
        "find_member", "check_new_disk", "_check_former_member", "_warn_of_raw_data", "check_duplicates",
        "_check_array", "check_adding", "_check_taking_out",
    },
    "repair/restart.py": {"_check"},
}  # fmt: skip
"""Modules with the reasons for which repairs are refused or stop, and their functions; None: all."""


def test_every_refusal_of_a_repair_is_rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr("blklab.md.inventory.read_array", lambda *_: array("raid1", member(0), member(1, sb_events=7)))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    writer = [Opener(7, "dd", "sdc", writes=True)]
    monkeypatch.setattr(preconditions, "openers", lambda *_: writer)
    monkeypatch.setattr(slot_plan, "openers", lambda *_: writer)
    rendered = [
        *refused_by_sysfs(tmp_path),
        *refused_by_the_array(machine_of(tmp_path / "array")),
        *refused_by_a_monitor(tmp_path),
        *refused_disks(machine_of(tmp_path / "disks"), monkeypatch),
        *refused_in_plans(machine_of(tmp_path / "plans"), monkeypatch),
        *set(stopped_repairs()),
    ]
    wanted = set[str]().union(*(clauses(module, functions=functions) for module, functions in CHECKS.items()))
    lost = missing(wanted, rendered)
    assert lost == [], "\n" + "\n".join(lost)
