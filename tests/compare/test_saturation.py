"""Where more load no longer pays."""

from typing import Any

import pytest

from blklab.campaigns import runs as report
from blklab.compare.saturation import Measured, curves, in_flight
from blklab.outcome import Outcome


def queue(threads: int, bs: str = "4k", *, service: float = 0.01, servers: int = 4) -> Measured:
    """A closed queue of so many servers: its throughput is known from the first principles."""
    iops = min(threads, servers) / service
    latency = threads / iops * 1e9
    half: Any = {"total_ios": 100, "iops": iops / 2, "clat_ns": {"mean": latency, "min": 1e6, "max": 9e9}}
    labels = {"stack": "x", "bs": bs, "numjobs": str(threads), "repeat": "1"}
    document = {"jobs": [{"numjobs": threads, "iodepth": 1}]}
    return labels, document, Outcome.from_document({"read": half, "write": half})


def test_a_queue_bends_where_its_servers_are_all_busy() -> None:
    (curve,) = curves([queue(threads) for threads in (1, 2, 3, 4, 6, 8, 16)])
    assert (curve.knee.in_flight, curve.saturated.in_flight) == (4, 4)
    assert curve.overloaded is None
    assert "the knee is at 4 I/Os in flight (400 IOPS, 10 ms); saturated from 4" in report.saturation_sentence(curve)


def test_too_much_load_is_seen() -> None:
    runs = [queue(threads) for threads in (1, 2, 4, 8)]
    (curve,) = curves([*runs, queue(16, service=0.02), queue(32, service=0.04)])
    assert curve.overloaded is not None
    assert curve.overloaded.in_flight == 16
    assert "IOPS fall again at 16 (200 IOPS)" in report.saturation_sentence(curve)


def test_each_block_size_has_a_curve() -> None:
    result = curves([queue(threads, bs) for bs in ("4k", "64k") for threads in (1, 2, 4)])
    assert [curve.labels for curve in result] == [{"bs": "4k"}, {"bs": "64k"}]
    assert curves([queue(1), queue(2)]) == []


def test_jobs_in_fios_own_words_count_as_well() -> None:
    labels, _, outcome = queue(4)
    document = {"jobs": [{"options": {"numjobs": "4", "iodepth": "8"}}]}
    loads = [({**labels, "numjobs": str(n)}, document, outcome) for n in range(3)]
    assert curves(loads) == []  # one load, three times
    assert curves([({}, {"command": ["x"]}, Outcome())] * 3) == []


@pytest.mark.parametrize(
    ("engine", "depth"), [("libaio", 64), ("io_uring", 64), ("psync", 2), ("sync", 2), ("pvsync2", 2), ("mmap", 2)]
)
def test_synchronous_engines_have_one_in_flight(engine: str, depth: int) -> None:
    options = {"numjobs": "2", "iodepth": "32", "ioengine": engine}
    assert in_flight({"jobs": [{"options": options}]}) == depth
    assert in_flight({"jobs": [{"numjobs": 2, "iodepth": 32}]}) == 64  # simulated
