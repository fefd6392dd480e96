"""The answer to a question: what to build, how it compares, why, what to type, and the experiment that proves it."""

import math
import pkgutil
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import tomli_w

from blklab.advise import figures as situations
from blklab.advise.arrangement import Arrangement, members_of, names_in
from blklab.advise.cache import CacheAnswer, cache_answer
from blklab.advise.figures import ArrangementFigures
from blklab.advise.question import FLASH, Constraints, Question, Table
from blklab.advise.race import SAME, Candidate, RaceResult, longest, price_of, race, simulate_candidates
from blklab.advise.rated_loads import grow_jobs
from blklab.advise.samples import CACHED_BYTES, SampleRequest, Simulations, Tick, document_of, ignore_tick, ios_of
from blklab.advise.search import (
    SearchSpace,
    add_capacity,
    format_keywords,
    relaxations,
    required_capacity,
    select_runnable,
    space,
)
from blklab.cluster import HERE, Parallel
from blklab.compare.explain import explain
from blklab.devices import stock_models
from blklab.documents.cell import Cell
from blklab.errors import BlklabError, UsageError
from blklab.render import formatting
from blklab.runners.lab.stacks.filesystem import geometry
from blklab.runners.sim.runner import outcome
from blklab.text.printing import printable
from blklab.trace.fio.plan import SEQUENTIAL, FioPlan, JobPlan
from blklab.units import format_duration, format_size, parse_size

MIN_TRACE_IOS = 1_000  # I/Os of a trace below which its 99th percentile is that of fewer than ten I/Os
MAX_ROWS = 8  # Arrangements in the answer
USUAL_LOSS = 0.001  # Probability of losing data above which more room is no reason to choose an array
NOT_MUCH_SLOWER = 1.25  # Times the latency up to which a safer arrangement is preferred
LEAST_LOSS = 1e-15  # Probabilities of losing data below this are equal; one can be 0
SURELY_SAFER = 0.5  # Times the probability of losing data up to which an arrangement is safer
NEARLY_AS_FAST = 1.1  # Times the latency with a cache up to which an arrangement without one is preferred


BLOCK = 4096  # Bytes of a filesystem block
GROUP = "data"  # The volume group, its volume, the outermost array and the directory, if there is one array
CONFIGURATION = "/etc/mdadm/mdadm.conf"
RULES = "/etc/udev/rules.d/66-blklab-advice.rules"
"""After 63-md-raid-arrays.rules, which reads the names of arrays."""

UNKNOWN = "/dev/disk/by-id/"  # What the user completes


@dataclass(frozen=True)
class ScriptPart:
    """The commands for one arrangement."""

    variables: Sequence[str]  # Lines that give each disk a variable, which the user completes
    disks: Sequence[str]  # The disks as the shell reads them: `"$disk_1"`
    checks: Sequence[str]  # Lines that stop the script before it writes
    build: Sequence[str]  # Lines that write


def script(
    arrangement: Arrangement, node: Table, paths: Mapping[str, str], filesystem: str, name: str = GROUP
) -> ScriptPart:
    """Returns a shell script for Debian; `node` is the stack of its cell, `paths` are those of known disks.

    It stops at the first error, before it writes if a disk is not empty or a name is in use. Arrays get no bad-block
    lists; the filesystem is aligned to the stripes. `name` is that of the volume and of its directory in /srv.
    """
    prefix = "disk" if name == GROUP else f"{name}_disk"
    disks = (*arrangement.disks, *arrangement.spares)
    variables = {disk: f"{prefix}_{number}" for number, disk in enumerate(disks, 1)}
    disk_lines = []
    for disk, variable in variables.items():
        model = disk.rpartition("-")[0]
        # LVM takes a part of a disk as a volume, bcache needs a partition.
        is_part = disk in arrangement.sizes and arrangement.top_table.get("kind") == "bcache"
        size_text = f"a partition of {format_size(arrangement.sizes[disk])} of " if is_part else ""
        comment = disk if disk in paths else f"complete this: {size_text}a {model}"
        disk_lines.append(f"{variable}={shlex.quote(paths.get(disk, UNKNOWN))}  # {comment}")
    shell_paths = {disk: f'"${variable}"' for disk, variable in variables.items()}
    names = _array_names(arrangement, name)
    shell_paths |= {array: f"/dev/md/{label}" for array, label in names.items()}
    new_paths = [*(shell_paths[array] for array in names), f"/dev/{name}", f"/srv/{name}"]
    shell_disks = [shell_paths[disk] for disk in variables]
    checks = _checks(shell_disks, new_paths)
    build = [*_stack(arrangement, shell_paths, name), *_settings(arrangement, names, shell_disks)]
    nested = any(
        member in shell_paths and member in arrangement.stacks for member in names_in(arrangement.top_table, "members")
    )
    parity = nested and any(table["level"] in {5, 6} for table in arrangement.arrays().values())
    if filesystem != "none":
        stripes = None if parity else geometry(node)
        build += _filesystem(filesystem, shell_paths[arrangement.top], stripes, f"/srv/{name}")
    return ScriptPart(disk_lines, shell_disks, [*checks], build)


