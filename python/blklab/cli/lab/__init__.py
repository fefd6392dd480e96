"""`blklab lab`: the guests of `blklab run --on lab`."""

import click

from blklab.cli.lazy import CommandEntry, LazyGroup

COMMANDS = {
    "demo": CommandEntry("blklab.cli.lab.demo:demo", "Measure and predict mirrors of unequal disks", "lab"),
    "build": CommandEntry("blklab.cli.lab.build:build", "Build or rebuild the image of a guest", "lab"),
    "kernels": CommandEntry("blklab.cli.lab.kernels:kernels", "List the kernels for guests"),
    "prune": CommandEntry("blklab.cli.lab.prune:prune", "Remove images of older kernels, and builds of bisections"),
}


@click.group(cls=LazyGroup, entries=COMMANDS)
def lab() -> None:
    """Prepare the guests of `blklab run --on lab`: virtual machines with a real Debian kernel.

    These commands do not need root. They download packages with apt into blklab's cache below
    XDG_CACHE_HOME and unpack them there.
    """
