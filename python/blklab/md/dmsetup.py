"""How the device mapper maps a device: only dmsetup(8) tells, sysfs has no tables."""

import re
import shutil
import subprocess

from blklab.md.host_software import PATH


def table(number: str) -> tuple[str, str]:
    """Returns the table of `major:minor`, or why it could not be read; keys are zeros in it.

    Format: dmsetup(8), `table`: start and length in sectors, the target's name, its parameters.
    """
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", number, re.A)
    program = shutil.which("dmsetup", path=PATH)
    if match is None:
        return "", "the device is gone"
    if program is None:
        return "", "dmsetup is not installed: apt-get install dmsetup"
    try:
        ran = subprocess.run(
            [program, "table", "--major", match[1], "--minor", match[2]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"dmsetup does not run: {getattr(error, 'strerror', None) or 'no answer'}"
    if ran.returncode:
        return "", f"dmsetup: {ran.stderr.decode(errors='replace').strip() or 'failed'}"
    return ran.stdout.decode(errors="replace"), ""
