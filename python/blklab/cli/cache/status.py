"""`blklab cache status`: the caches of this host."""

import click
from click.exceptions import Exit

from blklab.cli.common import emit, json_option
from blklab.errors import EnvironmentLacks, UsageError
from blklab.system.roots import Roots


@click.command()
@click.argument("names", metavar="[CACHE]...", nargs=-1)
@json_option
def status(names: tuple[str, ...], as_json: bool) -> None:
    """Show the caches of this host: size, hit rates, dirty data, wear and problems.

    It reads dm-cache and dm-writecache with dmsetup, as root, and bcache from /sys. It changes
    nothing but blklab's own record of the counters, from which the next call shows what has
    happened since this one.

    \b
    Examples:
      blklab cache status
      blklab cache status vg0-data bcache0 --json

    \b
    Exit status: 0 no problem, 1 a critical finding, 3 nothing could be read.
    """
    from blklab.caches.status import find_problems, read_caches
    from blklab.report import caches as report

    inventory = read_caches(Roots(), remember=True)
    if not inventory.caches and inventory.unseen:
        raise EnvironmentLacks(f"cannot read any cache: {inventory.unseen[0]}", "run it as root")
    if names:
        chosen = tuple(cache for cache in inventory.caches if {cache.name, cache.title} & set(names))
        for name in names:
            if not any(name in {cache.name, cache.title} for cache in chosen):
                existing = ", ".join(cache.title for cache in inventory.caches) or "none"
                raise UsageError(f"{name}: no such cache; caches of this host: {existing}")
        inventory = inventory.only(chosen)
    findings = find_problems(inventory.caches)
    emit(report.as_dict(inventory, findings), as_json, lambda console: report.show(console, inventory, findings))
    if any(finding.severity == "critical" for finding in findings):
        raise Exit(1)
