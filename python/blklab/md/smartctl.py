"""Runs smartctl(8): a process a disk, which is not waited for if its disk does not answer."""

import os
import shutil
import subprocess
from contextlib import suppress
from typing import Final

from blklab.md.host_software import PATH

PATIENCE: Final = 20.0
"""Seconds that a disk is waited for."""


def disk(path: str, kind: str = "") -> tuple[str, str]:
    """Returns what smartctl says of a disk, as JSON, or why it could not be asked.

    `kind` is smartctl's `-d`, of disks behind a controller. Disks that sleep are not woken.
    """
    named = [f"--device={kind}"] if kind else []
    logs = ["--log=scterc", "--log=scttempsts"]
    return _run("--json", "--all", *logs, "--nocheck=standby", *named, path)


def scan() -> tuple[str, str]:
    """Returns what smartctl finds, behind controllers too, as JSON, or why it cannot be asked."""
    return _run("--json", "--scan-open")


def _run(*arguments: str) -> tuple[str, str]:
    program = shutil.which("smartctl", path=PATH)
    if program is None:
        return "", "smartctl is not installed: apt-get install smartmontools"
    if os.geteuid() != 0:
        return "", "permission denied: as root more is seen"
    try:
        asked = subprocess.Popen(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError as error:
        return "", f"smartctl does not run: {error.strerror}"
    try:
        # Its status tells of the disk in bits: what it says does so better.
        output, _ = asked.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        asked.kill()
        if asked.stdout:
            asked.stdout.close()
        # What waits for a disk may not even be killed.
        with suppress(subprocess.TimeoutExpired):
            asked.wait(1)
        return "", f"the disk does not answer within {PATIENCE:.0f} s"
    return output.decode(errors="replace"), ""
