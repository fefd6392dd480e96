"""SIGINT, SIGTERM and SIGHUP: a command removes unfinished files and ends.

The handlers raise, so that `finally` and Rust's `Drop` remove unfinished files. Python calls
handlers between two instructions. The native core checks for signals while it works, but not
while it waits, such as for a pipe. In that case a thread removes the files and ends blklab.

Python ignores what is raised in a finalizer (`__del__`). Such a signal is sent again a moment later.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

HANDLER_TIMEOUT_S = 2.0  # How long a signal may stay unhandled before the thread ends blklab
AGAIN_S = 0.05  # After so long, a finalizer in which a signal came has ended
ENDING = (signal.SIGTERM, signal.SIGHUP)

_unfinished: set[Path] = set()
_handled = threading.Event()


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    _handled.set()
    raise KeyboardInterrupt


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    _handled.set()
    raise SystemExit(128 + number)


@contextmanager
def handled() -> Iterator[None]:
    """Handle the signals while the block runs, except those that are ignored (nohup)."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python handles signals in the main thread only
        return
    wanted = {signal.SIGINT: _interrupt, **dict.fromkeys(ENDING, _end)}
    before = {number: signal.getsignal(number) for number in wanted}
    kept = {number: old for number, old in before.items() if old not in {signal.SIG_IGN, None}}
    _handled.clear()
    reading_end, tell = os.pipe()
    os.set_blocking(tell, False)
    earlier = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reading_end,), name="signals", daemon=True)
    watcher.start()
    hook = sys.unraisablehook
    try:
        for number in kept:
            signal.signal(number, wanted[number])
        sys.unraisablehook = lambda ignored: None if _sent_again(ignored.exc_value) else hook(ignored)
        yield
    finally:
        sys.unraisablehook = hook
        for number, old in kept.items():
            signal.signal(number, old)
        signal.set_wakeup_fd(earlier)
        os.close(tell)
        watcher.join()


def _sent_again(ignored: BaseException | None) -> bool:
    """Send the signal again whose exception Python ignored; false if it was another exception."""
    if isinstance(ignored, KeyboardInterrupt):
        number = int(signal.SIGINT)
    elif isinstance(ignored, SystemExit) and isinstance(ignored.code, int):
        number = ignored.code - 128
    else:
        return False
    again = threading.Timer(AGAIN_S, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()
    return True


@contextmanager
def at_once() -> Iterator[None]:
    """Let signals end blklab immediately while the block runs. The block must need no cleanup.

    This is for native code that keeps Python from calling handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = (_interrupt, _end)
    before = {}
    for number in (signal.SIGINT, *ENDING):
        handler = signal.getsignal(number)
        if handler in ours:
            before[number] = handler
    for number in before:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def unfinished(output: str) -> Iterator[None]:
    """Register the file that the native core writes, so that the thread can remove it."""
    path = Path(output).resolve() if Path(output).is_file() else Path(output).absolute()
    _unfinished.add(path)
    try:
        yield
    finally:
        _unfinished.discard(path)


def _watch(reading_end: int) -> None:
    """End blklab if a signal stays unhandled."""
    while numbers := os.read(reading_end, 1):
        number = numbers[0]
        if _handled.wait(HANDLER_TIMEOUT_S) or signal.getsignal(number) not in {_interrupt, _end}:
            _handled.clear()
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
