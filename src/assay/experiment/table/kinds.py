"""What a column holds (number, category, date, text or id), why, and its cells in that form.

The rules, in order, with n cells that are not missing and d different ones:

    number    every cell reads as a finite decimal number; "inf", "1e999", "0x1F", "1_000" and "1,000" do not
    number    every cell is a number with the same unit: "$1,100", "12 %", "3.5 kg" (`units.py`)
    id        whole numbers, all different, that count upwards (or the name says id): an order of arrival, not a measure
    category  codes: leading zeros (00123), more digits than floating point holds, a repeated number named id
    date      every cell is an ISO date or time, or a day/month/year in an order that at least one cell settles
    category  half of the cells or more read as numbers and the rest do not; numbers with units or separators
    id        n >= 20, d/n > 0.95, fewer than two words per cell
    text      n >= 20, d/n > 0.5 and two words per cell or more, or d > 50 and five words per cell or more
    category  everything else

Numbers in a text column of a typed table (Parquet, a frame) stay words: somebody chose that type. Cost: one cast for a
clean column of numbers, one encoding and a few passes over the levels for any other.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from assay.errors import DataError, DataTypeError
from assay.experiment.table.levels import (
    EXACT,
    GAPS,
    ISO,
    MISSING,
    Labels,
    cast_numbers,
    encode,
    is_number,
    read_dates,
    read_numbers,
    with_point,
    without_gaps,
)
from assay.experiment.table.reading import Raw
from assay.experiment.table.units import undress
from assay.numbers import fmt
from assay.words import plural

__all__ = ["DRESSED", "KINDS", "MISSING", "Settled", "canonical", "settle"]

Array = np.ndarray
KINDS = ("number", "category", "date", "text", "id")
DRESSED = re.compile(r"\W{0,2}[0-9][0-9.,_' ]*\W{0,2}[a-zA-Z]{0,3}")
THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")
"""A number with a decimal point, or a whole one with a point between thousands."""
ID_NAME = re.compile(r"(?:^|[_ .-])(?i:ids?|uuid|guid|key|rownames?|index|identifier)$|[a-z](?:ID|Id)$")
TIME_NAME = re.compile(r"year|month|week|day|time|date|period|quarter|hour|minute|second|age|^t$", re.IGNORECASE)
MANY = 20
"""Below so many cells, all of them being different says nothing."""
_EARLIEST, _LATEST = np.datetime64("1678-01-01", "us"), np.datetime64("2262-01-01", "us")


@dataclass(frozen=True)
class Settled:
    """A column in the form of its kind, the clause that says why, and its missing cells by their text.

    `gaps` are the texts that count as missing, where they are not the usual ones; `unit` stood in every cell, and
    `comma` says whether the comma was its decimal separator, where that was asked.
    """

    kind: str
    values: Any
    reason: str
    missing: dict[str, int] = field(default_factory=dict)
    gaps: frozenset[str] | None = None
    unit: str = ""
    comma: bool | None = None


@dataclass
class Cells:
    """A column as numbers, as dates or as labels, whichever its cells are, and what is known about them beside."""

    name: str
    source: Raw
    rows: int
    numbers: Array | None = None
    dates: Array | None = None
    labels: Labels | None = None
    typed: str = ""
    codes: str = ""
    doubt: str = ""
    remarks: tuple[str, ...] = ()
    gaps: frozenset[str] | None = None
    tokens: dict[str, int] = field(default_factory=dict)
    unit: str = ""
    comma: bool | None = None

    @property
    def at(self) -> str:
        return f"column {self.name!r} of {self.source.name}"

    def note_gaps(self, tokens: dict[str, int]) -> None:
        self.tokens = dict(Counter(self.tokens) + Counter(tokens))
        if tokens:
            count = plural(sum(tokens.values()), "cell")
            self.remarks += (f"{', '.join(map(repr, tokens))} read as missing in {count}",)


def settle(
    column: Any,
    name: str,
    source: Raw,
    wanted: str | None = None,
    *,
    target: bool = False,
    unused: bool = False,
    gaps: frozenset[str] | None = None,
    comma: bool | None = None,
) -> Settled:
    """The kind of a column, or the one wanted, and its cells in that form; `gaps` are read as missing.

    A column that is `unused` may hold anything; it only tells rows apart. `comma`: whether the comma is known to be
    the decimal separator of numbers with a unit.
    """
    if unused and pa.types.is_nested(column.type):
        words = [None if value is None else str(value) for value in column.to_pylist()]
        column = pa.chunked_array([pa.array(words, pa.string())])
    cells = _cells(column, name, source, gaps, comma)
    kind, reason = _judge(cells, target) if wanted is None else (wanted, "as specified")
    values = _as_kind(cells, kind)
    empty = int(np.asarray(pd.isna(values)).sum()) - sum(cells.tokens.values())
    missing = {**({"": empty} if empty > 0 else {}), **cells.tokens}
    unit, comma = (cells.unit, cells.comma) if kind == "number" and cells.unit else ("", None)
    return Settled(kind, values, "; ".join([reason, *cells.remarks]), missing, cells.gaps, unit, comma)


def canonical(value: Any) -> str:
    """A value as the name of a level: 3, 3.0 and "3" are the same one.

    >>> canonical(3.0), canonical(2.5), canonical(True), canonical(" a ")
    ('3', '2.5', 'True', 'a')
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float | np.floating):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < EXACT else repr(number)
    return str(value).strip()


