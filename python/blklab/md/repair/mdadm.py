"""Runs mdadm. Its exit status is not reliable: only the state of the array shows the effect."""

import os
import shutil
import subprocess
from dataclasses import dataclass

from blklab.dmsetup import PATH
from blklab.errors import EnvironmentLacks

INSTALL = "install it: apt-get install mdadm"


@dataclass(frozen=True)
class CommandOutput:
    """What mdadm printed, and its exit status, which is not reliable."""

    status: int
    lines: tuple[str, ...]

    @property
    def last(self) -> str:
        """The last line, for messages."""
        return self.lines[-1] if self.lines else f"nothing (exit status {self.status})"


def find_mdadm() -> str:
    """Returns the path of mdadm. Raises EnvironmentLacks if it is not installed."""
    program = shutil.which("mdadm", path=PATH)
    if program is None:
        raise EnvironmentLacks("mdadm is not installed", INSTALL)
    return program


def run_mdadm(*words: str) -> CommandOutput:
    """Runs mdadm until it ends, in a new session, so that Ctrl-C does not reach it."""
    completed = subprocess.run(
        [find_mdadm(), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
        start_new_session=True,
        check=False,
    )
    lines = [line.strip() for line in completed.stdout.splitlines()]
    return CommandOutput(completed.returncode, tuple(line for line in lines if line))
