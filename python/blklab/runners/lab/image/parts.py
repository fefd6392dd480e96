"""The parts of an image: the programs' archive, and a kernel with its modules."""

import gzip
import hashlib
import json
import lzma
import re
import shutil
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from blklab.errors import BlklabError, EnvironmentLacks, SystemErrors
from blklab.runners.lab.image import cpio, programs
from blklab.runners.lab.image.cache import ImageCache
from blklab.runners.lab.image.debian import DebianArchive, DebianPackage, Note, PackageFiles, ProgramFailed, fetch, run
from blklab.runners.lab.image.kernels import ReplacedModules, UserKernelOption, choose, in_order, modules_of, version_of
from blklab.text.printing import printable

DIGITS = 16  # Digits of a digest in the name of a directory
PROGRAMS = f"programs-{programs.RECIPE[:DIGITS]}"  # The name under which the programs' part is kept


_MODULES = programs.GUEST["modules"]
DIRECTORIES, SINGLE, BOOT, STACKS = (tuple(_MODULES[key]) for key in ("directories", "single", "boot", "stacks"))

_LISTS = ("modules.builtin", "modules.builtin.modinfo", "modules.order")
"""Files of the kernel's build that depmod reads."""

_REVISION = 2  # Changes when this file changes apart from the constants above
RECIPE = hashlib.sha256(repr((_REVISION, DIRECTORIES, SINGLE, _LISTS)).encode()).hexdigest()


def name_of(path: str) -> str:
    """Returns the kernel's name of a module: `dm_cache` for kernel/…/dm-cache.ko.xz."""
    return PurePosixPath(path).name.split(".", 1)[0].replace("-", "_")


def choose_modules(directory: Path) -> list[str]:
    """Returns the guest's modules, by their paths in lib/modules/VERSION.

    Those of DIRECTORIES and SINGLE with all their dependencies, also soft ones, by modules.dep
    and modules.softdep. Raises BlklabError if these cannot be read or are damaged.
    """
    needs = dict(_dependencies(directory))
    by_name = {name_of(path): path for path in needs}
    soft = {}
    for fields in _lines(directory / "modules.softdep", optional=True):
        if fields[0] == "softdep":
            module = fields[1].replace("-", "_")
            soft[module] = [word.replace("-", "_") for word in fields[2:]]
    waiting = [path for path in needs if _is_guest_module(path)]
    modules: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in modules:
            continue
        if path not in needs:
            file_name = printable(str(directory / "modules.dep"))
            raise BlklabError(f"{file_name}: {printable(path)} is needed but not listed")
        modules.add(path)
        waiting += needs[path]
        waiting += [by_name[name] for name in soft.get(name_of(path), []) if name in by_name]
    return sorted(modules)


def _is_guest_module(path: str) -> bool:
    parent = str(PurePosixPath(path).parent)
    is_in_directory = any(f"{parent}/".startswith(f"kernel/{directory}/") for directory in DIRECTORIES)
    return is_in_directory or name_of(path) in SINGLE


def _dependencies(directory: Path) -> Iterator[tuple[str, list[str]]]:
    for fields in _lines(directory / "modules.dep"):
        path = fields[0][:-1]
        colon = fields[0][-1:]
        for module in (path, *fields[1:]):
            if colon != ":" or module.startswith("/") or ".." in module.split("/") or not module:
                file_name = printable(str(directory / "modules.dep"))
                line = printable(" ".join(fields))
                raise BlklabError(
                    f"{file_name}: found {line!r}, expected `MODULE: DEPENDENCIES`, as paths in that directory"
                )
        yield path, fields[1:]


def _lines(path: Path, *, optional: bool = False) -> Iterator[list[str]]:
    if optional and not path.exists():
        return
    with SystemErrors(BlklabError, printable(str(path))):
        text = path.read_text(errors="surrogateescape")
    for line in text.splitlines():
        fields = line.split()
        if fields and not fields[0].startswith("#"):
            yield fields


