"""Resolves a stack's names to a tree of devices, with its capacity and its errors."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from blklab import kernels, units
from blklab.devices.controllers import read_controllers
from blklab.devices.device import DiskTable, model_document
from blklab.documents import cell
from blklab.experiment import capacity, documents
from blklab.experiment.capacity import short
from blklab.experiment.documents import FailureDocument
from blklab.experiment.placement import CACHES
from blklab.experiment.stack import MISSING, Bare, Md, Volume, parts
from blklab.experiment.tables import INTERNAL, Experiment, Settings
from blklab.md.levels import STRIPED
from blklab.toml_files import problems
from blklab.toml_files.problems import KeyedError

JOURNAL = "settings.filesystem"  # The table that says where the journal is
LEAST_JOURNAL = 64 << 20  # Bytes: mkfs.xfs refuses less (xfsprogs 5.19, `validate_supported`)


@dataclass
class ResolvedStack:
    """A stack, resolved: a tree of arrays and volumes over devices."""

    node: documents.Node = field(default_factory=dict)
    capacity: int = 0
    devices: list[cell.Device] = field(default_factory=list)
    tables: list[DiskTable] = field(default_factory=list)  # The table of each device
    failures: list[FailureDocument] = field(default_factory=list)  # Members that fail during the load
    real: str | None = None  # A key that only a real kernel supports, if there is one
    journal: documents.Node | None = None  # What the filesystem's journal is on, if that is not the stack
    own_devices: int = 0  # How many of the devices, the first ones, are the stack's own: the others have the journal


def inner(experiment: Experiment) -> set[str]:
    """Returns the stacks that are members of others."""
    stacks: set[str] = set()
    for stack in experiment.stacks.values():
        if not isinstance(stack, Bare):
            stacks.update(parts(stack))
    stacks.update(_journal_names(experiment))
    return (stacks & experiment.stacks.keys()) - {name for name, _ in _units(experiment)} - experiment.devices.keys()


def _journal_names(experiment: Experiment) -> set[str]:
    """Returns the names that an experiment gives as places of the journal, also those of its matrix."""
    names = {experiment.settings.external_journal}
    for key, values in experiment.matrix.items():
        if key.endswith("filesystem.journal"):
            names.update(value for value in values if isinstance(value, str))
        if key.endswith("filesystem"):
            names.update(value.get("journal") for value in values if isinstance(value, dict))
    return {name for name in names if name}


def build(experiment: Experiment, name: str) -> ResolvedStack:
    """Resolves a stack, and what its filesystem's journal is on. Raises SpecProblems."""
    resolved_stack = ResolvedStack()
    resolver = _StackResolver(experiment, resolved_stack)
    resolved_stack.node, resolved_stack.capacity = resolver.stack(name, ())
    resolved_stack.own_devices = len(resolved_stack.devices)
    if journal := experiment.settings.external_journal:
        resolved_stack.journal = resolver.journal(journal, name)
    return resolved_stack


