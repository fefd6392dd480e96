"""The two states of writes of disks with a cache of single-bit cells."""

import json
from pathlib import Path

import pytest

from blklab.outcome import DeviceResult
from blklab.runners.sim.cache_states import time_to_fill
from tests.conftest import Run

MODEL = {"kind": "nvme", "slc_bytes": 10**9}
LOAD = """
[workloads.w]
rw = "randwrite"
bs = "4k"
iodepth = 32
time_based = true
[settings]
runtime = "100ms"
kernel = "6.1"
"""


@pytest.mark.parametrize(
    ("members", "names"), [(2, "of each of a0 and a1 takes"), (5, "of each of 5 disks, a0 to a4,")]
)
def test_disks_of_an_array_have_one_note(run: Run, tmp_path: Path, members: int, names: str) -> None:
    devices = "".join(f'[devices.a{index}]\nmodel = "nvme-consumer"\n' for index in range(members))
    array = json.dumps([f"a{index}" for index in range(members)])
    path = tmp_path / "e.toml"
    path.write_text(f"{devices}[stacks.s]\nlevel = 0\nmembers = {array}\n{LOAD}")
    (result,) = json.loads(run("run", path, "--no-store", "--json").out)
    (note,) = [warning for warning in result["warnings"] if warning.startswith("two states")]
    assert names in note


def test_a_disk_that_moves_its_data_meanwhile_does_not_fill_its_cache() -> None:
    def fill(flash_bytes: int, **keys: object) -> float | None:
        work = {"flash_bytes": flash_bytes, "media_cache_full_ns": None}
        device = DeviceResult("a", sectors=(0, 200_000), work=work)
        return time_to_fill(device, {**MODEL, **keys}, 10**9)

    written = 200_000 * 512
    assert fill(written) == pytest.approx(10**18 / written)
    assert fill(written + written // 2) == pytest.approx(2 * 10**18 / written, rel=0.01)
    assert fill(2 * written) is None
    assert fill(2 * written, used={"fill": 0.8}, slc_fill=0.5) == pytest.approx(10**18 / written / 2)
