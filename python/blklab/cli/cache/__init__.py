"""`blklab cache`: one module and one line in COMMANDS for each command."""

import click

from blklab.cli.lazy import CommandEntry, LazyGroup

COMMANDS: dict[str, CommandEntry] = {
    "check": CommandEntry("blklab.cli.cache.check:check", "Compare a cache's counters with what its policy should do"),
    "curve": CommandEntry("blklab.cli.cache.curve:curve", "Compute hit ratios by cache size from a trace"),
    "status": CommandEntry("blklab.cli.cache.status:status", "Show hit rates and problems of this host's caches"),
}


@click.group(cls=LazyGroup, entries=COMMANDS, subcommand_metavar="COMMAND ...", options_metavar="")
def cache() -> None:
    """Size and check block caches: dm-cache (lvmcache), bcache and dm-writecache."""
