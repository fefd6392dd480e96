"""Reads the store: campaigns, runs, and the syntax that selects them.

3                  the campaign of that number
unbalanced         the newest campaign of the experiment of that name (or file)
unbalanced@host    the newest on that runner
unbalanced@srv1    the newest that the host srv1 measured
unbalanced@host~1  the one before it
…:stack=raid1,workload=rand*   of it, only the cells with these labels
"""

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from blklab.errors import StoreError, UsageError
from blklab.outcome import Outcome, parse_outcome
from blklab.store import series
from blklab.store.campaigns import COMPARED_CELLS, FORMER_REPEATS, Store, owner_is_alive
from blklab.store.tables import STATES, campaigns, environments, figures, runs
from blklab.store.tables import series as stored_series
from blklab.text.label_patterns import label_patterns

JOB = "job"  # The label of runs that have the figures of one job
MAX_CAMPAIGNS = 20  # That show how much campaigns vary
MOST_EARLIER_CELLS = 100
RAW_AHEAD = 100  # Outputs of runs that are read at once
"""Cells that show how much campaigns vary; of more, so many at equal distances. Campaigns are the repeats."""

INTERRUPTED = "interrupted"  # The state of a run that is `running` in the store, but whose process is dead


@dataclass(frozen=True)
class CampaignRow:
    number: int
    name: str
    title: str
    runner: str
    path: str
    version: str
    created: str
    states: Mapping[str, int]  # Number of its runs in each state; `interrupted` only if there are any
    experiment: Mapping[str, Any]
    host: str | None = None  # The name of the machine that measured it; None if unknown, and for predictions
    digest: str = ""  # Of its cells
    compared_cells: str = ""  # A digest of its cells without their repeats; empty for campaigns of older versions

    @property
    def repeats(self) -> int:
        return int(self.experiment.get("repeats", 1))

    @property
    def former_repeats(self) -> Sequence[int]:
        """The numbers of repeats that it had before it was extended."""
        return list(self.experiment.get(FORMER_REPEATS, ()))

    @property
    def place(self) -> str:
        """The runner, with the name of the host: `host (srv1)`."""
        return f"{self.runner} ({self.host})" if self.host else self.runner

    @property
    def begun(self) -> str:
        """When its first run was measured; of an import whose files do not say so, when it was imported."""
        return str(self.experiment.get("import", {}).get("measured") or self.created)


@dataclass(frozen=True)
class StoredRun:
    id: int
    campaign: int
    name: str
    runner: str
    number: int
    labels: Mapping[str, str]
    cell: Any  # `Cell.document`, or what an import knows
    state: str
    started: str | None
    finished: str | None
    seconds: float | None
    outcome: Outcome | None  # None for a run that is not done
    message: str | None
    environment: Mapping[str, Any]

    @property
    def cell_labels(self) -> tuple[tuple[str, str], ...]:
        """Its labels without the repeat: the same for all repeats of a cell."""
        return tuple(pair for pair in self.labels.items() if pair[0] != "repeat")

    @property
    def figures(self) -> Outcome:
        """Its outcome; an empty one for a run that is not done."""
        return self.outcome or Outcome()

    @property
    def began(self) -> str:
        """When it began; empty if that is unknown. An imported run has the time that its file says."""
        return str(self.cell.get("measured", "")) if "source" in self.cell else self.started or ""

    def origin(self) -> dict[str, str]:
        """Returns the `source` of an imported run, and when it was `measured` if that is known."""
        return {key: str(self.cell[key]) for key in ("source", "measured") if key in self.cell}

    def as_dict(self) -> dict[str, Any]:
        """Return the run for `--json`: the result (docs/reference/formats.md) and its context."""
        names = ("campaign", "state", "started", "finished", "seconds", "message", "number", "runner")
        return {
            "run": self.id,
            "experiment": self.name,
            **{name: getattr(self, name) for name in names},
            "labels": dict(self.labels),
            **self.origin(),
            **self.figures.as_json(),
            "environment": dict(self.environment),
        }


