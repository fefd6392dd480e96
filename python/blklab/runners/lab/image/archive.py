"""What Debian packages contain, read where it lies: nothing is unpacked, and no script is run."""

import posixpath
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from blklab.errors import BlklabError
from blklab.runners.lab.image.debian import run
from blklab.text import printable

MERGED: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Directories that are links to those of /usr, and that packages may still name."""

_DEEPEST: Final = 40
"""Links that may lead to one another: as many as the kernel follows (path_resolution(7))."""


@dataclass(frozen=True)
class PackageEntry:
    """A file, or a link to one, in an unpacked but unexpanded package."""

    tar: Path
    offset: int
    size: int
    executable: bool
    target: str | None
    """Of a symbolic link: the path from the root that it leads to."""


def merged(path: str) -> str | None:
    """Returns a path of a package as one from the root of a system whose /usr is merged.

    None of those that would lead out of it.
    """
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if not parts or ".." in parts:
        return None
    return "/".join(["usr", *parts] if parts[0] in MERGED else parts)


class PackageFiles:
    """The files of packages, by their paths from the root, without a leading slash."""

    def __init__(self) -> None:
        self.entries: dict[str, PackageEntry] = {}

    def add(self, deb: Path, scratch: Path) -> None:
        """Adds a package's files; its tar archive goes to `scratch`. Raises BlklabError."""
        tar = scratch / f"{deb.name}.tar"
        with tar.open("xb") as stream:
            run(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=stream)
        try:
            with tarfile.open(tar, "r:") as archive:
                for member in archive:
                    self._member(tar, member)
        except tarfile.TarError as error:
            raise BlklabError(f"{deb}: {printable(str(error))}") from None

    def _member(self, tar: Path, member: tarfile.TarInfo) -> None:
        path = merged(member.name)
        if path is None:
            return
        executable = bool(member.mode & 0o111)
        if member.isreg():
            self.entries[path] = PackageEntry(
                tar, member.offset_data, member.size, executable, None
            )
        elif member.issym():
            joined = posixpath.join("/", posixpath.dirname(path), member.linkname)
            target = merged(posixpath.normpath(joined))
            if target is not None:
                self.entries[path] = PackageEntry(tar, 0, 0, executable, target)
        elif member.islnk():
            source = self.entries.get(merged(member.linkname) or "")
            if source is not None:
                self.entries[path] = source

    def follow(self, path: str) -> str | None:
        """Returns the file that a path leads to in the end, or None if it leads nowhere."""
        for _ in range(_DEEPEST):
            entry = self.entries.get(path)
            if entry is None:
                return None
            if entry.target is None:
                return path
            path = entry.target
        return None

    def read(self, path: str) -> bytes:
        """Returns a regular file's content. Raises KeyError if it is not there."""
        entry = self.entries[path]
        with entry.tar.open("rb") as stream:
            stream.seek(entry.offset)
            return stream.read(entry.size)

    def below(self, directory: str) -> Iterator[str]:
        """Returns the paths of the regular files in a directory and in those below it."""
        for path, entry in self.entries.items():
            if path.startswith(f"{directory}/") and entry.target is None:
                yield path
