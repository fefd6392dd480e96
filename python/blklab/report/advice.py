"""Advice: which array to build, in the terminal, as a page and as JSON."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from blklab.advice.answer import Answer, doubts, script, script_for_volume
from blklab.advice.cache import WARM, WINDOWS, CacheAnswer, CacheFigures, WarmUp, choice_of
from blklab.advice.candidates import CACHE_WORDS
from blklab.advice.figures import YEARS, ArrangementFigures
from blklab.advice.race import SAME
from blklab.advice.samples import Sample, Simulations
from blklab.printing import printable
from blklab.reliability import RAREST, in_words, one_in
from blklab.report import formatting, shell, terminal
from blklab.report.charts.base import Chart, Spec, chart_spec, layer, quantity, tip
from blklab.report.console import Console
from blklab.report.formatting import Sentence
from blklab.report.shell import Item, PageSection, PlainText
from blklab.report.tables.base import TextTable, figures, text
from blklab.units import NANOSECONDS, format_duration, format_size

NEAR = 1.15  # Points of a chart with at most this ratio share a label
_DETAILS = re.compile(r", chunk \w+|,? of [^,]*|,? behind an?|\(\w+\) on .*")
DAY_NS = NANOSECONDS["d"]
SMALL = 0.02  # Changes of latency that a sentence does not list
HOW = "save this as a file, complete the names of the disks, run it with sh. It stops if a disk is not empty."


def verdict(answer: Answer) -> str:
    """Returns the first sentence: what to build."""
    best = answer.rows[0]
    rank = "cheapest" if answer.question.cheapest_first else "fastest"
    sample = best.slowest()
    served = lacks = ""
    if best.headroom is not None:
        served = f" It serves {headroom(best)} today's load."
        growth = answer.question.growth
        if best.headroom < growth and not best.headroom_is_more:
            rows = enumerate(answer.rows, 1)
            able = [number for number, row in rows if row.headroom_is_more or (row.headroom or 0) >= growth]
            which_does = f"number {able[0]} of the table does" if able else "no arrangement of the table does"
            lacks = f"This does not serve {growth:g} times today's load; {which_does}. "
    loads = answer.question.loads
    of_load = f" of {printable(loads[best.today.index(sample)].name)}, the slowest load," if len(loads) > 1 else ""
    low, high = (format_duration(sample.p99_ns * factor) for factor in sample.p99_interval)
    said = (
        f"Build {best.arrangement.words}: the {rank} arrangement that meets the constraints. "
        f"The mean latency{of_load} is "
        f"{formatting.duration(sample.mean_ns)} (nine of ten measurements: {_bounds(sample)}), "
        f"the 99th percentile {formatting.duration(sample.p99_ns)} ({low} to {high})."
    )
    wear = ""
    if best.rated_years is not None and best.rated_years < 1:
        wear = (
            " If this load never stops, a flash disk has been written as often as it is rated for "
            f"after {_years(best.rated_years)}."
        )
    return f"{lacks}{said}{served}{wear}{_not_certain(answer)}"


def _not_certain(answer: Answer) -> str:
    """Says which other arrangements may be as fast: their intervals overlap with that of the first."""
    _, slowest = answer.rows[0].slowest().mean_bounds
    close = [
        str(number)
        for number, row in enumerate(_listed(answer), 1)
        if number > 1 and row.slowest().mean_bounds[0] < slowest
    ]
    if not close:
        return ""
    return f" It is not certainly faster than number {formatting.listing(close)} of the table: the intervals overlap."


def _bounds(sample: Sample) -> str:
    """Returns the interval of the mean with two digits: `1.0–2.3 ms`."""
    low, high = (_two_digits(bound) for bound in sample.mean_bounds)
    return f"{low[0]}–{high[0]} {high[1]}" if low[1] == high[1] else f"{' '.join(low)} – {' '.join(high)}"


def _two_digits(nanoseconds: float) -> tuple[str, str]:
    """Returns the number and the unit of a duration."""
    number, _, unit = format_duration(float(f"{nanoseconds:.1e}")).partition(" ")
    if not number.replace(".", "").isdigit():  # minutes and more
        return number, unit
    return f"{float(number):.1f}" if float(number) < 10 else f"{float(number):.0f}", unit


def _listed(answer: Answer) -> list[ArrangementFigures]:
    """Returns the arrangements in the order of their numbers."""
    return [*answer.rows, *answer.others, *answer.present]


def headroom(row: ArrangementFigures) -> str:
    """Returns how many times today's load an arrangement serves."""
    if row.headroom is None:
        return formatting.NONE
    if row.headroom < 1:
        return "less than"
    factor = f"{formatting.number(row.headroom)} times"
    if row.headroom_is_more:
        return f"more than {factor}"
    return factor


