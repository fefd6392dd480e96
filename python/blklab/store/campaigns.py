"""Writes to a store: plans a campaign, claims, finishes and removes its runs.

A campaign is one execution of an experiment on a runner; it has a row for each cell, whose state goes `planned →
running → done` or `failed`.

What always holds:

- A run is written in one transaction when it ends: its figures, its series and its state. There is no half run.
- A run belongs to the process that claimed it. No other process ends it, unless its owner is dead.
- A process that dies leaves a run `running`. Its owner is found dead (by boot, process number and start time), and the
  run can be claimed again.
- A finished run never changes, except for annotations, and is removed only by `runs rm`.
- An extended campaign keeps the former numbers of repeats, since its results could be compared with them.
"""

import hashlib
import json
import math
import os
import platform
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from blklab import __version__, output
from blklab.errors import BlklabError, StoreError
from blklab.outcome import Outcome
from blklab.store import series
from blklab.store.database import Database, open_database
from blklab.store.figures import BATCH, figure_row
from blklab.store.series import FinishedRun
from blklab.store.tables import campaigns, environments, figures, runs
from blklab.store.tables import series as stored_series
from blklab.system.process import boot_id, start_of
from blklab.system.roots import Roots, read_text

if TYPE_CHECKING:
    from blklab.experiment.cells import Cell, ExperimentPlan


COMPARED_CELLS = "compared_cells"  # The key of a stored experiment: a digest of the cells without their repeats
FORMER_REPEATS = "former_repeats"  # The key of a stored experiment that was extended


@dataclass(frozen=True)
class StoredCampaign:
    """A campaign, and which of its cells are not done."""

    number: int
    waiting: Mapping[str, int]  # Runs by the key of their cell, without those of a living process


