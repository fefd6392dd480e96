"""Traces with removed events: depth and latency stay near those of the whole trace, or are marked as uncertain."""

import json
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run

QUEUE, DISPATCH, COMPLETE = 1, 7, 8
RECORD = struct.Struct("<IIQQIIIIIHH")


def events() -> Iterator[tuple[int, int, bytes]]:
    """A minute of a disk with 200 IOPS and 1 to 20 ms, some sectors again and again: time, action, record."""
    rng = random.Random(5)
    rows = []
    now = 0
    for _ in range(12_000):
        now += int(rng.expovariate(200) * 1e9)
        sector = rng.randrange(2_000) * 8 if rng.random() < 0.5 else rng.randrange(1 << 24) * 8
        took = int(1e6 * (1 + 19 * rng.random() ** 4))
        op = 1 if rng.random() < 0.6 else 2 | 8
        for time, action, category in ((now, QUEUE, 1), (now + 2_000, DISPATCH, 64), (now + took, COMPLETE, 128)):
            rows.append((time, action, sector, action | (category | op) << 16))
    for number, (time, action, sector, code) in enumerate(sorted(rows)):
        yield time, action, RECORD.pack(0x65617407, number + 1, time, sector, 4096, code, 77, 8 << 20 | 16, 0, 0, 0)


def stat(run: Run, path: Path, lost: Callable[[int, int], bool]) -> Any:
    kept = (record for time, action, record in events() if not lost(time, action))
    (path / "sdb.blktrace.0").write_bytes(b"".join(kept))
    result = run("trace", "stat", path, "--json")
    assert result.status == 0
    return json.loads(result.out)["devices"][0]


def chance(action: int, share: float, bursts: bool) -> Callable[[int, int], bool]:
    """Loses a share of the events with an action: at random, or all of them in a part of each tenth of a second."""

    def is_lost(time: int, each: int) -> bool:
        if each != action:
            return False
        where = zlib.crc32(f"{time // 10**8 if bursts else time}".encode()) / 2**32
        return where < share

    return is_lost


@pytest.mark.parametrize("bursts", [False, True], ids=["chance", "bursts"])
@pytest.mark.parametrize("share", [0.005, 0.02, 0.1])
@pytest.mark.parametrize("action", [QUEUE, DISPATCH, COMPLETE], ids="QDC")
def test_depth_and_latency_stay_near_the_truth(
    run: Run, tmp_path: Path, action: int, share: float, bursts: bool
) -> None:
    truth = stat(run, tmp_path, lambda _time, _action: False)
    found = stat(run, tmp_path, chance(action, share, bursts))
    assert found["in_flight"]["mean"] == pytest.approx(truth["in_flight"]["mean"], rel=0.1)
    for op in ("read", "write"):
        p99 = [each["life"][op]["latency_ns"]["q2c"]["p99"] for each in (found, truth)]
        assert p99[0] == pytest.approx(p99[1], rel=0.2)
    # Percentiles of the depth are not known then.
    assert (found["in_flight"]["p99"] is None) == (action == COMPLETE)
    assert truth["in_flight"]["p99"] is not None
