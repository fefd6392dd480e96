"""The answer to a question: what to build, how it compares, why, what to type, and the experiment that proves it."""

import math
import pkgutil
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import tomli_w

from blklab.advice import figures as situations
from blklab.advice.arrangement import Arrangement, members_of, names_in
from blklab.advice.cache import CacheAnswer, cache_answer
from blklab.advice.figures import ArrangementFigures
from blklab.advice.question import FLASH, Constraints, Question, Table
from blklab.advice.race import SAME, Candidate, RaceResult, ios_of, longest, price_of, race, simulate_candidates
from blklab.advice.samples import SampleRequest, Simulations, Tick, document_of, ignore_tick
from blklab.advice.search import SearchSpace, named, needed_capacity, relaxations, runnable, sized, space
from blklab.analysis.explain import explain
from blklab.cluster import HERE, Parallel
from blklab.documents.cell import Cell
from blklab.errors import BlklabError, UsageError
from blklab.printing import printable
from blklab.runners.lab.stacks.filesystem import geometry
from blklab.runners.sim.runner import outcome
from blklab.spec import stock_models
from blklab.trace.fio.plan import SEQUENTIAL, FioPlan, JobPlan
from blklab.units import format_duration, format_size, parse_size

FEW = 1_000  # I/Os of a trace below which its 99th percentile is that of fewer than ten I/Os
MOST_ROWS = 8  # Arrangements in the answer


BLOCK = 4096  # Bytes of a filesystem block
GROUP = "data"  # The volume group, its volume, and the outermost array
MOUNT = "/srv/data"
CONFIGURATION = "/etc/mdadm/mdadm.conf"
RULES = "/etc/udev/rules.d/66-blklab-advice.rules"
"""After 63-md-raid-arrays.rules, which reads the names of arrays."""

UNKNOWN = "/dev/disk/by-id/"  # What the user completes


def script(of: Arrangement, node: Table, paths: Mapping[str, str], filesystem: str) -> list[str]:
    """Returns a shell script for Debian; `node` is the stack of its cell, `paths` are those of known disks.

    It stops at the first error, before it writes if a disk is not empty or a name is in use. Arrays get no bad-block
    lists; the filesystem is aligned to the stripes.
    """
    variables = {name: f"disk_{number}" for number, name in enumerate((*of.disks, *of.spares), 1)}
    lines = ["set -eu"]
    for name, variable in variables.items():
        model = name.rpartition("-")[0]
        # LVM takes a part of a disk as a volume, bcache needs a partition.
        part = name in of.sizes and of.top_table.get("kind") == "bcache"
        of_size = f"a partition of {format_size(of.sizes[name])} of " if part else ""
        what = name if name in paths else f"complete this: {of_size}a {model}"
        lines.append(f"{variable}={shlex.quote(paths.get(name, UNKNOWN))}  # {what}")
    where = {name: f'"${variable}"' for name, variable in variables.items()}
    names = _array_names(of)
    where |= {name: f"/dev/md/{label}" for name, label in names.items()}
    lines += _checks([where[name] for name in variables], [*(where[name] for name in names), f"/dev/{GROUP}", MOUNT])
    lines += [*_stack(of, where), *_settings(of, names)]
    nested = any(name in where and name in of.stacks for name in names_in(of.top_table, "members"))
    parity = nested and any(table["level"] in {5, 6} for table in of.arrays().values())
    if filesystem != "none":
        stripes = None if parity else geometry(node)
        lines += _filesystem(filesystem, where[of.top], stripes)
    return lines


def _array_names(of: Arrangement) -> dict[str, str]:
    """Returns mdadm's names of the arrays: `data` for the outermost one, `data-part1` for a part of it."""
    arrays = [name for name, table in of.arrays().items() if table["level"] != "linear"]
    parts = [name for name in arrays if name != of.top]
    numbered = {name: f"{GROUP}-part{number}" for number, name in enumerate(parts, 1)}
    return {name: numbered.get(name, GROUP) for name in arrays}


