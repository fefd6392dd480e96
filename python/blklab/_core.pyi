"""The native core, built from crates/py: thin conversions over the Rust crates.

Every function that reads a trace raises `blklab.errors.UsageError` for what was asked for and
`blklab.errors.BlklabError` for what was found in the trace.
"""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Final, Self

VERSION: str
"""blklab's version, as Cargo.toml states it."""

DEBUG_BUILD: bool
"""True if the extension was built without optimisation; do not believe its speed."""

class Filter:
    """Which events and I/Os to look at; everything by default.

    `devices`: `major,minor`, `major:minor` or an input's name. `processes`: names, patterns or pids. `ops`:
    `read`, `write`, `discard`, `flush`. Times are ns since the trace began; `until_ns` no longer
    counts. Times of the clock are ns since 1970 (UTC), or since midnight if less than a day.
    `sectors` and `sizes` (bytes) are inclusive ranges.
    """

    def __init__(
        self,
        *,
        devices: Sequence[str] = (),
        processes: Sequence[str] = (),
        ops: Sequence[str] = (),
        since_ns: int | None = None,
        until_ns: int | None = None,
        since_clock_ns: int | None = None,
        until_clock_ns: int | None = None,
        sectors: tuple[int | None, int | None] = (None, None),
        sizes: tuple[int | None, int | None] = (None, None),
        min_latency_ns: int | None = None,
    ) -> None: ...

class Stop:
    """Ends simulations that run in other threads."""

    def __init__(self) -> None: ...
    def set(self) -> None:
        """Ends every simulation that was given this."""

    def is_set(self) -> bool:
        """Whether the work must end."""

IO_URING_PER_CENT: Final[int]
"""Processor time of an I/O of io_uring, per cent of one of libaio."""
MD_STRIPE_CACHE: Final[int]
"""Entries of the stripe cache: pages of each member."""
MD_BITMAP_CHUNK: Final[int]
"""Bytes of a bit of the write-intent bitmap."""
MD_SYNC_SPEED_MIN: Final[int]
"""KiB/s of each member that a sync reaches under any load."""
MD_SYNC_SPEED_MAX: Final[int]
"""KiB/s of each member that a sync never exceeds."""

def md_levels() -> str:
    """Returns the facts of all levels that blklab knows, as JSON text (crates/md, `LevelFacts`)."""

class MdMap:
    """The map of an array (crates/md, `ArrayMap`). Sectors of members count from the beginning of their data."""

    capacity: int  # Sectors of the array
    def __new__(cls, level: str, layout: int, chunk_sectors: int, members: Sequence[int]) -> Self:
        """Makes a map over members of these sectors; `layout` is the word in the superblock.

        Raises ValueError for an impossible array, and for an unknown level or layout.
        """

    def array_ranges(self, slot: int, sector: int, sectors: int, parity_as_data: bool) -> list[tuple[int, int]] | None:
        """Returns the array's ranges in a range of a slot, one for each chunk; None if there are too many.

        With `parity_as_data`, parity is mapped to the first data of its stripe.
        """

    def slots(self, sector: int) -> list[int]:
        """Returns the slots that have a copy of an array sector, or a part of its stripe; none behind the end."""

    def runs_without(self, lost: Sequence[int]) -> bool:
        """Tells whether the array has all data without the members of these slots."""

def examine_md(path: str | PathLike[str]) -> str:
    """Reads md's metadata of a file or a device, and returns them as JSON text (crates/md, `Examined`).

    Nothing is written. Raises `UsageError` for what cannot be opened, `BlklabError` for what cannot
    be read.
    """

def default_host() -> str:
    """Returns what a cell without `host` has there, as JSON text."""

def kernel_changes(release: str) -> str:
    """Returns what a simulation depends on of a kernel: with the same text, the results are the same."""

def check_cell(cell: str) -> None:
    """Builds one cell without simulating it: raises `UsageError` for what cannot work."""

def simulate(
    cell: str, stop: Stop | None = None, trace: tuple[Sequence[str], str | None, str | Filter | None] | None = None
) -> str:
    """Simulates one cell (crates/sim/src/cell, as JSON text) and returns its outcome, as JSON
    text (crates/sim/src/outcome.rs). Other threads run meanwhile.

    `trace` is what a cell with `replay` replays, in a group named `replay`: paths, format (None:
    its content says), and whose I/Os: a device as `Filter` takes it, a filter, or None if there is
    only one device. Reads, writes and flushes are replayed; discards and what has no sectors are
    not.

    Raises `UsageError` for a cell that makes no sense, or a trace that does not fit it,
    `BlklabError` if it was stopped or the trace is damaged.
    """

def loss_probabilities(question: str) -> list[list[float]]:
    """Computes how likely data are lost, from a `LossQuestion` as JSON text (crates/sim/src/loss.rs).

    Returns for each set of parameters the probability of any loss, the probabilities that the first loss is that of
    failed disks or that of an unreadable page, and the expected bytes of the first loss. Other threads run meanwhile.
    """

