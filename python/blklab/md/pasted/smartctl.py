"""Reads the text of smartctl: the identity and the health of a disk, as far as it is printed (smartmontools 5 to 7)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from blklab.md.model import DiskHealth

BEGIN = re.compile(r"^\s*smartctl (?:pre-)?\d[\d.]+ ")
DEVICE = re.compile(r"smartctl\b.*?(/dev/(?:sd[a-z]{1,3}|nvme\d{1,3}(?:n\d{1,3})?|hd[a-z]))\d{0,3}(?![\w$])")
LABEL = re.compile(r"^[\s=#*-]*(/dev/(?:sd[a-z]{1,3}|nvme\d+n\d+|hd[a-z]))[\s:=#*-]*$")
LINES_BACK = 6  # Lines above an output in which its command, or the name of the disk, is looked for
MOST_LINES = 2000  # Of one output

FIELD = re.compile(r"^\s*([A-Z][A-Za-z #/()-]{2,60}?):\s+(\S.*?)\s*$")
ATTRIBUTE = re.compile(r"^\s*(\d{1,3})\s+([A-Za-z_-]+)\s.*?\s(-|FAILING_NOW|In_the_past|NOW|Past)\s+(\d{1,15})\b")
ERC_LIMIT = re.compile(r"^\s*(Read|Write):\s+(?:(\d{1,6}) \([\d.]+ seconds\)|(Disabled))")
SPEED = re.compile(r"([\d.]+) Gb/s")

COUNTERS = {5: ("realloc", "reallocated"), 197: ("pending", "pending"), 198: ("uncorrect", "uncorrectable")}
"""ATA attributes: a part of their names, since vendors may reuse the numbers, and the fields of `DiskHealth`."""


@dataclass(frozen=True)
class SmartText:
    """The output of smartctl about one disk."""

    device: str  # Path; empty if the text does not say it
    health: DiskHealth


def find_outputs(lines: list[str]) -> Iterator[SmartText]:
    """Yields the outputs of smartctl in a text, in their order."""
    starts = [number for number, line in enumerate(lines) if BEGIN.match(line)]
    if not starts:
        return
    ends = [*starts[1:], len(lines)]
    for start, following in zip(starts, ends, strict=True):
        end = min(following, start + MOST_LINES)
        yield SmartText(_find_device(lines, start), _read_health(lines[start:end]))


def _find_device(lines: list[str], start: int) -> str:
    """Returns the disk that the command above an output names, or a line with only its name."""
    for line in reversed(lines[max(0, start - LINES_BACK) : start]):
        match = DEVICE.search(line) or LABEL.match(line)
        if match:
            return match[1]
    return ""


def _read_health(lines: list[str]) -> DiskHealth:
    fields: dict[str, str] = {}
    counters: dict[str, int] = {}
    failing: list[str] = []
    limits: dict[str, float | None] = {}
    for line in lines:
        attribute = ATTRIBUTE.match(line)
        limit = ERC_LIMIT.match(line)
        field = FIELD.match(line)
        if attribute:
            number, name = int(attribute[1]), attribute[2]
            part, counter = COUNTERS.get(number, ("", ""))
            if counter and part in name.lower():
                counters.setdefault(counter, int(attribute[4]))
            if attribute[3] in {"FAILING_NOW", "NOW"}:
                failing.append(name)
        elif limit:
            limits.setdefault(limit[1], int(limit[2]) / 10 if limit[2] else None)
        elif field:
            fields.setdefault(field[1].lower(), field[2])
    text = "\n".join(lines)
    return DiskHealth(
        model=fields.get("device model") or fields.get("model number") or fields.get("product", ""),
        serial=fields.get("serial number", ""),
        protocol=_protocol(fields),
        rotation=_rotation(fields.get("rotation rate", "")),
        passed=_verdict(fields),
        failing=tuple(dict.fromkeys(failing)),
        reallocated=counters.get("reallocated"),
        pending=counters.get("pending"),
        uncorrectable=counters.get("uncorrectable"),
        critical_warning=_hexadecimal(fields.get("critical warning", "")),
        media_errors=_number(fields.get("media and data integrity errors", "")),
        used_percent=_number(fields.get("percentage used", "")),
        erc=_supports_erc(text),
        erc_seconds=(limits["Read"], limits["Write"]) if limits.keys() == {"Read", "Write"} else None,
        link=_link(fields.get("sata version is", "")),
        shingled="SMR" in fields.get("model family", ""),
    )


def _protocol(fields: dict[str, str]) -> str:
    if "device model" in fields:
        return "ATA"
    if "nvme version" in fields or "critical warning" in fields:
        return "NVMe"
    return "SCSI" if "transport protocol" in fields else ""


def _rotation(text: str) -> int | None:
    if "solid state" in text.lower():
        return 0
    match = re.match(r"(\d{3,6}) rpm", text)
    return int(match[1]) if match else None


def _verdict(fields: dict[str, str]) -> bool | None:
    verdict = fields.get("smart overall-health self-assessment test result") or fields.get("smart health status")
    return None if verdict is None else verdict in {"PASSED", "OK"}


def _supports_erc(text: str) -> bool | None:
    """Whether the disk can limit its retries; None if the text does not show it."""
    if re.search(r"SCT Error Recovery Control (?:command )?not supported|not support SCT Error Recovery", text):
        return False
    return True if re.search(r"SCT Error Recovery Control(?: supported|:)", text) else None


def _number(text: str) -> int | None:
    match = re.match(r"[\d,]{1,20}", text)
    return int(match[0].replace(",", "")) if match and match[0].strip(",") else None


def _hexadecimal(text: str) -> int | None:
    match = re.match(r"0x[0-9a-f]{1,4}\b", text)
    return int(match[0], 16) if match else None


def _link(text: str) -> tuple[int, int] | None:
    """Returns the negotiated and the highest speed: `SATA 3.1, 6.0 Gb/s (current: 3.0 Gb/s)`, in bits per second."""
    speeds = SPEED.findall(text)
    if len(speeds) != 2:
        return None
    return round(float(speeds[1]) * 1e9), round(float(speeds[0]) * 1e9)
