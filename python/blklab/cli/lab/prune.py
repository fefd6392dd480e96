"""`blklab lab prune`: remove old images."""

import click

from blklab.cli.common import emit, json_option
from blklab.units import format_size


@click.command()
@json_option
def prune(*, as_json: bool) -> None:
    """Remove images of older packages, kernels and agents from the cache."""
    from blklab.runners.lab.image.build import prune as remove

    freed = remove()
    emit({"freed_bytes": freed}, as_json, lambda console: console.print(f"{format_size(freed)} freed", highlight=False))
