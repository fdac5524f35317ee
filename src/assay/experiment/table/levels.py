"""Columns of words as codes and levels, and what the levels read as: numbers, dates, gaps.

A column of n cells with d different ones is encoded once, O(n); every question after that is asked of the d levels.
A cell is a number if it is written with digits, a point and an exponent and stays finite: "inf", "1e999", "0x1F",
"1_000" and "1,000" are words. A column of clean numbers never comes this far: Arrow casts it, and only the liberties
that Arrow takes (hexadecimal digits, infinities, leading zeros) are checked afterwards.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "GAPS",
    "MISSING",
    "Labels",
    "cast_numbers",
    "encode",
    "is_number",
    "read_dates",
    "read_numbers",
    "with_point",
    "without_gaps",
]

Array = np.ndarray
MISSING = (
    *("", "NA", "N/A", "n/a", "na", "#N/A", "NULL", "Null", "null", "NaN", "nan", "NAN", "-nan"),
    *("None", "none", "?", "-", "--", "."),
)
"""Cells that mean a gap; those met in a column are named in its reason."""
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
WHOLE = re.compile(r"[+-]?[0-9]+")
PADDED = re.compile(r"[+-]?0[0-9]+")
ISO = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?"
)
SLASHED = re.compile(r"([0-9]{1,2})[/.-]([0-9]{1,2})[/.-]([0-9]{4})")
PREFIX = re.compile(r"[+-]?0[0-9xX]")
GROUPED = re.compile(r"[+-]?[0-9]{1,3}(\.[0-9]{3})+,[0-9]+")
"""Points between thousands before a decimal comma; without the comma 1.234 could also be one and some."""
EXACT = 2**53
SHORT = 200
"""Below so many cells a loop over them is quicker than a call of Arrow; tables with thousands of columns are short."""
_TOKENS = pa.array(MISSING)


@dataclass(frozen=True, eq=False)
class Labels:
    """The level of each cell, -1 for a gap, and the levels in order of appearance."""

    codes: Array
    levels: list[str]

    def counts(self) -> Array:
        """How often each level occurs."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.levels))

    def first(self, bad: Any) -> tuple[int, str]:
        """The first row whose level is marked, and that level."""
        row = int(np.argmax(np.append(np.asarray(bad, dtype=bool), False)[self.codes]))
        return row, self.levels[self.codes[row]]

    def cells(self) -> Array:
        """The cells as Python text, None for a gap; a level is one object however often it occurs."""
        table = np.empty(len(self.levels) + 1, dtype=object)
        table[:-1] = self.levels
        return np.asarray(table[self.codes])

    def spread(self, values: Array, gap: Any) -> Array:
        """One value per level spread over the cells, and `gap` for the gaps."""
        return np.asarray(np.append(values, gap)[self.codes])


def encode(column: Any, gaps: frozenset[str] | None = None) -> tuple[Labels, dict[str, int], frozenset[str]]:
    """A column of text as labels without surrounding blanks; the gap tokens met in it with their counts; all tokens.

    Without `gaps` the usual tokens count as gaps, save those that look like a level of this column (`kept_levels`).
    """
    if column.nbytes > 2**31 - 1:
        column = column.cast(pa.large_string())
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    encoded = array.dictionary_encode()
    indices = encoded.indices
    codes = (indices.fill_null(-1) if indices.null_count else indices).to_numpy(zero_copy_only=False)
    levels = encoded.dictionary.to_pylist()
    trimmed = [level.strip() for level in levels]
    known = GAPS - kept_levels(trimmed) if gaps is None else gaps | {""}
    met = known.intersection(trimmed)
    if not met and trimmed == levels:
        return Labels(codes, levels), {}, known
    place: dict[str, int] = {}
    for level in trimmed:
        if level not in known:
            place.setdefault(level, len(place))
    table = np.array([*(place.get(level, -1) for level in trimmed), -1], dtype=np.int64)
    counts = np.bincount(codes[codes >= 0], minlength=len(levels))
    tokens = {token: int(sum(counts[k] for k, level in enumerate(trimmed) if level == token)) for token in sorted(met)}
    return Labels(table[codes], list(place)), {token: n for token, n in tokens.items() if token}, known


GAPS = frozenset(MISSING)
WORD = re.compile(r"[^\W\d_]+(?:[ -][^\W\d_]+)*")
CODE = re.compile(r"[A-Z]{2}")
FEW_LEVELS = 20
"""Levels of a scale such as None, Partial, Full, at most."""


def kept_levels(levels: list[str]) -> frozenset[str]:
    """Tokens that are levels here: "None" among words that are capitalised alike, "NA" among two-letter codes.

    >>> sorted(kept_levels(["Partial", "None", "Full"])), sorted(kept_levels(["EU", "NA", "SA", "AS"]))
    (['None'], ['NA'])
    >>> [sorted(kept_levels(levels)) for levels in (["red", "None", "blue"], ["Gd", "NA", "Ex"], ["1", "None"])]
    [[], [], []]
    """
    if not {"None", "none", "NA"}.intersection(levels):
        return frozenset()
    others = {level for level in levels if level not in GAPS}
    kept = set()
    if 2 <= len(others) <= FEW_LEVELS and all(WORD.fullmatch(level) for level in others):
        if "None" in levels and all(level[0].isupper() and not level.isupper() for level in others):
            kept.add("None")
        if "none" in levels and all(level.islower() for level in others):
            kept.add("none")
    if "NA" in levels and len(others) >= 3 and all(CODE.fullmatch(level) for level in others):
        kept.add("NA")
    return frozenset(kept)


