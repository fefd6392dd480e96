"""The directory for the files of a run, and its removal."""

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from blklab.errors import BlklabError, EnvironmentLacks, SystemErrors, UsageError
from blklab.runners.host.journal import DirectoryEntry, HostJournal
from blklab.system.mounts import MEMORY, NETWORK, Mount, holding, mounts
from blklab.system.roots import Roots, open_descriptor, read_text

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PREFIX = ".blklab-"
KEEP = 0.05  # Share of a filesystem that stays free: full filesystems are slow, and others need space too


@dataclass(frozen=True)
class ScratchDirectory:
    """A directory that blklab made."""

    path: Path  # Its path, for messages: another user of the parent directory may replace it
    warnings: tuple[str, ...]
    descriptor: int = field(repr=False)  # A descriptor of the directory itself

    def place(self, name: str) -> Path:
        """Returns the path of a file in it, for this process and for children with the descriptor.

        The path goes through the descriptor, so no user can redirect it.
        """
        return Path(f"/proc/self/fd/{self.descriptor}") / name

    def verify(self) -> None:
        """Raises BlklabError if the path no longer leads to this directory.

        A user with write access to the parent could have replaced it with a link.
        """
        with SystemErrors(BlklabError, self.path, ": it was removed during the run"):
            status = self.path.lstat()
            own_status = os.fstat(self.descriptor)
        if (status.st_dev, status.st_ino) != (own_status.st_dev, own_status.st_ino):
            raise BlklabError(f"{self.path}: another directory has replaced the one that blklab made")


@contextmanager
def scratch(
    directory: Path | str, journal: HostJournal, *, size: int, mounted: bool = False, name: str = ""
) -> Iterator[ScratchDirectory]:
    """Makes a private directory in `directory`, for `size` bytes; removes it after the block.

    With `mounted`, `directory` must be a mount point. `name` begins with PREFIX; by default it is random.
    Raises UsageError if it is not, or no
    directory, or read-only; EnvironmentLacks without enough space.
    """
    roots = journal.roots
    # Links to it are followed here, and only here.
    parent, real = _open_directory(Path(directory))
    try:
        mount = holding(real, roots)
        if mounted:
            check_mounted(Path(directory), roots)
        _check_room(real, parent, size)
        warnings = [*_warnings(real, mount), *_warn_about_owner(real, parent)]
        name = name or PREFIX + secrets.token_hex(16)
        number = journal.directory(real, name)
        descriptor = -1
        try:
            descriptor = _make_directory(parent, name, real)
            yield ScratchDirectory(real / name, tuple(warnings), descriptor)
        finally:
            if descriptor >= 0:
                os.close(descriptor)
            remove_in(parent, name)
            journal.done(number)
    finally:
        os.close(parent)


def _open_directory(directory: Path) -> tuple[int, Path]:
    """Returns a descriptor of a directory, and its path without links."""
    try:
        real = directory.resolve(strict=True)
        return os.open(real, _DIRECTORY), real
    except NotADirectoryError:
        raise UsageError(f"{directory}: not a directory; name a directory to make files in") from None
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{directory}: {reason}; name a directory to make files in") from None


def _make_directory(parent: int, name: str, real: Path) -> int:
    """Makes the directory and opens it; mkdir follows no link and replaces nothing."""
    with SystemErrors(UsageError, f"{real}: cannot make a directory there"):
        os.mkdir(name, 0o700, dir_fd=parent)
        descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) != 0o700:
        os.close(descriptor)
        raise BlklabError(f"{real / name}: another user's directory has replaced it")
    return descriptor


def check_mounted(directory: Path, roots: Roots) -> None:
    """Raises UsageError if no filesystem is mounted there."""
    real = directory.resolve()
    if str(real) in {mount.point for mount in mounts(roots)}:
        return
    mount = holding(real, roots)
    place = f"a directory on {mount.source} ({mount.point})" if mount else "a directory"
    raise UsageError(
        f"{directory}: found {place}, expected a mounted filesystem: mount it there first, "
        "or use `directory` instead of `filesystem`"
    )


