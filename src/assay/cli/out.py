"""Where words go: results to standard output, the rest to standard error; hostile names cannot reach the terminal.

Names and cells come from anybody's table, so what is printed is cleaned of control letters, cut, and never read as
markup.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

__all__ = ["LONGEST", "clean", "complain", "count", "document", "heading", "lines", "notices", "results", "table"]

BREAK = re.compile(r"[\t\n\v\f\r\x85\u2028\u2029]+")
LONGEST = 600
"""Letters of a sentence at most; a table may have names of any length."""


def clean(words: Any, width: int = LONGEST) -> str:
    """One line that a terminal may print, at most `width` letters.

    >>> clean("two\\nlines \\x1b[31mred"), clean("a" * 100, 10)
    ('two lines ?[31mred', 'aaaaaaa...')
    """
    plain = "".join(letter if letter.isprintable() else "?" for letter in BREAK.sub(" ", str(words)).strip())
    return plain if len(plain) <= width else plain[: width - 3] + "..."


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "row"), count(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def results() -> Console:
    """The console of standard output."""
    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False)


def notices() -> Console:
    """The console of standard error."""
    return Console(file=sys.stderr, highlight=False, markup=False, emoji=False)


def complain(words: str) -> None:
    """One red sentence on standard error."""
    notices().print(Text(f"assay: {clean(words)}", style="red"), soft_wrap=True)


def document(found: Any) -> None:
    """One JSON document on standard output; a figure that is not finite is null."""
    sys.stdout.write(json.dumps(_finite(found), ensure_ascii=False, allow_nan=False, indent=2) + "\n")


def _finite(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {str(key): _finite(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [_finite(value) for value in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found


def heading(words: str) -> None:
    """A bold line with a blank one above it."""
    results().print(Text(f"\n{clean(words)}", style="bold"))


def lines(sentences: Iterable[Any], style: str = "", indent: int = 2) -> None:
    """Sentences below each other, folded to the width of the screen."""
    console = results()
    for sentence in sentences:
        console.print(Padding(Text(clean(sentence, 2 * LONGEST), style=style), (0, 0, 0, indent), expand=False))


def table(columns: Mapping[str, str], rows: Sequence[Sequence[Any]], cut: int = 40) -> None:
    """A plain table; `columns` are titles with "left", "right" or "whole" (on the left, never broken)."""
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for title, side in columns.items():
        where: Literal["left", "right"] = "right" if side == "right" else "left"
        shown.add_column(Text(title), justify=where, overflow="fold", no_wrap=side == "whole")
    for row in rows:
        shown.add_row(*(Text(clean(cell, cut)) for cell in row))
    results().print(Padding(shown, (0, 0, 0, 2), expand=False))
