"""Tries an array on overlays: assembles it, checks its filesystems, and reads a sample of its files.

The array is read-only, and a filesystem that was not unmounted must replay its journal before it can be checked. So
each filesystem gets a snapshot of its own on top of the array, which takes these writes.
"""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from blklab.errors import BlklabError
from blklab.md import command_lines
from blklab.md.audit.rule import list_names
from blklab.md.repair import operations
from blklab.md.rescue.file_sample import SampledFiles, read_sample
from blklab.md.rescue.overlay_record import TrialResult, Verdict
from blklab.system import child_process
from blklab.system.roots import Roots, entries, read_text
from blklab.units import format_size

Report = Callable[[str, str], object]
"""Prints what is done, and the command of it."""

MakeSnapshot = Callable[[str], str]
"""Makes a snapshot of a device, by its path, and returns the path of the snapshot."""

RUNNING = {"readonly", "read-auto", "clean", "active", "active-idle", "write-pending"}
WHY_DAMAGED = "More is wrong than the filesystem can repair, or the members do not belong together like this."


@dataclass(frozen=True)
class ContentCheck:
    """What a filesystem, or what else is on an array, is like."""

    verdict: Verdict
    lines: tuple[str, ...]


def run_command(line: str, subject: str) -> operations.CommandOutput:
    """Runs a command line, and returns its output. Raises BlklabError, with the last line, if it fails."""
    output = try_command(line)
    if output.status:
        raise BlklabError(f"{subject}: {line.split(maxsplit=1)[0]} printed: {output.last}")
    return output


def try_command(line: str) -> operations.CommandOutput:
    """Runs a command line, and returns its output and exit status. Raises EnvironmentLacks without its program."""
    if line.startswith("#"):
        raise BlklabError(line.removeprefix("# "))
    program, *arguments = shlex.split(line)
    return operations.run_program(child_process.find(program, PACKAGES.get(program, "util-linux")), *arguments)


PACKAGES = {
    "mdadm": "mdadm",
    "dmsetup": "dmsetup",
    "udevadm": "udev",
    "modprobe": "kmod",
    "e2fsck": "e2fsprogs",
    "xfs_repair": "xfsprogs",
    "btrfs": "btrfs-progs",
}
"""The Debian packages of programs; the others are in util-linux."""


def try_array(
    array: str, assemble: str, directory: Path, make_snapshot: MakeSnapshot, report: Report, roots: Roots
) -> TrialResult:
    """Assembles the array at a path with a command, checks what is on it, and returns what it saw.

    Filesystems stay mounted read-only below `directory`.
    """
    name = Path(array).name
    report("assemble the array on the overlays", assemble)
    output = try_command(assemble)
    state = read_text(roots.sys / "block" / name / "md/array_state") or ""
    size = int(read_text(roots.sys / "block" / name / "size") or 0)
    if state not in RUNNING or not size:
        return TrialResult("failed", [f"mdadm does not start it on the overlays. It printed: {output.last}."])
    lines = [f"It runs on the overlays as {array}, with {format_size(size * 512)}."]
    checks = []
    devices = [f"/dev/{partition}" for partition in list_partitions(name, roots)] or [array]
    for number, device in enumerate(devices, 1):
        mount_point = directory / ("files" if len(devices) == 1 else f"files-{number}")
        try:
            checks.append(check_content(device, mount_point, make_snapshot, report))
        except BlklabError as error:
            checks.append(ContentCheck("unchecked", (f"{device}: {error}.",)))
    for check in checks:
        lines += check.lines
    return TrialResult(judge([check.verdict for check in checks]), lines)


def list_partitions(name: str, roots: Roots) -> list[str]:
    """Returns the names of the partitions of an array."""
    nodes = entries(roots.sys / "block" / name)
    return sorted(entry.name for entry in nodes if (entry / "partition").exists())


def judge(verdicts: Sequence[Verdict]) -> Verdict:
    """Returns the verdict of all that is on an array: the worst one counts."""
    order: tuple[Verdict, ...] = ("failed", "damaged", "unchecked", "good")
    for verdict in order:
        if verdict in verdicts:
            return verdict
    return "unchecked"


def check_content(device: str, mount_point: Path, make_snapshot: MakeSnapshot, report: Report) -> ContentCheck:
    """Checks what is on a device: an ext2–4, XFS or btrfs filesystem. Of anything else it says what it is."""
    kinds = find_kinds(device)
    if not kinds:
        line = f"{device} has no filesystem that blkid knows: is it the right array, and are its members in order?"
        return ContentCheck("damaged", (line,))
    kind = kinds[0]
    if kind in {"ext2", "ext3", "ext4", "xfs"}:
        return _check_journalled(device, kind, mount_point, make_snapshot, report)
    if kind == "btrfs":
        return _check_btrfs(device, mount_point, make_snapshot, report)
    advice = ADVICE.get(kind, "Look at it yourself, and only read.")
    return ContentCheck("unchecked", (f"{device} has {kind}, which blklab does not check. {advice}",))


