"""What would spoil a measurement, looked for before it: each with its name, for `--force NAME`.

Not seen: others on shared storage or beneath a virtual disk, a disk's own background work (SMART
tests, garbage collection), caches of controllers, heat to come.
"""

import math
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from blklab.diagnostic import Diagnostic
from blklab.errors import UsageError
from blklab.spec import fio_options
from blklab.spec.documents import HostCellDocument
from blklab.spec.host_cell import writes
from blklab.store.series import SeriesPoint
from blklab.system import diskstats
from blklab.system.environment import governors, memory
from blklab.system.identity import resolve
from blklab.system.layers import SysfsLayer, filesystem_devices, layers
from blklab.system.roots import Roots, entries, text

NAMES: Final = (
    "array-syncing",
    "array-degraded",
    "device-busy",
    "page-cache",
    "small-data",
    "powersave",
    "smr-cliff",
    "iostats-off",
    "low-memory",
)
"""What --force takes."""

BUSY_IOS: Final = 20.0
"""I/Os a second by others that a device may have: a journal's commit every 5 s is below it."""
BUSY_SHARE: Final = 0.05
"""Share of the time that a device may be busy with others' I/O."""
SAMPLE: Final = 2.0
"""Seconds that devices are watched for others' I/O."""

MANAGED_BY_THE_DRIVE: Final = (
    # Seagate, "CMR and SMR hard drives" (the maker's list of 2020 and after); Archive v2.
    r"ST(5000LM000|4000LM024|3000LM024|2000LM015|1000LM048|2000DM008|4000DM004|6000DM003|8000DM004)",
    r"ST(8000AS0002|6000AS0002|5000AS0011)",
    # Western Digital, "On WD Red NAS drives" (2020).
    r"WDC?[ _]?WD([2346]0EFAX|[26]0EZAZ|[12]0SPZX|10SPSX|40EZAZ)",
    # Toshiba, "CMR and SMR" list (2020).
    r"TOSHIBA[ _]?(MQ04\w+|DT02ABA[46]00|HDWD2[46]0|HDWL1[12]0)",
)
"""Models that shingle without telling the kernel."""


def layers_of(target: Mapping[str, Any], roots: Roots) -> list[SysfsLayer]:
    """Returns the devices of a cell's target, upper ones first. Raises UsageError for none such."""
    if "device" in target:
        return layers([resolve(target["device"], roots).number], roots)
    place = Path(target.get("filesystem") or target["directory"])
    try:
        return layers(sorted(filesystem_devices(place, roots)[0]), roots)
    except OSError as error:
        raise UsageError(f"{place}: {error.strerror}") from None


def check(
    target: Mapping[str, Any],
    cells: Sequence[HostCellDocument],
    roots: Roots,
    sleep: Callable[[float], object] = time.sleep,
    passed_by: Collection[str] = (),
) -> list[Diagnostic]:
    """Returns what would spoil the measurement of `cells` (documents) on a target.

    What is critical forbids to measure, unless it is `passed_by`. Watches the devices for SAMPLE
    seconds, unless they may be busy: nothing of ours may run meanwhile.
    """
    beneath = layers_of(target, roots)
    diagnostics = [
        *_arrays(beneath),
        *([] if "device-busy" in passed_by else _busy(beneath, roots, sleep)),
        *_page_cache(target, cells, beneath, roots),
        *_small_data(target, cells, beneath),
        *_powersave(roots),
        *_shingled(beneath, cells),
        *_uncounted(beneath),
        *_memory(roots),
    ]
    return [
        replace(diagnostic, severity="warning") if diagnostic.code in passed_by else diagnostic
        for diagnostic in diagnostics
    ]


def _arrays(beneath: Sequence[SysfsLayer]) -> Iterator[Diagnostic]:
    for layer in beneath:
        if layer.kind != "md" or layer.node is None:
            continue
        md = layer.node / "md"
        action = text(md / "sync_action")
        if action not in {None, "idle", "none"}:
            done = _progress(text(md / "sync_completed"))
            yield Diagnostic(
                "array-syncing",
                "critical",
                layer.name,
                f"found sync_action {action}{done}, expected idle: its I/O would be measured too",
                (f"wait for it (mdadm --wait /dev/{layer.name})",),
            )
        degraded = text(md / "degraded")
        if degraded not in {None, "", "0"}:
            yield Diagnostic(
                "array-degraded",
                "critical",
                layer.name,
                f"found {degraded} of its members missing, expected none: it reads and writes"
                " otherwise than whole",
                (f"see mdadm --detail /dev/{layer.name}",),
            )


