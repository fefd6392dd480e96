"""Runs mdadm. What it says is passed on; whether it did it, only a look at the array tells."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from blklab.errors import EnvironmentLacks
from blklab.md.host_software import PATH

INSTALL: Final = "install it: apt-get install mdadm"


@dataclass(frozen=True)
class CommandOutput:
    """What a run of mdadm printed, and its status, which is not to be believed."""

    status: int
    lines: tuple[str, ...]

    @property
    def last(self) -> str:
        """The line to show."""
        return self.lines[-1] if self.lines else f"nothing (status {self.status})"


def find() -> str:
    """Returns where mdadm is. Raises EnvironmentLacks if it is not installed."""
    program = shutil.which("mdadm", path=PATH)
    if program is None:
        raise EnvironmentLacks("mdadm is not installed", INSTALL)
    return program


def shown(words: Sequence[str]) -> str:
    """Returns a command for people: quoted for a shell, in case it is copied."""
    return shlex.join(["mdadm", *words])


def run(*words: str) -> CommandOutput:
    """Runs mdadm until it ends: in a session of its own, so that no Ctrl-C reaches it."""
    ran = subprocess.run(
        [find(), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
        start_new_session=True,
        check=False,
    )
    lines = [line.strip() for line in ran.stdout.splitlines()]
    return CommandOutput(ran.returncode, tuple(line for line in lines if line))
