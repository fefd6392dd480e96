"""Packages of the machine's Debian release, found, downloaded and read without privileges.

apt-get uses our own lists, status and cache, as on a machine with nothing installed. The sources
and keys are this machine's, and apt checks the signatures. Packages are neither unpacked nor are their scripts run.
"""

import os
import posixpath
import re
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import unquote

from blklab.errors import BlklabError, EnvironmentLacks
from blklab.system import child_process
from blklab.text.printing import printable
from blklab.units import format_size

Note = Callable[[str], object]

SUFFIX = "-cloud-amd64"
_KERNEL = re.compile(r"linux-image-(\d+\.\d+\.\d+\S*" + SUFFIX + ")")
_DAY = 86_400.0  # Seconds after which lists are downloaded again before a package is downloaded
_URI = re.compile(r"'[^']*' (\S+) (\d+)(?: |$)")
"""A line of `apt-get --print-uris`: address, file name, bytes, hash."""

CONFIGURATION = Path(__file__).with_name("apt.conf")


class ProgramFailed(BlklabError):
    """A program of Debian failed; the message is the end of its output."""


@dataclass(frozen=True)
class DebianPackage:
    """A package to download: `file` is apt's name for it, `bytes` its size."""

    name: str
    version: str
    file: str
    bytes: int


def run(arguments: Sequence[str], *, stdout: IO[bytes] | int = subprocess.PIPE, directory: Path | None = None) -> str:
    """Runs one of Debian's programs and returns its output, unless `stdout` takes it.

    Raises EnvironmentLacks on a machine without Debian, and ProgramFailed if it fails.
    """
    program = arguments[0]
    # What is in sbin is found, though PATH may leave it out.
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    path_found = shutil.which(program, path=path)
    if path_found is None:
        remedy = "use a Debian machine: the guest is made of Debian's packages"
        if program == "depmod":
            remedy = "install it: apt-get install kmod"
        raise EnvironmentLacks(f"{program} is not installed", remedy)
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    command = child_process.command([path_found, *arguments[1:]])
    result = child_process.run(command, cwd=directory, stdout=stdout, env=environment)
    if result.returncode != 0:
        raise ProgramFailed(f"{program}: {_reason(result.stderr, result.returncode)}")
    return result.stdout or ""


def _reason(output: str, status: int) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("E: ") for line in lines if line.startswith("E: ")]
    return printable((errors or lines or [f"ended with status {status}"])[0])


