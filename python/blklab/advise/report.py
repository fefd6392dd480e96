"""Advice: which array to build, in the terminal, as a page and as JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict, replace

from blklab.advise import cache_report as cache_advice
from blklab.advise.answer import Answer, join_scripts
from blklab.advise.figures import YEARS, ArrangementFigures, written_a_day
from blklab.advise.report_figures import (
    HOW_TO_RUN,
    compare_choices,
    latency,
    mean_interval,
    rated_years,
    samples_as_dicts,
)
from blklab.advise.samples import Sample
from blklab.md.reliability import RAREST, in_words, one_in
from blklab.outcome import NOT_KNOWN
from blklab.render import formatting, terminal
from blklab.render.chart import Chart, Spec, chart_spec, duration_label, layer, log_ticks, quantity, tip
from blklab.render.console import Console
from blklab.render.formatting import Sentence
from blklab.render.shell import Item, PageSection, SentenceList
from blklab.render.table import TextTable, number_columns, text_column
from blklab.text.printing import printable
from blklab.units import NANOSECONDS, format_duration, format_size

HEIGHT = 320  # Of the chart, pixels
LABEL = 14  # Height and width of a label in the chart, pixels
DAY_NS = NANOSECONDS["d"]


def verdict(answer: Answer) -> str:
    """Returns the first sentence: what to build."""
    best = answer.rows[0]
    rank = "the fastest arrangement that meets the constraints"
    if answer.question.cheapest_first:
        rank = "the cheapest arrangement that meets the constraints"
    elif answer.question.largest_first:
        rank = "the largest arrangement that serves the load and seldom loses data"
    sample = best.slowest_load()
    loads = answer.question.loads
    of_load = f" of {printable(loads[best.today.index(sample)].name)}, the slowest load," if len(loads) > 1 else ""
    sentences = [f"Build {best.arrangement.words}: {rank}."]
    sentences += _describe_latencies(answer, sample, of_load)
    warning = shortfall(answer)
    if warning:
        sentences.insert(0, warning)
    if best.headroom is not None and is_headroom_known(answer, best):
        sentences.append(f"It serves {_headroom_words(best)} {load_word(answer)}.{_measured_peak(answer)}")
    if best.rated_years is not None and best.rated_years < 1:
        sentences.append(
            f"Warning: if this load never stops, it wears a flash disk out in {rated_years(best.rated_years)}: "
            "then the disk has been written as often as it is rated for."
        )
    close = numbers_as_fast(answer)
    if close:
        numbers = [1, *map(int, close)]
        sentences.append(
            f"Numbers {formatting.spans_text(numbers)} of the table may be equally fast: "
            f"they differ by less than the model's error. {_simplest(answer, numbers)}"
        )
    return " ".join(sentences)


def _simplest(answer: Answer, numbers: Sequence[int]) -> str:
    """Says which of some arrangements is the simplest: without a cache, then with the fewest arrays and disks."""
    arrangements = [row.arrangement for row in _list_arrangements(answer)]

    def parts(number: int) -> tuple[bool, int, int]:
        arrangement = arrangements[number - 1]
        disks = len(arrangement.disks) + len(arrangement.spares)
        return "cache" in arrangement.top_table, len(arrangement.stacks), disks

    simplest = min(numbers, key=parts)
    return f"The simplest of them is {simplest}."


def _describe_latencies(answer: Answer, sample: Sample, of_load: str) -> list[str]:
    """Returns the latencies of the best arrangement, or that they are not known."""
    if not sample.is_known:
        sentences = [
            f"The mean latency{of_load} is not known (nine of ten measurements: {mean_interval(sample)}): "
            "measure the disks with `blklab calibrate`."
        ]
        if answer.question.constraints.p99_ns is not None:
            sentences.append("Whether the 99th percentile is below the limit is not known, either.")
        return sentences
    low, high = (format_duration(sample.p99_ns * factor) for factor in sample.p99_interval)
    return [
        f"The mean latency{of_load} is "
        f"{formatting.duration(sample.mean_ns)} (nine of ten measurements: {mean_interval(sample)}), "
        f"the 99th percentile {formatting.duration(sample.p99_ns)} ({low} to {high})."
    ]


def is_headroom_known(answer: Answer, row: ArrangementFigures) -> bool:
    """Returns whether it is known how much the arrangement serves at most.

    How often it serves a rate depends on what it does at most, unless latency has a limit.
    """
    if has_rates(answer) and answer.question.constraints.p99_ns is None:
        return all(sample.is_known for sample in row.peak)
    return all(sample.is_known for sample in (*row.today, *row.peak))


def has_rates(answer: Answer) -> bool:
    """Returns whether every load has a rate."""
    return all(load.rate is not None for load in answer.question.loads)


def shortfall(answer: Answer) -> str:
    """Says that the best arrangement does not serve the growth of the load, and which one does; empty if it does."""
    best = answer.rows[0]
    growth = answer.question.growth
    if best.headroom is None or best.headroom >= growth or best.headroom_is_more or not is_headroom_known(answer, best):
        return ""
    rows = enumerate(answer.rows, 1)
    sufficient = [number for number, row in rows if row.headroom_is_more or (row.headroom or 0) >= growth]
    alternative = f"number {sufficient[0]} of the table does" if sufficient else "no arrangement of the table does"
    load = load_word(answer) if growth == 1 else f"{growth:g} times {load_word(answer)}"
    return f"This does not serve {load}; {alternative}."


def numbers_as_fast(answer: Answer) -> list[str]:
    """Returns the numbers of the arrangements that may be as fast as the first.

    The first can be the cheapest of them, so that others are certainly faster.
    """
    first = answer.rows[0].slowest_load()
    numbers = []
    for number, row in enumerate(_list_arrangements(answer), 1):
        least_ratio, most_ratio = first.compare_means(row.slowest_load())
        if number > 1 and least_ratio < 1 < most_ratio:
            numbers.append(str(number))
    return numbers


def _list_arrangements(answer: Answer) -> list[ArrangementFigures]:
    """Returns the arrangements in the order of their numbers."""
    return [*answer.rows, *answer.other_rows, *answer.present]


def load_word(answer: Answer) -> str:
    """Returns what the headroom is compared with: measured loads are those of today."""
    loads = answer.question.loads
    return "today's load" if any(load.timed or load.peak is not None for load in loads) else "this load"


def _measured_peak(answer: Answer) -> str:
    """Returns a sentence on the highest rate that was measured, with a space before it; empty without one."""
    peaks = [load.peak for load in answer.question.loads if load.peak is not None]
    if not peaks:
        return ""
    return f" The busiest report has {formatting.number(max(peaks))} times the mean rate."


def _wear_sentence(answer: Answer) -> str:
    """Says how much is written a day to the flash disk that is written most; empty if no rate says so."""
    best = answer.rows[0]
    if not has_rates(answer) or best.drive_writes_per_day is None:
        return ""
    disks = answer.question.disks
    written = written_a_day(answer.question, best.today)
    name = max(written, key=lambda disk: written[disk] / disks[disk].bytes)
    sentence = (
        f"At this rate, {format_size(written[name])} a day are written to the flash disk that is written most, "
        f"{formatting.number(best.drive_writes_per_day)} times its capacity."
    )
    if best.rated_years is not None:
        sentence += f" Its maker rates it for {rated_years(best.rated_years)} of this."
    return sentence


def _headroom_words(row: ArrangementFigures) -> str:
    """Returns the words X in "It serves X today's load": `3.1 times`, `less than`."""
    if row.headroom is None:
        return formatting.NONE
    if row.headroom < 1:
        return "less than"
    factor = f"{formatting.number(row.headroom)} times"
    if row.headroom_is_more:
        return f"more than {factor}"
    return factor


def _short_headroom(answer: Answer, row: ArrangementFigures) -> str:
    """Returns the same for a column."""
    if row.headroom is not None and not is_headroom_known(answer, row):
        return formatting.UNKNOWN
    return "<1" if row.headroom is not None and row.headroom < 1 else _headroom_words(row).removesuffix(" times")


def sentences(answer: Answer) -> list[Sentence]:
    """Returns the answer, its reasons, and what it depends on."""
    result = [Sentence("Answer", verdict(answer))]
    loads = "; ".join(printable(load.source) for load in answer.question.loads)
    growth_text = f", times {answer.question.growth:g}" if answer.question.growth != 1 else ""
    result.append(Sentence("Load", f"{loads}{growth_text}."))
    assumptions = [load.assumption for load in answer.question.loads if load.assumption]
    for position, assumption in enumerate(assumptions):
        result.append(Sentence("" if position else "Assumed", printable(assumption)))
    wear = _wear_sentence(answer)
    if wear:
        result.append(Sentence("Wear", wear))
    result += [Sentence("Why" if not position else "", line) for position, line in enumerate(answer.reasons)]
    result.append(Sentence("Data loss", _loss(answer)))
    if answer.cache is not None:
        best = answer.cache.best
        mean = latency(best.sample, best.sample.mean_ns)
        cache_lines = [
            f"{cache_advice.cache_words(best)}: a mean latency of {mean}. {cache_advice.size_sentence(answer.cache)}"
        ]
        if answer.cache.warm_up:
            cache_lines.append(cache_advice.warm_up_sentence(answer.cache, answer.cache.warm_up))
        cache_lines.append(cache_advice.wear_sentence(best))
        result += [Sentence("" if index else "Cache", line) for index, line in enumerate(cache_lines)]
    if changes := compare_choices(answer.rows[0].changes):
        result.append(Sentence("Choices", changes))
    if answer.options.removals:
        reasons = "; ".join(f"they {removal.reason}: {removal.count}" for removal in answer.options.removals)
        result.append(Sentence("Not considered", f"Because {reasons}."))
    return [*result, Sentence("Search", search(answer))]


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


def search(answer: Answer) -> str:
    """Says how much was simulated."""
    share = answer.result.simulated_ios / max(1, answer.full_ios)
    saving = f" The search took {formatting.share(share)} of the I/Os of simulating all in full." if share < 1 else ""
    return (
        f"{len(answer.options.fitting)} of {formatting.plural(answer.options.considered, 'arrangement')} simulated,"
        f" {answer.result.fully_simulated} of them in full, several times.{saving}"
    )


def front(answer: Answer) -> TextTable:
    """Returns the arrangements of which none is better than another in every respect: today's load."""
    return _table(answer, answer.rows, 1, "None of these is better than another in speed, capacity, failures and price")


