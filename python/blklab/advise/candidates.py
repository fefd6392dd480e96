"""The arrangements that a competent administrator would consider, and some that they would miss.

Within a function, the order is that of preference: of equal arrangements, the first is chosen. Chunks begin
with mdadm's default, RAID-10 with the layout near.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from blklab.advise.arrangement import Arrangement
from blklab.advise.question import DiskPool, Question, Table

CHUNKS = ("512K", "64K", "256K", "1M")  # mdadm's default first
LAYOUTS = {"n": "near", "f": "far", "o": "offset"}
MAX_COPIES = 4  # Copies of a mirror; more only cost writes
CACHES: Sequence[tuple[str, dict[str, str], bool]] = (
    ("lvmcache", {"mode": "writethrough"}, False),
    ("lvmcache", {"mode": "writeback"}, True),
    ("bcache", {"mode": "writethrough"}, False),
    ("bcache", {"mode": "writeback"}, True),
    ("writecache", {}, True),
)
"""Caches, and whether they hold data that the slow disks do not have yet."""

CACHE_WORDS = {"lvmcache": "dm-cache", "bcache": "bcache", "writecache": "dm-writecache"}
LVM_CHUNKS = 1_000_000  # Chunks of a cache above which LVM takes larger ones (lvm2, cache_manip.c)
SMALL_CHUNK = 64 << 10  # Bytes; LVM's smallest default
CHUNK_UNIT = 32 << 10  # Bytes; chunks are multiples of it (lvmcache(7))
SMALL_CACHE = 60 << 30  # Bytes that LVM_CHUNKS of SMALL_CHUNK hold, rounded down
SIMILAR = 2.0  # Disks that serve at most so many times as many random reads as others share arrays with them
FASTER = 4.0
"""How many times as many random reads a disk must serve as another to be worth being its cache."""


@dataclass(frozen=True)
class RemovedCandidates:
    """Arrangements that need no simulation, and why."""

    count: int
    reason: str


def candidates(
    question: Question, random_reads: Mapping[str, float]
) -> tuple[list[Arrangement], list[RemovedCandidates]]:
    """Returns all arrangements, and what was removed because another is as good in every respect.

    `random_reads` are the random reads per second of one disk of each pool, by the pool's name.
    """
    groups = [arrays_of(pool, question.priced) for pool in question.pools]
    by_speed = [
        group
        for _, group in sorted(zip(question.pools, groups, strict=True), key=lambda pair: random_reads[pair[0].name])
    ]
    flat = [arrangement for group in groups for arrangement in group]
    mixed_mirrors: list[Arrangement] = []
    for first, second in combinations(sorted(question.pools, key=lambda pool: -random_reads[pool.name]), 2):
        mixed_mirrors += _mixed_mirrors(first, second)
    common_arrays = list(_arrays_over_pools(question.pools, random_reads))
    volumes = []
    for slow_arrays, fast_arrays in combinations(by_speed, 2):
        for slow_array in filter(_can_join, slow_arrays):
            volumes += [_join_arrays(slow_array, fast_array) for fast_array in filter(_can_join, fast_arrays)]
    cached_arrangements: list[Arrangement] = []
    for slow_pool, slow_arrays in zip(question.pools, groups, strict=True):
        for fast_pool, fast_arrays in zip(question.pools, groups, strict=True):
            if random_reads[fast_pool.name] < FASTER * random_reads[slow_pool.name]:
                continue
            disks_and_mirrors = [array for array in fast_arrays if not array.spares and set(array.kinds) <= {"1"}]
            for origin in filter(_has_default_chunks, slow_arrays):
                for cache in disks_and_mirrors:
                    cached_arrangements += with_caches(origin, cache, fast_pool)
    notes = [
        RemovedCandidates(
            len(CHUNKS) * sum(pool.count > 2 for pool in question.pools), "are RAID-4, and RAID-5 is never slower"
        ),
        RemovedCandidates(sum(pool.count > 1 for pool in question.pools), "are linear, and RAID-0 is never slower"),
        RemovedCandidates(
            0 if question.priced else sum(_subsets(pool) for pool in question.pools),
            "use fewer disks than you have (give --price to have them considered)",
        ),
    ]
    return [*flat, *common_arrays, *mixed_mirrors, *volumes, *cached_arrangements], [
        note for note in notes if note.count
    ]


def _subsets(pool: DiskPool) -> int:
    """Returns how many arrangements of fewer disks are left out."""
    of_any_number = {array.name for array in arrays_of(pool, priced=True)}
    searched_names = {array.name for array in arrays_of(pool, priced=False)}
    return len(of_any_number - searched_names)


def _has_default_chunks(arrangement: Arrangement) -> bool:
    """Whether its chunks are mdadm's default, so that caches and joined arrays need no search of chunks."""
    return all(table.get("chunk", CHUNKS[0]) == CHUNKS[0] for table in arrangement.stacks.values())


def _can_join(arrangement: Arrangement) -> bool:
    """Whether it is a part of volumes over two arrays."""
    return _has_default_chunks(arrangement) and not arrangement.spares


