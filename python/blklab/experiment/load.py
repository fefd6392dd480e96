"""Reads an experiment file, adds stock models and job files, and checks the experiment."""

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from blklab.devices import stock_models
from blklab.devices.controllers import read_controllers
from blklab.devices.device import KINDS, Device
from blklab.errors import UsageError
from blklab.experiment import fio_job, schema
from blklab.experiment.tables import Experiment, Host
from blklab.fio.output import is_job_file
from blklab.toml_files import problems
from blklab.toml_files.fields import NAME, show_value
from blklab.toml_files.files import read_toml
from blklab.toml_files.problems import SpecProblem, SpecProblems


@dataclass(frozen=True)
class ExperimentSource:
    """An experiment file as it was read, with its job files converted to workloads."""

    path: Path
    raw: Mapping[str, Any]
    notes: Sequence[str] = ()  # Options of job files that blklab sets itself

    def resolve_path(self, name: str) -> Path:
        """Returns the path of a file named in the experiment, relative to the experiment's directory."""
        return self.path.parent / Path(name).expanduser()


def _describe_job_file(path: Path) -> str:
    """Returns what to type for a job file of fio instead of an experiment."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-") or "job"
    lines = ['devices.disk.model = "nvme-consumer"', 'stacks.disk.device = "disk"']
    lines.append(f"workloads.{name}.job_file = {json.dumps(str(path))}")
    file = f"{name}-experiment.toml"
    command = f"printf '%s\\n' {shlex.join(lines)} > {file} && blklab run {file}"
    what = "this is a fio job, which an experiment names with `job_file`"
    return f"{path}: {what}. Type, with the model of your disk: {command}"


def read(path: Path) -> ExperimentSource:
    """Reads an experiment file. Raises UsageError."""
    try:
        raw = read_toml(path)
    except UsageError:
        if is_job_file(path):
            raise UsageError(_describe_job_file(path)) from None
        raise
    source = ExperimentSource(path, raw)
    workloads = raw.get("workloads")
    if not isinstance(workloads, dict):
        return source
    tables: dict[str, Any] = {}
    notes: list[str] = []
    for name, table in workloads.items():
        file = table.get("job_file") if isinstance(table, dict) else None
        if not isinstance(file, str) or not file:
            tables[name] = table
            continue
        if other_keys := [key for key in table if key != "job_file"]:
            key_path = f"workloads.{name}.{other_keys[0]}"
            raise problems.usage_error(
                str(path), [SpecProblem(key_path, "not allowed with job_file: edit the job file")]
            )
        groups, job_notes = fio_job.read(source.resolve_path(file))
        notes += job_notes
        for first, jobs in groups:
            label = name if len(groups) == 1 else fio_job.make_unique(f"{name}/{first}", tables)
            tables[label] = {"jobs": jobs}
    return ExperimentSource(path, {**raw, "workloads": tables}, notes)


def check_experiment(source: ExperimentSource, raw: Mapping[str, Any]) -> Experiment:
    """Returns a checked experiment of `raw`, which may be the file with changes.

    Raises SpecProblems, or UsageError for another file.
    """
    problems_found: list[SpecProblem] = []
    tables = dict(raw)
    if isinstance(devices := raw.get("devices"), dict):
        tables["devices"] = {}
        for name, table in devices.items():
            try:
                tables["devices"][name] = _device(source, name, table)
            except SpecProblems as problem:
                problems_found += problem.found
        tables["controllers"] = _with_known_controllers(raw.get("controllers", {}), devices)
    settings = raw.get("settings")
    if isinstance(settings, dict) and isinstance(host := settings.get("host"), dict) and "calibrated" in host:
        tables["settings"] = {**settings, "host": {**_host(source, host["calibrated"]), **host}}
    try:
        experiment = Experiment.model_validate(tables)
    except ValidationError as error:
        known_keys = {**schema.KNOWN_KEYS, (): schema.ROOT}
        problems_found += [_without_kind(problem, tables) for problem in problems.translate_errors(error, known_keys)]
        raise SpecProblems(problems_found) from error
    if problems_found:
        raise SpecProblems(problems_found)
    return experiment


def _with_known_controllers(controllers: Any, devices: Mapping[str, Any]) -> Any:
    """Returns the table [controllers] with those that devices name, and that blklab knows."""
    if not isinstance(controllers, dict):
        return controllers
    tables = dict(controllers)
    for table in devices.values():
        name = table.get("controller") if isinstance(table, dict) else None
        if isinstance(name, str) and name not in tables and name in read_controllers():
            tables[name] = dict(read_controllers()[name].keys)
    return tables


def _without_kind(problem: SpecProblem, raw: Mapping[str, Any]) -> SpecProblem:
    """Removes the kind from `devices.nvme.ssd.units`, where pydantic puts it."""
    parts = problem.path.split(".")
    if len(parts) > 2 and parts[0] == "devices" and parts[2] in KINDS and parts[1] in raw["devices"]:
        del parts[2]
    return SpecProblem(".".join(parts), problem.message)


def _device(source: ExperimentSource, name: str, table: Any) -> Any:
    """Returns a device's table merged with the parameters of its stock model or calibrated file."""
    if not isinstance(table, dict):
        return table
    sources = [key for key in schema.SOURCES if key in table]
    path = f"devices.{name}"
    if not sources:
        for key in [key for key in table if key not in schema.DEVICE]:
            if (hint := problems.near(key, schema.SOURCES)).startswith("did"):
                raise problems.fail(f"{path}.{key}", f"no such key; {hint}")
        raise problems.fail(path, "found neither model, calibrated nor kind: set one of them")
    if len(sources) > 1:
        raise problems.fail(f"{path}.{sources[1]}", f"{sources[0]} is given as well: use one of the two")
    if sources == ["kind"]:
        return table
    value = table[sources[0]]
    if not isinstance(value, str) or not value:
        raise problems.fail(f"{path}.{sources[0]}", f"found {show_value(value)}, expected a name")
    if sources == ["model"]:
        try:
            base = stock_models.stock(value, table)
        except ValueError as error:
            raise problems.fail(f"{path}.model", str(error)) from None
    else:
        base = read_calibrated(source.resolve_path(value))
    # A rate that the experiment states holds in every state of the disk.
    rest = {key: value for key, value in base.items() if key.removeprefix("sustained_") not in table}
    if "write_command_ns" in table:
        rest.pop("cached_write_command_ns", None)
    return {**rest, **{key: value for key, value in table.items() if key != sources[0]}}