def join_scripts(parts: Sequence[ScriptPart]) -> list[str]:
    """Returns one script that checks the disks of all parts before it writes to any."""
    lines = ["set -eu"]
    for part in parts:
        lines += part.variables
    for part in parts:
        lines += part.checks
    disks = [disk for part in parts for disk in part.disks]
    build = [line for part in parts for line in part.build]
    if len(disks) > 1:
        lines.append(
            f"twice=$(readlink -f {' '.join(disks)} | sort | uniq -d); "
            '[ -z "$twice" ] || { echo "$twice: this disk is given twice" >&2; exit 1; }'
        )
    tools = {
        line.partition(" ")[0]: PACKAGES[line.partition(" ")[0]] for line in build if line.partition(" ")[0] in PACKAGES
    }
    if tools:
        lines.append(
            f'for tool in {" ".join(tools)}; do command -v "$tool" >/dev/null || {{ echo "$tool is missing: '
            f'apt-get install {" ".join(dict.fromkeys(tools.values()))}" >&2; exit 1; }}; done'
        )
    return [*lines, *build]


PACKAGES = {
    "lvcreate": "lvm2",
    "lvconvert": "lvm2",
    "make-bcache": "bcache-tools",
    "mdadm": "mdadm",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "vgcreate": "lvm2",
}
"""Debian's packages of the programs that scripts need."""


def _array_names(arrangement: Arrangement, name: str) -> dict[str, str]:
    """Returns mdadm's names of the arrays: `data` for the outermost one, `data-part1` for a part of it."""
    arrays = [array for array, table in arrangement.arrays().items() if table["level"] != "linear"]
    parts = [array for array in arrays if array != arrangement.top]
    part_labels = {array: f"{name}-part{number}" for number, array in enumerate(parts, 1)}
    return {array: part_labels.get(array, name) for array in arrays}


def _checks(disks: Sequence[str], paths: Sequence[str]) -> Iterator[str]:
    """Yields checks that stop the script before it writes."""
    yield (
        f'for disk in {" ".join(disks)}; do [ -b "$disk" ] || '
        '{ echo "$disk: no such disk: complete the names above" >&2; exit 1; }; done'
    )
    yield (
        f'for disk in {" ".join(disks)}; do found=$(wipefs --no-act "$disk") && [ -z "$found" ] || '
        '{ echo "$disk: expected an empty disk: see wipefs --no-act" >&2; exit 1; }; done'
    )
    if paths:
        yield f'for path in {" ".join(paths)}; do [ ! -e "$path" ] || {{ echo "$path exists" >&2; exit 1; }}; done'


def _stack(arrangement: Arrangement, shell_paths: dict[str, str], group: str = GROUP) -> Iterator[str]:
    """Yields the commands for each stack, and enters the paths of volumes; `group` is the volume group."""
    if any(table["level"] not in {0, "linear"} for table in arrangement.arrays().values()):
        yield f"mkdir -p {Path(CONFIGURATION).parent}"
        yield f"grep -qs '^CREATE.*bbl=no' {CONFIGURATION} || echo 'CREATE bbl=no' >> {CONFIGURATION}"
    arrays = [name for name in arrangement.arrays() if name in shell_paths]
    if arrays:
        yield (
            "# An array that is made on Linux 6.19 or newer cannot be assembled by 6.18 and older, "
            "nor by rescue media that have these."
        )
    for name, table in arrangement.stacks.items():
        if "device" in table:
            shell_paths[name] = shell_paths[str(table["device"])]
        elif name in arrays:
            yield _array(table, shell_paths[name], shell_paths, arrangement.spares)
            yield f"mdadm --detail --brief {shell_paths[name]} >> {CONFIGURATION}"
        elif table.get("kind") == "bcache":
            yield from _bcache(table, shell_paths)
            shell_paths[name] = '"$bcache"'
        else:
            shell_paths[name] = f"/dev/{group}/{group}"
            yield from _volume(arrangement, table, shell_paths, group)
    if arrays:
        yield "update-initramfs -u"


