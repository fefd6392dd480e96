"""Measures one cell in the guest: a new stack on fresh disks, and a load with its statistics."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from blklab.errors import BlklabError
from blklab.experiment import documents
from blklab.runners.fio import jobfile
from blklab.runners.fio.cell import figures
from blklab.runners.fio.process import PATIENCE, FioProgress, Progress
from blklab.runners.lab.cache_fill import prepare
from blklab.runners.lab.disk_shapes import shapes
from blklab.runners.lab.event_trace import TRACE, TRACES, recorded_stack, tracing
from blklab.runners.lab.fault_schedule import FaultSchedule
from blklab.runners.lab.fio_in_guest import play
from blklab.runners.lab.guest_facts import describe_guest
from blklab.runners.lab.guest_files import save
from blklab.runners.lab.io_cost import measure_io_cost
from blklab.runners.lab.layer_activity import DISKSTATS, STAT, compute_activity
from blklab.runners.lab.machine.boot import GuestMachine
from blklab.runners.lab.machine.qemu import VirtualDisk
from blklab.runners.lab.processor_pressure import PressureMeter
from blklab.runners.lab.rates import DiskRates, rates
from blklab.runners.lab.result_doubts import check
from blklab.runners.lab.stacks.build import apply_settings, build
from blklab.runners.lab.stacks.guest import GuestStack
from blklab.store.series import FinishedRun, pack_output

EVERY = "all"  # Selects every layer for tracing
SPAN_MS = 250  # ms between two readings of the devices' statistics: the precision of the load's start and end
SLOW_MS = 1_000  # The same if the duration of the load is unknown
READINGS = 15_000  # Most samples in a run, of the 20,000 that the agent keeps (crates/agent/src/files.rs)


def measure(
    machine: GuestMachine,
    document: documents.LabCellDocument,
    progress: Callable[[FioProgress], object],
    *,
    scale: float = 1,
    traced_layers: Sequence[str] = (),
    traces: Path | None = None,
) -> FinishedRun:
    """Measures a cell, its devices' rates divided by `scale`. Raises BlklabError.

    Afterwards check whether the guest can serve another cell. `traced_layers` are layers whose events
    are recorded, by name or EVERY, into `traces`.
    """
    began = time.monotonic()
    machine.io_cost = machine.io_cost or measure_io_cost(machine)
    disks = [machine.disk(shape) for shape in shapes(document)]
    disk_rates = rates(document, scale)
    document = _scale_latencies(document, scale)
    guest = GuestStack(machine.agent)
    try:
        for disk in disks:
            machine.throttle(disk, {})
            disk.clear()
        with machine.add_kernel_complaints():
            target = build(guest, document, [disk.serial for disk in disks])
            apply_settings(guest, document["settings"])
            prepare(machine, guest, document, target, progress)
            for disk, limits in zip(disks, disk_rates.limits, strict=True):
                machine.throttle(disk, limits)
            finished_run = _load(machine, guest, document, target, progress, traced_layers, traces, disk_rates)
    except BlklabError:  # if blklab is interrupted, the guest is thrown away as it is
        if machine.agent.connected:
            with suppress(BlklabError):
                _take_down(machine, guest, disks)
        raise
    try:
        _take_down(machine, guest, disks)
    except BlklabError as error:  # the result stays valid; the runner boots a new guest
        if not machine.agent.connected:
            raise
        finished_run.outcome.warnings = [*finished_run.outcome.warnings, f"after the load: {error}"]
    return FinishedRun(finished_run.outcome, time.monotonic() - began, finished_run.points, finished_run.raw)


def _take_down(machine: GuestMachine, guest: GuestStack, disks: Sequence[VirtualDisk]) -> None:
    """Removes everything of a cell from the guest. Raises BlklabError if something remains."""
    machine.spoilt = True  # until it is known to be as it was
    for disk in disks:
        machine.throttle(disk, {})
    problems = guest.undo()
    machine.spoilt = bool(problems)
    if problems:
        raise BlklabError(f"cannot remove the stack: {problems[0]}")


def _load(
    machine: GuestMachine,
    guest: GuestStack,
    document: documents.LabCellDocument,
    target: str,
    progress: Progress,
    traced_layers: Sequence[str],
    traces: Path | None,
    disk_rates: DiskRates,
) -> FinishedRun:
    interval_ns = int(document["interval_ns"])
    log_ms = max(1, interval_ns // 10**6)
    span_ms = _span_ms(document, log_ms)
    recorded_layers = [layer for layer in guest.layers if layer.name in traced_layers or EVERY in traced_layers]
    # A cache's counts take seconds to clear, in which a rebuild could be over.
    for ready in guest.readying:
        ready()
    with ExitStack() as exit_stack:
        trace_problems = exit_stack.enter_context(tracing(machine, guest, recorded_layers)) if recorded_layers else []
        faults = FaultSchedule(guest, document)
        waiting = PressureMeter()
        samples = exit_stack.enter_context(machine.agent.sampling(span_ms, [DISKSTATS, STAT]))
        ran = play(*(machine, document, target, faults.listening(progress)), log_ms=log_ms, alongside=faults)
        cpu_wait_share = waiting.share()
    fio_figures = figures(ran, interval_ns, log_ms, timed=document.get("replay", {}).get("timed", False))
    activity = compute_activity(guest, samples, document)
    outcome = fio_figures.outcome
    outcome.devices = activity.devices
    outcome.watched_ns = activity.watched_ns
    outcome.cpu = activity.cpu
    outcome.targets = [report() for report in guest.reports]
    outcome.mdstat = guest.read("/proc/mdstat")
    outcome.lab = describe_guest(machine, guest, document, disk_rates, cpu_wait_share)
    outcome.warnings = [
        *map(str, check(document, disk_rates, activity.cpu)),
        *outcome.warnings,
        *activity.problems,
        *faults.problems,
        *trace_problems,
    ]
    if recorded_layers and traces is not None:
        save(machine, f"{TRACES}/*", traces, old=TRACE)
        (traces / "blklab.json").write_text(json.dumps({"stack": recorded_stack(guest)}, indent=2) + "\n")
        guest.run("rm", "-rf", TRACES)  # out of the guest's memory
        outcome.lab.traces = str(traces)
    return FinishedRun(outcome, 0.0, [*fio_figures.series, *activity.points], pack_output(ran.output))


def _scale_latencies(document: documents.LabCellDocument, scale: float) -> documents.LabCellDocument:
    """Returns a cell with its latencies scaled like its rates."""
    devices: list[documents.LabDeviceDocument] = []
    for device in document["devices"]:
        model = device["model"]
        if model["kind"] == "throttled" and (latency := int(documents.latency_ns(model) * scale)):
            model = {**model, "latency_ns": latency}
        devices.append({**device, "model": model})
    return {**document, "devices": devices}


def _span_ms(document: documents.LabCellDocument, log_ms: int) -> int:
    """Returns the time between two readings, so that their number stays below the agent's limit."""
    seconds = jobfile.seconds(document)
    if seconds is None:
        return max(SLOW_MS, min(SPAN_MS, log_ms))
    return max(min(SPAN_MS, log_ms), int((seconds + PATIENCE) * 1000 / READINGS) + 1)
