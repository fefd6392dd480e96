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

_unfinished_paths: set[Path] = set()
_handler_done = threading.Event()


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    _handler_done.set()
    raise KeyboardInterrupt


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    _handler_done.set()
    raise SystemExit(128 + number)


@contextmanager
def handle_signals() -> Iterator[None]:
    """Handle the signals while the block runs, except those that are ignored (nohup)."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python handles signals in the main thread only
        return
    handlers = {signal.SIGINT: _interrupt, **dict.fromkeys(ENDING, _end)}
    current_handlers = {number: signal.getsignal(number) for number in handlers}
    old_handlers = {number: old for number, old in current_handlers.items() if old not in {signal.SIG_IGN, None}}
    _handler_done.clear()
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    old_wakeup_fd = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(read_end,), name="signals", daemon=True)
    watcher.start()
    hook = sys.unraisablehook
    try:
        for number in old_handlers:
            signal.signal(number, handlers[number])
        sys.unraisablehook = lambda unraisable: None if _send_again(unraisable.exc_value) else hook(unraisable)
        yield
    finally:
        sys.unraisablehook = hook
        for number, old in old_handlers.items():
            signal.signal(number, old)
        signal.set_wakeup_fd(old_wakeup_fd)
        os.close(write_end)
        watcher.join()


def _send_again(error: BaseException | None) -> bool:
    """Send the signal again whose exception Python ignored; false if it was another exception."""
    if isinstance(error, KeyboardInterrupt):
        number = int(signal.SIGINT)
    elif isinstance(error, SystemExit) and isinstance(error.code, int):
        number = error.code - 128
    else:
        return False
    timer = threading.Timer(AGAIN_S, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()
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
def register_output(output: str) -> Iterator[None]:
    """Register the file that the native core writes, so that the thread can remove it."""
    path = Path(output).resolve() if Path(output).is_file() else Path(output).absolute()
    _unfinished_paths.add(path)
    try:
        yield
    finally:
        _unfinished_paths.discard(path)


def _watch(reading_end: int) -> None:
    """End blklab if a signal stays unhandled."""
    while numbers := os.read(reading_end, 1):
        number = numbers[0]
        if _handler_done.wait(HANDLER_TIMEOUT_S) or signal.getsignal(number) not in {_interrupt, _end}:
            _handler_done.clear()
            continue
        for path in list(_unfinished_paths):
            with suppress(OSError):
                _remove(path.parent)
        word = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        with suppress(OSError):
            os.write(2, f"blklab: {word}\n".encode())
        os._exit(128 + number)
    os.close(reading_end)


def _remove(directory: Path) -> None:
    # As crates/trace/src/export/output.rs names them: `.NAME.PID-N.tmp`.
    for temporary in directory.glob(f".*.{os.getpid()}-*.tmp"):
        with suppress(OSError):
            temporary.unlink()
