"""Lets members of arrays fail, and re-adds them, during the load."""

import threading
import time
from collections.abc import Callable
from typing import Self

from blklab.errors import BlklabError
from blklab.experiment import documents
from blklab.runners.fio.process import FioProgress, Progress
from blklab.runners.lab.agent import GuestGone
from blklab.runners.lab.stacks import md
from blklab.runners.lab.stacks.guest import GuestStack
from blklab.units import format_duration

POLL = 0.05  # Seconds between two checks whether the load has begun
Event = tuple[int, Callable[[GuestStack, str, str], None], str, str]
"""Time in ns from the start of the load; the action, with the array and the member's path."""


class FaultSchedule:
    """Runs a cell's events during the block, which must be fio's whole time.

    Times count from the first I/O of the stack's top, or from when fio first reports I/O: an
    emulated guest takes seconds to start it. A sync that does not begin raises BlklabError at
    the block's end. Other failures, and events for which there was no time, are `problems`.
    """

    def __init__(self, guest: GuestStack, document: documents.LabCellDocument) -> None:
        """Raises BlklabError if a member that must fail does not exist."""
        self._guest = guest
        self._events = _events(guest, document)
        self.problems: list[str] = []  # What failed or did not happen; complete after the block
        self._error: Exception | None = None
        self._started = False
        self._told = threading.Event()
        self._stop = threading.Event()
        self._before: str | None = None
        self._thread = threading.Thread(target=self._run, name="blklab-during", daemon=True)

    def listening(self, progress: Progress) -> Progress:
        """Wraps `progress` to notice fio's first I/O: with buffered I/O, devices are idle for long."""

        def heard(live: FioProgress) -> None:
            if (live.read_iops or 0) + (live.write_iops or 0) > 0:
                self._told.set()
            progress(live)

        return heard

    def __enter__(self) -> Self:
        if self._events or self._guest.starting:
            self._before = self._count()
            self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._stop.set()
        if error is not None and not isinstance(error, Exception):
            return  # blklab is told to end, and the guest with it: nothing is waited for
        if self._thread.ident is not None:
            self._thread.join()
        if error is not None:
            return
        if self._error is not None:
            raise self._error
        if not self._started:
            self.problems += [
                f"{name}: the load ended before its {sync} began" for name, sync in self._guest.syncing.items()
            ]
        for at_ns, act, array, path in self._events:
            action = "failed" if act is md.fail else "could be re-added"
            member = self._guest.layer(path.removeprefix("/dev/")).name
            self.problems.append(
                f"{array}: the load ended before {member} {action}, {format_duration(at_ns)} after its start"
            )

    def _run(self) -> None:
        try:
            self._play()
        except GuestGone:
            return  # who waits for the load is told as well
        except Exception as error:  # raised again where it is seen
            self._error = error

    def _play(self) -> None:
        while not self._told.is_set() and self._count() == self._before:
            if self._stop.wait(POLL):
                return
        began = time.monotonic()
        self._started = True
        for start in self._guest.starting:
            start()
        while self._events:
            at_ns, act, array, path = self._events[0]
            if self._stop.wait(max(0.0, at_ns / 1e9 - (time.monotonic() - began))):
                return
            del self._events[0]
            try:
                act(self._guest, array, path)
            except GuestGone:
                raise
            except BlklabError as error:
                self.problems.append(f"{array}: {error}")

    def _count(self) -> str | None:
        return self._guest.read(f"/sys/block/{self._guest.layers[-1].kernel}/stat")


def _events(guest: GuestStack, document: documents.LabCellDocument) -> list[Event]:
    events: list[Event] = []
    for failure in document["failures"]:
        member = md.member(guest, failure["array"], failure["slot"])
        events.append((failure["at_ns"], md.fail, failure["array"], member))
        if failure["re_add_ns"] is not None:
            events.append((failure["re_add_ns"], md.re_add, failure["array"], member))
    return sorted(events, key=lambda event: event[0])