def arrays_of(pool: DiskPool, priced: bool) -> list[Arrangement]:
    """Returns the arrangements of equal disks: all of them, or all but a hot spare; with prices, of any number."""
    fewest = 1 if priced else max(1, pool.count - 1)
    bare = f"single-{pool.name}"
    arrangements = [Arrangement(bare, f"a single {pool.name}", {bare: {"device": pool.disk(1)}}, [pool.disk(1)], 0)]
    for count in range(pool.count, fewest - 1, -1):
        names = [pool.disk(number) for number in range(1, count + 1)]
        spares = [pool.disk(pool.count)] if count < pool.count and not priced else []
        arrays = list(_arrays(pool, names))
        if spares:  # md gives a spare to one array only, and none to RAID-0
            redundant = [array for array in arrays if array.failures and len(array.stacks) == 1]
            arrays = [replace(array, spares=spares, words=f"{array.words} and a hot spare") for array in redundant]
        arrangements += arrays
    # Mirrors of fewer disks are faster to write, and are searched in any case.
    for copies in range(2, min(pool.count - 1, MAX_COPIES) + 1):
        arrangements.append(_mirror(pool, [pool.disk(number) for number in range(1, copies + 1)]))
    unique: dict[tuple[str, ...], Arrangement] = {}
    for arrangement in arrangements:
        unique.setdefault((str(arrangement.stacks), str(bool(arrangement.spares))), arrangement)
    return list(unique.values())


def _mirror(pool: DiskPool, names: Sequence[str]) -> Arrangement:
    return _array(pool, names, "raid1", "RAID-1", {"level": 1}, len(names) - 1)


def _arrays(pool: DiskPool, names: Sequence[str]) -> Iterator[Arrangement]:
    count = len(names)
    if count < 2:
        return
    if count <= MAX_COPIES:
        yield _mirror(pool, names)
    for chunk in CHUNKS:
        keys = {"chunk": chunk}
        suffix = chunk.lower()
        chunk_text = f"chunk {chunk}"
        for copies in (2, 3):
            for letter, layout in LAYOUTS.items():
                if copies <= count and not (letter == "n" and copies == count):
                    table = {"level": 10, "layout": f"{letter}{copies}", **keys}
                    description = f"RAID-10 {layout} {copies}, {chunk_text}"
                    yield _array(pool, names, f"raid10-{letter}{copies}-{suffix}", description, table, copies - 1)
        if count > 2:
            yield _array(pool, names, f"raid5-{suffix}", f"RAID-5, {chunk_text}", {"level": 5, **keys}, 1)
        if count > 3:
            yield _array(pool, names, f"raid6-{suffix}", f"RAID-6, {chunk_text}", {"level": 6, **keys}, 2)
            yield from _nested_arrays(pool, names, chunk)
        yield _array(pool, names, f"raid0-{suffix}", f"RAID-0, {chunk_text}", {"level": 0, **keys}, 0)


def _array(
    pool: DiskPool, names: Sequence[str], label: str, description: str, table: Table, failures: int
) -> Arrangement:
    name = f"{label}-{len(names)}x{pool.name}"
    level = str(table["level"])
    bitmap = {"bitmap": True} if level != "0" else {}
    stacks = {name: {**table, **bitmap, "members": list(names)}}
    return Arrangement(
        name, f"{description}, of {len(names)} × {pool.name}", stacks, names, failures, kinds=frozenset({level})
    )