class _StackResolver:
    def __init__(self, experiment: Experiment, built: ResolvedStack) -> None:
        self.experiment = experiment
        self.built = built
        self.disks = dict(_units(experiment))
        self.used: dict[str, str] = {}

    def stack(self, name: str, above: tuple[str, ...]) -> tuple[documents.Node, int]:
        """Returns a stack's node and its capacity; `above` are the stacks that contain it."""
        table = self.experiment.stacks[name]
        if isinstance(table, Bare):
            path = f"stacks.{name}.device"
            device = self._expand_name(table.device, path)
            if len(device) > 1 or device[0] not in self.disks:
                disk_names = problems.listing(list(self.disks))
                raise problems.fail(path, f"{table.device!r} is not one device; allowed: {disk_names}")
            return self.disk(device[0], name, path)
        if isinstance(table, Md):
            return self.array(name, table, (*above, name))
        return self.volume(name, table, (*above, name))

    def journal(self, name: str, stack: str) -> documents.Node:
        """Returns the node of the device or stack with the journal of the filesystem on `stack`."""
        path = f"{JOURNAL}.journal"
        names = self._expand_name(name, path)
        if names == [MISSING] or len(names) > 1:
            raise problems.fail(path, f"{name!r} is not one device; allowed: {problems.listing([*names, INTERNAL])}")
        if name == stack:
            raise problems.fail(path, f"{name!r} is the stack with the filesystem itself: write {INTERNAL!r}")
        if name in self.disks:
            node, size = self.disk(name, "journal", path)
        elif name in self.used:
            raise problems.fail(path, f"{name!r} is used twice: in {self.used[name]!r} and in 'journal'")
        else:
            node, size = self.stack(name, (stack,))
        if any(kind in CACHES for kind, _ in documents.arrays_and_volumes(node)):
            raise problems.fail(path, f"{name!r} is a cache: expected a device, an array or a logical volume")
        if size < LEAST_JOURNAL:
            least = units.format_size(LEAST_JOURNAL)
            raise problems.fail(path, f"{name!r} has {units.format_size(size)}, expected at least {least}")
        return node

    def disk(self, name: str, owner: str, path: str) -> tuple[documents.Node, int]:
        if name in self.used:
            suffix = "" if self.used[name] == owner else f": in {self.used[name]!r} and in {owner!r}"
            raise problems.fail(path, f"{name!r} is used twice{suffix}")
        self.used[name] = owner
        table, disk = self.disks[name]
        self.built.devices.append(device_document(name, table, disk, self.experiment.settings))
        if disk.controller is not None:
            if disk.controller not in self.experiment.controllers:
                hint = problems.near(disk.controller, [*self.experiment.controllers, *read_controllers()])
                raise problems.fail(f"devices.{table}.controller", f"there is no {disk.controller!r}; {hint}")
            self.built.devices[-1]["controller"] = disk.controller
        self.built.tables.append(disk)
        return {"device": len(self.built.devices) - 1}, self.built.devices[-1]["bytes"]

    def volume(self, name: str, table: Volume, above: tuple[str, ...]) -> tuple[documents.Node, int]:
        """Returns the node of a stack with a `kind`, and its capacity."""
        path = f"stacks.{name}"
        node_table: dict[str, Any] = {"name": name, **table.model_dump(by_alias=True)}
        del node_table["kind"]
        sizes: dict[str, list[int]] = {}
        for key in table.PARTS:
            names = node_table[key] if key == "members" else [node_table[key]]
            part_names: list[str] = []
            for part in names:
                part_names += self._expand_name(part, f"{path}.{key}")
            if MISSING in part_names or (key != "members" and len(part_names) > 1):
                raise problems.fail(f"{path}.{key}", "expected one device or stack")
            resolved_parts = [self._member(part_name, name, above, key) for part_name in part_names]
            node_table[key] = [node for node, _ in resolved_parts] if key == "members" else resolved_parts[0][0]
            sizes[key] = [size or 0 for _, size in resolved_parts]
        try:
            total = table.capacity(sizes)
        except KeyedError as error:
            raise problems.fail(f"{path}.{error.key}", str(error)) from error
        if total <= 0:
            raise problems.fail(path, "is too small: no space is left for data")
        return {table.kind: node_table}, total

    def array(self, name: str, md: Md, above: tuple[str, ...]) -> tuple[documents.Node, int]:
        path = f"stacks.{name}"
        members: list[str] = []
        for member in md.members:
            members += self._expand_name(member, f"{path}.members")
        write_mostly = self._subset(md.write_mostly, members, f"{path}.write_mostly")
        rebuilding = self._subset(md.rebuilding, members, f"{path}.rebuilding")
        if problem := capacity.too_few(md.level, len(members), md.copies):
            key = "layout" if "copies" in problem else "members"
            raise problems.fail(f"{path}.{key}", problem)
        if problem := capacity.too_many(md.level, len(members)):
            raise problems.fail(f"{path}.members", problem)
        slots: list[cell.Member] = []
        sizes: list[int | None] = []
        for member in members:
            node, size = self._member(member, name, above)
            sizes.append(size)
            node = cast(cell.Node | None, node)
            slots.append({"node": node, "write_mostly": member in write_mostly, "rebuilding": member in rebuilding})
        present = [slot["node"] is not None and not slot["rebuilding"] for slot in slots]
        array = capacity.array(md.level, md.layout_word, md.chunk, sizes)
        missing_slots = [slot for slot, is_present in enumerate(present) if not is_present]
        if not any(present) or (array and not array.runs_without(missing_slots)):
            lost_count = len(present) - sum(present)
            raise problems.fail(
                f"{path}.members",
                f"level {short(md.level)} cannot run with {lost_count} of {len(present)} members missing or rebuilding",
            )
        self._failures(name, md, members)
        if array is None or not array.capacity:
            raise problems.fail(f"{path}.members", "are too small: no space is left for the array")
        return {"md": self._document(name, md, slots)}, array.capacity * units.SECTOR

    def _failures(self, name: str, md: Md, members: list[str]) -> None:
        path = f"stacks.{name}.fail"
        for number, failure in enumerate(md.fail):
            member_path = f"{path}[{number}].member"
            (member, *other_names) = self._expand_name(failure.member, member_path)
            if other_names or member not in members or member == MISSING:
                allowed_names = ", ".join(member_name for member_name in members if member_name != MISSING)
                raise problems.fail(
                    member_path, f"{failure.member!r} is not one member of the array; allowed: {allowed_names}"
                )
            self.built.real = self.built.real or path
            self.built.failures.append(
                {"array": name, "slot": members.index(member), "at_ns": failure.at, "re_add_ns": failure.re_add}
            )

    def _member(
        self, member: str, owner: str, above: tuple[str, ...], key: str = "members"
    ) -> tuple[documents.Node | None, int | None]:
        path = f"stacks.{owner}.{key}"
        if member == MISSING:
            return None, None
        if member in self.disks:
            return self.disk(member, owner, path)
        if member in above:
            circle = " → ".join([*above[above.index(member) :], member])
            raise problems.fail(path, f"{member!r} would contain itself: {circle}")
        if member in self.used:
            raise problems.fail(path, f"{member!r} is used twice")
        self.used[member] = owner
        return self.stack(member, above)

    def _expand_name(self, name: str, path: str) -> list[str]:
        """Returns the devices or stacks of a member's name: itself, or each of `count` devices."""
        device = self.experiment.devices.get(name)
        if device is not None and device.count > 1:
            return [f"{name}{number}" for number in range(1, device.count + 1)]
        if name in self.disks or name in self.experiment.stacks or name == MISSING:
            return [name]
        hint = problems.near(name, [*self.disks, *self.experiment.stacks])
        raise problems.fail(path, f"there is no device or stack {name!r}; {hint}")

    def _subset(self, names: list[str], members: list[str], path: str) -> set[str]:
        members_by_name = {name: self._expand_name(name, path) for name in names}
        for name, member_names in members_by_name.items():
            if not set(member_names) <= set(members) or name == MISSING:
                allowed_names = ", ".join(member for member in members if member != MISSING)
                raise problems.fail(path, f"{name!r} is not a member of the array; allowed: {allowed_names}")
        return set[str]().union(*members_by_name.values())

    def _document(self, name: str, md: Md, slots: list[cell.Member]) -> cell.Md:
        rebuilds = any(slot["rebuilding"] for slot in slots)
        sync = md.sync or ("recover" if rebuilds else "idle")
        if (sync == "recover") != rebuilds:
            article = "a" if rebuilds else "no"
            message = (
                f"found {sync!r} and {article} rebuilding member: "
                "'recover' and rebuilding = [\"…\"] must be used together"
            )
            raise problems.fail(f"stacks.{name}.sync", message)
        near, far, offset = md.copies
        document: cell.Md = {
            "name": name,
            "level": cast(cell.Level, md.level),
            "chunk": md.chunk if md.level in STRIPED else 0,
            "near": near,
            "far": far,
            "offset": offset,
            "members": slots,
            "stripe_cache": md.stripe_cache_size,
            "bitmap": bool(md.bitmap),
            "bitmap_chunk": md.bitmap_chunk,
            "sync": sync,
            "sync_speed_min": md.sync_speed_min,
            "sync_speed_max": md.sync_speed_max,
        }
        if md.group_thread_cnt:
            document["group_thread_cnt"] = md.group_thread_cnt
        if md.rmw_level != 1:
            document["rmw_level"] = md.rmw_level
        if md.bitmap == "lockless":
            document["lockless"] = True
        return document