# What the cells are.


def _cells(column: Any, name: str, source: Raw, gaps: frozenset[str] | None, comma: bool | None) -> Cells:
    cells = Cells(name, source, len(column), gaps=gaps, comma=comma)
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, cells.typed = column.cast(kind.value_type), "category"
        kind = column.type
        if not _is_text(kind):
            column = _level_names(column)
            kind = column.type
    if column.null_count == len(column):
        cells.typed = "missing"
    elif _is_text(kind):
        _from_text(column if kind == pa.string() else column.cast(pa.string()), cells)
    elif pa.types.is_boolean(kind):
        cells.labels, cells.typed = encode(pc.if_else(column, "True", "False"))[0], "true or false"
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        cells.dates = _days(column, cells)
    elif pa.types.is_duration(kind):
        cells.numbers = _floats(column.cast(pa.duration("ns"), safe=False).cast(pa.int64()), cells) / 1e9
        cells.remarks += ("durations in seconds",)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        cells.numbers = _floats(column, cells)
    elif pa.types.is_time(kind):
        cells.labels = encode(column.cast(pa.string()))[0]
    else:
        message = f"{cells.at} contains {kind}, which are neither numbers, text nor dates"
        remedy = "split it into separate columns, or leave it out"
        raise DataTypeError(message, remedy=remedy, option=("drop", name))
    if cells.typed == "missing":
        cells.numbers = np.full(len(column), np.nan)
    elif cells.numbers is not None and gaps:
        cells.numbers = _without_codes(cells.numbers, cells)
    return cells


def _without_codes(values: Array, cells: Cells) -> Array:
    """Numbers without those that stand for missing values, such as -99; by value, however a cell writes it."""
    tokens = {}
    for gap in sorted(gap for gap in cells.gaps or () if is_number(gap)):
        code = values == float(gap)
        if code.any():
            values, tokens[gap] = np.where(code, np.nan, values), int(code.sum())
    cells.note_gaps(tokens)
    return values


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _level_names(column: Any) -> Any:
    """The levels of a categorical column of numbers as text."""
    words = [None if value is None else canonical(value) for value in column.to_pylist()]
    return pa.chunked_array([pa.array(words, pa.string())])


