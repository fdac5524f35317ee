"""Two tasks at a time, shared by the caller and one helper thread that stays from one pair to the next.

Waking a thread of a pool for every batch costs as much as a small batch takes. Here the second task lies in a queue:
the helper takes it, or, if it has not come by the time the first is done, the caller does. Nobody waits for a thread
that has not begun, so a busy machine or a busy pool makes it slower and never hang. Who runs a task does not change it.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from assay.numerics.threads import Crew, workers

__all__ = ["Pair"]

IDLE = 2.0
"""Seconds after which a helper leaves whom nobody needs."""


class Pair:
    """The caller and, where `n_jobs` asks for more than one thread, a helper.

    >>> with Pair(n_jobs=2) as pair:
    ...     pair.both(lambda k: 10 * k)
    (0, 10)
    """

    def __init__(self, n_jobs: int | None) -> None:
        self._tasks: SimpleQueue[Callable[[int], Any] | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._crew = Crew(self._help, 2) if workers(n_jobs) > 1 else None

    def __enter__(self) -> Pair:
        self.call()
        return self

    def __exit__(self, *error: object) -> None:
        self._tasks.put(None)

    def call(self) -> None:
        """Send for the helper, if it has left."""
        if self._crew is not None:
            self._crew.muster()

    def both(self, function: Callable[[int], Any]) -> tuple[Any, Any]:
        """(function(0), function(1))."""
        if self._crew is None:
            return function(0), function(1)
        self._tasks.put(function)
        first = function(0)
        try:
            self._tasks.get_nowait()
        except Empty:
            second, error = self._done.get()
            if error is not None:
                raise error from None
            return first, second
        return first, function(1)

    def _help(self) -> None:
        while True:
            try:
                function = self._tasks.get(timeout=IDLE)
            except Empty:
                return
            if function is None:
                return
            try:
                self._done.put((function(1), None))
            except BaseException as error:  # it is raised in the caller
                self._done.put((None, error))