def find_missing_modules(directory: Path, modules: Collection[str], module_names: Collection[str]) -> list[str]:
    """Returns which of the wanted modules a kernel has neither as a module nor built in."""
    names = {name_of(path) for path in modules}
    names |= {name_of(fields[0]) for fields in _lines(directory / "modules.builtin", optional=True)}
    return [name for name in module_names if name not in names]


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
    with SystemErrors(BlklabError, printable(str(path))):
        return path.read_bytes()


def decompress_module(path: str, content: bytes) -> tuple[str, bytes]:
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
    except ProgramFailed as error:
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
        name, content = decompress_module(path, _read(source / path))
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    index(base, version)
    contents: Mapping[str, Path] = {
        path.relative_to(base).as_posix(): path for path in directory.rglob("*") if path.is_file()
    }
    with stream.open("xb") as output:
        cpio.write([cpio.file(name, path.read_bytes()) for name, path in contents.items()], output)


def kernel_name(kernel: str) -> str:
    """Returns the name under which the part of a packaged kernel is kept."""
    return f"kernel-{RECIPE[:DIGITS]}-{kernel}"


def describe(into: Path, version: str, packages: Mapping[str, str]) -> None:
    """Writes the description of a part or an image next to it."""
    description = {"version": version, "packages": dict(sorted(packages.items()))}
    (into / "about.json").write_text(json.dumps(description, indent=2) + "\n")


def about(part: Path) -> tuple[str, dict[str, str]]:
    """Returns the description of a part or an image. Raises BlklabError if it is damaged."""
    file = part / "about.json"
    try:
        description: Any = json.loads(file.read_text())
        return str(description["version"]), dict(description["packages"])
    except (OSError, ValueError, TypeError, KeyError):
        raise BlklabError(f"{printable(str(file))}: damaged; remove {printable(str(part))}") from None


def make_programs(cache: ImageCache, debian: DebianArchive, note: Note, *, rebuild: bool) -> Path:
    """Returns the part with the programs, packages.cpio. Needs the cache's lock."""
    if not rebuild and (key := cache.recall(PROGRAMS)) is not None:
        return cache.root / key
    with cache.scratch() as scratch:

        def select() -> list[DebianPackage]:
            return [deb for deb in debian.with_dependencies(sorted(programs.PROGRAMS)) if programs.may_matter(deb)]

        debs, paths = fetch(debian, select, scratch)
        key = f"programs-{_digest([programs.RECIPE, *map(_sha256, paths)])}"

        def fill(into: Path) -> None:
            note("building the archive of the guest's programs")
            programs.archive(paths, into / "programs.cpio", scratch)
            describe(into, "", {deb.name: deb.version for deb in debs})

        part = cache.make(key, fill)
    cache.keep(PROGRAMS, key)
    return part


def make_kernel(cache: ImageCache, debian: DebianArchive, note: Note, kernel: str, *, rebuild: bool) -> Path:
    """Returns the part with a packaged kernel: vmlinuz, modules.cpio. Needs the cache's lock."""
    name = kernel_name(kernel)
    if not rebuild and (key := cache.recall(name)) is not None:
        return cache.root / key
    debian.refresh()
    offers = in_order(debian.kernels())
    if not offers:
        raise EnvironmentLacks(
            "found no kernel in Debian's packages",
            "check that `apt-get update` works, and that its sources include a Debian release",
        )
    version = choose(kernel, offers).name
    with cache.scratch() as scratch:
        debs, paths = fetch(debian, lambda: debian.kernel(version), scratch)
        key = f"kernel-{_digest([RECIPE, *map(_sha256, paths)])}"

        def fill(into: Path) -> None:
            note(f"choosing the modules of {version}")
            files = PackageFiles()
            for path in paths:
                files.add(path, scratch)
            below = f"usr/lib/modules/{version}"
            images = [name for name in (f"boot/vmlinuz-{version}", f"{below}/vmlinuz") if name in files.entries]
            if not images:
                raise BlklabError(f"{', '.join(deb.name for deb in debs)}: no vmlinuz")
            (into / "vmlinuz").write_bytes(files.read(images[0]))
            version_of(into / "vmlinuz")
            # All of them, for depmod to tell which need which.
            source = room(scratch / "all", version)
            for name in files.below(below):
                target = source / name.removeprefix(f"{below}/")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(files.read(name))
            index(scratch / "all", version)
            modules = choose_modules(source)
            _check(version, find_missing_modules(source, modules, (*BOOT, *STACKS)))
            archive(source, version, modules, into / "modules.cpio", scratch / "some")
            describe(into, version, {package.name: package.version for package in debs})

        part = cache.make(key, fill)
    cache.keep(name, key)
    return part


