"""Tries old geometries on overlays, after a wrong `--create`: makes superblocks there, and checks the filesystem.

What `geometry_search` found explains blocks; only a filesystem check explains everything between them. If the files are
right, the superblocks of the overlays are saved as metadata that `blklab md fix metadata` can put on the disks.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from blklab.errors import BlklabError, SystemErrors, UsageError
from blklab.md import command_lines
from blklab.md.inventory import read_inventory
from blklab.md.model import ArrayMember
from blklab.md.repair import journal
from blklab.md.rescue.geometry_search import (
    GeometryHints,
    GeometrySearch,
    OldGeometry,
    describe_geometry,
    find_geometries,
)
from blklab.md.rescue.overlay_record import METADATA, MemberFacts, OverlayRecord, write_record
from blklab.md.rescue.overlays import (
    check_programs,
    check_space,
    find_arrays_to_stop,
    find_overlay_nodes,
    find_rules,
    try_on_overlays,
    undo,
)
from blklab.md.rescue.saved_metadata import save_members, save_overlay_metadata
from blklab.md.rescue.trial import Report
from blklab.md.superblocks import newest_superblock, read_superblocks
from blklab.system import identity, process
from blklab.system.roots import Roots, read_text
from blklab.units import SECTOR

FOUND = "found"  # The directory with the superblocks of the overlays, in that of the overlays
MOST_TRIED = 8  # Geometries that explain the same blocks


@dataclass(frozen=True)
class SearchPlan:
    """Devices of an array whose superblocks are wrong."""

    members: tuple[ArrayMember, ...]
    directory: Path
    hints: GeometryHints
    arrays_to_stop: tuple[str, ...]
    rules: tuple[str, ...]


def plan_search(devices: Sequence[str], directory: Path, hints: GeometryHints, roots: Roots) -> SearchPlan:
    """Returns which devices are searched and get overlays.

    Raises UsageError for what is no block device, for one in use, and for a directory on one of them.
    """
    check_programs()
    outside = {member.path: member for member in read_inventory(roots).outside}
    members = []
    for name in devices:
        device = identity.resolve(name, roots)
        path = roots.format_path(roots.device(device.name))
        superblock = newest_superblock(read_superblocks(Path(path)))
        member = outside.get(path) or ArrayMember(device.name, path, superblock=superblock)
        if member.users:
            raise UsageError(f"{path}: in use: {member.users[0]}: stop this first")
        members.append(member)
    check_space(directory, members, roots)
    return SearchPlan(tuple(members), directory, hints, find_arrays_to_stop(members, roots), tuple(find_rules(roots)))


def search_on_overlays(plan: SearchPlan, report: Report, roots: Roots) -> tuple[GeometrySearch, OverlayRecord | None]:
    """Searches for the old geometry, and tries what was found on overlays until a filesystem is right.

    Returns the search, and the overlays that are left; None if no geometry was found. Raises BlklabError if an overlay
    cannot be made: everything is undone then.
    """
    directory = plan.directory
    report("search for the old geometry, which only reads", "")
    search = find_geometries([Path(member.path) for member in plan.members], plan.hints)
    if not search.geometries:
        return search, None
    with journal.lock_array(f"overlays-{Path(plan.members[0].path).name}", roots):
        with SystemErrors(UsageError, directory):
            directory.mkdir(mode=0o700)
        report(f"save what is there now to {directory / METADATA}, and compare", "")
        save_members(plan.members, directory / METADATA, roots)
        record = None
        for number, geometry in enumerate(search.geometries[:MOST_TRIED], 1):
            if record is not None:
                undo(record, directory, report, roots)
            report(f"try geometry {number} of {len(search.geometries)}", "")
            record = _try_geometry(plan, geometry, report, roots)
            if record.trial is not None and record.trial.verdict == "good":
                break
        # Only of the geometry whose overlays are left: another one was tried and given up.
        if record is not None and record.trial is not None and record.trial.verdict in {"good", "unchecked"}:
            _save_superblocks(record, plan.members, directory, report, roots)
    return search, record


def _try_geometry(plan: SearchPlan, geometry: OldGeometry, report: Report, roots: Roots) -> OverlayRecord:
    slots = {member.path: member.slot for member in geometry.members if member.path}
    offsets = {member.slot: member.data_offset or 0 for member in geometry.members}
    members = sorted((member for member in plan.members if member.path in slots), key=lambda member: slots[member.path])
    record = OverlayRecord(
        id=secrets.token_hex(4),
        boot_id=process.boot_id(roots),
        array_uuid="",
        array_name="the old array",
        members=[_describe(member, slots[member.path], roots) for member in members],
        masked_rules=list(plan.rules),
    )
    write_record(record, plan.directory)

    def create(array: str, overlays: Sequence[str]) -> str:
        by_slot = {slots[member.path]: overlay for member, overlay in zip(members, overlays, strict=True)}
        own_offsets = any(offsets.values())
        disks = []
        for slot in range(len(geometry.members)):
            disk = by_slot.get(slot, "missing")
            disks.append(f"{disk}:{offsets[slot] // SECTOR}s" if own_offsets and disk != "missing" else disk)
        return command_lines.create_on_overlays(
            array,
            geometry.level,
            geometry.layout,
            geometry.chunk,
            "1.2" if own_offsets else "1.0",
            disks,
            own_offsets=own_offsets,
        )

    record = try_on_overlays(record, plan.arrays_to_stop, plan.directory, create, report, roots)
    if record.trial is not None:
        lines = [f"Tried: {'; '.join(describe_geometry(geometry))}.", *record.trial.lines]
        record = msgspec.structs.replace(record, trial=msgspec.structs.replace(record.trial, lines=lines))
        write_record(record, plan.directory)
    return record


def _describe(member: ArrayMember, slot: int, roots: Roots) -> MemberFacts:
    device = identity.resolve(member.path, roots)
    superblock = member.superblock
    return MemberFacts(
        path=member.path,
        ids=list(device.ids),
        size=device.size,
        array_uuid=superblock.uuid if superblock else "",
        device_uuid=superblock.device if superblock else "",
        slot=slot,
        events=superblock.events if superblock else 0,
        updated=superblock.updated if superblock else 0,
        was_read_only=read_text(roots.sys / "class/block" / member.name / "ro") == "1",
    )


def _save_superblocks(
    record: OverlayRecord, members: Sequence[ArrayMember], directory: Path, report: Report, roots: Roots
) -> None:
    """Saves the superblocks of the overlays, as metadata of the devices below them."""
    report(f"save the superblocks of the overlays to {directory / FOUND}", "")
    overlays = {read_text(node / "dm/uuid"): f"/dev/{node.name}" for node in find_overlay_nodes(record, roots)}
    pairs = []
    by_path = {member.path: member for member in members}
    for number, facts in enumerate(record.members):  # In order of slots, as the overlays
        overlay = overlays.get(f"{record.uuid_prefix}{number}")
        if overlay is None:
            raise BlklabError(f"{facts.path}: its overlay is gone")
        pairs.append((by_path[facts.path], overlay))
    save_overlay_metadata(pairs, directory / FOUND, roots)
