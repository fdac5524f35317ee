"""Distances between rows, as a square array: by name, by a function of two rows, given, or Gower's for mixed columns.

    correlation  1 - r_ij                        cosine  1 - cos_ij
    gower        sum_c delta_c(i, j) / number of columns that both rows have

where delta_c is |x_ic - x_jc| / range_c for numbers and ordered categories (by their rank), and 0 or 1 for equal or
different text, categories and truth values. A cell that is missing leaves its column out of that pair; a pair without a
common column gets the mean distance of the others, with a warning. Gower (1971), Biometrics 27, 857-871.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import pdist, squareform

from assay.base import LARGEST
from assay.errors import AssayWarning, DataError, DataTypeError
from assay.levels import as_numbers, as_places, refuse_objects, sorted_levels
from assay.numerics.threads import parallel

__all__ = ["METRICS", "by_function", "by_name", "given", "gower", "mixed_columns"]

Array = np.ndarray

METRICS: dict[str, Any] = {
    "euclidean": "euclidean",
    "l2": "euclidean",
    "manhattan": "cityblock",
    "l1": "cityblock",
    "chebyshev": "chebyshev",
}
DIRECTIONS = ("cosine", "correlation")
BLOCK_CELLS = 1 << 22


def by_name(X: Array, metric: str) -> Array:
    """The distances of a metric by name; rows without a direction have none under two of them."""
    if metric not in DIRECTIONS:
        return squareform(pdist(X, METRICS[metric]), checks=False)
    Z = X - X.mean(axis=1, keepdims=True) if metric == "correlation" else X
    size = np.abs(Z).max(axis=1)
    flat = size <= 1e-14 * np.abs(X).max(axis=1)
    if flat.any():
        what = "is constant, so it has no correlation" if metric == "correlation" else "is zero, so it has no direction"
        remedy = 'drop it, or use metric="euclidean"'
        raise DataError(f"row {int(np.argmax(flat))} {what} with the others", remedy=remedy)
    return squareform(pdist(Z / size[:, None], "cosine").clip(0.0, 2.0), checks=False)


def by_function(X: Array, metric: Callable[[Array, Array], float]) -> Array:
    """The distances that a function of two rows gives."""
    D = np.zeros((len(X), len(X)))
    for i in range(len(X)):
        for j in range(i + 1, len(X)):
            d = metric(X[i], X[j])
            try:
                D[i, j] = D[j, i] = float(d)
            except (TypeError, ValueError) as error:
                what = f"metric returns a {type(d).__name__} for rows {i} and {j}"
                raise DataTypeError(what, remedy="return one number") from error
    return given(D, "metric returns")


def given(X: Any, who: str = "X contains") -> Array:
    """Square or condensed distances as a square array of our own; what is no distance is refused by its place."""
    try:
        D = np.array(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{who} a non-numeric value", remedy="pass distances") from error
    if D.ndim == 1:
        n = round((1 + np.sqrt(1 + 8 * D.size)) / 2)
        if n * (n - 1) // 2 != D.size or D.size == 0:
            what = f"{D.size} distances are not a condensed vector: n rows have n (n - 1) / 2 pairs"
            raise DataError(what, remedy="pass scipy's pdist(X), or a square array")
        D = squareform(D, checks=False)
    if D.ndim != 2 or D.shape[0] != D.shape[1]:
        remedy = "pass one row and one column per observation"
        raise DataError(f"precomputed distances must be a square array, got shape {D.shape}", remedy=remedy)
    _refuse_entry(~np.isfinite(D), D, who, "replace it with a finite distance, or drop the row and its column")
    _refuse_entry(D < 0, D, who, "distances must be at least 0; convert similarities s, for instance to 1 - s")
    near = 1e-8 * D.max(initial=0.0)
    own = np.abs(np.diag(D)) > near
    if own.any():
        i = int(np.argmax(own))
        what = f"{who} the distance {D[i, i]:g} of row {i} from itself"
        raise DataError(what, remedy="set the diagonal to 0: np.fill_diagonal(X, 0)")
    odd = np.abs(D - D.T) > near
    if odd.any():
        i, j = (int(at) for at in np.argwhere(odd)[0])
        what = f"{who} the distance {D[i, j]:g} from row {i} to row {j}, but {D[j, i]:g} back"
        raise DataError(what, remedy="make it symmetric: (X + X.T) / 2")
    return (D + D.T) / 2


def _refuse_entry(bad: Array, D: Array, who: str, remedy: str) -> None:
    if bad.any():
        i, j = (int(at) for at in np.argwhere(bad)[0])
        value = "NaN" if np.isnan(D[i, j]) else f"{D[i, j]:g}"
        raise DataError(f"{who} the distance {value} in row {i}, column {j}", remedy=remedy)


# Mixed columns.


def mixed_columns(frame: pd.DataFrame) -> tuple[Array, Array]:
    """Columns as numbers divided by their range, or as places among levels; NaN for gaps. And which are levels."""
    table, levels = np.empty(frame.shape), np.zeros(frame.shape[1], dtype=bool)
    for j, name in enumerate(frame.columns):
        column, where = frame.iloc[:, j], f"column {name!r}"
        if isinstance(column.dtype, pd.CategoricalDtype) and column.dtype.ordered:
            values = column.cat.codes.to_numpy(dtype=np.float64)
            values[values < 0] = np.nan
        elif _is_nominal(column):
            levels[j] = True
            refuse_objects(column, where)
            table[:, j] = as_places(column, sorted_levels(column), where)
            continue
        else:
            values = as_numbers(column, where)
        with np.errstate(invalid="ignore"):
            wild = np.abs(values) > LARGEST
        if wild.any():
            row = int(np.argmax(wild))
            what = f"X contains {'inf' if np.isinf(values[row]) else format(values[row], '.4g')} in {where}, row {row}"
            raise DataError(what, remedy="replace it with a finite number or NaN")
        present = values[~np.isnan(values)]
        spread = np.ptp(present) if present.size else 0.0
        table[:, j] = (values - (present.min() if present.size else 0.0)) / (spread or 1.0)
    return table, levels


def _is_nominal(column: pd.Series) -> bool:
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype) or pd.api.types.is_bool_dtype(kind):
        return True
    text = kind.kind == "O" or pd.api.types.is_string_dtype(kind)
    return text and any(isinstance(value, str | bytes | bool | np.bool_) for value in column[~pd.isna(column)])


def gower(frame: pd.DataFrame, n_jobs: int | None) -> Array:
    """Gower's distances of a table of numbers, categories and gaps."""
    table, levels = mixed_columns(frame)
    n = len(table)
    out = np.empty((n, n))
    height = max(1, BLOCK_CELLS // n)

    def fill(start: int) -> None:
        rows = slice(start, start + height)
        total, shared = np.zeros((len(table[rows]), n)), np.zeros((len(table[rows]), n))
        for j in range(table.shape[1]):
            step = np.abs(table[rows, j][:, None] - table[:, j])
            there = ~np.isnan(step)
            shared += there
            total += np.where(there, step > 0 if levels[j] else step, 0.0)
        with np.errstate(invalid="ignore"):
            out[rows] = total / shared

    parallel(fill, range(0, n, height), n_jobs=n_jobs, work=n * table.size)
    np.fill_diagonal(out, 0.0)
    lonely = np.isnan(out)
    if lonely.any():
        if lonely.sum() == n * (n - 1):
            what = "no two rows share a column in which both have a value, so there is no distance"
            raise DataError(what, remedy="drop the rows and columns without values, or impute them")
        i, j = (int(at) for at in np.argwhere(lonely)[0])
        out[lonely] = out[~lonely & ~np.eye(n, dtype=bool)].mean()
        what = f"{lonely.sum() // 2:,} pairs of rows, such as {i} and {j}, share no column in which both have a value"
        remedy = "they get the mean distance of the other pairs; impute or drop sparse rows to avoid it"
        warnings.warn(f"{what}; {remedy}", AssayWarning, stacklevel=4)
    return out
