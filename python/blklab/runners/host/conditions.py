"""Conditions that would spoil a measurement, checked before it: each has a name for `--force NAME`.

Not detected: others on shared storage or below a virtual disk, a disk's own background work
(SMART tests, garbage collection), caches of controllers, later heat.

The load of other programs, time taken by a hypervisor, and heat are also watched during the measurement.
"""

import math
import os
import re
import resource
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError, SystemErrors, UsageError
from blklab.experiment.documents import HostCellDocument, writes
from blklab.fio import option_values
from blklab.outcome import Outcome
from blklab.store.series import SeriesPoint
from blklab.system import diskstats
from blklab.system.diskstats import CpuTimes
from blklab.system.environment import governors, memory
from blklab.system.identity import resolve
from blklab.system.layers import SysfsLayer, filesystem_devices, layers
from blklab.system.roots import Roots, entries, read_text
from blklab.system.shingled import is_shingled
from blklab.units import SECTOR

BUSY_CPUS = 0.2  # Share of all CPUs that other programs, or a hypervisor, may use


def cpu_times(roots: Roots) -> CpuTimes | None:
    """Returns the times of all CPUs; None if the kernel does not report them."""
    try:
        return diskstats.cpu(roots)
    except BlklabError:
        return None


def busy_cpus(used_share: float, stolen: float) -> Iterator[Diagnostic]:
    """Yields a warning for each share of all CPUs (0 to 1) that is above BUSY_CPUS."""
    if used_share > BUSY_CPUS:
        yield Diagnostic(
            "cpu-busy",
            "warning",
            "CPUs",
            f"other programs use {100 * used_share:.0f} % of the CPUs, expected at most {100 * BUSY_CPUS:.0f} %",
            ("find the program with top, or set wait in [host]",),
        )
    if stolen > BUSY_CPUS:
        yield Diagnostic(
            "cpu-busy",
            "warning",
            "CPUs",
            f"the hypervisor takes {100 * stolen:.0f} % of the CPUs (steal), expected at most {100 * BUSY_CPUS:.0f} %",
            ("measure when its other guests are idle",),
        )


class MachineLoad:
    """Finds what disturbed a measurement, from its start on.

    The load of other programs is their time in user mode: time in the kernel also belongs to the
    devices that are measured, such as md's threads.
    """

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._began = time.monotonic()
        self._own = _own_user_seconds()
        self._throttled = _count_throttling(roots)

    def warnings(self, cpu: Mapping[str, float]) -> list[str]:
        """Returns the warnings; `cpu` has the shares of all CPUs during the measurement."""
        available = max(1e-9, time.monotonic() - self._began) * (os.cpu_count() or 1)
        own_share = (_own_user_seconds() - self._own) / available
        diagnostics = list(busy_cpus(cpu.get("user", 0.0) - own_share, cpu.get("steal", 0.0)))
        if (times := _count_throttling(self._roots) - self._throttled) > 0:
            diagnostics.append(
                Diagnostic(
                    "cpu-throttled",
                    "warning",
                    "CPUs",
                    f"the CPUs were slowed down {times} times because of heat, expected none",
                    ("improve the cooling, and measure again",),
                )
            )
        return [str(diagnostic) for diagnostic in diagnostics]