def _checks(disks: Sequence[str], paths: Sequence[str]) -> Iterator[str]:
    """Yields checks that stop the script before it writes."""
    yield (
        f'for disk in {" ".join(disks)}; do [ -b "$disk" ] && found=$(wipefs --no-act "$disk") && [ -z "$found" ] ||'
        ' { echo "$disk: expected an empty disk: see wipefs --no-act" >&2; exit 1; }; done'
    )
    if paths:
        yield f'for path in {" ".join(paths)}; do [ ! -e "$path" ] || {{ echo "$path exists" >&2; exit 1; }}; done'


def _stack(of: Arrangement, where: dict[str, str]) -> Iterator[str]:
    """Yields the commands for each stack, and enters the paths of volumes."""
    if any(table["level"] not in {0, "linear"} for table in of.arrays().values()):
        yield f"grep -qs '^CREATE.*bbl=no' {CONFIGURATION} || echo 'CREATE bbl=no' >> {CONFIGURATION}"
    arrays = [name for name in of.arrays() if name in where]
    if arrays:
        yield (
            "# An array that is made on Linux 6.19 or newer cannot be assembled by 6.18 and older, "
            "nor by rescue media that have these."
        )
    for name, table in of.stacks.items():
        if "device" in table:
            where[name] = where[str(table["device"])]
        elif name in arrays:
            yield _array(table, where[name], where, of.spares)
            yield f"mdadm --detail --brief {where[name]} >> {CONFIGURATION}"
        elif table.get("kind") == "bcache":
            yield from _bcache(table, where)
            where[name] = '"$bcache"'
        else:
            where[name] = f"/dev/{GROUP}/{GROUP}"
            yield from _volume(of, table, where)
    if arrays:
        yield "update-initramfs -u"


def _array(table: Table, path: str, where: Mapping[str, str], spares: Sequence[str]) -> str:
    """Returns `mdadm --create`; --run, because mdadm asks about disks of unequal size.

    --bitmap, because with --run mdadm 4.4 makes no bitmap, and 4.2 one above 100 GiB; RAID-0 has none (4.2 refuses it).
    """
    members = members_of(table)
    mostly = names_in(table, "write_mostly")
    words = ["mdadm --create", path, "--run --metadata=1.2", f"--level={table['level']}"]
    words += [
        f"--raid-devices={len(members)}",
        *(f"--{key}={table[key]}" for key in ("layout", "chunk") if key in table),
    ]
    if table["level"] != 0:
        words.append("--bitmap=internal" if table.get("bitmap") else "--bitmap=none")
    if spares:
        words.append(f"--spare-devices={len(spares)}")
    words += [where[name] for name in members if name not in mostly]
    if mostly:
        words += ["--write-mostly", *(where[name] for name in mostly)]
    return " ".join([*words, *(where[name] for name in spares)])


def _bcache(table: Table, where: Mapping[str, str]) -> Iterator[str]:
    """Yields the commands for a bcache; the kernel numbers its devices."""
    backing, cache = (where[str(table[key])] for key in ("backing", "cache"))
    writeback = "--writeback " if table.get("mode") == "writeback" else ""
    yield f"make-bcache {writeback}-B {backing} -C {cache}"
    yield "udevadm settle"
    yield f"bcache=$(lsblk --noheadings --raw --output PATH {backing} | grep -m1 /dev/bcache)"


def _volume(of: Arrangement, table: Table, where: Mapping[str, str]) -> Iterator[str]:
    """Yields the commands for a volume of LVM, with its cache."""
    kind = table.get("kind")
    names = members_of(table) if kind is None else [str(table["origin"]), str(table["cache"])]
    paths = [where[name] for name in names]
    yield f"vgcreate {GROUP} {' '.join(paths)}"
    if kind is None:
        yield f"lvcreate --yes --name {GROUP} --extents 100%FREE {GROUP} {' '.join(paths)}"
        return
    yield f"lvcreate --yes --name {GROUP} --extents 100%PVS {GROUP} {paths[0]}"
    yield from _cache_of_volume(of, GROUP, GROUP, paths[1], "")


