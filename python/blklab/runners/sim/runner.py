"""The simulator as a runner: many cells at a time, in threads without Python's lock or on a cluster.

It also simulates what a device's maker states, to show both next to each other.
"""

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, cast

from blklab import _core
from blklab.cluster import HERE, Parallel, connect_cluster
from blklab.devices import stock_models
from blklab.devices.stock_models import LibraryModel, RatedFigure
from blklab.errors import BlklabError, UsageError
from blklab.experiment.cell_form import ReplaySource
from blklab.experiment.cells import Cell, ExperimentPlan, plan
from blklab.experiment.load import ExperimentSource
from blklab.grouping import by_key
from blklab.outcome import CROWDED, Outcome
from blklab.runners.base import Ledger, Runner
from blklab.runners.load_ramp import measure_ramp, without_ramp
from blklab.runners.sim.cache_states import describe_states, with_full_caches
from blklab.runners.sim.placements import describe_placements, reach_other_placement, with_other_placement
from blklab.runners.sim.steady_runs import simulate_steadily
from blklab.runners.sim.uncertainty import (
    find_key_share,
    has_small_cache,
    interval,
    is_deep_mirror,
    is_unmeasured,
    other_run,
    reads_streams_of_mirrors,
    seed_count,
    total_iops,
    unsteady,
    waits_for_short_pages,
)
from blklab.store import series
from blklab.store.series import FinishedRun

FULL = -1
"""Instead of a seed: the simulation with full caches of single-bit cells."""

OTHER_PLACEMENT = -2
"""Instead of a seed: the simulation with the data at the other place on rotating disks."""

DEEP_MIRROR_NOTE = (
    "measured RAID-1 of NVMe disks with many I/Os in flight were 3 to 3.9 times away from the prediction, "
    "for an unknown reason: its interval is wider"
)
SHORT_PAGES_NOTE = (
    "up to Linux 6.3 md writes the last page of the bitmap in part, and these disks read before they write it: "
    "this costs the one measured array far more than its price in the simulation, so the interval reaches down to it"
)
KEYS_NOTE = "the worker of the bcache limits it: what a key takes there differs between hosts, so its interval is wider"
UNMEASURED_NOTE = "no measurement of such an array is known: its interval is wider"


STREAMS_NOTE = (
    "sequential reads of a mirror: which disk serves which stream is not simulated well. Published rates are up to a "
    "factor of two away, so the interval is wider"
)
SMALL_CACHE_NOTE = (
    "the data are at least twice as large as the cache. Published rates of such caches are up to a factor of 2.7 away, "
    "so the interval is wider"
)


def make_device_cell(
    path: Path, device: Mapping[str, object], workload: tuple[str, Mapping[str, object]], settings: Mapping[str, object]
) -> Cell:
    """Returns the cell of a workload, given with its name, on one device. `path` is in errors. Raises UsageError."""
    tables = {"devices": {"device": dict(device)}, "stacks": {"alone": {"device": "device"}}}
    raw = {**tables, "workloads": {workload[0]: dict(workload[1])}, "settings": dict(settings)}
    return plan(ExperimentSource(path, raw)).cells[0]


def outcome(document: Mapping[str, Any], stop: _core.Stop | None = None, replay: ReplaySource | None = None) -> Outcome:
    """Simulates one cell's document, with the trace that it replays, and returns the figures.

    Raises UsageError for an invalid cell.
    """
    trace = None if replay is None else ([replay.path], replay.format, replay.device)
    return Outcome.from_document(json.loads(_core.simulate(json.dumps(document), stop, trace)))


def outcomes(documents: Sequence[Mapping[str, Any]], parallel: Parallel = HERE) -> list[Outcome]:
    """Simulates several documents. The results do not depend on where."""
    return parallel.all(outcome, documents)


def check(cells: Sequence[Cell]) -> None:
    """Builds every cell without simulating it. Raises UsageError for one that cannot work."""
    for cell in cells:
        try:
            _core.check_cell(json.dumps(without_ramp(cell.document)))
        except UsageError as error:
            raise UsageError(f"{cell.name}: {error}") from error


