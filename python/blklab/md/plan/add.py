"""Judges `mdadm ARRAY --add DISK`: a spare, or a new member for an empty slot."""

from collections.abc import Iterator, Sequence

from blklab.md import command_lines
from blklab.md.audit import host
from blklab.md.model import Array, Software
from blklab.md.plan import acceptance
from blklab.md.plan.change import ChangePlan, Conditions, NewDisk, Refusal, Work
from blklab.md.plan.duration import estimate_duration, plan_recovery

STRIPED_OR_JOINED = frozenset({"raid0", "linear"})


def judge_add(array: Array, disks: Sequence[NewDisk], conditions: Conditions) -> ChangePlan:
    """Returns whether mdadm adds disks to an array, and how long their recovery takes."""
    path = array.path or f"/dev/{array.name}"
    call = command_lines.add_disks(path, [disk.path for disk in disks])
    first = disks[0].path if disks else ""
    refusals = [*acceptance.check_running(array), *_check_level(array, disks)]
    refusals += acceptance.check_failed(
        array, f"{path} has failed so using --add cannot work and might destroy data on {first}."
    )
    for disk in disks:
        refusals += acceptance.check_new_disk(array, disk)
        if disk.is_spare:
            reason = f"{disk.name} is a spare of the array already"
            refusals.append(Refusal("spare", f"Cannot open {disk.path}: Device or resource busy", reason))
    refusals += acceptance.check_writable(array, f"add new device failed for {first}")
    refusals += _check_bug(array, conditions.software)
    empty = min(acceptance.count_empty_slots(array), len(disks))
    facts = []
    work: tuple[Work, ...] = ()
    if empty:
        work = (plan_recovery(array, array.member_sectors, empty),)
        facts.append(f"{acceptance.describe_empty_slots(array)}: md rebuilds new disks from the other members")
    else:
        facts.append("no slot is empty: the disk becomes a spare, which md uses when a member fails")
    dangers = acceptance.warn_of_disks(array, disks)
    caveats: list[str] = []
    for disk in disks:
        caveats += acceptance.warn_of_blocks(array, disk)
    caveats += acceptance.describe_conditions(conditions)
    commands: list[str] = []
    if not refusals and not dangers:
        commands = _list_commands(path, disks, call, empty)
        if empty and array.sync is not None:
            commands.insert(0, command_lines.wait_for_sync(path))
    return ChangePlan(
        array, "add", call, conditions, tuple(refusals), tuple(dangers), "", work,
        None if refusals else estimate_duration(work, conditions), tuple(facts), tuple(commands),
        _describe_interruption(array, path) if work and not refusals else (), tuple(caveats),
    )  # fmt: skip


def _check_level(array: Array, disks: Sequence[NewDisk]) -> Iterator[Refusal]:
    """Yields that the level has no spares."""
    if array.level not in STRIPED_OR_JOINED:
        return
    path = disks[0].path if disks else ""
    reason = "RAID-0 has no spares: a disk joins it only with a reshape"
    remedy = "# See `blklab md plan reshape` with --add."
    if array.level == "linear":
        reason = "linear has no spares: a disk joins it only at its end, with `mdadm --grow --add`"
        remedy = "# This cannot be undone, and `md plan` does not judge it: see `man mdadm`, Grow mode."
    yield Refusal("no-spares", f"add new device failed for {path}", reason, (remedy,))


def _check_bug(array: Array, software: Software | None) -> list[Refusal]:
    if software is None or not host.adding_fails(array, software):
        return []
    reason = "with this kernel and mdadm older than 4.5, --add fails and damages superblocks (md audit: add-fails)"
    return [Refusal("add-fails", "", reason)]


def _list_commands(path: str, disks: Sequence[NewDisk], call: str, empty: int) -> list[str]:
    if not empty:
        return [call]
    rebuilt = [disk.path for disk in disks[:empty]]
    spare_paths = [disk.path for disk in disks[empty:]]
    lines = [
        "# blklab first reads all members, and adds a disk only if no sector can be read from it alone.",
        *(command_lines.fix_add(path, disk) for disk in rebuilt),
    ]
    if spare_paths:
        lines.append(command_lines.add_disks(path, spare_paths))
    return lines


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
