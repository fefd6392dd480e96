"""A stack table: a bare device, an md array, a volume or a cache, of devices and other stacks."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from blklab import _core, units
from blklab.experiment import capacity
from blklab.experiment.capacity import short
from blklab.md import levels as md_levels
from blklab.toml_files.fields import NUMBER, Count, ExperimentTable, Milliseconds, Seconds, Size, show_value
from blklab.toml_files.problems import KeyedError

CHUNK = 512 << 10  # Bytes; mdadm's default since 3.1 (mdadm(8), --chunk)
PAGE = 4096  # Bytes; a chunk must be a multiple of it (drivers/md/md.c, `update_size`, and each level)
MISSING = "missing"  # mdadm's word for an empty slot

LEVELS = {short(level): level for level in md_levels.LEVELS}  # Levels by mdadm's --level, their names in a cell
MAX_COPIES = 32  # Most copies of a block in RAID-10 that are simulated
_LAYOUT = re.compile(r"([nfo])(\d{1,2})", re.A)


def _level(value: Any) -> str:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    word = text.lower().removeprefix("raid").lstrip("-")
    if word not in LEVELS:
        level_names = ", ".join(LEVELS)
        raise ValueError(f"unknown level {value!r}: expected one of {level_names}")
    return LEVELS[word]


Level = Annotated[
    str,
    BeforeValidator(_level),
    WithJsonSchema({"enum": [int(level) if level.isdigit() else level for level in LEVELS] + list(LEVELS)[1:]}),
]


def copies(layout: str) -> tuple[int, int, bool]:
    """Returns (near, far, offset) of RAID-10's `n2`, `f2`, `o3`. Raises ValueError."""
    match = _LAYOUT.fullmatch(layout)
    if match is None or not int(match[2]):
        raise ValueError(f"layout {layout!r}: expected n, f or o and the number of copies, such as n2")
    count = int(match[2])
    return (count, 1, False) if match[1] == "n" else (1, count, match[1] == "o")


class Bare(ExperimentTable):
    """A device without layers above it."""

    device: str


def _truth(value: Any) -> Any:
    """Returns what text of `--set` says."""
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


class Failure(ExperimentTable):
    """A member that fails while the load runs, and can be re-added later."""

    member: str
    at: Seconds  # From the start of the load, including its ramp
    re_add: Seconds | None = None


class Md(ExperimentTable):
    """An md array."""

    level: Level
    members: Annotated[list[str], Field(min_length=1, max_length=1024)]
    layout: str = "n2"
    chunk: Size = CHUNK
    write_mostly: list[str] = Field(default_factory=list)
    rebuilding: list[str] = Field(default_factory=list)
    bitmap: Annotated[Literal[True, False, "lockless"], BeforeValidator(_truth)] = False
    bitmap_chunk: Annotated[Size, Field(ge=PAGE)] = _core.MD_BITMAP_CHUNK
    sync: Literal["idle", "resync", "recover", "check"] | None = None
    stripe_cache_size: Annotated[int, Field(ge=17, le=32_768), NUMBER] = _core.MD_STRIPE_CACHE
    group_thread_cnt: Annotated[int, Field(ge=0, le=8_192), NUMBER] = 0
    rmw_level: Annotated[int, Field(ge=0, le=2), NUMBER] = 1
    sync_speed_min: Count = _core.MD_SYNC_SPEED_MIN
    sync_speed_max: Count = _core.MD_SYNC_SPEED_MAX
    fail: list[Failure] = Field(default_factory=list)  # Members that fail; only with a real kernel

    @model_validator(mode="after")
    def _together(self) -> "Md":
        set_keys = self.model_fields_set
        problem = _chunk_problem(self, set_keys) or _layout_problem(self, set_keys) or _other_problem(self, set_keys)
        if problem:
            key, message = problem
            raise KeyedError(key, message)
        return self

    @property
    def copies(self) -> tuple[int, int, bool]:
        """RAID-10's near copies, far copies, and whether the far copies use the offset layout; else none."""
        return copies(self.layout) if self.level == "raid10" else (0, 0, False)

    @property
    def layout_word(self) -> int:
        """The layout as a superblock has it: RAID-10's copies, or left-symmetric parity (drivers/md/raid5.h)."""
        near, far, offset = self.copies
        return near | far << 8 | offset << 16 if near else 2


