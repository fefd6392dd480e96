"""Where the kernel's filesystems and blklab's own state are; tests and copies of other machines have them elsewhere."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOTS_STATE = "var/lib/blklab"  # Relative to /; only for root


def state_directory() -> Path:
    """Returns blklab's persistent state directory: $BLKLAB_STATE, or by the user's rights.

    Root has `ROOTS_STATE`; every other user $XDG_STATE_HOME/blklab (~/.local/state/blklab).
    """
    if setting := os.environ.get("BLKLAB_STATE"):
        return Path(setting).absolute()
    if os.geteuid() == 0:
        return Path("/") / ROOTS_STATE
    home = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification: a relative path must be ignored.
    return (Path(home) if home.startswith("/") else Path.home() / ".local/state") / "blklab"


@dataclass(frozen=True)
class Roots:
    """The directories of the machine."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    dev: Path = Path("/dev")
    state: Path = field(default_factory=state_directory)

    @property
    def udev(self) -> Path:
        """Udev's database, /run/udev/data; it can be missing (containers, rescue systems)."""
        return self.dev.parent / "run/udev/data"

    @property
    def locks(self) -> Path | None:
        """The directory of locks that all users of the machine share; None if it has none.

        $BLKLAB_LOCKS replaces it, so that tests do not wait for other processes.
        """
        setting = os.environ.get("BLKLAB_LOCKS")
        place = Path(setting).absolute() if setting else self.dev.parent / "run/lock"
        return place if place.is_dir() else None

    @property
    def repair_locks(self) -> Path:
        """The directory of the locks of repairs, which only root can open; it is gone after a reboot."""
        return self.dev.parent / "run/blklab"

    @property
    def state_of_root(self) -> Path:
        """Root's state directory, for every user: /var/lib/blklab."""
        return self.dev.parent / ROOTS_STATE

    def device(self, name: str) -> Path:
        """Returns the path of the device with a kernel's name."""
        # Slashes in names of devices (cciss/c0d0) are exclamation marks in sysfs.
        return self.dev / name.replace("!", "/")

    def format_path(self, path: Path) -> str:
        """Returns a file's path on the machine itself, for messages and commands."""
        return str(path)

    def status(self, name: Path) -> os.stat_result:
        """Returns os.stat of a path on the machine itself (mounts, swap, loop devices).

        Raises OSError if it is gone, or belongs to another machine.
        """
        return name.stat()


@contextmanager
def open_descriptor(path: Path | str, flags: int, directory: int | None = None) -> Iterator[int]:
    """Opens a file, relative to an open directory if one is given; closes its descriptor after the block."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_text(path: Path) -> str | None:
    """Returns the text of a file of /proc or /sys without the final newline; None if unreadable.

    Devices come and go, and some attributes answer with an error (EINVAL, EIO, ENODEV).
    """
    try:
        return path.read_text(errors="surrogateescape").strip()
    except OSError:
        return None


def entries(directory: Path) -> list[Path]:
    """Returns the entries of a directory, sorted; empty if it does not exist."""
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []
