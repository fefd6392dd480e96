"""`blklab lab`: the guests of `blklab run --on lab`."""

import click

from blklab.cli.lazy import CommandEntry, LazyGroup

COMMANDS = {
    "demo": CommandEntry(
        "blklab.cli.lab.demo:demo", "Watch mirrors of unequal disks share their reads"
    ),
    "build": CommandEntry("blklab.cli.lab.build:build", "Make a guest's image beforehand, or anew"),
    "kernels": CommandEntry(
        "blklab.cli.lab.kernels:kernels", "List the kernels that guests can have"
    ),
    "prune": CommandEntry(
        "blklab.cli.lab.prune:prune", "Remove images that nothing asks for any more"
    ),
}


@click.group(cls=LazyGroup, entries=COMMANDS)
def lab() -> None:
    """Prepare what `blklab run --on lab` boots: a real Debian kernel in a virtual machine.

    Nothing here needs root: packages are fetched with apt into a cache of blklab's own, below
    XDG_CACHE_HOME, and unpacked there.
    """
