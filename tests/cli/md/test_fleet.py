"""`blklab md audit` of other machines, and the script that it runs there."""

import io
import json
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from blklab.md.remote import PROBE
from tests.conftest import Run
from tests.md.conftest import Arrays
from tests.md.crafted import changed
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


def make_host(root: Path, degraded: set[int]) -> bytes:
    """Returns the probe of a host with 20 arrays of three disks, of which md11 has a bad block."""
    host = Arrays(root)
    for number in range(20):
        uuid = bytes([number]) * 16
        members = {}
        for slot in range(3):
            disk = 3 * number + slot
            name = f"sd{chr(97 + disk // 26)}{chr(97 + disk % 26)}"
            recorded = f"raid1-12-bitmap.vd{'ab'[slot % 2]}"
            host.disk(name, f"{65 + disk // 16}:{disk % 16 * 16}", recorded, queue__rotational="1")
            path = (root / f"{recorded}.img").rename(root / f"{name}.img")
            (host.roots.dev / name).unlink()
            (host.roots.dev / name).symlink_to(path)
            fields = {16: uuid, 92: struct.pack("<I", 3), 160: struct.pack("<I", slot), 168: bytes([disk]) * 16}
            for offset, content in {**fields, 220: struct.pack("<I", 128), 256: struct.pack("<3H", 0, 1, 2)}.items():
                changed(path, offset, content)
            members[name] = {"slot": str(slot)}
        if number == 11:
            members[name]["bad_blocks"] = "8 8"
        if number in degraded:
            del members[name]
        text = uuid.hex()
        host.array(
            f"md{number}", f"9:{number}", members,
            uuid="-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])),
            raid_disks="3", degraded=str(int(number in degraded)),
        )  # fmt: skip
    return probe(root)


def test_two_hosts_with_60_disks_and_20_arrays_fit_on_a_screen(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, degraded in (("alpha", {3, 7}), ("beta", {5})):
        (tmp_path / name).mkdir()
        Path(f"{name}.probe").write_bytes(make_host(tmp_path / name, degraded))
    done = run("md", "audit", "--probed", "alpha.probe", "beta.probe")
    lines = done.out.splitlines()
    assert done.status == 1
    assert len(lines) <= 24
    beta = lines.index("beta.probe")
    assert "critical  md3, md7: 1 of 3 members is missing, and there is no spare [degraded]" in lines[:beta]
    assert "critical  md5: 1 of 3 members is missing, and there is no spare [degraded]" in lines[beta:]
    assert done.out.count("DO NOT run `repair` on this array") == 2
    full = run("md", "audit", "--full", "--probed", "alpha.probe", "beta.probe").out
    assert "blklab md fix add /dev/md3 DISK" in full
    assert "17 other arrays: clean; all members in sync" in full
    alone = run("md", "audit", "--probed", "alpha.probe").out
    assert "blklab md fix add /dev/md3 DISK" in alone
    assert "For all arrays of this host: blklab md fix bbl --all" in alone


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
