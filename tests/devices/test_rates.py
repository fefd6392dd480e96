"""The rates of a flash disk that was not measured."""

from dataclasses import replace

import pytest

from blklab.devices import stock_models
from blklab.devices.rates.measured import MeasuredRate
from blklab.devices.rates.model import DEVIATIONS, Components, estimate, predict
from blklab.devices.rates.products import Product
from blklab.devices.rates.quantities import RANDOM, RANDOM_WRITE, READ_BYTES

DISK = Product("nvme", False, 10**12, "Maker", "Family", "tlc", True)
COMPONENTS = Components({**dict.fromkeys(DEVIATIONS, 0.3), "rated": 1.0, "capacity": 0.5}, 1.0)


def _measure(product: Product, rate: float, source: str) -> MeasuredRate:
    return MeasuredRate(RANDOM.name, "read", product, source, rate)


def test_a_disk_that_others_measured_has_their_rate() -> None:
    other = replace(DISK, maker="Other", family="Other", nand="qlc", dram=False)
    rows = [_measure(DISK, 400_000, "a"), _measure(DISK, 420_000, "b"), _measure(other, 100_000, "a")]
    same = predict(RANDOM, "read", DISK, rows, COMPONENTS)
    assert 300_000 < same.rate < 420_000
    stranger = predict(RANDOM, "read", replace(other, family="Third", maker="Third"), rows, COMPONENTS)
    assert stranger.rate < same.rate and stranger.deviation > same.deviation


def test_what_is_not_known_widens_the_interval() -> None:
    rows = [_measure(DISK, 400_000, "a"), _measure(replace(DISK, capacity=2 * 10**12), 600_000, "b")]
    known = predict(RANDOM, "read", replace(DISK, family="New"), rows, COMPONENTS)
    unknown = predict(RANDOM, "read", replace(DISK, family="", nand="", dram=None), rows, COMPONENTS)
    assert unknown.deviation > known.deviation


def test_a_higher_data_sheet_reads_faster() -> None:
    sheets = {family: replace(DISK, family=family, rated_random_read_iops=float(family)) for family in ("2e5", "8e5")}
    rows = [_measure(product, float(family) / 2, family) for family, product in sheets.items()]
    fast = predict(RANDOM, "read", replace(DISK, family="x", rated_random_read_iops=8e5), rows, COMPONENTS)
    slow = predict(RANDOM, "read", replace(DISK, family="x", rated_random_read_iops=2e5), rows, COMPONENTS)
    assert fast.rate > 1.5 * slow.rate


def test_a_larger_disk_reads_faster_if_others_do() -> None:
    disks = [replace(DISK, family=str(terabytes), capacity=terabytes * 10**12) for terabytes in (1, 2, 4)]
    rows = [_measure(disk, disk.capacity / 10**7, disk.family) for disk in disks]
    large = predict(RANDOM, "read", replace(DISK, family="x", capacity=4 * 10**12), rows, COMPONENTS)
    small = predict(RANDOM, "read", replace(DISK, family="x"), rows, COMPONENTS)
    assert large.rate > 1.5 * small.rate


def test_the_capacity_that_a_user_types_changes_reads_and_not_writes_in_use() -> None:
    """An SN730 of 256 GB reads 124,000 blocks a second, an SN720 of 512 GB 172,000: reference/foreign/iocost.csv."""
    small, large = (stock_models.stock("nvme-consumer", {"capacity": capacity * 10**9}) for capacity in (256, 512))
    reads, writes = (
        small[f"sustained_{way}_command_ns"] / large[f"sustained_{way}_command_ns"] for way in ("read", "write")
    )
    assert reads == pytest.approx(172_299 / 124_446, rel=0.1)
    assert writes == pytest.approx(1, abs=0.1)


def test_a_source_can_be_left_out() -> None:
    with_it = stock_models.stock("sn580")
    without = stock_models.stock("sn580", without="iocost host 16/66")
    assert with_it["uncertainty"]["read"] < without["uncertainty"]["read"]


def test_features_that_a_user_types_change_a_class() -> None:
    plain = stock_models.stock("nvme-consumer")
    quick = stock_models.stock("nvme-consumer", {"rated_random_read_iops": 1_500_000, "dram": True})
    assert quick["sustained_read_command_ns"] < plain["sustained_read_command_ns"]
    assert quick["uncertainty"]["read"] < plain["uncertainty"]["read"]
    assert stock_models.stock("nvme-consumer", {"dram": "no", "rated_random_read_iops": "x"}) != quick


@pytest.mark.parametrize("name", [model.name for model in stock_models.library() if model.flash])
def test_every_flash_disk_of_the_library_has_a_place_among_the_measured_ones(name: str) -> None:
    table = stock_models.stock(name)
    assert 100 <= table["sustained_read_command_ns"] < 100_000
    assert all(0 < table["uncertainty"][kind] < 2 for kind in ("read", "write", "sync"))


def test_disks_of_another_bus_say_nothing_but_of_durable_writes() -> None:
    sata = replace(DISK, bus="sata")
    assert estimate(READ_BYTES, "", sata) is None
    nvme_writes, sata_writes = estimate(RANDOM_WRITE, "", DISK), estimate(RANDOM_WRITE, "", sata)
    assert nvme_writes is not None and sata_writes is not None
    assert sata_writes.deviation < nvme_writes.deviation