def _array(table: Table, path: str, shell_paths: Mapping[str, str], spares: Sequence[str]) -> str:
    """Returns `mdadm --create`; --run, because mdadm asks about disks of unequal size.

    --bitmap, because with --run mdadm 4.4 makes no bitmap, and 4.2 one above 100 GiB; RAID-0 has none (4.2 refuses it).
    """
    members = members_of(table)
    write_mostly = names_in(table, "write_mostly")
    arguments = ["mdadm --create", path, "--run --metadata=1.2", f"--level={table['level']}"]
    arguments += [
        f"--raid-devices={len(members)}",
        *(f"--{key}={table[key]}" for key in ("layout", "chunk") if key in table),
    ]
    if table["level"] != 0:
        arguments.append("--bitmap=internal" if table.get("bitmap") else "--bitmap=none")
    if spares:
        arguments.append(f"--spare-devices={len(spares)}")
    arguments += [shell_paths[name] for name in members if name not in write_mostly]
    if write_mostly:
        arguments += ["--write-mostly", *(shell_paths[name] for name in write_mostly)]
    return " ".join([*arguments, *(shell_paths[name] for name in spares)])


def _bcache(table: Table, shell_paths: Mapping[str, str]) -> Iterator[str]:
    """Yields the commands for a bcache; the kernel numbers its devices."""
    backing, cache = (shell_paths[str(table[key])] for key in ("backing", "cache"))
    writeback = "--writeback " if table.get("mode") == "writeback" else ""
    yield f"make-bcache {writeback}-B {backing} -C {cache}"
    yield "udevadm settle"
    yield f"bcache=$(lsblk --noheadings --raw --output PATH {backing} | grep -m1 /dev/bcache)"


def _volume(arrangement: Arrangement, table: Table, shell_paths: Mapping[str, str], group: str) -> Iterator[str]:
    """Yields the commands for a volume of LVM, with its cache."""
    kind = table.get("kind")
    names = members_of(table) if kind is None else [str(table["origin"]), str(table["cache"])]
    paths = [shell_paths[name] for name in names]
    yield f"vgcreate {group} {' '.join(paths)}"
    if kind is None:
        yield f"lvcreate --yes --name {group} --extents 100%FREE {group} {' '.join(paths)}"
        return
    yield f"lvcreate --yes --name {group} --extents 100%PVS {group} {paths[0]}"
    yield from _cache_of_volume(arrangement, group, group, paths[1], "")


def _cache_of_volume(arrangement: Arrangement, group: str, volume: str, path: str, block: str) -> Iterator[str]:
    """Yields the commands that put a cache of LVM on a volume; `block` is an option of dm-writecache."""
    size = "--extents 100%PVS"
    if arrangement.sizes:
        mebibytes = min(arrangement.sizes.values()) >> 20
        size = f"--size {mebibytes}m" if mebibytes % 1024 else f"--size {mebibytes >> 10}g"
    # dm-writecache is only made of an inactive volume.
    yield f"lvcreate --yes --activate n --name fast {size} {group} {path}"
    options = f"--type writecache{block}"
    table = arrangement.top_table
    if table["kind"] == "lvmcache":
        options = f"--type cache --chunksize {parse_size(str(table['chunk'])) >> 10}k --cachemode {table['mode']}"
    yield f"lvconvert --yes {options} --cachevol fast {group}/{volume}"


BLOCK_SIZE = "blkid -p -o value -s BLOCK_SIZE"


def script_for_volume(arrangement: Arrangement) -> list[str]:
    """Returns a shell script that puts the cache of an arrangement on a volume of LVM that is in use: cache.sh."""
    cache = arrangement.below(str(arrangement.top_table["cache"]))
    shell_paths = {name: f'"$fast_{number}"' for number, name in enumerate(cache.disks, 1)}
    arrays = dict.fromkeys(cache.arrays(), "/dev/md/cache")
    path = (shell_paths | arrays)[cache.top if arrays else cache.disks[0]]
    is_writecache = arrangement.top_table["kind"] == "writecache"
    block = ' --cachesettings "block_size=$block"'
    size = f'[ "$({BLOCK_SIZE} "/dev/$group/$volume")" = 4096 ] && block=4096 || block=512'
    parts = {
        "disks": [
            f"{name[2:-1]}={UNKNOWN}  # complete this: a {disk.rpartition('-')[0]}"
            for disk, name in shell_paths.items()
        ],
        "checks": _checks([*shell_paths.values()], list(arrays.values())),
        # Larger blocks than those of the filesystem damage it (lvmcache(7)).
        "block": [size] if is_writecache else [],
        "array": _stack(cache, shell_paths | arrays) if arrays else [],
        "cache": _cache_of_volume(arrangement, '"$group"', '"$volume"', path, block),
        "path": [path],
    }
    text = (pkgutil.get_data(__package__, "cache.sh") or b"").decode()
    for name, lines in parts.items():
        text = text.replace(f"@{name}", "\n".join(lines))
    return list(filter(None, text.splitlines()))


