"""`blklab lab prune`: remove old images and builds."""

import click

from blklab.cli.common import emit, json_option
from blklab.units import format_size


@click.command()
@json_option
def prune(*, as_json: bool) -> None:
    """Remove what the cache has of older packages, kernels and agents, and of ended bisections.

    An interrupted bisection can still be resumed: it builds its kernels again.
    """
    from blklab.bisection.source import remove_work
    from blklab.runners.lab.image.build import prune as remove

    freed = remove() + remove_work()
    emit({"freed_bytes": freed}, as_json, lambda console: console.print(f"{format_size(freed)} freed", highlight=False))
