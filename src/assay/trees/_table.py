"""The gate of the tree family: tables as they come, with categories, text, truth values and gaps.

Numbers stay numbers, NaN among them meaning missing. Categories become their place among the sorted levels seen in
training; a level never seen is missing. Ordered pandas categoricals keep their order and are split like numbers.
A sparse table holds numbers: a cell that is not stored is 0, an explicit NaN is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, Estimator, array_like, none, one_of
from assay.checks import refuse_vector
from assay.errors import DataError, ParameterError
from assay.levels import as_frame, as_numbers, as_places, column_index, refuse_objects, sorted_levels
from assay.numerics.jit import kernel
from assay.state import Specs, bools, labels, several
from assay.trees._sparse import SparseTable, canonical

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
    Columns of truth values are numbers, and `_truths` marks them for whoever writes about them.
    """

    state: ClassVar[Specs] = {
        "levels_": several(none | labels(None), "p"),
        "ordered_": bools("p"),
        "_truths": bools("p"),
    }

    def _check_state(self) -> None:
        for name in ("nodes_", "full_nodes_"):
            if name in vars(self):
                vars(self)[name].check_columns(self.levels_)

    categorical_features: Any
    levels_: list[Array | None]
    ordered_: Array
    _truths: Array

    def _table(self, X: Any, *, reset: bool) -> Any:
        """The table as float64, row by row: numbers and codes, NaN for what is missing or unseen.

        An array, or a `SparseTable` for a sparse X, which can be asked for the same things.
        """
        if not reset and self._is_plain(X):
            return X
        if reset:
            self._check_parameters()
        else:
            check_is_fitted(self)
        if hasattr(X, "to_pandas"):  # polars, pyarrow
            X = X.to_pandas()
        refuse_vector(X)
        if sparse.issparse(X):
            return self._sparse(X, reset=reset)
        frame = as_frame(X, plain="biuf")
        if frame is None:
            values = self._validate(X, reset=reset, finite=False)
            if reset:
                self._numbers_only(values)
                self._truths = _truths(X, values.shape[1])
            return self._encode_numbers(values)
        self._match_columns(X if isinstance(X, pd.DataFrame) else frame.to_numpy(), reset=reset)
        if frame.shape[1] == 0 or len(frame) == 0:
            self._validate(np.empty(frame.shape), reset=reset)  # which says what is missing
        if reset:
            self._learn_levels(frame)
            self._truths = _truths(frame, frame.shape[1])
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

    def _sparse(self, X: Any, *, reset: bool) -> SparseTable:
        """A sparse table, whatever its format; categories are the numbers that stand in their columns, 0 among them."""
        table = SparseTable(canonical(self._validate(X, reset=reset, sparse=True, dtype=None, finite=False)))
        values, columns, starts = table.parts
        bad = np.flatnonzero(np.isinf(values))
        if bad.size:
            self._say_infinite(int(np.searchsorted(starts, bad[0], side="right")) - 1, int(columns[bad[0]]))
        if reset:
            self._numbers_only(table)
            self._truths = _truths(X, X.shape[1])
        coded = {
            j: as_places(pd.Series(table[:, j]), levels, self._column(j))
            for j, levels in enumerate(self.levels_)
            if levels is not None
        }
        return table.with_columns(coded) if coded else table

    def _numbers_only(self, X: Array | SparseTable) -> None:
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
                out[:, j] = as_numbers(column, where, amiss=", but was numeric in training", remedy="correct it")
            else:
                _refuse_bytes(column, where)
                out[:, j] = as_places(column, levels, where)
        self._refuse_infinite(out)
        return out

    # What the columns are called and what they hold.

    def _refuse_infinite(self, X: Array) -> None:
        at = first_infinite(X)
        if at >= 0:
            self._say_infinite(*divmod(at, X.shape[1]))

    def _say_infinite(self, row: int, j: int) -> None:
        what = f"X contains inf in {self._column(j)}, row {row}"
        raise DataError(what, remedy="replace it with a finite number or NaN")

    def _level_counts(self) -> Array:
        """For each column the number of its unordered levels, 0 where it is split like a number."""
        return np.array(
            [
                0 if levels is None or ordered else len(levels)
                for levels, ordered in zip(self.levels_, self.ordered_, strict=True)
            ],
            dtype=np.int64,
        )

    def _level_words(self) -> list[Array | None]:
        """What each column holds, in words: `levels_`, and False and True where it held truth values."""
        marked = getattr(self, "_truths", np.zeros(len(self.levels_), dtype=bool))
        return [
            np.array([False, True]) if levels is None and truth else levels
            for levels, truth in zip(self.levels_, marked, strict=True)
        ]

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
            raise ParameterError(what, remedy="pass one of -1, 0, 1 per column, or a dict by column name")
        named: set[int] = set()
        for key, sign in pairs:
            j = column_index(key, names, "monotonic_cst")
            if j in named:
                raise ParameterError(f"monotonic_cst names column {names[j]!r} twice", remedy="name each column once")
            named.add(j)
            if isinstance(sign, bool) or sign not in (-1, 0, 1):
                what = f"monotonic_cst of column {names[j]!r} is {sign!r}"
                raise ParameterError(what, remedy="use 1 for rising, -1 for falling, 0 for free")
            if sign and self._level_counts()[j]:
                what = f"monotonic_cst names column {names[j]!r}, which contains categories without an order"
                raise ParameterError(what, remedy="use an ordered pandas categorical, or numbers")
            out[j] = sign
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.sparse = True
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
            raise ParameterError(what, remedy="pass one True or False per column")
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
        _refuse_bytes(column, where)
        present = column[~pd.isna(column)]
        if any(isinstance(value, str) for value in present):
            return _unique(column, where), False
    return None, False


def _refuse_bytes(column: pd.Series, where: str) -> None:
    """Text that nobody has decoded: it would be no number, and equal to no text."""
    if column.dtype.kind == "S" or (column.dtype == object and pd.api.types.infer_dtype(column) != "string"):
        row = next((row for row, value in enumerate(column) if isinstance(value, bytes)), None)
        if row is not None:
            what = f"{where} contains bytes in row {row}, {bytes(column.iloc[row])!r}"
            raise DataError(what, remedy='decode the column first, for instance by .str.decode("utf-8")')


def _truths(X: Any, p: int) -> Array:
    """Columns that hold nothing but True, False and gaps."""
    if isinstance(X, pd.DataFrame):
        return np.array([_is_truth(X.iloc[:, j]) for j in range(p)], dtype=bool)
    return np.full(p, getattr(getattr(X, "dtype", None), "kind", "") == "b")


def _is_truth(column: pd.Series) -> bool:
    if column.dtype == object:
        return pd.api.types.infer_dtype(column, skipna=True) == "boolean"
    return bool(pd.api.types.is_bool_dtype(column.dtype))


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
