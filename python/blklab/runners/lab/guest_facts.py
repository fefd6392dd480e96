"""Describes the guest in which a cell was measured."""

from collections.abc import Mapping
from typing import Any

from blklab.experiment.documents import LabCellDocument
from blklab.outcome import GuestFacts
from blklab.runners.lab.machine.boot import GuestMachine
from blklab.runners.lab.rates import DiskRates
from blklab.runners.lab.stacks.guest import GuestLayer, GuestStack

QUEUE = ("scheduler", "nr_requests", "rotational", "max_sectors_kb", "wbt_lat_usec")
"""Attributes of each layer's queue that are kept with a result."""


def _describe_layer(layer: GuestLayer, answers: Mapping[str, str | None]) -> dict[str, Any]:
    """Returns the kernel's name of a layer, and the attributes of its queue that the kernel has."""
    queue = {}
    for key in QUEUE:
        text = answers[f"/sys/block/{layer.kernel}/queue/{key}"]
        if text is not None:
            queue[key] = text.strip()
    return {"kernel_name": layer.kernel, "queue": queue}


def describe_guest(
    machine: GuestMachine,
    guest: GuestStack,
    document: LabCellDocument,
    disk_rates: DiskRates,
    cpu_wait_share: float | None,
) -> GuestFacts:
    """Returns the environment of a measurement in this guest, which `cpu_wait_share` for this share of the time."""
    names = [layer.kernel for layer in guest.layers]
    answers = machine.agent.read([f"/sys/block/{name}/queue/{key}" for name in names for key in QUEUE])
    return GuestFacts(
        machine.accel,
        machine.hello.kernel,
        disk_rates.scale,
        {device["name"]: limits for device, limits in zip(document["devices"], disk_rates.limits, strict=True)},
        machine.io_cost,
        {layer.name: _describe_layer(layer, answers) for layer in guest.layers},
        guest.run("lsblk", "-J", "-o", "NAME,TYPE,SIZE,ROTA,FSTYPE", check=False).stdout,
        cpu_wait_share,
    )
