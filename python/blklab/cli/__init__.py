"""The `blklab` command: it parses, calls and prints; the work is done elsewhere.

The console script starts here, so this imports nothing that takes time: an interrupt while Python
imports the rest ends it as an interrupt later does.
"""

import gc
import os
import sys

from blklab.cli.status import INTERRUPTED


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits with its status: the console script."""
    # Python looks for garbage after each 700 new objects: for thousands of runs, that is half of the time
    gc.set_threshold(100_000, 20, 50)
    try:
        import signal

        is_program = arguments is None
        if is_program and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(INTERRUPTED))
        from blklab.cli import exit_status, root, signals, streams
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    streams.replace_closed()
    argv = sys.argv[1:] if arguments is None else arguments
    with signals.handle_signals():
        status = exit_status.run_safely(lambda: root.run(argv))
    sys.exit(status)