def _cache_of_volume(of: Arrangement, group: str, volume: str, path: str, block: str) -> Iterator[str]:
    """Yields the commands that put a cache of LVM on a volume; `block` is an option of dm-writecache."""
    size = "--extents 100%PVS"
    if of.sizes:
        mebibytes = min(of.sizes.values()) >> 20
        size = f"--size {mebibytes}m" if mebibytes % 1024 else f"--size {mebibytes >> 10}g"
    # dm-writecache is only made of an inactive volume.
    yield f"lvcreate --yes --activate n --name fast {size} {group} {path}"
    options = f"--type writecache{block}"
    table = of.top_table
    if table["kind"] == "lvmcache":
        options = f"--type cache --chunksize {parse_size(str(table['chunk'])) >> 10}k --cachemode {table['mode']}"
    yield f"lvconvert --yes {options} --cachevol fast {group}/{volume}"


BLOCK_SIZE = "blkid -p -o value -s BLOCK_SIZE"


def script_for_volume(of: Arrangement) -> list[str]:
    """Returns a shell script that puts the cache of an arrangement on a volume of LVM that is in use: cache.sh."""
    cache = of.below(str(of.top_table["cache"]))
    where = {name: f'"$fast_{number}"' for number, name in enumerate(cache.disks, 1)}
    arrays = dict.fromkeys(cache.arrays(), "/dev/md/cache")
    path = (where | arrays)[cache.top if arrays else cache.disks[0]]
    is_writecache = of.top_table["kind"] == "writecache"
    block = ' --cachesettings "block_size=$block"'
    size = f'[ "$({BLOCK_SIZE} "/dev/$group/$volume")" = 4096 ] && block=4096 || block=512'
    parts = {
        "disks": [
            f"{name[2:-1]}={UNKNOWN}  # complete this: a {disk.rpartition('-')[0]}" for disk, name in where.items()
        ],
        "checks": _checks([*where.values()], list(arrays.values())),
        # Larger blocks than those of the filesystem damage it (lvmcache(7)).
        "block": [size] if is_writecache else [],
        "array": _stack(cache, where | arrays) if arrays else [],
        "cache": _cache_of_volume(of, '"$group"', '"$volume"', path, block),
        "path": [path],
    }
    text = (pkgutil.get_data(__package__, "cache.sh") or b"").decode()
    for name, lines in parts.items():
        text = text.replace(f"@{name}", "\n".join(lines))
    return list(filter(None, text.splitlines()))


def _settings(of: Arrangement, names: Mapping[str, str]) -> Iterator[str]:
    rules = []
    for name, table in of.arrays().items():
        size = table.get("stripe_cache_size")
        if size:
            rules.append(
                f'SUBSYSTEM=="block", ENV{{MD_DEVNAME}}=="{names[name]}", ATTR{{md/stripe_cache_size}}="{size}"'
            )
    if cutoff := of.top_table.get("sequential_cutoff"):
        rules.append(
            f'SUBSYSTEM=="block", KERNEL=="bcache*", ATTR{{bcache/sequential_cutoff}}="{parse_size(str(cutoff))}"'
        )
    if scheduler := of.settings.get("scheduler"):
        rules.append(
            'SUBSYSTEM=="block", KERNEL=="sd*", ENV{DEVTYPE}=="disk", ATTR{queue/rotational}=="1",'
            f' ATTR{{queue/scheduler}}="{scheduler}"'
        )
    for rule in rules:
        yield f"echo {shlex.quote(rule)} >> {RULES}"
    if rules:
        yield "udevadm control --reload && udevadm trigger --subsystem-match=block --action=change"


def _filesystem(kind: str, path: str, stripes: tuple[int, int] | None) -> Iterator[str]:
    """Yields mkfs and the line of fstab; without `noatime`, each read causes a write."""
    options = ""
    if stripes is not None:
        chunk, count = stripes
        unit = chunk // BLOCK
        options = f" -E stride={unit},stripe_width={unit * count}" if kind == "ext4" else f" -d su={chunk},sw={count}"
    yield f"mkfs.{kind}{options} {path}"
    yield f"mkdir -p {MOUNT}"
    check = 2 if kind == "ext4" else 0
    yield f'echo "UUID=$(blkid -s UUID -o value {path}) {MOUNT} {kind} noatime,nofail 0 {check}" >> /etc/fstab'
    yield f"mount {MOUNT}"