def _short_headroom(row: ArrangementFigures) -> str:
    """Returns the same for a column."""
    return "<1" if row.headroom is not None and row.headroom < 1 else headroom(row).removesuffix(" times")


def sentences(answer: Answer) -> list[Sentence]:
    """Returns the answer, its reasons, and what it depends on."""
    listed = [Sentence("Answer", verdict(answer))]
    loads = "; ".join(printable(load.source) for load in answer.question.loads)
    grown = f", times {answer.question.growth:g}" if answer.question.growth != 1 else ""
    listed.append(Sentence("Load", f"{loads}{grown}."))
    listed += [Sentence("Why" if not at else "", line) for at, line in enumerate(answer.why)]
    listed.append(Sentence("Data loss", _loss(answer)))
    if answer.cache is not None:
        best = answer.cache.best
        mean = format_duration(best.sample.mean_ns)
        of_cache = [f"{_cache_words(best)}: a mean latency of {mean}. {_cache_size(answer.cache)}"]
        if answer.cache.warm_up:
            of_cache.append(_warm_up(answer.cache.warm_up))
        of_cache.append(_cache_wear(best))
        listed += [Sentence("" if at else "Cache", line) for at, line in enumerate(of_cache)]
    if changes := _changes(answer.rows[0].changes):
        listed.append(Sentence("Choices", changes))
    if answer.options.removed:
        reasons = "; ".join(f"they {each.reason}: {each.count}" for each in answer.options.removed)
        listed.append(Sentence("Not considered", f"Because {reasons}."))
    return [*listed, Sentence("Search", search(answer))]


def _loss(answer: Answer) -> str:
    """Says how likely data are lost, and what this assumes."""
    loss = answer.rows[0].loss
    care = answer.question.care
    checks = "are never checked"
    if care.scrub_days is not None:
        checks = f"are checked every {format_duration(care.scrub_days * DAY_NS)}"
    after = care.replacement_hours * DAY_NS / 24
    return (
        f"Within {YEARS} years, the probability of losing data is {in_words(loss.any)}: "
        f"{one_in(loss.sectors.mean)} for a block that cannot be read, "
        f"{one_in(loss.disks.mean)} for failed disks; "
        f"on average over all such arrays, {formatting.size(loss.bytes.mean)} are lost. "
        "This is of disks alone, without theft, fire, mistakes and software; "
        f"failed disks are replaced after {formatting.duration(after)}, arrays {checks}."
    )


def _changes(changes: Mapping[str, float]) -> str:
    """Says what single choices contribute to the mean latency, as ratios."""
    large = [f"{_times(ratio)} with {name}" for name, ratio in changes.items() if abs(ratio - 1) >= SMALL]
    small = [name for name, ratio in changes.items() if abs(ratio - 1) < SMALL]
    found = {"If you change one thing, an I/O takes": large, "Nearly no difference": small}
    return " ".join(f"{text}: {'; '.join(names)}." for text, names in found.items() if names)


