"""`blklab devices`: one module and one line in COMMANDS for each command."""

import click

from blklab.cli.lazy import CommandEntry, LazyGroup

COMMANDS: dict[str, CommandEntry] = {
    "list": CommandEntry("blklab.cli.devices.library:list_", "List the device models of the library"),
    "show": CommandEntry("blklab.cli.devices.library:show", "Show a model, and its data sheet next to the simulation"),
    "identify": CommandEntry("blklab.cli.devices.identify:identify", "Find the models of this host's disks"),
    "import": CommandEntry("blklab.cli.devices.exchange:import_", "Make a model from the figures of io.cost"),
    "export": CommandEntry("blklab.cli.devices.exchange:export", "Print a model as lines of io.cost"),
}


@click.group(cls=LazyGroup, entries=COMMANDS, subcommand_metavar="COMMAND ...", options_metavar="")
def devices() -> None:
    """Find the device model for a disk: products, typical disks of a class, and cloud volumes."""
