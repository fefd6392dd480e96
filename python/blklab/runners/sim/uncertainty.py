"""The interval in which a measurement is expected, given a simulation.

The logarithm of measured over predicted IOPS is taken to be normal. Its variance is the sum of three: that of the
devices' models (`uncertainty` of a device: the residuals of its calibration, or how certain the library is), that of
the host's processors if they were not measured, and that of the simulated kernel. None is fitted to published arrays,
so `accuracy/run published` can count how many of them are inside.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from statistics import fmean, variance
from typing import Any, cast

from blklab import outcome as outcomes
from blklab.devices.device import Uncertainty
from blklab.documents.cell import Device as DeviceDocument
from blklab.documents.outcome import LockUse, MdReport, TargetReport
from blklab.experiment.cells import Cell
from blklab.experiment.documents import arrays_and_volumes
from blklab.experiment.host_prices import is_measured
from blklab.experiment.placement import CACHES, share_of_stack
from blklab.md.levels import PARITIES
from blklab.runners.load_ramp import without_ramp
from blklab.units import SECTOR

KERNEL = 0.065
"""The deviation of IOPS if the devices are known exactly: a little more than the root mean square of the logarithmic
errors of the cells that `accuracy/run agreement --recorded` compares with real kernels."""

TAIL = 0.42
"""The deviation that a 99th percentile has in addition. No table has percentiles: in reference/randomio_runs.csv, the
mean plus 2.33 standard deviations of the read latency differs from the prediction by 0.44, and IOPS by 0.12."""

HOST = 0.5
"""The deviation of the time that a processor needs for an I/O, on a host that was not measured. Six published
hosts need 1.4 to 3.6 µs for one of 4 KiB with libaio on NVMe, and one of them 8 µs on SATA: deviations of 0.4 and
0.6."""

HANDOVER = (0.25, 3.0)
"""How long the fastest and the slowest host hold a lock that many cores want: 0.1 and 1.2 µs, for 0.4 µs. The slowest
is a Kunpeng 920 with four NUMA nodes, of which a RAID-10 read 3.2 GiB/s before b9b083f9044a."""

ROWS = 0.24
"""The deviation of what a thread of md needs for a row of the stripe cache: 6 to 10 µs for a small write, 40 % with
parity and batches that no measurement shows."""

KEYS = 0.37
"""The deviation of a bcache whose worker is always busy: the root mean square of the logarithmic errors of two
published ones, with 124,000 and 161,000 writes per second, which it is made from. A key takes 4 to 6 µs."""

MIRRORS = 0.83
"""The deviation of RAID-1 of NVMe disks with many I/Os in flight. Measured ones of two disks were 3 to 3.9 times away
from the prediction, and no mechanism with a known price explains it: the interval reaches as far as the farther one."""

DEEP = 32  # I/Os in flight of all jobs, above which these are many

SHORT_PAGES = 1_676 / 46_000
"""The IOPS of the only measured array on whose disks a short page of the bitmap was slow, as a share of the predicted
ones (8745faa95611: RAID-10 of four Intel P5520, one random write at a time)."""

SHORT_PAGE_SHARE = 0.05  # Of the time that short pages take, from which on they count

UNMEASURED = 0.3
"""The deviation of arrays that no measurement shows: what md's threads and locks cost there is a sum of steps."""

COMMITS = 0.3
"""The deviation of loads that wait for the commits of a filesystem's journal on disks with a model: as that of arrays
which no measurement shows. The disks of the lab, which judge commits (reference/journals.toml), flush at no cost."""

MEASURED_IOPS = 602_000
"""IOPS of the fastest array of flash disks in reference/: a RAID-1 of two (fio_runs.csv, `fast-raid1`)."""

MEASURED_JOBS = 32  # Of a RAID-1 of two NVMe disks (pastebin k5kENUxT): no measured array has more

COMPLETE = 1.01  # With at most this factor of the predicted IOPS, the load is complete: the run has an end
SEEDS = 3  # With which a cell is simulated
CACHE_SEEDS = 5  # The same of a cell with a cache, whose hits depend on chance
SEED_STEP = 1_000_003  # Between them: repeats of a cell have seeds that follow one another
SECOND_NS = 1_000_000_000
AGE_STEP_NS = 12_300_000_000
"""How much older a cache is with each further seed. smq has a clock of one second and one of 60: five ages are spread
evenly over both."""

