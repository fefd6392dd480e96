"""Reads device-mapper tables with dmsetup(8), because sysfs does not have them."""

import re
import shutil
import subprocess

from blklab.md.host_software import PATH


def read_table(number: str) -> tuple[str, str]:
    """Returns the table of `major:minor`, or why it cannot be read. Keys are zeros in it.

    Format: dmsetup(8), `table`: start and length in sectors, the target's name, its parameters.
    """
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", number, re.A)
    program = shutil.which("dmsetup", path=PATH)
    if match is None:
        return "", "the device is gone"
    if program is None:
        return "", "dmsetup is not installed: apt-get install dmsetup"
    try:
        completed = subprocess.run(
            [program, "table", "--major", match[1], "--minor", match[2]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"cannot run dmsetup: {getattr(error, 'strerror', None) or 'no answer'}"
    if completed.returncode:
        return "", f"dmsetup: {completed.stderr.decode(errors='replace').strip() or 'failed'}"
    return completed.stdout.decode(errors="replace"), ""
