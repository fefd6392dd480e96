"""blktrace protocol 8: records of 64 bytes with actions of 64 bits, alone and mixed with protocol 7."""

import json
import struct
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.trace.generated import QUEUED, READ, Q, Record

TRACE = Path(__file__).parent.parent / "data" / "traces" / "pgbench-raid1"
ZONE_APPEND = 1 << 32


def wide(record: bytes, order: str, category: int = 0) -> bytes:
    """The record as `struct blk_io_trace2` (include/uapi/linux/blktrace_api.h, Linux 6.19)."""
    magic, *start, action, pid, device, cpu, error, length = struct.unpack(order + "IIQQIIIIIHH", record)
    fields = (magic + 1, *start, pid, action | category, device, cpu, error, length)
    return struct.pack(order + "IIQQIIQIIHH12x", *fields)


def converted(content: bytes, every: int = 1) -> bytes:
    """The file with each `every`-th record in protocol 8."""
    at, number, out = 0, 0, b""
    while at < len(content):
        fixed, (length,) = content[at : at + 48], struct.unpack_from("<H", content, at + 46)
        out += wide(fixed, "<", ZONE_APPEND) if number % every == 0 else fixed
        out += content[at + 48 : at + 48 + length]
        at, number = at + 48 + length, number + 1
    return out


@pytest.fixture
def original() -> dict[str, bytes]:
    files = {}
    for path in sorted(TRACE.glob("dm-0.blktrace.*.zst")):
        content = subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True).stdout
        files[path.stem] = whole(content[:400_000])
    return files


def events(run: Run, directory: Path, files: dict[str, bytes]) -> str:
    directory.mkdir()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    outcome = run("trace", "events", directory)
    assert outcome.status == 0, outcome.err
    return outcome.out.replace(str(directory), "")


@pytest.mark.parametrize("every", [1, 2, 7])
def test_events_are_those_of_protocol_7(run: Run, tmp_path: Path, original: dict[str, bytes], every: int) -> None:
    wider = {name: converted(content, every) for name, content in original.items()}
    expected = events(run, tmp_path / "seven", original)
    assert len(expected.splitlines()) > 1000
    assert events(run, tmp_path / "eight", wider) == expected


def reads(order: str, count: int) -> list[bytes]:
    """Queued reads as records of protocol 7."""
    return [Record(1000 * n, Q, QUEUED | READ, 8 * n, 4096).packed(n, order) for n in range(1, count + 1)]


def whole(content: bytes) -> bytes:
    """The complete records of a file."""
    at = 0
    while at + 48 <= len(content):
        size = 48 + struct.unpack_from("<H", content, at + 46)[0]
        if at + size > len(content):
            break
        at += size
    return content[:at]


def test_the_files_of_one_set_can_differ(run: Run, tmp_path: Path, original: dict[str, bytes]) -> None:
    expected = events(run, tmp_path / "seven", original)
    first = min(original)
    assert events(run, tmp_path / "mixed", original | {first: converted(original[first])}) == expected


@pytest.mark.parametrize("every", [1, 2])
def test_reading_continues_behind_damage(run: Run, tmp_path: Path, every: int) -> None:
    records = reads("<", 300)
    content = [wide(record, "<") if n % every == 0 else record for n, record in enumerate(records)]
    path = tmp_path / "sdx.blktrace.0"
    path.write_bytes(b"".join(content[:100]) + b"junk of some length" + b"".join(content[100:]))
    outcome = run("trace", "stat", tmp_path / "sdx", "--json")
    assert outcome.status == 0, outcome.err
    (device,) = json.loads(outcome.out)["devices"]
    assert device["load"]["ops"]["read"]["ios"] == 300
    assert "19 bytes that are no record were skipped" in outcome.err


def test_a_record_that_is_cut_off_is_reported(run: Run, tmp_path: Path) -> None:
    content = b"".join(wide(record, ">") for record in reads(">", 10))
    (tmp_path / "sdx.blktrace.0").write_bytes(content[:-10])
    outcome = run("trace", "stat", tmp_path / "sdx", "--json")
    assert outcome.status == 0, outcome.err
    assert json.loads(outcome.out)["events"] == 9
    assert "cut off at offset 576: 54 bytes left" in outcome.err