@dataclass(frozen=True)
class Answer:
    question: Question
    rows: Sequence[ArrangementFigures]  # The best first; none is better than another in every respect
    others: Sequence[ArrangementFigures]  # The best of each other level, and what the user named
    present: Sequence[ArrangementFigures]  # Arrays that the user has
    why: Sequence[str]  # What limits the best, in sentences
    doubts: Sequence[str]  # What the figures depend on
    script: Sequence[str]  # What to type
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
) -> Answer:
    """Searches the arrangements and returns the answer.

    `paths` are those of known disks, by name; `present` are arrays that the user has, to compare with. Raises
    BlklabError if no arrangement meets the constraints, with the constraint to relax.
    """
    simulations = Simulations(question, file, parallel, tick)
    options = space(question, simulations)
    if not options.fitting:
        raise BlklabError(_nothing_fits(question, options))
    result = race(question, options.fitting, simulations)
    kept = result.kept or _late(question, result.too_slow[:MOST_ROWS], simulations)
    kept = [situations.tuned(question, candidate, simulations) for candidate in kept[:MOST_ROWS]]
    weights = [load.weight for load in question.loads]

    def order(each: Candidate) -> float:
        return (each.price or 0) if question.cheapest_first else each.mean_ns(weights)

    kept.sort(key=order)
    every = [*kept, *result.others, *_not_fitting(question, options, simulations)]
    listed = situations.figures(question, every, simulations)
    rows = listed[: len(kept)]
    if question.constraints.loss is not None:
        fitting = sorted([*kept, *result.others], key=order)
        rows = _safe_enough(question, [listed[every.index(candidate)] for candidate in fitting])
    first = {row.arrangement.level: row for row in reversed([*rows, *listed])}
    compared = question.constraints.compared
    other_rows = []
    for row in listed:
        if row in rows:
            continue
        is_best = row is first[row.arrangement.level]
        if is_best or any(row.arrangement.is_called(words) for words in compared):
            other_rows.append(row)
    best = every[listed.index(rows[0])]
    rows[0] = situations.with_changes(question, rows[0], simulations)
    arrays = [sized(question, array) for array in present]
    able, _ = runnable([array for array in arrays if array.capacity], simulations)
    owned = situations.figures(question, [Candidate(of, price_of(of, question)) for of in able], simulations)
    document = simulations.cell(best.arrangement, question.loads[0]).document
    return Answer(
        question,
        rows,
        other_rows,
        owned,
        _why(question, best, simulations),
        doubts(question, [row.arrangement for row in (*rows, *other_rows)]),
        script(best.arrangement, document["stack"], paths or {}, filesystem),
        _cache(question, best.arrangement, simulations),
        options,
        result,
        len(options.fitting) * sum(ios_of(load, longest(question)) for load in question.loads),
    )


def _cache(question: Question, of: Arrangement, simulations: Simulations) -> CacheAnswer | None:
    """Returns what sizes and chunks of the cache of an arrangement do; None without a cache."""
    if "cache" not in of.top_table:
        return None
    origin = str(of.top_table.get("origin", of.top_table.get("backing")))
    disks = of.below(str(of.top_table["cache"])).disks
    fast = replace(question.disks[disks[0]], count=len(disks))
    alone = replace(of.below(origin), failures=of.failures, words=of.words.split(", behind a ")[0])
    return cache_answer(question, sized(question, alone), fast, simulations, ios=longest(question), kinds=[of.level])


def _safe_enough(question: Question, rows: Sequence[ArrangementFigures]) -> list[ArrangementFigures]:
    """Returns those that lose data less often than `Constraints.loss`, unless one before is as good in every respect.

    `rows` are in the order of preference. Raises BlklabError if there is none.
    """
    bound = question.constraints.loss or 0
    most_p99_ns = question.constraints.p99_ns
    fast = [row for row in rows if most_p99_ns is None or row.slowest_load().p99_ns <= most_p99_ns]
    safe = [row for row in fast if row.loss.any.mean <= bound]
    if safe:
        if not question.cheapest_first:
            slowest = (1 + SAME) * safe[0].slowest_load().mean_ns
            safe.sort(key=lambda row: -row.arrangement.capacity if row.slowest_load().mean_ns <= slowest else 0)
        distinct = []
        for number, row in enumerate(safe):
            if not any(_as_good(other, row) for other in safe[:number]):
                distinct.append(row)
        return distinct[:MOST_ROWS]
    best = min(fast, key=lambda row: row.loss.any.mean)
    scale = 10 ** math.floor(math.log10(best.loss.any.mean))
    relaxed = math.ceil(best.loss.any.mean / scale) * scale
    raise BlklabError(
        f"every arrangement loses data with a probability above {bound:g} in {situations.YEARS} years: "
        f"the best, {best.arrangement.words}, with {best.loss.any.mean:.2g}: "
        f"relax --loss-below to {relaxed:g}, add disks, "
        "or have disks replaced and arrays checked more often (--replaced-after, --checked-every)"
    )


