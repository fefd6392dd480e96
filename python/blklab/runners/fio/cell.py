"""Measures one cell: prepares its target, runs its jobs, returns its figures."""

import math
import os
import re
import select
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from blklab.errors import BlklabError, UsageError
from blklab.experiment.documents import CommandDocument, FioCellDocument, SteadyStateDocument, job_writes, writes
from blklab.fio import logs, output
from blklab.outcome import CommandRepeat, CommandResult, LatencyResult, Outcome, SteadyStateResult
from blklab.runners.fio import jobfile, process, target_preparation
from blklab.runners.fio.process import FioProgress, Progress, ending, find_fio, silent
from blklab.runners.fio.target_preparation import FioTarget
from blklab.store.series import SeriesPoint
from blklab.system import child_process
from blklab.text.printing import printable

INTERVAL_NS = 10**9

Execute = Callable[..., process.FioExit]
"""Runs fio as `process.run` does, with its arguments."""


MOST_SAID = 1 << 16  # Bytes that are kept of the end of stderr, and of stdout


def resolve(argv: Sequence[str], directory: Path) -> str:
    """Returns the program's path. Raises UsageError if there is none."""
    if not argv or not argv[0]:
        raise UsageError("empty command: expected a program")
    program = shutil.which(str(directory / argv[0]) if "/" in argv[0] else argv[0])
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
    figure: str | None = None,
) -> list[CommandRepeat]:
    """Runs a command several times in a directory; `before` is called before each run.

    Its output goes to a pipe: some programs do less when it is /dev/null. `figure` is a regular expression with one
    group, which finds the program's own figure there. Raises UsageError for a program or a directory that does not
    exist, BlklabError with the last line of stderr if the command fails, and if it does not print its figure.
    """
    if not directory.is_dir():
        raise UsageError(f"{directory}: no such directory")
    program = resolve(argv, directory)
    runs: list[CommandRepeat] = []
    for number in range(times):
        before()
        repeat, said = _once(program, argv, directory, number, progress)
        if figure is not None:
            repeat = replace(repeat, figure=find_figure(figure, said, argv[0]))
        runs.append(repeat)
    return runs


def find_figure(pattern: str, said: str, name: str) -> float:
    """Returns the last number in a program's output that the pattern finds. Raises BlklabError without one."""
    for text in reversed(re.findall(pattern, said)):
        with suppress(ValueError):
            value = float(text.replace(",", ""))
            if 0 <= value < math.inf:
                return value
    raise BlklabError(f"command {printable(name)!r}: its output has no number that figure = {pattern!r} finds")


def _once(
    program: str, argv: Sequence[str], directory: Path, number: int, progress: Progress
) -> tuple[CommandRepeat, str]:
    """Runs a command; returns its times, and the end of what it printed."""
    start_ns = time.perf_counter_ns()
    with child_process.start_process([program, *argv[1:]], directory, separate_stderr=True) as (process, pipes):
        printed, complaints = _drain(process.pid, pipes, start_ns, number, progress)
        _, status, usage = os.wait4(process.pid, 0)
        took = time.perf_counter_ns() - start_ns
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        lines = [line.strip() for line in complaints.splitlines() if line.strip()]
        last_line = f": {printable(lines[-1])[:300]}" if lines else ""
        raise BlklabError(f"command {printable(argv[0])!r} failed: it {ending(process.returncode)}{last_line}")
    # The times of the processor include the command's children.
    user_ns, system_ns = round(usage.ru_utime * 1e9), round(usage.ru_stime * 1e9)
    return CommandRepeat(took, user_ns, system_ns, process.returncode), f"{printed}\n{complaints}"