def _times(ratio: float) -> str:
    """Returns how much longer something takes."""
    if ratio >= 2:
        return f"{formatting.number(ratio)} times as long"
    direction = "longer" if ratio > 1 else "less time"
    return f"{abs(100 * (ratio - 1)):.0f} % {direction}"


def search(answer: Answer) -> str:
    """Says how much was simulated."""
    share = answer.result.simulated_ios / max(1, answer.full_ios)
    saved = f" The search took {formatting.share(share)} of the I/Os of simulating all in full." if share < 1 else ""
    return (
        f"{len(answer.options.fitting)} of {formatting.plural(answer.options.considered, 'arrangement')} simulated,"
        f" {answer.result.fully_simulated} of them in full, several times.{saved}"
    )


def front(answer: Answer) -> TextTable:
    """Returns the arrangements of which none is better than another in every respect: today's load."""
    return _table(answer, answer.rows, 1, "None of these is better than another in speed, capacity, failures and price")


def others(answer: Answer) -> TextTable:
    """Returns the best of each other level, and what the user named."""
    title = "The best of every other level, and what --compare named"
    return _table(answer, answer.others, len(answer.rows) + 1, title)


def present(answer: Answer) -> TextTable:
    """Returns the arrays that the user has, to compare with."""
    first = len(answer.rows) + len(answer.others) + 1
    return _table(answer, answer.present, first, "What you have, to compare with")


def _table(answer: Answer, listed: Sequence[ArrangementFigures], first: int, title: str) -> TextTable:
    timed = answer.rows[0].headroom is not None
    priced = any(row.price is not None for row in _listed(answer))
    columns = [*figures("#"), text("arrangement"), *figures("capacity", "failures", "mean", "nine of ten", "p99")]
    if timed:
        columns += figures("headroom")
    if priced:
        columns += figures("price")
    columns += figures("loss, 1 in")
    rows = []
    for number, row in enumerate(listed, first):
        cells = [
            str(number),
            row.arrangement.words,
            format_size(row.arrangement.capacity),
            str(row.arrangement.failures),
            format_duration(row.slowest().mean_ns),
            _bounds(row.slowest()),
            format_duration(row.slowest().p99_ns),
        ]
        if timed:
            cells.append(_short_headroom(row))
        if priced:
            cells.append(formatting.number(row.price))
        cells.append(_short(row.loss.any.mean))
        rows.append(cells)
    note = f"failures: disks that can fail, whichever they are; loss: probability of losing data within {YEARS} years"
    if timed:
        note += "; headroom: times today's load until a disk saturates, I/Os fall behind or p99 exceeds the limit"
    return TextTable(title, columns, rows, note, frozenset({0} if first == 1 else ()))


def endurance(answer: Answer) -> TextTable:
    """Returns what the arrangements do at most, and when a disk has failed."""
    wear = any(row.drive_writes_per_day is not None for row in _listed(answer))
    columns = figures("#", "busy", "peak IOPS", "peak bandwidth", "p99 degraded", "rebuild", "p99 then")
    if wear:
        columns += figures("writes/day", "rated for")
    rows = []
    for number, row in enumerate(_listed(answer), 1):
        peak = max(row.peak, key=lambda sample: sample.p99_ns)
        cells = [
            str(number),
            formatting.share(row.slowest().busy),
            formatting.number(peak.iops),
            formatting.rate(peak.bandwidth),
            _worst(row.degraded),
            formatting.duration(None if row.rebuild_seconds is None else row.rebuild_seconds * 1e9),
            _worst(row.rebuilding),
        ]
        if wear:
            cells += [formatting.number(row.drive_writes_per_day), _years(row.rated_years)]
        rows.append(cells)
    note = "degraded: without one disk; rebuild: of this disk under the load"
    if wear:
        note += (
            "; writes/day: of the flash disk that is written most, in its capacities; "
            "rated for: until the first disk was written as often as its maker rates it"
        )
    return TextTable("At most, and when a disk has failed", columns, rows, note, frozenset({0}))


