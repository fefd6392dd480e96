"""What an I/O costs in a guest, from fio's figures and the disk's statistics."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from blklab.errors import BlklabError
from blklab.outcome import IoCost
from blklab.runners.lab.agent import FileSample
from blklab.runners.lab.io_cost import measure_io_cost
from blklab.runners.lab.machine.boot import GuestMachine
from blklab.runners.lab.machine.qemu import RESULTS
from tests.runners.lab.stacks.recording import Recorder

QUIET = [(0, 0, 0), (50, 0, 0), (100, 100, 30), (150, 200, 60), (200, 300, 90)]
"""ms, reads and ms of reads: a read each 0.5 ms, of which 0.3 ms on the disk."""

STOPPED = [(700, 301, 390), (750, 401, 420)]
"""The host stops the guest for half a second."""


def document(**read: object) -> dict[str, Any]:
    """2000 reads a second; fio submitted for 0.2 ms, then waited 0.25 ms."""
    figures = {"io_bytes": 4_096_000, "bw_bytes": 8_192_000, "iops": 2000, "runtime": 500, "total_ios": 1000}
    times = {"slat_ns": {"mean": 200_000.0, "N": 1000}, "clat_ns": {"mean": 250_000.0, "N": 1000}}
    return {"fio version": "fio-3.33", "jobs": [{"jobname": "alone", "read": {**figures, **times, **read}}]}


class Sampled(Recorder):
    readings: Sequence[tuple[int, int, int]] = QUIET

    @contextmanager
    def sampling(self, _interval_ms: int, paths: Sequence[str]) -> Iterator[list[FileSample]]:
        """Returns the readings for vdb; vda reads, too."""
        samples: list[FileSample] = []
        yield samples
        for at_ms, reads, ticks in self.readings:
            lines = [f"254 0 vda {at_ms} 0 8 {at_ms} 0 0 0 0 0 0 0", f"254 16 vdb {reads} 0 8 {ticks} 0 0 0 0 0 0 0"]
            samples.append(FileSample(at_ms * 10**6, {paths[0]: "\n".join(lines) + "\n"}))


def guest(fio: object, serial: str = RESULTS) -> tuple[GuestMachine, Sampled]:
    serials = {"/sys/block/vda/serial": "fast", "/sys/block/vdb/serial": serial}
    recorder = Sampled(serials, {"fio ": json.dumps(fio)})
    return cast("GuestMachine", SimpleNamespace(agent=recorder)), recorder


def test_the_disk_the_processor_and_the_job_each_have_their_time() -> None:
    machine, recorder = guest(document())
    # 0.05 ms neither submitting nor waiting, 0.2 ms without a request on the disk.
    cost = IoCost(latency_ns=300_000, submit_ns=200_000, reap_ns=50_000, wake_ns=200_000)
    assert measure_io_cost(machine) == cost
    (command,) = recorder.ran
    assert command.startswith("fio --output-format=json --name=alone --filename=/dev/vdb --rw=randread ")


def test_a_busy_host_that_stops_the_guest_does_not_count() -> None:
    machine, recorder = guest(document(total_ios=500, slat_ns={"mean": 400_000.0}, clat_ns={"mean": 500_000.0}))
    recorder.readings = [*QUIET, *STOPPED]
    cost = IoCost(latency_ns=300_000, submit_ns=200_000, reap_ns=50_000, wake_ns=200_000)
    assert measure_io_cost(machine) == cost


def test_no_other_disk_is_read() -> None:
    with pytest.raises(BlklabError, match="no disk for results"):
        measure_io_cost(guest(document(), serial="other")[0])


@pytest.mark.parametrize(("read", "readings"), [({}, QUIET[:2]), ({}, []), ({"iops": 0, "total_ios": 0}, QUIET)])
def test_a_guest_whose_fio_does_not_read_is_refused(read: dict[str, Any], readings: list[tuple[int, int, int]]) -> None:
    machine, recorder = guest(document(**read))
    recorder.readings = readings
    with pytest.raises(BlklabError):
        measure_io_cost(machine)
