"""A cell as the simulator takes it (crates/sim/src/cell)."""

from collections.abc import Mapping, Sequence
from typing import Any

from blklab import kernels
from blklab.documents import cell
from blklab.errors import BlklabError
from blklab.experiment import cell_form, jobs, load, stack_resolution
from blklab.experiment.cell_form import CellDraft, CellForm
from blklab.experiment.documents import LoadRampDocument
from blklab.experiment.host_prices import complete_prices
from blklab.experiment.placement import SPREAD, find_placement
from blklab.experiment.simulated_volumes import replace_volumes
from blklab.experiment.tables import Experiment, Settings
from blklab.experiment.workload import RAMP, Command, Job, Jobs, Replay, Workload
from blklab.toml_files import problems
from blklab.units import format_size

RAMP_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Rates of a load ramp, as shares of the rate without a limit."""


def document(
    source: load.ExperimentSource, experiment: Experiment, stack: str, workload: str, _swept: Mapping[str, Any]
) -> CellDraft:
    """Returns a cell's document without the seed, its capacity, and the trace to replay."""
    resolved_stack = stack_resolution.build(experiment, stack)
    if resolved_stack.real is not None:
        raise problems.fail(resolved_stack.real, "is not simulated: use --on lab, which has a real kernel")
    settings = experiment.settings
    path, table, tables = job_tables(experiment, workload)
    replay = None
    trace = None
    runtime, ramp = settings.runtime, settings.ramp_time
    match table:
        case Replay():
            replay, trace = resolve_replay(source, table, path, stack, resolved_stack.capacity)
            runtime, ramp = times([(path, table)], runtime, ramp)
        case Command():
            raise problems.fail(f"{path}.command", "is not simulated: use --on host")
    if tables:
        runtime, ramp = times(list(tables.values()), runtime, ramp)
    documents = [
        jobs.job_document(name, job, job_path, stack, resolved_stack.capacity)
        for name, (job_path, job) in tables.items()
    ]
    commit = settings.commit_ns
    document: dict[str, Any] = {
        "kernel": settings.kernel,
        "devices": resolved_stack.devices,
        "stack": replace_volumes(resolved_stack.node),
        "filesystem": None if commit is None else {"commit_ns": commit},
        "jobs": documents,
        "replay": replay,
        "runtime_ns": runtime,
        "ramp_ns": ramp,
        "max_ios": settings.max_ios,
        "series_ns": settings.series,
    }
    used_controllers = {disk.controller for disk in resolved_stack.tables}
    if controllers := {
        name: controller.model_dump() for name, controller in experiment.controllers.items() if name in used_controllers
    }:
        document["controllers"] = controllers
    if host := settings.host.model_dump(exclude_none=True, exclude={"calibrated"}):
        document["host"] = complete_prices(host)
    document |= _journal(settings, resolved_stack)
    document |= _page_cache(settings, documents)
    document |= load_ramp(tables)
    if find_placement(document, settings.placement) == SPREAD:
        document["spread"] = True
    deviations = [table.deviations for table in resolved_stack.tables]
    ignored_options = [text for _, job in tables.values() for text in jobs.ignored_options(job)]
    return CellDraft(
        document,
        resolved_stack.capacity,
        trace,
        deviations,
        notes=journal_notes(settings, resolved_stack),
        ignored_options=ignored_options,
        is_placed=settings.placement is not None,
    )


FORM = CellForm("sim", document, settings_are_keys=True)


def _journal(settings: Settings, resolved_stack: stack_resolution.ResolvedStack) -> dict[str, cell.JournalSpec]:
    """Returns `journal` of a cell: how fsync commits; empty if the experiment does not say where the journal is."""
    if settings.journal is None:
        return {}
    journal: cell.JournalSpec = {"log": "xfs" if settings.filesystem_type == "xfs" else "jbd2"}
    if resolved_stack.journal is not None:
        journal["device"] = replace_volumes(resolved_stack.journal)
    return {"journal": journal}


FLUSHES_DATA = (6, 15)
"""The first Linux whose ext4 flushes the filesystem's device in an fsync with an external journal of overwritten data
(aac45075f6d7)."""


