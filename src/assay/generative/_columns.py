"""The gate of tables with columns of several kinds: numbers, categories, text, truth values, counts, and gaps.

Behind it a table is float64: numbers as they are, categories as their place among the levels of training, NaN for what
is missing or was never seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from assay.base import LARGEST
from assay.errors import DataError, ParameterError
from assay.levels import as_numbers, as_places, column_index, refuse_objects, sorted_levels

__all__ = ["KINDS", "encode", "infer", "levels_of", "named_kinds"]

Array = np.ndarray

KINDS = ("normal", "category", "count", "binary")


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
        j = column_index(key, known, "kinds")
        if kind not in KINDS:
            raise ParameterError(f"kinds of column {known[j]!r} is {kind!r}", remedy=f"use one of {', '.join(KINDS)}")
        found[j] = kind
    return found


def levels_of(column: pd.Series, where: str) -> Array:
    """The sorted levels of a column; a pandas categorical says itself which there are."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return np.asarray(column.dtype.categories)
    if column.dtype.kind == "O":
        refuse_objects(column, where)
    return sorted_levels(column)


def encode(column: pd.Series, kind: str, levels: Array | None, where: str) -> Array:
    """A column as float64, NaN for what is missing or unseen; what its kind does not allow is refused."""
    if kind == "category":
        assert levels is not None
        return as_places(column, levels, where)
    values = as_numbers(column, where)
    with np.errstate(invalid="ignore"):
        wild = np.abs(values) > LARGEST
    if wild.any():
        row = int(np.argmax(wild))
        word = "inf" if np.isinf(values[row]) else f"{values[row]:.4g}, too large to be squared,"
        raise DataError(f"X contains {word} in {where}, row {row}", remedy="replace it with a finite number or NaN")
    if kind == "binary":
        odd = ~((values == 0) | (values == 1) | np.isnan(values))
        words, remedy = "neither 0 nor 1", "set its kind to category, or leave it out"
    elif kind == "count":
        odd = ~((values >= 0) & (values == np.floor(values)) | np.isnan(values))
        words, remedy = "not a count", "pass whole numbers of at least 0, or set its kind to normal"
    else:
        return values
    if odd.any():
        row = int(np.argmax(odd))
        raise DataError(f"{where} contains {values[row]:g} in row {row}, which is {words}", remedy=remedy)
    return values
