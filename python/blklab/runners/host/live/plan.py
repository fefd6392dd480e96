"""What a live tuning would change, on which devices; refuses what it cannot do, and changes nothing.

Sources of the bounds: block/blk-mq.c and blk-sysfs.c (nr_requests, read_ahead_kb), drivers/md/raid5.c
(raid5_set_cache_size, raid5_store_group_thread_cnt), drivers/md/md.c (min_store, max_store), Linux 6.1 and 6.12.
"""

import os
import re
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.experiment.sweep import AS_IS
from blklab.runners.host import settings
from blklab.runners.host.live.arrays import find_problem, list_arrays
from blklab.runners.host.live.slices import SliceTimes
from blklab.system.identity import BlockDevice, of_node, resolve, same_disk
from blklab.system.layers import SysfsLayer, kind_of, layers
from blklab.system.roots import Roots, read_text

WHOLE_KINDS = ("disk", "loop", "md")


@dataclass(frozen=True)
class LiveSetting:
    """A setting that may change under a load: nothing that a power cut would show."""

    of_array: bool  # A file of the array, not of the queues of its disks
    metric: str  # What tells whether a value is better
    least: int | None = None  # None: the kernel lists the values
    most: int | None = None
    in_steps_of: int = 1
    other_word: str = ""  # A value that is no number
    while_checked: bool = False  # It acts only while the array is checked


PAGE_KB = resource.getpagesize() // 1024

LIVE_SETTINGS: Mapping[str, LiveSetting] = {
    # The counters of a disk do not show the wait for a free request, which both change: those of an array do.
    "scheduler": LiveSetting(of_array=False, metric="mean"),
    "nr_requests": LiveSetting(of_array=False, metric="mean", least=4, most=1 << 16),
    # It changes how large requests are, so their latencies do not compare.
    "read_ahead_kb": LiveSetting(of_array=True, metric="bw", least=0, most=1 << 20, in_steps_of=PAGE_KB),
    "stripe_cache_size": LiveSetting(of_array=True, metric="mean", least=17, most=32768),
    "group_thread_cnt": LiveSetting(of_array=True, metric="mean", least=0, most=8192),
    "sync_speed_min": LiveSetting(of_array=True, metric="mean", least=1, other_word="system", while_checked=True),
    "sync_speed_max": LiveSetting(of_array=True, metric="mean", least=1, other_word="system", while_checked=True),
}

ONLY_ARRAYS = frozenset({"stripe_cache_size", "group_thread_cnt", "sync_speed_min", "sync_speed_max"})
OF_QUEUES = frozenset({"scheduler", "nr_requests"})
MOST_MEMORY = 0.25  # Largest share of the available memory that a stripe cache may take
STRIPE_PAGE = 4096  # Bytes of a member in one stripe of the cache (raid5.h: a page)


@dataclass(frozen=True)
class LiveRequest:
    """What the user asks for."""

    key: str
    values: Sequence[str]
    devices: Sequence[str]  # As the user typed them
    limit_ns: int  # Of the latency
    seed: int


@dataclass(frozen=True)
class ChangedFile:
    """A file of the kernel that would change."""

    device: str  # The kernel's name
    path: Path
    present: str


@dataclass(frozen=True)
class LivePlan:
    """A live tuning that is checked."""

    key: str
    values: tuple[str, ...]  # `as is` first
    targets: tuple[BlockDevice, ...]  # What the user named: their I/O is measured
    layers: tuple[SysfsLayer, ...]  # The targets and all devices below them
    changed_layers: tuple[SysfsLayer, ...]  # Those with the setting
    disks: tuple[BlockDevice, ...]  # The targets, and the devices with the setting, as they were found
    files: tuple[ChangedFile, ...]
    arrays: tuple[Path, ...]  # Directories in sysfs of the arrays that must stay complete
    limit_ns: int
    seed: int
    metric: str
    notes: tuple[str, ...]

    @property
    def setting(self) -> LiveSetting:
        return LIVE_SETTINGS[self.key]

    @property
    def name(self) -> str:
        """The name of the campaign: `live-scheduler-md0`."""
        return "-".join(["live", self.key, *(target.name for target in self.targets)])

    def find_other_disk(self, roots: Roots) -> str:
        """Returns a message if another disk has the name of one that was planned, or none has; otherwise nothing."""
        for disk in self.disks:
            if not disk.node.exists() or not same_disk(disk, of_node(disk.node, roots)):
                return f"{disk.name}: the disk is gone, or another one has its name now"
        return ""

    def find_foreign_change(self, value: str) -> str:
        """Returns a message if a file of the setting does not have this value, `as is` for the former one."""
        for file in self.files:
            expected = file.present if value == AS_IS else value
            found = settings.current(file.path, self.key)
            if not settings.is_same_value(self.key, expected, found):
                return f"{file.path}: found {found}, expected {expected}: another program changed it meanwhile"
        return ""

    def find_array_problem(self, roots: Roots) -> str:
        """Returns why nothing may be changed now; empty if it may."""
        checked_names = [target.name for target in self.targets] if self.setting.while_checked else []
        return find_problem(self.arrays, checked_names, roots)

    def as_dict(self, times: SliceTimes) -> dict[str, Any]:
        """Returns the plan for `--json`; times are ns."""
        return {
            "setting": self.key,
            "values": list(self.values),
            "devices": [target.name for target in self.targets],
            "files": [{"device": file.device, "path": str(file.path), "present": file.present} for file in self.files],
            "arrays": [array.name for array in self.arrays],
            "latency_limit_ns": self.limit_ns,
            "metric": self.metric,
            "seed": self.seed,
            "slices": {**vars(times), "of_each_value": times.blocks},
            "notes": list(self.notes),
        }