def _drain(pid: int, pipes: Sequence[int], start_ns: int, number: int, progress: Progress) -> tuple[str, str]:
    """Reads a command's output until it ends; its children may keep the pipes open after that.

    Returns the ends of stdout and of stderr.
    """
    err = pipes[-1]
    open_pipes = list(pipes)
    printed = b""
    complaints = b""
    last_report = time.monotonic()
    exit_descriptor = os.pidfd_open(pid)
    try:
        while True:
            ready, _, _ = select.select([*open_pipes, exit_descriptor], [], [], 1.0)
            if ready == [exit_descriptor]:
                return printed.decode(errors="replace"), complaints.decode(errors="replace")
            for descriptor in set(ready) - {exit_descriptor}:
                chunk = os.read(descriptor, 1 << 16)
                if not chunk:
                    open_pipes.remove(descriptor)
                elif descriptor == err:
                    complaints = (complaints + chunk)[-MOST_SAID:]
                else:
                    printed = (printed + chunk)[-MOST_SAID:]
            if time.monotonic() - last_report >= 1:
                last_report = time.monotonic()
                seconds = (time.perf_counter_ns() - start_ns) / 1e9
                progress(FioProgress(seconds, None, phase=f"command {number + 1}"))
    finally:
        os.close(exit_descriptor)


class FioFigures(NamedTuple):
    outcome: Outcome  # The result (docs/reference/formats.md) without devices; the runner adds those
    series: list[SeriesPoint]
    raw: str  # fio's own JSON+ output; empty for a command


