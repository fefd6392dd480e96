"""`blklab restore`: what a run that was killed has left changed is put back."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from blklab.cli.common import emit, json_option

if TYPE_CHECKING:
    from rich.console import Console


@click.command()
@json_option
def restore(*, as_json: bool) -> None:
    """Put back the settings, and remove the files, that a killed `blklab run --on host` has left.

    A run that ends by itself, by Ctrl-C or by an error leaves nothing. What was changed is written
    down before it is, in $BLKLAB_STATE, else /var/lib/blklab (root) or blklab in $XDG_STATE_HOME.
    Runs under way are left alone, and so is a device whose name another disk has by now. The next
    run on this host does the same before it begins.

    Exit status: 0 all is as it was, 1 something could not be put back.
    """
    from blklab.errors import BlklabError
    from blklab.runners.host.restore import restore as undo
    from blklab.system.roots import Roots
    from blklab.text import printable

    report = undo(Roots())

    def draw(console: "Console") -> None:
        for line in (*report.done, *report.running):
            console.print(printable(line))
        if not (report.done or report.problems or report.running):
            console.print("nothing to restore")

    emit(asdict(report), as_json, draw)
    if report.problems:
        raise BlklabError("; ".join(report.problems))