def _as_good(other: ArrangementFigures, row: ArrangementFigures) -> bool:
    """Whether another is as good in every respect: differences of the mean below SAME do not count."""
    return (
        other.arrangement.capacity >= row.arrangement.capacity
        and other.arrangement.failures >= row.arrangement.failures
        and (other.price or 0) <= (row.price or 0)
        and other.slowest_load().mean_ns <= (1 + SAME) * row.slowest_load().mean_ns
    )


def _not_fitting(question: Question, options: SearchSpace, simulations: Simulations) -> list[Candidate]:
    """Returns the best arrangement of each name of `compared` of which none meets the constraints."""
    compared = []
    for words in question.constraints.compared:
        if not any(of.is_called(words) for of in options.fitting):
            compared.append(words)
    called = []
    for of in options.every:
        if any(of.is_called(words) for words in compared):
            called.append(of)
    able, messages = runnable(called, simulations)
    for words in compared:
        if not any(of.is_called(words) for of in able):
            raise UsageError(f"--compare {named(words)}: cannot run this: {messages[0]}")
    free = replace(question, constraints=Constraints(compared=compared))
    result = race(free, able, simulations) if able else None
    best = [*result.kept, *result.others] if result else []
    best_of_names = []
    for words in compared:
        best_of_names.append(next(candidate for candidate in best if candidate.arrangement.is_called(words)))
    return best_of_names


def _nothing_fits(question: Question, options: SearchSpace) -> str:
    wanted = question.constraints
    lines = relaxations(question, options.every)
    help_ = f"relax one of these: {'; '.join(lines)}" if lines else "relax several constraints, or add disks"
    needed = format_size(needed_capacity(question))
    survived = "1 failure" if wanted.failures == 1 else f"{wanted.failures} failures"
    return f"no arrangement of these disks has {needed} and survives {survived}, as asked: {help_}"


def _late(question: Question, slow: Sequence[Candidate], simulations: Simulations) -> list[Candidate]:
    """Returns those of the least slow candidates that meet the bound in full after all. Raises BlklabError for none."""
    bound = question.constraints.p99_ns or 0
    full = sorted(
        simulate_candidates(question, slow, simulations, longest(question), finalists=True), key=lambda of: of.p99_ns
    )
    if kept := [candidate for candidate in full if candidate.p99_ns <= bound]:
        return kept
    best = full[0]
    raise BlklabError(
        f"no arrangement has a 99th percentile below {format_duration(bound)}: "
        f"the best, {best.arrangement.words}, has {format_duration(best.p99_ns)}: "
        f"relax --p99-below to {_rounded_up(best.p99_ns)}"
    )


def _rounded_up(nanoseconds: float) -> str:
    """Returns a duration with two digits that is not shorter, as an option takes it."""
    scale = 10 ** (math.floor(math.log10(nanoseconds)) - 1)
    return format_duration(math.ceil(nanoseconds / scale) * scale).replace(" ", "")


def _why(question: Question, best: Candidate, simulations: Simulations) -> list[str]:
    """Returns sentences about the best arrangement under its slowest load."""
    slowest = max(range(len(question.loads)), key=lambda at: best.samples[at].p99_ns)
    load = question.loads[slowest]
    cell = simulations.cell(best.arrangement, load)
    document = document_of(cell, SampleRequest(best.arrangement, load, longest(question), question.growth))
    limit, *others = explain(cast(Cell, document), outcome(document, None, cell.replay))
    lines = [limit, *(line for line in others if line.startswith(best.arrangement.top) and "bitmap" not in line)]
    return [_in_words(line, best.arrangement) for line in lines]


