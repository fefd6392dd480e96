"""Hosts: a real sshd in namespaces of network, processes and mounts, behind a network that can be cut."""

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runners.host.conftest import loops

__all__ = ["loops"]

SSHD = """
ListenAddress {address}
Port 22
HostKey {keys}/host
AuthorizedKeysFile {keys}/user.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
SetEnv BLKLAB_STATE={own}/state BLKLAB_LOCKS={own}/locks PATH={own}/bin:{path}
"""

CLIENT = """
IdentityFile {keys}/user
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
"""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

SSH = """#!/bin/sh
exec {ssh} -F {config} "$@"
"""


def ran(*command: str | Path) -> str:
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


def until(condition: Callable[[], object], what: str, seconds: float = 600) -> None:
    """Waits for a condition, which only a defect keeps from becoming true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


class FleetHost:
    """A host: `own` are its files outside, `place` is where every host sees its own directory `data`."""

    def __init__(self, name: str, number: int, subnet: int, directory: Path) -> None:
        self.name, self.directory = name, directory
        self.own = directory / name
        self.place = directory / "place"
        self.net = f"bl{secrets.token_hex(4)}"
        self.near, self.far = f"{self.net}a", f"{self.net}b"
        self.address = f"198.18.{subnet}.{4 * number + 2}"
        self.gateway = f"198.18.{subnet}.{4 * number + 1}"
        for part in ("data", "state", "locks", "bin", "tmp", "shm"):
            (self.own / part).mkdir(parents=True)
        (self.own / "state").chmod(0o700)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        ran("ip", "netns", "add", self.net)
        ran("ip", "link", "add", self.near, "type", "veth", "peer", "name", self.far, "netns", self.net)
        ran("ip", "addr", "add", f"{self.gateway}/30", "dev", self.near)
        ran("ip", "link", "set", self.near, "up")
        ran("ip", "-n", self.net, "addr", "add", f"{self.address}/30", "dev", self.far)
        for device in ("lo", self.far):
            ran("ip", "-n", self.net, "link", "set", device, "up")
        config = self.own / "sshd_config"
        config.write_text(SSHD.format(address=self.address, keys=self.directory, own=self.own, path=PATH))
        mounts = {"data": self.place, "tmp": "/tmp", "shm": "/dev/shm"}
        steps = [f"mount --bind {self.own}/{part} {place}" for part, place in mounts.items()]
        script = " && ".join([*steps, f"exec {shutil.which('sshd')} -D -e -f {config}"])
        command = ["nsenter", f"--net=/run/netns/{self.net}", "--", "unshare", "-mpf", "--kill-child", "--mount-proc"]
        with (self.own / "sshd.log").open("wb") as log:
            self.process = subprocess.Popen([*command, "sh", "-c", script], stdout=log, stderr=log)
        until(lambda: b"listening" in (self.own / "sshd.log").read_bytes(), f"sshd of {self.name}")

    def throttle(self, device: str, reads: int) -> None:
        """Limits the reads a second of a device, `major:minor`, by all its processes (cgroup v1). Skips without it."""
        group = Path("/sys/fs/cgroup/blkio") / self.net
        try:
            group.mkdir()
            (group / "blkio.throttle.read_iops_device").write_text(f"{device} {reads}\n")
            for process in self.processes(""):
                (group / "cgroup.procs").write_text(str(process))
        except OSError as error:
            pytest.skip(f"no cgroup can limit I/O here: {error}")

    def cut(self) -> None:
        """Cuts the network: nothing is received any more, and no process learns about it."""
        ran("ip", "link", "set", self.near, "down")

    def kill(self) -> None:
        """Ends every process of the host at once."""
        assert self.process is not None
        self.process.kill()  # unshare --kill-child
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None:
            self.kill()
        if (group := Path("/sys/fs/cgroup/blkio") / self.net).is_dir():
            until(lambda: not (group / "cgroup.procs").read_text(), "the end of all processes")
            group.rmdir()
        subprocess.run(["ip", "link", "del", self.near], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "del", self.net], check=False, capture_output=True)

    def processes(self, word: str) -> list[int]:
        """Returns the processes of the host whose command line has a word."""
        assert self.process is not None
        own = Path(f"/proc/{self.process.pid}/ns/pid_for_children").readlink()
        result = []
        for status in Path("/proc").glob("[0-9]*"):
            try:
                if (status / "ns/pid").readlink() == own and word in (status / "cmdline").read_text():
                    result.append(int(status.name))
            except OSError:
                continue
        return result

    def is_clean(self) -> bool:
        """Tells whether nothing of blklab is left: no process, no journal, no scratch directory."""
        places = ("state/journal-*", "data/.blklab-*", "tmp/.blklab-*", "shm/*")
        left = [path for place in places for path in self.own.glob(place)]
        return not left and not any(map(self.processes, ("fio", "blktrace", "readline")))


@pytest.fixture
def fleet(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[FleetHost]]:
    """Hosts, by default `a` and `b`, which ssh reaches by these names."""
    programs = ("ip", "nsenter", "unshare", "ssh", "ssh-keygen", "sshd", "fio")
    missing = [name for name in programs if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and {', '.join(programs)}: scripts/setup test")
    if subprocess.run(["unshare", "-nmpf", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no namespaces can be made here")
    # Paths of sockets have at most 107 bytes; the user's TMPDIR may be longer.
    long = tmp_path / ("long" * 25)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    monkeypatch.setattr(tempfile, "tempdir", None)
    # Not in /tmp: each host has its own.
    directory = Path(tempfile.mkdtemp(prefix="blklab-fleet-", dir="/var/tmp"))
    (directory / "place").mkdir()
    Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("host", "user"):
        ran("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name)
    used = ran("ip", "-o", "addr")  # By other tests, also by those that were killed
    subnet = secrets.choice([number for number in range(256) if f" 198.18.{number}." not in used])
    names = getattr(request, "param", ("a", "b"))
    hosts = [FleetHost(name, number, subnet, directory) for number, name in enumerate(names)]
    entries = [f"Host {host.name}\nHostName {host.address}\n" for host in hosts]
    config = directory / "ssh_config"
    config.write_text("\n".join(entries) + "Host *" + CLIENT.format(keys=directory))
    (directory / "bin").mkdir()
    wrapper = directory / "bin/ssh"
    wrapper.write_text(SSH.format(ssh=shutil.which("ssh"), config=config))
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}/bin:{os.environ['PATH']}")
    try:
        for host in hosts:
            host.start()
        yield hosts
    finally:
        for host in hosts:
            host.stop()
        shutil.rmtree(directory)
