"""Finds outputs of mdadm in a text: blocks of fields, each about one device, with prose between them.

Mails quote, wrap and cut lines, and terminals colour them. A line that is no field, no row and no heading is prose.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

QUOTE = re.compile(r"^(?:[ \t]?(?:[A-Za-z.]{0,16}>|[%|](?= )))+[ \t]?")
"""Marks of quoted lines: `> > `, `Anna> `, `% `, `| `."""

COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
HEADING = re.compile(r"^\s*(/dev/\S+?|[\w.+-]+\.img|sd[a-z]+\d*):\s*$")
FIELD = re.compile(r"^\s*([A-Z][A-Za-z']*(?: [A-Za-z']+){0,2}) ?:(?: (.*))?$")
ROW = re.compile(r"^\s*(this\s+)?(\d{1,9}|-)\s+(\d{1,9})\s+(\d{1,9})\s+(-?\d{1,9}|-)\s+([a-z/].*?)\s*$")
OLD_ROW = re.compile(r"^\s*()\d{1,9}:?\s+(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})\s+(-?\d{1,9})\s+([a-z].*?)\s*$")
"""A row of `mdadm --examine` for metadata 0.90, which has a number in front."""

PROMPT = re.compile(r"^\s*(?:\[?[\w.-]+@[\w.-]+.*?[#$%]|[#$])\s+\S")
COMMAND = re.compile(r"\bmdadm\b.* (?:--examine|--detail|-E|-D) (?:-\S+ )*(/dev/[^\s\[\]*?{}]+?):?\s*$")
"""A command about one device: some copy it with the heading of its output in the same line."""

SECTION = re.compile(r"^\s*(?:Personalities :|unused devices:|md\w+ : (?:active|inactive))")

FIELDS = frozenset(
    {
        *("magic", "version", "feature map", "array uuid", "uuid", "name", "creation time", "raid level"),
        *("raid devices", "total devices", "preferred minor", "persistence", "avail dev size", "array size"),
        *("used dev size", "used size", "device size", "data offset", "new offset", "super offset", "recovery offset"),
        *("unused space", "state", "device uuid", "internal bitmap", "intent bitmap", "reshape pos'n", "new layout"),
        *("delta devices", "new chunksize", "new level", "flags", "update time", "bad block log", "checksum", "events"),
        *("layout", "original layout", "chunk size", "rounding", "device role", "array state", "active devices"),
        *("working devices", "failed devices", "spare devices", "consistency policy", "rebuild status"),
        *("resync status", "reshape status", "check status", "repair status", "array slot", "container", "member"),
        *("partition", "mbr magic", "ppl", "journal", "member arrays", "cluster name", "logical block size"),
        *("filename", "events cleared", "chunksize", "daemon", "write mode", "sync size", "bitmap"),
    }
)
"""Names of fields of `mdadm --examine` and `mdadm --detail`, in lower case (mdadm 2.6 to 4.6)."""

DATES = frozenset({"creation time", "update time"})


@dataclass(frozen=True)
class TableRow:
    """A row of the table of members: `0  8  17  0  active sync  /dev/sdb1`."""

    number: int | None
    slot: int | None
    states: tuple[str, ...]  # `active`, `sync`, `faulty`, `spare`, `rebuilding`, `removed`…
    device: str  # Path; empty if there is none
    is_own: bool = False  # The row `this` of metadata 0.90: that of the examined member


@dataclass
class TextBlock:
    """The fields of one device or array."""

    device: str = ""  # Path; empty if the text does not name it
    line: int = 0  # Number of its first line
    fields: dict[str, str] = field(default_factory=dict)  # By names in lower case
    rows: list[TableRow] = field(default_factory=list)


def clean_lines(text: str) -> list[str]:
    """Returns the lines of a text without quotation marks of mails, colours, tabs and other odd white space."""
    lines = []
    for line in text.splitlines():
        plain = COLOUR.sub("", line).replace("\t", " ").replace("\u00a0", " ").replace("\r", "")
        lines.append(QUOTE.sub("", plain))
    return lines


def find_blocks(lines: list[str]) -> Iterator[TextBlock]:
    """Yields the blocks of fields in a text, in their order."""
    block = TextBlock()
    last_field = ""
    for number, line in enumerate(lines):
        heading = HEADING.match(line)
        if heading:
            yield block
            block = TextBlock(heading[1], number)
            last_field = ""
            continue
        if SECTION.match(line) or PROMPT.match(line):
            yield block
            command = COMMAND.search(line)
            block = TextBlock(command[1] if command else "", number)
            last_field = ""
            continue
        match = FIELD.match(line)
        name = match[1].lower() if match else ""
        if match and name in FIELDS:
            if name in {"magic", "filename"} and "magic" in block.fields:
                yield block
                block = TextBlock(line=number)
            if name == "filename":
                block.device = (match[2] or "").strip()
            block.fields.setdefault(name, (match[2] or "").strip())
            last_field = name
        elif last_field and is_unfinished(last_field, block.fields[last_field]) and line.strip():
            block.fields[last_field] += " " + line.strip()
        else:
            last_field = ""
            row = ROW.match(line) or OLD_ROW.match(line)
            if row:
                block.rows.append(_parse_row(row))
            elif block.rows and re.fullmatch(r"\s+/dev/\S+\s*", line):  # a wrapped line
                block.rows[-1] = _with_device(block.rows[-1], line.strip())
    yield block


def is_unfinished(name: str, value: str) -> bool:
    """Whether a mail has wrapped the line of a field: a bracket is open, or a date has no year."""
    if name in DATES:
        return not re.search(r"\b\d{4}$", value)
    return value.count("(") > value.count(")") or value.endswith((" -", " - bad", " - bad blocks"))


def _parse_row(row: re.Match[str]) -> TableRow:
    this, number, _, _, slot, rest = row.groups()
    words = rest.split()
    device = words.pop() if words and words[-1].startswith("/dev/") else ""
    return TableRow(
        None if number == "-" else int(number),
        int(slot) if slot.isdecimal() else None,
        tuple(words),
        device,
        is_own=bool(this),
    )


def _with_device(row: TableRow, device: str) -> TableRow:
    return replace(row, device=row.device or device)
