"""Builds an image from its parts: the programs, the kernel with its modules, and the agent."""

import hashlib
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blklab.errors import BlklabError, EnvironmentLacks
from blklab.runners.lab.image import cpio, parts
from blklab.runners.lab.image.cache import ImageCache, directory
from blklab.runners.lab.image.changelogs import KernelNamesChange, find_subject_in_kernels
from blklab.runners.lab.image.debian import DebianArchive, Note
from blklab.runners.lab.image.kernels import OfferedKernel, ReplacedModules, UserKernelOption, in_order
from blklab.runners.lab.image.parts import PatchedKernel, UserKernel, about, describe, kernel_name
from blklab.text.printing import printable

AGENT = Path(__file__).parents[3] / "_agent"  # The guest's /init, which scripts/setup builds
_APT = "debian"  # Directory in the cache for apt's lists
_REVISION = 1  # Changes when the way of combining parts changes

GuestKernel = str | UserKernelOption | ReplacedModules
"""A kernel of Debian's packages by name, the user's own, or a packaged one with other modules."""


@dataclass(frozen=True)
class GuestImage:
    """What a guest boots: `packages` tells the versions of the Debian packages in it."""

    kernel: Path
    initrd: Path
    version: str
    packages: Mapping[str, str]
    digest: str  # SHA-256 of the kernel and of the initramfs, joined


def image(kernel: GuestKernel, *, note: Note, rebuild: bool = False, agent: Path = AGENT) -> GuestImage:
    """Returns the image with a kernel, and builds the parts of it that are not cached.

    A kernel of Debian is `6.1` for the newest of that series, `6.1.0-49`, or a full name. `6.1` keeps the version of
    its first use, and the programs keep theirs, until `rebuild`. `note` gets a line for each slow step. Raises
    UsageError if there is no such kernel, EnvironmentLacks if packages cannot be downloaded, BlklabError if the
    user's kernel is unusable.
    """
    _check_machine()
    if not agent.is_file():
        raise EnvironmentLacks("the guest's agent is not built", "run scripts/setup")
    init = agent.read_bytes()
    cache = ImageCache(directory())
    source: str | UserKernel | PatchedKernel
    match kernel:
        case str():
            source = kernel
        case UserKernelOption():
            source = UserKernel(kernel, note)
        case ReplacedModules():
            image(kernel.kernel, note=note, agent=agent)
            source = PatchedKernel(kernel, cache.root / (cache.recall(kernel_name(kernel.kernel)) or ""))
    if not rebuild:
        first = cache.recall(parts.PROGRAMS)
        second = cache.recall(kernel_name(source)) if isinstance(source, str) else source.key
        if first is not None and second is not None:
            image_directory = cache.find(_key(first, second, init))
            if image_directory is not None:
                return _read(image_directory)
    with cache.hold_lock(note):
        cache.check_room()
        debian = DebianArchive(cache.root / _APT, note)
        if rebuild:
            debian.refresh(anyway=True)
        if isinstance(source, str):
            part = parts.make_kernel(cache, debian, note, source, rebuild=rebuild)
        else:
            part = source.make(cache)
        base = parts.make_programs(cache, debian, note, rebuild=rebuild)
        key = _key(base.name, part.name, init)
        return _read(cache.make(key, lambda into: _assemble(base, part, init, into)))


def list_kernels() -> list[OfferedKernel]:
    """Returns the kernels in this release's packages, the newest first.

    Raises EnvironmentLacks on a machine without Debian.
    """
    _check_machine()
    cache = ImageCache(directory())
    with cache.hold_lock(_silent):
        debian = DebianArchive(cache.root / _APT, _silent)
        debian.refresh()
        return in_order(debian.kernels())


def find_change(subject: str, kernels: Sequence[OfferedKernel], note: Note) -> list[KernelNamesChange]:
    """Returns for each of `list_kernels` whether its package's changelog names the commit with this subject.

    Raises EnvironmentLacks if a package cannot be downloaded.
    """
    cache = ImageCache(directory())
    with cache.hold_lock(note):
        return find_subject_in_kernels(DebianArchive(cache.root / _APT, note), subject, kernels, note)


def prune(agent: Path = AGENT) -> int:
    """Removes the images, and parts of them, that are no longer used.

    Keeps what `image` would return for the kernels requested so far, with this agent. Returns the bytes freed.
    """
    cache = ImageCache(directory())
    if not cache.root.is_dir():
        return 0
    with cache.hold_lock(_silent):
        first = cache.recall(parts.PROGRAMS)
        kernels = cache.recall_keys(kernel_name(""))
        used_keys = {_APT, *kernels}
        if first is not None:
            used_keys.add(first)
        if first is not None and agent.is_file():
            init = agent.read_bytes()
            used_keys |= {_key(first, second, init) for second in kernels}
        return cache.remove_others(used_keys)


def _check_machine() -> None:
    if platform.machine() != "x86_64":
        message = f"this machine's architecture is {printable(platform.machine())}"
        raise EnvironmentLacks(message, "the guest is made for amd64: use an amd64 machine")


def _silent(_: str) -> None:
    """Ignores a message."""


def _key(base: str, kernel: str, init: bytes) -> str:
    total = hashlib.sha256(f"{_REVISION}\n{base}\n{kernel}\n".encode())
    total.update(init)
    return f"image-{total.hexdigest()[: parts.DIGITS]}"


def _assemble(base: Path, part: Path, init: bytes, into: Path) -> None:
    """Concatenates archives to one initramfs, as the kernel accepts it."""
    shutil.copyfile(part / "vmlinuz", into / "vmlinuz")
    with (into / "initrd").open("xb") as stream:
        for archive in (base / "programs.cpio", part / "modules.cpio"):
            with archive.open("rb") as source:
                shutil.copyfileobj(source, stream, 1 << 20)
        cpio.write([cpio.file("init", init, 0o755)], stream)
    version, packages = about(part)
    describe(into, version, {**about(base)[1], **packages})
    total = hashlib.sha256()
    for name in ("vmlinuz", "initrd"):
        total.update((into / name).read_bytes())
    (into / "digest").write_text(total.hexdigest() + "\n")


def _read(path: Path) -> GuestImage:
    version, packages = about(path)
    files = [path / name for name in ("vmlinuz", "initrd", "digest")]
    if not all(file.is_file() for file in files):
        raise BlklabError(f"{printable(str(path))}: damaged; remove it")
    kernel, initrd, digest = files
    return GuestImage(kernel, initrd, version, packages, digest.read_text().strip())
