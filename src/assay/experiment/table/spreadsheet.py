"""Cells of CSV files that a spreadsheet would run as a formula, made plain text.

A cell or a header that begins with = + - @, a tab or a carriage return may be run when the file is opened in a
spreadsheet. Such text gets an apostrophe in front, which spreadsheets take for "this is text". Numbers stay numbers,
also those that are written as text (-3.5, +1e6). OWASP (2024), CSV injection.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

__all__ = ["inert", "inert_frame"]

RUN = ("=", "+", "-", "@", "\t", "\r")


def inert(value: Any) -> Any:
    """The value, with an apostrophe in front if it is text that a spreadsheet would run.

    >>> inert("=1+1"), inert("-3.5"), inert(-3.5), inert("- none")
    ("'=1+1", '-3.5', -3.5, "'- none")
    """
    if not isinstance(value, str) or not value.startswith(RUN) or _is_number(value):
        return value
    return f"'{value}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text[0] in "+-"  # not a tab before it


def inert_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """A copy of the frame whose headers and text cells run nothing.

    >>> inert_frame(pd.DataFrame({"@x": ["=a", "b"], "y": [-1.0, 2.0]})).to_csv(index=False)
    "'@x,y\\n'=a,-1.0\\nb,2.0\\n"
    """
    made = frame.set_axis([inert(name) for name in frame.columns], axis=1)
    for at, kind in enumerate(frame.dtypes):
        if kind.kind not in "biufMm":
            made.isetitem(at, [inert(value) for value in frame.iloc[:, at]])
    return made
