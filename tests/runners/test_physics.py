"""What must hold whatever the calibration: rules of md, and what two disks do that one cannot."""

import pytest

from tests.runners.conftest import Simulate, reads, writes

UNLIKE = """
[devices]
nvme = { model = "pm983", size = "10GiB" }
ssd = { model = "sm883", size = "10GiB" }

[stacks]
raid1 = { level = 1, members = ["nvme", "ssd"] }
n2 = { level = 10, layout = "n2", members = ["nvme", "ssd"] }
f2 = { level = 10, layout = "f2", members = ["ssd", "nvme"] }
o2 = { level = 10, layout = "o2", members = ["ssd", "nvme"] }

[workloads]
randread = { rw = "randread", iodepth = 32, numjobs = 4, size = "8GiB" }
randwrite = { rw = "randwrite", iodepth = 32, numjobs = 4, size = "8GiB" }

[settings]
max_ios = 40_000

[matrix]
kernel = ["4.19", "5.3"]
"""

DISKS = """
[devices]
hdd = { model = "wd10eacs", size = "100GiB", count = 2 }
other = { model = "wd10eacs", size = "100GiB" }

[stacks]
one = { device = "other" }
mirror = { level = 1, members = ["hdd"] }
aside = { level = 1, members = ["hdd"], write_mostly = ["hdd2"] }

[workloads]
randread = { rw = "randread", iodepth = 32 }
randrw = { rw = "randrw", iodepth = 8 }

[settings]
max_ios = 4_000
"""


def test_raid10_reads_from_the_idlest_flash_since_5_3(simulate: Simulate) -> None:
    found = simulate(UNLIKE)
    iops = {name: outcome["read"]["iops"] for name, outcome in found.items()}
    assert iops["n2 randread 4.19"] < iops["raid1 randread 4.19"] / 2
    assert iops["n2 randread 5.3"] == pytest.approx(iops["raid1 randread 5.3"], rel=0.05)
    for layout in ("f2", "o2"):
        halves = {"nvme": 0.5, "ssd": 0.5}
        assert reads(found[f"{layout} randread 4.19"]) == pytest.approx(halves, abs=0.02)
        assert reads(found[f"{layout} randread 5.3"])["nvme"] > 0.7
    for name, outcome in found.items():
        if "randwrite" in name:
            assert writes(outcome) == pytest.approx({"nvme": 0.5, "ssd": 0.5}, abs=0.005), name


def test_two_disks_read_twice_as_fast(simulate: Simulate) -> None:
    found = simulate(DISKS)
    one, mirror = (found[f"{stack} randread"]["read"]["iops"] for stack in ("one", "mirror"))
    assert 1.7 < mirror / one < 2.4


def test_a_write_mostly_member_is_not_read(simulate: Simulate) -> None:
    found = simulate(DISKS)
    for workload in ("randread", "randrw"):
        assert reads(found[f"aside {workload}"])["hdd2"] == 0
    assert writes(found["aside randrw"]) == pytest.approx({"hdd1": 0.5, "hdd2": 0.5}, abs=0.02)


def test_a_member_left_alone_is_read_though_write_mostly(simulate: Simulate) -> None:
    text = DISKS.replace(
        'aside = { level = 1, members = ["hdd"], write_mostly = ["hdd2"] }',
        'aside = { level = 1, members = ["missing", "hdd2"], write_mostly = ["hdd2"] }',
    ).replace('mirror = { level = 1, members = ["hdd"] }\n', "")
    assert reads(simulate(text)["aside randread"])["hdd2"] == 1
