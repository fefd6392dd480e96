"""Reads the kernel's messages, and finds those about arrays: errors that broke them, mismatches, and all events.

Records: Documentation/ABI/testing/dev-kmsg. Each read returns one record, `priority,number,time,flags;message`.
Programs may write records too: their priority has another facility than the kernel's. Names in messages are hostile.
"""

import os
import re
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from blklab.md.log_events import find_events
from blklab.md.model import Array, Inventory, merge_ranges
from blklab.md.superblocks import SectorRange
from blklab.system.roots import Roots, entries, open_descriptor, read_text

MAX_RECORDS = 200_000  # A log that grows while it is read must end
MAX_BYTES = 1 << 20  # Of the newest messages, which are kept
RECORD_BYTES = 8192  # The kernel's limit is smaller
MAX_ERRORS = 3

ERRORS = (  # drivers/md/raid5.c, raid1.c and raid10.c; the group is the member
    re.compile(r"read error not correctable \(sector \d{1,20} on (\S{1,64})\)\.?", re.A),
    re.compile(r"(\S{1,64}): unrecoverable I/O (?:read )?error for block \d{1,20}", re.A),
    re.compile(r"Disk failure on (\S{1,64}), disabling device\.?", re.A),
)


def add_log(inventory: Inventory, roots: Roots, read: Callable[[Roots], str]) -> Inventory:
    """Returns an inventory with the events in the kernel's log, which `read` returns with moments."""
    if not inventory.arrays and not inventory.unassembled:
        return inventory
    log = read(roots)
    if not log:
        reason = f"{roots.dev / 'kmsg'}: not seen: the kernel's log: run blklab as root"
        return replace(inventory, unseen=(*inventory.unseen, reason))
    events = find_events(log.splitlines(), _find_disks_of_ports(roots))
    boot = re.search(r"^btime (\d{1,12})$", read_text(roots.proc / "stat") or "", re.M | re.A)
    if boot:
        events = [replace(event, clock=int(boot[1]) + (event.seconds or 0.0)) for event in events]
    return replace(inventory, log=tuple(events))


def _find_disks_of_ports(roots: Roots) -> dict[str, str]:
    """Returns the disks by their ports of ATA, `ata3`; without ports that have several."""
    disks: dict[str, set[str]] = {}
    for entry in entries(roots.sys / "block"):
        for part in entry.resolve().parts:
            if re.fullmatch(r"ata\d{1,5}", part, re.A):
                disks.setdefault(part, set()).add(entry.name)
    return {port: next(iter(names)) for port, names in disks.items() if len(names) == 1}


def read_kernel_log(path: Path, *, with_moments: bool = False) -> str:
    """Returns the kernel's messages in `/dev/kmsg`, one a line, the oldest first; empty if they cannot be read.

    `with_moments` puts the time since boot before each, as dmesg does.
    """
    lines: deque[str] = deque()
    size = 0
    try:
        with open_descriptor(path, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
            for _ in range(MAX_RECORDS):
                try:
                    record = os.read(descriptor, RECORD_BYTES)
                except BrokenPipeError:  # the oldest record was overwritten meanwhile: the next read continues
                    continue
                if not record:
                    break
                for line in parse_records(record, with_moments=with_moments):
                    lines.append(line)
                    size += len(line)
                while size > MAX_BYTES:
                    size -= len(lines.popleft())
    except OSError:  # also at the end of the log (EAGAIN)
        pass
    return "\n".join(lines)


def parse_records(content: bytes, *, with_moments: bool = False) -> list[str]:
    """Returns the messages of records that the kernel itself wrote."""
    pattern = r"^(\d{1,6}),\d{1,20},(\d{1,16}),[^;\n]{0,200};(.*)$"
    messages = []
    for priority, microseconds, message in re.findall(pattern, content.decode(errors="replace"), re.M | re.A):
        if int(priority) >= 8:
            continue
        seconds, fraction = divmod(int(microseconds), 1_000_000)
        messages.append(f"[{seconds:5d}.{fraction:06d}] {message}" if with_moments else message)
    return messages


def find_array_errors(array: Array, log: str) -> tuple[str, ...]:
    """Returns the last different messages about errors of an array's members."""
    names = {member.name for member in array.members}
    messages: dict[str, None] = {}
    for message in re.findall(rf"^md/raid\w*:{re.escape(array.name)}: (.{{1,200}})$", log, re.M | re.A):
        matches = [pattern.fullmatch(message) for pattern in ERRORS]
        if any(match and match[1] in names for match in matches):
            plain = message.removesuffix(".")
            messages.pop(plain, None)
            messages[plain] = None
    return tuple(messages)[-MAX_ERRORS:]


def find_mismatch_ranges(array: Array, log: str) -> tuple[SectorRange, ...]:
    """Returns the sectors of members where the last check of an array found mismatches (drivers/md/raid5.c).

    The kernel logs only some of many. Empty if the last sync action was not a check, or if its start is not in the log.
    """
    if array.last_action != "check":
        return ()
    name = re.escape(array.name)
    starts = list(re.finditer(rf"^md: ([\w-]+) of RAID array {name}$", log, re.M | re.A))
    if not starts or starts[-1][1] != "data-check":
        return ()
    messages = log[starts[-1].end() :]
    pairs = re.findall(rf"^{name}: mismatch sector in range (\d{{1,20}})-(\d{{1,20}})$", messages, re.M | re.A)
    ranges = [SectorRange(int(first), int(end) - int(first)) for first, end in pairs if int(first) < int(end)]
    return merge_ranges(tuple(ranges))
