"""One column at a time: what it holds as numbers, or as places among the levels seen in training.

Behind it a column is float64, NaN for what is missing or was never seen. Levels are sorted, so the place of a value
does not depend on the order of the rows. One pass over the cells; a hash table finds the places.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd

from assay.checks import listed
from assay.errors import DataError, DataTypeError, ParameterError

__all__ = ["as_frame", "as_numbers", "as_places", "column_index", "refuse_kind", "refuse_objects", "sorted_levels"]

Array = np.ndarray


def as_frame(X: Any, plain: str) -> pd.DataFrame | None:
    """X as columns with dtypes; None where every column is of a `plain` kind, which numeric validation takes.

    >>> as_frame([[1, "red"], [2, "blue"]], plain="iuf").dtypes[0]
    dtype('int64')
    >>> as_frame(pd.DataFrame({"a": [1, 2]}), plain="iuf") is None
    True
    """
    if isinstance(X, pd.DataFrame):
        return None if all(isinstance(kind, np.dtype) and kind.kind in plain for kind in X.dtypes) else X
    if isinstance(X, list | tuple) and _holds_text(X):
        try:
            X = np.array(X, dtype=object)
        except ValueError:
            return None  # ragged; the gate says so
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.size and X.dtype.kind in "OUS":
        return pd.DataFrame(X).infer_objects()
    return None


def _holds_text(rows: Any) -> bool:
    return any(isinstance(cell, str) for row in rows if isinstance(row, list | tuple) for cell in row)


def column_index(key: Any, names: Sequence[str], parameter: str) -> int:
    """The position of a column that a parameter gives by name or by position.

    >>> column_index("b", ["a", "b"], "kinds"), column_index(-2, ["a", "b"], "kinds")
    (1, 0)
    """
    key = key.item() if isinstance(key, np.generic) else key
    if isinstance(key, str) and key in names:
        return list(names).index(key)
    if isinstance(key, Integral) and not isinstance(key, bool) and -len(names) <= int(key) < len(names):
        return int(key) % len(names)
    raise ParameterError(f"{parameter} names the unknown column {key!r}", remedy=f"the columns are {listed(names)}")


# Numbers.


def refuse_kind(kind: str, where: str) -> None:
    """Dates, times and complex numbers, by the letter of their dtype."""
    if kind in "Mm":
        remedy = "convert it to numbers first, for instance days since a fixed date"
        raise DataTypeError(f"{where} contains dates or times", remedy=remedy)
    if kind == "c":
        what = f"Complex data not supported: {where} contains complex numbers"
        raise DataError(what, remedy="pass real and imaginary parts as two columns")


def as_numbers(
    column: pd.Series, where: str, *, amiss: str = ", expected a number", remedy: str = "correct it"
) -> Array:
    """A column of numbers with gaps; a text among them is refused with the words `amiss` and the remedy.

    >>> as_numbers(pd.Series([1, None, True], dtype=object), "column 'a'")
    array([ 1., nan,  1.])
    """
    kind = column.dtype
    refuse_kind(kind.kind, where)
    if isinstance(kind, np.dtype) and kind.kind in "biuf":
        return column.to_numpy(dtype=np.float64)
    if pd.api.types.is_extension_array_dtype(kind) and pd.api.types.is_numeric_dtype(kind):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    out = np.full(len(column), np.nan)
    cells = np.asarray(column, dtype=object)
    for row in np.flatnonzero(~np.asarray(pd.isna(column))):
        value = cells[row]
        if isinstance(value, str | bytes):
            raise DataError(f"{where} contains the text {value!r} in row {row}{amiss}", remedy=remedy)
        try:
            out[row] = float(value)
        except (TypeError, ValueError) as error:
            what = f"{where} contains a {type(value).__name__} in row {row}: {error}"
            raise DataTypeError(what, remedy="convert the column to numbers") from error
    return out


# Levels.


def refuse_objects(column: pd.Series, where: str) -> None:
    """A cell that is no text, number or truth value, and so no level."""
    cells = np.asarray(column, dtype=object)
    there = ~np.asarray(pd.isna(column))
    strange = [kind for kind in set(map(type, cells[there])) if not issubclass(kind, str | bytes | Real | np.bool_)]
    if strange:
        row = next(row for row in np.flatnonzero(there).tolist() if type(cells[row]) in strange)
        what = f"{where} contains a {type(cells[row]).__name__} in row {row}: argument must be a string or a number"
        raise DataTypeError(what, remedy="convert it to text or numbers")


def sorted_levels(column: pd.Series) -> Array:
    """The distinct values of a column, sorted; by type first where text stands beside numbers.

    >>> sorted_levels(pd.Series(["b", "a", None, "b"], dtype=object)).tolist()
    ['a', 'b']
    """
    found = pd.unique(column[~pd.isna(column)])
    try:
        return np.sort(np.asarray(found))
    except TypeError:
        return np.asarray(sorted(found, key=lambda value: (type(value).__name__, value)), dtype=object)


def as_places(column: pd.Series, levels: Array, where: str) -> Array:
    """Each value's place among the levels; NaN where it is missing or was never seen.

    >>> as_places(pd.Series(["b", "z", None, "a"], dtype=object), np.array(["a", "b"], dtype=object), "column 'c'")
    array([ 1., nan, nan,  0.])
    """
    values = column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column
    missing = np.asarray(pd.isna(values))
    text = len(levels) > 0 and all(isinstance(level, str) for level in levels)
    if text and not missing.all() and pd.api.types.is_numeric_dtype(values.dtype):
        row = int(np.argmin(missing))
        what = f"{where} contains the number {values.iloc[row]} in row {row}, but text in training"
        raise DataError(what, remedy="pass it as text, as in training")
    place = pd.Index(levels).get_indexer(pd.Index(values)).astype(np.float64)
    place[(place < 0) | missing] = np.nan
    return place
