"""`blklab md audit` of other machines, and the script that it runs there."""

import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from blklab.md.remote import PROBE
from tests.conftest import Run
from tests.md.conftest import Arrays
from tests.md.remote.conftest import fleet as fleet_of_one
from tests.md.remote.conftest import probe

fleet = fleet_of_one
"""The fixture, used by name."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arrays:
    monkeypatch.setattr("blklab.md.probing.PATH", str(tmp_path / "bin"))
    return Arrays(tmp_path)


@pytest.mark.usefixtures("fleet")
def test_several_hosts(run: Run) -> None:
    done = run("md", "audit", "--host", "up", "--host", "denied", "up-empty")
    assert done.status == 1
    assert done.err == ""
    heading, denied, quiet = (
        done.out.index(line)
        for line in (
            "up · run the commands on this host ──",
            "denied: denied: Permission denied (publickey).\n",
            "up-empty: 0 arrays, no finding of severity warning or worse\n",
        )
    )
    assert heading < done.out.index("DO NOT run `repair`") < denied < quiet
    table = [line.split() for line in done.out[done.out.index("\nHosts") :].splitlines()[2:]]
    assert table == [
        ["host", "arrays", "critical", "warning", "note", "read"],
        ["up", "1", "2", "1", "2", "all"],
        ["denied", *["–"] * 4, "nothing"],
        ["up-empty", "0", "0", "0", "0", "all"],
    ]
    assert "\x1b" not in done.out


@pytest.mark.usefixtures("fleet")
def test_arrays_of_other_machines_can_be_chosen(run: Run) -> None:
    outcome = run("md", "audit", "--json", "--array", "/dev/md0", "--host", "up", "denied", "up-empty")
    up, denied, empty = json.loads(outcome.out)["hosts"]
    assert [array["name"] for array in up["arrays"]] == ["md0"]
    assert (up["counts"]["critical"], empty["arrays"], denied["arrays"]) == (2, [], [])
    outcome = run("md", "audit", "--array", "md1", "--host", "up", "up-empty")
    assert (outcome.status, outcome.err) == (
        2,
        "blklab: error: --array md1: these hosts have no array md1: expected md0\n",
    )
    assert run("md", "audit", "--array", "md1", "--host", "denied").status == 3


@pytest.mark.usefixtures("fleet")
def test_the_timeout_is_a_duration(run: Run) -> None:
    assert run("md", "audit", "--host", "up", "--timeout", "60s").out == run("md", "audit", "--host", "up").out
    outcome = run("md", "audit", "--host", "up", "--timeout", "500ms")
    assert (outcome.status, outcome.err) == (2, "blklab: error: --timeout 500 ms: expected at least 1s\n")


@pytest.mark.usefixtures("fleet")
def test_a_single_host_is_told_wholly(run: Run) -> None:
    done = run("md", "audit", "--host", "up-empty")
    assert done.status == 0
    assert "No md array found." in done.out
    assert "Hosts" not in done.out


@pytest.mark.parametrize(
    ("hosts", "status"), [(["up-empty"], 0), (["up-empty", "denied"], 3), (["denied", "up"], 1), (["mute"], 3)]
)
@pytest.mark.usefixtures("fleet")
def test_how_it_ends(run: Run, hosts: list[str], status: int) -> None:
    done = run("md", "audit", "--json", "--host", *hosts)
    assert done.status == status
    document = json.loads(done.out)
    assert document["format_version"] == 1
    assert [host["host"] for host in document["hosts"]] == hosts
    for host in document["hosts"]:
        assert host.keys() >= {"host", "failure", "arrays", "findings", "unseen"}
        assert (host["failure"] is None) == ("software" in host)


def test_what_was_printed_elsewhere(fleet: Arrays, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = Path("web1.probe")
    kept.write_bytes(probe(fleet.root))
    done = run("md", "audit", "--probed", kept, "web2.probe")
    assert done.status == 1
    assert "web1.probe" in done.out
    assert "web2.probe: No such file or directory" in done.out
    stdin = SimpleNamespace(buffer=io.BytesIO(kept.read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    done = run("md", "audit", "--probed", "-", "--json")
    (host,) = json.loads(done.out)["hosts"]
    assert (host["host"], host["arrays"][0]["path"]) == ("-", "/dev/md0")


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["--host", "up", "--probed", "x"], "--host and --probed: expected only one of them"),
        (["--image", "x", "--host", "up"], "--image and --host: expected only one of them"),
        (["--sudo"], "--sudo: expected --host"),
        (["--host=-oProxyCommand=id"], "invalid host"),
    ],
)
def test_what_makes_no_sense(fleet: Arrays, run: Run, words: list[str], output: str) -> None:
    done = run("md", "audit", *words)
    assert (done.status, done.out) == (2, "")
    assert output in done.err
    assert not (fleet.root / "ssh.log").exists()


def test_the_script(run: Run, fleet: Arrays) -> None:
    done = run("md", "probe")
    assert done.status == 0
    assert done.out == PROBE.read_text()
    facts = subprocess.run(
        ["sh", "-s", "--", str(fleet.root)], input=done.out.encode(), capture_output=True, check=True, timeout=60
    )
    assert facts.stdout == probe(fleet.root)