def parse_setting(text: str) -> tuple[str, list[str]]:
    """Returns the key and the values of `--set KEY=VALUE,VALUE`. Raises UsageError."""
    key, equals, values_text = text.partition("=")
    key = key.strip()
    if key not in LIVE_SETTINGS:
        expected = ", ".join(LIVE_SETTINGS)
        raise UsageError(f"--set {key}: cannot be changed under a load: expected one of {expected}")
    values = [value.strip() for value in values_text.strip("[] ").split(",")]
    if not equals or not all(values):
        raise UsageError(f"--set {text}: expected KEY=VALUE,VALUE, such as scheduler=none,mq-deadline")
    if len(set(values)) < len(values):
        raise UsageError(f"--set {text}: found the same value twice")
    for value in values:
        _check_value(key, value)
    return key, values


def _check_value(key: str, value: str) -> None:
    rule = LIVE_SETTINGS[key]
    if rule.least is None or (rule.other_word and value == rule.other_word):
        return
    most = rule.most if rule.most is not None else (1 << 31) - 1
    words = f" or '{rule.other_word}'" if rule.other_word else ""
    if not (value.isascii() and value.isdigit()) or not rule.least <= int(value) <= most:
        raise UsageError(f"--set {key}: found {value!r}, expected a number from {rule.least} to {most}{words}")
    if int(value) % rule.in_steps_of:
        raise UsageError(f"--set {key}: found {value}, expected a multiple of {rule.in_steps_of} (the page size)")


def make_plan(request: LiveRequest, roots: Roots) -> LivePlan:
    """Returns the checked plan. Raises UsageError, EnvironmentLacks or BlklabError for what cannot be done."""
    targets = [_find_target(name, request.key, roots) for name in request.devices]
    names = [target.name for target in targets]
    if len(set(names)) < len(names):
        raise UsageError(f"{' '.join(request.devices)}: found the same device twice")
    all_layers = layers([target.number for target in targets], roots)
    candidates = _select_layers(request.key, all_layers, names, roots)
    values = list(request.values)
    for value in values:
        settings.check({request.key: value}, candidates, roots)
    changed_layers, files = _find_files(request.key, candidates, roots)
    notes = []
    for value in request.values:
        if all(settings.is_same_value(request.key, value, file.present) for file in files):
            values.remove(value)
            notes.append(f"{request.key} is {value} now: '{AS_IS}' measures this value")
    if not values:
        raise UsageError(f"--set {request.key}: {request.values[0]} is the present value: name another one")
    if request.key == "stripe_cache_size":
        notes += _describe_memory(max(map(int, values)), targets, roots)
    plan = LivePlan(
        key=request.key,
        values=(AS_IS, *values),
        targets=tuple(targets),
        layers=tuple(all_layers),
        changed_layers=tuple(changed_layers),
        disks=(*targets, *(of_node(layer.disk, roots) for layer in changed_layers if layer.disk is not None)),
        files=tuple(files),
        arrays=tuple(list_arrays([*all_layers, *changed_layers])),
        limit_ns=request.limit_ns,
        seed=request.seed,
        metric=_choose_metric(request.key, targets),
        notes=(*notes, *_describe_other_arrays(all_layers, changed_layers, roots)),
    )
    problem = plan.find_array_problem(roots)
    if problem:
        raise BlklabError(problem)
    return plan


