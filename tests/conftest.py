"""What every test relies on."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

from blklab.cli import main

# Run in the background of a shell, interrupts are ignored, and every child would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Servers that scripts/setup has unpacked, because an installed one would run on each boot.
UNPACKED = Path(sys.prefix, "debian/usr")
for name, directories in {"PATH": ("bin", "sbin"), "LD_LIBRARY_PATH": (f"lib/{os.uname().machine}-linux-gnu",)}.items():
    if UNPACKED.exists():
        os.environ[name] = os.pathsep.join(
            [*filter(None, [os.environ.get(name)]), *(f"{UNPACKED}/{each}" for each in directories)]
        )

# Output must not depend on the terminal and the settings of the user.
for variable in ("BLKLAB_DEBUG", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "_BLKLAB_COMPLETE"):
    os.environ.pop(variable, None)
os.environ["TERM"] = "xterm"

# No test may depend on how fast or busy the machine is.
settings.register_profile("blklab", deadline=None)
settings.load_profile("blklab")


@pytest.fixture(scope="module")
def short_directory() -> Iterator[Path]:
    """Returns a directory for sockets, whose paths have at most 107 bytes; pytest's directories may be longer."""
    with tempfile.TemporaryDirectory(prefix="blklab-", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture(autouse=True)
def _own_store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps results, and journals, of tests out of the user's; output does not depend on how long they take."""
    directory = tmp_path_factory.mktemp("kept")
    monkeypatch.setenv("BLKLAB_STORE", str(directory / "store.db"))
    monkeypatch.setenv("BLKLAB_STATE", str(directory / "state"))
    monkeypatch.setenv("BLKLAB_LOCKS", str(directory))
    # A slow machine would print lines about progress.
    monkeypatch.setattr("blklab.cli.common.LOG_INTERVAL", 3600.0)


@pytest.fixture(autouse=True)
def _no_child_is_left() -> Iterator[None]:
    """A child that a test leaves makes later tests of the same process fail, if they count theirs."""
    before = children()
    yield
    deadline = time.monotonic() + 30  # One that is about to end is not left
    while (left := children() - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, "this test leaves children: " + ", ".join(command_line(child) for child in left)


def children() -> set[str]:
    """Returns the children of this process, ended ones included; none on kernels that do not list them."""
    result: set[str] = set()
    for path in Path("/proc/self/task").glob("*/children"):  # kernel: CONFIG_PROC_CHILDREN
        with suppress(OSError):  # The thread has ended
            result.update(path.read_text().split())
    return result


def command_line(process: str) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ") or process
    except OSError:
        return process


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Returns a function that starts `blklab ARGUMENTS…` in another process, which does not survive the test."""
    with ExitStack() as stack:

        def start(*arguments: object) -> "subprocess.Popen[str]":
            command = [sys.executable, "-m", "blklab.cli", *map(str, arguments)]
            pipe = subprocess.PIPE
            process = stack.enter_context(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True))
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def run_apart(start: Start) -> "Run":
    """As `run`, in another process: nothing of a library is left in this one."""

    def run_apart(*arguments: object) -> Outcome:
        process = start(*arguments)
        out, err = process.communicate()
        return Outcome(process.returncode, out, err)

    return run_apart


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("guest"):
            item.add_marker("proof")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("markexpr") == "not proof":
        terminalreporter.write_line("Tests that take minutes (marked proof) were not run: make proof")


@dataclass(frozen=True)
class Outcome:
    """What a run of the command line left behind."""

    status: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Returns a function that runs `blklab ARGUMENTS…` in this process.

    Output is taken at the file descriptors: the native core writes there.
    """

    def run(*arguments: object) -> Outcome:
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        status = exit_.value.code
        assert isinstance(status, int)
        return Outcome(status, captured.out, captured.err)

    return run