# Numbers.


def cast_numbers(column: Any) -> Array | None:
    """A clean column of numbers by Arrow's cast, int64 or float64 with NaN for gaps; None where there is doubt."""
    if column.null_count == len(column):
        return None
    try:
        whole = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return _cast_floats(column)
    numbers = np.asarray(whole.to_numpy())
    # Arrow reads hexadecimal digits and drops leading zeros: both are codes.
    if _coded(column) or np.nanmax(numbers) > EXACT or np.nanmin(numbers) < -EXACT:
        return None
    return numbers


def _coded(column: Any) -> bool:
    if len(column) <= SHORT:
        return any(cell is not None and PREFIX.match(cell) for cell in column.to_pylist())
    return bool(pc.any(pc.match_substring_regex(column, "^[+-]?0[0-9xX]")).as_py())


def _cast_floats(column: Any) -> Array | None:
    try:
        numbers = np.asarray(column.cast(pa.float64()).to_numpy())
    except pa.ArrowInvalid:
        return None
    finite = np.isfinite(numbers)
    # "nan", "inf" and "1e999" are words: only digits that stay finite make a number.
    if int(finite.sum()) + column.null_count != len(column):
        return None
    if np.abs(numbers, where=finite, out=np.zeros_like(numbers)).max() > EXACT:
        return None
    return numbers


def without_gaps(column: Any, gaps: frozenset[str] | None = None) -> tuple[Any, dict[str, int]]:
    """The column without blanks around its cells and with gap tokens as gaps; the tokens met with their counts."""
    trimmed = pc.utf8_trim_whitespace(column)
    gap = pc.is_in(trimmed, value_set=_TOKENS if gaps is None else pa.array(sorted(gaps | {""}), pa.string()))
    met = pc.value_counts(trimmed.filter(gap)).to_pylist()
    tokens = {entry["values"]: entry["counts"] for entry in met if entry["values"]}
    return pc.if_else(gap, pa.scalar(None, pa.string()), trimmed), dict(sorted(tokens.items()))


def is_number(level: str) -> bool:
    """Whether a word is a decimal number that floating point can hold.

    >>> [is_number(word) for word in ("-1.5e3", "+.5", "1e999", "inf", "1_000", "0x1F")]
    [True, True, False, False, False, False]
    """
    return NUMBER.fullmatch(level) is not None and math.isfinite(float(level))


def with_point(level: str) -> str:
    """A number that is written with a decimal comma, and perhaps points between thousands, with a decimal point.

    >>> with_point("3,5"), with_point("1.234.567,89"), with_point("1.234")
    ('3.5', '1234567.89', '1.234')
    """
    whole = level.replace(".", "") if GROUPED.fullmatch(level) else level
    return whole.replace(",", ".", 1)


def read_numbers(labels: Labels, *, comma: bool = False) -> tuple[Array | None, str]:
    """The cells as numbers, or None and, where all are digits, why they are codes instead."""
    levels = [with_point(level) for level in labels.levels] if comma else labels.levels
    if not all(is_number(level) for level in levels):
        return None, ""
    values = np.array([float(level) for level in levels])
    whole = all(WHOLE.fullmatch(level) for level in levels)
    if whole and any(PADDED.fullmatch(level) for level in levels):
        return None, "leading zeros, so codes rather than numbers"
    if whole and np.abs(values).max(initial=0.0) > EXACT:
        return None, "whole numbers too long to be represented exactly, so codes"
    numbers = labels.spread(values, np.nan)
    return (numbers.astype(np.int64) if whole and (labels.codes >= 0).all() else numbers), ""


# Dates.


def read_dates(labels: Labels) -> tuple[Any, str, str]:
    """The levels as Arrow times (None where they are none), a remark on how they were read, and a doubt."""
    if all(ISO.fullmatch(level) for level in labels.levels):
        array = pa.array(labels.levels, pa.string())
        for unit, zone in (("ns", None), ("ns", "UTC"), ("us", None), ("us", "UTC")):
            try:
                return array.cast(pa.timestamp(unit, tz=zone)), "", ""
            except pa.ArrowInvalid:  # a day that does not exist, a zone in some cells only
                continue
        return None, "", "dates, some of them invalid or without the time zone that others have"
    parts = [SLASHED.fullmatch(level) for level in labels.levels]
    if not all(parts):
        return None, "", ""
    return _slashed([(int(m[1]), int(m[2]), int(m[3])) for m in parts if m])


def _slashed(parts: list[tuple[int, int, int]]) -> tuple[Any, str, str]:
    """3/4/2020: a number above 12 anywhere in the column tells which of the two is the day."""
    first, second = max(a for a, _, _ in parts) > 12, max(b for _, b, _ in parts) > 12
    if first and second:
        return None, "", ""
    if not first and not second:
        return None, "", "dates with ambiguous day and month"
    text = [f"{y:04d}-{b:02d}-{a:02d}" if first else f"{y:04d}-{a:02d}-{b:02d}" for a, b, y in parts]
    try:
        return pa.array(text).cast(pa.timestamp("us")), "day first" if first else "month first", ""
    except pa.ArrowInvalid:
        return None, "", "dates, some of them invalid"
