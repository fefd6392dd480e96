"""Sanity checks of a single measured run: caches, impossible rates, unequal twins.

They apply to measurements only: a simulation has no page cache and obeys data sheets.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from blklab.compare.metrics import lowest_devices
from blklab.compare.saturation import in_flight
from blklab.diagnostic import Diagnostic
from blklab.outcome import DeviceResult, GroupResult, Outcome
from blklab.store.query import StoredRun
from blklab.text.printing import printable
from blklab.units import format_duration, format_rate, format_size

ENOUGH = 1000  # Minimum number of I/Os for these checks
ROTATION_NS = 4e6  # One revolution at 15,000 rpm, the fastest disks
SETTLE_NS = 0.5e6
"""Minimum time of a seek to a neighbouring track (data sheets of 15,000 rpm disks: 0.2 ms, plus settling)."""

DEEPEST = 256  # Maximum number of I/Os that a disk can reorder: SCSI's queue; SATA has 32
BUSES = {"SATA": 600e6, "one rotating disk": 600e6, "PCIe 5.0 ×4": 15.8e9}
"""Maximum bytes per second: SATA 3.x at 6 Gbit/s 8b/10b; the outer tracks of two actuators (data
sheets: 550 MB/s); four lanes of 32 GT/s 128b/130b."""

UNWRITTEN_NS = 30_000
"""A shorter read of 4 KiB, one at a time, did not come from cells with several bits, whose pages take 40 µs or more."""

FAST_CELLS = re.compile("optane|SSDPE[D2L][1K]|MEMPE", re.IGNORECASE)  # Their reads take 10 µs

UNSEEN = 0.5
"""Share of the jobs' bytes that must reach the devices. Mirrors and parity increase it; only a
cache decreases it: merging makes fewer I/Os with the same bytes."""

TWICE = 2  # Data must be larger than a cache by this factor, so that at least half of the I/Os miss it
ALIKE = 1.2  # Ratio of the I/Os of twins up to which their work is equal
UNEQUAL = 1.5
"""Ratio of the times of twins for equal work that is reported. Causes are temperature, firmware or
a failing head. Two disks of a model differ by less than a tenth."""

UNEQUAL_MEMBERS = 2.0  # The same, of members whose models are not known
SPINNING_NS = 2_000_000  # Mean times of flash disks are below it, those of rotating disks usually above
UNLIKE_CLASSES = 5.0  # Ratio of times on both sides of it from which on a member is flash and another one rotates

UNFAIR = 1.5  # Ratio of the IOPS of equal jobs that is reported
CHANCE = 5  # Standard deviations of the counts of I/Os (Poisson) that this ratio must exceed as well
FREE_OPTIONS = frozenset({"name", "description", "offset", "offset_increment"})
"""Options in which jobs may differ that do the same."""


def unfair_shares(outcome: Outcome, jobs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    """Yields a sentence about equal jobs, or the clones of a job, with unlike shares, and the ratio of these.

    `jobs` are those of the cell, for a result without fio's options.
    """
    options = {job.get("name"): job.get("options", job) for job in jobs} | dict(outcome.job_options)
    alike: dict[tuple[tuple[str, str], ...], list[GroupResult]] = {}
    for group in outcome.groups:
        options_of_job = options.get(group.name)
        if options_of_job:
            shared_options = sorted(
                (key, str(value)) for key, value in options_of_job.items() if key not in FREE_OPTIONS
            )
            alike.setdefault(tuple(shared_options), []).append(group)
    rates = []
    for jobs_alike in alike.values():
        rates.append([(f"job {job.name}", f"job {job.name}, with equal options", job.iops) for job in jobs_alike])
    for group in outcome.groups:
        rates.append([(f"a clone of job {group.name}", "another", rate) for rate in group.clones])
    for equal_rates in filter(None, rates):
        _, slow, low = min(equal_rates, key=lambda rate: rate[2])
        fast, _, high = max(equal_rates, key=lambda rate: rate[2])
        min_ios, max_ios = (max(1.0, rate * outcome.runtime_ns / 1e9) for rate in (low, high))
        if max_ios / min_ios > max(UNFAIR, math.exp(CHANCE * math.sqrt(1 / min_ios + 1 / max_ios))):
            times = f"{high / low:.1f} times the IOPS of {slow}" if low else f"all I/Os, and none for {slow}"
            yield printable(f"{fast} got {times} ({high:,.0f} and {low:,.0f} IOPS)"), max_ios / min_ios


def check_run(run: StoredRun) -> Iterator[Diagnostic]:
    """Yields the doubts about a measured run."""
    outcome = run.figures
    checks = (
        _impossible_rates(run, outcome),
        _unwritten_reads(run, outcome),
        _cached_io(outcome),
        _small_data(run),
        _twins(run, outcome),
    )
    for diagnostic in chain(*checks):
        yield replace(diagnostic, runs=(run.id,))


def options_of_jobs(run: StoredRun) -> list[Mapping[str, Any]]:
    """Returns fio's options of each job of a measured run, as far as known."""
    jobs = [job["options"] for job in run.cell.get("jobs") or [] if "options" in job]
    return jobs or list(run.figures.job_options.values())


