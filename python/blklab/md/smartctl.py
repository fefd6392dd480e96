"""Runs smartctl(8), one process per disk, with a time limit."""

import os
import shutil
import subprocess
from contextlib import suppress
from typing import Final

from blklab.dmsetup import PATH

TIMEOUT_S: Final = 20.0  # Time to wait for a disk


def read_disk(path: str, kind: str = "") -> tuple[str, str]:
    """Returns smartctl's JSON for a disk, or why there is none.

    `kind` is smartctl's `-d` for disks behind a controller. Disks in standby are not spun up.
    """
    device_type = [f"--device={kind}"] if kind else []
    logs = ["--log=scterc", "--log=scttempsts"]
    return _run("--json", "--all", *logs, "--nocheck=standby", *device_type, path)


def scan_controllers() -> tuple[str, str]:
    """Returns smartctl's list of devices, also behind controllers, as JSON, or why there is none."""
    return _run("--json", "--scan-open")


def _run(*arguments: str) -> tuple[str, str]:
    program = shutil.which("smartctl", path=PATH)
    if program is None:
        return "", "smartctl is not installed: apt-get install smartmontools"
    if os.geteuid() != 0:
        return "", "permission denied: run blklab as root"
    try:
        process = subprocess.Popen(
            [program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError as error:
        return "", f"cannot run smartctl: {error.strerror}"
    try:
        # Its exit status is a bit mask about the disk, which the JSON describes better.
        output, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        if process.stdout:
            process.stdout.close()
        # A process that waits for a disk may ignore even SIGKILL.
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
        return "", f"the disk did not answer within {TIMEOUT_S:.0f} s"
    return output.decode(errors="replace"), ""
