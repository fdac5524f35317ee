"""Moments of each class: a summary of rows and labels that adds.

    summarize(rows) -> ClassMoments,    merge(a, b) -> ClassMoments

For each class k: its weight n_k, its mean m_k, and the scatter S_k = sum_i w_i (x_i - m_k)(x_i - m_k)', kept whole, as
its diagonal, or summed over the classes. Ledoit and Wolf's shrinkage also asks for sums of third and fourth powers,

    T_ij = sum w u_i^2 u_j,    F_ij = sum w u_i^2 u_j^2,    u = x - m_k,

which add as well. Merging is Chan, Golub and LeVeque's update (1983, Am. Statistician 37, 242-247): no cancellation,
however far apart the classes lie. Rows are read in a `Frame`, (x - centre) / unit, whose centre is a value of each
column and whose unit is a power of two: neither a mean of 1e8 nor a scale of 1e-300 costs a digit.

Cost: one pass over the rows, block by block. A block is centred by class while it lies in the cache and multiplied in
BLAS, n p^2 multiply-adds. Blocks and the order of merging are fixed, so threads never change a bit. The training
moments of K folds are merges of the other folds by prefixes and suffixes: together they cost one pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from assay.constraints import none, one_of
from assay.numerics.jit import kernel
from assay.numerics.moments import all_but_one
from assay.numerics.scale import power_of_two
from assay.numerics.threads import parallel
from assay.resampling import AllButOne, Partition, Splits, partitions_of, row_numbers
from assay.state import Specs, Stateful, floats, ints, need, part

__all__ = ["ClassMoments", "Frame", "frame_of", "merge", "pooled_scatter", "summarize", "training_moments"]

Array = np.ndarray

SAMPLE = 1001
"""The frame is found from this many rows, evenly spaced."""

BLOCK_CELLS = 1 << 16
"""Rows are centred and multiplied while they lie in the second-level cache: half a MiB of float64."""

TALLEST_CELLS = 1 << 22
"""Wide tables have taller blocks, as merging costs p^2, up to 32 MiB."""

SMALL_SCATTERS = 1 << 15
"""Up to this many cells of all classes' scatters, a block holds rows of every class; beyond, of one class at a time."""

MOST_PARTS = 16
"""Rows are shared out in at most this many parts, whatever the number of threads."""

MOST_CELLS = 1 << 25
"""No more than this many numbers (256 MiB) of partial sums are held at a time."""


@dataclass(frozen=True, eq=False)
class Frame(Stateful):
    """Where rows are read from: z = (x - centre) / unit, both (p,); units are powers of two."""

    centre: Array
    unit: Array

    state: ClassVar[Specs] = {
        "centre": floats("p"),
        "unit": floats("p"),
    }

    def _check_state(self) -> None:
        need((self.unit > 0).all(), "units must be positive")


@dataclass(frozen=True, eq=False)
class ClassMoments(Stateful):
    """Weight, rows, mean and scatter of K classes of p columns, in the coordinates of a frame.

    `kind` says what `scatter` is: "full" (K, p, p), "diagonal" (K, p), or "pooled" (p, p), the sum over classes.
    `third` and `fourth` (K, p, p) are there when shrinkage asks for them. A class without rows has weight and mean 0.
    """

    frame: Frame
    kind: str
    weight: Array
    rows: Array
    mean: Array
    scatter: Array
    third: Array | None = None
    fourth: Array | None = None

    state: ClassVar[Specs] = {
        "frame": part(Frame, "p"),
        "kind": one_of("full", "diagonal", "pooled"),
        "weight": floats("k", low=0),
        "rows": ints("k"),
        "mean": floats("k", "p"),
        "scatter": floats("k", "p", "p") | floats("p", "p") | floats("k", "p"),
        **dict.fromkeys(("third", "fourth"), none | floats("k", "p", "p")),
    }

    @property
    def means(self) -> Array:
        """The means in the units of the data; NaN for a class without rows."""
        means = self.frame.centre + self.mean * self.frame.unit
        means[self.weight == 0] = np.nan
        return means


