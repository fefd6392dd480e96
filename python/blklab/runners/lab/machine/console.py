"""What the guest's kernel says: kept for errors, never read for results."""

import os
import threading
from typing import Final

from blklab.text import printable

MOST: Final = 256 << 10
"""Bytes that are kept: the last ones."""

LINES: Final = 12
"""Lines that an error shows."""

WORTH: Final = ("Kernel panic", "blklab-agent:", "Out of memory", "BUG:", "Oops", "Call Trace")
"""What a line that explains an end has in it."""


class Console:
    """Reads a pipe until its end, and keeps the last of it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._kept = bytearray()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="blklab-console", daemon=True)
        self._thread.start()

    def lines(self) -> list[str]:
        """Returns the last lines, harmless on a terminal."""
        with self._lock:
            text = self._kept.decode(errors="replace")
        return [printable(line.strip()) for line in text.splitlines() if line.strip()][-LINES:]

    def reason(self) -> str | None:
        """Returns the line that says best why a guest ended, None if none does."""
        with self._lock:
            text = self._kept.decode(errors="replace")
        for line in text.splitlines():
            if any(word in line for word in WORTH[:3]):
                return printable(line.strip())[:200]
        return None

    def join(self) -> None:
        """Waits until everything has been read, once its writer has ended."""
        self._thread.join(5)

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
