"""Predict what fio measured elsewhere: the experiment for its results, and what the predictions are worth.

`as_experiment` makes an experiment of imported results, whose figures are in its tables [[measured]]. `judge` compares
such figures with predictions: inside or outside of the interval, and what is known about the cause of a miss.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tomli_w
from pydantic import ValidationError

from blklab.calibrate import observations
from blklab.compare.comparison import LOAD, PLACES
from blklab.compare.decision import Decision, Rule, decide, intervals
from blklab.compare.explain import BUSY as SATURATED
from blklab.compare.explain import explain, saturation
from blklab.compare.measured_disks import describe_unlike_disks
from blklab.compare.metrics import METRICS, Metric, lowest_devices
from blklab.compare.samples import model_error
from blklab.compare.variation import RunSample
from blklab.devices.stock_models import library_model
from blklab.errors import UsageError
from blklab.experiment import fio_job, schema
from blklab.experiment.cells import Cell, ExperimentPlan, note_ignored_options
from blklab.experiment.tables import MeasuredFigures
from blklab.experiment.workload import Job
from blklab.fio import option_values
from blklab.fio.known_options import ALIASES, HARMLESS, OFF
from blklab.grouping import by_key
from blklab.outcome import NOMINAL, DirectionResult, FioFacts, LatencyResult, Outcome, target_devices
from blklab.text.natural_order import natural_order
from blklab.toml_files import problems
from blklab.units import format_duration

Table = dict[str, Any]

JUDGED_METRICS = ("iops", "read.mean", "write.mean")  # The metrics that [[measured]] has
OTHER_SHARE = 0.1  # The shares of devices differ if they are so far apart
CONTRIBUTES = 0.5  # A disk alone explains a miss if its own error is at least this part of it, both logarithmic
BEYOND = 1.5  # More than a saturated device serves: so many times the prediction
SHORT_NS = 10 * 10**9  # A shorter run shows caches and the start of a load
NO_WIDTH = 1.001  # The ratio of the ends of an interval that has no width
UNLIKELY = 0.05  # Fewer measurements are inside than chance explains, if this is less probable
BUSY = 0.9  # The share of the time from which on the processor of a job is the limit
IOS = 100_000  # The I/Os of a simulated cell, unless a cache must learn first


# --- from results to an experiment ---------------------------------------------------------------


@dataclass(frozen=True)
class MeasuredRun:
    """A run that fio measured: its labels, figures, and where they are from."""

    labels: Mapping[str, str]
    outcome: Outcome
    source: str
    all_options: bool  # Whether all options of its jobs are known; fio's text has a few of them

    @property
    def place(self) -> str:
        """The name of what it measured: a valid name of a stack."""
        files = [options.get("filename", "") for options in self.outcome.job_options.values()]
        candidates = [self.labels.get(label) for label in ("stack", "source", "device")]
        candidates += [target_devices(self.outcome), self.labels.get("file"), files[0] if len(set(files)) == 1 else ""]
        name = next(filter(None, candidates), "") or "target"
        return re.sub(r"[^A-Za-z0-9_-]+", "-", name.removeprefix("/dev/")).strip("-") or "target"

    @property
    def may_be_a_disk(self) -> bool:
        """Whether it may be one disk, and not an array or a volume."""
        files = {options.get("filename", "") for options in self.outcome.job_options.values()}
        several = len(files) > 1 or any(":" in file for file in files)
        return not several and all(device.leaf is not False for device in self.outcome.devices) and len(self.disks) < 2

    def add_options(self, options: Mapping[str, str]) -> "MeasuredRun":
        """Returns the run with further options of each of its jobs, which come before those of fio's output."""
        facts = self.outcome.fio or FioFacts()
        jobs = self.outcome.job_options or {self.labels["workload"]: {}}
        changed_jobs = {}
        for name, job_options in jobs.items():
            remaining = {ALIASES.get(key, key): value for key, value in job_options.items()}
            if {"bs", "bssplit"} & options.keys():
                remaining = {key: value for key, value in remaining.items() if key not in {"bs", "bssplit", "bsrange"}}
            changed_jobs[name] = {**remaining, **options}
        return replace(self, outcome=replace(self.outcome, fio=replace(facts, options=changed_jobs)))

    @property
    def details(self) -> str:
        """The values of labels that are neither a place nor an option, which keep equal loads apart."""
        skipped_labels = {"repeat", *PLACES, *LOAD}
        return "-".join(value for key, value in self.labels.items() if key not in skipped_labels)

    @property
    def disks(self) -> list[str]:
        """The disks below what it measured, as far as fio printed them, in the kernel's order."""
        return sorted((device.name for device in lowest_devices(self.outcome)), key=natural_order)

    @property
    def is_array(self) -> bool:
        """Whether fio named a device that has the disks as members."""
        return any(device.leaf is False for device in self.outcome.devices)


