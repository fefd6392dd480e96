"""fio in the guest: the cell's own load, and the preparation of files and caches."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

from blklab.errors import BlklabError
from blklab.runners.fio import jobfile
from blklab.runners.fio.process import PATIENCE, FioExit, FioMessages, FioProgress, Progress, complaint
from blklab.runners.fio.target_preparation import BLOCK, DEPTH
from blklab.runners.lab.files import fetch, texts
from blklab.runners.lab.machine.boot import GuestMachine
from blklab.runners.lab.stacks import bcache, lvm
from blklab.runners.lab.stacks.filesystem import MOUNT
from blklab.runners.lab.stacks.guest import GuestStack
from blklab.spec import documents
from blklab.spec.documents import FioCellDocument, FioJobDocument, LabCellDocument, bare_cell, extent
from blklab.text import printable

DIRECTORY: Final = "/run/blklab"  # fio's working directory in the guest


def play(
    machine: GuestMachine,
    document: FioCellDocument,
    target: str,
    progress: Progress,
    *,
    runtime_ns: int | None = None,
    log_ms: int | None = None,
    phase: str = "measure",
    alongside: AbstractContextManager[object] | None = None,
) -> FioExit:
    """Runs a cell's jobs on a device or a file of the guest, within `alongside`. Raises BlklabError."""
    agent = machine.agent
    text = jobfile.render(document, Path(target), runtime_ns=runtime_ns, log_ms=log_ms)
    agent.run(["rm", "-rf", DIRECTORY])
    agent.run(["mkdir", "-p", DIRECTORY])
    agent.write(f"{DIRECTORY}/job.fio", text)
    seconds = jobfile.seconds(document, runtime_ns)
    options = ["--output-format=json+"]
    messages = FioMessages()
    lines_shown = 0

    def heard(_stream: str, chunk: str) -> None:
        nonlocal lines_shown
        lines = messages.take(chunk)
        for at in range(lines_shown + 1, lines_shown + lines + 1):  # one a second
            progress(FioProgress(float(at), seconds, *messages.rates, phase=phase))
        lines_shown += lines

    with alongside or nullcontext():
        ran = agent.run(
            ["fio", *options, "--output=job.json", "--eta=always", "job.fio"],
            cwd=DIRECTORY,
            timeout=None if seconds is None else seconds + PATIENCE,
            stream=heard,
            check=False,
        )
    written = texts(fetch(machine, [f"{DIRECTORY}/job.json", f"{DIRECTORY}/*.log"]))
    result = written.pop(f"{DIRECTORY}/job.json", "")
    if ran.status:
        words = complaint(messages.text + ran.stderr + result.partition("{\n")[0], ran.status)
        raise BlklabError(f"fio failed in the guest: {printable(words)}")
    logs = {path.rpartition("/")[2]: content for path, content in written.items()}
    return FioExit(result, messages.text, logs, ["fio", *options, "job.fio"])


WARM_NS: Final = 20 * 10**9  # Duration of the load that fills a warm cache
JUNK: Final = f"{MOUNT}/junk"  # The file that fills a cache below a filesystem with data that the load does not use
READ: Final = 64 << 10  # Bytes of a read that fills a bcache; a bucket holds several
BUCKETS_A_SECOND: Final = 150  # Rate at which an emulated guest's allocator was observed to prepare buckets
UNUSED: Final = 5  # Per cent of a bcache's buckets that may stay unused
PASSES: Final = 5  # Most attempts to fill a bcache


def prepare(
    machine: GuestMachine, guest: GuestStack, document: LabCellDocument, target: str, progress: Progress
) -> None:
    """Writes the file, and brings caches into their state, before the disks are throttled. Raises BlklabError."""
    if document["filesystem"] is not None:
        _write(machine, document, target, 0, extent(document), progress)
    for kind, table in documents.built_nodes(document["stack"]):
        state = table.get("state")  # only caches have one
        if state == "warm":
            play(machine, document, target, progress, runtime_ns=WARM_NS, phase="warm")
        elif state == "layout" and document["filesystem"] is None:
            _write(machine, document, target, 0, extent(document), progress)
        elif state in {"junk", "junk-dirty"}:
            _junk(machine, guest, document, target, kind, table, progress)
    guest.write("/proc/sys/vm/drop_caches", "3")


def _junk(
    machine: GuestMachine,
    guest: GuestStack,
    document: LabCellDocument,
    target: str,
    kind: str,
    table: Mapping[str, Any],
    progress: Progress,
) -> None:
    """Fills a cache with blocks after those that the jobs use: clean ones, or dirty ones of lvmcache.

    Raises BlklabError if there is no space after the jobs' data.
    """
    many = _room(document, table)
    if not many:
        raise BlklabError(
            f"{table['name']}: no space is left after the jobs' data to fill its cache with: give "
            "the jobs a smaller size"
        )
    begin = extent(document)
    if document["filesystem"] is not None:
        target, begin = JUNK, 0
        _write(machine, document, target, begin, many, progress)
    region = {"offset": str(begin), "size": str(many)}
    if kind == "lvmcache":
        # dm-cache takes a block in at once when all of it is written, as long as it has free ones,
        # if its mode is writeback (dm-cache-target.c, `optimisable_bio`).
        lvm.mode(guest, table["name"], "writeback")
        if table["state"] == "junk-dirty":
            lvm.never_idle(guest, table["name"])
        options = {"rw": "write", "bs": str(table["chunk"]), **region}
        _fio(machine, document, target, options, progress)
        if table["state"] == "junk":
            lvm.mode(guest, table["name"], "writethrough")  # which writes all dirty blocks back
        lvm.mode(guest, table["name"], table["mode"])
        return
    # bcache takes in what is read and missed, unless it is bypassed (bcache/request.c,
    # `check_should_bypass`), or its allocator has no bucket ready at that moment.
    size = min(table["bucket"], READ)
    pace = {"iodepth": "1", "rate_iops": str(BUCKETS_A_SECOND * table["bucket"] // size)}
    options = {"rw": "randread", "bs": str(size), **region, **pace}
    with bcache.unbypassed(guest, table):
        for _ in range(PASSES):
            _fio(machine, document, target, options, progress)
            if bcache.buckets(guest, table["name"]).get("unused_percent", 0) <= UNUSED:
                break


def _room(document: LabCellDocument, table: Mapping[str, Any]) -> int:
    """Returns the space after the jobs' data, at most the cache's size; bytes."""
    cache = table["cache"]
    size = int(document["devices"][cache["device"]]["bytes"]) if "device" in cache else None
    free = int(document["room"]) - extent(document)
    many = min(free, size or free)
    return max(0, many // BLOCK * BLOCK)


def _write(
    machine: GuestMachine, document: LabCellDocument, target: str, begin: int, many: int, progress: Progress
) -> None:
    size = -(-many // BLOCK) * BLOCK
    options = {"rw": "write", "bs": str(BLOCK), "offset": str(begin), "size": str(size)}
    _fio(machine, document, target, options, progress)


def _fio(
    machine: GuestMachine, document: LabCellDocument, target: str, options: Mapping[str, str], progress: Progress
) -> None:
    words = {"ioengine": "libaio", "direct": "1", "iodepth": str(DEPTH), "fallocate": "none"}
    job: FioJobDocument = {"name": "fill", "options": {**words, "end_fsync": "1", **options}}
    filling = bare_cell(document["seed"], job)
    play(machine, filling, target, progress, phase="fill")