def _settings(arrangement: Arrangement, names: Mapping[str, str], shell_disks: Sequence[str]) -> Iterator[str]:
    """Yields commands that make the settings of arrays, and of these disks alone, permanent by rules of udev."""
    rules = []
    for name, table in arrangement.arrays().items():
        size = table.get("stripe_cache_size")
        if size:
            rules.append(
                f'SUBSYSTEM=="block", ENV{{MD_DEVNAME}}=="{names[name]}", ATTR{{md/stripe_cache_size}}="{size}"'
            )
    if cutoff := arrangement.top_table.get("sequential_cutoff"):
        rules.append(
            f'SUBSYSTEM=="block", KERNEL=="bcache*", ATTR{{bcache/sequential_cutoff}}="{parse_size(str(cutoff))}"'
        )
    for rule in rules:
        yield f"echo {shlex.quote(rule)} >> {RULES}"
    scheduler = arrangement.settings.get("scheduler")
    if scheduler:
        rule = (
            'SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ENV{ID_SERIAL}=="%s", ATTR{queue/rotational}=="1", '
            f'ATTR{{queue/scheduler}}="{scheduler}"\\n'
        )
        find_serial = "udevadm info --query=property --name=\"$disk\" | sed -n 's/^ID_SERIAL=//p'"
        add_rule = f'printf {shlex.quote(rule)} "$serial" >> {RULES}'
        say = f'echo "$disk: udev has no serial number of it: set its scheduler ({scheduler}) after each boot" >&2'
        yield (
            f"for disk in {' '.join(shell_disks)}; do serial=$({find_serial}); "
            f'if [ -n "$serial" ]; then {add_rule}; else {say}; fi; done'
        )
    if rules or scheduler:
        yield "udevadm control --reload && udevadm trigger --subsystem-match=block --action=change"


def _filesystem(kind: str, path: str, stripes: tuple[int, int] | None, directory: str) -> Iterator[str]:
    """Yields mkfs and the line of fstab; without `noatime`, each read causes a write."""
    options = ""
    if stripes is not None:
        chunk, count = stripes
        unit = chunk // BLOCK
        options = f" -E stride={unit},stripe_width={unit * count}" if kind == "ext4" else f" -d su={chunk},sw={count}"
    yield f"mkfs.{kind}{options} {path}"
    yield f"mkdir -p {directory}"
    check = 2 if kind == "ext4" else 0
    yield f'echo "UUID=$(blkid -s UUID -o value {path}) {directory} {kind} noatime,nofail 0 {check}" >> /etc/fstab'
    yield f"mount {directory}"


@dataclass(frozen=True)
class Answer:
    question: Question
    rows: Sequence[ArrangementFigures]  # The best first; none is better than another in every respect
    other_rows: Sequence[ArrangementFigures]  # The best of each other level, and what the user named
    present: Sequence[ArrangementFigures]  # Arrays that the user has
    reasons: Sequence[str]  # What limits the best, in sentences
    doubts: Sequence[str]  # What the figures depend on
    script: ScriptPart  # What to type
    cache: CacheAnswer | None  # If the best has a cache: which size and chunk of this kind
    options: SearchSpace  # The arrangements that were simulated, and those that needed no simulation
    result: RaceResult
    full_ios: int  # I/Os that simulating all of them in full would have taken


def advise(
    question: Question,
    file: Path | None = None,
    parallel: Parallel = HERE,
    paths: Mapping[str, str] | None = None,
    present: Sequence[Arrangement] = (),
    filesystem: str = "ext4",
    tick: Tick = ignore_tick,
    name: str = GROUP,
    show_first: Callable[[Arrangement], object] | None = None,
) -> Answer:
    """Searches the arrangements and returns the answer.

    `paths` are those of known disks, by name; `present` are arrays that the user has, to compare with; `name` is that
    of the volume. `show_first` gets the best arrangement of the first short simulations. Raises BlklabError if no
    arrangement meets the constraints, with the constraint to relax.
    """
    simulations = Simulations(question, file, parallel, tick)
    options = space(question, simulations)
    if not options.fitting:
        raise BlklabError(_no_fit_message(question, options))
    result = race(question, options.fitting, simulations, show_first=show_first)
    candidates = result.kept or _retry_slow(question, result.too_slow[:MAX_ROWS], simulations)
    candidates = [situations.tune_candidate(question, candidate, simulations) for candidate in candidates[:MAX_ROWS]]
    weights = [load.weight for load in question.loads]

    def order(candidate: Candidate) -> float:
        return (candidate.price or 0) if question.cheapest_first else candidate.mean_ns(weights)

    candidates.sort(key=order)
    all_candidates = [*candidates, *result.others, *_simulate_unmet(question, options, simulations)]
    all_rows = situations.figures(question, all_candidates, simulations)
    rows = all_rows[: len(candidates)]
    if question.constraints.loss is not None:
        sorted_candidates = sorted([*candidates, *result.others], key=order)
        rows = _select_safe(question, [all_rows[all_candidates.index(candidate)] for candidate in sorted_candidates])
    else:
        rows = _order_rows(question, rows)
    best_by_level = {row.arrangement.level: row for row in reversed([*rows, *all_rows])}
    comparisons = question.constraints.comparisons
    other_rows = []
    for row in all_rows:
        if row in rows:
            continue
        is_best = row is best_by_level[row.arrangement.level]
        if is_best or any(row.arrangement.is_called(keywords) for keywords in comparisons):
            other_rows.append(row)
    best = all_candidates[all_rows.index(rows[0])]
    rows[0] = situations.add_changes(question, rows[0], simulations)
    arrays = [add_capacity(question, array) for array in present]
    runnable_arrays, _ = select_runnable([array for array in arrays if array.capacity], simulations)
    present_rows = situations.figures(
        question,
        [Candidate(arrangement, price_of(arrangement, question)) for arrangement in runnable_arrays],
        simulations,
    )
    document = simulations.cell(best.arrangement, question.loads[0]).document
    return Answer(
        question,
        rows,
        other_rows,
        present_rows,
        _explain_best(question, best, simulations),
        doubts(question, [row.arrangement for row in (*rows, *other_rows)]),
        script(best.arrangement, document["stack"], paths or {}, filesystem, name),
        _cache(question, best.arrangement, simulations),
        options,
        result,
        len(options.fitting) * sum(ios_of(load, longest(question)) for load in question.loads),
    )


