"""Every runner by name. A new one is a module or package with its `KIND`, and a word here."""

from typing import Final

from blklab.runners import host, lab, sim
from blklab.runners.kind import RunnerKind

RUNNERS: Final[dict[str, RunnerKind]] = {
    kind.name: kind for kind in (sim.KIND, lab.KIND, host.KIND)
}
"""What `--on` takes, in this order."""


def predicts(name: str) -> bool:
    """Tells whether what is stored under a runner's name are predictions; imports are not."""
    return name in RUNNERS and RUNNERS[name].predicts


def did(name: str) -> str:
    """Returns what a runner, or a program that something was imported from, did: `simulated`."""
    return RUNNERS[name].did if name in RUNNERS else "imported"
