"""Rules about redundancy and scrubbing: members missing, faulty, out of date or being rebuilt; checks of the copies."""

import math
import re
from collections.abc import Iterator
from functools import lru_cache

from blklab.diagnostic import Diagnostic, Severity
from blklab.grouping import by_key
from blklab.md import command_lines
from blklab.md.audit import containers
from blklab.md.audit.host import adding_fails
from blklab.md.audit.reshape import describe_reshape, is_growing_raid0
from blklab.md.audit.rule import level_text, list_names, make_finding
from blklab.md.audit.running import explain_dead
from blklab.md.availability import NEED_ALL, count_tolerated, find_availability, is_past_redundancy
from blklab.md.good_copies import find_sources_outside
from blklab.md.levels import PARITIES
from blklab.md.model import MAX_DISKS, Array, ArrayMember, MemberBitmap, Software, SyncPass
from blklab.md.probing import CONTINUING_TIMER
from blklab.md.recipes import DISK, Recipe, keep_running, stop_users
from blklab.md.reliability import YEAR, Care, Disk, RedundantArray, in_words, one_in, probability
from blklab.units import SECTOR, format_duration, format_size

BITMAP_ADVISED_ABOVE = 100 << 30  # Bytes of an array whose full resync takes long enough for a warning
FEWEST_BAYS = 8  # Slots: more copies than users want
MOST_BYTES_OF_SYSTEM = 64 << 30
MOST_DISKS_SIMULATED = 64  # A damaged number of disks must not make an audit last for minutes
EVENTS_OF_BITMAP = 2  # Outputs of a running array are printed one after the other
REBUILD_SPEED = 100 << 20  # Bytes per second, if no rebuild runs; half of what md allows


def check_degraded(array: Array, software: Software | None) -> Iterator[Diagnostic]:
    """Members are missing; critical if no rebuild runs, or if the next failure loses data."""
    if not array.degraded or is_growing_raid0(array):
        return
    if has_slot_for_each_bay(array):
        message = (
            f"{array.usable} of {array.raid_disks} slots have a member. Systems of NAS (QNAP, Synology) make such "
            "small mirrors with a slot for each bay, also for empty ones: then no member is missing"
        )
        yield make_finding(array, "note", "degraded", message)
        return
    spares = [member.name for member in array.members if member.spare]
    idle = [member.name for member in array.container_array.idle] if array.container_array else []
    max_failures = count_tolerated(array)
    last = max_failures is not None and array.degraded >= max_failures
    rebuilding = array.sync is not None and array.sync.action == "recover"
    if rebuilding:
        replacement = "a rebuild is running"
    elif spares:
        replacement = f"md does not use the spare {list_names(spares)}"
    elif idle:
        replacement = f"no rebuild runs, although no volume of the container {array.container} uses {list_names(idle)}"
    else:
        replacement = _describe_other_spares(array, software) or "there is no spare"
    verb = "is" if array.degraded == 1 else "are"
    message = f"{array.degraded} of {array.raid_disks} members {verb} missing, and {replacement}"
    if last:
        effect = "may lose" if array.level == "raid10" else "loses"
        message += f"; the next failure {effect} data"
    message += _describe_risk(array, software, rebuilding)
    message += _describe_members_to_keep(array)
    runs = array.live and array.state != "inactive" and not is_past_redundancy(array)
    can_add = not (rebuilding or spares or array.external or array.reshaping or adding_fails(array, software))
    commands = fill_slot(array) if runs and can_add else ()
    if array.external and runs and not rebuilding and not array.reshaping:
        commands = containers.fill_volume(array)
    yield make_finding(array, "critical" if last or not rebuilding else "warning", "degraded", message, *commands)


def has_slot_for_each_bay(array: Array) -> bool:
    """Whether an array is as those of the system of a NAS: a small mirror of all disks, with slots for empty bays."""
    is_small = 0 < (array.size or 0) <= MOST_BYTES_OF_SYSTEM
    return array.level == "raid1" and array.raid_disks >= FEWEST_BAYS and array.usable >= 2 and is_small


