"""What is bisected: the interface of its kinds."""

import fcntl
import hashlib
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from blklab.bisect.git import Commit, Repository
from blklab.errors import BlklabError, EnvironmentLacks
from blklab.experiment.overrides import Override
from blklab.runners.base import Runner
from blklab.runners.lab.image.cache import hold_directory

Note = Callable[[str], object]


class BuildFailed(BlklabError):
    """A commit cannot be built, so it is skipped; the message is the compiler's."""


class BisectionSource(ABC):
    """A history of kernels or of their sources, and how to measure each of them."""

    label: ClassVar[str]  # The label of its commits in results: `kernel` or `commit`
    runner_name: str = "lab"
    host: str | None = os.uname().nodename  # None if the figures are the same on all machines
    repository: Repository
    good: Commit
    bad: Commit

    @abstractmethod
    def commit(self, name: str) -> Commit:
        """Returns a commit of the repository by its hash."""

    @abstractmethod
    def changes(self, commit: Commit) -> Sequence[Override]:
        """Returns what a commit changes in the experiment."""

    @abstractmethod
    def runner(self, commit: Commit) -> Runner:
        """Returns the runner that measures a commit, and builds what it needs. Raises BuildFailed."""

    @abstractmethod
    def own_kernel(self, commit: Commit) -> str | None:
        """Returns what tells the kernel of a commit from others of the same version; None if the version does."""


def work_directory(*parts: str) -> Path:
    """Returns the directory in the cache for a bisection: the same for the same parts."""
    return _cache() / hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def remove_work() -> int:
    """Removes the work directories that no process uses, and returns the bytes freed. Runs stay in the store."""
    freed_bytes = 0
    for directory in _cache().glob("*"):
        with suppress(OSError, BlklabError), lock_directory(directory):
            sizes = [path.lstat().st_size for path in directory.rglob("*")]
            shutil.rmtree(directory)
            freed_bytes += sum(sizes)
    return freed_bytes


def _cache() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("blklab") / "bisect"


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Keeps other processes from the same bisection during the block. Raises BlklabError."""
    with ExitStack() as stack:
        descriptor = None
        while descriptor is None:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                descriptor = stack.enter_context(
                    hold_directory(directory, fcntl.LOCK_EX | fcntl.LOCK_NB, os.O_NOFOLLOW)
                )
            except FileNotFoundError:
                continue  # `remove_work` came between
            except BlockingIOError:
                raise BlklabError(f"another blklab bisects the same sources, in {directory}: wait for it") from None
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise EnvironmentLacks(f"{directory} belongs to another user", "remove it, or set XDG_CACHE_HOME")
        yield
