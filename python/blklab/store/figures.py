"""The figures of runs that lists and trends need, in columns: a list of 100,000 runs reads no outcome."""

import json
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import sqlalchemy as sa

from blklab.outcome import Outcome, parse_outcome
from blklab.store.tables import figures, runs

BATCH = 1000  # Rows that are written at once


def cell_name(labels: Mapping[str, str]) -> str:
    """Returns what identifies the cell of a run: its labels without the repeat, as JSON."""
    names = {key: value for key, value in labels.items() if key != "repeat"}
    return json.dumps(names, sort_keys=True, separators=(",", ":"))


def figure_row(run: int, campaign: int, labels: Mapping[str, str], outcome: Outcome) -> dict[str, Any]:
    """Returns the row of a run that is done."""
    times = [] if outcome.command is None else [repeat.wall_ns for repeat in outcome.command.runs]
    return {
        "run": run,
        "campaign": campaign,
        "cell": cell_name(labels),
        "iops": (outcome.read.iops or 0) + (outcome.write.iops or 0),
        "wall_ns": fmean(times) if times else None,
        "is_known": outcome.is_known,
    }


def fill_figures(connection: sa.Connection) -> None:
    """Adds the figures of all runs that older versions stored."""
    last = 0
    while rows := _next_rows(connection, last):
        last = rows[-1].id
        values = []
        for row in rows:
            values.append(figure_row(row.id, row.campaign, row.labels, parse_outcome(row.outcome)))
        connection.execute(sa.insert(figures), values)


def _next_rows(connection: sa.Connection, last: int) -> list[Any]:
    outcome = sa.cast(runs.c.outcome, sa.Text).label("outcome")
    query = sa.select(runs.c.id, runs.c.campaign, runs.c.labels, outcome)
    query = query.where(runs.c.id > last, runs.c.outcome.is_not(None)).order_by(runs.c.id).limit(BATCH)
    return list(connection.execute(query).all())
