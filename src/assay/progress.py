"""Progress of long work: `track` wraps an iterable and is silent until somebody listens.

Library code calls `track` and never prints. A console, a notebook or a web page listens:

>>> seen = []
>>> with listen(lambda label, done, total: seen.append((label, done, total))):
...     for _ in track(range(3), "folds"):
...         pass
>>> seen
[('folds', 0, 3), ('folds', 1, 3), ('folds', 2, 3), ('folds', 3, 3)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["listen", "track"]

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


def track(items: Iterable[Item], label: str, total: int | None = None) -> Iterator[Item]:
    """Yield the items one by one and tell the listeners how many are done."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    _tell(label, 0, total)
    for done, item in enumerate(items, start=1):
        yield item
        _tell(label, done, total)


def _tell(label: str, done: int, total: int | None) -> None:
    for listener in tuple(_listeners):
        listener(label, done, total)