IN_USE = {"junk", "warm"}
"""States of a cache that was in use: its clock of 60 s may be anywhere. Others have just been set up or filled."""

PARTS = 24  # Equally long parts of a run, of which the last third is compared with the others
THIRD = PARTS // 3
T_95 = 2.365  # Student's t for 95 % and THIRD - 1 degrees of freedom
DRIFT = outcomes.NORMAL * KERNEL
"""The logarithm of the change of IOPS from which on a run is not steady: no prediction claims a narrower interval."""

APART = 10
"""How many times farther than the runs of one state two states are from each other. Of three rates that are spread
evenly, the gaps differ by so much in one case of five; those of two states, hundredfold."""

LARGE = 64 << 10  # Bytes of an I/O from which on bytes limit a disk, and not commands
FLUSHING = 0.1
"""The share of the time of a flash disk from which on all of a load waits for flushes, if its rates in sequence were
not measured: several jobs share each flush. With a smaller share, a part of the load waits."""

STREAMS = 0.5
"""The deviation of sequential reads of RAID-1 and near RAID-10: which disk serves which stream decides, and reads ahead
for it. The root mean square of the logarithmic errors of the six published rows (reference/fio_runs.csv), which it is
made from. Far and offset copies, which stripe each stream over all disks, are within 2 %."""

NO_READ_AHEAD = 1.0
"""The deviation of buffered reads of rotating disks without read-ahead: the only published row is 2.7 times lower than
the prediction, which it is made from (reference/stream_runs.csv). What a disk needs for a read from its own cache
besides the transfer is not simulated."""

PARITY_STREAM = 1.07
"""The deviation of buffered I/O in sequence on arrays of rotating disks with parity: the two published rows, of Linux
2.6.24, are 3.5 (reads) and 2.3 times (writes) lower than the predictions. It is the root mean square of their
logarithmic errors, and no mechanism explains them."""

SHARED_STREAM = 0.42
"""The deviation of a buffered stream with other jobs on the same rotating disks: the root mean square of the
logarithmic errors of the eight published rows (reference/stream_runs.csv), which it is made from."""

SMALL_CACHE = 0.7
"""The deviation of a dm-cache with at most half of the space of its data: the root mean square of the logarithmic
errors of the four published runs with 8 to 48 GiB behind 4 GiB (reference/cache_runs.csv), which it is made from."""

SMALL = 0.5  # The share of the data up to which a cache is small

ROTATING = 0.88
"""The part of the deviation of a rotating disk that other arrangements of it have as well. The rest is what the ratios
of four arrays of six disks show (reference/randomio_runs.csv): a root mean square of 0.17 of their logarithms."""

DIGEST = 12  # Hexadecimal digits by which models of devices are told apart

MIXED = 0.1  # With a smaller share of the other direction, a device's load is of one direction


def seed_count(cell: Cell) -> int:
    """Returns with how many seeds a cell is simulated."""
    return CACHE_SEEDS if any(kind in CACHES for kind, _ in arrays_and_volumes(cell.document["stack"])) else SEEDS


def other_run(cell: Cell, number: int) -> Cell:
    """Returns a cell as it might as well be: with another seed, and other phases of the clocks of its caches.

    Number 0 is the cell itself. The others have no ramp.
    """
    if number == 0:
        return cell
    seed = cell.document["seed"] + number * SEED_STEP
    stack = deepcopy(cell.document["stack"])
    for kind, table in arrays_and_volumes(stack):
        if kind == "lvmcache":
            age_ns = number * AGE_STEP_NS
            cast(dict[str, object], table)["age_ns"] = age_ns if table.get("state") in IN_USE else age_ns % SECOND_NS
    return replace(cell, document={**without_ramp(cell.document), "seed": seed, "stack": stack})


