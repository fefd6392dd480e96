"""Nights of equal results, imported and compared with the command line."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from blklab.campaigns.trend import read_trend
from blklab.store.campaigns import Store
from tests.conftest import Run

ROOT = Path(__file__).parents[2]


def import_night(run: Run, directory: Path, name: str, night: int, rates: Sequence[Sequence[float]]) -> None:
    """Imports a night; `rates` has the IOPS of each run of each cell."""
    document = json.loads((ROOT / "tests/data/imports/devices/disk1-randread.json").read_text())
    files = directory / f"{name}-{night}"
    files.mkdir()
    for cell, of_cell in enumerate(rates):
        for repeat, rate in enumerate(of_cell, 1):
            job = document["jobs"][0]
            job["jobname"] = f"c{cell}"
            job["read"] |= {"iops": rate, "total_ios": round(10 * rate), "io_bytes": round(40960 * rate)}
            document["timestamp_ms"] = 1000 * (1_700_000_000 + 86_400 * night + 60 * repeat)
            (files / f"c{cell}-{repeat}.json").write_text(json.dumps(document))
    result = run("import", files, "--name", name, "--pattern", "{workload}-{repeat}.json")
    assert result.status == 0, result.err


def draw_nights(seed: int, nights: int) -> "np.ndarray":
    """The IOPS of two cells with three runs, with 3 % between nights and 2 % between runs."""
    generator = np.random.default_rng(seed)
    level = generator.normal(0, 0.03, size=(nights, 1, 1))
    return 5e3 * np.exp(level + generator.normal(0, 0.02, size=(nights, 2, 3)))


def test_equal_nights_are_not_called_unlike(run: Run, tmp_path: Path) -> None:
    for night, rates in enumerate(draw_nights(1, 9)):
        import_night(run, tmp_path, "nightly", night, rates.tolist())
    document = json.loads(run("runs", "trend", "nightly", "--json").out)
    assert [row["campaign"] for row in document["campaigns"]] == [str(number) for number in range(9, 0, -1)]
    assert "better" not in document["verdicts"]["Since the one before"]
    assert "worse" not in document["verdicts"]["Since the first"]
    assert document["verdicts"]["Changes of level"] == "none."
    assert document["verdicts"]["Noise"].endswith("(standard deviation, 9 campaigns).")
    document = json.loads(run("compare", "nightly~8", "nightly", "--metric", "iops", "--json").out)
    assert not {verdict for row in document["rows"] for verdict in row["verdicts"]} & {"better", "worse"}
    assert document["days_doubt"] == ""  # The intervals include how much nights differ.


def test_a_change_that_lasts_is_named_with_its_campaign(run: Run, tmp_path: Path) -> None:
    nights = draw_nights(2, 12)
    nights[7:] *= 0.7
    for night, rates in enumerate(nights):
        import_night(run, tmp_path, "nightly", night, rates.tolist())
    result = run("runs", "trend", "nightly")
    assert result.status == 0
    lines = result.out.splitlines()
    (change,) = [line for line in lines if line.startswith("Changes of level: ")]
    assert change.count("from campaign 8 (") == 1
    assert change.count("%") == 2
    assert any(line.startswith("Since the first: iops: 2 worse: c0 −") for line in lines)
    chart = read_trend(Store(None, reading=True), "nightly", "", "iops").chart
    (marks,) = [
        layer["data"]["values"] for layer in chart.spec["layer"] if layer["mark"]["type"] == "rule" and "data" in layer
    ]
    assert {mark["place"].partition("|")[0] for mark in marks} == {"8"}
    assert all("%" in mark["change"] for mark in marks)
    assert "Dashed: the level changes" in chart.note


def test_the_first_nights_have_no_verdict(run: Run, tmp_path: Path) -> None:
    for night, rates in enumerate(draw_nights(3, 2)):
        import_night(run, tmp_path, "nightly", night, rates.tolist())
    compared = run("compare", "nightly~1", "nightly").out.replace("\n", " ")
    assert "nightly~1 was measured on 2023-11-14, nightly on 2023-11-15: what else changed" in compared
    out = run("runs", "trend", "nightly").out
    assert "Since the one before: cannot tell" in out.replace("\n", " ")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_equal_campaigns_of_any_name_are_not_called_unlike(run: Run, tmp_path: Path, seed: int) -> None:
    rates = 5e3 * np.exp(np.random.default_rng(seed).normal(0, 0.05, size=(2, 2, 5)))
    for look, count in enumerate((3, 5)):
        for side, of_side in zip("ab", rates, strict=True):
            import_night(run, tmp_path, f"{side}{count}", look, of_side[:, :count].tolist())
        rows = json.loads(run("compare", f"a{count}", f"b{count}", "--json").out)["rows"]
        assert not {verdict for row in rows for verdict in row["verdicts"]} & {"better", "worse"}
