"""Reads what sysfs does not have, from disks, programs and files.

These are superblocks, the versions of the kernel and of mdadm, mdadm's settings, and the journals of unfinished
repairs: one file for each array in the state directory.
"""

import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from blklab.errors import EnvironmentLacks
from blklab.md import superblocks
from blklab.md.kernel_changelog import read_md_changes
from blklab.md.kernel_log import read_kernel_log
from blklab.md.model import Geometry, Software
from blklab.md.superblocks import SuperblockReading
from blklab.system import child_process, dmsetup
from blklab.system.dmsetup import PATH
from blklab.system.identity import BlockDevice
from blklab.system.roots import Roots, entries, open_descriptor, read_text
from blklab.system.users import uses

CHECKERS = (  # Files of cron, the word to look for in them, and the name of the check
    ("etc/cron.d/mdadm", "checkarray", "checkarray of /etc/cron.d/mdadm"),
    ("etc/cron.d/raid-check", "raid-check", "raid-check of /etc/cron.d"),
)

NOT_RECORDED = "this probe did not read it: record it again with the script of `blklab md probe`"
"""Why a device is not in the recorded output of a probe."""

TIMERS = ("mdcheck_start.timer", "raid-check.timer")  # Timers of systemd (mdadm's own, and Fedora's)
CONTINUING_TIMER = "mdcheck_continue.timer"  # mdcheck_start.timer's checks end after some hours; this continues them
UNIT_DIRECTORIES = ("etc/systemd/system", "lib/systemd/system", "usr/lib/systemd/system")


def read_software(roots: Roots, mdadm: str | None = None) -> Software:
    """Returns versions and settings. `mdadm` is the output of `mdadm --version` on another host; None: runs it here."""
    files = list(read_mdadm_conf(roots))
    lines = [line for _, content in files for line in split_lines(content or "")]
    unread = any(content is None for _, content in files)
    return Software(
        kernel=parse_version(read_text(roots.proc / "sys/kernel/osrelease") or ""),
        mdadm=_mdadm() if mdadm is None else parse_version(mdadm),
        lists_off=_lists_off(lines) or (None if unread else False),
        config=", ".join(roots.format_path(path) for path, _ in files),
        checked_by=", ".join(_checkers(roots)),
        shares_spares=_is_sharing_spares(roots),
        timers=tuple(_list_idle_timers(roots)),
        autocheck=_read_autocheck(roots),
        kernels=tuple(dict.fromkeys(_kernels(_root(roots)))),
        md_changes=read_md_changes(roots, runs_programs=mdadm is None and _root(roots) == Path("/")),
    )


def parse_version(release: str) -> tuple[int, int] | None:
    """Returns the first two numbers of `6.12.111+deb12-amd64` or `mdadm - v4.2 - …`."""
    match = re.search(r"(?:^|v)(\d{1,4})\.(\d{1,4})", release)
    return (int(match[1]), int(match[2])) if match else None


def _mdadm() -> tuple[int, int] | None:
    program = shutil.which("mdadm", path=PATH)
    if program is None:
        return None
    try:
        out, err = child_process.version(program, "check whether it runs", timeout=10)
    except EnvironmentLacks:
        return None
    return parse_version(err + out)


def _root(roots: Roots) -> Path:
    return roots.dev.parent


def read_mdadm_conf(roots: Roots) -> Iterator[tuple[Path, str | None]]:
    """Yields mdadm's configuration files (mdadm.conf(5)); content is None for unreadable files."""
    root = _root(roots)
    for name in ("etc/mdadm/mdadm.conf", "etc/mdadm.conf"):
        if os.path.lexists(root / name):
            yield root / name, read_text(root / name)
            break
    for directory in ("etc/mdadm/mdadm.conf.d", "etc/mdadm.conf.d"):
        for path in entries(root / directory):
            if path.suffix == ".conf":
                yield path, read_text(path)


CONF_WORD = re.compile(r"#.*|(?:\"[^\"]*\"?|'[^']*'?|[^\s\"'])+")
"""A word of mdadm.conf, parts of which may be quoted, or a comment (mdadm 4.2, config.c, `conf_word`)."""


def split_lines(content: str) -> Iterator[list[str]]:
    """Yields lines of mdadm.conf as words; a line that begins with a blank continues the last."""
    tokens: list[str] = []
    for line in content.splitlines():
        if not line[:1].isspace() and tokens:
            yield tokens
            tokens = []
        for match in CONF_WORD.finditer(line):
            token = match[0].replace('"', "").replace("'", "")
            if token and not match[0].startswith("#"):
                tokens.append(token)
    if tokens:
        yield tokens


