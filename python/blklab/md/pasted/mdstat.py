"""Reads /proc/mdstat (drivers/md/md.c, `md_seq_show`)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from blklab.md.model import SyncPass, Waiting

ARRAY = re.compile(r"^\s*(md[\w-]+) ?: (active|inactive|broken)\b(.*)$")
MEMBER = re.compile(r"([\w!.:/-]+)\[(\d{1,5})\]((?:\([A-Z]\))*)")
STATUS = re.compile(r"\[(\d{1,4})/(\d{1,4})\](?: \[([U_]+)\])?")
BLOCKS = re.compile(r"^\s*(\d{1,16}) blocks\b(.*)$")
PASS = re.compile(r"\b(resync|recovery|reshape|check|repair)\s*=\s*([\d.]+)% \((\d{1,16})/(\d{1,16})\)")
WAITING = re.compile(r"\b(resync|recovery|reshape|check)\s*=\s*(DELAYED|PENDING|REMOTE)")
EDGE = re.compile(r"\s*(?:unused devices:|Personalities :)")  # The first or the last line of a copy
SPEED = re.compile(r"speed=(\d{1,12})K/sec")
WAITS: dict[str, Waiting] = {"DELAYED": "other-array", "PENDING": "pending", "REMOTE": "remote"}
FLAGS = {"(F)": "faulty", "(S)": "spare", "(W)": "write_mostly", "(J)": "journal", "(R)": "replacement"}


@dataclass(frozen=True)
class StatMember:
    name: str  # `sda1`
    number: int
    states: tuple[str, ...]


@dataclass
class StatArray:
    """An array of /proc/mdstat."""

    name: str
    state: str  # `active`, `readonly`, `read-auto`, `inactive`, `broken`
    level: str  # Empty if it does not run
    members: list[StatMember]
    line: int  # Number of its first line
    size_kib: int = 0
    metadata: str = "0.90"
    chunk: int = 0  # Bytes
    layout: str = ""  # As mdadm names it, `left-symmetric`, `near=2`
    raid_disks: int | None = None
    working: int | None = None
    slots: str = ""  # `UU_`
    sync: SyncPass | None = None
    bitmap: bool = False
    copy: int = 0  # Number of the copy of /proc/mdstat in the text: arrays of one copy were there at the same time


def find_arrays(lines: list[str]) -> Iterator[StatArray]:
    """Yields the arrays of each copy of /proc/mdstat in a text."""
    array: StatArray | None = None
    copy = 0
    for number, line in enumerate(lines):
        heading = ARRAY.match(line)
        is_edge = bool(EDGE.match(line))
        if array is not None and (heading or is_edge):
            yield array
            array = None
        if is_edge:
            copy += 1
        elif heading:
            array = _begin_array(heading, number)
            array.copy = copy
        elif array is not None:
            _read_line(array, line)
    if array:
        yield array


def _begin_array(heading: re.Match[str], number: int) -> StatArray:
    name, state, rest = heading.groups()
    if "(read-only)" in rest:
        state = "readonly"
    elif "(auto-read-only)" in rest:
        state = "read-auto"
    plain = re.sub(r"\((?:auto-)?read-only\)", "", rest)
    level = re.match(r"\s*(raid\d+|linear|multipath|faulty)\b", plain)
    return StatArray(name, state, level[1] if level else "", _find_members(plain), number)


def _find_members(text: str) -> list[StatMember]:
    members = []
    for name, number, flags in MEMBER.findall(text):
        states = tuple(FLAGS[flag] for flag in re.findall(r"\([A-Z]\)", flags) if flag in FLAGS)
        members.append(StatMember(name, int(number), states))
    return members


def _read_line(array: StatArray, line: str) -> None:
    """Adds what a line below the heading says; a line of members that a mail has wrapped, too."""
    blocks = BLOCKS.match(line)
    if blocks and not array.size_kib:
        array.size_kib = int(blocks[1])
        metadata = re.search(r"\bsuper (external:\S+|non-persistent|\d\.\d+)", line)
        array.metadata = {"non-persistent": "none"}.get(metadata[1], metadata[1]) if metadata else "0.90"
        chunk = re.search(r"\b(\d{1,9})[kK] chunks?\b", line)
        array.chunk = int(chunk[1]) << 10 if chunk and "bitmap:" not in line else 0
        array.layout = _read_layout(line)
    elif not array.size_kib and MEMBER.search(line):
        array.members += _find_members(line)
    status = STATUS.search(line)
    if status and array.raid_disks is None and "bitmap:" not in line:
        array.raid_disks, array.working, array.slots = int(status[1]), int(status[2]), status[3] or ""
    array.bitmap = array.bitmap or "bitmap:" in line
    running = PASS.search(line)
    waiting = WAITING.search(line)
    if running:
        action = {"recovery": "recover"}.get(running[1], running[1])
        array.sync = SyncPass(action, 2 * int(running[3]), 2 * int(running[4]))
    elif waiting:
        action = {"recovery": "recover"}.get(waiting[1], waiting[1])
        array.sync = SyncPass(action, waiting=WAITS[waiting[2]])
    speed = SPEED.search(line)
    if speed and array.sync is not None:
        array.sync = SyncPass(
            array.sync.action, array.sync.done_sectors, array.sync.total_sectors, speed_kib=int(speed[1])
        )


def _read_layout(line: str) -> str:
    algorithm = re.search(r"algorithm (\d{1,2})\b", line)
    if algorithm:
        return algorithm[1]
    copies = re.findall(r"\b(\d{1,2}) (near|far|offset)-copies", line)
    return ", ".join(f"{kind}={count}" for count, kind in copies)
