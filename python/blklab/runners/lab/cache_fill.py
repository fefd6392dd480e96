"""Writes the file of a cell, and brings its caches into their state, before the load."""

from collections.abc import Callable, Mapping
from typing import Any

from blklab.errors import BlklabError
from blklab.experiment import documents
from blklab.runners.fio.process import Progress
from blklab.runners.fio.target_preparation import BLOCK, DEPTH
from blklab.runners.lab.fio_in_guest import play
from blklab.runners.lab.machine.boot import GuestMachine
from blklab.runners.lab.stacks import bcache, lvm
from blklab.runners.lab.stacks.filesystem import MOUNT
from blklab.runners.lab.stacks.guest import GuestStack

WARM_NS = 20 * 10**9  # Duration of the load that fills a warm cache
JUNK = f"{MOUNT}/junk"  # The file that fills a cache below a filesystem with data that the load does not use
READ = 64 << 10  # Bytes of a read that fills a bcache; a bucket holds several
BUCKETS_A_SECOND = 150  # Rate at which an emulated guest's allocator was observed to prepare buckets
UNUSED = 5  # Per cent of a bcache's buckets that may stay unused
PASSES = 5  # Most attempts to fill a bcache
Fill = Callable[[str, Mapping[str, str]], None]  # Runs fio on a file or a device with some options


def prepare(
    machine: GuestMachine, guest: GuestStack, document: documents.LabCellDocument, target: str, progress: Progress
) -> None:
    """Writes the file, and brings caches into their state, before the disks are throttled. Raises BlklabError."""

    def fill(path: str, options: Mapping[str, str]) -> None:
        defaults = {"ioengine": "libaio", "direct": "1", "iodepth": str(DEPTH), "fallocate": "none"}
        job: documents.FioJobDocument = {"name": "fill", "options": {**defaults, "end_fsync": "1", **options}}
        play(machine, documents.bare_cell(document["seed"], job), path, progress, phase="fill")

    if document["filesystem"] is not None:
        _write(fill, target, 0, documents.extent(document))
    for kind, table in documents.arrays_and_volumes(document["stack"]):
        state = table.get("state")  # only caches have one
        if state == "warm":
            play(machine, document, target, progress, runtime_ns=WARM_NS, phase="warm")
        elif state == "layout" and document["filesystem"] is None:
            _write(fill, target, 0, documents.extent(document))
        elif state in {"junk", "junk-dirty"}:
            _junk(fill, guest, document, target, kind, table)
    guest.write("/proc/sys/vm/drop_caches", "3")


def _junk(
    fill: Fill, guest: GuestStack, document: documents.LabCellDocument, target: str, kind: str, table: Mapping[str, Any]
) -> None:
    """Fills a cache with blocks after those that the jobs use: clean ones, or dirty ones of lvmcache.

    Raises BlklabError if there is no space after the jobs' data.
    """
    many = _room(document, table)
    if not many:
        raise BlklabError(
            f"{table['name']}: no space is left after the jobs' data to fill its cache with: "
            "give the jobs a smaller size"
        )
    begin = documents.extent(document)
    if document["filesystem"] is not None:
        target = JUNK
        begin = 0
        _write(fill, target, begin, many)
    region = {"offset": str(begin), "size": str(many)}
    if kind == "lvmcache":
        # dm-cache takes a block in at once when all of it is written, as long as it has free ones,
        # if its mode is writeback (dm-cache-target.c, `optimisable_bio`).
        lvm.mode(guest, table["name"], "writeback")
        if table["state"] == "junk-dirty":
            lvm.never_idle(guest, table["name"])
        options = {"rw": "write", "bs": str(table["chunk"]), **region}
        fill(target, options)
        if table["state"] == "junk":
            lvm.mode(guest, table["name"], "writethrough")  # which writes all dirty blocks back
        lvm.mode(guest, table["name"], table["mode"])
        return
    # bcache takes in what is read and missed, unless it is bypassed (bcache/request.c,
    # `check_should_bypass`), or its allocator has no bucket ready at that moment.
    size = min(table["bucket"], READ)
    pace = {"iodepth": "1", "rate_iops": str(BUCKETS_A_SECOND * table["bucket"] // size)}
    options = {"rw": "randread", "bs": str(size), **region, **pace}
    with bcache.disable_bypass(guest, table):
        for _ in range(PASSES):
            fill(target, options)
            if bcache.buckets(guest, table["name"]).get("unused_percent", 0) <= UNUSED:
                break


def _room(document: documents.LabCellDocument, table: Mapping[str, Any]) -> int:
    """Returns the space after the jobs' data, at most the cache's size; bytes."""
    cache = table["cache"]
    size = int(document["devices"][cache["device"]]["bytes"]) if "device" in cache else None
    free = int(document["room"]) - documents.extent(document)
    return max(0, min(free, size or free) // BLOCK * BLOCK)


def _write(fill: Fill, target: str, begin: int, many: int) -> None:
    size = -(-many // BLOCK) * BLOCK
    fill(target, {"rw": "write", "bs": str(BLOCK), "offset": str(begin), "size": str(size)})
