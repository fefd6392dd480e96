"""Two recordings side by side, in the terminal and as a page: what changed, and whether that can be chance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from operator import attrgetter
from typing import Any

from blklab.compare import figure_text as comparison
from blklab.compare import report as comparison_report
from blklab.compare.decision import MARGIN, Decision, Rule, decide
from blklab.compare.metrics import Metric
from blklab.compare.variation import RunSample
from blklab.diagnostic import Diagnostic
from blklab.documents.profile import SliceProfile
from blklab.render import diagnostics, formatting, shell, terminal
from blklab.render.console import Console, style_text
from blklab.render.formatting import Sentence
from blklab.render.shell import PageSection, SentenceList
from blklab.render.table import TableColumn, TextTable, number_columns, text_column
from blklab.trace import terminal as trace_terminal
from blklab.trace.charts import over_time
from blklab.trace.sentences import sentences
from blklab.trace.tables import devices, trace
from blklab.trace.view import DeviceView, ProfileView

SIDES = ("A", "B")
VERDICTS = {"differs": "differs", "chance": "may be chance", "unknown": "cannot tell: too few I/Os"}

LEVEL = "95 % interval"
INTERVALS = (
    "The 95 % intervals hold together. They come from the variation within each recording: "
    "of latencies from one block of I/Os to the next, of other figures over time:"
)
NOTE = f"{INTERVALS} two recordings that differ do not show that all such recordings do."

MOST_IN_HEADLINE = 4
LENGTHS = 2.0  # Ratio of the lengths of two recordings from which a note says so


Series = Callable[[SliceProfile], float | None]


@dataclass(frozen=True)
class TraceMetric:
    """A figure of a recording, with its course over time."""

    name: str
    title: str
    kind: str  # `rate`, `bandwidth`, `time` or `size`: how it is printed
    value: Callable[[DeviceView], float | None]
    series: Series | None  # None for a latency: its course is that of blocks of I/Os


@dataclass(frozen=True)
class TraceChange:
    """One metric of two recordings."""

    metric: TraceMetric
    values: tuple[float | None, float | None]
    decision: Decision | None  # None if a recording has no such figure

    @property
    def verdict(self) -> str:
        """`differs`, `same`, `chance` (the interval includes no change), `unknown` or `one-sided`."""
        if self.decision is None:
            return "one-sided"
        if self.decision.low is None or self.decision.high is None:
            return "unknown"
        if self.decision.verdict == "differ":
            return "differs"
        return "same" if self.largest <= MARGIN else "chance"

    @property
    def largest(self) -> float:
        """The largest change in the interval."""
        return max(abs(self.decision.low or 0.0), abs(self.decision.high or 0.0)) if self.decision else 0.0


def changes(sides: Sequence[DeviceView], *, paired: bool) -> list[TraceChange]:
    """Returns the metrics that at least one of two devices has, each with its change.

    `paired` devices were recorded at the same time: what changed for both at once is no difference between them.
    """
    pairs = [(metric, (metric.value(sides[0]) or None, metric.value(sides[1]) or None)) for metric in METRICS]
    metric_values = [(metric, values) for metric, values in pairs if any(values)]
    many = sum(all(values) for _, values in metric_values)
    return [
        TraceChange(metric, values, _decide(metric, sides, values, many, paired)) for metric, values in metric_values
    ]


def _decide(
    metric: TraceMetric, sides: Sequence[DeviceView], values: Sequence[float | None], many: int, paired: bool
) -> Decision | None:
    if values[0] is None or values[1] is None:
        return None
    courses = [_course(metric, side) for side in sides]
    if paired and metric.series and sides[0].slices()[0] == sides[1].slices()[0]:
        # By the delta method, the logarithm of a ratio varies as the difference of the relative courses.
        common = sorted(courses[0].keys() & courses[1].keys())
        first_course = _scale_course([courses[0][start] for start in common], 1.0)
        second_course = _scale_course([courses[1][start] for start in common], 1.0)
        ratio = values[1] / values[0]
        course = [ratio * (1 + second - first) for first, second in zip(first_course, second_course, strict=True)]
        samples = [[RunSample(1.0, [1.0] * len(course))], [RunSample(ratio, course)]]
    else:
        samples = [
            [RunSample(value or 0.0, _scale_course([*course.values()], value or 0.0))]
            for value, course in zip(values, courses, strict=True)
        ]
    rule = Rule(Metric(metric.name, metric.title, metric.kind, True, lambda _: None), look=1)
    return decide(samples, [0, 1], [([0], [1])], rule, many)[0]


def _scale_course(course: Sequence[float], mean: float) -> list[float]:
    total = sum(course)
    return [value * len(course) * mean / total for value in course] if total else []


def _course(metric: TraceMetric, side: DeviceView) -> dict[int, float]:
    """Returns the metric in each complete time slice by its start, or in each block of I/Os by its place."""
    if metric.series is None:
        direction, key = metric.name.split(".")
        blocks = getattr(side.data.latency_blocks, direction)
        latencies = blocks.p50_ns if key == "p50" else blocks.p99_ns
        return dict(enumerate(map(float, latencies)))
    course = {}
    for interval in side.slices()[1][1:-1]:
        value = metric.series(interval)
        if value is not None:
            course[interval.start_ns] = value
    return course


FORMS = {"time": formatting.duration, "bandwidth": formatting.rate, "size": formatting.size, "rate": formatting.number}


def _per_second(direction: str, key: str) -> Callable[[DeviceView], float | None]:
    return lambda side: getattr(side.op(direction), key) / (side.span_ns / 1e9) if side.span_ns else None


def _latency(direction: str, key: str) -> Callable[[DeviceView], float | None]:
    def latency(side: DeviceView) -> float | None:
        response = side.response(direction)
        return getattr(response[1], key) if response else None

    return latency


def _mean_size(direction: str) -> Callable[[DeviceView], float | None]:
    def mean_size(side: DeviceView) -> float | None:
        operation = side.op(direction)
        return operation.bytes / operation.ios if operation.ios else None

    return mean_size


def _of_direction(direction: str) -> list[TraceMetric]:
    ios = attrgetter(f"{direction}s")
    byte_counter = attrgetter(f"{direction}_bytes")
    bandwidth = _per_second(direction, "bytes")
    return [
        TraceMetric(f"{direction}.iops", f"{direction}s a second", "rate", _per_second(direction, "ios"), ios),
        TraceMetric(f"{direction}.bw", f"{direction} bandwidth", "bandwidth", bandwidth, byte_counter),
        TraceMetric(
            f"{direction}.size",
            f"mean {direction} size",
            "size",
            _mean_size(direction),
            lambda interval: byte_counter(interval) / ios(interval) if ios(interval) else None,
        ),
        *(
            TraceMetric(f"{direction}.{key}", f"{phrase} {direction} latency", "time", _latency(direction, key), None)
            for key, phrase in (("p50", "median"), ("p99", "99th percentile of the"))
        ),
    ]


METRICS = (  # The metrics in the order of the table
    TraceMetric("iops", "IOPS", "rate", lambda side: side.iops, lambda s: float(s.reads + s.writes + s.others)),
    *_of_direction("read"),
    *_of_direction("write"),
)


@dataclass(frozen=True)
class TraceDiff:
    """Two recordings."""

    names: Sequence[str]
    views: Sequence[ProfileView]
    sides: Sequence[DeviceView]  # The device of each recording that is compared

    @cached_property
    def changes(self) -> list[TraceChange]:
        """The metrics of both devices."""
        return changes(self.sides, paired=self.views[0] is self.views[1])

    def headline(self) -> str:
        """Returns the largest changes, and the direction that only one side has, in one or two sentences."""
        certain = {change.metric.name: change for change in self.changes if change.verdict == "differs"}
        for direction in ("read", "write"):
            if f"{direction}.iops" in certain:
                certain.pop(f"{direction}.bw", None)
        largest = sorted(certain.values(), key=_size, reverse=True)[:MOST_IN_HEADLINE]
        text = "A and B do not differ in load or latency by more than they vary over time."
        if largest:
            parts = [f"{change.metric.title} {_change(change)}" for change in largest]
            text = f"B differs from A: {', '.join(parts)}."
        for change in self.changes:
            if change.verdict == "one-sided" and change.metric.name.endswith(".iops"):
                text += f" Only {_only(change)} has {change.metric.name.split('.')[0]}s."
        return text

    def sentences(self) -> list[Sentence]:
        """Returns each sentence about A and about B."""
        result = []
        for pair in zip(*(sentences(side) for side in self.sides), strict=True):
            for name, sentence in zip(SIDES, pair, strict=True):
                result.append(Sentence(f"{sentence.topic} {name}", sentence.text))
        return result

    def tables(self) -> list[TextTable]:
        """Returns the tables that are not equal on both sides."""
        tables = []
        if any(len(view.devices) > 1 for view in self.views):
            tables.append(side_by_side([devices.overview(view) for view in self.views], SIDES))
        for build in trace_terminal.DETAILS:
            tables.append(side_by_side([build(side) for side in self.sides], SIDES))
        return [table for table in tables if table]

    def doubts(self) -> list[Diagnostic]:
        """Returns what makes the recordings hard to compare, then the doubts about each of them."""
        first, second = self.sides
        doubts = []
        if first.start != second.start:
            message = f"I/Os of A are counted from {first.start} events, those of B from {second.start}"
            doubts.append(trace.doubt("other-start", f"{message}: counts and latencies are not comparable"))
        lengths = sorted((first.span_ns, second.span_ns))
        if lengths[0] * LENGTHS < lengths[1]:
            longer = " and ".join(formatting.duration(length) for length in (first.span_ns, second.span_ns))
            message = f"the recordings are {longer} long: compare rates and latencies, not counts"
            doubts.append(trace.doubt("other-length", message))
        for name, view in zip(SIDES, self.views, strict=True):
            doubts += [
                replace(diagnostic, subject=f"{name} {diagnostic.subject}".strip())
                for diagnostic in trace.diagnose(view)
                if diagnostic.severity != "note"
            ]
        return doubts

    def as_dict(self) -> dict[str, Any]:
        """Returns the comparison for `--json`."""
        return {
            "sides": [
                {"name": name, "device": side.number, "label": side.label, "span_ns": side.span_ns}
                for name, side in zip(self.names, self.sides, strict=True)
            ],
            "headline": self.headline(),
            "changes": [_change_as_dict(change) for change in self.changes],
            "sentences": [
                {"topic": a.topic, "a": a.text, "b": b.text}
                for a, b in zip(*(sentences(side) for side in self.sides), strict=True)
            ],
            "doubts": [diagnostics.as_dict(doubt) for doubt in self.doubts()],
        }


def _change_as_dict(change: TraceChange) -> dict[str, Any]:
    document: dict[str, Any] = {
        "metric": change.metric.name,
        "a": change.values[0],
        "b": change.values[1],
        "verdict": change.verdict,
    }
    for key in ("change", "low", "high", "p"):
        document[key] = getattr(change.decision, key) if change.decision else None
    return document


def changes_table(diff: TraceDiff) -> TextTable:
    """Returns the metrics of A and B with their changes and verdicts."""
    rows = []
    for change in diff.changes:
        a, b = map(FORMS[change.metric.kind], change.values)
        rows.append([change.metric.title, a, b, *comparison_report.difference(change.decision), _verdict(change)])
    columns = [
        text_column(""),
        *number_columns("A", "B", "change"),
        TableColumn(LEVEL),
        TableColumn("p"),
        text_column(""),
    ]
    return TextTable("What changed", columns, rows, NOTE, spare=("p", LEVEL), explanations={LEVEL: INTERVALS})


def _verdict(change: TraceChange) -> str:
    if change.verdict == "one-sided":
        return f"only in {_only(change)}"
    if change.verdict == "same":
        return f"same within ±{formatting.share(change.largest)}" if change.largest else "same"
    return VERDICTS[change.verdict]


def _only(change: TraceChange) -> str:
    return SIDES[0] if change.values[0] else SIDES[1]


def _size(change: TraceChange) -> float:
    ratio = 1 + (change.decision.change if change.decision else 0.0)
    return max(ratio, 1 / ratio) if ratio > 0 else 0.0


def _change(change: TraceChange) -> str:
    ratio = 1 + (change.decision.change if change.decision else 0.0)
    return f"{formatting.number(ratio)} times" if ratio >= 2 else comparison.change(ratio - 1)


def facts(diff: TraceDiff) -> list[str]:
    """Returns a line about each side: its name and amounts."""
    return [
        f"{side}: {name}, {' · '.join([device.label, *trace.headline(view)])}"
        for side, name, view, device in zip(SIDES, diff.names, diff.views, diff.sides, strict=True)
    ]


def print_diff(console: Console, diff: TraceDiff) -> None:
    for fact in facts(diff):
        console.print(style_text(fact, "dim"))
    console.print()
    terminal.prose(console, [Sentence("Change", diff.headline()), *diff.sentences()])
    terminal.draw_table(console, changes_table(diff), *diff.tables())
    diagnostics.print_diagnostics(console, diff.doubts(), "Diagnostics", limit=40)


def render(diff: TraceDiff, *, title: str | None = None, command: str = "") -> str:
    """Returns the page; `command` created it."""
    pairs = zip_longest(*map(over_time.charts_of_side, diff.sides, SIDES))  # Each chart of A, then that of B
    drawn = [chart for pair in pairs for chart in pair if chart]
    sections = [
        PageSection("changes", "Changes", "What changed", [changes_table(diff)]),
        PageSection("time", "Over time", "Over time", drawn),
        PageSection("sentences", "Sentences", "Both workloads", [SentenceList(diff.sentences())]),
        PageSection("tables", "Tables", "Figures that differ", diff.tables()),
    ]
    return shell.render(
        "trace_diff.html.j2",
        [section for section in sections if section],
        title=title or f"{diff.names[0]} and {diff.names[1]}",
        facts=facts(diff),
        sentences=[Sentence("Change", diff.headline())],
        doubts=diagnostics.sentences(diff.doubts()),
        command=command,
    )


Heading = tuple[str, bool, int]  # Heading, whether it is a bar, and its number among equal ones

Key = tuple[str, ...]


def side_by_side(tables: Sequence[TextTable], names: Sequence[str]) -> TextTable:
    """Returns one table with the rows of several; empty if they are equal.

    Rows are matched by their texts, and by the first figure where these are not unique. A row that is equal on all
    sides is left out.
    """
    by_heading: dict[Heading, TableColumn] = {}
    for table in tables:
        by_heading |= zip(_headings(table), table.columns, strict=True)
    key_headings = [heading for heading, column in by_heading.items() if not column.numeric and not column.bar]
    value_headings = [heading for heading in by_heading if heading not in key_headings]
    cells = [_rows(table, key_headings) for table in tables]
    if not all(len(rows) == len(table.rows) for rows, table in zip(cells, tables, strict=True)):
        key_headings = [*key_headings, value_headings[0]]
        value_headings = value_headings[1:]
        cells = [_rows(table, key_headings) for table in tables]
    rows = []
    for key in dict.fromkeys(key for side in cells for key in side):
        row_pair = [side.get(key) for side in cells]
        if any(row_pair) and any(row != row_pair[0] for row in row_pair):
            for name, row in zip(names, row_pair, strict=True):
                key_cells = list(key) if name == names[0] else [""] * len(key)
                value_cells = [
                    (row or {}).get(heading, "" if heading[1] else formatting.NONE) for heading in value_headings
                ]
                rows.append([*key_cells, name, *value_cells])
    columns = [by_heading[heading] for heading in key_headings]
    columns += [text_column(""), *(by_heading[heading] for heading in value_headings)]
    first_table = next((table for table in tables if table), tables[0])
    return TextTable(first_table.title, columns, rows, spare=first_table.spare)


def _headings(table: TextTable) -> list[Heading]:
    names: list[tuple[str, bool]] = []
    result = []
    for column in table.columns:
        name = (column.heading, column.bar)
        result.append((*name, names.count(name)))
        names.append(name)
    return result


def _rows(table: TextTable, key_headings: Sequence[Heading]) -> dict[Key, dict[Heading, str]]:
    """Returns the cells of each row by heading; an empty text repeats the one above."""
    result: dict[Key, dict[Heading, str]] = {}
    above: dict[Heading, str] = {}
    for row in table.rows:
        cells = dict(zip(_headings(table), row, strict=True))
        above = {heading: cells.get(heading, "") or above.get(heading, "") for heading in key_headings}
        result[tuple(above.values())] = cells
    return result
