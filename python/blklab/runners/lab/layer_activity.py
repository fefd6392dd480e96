"""Computes the activity of each layer of a stack from samples of the guest's statistics."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from blklab.errors import BlklabError
from blklab.experiment.documents import LabCellDocument
from blklab.outcome import DeviceResult
from blklab.runners.counter_deltas import CounterDeltas, Reading
from blklab.runners.lab.agent import FileSample
from blklab.runners.lab.stacks.guest import GuestStack
from blklab.store.series import SeriesPoint
from blklab.system import diskstats

DISKSTATS = "/proc/diskstats"
STAT = "/proc/stat"


@dataclass(frozen=True)
class LayerActivity:
    devices: list[DeviceResult]
    points: list[SeriesPoint]
    cpu: dict[str, float]
    watched_ns: int
    problems: list[str]


def compute_activity(guest: GuestStack, samples: Sequence[FileSample], document: LabCellDocument) -> LayerActivity:
    """Returns the activity of each layer of a stack during the load, without its ramp.

    The load is the time when the stack's top had I/O: fio takes seconds to start in an emulated
    guest. Raises BlklabError for statistics that cannot be read.
    """
    readings = [(sample.t_ns, _reading(sample)) for sample in samples]
    times = [time_ns for time_ns, _ in readings]
    if len(times) < 2 or times != sorted(times):
        raise BlklabError("expected at least two readings of the guest's statistics, in order")
    first, last = _span_of_load(readings, guest.layers[-1].kernel)
    begin_ns = readings[first][0] + int(document["ramp_ns"])
    start = next((index for index in range(first, last) if readings[index][0] >= begin_ns), None)
    problems = []
    if start is None:
        problems.append("the load ended before ramp_time: the figures below cover all of it")
        start = first
    names = [layer.kernel for layer in guest.layers]
    tally = CounterDeltas(names, readings[start][1], readings[start][0], 64)
    interval_ns = int(document["interval_ns"])
    due = tally.began_ns + interval_ns
    for now_ns, reading in readings[start + 1 : last + 1]:
        tally.take(reading, now_ns)
        if now_ns >= due or now_ns == readings[last][0]:
            tally.emit()
            due += interval_ns * max(1, -((due - now_ns - 1) // interval_ns))
    names_by_kernel = {layer.kernel: layer.name for layer in guest.layers}
    devices = [
        DeviceResult(
            layer.name,
            kind=layer.kind,
            above=layer.above,
            leaf=layer.kind == "disk",
            id=layer.serial,
            **tally.total[layer.kernel].counts(),
        )
        for layer in guest.layers
        if layer.kernel in tally.total
    ]
    points = [replace(point, source=names_by_kernel[point.source]) for point in tally.points]
    stats = (samples[index].files.get(STAT) or "" for index in (start, last))
    before, after = (diskstats.parse_cpu(stat, f"the guest's {STAT}") for stat in stats)
    problems += tally.problems
    return LayerActivity(devices, points, before.shares(after), tally.watched_ns, problems)


def _reading(sample: FileSample) -> Reading:
    text = sample.files.get(DISKSTATS)
    if text is None:
        raise BlklabError(f"cannot read the guest's {DISKSTATS}")
    return diskstats.parse(text, f"the guest's {DISKSTATS}")


def _span_of_load(readings: Sequence[tuple[int, Reading]], top: str) -> tuple[int, int]:
    """Returns the readings just before the first I/O of a device and just after its last one."""
    counts = [_count(diskstats.of(reading, top)) for _, reading in readings]
    changes = [index for index in range(1, len(counts)) if counts[index] != counts[index - 1]]
    return (changes[0] - 1, changes[-1]) if changes else (0, len(counts) - 1)


def _count(counters: diskstats.DeviceCounters) -> tuple[int, int, int]:
    return counters.reads, counters.writes, counters.in_flight
