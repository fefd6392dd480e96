"""The search: short simulations of all arrangements first, longer ones of those that remain.

Successive halving (Jamieson and Talwalkar, AISTATS 2016) within classes of equal names, capacity, redundancy and price,
with paired comparisons: an arrangement leaves when another of its class is surely faster. The rounds have one seed, and
together at most a tenth of the I/Os of simulating all in full, except that the first round is always simulated, with at
least `SHORTEST` I/Os. Then the best of each name, and those that may be better than all others in any respect, are
simulated in full with several seeds, whose mean decides.

Arrangements come in the order of preference: of equal ones, the first is chosen. Candidates are compared by identity
(`id`), since two arrangements may be equal; the lists here keep them alive.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from blklab.advise.arrangement import Arrangement
from blklab.advise.question import Question
from blklab.advise.samples import Sample, SampleRequest, Simulations, difference, ios_of
from blklab.grouping import by_key

ROUNDS = (64, 16, 4)  # What part of the longest simulation each round has
EXPECTED_FINALISTS = 16  # About how many are simulated in full: for the display of progress only
EXPECTED_RUNS_OF_EACH = 15  # Their simulations, with those of all figures: for the display of progress only
SEARCH_SHARE = 0.09  # Most I/Os of the rounds, as a share of those of simulating all in full; each ends a little later
LONGEST = 65_536  # I/Os of the longest simulation
SHORTEST = 256  # I/Os of the shortest
SAME = 0.05  # Differences of latency (of logarithms) that are no reason to choose
KEPT_PART = 3  # A round keeps at most one of so many members of each class, and the preferred one


class Slowdown(NamedTuple):
    """The difference of two candidates' latencies, as logarithms: positive if the first one is slower."""

    log: float
    half: float  # Half of the width of its interval

    @property
    def at_least(self) -> float:
        """The lower end of the interval."""
        return self.log - self.half


@dataclass(frozen=True)
class Candidate:
    """An arrangement with its samples, one for each load, by the I/Os of the simulation."""

    arrangement: Arrangement
    price: float | None
    names: frozenset[str] = frozenset()  # Its level, and what the user calls it in `Constraints`
    by_length: Mapping[int, Sequence[Sample]] = field(default_factory=dict)

    @property
    def samples(self) -> Sequence[Sample]:
        return self.by_length[max(self.by_length)]

    @property
    def is_known(self) -> bool:
        """Whether the figures of all loads are known."""
        return all(sample.is_known for sample in self.samples)

    @property
    def p99_ns(self) -> float:
        """The largest 99th percentile of all loads."""
        return max(sample.p99_ns for sample in self.samples)

    def mean_ns(self, weights: Sequence[float]) -> float:
        """Returns the geometric mean of the loads' mean latencies, ns."""
        pairs = zip(weights, self.samples, strict=True)
        logs = (weight * math.log(max(1.0, sample.mean_ns)) for weight, sample in pairs)
        return math.exp(sum(logs) / sum(weights))

    def slowdown(self, other: "Candidate", weights: Sequence[float]) -> "Slowdown":
        """Returns how much slower it is than another candidate, at the largest length that both have."""
        length = max(self.by_length.keys() & other.by_length.keys())
        return Slowdown(*difference(self.by_length[length], other.by_length[length], weights))

    def at_least_as_good(self, other: "Candidate") -> bool:
        """Whether it is as good as another in every respect except speed."""
        return (
            self.arrangement.capacity >= 0.99 * other.arrangement.capacity
            and self.arrangement.failures >= other.arrangement.failures
            and (self.price or 0) <= (other.price or 0)
        )


@dataclass(frozen=True)
class RaceResult:
    """What remains of the candidates."""

    kept: Sequence[Candidate]
    """None is better than another in every respect; the fastest first. Empty if all are above the bound."""
    others: Sequence[Candidate]  # The best of each name that `kept` does not have; the fastest first
    fully_simulated: int
    simulated_ios: int  # In the rounds
    too_slow: Sequence[Candidate]
    """Above the bound of the 99th percentile; the best first. `others` may be above it as well: they are shown for
    comparison."""


def price_of(arrangement: Arrangement, question: Question) -> float | None:
    """Returns the price of the disks, None if any is unknown."""
    pools = question.disks
    used = [pools[name].price for name in (*arrangement.disks, *arrangement.spares)]
    return None if None in used else sum(price or 0 for price in used)


def longest(question: Question) -> int:
    """Returns the I/Os of the longest simulation, of the load that has the most."""
    return max(ios_of(load, LONGEST) for load in question.loads)


