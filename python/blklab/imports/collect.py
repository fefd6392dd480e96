"""From files to campaigns: recognise the format, read the runs, derive labels."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from blklab import __version__
from blklab.errors import BlklabError, UsageError
from blklab.imports import fio_log, registry
from blklab.imports.base import (
    MOST_RUNS,
    ImportedRun,
    ImportFile,
    ImportFormat,
    ImportResult,
    ImportSource,
)
from blklab.outcome import DeviceResult, Outcome
from blklab.spec.cells import Cell, ExperimentPlan
from blklab.store.finished_run import FinishedRun
from blklab.text import printable
from blklab.units import parse_size

LARGEST: Final = 256 << 20
"""Maximum bytes of a file; fio's largest outputs are a tenth of that."""

LIMIT: Final = 1 << 63

STDIN: Final = "-"

TOLD: Final = ("rw", "bs", "iodepth", "numjobs", "rwmixread")
"""Options that become labels."""


@dataclass(frozen=True)
class RunNaming:
    """Names and labels of runs."""

    name: str | None = None
    title: str = ""
    labels: Mapping[str, str] | None = None
    """Labels of all runs; they override those of the source."""

    renamed: Mapping[tuple[str, str], str] | None = None
    """New values, by label and old value; `device` can be renamed too."""


class SourceNames(ExperimentPlan):
    """Names of imported runs, which have no experiment file."""

    @property
    def name(self) -> str:
        """The name of the campaign."""
        return str(self.raw["import"]["name"])


@dataclass(frozen=True)
class Batch:
    """A campaign to be stored: the runs of one tool."""

    plan: ExperimentPlan
    finished: Mapping[str, FinishedRun]
    """By the key of the cell."""

    environment: Mapping[str, Any]


def batches(
    paths: Sequence[str], given: ImportSource, naming: RunNaming, form: str | None = None
) -> tuple[list[Batch], list[str]]:
    """Returns one campaign for each tool, and notes. Raises BlklabError, UsageError."""
    files = [file for path in paths for file in _files(path)]
    full = [file for file in files if file.text.strip() or file.path.is_dir()]
    if not full:
        raise UsageError(f"{files[0].where}: is empty; expected results")
    imported, notes = _read(full, given, form)
    notes[:0] = [f"{file.where}: is empty: skipped" for file in files if file not in full]
    if not any(imported.values()):
        raise BlklabError(notes[0] if notes else "the files contain no runs")
    first = full[0]
    return [_batch(runner, runs, first, naming) for runner, runs in imported.items() if runs], notes


# --- reading -------------------------------------------------------------------------------------


def _files(name: str) -> list[ImportFile]:
    path = Path(name)
    if name == STDIN:
        return [ImportFile(path, _text(path, sys.stdin.buffer.read(LARGEST + 1)))]
    try:
        if path.is_dir():
            directory = ImportFile(path, "")
            if any(each.matches(directory) for each in registry.DIRECTORY_FORMATS):
                return [directory]
            inside = sorted(path_inside for path_inside in path.iterdir() if path_inside.is_file())
            if not inside:
                raise UsageError(f"{printable(name)}: the directory has no files")
            files = [file for path_inside in inside for file in _files(str(path_inside))]
            return [replace(file, named=False) for file in files]
        with path.open("rb") as stream:
            return [ImportFile(path, _text(path, stream.read(LARGEST + 1)))]
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{printable(name)}: cannot be read: {reason}") from None


def _text(path: Path, content: bytes) -> str:
    if len(content) > LARGEST:
        raise UsageError(f"{printable(str(path))}: is larger than 256 MiB; expected a result")
    if b"\0" in content[:8192]:
        raise UsageError(f"{printable(str(path))}: is not text")
    return content.decode("utf-8-sig", errors="replace")


def _read(
    files: Sequence[ImportFile], given: ImportSource, form: str | None
) -> tuple[dict[str, list[ImportedRun]], list[str]]:
    """Returns the runs by the tool that measured them."""
    by_format: dict[str, list[ImportFile]] = {}
    directories = []
    notes: list[str] = []
    for file in files:
        if file.path.is_dir():
            directories.append(file)
        elif (name := form or _recognised(file)) is not None:
            by_format.setdefault(name, []).append(file)
        else:
            notes.append(f"{file.where}: unknown format: skipped")
    companions = _companions(by_format.get("fio", []), by_format.get("fio-log", []))
    joined = {log.path for logs in companions.values() for log in logs}
    by_origin: dict[str, list[ImportedRun]] = {}

    def take(each: ImportFormat, chosen: Sequence[ImportFile]) -> None:
        read = _each(each, replace(given, files=chosen, logs=companions))
        runs = by_origin.setdefault(each.runner, [])
        runs += read.runs
        notes.extend(read.notes)
        if len(runs) > MOST_RUNS:
            raise BlklabError(f"{len(runs):,} runs: expected at most {MOST_RUNS:,}")

    if directories:
        for each in registry.DIRECTORY_FORMATS:
            take(each, directories)
    for name, each in registry.FORMATS.items():
        chosen = [file for file in by_format.get(name, []) if file.path not in joined]
        if chosen:
            take(each, chosen)
    return by_origin, notes


def _each(each: ImportFormat, given: ImportSource) -> ImportResult:
    """Returns the runs that a format reads; invalid files of a directory are skipped."""
    if each.name == "fio-log" or all(file.named for file in given.files):
        return each.read(given)
    runs: list[ImportedRun] = []
    notes: list[str] = []
    for file in given.files:
        try:
            result = each.read(replace(given, files=[file]))
        except BlklabError as error:
            if file.named:
                raise
            notes.append(f"{error}: skipped")
            continue
        runs += result.runs
        notes += result.notes
    return ImportResult(runs, notes)


