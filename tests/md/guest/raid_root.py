"""A Debian system whose root filesystem is on RAID-1, and which has a data array: its initramfs, made by its own
mkinitramfs, finds them."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

from blklab.runners.lab.image import GuestImage, cpio
from blklab.runners.lab.image.cache import ImageCache, directory
from blklab.runners.lab.image.debian import DebianArchive, DebianPackage, fetch
from blklab.runners.lab.machine import qemu
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import debian
from tests.md.guest.rig import Rig

PACKAGING: Final = Path(__file__).parents[3] / "packaging"

PACKAGES: Final = (
    *debian.PACKAGES, "bash", "busybox", "diffutils", "findutils", "gzip", "initramfs-tools", "libc-bin", "sed",
)  # fmt: skip

BYTES: Final = 640 << 20
"""Of the root filesystem."""

ROOT: Final = tuple(VirtualDiskShape(f"root{at}", 720 << 20) for at in range(2))
DATA: Final = tuple(VirtualDiskShape(f"data{at}", 48 << 20) for at in range(3))
DISKS: Final = (*ROOT, *DATA)

ROOT_UUID: Final = "00112233:44556677:8899aabb:ccddeeff"
DATA_UUID: Final = "ffeeddcc:bbaa9988:77665544:33221100"

CONTENT: Final = "".join(Random(1).choices("0123456789abcdef", k=1 << 20))
"""The file on the data array."""

FILES: Final = {
    "etc/fstab": "/dev/md0 / ext4 errors=remount-ro 0 1\n/dev/md/data /data ext4 defaults 0 2\n",
    "etc/mdadm/mdadm.conf": (
        f"HOMEHOST <system>\nMAILADDR root\nARRAY /dev/md0 UUID={ROOT_UUID}\nARRAY /dev/md/data UUID={DATA_UUID}\n"
    ),
    "etc/blklab/md-boot.conf": f"# /dev/md0\n{ROOT_UUID}\n{DATA_UUID} # /dev/md/data\n",
    "etc/initramfs-tools/conf.d/guest": "COMPRESS=gzip\nRESUME=none\n",
}

BOOT_FILES: Final = {
    "boot/md-boot": "usr/lib/blklab/boot/md-boot",
    "boot/hook": "usr/share/initramfs-tools/hooks/blklab-md-boot",
    "boot/premount": "usr/share/initramfs-tools/scripts/init-premount/blklab-md-boot",
    "systemd/blklab-md-boot.service": "usr/lib/systemd/system/blklab-md-boot.service",
}
"""Where scripts/debian-package installs what is in packaging/."""

UNIT: Final = "etc/systemd/system/sysinit.target.wants/blklab-md-boot.service"

MAKE_INITRAMFS: Final = (
    "mount -t proc proc /proc && mknod -m 666 /dev/null c 1 3 && TMPDIR=/tmp exec mkinitramfs -o /initrd.gz"
)


def make(image: GuestImage, python: Path) -> tuple[GuestImage, Path]:
    """Returns the image with which the system boots, and a directory with its disks, a file for each."""
    cache = ImageCache(directory())
    with cache.hold_lock(lambda _: None):
        blank = _cached(cache, [image.digest, repr((DISKS, ROOT_UUID, DATA_UUID))], _make_arrays, image, python)
        scripts = [(PACKAGING / path).read_text() for path in BOOT_FILES]
        recipe = [blank.name, repr((PACKAGES, FILES, MAKE_INITRAMFS)), Path(debian.__file__).read_text(), *scripts]
        made = _cached(cache, recipe, _make_system, image, cache, blank)
    return replace(image, initrd=made / "initrd"), made


def _cached(cache: ImageCache, recipe: list[str], fill, *arguments) -> Path:  # type: ignore[no-untyped-def]
    recipe = [*recipe, Path(__file__).read_text()]
    key = f"programs-{hashlib.sha256(''.join(recipe).encode()).hexdigest()[:16]}"
    return cache.make(key, lambda into: fill(*arguments, into))


def copy(source: Path, target: str | Path) -> None:
    """Copies a sparse file."""
    subprocess.run(["cp", "--sparse=always", str(source), str(target)], check=True)


def _make_arrays(image: GuestImage, python: Path, into: Path) -> None:
    """Makes the arrays with their bad-block lists, and a filesystem on the second one, in a guest of the lab."""
    with Rig(image, python, DISKS, memory=512 << 20) as rig:
        rig.create("/dev/md0", rig.names(ROOT), "--level=1", f"--uuid={ROOT_UUID}", "--bitmap=internal")
        rig.create(
            "/dev/md1", rig.names(DATA), "--level=5", f"--uuid={DATA_UUID}", "--bitmap=internal", "--name=data"
        )  # fmt: skip
        rig.run("mke2fs", "-q", "-t", "ext4", "-U", "12345678-1234-1234-1234-123456789abc", "/dev/md1")
        rig.run("mount", "/dev/md1", "/mnt")
        rig.guest.agent.write("/mnt/file", CONTENT)
        rig.run("umount", "/mnt")
        (offset,) = set(re.findall(r"Data Offset : (\d+)", rig.run("mdadm", "--examine", *rig.names(ROOT)).stdout))
        assert rig.lists(rig.names(DISKS)) == ["empty"] * len(DISKS)
        rig.run("mdadm", "--stop", "--scan")
        for shape in DISKS:
            copy(Path(f"/proc/{os.getpid()}/fd/{rig._files[shape].fileno()}"), into / shape.name)
    (into / "offset").write_text(offset)


def _make_system(image: GuestImage, cache: ImageCache, blank: Path, into: Path) -> None:
    with cache.scratch() as scratch:
        archive, root = DebianArchive(cache.root / "debian", lambda _: None), scratch / "root"

        def select() -> list[DebianPackage]:
            return archive.with_dependencies(PACKAGES)

        _, debs = fetch(archive, select, scratch)
        debian.write_tree(debs, root)
        _write_modules(image, root)
        _write_files(root, image.version)
        initrd = ["unshare", "--mount", "--pid", "--fork", "chroot", str(root), "sh", "-c"]
        subprocess.run([*initrd, f"{MAKE_INITRAMFS} {image.version}"], check=True, env={"PATH": "/usr/sbin:/usr/bin"})
        with (into / "initrd").open("wb") as stream:
            subprocess.run(["gzip", "-dc", str(root / "initrd.gz")], stdout=stream, check=True)
        (root / "initrd.gz").unlink()
        debian.write_disk(root, scratch / "system.img", BYTES)
        for shape in DISKS:
            copy(blank / shape.name, into / shape.name)
        sector = int((blank / "offset").read_text())
        for shape in ROOT:
            subprocess.run(
                ["dd", f"if={scratch}/system.img", f"of={into / shape.name}", "bs=64k", "conv=sparse,notrunc",
                 "status=none", "oflag=seek_bytes", f"seek={sector * 512}"], check=True,
            )  # fmt: skip


def _write_modules(image: GuestImage, root: Path) -> None:
    """Writes the kernel's modules, from the lab's own initramfs."""
    for path, mode, content in entries(image.initrd.read_bytes()):
        if path.startswith(("lib/modules/", "usr/lib/modules/")):
            target = root / "usr" / path.removeprefix("usr/")
            if mode & 0o170000 == 0o100000:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)


def entries(archive: bytes) -> Iterator[tuple[str, int, bytes]]:
    """Reads concatenated archives of cpio, format newc: path, mode and content of each entry."""
    at = 0
    while (at := archive.find(b"070701", at)) >= 0:
        fields = [int(archive[at + 6 + 8 * field : at + 14 + 8 * field], 16) for field in range(13)]
        name_end = at + 110 + fields[11]
        path = archive[at + 110 : name_end - 1].decode()
        begin = name_end + -name_end % 4
        at = begin + fields[6] + -fields[6] % 4
        yield path, fields[1], archive[begin : begin + fields[6]]


def _write_files(root: Path, version: str) -> None:
    for source, target in BOOT_FILES.items():
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGING / source, root / target)
    # mkinitramfs asks whether the kernel can decompress what it makes.
    for path, content in {**FILES, f"boot/config-{version}": "CONFIG_RD_GZIP=y\n"}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    (root / "data").mkdir()
    (root / "usr/sbin/init").symlink_to("/usr/lib/systemd/systemd")
    (root / UNIT).symlink_to(f"/{BOOT_FILES['systemd/blklab-md-boot.service']}")


class RaidRoot(Rig):
    """The machine, with fresh disks; `present` are those that it has. `more` is added to its initramfs."""

    def __init__(
        self,
        made: tuple[GuestImage, Path],
        python: Path,
        *,
        present: Sequence[VirtualDiskShape] = DISKS,
        more: Path | None = None,
    ) -> None:
        image, disks = made
        image = replace(image, initrd=more or image.initrd)
        super().__init__(image, python, present, memory=640 << 20)
        for shape in present:
            copy(disks / shape.name, f"/proc/{os.getpid()}/fd/{self._files[shape].fileno()}")
        self.words = ""
        "Further words of the kernel's command line."

    def _boot(self) -> None:
        before = qemu.COMMAND_LINE
        qemu.COMMAND_LINE = f"root=/dev/md0 rw console=ttyS0 panic=-1 loglevel=5 no_timer_check {self.words}"
        try:
            super()._boot()
        finally:
            qemu.COMMAND_LINE = before

    def power(self) -> None:
        """Boots the machine, and waits until systemd has started everything."""
        super().power()
        self.run("systemctl", "is-system-running", "--wait", check=False)

    def console(self) -> str:
        return "\n".join(self.guest.console._every())


def add(image: GuestImage, files: Mapping[str, str], into: Path) -> Path:
    """Writes an initramfs with further programs and files in it."""
    with into.open("wb") as stream:
        with image.initrd.open("rb") as source:
            shutil.copyfileobj(source, stream, 1 << 20)
        parents = {str(Path(path).parent) for path in files} - {"."}
        nodes = [cpio.directory(path) for path in sorted(parents)]
        cpio.write([*nodes, *(cpio.file(path, text.encode(), 0o755) for path, text in files.items())], stream)
    return into