def _describe_other_spares(array: Array, software: Software | None) -> str:
    """Returns which spares other arrays have, and whether they come here; empty if there are none.

    mdadm --monitor moves a spare to a degraded array of the same spare-group (mdadm.conf(5); mdadm: mdmonitor.c,
    `try_spare_migration`).
    """
    shared_names = [f"{spare.member} of {spare.array}" for spare in array.other_spares if spare.shared]
    other_names = [f"{spare.member} of {spare.array}" for spare in array.other_spares]
    if shared_names:
        runs = software.shares_spares if software else None
        if runs:
            movement = "the monitor of mdadm runs, and moves it here"
        elif runs is False:
            movement = "nothing moves it here, because the monitor of mdadm does not run"
        else:
            movement = "the monitor of mdadm moves it here if it runs"
        return f"it has no spare, but its spare group has ({list_names(shared_names)}): {movement}"
    if other_names:
        return f"it has no spare; other arrays have ({list_names(other_names)}), but not in the same spare group"
    return ""


def _describe_members_to_keep(array: Array) -> str:
    """Returns a sentence on the members that are out and must stay as they are; empty if there are none."""
    if not array.live:
        return ""
    members = [member for member in array.members if "faulty" in member.states]
    members += find_sources_outside(array)
    names = list(dict.fromkeys(member.name for member in members))
    if not names:
        return ""
    return (
        f". Keep {list_names(names)} (do not wipe or reuse it) until the array is complete: "
        "it may have the only copy of what cannot be read from the other members"
    )


def _describe_risk(array: Array, software: Software | None, rebuilding: bool) -> str:
    """Returns a sentence on how likely data are lost until no member is missing; empty if unknown or too late."""
    if array.state == "inactive" or array.raid_disks > MOST_DISKS_SIMULATED:
        return ""
    working = {member.slot: member for member in array.active if "in_sync" in member.states}
    sector_map = array.sector_map  # None if the number of disks is damaged, too
    missing = sorted(set(range(array.raid_disks if sector_map else 0)) - set(working))
    if array.reshaping or array.state == "broken" or not (missing and sector_map and sector_map.runs_without(missing)):
        return ""
    kind = "ssd" if all(member.rotational is False for member in working.values()) else "hdd"
    disks = (Disk("", kind, array.member_sectors * SECTOR),) * array.raid_disks
    hours_left = (array.sync.left_seconds or 0) / 3600 if array.sync and rebuilding else 0
    hours = math.ceil(max(disks[0].bytes / REBUILD_SPEED / 3600, hours_left, 1))
    # A rebuild that runs began when it would have begun at this speed.
    began = math.ceil(hours_left) - hours if hours_left else 0
    new = {member.slot: began for member in array.members if rebuilding and "spare" in member.states}
    failures = tuple(sorted(((slot, new.get(slot, 0)) for slot in missing), key=lambda failure: failure[1]))
    part = RedundantArray(array.level, range(array.raid_disks), hours, array.layout, len(new), failures)
    is_checked = software is None or software.checked_by or array.last_action == "check"
    loss = _loss(disks, (part,), Care() if is_checked else Care(scrub_days=None, data_age_hours=YEAR))
    if rebuilding:
        until = "Until the rebuild ends, the probability of data loss"
    else:
        until = (
            "If failed disks are replaced in 3 days and rebuilt at 100 MiB/s, the probability of data loss until then"
        )
    return (
        f". {until} is {in_words(loss.any)}: "
        f"{one_in(loss.sectors.mean)} for single blocks that cannot be read, "
        f"{one_in(loss.disks.mean)} for more failed disks"
    )


_loss = lru_cache(maxsize=256)(probability)  # The exporter asks again every few seconds


def fill_slot(array: Array) -> tuple[str, ...]:
    """Returns the command that makes a degraded array complete, which measures before it changes anything."""
    return (
        "# DISK is the missing disk if it works again, or an empty one. Give its path in /dev/disk/by-id.",
        command_lines.fix_add(array.path, DISK),
    )


def check_broken(array: Array, software: Software | None) -> Iterator[Diagnostic]:
    """Md refuses all writes to the array, because a member had an error that it cannot do without."""
    if not is_past_redundancy(array):
        return
    slots = {member.slot for member in array.active if "faulty" not in member.states and not member.spare}
    missing = sorted(set(range(min(array.raid_disks, MAX_DISKS))) - slots)
    if array.level in NEED_ALL and missing:
        message, lines = explain_dead(array, missing)
        yield make_finding(array, "critical", "broken", message, *lines)
    else:
        message, recipe = explain_broken(array, software)
        yield make_finding(array, "critical", "broken", message, *recipe.lines)


