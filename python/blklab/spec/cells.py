"""The cells of an experiment: every combination of what is varied, checked and ready to run."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from blklab.errors import BlklabError, UsageError
from blklab.spec import jobs, load, problems, replays, stacking
from blklab.spec.experiment import Experiment
from blklab.spec.fields import shown
from blklab.spec.overrides import Change, applied
from blklab.spec.problems import Problem, Problems
from blklab.spec.workload import Job, Jobs, Replay
from blklab.units import format_size

MOST: Final = 100_000
"""Cells of one experiment."""

OWN: Final = ("stack", "workload", "repeat")
"""Axes that every experiment has."""


@dataclass(frozen=True)
class Cell:
    """One run of an experiment."""

    number: int
    """From 1, in the order of the whole experiment."""

    labels: Mapping[str, str]
    """What tells it from the others: stack, workload, each key of the matrix, repeat."""

    document: Mapping[str, Any]
    """What the simulator takes: crates/sim/src/cell."""

    capacity: int
    """Bytes of the stack."""

    replay: replays.Source | None = None
    """The trace whose I/Os the simulator takes beside the document."""

    def as_dict(self) -> dict[str, Any]:
        """Returns the cell for `--json`."""
        return {
            "number": self.number,
            "labels": dict(self.labels),
            "capacity_bytes": self.capacity,
            "cell": dict(self.document),
            "trace": None if self.replay is None else asdict(self.replay),
        }


@dataclass(frozen=True)
class Plan:
    """An experiment file, expanded."""

    title: str
    cells: Sequence[Cell]
    varied: Sequence[str]
    """Labels that are not the same in all cells of the whole experiment."""

    def as_dict(self) -> dict[str, Any]:
        """Returns the plan for `--json`."""
        return {
            "title": self.title,
            "varied": list(self.varied),
            "cells": [cell.as_dict() for cell in self.cells],
        }


def plan(
    path: Path,
    *,
    changes: Sequence[Change] = (),
    seed: int | None = None,
    only: Mapping[str, str] | None = None,
) -> Plan:
    """Expands an experiment file into its cells, every one of them checked.

    `changes` are made before the matrix is expanded, and replace a key of it; `only` maps labels
    to patterns as a shell's. Raises UsageError in one line.
    """
    return expand(load.read(path), changes=changes, seed=seed, only=only)


def expand(
    source: load.Source,
    *,
    changes: Sequence[Change] = (),
    seed: int | None = None,
    only: Mapping[str, str] | None = None,
) -> Plan:
    """Expands an experiment that was read, or made up, as `plan` does."""
    extra = [*changes] if seed is None else [*changes, Change("seed", seed, "--seed")]
    try:
        found = list(_cells(source, extra))
    except Problems as problem:
        raise problems.usage_error(str(source.path), problem.found) from None
    except RecursionError:
        raise UsageError(f"{source.path}: is nested too deeply") from None
    title = source.raw.get("title", "")
    varied = [label for label in found[0].labels if len({cell.labels[label] for cell in found}) > 1]
    return Plan(str(title), _only(found, only or {}), varied)


def _only(cells: list[Cell], wanted: Mapping[str, str]) -> list[Cell]:
    known = cells[0].labels
    for label in wanted:
        if label not in known:
            raise UsageError(f"--only: nothing is called {label!r}; {problems.near(label, known)}")
    kept = [
        cell
        for cell in cells
        if all(fnmatchcase(cell.labels[label], pattern) for label, pattern in wanted.items())
    ]
    if not kept:
        terms = ",".join(f"{label}={pattern}" for label, pattern in wanted.items())
        raise UsageError(f"--only {terms}: none of the {len(cells)} cells is so")
    return kept


def _cells(source: load.Source, changes: Sequence[Change]) -> Iterator[Cell]:
    fixed = [change for change in changes if change.key not in OWN and not change.axis]
    base, axes = _axes(source, fixed, [change for change in changes if change.axis])
    chosen = {change.key: change for change in changes if change.key in OWN}
    stacks = _chosen(base, "stack", axes, chosen, _outermost(base))
    workloads = _chosen(base, "workload", axes, chosen, list(base.workloads))
    axes = {key: values for key, values in axes.items() if key not in OWN}
    count = base.repeats * len(stacks) * len(workloads)
    for values in axes.values():
        count *= len(values)
    if count > MOST:
        raise problems.fail("matrix", f"makes {count:,} cells: {MOST:,} are the most")
    number = itertools.count(1)
    points = [
        (point, *_at(source, [*fixed, *point])) for point in itertools.product(*axes.values())
    ]
    troubles: list[Problem] = []
    for stack in stacks:
        for workload in workloads:
            for point, experiment, origins in points:
                labels = {"stack": stack, "workload": workload}
                labels |= {change.key: _label(change.value) for change in point}
                try:
                    document, capacity, replay = _document(source, experiment, stack, workload)
                except Problems as problem:
                    troubles += _origins(problem.found, origins)
                    continue
                for repeat in range(1, experiment.repeats + 1):
                    yield Cell(
                        next(number),
                        {**labels, "repeat": str(repeat)},
                        {"seed": experiment.seed + repeat - 1, **document},
                        capacity,
                        replay,
                    )
    if troubles:
        raise Problems(troubles)


def _axes(
    source: load.Source, fixed: Sequence[Change], asked: Sequence[Change]
) -> tuple[Experiment, dict[str, list[Change]]]:
    """Returns the experiment without its matrix, and what the matrix and `--set` vary."""
    raw, origins = applied(source.raw, list(fixed))
    experiment = _checked(source, raw, origins)
    set_already = {change.key for change in fixed}
    axes: dict[str, list[Change]] = {}
    varied = {key: (f"matrix.{key}", values) for key, values in experiment.matrix.items()}
    varied |= {change.key: (change.where, change.value) for change in asked}
    for key, (where, values) in varied.items():
        if key == "repeat":
            raise problems.fail(where, "no such key; repeats stands above the tables")
        if key in set_already:
            continue
        if not values:
            raise problems.fail(where, "is empty: one at least is wanted")
        labels = [_label(value) for value in values]
        for at, label in enumerate(labels):
            if label in labels[:at]:
                raise problems.fail(f"{where}[{at}]", f"{label!r} is there twice")
        axes[key] = [Change(key, value, f"{where}[{at}]") for at, value in enumerate(values)]
    return experiment, axes


def _chosen(
    experiment: Experiment,
    axis: str,
    axes: Mapping[str, list[Change]],
    chosen: Mapping[str, Change],
    default: list[str],
) -> list[str]:
    """Returns the stacks or workloads to run, by name."""
    changes = [chosen[axis]] if axis in chosen else axes.get(axis)
    if changes is None:
        return default
    known = experiment.stacks if axis == "stack" else experiment.workloads
    names = []
    for change in changes:
        values = change.value if isinstance(change.value, list) else [change.value]
        for value in values:
            if value not in known:
                hint = problems.near(str(value), known)
                raise problems.fail(change.where, f"there is no {axis} {shown(value)}; {hint}")
            names.append(str(value))
    return names


def _outermost(experiment: Experiment) -> list[str]:
    """Returns the stacks that are no part of another; all, if every one is."""
    inner = stacking.inner(experiment)
    return [name for name in experiment.stacks if name not in inner] or list(experiment.stacks)


def _at(source: load.Source, changes: Sequence[Change]) -> tuple[Experiment, dict[str, str]]:
    raw, origins = applied(source.raw, list(changes))
    return _checked(source, raw, origins), origins


def _checked(source: load.Source, raw: Mapping[str, Any], origins: Mapping[str, str]) -> Experiment:
    try:
        experiment = load.checked(source, raw)
        stacking.check_names(experiment)
    except Problems as problem:
        raise Problems(_origins(problem.found, origins)) from None
    return experiment


def _origins(found: Sequence[Problem], origins: Mapping[str, str]) -> list[Problem]:
    """Names the place in the matrix, or the option, that put a wrong value where it is."""
    return [Problem(_origin(problem.path, origins), problem.message) for problem in found]


def _origin(path: str, origins: Mapping[str, str]) -> str:
    for place, where in origins.items():
        if path == place or path.startswith(f"{place}."):
            return where + path.removeprefix(place)
    return path


def _label(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return " ".join(map(_label, value))
        case _:
            return str(value)


def _document(
    source: load.Source, experiment: Experiment, stack: str, workload: str
) -> tuple[dict[str, Any], int, replays.Source | None]:
    """Returns a cell's document but for the seed, its capacity, and the trace to replay."""
    built = stacking.build(experiment, stack)
    settings = experiment.settings
    table = experiment.workloads[workload]
    path = f"workloads.{workload}"
    tables: dict[str, tuple[str, Job]] = {}
    replay, source_of = None, None
    runtime, ramp = settings.runtime, settings.ramp_time
    match table:
        case Job():
            tables = {workload: (path, table)}
        case Jobs():
            tables = {name: (f"{path}.jobs.{name}", job) for name, job in table.jobs.items()}
        case Replay():
            replay, source_of = _replay(source, table, path, stack, built.capacity)
            runtime = table.runtime or runtime
            ramp = ramp if table.ramp_time is None else table.ramp_time
    if tables:
        runtime, ramp = _times(list(tables.values()), runtime, ramp)
    documents = [
        jobs.job_document(name, job, where, stack, built.capacity)
        for name, (where, job) in tables.items()
    ]
    commit = settings.commit_ns
    document = {
        "kernel": settings.kernel,
        "devices": built.devices,
        "stack": built.node,
        "filesystem": None if commit is None else {"commit_ns": commit},
        "jobs": documents,
        "replay": replay,
        "runtime_ns": runtime,
        "ramp_ns": ramp,
        "max_ios": settings.max_ios,
        "series_ns": settings.series,
    }
    if host := settings.host.model_dump(exclude_none=True):
        document["host"] = host
    return document, built.capacity, source_of