def _cache(question: Question, arrangement: Arrangement, simulations: Simulations) -> CacheAnswer | None:
    """Returns what sizes and chunks of the cache of an arrangement do; None without a cache."""
    if "cache" not in arrangement.top_table:
        return None
    origin = str(arrangement.top_table.get("origin", arrangement.top_table.get("backing")))
    disks = arrangement.below(str(arrangement.top_table["cache"])).disks
    cache_pool = replace(question.disks[disks[0]], count=len(disks))
    origin_arrangement = replace(
        arrangement.below(origin), failures=arrangement.failures, words=arrangement.words.split(", behind a ")[0]
    )
    return cache_answer(
        question,
        add_capacity(question, origin_arrangement),
        cache_pool,
        simulations,
        ios=longest(question),
        kinds=[arrangement.level],
    )


def _select_safe(question: Question, rows: Sequence[ArrangementFigures]) -> list[ArrangementFigures]:
    """Returns those that lose data less often than `Constraints.loss`, unless one before is as good in every respect.

    `rows` are in the order of preference. Raises BlklabError if there is none.
    """
    bound = question.constraints.loss or 0
    max_p99_ns = question.constraints.p99_ns
    fast = [row for row in rows if max_p99_ns is None or row.slowest_load().p99_ns <= max_p99_ns]
    safe = [row for row in fast if row.loss.any.mean <= bound]
    if safe:
        if not question.cheapest_first:
            slowest = (1 + SAME) * safe[0].slowest_load().mean_ns
            safe.sort(key=lambda row: -row.arrangement.capacity if row.slowest_load().mean_ns <= slowest else 0)
        distinct = []
        for number, row in enumerate(safe):
            if not any(_is_as_good(other, row) for other in safe[:number]):
                distinct.append(row)
        return distinct[:MAX_ROWS]
    best = min(fast, key=lambda row: row.loss.any.mean)
    scale = 10 ** math.floor(math.log10(best.loss.any.mean))
    new_bound = math.ceil(best.loss.any.mean / scale) * scale
    raise BlklabError(
        f"every arrangement loses data with a probability above {bound:g} in {situations.YEARS} years: "
        f"the best, {best.arrangement.words}, with {best.loss.any.mean:.2g}: "
        f"relax --loss-below to {new_bound:g}, add disks, "
        "or have disks replaced and arrays checked more often (--replaced-after, --checked-every)"
    )


def serves(question: Question, row: ArrangementFigures) -> bool:
    """Whether the arrangement serves the growth of the loads; loads without a rate are always served."""
    return row.headroom is None or row.headroom_is_more or row.headroom >= question.growth


def _order_rows(question: Question, rows: Sequence[ArrangementFigures]) -> list[ArrangementFigures]:
    """Returns arrangements, which are in the order of speed or price, with the one to advise first."""
    if question.largest_first:
        return _sort_by_capacity(question, rows)
    if question.cheapest_first:
        return [*rows]
    return _prefer_safe(question, _prefer_durable(question, rows))


def _sort_by_capacity(question: Question, rows: Sequence[ArrangementFigures]) -> list[ArrangementFigures]:
    """Returns arrangements that serve the loads and seldom lose data first, and the largest of these first.

    Of equally large ones, that which loses data less often comes first.
    """

    def key(row: ArrangementFigures) -> tuple[bool, bool, int, int, int, float]:
        size = round(100 * math.log(row.arrangement.capacity))  # Differences of 1 % do not count
        loss = round(math.log2(max(LEAST_LOSS, row.loss.any.mean)))  # Nor do those below a factor of two
        is_simple = len(row.arrangement.stacks) == 1 and row.arrangement.level != "10"
        return (not serves(question, row), _is_risky(row), -size, loss, not is_simple, row.slowest_load().mean_ns)

    return sorted(rows, key=key)