class Store:
    def __init__(
        self, location: str | None = None, *, reading: bool = False, warn: Callable[[str], object] = str
    ) -> None:
        """Opens it, as `open_database` does; `warn` is called when it begins to wait for a server."""
        self.database: Database = replace(open_database(location, reading=reading), warn=warn)
        self._me = this_owner()

    # --- campaigns -------------------------------------------------------------------------------

    def begin(self, plan: "ExperimentPlan", host: str | None = None) -> StoredCampaign:
        """Creates a campaign from a plan, with all of its runs planned; `host` measures it."""
        with self.database.writing() as connection:
            number = self._campaign(connection, plan, host)
            return StoredCampaign(number, _add_runs(connection, number, plan.cells))

    def resume(self, plan: "ExperimentPlan", host: str | None = None) -> StoredCampaign | None:
        """Returns the newest campaign of the same cells on `host`, with those that are not done; or None.

        Failed runs are tried again, and so are those whose process has died.
        """
        query = (
            sa.select(campaigns.c.id)
            .where(
                campaigns.c.digest == plan.digest,
                campaigns.c.runner == plan.runner,
                # Those of older versions have none.
                sa.or_(campaigns.c.host == host, campaigns.c.host.is_(None)),
            )
            .order_by(campaigns.c.id.desc())
            .limit(1)
        )
        with self.database.writing() as connection:
            number = connection.execute(query).scalar()
        return None if number is None else self.continue_campaign(number)

    def continue_campaign(self, number: int) -> StoredCampaign:
        """Returns a campaign, with those cells that are not done."""
        with self.database.writing() as connection:
            rows = connection.execute(
                sa.select(runs.c.id, runs.c.key, runs.c.state, runs.c.owner)
                .where(runs.c.campaign == number, runs.c.state != "done")
                .order_by(runs.c.number)
                .with_for_update()  # SQLite is locked as a whole
            ).all()
            waiting = {}
            for row in rows:
                if row.state == "running" and owner_is_alive(row.owner or ""):
                    continue
                update = _update(row.id, state="planned", owner=None, message=None)
                if connection.execute(update.where(runs.c.state == row.state)).rowcount == 1:
                    waiting[row.key] = row.id
        return StoredCampaign(number, waiting)

    def extend(self, campaign: int, cells: "Sequence[Cell]", repeats: int | None = None) -> dict[str, int]:
        """Plans more cells of a campaign, and returns their runs by the key of the cell.

        `repeats`: how many each cell has now; the former number is kept, since its results could be compared.
        """
        with self.database.writing() as connection:
            if repeats is not None:
                condition = campaigns.c.id == campaign
                experiment = connection.execute(sa.select(campaigns.c.experiment).where(condition)).scalar_one()
                experiment[FORMER_REPEATS] = [*experiment.get(FORMER_REPEATS, ()), experiment.get("repeats", 1)]
                connection.execute(
                    sa.update(campaigns).where(condition).values(experiment={**experiment, "repeats": repeats})
                )
            return _add_runs(connection, campaign, cells)

    def add(self, plan: "ExperimentPlan", results: Mapping[str, FinishedRun], environment: Mapping[str, Any]) -> int:
        """Stores a campaign that has been run elsewhere, and returns its number.

        `results` has the results by the key of each cell.
        """
        with self.database.writing() as connection:
            number = self._campaign(connection, plan)
            environment_id = _environment(connection, environment)
            state = {"state": "done", "environment": environment_id, "started": timestamp()}
            for first in range(0, len(plan.cells), BATCH):
                _add_done(connection, number, plan.cells[first : first + BATCH], results, state)
        return number

    def _campaign(self, connection: sa.Connection, plan: "ExperimentPlan", host: str | None = None) -> int:
        values = {name: getattr(plan, name) for name in ("name", "title", "runner", "digest")}
        experiment = {**_plain(plan.raw), COMPARED_CELLS: plan.digest_of_compared_cells}
        values |= {"path": str(plan.path), "experiment": experiment, "version": __version__}
        return insert_row(connection, campaigns, values | {"created": timestamp(), "host": host})

    # --- runs ------------------------------------------------------------------------------------

    def claim(self, run: int, environment: Mapping[str, Any]) -> bool:
        """Claims a planned run for this process; False if another has it, or has removed it."""

        def work(connection: sa.Connection, again: bool) -> bool:
            environment_id = _environment(connection, environment)
            update = _update(run, state="running", owner=self._me, started=timestamp(), environment=environment_id)
            result = connection.execute(update.where(runs.c.state == "planned"))
            return result.rowcount == 1 or (again and _is(connection, run, "running", self._me))

        return self.database.insisting(work)

    def finish(self, run: int, result: FinishedRun) -> None:
        """Writes a finished run of this process, with its series, in one transaction.

        Waits for a server that is unavailable. If writing fails, the result goes to a separate
        file, and the StoreError names it, or a note of another exception.
        """
        try:
            self._end(run, "done", finished_run=result, message=None, **_result_values(result))
        except BaseException as error:
            path = self._save_aside(run, result)
            place = f"the measurement is in {path}" if path else "the measurement is lost"
            if not isinstance(error, BlklabError):
                error.add_note(f"run {run} is not in the store; {place}")  # such as an interrupt, which has no message
                raise
            raise StoreError(f"{place}: {error}") from error

    def fail(self, run: int, message: str) -> None:
        """Records that a run of this process failed, and why; waits for an unavailable server."""
        self._end(run, "failed", message=message, finished=timestamp())

    def release(self, numbers: Collection[int]) -> None:
        """Plans those of these runs again that this process has not finished."""
        update = sa.update(runs).values(state="planned", owner=None, started=None, environment=None)
        with self.database.writing() as connection:
            connection.execute(
                update.where(runs.c.id.in_(numbers), runs.c.state == "running", runs.c.owner == self._me)
            )

    def _end(self, run: int, state: str, finished_run: FinishedRun | None = None, **values: Any) -> None:
        def work(connection: sa.Connection, again: bool) -> None:
            if not (again and _is(connection, run, state, None)):
                self._end_claimed(connection, run, state, **values)
                if finished_run is not None:
                    _add_series(connection, run, finished_run)
                    _add_figures(connection, run, finished_run.outcome)

        self.database.insisting(work)

    def _end_claimed(self, connection: sa.Connection, run: int, state: str, **values: Any) -> None:
        update = _update(run, owner=None, state=state, **values)
        if connection.execute(update.where(runs.c.state == "running", runs.c.owner == self._me)).rowcount != 1:
            raise BlklabError(f"store {self.database.name}: run {run} belongs to another process")

    def _save_aside(self, run: int, result: FinishedRun) -> Path | None:
        """Writes a result next to the store, or to $TMPDIR; returns the path, None if both fail."""
        document = {"store": self.database.name, "run": run, "seconds": result.seconds, "columns": list(series.NAMES)}
        document |= {"outcome": _plain(result.outcome.as_document()), "raw": series.unpack_output(result.raw)}
        document |= {"series": _plain([astuple(point) for point in result.points])}
        content = json.dumps(document).encode()
        for directory in (self.database.directory, Path(tempfile.gettempdir())):
            path = directory / f"unkept-run-{run}.json"
            with suppress(OSError, BlklabError):
                directory.mkdir(parents=True, exist_ok=True)
                output.replace(path, content)
                return path
        return None

    # --- removal ----------------------------------------------------------

    def remove(self, numbers: Sequence[int], *, whole_campaigns: bool) -> int:
        """Removes the runs of these numbers, or with `whole_campaigns` the campaigns; returns how many runs these were.

        Raises BlklabError for runs that a living process executes, or will execute.
        """
        column = runs.c.campaign if whole_campaigns else runs.c.id
        with self.database.writing() as connection:
            condition = column.in_(numbers)
            query = sa.select(runs.c.id, runs.c.campaign, runs.c.state).where(condition)
            rows = connection.execute(query.with_for_update()).all()
            run_ids = {row.id for row in rows}
            pending = {row.campaign for row in rows if whole_campaigns or row.state == "planned"}
            for row in self._under_way(connection):
                if row.id in run_ids or row.campaign in pending:
                    raise BlklabError(f"run {row.id} of campaign {row.campaign} is still running: stop it first")
            connection.execute(sa.delete(runs).where(condition))
            if whole_campaigns:
                connection.execute(sa.delete(campaigns).where(campaigns.c.id.in_(numbers)))
        return len(rows)

    def _under_way(self, connection: sa.Connection) -> list[Any]:
        running = sa.select(runs.c.id, runs.c.campaign, runs.c.owner)
        rows = connection.execute(running.where(runs.c.state == "running")).all()
        return [row for row in rows if owner_is_alive(row.owner or "")]