def as_experiment(
    name: str,
    runs: Sequence[MeasuredRun],
    devices: Mapping[str, Table],
    stacks: Mapping[str, Table],
    settings: Table,
    warn: Callable[[str], object],
) -> Table:
    """Returns the tables of the experiment that predicts these runs; `stacks` has one for the `place` of each.

    Equal loads are one workload. Runs that cannot be simulated are left out, with a warning. Raises UsageError if none
    is left.
    """
    loads: dict[str, Table] = {}
    details: dict[str, str] = {}
    pairs: dict[str, list[str]] = {}
    measured_tables = []
    ignored_options: dict[str, None] = {}
    for run in runs:
        for sentence in describe_unlike_disks(run.outcome, devices):
            warn(f"{run.source}: {sentence}")
        try:
            load, dropped_options = _load(run)
        except UsageError as error:
            if len(runs) == 1:
                raise
            warn(f"{error}: left out")
            continue
        label = next((name for name, other in loads.items() if (other, details[name]) == (load, run.details)), "")
        if not label:
            label = _name_load("-".join(filter(None, (run.labels["workload"], run.details))), load, loads)
            loads[label] = load
            details[label] = run.details
        pairs.setdefault(run.place, []).append(label)
        ignored_options |= dict.fromkeys(dropped_options)
        measured_tables.append(_figures(run, {"stack": run.place, "workload": label}, dropped_options))
    if ignored_options:
        warn(note_ignored_options(list(ignored_options)))
    if not measured_tables:
        raise UsageError(f"{runs[0].source}: no run is left")
    learns = any("kind" in stack for stack in stacks.values())
    longest = max(run.outcome.runtime_ns for run in runs)
    limits: Table = {"runtime": f"{math.ceil(longest / 1e9)}s"}
    if not learns:
        limits["max_ios"] = IOS
    return {
        "title": f"Predictions for {name}",
        "settings": {**settings, **limits},
        "devices": dict(devices),
        "stacks": dict(stacks),
        "workloads": loads,
        "cells": [{"stack": [place], "workload": list(dict.fromkeys(names))} for place, names in pairs.items()],
        "measured": measured_tables,
    }


def as_toml(experiment: Table) -> str:
    """Returns the experiment as a file."""
    head = "# Predicts what fio measured; [[measured]] has its figures. `blklab run` compares them again.\n"
    return head + tomli_w.dumps(experiment)


EXTRA_OPTIONS = frozenset(Job.model_fields) - {
    "runtime",
    "ramp_time",
    "ioengine",
    "direct",
    "rw",
    "bs",
    "iodepth",
    "options",
}
"""Options that a simulated job has, besides those of a calibration."""

LOAD_KEYS = (*Job.model_fields, "fdatasync", "sync", "buffered")
"""Options that `--workload` takes."""