def read_calibrated(path: Path) -> dict[str, Any]:
    """Returns the checked [device] table of a calibrated file. Raises UsageError."""
    table = stock_models.read_calibrated(path)
    known_keys: dict[tuple[str, ...], list[str]] = {(kind,): list(model.model_fields) for kind, model in KINDS.items()}
    _check_file(path, Device, table, known_keys, lambda problem: f"device.{problem.partition('.')[2]}".rstrip("."))
    return table


def _host(source: ExperimentSource, file: Any) -> dict[str, Any]:
    """Returns the checked [host] table of a calibrated file. Raises SpecProblems, or UsageError for the file."""
    if not isinstance(file, str) or not file:
        raise problems.fail("settings.host.calibrated", f"found {show_value(file)}, expected a name")
    path = source.resolve_path(file)
    table = read_toml(path).get("host")
    if not isinstance(table, dict) or not table or "calibrated" in table:
        raise UsageError(f"{path}: no times in a table [host]: expected a file that `blklab calibrate --host` wrote")
    known_keys = [key for key in Host.model_fields if key != "calibrated"]
    _check_file(path, Host, table, {(): known_keys}, lambda problem: f"host.{problem}")
    return table


def _check_file(path: Path, form: Any, table: dict[str, Any], known_keys: Any, place: Callable[[str], str]) -> None:
    """Raises UsageError for a table of a file that does not have this form; `place` names a key in the file."""
    try:
        TypeAdapter[Any](form).validate_python(table)
    except ValidationError as error:
        problems_found = [
            SpecProblem(place(problem.path), problem.message)
            for problem in problems.translate_errors(error, known_keys)
        ]
        raise problems.usage_error(str(path), problems_found) from error


def add_targets(source: ExperimentSource, texts: Sequence[str]) -> ExperimentSource:
    """Returns the experiment with these targets; they replace its own of the same name.

    A path without a name is for the only stack or target of the experiment. Raises UsageError.
    """
    targets = source.raw.get("targets", {})
    if not texts or not isinstance(targets, dict):
        return source
    by_stack: dict[str, Any] = dict(targets)
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or NAME.fullmatch(name) is None:
            name = _only_place(source, text)
            path = text
        if not path:
            raise UsageError(f"--target {text!r}: expected STACK=PATH, such as raid1=/mnt/raid1")
        target_path = Path(path).expanduser().absolute()
        kind = "device" if target_path.is_block_device() else "directory"
        before = by_stack.get(name, {})
        target = {key: before[key] for key in ("size", "cache") if key in before}
        if kind == "device":
            target.pop("size", None)
        by_stack[name] = {**target, kind: str(target_path)}
    return replace(source, raw={**source.raw, "targets": by_stack})


def _only_place(source: ExperimentSource, text: str) -> str:
    """Returns the name of the only stack or target. Raises UsageError."""
    names: dict[str, None] = {}  # A set with an order
    for section in ("targets", "stacks"):
        tables = source.raw.get(section)
        if isinstance(tables, dict):
            names |= dict.fromkeys(tables)
    if len(names) > 1:
        names_text = ", ".join(names)
        raise UsageError(f"--target {text!r}: choose one of {names_text}, and write STACK={text}")
    return next(iter(names), "here")
