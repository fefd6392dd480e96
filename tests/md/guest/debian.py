"""A Debian system with systemd, udev and mdadm's own units, on a disk: made of packages, and cached by content.

No maintainer script runs: what they would have set up is written here.
"""

import hashlib
import shlex
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from blklab.runners.lab.image import GuestImage, cpio
from blklab.runners.lab.image.build import AGENT
from blklab.runners.lab.image.cache import ImageCache, directory
from blklab.runners.lab.image.debian import DebianArchive, DebianPackage, PackageFiles, fetch
from blklab.runners.lab.image.programs import contents
from tests.md.guest import payload

PACKAGES: Final = (
    "coreutils", "dash", "dmsetup", "e2fsprogs", "fio", "grep", "kmod", "mdadm", "mount", "procps", "systemd", "udev",
    "util-linux",
)  # fmt: skip

BYTES: Final = 640 << 20

DISK: Final = "system"
"""The start of the serial number by which the initramfs finds the disk with the system."""

INITRAMFS: Final = ("usr/bin/dash", "usr/bin/cp", "usr/sbin/switch_root", "usr/bin/mount", "usr/bin/sleep")
"""Programs of the initramfs besides those of the lab's image."""

INIT: Final = """\
#!/usr/bin/dash
PATH=/usr/bin:/usr/sbin
mkdir -p /proc /sys /dev /system
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
modprobe -a -q virtio_pci virtio_blk virtio_console ext4
until [ -d /system/etc/systemd ]; do
    for disk in /dev/vd*; do
        mount -t ext4 "$disk" /system && [ -d /system/etc/systemd ] && break
        umount /system
    done
    sleep 0.1
done 2>/dev/null
[ -d /system/usr/lib/modules ] || cp -r /lib/modules /system/usr/lib/
exec switch_root /system /usr/lib/systemd/systemd
"""

FILES: Final = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\ntty:x:5:\ndisk:x:6:\nkmem:x:15:\ndialout:x:20:\ncdrom:x:24:\ntape:x:26:\naudio:x:29:\n"
    "video:x:44:\nutmp:x:43:\nusers:x:100:\ninput:x:101:\nsgx:x:102:\nkvm:x:103:\nrender:x:104:\nlp:x:7:\n"
    "systemd-journal:x:105:\nadm:x:4:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files systemd\ngroup: files systemd\nshadow: files\nhosts: files\n",
    "etc/hosts": "127.0.0.1 localhost\n",
    "etc/hostname": "guest\n",
    "etc/fstab": "",
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    # As mdadm's maintainer script writes it: without an address, the monitor ends.
    "etc/mdadm/mdadm.conf": "HOMEHOST <system>\nMAILADDR root\n",
    "etc/systemd/journald.conf.d/guest.conf": "[Journal]\nStorage=volatile\n",
    "etc/systemd/system/agent.service": """\
[Unit]
DefaultDependencies=no
After=systemd-udev-trigger.service

[Service]
Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
ExecStart=/bin/sh -c 'until [ -e /dev/virtio-ports/org.blklab.agent ]; do sleep 0.1; done; \
exec /usr/lib/agent --stdio <>/dev/virtio-ports/org.blklab.agent >&0'
KillMode=process
TimeoutStopSec=5
""",
    "usr/local/bin/blklab": f'#!/bin/sh\nexec {shlex.join(payload.command("blklab.cli"))} "$@"\n',
}

LINKS: Final = {
    "etc/systemd/system/sysinit.target.wants/agent.service": "../agent.service",
    "etc/systemd/system/default.target": "/usr/lib/systemd/system/multi-user.target",
    "etc/mtab": "../proc/self/mounts",
    "var/run": "/run",
    "var/lock": "/run/lock",
}

MASKED: Final = ("systemd-firstboot.service", "getty.target", "e2scrub_all.timer", "fstrim.timer")
"""Units that a guest without a network and a console does not need."""


def make(image: GuestImage) -> tuple[GuestImage, Path]:
    """Returns the image with which a guest boots the system, and the system's disk."""
    cache = ImageCache(directory())
    with cache.hold_lock(lambda _: None):
        recipe = [
            repr((PACKAGES, BYTES, INITRAMFS, INIT, FILES, LINKS, MASKED)),
            image.digest,
            Path(__file__).read_text(),
        ]
        key = f"programs-{hashlib.sha256(''.join(recipe).encode()).hexdigest()[:16]}"
        if (made := cache.find(key)) is None:
            made = cache.make(key, lambda into: _fill(cache, image, into))
    return replace(image, initrd=made / "initrd"), made / "system.img"


def _fill(cache: ImageCache, image: GuestImage, into: Path) -> None:
    with cache.scratch() as scratch:
        debian = DebianArchive(cache.root / "debian", lambda _: None)

        def select() -> list[DebianPackage]:
            return debian.with_dependencies(PACKAGES)

        _, debs = fetch(debian, select, scratch)
        files = PackageFiles()
        for deb in debs:
            files.add(deb, scratch)
        _write_initrd(image, files, into / "initrd")
        write_tree(debs, scratch / "root")
        write_disk(scratch / "root", into / "system.img", BYTES)


def _write_initrd(image: GuestImage, files: PackageFiles, path: Path) -> None:
    with path.open("wb") as stream:
        with image.initrd.open("rb") as source:
            shutil.copyfileobj(source, stream, 1 << 20)
        nodes = contents(files, INITRAMFS)
        cpio.write([*nodes, cpio.file("init", INIT.encode(), 0o755)], stream)


def write_tree(debs: Iterable[Path], root: Path) -> None:
    """Unpacks packages into a directory, and writes what their maintainer scripts would have set up."""
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for deb in debs:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE) as tar:
            subprocess.run(
                ["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-p", "-C", str(root)],
                stdin=tar.stdout, check=True,
            )  # fmt: skip
    shutil.rmtree(root / "usr/share/doc")
    shutil.rmtree(root / "usr/share/man")
    shutil.rmtree(root / "usr/share/locale", ignore_errors=True)
    for directory_ in ("proc", "sys", "dev", "run", "tmp", "root", "mnt", "var/lib/blklab", "etc/mdadm"):
        (root / directory_).mkdir(parents=True, exist_ok=True)
    for path, content in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    for path, target in LINKS.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if (root / path).is_dir() and not (root / path).is_symlink():
            shutil.rmtree(root / path)
        (root / path).unlink(missing_ok=True)
        (root / path).symlink_to(target)
    for unit in MASKED:
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    shutil.copy(AGENT, root / "usr/lib/agent")
    (root / "usr/local/bin/blklab").chmod(0o755)
    subprocess.run(["ldconfig", "-r", str(root)], check=True)


def write_disk(root: Path, image: Path, size: int) -> None:
    """Makes an ext4 image of a directory."""
    with image.open("wb") as made:
        made.truncate(size)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-L", "debian", "-d", str(root), str(image)], check=True)