def _load(run: MeasuredRun) -> tuple[Table, list[str]]:
    """Returns the workload of a run, and the options that are not simulated."""
    options = run.outcome.job_options
    if not any({"rw", "readwrite", "bs", "blocksize"} & options_of_job.keys() for options_of_job in options.values()):
        raise UsageError(
            f"{run.source}: fio's options are missing, such as its line `NAME: (g=0): rw=...`: "
            f"add --workload {_guess_options(run.outcome)}, with the options of the job"
        )
    simulated_jobs, dropped_options = _split_options(options)
    figures = run.outcome
    extra_options = EXTRA_OPTIONS - {*observations.LOAD_OPTIONS}
    observation = observations.of_jobs(run.source, simulated_jobs, figures.read.iops, figures.write.iops, extra_options)
    if observation is None:
        raise UsageError(f"{run.source}: has no I/Os")
    for job in observation.jobs:
        try:
            Job.model_validate(job)
        except ValidationError as error:
            raise problems.usage_error(run.source, problems.translate_errors(error, schema.KNOWN_KEYS)) from None
    ways = [option_values.RW[str(job["rw"])] for job in observation.jobs]
    for index, direction in enumerate(("read", "write")):
        if figures.direction(direction).total_ios and not any(way[index] for way in ways):
            raise UsageError(
                f"{run.source}: fio's figures have {direction}s and its options have none: "
                "several jobs were reported as one"
            )
    return dict(observation.workload), dropped_options


def _guess_options(figures: Outcome) -> str:
    """Returns `rw=read,bs=256k` as fio's figures have it."""
    directions = [figures.read, figures.write]
    names = [name for name, part in zip(("read", "write"), directions, strict=True) if part.total_ios]
    ios = sum(part.total_ios for part in directions)
    size = 2 ** round(math.log2(max(512, sum(part.io_bytes for part in directions) / max(1, ios))))
    size_text = f"{size // 1024}k" if size >= 1024 else str(size)
    way = names[0] if len(names) == 1 else "rw"
    return f"rw={way},bs={size_text}"


def _split_options(options: Mapping[str, Mapping[str, str]]) -> tuple[list[tuple[str, dict[str, str]]], list[str]]:
    """Returns the options of each job that are simulated, and the others."""
    handled_options = {
        *EXTRA_OPTIONS,
        *observations.LOAD_OPTIONS,
        *HARMLESS,
        *("stonewall", "wait_for_previous"),
        "runtime",
        "ramp_time",
        "ioengine",
        "direct",
        "buffered",
    }
    dropped_options: dict[str, None] = {}
    for options_of_job in options.values():
        for key, value in options_of_job.items():
            if key not in handled_options and value.lower() not in OFF | observations.OTHER_OPTIONS.get(key, set()):
                dropped_options[f"{key}={value}"] = None
    jobs = []
    for name, options_of_job in options.items():
        remaining = {key: value for key, value in options_of_job.items() if f"{key}={value}" not in dropped_options}
        jobs.append((name, remaining))
    for _, remaining in jobs:
        word = "rw" if "rw" in remaining else "readwrite"
        if ":" in remaining.get(word, ""):
            dropped_options[f"{word}={remaining[word]}"] = None
            remaining[word] = remaining[word].partition(":")[0]
        if "bssplit" in remaining:
            remaining.pop("bs", None)
    return jobs, list(dropped_options)


def _name_load(name: str, load: Table, loads: Mapping[str, Table]) -> str:
    """Returns a name for a load: if another one has it, with the options in which they differ, or a number."""
    differing = {key: value for key, value in load.items() if loads.get(name, {}).get(key) != value and key != "jobs"}
    longer = "-".join([name, *(f"{key}{value}" for key, value in differing.items())])
    return fio_job.make_unique(longer if name in loads else name, loads)


def _figures(run: MeasuredRun, cell: Table, dropped_options: Sequence[str]) -> Table:
    """Returns a table [[measured]]."""
    outcome = run.outcome
    table: Table = {"cell": cell}
    for direction in ("read", "write"):
        figures = outcome.direction(direction)
        if figures.total_ios:
            table[f"{direction}_iops"] = round(figures.iops, 1)
        if figures.total_ios and figures.clat_ns.mean:
            table[f"{direction}_mean_ns"] = round(figures.clat_ns.mean)
    shares = {device.name: sum(device.ios) for device in lowest_devices(outcome) if sum(device.ios)}
    if len(shares) > 1:
        table["device_ios"] = shares
    doubts = list(_doubts(run, dropped_options))
    if doubts:
        table["doubts"] = doubts
    table["source"] = run.source
    return table


