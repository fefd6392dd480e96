"""What happens to runs in a store, of either kind."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from blklab.cli.exit_status import run_safely
from blklab.cli.status import INTERRUPTED
from blklab.errors import BlklabError, StoreError, UsageError
from blklab.outcome import DirectionResult, LatencyResult, Outcome
from blklab.store import database, query, series
from blklab.store.campaigns import Store
from blklab.store.database import Database
from blklab.store.series import FinishedRun, SeriesPoint
from tests.store.conftest import OUTCOME, Server, make_plan

POINTS = [
    SeriesPoint("jobs", 0, 10**9, 5, 0, 20480, 0, 81000.5, None),
    SeriesPoint("sda", 0, 10**9, 5, 0, 20480, 0, 79000.0, None),
]
ENVIRONMENT = {"kernel": "6.1", "lsblk": {"blockdevices": []}}


def states(store: Store) -> dict[str, int]:
    return dict(query.all_campaigns(store)[-1].states)


def test_a_campaign_from_begin_to_end(store: Store) -> None:
    plan = make_plan()
    campaign = store.begin(plan)
    assert states(store) == {"planned": 4, "running": 0, "done": 0, "failed": 0}
    first, second, third, _ = campaign.waiting.values()
    assert store.claim(first, ENVIRONMENT)
    assert not store.claim(first, ENVIRONMENT)
    store.finish(first, FinishedRun(OUTCOME, 1.5, POINTS, series.pack_output('{"jobs": []}')))
    assert store.claim(second, ENVIRONMENT)
    store.fail(second, "fio was killed")
    assert store.claim(third, ENVIRONMENT)
    store.release([third])
    assert states(store) == {"planned": 2, "running": 0, "done": 1, "failed": 1}
    run = query.run(store, first)
    assert (run.state, run.outcome, run.seconds) == ("done", OUTCOME, 1.5)
    assert run.labels == plan.cells[0].labels
    assert run.environment == ENVIRONMENT
    assert query.raw(store, first) == '{"jobs": []}'
    assert query.points(store, first) == POINTS
    assert query.run(store, second).message == "fio was killed"
    assert query.points(store, second) == []


def test_many_may_claim_at_once(where: str, store: Store) -> None:
    """In one environment, which only one of them can be the first to write."""
    runs = list(store.begin(make_plan(24)).waiting.values())
    for turn in range(3):
        environment = ENVIRONMENT | {"turn": turn}
        with ThreadPoolExecutor(8) as pool:
            some = runs[turn * 8 : turn * 8 + 8]
            assert all(pool.map(lambda run: Store(where).claim(run, environment), some))  # noqa: B023


def test_resuming_redoes_what_is_not_done(store: Store) -> None:
    plan = make_plan()
    assert store.resume(plan) is None
    runs = list(store.begin(plan).waiting.values())
    store.claim(runs[0], {})
    store.finish(runs[0], FinishedRun(OUTCOME, 1))
    store.claim(runs[1], {})
    store.fail(runs[1], "x")
    store.claim(runs[2], {})  # this process lives: the run is in progress
    again = store.resume(plan)
    assert again is not None
    assert sorted(again.waiting.values()) == [runs[1], runs[3]]
    assert store.resume(make_plan(5)) is None
    assert store.resume(make_plan(runner="sim")) is None


def test_a_run_of_a_dead_process_is_free(where: str, store: Store) -> None:
    plan = make_plan()
    store.begin(plan)
    code = (
        "import sys; from blklab.store.campaigns import Store\n"
        "store = Store(sys.argv[1])\n"
        "print(store.claim(int(sys.argv[2]), {}), flush=True); input()"
    )
    first = next(iter(store.resume(plan).waiting.values()))  # type: ignore[union-attr]
    with subprocess.Popen(
        [sys.executable, "-c", code, where, str(first)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"True\n"
        resumed = store.resume(plan)
        assert resumed is not None
        assert first not in resumed.waiting.values()
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        resumed = store.resume(plan)
        assert resumed is not None
        assert first in resumed.waiting.values()
    assert store.claim(first, {})


def test_only_the_owner_ends_a_run(store: Store) -> None:
    (run, *_) = store.begin(make_plan()).waiting.values()
    with pytest.raises(BlklabError, match="belongs to another process"):
        store.finish(run, FinishedRun(OUTCOME, 1))
    assert query.run(store, run).state == "planned"


def test_removing(store: Store) -> None:
    runs = list(store.begin(make_plan()).waiting.values())
    for run in runs[:2]:
        store.claim(run, {})
        store.finish(run, FinishedRun(OUTCOME, 1, POINTS))
    assert series_in(store) == runs[:2]
    assert store.remove([runs[0]], whole_campaigns=False) == 1
    assert series_in(store) == [runs[1]]
    number = query.all_campaigns(store)[-1].number
    assert store.remove([number], whole_campaigns=True) == 3
    assert query.all_campaigns(store) == []
    assert series_in(store) == []
    # A number is never given twice.
    assert min(store.begin(make_plan()).waiting.values()) > max(runs)


def series_in(store: Store) -> list[int]:
    with store.database.reading() as connection:
        return sorted(connection.execute(sa.text("select run from series")).scalars())


def test_files_of_older_versions_are_taken_over(where: str, store: Store) -> None:
    runs = list(store.begin(make_plan()).waiting.values())
    with store.database.writing() as connection:
        own = connection.execute(sa.text("select store from meta")).scalar_one()
        connection.exec_driver_sql("drop table series")
        connection.exec_driver_sql("drop table figures")
        connection.exec_driver_sql("drop index states_of_a_campaign")
        connection.exec_driver_sql("alter table runs add column series varchar")
        connection.exec_driver_sql("update alembic_version set version_num = '0004'")
    directory = store.database.older_series
    if store.database.engine.dialect.name == "postgresql":
        directory /= own
    directory.mkdir(parents=True)
    (directory / f"run-{runs[0]}.parquet").write_bytes(series.encode_points(POINTS))
    store = Store(where)
    assert query.points(store, runs[0]) == POINTS
    assert query.points(store, runs[1]) == []  # its file is on another machine
    assert not directory.exists()
    directory.mkdir(parents=True)
    (directory / f"run-{runs[1]}.parquet").write_bytes(series.encode_points(POINTS))
    assert query.points(Store(where, reading=True), runs[1]) == POINTS
    assert not directory.exists()


def test_a_run_under_way_is_not_removed(store: Store) -> None:
    (run, *_) = store.begin(make_plan()).waiting.values()
    store.claim(run, {})
    with pytest.raises(BlklabError, match=f"run {run} of campaign"):
        store.remove([run], whole_campaigns=False)


@dataclass
class Away:
    """A store on a server that can be stopped, and the runs of its campaign."""

    server: Server
    store: Store
    runs: list[int]
    waited: list[float]
    said: list[str]  # Its warnings

    @property
    def url(self) -> str:
        return self.server.url.replace("/postgres?", "/away?")


@pytest.fixture
def away(postgresql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Away:
    """No time passes: the second wait starts the server again."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    server = Server.of(postgresql)
    server.run("dropdb", "-h", str(server.directory), "-U", "blklab", "--if-exists", "--force", "away")
    server.run("createdb", "-h", str(server.directory), "-U", "blklab", "away")
    said: list[str] = []
    store = Store(postgresql.replace("/postgres?", "/away?connect_timeout=2&"), warn=said.append)
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 2:
            server.start()

    monkeypatch.setattr("blklab.store.database.time.sleep", sleep)
    return Away(server, store, list(store.begin(make_plan()).waiting.values()), waited, said)


