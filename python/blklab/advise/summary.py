"""The plan on one screen: what to build, what it gives, what else is as good, what happens when a disk dies."""

import math

from blklab.advise.answer import USUAL_LOSS, Answer, serves
from blklab.advise.figures import LEAST_HEADROOM, YEARS, ArrangementFigures, least_rebuild_seconds, written_a_day
from blklab.advise.plan import LARGE, Plan, PlanPart
from blklab.advise.question import FLASH, DiskPool, Load, mixes
from blklab.advise.rated_loads import models
from blklab.advise.report import has_rates, is_headroom_known, numbers_as_fast, shortfall
from blklab.advise.report_figures import mean_interval, rated_years
from blklab.advise.samples import Sample, runs_together
from blklab.devices.stock_models import library_model
from blklab.grouping import by_key
from blklab.md.reliability import one_in
from blklab.render import formatting
from blklab.render.formatting import Sentence
from blklab.text.printing import printable
from blklab.units import format_size

MONTH_S = 30 * 86_400  # Above so many seconds, a rebuild does not end under the load
CLEARLY = 0.05  # Differences of figures below this share are no reason to prefer
RARE_LOSS = 1e-4  # Probabilities of losing data up to this are no reason to prefer
MUCH_SLOWER = 1.5  # Times the 99th percentile above which the summary has that of a degraded array
MOST_OF_ALL = 0.6  # Share of what a disk gets from which one load is named
HALF = 0.5  # A probability of losing data that is at most so many times another is clearly lower


def sentences(plan: Plan) -> list[Sentence]:
    """Returns the plan as sentences with their topics, for one screen of a terminal."""
    is_split = len(plan.parts) > 1
    result = [Sentence("" if number else "First", cause) for number, cause in enumerate(plan.causes)]
    for number, part in enumerate(plan.parts):
        result.append(Sentence("" if number else "Build", _build(part, is_split=is_split)))
    if plan.together_reason:
        result.append(Sentence("", plan.together_reason))
    topics = [
        ("Not used", [*plan.unused]),
        ("Gives", [line for part in plan.parts for line in _gives(part)]),
        ("Or", [_alternative(part) for part in plan.parts]),
        ("Failure", [_failure(part, is_split=is_split) for part in plan.parts]),
        ("Wear", [_wear(part) for part in plan.parts]),
        ("Basis", [_list_bases(plan)]),
    ]
    for topic, lines in topics:
        for number, line in enumerate(filter(None, lines)):
            result.append(Sentence("" if number else topic, line))
    result.append(Sentence("More", "--full: all figures; --script: the commands; --html FILE: a page."))
    return result


def _build(part: PlanPart, *, is_split: bool) -> str:
    """Says what to build, in one sentence."""
    best = part.answer.rows[0].arrangement
    text = f"{best.words}: {format_size(best.capacity)}"
    if part.name == LARGE and part.answer.question.constraints.capacity:
        text += ", which --capacity asks for"
    return f"For {part.load_names}: {text}." if is_split else f"{text}."


def _gives(part: PlanPart) -> list[str]:
    """Says what each load gets, with its interval."""
    answer = part.answer
    best = answer.rows[0]
    lines = []
    if warning := shortfall(answer):
        lines.append(warning.replace("no arrangement of the table does", "no arrangement of these disks does"))
        lines[-1] += f" {_what_is_missing(part)}"
    for load, sample in zip(part.loads, best.today, strict=True):
        figures = _latency(sample) if load.is_paced else _bandwidth(sample)
        lines.append(f"{printable(load.name)}: {figures}{_limit(answer, sample)}")
    paced_loads = [load for load in part.loads if load.is_paced]
    if best.headroom is not None and serves(answer.question, best) and is_headroom_known(answer, best):
        more = "more than " if best.headroom_is_more else ""
        times = f"{more}{formatting.number(best.headroom)} times"
        if len(part.loads) == 1:
            lines[-1] += f" It serves {times} {_rate_word(paced_loads[0])}{_count_units(best, part.loads[0])}."
        elif runs_together(answer.question):
            lines.append(f"It serves {times} these rates, all loads together.")
        else:
            names = formatting.listing([printable(load.name) for load in paced_loads])
            alone = ", each alone" if len(paced_loads) > 1 else ""
            lines.append(f"It serves {times} the rate of {names}{alone}.")
    return lines


