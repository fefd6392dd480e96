"""Errors that the user can act on.

Every message says what to do next, or what was found and what was expected; none needs a traceback.
"""

from collections.abc import Callable


class BlklabError(Exception):
    """blklab could not do what it was asked to do (exit status 1).

    The message is one line: it names the file, the field or the offset.
    """

    exit_code = 1
    details: tuple[str, ...] = ()  # Lines that follow the message: what the user must know and do now


class UsageError(BlklabError):
    """The request itself is invalid (exit status 2)."""

    exit_code = 2


class Undecided(BlklabError):
    """A gate neither passed nor failed: more runs are needed (exit status 4)."""

    exit_code = 4


class StoreError(BlklabError):
    """The store, or a series in it, cannot be opened, read or written (exit status 3).

    Not 1, which `compare` uses for a condition that holds: `git bisect` depends on it.
    """

    exit_code = 3


class EnvironmentLacks(BlklabError):
    """A program, a permission or a kernel feature is missing (exit status 3)."""

    exit_code = 3

    def __init__(self, problem: str, remedy: str) -> None:
        """`problem` is what is missing; `remedy` says how to get it, as a command if there is one."""
        super().__init__(f"{problem}; {remedy}")


class SystemErrors:
    """Turns an OSError of a `with` block into an error of blklab: `where: the system's reason`, and what follows.

    `remedy` is that of EnvironmentLacks.
    """

    def __init__(self, kind: Callable[..., BlklabError], context: object, detail: str = "", *remedy: str) -> None:
        self._kind = kind
        self._where = context
        self._more = detail
        self._remedy = remedy

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, OSError):
            raise self._kind(f"{self._where}: {error.strerror}{self._more}", *self._remedy) from None
