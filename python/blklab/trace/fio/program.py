"""Runs the real fio."""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, Final

from blklab.errors import BlklabError, EnvironmentLacks

OLDEST: Final = (3, 25)
"""Oldest fio that knows every option used (zoned_abs, sync=dsync, weights of flow); Debian 11's."""
HOW_TO_INSTALL: Final = "install it: apt-get install fio"
PATIENCE: Final = 120.0
"""Seconds beyond its runtime that fio may take to lay out the file."""


def find_fio() -> tuple[str, str]:
    """Returns fio's path and version. Raises EnvironmentLacks without one that is new enough."""
    path = shutil.which("fio")
    if path is None:
        raise EnvironmentLacks("fio is not installed", HOW_TO_INSTALL)
    try:
        asked = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentLacks(f"{path} does not run: {error}", HOW_TO_INSTALL) from None
    version = asked.stdout.strip()
    match = re.match(r"fio-(\d+)\.(\d+)", version)
    if match is None:
        raise EnvironmentLacks(f"{path} is not fio: its version is {version!r}", HOW_TO_INSTALL)
    if (int(match[1]), int(match[2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise EnvironmentLacks(f"{path} is {version}, too old", f"fio {wanted} or newer is needed")
    return path, version


def run_fio(fio: str, job: Path, output: Path, seconds: float) -> dict[str, Any]:
    """Runs a job file in its directory and returns fio's JSON document.

    fio writes notes before the JSON even into `output` and tells errors in words; the words go into
    the BlklabError that a failed run raises. On Ctrl-C fio is stopped first.
    """
    command = [fio, "--output-format=json", f"--output={output}", job.name]
    process = subprocess.Popen(
        command,
        cwd=job.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=seconds + PATIENCE)
    except subprocess.TimeoutExpired:
        raise BlklabError(f"fio was still running {PATIENCE:.0f} s after its time") from None
    finally:
        _stop(process)
    written = output.read_text(errors="replace") if output.exists() else ""
    before, brace, rest = written.partition("{\n")
    document: dict[str, Any] = {}
    if brace:
        try:
            document = json.loads(brace + rest)
        except ValueError:
            before = written
    errors = [job["error"] for job in document.get("jobs", []) if job.get("error")]
    if process.returncode != 0 or errors or not document.get("jobs"):
        words = complaint(said + before, process.returncode)
        raise BlklabError(f"fio failed: {words}")
    return document


def complaint(said: str, status: int) -> str:
    """Returns the line of fio's output that says best what is wrong."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    for pattern in (r"error=|err=.*[1-9]", r"^fio:", r"."):
        for line in lines:
            if re.search(pattern, line):
                return line[:300]
    return f"it ended with status {status} and said nothing"


def _stop(process: "subprocess.Popen[str]") -> None:
    """Ends fio and its processes, gently first; it is in a session of its own."""
    for number, patience in ((signal.SIGINT, 5.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0)):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, number)
            process.communicate(timeout=patience)
        except (subprocess.TimeoutExpired, ProcessLookupError):
            continue
