"""The guest's kernel log, for errors: why it refused a request."""

import re
from typing import Final

from blklab.runners.lab.agent import COMPLAINT
from blklab.text import printable

LINES: Final = 2  # Most lines in an error
_LINE: Final = re.compile(r"\[\s*(\d{1,9}\.\d{6})\] (.*)", re.A)


def seconds(uptime: str) -> float:
    """Returns the first number of /proc/uptime, 0 without one; s."""
    match = re.match(r"\d{1,9}\.\d{1,9}", uptime, re.A)
    return float(match[0]) if match else 0.0


def since(log: str, began: float) -> list[str]:
    """Returns the last complaints in `dmesg` since a time, safe for a terminal."""
    matches = (_LINE.fullmatch(line) for line in log.splitlines())
    lines = [match[2] for match in matches if match and float(match[1]) >= began]
    return [printable(line)[:200] for line in lines if COMPLAINT.search(line)][-LINES:]
