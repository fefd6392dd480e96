"""Kernel generations: which are known, and what queue the kernel gives to a device by default.

Sources, by file of the kernel and the version where it changed:

- The elevator of single-queue devices is CFQ since 2.6.18 (block/Kconfig.iosched). SCSI, and with
  it SATA, is multi-queue by default since 4.19 (drivers/scsi/scsi.c, `scsi_use_blk_mq`), and
  single-queue is gone in 5.0. mq-deadline is there since 4.11; a device with one hardware queue
  gets it by default (block/elevator.c, `elevator_init_mq`), one with several gets none.
- `nr_requests` is 128 on single-queue (include/linux/blkdev.h, BLKDEV_MAX_RQ), and with a
  multi-queue elevator twice the smaller of the queue's depth and 128 (block/blk-mq-sched.c,
  `blk_mq_init_sched`).
- libata keeps one of 32 tags for itself until 4.17, and none since 4.18 (include/linux/libata.h,
  ATA_MAX_QUEUE).
- NVMe: 1024 entries a queue, one of them never filled (drivers/nvme/host/pci.c,
  `io_queue_depth`).
- virtio-blk: QEMU's 256 entries (hw/block/virtio-blk.c, `queue-size`).
- `max_sectors_kb` is 512 up to 4.2, 1280 since 4.3 and 4096 since 6.17, unless the device takes
  less (include/linux/blkdev.h, BLK_DEF_MAX_SECTORS; 9b8b84879d4a).
- Writeback throttling is there since 4.10, by default on multi-queue only (block/Kconfig,
  BLK_WBT_MQ): 2 ms for flash, 75 ms for rotating disks (block/blk-wbt.c,
  `wbt_default_latency_nsec`).
"""

import re
from typing import Literal

from blklab.package_data import toml_file

Kind = Literal["ssd", "nvme", "hdd", "throttled"]
"""Kinds of devices: SATA flash, NVMe flash, SATA disk, QEMU's virtio disk."""

Scheduler = Literal["none", "noop", "mq-deadline", "deadline", "cfq"]  # Schedulers that are simulated
FIRST = (2, 6)
LAST_MAJOR = 7
LAST_MINOR = {2: 6, 3: 19, 4: 20, 5: 19, 6: 19}  # The last release of each major version
_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})(?:\.(?:\d{1,5}|x))*(?:[-+][\w.+~-]*)?", re.A)
ALLOWED = "MAJOR.MINOR, from 2.6 to 7.x, such as 4.19 or 6.1"  # Valid kernel generations, for messages
STEPS: list[tuple[str, str]] = toml_file(__package__, "kernels.toml")["steps"]
"""The kernels in which the simulator changes, in their order, and how."""

SCSI_MQ = (4, 19)
NO_SINGLE_QUEUE = (5, 0)
MQ_SCHEDULERS = (4, 11)
WBT = (4, 10)


def parse(text: str) -> tuple[int, int]:
    """Returns (major, minor) of `4.19`, `6.1.0-18-amd64` or `2.6.24`. Raises ValueError."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid kernel {text!r}: expected {ALLOWED}")
    version = int(match[1]), int(match[2])
    last = LAST_MINOR.get(version[0])
    if version < FIRST or version[0] > LAST_MAJOR or (last is not None and version[1] > last):
        raise ValueError(f"unknown kernel {text!r}: expected {ALLOWED}")
    return version


def multi_queue(kind: Kind, version: tuple[int, int]) -> bool:
    """Tells whether the block layer is multi-queue for such a device."""
    first_by_kind = {"ssd": SCSI_MQ, "hdd": SCSI_MQ, "nvme": (3, 19), "throttled": (3, 13)}
    return version >= first_by_kind[kind]


def schedulers(kind: Kind, version: tuple[int, int]) -> list[Scheduler]:
    """Returns the simulated schedulers that a kernel offers for such a device."""
    names: list[Scheduler] = []
    if kind == "nvme" or version >= MQ_SCHEDULERS or multi_queue(kind, version):
        names.append("none")
    if version >= MQ_SCHEDULERS:
        names.append("mq-deadline")
    # scsi_mod.use_blk_mq=0 brings the single queue back until it is gone.
    scsi = kind in {"ssd", "hdd"} and version < NO_SINGLE_QUEUE
    if scsi or (kind == "throttled" and not multi_queue(kind, version)):
        names += ["noop", "deadline", "cfq"]
    return names


def requests(scheduler: Scheduler, queue_depth: int) -> int:
    """Returns the default `nr_requests` of a scheduler."""
    if scheduler == "none":
        return queue_depth
    return 2 * min(queue_depth, 128) if scheduler == "mq-deadline" else 128


def queue_depth(kind: Kind, version: tuple[int, int]) -> int:
    """Returns how many requests such a device accepts at a time."""
    sata = 32 if version >= (4, 18) else 31
    depth_by_kind = {"ssd": sata, "hdd": sata, "nvme": 1023, "throttled": 256}
    return depth_by_kind[kind]


def scheduler(kind: Kind, version: tuple[int, int]) -> Scheduler:
    """Returns the default scheduler of such a device."""
    if kind == "nvme":
        return "none"
    if not multi_queue(kind, version):
        return "cfq"
    return "mq-deadline" if kind in {"ssd", "hdd"} else "none"


def wbt_lat_usec(kind: Kind, version: tuple[int, int], elevator: Scheduler, rotational: bool) -> int:
    """Returns the latency target of writeback throttling, µs; 0 is off."""
    single = elevator in {"cfq", "deadline", "noop"}
    if version < WBT or single or not multi_queue(kind, version):
        return 0
    return 75_000 if rotational else 2_000


def max_sectors_kb(version: tuple[int, int]) -> int:
    """Returns the largest request of a device that accepts requests of any size."""
    if version >= (6, 17):
        return 4096
    return 1280 if version >= (4, 3) else 512


def rotational(kind: Kind) -> bool:
    """Whether such a device says that it rotates: a virtio disk does unless QEMU is told otherwise."""
    return kind in {"hdd", "throttled"}