def _in_words(line: str, of: Arrangement) -> str:
    """Returns a sentence with words in the place of the names of stacks."""
    for name in sorted(of.stacks, key=len, reverse=True):
        level = of.stacks[name].get("level")
        inner = f"the RAID-{level}" if level is not None else "the cache"
        line = line.replace(name, of.words if name == of.top else inner)
    return line


def doubts(question: Question, arrangements: Sequence[Arrangement]) -> list[str]:
    """Returns what the figures of arrangements depend on, in sentences."""
    doubts = []
    for pool in question.pools:
        model = pool.table.get("model")
        about = stock_models.library_model(str(model)) if model else None
        if pool.guess:
            doubts.append(f"{pool.name}: the model is a guess: {pool.guess}.")
        if about is not None and about.spread:
            doubts.append(f"{pool.name} is a typical disk: others differ by about {100 * about.spread:.0f} %.")
        if pool.kind not in {"hdd", *FLASH}:
            doubts.append(f"{pool.name}: its probability of data loss is that of an SSD; its provider may keep copies.")
        if pool.kind in FLASH and pool.table.get("state") not in {None, "fresh"}:
            doubts.append(f"{pool.name} is simulated as a used disk (state {pool.table['state']}).")
    for load in question.loads:
        if load.ios is not None and load.ios < FEW:
            ios = "1 I/O" if load.ios == 1 else f"{load.ios:,} I/Os"
            doubts.append(f"{printable(load.source)}, is short: {ios}, whose figures vary much.")
    timed = [load for load in question.loads if load.timed]
    if timed:
        doubts.append(
            f"The trace uses the first {format_size(timed[0].span)} of the array, and caches begin empty. "
            "Rotating disks are slower when the data is spread."
        )
    if any(load.span and not load.timed for load in question.loads):
        doubts.append(
            "Published mixes run as fast as the disks allow, so disks are always busy; "
            "their data is at the beginning of the array."
        )
    if any(of.kinds & {"lvmcache", "bcache"} for of in arrangements) and len(timed) < len(question.loads):
        doubts.append("With jobs, dm-cache and bcache hold at first what the jobs use, as far as it fits.")
    if any(str(table.get("layout", "")).startswith("f") for of in arrangements for table in of.stacks.values()):
        doubts.append(
            "RAID-10 far cannot be reshaped: no disk can be added later, and its chunk and layout remain. "
            "Near and offset can."
        )
    doubts.append("The space of md's and LVM's metadata is not subtracted, at most 128 MiB of each disk.")
    return doubts


MOST = 4  # Arrangements in the experiment


def as_toml(answer: Answer, plans: Mapping[str, FioPlan], most: int = MOST) -> str:
    """Returns the experiment; `plans` stand for the traces, by the load's name: the lab and hosts run fio."""
    disks: dict[str, Table] = {}
    stacks: dict[str, Table] = {}
    for number, row in enumerate(answer.rows[:most], 1):
        arrangement = row.arrangement
        # Stacks get a number, and disks of which a part is used another name: arrangements use them differently.
        names = {name: f"{name}-part" for name in arrangement.sizes}
        names |= {name: f"a{number}-{name}" for name in arrangement.stacks}
        for name, table in arrangement.devices(answer.question).items():
            disks[names.get(name, name)] = table
        for name, table in arrangement.warm().items():
            stacks[names[name]] = {key: _renamed(value, names) for key, value in table.items()}
    settings = {"runtime": "30s", **answer.question.settings, **answer.rows[0].arrangement.settings}
    workloads: dict[str, Table] = {}
    for load in answer.question.loads:
        workloads[load.name] = load.table
        if plan := plans.get(load.name):
            jobs = {job.name: _job(plan, job, answer.question.growth) for job in plan.jobs}
            workloads[load.name] = {"jobs": jobs}
    experiment = {
        "title": "Advice",
        "seed": answer.question.seed,
        "settings": settings,
        "devices": disks,
        "stacks": stacks,
        "workloads": workloads,
    }
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


def _renamed(value: object, names: Mapping[str, str]) -> object:
    if isinstance(value, list):
        return [_renamed(part, names) for part in value]
    return names.get(value, value) if isinstance(value, str) else value
