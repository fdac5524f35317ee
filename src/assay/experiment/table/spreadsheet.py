"""CSV that a spreadsheet does not run and a terminal does not obey.

A cell or a header that begins with = + - @, a tab or the end of a line may be run as a formula when the file is opened
in a spreadsheet. Such text gets an apostrophe in front, which spreadsheets take for "this is text". Numbers stay
numbers, also those that are written as text (-3.5, +1e6). Control characters (an escape sequence may rewrite a screen)
become question marks; tabs and line feeds inside a cell stay. OWASP (2024), CSV injection.
"""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

__all__ = ["csv_text", "inert"]

RUN = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")
"""How a formula may begin; the last four are = + - @ as they are typed in Chinese and Japanese."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def csv_text(frame: pd.DataFrame, separator: str = ",") -> str:
    """A table as CSV whose headers and cells run nothing, without its index; what is missing is empty.

    >>> csv_text(pd.DataFrame({"@x": ["=a", "b"], "y": [-1.0, 2.0]}))
    "'@x,y\\n'=a,-1.0\\nb,2.0\\n"
    """
    made = frame.set_axis([inert(name) for name in frame.columns], axis=1)
    for at, kind in enumerate(frame.dtypes):
        if kind.kind not in "biufMm":
            made.isetitem(at, [inert(value) for value in frame.iloc[:, at]])
    return made.to_csv(index=False, sep=separator)


def inert(value: Any) -> Any:
    """The value, with an apostrophe in front if it is text that a spreadsheet would run.

    >>> inert("=1+1"), inert("-3.5"), inert(-3.5), inert("- none"), inert("\\x1b[2J")
    ("'=1+1", '-3.5', -3.5, "'- none", '?[2J')
    """
    if not isinstance(value, str):
        return value
    quote = "'" if value.startswith(RUN) and not _is_number(value) else ""
    return quote + CONTROL.sub("?", value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text[0] in "+-"  # not a tab before it