def _own_user_seconds() -> float:
    """Returns the time in user mode of blklab and of its programs that have ended, s."""
    return sum(resource.getrusage(kind).ru_utime for kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _count_throttling(roots: Roots) -> int:
    """Returns how often the CPUs were throttled (arch/x86/kernel/cpu/mce/therm_throt.c)."""
    counts = (
        read_text(cpu / "thermal_throttle/core_throttle_count") for cpu in entries(roots.sys / "devices/system/cpu")
    )
    return sum(int(count) for count in counts if count and count.isdigit())


NAMES = (  # Names that --force accepts
    *("array-syncing", "array-degraded", "device-busy", "cpu-busy", "page-cache", "small-data"),
    *("powersave", "smr-cliff", "iostats-off", "low-memory"),
)

BUSY = frozenset({"device-busy", "cpu-busy"})  # Conditions that end by themselves: `wait` in [host] waits for that
BUSY_IOS = 20.0  # I/Os a second that others may always do on a device; a journal's commit every 5 s is below it
BUSY_SHARE = 0.05  # Share of the time that a device may always be busy with the I/O of others
OTHERS_SHARE = 0.05  # Their share of a device's I/Os or bytes in a cell that is no obstacle
OTHERS_BUSY = 0.1  # Share of the time from which on few bytes are an obstacle: seeks of a rotating disk
MOST_BUSY = 0.25  # Share of the time: a device that others keep busy for longer is not measured at all
STOP_OTHERS = "Stop it, or add --force device-busy."
SAMPLE = 2.0  # Seconds for which blklab watches devices for I/O of others


def layers_of(target: Mapping[str, Any], roots: Roots) -> list[SysfsLayer]:
    """Returns the devices of a cell's target, upper ones first. Raises UsageError if there are none."""
    if "device" in target:
        return layers([resolve(target["device"], roots).number], roots)
    place = Path(target.get("filesystem") or target["directory"])
    with SystemErrors(UsageError, place):
        return layers(sorted(filesystem_devices(place, roots)[0]), roots)


def check(
    target: Mapping[str, Any],
    cells: Sequence[HostCellDocument],
    roots: Roots,
    sleep: Callable[[float], object] = time.sleep,
    passed_by: Collection[str] = (),
) -> list[Diagnostic]:
    """Returns what would spoil the measurement of `cells` (documents) on a target.

    Critical conditions prevent a measurement, unless they are in `passed_by`. Watches the
    devices for SAMPLE seconds, unless they may be busy: no I/O of blklab may run meanwhile.
    """
    beneath = layers_of(target, roots)
    diagnostics = list(arrays(beneath))
    if "device-busy" not in passed_by:
        diagnostics += _busy(beneath, roots, sleep)
    diagnostics += _page_cache(target, cells, beneath, roots)
    diagnostics += _small_data(target, cells, beneath)
    diagnostics += _powersave(roots)
    diagnostics += _find_shingled_disks(beneath, cells)
    diagnostics += _find_uncounted_devices(beneath)
    diagnostics += _memory(roots)
    return [
        replace(diagnostic, severity="warning") if diagnostic.code in passed_by else diagnostic
        for diagnostic in diagnostics
    ]


def arrays(beneath: Sequence[SysfsLayer]) -> Iterator[Diagnostic]:
    """Yields the arrays that are not in sync: degraded, or with a sync action."""
    for layer in beneath:
        if layer.kind != "md" or layer.node is None:
            continue
        md = layer.node / "md"
        action = read_text(md / "sync_action")
        if action not in {None, "idle", "none"}:
            progress = _progress(read_text(md / "sync_completed"))
            yield Diagnostic(
                "array-syncing",
                "critical",
                layer.name,
                f"found sync_action {action}{progress}, expected idle: its I/O would be measured as well",
                (f"wait until it ends: mdadm --wait /dev/{layer.name}",),
            )
        missing_members = read_text(md / "degraded")
        if missing_members not in {None, "", "0"}:
            yield Diagnostic(
                "array-degraded",
                "critical",
                layer.name,
                f"found {missing_members} of its members missing, expected none: a degraded array performs differently",
                (f"see mdadm --detail /dev/{layer.name}",),
            )


def _progress(sync_completed: str | None) -> str:
    """`1000 / 4000`, in sectors, or `none`, `delayed` (Documentation/admin-guide/md.rst)."""
    match = re.fullmatch(r"(\d+) / (\d+)", sync_completed or "")
    return f" ({100 * int(match[1]) / int(match[2]):.1f} %)" if match and int(match[2]) else ""


def _busy(beneath: Sequence[SysfsLayer], roots: Roots, sleep: Callable[[float], object]) -> Iterator[Diagnostic]:
    """Reads /proc/stat and /proc/diskstats twice, for the lowest and the topmost devices only."""
    device_names = [layer.name for layer in beneath if layer.leaf or not layer.above]
    before = diskstats.read(roots)
    cpu = cpu_times(roots)
    began = time.monotonic()
    sleep(SAMPLE)
    after = diskstats.read(roots)
    cpu_after = cpu_times(roots)
    if cpu is not None and cpu_after is not None:
        shares = cpu.shares(cpu_after)
        yield from busy_cpus(shares["user"] + shares["system"] + shares["irq"], shares["steal"])
    # A test's sleep is no time; the rates are of the true one, or of what was asked for.
    seconds = max(SAMPLE, time.monotonic() - began)
    for name in device_names:
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            continue
        did = diskstats.difference(old, new, seconds, bits=diskstats.long_bits())
        rate = sum(did.ios) / seconds
        share = did.busy_ns / 1e9 / seconds
        if share > MOST_BUSY:
            use = f"busy for {100 * share:.0f} % of the time, limit {100 * MOST_BUSY:.0f} %"
            yield Diagnostic("device-busy", "critical", "", f"{name} was in use by another program ({use})")
        elif rate > BUSY_IOS or share > BUSY_SHARE:
            # Whether that is much follows from what the cell does: `refuse_others_io` decides after it.
            bandwidth = sum(did.sectors) * SECTOR / seconds
            text = f"other programs do {rate:.0f} I/Os a second"
            yield OtherPrograms(
                "device-busy", "note", name, text, ios_per_s=rate, bytes_per_s=bandwidth, busy_share=share
            )


@dataclass(frozen=True)
class OtherPrograms(Diagnostic):
    """What other programs do on a device before a cell."""

    ios_per_s: float = 0.0
    bytes_per_s: float = 0.0
    busy_share: float = 0.0  # Of the time


def refuse_others_io(others: Sequence[OtherPrograms], outcome: Outcome) -> None:
    """Raises BlklabError if other programs do much on a device in comparison with the cell.

    Much is a share of its I/Os and of its bytes. Few small I/Os do not disturb large ones, unless they take time.
    """
    seconds = outcome.observed_ns / 1e9
    devices = {device.name: device for device in outcome.devices}
    for other in others:
        device = devices.get(other.subject)
        if device is None:
            continue
        limit = OTHERS_SHARE * sum(device.ios) / seconds
        if other.busy_share <= BUSY_SHARE:
            limit = max(BUSY_IOS, limit)
        has_many_bytes = other.bytes_per_s > OTHERS_SHARE * sum(device.sectors) * SECTOR / seconds
        if other.ios_per_s > limit and (has_many_bytes or other.busy_share > OTHERS_BUSY):
            use = f"{other.ios_per_s:.0f} I/Os a second, limit {limit:.0f}"
            raise BlklabError(f"{device.name} was in use by another program ({use}). {STOP_OTHERS}")


def _page_cache(
    target: Mapping[str, Any], cells: Sequence[HostCellDocument], beneath: Sequence[SysfsLayer], roots: Roots
) -> Iterator[Diagnostic]:
    ram = memory(roots).get("MemTotal")
    for cell in cells:
        buffered_jobs = [
            job["name"]
            for job in cell["jobs"]
            if job["options"].get("direct", "0") in {"0", ""} and not _is_synced(job["options"])
        ]
        size = _data_bytes(target, cell, beneath)
        if buffered_jobs and ram is not None and size is not None and size <= ram:
            yield Diagnostic(
                "page-cache",
                "critical",
                target["name"],
                f"job {buffered_jobs[0]} does not use direct I/O: found {_gib(size)} of data, "
                f"expected more than the {_gib(ram)} of memory: the page cache would be measured",
                ("set direct = 1, or a larger size",),
            )
            return


def _is_synced(options: Mapping[str, str]) -> bool:
    """Returns whether a job writes only, and each write reaches the disk before the next."""
    only_writes = options.get("rw") in {"write", "randwrite"}
    syncs_each_write = "1" in {options.get("fsync"), options.get("fdatasync")}
    return only_writes and (syncs_each_write or options.get("sync", "0") not in {"0", "none"})


def _data_bytes(target: Mapping[str, Any], cell: HostCellDocument, beneath: Sequence[SysfsLayer]) -> int | None:
    """Returns how many bytes a cell's jobs use; None if unknown."""
    sizes: list[int] = []
    for job in cell["jobs"]:
        device_bytes = _size(beneath[0].node) if beneath and beneath[0].node is not None else None
        size, share = option_values.portion(job["options"].get("size", "100%"))
        if share is None:
            sizes.append(size)
        elif "device" in target and device_bytes is not None:
            sizes.append(int(share * device_bytes))
        else:
            return cell.get("file_bytes")
    return max(sizes, default=None)


def _small_data(
    target: Mapping[str, Any], cells: Sequence[HostCellDocument], beneath: Sequence[SysfsLayer]
) -> Iterator[Diagnostic]:
    cache_sizes = _caches(beneath)
    if configured_bytes := int(target.get("cache_bytes") or 0):
        cache_sizes["cache_bytes of the target"] = configured_bytes
    total = sum(cache_sizes.values())
    for cell in cells:
        size = _data_bytes(target, cell, beneath)
        if total and size is not None and size < 2 * total:
            cache_list = ", ".join(f"{name} {_gib(cache_bytes)}" for name, cache_bytes in cache_sizes.items())
            yield Diagnostic(
                "small-data",
                "critical",
                target["name"],
                f"found {_gib(size)} of data, expected at least twice the caches ({cache_list}): "
                "mostly the caches would be measured",
                ("set a larger size",),
            )
            return


def _caches(beneath: Sequence[SysfsLayer]) -> dict[str, int]:
    """Returns the sizes in bytes of the caches that sysfs shows: bcache's and LVM's.

    sysfs does not show that a volume is cached: LVM names the volume with the cached data
    VG-LV_cdata, or VG-LV_cvol if it also has the metadata (lvmcache(7)).
    """
    cache_users: dict[str, int] = {}
    for layer in beneath:
        if layer.node is None:
            continue
        if layer.kind == "dm":
            name = read_text(layer.node / "dm/name") or ""
            if re.search(r"_(cdata|cvol)$", name):
                cache_users[name] = _size(layer.node)
        if layer.kind == "bcache":
            for cache in entries(layer.node / "bcache/cache"):
                if re.fullmatch(r"cache\d+", cache.name):
                    disk = cache.resolve().parent
                    cache_users[disk.name] = _size(disk)
    return cache_users


def _size(node: Path) -> int:
    return int(read_text(node / "size") or 0) * SECTOR


def _powersave(roots: Roots) -> Iterator[Diagnostic]:
    for which, cpus in governors(roots).items():
        driver, _, governor = which.partition(" ")
        # These two choose the clock themselves; their `powersave` is not the lowest one
        # (Documentation/admin-guide/pm/intel_pstate.rst, amd-pstate.rst).
        itself = driver in {"intel_pstate", "amd-pstate-epp"}
        if governor == "powersave":
            effect = "vary" if itself else "are those of the lowest clock"
            yield Diagnostic(
                "powersave",
                "warning",
                f"{len(cpus)} CPUs",
                f"found governor powersave ({driver}), expected performance: latencies {effect}",
                ("cpupower frequency-set -g performance",),
            )


def _find_shingled_disks(beneath: Sequence[SysfsLayer], cells: Sequence[HostCellDocument]) -> Iterator[Diagnostic]:
    """Finds shingled disks that report it to the kernel, or whose model is known.

    Others cannot be recognised before a run. Their writes become slow when the area that
    collects them is full: `collapse` finds that afterwards.
    """
    has_writes = any(writes(cell) for cell in cells)
    for layer in beneath:
        if layer.kind != "disk" or layer.node is None or not has_writes:
            continue
        zone_model = read_text(layer.node / "queue/zoned") or "none"
        model = read_text(layer.node / "device/model") or ""
        if zone_model == "host-managed":
            yield Diagnostic(
                "smr-cliff",
                "critical",
                layer.name,
                "found a host-managed zoned disk, expected a conventional one: it accepts only sequential writes",
                ("use fio with zonemode=zbd for it",),
            )
        elif zone_model == "host-aware" or is_shingled(model):
            yield Diagnostic(
                "smr-cliff",
                "warning",
                layer.name,
                f"found a shingled disk ({model.strip() or zone_model}), expected a conventional one: "
                "writes become many times slower when its cache is full",
                ("write for longer than its cache lasts",),
            )


def _find_uncounted_devices(beneath: Sequence[SysfsLayer]) -> Iterator[Diagnostic]:
    for layer in beneath:
        if layer.disk is not None and read_text(layer.disk / "queue/iostats") == "0":
            yield Diagnostic(
                "iostats-off",
                "warning",
                layer.name,
                "found queue/iostats 0, expected 1: the kernel does not count its I/O, which would be 0 in the result",
                ("set iostats = 1 in [settings]",),
            )


def _memory(roots: Roots) -> Iterator[Diagnostic]:
    memory_bytes = memory(roots)
    total = memory_bytes.get("MemTotal", 0)
    free = memory_bytes.get("MemAvailable")
    if total and free is not None and free < total / 20:
        yield Diagnostic(
            "low-memory",
            "warning",
            "memory",
            f"found {_gib(free)} available of {_gib(total)}, expected at least 5 %: "
            "the machine would swap during the run",
            ("stop programs to free memory",),
        )


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.0f} MiB"