def _doubts(run: MeasuredRun, dropped_options: Sequence[str]) -> Iterator[str]:
    """Yields what was measured in another way than it is simulated."""
    jobs = run.outcome.job_options.values()
    if not run.all_options:
        yield "fio's text does not contain all options: direct I/O to the whole device is assumed"
    elif any(options.get("direct", "0") in {"0", "false"} and options.get("buffered", "1") != "0" for options in jobs):
        yield "fio ran through the page cache (direct=0), which is not simulated"
    if dropped_options:
        yield f"not simulated: {', '.join(dropped_options)}"
    if run.outcome.runtime_ns < SHORT_NS:
        yield f"the run took {format_duration(run.outcome.runtime_ns)}: caches and the state of the disks decide"
    clones = max(1, sum(int(options.get("numjobs", "1")) for options in jobs))
    if (fio := run.outcome.fio) is not None and (share := (fio.usr_cpu + fio.sys_cpu) / (100 * clones)) >= BUSY:
        yield f"fio's processes were busy {100 * share:.0f} % of the time: the processor was the limit"


# --- predictions against measurements ------------------------------------------------------------


@dataclass(frozen=True)
class JudgedFigure:
    """A predicted figure of a cell, and the measured ones."""

    cell: Cell
    outcome: Outcome  # The prediction
    metric: Metric
    prediction: float
    ends: tuple[float, float] | None  # The interval that holds nine of ten measurements; None if it is not known
    measurements: Sequence[float]
    decision: Decision
    figures: Sequence[MeasuredFigures]
    reasons: list[str] = field(default_factory=list)  # Of a miss

    @property
    def mean(self) -> float:
        """The mean of the measurements."""
        return sum(self.measurements) / len(self.measurements)

    @property
    def fitted(self) -> bool:
        """Whether the models of the disks were fitted to the measurements."""
        return all(figures.fitted for figures in self.figures)

    @property
    def limited(self) -> bool:
        """Whether the rate of the load decides, and not the disks: the interval has no width."""
        return self.ends is not None and self.ends[1] <= NO_WIDTH * self.ends[0]

    @property
    def is_far(self) -> bool:
        """Whether the mean of the measurements is outside of the interval by more than the interval's own width.

        Widths are ratios. Chance does not explain such a miss.
        """
        if self.verdict != "outside" or self.ends is None:
            return False
        low, high = self.ends
        width = high / low if low > 0 else math.inf
        return self.mean > high * width or self.mean < low / width

    @property
    def verdict(self) -> str:
        """`fitted` or `limited` if it is no test of the prediction; otherwise that of the decision."""
        if self.fitted:
            return "fitted"
        return "limited" if self.limited else self.decision.verdict

    def as_dict(self) -> dict[str, object]:
        """Returns the figure for `--json`."""
        return {
            "metric": self.metric.name,
            "predicted": self.prediction,
            "known": self.decision.known,
            "interval": self.ends,
            "measured": list(self.measurements),
            "change": self.decision.change,
            "verdict": self.verdict,
            "reasons": self.reasons,
            "sources": [figures.source for figures in self.figures],
        }


def judge(plan: ExperimentPlan, outcomes: Mapping[int, Outcome]) -> list[JudgedFigure]:
    """Returns the judged figures of an experiment; `outcomes` has the prediction of each cell, by its number.

    Of the repeats of a cell, the first is judged.
    """
    first_repeats: dict[tuple[tuple[str, str], ...], Cell] = {}
    for cell in reversed(plan.cells):
        labels = tuple(pair for pair in cell.labels.items() if pair[0] != "repeat")
        first_repeats[labels] = cell
    pairs = []
    for cell in reversed(first_repeats.values()):
        figures = [measurement for measurement in plan.measured if measurement.matches(cell.labels)]
        if figures and cell.number in outcomes:
            pairs.append((cell, outcomes[cell.number], figures))
    rows: list[JudgedFigure] = []
    for name in JUDGED_METRICS:
        rows += _judge_metric(METRICS[name], pairs)
    for row in rows:
        if row.verdict == "outside":
            row.reasons.extend(dict.fromkeys(_reasons(row, rows, plan)))
    return rows