def journal_notes(settings: Settings, resolved_stack: stack_resolution.ResolvedStack) -> list[str]:
    """Returns a note if an fsync does not make data durable on this kernel."""
    if resolved_stack.journal is None or settings.filesystem_type == "xfs":
        return []
    own_devices = resolved_stack.devices[: resolved_stack.own_devices]
    has_cache = any(device["queue"]["write_back"] for device in own_devices)
    if not has_cache or kernels.parse(settings.kernel) >= FLUSHES_DATA:
        return []
    return [
        f"{settings.filesystem_type} with an external journal on Linux {settings.kernel}: an fsync of overwritten data "
        "does not flush the disks of the data, and a power failure can lose it (fixed in 6.15, aac45075f6d7)"
    ]


def _page_cache(settings: Settings, jobs: Sequence[cell.Job]) -> dict[str, int]:
    """Returns the keys of a cell that act on buffered jobs only; none without such jobs."""
    keys: dict[str, int] = {}
    buffered_jobs = [job for job in jobs if job.get("buffered")]
    if settings.read_ahead is not None and any(job["read_share"] > 0 for job in buffered_jobs):
        keys["read_ahead_bytes"] = settings.read_ahead << 10
    if any(job["read_share"] < 1 for job in buffered_jobs):
        if settings.dirty_bytes is not None:
            keys["dirty_bytes"] = settings.dirty_bytes
        if settings.dirty_background_bytes is not None:
            keys["dirty_background_bytes"] = settings.dirty_background_bytes
    return keys


def job_tables(experiment: Experiment, workload: str) -> tuple[str, Workload, dict[str, tuple[str, Job]]]:
    """Returns a workload's path and table, and its jobs by name with their paths; none if it is no job of fio."""
    path = f"workloads.{workload}"
    table = experiment.workloads[workload]
    match table:
        case Job():
            return path, table, {workload: (path, table)}
        case Jobs():
            return path, table, {name: (f"{path}.jobs.{name}", job) for name, job in table.jobs.items()}
    return path, table, {}


def load_ramp(tables: Mapping[str, tuple[str, Job]]) -> dict[str, LoadRampDocument]:
    """Returns `load_ramp` of a cell whose jobs have rate = "ramp": the shares of their full rate,
    and the limit of the 99th percentile; empty for other jobs.
    """
    ramp_jobs = [(job_path, job) for job_path, job in tables.values() if job.rate == RAMP]
    if not ramp_jobs:
        return {}
    job_path, job = ramp_jobs[0]
    if len(ramp_jobs) < len(tables) or len({job.p99_below for _, job in ramp_jobs}) > 1:
        raise problems.fail(f"{job_path}.rate", f"jobs that run together must all have {RAMP!r} and the same p99_below")
    return {"load_ramp": {"shares": RAMP_SHARES, "p99_ns": job.p99_below}}


def times(tables: Sequence[tuple[str, Job | Replay]], runtime: int | None, ramp: int) -> tuple[int | None, int]:
    """Returns the runtime and the ramp time that all jobs of a workload share, ns."""
    for key in ("runtime", "ramp_time", "time_based"):
        if len({getattr(job, key, None) for _, job in tables}) > 1:
            raise problems.fail(f"{tables[-1][0]}.{key}", "jobs that run together must have the same value")
    job_path, job = tables[0]
    runtime = job.runtime or runtime
    if getattr(job, "time_based", False) and not runtime:
        raise problems.fail(f"{job_path}.time_based", "needs a runtime")
    ramp = ramp if job.ramp_time is None else job.ramp_time
    return runtime, ramp


def resolve_replay(
    source: load.ExperimentSource, table: Replay, path: str, stack: str, capacity: int | None
) -> tuple[cell.Replay, cell_form.ReplaySource]:
    """Returns how a trace is replayed, and the trace; it must fit the stack, if its capacity is known."""
    try:
        replay = cell_form.replay_source(source.resolve_path(table.replay), table.format, table.device)
    except BlklabError as error:
        raise problems.fail(f"{path}.replay", str(error)) from error
    if capacity is not None and replay.end > capacity:
        raise problems.fail(
            f"{path}.replay",
            f"the trace of {replay.name!r} reaches to {format_size(replay.end)}, beyond the end of"
            f" stack {stack!r} at {format_size(capacity)}",
        )
    return {"timed": table.timing == "recorded", "iodepth": table.iodepth, "speed": table.speed}, replay
