"""`blklab runs`: what is in the store."""

import click

from blklab.cli.lazy import CommandEntry, LazyGroup

COMMANDS = {
    "list": CommandEntry("blklab.cli.runs.list:list_", "List the campaigns"),
    "show": CommandEntry("blklab.cli.runs.show:show", "Show the runs of a campaign, or one run"),
    "export": CommandEntry("blklab.cli.runs.export:export", "Write runs as JSON, CSV or Parquet"),
    "rm": CommandEntry("blklab.cli.runs.rm:rm", "Remove campaigns or runs"),
}


@click.group(cls=LazyGroup, entries=COMMANDS)
def runs() -> None:
    """See, export and remove results that were kept.

    \b
    A campaign is named by
      3                   its number
      unbalanced          its experiment: the newest one
      unbalanced@host     the newest on that runner
      unbalanced@host~1   the one before
      ...:stack=raid1,workload=rand*   only the runs with these labels
    """
