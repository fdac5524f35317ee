"""The gate of the tree family: tables as they come, with categories, text, truth values and gaps.

Numbers stay numbers, NaN among them meaning missing. Categories become their place among the sorted levels seen in
training; a level never seen is missing. Ordered pandas categoricals keep their order and are split like numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, Estimator, array_like, none, one_of
from assay.errors import DataError, DataTypeError, ParameterError
from assay.levels import as_frame, as_numbers, as_places, column_index, refuse_objects, sorted_levels
from assay.numerics.jit import kernel

__all__ = ["TableEstimator", "categories", "monotone"]

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
        frame = as_frame(X, plain="biuf")
        if frame is None:
            values = self._gate(X, reset=reset, finite=False)
            if reset:
                self._numbers_only(values)
            return self._encode_numbers(values)
        self._match_columns(X if isinstance(X, pd.DataFrame) else frame.to_numpy(), reset=reset)
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
        coded = {j: levels for j, levels in enumerate(self.levels_) if levels is not None}
        if coded:
            X = X.copy()
            for j, levels in coded.items():
                X[:, j] = as_places(pd.Series(X[:, j]), levels, self._column(j))
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
            if levels is None:
                out[:, j] = as_numbers(column, where, amiss="", remedy="it held numbers in training")
            else:
                out[:, j] = as_places(column, levels, where)
        self._refuse_infinite(out)
        return out

    # What the columns are called and what they hold.

    def _refuse_infinite(self, X: Array) -> None:
        at = first_infinite(X)
        if at >= 0:
            row, j = divmod(at, X.shape[1])
            what = f"X contains inf in {self._column(j)}, row {row}"
            raise DataError(what, remedy="replace it by a finite number or by NaN")

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
    if column.dtype.kind not in "biuf":
        refuse_objects(column, where)
    return sorted_levels(column)


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