def test_a_server_that_is_away_is_waited_for(away: Away) -> None:
    server, store, waited = away.server, away.store, away.waited
    first, second, *_ = away.runs
    server.stop()
    assert store.claim(first, {})
    (said,) = away.said
    assert said.startswith(f"store {store.database.name}: ")
    assert "No such file or directory" in said
    assert said.endswith("; blklab tries again for up to 2 minutes")
    waited.clear()
    server.stop()
    store.finish(first, FinishedRun(OUTCOME, 1, POINTS))
    assert query.points(store, first) == POINTS
    assert store.claim(second, {})
    waited.clear()
    server.stop()
    store.fail(second, "fio was killed")
    assert query.run(store, second).message == "fio was killed"


def test_a_frozen_server_is_waited_for(away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    process = int(Path(away.server.data, "postmaster.pid").read_text().split()[0])
    monkeypatch.setattr("blklab.store.database.time.sleep", lambda _: os.kill(process, signal.SIGCONT))
    os.kill(process, signal.SIGSTOP)
    try:
        assert away.store.claim(away.runs[0], {})
    finally:
        os.kill(process, signal.SIGCONT)
    (said,) = away.said
    assert "timeout" in said


def test_a_server_that_stops_to_answer_is_asked_again(away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "ANSWER", 0.2)
    with psycopg.connect(away.url) as other:
        other.execute("lock table runs")
        monkeypatch.setattr("blklab.store.database.time.sleep", lambda _: other.rollback())
        assert away.store.claim(away.runs[0], {})
    assert len(away.said) == 1


def test_a_server_that_stops_to_answer_ends_reading(away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "READ_ANSWER", 0.2)
    with psycopg.connect(away.url) as other:
        other.execute("lock table runs")
        with pytest.raises(StoreError, match="connection"):
            query.all_campaigns(away.store)


def test_connections_have_limits_unless_the_url_has_them(away: Away) -> None:
    with away.store.database.reading() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        limits = driver.info.get_parameters()
    assert limits["connect_timeout"] == "2"
    assert limits["tcp_user_timeout"] == database.CONNECTING["tcp_user_timeout"]


def test_after_the_time_limit_no_attempt_is_made(away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "PATIENCE", -1)
    away.server.stop()
    try:
        with pytest.raises(StoreError, match=r"when it runs again, repeat the command with --resume$"):
            away.store.claim(away.runs[0], {})
    finally:
        away.server.start()
    assert away.waited == []


def test_a_server_that_ends_before_it_says_so_has_done_it(away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    run = away.runs[0]
    monkeypatch.setattr("blklab.store.database.time.sleep", away.waited.append)
    written = Database.writing
    answers = iter([False, True, False, True])

    @contextmanager
    def lost(self: Database) -> Iterator[sa.Connection]:
        with written(self) as connection:
            yield connection
        if not next(answers):
            try:
                raise sa.exc.OperationalError("commit", None, psycopg.OperationalError("gone"))
            except sa.exc.OperationalError as error:
                raise StoreError("gone") from error

    monkeypatch.setattr(Database, "writing", lost)
    assert away.store.claim(run, {})
    away.store.finish(run, FinishedRun(OUTCOME, 1))
    monkeypatch.setattr(Database, "writing", written)
    assert query.run(away.store, run).state == "done"


def test_what_was_measured_is_in_a_file_if_the_server_stays_away(away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    server, store, run = away.server, away.store, away.runs[0]
    assert store.claim(run, {})
    waited: list[float] = []
    pauses = list(database.PAUSES)
    monkeypatch.setattr("blklab.store.database.time.sleep", waited.append)
    server.stop()
    try:
        path = store.database.directory / f"unkept-run-{run}.json"
        with pytest.raises(StoreError, match=f"the measurement is in {path}") as caught:
            store.finish(run, FinishedRun(OUTCOME, 1, POINTS, series.pack_output("{}")))
    finally:
        server.start()
    assert waited == pauses
    assert 100 < sum(pauses) < 150
    assert str(caught.value).endswith(": when it runs again, repeat the command with --resume")
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)
    assert "\\x0a" not in str(caught.value)
    document = json.loads(path.read_text())
    assert document["outcome"] == OUTCOME.as_document()
    assert [SeriesPoint(*values) for values in document["series"]] == POINTS
    assert document["raw"] == "{}"
    store.release([run])
    path.unlink()


def test_of_a_full_disk_nothing_is_waited_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    (run, *_) = store.begin(make_plan()).waiting.values()
    store.claim(run, {})

    def full(*_: object) -> None:
        raise sa.exc.OperationalError("insert", None, sqlite3.OperationalError("database or disk is full"))

    monkeypatch.setattr("blklab.store.campaigns._add_series", full)
    with pytest.raises(StoreError, match=r"^the measurement is in .*: store .*: database or disk is full"):
        store.finish(run, FinishedRun(OUTCOME, 1, POINTS))


def test_what_an_interrupt_saved_is_named(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (run, *_) = store.begin(make_plan()).waiting.values()
    store.claim(run, {})

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("blklab.store.campaigns._add_series", interrupted)

    def command() -> int:
        try:
            store.finish(run, FinishedRun(OUTCOME, 1, POINTS))
        except KeyboardInterrupt:
            raise KeyboardInterrupt("repeat the command with --resume") from None
        return 0

    assert run_safely(command) == INTERRUPTED
    path = store.database.directory / f"unkept-run-{run}.json"
    assert capsys.readouterr().err == (
        f"blklab: run {run} is not in the store; the measurement is in {path}\n"
        "blklab: interrupted: repeat the command with --resume\n"
    )
    assert json.loads(path.read_text())["run"] == run


def test_a_campaign_under_way_loses_no_planned_run(store: Store) -> None:
    first, second, third, _ = store.begin(make_plan()).waiting.values()
    store.claim(first, {})
    store.claim(second, {})
    store.fail(second, "x")
    with pytest.raises(BlklabError, match=f"run {first} of campaign"):
        store.remove([third], whole_campaigns=False)
    assert store.remove([second], whole_campaigns=False) == 1
    number = query.all_campaigns(store)[-1].number
    with pytest.raises(BlklabError, match=f"run {first} of campaign {number}"):
        store.remove([number], whole_campaigns=True)
    store.release([first])
    assert store.remove([number], whole_campaigns=True) == 3


def test_runs_are_planned_together(store: Store) -> None:
    statements: list[str] = []
    sa.event.listen(store.database.engine, "before_cursor_execute", lambda *all_: statements.append(all_[2]))
    plan = make_plan(300)
    waiting = store.begin(plan).waiting
    assert len(statements) < 10
    stored = query.runs_of(store, query.all_campaigns(store)[-1].number)
    assert waiting == {cell.key: run.id for cell, run in zip(plan.cells, stored, strict=True)}
    assert [run.labels for run in stored] == [cell.labels for cell in plan.cells]


def test_one_campaign_is_read_to_choose_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(4):
        store.begin(make_plan(name="a"))
    read: list[Sequence[query.CampaignRow]] = []
    of_store = query.all_campaigns

    def counted(*where: Any) -> list[query.CampaignRow]:
        read.append(of_store(*where))
        return list(read[-1])

    monkeypatch.setattr(query, "all_campaigns", counted)
    last = of_store(store)[-1].number
    assert query.select_runs(store, "a~1").campaign.number == last - 1
    assert query.select_runs(store, str(last - 2)).campaign.number == last - 2
    assert [len(rows) for rows in read] == [1, 1]


def test_choosing(store: Store) -> None:
    for name, runner in (("a", "sim"), ("a", "host"), ("b", "host"), ("a", "host")):
        store.begin(make_plan(runner=runner, name=name))
    numbers = [row.number for row in query.all_campaigns(store)]
    chosen = {
        words: query.select_runs(store, words).campaign.number
        for words in (str(numbers[0]), "a", "a@sim", "a@host~1", "b", "x/a.toml@host")
    }
    assert chosen == {
        str(numbers[0]): numbers[0],
        "a": numbers[3],
        "a@sim": numbers[0],
        "a@host~1": numbers[1],
        "b": numbers[2],
        "x/a.toml@host": numbers[3],
    }
    only = query.select_runs(store, "b:stack=raid*,iodepth=3").runs
    assert [run.labels["iodepth"] for run in only] == ["3"]


@pytest.mark.parametrize(
    ("words", "output"),
    [
        ("99999999", "no campaign 99999999 in store"),
        ("c", "no campaign 'c' in store"),
        ("exp@sim", "(exp was run on host)"),
        ("exp~1", "found 1 such campaigns"),
        ("exp:stack", "after the colon: 'stack': expected LABEL=PATTERN"),
        ("exp:stack=x", "no run matches; labels are stack, iodepth, repeat"),
        ("exp@", "expected a campaign, such as 3, NAME, NAME@host, NAME@HOSTNAME or NAME@host~1"),
    ],
)
def test_choosing_what_is_not_there(store: Store, words: str, output: str) -> None:
    store.begin(make_plan())
    with pytest.raises(UsageError) as caught:
        query.select_runs(store, words)
    assert output in str(caught.value)


def test_results_that_json_cannot_hold_are_null(store: Store) -> None:
    (run, *_) = store.begin(make_plan()).waiting.values()
    store.claim(run, {})
    clat = LatencyResult(1, float("nan"))
    outcome = Outcome(read=DirectionResult(1, clat_ns=clat), targets=[{"of": (1, Path("x"), float("inf"))}])
    store.finish(run, FinishedRun(outcome, 1))
    stored = query.run(store, run).figures
    assert stored.read.clat_ns == LatencyResult(1, None)
    assert stored.targets == [{"of": [1, "x", None]}]


def test_campaigns_of_two_hosts_are_told_apart(store: Store) -> None:
    plan = make_plan()
    first, second = (store.begin(plan, host).number for host in ("srv1.example.org", "srv2"))
    listed = query.all_campaigns(store)
    assert [row.place for row in listed] == ["host (srv1.example.org)", "host (srv2)"]
    for words, number in (
        (f"{plan.name}@srv1.example.org", first),
        (f"{plan.name}@srv2", second),
        (f"{plan.name}@host", second),
        (f"{plan.name}@host~1", first),
    ):
        assert query.select_runs(store, words).campaign.number == number
    with pytest.raises(UsageError, match=r"was run on host \(srv1.example.org\), host \(srv2\)"):
        query.select_runs(store, f"{plan.name}@srv3")
    resumed = store.resume(plan, "srv1.example.org")
    assert resumed is not None
    assert resumed.number == first
    assert store.resume(plan, "srv3") is None
