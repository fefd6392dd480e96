"""Other programs that report on this machine: lsblk, wipefs, blkid, and versions of all programs."""

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blklab.child_process import find
from blklab.errors import BlklabError, EnvironmentLacks

TIMEOUT = 60.0  # Seconds; blklab stops waiting for a program that hangs on a disk for longer


@dataclass(frozen=True)
class ProgramOutput:
    """A program's output and exit status."""

    status: int
    out: str
    err: str


def ask(program: str, *arguments: str) -> ProgramOutput:
    """Runs a program that only reports. Raises EnvironmentLacks if it cannot be run or hangs."""
    try:
        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=TIMEOUT,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentLacks(f"{Path(program).name}: {error}", "run it yourself to see why") from None
    out, err = (part.decode(errors="replace") for part in (done.stdout, done.stderr))
    return ProgramOutput(done.returncode, out, err)


def signatures(node: Path) -> list[str]:
    """Returns the signatures on a device: filesystems, swap, members of arrays, partitions.

    Runs both `wipefs -n` and `blkid -p`, for each knows some that the other does not. Raises
    EnvironmentLacks if one is missing, BlklabError if one fails.
    """
    return list(dict.fromkeys([*_of_wipefs(node), *_of_blkid(node)]))


def _of_wipefs(node: Path) -> list[str]:
    output = ask(find("wipefs", "util-linux"), "-n", "-J", str(node))
    if output.status != 0:
        raise _unanswered("wipefs", node, output)
    if not output.out.strip():  # util-linux before 2.37 prints nothing if it finds nothing
        return []
    try:
        listed = json.loads(output.out)["signatures"]
        return [f"{signature['type']} at {signature['offset']}" for signature in listed]
    except (ValueError, KeyError, TypeError) as error:
        raise BlklabError(f"wipefs {node}: cannot read its output: {error}") from None


def _of_blkid(node: Path) -> list[str]:
    output = ask(find("blkid", "util-linux"), "-p", "-o", "export", str(node))
    # blkid(8): 2 nothing found, 8 several that exclude one another.
    if output.status == 2 and not output.out.strip():
        return []
    if output.status == 8:
        return ["several contradicting signatures"]
    if output.status != 0:
        raise _unanswered("blkid", node, output)
    values = dict(line.split("=", 1) for line in output.out.splitlines() if "=" in line)
    signatures = [values[key] for key in ("TYPE", "PTTYPE") if key in values]
    # Some have only a use, and what is found but not understood is something all the same.
    return signatures or [values.get("USAGE", "something that blkid recognises")]


def _unanswered(program: str, node: Path, output: ProgramOutput) -> BlklabError:
    why = (output.err or output.out).strip().splitlines()[:1] or ["no message"]
    message = f"{program} {node}: exit status {output.status} ({why[0]}): blklab cannot tell what is on the device"
    return BlklabError(message)


def lsblk() -> Any:
    """Returns `lsblk -J`: the tree of devices, sizes in bytes. None if it is missing or fails."""
    columns = "NAME,KNAME,MAJ:MIN,TYPE,SIZE,RO,ROTA,SCHED,RQ-SIZE,RA,MODEL,SERIAL,FSTYPE,MOUNTPOINT"
    try:
        output = ask(find("lsblk", "util-linux"), "-J", "-b", "-o", columns)
        return json.loads(output.out) if output.status == 0 else None
    except (EnvironmentLacks, ValueError):
        return None


VERSIONS: dict[str, Sequence[str]] = {  # Programs whose versions matter, and the arguments that print them
    "fio": ("--version",),
    "mdadm": ("--version",),
    "lsblk": ("--version",),
    "lvm": ("version",),
}


def versions() -> dict[str, str | None]:
    """Returns the version that each program prints; None for what is not installed."""
    return {name: _version(name, arguments) for name, arguments in VERSIONS.items()}


def _version(name: str, arguments: Sequence[str]) -> str | None:
    try:
        output = ask(find(name, name), *arguments)
    except EnvironmentLacks:
        return None
    # mdadm says it on stderr.
    match = re.search(r"\d+\.\d[\w.~+-]*", output.out + output.err)
    return match[0] if match else None
