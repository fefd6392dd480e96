"""Overlays: all writes to the members of an array go to files, so that an assembly by force can be taken back.

Each member becomes read-only, and gets a snapshot of device-mapper (Documentation/admin-guide/device-mapper/
snapshot.rst) whose changes go to a sparse file in a directory on another disk. udev must not assemble arrays meanwhile:
its rules are hidden. `stop_overlays` undoes everything, also after a crash or a restart of the machine.
"""

import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from blklab.errors import BlklabError, EnvironmentLacks, SystemErrors, UsageError
from blklab.md import command_lines
from blklab.md.audit.rule import list_names
from blklab.md.model import Array, ArrayMember
from blklab.md.repair import journal
from blklab.md.repair.perform import SignalDeferral
from blklab.md.rescue.diagnosis import ArrayRescue, find_current, find_journals, is_stopped
from blklab.md.rescue.overlay_record import (
    METADATA,
    MemberFacts,
    OverlayRecord,
    TrialResult,
    describe_member,
    find_device,
    read_record,
    write_record,
)
from blklab.md.rescue.saved_metadata import check_directory, save
from blklab.md.rescue.trial import PACKAGES, Report, run_command, try_array
from blklab.system import child_process, process
from blklab.system.layers import loop_file
from blklab.system.mounts import mounts
from blklab.system.roots import Roots, entries, read_text
from blklab.units import SECTOR, format_size

STORE_BYTES = 1 << 30  # Of the sparse file of each overlay: a trial that only reads needs some MiB
LEAST_FREE = 64 << 20  # Bytes for each overlay that the directory must have

RULES = (
    "64-md-raid-assembly.rules",  # Debian, SUSE
    "65-md-incremental.rules",  # Fedora
    "69-dm-lvm.rules",
    "69-lvm.rules",
    "69-dm-lvm-metad.rules",
)
"""udev's rules that assemble arrays or activate volumes as soon as a device appears."""

RULE_DIRECTORIES = ("usr/lib/udev/rules.d", "lib/udev/rules.d")


@dataclass(frozen=True)
class OverlayPlan:
    """What `start_overlays` will do."""

    array: Array
    members: tuple[ArrayMember, ...]
    directory: Path
    arrays_to_stop: tuple[str, ...]  # Paths of arrays that are assembled, do not run, and hold members
    rules: tuple[str, ...]  # udev's rules that are hidden meanwhile
    backup_file: str = ""  # Of an interrupted reshape

    def describe(self) -> list[tuple[str, str]]:
        """Returns each step in words, and a command of it."""
        steps = [(f"save the metadata of the members to {self.directory / METADATA}, and compare them", "")]
        for rule in self.rules:
            steps.append((f"hide udev's rule {rule}, which could assemble them", _hide(rule)))
        for array in self.arrays_to_stop:
            steps.append((f"stop {array}, which does not run and holds them", command_lines.stop_array(array)))
        for member in self.members:
            steps.append((f"make {member.path} read-only", command_lines.set_read_only(member.path)))
            steps.append((f"make an overlay of {member.path}: its changes go to a file in {self.directory}", ""))
        names = list_names([member.name for member in self.members], 24)
        steps.append((f"assemble the array read-only from the overlays of {names}", ""))
        steps.append(("check its filesystem, mount it read-only, and read a sample of its files", ""))
        return steps


