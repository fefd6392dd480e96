"""Where cells do their I/O: a file in a directory of blklab, a claimed device, or a directory.

A location is made when the first cell of its target needs it, and serves all its cells. It is
released and removed when the campaign ends in any way.
"""

import tempfile
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from blklab.errors import UsageError
from blklab.runners.host.device_safety import DeviceClaim, claim
from blklab.runners.host.journal import HostJournal
from blklab.runners.host.scratch_directory import ScratchDirectory, check_mounted, scratch
from blklab.spec.documents import HostCellDocument, writes

WORK: Final = 64 << 20  # Bytes for fio's logs and output: an hour of points of hundreds of jobs
DATA: Final = "data"  # The file's name


@dataclass
class TargetLocation:
    """The location of the I/O of one target's cells."""

    path: Path  # The file, the device's node, or the directory of a command
    work: Path  # A private directory for job files and logs, on another filesystem if there is one
    held: DeviceClaim | ScratchDirectory | None  # None for a command, which needs no file
    writes: bool  # Whether any cell may write to it
    prepared: bool = field(default=False)  # Whether it is prepared: done once, before the first cell

    @property
    def warnings(self) -> Sequence[str]:
        """Doubts about this location."""
        return self.held.warnings if self.held is not None else ()

    def verify(self) -> None:
        """Raises BlklabError if it has changed."""
        if self.held is not None:
            self.held.verify()


class TargetLocations:
    def __init__(self, stack: ExitStack, journal: HostJournal, yes_destroy: Collection[str]) -> None:
        """They are released when `stack` is left."""
        self._stack = stack
        self._journal = journal
        self._yes_destroy = yes_destroy
        self._made: dict[tuple[str, bool], TargetLocation] = {}
        self._work: Path | None = None

    def of(self, document: HostCellDocument, documents: Sequence[HostCellDocument]) -> TargetLocation:
        """Returns the location of a cell, given the cells of the whole campaign.

        Raises UsageError, BlklabError or EnvironmentLacks if it must not or cannot be used.
        """
        key = (document["target"]["name"], document["command"] is not None)
        if key not in self._made:
            same = [document_ for document_ in documents if document_["target"] == document["target"]]
            self._made[key] = self._make(document, same)
        return self._made[key]

    def warnings(self) -> list[str]:
        """Returns the doubts about all locations."""
        return [warning for place in self._made.values() for warning in place.warnings]

    def _make(self, document: HostCellDocument, documents: Sequence[HostCellDocument]) -> TargetLocation:
        target = document["target"]
        written = any(writes(document_) for document_ in documents)
        if document["command"] is not None:
            directory = Path(target.get("filesystem") or target["directory"])
            if not directory.is_dir():
                raise UsageError(f"{directory}: no such directory")
            if "filesystem" in target:
                check_mounted(directory, self._journal.roots)
            return TargetLocation(directory, self._directory(), None, False)
        if "device" in target:
            claimed = self._stack.enter_context(
                claim(
                    target["device"],
                    self._journal,
                    writes=written,
                    destroy=document["destroy"],
                    yes_destroy=self._yes_destroy,
                )
            )
            return TargetLocation(claimed.path, self._directory(), claimed, written)
        made = self._stack.enter_context(
            scratch(
                target.get("filesystem") or target["directory"],
                self._journal,
                needed=document["file_bytes"],
                mounted="filesystem" in target,
            )
        )
        return TargetLocation(made.place(DATA), self._directory(), made, True)

    def _directory(self) -> Path:
        """Returns the private directory for fio's own files, made when it is first needed."""
        if self._work is None:
            temporary = Path(tempfile.gettempdir())
            self._work = self._stack.enter_context(scratch(temporary, self._journal, needed=WORK)).path
        return self._work
