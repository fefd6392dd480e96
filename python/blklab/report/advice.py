"""Advice: which array to build, in the terminal, as a page and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict

from blklab.advice.answer import Answer
from blklab.advice.figures import ArrangementFigures
from blklab.advice.samples import Sample
from blklab.report import formatting, shell, terminal
from blklab.report.charts.base import Chart, chart_spec, layer, quantity, tip
from blklab.report.console import Console
from blklab.report.formatting import Sentence
from blklab.report.shell import PageSection, PlainText
from blklab.report.tables.base import TextTable, figures, text
from blklab.text import printable
from blklab.units import format_duration, format_size

SMALL = 0.02  # Changes of latency that a sentence does not list


def verdict(answer: Answer) -> str:
    """Returns the first sentence: what to build."""
    best, wanted = answer.rows[0], answer.question.constraints
    cheapest = wanted.p99_ns is not None and answer.question.priced
    which = f"the {'cheapest' if cheapest else 'fastest'} arrangement that meets the constraints"
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
        f" {format_duration(sample.mean_ns)}, the"
        f" 99th percentile {format_duration(sample.p99_ns)} (nine of ten measurements: {low} to {high}).{served}"
    )


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
    if changes := _changes(answer.rows[0]):
        listed.append(Sentence("Choices", changes))
    return [*listed, Sentence("Search", search(answer))]


def _changes(best: ArrangementFigures) -> str:
    """Says what single choices contribute to the mean latency."""
    large = [f"{name} {100 * (ratio - 1):+.0f} %" for name, ratio in best.changes.items() if abs(ratio - 1) >= SMALL]
    small = [name for name, ratio in best.changes.items() if abs(ratio - 1) < SMALL]
    found = {
        "With one choice changed, I/Os take longer or shorter": large,
        "These changes have nearly no effect": small,
    }
    return " ".join(f"{text}: {', '.join(names)}." for text, names in found.items() if names)


def search(answer: Answer) -> str:
    """Says how many arrangements were considered, and why the others were not simulated."""
    removed = "; ".join(f"{each.count} {each.reason}" for each in answer.removed)
    share = answer.simulated_ios / max(1, answer.full_ios)
    saved = f": {formatting.share(share)} of the I/Os of simulating all in full" if share < 1 else ""
    return (
        f"{formatting.plural(answer.candidates, 'arrangement')} considered. Not simulated: {removed or 'none'}."
        f" {answer.fitting} simulated, {answer.fully_simulated} of them in full{saved}."
    )


def front(answer: Answer) -> TextTable:
    """Returns the arrangements of which none is better than another in every respect: today's load."""
    return _table(answer, answer.rows, 1, "None of these is better than another in every respect")


def present(answer: Answer) -> TextTable:
    """Returns the arrays that the user has, to compare with."""
    return _table(answer, answer.present, len(answer.rows) + 1, "What you have, to compare with")


def _table(answer: Answer, listed: Sequence[ArrangementFigures], first: int, title: str) -> TextTable:
    timed = answer.rows[0].headroom is not None
    priced = any(row.price is not None for row in [*answer.rows, *answer.present])
    columns = [*figures("#"), text("arrangement"), *figures("capacity", "failures", "mean", "p99")]
    columns += figures(*["headroom"] * timed, *["price"] * priced)
    rows = [
        [
            str(number),
            row.arrangement.words,
            format_size(row.arrangement.capacity),
            str(row.arrangement.failures),
            *map(format_duration, (row.slowest().mean_ns, row.slowest().p99_ns)),
            *([_short_headroom(row)] if timed else []),
            *([formatting.number(row.price)] if priced else []),
        ]
        for number, row in enumerate(listed, first)
    ]
    note = "failures: disks that can fail, whichever they are"
    note += "; headroom: times today's load until a disk saturates, I/Os fall behind or p99 exceeds the limit" * timed
    return TextTable(title, columns, rows, note, frozenset({0}))


