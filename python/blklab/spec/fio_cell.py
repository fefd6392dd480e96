"""What a cell of a runner with real fio does: whether it writes, how long it takes, the size of its file."""

from collections.abc import Mapping
from typing import Final

from blklab.spec.documents import FioCellDocument

READING: Final = frozenset({"read", "randread"})  # Values of `rw` that do not write
RAMP_SEARCHES: Final = 4  # Further measurements with p99_below; each halves the interval of the searched rate


def job_writes(options: Mapping[str, str]) -> bool:
    """Tells whether a job (fio's options) may write; fio's default is to read."""
    direction = options.get("rw", options.get("readwrite", "read"))
    return direction.partition(":")[0] not in READING


def writes(document: FioCellDocument) -> bool:
    """Tells whether a cell may write to its target, in a job or before its jobs.

    Everything that claims or guards a device must ask this function.
    """
    prepared = document.get("host", {}).get("precondition", "none") != "none"
    return prepared or any(job_writes(job["options"]) for job in document["jobs"])


def ramp_runs(document: FioCellDocument) -> int:
    """Returns how often the jobs of a cell run: once, or once for each rate of a load ramp."""
    ramp = document.get("load_ramp")
    if not ramp:
        return 1
    return 1 + len(ramp["shares"]) + (0 if ramp["p99_ns"] is None else RAMP_SEARCHES)


def minimum_ns(document: FioCellDocument) -> int:
    """Returns the time that a cell takes at least, ns: runtime, ramp, rounds until steady."""
    steady = document.get("host", {}).get("steady")
    rounds = steady["rounds"] * steady["round_ns"] if steady else 0
    return ramp_runs(document) * ((document["runtime_ns"] or 0) + document["ramp_ns"]) + rounds


def extent(document: FioCellDocument) -> int:
    """Returns the size of the file that a cell's jobs need, bytes; 0 without a file."""
    ends = [0]
    for job in document["jobs"]:
        words = job["options"]
        if str(words.get("size", "")).isdigit():
            spread = int(words.get("offset_increment", 0)) * (int(words["numjobs"]) - 1)
            ends.append(int(words["offset"]) + spread + int(words["size"]))
    return max(ends)