def interval(
    cell: Cell, outcome: outcomes.Outcome, other_outcomes: Sequence[outcomes.Outcome] = ()
) -> outcomes.PredictionInterval:
    """Returns the interval as factors of the predicted IOPS, of both directions, and of the predicted 99th percentile.

    `other_outcomes` are outcomes of `other_run`: they widen the interval by what differs from run to run, and move its
    middle to their mean, or part it into two states. With them, each cache has an interval of its hits. The interval
    reaches to the last rate of a run that `max_ios` ended before it was steady.

    If all jobs have a rate, or I/Os of a trace their time, IOPS cannot exceed what the load offers.
    """
    devices = outcome.devices
    # The members of an array are often equal disks, whose errors are equal too: deviations add up, not variances.
    deviations = _of_each_device(cell, outcome)
    of_devices = sum(deviations)
    of_rows = max((array["thread_ns"] for array in _arrays(outcome)), default=0) / outcome.observed_ns
    of_keys = find_key_share(outcome)
    of_thread = max(of_rows, of_keys)
    of_host = UNMEASURED if is_unmeasured(cell, outcome) else 0
    if is_deep_mirror(cell):
        of_host = MIRRORS
    runs = [outcome, *other_outcomes]
    rate = total_iops(outcome)
    steady_rates = [_compute_steady_rate(cell, run) for run in runs]
    mean, of_chance = outcomes.next_value([math.log(iops) for iops in steady_rates])
    base_deviation = math.hypot(
        of_devices,
        KERNEL,
        ROWS if of_rows >= outcomes.CROWDED else 0,
        KEYS if of_keys >= outcomes.CROWDED else 0,
        of_host,
        STREAMS if reads_streams_of_mirrors(cell) else 0,
        SMALL_CACHE if has_small_cache(cell) else 0,
        _of_buffered_jobs(cell),
        COMMITS if waits_for_commits(cell) else 0,
    )
    slow_host, fast_host = _of_processors(cell, outcome, of_thread)
    deviation = math.hypot(base_deviation, of_chance / outcomes.NORMAL)
    states = _states(steady_rates)
    middles = list(states) if states else [math.exp(mean)]
    if steady_rates[0] != rate:
        middles.append(rate)
    known_deviation = base_deviation if states else deviation
    low = math.exp(-outcomes.NORMAL * math.hypot(known_deviation, slow_host)) * min(middles) / rate
    high = math.exp(outcomes.NORMAL * math.hypot(known_deviation, fast_host)) * max(middles) / rate
    shared_deviation = math.hypot(of_devices, math.sqrt(KERNEL**2 - outcomes.OTHER_KERNEL**2 / 2))
    slower, faster = _of_locks(outcome)
    low, high = min(low, slower), max(high, faster)
    if waits_for_short_pages(outcome):
        low = min(low, SHORT_PAGES)
    if (limit := _limit(cell, outcome)) <= COMPLETE:
        # The busiest device could do more: in the time in which it is idle.
        busy = max(device.busy_ns or 0 for device in devices) / outcome.observed_ns
        low, high = min(1.0, low / max(busy, low)), 1.0
    p99 = _factors(math.hypot(deviation, TAIL, slow_host, fast_host))
    return outcomes.PredictionInterval(
        (low, min(high, limit)),
        p99,
        shared_deviation,
        (slow_host, fast_host),
        _in_common(cell, deviations),
        (other_outcomes and _hits(runs)) or None,
        states,
    )


def _of_each_device(cell: Cell, outcome: outcomes.Outcome) -> list[float]:
    """Returns the deviation of IOPS that comes from each device.

    By Little's law, an I/O spends a share of its time on a device that is the device's share of those in flight: by
    this share of a device's error, IOPS are wrong.
    """
    total = max(1, sum(sum(device.ticks_ns) for device in outcome.devices))
    return [
        sum(device.ticks_ns) / total * _deviation(cell, device, uncertainty, outcome.observed_ns)
        for device, uncertainty in zip(outcome.devices, cell.uncertainties, strict=True)
    ]


