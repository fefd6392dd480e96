"""fio in the guest: the cell's own load, and the preparation of files and caches."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from blklab.errors import BlklabError
from blklab.runners.fio import jobfile
from blklab.runners.fio.process import PATIENCE, FioExit, FioMessages, FioProgress, Progress
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
    messages = FioMessages()
    lines_shown = 0

    def heard(_stream: str, chunk: str) -> None:
        nonlocal lines_shown
        lines = messages.take(chunk)
        for at in range(lines_shown + 1, lines_shown + lines + 1):  # one a second
            progress(FioProgress(float(at), seconds, *messages.rates, phase=phase))
        lines_shown += lines

    with alongside or nullcontext():
        ran = agent.run(
            ["fio", *options, "--output=job.json", "--eta=always", "job.fio"],
            cwd=DIRECTORY,
            timeout=None if seconds is None else seconds + PATIENCE,
            stream=heard,
            check=False,
        )
    written = texts(fetch(machine, [f"{DIRECTORY}/job.json", f"{DIRECTORY}/*.log"]))
    result = written.pop(f"{DIRECTORY}/job.json", "")
    if ran.status:
        words = complaint(messages.text + ran.stderr + result.partition("{\n")[0], ran.status)
        raise BlklabError(f"fio failed in the guest: {printable(words)}")
    logs = {path.rpartition("/")[2]: content for path, content in written.items()}
    return FioExit(result, messages.text, logs, ["fio", *options, "job.fio"])
