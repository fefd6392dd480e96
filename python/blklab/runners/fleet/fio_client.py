"""Runs fio's client, which drives the servers on all hosts."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from blklab.errors import BlklabError
from blklab.fio import output
from blklab.fio.node import FioDocument
from blklab.runners.fio import jobfile, process
from blklab.runners.fio.process import FioExit, Progress, complaint
from blklab.system import child_process
from blklab.text.printing import printable


@dataclass(frozen=True)
class ClientRun:
    """What fio's client wrote about all hosts."""

    document: FioDocument
    text: str
    messages: str
    logs: Mapping[str, str]

    def only(self, sockets: list[str]) -> FioDocument:
        """Returns the document with the results of some hosts, by their sockets, which are fio's names of them."""
        hosts = {}
        for key in ("client_stats", "disk_util"):
            hosts[key] = [part for part in self.document.get(key, []) if part.get("hostname") in sockets]
        hosts["client_stats"] = [part for part in hosts["client_stats"] if part.get("jobname") != "All clients"]
        return {**self.document, **hosts}

    def of(self, socket: str) -> FioExit | None:
        """Returns what fio would have written on a host; None if fio got no result from it."""
        document = self.only([socket])
        if not document["client_stats"]:
            return None
        ending = f".{socket}"
        logs = {name.removesuffix(ending): text for name, text in self.logs.items() if name.endswith(ending)}
        return FioExit(json.dumps(document), self.messages, logs, [])


def run(fio: str, jobs: Mapping[str, str], directory: Path, seconds: float | None, progress: Progress) -> ClientRun:
    """Runs a job on each host, by the names of their sockets in `directory`. Raises BlklabError."""
    output_path = directory / "client.json"
    with ExitStack() as stack:
        command = [fio, "--output-format=json+", f"--output={output_path.name}", "--eta=always"]
        stack.callback(output_path.unlink, missing_ok=True)
        for socket, job in jobs.items():
            file = directory / f"{socket}.fio"
            file.write_text(job)
            stack.callback(file.unlink)
            command += [f"--client=sock:{socket}", file.name]
        with child_process.start_process(command, directory) as (client, pipes):
            messages = process.watch(client, pipes[0], seconds, progress, "measure")
        text = output_path.read_text(errors="replace") if output_path.exists() else ""
        logs = {}
        for path in directory.glob(f"{jobfile.LOG}_*"):
            logs[path.name] = path.read_text(errors="replace")
            path.unlink()
    if "client_stats" not in text:
        message = printable(complaint(messages + text, client.returncode))
        raise BlklabError(f"fio failed: {message}")
    return ClientRun(output.parse_document(text), text, messages, logs)
