"""Prepares a target: a completely written file, a device in a known state, empty caches."""

import math
import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from blklab.errors import BlklabError
from blklab.experiment.documents import FioCellDocument, FioJobDocument, bare_cell, job_writes
from blklab.fio import output
from blklab.runners.fio import jobfile, process
from blklab.runners.fio.process import Progress, silent

BLOCK = 1 << 20  # Bytes; large enough for any device's full speed, and for the stripes of most arrays
DEPTH = 8

SIZES = ("bs", "blocksize", "bssplit", "bsrange", "blocksize_range", "blockalign", "ba")
"""fio's options that set the sizes and the offsets of a job's writes."""


def direct_works(directory: Path) -> bool:
    """Tells whether files here can be opened for direct I/O (tmpfs before Linux 6.6 refuses)."""
    with tempfile.NamedTemporaryFile(dir=directory, prefix=".blklab-") as probe:
        try:
            os.close(os.open(probe.name, os.O_RDWR | os.O_DIRECT))
        except OSError:
            return False
    return True


def is_laid_out(path: Path, size: int) -> bool:
    """Tells whether all bytes of a file are on the device: reading holes needs no I/O."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    return status.st_size >= size and status.st_blocks * 512 >= status.st_size


@dataclass(frozen=True)
class FioTarget:
    """A file or a device, and how fio runs on it."""

    fio: str
    path: Path
    size: int | None  # The file's future size; None is a complete device
    directory: Path  # For private files
    seed: int
    progress: Progress = silent


def fill(target: FioTarget) -> None:
    """Writes a target once from start to end with data that do not compress; a file up to whole blocks.

    Raises BlklabError.
    """
    options = {"rw": "write", "bs": str(BLOCK), "iodepth": str(DEPTH)}
    if target.size is not None:
        options["size"] = str(math.ceil(target.size / BLOCK) * BLOCK)
    _write(target, "fill", options)


def scatter(target: FioTarget, like: Mapping[str, str]) -> None:
    """Writes twice a target's size at random, in a job's block sizes (its options `like`).

    After a fill, this leaves a flash device without free blocks in any order, as long use does:
    SNIA SSS PTS 2.0.2, "workload dependent preconditioning". Raises BlklabError.
    """
    options = {"rw": "randwrite", "norandommap": "1", "iodepth": "32", "loops": "2"}
    options |= {key: like[key] for key in SIZES if key in like}
    if target.size is not None:
        options["size"] = str(target.size)
    _write(target, "random", options)


def _write(target: FioTarget, name: str, options: dict[str, str]) -> None:
    direct = target.path.is_block_device() or direct_works(target.path.parent)
    options |= {
        "ioengine": "libaio",
        "direct": str(int(direct)),
        # Blocks reserved by fallocate would be read as zeros, without I/O, until written.
        "fallocate": "none",
        "refill_buffers": "1",
        "end_fsync": "1",
    }
    job: FioJobDocument = {"name": name, "options": options}
    text = jobfile.render(bare_cell(target.seed, job), target.path)
    ran = process.run(target.fio, text, target.directory, target=target.path, progress=target.progress, phase=name)
    output.outcome(output.parse_document(ran.output))  # an I/O that failed is an error


def drop_caches(proc: Path = Path("/proc")) -> str | None:
    """Syncs and empties the page cache; returns a warning without the permission to do so."""
    sync()
    path = proc / "sys" / "vm" / "drop_caches"
    errors: list[OSError] = []

    def drop() -> None:
        try:
            path.write_text("3\n")
        except OSError as error:
            errors.append(error)

    _interruptibly(drop)
    return f"{path}: cannot drop caches: {errors[0].strerror}" if errors else None


def sync() -> None:
    """Writes back everything that is dirty."""
    _interruptibly(os.sync)


def _interruptibly(call: Callable[[], object]) -> None:
    """Waits for a system call of minutes so that Ctrl-C is handled meanwhile.

    In the main thread no handler would run until it returns.
    """
    thread = threading.Thread(target=call, name="blklab-sync", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)


def precondition(target: FioTarget, kind: str, cell: FioCellDocument, *, filled: bool) -> None:
    """Brings a target into the state `none`, `fill` or `random`; `filled`: it was just filled. Raises BlklabError."""
    if kind not in {"none", "fill", "random"}:
        raise BlklabError(f"precondition {kind!r}: expected none, fill or random")
    if kind != "none" and not filled:
        fill(target)
    if kind == "random":
        jobs = [job["options"] for job in cell["jobs"]]
        scatter(target, next((options for options in jobs if job_writes(options)), jobs[0]))
