"""`--exact` counts all blocks of a weakly skewed load; without it they are sampled."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.trace.generated import QUEUED, READ, Q, Record, write_trace

BLOCKS = 200_000


@pytest.fixture
def skewed(tmp_path: Path) -> tuple[Path, float]:
    """A trace with more blocks than are counted without --exact, and the share of its hottest 1 %."""
    draw = random.Random(1)
    blocks = [int(BLOCKS * draw.random() ** 1.3) for _ in range(300_000)]
    records = [Record(1000 * n, Q, QUEUED | READ, 8 * block, 4096) for n, block in enumerate(blocks, start=1)]
    counts = sorted(Counter(blocks).values(), reverse=True)
    hottest = len(counts) / 100
    share = sum(counts[: int(hottest)]) + counts[int(hottest)] * (hottest % 1)
    return write_trace(tmp_path / "sdx", records), share / len(blocks)


def test_all_blocks_are_counted(run: Run, skewed: tuple[Path, float]) -> None:
    trace, share = skewed
    hotness = {}
    for option in ([], ["--exact"]):
        outcome = run("trace", "stat", trace, "--json", *option)
        assert outcome.status == 0, outcome.err
        hotness[bool(option)] = json.loads(outcome.out)["devices"][0]["hotness"]
    assert not hotness[True]["sampled"]
    assert hotness[True]["hottest"][0]["io_share"] == pytest.approx(share, rel=1e-9)
    assert hotness[False]["sampled"]
    assert hotness[False]["hottest"][0]["io_share"] == pytest.approx(share, abs=0.005)


def test_the_report_says_how_it_was_made(run: Run, skewed: tuple[Path, float], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run("trace", "report", skewed[0], "--exact", "-o", page).status == 0
    assert "--exact" in page.read_text()
    assert "--exact counts all" in run("trace", "stat", skewed[0], "--full").out