ADVICE = {
    "LVM2_member": "Activate its volumes read-only (`vgchange --activate y`), and check each filesystem "
    "(`fsck -n`). Deactivate them before you stop the overlays.",
    "crypto_LUKS": "Open it (`cryptsetup open --readonly`), and check the filesystem in it (`fsck -n`). "
    "Close it before you stop the overlays.",
    "swap": "It has nothing to save.",
}
"""What to do about content that blklab cannot check."""


def find_kinds(device: str) -> list[str]:
    """Returns what is on a device, as blkid calls it: `ext4`, `LVM2_member`; empty if it knows nothing."""
    kinds = []
    for line in try_command(command_lines.show_content(device)).lines:
        key, _, value = line.partition("=")
        if key in {"TYPE", "PTTYPE"}:
            kinds.append(value)
    return kinds


def _check_journalled(
    device: str, kind: str, mount_point: Path, make_snapshot: MakeSnapshot, report: Report
) -> ContentCheck:
    """Checks an ext2–4 or XFS filesystem. The kernel replays its journal first, as it will do on the disks."""
    snapshot = make_snapshot(device)
    mount_point.mkdir(exist_ok=True)
    line = command_lines.mount_to_replay(snapshot, str(mount_point))
    report("mount the filesystem once, on a snapshot, which replays its journal", line)
    replay = try_command(line)
    if replay.status:
        return _look_without_replay(device, kind, snapshot, mount_point, replay, report)
    run_command(command_lines.unmount(str(mount_point)), str(mount_point))
    line = command_lines.check_xfs(snapshot) if kind == "xfs" else command_lines.check_ext(snapshot)
    report("check the filesystem, which writes nothing", line)
    check = try_command(line)
    return _look_at_files(device, kind, snapshot, mount_point, check, report)


def _look_without_replay(
    device: str, kind: str, snapshot: str, mount_point: Path, replay: operations.CommandOutput, report: Report
) -> ContentCheck:
    """Mounts a filesystem whose journal cannot be replayed, so that people can look at their files."""
    lines = [f"{device}: its {kind} cannot be mounted as it is: {shorten(replay.last)}."]
    line = command_lines.mount_without_replay(snapshot, str(mount_point), "norecovery" if kind == "xfs" else "noload")
    report("mount it read-only, without its journal", line)
    if try_command(line).status:
        return ContentCheck("damaged", (*lines, WHY_DAMAGED))
    sample = read_sample(mount_point)
    lines.append(f"Without its journal, its files are in {mount_point}, read-only. {describe_sample(sample)}")
    return ContentCheck("damaged", (*lines, WHY_DAMAGED))


def _check_btrfs(device: str, mount_point: Path, make_snapshot: MakeSnapshot, report: Report) -> ContentCheck:
    snapshot = make_snapshot(device)
    line = command_lines.check_btrfs(snapshot)
    report("check the filesystem, which writes nothing", line)
    check = try_command(line)
    return _look_at_files(device, "btrfs", snapshot, mount_point, check, report)


def _look_at_files(
    device: str, kind: str, snapshot: str, mount_point: Path, check: operations.CommandOutput, report: Report
) -> ContentCheck:
    """Mounts a filesystem read-only and reads a sample of its files; the check's output is part of the result."""
    lines = []
    if check.status:
        lines.append(f"{device}: the check of its {kind} found errors. Its last line: {shorten(check.last)}.")
    else:
        lines.append(f"{device}: the check of its {kind} found no errors.")
    mount_point.mkdir(exist_ok=True)
    line = command_lines.mount_read_only(snapshot, str(mount_point))
    report("mount it read-only", line)
    mount = try_command(line)
    if mount.status:
        lines.append(f"It cannot be mounted: {shorten(mount.last)}.")
        return ContentCheck("damaged", (*lines, WHY_DAMAGED))
    report("read a sample of its files", "")
    sample = read_sample(mount_point)
    lines.append(f"Its files are in {mount_point}, read-only. {describe_sample(sample)}")
    is_damaged = bool(check.status or sample.broken)
    if is_damaged:
        lines.append(WHY_DAMAGED)
    return ContentCheck("damaged" if is_damaged else "good", tuple(lines))


def describe_sample(sample: SampledFiles) -> str:
    """Returns what a sample of files showed, as sentences."""
    if not sample.read and not sample.broken:
        return "It has no files."
    phrases = [f"{sample.read} files were read ({format_size(sample.bytes)})"]
    if sample.proven:
        phrases.append(f"the checksums in {sample.proven} of them hold")
    else:
        phrases.append("none of them has a checksum in it, so their content is not proven")
    sentence = "; ".join(phrases) + "."
    if sample.broken:
        sentence += f" Broken: {list_names(list(sample.broken), 6)}."
    return sentence


def shorten(line: str) -> str:
    """Returns a line of a program without its final full stop, and not endless."""
    return re.sub(r"\s+", " ", line).rstrip(".")[:200]
