"""A profile for reports: devices by name, the stack, derived figures."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from blklab.documents import profile as documents
from blklab.errors import BlklabError
from blklab.render import formatting
from blklab.text.natural_order import natural_order
from blklab.text.printing import printable
from blklab.text.suggestions import similar

if TYPE_CHECKING:
    from blklab.trace.shards.merging import ShardSummary

OPS = ("read", "write", "discard", "flush")  # Operations in the order in which they are shown
STAGES = {  # Stages of an I/O in btt's letters, and their meaning
    "q2c": "queued to completed",
    "q2d": "queued to dispatched",
    "d2c": "dispatched to completed",
    "q2g": "queued to request allocated",
    "g2i": "allocated to inserted",
    "i2d": "inserted to dispatched",
    "q2m": "queued to merged",
    "m2d": "merged to dispatched",
}
BLOCK = 4096  # Block size of hotness and working set, bytes
DIRECT = "direct"  # The source in a profile for I/Os that were not remapped


UNKNOWN = "(unknown)"  # The process name in a profile if the trace does not name the process


@dataclass(frozen=True)
class OriginGroup:
    """The I/Os of one process, CPU or source device."""

    label: str
    ios: dict[str, int]
    bytes: int
    written: int  # Bytes
    read_ns: documents.QuantilesSummary
    write_ns: documents.QuantilesSummary
    errors: int
    direct: bool = False  # Whether it is the source `direct`: not remapped from another device

    @property
    def total(self) -> int:
        """I/Os of all operations."""
        return sum(self.ios.values())


@dataclass(frozen=True)
class RemapEdge:
    """Remaps from `upper` to `lower`: an edge of the stack."""

    upper: str
    lower: str
    ios: int
    share: float  # Share of the lower device's I/Os, 0..=1


class DeviceView:
    def __init__(
        self, data: documents.DeviceProfile, names: dict[str, str], capabilities: documents.Capabilities
    ) -> None:
        self.data = data
        self.capabilities = capabilities
        """What the trace contains about the device."""
        self.number: str = data.device
        self.names = names
        self.label = names[self.number]
        self.start = data.start
        """The events with which I/Os begin in the trace: Q, or D or C if it was recorded without Q."""
        self.span_ns = data.observed_ns
        """Time from the first event to the last, ns; of several traces, the time that they cover."""
        self.latency_letters = "Q2C" if data.start == "Q" else "D2C"
        """What latencies over time are: Q2C, or D2C if the trace has no Q."""

    @cached_property
    def ios(self) -> int:
        """I/Os queued."""
        return sum(op.ios for op in self.data.load.ops.values())

    @cached_property
    def bytes(self) -> int:
        return sum(op.bytes for op in self.data.load.ops.values())

    @property
    def active(self) -> bool:
        """Whether the device has any I/O."""
        return self.ios > 0 or any(life.completed or life.without_queue for life in self.data.life.values())

    @property
    def iops(self) -> float | None:
        """Queued I/Os per second of the span."""
        return self.ios / (self.span_ns / 1e9) if self.span_ns else None

    @property
    def throughput(self) -> float | None:
        """Queued bytes per second of the span."""
        return self.bytes / (self.span_ns / 1e9) if self.span_ns else None

    @cached_property
    def ops(self) -> list[str]:
        """Operations with I/O, in the usual order."""
        return [op for op in OPS if self.op(op).ios or self.life(op).without_queue]

    def op(self, name: str) -> documents.OpLoadProfile:
        return self.data.load.ops[name]

    def life(self, name: str) -> documents.LifeProfile:
        """Returns the latencies of one operation; `all` is reads and writes."""
        return self.data.life[name]

    def streams(self, name: str) -> documents.StreamsSummary:
        """Returns the sequential streams of reads or writes."""
        pattern = self.data.pattern
        return pattern.read_streams if name == "read" else pattern.write_streams

    def dispersion(self) -> list[documents.Dispersion]:
        """Returns the burstiness in windows that are complete and longer than a tick of the trace's clock."""
        scales = self.data.pattern.arrivals.dispersion
        return [scale for scale in scales if scale.windows and scale.window_ns > (self.capabilities.clock_ns or 0)]

    def latency(self, op: str, stage: str = "q2c") -> documents.QuantilesSummary | None:
        """Returns the quantiles of one stage in ns; None if it never occurred."""
        quantiles = self.life(op).latency_ns[stage]
        return quantiles if quantiles.count else None

    def response(self, op: str) -> tuple[str, documents.QuantilesSummary] | None:
        """Returns Q2C, or D2C if there are no Q events: (letters, quantiles in ns)."""
        for stage in ("q2c", "d2c"):
            if (quantiles := self.latency(op, stage)) is not None:
                return stage.upper(), quantiles
        return None

    @property
    def has_depth(self) -> bool:
        """Whether the number of I/Os in flight is known."""
        return self.ends and self.start != "C" and self.data.in_flight.max > 0

    @property
    def busy(self) -> float | None:
        """Share of the time with I/O in flight; None if it is not known."""
        idle = self.data.in_flight.idle_share
        return 1 - idle if self.has_depth and idle is not None else None

    @property
    def passes_on(self) -> bool:
        """Whether the device is bio-based, like md and dm: it has no dispatch (D)."""
        return self.capabilities.layers and self.ends and self.start == "Q" and "D" not in self.data.events

    @property
    def ends(self) -> bool:
        """Whether the trace has completions; without them, I/Os in flight are unknown."""
        return bool(self.data.events.get("C"))

    @cached_property
    def errors(self) -> dict[str, dict[str, int]]:
        """Failed completions by operation and errno."""
        errors_by_op = {}
        for op in OPS:
            errors = self.life(op).errors
            if errors:
                errors_by_op[op] = errors
        return errors_by_op

    @property
    def failed(self) -> int:
        """I/Os that completed with an error."""
        return sum(sum(errors.values()) for errors in self.errors.values())

    @property
    def is_fed(self) -> bool:
        """Whether I/O was remapped to the device."""
        return any(source.name != DIRECT for source in self.data.load.sources)

    def groups(self, kind: str) -> list[OriginGroup]:
        """Returns its I/Os by `processes`, `cpus` or `sources`, largest first; none that the trace does not record."""
        if not (self.capabilities.processes if kind == "processes" else self.capabilities.layers):
            return []
        return [
            OriginGroup(
                label=self._group_label(kind, entry.name),
                ios=entry.ios,
                bytes=sum(entry.bytes.values()),
                written=entry.bytes.get("write", 0),
                read_ns=entry.read_q2c_ns,
                write_ns=entry.write_q2c_ns,
                errors=entry.errors,
                direct=kind == "sources" and entry.name == DIRECT,
            )
            for entry in getattr(self.data.load, kind)
        ]

    def _group_label(self, kind: str, name: str) -> str:
        if kind == "cpus":
            return f"CPU {name}" if name.isdigit() else printable(name)
        if kind == "processes":
            return printable(name) or "(unnamed)"
        if name == DIRECT:
            return f"queued on {self.label} itself"
        if name == self.number:
            return f"{self.label}, moved within itself"
        return self.names.get(name, printable(name))

    def slices(self) -> tuple[int, list[documents.SliceProfile]]:
        """Returns the width in ns and the time slices, from the first with I/O to the last."""
        over_time = self.data.over_time
        slices = over_time.slices
        busy = [index for index, interval in enumerate(slices) if _is_busy(interval)]
        busy_slices = slices[busy[0] : busy[-1] + 1] if busy else []
        return int(over_time.width_ns), busy_slices


