"""Traces through Parquet and back: nothing that blklab, or blkparse, tells of them is lost."""

import json
import struct
import subprocess
from pathlib import Path
from typing import Any

import polars
import pytest

from tests.conftest import Run

TRACES = Path(__file__).parent.parent / "data" / "traces"
FORMATS = TRACES.parent / "formats"
DEVICES = ("pgbench-raid1/md127", "scsi-errors/sda", "bfq/vdc")

RECORD = struct.Struct("<IIQQIIIIIHH")
MESSAGE = 2


def converted(run: Run, trace: Path, target: Path, to: str) -> Path:
    result = run("trace", "convert", trace, "-o", target, "--to", to)
    assert result.status == 0, result.err
    return target


def profile(run: Run, trace: Path) -> dict[str, Any]:
    result = run("trace", "stat", "--json", trace)
    assert result.status == 0, result.err
    document: dict[str, Any] = json.loads(result.out)
    return document


def comparable(result: dict[str, Any]) -> dict[str, Any]:
    """A profile without what is of the file and not of the trace."""
    own = {"format": "", "bytes_read": 0}
    inputs = [{**entry, "files": []} for entry in result["trace"]["inputs"]]
    return {**result, "trace": {**result["trace"], **own, "inputs": inputs}}


def events(run: Run, trace: Path) -> list[str]:
    result = run("trace", "events", trace)
    assert result.status == 0, result.err
    return [line for line in result.out.splitlines() if not line.startswith("Input file ")]


@pytest.mark.parametrize("trace", ["pgbench-raid1", *DEVICES])
def test_a_copy_tells_what_the_trace_tells(run: Run, tmp_path: Path, trace: str) -> None:
    copy = converted(run, TRACES / trace, tmp_path / "x.parquet", "parquet")
    assert comparable(profile(run, copy)) == comparable(profile(run, TRACES / trace))
    assert events(run, copy) == events(run, TRACES / trace)


@pytest.mark.parametrize("sample", sorted(path.name for path in FORMATS.iterdir() if path.suffix != ".md"))
def test_a_copy_of_any_format_tells_the_same(run: Run, tmp_path: Path, sample: str) -> None:
    copy = converted(run, FORMATS / sample, tmp_path / "x.parquet", "parquet")
    assert comparable(profile(run, copy)) == comparable(profile(run, FORMATS / sample))
    again = converted(run, copy, tmp_path / "y.parquet", "parquet")
    assert comparable(profile(run, again)) == comparable(profile(run, FORMATS / sample))


def test_what_people_read_of_a_copy_is_the_same(run: Run, tmp_path: Path) -> None:
    trace = TRACES / "pgbench-raid1" / "md127"
    copy = converted(run, trace, tmp_path / "x.parquet", "parquet")
    output = run("trace", "stat", copy, "--full").out
    assert output.startswith("md127 (9,127)")
    assert "73 % came from 253,1" in " ".join(output.split())
    assert output == run("trace", "stat", trace, "--full").out
    chosen = run("trace", "stat", copy, "--device", "md127", "--full").out
    assert chosen == run("trace", "stat", trace, "--device", "md127", "--full").out


def test_drops_and_the_clock_are_in_the_copy(run: Run, tmp_path: Path) -> None:
    trace = converted(run, TRACES / "bfq", tmp_path / "vdc", "blktrace")
    (tmp_path / "vdc.blklab.json").write_text('{"dropped": 7, "devices": [{"name": "vdc", "dropped": 7}]}')
    copy = converted(run, trace, tmp_path / "x.parquet", "parquet")
    facts = profile(run, copy)["trace"]
    assert facts["dropped"] == 7
    assert facts["start_unix_ns"] == profile(run, TRACES / "bfq")["trace"]["start_unix_ns"] > 0


def records(files: list[Path]) -> list[list[tuple[Any, ...]]]:
    """Every CPU's events and messages, byte for byte except the time of clock zero."""
    cpus = []
    for path in files:
        data, at, cpu = path.read_bytes(), 0, []
        while at < len(data):
            magic, sequence, time, *rest, length = RECORD.unpack_from(data, at)
            payload = data[at + RECORD.size : at + RECORD.size + length]
            at += RECORD.size + length
            action = rest[2]
            if not action >> 16 & 0x400 or action & 0xFFFF == MESSAGE:
                cpu.append((magic, sequence, time, *rest, payload))
        cpus.append(cpu)
    zero = min(cpu[0][2] for cpu in cpus if cpu)
    return [[(*item[:2], item[2] - zero, *item[3:]) for item in cpu] for cpu in cpus]


def blkparse(directory: Path, name: str) -> list[str]:
    done = subprocess.run(["blkparse", "-i", name], cwd=directory, capture_output=True, check=True, text=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("device", DEVICES)
def test_blktrace_comes_back_from_parquet(run: Run, tmp_path: Path, device: str) -> None:
    name = Path(device).name
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    for file in (TRACES / device).parent.glob(f"{name}.blktrace.*"):
        subprocess.run(["zstd", "-dq", str(file), "-o", str(before / file.stem)], check=True)
    copy = converted(run, before / name, tmp_path / "x.parquet", "parquet")
    converted(run, copy, after / name, "blktrace")
    assert records(sorted(after.iterdir())) == records(sorted(before.iterdir()))
    assert blkparse(after, name) == blkparse(before, name)


def test_files_of_other_programs_and_of_the_first_version(run: Run, tmp_path: Path) -> None:
    trace = TRACES / "pgbench-raid1" / "md127"
    copy = converted(run, trace, tmp_path / "x.parquet", "parquet")
    rows = polars.read_parquet(copy).drop("remap_target", "payload")
    bare, old = tmp_path / "bare.parquet", tmp_path / "old.parquet"
    rows.write_parquet(bare, compression="snappy")
    rows.write_parquet(old, compression="snappy", metadata={"format": "blktrace", "version": "0.1.0"})
    for path, layers in ((bare, False), (old, True)):
        result = profile(run, path)
        assert result["trace"]["capabilities"]["layers"] is layers
        assert result["devices"][0]["name"] is None
        assert result["devices"][0]["events"] == profile(run, trace)["devices"][0]["events"]
        output = " ".join(run("trace", "stat", path, "--full").out.split())
        assert ("73 % came from 253,1" in output) is layers