def collapse(points: Sequence[SeriesPoint], source: str) -> Diagnostic | None:
    """Returns a warning if a device's write rate fell to a fifth or less and stayed there, as SMR's.

    The parts before and after are those that explain the run best, each at least 5 intervals
    long. Full fast cells of flash, a full write cache and a slowing load look the same: the
    warning says that the steady state came late, not why.
    """
    rates = [p.write_bytes / p.width_ns for p in points if p.source == source and p.width_ns]
    sums = [0.0]
    for rate in rates:
        sums.append(sums[-1] + rate)
    best = 0.0
    boundary = 0
    for index in range(5, len(rates) - 4):
        before, after = sums[index] / index, (sums[-1] - sums[index]) / (len(rates) - index)
        # The variance between the parts: what the division explains.
        explains = (before - after) * math.sqrt(index * (len(rates) - index))
        if explains > best:
            best = explains
            boundary = index
    if not boundary:
        return None
    before, after = sums[boundary] / boundary, (sums[-1] - sums[boundary]) / (len(rates) - boundary)
    # After it, no interval may be as it was: jobs that pause and go on are no cliff.
    if after > before / 5 or max(rates[boundary + 1 :]) > before / 2:
        return None
    return Diagnostic(
        "smr-cliff",
        "warning",
        source,
        f"writes fell from {before * 1e9 / 2**20:.1f} to {after * 1e9 / 2**20:.1f} MiB/s in interval "
        f"{boundary + 1} of {len(rates)} and did not recover, expected a steady rate: "
        "a cache (of a shingled disk, or of flash) was full",
        ("measure only the time after it, with a ramp",),
    )
