"""Which kernel is taken, and what is said of those that cannot be."""

import re
import struct
from pathlib import Path

import pytest

from blklab.errors import BlklabError, UsageError
from blklab.runners.lab.image.kernels import choose, in_order, modules_of, version_of

NAMES = ["6.1.0-9", "6.1.0-49", "6.1.0-56", "6.12.100+deb12", "6.12.9+deb12"]
OFFERS = in_order({f"{name}-cloud-amd64": "1" for name in NAMES})


def bzimage(path: Path, version: str) -> Path:
    head = bytearray(0x1000)
    head[0x202:0x206] = b"HdrS"
    head[0x20E:0x210] = struct.pack("<H", 0x400)
    text = f"{version} (builder) #1".encode()
    head[0x600 : 0x600 + len(text)] = text
    path.write_bytes(head)
    return path


def test_the_newest_comes_first_by_its_numbers() -> None:
    names = [offer.name.removesuffix("-cloud-amd64") for offer in OFFERS]
    assert names == ["6.12.100+deb12", "6.12.9+deb12", "6.1.0-56", "6.1.0-49", "6.1.0-9"]


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("6.1", "6.1.0-56"),
        ("6.12", "6.12.100+deb12"),
        ("6.1.0-49", "6.1.0-49"),
        ("6.12.9", "6.12.9+deb12"),
        ("6.1.0-9-cloud-amd64", "6.1.0-9"),
        ("linux-image-6.1.0-9-cloud-amd64", "6.1.0-9"),
    ],
)
def test_the_newest_that_is_named_is_taken(wanted: str, name: str) -> None:
    assert choose(wanted, OFFERS).name == f"{name}-cloud-amd64"


@pytest.mark.parametrize(("wanted", "nearest"), [("6.1.0-5", "6.1.0-9,"), ("6.1.0-50", "6.1.0-49,"), ("6.11", "6.12.")])
def test_the_nearest_are_named_when_there_is_none(wanted: str, nearest: str) -> None:
    with pytest.raises(UsageError, match=f"no kernel '{wanted}' in Debian's packages; choose one of {nearest}"):
        choose(wanted, OFFERS)


def test_a_kernel_says_its_version(tmp_path: Path) -> None:
    assert version_of(bzimage(tmp_path / "vmlinuz", "6.1.0-test")) == "6.1.0-test"


def test_what_is_no_kernel_is_said(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("hello")
    with pytest.raises(BlklabError, match=f"{re.escape(str(path))}: not a kernel"):
        version_of(path)
    with pytest.raises(BlklabError, match="No such file"):
        version_of(tmp_path / "missing")


def test_modules_are_found_where_their_installation_puts_them(tmp_path: Path) -> None:
    with pytest.raises(BlklabError, match=r"found none, expected .*modules\.dep"):
        modules_of(tmp_path)
    directory = tmp_path / "lib" / "modules" / "6.1.0-test"
    directory.mkdir(parents=True)
    (directory / "modules.dep").touch()
    for given in (tmp_path, directory.parent, directory):
        assert modules_of(given) == directory
