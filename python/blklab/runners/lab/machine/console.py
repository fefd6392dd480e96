"""The guest's console: kept for errors, never read for results."""

import os
import re
import threading
from typing import Final

from blklab.text import printable

MOST: Final = 256 << 10  # Bytes that are kept: the last ones
LINES: Final = 6  # Most lines in an error
LONGEST: Final = 160  # Most characters of a line in an error
WORTH: Final = ("Kernel panic", "blklab-agent:", "Out of memory")
"""Phrases in lines that explain an end, the most likely first."""

_TIME: Final = re.compile(r"^\[\s*\d{1,9}\.\d{6}\]\s*", re.A)

_DUMP: Final = re.compile(  # Beginnings of lines of a dump: registers and call traces
    r"CPU: |Hardware name: |Call Trace:|Code: |Kernel Offset: |Modules linked|---\[|</?[A-Z]+>$"
    r"|(\? )?[\w.]+\+0x[0-9a-f]+/0x|[A-Z0-9]{2,4}: ?[0-9a-f]{4,}",
    re.A,
)


class GuestConsole:
    """Reads a pipe until its end, and keeps the last part."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._kept = bytearray()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="blklab-console", daemon=True)
        self._thread.start()

    def lines(self) -> list[str]:
        """Returns the last lines, without times and dumps, harmless on a terminal."""
        return [line for line in self._every() if not _DUMP.match(line)][-LINES:]

    def reason(self) -> str | None:
        """Returns the line that best explains why a guest ended, None if there is none."""
        lines = self._every()
        for words in WORTH:
            for line in lines:
                if words in line:
                    return line
        return None

    def join(self) -> None:
        """Waits until everything has been read, once its writer has ended."""
        self._thread.join(5)

    def _every(self) -> list[str]:
        with self._lock:
            text = self._kept.decode(errors="replace")
        lines = (_TIME.sub("", line.strip()) for line in text.splitlines())
        return [printable(line)[:LONGEST] for line in lines if line]

    def _read(self) -> None:
        while True:
            try:
                chunk = os.read(self._descriptor, 1 << 16)
            except OSError:
                return
            if not chunk:
                return
            with self._lock:
                self._kept += chunk
                del self._kept[:-MOST]
