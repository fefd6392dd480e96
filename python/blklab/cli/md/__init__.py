"""`blklab md`: md arrays of this host and of others."""

import click

from blklab.cli.lazy import CommandEntry, LazyGroup

COMMANDS = {
    "audit": CommandEntry("blklab.cli.md.audit:audit", "Report problems and risks of md arrays"),
    "rescue": CommandEntry("blklab.cli.md.rescue:rescue", "Say what to do with an array that does not start"),
    "overlays": CommandEntry("blklab.cli.md.overlays:overlays", "Try an array without writing to its disks"),
    "plan": CommandEntry("blklab.cli.md.plan:plan", "Say whether mdadm accepts a change, and how long it takes"),
    "fix": CommandEntry("blklab.cli.md.fix:fix", "Repair arrays: bad ranges, bad-block lists"),
    "boot": CommandEntry("blklab.cli.md.boot:boot", "Remove empty bad-block lists while the machine boots"),
    "watch": CommandEntry("blklab.cli.md.watch:watch", "Export arrays to Prometheus", extras=("watch",)),
    "probe": CommandEntry("blklab.cli.md.audit:probe", "Print the script that reads the arrays of a host", rare=True),
}


@click.group(cls=LazyGroup, entries=COMMANDS)
def md() -> None:
    """Audit, repair and monitor md arrays, above all their bad-block lists."""
