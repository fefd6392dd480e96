"""Runs as rows of figures: CSV for spreadsheets, JSON for programs."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from blklab.analysis.metrics import all_metrics, device_shares
from blklab.store.query import StoredRun


def run_rows(runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """Returns one row for each run that is done: labels, metrics, each device's shares."""
    tabular_rows = []
    for run in runs:
        if run.outcome is None:
            continue
        row: dict[str, Any] = {
            "campaign": run.campaign,
            "run": run.id,
            "experiment": run.name,
            "runner": run.runner,
            "started": run.started,
            "seconds": run.seconds,
            **run.labels,
            **all_metrics(run.outcome),
        }
        for name, (reads, writes) in device_shares(run.outcome).items():
            row |= {f"{name} read share": reads, f"{name} write share": writes}
        tabular_rows.append(row)
    return tabular_rows


def as_csv(runs: Sequence[StoredRun]) -> str:
    """Returns runs as CSV (RFC 4180, with \\n as line end), in the units of blklab.analysis.metrics."""
    table = run_rows(runs)
    names = list(dict.fromkeys(name for row in table for name in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _safe(value) for name, value in row.items()} for row in table)
    return buffer.getvalue()


def _safe(value: Any) -> Any:
    """Returns text that a spreadsheet does not take for a formula."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t")):
        return "'" + value
    return value


def as_json(runs: Sequence[StoredRun]) -> str:
    """Returns runs as the JSON that `blklab runs show --json` prints."""
    return json.dumps([run.as_dict() for run in runs], indent=2, allow_nan=False) + "\n"
