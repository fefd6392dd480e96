"""Asks a program for its version."""

import subprocess

from blklab.errors import EnvironmentLacks


def version(path: str, remedy: str, *, timeout: float = 30) -> tuple[str, str]:
    """Returns what a program prints with --version, on stdout and on stderr.

    Raises EnvironmentLacks if it does not run, or takes longer than `timeout` seconds.
    """
    try:
        asked = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentLacks(f"{path} does not run: {error}", remedy) from None
    return asked.stdout, asked.stderr
