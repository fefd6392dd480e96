"""The guest's modules: those of a kernel for block devices and for stacks on them."""

import gzip
import hashlib
import lzma
import shutil
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from blklab.errors import BlklabError
from blklab.runners.lab.image import cpio
from blklab.runners.lab.image.debian import DebianProgramFailed, run
from blklab.text import printable

DIRECTORIES: Final = (  # Directories below kernel/; algorithms that are requested by name (crc32c, sha256) are in some
    "arch/x86/crypto",
    "block",
    "crypto",
    "drivers/md",
    "drivers/virtio",
    "fs/ext4",
    "fs/jbd2",
    "fs/xfs",
    "lib",
)

SINGLE: Final = ("brd", "loop", "null_blk", "virtio_blk", "virtio_console", "virtio_rng")
"""Single modules from directories that are otherwise not needed."""

BOOT: Final = ("virtio_pci", "virtio_blk", "virtio_console")  # Modules without which no guest can connect

STACKS: Final = (  # Modules that an experiment may need
    *("raid0", "raid1", "raid10", "raid456"),
    *("dm_mod", "dm_cache", "dm_cache_smq", "dm_writecache", "dm_delay"),
    *("bcache", "ext4", "xfs"),
)

_LISTS: Final = ("modules.builtin", "modules.builtin.modinfo", "modules.order")
"""Files of the kernel's build that depmod reads."""

_REVISION: Final = 2  # Changes when this file changes apart from the constants above
RECIPE: Final = hashlib.sha256(repr((_REVISION, DIRECTORIES, SINGLE, _LISTS)).encode()).hexdigest()


def name_of(path: str) -> str:
    """Returns the kernel's name of a module: `dm_cache` for kernel/…/dm-cache.ko.xz."""
    return PurePosixPath(path).name.split(".", 1)[0].replace("-", "_")


def chosen(directory: Path) -> list[str]:
    """Returns the guest's modules, by their paths in lib/modules/VERSION.

    Those of DIRECTORIES and SINGLE with all their dependencies, also soft ones, by modules.dep
    and modules.softdep. Raises BlklabError if these cannot be read or are damaged.
    """
    needs = dict(_dependencies(directory))
    by_name = {name_of(path): path for path in needs}
    soft: dict[str, list[str]] = {}
    for words in _lines(directory / "modules.softdep", optional=True):
        if words[0] == "softdep":
            soft[words[1].replace("-", "_")] = [word.replace("-", "_") for word in words[2:]]
    waiting = [path for path in needs if _wanted(path)]
    modules: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in modules:
            continue
        if path not in needs:
            where = printable(str(directory / "modules.dep"))
            raise BlklabError(f"{where}: {printable(path)} is needed but not listed")
        modules.add(path)
        waiting += needs[path]
        waiting += [by_name[name] for name in soft.get(name_of(path), []) if name in by_name]
    return sorted(modules)


def _wanted(path: str) -> bool:
    parent = str(PurePosixPath(path).parent)
    listed = any(f"{parent}/".startswith(f"kernel/{directory}/") for directory in DIRECTORIES)
    return listed or name_of(path) in SINGLE


def _dependencies(directory: Path) -> Iterator[tuple[str, list[str]]]:
    for words in _lines(directory / "modules.dep"):
        path, colon = words[0][:-1], words[0][-1:]
        for each in (path, *words[1:]):
            if colon != ":" or each.startswith("/") or ".." in each.split("/") or not each:
                where = printable(str(directory / "modules.dep"))
                raise BlklabError(
                    f"{where}: found {printable(' '.join(words))!r}, expected `MODULE: "
                    "DEPENDENCIES`, as paths in that directory"
                )
        yield path, words[1:]


def _lines(path: Path, *, optional: bool = False) -> Iterator[list[str]]:
    try:
        text = path.read_text(errors="surrogateescape")
    except OSError as error:
        if optional and isinstance(error, FileNotFoundError):
            return
        raise BlklabError(f"{printable(str(path))}: {error.strerror}") from None
    for line in text.splitlines():
        words = line.split()
        if words and not words[0].startswith("#"):
            yield words


def lacking(directory: Path, modules: Collection[str], wanted: Collection[str]) -> list[str]:
    """Returns which of the wanted modules a kernel has neither as a module nor built in."""
    names = {name_of(path) for path in modules}
    names |= {name_of(words[0]) for words in _lines(directory / "modules.builtin", optional=True)}
    return [name for name in wanted if name not in names]


def digest(directory: Path, modules: Collection[str]) -> str:
    """Returns a digest of what `archive` reads: the modules' contents and depmod's lists."""
    total = hashlib.sha256()
    for path in [*_LISTS, *modules]:
        content = b""
        if path not in _LISTS or (directory / path).is_file():
            content = _read(directory / path)
        total.update(f"{path}\0{len(content)}\0".encode(errors="surrogateescape"))
        total.update(content)
    return total.hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BlklabError(f"{printable(str(path))}: {error.strerror}") from None


def expanded(path: str, content: bytes) -> tuple[str, bytes]:
    """Returns a module's path and content, decompressed if Python can.

    The guest's modprobe reads .xz and .zst as well, but the kernel first complains about the compressed file (kmod 30
    with Linux 6.12), and it takes longer. Raises BlklabError if the module is damaged.
    """
    try:
        if path.endswith(".xz"):
            return path.removesuffix(".xz"), lzma.decompress(content)
        if path.endswith(".gz"):
            return path.removesuffix(".gz"), gzip.decompress(content)
    except (lzma.LZMAError, OSError, EOFError, zlib.error) as error:
        raise BlklabError(f"{printable(path)}: {error}") from None
    return path, content


def index(base: Path, version: str) -> Path:
    """Runs depmod on the modules in `base`, and returns their directory.

    `base` is a root directory with a merged /usr: `lib` in it leads to usr/lib.
    """
    try:
        run(["depmod", "-b", str(base), version])
    except DebianProgramFailed as error:
        raise BlklabError(f"the modules of {printable(version)}: {error}") from None
    return base / "usr" / "lib" / "modules" / version


def room(base: Path, version: str) -> Path:
    """Makes the directory for a kernel's modules in `base`, where `index` looks for them."""
    directory = base / "usr" / "lib" / "modules" / version
    directory.mkdir(parents=True)
    (base / "lib").symlink_to("usr/lib")
    return directory


def archive(source: Path, version: str, modules: Collection[str], stream: Path, base: Path) -> None:
    """Writes the archive of some of the modules in `source`; depmod lists them again in `base`."""
    directory = room(base, version)
    for path in _LISTS:
        if (source / path).is_file():
            shutil.copyfile(source / path, directory / path)
    for path in modules:
        name, content = expanded(path, _read(source / path))
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    index(base, version)
    contents: Mapping[str, Path] = {
        path.relative_to(base).as_posix(): path for path in directory.rglob("*") if path.is_file()
    }
    with stream.open("xb") as opened:
        cpio.write([cpio.file(name, path.read_bytes()) for name, path in contents.items()], opened)