def explain_broken(array: Array, software: Software | None) -> tuple[str, Recipe]:
    """Returns what `broken` means for an array, and how to start it again (drivers/md/md.c, MD_BROKEN)."""
    says = f" The kernel says: {'; '.join(array.kernel_errors)}." if array.kernel_errors else ""
    has_all_data = array.level != "raid10" or find_availability(array).can_run is not False
    if array.level in {"raid1", "raid10"} and has_all_data:  # md keeps the last copy in the array
        message = (
            f"is broken: every write to it fails, because the last good copy of some data had an error.{says} "
            "What was written before can still be read. Do not add, remove or wipe a disk"
        )
    else:
        message = (
            f"is broken: every write to it fails, and reads too, because more members have failed than "
            f"{level_text(array.level)} survives.{says} The data are still on the disks. "
            "Do not add, remove or wipe a disk"
        )
    kernel = software.kernel if software else None
    unusable = [member.path for member in array.active if member.is_refused_by(kernel)]
    if unusable:
        return message, Recipe("keep", keep_running(unusable))
    erring = [member.path for member in array.members if _has_error(array, member)]
    disks = list_names(erring) if erring else "the disk with the error (see dmesg)"
    resume = [command_lines.resume_fix()] if array.repairing else []
    lines = (
        f"# Copy {disks} first (ddrescue), before anything is rebuilt from it. Correct a bad cable or controller.",
        *stop_users(array),
        command_lines.fix_restart(array.path),
        *resume,
        "# Then check the filesystem: data that were being written may be damaged.",
    )
    return message, Recipe("restart", lines)


def _has_error(array: Array, member: ArrayMember) -> bool:
    """Whether the kernel's log has an error of the device itself, apart from its removal."""
    name = re.compile(rf"(?<![\w-]){re.escape(member.name)}(?![\w-])")
    return any(name.search(line) and not line.startswith("Disk failure") for line in array.kernel_errors)


