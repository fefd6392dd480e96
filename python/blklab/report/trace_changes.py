"""What changed from one recording to another, and whether the change can be chance.

A recording is one run: its variation is that of its time slices. Medians and percentiles vary as those of the slices
do, relative to their mean (batching: Seila, "A batching approach to quantile estimation in regenerative simulations",
Management Science 28(5), 1982). All intervals hold together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

from blklab.analysis.decision import MARGIN, Decision, Rule, decide
from blklab.analysis.metrics import Metric
from blklab.analysis.variation import RunSample
from blklab.documents.profile import SliceProfile
from blklab.report import formatting
from blklab.report.view import DeviceView

FEWEST_IN_SLICE: Final = {"p50": 10, "p99": 100}
"""I/Os in the median slice from which its quantile says something about that of the recording."""

Series = Callable[[SliceProfile], float | None]


@dataclass(frozen=True)
class TraceMetric:
    """A figure of a recording, with its course over time."""

    name: str
    title: str
    kind: str  # `rate`, `bandwidth`, `time`, `size` or `share`: how it is printed
    value: Callable[[DeviceView], float | None]
    series: Series
    quantile: str = ""  # The key of a latency: `p50` or `p99`


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
    there = [(metric, values) for metric, values in pairs if any(values)]
    many = sum(all(values) for _, values in there)
    return [TraceChange(metric, values, _decide(metric, sides, values, many, paired)) for metric, values in there]


def _decide(
    metric: TraceMetric, sides: Sequence[DeviceView], values: Sequence[float | None], many: int, paired: bool
) -> Decision | None:
    if values[0] is None or values[1] is None:
        return None
    courses = [_course(metric, side) for side in sides]
    if paired and sides[0].slices()[0] == sides[1].slices()[0]:
        # By the delta method, the logarithm of a ratio varies as the difference of the relative courses.
        common = sorted(courses[0].keys() & courses[1].keys())
        relative = [_scaled([course[at] for at in common], 1.0) for course in courses]
        ratio = values[1] / values[0]
        course = [ratio * (1 + second - first) for first, second in zip(*relative, strict=True)]
        samples = [[RunSample(1.0, [1.0] * len(course))], [RunSample(ratio, course)]]
    else:
        samples = [
            [RunSample(value or 0.0, _scaled([*course.values()], value or 0.0))]
            for value, course in zip(values, courses, strict=True)
        ]
    rule = Rule(Metric(metric.name, metric.title, metric.kind, True, lambda _: None))
    return decide(samples, [0, 1], [([0], [1])], rule, many)[0]


def _scaled(course: Sequence[float], mean: float) -> list[float]:
    total = sum(course)
    return [value * len(course) * mean / total for value in course] if total else []


def _course(metric: TraceMetric, side: DeviceView) -> dict[int, float]:
    """Returns the metric in each complete time slice, by the start of the slice."""
    slices = side.slices()[1][1:-1]
    if least := FEWEST_IN_SLICE.get(metric.quantile):
        direction = metric.name.split(".")[0]
        counts = sorted(cast(dict[str, int], slice_)[f"{direction}s"] for slice_ in slices)
        if not counts or counts[len(counts) // 2] < least:
            return {}
    return {slice_["start_ns"]: value for slice_ in slices if (value := metric.series(slice_)) is not None}


def figure(metric: TraceMetric, value: float | None) -> str:
    """Returns a value with its unit."""
    forms = {
        "time": formatting.duration,
        "bandwidth": formatting.rate,
        "size": formatting.size,
        "share": formatting.share,
        "rate": formatting.number,
    }
    return forms[metric.kind](value)


def _per_second(amount: Callable[[DeviceView], int]) -> Callable[[DeviceView], float | None]:
    return lambda side: amount(side) / (side.span_ns / 1e9) if side.span_ns else None


def _latency(direction: str, key: str) -> Callable[[DeviceView], float | None]:
    def value(side: DeviceView) -> float | None:
        response = side.response(direction)
        return cast(dict[str, float | None], response[1])[key] if response else None

    return value


def _of_direction(direction: str) -> list[TraceMetric]:
    def ios(slice_: SliceProfile) -> int:
        return slice_["reads"] if direction == "read" else slice_["writes"]

    def transferred(slice_: SliceProfile) -> int:
        return slice_["read_bytes"] if direction == "read" else slice_["write_bytes"]

    def size(slice_: SliceProfile) -> float | None:
        return transferred(slice_) / ios(slice_) if ios(slice_) else None

    def quantile(key: str) -> Series:
        return lambda slice_: cast(dict[str, float | None], slice_)[f"{direction}_{key}_ns"]

    return [
        TraceMetric(
            f"{direction}.iops", f"{direction}s a second", "rate", _per_second(lambda s: s.op(direction)["ios"]), ios
        ),
        TraceMetric(
            f"{direction}.bw",
            f"{direction} bandwidth",
            "bandwidth",
            _per_second(lambda s: s.op(direction)["bytes"]),
            transferred,
        ),
        TraceMetric(
            f"{direction}.size",
            f"mean {direction} size",
            "size",
            lambda s: s.op(direction)["bytes"] / n if (n := s.op(direction)["ios"]) else None,
            size,
        ),
        *(
            TraceMetric(
                f"{direction}.{key}",
                f"{words} {direction} latency",
                "time",
                _latency(direction, key),
                quantile(key),
                quantile=key,
            )
            for key, words in (("p50", "median"), ("p99", "99th percentile of the"))
        ),
    ]


METRICS: Final = (  # The metrics in the order of the table
    TraceMetric(
        "iops", "IOPS", "rate", lambda side: side.iops, lambda s: float(s["reads"] + s["writes"] + s["others"])
    ),
    *_of_direction("read"),
    *_of_direction("write"),
)