def check_names(experiment: Experiment) -> None:
    """Raises SpecProblems if two things have the same name, or a setting is of no device."""
    device_names: set[str] = set()
    for name, _ in _units(experiment):
        if name in device_names:
            raise problems.fail(f"devices.{name}", "is also one of the devices that another device's count makes")
        device_names.add(name)
    for name, stack in experiment.stacks.items():
        if (name in device_names or name in experiment.devices) and not isinstance(stack, Bare):
            raise problems.fail(
                f"stacks.{name}", "is also the name of a device: only a stack with `device` may be called like one"
            )
    has_throttled = any(disk.kind == "throttled" for disk in experiment.devices.values())
    if experiment.settings.latency_ns is not None and experiment.devices and not has_throttled:
        raise problems.fail("settings.latency_ns", "has an effect only on throttled devices, and there is none")


def _units(experiment: Experiment) -> Iterator[tuple[str, tuple[str, DiskTable]]]:
    """Returns every single device by its name, with its table and the table's name."""
    for table, disk in experiment.devices.items():
        for number in range(1, disk.count + 1):
            yield table if disk.count == 1 else f"{table}{number}", (table, disk)


def device_document(name: str, table: str, disk: DiskTable, settings: Settings) -> cell.Device:
    """Returns a device as the simulator takes it. Raises SpecProblems."""
    path = f"devices.{table}"
    size = disk.size
    if size is None and disk.capacity is not None:
        size = disk.capacity - disk.start
    if size is None:
        raise problems.fail(f"{path}.size", "is missing here and in the device: set one of them")
    if size <= 0:
        raise problems.fail(f"{path}.size", "no space is left on the device")
    if disk.capacity is not None and disk.start + size > disk.capacity:
        size_text, start, end = map(units.format_size, (size, disk.start, disk.capacity))
        raise problems.fail(f"{path}.size", f"{size_text} at {start} reaches beyond the device's end at {end}")
    model = model_document(disk)
    if model["kind"] == "throttled" and settings.latency_ns is not None and "latency_ns" not in disk.model_fields_set:
        model["latency_ns"] = settings.latency_ns
    return {
        "name": name,
        "bytes": size,
        "start": disk.start,
        "model": model,
        "queue": queue_document(path, disk, settings),
    }


