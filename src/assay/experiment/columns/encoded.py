"""Names of encoded columns in messages: a learner behind the encoder knows its columns by number alone.

The encoder that was fitted last, in this thread, is the one in front of the learner that speaks: x78 and "column 78"
are its 79th column. Messages about a table with names of its own (encode="native") are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextvars import ContextVar

__all__ = ["named", "remember"]

NUMBERED = re.compile(r"'?\b(x|column )(\d+)\b'?")
_names: ContextVar[tuple[str, ...]] = ContextVar("encoded columns", default=())


def remember(names: Sequence[str]) -> None:
    """The names of the columns that a learner gets from now on; none where it sees the names itself."""
    _names.set(tuple(names))


def named(words: str) -> str:
    """A message of a learner with the names of its columns.

    >>> remember(["age", "town=Ulm"])
    >>> named("column 1 repeats 'x0', x7 aside")
    "column 'town=Ulm' repeats 'age', an encoded column aside"
    >>> remember(())
    >>> named("column 1 repeats x0")
    'column 1 repeats x0'
    """
    names = _names.get()
    return NUMBERED.sub(lambda found: _name(names, found), words) if names else words


def _name(names: tuple[str, ...], found: re.Match[str]) -> str:
    at, front = int(found[2]), "column " if found[1] == "column " else ""
    return f"{front}{names[at]!r}" if at < len(names) else "an encoded column"
