"""A stack table: a bare device, or an md array of devices and other stacks."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from blklab import units
from blklab.spec.fields import NUMBER, Count, Size, Table

CHUNK: Final = 512 << 10
"""Bytes; mdadm's default since 3.1 (mdadm(8), --chunk)."""

PAGE: Final = 4096
"""Bytes; a chunk is a multiple of it (drivers/md/md.c, `update_size` and each level's checks)."""

BITMAP_CHUNK: Final = 64 << 20
"""Bytes; mdadm's default for an internal bitmap (mdadm(8), --bitmap-chunk)."""

MISSING: Final = "missing"
"""mdadm's word for an empty slot."""

LEVELS: Final = {
    "linear": "linear",
    "0": "raid0",
    "1": "raid1",
    "10": "raid10",
    "4": "raid4",
    "5": "raid5",
    "6": "raid6",
}
"""Levels as mdadm's --level has them, and as a cell has them."""

STRIPED: Final = frozenset({"raid0", "raid10", "raid4", "raid5", "raid6"})
"""Levels that have a chunk."""

FEWEST: Final = {
    "linear": 1,
    "raid0": 1,
    "raid1": 2,
    "raid10": 2,
    "raid4": 2,
    "raid5": 2,
    "raid6": 4,
}
"""Members at least: mdadm 4.2, Create.c (levels 4 and 5 take two, level 6 four)."""

MOST_COPIES: Final = 32
"""Copies of a block in RAID-10 that are simulated."""

_LAYOUT: Final = re.compile(r"([nfo])(\d{1,2})", re.A)


def _level(value: Any) -> str:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    word = text.lower().removeprefix("raid").lstrip("-")
    if word not in LEVELS:
        allowed = ", ".join(LEVELS)
        raise ValueError(f"level {value!r} is not simulated: {allowed} are allowed")
    return LEVELS[word]


Level = Annotated[
    str,
    BeforeValidator(_level),
    WithJsonSchema(
        {"enum": [int(level) if level.isdigit() else level for level in LEVELS] + list(LEVELS)[1:]}
    ),
]


def copies(layout: str) -> tuple[int, int, bool]:
    """Returns (near, far, offset) of RAID-10's `n2`, `f2`, `o3`. Raises ValueError."""
    match = _LAYOUT.fullmatch(layout)
    if match is None or not int(match[2]):
        raise ValueError(f"layout {layout!r}: n, f or o and the copies are allowed, such as n2")
    many = int(match[2])
    return (many, 1, False) if match[1] == "n" else (1, many, match[1] == "o")


class Bare(Table):
    """One device, nothing above it."""

    device: str


class Md(Table):
    """An md array."""

    level: Level
    members: Annotated[list[str], Field(min_length=1, max_length=1024)]
    layout: str = "n2"
    chunk: Size = CHUNK
    write_mostly: list[str] = Field(default_factory=list)
    rebuilding: list[str] = Field(default_factory=list)
    bitmap: bool = False
    bitmap_chunk: Annotated[Size, Field(ge=PAGE)] = BITMAP_CHUNK
    sync: Literal["idle", "resync", "recover", "check"] | None = None
    stripe_cache_size: Annotated[int, Field(ge=17, le=32_768), NUMBER] = 256
    sync_speed_min: Count = 1_000
    sync_speed_max: Count = 200_000

    @model_validator(mode="after")
    def _together(self) -> "Md":
        given = self.model_fields_set
        problem = _chunk(self, given) or _layout(self, given) or _others(self, given)
        if problem:
            key, message = problem
            raise KeyedError(key, message)
        return self

    @property
    def copies(self) -> tuple[int, int, bool]:
        """RAID-10's near copies, far copies, and whether those are offset ones."""
        return copies(self.layout)


class KeyedError(ValueError):
    """A table whose keys do not go together; `key` is the one to look at."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def _chunk(md: Md, given: set[str]) -> tuple[str, str] | None:
    level, chunk = md.level, units.format_size(md.chunk)
    if level not in STRIPED:
        return ("chunk", f"level {short(level)} has no chunk") if "chunk" in given else None
    if not md.chunk or md.chunk % PAGE:
        return "chunk", f"{chunk} is no multiple of 4 KiB"
    if md.chunk > 1 << 31:
        return "chunk", f"{chunk} is too large: 2 GiB are the most"
    if level != "raid0" and md.chunk & (md.chunk - 1):
        return "chunk", f"{chunk} is no power of two, which level {short(level)} wants"
    return None


def _layout(md: Md, given: set[str]) -> tuple[str, str] | None:
    if md.level == "raid10":
        try:
            near, far, _ = copies(md.layout)
        except ValueError as error:
            return "layout", str(error).removeprefix("layout ")
        if near * far > MOST_COPIES:
            return "layout", f"{near * far} copies are too many: {MOST_COPIES} at most"
        return None
    if "layout" not in given:
        return None
    if md.level in {"raid5", "raid6"}:
        symmetric = md.layout in {"left-symmetric", "ls"}
        return None if symmetric else ("layout", f"{md.layout!r}: left-symmetric is simulated")
    return "layout", f"level {short(md.level)} has no layout"


def _others(md: Md, given: set[str]) -> tuple[str, str] | None:
    parity = md.level in {"raid4", "raid5", "raid6"}
    if "stripe_cache_size" in given and not parity:
        return "stripe_cache_size", f"level {short(md.level)} has no stripe cache: 4, 5 and 6 have"
    if md.bitmap and md.bitmap_chunk & (md.bitmap_chunk - 1):
        size = units.format_size(md.bitmap_chunk)
        return "bitmap_chunk", f"{size} is no power of two"
    if md.write_mostly and md.level != "raid1":
        return "write_mostly", f"level {short(md.level)} knows no write-mostly member: level 1 does"
    if md.sync_speed_min > md.sync_speed_max:
        return "sync_speed_min", (
            f"{md.sync_speed_min} KiB/s is more than sync_speed_max, {md.sync_speed_max} KiB/s"
        )
    plain = md.level in {"linear", "raid0"}
    for key in ("bitmap", "rebuilding", "sync"):
        if plain and getattr(md, key) and md.sync != "idle":
            return key, f"level {short(md.level)} has no redundancy to keep"
    return None


def short(level: str) -> str:
    """Returns a cell's level as mdadm's --level has it: `10` for `raid10`."""
    return level.removeprefix("raid")


def _kind(value: Any) -> str:
    if isinstance(value, Bare) or (isinstance(value, dict) and "device" in value):
        return "<bare>"
    return "<md>"


Stack = Annotated[Annotated[Bare, Tag("<bare>")] | Annotated[Md, Tag("<md>")], Discriminator(_kind)]
"""What a table below [stacks] is."""
