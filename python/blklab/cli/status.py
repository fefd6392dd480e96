"""Exit statuses that no error of ours has."""

CRASHED = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 128 + 2  # SIGINT
PIPE_CLOSED = 128 + 13  # SIGPIPE, as the shell reports `yes | head`
