"""Standard streams that are closed, full or without a reader."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from blklab.errors import BlklabError
from blklab.output import STDOUT, add_file_name


def replace_closed() -> None:
    """Replace closed streams (`>&-`), before another file gets their descriptor numbers.

    A closed stdin or stdout fails with EBADF when it is used. Output to a closed stderr is lost.
    """
    for number, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            descriptor = os.open(os.devnull, mode)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)))
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.BufferedWriter(io.FileIO(2, "w", closefd=False)))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a locale without µ is no reason to fail


def check_stdout() -> None:
    """Raise OSError if stdout is closed, before the native core writes there.

    Rust ignores a write to a closed stdout (std, stdio.rs, handle_ebadf).
    """
    sys.stdout.flush()
    with add_file_name("standard output"):
        os.write(1, b"")


@contextmanager
def native(output: str) -> Iterator[None]:
    """Run native code that writes to `output`. Raises BrokenPipeError if its reader has ended."""
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
    import select

    poll = select.poll()
    poll.register(1, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def flush() -> None:
    """Flush stdout. Raises OSError with the name of the stream, or BrokenPipeError."""
    with add_file_name("standard output"):
        sys.stdout.flush()


def is_of_stdout(error: OSError) -> bool:
    """Return whether an OSError without a file name comes from printing (by click or rich)."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = trace.tb_frame.f_globals.get("__name__", "") if trace is not None else ""
    return not error.filename and module.split(".")[0] in {"click", "rich"}


def give_up() -> None:
    """Discard buffered output that cannot be written.

    Python flushes the streams when it ends, and would print an error.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)
        except ValueError:  # closed
            continue