def endurance(answer: Answer) -> TextTable:
    """Returns what the arrangements do at most, and when a disk has failed."""
    wear = any(row.drive_writes_per_day is not None for row in [*answer.rows, *answer.present])
    columns = figures("#", "busy", "peak IOPS", "peak bandwidth", "p99 degraded", "rebuild", "p99 then")
    columns += figures(*["writes/day"] * wear)
    rows = []
    for number, row in enumerate([*answer.rows, *answer.present], 1):
        peak = max(row.peak, key=lambda sample: sample.p99_ns)
        cells = [
            str(number),
            formatting.share(row.slowest().busy),
            formatting.number(peak.iops),
            formatting.rate(peak.bandwidth),
            _worst(row.degraded),
            formatting.duration(None if row.rebuild_seconds is None else row.rebuild_seconds * 1e9),
            _worst(row.rebuilding),
            *([formatting.number(row.drive_writes_per_day)] if wear else []),
        ]
        rows.append(cells)
    note = "degraded: without one disk; rebuild: of this disk under the load"
    note += "; writes/day: of the flash disk that is written most, in its capacities" * wear
    return TextTable("At most, and when a disk has failed", columns, rows, note, frozenset({0}))


def _worst(samples: Sequence[Sample]) -> str:
    return format_duration(max(sample.p99_ns for sample in samples)) if samples else formatting.NONE


def chart(answer: Answer) -> Chart | None:
    """Returns latency over capacity."""
    every = [*answer.rows, *answer.present]
    if len(every) < 2:
        return None
    table = front(answer)
    rows = [
        {
            "words": f"{number}. {row.arrangement.words}",
            "tebibytes": row.arrangement.capacity / 2**40,
            "milliseconds": row.slowest().mean_ns / 1e6,
            "failures": str(row.arrangement.failures),
        }
        for number, row in enumerate(every, 1)
    ]
    encoding = {
        "x": quantity("tebibytes", "capacity, TiB"),
        "y": quantity("milliseconds", "mean latency, ms", scale={"type": "log"}),
        "color": {"field": "failures", "type": "nominal", "legend": {"title": "failures tolerated"}},
        "tooltip": [tip("words", "arrangement"), tip("tebibytes", "TiB", ".1f"), tip("milliseconds", "ms", ".3f")],
    }
    spec = chart_spec(rows, layer=[layer("point", encoding, filled=True, size=90)])
    return Chart("front", "Latency and capacity", spec, table, "Each point is an arrangement of the table.", wide=True)


def print_answer(console: Console, answer: Answer) -> None:
    """Prints the answer, the table and what to type."""
    terminal.prose(console, sentences(answer))
    terminal.draw_table(console, front(answer), present(answer), endurance(answer))
    console.print()
    terminal.prose(console, [Sentence("Note" if not at else "", line) for at, line in enumerate(answer.doubts)])
    console.print()
    console.print("What to do on Debian, as root: save this as a file and run it with sh. It needs empty disks.")
    console.print()
    for line in answer.script:
        console.print(f"    {line}")


def render(answer: Answer, *, title: str, command: str) -> str:
    """Returns the page; `command` created it."""
    drawn = chart(answer)
    tables = [front(answer), *([present(answer)] if answer.present else []), endurance(answer)]
    script = PlainText("Run it with sh: it needs empty disks", "\n".join(answer.script))
    sections = [
        PageSection("front", "Arrangements", "Arrangements", [*([drawn] if drawn else []), *tables]),
        PageSection("script", "Script", "What to do on Debian, as root", [script]),
    ]
    return shell.render(
        "document.html.j2",
        sections,
        kicker="advice",
        title=title,
        facts=[printable(load.source) for load in answer.question.loads],
        sentences=sentences(answer),
        doubts=[Sentence("Note", line) for line in answer.doubts],
        command=command,
    )


def as_dict(answer: Answer) -> dict[str, object]:
    """Returns the JSON document: docs/reference/formats.md, "advice"."""
    return {
        "answer": verdict(answer),
        "arrangements": [_row(row) for row in answer.rows],
        "present": [_row(row) for row in answer.present],
        "why": list(answer.why),
        "notes": list(answer.doubts),
        "script": list(answer.script),
        "search": {
            "considered": answer.candidates,
            "not_simulated": [asdict(each) for each in answer.removed],
            "simulated": answer.fitting,
            "simulated_in_full": answer.fully_simulated,
            "ios": answer.simulated_ios,
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
        **{key: _samples(getattr(row, key)) for key in ("today", "peak", "degraded", "rebuilding")},
    }


def _samples(samples: Sequence[Sample]) -> list[dict[str, object]]:
    return [{key: value for key, value in asdict(sample).items() if key != "batches"} for sample in samples]
