"""Places several loads on the disks: flash for what waits for single I/Os, rotating disks for what needs room.

Loads on disks of their own do not disturb each other, and each of the two arrays is searched on its own. All disks are
one question, as before, if the loads do not fit so, or if the user limits the number or the price of disks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from blklab.advise.answer import GROUP, Answer, as_toml, join_scripts, serves
from blklab.advise.arrangement import members_of
from blklab.advise.question import FLASH, DiskPool, Load, Question
from blklab.errors import BlklabError
from blklab.render import formatting
from blklab.text.printing import printable
from blklab.trace.fio import FioPlan
from blklab.units import format_size

FAST = "fast"  # The name of the volume on flash disks
LEAST_REST = 0.05  # Share of a disk below which it is not said that it is not used
LARGE = "large"  # The name of the volume on rotating disks


@dataclass(frozen=True)
class PlanPart:
    """One array, and the loads that it serves."""

    name: str  # Of its volume, and of its directory in /srv
    answer: Answer

    @property
    def loads(self) -> Sequence[Load]:
        return self.answer.question.loads

    @property
    def load_names(self) -> str:
        """The loads in words: `vm and media`."""
        return formatting.listing([printable(load.name) for load in self.loads])


@dataclass(frozen=True)
class Plan:
    """What to build from all disks, for all loads."""

    parts: Sequence[PlanPart]
    unused: Sequence[str]  # Disks that no part uses, and why, in sentences
    together_reason: str = ""  # Why all loads share the disks, in a sentence; empty if nothing else was asked
    causes: Sequence[str] = ()  # What limits the storage of today, in sentences

    @property
    def answers(self) -> list[Answer]:
        return [part.answer for part in self.parts]

    def script(self) -> list[str]:
        """Returns the commands that build all parts."""
        return join_scripts([answer.script for answer in self.answers])

    def experiment(self, plans: dict[str, FioPlan]) -> str:
        """Returns the experiment that proves the plan."""
        return as_toml(self.answers, plans)


Find = Callable[[Question, str], Answer]
"""Searches the arrangements of a question, for a volume with this name. Raises BlklabError if there is none."""


def make_plan(question: Question, find: Find, *, together: bool) -> Plan:
    """Returns the plan; with `together`, all loads share one array. Raises BlklabError if nothing can be built."""
    reason = ""
    if not together and _flash_pools(question) and _rotating_pools(question):
        limit = _limit_of_all_disks(question)
        if limit:
            reason = f"All disks are one question, because of {limit}."
        else:
            parts, reason = _place(question, find)
            if parts:
                return Plan(parts, [*_describe_unused(question, parts), *_describe_unused_parts(parts)])
    # Without the choice of a class of disks, loads of long streams still want room.
    needs_room = all(load.needs_room for load in question.loads)
    answer = find(replace(question, largest_first=needs_room), GROUP)
    part = PlanPart(GROUP, answer)
    unused = _unused_pools(question, [part])
    sentences = [_why_not_used(answer, unused)] if unused else []
    sentences += _describe_unused_parts([part])
    return Plan([part], sentences, reason)


def _limit_of_all_disks(question: Question) -> str:
    """Returns the option that holds for all disks together; empty without one."""
    constraints = question.constraints
    if constraints.drives:
        return "--drives"
    if constraints.comparisons:
        return "--compare"
    if constraints.budget:
        return "--budget"
    return "--price" if question.priced else ""


def _flash_pools(question: Question) -> list[DiskPool]:
    return [pool for pool in question.pools if pool.kind in FLASH]


def _rotating_pools(question: Question) -> list[DiskPool]:
    return [pool for pool in question.pools if pool.kind == "hdd"]


def _place(question: Question, find: Find) -> tuple[list[PlanPart], str]:
    """Returns an array of flash and one of rotating disks, as far as loads need them; or none, and why."""
    fast_loads = [load for load in question.loads if not load.needs_room]
    large_loads = [load for load in question.loads if load.needs_room]
    constraints = question.constraints
    parts = []
    if fast_loads:
        # Room is asked of the rotating disks, if they are used.
        capacity = 0 if large_loads else constraints.capacity
        fast_question = replace(
            question,
            pools=_flash_pools(question),
            loads=fast_loads,
            constraints=replace(constraints, capacity=capacity),
        )
        part, reason = _find_part(fast_question, find, FAST)
        if part is None:
            return [], reason
        parts.append(part)
    if large_loads:
        large_question = replace(question, pools=_rotating_pools(question), loads=large_loads, largest_first=True)
        part, reason = _find_part(large_question, find, LARGE)
        if part is None:
            return [], reason
        parts.append(part)
    return parts, ""


def _find_part(question: Question, find: Find, name: str) -> tuple[PlanPart | None, str]:
    """Returns the array of some disks; or None, and why they do not serve the loads."""
    loads = formatting.listing([printable(load.name) for load in question.loads])
    disks = "flash" if name == FAST else "rotating"
    try:
        part = PlanPart(name, find(question, name))
    except BlklabError as error:
        obstacle = str(error).partition(": relax")[0].partition(": add")[0]
        return None, f"The {disks} disks alone cannot serve {loads}: {obstacle}."
    if not serves(question, part.answer.rows[0]):
        return None, f"The {disks} disks alone are too slow for {loads}."
    return part, ""


def _unused_pools(question: Question, parts: Sequence[PlanPart]) -> list[tuple[DiskPool, int]]:
    """Returns the disks that no part uses: the pool, and how many of it."""
    used = set()
    for part in parts:
        arrangement = part.answer.rows[0].arrangement
        used |= {*arrangement.disks, *arrangement.spares}
    unused = []
    for pool in question.pools:
        count = sum(pool.disk(number) not in used for number in range(1, pool.count + 1))
        if count:
            unused.append((pool, count))
    return unused


def _describe_unused_parts(parts: Sequence[PlanPart]) -> list[str]:
    """Returns what remains of disks that are larger than the others of their array, in sentences."""
    sentences = []
    for part in parts:
        pools = part.answer.question.disks
        unused_bytes: dict[str, int] = {}
        for table in part.answer.rows[0].arrangement.arrays().values():
            members = [member for member in members_of(table) if member in pools]
            least = min((pools[member].bytes for member in members), default=0)
            if table["level"] in {0, "linear"}:
                continue  # These use all of each disk
            for member in members:
                rest = pools[member].bytes - least
                if rest > LEAST_REST * pools[member].bytes:
                    unused_bytes[pools[member].name] = unused_bytes.get(pools[member].name, 0) + rest
        for name, rest in unused_bytes.items():
            sentences.append(f"{format_size(rest)} of {printable(name)}: other disks of the array are smaller.")
    return sentences


def _list_disks(pools: Sequence[tuple[DiskPool, int]]) -> str:
    """Returns disks in words, with their size together: `4 × n300-8tb, 29.1 TiB`."""
    disks = formatting.listing([f"{count} × {printable(pool.name)}" for pool, count in pools])
    return f"{disks}, {format_size(sum(count * pool.bytes for pool, count in pools))}"


def _why_not_used(answer: Answer, unused: Sequence[tuple[DiskPool, int]]) -> str:
    reason = "with them it costs more" if answer.question.cheapest_first else "with them it is not faster"
    return f"{_list_disks(unused)}: free for other data; the array is large enough, and {reason}."


def _describe_unused(question: Question, parts: Sequence[PlanPart]) -> list[str]:
    """Returns the disks that no part uses, and why, in sentences."""
    sentences = []
    names = {part.name for part in parts}
    unused = _unused_pools(question, parts)
    flash = [(pool, count) for pool, count in unused if pool.kind in FLASH]
    rotating = [(pool, count) for pool, count in unused if pool.kind == "hdd"]
    others = [(pool, count) for pool, count in unused if pool.kind not in {*FLASH, "hdd"}]
    loads = formatting.listing([printable(load.name) for load in question.loads])
    if rotating and LARGE not in names:
        sentences.append(f"{_list_disks(rotating)}: free for other data; {loads} {_fits(question)} on the flash disks.")
        rotating = []
    if flash and FAST not in names:
        sentences.append(
            f"{_list_disks(flash)}: free for other data; the rotating disks serve the long streams of {loads}, "
            "and a cache seldom has what these read."
        )
        flash = []
    if flash or rotating or others:
        sentences.append(
            f"{_list_disks([*flash, *rotating, *others])}: free for other data; the loads do not need them."
        )
    return sentences


def _fits(question: Question) -> str:
    return "fits" if len(question.loads) == 1 else "fit"
