"""The guest as the builders of stacks use it: its layers by name, and how to remove them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from blklab.errors import BlklabError
from blklab.outcome import VolumeReport
from blklab.runners.lab.agent import Agent, ProgramExit
from blklab.text.printing import printable

PATIENCE = 30.0  # Seconds until a device must appear or disappear: emulated guests are slow
PROGRAM = 300.0  # Seconds that a program which builds something may take


@dataclass
class GuestLayer:
    """A block device of the guest that belongs to the cell's stack."""

    name: str  # The name of a device or a stack in the experiment
    kind: str  # `disk`, `md`, `dm`, `bcache`
    kernel: str  # The kernel's name: `vda`, `md0`
    serial: str | None = None
    above: list[str] = field(default_factory=list)
    role: str | None = None  # Its part in a cache: `cache` or `backing`

    @property
    def path(self) -> str:
        return f"/dev/{self.kernel}"


@dataclass
class GuestStack:
    """The agent, what has been built, and the steps to undo it."""

    agent: Agent
    layers: list[GuestLayer] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)  # Modules that could not be loaded
    undoing: list[Callable[[], object]] = field(default_factory=list)
    readying: list[Callable[[], object]] = field(default_factory=list)
    """Actions after building and throttling, which may take long: clearing of counters."""

    lost_settings: dict[str, str] = field(default_factory=dict)
    """Settings that could not be restored, and their former values."""

    starting: list[Callable[[], object]] = field(default_factory=list)
    """Actions at the load's first I/O: begin a resync, a recovery."""

    syncing: dict[str, str] = field(default_factory=dict)  # Sync actions in md's words, by the array's name
    groups: dict[str, str] = field(default_factory=dict)
    """Names of volume groups by stack: LVM allows fewer characters than an experiment."""

    members: dict[str, Sequence[str | None]] = field(default_factory=dict)
    """The original paths of each array's slots, by the array's name."""

    mostly: set[str] = field(default_factory=set)  # Members that are always added as write-mostly
    reports: list[Callable[[], VolumeReport]] = field(default_factory=list)
    """Reports of arrays and caches after the load."""

    def run(self, *argv: str, check: bool = True) -> ProgramExit:
        """Runs a program in the guest. Raises BlklabError if it fails."""
        return self.agent.run(list(argv), timeout=PROGRAM, check=check)

    def read(self, path: str) -> str | None:
        """Returns a file's text without the final newline; None if it cannot be read."""
        text = self.agent.read([path]).get(path)
        return None if text is None else text.strip()

    def setting(self, path: str) -> str | None:
        """Returns a setting as it would be written; of several values, the one in brackets."""
        text = self.read(path)
        if text is not None and "[" in text:  # none [mq-deadline] kyber
            return text.partition("[")[2].partition("]")[0]
        return text

    def write(self, path: str, text: str) -> None:
        """Writes to a file of /sys or /proc. Raises BlklabError."""
        self.agent.write(path, text)

    def glob(self, *patterns: str) -> dict[str, str]:
        """Returns the files that match a pattern, with their contents."""
        return {path: text.strip() for path, text in self.agent.read(patterns).items() if text is not None}

    def until(self, condition: Callable[[], bool], description: str) -> None:
        """Waits until `condition` returns true. Raises BlklabError after PATIENCE."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise BlklabError(f"in the guest: not true after {PATIENCE:g} s: {description}")
            time.sleep(0.05)

    def find_dm_name(self, name: str) -> str:
        """Returns the kernel's name of a device-mapper device: dm-0. Raises BlklabError."""
        for path, content in self.glob("/sys/block/dm-*/dm/name").items():
            if content == name:
                return path.split("/")[3]
        raise BlklabError(f"the guest has no device {name}")

    def layer(self, kernel: str) -> GuestLayer:
        """Returns the layer with the kernel's name. Raises BlklabError."""
        for layer in self.layers:
            if layer.kernel == kernel:
                return layer
        raise BlklabError(f"the cell has no layer {kernel}")

    def find_layer(self, name: str) -> GuestLayer:
        """Returns the layer with the experiment's name. Raises BlklabError."""
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise BlklabError(f"{name}: the cell has no such layer")

    def add_layer(self, layer: GuestLayer, *below: str) -> str:
        """Adds a layer above those at the paths `below`, and returns its path."""
        self.layers.append(layer)
        for path in below:
            self.layer(path.removeprefix("/dev/")).above.append(layer.name)
        return layer.path

    def add_cache(self, layer: GuestLayer, backing: str, cache: str) -> str:
        """Adds a cache on the devices at two paths, and returns its path."""
        self.layer(backing.removeprefix("/dev/")).role = "backing"
        self.layer(cache.removeprefix("/dev/")).role = "cache"
        return self.add_layer(layer, backing, cache)

    def undo(self) -> list[str]:
        """Undoes everything, the last first, and returns the errors."""
        problems = []
        while self.undoing:
            try:
                self.undoing.pop()()
            except BlklabError as error:
                problems.append(str(error))
        for path, before in self.lost_settings.items():
            now = self.setting(path)
            if now is not None and now != before:
                problems.append(f"{path}: not restored: found {printable(now)}, expected {printable(before)}")
        self.layers.clear()
        return problems

    def load_modules(self, *modules: str) -> None:
        """Loads modules; missing ones may be part of the kernel."""
        for module in modules:
            if self.run("modprobe", "-q", module, check=False).status:
                self.lacking.append(module)