def are_too_few(inside: int, count: int) -> bool:
    """Returns whether fewer of `count` measurements are inside than chance explains, if `NOMINAL` are expected."""
    from scipy.special import bdtr

    return bool(count and bdtr(inside, count, NOMINAL) < UNLIKELY)


def _judge_metric(
    metric: Metric, pairs: Sequence[tuple[Cell, Outcome, Sequence[MeasuredFigures]]]
) -> Iterator[JudgedFigure]:
    for cell, outcome, figures in pairs:
        prediction = metric.compute(outcome)
        values = []
        with_metric = []
        for measurement in figures:
            value = metric.compute(_outcome(measurement))
            if value:
                values.append(value)
                with_metric.append(measurement)
        if not (prediction and values):
            continue
        error = model_error(outcome, cell.document, metric)
        # Each cell alone: how much others vary says nothing about a single run of someone else.
        sides = [[RunSample(prediction, (), error)], [RunSample(value) for value in values]]
        (decision,) = decide(sides, [0, 1], [([0], [1])], Rule(metric))
        ends = intervals(sides[:1], [0], Rule(metric))[0] if error and math.isfinite(error.below) else None
        if decision is not None:
            yield JudgedFigure(cell, outcome, metric, prediction, ends, tuple(values), decision, tuple(with_metric))


def _outcome(figures: MeasuredFigures) -> Outcome:
    def direction(iops: float, mean_ns: int | None) -> DirectionResult:
        ios = math.ceil(iops)
        return DirectionResult(ios, 0, iops, 0.0, LatencyResult(ios, mean_ns or None))

    read = direction(figures.read_iops, figures.read_mean_ns)
    return Outcome(read=read, write=direction(figures.write_iops, figures.write_mean_ns))


def _reasons(row: JudgedFigure, rows: Sequence[JudgedFigure], plan: ExperimentPlan) -> Iterator[str]:
    """Yields what is known about a miss, the surest first; the limit of the prediction, if nothing is known."""
    doubts = [doubt for figures in row.figures for doubt in figures.doubts]
    yield from doubts
    reasons = [*_single_disk_reasons(row, rows), *_shares(row), *_beyond(row)]
    if _is_alone(row) and not doubts and _miss_often(row, rows):
        reasons += _model(row, plan)
    yield from reasons
    if not (reasons or doubts):
        if not _is_alone(row):
            yield f"no cause is known{_limit(row)}"
        elif row.is_far:
            yield "the model does not fit this disk"
        else:
            yield "chance, or the model does not fit this disk"


def _miss_often(row: JudgedFigure, rows: Sequence[JudgedFigure]) -> bool:
    """Returns whether more measurements of the same disk are outside than chance explains."""
    device = row.cell.document["devices"][0]["model"]
    verdicts = []
    for other in rows:
        if other.metric == row.metric and _is_alone(other) and other.cell.document["devices"][0]["model"] == device:
            verdicts.append(other.verdict)
    inside = verdicts.count("inside")
    return are_too_few(inside, inside + verdicts.count("outside"))


def _limit(row: JudgedFigure) -> str:
    """Returns what limits the simulated IOPS, for a sentence; empty if that is unknown."""
    if row.metric.name != "iops":
        return ""
    if busy := _saturated_devices(row):
        which = f"{busy[0]} and {len(busy) - 1} more are" if len(busy) > 1 else f"{busy[0]} is"
        return f"; in the simulation, {which} saturated"
    sentence = explain(row.cell.document, row.outcome)[0].rstrip(".")
    return f"; in the simulation: {sentence}" if "is the limit" in sentence else ""


