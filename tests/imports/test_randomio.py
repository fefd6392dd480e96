"""randomio's tables: the program's, and our own back again."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import BlklabError
from blklab.imports.base import outcome as made
from blklab.imports.base import times
from blklab.outcome import DirectionResult
from blklab.report.runs import randomio
from tests.imports.conftest import DATA, imported, runs


def test_tables_of_the_program() -> None:
    batch, notes = imported(DATA / "form-randomio.txt")
    assert notes == []
    first, second, third = runs(batch)
    assert first[0] == {
        "workload": "randomio", "bs": "512", "numjobs": "16", "rw": "randrw",
        "rwmixread": "80", "repeat": "1",
    }  # fmt: skip
    assert second[0] == {**first[0], "repeat": "2"}
    assert (third[0]["bs"], third[0]["numjobs"]) == ("64k", "64")
    assert "rwmixread" not in third[0]
    read, write = first[1].read, first[1].write
    assert (read.iops, write.iops) == (634.4, 157.9)
    assert read.total_ios == 38064  # in the 60 s of the command
    assert read.bw_bytes == 634.4 * 512
    assert read.clat_ns.mean == pytest.approx(24.8e6)
    assert (read.clat_ns.min, read.clat_ns.max) == (200_000, 384_200_000)
    assert write.clat_ns.stddev == pytest.approx(7.6e6)
    assert write.clat_ns.p99 is None
    assert batch.plan.cells[0].document["jobs"][0]["options"]["numjobs"] == "16"


RATES = st.floats(0, 99_999).map(lambda rate: round(rate, 1))
LATENCIES = st.floats(0, 9999).map(lambda latency: round(latency, 1))


@st.composite
def measured(draw: st.DrawFn) -> tuple[dict[str, str], Any, Any]:
    """Returns a run whose figures have the precision that the table has."""
    directions: Any = []
    for rate in (draw(RATES), draw(RATES)):
        known = {key: draw(LATENCIES) * 1e6 for key in ("mean", "stddev", "min", "max")}
        directions.append(
            DirectionResult(round(rate) or int(rate > 0), 0, rate, 0, times(1, known) if rate else times(0, None))
        )
    labels = {
        "stack": draw(st.sampled_from(["raid1", "near", "far"])),
        "workload": draw(st.sampled_from(["mixed", "oltp-1"])),
        "bs": draw(st.sampled_from(["512", "4k", "64k"])),
        "numjobs": str(draw(st.integers(1, 2048))),
        "iodepth": str(draw(st.integers(1, 64))),
    }
    return labels, {"jobs": []}, made("mixed", 10**9, directions)


@given(st.lists(measured(), min_size=1, max_size=12))
def test_our_own_table_comes_back(
    tmp_path_factory: pytest.TempPathFactory, given_runs: list[tuple[dict[str, str], Any, Any]]
) -> None:
    path = tmp_path_factory.mktemp("table") / "table.txt"
    path.write_text("\n".join(randomio(given_runs)) + "\n· mixed: the knee is at 16 in flight\n")
    # The table puts runs that differ in nothing but the load together.
    order = {
        pair: number
        for number, pair in enumerate(dict.fromkeys((r[0]["stack"], r[0]["workload"], r[0]["bs"]) for r in given_runs))
    }
    expected = sorted(given_runs, key=lambda r: order[r[0]["stack"], r[0]["workload"], r[0]["bs"]])
    actual, _ = imported(path)
    assert len(actual.plan.cells) == len(expected)
    for (labels, back), cell, (own, _, result) in zip(runs(actual), actual.plan.cells, expected, strict=True):
        assert (labels["stack"], labels["workload"]) == (own["stack"], own["workload"])
        options = cell.document["jobs"][0]["options"]
        assert {key: options[key] for key in ("bs", "numjobs", "iodepth")} == {
            key: own[key] for key in ("bs", "numjobs", "iodepth")
        }
        for direction in ("read", "write"):
            assert back.direction(direction).iops == result.direction(direction).iops
            if result.direction(direction).iops:
                for key in ("mean", "stddev", "min", "max"):
                    assert getattr(back.latency(direction), key) == pytest.approx(
                        getattr(result.latency(direction), key)
                    )


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "table.txt"
    content = (DATA / "form-randomio.txt").read_text()
    path.write_text(content.replace("0.1    1.6  131.1", "0.1  131.1"))
    with pytest.raises(BlklabError, match=r"table\.txt:6: found '792.3 .* expected total .* 5 of writes"):
        imported(path)
    path.write_text(content.replace("24.8", "2.4.8"))
    with pytest.raises(BlklabError, match=r"table\.txt:6: found '2\.4\.8', expected a number"):
        imported(path)


def test_columns_before_the_total_are_labels(tmp_path: Path) -> None:
    head, row = (" iops   min  avg  max  sdev", " 100.0  0.1  2.0  9.0  0.5")
    path = tmp_path / "sizes.txt"
    path.write_text(
        f"  size total |  read:         latency (ms)  |  write: latency (ms)\n"
        f"        iops |{head} |{head}\n-------+----\n"
        f"  4096 200.0 |{row} |{row}\n    4k 200.0 |{row} |{row}\n   64k 200.0 |{row} |{row}\n"
        "2 disks failed | then\n"
    )
    labels = [labels for labels, _ in runs(imported(path)[0])]
    assert [(own["bs"], own["repeat"]) for own in labels] == [("4k", "1"), ("4k", "2"), ("64k", "1")]
    path.write_text(f"iops min avg max sdev |{head}\n512 200.0 |{row} |{row}\n12:00:01 8.0 |{row} |{row}\n")
    assert [own.get("bs") for own, _ in runs(imported(path)[0])] == ["512", None]
