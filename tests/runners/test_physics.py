"""What must hold for every calibration: rules of md, and what two disks do that one cannot."""

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
    result = simulate(UNLIKE)
    iops = {name: outcome.read.iops for name, outcome in result.items()}
    assert iops["n2 randread 4.19"] < iops["raid1 randread 4.19"] / 2
    assert iops["n2 randread 5.3"] == pytest.approx(iops["raid1 randread 5.3"], rel=0.05)
    for layout in ("f2", "o2"):
        halves = {"nvme": 0.5, "ssd": 0.5}
        assert reads(result[f"{layout} randread 4.19"]) == pytest.approx(halves, abs=0.02)
        assert reads(result[f"{layout} randread 5.3"])["nvme"] > 0.7
    for name, outcome in result.items():
        if "randwrite" in name:
            assert writes(outcome) == pytest.approx({"nvme": 0.5, "ssd": 0.5}, abs=0.005), name


def test_direct_writes_pass_the_throttle_below_a_mirror_since_6_15(simulate: Simulate) -> None:
    result = simulate(UNLIKE.replace('["4.19", "5.3"]', '["6.1", "6.14", "6.15"]'))
    for stack in ("raid1", "n2", "f2"):
        iops = {kernel: result[f"{stack} randwrite {kernel}"].write.iops for kernel in ("6.1", "6.14", "6.15")}
        assert iops["6.14"] == pytest.approx(iops["6.1"], rel=0.01)
        assert iops["6.15"] > 1.04 * iops["6.14"], stack


SYNCING = """
[devices]
disk = { kind = "throttled", iops_total = 250, bps_total = 5_000_000, size = "1GiB", count = 3 }

[stacks]
raid5 = { level = 5, members = ["disk"], sync = "check" }

[workloads]
randread = { rw = "randread", bs = "4k", time_based = true }
randwrite = { rw = "randwrite", bs = "4k", iodepth = 4, time_based = true }

[settings]
runtime = "10s"

[matrix]
kernel = ["6.1", "6.15", "6.16"]
"""


def test_a_check_gives_way_to_other_io_since_6_16(simulate: Simulate) -> None:
    # Linux 7.3 in the lab: 63 reads and 74 writes per second, where 6.1 does 5 and 14.
    iops = {name: outcome.read.iops + outcome.write.iops for name, outcome in simulate(SYNCING).items()}
    for load, measured in (("randread", 63), ("randwrite", 74)):
        assert iops[f"raid5 {load} 6.15"] == pytest.approx(iops[f"raid5 {load} 6.1"], rel=0.1)
        assert iops[f"raid5 {load} 6.16"] > 4 * iops[f"raid5 {load} 6.15"]
        assert iops[f"raid5 {load} 6.16"] == pytest.approx(measured, rel=0.35)


RMW_LEVELS = """
[devices]
d = { model = "hdd-7200", size = "400GiB", count = 10, volatile_cache = false }

[stacks]
modifies = { level = 6, members = ["d"], chunk = "64K", group_thread_cnt = 4 }
reconstructs = { level = 6, members = ["d"], chunk = "64K", group_thread_cnt = 4, rmw_level = 0 }

[workloads]
4k = { rw = "randwrite", bs = "4k" }
16k = { rw = "randwrite", bs = "16k" }
256k = { rw = "randwrite", bs = "256k" }
512k = { rw = "randwrite", bs = "512k" }

[settings]
kernel = "4.1"
runtime = 120
host = { cores = 8 }
"""


def test_rmw_level_gains_what_was_measured(simulate: Simulate) -> None:
    # Ten disks of 7,200 rpm, 8 threads, 4.1: commit 584acdd49cd2. Its message does not state whether the disks' caches
    # were on; without them, as here, the ratios agree.
    spec = RMW_LEVELS.replace(' = { rw = "randwrite"', ' = { rw = "randwrite", ioengine = "psync", numjobs = 8')
    iops = {name: outcome.write.iops for name, outcome in simulate(spec).items()}
    for bs, gain in (("4k", 41.2 / 35.0), ("16k", 40.0 / 33.4), ("256k", 29.5 / 29.8), ("512k", 38.4 / 38.5)):
        assert iops[f"modifies {bs}"] / iops[f"reconstructs {bs}"] == pytest.approx(gain, rel=0.05), bs


def test_two_disks_read_twice_as_fast(simulate: Simulate) -> None:
    result = simulate(DISKS)
    item, mirror = (result[f"{stack} randread"].read.iops for stack in ("one", "mirror"))
    assert 1.7 < mirror / item < 2.4


def test_a_write_mostly_member_is_not_read(simulate: Simulate) -> None:
    result = simulate(DISKS)
    for workload in ("randread", "randrw"):
        assert reads(result[f"aside {workload}"])["hdd2"] == 0
    assert writes(result["aside randrw"]) == pytest.approx({"hdd1": 0.5, "hdd2": 0.5}, abs=0.02)


def test_a_member_left_alone_is_read_though_write_mostly(simulate: Simulate) -> None:
    text = DISKS.replace(
        'aside = { level = 1, members = ["hdd"], write_mostly = ["hdd2"] }',
        'aside = { level = 1, members = ["missing", "hdd2"], write_mostly = ["hdd2"] }',
    ).replace('mirror = { level = 1, members = ["hdd"] }\n', "")
    assert reads(simulate(text)["aside randread"])["hdd2"] == 1


STREAM = """
[devices]
hdd = { model = "hds725050" }

[stacks]
alone = { device = "hdd" }

[workloads]
read = { rw = "read", bs = "64k", size = "1GiB" }

[settings]
runtime = "5s"

[matrix]
bs = ["4k", "64k", "1m"]
iodepth = [1, 4]
"""


def test_a_disk_reads_a_stream_as_fast_as_its_platters_turn(simulate: Simulate) -> None:
    for name, outcome in simulate(STREAM).items():
        # 540 kB a revolution at 120 revolutions a second, less a change of track each.
        assert 50e6 < outcome.read.bw_bytes < 66e6, name


PAUSES = """
[devices]
disk = { kind = "throttled", capacity = "1GiB", latency_ns = 10_000_000 }

[stacks]
alone = { device = "disk" }

[workloads]
randread = { rw = "randread", iodepth = 4, thinktime = "100ms", thinktime_blocks = 4 }

[settings]
runtime = "20s"
"""


def test_a_pause_begins_when_nothing_is_in_flight(simulate: Simulate) -> None:
    (outcome,) = simulate(PAUSES).values()
    # Four I/Os take 10 ms together, then nothing happens for 100 ms.
    assert outcome.read.iops == pytest.approx(4 / 0.11, rel=0.02)


STRIPES = """
[devices]
ssd = { model = "sm883", size = "10GiB", count = 2 }
alone = { model = "sm883", size = "10GiB" }

[stacks]
one = { device = "alone" }
raid0 = { level = 0, chunk = "64k", members = ["ssd"] }

[workloads]
randwrite = { rw = "randwrite", iodepth = 64, numjobs = 4, size = "4GiB" }

[settings]
kernel = "6.1"
max_ios = 100_000
"""


def test_raid0_of_two_doubles_and_is_not_throttled(simulate: Simulate) -> None:
    result = {name.split()[0]: outcome for name, outcome in simulate(STRIPES).items()}
    ratio = result["raid0"].write.iops / result["one"].write.iops
    assert ratio == pytest.approx(2, rel=0.05)
    assert all(disk.throttle_waits == 0 for disk in result["raid0"].devices)