def frame_of(X: Array, w: Array | None = None) -> Frame:
    """The frame of dense rows: in each column a median of evenly spaced rows, and the power of two above their spread.

    >>> frame = frame_of(np.array([[1.0], [2.0], [9.0]]))
    >>> frame.centre.tolist(), frame.unit.tolist()
    ([2.0], [8.0])
    """
    counted = np.arange(len(X)) if w is None else np.flatnonzero(w)
    sample = X[counted[:: -(-len(counted) // SAMPLE)]]
    half = len(sample) // 2
    centre = np.ascontiguousarray(np.partition(sample, half, axis=0)[half])
    return Frame(centre, power_of_two(np.abs(sample - centre).max(axis=0)))


def summarize(
    X: Array,
    codes: Array,
    K: int,
    frame: Frame,
    w: Array | None = None,
    *,
    kind: str = "diagonal",
    fourth: bool = False,
    rows: Array | None = None,
    n_jobs: int | None = -1,
) -> ClassMoments:
    """Moments of the classes 0..K-1 over all rows of X (C-ordered), or over the numbered `rows`.

    Rows of weight 0 are rows that are not there. `fourth` needs `kind="full"`.

    >>> X, codes = np.array([[1.0], [3.0], [5.0], [9.0]]), np.array([0, 0, 1, 1])
    >>> m = summarize(X, codes, 2, frame_of(X))
    >>> m.weight.tolist(), m.means.tolist(), (m.scatter * m.frame.unit**2).tolist()
    ([2.0, 2.0], [[2.0], [7.0]], [[2.0], [8.0]])
    """
    table = _Table(X, codes, np.empty(0) if w is None else w, frame, kind, fourth)
    if kind == "full" and K > 1 and K * X.shape[1] ** 2 > SMALL_SCATTERS:
        return _one_class_at_a_time(table, K, rows, n_jobs)
    where = np.empty(0, dtype=np.int64) if rows is None else rows
    n = len(X) if rows is None else len(rows)
    return _total(table, 0, K, where, n, n_jobs)


@dataclass(frozen=True, eq=False)
class _Table:
    """Validated rows and what is wanted of them; weights are empty when every row counts the same."""

    X: Array
    codes: Array
    w: Array
    frame: Frame
    kind: str
    fourth: bool


def _one_class_at_a_time(table: _Table, K: int, rows: Array | None, n_jobs: int | None) -> ClassMoments:
    """Large scatters: rows are sorted by class, so that a block adds to one scatter only."""
    codes = table.codes if rows is None else table.codes[rows]
    order = np.argsort(codes.astype(np.uint16) if K <= 1 << 16 else codes, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=K))])
    order = order if rows is None else rows[order]
    parts = []
    for k in range(K):
        some = order[bounds[k] : bounds[k + 1]]
        # An empty array of row numbers stands for all rows.
        parts.append(_total(table, k, 1, some, len(some), n_jobs) if some.size else _nothing(table, 1))
    stacked = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("weight", "rows", "mean", "scatter", *(("third", "fourth") if table.fourth else ()))
    }
    return ClassMoments(table.frame, table.kind, **stacked)


def _nothing(table: _Table, K: int) -> ClassMoments:
    """The moments of no rows."""
    p = table.X.shape[1]
    shape = {"full": (K, p, p), "pooled": (p, p), "diagonal": (K, p)}[table.kind]
    more = [np.zeros((K, p, p)) for _ in range(2)] if table.fourth else [None, None]
    return ClassMoments(
        table.frame,
        table.kind,
        np.zeros(K),
        np.zeros(K, dtype=np.int64),
        np.zeros((K, p)),
        np.zeros(shape),
        *more,
    )


