"""The line that fio prints of a job before it runs: what was asked for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from blklab.fio.text_lines import NAME
from blklab.fio.text_numbers import in_bytes
from blklab.text import printable

_HEADER: Final = re.compile(NAME + r": \(g=(?P<group>\d{1,9})\):\s{0,9}rw=(?P<rw>\w+),(?P<rest>.*)")
_SIZES: Final = re.compile(
    r"(?P<low>[\d.]{1,20})(?P<low_unit>[kKMG]?)(?:i?B)?-(?P<high>[\d.]{1,20})(?P<high_unit>[kKMG]?)"
)


@dataclass
class Header:
    """What a job was asked for, as far as fio prints it."""

    name: str
    group: int
    options: dict[str, str]
    """In the words and the form of `job options` in fio's JSON."""

    sizes: tuple[int | None, int | None]
    """Bytes of a read, of a write; None if they differ."""


def read(text: str) -> Header | None:
    """Returns what a line says, None of one that is broken. Raises BlklabError for a size."""
    match = _HEADER.match(text)
    if match is None:
        return None
    options = {"rw": match["rw"]}
    ranges = [
        (in_bytes(size["low"] + size["low_unit"]), in_bytes(size["high"] + size["high_unit"]))
        for size in _SIZES.finditer(match["rest"].partition(", ioengine")[0])
    ][:2]
    if ranges:
        key, texts = "bs", [str(low) for low, _ in ranges]
        if any(low != high for low, high in ranges):
            key, texts = "bsrange", [f"{low}-{high}" for low, high in ranges]
        options[key] = ",".join(dict.fromkeys(texts))
    for word in ("ioengine", "iodepth"):
        if found := re.search(rf"\b{word}=([\w.-]{{1,60}})", match["rest"]):
            options[word] = found[1]
    options.setdefault("iodepth", "1")
    sizes = [low if low == high else None for low, high in ranges] or [None]
    return Header(printable(match["name"]), int(match["group"]), options, (sizes[0], sizes[-1]))


def of(headers: Sequence[Header], name: str, group: int) -> Header | None:
    """Returns the header of a job: its own, else one that something was printed before."""
    same = [header for header in headers if header.group == group]
    named = [header for header in same if header.name == name]
    ending = [header for header in same if header.name.endswith(name)]
    found = named or ending
    return found[0] if found else None
