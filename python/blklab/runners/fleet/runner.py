"""The runner `fleet`: measures cells on many hosts at the same time, with fio's client and servers.

On each host, the runner `host` measures (`host_agent`): the same claims, refusals, conditions, journal. A host that
fails loses its part of a cell; the others are measured.
"""

import itertools
import json
import os
import queue
import secrets
import select
import selectors
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from queue import Empty, SimpleQueue

from blklab import __version__, child_process, remote_program, ssh
from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.fio import output
from blklab.fio.node import FioDocument
from blklab.outcome import ClockOffset, DeviceResult, HostResult, Outcome
from blklab.remote_program import COMMAND
from blklab.runners.base import Ledger, Runner
from blklab.runners.fio import jobfile, process
from blklab.runners.fio.process import FioExit, FioProgress, Progress, complaint, find_fio
from blklab.runners.fleet.host_agent import SOCKET, SOCKETS, Message, line
from blklab.runners.host import conditions
from blklab.runners.host.scratch_directory import PREFIX
from blklab.spec.cells import Cell, ExperimentPlan
from blklab.spec.host_cell import host_of, ids_of
from blklab.store.series import JOBS, FinishedRun, SeriesPoint, packed
from blklab.system.identity import normal
from blklab.text import by_key, printable

OPTIONS = (*ssh.LASTING, "StreamLocalBindUnlink=yes")
ROUND_TRIPS = 5  # For the clock's offset; the shortest counts
LONGEST = 256 << 20  # Bytes of one message
NOT_FOUND = 127  # Exit status of a shell that does not find a program
PATIENCE = 5.0  # Seconds that ssh may take to end
CLEAN_UP = 20.0  # Seconds that a host may take to stop fio and restore its settings

Inbox = queue.SimpleQueue[tuple["HostLink", Message]]