def others(answer: Answer) -> TextTable:
    """Returns the best of each other level, and what the user named."""
    title = "The best of every other level, and what --compare named"
    return _table(answer, answer.other_rows, len(answer.rows) + 1, title)


def present(answer: Answer) -> TextTable:
    """Returns the arrays that the user has, to compare with."""
    first = len(answer.rows) + len(answer.other_rows) + 1
    return _table(answer, answer.present, first, "What you have, to compare with")


def _table(answer: Answer, arrangements: Sequence[ArrangementFigures], first: int, title: str) -> TextTable:
    has_headroom = answer.rows[0].headroom is not None
    has_price = any(row.price is not None for row in _list_arrangements(answer))
    columns = [
        *number_columns("#"),
        text_column("arrangement"),
        *number_columns("capacity", "failures", "mean", "nine of ten", "p99"),
    ]
    if has_headroom:
        columns += number_columns("headroom")
    if has_price:
        columns += number_columns("price")
    columns += number_columns("loss, 1 in")
    rows = []
    for number, row in enumerate(arrangements, first):
        cells = [
            str(number),
            row.arrangement.words,
            format_size(row.arrangement.capacity),
            str(row.arrangement.failures),
            latency(row.slowest_load(), row.slowest_load().mean_ns),
            mean_interval(row.slowest_load()),
            latency(row.slowest_load(), row.slowest_load().p99_ns),
        ]
        if has_headroom:
            cells.append(_short_headroom(answer, row))
        if has_price:
            cells.append(formatting.number(row.price))
        cells.append(_short(row.loss.any.mean))
        rows.append(cells)
    note = f"failures: disks that can fail, whichever they are; loss: probability of losing data within {YEARS} years"
    if has_headroom:
        unit = f"times {load_word(answer)}"
        note += f"; headroom: {unit} until a disk saturates, I/Os fall behind or p99 exceeds the limit"
    if not all(row.slowest_load().is_known for row in arrangements):
        note += f"; {formatting.UNKNOWN}: the upper bound is more than {NOT_KNOWN:.0f} times the lower one"
    return TextTable(title, columns, rows, note, strong=frozenset({0}) if first == 1 else frozenset())


