"""`blklab md`: md arrays of this host and of others."""

import click

from blklab.cli.lazy import LazyGroup, entries


@click.group(cls=LazyGroup, entries=entries("md"))
def md() -> None:
    """Audit, repair and monitor md arrays, above all their bad-block lists."""