def _recognised(file: ImportFile) -> str | None:
    """Returns the name of a format; None for an unknown file in a directory. Raises UsageError."""
    for name, each in registry.FORMATS.items():
        if each.matches(file):
            return name
    if not file.named:
        return None
    known = "; ".join(f"{name}: {each.what}" for name, each in registry.FORMATS.items())
    raise UsageError(f"{file.where}: unknown format; known are {known}")


def _companions(
    documents: Sequence[ImportFile], logs: Sequence[ImportFile]
) -> dict[Path, list[ImportFile]]:
    """Returns the logs of each JSON: those in its directory, if it is the only one there."""
    companions = {}
    for document in documents:
        same_directory = [other for other in documents if other.path.parent == document.path.parent]
        own = [log for log in logs if log.path.parent == document.path.parent]
        if len(same_directory) == 1 and own:
            companions[document.path] = own
    return companions


# --- labels --------------------------------------------------------------------------------------


def _batch(runner: str, runs: Sequence[ImportedRun], first: ImportFile, naming: RunNaming) -> Batch:
    labels = _labels(runs, naming)
    cells, finished = [], {}
    for number, (run, own) in enumerate(zip(runs, labels, strict=True), 1):
        if _too_large(run.outcome) or any(_too_large(vars(point)) for point in run.points):
            raise BlklabError(f"{run.where}: has figures of 2^63 or more; expected a result")
        cell = Cell(number, own, _document(run), 0)
        cells.append(cell)
        outcome = _renamed(run.outcome, naming)
        seconds = run.outcome["runtime_ns"] / 1e9
        finished[cell.key] = FinishedRun(outcome, seconds, run.points, run.raw)
    varied = [label for label in labels[0] if len({own.get(label) for own in labels}) > 1]
    log = fio_log.NAME.fullmatch(first.path.name)
    default = "published" if first.path.is_dir() else log["prefix"] if log else first.path.stem
    # The name must not contain the characters that select campaigns.
    name = naming.name or re.sub(r"[@:~]", "-", default).strip("-") or "stdin"
    files = list(dict.fromkeys(run.where for run in runs))
    raw = {"import": {"name": name, "files": files[:1000]}}
    plan = SourceNames(naming.title, cells, varied, runner, first.path, raw)
    return Batch(plan, finished, {"blklab": __version__, "imported": True})


def _too_large(value: object) -> bool:
    """Returns whether there is a number that the store cannot hold."""
    match value:
        case Mapping():
            return any(_too_large(inner) for inner in value.values())
        case list() | tuple():
            return any(_too_large(inner) for inner in value)
        case int() | float():
            return not -LIMIT < value < LIMIT  # NaN is neither
    return False


def _document(run: ImportedRun) -> dict[str, Any]:
    """Returns the cell's document: the known options of the jobs, and their origin."""
    options = {key: str(value) for key, value in run.options.items()}
    for key in ("numjobs", "iodepth"):
        value = options.get(key, "1")
        if not (value.isascii() and value.isdigit() and len(value) < 10):
            del options[key]
    return {"jobs": [{"name": run.workload, "options": options}], "source": run.where}


def _labels(runs: Sequence[ImportedRun], naming: RunNaming) -> list[dict[str, str]]:
    """Returns the labels of each run.

    An option becomes a label if it is the same in all runs, or if it distinguishes runs of one
    workload. An option that follows the workload's name is left out: an experiment has no such
    label, so the runs would not match.
    """
    renamed, extra = naming.renamed or {}, dict(naming.labels or {})
    facts = [{key: _short(run.options[key]) for key in TOLD if key in run.options} for run in runs]
    kept = [key for key in TOLD if _tells(key, runs, facts)]
    counts: dict[tuple[tuple[str, str], ...], int] = {}
    labels_of_runs = []
    for run, options in zip(runs, facts, strict=True):
        labels = {**run.labels, "workload": run.workload}
        labels |= {key: options[key] for key in kept if key in options}
        labels = {key: renamed.get((key, value), value) for key, value in labels.items()} | extra
        labels.pop("repeat", None)
        same = tuple(sorted(labels.items()))
        counts[same] = counts.get(same, 0) + 1
        labels_of_runs.append({**labels, "repeat": str(counts[same])})
    return labels_of_runs


def _tells(key: str, runs: Sequence[ImportedRun], facts: Sequence[Mapping[str, str]]) -> bool:
    if len({options.get(key) for options in facts}) == 1:
        return key in facts[0]
    by_workload: dict[tuple[str, ...], set[str | None]] = {}
    for run, options in zip(runs, facts, strict=True):
        context = (run.workload, *run.labels.values())
        by_workload.setdefault(context, set()).add(options.get(key))
    return any(len(values) > 1 for values in by_workload.values())


def _short(value: str) -> str:
    """Returns an option's value as people write it: `4k` for 4096."""
    sizes = []
    for part in str(value).split(","):
        try:
            size = parse_size(part)
        except ValueError:
            return str(value)
        for unit, scale in (("m", 1 << 20), ("k", 1 << 10)):
            if size >= scale and size % scale == 0:
                sizes.append(f"{size // scale}{unit}")
                break
        else:
            sizes.append(str(size))
    return ",".join(sizes)


def _renamed(outcome: Outcome, naming: RunNaming) -> Outcome:
    names = {old: new for (label, old), new in (naming.renamed or {}).items() if label == "device"}
    if not names:
        return outcome
    devices: list[DeviceResult] = [
        {**device, "name": names.get(device["name"], device["name"])}
        for device in outcome["devices"]
    ]
    return {**outcome, "devices": devices}
