"""Centred moments of a table: a summary of X and y that adds.

    summarize(block) -> Moments,    merge(a, b) -> Moments

A `Moments` holds the total weight, the means, and the centred cross-products

    xx = sum_i w_i (x_i - mx)(x_i - mx)',   xy = sum_i w_i (x_i - mx)(y_i - my)',   yy = sum_i w_i (y_i - my)^2,

from which ridge, lasso and elastic net are solved without looking at the rows again. Merging is Chan,
Golub and LeVeque's update (1983, Am. Statistician 37, 242-247): no cancellation, whatever the means.
The training summary of a fold is the merge of the other folds by prefixes and suffixes, never a
subtraction, which one outlier ruins. Cost: n p^2 multiply-adds in BLAS, read once, block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from typing import TypeVar

import numpy as np

from assay.errors import DataError
from assay.numerics.threads import parallel

__all__ = ["Moments", "about_zero", "all_but_one", "merge", "summarize"]

BLOCK_CELLS = 1 << 20
"""A block of rows is centred and multiplied while it lies in the cache: eight MiB of float64."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Weight, number of rows, means and centred cross-products of X (p columns) and y (k columns)."""

    weight: float
    n: int
    mx: np.ndarray
    my: np.ndarray
    xx: np.ndarray
    xy: np.ndarray
    yy: np.ndarray


def summarize(X: np.ndarray, y: np.ndarray, w: np.ndarray | None = None, *, block_cells: int = BLOCK_CELLS) -> Moments:
    """Centred moments of dense rows; y is (n,) or (n, k), weights optional; `block_cells` is for tests.

    >>> s = summarize(np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 6.0]))
    >>> float(s.mx[0]), float(s.xx[0, 0]), float(s.xy[0, 0]), float(s.yy[0])
    (2.0, 2.0, 5.0, 14.0)
    """
    Y = y.reshape(len(y), -1)
    p = X.shape[1]
    height = max(1, block_cells // (p + Y.shape[1]))

    def block(start: int) -> Block:
        rows = slice(start, start + height)
        return _block(X[rows], Y[rows], None if w is None else w[rows])

    # The cut into blocks and the order of merging are fixed, so the number of cores never changes a bit.
    parts = parallel(block, range(0, len(X), height), n_jobs=-1, work=X.size * p)
    weight, n, mean, product = reduce(_chan, parts)
    return Moments(weight, n, mean[:p], mean[p:], product[:p, :p].copy(), product[:p, p:].copy(), np.diag(product)[p:])


Block = tuple[float, int, np.ndarray, np.ndarray]


def _block(X: np.ndarray, Y: np.ndarray, w: np.ndarray | None) -> Block:
    """Weight, rows, means and centred cross-product of one block of rows."""
    Z = np.empty((len(X), X.shape[1] + Y.shape[1]))
    Z[:, : X.shape[1]] = X
    Z[:, X.shape[1] :] = Y
    if w is None:
        weight = float(len(X))
        mean = Z.mean(axis=0)
        Z -= mean
    else:
        weight = float(w.sum())
        mean = w @ Z / weight if weight > 0 else np.zeros(Z.shape[1])
        Z -= mean
        Z *= np.sqrt(w)[:, None]
    return weight, len(X), mean, Z.T @ Z  # numpy sees the symmetry and halves the work


def _chan(a: Block, b: Block) -> Block:
    weight = a[0] + b[0]
    if weight == 0:
        return weight, a[1] + b[1], a[2], a[3]
    shift = b[2] - a[2]
    mean = a[2] + shift * (b[0] / weight)
    product = a[3] + b[3] + np.outer(shift, shift * (a[0] * b[0] / weight))
    return weight, a[1] + b[1], mean, product


def merge(a: Moments, b: Moments) -> Moments:
    """The moments of both sets of rows together."""
    weight = a.weight + b.weight
    if weight == 0:
        return replace(a, n=a.n + b.n)
    share = b.weight / weight
    between = a.weight * share
    dx, dy = b.mx - a.mx, b.my - a.my
    return Moments(
        weight,
        a.n + b.n,
        a.mx + dx * share,
        a.my + dy * share,
        a.xx + b.xx + np.outer(dx, between * dx),
        a.xy + b.xy + np.outer(dx, between * dy),
        a.yy + b.yy + between * dy**2,
    )


def about_zero(m: Moments) -> Moments:
    """The same rows with moments about zero, for fits without an intercept: sums only, so nothing cancels."""
    return replace(
        m,
        mx=np.zeros_like(m.mx),
        my=np.zeros_like(m.my),
        xx=m.xx + np.outer(m.mx, m.weight * m.mx),
        xy=m.xy + np.outer(m.mx, m.weight * m.my),
        yy=m.yy + m.weight * m.my**2,
    )


SummaryT = TypeVar("SummaryT")


def all_but_one(parts: Sequence[SummaryT], merge: Callable[[SummaryT, SummaryT], SummaryT]) -> list[SummaryT]:
    """For each of two or more parts the merge of all others, by prefixes and suffixes: 3K merges for K parts.

    >>> all_but_one(["a", "b", "c"], str.__add__)
    ['bc', 'ac', 'ab']
    """
    if len(parts) < 2:
        raise DataError(
            f"leaving one part out needs at least two parts, but there are {len(parts)}",
            remedy="split the rows into two or more parts",
        )
    prefix = list(accumulate(parts[:-1], merge))
    suffix = list(accumulate(reversed(parts[1:]), lambda late, early: merge(early, late)))[::-1]
    inner = [merge(prefix[k - 1], suffix[k]) for k in range(1, len(parts) - 1)]
    return [suffix[0], *inner, prefix[-1]]