def _is_risky(row: ArrangementFigures) -> bool:
    return row.loss.any.mean > USUAL_LOSS


def _prefer_safe(question: Question, rows: Sequence[ArrangementFigures]) -> list[ArrangementFigures]:
    """Returns arrangements, with a safer one before the first, if it has no drawback or if the first is risky.

    An array of rotating disks that loses data more often than usual comes behind one that does not. Any array comes
    behind one that loses data half as often, is as large, and is neither surely nor much slower. An array over disks of
    several kinds comes behind it in any case, unless it is surely faster: its fast disks wait for the slow ones.
    """
    first = rows[0]
    kinds = {question.disks[disk].kind for disk in first.arrangement.disks}
    is_mixed = len(kinds) > 1 and "cache" not in first.arrangement.top_table
    for row in rows[1:]:
        if not serves(question, row) and serves(question, first):
            continue
        is_safer = row.loss.any.mean <= SURELY_SAFER * first.loss.any.mean
        _, most_ratio = row.slowest_load().compare_means(first.slowest_load())
        is_near = row.slowest_load().mean_ns <= NOT_MUCH_SLOWER * first.slowest_load().mean_ns
        is_as_fast = most_ratio > 1 and (is_near or is_mixed)
        has_no_drawback = row.arrangement.capacity >= first.arrangement.capacity and is_as_fast
        if is_safer and (has_no_drawback or (kinds == {"hdd"} and _is_risky(first) and not _is_risky(row))):
            return [row, *(other for other in rows if other is not row)]
    return [*rows]


def _prefer_durable(question: Question, rows: Sequence[ArrangementFigures]) -> list[ArrangementFigures]:
    """Returns arrangements, with a fast cache behind one without a cache that is nearly as fast.

    So it is if the cache wears out within YEARS, or if a single disk of it holds the only copy of what was written.
    """
    first = rows[0]
    if "cache" not in first.arrangement.top_table:
        return [*rows]
    cache = first.arrangement.below(str(first.arrangement.top_table["cache"]))
    is_only_copy = first.arrangement.top_table.get("mode") != "writethrough" and len(cache.disks) == 1
    wears_out = first.rated_years is not None and first.rated_years < situations.YEARS
    if not (is_only_copy or wears_out):
        return [*rows]
    limit = NEARLY_AS_FAST * first.slowest_load().mean_ns
    for row in rows[1:]:
        if "cache" not in row.arrangement.top_table and row.slowest_load().mean_ns <= limit and serves(question, row):
            return [row, *(other for other in rows if other is not row)]
    return [*rows]


def _is_as_good(other: ArrangementFigures, row: ArrangementFigures) -> bool:
    """Whether another is as good in every respect: differences of the mean below SAME do not count."""
    return (
        other.arrangement.capacity >= row.arrangement.capacity
        and other.arrangement.failures >= row.arrangement.failures
        and (other.price or 0) <= (row.price or 0)
        and other.slowest_load().mean_ns <= (1 + SAME) * row.slowest_load().mean_ns
    )


def _simulate_unmet(question: Question, options: SearchSpace, simulations: Simulations) -> list[Candidate]:
    """Returns the best arrangement of each name of `unmet_comparisons` of which none meets the constraints."""
    unmet_comparisons = []
    for keywords in question.constraints.comparisons:
        if not any(arrangement.is_called(keywords) for arrangement in options.fitting):
            unmet_comparisons.append(keywords)
    arrangements = []
    for arrangement in options.arrangements:
        if any(arrangement.is_called(keywords) for keywords in unmet_comparisons):
            arrangements.append(arrangement)
    runnable_arrangements, messages = select_runnable(arrangements, simulations)
    for keywords in unmet_comparisons:
        if not any(arrangement.is_called(keywords) for arrangement in runnable_arrangements):
            raise UsageError(f"--compare {format_keywords(keywords)}: cannot run this: {messages[0]}")
    free = replace(question, constraints=Constraints(comparisons=unmet_comparisons))
    result = race(free, runnable_arrangements, simulations) if runnable_arrangements else None
    best = [*result.kept, *result.others] if result else []
    best_of_names = []
    for keywords in unmet_comparisons:
        best_of_names.append(next(candidate for candidate in best if candidate.arrangement.is_called(keywords)))
    return best_of_names


def _no_fit_message(question: Question, options: SearchSpace) -> str:
    constraints = question.constraints
    lines = relaxations(question, options.arrangements)
    remedy = f"relax one of these: {'; '.join(lines)}" if lines else "relax several constraints, or add disks"
    missing = constraints.failures + 1 - sum(pool.count for pool in question.pools)
    if missing > 0:
        remedy = f"add {formatting.plural(missing, 'disk')} like these, or {remedy}"
    capacity = format_size(required_capacity(question))
    failures = "1 failure" if constraints.failures == 1 else f"{constraints.failures} failures"
    return f"no arrangement of these disks has {capacity} and survives {failures}, as asked: {remedy}"


