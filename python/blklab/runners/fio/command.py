"""Commands as a workload: their duration, and their processor time."""

import os
import select
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from blklab import child_process
from blklab.errors import BlklabError, UsageError
from blklab.outcome import CommandRepeat, DirectionResult, MeasuredResult
from blklab.runners.fio.process import FioProgress, Progress, silent
from blklab.runners.fio.program import ending
from blklab.text import printable

MOST_SAID: Final = 1 << 16  # Bytes that are kept of the end of stderr


def resolve(argv: Sequence[str], directory: Path) -> str:
    """Returns the program's path. Raises UsageError if there is none."""
    if not argv or not argv[0]:
        raise UsageError("empty command: expected a program")
    if "/" in argv[0]:
        path = directory / argv[0]
        program = str(path) if path.is_file() and os.access(path, os.X_OK) else None
    else:
        program = shutil.which(argv[0])
    if program is None:
        raise UsageError(f"command {argv[0]!r}: no such program")
    return program


def run(
    argv: Sequence[str],
    directory: Path,
    times: int,
    *,
    before: Callable[[], object] = lambda: None,
    progress: Progress = silent,
) -> list[CommandRepeat]:
    """Runs a command several times in a directory; `before` is called before each run.

    Its output goes to a pipe and is discarded: some programs do less when it is /dev/null. Raises UsageError for a
    program or a directory that does not exist, BlklabError with the last line of stderr if the command fails.
    """
    if not directory.is_dir():
        raise UsageError(f"{directory}: no such directory")
    program = resolve(argv, directory)
    runs: list[CommandRepeat] = []
    for number in range(times):
        before()
        runs.append(_once(program, argv, directory, number, progress))
    return runs


def _once(program: str, argv: Sequence[str], directory: Path, number: int, progress: Progress) -> CommandRepeat:
    started = time.perf_counter_ns()
    with child_process.started([program, *argv[1:]], directory, apart=True) as (process, pipes):
        output = _drain(process.pid, pipes, started, number, progress)
        _, status, usage = os.wait4(process.pid, 0)
        took = time.perf_counter_ns() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        words = f": {printable(lines[-1])[:300]}" if lines else ""
        raise BlklabError(f"command {printable(argv[0])!r} failed: it {ending(process.returncode)}{words}")
    # The times of the processor include the command's children.
    user_ns, system_ns = round(usage.ru_utime * 1e9), round(usage.ru_stime * 1e9)
    return {"wall_ns": took, "user_ns": user_ns, "system_ns": system_ns, "status": process.returncode}


def _drain(pid: int, pipes: Sequence[int], started: int, number: int, progress: Progress) -> str:
    """Reads a command's output until it ends; its children may keep the pipes open after that."""
    err = pipes[-1]
    open_ = list(pipes)
    output = b""
    last_report = time.monotonic()
    ended = os.pidfd_open(pid)
    try:
        while True:
            ready, _, _ = select.select([*open_, ended], [], [], 1.0)
            if ready == [ended]:
                return output.decode(errors="replace")
            for descriptor in set(ready) - {ended}:
                chunk = os.read(descriptor, 1 << 16)
                if not chunk:
                    open_.remove(descriptor)
                elif descriptor == err:
                    output = (output + chunk)[-MOST_SAID:]
            if time.monotonic() - last_report >= 1:
                last_report = time.monotonic()
                seconds = (time.perf_counter_ns() - started) / 1e9
                progress(FioProgress(seconds, None, phase=f"command {number + 1}"))
    finally:
        os.close(ended)


def outcome(argv: Sequence[str], runs: Sequence[CommandRepeat], nothing: DirectionResult) -> MeasuredResult:
    """Returns the outcome; `nothing` is `read` and `write` of a result without I/O of jobs."""
    return {
        "runtime_ns": sum(run["wall_ns"] for run in runs),
        "read": nothing,
        "write": nothing,
        "groups": [],
        "devices": [],
        "targets": [],
        "steady": None,
        "command": {"argv": list(argv), "runs": runs},
        "warnings": [],
        "forced": [],
    }