def endurance(answer: Answer) -> TextTable:
    """Returns what the arrangements do at most, and when a disk has failed."""
    wear = any(row.drive_writes_per_day is not None for row in _list_arrangements(answer))
    columns = number_columns("#", "busy", "peak IOPS", "peak bandwidth", "p99 degraded", "rebuild", "p99 then")
    if wear:
        columns += number_columns("writes/day", "rated for")
    rows = []
    for number, row in enumerate(_list_arrangements(answer), 1):
        # The load with the highest 99th percentile, as in the first sentence and the other tables.
        peak = max(row.peak, key=lambda sample: sample.p99_ns)
        cells = [
            str(number),
            formatting.share(row.slowest_load().busy) if row.slowest_load().is_known else formatting.UNKNOWN,
            formatting.number(peak.iops) if peak.is_known else formatting.UNKNOWN,
            formatting.rate(peak.bandwidth) if peak.is_known else formatting.UNKNOWN,
            _worst(row.degraded),
            _rebuild_time(answer, row),
            _worst(row.rebuilding),
        ]
        if wear:
            cells += _wear(answer, row)
        rows.append(cells)
    note = "degraded: without one disk; rebuild: of this disk under the load"
    if wear:
        note += (
            "; writes/day: of the flash disk that is written most, in its capacities; "
            "rated for: until the first disk was written as often as its maker rates it"
        )
    return TextTable("At most, and when a disk has failed", columns, rows, note, strong=frozenset({0}))