def measure(
    cell: FioCellDocument,
    path: Path,
    directory: Path,
    *,
    may_write: bool = False,
    progress: Progress = silent,
    proc: Path = Path("/proc"),
    ready: Callable[[], object] = lambda: None,
    execute: Execute = process.run,
) -> FioFigures:
    """Measures one cell on a file or a device, or runs its command in the directory `path`.

    Writes to a device only with `may_write`: the caller must have claimed it. `directory` is for
    private files, which are removed afterwards. `ready` is called when everything is prepared
    and the measurement begins: read the counters of devices then. `execute` runs the jobs that are
    measured. Raises BlklabError.
    """
    if path.is_block_device() and not may_write and writes(cell):
        raise BlklabError(f"{path}: cannot write to this device: the run has not claimed it for writing")
    if command := cell.get("command"):
        return _command(cell, command, path, progress, proc, ready)
    fio, _ = find_fio()
    host = cell["host"]
    size = cell.get("file_bytes")
    if path.is_block_device():
        size = None
    elif size is None:
        raise UsageError(f"{path}: the cell has no size: expected file_bytes")
    must_fill = size is not None and not target_preparation.is_laid_out(path, size)
    target = FioTarget(fio, path, size, directory, int(cell["seed"]), progress)
    if must_fill:
        target_preparation.fill(target)
    target_preparation.precondition(target, str(host.get("precondition", "none")), cell, filled=must_fill)
    steady_state = None
    if steady := host.get("steady"):

        def one_round(_before: int) -> float:
            ran = _run(target, cell, "steady", int(steady["round_ns"]))
            outcome = output.outcome(output.parse_document(ran.output))
            return float(outcome.read.iops + outcome.write.iops)

        steady_state = until_steady(steady, one_round)
    warnings = []
    if steady_state is not None and not steady_state.reached:
        warnings.append(f"no steady state after {len(steady_state.rounds)} rounds: measured without one")
    if host.get("drop_caches") and (warning := target_preparation.drop_caches(proc)):
        warnings.append(warning)
    interval_ns = int(cell.get("interval_ns") or INTERVAL_NS)
    log_ms = max(1, interval_ns // 10**6)
    ran = _run(target, cell, "measure", None, log_ms, execute, ready)
    fio_figures = figures(ran, interval_ns, log_ms, timed=cell.get("replay", {}).get("timed", False))
    fio_figures.outcome.steady = steady_state
    fio_figures.outcome.warnings = [*warnings, *fio_figures.outcome.warnings]
    return fio_figures


def figures(ran: process.FioExit, interval_ns: int, log_ms: int, *, timed: bool) -> FioFigures:
    """Returns what a fio run measured, with its logs in intervals of `interval_ns`. Raises BlklabError.

    `timed`: whether it replayed a log at its times. fio then collects completions only when the next I/O is due
    (iolog.c, `iolog_delay`), so the latencies are not those of the I/Os and are left out.
    """
    document = output.parse_document(ran.output)
    notes = [line.strip() for line in ran.messages.splitlines() if line.strip()]
    document["notes"] = [*document["notes"], *notes]
    outcome = output.outcome(document)
    if outcome.fio is not None:
        outcome.fio.command = ran.command
    outcome.devices = []
    slices = logs.merge(logs.gather(ran.logs, jobfile.LOG, output.jobs(document)), interval_ns, float(log_ms))
    points = [SeriesPoint("jobs", *interval) for interval in slices]
    if timed:
        outcome.read.clat_ns = outcome.write.clat_ns = LatencyResult()
        outcome.sync = None
        outcome.groups = ()
        points = [replace(point, read_clat_ns=None, write_clat_ns=None) for point in points]
    return FioFigures(outcome, points, ran.output)


def _run(
    target: FioTarget,
    cell: FioCellDocument,
    phase: str,
    runtime_ns: int | None = None,
    log_ms: int | None = None,
    execute: Execute = process.run,
    begin: Callable[[], object] = lambda: None,
) -> process.FioExit:
    log = target.directory / jobfile.REPLAY
    if (replay := cell.get("replay")) is not None:
        jobfile.write_replay(replay, log)
    ran = execute(
        target.fio,
        jobfile.render(cell, target.path, runtime_ns=runtime_ns, log_ms=log_ms),
        target.directory,
        target=target.path,
        seconds=jobfile.seconds(cell, runtime_ns),
        readonly=not any(job_writes(job["options"]) for job in cell["jobs"]),
        progress=target.progress,
        phase=phase,
        begin=begin,
    )
    log.unlink(missing_ok=True)
    return ran


def _command(
    cell: FioCellDocument,
    command_document: CommandDocument,
    path: Path,
    progress: Progress,
    proc: Path,
    ready: Callable[[], object],
) -> FioFigures:
    directory = path / (command_document.get("directory") or "")
    times = int(command_document.get("times") or 1)
    if times < 1:
        raise BlklabError(f"command: found times = {times}, expected at least 1")
    warnings: dict[str, None] = {}

    begun = False

    def before() -> None:
        nonlocal begun
        if cell["host"].get("drop_caches") and (warning := target_preparation.drop_caches(proc)):
            warnings[warning] = None
        if not begun:
            begun = True
            ready()

    figure = command_document.get("figure")
    runs = run(command_document["argv"], directory, times, before=before, progress=progress, figure=figure)
    command = CommandResult(list(command_document["argv"]), runs)
    outcome = Outcome(sum(run.wall_ns for run in runs), warnings=list(warnings), command=command)
    return FioFigures(outcome, [], "")


def judge_steady_state(
    rounds: Sequence[float], *, window: int = 5, most_range: float = 0.2, most_slope: float = 0.1
) -> SteadyStateResult:
    """Judges the last `window` rounds; `range` and `slope` are shares of their mean, None until there are enough.

    SNIA Solid State Storage Performance Test Specification 2.0.2 (1 October 2020), 2.1.24: within the measurement
    window of five rounds (a) the largest less the smallest value is no more than 20 % of their average, and (b) the
    largest less the smallest value on the best linear fit is within 10 %.
    """
    if window < 2:
        raise UsageError(f"found a window of {window} rounds, expected at least 2")
    last = [float(value) for value in rounds[-window:]]
    mean = sum(last) / window
    if len(rounds) < window or mean <= 0:
        return SteadyStateResult(False, rounds)
    middle = (window - 1) / 2
    rise = sum((index - middle) * (value - mean) for index, value in enumerate(last))
    per_round = rise / sum((index - middle) ** 2 for index in range(window))
    spread = (max(last) - min(last)) / mean
    slope = abs(per_round) * (window - 1) / mean
    return SteadyStateResult(spread <= most_range and slope <= most_slope, rounds, spread, slope)


def until_steady(options: SteadyStateDocument, measure: Callable[[int], float]) -> SteadyStateResult:
    """Runs rounds until they are steady, or until there is no time for another.

    `options` are `host.steady` of a cell. `measure` runs a round and returns its IOPS; its argument is the number of
    rounds before it.
    """
    limits = {"most_range": float(options["range"]), "most_slope": float(options["slope"])}
    rounds: list[float] = []
    while True:
        state = judge_steady_state(rounds, window=int(options["rounds"]), **limits)
        total_ns = (len(rounds) + 1) * int(options["round_ns"])
        if state.reached or (rounds and total_ns > int(options["limit_ns"])):
            return state
        rounds.append(measure(len(rounds)))