def _short(probability: float) -> str:
    """Returns the N of 1 in N for a column."""
    return ">1,000,000" if probability < RAREST else one_in(probability).removeprefix("1 in ")


def _years(years: float | None) -> str:
    if years is None:
        return formatting.NONE
    if years >= 100:
        return ">100 years"
    if years < 1:
        return f"{years * 365:.0f} days"
    two_digits = float(f"{years:.1e}")
    return f"{two_digits:g} years"


def losses(answer: Answer) -> TextTable:
    """Returns how likely the arrangements lose data, and how much."""
    columns = figures("#", "1 in", "from 1 in", "to 1 in", "bad block, 1 in", "failed disks, 1 in", "average")
    rows = []
    for number, row in enumerate(_listed(answer), 1):
        loss = row.loss
        shares = (loss.any.mean, loss.any.high, loss.any.low, loss.sectors.mean, loss.disks.mean)
        rows.append([str(number), *map(_short, shares), format_size(loss.bytes.mean)])
    note = (
        "the first loss counts; from and to: nine of ten sets of failure rates; "
        "bad block: one that cannot be read while no other copy is left; "
        "average: bytes of all such arrays, of RAID-0 those of the failed disk"
    )
    return TextTable(f"Losing data within {YEARS} years", columns, rows, note, frozenset({0}))


def _worst(samples: Sequence[Sample]) -> str:
    return format_duration(max(sample.p99_ns for sample in samples)) if samples else formatting.NONE


def chart(answer: Answer) -> Chart | None:
    """Returns latency over capacity."""
    arrangements = _listed(answer)
    if len(arrangements) < 2:
        return None
    rows: list[Spec] = [
        {
            "words": f"{number}. {row.arrangement.words}",
            "name": f"{number} {_DETAILS.sub('', row.arrangement.words)}",
            "tebibytes": row.arrangement.capacity / 2**40,
            "milliseconds": row.slowest().mean_ns / 1e6,
            "low": row.slowest().mean_bounds[0] / 1e6,
            "high": row.slowest().mean_bounds[1] / 1e6,
            "failures": str(row.arrangement.failures),
        }
        for number, row in enumerate(arrangements, 1)
    ]
    labels = _merge_labels(rows)
    encoding = {
        "x": quantity("tebibytes", "capacity, TiB"),
        "y": quantity("milliseconds", "mean latency, ms", scale={"type": "log", "nice": False}, axis={"tickCount": 4}),
        "color": {"field": "failures", "type": "nominal", "legend": {"title": "failures tolerated"}},
        "tooltip": [tip("words", "arrangement"), tip("tebibytes", "TiB", ".1f"), tip("milliseconds", "ms", ".3f")],
    }
    bars = layer("rule", {**encoding, "y": quantity("low"), "y2": {"field": "high"}}, opacity=0.5)
    middle = max(row["tebibytes"] for row in rows) / 2
    # A name is on the side of its point with more room
    right = [label for label in labels if label["tebibytes"] > middle]
    left = [label for label in labels if label["tebibytes"] <= middle]
    names = []
    for values, align, dx in ((right, "right", -7), (left, "left", 7)):
        text_encoding = {**encoding, "text": {"field": "name"}}
        text_layer = layer("text", text_encoding, align=align, dx=dx, fontSize=11, fill="@ink")
        names.append({"data": {"values": values}, **text_layer})
    spec = chart_spec(rows, height=300, layer=[bars, layer("point", encoding, filled=True, size=90), *names])
    note = (
        "Each point is an arrangement, with its number in the tables; its line is where nine of ten measurements are."
    )
    return Chart("front", "Latency and capacity", spec, front(answer), note, wide=True)


