"""Takes over the series that older versions kept in files next to the store, or on the machine that measured."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from blklab.store.tables import meta, runs, series

NAME: Final = re.compile(r"run-(\d{1,18})\.parquet", re.A)


def take_over(connection: sa.Connection, directory: Path) -> list[Path]:
    """Adds the files of a directory to the runs that have no series, and returns those that are no longer needed.

    A server's stores had a directory each, with the store's own name.
    """
    if connection.dialect.name != "sqlite":
        directory /= connection.execute(sa.select(meta.c.store)).scalar_one()
    known = set(connection.execute(sa.select(runs.c.id)).scalars())
    stored = set(connection.execute(sa.select(series.c.run)).scalars())
    taken = []
    with suppress(OSError):
        for path in sorted(directory.iterdir()):
            match = NAME.fullmatch(path.name)
            if match and (run := int(match[1])) in known:
                if run not in stored:
                    connection.execute(sa.insert(series).values(run=run, points=path.read_bytes()))
                taken.append(path)
    return taken


def remove(paths: list[Path]) -> None:
    """Removes files, and their directory if nothing else is in it."""
    with suppress(OSError):
        for path in paths:
            path.unlink(missing_ok=True)
        if paths:
            paths[0].parent.rmdir()
