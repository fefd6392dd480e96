"""Judges `mdadm ARRAY --add DISK`: a spare, or a new member for an empty slot."""

from collections.abc import Sequence

from blklab.md import command_lines
from blklab.md.audit import host
from blklab.md.model import Array, Software
from blklab.md.plan import acceptance
from blklab.md.plan.change import ChangePlan, Conditions, NewDisk, Refusal, Work
from blklab.md.plan.duration import estimate_duration, plan_recovery


def judge_add(array: Array, disks: Sequence[NewDisk], conditions: Conditions) -> ChangePlan:
    """Returns whether mdadm adds disks to an array, and how long their recovery takes."""
    path = array.path or f"/dev/{array.name}"
    call = command_lines.add_disks(path, [disk.path for disk in disks])
    refusals = [*acceptance.check_running(array), *_check_level(array, disks)]
    for disk in disks:
        refusals += acceptance.check_new_disk(array, disk)
        if disk.is_spare:
            reason = f"{disk.name} is a spare of the array already"
            refusals.append(Refusal("spare", f"Cannot open {disk.path}: Device or resource busy", reason))
    first = disks[0].path if disks else ""
    refusals += acceptance.check_writable(array, f"add new device failed for {first}")
    refusals += _check_bug(array, conditions.software)
    empty = min(array.degraded or 0, len(disks))
    facts = []
    work: tuple[Work, ...] = ()
    if empty:
        work = (plan_recovery(array, array.member_sectors, empty),)
        facts.append(f"{empty} of {array.raid_disks} slots are empty: md rebuilds the new disk from the other members")
    else:
        facts.append("no slot is empty: the disk becomes a spare, which md uses when a member fails")
    dangers = acceptance.warn_of_disks(array, disks)
    caveats: list[str] = []
    for disk in disks:
        caveats += acceptance.warn_of_blocks(array, disk)
    caveats += acceptance.describe_conditions(conditions)
    commands: list[str] = []
    if not refusals and not dangers:
        commands = _list_commands(path, disks, call, rebuilds=bool(empty))
    return ChangePlan(
        array, "add", call, conditions, tuple(refusals), tuple(dangers), "", work,
        None if refusals else estimate_duration(work, conditions), tuple(facts), tuple(commands),
        _describe_interruption(array, path) if work else (), tuple(caveats),
    )  # fmt: skip


def _check_level(array: Array, disks: Sequence[NewDisk]) -> list[Refusal]:
    if array.level != "raid0":
        return []
    path = disks[0].path if disks else ""
    return [
        Refusal(
            "no-spares", f"add new device failed for {path}",
            "RAID-0 has no spares: a disk joins it only with a reshape",
            ("# See `blklab md plan reshape` with --add.",),
        )
    ]  # fmt: skip


def _check_bug(array: Array, software: Software | None) -> list[Refusal]:
    if software is None or not host.adding_fails(array, software):
        return []
    reason = "with this kernel and mdadm older than 4.5, --add fails and damages superblocks (md audit: add-fails)"
    return [Refusal("add-fails", "", reason)]


def _list_commands(path: str, disks: Sequence[NewDisk], call: str, *, rebuilds: bool) -> list[str]:
    if not rebuilds or len(disks) > 1:
        return [call]
    return [
        "# blklab first reads all members, and adds the disk only if no sector can be read from it alone.",
        command_lines.fix_add(path, disks[0].path),
    ]


def _describe_interruption(array: Array, path: str) -> tuple[str, ...]:
    if array.metadata == "0.90":
        position = "# The recovery begins again: metadata 0.90 do not store its position. No data is lost."
    else:
        position = "# md continues the recovery where the superblock of the new disk says. No data is lost."
    lines = [position]
    if array.bitmap is False and array.consistency not in {"journal", "ppl"}:
        lines.append("# Without a bitmap, md then also compares all other members after a power cut.")
    lines.append(command_lines.show_detail(path))
    return tuple(lines)
