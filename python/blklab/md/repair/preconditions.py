"""Why an array must not be touched: what the steps themselves (`decide`) do not see."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from blklab.diagnostic import Diagnostic
from blklab.md import inventory
from blklab.md.audit.host import is_of_the_pair
from blklab.md.audit.redundancy import is_spare
from blklab.md.model import PARITIES, Array, Software
from blklab.md.repair.environment_checks import busy_neighbour, sharing_spares, swapped_to
from blklab.md.repair.next_step import RUNS
from blklab.system.roots import Roots, text

LATE: Final = 1
"""Events that a member may be behind: the others' superblocks are read a moment later."""

LOOKS: Final = 3
"""At events, which go on while an array is written to."""


Reason = tuple[str, ...]
"""A code, a message, and what helps."""


def refusals(array: Array, known: Software, roots: Roots) -> Iterator[Diagnostic]:
    """Yields why nothing may be done; nothing if the steps may be decided."""
    for code, message, *remedy in _reasons(array, known, roots):
        yield refusal(array, code, message, *remedy)


def refusal(array: Array, code: str, message: str, *remedy: str) -> Diagnostic:
    """Returns why an array is not touched."""
    return Diagnostic(code, "critical", array.path, message, remedy)


def _reasons(array: Array, known: Software, roots: Roots) -> Iterator[Reason]:
    if os.geteuid() != 0:
        yield "no-root", "that takes root: nothing could be seen of the members, nor done to them"
    if array.external:
        yield (
            "external",
            f"its metadata are {array.metadata}, not md's own: they have no bad-block lists of md",
        )
        return
    if not array.redundant:
        yield (
            "no-redundancy",
            f"{array.level} outlives no member's loss: lists go offline only (--recipe offline)",
        )
        return
    md = roots.sys / "block" / array.name / "md"
    if array.metadata.startswith("0"):
        yield "no-lists", "metadata 0.90 have no bad-block lists: there is nothing to be done"
        return
    yield from _at_work(array, md)
    yield from _environment(array, md.parent, roots)
    yield from _of_bitmap(md)
    yield from _of_members(array)
    if all("in_sync" in member.states for member in array.active):
        yield from _behind(array, roots)
    spares = [one.name for one in array.members if is_spare(one)]
    if spares and not known.lists_off:
        yield (
            "config-bbl",
            f"the spare {', '.join(spares)} must be set aside, and would come back with a list",
            "put `CREATE bbl=no` into mdadm.conf first",
        )
    if spares and is_of_the_pair(known):
        yield (
            "add-fails",
            f"the spare {', '.join(spares)} must be set aside, and with this kernel and mdadm older"
            " than 4.5 it might not come back (md audit: add-fails)",
        )


def _at_work(array: Array, md: Path) -> Iterator[Reason]:
    if array.state not in RUNS:
        more = f" (mdadm --readwrite {array.path})" if array.state == "read-auto" else ""
        yield "state", f"the array is {array.state or 'not running'}{more}"
    if array.degraded:
        lacking = f"{array.degraded} of {array.raid_disks} members are lacking"
        yield "degraded", f"the array is degraded: {lacking}"
    if array.sync is not None:
        yield "under-way", f"a {array.sync.action} is under way", "wait for its end"
    elif (action := text(md / "sync_action")) not in {"idle", None}:
        yield "under-way", f"sync_action is {action}: someone else is changing the array"
    if array.reshaping:
        yield "reshape", "the array is being reshaped"


def _environment(array: Array, node: Path, roots: Roots) -> Iterator[Reason]:
    node = node.resolve()
    if neighbour := busy_neighbour(node, roots):
        work = f"another array on the same disks is at work ({neighbour})"
        yield "neighbour", work, "wait for its end"
    swap = swapped_to(node, roots) if array.level in PARITIES else ""
    if swap:
        yield (
            "swap",
            f"{swap} on it is swapped to: writes wait while a member is out, and whoever needs"
            " memory then would wait for them",
            f"swapoff {swap}",
        )
    if group := sharing_spares(array.path, array.uuid, roots):
        yield (
            "spare-group",
            f"mdadm --monitor would move a spare of spare-group {group} into it while a member is"
            " out",
            "stop it first (systemctl stop mdmonitor)",
        )


def _of_bitmap(md: Path) -> Iterator[Reason]:
    policy = text(md / "consistency_policy")
    if policy in {"journal", "ppl"}:
        yield (
            "no-bitmap",
            f"its consistency policy is {policy}: no member can be re-added without a bitmap",
        )
    where = text(md / "bitmap/location") or "none"
    if where == "file" or where.startswith("/"):
        yield "bitmap", "its bitmap is a file: only internal ones are known to outlive a re-add"
    if text(md / "bitmap/metadata") == "clustered":
        yield "bitmap", "its bitmap is that of a cluster: other machines use the array"


def _of_members(array: Array) -> Iterator[Reason]:
    for member in array.members:
        superblock = member.superblock
        if "faulty" in member.states:
            yield "faulty", f"{member.name} is faulty"
        elif superblock is None:
            unseen = member.unseen or "no superblock of this array is on it"
            yield "no-superblock", f"{member.name}: {unseen}"
        elif not superblock.checksum_holds:
            yield "checksum", f"{member.name}: the checksum of its superblock does not hold"
        elif "want_replacement" in member.states or "replacement" in member.states:
            yield "replacement", f"{member.name} is being replaced, or is to be"
        elif "journal" in member.states:
            yield "journal", f"{member.name} is a journal"
        elif superblock.bitmap_distrusted:
            distrusts = "its write-intent bitmap says that it is not to be trusted"
            yield "bitmap", f"{member.name}: {distrusts}"
        if member.unacknowledged:
            yield "unacknowledged", f"{member.name} has bad blocks that are not on its disk yet"


def _behind(array: Array, roots: Roots) -> Iterator[Reason]:
    """Members whose superblocks are of an earlier time, however often one looks."""
    for look in range(LOOKS):
        events = {
            member.name: member.superblock.events
            for member in array.members
            if member.superblock and "in_sync" in member.states
        }
        newest = max(events.values(), default=0)
        late = {name: newest - many for name, many in events.items() if newest - many > LATE}
        if not late:
            return
        if look < LOOKS - 1:
            time.sleep(0.2)
            array = inventory.array(roots.sys / "block" / array.name, roots)
    for name, many in late.items():
        yield "events", f"{name} is {many} events behind: it does not have all that was written"