def all_campaigns(store: Store, *conditions: "sa.ColumnElement[bool]") -> list[CampaignRow]:
    """Returns every campaign that meets these conditions, the oldest first."""
    names = ("name", "title", "runner", "path", "version", "created", "experiment", "host", "digest")
    query = sa.select(campaigns.c.id.label("number"), *(campaigns.c[name] for name in names))
    kind = (runs.c.campaign, runs.c.state, runs.c.owner)
    counts = sa.select(*kind, sa.func.count()).where(runs.c.campaign.in_(sa.select(campaigns.c.id).where(*conditions)))
    with store.database.reading() as connection:
        count_rows = connection.execute(counts.group_by(*kind)).all()
        rows = connection.execute(query.where(*conditions).order_by(campaigns.c.id)).mappings().all()
    states: dict[int, dict[str, int]] = {}
    for campaign, state, by, count in count_rows:
        of_campaign = states.setdefault(campaign, dict.fromkeys(STATES, 0))
        name = _state(state, by)
        of_campaign[name] = of_campaign.get(name, 0) + count
    campaign_rows = []
    for row in rows:
        experiment = dict(row["experiment"])
        compared_cells = experiment.pop(COMPARED_CELLS, "")
        values = {**row, "experiment": experiment, "compared_cells": compared_cells}
        campaign_rows.append(CampaignRow(**values, states=states.get(row["number"], dict.fromkeys(STATES, 0))))
    return campaign_rows


def campaign(store: Store, number: int) -> CampaignRow:
    """Returns a campaign. Raises UsageError if the number is unknown."""
    matches = all_campaigns(store, campaigns.c.id == number)
    if not matches:
        raise UsageError(f"no campaign {number} in store {store.database.name}")
    return matches[0]


def runs_of(store: Store, campaign: int, first: int = 0, count: int | None = None) -> list[StoredRun]:
    """Returns the runs of a campaign, by their number: `count` from the position `first`, by default all."""
    return _runs(store, runs.c.campaign == campaign, first, count)


def cells_of(store: Store, numbers: Collection[int]) -> list[str]:
    """Returns the names of the cells (`figures.cell_name`) of campaigns that have results, in their order."""
    query = (
        sa.select(figures.c.cell)
        .where(figures.c.campaign.in_(numbers))
        .group_by(figures.c.cell)
        .order_by(sa.func.min(figures.c.run))
    )
    with store.database.reading() as connection:
        return list(connection.execute(query).scalars())


def runs_of_cells(store: Store, campaign: int, cells: Collection[str]) -> list[StoredRun]:
    """Returns the runs of some cells of a campaign that are done, by their number."""
    numbers = sa.select(figures.c.run).where(figures.c.campaign == campaign, figures.c.cell.in_(cells))
    return _runs(store, runs.c.id.in_(numbers))


def run(store: Store, number: int) -> StoredRun:
    """Returns one run. Raises UsageError if the number is unknown."""
    matches = _runs(store, runs.c.id == number)
    if not matches:
        raise UsageError(f"no run {number} in store {store.database.name}")
    return matches[0]


def newest_runs(store: Store, first: int, count: int) -> tuple[list[StoredRun], int]:
    """Returns `count` runs from the position `first`, the newest first, and the number of all runs."""
    with store.database.reading() as connection:
        total = connection.execute(sa.select(sa.func.count()).select_from(runs)).scalar_one()
        query = sa.select(runs.c.id).order_by(runs.c.id.desc()).offset(first).limit(count)
        numbers = connection.execute(query).scalars().all()
    return _runs(store, runs.c.id.in_(numbers))[::-1], total


def _runs(
    store: Store, condition: "sa.ColumnElement[bool]", first: int = 0, count: int | None = None
) -> list[StoredRun]:
    names = ("id", "campaign", "number", "labels", "cell", "state", "owner", "started", "finished", "seconds")
    columns = [runs.c[name] for name in (*names, "message", "environment")]
    query = (
        sa.select(*columns, sa.cast(runs.c.outcome, sa.Text).label("outcome"), campaigns.c.name, campaigns.c.runner)
        .join(campaigns, campaigns.c.id == runs.c.campaign)
        .where(condition)
        .order_by(runs.c.campaign, runs.c.number)
        .offset(first)
        .limit(count)
    )
    stored_runs = []
    with store.database.reading() as connection:
        documents = _Environments(connection)
        for record in connection.execute(query).mappings():
            row = dict(record)
            row["state"] = _state(row["state"], row.pop("owner"))
            row["environment"] = documents.read(row["environment"])
            try:
                row["outcome"] = None if row["outcome"] is None else parse_outcome(row["outcome"])
            except ValueError as error:
                raise StoreError(f"store {store.database.name}: run {row['id']}: {error}") from None
            stored_runs.append(StoredRun(**row))
    return stored_runs


