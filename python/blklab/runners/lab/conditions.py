"""The conditions of a measurement in the guest: environment, cost of an I/O, waits for processors, and doubts."""

import re
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError
from blklab.fio import output
from blklab.fio.latency import parse_latency
from blklab.fio.node import JsonNode
from blklab.outcome import GuestFacts, IoCost
from blklab.runners.fio.process import PATIENCE
from blklab.runners.lab.files import results_device
from blklab.runners.lab.layer_activity import DISKSTATS
from blklab.runners.lab.machine.boot import GuestMachine
from blklab.runners.lab.rates import DiskRates
from blklab.runners.lab.stacks.guest import GuestStack
from blklab.spec.documents import LabCellDocument, latency_ns
from blklab.system import diskstats
from blklab.system.roots import Roots, text


def waited_us(roots: Roots) -> int | None:
    """Returns how long a task has waited for a CPU since boot, µs.

    None before 4.20 and where it is switched off. Documentation/accounting/psi.rst: the total of
    the line `some` of /proc/pressure/cpu.
    """
    match = re.match(r"some .*?\btotal=(\d{1,20})", text(roots.proc / "pressure/cpu") or "", re.A)
    return int(match[1]) if match else None


class PressureMeter:
    """Measures the share of the time since its creation in which a task waited for a processor of this machine."""

    def __init__(self) -> None:
        self._roots = Roots()
        self._began = time.monotonic()
        self._before = waited_us(self._roots)

    def share(self) -> float | None:
        """Returns the share so far, 0 to 1; None if the kernel does not report it."""
        after, seconds = waited_us(self._roots), time.monotonic() - self._began
        if self._before is None or after is None or seconds <= 0:
            return None
        return min(1.0, (after - self._before) / 1e6 / seconds)


QUEUE = ("scheduler", "nr_requests", "rotational", "max_sectors_kb", "wbt_lat_usec")
"""Attributes of each layer's queue that are kept with a result."""


def describe_guest(
    machine: GuestMachine, guest: GuestStack, document: LabCellDocument, wanted: DiskRates, waited: float | None
) -> GuestFacts:
    """Returns the environment of a measurement in this guest, which `waited` for this share of the time."""
    names = [layer.kernel for layer in guest.layers]
    answers = machine.agent.read([f"/sys/block/{name}/queue/{key}" for name in names for key in QUEUE])
    return GuestFacts(
        machine.accel,
        machine.hello.kernel,
        wanted.scale,
        {device["name"]: limits for device, limits in zip(document["devices"], wanted.limits, strict=True)},
        machine.io_cost,
        {
            layer.name: {
                "kernel_name": layer.kernel,
                "queue": {
                    key: text.strip()
                    for key in QUEUE
                    if (text := answers[f"/sys/block/{layer.kernel}/queue/{key}"]) is not None
                },
            }
            for layer in guest.layers
        },
        guest.run("lsblk", "-J", "-o", "NAME,TYPE,SIZE,ROTA,FSTYPE", check=False).stdout,
        waited,
    )


BUSY = 0.9  # Share of busy time from which the guest's processors, not the disks, may limit the rates


def check(document: LabCellDocument, wanted: DiskRates, cpu: Mapping[str, float]) -> Iterator[Diagnostic]:
    """Yields what a result does not show, or may show wrongly."""
    if wanted.scale != 1:
        message = (
            f"all devices' rates are divided by {wanted.scale:g}, within the guest's reach: use shares, ratios and "
            "orderings, not absolute rates"
        )
        yield Diagnostic("scaled-rates", "warning", "", message)
    yield from wanted.doubts
    for device in document["devices"]:
        if latency := latency_ns(device["model"]):
            message = (
                f"dm-delay adds its latency of {latency / 1e6:g} ms, in whole ms and by the guest's timer: an I/O "
                "takes longer than that, by 4 ms and more before Linux 6.7"
            )
            yield Diagnostic("coarse-latency", "warning", f"device {device['name']}", message)
    busy = cpu["user"] + cpu["system"] + cpu["irq"] + cpu["steal"]
    if busy >= BUSY:
        message = (
            f"the guest's processors were busy for {100 * busy:.0f} % of the time: the rates may be those of the "
            "processors, not of the disks"
        )
        yield Diagnostic("cpus", "warning", "", message, ("compare with a larger lab.scale, or with more lab.cpus",))


ALONE = "--rw=randread --bs=4k --size=16m --iodepth=1 --direct=1 --ioengine=libaio --time_based --runtime=1s"
"""One I/O at a time: where disks are limited, jobs sleep between their I/Os."""

SPAN_MS = 50  # A busy host delays I/Os of a guest, never the reverse: of such spans the first quartile counts


def measure_io_cost(machine: GuestMachine) -> IoCost:
    """Measures the cost of an I/O on the disk for results, which no cell uses and nothing limits.

    The kernel counts the disk's own time (block/blk-mq.c, `blk_account_io_done`), and fio (io_u.c,
    ioengines.c) the time of a submission, and from there to the completion. Raises BlklabError.
    """
    device = results_device(machine)
    words = ["--output-format=json", "--name=alone", f"--filename={device}", *ALONE.split(), "--thread"]
    with machine.agent.sampling(SPAN_MS, [DISKSTATS]) as samples:
        ran = machine.agent.run(["fio", *words], timeout=PATIENCE)
    counted = [
        (sample.t_ns, diskstats.of(diskstats.parse(sample.files.get(DISKSTATS) or ""), device.removeprefix("/dev/")))
        for sample in samples
    ]
    spans = [
        ((end_ns - start_ns) / reads, (after.read_ticks - before.read_ticks) * diskstats.MS / reads)
        for (start_ns, before), (end_ns, after) in pairwise(counted)
        if (reads := after.reads - before.reads) > 0
    ]
    document = output.parse_document(ran.stdout)
    iops = output.outcome(document).read.iops
    if not spans or not iops:
        raise BlklabError("cannot measure the cost of an I/O: fio in the guest did not read")
    interval_ns, latency_ns = sorted(spans)[len(spans) // 4]
    fio_read = next(JsonNode(document, "").parts("jobs")).part("read") or JsonNode({}, "")
    # fio has only means: the same share of this interval.
    shares = [parse_latency(fio_read, 1, key).mean * iops / 1e9 for key in ("slat_ns", "clat_ns")]
    return IoCost(
        latency_ns=max(0, round(latency_ns)),
        submit_ns=round(interval_ns * shares[0]),
        reap_ns=max(0, round(interval_ns * (1 - sum(shares)))),
        wake_ns=max(0, round(interval_ns - latency_ns)),
    )
