"""Arrays of other machines, over ssh or out of what a probe printed there."""

import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError
from blklab.md.audit import findings
from blklab.md.model import Inventory
from blklab.md.remote.probe_output import MOST_BYTES, parse
from blklab.md.remote.recorded_probe import seen

__all__ = ["PROBE", "RemoteHost", "audited", "read"]

PROBE: Final = Path(__file__).with_name("probe.sh")
"""The script that is run there."""


@dataclass(frozen=True)
class RemoteHost:
    """A machine, and what was seen of it."""

    name: str
    """As the user gave it."""
    inventory: Inventory | None = None
    findings: tuple[Diagnostic, ...] = ()
    failure: str = ""
    """Why nothing could be seen, in a line; empty if something was."""

    @property
    def unseen(self) -> bool:
        """Whether something was not seen."""
        known = self.inventory
        return known is None or bool(known.unseen) or any(array.unseen for array in known.arrays)


def audited(name: str, data: bytes | bytearray) -> RemoteHost:
    """Returns what is found on a machine whose probe has printed `data`; raises nothing."""
    try:
        inventory = seen(parse(data))
    except BlklabError as error:
        return RemoteHost(name, failure=str(error))
    except (OSError, UnicodeError) as error:  # a full disk; a locale without the names' letters
        reason = getattr(error, "strerror", None) or error
        return RemoteHost(name, failure=f"what was seen cannot be laid out here: {reason}")
    if inventory.unseen and not inventory.arrays:
        return RemoteHost(name, failure=f"nothing could be seen: {inventory.unseen[0]}")
    return RemoteHost(name, inventory, tuple(findings(inventory)))


def read(name: str) -> RemoteHost:
    """Returns what is found in a file that a probe's output was kept in, or, of `-`, in stdin.

    Raises nothing.
    """
    try:
        with Path(name).open("rb") if name != "-" else nullcontext(sys.stdin.buffer) as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        return RemoteHost(name, failure=getattr(error, "strerror", None) or str(error))
    return audited(name, data)
