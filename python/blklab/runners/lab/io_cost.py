"""Measures the cost of an I/O in a guest."""

from itertools import pairwise

from blklab.errors import BlklabError
from blklab.fio import output
from blklab.fio.latency import parse_latency
from blklab.fio.node import JsonNode
from blklab.outcome import IoCost
from blklab.runners.fio.process import PATIENCE
from blklab.runners.lab.guest_files import results_device
from blklab.runners.lab.layer_activity import DISKSTATS
from blklab.runners.lab.machine.boot import GuestMachine
from blklab.system import diskstats

ALONE = "--rw=randread --bs=4k --size=16m --iodepth=1 --direct=1 --ioengine=libaio --time_based --runtime=1s"
"""One I/O at a time: where disks are limited, jobs sleep between their I/Os."""
CALM_SPAN_MS = 50  # A busy host delays I/Os of a guest, never the reverse: of such spans the first quartile counts


def measure_io_cost(machine: GuestMachine) -> IoCost:
    """Measures the cost of an I/O on the disk for results, which no cell uses and nothing limits.

    The kernel counts the disk's own time (block/blk-mq.c, `blk_account_io_done`), and fio (io_u.c,
    ioengines.c) the time of a submission, and from there to the completion. Raises BlklabError.
    """
    device = results_device(machine)
    options = ["--output-format=json", "--name=alone", f"--filename={device}", *ALONE.split(), "--thread"]
    with machine.agent.sampling(CALM_SPAN_MS, [DISKSTATS]) as samples:
        ran = machine.agent.run(["fio", *options], timeout=PATIENCE)
    readings = [
        (sample.t_ns, diskstats.of(diskstats.parse(sample.files.get(DISKSTATS) or ""), device.removeprefix("/dev/")))
        for sample in samples
    ]
    spans = []
    for (start_ns, before), (end_ns, after) in pairwise(readings):
        reads = after.reads - before.reads
        if reads > 0:
            busy_ns = (after.read_ticks - before.read_ticks) * diskstats.MS
            spans.append(((end_ns - start_ns) / reads, busy_ns / reads))
    document = output.parse_document(ran.stdout)
    iops = output.outcome(document).read.iops
    if not spans or not iops:
        raise BlklabError("cannot measure the cost of an I/O: fio in the guest did not read")
    interval_ns, latency_ns = sorted(spans)[len(spans) // 4]
    fio_read = next(JsonNode(document, "").parts("jobs")).part("read") or JsonNode({}, "")
    # fio has only means: the same share of this interval.
    shares = [parse_latency(fio_read, 1, key).mean * iops / 1e9 for key in ("slat_ns", "clat_ns")]
    return IoCost(
        latency_ns=max(0, round(latency_ns)),
        submit_ns=round(interval_ns * shares[0]),
        reap_ns=max(0, round(interval_ns * (1 - sum(shares)))),
        wake_ns=max(0, round(interval_ns - latency_ns)),
    )