def _retry_slow(question: Question, slow: Sequence[Candidate], simulations: Simulations) -> list[Candidate]:
    """Returns those of the least slow candidates that meet the bound in full after all. Raises BlklabError for none."""
    bound = question.constraints.p99_ns or 0
    full = sorted(
        simulate_candidates(question, slow, simulations, longest(question), finalists=True),
        key=lambda finalist: finalist.p99_ns,
    )
    if within_bound := [candidate for candidate in full if candidate.p99_ns <= bound]:
        return within_bound
    best = full[0]
    if not best.is_known:
        raise BlklabError(
            f"no arrangement is predicted to have a 99th percentile below {format_duration(bound)}: "
            f"that of the best, {best.arrangement.words}, is not known: measure the disks with `blklab calibrate`"
        )
    raise BlklabError(
        f"no arrangement has a 99th percentile below {format_duration(bound)}: "
        f"the best, {best.arrangement.words}, has {format_duration(best.p99_ns)}: "
        f"relax --p99-below to {_round_up(best.p99_ns)}"
    )


def _round_up(nanoseconds: float) -> str:
    """Returns a duration with two digits that is not shorter, as an option takes it."""
    scale = 10 ** (math.floor(math.log10(nanoseconds)) - 1)
    return format_duration(math.ceil(nanoseconds / scale) * scale).replace(" ", "")


def _explain_best(question: Question, best: Candidate, simulations: Simulations) -> list[str]:
    """Returns sentences about the best arrangement under its slowest load."""
    slowest = max(range(len(question.loads)), key=lambda index: best.samples[index].p99_ns)
    load = question.loads[slowest]
    cell = simulations.cell(best.arrangement, load)
    document = document_of(cell, SampleRequest(best.arrangement, load, longest(question), question.growth))
    limit, *details = explain(cast(Cell, document), outcome(document, None, cell.replay))
    lines = [limit, *(line for line in details if line.startswith(best.arrangement.top) and "bitmap" not in line)]
    return [_replace_stack_names(line, best.arrangement) for line in lines]


def _replace_stack_names(line: str, arrangement: Arrangement) -> str:
    """Returns a sentence with words in the place of the names of stacks."""
    for name in sorted(arrangement.stacks, key=len, reverse=True):
        level = arrangement.stacks[name].get("level")
        inner = f"the RAID-{level}" if level is not None else "the cache"
        line = line.replace(name, arrangement.words if name == arrangement.top else inner)
    return line


def doubts(question: Question, arrangements: Sequence[Arrangement]) -> list[str]:
    """Returns what the figures of arrangements depend on, in sentences."""
    doubts = []
    for pool in question.pools:
        model = pool.table.get("model")
        library_entry = stock_models.library_model(str(model)) if model else None
        if pool.guess:
            doubts.append(f"{pool.name}: the model is a guess: {pool.guess}.")
        is_measured = "uncertainty" in pool.table
        if library_entry is not None and library_entry.spread and not is_measured:
            differ = stock_models.describe_spread(str(model), pool.table)
            doubts.append(f"{pool.name} is a typical disk: others differ by {differ}.")
        if pool.kind not in {"hdd", *FLASH}:
            doubts.append(f"{pool.name}: its probability of data loss is that of an SSD; its provider may keep copies.")
        if pool.kind in FLASH and pool.table.get("state") not in {None, "fresh"}:
            doubts.append(f"{pool.name} is simulated as a used disk (state {pool.table['state']}).")
    for load in question.loads:
        if load.timed and load.ios is not None and load.ios < MIN_TRACE_IOS:
            ios = "1 I/O" if load.ios == 1 else f"{load.ios:,} I/Os"
            doubts.append(f"{printable(load.source)}, is short: {ios}, whose figures vary much.")
    traces = [load for load in question.loads if load.timed]
    if traces:
        doubts.append(
            f"The trace uses the first {format_size(traces[0].span)} of the array, and caches begin empty. "
            "Rotating disks are slower when the data is spread."
        )
    if any(load.span and not load.is_paced for load in question.loads):
        doubts.append(
            "Published mixes run as fast as the disks allow, so disks are always busy; "
            "their data is at the beginning of the array."
        )
    doubts += _doubts_of_rates(question, arrangements)
    if any(arrangement.kinds & {"lvmcache", "bcache"} for arrangement in arrangements) and len(traces) < len(
        question.loads
    ):
        doubts.append("With jobs, dm-cache and bcache hold at first what the jobs use, as far as it fits.")
    if any(
        str(table.get("layout", "")).startswith("f")
        for arrangement in arrangements
        for table in arrangement.stacks.values()
    ):
        doubts.append(
            "RAID-10 far cannot be reshaped: no disk can be added later, and its chunk and layout remain. "
            "Near and offset can."
        )
    doubts.append("The space of md's and LVM's metadata is not subtracted, at most 128 MiB of each disk.")
    return doubts


