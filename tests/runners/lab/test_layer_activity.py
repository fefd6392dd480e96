"""From made samples of the guest's statistics to what each layer did."""

from typing import Any

import pytest

from blklab.errors import BlklabError
from blklab.runners.lab.agent import FileSample
from blklab.runners.lab.layer_activity import compute_activity
from blklab.runners.lab.stacks.guest import GuestLayer
from tests.runners.lab.stacks.recording import Recorder, guest

MS = 10**6


def sample(ms: int, *, top: int, disk: int, user: int = 0) -> FileSample:
    """A reading: reads of the array and of the disk below it, 8 sectors each."""
    lines = [
        f"   9       0 md0 {top} 0 {top * 8} {top} 0 0 0 0 0 {top} {top}",
        f" 254       0 vda {disk} 0 {disk * 8} {disk} 0 0 0 0 0 {disk} {disk} 0 0 0 0 0 0",
        " 254      16 vdz 1 0 8 1 0 0 0 0 0 1 1",
    ]
    cpu = f"cpu  {user} 0 0 {1000 - user} 0 0 0 0 0 0\n"
    files: dict[str, str | None] = {"/proc/diskstats": "\n".join(lines) + "\n", "/proc/stat": cpu}
    return FileSample(ms * MS, files)


def stack() -> Any:
    made = guest(Recorder(), "fast")
    made.layers[0].above.append("mirror")
    made.layers.append(GuestLayer("mirror", "md", "md0"))
    return made


def document(ramp_ms: int = 0, interval_ms: int = 250) -> Any:
    return {"ramp_ns": ramp_ms * MS, "interval_ns": interval_ms * MS}


STARTING = [sample(0, top=5, disk=7), sample(250, top=5, disk=9), sample(500, top=5, disk=9)]
LOAD = [sample(750 + 250 * at, top=105 + 100 * at, disk=109 + 100 * at) for at in range(4)]
AFTER = [sample(1750, top=405, disk=500), sample(2000, top=405, disk=500)]


def test_the_load_is_where_the_top_has_io() -> None:
    result = compute_activity(stack(), [*STARTING, *LOAD, *AFTER], document())
    assert result.watched_ns == 1000 * MS
    fast, mirror = result.devices
    assert (mirror.name, mirror.kind, mirror.leaf) == ("mirror", "md", False)
    assert mirror.ios == [400, 0]
    assert (fast.name, fast.leaf, fast.id, fast.above) == ("fast", True, "fast", ["mirror"])
    assert fast.ios == [400, 0]
    assert fast.sectors == [3200, 0]
    assert {point.source for point in result.points} == {"fast", "mirror"}
    assert result.problems == []


def test_a_ramp_is_left_out() -> None:
    result = compute_activity(stack(), [*STARTING, *LOAD, *AFTER], document(ramp_ms=500))
    assert result.watched_ns == 500 * MS
    assert result.devices[1].ios == [200, 0]


def test_without_any_io_all_is_watched() -> None:
    result = compute_activity(stack(), STARTING, document())
    assert result.watched_ns == 500 * MS
    assert [device.ios for device in result.devices] == [[2, 0], [0, 0]]


def test_points_are_an_interval_apart() -> None:
    few = compute_activity(stack(), [*STARTING, *LOAD], document(interval_ms=500)).points
    many = compute_activity(stack(), [*STARTING, *LOAD], document(interval_ms=250)).points
    assert 0 < len(few) < len(many)


@pytest.mark.parametrize("text", [None, "nonsense\n", "254 0 vda x\n"])
def test_statistics_that_cannot_be_read(text: str | None) -> None:
    spoilt = FileSample(1, {"/proc/diskstats": text, "/proc/stat": "cpu 0 0 0 0\n"})
    with pytest.raises(BlklabError, match=r"the guest's /proc/diskstats"):
        compute_activity(stack(), [spoilt, spoilt], document())