def _progress(completed: str | None) -> str:
    """`1000 / 4000`, in sectors, or `none`, `delayed` (Documentation/admin-guide/md.rst)."""
    match = re.fullmatch(r"(\d+) / (\d+)", completed or "")
    return f" ({int(match[1]) / int(match[2]):.1%})" if match and int(match[2]) else ""


def _busy(
    beneath: Sequence[SysfsLayer], roots: Roots, sleep: Callable[[float], object]
) -> Iterator[Diagnostic]:
    """Reads /proc/diskstats twice. Only the lowest and the topmost: what is between follows."""
    watched = [layer.name for layer in beneath if layer.leaf or not layer.above]
    before = diskstats.read(roots)
    began = time.monotonic()
    sleep(SAMPLE)
    after = diskstats.read(roots)
    # A test's sleep is no time; the rates are of the true one, or of what was asked for.
    seconds = max(SAMPLE, time.monotonic() - began)
    for name in watched:
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            continue
        did = diskstats.difference(old, new, seconds, bits=diskstats.long_bits())
        rate, share = sum(did.ios) / seconds, did.busy_ns / 1e9 / seconds
        if rate > BUSY_IOS or share > BUSY_SHARE:
            yield Diagnostic(
                "device-busy",
                "critical",
                name,
                f"found {rate:.0f} I/Os a second by others, busy {share:.0%} of the time, expected"
                f" at most {BUSY_IOS:.0f} and {BUSY_SHARE:.0%}",
                ("see iotop, or wait",),
            )


def _page_cache(
    target: Mapping[str, Any],
    cells: Sequence[HostCellDocument],
    beneath: Sequence[SysfsLayer],
    roots: Roots,
) -> Iterator[Diagnostic]:
    ram = memory(roots).get("MemTotal")
    for cell in cells:
        buffered = [
            job["name"] for job in cell["jobs"] if job["options"].get("direct", "0") in {"0", ""}
        ]
        size = _data_bytes(target, cell, beneath)
        if buffered and ram is not None and size is not None and size <= ram:
            yield Diagnostic(
                "page-cache",
                "critical",
                target["name"],
                f"job {buffered[0]} is not direct: found {_gib(size)} of data, expected more than"
                f" the {_gib(ram)} of memory: the page cache would be measured",
                ("set direct = 1, or a larger size",),
            )
            return


def _data_bytes(
    target: Mapping[str, Any], cell: HostCellDocument, beneath: Sequence[SysfsLayer]
) -> int | None:
    """Returns how many bytes a cell's jobs touch; None if that is not known."""
    sizes: list[int] = []
    for job in cell["jobs"]:
        whole = _size(beneath[0].node) if beneath and beneath[0].node is not None else None
        size, share = fio_options.portion(job["options"].get("size", "100%"))
        if share is None:
            sizes.append(size)
        elif "device" in target and whole is not None:
            sizes.append(int(share * whole))
        else:
            return cell.get("file_bytes")
    return max(sizes, default=None)


def _small_data(
    target: Mapping[str, Any], cells: Sequence[HostCellDocument], beneath: Sequence[SysfsLayer]
) -> Iterator[Diagnostic]:
    known = _caches(beneath)
    if stated := int(target.get("cache_bytes") or 0):
        known["cache_bytes of the target"] = stated
    total = sum(known.values())
    for cell in cells:
        size = _data_bytes(target, cell, beneath)
        if total and size is not None and size < 2 * total:
            named = ", ".join(f"{name} {_gib(of)}" for name, of in known.items())
            yield Diagnostic(
                "small-data",
                "critical",
                target["name"],
                f"found {_gib(size)} of data, expected at least twice the caches ({named}): mostly"
                " these would be measured",
                ("set a larger size",),
            )
            return


def _caches(beneath: Sequence[SysfsLayer]) -> dict[str, int]:
    """Returns the sizes in bytes of the caches that sysfs shows: bcache's and LVM's.

    The kernel does not say in sysfs that a volume is cached: LVM calls the volume with the cached
    data VG-LV_cdata, or VG-LV_cvol if it has the metadata too (lvmcache(7)).
    """
    cache_users: dict[str, int] = {}
    for layer in beneath:
        if layer.node is None:
            continue
        if layer.kind == "dm":
            name = text(layer.node / "dm/name") or ""
            if re.search(r"_(cdata|cvol)$", name):
                cache_users[name] = _size(layer.node)
        if layer.kind == "bcache":
            for cache in entries(layer.node / "bcache/cache"):
                if re.fullmatch(r"cache\d+", cache.name):
                    disk = cache.resolve().parent
                    cache_users[disk.name] = _size(disk)
    return cache_users