def _result_values(result: FinishedRun) -> dict[str, Any]:
    outcome = _plain(result.outcome.as_document())
    return {"finished": timestamp(), "seconds": result.seconds, "outcome": outcome, "raw": result.raw or None}


def _add_done(
    connection: sa.Connection,
    campaign: int,
    cells: "Sequence[Cell]",
    results: Mapping[str, FinishedRun],
    state: Mapping[str, Any],
) -> None:
    """Adds some runs of a campaign that has been run elsewhere, in one statement for each table."""
    rows = []
    for cell in cells:
        rows.append({**_run_values(campaign, cell), **state, **_result_values(results[cell.key])})
    connection.execute(sa.insert(runs), rows)
    keys = [cell.key for cell in cells]
    query = sa.select(runs.c.key, runs.c.id).where(runs.c.campaign == campaign, runs.c.key.in_(keys))
    ids = {row.key: row.id for row in connection.execute(query)}
    figure_rows = []
    for cell in cells:
        figure_rows.append(figure_row(ids[cell.key], campaign, cell.labels, results[cell.key].outcome))
        _add_series(connection, ids[cell.key], results[cell.key])
    connection.execute(sa.insert(figures), figure_rows)


def _add_figures(connection: sa.Connection, run: int, outcome: Outcome) -> None:
    row = connection.execute(sa.select(runs.c.campaign, runs.c.labels).where(runs.c.id == run)).one()
    connection.execute(sa.insert(figures).values(**figure_row(run, row.campaign, row.labels, outcome)))


