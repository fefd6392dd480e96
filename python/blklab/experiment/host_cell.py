"""A cell as a runner with real fio takes it: where, which jobs, which settings; for the runner `fleet`, the hosts.

Sizes are bytes, times ns; jobs have fio's own options (fio(1)).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import expm1, inf, log1p
from pathlib import Path
from typing import Any, cast

from blklab.experiment import jobs, load, sim_cell, sweep
from blklab.experiment.cell_form import CellDraft, CellForm
from blklab.experiment.documents import FioCellDocument, FioJobDocument
from blklab.experiment.tables import PLACES, Experiment, Settings, Target
from blklab.experiment.workload import RAMP, Command, Job, Replay, Workload
from blklab.fio import known_options, option_values
from blklab.system.ansible_inventory import expand_hosts
from blklab.toml_files import problems
from blklab.toml_files.fields import show_value

MAX_IN_FLIGHT = 1024  # I/Os of a replay at the recorded times
INTERVAL = 10**9  # ns between two points of a series, the default of `series`

COPIED_OPTIONS = (  # Options of a job that fio has as well, with the same meaning and units
    *("rw", "bs", "bssplit", "blockalign", "iodepth", "iodepth_batch", "iodepth_batch_complete"),
    *("iodepth_low", "numjobs", "rwmixread", "rwmixwrite", "random_distribution", "fsync"),
    *("thinktime_blocks", "rate", "rate_iops", "ioengine"),
)

SIZES = frozenset({"bs", "bssplit", "blockalign", "rate"})  # Options that are sizes, or contain sizes
DEFAULTS = {"blockalign": None, "iodepth_low": 0, "fsync": 0}  # Options that are left to fio at this value


def document(
    source: load.ExperimentSource, experiment: Experiment, target: str, workload: str, swept: Mapping[str, Any]
) -> CellDraft:
    """Returns a cell's document without the seed and the file's size (`file_bytes`)."""
    settings = experiment.settings
    place = experiment.targets[target]
    path, table, tables = sim_cell.job_tables(experiment, workload)
    command = _command(table, place, path) if isinstance(table, Command) else None
    fio_fields, notes = fio_load(source, settings, workload, path, table, tables, target, place)
    kernel_settings = {}
    for kernel_key, key in sweep.SIMULATED.items():
        value = getattr(settings, key)
        if value is not None:
            kernel_settings[kernel_key] = sweep.format_value(value)
    cell_document = {
        "target": _place(source, target, place),
        "command": command,
        **fio_fields,
        "host": _host(experiment),
        "settings": kernel_settings | {key: sweep.format_value(value) for key, value in swept.items()},
        "destroy": list(experiment.destroy),
    }
    return CellDraft(cell_document, notes=notes)


FORM = CellForm("host", document, on_targets=True)


def _place(source: load.ExperimentSource, name: str, target: Target) -> dict[str, Any]:
    (kind,) = (key for key in PLACES if getattr(target, key) is not None)
    # Not resolved: what a link leads to is looked at when it is used.
    path = source.resolve_path(getattr(target, kind)).absolute()
    return {"name": name, kind: str(path), "cache_bytes": target.cache}


def _host(experiment: Experiment) -> dict[str, Any]:
    host = experiment.host
    steady = None
    if steadiness := host.steadiness:
        shares = {"range": steadiness.range, "slope": steadiness.slope}
        steady = {"round_ns": steadiness.round, "rounds": steadiness.rounds, **shares, "limit_ns": steadiness.limit}
    wait = {"wait_ns": host.wait} if host.wait else {}
    return {"drop_caches": host.drop_caches, "precondition": host.precondition, **wait, "steady": steady}


def _command(table: Command, place: Target, path: str) -> dict[str, Any]:
    if place.device is not None:
        raise problems.fail(f"{path}.command", "needs a target that is a directory or filesystem")
    document = {"argv": list(table.command), "directory": table.directory, "times": table.times}
    return document if table.figure is None else {**document, "figure": table.figure}


def fio_load(
    source: load.ExperimentSource,
    settings: Settings,
    workload: str,
    path: str,
    table: Workload,
    tables: Mapping[str, tuple[str, Job]],
    stack: str,
    place: Target,
) -> tuple[FioCellDocument, list[str]]:
    """Returns the part of a cell's document that says what fio does, and notes on what it does not do exactly."""
    runtime, ramp = settings.runtime, settings.ramp_time
    timed_tables: list[tuple[str, Job | Replay]] = [(path, table)] if isinstance(table, Replay) else [*tables.values()]
    if timed_tables:
        runtime, ramp = sim_cell.times(timed_tables, runtime, ramp)
    load_fields: dict[str, object] = {
        "runtime_ns": runtime,
        "ramp_ns": ramp,
        "interval_ns": settings.series or INTERVAL,
    }
    load_fields |= sim_cell.load_ramp(tables)
    fio_jobs: list[FioJobDocument] = [
        {"name": name, "options": options(job, place, job_path)} for name, (job_path, job) in tables.items()
    ]
    notes = [
        f"{job_path}.fsync_share: fio flushes at regular distances: each job after every {_sync_gap(job)} of its writes"
        for job_path, job in tables.values()
        if job.fsync_share
    ]
    if isinstance(table, Replay):
        how, trace = sim_cell.resolve_replay(source, table, path, stack, place.size)
        load_fields["replay"] = {**asdict(trace), **how}
        scale = round(100 * table.speed)
        if not scale:
            raise problems.fail(f"{path}.speed", "fio replays at 0.01 or more")
        if scale != 100 * table.speed:
            notes.append(f"{path}.speed: fio counts it in per cent: {scale / 100:g}")
        if how["timed"]:
            notes.append(f"{path}.timing: fio collects completions late at recorded times: latencies are left out")
        # The simulator has no limit of the I/Os in flight at the recorded times.
        depth = MAX_IN_FLIGHT if how["timed"] else table.iodepth
        job_options = {
            "rw": "randrw" if trace.write_bytes else "randread",
            "ioengine": "libaio",
            "direct": "1",
            "iodepth": str(depth),
            "numjobs": "1",
            "offset": "0",
            "size": str(trace.end),
            "replay_time_scale": str(scale),
        }
        fio_jobs = [{"name": "replay", "options": job_options}]
    if settings.max_ios is not None:
        why = _limit_obstacle(tables, ramp)
        if why:
            notes.append(f"settings.max_ios has no effect on workload {workload!r}: {why}")
        else:
            for job in fio_jobs:
                job["options"] = _limit_ios(job["options"], settings.max_ios)
    return cast(FioCellDocument, {"jobs": fio_jobs, **load_fields}), notes


