"""Where data lie on rotating disks, and what blklab says of it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run

EXPERIMENT = """
[devices]
disk = {{ model = "hdd-7200", capacity = "4TiB", count = 2 }}
flash = {{ model = "pm983", size = "8GiB" }}
[stacks]
alone = {{ device = "disk1" }}
cached = {{ kind = "lvmcache", origin = "disk2", cache = "flash" }}
[workloads]
load = {{ rw = "randread", bs = "4k", size = "{size}", time_based = true }}
[settings]
kernel = "6.1"
runtime = "20s"
{settings}
"""


def predict(run: Run, directory: Path, settings: str = "", size: str = "100GiB", stack: str = "alone") -> Any:
    path = directory / "placement.toml"
    path.write_text(EXPERIMENT.format(settings=settings, size=size))
    (result,) = json.loads(run("run", path, "--no-store", "--json", "--only", f"stack={stack}").out)
    result.setdefault("warnings", [])
    return result


def test_files_that_are_spread_have_half_of_the_random_reads(run: Run, tmp_path: Path) -> None:
    """A spread file has the seeks of the whole disk: a third of its span on average."""
    outer = predict(run, tmp_path, 'placement = "outer"')["read"]["iops"]
    spread = predict(run, tmp_path, 'placement = "spread"')["read"]["iops"]
    whole = predict(run, tmp_path, size="4TiB")["read"]["iops"]
    assert 1.6 < outer / spread < 2.8
    assert spread == pytest.approx(whole, rel=0.1)


def test_a_load_on_files_reaches_to_the_outer_edge(run: Run, tmp_path: Path) -> None:
    files = predict(run, tmp_path, 'filesystem = "ext4"')
    known = predict(run, tmp_path, 'filesystem = "ext4"\nplacement = "spread"')
    assert files["read"]["iops"] == known["read"]["iops"]
    assert files["interval"]["iops"][1] > 1.6 * known["interval"]["iops"][1]
    assert files["interval"]["iops"][0] == pytest.approx(known["interval"]["iops"][0], rel=0.1)
    (note,) = [warning for warning in files["warnings"] if "spread" in warning]
    assert "if you know where they are, set placement" in note
    assert not any("spread" in warning for warning in known["warnings"])


def test_a_part_of_a_raw_disk_has_a_note(run: Run, tmp_path: Path) -> None:
    raw = predict(run, tmp_path)
    (note,) = [warning for warning in raw["warnings"] if "spread" in warning]
    assert note.startswith("the load uses the first 2 % of the disks, where they are fastest")
    for settings, size in (('placement = "outer"', "100GiB"), ("", "4TiB")):
        assert not any("spread" in warning for warning in predict(run, tmp_path, settings, size)["warnings"])


def test_a_note_has_no_figure_that_is_not_known(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uncertain = EXPERIMENT.replace("count = 2", "count = 2, uncertainty = {{ read = 0.8 }}")
    monkeypatch.setattr("tests.runners.test_placements.EXPERIMENT", uncertain)
    for settings in ("", 'filesystem = "ext4"'):
        result = predict(run, tmp_path, settings)
        assert not result["interval"]["known"]
        (note,) = [warning for warning in result["warnings"] if "spread" in warning]
        assert re.search(r"about [\d.]+ times", note)
        assert not re.search(r"about [\d,.]+ IOPS", note)


def test_the_blocks_of_a_cache_stay_where_the_load_says(run: Run, tmp_path: Path) -> None:
    plain, spread = (
        predict(run, tmp_path, f"{settings}\nmax_ios = 2000", "4GiB", "cached")["read"]["iops"]
        for settings in ("", 'placement = "spread"')
    )
    assert plain == spread