def _doubts_of_rates(question: Question, arrangements: Sequence[Arrangement]) -> list[str]:
    """Returns what the figures of loads with a rate depend on, in sentences."""
    loads = [load for load in question.loads if load.rate is not None]
    if not loads:
        return []
    doubts = [
        "Loads with a rate are steady within a second; real ones have bursts, which the headroom must serve. "
        "All parts of their data are used equally often."
    ]
    for load in loads:
        if load.ios is not None and load.ios < MIN_TRACE_IOS:
            doubts.append(f"{load.name} has a low rate: {load.ios} I/Os were simulated, whose figures vary much.")
    has_caches = any("cache" in arrangement.top_table for arrangement in arrangements)
    if has_caches and any(load.span > CACHED_BYTES for load in loads):
        size = format_size(CACHED_BYTES)
        doubts.append(f"Arrangements with a cache are simulated with {size} of data, and a cache in the same ratio.")
    return doubts


MAX_EXPERIMENT_ROWS = 4  # Arrangements in the experiment


def as_toml(answers: Sequence[Answer], plans: Mapping[str, FioPlan], max_rows: int = MAX_EXPERIMENT_ROWS) -> str:
    """Returns the experiment that proves answers, each with its own disks and loads.

    `plans` stand for the traces, by the load's name: the lab and hosts run fio.
    """
    disks: dict[str, Table] = {}
    stacks: dict[str, Table] = {}
    workloads: dict[str, Table] = {}
    cells: list[Table] = []
    settings: dict[str, object] = {"runtime": "30s"}
    number = 0
    for answer in answers:
        tops = []
        for row in answer.rows[:max_rows]:
            number += 1
            arrangement = row.arrangement
            # Stacks get a number, and disks of which a part is used another name: arrangements use them differently.
            names = {name: f"{name}-part" for name in arrangement.sizes}
            names |= {name: f"a{number}-{name}" for name in arrangement.stacks}
            for name, table in arrangement.devices(answer.question).items():
                disks[names.get(name, name)] = table
            for name, table in arrangement.warm().items():
                stacks[names[name]] = {key: _replace_names(value, names) for key, value in table.items()}
            tops.append(names[arrangement.top])
        settings |= {**answer.question.settings, **answer.rows[0].arrangement.settings}
        for load in answer.question.loads:
            workloads[load.name] = grow_jobs(load, answer.question.growth)
            if plan := plans.get(load.name):
                jobs = {job.name: _job(plan, job, answer.question.growth) for job in plan.jobs}
                workloads[load.name] = {"jobs": jobs}
        cells.append({"stack": tops, "workload": [load.name for load in answer.question.loads]})
    experiment: dict[str, object] = {
        "title": "Advice",
        "seed": answers[0].question.seed,
        "settings": settings,
        "devices": disks,
        "stacks": stacks,
        "workloads": workloads,
    }
    if len(answers) > 1:
        experiment["cells"] = cells
    comment = "# Predicts, or with --on lab or --on host measures, what `blklab advise` found.\n"
    return comment + tomli_w.dumps(experiment)


def _job(plan: FioPlan, job: JobPlan, growth: float) -> Table:
    """Returns a job with the directions, sizes, rate and I/Os in flight of a trace; bursts and zones are left out.

    The rate is `growth` times that of the trace.
    """
    reads = sum(part.ios for part in job.directions if part.direction == "read")
    splits = []
    for part in job.directions:
        if part.direction != "trim":
            splits.append(":".join(f"{share.bytes}/{share.percent}" for share in part.sizes))
    if 0 < reads < job.ios:
        direction = "rw"
    elif reads:
        direction = "read"
    else:
        direction = "write"
    sequential = all(part.sequential >= SEQUENTIAL for part in job.directions)
    table: dict[str, object] = {"rw": direction if sequential else f"rand{direction}"}
    if direction == "rw":
        table["rwmixread"] = round(100 * reads / job.ios)
    table["bssplit"] = ",".join(splits)
    table["blockalign"] = min(part.align for part in job.directions)
    table["iodepth"] = job.iodepth
    table["numjobs"] = job.numjobs
    table["size"] = plan.locality.size
    # fio limits each direction of each process; the mix keeps the smaller one below its limit.
    table["rate_iops"] = max(1, round(growth * max(part.rate for part in job.directions) / job.numjobs))
    if plan.locality.kind == "zipf":
        table["random_distribution"] = plan.locality.option
    return table


def _replace_names(value: object, names: Mapping[str, str]) -> object:
    if isinstance(value, list):
        return [_replace_names(part, names) for part in value]
    return names.get(value, value) if isinstance(value, str) else value
