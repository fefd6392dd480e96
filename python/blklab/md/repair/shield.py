"""Keeps signals waiting while a member is out of its array: it must come back first."""

import signal
from types import TracebackType
from typing import Final, Self

WAITING: Final = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class Shield:
    """Up or down; down, at the latest, when the block ends."""

    def __init__(self) -> None:
        self._before: set[signal.Signals] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    def up(self) -> None:
        """Has signals wait from now on."""
        if self._before is None:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, WAITING)
            self._before = {one for one in before if isinstance(one, signal.Signals)}

    def down(self) -> None:
        """Lets through what waited: that is raised here."""
        if self._before is not None:
            before, self._before = self._before, None
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
