"""The conditions of a measurement in the guest: its environment, and doubts about it."""

from collections.abc import Iterator, Mapping
from typing import Final

from blklab import outcome
from blklab.diagnostic import Diagnostic
from blklab.runners.lab.machine.boot import GuestMachine
from blklab.runners.lab.rates import DiskRates
from blklab.runners.lab.stacks.guest import GuestStack
from blklab.spec.documents import LabCellDocument, latency_ns

QUEUE: Final = ("scheduler", "nr_requests", "rotational", "max_sectors_kb", "wbt_lat_usec")
"""Attributes of each layer's queue that are kept with a result."""


def describe_guest(
    machine: GuestMachine, guest: GuestStack, document: LabCellDocument, wanted: DiskRates
) -> outcome.GuestFacts:
    """Returns the environment of a measurement in this guest."""
    names = [layer.kernel for layer in guest.layers]
    answers = machine.agent.read([f"/sys/block/{name}/queue/{key}" for name in names for key in QUEUE])
    return {
        "accel": machine.accel,
        "kernel": machine.hello.kernel,
        "scale": wanted.scale,
        "limits": {device["name"]: limits for device, limits in zip(document["devices"], wanted.limits, strict=True)},
        "layers": {
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
        "lsblk": guest.run("lsblk", "-J", "-o", "NAME,TYPE,SIZE,ROTA,FSTYPE", check=False).stdout,
    }


BUSY: Final = 0.9  # Share of busy time from which the guest's processors, not the disks, may limit the rates


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
