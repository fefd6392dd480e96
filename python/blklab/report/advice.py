"""Advice: which array to build, in the terminal, as a page and as JSON."""

import re
from collections.abc import Sequence
from dataclasses import asdict

from blklab.advice.answer import Answer
from blklab.advice.figures import YEARS, ArrangementFigures
from blklab.advice.samples import Sample
from blklab.reliability import RAREST, in_words, one_in
from blklab.report import formatting, shell, terminal
from blklab.report.charts.base import Chart, Spec, chart_spec, layer, quantity, tip
from blklab.report.console import Console
from blklab.report.formatting import Sentence
from blklab.report.shell import PageSection, PlainText
from blklab.report.tables.base import TextTable, figures, text
from blklab.text import printable
from blklab.units import NANOSECONDS, format_duration, format_size

NEAR = 1.15  # Points of a chart with at most this ratio share a label
_DETAILS = re.compile(r", chunk \w+|,? of [^,]*|,? behind an?|\(\w+\) on .*")
DAY_NS = NANOSECONDS["d"]
SMALL = 0.02  # Changes of latency that a sentence does not list
HOW = "save this as a file, complete the names of the disks, run it with sh. It stops if a disk is not empty."


def verdict(answer: Answer) -> str:
    """Returns the first sentence: what to build."""
    best = answer.rows[0]
    which = f"the {'cheapest' if answer.question.cheapest_first else 'fastest'} arrangement that meets the constraints"
    sample = best.slowest()
    served = lacks = ""
    if best.headroom is not None:
        served = f" It serves {headroom(best)} today's load."
        growth = answer.question.growth
        if best.headroom < growth and not best.headroom_is_more:
            rows = enumerate(answer.rows, 1)
            able = [at for at, row in rows if row.headroom_is_more or (row.headroom or 0) >= growth]
            which_does = f"number {able[0]} of the table does" if able else "no arrangement of the table does"
            lacks = f"This does not serve {growth:g} times today's load; {which_does}. "
    low, high = (format_duration(sample.p99_ns * factor) for factor in sample.p99_interval)
    loads = answer.question.loads
    of_load = f" of {printable(loads[best.today.index(sample)].name)}, the slowest load," if len(loads) > 1 else ""
    return (
        f"{lacks}Build {best.arrangement.words}: {which}. The mean latency{of_load} is"
        f" {format_duration(sample.mean_ns)} (nine of ten measurements: {_bounds(sample)}), the"
        f" 99th percentile {format_duration(sample.p99_ns)} ({low} to {high}).{served}{_not_certain(answer)}"
    )


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
    return f"{'more than ' * row.headroom_is_more}{formatting.number(row.headroom)} times"


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
    if changes := _changes(answer.rows[0]):
        listed.append(Sentence("Choices", changes))
    if answer.options.removed:
        reasons = "; ".join(f"they {each.reason}: {each.count}" for each in answer.options.removed)
        listed.append(Sentence("Not considered", f"Because {reasons}."))
    return [*listed, Sentence("Search", search(answer))]


def _loss(answer: Answer) -> str:
    """Says how likely data are lost, and what this assumes."""
    loss, care = answer.rows[0].loss, answer.question.care
    checks = "are never checked"
    if care.scrub_days is not None:
        checks = f"are checked every {format_duration(care.scrub_days * DAY_NS)}"
    return (
        f"Within {YEARS} years, the probability of losing data is {in_words(loss.any)}: {one_in(loss.sectors.mean)} for"
        f" a block that cannot be read, {one_in(loss.disks.mean)} for failed disks; on average over all such arrays,"
        f" {format_size(loss.bytes.mean)} are lost. This is of disks alone, without theft, fire, mistakes and software;"
        f" failed disks are replaced after {format_duration(care.replacement_hours * DAY_NS / 24)}, arrays {checks}."
    )


def _changes(best: ArrangementFigures) -> str:
    """Says what single choices contribute to the mean latency."""
    large = [f"{_times(ratio)} with {name}" for name, ratio in best.changes.items() if abs(ratio - 1) >= SMALL]
    small = [name for name, ratio in best.changes.items() if abs(ratio - 1) < SMALL]
    found = {"If you change one thing, an I/O takes": large, "Nearly no difference": small}
    return " ".join(f"{text}: {'; '.join(names)}." for text, names in found.items() if names)


def _times(ratio: float) -> str:
    """Returns how much longer something takes."""
    if ratio >= 2:
        return f"{formatting.number(ratio)} times as long"
    return f"{abs(100 * (ratio - 1)):.0f} % {'longer' if ratio > 1 else 'less time'}"


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
    columns += figures(*["headroom"] * timed, *["price"] * priced, "loss, 1 in")
    rows = [
        [
            str(number),
            row.arrangement.words,
            format_size(row.arrangement.capacity),
            str(row.arrangement.failures),
            format_duration(row.slowest().mean_ns),
            _bounds(row.slowest()),
            format_duration(row.slowest().p99_ns),
            *([_short_headroom(row)] if timed else []),
            *([formatting.number(row.price)] if priced else []),
            _short(row.loss.any.mean),
        ]
        for number, row in enumerate(listed, first)
    ]
    note = "failures: disks that can fail, whichever they are"
    note += f"; loss: probability of losing data within {YEARS} years"
    note += "; headroom: times today's load until a disk saturates, I/Os fall behind or p99 exceeds the limit" * timed
    return TextTable(title, columns, rows, note, frozenset({0} if first == 1 else ()))


