"""The cells of an experiment: every combination of its axes, checked and ready to run."""

import hashlib
import itertools
import json
import platform
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from blklab import kernels
from blklab.devices import stock_models
from blklab.devices.device import Uncertainty
from blklab.errors import UsageError
from blklab.experiment import cell_form, documents, load, sim_cell, stack_resolution, sweep
from blklab.experiment.cell_form import CellForm
from blklab.experiment.overrides import Override, apply_overrides, is_only_simulated
from blklab.experiment.sweep import SweepPoint
from blklab.experiment.tables import Experiment, MeasuredFigures
from blklab.toml_files import problems
from blklab.toml_files.fields import show_value
from blklab.toml_files.problems import SpecProblem, SpecProblems
from blklab.units import format_size

MAX_CELLS = 100_000  # Of one experiment
PAIR_AXES = ("stack", "workload")
BUILT_IN_AXES = (*PAIR_AXES, "repeat")  # Axes that every experiment has
ZONE_RATIO = 1.05  # Ratio of sizes from which a RAID-0 has zones worth a note
# Settings of how much is measured: measured figures stay comparable if they change.
EXTENT_SETTINGS = ("max_ios", "runtime", "seed", "repeats", "series")


@dataclass(frozen=True)
class Cell:
    """One run of an experiment."""

    number: int  # From 1, in the order of the experiment
    labels: Mapping[str, str]  # How it differs from other cells: stack, workload, keys of matrix and sweep, repeat
    document: Any
    """What its runner takes. The simulator: a dictionary of `blklab.documents.cell`, generated from Rust; the lab and
    hosts: one of `blklab.experiment.documents`."""
    capacity: int  # Bytes of the stack, or of the file on a target; 0 of a device, whose own capacity counts
    replay: cell_form.ReplaySource | None = None  # The trace whose I/Os the simulator replays
    uncertainties: Sequence[Uncertainty] = ()  # Of each device; the interval of a prediction follows from them
    notes: Sequence[str] = ()  # What its runner cannot do exactly
    ignored_options: Sequence[str] = ()  # Options of fio that the simulator ignores, with their values
    is_placed: bool = False  # Whether the user says where the data lie on rotating disks
    order: float = 0.0  # Sorts the cells of a repeat, if they are measured in random order or in turns

    @property
    def turn(self) -> tuple[int, float, int]:
        """Sorts cells in the order of measurement: all once, then all again."""
        return int(self.labels["repeat"]), self.order, self.number

    @property
    def name(self) -> str:
        """The cell's name in messages."""
        label = " ".join(f"{key}={value}" for key, value in self.labels.items())
        return f"cell {self.number} ({label})"

    @cached_property
    def key(self) -> str:
        """A digest, the same for the same cell of the same experiment on every machine.

        `--resume` finds by it what was measured, and comparisons find earlier campaigns of the same cells.
        """
        return self._digest(self.labels, self.document)

    @cached_property
    def key_without_repeat(self) -> str:
        """A digest that is the same for all repeats of a cell: without the number of the repeat, and its seed."""
        labels = {label: value for label, value in self.labels.items() if label != "repeat"}
        document = {key: value for key, value in self.document.items() if key != "seed"}
        return self._digest(labels, document)

    def _digest(self, labels: Mapping[str, str], document: Mapping[str, Any]) -> str:
        """Returns a digest without where the results of an import are, and when they were measured."""
        parts = [dict(labels), _without_origin(document), self.replay and asdict(self.replay)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """Returns the cell for `--json`."""
        return {
            "number": self.number,
            "labels": dict(self.labels),
            "capacity_bytes": self.capacity,
            "cell": dict(self.document),
            "trace": None if self.replay is None else asdict(self.replay),
        }


def _without_origin(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns an imported run's document without its file, its time and its logs; others as they are."""
    if "source" not in document:
        return document
    jobs = []
    for job in document.get("jobs", []):
        options = {key: value for key, value in job["options"].items() if not key.endswith("_log")}
        jobs.append({**job, "options": options})
    return {**{key: value for key, value in document.items() if key not in ("source", "measured")}, "jobs": jobs}


@dataclass(frozen=True)
class ExperimentPlan:
    """An experiment file, expanded."""

    title: str
    cells: Sequence[Cell]
    varied: Sequence[str]  # Labels that differ between cells of the experiment
    runner: str  # The runner's name: `sim`, `lab`, `host`
    path: Path
    raw: Mapping[str, Any]  # The file's tables, as they were read, with the number of repeats
    notes: Sequence[str] = ()  # What blklab changes in fio's job files, and typical devices
    measured: Sequence[MeasuredFigures] = ()  # Of cells of this experiment, elsewhere

    @property
    def name(self) -> str:
        """The experiment's name: its file name, without directory and suffix."""
        return self.path.stem

    @property
    def digest(self) -> str:
        """A digest of all cells, the same on every machine."""
        return hashlib.sha256("".join(cell.key for cell in self.cells).encode()).hexdigest()

    @property
    def digest_of_compared_cells(self) -> str:
        """A digest of what can be compared: the same for each number of repeats, and in any order of cells."""
        keys = {cell.key_without_repeat for cell in self.cells}
        return hashlib.sha256("".join(sorted(keys)).encode()).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """Returns the plan for `--json`."""
        return {"title": self.title, "varied": list(self.varied), "cells": [cell.as_dict() for cell in self.cells]}


def plan(
    experiment: Path | load.ExperimentSource,
    *,
    changes: Sequence[Override] = (),
    seed: int | None = None,
    only: Mapping[str, str] | None = None,
    form: CellForm = sim_cell.FORM,
) -> ExperimentPlan:
    """Expands an experiment, a file or one that was read, into checked cells in the form that a runner takes.

    `changes` are made before the matrix is expanded, and replace its keys. `only` maps labels to
    shell patterns. Raises UsageError.
    """
    source = load.read(experiment) if isinstance(experiment, Path) else experiment
    extra = [*changes] if seed is None else [*changes, Override("seed", seed, "--seed")]
    patterns = only or {}
    try:
        cells = list(_expand_cells(source, extra, form, patterns))
        if form.on_targets:
            cells = _with_common_file_size(cells)
    except SpecProblems as problem:
        raise problems.usage_error(str(source.path), problem.found) from None
    except RecursionError:
        raise UsageError(f"{source.path}: tables are nested too deeply") from None
    title = source.raw.get("title", "")
    varied = []
    for label in cells[0].labels:
        values = {cell.labels[label] for cell in cells}
        if len(values) > 1:
            varied.append(label)
    selected_cells = _select_cells(cells, patterns)
    model_notes: list[str] = []
    if form.runner == "sim":
        model_notes += _notes_on_models(source)
        model_notes += dict.fromkeys(_notes_on_zones(selected_cells))
        model_notes += dict.fromkeys(_notes_on_kernels(selected_cells))
        model_notes += dict.fromkeys(_notes_on_replays(source, selected_cells))
        model_notes += _notes_on_journals(selected_cells)
    sweep_notes = sweep.without_effect(
        source.raw.get("sweep", {}), [(cell.labels, cell.document) for cell in selected_cells]
    )
    cell_notes = dict.fromkeys(note for cell in selected_cells for note in cell.notes)
    notes = [*source.notes, *model_notes, *sweep_notes, *cell_notes]
    ignored_options = dict.fromkeys(option for cell in selected_cells for option in cell.ignored_options)
    if ignored_options:
        notes.append(note_ignored_options(list(ignored_options)))
    repeats = max(int(cell.labels["repeat"]) for cell in cells)
    raw = source.raw if source.raw.get("repeats", 1) == repeats else {**source.raw, "repeats": repeats}
    measured = [MeasuredFigures.model_validate(table) for table in source.raw.get("measured", [])]
    changed_keys = [change.key for change in changes if change.key not in EXTENT_SETTINGS]
    if changed_keys and measured and form.runner == "sim":
        notes.append(f"{changed_keys[0]} is changed: the figures of [[measured]] are not compared")
        measured = []
    elif not changed_keys and not form.on_targets:
        # A host may lack cells of the file, such as those of other kernels, which [[measured]] may name.
        _check_measured(source, measured, cells)
    return ExperimentPlan(str(title), selected_cells, varied, form.runner, source.path, raw, notes, measured)


def _check_measured(source: load.ExperimentSource, measured: Sequence[MeasuredFigures], cells: Sequence[Cell]) -> None:
    """Raises UsageError for measured figures of no cell."""
    for at, figures in enumerate(measured):
        if any(figures.matches(cell.labels) for cell in cells):
            continue
        terms = ", ".join(f"{label}={value}" for label, value in figures.cell.items())
        wrong = [label for label in figures.cell if label not in cells[0].labels]
        hint = problems.near(wrong[0], cells[0].labels) if wrong else "`blklab run --dry-run` lists the cells"
        message = f"no label {wrong[0]!r}; {hint}" if wrong else f"no cell has {terms}; {hint}"
        raise problems.usage_error(str(source.path), [SpecProblem(f"measured[{at}].cell", message)])


def interleaved(plans: Sequence[ExperimentPlan]) -> ExperimentPlan:
    """Returns one plan with the cells of several experiments, which take turns.

    They have a label `experiment`. In each repeat, the cells that differ only in the experiment follow each other, in
    random order. Raises UsageError for experiments of one name, with unlike labels, or with two targets of one name.
    """
    names = [plan.name for plan in plans]
    if len(set(names)) < len(names):
        raise UsageError(f"--interleave: expected experiments of unlike names, found {' and '.join(names)}")
    if len({tuple(plan.cells[0].labels) for plan in plans}) > 1:
        raise UsageError("--interleave: expected experiments with the same keys in [matrix] and [sweep]")
    targets = dict[str, object]()
    cells: list[Cell] = []
    # Always the same order, so that --resume finds the cells where they were.
    shuffle = random.Random(0)  # noqa: S311
    order_by_labels = dict[tuple[str, ...], float]()  # by the labels with the repeat, so each repeat has its own order
    for plan in plans:
        for cell in plan.cells:
            target = cell.document.get("target", {})
            name = target.get("name", "")
            if targets.setdefault(name, target) != target:
                raise UsageError(f"--interleave: target {name}: expected the same place in all experiments")
            order = order_by_labels.setdefault(tuple(cell.labels.values()), shuffle.random())
            # The small part orders the experiments among each other.
            order += 1e-9 * shuffle.random()
            labels = {"experiment": plan.name, **cell.labels}
            cells.append(replace(cell, number=len(cells) + 1, labels=labels, order=order))
    repeats = max(int(cell.labels["repeat"]) for cell in cells)
    raw = {"experiments": {plan.name: plan.raw for plan in plans}, "repeats": repeats}
    varied = ["experiment", *dict.fromkeys(label for plan in plans for label in plan.varied)]
    title = " and ".join(plan.title or plan.name for plan in plans)
    path = plans[0].path.with_name("+".join(names) + ".toml")
    notes = [note for plan in plans for note in plan.notes]
    same_size = _with_common_file_size(cells) if targets.keys() != {""} else cells
    return ExperimentPlan(title, same_size, varied, plans[0].runner, path, raw, notes)


def note_ignored_options(options: Sequence[str]) -> str:
    """Returns the note about options of fio, such as `prio=2`, that the simulator ignores."""
    return f"the simulator ignores these options of fio, and figures lack their effect: {', '.join(options)}"


def _notes_on_models(source: load.ExperimentSource) -> Iterator[str]:
    """Yields a note for each model that stands for a class of devices, or for other disks of its family."""
    tables = source.raw.get("devices", {}).values()
    for name, table in source.raw.get("devices", {}).items():
        keys = []
        if not stock_models.is_described(table.get("model")):
            keys += [key for key in stock_models.FEATURES if key in table]
        if "model" not in table and "pcie" in table:
            keys.append("pcie")
        if keys:
            owner = f"the model {table['model']}" if "model" in table else "the device"
            yield f"{name}: {', '.join(keys)}: no effect, {owner} has its own rates"
    for table in tables:
        base = stock_models.stock(table["model"]) if isinstance(table.get("model"), str) else {}
        if stock_models.is_scaled(base, table.get("capacity")):
            yield f"{table['model']} is scaled from {format_size(base['capacity'])}: it has the figures of its family"
    notes = []
    for table in tables:
        name = table.get("model")
        if isinstance(name, str) and stock_models.library_model(name).spread:
            features = stock_models.describe_features(table) if stock_models.is_described(name) else ""
            differ = stock_models.describe_spread(name, table)
            notes.append(f"{name}{features} is a typical device of its class: others differ by {differ}")
    for note in dict.fromkeys(notes):
        yield f"{note}, and so do figures"


def _notes_on_zones(cells: Sequence[Cell]) -> Iterator[str]:
    """Yields a note for each RAID-0 of disks of unlike size."""
    for cell in cells:
        array = cell.document["stack"].get("md", {})
        nodes = [(member["node"] or {}).get("device") for member in array.get("members", [])]
        sizes = [cell.document["devices"][node]["bytes"] for node in nodes if node is not None]
        if array.get("level") == "raid0" and sizes and max(sizes) > ZONE_RATIO * min(sizes):
            size = format_size(len(sizes) * min(sizes))
            name = array["name"]
            yield f"{name} is a RAID-0 of unlike disks, so it has zones: beyond {size}, only the larger disks have data"


def _notes_on_replays(source: load.ExperimentSource, cells: Sequence[Cell]) -> Iterator[str]:
    """Yields a note for each trace that is not replayed at its recorded times, if the user did not ask for it."""
    varied_keys = [*source.raw.get("sweep", {}), *source.raw.get("matrix", {})]
    is_varied = any(key.rpartition(".")[2] == "timing" for key in varied_keys)
    for cell in cells:
        workload = cell.labels["workload"]
        replay = cell.document["replay"]
        is_chosen = is_varied or "timing" in source.raw["workloads"][workload]
        if replay is not None and not replay["timed"] and not is_chosen:
            depth = replay["iodepth"]
            yield (
                f"{workload}: the trace is replayed as fast as {depth} I/Os in flight allow; "
                'timing = "recorded" keeps its times'
            )


def _notes_on_journals(cells: Sequence[Cell]) -> Iterator[str]:
    """Yields a note if fsync commits in some cells only: these cannot be compared with the others."""
    commits = {"journal" in cell.document for cell in cells if cell.document["filesystem"] is not None}
    if len(commits) > 1:
        yield (
            "an fsync commits only in cells whose filesystem has `journal`: to compare the others with them, "
            'give them journal = "internal"'
        )


def _notes_on_kernels(cells: Sequence[Cell]) -> Iterator[str]:
    """Yields a note for each kernel after the last that blklab knows to differ."""
    last = kernels.STEPS[-1][0]
    for cell in cells:
        if kernels.parse(kernel := str(cell.document["kernel"])) > kernels.parse(last):
            yield f"kernel {kernel} is simulated like {last}, the last of which blklab knows a change"


def _with_common_file_size(cells: Sequence[Cell]) -> list[Cell]:
    """Gives all cells on a target the same file size, so that one file serves them all."""
    needs: dict[str, int] = {}
    for cell in cells:
        target = cell.document["target"]
        if "device" not in target:
            needs[target["name"]] = max(documents.extent(cell.document), needs.get(target["name"], 0))
    sizes = [needs.get(cell.document["target"]["name"], 0) for cell in cells]
    return [
        replace(cell, capacity=size, document={**cell.document, "file_bytes": size})
        for cell, size in zip(cells, sizes, strict=True)
    ]


def _select_cells(cells: list[Cell], patterns: Mapping[str, str]) -> list[Cell]:
    """Returns the cells of `--only`. Raises UsageError if there are none."""
    labels = cells[0].labels
    for label in patterns:
        if label not in labels:
            raise UsageError(f"--only: no label {label!r}; {problems.near(label, labels)}")
    selected = [cell for cell in cells if _matches(cell.labels, patterns)]
    if not selected:
        terms = ",".join(f"{label}={pattern}" for label, pattern in patterns.items())
        for label, pattern in patterns.items():
            values = list(dict.fromkeys(cell.labels[label] for cell in cells))
            if not any(fnmatchcase(value, pattern) for value in values):
                raise UsageError(f"--only {terms}: no such {label}; {problems.near(pattern, values)}")
        raise UsageError(f"--only {terms}: matches none of the {len(cells)} cells")
    return selected


def _matches(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(fnmatchcase(labels.get(label, ""), pattern) for label, pattern in wanted.items())


@dataclass(frozen=True)
class _Combinations:
    """What an experiment varies, before its cells are made."""

    base: Experiment  # Without the matrix
    pairs: Sequence[tuple[str, str]]  # Stacks and workloads
    points: Sequence[tuple[Sequence[Override], SweepPoint]]
    """The combinations of the other axes with the points of the sweep. The sweep's points come innermost, and the one
    without changes, the baseline of the others, comes first (a full sweep has none)."""

    has_sweep: bool
    notes: Sequence[str]  # On cells that the host does not have


def _combine(
    source: load.ExperimentSource, changes: Sequence[Override], fixed: Sequence[Override], form: CellForm
) -> _Combinations:
    """Lists what cells combine. `fixed` are the changes that hold for all cells. Raises SpecProblems."""
    base, axes = _read_axes(source, fixed, [change for change in changes if change.axis])
    # `--set stack=near` and `--set stack=[near, far]` choose among the names of the file.
    name_changes = {change.key: change for change in changes if change.key in PAIR_AXES}
    pairs = _list_pairs(base, axes, name_changes, form)
    axes = {key: values for key, values in axes.items() if key not in BUILT_IN_AXES}
    notes: list[str] = []
    if form.on_targets:
        # A fleet's hosts may run any kernel.
        axes, notes = _axes_of_host(source, axes, platform.release() if form.runner == "host" else None)
    sweep_points = _sweep_points(base, axes)
    count = base.repeats * len(pairs) * len(sweep_points)
    for values in axes.values():
        count *= len(values)
    if count > MAX_CELLS:
        raise problems.fail("matrix", f"makes {count:,} cells, expected at most {MAX_CELLS:,}")
    points = list(itertools.product(itertools.product(*axes.values()), sweep_points))
    return _Combinations(base, pairs, points, len(sweep_points) > 1, notes)


def _expand_cells(
    source: load.ExperimentSource, changes: Sequence[Override], form: CellForm, patterns: Mapping[str, str]
) -> Iterator[Cell]:
    """Yields the cells. Those that do not match `patterns` may have no document: they are only counted."""
    for change in changes:
        if change.key == "repeat":
            raise problems.fail(change.origin, "no such key: set repeats")
    fixed = [change for change in changes if change.key not in PAIR_AXES and not change.axis]
    combinations = _combine(source, changes, fixed, form)
    base = combinations.base

    @cache
    def experiment_at(index: int) -> tuple[Experiment, dict[str, str]]:
        point, sweep_point = combinations.points[index]
        return _apply_changes(source, [*fixed, *point, *_changes_of_point(sweep_point, form)])

    # A document takes time to make. All of them are made if cells that do not match decide about others: on targets,
    # all cells of a target share a file (`_with_common_file_size`); a sweep compares each document with that without
    # its changes; a random order is drawn for all cells, so that a part of them keeps its order.
    needs_all = form.on_targets or combinations.has_sweep or base.order == "random"
    number = itertools.count(1)
    problems_found: list[SpecProblem] = []
    shuffle = random.Random(base.seed)  # noqa: S311  # not for secrets
    for stack, workload in combinations.pairs:
        baseline: Mapping[str, Any] = {}
        for index, (point, sweep_point) in enumerate(combinations.points):
            labels = {"stack": stack, "workload": workload}
            labels |= {change.key: _label(change.value) for change in point}
            labels |= sweep_point.labels
            labels_of_repeats = [{**labels, "repeat": str(repeat)} for repeat in range(1, base.repeats + 1)]
            if not (needs_all or any(_matches(repeat_labels, patterns) for repeat_labels in labels_of_repeats)):
                # These cells have a number and labels only; `_select_cells` drops them.
                yield from (Cell(next(number), repeat_labels, {}, 0) for repeat_labels in labels_of_repeats)
                continue
            # Go on after a problem: the user sees what is wrong with all cells at once.
            try:
                experiment, origins = experiment_at(index)
            except SpecProblems as problem:
                problems_found += [found for found in problem.found if found not in problems_found]
                continue
            try:
                made = form.document(source, experiment, stack, workload, sweep_point.settings)
            except SpecProblems as problem:
                problems_found += _name_origins(problem.found, origins)
                continue
            if not sweep_point.values:
                baseline = made.document
            elif made.document == baseline:  # a setting that this workload does not have
                continue
            for repeat, repeat_labels in enumerate(labels_of_repeats):
                yield Cell(
                    number=next(number),
                    labels=repeat_labels,
                    document={"seed": experiment.seed + repeat, **made.document},
                    capacity=made.capacity,
                    replay=made.replay,
                    uncertainties=made.uncertainties,
                    notes=[*combinations.notes, *made.notes],
                    ignored_options=made.ignored_options,
                    is_placed=made.is_placed,
                    order=shuffle.random() if base.order == "random" else 0.0,
                )
    if problems_found:
        raise SpecProblems(problems_found)


def _axes_of_host(
    source: load.ExperimentSource, axes: Mapping[str, list[Override]], release: str | None
) -> tuple[dict[str, list[Override]], list[str]]:
    """Returns the axes that a host has, and a note on the kernels that it does not run.

    What only models have is no axis. The running kernel `release` is one if the matrix names it, so that its cells are
    compared.
    """
    host_axes = dict[str, list[Override]]()
    notes = list[str]()
    for key, axis in axes.items():
        if not is_only_simulated(source.raw, axis[0]):
            host_axes[key] = axis
        elif release and key.removeprefix("settings.") == "kernel":
            same = [each for each in axis if str(each.value).split(".")[:2] == release.split(".")[:2]]
            other_values = ", ".join(str(each.value) for each in axis if each not in same)
            if same:
                host_axes[key] = same
            instead = "" if same else ", and each cell is measured on it once"
            if other_values:
                notes.append(f"cells of kernel {other_values} are skipped: this host runs {release}{instead}")
    return host_axes, notes


def _sweep_points(experiment: Experiment, axes: Mapping[str, object]) -> Sequence[SweepPoint]:
    """Returns the points of the sweep. Raises Problems for what the matrix varies already."""
    for key in experiment.sweep:
        if key in BUILT_IN_AXES:
            raise problems.fail(f"sweep.{key}", "not a setting: choose stacks and workloads in [matrix]")
        if key in axes:
            raise problems.fail(f"sweep.{key}", "[matrix] varies it as well: remove one of the two")
    return sweep.points(experiment.sweep)


def _changes_of_point(swept: SweepPoint, form: CellForm) -> list[Override]:
    """Returns what a point of the sweep changes in the experiment file."""
    changes = []
    for key, value in swept.values.items():
        if form.settings_are_keys and sweep.is_setting(key) and key not in sweep.SIMULATED:
            raise problems.fail(f"sweep.{key}", "is not simulated: use --on lab or --on host")
        if form.settings_are_keys:
            changes.append(Override(sweep.SIMULATED.get(key, key), value, f"sweep.{key}"))
        elif not sweep.is_setting(key):
            changes.append(Override(key, value, f"sweep.{key}"))
    return changes


def _read_axes(
    source: load.ExperimentSource, fixed: Sequence[Override], asked: Sequence[Override]
) -> tuple[Experiment, dict[str, list[Override]]]:
    """Returns the experiment without its matrix, and what the matrix and `--set` vary."""
    raw, origins = apply_overrides(source.raw, list(fixed))
    experiment = _check_experiment(source, raw, origins)
    set_already = {change.key for change in fixed}
    axes: dict[str, list[Override]] = {}
    varied = {key: (f"matrix.{key}", values) for key, values in experiment.matrix.items()}
    varied |= {change.key: (change.origin, change.value) for change in asked}
    for key, (where, values) in varied.items():
        if key == "repeat":
            raise problems.fail(where, "no such key; write repeats at the top of the file, before the tables")
        if key in set_already:
            continue
        if not values:
            raise problems.fail(where, "is empty: expected at least one")
        labels = [_label(value) for value in values]
        for at, label in enumerate(labels):
            if label in labels[:at]:
                raise problems.fail(f"{where}[{at}]", f"found {label!r} twice")
        axes[key] = [Override(key, value, f"{where}[{at}]") for at, value in enumerate(values)]
    return experiment, axes


def _list_pairs(
    experiment: Experiment, axes: Mapping[str, list[Override]], chosen: Mapping[str, Override], form: CellForm
) -> list[tuple[str, str]]:
    """Returns the stacks and workloads to run: those of [[cells]], otherwise each with each."""
    if not experiment.cells:
        stacks, workloads = (_list_names(experiment, axis, axes, chosen, form) for axis in PAIR_AXES)
        return list(itertools.product(stacks, workloads))
    pairs: list[tuple[str, str]] = []
    for at, table in enumerate(experiment.cells):
        named = {axis: Override(axis, getattr(table, axis), f"cells[{at}].{axis}") for axis in PAIR_AXES}
        stacks, workloads = (_list_names(experiment, axis, {}, named, form) for axis in PAIR_AXES)
        for pair in itertools.product(stacks, workloads):
            if pair in pairs:
                raise problems.fail(f"cells[{at}]", f"found stack {pair[0]!r} with workload {pair[1]!r} twice")
            pairs.append(pair)
    for at, axis in enumerate(PAIR_AXES):
        if axis in chosen:
            wanted = _list_names(experiment, axis, {}, chosen, form)
            pairs = [pair for pair in pairs if pair[at] in wanted]
        elif axis in axes:
            raise problems.fail(f"matrix.{axis}", f"[[cells]] names each {axis} as well: remove one of the two")
    if not pairs:
        options = " and ".join(chosen[axis].origin for axis in PAIR_AXES if axis in chosen)
        raise problems.fail(options, "[[cells]] has no such pair")
    return pairs


def _list_names(
    experiment: Experiment,
    axis: str,
    axes: Mapping[str, list[Override]],
    chosen: Mapping[str, Override],
    form: CellForm,
) -> list[str]:
    """Returns the stacks (on a host: targets) or workloads to run, by name."""
    stacks = experiment.targets if form.on_targets else experiment.stacks
    if axis == "stack" and not stacks:
        if not form.on_targets:
            where = "its [targets]" if experiment.targets else "a directory: --target PATH"
            why = "the simulator and the lab build stacks of [devices], and there are none"
            raise problems.fail("stacks", f"is missing: only --on host runs this file, on {where}; {why}")
        raise problems.fail("targets", "is missing: add --target /srv, with the directory or device to measure")
    known: Mapping[str, Any] = stacks if axis == "stack" else experiment.workloads
    changes = [chosen[axis]] if axis in chosen else axes.get(axis)
    if changes is None:
        return _outermost_stacks(experiment) if known is experiment.stacks else list(known)
    names = []
    for change in changes:
        values = change.value if isinstance(change.value, list) else [change.value]
        for value in values:
            if value not in known:
                hint = problems.near(str(value), known)
                what = "target" if known is experiment.targets else axis
                raise problems.fail(change.origin, f"there is no {what} {show_value(value)}; {hint}")
            names.append(str(value))
    return names


def _outermost_stacks(experiment: Experiment) -> list[str]:
    """Returns the stacks that are part of no other stack; all, if each is part of another."""
    inner = stack_resolution.inner(experiment)
    return [name for name in experiment.stacks if name not in inner] or list(experiment.stacks)


def _apply_changes(source: load.ExperimentSource, changes: Sequence[Override]) -> tuple[Experiment, dict[str, str]]:
    raw, origins = apply_overrides(source.raw, list(changes))
    return _check_experiment(source, raw, origins), origins


def _check_experiment(source: load.ExperimentSource, raw: Mapping[str, Any], origins: Mapping[str, str]) -> Experiment:
    try:
        experiment = load.check_experiment(source, raw)
        stack_resolution.check_names(experiment)
    except SpecProblems as problem:
        raise SpecProblems(_name_origins(problem.found, origins)) from None
    return experiment


def _name_origins(problems_found: Sequence[SpecProblem], origins: Mapping[str, str]) -> list[SpecProblem]:
    """Names the place in the matrix, or the option, that a wrong value came from."""
    return [SpecProblem(_find_origin(problem.path, origins), problem.message) for problem in problems_found]


def _find_origin(path: str, origins: Mapping[str, str]) -> str:
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
        case dict():
            return " ".join(f"{key}={_label(inner)}" for key, inner in value.items())
        case _:
            return str(value)
