"""The gate of the tree family: tables as they come, with categories, text, truth values and gaps.

Numbers stay numbers, NaN among them meaning missing. Categories become their place among the sorted levels seen in
training; a level never seen is missing. Ordered pandas categoricals keep their order and are split like numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils.validation import check_is_fitted, validate_data

from assay.base import Constraint, Estimator, array_like, none, one_of
from assay.errors import DataError, DataTypeError, ParameterError
from assay.numerics.jit import kernel

__all__ = ["TableEstimator", "categories", "column_index", "monotone"]

Array = np.ndarray

categories: Constraint = one_of("auto") | none | array_like
"""Range of `categorical_features`: "auto" (text and pandas categories), None (none), or names, positions, a mask."""

monotone: Constraint = none | array_like | Constraint(lambda v: isinstance(v, dict), "a dict of column: -1, 0 or 1")
"""Range of `monotonic_cst`: one of -1, 0, 1 per column, or a dict of column names or positions."""


class TableEstimator(Estimator):
    """An estimator that takes text, categories and gaps without preparation.

    A class has a parameter `categorical_features` and, once fitted, `levels_`: for each column None (a number), or the
    array of its levels, whose places are the codes, and `ordered_`: columns of levels that are split like numbers.
    """

    categorical_features: Any
    levels_: list[Array | None]
    ordered_: Array

    def _table(self, X: Any, *, reset: bool) -> Array:
        """The table as float64, row by row: numbers and codes, NaN for what is missing or unseen."""
        if not reset and self._is_plain(X):
            return X
        if reset:
            self._check_parameters()
        else:
            check_is_fitted(self)
        if hasattr(X, "to_pandas"):  # polars, pyarrow
            X = X.to_pandas()
        if sparse.issparse(X):
            raise DataTypeError(
                f"{type(self).__name__} was passed a sparse X: Sparse data was passed, but dense data is required",
                remedy="pass X.toarray()",
            )
        frame = _frame(X)
        if frame is None:
            values = self._gate(X, reset=reset, finite=False)
            if reset:
                self._numbers_only(values)
            return self._encode_numbers(values)
        validate_data(self, X if isinstance(X, pd.DataFrame) else frame.to_numpy(), reset=reset, skip_check_array=True)
        if frame.shape[1] == 0 or len(frame) == 0:
            self._gate(np.empty(frame.shape), reset=reset)  # which says what is missing
        if reset:
            self._learn_levels(frame)
        return self._encode_frame(frame)

    def _is_plain(self, X: Any) -> bool:
        """Whether X needs no work at all: asked for one row at a time, checks would cost more than the answer."""
        return (
            type(X) is np.ndarray
            and X.dtype == np.float64
            and X.ndim == 2
            and X.shape[0] > 0
            and X.flags.c_contiguous
            and X.flags.writeable
            and X.shape[1] == getattr(self, "n_features_in_", -1)
            and not hasattr(self, "feature_names_in_")
            and all(level is None for level in self.levels_)
            and first_infinite(X) < 0
        )

    # Tables of numbers.

    def _numbers_only(self, X: Array) -> None:
        """Levels of the columns that were named as categories; all others are numbers."""
        chosen = _chosen(self.categorical_features, [f"x{j}" for j in range(X.shape[1])], auto=())
        self.levels_ = [None] * X.shape[1]
        self.ordered_ = np.zeros(X.shape[1], dtype=bool)
        for j in chosen:
            seen = np.unique(X[:, j])
            self.levels_[j] = seen[~np.isnan(seen)]

    def _encode_numbers(self, X: Array) -> Array:
        # A closed array is another type to the compiler: open, every table runs through the same kernels.
        X = np.require(X, requirements=("C", "W"))
        self._refuse_infinite(X)
        coded = [j for j, levels in enumerate(self.levels_) if levels is not None]
        if coded:
            X = X.copy()
            for j in coded:
                X[:, j] = _code(pd.Series(X[:, j]), self.levels_[j], self._column(j))
        return X

    # Tables with other things in them.

    def _learn_levels(self, frame: pd.DataFrame) -> None:
        p, names = frame.shape[1], [str(name) for name in frame.columns]
        found = [_levels(frame.iloc[:, j], self._column(j)) for j in range(p)]
        auto = [j for j in range(p) if found[j][0] is not None]
        chosen = _chosen(self.categorical_features, names, auto)
        self.levels_, self.ordered_ = [None] * p, np.zeros(p, dtype=bool)
        for j in range(p):
            levels, ordered = found[j]
            if j in chosen:
                self.levels_[j] = _unique(frame.iloc[:, j], self._column(j)) if levels is None else levels
                self.ordered_[j] = ordered and self.categorical_features == "auto"

    def _encode_frame(self, frame: pd.DataFrame) -> Array:
        out = np.empty(frame.shape)
        for j, levels in enumerate(self.levels_):
            column, where = frame.iloc[:, j], f"column {frame.columns[j]!r}"  # a number where there are no names
            out[:, j] = _number(column, where) if levels is None else _code(column, levels, where)
        self._refuse_infinite(out)
        return out

    # What the columns are called and what they hold.

    def _refuse_infinite(self, X: Array) -> None:
        at = first_infinite(X)
        if at >= 0:
            row, j = divmod(at, X.shape[1])
            what = f"X contains inf in {self._column(j)}, row {row}"
            raise DataError(what, remedy="replace it by a finite number or by NaN")

    def _column(self, j: int) -> str:
        return f"column {self.feature_names_in_[j]!r}" if hasattr(self, "feature_names_in_") else f"column {j}"

    def _level_counts(self) -> Array:
        """For each column the number of its unordered levels, 0 where it is split like a number."""
        return np.array(
            [
                0 if levels is None or ordered else len(levels)
                for levels, ordered in zip(self.levels_, self.ordered_, strict=True)
            ],
            dtype=np.int64,
        )

    def _monotone(self, given: Any) -> Array:
        """The constraint of each column as -1, 0 or 1."""
        p = self.n_features_in_
        out = np.zeros(p, dtype=np.int8)
        if given is None:
            return out
        names = self._feature_names()
        pairs: Any = given.items() if isinstance(given, dict) else enumerate(given)
        if not isinstance(given, dict) and len(given) != p:
            what = f"monotonic_cst has {len(given)} entries for {p} columns"
            raise ParameterError(what, remedy="give one of -1, 0, 1 per column, or a dict by column name")
        for key, sign in pairs:
            j = column_index(key, names, "monotonic_cst")
            if isinstance(sign, bool) or sign not in (-1, 0, 1):
                what = f"monotonic_cst of column {names[j]!r} is {sign!r}"
                raise ParameterError(what, remedy="use 1 for rising, -1 for falling, 0 for free")
            if sign and self._level_counts()[j]:
                what = f"monotonic_cst names column {names[j]!r}, which holds categories without an order"
                raise ParameterError(what, remedy="use an ordered pandas categorical, or numbers")
            out[j] = sign
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def column_index(key: Any, names: Sequence[str], parameter: str) -> int:
    """The position of a column given by name or by position."""
    if isinstance(key, str) and key in names:
        return list(names).index(key)
    if isinstance(key, Integral) and not isinstance(key, bool) and -len(names) <= int(key) < len(names):
        return int(key) % len(names)
    known = ", ".join(map(repr, names[:6])) + (", ..." if len(names) > 6 else "")
    raise ParameterError(f"{parameter} names {key!r}, which is no column", remedy=f"the columns are {known}")


def _chosen(asked: Any, names: Sequence[str], auto: Sequence[int]) -> set[int]:
    """The columns taken as categories."""
    if asked is None:
        return set(auto)  # text cannot be anything else
    if isinstance(asked, str):
        return set(auto)
    entries = list(asked)
    if entries and all(isinstance(entry, bool | np.bool_) for entry in entries):
        if len(entries) != len(names):
            what = f"categorical_features is a mask of {len(entries)} for {len(names)} columns"
            raise ParameterError(what, remedy="give one True or False per column")
        return {j for j, entry in enumerate(entries) if entry} | set(auto)
    return {column_index(entry, names, "categorical_features") for entry in entries} | set(auto)


def _frame(X: Any) -> pd.DataFrame | None:
    """A table with kinds of columns, or None where the plain gate for numbers will do."""
    if isinstance(X, pd.DataFrame):
        plain = all(isinstance(kind, np.dtype) and kind.kind in "biuf" for kind in X.dtypes)
        return None if plain else X
    array = np.asarray(X, dtype=object) if isinstance(X, list | tuple) and _has_text(X) else X
    if isinstance(array, np.ndarray) and array.dtype.kind in "OUS" and array.ndim == 2 and array.size:
        return pd.DataFrame(array).infer_objects()
    return None


def _has_text(rows: Any) -> bool:
    return any(isinstance(cell, str) for row in rows if isinstance(row, list | tuple) for cell in row)


def _levels(column: pd.Series, where: str) -> tuple[Array | None, bool]:
    """The levels of a column that cannot be numbers, and whether they have an order."""
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        if kind.ordered:
            return np.asarray(kind.categories), True
        return np.asarray(column.cat.remove_unused_categories().cat.categories), False
    if kind.kind == "O" or pd.api.types.is_string_dtype(kind):
        present = column[~pd.isna(column)]
        if any(isinstance(value, str) for value in present):
            return _unique(column, where), False
    return None, False


def _unique(column: pd.Series, where: str) -> Array:
    present = column[~pd.isna(column)]
    for row, value in zip(np.flatnonzero(~pd.isna(column)), present, strict=True):
        if not isinstance(value, str | bytes | Real | np.bool_):
            what = f"{where} holds a {type(value).__name__} in row {row}: "
            raise DataTypeError(f"{what}argument must be a string or a number", remedy="convert it to text or numbers")
    found = pd.unique(present)
    try:
        return np.sort(np.asarray(found))
    except TypeError:
        return np.asarray(sorted(found, key=lambda value: (type(value).__name__, value)), dtype=object)


def _number(column: pd.Series, where: str) -> Array:
    """A column of numbers with gaps."""
    kind = column.dtype
    if pd.api.types.is_datetime64_any_dtype(kind) or pd.api.types.is_timedelta64_dtype(kind):
        remedy = "turn it into numbers first, for instance days since a start"
        raise DataTypeError(f"{where} holds dates or times", remedy=remedy)
    if pd.api.types.is_complex_dtype(kind):
        what = f"Complex data not supported: {where} holds complex numbers"
        raise DataError(what, remedy="pass real and imaginary parts as two columns")
    if isinstance(kind, np.dtype) and kind.kind in "biuf":
        return column.to_numpy(dtype=np.float64)
    missing = np.asarray(pd.isna(column))
    out = np.full(len(column), np.nan)
    for row in np.flatnonzero(~missing):
        value = column.iloc[row]
        try:
            if isinstance(value, str | bytes):
                raise DataError(f"{where} holds the text {value!r} in row {row}", remedy="it held numbers in training")
            out[row] = float(value)
        except (TypeError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            what = f"{where} holds a {type(value).__name__} in row {row}: {error}"
            raise DataTypeError(what, remedy="convert the column to numbers") from error
    return out


def _code(column: pd.Series, levels: Array | None, where: str) -> Array:
    """Each value's place among the levels; NaN where it is missing or was never seen."""
    assert levels is not None
    values = column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column
    missing = np.asarray(pd.isna(values))
    text = len(levels) > 0 and all(isinstance(level, str) for level in levels)
    if text and not missing.all() and pd.api.types.is_numeric_dtype(values.dtype):
        row = int(np.argmin(missing))
        what = f"{where} holds the number {values.iloc[row]!r} in row {row}, but text in training"
        raise DataError(what, remedy="pass it as text, as in training")
    place = pd.Index(levels).get_indexer(pd.Index(values)).astype(np.float64)
    place[(place < 0) | missing] = np.nan
    return place


@kernel
def first_infinite(X: Array) -> int:
    """The position, row by row, of the first infinity, or -1."""
    n, p = X.shape
    for i in range(n):
        bad = 0
        for j in range(p):
            bad += np.abs(X[i, j]) == np.inf
        if bad:
            for j in range(p):
                if np.abs(X[i, j]) == np.inf:
                    return i * p + j
    return -1