def _add_series(connection: sa.Connection, run: int, result: FinishedRun) -> None:
    if result.points:
        connection.execute(sa.insert(stored_series).values(run=run, points=series.encode_points(result.points)))


def _run_values(campaign: int, cell: "Cell") -> dict[str, Any]:
    identity = {"campaign": campaign, "number": cell.number, "key": cell.key}
    return {**identity, "labels": dict(cell.labels), "cell": _plain(cell.document)}


def _add_runs(connection: sa.Connection, campaign: int, cells: "Sequence[Cell]") -> dict[str, int]:
    if cells:
        connection.execute(sa.insert(runs), [_run_values(campaign, cell) | {"state": "planned"} for cell in cells])
    numbers = connection.execute(sa.select(runs.c.key, runs.c.id).where(runs.c.campaign == campaign)).all()
    of_key = {row.key: row.id for row in numbers}
    return {cell.key: of_key[cell.key] for cell in cells}


def insert_row(connection: sa.Connection, table: sa.Table, values: Mapping[str, Any]) -> int:
    """Adds a row to a table, and returns its number."""
    return int(connection.execute(sa.insert(table).values(**values).returning(table.c.id)).scalar_one())


def _update(run: int, **values: Any) -> sa.Update:
    return sa.update(runs).where(runs.c.id == run).values(**values)


def _is(connection: sa.Connection, run: int, state: str, by: str | None) -> bool:
    """Tells whether a run is in a state and belongs to `by`."""
    query = sa.select(runs.c.state, runs.c.owner).where(runs.c.id == run)
    return connection.execute(query).one_or_none() == (state, by)


def _environment(connection: sa.Connection, document: Mapping[str, Any]) -> int:
    plain = _plain(document)
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    query = sa.select(environments.c.id).where(environments.c.digest == digest)
    row = connection.execute(query).scalar()
    if row is not None:
        return int(row)
    try:
        with connection.begin_nested():
            return insert_row(connection, environments, {"digest": digest, "document": plain})
    except sa.exc.IntegrityError:  # another process was quicker, on a server
        return int(connection.execute(query).scalar_one())


def _plain(value: Any) -> Any:
    """Returns a value for JSON: dates of TOML become text, NaN and infinity null."""
    if type(value) in _EXACT:  # Most values are
        return value
    match value:
        case Mapping():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case float() if not math.isfinite(value):
            return None
        case None | bool() | int() | float() | str():
            return value
    return str(value)


_EXACT = frozenset({int, str, bool, type(None)})


def timestamp() -> str:
    """Returns the time as the store keeps it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def this_owner() -> str:
    """Returns this process as an owner: `MACHINE BOOT PID START`, with the values of `blklab.system.process`."""
    pid = os.getpid()
    return f"{_machine_id()} {_boot_id()} {pid} {start_of(pid, Roots())}"


def owner_is_alive(owner: str) -> bool:
    """Tells whether an owner may still be alive; on another machine it always may."""
    parts = [*owner.split(), "", "", "", ""]  # Missing ones are empty
    machine, boot, pid, start_time = parts[:4]
    if machine != _machine_id():
        return True
    if boot != _boot_id() or not pid.isdigit():
        return False
    now = start_of(int(pid), Roots())
    return now is not None and str(now) == start_time


def _machine_id() -> str:
    return read_text(Path("/etc/machine-id")) or platform.node() or "unknown"


def _boot_id() -> str:
    return boot_id(Roots()) or "unknown"
