"""Cross-validation of linear models from fold summaries: every training set is fitted without looking at its rows.

The products z z' of rows z = sqrt(w) [x - c, y - d, 1] add (see `_fold_products`), so those of a training set are the
sum over the other folds, by prefixes and suffixes, never a subtraction. Its centred moments follow from them,

    G = sum z_x z_x' - W m m',    m = sum z_x / W,

without cancellation: the centres are medians, which lie within one standard deviation of the mean, and which a wild
value in a test fold cannot move. Where a difference does lose digits, the split is given back, to be fitted from its
rows.

*Leave-one-out* of a fit that is linear in y, with leverages h_i = w_i (1/W + |T'(x_i - m)|^2), T T' = (G + alpha F)^-1:

    prediction of y_i without row i = y_i - (y_i - f(x_i)) / (1 - h_i)          (Allen 1974, Technometrics 16, 125-127)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from assay.linear._fold_products import (
    CHUNK_CELLS,
    MOST_CELLS,
    CentredTable,
    fold_products,
    groups_of,
    table_of,
)
from assay.linear._ridge import direct
from assay.numerics.jit import kernel
from assay.numerics.moments import Moments, all_but_one
from assay.numerics.threads import parallel
from assay.resampling import AllButOne, Partition, Splits, partitions_of, row_numbers, take

__all__ = ["Line", "applies", "held_out", "line_of", "refit_the_rest", "trusted", "whitener"]

Array = np.ndarray
Line = tuple[Array, float]
"""Coefficients (p,) and the value at the centre of the rows."""

KEPT = 1e-4
"""A centred square below this share of the raw one has lost four digits, and its split is fitted from the rows."""

LOWEST, HIGHEST = 1e-200, 1e200
"""Squares outside this range ask for the care that fits from rows take."""

LEFT = 1e-3
"""A row whose 1 - h is below this is left out in fact, by fitting the others."""

ROUNDING = 1e-7
"""Rounding in h grows with the variance inflation: 1 - h below this many times the largest factor is as uncertain."""

INFLATED = 1e5
"""Least squares from products is trusted up to this variance inflation factor: eleven digits remain."""


def applies(model: Any, X: Any, y: Any) -> bool:
    """Whether summaries may stand in for fits: dense X, one target, and no fit or predict of a subclass's own."""
    ours = all(getattr(type(model), name).__module__.startswith("assay.linear.") for name in ("fit", "predict"))
    return ours and not sparse.issparse(X) and np.ndim(y) == 1


def held_out(
    X: Array,
    y: Array,
    w: Array | None,
    splits: Splits,
    intercept: bool,
    solve: Callable[[Moments], Line | None],
    inverse: Callable[[Moments], tuple[Array, Array] | None] | None = None,
) -> list[Array | None] | None:
    """Predictions of the test rows of every split, None for one that must be fitted from its rows.

    `solve` gives the line of centred moments (about zero without an intercept) or None where digits would be lost;
    `inverse` gives T and the coefficients (p, 1) of a fit that is linear in y, for leave-one-out. The whole answer is
    None where the splits are not partitions one after another, or where training sets have fewer rows than columns.
    """
    n, p = X.shape
    if isinstance(splits, AllButOne):  # written out, its n training sets would fill n^2 numbers
        if inverse is None or n - 1 < p:
            return None
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            each = _leave_one_out(table_of(X, y, w, intercept), intercept, inverse)
        return None if each is None else [None if np.isnan(one) else each[i : i + 1] for i, one in enumerate(each)]
    pairs = [(row_numbers(train), row_numbers(test)) for train, test in splits]
    if n < 2 or min((train.size for train, _ in pairs), default=0) < p:
        return None
    partitions = partitions_of(pairs, n)
    if partitions is None:
        return None
    table = table_of(X, y, w, intercept)
    single = inverse is not None and all(part.size == n for part in partitions)
    largest = max(part.size for part in partitions)
    if not single and 3 * largest * table.width**2 > MOST_CELLS:
        return None
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if single:
            assert inverse is not None
            each = _leave_one_out(table, intercept, inverse)
            return None if each is None else [None if np.isnan(each[test[0]]) else each[test] for _, test in pairs]
        lines = _lines(table, partitions, intercept, solve)
    return _predictions(table, partitions, lines, [test for _, test in pairs])


def line_of(m: Moments, coef: Array) -> Line:
    """The line with these slopes through the means."""
    return coef, float(m.my[0] - m.mx @ coef)


def whitener(alpha: float, factors: Array, least: bool = False) -> Callable[[Moments], tuple[Array, Array] | None]:
    """T with T T' = (G + alpha F)^-1 and the coefficients of any moments.

    `least` is for least squares, which promises more digits: no column may be constant or close to collinear.
    """

    def solved(m: Moments) -> tuple[Array, Array] | None:
        found = direct(m, alpha, factors)
        if found is None or not least:
            return found
        return found if m.xx.diagonal().all() and _inflation(m, found[0]) <= INFLATED else None

    return solved


def trusted(m: Moments, coef: Array) -> bool:
    """Whether the products of the columns in use are well conditioned: on their face a sparse fit is least squares."""
    used = np.flatnonzero(coef)
    part = replace(m, mx=m.mx[used], xx=m.xx[np.ix_(used, used)], xy=m.xy[used])
    return used.size == 0 or direct(part, 0.0, np.ones(used.size)) is not None


def _inflation(m: Moments, T: Array) -> float:
    """The largest variance inflation factor, G_jj (G + alpha F)^-1_jj: how much rounding errors grow."""
    return float(np.max(m.xx.diagonal() * np.einsum("jk,jk->j", T, T)))


