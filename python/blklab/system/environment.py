"""The environment of a measurement: kernel, CPUs, memory, every queue and array."""

import os
import re
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from blklab import __version__
from blklab.system.identity import of_node
from blklab.system.layers import SysfsLayer, list_mount_devices
from blklab.system.mounts import mounts
from blklab.system.roots import Roots, entries, read_text

QUEUE = (  # Files of queue/ (Documentation/ABI/stable/sysfs-block)
    *("scheduler", "nr_requests", "read_ahead_kb", "max_sectors_kb", "max_hw_sectors_kb", "rotational", "nomerges"),
    *("rq_affinity", "add_random", "iostats", "wbt_lat_usec", "write_cache", "fua", "io_poll", "zoned"),
    *("logical_block_size", "physical_block_size", "minimum_io_size", "optimal_io_size", "discard_max_bytes"),
)

MD = (  # Files of md/ (Documentation/admin-guide/md.rst)
    *("level", "layout", "raid_disks", "chunk_size", "metadata_version", "array_state", "degraded"),
    *("sync_action", "sync_completed", "sync_speed_min", "sync_speed_max", "mismatch_cnt", "consistency_policy"),
    *("stripe_cache_size", "preread_bypass_threshold", "group_thread_cnt", "skip_copy", "rmw_level", "journal_mode"),
    *("bitmap/location", "bitmap/chunksize", "bitmap/metadata", "bitmap_type"),
)

MEMBER = ("state", "slot", "errors", "offset", "size")  # Files in md/dev-NAME/

VM = (  # Files of /proc/sys/vm
    *("dirty_ratio", "dirty_bytes", "dirty_background_ratio", "dirty_background_bytes"),
    *("dirty_expire_centisecs", "dirty_writeback_centisecs", "swappiness", "vfs_cache_pressure"),
)


def environment(layers: Iterable[SysfsLayer], roots: Roots) -> dict[str, Any]:
    """Returns the state of this machine and of the devices, as JSON values.

    Values that the kernel does not report are None or missing. Programs' output (versions, lsblk) is not included.
    """
    name = os.uname()
    return {
        "blklab": __version__,
        "host": name.nodename,
        "kernel": {"system": name.sysname, "release": name.release, "version": name.version, "machine": name.machine},
        "cpu": _cpu(roots),
        "memory_bytes": memory(roots).get("MemTotal"),
        "vm": _files(roots.proc / "sys/vm", VM),
        "mdstat": _clean(read_text(roots.proc / "mdstat")),
        "devices": [_device(layer, roots) for layer in layers],
    }


def _clean(content: str | None) -> str | None:
    """Replaces bytes that are not UTF-8, which a result could not store."""
    return None if content is None else content.encode(errors="surrogateescape").decode(errors="replace")


def _files(directory: Path, names: Iterable[str]) -> dict[str, str]:
    contents = {name: _clean(read_text(directory / name)) for name in names}
    return {name: " ".join(value.split()) for name, value in contents.items() if value is not None}


def memory(roots: Roots) -> dict[str, int]:
    """Returns /proc/meminfo in bytes."""
    lines = re.findall(r"^(\w+):\s+(\d+) kB$", read_text(roots.proc / "meminfo") or "", re.M)
    return {name: int(number) * 1024 for name, number in lines}


def governors(roots: Roots) -> dict[str, list[str]]:
    """Returns the CPUs (`cpu0`…) by `driver governor` of cpufreq; empty where there is none."""
    cpus_by_governor: dict[str, list[str]] = {}
    for cpu in entries(roots.sys / "devices/system/cpu"):
        governor = read_text(cpu / "cpufreq/scaling_governor")
        if re.fullmatch(r"cpu\d+", cpu.name) and governor:
            driver = read_text(cpu / "cpufreq/scaling_driver") or "unknown"
            cpus_by_governor.setdefault(f"{driver} {governor}", []).append(cpu.name)
    return cpus_by_governor


def _cpu(roots: Roots) -> dict[str, Any]:
    cpuinfo = read_text(roots.proc / "cpuinfo") or ""
    # Names of the model: x86 and s390, PowerPC, some ARM; other ARM has none.
    model = re.search(r"^(?:model name|cpu|Model|Hardware)\s*:\s*(.+)$", cpuinfo, re.M)
    # `nohz_full` and `smt` shape latencies as much as the clock does.
    return {
        "model": _clean(model[1].strip()) if model else None,
        "count": len(re.findall(r"^processor\s*:?\s*\d+", cpuinfo, re.M)) or os.cpu_count(),
        "governor": sorted(governors(roots)) or None,
        "smt": read_text(roots.sys / "devices/system/cpu/smt/active"),
        "thermal_throttle_count": _count_throttling(roots),
    }


def _count_throttling(roots: Roots) -> int | None:
    """Returns how often the CPUs were throttled since boot because of heat (Intel only)."""
    cpus = entries(roots.sys / "devices/system/cpu")
    counts = [read_text(cpu / "thermal_throttle/package_throttle_count") for cpu in cpus]
    numbers = [int(count) for count in counts if count and count.isdigit()]
    return max(numbers) if numbers else None


def _device(layer: SysfsLayer, roots: Roots) -> dict[str, Any]:
    facts: dict[str, Any] = {**vars(layer), "above": list(layer.above)}
    node = facts.pop("node")
    disk = layer.disk
    if node is None or disk is None:
        return {**facts, "gone": True}
    identity = asdict(of_node(node, roots))
    facts |= {key: identity[key] for key in ("diskseq", "size")}
    facts["ids"] = [_clean(device_id) for device_id in identity["ids"]]
    if layer.kind == "partition":
        start = read_text(node / "start")
        return facts | {"start_bytes": int(start) * 512 if start else None}
    facts["queue"] = _files(disk / "queue", QUEUE)
    hardware = _files(disk / "device", ("vendor", "model", "serial", "rev", "queue_depth", "type"))
    if "rev" not in hardware and (firmware := read_text(disk / "device/firmware_rev")):
        hardware["rev"] = firmware
    facts["hardware"] = hardware
    if layer.kind == "md":
        facts["md"] = _files(disk / "md", MD)
        facts["md"]["members"] = {
            entry.name.removeprefix("dev-"): _files(entry, MEMBER)
            for entry in entries(disk / "md")
            if entry.name.startswith("dev-")
        }
    elif layer.kind == "dm":
        facts["dm"] = _files(disk / "dm", ("name", "uuid", "suspended"))
    elif layer.kind == "loop":
        facts["loop"] = _files(disk / "loop", ("backing_file", "dio", "offset", "sizelimit", "autoclear"))
    elif layer.kind == "bcache":
        facts["bcache"] = _files(disk / "bcache", ("cache_mode", "state", "sequential_cutoff", "writeback_percent"))
    facts["mounts"] = [
        {"point": _clean(m.point), "type": m.kind, "options": m.flags, "filesystem": m.options}
        for m in mounts(roots)
        if layer.number in list_mount_devices(m, roots)
    ]
    return facts