def _in_common(cell: Cell, deviations: Sequence[float]) -> dict[str, float]:
    """Returns the part of the deviation that other arrangements of the same disks have as well.

    It is by model of a disk, by a digest of its parameters. What writes find in the media cache of a shingled disk is
    another thing in each arrangement.
    """
    writes = any(job["read_share"] < 1 for job in cell.document["jobs"]) or cell.document["replay"] is not None
    by_model: dict[str, float] = {}
    for table, deviation in zip(cell.document["devices"], deviations, strict=True):
        model = table["model"]
        if writes and model.get("shingled"):
            continue
        digest = hashlib.sha256(json.dumps(model, sort_keys=True).encode()).hexdigest()[:DIGEST]
        part = ROTATING if model["kind"] == "hdd" else 1.0
        by_model[digest] = by_model.get(digest, 0.0) + part * deviation
    return by_model


def of_mean(interval: outcomes.PredictionInterval) -> tuple[float, float]:
    """Returns the interval of the mean latency: that of the 99th percentile, without what only percentiles have."""
    return _factors(math.sqrt(max(0.0, (math.log(interval.p99[1]) / outcomes.NORMAL) ** 2 - TAIL**2)))


def unsteady(cell: Cell, outcome: outcomes.Outcome) -> str | None:
    """Returns the setting that ended a run before its rate was steady: `max_ios` or `runtime`; None if it was."""
    share, beyond_chance = _last_third(cell, outcome)
    return _cut_by(cell, outcome) if beyond_chance and abs(math.log(share)) > DRIFT else None


def _cut_by(cell: Cell, outcome: outcomes.Outcome) -> str | None:
    """Returns the setting that ended a run; None if the jobs ended, or if it is a trace, whose rate need not settle."""
    most_ios, most_ns = (cell.document.get(key) or math.inf for key in ("max_ios", "runtime_ns"))
    setting = "max_ios" if outcome.read.clat_ns.count + outcome.write.clat_ns.count >= most_ios else None
    setting = setting or ("runtime" if outcome.runtime_ns >= most_ns else None)
    return setting if cell.document["replay"] is None else None


def total_iops(outcome: outcomes.Outcome) -> float:
    """Returns the IOPS of both directions; nearly 0 without any, so that it has a logarithm."""
    return max(1e-9, outcome.read.iops + outcome.write.iops)


def _compute_steady_rate(cell: Cell, outcome: outcomes.Outcome) -> float:
    """Returns the IOPS of a run; if `max_ios` ended it before it was steady, those of its last third.

    A measurement may have the same `runtime`, so that its end does not count more than its beginning.
    """
    return total_iops(outcome) * (_last_third(cell, outcome)[0] if unsteady(cell, outcome) == "max_ios" else 1)


def _last_third(cell: Cell, outcome: outcomes.Outcome) -> tuple[float, bool]:
    """Returns the IOPS of the last third of a run as a share of those of the whole, and whether chance is excluded.

    Chance is how much the parts of the last third differ, or those before, whichever is less: one of them may have the
    change. (1, False) if the series is too short to tell.
    """
    import numpy as np

    times = [0, *(point["time_ns"] + point["width_ns"] for point in outcome.series)]
    ios = np.cumsum([0, *(sum(point["ios"]) for point in outcome.series)])
    if len(times) <= PARTS or not ios[-1]:
        return 1.0, False
    # After `runtime`, nothing is submitted: I/Os only end.
    end = min(outcome.runtime_ns, cell.document.get("runtime_ns") or math.inf)
    parts = np.diff(np.interp(np.linspace(0, end, PARTS + 1), times, ios)).tolist()
    last, before = parts[-THIRD:], parts[:-THIRD]
    chance = T_95 * math.sqrt(min(variance(last), variance(before)) * (1 / len(last) + 1 / len(before)))
    return max(1e-9, fmean(last) / fmean(parts)), abs(fmean(last) - fmean(before)) > chance


def _states(rates: Sequence[float]) -> tuple[float, float] | None:
    """Returns two IOPS if some runs are far from the others: farther than their intervals reach, and than the runs of
    each group are from each other.
    """
    logs = sorted(math.log(rate) for rate in rates)
    if len(logs) <= 2:
        return None
    gap, index = max((logs[index] - logs[index - 1], index) for index in range(1, len(logs)))
    spread = max(logs[index - 1] - logs[0], logs[-1] - logs[index])
    if gap <= max(2 * DRIFT, APART * spread):
        return None
    return math.exp(fmean(logs[:index])), math.exp(fmean(logs[index:]))