def refit_the_rest(
    model: Any, X: Any, clean: Array, y: Array, w: Array | None, splits: Splits, found: list[Array | None] | None
) -> list[Array] | None:
    """The predictions found, and fits of the rows for the few that are not; None where they are not so few.

    `clean` is X after validation; X itself is taken where it has names, so that a warning can tell them.
    """
    if found is None:
        return None
    missing = [k for k, values in enumerate(found) if values is None]
    if len(missing) > max(1, len(found) // 10):
        return None
    source = X if hasattr(X, "iloc") else clean
    for k in missing:
        train, test = (row_numbers(part) for part in splits[k])
        weights = None if w is None else w[train]
        if weights is not None and not weights.any():
            return None
        fitted = clone(model).fit(take(source, train), y[train], sample_weight=weights)
        found[k] = np.asarray(fitted.predict(take(source, test)))
    return [values for values in found if values is not None]


# From products to lines.


def _moments(products: Array, n: int, intercept: bool) -> Moments | None:
    """Centred moments, or None where centring loses digits or squares leave the range of numbers."""
    p = len(products) - 2
    weight, sums, raw = float(products[-1, -1]), products[: p + 1, -1], products.diagonal()[: p + 1]
    if weight <= 0 or not np.isfinite(products).all():
        return None
    if not intercept:
        centred, mean = products[: p + 1, : p + 1], np.zeros(p + 1)
    else:
        mean = sums / weight
        centred = products[: p + 1, : p + 1] - np.outer(sums, mean)
    squares = centred.diagonal()
    if not ((raw == 0) | ((squares >= KEPT * raw) & (raw > LOWEST) & (raw < HIGHEST))).all():
        return None
    xx, xy = np.ascontiguousarray(centred[:p, :p]), centred[:p, p:].copy()
    return Moments(weight, n, mean[:p], mean[p:], xx, xy, squares[p:].copy())


def _lines(
    table: CentredTable, partitions: list[Partition], intercept: bool, solve: Callable[[Moments], Line | None]
) -> list[Line | None]:
    """The line of every training set, split by split."""
    lines: list[Line | None] = []
    for group in groups_of(partitions, table.n, table.width):
        for part, products in zip(group, fold_products(table, group), strict=True):
            if not lines and _vanishes(table, products):
                return [None] * sum(part.size for part in partitions)
            counts = table.n - np.bincount(part.fold, minlength=part.size)
            for count, rest in zip(counts, all_but_one(products, np.add), strict=True):
                m = _moments(rest, int(count), intercept)
                line = None if m is None else solve(m)
                lines.append(line if line is not None and np.isfinite(line[0]).all() else None)
    return lines


def _vanishes(table: CentredTable, products: list[Array]) -> bool:
    """Whether the products of a fold say that a column does not vary when its squares only underflow."""
    still = np.any([product.diagonal()[:-2] == 0 for product in products], axis=0)
    distances = (np.abs(table.X[:, j] - table.centre[j]) for j in np.flatnonzero(still))
    return any(bool(((z > 0) & (z < np.sqrt(LOWEST))).any()) for z in distances)


# Predictions.


@kernel
def _predict(X: Array, centre: Array, folds: Array, coefs: Array, offsets: Array, start: int, out: Array) -> None:
    p = X.shape[1]
    z = np.empty(p)
    for i in range(start, start + out.shape[1]):
        for j in range(p):
            z[j] = X[i, j] - centre[j]
        for r in range(out.shape[0]):
            k = folds[r, i]
            s = 0.0
            for j in range(p):
                s += z[j] * coefs[k, j]
            out[r, i - start] = s + offsets[k]


def _predictions(
    table: CentredTable, partitions: list[Partition], lines: list[Line | None], tests: list[Array]
) -> list[Array | None]:
    """Each row under the R lines that were fitted without it, in one pass over the rows; then test by test."""
    n, p = table.X.shape
    starts = np.concatenate([[0], np.cumsum([part.size for part in partitions])])
    coefs, offsets = np.zeros((len(lines), p)), np.zeros(len(lines))
    for k, line in enumerate(lines):
        if line is not None:
            coefs[k], offsets[k] = line
    offsets += table.middle
    folds = np.array([part.fold + start for part, start in zip(partitions, starts, strict=False)])
    values = np.empty((len(partitions), n))
    height = max(256, CHUNK_CELLS // p)

    def block(start: int) -> None:
        _predict(table.X, table.centre, folds, coefs, offsets, start, values[:, start : start + height])

    parallel(block, range(0, n, height), n_jobs=-1, work=float(n) * p * len(partitions))
    repeat = np.repeat(np.arange(len(partitions)), np.diff(starts))
    return [None if lines[k] is None else values[repeat[k], test] for k, test in enumerate(tests)]


def _leave_one_out(
    table: CentredTable, intercept: bool, inverse: Callable[[Moments], tuple[Array, Array] | None]
) -> Array | None:
    """Every row predicted from all others; NaN where the row determines a coefficient all by itself."""
    whole = fold_products(table, [Partition(np.zeros(table.n, dtype=np.int64), 1)])[0]
    m = None if _vanishes(table, whole) else _moments(whole[0], table.n, intercept)
    solved = None if m is None else inverse(m)
    if m is None or solved is None:
        return None
    T, coef = solved
    Z = (table.X - table.centre) - m.mx
    H = Z @ T
    left = np.einsum("ij,ij->i", H, H)
    left += 1.0 / m.weight if intercept else 0.0
    left = 1.0 - left * (1.0 if table.root.size == 0 else table.root**2)
    fitted = Z @ coef[:, 0] + (m.my[0] + table.middle)
    clear = left > max(LEFT, ROUNDING * _inflation(m, T))
    without = np.full(table.n, np.nan)
    without[clear] = table.y[clear] - (table.y[clear] - fitted[clear]) / left[clear]
    return without
