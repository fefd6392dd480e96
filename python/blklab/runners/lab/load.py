"""fio in the guest: the cell's own load, and the preparation of files and caches."""

import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from blklab.errors import BlklabError
from blklab.runners.fio import jobfile
from blklab.runners.fio.process import MOST_SAID, PATIENCE, FioExit, FioProgress, Progress, iops
from blklab.runners.fio.program import complaint
from blklab.runners.lab.files import fetch, texts
from blklab.runners.lab.machine.boot import GuestMachine
from blklab.spec.documents import FioCellDocument
from blklab.text import printable

DIRECTORY: Final = "/run/blklab"  # fio's working directory in the guest


def play(
    machine: GuestMachine,
    document: FioCellDocument,
    target: str,
    progress: Progress,
    *,
    runtime_ns: int | None = None,
    log_ms: int | None = None,
    phase: str = "measure",
    alongside: AbstractContextManager[object] | None = None,
) -> FioExit:
    """Runs a cell's jobs on a device or a file of the guest, within `alongside`. Raises BlklabError."""
    agent = machine.agent
    text = jobfile.render(document, Path(target), runtime_ns=runtime_ns, log_ms=log_ms)
    agent.run(["rm", "-rf", DIRECTORY])
    agent.run(["mkdir", "-p", DIRECTORY])
    agent.write(f"{DIRECTORY}/job.fio", text)
    seconds = jobfile.seconds(document, runtime_ns)
    options = ["--output-format=json+"]
    messages = _FioMessages(seconds, progress, phase)
    with alongside or nullcontext():
        ran = agent.run(
            ["fio", *options, "--output=job.json", "--eta=always", "job.fio"],
            cwd=DIRECTORY,
            timeout=None if seconds is None else seconds + PATIENCE,
            stream=messages.heard,
            check=False,
        )
    written = texts(fetch(machine, [f"{DIRECTORY}/job.json", f"{DIRECTORY}/*.log"]))
    result = written.pop(f"{DIRECTORY}/job.json", "")
    if ran.status:
        words = complaint(messages.text + ran.stderr + result.partition("{\n")[0], ran.status)
        raise BlklabError(f"fio failed in the guest: {printable(words)}")
    logs = {path.rpartition("/")[2]: content for path, content in written.items()}
    return FioExit(result, messages.text, logs, ["fio", *options, "job.fio"])


class _FioMessages:
    """fio's output while it runs: lines of progress, and messages, which are kept."""

    def __init__(self, seconds: float | None, progress: Progress, phase: str) -> None:
        self.text = ""
        self._rest = ""
        self._seconds = seconds
        self._progress = progress
        self._phase = phase
        self._lines = 0

    def heard(self, _stream: str, chunk: str) -> None:
        """Takes a part of fio's output."""
        *lines, self._rest = re.split(r"[\r\n]", self._rest + chunk)
        for line in lines:
            figure = iops(line)
            if figure is not None or line.startswith("Jobs: "):
                self._lines += 1  # one a second
                read, write = figure or (None, None)
                self._progress(FioProgress(float(self._lines), self._seconds, read, write, phase=self._phase))
            elif line.strip() and len(self.text) < MOST_SAID:
                self.text += line + "\n"
