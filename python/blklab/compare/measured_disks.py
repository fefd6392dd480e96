"""What fio measured, as far as its output and the user say: guesses, members of arrays, disks that are unlike."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blklab.devices import stock_models
from blklab.errors import UsageError
from blklab.fio import option_values
from blklab.grouping import by_key
from blklab.outcome import Outcome
from blklab.text.natural_order import natural_order
from blklab.units import format_duration

Table = dict[str, Any]

ROTATING_IOPS = 1000.0  # No rotating disk serves as many random I/Os a second: 15,000 rpm are 250 without a queue
ROTATING = ("hdd-7200", "hdd-5400", "hdd-smr")
FLASH = ("ssd-consumer", "ssd-datacenter", "ssd-qlc")
NVME = ("nvme-consumer", "nvme-datacenter", "nvme-qlc")
CLOUD = ("aws-gp3", "gcp-pd-ssd-500g", "azure-p30")
SHOWN_NAMES = 3  # Names of disks in a sentence; of more, the first and the last
UNLIKE = 3.0  # The ratio of latencies from which on equal disks are unlike
FEWEST_IOS = 100  # I/Os of a disk from which on its latency counts
_DISK_NAME = re.compile(r"nvme\d+n\d+|(?:xv|[svh])d[a-z]{1,3}|(?:loop|mmcblk|nbd|ram|pmem)\d+", re.A)
_COPIES = re.compile(r"(\d{1,3})[*x](.+)", re.A)


def is_disk_name(name: str) -> bool:
    """Returns whether the kernel gives such a name to disks."""
    return _DISK_NAME.fullmatch(name) is not None


def guess_models(name: str, iops: float = 0.0) -> list[str]:
    """Returns models that a disk of this name may be, the most likely first; `iops` are its random I/Os a second."""
    if name.startswith("nvme"):
        return list(NVME)
    if name.startswith(("vd", "xvd")):
        return [*CLOUD, "nvme-datacenter", "hdd-7200"]
    if iops >= ROTATING_IOPS:
        return [*FLASH, *NVME]
    return [*ROTATING[:2], *FLASH, *NVME, *ROTATING[2:]]


def guess_stacks(disks: Sequence[str], *, is_array: bool) -> list[str]:
    """Returns definitions for `--stack` that fit these disks; without disks, examples of an array.

    Separate disks under one load share it as a RAID-0 does.
    """
    if not disks:
        return ["raid1:2xhdd-7200", "raid5:3xhdd-7200", "raid10:4xnvme-datacenter"]
    members = f"{len(disks)}x{disks[0]}"
    if not is_array:
        return [f"raid0:{members}"]
    if len(disks) == 1:
        return [disks[0]]
    levels = {2: ("raid1", "raid0"), 3: ("raid5", "raid0", "raid1")}
    return [f"{level}:{members}" for level in levels.get(len(disks), ("raid10", "raid6", "raid5", "raid0"))]


def random_iops(outcome: Outcome, disks: int) -> float:
    """Returns the random I/Os a second of each of some disks; 0 if a job is sequential."""
    ways = [options.get("rw", options.get("readwrite", "read")) for options in outcome.job_options.values()]
    if not ways or not all(option_values.RW.get(way, (True, True, False))[2] for way in ways):
        return 0.0
    return (outcome.read.iops + outcome.write.iops) / max(1, disks)


def name_disks(names: Sequence[str]) -> str:
    """Returns names of disks for a sentence."""
    if len(names) > SHOWN_NAMES:
        return f"{names[0]} to {names[-1]}"
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def group_alike(names: Sequence[str]) -> list[list[str]]:
    """Returns groups of disks whose names differ in the number or the letter that the kernel gave them."""
    return list(by_key((_name_kind(name), name) for name in names).values())


def _name_kind(name: str) -> str:
    """Returns a disk's name without the number or the letter that the kernel gave it."""
    return re.sub(r"\d+", "0", re.sub(r"^((?:xv|[svh])d)[a-z]+", r"\1", name))


def expand_members(stack: Table, disks: Sequence[str], devices: Mapping[str, Table]) -> tuple[Table, dict[str, Table]]:
    """Returns a stack without `4*sda`, and the devices with those that `4*sda` makes.

    `disks` are those that fio named below the stack: four of them are the four that are like sda. A model may stand for
    the disk. Raises UsageError.
    """
    members: list[str] = []
    all_devices = dict(devices)
    for member in stack.get("members", []):
        match = _COPIES.fullmatch(member)
        if match is None:
            members.append(member)
            continue
        count = int(match[1])
        name = match[2]
        if not 1 < count <= 256:
            raise UsageError(f"{member}: expected 2 to 256 disks, such as 4*{name}")
        table = all_devices.get(name)
        is_model = table is None and name not in disks and name in stock_models.names()
        if is_model:
            table = {"model": name}
        if len(disks) == count:
            names = list(disks)
        elif is_model:
            names = [f"{name}-{number}" for number in range(1, count + 1)]
        else:
            names = _next_names(name, count)
        for disk in names:
            if table is not None:
                all_devices.setdefault(disk, {key: value for key, value in table.items() if key != "count"})
        members += names
    return ({**stack, "members": members} if members else stack), all_devices


def _next_names(name: str, count: int) -> list[str]:
    """Returns a disk's name and those that the kernel gives to the next disks of this kind."""
    if match := re.fullmatch(r"nvme(\d{1,4})n(\d+)", name, re.A):
        return [f"nvme{int(match[1]) + index}n{match[2]}" for index in range(count)]
    match = re.fullmatch(r"((?:xv|[svh])d)([a-z])", name, re.A)
    if match and ord(match[2]) + count - 1 <= ord("z"):
        return [f"{match[1]}{chr(ord(match[2]) + index)}" for index in range(count)]
    return [name, *(f"{name}-{number}" for number in range(2, count + 1))]


def describe_unlike_disks(outcome: Outcome, devices: Mapping[str, Table]) -> Iterator[str]:
    """Yields one sentence if disks of the same model have latencies that differ threefold."""
    for direction in range(2):
        latencies = _disk_latencies(outcome, direction)
        keyed = []
        for name in sorted(latencies, key=natural_order):
            table = devices.get(name) or devices.get(name.rstrip("0123456789"), {})
            keyed.append((str(table.get("model") or table.get("calibrated") or table or _name_kind(name)), name))
        for names in by_key(keyed).values():
            slow = max(names, key=lambda name: latencies[name])
            fast = min(names, key=lambda name: latencies[name])
            if latencies[slow] >= UNLIKE * latencies[fast]:
                word = "write" if direction else "read"
                yield (
                    f"a {word} took {format_duration(round(latencies[slow]))} on {slow} and "
                    f"{format_duration(round(latencies[fast]))} on {fast}: equal disks do not differ so much"
                )
                return


def _disk_latencies(outcome: Outcome, direction: int) -> dict[str, float]:
    """Returns the mean latency of reads or writes on each disk, ns: fio's disk statistics, or jobs on one disk."""
    latencies = {}
    for device in outcome.devices:
        if device.leaf is not False and any(device.ticks_ns) and device.ios[direction] >= FEWEST_IOS:
            latencies[device.name] = device.ticks_ns[direction] / device.ios[direction]
    if latencies:
        return latencies
    for group in outcome.groups:
        figures = group.write if direction else group.read
        file = outcome.job_options.get(group.name, {}).get("filename", "")
        if file.startswith("/dev/") and ":" not in file and figures.total_ios >= FEWEST_IOS and figures.clat_ns.mean:
            latencies[file.removeprefix("/dev/")] = figures.clat_ns.mean
    return latencies
