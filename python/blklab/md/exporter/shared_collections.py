"""Lets scrapes at the same time share one collection."""

import threading
from collections.abc import Callable
from concurrent.futures import Future

from blklab.md.exporter import metrics

COLLECTION_DEADLINE_S = 1.0  # Time that a scrape waits for a new collection, if there is an older one


class SharedCollections:
    """Runs a collection once for all scrapes that need it at the same time.

    A collection that takes longer than the deadline goes on in the background. Meanwhile scrapes get the last one.
    """

    def __init__(
        self,
        collect: Callable[[], tuple[list[metrics.Family], bool]],
        deadline: float | None,
        clock: Callable[[], float],
    ) -> None:
        """`collect` returns families, and whether they are complete; it raises nothing."""
        self._collect = collect
        self.deadline = deadline
        self._clock = clock
        self._lock = threading.Lock()
        self._running: Future[list[metrics.Family]] | None = None
        # The last complete collection, and when it was ready
        self._last: tuple[list[metrics.Family], float] | None = None

    def get(self) -> tuple[list[metrics.Family], float]:
        """Returns families and their age in seconds: 0 for those of a collection that ran during the call.

        It waits for the first collection, however long that takes.
        """
        with self._lock:
            last = self._last
            running = self._running
            if running is None:
                running = self._running = Future()
                threading.Thread(target=self._run, args=(running,), name="collection", daemon=True).start()
        try:
            return running.result(None if last is None else self.deadline), 0.0
        except TimeoutError:
            if last is None:
                raise
            families, ready = last
            return families, max(0.0, self._clock() - ready)

    def _run(self, running: "Future[list[metrics.Family]]") -> None:
        try:
            families, is_complete = self._collect()
        except BaseException as error:
            with self._lock:
                self._running = None
            running.set_exception(error)  # raised by the threads that wait for it
            return
        with self._lock:
            self._running = None
            if is_complete:
                self._last = families, self._clock()
        running.set_result(families)