def queue_document(path: str, disk: DiskTable, settings: Settings) -> cell.QueueSettings:
    """Returns a device's queue: its own keys, then the settings', then the kernel's defaults."""
    kind = disk.kind
    version = kernels.parse(settings.kernel)
    scheduler = disk.scheduler or settings.scheduler or kernels.scheduler(kind, version)
    names = kernels.schedulers(kind, version)
    if scheduler not in names:
        key_path = f"{path}.scheduler" if disk.scheduler else "settings.scheduler"
        raise problems.fail(
            key_path,
            f"kernel {settings.kernel} has no {scheduler!r} for {kind!r} devices, expected one of {', '.join(names)}",
        )
    depth = disk.queue_depth or settings.queue_depth or kernels.queue_depth(kind, version)
    requests = disk.nr_requests or settings.nr_requests or kernels.requests(scheduler, depth)
    values = (disk.rotational, settings.rotational, kernels.rotational(kind))
    rotational = next(value for value in values if value is not None)
    wbt = disk.wbt_lat_usec
    if wbt is None:
        wbt = kernels.wbt_lat_usec(kind, version, scheduler, rotational)
    elif wbt and version < kernels.WBT:
        raise problems.fail(
            f"{path}.wbt_lat_usec",
            f"kernel {settings.kernel} has no writeback throttling: expected 0, or kernel 4.10 or later",
        )
    back = disk.reports_cache if disk.write_cache is None else disk.write_cache == "write back"
    return {
        "scheduler": scheduler,
        "nr_requests": requests,
        "queue_depth": depth,
        "max_bytes": _max_sectors_kb(path, disk, settings, kernels.max_sectors_kb(version)) << 10,
        "rotational": rotational,
        "wbt_lat_ns": wbt * 1000,
        "write_back": back,
    }


def _max_sectors_kb(path: str, disk: DiskTable, settings: Settings, default: int) -> int:
    hardware_limit = disk.max_hw_sectors_kb
    for value, key_path in (
        (disk.max_sectors_kb, f"{path}.max_sectors_kb"),
        (settings.max_sectors_kb, "settings.max_sectors_kb"),
    ):
        if value is not None:
            if hardware_limit is not None and value > hardware_limit:
                raise problems.fail(key_path, f"found {value}, the device takes at most {hardware_limit}")
            return value
    return default if hardware_limit is None else min(default, hardware_limit)
