"""Reads through the page cache in the simulator."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run

STRIPED = """
[devices.d]
model = "MODEL"
count = 4
[stacks.striped]
level = 0
chunk = "64k"
members = ["d"]
[workloads.w]
rw = "read"
bs = "64k"
size = "256MiB"
"""


def simulate(run: Run, directory: Path, more: str, model: str = "hds725050") -> list[Any]:
    """Returns the results of the cells of a stream on four disks."""
    path = directory / "e.toml"
    text = STRIPED.replace("MODEL", model)
    path.write_text(f'{text}{more}\n[settings]\nkernel = "6.1"\nplacement = "outer"\n')
    done = run("run", path, "--json", "--no-store")
    assert done.status == 0, done.err
    results: list[Any] = json.loads(done.out)
    return results


def test_read_ahead_makes_a_striped_array_faster(run: Run, tmp_path: Path) -> None:
    buffered = "direct = false\n[sweep]\nmode = 'all'\nread_ahead_kb = [0, 32, 128, 1024]"
    for model in ("hds725050", "sm883"):
        none, *rates = (result["read"]["bw_bytes"] for result in simulate(run, tmp_path, buffered, model))
        assert rates[0] > 2 * none
    # A flash disk does not read ahead itself. fio's advice doubles the windows: one disk, four, and all of them often.
    assert rates[1] > 3 * rates[0] and rates[2] > rates[1]


def test_without_read_ahead_pages_are_read_one_by_one(run: Run, tmp_path: Path) -> None:
    (buffered,) = simulate(run, tmp_path, "direct = false\n[sweep]\nmode = 'all'\nread_ahead_kb = [0]")
    (direct,) = simulate(run, tmp_path, "#\n[matrix]\nbs = ['4k']")
    assert buffered["read"]["bw_bytes"] == pytest.approx(direct["read"]["bw_bytes"], rel=0.1)
    sectors, ios = [sum(disk[key][0] for disk in buffered["devices"]) for key in ("sectors", "ios")]
    assert sectors == 8 * ios


def test_intervals_of_what_is_predicted_badly_are_wide(run: Run, tmp_path: Path) -> None:
    sweep = "direct = false\n[sweep]\nmode = 'all'\nread_ahead_kb = [0, 768]"
    none, large = (result["interval"]["iops"] for result in simulate(run, tmp_path, sweep))
    assert none[1] / none[0] > 12 > large[1] / large[0]