def _hits(runs: Sequence[outcomes.Outcome]) -> dict[str, tuple[float, float]]:
    """Returns the interval of the share of hits of each cache."""
    intervals = {}
    for reports in zip(*(run.targets for run in runs), strict=True):
        counts = [outcomes.count_lookups(report) for report in reports]
        if all(map(sum, counts)):
            mean, half = outcomes.next_value([hits / (hits + misses) for hits, misses in counts])
            intervals[reports[0]["name"]] = max(0.0, mean - half), min(1.0, mean + half)
    return intervals


def _deviation(cell: Cell, device: outcomes.DeviceResult, uncertainty: Uncertainty, watched_ns: int) -> float:
    """Returns the deviation of a device's load.

    It is that of flushes if the load waits for them, and that of latencies for the share of the time in which the
    device is idle.
    """
    reads, writes = device.ios
    if min(reads, writes) > MIXED * (reads + writes):
        ios = uncertainty.mixed
    elif reads > writes:
        ios = _with_sequence(cell, device, _read_deviation(device, uncertainty), uncertainty.sequence_read)
    else:
        ios = _with_sequence(cell, device, _write_deviation(device, uncertainty), uncertainty.sequence_write)
    if uncertainty.latency is not None:
        busy = min(1.0, max((device.work or {}).get(part, 0) for part in ("interface_ns", "media_ns")) / watched_ns)
        ios = busy * ios + (1 - busy) * uncertainty.latency
    flushes = min(1.0, ((device.flush_ns or 0) + (device.work or {}).get("durable_ns", 0)) / watched_ns)
    if max(uncertainty.sequence_read, uncertainty.sequence_write) > 0:
        flushes = min(1.0, flushes / FLUSHING)
    return math.hypot((1 - flushes) * ios, flushes * uncertainty.sync)


def _read_deviation(device: outcomes.DeviceResult, uncertainty: Uncertainty) -> float:
    is_large = _mean_bytes(device) >= LARGE
    return uncertainty.large_read if is_large and uncertainty.large_read is not None else uncertainty.read


def _write_deviation(device: outcomes.DeviceResult, uncertainty: Uncertainty) -> float:
    """Returns the deviation of writes: those to a cache of single-bit cells are better known than those after it."""
    is_cached = uncertainty.cached_write is not None and (device.work or {}).get("media_cache_full_ns") is None
    small = uncertainty.cached_write if is_cached else uncertainty.write
    large = uncertainty.large_cached_write if is_cached else uncertainty.large_write
    return large if large is not None and _mean_bytes(device) >= LARGE else small or 0.0


def _with_sequence(cell: Cell, device: outcomes.DeviceResult, deviation: float, of_sequence: float) -> float:
    """Returns the deviation with that of small I/Os in sequence, if the load has them."""
    in_sequence = any(not job["random"] for job in cell.document["jobs"])
    return math.hypot(deviation, of_sequence) if in_sequence and _mean_bytes(device) < LARGE else deviation


def _mean_bytes(device: outcomes.DeviceResult) -> float:
    return SECTOR * sum(device.sectors) / max(1, sum(device.ios))


def is_unmeasured(cell: Cell, outcome: outcomes.Outcome) -> bool:
    """Returns whether no measurement of such an array of flash disks is known: with parity, more IOPS or more jobs."""
    document = cell.document
    if not _arrays(outcome) or any(device["queue"]["rotational"] for device in document["devices"]):
        return False
    parity = any(table.get("level") in PARITIES for _, table in arrays_and_volumes(document["stack"]))
    jobs = sum(job["numjobs"] for job in document["jobs"])
    return parity or total_iops(outcome) > MEASURED_IOPS or jobs > MEASURED_JOBS


def is_deep_mirror(cell: Cell) -> bool:
    """Returns whether a cell is a RAID-1 of NVMe disks with many I/Os in flight.

    Jobs with a limit of their rate have few in flight, at any depth.
    """
    document = cell.document
    if any(device["model"]["kind"] != "nvme" for device in document["devices"]):
        return False
    in_flight = sum(job["numjobs"] * job["iodepth"] for job in document["jobs"] if not job["rate_iops"])
    levels = [table.get("level") for _, table in arrays_and_volumes(document["stack"])]
    return in_flight > DEEP and "raid1" in levels


