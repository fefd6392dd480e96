"""A guest as the builders of stacks see it: its layers by name, and how they are undone."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from blklab.errors import BlklabError
from blklab.outcome import VolumeReport
from blklab.runners.lab.agent import Agent, ProgramExit
from blklab.text import printable

PATIENCE: Final = 30.0
"""Seconds that a device may take to come or go: emulated guests are slow."""

PROGRAM: Final = 300.0
"""Seconds that a program which builds something may take."""


@dataclass
class GuestLayer:
    """A block device of the guest that belongs to the cell's stack."""

    name: str
    """The experiment's: a device's or a stack's."""

    kind: str
    """`disk`, `md`, `dm`, `bcache`."""

    kernel: str
    """The kernel's name: `vda`, `md0`."""

    serial: str | None = None
    above: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        """Where it is."""
        return f"/dev/{self.kernel}"


@dataclass
class GuestStack:
    """The agent, what has been built, and what is to be undone, in order."""

    agent: Agent
    layers: list[GuestLayer] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    """Modules that could not be loaded."""

    undoing: list[Callable[[], object]] = field(default_factory=list)
    readying: list[Callable[[], object]] = field(default_factory=list)
    """What is done when all is built and throttled, and may take its time: counts are cleared."""

    unrestored: dict[str, str] = field(default_factory=dict)
    """Settings that could not be put back, and what they were."""

    starting: list[Callable[[], object]] = field(default_factory=list)
    """What begins at the load's first I/O: a resync, a recovery."""

    syncing: dict[str, str] = field(default_factory=dict)
    """By an array's name: what begins there, in md's words."""

    groups: dict[str, str] = field(default_factory=dict)
    """Volume groups, by the stack's name: LVM takes fewer names than an experiment."""

    members: dict[str, Sequence[str | None]] = field(default_factory=dict)
    """Of each array, by its name: the paths in its slots, as it was made."""

    mostly: set[str] = field(default_factory=set)
    """Members that are write-mostly, whenever they are added."""

    reports: list[Callable[[], VolumeReport]] = field(default_factory=list)
    """What arrays and caches have to say after the load."""

    def run(self, *argv: str, check: bool = True) -> ProgramExit:
        """Runs a program in the guest. Raises BlklabError if it fails."""
        return self.agent.run(list(argv), timeout=PROGRAM, check=check)

    def read(self, path: str) -> str | None:
        """Returns what a file says, without the line's end; None if it says nothing."""
        text = self.agent.read([path]).get(path)
        return None if text is None else text.strip()

    def setting(self, path: str) -> str | None:
        """Returns a setting as it would be written: of several, the one in brackets."""
        text = self.read(path)
        if text is not None and "[" in text:  # none [mq-deadline] kyber
            return text.partition("[")[2].partition("]")[0]
        return text

    def write(self, path: str, text: str) -> None:
        """Writes to a file of /sys or /proc. Raises BlklabError."""
        self.agent.write(path, text)

    def glob(self, pattern: str) -> dict[str, str]:
        """Returns the files that match a pattern, with what they say."""
        matches = self.agent.read([pattern])
        return {path: text.strip() for path, text in matches.items() if text is not None}

    def until(self, there: Callable[[], bool], what: str) -> None:
        """Waits until something is so. Raises BlklabError when it takes too long."""
        deadline = time.monotonic() + PATIENCE
        while not there():
            if time.monotonic() > deadline:
                raise BlklabError(f"{what}: not so after {PATIENCE:g} s")
            time.sleep(0.05)

    def mapped(self, name: str) -> str:
        """Returns the kernel's name of a device-mapper's: dm-0. Raises BlklabError."""
        for path, content in self.glob("/sys/block/dm-*/dm/name").items():
            if content == name:
                return path.split("/")[3]
        raise BlklabError(f"the guest has no device {name}")

    def layer(self, kernel: str) -> GuestLayer:
        """Returns the layer of a kernel's name. Raises BlklabError."""
        for layer in self.layers:
            if layer.kernel == kernel:
                return layer
        raise BlklabError(f"the cell has no layer {kernel}")

    def named(self, name: str) -> GuestLayer:
        """Returns the layer that the experiment calls so. Raises BlklabError."""
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise BlklabError(f"{name}: the cell has no such layer")

    def above(self, upper: str, *paths: str) -> None:
        """Notes that what is at `paths` lies below the layer named `upper`."""
        for path in paths:
            self.layer(path.removeprefix("/dev/")).above.append(upper)

    def undo(self) -> list[str]:
        """Undoes everything, the last first, and returns what went wrong."""
        problems = []
        while self.undoing:
            try:
                self.undoing.pop()()
            except BlklabError as error:
                problems.append(str(error))
        for path, before in self.unrestored.items():
            now = self.setting(path)
            if now is not None and now != before:
                problems.append(f"{path}: is {printable(now)}, and was {printable(before)}")
        self.layers.clear()
        return problems

    def loaded(self, *modules: str) -> None:
        """Loads modules; those that are not there may be part of the kernel."""
        for module in modules:
            if self.run("modprobe", "-q", module, check=False).status:
                self.lacking.append(module)