class HostLink:
    """A connected host. Its messages go to the inbox; the last one is `lost`."""

    def __init__(
        self, name: str, number: int, remote: str, process: child_process.Process, pipes: list[int], stdin: int
    ) -> None:
        self.name = name  # As the user named it for ssh
        self.socket = f"h{number}"  # Name of the socket of its fio server in the private directory
        self.remote = remote  # Name of the directory of that socket on the host
        self.lost = ""  # Why there is no connection; empty while there is one
        self.clock: ClockOffset | None = None
        self._process = process
        self._pipes = pipes
        self._stdin = stdin
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._sent: dict[int, int] = {}  # Times of the pings without an answer yet, ns

    def send(self, kind: str, **values: object) -> None:
        """Sends a message; does nothing if the connection is lost."""
        self._write(line(kind, **values))

    def ping(self) -> None:
        """Shows the host that blklab is there, and measures the offset of its clock.

        Does nothing while the host takes no data: one that hangs must not delay the pings of the others.
        """
        if not self._lock.acquire(blocking=False):
            return  # a message is being written, which shows the same
        try:
            ready = select.poll()
            ready.register(self._stdin, select.POLLOUT)  # then a pipe has room for 4 KiB
            if ready.poll(0):
                number = next(self._numbers)
                self._sent[number] = time.time_ns()
                os.write(self._stdin, line("ping", number=number))
        except (OSError, ValueError):
            return  # the connection is lost or closed
        finally:
            self._lock.release()

    def _write(self, data: bytes) -> None:
        with self._lock, suppress(OSError):
            child_process.write_all(self._stdin, data)

    def read(self, program: bytes, inbox: Inbox) -> None:
        """Sends the program, and puts what the host answers into the inbox until it ends."""
        self._write(program)
        noise = bytearray()
        rest = bytearray()
        answered = False
        with selectors.DefaultSelector() as selector:
            for pipe in self._pipes:
                selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    chunk = os.read(key.fd, 1 << 16)
                    if not chunk:
                        selector.unregister(key.fd)
                    elif key.fd == self._pipes[1]:
                        noise = (noise + chunk)[-4096:]
                    else:
                        for answer in child_process.lines_of(rest, chunk):
                            answered = self._take(answer, inbox, answered)
                if len(rest) > LONGEST:
                    break
                if self._pipes[0] not in selector.get_map() and not selector.select(1.0):
                    break  # what still holds stderr open does not matter
        self.lost = self._reason(ssh.last_line(noise), answered)
        with suppress(ProcessLookupError):
            self._process.terminate()  # ends the forwarded connections, so that fio no longer waits for the host
        inbox.put((self, {"kind": "lost", "message": self.lost}))

    def _take(self, answer: bytes | bytearray, inbox: Inbox, answered: bool) -> bool:
        """Takes a line; tells whether the program has answered. Other lines are a shell's greeting."""
        try:
            message = json.loads(answer)
            if str(message["kind"]) != "pong":
                inbox.put((self, message))
                return True
            now = time.time_ns()
            number = int(message["number"])
            sent = self._sent.pop(number)
            clock = ClockOffset(int(message["clock_ns"]) - (sent + now) // 2, (now - sent + 1) // 2)
        except (ValueError, KeyError, TypeError, RecursionError):
            return answered
        if self.clock is None or clock.error_ns < self.clock.error_ns:
            self.clock = clock
        if number + 1 < ROUND_TRIPS:
            self.ping()
        return True

    def _reason(self, last: str, answered: bool) -> str:
        last = printable(last)
        if answered:
            return f"the connection was lost: {last}" if last else "the connection was lost"
        if self._status() == NOT_FOUND:
            return f"{last or 'python3: not found'}; install Python there, or name it in python of [fleet]"
        return last or "ssh failed without a message"

    def _status(self) -> int | None:
        """Returns ssh's exit status; None if it does not end."""
        until = time.monotonic() + PATIENCE
        while not child_process.ended(self._process) and time.monotonic() < until:
            time.sleep(0.02)
        status = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return None if status is None else status.si_status

    def close(self) -> None:
        """Closes the connection and waits for the host's clean-up."""
        with self._lock:
            os.close(self._stdin)
            self._stdin = -1
        until = time.monotonic() + CLEAN_UP
        while not self.lost and time.monotonic() < until:
            time.sleep(0.02)


@contextmanager
def linked(
    name: str, address: str, number: int, python: str, directory: Path, program: bytes, inbox: Inbox
) -> Iterator[HostLink]:
    """Connects to a host during the block. Call it in the main thread: ssh ends with the thread that started it.

    `directory` is private and gets the socket of fio's server. Raises UsageError and EnvironmentLacks.
    """
    reading, stdin = os.pipe()
    remote = PREFIX + secrets.token_hex(16)
    forward = f"LocalForward={directory}/h{number} {SOCKETS}/{remote}/{SOCKET}"
    command = ssh.command(address, f"{python} {COMMAND}", *OPTIONS, forward)
    with child_process.started(command, directory, apart=True, stdin=reading) as (process, pipes):
        os.close(reading)
        link = HostLink(name, number, remote, process, pipes, stdin)
        reader = threading.Thread(target=link.read, args=(program, inbox), name=f"blklab-{name}", daemon=True)
        reader.start()
        try:
            yield link
        finally:
            link.close()
            with suppress(ProcessLookupError):
                process.terminate()
            reader.join(PATIENCE)


def failure(link: HostLink, message: Message) -> BlklabError:
    """Returns the error for a message `error` or `lost` of a host."""
    error = BlklabError(f"{link.name}: {printable(str(message['message']))}")
    error.exit_code = int(message.get("status", 3 if message["kind"] == "lost" else 1))
    return error


PAYLOAD = (  # Of blklab; importing them imports no others
    *("child_process", "diagnostic", "errors", "outcome", "remote_program", "signatures", "text", "units"),
    *("documents.cell", "documents.outcome"),
    *("fio.latency", "fio.logs", "fio.node", "fio.output"),
    *("runners.base", "runners.counter_deltas", "runners.load_ramp", "runners.fleet.host_agent"),
    *(f"runners.fio.{name}" for name in ("cell", "jobfile", "process")),
    "runners.fio.target_preparation",
    *(f"runners.host.{name}" for name in ("conditions", "journal", "restore", "runner")),
    *(f"runners.host.{name}" for name in ("scratch_directory", "settings", "target_locations")),
    *("spec.documents", "spec.fio_options", "store.series"),
    *(f"system.{name}" for name in ("diskstats", "environment", "identity", "layers", "mounts", "process", "roots")),
    *("system.state_directory", "system.users"),
)
"""The modules that measure on other hosts; they run on a bare Python."""

HEARTBEAT = 5.0  # Seconds between two lines to each host
CONNECT = 60.0  # Seconds that the connections to all hosts may take
SHARED = "shared-device"  # The condition that two hosts write to the same disk


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
    written = directory / "client.json"
    with ExitStack() as stack:
        command = [fio, "--output-format=json+", f"--output={written.name}", "--eta=always"]
        stack.callback(written.unlink, missing_ok=True)
        for socket, job in jobs.items():
            file = directory / f"{socket}.fio"
            file.write_text(job)
            stack.callback(file.unlink)
            command += [f"--client=sock:{socket}", file.name]
        with child_process.started(command, directory) as (client, pipes):
            messages = process.watch(client, pipes[0], seconds, progress, "measure")
        text = written.read_text(errors="replace") if written.exists() else ""
        logs = {}
        for path in directory.glob(f"{jobfile.LOG}_*"):
            logs[path.name] = path.read_text(errors="replace")
            path.unlink()
    if "client_stats" not in text:
        words = printable(complaint(messages + text, client.returncode))
        raise BlklabError(f"fio failed: {words}")
    return ClientRun(output.parse_document(text), text, messages, logs)


Parts = Mapping[str, FinishedRun]  # By host


def fleet_outcome(
    document: FioDocument, parts: Parts, failures: Mapping[str, str], clocks: Mapping[str, ClockOffset | None]
) -> Outcome:
    """Returns the outcome of all hosts. `document` is fio's, of the hosts with `parts`; `clocks` has every host."""
    whole = output.outcome(document)
    outcomes = {name: part.outcome for name, part in parts.items()}
    count = len(clocks)
    lacking = [f"{name}: {why}; the totals are of {len(parts)} of {count} hosts" for name, why in failures.items()]
    settings = []
    for name, part in outcomes.items():
        for change in part.settings or ():
            settings.append(replace(change, where=f"{name}:{change.where}"))
    return replace(
        whole,
        hosts=[_host(name, clock, outcomes.get(name), failures.get(name)) for name, clock in clocks.items()],
        devices=[_named(name, device) for name, part in outcomes.items() for device in part.devices],
        watched_ns=max(part.watched_ns or 0 for part in outcomes.values()),
        warnings=[*lacking, *_together({name: part.warnings for name, part in outcomes.items()})],
        settings=settings,
        forced=list(dict.fromkeys(code for part in outcomes.values() for code in part.forced)),
    )


def _host(name: str, clock: ClockOffset | None, part: Outcome | None, failure: str | None) -> HostResult:
    if part is None:
        return HostResult(name, failure or "no result", clock)
    return HostResult(name, None, clock, part.read, part.write, part.devices)


def _named(host: str, device: DeviceResult) -> DeviceResult:
    return replace(device, name=f"{host}:{device.name}", above=[f"{host}:{name}" for name in device.above])


def _together(by_host: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns each warning once, with the hosts that it is about."""
    pairs = []
    for name, warnings in by_host.items():
        for warning in dict.fromkeys(warnings):
            pairs.append((warning, name))
    lines = []
    for warning, names in by_key(pairs).items():
        hosts = "all hosts" if len(names) == len(by_host) > 1 else ", ".join(names)
        lines.append(f"{hosts}: {warning}")
    return lines


def fleet_series(parts: Parts) -> list[SeriesPoint]:
    """Returns the jobs of all hosts added up, and the devices of each host."""
    jobs: dict[int, SeriesPoint] = {}
    devices = []
    for name, part in parts.items():
        for point in part.points:
            if point.source == JOBS:
                jobs[point.time_ns] = _sum(jobs[point.time_ns], point) if point.time_ns in jobs else point
            else:
                devices.append(replace(point, source=f"{name}:{point.source}"))
    return [*(jobs[at] for at in sorted(jobs)), *devices]


def _sum(point: SeriesPoint, other: SeriesPoint) -> SeriesPoint:
    return SeriesPoint(
        source=JOBS,
        time_ns=point.time_ns,
        width_ns=max(point.width_ns, other.width_ns),
        read_ios=point.read_ios + other.read_ios,
        write_ios=point.write_ios + other.write_ios,
        read_bytes=point.read_bytes + other.read_bytes,
        write_bytes=point.write_bytes + other.write_bytes,
        read_clat_ns=_mean([(point.read_clat_ns, point.read_ios), (other.read_clat_ns, other.read_ios)]),
        write_clat_ns=_mean([(point.write_clat_ns, point.write_ios), (other.write_clat_ns, other.write_ios)]),
    )


def _mean(latencies: Sequence[tuple[float | None, int]]) -> float | None:
    """Returns the mean of latencies with the numbers of their I/Os; None if none is known."""
    known = [(latency, ios) for latency, ios in latencies if latency is not None]
    all_ios = sum(ios for _, ios in known)
    return sum(latency * ios for latency, ios in known) / all_ios if all_ios else None


class FleetRunner(Runner):
    def __init__(
        self,
        *,
        force: Collection[str],
        yes_destroy: Collection[str],
        warn: Callable[[str], object],
        note: object = None,  # noqa: ARG002 - of the simulator and the lab
    ) -> None:
        """`warn` is called with messages for the user. Raises UsageError for an unknown condition."""
        codes = (*conditions.NAMES, SHARED)
        for name in force:
            if name not in codes:
                raise UsageError(f"--force {name!r}: expected one of {', '.join(codes)}")
        self._force = force
        self._yes_destroy = yes_destroy
        self._warn = warn
        self._inbox: Inbox = SimpleQueue()
        self._links: list[HostLink] = []
        self._gone: dict[str, str] = {}  # Hosts that are not measured any more, and why
        self._environments: dict[str, object] = {}
        self._directory = Path()
        self._stack: ExitStack | None = None

    @contextmanager
    def session(self) -> Iterator[None]:
        """Keeps the connections, and so the hosts' locks, from the check to the end."""
        with ExitStack() as self._stack:
            yield

    def check(self, plan: ExperimentPlan) -> None:
        """Connects to every host and checks there what the runner `host` checks."""
        with ExitStack() as own:
            self._connect(plan, self._stack or own)

    def environment(self) -> Mapping[str, object]:
        """Returns the environments of all hosts, by name."""
        names = list(self._environments)
        others = f" and {len(names) - 1} others" if len(names) > 1 else ""
        return {"blklab": __version__, "host": f"{names[0]}{others}", "hosts": self._environments}

    def _connect(self, plan: ExperimentPlan, stack: ExitStack) -> None:
        document = plan.cells[0].document
        hosts = document["hosts"]
        for name in self._yes_destroy:
            if host_of(name, hosts) is None:
                raise UsageError(f"--yes-destroy {name!r}: expected HOST:ID with a host of [fleet]")
        _, version = find_fio()
        self._directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="blklab-", dir=SOCKETS)))
        program = remote_program.program(PAYLOAD, "runners.fleet.host_agent")
        self._links = [
            stack.enter_context(
                linked(name, address, number, document["python"], self._directory, program, self._inbox)
            )
            for number, (name, address) in enumerate(hosts.items())
        ]
        stack.enter_context(self._heartbeat())
        failures = _failures(self._collect(self._links, "hello", until=time.monotonic() + CONNECT))
        links = [link for link in self._links if link not in failures]
        for link in links:
            link.ping()
            cells = [(cell.number, _on_host(cell, link.name)) for cell in plan.cells]
            link.send(
                "cells",
                cells=cells,
                directory=link.remote,
                force=[name for name in self._force if name != SHARED],
                yes_destroy=ids_of(link.name, list(self._yes_destroy), hosts),
            )
        checked = self._collect(links, "checked")
        failures |= _failures(checked)
        for link, message in checked.items():
            if link not in failures:
                self._environments[link.name] = message["environment"]
                here = message["environment"]["programs"]["fio"]
                if f"fio-{here}" != version:
                    failures[link] = EnvironmentLacks(
                        f"{link.name}: found fio {here}, expected {version} as here",
                        "install the same version: fio's client and servers must have the same protocol",
                    )
        self._refuse(failures)
        if SHARED not in self._force:
            refuse_shared({link.name: message["written"] for link, message in checked.items()})
        for link in self._links:
            if link.clock is not None and abs(link.clock.offset_ns) > max(10**9, link.clock.error_ns):
                self._warn(f"{link.name}: its clock differs by {link.clock.offset_ns / 1e9:+.1f} s from this one")

    def _refuse(self, failures: Mapping[HostLink, BlklabError]) -> None:
        """Raises an error if there are failures; shows each in a line if there are several."""
        if len(failures) == 1:
            raise next(iter(failures.values()))
        for link in self._links:
            if link in failures:
                self._warn(str(failures[link]))
        if failures:
            summary = BlklabError(f"{len(failures)} of {len(self._links)} hosts cannot be measured: see above")
            summary.exit_code = max(error.exit_code for error in failures.values())
            raise summary

    @contextmanager
    def _heartbeat(self) -> Iterator[None]:
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(HEARTBEAT):
                for link in self._links:
                    link.ping()

        thread = threading.Thread(target=beat, name="blklab-heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _collect(
        self, links: Sequence[HostLink], kind: str, cell: Cell | None = None, until: float | None = None
    ) -> dict[HostLink, Message]:
        """Waits until each host has sent a message of this kind, has failed or is lost."""
        answers: dict[HostLink, Message] = {link: {"kind": "lost", "message": link.lost} for link in links if link.lost}
        while len(answers) < len(links):
            try:
                link, message = self._inbox.get(timeout=until and max(0.0, until - time.monotonic()))
            except Empty:
                late: Message = {"kind": "lost", "message": f"no connection within {CONNECT:.0f} s"}
                return {link: answers.get(link, late) for link in links}
            if message["kind"] == "note":
                self._warn(f"{link.name}: {printable(str(message['message']))}")
            elif message["kind"] == "progress" and cell is not None:
                phase = f"{link.name}: {printable(str(message['phase']))}"
                self.progress(cell, FioProgress(message["seconds"] or 0.0, message["total_seconds"], phase=phase))
            elif link in links and message["kind"] in {kind, "failed", "error", "lost"}:
                answers.setdefault(link, message)
        return answers

    def run(self, cells: Sequence[Cell], ledger: Ledger) -> None:
        """Measures cells one after the other; a cell without any host is reported to the ledger as failed."""
        self.measure_each(cells, ledger, self._measure_cell)
        for link in self._links:
            link.send("end")

    def _measure_cell(self, cell: Cell) -> FinishedRun:
        began = time.monotonic()
        links = [link for link in self._links if link.name not in self._gone]
        for link in links:
            link.send("begin", number=cell.number)
        failures = dict(self._gone)
        ready = self._kept(self._collect(links, "ready", cell), failures)
        self._need(ready, failures)
        for link in ready:
            link.send("go")
        ran = run(
            find_fio()[0],
            {link.socket: str(message["job"]) for link, message in ready.items()},
            self._directory,
            max((message["seconds"] or 0 for message in ready.values()), default=0) or None,
            lambda live: self.progress(cell, live),
        )
        for link in ready:
            part = ran.of(link.socket)
            if part is None:
                link.send("failed", message="fio got no result from this host")
            else:
                link.send("measured", output=part.output, messages=part.messages, logs=part.logs)
        finished = self._kept(self._collect(list(ready), "finished", cell), failures)
        self._need(finished, failures)
        parts = {link.name: _part(finished[link]) for link in self._links if link in finished}
        document = ran.only([link.socket for link in finished])
        outcome = fleet_outcome(document, parts, failures, {link.name: link.clock for link in self._links})
        return FinishedRun(outcome, time.monotonic() - began, fleet_series(parts), packed(ran.text))

    def _kept(self, answers: Mapping[HostLink, Message], failures: dict[str, str]) -> dict[HostLink, Message]:
        """Returns the answers of hosts that have not failed; adds the others to `failures`."""
        for link, message in answers.items():
            if message["kind"] in {"failed", "error", "lost"}:
                failures[link.name] = printable(str(message["message"]))
                if message["kind"] != "failed":
                    self._gone[link.name] = failures[link.name]
                    self._warn(f"{link.name}: {failures[link.name]}; the other hosts are measured without it")
        return {link: message for link, message in answers.items() if link.name not in failures}

    def _need(self, hosts: Collection[HostLink], failures: Mapping[str, str]) -> None:
        if not hosts:
            raise BlklabError("; ".join(f"{name}: {why}" for name, why in failures.items()))