class SimRunner(Runner):
    """The runner `sim`. Simulations do not disturb each other."""

    def __init__(
        self,
        jobs: int | None = None,
        cluster: str | None = None,
        warn: Callable[[str], object] = lambda _line: None,
        cores: int | None = None,
        seed_count: Callable[[Cell], int] = seed_count,
    ) -> None:
        """Simulates `jobs` cells at a time, by default as many as there are CPUs, or all on a cluster.

        `warn` shows messages about the cluster. Tasks share `cores`, if the experiment does not say how many.
        """
        self._parallel = Parallel(jobs)
        self._address = cluster
        self._warn = warn
        self._cores = cores
        self._seed_count = seed_count

    def adapt_plan(self, plan: ExperimentPlan) -> ExperimentPlan:
        """Returns the plan with the cores."""
        return with_cores(plan, self._cores) if self._cores else plan

    @contextmanager
    def session(self) -> Iterator[None]:
        """Connects to the cluster. Raises EnvironmentLacks."""
        if self._address is None:
            yield
            return
        with connect_cluster(self._address, self._warn) as cluster:
            self._parallel = replace(self._parallel, cluster=cluster)
            yield

    def check(self, plan: ExperimentPlan) -> None:
        """Raises UsageError for a cell that cannot work."""
        check(plan.cells)

    def run(self, cells: Sequence[Cell], ledger: Ledger) -> None:
        """Simulates cells; reports those that fail to the ledger, and goes on with the others.

        Cells that only differ in kernels, and in nothing that a simulation depends on, are simulated once.
        """
        groups = by_key((_simulation(cell), cell) for cell in cells)
        simulations: list[tuple[list[Cell], int]] = []
        results: dict[int, dict[int, FinishedRun | BlklabError]] = {}  # Of each seed, by cell
        simulation_counts: dict[int, int] = {}  # How often each cell is simulated

        def begun() -> Iterator[Cell]:
            for group in groups.values():
                begun = [cell for cell in group if ledger.begin(cell)]
                if not begun:
                    continue
                variants = {seed: other_run(begun[0], seed) for seed in range(self._seed_count(begun[0]))}
                if full := with_full_caches(begun[0]):
                    variants[FULL] = full
                if other := with_other_placement(begun[0]):
                    variants[OTHER_PLACEMENT] = other
                simulation_counts[begun[0].number] = len(variants)
                for seed, cell in variants.items():
                    simulations.append((begun, seed))
                    yield cell

        for number, result in self._parallel.each(simulate_cell, begun()):
            group, seed = simulations[number]
            first = group[0]
            results.setdefault(first.number, {})[seed] = result
            if len(results[first.number]) < simulation_counts[first.number]:
                continue
            by_seed = results.pop(first.number)
            errors = [run for _, run in sorted(by_seed.items()) if isinstance(run, BlklabError)]
            finished = cast(dict[int, FinishedRun], by_seed)
            full_run = finished.pop(FULL, None)
            other_placement = finished.pop(OTHER_PLACEMENT, None)
            runs = [run for _, run in sorted(finished.items())]
            for cell in group:
                if errors:
                    ledger.fail(cell, str(errors[0]))
                else:
                    ledger.end(cell, make_prediction(cell, runs, full_run, other_placement))


def _simulation(cell: Cell) -> str:
    """Returns a digest of what a cell simulates: equal for cells whose results are equal."""
    document = cell.document | {"kernel": _core.kernel_changes(cell.document["kernel"])}
    return replace(cell, document=document, labels={}).key


def with_cores(plan: ExperimentPlan, cores: int) -> ExperimentPlan:
    """Returns a plan whose cells have this number of cores, if the experiment does not say it."""
    cells = [
        replace(cell, document={**cell.document, "host": {"cores": cores, **cell.document.get("host", {})}})
        for cell in plan.cells
    ]
    return replace(plan, cells=cells)


def make(
    *, jobs: int | None, cluster: str | None, this_host: bool, warn: Callable[[str], object], **_note: object
) -> SimRunner:
    """Makes the runner for `blklab run`. Raises UsageError."""
    if jobs and cluster:
        raise UsageError("--jobs: the workers of --cluster say how many cells they run at the same time")
    return SimRunner(jobs, cluster, warn, len(os.sched_getaffinity(0)) if this_host else None)


def simulate_cell(cell: Cell, /, *, stop: _core.Stop | None = None) -> FinishedRun:
    """Simulates a cell, at each rate of its ramp. Raises UsageError for a cell that makes no sense."""
    begin = time.perf_counter()

    def simulate_once(document: dict[str, Any]) -> Outcome:
        return outcome(document, stop, cell.replay)

    def simulate(document: Mapping[str, object]) -> FinishedRun:
        _, result = simulate_steadily(cell, dict(document), simulate_once)
        return FinishedRun(replace(result, series=()), 0.0, series.of_outcome(result.series))

    return replace(measure_ramp(cell.document, simulate), seconds=time.perf_counter() - begin)


