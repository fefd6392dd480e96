"""A trace whose every latency is known, with several I/Os in flight on one sector at a time.

btt keeps one I/O per start sector and mispairs the others; that its figures on the same trace are
wrong is asserted too, so that the claim in the documentation stays true.
"""

import json
import random
import re
import statistics
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.trace.generated import COMPLETED, ISSUED, QUEUED, READ, WRITE, C, D, G, Q, Record, write_trace

IOS = 3000


def known_trace(base: Path) -> tuple[list[int], list[int]]:
    """Writes a trace of IOS I/Os on few sectors; returns each one's Q2C and D2C in ns."""
    chance = random.Random(7)
    records, q2c, d2c = [], [], []
    last: dict[tuple[int, int, int], int] = {}
    now = 1_000_000
    for _ in range(IOS):
        now += chance.randrange(1_000, 60_000)
        alike = (chance.randrange(40) * 64, chance.choice((4096, 8192)), chance.choice((READ, WRITE)))
        sector, size, direction = alike
        dispatch = now + 2_000
        # I/Os alike in sector, size and direction finish in turn: no trace could tell otherwise.
        complete = max(dispatch + chance.randrange(41_000, 2_000_000), last.get(alike, 0) + 10)
        last[alike] = complete
        for time, code, category in (
            (now, Q, QUEUED),
            (now + 500, G, QUEUED),
            (dispatch, D, ISSUED),
            (complete, C, COMPLETED),
        ):
            records.append(Record(time, code, category | direction, sector, size))
        q2c.append(complete - now)
        d2c.append(complete - dispatch)
    write_trace(base, sorted(records, key=lambda record: record.time))
    return q2c, d2c


def test_every_latency_is_right(run: Run, tmp_path: Path) -> None:
    q2c, d2c = known_trace(tmp_path / "known")
    result = run("trace", "stat", "--json", str(tmp_path / "known"))
    assert result.status == 0, result.err
    (device,) = json.loads(result.out)["devices"]
    for stage, truth in (("q2c", q2c), ("d2c", d2c)):
        actual = device["life"]["all"]["latency_ns"][stage]
        assert actual["count"] == IOS
        assert (actual["min"], actual["max"]) == (min(truth), max(truth))
        assert actual["p50"] == sorted(truth)[IOS // 2 - 1]
        assert actual["mean"] == pytest.approx(statistics.fmean(truth), rel=1e-12)


def test_btt_is_wrong_here(tmp_path: Path) -> None:
    q2c, _ = known_trace(tmp_path / "known")
    merge = ["blkparse", "-i", "known", "-d", "known.bin", "-O"]
    subprocess.run(merge, cwd=tmp_path, check=True, capture_output=True)
    text = subprocess.run(["btt", "-i", "known.bin"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    result = re.search(r"^Q2C\S*\s+(\S+)\s+\S+\s+\S+\s+(\d+)", text, re.MULTILINE)
    assert result is not None
    smallest, count = float(result[1]) * 1e9, int(result[2])
    assert count < IOS or smallest < 0.9 * min(q2c)
