"""Audits arrays of other hosts, over ssh or from the recorded output of a probe."""

import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError
from blklab.md.audit import find_problems
from blklab.md.model import Inventory
from blklab.md.remote.probe_output import MAX_OUTPUT_BYTES, parse_output
from blklab.md.remote.recorded_probe import read_recorded_inventory

__all__ = ["PROBE", "RemoteHost", "audited", "read"]
PROBE: Final = Path(__file__).with_name("probe.sh")  # The script that runs on the host


@dataclass(frozen=True)
class RemoteHost:
    """A host with its inventory and findings, or a failure."""

    name: str  # As the user typed it
    inventory: Inventory | None = None
    findings: tuple[Diagnostic, ...] = ()
    failure: str = ""  # Why nothing could be read; empty if something could

    @property
    def unseen(self) -> bool:
        """Whether something could not be read."""
        inventory = self.inventory
        if inventory is None or inventory.unseen:
            return True
        return any(array.unseen for array in inventory.arrays)


def audit_output(name: str, data: bytes | bytearray) -> RemoteHost:
    """Returns the audit of a host whose probe printed `data`; raises nothing."""
    try:
        inventory = read_recorded_inventory(parse_output(data))
    except BlklabError as error:
        return RemoteHost(name, failure=str(error))
    except (OSError, UnicodeError) as error:  # a full disk; characters that the locale lacks
        reason = getattr(error, "strerror", None) or error
        return RemoteHost(name, failure=f"cannot write the probe's output to a file: {reason}")
    if inventory.unseen and not inventory.arrays:
        return RemoteHost(name, failure=f"cannot read any array: {inventory.unseen[0]}")
    return RemoteHost(name, inventory, tuple(find_problems(inventory)))


def read_probe_file(name: str) -> RemoteHost:
    """Returns the audit of the probe output in a file, or in stdin for `-`; raises nothing."""
    try:
        with Path(name).open("rb") if name != "-" else nullcontext(sys.stdin.buffer) as file:
            data = file.read(MAX_OUTPUT_BYTES + 1)
    except (OSError, ValueError) as error:
        return RemoteHost(name, failure=getattr(error, "strerror", None) or str(error))
    return audit_output(name, data)