def _is_busy(interval: documents.SliceProfile) -> bool:
    counts = (interval.reads, interval.writes, interval.others)
    return any(counts) or interval.read_p50_ns is not None or interval.write_p50_ns is not None


@dataclass(frozen=True)
class TreeNode:
    """A device, and the one below which it is drawn; None at the top."""

    device: DeviceView
    parent: DeviceView | None


class ProfileView:
    """A profile with its devices by name."""

    def __init__(self, profile: documents.Profile, shards: "ShardSummary | None" = None) -> None:
        self.profile = profile
        self.shards = shards
        """The figures of hosts and groups, if the trace consists of shards."""
        self.trace = profile.trace
        self.names = _labels(profile)
        capabilities = self.trace.capabilities
        self.devices = [DeviceView(data, self.names, capabilities) for data in profile.devices]
        self.stack = {layer.number.replace(":", ","): layer for layer in self.trace.stack}
        """The layers of the recorded machine by number, if the recording has them."""

    @cached_property
    def focus(self) -> DeviceView:
        """The main device. Raises BlklabError if no device has I/O."""
        active = [device for device in self.devices if device.active]
        if not active:
            raise BlklabError("no I/O to report on")
        matches = [device for device in active if device.number == self.profile.focus]
        return matches[0] if matches else max(active, key=lambda device: device.ios)

    def active_device(self, name: str | None, path: str) -> DeviceView:
        """Returns the device with I/O of this name or number, or the main one. Raises BlklabError; `path` is a file.

        A file that is a whole trace has no name in the profile.
        """
        if name is None:
            return self.focus
        active = [device for device in self.devices if device.active]
        for device in active:
            if name in {device.label, device.number}:
                return device
        labels = [device.label for device in active]
        names_text = f"{', '.join(labels)}{similar(name, labels)}"
        raise BlklabError(f"{printable(path)}: no I/O of device {printable(name)!r}: it has {names_text}")

    def devices_in_full(self, *, all_devices: bool) -> list[DeviceView]:
        """Returns the devices to show in full: the main one, all, or the user's selection."""
        if all_devices or self.profile.filter.devices:
            devices = [device for layer in self.layers() for device in layer]
            return [device for device in devices if device.active]
        return [self.focus]

    @cached_property
    def feeds(self) -> list[RemapEdge]:
        """The remaps between devices; and what the recording says of devices that do not trace remaps, as bcache."""
        remaps = []
        for device in self.devices:
            for source in device.data.load.sources:
                ios = sum(source.ios.values())
                if ios and source.name not in {DIRECT, device.number}:
                    remaps.append(RemapEdge(source.name, device.number, ios, ios / device.ios))
        traced_pairs = {(feed.upper, feed.lower) for feed in remaps}
        trace_numbers = {device.number for device in self.devices}
        numbers = {layer.name: key for key, layer in self.stack.items()}
        for device in self.devices:
            for upper in self._find_above(device.number, trace_numbers, numbers):
                if (upper, device.number) not in traced_pairs:
                    remaps.append(RemapEdge(upper, device.number, device.ios, 1.0))
        return remaps

    def _find_above(self, number: str, trace_numbers: set[str], numbers: dict[str, str]) -> set[str]:
        """Returns the nearest devices of the trace that are above a device, by the record of the stack."""
        waiting = [number]
        visited_numbers = {number}
        result = set()
        while waiting:
            layer = self.stack.get(waiting.pop())
            if not layer:
                continue
            for upper in {numbers.get(name, "") for name in layer.above} - visited_numbers:
                visited_numbers.add(upper)
                if upper in trace_numbers:
                    result.add(upper)
                else:
                    waiting.append(upper)
        return result

    def layers(self) -> list[list[DeviceView]]:
        """Returns the layers of the stack from top to bottom; devices of a layer do not feed each other."""
        above: dict[str, set[str]] = {device.number: set() for device in self.devices}
        for feed in self.feeds:
            if feed.upper in above:
                above[feed.lower].add(feed.upper)
        rank: dict[str, int] = {}
        while len(rank) < len(above):
            ready = [n for n, uppers in above.items() if n not in rank and uppers <= rank.keys()]
            # A cycle of devices is broken in the order of appearance.
            for number in ready or [n for n in above if n not in rank]:
                rank[number] = 1 + max((rank.get(u, -1) for u in above[number]), default=-1)
        layers: list[list[DeviceView]] = [[] for _ in range(max(rank.values(), default=-1) + 1)]
        for device in self.devices:
            layers[rank[device.number]].append(device)
        return [sorted(layer, key=lambda device: natural_order(device.label)) for layer in layers if layer]

    def tree(self) -> list[TreeNode]:
        """Returns all devices, each directly below its parent: that of its parents which comes last."""
        devices = [device for layer in self.layers() for device in layer]
        by_number = {device.number: device for device in devices}
        ranks = {device.number: rank for rank, layer in enumerate(self.layers()) for device in layer}
        uppers: dict[str, list[str]] = {device.number: [] for device in devices}
        for feed in self.feeds:
            # In a cycle of devices, one is above the others.
            if feed.upper in by_number and ranks[feed.upper] < ranks[feed.lower]:
                uppers[feed.lower].append(feed.upper)
        nodes: list[TreeNode] = []
        waiting = [TreeNode(device, None) for device in reversed(devices) if not uppers[device.number]]
        drawn: set[str] = set()
        while waiting:
            node = waiting.pop()
            nodes.append(node)
            drawn.add(node.device.number)
            lower = [
                device
                for device in devices
                if node.device.number in uppers[device.number] and drawn.issuperset(uppers[device.number])
            ]
            waiting += [TreeNode(device, node.device) for device in reversed(lower)]
        return nodes

    def span_ns(self) -> tuple[int, int]:
        """First and last event of all devices, ns since the start of the trace."""
        devices = [device for device in self.devices if device.data.events] or self.devices
        first = min((int(device.data.first_ns) for device in devices), default=0)
        return first, max((int(device.data.last_ns) for device in devices), default=0)

    def start_time(self) -> str | None:
        """The start of the trace in UTC, if the format records it."""
        start = self.trace.start_unix_ns
        if start is None:
            return None
        return f"{formatting.date_time(datetime.fromtimestamp(start / 1e9, tz=UTC), seconds=True)} UTC"

    def files(self) -> Iterator[tuple[str, list[str]]]:
        """The inputs: (name, files)."""
        for entry in self.trace.inputs:
            yield printable(entry.name), [printable(str(path)) for path in entry.files]


def _labels(profile: documents.Profile) -> dict[str, str]:
    """Returns a label for each device number: its name, with the number if names repeat."""
    # Devices that a filter excluded are included: I/O can come from them.
    names: dict[str, str | None] = dict(profile.device_names)
    names.update({data.device: data.name for data in profile.devices})
    known_numbers = names.keys() | {source.name for data in profile.devices for source in data.load.sources}
    labels = {layer.number.replace(":", ","): layer.label for layer in profile.trace.stack if layer.label}
    names.update({number: label for number, label in labels.items() if number in known_numbers})
    name_counts = Counter(names.values())
    return {
        number: printable(f"{name} ({number})" if name and name_counts[name] > 1 else name or number)
        for number, name in names.items()
    }
