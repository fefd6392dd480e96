"""Reads the contents of Debian packages without unpacking them or running their scripts."""

import posixpath
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from blklab.errors import BlklabError
from blklab.runners.lab.image.debian import run
from blklab.text import printable

MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Directories that are links to those in /usr; packages may still use them."""

_DEEPEST = 40  # Most links in a chain: as in the kernel (path_resolution(7))


@dataclass(frozen=True)
class PackageEntry:
    """A file, or a link to one, in an unpacked but unexpanded package."""

    tar: Path
    offset: int
    size: int
    executable: bool
    target: str | None  # Target of a symbolic link, as a path from the root


def merged(path: str) -> str | None:
    """Returns a package's path from the root of a system with a merged /usr. None for a path that leads out of it."""
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
            self.entries[path] = PackageEntry(tar, member.offset_data, member.size, executable, None)
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
        """Returns the file that a path finally leads to, or None if there is none."""
        for _ in range(_DEEPEST):
            entry = self.entries.get(path)
            if entry is None:
                return None
            if entry.target is None:
                return path
            path = entry.target
        return None

    def read(self, path: str) -> bytes:
        """Returns a regular file's content. Raises KeyError if it does not exist."""
        entry = self.entries[path]
        with entry.tar.open("rb") as stream:
            stream.seek(entry.offset)
            return stream.read(entry.size)

    def below(self, directory: str) -> Iterator[str]:
        """Returns the paths of all regular files below a directory."""
        for path, entry in self.entries.items():
            if path.startswith(f"{directory}/") and entry.target is None:
                yield path
