"""A table whose columns are overwritten and put back, to ask a model "what if this column were different?".

There is one working copy of the table, some copies high so that several questions share one call of `predict`. A column
is changed in place and restored afterwards; the table is never copied again. Arrays, data frames (text and categories
keep their types) and sparse matrices; the model is given the kind of table it was given before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from assay.checks import listed, with_shape
from assay.errors import DataError, ParameterError

__all__ = [
    "Workbench",
    "as_table",
    "column_values",
    "copies_for",
    "find_column",
    "find_columns",
    "names_of",
    "workbench",
]

Array = np.ndarray
CELLS = 1 << 20
"""How large the working copy may grow (eight MiB of float64) before it stays one copy high."""


def as_table(X: Any) -> Any:
    """A data frame, a sparse matrix or a two-dimensional array."""
    X = with_shape(X)
    if sparse.issparse(X) or isinstance(X, pd.DataFrame):
        return X
    X = X if isinstance(X, np.ndarray) else np.asarray(X)
    if X.ndim != 2 or X.shape[1] == 0:
        raise DataError(f"X has shape {X.shape}, which has no columns", remedy="pass a table of rows and columns")
    return X


def names_of(X: Any, model: Any = None) -> tuple[str, ...]:
    """What the columns are called: in the table, or in the model that has seen it; otherwise x0, x1, ..."""
    if isinstance(X, pd.DataFrame):
        return tuple(str(name) for name in X.columns)
    known = getattr(model, "feature_names_in_", None)
    if known is not None and len(known) == X.shape[1]:
        return tuple(str(name) for name in known)
    return tuple(f"x{j}" for j in range(X.shape[1]))


def find_column(column: Any, X: Any, names: Sequence[str]) -> int:
    """The position of a column given by its name or its position."""
    if isinstance(X, pd.DataFrame) and not isinstance(column, bool):
        matches = np.flatnonzero(X.columns == column)
        if matches.size == 1:
            return int(matches[0])
        if matches.size > 1:
            message = f"{matches.size} columns are named {column!r}"
            raise DataError(message, remedy="rename them, or pass a position of the array")
    if isinstance(column, int | np.integer) and not isinstance(column, bool):
        if not -len(names) <= column < len(names):
            raise ParameterError(f"unknown column {column}", remedy=f"the table has {len(names)} columns")
        return int(column) % len(names)
    if column in names:
        return list(names).index(column)
    raise ParameterError(f"unknown column {column!r}", remedy=f"choose from {listed(names, most=8)}")


def find_columns(columns: Any, X: Any, names: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    """What to change together: a label and its positions for every entry of `columns` (None: every column)."""
    if columns is None:
        return [(name, (j,)) for j, name in enumerate(names)]
    if isinstance(columns, Mapping):
        entries: list[tuple[str | None, Any]] = [(str(label), part) for label, part in columns.items()]
    else:
        listed = [columns] if isinstance(columns, str | int | np.integer) else list(columns)
        entries = [(None, part) for part in listed]
    if not entries:
        raise ParameterError("columns is empty", remedy="name at least one column, or leave columns out")
    found = []
    for label, part in entries:
        several = isinstance(part, list | tuple | np.ndarray | pd.Index)
        at = tuple(find_column(column, X, names) for column in (part if several else [part]))
        if not at or len(set(at)) < len(at):
            message = (
                f"the group {label or part!r} is empty" if not at else f"the group {label or part!r} repeats a column"
            )
            raise ParameterError(message, remedy="name each column of a group once")
        found.append((label or " + ".join(names[j] for j in at), at))
    return found


def column_values(X: Any, j: int) -> Any:
    """One column in its own type (a dense one for a sparse table)."""
    if isinstance(X, pd.DataFrame):
        return X.iloc[:, j].array
    if not isinstance(X, np.ndarray):
        return X.tocsc()[:, [j]].toarray().ravel()
    return np.ascontiguousarray(X[:, j])


def copies_for(X: Any, wanted: int) -> int:
    """How many copies of the table one call of `predict` may see: bounded by memory, never less than one."""
    if sparse.issparse(X):
        return 1
    return int(np.clip(CELLS // max(1, X.shape[0] * X.shape[1]), 1, wanted))


class Workbench:
    """The working copy of a dense table: `put` overwrites a column in every copy, `restore` puts it back."""

    def __init__(self, X: Any, copies: int) -> None:
        self.X, self.copies, self.n = X, copies, int(X.shape[0])
        self.work: Any = None
        self.repeat = np.tile(np.arange(self.n), copies)
        self._set_up()

    def _set_up(self) -> None:
        self.work = self.X.copy(order="K") if self.copies == 1 else np.concatenate([self.X] * self.copies)

    def permute(self, j: int, order: Array) -> None:
        """Give row i of the column the value of row order[i]; `order` may be several permutations end to end."""
        self.put(j, column_values(self.X, j).take(order))

    def put(self, j: int, values: Any) -> None:
        """Overwrite the column from the top of the working copy."""
        self.work[: len(values), j] = values

    def restore(self, j: int) -> None:
        """Put the column back as it was."""
        self.put(j, column_values(self.X, j).take(self.repeat))

    def table(self, copies: int) -> Any:
        """The top of the working copy, that many copies high."""
        return self.work[: copies * self.n]


class _NumericFrame(Workbench):
    """A data frame of one numeric type: the frame handed out is a thin cover over an array; nothing is copied."""

    def _set_up(self) -> None:
        block = self.X.to_numpy()
        self.work = block.copy(order="K") if self.copies == 1 else np.concatenate([block] * self.copies)
        self.index = self.X.index if self.copies == 1 else self.X.index.take(self.repeat)

    def permute(self, j: int, order: Array) -> None:
        self.put(j, self.X.iloc[:, j].to_numpy().take(order))

    def restore(self, j: int) -> None:
        self.put(j, self.X.iloc[:, j].to_numpy().take(self.repeat))

    def table(self, copies: int) -> Any:
        top = copies * self.n
        return pd.DataFrame(self.work[:top], index=self.index[:top], columns=self.X.columns, copy=False)


class _MixedFrame(Workbench):
    """A data frame of several types: a column is exchanged for another one of its own type."""

    def _set_up(self) -> None:
        self.work = self.X.copy() if self.copies == 1 else self.X.iloc[self.repeat]

    def put(self, j: int, values: Any) -> None:
        short = len(self.work) - len(values)
        if short:  # the last batch is lower: the rest of the column is not looked at
            filler = values.take(np.zeros(short, dtype=np.intp))
            values = np.concatenate([values, filler]) if isinstance(values, np.ndarray) else _join(values, filler)
        self.work.isetitem(j, values)

    def table(self, copies: int) -> Any:
        return self.work if copies == self.copies else self.work.iloc[: copies * self.n]


def _join(first: Any, second: Any) -> Any:
    return pd.concat([pd.Series(first), pd.Series(second)], ignore_index=True).array


class _Sparse(Workbench):
    """A sparse matrix by columns: permuting rows moves the row numbers of one column and nothing else."""

    def _set_up(self) -> None:
        self.home = self.X.tocsc()
        self.home.sort_indices()
        self.work = self.home.copy()

    def permute(self, j: int, order: Array) -> None:
        part = slice(self.home.indptr[j], self.home.indptr[j + 1])
        place = np.empty(self.n, dtype=self.home.indices.dtype)
        place[order] = np.arange(self.n, dtype=place.dtype)
        rows = place[self.home.indices[part]]
        sort = np.argsort(rows)
        self.work.indices[part], self.work.data[part] = rows[sort], self.home.data[part][sort]

    def put(self, j: int, values: Any) -> None:
        column = type(self.home)(np.asarray(values, dtype=np.result_type(self.home.dtype, values))[:, None])
        self.work = sparse.hstack([self.work[:, :j], column, self.work[:, j + 1 :]], format="csc")

    def restore(self, j: int) -> None:
        if self.work.nnz != self.home.nnz or not np.array_equal(self.work.indptr, self.home.indptr):
            self.work = self.home.copy()  # `put` has moved the columns behind it
        part = slice(self.home.indptr[j], self.home.indptr[j + 1])
        self.work.indices[part], self.work.data[part] = self.home.indices[part], self.home.data[part]

    def table(self, copies: int) -> Any:
        return self.work.asformat(self.X.format, copy=self.X.format == "csc")


def workbench(X: Any, copies: int) -> Workbench:
    """The working copy that fits the kind of table."""
    if sparse.issparse(X):
        return _Sparse(X, 1)
    if not isinstance(X, pd.DataFrame):
        return Workbench(X, copies)
    kinds = set(X.dtypes)
    numeric = len(kinds) == 1 and isinstance(next(iter(kinds)), np.dtype) and next(iter(kinds)).kind in "biuf"
    return _NumericFrame(X, copies) if numeric else _MixedFrame(X, copies)