class UndoFailed(BlklabError):
    """Overlays could not be removed after an error."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.details = (f"when the reason is gone, run {remedy}",)


PROGRAMS = ("mdadm", "dmsetup", "losetup", "blockdev", "blkid", "mount")
"""Programs without which no overlay can be made or tried."""


def plan_overlays(
    rescue: ArrayRescue, directory: Path, names: Sequence[str], roots: Roots, *, backup_file: str = ""
) -> OverlayPlan:
    """Returns what will be done to try an array. `names` are members; without them, those that suffice.

    Raises UsageError for an array that runs, for members that are in use, and for a directory on their disks.
    """
    array = rescue.array
    if not is_stopped(array):
        raise UsageError(f"{array.path}: it runs, and overlays are for arrays that do not start")
    if array.external:
        raise UsageError(f"{array.name}: its metadata are {array.metadata}, expected those of Linux md")
    check_programs()
    members = choose_members(rescue, names)
    if any(not member.path.startswith("/dev/") for member in members):
        raise UsageError(f"{array.name}: its members are images, expected devices: attach them with losetup")
    check_space(directory, members, roots)
    for member in members:
        if member.users:
            raise UsageError(f"{member.path}: in use: {member.users[0]}: stop this first")
    holders = find_arrays_to_stop(members, roots)
    return OverlayPlan(array, members, directory, holders, tuple(find_rules(roots)), backup_file)


def check_space(directory: Path, members: Sequence[ArrayMember], roots: Roots) -> None:
    """Raises UsageError for a directory that exists, that is on a disk of a member, or that has too little space."""
    check_directory(directory, members, roots, option="DIRECTORY")
    free = _measure_free(directory.absolute().parent)
    min_bytes = LEAST_FREE * len(members)
    if free < min_bytes:
        raise UsageError(
            f"{directory}: {format_size(free)} are free, expected {format_size(min_bytes)} for {len(members)} overlays"
        )


def check_programs() -> None:
    """Raises EnvironmentLacks if the user is not root, or if a program is missing."""
    if os.geteuid() != 0:
        raise EnvironmentLacks("permission denied", "run blklab as root")
    for program in PROGRAMS:
        child_process.find(program, PACKAGES.get(program, "util-linux"))


def choose_members(rescue: ArrayRescue, names: Sequence[str]) -> tuple[ArrayMember, ...]:
    """Returns the members for overlays: those that the user names, or those that suffice. Raises UsageError."""
    array = rescue.array
    if not names:
        sufficient = rescue.chosen or find_current(array)
        if rescue.condition == "diverged":
            raise UsageError(f"{array.name}: two parts diverged: name the members of one of them with --member")
        if not sufficient:
            raise UsageError(f"{array.name}: no members suffice to start it: see `blklab md rescue`")
        return (*sufficient, *find_journals(array))
    members_by_path = {member.path: member for member in array.members if member.superblock}
    members: list[ArrayMember] = []
    for name in names:
        member = members_by_path.get(str(Path(name).resolve()))
        if member is None:
            raise UsageError(
                f"{name}: no member of {array.name}; its members are {list_names(list(members_by_path), 24)}"
            )
        members.append(member)
    if len({member.path for member in members}) < len(members):
        raise UsageError("--member: a member is named twice")
    return tuple(members)


def start_overlays(plan: OverlayPlan, report: Report, roots: Roots) -> OverlayRecord:
    """Makes the overlays, and tries the array on them. If a step fails, everything is undone.

    Raises BlklabError if an overlay cannot be made, or a member's metadata cannot be saved.
    """
    directory = plan.directory

    def assemble(array: str, overlays: Sequence[str]) -> str:
        return command_lines.assemble_read_only(array, overlays, plan.backup_file)

    with journal.lock_array(plan.array.uuid or plan.array.name, roots):
        with SystemErrors(UsageError, directory):
            directory.mkdir(mode=0o700)
        record = OverlayRecord(
            id=secrets.token_hex(4),
            boot_id=process.boot_id(roots),
            array_uuid=plan.array.uuid,
            array_name=plan.array.name,
            members=[_describe(member, roots) for member in plan.members],
            masked_rules=list(plan.rules),
        )
        write_record(record, directory)
        report(f"save the metadata of the members to {directory / METADATA}, and compare them", "")
        save([replace(plan.array, members=plan.members, outside=())], directory / METADATA, roots)
        return try_on_overlays(record, plan.arrays_to_stop, directory, assemble, report, roots)


def try_on_overlays(
    record: OverlayRecord,
    arrays_to_stop: Sequence[str],
    directory: Path,
    assemble: Callable[[str, Sequence[str]], str],
    report: Report,
    roots: Roots,
) -> OverlayRecord:
    """Makes overlays of the members of a record, tries the array, and writes the result into the record.

    `assemble` returns the command that assembles an array from overlays, by their paths. If a step fails, everything is
    undone.
    """
    try:
        overlays = _make_overlays(record, arrays_to_stop, directory, report, roots)

        def make_content_snapshot(device: str) -> str:
            return _make_snapshot(record, f"content-{Path(device).name}", device, directory, report, roots)

        array = f"/dev/{find_free_name(roots)}"
        trial = try_array(array, assemble(array, overlays), directory, make_content_snapshot, report, roots)
        if full := find_full(record, roots):
            line = f"Overlays are full, so nothing of this is proven: {list_names(full)}. Use a disk with more space."
            trial = TrialResult("failed", [*trial.lines, line])
    except BaseException as error:
        report("it failed: undo everything", "")
        with SignalDeferral() as signals:
            signals.defer()
            try:
                undo(record, directory, report, roots)
            except BlklabError as failure:
                message = f"{error}; and not everything could be undone: {failure}"
                raise UndoFailed(message, command_lines.stop_overlays(str(directory))) from error
        raise
    record = msgspec.structs.replace(record, trial=trial)
    write_record(record, directory)
    return record


def _make_overlays(
    record: OverlayRecord, arrays_to_stop: Sequence[str], directory: Path, report: Report, roots: Roots
) -> list[str]:
    """Keeps everything else from the members, and returns the paths of their overlays."""
    _hide_rules(record.masked_rules, report, roots)
    for array in arrays_to_stop:
        line = command_lines.stop_array(array)
        report(f"stop {array}, which does not run", line)
        run_command(line, array)
    line = command_lines.load_modules()
    report("load the modules of overlays", line)
    run_command(line, "the modules loop and dm-snapshot cannot be loaded")
    overlays = []
    for number, member in enumerate(record.members):
        line = command_lines.set_read_only(member.path)
        report(f"make {member.path} read-only", line)
        run_command(line, member.path)
        overlays.append(_make_snapshot(record, f"{number}", member.path, directory, report, roots))
    return overlays


def _describe(member: ArrayMember, roots: Roots) -> MemberFacts:
    is_read_only = read_text(roots.sys / "class/block" / member.name / "ro") == "1"
    return describe_member(member, is_read_only=is_read_only, roots=roots)


def _make_snapshot(
    record: OverlayRecord, suffix: str, origin: str, directory: Path, report: Report, roots: Roots
) -> str:
    """Makes an overlay of a device, and returns its path. Its dm name and UUID end with `suffix`."""
    store = directory / f"overlay-{suffix}"
    size = int(read_text(roots.sys / "class/block" / Path(origin).name / "size") or 0)
    if not size:
        raise BlklabError(f"{origin}: its size is not known: is it gone?")
    with SystemErrors(BlklabError, store):
        descriptor = os.open(store, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, STORE_BYTES)
        finally:
            os.close(descriptor)
    line = command_lines.attach_file(str(store))
    report(f"attach the file for the changes of {origin}", line)
    loop = run_command(line, str(store)).last
    name = f"blklab-{record.id}-{suffix}"
    uuid = f"{record.uuid_prefix}{suffix}"
    line = command_lines.make_snapshot(name, uuid, size, origin, loop)
    report(f"make the overlay of {origin}", line)
    run_command(line, origin)
    for node in find_overlay_nodes(record, roots):
        if read_text(node / "dm/uuid") == uuid:
            return f"/dev/{node.name}"
    raise BlklabError(f"{origin}: device-mapper made no overlay")


def find_overlay_nodes(record: OverlayRecord, roots: Roots) -> list[Path]:
    """Returns the sysfs directories of the overlays of a record that exist now."""
    nodes = []
    for node in entries(roots.sys / "block"):
        if (read_text(node / "dm/uuid") or "").startswith(record.uuid_prefix):
            nodes.append(node)
    return sorted(nodes, key=lambda node: node.name)


def find_full(record: OverlayRecord, roots: Roots) -> list[str]:
    """Returns the names of overlays that took no more changes: device-mapper calls them invalid, or they overflowed."""
    full = []
    for node in find_overlay_nodes(record, roots):
        name = read_text(node / "dm/name") or node.name
        status = read_snapshot_status(name)
        if status is None or "/" not in status:
            full.append(name)
    return full


def measure_usage(record: OverlayRecord, roots: Roots) -> dict[str, str]:
    """Returns how full each overlay is, by its name; empty if there are none."""
    usage = {}
    for node in find_overlay_nodes(record, roots):
        name = read_text(node / "dm/name") or node.name
        status = read_snapshot_status(name) or ""
        sectors, slash, _ = status.partition("/")
        if slash and sectors.isdigit():
            usage[name] = f"{format_size(int(sectors) * SECTOR)} of {format_size(STORE_BYTES)} used"
        else:
            usage[name] = "full, or its file cannot be written: nothing on it is valid"
    return usage


def read_snapshot_status(name: str) -> str | None:
    """Returns the used part of a snapshot, `16/2097152` in sectors, or `Invalid`, `Overflow`; None if it is gone."""
    program = child_process.find("dmsetup", PACKAGES["dmsetup"])
    output = child_process.run([program, "status", "--noflush", name], timeout=60)
    fields = output.stdout.split()
    return fields[3] if output.returncode == 0 and len(fields) > 3 and fields[2] == "snapshot" else None


def _measure_free(directory: Path) -> int:
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize


def find_free_name(roots: Roots) -> str:
    """Returns the name of an array that does not exist; mdadm begins at 127 too."""
    for number in range(127, 0, -1):
        if not (roots.sys / "block" / f"md{number}").exists():
            return f"md{number}"
    raise BlklabError("no free name for the array: /dev/md1 to /dev/md127 exist")


def find_arrays_to_stop(members: Sequence[ArrayMember], roots: Roots) -> tuple[str, ...]:
    """Returns the arrays that hold members and do not run. Raises UsageError for other holders."""
    arrays = []
    for member in members:
        for holder in entries(roots.sys / "class/block" / member.name / "holders"):
            state = read_text(roots.sys / "block" / holder.name / "md/array_state")
            if state not in {"inactive", "clear"}:
                raise UsageError(f"{member.path}: {holder.name} uses it: stop this first")
            arrays.append(f"/dev/{holder.name}")
    return tuple(dict.fromkeys(arrays))


def find_rules(roots: Roots) -> list[str]:
    """Returns the names of udev's rules that this host has and that are hidden meanwhile.

    Raises UsageError for one in /etc, which comes before those in /run (udev(7)).
    """
    root = roots.dev.parent
    if not (root / "run/udev").is_dir():
        return []
    rules = []
    for rule in RULES:
        local_rule = root / "etc/udev/rules.d" / rule
        if local_rule.exists() and local_rule.resolve() != Path("/dev/null"):
            raise UsageError(f"{local_rule}: this rule may assemble the overlays: move it away meanwhile")
        if any((root / directory / rule).exists() for directory in RULE_DIRECTORIES):
            rules.append(rule)
    return rules


def _hide(rule: str) -> str:
    return command_lines.hide_rule(f"/run/udev/rules.d/{rule}")


def _hide_rules(rules: Sequence[str], report: Report, roots: Roots) -> None:
    directory = roots.dev.parent / "run/udev/rules.d"
    for rule in rules:
        report(f"hide udev's rule {rule}", _hide(rule))
        with SystemErrors(BlklabError, directory / rule):
            directory.mkdir(parents=True, exist_ok=True)
            if not (directory / rule).is_symlink():
                (directory / rule).symlink_to("/dev/null")
    if rules:
        line = command_lines.reload_rules()
        report("have udev read its rules again", line)
        run_command(line, "udev")


def stop_overlays(directory: Path, report: Report, roots: Roots) -> list[str]:
    """Undoes everything that `start_overlays` did, and returns what the user must know.

    It can be repeated. Raises BlklabError if the overlays are in use.
    """
    record = read_record(directory)
    with journal.lock_array(record.array_uuid or record.array_name, roots):
        return undo(record, directory, report, roots)


def undo(record: OverlayRecord, directory: Path, report: Report, roots: Roots) -> list[str]:
    """Removes the overlays of a record, makes its members writable, and shows udev's rules again."""
    nodes = find_overlay_nodes(record, roots)
    arrays = _find_trial_arrays(nodes, roots)
    _unmount_all([*nodes, *arrays], report, roots)
    _remove_snapshots([node for node in nodes if "content-" in (read_text(node / "dm/name") or "")], report)
    for array in arrays:
        line = command_lines.stop_array(f"/dev/{array.name}")
        report(f"stop the array on the overlays, {array.name}", line)
        run_command(line, f"/dev/{array.name}")
    _remove_snapshots(find_overlay_nodes(record, roots), report)
    _detach_files(directory, report, roots)
    for store in directory.glob("overlay-*"):
        store.unlink()
    lines = []
    if record.boot_id == process.boot_id(roots):  # A restart makes disks writable, and empties /run
        lines += _make_writable(record, report, roots)
        _show_rules(record.masked_rules, report, roots)
    write_record(msgspec.structs.replace(record, stopped=True), directory)
    return [f"the overlays are gone; {directory} still has the saved metadata and the result", *lines]