def _part(message: Message) -> FinishedRun:
    points = [SeriesPoint(*values) for values in message["points"]]
    return FinishedRun(Outcome.from_document(message["outcome"]), message["seconds"] or 0.0, points)


def _failures(answers: Mapping[HostLink, Message]) -> dict[HostLink, BlklabError]:
    return {link: failure(link, message) for link, message in answers.items() if message["kind"] in {"error", "lost"}}


def _on_host(cell: Cell, host: str) -> dict[str, object]:
    """Returns a cell's document for one host."""
    document = cell.document
    ours = {"hosts", "python"}
    destroy = ids_of(host, document["destroy"], document["hosts"])
    return {**{key: value for key, value in document.items() if key not in ours}, "destroy": destroy}


def refuse_shared(written: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
    """Raises BlklabError for a disk to which two hosts write: `written` has its ids, by host and target."""
    for (host, theirs), (other, others) in combinations(written.items(), 2):
        known = {normal(id_) for ids in others.values() for id_ in ids}
        for target, ids in theirs.items():
            if same := [id_ for id_ in ids if normal(id_) in known]:
                raise BlklabError(
                    f"{host} and {other}: target {target}: found {printable(same[0])} on both, expected one writer "
                    f"for each disk: only read it, or use a directory; if these are two disks, add --force {SHARED}"
                )
