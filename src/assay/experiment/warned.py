"""What learners warn of while they are fitted: kept with the learner, not thrown at the reader's screen.

Messages that differ in their numbers alone (a gap, a count of iterations) are one kind; the first of them is kept.
Notes for programmers (deprecations and the like) say nothing about a result and are left out.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from assay.errors import AssayError
from assay.experiment.columns.encoded import named

__all__ = ["collected", "tally", "with_names"]

FOR_PROGRAMMERS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning)
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")
LONGEST = 300


@contextmanager
def collected() -> Iterator[list[str]]:
    """Within this block warnings are put into the list, one of each kind, instead of being shown.

    >>> with collected() as told:
    ...     warnings.warn("no convergence after 10 steps")
    ...     warnings.warn("no convergence after 20 steps")
    >>> told
    ['no convergence after 10 steps']
    """
    messages: list[str] = []
    kinds: dict[str, str] = {}

    def hear(message: Warning | str, category: type[Warning], *where: object, **more: object) -> None:
        if not issubclass(category, FOR_PROGRAMMERS):
            text = " ".join(named(str(message)).split())[:LONGEST]  # now, while the encoder is the one in front
            kinds.setdefault(NUMBER.sub("#", text), text)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = hear
            yield messages
    finally:
        messages += kinds.values()


@contextmanager
def with_names() -> Iterator[None]:
    """Errors of learners in this block name encoded columns."""
    try:
        yield
    except AssayError as error:
        message = named(error.what)
        if message == error.what:
            raise
        raise type(error)(message, remedy=error.remedy, option=error.option) from error


def tally(folds: Iterable[Iterable[str]]) -> dict[str, int]:
    """In how many folds each kind of warning was given, the most frequent first.

    >>> tally([["gap 1.5"], [], ["gap 2.5", "late"]])
    {'gap 1.5': 2, 'late': 1}
    """
    first: dict[str, str] = {}
    count: dict[str, int] = {}
    for messages in folds:
        for text in messages:
            kind = NUMBER.sub("#", text)
            name = first.setdefault(kind, text)
            count[name] = count.get(name, 0) + 1
    return dict(sorted(count.items(), key=lambda item: -item[1]))
