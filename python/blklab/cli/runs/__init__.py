"""`blklab runs`: the stored results."""

import click

from blklab.cli.lazy import CommandEntry, LazyGroup

COMMANDS = {
    "list": CommandEntry("blklab.cli.runs.list:list_", "List the campaigns"),
    "show": CommandEntry("blklab.cli.runs.show:show", "Show the runs of a campaign, or one run"),
    "export": CommandEntry("blklab.cli.runs.export:export", "Write runs as JSON, CSV or Parquet"),
    "tag": CommandEntry("blklab.cli.runs.tag:tag", "Give a campaign tags"),
    "note": CommandEntry("blklab.cli.runs.tag:note", "Add a note to a campaign"),
    "rm": CommandEntry("blklab.cli.runs.rm:rm", "Remove campaigns or runs"),
}


@click.group(cls=LazyGroup, entries=COMMANDS)
def runs() -> None:
    """List, show, annotate, export and remove stored results.

    \b
    How to name a campaign:
      3                   by its number
      unbalanced          the newest campaign of this experiment
      unbalanced@host     the newest one on this runner
      unbalanced@host~1   the one before the newest
      ...:stack=raid1,workload=rand*   only runs with these labels
    """
