"""From files to campaigns: recognise the format, read the runs, derive labels."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from blklab import __version__
from blklab.errors import BlklabError, SystemErrors, UsageError
from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.grouping import by_key
from blklab.importers import base, fio_log, fio_results, iostat, run_labels, tables
from blklab.importers.base import MOST_RUNS, ImportedRun, ImportFile, ImportFormat, ImportResult, ImportSource
from blklab.importers.run_labels import RunNaming
from blklab.outcome import Outcome
from blklab.store.series import FinishedRun
from blklab.text.name_differences import common_start
from blklab.text.printing import printable
from blklab.units import numbers_in

LIMIT = 1 << 63

STDIN = "-"


MAX_FILES = 100_000  # Below a directory
NAME_PART = re.compile(r"\d+(?:\.\d+)+|[^-_. ]+|[-_. ]+")  # Words of a name, and what is between them; 6.1 is one word

_ALL = (  # A format is one module and one line here
    ImportFormat("fio", "fio", "fio's JSON, JSON+", fio_results.matches, fio_results.read),
    ImportFormat("fio-log", "fio", "fio's interval logs", fio_log.matches, fio_log.read),
    ImportFormat("fio-text", "fio", "fio's normal output", fio_results.matches_text, fio_results.read_text),
    ImportFormat("iostat", "iostat", "iostat -x", iostat.matches, iostat.read),
    *tables.FORMATS,  # Those of presets.toml, and `table`
)
FORMATS = {each.name: each for each in _ALL}  # By name


class SourceNames(ExperimentPlan):
    """Names of imported runs, which have no experiment file."""

    @property
    def name(self) -> str:
        return str(self.raw["import"]["name"])


@dataclass(frozen=True)
class Batch:
    """A campaign to be stored: the runs of one tool."""

    plan: ExperimentPlan
    finished_runs: Mapping[str, FinishedRun]  # By the key of the cell
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class ImportedFiles:
    """The campaigns of an import, and what could not be imported."""

    batches: list[Batch]  # One for each tool
    notes: list[str]
    errors: list[str]  # Files that could not be imported, with the reason


def batches(paths: Sequence[str], source: ImportSource, naming: RunNaming, form: str | None = None) -> ImportedFiles:
    """Returns one campaign for each tool. Raises BlklabError, UsageError for a single bad file."""
    errors: list[BlklabError] = []
    files = (file for path in paths for file in _files(path, errors))
    runs_by_tool, notes, first = _read(files, source, form, errors)
    tool_batches = []
    for runner, runs in runs_by_tool.items():
        named_runs, name_errors, doubts = run_labels.split_names(runs, naming.pattern)
        errors += map(BlklabError, name_errors)
        if named_runs:
            batch, label_notes = _batch(runner, named_runs, first, naming)
            tool_batches.append(batch)
            notes += [*doubts, *label_notes, *_note_added_jobs(named_runs)]
    problems = list(dict.fromkeys(map(str, errors)))
    if not tool_batches and len(problems) == 1:
        raise errors[0]
    if not tool_batches and not problems:
        raise BlklabError(notes[0] if notes else "the files contain no runs")
    return ImportedFiles(tool_batches, notes, problems)


# --- reading -------------------------------------------------------------------------------------


def _files(name: str, errors: list[BlklabError]) -> Iterator[ImportFile]:
    """Yields a file, or those of a directory; adds what cannot be read to `errors`."""
    file = ImportFile(path := Path(name))
    try:
        with SystemErrors(UsageError, f"{file.location}: cannot be read"):
            if name == STDIN:
                yield ImportFile(path, base.read_text(path, sys.stdin.buffer))
            elif not path.is_dir():
                # A pipe can be read only once.
                yield file if path.is_file() else replace(file, content=file.text)
            elif entries := _list_directory(path):
                yield from (ImportFile(entry, named_by_user=False) for entry in entries)
            else:
                raise UsageError(f"{file.location}: the directory has no files")
    except UsageError as error:
        errors.append(error)


def _list_directory(directory: Path) -> list[Path]:
    """Returns the files below a directory, in natural order. Links to directories are not followed.

    Raises UsageError for more than `MAX_FILES`.
    """
    paths = []
    for parent, _, names in os.walk(directory):
        below = [Path(parent, name) for name in names]
        paths += [path for path in below if path.is_file()]
        if len(paths) > MAX_FILES:
            raise UsageError(f"{printable(str(directory))}: more than {MAX_FILES:,} files: name a smaller directory")
    return sorted(paths, key=lambda path: [numbers_in(part) for part in path.relative_to(directory).parts])


def _read(
    files: Iterable[ImportFile], source: ImportSource, form: str | None, errors: list[BlklabError]
) -> tuple[dict[str, list[ImportedRun]], list[str], Path]:
    """Returns the runs by the tool that measured them, notes, and the first file with content; adds to `errors`."""
    by_format: dict[str, list[ImportFile]] = {}
    log_names: dict[Path, set[str]] = {}  # What each JSON calls its logs
    first: Path | None = None
    empty = []
    unknown = []
    for file in files:
        try:
            if not file.text.strip():
                empty.append(file.location)
                continue
            if (name := form or _find_format(file)) is not None:
                by_format.setdefault(name, []).append(file)
                if name == "fio":
                    log_names[file.path] = {Path(log).name for log in _LOG_NAME.findall(file.text)}
            else:
                unknown.append(file.location)
            first = first or file.path
        except UsageError as error:
            errors.append(error)
    if empty and first is None and not errors:
        raise UsageError(f"{empty[0]}: is empty; expected results")
    notes = []
    if empty:
        notes.append(f"{run_labels.and_more(empty)}: empty: skipped")
    if unknown:
        notes.append(f"{run_labels.and_more(unknown)}: unknown format: skipped")
    companions = _companions(log_names, by_format.get("fio-log", []))
    companion_paths = {log.path for logs in companions.values() for log in logs}
    by_origin: dict[str, list[ImportedRun]] = {}
    for name, import_format in FORMATS.items():
        files_of_format = [file for file in by_format.get(name, []) if file.path not in companion_paths]
        if not files_of_format:
            continue
        result = _read_format(import_format, replace(source, files=files_of_format, logs=companions), errors)
        runs = by_origin.setdefault(import_format.runner, [])
        runs += result.runs
        notes += result.notes
        if len(runs) > MOST_RUNS:
            raise BlklabError(f"{len(runs):,} runs: expected at most {MOST_RUNS:,}")
    return by_origin, notes, first or Path(STDIN)


def _read_format(import_format: ImportFormat, source: ImportSource, errors: list[BlklabError]) -> ImportResult:
    """Returns the runs that a format reads from each file; adds invalid files to `errors`."""
    runs: list[ImportedRun] = []
    notes: list[str] = []
    single = [[file] for file in source.files]
    for files in fio_log.by_run(source.files) if import_format.name == "fio-log" else single:
        try:
            result = import_format.read(replace(source, files=files))
            for run in result.runs:
                if _too_large(run.outcome.as_document()) or any(_too_large(vars(point)) for point in run.points):
                    raise BlklabError(f"{run.location}: has figures of 2^63 or more; expected a result")
        except BlklabError as error:
            errors.append(error)
            continue
        runs += result.runs
        notes += result.notes
    return ImportResult(runs, notes)


def _find_format(file: ImportFile) -> str | None:
    """Returns the name of a format; None for an unknown file in a directory. Raises UsageError."""
    name = next((name for name, import_format in FORMATS.items() if import_format.matches(file)), None)
    if name or not file.named_by_user:
        return name
    formats = "; ".join(f"{name}: {import_format.description}" for name, import_format in FORMATS.items())
    raise UsageError(f"{file.location}: unknown format; known are {formats}")


_LOG_NAME = re.compile(r'"write_(?:bw|lat|iops|hist)_log"\s*:\s*"([^"]{1,400})"')


def _companions(log_names: Mapping[Path, set[str]], logs: Sequence[ImportFile]) -> dict[Path, list[ImportFile]]:
    """Returns the logs of each JSON in its directory: those that its job options name, otherwise
    those that no other JSON names, if it is the only one without names there.
    """
    naming = by_key(((path.parent, name), path) for path, names in log_names.items() for name in names)
    files_without_names = by_key((path.parent, path) for path, names in log_names.items() if not names)
    companions: dict[Path, list[ImportFile]] = {}
    for log in logs:
        match = fio_log.NAME.fullmatch(log.path.name)
        directory = log.path.parent
        by_name = naming.get((directory, match["prefix"]), []) if match else []
        candidates = files_without_names.get(directory, [])
        if by_name or len(candidates) == 1:
            companions.setdefault((by_name or candidates)[0], []).append(log)
    return companions


# --- labels --------------------------------------------------------------------------------------


def _batch(runner: str, runs: Sequence[ImportedRun], first: Path, naming: RunNaming) -> tuple[Batch, list[str]]:
    labels, doubts = run_labels.make_labels(runs, naming)
    cells = []
    finished_runs = {}
    jobs: dict[str, dict[str, Any]] = {}  # Each job once: thousands of runs have the same options
    for number, (run, cell_labels) in enumerate(zip(runs, labels, strict=True), 1):
        job = _job(run)
        cell = Cell(number, cell_labels, _document(run, jobs.setdefault(repr(job), job)), 0)
        cells.append(cell)
        outcome = _rename_devices(run.outcome, naming)
        finished_runs[cell.key] = FinishedRun(outcome, run.outcome.runtime_ns / 1e9, run.points, run.raw)
    varied_labels = []
    for label in dict.fromkeys(label for cell_labels in labels for label in cell_labels):
        values = {cell_labels.get(label) for cell_labels in labels}
        if len(values) > 1:
            varied_labels.append(label)
    log = fio_log.NAME.fullmatch(first.name)
    default = log["prefix"] if log else _find_common_name(runs)
    # The name must not contain the characters that select campaigns.
    name = naming.name or re.sub(r"[@:~]", "-", default).strip("-") or "stdin"
    files = list(dict.fromkeys(run.location for run in runs))
    first_time = min((run.measured_at for run in runs if run.measured_at), default=None)
    repeats = max(int(cell_labels["repeat"]) for cell_labels in labels)
    raw = {"import": {"name": name, "files": files[:1000], "measured": first_time}, "repeats": repeats}
    plan = SourceNames(naming.title, cells, varied_labels, runner, first, raw)
    return Batch(plan, finished_runs, {"blklab": __version__, "imported": True}), doubts


def _note_added_jobs(runs: Sequence[ImportedRun]) -> list[str]:
    """Returns a note about runs with several jobs, whose figures are the sums."""
    several = [f"{run.location} ({len(run.outcome.groups)} jobs)" for run in runs if len(run.outcome.groups) > 1]
    how = "jobs that ran together are added up: `blklab runs show --per-job` shows each"
    return [f"{run_labels.and_more(several)}: {how}"] if several else []


def _find_common_name(runs: Sequence[ImportedRun]) -> str:
    """Returns the words at the start of all file names, otherwise the name of the directory of all files."""
    first = Path(runs[0].location).absolute()
    directories = {str(Path(run.location).absolute().parent) for run in runs}
    if len(directories) > 1:
        return Path(os.path.commonpath(directories)).name
    stems = list(dict.fromkeys(Path(re.sub(r":\d+$", "", run.location)).stem for run in runs))
    if len(stems) == 1:
        return stems[0]
    stem_parts = [NAME_PART.findall(stem) for stem in stems]
    return "".join(stem_parts[0][: common_start(stem_parts)]).rstrip("-_. ") or first.parent.name


def _too_large(value: object) -> bool:
    match value:
        case Mapping():
            return any(_too_large(inner) for inner in value.values())
        case list() | tuple():
            return any(_too_large(inner) for inner in value)
        case int() | float():
            return not -LIMIT < value < LIMIT  # NaN is neither
    return False


def _job(run: ImportedRun) -> dict[str, Any]:
    """Returns a run's job with its known options."""
    options = {key: str(value) for key, value in run.options.items()}
    for key in ("numjobs", "iodepth"):
        value = options.get(key, "1")
        if not (value.isascii() and value.isdigit() and len(value) < 10):
            del options[key]
    return {"name": run.workload, "options": options}


def _document(run: ImportedRun, job: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the cell's document: the job, and the origin of its results."""
    document = {"jobs": [job], "source": run.location}
    return document if run.measured_at is None else {**document, "measured": run.measured_at}


def _rename_devices(outcome: Outcome, naming: RunNaming) -> Outcome:
    names = {old: new for (label, old), new in (naming.new_values or {}).items() if label == "device"}
    if not names:
        return outcome
    devices = [replace(device, name=names.get(device.name, device.name)) for device in outcome.devices]
    return replace(outcome, devices=devices)
