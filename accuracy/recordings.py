"""Recorded lab measurements, stored with the experiments, so that validation need not boot guests.

`DIR/lab/*.toml` are experiments, each a suite; `DIR/lab/measured/KERNEL.json` has their results,
and `DIR/lab/measured/misses.toml` explains cells in which the two runners differ.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from accuracy import agreement
from accuracy.agreement import AgreementFigures, AgreementKey, AgreementRow, agreement_key, agreement_rows
from blklab.errors import UsageError
from blklab.experiment import cells
from blklab.experiment.overrides import Override
from blklab.outcome import IoCost
from blklab.output import write
from blklab.toml_files import problems

SHORT = "short"  # The suite for a quick check; its cells are similar to those of the others
ALL = "all"


@dataclass(frozen=True)
class LabRecording:
    """The measurements of the lab on one kernel generation."""

    kernel: str  # The kernel generation, such as 6.1
    measured_with: Mapping[str, str]  # Versions: the kernel's release, fio, mdadm, QEMU, the accelerator
    cells: Mapping[AgreementKey, AgreementFigures]


@dataclass(frozen=True)
class KnownDisagreement:
    """The explanation of cells in which the runners differ."""

    suite: str
    kernel: str
    cell: str  # Shell patterns; `cell` matches `AgreementKey.text`
    verdict: str  # `explained` or `open`
    text: str

    def covers(self, row: AgreementRow) -> bool:
        """Returns whether it explains a row."""
        pairs = [(row.key.suite, self.suite), (row.kernel, self.kernel), (row.key.text, self.cell)]
        return all(fnmatchcase(text, pattern) for text, pattern in pairs)


def suites(directory: Path, wanted: str = ALL) -> list[Path]:
    """Returns the experiments of a suite; with `all`, those of all suites except the short one.

    Raises UsageError if there is no such suite.
    """
    known = {path.stem: path for path in sorted((directory / "lab").glob("*.toml"))}
    if not known:
        raise UsageError(f"{directory / 'lab'}: has no experiments (*.toml)")
    if wanted == ALL:
        return [path for name, path in known.items() if name != SHORT]
    if wanted not in known:
        raise UsageError(f"{directory / 'lab'}: no suite {wanted!r}; {problems.near(wanted, known)}")
    return [known[wanted]]


def predicted(directory: Path, recording: LabRecording) -> list[AgreementRow]:
    """Simulates the cells of a recording and returns both. Raises UsageError."""
    names = dict.fromkeys(cell.suite for cell in recording.cells)
    paths = [path for name in names for path in suites(directory, name)]
    generation = [Override("kernel", recording.kernel, "the recording")]
    plans = [agreement.with_io_costs(cells.plan(path, changes=generation), recording.cells) for path in paths]
    return agreement_rows(recording.kernel, agreement.predicted(plans), recording.cells)


def recordings_directory(directory: Path) -> Path:
    """Returns the directory of recordings."""
    return directory / "lab" / "measured"


def read_recordings(directory: Path) -> list[LabRecording]:
    """Returns all recordings, the oldest kernel first. Raises UsageError for an invalid file."""
    recordings = [_read(path) for path in recordings_directory(directory).glob("*.json")]
    return sorted(recordings, key=lambda recording: [int(part) for part in recording.kernel.split(".")])


def _read(path: Path) -> LabRecording:
    try:
        raw = json.loads(path.read_bytes())
        kernel, measured_with = str(raw["kernel"]), raw["measured_with"]
        if not all(part.isdecimal() for part in kernel.split(".")):
            raise ValueError(f"kernel: found {kernel!r}, expected a generation such as 6.1")
        cells = {
            agreement_key(str(cell["suite"]), {str(k): str(v) for k, v in cell["labels"].items()}): (
                AgreementFigures(
                    float(cell["read_iops"]),
                    float(cell["write_iops"]),
                    {str(k): (int(v[0]), int(v[1])) for k, v in cell["members"].items()},
                    # Recordings of earlier versions have none.
                    IoCost(**cost) if (cost := cell.get("io_cost")) else None,
                    None if (hits := cell.get("hit_rate")) is None else float(hits),
                )
            )
            for cell in raw["cells"]
        }
        return LabRecording(kernel, {str(k): str(v) for k, v in measured_with.items()}, cells)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise UsageError(f"{path}: is not a recording: {type(error).__name__}: {error}") from None


def write_recording(directory: Path, recording: LabRecording) -> Path:
    """Writes a recording and returns its path.

    Cells of an older recording are kept if their versions are the same; otherwise they are dropped.
    """
    older = next(
        (recording_ for recording_ in read_recordings(directory) if recording_.kernel == recording.kernel), None
    )
    same = older is not None and older.measured_with == recording.measured_with
    kept = older.cells if older is not None and same else {}
    merged = {**kept, **recording.cells}
    head = {"kernel": recording.kernel, "measured_with": dict(recording.measured_with)}
    lines = [
        json.dumps({"suite": recording_.suite, "labels": dict(recording_.labels), **_rounded(cell)})
        for recording_, cell in sorted(merged.items(), key=lambda item: item[0].suite)
    ]
    text = json.dumps(head)[:-1] + ', "cells": [\n' + ",\n".join(lines) + "\n]}\n"
    path = recordings_directory(directory) / f"{recording.kernel}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, text.encode())
    return path


def _rounded(cell: AgreementFigures) -> dict[str, Any]:
    figures = cell.as_dict()
    digits = {"read_iops": 1, "write_iops": 1, "hit_rate": 4}
    return figures | {key: round(figures[key], count) for key, count in digits.items() if key in figures}


def misses(directory: Path) -> list[KnownDisagreement]:
    """Returns the explanations of cells that differ; empty without the file."""
    path = recordings_directory(directory) / "misses.toml"
    try:
        raw = tomllib.loads(path.read_text())
        return [
            KnownDisagreement(
                str(entry.get("suite", "*")),
                str(entry.get("kernel", "*")),
                str(entry["cell"]),
                str(entry["verdict"]),
                " ".join(str(entry["text"]).split()),
            )
            for entry in raw["misses"]
        ]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: is not valid: {error}") from None


def missed(
    disagreements: Sequence[KnownDisagreement], rows: Sequence[AgreementRow]
) -> list[tuple[AgreementRow, KnownDisagreement | None]]:
    """Returns the rows that miss their bounds, with their explanations."""
    return [
        (row, next((disagreement for disagreement in disagreements if disagreement.covers(row)), None))
        for row in rows
        if not row.holds
    ]
