"""`blklab trace events`, from the command line to what is printed."""

import os
import pty
import subprocess
import sys
from pathlib import Path

from tests.conftest import Run
from tests.trace.generated import QUEUED, READ, Q, Record, process, write_trace

BLKLAB = Path(sys.executable).with_name("blklab")


def _hostile(directory: Path) -> Path:
    records = [process(1, b"\x1b[31mevil\xff"), Record(0, Q, QUEUED | READ, 8, 4096, pid=1)]
    return write_trace(directory / "hostile", records)


def test_a_terminal_gets_escape_sequences_of_names_as_text(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [str(BLKLAB), "trace", "events", "-q", str(_hostile(tmp_path))]
    subprocess.run(command, stdout=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 1 << 16)
    os.close(ours)
    assert b"8 + 8 [\\x1b[31mevil\\xff]\r\n" in shown


def test_a_pipe_gets_the_bytes_of_names_unchanged(tmp_path: Path) -> None:
    command = [str(BLKLAB), "trace", "events", "-q", str(_hostile(tmp_path))]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    assert done.stdout.endswith(b"8 + 8 [\x1b[31mevil\xff]\n")


def test_conversion_to_blktrace_keeps_the_bytes_of_names(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "copy.bin"
    assert run("trace", "convert", _hostile(tmp_path), "-o", output).status == 0
    assert b"\x1b[31mevil\xff\0" in output.read_bytes()
