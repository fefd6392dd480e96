"""Finds the arrangements that meet the constraints, and searches them."""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from blklab import _core
from blklab.advise.arrangement import Arrangement
from blklab.advise.candidates import CACHE_WORDS, CACHES, LAYOUTS, RemovedCandidates, candidates
from blklab.advise.question import Constraints, Load, Question
from blklab.advise.race import price_of
from blklab.advise.samples import SampleRequest, Simulations
from blklab.errors import UsageError
from blklab.experiment import load, stack, stack_resolution
from blklab.runners.load_ramp import without_ramp
from blklab.toml_files import problems
from blklab.toml_files.problems import SpecProblems
from blklab.units import format_size

LEVELS = tuple(sorted(stack.LEVELS, key=lambda word: (len(word), word)))
PROBE_IOS = 2_000  # Random reads that tell how fast one disk is


@dataclass(frozen=True)
class SearchSpace:
    """Arrangements that meet the constraints, and how many do not."""

    fitting: Sequence[Arrangement]
    arrangements: Sequence[Arrangement]
    removals: Sequence[RemovedCandidates]

    @property
    def considered(self) -> int:
        return len(self.fitting) + sum(group.count for group in self.removals)


def parse_excluded_kinds(texts: Sequence[str]) -> list[str]:
    """Returns the levels and kinds of `raid-10,dm-cache`, as arrangements have them. Raises UsageError."""
    known_kinds = [*LEVELS, *CACHE_WORDS, *(mode for _, keys, _ in CACHES for mode in keys.values())]
    kinds = []
    for text in texts:
        for part in text.split(","):
            word = part.strip().lower()
            kinds += parse_keywords(word)
            if word and kinds[-1] not in known_kinds:
                nearest = problems.near(word, dict.fromkeys(known_kinds))
                raise UsageError(f"--exclude {word!r}: no such level or kind; {nearest}")
    return kinds


def format_keywords(keywords: Sequence[str]) -> str:
    """Returns words of an arrangement as people write them."""
    return (
        ",".join(f"raid{keyword}" if keyword.isdigit() else CACHE_WORDS.get(keyword, keyword) for keyword in keywords)
        or "''"
    )


def parse_keywords(text: str) -> list[str]:
    """Returns the words of `raid-10,f2,dm-cache`, as arrangements have them."""
    kinds_by_name = {name: kind for kind, name in CACHE_WORDS.items()}
    kinds_by_name |= {name: f"{letter}2" for letter, name in LAYOUTS.items()}
    parts: list[str] = []
    for part in text.split(","):
        keyword = part.strip().lower()
        if keyword:
            parts += re.sub(r"^raid[- ]?([56])0$", r"raid0,raid\1", keyword).split(",")  # RAID-50 and RAID-60
    return [kinds_by_name.get(keyword, re.sub(r"^raid[- ]?(?=\d)", "", keyword)) for keyword in parts]


def space(question: Question, simulations: Simulations) -> SearchSpace:
    """Returns the arrangements to simulate. Raises UsageError for disks that no array takes."""
    arrangements, removals = candidates(question, random_reads(question, simulations))
    arrangements = [add_capacity(question, arrangement) for arrangement in arrangements]
    arrangements = [arrangement for arrangement in arrangements if arrangement.capacity]
    for keywords in question.constraints.comparisons:
        if not any(arrangement.is_called(keywords) for arrangement in arrangements):
            examples = "levels, a layout, a chunk or a kind, such as raid10,f2 or raid5,64k or raid0,raid5 or bcache"
            raise UsageError(
                f"--compare {format_keywords(keywords)}: no arrangement of these disks is one; expected {examples}"
            )
    fitting = arrangements
    for reason, meets in requirements(question):
        remaining = [arrangement for arrangement in fitting if meets(arrangement)]
        if len(remaining) < len(fitting):
            removals = [*removals, RemovedCandidates(len(fitting) - len(remaining), reason)]
        fitting = remaining
    arrays = [arrangement for arrangement in fitting if "linear" not in arrangement.kinds]
    runnable_arrangements, messages = select_runnable(arrays, simulations)
    if runnable_arrangements and len(arrays) < len(fitting):
        reason = "are volumes over two arrays, and one array is large enough"
        removals = [*removals, RemovedCandidates(len(fitting) - len(arrays), reason)]
    elif not runnable_arrangements:
        volumes = [arrangement for arrangement in fitting if "linear" in arrangement.kinds]
        runnable_arrangements, other_messages = select_runnable(volumes, simulations)
        messages = [*messages, *other_messages]
    if messages:
        if not runnable_arrangements:
            raise UsageError(f"no arrangement that meets the constraints can run this: {messages[0]}")
        removals = [*removals, RemovedCandidates(len(messages), "cannot run this load, or not with this kernel")]
    return SearchSpace(runnable_arrangements, arrangements, removals)


