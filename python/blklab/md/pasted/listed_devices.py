"""Reads lsblk and blkid: which disks and partitions there are, how large, what they are, and what is on them.

lsblk draws a tree with UTF-8 or ASCII characters, with any columns (-o), or prints pairs (-P).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from blklab.grouping import by_key
from blklab.md import command_lines
from blklab.md.audit.rule import list_names
from blklab.md.levels import LEVELS
from blklab.md.model import Array, ArrayMember, ArrayPart

MEMBER_TYPE = "linux_raid_member"
TREE = re.compile(r"^[\s│├└─|`+-]*(?=[\w])")
COLUMN = re.compile(r"\S+")
COLUMNS = frozenset({"MAJ:MIN", "SIZE", "TYPE", "FSTYPE", "MODEL", "SERIAL", "UUID", "MOUNTPOINT", "MOUNTPOINTS"})
"""Columns of which at least one is next to NAME in the heading of lsblk."""

RIGHT = frozenset({"MAJ:MIN", "RM", "SIZE", "RO", "ROTA", "LOG-SEC", "PHY-SEC", "FSAVAIL", "FSUSE%", "FSSIZE", "RA"})
"""Columns that lsblk aligns to the right."""

KINDS = re.compile(r"disk|part|raid\d{1,2}|linear|md|lvm|crypt|loop|rom|mpath|dm|multipath|faulty")
SIZE = re.compile(r"(\d{1,19}(?:[.,]\d{1,3})?)([BKMGTPE]?)i?B?")
UNITS = {"": 0, "B": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
DEVICE = r"(?:sd[a-z]{1,3}|hd[a-z]|vd[a-z]{1,2}|xvd[a-z]|nvme\d{1,3}n\d{1,3}|mmcblk\d{1,2}|md_?[\w-]*|dm-\d+|loop\d+)"
NAME = re.compile(rf"^{DEVICE}(?:p?\d{{1,3}})?$")
PAIR = re.compile(r'\b([A-Z][A-Z_:%-]*)="([^"]*)"')
BLKID = re.compile(r"^\s*(/dev/[^\s:]+): (?=[A-Z_]+=)")
MOST_ROWS = 2000


@dataclass(frozen=True)
class ListedDevice:
    """A disk, a partition, an array or a volume in the output of lsblk or blkid."""

    name: str  # `sda1`
    parent: str = ""  # Name of the device that it lies on, as lsblk draws it
    size: int | None = None  # Bytes, as exact as the text has it
    kind: str = ""  # `disk`, `part`, `raid1`, `lvm`…
    filesystem: str = ""  # `ext4`, `linux_raid_member`…
    uuid: str = ""  # Of blkid: that of the array for a member, as mdadm prints it
    label: str = ""
    mounts: tuple[str, ...] = ()
    model: str = ""
    serial: str = ""
    program: str = "lsblk"

    @property
    def path(self) -> str:
        return f"/dev/mapper/{self.name}" if self.kind in {"lvm", "crypt"} else f"/dev/{self.name}"

    @property
    def is_member(self) -> bool:
        """Whether it is a member of an md array."""
        return self.filesystem == MEMBER_TYPE


def find_devices(lines: Sequence[str]) -> Iterator[ListedDevice]:
    """Yields the rows of each output of lsblk and blkid in a text."""
    number = 0
    while number < len(lines):
        line = lines[number]
        if is_heading(line):
            end = number + 1
            while end < len(lines) and end - number < MOST_ROWS and lines[end].strip():
                end += 1
            yield from _read_table(line, lines[number + 1 : end])
            number = end
            continue
        blkid = BLKID.match(line)
        if blkid:
            pairs = line
            while number + 1 < len(lines) and re.match(r'^\s*[A-Z_]+="', lines[number + 1]):  # a wrapped line
                number += 1
                pairs += " " + lines[number]
            yield _device_of_blkid(blkid[1], dict(PAIR.findall(pairs)))
        elif re.match(r'^\s*NAME="', line):
            yield _device_of_pairs(dict(PAIR.findall(line)))
        number += 1


def is_heading(line: str) -> bool:
    """Whether a line is the heading of a table of lsblk."""
    words = line.split()
    return len(words) > 1 and words[0] == "NAME" and not COLUMNS.isdisjoint(words[1:])


def array_uuid(text: str) -> str:
    """Returns a UUID of blkid or lsblk as mdadm prints that of an array: four words of eight digits."""
    digits = text.replace("-", "").lower()
    if not re.fullmatch(r"[0-9a-f]{32}", digits):
        return ""
    return ":".join(digits[begin : begin + 8] for begin in range(0, 32, 8))


def read_size(text: str) -> int | None:
    """Returns a size of lsblk in bytes: `3.6T`, `931,5G`, `4000787030016`."""
    match = SIZE.fullmatch(text)
    if not match:
        return None
    return int(float(match[1].replace(",", ".")) * (1 << UNITS[match[2]]))


def _device_of_blkid(path: str, pairs: dict[str, str]) -> ListedDevice:
    kind = pairs.get("TYPE", "")
    return ListedDevice(
        name=path.removeprefix("/dev/").removeprefix("mapper/"),
        filesystem=kind,
        uuid=array_uuid(pairs.get("UUID", "")) if kind == MEMBER_TYPE else "",
        label=pairs.get("LABEL", ""),
        program="blkid",
    )


def _device_of_pairs(pairs: dict[str, str]) -> ListedDevice:
    """Returns a device of `lsblk -P`, which has no tree; PKNAME is its parent if the text has it."""
    filesystem = pairs.get("FSTYPE", "")
    mounts = pairs.get("MOUNTPOINT") or pairs.get("MOUNTPOINTS") or ""
    return ListedDevice(
        name=pairs.get("NAME", ""),
        parent=pairs.get("PKNAME", ""),
        size=read_size(pairs.get("SIZE", "")),
        kind=pairs.get("TYPE", ""),
        filesystem=filesystem,
        uuid=array_uuid(pairs.get("UUID", "")) if filesystem == MEMBER_TYPE else "",
        label=pairs.get("LABEL", ""),
        mounts=(mounts,) if mounts else (),
        model=pairs.get("MODEL", "").strip(),
        serial=pairs.get("SERIAL", "").strip(),
    )


def _read_table(heading: str, rows: Sequence[str]) -> Iterator[ListedDevice]:
    """Yields the rows of a table until one that is no device."""
    columns = [(match[0], match.start(), match.end()) for match in COLUMN.finditer(heading)]
    names = [name for name, _, _ in columns]
    parents: list[tuple[int, str]] = []  # Columns where the names above begin, and the names
    for row in rows:
        tree = TREE.match(row)
        words = row[tree.end() :].split() if tree else []
        if tree is None or not words:
            return
        has_kind = any(KINDS.fullmatch(word) for word in words[1:])
        if not NAME.match(words[0]) and not has_kind and len(words) < 2:
            return
        while parents and parents[-1][0] >= tree.end():
            parents.pop()
        parent = parents[-1][1] if parents else ""
        parents.append((tree.end(), words[0]))
        cells = _cut_row(row, columns)
        yield _device_of_row(words, cells, names, parent)


def _device_of_row(words: list[str], cells: dict[str, str], names: list[str], parent: str) -> ListedDevice:
    """Returns the device of a row: what has a form of its own by that form, since mails move columns."""
    others = words[1:]
    filesystem = MEMBER_TYPE if MEMBER_TYPE in others else cells.get("FSTYPE", "")
    kind = next((word for word in others if "TYPE" in names and KINDS.fullmatch(word)), "")
    sizes = [word for word in others if SIZE.fullmatch(word) and not word.isdecimal()] if "SIZE" in names else []
    uuids = [array_uuid(word) for word in others if array_uuid(word)]
    is_member = filesystem == MEMBER_TYPE
    label = cells.get("LABEL", "")
    return ListedDevice(
        name=words[0],
        parent=parent,
        size=read_size(sizes[0] if sizes else cells.get("SIZE", "")),
        kind=kind,
        filesystem=filesystem,
        uuid=uuids[0] if is_member and uuids else "",
        label=label,
        mounts=tuple(word for word in others if word.startswith("/")),
        model=cells.get("MODEL", ""),
        serial=cells.get("SERIAL", ""),
    )


def _cut_row(row: str, columns: list[tuple[str, int, int]]) -> dict[str, str]:
    """Returns the cells of a row by the places of the columns in the heading."""
    edges = []
    for index, (name, start, _) in enumerate(columns):
        previous_end = columns[index - 1][2] if index else 0
        edges.append(previous_end if name in RIGHT else start)
    edges.append(max(len(row), edges[-1]))
    cells = {}
    for (name, _, _), begin, end in zip(columns, edges, edges[1:], strict=False):
        cells[name] = row[begin:end].strip()
    return cells


def merge_devices(devices: Iterable[ListedDevice]) -> dict[str, ListedDevice]:
    """Returns devices by path, each with all that outputs say about it; a later output counts first."""
    merged: dict[str, ListedDevice] = {}
    for device in devices:
        older = merged.get(device.path)
        if older is None:
            merged[device.path] = device
            continue
        merged[device.path] = replace(
            device,
            parent=older.parent or device.parent,
            size=older.size if device.size is None else device.size,
            kind=device.kind or older.kind,
            filesystem=device.filesystem or older.filesystem,
            uuid=device.uuid or older.uuid,
            label=device.label or older.label,
            mounts=device.mounts or older.mounts,
            model=device.model or older.model,
            serial=device.serial or older.serial,
            program=device.program if device.is_member else older.program,
        )
    return merged


def make_listed_arrays(devices: Sequence[ListedDevice], names: set[str]) -> list[Array]:
    """Returns the arrays in the tree of lsblk with their members, without those that other outputs show: `names`."""
    rows = [device for device in devices if device.parent and is_array(device) and device.name not in names]
    arrays = []
    for name, same in by_key((row.name, row) for row in rows).items():
        parents = dict.fromkeys(row.parent for row in same)
        is_inactive = same[0].kind == "md" or same[0].size == 0
        states = () if is_inactive else ("in_sync",)
        arrays.append(
            Array(
                name=name,
                path=f"/dev/{name}",
                uuid="",
                level=same[0].kind if same[0].kind in LEVELS else "",
                layout=0,
                chunk=0,
                raid_disks=0,
                metadata="",
                live=True,
                members=tuple(ArrayMember(parent, f"/dev/{parent}", states=states) for parent in parents),
                state="inactive" if is_inactive else "active",
                size=same[0].size or None,
            )
        )
    return arrays


def is_array(device: ListedDevice) -> bool:
    """Whether a row of lsblk is an md array: without the column TYPE by its name, and `md` if it does not run."""
    return device.kind in LEVELS or (device.kind in {"", "md"} and bool(re.fullmatch(r"md[\w-]*", device.name)))


def add_listed_devices(arrays: Iterable[Array], devices: Sequence[ListedDevice]) -> list[Array]:
    """Returns arrays with the sizes and disks of their members, and what is on the array."""
    by_path = merge_devices(devices)
    by_name = {device.name: device for device in by_path.values()}
    return [_add_to_array(array, devices, by_path, by_name) for array in arrays]


def _add_to_array(
    array: Array, devices: Sequence[ListedDevice], by_path: dict[str, ListedDevice], by_name: dict[str, ListedDevice]
) -> Array:
    members = tuple(_add_to_member(member, by_path, by_name) for member in array.members)
    outside = tuple(_add_to_member(member, by_path, by_name) for member in array.outside)
    own = by_path.get(array.path)
    parts = array.parts
    if own is not None and own.mounts and not parts:
        filesystem = own.filesystem
        parts = (ArrayPart(array.name, array.path, 0, mounts=own.mounts, filesystem=filesystem),)
    users = list(array.users)
    for device in by_path.values():
        above = [row.parent for row in devices if row.path == device.path]
        if array.live and array.name in above:
            mounted = f", mounted at {list_names(list(device.mounts))}" if device.mounts else ""
            users.append(f"{device.name} ({device.kind or device.filesystem}){mounted}")
    return replace(array, members=members, outside=outside, parts=parts, users=tuple(dict.fromkeys(users)))


def _add_to_member(
    member: ArrayMember, by_path: dict[str, ListedDevice], by_name: dict[str, ListedDevice]
) -> ArrayMember:
    device = by_path.get(member.path)
    if device is None:
        return member
    disk = by_name.get(device.parent, device)
    identity = "_".join(word for word in (disk.model.replace(" ", "_"), disk.serial) if word)
    return replace(
        member,
        size=device.size if member.size is None else member.size,
        disk=member.disk or disk.name,
        id=member.id or identity,
    )


def describe_unexamined(
    arrays: Sequence[Array], devices: Iterable[ListedDevice], known_paths: set[str]
) -> Iterator[str]:
    """Yields the members by lsblk and blkid whose superblocks are not in the text.

    `known_paths` are those of disks that `mdadm --examine` has looked at.
    """
    table_paths = set()
    for array in arrays:
        table_paths |= {member.path for member in array.members}
    by_uuid: dict[str, list[ListedDevice]] = {}
    for device in merge_devices(devices).values():
        if device.is_member and device.path not in known_paths | table_paths:
            by_uuid.setdefault(device.uuid, []).append(device)
    uuids = {array.uuid for array in arrays if array.uuid}
    for uuid, members in by_uuid.items():
        paths = [device.path for device in members]
        command = command_lines.examine_disks(paths)
        program = members[0].program
        subject = f"{paths[0]} is a member" if len(paths) == 1 else f"{list_names(paths, 24)} are members"
        if not uuid or uuid in uuids:
            its = "its" if len(paths) == 1 else "their"
            yield (
                f"{subject} by {program}, but {its} --examine is not in the text: run `{command}` and paste the output"
            )
            continue
        article = "another array" if arrays else "an array"
        label = f"{members[0].label}, " if members[0].label else ""
        yield f"{subject} of {article} ({label}UUID {uuid}) by {program}: run `{command}` and paste the output"
