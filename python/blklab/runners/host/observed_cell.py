"""Measures one cell and watches its devices; changes settings before, and restores them after."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final, cast

from blklab.outcome import ChangedSetting, DeviceResult, Outcome
from blklab.runners.fio import cell as fio_cell
from blklab.runners.fio.process import FioProgress
from blklab.runners.host import conditions
from blklab.runners.host.journal import HostJournal
from blklab.runners.host.machine_load import MachineLoad
from blklab.runners.host.sampler import DiskstatsSampler
from blklab.runners.host.settings import applied
from blklab.runners.host.target_locations import TargetLocation
from blklab.spec.documents import HostCellDocument
from blklab.store.finished_run import FinishedRun
from blklab.system import diskstats
from blklab.system.identity import of_node
from blklab.system.layers import SysfsLayer
from blklab.system.roots import Roots
from blklab.units import format_size

FOREIGN_SHARE: Final = 0.2  # Bytes of other programs, as a share of the jobs' bytes, that are not reported
FOREIGN_BYTES: Final = 4 << 20  # Bytes that are not reported: a filesystem's own, and I/Os in flight at the ends


def measured(
    document: HostCellDocument,
    place: TargetLocation,
    journal: HostJournal,
    *,
    warnings: Sequence[str],
    forced: Sequence[str],
    progress: Callable[[FioProgress], object],
    execute: fio_cell.Execute,
) -> FinishedRun:
    """Measures a cell at its location; `execute` runs fio. Raises BlklabError, and leaves no setting changed."""
    roots = journal.roots
    layers = conditions.layers_of(document["target"], roots)
    counted = diskstats.read(roots)
    names = [layer.name for layer in layers if counted.get(layer.name) is not None]
    uncounted = [layer.name for layer in layers if layer.name not in names]
    leaves = [layer.name for layer in layers if layer.leaf]
    begin = time.monotonic()
    with applied(document["settings"], layers, journal) as changes:
        place.verify()
        sampler = DiskstatsSampler(names, roots, document["interval_ns"], lead_ns=int(document["ramp_ns"]))
        loads: list[MachineLoad] = []

        def watch() -> None:
            watching.enter_context(sampler)
            loads.append(MachineLoad(roots))

        with ExitStack() as watching:
            figures = fio_cell.measure(
                _prepared(document, place),
                place.path,
                place.work,
                may_write=place.writes,
                progress=progress,
                proc=roots.proc,
                ready=watch,
                execute=execute,
            )
        place.verify()
        place.prepared = True
    seconds = time.monotonic() - begin
    outcome = figures.outcome
    outcome["devices"] = _devices(layers, sampler, roots)
    outcome["watched_ns"] = sampler.deltas.watched_ns
    outcome["targets"] = []
    outcome["cpu"] = sampler.cpu
    outcome["settings"] = [cast(ChangedSetting, vars(change)) for change in changes]
    outcome["forced"] = list(forced)
    outcome["warnings"] = [
        *place.warnings,
        *dict.fromkeys([*warnings, *map(str, conditions.arrays(layers))]),  # Members can fail during the run.
        *outcome["warnings"],
        *(f"{name}: the kernel does not count its I/O" for name in uncounted),
        *_ramp(outcome),
        *sampler.deltas.problems,
        *(warning for load in loads for warning in load.warnings(sampler.cpu)),
        *foreign_io(document, outcome),
        *(str(fall) for name in leaves if (fall := conditions.collapse(sampler.deltas.points, name))),
    ]
    return FinishedRun(outcome, seconds, [*figures.series, *sampler.deltas.points], figures.raw)


def _prepared(document: HostCellDocument, place: TargetLocation) -> HostCellDocument:
    """Returns the cell without the preparation that an earlier cell has done already."""
    if not place.prepared:
        return document
    return {**document, "host": {**document["host"], "precondition": "none"}}


def _devices(layers: Sequence[SysfsLayer], sampler: DiskstatsSampler, roots: Roots) -> list[DeviceResult]:
    return [
        {
            "name": layer.name,
            "kind": layer.kind,
            "above": list(layer.above),
            "leaf": layer.leaf,
            "id": None if layer.node is None else of_node(layer.node, roots).id,
            **sampler.deltas.total[layer.name].counts(),
        }
        for layer in layers
        if layer.name in sampler.deltas.total
    ]


def _ramp(outcome: Outcome) -> list[str]:
    """Returns a warning if the load ended before its ramp: fio then reports I/Os, but no latencies."""
    return [
        f"all {direction}s ended within ramp_time: their rate is that of the ramp, and there is "
        "no latency; set time_based = true, or a larger size"
        for direction in ("read", "write")
        if outcome[direction]["total_ios"] and not outcome[direction]["clat_ns"]["count"]
    ]


def foreign_io(document: HostCellDocument, outcome: Outcome) -> list[str]:
    """Returns a warning if the topmost devices transferred clearly more than the jobs.

    Only direct I/O can be compared: the page cache reads ahead, and writes later.
    """
    jobs = document["jobs"]
    if not jobs or any(job["options"].get("direct", "0") in {"0", ""} for job in jobs):
        return []
    top = [device for device in outcome["devices"] if not device.get("above")]
    own = outcome["read"]["io_bytes"] + outcome["write"]["io_bytes"]
    others = sum(sum(device["sectors"] or ()) for device in top) * 512 - own
    if others <= FOREIGN_SHARE * own + FOREIGN_BYTES:
        return []
    names = ", ".join(device["name"] for device in top)
    return [
        f"{names}: other programs transferred {format_size(others)} during the run, and the jobs {format_size(own)};"
        " find the program with iotop, or set wait in [host]"
    ]