def _nested_arrays(pool: DiskPool, names: Sequence[str], chunk: str) -> Iterator[Arrangement]:
    """Yields RAID-0 over mirrors, and over RAID-5 and RAID-6 of half of the disks each."""
    count = len(names)
    for level, size, failures, fewest in ((1, 2, 1, 2), (5, count // 2, 1, 3), (6, count // 2, 2, 4)):
        if count % size or count < 2 * size or size < fewest:
            continue
        label = f"raid0-over-raid{level}-{chunk.lower()}-{count}x{pool.name}"
        keys = {"level": level, "bitmap": True} | ({"chunk": chunk} if level != 1 else {})
        parts = {
            f"{label}-part{start // size + 1}": {**keys, "members": list(names[start : start + size])}
            for start in range(0, count, size)
        }
        stacks: dict[str, Table] = {**parts, label: {"level": 0, "chunk": chunk, "members": list(parts)}}
        description = f"RAID-0, chunk {chunk}, over {len(parts)} × RAID-{level}, of {count} × {pool.name}"
        yield Arrangement(label, description, stacks, names, failures, kinds=frozenset({"0", str(level)}))


def _arrays_over_pools(pools: Sequence[DiskPool], random_reads: Mapping[str, float]) -> Iterator[Arrangement]:
    """Yields the arrays of all disks of several pools that are about as fast as each other, striped in turn."""
    for size in range(2, len(pools) + 1):
        for group in combinations(pools, size):
            speeds = [random_reads[pool.name] for pool in group]
            if max(speeds) > SIMILAR * min(speeds):
                continue
            longest = max(pool.count for pool in group)
            names = []
            for number in range(1, longest + 1):
                names += [pool.disk(number) for pool in group if number <= pool.count]
            label = "_".join(f"{pool.count}x{pool.name}" for pool in group)
            pools_text = " and ".join(f"{pool.count} × {pool.name}" for pool in group)
            for array in _arrays(replace(group[0], name=label, count=len(names)), names):
                if len(names) > 2 or array.kinds == {"0"}:  # `_mixed_mirrors` has the mirrors of two
                    yield replace(array, words=array.words.replace(f"{len(names)} × {label}", pools_text))


def _mixed_mirrors(fast: DiskPool, slow: DiskPool) -> Iterator[Arrangement]:
    """Yields mirrors with a fast and a slow half."""
    pairs = min(fast.count, slow.count)
    fast_names = [fast.disk(number) for number in range(1, pairs + 1)]
    slow_names = [slow.disk(number) for number in range(1, pairs + 1)]
    names = [fast_names[0], slow_names[0]]
    pool_names = f"{fast.name}_{slow.name}".replace("+", "_")
    mirror = {"level": 1, "members": names, "bitmap": True}
    write_mostly = {**mirror, "write_mostly": [slow_names[0]]}
    for label, table, suffix in (
        (f"raid1-{pool_names}", mirror, ""),
        (f"raid1-wm-{pool_names}", write_mostly, " (write-mostly)"),
    ):
        description = f"RAID-1 of {fast.name} and {slow.name}{suffix}"
        yield Arrangement(label, description, {label: table}, names, 1, kinds=frozenset({"1"}))
    in_turn = [name for pair in zip(fast_names, slow_names, strict=True) for name in pair]
    for letter, layout in LAYOUTS.items():
        label = f"raid10-{letter}2-{pairs}x-{pool_names}"
        table = {"level": 10, "layout": f"{letter}2", "chunk": CHUNKS[0], "members": in_turn, "bitmap": True}
        description = f"RAID-10 {layout} 2, chunk {CHUNKS[0]}, of {pairs} × {fast.name} and {pairs} × {slow.name}"
        yield Arrangement(label, description, {label: table}, in_turn, 1, kinds=frozenset({"10"}))


def _join_arrays(slow: Arrangement, fast: Arrangement) -> Arrangement:
    """Returns a volume over two arrays: first the slow one, where the load begins."""
    name = f"{slow.name}_and_{fast.name}"
    stacks = {**slow.stacks, **fast.stacks, name: {"level": "linear", "members": [slow.top, fast.top]}}
    description = f"an LVM volume over {slow.words}, and {fast.words}"
    disks = [*slow.disks, *fast.disks]
    failures = min(slow.failures, fast.failures)
    return Arrangement(
        name, description, _plain_members(stacks), disks, failures, kinds=slow.kinds | fast.kinds | {"linear"}
    )


def with_caches(origin: Arrangement, cache: Arrangement, pool: DiskPool) -> Iterator[Arrangement]:
    """Yields an arrangement with each kind of cache; with a dm-cache, also on a part of the fast disks.

    The whole of a large disk needs large chunks, which are expensive to promote.
    """
    for kind, keys, holds_data in CACHES:
        mode = keys.get("mode")
        label = f"{kind}-{mode}" if mode else kind
        name = f"{origin.name}_{label}_{cache.name}"
        below = "backing" if kind == "bcache" else "origin"
        description = f"{origin.words}, behind a {CACHE_WORDS[kind]}"
        if mode:
            description += f" ({mode})"
        arrangement = Arrangement(
            name,
            f"{description} on {cache.words}",
            _plain_members(
                {**origin.stacks, **cache.stacks, name: {"kind": kind, below: origin.top, "cache": cache.top, **keys}}
            ),
            [*origin.disks, *cache.disks],
            min(origin.failures, cache.failures) if holds_data else origin.failures,
            origin.spares,
            kinds=origin.kinds | cache.kinds | {kind, *keys.values()},
        )
        if kind != "lvmcache":
            yield arrangement
            continue
        chunk = max(SMALL_CHUNK, -(-pool.bytes // LVM_CHUNKS // CHUNK_UNIT) * CHUNK_UNIT)
        yield arrangement.change_stack(name, chunk=chunk)
        if pool.bytes > SMALL_CACHE:
            part = arrangement.change_stack(name, chunk=SMALL_CHUNK).rename(f"{name}-60g")
            part_description = f"{description} on 60 GiB of {cache.words}"
            yield replace(part, words=part_description, sizes=dict.fromkeys(cache.disks, SMALL_CACHE))


def _plain_members(stacks: dict[str, Table]) -> dict[str, Table]:
    """Puts bare disks in the place of the stacks that consist of one."""
    disks = {name: table["device"] for name, table in stacks.items() if "device" in table}

    def plain(value: object) -> object:
        if isinstance(value, list):
            return [disks.get(member, member) for member in value]
        return disks.get(value, value) if isinstance(value, str) else value

    plain_stacks: dict[str, Table] = {}
    for name, table in stacks.items():
        if name not in disks:
            plain_stacks[name] = {key: plain(value) for key, value in table.items()}
    return plain_stacks
