"""Tells what a result of the lab does not show, or may show wrongly."""

from collections.abc import Iterator, Mapping

from blklab.diagnostic import Diagnostic
from blklab.experiment.documents import LabCellDocument, latency_ns
from blklab.runners.lab.rates import DiskRates

BUSY = 0.9  # Share of busy time from which the guest's processors, not the disks, may limit the rates


def check(document: LabCellDocument, disk_rates: DiskRates, cpu: Mapping[str, float]) -> Iterator[Diagnostic]:
    """Yields what a result does not show, or may show wrongly."""
    if disk_rates.scale != 1:
        yield Diagnostic(
            "scaled-rates",
            "warning",
            "",
            f"all devices' rates are divided by {disk_rates.scale:g}, within the guest's reach: "
            "use shares, ratios and orderings, not absolute rates",
        )
    yield from disk_rates.doubts
    for device in document["devices"]:
        if latency := latency_ns(device["model"]):
            yield Diagnostic(
                "coarse-latency",
                "warning",
                f"device {device['name']}",
                f"dm-delay adds its latency of {latency / 1e6:g} ms, "
                "in whole ms and by the guest's timer: an I/O takes longer than that, "
                "by 4 ms and more before Linux 6.7",
            )
    busy = cpu["user"] + cpu["system"] + cpu["irq"] + cpu["steal"]
    if busy >= BUSY:
        yield Diagnostic(
            "cpus",
            "warning",
            "",
            f"the guest's processors were busy for {100 * busy:.0f} % of the time: "
            "the rates may be those of the processors, not of the disks",
            ("compare with a larger lab.scale, or with more lab.cpus",),
        )