def _floats(column: Any, cells: Cells) -> Array:
    """Arrow numbers as int64 where all are whole and present, as float64 with NaN otherwise; infinity is a gap."""
    kind = column.type
    if pa.types.is_integer(kind) and column.null_count == 0 and kind != pa.uint64():
        return np.asarray(column.to_numpy()).astype(np.int64, copy=False)
    if kind != pa.float64():
        column = column.cast(pa.float64(), safe=False)
    values = np.asarray(column.to_numpy())
    infinite = np.isinf(values)
    if infinite.any():
        values = np.where(infinite, np.nan, values)
        cells.tokens["infinity"] = int(infinite.sum())
        cells.remarks += (f"infinity read as missing in {plural(int(infinite.sum()), 'cell')}",)
    return values


def _days(column: Any, cells: Cells) -> Array:
    """Arrow times as datetime64[ns] without a zone; what lies outside 1678 to 2261 is a gap."""
    zone = getattr(column.type, "tz", None)
    if zone:
        column = column.cast(pa.timestamp(column.type.unit, tz="UTC")).cast(pa.timestamp(column.type.unit))
        cells.remarks += () if zone == "UTC" else ("times in UTC",)
    if column.type == pa.timestamp("ns"):
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype="datetime64[ns]")
    micro = column.cast(pa.timestamp("us"), safe=False).to_numpy(zero_copy_only=False)
    values = np.array(micro, dtype="datetime64[us]")
    outside = (values < _EARLIEST) | (values >= _LATEST)
    if outside.any():
        values[outside] = np.datetime64("NaT")
        cells.remarks += ("dates before 1678 or after 2261 read as missing",)
    return values.astype("datetime64[ns]")


def _from_text(column: Any, cells: Cells) -> None:
    """Words that may be numbers (in a text file) or dates (anywhere)."""
    if cells.source.text and cells.typed != "category" and _may_be_numbers(column):
        cells.numbers = cast_numbers(column)
        if cells.numbers is None:
            cleaned, tokens = without_gaps(column, cells.gaps)
            cells.numbers = cast_numbers(cleaned)
            if cells.numbers is not None:
                cells.note_gaps(tokens)
        if cells.numbers is not None:
            if cells.comma:
                _refuse_doubtful(column, cells)
            return
    cells.labels, tokens, known = encode(column, cells.gaps)
    cells.note_gaps(tokens)
    kept = GAPS - known if cells.gaps is None else frozenset()
    if kept:
        cells.gaps = known
        cells.remarks += (f"{', '.join(map(repr, sorted(kept)))} taken for a level",)
    if not cells.labels.levels:
        cells.typed = "missing"
        return
    if cells.typed == "category":
        return
    if cells.source.text:
        cells.numbers, cells.codes = read_numbers(cells.labels)
        if cells.numbers is None and not cells.codes and cells.source.decimal_comma:
            cells.numbers, cells.codes = read_numbers(cells.labels, comma=True)
        if cells.numbers is None and not cells.codes:
            cells.numbers = _undressed(cells, cells.labels)
    if cells.numbers is None and not cells.codes:
        times, remark, cells.doubt = read_dates(cells.labels)
        if times is not None:
            cells.remarks += (remark,) if remark else ()
            cells.dates = cells.labels.spread(_days(times, cells), np.datetime64("NaT", "ns"))


def _refuse_doubtful(column: Any, cells: Cells) -> None:
    """Refuse numbers without a unit whose points may be decimal or, as in other rows, between thousands."""
    pointed = [cell.strip() for cell in column.unique().to_pylist() if cell and "." in cell]
    if pointed and all(map(THOUSANDS.fullmatch, pointed)):
        cell = pointed[0]
        message = f"{cells.at} has {cell!r}, which may be {float(cell):g} or {cell.replace('.', '')}"
        raise DataError(message, remedy="write the unit beside it, as in the training rows")


def _undressed(cells: Cells, labels: Labels, *, asked: bool = False) -> Array | None:
    """The cells as numbers where each is one with the same unit, or with separators that somebody `asked` to read."""
    found = undress(labels.levels, comma=cells.source.decimal_comma, asked=asked, known=cells.comma)
    if found is None:
        return None
    cells.unit, cells.comma = found.unit, found.comma
    how = [f"each with {found.unit!r}"] if found.unit else []
    how += ["separators between thousands"] if found.grouped else []
    how += ["a decimal comma"] if found.comma and not cells.source.decimal_comma else []
    cells.remarks += (", ".join(how),)
    return labels.spread(np.array(found.numbers), np.nan)


