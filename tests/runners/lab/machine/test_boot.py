"""Guests that do not come to be: a program in QEMU's place behaves as the test wants."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from blklab.runners.lab import runner
from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine import qemu
from tests.conftest import Run

VERSION = 'if "--version" in sys.argv:\n    print("QEMU emulator version 7.2.1"); sys.exit()\n'

AGENT = """
import json, os, socket, struct, time
named = [word for word in sys.argv if word.startswith("socket,id=agent,fd=")][0]
agent = socket.socket(fileno=int(named.rpartition("=")[2]))
def send(message):
    content = json.dumps(message).encode()
    agent.sendall(struct.pack("<I", len(content)) + content)
def until_closed():
    while agent.recv(4096):
        pass
"""

EXPERIMENT = """
[devices.fast]
kind = "throttled"
iops_total = 1000
size = "64MiB"
[stacks.bare]
device = "fast"
[workloads.reads]
rw = "randread"
runtime = "1s"
size = "100%"
[matrix]
iodepth = [1, 2]
"""

Pretend = Callable[[str], None]


@pytest.fixture
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Returns a function that puts a program in QEMU's place, which needs no image."""
    directory = tmp_path / "programs"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = GuestImage(tmp_path / "vmlinuz", tmp_path / "initrd", "6.1.0-1", {}, "0")
    monkeypatch.setattr(runner, "image", lambda _kernel, **_: made)
    monkeypatch.setattr("blklab.runners.lab.machine.boot.LAST", 0.2)

    def pretend(text: str) -> None:
        path = directory / "qemu-system-x86_64"
        path.write_text(f"#!{sys.executable} -Su\nimport sys\n{text}\n")
        path.chmod(0o755)

    return pretend


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "exp.toml"
    path.write_text(EXPERIMENT)
    return path


def cleaned(tmp_path: Path) -> bool:
    """Tells whether nothing is left where the disks were."""
    directory = tmp_path / "cache" / "blklab" / "lab"
    return not directory.is_dir() or not list(directory.iterdir())


@pytest.mark.parametrize(
    ("text", "status", "output"),
    [
        ('print("hello")', 3, "qemu-system-x86_64 does not print its version; install it: apt-get"),
        ("sys.exit(1)", 3, "does not print its version"),
        ('print("QEMU emulator version 4.2.1 (Debian)")', 3, "is version 4.2.1, too old; QEMU 5.2 or newer is needed"),
        (
            VERSION + 'print("warning: x\\nqemu: no such machine", file=sys.stderr); sys.exit(1)',
            1,
            "the guest is lost: qemu: no such machine\n",
        ),
        (VERSION + "sys.exit(0)", 1, "the guest is lost: the guest closed its connection: it powered off or died\n"),
        (
            VERSION + "import os; os.kill(os.getpid(), 9)",
            1,
            "the guest is lost: QEMU was killed by SIGKILL, as the kernel does when it runs out of memory\n",
        ),
        (
            VERSION + 'print("[    1.500000] List of all partitions:\\r\\n[    1.600000] Kernel panic - not'
            ' syncing: VFS\\r\\n[    1.700000] RIP: 0010:x+0x1/0x2")',
            1,
            "the guest is lost: Kernel panic - not syncing: VFS (last lines of its console: "
            "List of all partitions: | Kernel panic - not syncing: VFS)\n",
        ),
        (
            VERSION + 'print("[    1.500000] Kernel panic: \\x1b[2J")',
            1,
            "Kernel panic: \\x1b[2J (last lines of its console: Kernel panic: \\x1b[2J)\n",
        ),
        (
            VERSION + AGENT + 'send({"hello": {"protocol": 2}}); until_closed()',
            1,
            "the guest's agent speaks protocol 2, expected 1: rebuild the image with `blklab lab build`",
        ),
        (
            VERSION + AGENT + 'agent.sendall(b"\\xff" * 8); until_closed()',
            1,
            "the guest's agent sent a frame of 4294967295 bytes",
        ),
    ],
)
def test_it_does_not_boot(
    run: Run, pretend: Pretend, experiment: Path, tmp_path: Path, text: str, status: int, output: str
) -> None:
    pretend(text)
    outcome = run("run", experiment, "--on", "lab")
    assert (outcome.status, outcome.out) == (status, "")
    assert output in outcome.err
    assert outcome.err.count("\n") == 1
    assert cleaned(tmp_path)
    listed = run("runs", "show", "1").out
    assert "failed" not in listed, "no cell is to blame"


def test_it_says_nothing(run: Run, pretend: Pretend, experiment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(VERSION + AGENT + 'print("Loading...", flush=True); until_closed()')
    monkeypatch.setitem(qemu.PATIENCE, "tcg", 0.5)
    outcome = run("run", experiment, "--on", "lab")
    assert outcome.status == 1
    assert outcome.err == (
        "blklab: error: the guest did not answer within 0.5 s (tcg) (last lines of its console: Loading...)\n"
    )


def test_without_qemu(run: Run, experiment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    outcome = run("run", experiment, "--on", "lab")
    assert outcome.status == 3
    assert outcome.err == (
        "blklab: error: qemu-system-x86_64 is not installed; install it: apt-get install qemu-system-x86\n"
    )


def test_kvm_that_hangs_is_given_up(
    run: Run, pretend: Pretend, experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest is emulated then, at once the next time."""
    asked = tmp_path / "asked"
    pretend(
        VERSION + f'open({str(asked)!r}, "a").write(sys.argv[sys.argv.index("-accel") + 1] + "\\n")'
        "\n" + AGENT + 'until_closed() if "kvm" in sys.argv else sys.exit(1)'
    )
    monkeypatch.setitem(qemu.PATIENCE, "kvm", 0.5)
    monkeypatch.setattr(qemu, "_without_kvm", lambda _roots: None)
    monkeypatch.setenv("BLKLAB_ACCEL", "auto")
    for _ in range(2):
        assert run("run", experiment, "--on", "lab").status == 1
    assert asked.read_text().split() == ["kvm", *["tcg,thread=multi"] * 2]