class _Environments:
    """The documents of environments: thousands of runs have the same one, so each is read once."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._documents: dict[int, Mapping[str, Any]] = {}

    def read(self, number: int | None) -> Mapping[str, Any]:
        if number is None:
            return {}
        if number not in self._documents:
            query = sa.select(environments.c.document).where(environments.c.id == number)
            self._documents[number] = self._connection.execute(query).scalar() or {}
        return self._documents[number]


def _state(state: str, by: str | None) -> str:
    """Returns the true state of a run: one that is `running` may have died."""
    return INTERRUPTED if state == "running" and not owner_is_alive(by or "") else state


@dataclass(frozen=True)
class CampaignRange:
    """How many cells of a campaign have results, and the range of their means."""

    cells: int = 0
    cells_with_ios: int = 0
    known_cells: int = 0  # Cells with I/O whose figures are known: not if a prediction's interval is too wide
    least_iops: float = 0.0  # Of known cells, reads and writes together
    most_iops: float = 0.0
    commands: int = 0  # Cells that are commands
    least_ns: float = 0.0  # Their wall-clock times
    most_ns: float = 0.0


def campaign_ranges(store: Store, numbers: Collection[int]) -> dict[int, CampaignRange]:
    """Returns the ranges of campaigns with results, by number; the database computes them."""
    is_known = sa.func.min(sa.case((figures.c.is_known, 1), else_=0))
    is_command = sa.func.min(sa.func.coalesce(figures.c.wall_ns, 0)) > 0
    cells = (
        sa.select(
            figures.c.campaign,
            sa.func.avg(figures.c.iops).label("iops"),
            sa.case((is_command, sa.func.avg(figures.c.wall_ns))).label("wall_ns"),
            is_known.label("is_known"),
        )
        .where(figures.c.campaign.in_(numbers))
        .group_by(figures.c.campaign, figures.c.cell)
        .subquery()
    )
    known_iops = sa.case((sa.and_(cells.c.iops > 0, cells.c.is_known == 1), cells.c.iops))
    count = sa.func.count
    query = sa.select(
        cells.c.campaign,
        count().label("cells"),
        count(sa.case((cells.c.iops > 0, 1))).label("cells_with_ios"),
        count(known_iops).label("known_cells"),
        sa.func.coalesce(sa.func.min(known_iops), 0).label("least_iops"),
        sa.func.coalesce(sa.func.max(known_iops), 0).label("most_iops"),
        count(cells.c.wall_ns).label("commands"),
        sa.func.coalesce(sa.func.min(cells.c.wall_ns), 0).label("least_ns"),
        sa.func.coalesce(sa.func.max(cells.c.wall_ns), 0).label("most_ns"),
    ).group_by(cells.c.campaign)
    with store.database.reading() as connection:
        rows = [dict(row) for row in connection.execute(query).mappings()]
    return {row.pop("campaign"): CampaignRange(**row) for row in rows}


def raw(store: Store, number: int) -> str:
    """Returns the output of the program that measured a run; empty if there is none."""
    with store.database.reading() as connection:
        return series.unpack_output(connection.execute(sa.select(runs.c.raw).where(runs.c.id == number)).scalar())


def raw_reader(store: Store) -> Callable[[int], str]:
    """Returns the function that reads a run's output; fast for the runs of a campaign in their order."""
    outputs: dict[int, bytes | None] = {}

    def read(number: int) -> str:
        if number not in outputs:
            following = sa.select(runs.c.id, runs.c.raw).where(runs.c.id >= number).order_by(runs.c.id)
            outputs.clear()
            with store.database.reading() as connection:
                for row in connection.execute(following.limit(RAW_AHEAD)):
                    outputs[row.id] = row.raw
        return series.unpack_output(outputs.get(number))

    return read


def runs_with_points(store: Store, numbers: Collection[int]) -> set[int]:
    """Returns the runs of campaigns that have a series."""
    query = sa.select(stored_series.c.run).join(runs, runs.c.id == stored_series.c.run)
    with store.database.reading() as connection:
        return set(connection.execute(query.where(runs.c.campaign.in_(numbers))).scalars())


def points(store: Store, number: int) -> list[series.SeriesPoint]:
    """Returns a run's series; empty if it has none. Raises StoreError for a damaged one."""
    with store.database.reading() as connection:
        parquet = connection.execute(sa.select(stored_series.c.points).where(stored_series.c.run == number)).scalar()
    return [] if parquet is None else series.decode_points(parquet, f"run {number}")