def _count_units(best: ArrangementFigures, load: Load) -> str:
    """Says how many machines, cameras or streams the headroom is, and for how many there is room; empty if unknown."""
    if not load.amount or best.headroom is None:
        return ""
    more = "more than " if best.headroom_is_more else ""
    text = f" ({more}{math.floor(best.headroom * load.amount):,} {load.units})"
    if load.grows:
        text += f" and has room for {math.floor(best.arrangement.capacity * load.amount / load.span):,}"
    return text


def _what_is_missing(part: PlanPart) -> str:
    """Says how much of the loads disks serve that are too slow, and how much faster they must be."""
    best = part.answer.rows[0]
    growth = part.answer.question.growth
    is_rotating = all(part.answer.question.disks[disk].kind == "hdd" for disk in best.arrangement.disks)
    disks = "SSDs or more disks" if is_rotating else "Faster or more disks"
    if not best.headroom:
        return f"It serves less than 1/{1 / LEAST_HEADROOM:.0f} of it. {disks} are needed."
    times = formatting.number(growth / best.headroom)
    served = f"It serves {formatting.number(best.headroom)} times the rate"
    load = part.loads[0]
    if len(part.loads) == 1 and load.amount:
        served = f"It serves {math.floor(best.headroom * load.amount):,} {load.units}"
    return f"{served}. {disks} must do {times} times as much."


def _bandwidth(sample: Sample) -> str:
    """Returns the bytes per second of a load that runs as fast as the disks allow; its latency if they are unknown."""
    if not sample.is_known or not sample.mean_interval:
        return _latency(sample)
    low, high = sample.mean_interval
    # Such a load has always as many I/Os in flight: what takes longer moves less.
    bounds = f"{formatting.rate(sample.bandwidth / high)} – {formatting.rate(sample.bandwidth / low)}"
    latency = formatting.duration(sample.mean_ns)
    return f"{formatting.rate(sample.bandwidth)} (nine of ten: {bounds}); an I/O takes {latency}."


def _rate_word(load: Load) -> str:
    """Returns what the headroom multiplies: the rate, and not the number of machines or streams."""
    if load.timed or load.peak is not None:
        return "today's load"
    return "this rate"


def _limit(answer: Answer, sample: Sample) -> str:
    """Says whether --p99-below is met, after a space; empty without it."""
    bound = answer.question.constraints.p99_ns
    if bound is None:
        return ""
    if not sample.is_known:
        return f" Whether 99 of 100 are below {formatting.duration(bound)} is not known."
    return f" 99 of 100 take up to {formatting.duration(sample.p99_ns)} (limit {formatting.duration(bound)})."


def _latency(sample: Sample) -> str:
    if not sample.is_known:
        return f"an I/O takes {mean_interval(sample)} (nine of ten measurements)."
    return f"an I/O takes {formatting.duration(sample.mean_ns)} (nine of ten: {mean_interval(sample)})."