def _merge_labels(rows: Sequence[Spec]) -> list[Spec]:
    """Returns the rows with the labels of points; points near each other share one."""
    labels: list[Spec] = []
    for row in sorted(rows, key=lambda row: (round(row["tebibytes"], 1), row["milliseconds"])):
        last = labels[-1] if labels else {"tebibytes": 0, "milliseconds": 0}
        if abs(row["tebibytes"] - last["tebibytes"]) < 0.1 and row["milliseconds"] < NEAR * last["milliseconds"]:
            labels[-1] = {**last, "name": f"{last['name']}; {row['name']}"}  # they would cover each other
        else:
            labels.append(row)
    return labels


def print_answer(console: Console, answer: Answer) -> None:
    """Prints the answer, the table and what to type."""
    terminal.prose(console, sentences(answer))
    terminal.draw_table(console, front(answer), others(answer), present(answer), endurance(answer), losses(answer))
    console.print()
    terminal.prose(console, [Sentence("Note" if not at else "", line) for at, line in enumerate(answer.doubts)])
    console.print()
    console.print(f"To build it on Debian, as root: {HOW}")
    console.print()
    for line in answer.script:
        console.print(f"    {line}")


def render(answer: Answer, *, title: str, command: str) -> str:
    """Returns the page; `command` created it."""
    items: list[Item] = []
    front_chart = chart(answer)
    if front_chart:
        items.append(front_chart)
    items += [table for table in (front(answer), others(answer), present(answer)) if table.rows]
    items += [endurance(answer), losses(answer)]
    script = PlainText(HOW[0].upper() + HOW[1:], "\n".join(answer.script), wrapped=True)
    sections = [
        PageSection("front", "Arrangements", "Arrangements", items),
        PageSection("script", "Script", "To build it on Debian, as root", [script]),
    ]
    return shell.render(
        "document.html.j2",
        sections,
        kicker="advice",
        title=title,
        facts=[printable(load.source) for load in answer.question.loads],
        sentences=[
            *sentences(answer),
            *(Sentence("Note" if not at else "", line) for at, line in enumerate(answer.doubts)),
        ],
        doubts=[],
        command=command,
    )


def as_dict(answer: Answer) -> dict[str, object]:
    """Returns the JSON document: docs/reference/formats.md, "advice"."""
    return {
        "answer": verdict(answer),
        "arrangements": [_row(row) for row in answer.rows],
        "others": [_row(row) for row in answer.others],
        "present": [_row(row) for row in answer.present],
        "why": list(answer.why),
        "notes": list(answer.doubts),
        "cache": cache_as_dict(answer.cache) if answer.cache else None,
        "script": list(answer.script),
        "search": {
            "considered": answer.options.considered,
            "not_simulated": [asdict(each) for each in answer.options.removed],
            "simulated": len(answer.options.fitting),
            "simulated_in_full": answer.result.fully_simulated,
            "ios": answer.result.simulated_ios,
            "ios_in_full": answer.full_ios,
        },
    }


def _row(row: ArrangementFigures) -> dict[str, object]:
    arrangement = row.arrangement
    names = ("name", "words", "stacks", "settings", "disks", "spares", "failures")
    return {
        **{name: getattr(arrangement, name) for name in names},
        "capacity_bytes": arrangement.capacity,
        **{key: value for key, value in vars(row).items() if key != "arrangement"},
        "loss": {name: estimate._asdict() for name, estimate in row.loss._asdict().items()},
        **{key: _samples(getattr(row, key)) for key in ("today", "peak", "degraded", "rebuilding")},
    }


def _samples(samples: Sequence[Sample]) -> list[dict[str, object]]:
    dicts = []
    for sample in samples:
        fields = asdict(sample)
        del fields["batches"]
        dicts.append(fields)
    return dicts


