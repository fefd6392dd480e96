"""The archive, as cpio reads it."""

import io
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.runners.lab.image import cpio

CPIO = pytest.mark.skipif(shutil.which("cpio") is None, reason="cpio is not installed: apt-get install cpio")
NAMES = st.from_regex(r"[a-z][a-zA-Z0-9._ -]{0,20}", fullmatch=True)


def archive(*nodes: cpio.CpioEntry) -> bytes:
    stream = io.BytesIO()
    cpio.write(nodes, stream)
    return stream.getvalue()


@CPIO
def test_cpio_lists_what_was_written() -> None:
    written = archive(
        cpio.file("usr/bin/true", b"#!", 0o755),
        cpio.link("bin", "usr/bin"),
        cpio.character("dev/console", 5, 1, 0o600),
        cpio.directory("tmp", 0o1777),
    )
    output = subprocess.run(
        ["cpio", "-itv", "--numeric-uid-gid"], input=written, capture_output=True, check=True
    ).stdout.decode()
    lines = [line.split() for line in output.splitlines()]
    assert [(words[0], words[-1]) for words in lines] == [
        ("lrwxrwxrwx", "usr/bin"),
        ("drwxr-xr-x", "dev"),
        ("crw-------", "dev/console"),
        ("drwxrwxrwt", "tmp"),
        ("drwxr-xr-x", "usr"),
        ("drwxr-xr-x", "usr/bin"),
        ("-rwxr-xr-x", "usr/bin/true"),
    ]
    assert all(words[2:4] == ["0", "0"] for words in lines)


@CPIO
@given(st.dictionaries(NAMES, st.binary(max_size=300), max_size=6))
def test_cpio_unpacks_the_same_contents(contents: dict[str, bytes]) -> None:
    import tempfile

    written = archive(*(cpio.file(f"d/{name}", content) for name, content in contents.items()))
    assert len(written) % 512 == 0
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["cpio", "-idm", "--quiet"], input=written, cwd=directory, check=True, capture_output=True)
        result = {path.name: path.read_bytes() for path in Path(directory).glob("d/*")}
    assert result == contents


def test_the_order_of_files_does_not_matter() -> None:
    nodes = [cpio.file("b/x", b"1"), cpio.file("a", b"2"), cpio.link("c", "a")]
    assert archive(*nodes) == archive(*reversed(nodes))


def test_two_files_of_one_path_are_refused() -> None:
    with pytest.raises(ValueError, match="a: twice"):
        archive(cpio.file("a", b"1"), cpio.file("a", b"2"))
