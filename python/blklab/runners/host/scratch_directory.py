"""The directory that files of a run are made in, and its removal."""

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.runners.host.journal import DirectoryEntry, HostJournal
from blklab.system.mounts import MEMORY, NETWORK, Mount, holding, mounts
from blklab.system.roots import Roots, text

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PREFIX: Final = ".blklab-"
KEEP: Final = 0.05
"""Share of a filesystem that stays free: full ones slow down, and others need room too."""


@dataclass(frozen=True)
class ScratchDirectory:
    """A directory that blklab made."""

    path: Path
    """Its name, for messages: whoever may write in the directory above can make it another's."""
    warnings: tuple[str, ...]
    descriptor: int = field(repr=False)
    """The directory itself, whatever is called so by now."""

    def place(self, name: str) -> Path:
        """Returns where a file in it is, for this process and for children with the descriptor.

        Through the descriptor: no name that others could give to something else is resolved.
        """
        return Path(f"/proc/self/fd/{self.descriptor}") / name

    def verify(self) -> None:
        """Raises BlklabError if the path leads elsewhere by now.

        Whoever may write in the directory above could have put a link in its place.
        """
        try:
            status, made = self.path.lstat(), os.fstat(self.descriptor)
        except OSError as error:
            raise BlklabError(f"{self.path}: {error.strerror}: it was removed in the run") from None
        if (status.st_dev, status.st_ino) != (made.st_dev, made.st_ino):
            raise BlklabError(
                f"{self.path}: not the directory that was made there: put in its place"
            )


@contextmanager
def scratch(
    directory: Path | str,
    journal: HostJournal,
    *,
    needed: int,
    mounted: bool = False,
) -> Iterator[ScratchDirectory]:
    """Makes a directory only we may enter, in `directory`, for `needed` bytes; removes it after.

    With `mounted`, `directory` must be where a filesystem is mounted. Raises UsageError if it is
    not, or no directory, or read-only; EnvironmentLacks without room.
    """
    roots = journal.roots
    # Whatever links lead to it are followed here, once.
    parent, real = _opened(Path(directory))
    try:
        mount = holding(real, roots)
        if mounted:
            check_mounted(Path(directory), roots)
        _check_room(real, parent, needed)
        warnings = [*_warnings(real, mount), *_owned_by_others(real, parent)]
        name = PREFIX + secrets.token_hex(16)
        number = journal.directory(real, name)
        made = -1
        try:
            made = _made(parent, name, real)
            yield ScratchDirectory(real / name, tuple(warnings), made)
        finally:
            if made >= 0:
                os.close(made)
            remove_in(parent, name)
            journal.done(number)
    finally:
        os.close(parent)


def _opened(directory: Path) -> tuple[int, Path]:
    """Returns a descriptor of a directory, and its path without links."""
    try:
        real = directory.resolve(strict=True)
        return os.open(real, _DIRECTORY), real
    except NotADirectoryError:
        raise UsageError(f"{directory}: not a directory; name one to make files in") from None
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{directory}: {reason}; name a directory to make files in") from None


def _made(parent: int, name: str, real: Path) -> int:
    """Makes the directory and opens it; mkdir follows no link and takes no name that is there."""
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
        descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        raise UsageError(f"{real}: cannot make a directory there: {error.strerror}") from None
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) != 0o700:
        os.close(descriptor)
        raise BlklabError(f"{real / name}: another's directory was put in its place")
    return descriptor


def check_mounted(directory: Path, roots: Roots) -> None:
    """Raises UsageError if no filesystem is mounted there: its mount is missing."""
    real = directory.resolve()
    if str(real) in {mount.point for mount in mounts(roots)}:
        return
    mount = holding(real, roots)
    place = f"a directory on {mount.source} ({mount.point})" if mount else "a directory"
    raise UsageError(
        f"{directory}: found {place}, expected a mounted filesystem: mount it there first, or say"
        " `directory` instead of `filesystem`"
    )


def _check_room(real: Path, parent: int, needed: int) -> None:
    status = os.fstatvfs(parent)
    if status.f_flag & os.ST_RDONLY:
        raise UsageError(f"{real}: on a filesystem that is mounted read-only")
    total, free = status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize
    if total and needed > free - KEEP * total:
        room = max(0, int(free - KEEP * total))
        raise EnvironmentLacks(
            f"{real}: found room for {room} bytes ({free} free, 5 % of {total} stay so), expected"
            f" {needed}",
            "choose a smaller size, or another directory",
        )


def _warnings(real: Path, mount: Mount | None) -> Iterator[str]:
    if mount and mount.kind in MEMORY:
        yield f"{real} is on {mount.kind}: memory is measured, no device"
    elif mount and mount.kind in NETWORK:
        yield f"{real} is on {mount.kind}: the network and {mount.source} are measured, no device"


def _owned_by_others(real: Path, parent: int) -> Iterator[str]:
    status = os.fstat(parent)
    open_to_all = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
    if status.st_uid not in {0, os.geteuid()} or open_to_all:
        yield (
            f"{real} can be changed by others (owner {status.st_uid}, mode"
            f" {stat.S_IMODE(status.st_mode):o}): they could replace what blklab makes there"
        )


def remove(made: DirectoryEntry, roots: Roots) -> bool:
    """Removes what a journal says blklab made; tells whether it was there.

    Raises BlklabError if it is not what blklab makes, or if its filesystem is not mounted.
    """
    if not re.fullmatch(rf"{re.escape(PREFIX)}[0-9a-f]{{32}}", made.name):
        raise BlklabError(f"{made.name!r} is no name that blklab gives")
    with suppress(FileNotFoundError, NotADirectoryError):
        parent = os.open(made.parent, _DIRECTORY)
        try:
            if remove_in(parent, made.name):
                return True
        finally:
            os.close(parent)
    if made.kind not in {"", *MEMORY}:
        now = holding(Path(made.parent), roots)
        if now is None or (now.kind, now.point) != (made.kind, made.point):
            raise BlklabError(f"its {made.kind} is not mounted at {made.point}; mount it first")
    return False


def remove_in(parent: int, name: str) -> bool:
    """Removes a tree by descriptors, so that no link put in its place can lead out of it.

    It stops at what is mounted in it. Tells whether there was such a tree. Raises BlklabError.
    """
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise BlklabError(f"{name}: not the directory that blklab made, so not removed")
    try:
        _remove_tree(parent, name, os.fstat(parent).st_dev, _mount_of(parent))
    except (OSError, RecursionError) as error:
        raise BlklabError(f"{name}: {error}: not removed wholly") from None
    return True


def _remove_tree(parent: int, name: str, device: int, mount: str | None) -> None:
    directory = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        # A bind mount of the same filesystem has the same device, but another number of mount.
        if os.fstat(directory).st_dev != device or _mount_of(directory) != mount:
            raise BlklabError(f"{name}: something is mounted there, so not removed; unmount it")
        with os.scandir(directory) as listed:
            inside = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listed]
        for entry, is_directory in inside:
            if is_directory:
                _remove_tree(directory, entry, device, mount)
            else:
                os.unlink(entry, dir_fd=directory)
    finally:
        os.close(directory)
    os.rmdir(name, dir_fd=parent)


def _mount_of(descriptor: int) -> str | None:
    """Returns the number of the mount that an open file is in (proc(5), fdinfo; Linux 3.15)."""
    fdinfo = text(Path(f"/proc/self/fdinfo/{descriptor}")) or ""
    match = re.search(r"^mnt_id:\s*(\d+)", fdinfo, re.M)
    return match[1] if match else None
