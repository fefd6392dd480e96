"""Every runner by name: what `--on` takes. A new one is a module and a line here."""

from collections.abc import Mapping
from typing import Final

RUNNERS: Final[Mapping[str, str]] = {
    "sim": "the simulator",
    "lab": "real md and fio on a real kernel, in a virtual machine",
    "host": "real fio, on this machine",
}
"""What each is, for the help."""
