"""Probes of machines made of files."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from blklab.md.remote import PROBE
from tests.md.conftest import Arrays


def probe(root: Path, *shell: str, script: Path = PROBE) -> bytes:
    """Returns what the probe prints of the machine below a directory."""
    done = subprocess.run(
        [*(shell or ("sh",)), "-s", "--", str(root)],
        input=script.read_bytes(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == b""
    return done.stdout


@pytest.fixture
def rich(machine: Arrays) -> Arrays:
    """A machine with something of everything that the inventory looks at."""
    machine.mirror("raid1-12-populated", bitmap__chunksize="67108864")
    machine.disk(
        "sdc", "8:32", queue__rotational="1", queue__logical_block_size="512", queue__optimal_io_size="65536",
        device__wwid="naa.5000c500a1b2c3d4",
    )  # fmt: skip
    machine.device("sdc1", "8:33", parent="sdc", start="63", size="1000")
    machine.disk("nvme0n1", "259:1", "raid1-10.vda")
    (machine.roots.dev / "sdc1").write_bytes(bytes(range(256)) * 2000)
    machine.array(
        "md5", "9:5", {"sdc1": {"offset": "0"}, "nvme0n1": {"bad_blocks": "8 8\n64 1"}},
        level="raid5", chunk_size="65536", degraded="1",
        uuid="3156a3e6-4a43-3ea3-f425-167f2e6739fd",
    )  # fmt: skip
    (machine.roots.dev / "md5").write_bytes(bytes(range(256)) * 40)
    machine.device("md5p1", "259:9", parent="md5", start="2048")
    (machine.roots.dev / "md5p1").write_bytes(b"XFSB" + bytes(9000))
    machine.device("dm-0", "253:0", slaves="md5", dm__name="vg-a b", dm__uuid="LVM-1")
    machine.device("loop0", "7:0", loop__backing_file="/srv/images/a.img")
    machine.mount("9:0", Path("/srv/a\\040b"), "ext4", "/dev/md0")
    machine.mount("253:0", Path("/var"), "xfs", "/dev/mapper/vg-a b")
    machine.proc("mdstat", "Personalities : [raid1]\nmd0 : active raid1\nmd7 : active raid1\n")
    quick, slow = ("9 0 72 90 20000 0 160000 40000 0 40000 40090", "9 0 72 90 20000 0 160000 400000 0 1 1")
    machine.proc("diskstats", f"   8       0 sda {quick}\n   8      16 sdb {slow}\n")
    machine.proc("swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/dm-0 partition 1 0 -2")
    machine.write(
        machine.root,
        {
            "etc__mdadm__mdadm.conf": "# none\nCREATE owner=root",
            "etc__mdadm__mdadm.conf.d__a b.conf": "  bbl=no",
            "etc__cron.d__raid-check": "0 1 * * 0 root /usr/sbin/raid-check",
            "lib__systemd__system__mdcheck_continue.timer": "[Timer]",
            "boot__vmlinuz-6.12.48+deb13-amd64": "",
            "lib__modules__6.19.2-arch1-1__vmlinuz": "",
        },
    )
    wants = machine.root / "etc/systemd/system/timers.target.wants"
    wants.mkdir(parents=True)
    (wants / "mdcheck_start.timer").symlink_to("/lib/systemd/system/mdcheck_start.timer")
    return machine


SSH = """#!/bin/sh
# What stands for ssh: options up to --, a host, and the command that runs there.
echo "$*" >> {log}
while [ "$1" != -- ]; do shift; done
host=$2 command=$3
case $host in
    up* | sudo) ;;
    noisy) echo Welcome. ;;
    denied) echo "pam_motd" >&2; echo "$host: Permission denied (publickey)." >&2; exit 255 ;;
    shell-less) echo "sh: not found" >&2; exit 127 ;;
    mute) exit 255 ;;
    chatty) sh -s -- {root}; echo "Logout at end."; printf 'Bye'; exit 7 ;;
    lingering) sh -s -- {root}; exec sleep 1000 ;;
    hung) echo "debug1: waiting" >&2; exec sleep 1000 ;;
    shared) sleep 1000 > {log}.null & ;;
    flood) exec yes ;;
    torn) sh -s -- {root} | head -c 2000; echo "Connection closed by remote host." >&2; exit 255 ;;
    *) echo "ssh: Could not resolve hostname $host" >&2; exit 255 ;;
esac
case $command in sudo*) echo "sudo: a password is required" >&2; exit 1 ;; esac
exec sh -s -- {root}/$host
"""


@pytest.fixture
def fleet(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> Arrays:
    """A machine whose fake ssh leads to it as `up`, and to worse ones by other names."""
    machine.mirror("raid1-12-populated")
    programs = machine.root / "programs"
    programs.mkdir()
    ssh = programs / "ssh"
    ssh.write_text(SSH.format(root=machine.root, log=machine.root / "ssh.log"))
    ssh.chmod(0o755)
    for name in ("up", "noisy", "shared"):
        (machine.root / name).symlink_to(machine.root)
    (machine.root / "up-empty/sys/block").mkdir(parents=True)
    (machine.root / "up-bare").mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return machine


@pytest.fixture
def server(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A real sshd that leads to a machine made of files; gives its name in the user's ssh."""
    sshd = shutil.which("sshd")
    client = shutil.which("ssh")
    if sshd is None or client is None:
        pytest.skip("sshd or ssh is not installed: scripts/setup test")
    directory = machine.root / "openssh"
    directory.mkdir()
    for key in ("host", "user"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / key)]
        subprocess.run(words, check=True, timeout=60)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (directory / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\nPidFile none\n"
        f"AuthorizedKeysFile {directory}/user.pub\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
        # For any request, the script is read, and the machine made of files is probed.
        f"ForceCommand sh -s -- {machine.root}\n"
    )
    (directory / "ssh_config").write_text(
        f"Host made\n HostName 127.0.0.1\n Port {port}\n User {getpass.getuser()}\n"
        f" IdentityFile {directory}/user\n IdentitiesOnly yes\n"
        f" UserKnownHostsFile {directory}/known\n StrictHostKeyChecking accept-new\n"
        " LocalForward 127.0.0.1:1 127.0.0.1:1\n RemoteCommand date\n RequestTTY yes\n"
    )
    # ssh looks for the user's configuration where passwd(5) says, not in $HOME.
    wrapper = directory / "bin" / "ssh"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {client} -F {directory}/ssh_config "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:/usr/sbin:/usr/bin:/bin")
    config = ["-f", str(directory / "sshd_config")]
    tried = subprocess.run([sshd, *config, "-t"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"sshd does not run here: {tried.stderr.strip()}")
    with subprocess.Popen([sshd, *config, "-D"]) as process:
        try:
            until = time.monotonic() + 60
            while process.poll() is None and time.monotonic() < until:
                with socket.socket() as probing:
                    if probing.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield "made"
        finally:
            process.terminate()
