"""The journal of changes to undo: one file per blklab process, in the state directory.

A journal is JSON lines, each synced before the change that it describes: first the owner, then
entries (`settings` to restore, a `directory` to remove), and `done` for each entry that is
undone. A process that ends normally leaves no journal; `restore` undoes what a killed one left.
"""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from blklab.errors import BlklabError, EnvironmentLacks, SystemErrors
from blklab.system import state_directory
from blklab.system.file_lock import wait_for_lock
from blklab.system.identity import BlockDevice
from blklab.system.mounts import holding
from blklab.system.process import boot_id, start_of
from blklab.system.roots import Roots, entries, open_descriptor

FORMAT = 1
RESTORE_S = 60.0  # Seconds that `restore` may look at a new journal
KERNEL = "vm"  # Owner of settings that belong to no device


@dataclass(frozen=True)
class SettingsEntry:
    """An entry: values to restore, of one device or of the kernel."""

    device: BlockDevice | None  # None for the kernel's own, `vm.*`
    values: Mapping[str, str]


@dataclass(frozen=True)
class DirectoryEntry:
    """An entry: a directory that blklab makes."""

    parent: str
    name: str
    kind: str  # Type of the filesystem, such as ext4
    point: str  # Its mount point: if it is not mounted, the directory can exist but be hidden


@dataclass
class LeftoverJournal:
    """A journal in the state directory."""

    path: Path
    boot: str = ""
    pid: int = 0
    start: int = 0
    entries: dict[int, SettingsEntry | DirectoryEntry] = field(default_factory=dict)  # Entries that are not undone yet
    torn: bool = False  # The first line is unreadable: its owner died while writing it, before any change


def boot_of(roots: Roots) -> str:
    """Returns the id of this boot of the kernel. Raises EnvironmentLacks."""
    boot = boot_id(roots)
    if not boot:
        path = roots.proc / "sys/kernel/random/boot_id"
        raise EnvironmentLacks(f"{path} cannot be read", "mount /proc")
    return boot


class HostJournal:
    """The journal of this process, while a `with` block runs; its lock ends with the process."""

    def __init__(self, roots: Roots) -> None:
        """Nothing is written before the `with` block."""
        self.roots = roots
        self.path: Path | None = None
        self._file = -1
        self._open: dict[int, str | None] = {}  # Entries that are not undone, by number
        self._next = 1

    def __enter__(self) -> Self:
        """Makes the file. Raises EnvironmentLacks or UsageError if it cannot be."""
        state = state_directory.prepare(self.roots)
        owner = {
            "journal": FORMAT,
            "boot_id": boot_of(self.roots),
            "pid": os.getpid(),
            "start": start_of(os.getpid(), self.roots) or 0,
        }
        self.path = state / f"journal-{os.getpid()}-{secrets.token_hex(8)}.jsonl"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        while True:
            self._file = os.open(self.path, flags, 0o600)
            self._lock_file()
            if os.fstat(self._file).st_nlink:
                break
            os.close(self._file)  # `restore` came between, and took it for a dead one's
        self._write(owner)
        state_directory.sync(state)
        return self

    def _lock_file(self) -> None:
        try:
            wait_for_lock(self._file, RESTORE_S)
        except TimeoutError:
            raise EnvironmentLacks(
                f"{self.path}: another process has held its lock for {RESTORE_S:g} s",
                f"end that process: `fuser {self.path}` names it",
            ) from None

    def __exit__(self, *_error: object) -> None:
        """Removes the file if everything in it is undone; otherwise `restore` will find it."""
        if self.path is not None and not self._open:
            self.path.unlink(missing_ok=True)
        os.close(self._file)
        self._file = -1

    def settings(self, device: BlockDevice | None, values: Mapping[str, str]) -> int:
        """Records values to restore; returns the entry's number. On disk when it returns."""
        device_fields = None if device is None else {**asdict(device), "node": str(device.node)}
        owner = device.name if device else KERNEL
        return self._add({"settings": {"device": device_fields, "values": dict(values)}}, owner)

    def directory(self, parent: Path, name: str) -> int:
        """Records a directory to be made; returns the entry's number. On disk when it returns."""
        mount = holding(parent, self.roots)
        kind, point = (mount.kind, mount.point) if mount else ("", "")
        return self._add({"directory": asdict(DirectoryEntry(str(parent), name, kind, point))})

    def done(self, number: int) -> None:
        """Records that an entry is undone. Raises BlklabError; `restore` then undoes it again, which does no harm."""
        self._write({"done": number}, "so `blklab restore` will restore these values again")
        self._open.pop(number, None)

    def list_changed_owners(self) -> set[str]:
        """Returns the names of the devices (and KERNEL) whose settings are not restored."""
        return {owner for owner in self._open.values() if owner is not None}

    def _add(self, entry: dict[str, Any], owner: str | None = None) -> int:
        number = self._next
        self._next += 1
        self._write({"id": number, **entry})
        self._open[number] = owner
        return number

    def _write(self, entry: Mapping[str, Any], consequence: str = "so nothing is changed") -> None:
        # ASCII: a name that is no UTF-8 comes from the kernel with surrogates.
        line = (json.dumps(entry) + "\n").encode("ascii")
        with SystemErrors(BlklabError, self.path, f": cannot write the journal, {consequence}"):
            if os.write(self._file, line) != len(line):
                raise OSError(28, "No space left on device")
            os.fsync(self._file)