def _chunk_problem(md: Md, set_keys: set[str]) -> tuple[str, str] | None:
    level = md.level
    chunk = units.format_size(md.chunk)
    if level not in md_levels.STRIPED:
        return ("chunk", f"level {short(level)} has no chunk") if "chunk" in set_keys else None
    if not md.chunk or md.chunk % PAGE:
        return "chunk", f"{chunk} is not a multiple of 4 KiB"
    if md.chunk > 1 << 31:
        return "chunk", f"{chunk} is too large: expected at most 2 GiB"
    if level != "raid0" and md.chunk & (md.chunk - 1):
        return "chunk", f"{chunk} is not a power of two, as level {short(level)} needs"
    return None


def _layout_problem(md: Md, set_keys: set[str]) -> tuple[str, str] | None:
    if md.level == "raid10":
        try:
            near, far, _ = copies(md.layout)
        except ValueError as error:
            return "layout", str(error).removeprefix("layout ")
        if near * far > MAX_COPIES:
            return "layout", f"found {near * far} copies, expected at most {MAX_COPIES}"
        return None
    if "layout" not in set_keys:
        return None
    if md.level in {"raid5", "raid6"}:
        symmetric = md.layout in {"left-symmetric", "ls"}
        return None if symmetric else ("layout", f"{md.layout!r} is not simulated: use left-symmetric")
    return "layout", f"level {short(md.level)} has no layout"


def _other_problem(md: Md, set_keys: set[str]) -> tuple[str, str] | None:
    parity = md.level in md_levels.PARITIES
    for key in ("stripe_cache_size", "group_thread_cnt", "rmw_level"):
        if key in set_keys and not parity:
            return key, f"level {short(md.level)} has no stripe cache: only 4, 5 and 6 do"
    if md.bitmap == "lockless" and "bitmap_chunk" in set_keys:
        return "bitmap_chunk", "a lockless bitmap chooses its chunk: leave the key out"
    if md.bitmap and md.bitmap_chunk & (md.bitmap_chunk - 1):
        return "bitmap_chunk", f"{units.format_size(md.bitmap_chunk)} is not a power of two"
    if md.write_mostly and md.level != "raid1":
        return "write_mostly", f"only level 1 has write-mostly members, not level {short(md.level)}"
    if md.sync_speed_min > md.sync_speed_max:
        return "sync_speed_min", (f"{md.sync_speed_min} KiB/s is more than sync_speed_max, {md.sync_speed_max} KiB/s")
    plain = md.level not in md_levels.REDUNDANT
    for failure in md.fail:
        if failure.re_add is not None and failure.re_add <= failure.at:
            return "fail", f"{failure.member!r} must fail before it is re-added"
    for key in ("bitmap", "rebuilding", "sync", "fail"):
        if plain and getattr(md, key) and md.sync != "idle":
            return key, f"level {short(md.level)} has no redundancy"
    return None


State = Literal["empty", "junk", "junk-dirty", "warm", "layout"]
"""What a cache holds at first: nothing; clean or dirty blocks that the workload does not use; those it uses; or what
the writing of its files left on a new filesystem."""


class Volume(ExperimentTable):
    """A stack with a `kind`. A new kind is a class here and its name in `KINDS`."""

    PARTS: ClassVar[tuple[str, ...]]
    """Keys that name its parts: `members` is a list, every other key one device or stack."""

    kind: str

    def capacity(self, sizes: Mapping[str, Sequence[int]]) -> int:
        """Returns its capacity in bytes, from the sizes of its parts by key. Raises KeyedError."""
        raise NotImplementedError

    def _check_powers_of_two(self, *keys: str) -> None:
        for key in keys:
            value = getattr(self, key)
            if value & (value - 1):
                raise KeyedError(key, f"{units.format_size(value)} is not a power of two")


