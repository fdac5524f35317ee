"""Printing: results to standard output, the rest to standard error, without control characters from the data.

Names and cells come from untrusted tables, so what is printed is cleaned of control characters, shortened, and never
read as markup.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from assay.words import plural as count
from assay.words import printable

__all__ = [
    "LONGEST",
    "clean",
    "command",
    "complain",
    "count",
    "document",
    "heading",
    "lines",
    "notices",
    "results",
    "table",
]

BREAK = re.compile(r"[\t\n\v\f\r\x85\u2028\u2029]+")
CONTROL = re.compile(r"[\x7f-\x9f]")
"""Letters that steer a terminal and that JSON lets through."""
LONGEST = 600
"""Characters of a sentence at most; a table may have names of any length."""
COMMAND = 20_000
"""Characters of a command at most: one that is cut cannot be pasted."""
INDENT, BETWEEN = 2, 2
"""Spaces before a table, and between its columns."""
FOLDED = 8
"""Characters that a column of text keeps at least on a narrow screen."""


def clean(words: Any, width: int = LONGEST) -> str:
    """One line that is safe to print in a terminal, at most `width` characters.

    >>> clean("two\\nlines \\x1b[31mred"), clean("a" * 100, 10)
    ('two lines ?[31mred', 'aaaaaaa...')
    """
    plain = printable(BREAK.sub(" ", str(words)).strip())
    return plain if len(plain) <= width else plain[: width - 3] + "..."


def results() -> Console:
    """The console of standard output."""
    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False)


def notices() -> Console:
    """The console of standard error."""
    return Console(file=sys.stderr, highlight=False, markup=False, emoji=False)


def complain(words: str, width: int = LONGEST) -> None:
    """One red sentence on standard error."""
    notices().print(Text(f"assay: {clean(words, width)}", style="red"), soft_wrap=True)


def document(found: Any) -> None:
    """One JSON document on standard output; a figure that is not finite is null, and no letter is a command."""
    text = json.dumps(_finite(found), ensure_ascii=False, allow_nan=False, indent=2)
    sys.stdout.write(CONTROL.sub(lambda letter: f"\\u{ord(letter[0]):04x}", text) + "\n")


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


def command(words: str, indent: int = 2) -> None:
    """A command to be pasted: on a line of its own, which is never folded."""
    if len(words) > COMMAND:
        lines(["The command is too long to print; write the option into the assay.toml of the study."], indent=indent)
        return
    results().print(Text(" " * indent + clean(words, COMMAND)), soft_wrap=True)


def table(columns: Mapping[str, str], rows: Sequence[Sequence[Any]], cut: int = 40) -> None:
    """A plain table; `columns` are titles with "left", "right", "words" or "whole".

    On the right stand numbers, which are broken between words alone, as are "words" on the left; "whole" cells are
    never broken.
    """
    cells = [[clean(cell, cut) for cell in row] for row in rows]
    console = results()
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), collapse_padding=True)
    widths = _widths(columns, cells, console.width - INDENT)
    for (title, side), width in zip(columns.items(), widths, strict=True):
        where: Literal["left", "right"] = "right" if side == "right" else "left"
        shown.add_column(Text(title), justify=where, overflow="fold", width=width)
    for row in cells:
        shown.add_row(*map(Text, row))
    # A terminal narrower than the numbers wraps lines; it must not cut them off.
    console.width = max(console.width, sum(widths) + BETWEEN * (len(widths) - 1) + INDENT)
    console.print(Padding(shown, (0, 0, 0, INDENT), expand=False))


def _widths(columns: Mapping[str, str], cells: Sequence[Sequence[str]], room: int) -> list[int]:
    """Widths that fit into the room as far as no number and no whole cell is broken; the widest column yields first."""
    parts = [[title, *(row[at] for row in cells)] for at, title in enumerate(columns)]
    widths = [max(map(cell_len, part)) for part in parts]
    longest = [max((cell_len(word) for cell in part for word in cell.split()), default=0) for part in parts]
    least = [
        width if side == "whole" else min(word, FOLDED) if side == "left" else word
        for side, width, word in zip(columns.values(), widths, longest, strict=True)
    ]
    while sum(widths) + BETWEEN * (len(widths) - 1) > room:
        at = max(range(len(widths)), key=lambda j: (widths[j] > least[j], widths[j] > longest[j], widths[j]))
        if widths[at] == least[at]:
            break
        widths[at] -= 1
    return widths
