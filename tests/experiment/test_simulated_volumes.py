"""Logical volumes in the simulator."""

import re
from pathlib import Path
from typing import Any

import pytest

from blklab.errors import UsageError
from blklab.experiment import cells, load
from blklab.runners.sim.runner import outcomes

DEVICES = {
    name: {"kind": "throttled", "iops_total": 400, "bps_total": 20_000_000, "size": "64MiB", "rotational": False}
    for name in ("a", "b", "c")
}
WORKLOADS = {"stream": {"rw": "read", "bs": "128k", "iodepth": 8, "runtime": "4s"}}


def document(**stacks: dict[str, Any]) -> Any:
    """The document of the first stack."""
    tables = {"devices": DEVICES, "stacks": stacks, "workloads": WORKLOADS, "settings": {"kernel": "6.1"}}
    raw = {**tables, "matrix": {"stack": [next(iter(stacks))]}}
    plan = cells.plan(load.ExperimentSource(Path("volumes.toml"), raw))
    return plan.cells[0].document


def level(node: Any) -> str:
    return str(node["md"]["level"])


def test_a_volume_over_several_devices_is_linear() -> None:
    node = document(volume={"kind": "lvm", "members": ["a", "b"]})["stack"]
    assert level(node) == "linear"
    assert [member["node"] for member in node["md"]["members"]] == [{"device": 0}, {"device": 1}]


def test_a_volume_with_stripes_is_raid0() -> None:
    node = document(volume={"kind": "lvm", "members": ["a", "b", "c"], "stripes": 2, "stripe_size": "32K"})["stack"]
    assert (level(node), node["md"]["chunk"], len(node["md"]["members"])) == ("raid0", 32 << 10, 2)


def test_a_volume_on_an_array_and_below_a_cache() -> None:
    mirror = {"level": 1, "members": ["a", "b"]}
    node = document(volume={"kind": "lvm", "members": ["mirror"]}, mirror=mirror)["stack"]
    assert level(node) == "raid1"
    node = document(
        slow={"kind": "delay", "origin": "volume", "read": "5ms"},
        volume={"kind": "lvm", "members": ["a", "b"], "stripes": 2},
    )["stack"]
    assert level(node["delay"]["origin"]) == "raid0"


def test_stripes_add_up() -> None:
    linear = document(volume={"kind": "lvm", "members": ["a", "b"]})
    striped = document(volume={"kind": "lvm", "members": ["a", "b"], "stripes": 2})
    first, second = (result.read.bw_bytes for result in outcomes([linear, striped]))
    assert second == pytest.approx(2 * first, rel=0.1)


def test_more_stripes_than_devices_are_refused() -> None:
    with pytest.raises(UsageError, match=r"stacks\.volume\.stripes: found 3, expected at most the number of members"):
        document(volume={"kind": "lvm", "members": ["a", "b"], "stripes": 3})


def test_a_volume_with_redundancy_is_an_array_with_a_bitmap() -> None:
    mirror = document(volume={"kind": "lvm", "level": 1, "members": ["a", "b"]})["stack"]["md"]
    assert (mirror["level"], mirror["chunk"], mirror["bitmap"], mirror["bitmap_chunk"]) == ("raid1", 0, True, 2 << 20)
    table = {"kind": "lvm", "level": 5, "stripe_size": "32K", "region_size": "1MiB", "members": ["a", "b", "c"]}
    parity = document(volume=table)["stack"]["md"]
    assert (parity["level"], parity["chunk"], parity["bitmap_chunk"]) == ("raid5", 32 << 10, 1 << 20)


def test_a_volume_of_four_devices_has_near_copies() -> None:
    disk = {"a": {**DEVICES["a"], "count": 4}}
    raw = {
        "devices": disk,
        "stacks": {"volume": {"kind": "lvm", "level": 10, "members": ["a"]}},
        "workloads": WORKLOADS,
    }
    node = cells.plan(load.ExperimentSource(Path("volumes.toml"), raw)).cells[0].document["stack"]["md"]
    assert (node["level"], node["near"], node["far"], node["offset"]) == ("raid10", 2, 1, False)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"level": 0}, "level: found 0, expected one of 1, 10, 5, 6"),
        ({"level": 1, "stripes": 2}, "stripes: level 1 uses all of its members: leave the key out"),
        ({"level": 1, "stripe_size": "32K"}, "stripe_size: level 1 has no stripes"),
        ({"region_size": "1MiB"}, "region_size: only a volume with a `level` has regions"),
        ({"level": 10}, "members: found 2, level 10 needs at least 4"),
        ({"level": 5, "region_size": "3MiB"}, "region_size: 3 MiB is not a power of two"),
    ],
)
def test_a_volume_that_lvm_does_not_make_is_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"stacks.volume.{message}")):
        document(volume={"kind": "lvm", "members": ["a", "b"], **table})
