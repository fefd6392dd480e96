"""What every test relies on."""

import signal
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import settings

from blklab.cli import main

# Run in the background of a shell, interrupts are ignored, and every child would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# No test may depend on how fast or busy the machine is.
settings.register_profile("blklab", deadline=None)
settings.load_profile("blklab")


@pytest.fixture(autouse=True)
def _own_store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps results, and journals, of tests out of the user's; output does not depend on how long they take."""
    directory = tmp_path_factory.mktemp("kept")
    monkeypatch.setenv("BLKLAB_STORE", str(directory / "store.db"))
    monkeypatch.setenv("BLKLAB_STATE", str(directory / "state"))
    monkeypatch.setenv("BLKLAB_LOCKS", str(directory))
    # A slow machine would print lines about progress.
    monkeypatch.setattr("blklab.cli.common.LOG_INTERVAL", 3600.0)


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
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Returns a function that runs `blklab ARGUMENTS…` in this process.

    Output is taken at the file descriptors: the native core writes there.
    """
    for variable in ("BLKLAB_DEBUG", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "_BLKLAB_COMPLETE"):
        monkeypatch.delenv(variable, raising=False)

    def run(*arguments: object) -> Outcome:
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        status = exit_.value.code
        assert isinstance(status, int)
        return Outcome(status, captured.out, captured.err)

    return run