def _rebuild_time(answer: Answer, row: ArrangementFigures) -> str:
    if row.rebuild_seconds is None:
        return formatting.NONE
    # With a load that has a rate, a rebuild is as fast as disks and md's limits allow; latency says little about it.
    samples = row.peak if has_rates(answer) else row.rebuilding
    is_known = all(sample.is_known for sample in samples)
    return formatting.duration(row.rebuild_seconds * 1e9) if is_known else formatting.UNKNOWN


def _wear(answer: Answer, row: ArrangementFigures) -> list[str]:
    """Returns the writes a day, and how long a disk is rated for: a trace says how much it writes, jobs do not."""
    pairs = zip(answer.question.loads, row.today, strict=True)
    if not all(load.is_paced or sample.is_known for load, sample in pairs):
        return [formatting.UNKNOWN] * 2
    return [formatting.number(row.drive_writes_per_day), rated_years(row.rated_years)]


def _short(probability: float) -> str:
    """Returns the N of 1 in N for a column."""
    return ">1,000,000" if probability < RAREST else one_in(probability).removeprefix("1 in ")


def losses(answer: Answer) -> TextTable:
    """Returns how likely the arrangements lose data, and how much."""
    columns = number_columns("#", "1 in", "from 1 in", "to 1 in", "bad block, 1 in", "failed disks, 1 in", "average")
    rows = []
    for number, row in enumerate(_list_arrangements(answer), 1):
        loss = row.loss
        shares = (loss.any.mean, loss.any.high, loss.any.low, loss.sectors.mean, loss.disks.mean)
        rows.append([str(number), *map(_short, shares), format_size(loss.bytes.mean)])
    note = (
        "the first loss counts; from and to: nine of ten sets of failure rates; "
        "bad block: one that cannot be read while no other copy is left; "
        "average: bytes of all such arrays, of RAID-0 those of the failed disk"
    )
    return TextTable(f"Losing data within {YEARS} years", columns, rows, note, strong=frozenset({0}))


