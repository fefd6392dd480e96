"""`blklab md audit`: what is wrong or risky with arrays."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from blklab.cli.common import emit, json_option, progress

if TYPE_CHECKING:
    from rich.console import Console


@click.command()
@click.option(
    "--image",
    "images",
    multiple=True,
    metavar="FILE",
    help="A member's image, or a device of another machine, instead of this machine; repeatable.",
)
@click.argument("more", nargs=-1, metavar="")
@click.option(
    "--map-files",
    is_flag=True,
    help="Say which files lie on bad blocks (ext4, XFS): looks at all files of the filesystem.",
)
@click.option(
    "--smart",
    is_flag=True,
    help="Ask the disks beneath arrays how they are (smartctl; as root). None is woken.",
)
@click.option(
    "--severity",
    type=click.Choice(["critical", "warning", "note"]),
    default="warning",
    show_default=True,
    help="End with status 1 if something is found that is as bad as this or worse.",
)
@json_option
def audit(
    *,
    images: tuple[str, ...],
    more: tuple[str, ...],
    map_files: bool,
    smart: bool,
    severity: str,
    as_json: bool,
) -> None:
    """Say what is wrong or risky with the md arrays of this machine, bad-block lists first.

    Nothing is changed, and no array is touched: sysfs and superblocks are read, and the commands
    that mend something are printed for you to judge. As root more is seen; what was not seen is
    said. With --image, arrays are put together from images of their members.

    \b
    Examples:
      blklab md audit
      blklab md audit --map-files --smart
      blklab md audit --severity critical --json
      blklab md audit --image sda1.img --image sdb1.img
      blklab md audit --image /media/backup/*.img

    \b
    Exit status: 0 nothing as bad as --severity, 1 something, 3 nothing could be seen.
    """
    from blklab.errors import EnvironmentLacks, UsageError
    from blklab.md import audit as rules
    from blklab.md import images as offline
    from blklab.md import inventory as machine
    from blklab.report import arrays as report
    from blklab.system.roots import Roots

    if more and not images:
        raise UsageError(f"{more[0]}: to look at images say --image {more[0]}")
    for option, given in (("--map-files", map_files), ("--smart", smart)):
        if given and images:
            raise UsageError(f"{option}: it looks at this machine, and not at images")
    paths = [Path(name) for name in (*images, *more)]
    found = offline.inventory(paths) if paths else machine.inventory(Roots())
    if found.unseen and not found.arrays and all(stray.unseen for stray in found.strays):
        first, *rest = found.unseen
        more_words = f" (and {len(rest)} more)" if rest else ""
        raise EnvironmentLacks(
            f"nothing could be seen: {first}{more_words}",
            "name images that can be read" if paths else "run it as root, outside of a container",
        )
    if smart:
        from blklab.md.smart.disks import examined

        with progress("Asking disks") as tell:
            found = examined(found, Roots(), tell=tell)
    if map_files:
        from blklab.md.contents import located

        with progress("Looking for files on bad blocks") as tell:
            found = located(found, Roots(), tell=tell)
    findings = rules.findings(found)

    def draw(console: "Console") -> None:
        report.show(console, found, findings)

    emit(report.as_dict(found, findings), as_json, draw)
    if any(one.rank <= rules.SEVERITIES.index(severity) for one in findings):
        raise Exit(1)