def _limit_obstacle(tables: Mapping[str, object], ramp: int) -> str:
    """Returns why fio's number_ios, which each process counts alone, is not `max_ios`; empty if it is."""
    if len(tables) != 1:
        return "fio counts the I/Os of each job alone" if tables else "no job of fio counts its I/Os"
    return "fio counts the I/Os of the ramp as well" if ramp else ""


def _limit_ios(job_options: Mapping[str, str], max_ios: int) -> dict[str, str]:
    """Returns a job whose processes end after `max_ios` I/Os together: each takes its share of them.

    With time_based, fio does not look at number_ios (backend.c, `keep_running`): more bytes than any time allows do
    the same.
    """
    limited_options = {**job_options, "number_ios": str(-(-max_ios // int(job_options["numjobs"])))}
    if limited_options.pop("time_based", None):
        limited_options["io_size"] = str(jobs.ENDLESS)
    return limited_options


def _sync_gap(job: Job) -> int:
    """Returns the writes between two flushes of fio, at least one, for a job with `fsync_share`.

    It is the mean distance of flushes after each write with this probability, and after `fsync` writes at the latest.
    """
    share = job.fsync_share
    max_distance = job.fsync or inf
    probability = 1.0 if share == 1 else -expm1(max_distance * log1p(-share))
    return max(1, round(probability / share))


def options(job: Job, place: Target, path: str) -> dict[str, str]:
    """Returns a job in fio's options. Raises SpecProblems for what fio cannot do."""
    job_options: dict[str, str] = {}
    for key in COPIED_OPTIONS:
        value = getattr(job, key)
        if value is not None and value not in {DEFAULTS.get(key), RAMP}:
            job_options[key] = option_values.sizes_for_fio(str(value)) if key in SIZES else str(value)
    if job.bssplit is None:
        job_options.setdefault("bs", "4k")
    job_options["direct"] = str(int(job.direct))
    if job.fsync_share:
        job_options["fsync"] = str(_sync_gap(job))
    job_options |= _region(job, place, path)
    if job.thinktime:
        job_options["thinktime"] = str(max(1, job.thinktime // 1000))
    else:
        job_options.pop("thinktime_blocks", None)
    if job.time_based:
        job_options["time_based"] = "1"
    if job.io_size is not None:
        job_options["io_size"] = _io_size(job, job_options, path)
    for option, value in job.options.items():
        if option not in known_options.OPTIONS:
            if sweep.format_value(value).lower() in known_options.OFF:
                continue
            raise problems.fail(f"{path}.options.{option}", "blklab does not pass this option on to fio: remove it")
        job_options[option] = sweep.format_value(value)
    return job_options


def _region(job: Job, place: Target, path: str) -> dict[str, str]:
    """Returns the part of the target that a job uses: bytes, or percentages of a device."""
    target_size = place.size
    spread = job.offset_increment * (job.numjobs - 1)
    job_options = {"offset": "0", "offset_increment": str(job.offset_increment)}
    align = min(size for sizes in option_values.block_sizes(job.bs, job.bssplit) for size, _ in sizes)
    for key in ("offset", "size"):
        value = getattr(job, key)
        if value is None:
            continue
        size, share = option_values.portion(value)
        if share is None:
            job_options[key] = str(size)
        elif place.device is not None:
            job_options[key] = str(value)
        elif target_size is None:
            raise problems.fail(
                f"{path}.{key}", f"found {value}, but the target has no size: give it one, or write bytes"
            )
        else:
            job_options[key] = str(int(target_size * share) // align * align)
    if "size" not in job_options and place.device is None:
        if target_size is None:
            raise problems.fail(f"{path}.size", "is missing here and in the target: set one of them")
        remaining = target_size - int(job_options["offset"]) - spread
        if remaining < align:
            raise problems.fail(f"{path}.offset", "leaves no space on the target")
        job_options["size"] = str(remaining // align * align)
    if target_size is not None and int(job_options["offset"]) + spread + int(job_options["size"]) > target_size:
        raise problems.fail(f"{path}.size", f"reaches beyond the end of the target at {target_size} B")
    return job_options


def _io_size(job: Job, job_options: Mapping[str, str], path: str) -> str:
    size, share = option_values.portion(job.io_size or 0)
    if share is None:
        return str(size)
    if not job_options.get("size", "").isdigit():
        raise problems.fail(f"{path}.io_size", f"found {job.io_size}, expected bytes: the target is a device")
    return str(int(int(job_options["size"]) * share))


def fleet_document(
    source: load.ExperimentSource, experiment: Experiment, target: str, workload: str, swept: Mapping[str, object]
) -> CellDraft:
    """Returns the document of a cell of a fleet; `destroy` has `HOST:ID` as the user wrote them."""
    fleet = experiment.fleet
    if not fleet.hosts:
        raise problems.fail("fleet.hosts", "is missing: expected the hosts to measure, as you name them for ssh")
    hosts = expand_hosts(fleet.hosts, source.path.parent)
    for number, name in enumerate(experiment.destroy):
        if host_of(name, hosts) is None:
            raise problems.fail(
                f"destroy[{number}]", f"found {show_value(name)}, expected HOST:ID with a host of [fleet]"
            )
    place = experiment.targets[target]
    (kind,) = (key for key in PLACES if getattr(place, key) is not None)
    place_path = getattr(place, kind)
    if not Path(place_path).is_absolute():
        raise problems.fail(
            f"targets.{target}.{kind}",
            f"found {show_value(place_path)}, expected an absolute path: it is on other hosts",
        )
    draft = document(source, experiment, target, workload, swept)
    host_document = draft.document
    if "replay" in host_document:
        raise problems.fail(f"workloads.{workload}.replay", "the hosts do not have the trace: use --on host")
    for key, present in (
        ("host.steady", host_document["host"]["steady"]),
        (f"workloads.{workload}.command", host_document["command"]),
        (f"workloads.{workload}.rate", host_document.get("load_ramp")),
    ):
        if present:
            raise problems.fail(key, "hosts would not run at the same time: remove it, or use --on host")
    return draft._replace(document={**host_document, "hosts": hosts, "python": fleet.python})


FLEET_FORM = CellForm("fleet", fleet_document, on_targets=True)


def host_of(name: str, hosts: Iterable[str]) -> str | None:
    """Returns the host of a device `HOST:ID`; None if it names none of them."""
    matches = [host for host in hosts if name.startswith(f"{host}:") and len(name) > len(host) + 1]
    return max(matches, key=len, default=None)


def ids_of(host: str, names: Sequence[str], hosts: Iterable[str]) -> list[str]:
    """Returns the ids of one host's devices, of names `HOST:ID`."""
    return [name.removeprefix(f"{host}:") for name in names if host_of(name, hosts) == host]