def make_prediction(
    cell: Cell,
    runs: Sequence[FinishedRun],
    full_run: FinishedRun | None = None,
    other_placement: FinishedRun | None = None,
) -> FinishedRun:
    """Returns the run of a cell that is nearest to the mean of all, with the interval that all show.

    `runs` are those of `other_run`. A cell with a ramp is shown by its first run, since the others have none.
    `full_run` is the cell with full caches of single-bit cells, `other_placement` that of `with_other_placement`.
    """
    number = 0 if cell.document.get("load_ramp") else find_typical_run([run.outcome for run in runs])
    typical_run = runs[number]
    outcomes = [replace(run.outcome, series=series.as_outcome(run.points)) for run in runs]
    typical = outcomes.pop(number)
    prediction_interval = interval(cell, typical, outcomes)
    warnings = []
    if is_deep_mirror(cell):
        warnings.append(DEEP_MIRROR_NOTE)
    elif is_unmeasured(cell, typical):
        warnings.append(UNMEASURED_NOTE)
    if waits_for_short_pages(typical):
        warnings.append(SHORT_PAGES_NOTE)
    if find_key_share(typical) >= CROWDED:
        warnings.append(KEYS_NOTE)
    if reads_streams_of_mirrors(cell):
        warnings.append(STREAMS_NOTE)
    if has_small_cache(cell):
        warnings.append(SMALL_CACHE_NOTE)
    cuts = dict.fromkeys(unsteady(cell, run) for run in [typical, *outcomes])
    for cut in filter(None, cuts):
        warnings.append(f"not steady: the run ended before its rate was constant: set a larger {cut}")
    if prediction_interval.states:
        warnings.append(describe_two_states(prediction_interval.states, [typical, *outcomes]))
    if full_run is not None:
        full = replace(full_run.outcome, series=series.as_outcome(full_run.points))
        warnings += describe_states(cell, typical, full)
    if other_placement is not None:
        other = replace(other_placement.outcome, series=series.as_outcome(other_placement.points))
        prediction_interval = reach_other_placement(cell, typical, prediction_interval, other)
        warnings += describe_placements(cell, typical, prediction_interval, other)
    first = typical_run.outcome
    prediction = replace(first, interval=prediction_interval, warnings=(*first.warnings, *warnings))
    return replace(typical_run, outcome=prediction, seconds=sum(run.seconds for run in runs))


def find_typical_run(outcomes: Sequence[Outcome]) -> int:
    """Returns the number of the outcome whose IOPS are nearest to the mean of all, the first of several."""
    rates = [math.log(total_iops(outcome)) for outcome in outcomes]
    mean = fmean(rates)
    return min(range(len(rates)), key=lambda number: abs(rates[number] - mean))


def describe_two_states(states: tuple[float, float], outcomes: Sequence[Outcome]) -> str:
    """Returns a note on two IOPS at which the runs of a cell settle, with how many of them settle at which."""
    low, high = states
    middle = math.sqrt(low * high)
    low_count = sum(total_iops(outcome) < middle for outcome in outcomes)
    return f"two states: {low:,.0f} IOPS in {low_count} of {len(outcomes)} simulated runs, {high:,.0f} in the others"


TESTS: dict[str, dict[str, Any]] = {
    "random_read_iops": {"rw": "randread", "bs": "4k", "iodepth": 32},
    "random_write_iops": {"rw": "randwrite", "bs": "4k", "iodepth": 32},
    "steady_random_write_iops": {"rw": "randwrite", "bs": "4k", "iodepth": 32},
    "read_bandwidth": {"rw": "read", "bs": "128k", "iodepth": 32},
    "write_bandwidth": {"rw": "write", "bs": "128k", "iodepth": 32},
    "average_seek_ms": {"rw": "randread", "bs": "4k", "iodepth": 1},
}
"""The loads of data sheets."""

NVME_JOBS = 8  # Jobs of random I/O on an NVMe disk or a volume: data sheets have 256 in flight, or more
RUNTIME = {"hdd": "20s", "throttled": "10s"}  # Of others: half a second
USED_RUNTIME = "4s"  # Of a used disk, whose memory takes the first writes
VIRTUAL_SIZE = "64GiB"  # Size of a virtual disk, which states none


def simulate_rated_figures(models: Sequence[LibraryModel]) -> dict[str, list[RatedFigure]]:
    """Simulates models; returns their rated figures by name of the model."""
    tests = [(model, name) for model in models for name in TESTS if name in model.rated]
    results = outcomes([_cell(model, name).document for model, name in tests])
    figures: dict[str, list[RatedFigure]] = {model.name: [] for model in models}
    for (model, name), outcome in zip(tests, results, strict=True):
        direction = outcome.write if "write" in name else outcome.read
        if name == "average_seek_ms":
            table = stock_models.stock(model.name)
            half_turn = 30_000 / table["rpm"]
            figure = 1000 / direction.iops - half_turn - table["command_ns"] / 1e6
        else:
            figure = direction.bw_bytes if "bandwidth" in name else direction.iops
        figures[model.name].append(RatedFigure(name, model.rated[name], figure))
    return figures


def _cell(model: LibraryModel, name: str) -> Cell:
    table = stock_models.stock(model.name)
    device = {"model": model.name}
    if "capacity" not in table:
        device["size"] = VIRTUAL_SIZE
    if model.kind in {"ssd", "nvme"}:
        device["state"] = "steady" if name.startswith("steady") else "fresh"
    workload = {**TESTS[name], "time_based": True}
    if model.kind in {"nvme", "throttled"} and "random" in name:
        workload["numjobs"] = NVME_JOBS
    runtime = USED_RUNTIME if device.get("state") == "steady" else RUNTIME.get(model.kind, "500ms")
    return make_device_cell(Path(f"{model.name}.toml"), device, (name, workload), {"kernel": "6.1", "runtime": runtime})
