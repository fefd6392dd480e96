"""Measures one cell: prepares its target, runs its jobs, returns its figures."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from blklab.errors import BlklabError, UsageError
from blklab.fio import logs, output
from blklab.outcome import MeasuredResult
from blklab.runners.fio import command, jobfile, process, steady_state, target_preparation
from blklab.runners.fio.process import Progress, silent
from blklab.runners.fio.program import find_fio
from blklab.runners.fio.target_preparation import FioTarget
from blklab.spec.documents import CommandDocument, FioCellDocument
from blklab.spec.fio_cell import job_writes, writes
from blklab.store.series import SeriesPoint

INTERVAL_NS: Final = 10**9

Execute = Callable[..., process.FioExit]
"""Runs fio as `process.run` does, with its arguments."""


class FioFigures(NamedTuple):
    """The figures of one cell."""

    outcome: MeasuredResult  # The result (docs/reference/formats.md) without devices; the runner adds those
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
    if wanted := cell.get("command"):
        return _command(cell, wanted, path, progress, proc, ready)
    return _jobs(cell, path, directory, progress, proc, ready, execute)


def _jobs(
    cell: FioCellDocument,
    path: Path,
    directory: Path,
    progress: Progress,
    proc: Path,
    ready: Callable[[], object],
    execute: Execute,
) -> FioFigures:
    fio, _ = find_fio()
    host = cell["host"]
    size = cell.get("file_bytes")
    if path.is_block_device():
        size = None
    elif size is None:
        raise UsageError(f"{path}: the cell has no size: expected file_bytes")
    filled = size is not None and not target_preparation.is_laid_out(path, size)
    target = FioTarget(fio, path, size, directory, int(cell["seed"]), progress)
    if filled:
        target_preparation.fill(target)
    target_preparation.precondition(target, str(host.get("precondition", "none")), cell, filled=filled)
    resumed = None
    if wanted := host.get("steady"):

        def one_round(_before: int) -> float:
            ran = _run(target, cell, "steady", int(wanted["round_ns"]))
            outcome = output.outcome(output.parse_document(ran.output))
            return float(outcome["read"]["iops"] + outcome["write"]["iops"])

        resumed = steady_state.until_steady(wanted, one_round)
    warnings = []
    if resumed is not None and not resumed["reached"]:
        warnings.append(f"no steady state after {len(resumed['rounds'])} rounds: measured without one")
    if host.get("drop_caches") and (warning := target_preparation.drop_caches(proc)):
        warnings.append(warning)
    interval_ns = int(cell.get("interval_ns") or INTERVAL_NS)
    log_ms = max(1, interval_ns // 10**6)
    ran = _run(target, cell, "measure", None, log_ms, execute, ready)
    measured = figures(ran, interval_ns, log_ms)
    measured.outcome["steady"] = resumed
    measured.outcome["warnings"] = [*warnings, *measured.outcome["warnings"]]
    return measured


def figures(ran: process.FioExit, interval_ns: int, log_ms: int) -> FioFigures:
    """Returns what a fio run measured, with its logs in intervals of `interval_ns`. Raises BlklabError."""
    document = output.parse_document(ran.output)
    notes = [line.strip() for line in ran.messages.splitlines() if line.strip()]
    document["notes"] = [*document["notes"], *notes]
    outcome = output.outcome(document)
    outcome["fio"]["command"] = ran.command
    outcome["devices"] = []
    outcome["steady"] = None
    slices = logs.merge(logs.gather(ran.logs, jobfile.LOG, output.jobs(document)), interval_ns, float(log_ms))
    return FioFigures(outcome, [SeriesPoint("jobs", *slice_) for slice_ in slices], ran.output)


def _run(
    target: FioTarget,
    cell: FioCellDocument,
    phase: str,
    runtime_ns: int | None = None,
    log_ms: int | None = None,
    execute: Execute = process.run,
    begin: Callable[[], object] = lambda: None,
) -> process.FioExit:
    return execute(
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


def _command(
    cell: FioCellDocument,
    wanted: CommandDocument,
    path: Path,
    progress: Progress,
    proc: Path,
    ready: Callable[[], object],
) -> FioFigures:
    directory = path / (wanted.get("directory") or "")
    times = int(wanted.get("times") or 1)
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

    runs = command.run(wanted["argv"], directory, times, before=before, progress=progress)
    outcome = command.outcome(wanted["argv"], runs, output.FioDirection().as_dict())
    outcome["warnings"] = list(warnings)
    return FioFigures(outcome, [], "")
