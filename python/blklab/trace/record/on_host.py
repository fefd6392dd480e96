"""Records on another host: `hosts` sends this program there.

Its first line on stdout is JSON; the request comes on stdin, then a line every few seconds, and `stop` or the end. The
answer is lines of JSON and, if it has a trace, a tar archive of its files.
"""

import json
import os
import select
import shutil
import signal
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from blklab.errors import BlklabError
from blklab.system.remote_program import run_with_children
from blklab.trace.record.blktrace import RecordingOptions
from blklab.trace.record.recording import record

SILENCE = 30.0  # Seconds without a line after which the connection is lost
AGAIN = 5.0  # Seconds until a lost connection ends what is still sent


def main() -> None:
    """Records and sends the trace; leaves no file, also if the connection is lost or the recorder is killed."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def say(**values: object) -> None:
        output.write((json.dumps(values) + "\n").encode())
        output.flush()

    say(clock_ns=time.time_ns())
    with os.fdopen(os.dup(0), "rb", buffering=0) as stream:  # the next lines are for `_listen`
        request = json.loads(stream.readline())
    with tempfile.TemporaryDirectory(dir=request["directory"], prefix=".blklab-", ignore_cleanup_errors=True) as name:
        status = run_with_children(lambda: _record_trace(request, Path(name), output, say), ending=signal.SIGTERM)
    sys.exit(status)


def _record_trace(request: Any, directory: Path, output: IO[bytes], say: Callable[..., None]) -> int:
    """Records to a directory, which it removes: the process that watches it may be dead."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    threading.Thread(target=_listen, daemon=True).start()
    try:
        with suppress(OSError, SystemExit):
            devices = request["devices"]
            target = directory / (Path(devices[0]).name if len(devices) == 1 else "trace")
            try:
                options = RecordingOptions(**request["options"])
                recording = record(devices, target, options, tell=lambda note: say(note=note))
            except BlklabError as error:
                say(error=str(error), status=error.exit_code)
                return 0
            say(error=None, stopped_by=recording.stopped_by)
            with tarfile.open(fileobj=output, mode="w|") as archive:
                for path in (*recording.files, recording.sidecar):
                    archive.add(path, path.name, recursive=False)
            output.flush()
            return 0
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # nothing interrupts the removal of files
    raise SystemExit(1)


def _listen() -> None:
    """Ends the recording at `stop`, and everything if the connection is lost."""
    while select.select([0], [], [], SILENCE)[0] and (chunk := os.read(0, 1 << 12)):
        if b"stop" in chunk:
            os.kill(os.getpid(), signal.SIGINT)
    while True:  # the first one ends the recording, the next one the sending
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(AGAIN)
