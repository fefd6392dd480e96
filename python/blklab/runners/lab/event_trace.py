"""Records the events of layers with blktrace in the guest."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from blklab.runners.lab.machine.boot import GuestMachine
from blklab.runners.lab.stacks.guest import GuestLayer, GuestStack

TRACES = "/run/blklab-trace"
TRACE = re.compile(r"[\w!.-]+\.blktrace\.\d+", re.A)
"""Names of blktrace's files: one for each device and processor."""


def recorded_stack(guest: GuestStack) -> list[dict[str, object]]:
    """Returns the layers as `blklab trace record` does; the names are those of the experiment."""
    kernel = {layer.name: layer.kernel for layer in guest.layers}
    return [
        {
            "number": (guest.read(f"/sys/block/{layer.kernel}/dev") or "").strip(),
            "name": layer.kernel,
            "label": layer.kernel,
            "kind": layer.kind,
            "role": layer.role,
            "bytes": int(guest.read(f"/sys/block/{layer.kernel}/size") or 0) * 512 or None,
            "above": [kernel[name] for name in layer.above],
        }
        for layer in guest.layers
    ]


@contextmanager
def tracing(machine: GuestMachine, guest: GuestStack, layers: Sequence[GuestLayer]) -> Iterator[list[str]]:
    """Records the events of layers during the block, and yields the warnings, complete after it. Raises BlklabError."""
    problems: list[str] = []
    guest.run("rm", "-rf", TRACES)
    guest.run("mkdir", "-p", TRACES)
    devices = []
    for layer in layers:
        devices += ["-d", layer.path]
    with machine.agent.running(["blktrace", "-D", TRACES, *devices], cwd=TRACES) as exits:
        guest.until(lambda: len(guest.glob(f"{TRACES}/*")) >= len(layers), "blktrace records events")
        yield problems
    for ran in exits:
        problems += warn_about_dropped_events(ran.stdout + ran.stderr)


def warn_about_dropped_events(output: str) -> list[str]:
    """Returns a warning about events that blktrace has lost (blktrace.c, `show_stats`)."""
    lost = re.findall(r"have (\d{1,18}) .{0,20}dropped events", output, re.A)[:1]
    return [f"blktrace dropped {many} events: the guest was too slow to write the traces" for many in lost]
