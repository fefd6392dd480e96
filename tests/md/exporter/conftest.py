"""What is exported of a machine made of files."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from blklab.md.exporter.activity import ActivityCounter, ActivitySource
from blklab.md.exporter.collector import Collector, make_registry
from blklab.md.exporter.inventory_cache import InventoryCache
from blklab.md.exporter.metrics import PREFIX
from blklab.md.probing import Probe
from blklab.md.superblocks import SuperblockReading
from tests.md.conftest import Arrays

Labels = frozenset[tuple[str, str]]
Series = Mapping[tuple[str, Labels], float]


class Clock:
    """Seconds, that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Counting(Probe):
    """Counts how often the disks are read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def read_superblocks(self, path: Path) -> SuperblockReading:
        self.read.append(path.name)
        return super().read_superblocks(path)


class Exported:
    """An exporter of a machine, and what it says."""

    def __init__(
        self,
        machine: Arrays,
        *,
        every: float | None = 3600,
        timeout: float | None = None,
        reader: Callable[[], Probe] | None = None,
        activity: Callable[[Arrays, Clock], ActivitySource] | None = None,
        deadline: float | None = None,
    ) -> None:
        self.clock = Clock()
        self.reader = Counting()
        self.log: list[str] = []
        disks = InventoryCache(
            machine.roots, every, timeout=timeout, clock=self.clock, reader=reader or (lambda: self.reader)
        )
        source = activity(machine, self.clock) if activity else ActivityCounter(machine.roots, self.clock)
        collector = Collector(disks, source, self.log.append, machine.roots, deadline=deadline, clock=self.clock)
        self.registry = make_registry(collector)

    def scrape(self) -> Series:
        """Every series and its value, by name without prefix, as a parser understands them."""
        return parsed(generate_latest(self.registry).decode())

    def series(self, metric: str, **labels: str) -> float | None:
        """The value of one series; None if it is not there."""
        return self.scrape().get((metric, frozenset(labels.items())))


def parsed(text: str) -> Series:
    """Exposed text as a parser understands it; no series may be there twice."""
    result: dict[tuple[str, Labels], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.name.startswith(PREFIX)
            key = (sample.name.removeprefix(PREFIX), frozenset(sample.labels.items()))
            assert key not in result
            result[key] = sample.value
    return result


def stats(machine: Arrays, lines: Iterable[str]) -> None:
    """Writes /proc/diskstats."""
    machine.proc("diskstats", "\n".join(lines))


@pytest.fixture
def mirrored(machine: Arrays) -> Arrays:
    """A machine with md0 of sda and sdb, and statistics of them."""
    machine.mirror()
    machine.mount("9:0", Path("/srv"), "ext4", "/dev/md0")
    stats(machine, ["8 0 sda 100 0 800 50 200 0 1600 70 0 100 120", "8 16 sdb 10 0 80 5 200 0 1600 90 0 60 95"])
    return machine