def _find_target(name: str, key: str, roots: Roots) -> BlockDevice:
    """Returns a device that the user named. Raises UsageError if it is no whole disk or array."""
    node = roots.sys / "class/block" / name
    if "/" not in name and node.exists():  # The kernel's name: `md0`
        device = of_node(node.resolve(), roots, str(roots.device(name)))
    else:
        device = resolve(name, roots)
    kind = kind_of(device.node, device.name)
    if kind == "partition":
        disk = roots.device(device.node.parent.name)
        raise UsageError(f"{name}: a partition has no settings by itself: name its disk, {disk}")
    if kind not in WHOLE_KINDS:
        raise UsageError(f"{name}: found a device of kind {kind}, expected a whole disk or an md array")
    if key in ONLY_ARRAYS and kind != "md":
        raise UsageError(f"{name}: {key} is a setting of arrays, and this is a disk: name the array")
    if read_text(device.node / "queue/iostats") == "0":
        raise UsageError(f"{name}: the kernel does not count its I/O: write 1 to {device.node}/queue/iostats")
    return device


def _select_layers(
    key: str, all_layers: Sequence[SysfsLayer], targets: Sequence[str], roots: Roots
) -> list[SysfsLayer]:
    """Returns the devices whose setting would change.

    A setting of queues belongs to the first devices with a queue of requests, from each target down: of an array to its
    disks, of a loop device to itself and not to the disk that has its file.
    """
    if LIVE_SETTINGS[key].of_array:
        return [layer for layer in all_layers if layer.name in targets]
    above_queues = {*targets}  # Devices that can have one below them
    selected = []
    for layer in all_layers:  # Upper ones first
        if layer.name not in above_queues and not above_queues & {*layer.above}:
            continue
        if layer.kind != "partition" and layer.node is not None and settings.has_setting(layer.node, key, roots):
            selected.append(layer)
            above_queues.discard(layer.name)
        else:
            above_queues.add(layer.name)
    return selected or list(all_layers)


def _find_files(key: str, candidates: Sequence[SysfsLayer], roots: Roots) -> tuple[list[SysfsLayer], list[ChangedFile]]:
    """Returns the devices that have the setting, and its files. Raises EnvironmentLacks if one is not writable."""
    changed_layers: dict[Path, SysfsLayer] = {}
    files = []
    for layer in candidates:
        node = layer.disk
        if node is None or node in changed_layers or not settings.has_setting(node, key, roots):
            continue
        path = settings.path_of(node, key, roots)
        changed_layers[node] = layer
        files.append(ChangedFile(node.name, path, settings.current(path, key) or ""))
        if not os.access(path, os.W_OK):
            if os.geteuid() != 0:
                raise EnvironmentLacks(f"{path}: not writable for this user", "run it as root")
            raise EnvironmentLacks(f"{path}: read-only", "run it on the host itself: containers have a read-only /sys")
    return list(changed_layers.values()), files


def _choose_metric(key: str, targets: Sequence[BlockDevice]) -> str:
    if key in OF_QUEUES and not all((target.node / "md").is_dir() for target in targets):
        return "iops"
    return LIVE_SETTINGS[key].metric


def _describe_memory(most: int, targets: Sequence[BlockDevice], roots: Roots) -> list[str]:
    """Returns notes about the memory that a stripe cache takes. Raises UsageError if that is too much."""
    notes = []
    match = re.search(r"^MemAvailable: +(\d+) kB$", read_text(roots.proc / "meminfo") or "", re.M)
    available_mib = int(match[1]) >> 10 if match else None
    for target in targets:
        members = read_text(target.node / "md/raid_disks") or ""
        if members.isdigit():
            mib = most * STRIPE_PAGE * int(members) >> 20
            if available_mib is not None and mib > MOST_MEMORY * available_mib:
                raise UsageError(
                    f"--set stripe_cache_size: {most} takes {mib:,} MiB of memory on {target.name}, more than a "
                    f"quarter of the {available_mib:,} MiB that are available: name a smaller value"
                )
            notes.append(
                f"stripe_cache_size {most} takes {mib:,} MiB of memory on {target.name}, with {members} members"
            )
    return notes


def _describe_other_arrays(
    all_layers: Sequence[SysfsLayer], changed_layers: Sequence[SysfsLayer], roots: Roots
) -> list[str]:
    """Returns a note for each array that was not named, but whose disks are changed."""
    named = {layer.name for layer in all_layers}
    others = [array.name for array in list_arrays(changed_layers) if array.name not in named]
    return [f"{roots.device(name)} is on the same disks: the change meets its load as well" for name in others]