class UserKernel:
    """A user's kernel, checked. Raises BlklabError if it cannot be used."""

    def __init__(self, kernel: UserKernelOption, note: Note) -> None:
        self._vmlinuz = kernel.vmlinuz
        stated_version = version_of(kernel.vmlinuz)
        self._modules = modules_of(kernel.modules) if kernel.modules is not None else None
        self._chosen: Sequence[str] = ()
        self.version = stated_version or "unknown"
        parts = [RECIPE, _sha256(kernel.vmlinuz)]
        if self._modules is not None:
            self.version = self._modules.name
            if not re.fullmatch(r"[\w.+~-]+", self.version):
                directory = printable(str(self._modules))
                raise BlklabError(f"{directory}: expected a directory named after the kernel's version")
            if stated_version is not None and stated_version != self.version:
                raise BlklabError(
                    f"{printable(str(self._modules))}: modules of {printable(self.version)}, but"
                    f" {printable(str(kernel.vmlinuz))} is {printable(stated_version)}"
                )
            self._chosen = choose_modules(self._modules)
            _check(self.version, find_missing_modules(self._modules, self._chosen, BOOT))
            if missing := find_missing_modules(self._modules, self._chosen, STACKS):
                note(f"the kernel {self.version} has no {', '.join(missing)}: stacks that need these modules will fail")
            parts.append(digest(self._modules, self._chosen))
        self.key = f"kernel-{_digest([*parts, self.version])}"

    def make(self, cache: ImageCache) -> Path:
        """Returns the part, as `make_kernel` does. Needs the cache's lock."""
        with cache.scratch() as scratch:
            return cache.make(self.key, lambda into: self._fill(into, scratch))

    def _fill(self, into: Path, scratch: Path) -> None:
        shutil.copyfile(self._vmlinuz, into / "vmlinuz")
        stream = into / "modules.cpio"
        if self._modules is None:
            stream.write_bytes(b"")
        else:
            archive(self._modules, self.version, self._chosen, stream, scratch / "some")
        describe(into, self.version, {})


class PatchedKernel:
    """A packaged kernel, whose part exists, with some modules replaced. Raises BlklabError if it has no such module."""

    def __init__(self, replacement: ReplacedModules, part: Path) -> None:
        self._part = part
        self._version, self._packages = about(part)
        below = f"usr/lib/modules/{self._version}/kernel"
        self._files = {f"{below}/{path}": file.read_bytes() for path, file in sorted(replacement.modules.items())}
        module_archive = (part / "modules.cpio").read_bytes()
        for path in self._files:
            if path.encode() not in module_archive:
                raise BlklabError(f"the kernel {printable(self._version)} has no module {printable(path)} to replace")
        contents = [f"{path} {hashlib.sha256(content).hexdigest()}" for path, content in self._files.items()]
        self.key = f"kernel-{_digest([part.name, *contents])}"

    def make(self, cache: ImageCache) -> Path:
        """Returns the part, as `make_kernel` does. Needs the cache's lock."""
        return cache.make(self.key, self._fill)

    def _fill(self, into: Path) -> None:
        shutil.copyfile(self._part / "vmlinuz", into / "vmlinuz")
        shutil.copyfile(self._part / "modules.cpio", into / "modules.cpio")
        with (into / "modules.cpio").open("ab") as stream:  # The kernel takes the last file of a name
            cpio.write([cpio.file(path, content) for path, content in self._files.items()], stream)
        describe(into, self._version, self._packages)


def _check(version: str, lacking: Sequence[str]) -> None:
    if lacking:
        raise BlklabError(f"the kernel {printable(version)} has no module {', '.join(lacking)}, which the guest needs")


def _sha256(path: Path) -> str:
    return hashlib.sha256(_read(path)).hexdigest()


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]