def find_key_share(outcome: outcomes.Outcome) -> float:
    """Returns the share of the time in which the busiest worker of a bcache inserts keys."""
    targets = cast(Sequence[TargetReport], outcome.targets)
    busy_ns = [target["worker_ns"] for target in targets if target["kind"] == "bcache"]
    return max(busy_ns, default=0) / outcome.observed_ns


def waits_for_short_pages(outcome: outcomes.Outcome) -> bool:
    """Returns whether disks read before they write the last page of a bitmap, which takes a part of the time."""
    short_ns = max((array["short_page_ns"] for array in _arrays(outcome)), default=0)
    return short_ns >= SHORT_PAGE_SHARE * outcome.observed_ns


def reads_streams_of_mirrors(cell: Cell) -> bool:
    """Returns whether several jobs read sequentially from an array that has the same data on several disks."""
    streams = sum(job["numjobs"] for job in cell.document["jobs"] if not job["random"] and job["read_share"] > MIXED)
    return streams > 1 and any(_is_mirror(table) for _, table in arrays_and_volumes(cell.document["stack"]))


def _of_buffered_jobs(cell: Cell) -> float:
    """Returns the deviation of sequential I/O of rotating disks through the page cache."""
    document = cell.document
    jobs = document["jobs"]
    if not any(job.get("buffered") for job in jobs):
        return 0.0
    if not any(device["queue"]["rotational"] for device in document["devices"]):
        return 0.0
    levels = [table.get("level") for _, table in arrays_and_volumes(document["stack"])]
    return math.hypot(
        NO_READ_AHEAD if document.get("read_ahead_bytes") == 0 else 0,
        PARITY_STREAM if any(level in PARITIES for level in levels) else 0,
        SHARED_STREAM if any(not job.get("buffered") for job in jobs) else 0,
    )


def waits_for_commits(cell: Cell) -> bool:
    """Returns whether jobs wait for commits of a journal, on disks that are more than throttled."""
    document = cell.document
    syncs = any(job.get("fsync") or job.get("fsync_share") for job in document["jobs"])
    has_models = any(device["model"]["kind"] != "throttled" for device in document["devices"])
    return "journal" in document and syncs and has_models


def _is_mirror(table: Mapping[str, Any]) -> bool:
    """Returns whether several members can serve the same read: a mirror may have lost all but one."""
    members = table.get("members", [])
    readable = [member for member in members if member.get("node") and not member.get("rebuilding")]
    if table.get("level") == "raid1":
        preferred = [member for member in readable if not member.get("write_mostly")]
        return len(preferred or readable) > 1
    copies = table.get("near", 1)
    return table.get("level") == "raid10" and copies > 1 and len(readable) * copies > len(members)


def has_small_cache(cell: Cell) -> bool:
    """Returns whether the data of the jobs are at least twice as large as a dm-cache in front of them."""
    spanned_bytes = share_of_stack(cell.document, cell.capacity) * cell.capacity
    for kind, table in arrays_and_volumes(cell.document["stack"]):
        if kind == "lvmcache" and "device" in (table.get("cache") or {}):
            cache_bytes = cell.document["devices"][table["cache"]["device"]]["bytes"]
            if cache_bytes <= SMALL * spanned_bytes:
                return True
    return False


def _arrays(outcome: outcomes.Outcome) -> list[MdReport]:
    return [target for target in cast(Sequence[TargetReport], outcome.targets) if target["kind"] == "md"]


def _of_locks(outcome: outcomes.Outcome) -> tuple[float, float]:
    """Returns the factors of IOPS with the slowest and the fastest hand-over of the locks of arrays and caches."""
    low, high = 1.0, 1.0
    targets = cast(Sequence[TargetReport], outcome.targets)
    for target in targets:
        for lock in cast(list[LockUse], target.get("locks", [])):
            fastest, slowest = (lock["taken"] / lock["ways"] * lock["contended_ns"] * factor for factor in HANDOVER)
            low = min(low, outcome.observed_ns / slowest)
            if lock["held_ns"] >= outcomes.CROWDED * outcome.observed_ns:
                high = max(high, lock["held_ns"] / fastest)
    return low, high


