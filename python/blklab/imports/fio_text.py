"""fio's normal output: a run for each group of each fio run in a text."""

import re
from typing import Final

from blklab.errors import BlklabError
from blklab.fio import output, text
from blklab.imports.base import ImportedRun, ImportFile, ImportResult, ImportSource
from blklab.imports.fio_json import asked, name

_SIGN: Final = re.compile(r"\(groupid=\d{1,9}, ?jobs=\d{1,9}\)|Run status group \d")


def matches(file: ImportFile) -> bool:
    """Returns whether fio's normal output is in a text."""
    return _SIGN.search(file.text) is not None


def read(given: ImportSource) -> ImportResult:
    """Returns the runs in fio's normal output; failed and empty ones are skipped with a note."""
    runs: list[ImportedRun] = []
    notes: list[str] = []
    for file in given.files:
        try:
            runs_read = text.parse_runs(file.text)
        except BlklabError as error:
            raise BlklabError(f"{file.where}: {error}") from None
        if not runs_read:
            raise BlklabError(f"{file.where}: no results of fio; expected NAME: (groupid=…, jobs=…): …")
        lines = file.text.split("\n")
        ends = [run.line - 1 for run in runs_read[1:]] + [len(lines)]
        for run, end in zip(runs_read, ends, strict=True):
            where = f"{file.where}:{run.line}"
            try:
                outcomes = run.outcomes()
            except BlklabError as error:
                problem = str(error)
                at = f"{file.where}: " if problem.startswith("line ") else f"{where}: "
                notes.append(f"{at}{problem}: skipped")
                continue
            raw = "\n".join(lines[run.line - 1 : end])
            runs += [
                ImportedRun(
                    where, name(outcome), asked(outcome), outcome, raw=raw, measured=output.measured_at(run.document)
                )
                for outcome in outcomes
            ]
    if not runs and notes:
        raise BlklabError(notes[0].removesuffix(": skipped"))
    return ImportResult(runs, notes)