def points_reader(store: Store, numbers: Collection[int]) -> Callable[[int], list[series.SeriesPoint]]:
    """Returns the function that reads the series of a run of these campaigns; without a query for runs without one."""
    runs_with_series = runs_with_points(store, numbers)
    return lambda run: points(store, run) if run in runs_with_series else []


# --- choosing ------------------------------------------------------------------------------------

SELECTION = re.compile(
    r"(?:(?P<number>\d{1,9})|(?P<name>[^@:~]+)(?:@(?P<place>[\w.-]+))?(?:~(?P<back>\d{1,6}))?)"
    r"(?::(?P<labels>.*))?",
    re.A | re.S,
)


@dataclass(frozen=True)
class Selection:
    """The campaign and runs that a selection names."""

    text: str
    campaign: CampaignRow
    runs: Sequence[StoredRun]


Opened = tuple[Store, list[Selection], Callable[[int], list[series.SeriesPoint]]]


def open_selections(location: str | None, texts: Sequence[str], job: str | None = None) -> Opened:
    """Returns a store to read, the selected runs, and the function that reads the series of a run.

    With `job`, a name or a shell pattern, only these jobs count: each is a separate run, with the label `job`, and
    without a series, which is that of all jobs together. Raises UsageError if nothing matches.
    """
    store = Store(location, reading=True)
    selections = [select_runs(store, item) for item in texts]
    if job is None:
        numbers = [selection.campaign.number for selection in selections]
        return store, selections, points_reader(store, numbers)
    return store, [replace(item, runs=_runs_of_job(item, job)) for item in selections], lambda _run: []


def _runs_of_job(selection: Selection, job: str) -> list[StoredRun]:
    of_jobs = [(run, name, part) for run in selection.runs for name, part in run.figures.by_job().items()]
    matching_runs = []
    for run, name, part in of_jobs:
        if fnmatchcase(name, job):
            # Predictions of two jobs are not those of equal cells.
            cell = {**run.cell, JOB: name}
            matching_runs.append(replace(run, cell=cell, outcome=part, labels={**run.labels, JOB: name}))
    if not matching_runs:
        job_names = ", ".join(dict.fromkeys(name for _, name, _ in of_jobs)) or "unknown"
        raise UsageError(f"--job {job!r}: no run of {selection.text!r} has this job; its jobs are {job_names}")
    return matching_runs


def select_campaign(store: Store, text: str) -> CampaignRow:
    """Returns the campaign of a selection, without its runs. Raises UsageError if nothing matches."""
    return _campaign(store, text, _parse_selection(text))


def _parse_selection(text: str) -> re.Match[str]:
    match = SELECTION.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r}: expected a campaign, such as 3, NAME, NAME@host, NAME@HOSTNAME or NAME@host~1")
    return match


def select_runs(store: Store, text: str) -> Selection:
    """Returns the selected runs (see above). Raises UsageError if nothing matches."""
    match = _parse_selection(text)
    campaign = _campaign(store, text, match)
    stored_runs = runs_of(store, campaign.number)
    if match["labels"] is not None:
        stored_runs = _with_labels(text, match["labels"], stored_runs)
    return Selection(text, campaign, stored_runs)


def campaign_or_run(store: Store, text: str, *, as_run: bool) -> tuple[Selection, bool]:
    """Returns the selected runs, or the run that a number names, and whether it names a campaign and a run.

    `as_run`: a number is that of a run. Otherwise, it is that of a campaign, if there is one.
    """
    number = int(text) if text.isdecimal() and len(text) < 10 else 0
    if as_run and not number:
        raise UsageError(f"{text!r}: expected the number of a run")
    matches = [run(store, number)] if as_run else _runs(store, runs.c.id == number)
    campaign_rows = all_campaigns(store, campaigns.c.id == number)
    if matches and (as_run or not campaign_rows):
        return Selection(text, campaign(store, matches[0].campaign), matches), False
    return select_runs(store, text), bool(matches and campaign_rows)