def read(path: Path) -> LeftoverJournal:
    """Returns a journal, without an incomplete last line: no change followed it. Raises BlklabError."""
    leftover = LeftoverJournal(path)
    *complete_lines, torn = state_directory.read(path).split(b"\n")
    if not complete_lines:
        leftover.torn = True
        return leftover
    try:
        _fill(leftover, [json.loads(line) for line in complete_lines])
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        message = f"{path}: damaged, expected a journal of blklab; read it, restore what it lists, and remove it"
        raise BlklabError(message) from None
    if torn and len(torn) > 1 << 20:
        raise BlklabError(f"{path}: a last line of {len(torn)} bytes, expected a journal of blklab")
    return leftover


def _fill(leftover: LeftoverJournal, lines: list[dict[str, Any]]) -> None:
    owner, *entry_lines = lines
    if owner["journal"] != FORMAT:
        raise ValueError(f"format {owner['journal']}, expected {FORMAT}")
    leftover.boot = str(owner["boot_id"])
    leftover.pid = int(owner["pid"])
    leftover.start = int(owner["start"])
    for line in entry_lines:
        if "done" in line:
            leftover.entries.pop(int(line["done"]), None)
        elif "settings" in line:
            device_fields = line["settings"]["device"]
            device = None
            if device_fields is not None:
                device_fields = {
                    **device_fields,
                    "node": Path(device_fields["node"]),
                    "ids": tuple(device_fields["ids"]),
                }
                device = BlockDevice(**device_fields)
                if not all(isinstance(text, str) for text in (device.name, device.number)):
                    raise ValueError("no device")
            values = {str(key): str(value) for key, value in line["settings"]["values"].items()}
            leftover.entries[int(line["id"])] = SettingsEntry(device, values)
        else:
            directory_entry = DirectoryEntry(**line["directory"])
            if not all(isinstance(value, str) and "\0" not in value for value in vars(directory_entry).values()):
                raise ValueError("no paths")
            leftover.entries[int(line["id"])] = directory_entry


def list_leftovers(roots: Roots) -> list[Path]:
    """Returns all journals, of live and dead owners, the oldest first."""
    journals = [
        path
        for path in entries(roots.state)
        if path.name.startswith("journal-") and (path.is_symlink() or not path.is_dir())
    ]
    return sorted(journals, key=lambda path: (path.lstat().st_mtime_ns, path.name))


@contextmanager
def lock_leftover(path: Path, roots: Roots) -> Iterator[LeftoverJournal | None]:
    """Gives a dead owner's journal, locked so that no other process undoes it; None if it lives.

    The lock decides, also across containers. Pid and start time are checked as well, because the
    state directory can be on a filesystem without locks.
    """
    with open_descriptor(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        leftover = read(path)
        lives = (
            not leftover.torn
            and leftover.boot == boot_of(roots)
            and leftover.pid != os.getpid()
            and start_of(leftover.pid, roots) == leftover.start
        )
        yield None if lives else leftover


def lock(name: str, roots: Roots) -> int:
    """Returns a descriptor that holds the lock of that name. Raises BlklabError if it is taken.

    Two processes that change the same device's settings would each restore the other's values.
    All users of a machine share the locks; without /run/lock they are in the state directory.
    """
    path = lock_path(name, roots)
    descriptor = _open_lock(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise BlklabError(f"{name}: another blklab is changing its settings; wait until it ends ({path})") from None
    return descriptor


def lock_path(name: str, roots: Roots) -> Path:
    """Returns the file of a lock. Raises EnvironmentLacks or UsageError without a directory."""
    file = name.replace("/", "!")
    if roots.locks is not None:
        return roots.locks / f"blklab-{file}.lock"
    return state_directory.prepare(roots) / f"lock-{file}"


def _open_lock(path: Path) -> int:
    """Opens a lock for reading, which is enough for flock(2), or makes it.

    With fs.protected_regular, O_CREAT fails for a file of another user in a sticky directory.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with SystemErrors(EnvironmentLacks, path, ": blklab cannot lock this host", "remove the file, or ask its owner"):
        with suppress(FileExistsError):
            os.close(os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644))
        return os.open(path, flags)


def release(descriptor: int) -> None:
    """Gives a lock back. The file stays: removing it would let two have the same lock."""
    with suppress(OSError):
        os.close(descriptor)