def _worst(samples: Sequence[Sample]) -> str:
    if not samples:
        return formatting.NONE
    slowest = max(samples, key=lambda sample: sample.p99_ns)
    return latency(slowest, slowest.p99_ns)


def chart(answer: Answer) -> Chart | None:
    """Returns latency over capacity, without the arrangements whose latency is not known."""
    arrangements = _list_arrangements(answer)
    numbered_rows = [(number, row) for number, row in enumerate(arrangements, 1) if row.slowest_load().is_known]
    if len(arrangements) < 2 or not numbered_rows:
        return None
    rows: list[Spec] = [
        {
            "words": f"{number}. {row.arrangement.words}",
            "name": str(number),
            "tebibytes": row.arrangement.capacity / 2**40,
            "milliseconds": row.slowest_load().mean_ns / 1e6,
            "low": row.slowest_load().mean_bounds[0] / 1e6,
            "high": row.slowest_load().mean_bounds[1] / 1e6,
            "mean": format_duration(row.slowest_load().mean_ns),
            "interval": mean_interval(row.slowest_load()),
            "failures": str(row.arrangement.failures),
        }
        for number, row in numbered_rows
    ]
    low = min(row["low"] for row in rows) * 0.9
    high = max(row["high"] for row in rows) * 1.1
    title = "mean latency (logarithmic)"
    y: Spec = {"scale": {"type": "log", "nice": False, "domain": [low, high]}}
    y["axis"] = {"values": log_ticks(low, high), "labelExpr": duration_label("1e6 * datum.value"), "grid": True}
    largest = max(row["tebibytes"] for row in rows)
    encoding = {
        "x": quantity("tebibytes", "capacity (TiB)", scale={"domain": [0, largest * 1.06], "nice": False}),
        "y": quantity("milliseconds", title, **y),
        "color": {"field": "failures", "type": "nominal", "legend": {"title": "failures tolerated"}},
        "tooltip": [
            tip("words", "arrangement"),
            tip("tebibytes", "TiB", ".1f"),
            tip("mean", "mean latency"),
            tip("interval", "nine of ten"),
        ],
    }
    bars = layer("rule", {**encoding, "y": quantity("low", title, **y), "y2": {"field": "high"}}, opacity=0.5)
    labels = merge_labels(rows, math.log(high / low) * LABEL / HEIGHT, largest * LABEL / 320)
    texts = layer("text", {**encoding, "text": {"field": "name"}}, align="left", dx=8, fontSize=12, fill="@ink")
    points = layer("point", encoding, filled=True, size=90)
    spec = chart_spec(rows, height=HEIGHT, layer=[bars, points, {"data": {"values": labels}, **texts}])
    note = "Each point is an arrangement, with its number in the tables; its line has nine of ten measurements."
    unknown_count = len(arrangements) - len(numbered_rows)
    if unknown_count:
        note += f" {formatting.plural(unknown_count, 'arrangement')} left out: the latency is not known."
    return Chart("front", "Latency and capacity", spec, front(answer), note, wide=True)


