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
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="A machine to be asked over ssh, as your ssh knows it; repeatable.",
)
@click.option(
    "--probed",
    multiple=True,
    metavar="FILE",
    help="What the script of `blklab md probe` printed on a machine, - for stdin; repeatable.",
)
@click.argument("more", nargs=-1, metavar="")
@click.option("--sudo", is_flag=True, help="With --host: run as root there, by `sudo -n`.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="With --host: how long a host is waited for.",
)
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
    hosts: tuple[str, ...],
    probed: tuple[str, ...],
    more: tuple[str, ...],
    sudo: bool,
    timeout: float,
    map_files: bool,
    smart: bool,
    severity: str,
    as_json: bool,
) -> None:
    """Say what is wrong or risky with the md arrays of this machine, bad-block lists first.

    Nothing is changed, and no array is touched: sysfs and superblocks are read, and the commands
    that mend something are printed for you to judge. As root more is seen; what was not seen is
    said. With --image, arrays are put together from images of their members.

    With --host, other machines are asked instead, eight at a time, with your own ssh
    configuration, keys and agent. Nothing is installed there: a script goes to `sh` by way of
    stdin, reads, and prints (`blklab md probe` shows it). ssh asks for no password, since several
    would ask at once. Of several machines, those with nothing as bad as --severity have one line.

    \b
    Examples:
      blklab md audit
      blklab md audit --map-files --smart
      blklab md audit --severity critical --json
      blklab md audit --image sda1.img --image sdb1.img
      blklab md audit --image /media/backup/*.img
      blklab md audit --host web1 --host root@web2 --host ssh://db:2222
      blklab md audit --sudo --host web1 web2 web3
      blklab md audit --probed fleet/*.probe

    \b
    Exit status: 0 nothing as bad as --severity, 1 something, 3 nothing, or not every host, could
    be seen.
    """
    from blklab.diagnostic import SEVERITIES
    from blklab.errors import EnvironmentLacks, UsageError
    from blklab.md import audit as rules
    from blklab.md import images as offline
    from blklab.md import inventory as machine
    from blklab.report import arrays as report
    from blklab.system.roots import Roots

    sources = [
        source
        for source, given in (("--image", images), ("--host", hosts), ("--probed", probed))
        if given
    ]
    if len(sources) > 1:
        raise UsageError(f"{sources[0]} and {sources[1]}: expected one of them")
    if more and not sources:
        raise UsageError(f"{more[0]}: to look at images say --image {more[0]}")
    for option, given in (("--map-files", map_files), ("--smart", smart)):
        if given and sources:
            raise UsageError(f"{option}: it looks at this machine alone")
    if sudo and not hosts:
        raise UsageError("--sudo: it goes with --host; here, run blklab itself with sudo")
    worst = SEVERITIES.index(severity)
    if hosts or probed:
        names = list(dict.fromkeys((*hosts, *probed, *more)))
        _fleet(names, worst, as_json, timeout=timeout if hosts else None, sudo=sudo)
        return
    paths = [Path(name) for name in (*images, *more)]
    seen = offline.inventory(paths) if paths else machine.inventory(Roots())
    if seen.unseen and not seen.arrays and all(stray.unseen for stray in seen.strays):
        first, *rest = seen.unseen
        more_words = f" (and {len(rest)} more)" if rest else ""
        raise EnvironmentLacks(
            f"nothing could be seen: {first}{more_words}",
            "name images that can be read" if paths else "run it as root, outside of a container",
        )
    if smart:
        from blklab.md.smart.disks import examined

        with progress("Asking disks") as tell:
            seen = examined(seen, Roots(), tell=tell)
    if map_files:
        from blklab.md.contents import located

        with progress("Looking for files on bad blocks") as tell:
            seen = located(seen, Roots(), tell=tell)
    findings = rules.findings(seen)

    def draw(console: "Console") -> None:
        report.show(console, seen, findings)

    emit(report.as_dict(seen, findings), as_json, draw)
    if any(finding.rank <= worst for finding in findings):
        raise Exit(1)


def _fleet(
    names: list[str], worst: int, as_json: bool, *, timeout: float | None, sudo: bool
) -> None:
    """Audits other machines: over ssh, or those whose probes' output is in files."""
    from blklab.md.remote import read, ssh
    from blklab.report import fleet as report

    if timeout is None:
        hosts_read = [read(name) for name in names]
    else:
        hosts_read = []
        with progress("Asking hosts", total=len(names)) as tell:
            for host in ssh.hosts(names, sudo=sudo, timeout=timeout):
                hosts_read.append(host)
                tell(len(hosts_read))

    def draw(console: "Console") -> None:
        report.show(console, hosts_read, worst)

    emit(report.as_dict(hosts_read), as_json, draw)
    if any(finding.rank <= worst for host in hosts_read for finding in host.findings):
        raise Exit(1)
    if any(host.failure for host in hosts_read):
        raise Exit(3)