def cache_verdict(answer: CacheAnswer) -> str:
    """Returns the first sentence: whether a cache is worth it."""
    best = answer.best
    disks = formatting.plural(answer.question.pools[-1].count, "fast disk")
    if not answer.is_worth_it:
        if answer.gain > 1 + SAME:
            gain = "is slower"
        elif answer.gain < 1 - SAME:
            gain = "helps only by dividing I/Os"
        else:
            gain = f"gains less than {formatting.share(SAME)}"
        no_gain = f"{_cache_words(best)} {gain}. {_both_means(answer)}"
        return f"Not with {disks}: without a risk, {no_gain}" if answer.risky else f"No: even {no_gain}"
    certainty = "Yes" if answer.is_certain else "Perhaps"
    lines = [f"{certainty}: {_cache_words(best)}. {_both_means(answer)}"]
    if best.hit_ratio is not None:
        lines.append(f"It serves {formatting.share(best.hit_ratio)} of the reads.")
    if not answer.is_certain:
        lines.append("The intervals overlap: measure it before you buy.")
    if best.sample.p99_ns > (1 + SAME) * answer.without.sample.p99_ns:
        lines.append("But the slowest 1 % take longer.")
    if best.rated_years is not None and best.rated_years < YEARS:
        lines.append(
            "If this load never stops, it has written as much as the disk is rated for after "
            f"{_years(best.rated_years)}: take a larger disk, or one for more writes."
        )
    if not best.keeps_up:
        lines.append("I/Os fall behind the recorded times even so: the load is too much for these disks.")
    elif not answer.without.keeps_up:
        lines.append("Without a cache, I/Os fall behind the recorded times.")
    return " ".join(lines)


def _both_means(answer: CacheAnswer) -> str:
    before = answer.without.sample
    after = answer.best.sample
    return (
        f"The mean latency is {formatting.duration(after.mean_ns)} instead of "
        f"{formatting.duration(before.mean_ns)} (nine of ten measurements: "
        f"{_bounds(after)} instead of {_bounds(before)}), "
        f"the 99th percentile {formatting.duration(after.p99_ns)} instead of "
        f"{formatting.duration(before.p99_ns)}."
    )


def _cache_kind(level: str) -> str:
    kind, _, mode = level.partition("-")
    if mode:
        return f"{CACHE_WORDS[kind]} ({mode})"
    return CACHE_WORDS[kind]


def _cache_words(row: CacheFigures) -> str:
    return row.arrangement.words.partition(", behind a ")[2]


def cache_sentences(answer: CacheAnswer) -> list[Sentence]:
    """Returns the answer, its reasons, and what it costs."""
    best = answer.best
    load = printable(answer.question.loads[0].source)
    listed = [
        Sentence("Answer", cache_verdict(answer)),
        Sentence("Array", f"{answer.without.arrangement.words}; {load}."),
    ]
    listed.append(Sentence("Size", _cache_size(answer)))
    if answer.risky:
        kinds = [f"{_cache_kind(row.arrangement.level)}, {format_duration(row.sample.mean_ns)}" for row in answer.risky]
        alone = answer.without.arrangement.failures
        risk = (
            f"Faster, but with it the array survives {answer.risky[0].arrangement.failures} failed disks "
            f"instead of {alone}: {formatting.listing(kinds)}. "
            f"A mirror of {alone + 1} fast disks (--fast {alone + 1}x…) keeps {alone}."
        )
        listed.append(Sentence("Risk", risk))
    if not answer.is_worth_it:
        return listed
    if best.dirty_bytes and not answer.without.arrangement.failures:
        listed.append(
            Sentence("Risk", "The cache has data that the disk does not have: if one of them fails, all data are lost.")
        )
    if changes := _changes(answer.choices[best.arrangement.level]):
        listed.append(Sentence("Choices", changes))
    if answer.warm_up and any(answer.warm_up.hit_ratios):
        listed.append(Sentence("Warm-up", _warm_up(answer.warm_up)))
    listed.append(Sentence("Wear", _cache_wear(best)))
    if best.dirty_bytes:
        listed.append(Sentence("Dirty data", f"Up to {format_size(best.dirty_bytes)} are only in the cache."))
    return listed


