"""What disks are throttled to."""

from pathlib import Path
from typing import Any

import pytest

from blklab.errors import BlklabError
from blklab.experiment import lab_cell
from blklab.experiment.cells import plan
from blklab.runners.lab.rates import REACH_BYTES, REACH_IOPS, DiskRates, factor
from blklab.runners.lab.rates import rates as scaled


def document(tmp_path: Path, devices: str, *, workload: str = "rw = 'randread'", lab: str = "") -> Any:
    path = tmp_path / "exp.toml"
    path.write_text(
        f"[devices]\n{devices}\n"
        '[stacks.mirror]\nlevel = 1\nmembers = ["a", "b"]\n'
        f'[workloads.load]\nsize = "64MiB"\nruntime = "1s"\n{workload}\n'
        f"[lab]\n{lab}\n"
    )
    (cell,) = plan(path, form=lab_cell.FORM).cells
    return dict(cell.document)


def throttled(name: str, **limits: int) -> str:
    words = "".join(f", {key} = {value}" for key, value in limits.items())
    return f'{name} = {{ kind = "throttled", size = "1GiB"{words} }}\n'


def rates(result: Any, accel: str) -> DiskRates:
    return scaled(result, factor([result], accel))


def test_limits_are_as_they_are_said(tmp_path: Path) -> None:
    result = rates(document(tmp_path, throttled("a", iops_total=1000, bps_write=1 << 20) + throttled("b")), "tcg")
    assert result.scale == 1
    assert result.limits == [{"iops_total": 1000, "bps_write": 1 << 20}, {}]


def test_rates_beyond_reach_are_divided_by_one_factor(tmp_path: Path) -> None:
    devices = throttled("a", iops_read=60_000, iops_write=10_000) + throttled("b", iops_read=3_000)
    result = rates(document(tmp_path, devices), "tcg")
    assert result.scale == 21  # 63,000 over 3,000
    assert result.limits == [{"iops_read": 2857, "iops_write": 476}, {"iops_read": 143}]
    assert rates(document(tmp_path, devices), "kvm").scale == pytest.approx(1.1)


def test_bandwidth_beyond_reach(tmp_path: Path) -> None:
    devices = throttled("a", bps_total=REACH_BYTES["tcg"] * 3) + throttled("b", iops_total=100)
    result = rates(document(tmp_path, devices), "tcg")
    assert result.scale == 3
    assert result.limits == [{"bps_total": REACH_BYTES["tcg"]}, {"iops_total": 33}]


def test_a_factor_is_rounded_up_to_two_digits(tmp_path: Path) -> None:
    devices = throttled("a", iops_total=REACH_IOPS["tcg"] * 100 + 1) + throttled("b", iops_total=1)
    with pytest.raises(BlklabError, match="device b: iops_total of 1, divided by 110, is less than"):
        rates(document(tmp_path, devices), "tcg")


def test_a_factor_of_the_users(tmp_path: Path) -> None:
    devices = throttled("a", iops_total=1000) + throttled("b", iops_total=200)
    result = rates(document(tmp_path, devices, lab="scale = 2.5"), "tcg")
    assert result.scale == 2.5
    assert result.limits == [{"iops_total": 400}, {"iops_total": 80}]


MODELS = 'a = { model = "pm983", size = "4GiB" }\nb = { model = "wd10eacs", size = "4GiB" }\n'


def test_a_models_random_rates_are_what_it_does_alone(tmp_path: Path) -> None:
    result = rates(document(tmp_path, MODELS, workload="rw = 'randread'\niodepth = 8"), "kvm")
    flash, disk = result.limits
    assert flash.keys() == disk.keys() == {"iops_read", "iops_write"}
    assert 30 < disk["iops_read"] * result.scale < 400
    assert flash["iops_read"] / disk["iops_read"] > 100


def test_a_models_sequential_rates_are_bytes(tmp_path: Path) -> None:
    result = rates(document(tmp_path, MODELS, workload="rw = 'read'\nbs = '1MiB'"), "tcg")
    flash, disk = result.limits
    assert flash.keys() == disk.keys() == {"bps_read", "bps_write"}
    assert 50e6 < disk["bps_read"] * result.scale < 150e6
    assert flash["bps_read"] > 5 * disk["bps_read"]


def test_a_models_mixed_rates_are_of_both_together(tmp_path: Path) -> None:
    result = rates(document(tmp_path, MODELS, workload="rw = 'randrw'\nrwmixread = 70"), "kvm")
    assert [set(limits) for limits in result.limits] == [{"iops_total"}, {"iops_total"}]


def test_all_cells_have_one_factor(tmp_path: Path) -> None:
    fast = document(tmp_path, throttled("a", iops_total=60_000) + throttled("b"))
    slow = document(tmp_path, throttled("a", iops_total=600) + throttled("b"))
    assert factor([slow], "tcg") == 1
    result = factor([slow, fast], "tcg")
    assert result == 20
    assert scaled(slow, result).limits == [{"iops_total": 30}, {}]


TWINS = """
a = { model = "st5000lm000", size = "100GiB" }
b = { model = "st5000lm000", size = "100GiB" }
"""


def test_a_stack_that_turns_writes_into_reads_has_one_limit_for_both(tmp_path: Path) -> None:
    writes = document(tmp_path, TWINS, workload="rw = 'randwrite'\niodepth = 32")
    (mirror, _) = rates(writes, "tcg").limits
    assert set(mirror) == {"iops_read", "iops_write"}
    parity = {**writes, "stack": {"md": {**writes["stack"]["md"], "level": "raid5"}}}
    (member, _) = rates(parity, "tcg").limits
    assert set(member) == {"iops_total"}
    assert member["iops_total"] < mirror["iops_read"] + mirror["iops_write"]


def test_a_load_that_waits_for_latency_is_doubted(tmp_path: Path) -> None:
    alone = document(tmp_path, TWINS, workload="rw = 'randread'\niodepth = 1")
    (doubt,) = rates(alone, "tcg").doubts
    assert doubt.message.startswith("the load is limited by the latency of each hdd")
    deep = document(tmp_path, TWINS, workload="rw = 'randread'\niodepth = 256")
    assert rates(deep, "tcg").doubts == []
    output = document(tmp_path, throttled("a", iops_total=100) + throttled("b"))
    assert rates(output, "tcg").doubts == []
