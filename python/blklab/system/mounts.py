"""Mounted filesystems, here and in other mount namespaces."""

import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from blklab.system.roots import Roots, entries

NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "glusterfs", "fuse.sshfs", "lustre"})
MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
NO_DEVICE = NETWORK | MEMORY  # Filesystems that write to no block device of this machine


@dataclass(frozen=True)
class Mount:
    """A line of /proc/PID/mountinfo."""

    number: str  # `major:minor` of the filesystem; major 0 means no device
    point: str
    kind: str
    source: str
    options: str  # Options of the filesystem, not of the mount
    flags: str = ""  # Options of the mount: rw, noatime…
    root: str = "/"  # The mounted part of the filesystem; bind mounts have a part only
    process: str = ""  # A process in the other mount namespace that has this mount; empty if it is in our own

    @property
    def place(self) -> str:
        """The mount point, with the process in whose mount namespace it is, for messages."""
        if self.process:
            return f"{self.point} in another mount namespace (of process {self.process})"
        return self.point


def mounts(roots: Roots, process: str = "self") -> list[Mount]:
    """Returns the mounts in the order of mounting (format: proc(5))."""
    mounts_read = []
    path = roots.proc / process / "mountinfo"
    try:
        lines = path.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 10 or "-" not in fields[6:]:
            continue
        filesystem_fields = fields[fields.index("-", 6) + 1 :]
        if len(filesystem_fields) < 2:
            continue
        point = unescape_name(fields[4])
        source = unescape_name(filesystem_fields[1])
        options = ",".join(filesystem_fields[2:])
        root = unescape_name(fields[3])
        mounts_read.append(Mount(fields[2], point, filesystem_fields[0], source, options, fields[5], root))
    return mounts_read


def list_all_mounts(roots: Roots) -> list[Mount]:
    """Returns the mounts of every visible mount namespace: containers have their own.

    Those of other namespaces have a `process`: their directories are not those of the same name here.

    Root sees those of all processes in its PID namespace; other users see fewer.
    """
    own_mounts = mounts(roots)
    namespaces = {_namespace(roots.proc / "self")}
    all_mounts = dict.fromkeys(own_mounts)
    known_mounts = set(own_mounts)
    for process in entries(roots.proc):
        if not process.name.isdigit():
            continue
        namespace = _namespace(process)
        if namespace in namespaces:
            continue
        if namespace is not None:
            namespaces.add(namespace)
        for mount in mounts(roots, process.name):
            if mount not in known_mounts:
                known_mounts.add(mount)
                all_mounts[replace(mount, process=process.name)] = None
    return list(all_mounts)


def _namespace(process: Path) -> str | None:
    try:
        return os.readlink(process / "ns/mnt")  # noqa: PTH115  # "mnt:[4026531841]" is no path
    except OSError:
        return None


def unescape_name(text: str) -> str:
    """Returns a name with the kernel's octal escapes decoded."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def holding(directory: Path, roots: Roots, number: str | None = None) -> Mount | None:
    """Returns the mount of a directory: the innermost one, and of several the last mounted.

    If `number` (`major:minor`) is given, mounts of that filesystem come first.
    """
    real = directory.resolve()
    mounts_holding = [mount for mount in mounts(roots) if real.is_relative_to(mount.point)]
    held = [mount for mount in mounts_holding if mount.number == number] or mounts_holding
    # max returns the first of equals, and the last mount covers those before it.
    return max(reversed(held), key=lambda mount: len(mount.point), default=None)


def find_whole_mount(number: str, roots: Roots) -> Mount | None:
    """Returns a mount of the whole filesystem `major:minor` that this process can reach."""
    for mount in mounts(roots):
        if mount.number == number and mount.root == "/":
            with suppress(OSError):
                status = os.stat(mount.point)  # noqa: PTH116
                if f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}" == number:
                    return mount
    return None
