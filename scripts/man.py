"""Write a man page for each command, from its help.

.venv/bin/python scripts/man.py DIRECTORY
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click_man.core import generate_man_page

from blklab import __version__
from blklab.cli.root import blklab


def contexts(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[click.Context]:
    """Yield the context of a command, and those of all commands below it."""
    context = click.Context(command, info_name=name, parent=parent, show_default=True)
    yield context
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            below = command.get_command(context, child)
            if below is not None and not below.hidden:
                yield from contexts(below, child, context)


def main(directory: Path) -> None:
    """Write the pages."""
    directory.mkdir(parents=True, exist_ok=True)
    for context in contexts(blklab, "blklab"):
        page = generate_man_page(context, version=__version__)
        page = re.sub(r"^'", r"\\&'", page, flags=re.MULTILINE)  # a line of text, not a macro
        (directory / f"{context.command_path.replace(' ', '-')}.1").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