def _may_be_numbers(column: Any) -> bool:
    """Whether one of the first cells starts as a number does; if none does, a cast would only fail."""
    return any(cell and cell.strip()[:1] in _STARTS for cell in column.slice(0, 50).to_pylist())


_STARTS = frozenset("0123456789+-.")


# Which kind that makes.


def _judge(cells: Cells, target: bool) -> tuple[str, str]:
    if cells.typed == "missing":
        return "number", "every cell is missing"
    if cells.dates is not None:
        return "date", _span(cells.dates)
    if cells.numbers is not None:
        return ("number", _range(cells.numbers)) if target else _judge_numbers(cells.numbers, cells.name)
    assert cells.labels is not None
    return _judge_words(cells, cells.labels, target)


def _span(dates: Array) -> str:
    present = dates[~np.isnat(dates)]
    if present.size == 0:
        return "dates, none in the supported range"
    low, high = (str(value.astype("datetime64[D]")) for value in (present.min(), present.max()))
    return f"dates from {low} to {high}"


def _range(values: Array) -> str:
    present = _present(values)
    if present.size == 0:
        return "every cell is missing"
    low, high = present.min(), present.max()
    if low == high:
        return f"one number, {fmt(low, 6, group=False)}, in every row"
    whole = values.dtype.kind == "i" or bool((present == np.floor(present)).all())
    return f"{'whole numbers' if whole else 'numbers'} from {fmt(low, 6, group=False)} to {fmt(high, 6, group=False)}"


def _present(values: Array) -> Array:
    return values if values.dtype.kind == "i" else values[~np.isnan(values)]


def _judge_numbers(values: Array, name: str) -> tuple[str, str]:
    named = bool(ID_NAME.search(name))
    if values.dtype.kind == "i" and values.size >= MANY:
        up, down = (values[1:] > values[:-1]).all(), (values[1:] < values[:-1]).all()
        dense = abs(int(values[-1]) - int(values[0])) < 2 * values.size
        if (up or down) and dense and not TIME_NAME.search(name):
            return "id", "consecutive whole numbers, one per row"
        if named and np.unique(values).size == values.size:
            return "id", "a different whole number in every row, named like an identifier"
    present = _present(values)
    if named and bool((present == np.floor(present)).all()):
        return "category", f"whole numbers named like an identifier, {plural(np.unique(present).size, 'level')}"
    return "number", _range(values)


def _judge_words(cells: Cells, labels: Labels, target: bool) -> tuple[str, str]:
    levels, counts = labels.levels, labels.counts()
    different, n = len(levels), int(counts.sum())
    if cells.typed:
        return "category", f"{cells.typed}, {plural(different, 'level')}"
    if cells.codes:
        unique = different == n >= MANY and not target
        return ("id" if unique else "category"), f"{cells.codes}, {plural(different, 'level')}"
    if cells.doubt:
        return "category", f"{cells.doubt}, {plural(different, 'level')}"
    if cells.source.text and (mixed := _mixed(cells, labels, counts)):
        return "category", mixed
    if target:
        return "category", f"text, {plural(different, 'level')}"
    dressed = [level for level in levels if DRESSED.fullmatch(level)] if different > 30 else []
    if len(dressed) > 0.9 * different > 0:
        odd = next((level for level in dressed if not is_number(level)), None)
        what = "numbers as text" if odd is None else "numbers with units or separators"
        return "category", f"{what} such as {_short(odd or dressed[0])}, {plural(different, 'level')}"
    spaces = np.array([len(level.split()) for level in levels])
    words, share = float(spaces @ counts) / n, different / n
    if n >= MANY and share > 0.95 and words < 2:
        return "id", "a different text in every row" if different == n else "a different text in nearly every row"
    if (n >= MANY and share > 0.5 and words >= 2) or (different > 50 and words >= 5):
        return "text", f"{words:.1f} words per cell, {different} different cells"
    return "category", f"text, {plural(different, 'level')}"