def _size(node: Path) -> int:
    return int(text(node / "size") or 0) * 512


def _powersave(roots: Roots) -> Iterator[Diagnostic]:
    for which, cpus in governors(roots).items():
        driver, _, governor = which.partition(" ")
        # These two choose the clock themselves; their `powersave` is not the lowest one
        # (Documentation/admin-guide/pm/intel_pstate.rst, amd-pstate.rst).
        itself = driver in {"intel_pstate", "amd-pstate-epp"}
        if governor == "powersave":
            yield Diagnostic(
                "powersave",
                "warning",
                f"{len(cpus)} CPUs",
                f"found governor powersave ({driver}), expected performance: latencies"
                f" {'vary' if itself else 'are those of the lowest clock'}",
                ("cpupower frequency-set -g performance",),
            )


def _shingled(
    beneath: Sequence[SysfsLayer], cells: Sequence[HostCellDocument]
) -> Iterator[Diagnostic]:
    """Disks that shingle: told by the kernel, or known by model. Others cannot be told beforehand.

    Their writes collapse when what they collect them in is full: `collapse` sees that afterwards.
    """
    written = any(writes(cell) for cell in cells)
    for layer in beneath:
        if layer.kind != "disk" or layer.node is None or not written:
            continue
        zoned = text(layer.node / "queue/zoned") or "none"
        model = text(layer.node / "device/model") or ""
        if zoned == "host-managed":
            yield Diagnostic(
                "smr-cliff",
                "critical",
                layer.name,
                "found a host-managed zoned disk, expected a conventional one: it takes writes in"
                " order only",
                ("fio needs zonemode=zbd for it",),
            )
        elif zoned == "host-aware" or any(
            re.search(pattern, model.strip()) for pattern in MANAGED_BY_THE_DRIVE
        ):
            yield Diagnostic(
                "smr-cliff",
                "warning",
                layer.name,
                f"found a shingled disk ({model.strip() or zoned}), expected a conventional one:"
                " writes are fast until its cache is full, then many times slower",
                ("write for much longer than that lasts",),
            )


def _uncounted(beneath: Sequence[SysfsLayer]) -> Iterator[Diagnostic]:
    for layer in beneath:
        if layer.disk is not None and text(layer.disk / "queue/iostats") == "0":
            yield Diagnostic(
                "iostats-off",
                "warning",
                layer.name,
                "found queue/iostats 0, expected 1: its I/O is not counted, and will be 0 in the"
                " result",
                ("set iostats = 1 in the settings",),
            )


def _memory(roots: Roots) -> Iterator[Diagnostic]:
    memory_ = memory(roots)
    total, free = memory_.get("MemTotal", 0), memory_.get("MemAvailable")
    if total and free is not None and free < total / 20:
        yield Diagnostic(
            "low-memory",
            "warning",
            "memory",
            f"found {_gib(free)} available of {_gib(total)}, expected 5 % at least: the machine"
            " would swap in the run",
            ("end what is not needed",),
        )


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.0f} MiB"


def collapse(points: Sequence[SeriesPoint], source: str) -> Diagnostic | None:
    """Returns a warning if a device's write rate fell for good to a fifth or less, as SMR's does.

    Between the parts before and after, each at least 5 intervals long, that explain the run best.
    Flash whose fast cells are full, a filled write cache and a slowing load do the same: it says
    that a steady state came late, not why.
    """
    rates = [p.write_bytes / p.width_ns for p in points if p.source == source and p.width_ns]
    sums = [0.0]
    for rate in rates:
        sums.append(sums[-1] + rate)
    best, where = 0.0, 0
    for at in range(5, len(rates) - 4):
        before, after = sums[at] / at, (sums[-1] - sums[at]) / (len(rates) - at)
        # The variance between the parts: what the division explains.
        explains = (before - after) * math.sqrt(at * (len(rates) - at))
        if explains > best:
            best, where = explains, at
    if not where:
        return None
    before, after = sums[where] / where, (sums[-1] - sums[where]) / (len(rates) - where)
    # After it, no interval may be as it was: jobs that pause and go on are no cliff.
    if after > before / 5 or max(rates[where + 1 :]) > before / 2:
        return None
    return Diagnostic(
        "smr-cliff",
        "warning",
        source,
        f"writes fell from {before * 1e9 / 2**20:.1f} to {after * 1e9 / 2**20:.1f} MiB/s in"
        f" interval {where + 1} of {len(rates)} and stayed there, expected a steady rate: a cache"
        " (of a shingled disk, or flash) was full",
        ("measure what comes after, with a ramp",),
    )
