"""Prepares a target: a completely written file, a device in a known state, empty caches."""

import math
import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from blklab.errors import BlklabError
from blklab.fio import output
from blklab.runners.fio import jobfile, process
from blklab.runners.fio.process import Progress, silent
from blklab.spec.documents import FioCellDocument, FioJobDocument, bare_cell
from blklab.spec.host_cell import job_writes

BLOCK: Final = 1 << 20  # Bytes; large enough for any device's full speed, and for the stripes of most arrays
DEPTH: Final = 8

SIZES: Final = ("bs", "blocksize", "bssplit", "bsrange", "blocksize_range", "blockalign", "ba")
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


def fill(fio: str, target: Path, size: int | None, directory: Path, *, seed: int, progress: Progress = silent) -> None:
    """Writes a file or a device once from start to end with data that do not compress.

    `size` is the file's future size, rounded up to whole blocks; None is a complete device. Raises BlklabError.
    """
    options = {"rw": "write", "bs": str(BLOCK), "iodepth": str(DEPTH)}
    if size is not None:
        options["size"] = str(math.ceil(size / BLOCK) * BLOCK)
    _write(fio, "fill", options, target, directory, seed, progress)


def scatter(
    fio: str,
    target: Path,
    size: int | None,
    directory: Path,
    *,
    like: Mapping[str, str],
    seed: int,
    progress: Progress = silent,
) -> None:
    """Writes twice a target's size at random, in a job's block sizes (its options `like`).

    After a fill, this leaves a flash device without free blocks in any order, as long use does:
    SNIA SSS PTS 2.0.2, "workload dependent preconditioning". Raises BlklabError.
    """
    options = {"rw": "randwrite", "norandommap": "1", "iodepth": "32", "loops": "2"}
    options |= {key: like[key] for key in SIZES if key in like}
    if size is not None:
        options["size"] = str(size)
    _write(fio, "random", options, target, directory, seed, progress)


def _write(
    fio: str, name: str, options: dict[str, str], target: Path, directory: Path, seed: int, progress: Progress
) -> None:
    is_device = target.is_block_device()
    direct = is_device or direct_works(target.parent)
    options |= {
        "ioengine": "libaio",
        "direct": str(int(direct)),
        # Blocks reserved by fallocate would be read as zeros, without I/O, until written.
        "fallocate": "none",
        "refill_buffers": "1",
        "end_fsync": "1",
    }
    job: FioJobDocument = {"name": name, "options": options}
    text = jobfile.render(bare_cell(seed, job), target)
    ran = process.run(fio, text, directory, target=target, progress=progress, phase=name)
    output.outcome(output.parse_document(ran.output))  # an I/O that failed is an error


def drop_caches(proc: Path = Path("/proc")) -> str | None:
    """Syncs and empties the page cache; returns a warning without the permission to do so."""
    sync()
    path = proc / "sys" / "vm" / "drop_caches"
    failed: list[OSError] = []

    def drop() -> None:
        try:
            path.write_text("3\n")
        except OSError as error:
            failed.append(error)

    _interruptibly(drop)
    return f"{path}: cannot drop caches: {failed[0].strerror}" if failed else None


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


def precondition(
    fio: str,
    kind: str,
    target: Path,
    size: int | None,
    directory: Path,
    *,
    cell: FioCellDocument,
    filled: bool,
    progress: Progress = silent,
) -> None:
    """Brings a target into the state `none`, `fill` or `random`; `filled`: it was just filled. Raises BlklabError."""
    if kind not in {"none", "fill", "random"}:
        raise BlklabError(f"precondition {kind!r}: expected none, fill or random")
    seed = int(cell["seed"])
    if kind != "none" and not filled:
        fill(fio, target, size, directory, seed=seed, progress=progress)
    if kind == "random":
        jobs = [job["options"] for job in cell["jobs"]]
        writing = [other for other in jobs if job_writes(other)]
        like = (writing or jobs)[0]
        scatter(fio, target, size, directory, like=like, seed=seed, progress=progress)