def _saturated_devices(row: JudgedFigure) -> list[str]:
    runtime_ns = row.outcome.observed_ns
    return [device.name for device in row.outcome.devices if saturation(device, runtime_ns)[0] >= SATURATED]


def _is_alone(row: JudgedFigure) -> bool:
    return "device" in row.cell.document["stack"]


def _single_disk_reasons(row: JudgedFigure, rows: Sequence[JudgedFigure]) -> Iterator[str]:
    """Yields the disks of an array that differ in the same way if they are alone."""
    if _is_alone(row):
        return
    models = [device["model"] for device in row.cell.document["devices"]]
    log = _log(row)
    for other in rows:
        is_same_load = other.metric == row.metric and other.cell.labels["workload"] == row.cell.labels["workload"]
        if not (is_same_load and _is_alone(other) and other.cell.document["devices"][0]["model"] in models):
            continue
        if other.decision.known and log * _log(other) > 0 and abs(_log(other)) >= CONTRIBUTES * abs(log):
            share = f"{abs(100 * other.decision.change):.0f} %"
            sign = "higher" if _log(other) > 0 else "lower"
            name = other.cell.labels["stack"]
            yield f"{name} alone is {share} {sign} than predicted as well: this explains a part"


def _log(row: JudgedFigure) -> float:
    return math.log(row.mean / row.prediction)


def _shares(row: JudgedFigure) -> Iterator[str]:
    """Yields the device that served another share of the I/Os than predicted."""
    predicted_ios = {device.name: float(sum(device.ios)) for device in row.outcome.devices}
    for figures in row.figures:
        if len(predicted_ios) < 2 or figures.device_ios.keys() != predicted_ios.keys():
            continue
        measured_shares = _as_shares(figures.device_ios)
        predicted_shares = _as_shares(predicted_ios)
        differences = {name: abs(measured_shares[name] - predicted_shares[name]) for name in predicted_ios}
        name, difference = max(differences.items(), key=lambda item: item[1])
        if difference >= OTHER_SHARE:
            measured_percent = f"{100 * measured_shares[name]:.0f} %"
            yield f"{name} served {measured_percent} of the I/Os, {100 * predicted_shares[name]:.0f} % predicted"


def _as_shares(ios: Mapping[str, float]) -> dict[str, float]:
    total = sum(ios.values())
    return {name: ios_of_disk / total for name, ios_of_disk in ios.items()}


def _beyond(row: JudgedFigure) -> Iterator[str]:
    """Yields a note if more was measured than the predicted disks can serve."""
    ratio = row.mean / row.prediction
    if row.metric.name != "iops" or ratio < BEYOND or any(target["kind"] != "md" for target in row.outcome.targets):
        return
    if not row.decision.known:
        return
    if busy := _saturated_devices(row):
        yield (
            f"{ratio:.1f} times what {busy[0]} serves when it is saturated: a cache served I/Os (memory, "
            "a controller), or the disk is another one"
        )


def _model(row: JudgedFigure, plan: ExperimentPlan) -> Iterator[str]:
    """Yields what is known of the model of the only disk."""
    name = row.cell.document["devices"][0]["name"]
    tables = plan.raw.get("devices", {})
    table = tables.get(name) or tables.get(name.rstrip("0123456789"), {})
    if "model" in table:
        model = library_model(table["model"])
        certainty = model.certainty or "yours"
        yield (
            f"the model {model.name} ({certainty}) does not fit this disk: "
            f"`blklab calibrate FILES --model {table['model']}` fits it to your runs"
        )
    else:
        yield "the model does not fit this disk: `blklab calibrate` fits one to runs of the disk alone"


def group_reasons(rows: Sequence[JudgedFigure]) -> dict[str, list[int]]:
    """Returns the reasons of misses, each with the numbers of its cells."""
    numbers_by_reason = by_key((reason, row.cell.number) for row in rows for reason in row.reasons)
    return {reason: list(dict.fromkeys(numbers)) for reason, numbers in numbers_by_reason.items()}
