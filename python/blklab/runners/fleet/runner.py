"""The runner `fleet`: measures cells on many hosts at the same time, with fio's client and servers.

On each host, the runner `host` measures (`host_agent`): the same claims, refusals, conditions, journal. A host that
fails loses its part of a cell; the others are measured.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue

from blklab import __version__
from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.experiment.host_cell import host_of, ids_of
from blklab.outcome import Outcome
from blklab.runners.base import Ledger, Runner
from blklab.runners.fio.process import FioProgress, find_fio
from blklab.runners.fleet import fio_client
from blklab.runners.fleet.fleet_totals import fleet_outcome, fleet_series
from blklab.runners.fleet.host_agent import SOCKETS, Message
from blklab.runners.fleet.host_link import HostLink, Inbox, connect_host, failure
from blklab.runners.fleet.payload import PAYLOAD
from blklab.runners.fleet.shared_disks import SHARED, refuse_shared
from blklab.runners.host import conditions
from blklab.store.series import FinishedRun, SeriesPoint, pack_output
from blklab.system import remote_program
from blklab.text.printing import printable

HEARTBEAT = 5.0  # Seconds between two lines to each host
CONNECT = 60.0  # Seconds that the connections to all hosts may take


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
        with ExitStack() as own_stack:
            self._connect(plan, self._stack or own_stack)

    def environment(self) -> Mapping[str, object]:
        """Returns the environments of all hosts, by name."""
        names = list(self._environments)
        suffix = f" and {len(names) - 1} others" if len(names) > 1 else ""
        return {"blklab": __version__, "host": f"{names[0]}{suffix}", "hosts": self._environments}

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
                connect_host(name, address, number, document["python"], self._directory, program, self._inbox)
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
        answers = self._collect(links, "checked")
        failures |= _failures(answers)
        for link, message in answers.items():
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
            refuse_shared({link.name: message["written"] for link, message in answers.items()})
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
        stop = threading.Event()

        def beat() -> None:
            while not stop.wait(HEARTBEAT):
                for link in self._links:
                    link.ping()

        thread = threading.Thread(target=beat, name="blklab-heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
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
        ready = self._drop_failed_hosts(self._collect(links, "ready", cell), failures)
        self._need(ready, failures)
        for link in ready:
            link.send("go")
        ran = fio_client.run(
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
        results = self._drop_failed_hosts(self._collect(list(ready), "finished", cell), failures)
        self._need(results, failures)
        parts = {link.name: _part(results[link]) for link in self._links if link in results}
        document = ran.only([link.socket for link in results])
        outcome = fleet_outcome(document, parts, failures, {link.name: link.clock for link in self._links})
        return FinishedRun(outcome, time.monotonic() - began, fleet_series(parts), pack_output(ran.text))

    def _drop_failed_hosts(
        self, answers: Mapping[HostLink, Message], failures: dict[str, str]
    ) -> dict[HostLink, Message]:
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
