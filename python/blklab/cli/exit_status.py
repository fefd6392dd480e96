"""Turn each failure of a command into one line on stderr and an exit status."""

import contextlib
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable

import click

from blklab.cli import streams
from blklab.cli.status import CRASHED, INTERRUPTED, PIPE_CLOSED
from blklab.errors import BlklabError
from blklab.text.printing import printable

SIGNALLED = 128  # The exit status is this and the number of the signal


def run_safely(run: Callable[[], int]) -> int:
    """Call `run` and return the exit status of the program."""
    status = _status(run)
    streams.give_up()
    return status


def _status(run: Callable[[], int]) -> int:
    try:
        try:
            status = run()
            streams.flush()
        except BaseException as error:
            _say_notes(error)
            raise
    except BrokenPipeError:
        return PIPE_CLOSED
    except (KeyboardInterrupt, click.Abort) as interrupt:
        # A command may say how to continue.
        _say(": ".join(["interrupted", *map(str, interrupt.args)]))
        return INTERRUPTED
    except SystemExit as end:  # a signal
        status = end.code if isinstance(end.code, int) else 1
        if status - SIGNALLED in list(signal.Signals):
            _say(f"ended by {signal.Signals(status - SIGNALLED).name}")
        return status
    except BaseException as error:  # a panic in Rust is no Exception
        if isinstance(error, OSError) and streams.is_of_stdout(error):
            error.filename = "standard output"
        if os.environ.get("BLKLAB_DEBUG", "") not in {"", "0"} and not isinstance(error, click.UsageError):
            with contextlib.suppress(OSError):
                traceback.print_exception(error)
        return report(error)
    return status


def report(error: BaseException) -> int:
    """Print an error on stderr, and return its exit status."""
    match error:
        case click.exceptions.NoArgsIsHelpError():
            with contextlib.suppress(OSError):
                click.echo(error.message, err=True)
            return 2
        case click.UsageError():
            message = error.format_message()
            hint = f" (see '{error.ctx.command_path} --help')" if error.ctx else ""
            _say(f"error: {message}" + ("" if "--help'" in message else hint))
            return 2
        case click.ClickException():
            _say(f"error: {error.format_message()}")
            return error.exit_code
        case BlklabError():
            _say(f"error: {error}")
            for line in error.details:
                _say(line)
            return error.exit_code
        case OSError():
            _say(f"error: {_describe(error)}")
            return 1
        case MemoryError():
            _say("error: out of memory")
            return 1
    _say(
        f"error: a bug in blklab: {type(error).__name__}: {error}; "
        "please report it with the traceback that BLKLAB_DEBUG=1 prints"
    )
    return CRASHED


def _say_notes(error: BaseException | None) -> None:
    """Print the notes of an exception, and of those in whose place it was raised."""
    while error is not None:
        for line in getattr(error, "__notes__", ()):
            _say(line)
        error = error.__context__


def _describe(error: OSError) -> str:
    """Return `FILE: reason`, without the error number that Python prints first."""
    reason = error.strerror or str(error)
    names = [os.fsdecode(n) for n in (error.filename, error.filename2) if isinstance(n, str | bytes)]
    return f"{' -> '.join(names)}: {reason}" if names else reason


_TOO_LONG = re.compile(
    r"Exceeds the limit \(\d+ digits\) for integer string conversion[^;\n]*; use sys\.set_\w+\(?\)?( to .*)?"
)
"""Python's message for a number of thousands of digits, which advises to change blklab."""


def _say(message: str) -> None:
    one_line = printable(" ".join(_TOO_LONG.sub("a number has more than 4,300 digits", message).split()))
    with contextlib.suppress(OSError):  # stderr may be closed
        print(f"blklab: {one_line}", file=sys.stderr)  # noqa: T201