def race(
    question: Question,
    arrangements: Sequence[Arrangement],
    simulations: Simulations,
    rounds: Sequence[int] = ROUNDS,
    show_first: Callable[[Arrangement], object] | None = None,
) -> RaceResult:
    """Returns the best arrangements. With `rounds` of (1,) every arrangement is simulated at full length.

    `show_first` gets the fastest arrangement of the first round.
    """
    full = longest(question)
    before = simulations.simulated_ios
    weights = [load.weight for load in question.loads]
    alive = [_make_candidate(arrangement, question) for arrangement in arrangements]
    ios_of_each = sum(ios_of(load, full) for load in question.loads)
    search_limit = int(SEARCH_SHARE * ios_of_each * len(alive))
    finalist_ios = EXPECTED_RUNS_OF_EACH * ios_of_each * min(EXPECTED_FINALISTS, len(alive))
    simulations.expected_ios = before + search_limit + finalist_ios
    too_slow: list[Candidate] = []
    lengths = sorted({min(full, max(SHORTEST, full // part)) for part in rounds})
    for former_length, length in pairwise([0, *lengths]):
        if former_length == 0:
            undecided = alive
            ios = length  # The first round is simulated in any case
        else:
            # Once all were simulated, only those that could still win or lose are simulated for longer. They share
            # what is left of the I/Os for the search.
            undecided = _list_undecided(question, alive, weights)
            ios_left = search_limit - (simulations.simulated_ios - before)
            ios = min(length, ios_left // max(1, len(undecided) * len(weights)))
        if ios <= former_length:
            break
        longer = simulate_candidates(question, undecided, simulations, ios)
        by_id = {id(old): new for old, new in zip(undecided, longer, strict=True)}
        alive = [by_id.get(id(candidate), candidate) for candidate in alive]
        alive, slow = _split_by_bound(question, alive, final=False)
        too_slow += slow
        if show_first is not None and former_length == 0 and alive:
            show_first(_by_speed(alive, weights)[0].arrangement)
        # Short simulations are mostly their beginning: they compare only arrangements of the same class.
        best: list[Candidate] = []
        for members in _classes(alive):
            best += undominated(members, weights)
        alive = _best_of_each_class(best, weights)
    searched = simulations.simulated_ios - before
    alive = simulate_candidates(question, _finalists(alive, weights), simulations, full, finalists=True)
    fast, slow = _split_by_bound(question, alive, final=True)
    too_slow = sorted([*too_slow, *slow], key=lambda candidate: candidate.p99_ns)
    preferred = undominated([_preferred(members, weights) for members in _classes(fast, of_level=False)], weights)
    # `undominated` removes those that are surely slower. Now the means of several seeds decide.
    best = [candidate for candidate in preferred if not _is_beaten(candidate, preferred)]
    best_names = {name for candidate in best for name in candidate.names}
    others = [_preferred(members, weights) for name, members in _by_name(alive).items() if name not in best_names]
    best.sort(key=lambda candidate: candidate.mean_ns(weights))
    others.sort(key=lambda candidate: candidate.mean_ns(weights))
    distinct_others = {id(candidate): candidate for candidate in others}
    return RaceResult(best, list(distinct_others.values()), len(alive), searched, too_slow)


def _make_candidate(arrangement: Arrangement, question: Question) -> Candidate:
    names = [",".join(words) for words in question.constraints.comparisons if arrangement.is_called(words)]
    name = arrangement.level
    is_cache = "kind" in arrangement.top_table
    if question.constraints.loss is not None and not is_cache:
        # Layouts and spares lose data more or less often: the limit decides between them later.
        layouts = [str(table["layout"]) for table in arrangement.stacks.values() if "layout" in table]
        name = " ".join([name, *layouts, *["spare"] * len(arrangement.spares)])
    return Candidate(arrangement, price_of(arrangement, question), frozenset([name, *names]))


def _by_name(candidates: Sequence[Candidate]) -> dict[str, list[Candidate]]:
    return by_key((name, candidate) for candidate in candidates for name in sorted(candidate.names))


def _finalists(candidates: Sequence[Candidate], weights: Sequence[float]) -> list[Candidate]:
    """Returns the fastest and the preferred one of each name, and of each class of those that may be the best."""
    classes = _classes(undominated(candidates, weights), of_level=False)
    groups = [*_by_name(candidates).values(), *classes]
    finalists = set()
    for members in groups:
        finalists.add(id(_by_speed(members, weights)[0]))
        finalists.add(id(_preferred(members, weights)))
    return [candidate for candidate in candidates if id(candidate) in finalists]


def simulate_candidates(
    question: Question, candidates: Sequence[Candidate], simulations: Simulations, ios: int, *, finalists: bool = False
) -> list[Candidate]:
    """Simulates candidates under all loads, finalists with several seeds."""
    requests = []
    for candidate in candidates:
        requests += [SampleRequest(candidate.arrangement, load, ios, question.growth) for load in question.loads]
    samples = simulations.averages(requests) if finalists else simulations.run(requests)
    size = len(question.loads)
    simulated = []
    for number, candidate in enumerate(candidates):
        samples_of_candidate = samples[number * size : (number + 1) * size]
        simulated.append(replace(candidate, by_length={**candidate.by_length, ios: samples_of_candidate}))
    return simulated


def _list_undecided(question: Question, candidates: Sequence[Candidate], weights: Sequence[float]) -> list[Candidate]:
    """Returns the candidates that need longer simulations.

    Those of classes with several members, those that might be the fastest of all, and with a bound, all.
    """
    if question.constraints.p99_ns is not None or not candidates:
        return list(candidates)
    fastest, *others = _by_speed(candidates, weights)
    undecided = {id(other) for other in others if other.slowdown(fastest, weights).at_least <= SAME}
    if undecided:
        undecided.add(id(fastest))
    for members in _classes(candidates):
        if len(members) > 1:
            undecided |= {id(member) for member in members}
    return [candidate for candidate in candidates if id(candidate) in undecided]


def _beats(other: Candidate, candidate: Candidate) -> bool:
    """Whether another is better in one respect, and not worse in any; both were simulated in full.

    All loads count the same here: the weights say which candidate is best, and this only removes one.
    """
    equal_weights = [1.0] * len(candidate.samples)
    better = other.at_least_as_good(candidate) and not candidate.at_least_as_good(other)
    return better and other.mean_ns(equal_weights) <= candidate.mean_ns(equal_weights)


def _is_beaten(candidate: Candidate, others: Sequence[Candidate]) -> bool:
    return any(_beats(other, candidate) for other in others)


def _split_by_bound(
    question: Question, candidates: Sequence[Candidate], *, final: bool
) -> tuple[list[Candidate], list[Candidate]]:
    """Splits candidates by the bound of the 99th percentile; short simulations may exceed it by half."""
    bound = question.constraints.p99_ns
    if bound is None:
        limit = math.inf
    elif final:
        limit = bound
    else:
        limit = 1.5 * bound
    fast = [candidate for candidate in candidates if candidate.p99_ns <= limit]
    return fast, [candidate for candidate in candidates if candidate.p99_ns > limit]


def undominated(candidates: Sequence[Candidate], weights: Sequence[float]) -> list[Candidate]:
    """Returns candidates for which no other is surely faster, or as fast and preferred, and as good otherwise."""
    remaining = []
    for index, candidate in enumerate(candidates):
        for other_index, other in enumerate(candidates):
            if other is candidate or not other.at_least_as_good(candidate):
                continue
            slowdown = candidate.slowdown(other, weights)
            is_surely_slower = slowdown.at_least > 0 and slowdown.log > SAME
            is_equal = abs(slowdown.log) + slowdown.half < SAME
            is_other_preferred = other_index < index or not candidate.at_least_as_good(other)
            if is_surely_slower or (is_equal and is_other_preferred):
                break
        else:
            remaining.append(candidate)
    return remaining


def _classes(candidates: Sequence[Candidate], *, of_level: bool = True) -> list[list[Candidate]]:
    """Returns candidates in classes of equal capacity (to 1 %), redundancy and price, and of equal names."""

    def key(candidate: Candidate) -> tuple[object, ...]:
        names = candidate.names if of_level else None
        capacity = round(100 * math.log(max(1, candidate.arrangement.capacity)))
        return (names, capacity, candidate.arrangement.failures, candidate.price)

    return list(by_key((key(candidate), candidate) for candidate in candidates).values())


def _by_speed(members: Sequence[Candidate], weights: Sequence[float]) -> list[Candidate]:
    """Sorts candidates, the fastest first, by their paired differences to one of them."""
    return sorted(members, key=lambda candidate: candidate.slowdown(members[0], weights).log)


def _preferred(members: Sequence[Candidate], weights: Sequence[float]) -> Candidate:
    """Returns the first member of a class that is about as fast as the fastest."""
    fastest = _by_speed(members, weights)[0]
    for candidate in members:
        if candidate.slowdown(fastest, weights).log <= SAME:
            return candidate
    return fastest


def _best_of_each_class(candidates: Sequence[Candidate], weights: Sequence[float]) -> list[Candidate]:
    """Returns, of each class, those that may be the fastest, at most a third, and the preferred one."""
    best = set()
    for members in _classes(candidates):
        fastest, *others = _by_speed(members, weights)
        best.add(id(fastest))
        close = [other for other in others if other.slowdown(fastest, weights).at_least <= 0]
        most_of_class = math.ceil(len(members) / KEPT_PART)
        best |= {id(candidate) for candidate in close[: most_of_class - 1]}
        # The first one that may be as fast as the fastest: short simulations are less certain than in `_preferred`.
        for candidate in members:
            if candidate is fastest or candidate.slowdown(fastest, weights).at_least <= SAME:
                best.add(id(candidate))
                break
    return [candidate for candidate in candidates if id(candidate) in best]
