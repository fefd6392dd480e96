"""The text of fio's job file for a cell."""

import re
from pathlib import Path

from blklab.errors import UsageError
from blklab.experiment.documents import FioCellDocument, ReplayDocument
from blklab.runners.fio.process import LINK

LOG = "log"  # Prefix of the logs' names
REPLAY = "replay.iolog"  # Name of the log that fio replays, in the directory above its own
TIMED = (3, 33)  # The first fio whose logs have times
OWN_TIMES = frozenset({"runtime", "timeout", "ramp_time", "startdelay", "loops"})
"""fio's options that limit a job's time."""

_PLAIN = re.compile(r"[\w./:+,@=-]+", re.A)
"""Paths without characters that fio's parser interprets: variables, comments, quotes, blanks."""

_NAME = re.compile(r"[\w.,+@=-][\w.,+@= -]*", re.A)
_OPTION = re.compile(r"[a-z][a-z0-9_]*", re.A)
_VALUE = re.compile(r"[ -~]*", re.A)


def filename(path: Path) -> str:
    """Returns a path as fio reads it, where a colon separates files unless escaped (fio(1)).

    A path that fio cannot read becomes LINK, a symbolic link that `process.run` makes.
    """
    text = str(path.absolute())
    return text.replace(":", "\\:") if _PLAIN.fullmatch(text) else LINK


def seconds(cell: FioCellDocument, runtime_ns: int | None = None) -> float | None:
    """Returns the seconds that fio will take for a cell, None if unknown."""
    if any(job["options"].keys() & OWN_TIMES for job in cell["jobs"]):
        return None
    if runtime_ns:
        return runtime_ns / 1e9
    usual_ns = cell.get("runtime_ns")
    return None if usual_ns is None else (usual_ns + int(cell.get("ramp_ns") or 0)) / 1e9


def write_replay(replay: ReplayDocument, path: Path) -> None:
    """Writes the log of a trace that fio replays: reads, writes and flushes, with their times if they count."""
    from blklab import _core  # which hosts of a fleet do not have

    trace_filter = _core.Filter(devices=[replay["device"]], ops=["read", "write", "flush"])
    form = "iolog" if replay["timed"] else "iolog2"
    _core.convert([replay["path"]], str(path), trace_filter, to=form, format=replay["format"], overwrite=True)


def render(cell: FioCellDocument, target: Path, *, runtime_ns: int | None = None, log_ms: int | None = None) -> str:
    """Returns the job file of a cell's jobs on one file or device.

    `runtime_ns` is that of a round without ramp; it replaces the cell's and the jobs'. With `log_ms`, each process logs
    what it did in each interval. Raises UsageError for values that would break the job file. Data are fio's random
    bytes, which fio changes a little before each write (`scramble_buffers`), so that nothing deduplicates or compresses
    them. Filling every buffer again would cost processor time.
    """
    seed = int(cell["seed"])
    lines = [
        "[global]",
        # fio multiplies it by the number of each thread (init.c, setup_random_seeds).
        f"randseed={seed}",
        "randrepeat=1",
        "allrandrepeat=1",
        "scramble_buffers=1",
    ]
    ramp_ns = 0 if runtime_ns else int(cell.get("ramp_ns") or 0)
    usual_ns = cell.get("runtime_ns")
    for job in cell["jobs"]:
        name = str(job["name"])
        options = job["options"]
        if not _NAME.fullmatch(name) or name in {"global", "include"}:
            raise UsageError(f"job name {name!r}: use letters, digits, blanks and . , + @ = - _")
        lines += ["", f"[{name}]"]
        lines += [_option(key, value) for key, value in options.items()]
        # After the job's own options: the last one counts.
        lines += [
            *_place(filename(target), replays="replay" in cell),
            # All of fio is one process, which can be ended by its number.
            "thread=1",
            "group_reporting=0",
        ]
        if runtime_ns:
            lines.append(f"runtime={_microseconds(runtime_ns)}")
        elif usual_ns and not options.keys() & {"runtime", "timeout"}:
            lines.append(f"runtime={_microseconds(usual_ns)}")
        if ramp_ns and "ramp_time" not in options:
            lines.append(f"ramp_time={_microseconds(ramp_ns)}")
        if log_ms:
            lines += [f"write_{kind}_log={LOG}" for kind in ("iops", "bw", "lat")]
            lines += [f"log_avg_msec={log_ms}", "per_job_logs=1"]
    return "\n".join(lines) + "\n"


def _place(name: str, *, replays: bool) -> list[str]:
    """Returns the options that lead all I/O to one file, instead of a log's own names."""
    if replays:
        # Its value is a name as it is: a colon has no escape (iolog.c, `read_iolog`).
        target = LINK if ":" in name else name
        return [f"replay_redirect={target}", f"read_iolog=../{REPLAY}"]
    return [f"filename={name}"]


def _microseconds(time_ns: int) -> str:
    return f"{max(1, round(time_ns / 1000))}us"


def _option(key: str, value: object) -> str:
    text = str(value)
    if not _OPTION.fullmatch(key):
        raise UsageError(f"fio option {key!r}: use lower case letters, digits and _")
    # With a `$`, fio would fill in variables, and calculate with them in a shell (options.c).
    if not _VALUE.fullmatch(text) or "$" in text:
        raise UsageError(f"fio option {key}={text!r}: use printable ASCII without $")
    return f"{key}={text}"