def select_runnable(
    arrangements: Sequence[Arrangement], simulations: Simulations
) -> tuple[list[Arrangement], list[str]]:
    """Returns the arrangements that can run all loads, and why each of the others cannot."""

    def check(arrangement: Arrangement, /, *, stop: _core.Stop | None = None) -> None:  # noqa: ARG001
        for workload in simulations.question.loads:
            document = json.dumps(without_ramp(simulations.cell(arrangement, workload).document))
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
    constraints = question.constraints
    capacity = required_capacity(question)
    failures_text = "a disk fails" if constraints.failures == 1 else f"{constraints.failures} disks fail"
    yield f"lose data if {failures_text}", lambda arrangement: arrangement.failures >= constraints.failures
    yield f"are smaller than {format_size(capacity)}", lambda arrangement: arrangement.capacity >= capacity
    if constraints.drives is not None:
        drives = constraints.drives
        disks_text = "1 disk" if drives == 1 else f"{drives} disks"
        yield (
            f"need more than {disks_text}",
            lambda arrangement: len(arrangement.disks) + len(arrangement.spares) <= drives,
        )
    if constraints.budget is not None:
        budget = constraints.budget
        yield f"cost more than {budget:g}", lambda arrangement: (price_of(arrangement, question) or 0) <= budget
    if constraints.excluded_kinds:
        yield "are excluded", lambda arrangement: not arrangement.kinds & set(constraints.excluded_kinds)


def required_capacity(question: Question) -> int:
    """Returns the bytes that an arrangement must have: those asked for, the end of each trace, and all other data."""
    return max(question.constraints.capacity, required_span(question))


def required_span(question: Question) -> int:
    """Returns the bytes that the loads use: traces may be of the same volume, other loads have separate data."""
    ends = [load.span for load in question.loads if load.timed]
    sizes = []
    for workload in question.loads:
        if not workload.timed:
            sizes.append(math.ceil(workload.span * question.growth) if workload.grows else workload.span)
    return max(max(ends, default=0), sum(sizes))


def relaxations(question: Question, arrangements: Sequence[Arrangement]) -> list[str]:
    """Says, if nothing fits, which single constraint to relax, and by how much."""
    constraints = question.constraints
    capacity = required_capacity(question)
    lines = []
    for name, relaxed_constraints in _relax_each(constraints):
        tests = [meets for _, meets in requirements(replace(question, constraints=relaxed_constraints))]
        remaining = list(arrangements)
        for meets in tests:
            remaining = [arrangement for arrangement in remaining if meets(arrangement)]
        if not remaining:
            continue
        if name == "failures":
            lines.append(f"--failures {max(arrangement.failures for arrangement in remaining)}")
        elif name == "capacity":
            max_capacity = max(arrangement.capacity for arrangement in remaining)
            if max_capacity >= required_span(question):
                lines.append(f"--capacity {_round_down(max_capacity)} (instead of {format_size(capacity)})")
        elif name == "drives":
            lines.append(
                f"--drives {min(len(arrangement.disks) + len(arrangement.spares) for arrangement in remaining)}"
            )
        elif name == "budget":
            lines.append(f"--budget {min(price_of(arrangement, question) or 0 for arrangement in remaining):g}")
        else:
            kinds = {kind for arrangement in remaining for kind in arrangement.kinds}
            lines.append(f"no --exclude {' or '.join(sorted(kinds & set(constraints.excluded_kinds)))}")
    return lines


def _round_down(size: int) -> str:
    """Returns a size that is not larger, as an option takes it."""
    for shift, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB")):
        if size >> shift >= 100 or size >> shift << shift == size:
            return f"{size >> shift}{unit}"
    return str(size)


def _relax_each(constraints: Constraints) -> Iterator[tuple[str, Constraints]]:
    without = {
        "failures": replace(constraints, failures=0),
        "capacity": replace(constraints, capacity=0),
        "drives": replace(constraints, drives=None),
        "budget": replace(constraints, budget=None),
        "excluded": replace(constraints, excluded_kinds=constraints.excluded_kinds[:0]),
    }
    yield from ((name, other) for name, other in without.items() if name == "capacity" or other != constraints)


def add_capacity(question: Question, arrangement: Arrangement) -> Arrangement:
    """Returns the arrangement with its capacity; 0 if it cannot be built."""
    source = arrangement.experiment(question, {"any": {"rw": "read"}})
    try:
        experiment = load.check_experiment(source, source.raw)
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
