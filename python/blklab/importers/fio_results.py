"""fio's JSON, JSON+ and normal output: a run for each group, with the interval logs next to it."""

import json
import re
from collections.abc import Sequence

from blklab.errors import BlklabError
from blklab.fio import output, text
from blklab.fio.node import FioDocument
from blklab.importers import fio_log
from blklab.importers.base import ImportedRun, ImportFile, ImportResult, ImportSource
from blklab.outcome import MOST_NAMES, Outcome
from blklab.store.series import JOBS, SeriesPoint, pack_output


def matches(file: ImportFile) -> bool:
    """Returns whether there is a document of fio's in a text."""
    return "{" in file.text and ('"jobs"' in file.text or '"client_stats"' in file.text)


def read(source: ImportSource) -> ImportResult:
    """Returns the runs in fio's JSON."""
    runs: list[ImportedRun] = []
    for file in source.files:
        try:
            runs += _runs(file, source, output.parse_documents(file.text))
        except BlklabError as error:
            raise BlklabError(f"{file.location}: {error}") from None
    return ImportResult(runs)


def _runs(file: ImportFile, source: ImportSource, documents: Sequence[FioDocument]) -> list[ImportedRun]:
    outcomes = [output.outcomes(document) for document in documents]
    logs = source.logs.get(file.path, ())
    if logs and sum(map(len, outcomes)) > 1:
        message = f"{sum(map(len, outcomes))} groups ran one after another: interval logs need a run with one group"
        raise BlklabError(message)
    points = fio_log.with_totals(logs, output.jobs(documents[0])) if logs else []
    runs = []
    for number, (document, groups) in enumerate(zip(documents, outcomes, strict=True), 1):
        location = file.location
        document_text = file.text
        if len(documents) > 1:
            location = f"{file.location}:{document.get('line', number)}"
            document_text = json.dumps(document)
        raw = pack_output(document_text)
        measured_at = output.parse_time(document)
        for outcome in groups:
            series = points
            if not series and len(groups) == 1:
                series = _status_points(document)
            runs.append(
                ImportedRun(
                    location, name(outcome), find_common_options(outcome), outcome, series, raw, measured_at=measured_at
                )
            )
    return runs


def _status_points(document: FioDocument) -> list[SeriesPoint]:
    """Returns what a run did between its documents (`--status-interval`)."""
    points: list[SeriesPoint] = []
    time = 0
    before = [(0, 0, 0.0), (0, 0, 0.0)]  # I/Os, bytes and the sum of latencies of reads and writes
    for status in [*document["earlier"], document] if "earlier" in document else ():
        try:
            outcome = output.outcome(status)
        except BlklabError:
            continue  # no I/O yet
        now = []
        for part in (outcome.read, outcome.write):
            now.append((part.total_ios, part.io_bytes, (part.clat_ns.mean or 0) * part.total_ios))
        pairs = list(zip(now, before, strict=True))
        ios = [new[0] - old[0] for new, old in pairs]
        if (width := outcome.runtime_ns - time) > 0:
            means = (
                (new[2] - old[2]) / count if count > 0 and new[2] > old[2] else None
                for count, (new, old) in zip(ios, pairs, strict=True)
            )
            sizes = (new[1] - old[1] for new, old in pairs)
            points.append(SeriesPoint(JOBS, time, width, *ios, *sizes, *means))
            time += width
            before = now
    return points


def name(outcome: Outcome) -> str:
    """Returns the workload's name: the names of its jobs; of many, their number, the first and the last."""
    names = [group.name for group in outcome.groups]
    if len(names) > MOST_NAMES:
        return f"{len(names)} jobs: {names[0]} to {names[-1]}"
    return "+".join(names)


def find_common_options(outcome: Outcome) -> dict[str, str]:
    """Returns the options that all jobs of a run share, and the number of jobs."""
    by_job = list(outcome.job_options.values())
    if not by_job:
        return {}
    common = {}
    for key, value in by_job[0].items():
        if all(options.get(key) == value for options in by_job):
            common[key] = value
    counts = [str(options.get("numjobs") or 1) for options in by_job]
    if len(by_job) > 1 and all(count.isascii() and count.isdigit() for count in counts):
        common["numjobs"] = str(sum(map(int, counts)))
    return {**common, **{key: common[alias] for alias, key in _ALIASES.items() if alias in common}}


_ALIASES = {"blocksize": "bs", "readwrite": "rw"}


_SIGN = re.compile(r"\(groupid=\d{1,9}, ?jobs=\d{1,9}\)|Run status group \d")


def matches_text(file: ImportFile) -> bool:
    """Returns whether fio's normal output is in a text."""
    return _SIGN.search(file.text) is not None


def read_text(source: ImportSource) -> ImportResult:
    """Returns the runs in fio's normal output; failed and empty ones are skipped with a note."""
    runs: list[ImportedRun] = []
    notes: list[str] = []
    for file in source.files:
        try:
            text_runs = text.parse_runs(file.text)
        except BlklabError as error:
            raise BlklabError(f"{file.location}: {error}") from None
        if not text_runs:
            raise BlklabError(f"{file.location}: no results of fio; expected NAME: (groupid=…, jobs=…): …")
        lines = file.text.split("\n")
        for run, end in zip(text_runs, [run.line - 1 for run in text_runs[1:]] + [len(lines)], strict=True):
            location = f"{file.location}:{run.line}"
            try:
                outcomes = run.outcomes()
            except BlklabError as error:
                problem = str(error)
                prefix = f"{file.location}: " if problem.startswith("line ") else f"{location}: "
                notes.append(f"{prefix}{problem}: skipped")
                continue
            raw = pack_output("\n".join(lines[run.line - 1 : end]))
            runs += [
                ImportedRun(
                    location,
                    name(outcome),
                    find_common_options(outcome),
                    outcome,
                    raw=raw,
                    measured_at=output.parse_time(run.document),
                )
                for outcome in outcomes
            ]
    if not runs and notes:
        raise BlklabError(notes[0].removesuffix(": skipped"))
    return ImportResult(runs, notes)
