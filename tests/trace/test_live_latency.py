"""The latencies that `blklab tune --live` takes from an interval of a trace."""

from pathlib import Path

from blklab.trace.record.live_latency import summarise_profile
from tests.trace.conftest import life, read_trace
from tests.trace.generated import write_trace

MS = 1_000_000


def test_latencies_are_those_of_the_named_devices_by_direction(tmp_path: Path) -> None:
    records = [record for number in range(10) for record in life(20 * MS * number, 8 * number)]
    records += life(300 * MS, 8000, write=True)
    view = read_trace(write_trace(tmp_path / "trace", records))
    (device,) = view.devices
    latencies = summarise_profile(view.profile, [device.number])
    (reads,) = latencies["read"]
    assert (reads.ios, reads.mean, reads.p99, reads.max) == (10, 10 * MS, 10 * MS, 10 * MS)
    (writes,) = latencies["write"]
    assert writes.ios == 1
    assert summarise_profile(view.profile, ["1,2"]) == {"read": [], "write": []}