class Lvm(Volume):
    """A logical volume over one or several physical volumes; with `level`, one with redundancy (lvmraid(7))."""

    PARTS = ("members",)
    FEWEST: ClassVar[Mapping[str, int]] = {"raid1": 2, "raid10": 4, "raid5": 3, "raid6": 5}
    """Levels that are possible, and how many physical volumes `lvcreate` wants for them."""

    kind: Literal["lvm"]
    members: Annotated[list[str], Field(min_length=1, max_length=64)]
    level: Level | None = None
    stripes: Annotated[int, Field(ge=1, le=64), NUMBER] = 1
    stripe_size: Annotated[Size, Field(ge=PAGE)] = 64 << 10
    region_size: Annotated[Size, Field(ge=PAGE)] = 2 << 20
    """Bytes for each bit of the bitmap (lvm.conf(5), raid_region_size)."""

    @model_validator(mode="after")
    def _together(self) -> "Lvm":
        self._check_powers_of_two("stripe_size", "region_size")
        if self.level is None:
            if "region_size" in self.model_fields_set:
                raise KeyedError("region_size", "only a volume with a `level` has regions")
            return self
        if self.level not in self.FEWEST:
            levels = ", ".join(map(short, self.FEWEST))
            raise KeyedError("level", f"found {short(self.level)}, expected one of {levels}")
        if "stripes" in self.model_fields_set:
            raise KeyedError("stripes", f"level {short(self.level)} uses all of its members: leave the key out")
        if self.level == "raid1" and "stripe_size" in self.model_fields_set:
            raise KeyedError("stripe_size", "level 1 has no stripes")
        return self

    def capacity(self, sizes: Mapping[str, Sequence[int]]) -> int:
        """Returns the bytes of whole extents."""
        members = sizes["members"]
        if self.stripes > len(members):
            raise KeyedError("stripes", f"found {self.stripes}, expected at most the number of members")
        if self.level is None:
            return capacity.volume(members, self.stripes)
        if len(members) < self.FEWEST[self.level]:
            least = self.FEWEST[self.level]
            raise KeyedError("members", f"found {len(members)}, level {short(self.level)} needs at least {least}")
        if self.level == "raid10" and len(members) % 2:
            raise KeyedError("members", f"found {len(members)}, level 10 of LVM needs an even number")
        return capacity.redundant_volume(self.level, members)


class LvmCache(Volume):
    """A logical volume with a dm-cache, as in lvmcache(7)."""

    PARTS = ("origin", "cache")

    kind: Literal["lvmcache"]
    origin: str
    cache: str
    policy: Literal["smq"] = "smq"
    mode: Literal["writethrough", "writeback", "passthrough"] = "writethrough"
    chunk: Annotated[Size, Field(ge=32 << 10, le=1 << 30)] = 64 << 10
    metadata: Annotated[Size, Field(ge=8 << 20)] | None = None
    migration_threshold: Annotated[int, Field(ge=0, le=2**31), NUMBER] | None = None
    """Sectors; the kernel's default is 2048."""

    state: State = "empty"

    @model_validator(mode="after")
    def _together(self) -> "LvmCache":
        if self.chunk % (32 << 10):
            raise KeyedError("chunk", f"{units.format_size(self.chunk)} is not a multiple of 32 KiB")
        if self.state == "junk-dirty" and self.mode != "writeback":
            raise KeyedError("state", f"'junk-dirty' needs the mode 'writeback', found {self.mode!r}")
        if self.state == "layout" and self.mode == "passthrough":
            raise KeyedError("state", "'layout' has no effect in the mode 'passthrough'")
        return self

    def capacity(self, sizes: Mapping[str, Sequence[int]]) -> int:
        """Returns the origin's bytes, of whole extents."""
        return capacity.volume(sizes["origin"], 1)