def _lists_off(lines: list[list[str]]) -> bool:
    # Keywords may be shortened to three letters or more, and case does not matter.
    create_lines = [line[1:] for line in lines if len(line[0]) >= 3 and "create".startswith(line[0].lower())]
    return any(option.lower() == "bbl=no" for options in create_lines for option in options)


def _checkers(roots: Roots) -> Iterator[str]:
    root = _root(roots)
    for name, word, check_name in CHECKERS:
        content = read_text(root / name) or ""
        active = [line for line in content.splitlines() if not line.lstrip().startswith("#")]
        if any(word in line for line in active):
            if word == "checkarray" and _read_autocheck(roots) is False:
                continue
            yield check_name
    for timer in TIMERS:
        if _is_enabled(timer, roots):
            yield timer


def is_spare_monitor(process: Path) -> bool:
    """Whether a process, a directory in /proc, is an mdadm --monitor that may move spares between arrays.

    getopt accepts shortened options.
    """
    arguments = (read_text(process / "cmdline") or "").split("\0")
    options = [argument for argument in arguments[1:] if argument.startswith("-")]
    if not process.name.isdigit() or "mdadm" not in {Path(arguments[0]).name, read_text(process / "comm")}:
        return False
    if any(option.startswith("--no-s") for option in options):
        return False
    return any(re.match(r"-[A-Za-z0-9]*F|--mo|--fol", option) for option in options)


def _is_sharing_spares(roots: Roots) -> bool | None:
    """Returns whether such a process runs; None if not all processes can be seen."""
    if any(is_spare_monitor(process) for process in entries(roots.proc)):
        return True
    return False if sees_all_processes(roots) else None


def sees_all_processes(roots: Roots) -> bool:
    # include/linux/proc_ns.h, PROC_PID_INIT_INO: the first namespace of pids, which sees all processes.
    with suppress(OSError):
        return (roots.proc / "self/ns/pid").readlink().name == "pid:[4026531836]"
    return False


def _is_enabled(timer: str, roots: Roots) -> bool:
    for wants in entries(_root(roots) / "etc/systemd/system"):
        # A link to the unit may be dangling in the image of a host.
        if wants.name.endswith(".wants") and ((wants / timer).is_symlink() or (wants / timer).exists()):
            return True
    return False


def _list_idle_timers(roots: Roots) -> Iterator[str]:
    """Yields the installed timers that are not enabled. A masked one, a link to /dev/null, is switched off on purpose.

    mdcheck_continue.timer is one of them: it is needed with mdcheck_start.timer.
    """
    for timer in (TIMERS[0], CONTINUING_TIMER, TIMERS[1]):
        paths = [_root(roots) / directory / timer for directory in UNIT_DIRECTORIES]
        unit = next((path for path in paths if os.path.lexists(path)), None)
        is_masked = unit is not None and unit.is_symlink() and str(unit.readlink()) == "/dev/null"
        if unit is not None and not is_masked and not _is_enabled(timer, roots):
            yield timer


def _read_autocheck(roots: Roots) -> bool | None:
    """Returns whether Debian's checkarray runs regularly; None if cron has no checkarray."""
    content = read_text(_root(roots) / "etc/cron.d/mdadm") or ""
    if not any("checkarray" in line for line in content.splitlines() if not line.lstrip().startswith("#")):
        return None
    setting = re.search(r"^\s*AUTOCHECK=(\S+)", read_text(_root(roots) / "etc/default/mdadm") or "", re.M)
    return setting is None or setting[1].strip("\"'") == "true"


def _kernels(root: Path) -> Iterator[str]:
    """Yields the releases of installed kernels: Debian's and Fedora's files, and those of Arch."""
    for path in entries(root / "boot"):
        if path.name.startswith(("vmlinuz-", "vmlinux-")):
            yield path.name.partition("-")[2]
    yield from (path.name for path in entries(root / "lib/modules") if (path / "vmlinuz").exists())


PREFIX = "md-fix-"


def journal_path(uuid: str, roots: Roots) -> Path:
    """Returns the path of an array's journal."""
    return roots.state / f"{PREFIX}{uuid.replace('/', '!')}.json"


def find_journals(roots: Roots) -> list[Path]:
    """Returns the journals of all unfinished repairs, running or interrupted."""
    return [path for path in entries(roots.state) if path.name.startswith(PREFIX) and path.suffix == ".json"]