def most_random_reads(in_flight: float) -> float:
    """Returns the random reads per second that no disk reaches with this number of I/Os in flight.

    The disk can choose the I/O that comes next: it is 1 / (n + 1) of a revolution away on average, plus at least the
    shortest seek. This gives 400 at a depth of 1 and 1,600 at 32. Real disks reach less than half of it.
    """
    return 1e9 / (SETTLE_NS + ROTATION_NS / (max(1.0, in_flight) + 1))


def hardware(run: StoredRun, name: str) -> Mapping[str, Any]:
    """Returns what the environment contains about a device, or about the disk of a partition."""
    devices = {device.get("name"): device for device in run.environment.get("devices") or []}
    details = devices.get(name) or {}
    if details.get("kind") == "partition" or not details:
        for other, entry in devices.items():
            suffix = name.removeprefix(str(other))
            if other and suffix != name and suffix.lstrip("p").isdigit():
                return {**entry, "size": details.get("size", entry.get("size"))}
    return details


def _impossible_rates(run: StoredRun, outcome: Outcome) -> Iterator[Diagnostic]:
    seconds = outcome.runtime_ns / 1e9
    modes = [str(options.get("rw", options.get("readwrite", ""))) for options in options_of_jobs(run)]
    random = bool(modes) and all(rw.startswith("rand") for rw in modes)
    for device in lowest_devices(outcome):
        details = hardware(run, device.name)
        spins = (details.get("queue") or {}).get("rotational") == "1"
        reads = device.ios[0]
        if not seconds:
            continue
        known_depth = all("iodepth" in options for options in options_of_jobs(run))
        depth = min(in_flight(run.cell) or 1, DEEPEST) if known_depth else DEEPEST
        max_rate = most_random_reads(depth)
        if spins and random and reads >= ENOUGH and reads / seconds > max_rate:
            yield Diagnostic(
                "impossible-rate",
                "warning",
                "",
                f"{reads / seconds:,.0f} random reads per second from {device.name}, which claims to rotate. "
                f"No disk exceeds {max_rate:,.0f} with {depth} in flight, so a cache answered, or the disk is virtual",
            )
        bus = _bus(details, device.name, spins)
        sectors = device.sectors
        if bus and sectors and (rate := sectors[0] * 512 / seconds) > BUSES[bus]:
            yield Diagnostic(
                "impossible-rate",
                "warning",
                "",
                f"{format_rate(rate)} read from {device.name}, which is more than {format_rate(BUSES[bus])} of {bus}",
            )


def _unwritten_reads(run: StoredRun, outcome: Outcome) -> Iterator[Diagnostic]:
    """Yields flash disks that answered reads faster than flash can be read."""
    modes = [str(options.get("rw", options.get("readwrite", ""))) for options in options_of_jobs(run)]
    if (
        set(modes) != {"randread"}
        or not all("iodepth" in options for options in options_of_jobs(run))
        or in_flight(run.cell) != 1
    ):
        return
    for device in lowest_devices(outcome):
        details = hardware(run, device.name)
        reads = device.ios[0]
        model = str((details.get("hardware") or {}).get("model") or "")
        spins = (details.get("queue") or {}).get("rotational") == "1"
        if not model or spins or FAST_CELLS.search(model) or reads < ENOUGH or not device.sectors:
            continue
        if device.sectors[0] / reads <= 8 and (read_ns := device.ticks_ns[0] / reads) < UNWRITTEN_NS:
            yield Diagnostic(
                "unwritten",
                "warning",
                "",
                f"{device.name} answered random reads in {format_duration(read_ns)}, one at a time: "
                "flash takes longer, so it did not read any. Blocks that were never written, "
                "or were discarded, are answered like this. Write the whole target before you read it",
            )


def _bus(details: Mapping[str, Any], name: str, spins: bool) -> str | None:
    if spins:
        return "one rotating disk"
    if name.startswith("nvme"):
        return "PCIe 5.0 ×4"
    ata = any(str(known_id).startswith("ata-") for known_id in details.get("ids") or [])
    return "SATA" if ata or (details.get("hardware") or {}).get("vendor") == "ATA" else None


def _cached_io(outcome: Outcome) -> Iterator[Diagnostic]:
    """Yields reads that came from memory, and writes that have not reached a device."""
    devices = lowest_devices(outcome)
    if not devices or not all(device.sectors for device in devices):
        return
    for direction, name, did in ((0, "read", "read"), (1, "write", "wrote")):
        figures = outcome.direction(name)
        if figures.total_ios < ENOUGH or not figures.io_bytes:
            continue
        size = sum(device.sectors[direction] for device in devices) * 512
        if size < UNSEEN * figures.io_bytes:
            verb = "read from" if name == "read" else "written to"
            yield Diagnostic(
                "page-cache",
                "warning",
                "",
                f"the jobs {did} {format_size(figures.io_bytes)}, but only {format_size(size)} were {verb} the devices",
            )


