"""Keeps signals waiting while a member is out of its array: it must come back first."""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Self

WAITING: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGTSTP,
)


class SignalDeferral:
    """Up or down; down, at the latest, when the block ends.

    Handlers are replaced: a mask would be that of one thread, and any other takes the signal. Only
    the main thread may use it.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Callable[..., Any] | int | None] = {}
        self._came: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.down()

    def up(self) -> None:
        """Has signals wait from now on."""
        if not self._before:
            self._before = {number: signal.signal(number, self._wait) for number in WAITING}

    def down(self) -> None:
        """Lets through what waited: what it raises is raised here."""
        before, self._before = self._before, {}
        for number, handler in before.items():
            signal.signal(number, handler)
        came, self._came = self._came, []
        for waited in dict.fromkeys(came):
            signal.raise_signal(waited)

    def _wait(self, number: int, _frame: FrameType | None) -> None:
        self._came.append(number)
