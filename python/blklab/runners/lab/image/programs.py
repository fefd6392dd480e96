"""The guest's programs, from Debian's packages, and the libraries that they need."""

import hashlib
import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from blklab.errors import BlklabError
from blklab.package_data import toml_file
from blklab.runners.lab.image import cpio
from blklab.runners.lab.image.debian import DebianPackage, PackageFiles, merge_usr_path

GUEST = toml_file(__package__, "guest.toml")
PROGRAMS: dict[str, tuple[str, ...]] = {package: tuple(paths) for package, paths in GUEST["programs"].items()}
DIRECTORIES: dict[str, int] = GUEST["directories"]  # Their modes
LINKS: dict[str, str] = GUEST["links"]  # Their targets
CONFIGURATION = ("etc/mke2fs.conf",)  # Files of the packages that those programs read

LVM_CONF = Path(__file__).with_name("lvm.conf").read_text(encoding="utf-8")

_REVISION = 1  # Changes when this file changes apart from the constants above

RECIPE = hashlib.sha256(repr((_REVISION, PROGRAMS, CONFIGURATION, LVM_CONF, DIRECTORIES, LINKS)).encode()).hexdigest()

_SEARCHED = ("usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib")
"""Where the dynamic linker looks: ld.so(8), and Debian's /etc/ld.so.conf.d."""

_LINKED_FROM = ("usr/bin", "usr/sbin")


def may_matter(deb: DebianPackage) -> bool:
    """Tells whether a package may contain one of the guest's programs or libraries.

    The others (dpkg, perl, udev) are needed by a complete system only, and are half of the download.
    """
    if deb.name in PROGRAMS:
        return True
    scripts = deb.name.startswith(("libperl", "libpython")) or deb.name.endswith("-perl")
    return deb.name.startswith(("lib", "zlib1g")) and not scripts


def archive(debs: Sequence[Path], stream: Path, scratch: Path) -> None:
    """Writes the archive of everything in the guest except kernel modules and agent.

    Raises BlklabError if the packages lack something that the guest needs.
    """
    files = PackageFiles()
    for deb in debs:
        files.add(deb, scratch)
    nodes = [cpio.directory(path, mode) for path, mode in DIRECTORIES.items()]
    nodes += [cpio.link(path, target) for path, target in LINKS.items()]
    # Before devtmpfs is mounted these two must be there: PID 1 has the console as its output.
    nodes.append(cpio.character("dev/console", 5, 1, 0o600))
    nodes.append(cpio.character("dev/null", 1, 3, 0o666))
    nodes.append(cpio.file("etc/lvm/lvm.conf", LVM_CONF.encode()))
    for path in CONFIGURATION:
        nodes.append(cpio.file(path, files.read(_there(files, path))))
    nodes += contents(files, [path for paths in PROGRAMS.values() for path in paths])
    with stream.open("xb") as output:
        cpio.write(nodes, output)


def contents(files: PackageFiles, programs: Iterable[str]) -> list[cpio.CpioEntry]:
    """Returns programs with the links to them and their libraries.

    Raises BlklabError if a program or a library is missing, or not an ELF file.
    """
    program_paths = {_there(files, program) for program in programs}
    links = {
        path: entry.target
        for path, entry in files.entries.items()
        if entry.target is not None and posixpath.dirname(path) in _LINKED_FROM and files.follow(path) in program_paths
    }
    nodes: dict[str, cpio.CpioEntry] = {path: cpio.link(path, f"/{target}") for path, target in links.items()}
    waiting = sorted(program_paths)
    while waiting:
        path = waiting.pop()
        if path in nodes:
            continue
        entry = files.entries[path]
        if entry.target is not None:
            nodes[path] = cpio.link(path, f"/{entry.target}")
            waiting.append(entry.target)
            continue
        content = files.read(path)
        # The loader and the programs are executed; what is mapped alone need not be executable.
        nodes[path] = cpio.file(path, content, 0o755 if entry.executable else 0o644)
        waiting += _needs(files, path, content)
    return list(nodes.values())


def _there(files: PackageFiles, path: str) -> str:
    _is_present = files.follow(path)
    if _is_present is None:
        raise BlklabError(f"/{path}: not in any of the guest's packages")
    return _is_present


def _needs(files: PackageFiles, path: str, content: bytes) -> list[str]:
    """Returns the files that the dynamic linker will load, by path."""
    try:
        dependencies = read_dependencies(content)
    except NotElf as error:
        raise BlklabError(f"/{path}: {error}") from None
    dependency_paths = []
    if dependencies.interpreter is not None:
        dependency_paths.append(merge_usr_path(dependencies.interpreter) or "")
        if files.follow(dependency_paths[-1]) is None:
            raise BlklabError(f"/{path}: {dependencies.interpreter} is not in any of the guest's packages")
    origin = f"/{posixpath.dirname(path)}"
    directories = [
        merge_usr_path(posixpath.normpath(directory.replace("$ORIGIN", origin)))
        for directory in dependencies.directories
    ]
    for name in dependencies.libraries:
        for directory in (*directories, *_SEARCHED):
            if files.follow(f"{directory}/{name}") is not None:
                dependency_paths.append(f"{directory}/{name}")
                break
        else:
            raise BlklabError(f"/{path}: its library {name} is not in any of the guest's packages")
    return dependency_paths


class NotElf(ValueError):
    """Not an ELF file of this architecture, or a damaged one."""


@dataclass(frozen=True)
class ElfDependencies:
    """What an ELF file requests from the dynamic linker."""

    interpreter: str | None
    libraries: tuple[str, ...]
    directories: tuple[str, ...]  # Directories that are searched first; `$ORIGIN` is the directory of the file itself


def read_dependencies(content: bytes) -> ElfDependencies:
    """Returns the dependencies of an ELF file; none for a static one. Raises NotElf."""
    if content[:6] != b"\x7fELF\x02\x01":
        raise NotElf("not an ELF file of 64 bits, little-endian")
    try:
        return _read_dependencies(content)
    except NotElf:
        raise
    except Exception as error:  # pyelftools has no one error for damaged files
        raise NotElf(f"a damaged ELF file: {error}") from None


def _read_dependencies(content: bytes) -> ElfDependencies:
    from elftools.elf.dynamic import DynamicSegment
    from elftools.elf.elffile import ELFFile
    from elftools.elf.segments import InterpSegment

    file = ELFFile(BytesIO(content))
    if file["e_machine"] != "EM_X86_64":
        raise NotElf(f"made for machine {file['e_machine']}, not for x86-64 (62)")
    interpreter: str | None = None
    libraries: list[str] = []
    paths: dict[str, str] = {}
    for segment in file.iter_segments():
        if isinstance(segment, InterpSegment):
            interpreter = segment.get_interp_name()
        elif isinstance(segment, DynamicSegment):
            for tag in segment.iter_tags():
                kind = tag.entry.d_tag
                if kind == "DT_NEEDED":
                    libraries.append(getattr(tag, "needed"))  # noqa: B009  # set by the kind
                elif kind in {"DT_RPATH", "DT_RUNPATH"}:
                    paths[kind] = getattr(tag, kind.removeprefix("DT_").lower())
    # RUNPATH replaces RPATH where there are both (ld.so(8)).
    search_path = paths.get("DT_RUNPATH", paths.get("DT_RPATH", "")).split(":")
    return ElfDependencies(interpreter, tuple(libraries), tuple(filter(None, search_path)))
