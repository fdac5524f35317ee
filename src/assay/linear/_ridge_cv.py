"""Cross-validation of ridge regression: the grid, the folds, and the path of every training set.

The moments of a training set are the merge of the other folds' (never a subtraction), so K folds cost about one
summary of the rows plus K small eigendecompositions; test errors are taken from the rows by matrix products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.errors import DataError
from assay.linear._ridge import path_from_moments
from assay.linear._ridge_rows import RidgeRows, factor_of_rows, merge_factors
from assay.linear._ridge_spectrum import spectrum_from_gram, spectrum_of
from assay.numerics.moments import Moments, about_zero, all_but_one, merge
from assay.numerics.threads import parallel

__all__ = [
    "default_grid",
    "eigenvalues",
    "held_out_error",
    "length_of",
    "paths_of_folds",
    "splits_of",
    "weight_of",
]

Array = np.ndarray


def default_grid(d: Array, size: int) -> Array:
    """Geometric alphas from 100 sum(d) to 1e-4 min(d), but not below 1e-10 max(d).

    >>> default_grid(np.array([1.0, 4.0]), 3).round(4)
    array([5.000e+02, 2.236e-01, 1.000e-04])
    """
    if d.size == 0:
        d = np.ones(1)
    return np.geomspace(100 * d.sum(), max(1e-4 * d.min(), 1e-10 * d.max()), size)


def eigenvalues(rows: RidgeRows, moments: Moments | None, how: str, factors: Array) -> Array:
    """Eigenvalues of the Gram matrix that are not zero; for the iterative way their mean stands for all of them."""
    if how == "iterative":
        squares = np.asarray(rows.X.multiply(rows.X).sum(axis=0)).ravel()[factors > 0] / factors[factors > 0]
        return np.full(min(rows.n, squares.size), squares.sum() / min(rows.n, squares.size))
    if how == "primal" and moments is not None:
        spectrum = spectrum_from_gram(moments, factors, np.inf)
        if spectrum is not None:
            return spectrum.d
    return spectrum_of(rows, how, factors, np.inf)[2].d


def paths_of_folds(
    rows: RidgeRows,
    parts: list[Moments],
    splits: list[tuple[Any, Any]],
    alphas: Array,
    factors: Array,
    positive: bool,
    n_jobs: int | None,
) -> list[tuple[Array, Array]]:
    """Coefficients and intercepts of every training set, from the merged moments of the other folds.

    Where a merged Gram matrix would lose digits, triangular factors of the folds are merged instead.
    """
    train = all_but_one(parts, merge)
    train = train if rows.intercept else [about_zero(m) for m in train]
    found = parallel(lambda m: path_from_moments(m, rows, alphas, factors, positive), train, n_jobs=n_jobs)
    if all(path is not None for path in found):
        return [path for path in found if path is not None]
    middle = parts[0]
    triangles = [factor_of_rows(rows.take(test), middle.mx, middle.my) for _, test in splits]
    if not rows.intercept:
        triangles = [factor_of_rows(rows.take(test), 0 * middle.mx, 0 * middle.my) for _, test in splits]

    def again(task: tuple[Moments, Array]) -> tuple[Array, Array]:
        path = path_from_moments(task[0], rows, alphas, factors, positive, lambda: task[1])
        assert path is not None
        return path

    return parallel(again, zip(train, all_but_one(triangles, merge_factors), strict=True), n_jobs=n_jobs)


def held_out_error(rows: RidgeRows, coef: Array, intercept: Array) -> Array:
    """Weighted mean squared error (over rows and targets) of each alpha, block by block; X may be shifted."""
    p, k, count = coef.shape
    B = np.ascontiguousarray(coef.reshape(p, -1))
    offset = intercept + np.tensordot(rows.shift, coef, axes=1)
    total = np.zeros(count)
    for part in rows.blocks(k * count):
        e = np.asarray(rows.X[part] @ B).reshape(-1, k, count)
        e += offset
        e -= rows.Y[part][:, :, None]
        e *= e
        total += (e.mean(axis=1) if k > 1 else e[:, 0]).sum(axis=0) if rows.w is None else rows.w[part] @ e.mean(axis=1)
    return total / weight_of(rows, slice(None))


def weight_of(rows: RidgeRows, part: Any) -> float:
    return float(len(rows.Y[part]) if rows.w is None else rows.w[part].sum())


def splits_of(splits: list[tuple[Array, Array]], kept: Array) -> list[tuple[Any, Any]]:
    """Row numbers among the rows of positive weight, as slices where they run on; empty tests are left out."""
    place = np.full(int(max(max(a.max(initial=0), b.max(initial=0)) for a, b in splits)) + 1, -1)
    inside = kept[kept < place.size]
    place[inside] = np.flatnonzero(kept < place.size)
    pairs = []
    for train, test in splits:
        train, test = ((place[rows.nonzero()[0] if rows.dtype == bool else rows]) for rows in (train, test))
        train, test = train[train >= 0], test[test >= 0]
        if train.size == 0:
            raise DataError("a fold has no training row of positive weight", remedy="use fewer folds or other weights")
        if test.size:
            pairs.append((_as_slice(train), _as_slice(test)))
    if not pairs:
        raise DataError("no fold has a test row of positive weight", remedy="use other folds or other weights")
    return pairs


def _as_slice(rows: Array) -> Any:
    return slice(int(rows[0]), int(rows[-1]) + 1) if (np.diff(rows) == 1).all() else rows


def length_of(rows: Any, n: int) -> int:
    return len(range(n)[rows]) if isinstance(rows, slice) else len(rows)
