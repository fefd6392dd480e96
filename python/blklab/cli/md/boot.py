"""`blklab md boot`: removes empty bad-block lists while the machine boots; packaging/boot does it."""

import os
import re
from pathlib import Path

import click

from blklab import output
from blklab.cli.common import emit, json_option, warn
from blklab.cli.lazy import CommandEntry, LazyGroup
from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.md import command_lines
from blklab.md.repair.operations import run_program
from blklab.md.repair.plan import find_array
from blklab.system.roots import Roots, read_text
from blklab.text.printing import printable

CONFIG = "etc/blklab/md-boot.conf"
UNIT = "blklab-md-boot.service"
HOOK = "usr/share/initramfs-tools/hooks/blklab-md-boot"
CONFIG_HEAD = """\
# Arrays whose empty bad-block lists are removed at boot: a UUID on each line, as `mdadm --detail` prints it.
# Written by `blklab md boot enable`. After a change by hand: update-initramfs -u -k all
"""
INSTALLED = ("usr/lib/blklab/boot/md-boot", HOOK, f"lib/systemd/system/{UNIT}")  # By the Debian package


COMMANDS = {
    "enable": CommandEntry("blklab.cli.md.boot:enable", "Remove lists at the next boot"),
    "disable": CommandEntry("blklab.cli.md.boot:disable", "Leave lists at the next boot"),
    "status": CommandEntry("blklab.cli.md.boot:status", "Show what is enabled, and what the last boot did"),
}


@click.group(cls=LazyGroup, entries=COMMANDS)
def boot() -> None:
    """Remove empty bad-block lists while the machine boots, before anything uses the arrays. Off by default.

    The initramfs assembles an array again with --update=no-bbl if all its members are there and in sync, and no list
    has entries; otherwise it leaves the array as it is, and boots as before. docs/howto/repair.md has the conditions.
    """


@click.command()
@click.argument("arrays", metavar="ARRAY...", nargs=-1, required=True)
def enable(arrays: tuple[str, ...]) -> None:
    """Remove the lists of ARRAY (/dev/md0) at the next boot. Needs blklab's Debian package, and root.

    \b
    Examples:
      blklab md boot enable /dev/md0 /dev/md1
      blklab md boot status
      blklab md boot disable
    """
    roots = Roots()
    if missing := find_missing(roots.dev.parent):
        raise EnvironmentLacks(
            f"{missing[0]}: not found: only blklab's Debian package installs what works at boot",
            f"install it (docs/howto/install.md), or remove the lists now: {command_lines.fix_bbl('ARRAY')}",
        )
    paths_by_uuid = read_config(roots.dev.parent)
    for name in arrays:
        array = find_array(name, roots)
        if not re.fullmatch(r"1(\.\d)?", array.metadata) or not array.redundant:
            raise BlklabError(
                f"{array.path}: level {array.level}, metadata {array.metadata}: "
                "expected RAID-1, 4, 5, 6 or 10 with metadata 1.x, whose lists can be removed"
            )
        if member_paths := [member.path for member in array.members if member.entries]:
            raise BlklabError(
                f"{array.path}: the bad-block lists of {', '.join(member_paths)} have entries, "
                f"and would be kept at every boot; see `blklab md audit` and `{command_lines.fix_bbl(array.path)}`"
            )
        paths_by_uuid[array.uuid] = array.path
    write_config(paths_by_uuid, roots.dev.parent)
    names = ", ".join(map(printable, paths_by_uuid.values()))
    click.echo(
        f"enabled for {names}. At the next boot, each array is assembled again without its bad-block lists, "
        "before anything uses\nit, if all its members are there and in sync and no list has entries. "
        "Otherwise the machine boots as before.\n"
        "  what the boot did:                    blklab md boot status\n"
        "  for one boot, at the boot loader:     add blklab.md_boot=off to the kernel's command line\n"
        "  from the next boot on:                blklab md boot disable"
    )


