"""Finds the real fio, runs it, reports its progress, and leaves no fio process behind."""

import os
import re
import select
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from blklab.errors import BlklabError, EnvironmentLacks
from blklab.system import child_process
from blklab.text.printing import printable

OLDEST = (3, 12)  # Oldest supported fio: Debian 10's. Before 3.0, latencies were in µs.
HOW_TO_INSTALL = "install it: apt-get install fio"


def find_fio(oldest: Sequence[int] = OLDEST) -> tuple[str, str]:
    """Returns fio's path and version. Raises EnvironmentLacks without fio, or if it is too old."""
    path = child_process.find("fio", "fio")
    version = child_process.version(path, HOW_TO_INSTALL)[0].strip()
    match = re.match(r"fio-(\d{1,4})\.(\d{1,4})", version, re.A)
    if match is None:
        raise EnvironmentLacks(f"{path} is not fio: its version is {version!r}", HOW_TO_INSTALL)
    if (int(match[1]), int(match[2])) < tuple(oldest):
        oldest_version = ".".join(map(str, oldest))
        raise EnvironmentLacks(f"{path} is {version}, too old", f"fio {oldest_version} or newer is needed")
    return path, version


def complaint(output: str, status: int) -> str:
    """Returns the line of a program's output that best explains its failure."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for pattern in (r"error=|err=.*[1-9]", r"^Bad option", r"^fio:", r"."):
        for line in lines:
            if re.search(pattern, line):
                return line[:300]
    return f"it {ending(status)} without a message"


def ending(status: int) -> str:
    """Returns how a process ended, `was killed by SIGKILL`, from its exit status (negative for a signal)."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


PATIENCE = 300.0  # Seconds that fio may take beyond its expected time: it syncs buffered writes at its end
POLL = 0.25
MOST_SAID = 1 << 20  # Bytes that are kept of fio's messages
LINK = "target"

SUFFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_IOPS = re.compile(
    r"\[(?=[rwt]=)(?:r=(?P<read>\d+(?:\.\d+)?[kMGT]?))?,?(?:w=(?P<write>\d+(?:\.\d+)?[kMGT]?))?"
    r",?(?:t=[^,\]]+)? IOPS\]",
    re.A,
)
"""fio 3's line of progress (eta.c): `[r=2004,w=1.2k IOPS]`; a direction without I/O is missing."""


@dataclass(frozen=True)
class FioProgress:
    seconds: float
    total_seconds: float | None  # Expected total; None until fio ends by itself
    read_iops: float | None = None  # Present rate; None until fio reports it
    write_iops: float | None = None
    phase: str = "measure"  # Or a phase before: `fill`, `random`, `steady`


Progress = Callable[[FioProgress], object]


@dataclass(frozen=True)
class FioExit:
    """The output files and messages of a run of fio."""

    output: str  # Its `--output`: JSON+, which can have other lines around it
    messages: str  # Its messages on stdout and stderr
    logs: dict[str, str]  # Its logs by name
    command: list[str]


def silent(_live: FioProgress) -> None:
    """Shows no progress."""


def iops(line: str) -> tuple[float, float] | None:
    """Returns reads and writes a second from fio's line of progress, None for any other line."""
    match = _IOPS.search(line)
    if match is None:
        return None
    read, write = (_parse_rate(match[direction]) for direction in ("read", "write"))
    return read, write


def _parse_rate(text: str | None) -> float:
    if not text:
        return 0.0
    suffix = text[-1] if text[-1] in SUFFIXES else ""
    return float(text.removesuffix(suffix)) * SUFFIXES[suffix]


class FioMessages:
    """fio's output while it runs: the latest rates, and messages, which are kept."""

    def __init__(self) -> None:
        self.text = ""
        self.rates: tuple[float | None, float | None] = (None, None)
        self._rest = ""

    def take(self, chunk: str) -> int:
        """Takes a part of fio's output; returns its number of lines of progress."""
        *lines, remainder = re.split(r"[\r\n]", self._rest + chunk)
        self._rest = remainder[:MOST_SAID]
        progress = 0
        for line in lines:
            rates = iops(line)
            if rates or line.startswith("Jobs: "):
                progress += 1
                self.rates = rates or self.rates
            elif line.strip() and len(self.text) < MOST_SAID:
                self.text += line + "\n"
        return progress

    def end(self) -> str:
        """Returns all messages, with the last line if it is one."""
        return self.text if self._rest.startswith("Jobs: ") else self.text + self._rest


def run(
    fio: str,
    job: str,
    directory: Path,
    *,
    target: Path | None = None,
    seconds: float | None = None,
    readonly: bool = False,
    progress: Progress = silent,
    phase: str = "measure",
    begin: Callable[[], object] = lambda: None,
) -> FioExit:
    """Runs the text of a job file in a private directory, which is removed afterwards.

    `target` is what the job calls LINK there. `begin` is called right before fio starts. `seconds` is fio's expected
    time; more than PATIENCE beyond it is an error. Raises BlklabError with fio's message if it fails, takes too long,
    or is killed.

    fio is stopped before this function is left in any way; if blklab is killed, the kernel kills fio.
    """
    with tempfile.TemporaryDirectory(dir=directory, prefix="fio-") as name:
        job_directory = Path(name)
        (job_directory / "job.fio").write_text(job)
        if target is not None:
            (job_directory / LINK).symlink_to(target.absolute())
        output = job_directory / "job.json"
        options = ["--output-format=json+"]
        if readonly:
            options.append("--readonly")
        # Progress once a second, also without a terminal; the rates only once fio can tell its end.
        command = [fio, *options, f"--output={output}", "--eta=always", "job.fio"]
        begin()
        with child_process.start_process(command, job_directory, descriptors=descriptors(target)) as (process, pipes):
            text = watch(process, pipes[0], seconds, progress, phase)
        output_text = output.read_text(errors="replace") if output.exists() else ""
        if process.returncode < 0:
            raise BlklabError(f"fio did not finish: it {ending(process.returncode)}")
        if process.returncode:
            message = printable(complaint(text + output_text.partition("{\n")[0], process.returncode))
            raise BlklabError(f"fio failed: {message}")
        if not output_text.strip():
            raise BlklabError(f"fio failed: {printable(complaint(text, 0))}")
        logs = {path.name: path.read_text(errors="replace") for path in job_directory.glob("*.log")}
        return FioExit(output_text, text, logs, ["fio", *options, "job.fio"])


def descriptors(target: Path | None) -> list[int]:
    """Returns the descriptors in a path; fio must inherit them to open it."""
    match = re.match(r"/proc/self/fd/(\d+)/", str(target))
    return [int(match[1])] if match else []


def watch(process: child_process.Process, pipe: int, seconds: float | None, progress: Progress, phase: str) -> str:
    """Reads fio's output until it ends, and returns it without its lines of progress."""
    start_time = last_report = time.monotonic()
    messages = FioMessages()
    while True:
        has_ended = child_process.has_ended(process)
        ready, _, _ = select.select([pipe], [], [], 0 if has_ended else POLL)
        chunk = os.read(pipe, 1 << 16) if ready else b""
        now = time.monotonic()
        if messages.take(chunk.decode(errors="replace")) or now - last_report >= 1:
            last_report = now
            progress(FioProgress(now - start_time, seconds, *messages.rates, phase=phase))
        if has_ended and not chunk:
            return messages.end()
        if ready and not chunk:
            time.sleep(POLL)  # it has closed its output and is about to end
        if seconds is not None and now - start_time > seconds + PATIENCE:
            raise BlklabError(f"fio was still running {PATIENCE:.0f} s after its expected end, and was stopped")