def _alternative(part: PlanPart) -> str:
    """Names the runner-up, and when to prefer it; empty if there is none."""
    answer = part.answer
    best = answer.rows[0]
    least_failures = answer.question.constraints.failures
    rows = [row for row in (*answer.rows[1:], *answer.other_rows) if row.arrangement.failures >= least_failures]
    rows = [row for row in rows if serves(answer.question, row) or not serves(answer.question, best)]
    as_fast = numbers_as_fast(answer)
    numbered = [*answer.rows, *answer.other_rows]
    # Room is what cannot be added later: it comes before speed and risk.
    rows.sort(
        key=lambda row: (
            row.arrangement.capacity <= (1 + CLEARLY) * best.arrangement.capacity,
            row.loss.any.mean > USUAL_LOSS,
        )
    )
    for row in rows:
        gains, losses = _compare(best, row)
        if gains:
            cost = f", but {formatting.listing(losses)}" if losses else ""
            return f"{row.arrangement.words}, if you prefer {formatting.listing(gains)}{cost}."
    for row in rows:
        is_same_pair = len(best.arrangement.disks) == 2 and set(row.arrangement.disks) == set(best.arrangement.disks)
        if str(numbered.index(row) + 1) in as_fast and not is_same_pair:
            return f"{row.arrangement.words}: it may be as fast."
    return ""


def _compare(best: ArrangementFigures, row: ArrangementFigures) -> tuple[list[str], list[str]]:
    """Returns in what an arrangement is better than the best one, and in what it is worse."""
    gains = []
    losses = []
    capacity = f"{format_size(row.arrangement.capacity)} instead of {format_size(best.arrangement.capacity)}"
    if row.arrangement.capacity > (1 + CLEARLY) * best.arrangement.capacity:
        gains.append(f"more room ({capacity})")
    elif row.arrangement.capacity < (1 - CLEARLY) * best.arrangement.capacity:
        losses.append(f"it has less room ({capacity})")
    own, other = best.loss.any.mean, row.loss.any.mean
    probability = f"{one_in(other)} instead of {one_in(own)}"
    if other <= HALF * own and own > RARE_LOSS:
        gains.append(f"less risk of losing data ({probability})")
    elif own <= HALF * other and other > RARE_LOSS:
        losses.append(f"it loses data more often ({probability})")
    if row.price is not None and best.price is not None and row.price < best.price:
        gains.append(f"a lower price ({formatting.number(row.price)} instead of {formatting.number(best.price)})")
    least_ratio, most_ratio = best.slowest_load().compare_means(row.slowest_load())
    if most_ratio < 1:
        gains.append(f"speed ({formatting.duration(row.slowest_load().mean_ns)} for an I/O)")
    elif least_ratio > 1:
        losses.append(f"it is slower ({formatting.duration(row.slowest_load().mean_ns)} for an I/O)")
    return gains, losses


def _failure(part: PlanPart, *, is_split: bool) -> str:
    """Says what happens when a disk fails: data, speed, the rebuild, and the risk."""
    answer = part.answer
    best = answer.rows[0]
    of_part = f"{part.load_names}: " if is_split else ""
    failures = best.arrangement.failures
    if failures == 0:
        disks, blocks = one_in(best.loss.disks.mean), one_in(best.loss.sectors.mean)
        return f"{of_part}all data are lost. Within {YEARS} years: {disks}; a block that cannot be read: {blocks}."
    disks = "any disk" if failures == 1 else f"any {failures} disks"
    sentence = f"{of_part}{disks} may fail without data loss."
    slowest = max(best.degraded, key=lambda sample: sample.p99_ns, default=None)
    now = best.slowest_load()
    if slowest is not None and slowest.is_known and now.is_known and slowest.p99_ns > MUCH_SLOWER * now.p99_ns:
        before = formatting.duration(now.p99_ns)
        sentence += f" 99 of 100 I/Os then take up to {formatting.duration(slowest.p99_ns)} ({before} before)."
    sentence += _rebuild(answer, best)
    return f"{sentence} Data are lost within {YEARS} years: {one_in(best.loss.any.mean)}."


def _rebuild(answer: Answer, best: ArrangementFigures) -> str:
    """Says how long a rebuild takes, after a space; empty if there is none."""
    least_seconds = least_rebuild_seconds(answer.question, best.arrangement)
    if least_seconds is None:
        return ""
    idle = formatting.duration(least_seconds * 1e9)
    samples = best.peak if has_rates(answer) else best.rebuilding
    if best.rebuild_seconds is None or not all(sample.is_known for sample in samples):
        return f" Filling a new disk takes {idle} at least."
    if best.rebuild_seconds > MONTH_S:
        return f" Filling a new disk takes {idle} at least, and more than a month if the load never pauses."
    loaded = formatting.duration(best.rebuild_seconds * 1e9)
    return f" Filling a new disk takes {idle} at least, {loaded} if the load never pauses."


