"""What an I/O costs in a guest, apart from the limits of disks."""

from typing import Final

from blklab.errors import BlklabError
from blklab.fio import output
from blklab.fio.latency import parse_latency
from blklab.fio.node import JsonNode
from blklab.outcome import IoCost
from blklab.runners.fio.process import PATIENCE
from blklab.runners.lab.files import results_device
from blklab.runners.lab.machine.boot import GuestMachine

OPTIONS: Final = (
    "--rw=randread --bs=4k --size=16m --iodepth=1 --direct=1 --ioengine=libaio --time_based --runtime=500ms"
)
"""One I/O at a time: where disks are limited, jobs sleep between their I/Os."""


def measure_io_cost(machine: GuestMachine) -> IoCost:
    """Measures the cost of an I/O on the disk for results, which no cell uses and nothing limits.

    The kernel counts the disk's own time (block/blk-mq.c, `blk_account_io_done`), and fio (io_u.c,
    ioengines.c) the time of a submission, and from there to the completion. Raises BlklabError.
    """
    words = ["--output-format=json", "--name=alone", f"--filename={results_device(machine)}", *OPTIONS.split()]
    document = output.parse_document(machine.agent.run(["fio", *words, "--thread"], timeout=PATIENCE).stdout)
    outcome = output.outcome(document)
    try:
        (disk,), (job,) = outcome["devices"], JsonNode(document, "").parts("jobs")
        latency_ns = (disk["ticks_ns"] or [])[0] / disk["ios"][0]
        interval_ns = 1e9 / outcome["read"]["iops"]
    except (ValueError, IndexError, ZeroDivisionError):
        raise BlklabError("cannot measure the cost of an I/O: fio in the guest did not report reads") from None
    submit_ns, wait_ns = (parse_latency(job.part("read") or job, 1, key).mean for key in ("slat_ns", "clat_ns"))
    return {
        "latency_ns": round(latency_ns),
        "submit_ns": round(submit_ns),
        "reap_ns": max(0, round(interval_ns - submit_ns - wait_ns)),
        "wake_ns": max(0, round(interval_ns - latency_ns)),
    }
