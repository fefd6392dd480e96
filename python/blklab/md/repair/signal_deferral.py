"""Defers signals while a member is out of its array."""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Self

DEFERRED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)


class SignalDeferral:
    """Defers signals between `defer` and `deliver`, or the end of the `with` block.

    It replaces handlers, because a signal mask holds for one thread only, and another thread would
    get the signal. Only the main thread may use it.
    """

    def __init__(self) -> None:
        self._handlers: dict[signal.Signals, Callable[..., Any] | int | None] = {}
        self._received: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.deliver()

    def defer(self) -> None:
        """Defers signals from now on."""
        if not self._handlers:
            self._handlers = {number: signal.signal(number, self._record) for number in DEFERRED}

    def deliver(self) -> None:
        """Delivers the deferred signals; exceptions of their handlers are raised here."""
        handlers, self._handlers = self._handlers, {}
        for number, handler in handlers.items():
            signal.signal(number, handler)
        received, self._received = self._received, []
        for received_number in dict.fromkeys(received):
            signal.raise_signal(received_number)

    def _record(self, number: int, _frame: FrameType | None) -> None:
        self._received.append(number)