def endurance(answer: Answer) -> TextTable:
    """Returns what the arrangements do at most, and when a disk has failed."""
    wear = any(row.drive_writes_per_day is not None for row in _listed(answer))
    columns = figures("#", "busy", "peak IOPS", "peak bandwidth", "p99 degraded", "rebuild", "p99 then")
    columns += figures(*["writes/day", "rated for"] * wear)
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
            *([formatting.number(row.drive_writes_per_day), _years(row.rated_years)] if wear else []),
        ]
        rows.append(cells)
    note = "degraded: without one disk; rebuild: of this disk under the load"
    note += "; writes/day: of the flash disk that is written most, in its capacities" * wear
    note += "; rated for: until the first disk was written as often as its maker rates it" * wear
    return TextTable("At most, and when a disk has failed", columns, rows, note, frozenset({0}))


def _short(probability: float) -> str:
    """Returns the N of 1 in N for a column."""
    return ">1,000,000" if probability < RAREST else one_in(probability).removeprefix("1 in ")


def _years(years: float | None) -> str:
    return formatting.NONE if years is None else f"{float(f'{years:.1e}'):g} years" if years < 100 else ">100 years"


def losses(answer: Answer) -> TextTable:
    """Returns how likely the arrangements lose data, and how much."""
    columns = figures("#", "1 in", "from 1 in", "to 1 in", "bad block, 1 in", "failed disks, 1 in", "average")
    rows = []
    for number, row in enumerate(_listed(answer), 1):
        loss = row.loss
        shares = (loss.any.mean, loss.any.high, loss.any.low, loss.sectors.mean, loss.disks.mean)
        rows.append([str(number), *map(_short, shares), format_size(loss.bytes.mean)])
    note = (
        "the first loss counts; from and to: nine of ten sets of failure rates; bad block: one that cannot be read"
        " while no other copy is left; average: bytes of all such arrays, of RAID-0 those of the failed disk"
    )
    return TextTable(f"Losing data within {YEARS} years", columns, rows, note, frozenset({0}))


def _worst(samples: Sequence[Sample]) -> str:
    return format_duration(max(sample.p99_ns for sample in samples)) if samples else formatting.NONE


def chart(answer: Answer) -> Chart | None:
    """Returns latency over capacity."""
    every = _listed(answer)
    if len(every) < 2:
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
        for number, row in enumerate(every, 1)
    ]
    labels: list[Spec] = []
    for row in sorted(rows, key=lambda row: (round(row["tebibytes"], 1), row["milliseconds"])):
        last = labels[-1] if labels else {"tebibytes": 0, "milliseconds": 0}
        if abs(row["tebibytes"] - last["tebibytes"]) < 0.1 and row["milliseconds"] < NEAR * last["milliseconds"]:
            labels[-1] = {**last, "name": f"{last['name']}; {row['name']}"}  # they would cover each other
        else:
            labels.append(row)
    encoding = {
        "x": quantity("tebibytes", "capacity, TiB"),
        "y": quantity("milliseconds", "mean latency, ms", scale={"type": "log", "nice": False}, axis={"tickCount": 4}),
        "color": {"field": "failures", "type": "nominal", "legend": {"title": "failures tolerated"}},
        "tooltip": [tip("words", "arrangement"), tip("tebibytes", "TiB", ".1f"), tip("milliseconds", "ms", ".3f")],
    }
    bars = layer("rule", {**encoding, "y": quantity("low"), "y2": {"field": "high"}}, opacity=0.5)
    middle = max(row["tebibytes"] for row in rows) / 2
    names = [
        {
            "data": {"values": [label for label in labels if (label["tebibytes"] > middle) == is_right]},
            **layer("text", {**encoding, "text": {"field": "name"}}, align=align, dx=dx, fontSize=11, fill="@ink"),
        }
        for is_right, align, dx in ((True, "right", -7), (False, "left", 7))
    ]
    spec = chart_spec(rows, height=300, layer=[bars, layer("point", encoding, filled=True, size=90), *names])
    note = (
        "Each point is an arrangement, with its number in the tables; its line is where nine of ten measurements are."
    )
    return Chart("front", "Latency and capacity", spec, front(answer), note, wide=True)


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
    drawn = chart(answer)
    tables = [
        *(table for table in (front(answer), others(answer), present(answer)) if table.rows),
        endurance(answer),
        losses(answer),
    ]
    script = PlainText(HOW[0].upper() + HOW[1:], "\n".join(answer.script), wrapped=True)
    sections = [
        PageSection("front", "Arrangements", "Arrangements", [*([drawn] if drawn else []), *tables]),
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
    of = row.arrangement
    names = ("name", "words", "stacks", "settings", "disks", "spares", "failures")
    return {
        **{name: getattr(of, name) for name in names},
        "capacity_bytes": of.capacity,
        **{key: value for key, value in vars(row).items() if key != "arrangement"},
        "loss": {name: estimate._asdict() for name, estimate in row.loss._asdict().items()},
        **{key: _samples(getattr(row, key)) for key in ("today", "peak", "degraded", "rebuilding")},
    }


def _samples(samples: Sequence[Sample]) -> list[dict[str, object]]:
    return [{key: value for key, value in asdict(sample).items() if key != "batches"} for sample in samples]
