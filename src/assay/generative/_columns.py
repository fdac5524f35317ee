"""The gate of tables with columns of several kinds: numbers, categories, text, truth values, counts, and gaps.

Behind it a table is float64: numbers as they are, categories as their place among the levels of training, NaN for what
is missing or was never seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd

from assay.base import LARGEST
from assay.errors import DataError, DataTypeError, ParameterError

__all__ = ["KINDS", "as_frame", "encode", "infer", "levels_of", "named_kinds"]

Array = np.ndarray

KINDS = ("normal", "category", "count", "binary")


def as_frame(X: Any) -> pd.DataFrame | None:
    """X as columns with dtypes, or None where it is a plain table of numbers for the common gate."""
    if hasattr(X, "to_pandas"):  # polars, pyarrow
        X = X.to_pandas()
    if isinstance(X, pd.DataFrame):
        plain = all(isinstance(kind, np.dtype) and kind.kind in "iuf" for kind in X.dtypes)
        return None if plain else X
    if isinstance(X, list | tuple) and _holds_text(X):
        try:
            X = np.array(X, dtype=object)
        except ValueError:
            return None  # ragged; the common gate says so
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.size and X.dtype.kind in "OUS":
        return pd.DataFrame(X).infer_objects()
    return None


def _holds_text(rows: Any) -> bool:
    return any(isinstance(cell, str) for row in rows if isinstance(row, list | tuple) for cell in row)


def infer(column: pd.Series) -> str:
    """The kind of a column by what it holds: truth values are binary, text and categories categories, else numbers."""
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return "category"
    if pd.api.types.is_bool_dtype(kind):
        return "binary"
    if kind.kind == "O" or pd.api.types.is_string_dtype(kind):
        present = column[~pd.isna(column)]
        if any(isinstance(value, str | bytes) for value in present):
            return "category"
        if len(present) and all(isinstance(value, bool | np.bool_) for value in present):
            return "binary"
    return "normal"


def named_kinds(kinds: Any, names: Sequence[Any]) -> dict[int, str]:
    """The user's kinds by position; columns are named, or numbered."""
    found: dict[int, str] = {}
    known = [str(name) for name in names]
    for key, kind in (kinds or {}).items():
        if isinstance(key, str) and key in known:
            j = known.index(key)
        elif isinstance(key, Integral) and not isinstance(key, bool) and -len(known) <= int(key) < len(known):
            j = int(key) % len(known)
        else:
            shown = ", ".join(map(repr, known[:6])) + (", ..." if len(known) > 6 else "")
            raise ParameterError(f"kinds names {key!r}, which is no column", remedy=f"the columns are {shown}")
        if kind not in KINDS:
            raise ParameterError(f"kinds of column {known[j]!r} is {kind!r}", remedy=f"use one of {', '.join(KINDS)}")
        found[j] = kind
    return found


def levels_of(column: pd.Series, where: str) -> Array:
    """The sorted levels of a column; a pandas categorical says itself which there are."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return np.asarray(column.dtype.categories)
    present = np.asarray(~pd.isna(column))
    if column.dtype.kind == "O":
        for row in np.flatnonzero(present).tolist():
            value = column.iat[row]
            if not isinstance(value, str | bytes | Real | np.bool_):
                what = f"{where} holds a {type(value).__name__} in row {row}: argument must be a string or a number"
                raise DataTypeError(what, remedy="convert it to text or numbers")
    found = pd.unique(column[present])
    try:
        return np.sort(np.asarray(found))
    except TypeError:  # text beside numbers
        return np.asarray(sorted(found, key=lambda value: (type(value).__name__, value)), dtype=object)


def encode(column: pd.Series, kind: str, levels: Array | None, where: str) -> Array:
    """A column as float64, NaN for what is missing or unseen; what its kind does not allow is refused."""
    if kind == "category":
        assert levels is not None
        return _places(column, levels, where)
    values = _numbers(column, where)
    with np.errstate(invalid="ignore"):
        wild = np.abs(values) > LARGEST
    if wild.any():
        row = int(np.argmax(wild))
        word = "inf" if np.isinf(values[row]) else f"{values[row]:.4g}, too large to be squared,"
        raise DataError(f"X contains {word} in {where}, row {row}", remedy="replace it by a finite number or by NaN")
    if kind == "binary":
        odd = ~((values == 0) | (values == 1) | np.isnan(values))
        words, remedy = "neither 0 nor 1", "make it a category, or leave its kind out"
    elif kind == "count":
        odd = ~((values >= 0) & (values == np.floor(values)) | np.isnan(values))
        words, remedy = "no count", "give whole numbers of at least 0, or make it normal"
    else:
        return values
    if odd.any():
        row = int(np.argmax(odd))
        raise DataError(f"{where} holds {values[row]:g} in row {row}, which is {words}", remedy=remedy)
    return values


def _places(column: pd.Series, levels: Array, where: str) -> Array:
    values = column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column
    missing = np.asarray(pd.isna(values))
    text = levels.size > 0 and all(isinstance(level, str) for level in levels)
    if text and not missing.all() and pd.api.types.is_numeric_dtype(values.dtype):
        row = int(np.argmin(missing))
        what = f"{where} holds the number {values.iloc[row]} in row {row}, but text in training"
        raise DataError(what, remedy="pass it as text, as in training")
    place = pd.Index(levels).get_indexer(pd.Index(values)).astype(np.float64)
    place[(place < 0) | missing] = np.nan
    return place


def _numbers(column: pd.Series, where: str) -> Array:
    kind = column.dtype
    if pd.api.types.is_datetime64_any_dtype(kind) or pd.api.types.is_timedelta64_dtype(kind):
        remedy = "turn it into numbers first, for instance days since a start"
        raise DataTypeError(f"{where} holds dates or times", remedy=remedy)
    if pd.api.types.is_complex_dtype(kind):
        what = f"Complex data not supported: {where} holds complex numbers"
        raise DataError(what, remedy="pass real and imaginary parts as two columns")
    if isinstance(kind, np.dtype) and kind.kind in "biuf":
        return column.to_numpy(dtype=np.float64)
    if pd.api.types.is_extension_array_dtype(kind) and pd.api.types.is_numeric_dtype(kind):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    missing = np.asarray(pd.isna(column))
    out = np.full(len(column), np.nan)
    for row in np.flatnonzero(~missing):
        value = column.iloc[row]
        if isinstance(value, str | bytes):
            raise DataError(f"{where} holds the text {value!r} in row {row}, where numbers belong", remedy="correct it")
        try:
            out[row] = float(value)
        except (TypeError, ValueError) as error:
            what = f"{where} holds a {type(value).__name__} in row {row}: {error}"
            raise DataTypeError(what, remedy="convert the column to numbers") from error
    return out
