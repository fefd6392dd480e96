"""Standard streams as the shell left them: closed, full, or with nobody at the other end."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from blklab.errors import BlklabError
from blklab.output import STDOUT


def ready() -> None:
    """Sees to streams that are closed (`>&-`), before a file is opened under their numbers.

    A closed stdin and stdout fail when used, with EBADF; what goes to a closed stderr is lost.
    """
    for number, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, mode)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)))
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.BufferedWriter(io.FileIO(2, "w", closefd=False)))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a locale without µ is no reason to fail


def check_stdout() -> None:
    """Raises OSError if stdout is closed, before the native core writes there.

    Rust takes a write to a closed stdout for one that succeeded (std, stdio.rs, handle_ebadf).
    """
    sys.stdout.flush()
    try:
        os.write(1, b"")
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error


@contextmanager
def native(output: str) -> Iterator[None]:
    """Runs native code that writes to `output`, and tells a reader that is gone from a failure."""
    if output not in STDOUT:
        yield
        return
    check_stdout()
    try:
        yield
    except BlklabError as error:
        if _reader_is_gone():
            raise BrokenPipeError from error
        raise


def _reader_is_gone() -> bool:
    """Tells whether stdout is a pipe that nobody reads."""
    import select

    poll = select.poll()
    poll.register(1, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def flush() -> None:
    """Writes out stdout. Raises OSError with its name, or BrokenPipeError."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error


def is_of_stdout(error: OSError) -> bool:
    """Tells whether an error without a name comes from printing: click and rich do all of it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = trace.tb_frame.f_globals.get("__name__", "") if trace is not None else ""
    return not error.filename and module.split(".")[0] in {"click", "rich"}


def give_up() -> None:
    """Sends what is left in the streams nowhere, if it cannot be written where it belongs.

    Python flushes them once more when it ends, and would complain.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)
        except ValueError:  # closed: nothing is left
            continue