def merge_labels(rows: Sequence[Spec], height: float, width: float) -> list[Spec]:
    """Returns the rows with the labels of points; points whose labels would cover each other share one.

    `height` is that of a label as a natural logarithm of a ratio of latencies, `width` in TiB.
    """
    labels: list[Spec] = []
    for row in sorted(rows, key=lambda row: row["milliseconds"]):
        for index, label in enumerate(labels):
            is_near = abs(row["tebibytes"] - label["tebibytes"]) < width
            if is_near and math.log(row["milliseconds"] / label["milliseconds"]) < height:
                labels[index] = {**label, "name": f"{label['name']}, {row['name']}"}
                break
        else:
            labels.append(row)
    return labels


def print_answer(console: Console, answer: Answer) -> None:
    """Prints all figures of an answer, and its reasons."""
    terminal.prose(console, sentences(answer))
    terminal.draw_table(console, front(answer), others(answer), present(answer), endurance(answer), losses(answer))
    console.print()
    terminal.prose(console, [Sentence("Note" if not index else "", line) for index, line in enumerate(answer.doubts)])


def print_script(console: Console, script: Sequence[str]) -> None:
    console.print()
    console.print(f"To build it on Debian, as root: {HOW_TO_RUN}")
    console.print()
    for line in script:
        console.print(f"    {line}")


def page_sections(answer: Answer, *, about: str, label: str) -> list[PageSection]:
    """Returns the sections of a page on an answer; `about` names its loads in headings, `label` makes names unique.

    Both are empty if the page has one answer.
    """
    front_chart = chart(answer)
    items: list[Item] = [front(answer)]
    if front_chart:
        items.append(replace(front_chart, name=f"{front_chart.name}{label}"))
    items += [table for table in (others(answer), present(answer)) if table.rows]
    items += [endurance(answer), losses(answer)]
    notes = [Sentence("Note" if not index else "", line) for index, line in enumerate(answer.doubts)]
    return [
        PageSection(f"front{label}", f"Arrangements{about}", f"Arrangements{about}", items),
        PageSection(
            f"reasons{label}", f"Reasons{about}", f"Reasons{about}", [SentenceList([*sentences(answer), *notes])]
        ),
    ]


def as_dict(answer: Answer) -> dict[str, object]:
    """Returns the JSON document: docs/reference/formats.md, "advice"."""
    return {
        "answer": verdict(answer),
        "arrangements": [_row(row) for row in answer.rows],
        "others": [_row(row) for row in answer.other_rows],
        "present": [_row(row) for row in answer.present],
        "assumed": [load.assumption for load in answer.question.loads if load.assumption],
        "why": list(answer.reasons),
        "notes": list(answer.doubts),
        "cache": cache_advice.as_dict(answer.cache) if answer.cache else None,
        "script": join_scripts([answer.script]),
        "search": {
            "considered": answer.options.considered,
            "not_simulated": [asdict(removal) for removal in answer.options.removals],
            "simulated": len(answer.options.fitting),
            "simulated_in_full": answer.result.fully_simulated,
            "ios": answer.result.simulated_ios,
            "ios_in_full": answer.full_ios,
        },
    }


def _row(row: ArrangementFigures) -> dict[str, object]:
    arrangement = row.arrangement
    document: dict[str, object] = {
        "name": arrangement.name,
        "words": arrangement.words,
        "stacks": arrangement.stacks,
        "settings": arrangement.settings,
        "disks": arrangement.disks,
        "spares": arrangement.spares,
        "failures": arrangement.failures,
        "capacity_bytes": arrangement.capacity,
    }
    document |= vars(row)  # the other figures, by the names of their fields
    del document["arrangement"]
    document["loss"] = {name: estimate._asdict() for name, estimate in row.loss._asdict().items()}
    document["today"] = samples_as_dicts(row.today)
    document["peak"] = samples_as_dicts(row.peak)
    document["degraded"] = samples_as_dicts(row.degraded)
    document["rebuilding"] = samples_as_dicts(row.rebuilding)
    return document
