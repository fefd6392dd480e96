"""The slot of a disk, and the controller that is not known."""

import math
from pathlib import Path

import pytest

from blklab.devices import stock_models
from blklab.devices.controllers import read_controllers
from blklab.devices.links import link_bandwidth
from blklab.devices.stock_models import CONTROLLER
from tests.conftest import Run


@pytest.mark.parametrize(("link", "least", "most"), [("3x4", 3.4e9, 3.6e9), ("4x4", 6.8e9, 7.4e9), ("2x2", 0.8e9, 1e9)])
def test_a_link_carries_what_fast_disks_behind_it_read(link: str, least: float, most: float) -> None:
    """Data sheets state 3.5 GB/s for the fastest disks of PCIe 3 and 7.0 to 7.4 for those of PCIe 4."""
    bandwidth = link_bandwidth(link)
    assert bandwidth is not None and least <= bandwidth <= most


def test_a_fast_disk_in_an_old_slot_is_as_fast_as_the_slot() -> None:
    fast, slow = (stock_models.stock("990-pro", {"pcie": link}) for link in ("4x4", "3x2"))
    assert fast["sustained_read_bandwidth"] > 2 * slow["sustained_read_bandwidth"]
    assert slow["sustained_read_bandwidth"] == link_bandwidth("3x2")
    assert stock_models.stock("860-evo", {"pcie": "1x1"}) == stock_models.stock("860-evo")


def test_a_link_that_does_not_exist_is_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(
        '[devices.d]\nmodel = "990-pro"\npcie = "x4"\n[stacks.s]\ndevice = "d"\n'
        '[workloads.w]\nrw = "read"\nbs = "4k"\n[settings]\nkernel = "6.1"\n'
    )
    result = run("run", path, "--no-store")
    assert result.status == 2
    assert "'x4' is no link: expected a generation and lanes, such as 3x4" in result.err


def test_a_sata_ssd_without_a_controller_is_less_certain() -> None:
    unknown, known = (stock_models.stock("860-evo", keys)["uncertainty"] for keys in ({}, {"controller": "sas3008"}))
    for load in ("read", "write", "mixed"):
        assert unknown[load] == pytest.approx(math.hypot(known[load], CONTROLLER), abs=0.002)
    assert unknown["sync"] == known["sync"]
    assert (
        stock_models.stock("990-pro")["uncertainty"]
        == stock_models.stock("990-pro", {"controller": "x"})["uncertainty"]
    )


def test_every_known_controller_has_a_limit_and_says_where_it_comes_from() -> None:
    for controller in read_controllers().values():
        assert controller.keys and controller.source and controller.product
