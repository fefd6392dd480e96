"""Runs fio in the guest."""

import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from blklab.errors import BlklabError
from blklab.experiment import documents
from blklab.runners.fio import jobfile
from blklab.runners.fio.process import PATIENCE, FioExit, FioMessages, FioProgress, Progress, complaint
from blklab.runners.lab.guest_files import fetch
from blklab.runners.lab.machine.boot import GuestMachine
from blklab.text.printing import printable
from blklab.units import format_size

DIRECTORY = "/run/blklab"  # fio's working directory in the guest
MOST_LOG = 12 << 20  # Bytes of a log, which is one message to the guest (crates/agent/src/frame.rs)


def play(
    machine: GuestMachine,
    document: documents.FioCellDocument,
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
    if (replay := document.get("replay")) is not None:
        agent.write(str(Path(DIRECTORY).parent / jobfile.REPLAY), _replay_log(replay))
    seconds = jobfile.seconds(document, runtime_ns)
    options = ["--output-format=json+"]
    messages = FioMessages()
    lines_shown = 0

    def report_output(_stream: str, chunk: str) -> None:
        nonlocal lines_shown
        lines = messages.take(chunk)
        for second in range(lines_shown + 1, lines_shown + lines + 1):  # one a second
            progress(FioProgress(float(second), seconds, *messages.rates, phase=phase))
        lines_shown += lines

    with alongside or nullcontext():
        ran = agent.run(
            ["fio", *options, "--output=job.json", "--eta=always", "job.fio"],
            cwd=DIRECTORY,
            timeout=None if seconds is None else seconds + PATIENCE,
            stream=report_output,
            check=False,
        )
    files = fetch(machine, [f"{DIRECTORY}/job.json", f"{DIRECTORY}/*.log"])
    result = files.pop(f"{DIRECTORY}/job.json", "")
    if ran.status:
        message = complaint(messages.text + ran.stderr + result.partition("{\n")[0], ran.status)
        raise BlklabError(f"fio failed in the guest: {printable(message)}")
    logs = {path.rpartition("/")[2]: content for path, content in files.items()}
    return FioExit(result, messages.text, logs, ["fio", *options, "job.fio"])


def _replay_log(replay: documents.ReplayDocument) -> str:
    """Returns the log that fio replays. Raises BlklabError if it is too large for the guest."""
    with tempfile.TemporaryDirectory(prefix="blklab-") as directory:
        path = Path(directory) / jobfile.REPLAY
        jobfile.write_replay(replay, path)
        if (size := path.stat().st_size) > MOST_LOG:
            raise BlklabError(
                f"{replay['path']}: its {replay['ios']:,} I/Os are {format_size(size)} of fio's log, "
                f"expected at most {format_size(MOST_LOG)}: replay a shorter trace (blklab trace convert --until)"
            )
        return path.read_text()
