"""Every runner by name. A new runner is a module or package with a `KIND`, and a word here."""

from blklab.runners import fleet, host, lab, sim
from blklab.runners.kind import RunnerKind

RUNNERS: dict[str, RunnerKind] = {kind.name: kind for kind in (sim.KIND, lab.KIND, host.KIND, fleet.KIND)}
"""The values of `--on`, in this order."""


def predicts(name: str) -> bool:
    """Tells whether a runner's results are predictions; imported results are not."""
    return name in RUNNERS and RUNNERS[name].predicts


def did(name: str) -> str:
    """Returns what a runner, or the program of an import, did: `simulated`."""
    return RUNNERS[name].did if name in RUNNERS else "imported"
