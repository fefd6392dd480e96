"""What filesystems say about their arrays: made by the real programs, and damaged."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from blklab.md.rescue.array_content import read_filesystem

BYTES = 320 << 20  # mkfs.xfs refuses less than 300 MiB
OFFSET = 1 << 20


def make_filesystem(directory: Path, *command: str) -> Path:
    """Returns an image whose filesystem begins behind the first MiB, as the data of a member do."""
    program = shutil.which(command[0], path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        pytest.skip(f"{command[0]} is not installed: scripts/setup")
    content = directory / "content"
    with content.open("wb") as file:
        file.truncate(BYTES)
    subprocess.run([program, *command[1:], str(content)], check=True, capture_output=True)
    member = directory / "member"
    with member.open("wb") as file:
        file.truncate(OFFSET + BYTES)
        file.seek(OFFSET)
        file.write(content.read_bytes()[: 1 << 20])
    return member


@pytest.mark.parametrize("options", [["-b", "1024"], ["-b", "4096", "-O", "64bit"]])
def test_ext4_says_when_it_was_made_and_how_large_it_is(tmp_path: Path, options: list[str]) -> None:
    before = int(time.time())
    facts = read_filesystem(str(make_filesystem(tmp_path, "mkfs.ext4", "-q", "-F", *options)), OFFSET)
    assert facts is not None
    assert (facts.kind, facts.size) == ("ext", BYTES)
    assert facts.made is not None and before <= facts.made <= time.time()


def test_xfs_says_how_large_it_is(tmp_path: Path) -> None:
    facts = read_filesystem(str(make_filesystem(tmp_path, "mkfs.xfs", "-q")), OFFSET)
    assert facts is not None
    assert (facts.kind, facts.made, facts.size) == ("xfs", None, BYTES)


def test_what_is_no_filesystem_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "member"
    path.write_bytes(bytes(8192))
    assert read_filesystem(str(path), 0) is None
    assert read_filesystem(str(path), 1 << 20) is None
    assert read_filesystem(str(tmp_path / "none"), 0) is None


def test_a_block_size_that_makes_no_sense_is_no_size(tmp_path: Path) -> None:
    path = tmp_path / "member"
    content = bytearray(8192)
    content[1024 + 0x38 : 1024 + 0x3A] = b"\x53\xef"
    content[1024 + 0x18 : 1024 + 0x1C] = b"\xff\xff\xff\xff"
    path.write_bytes(content)
    facts = read_filesystem(str(path), 0)
    assert facts is not None
    assert (facts.made, facts.size) == (None, None)
