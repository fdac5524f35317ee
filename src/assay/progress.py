"""Progress of long work: `track` wraps an iterable and is silent until somebody listens.

Library code calls `track` and never prints, but for one `Notice` to a person who waits for the compiler. A console, a
notebook or a web page listens:

>>> seen = []
>>> with listen(lambda label, done, total: seen.append((label, done, total))):
...     for _ in track(range(3), "folds"):
...         pass
>>> seen
[('folds', 0, 3), ('folds', 1, 3), ('folds', 2, 3), ('folds', 3, 3)]
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["Notice", "audience", "listen", "track", "watched"]

Item = TypeVar("Item")
Listener = Callable[[str, int, int | None], None]

# A module-wide list, not a context variable: the work often runs in a thread pool whose
# threads are older than the listener, and they must reach it all the same.
_listeners: list[Listener] = []


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Call `listener(label, done, total)` for every step of every `track` inside the block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def track(items: Iterable[Item], label: str | Callable[[], str], total: int | None = None) -> Iterator[Item]:
    """Yield the items one by one and tell the listeners how many are done; a label that changes is a function."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    _tell(label, 0, total)
    for done, item in enumerate(items, start=1):
        yield item
        _tell(label, done, total)


def _tell(label: str | Callable[[], str], done: int, total: int | None) -> None:
    for listener in tuple(_listeners):
        listener(label() if callable(label) else label, done, total)


def audience() -> str:
    """Who reads what this process shows of its own accord: "notebook", "console" (a terminal) or "silent" (nobody).

    A file, a pipe, a test and one process of many are silent; so is the command line, which shows its own progress.
    """
    if multiprocessing.current_process().name != "MainProcess" or "PYTEST_CURRENT_TEST" in os.environ:
        return "silent"
    if "assay.cli" in sys.modules:
        return "silent"
    if _in_kernel():
        return "notebook"
    return "console" if sys.stderr is not None and sys.stderr.isatty() else "silent"


def _in_kernel() -> bool:
    """Whether code runs in a kernel of Jupyter; IPython in a terminal has another shell."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return any(kind.__name__ == "ZMQInteractiveShell" for kind in type(shell).__mro__)


def watched() -> bool:
    """Whether a person reads what this process writes to the standard error: a terminal or a notebook."""
    return audience() != "silent"


class Notice:
    """One sentence for whoever waits, written once, when work of one kind has taken `after` seconds in all.

    Where `first_time()` says that it was written before, perhaps by another process, it is not written again.
    `begin` and `end` stand around each piece of work and may be nested; where nobody watches they do nothing.
    """

    def __init__(
        self,
        words: str,
        after: float,
        watched: Callable[[], bool] = watched,
        first_time: Callable[[], bool] = lambda: True,
    ) -> None:
        self.words, self.left, self._watched, self._first_time = words, after, watched, first_time
        self._depth, self._since = 0, 0.0
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        """Work begins."""
        self._depth += 1
        if self._depth == 1 and self.words and self._watched():
            self._since = time.monotonic()
            self._timer = threading.Timer(self.left, self._say)
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """Work ends."""
        self._depth -= 1
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.left = max(0.0, self.left - (time.monotonic() - self._since))

    def _say(self) -> None:
        words, self.words = self.words, ""
        if words and self._first_time():
            print(words, file=sys.stderr, flush=True)
