"""fio's JSON and JSON+: a run for each group, with the interval logs in the same directory."""

from typing import Final

from blklab.errors import BlklabError
from blklab.fio import output
from blklab.imports import fio_log
from blklab.imports.base import ImportedRun, ImportFile, ImportResult, ImportSource
from blklab.outcome import MeasuredResult


def matches(file: ImportFile) -> bool:
    """Returns whether there is a document of fio's in a text."""
    return "{" in file.text and ('"jobs"' in file.text or '"client_stats"' in file.text)


def read(given: ImportSource) -> ImportResult:
    """Returns the runs in fio's JSON."""
    runs: list[ImportedRun] = []
    for file in given.files:
        try:
            runs += _runs(file, given)
        except BlklabError as error:
            raise BlklabError(f"{file.where}: {error}") from None
    return ImportResult(runs)


def _runs(file: ImportFile, given: ImportSource) -> list[ImportedRun]:
    document = output.parse_document(file.text)
    outcomes = output.outcomes(document)
    logs = given.logs.get(file.path, ())
    if logs and len(outcomes) > 1:
        raise BlklabError(
            f"{len(outcomes)} groups ran one after another: interval logs need a run with one group"
        )
    points = fio_log.with_totals(logs, output.jobs(document)) if logs else []
    return [
        ImportedRun(file.where, name(outcome), asked(outcome), outcome, points, file.text)
        for outcome in outcomes
    ]


def name(outcome: MeasuredResult) -> str:
    """Returns the workload's name: the names of its jobs."""
    return "+".join(group["name"] for group in outcome["groups"])


def asked(outcome: MeasuredResult) -> dict[str, str]:
    """Returns the options that all jobs of a run share, and the number of jobs."""
    by_job = list(outcome["fio"]["options"].values())
    if not by_job:
        return {}
    common = {
        key: value
        for key, value in by_job[0].items()
        if all(options.get(key) == value for options in by_job)
    }
    counts = [str(options.get("numjobs") or 1) for options in by_job]
    if len(by_job) > 1 and all(count.isascii() and count.isdigit() for count in counts):
        common["numjobs"] = str(sum(map(int, counts)))
    return {**common, **{key: common[alias] for alias, key in _ALIASES.items() if alias in common}}


_ALIASES: Final = {"blocksize": "bs", "readwrite": "rw"}