class DebianArchive:
    """The available packages, with apt's state about them in `directory`."""

    def __init__(self, directory: Path, note: Note) -> None:
        self._directory = directory
        self._note = note
        self._stamp = directory / "updated"

    def refresh(self, *, anyway: bool = False) -> None:
        """Downloads the packages' lists if they are older than a day, or `anyway`.

        Skips a source that does not answer; old lists are better than none. Raises EnvironmentLacks if there are none.
        """
        try:
            age = time.time() - self._stamp.stat().st_mtime
        except OSError:
            age = _DAY
        if not anyway and 0 <= age < _DAY:
            return
        for part in ("state/lists/partial", "cache/archives/partial"):
            (self._directory / part).mkdir(parents=True, exist_ok=True)
        (self._directory / "status").write_bytes(b"")
        self._note("downloading the lists of Debian's packages")
        problem = None
        try:
            self._apt("apt-get", "update")
        except ProgramFailed as error:
            problem = error
            self._note(f"some lists are missing: {error}")
        if self.kernels():
            self._stamp.touch()
        elif problem is not None:
            message = f"cannot download the lists of Debian's packages: {problem}"
            raise EnvironmentLacks(message, "check that `apt-get update` works on this machine")

    def kernels(self) -> dict[str, str]:
        """Returns name and version of the kernels for virtual machines in our lists.

        `linux-image-6.1.0-49-cloud-amd64` is named `6.1.0-49-cloud-amd64`.
        """
        if not (self._directory / "state" / "lists").is_dir():
            return {}
        names = self._apt("apt-cache", "pkgnames", "linux-image-").split()
        packages = sorted(name for name in names if _KERNEL.fullmatch(name))
        if not packages:
            return {}
        shown = self._apt("apt-cache", "show", "--no-all-versions", *packages)
        matches = re.findall(r"^Package: (\S+)\n(?:.+\n)*?Version: (\S+)$", shown, re.M)
        versions = {}
        for name, version in matches:
            match = _KERNEL.fullmatch(name)
            if match:
                versions[match[1]] = version
        return versions

    def with_dependencies(self, names: Collection[str]) -> list[DebianPackage]:
        """Returns packages and all their dependencies, as apt resolves them."""
        return self._list_packages("--no-install-recommends", "install", *names)

    def kernel(self, version: str) -> list[DebianPackage]:
        """Returns the packages of a kernel's image and modules; since Linux 7.3 `linux-image` has neither."""
        part_names = [f"linux-{part}-{version}" for part in ("base", "binary", "modules")]
        is_split = set(part_names) <= set(self._apt("apt-cache", "pkgnames", "linux-").split())
        names = part_names if is_split else [f"linux-image-{version}"]
        return self._list_packages("download", *names)

    def _list_packages(self, *arguments: str) -> list[DebianPackage]:
        # What lies in the directory it is started in counts as downloaded and is not listed.
        output = self._apt("apt-get", "-qq", "--print-uris", *arguments, directory=self._directory)
        debs = []
        for file, size in _URI.findall(output):
            name, version, _ = file.removesuffix(".deb").split("_")
            debs.append(DebianPackage(name, unquote(version), file, int(size)))
        if not debs:
            raise ProgramFailed(f"apt-get: {printable(' '.join(arguments))}: found no packages")
        return debs

    def download(self, debs: Sequence[DebianPackage], into: Path) -> list[Path]:
        """Downloads packages, which apt compares with the signed lists. Raises ProgramFailed."""
        total = format_size(sum(deb.bytes for deb in debs))
        packages = "1 package" if len(debs) == 1 else f"{len(debs)} packages"
        self._note(f"downloading {packages}, {total}")
        versions = [f"{deb.name}={deb.version}" for deb in debs]
        # `download` writes to the directory it is started in.
        self._apt("apt-get", "-qq", "download", *versions, directory=into)
        paths = [into / deb.file for deb in debs]
        for path in paths:
            if not path.is_file():
                raise ProgramFailed(f"apt-get: {printable(path.name)} was not downloaded")
        return paths

    def _apt(self, program: str, *arguments: str, directory: Path | None = None) -> str:
        settings = {
            "Dir::State": self._directory / "state",
            "Dir::State::status": self._directory / "status",
            "Dir::Cache": self._directory / "cache",
        }
        options = []
        for key, value in settings.items():
            options += ["-o", f"{key}={value}"]
        self._directory.mkdir(parents=True, exist_ok=True)
        return run([program, "-c", str(CONFIGURATION), *options, *arguments], directory=directory)


def fetch(
    debian: DebianArchive, choose: Callable[[], list[DebianPackage]], into: Path
) -> tuple[list[DebianPackage], list[Path]]:
    """Downloads what `choose` finds in the lists; refreshes outdated lists and tries again.

    Raises EnvironmentLacks if that fails, too.
    """
    message = ""
    for anyway in (False, True):
        debian.refresh(anyway=anyway)
        try:
            debs = choose()
            return debs, debian.download(debs, into)
        except ProgramFailed as error:
            message = f"cannot download packages: {error}"
    raise EnvironmentLacks(message, "check that `apt-get update` works on this machine")


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


def merge_usr_path(path: str) -> str | None:
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
        path = merge_usr_path(member.name)
        if path is None:
            return
        executable = bool(member.mode & 0o111)
        if member.isreg():
            self.entries[path] = PackageEntry(tar, member.offset_data, member.size, executable, None)
        elif member.issym():
            absolute_path = posixpath.join("/", posixpath.dirname(path), member.linkname)
            target = merge_usr_path(posixpath.normpath(absolute_path))
            if target is not None:
                self.entries[path] = PackageEntry(tar, 0, 0, executable, target)
        elif member.islnk():
            source = self.entries.get(merge_usr_path(member.linkname) or "")
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
