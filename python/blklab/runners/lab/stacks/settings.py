"""Changes the experiment's settings in the guest: of queues, of arrays, of memory."""

from collections.abc import Mapping

from blklab.errors import BlklabError
from blklab.runners.lab.stacks.build import changed
from blklab.runners.lab.stacks.guest import GuestStack
from blklab.spec.sweep import MD, OF_REQUESTS, QUEUE, VM


def apply(guest: GuestStack, settings: Mapping[str, str]) -> None:
    """Changes settings (`blklab.spec.sweep`) on every layer that has them.

    Raises BlklabError if no layer has one, or if the kernel refuses.
    """
    for key, value in settings.items():
        if key.startswith(VM):
            changed(guest, f"/proc/sys/vm/{key.removeprefix(VM)}", value)
            continue
        kind = "md" if key in MD else "queue" if key in QUEUE else None
        if kind is None:
            raise BlklabError(f"setting {key}: not supported in the lab")
        name = f"device/{key}" if key == "queue_depth" else f"{kind}/{key}"
        layers = [candidate for candidate in guest.layers if candidate.kind == "disk" or key not in OF_REQUESTS]
        paths = [f"/sys/block/{layer.kernel}/{name}" for layer in layers]
        there = [path for path in paths if guest.read(path) is not None]
        if not there:
            raise BlklabError(f"setting {key}: no device of the guest has it")
        for path in there:
            changed(guest, path, value)
