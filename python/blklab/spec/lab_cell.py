"""A cell as the lab takes it: virtual disks, a tree of what is built of them, jobs in fio's words.

    {kernel, lab: {scale, cpus, memory}, devices: [...], stack: node, failures: [...],
     filesystem: {type} | None, room, jobs: [{name, options}], alone: [...], runtime_ns, ramp_ns,
     interval_ns, settings}

Devices, nodes and `failures` are those of `blklab.spec.stack_resolution`; a device also says what its virtual disk is
like (`virtual`). `room` is what jobs may use, bytes. `alone` are the jobs as the simulator takes them, within the
smallest device: what a modelled device does with them alone is what its disk is throttled to. `settings` are those of
`blklab.spec.sweep`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from blklab.documents import cell
from blklab.spec import host_cell, jobs, load, problems, sim_cell, stack_resolution, sweep
from blklab.spec.cell_form import CellForm, Made
from blklab.spec.device import DiskTable
from blklab.spec.documents import FailureDocument, ReplayDocument, VirtualDiskDocument
from blklab.spec.experiment import Experiment, Settings, Target
from blklab.spec.workload import Command, Job
from blklab.units import format_duration

FILE_SHARE = 0.9  # Share of a filesystem's device that a file in it may take: the filesystem needs the rest
QUEUE = ("scheduler", "max_sectors_kb", "nr_requests", "wbt_lat_usec")
"""Keys of a device's queue that are changed only if they are given. A change of scheduler resets
the keys after it (block/elevator.c, `elevator_switch`)."""


def document(
    source: load.ExperimentSource, experiment: Experiment, stack: str, workload: str, swept: Mapping[str, Any]
) -> Made:
    """Returns a cell's document without the seed, and the bytes that jobs may use."""
    built = stack_resolution.build(experiment, stack)
    settings = experiment.settings
    for name, table in experiment.stacks.items():
        if getattr(table, "bitmap", None) == "lockless":
            message = "a lockless bitmap needs mdadm 4.6, which no lab image has: use --on sim"
            raise problems.fail(f"stacks.{name}.bitmap", message)
    if any(disk.controller for disk in built.tables):
        raise problems.fail("controllers", "only the simulator has controllers: use --on sim")
    path, workload_table, tables = sim_cell.job_tables(experiment, workload)
    if isinstance(workload_table, Command):
        raise problems.fail(f"{path}.command", "commands do not run in the lab: use --on host")
    filesystem = settings.filesystem_type
    if filesystem == "ext3":
        raise problems.fail("settings.filesystem", "'ext3' is not available in the lab: use ext4 or xfs")
    room = built.capacity
    if filesystem is not None:
        room = int(room * FILE_SHARE) >> 20 << 20
    place = Target(directory="/", size=room // 512 * 512)
    load_of, notes = host_cell.fio_load(source, settings, workload, path, workload_table, tables, stack, place)
    _check_failures(built.failures, load_of["runtime_ns"], load_of["ramp_ns"])
    tried = {key: sweep.text(value) for key, value in swept.items()}
    others = {} if settings.read_ahead is None else {"read_ahead_kb": str(settings.read_ahead)}
    others |= {key: value for key, value in tried.items() if key not in (*QUEUE, "rotational")}
    made = {
        "kernel": settings.kernel,
        "lab": experiment.lab.model_dump(),
        "devices": [
            {**device, "virtual": _virtual(device, disk, settings, tried)}
            for device, disk in zip(built.devices, built.tables, strict=True)
        ],
        "stack": built.node,
        "failures": built.failures,
        "filesystem": None if filesystem is None else {"type": filesystem},
        "room": room,
        "alone": _alone(tables, load_of.get("replay"), stack, built),
        "settings": others,
        **load_of,
    }
    return Made(made, room, notes=notes)


FORM = CellForm("lab", document)


def _check_failures(failures: Sequence[FailureDocument], runtime_ns: int | None, ramp_ns: int) -> None:
    """Raises SpecProblems for a member that would fail, or come back, after the load has ended."""
    if not runtime_ns:
        return
    seen: Counter[str] = Counter()
    for failure in failures:
        array = failure["array"]
        path = f"stacks.{array}.fail[{seen[array]}]"
        seen[array] += 1
        for key, at_ns in (("at", failure["at_ns"]), ("re_add", failure["re_add_ns"])):
            if at_ns is not None and at_ns >= ramp_ns + runtime_ns:
                raise problems.fail(
                    f"{path}.{key}",
                    f"{format_duration(at_ns)} is after the end of the load, which takes "
                    f"{format_duration(ramp_ns + runtime_ns)} with its ramp",
                )


def _alone(
    tables: Mapping[str, tuple[str, Job]],
    replay: ReplayDocument | None,
    stack: str,
    built: stack_resolution.ResolvedStack,
) -> list[cell.Job]:
    """Returns the jobs as the simulator takes them; none if no device has a model.

    For a trace it is random I/O of its mean size, with its share of reads and many I/Os in flight.
    """
    if all(device["model"]["kind"] == "throttled" for device in built.devices):
        return []
    smallest = min(device["bytes"] for device in built.devices)
    jobs_alone: list[cell.Job] = []
    if replay is not None:
        mixed = Job(rw="randrw", rwmixread=round(100 * replay["read_share"]), bs=str(replay["mean_bytes"]))
        tables = {"replay": ("replay", mixed.model_copy(update={"iodepth": replay["iodepth"]}))}
    for name, (path, job) in tables.items():
        bare = job.model_copy(update={"options": {}, "direct": True})
        document = jobs.job_document(name, bare, path, stack, built.capacity)
        document["size"] = min(document["size"], smallest) // document["align"] * document["align"]
        jobs_alone.append({**document, "offset": 0, "offset_increment": 0, "io_bytes": jobs.ENDLESS})
    return jobs_alone


def _virtual(device: cell.Device, disk: DiskTable, settings: Settings, tried: Mapping[str, str]) -> VirtualDiskDocument:
    """Returns what a virtual disk reports, and the changes to its queue, in their order.

    Values of the sweep replace the device's, and the device's replace the general settings.
    """
    queue = {"rotational": str(int(device["queue"]["rotational"]))}
    for key in QUEUE:
        given = getattr(disk, key)
        value = getattr(settings, key, None) if given is None else given
        if value is not None:
            queue[key] = sweep.text(value)
    document: VirtualDiskDocument = {
        "logical_block_size": disk.logical_block_size,
        "physical_block_size": max(disk.physical_block_size, disk.logical_block_size),
        "discard": disk.discard,
        "queue": {
            key: tried.get(key, queue.get(key, "")) for key in ("rotational", *QUEUE) if key in tried or key in queue
        },
    }
    if depth := disk.queue_depth or settings.queue_depth:
        document["queue_depth"] = 1 << min(max(depth, 4), 1024).bit_length() - 1  # as QEMU takes it
    return document
