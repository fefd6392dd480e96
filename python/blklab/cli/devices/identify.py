"""`blklab devices identify`: the models of this host's disks."""

import click
from click.exceptions import Exit

from blklab.cli.common import emit, json_option
from blklab.system.roots import Roots


@click.command()
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("--this-host", is_flag=True, help="Look at this host's disks; the default without TEXT.")
@json_option
def identify(texts: tuple[str, ...], *, this_host: bool, as_json: bool) -> None:
    """Find the device model for each disk of this host, or for what a disk says it is (TEXT).

    It reads /sys and udev's database, and changes nothing. A disk that the library does not have gets
    one of its family with another capacity, or the typical model of its class, and the reason.

    \b
    Examples:
      blklab devices identify
      blklab devices identify "SAMSUNG MZ7LH480HAHQ-00005" ST16000NM001G-2KK103

    \b
    Exit status: 0 a model for each disk; 1 there is none for a disk.
    """
    from blklab.analysis.identified_disks import IdentifiedDisk, identify_disks
    from blklab.report import device_models as report
    from blklab.spec.stock_models import identify as identify_text

    disks = identify_disks(Roots()) if this_host or not texts else []
    for words in texts:
        if found := identify_text(words):
            disks.append(IdentifiedDisk("", words, None, found.model, found.why, capacity=found.capacity))
        else:
            obstacle = "no such name is known: see `blklab devices list` for the classes"
            disks.append(IdentifiedDisk("", words, None, None, obstacle=obstacle))
    emit(report.disks_as_dict(disks), as_json, lambda console: report.draw_disks(console, disks))
    if any(disk.model is None for disk in disks):
        raise Exit(1)