def _wear(part: PlanPart) -> str:
    """Says what wears out and when; empty if the loads have no rate, or write to no flash disk."""
    answer = part.answer
    best = answer.rows[0]
    is_paced = all(load.is_paced for load in part.loads)
    if best.drive_writes_per_day is None or not is_paced or not best.drive_writes_per_day:
        return ""
    disks = answer.question.disks
    written = written_a_day(answer.question, best.today)
    name = max(written, key=lambda disk: written[disk] / disks[disk].bytes)
    model = printable(disks[name].name)
    sentence = f"{format_size(round(written[name]))} a day are written to each {model}{_writer(part, name)}"
    if best.rated_years is None:
        return f"{sentence}: compare with the TBW of its data sheet."
    return f"{sentence}: its maker rates it for {rated_years(best.rated_years)} of this."


def _writer(part: PlanPart, disk: str) -> str:
    """Names the load that writes most of what a disk gets; empty with one load, or if none writes most."""
    today = part.answer.rows[0].today
    rates = [sample.written.get(disk, 0.0) for sample in today]
    if len(rates) < 2 or max(rates) < MOST_OF_ALL * sum(rates):
        return ""
    return f", mostly because of {printable(part.loads[rates.index(max(rates))].name)}"


def _list_bases(plan: Plan) -> str:
    """Says where the figures of disks and loads come from."""
    pools: dict[str, DiskPool] = {}
    for part in plan.parts:
        arrangement = part.answer.rows[0].arrangement
        for disk in (*arrangement.disks, *arrangement.spares):
            pool = part.answer.question.disks[disk]
            pools[pool.name] = pool
    names_by_basis = by_key((_basis(pool), printable(pool.name)) for pool in pools.values())
    bases = [f"{formatting.listing(names)}: {basis}" for basis, names in names_by_basis.items()]
    loads = [load for part in plan.parts for load in part.loads]
    bases += [f"{printable(load.name)}: {_load_basis(load)}" for load in loads]
    growth = plan.answers[0].question.growth
    if growth != 1:
        grown = "rates and data" if any(load.grows for load in loads) else "rates"
        bases.append(f"planned for {growth:g} times these {grown} (--growth)")
    is_alone = len(loads) > len(plan.parts) and not all(runs_together(answer.question) for answer in plan.answers)
    if is_alone:
        bases.append("each load is simulated alone")
    sizes = " --working-set changes the size." if any(load.span and not load.timed for load in loads) else ""
    return f"{'; '.join(bases)}.{sizes}"


def _basis(pool: DiskPool) -> str:
    """Returns where the figures of a disk come from."""
    if "calibrated" in pool.table or "uncertainty" in pool.table:
        return "measured"
    if pool.guess:
        return f"its class, {pool.table.get('model')} (the model is a guess)"
    if pool.kind not in {"hdd", *FLASH}:
        return "documentation; data are lost as of an SSD, and its provider may keep copies"
    model = library_model(str(pool.table.get("model")))
    return "typical of its class" if model.certainty == "typical" else model.certainty


def _load_basis(load: Load) -> str:
    """Returns what was assumed of a load, short."""
    if load.timed:
        return "your trace"
    size = f"{format_size(load.span)}" if load.span else "its own size"
    if load.name in models() and load.rate is not None:
        return f"{formatting.number(load.rate)} I/Os per second on {size}, as published"
    if load.rate is not None:
        return f"{formatting.number(load.rate)} I/Os per second on {size}, as in your file"
    if load.name in mixes():
        return f"as fast as the disks allow, on {size}"
    return f"as in your file, on {size}"