def _mixed(cells: Cells, labels: Labels, counts: Array) -> str:
    """What to say of words among numbers; empty where fewer than half of the cells read as numbers."""
    odd = np.array([not is_number(_pointed(level, cells)) for level in labels.levels])
    others, n = int(counts[odd].sum()), int(counts.sum())
    if 2 * others > n:
        return ""
    row, value = labels.first(odd)
    verb = "is not a number" if others == 1 else "are not numbers"
    return f"mixed: {plural(others, 'cell')} of {n} {verb}, first {_short(value)} in {cells.source.place(row)}"


def _pointed(level: str, cells: Cells) -> str:
    return with_point(level) if cells.source.decimal_comma else level


def _short(value: str) -> str:
    return repr(value if len(value) <= 40 else value[:37] + "...")


# Cells in the form of a kind.


def _as_kind(cells: Cells, kind: str) -> Any:
    if kind == "number":
        return _as_numbers(cells)
    if kind == "date":
        return _as_dates(cells)
    if kind == "id" and cells.numbers is not None and cells.typed != "missing":
        return cells.numbers
    return _as_words(cells)


def _as_numbers(cells: Cells) -> Array:
    if cells.numbers is not None:
        return cells.numbers
    if cells.dates is not None or cells.labels is None:
        remedy = "keep its kind as date, or convert it to days since a fixed date"
        raise DataError(f"{cells.at} contains dates and cannot be a number", remedy=remedy)
    labels = cells.labels
    if cells.typed == "true or false":
        return labels.spread(np.array([float(level == "True") for level in labels.levels]), np.nan)
    levels = [_pointed(level, cells) for level in labels.levels]
    bad = [not is_number(level) for level in levels]
    if any(bad) and (numbers := _undressed(cells, labels, asked=True)) is not None:
        return numbers
    if any(bad):
        row, value = labels.first(bad)
        message = f"{cells.at} cannot be a number: {_short(value)} in {cells.source.place(row)} is not a finite number"
        if "," in value or "=" in value:  # separate texts and columns in --missing
            raise DataError(message, remedy="correct that cell, leave it empty, or keep the column a category")
        remedy = "correct that cell, keep the column a category, or read it as missing"
        raise DataError(message, remedy=remedy, option=("missing", f"{cells.name}={value}"))
    return labels.spread(np.array([float(level) for level in levels]), np.nan)


def _as_dates(cells: Cells) -> Array:
    if cells.dates is not None:
        return cells.dates
    if cells.typed == "missing":
        return np.full(cells.rows, np.datetime64("NaT", "ns"))
    remedy = "write dates as 2020-12-31, or choose another kind"
    if cells.labels is None or cells.numbers is not None:
        raise DataError(f"{cells.at} contains numbers and cannot be a date", remedy=remedy)
    if cells.doubt:
        raise DataError(f"{cells.at} contains {cells.doubt}", remedy=remedy)
    row, value = cells.labels.first([not ISO.fullmatch(level) for level in cells.labels.levels])
    message = f"{cells.at} cannot be a date: {_short(value)} in {cells.source.place(row)} is not a date"
    raise DataError(message, remedy=remedy)


def _as_words(cells: Cells) -> Array:
    if cells.typed == "missing":
        return np.full(cells.rows, None, dtype=object)
    if cells.labels is not None:
        return cells.labels.cells()
    values = cells.numbers if cells.numbers is not None else cells.dates
    codes, levels = pd.factorize(np.asarray(values))
    names = [canonical(level) if cells.dates is None else _iso(level) for level in levels]
    return Labels(codes, names).cells()


def _iso(value: Any) -> str:
    return str(np.datetime_as_string(np.datetime64(value, "ns"), unit="auto"))
