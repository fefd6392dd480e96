"""Where the kernel's filesystems and blklab's own state are: elsewhere in tests, and of machines
that are only seen from afar.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOTS_STATE: Final = "var/lib/blklab"
"""Below /; root's alone."""


def state_directory() -> Path:
    """Returns where blklab keeps what must outlive it: $BLKLAB_STATE, or as the user's rights are.

    Root has `ROOTS_STATE`; everybody else has $XDG_STATE_HOME/blklab (~/.local/state/blklab).
    """
    if chosen := os.environ.get("BLKLAB_STATE"):
        return Path(chosen).absolute()
    if os.geteuid() == 0:
        return Path("/") / ROOTS_STATE
    home = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification: a relative path is to be ignored.
    return (Path(home) if home.startswith("/") else Path.home() / ".local/state") / "blklab"


@dataclass(frozen=True)
class Roots:
    """The directories that stand for the machine."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    dev: Path = Path("/dev")
    state: Path = field(default_factory=state_directory)

    @property
    def udev(self) -> Path:
        """Udev's database, /run/udev/data; it may not exist (containers, rescue systems)."""
        return self.dev.parent / "run/udev/data"

    @property
    def state_of_root(self) -> Path:
        """Where root has state, whoever asks: /var/lib/blklab."""
        return self.dev.parent / ROOTS_STATE

    def device(self, name: str) -> Path:
        """Returns where the device of a name of the kernel's is."""
        # Slashes in names of devices (cciss/c0d0) are exclamation marks in sysfs.
        return self.dev / name.replace("!", "/")

    def shown(self, path: Path) -> str:
        """Returns what the machine itself calls a file, to be shown and named in commands."""
        return str(path)

    def status(self, name: Path) -> os.stat_result:
        """Asks what is behind a name that the machine itself uses (mounts, swap, loop devices).

        Raises OSError: it is gone, or of a machine that is not this one.
        """
        return name.stat()


def text(path: Path) -> str | None:
    """Returns what a file of /proc or /sys says, without the line's end; None if it says nothing.

    Devices come and go, and some attributes answer with an error (EINVAL, EIO, ENODEV).
    """
    try:
        return path.read_text(errors="surrogateescape").strip()
    except OSError:
        return None


def entries(directory: Path) -> list[Path]:
    """Returns what is in a directory, in order; nothing if there is no such directory."""
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []
