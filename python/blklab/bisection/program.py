"""Runs git, make and the user's build commands."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from blklab.child_process import command
from blklab.errors import EnvironmentLacks, UsageError
from blklab.text import printable


def run(
    arguments: Sequence[str],
    *,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
    package: str | None = None,
    apart: bool = False,
) -> tuple[int, str]:
    """Runs a program to its end and returns its status and its output, of stdout and stderr; it goes to `log` as well.

    With `apart`, what a successful program writes to stderr is left out.

    Raises EnvironmentLacks if a program of a Debian `package` is not installed, and UsageError for another one.
    """
    program = arguments[0]
    here = (directory or Path()) / program
    if shutil.which(program) is None and not ("/" in program and os.access(here, os.X_OK)):
        if package is None:
            raise UsageError(f"{printable(program)}: no such program")
        raise EnvironmentLacks(f"{program} is not installed", f"install it: apt-get install {package}")
    done = subprocess.run(
        command(arguments),
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if apart else subprocess.STDOUT,
        check=False,
        text=True,
        errors="replace",
        env=None if environment is None else {**environment, "LC_ALL": "C"},
    )
    if log is not None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(log, flags, 0o600), "a") as stream:
            stream.write(f"$ {' '.join(arguments)}\n{done.stdout}\n")
    errors = done.stderr if apart and done.returncode else ""
    return done.returncode, (done.stdout + errors).strip()
