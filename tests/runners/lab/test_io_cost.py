"""What an I/O costs in a guest, from fio's figures."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from blklab.errors import BlklabError
from blklab.runners.lab.io_cost import measure_io_cost
from blklab.runners.lab.machine.boot import GuestMachine
from blklab.runners.lab.machine.disks import RESULTS
from tests.runners.lab.stacks.recording import Recorder


def document() -> dict[str, Any]:
    """1000 reads in 500 ms, each 0.3 ms on the disk; fio submitted for 0.2 ms, then waited 0.25 ms."""
    read = {"io_bytes": 4_096_000, "bw_bytes": 8_192_000, "iops": 2000, "runtime": 500, "total_ios": 1000}
    times = {"slat_ns": {"mean": 200_000.0, "N": 1000}, "clat_ns": {"mean": 250_000.0, "N": 1000}}
    return {
        "fio version": "fio-3.33",
        "jobs": [{"jobname": "alone", "groupid": 0, "read": {**read, **times}}],
        "disk_util": [{"name": "vdb", "read_ios": 1000, "write_ios": 0, "read_ticks": 300, "util": 90.0}],
    }


def guest(fio: object, serial: str = RESULTS) -> tuple[GuestMachine, Recorder]:
    recorder = Recorder({"/sys/block/vda/serial": "fast", "/sys/block/vdb/serial": serial}, {"fio ": json.dumps(fio)})
    return cast("GuestMachine", SimpleNamespace(agent=recorder)), recorder


def test_the_disk_the_processor_and_the_job_each_have_their_time() -> None:
    machine, recorder = guest(document())
    # 0.5 ms from one to the next: 0.05 ms neither submitting nor waiting, 0.2 ms without a request.
    assert measure_io_cost(machine) == {
        "latency_ns": 300_000,
        "submit_ns": 200_000,
        "reap_ns": 50_000,
        "wake_ns": 200_000,
    }
    (command,) = recorder.ran
    assert command.startswith("fio --output-format=json --name=alone --filename=/dev/vdb --rw=randread ")


def test_no_other_disk_is_read() -> None:
    with pytest.raises(BlklabError, match="no disk for results"):
        measure_io_cost(guest(document(), serial="other")[0])


@pytest.mark.parametrize(
    "changed",
    [
        {"jobs": document()["jobs"] * 2},
        {"disk_util": []},
        {"disk_util": [{"name": "vdb", "read_ios": 0, "read_ticks": 300}]},
        {"jobs": [{"jobname": "alone", "write": document()["jobs"][0]["read"]}]},
    ],
)
def test_a_guest_whose_fio_reports_something_else_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(BlklabError, match="cannot measure the cost of an I/O"):
        measure_io_cost(guest({**document(), **changed})[0])
