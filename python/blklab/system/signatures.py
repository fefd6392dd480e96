"""Finds what is on a device by its signatures: filesystems, swap, members of arrays, partitions."""

import json
import os
import subprocess
from pathlib import Path

from blklab.errors import BlklabError, EnvironmentLacks
from blklab.system import child_process

TIMEOUT = 60.0  # Seconds; blklab stops waiting for a program that hangs on a disk for longer


def ask(program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs a program that only reports. Raises EnvironmentLacks if it cannot be run or hangs."""
    try:
        return child_process.run([program, *arguments], timeout=TIMEOUT, env={**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentLacks(f"{Path(program).name}: {error}", "run it yourself to see why") from None


def signatures(node: Path) -> list[str]:
    """Returns the signatures on a device: filesystems, swap, members of arrays, partitions.

    Runs both `wipefs -n` and `blkid -p`, for each knows some that the other does not. Raises
    EnvironmentLacks if one is missing, BlklabError if one fails.
    """
    return list(dict.fromkeys([*_of_wipefs(node), *_of_blkid(node)]))


def locate_signatures(node: Path) -> list[tuple[str, int]]:
    """Returns the kinds of all signatures on a device, and where they are, in bytes. Raises as `signatures`."""
    output = ask(child_process.find("wipefs", "util-linux"), "-n", "-J", str(node))
    if output.returncode != 0:
        raise _program_error("wipefs", node, output)
    if not output.stdout.strip():  # util-linux before 2.37 prints nothing if it finds nothing
        return []
    try:
        entries = json.loads(output.stdout)["signatures"]
        return [(str(signature["type"]), int(signature["offset"], 0)) for signature in entries]
    except (ValueError, KeyError, TypeError) as error:
        raise BlklabError(f"wipefs {node}: cannot read its output: {error}") from None


def _of_wipefs(node: Path) -> list[str]:
    return [f"{kind} at {offset:#x}" for kind, offset in locate_signatures(node)]


def _of_blkid(node: Path) -> list[str]:
    output = ask(child_process.find("blkid", "util-linux"), "-p", "-o", "export", str(node))
    # blkid(8): 2 nothing found, 8 several that exclude one another.
    if output.returncode == 2 and not output.stdout.strip():
        return []
    if output.returncode == 8:
        return ["several contradicting signatures"]
    if output.returncode != 0:
        raise _program_error("blkid", node, output)
    values = dict(line.split("=", 1) for line in output.stdout.splitlines() if "=" in line)
    signatures = [values[key] for key in ("TYPE", "PTTYPE") if key in values]
    # Some have only a use, and what is found but not understood is something all the same.
    return signatures or [values.get("USAGE", "something that blkid recognises")]


def _program_error(program: str, node: Path, output: "subprocess.CompletedProcess[str]") -> BlklabError:
    why = (output.stderr or output.stdout).strip().splitlines()[:1] or ["no message"]
    message = f"{program} {node}: exit status {output.returncode} ({why[0]}): blklab cannot tell what is on the device"
    return BlklabError(message)
