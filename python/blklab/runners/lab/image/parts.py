"""The parts of an image: the programs' archive, and a kernel with its modules."""

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from blklab.errors import BlklabError, EnvironmentLacks
from blklab.runners.lab.image import cpio, modules, programs
from blklab.runners.lab.image.archive import PackageFiles
from blklab.runners.lab.image.cache import ImageCache
from blklab.runners.lab.image.debian import DebianArchive, DebianPackage, Note, fetch
from blklab.runners.lab.image.kernels import ReplacedModules, UserKernelOption, choose, in_order, modules_of, version_of
from blklab.text import printable

DIGITS: Final = 16  # Digits of a digest in the name of a directory
PROGRAMS: Final = f"programs-{programs.RECIPE[:DIGITS]}"  # The name under which the programs' part is kept


def kernel_name(kernel: str) -> str:
    """Returns the name under which the part of a packaged kernel is kept."""
    return f"kernel-{modules.RECIPE[:DIGITS]}-{kernel}"


def describe(into: Path, version: str, packages: Mapping[str, str]) -> None:
    """Writes the description of a part or an image next to it."""
    what = {"version": version, "packages": dict(sorted(packages.items()))}
    (into / "about.json").write_text(json.dumps(what, indent=2) + "\n")


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
            packages = debian.with_dependencies(sorted(programs.PROGRAMS))
            return [deb for deb in packages if programs.may_matter(deb)]

        debs, paths = fetch(debian, select, scratch)
        key = f"programs-{_digest([programs.RECIPE, *map(_sha256, paths)])}"

        def fill(into: Path) -> None:
            note("building the archive of the guest's programs")
            programs.archive(paths, into / "programs.cpio", scratch)
            describe(into, "", {deb.name: deb.version for deb in debs})

        made = cache.make(key, fill)
    cache.keep(PROGRAMS, key)
    return made


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
        debs, (deb,) = fetch(debian, lambda: debian.alone(f"linux-image-{version}"), scratch)
        key = f"kernel-{_digest([modules.RECIPE, _sha256(deb)])}"

        def fill(into: Path) -> None:
            note(f"choosing the modules of {version}")
            files = PackageFiles()
            files.add(deb, scratch)
            (into / "vmlinuz").write_bytes(files.read(f"boot/vmlinuz-{version}"))
            version_of(into / "vmlinuz")
            # All of them, for depmod to tell which need which.
            source = modules.room(scratch / "all", version)
            below = f"usr/lib/modules/{version}"
            for path in files.below(below):
                target = source / path.removeprefix(f"{below}/")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(files.read(path))
            modules.index(scratch / "all", version)
            chosen = modules.chosen(source)
            _check(version, modules.lacking(source, chosen, (*modules.BOOT, *modules.STACKS)))
            modules.archive(source, version, chosen, into / "modules.cpio", scratch / "some")
            describe(into, version, {each.name: each.version for each in debs})

        made = cache.make(key, fill)
    cache.keep(name, key)
    return made


class UserKernel:
    """A user's kernel, checked. Raises BlklabError if it cannot be used."""

    def __init__(self, own: UserKernelOption, note: Note) -> None:
        self._vmlinuz = own.vmlinuz
        stated = version_of(own.vmlinuz)
        self._modules = modules_of(own.modules) if own.modules is not None else None
        self._chosen: Sequence[str] = ()
        self.version = stated or "unknown"
        parts = [modules.RECIPE, _sha256(own.vmlinuz)]
        if self._modules is not None:
            self.version = self._modules.name
            if not re.fullmatch(r"[\w.+~-]+", self.version):
                where = printable(str(self._modules))
                raise BlklabError(f"{where}: expected a directory named after the kernel's version")
            if stated is not None and stated != self.version:
                raise BlklabError(
                    f"{printable(str(self._modules))}: modules of {printable(self.version)}, but"
                    f" {printable(str(own.vmlinuz))} is {printable(stated)}"
                )
            self._chosen = modules.chosen(self._modules)
            _check(self.version, modules.lacking(self._modules, self._chosen, modules.BOOT))
            if missing := modules.lacking(self._modules, self._chosen, modules.STACKS):
                note(f"the kernel {self.version} has no {', '.join(missing)}: stacks that need these modules will fail")
            parts.append(modules.digest(self._modules, self._chosen))
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
            modules.archive(self._modules, self.version, self._chosen, stream, scratch / "some")
        describe(into, self.version, {})


class PatchedKernel:
    """A packaged kernel, whose part exists, with some modules replaced. Raises BlklabError if it has no such module."""

    def __init__(self, replaced: ReplacedModules, part: Path) -> None:
        self._part = part
        self._version, self._packages = about(part)
        below = f"usr/lib/modules/{self._version}/kernel"
        self._files = {f"{below}/{path}": file.read_bytes() for path, file in sorted(replaced.modules.items())}
        own = (part / "modules.cpio").read_bytes()
        for path in self._files:
            if path.encode() not in own:
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
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise BlklabError(f"{printable(str(path))}: {error.strerror}") from None


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]
