"""A cell as the lab takes it: virtual disks, a tree of what is built of them, jobs in fio's words.

    {kernel, lab: {scale, cpus, memory}, devices: [...], stack: node, failures: [...],
     filesystem: {type} | None, room, jobs: [{name, options}], alone: [...], runtime_ns, ramp_ns,
     interval_ns, settings}

Devices, nodes and `failures` are those of `blklab.experiment.stack_resolution`; a device also says what its virtual
disk is like (`virtual`). `room` is what jobs may use, bytes. `alone` are the jobs as the simulator takes them, within
the smallest device: what a modelled device does with them alone is what its disk is throttled to. `settings` are
those of `blklab.experiment.sweep`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from blklab.devices.device import DiskTable
from blklab.documents import cell
from blklab.experiment import host_cell, jobs, load, sim_cell, stack_resolution, sweep
from blklab.experiment.cell_form import CellDraft, CellForm
from blklab.experiment.documents import FailureDocument, FilesystemDocument, ReplayDocument, VirtualDiskDocument
from blklab.experiment.tables import Experiment, Settings, Target
from blklab.experiment.workload import Command, Job
from blklab.toml_files import problems
from blklab.units import format_duration

FILE_SHARE = 0.9  # Share of a filesystem's device that a file in it may take: the filesystem needs the rest
QUEUE = ("scheduler", "max_sectors_kb", "nr_requests", "wbt_lat_usec")
"""Keys of a device's queue that are changed only if they are given. A change of scheduler resets
the keys after it (block/elevator.c, `elevator_switch`)."""


def document(
    source: load.ExperimentSource, experiment: Experiment, stack: str, workload: str, swept: Mapping[str, Any]
) -> CellDraft:
    """Returns a cell's document without the seed, and the bytes that jobs may use."""
    resolved_stack = stack_resolution.build(experiment, stack)
    settings = experiment.settings
    for name, table in experiment.stacks.items():
        if getattr(table, "bitmap", None) == "lockless":
            message = "a lockless bitmap needs mdadm 4.6, which no lab image has: use --on sim"
            raise problems.fail(f"stacks.{name}.bitmap", message)
    if any(disk.controller for disk in resolved_stack.tables):
        raise problems.fail("controllers", "only the simulator has controllers: use --on sim")
    path, workload_table, tables = sim_cell.job_tables(experiment, workload)
    if isinstance(workload_table, Command):
        raise problems.fail(f"{path}.command", "commands do not run in the lab: use --on host")
    filesystem = settings.filesystem_type
    if filesystem == "ext3":
        raise problems.fail("settings.filesystem", "'ext3' is not available in the lab: use ext4 or xfs")
    room = resolved_stack.capacity
    if filesystem is not None:
        room = int(room * FILE_SHARE) >> 20 << 20
    place = Target(directory="/", size=room // 512 * 512)
    fio_fields, notes = host_cell.fio_load(source, settings, workload, path, workload_table, tables, stack, place)
    _check_failures(resolved_stack.failures, fio_fields["runtime_ns"], fio_fields["ramp_ns"])
    swept_texts = {key: sweep.format_value(value) for key, value in swept.items()}
    other_settings = {}
    for kernel_key, key in sweep.SIMULATED.items():
        value = getattr(settings, key)
        if value is not None and (kernel_key == "read_ahead_kb" or kernel_key.startswith(sweep.VM)):
            other_settings[kernel_key] = str(value)
    other_settings |= {key: value for key, value in swept_texts.items() if key not in (*QUEUE, "rotational")}
    lab_document = {
        "kernel": settings.kernel,
        "lab": experiment.lab.model_dump(),
        "devices": [
            {**device, "virtual": _virtual(device, disk, settings, swept_texts)}
            for device, disk in zip(resolved_stack.devices, resolved_stack.tables, strict=True)
        ],
        "stack": resolved_stack.node,
        "failures": resolved_stack.failures,
        "filesystem": None if filesystem is None else _filesystem(filesystem, resolved_stack),
        "room": room,
        "alone": _single_disk_jobs(tables, fio_fields.get("replay"), stack, resolved_stack),
        "settings": other_settings,
        **fio_fields,
    }
    return CellDraft(lab_document, room, notes=[*notes, *sim_cell.journal_notes(settings, resolved_stack)])


FORM = CellForm("lab", document)


def _filesystem(kind: str, resolved_stack: stack_resolution.ResolvedStack) -> FilesystemDocument:
    """Returns the filesystem that is made on the stack."""
    if resolved_stack.journal is None:
        return {"type": kind}
    return {"type": kind, "journal": resolved_stack.journal}


def _check_failures(failures: Sequence[FailureDocument], runtime_ns: int | None, ramp_ns: int) -> None:
    """Raises SpecProblems for a member that would fail, or come back, after the load has ended."""
    if not runtime_ns:
        return
    counts: Counter[str] = Counter()
    for failure in failures:
        array = failure["array"]
        path = f"stacks.{array}.fail[{counts[array]}]"
        counts[array] += 1
        for key, at_ns in (("at", failure["at_ns"]), ("re_add", failure["re_add_ns"])):
            if at_ns is not None and at_ns >= ramp_ns + runtime_ns:
                raise problems.fail(
                    f"{path}.{key}",
                    f"{format_duration(at_ns)} is after the end of the load, which takes "
                    f"{format_duration(ramp_ns + runtime_ns)} with its ramp",
                )


def _single_disk_jobs(
    tables: Mapping[str, tuple[str, Job]],
    replay: ReplayDocument | None,
    stack: str,
    resolved_stack: stack_resolution.ResolvedStack,
) -> list[cell.Job]:
    """Returns the jobs as the simulator takes them; none if no device has a model.

    For a trace it is random I/O of its mean size, with its share of reads and many I/Os in flight.
    """
    if all(device["model"]["kind"] == "throttled" for device in resolved_stack.devices):
        return []
    own_devices = resolved_stack.devices[: resolved_stack.own_devices]
    smallest = min(device["bytes"] for device in own_devices)
    jobs_alone: list[cell.Job] = []
    if replay is not None:
        random_job = Job(rw="randrw", rwmixread=round(100 * replay["read_share"]), bs=str(replay["mean_bytes"]))
        tables = {"replay": ("replay", random_job.model_copy(update={"iodepth": replay["iodepth"]}))}
    for name, (path, job) in tables.items():
        bare = job.model_copy(update={"options": {}, "direct": True})
        document = jobs.job_document(name, bare, path, stack, resolved_stack.capacity)
        document["size"] = min(document["size"], smallest) // document["align"] * document["align"]
        jobs_alone.append({**document, "offset": 0, "offset_increment": 0, "io_bytes": jobs.ENDLESS})
    return jobs_alone


def _virtual(
    device: cell.Device, disk: DiskTable, settings: Settings, swept_texts: Mapping[str, str]
) -> VirtualDiskDocument:
    """Returns what a virtual disk reports, and the changes to its queue, in their order.

    Values of the sweep replace the device's, and the device's replace the general settings.
    """
    queue = {"rotational": str(int(device["queue"]["rotational"]))}
    for key in QUEUE:
        device_value = getattr(disk, key)
        value = getattr(settings, key, None) if device_value is None else device_value
        if value is not None:
            queue[key] = sweep.format_value(value)
    document: VirtualDiskDocument = {
        "logical_block_size": disk.logical_block_size,
        "physical_block_size": max(disk.physical_block_size, disk.logical_block_size),
        "discard": disk.discard,
        "queue": {
            key: swept_texts.get(key, queue.get(key, ""))
            for key in ("rotational", *QUEUE)
            if key in swept_texts or key in queue
        },
    }
    if depth := disk.queue_depth or settings.queue_depth:
        document["queue_depth"] = 1 << min(max(depth, 4), 1024).bit_length() - 1  # as QEMU takes it
    return document
