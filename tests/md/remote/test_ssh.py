"""Hosts over ssh: one that fails stops no other, and says why in a line."""

import json
import threading
from pathlib import Path

import pytest

from blklab.errors import EnvironmentLacks, UsageError
from blklab.md import remote
from blklab.md.remote import RemoteHost
from tests.conftest import Run
from tests.md.conftest import Arrays


def asked(*names: str, sudo: bool = False, timeout: float = 60) -> list[RemoteHost]:
    return list(remote.read_hosts([(name, name) for name in names], sudo=sudo, timeout=timeout))


@pytest.mark.parametrize("name", ["up", "noisy", "shared", "chatty", "lingering"])
@pytest.mark.usefixtures("fleet")
def test_a_host_that_can_be_seen(name: str) -> None:
    (host,) = asked(name, timeout=20)
    assert (host.name, host.failure) == (name, "")
    assert {item.code for item in host.findings} >= {"repair-corrupts", "bbl-entries"}
    remedy = next(item for item in host.findings if item.remedy).remedy
    assert "blklab md fix entries /dev/md0" in remedy


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("denied", "denied: Permission denied (publickey)."),
        ("shell-less", "sh: not found"),
        ("mute", "the probe did not run: ssh exited with status 255"),
        ("torn", "the output is incomplete: Connection closed by remote host."),
        ("unknown", "ssh: Could not resolve hostname unknown"),
        ("up-bare", "cannot read any array: /sys/block does not exist: cannot read any array"),
    ],
)
@pytest.mark.usefixtures("fleet")
def test_hosts_that_cannot(name: str, failure: str) -> None:
    before, host, after = asked("up", name, "up")
    assert host == RemoteHost(name, failure=failure)
    assert before == after
    assert before.findings


@pytest.mark.usefixtures("fleet")
def test_a_host_that_hangs() -> None:
    assert [item.failure.partition(":")[0] for item in asked("hung", timeout=1)] == ["no result within 1 s"]


@pytest.mark.usefixtures("fleet")
def test_a_host_that_never_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_OUTPUT_BYTES", 1 << 20)
    (host,) = asked("flood")
    assert host.failure == "the output has more than 1 MiB"


def test_more_hosts_than_are_asked_at_once(fleet: Arrays) -> None:
    names = [f"up{at}" for at in range(2 * remote.MAX_PARALLEL)]
    for name in names:
        (fleet.root / name).symlink_to(fleet.root)
    assert [host.name for host in asked(*names)] == names


def test_those_that_are_left_early_do_not_live_on(fleet: Arrays) -> None:
    some = remote.read_hosts([("up-empty", "up-empty"), *[("hung", "hung")] * 9], sudo=False, timeout=1000)
    assert not next(some).failure
    some.close()  # type: ignore[attr-defined]
    for thread in threading.enumerate():
        if thread.name.startswith("ThreadPoolExecutor"):
            thread.join(60)
            assert not thread.is_alive()
    log = (fleet.root / "ssh.log").read_text().splitlines()
    assert len(log) <= 1 + remote.MAX_PARALLEL


def test_what_ssh_is_told(fleet: Arrays) -> None:
    asked("up", sudo=True)
    (line,) = (fleet.root / "ssh.log").read_text().splitlines()
    assert line.endswith(" -- up sudo -n sh -s")
    assert line.startswith("-T -o BatchMode=yes -o ForwardAgent=no ")


@pytest.mark.usefixtures("fleet")
def test_sudo_that_wants_a_password() -> None:
    assert [host.failure for host in asked("up", sudo=True)] == ["sudo: a password is required"]


@pytest.mark.parametrize("name", ["-oProxyCommand=touch ran", "-", ""])
def test_what_is_no_host(fleet: Arrays, name: str) -> None:
    with pytest.raises(UsageError, match="invalid host"):
        asked("up", name)
    assert not (fleet.root / "ssh.log").exists()


def test_without_ssh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentLacks, match="apt-get install openssh-client"):
        asked("up")


def test_a_real_one(machine: Arrays, server: str) -> None:
    machine.mirror("raid1-12-populated")
    seen, gone = asked(server, "nobody.invalid")
    assert seen.failure == ""
    assert "bbl-entries" in {item.code for item in seen.findings}
    assert "nobody.invalid" in gone.failure


@pytest.mark.usefixtures("fleet")
def test_hosts_of_an_inventory(run: Run, tmp_path: Path) -> None:
    inventory = {"_meta": {"hostvars": {"first": {"ansible_host": "up"}}}, "web": {"hosts": ["first", "up-a", "up-b"]}}
    (tmp_path / "hosts.json").write_text(json.dumps(inventory))
    printed = run("md", "audit", "--host", f"@{tmp_path}/hosts.json:web", "--json")
    assert [host["host"] for host in json.loads(printed.out)["hosts"]] == ["first", "up-a", "up-b"]
