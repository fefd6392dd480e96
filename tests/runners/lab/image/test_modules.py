"""Which modules are taken, by what depmod has listed."""

from pathlib import Path

import pytest

from blklab.errors import BlklabError
from blklab.runners.lab.image import parts


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "modules.dep").write_text(
        "kernel/fs/xfs/xfs.ko: kernel/misc/crc.ko\n"
        "kernel/misc/crc.ko:\n"
        "kernel/misc/soft-one.ko.xz:\n"
        "kernel/net/tun.ko:\n"
        "kernel/drivers/block/virtio_blk.ko.xz:\n"
        "kernel/drivers/block/nbd.ko:\n"
    )
    (tmp_path / "modules.softdep").write_text("# soft\nsoftdep xfs pre: soft_one unknown\n")
    (tmp_path / "modules.builtin").write_text("kernel/drivers/virtio/virtio_pci.ko\n")
    return tmp_path


def test_what_a_module_needs_comes_along(directory: Path) -> None:
    chosen = parts.choose_modules(directory)
    assert chosen == [
        "kernel/drivers/block/virtio_blk.ko.xz",
        "kernel/fs/xfs/xfs.ko",
        "kernel/misc/crc.ko",
        "kernel/misc/soft-one.ko.xz",
    ]
    assert parts.find_missing_modules(directory, chosen, parts.BOOT) == ["virtio_console"]


@pytest.mark.parametrize("line", ["../../etc/shadow:", "/etc/shadow:", "no colon", "kernel/lib/a.ko: b"])
def test_a_damaged_list_is_said(directory: Path, line: str) -> None:
    (directory / "modules.dep").write_text(line + "\n")
    with pytest.raises(BlklabError, match=r"modules\.dep: "):
        parts.choose_modules(directory)


def test_the_digest_is_that_of_the_contents(tmp_path: Path) -> None:
    (tmp_path / "a.ko").write_bytes(b"1")
    before = parts.digest(tmp_path, ["a.ko"])
    assert parts.digest(tmp_path, ["a.ko"]) == before
    (tmp_path / "a.ko").write_bytes(b"2")
    assert parts.digest(tmp_path, ["a.ko"]) != before


def test_a_damaged_module_is_said() -> None:
    with pytest.raises(BlklabError, match=r"a\.ko\.xz: "):
        parts.decompress_module("a.ko.xz", b"no xz")
