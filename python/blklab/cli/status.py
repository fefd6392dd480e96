"""Exit statuses that no error of ours has."""

from typing import Final

CRASHED: Final = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED: Final = 128 + 2  # SIGINT
PIPE_CLOSED: Final = 128 + 13  # SIGPIPE, as the shell reports `yes | head`
