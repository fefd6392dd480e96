"""The answer to a question: what to build, how it compares, why, and what to type."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from blklab.advice import figures as situations
from blklab.advice.arrangement import Arrangement
from blklab.advice.candidates import RemovedCandidates
from blklab.advice.commands import script
from blklab.advice.figures import ArrangementFigures
from blklab.advice.question import FLASH, Question
from blklab.advice.race import Candidate, ios_of, longest, measured, price_of, race
from blklab.advice.samples import SampleRequest, Simulations, document_of
from blklab.advice.search import SearchSpace, needed_capacity, relaxations, runnable, sized, space
from blklab.analysis.explain import explain
from blklab.cluster import HERE, Parallel
from blklab.errors import BlklabError
from blklab.runners.sim.runner import outcome
from blklab.spec import stock_models
from blklab.spec.documents import SimCell
from blklab.text import printable
from blklab.units import format_duration, format_size

FEW: Final = 1_000  # I/Os of a trace below which its 99th percentile is that of fewer than ten I/Os
MOST_ROWS: Final = 8  # Arrangements in the answer


@dataclass(frozen=True)
class Answer:
    """What to build."""

    question: Question
    rows: Sequence[ArrangementFigures]  # The best first; none is better than another in every respect
    present: Sequence[ArrangementFigures]  # Arrays that the user has
    why: Sequence[str]  # What limits the best, in sentences
    doubts: Sequence[str]  # What the figures depend on
    script: Sequence[str]  # What to type
    candidates: int  # Arrangements that were considered
    removed: Sequence[RemovedCandidates]  # Those that needed no simulation
    fitting: int  # Those that were simulated
    fully_simulated: int
    simulated_ios: int
    full_ios: int  # I/Os that simulating all of them in full would have taken


def advise(
    question: Question,
    file: Path | None = None,
    parallel: Parallel = HERE,
    paths: Mapping[str, str] | None = None,
    present: Sequence[Arrangement] = (),
    filesystem: str = "ext4",
    tick: Callable[[int, int], object] = lambda _done, _total: None,
) -> Answer:
    """Searches the arrangements and returns the answer.

    `paths` are those of known disks, by name; `present` are arrays that the user has, to compare with. Raises
    BlklabError if no arrangement meets the constraints, with the constraint to relax.
    """
    simulations = Simulations(question, file, parallel)
    options = space(question, simulations)
    if not options.fitting:
        raise BlklabError(_nothing_fits(question, options))
    result = race(question, options.fitting, simulations, tick)
    kept = result.kept or _late(question, result.too_slow[:MOST_ROWS], simulations)
    ordered = _ordered(question, kept)[:MOST_ROWS]
    best = situations.tuned(question, ordered[0], simulations)
    rows = [situations.figures(question, candidate, simulations) for candidate in [best, *ordered[1:]]]
    rows[0] = situations.with_changes(question, rows[0], simulations)
    have, _ = runnable([of for each in present if (of := sized(question, each)).capacity], simulations)
    owned = [situations.figures(question, Candidate(of, price_of(of, question)), simulations) for of in have]
    document = simulations.cell(best.arrangement, question.loads[0]).document
    return Answer(
        question,
        rows,
        owned,
        _why(question, best, simulations),
        _doubts(question, rows),
        script(best.arrangement, document["stack"], paths or {}, filesystem),
        len(options.fitting) + sum(removed.count for removed in options.removed),
        options.removed,
        len(options.fitting),
        result.fully_simulated,
        result.simulated_ios,
        len(options.fitting) * sum(ios_of(load, longest(question)) for load in question.loads),
    )


def _ordered(question: Question, kept: Sequence[Candidate]) -> list[Candidate]:
    """Returns candidates in the order of the answer: with a bound and prices, the cheapest first."""
    if question.constraints.p99_ns is not None and question.priced:
        return sorted(kept, key=lambda candidate: candidate.price or 0)
    return list(kept)


def _nothing_fits(question: Question, options: SearchSpace) -> str:
    wanted = question.constraints
    lines = relaxations(question, options.every)
    help_ = f"relax one of these: {'; '.join(lines)}" if lines else "relax several constraints, or add disks"
    needed = format_size(needed_capacity(question))
    survived = f"{wanted.failures} failure{'s' * (wanted.failures != 1)}"
    return f"no arrangement of these disks has {needed} and survives {survived}, as asked: {help_}"


def _late(question: Question, slow: Sequence[Candidate], simulations: Simulations) -> list[Candidate]:
    """Returns those of the least slow candidates that meet the bound in full after all. Raises BlklabError for none."""
    bound = question.constraints.p99_ns or 0
    full = sorted(measured(question, slow, simulations, longest(question)), key=lambda candidate: candidate.p99_ns)
    if kept := [candidate for candidate in full if candidate.p99_ns <= bound]:
        return kept
    best = full[0]
    raise BlklabError(
        f"no arrangement has a 99th percentile below {format_duration(bound)}: the best, {best.arrangement.words}, has"
        f" {format_duration(best.p99_ns)}: relax --p99-below to {_rounded_up(best.p99_ns)}"
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
    limit, *others = explain(cast(SimCell, document), outcome(document, None, cell.replay))
    lines = [limit, *(line for line in others if line.startswith(best.arrangement.top) and "bitmap" not in line)]
    return [_in_words(line, best.arrangement) for line in lines]


def _in_words(line: str, of: Arrangement) -> str:
    """Returns a sentence with words in the place of the names of stacks."""
    for name in sorted(of.stacks, key=len, reverse=True):
        level = of.stacks[name].get("level")
        inner = f"the RAID-{level}" if level is not None else "the cache"
        line = line.replace(name, of.words if name == of.top else inner)
    return line


def _doubts(question: Question, rows: Sequence[ArrangementFigures]) -> list[str]:
    """Returns what the figures depend on."""
    doubts = []
    for pool in question.pools:
        model = pool.table.get("model")
        about = stock_models.library_model(str(model)) if model else None
        if pool.guess:
            doubts.append(f"{pool.name}: the model is a guess: {pool.guess}.")
        if about is not None and about.spread:
            doubts.append(f"{pool.name} is a typical disk: others differ by about {about.spread:.0%}.")
        if pool.kind in FLASH and pool.table.get("state") not in {None, "fresh"}:
            doubts.append(f"{pool.name} is simulated as a used disk (state {pool.table['state']}).")
    doubts += [
        f"{printable(load.source)}, is short: {load.ios:,} I/O{'s' * (load.ios != 1)}, whose figures vary much."
        for load in question.loads
        if load.ios is not None and load.ios < FEW
    ]
    for load in question.loads:
        if load.timed:
            doubts.append(
                f"The trace uses the first {format_size(load.span)} of the array, and caches begin empty. Rotating"
                " disks are slower when the data is spread."
            )
            break
    if any(load.span and not load.timed for load in question.loads):
        doubts.append("The data of published mixes is at the beginning of the array.")
    cached = any(row.arrangement.kinds & {"lvmcache", "bcache"} for row in rows)
    if cached and any(not load.timed for load in question.loads):
        doubts.append("With jobs, dm-cache and bcache hold at first what the jobs use, as far as it fits.")
    doubts.append("The space of md's and LVM's metadata is not subtracted, at most 128 MiB of each disk.")
    return doubts