def _find_trial_arrays(nodes: Sequence[Path], roots: Roots) -> list[Path]:
    """Returns the arrays on overlays. Raises BlklabError if something else uses an overlay."""
    names = {node.name for node in nodes}
    arrays = {}
    for node in nodes:
        for holder in entries(node / "holders"):
            if holder.name in names:
                continue
            if not (roots.sys / "block" / holder.name / "md").is_dir():
                raise BlklabError(f"{node.name}: {holder.name} uses this overlay: stop this first, and try again")
            arrays[holder.name] = roots.sys / "block" / holder.name
    for array in arrays.values():
        for device in [array, *[entry for entry in entries(array) if (entry / "partition").exists()]]:
            for holder in entries(device / "holders"):
                if holder.name not in names:
                    raise BlklabError(
                        f"{array.name}: {holder.name} uses the array on the overlays: deactivate it, and try again"
                    )
    return list(arrays.values())


def _unmount_all(nodes: Sequence[Path], report: Report, roots: Roots) -> None:
    """Unmounts the filesystems on devices and their partitions."""
    numbers = set()
    for node in nodes:
        numbers.add(read_text(node / "dev"))
        numbers |= {read_text(entry / "dev") for entry in entries(node) if (entry / "partition").exists()}
    for mount in reversed(mounts(roots)):
        if mount.number in numbers:
            line = command_lines.unmount(str(mount.point))
            report(f"unmount {mount.point}", line)
            run_command(line, f"{mount.point}: close the files that are open there, and try again")


