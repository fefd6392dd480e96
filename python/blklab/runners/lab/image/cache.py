"""The cache of images and their parts: by content, each complete or absent."""

import errno
import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from blklab.errors import EnvironmentLacks
from blklab.system.file_lock import wait_for_lock
from blklab.system.roots import open_descriptor
from blklab.system.state_directory import sync
from blklab.text.printing import printable
from blklab.units import format_size

ROOM = 1 << 30  # Bytes that must be free to make an image: 0.6 GiB, and the lists
BUILD_S = 7200.0  # Seconds that another blklab may build an image
REMOVAL_S = 300.0  # Seconds that another one may take to remove a directory
_UNFINISHED = ".unfinished-"
_OURS = re.compile(r"(?:image|kernel|programs)-[0-9a-f]{8,64}", re.A)  # Valid keys of images and their parts


def directory() -> Path:
    """Returns the lab's directory below XDG_CACHE_HOME, for images and guests' disks."""
    import platformdirs

    return platformdirs.user_cache_path("blklab") / "lab"


class ImageCache:
    """Directories by key; each is complete as soon as it exists."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, key: str) -> Path | None:
        """Returns the directory of a key, if there is one."""
        path = self.root / key
        return path if path.is_dir() else None

    def make(self, key: str, fill: Callable[[Path], object]) -> Path:
        """Returns the directory of a key; `fill` fills it if it does not exist. Needs the lock."""
        if (existing := self.find(key)) is not None:
            return existing
        path = self.root / key
        with self.scratch() as scratch:
            partial_directory = scratch / "made"
            partial_directory.mkdir()
            fill(partial_directory)
            for file in partial_directory.iterdir():
                sync(file, 0)
            sync(partial_directory)
            partial_directory.rename(path)
        sync(self.root)
        return path

    def check_room(self) -> None:
        """Raises EnvironmentLacks if there may be too little space: apt-get hangs then."""
        if shutil.disk_usage(self.root).free < ROOM:
            raise self._full()

    def _full(self) -> EnvironmentLacks:
        return EnvironmentLacks(
            f"{printable(str(self.root))}: too little space for the guest's image: expected "
            f"{format_size(ROOM)}, most of it only during the build",
            "free some space, or set XDG_CACHE_HOME",
        )

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Gives a directory for the block, removed after it. Needs the lock."""
        path = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self.root))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def hold_lock(self, note: Callable[[str], object]) -> Iterator[None]:
        """Keeps other processes from writing here during the block, and explains its errors.

        Removes what a killed process left. Raises EnvironmentLacks without space or access, and
        if another user owns the directory, whose links root would follow.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            if self.root.stat().st_uid != os.geteuid():
                message = f"{printable(str(self.root))} belongs to another user"
                raise EnvironmentLacks(message, "run this as that user (the lab needs no root), or set XDG_CACHE_HOME")
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(self.root / "lock", flags, 0o600), "rb+") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    note("waiting for another blklab that is building an image")
                    self._wait_for(lock.fileno())
                for leftover in self.root.glob(f"{_UNFINISHED}*"):
                    shutil.rmtree(leftover, ignore_errors=True)
                yield
        except OSError as error:
            path = printable(str(error.filename or self.root))
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise self._full() from None  # the file has no name in it
            message = f"{path}: {error.strerror or error}"
            raise EnvironmentLacks(message, "set XDG_CACHE_HOME to a directory where images can be kept") from None

    def _wait_for(self, descriptor: int) -> None:
        """Raises EnvironmentLacks if another process builds for too long: it hangs."""
        try:
            wait_for_lock(descriptor, BUILD_S)
        except TimeoutError:
            path = printable(str(self.root / "lock"))
            raise EnvironmentLacks(
                f"{path}: another blklab has been building an image for {BUILD_S / 3600:g} hours",
                f"end that process: `fuser {path}` names it",
            ) from None

    def recall(self, name: str) -> str | None:
        """Returns the key last kept under a name, if it still exists."""
        key = self._pointers().get(name)
        return key if isinstance(key, str) and self.find(key) is not None else None

    def recall_keys(self, beginning: str) -> set[str]:
        """Returns the keys that are kept under names with a prefix."""
        names = [name for name in self._pointers() if name.startswith(beginning)]
        keys = {self.recall(name) for name in names}
        return {key for key in keys if key is not None}

    def keep(self, name: str, key: str) -> None:
        """Keeps a key under a name. Needs the lock."""
        pointers = {**self._pointers(), name: key}
        with self.scratch() as scratch:
            file = scratch / "pointers"
            file.write_text(json.dumps(pointers, indent=2, sort_keys=True) + "\n")
            sync(file, 0)
            file.rename(self.root / "pointers.json")

    def _pointers(self) -> dict[str, Any]:
        # Damaged or missing, it costs a question to apt: no more.
        with suppress(OSError, ValueError):
            pointers = json.loads((self.root / "pointers.json").read_text())
            if isinstance(pointers, dict):
                return pointers
        return {}

    def remove_others(self, used_keys: set[str]) -> int:
        """Removes the directories of all other keys. Returns the bytes freed. Needs the lock.

        Keeps directories with other names than ours, and those that a process holds (`hold_directory`).
        """
        freed_bytes = 0
        for path in self.root.iterdir():
            if _OURS.fullmatch(path.name) and path.name not in used_keys and not path.is_symlink():
                with suppress(BlockingIOError, FileNotFoundError), hold_directory(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    freed_bytes += sum(file.lstat().st_size for file in path.rglob("*"))
                    shutil.rmtree(path, ignore_errors=True)
        return freed_bytes


@contextmanager
def hold_directory(path: Path, how: int = fcntl.LOCK_SH, flags: int = 0) -> Iterator[int]:
    """Keeps a directory from being removed during the block, which uses it; gives its descriptor.

    Raises FileNotFoundError if another process removed it meanwhile, and BlockingIOError for `LOCK_EX | LOCK_NB` if
    others hold it.
    """
    with open_descriptor(path, os.O_RDONLY | os.O_DIRECTORY | flags) as descriptor:
        if how & fcntl.LOCK_NB:
            fcntl.flock(descriptor, how)
        else:
            wait_for_lock(descriptor, REMOVAL_S, how)
        if not os.path.samestat(os.fstat(descriptor), path.stat()):  # removed, and perhaps made again
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        yield descriptor
