"""`blklab restore`: restore what a killed run changed."""

from dataclasses import asdict

import click

from blklab.cli.common import emit, json_option
from blklab.errors import BlklabError
from blklab.render.console import Console
from blklab.system.roots import Roots
from blklab.text.printing import printable


@click.command()
@json_option
def restore(*, as_json: bool) -> None:
    """Restore the settings and remove the files that a killed run left.

    A run is `blklab run --on host` or `blklab tune --live`.

    A run that ends normally, with an error or by Ctrl-C restores everything itself. Each change is
    written to a journal first, in $BLKLAB_STATE; default: /var/lib/blklab (root) or blklab in
    $XDG_STATE_HOME. This command does not touch runs that are still running, nor a device whose
    name now belongs to another disk. The next run on this host also restores before it begins.

    Exit status: 0 everything is restored; 1 something could not be restored.
    """
    from blklab.runners.host.restore import restore as undo

    report = undo(Roots())

    def draw(console: Console) -> None:
        for line in (*report.done, *report.running):
            console.print(printable(line))
        if not (report.done or report.problems or report.running):
            console.print("nothing to restore")

    emit(asdict(report), as_json, draw)
    if report.problems:
        raise BlklabError("; ".join(report.problems))
