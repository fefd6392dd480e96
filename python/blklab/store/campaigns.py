"""What is done with a store: a campaign planned, its runs claimed, finished, found and removed.

A campaign is one going of an experiment on a runner; it has a row for each cell, whose state goes
`planned → running → done` or `failed`. A run is written in one transaction when it ends. A process
that dies leaves a run `running`, whose owner is found dead: it can be claimed again.
"""

import hashlib
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from blklab import __version__
from blklab.errors import BlklabError
from blklab.store import owner, series
from blklab.store.database import Database, opened
from blklab.store.finished import Finished
from blklab.store.tables import campaigns, environments, runs

if TYPE_CHECKING:
    from blklab.spec.cells import Cell, Plan


@dataclass(frozen=True)
class Campaign:
    """A campaign, and which of its cells are still to be run."""

    number: int
    waiting: Mapping[str, int]
    """Runs by the key of their cell; those of a living process are not among them."""


class Store:
    """An open store."""

    def __init__(self, where: str | None = None, *, reading: bool = False) -> None:
        """Opens it, as `blklab.store.database.opened` does."""
        self.database: Database = opened(where, reading=reading)
        self._me = owner.me()

    # --- campaigns -------------------------------------------------------------------------------

    def begin(self, plan: "Plan") -> Campaign:
        """Makes a campaign of a plan, all of its runs planned."""
        with self.database.writing() as connection:
            number = self._campaign(connection, plan)
            waiting = {}
            for cell in plan.cells:
                waiting[cell.key] = _inserted(
                    connection, runs, _planned(number, cell) | {"state": "planned"}
                )
        return Campaign(number, waiting)

    def resume(self, plan: "Plan") -> Campaign | None:
        """Returns the newest campaign of the same cells, with those that are not done.

        None if there is none. A failed run is tried again, and one whose process has died.
        """
        query = (
            sa.select(campaigns.c.id)
            .where(campaigns.c.digest == plan.digest, campaigns.c.runner == plan.runner)
            .order_by(campaigns.c.id.desc())
            .limit(1)
        )
        with self.database.writing() as connection:
            number = connection.execute(query).scalar()
            if number is None:
                return None
            found = connection.execute(
                sa.select(runs.c.id, runs.c.key, runs.c.state, runs.c.owner)
                .where(runs.c.campaign == number, runs.c.state != "done")
                .order_by(runs.c.number)
            ).all()
            waiting = {}
            for row in found:
                if row.state == "running" and owner.alive(row.owner or ""):
                    continue
                waiting[row.key] = row.id
                connection.execute(_update(row.id, state="planned", owner=None, message=None))
        return Campaign(number, waiting)

    def add(
        self, plan: "Plan", finished: Mapping[str, Finished], environment: Mapping[str, Any]
    ) -> int:
        """Stores a campaign that has been run already, and returns its number.

        `finished` has what was measured by the key of each cell.
        """
        with self.database.writing() as connection:
            number = self._campaign(connection, plan)
            at = _environment(connection, environment)
            now = _now()
            for cell in plan.cells:
                values = _planned(number, cell) | {
                    "state": "done",
                    "environment": at,
                    "started": now,
                }
                run = _inserted(connection, runs, values)
                connection.execute(_update(run, **self._written(run, finished[cell.key])))
        return number

    def _campaign(self, connection: sa.Connection, plan: "Plan") -> int:
        return _inserted(
            connection,
            campaigns,
            {
                "name": plan.name,
                "title": plan.title,
                "runner": plan.runner,
                "digest": plan.digest,
                "path": str(plan.path),
                "experiment": _plain(plan.raw),
                "version": __version__,
                "created": _now(),
            },
        )

    # --- runs ------------------------------------------------------------------------------------

    def claim(self, run: int, environment: Mapping[str, Any]) -> bool:
        """Takes a planned run for this process; False if another was quicker."""
        with self.database.writing() as connection:
            taken = connection.execute(
                _update(
                    run,
                    state="running",
                    owner=self._me,
                    started=_now(),
                    environment=_environment(connection, environment),
                ).where(runs.c.state == "planned")
            )
            return taken.rowcount == 1

    def finish(self, run: int, finished: Finished) -> None:
        """Writes a run of this process that is done: its series first, then all else at once."""
        values = self._written(run, finished)
        self._end(run, state="done", message=None, **values)

    def fail(self, run: int, message: str) -> None:
        """Writes that a run of this process failed, and why."""
        self._end(run, state="failed", message=message, finished=_now())

    def release(self, run: int) -> None:
        """Gives back a run that was not finished: it is planned again."""
        self._end(run, state="planned", started=None, environment=None)

    def _end(self, run: int, **values: Any) -> None:
        with self.database.writing() as connection:
            done = connection.execute(
                _update(run, owner=None, **values).where(
                    runs.c.state == "running", runs.c.owner == self._me
                )
            )
            if done.rowcount != 1:
                raise BlklabError(f"store {self.database.name}: run {run} is another process's")

    def _written(self, run: int, finished: Finished) -> dict[str, Any]:
        name = None
        if finished.points:
            name = f"run-{run}.parquet"
            self._folder()
            series.write(self.database.series / name, finished.points)
        return {
            "finished": _now(),
            "seconds": finished.seconds,
            "outcome": _plain(finished.outcome),
            "raw": zlib.compress(finished.raw.encode()) if finished.raw else None,
            "series": name,
        }

    def _folder(self) -> None:
        try:
            self.database.series.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BlklabError(f"{self.database.series}: cannot be made: {error.strerror}") from None

    # --- what a crash or a removal left ----------------------------------------------------------

    def remove(self, numbers: Sequence[int], *, whole: bool) -> int:
        """Removes runs, or `whole` campaigns, and returns how many runs that were."""
        column = runs.c.campaign if whole else runs.c.id
        with self.database.writing() as connection:
            where = column.in_(numbers)
            found = connection.execute(sa.select(runs.c.id, runs.c.owner).where(where)).all()
            for row in found:
                if row.owner is not None and owner.alive(row.owner):
                    raise BlklabError(f"run {row.id} is under way: stop it first")
            connection.execute(sa.delete(runs).where(where))
            if whole:
                connection.execute(sa.delete(campaigns).where(campaigns.c.id.in_(numbers)))
        self.tidy()
        return len(found)

    def tidy(self) -> None:
        """Removes files of series that no run has: of removed ones, and of processes that died."""
        if not self.database.series.is_dir():
            return
        # Inside the transaction nobody finishes a run: what is written just now has a living owner.
        with self.database.writing() as connection:
            found = connection.execute(sa.select(runs.c.id, runs.c.series, runs.c.owner)).all()
            kept = {row.series for row in found if row.series is not None}
            kept |= {
                f"run-{row.id}.parquet" for row in found if row.owner and owner.alive(row.owner)
            }
            busy = any(row.owner and owner.alive(row.owner) for row in found)
            for path in self.database.series.iterdir():
                unfinished = path.name.endswith(".part") and not busy
                stale = path.name.endswith(".parquet") and path.name not in kept
                if unfinished or stale:
                    path.unlink(missing_ok=True)


def _planned(campaign: int, cell: "Cell") -> dict[str, Any]:
    return {
        "campaign": campaign,
        "number": cell.number,
        "key": cell.key,
        "labels": dict(cell.labels),
        "cell": _plain(cell.document),
    }


def _inserted(connection: sa.Connection, table: sa.Table, values: Mapping[str, Any]) -> int:
    statement = sa.insert(table).values(**values).returning(table.c.id)
    return int(connection.execute(statement).scalar_one())


def _update(run: int, **values: Any) -> sa.Update:
    return sa.update(runs).where(runs.c.id == run).values(**values)


def _environment(connection: sa.Connection, document: Mapping[str, Any]) -> int:
    plain = _plain(document)
    text = json.dumps(plain, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    query = sa.select(environments.c.id).where(environments.c.digest == digest)
    found = connection.execute(query).scalar()
    if found is not None:
        return int(found)
    return _inserted(connection, environments, {"digest": digest, "document": plain})


def _plain(value: Any) -> Any:
    """Returns a value as JSON has it: dates of TOML as text, what is no number as null."""
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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