def check_unfinished_repair(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A repair by blklab was interrupted, and a member may be out of the array."""
    if array.repairing:
        why, *commands = array.unfinished_repair or (
            "if it is not running now, continue it",
            command_lines.resume_fix(),
        )
        message = f"a repair by blklab is not finished: {why}"
        severity: Severity = "critical" if array.degraded else "warning"
        yield make_finding(array, severity, "repair-unfinished", message, *commands)


def check_suspended_writes(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Writes to the array are suspended, and no reshape is running."""
    if array.suspended and not array.reshaping:
        message = (
            "writes to it are suspended; a repair by blklab does this for some seconds, "
            "and otherwise only a reshape does; run the audit again, and if this remains, resume the writes"
        )
        resume = command_lines.resume_writes(array.name)
        yield make_finding(array, "critical", "writes-suspended", message, resume)


def check_faulty(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Md has failed a member and does not use it any more."""
    for member in array.members:
        role = member.superblock.role if member.superblock else ""
        if "journal" in member.states:
            continue  # check_write_journal reports it
        if "faulty" in member.states or (not member.states and role == "faulty"):
            message = "is faulty: md does not use it any more; keep it as it is until the array is complete again"
            complete = array.degraded == 0 and array.sync is None
            remove = [command_lines.fix_remove(array.path, member.path)] if complete else []
            yield make_finding(array, "critical", "faulty", message, *remove, member=member.name)


def check_event_counts(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A member's event count is behind: it lacks recent writes."""
    event_counts = {
        other.name: other.superblock.events
        for other in array.members
        if other.superblock
        and other.superblock.accepted
        and other.superblock.role != "spare"
        and "faulty" not in other.states
    }
    newest = max(event_counts.values(), default=0)
    # Superblocks of a running array are read one after the other: they may differ by one event.
    slack = 1 if array.live or array.state != "clean" else 0
    for member in array.members:
        behind = newest - event_counts.get(member.name, newest)
        if behind > slack:
            message = (
                f"its superblock is {behind:,} events behind "
                f"(event count {event_counts[member.name]:,}, the others have {newest:,}): "
                "it lacks everything that was written since"
            )
            yield make_finding(array, "warning", "events", message, member=member.name)


def check_duplicate_slots(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Several members have the same slot in their superblocks."""
    slots = by_key(
        (candidate.slot, candidate.name)
        for candidate in array.members
        if candidate.slot is not None and not candidate.replacement
    )
    names_by_slot = {member.slot: member.name for member in array.distinct}
    for slot, names in slots.items():
        if len(names) > 1:
            message = (
                f"superblocks of {list_names(names)} have the same slot, {slot}: one of them is a copy, "
                f"or was replaced; the audit counts only {names_by_slot[slot]}"
            )
            yield make_finding(array, "warning", "same-slot", message)


def check_missing_images(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Images of some members were not given."""
    if array.absent:
        slots = list_names([str(slot) for slot in array.absent])
        plural = "s" if array.absent[1:] else ""
        verb = "were" if array.absent[1:] else "was"
        message = f"the member{plural} of slot{plural} {slots} {verb} not given: this audit is about the others only"
        yield make_finding(array, "note", "not-given", message)


def check_sync_action(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A resync, recovery, reshape, check or repair is running."""
    sync = array.sync
    if sync is None:
        return
    commands: tuple[str, ...] = ()
    if sync.done_sectors is None or not sync.total_sectors:
        progress = _describe_waiting(array, sync)
        if sync.waiting == "pending" and array.state == "read-auto" and array.path:
            commands = ("# Without a write, this starts it:", command_lines.make_writable(array.path))
    else:
        progress = f"is running: {100 * sync.done_sectors / sync.total_sectors:.1f} %"
        if sync.left_seconds is not None:
            progress += f", {format_duration(sync.left_seconds * 1e9)} left at {sync.speed_kib:,} KiB/s"
    if sync.action == "reshape":
        progress = ". ".join([progress, *describe_reshape(array)])
    risky = sync.action in {"resync", "recover", "reshape"}
    yield make_finding(array, "warning" if risky else "note", "under-way", f"{sync.name} {progress}", *commands)


def _describe_waiting(array: Array, sync: SyncPass) -> str:
    """Returns what a sync action waits for (drivers/md/md.c, `status_resync`)."""
    if sync.waiting == "remote":
        return "runs on another node of the cluster"
    if sync.waiting != "pending":
        return "waits for another array on the same disks"
    if array.state == "read-auto":
        return "waits for the first write to the array (auto-read-only)"
    if array.state == "readonly":
        return "waits until the array is writable: it is read-only"
    return "is pending: it has not begun"


def check_unfinished_sync(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Reports images of arrays whose resync or rebuild was not finished.

    `not-clean`: The array was not stopped cleanly, or a resync did not finish.

    `half-rebuilt`: A member was rebuilt only in part.
    """
    offsets = [
        other.superblock.resync_offset
        for other in array.members
        if other.superblock and other.superblock.resync_offset is not None
    ]
    if offsets and array.redundant and not array.live:
        message = (
            f"was not stopped cleanly, or a resync was not finished (md will continue it at sector {min(offsets):,})"
        )
        availability = find_availability(array)
        if array.level in PARITIES and availability.can_run and availability.missing and not array.absent:
            message = (
                "was not stopped cleanly, and a member is missing or behind: md refuses to start it "
                "(`cannot start dirty degraded array`), because the parity of some stripes may be old"
            )
        yield make_finding(array, "warning", "not-clean", message)
    for member in array.members:
        superblock = member.superblock
        if superblock and superblock.recovery_offset is not None and not array.live:
            message = f"was rebuilt only up to sector {superblock.recovery_offset:,}"
            yield make_finding(array, "warning", "half-rebuilt", message, member=member.name)


def check_bitmap(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A redundant array larger than 100 GiB has no write-intent bitmap."""
    log = any(member.superblock and member.superblock.role == "journal" for member in array.members)
    large = array.redundant and (array.size or 0) > BITMAP_ADVISED_ABOVE
    if array.bitmap is False and large and not (log or array.external):
        can_add = array.state not in {"readonly", "read-auto", "inactive", "broken"} and not is_changing(array)
        commands = [command_lines.add_bitmap(array.path)] if can_add else []
        message = (
            "has no write-intent bitmap: after a crash or a loose cable, "
            "md resyncs all of it instead of only what changed"
        )
        yield make_finding(array, "warning", "no-bitmap", message, *commands)


def check_member_bitmaps(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Reports what the bitmaps on members say, if a text shows them.

    `bitmap-stale`: The bitmap of a member is out of date.

    `bitmap-dirty`: Chunks are marked as changed; which members can return without a full rebuild.
    """
    current = []
    for member in array.members:
        bitmap = member.member_bitmap
        superblock = member.superblock
        if bitmap is None or superblock is None:
            continue
        if bitmap.is_out_of_date or bitmap.events + EVENTS_OF_BITMAP < superblock.events:
            message = (
                f"its bitmap is out of date ({bitmap.events:,} events, its superblock has {superblock.events:,}): "
                "md ignores it at the next start, and resyncs or rebuilds completely"
            )
            yield make_finding(array, "warning", "bitmap-stale", message, member=member.name)
        else:
            current.append((superblock.events, member.name, bitmap))
    if current:
        _, name, bitmap = max(current, key=lambda entry: entry[0])
        if bitmap.dirty and bitmap.bits and bitmap.chunk:
            yield make_finding(array, "note", "bitmap-dirty", _describe_dirty_chunks(array, name, bitmap))


def _describe_dirty_chunks(array: Array, name: str, bitmap: MemberBitmap) -> str:
    """Returns how much a bitmap marks as changed, and which members can return (md.c, `super_1_validate`)."""
    dirty = bitmap.dirty or 0
    message = (
        f"the bitmap of {name} has {dirty:,} of {bitmap.bits or 0:,} chunks marked as changed "
        f"({format_size(dirty * (bitmap.chunk or 0))}): a member that was out and returns (--re-add) gets only these"
    )
    cleared = bitmap.events_cleared
    for member in (*array.members, *array.outside):
        superblock = member.superblock
        if cleared is None or superblock is None or superblock.slot is None or superblock.events >= bitmap.events - 1:
            continue
        if superblock.events >= cleared:
            message += f". {member.name} can return so: it has what the bitmap no longer lists"
        else:
            message += f". {member.name} cannot: it left before event {cleared:,}, so it needs a full rebuild"
    return message


def is_changing(array: Array) -> bool:
    """Whether a sync action runs, or a reshape is not finished: then no command that starts an action is printed."""
    return array.sync is not None or array.reshaping


def check_schedule(array: Array, software: Software | None) -> Iterator[Diagnostic]:
    """No regular check is configured, and none ran since the array was assembled."""
    if not (array.live and array.redundant) or array.external or software is None or software.checked_by:
        return
    checking = array.sync is not None and array.sync.action == "check"
    if array.last_action != "check" and not checking:
        # md refuses a check while another action runs, and would continue a reshape that was stopped
        commands = [] if is_changing(array) else [command_lines.check_array(array.path)]
        action = array.last_action or "unknown"
        message = (
            "no regular check was found: no checkarray or raid-check in cron, no mdcheck_start.timer, "
            f"and no check since the array was assembled (last_sync_action is {action}); "
            "without checks, unreadable sectors first appear during a rebuild"
        )
        yield make_finding(array, "warning", "never-checked", message, *_plan_checks(software), *commands)


def _plan_checks(software: Software) -> list[str]:
    """Returns how to have arrays checked regularly, with what is installed on the host."""
    if software.autocheck is False:
        return ["# For a check every month, write AUTOCHECK=true into /etc/default/mdadm."]
    starters = [timer for timer in software.timers if timer != CONTINUING_TIMER]
    if not starters:
        return [
            "# Check it every month. mdcheck_start.timer (mdadm) and raid-check.timer (Fedora) do so, but blklab does",
            "# not find them here: then let cron run this command.",
        ]
    timers = starters[:1]
    if starters[0] == "mdcheck_start.timer" and CONTINUING_TIMER in software.timers:
        timers.append(CONTINUING_TIMER)
    return ["# For a check every month:", command_lines.enable_timers(timers)]
