"""A machine made of files with a RAID-1 under load: its counters grow while a test runs."""

from pathlib import Path

import pytest

from blklab.runners.host.live.plan import LivePlan, LiveRequest, make_plan
from blklab.runners.host.live.slices import SliceTimes
from blklab.system.roots import Roots
from tests.system.machine import Machine

MS = 10**6
QUICK = SliceTimes(slice_ns=40 * MS, settle_ns=10 * MS, interval_ns=10 * MS, blocks=2)
CPU = "cpu  100 0 100 1000 0 0 0 0 0 0\n"


class Load:
    """The I/O of devices: /proc/diskstats, which grows whenever the made-up time goes on."""

    def __init__(self, roots: Roots, names: dict[str, str]) -> None:
        self.names = names  # `major:minor` by name
        self.mean_ms = 2  # Of an I/O
        self.ios_each = 5  # Reads, and writes, between two updates
        self.writes_each: int | None = None  # If it is not the same for writes
        self.in_flight = 0
        self._counts = dict.fromkeys(names, 0)
        self._ticks = dict.fromkeys(names, 0)
        self._writes = dict.fromkeys(names, 0)
        self._write_ticks = dict.fromkeys(names, 0)
        self._path = roots.proc / "diskstats"
        self.now_ns = 10**12
        self.update()

    def update(self) -> None:
        lines = []
        for name, number in self.names.items():
            self._counts[name] += self.ios_each
            self._ticks[name] += self.ios_each * self.mean_ms
            writes = self.ios_each if self.writes_each is None else self.writes_each
            self._writes[name] += writes
            self._write_ticks[name] += writes * self.mean_ms
            ios, ticks = self._counts[name], self._ticks[name]
            written, write_ticks = self._writes[name], self._write_ticks[name]
            major, minor = number.split(":")
            columns = [ios, 0, 8 * ios, ticks, written, 0, 8 * written, write_ticks]
            columns += [self.in_flight, 0, ticks + write_ticks]
            lines.append(" ".join([major, minor, name, *map(str, columns)]))
        new = self._path.with_name("diskstats.new")
        new.write_text("\n".join(lines) + "\n")
        new.replace(self._path)

    def sleep(self, seconds: float) -> None:
        """Lets the time go on, and the load with it."""
        self.now_ns += round(seconds * 1e9)
        self.update()

    def clock(self) -> int:
        """Returns the made-up time, ns."""
        return self.now_ns


@pytest.fixture
def array(machine: Machine) -> Machine:
    """A RAID-1 of two partitions, and a RAID-5 whose member is another partition of a disk."""
    machine.proc("sys/kernel/random/boot_id", "boot-1")
    machine.write(machine.roots.proc, {"stat": CPU})
    for name, number in (("sda", "8:0"), ("sdb", "8:16")):
        machine.device(
            name,
            number,
            device__serial=f"S-{name}",
            diskseq=number.partition(":")[2],
            queue__scheduler="none [mq-deadline] bfq",
            queue__nr_requests="64",
            queue__read_ahead_kb="128",
        )
        machine.device(f"{name}1", number[:-1] + str(int(number[-1]) + 1), parent=name)
    machine.device("sdb2", "8:18", parent="sdb")
    md = {"md__array_state": "active", "md__sync_action": "idle", "md__degraded": "0", "md__raid_disks": "2"}
    queue = {"queue__scheduler": "none", "queue__nr_requests": "128", "queue__read_ahead_kb": "1024"}
    machine.device("md0", "9:0", slaves="sda1 sdb1", **md, **queue, md__sync_speed_min="1000 (system)")
    machine.device("md5", "9:5", slaves="sdb2", **md, **queue, md__stripe_cache_size="256", md__group_thread_cnt="0")
    return machine


@pytest.fixture
def load(array: Machine) -> Load:
    return Load(array.roots, {"md0": "9:0", "md5": "9:5", "sda": "8:0", "sdb": "8:16"})


def plan_for(machine: Machine, key: str, values: list[str], *devices: str, limit_ms: int = 100) -> LivePlan:
    return make_plan(LiveRequest(key, values, devices or ("md0",), limit_ms * MS, seed=1), machine.roots)


def value_of(machine: Machine, path: str) -> str:
    return (machine.roots.sys / "block" / path).read_text().strip()


def link_process(roots: Roots, pid: int) -> None:
    """Shows a real process in the machine's /proc."""
    link = Path(roots.proc) / str(pid)
    if not link.exists():
        link.symlink_to(f"/proc/{pid}")
