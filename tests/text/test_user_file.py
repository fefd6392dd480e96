"""Files of users without end."""

import gzip
from pathlib import Path

import pytest

from blklab.calibrate import iocost, observations
from blklab.errors import UsageError
from blklab.text import user_file
from blklab.text.user_file import read_user_file

TOO_LARGE = "is larger than 1 MiB; expected a smaller file"


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_file, "LARGEST", 1 << 20)


def test_gzip_of_a_result_is_read(tmp_path: Path) -> None:
    path = tmp_path / "result.json.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}'))
    assert read_user_file(path) == b'{"a": 1}'


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("read", [read_user_file, iocost.read, observations.from_fio])
def test_no_reader_takes_more_than_the_limit(tmp_path: Path, read: object) -> None:
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(bytes(64 << 20)))
    assert bomb.stat().st_size < 1 << 20
    assert callable(read)
    for path in (bomb, Path("/dev/zero")):
        with pytest.raises(UsageError, match=TOO_LARGE):
            read(path)


@pytest.mark.parametrize(
    "content", [b"\x1f\x8bnonsense", gzip.compress(bytes(1000), mtime=0)[:20]], ids=["no gzip", "cut off"]
)
def test_damaged_gzip_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "damaged.gz"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_user_file(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
