"""The simulator as Python calls it."""

import json
from pathlib import Path
from typing import Any

import pytest

from blklab import _core
from blklab.errors import UsageError

TRACE = str(Path(__file__).parent / "data" / "traces" / "pgbench-raid1")


def mirror(size: int, replay: dict[str, Any] | None) -> str:
    """Returns a RAID-1 of two disks of 260 IOPS, as the trace was recorded on."""
    queue = {
        "scheduler": "mq-deadline",
        "nr_requests": 256,
        "queue_depth": 128,
        "max_bytes": 1310720,
        "rotational": True,
        "wbt_lat_ns": 75_000_000,
        "write_back": True,
    }
    model = {"kind": "throttled", "iops_total": 260.0, "latency_ns": 100_000}
    devices = [{"name": name, "bytes": size, "model": model, "queue": queue} for name in ("a", "b")]
    members = [{"node": {"device": 0}}, {"node": {"device": 1}}]
    stack = {"md": {"name": "md0", "level": "raid1", "members": members}}
    cell = {"seed": 1, "kernel": "6.1", "devices": devices, "stack": stack, "replay": replay}
    return json.dumps(cell)


@pytest.mark.parametrize("timed", [True, False])
def test_a_trace_is_replayed_whole(timed: bool) -> None:
    chosen = _core.Filter(devices=["md127"])
    recorded = json.loads(_core.characterise([TRACE], chosen))["devices"][0]
    asked = recorded["load"]["ops"]
    cell = mirror(4 << 30, {"timed": timed, "iodepth": 8})
    outcome = json.loads(_core.simulate(cell, trace=([TRACE], None, "md127")))
    (group,) = outcome["groups"]
    assert group["name"] == "replay"
    for op in ("read", "write"):
        result = (group[op]["total_ios"], group[op]["io_bytes"])
        assert result == (asked[op]["ios"], asked[op]["bytes"])
    # A filter is the same as the device that it wants.
    assert json.loads(_core.simulate(cell, trace=([TRACE], None, chosen))) == outcome
    if timed:
        # Recorded on disks like these, so it takes as long, to what is still in flight at the end.
        seconds = (recorded["last_ns"] - recorded["first_ns"]) / 1e9
        assert outcome["runtime_ns"] / 1e9 == pytest.approx(seconds, rel=0.05)


def test_what_does_not_fit_is_refused() -> None:
    timed = {"timed": True, "iodepth": 1}
    with pytest.raises(
        UsageError, match=r"^trace: I/Os of the devices .*: choose one \(--device, or `device` in an experiment\)$"
    ):
        _core.simulate(mirror(4 << 30, timed), trace=([TRACE], None, None))
    with pytest.raises(UsageError, match=r"^replay: the .* ends beyond the stack, which has 2048 sec"):
        _core.simulate(mirror(1 << 20, timed), trace=([TRACE], None, "md127"))
    with pytest.raises(UsageError, match=r"^replay: the cell has `replay`, but no trace was given$"):
        _core.simulate(mirror(4 << 30, timed))
    with pytest.raises(UsageError, match=r"nowhere: does not exist"):
        _core.simulate(mirror(4 << 30, timed), trace=(["nowhere"], None, None))