def _remove_snapshots(nodes: Sequence[Path], report: Report) -> None:
    for node in nodes:
        name = read_text(node / "dm/name") or ""
        line = command_lines.remove_snapshot(name)
        report(f"remove the overlay {name}", line)
        run_command(line, name)


def _detach_files(directory: Path, report: Report, roots: Roots) -> None:
    real = directory.resolve()
    for node in entries(roots.sys / "block"):
        file = loop_file(node)
        if file and Path(file).parent == real:
            line = command_lines.detach_file(f"/dev/{node.name}")
            report(f"detach {file}", line)
            run_command(line, file)


def _make_writable(record: OverlayRecord, report: Report, roots: Roots) -> list[str]:
    """Makes members writable again that were; returns a line for each that is not here."""
    lines = []
    for facts in record.members:
        if facts.was_read_only:
            continue
        device = find_device(facts, roots)
        if device is None:
            lines.append(f"{facts.path} is not here any more: nothing was changed on it")
            continue
        if read_text(roots.sys / "class/block" / device.name / "ro") == "1":
            line = command_lines.set_read_write(device.path)
            report(f"make {device.path} writable", line)
            run_command(line, device.path)
    return lines


def _show_rules(rules: Sequence[str], report: Report, roots: Roots) -> None:
    directory = roots.dev.parent / "run/udev/rules.d"
    hidden = [directory / rule for rule in rules if (directory / rule).is_symlink()]
    for path in hidden:
        if path.readlink() == Path("/dev/null"):
            path.unlink()
    if hidden:
        line = command_lines.reload_rules()
        report("show udev's rules again", line)
        run_command(line, "udev")
