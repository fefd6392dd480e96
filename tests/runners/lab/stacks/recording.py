"""A guest that records what it is asked, and has the files that a test gives it."""

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from blklab.errors import BlklabError
from blklab.runners.lab.agent import Agent, AgentHello, GuestFailed, ProgramExit
from blklab.runners.lab.stacks.guest import GuestLayer, GuestStack

Answer = str | int | Callable[[list[str]], ProgramExit]


@dataclass
class Recorder:
    """Is asked as the agent is; `ran` are commands, `wrote` paths and texts."""

    files: dict[str, str] = field(default_factory=dict)
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """By how a command begins: its output, or its status."""

    ran: list[str] = field(default_factory=list)
    wrote: list[tuple[str, str]] = field(default_factory=list)
    on: dict[str, dict[str, str]] = field(default_factory=dict)
    """Files that come to be with a command that begins so, or a write to that path."""

    def run(self, argv: Sequence[str], *, check: bool = True, **_named: Any) -> ProgramExit:
        """Records a command."""
        command = " ".join(argv)
        self.ran.append(command)
        self._come(command)
        for beginning, answer in self.answers.items():
            if command.startswith(beginning):
                status = answer if isinstance(answer, int) else 0
                if status and check:
                    raise GuestFailed(f"in the guest: {command} ended with status {status}")
                return ProgramExit(status, answer if isinstance(answer, str) else "", "", False, 1)
        return ProgramExit(0, "", "", False, 1)

    def read(self, paths: Sequence[str]) -> dict[str, str | None]:
        result: dict[str, str | None] = {}
        for path in paths:
            if "*" in path:
                names = [name for name in self.files if fnmatch.fnmatchcase(name, path)]
                same = [name for name in names if name.count("/") == path.count("/")]
                result |= {name: self.files[name] for name in sorted(same)}
            else:
                result[path] = self.files.get(path)
        return result

    def write(self, path: str, text: str) -> None:
        self.wrote.append((path, text))
        if path.startswith("/sys/refused"):
            raise BlklabError(f"{path}: Invalid argument")
        self._come(path)
        if path in self.files:
            self.files[path] = text

    def hello(self, _timeout: float) -> AgentHello:
        """Says which kernel it is."""
        return AgentHello(1, "1.0", "6.1.0-9", "x86_64", ())

    def _come(self, what: str) -> None:
        for beginning, files in self.on.items():
            if what.startswith(beginning):
                self.files |= files


def guest(recorder: Recorder, *disks: str) -> GuestStack:
    """Returns a guest with disks vda, vdb, … by these names."""
    made = GuestStack(cast("Agent", recorder))
    for letter, name in zip("abcdefgh", disks, strict=False):
        made.layers.append(GuestLayer(name, "disk", f"vd{letter}", name))
    return made
