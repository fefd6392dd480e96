"""`blklab md audit`: reports problems and risks of md arrays."""

import platform
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from blklab import output
from blklab.cli.common import DURATION, emit, first, json_option, progress, repeatable, store_option
from blklab.diagnostic import SEVERITIES
from blklab.errors import EnvironmentLacks, UsageError
from blklab.system.roots import Roots
from blklab.text.printing import printable
from blklab.units import NANOSECONDS, format_duration

if TYPE_CHECKING:
    from blklab.md.model import Inventory
    from blklab.md.remote import RemoteHost


@click.command()
@repeatable(
    "--image",
    "images",
    metavar="FILE",
    help="Image of a member, or a device from another host, to audit instead of this host; repeatable.",
)
@repeatable(
    "--host",
    "hosts",
    metavar="HOST",
    help="Host to audit over ssh, as you name it for ssh, or @FILE:GROUP of an Ansible inventory; repeatable.",
)
@repeatable(
    "--probed", metavar="FILE", help="Output of the script of `blklab md probe` on a host, - for stdin; repeatable."
)
@click.argument("more", nargs=-1, metavar="[FILE]...")
@repeatable(
    "--array", "arrays", metavar="NAME", help="Array to audit, as name, path or label; repeatable. Default: all."
)
@click.option("--sudo", is_flag=True, help="With --host: run as root there, with `sudo -n`.")
@click.option(
    "--timeout",
    type=DURATION,
    default="60s",
    metavar="DURATION",
    help="With --host: time to wait for a host, at least 1s.",
)
@click.option(
    "--map-files",
    is_flag=True,
    help="Name files on bad blocks, mismatches and logged errors (ext4, XFS). May look at all files.",
)
@click.option(
    "--smart",
    is_flag=True,
    help="Read SMART values of the disks below arrays (smartctl; as root). Disks in standby are not spun up.",
)
@click.option("--no-log", is_flag=True, help="Do not read the kernel's log of this host.")
@click.option(
    "--severity",
    type=click.Choice(["critical", "warning", "note"]),
    default="warning",
    help="Lowest severity of a finding that makes the exit status 1.",
)
@click.option(
    "--full", is_flag=True, help="With several hosts of many arrays: print all of each host, not an overview."
)
@click.option(
    "--bundle",
    metavar="FILE",
    help="Write what others need to judge the arrays of this host, or of one --host, to FILE, as text for a mail.",
)
@click.option("--anonymous", is_flag=True, help="With --bundle: replace names of hosts and serial numbers of disks.")
@click.option("--keep", is_flag=True, help="Store the audit; `blklab serve` shows the last one of every host.")
@store_option
@json_option
def audit(
    *,
    images: tuple[str, ...],
    hosts: tuple[str, ...],
    probed: tuple[str, ...],
    more: tuple[str, ...],
    arrays: tuple[str, ...],
    sudo: bool,
    timeout: int,
    map_files: bool,
    smart: bool,
    no_log: bool,
    severity: str,
    full: bool,
    bundle: str | None,
    anonymous: bool,
    keep: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Report problems and risks of the md arrays of this host, above all bad-block lists.

    The audit changes nothing. It reads sysfs and superblocks, and prints the commands that correct
    a problem; you decide whether to run them. Run it as root to see everything; it lists what it
    could not read. With --image, it assembles arrays from images of their members.

    With FILE, or - for stdin, it reads what people paste: outputs of `mdadm --examine`, `mdadm --detail`,
    `mdadm --examine-badblocks`, /proc/mdstat, smartctl and the kernel's log (dmesg, journalctl -k), in any number of
    files, also from a mail. It says which output is missing, with the command that prints it.

    With --host, it audits other hosts, eight at a time, with your ssh configuration, keys and
    agent. It installs nothing there: it sends a script to `sh` through stdin, which reads and
    prints (`blklab md probe` shows it). ssh does not ask for passwords, because several hosts would
    ask at once. With several hosts, a host without a finding of --severity or worse gets one line. If they have more
    than eight arrays together, blklab prints an overview; --full prints everything.

    \b
    Examples:
      blklab md audit
      blklab md audit --map-files --smart
      blklab md audit --array md0 --array /dev/md/home
      blklab md audit --severity critical --json
      blklab md audit mail.txt mdstat.txt
      ssh server 'cat /proc/mdstat; mdadm --examine /dev/sd*1' | blklab md audit -
      blklab md audit --bundle md.txt --anonymous
      blklab md audit --image sda1.img /media/backup/*.img
      blklab md audit --sudo --host web1 root@web2 ssh://db:2222
      blklab md audit --host @inventory.yml --host @hosts.ini:databases
      blklab md audit --probed fleet/*.probe

    \b
    Exit status: 0 no finding of --severity or worse, 1 at least one, 3 nothing could be read, or
    a host could not be read.
    """
    from blklab.md import report
    from blklab.md.audit import find_problems
    from blklab.md.model import Inventory
    from blklab.md.pasted.files import read_text_files

    sources = [source for source, values in (("--image", images), ("--host", hosts), ("--probed", probed)) if values]
    only_here = {"--map-files": map_files, "--smart": smart, "--no-log": no_log}
    _check_options(sources, more, only_here, sudo=sudo, keep=keep, store=store, timeout=timeout)
    if keep and arrays:
        raise UsageError("--keep: stores audits of all arrays: remove --array")
    if anonymous and bundle is None:
        raise UsageError("--anonymous: expected --bundle FILE")
    if bundle is not None:
        if images or probed or more or arrays or len(hosts) > 1:
            raise UsageError("--bundle: expected at most one --host with it, and nothing else to audit")
        _write_bundle(bundle, first(hosts) if hosts else None, sudo=sudo, timeout=timeout / 1e9, anonymous=anonymous)
        return
    threshold = SEVERITIES.index(severity)
    if hosts or probed:
        names = list(dict.fromkeys((*hosts, *probed, *more)))
        remote_hosts = _audit_hosts(names, timeout=timeout / 1e9 if hosts else None, sudo=sudo)
        inventories = _limit_to_arrays([host.inventory for host in remote_hosts], arrays)
        remote_hosts = [
            replace(host, inventory=inventory, findings=tuple(find_problems(inventory)))
            if arrays and inventory
            else host
            for host, inventory in zip(remote_hosts, inventories, strict=True)
        ]
        if keep:
            _store_audits({host["host"]: host for host in report.hosts_as_dict(remote_hosts)["hosts"]}, store)
        _show_hosts(remote_hosts, threshold, is_full=full, as_json=as_json)
        return
    if more and not images:
        inventory = _limit_to_arrays([read_text_files(more)], arrays)[0] or Inventory(())
    else:
        paths = [Path(name) for name in (*images, *more)]
        inventory = _read_inventory(paths, arrays, smart=smart, map_files=map_files, with_log=not no_log)
    findings = find_problems(inventory)
    if keep:
        _store_audits({platform.node(): report.as_dict(inventory, findings)}, store)
    emit(report.as_dict(inventory, findings), as_json, lambda console: report.show(console, inventory, findings))
    if any(finding.rank <= threshold for finding in findings):
        raise Exit(1)


def _write_bundle(file: str, host: str | None, *, sudo: bool, timeout: float, anonymous: bool) -> None:
    """Writes the outputs of mdadm and others of a host to a file, and says how to go on."""
    from blklab.md.remote import bundle

    output.check(file)
    text = bundle.collect(host, sudo=sudo, timeout=timeout)
    if anonymous:
        text = bundle.make_anonymous(text)
    output.write(file, text.encode(errors="replace"))
    lines = text.count("\n")
    message = f"{file}: {lines:,} lines. Read it before you send it; blklab md audit {file} says what it shows"
    click.echo(printable(message), err=True)
    unread = bundle.describe_unread(text)
    if unread:
        remedy = "run it with sudo" if host is None else "add --sudo, or name root@HOST"
        warning = f"{file}: not complete, because this user is not root: {unread} could not be read: {remedy}"
        click.echo(printable(warning), err=True)


def _read_inventory(
    paths: list[Path], arrays: tuple[str, ...], *, smart: bool, map_files: bool, with_log: bool
) -> "Inventory":
    """Returns the inventory of images or, without any, of this host. Raises EnvironmentLacks if nothing can be read."""
    from blklab.md.images import read_images
    from blklab.md.inventory import read_inventory

    if directories := [path for path in paths if path.is_dir()]:
        raise UsageError(f"{directories[0]}: is a directory: name the images in it")
    inventory = read_images(paths) if paths else read_inventory(Roots())
    if inventory.unseen and not inventory.arrays and all(stray.unseen for stray in inventory.strays):
        if paths:
            raise EnvironmentLacks(first(inventory.unseen).replace(": not seen: ", ": "), "name readable images")
        message = f"cannot read any array: {first(inventory.unseen)}"
        raise EnvironmentLacks(message, "run it as root, outside of a container")
    if with_log and not paths:
        from blklab.md.kernel_log import add_log
        from blklab.md.probing import Probe

        inventory = add_log(inventory, Roots(), Probe().read_kernel_log_with_moments)
    inventory = _limit_to_arrays([inventory], arrays)[0] or inventory
    if smart:
        from blklab.md.smart import add_health

        with progress("Reading SMART values") as advance:
            inventory = add_health(inventory, Roots(), advance=advance)
    if map_files:
        from blklab.md.contents import add_contents

        with progress("Looking for files on bad blocks") as advance:
            inventory = add_contents(inventory, Roots(), advance=advance)
    if not paths:
        from blklab.md.repair.unfinished import add_unfinished_repairs
        from blklab.md.sync_activity import add_sync_activity

        inventory = add_sync_activity(add_unfinished_repairs(inventory, Roots()), Roots())
    return inventory


def _limit_to_arrays(inventories: "list[Inventory | None]", names: tuple[str, ...]) -> "list[Inventory | None]":
    """Returns inventories of the named arrays only; raises UsageError if none has an array of a name."""
    spellings = {name: {name, str(Path(name).resolve())} for name in names}
    present = [inventory for inventory in inventories if inventory]
    for name, aliases in spellings.items():
        arrays = [array for inventory in present for array in (*inventory.arrays, *inventory.unassembled)]
        lines = [line for inventory in present for line in inventory.listed]
        is_known = any(array.is_called(aliases) for array in arrays) or any(line.is_called(aliases) for line in lines)
        log_name = name.rpartition("/")[2]
        if not is_known and any(log_name in inventory.log_names for inventory in present):
            present = [_with_note_on_log(inventory, log_name) for inventory in present]
            inventories = list(present)
        elif present and not is_known:
            raise UsageError(f"--array {name}: {_explain_unknown(name, present)}")
    array_names = {*chain(*spellings.values())}
    return [inventory.only(array_names) if inventory and names else inventory for inventory in inventories]


def _with_note_on_log(inventory: "Inventory", name: str) -> "Inventory":
    """Returns an inventory that says that only the kernel's log has an array's name."""
    note = f"{name}: only the kernel's log has this name: the array has another name now, or its disks are missing"
    if inventory.software is None:
        note = f"{name}: only the kernel's log in the text has this name: add mdadm --detail and --examine of it"
    return replace(inventory, unseen=(note, *inventory.unseen))


def _explain_unknown(name: str, inventories: "list[Inventory]") -> str:
    """Returns that there is no array of a name, and the names that there are."""
    from blklab.md.audit.rule import list_names

    array_names: list[str] = []
    for inventory in inventories:
        array_names += [array.name for array in (*inventory.arrays, *inventory.unassembled)]
        array_names += [line.short_name for line in inventory.listed if line.short_name and not line.ignored]
    subject = "this host has" if len(inventories) == 1 else "these hosts have"
    if all(inventory.software is None for inventory in inventories):
        subject = "the text has" if any(inventory.log for inventory in inventories) else subject
    if not array_names:
        return f"{subject} no array {name}, and no other array"
    return f"{subject} no array {name}: expected {list_names(list(dict.fromkeys(array_names)), 20)}"


def _check_options(
    sources: list[str],
    arguments: tuple[str, ...],
    only_here: dict[str, bool],
    *,
    sudo: bool,
    keep: bool,
    store: str | None,
    timeout: int,
) -> None:
    """Raises UsageError for options that exclude each other; `only_here` are those of this host."""
    if len(sources) > 1:
        raise UsageError(f"{sources[0]} and {sources[1]}: expected only one of them")
    if arguments and not sources:
        sources = ["texts"]
    for option, is_given in only_here.items():
        if is_given and sources:
            raise UsageError(f"{option}: works only on this host, not with {sources[0]}")
    if keep and ("--image" in sources or "texts" in sources):
        raise UsageError("--keep: stores audits of hosts, not of images or texts")
    if store and not keep:
        raise UsageError("--store: expected --keep, which stores the audit")
    if sudo and "--host" not in sources:
        raise UsageError("--sudo: expected --host; on this host, run blklab itself with sudo")
    if timeout < NANOSECONDS["s"]:
        raise UsageError(f"--timeout {format_duration(timeout)}: expected at least 1s")


def _store_audits(audits: dict[str, dict[str, object]], store_address: str | None) -> None:
    from blklab.store import documents
    from blklab.store.campaigns import Store

    store = Store(store_address)
    for host, document in audits.items():
        documents.keep(store, "audit", host, document)


def _audit_hosts(names: list[str], *, timeout: float | None, sudo: bool) -> "list[RemoteHost]":
    """Audits other hosts: over ssh or, without a `timeout`, from files with output of probes."""
    from blklab.md.remote import read_hosts, read_probe_file
    from blklab.system.ansible_inventory import expand_hosts

    if timeout is None:
        return [read_probe_file(name) for name in names]
    addresses = list(expand_hosts(names, Path()).items())
    hosts: list[RemoteHost] = []
    with progress("Reading hosts", total=len(addresses)) as advance:
        for host in read_hosts(addresses, sudo=sudo, timeout=timeout):
            hosts.append(host)
            advance(len(hosts))
    return hosts


def _show_hosts(hosts: "list[RemoteHost]", threshold: int, *, is_full: bool, as_json: bool) -> None:
    from blklab.md import report

    emit(
        report.hosts_as_dict(hosts),
        as_json,
        lambda console: report.show_hosts(console, hosts, threshold, is_full=is_full),
    )
    if any(finding.rank <= threshold for host in hosts for finding in host.findings):
        raise Exit(1)
    if any(host.failure for host in hosts):
        raise Exit(3)


@click.command()
def probe() -> None:
    """Print the script that `blklab md audit --host` runs on other hosts.

    Use it if you cannot reach a host over ssh: run it with Ansible or in a rescue system. The
    script needs only a POSIX shell and changes nothing. `md audit --probed` reads its output.

    \b
    Examples:
      blklab md probe > probe.sh                  # there: sh probe.sh > web1.probe
      blklab md audit --probed web1.probe
    """
    from blklab.md.remote import PROBE

    click.echo(PROBE.read_text(), nl=False)
