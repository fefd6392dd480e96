"""Ends `blklab trace live DISK` with each signal: watched DISK COMMAND…

Prints a line of JSON for each signal: its name, the exit status, and whether the kernel's trace is gone.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def wait(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + 200
    while not condition() and time.monotonic() < until:
        time.sleep(0.1)
    return condition()


disk, command = sys.argv[1], sys.argv[2:]
traced = Path("/sys/kernel/debug/block") / disk.removeprefix("/dev/") / "dropped"
for name in ("SIGTERM", "SIGKILL"):
    watcher = subprocess.Popen([*command, "trace", "live", disk], stdout=subprocess.DEVNULL, stderr=sys.stderr)
    if not wait(traced.exists):
        sys.exit(f"{name}: nothing is traced; blklab: {watcher.poll()}")
    time.sleep(1)
    watcher.send_signal(signal.Signals[name])
    status = watcher.wait(60)
    sys.stdout.write(json.dumps([name, status, wait(lambda: not traced.exists())]) + "\n")