def _cache_size(answer: CacheAnswer) -> str:
    kind = answer.best.arrangement.level
    curves = answer.curves
    sizes = answer.by_size[kind]
    steps = [f"{format_size(size)} {format_duration(mean)}" for size, mean in sizes.items()]
    alone = format_duration(answer.without.sample.mean_ns)
    lines = [f"Mean latency of {_cache_kind(kind)} with its defaults: without {alone}; with {'; '.join(steps)}."]
    if any(size > answer.best.bytes for size in sizes):
        lines.append(f"Above {format_size(answer.best.bytes)}, it does not become clearly faster.")
    elif curves and answer.best.bytes < curves["blocks"][0]["footprint_bytes"]:
        lines.append("A larger cache may gain more.")
    if curves and curves["blocks"][0]["read_first_touch_ratio"] is not None:
        block = curves["blocks"][0]
        lines.append(
            f"In {formatting.duration(curves['span_ns'])}, "
            f"the trace touches {formatting.size(block['footprint_bytes'])}; a longer one may need more. "
            f"{formatting.share(block['read_first_touch_ratio'])} of the reads are the first to their "
            f"{formatting.size(block['block_bytes'])}: "
            "a cache that begins empty has them only if its chunks are larger."
        )
    return " ".join(lines)


def _warm_up(warm: WarmUp) -> str:
    hits = ", ".join(formatting.share(ratio) for ratio in warm.hit_ratios)
    when = "only there: record for longer to see more"
    if warm.seconds is not None:
        when = f"after {format_duration(warm.seconds * 1e9)} of this load"
    return (
        f"Hits of the reads in {WINDOWS} equal parts of the trace: {hits}. "
        f"{formatting.share(WARM)} of those of the last part are reached {when}. In the first part, "
        f"while most is copied, the 99th percentile is {formatting.duration(warm.first_p99_ns)}, "
        f"without a cache {formatting.duration(warm.first_p99_without_ns)}."
    )


def _cache_wear(row: CacheFigures) -> str:
    line = (
        f"{formatting.size(row.flash_bytes_per_day)} a day are written to the cache's disk, "
        f"if the load goes on like this, {formatting.number(row.flash_bytes_per_day * 365 / 1e12)} TB a year."
    )
    if row.rated_years is None:
        if row.flash_bytes_per_day:
            line += " Its rating is not in the library: compare with the TBW of its data sheet."
        return line
    return f"{line} Its rating suffices for {_years(row.rated_years).replace('>', 'more than ')}."


def _cache_tables(answer: CacheAnswer) -> list[TextTable]:
    """Returns the array alone and each kind of cache at the size that it needs: what it gains, and what it costs."""
    gains = [text("cache"), *figures("size", "mean", "nine of ten", "second half", "p99", "read hits")]
    costs = [text("cache"), *figures("written a day", "rated for", "dirty", "failures")]
    rows = []
    for row in (answer.without, *answer.caches):
        arrangement = row.arrangement
        names = [_cache_kind(arrangement.level), choice_of(arrangement)] if row.bytes else ["none"]
        numbers = [
            formatting.size(row.bytes or None),
            format_duration(row.sample.mean_ns),
            _bounds(row.sample),
            format_duration(row.later_ns),
            format_duration(row.sample.p99_ns),
            formatting.share(row.hit_ratio),
            formatting.size(row.flash_bytes_per_day if row.bytes else None),
            _years(row.rated_years),
            formatting.size(row.dirty_bytes if row.bytes else None),
            str(arrangement.failures),
        ]
        rows.append((", ".join(filter(None, names)), numbers))
    size = (
        f"size: the smallest after which more gains less than {formatting.share(SAME)}; "
        "second half: mean latency of the later I/Os"
    )
    written = (
        "written a day: to the cache's disk, if the second half of the load runs all day; "
        "dirty: what only the cache has; failures: disks that can fail, whichever they are"
    )
    best = frozenset({1 + list(answer.caches).index(answer.best)})
    first_cost = len(gains) - 1
    gain_rows = [[name, *numbers[:first_cost]] for name, numbers in rows]
    cost_rows = [[name, *numbers[first_cost:]] for name, numbers in rows]
    return [
        TextTable("What each kind gains", gains, gain_rows, size, best),
        TextTable("What each kind costs", costs, cost_rows, written, best),
    ]