def earlier_looks(store: Store, selections: Sequence[Selection]) -> int:
    """Returns how often fewer repeats of these cells could be compared before.

    They are the former numbers of repeats of campaigns that were extended, and those of earlier campaigns of the same
    cells, or of the same experiment, on the same host. The name of a campaign does not matter.
    """

    def looks(now: CampaignRow) -> int:
        of_experiment = sa.or_(campaigns.c.name == now.name, _has_same_cells(now))
        earlier = all_campaigns(store, of_experiment, campaigns.c.id < now.number)
        comparable = [row for row in earlier if row.place == now.place and row.states["done"]]
        counts = {*now.former_repeats, *(row.repeats for row in comparable)}
        return sum(count < now.repeats for count in counts)

    return max(looks(selection.campaign) for selection in selections)


def _has_same_cells(campaign: CampaignRow) -> "sa.ColumnElement[bool]":
    """Returns the condition of campaigns with the same cells, with any name and any number of repeats."""
    if not campaign.compared_cells:
        return campaigns.c.digest == campaign.digest
    same_cells: sa.ColumnElement[bool] = campaigns.c.experiment[COMPARED_CELLS].as_string() == campaign.compared_cells
    return same_cells


def earlier_campaigns(store: Store, selections: Sequence[Selection]) -> list[list[StoredRun]]:
    """Returns the runs of finished campaigns of the same cells on the same host, up to the last selected one.

    That of the first selection is one of them, those of the others are not: they are what is judged.
    """
    now, *other_campaigns = (selection.campaign for selection in selections)
    last = max(selection.campaign.number for selection in selections)
    candidates = all_campaigns(store, _has_same_cells(now), campaigns.c.id <= last)
    others = {row.number for row in other_campaigns}
    same_place = [row for row in candidates if row.place == now.place and row.number not in others]
    cells = cells_of(store, [now.number])
    is_large = len(cells) > MOST_EARLIER_CELLS
    sample = cells[:: -(-len(cells) // MOST_EARLIER_CELLS)] if is_large else cells
    run_lists = []
    for row in sorted(same_place, key=lambda row: (row.begun, row.number))[-MAX_CAMPAIGNS:]:
        if row.repeats == now.repeats:
            campaign_runs = runs_of_cells(store, row.number, sample) if is_large else runs_of(store, row.number)
            run_lists.append([run for run in campaign_runs if run.outcome is not None])
    most_runs = max(map(len, run_lists), default=0)
    return [runs for runs in run_lists if runs and len(runs) == most_runs]


def _campaign(store: Store, text: str, match: re.Match[str]) -> CampaignRow:
    if match["number"]:
        return campaign(store, int(match["number"]))
    store_text = f"in store {store.database.name}"
    name = Path(match["name"]).stem if match["name"].endswith(".toml") else match["name"]
    of_name = campaigns.c.name == name
    with store.database.reading() as connection:
        columns = (campaigns.c.id, campaigns.c.runner, campaigns.c.host)
        query = sa.select(*columns).where(of_name).order_by(campaigns.c.id)
        rows = connection.execute(query).all()
    if not rows:
        known_names = ", ".join(dict.fromkeys(row.name for row in reversed(all_campaigns(store))))
        content = f"it has {known_names}" if known_names else "it is empty"
        if Path(name).exists():
            content = f"it is a file or directory: `blklab import {shlex.quote(name)}` stores its results"
        raise UsageError(f"no campaign {name!r} {store_text}; {content}")
    place = match["place"]
    numbers = [number for number, runner, host in rows if place is None or place in (runner, host)]
    back = int(match["back"] or 0)
    if len(numbers) <= back:
        known_names = ", ".join(dict.fromkeys(row.place for row in all_campaigns(store, of_name)))
        count_text = f"found {len(numbers)} such campaigns" if numbers else "no such campaign"
        raise UsageError(f"{text!r}: {count_text} {store_text} ({name} was run on {known_names})")
    return campaign(store, numbers[-1 - back])


def _with_labels(selection_text: str, text: str, all_runs: Sequence[StoredRun]) -> list[StoredRun]:
    try:
        patterns = label_patterns(text)
    except ValueError as error:
        raise UsageError(f"{selection_text!r}: after the colon: {error}") from None
    runs = [run for run in all_runs if _matches(run, patterns)]
    if not runs:
        label_names = ", ".join(dict.fromkeys(label for run in all_runs for label in run.labels))
        raise UsageError(f"{selection_text!r}: no run matches; labels are {label_names}")
    return runs


def _matches(run: StoredRun, patterns: Mapping[str, str]) -> bool:
    """Tells whether a run's labels match the patterns of all labels."""
    return all(fnmatchcase(run.labels.get(label, ""), pattern) for label, pattern in patterns.items())