def _times(
    tables: Sequence[tuple[str, Job]], runtime: int | None, ramp: int
) -> tuple[int | None, int]:
    """Returns the runtime and the ramp time that all jobs of a workload share."""
    for key in ("runtime", "ramp_time", "time_based"):
        if len({getattr(job, key) for _, job in tables}) > 1:
            raise problems.fail(
                f"{tables[-1][0]}.{key}",
                "jobs at the same time must have the same one: runs of a part are not simulated",
            )
    where, job = tables[0]
    runtime = job.runtime or runtime
    if job.time_based and not runtime:
        raise problems.fail(f"{where}.time_based", "wants a runtime")
    ramp = ramp if job.ramp_time is None else job.ramp_time
    return runtime, ramp


def _replay(
    source: load.Source, table: Replay, path: str, stack: str, capacity: int
) -> tuple[dict[str, Any], replays.Source]:
    try:
        found = replays.source(source.beside(table.replay), table.format, table.device)
    except BlklabError as error:
        raise problems.fail(f"{path}.replay", str(error)) from error
    if found.end > capacity:
        raise problems.fail(
            f"{path}.replay",
            f"the trace of {found.name!r} reaches to {format_size(found.end)}, beyond the end of"
            f" stack {stack!r} at {format_size(capacity)}",
        )
    timed = table.timing == "recorded"
    return {"timed": timed, "iodepth": table.iodepth, "speed": table.speed}, found
