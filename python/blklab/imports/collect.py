"""From files to campaigns: recognise the format, read the runs, derive labels."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from blklab import __version__
from blklab.errors import BlklabError, SystemErrors, UsageError
from blklab.grouping import by_key
from blklab.imports import base, fio_log, fio_results, iostat, run_labels
from blklab.imports.base import MOST_RUNS, ImportedRun, ImportFile, ImportFormat, ImportResult, ImportSource
from blklab.imports.run_labels import RunNaming
from blklab.name_differences import common_start
from blklab.outcome import Outcome
from blklab.spec.cells import Cell, ExperimentPlan
from blklab.store.series import FinishedRun
from blklab.units import numbers_in

LIMIT = 1 << 63

STDIN = "-"


_ALL = (  # A format is one module and one line here
    ImportFormat("fio", "fio", "fio's JSON, JSON+", fio_results.matches, fio_results.read),
    ImportFormat("fio-log", "fio", "fio's interval logs", fio_log.matches, fio_log.read),
    ImportFormat("fio-text", "fio", "fio's normal output", fio_results.matches_text, fio_results.read_text),
    ImportFormat("iostat", "iostat", "iostat -x", iostat.matches, iostat.read),
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
    finished: Mapping[str, FinishedRun]  # By the key of the cell
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class ImportedFiles:
    """The campaigns of an import, and what could not be imported."""

    batches: list[Batch]  # One for each tool
    notes: list[str]
    failed: list[str]  # Files that could not be imported, with the reason


def batches(paths: Sequence[str], given: ImportSource, naming: RunNaming, form: str | None = None) -> ImportedFiles:
    """Returns one campaign for each tool. Raises BlklabError, UsageError for a single bad file."""
    failed: list[BlklabError] = []
    files = (file for path in paths for file in _files(path, failed))
    imported, notes, first = _read(files, given, form, failed)
    read = []
    for runner, runs in imported.items():
        kept, unmatched, doubts = run_labels.split_names(runs, naming.pattern)
        failed += map(BlklabError, unmatched)
        if kept:
            batch, more = _batch(runner, kept, first, naming)
            read.append(batch)
            notes += [*doubts, *more, *_added_up(kept)]
    problems = list(dict.fromkeys(map(str, failed)))
    if not read and len(problems) == 1:
        raise failed[0]
    if not read and not problems:
        raise BlklabError(notes[0] if notes else "the files contain no runs")
    return ImportedFiles(read, notes, problems)


# --- reading -------------------------------------------------------------------------------------


def _files(name: str, failed: list[BlklabError]) -> Iterator[ImportFile]:
    """Yields a file, or those of a directory; adds what cannot be read to `failed`."""
    file = ImportFile(path := Path(name))
    try:
        with SystemErrors(UsageError, f"{file.where}: cannot be read"):
            if name == STDIN:
                yield ImportFile(path, base.read_text(path, sys.stdin.buffer))
            elif not path.is_dir():
                # A pipe can be read only once.
                yield file if path.is_file() else replace(file, content=file.text)
            elif inside := [each for each in path.iterdir() if each.is_file()]:
                for each in sorted(inside, key=lambda each: numbers_in(each.name)):
                    yield ImportFile(each, named=False)
            else:
                raise UsageError(f"{file.where}: the directory has no files")
    except UsageError as error:
        failed.append(error)


def _read(
    files: Iterable[ImportFile], given: ImportSource, form: str | None, failed: list[BlklabError]
) -> tuple[dict[str, list[ImportedRun]], list[str], Path]:
    """Returns the runs by the tool that measured them, notes, and the first file with content; adds to `failed`."""
    by_format: dict[str, list[ImportFile]] = {}
    log_names: dict[Path, set[str]] = {}  # What each JSON calls its logs
    first: Path | None = None
    empty = []
    notes = []
    for file in files:
        try:
            if not file.text.strip():
                empty.append(f"{file.where}: is empty")
                continue
            if (name := form or _recognised(file)) is not None:
                by_format.setdefault(name, []).append(file)
                if name == "fio":
                    log_names[file.path] = {Path(log).name for log in _LOG_NAME.findall(file.text)}
            else:
                notes.append(f"{file.where}: unknown format: skipped")
            first = first or file.path
        except UsageError as error:
            failed.append(error)
    if empty and first is None and not failed:
        raise UsageError(f"{empty[0]}; expected results")
    notes[:0] = [f"{each}: skipped" for each in empty]
    companions = _companions(log_names, by_format.get("fio-log", []))
    joined = {log.path for logs in companions.values() for log in logs}
    by_origin: dict[str, list[ImportedRun]] = {}
    for name, each in FORMATS.items():
        files_of_format = [file for file in by_format.get(name, []) if file.path not in joined]
        if not files_of_format:
            continue
        read = _each(each, replace(given, files=files_of_format, logs=companions), failed)
        runs = by_origin.setdefault(each.runner, [])
        runs += read.runs
        notes += read.notes
        if len(runs) > MOST_RUNS:
            raise BlklabError(f"{len(runs):,} runs: expected at most {MOST_RUNS:,}")
    return by_origin, notes, first or Path(STDIN)


def _each(each: ImportFormat, given: ImportSource, failed: list[BlklabError]) -> ImportResult:
    """Returns the runs that a format reads from each file; adds invalid files to `failed`."""
    runs: list[ImportedRun] = []
    notes: list[str] = []
    single = [[file] for file in given.files]
    for files in fio_log.by_run(given.files) if each.name == "fio-log" else single:
        try:
            result = each.read(replace(given, files=files))
            for run in result.runs:
                if _too_large(run.outcome.as_document()) or any(_too_large(vars(point)) for point in run.points):
                    raise BlklabError(f"{run.where}: has figures of 2^63 or more; expected a result")
        except BlklabError as error:
            failed.append(error)
            continue
        runs += result.runs
        notes += result.notes
    return ImportResult(runs, notes)


def _recognised(file: ImportFile) -> str | None:
    """Returns the name of a format; None for an unknown file in a directory. Raises UsageError."""
    name = next((name for name, each in FORMATS.items() if each.matches(file)), None)
    if name or not file.named:
        return name
    known = "; ".join(f"{name}: {each.what}" for name, each in FORMATS.items())
    raise UsageError(f"{file.where}: unknown format; known are {known}")


_LOG_NAME = re.compile(r'"write_(?:bw|lat|iops|hist)_log"\s*:\s*"([^"]{1,400})"')


def _companions(log_names: Mapping[Path, set[str]], logs: Sequence[ImportFile]) -> dict[Path, list[ImportFile]]:
    """Returns the logs of each JSON in its directory: those that its job options name, otherwise
    those that no other JSON names, if it is the only one without names there.
    """
    naming = by_key(((path.parent, name), path) for path, names in log_names.items() for name in names)
    others = by_key((path.parent, path) for path, names in log_names.items() if not names)
    companions: dict[Path, list[ImportFile]] = {}
    for log in logs:
        match = fio_log.NAME.fullmatch(log.path.name)
        directory = log.path.parent
        by_name = naming.get((directory, match["prefix"]), []) if match else []
        alone = others.get(directory, [])
        if by_name or len(alone) == 1:
            companions.setdefault((by_name or alone)[0], []).append(log)
    return companions


# --- labels --------------------------------------------------------------------------------------


def _batch(runner: str, runs: Sequence[ImportedRun], first: Path, naming: RunNaming) -> tuple[Batch, list[str]]:
    labels, doubts = run_labels.make_labels(runs, naming)
    cells = []
    finished = {}
    for number, (run, own) in enumerate(zip(runs, labels, strict=True), 1):
        cell = Cell(number, own, _document(run), 0)
        cells.append(cell)
        outcome = _renamed(run.outcome, naming)
        finished[cell.key] = FinishedRun(outcome, run.outcome.runtime_ns / 1e9, run.points, run.raw)
    varied = []
    for label in dict.fromkeys(label for own in labels for label in own):
        values = {own.get(label) for own in labels}
        if len(values) > 1:
            varied.append(label)
    log = fio_log.NAME.fullmatch(first.name)
    default = log["prefix"] if log else _shared(runs)
    # The name must not contain the characters that select campaigns.
    name = naming.name or re.sub(r"[@:~]", "-", default).strip("-") or "stdin"
    files = list(dict.fromkeys(run.where for run in runs))
    measured = min((run.measured for run in runs if run.measured), default=None)
    repeats = max(int(own["repeat"]) for own in labels)
    raw = {"import": {"name": name, "files": files[:1000], "measured": measured}, "repeats": repeats}
    plan = SourceNames(naming.title, cells, varied, runner, first, raw)
    return Batch(plan, finished, {"blklab": __version__, "imported": True}), doubts


def _added_up(runs: Sequence[ImportedRun]) -> list[str]:
    """Returns a note about runs with several jobs, whose figures are the sums."""
    several = [f"{run.where} ({len(run.outcome.groups)} jobs)" for run in runs if len(run.outcome.groups) > 1]
    how = "jobs that ran together are added up: `blklab runs show --per-job` shows each"
    return [f"{run_labels.and_more(several)}: {how}"] if several else []


def _shared(runs: Sequence[ImportedRun]) -> str:
    """Returns the words at the start of all file names, otherwise their directory's name."""
    first = Path(runs[0].where).absolute()
    stems = list(dict.fromkeys(Path(re.sub(r":\d+$", "", run.where)).stem for run in runs))
    if len(stems) == 1:
        return stems[0]
    words = [re.split(r"([-_. ]+)", stem) for stem in stems]
    return "".join(words[0][: common_start(words)]).rstrip("-_. ") or first.parent.name


def _too_large(value: object) -> bool:
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
    document = {"jobs": [{"name": run.workload, "options": options}], "source": run.where}
    return document if run.measured is None else {**document, "measured": run.measured}


def _renamed(outcome: Outcome, naming: RunNaming) -> Outcome:
    names = {old: new for (label, old), new in (naming.renamed or {}).items() if label == "device"}
    if not names:
        return outcome
    devices = [replace(device, name=names.get(device.name, device.name)) for device in outcome.devices]
    return replace(outcome, devices=devices)