def cache_script(answer: CacheAnswer, simulations: Simulations) -> tuple[str, Sequence[str]]:
    """Returns what the script is for, and its lines."""
    arrangement = answer.best.arrangement
    if arrangement.top_table["kind"] == "bcache":
        node = simulations.cell(arrangement, answer.question.loads[0]).document["stack"]
        about = "bcache cannot be put on a volume with data. To build all of it on Debian, as root"
        return about, script(arrangement, node, {}, "ext4")
    about = "To put the cache on a volume of LVM, which keeps its data, as root"
    return about, script_for_volume(arrangement)


def cache_check(answer: CacheAnswer) -> list[str]:
    """Returns commands that check the cache later; none for dm-writecache, whose counters say less."""
    devices = {"bcache": "/dev/bcache0", "lvmcache": "/dev/GROUP/VOLUME"}
    device = devices.get(str(answer.best.arrangement.top_table["kind"]))
    if device is None:
        return []
    return [
        "blklab cache status --json > before.json",
        f"blklab trace record {device} -w 10m -o /dev/shm/cached",
        "blklab cache status --json > after.json",
        "blklab cache check /dev/shm/cached --before before.json --after after.json",
    ]


def print_cache_answer(console: Console, answer: CacheAnswer, about: str, lines: Sequence[str]) -> None:
    """Prints the answer, the kinds next to each other, and what to type."""
    terminal.prose(console, cache_sentences(answer))
    terminal.draw_table(console, *_cache_tables(answer))
    console.print()
    terminal.prose(console, [Sentence("" if at else "Note", line) for at, line in enumerate(_cache_notes(answer))])
    scripts = {f"{about}: {HOW}": lines}
    if check := cache_check(answer):
        scripts["Later, to see whether the cache does what it should:"] = check
    for title, shown in scripts.items() if answer.is_worth_it else ():
        console.print()
        console.print(title)
        console.print()
        for line in shown:
            console.print(f"    {line}")


def _cache_notes(answer: CacheAnswer) -> list[str]:
    """Returns what the figures depend on."""
    notes = []
    recorded_ios = answer.question.loads[0].ios or 0
    if answer.ios < recorded_ios:
        notes.append(f"Only the first {answer.ios:,} of {recorded_ios:,} I/Os were simulated.")
    return notes + doubts(answer.question, [row.arrangement for row in answer.caches])


def cache_as_dict(answer: CacheAnswer) -> dict[str, object]:
    """Returns the JSON document: docs/reference/formats.md, "cache advice"."""
    return {
        "answer": cache_verdict(answer),
        "worth_it": answer.is_worth_it,
        "certain": answer.is_certain,
        "without": _cache_row(answer.without),
        "caches": [_cache_row(row) for row in answer.caches],
        "best": list(answer.caches).index(answer.best),
        "mean_ns_by_size": answer.by_size,
        "choices": answer.choices,
        "warm_up": asdict(answer.warm_up) if answer.warm_up else None,
        "read_first_touch_ratio": answer.curves["blocks"][0]["read_first_touch_ratio"] if answer.curves else None,
        "notes": _cache_notes(answer),
        "ios": answer.ios,
        "load": [printable(load.source) for load in answer.question.loads],
    }


def _cache_row(row: CacheFigures) -> dict[str, object]:
    arrangement = row.arrangement
    return {
        **{name: getattr(arrangement, name) for name in ("name", "words", "stacks", "failures")},
        **{key: value for key, value in vars(row).items() if key != "candidate"},
        "today": _samples(row.candidate.samples),
    }