def _small_data(run: StoredRun) -> Iterator[Diagnostic]:
    target = run.cell.get("target") or {}
    memory = run.environment.get("memory_bytes")
    sizes = [str(options.get("size", "")) for options in options_of_jobs(run)]
    if not sizes or not all(size.isdigit() for size in sizes):
        return
    data = int(run.cell.get("file_bytes") or sum(map(int, sizes)))
    is_buffered = any(str(options.get("direct", "0")) == "0" for options in options_of_jobs(run))
    if is_buffered and memory and data < TWICE * memory:
        yield Diagnostic(
            "small-data",
            "warning",
            "",
            f"{format_size(data)} of data with I/O through the page cache (direct=0) and "
            f"{format_size(memory)} of memory: expected twice as much data as memory",
        )
    cache = target.get("cache_bytes")
    if cache and data < TWICE * cache:
        yield Diagnostic(
            "small-data",
            "warning",
            "",
            f"{format_size(data)} of data and a cache of {format_size(cache)} in front of it: "
            "expected twice as much data as cache",
        )


def _twins(run: StoredRun, outcome: Outcome) -> Iterator[Diagnostic]:
    """Yields equal members of one array that took different times for equal work.

    Members are equal if their model and size are, or, where no model is known, if their names have one kind.
    """
    groups: dict[tuple[str, ...], list[DeviceResult]] = {}
    unknown_groups: dict[tuple[str, ...], list[DeviceResult]] = {}
    for device in lowest_devices(outcome):
        details = hardware(run, device.name)
        model = (details.get("hardware") or {}).get("model")
        if not device.above or not device.ticks_ns:
            continue
        if model:
            key = (str(model), str(details.get("size")), *device.above)
            groups.setdefault(key, []).append(device)
        elif kind := _DISK_KIND.match(device.name):
            unknown_groups.setdefault((kind[0], *device.above), []).append(device)
    for direction, name in ((0, "reads"), (1, "writes")):
        for twins in groups.values():
            yield from _unequal_twins([twin for twin in twins if twin.ios[direction] >= ENOUGH], direction, name)
        for twins in unknown_groups.values():
            yield from _unequal_members([twin for twin in twins if twin.ios[direction] >= ENOUGH], direction, name)


_DISK_KIND = re.compile("sd|vd|xvd|hd|nvme|mmcblk|dasd")  # The beginnings of names of disks


def _unequal_members(members: Sequence[DeviceResult], direction: int, name: str) -> Iterator[Diagnostic]:
    """Yields a doubt about members of unknown models, which may be of one model."""
    if len(members) < 2:
        return
    ios = [member.ios[direction] for member in members]
    times = {member.name: member.ticks_ns[direction] / member.ios[direction] for member in members}
    slow, longest = max(times.items(), key=lambda item: item[1])
    fast, shortest = min(times.items(), key=lambda item: item[1])
    is_flash_and_disk = shortest < SPINNING_NS <= longest and longest > UNLIKE_CLASSES * shortest
    if max(ios) <= ALIKE * min(ios) and longest > UNEQUAL_MEMBERS * shortest and not is_flash_and_disk:
        yield Diagnostic(
            "unequal-twins",
            "warning",
            "",
            f"{slow} took {format_duration(longest)} for each of its {name}, {fast} {format_duration(shortest)} for as "
            f"many: if both are the same model, look at the SMART values of {slow}",
        )


def _unequal_twins(twins: Sequence[DeviceResult], direction: int, name: str) -> Iterator[Diagnostic]:
    if len(twins) < 2:
        return
    ios = [twin.ios[direction] for twin in twins]
    slow = max(twins, key=lambda disk: disk.ticks_ns[direction] / disk.ios[direction])
    fast = min(twins, key=lambda disk: disk.ticks_ns[direction] / disk.ios[direction])
    times = [disk.ticks_ns[direction] / disk.ios[direction] for disk in (slow, fast)]
    if max(ios) <= ALIKE * min(ios) and times[0] > UNEQUAL * times[1]:
        longest, shortest = map(format_duration, times)
        yield Diagnostic(
            "unequal-twins",
            "warning",
            "",
            f"{slow.name} took {longest} for each of its {name}, {fast.name} {shortest} for as many: "
            "both are the same model",
        )
    if direction == 1 and max(ios) > ALIKE * min(ios):
        busiest = max(twins, key=lambda disk: disk.ios[direction]).name
        idlest = min(twins, key=lambda disk: disk.ios[direction]).name
        yield Diagnostic(
            "unequal-twins", "warning", "", f"{busiest} had {max(ios):,} writes, its twin {idlest} {min(ios):,}"
        )
