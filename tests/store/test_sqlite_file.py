"""What may be a store, and what never: devices, FIFOs, other programs' files."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from blklab.errors import StoreError, UsageError
from blklab.store import query
from blklab.store.campaigns import Store
from blklab.store.database import VARIABLE
from blklab.store.tables import KNOWN, REVISION
from tests.runners.host.conftest import Loops, loops
from tests.store.conftest import make_plan

__all__ = ["loops"]

SIZE = 1 << 20


@pytest.mark.parametrize("how", ["{}", "sqlite:///{}", "link", "variable", "sqlite:///link"])
@pytest.mark.parametrize("reading", [False, True])
def test_a_block_device_is_not_written_to(
    tmp_path: Path, loops: Loops, monkeypatch: pytest.MonkeyPatch, how: str, *, reading: bool
) -> None:
    device = loops.attach(loops.file("disk", SIZE))
    link = tmp_path / "store.db"
    link.symlink_to(device)
    where = how.format(device) if "{" in how else how.replace("link", str(link))
    if how == "variable":
        monkeypatch.setenv(VARIABLE, device)
    with pytest.raises(UsageError, match="is a block device, expected a file"):
        Store(None if how == "variable" else where, reading=reading)
    assert Path(device).read_bytes() == bytes(SIZE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "probe", "store.db"]


def test_other_things_are_no_store(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    os.mknod(tmp_path / "socket", stat.S_IFSOCK)
    for path, kind in (
        ("/dev/null", "a character device"),
        (tmp_path / "fifo", "a FIFO"),
        (tmp_path / "socket", "a socket"),
        (tmp_path, "a directory"),
    ):
        with pytest.raises(UsageError, match=f"is {kind}, expected a file"):
            Store(str(path))
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(UsageError, match="is a circular link"):
        Store(str(tmp_path / "round"))
    with pytest.raises(UsageError, match="~unknown-user"):
        Store("~unknown-user/store.db")


def test_what_becomes_a_device_later_is_not_written_to(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store.db"))
    (tmp_path / "store.db").rename(tmp_path / "moved.db")
    with pytest.raises(StoreError, match="the store no longer exists"):
        store.begin(make_plan(1))
    os.mkfifo(tmp_path / "store.db")
    with pytest.raises(UsageError, match="is a FIFO"):
        store.begin(make_plan(1))


def test_a_link_is_the_store_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to("store ?#%41.db")
    Store(str(tmp_path / "link.db")).begin(make_plan(1))
    store = Store(str(tmp_path / "store ?#%41.db"))
    assert len(query.all_campaigns(store)) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
class TestOnlyRead:
    @pytest.fixture
    def directory(self, tmp_path: Path) -> Iterator[Path]:
        """Gives a directory that is seen at `seen` too, where nothing can be written."""
        (tmp_path / "own").mkdir()
        (tmp_path / "seen").mkdir()
        own, seen = str(tmp_path / "own"), str(tmp_path / "seen")
        if subprocess.run(["mount", "--bind", own, seen], check=False).returncode:
            pytest.skip("no mounting here")
        try:
            subprocess.run(["mount", "-o", "remount,bind,ro", seen], check=True)
            yield tmp_path
        finally:
            subprocess.run(["umount", seen], check=True)

    def test_it_can_be_read(self, directory: Path) -> None:
        Store(str(directory / "own/store.db")).begin(make_plan(3))
        store = Store(str(directory / "seen/store.db"), reading=True)
        assert len(query.runs_of(store, query.all_campaigns(store)[0].number)) == 3
        assert [path.name for path in (directory / "own").iterdir()] == ["store.db"]
        with pytest.raises(StoreError, match=r"store\.db: the file is read-only: make it writable for this user, or"):
            Store(str(directory / "seen/store.db")).begin(make_plan(1))

    def test_none_can_be_made(self, directory: Path) -> None:
        with pytest.raises(StoreError, match=r"new\.db: cannot be made: Read-only file system: make .*seen writable"):
            Store(str(directory / "seen/new.db"))

    def test_the_directory_is_named_if_only_it_is_read_only(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = directory / "own/store.db"
        store = Store(str(path))
        access = os.access
        monkeypatch.setattr(os, "access", lambda name, mode: name != path.parent and access(name, mode))
        with pytest.raises(StoreError, match=r"own is read-only, and SQLite writes files next to the store: make it"):
            store.begin(make_plan(1))

    def test_it_can_be_read_while_another_writes(self, directory: Path) -> None:
        other = Store(str(directory / "own/store.db"))
        with other.database.writing():
            store = Store(str(directory / "seen/store.db"), reading=True)
            assert query.all_campaigns(store) == []

    def test_an_old_one_says_that_it_must_be_brought_up_to_date(self, directory: Path) -> None:
        store = Store(str(directory / "own/store.db"))
        back_to_0001(store)
        with pytest.raises(StoreError, match="was made by an older blklab"):
            Store(str(directory / "seen/store.db"), reading=True)
        Store(str(directory / "own/store.db"), reading=True)
        Store(str(directory / "seen/store.db"), reading=True)


def back_to_0001(store: Store) -> None:
    with store.database.writing() as connection:
        for table in ("meta", "series", "figures", "documents", "annotations"):
            connection.exec_driver_sql(f"drop table {table}")
        connection.exec_driver_sql("drop index states_of_a_campaign")
        connection.exec_driver_sql("alter table campaigns drop column host")
        connection.exec_driver_sql("alter table runs add column series varchar")
        connection.exec_driver_sql("update alembic_version set version_num = '0001'")


def test_another_programs_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("create table places (id)")
    connection.close()
    content = path.read_bytes()
    for reading in (True, False):
        with pytest.raises(StoreError, match="is an SQLite file, but not a store of blklab"):
            Store(str(path), reading=reading)
    with sqlite3.connect(path) as connection:
        assert connection.execute("select name from sqlite_master").fetchall() == [("places",)]
    connection.close()
    assert len(path.read_bytes()) == len(content)


@pytest.mark.parametrize("revision", ["0000", "ae12bc", "", "0001x\n"])
def test_an_unknown_revision_is_one_line(where: str, revision: str) -> None:
    store = Store(where)
    with store.database.writing() as connection:
        connection.execute(sa.text("update alembic_version set version_num = :new"), {"new": revision})
    with pytest.raises(StoreError, match="is not a store that this version of blklab knows") as caught:
        Store(where)
    assert "\n" not in str(caught.value)
    with store.database.writing() as connection:
        connection.execute(sa.text("update alembic_version set version_num = :new"), {"new": REVISION})


@pytest.mark.parametrize("revision", [*KNOWN, "9999"])
def test_another_programs_migrations_are_not_ours(tmp_path: Path, revision: str) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table alembic_version (version_num)")
        connection.execute("insert into alembic_version values (?)", (revision,))
    connection.close()
    with pytest.raises(StoreError, match="is not a store that this version of blklab knows"):
        Store(str(path))


def test_no_half_made_store_is_seen(tmp_path: Path) -> None:
    """A process that opens a store while another makes it waits for it, or finds it empty."""
    code = "import sys; from blklab.store.campaigns import Store; Store(sys.argv[1])"
    path = str(tmp_path / "store.db")
    others = [subprocess.Popen([sys.executable, "-c", code, path]) for _ in range(3)]
    assert [other.wait() for other in others] == [0, 0, 0]
