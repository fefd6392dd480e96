"""Finds the arrangements that meet the constraints, and searches them."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from blklab import _core
from blklab.advice.arrangement import Arrangement
from blklab.advice.candidates import CACHE_WORDS, CACHES, LAYOUTS, RemovedCandidates, candidates
from blklab.advice.question import Constraints, Load, Question
from blklab.advice.race import price_of
from blklab.advice.samples import SampleRequest, Simulations
from blklab.errors import UsageError
from blklab.runners.load_ramp import without_ramp
from blklab.spec import load, problems, stack, stack_resolution
from blklab.spec.problems import SpecProblems
from blklab.units import format_size

LEVELS = tuple(sorted(stack.LEVELS, key=lambda word: (len(word), word)))
PROBE_IOS = 2_000  # Random reads that tell how fast one disk is


@dataclass(frozen=True)
class SearchSpace:
    """Arrangements that meet the constraints, and how many do not."""

    fitting: Sequence[Arrangement]
    every: Sequence[Arrangement]
    removed: Sequence[RemovedCandidates]

    @property
    def considered(self) -> int:
        return len(self.fitting) + sum(removed.count for removed in self.removed)


def excluded_kinds(texts: Sequence[str]) -> list[str]:
    """Returns the levels and kinds of `raid-10,dm-cache`, as arrangements have them. Raises UsageError."""
    known = [*LEVELS, *CACHE_WORDS, *(mode for _, keys, _ in CACHES for mode in keys.values())]
    kinds = []
    for text in texts:
        for part in text.split(","):
            word = part.strip().lower()
            kinds += words_of(word)
            if word and kinds[-1] not in known:
                nearest = problems.near(word, dict.fromkeys(known))
                raise UsageError(f"--exclude {word!r}: no such level or kind; {nearest}")
    return kinds


def named(words: Sequence[str]) -> str:
    """Returns words of an arrangement as people write them."""
    return ",".join(f"raid{word}" if word.isdigit() else CACHE_WORDS.get(word, word) for word in words) or "''"


def words_of(text: str) -> list[str]:
    """Returns the words of `raid-10,f2,dm-cache`, as arrangements have them."""
    printed = {words: kind for kind, words in CACHE_WORDS.items()}
    printed |= {words: f"{letter}2" for letter, words in LAYOUTS.items()}
    parts: list[str] = []
    for part in text.split(","):
        word = part.strip().lower()
        if word:
            parts += re.sub(r"^raid[- ]?([56])0$", r"raid0,raid\1", word).split(",")  # RAID-50 and RAID-60
    return [printed.get(word, re.sub(r"^raid[- ]?(?=\d)", "", word)) for word in parts]


def space(question: Question, simulations: Simulations) -> SearchSpace:
    """Returns the arrangements to simulate. Raises UsageError for disks that no array takes."""
    every, removed = candidates(question, random_reads(question, simulations))
    every = [sized(question, arrangement) for arrangement in every]
    every = [arrangement for arrangement in every if arrangement.capacity]
    for words in question.constraints.compared:
        if not any(arrangement.is_called(words) for arrangement in every):
            known = "levels, a layout, a chunk or a kind, such as raid10,f2 or raid5,64k or raid0,raid5 or bcache"
            raise UsageError(f"--compare {named(words)}: no arrangement of these disks is one; expected {known}")
    fitting = every
    for reason, meets in requirements(question):
        left = [arrangement for arrangement in fitting if meets(arrangement)]
        if len(left) < len(fitting):
            removed = [*removed, RemovedCandidates(len(fitting) - len(left), reason)]
        fitting = left
    alone = [arrangement for arrangement in fitting if "linear" not in arrangement.kinds]
    chosen, messages = runnable(alone, simulations)
    if chosen and len(alone) < len(fitting):
        reason = "are volumes over two arrays, and one array is large enough"
        removed = [*removed, RemovedCandidates(len(fitting) - len(alone), reason)]
    elif not chosen:
        volumes = [arrangement for arrangement in fitting if "linear" in arrangement.kinds]
        chosen, others = runnable(volumes, simulations)
        messages = [*messages, *others]
    if messages:
        if not chosen:
            raise UsageError(f"no arrangement that meets the constraints can run this: {messages[0]}")
        removed = [*removed, RemovedCandidates(len(messages), "cannot run this load, or not with this kernel")]
    return SearchSpace(chosen, every, removed)


def runnable(arrangements: Sequence[Arrangement], simulations: Simulations) -> tuple[list[Arrangement], list[str]]:
    """Returns the arrangements that can run all loads, and why each of the others cannot."""

    def check(arrangement: Arrangement, /, *, stop: _core.Stop | None = None) -> None:  # noqa: ARG001
        for each in simulations.question.loads:
            document = json.dumps(without_ramp(simulations.cell(arrangement, each).document))
            # What a cache holds is no obstacle, and takes long to prepare.
            _core.check_cell(document.replace('"state": "warm"', '"state": "empty"'))

    failures = {
        number: error for number, error in simulations.here.each(check, arrangements) if isinstance(error, UsageError)
    }
    # No such file is written.
    messages = [str(failures[number]).rpartition("advice.toml: ")[2] for number in sorted(failures)]
    return [arrangement for number, arrangement in enumerate(arrangements) if number not in failures], messages


def requirements(question: Question) -> Iterator[tuple[str, Callable[[Arrangement], bool]]]:
    """Yields each constraint in words, and whether an arrangement meets it."""
    wanted = question.constraints
    needed = needed_capacity(question)
    failed = "a disk fails" if wanted.failures == 1 else f"{wanted.failures} disks fail"
    yield f"lose data if {failed}", lambda of: of.failures >= wanted.failures
    yield f"are smaller than {format_size(needed)}", lambda of: of.capacity >= needed
    if wanted.drives is not None:
        drives = wanted.drives
        most = "1 disk" if drives == 1 else f"{drives} disks"
        yield f"need more than {most}", lambda of: len(of.disks) + len(of.spares) <= drives
    if wanted.budget is not None:
        budget = wanted.budget
        yield f"cost more than {budget:g}", lambda of: (price_of(of, question) or 0) <= budget
    if wanted.excluded:
        yield "are excluded", lambda of: not of.kinds & set(wanted.excluded)


def needed_capacity(question: Question) -> int:
    """Returns the bytes that an arrangement must have: those asked for, and the end of each trace."""
    return max(question.constraints.capacity, *(load.span for load in question.loads))


def relaxations(question: Question, every: Sequence[Arrangement]) -> list[str]:
    """Says, if nothing fits, which single constraint to relax, and by how much."""
    wanted = question.constraints
    needed = needed_capacity(question)
    lines = []
    for name, relaxed in _without_each(wanted):
        tests = [meets for _, meets in requirements(replace(question, constraints=relaxed))]
        left = list(every)
        for meets in tests:
            left = [of for of in left if meets(of)]
        if not left:
            continue
        if name == "failures":
            lines.append(f"--failures {max(of.failures for of in left)}")
        elif name == "capacity":
            most = max(of.capacity for of in left)
            if most >= max(load.span for load in question.loads):
                lines.append(f"--capacity {_rounded_down(most)} (instead of {format_size(needed)})")
        elif name == "drives":
            lines.append(f"--drives {min(len(of.disks) + len(of.spares) for of in left)}")
        elif name == "budget":
            lines.append(f"--budget {min(price_of(of, question) or 0 for of in left):g}")
        else:
            kinds = {kind for of in left for kind in of.kinds}
            lines.append(f"no --exclude {' or '.join(sorted(kinds & set(wanted.excluded)))}")
    return lines


def _rounded_down(size: int) -> str:
    """Returns a size that is not larger, as an option takes it."""
    for at, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB")):
        if size >> at >= 100 or size >> at << at == size:
            return f"{size >> at}{unit}"
    return str(size)


def _without_each(wanted: Constraints) -> Iterator[tuple[str, Constraints]]:
    without = {
        "failures": replace(wanted, failures=0),
        "capacity": replace(wanted, capacity=0),
        "drives": replace(wanted, drives=None),
        "budget": replace(wanted, budget=None),
        "excluded": replace(wanted, excluded=wanted.excluded[:0]),
    }
    yield from ((name, other) for name, other in without.items() if name == "capacity" or other != wanted)


def sized(question: Question, arrangement: Arrangement) -> Arrangement:
    """Returns the arrangement with its capacity; 0 if it cannot be built."""
    source = arrangement.experiment(question, {"any": {"rw": "read"}})
    try:
        experiment = load.checked(source, source.raw)
        return replace(arrangement, capacity=stack_resolution.build(experiment, arrangement.top).capacity)
    except SpecProblems:
        return arrangement


def random_reads(question: Question, simulations: Simulations) -> dict[str, float]:
    """Returns the random reads per second of one disk of each pool: 4 KiB, 8 in flight."""
    probe = Load("probe", {"rw": "randread", "bs": "4k", "iodepth": 8}, "")
    requests = []
    for pool in question.pools:
        single = Arrangement(pool.name, pool.name, {pool.name: {"device": pool.disk(1)}}, [pool.disk(1)], 0)
        requests.append(SampleRequest(single, probe, PROBE_IOS))
    return {pool.name: sample.iops for pool, sample in zip(question.pools, simulations.run(requests), strict=True)}
