"""`blklab lab kernels`: list the kernels for guests."""

import click

from blklab.cli.common import emit, json_option
from blklab.text import printable


@click.command()
@json_option
def kernels(*, as_json: bool) -> None:
    """List the kernels of Debian's packages that guests can boot, newest first.

    An experiment selects one by generation (kernel = "6.12") or by version ("6.1.0-49").
    """
    from blklab.report.tables.base import TextTable, text
    from blklab.report.terminal import draw_table
    from blklab.runners.lab.image.build import offered

    documents = [vars(kernel) for kernel in offered()]
    rows = [[printable(value) for value in document.values()] for document in documents]
    table = TextTable("Kernels for guests", [text("kernel"), text("package version")], rows)
    emit(documents, as_json, lambda console: draw_table(console, table))
