"""`blklab md`: arrays, of this machine and of others."""

import click

from blklab.cli.lazy import CommandEntry, LazyGroup

COMMANDS = {
    "audit": CommandEntry("blklab.cli.md.audit:audit", "Say what is wrong or risky with arrays"),
    "fix": CommandEntry("blklab.cli.md.fix:fix", "Repair arrays: take bad-block lists away"),
    "watch": CommandEntry("blklab.cli.md.watch:watch", "Export arrays to Prometheus"),
    "probe": CommandEntry(
        "blklab.cli.md.probe:probe", "Print the script that looks at other machines"
    ),
}


@click.group(cls=LazyGroup, entries=COMMANDS)
def md() -> None:
    """Look at md arrays, and repair them; bad-block lists first."""
