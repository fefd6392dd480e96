"""`blklab md`: arrays, of this machine and of others."""

import click

from blklab.cli.lazy import Entry, LazyGroup

COMMANDS = {
    "audit": Entry("blklab.cli.md.audit:audit", "Say what is wrong or risky with arrays"),
    "fix": Entry("blklab.cli.md.fix:fix", "Repair arrays: take bad-block lists away"),
    "watch": Entry("blklab.cli.md.watch:watch", "Export arrays to Prometheus"),
    "probe": Entry("blklab.cli.md.probe:probe", "Print the script that looks at other machines"),
}


@click.group(cls=LazyGroup, entries=COMMANDS)
def md() -> None:
    """Look at md arrays, and repair them; bad-block lists first."""
