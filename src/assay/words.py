"""Words in sentences: a number with its noun, a few of many names, and text of strangers that a terminal may print."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["listed", "plural", "printable"]


def plural(number: int, noun: str, many: str | None = None) -> str:
    """A number with its noun; `many` where the plural is not formed with an s.

    >>> plural(1, "row"), plural(1200, "row"), plural(2, "entry", "entries")
    ('1 row', '1,200 rows', '2 entries')
    """
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def listed(names: Iterable[Any], most: int = 5) -> str:
    """A few names in quotes, long ones cut, and how many more there are.

    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    every = [str(name) for name in names]
    shown = ", ".join(repr(name if len(name) <= 40 else name[:37] + "...") for name in every[:most])
    return shown + (f" and {len(every) - most} more" if len(every) > most else "")


def printable(text: Any, instead: str = "?") -> str:
    """Text without what a terminal or a plot would act on.

    >>> printable("\\x1b[31mred")
    '?[31mred'
    """
    return "".join(letter if letter.isprintable() else instead for letter in str(text))
