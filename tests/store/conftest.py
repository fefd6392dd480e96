"""Stores to test with: SQLite, and a PostgreSQL server that the tests start themselves."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.outcome import DirectionResult, Outcome
from blklab.store.campaigns import Store
from tests.conftest import UNPACKED

OUTCOME = Outcome(10**9, DirectionResult(5, iops=5.0))


def cells(count: int) -> list[Cell]:
    return [
        Cell(
            number,
            {"stack": "raid1" if number % 2 else "near", "iodepth": str(number), "repeat": "1"},
            {"seed": number},
            1 << 30,
        )
        for number in range(1, count + 1)
    ]


def make_plan(count: int = 4, *, runner: str = "host", name: str = "exp") -> ExperimentPlan:
    path = Path(f"/srv/{name}.toml")
    return ExperimentPlan("A title", cells(count), ["stack", "iodepth"], runner, path, {"seed": 1})


def program(name: str, usr: Path = Path("/usr")) -> str | None:
    """Returns a program of PostgreSQL's; Debian keeps them out of PATH."""
    result = sorted(usr.glob(f"lib/postgresql/*/bin/{name}"))
    return str(result[-1]) if result else shutil.which(name)


class Server:
    """A server in a directory, with no port but a socket there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data = str(directory / "data")
        self.url = f"postgresql://blklab@/postgres?host={directory}"
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        os.chown(directory, self._user.pw_uid, self._user.pw_gid)
        self.usr = directory / "usr"
        # The checkout may be where only root may look.
        for part in ("lib", "share/postgresql") if program("initdb") is None and not self.usr.exists() else ():
            shutil.copytree(UNPACKED / part, self.usr / part, symlinks=True)

    @classmethod
    def of(cls, url: str) -> "Server":
        return cls(Path(url.partition("host=")[2]))

    def run(self, name: str, *arguments: str) -> None:
        path = program(name, self.usr) or program(name)
        assert path is not None
        user = self._user
        words = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        # A server that pg_ctl starts would keep a pipe open.
        with (self.directory / "said").open("w") as output:
            subprocess.run(
                [*(words if os.geteuid() == 0 else []), path, *arguments],
                check=True,
                cwd=self.directory,
                stdout=output,
                stderr=output,
                env=os.environ | {"LD_LIBRARY_PATH": f"{self.usr}/lib/{os.uname().machine}-linux-gnu"},
            )

    def start(self) -> None:
        options = f"-c listen_addresses='' -k {self.directory} -c fsync=off"
        log = str(self.directory / "log")
        self.run("pg_ctl", "-D", self.data, "-w", "-l", log, "-o", options, "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop")


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Returns the URL of a server, which refuses to be root's."""
    if program("initdb") is None and program("initdb", UNPACKED) is None:
        pytest.skip("postgresql is not installed: scripts/setup test")
    server = Server(Path(tempfile.mkdtemp(prefix="blklab-postgresql-", dir="/tmp")))  # The path of its socket is short
    try:
        server.run("initdb", "-D", server.data, "--auth=trust", "--username=blklab", "--no-sync")
        server.start()
        yield server.url
    finally:
        if Path(server.data, "postmaster.pid").exists():
            server.stop()
        shutil.rmtree(server.directory)


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Returns an empty store's place, of either kind."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    if request.param == "sqlite":
        yield str(tmp_path / "store.db")
        return
    url: str = request.getfixturevalue("postgresql")
    yield url
    import sqlalchemy as sa

    with Store(url).database.writing() as connection:
        for table in (
            "runs",
            "campaigns",
            "environments",
            "meta",
            "series",
            "figures",
            "documents",
            "annotations",
            "alembic_version",
        ):
            connection.execute(sa.text(f"drop table if exists {table} cascade"))


@pytest.fixture
def store(where: str) -> Store:
    return Store(where)