def _of_processors(cell: Cell, outcome: outcomes.Outcome, of_thread: float) -> tuple[float, float]:
    """Returns the deviations of IOPS towards slow and towards fast hosts; (0, 0) if the host was measured.

    A job that uses a share s of its processor has I/Os that take 1 - s + s f with prices f times as high, if nothing
    else changes. With many I/Os in flight a slower processor matters only from the time on at which it is always
    busy. A faster processor gains at most what the busiest device has left. `of_thread` is the share of the busiest
    thread of md or worker of bcache, which has no other work.
    """
    if is_measured(cell.document.get("host", {})):
        return 0.0, 0.0
    slow, fast = math.exp(outcomes.NORMAL * HOST), math.exp(-outcomes.NORMAL * HOST)
    thread = of_thread if of_thread >= outcomes.CROWDED else 0.0
    slow_rate = fast_rate = 0.0  # As shares of the predicted one
    for weight, share, depth in _processor_use(cell, outcome):
        slow_rate += weight / max(1.0, 1 + share / depth * (slow - 1), share * slow, of_thread * slow)
        fast_rate += weight / (1 - max(share, thread) * (1 - fast))
    longer, shorter = 1 / slow_rate, 1 / fast_rate
    devices = zip(cell.document["devices"], outcome.devices, strict=True)
    busiest = max((_busy_share(table, device, outcome) for table, device in devices), default=0.0)
    shorter = max(shorter, min(1.0, busiest))
    return math.log(longer) / outcomes.NORMAL, abs(math.log(shorter)) / outcomes.NORMAL


def _processor_use(cell: Cell, outcome: outcomes.Outcome) -> list[tuple[float, float, int]]:
    """Returns for each job its share of the I/Os, that of the time in which its processor is busy, and its depth.

    Jobs that do other numbers of I/Os have processors that are busy for other times. A trace is one job.
    """
    ios_by_name = {group.name: group.read.total_ios + group.write.total_ios for group in outcome.groups}
    total_ios = sum(ios_by_name.get(job["name"], 0) for job in cell.document["jobs"])
    busy = (outcome.processor_ns or 0) / outcome.observed_ns
    of_cores = outcome.cores_busy or 0.0
    if not total_ios:
        return [(1.0, max(min(1.0, busy), of_cores), 1)]
    uses = []
    for job in cell.document["jobs"]:
        weight = ios_by_name.get(job["name"], 0) / total_ios
        share = min(1.0, busy * weight / max(1, job["numjobs"]))
        uses.append((weight, max(share, of_cores), job["iodepth"]))
    return uses


def _busy_share(table: DeviceDocument, device: outcomes.DeviceResult, outcome: outcomes.Outcome) -> float:
    """Returns the share of the time in which the busiest part of a device works, so that it cannot do more.

    A throttled disk does many I/Os at the same time: it is busy if I/Os wait for its limits.
    """
    if table["model"]["kind"] == "throttled":
        return float((device.throttle_waits or 0) > MIXED * sum(device.ios))
    work = device.work or {}
    busy_ns = max(int(work.get(part, 0)) for part in ("interface_ns", "media_ns", "durable_ns"))
    return busy_ns / outcome.observed_ns


def _factors(deviation: float) -> tuple[float, float]:
    return math.exp(-outcomes.NORMAL * deviation), math.exp(outcomes.NORMAL * deviation)


def _limit(cell: Cell, outcome: outcomes.Outcome) -> float:
    """Returns the factor of IOPS at which the load is complete; infinite if it has no rate."""
    if (replay := cell.document["replay"]) is not None:
        return 1.0 if replay["timed"] else math.inf
    jobs = cell.document["jobs"]
    rates = [job["numjobs"] * job["rate_iops"] if job.get("rate_iops") else math.inf for job in jobs]
    return max(1.0, sum(rates) / total_iops(outcome))