def _total(table: _Table, first: int, K: int, rows: Array, n: int, n_jobs: int | None) -> ClassMoments:
    """Moments of the classes first, ..., first + K - 1, to which all n rows belong."""
    p = table.X.shape[1]
    if n == 0:
        return _nothing(table, K)
    cells = K * p * (p if table.kind == "full" else 1) * (3 if table.fourth else 1) + p * p
    # A merge costs as much as some rows of each class: blocks are tall enough for that not to matter.
    height = max(BLOCK_CELLS // p, 16 * K, min(2 * p, TALLEST_CELLS // p))
    parts = min(MOST_PARTS, max(2, MOST_CELLS // cells))
    share = -(-n // (parts * height)) * height

    def part(start: int) -> ClassMoments:
        stop = min(start + share, n)
        out, weights = np.empty((min(height, stop - start), p)), np.empty(min(height, stop - start))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            done = [
                _block(table, first, K, rows, at, min(at + height, stop), out, weights)
                for at in range(start, min(start + height, stop), height)
            ]
            for at in range(start + height, stop, height):
                done[0] = merge(done[0], _block(table, first, K, rows, at, min(at + height, stop), out, weights))
        return done[0]

    found = parallel(
        part, range(0, n, share), n_jobs=n_jobs, work=float(n) * p * (2 if table.kind == "diagonal" else p)
    )
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return reduce(merge, found)


IN_ORDER, BY_CLASS, SQUARES = 0, 1, 2


def _block(
    table: _Table, first: int, K: int, rows: Array, start: int, stop: int, out: Array, weights: Array
) -> ClassMoments:
    """Moments of one block of rows, in the cache."""
    empty = _nothing(table, K)
    weight, count, mean, scatter = empty.weight, empty.rows, empty.mean, empty.scatter
    mode = {"pooled": IN_ORDER, "full": BY_CLASS, "diagonal": SQUARES}[table.kind]
    squares = scatter if mode == SQUARES else np.empty((0, 0))
    inverse = 1.0 / table.frame.unit
    centre, rooted = table.frame.centre, not table.fourth
    filled = _gather(
        table.X, rows, start, stop, table.codes, first, table.w, centre, inverse, mode, rooted,
        weight, count, mean, squares, out, weights,
    )  # fmt: skip
    if mode == SQUARES:
        return empty
    Z = out[:filled]
    if mode == IN_ORDER:
        np.matmul(Z.T, Z, out=scatter)  # numpy sees the symmetry and halves the work
        return empty
    stops = np.cumsum(count)
    for k in np.flatnonzero(count):
        own = slice(stops[k] - count[k], stops[k])
        if not table.fourth:
            scatter[k] = Z[own].T @ Z[own]
            continue
        U, W = Z[own], weights[own, None]
        squared = U * U
        assert empty.third is not None
        assert empty.fourth is not None
        scatter[k] = (W * U).T @ U
        empty.third[k], empty.fourth[k] = (W * squared).T @ U, (W * squared).T @ squared
    return empty


@kernel
def _gather(
    X: Array,
    rows: Array,
    start: int,
    stop: int,
    codes: Array,
    first: int,
    w: Array,
    centre: Array,
    inverse: Array,
    mode: int,
    rooted: bool,
    weight: Array,
    count: Array,
    mean: Array,
    squares: Array,
    out: Array,
    weights: Array,
) -> int:
    """Class means of some rows, and the rows minus their class mean: in order, by class, or only their squares."""
    p, K = X.shape[1], weight.size
    for r in range(start, stop):
        i = rows[r] if rows.size else r
        c = w[i] if w.size else 1.0
        if c > 0.0:
            k = codes[i] - first
            weight[k] += c
            count[k] += 1
            for j in range(p):
                mean[k, j] += c * ((X[i, j] - centre[j]) * inverse[j])
    place = np.zeros(K, dtype=np.int64)
    for k in range(K):
        if k > 0:
            place[k] = place[k - 1] + count[k - 1]
        if weight[k] > 0.0:
            for j in range(p):
                mean[k, j] /= weight[k]
    left = np.zeros((K, p))
    filled = 0
    for r in range(start, stop):
        i = rows[r] if rows.size else r
        c = w[i] if w.size else 1.0
        if c > 0.0:
            k = codes[i] - first
            if mode == 2:
                for j in range(p):
                    z = (X[i, j] - centre[j]) * inverse[j] - mean[k, j]
                    left[k, j] += c * z
                    squares[k, j] += c * z * z
            else:
                at = filled
                if mode == 1:
                    at = place[k]
                    place[k] += 1
                root = np.sqrt(c) if rooted else 1.0
                weights[at] = c
                for j in range(p):
                    z = (X[i, j] - centre[j]) * inverse[j] - mean[k, j]
                    left[k, j] += c * z
                    out[at, j] = root * z
            filled += 1
    # What the means missed by rounding; its square is far below the last digit of the scatter.
    for k in range(K):
        if weight[k] > 0.0:
            for j in range(p):
                mean[k, j] += left[k, j] / weight[k]
    return filled


# Merging.


def merge(a: ClassMoments, b: ClassMoments) -> ClassMoments:
    """The moments of both sets of rows together; they must have the same frame and kind."""
    weight = a.weight + b.weight
    share = np.divide(b.weight, weight, out=np.zeros_like(weight), where=weight > 0)
    gap = b.mean - a.mean
    between = (a.weight * share)[:, None] * gap
    scatter = a.scatter + b.scatter
    if a.kind == "pooled":
        scatter += between.T @ gap
    elif a.kind == "diagonal":
        scatter += between * gap
    else:
        scatter += between[:, :, None] * gap[:, None, :]
    third = fourth = None
    if a.third is not None:
        moved = [_moved(a, -gap * share[:, None]), _moved(b, gap * (1.0 - share)[:, None])]
        third, fourth = moved[0][0] + moved[1][0], moved[0][1] + moved[1][1]
    mean = a.mean + gap * share[:, None]
    return ClassMoments(a.frame, a.kind, weight, a.rows + b.rows, mean, scatter, third, fourth)


def _moved(m: ClassMoments, e: Array) -> tuple[Array, Array]:
    """Third and fourth sums about points from which the class means lie e away."""
    S, T, F = m.scatter, m.third, m.fourth
    assert T is not None
    assert F is not None
    n, i, j = m.weight[:, None, None], e[:, :, None], e[:, None, :]
    diagonal = np.einsum("kii->ki", S)
    Si, Sj = diagonal[:, :, None], diagonal[:, None, :]
    third = T + Si * j + 2 * i * S + n * i**2 * j
    fourth = F + 2 * (j * T + i * T.transpose(0, 2, 1)) + Si * j**2 + Sj * i**2 + 4 * i * j * S + n * i**2 * j**2
    return third, fourth


def pooled_scatter(m: ClassMoments) -> Array:
    """The scatter within the classes, (p, p), or its diagonal (p,) where only that was kept."""
    return m.scatter if m.kind == "pooled" else m.scatter.sum(axis=0)


# Folds.


def training_moments(
    X: Array,
    codes: Array,
    K: int,
    w: Array | None,
    splits: Splits,
    *,
    kind: str = "diagonal",
    fourth: bool = False,
    n_jobs: int | None = -1,
) -> list[ClassMoments] | None:
    """The moments of every training set of `splits`, from one pass over the rows for each repeat.

    None where the tests do not share out the rows again and again with all other rows as training sets, or where
    there are too many folds to hold.
    """
    n, p = X.shape
    if isinstance(splits, AllButOne):  # written out, its n training sets would fill n^2 numbers
        partitions = [Partition(np.arange(n), n)] if n > 1 else None
    else:
        partitions = partitions_of([(row_numbers(train), row_numbers(test)) for train, test in splits], n)
    if partitions is None:
        return None
    cells = K * p * (p if kind == "full" else 1) * (3 if fourth else 1) + (p * p if kind == "pooled" else 0)
    if 3 * cells * max(part.size for part in partitions) > MOST_CELLS:
        return None
    frame = frame_of(X, w)
    found: list[ClassMoments] = []
    for partition in partitions:
        parts = parallel(
            lambda rows: summarize(X, codes, K, frame, w, kind=kind, fourth=fourth, rows=rows, n_jobs=n_jobs),
            partition.rows(),
            n_jobs=n_jobs,
            work=float(n) * p * p,
        )
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            found += all_but_one(parts, merge)
    return found
