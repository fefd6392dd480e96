"""`blklab md watch`, from the command line to what Prometheus gets."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.md.conftest import Arrays, machine
from tests.md.exporter.conftest import mirrored, parsed

__all__ = ["machine", "mirrored"]


@pytest.fixture(autouse=True)
def _here(mirrored: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blklab.cli.md.watch.Roots", lambda: mirrored.roots)


def test_a_textfile_is_whole_and_for_everybody(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "collector"
    directory.mkdir()
    path = directory / "blklab_md.prom"
    path.write_text("old\n")
    path.chmod(0o600)
    before = os.umask(0o077)
    try:
        outcome = run("md", "watch", "--textfile", path)
    finally:
        os.umask(before)
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "")
    assert path.stat().st_mode & 0o777 == 0o644
    assert [entry.name for entry in directory.iterdir()] == ["blklab_md.prom"]
    result = parsed(path.read_text())
    sda = frozenset({"array": "md0", "member": "sda"}.items())
    assert result["member_events", sda] == 0
    # No differences are added up: the counters are those of the kernel.
    assert result["member_reads_completed_total", sda] == 100


def test_a_textfile_is_replaced_and_never_written_over(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "blklab_md.prom"
    path.write_text("old\n")
    with path.open() as reader:
        assert run("md", "watch", "--textfile", path).status == 0
        assert reader.read() == "old\n"


def test_a_textfile_without_reading_disks(run: Run) -> None:
    outcome = run("md", "watch", "--textfile", "-", "--superblocks", "never")
    assert outcome.status == 0
    names = {name for name, _ in parsed(outcome.out)}
    assert "array_state" in names
    assert "member_events" not in names


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--textfile", "-", "--listen", ":1"), "remove --listen and --web-config"),
        (("--textfile", "-", "--superblocks", "1h"), "reads superblocks every time"),
        (("--superblocks", "often"), "'often' is not a duration"),
        (("--listen", "9809"), "expected HOST:PORT"),
        (("--web-config", "/nowhere/web.yml"), "/nowhere/web.yml: cannot be read: No such file"),
        (("--textfile", "/nowhere/x.prom"), "/nowhere: no such directory"),
    ],
)
def test_what_makes_no_sense(run: Run, arguments: tuple[str, ...], problem: str) -> None:
    outcome = run("md", "watch", *arguments)
    assert outcome.status == 2
    assert problem in outcome.err
    assert len(outcome.err.splitlines()) == 1


def watching(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "blklab.cli", "md", "watch", *arguments], stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_end(run: Run, number: signal.Signals) -> None:
    with watching("--listen", "127.0.0.1:0", "--superblocks", "never") as process:
        assert process.stderr
        line = process.stderr.readline()
        match = re.fullmatch(r"blklab: listening on (http://127\.0\.0\.1:(\d+)/metrics)\n", line)
        assert match, line
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(match[1], timeout=60) as answer:
            assert parsed(answer.read().decode())["up", frozenset()] == 1
        # And another finds the port taken.
        outcome = run("md", "watch", "--listen", f"127.0.0.1:{match[2]}")
        assert outcome.status == 3
        assert outcome.err == (
            f"blklab: error: 127.0.0.1:{match[2]}: address already in use; use --listen with another port\n"
        )
        process.send_signal(number)
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    ("host", "content", "warning"),
    [
        ("127.0.0.1", "", ""),
        ("localhost", "", ""),
        ("[::1]", "", ""),
        ("", "", "everyone on the network can read the metrics"),
        ("192.0.2.1", "", "everyone on the network can read the metrics"),
        ("", "basic_auth_users: {a: $2b$04$" + "a" * 53 + "}", "passwords cross the network unencrypted"),
    ],
)
def test_who_may_read_is_said(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, content: str, warning: str
) -> None:
    from blklab.web import server as http_server

    def end(*_arguments: object, **_: object) -> None:
        raise OSError("enough")

    monkeypatch.setattr(http_server, "WebServer", end)
    config = tmp_path / "web.yml"
    config.write_text(content)
    options = ("--web-config", config) if content else ()
    outcome = run("md", "watch", "--listen", f"{host}:0", *options)
    assert outcome.status == 1
    assert (f"blklab: warning: {host}:0: {warning}" in outcome.err) == bool(warning)
    assert ("warning" in outcome.err) == bool(warning)
