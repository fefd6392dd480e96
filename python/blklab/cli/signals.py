"""What SIGINT, SIGTERM and SIGHUP do to a command: it cleans up after itself and ends.

Their handlers raise, so that `finally` and Rust's `Drop` remove what is unfinished. Python calls
them between two of its instructions, and the native core asks for them while it works, but not
while it waits: for more of a pipe, say. Then a thread removes what is unfinished and ends blklab.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

PATIENCE: Final = 2.0
"""Seconds for the native core to ask whether there was a signal."""

ENDING: Final = (signal.SIGTERM, signal.SIGHUP)

_unfinished: set[Path] = set()
_noticed = threading.Event()


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    _noticed.set()
    raise KeyboardInterrupt


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    _noticed.set()
    raise SystemExit(128 + number)


@contextmanager
def handled() -> Iterator[None]:
    """Handles the signals while the block runs, but for those that are ignored (nohup)."""
    if threading.current_thread() is not threading.main_thread():
        yield  # whoever runs it answers for signals
        return
    wanted = {signal.SIGINT: _interrupt, **dict.fromkeys(ENDING, _end)}
    before = {number: signal.getsignal(number) for number in wanted}
    kept = {number: old for number, old in before.items() if old not in {signal.SIG_IGN, None}}
    _noticed.clear()
    reading_end, tell = os.pipe()
    os.set_blocking(tell, False)
    earlier = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reading_end,), name="signals", daemon=True)
    watcher.start()
    try:
        for number in kept:
            signal.signal(number, wanted[number])
        yield
    finally:
        for number, old in kept.items():
            signal.signal(number, old)
        signal.set_wakeup_fd(earlier)
        os.close(tell)
        watcher.join()


@contextmanager
def at_once() -> Iterator[None]:
    """Lets the signals end blklab on the spot while the block runs: it must leave nothing behind.

    For native code that keeps Python from running, so that no handler would be called.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = (_interrupt, _end)
    numbers = (signal.SIGINT, *ENDING)
    before = {number: old for number in numbers if (old := signal.getsignal(number)) in ours}
    for number in before:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def unfinished(output: str) -> Iterator[None]:
    """Names what the native core writes while the block runs, to be removed should it be stuck."""
    path = Path(output).resolve() if Path(output).is_file() else Path(output).absolute()
    _unfinished.add(path)
    try:
        yield
    finally:
        _unfinished.discard(path)


def _watch(reading_end: int) -> None:
    """Ends blklab if a signal is not noticed."""
    while numbers := os.read(reading_end, 1):
        number = numbers[0]
        if _noticed.wait(PATIENCE) or signal.getsignal(number) not in {_interrupt, _end}:
            _noticed.clear()
            continue
        for path in list(_unfinished):
            with suppress(OSError):
                _remove(path.parent)
        os._exit(128 + number)
    os.close(reading_end)


def _remove(directory: Path) -> None:
    # As crates/trace/src/export/output.rs names them: `.NAME.PID-N.tmp`.
    for temporary in directory.glob(f".*.{os.getpid()}-*.tmp"):
        with suppress(OSError):
            temporary.unlink()