TIMEOUT_S = 20.0  # Time to wait for a disk


def _run(*arguments: str) -> tuple[str, str]:
    program = shutil.which("smartctl", path=PATH)
    if program is None:
        return "", "smartctl is not installed: apt-get install smartmontools"
    if os.geteuid() != 0:
        return "", "permission denied: run blklab as root"
    try:
        process = subprocess.Popen(
            [program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError as error:
        return "", f"cannot run smartctl: {error.strerror}"
    try:
        # Its exit status is a bit mask about the disk, which the JSON describes better.
        output, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        if process.stdout:
            process.stdout.close()
        # A process that waits for a disk may ignore even SIGKILL.
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
        return "", f"the disk did not answer within {TIMEOUT_S:.0f} s"
    return output.decode(errors="replace"), ""


def parse_geometry(head: bytes, device: str) -> Geometry | None:
    """Returns the geometry in the first 4,096 bytes of an ext4 or XFS; None for other content."""
    if len(head) < 4096:
        return None
    if head[1024 + 0x38 : 1024 + 0x3A] == b"\x53\xef":
        (power,) = struct.unpack_from("<I", head, 1024 + 0x18)
        if power > 6:
            return None
        block = 1024 << power
        (stride,) = struct.unpack_from("<H", head, 1024 + 0x164)
        (width,) = struct.unpack_from("<I", head, 1024 + 0x170)
        return Geometry("ext4", device, block, stride * block, width * block)
    if head[:4] == b"XFSB":
        block, unit, width = (struct.unpack_from(">I", head, offset)[0] for offset in (4, 184, 188))
        return Geometry("xfs", device, block, unit * block, width * block)
    return None


class Probe:
    """Reads without a cache. Reading a superblock spins up a disk in standby; sysfs does not."""

    def read_superblocks(self, path: Path) -> SuperblockReading:
        """Returns a member's superblocks."""
        return superblocks.read_superblocks(path)

    def read_geometry(self, path: Path) -> tuple[Geometry | None, str]:
        """Returns the geometry of a filesystem on a device, or None, and why it cannot be read."""
        try:
            # O_NONBLOCK: the path may be a pipe.
            with open_descriptor(path, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
                head = os.pread(descriptor, 4096, 0)
        except PermissionError:
            return None, "permission denied: run blklab as root"
        except OSError as error:
            return None, (error.strerror or str(error)).lower()
        return parse_geometry(head, str(path)), ""

    def is_repairing(self, uuid: str, roots: Roots) -> bool | None:
        """Whether a repair of an array is unfinished; None: permission denied."""
        # root repairs arrays, whichever user runs this.
        states = {roots.state, roots.state_of_root}
        journals_exist = {_exists(journal_path(uuid, replace(roots, state=state))) for state in states}
        if True in journals_exist:
            return True
        return None if None in journals_exist else False

    def find_users(self, device: BlockDevice, roots: Roots) -> list[str]:
        """Returns what uses an array, for messages. It may hang: files of loop devices on a network
        filesystem are examined.
        """
        return uses(device, roots)

    def read_mapping(self, number: str) -> tuple[str, str]:
        """Returns the table of a dm device, or why it cannot be read."""
        return dmsetup.read_table(number)

    def read_smart(self, path: str, kind: str = "") -> tuple[str, str]:
        """Returns smartctl's JSON for a disk, or why there is none.

        `kind` is smartctl's `-d` for disks behind a controller. Disks in standby are not spun up.
        """
        device_type = [f"--device={kind}"] if kind else []
        logs = ["--log=scterc", "--log=scttempsts"]
        return _run("--json", "--all", *logs, "--nocheck=standby", *device_type, path)

    def read_controllers(self) -> tuple[str, str]:
        """Returns smartctl's list of devices, also behind controllers, as JSON, or why there is none."""
        return _run("--json", "--scan-open")

    def read_software(self, roots: Roots) -> Software | None:
        """Returns the host's software and settings; None if unknown."""
        return read_software(roots)

    def read_kernel_log(self, roots: Roots) -> str:
        """Returns the kernel's own messages, one a line, the oldest first; empty if unknown (root may read them)."""
        return read_kernel_log(roots.dev / "kmsg")

    def read_kernel_log_with_moments(self, roots: Roots) -> str:
        """Returns the same with the time since boot before each message."""
        return read_kernel_log(roots.dev / "kmsg", with_moments=True)


def _exists(path: Path) -> bool | None:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return None
    return True
