"""Checks before a repair, and before each member is taken out, whether the array may be changed.

`steps` checks what depends on the progress of the repair.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from blklab.diagnostic import Diagnostic
from blklab.md import command_lines, inventory
from blklab.md.audit.host import has_add_bug
from blklab.md.audit.redundancy import explain_broken
from blklab.md.good_copies import find_bad_pieces
from blklab.md.levels import PARITIES
from blklab.md.model import Array, Software
from blklab.md.recipes import keep_disk, stop_users
from blklab.md.repair.environment_checks import find_busy_neighbour, find_re_add_policy, find_spare_monitor, find_swap
from blklab.md.repair.steps import RUNNING_STATES
from blklab.md.repair.write_suspension import has_other_suspension
from blklab.system.identity import of_node
from blklab.system.roots import Roots, read_text
from blklab.system.users import openers

MAX_EVENTS_BEHIND = 1  # Allowed difference between event counts: superblocks are read one after the other
EVENT_READS = 3  # How often event counts are read, because they change while the array is written to
Reason = tuple[str, ...]  # A code, a message, and commands


def check_preconditions(
    array: Array, software: Software, roots: Roots, *, entries: bool = False
) -> Iterator[Diagnostic]:
    """Yields why the lists of an array cannot be removed now, or, with `entries`, its bad ranges written again."""
    for code, message, *remedy in _check_all(array, software, roots, entries=entries):
        yield unmet_precondition(array, code, message, *remedy)


def unmet_precondition(array: Array, code: str, message: str, *remedy: str) -> Diagnostic:
    """Returns the diagnostic of a precondition that is not met."""
    return Diagnostic(code, "critical", array.path, message, remedy)


def _check_all(array: Array, software: Software, roots: Roots, *, entries: bool) -> Iterator[Reason]:
    if os.geteuid() != 0:
        yield "no-root", "permission denied: run blklab as root"
    if array.external:
        yield ("external", f"it has metadata {array.metadata}, which have no bad-block lists of md")
        return
    if not array.redundant:
        yield (
            "no-redundancy",
            f"{array.level} does not tolerate the loss of a member: "
            "remove the lists while the array is stopped (--recipe offline)",
        )
        return
    md = roots.sys / "block" / array.name / "md"
    if array.metadata.startswith("0"):
        yield "no-lists", "metadata 0.90 have no bad-block lists: nothing to do"
        return
    yield from check_activity(array, software, md, may_be_degraded=entries and array.level not in PARITIES)
    yield from _check_rewrite(array, md, roots) if entries else _check_removal(array, software, md, roots)


def _check_removal(array: Array, software: Software, md: Path, roots: Roots) -> Iterator[Reason]:
    yield from _check_environment(array, md.parent, roots)
    yield from _check_bitmap(md)
    yield from _check_members(array)
    if all("in_sync" in member.states for member in array.active):
        yield from _check_event_counts(array, roots)
    spares = ", ".join(member.name for member in array.members if member.spare)
    if spares and not software.lists_off:
        yield (
            "config-bbl",
            f"blklab must remove the spare {spares} and add it again, and mdadm would then make a list on it: "
            "put `CREATE bbl=no` into mdadm.conf first",
        )
    if spares and has_add_bug(software):
        yield (
            "add-fails",
            f"blklab must remove the spare {spares} and add it again, "
            "which may fail with this kernel and mdadm older than 4.5 (md audit: add-fails): "
            "install mdadm 4.5 or newer first",
        )


def _check_rewrite(array: Array, md: Path, roots: Roots) -> Iterator[Reason]:
    programs = openers(of_node(md.parent.resolve(), roots), roots)
    writers = [
        f"{program.program} (process {program.pid}) has it open for writing" for program in programs if program.writes
    ]
    if users := (*array.users, *writers):
        yield (
            "in-use",
            f"{'; '.join(users)}: what is written between a read and a write of blklab would be lost: stop it first",
            *stop_users(array),
        )
    for member in array.members:
        if member.unseen:
            yield "no-superblock", f"{member.name}: {member.unseen}"
    kinds = {read_text(md / "consistency_policy"), read_text(md / "bitmap/metadata")}
    if {"journal", "ppl", "clustered"} & kinds or (md / "llbitmap").is_dir():
        yield (
            "bitmap",
            "it has a journal, a PPL, a lockless bitmap or that of a cluster: "
            "writing bad ranges again was not tested with it",
        )
    if find_bad_pieces(array) is None:
        yield (
            "no-map",
            "blklab does not know where the members' sectors are on the array (a reshape, or a rare layout)",
        )


def check_activity(array: Array, software: Software, md: Path, *, may_be_degraded: bool) -> Iterator[Reason]:
    """Yields why md or another program must not be disturbed now. `md` is `/sys/block/md0/md`."""
    if array.state == "broken":
        message, recipe = explain_broken(array, software)
        yield "broken", message, *recipe.lines
    elif array.state not in RUNNING_STATES:
        remedy = [command_lines.make_writable(array.path)] if array.state == "read-auto" else []
        yield "state", f"the array is {array.state or 'not running'}", *remedy
    if array.degraded and not may_be_degraded:
        missing = f"{array.degraded} of {array.raid_disks} members are missing"
        yield "degraded", f"the array is degraded: {missing}"
    if array.sync is not None:
        yield (
            "under-way",
            f"a {array.sync.action} is running: wait until it ends",
            command_lines.wait_for_sync(array.path),
        )
    elif (action := read_text(md / "sync_action")) not in {"idle", None}:
        yield "under-way", f"sync_action is {action}: another program is changing the array"
    if array.reshaping:
        yield "reshape", "the array is being reshaped"
    elif has_other_suspension(md):
        yield "suspended", "another program has suspended writes to it: wait until it has ended"


def _check_environment(array: Array, node: Path, roots: Roots) -> Iterator[Reason]:
    node = node.resolve()
    if neighbour := find_busy_neighbour(node, roots):
        yield ("neighbour", f"md is working on another array on the same disks ({neighbour}): wait until that ends")
    swap = find_swap(node, roots) if array.level in PARITIES else ""
    if swap:
        yield (
            "swap",
            f"the swap {swap} is on it: blklab suspends writes while a member is out, "
            "and processes that need memory would then wait",
            command_lines.stop_swap(swap),
        )
    moving, stop = find_spare_monitor(node, roots)
    if moving and stop:
        yield "spare-moves", f"{moving}; stop it during the repair", stop
    elif moving:
        yield "spare-moves", moving
    if policy := find_re_add_policy(roots):
        setting, path = policy
        file = roots.format_path(path)
        yield (
            "policy-re-add",
            f"{file} has {setting}: udev would re-add each member that blklab removes, with its list; "
            f"put # before this line of {file} during the repair",
        )


def _check_bitmap(md: Path) -> Iterator[Reason]:
    policy = read_text(md / "consistency_policy")
    if policy in {"journal", "ppl"}:
        yield ("no-bitmap", f"its consistency policy is {policy}: a member can be re-added only with a bitmap")
    location = read_text(md / "bitmap/location") or "none"
    if location == "file" or location.startswith("/"):
        yield "bitmap", "its bitmap is in a file: a re-add was tested only with internal bitmaps"
    if (md / "llbitmap").is_dir():
        yield "bitmap", "its bitmap is lockless: a re-add was tested only with internal bitmaps of version 4"
    if read_text(md / "bitmap/metadata") == "clustered":
        yield "bitmap", "its bitmap is that of a cluster: other hosts use the array"


def _check_members(array: Array) -> Iterator[Reason]:
    for member in array.members:
        superblock = member.superblock
        if "faulty" in member.states:
            yield "faulty", f"{member.name} is faulty"
        elif superblock is None:
            unseen = member.unseen or "it has no superblock of this array"
            yield "no-superblock", f"{member.name}: {unseen}"
        elif not superblock.accepted:
            yield "refused", f"{member.name}: the kernel refuses its superblock: see blklab md audit"
        elif "want_replacement" in member.states or "replacement" in member.states:
            keep = keep_disk(array.name, member.name) if not member.replacement else ()
            yield "replacement", f"{member.name} is being replaced, or must be replaced", *keep
        elif "journal" in member.states:
            yield "journal", f"{member.name} is a journal"
        elif superblock.bitmap_distrusted:
            yield "bitmap", f"{member.name}: its write-intent bitmap is marked as stale or damaged"
        if member.unacknowledged:
            yield ("unacknowledged", f"{member.name} has bad blocks that md has not yet written to its disk")
        if member.ranges:
            yield (
                "bbl-entries",
                f"{member.name} has bad blocks: another member may have the only good copy there, "
                "so blklab takes no member out",
            )


def _check_event_counts(array: Array, roots: Roots) -> Iterator[Reason]:
    """Yields members whose event count is behind in each of several reads."""
    for attempt in range(EVENT_READS):
        events = {
            member.name: member.superblock.events
            for member in array.members
            if member.superblock and "in_sync" in member.states
        }
        newest = max(events.values(), default=0)
        behind = {name: newest - count for name, count in events.items()}
        late = {name: lag for name, lag in behind.items() if lag > MAX_EVENTS_BEHIND}
        if not late:
            return
        if attempt < EVENT_READS - 1:
            time.sleep(0.2)
            array = inventory.read_array(roots.sys / "block" / array.name, roots)
    for name, lag in late.items():
        yield "events", f"{name} is {lag} events behind: it lacks recent writes"
