"""Files with damage in the middle: what is left of them is read."""

import json
import struct
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.trace.generated import NOTIFY, QUEUED, READ, Q, Record, write_trace

IOS = 5000


@pytest.mark.parametrize(
    ("at", "junk"),
    [
        (48 * 1000, b"x" * 7),
        (48 * 1000, bytes(100_000)),
        (48 * 1000, b"\0" + b"\x07\x74\x61\x65" * 1000),  # looks like the beginnings of records
        (48 * 4999, b"\xff"),  # only one record behind it
    ],
)
@pytest.mark.parametrize("order", ["<", ">"])
def test_reading_continues_behind_damage(run: Run, tmp_path: Path, at: int, junk: bytes, order: str) -> None:
    records = [Record(1000 * number, Q, QUEUED | READ, 8 * number, 4096) for number in range(1, IOS + 1)]
    write_trace(tmp_path / "sdx", records, order)
    path = tmp_path / "sdx.blktrace.0"
    content = path.read_bytes()
    path.write_bytes(content[:at] + junk + content[at:])
    outcome = run("trace", "stat", tmp_path / "sdx", "--json")
    assert outcome.status == 0, outcome.err
    (device,) = json.loads(outcome.out)["devices"]
    assert device["load"]["ops"]["read"]["ios"] == IOS
    assert f"damaged at offset {at}: {len(junk)} bytes that are no record were skipped" in outcome.err


def test_one_broken_record_costs_only_itself(run: Run, tmp_path: Path) -> None:
    records = [Record(1000 * number, Q, QUEUED | READ, 8 * number, 4096) for number in range(1, IOS + 1)]
    write_trace(tmp_path / "sdx", records)
    path = tmp_path / "sdx.blktrace.0"
    content = bytearray(path.read_bytes())
    content[48 * 100] ^= 0xFF
    path.write_bytes(content)
    outcome = run("trace", "stat", tmp_path / "sdx", "--json")
    assert outcome.status == 0, outcome.err
    (device,) = json.loads(outcome.out)["devices"]
    assert device["load"]["ops"]["read"]["ios"] == IOS - 1
    assert "damaged at offset 4800: 48 bytes that are no record were skipped" in outcome.err


def test_damage_without_a_record_behind_it_ends_the_file(run: Run, tmp_path: Path) -> None:
    records = [Record(1000 * number, Q, QUEUED | READ, 8 * number, 4096) for number in range(1, 101)]
    write_trace(tmp_path / "sdx", records)
    path = tmp_path / "sdx.blktrace.0"
    path.write_bytes(path.read_bytes() + b"y" * 1000)
    outcome = run("trace", "stat", tmp_path / "sdx", "--json")
    assert outcome.status == 0
    assert "damaged at offset 4800: magic 0x79797979, expected 0x65617407 or 0x65617408; read" in outcome.err


def test_recordings_of_different_boots_are_refused(run: Run, tmp_path: Path) -> None:
    def recording(name: str, unix_seconds: int, time: int = 10**9) -> Path:
        stamp = Record(time, 1, NOTIFY, pdu=struct.pack("<II", unix_seconds, 0))
        return write_trace(tmp_path / name, [stamp, Record(time, Q, QUEUED | READ, 8, 4096)])

    monday, tuesday = recording("monday", 1_800_000_000), recording("tuesday", 1_800_086_400)
    outcome = run("trace", "stat", monday, tuesday)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "monday.blktrace.0 and " in outcome.err
    assert "are recordings of different hosts or boots" in outcome.err
    assert run("trace", "stat", monday, recording("also", 1_800_000_003, 10**9 + 1)).status == 0
