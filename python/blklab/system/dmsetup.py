"""Reads device-mapper tables and status with dmsetup(8), because sysfs does not have them."""

import re
import shutil
import subprocess

PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
"""Directories of system programs, which are often not in the PATH of other users than root."""


def read_table(number: str) -> tuple[str, str]:
    """Returns the table of `major:minor`, or why it cannot be read. Keys are zeros in it.

    Format: dmsetup(8), `table`: start and length in sectors, the target's name, its parameters.
    """
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", number, re.A)
    if match is None:
        return "", "the device is gone"
    return _run("table", "--major", match[1], "--minor", match[2])


def read_all(command: str) -> tuple[dict[str, list[str]], str]:
    """Returns the words of each device's `table` or `status` by the device's name, or why they cannot be read.

    Only devices with one line are returned, as caches are. `status` does not commit metadata (`--noflush`).
    """
    options = ["--noflush"] if command == "status" else []
    output, failure = _run(command, *options)
    lines: dict[str, list[list[str]]] = {}
    for line in output.splitlines():
        name, colon, text = line.partition(": ")
        if colon:
            lines.setdefault(name, []).append(text.split())
    return {name: tables[0] for name, tables in lines.items() if len(tables) == 1}, failure


def _run(*arguments: str) -> tuple[str, str]:
    program = shutil.which("dmsetup", path=PATH)
    if program is None:
        return "", "dmsetup is not installed: apt-get install dmsetup"
    try:
        result = subprocess.run(
            [program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"cannot run dmsetup: {getattr(error, 'strerror', None) or 'no answer'}"
    if result.returncode:
        return "", f"dmsetup: {result.stderr.decode(errors='replace').strip() or 'failed'}"
    return result.stdout.decode(errors="replace"), ""
