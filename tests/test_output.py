import os
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from blklab import output
from blklab.errors import UsageError
from tests.conftest import Run
from tests.loop_devices import attach_loop_device


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    output.write(path, b"one")
    path.chmod(0o640)
    output.write(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(b"old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        output.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_symbolic_link_stays(tmp_path: Path) -> None:
    (tmp_path / "real.html").write_bytes(b"old")
    link = tmp_path / "link.html"
    link.symlink_to("real.html")
    output.write(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "real.html").read_bytes() == b"new"


def test_a_device_file_is_written_to_as_it_is() -> None:
    output.check(Path("/dev/null"))
    output.write(Path("/dev/null"), b"x")
    assert Path("/dev/null").is_char_device()


def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, reason in (
        (tmp_path, "is a directory"),
        (tmp_path / "none" / "x.html", "no such directory"),
        (tmp_path / "file" / "x.html", "is not a directory"),
        (Path("/proc/x.html"), "cannot be written"),
    ):
        with pytest.raises(UsageError, match=reason):
            output.check(path)
    with pytest.raises(UsageError):
        output.make_directory(tmp_path / "file")


TRACE = Path(__file__).parent / "data" / "traces" / "scsi-errors"


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Path]]:
    """A block device, and the file in which what is written to it arrives.

    A loop device if one can be had; else a file that claims to be a device.
    """
    content = tmp_path / "disk"
    content.write_bytes(b"precious" * 131072)
    try:
        name = attach_loop_device(content)
    except (OSError, subprocess.CalledProcessError):
        name = ""
    if name:
        yield Path(name), content
        subprocess.run(["losetup", "--detach", name], check=True)
        return
    real = os.stat

    def pretending(path: int | str | Path, **rest: bool) -> os.stat_result:
        result = real(path, **rest)
        if result.st_ino != real(content).st_ino:
            return result
        return os.stat_result((stat.S_IFBLK | 0o660, *result[1:]))

    monkeypatch.setattr(os, "stat", pretending)
    yield content, content


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("command", ["report", "fio", "fio --iolog"])
def test_nothing_is_written_onto_a_block_device(
    run: Run, tmp_path: Path, device: tuple[Path, Path], command: str, *, linked: bool
) -> None:
    path, content = device
    if linked:
        (tmp_path / "link").symlink_to(path)
        path = tmp_path / "link"
    before = content.read_bytes()
    words = {
        "report": ("report", "-o", path),
        "fio": ("fio", "--overwrite", "-o", path),
        "fio --iolog": ("fio", "--overwrite", "--iolog", path),
    }[command]
    # Refused before the trace, which is not there, is looked for.
    outcome = run("trace", *words, tmp_path / "no-such-trace")
    assert outcome.status == 2
    assert "is a block device" in outcome.err
    assert "no-such-trace" not in outcome.err
    assert outcome.err.count("\n") == 1
    with pytest.raises(UsageError, match="is a block device"):
        output.write(path, b"x")
    subprocess.run(["sync", content], check=True)
    assert content.read_bytes() == before


def test_sockets_are_refused(tmp_path: Path) -> None:
    os.mknod(tmp_path / "socket", stat.S_IFSOCK)  # bind() would refuse a long path
    with pytest.raises(UsageError, match="is a socket"):
        output.check(tmp_path / "socket")
    with pytest.raises(UsageError, match="is a socket"):
        output.write(tmp_path / "socket", b"x")


def test_a_fifo_is_written_to_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    output.check(path, overwrite=False)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    output.write(path, b"x" * 200_000)
    reader.join()
    assert read == [b"x" * 200_000]
    assert path.is_fifo()


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "new")
    output.write(tmp_path / "dangling", b"x")
    assert (tmp_path / "new").read_bytes() == b"x"
    (tmp_path / "lost").symlink_to(tmp_path / "none" / "new")
    (tmp_path / "circle").symlink_to("circle")
    for name in ("lost", "circle"):
        with pytest.raises(UsageError):
            output.check(tmp_path / name)


def test_long_names_and_the_umask(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 127)
    before = os.umask(0o027)
    try:
        output.check(path)
        output.write(path, b"x")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_stdout(run: Run, name: str) -> None:
    outcome = run("trace", "fio", TRACE, "-o", name)
    assert (outcome.status, outcome.err) == (0, "")
    assert "[global]" in outcome.out
