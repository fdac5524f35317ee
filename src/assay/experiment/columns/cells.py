"""The cells of a frame in the form their kinds ask for, whatever type they came in: validation for preprocessing.

A frame that was read by `read_table` passes straight through. One that comes from elsewhere (numbers as text, another
unit of time, categories as numbers, levels as booleans) is brought into the same form by the rules of the reader, or
refused with the column and the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from assay.errors import DataError, DataTypeError
from assay.experiment.columns.dates import date_parts
from assay.experiment.columns.encoders import GAP, level_codes
from assay.experiment.columns.text import split_words
from assay.experiment.table.kinds import settle
from assay.experiment.table.reading import Raw, pandas_column

__all__ = ["Cells", "as_frame"]

Array = np.ndarray


class Cells:
    """The cells of some columns by kind: numbers (NaN for gaps and infinities), parts of dates, level codes, words."""

    def __init__(self, frame: pd.DataFrame, kinds: Mapping[str, str]) -> None:
        self.rows = len(frame)
        self.nothing = np.full(self.rows, np.nan)
        self.numbers: dict[str, Array] = {}
        self.dates: dict[str, Array] = {}
        self.levels: dict[str, tuple[Array, list[str]]] = {}
        self.words: dict[str, list[list[str]]] = {}
        self.lengths: dict[str, Array] = {}
        where = {name: j for j, name in enumerate(frame.columns)}
        plain = [isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in frame.dtypes]
        together = []
        for name, kind in kinds.items():
            if name not in where:
                remedy = "add it; leave cells empty where the value is unknown"
                raise DataError(f"the table has no column {name!r}", remedy=remedy)
            if kind == "number" and plain[where[name]]:
                together.append(name)
            else:
                self._take(frame.iloc[:, where[name]], name, kind)
        # Thousands of columns are taken out at once, which one by one would cost more than all the rest.
        block = frame.iloc[:, [where[name] for name in together]].to_numpy(dtype=np.float64)
        self.numbers |= {name: _finite(block[:, j]) for j, name in enumerate(together)}

    def _take(self, column: pd.Series, name: str, kind: str) -> None:
        if kind == "number":
            self.numbers[name] = _finite(np.asarray(_settled(column, name, "number"), dtype=np.float64))
        elif kind == "date":
            self.dates[name] = date_parts(_dates_of(column, name))
        elif kind == "category":
            self.levels[name] = level_codes(column)
        elif kind == "text":
            self.words[name] = [split_words(cell) for cell in column.tolist()]
            lengths = np.array([len(words) for words in self.words[name]], dtype=np.float64)
            self.lengths[name] = np.where(np.asarray(column.isna()), np.nan, lengths)

    def all_missing(self, name: str) -> bool:
        """Whether a column is empty in all these rows."""
        if name in self.levels:
            return bool((self.levels[name][0] == GAP).all())
        held = next(part[name] for part in (self.numbers, self.dates, self.lengths) if name in part)
        return bool(np.isnan(held).all())


def as_frame(X: Any, names: Array) -> pd.DataFrame:
    """A frame with unique names, from a frame of any make or from an array whose columns stand in order."""
    if isinstance(X, pd.DataFrame):
        if X.columns.has_duplicates:
            twice = X.columns[X.columns.duplicated()][0]
            raise DataError(f"the table has two columns named {twice!r}", remedy="rename one of them")
        return X
    if hasattr(X, "to_pandas"):
        return as_frame(X.to_pandas(), names)
    array = np.asarray(X)
    if array.ndim != 2 or array.shape[1] != names.size:
        message = f"X has shape {array.shape}, and its columns have no names"
        raise DataTypeError(message, remedy=f"pass a data frame, or an array of {names.size} columns in their order")
    return pd.DataFrame({name: array[:, j] for j, name in enumerate(names)})


def _finite(values: Array) -> Array:
    infinite = np.isinf(values)
    return np.where(infinite, np.nan, values) if infinite.any() else values


def _dates_of(column: pd.Series, name: str) -> Array:
    if isinstance(column.dtype, np.dtype) and column.dtype == np.dtype("datetime64[ns]"):
        return column.to_numpy()
    return np.asarray(_settled(column, name, "date"))


def _settled(column: pd.Series, name: str, kind: str) -> Any:
    return settle(pandas_column(column, name), name, Raw("the table", [], [], len(column)), kind).values
