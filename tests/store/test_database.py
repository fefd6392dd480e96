"""Opening a store: where, made, migrated, refused."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from blklab.errors import BlklabError, StoreError, UsageError
from blklab.store import database, query
from blklab.store.campaigns import Store
from blklab.store.series import SeriesPoint, as_outcome, decode_points, encode_points, of_outcome
from blklab.store.tables import REVISION, metadata
from tests.store.conftest import make_plan


def test_the_migrations_make_the_tables_as_they_are_declared(store: Store) -> None:
    with store.database.reading() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, metadata) == []


def test_the_newest_migration_is_the_one_declared() -> None:
    directory = Path(database.__file__).parent / "migrations"
    assert ScriptDirectory(str(directory)).get_heads() == [REVISION]


def test_a_newer_store_is_refused(where: str) -> None:
    store = Store(where)
    with store.database.writing() as connection:
        connection.execute(sa.text("update alembic_version set version_num = '9999'"))
    with pytest.raises(BlklabError, match="was made by a newer blklab"):
        Store(where)
    with store.database.writing() as connection:
        connection.execute(sa.text("update alembic_version set version_num = :number"), {"number": REVISION})


def test_many_may_open_a_new_store_at_once(where: str) -> None:
    def open_() -> int:
        return Store(where).begin(make_plan(1)).number

    with ThreadPoolExecutor(4) as pool:
        numbers = [future.result() for future in [pool.submit(open_) for _ in range(8)]]
    assert len(set(numbers)) == 8


def test_sqlite_is_in_wal_mode(tmp_path: Path) -> None:
    Store(str(tmp_path / "deep" / "store.db"))
    connection = sqlite3.connect(tmp_path / "deep" / "store.db")
    assert connection.execute("pragma journal_mode").fetchone() == ("wal",)
    connection.close()


def test_the_default_is_in_the_users_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv(database.VARIABLE, raising=False)
    Store()
    assert (tmp_path / "blklab" / "store.db").is_file()
    monkeypatch.setenv(database.VARIABLE, str(tmp_path / "other.db"))
    Store()
    assert (tmp_path / "other.db").is_file()


@pytest.mark.parametrize(
    ("where", "output"),
    [
        ("mysql://x/y", "unsupported URL 'mysql://x/y': expected postgresql://"),
        ("sqlite://", "sqlite:// without a file keeps nothing"),
        ("postgresql://u:secret@x:port/y", "invalid URL 'x:port/y'"),
        ("/", "is a directory, expected a file"),
    ],
)
def test_what_is_no_store(where: str, output: str) -> None:
    with pytest.raises(UsageError) as caught:
        Store(where)
    assert output in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("where", ["postgresql://u:secret@127.0.0.1:1/x", "{file}", "/proc/x.db"])
def test_a_store_that_does_not_open_is_one_line(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_bytes(b"no database at all, but long enough to look like one" * 40)
    with pytest.raises(BlklabError) as caught:
        Store(where.format(file=tmp_path / "file"))
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_series_come_back() -> None:
    points = [SeriesPoint("jobs", n, 5, n, 0, n * 4096, 0, n / 3, None) for n in range(1000)]
    assert decode_points(encode_points(points), "run 1") == points
    assert decode_points(encode_points([]), "run 1") == []


def test_a_broken_series_is_one_line() -> None:
    with pytest.raises(StoreError, match=r"^run 7: not a series: .+$"):
        decode_points(b"PAR1 no", "run 7")


def test_the_series_of_a_simulation() -> None:
    part: Any = {"time_ns": 8, "width_ns": 4, "ios": [1, 2], "bytes": [3, 4], "clat_ns": [5.0, None]}
    points = of_outcome([part])
    assert points == [SeriesPoint("jobs", 8, 4, 1, 2, 3, 4, 5.0, None)]
    assert as_outcome([*points, replace(points[0], source="sda")]) == [part]


def test_an_unreadable_run_number(store: Store) -> None:
    with pytest.raises(UsageError, match="no run 4711 in store"):
        query.run(store, 4711)