class Bcache(Volume):
    """A cache device and a backing device. Defaults are those of make-bcache and the kernel."""

    PARTS = ("backing", "cache")

    kind: Literal["bcache"]
    backing: str
    cache: str
    mode: Literal["writethrough", "writeback", "writearound", "none"] = "writethrough"
    sequential_cutoff: Size = 4 << 20
    bucket: Annotated[Size, Field(ge=PAGE, le=1 << 30)] = 512 << 10
    block: Annotated[Size, Field(ge=512, le=PAGE)] = PAGE
    writeback_percent: Annotated[int, Field(ge=0, le=40), NUMBER] = 10
    congested_read_threshold_us: Annotated[int, Field(ge=0, le=2**31), NUMBER] = 2_000
    congested_write_threshold_us: Annotated[int, Field(ge=0, le=2**31), NUMBER] = 20_000
    state: Literal["empty", "junk", "warm"] = "empty"

    @model_validator(mode="after")
    def _together(self) -> "Bcache":
        self._check_powers_of_two("bucket", "block")
        return self

    def capacity(self, sizes: Mapping[str, Sequence[int]]) -> int:
        """Returns the backing device's bytes after the superblock."""
        if problem := capacity.too_few_buckets(sizes["cache"][0], self.bucket):
            raise KeyedError("bucket", problem)
        return capacity.backing(sizes["backing"][0])


class Writecache(Volume):
    """A device with a dm-writecache in SSD mode. Defaults are the kernel's (dm-writecache.c)."""

    PARTS = ("origin", "cache")

    kind: Literal["writecache"]
    origin: str
    cache: str
    block: Annotated[Size, Field(ge=512, le=PAGE)] = PAGE
    high_watermark: Annotated[int, Field(ge=0, le=100), NUMBER] = 50
    low_watermark: Annotated[int, Field(ge=0, le=100), NUMBER] = 45
    max_age: Annotated[Annotated[Seconds, Field(le=86_400 * 10**9)] | None, Field(serialization_alias="max_age_ns")] = (
        None
    )

    @model_validator(mode="after")
    def _together(self) -> "Writecache":
        self._check_powers_of_two("block")
        if self.low_watermark > self.high_watermark:
            raise KeyedError(
                "low_watermark", f"{self.low_watermark} is more than high_watermark, {self.high_watermark}"
            )
        return self

    def capacity(self, sizes: Mapping[str, Sequence[int]]) -> int:
        """Returns the origin's bytes, of whole blocks."""
        return sizes["origin"][0] // self.block * self.block


class Delay(Volume):
    """A device or stack whose reads and writes are delayed: dm-delay."""

    PARTS = ("origin",)

    kind: Literal["delay"]
    origin: str
    read: Annotated[Milliseconds, Field(serialization_alias="read_ns")] = 0
    write: Annotated[Milliseconds, Field(serialization_alias="write_ns")] = 0
    flush: Annotated[Milliseconds | None, Field(serialization_alias="flush_ns")] = None

    def capacity(self, sizes: Mapping[str, Sequence[int]]) -> int:
        """Returns the bytes of the delayed device."""
        return sizes["origin"][0]


KINDS: tuple[type[Volume], ...] = (Lvm, LvmCache, Bcache, Writecache, Delay)  # The registry of stacks with a `kind`
VOLUMES = {get_args(kind.model_fields["kind"].annotation)[0]: kind for kind in KINDS}  # The same, by `kind`


def parts(stack: "Stack") -> list[str]:
    """Returns the names of a stack's direct parts."""
    if isinstance(stack, Bare):
        return [stack.device]
    if isinstance(stack, Md):
        return stack.members
    names = []
    for key in stack.PARTS:
        part = getattr(stack, key)
        if isinstance(part, list):
            names += part
        else:
            names.append(part)
    return names


def _kind(value: Any) -> str:
    if isinstance(value, Bare) or (isinstance(value, dict) and "device" in value):
        return "<bare>"
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return "<md>" if kind is None else f"<{kind}>"


def _check_kind(value: Any) -> Any:
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind is not None and kind not in (*VOLUMES,):  # which may be a list, and have no hash
        kind_names = ", ".join(VOLUMES)
        raise KeyedError("kind", f"found {show_value(kind)}, expected one of {kind_names}; for an md array, set level")
    return value


if TYPE_CHECKING:
    Stack = Bare | Md | Volume
else:
    Stack = Annotated[
        Union[
            Annotated[Bare, Tag("<bare>")],
            Annotated[Md, Tag("<md>")],
            *(Annotated[table, Tag(f"<{kind}>")] for kind, table in VOLUMES.items()),
        ],
        Discriminator(_kind),
        BeforeValidator(_check_kind),
    ]
"""A table below [stacks]."""