@click.command()
@click.argument("arrays", metavar="[ARRAY]...", nargs=-1)
def disable(arrays: tuple[str, ...]) -> None:
    """Leave the lists of ARRAY at the next boot; without ARRAY: of all arrays. An ARRAY can be a UUID.

    \b
    Example: blklab md boot disable /dev/md0
    """
    roots = Roots()
    paths_by_uuid = read_config(roots.dev.parent)
    for name in arrays:
        uuid = name if name in paths_by_uuid else find_array(name, roots).uuid
        if paths_by_uuid.pop(uuid, None) is None:
            raise UsageError(f"{name}: not enabled; `blklab md boot status` lists the arrays")
    write_config(paths_by_uuid if arrays else {}, roots.dev.parent)
    if arrays and paths_by_uuid:
        click.echo(
            "the next boot leaves the bad-block lists of these arrays as they are; "
            "`blklab md boot status` lists the others"
        )
    else:
        click.echo("disabled: the next boot leaves all bad-block lists as they are")


@click.command()
@json_option
def status(*, as_json: bool) -> None:
    """Show the arrays whose lists are removed at boot, whether everything for it is there, and what the last boot did.

    \b
    Exit status: 0 the next boot does it, or nothing is enabled, 1 something is missing.
    """
    root = Roots().dev.parent
    paths_by_uuid = read_config(root)
    config = root / CONFIG
    initramfs = root / f"boot/initrd.img-{os.uname().release}"
    problems = [f"{path}: not found: install blklab's Debian package again" for path in find_missing(root)]
    if not os.path.lexists(root / f"etc/systemd/system/sysinit.target.wants/{UNIT}"):
        problems.append(f"{UNIT} is not enabled: systemctl enable {UNIT}")
    if paths_by_uuid and not (initramfs.exists() and initramfs.stat().st_mtime >= config.stat().st_mtime):
        problems.append(f"{initramfs}: not there, or older than the list of arrays: update-initramfs -u -k all")
    log = (read_text(root / "run/blklab-md-boot.log") or "").splitlines()
    lines = [f"{path or uuid}: its bad-block lists are removed at boot" for uuid, path in paths_by_uuid.items()]
    if paths_by_uuid:
        lines += problems
    else:
        lines.append("off: no array is enabled; `blklab md boot enable ARRAY` enables one")
    if log:
        lines += ["what the last boot did:", *log]
    result = {"format_version": 1, "arrays": paths_by_uuid, "problems": problems, "log": log}
    emit(result, as_json, lambda console: console.print("\n".join(map(printable, lines))))
    if paths_by_uuid and problems:
        raise click.exceptions.Exit(1)


def find_missing(root: Path) -> list[str]:
    """Returns the files of the Debian package that are not there."""
    return [f"/{path}" for path in INSTALLED if not (root / path).exists()]


def read_config(root: Path) -> dict[str, str]:
    """Returns the path of each array in the configuration by its UUID; empty if the administrator gave none."""
    matches = re.findall(r"^[ \t]*([0-9a-f:]{35})\b[ \t#]*(.*)", read_text(root / CONFIG) or "", re.M)
    return {uuid: path.strip() for uuid, path in matches}


def write_config(paths_by_uuid: dict[str, str], root: Path) -> None:
    """Writes the configuration, or removes an empty one, and has systemd and the initramfs follow it."""
    config = root / CONFIG
    if paths_by_uuid:
        config.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{uuid} # {path}\n" for uuid, path in paths_by_uuid.items()]
        output.write(config, (CONFIG_HEAD + "".join(lines)).encode(), mode=0o644)
    else:
        config.unlink(missing_ok=True)
    verb = "enable" if paths_by_uuid else "disable"
    for program, *arguments in (["usr/bin/systemctl", verb, UNIT], ["usr/sbin/update-initramfs", "-u", "-k", "all"]):
        if not (path := root / program).exists():
            warn(f"{path.name}: not found: what it does at boot must be set up by hand")
        elif (result := run_program(str(path), *arguments)).status != 0:
            service = UNIT.removesuffix(".service")
            raise BlklabError(
                f"{path.name} {arguments[0]} failed: {printable(result.last)}; "
                f"the list of arrays is written: when the reason is gone, run `systemctl reenable {service}` "
                f"(after disable: `systemctl disable {service}`) and `update-initramfs -u -k all`"
            )