def _check_room(real: Path, parent: int, size: int) -> None:
    status = os.fstatvfs(parent)
    if status.f_flag & os.ST_RDONLY:
        raise UsageError(f"{real}: on a filesystem that is mounted read-only")
    total = status.f_blocks * status.f_frsize
    free = status.f_bavail * status.f_frsize
    if total and size > free - KEEP * total:
        room = max(0, int(free - KEEP * total))
        message = f"{real}: found space for {room} bytes ({free} free, 5 % of {total} stay free), expected {size}"
        raise EnvironmentLacks(message, "choose a smaller size, or another directory")


def _warnings(real: Path, mount: Mount | None) -> Iterator[str]:
    if mount and mount.kind in MEMORY:
        yield f"{real} is on {mount.kind}: memory would be measured, not a device"
    elif mount and mount.kind in NETWORK:
        yield (f"{real} is on {mount.kind}: the network and {mount.source} would be measured, not a device")


def _warn_about_owner(real: Path, parent: int) -> Iterator[str]:
    status = os.fstat(parent)
    open_to_all = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
    if status.st_uid not in {0, os.geteuid()} or open_to_all:
        yield (
            f"{real}: other users can write here (owner {status.st_uid}, mode "
            f"{stat.S_IMODE(status.st_mode):o}), and could replace what blklab makes"
        )


def remove(entry: DirectoryEntry, roots: Roots) -> bool:
    """Removes a directory that blklab made; tells whether it existed.

    Raises BlklabError if it is not one of blklab's, or if its filesystem is not mounted.
    """
    if not re.fullmatch(rf"{re.escape(PREFIX)}[0-9a-f]{{32}}", entry.name):
        raise BlklabError(f"{entry.name!r} is not a name that blklab uses")
    with suppress(FileNotFoundError, NotADirectoryError), open_descriptor(entry.parent, _DIRECTORY) as parent:
        if remove_in(parent, entry.name):
            return True
    if entry.kind not in {"", *MEMORY}:
        mount = holding(Path(entry.parent), roots)
        if mount is None or (mount.kind, mount.point) != (entry.kind, entry.point):
            raise BlklabError(f"its {entry.kind} is not mounted at {entry.point}; mount it first")
    return False


def remove_in(parent: int, name: str) -> bool:
    """Removes a tree by descriptors, so that no link can lead out of it.

    It does not enter other mounts. Tells whether there was such a tree. Raises BlklabError.
    """
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise BlklabError(f"{name}: not removed: it is not the directory that blklab made")
    try:
        _remove_tree(parent, name, os.fstat(parent).st_dev, _mount_of(parent))
    except (OSError, RecursionError) as error:
        raise BlklabError(f"{name}: {error}: not removed completely") from None
    return True


def _remove_tree(parent: int, name: str, device: int, mount: str | None) -> None:
    with open_descriptor(name, _DIRECTORY, parent) as directory:
        # A bind mount of the same filesystem has the same device, but another number of mount.
        if os.fstat(directory).st_dev != device or _mount_of(directory) != mount:
            raise BlklabError(f"{name}: not removed: something is mounted there; unmount it first")
        with os.scandir(directory) as scan:
            inside = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in scan]
        for entry, is_directory in inside:
            if is_directory:
                _remove_tree(directory, entry, device, mount)
            else:
                os.unlink(entry, dir_fd=directory)
    os.rmdir(name, dir_fd=parent)


def _mount_of(descriptor: int) -> str | None:
    """Returns the id of the mount of an open file (proc(5), fdinfo; Linux 3.15)."""
    match = re.search(r"^mnt_id:\s*(\d+)", read_text(Path(f"/proc/self/fdinfo/{descriptor}")) or "", re.M)
    return match[1] if match else None
