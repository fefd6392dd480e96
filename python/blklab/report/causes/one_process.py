"""One process has most of the waiting."""

import shlex
from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.report import formatting
from blklab.report.causes.waiting import Waiting, sum_ns
from blklab.report.view import UNKNOWN

MOST = 0.6  # Share of the waiting
MORE = 1.2  # The share of the waiting is at least so many times that of the I/Os
OTHERS = 0.1  # Share of the I/Os that other processes have


def find(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the process with most of a device's waiting, if others use the device too."""
    for device in waiting.entrances:
        groups = [each for each in device.groups("processes") if not each.label.startswith(("kworker", UNKNOWN))]
        times = [sum_ns(each.read_ns) + sum_ns(each.write_ns) for each in groups]
        whole, ios = sum(times), sum(each.total for each in groups)
        if not whole:
            continue
        took, group = max(zip(times, groups, strict=True), key=lambda each: each[0])
        share = took / whole
        if share < MOST or share < MORE * group.total / ios or group.total > (1 - OTHERS) * ios:
            continue
        message = (
            f"{group.label} has {formatting.share(share)} of the waiting of all processes, with"
            f" {formatting.share(group.total / ios)} of their I/Os"
        )
        remedy = (f"see what it does: blklab trace stat … --process {shlex.quote(group.label)}",)
        yield waiting.cause("one-process", device, took, message, *remedy)