def cache_curves(
    paths: Sequence[str],
    *,
    policies: Sequence[str],
    blocks: Sequence[int],
    sizes: Sequence[int] = (),
    kernel: str = "6.1",
    writeback: bool = False,
    sample: float | None = None,
    samples: int = 4,
    volume: int | None = None,
    format: str | None = None,
    selection: str | Filter | None = None,
) -> str:
    """Computes hit ratios by cache size from the I/Os of one device; `CacheCurves` as JSON text.

    Sizes are bytes; by default powers of two up to what the trace touches. LRU is exact without `sample` (a share of
    the blocks). smq depends on the size of the volume: without `volume`, that of the recording; without both its
    figures are a band. The trace is read twice for smq and bcache.
    """

def cache_check(
    paths: Sequence[str],
    cache: Mapping[str, str | int],
    *,
    format: str | None = None,
    selection: str | Filter | None = None,
) -> list[dict[str, int]]:
    """Replays a trace of a cached volume: what the cache should have counted (names as in `cache status`).

    `cache` describes it when the trace began: kind, policy, kernel, mode, sizes in bytes (size, used, block, origin),
    sequential_cutoff and writeback_percent of bcache. Two cases if it was in use: it held other data, or the trace's.
    """

def characterise(
    paths: Sequence[str],
    filter: Filter,
    *,
    format: str | None = None,
    exact_blocks: int | None = None,
    filesystem: tuple[str, Sequence[str], Sequence[tuple[str, bool]], Sequence[tuple[int, int, int]]] | None = None,
    in_full: tuple[int, int] | None = None,
    threads: int = 1,
    tick: Callable[[int], object] | None = None,
    trim: Callable[[int], object] | None = None,
) -> str:
    """Characterise a trace: the profile as JSON text (docs/reference/formats.md).

    `exact_blocks` is the number of distinct blocks to count exactly. `filesystem` is one whose files are counted: mount
    point, device names in the trace, owners (name, is a file), extents (first sector, sector behind it, owner).
    `in_full` is up to how many devices all are described in full, and how many of the busiest ones if there are more.
    `tick` is called now and then with the bytes read so far, and `trim` with 0 when the memory of the statistics is
    free, before the text is made.
    """

class PartialProfile:
    """All statistics of a trace, which can be merged, and sent to other processes.

    What was taken out of it, or over from it, cannot be used again: UsageError.
    """

    def __new__(cls, stored: bytes) -> PartialProfile:
        """Raise UsageError if it is damaged or of another version."""

    def __getnewargs__(self) -> tuple[bytes]: ...
    def merge(self, other: PartialProfile) -> None:
        """Take over an independent trace of the same host, whose devices are merged by name; or a sum, if it is one."""

    def sum(self) -> PartialProfile:
        """Take out all devices of a host, as one device `all devices`; members of an array count there only."""

    def profile(self) -> str:
        """Return the profile, as JSON text."""

def characterise_partial(
    paths: Sequence[str],
    filter: Filter,
    *,
    format: str | None = None,
    host: str = "",
    shown_as: tuple[str, str] | None = None,
    tick: Callable[[int], object] | None = None,
) -> tuple[PartialProfile, list[tuple[str, str]]]:
    """Characterise a trace: its partial profile, and warnings.

    `host` is where the devices are, if traces of several hosts are summed up. `shown_as` is a beginning of paths, and
    what messages show instead.
    """

def is_trace(path: str) -> bool:
    """Whether the first events of a trace at `path` can be read."""

class LiveTrace:
    """The last seconds of a recording that goes on, read from a pipe in a thread."""

    def __init__(self, path: str, width_ns: int, copy: str | None = None) -> None:
        """Keep `width_ns` of the trace at `path`; `copy` is a new file for all of it."""

    def profile(self, elapsed_ns: int, threads: int) -> tuple[int, str] | None:
        """Return the window's length in ns and its profile as JSON text; None without any event.

        `elapsed_ns` is the time since the last call.
        """

    def ended(self) -> str | None:
        """Return why reading ended, or None while it goes on; an empty text at the end of the input."""

def print_events(
    paths: Sequence[str], filter: Filter, *, format: str | None = None, summary: bool = True, as_json: bool = False
) -> tuple[bool, list[tuple[str, str]]]:
    """Prints a trace's events as blkparse does, to standard output, or as one JSON object a line.

    Returns whether everything could be written (false: the reader has gone away) and warnings as
    (path, message).
    """

def trace_targets() -> list[tuple[str, str]]:
    """Returns what a trace can be converted to: (name, one line about it)."""

def convert(
    paths: Sequence[str],
    output: str,
    filter: Filter,
    *,
    to: str | None = None,
    format: str | None = None,
    overwrite: bool = False,
    tick: Callable[[int], object] | None = None,
) -> str:
    """Converts a trace; returns {"to", "report", "trace"} as JSON text.

    `to` names a target, else the suffix of `output` does. An existing set of per-CPU files is
    replaced only with `overwrite`; other files are replaced anyway.
    """
