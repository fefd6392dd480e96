"""Sessions of commands with their whole output: input in, output out.

Each file below `tests/golden` is a session. To add one, write its first lines, and let the test write the rest:

    # input: data/md/cases/20-bbl-garbage/*.img.gz
    $ blklab md audit sdc1.img sdd1.img

`# input:` names files below `tests/` or, with `/` in front, below the checkout. They are copied to an empty directory,
where the commands run; a file `NAME.gz` is unpacked. A line `[status 1]` follows the output if the status is not 0, and
lines of stderr begin with `! `. The version of blklab is printed as VERSION.

`BLKLAB_UPDATE=1 .venv/bin/pytest tests/test_golden.py -k NAME` writes the output. Read the difference then.
"""

import gzip
import os
import shlex
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from blklab import __version__
from tests.conftest import Run

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"


def copy_inputs(lines: list[str], directory: Path) -> None:
    """Copies what `# input:` names to a directory."""
    for line in lines:
        if not line.startswith("# input: "):
            continue
        pattern = line.removeprefix("# input: ").strip()
        base = TESTS.parent if pattern.startswith("/") else TESTS
        paths = sorted(base.glob(pattern.lstrip("/")))
        assert paths, f"{pattern}: no such file"
        for path in paths:
            if path.is_dir():
                shutil.copytree(path, directory / path.name)
            elif path.suffix == ".gz":
                (directory / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
            else:
                shutil.copy(path, directory)


def run_session(lines: list[str], run: Run) -> Iterator[str]:
    """Yields the lines of a session with the present output of its commands."""
    for line in lines:
        if line.startswith("#"):
            yield line
        if not line.startswith("$ "):
            continue
        program, *arguments = shlex.split(line.removeprefix("$ "))
        assert program == "blklab"
        outcome = run(*arguments)
        yield line
        yield from (text.rstrip() for text in outcome.out.splitlines())
        yield from (f"! {text.rstrip()}" for text in outcome.err.splitlines())
        if outcome.status:
            yield f"[status {outcome.status}]"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Returns the directory of a session; its name may be printed. Outputs do not depend on this machine."""
    directory = tmp_path / "session"
    directory.mkdir()
    monkeypatch.chdir(directory)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("BLKLAB_STORE", str(tmp_path / "store.db"))
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "UTC")
        time.tzset()
        yield directory
    time.tzset()


@pytest.mark.parametrize(
    "file",
    [pytest.param(path, id=str(path.relative_to(GOLDEN).with_suffix(""))) for path in sorted(GOLDEN.rglob("*.txt"))],
)
def test_a_session_prints_what_it_printed(file: Path, run: Run, session: Path) -> None:
    expected = file.read_text(encoding="utf-8")
    lines = expected.splitlines()
    copy_inputs(lines, session)
    printed = "\n".join(run_session(lines, run)) + "\n"
    printed = printed.replace(f"blklab {__version__}", "blklab VERSION")
    if os.environ.get("BLKLAB_UPDATE"):
        file.write_text(printed, encoding="utf-8")
        return
    assert printed == expected
