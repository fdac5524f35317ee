"""Figures for clusterings: silhouette, Davies-Bouldin, adjusted Rand index, inertia and within-cluster variation.

    silhouette of row i = (b - a) / max(a, b),  a: mean distance to the rest of its own cluster (0 in a cluster of one:
                          the silhouette is 0), b: least mean distance to another cluster
    Davies-Bouldin = mean over clusters i of max_{j != i} (s_i + s_j) / |mean_i - mean_j|,  s_i: mean distance of the
                     rows of cluster i to their mean
    adjusted Rand = (A - E) / ((B + C)/2 - E),  A, B, C: pairs together in both, in one, in the other; E = B C / all
    inertia = sum_k sum_{i in k} |x_i - mean_k|^2
    within-cluster variation = sum_k (1/n_k) sum_{i, j in k} |x_i - x_j|^2 = 2 inertia   (all ordered pairs)

Distances are computed in blocks of rows, so memory stays bounded: O(n^2 d) time, O(n) memory beyond a block. The
interval of the silhouette counts what a row does to its own figure and, through the mean distances, to that of all
others: its influence takes a second pass over the distances. The means of inertia are where it is least, so to first
order a row acts through its own distance only. The clusters are taken as given: they are not found anew.
Between resamples the adjusted Rand index is averaged over all pairs of partitions, with a jackknife over partitions.
Rousseeuw (1987), J. Comput. Appl. Math. 20, 53-65; Hubert & Arabie (1985), Journal of Classification 2, 193-218;
Davies, Bouldin (1979), IEEE Trans. Pattern Anal. Mach. Intell. 1, 224-227.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.checks import fraction, row_weights
from assay.errors import DataError
from assay.metrics.definition import metric
from assay.metrics.inputs import encode, label_column, matrix, same_rows
from assay.metrics.limits import loss_limits, share_limits, smooth_limits, standard_error
from assay.results import Interval

__all__ = [
    "adjusted_rand",
    "davies_bouldin",
    "inertia",
    "rand_between",
    "silhouette",
    "silhouette_samples",
    "within_cluster_variation",
]

Array = np.ndarray
BLOCK_CELLS = 2_000_000
"""Distances held at a time: 16 MB."""


def _clusters(X: Any, labels: Any) -> tuple[Array, Array, Array]:
    """Rows, cluster numbers, cluster sizes."""
    rows = matrix(X, "X")
    column = label_column(labels, "labels")
    same_rows(rows, column, "labels", "X")
    codes, _ = encode(column, "labels")
    return rows, codes, np.bincount(codes)


def _scaled(rows: Array) -> tuple[Array, int]:
    """Rows centred and divided by a power of two, so that no square overflows; and that power."""
    first = int(np.frexp(np.abs(rows).max())[1])
    centred = np.ldexp(rows, -first)
    centred -= centred.mean(axis=0)
    second = int(np.frexp(np.abs(centred).max())[1])
    return np.ldexp(centred, -second), first + second


def _blocks(rows: Array) -> Any:
    """(start, stop, distances of those rows to all), exact zeros on the diagonal."""
    step = max(1, BLOCK_CELLS // rows.shape[0])
    squares = np.einsum("ij,ij->i", rows, rows)
    for start in range(0, rows.shape[0], step):
        stop = min(rows.shape[0], start + step)
        block = rows[start:stop] @ rows.T
        block *= -2
        block += squares[start:stop, None]
        block += squares[None, :]
        # The expansion loses digits for near neighbours; those pairs are worked out by their difference.
        near = block < 1e-6 * (squares[start:stop, None] + squares[None, :])
        i, j = np.nonzero(near)
        for at in range(0, i.size, BLOCK_CELLS // 8):
            part = slice(at, at + BLOCK_CELLS // 8)
            gap = rows[start + i[part]] - rows[j[part]]
            block[i[part], j[part]] = np.einsum("ij,ij->i", gap, gap)
        yield start, stop, np.sqrt(block, out=block)


def _silhouettes(X: Any, labels: Any) -> tuple[Array, Array, Array, Array, Array, Array, Array]:
    """Silhouettes, then what their influence needs: rows, codes, sizes, a, b and the nearest other cluster."""
    given, codes, sizes = _clusters(X, labels)
    k, n = sizes.size, codes.size
    if not 2 <= k <= n - 1:
        what = f"{n} rows form {k} cluster{'s' if k != 1 else ''}"
        raise DataError(what, remedy="the silhouette needs at least 2 clusters and fewer clusters than rows")
    rows, _ = _scaled(given)
    member = np.zeros((n, k))
    member[np.arange(n), codes] = 1.0
    a, b, nearest = np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.intp)
    for start, stop, distances in _blocks(rows):
        sums = distances @ member
        at, own = np.arange(stop - start), codes[start:stop]
        a[start:stop] = sums[at, own] / np.maximum(sizes[own] - 1, 1)
        means = sums / sizes
        means[at, own] = np.inf
        nearest[start:stop] = means.argmin(axis=1)
        b[start:stop] = means[at, nearest[start:stop]]
    top = np.maximum(a, b)
    values = np.where((sizes[codes] > 1) & (top > 0), (b - a) / np.where(top > 0, top, 1), 0.0)
    return values, rows, codes, sizes, a, b, nearest


def silhouette_samples(X: Any, labels: Any) -> Array:
    """The silhouette of every row under the clusters `labels`, from -1 (nearer to another cluster) to 1.

    >>> silhouette_samples([[0.0], [1.0], [9.0], [10.0]], ["a", "a", "b", "b"]).round(3).tolist()
    [0.895, 0.882, 0.882, 0.895]
    """
    return _silhouettes(X, labels)[0]


def _silhouette_limits(X: Any, labels: Any, *, sample_weight: None, level: float) -> Interval:
    values, rows, codes, sizes, a, b, nearest = _silhouettes(X, labels)
    n, k = codes.size, sizes.size
    live = (sizes[codes] > 1) & (np.maximum(a, b) > 0)
    # s = 1 - a/b where a < b, b/a - 1 otherwise.
    inner = a < b
    low, high = np.where(live, np.minimum(a, b), 1.0), np.where(live, np.maximum(a, b), 1.0)
    by_a = np.where(live, np.where(inner, -1 / high, -low / high**2), 0.0)
    by_b = np.where(live, np.where(inner, low / high**2, 1 / high), 0.0)
    # A row that enters cluster c moves a of its members by (d - a)/(n_c - 1) and b of its neighbours by (d - b)/n_c.
    push = np.zeros((n, k))
    push[np.arange(n), codes] = by_a / np.maximum(sizes[codes] - 1, 1)
    push[np.arange(n), nearest] += by_b / sizes[nearest]
    rest = np.zeros((n, k))
    rest[np.arange(n), codes] = push[np.arange(n), codes] * a
    rest[np.arange(n), nearest] += push[np.arange(n), nearest] * b
    psi = values - values.mean()
    for start, stop, distances in _blocks(rows):
        at = np.arange(stop - start)
        psi[start:stop] += (distances @ push - rest.sum(axis=0))[at, codes[start:stop]]
    error = standard_error(psi - psi.mean(), None)
    return smooth_limits(
        float(values.mean()),
        error,
        level=level,
        scale="plain",
        bounds=(-1.0, 1.0),
        method="delta",
        rows=n,
        estimand="silhouette",
    )


@metric(
    "silhouette",
    better="greater",
    range=(-1.0, 1.0),
    needs="labels",
    rules={"delta": _silhouette_limits},
    first="X",
    weighted=False,
)
def silhouette(X: Any, labels: Any) -> float:
    """Mean silhouette of the rows under Euclidean distance, with an interval for clusters taken as given.

    >>> silhouette([[0.0], [1.0], [9.0], [10.0]], [0, 0, 1, 1]).__round__(4)
    0.8885
    """
    return float(_silhouettes(X, labels)[0].mean())


def _spreads(X: Any, labels: Any) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Steps of rows from the mean of their cluster, codes, sizes, distances of the steps, means, spreads."""
    given, codes, sizes = _clusters(X, labels)
    k, n = sizes.size, codes.size
    if not 2 <= k <= n - 1:
        what = f"{n} rows form {k} cluster{'s' if k != 1 else ''}"
        raise DataError(what, remedy="the Davies-Bouldin index needs at least 2 clusters and fewer clusters than rows")
    rows, _ = _scaled(given)
    means = np.column_stack([np.bincount(codes, column) / sizes for column in rows.T])
    steps = rows - means[codes]
    away = np.sqrt(np.einsum("ij,ij->i", steps, steps))
    return steps, codes, sizes, away, means, np.bincount(codes, away) / sizes


def _worst_pairs(means: Array, spreads: Array) -> tuple[Array, Array, Array]:
    """For each cluster the one it is confused with most, the ratio, and the distance of their means."""
    k = len(means)
    apart = np.sqrt(np.maximum(((means[:, None, :] - means[None, :, :]) ** 2).sum(axis=2), 0.0))
    np.fill_diagonal(apart, np.inf)
    if not apart.all():
        i, j = (int(at) for at in np.argwhere(apart == 0)[0])
        what = f"clusters number {i} and {j} have the same mean"
        raise DataError(what, remedy="merge them: the Davies-Bouldin index is infinite")
    ratio = (spreads[:, None] + spreads[None, :]) / apart
    other = ratio.argmax(axis=1)
    return other, ratio[np.arange(k), other], apart[np.arange(k), other]


def _davies_bouldin_limits(X: Any, labels: Any, *, sample_weight: None, level: float) -> Interval:
    steps, codes, sizes, away, means, spreads = _spreads(X, labels)
    n, k = codes.size, sizes.size
    other, ratio, apart = _worst_pairs(means, spreads)
    by_spread, by_mean = np.zeros(k), np.zeros_like(means)
    for i in range(k):
        j, unit = other[i], (means[i] - means[other[i]]) / apart[i]
        for c, sign in ((i, 1.0), (j, -1.0)):
            by_spread[c] += 1 / (k * apart[i])
            by_mean[c] -= sign * ratio[i] / (k * apart[i]) * unit
    # A row moves the mean of its cluster by its step, and the spread by its excess and by how the mean has moved.
    toward = steps / np.where(away > 0, away, 1.0)[:, None]
    pull = np.column_stack([np.bincount(codes, column) / sizes for column in toward.T])
    change = away - spreads[codes] - np.einsum("ij,ij->i", pull[codes], steps)
    psi = (by_spread[codes] * change + np.einsum("ij,ij->i", by_mean[codes], steps)) * n / sizes[codes]
    return smooth_limits(
        float(ratio.mean()),
        standard_error(psi - psi.mean(), None),
        level=level,
        scale="log",
        bounds=(0.0, np.inf),
        method="delta (log scale)",
        rows=n,
        estimand="davies_bouldin",
    )


@metric(
    "davies_bouldin",
    better="smaller",
    range=(0.0, np.inf),
    needs="labels",
    rules={"delta": _davies_bouldin_limits},
    first="X",
    weighted=False,
)
def davies_bouldin(X: Any, labels: Any) -> float:
    """Mean over clusters of the worst ratio of spreads to the distance of means; near 0 where clusters stand apart.

    >>> davies_bouldin([[0.0], [2.0], [9.0], [11.0]], [0, 0, 1, 1]).__round__(4)
    0.2222
    """
    _, _, _, _, means, spreads = _spreads(X, labels)
    return float(_worst_pairs(means, spreads)[1].mean())


def _rand(cells: Array, rows: Array, columns: Array) -> float:
    """The adjusted Rand index of a table given by its non-empty cells and margins, which need not be whole."""
    total = rows.sum()
    every = total * (total - 1) / 2
    a, b, c = (float((part * (part - 1) / 2).sum()) for part in (cells, rows, columns))
    expected = b * c / every if every > 0 else 0.0
    top = (b + c) / 2
    return 1.0 if top == expected else (a - expected) / (top - expected)


def _contingency(first: Any, second: Any) -> tuple[Array, Array, Array, Array, Array, Array]:
    one, two = label_column(first, "y_true"), label_column(second, "y_pred")
    same_rows(one, two, "y_pred")
    i, j = encode(one, "y_true")[0], encode(two, "y_pred")[0]
    rows, columns = np.bincount(i), np.bincount(j)
    _, cell, cells = np.unique(i * columns.size + j, return_inverse=True, return_counts=True)
    return i, j, cell, cells.astype(float), rows.astype(float), columns.astype(float)


def _rand_limits(first: Any, second: Any, *, sample_weight: None, level: float) -> Interval:
    i, j, cell, cells, rows, columns = _contingency(first, second)
    n = float(i.size)
    for sizes, name in ((rows, "y_true"), (columns, "y_pred")):
        if not 2 <= sizes.size < i.size:
            what = f"{name} puts {i.size} rows into {sizes.size} cluster{'s' if sizes.size > 1 else ''}"
            raise DataError(what, remedy="an interval needs from 2 clusters up to fewer than there are rows")
    value = float(_rand(cells, rows, columns))
    every = n * (n - 1) / 2
    b, c = (float((part * (part - 1) / 2).sum()) for part in (rows, columns))
    gap = (b + c) / 2 - b * c / every
    if gap > 0:
        # d/dn of the pairs within a cell of n rows is n - 1/2; numerator and denominator by the chain rule.
        da, db, dc = cells[cell] - 0.5, rows[i] - 0.5, columns[j] - 0.5
        de = (db * c + b * dc) / every - b * c / every**2 * (n - 0.5)
        psi = n * ((da - de) - value * ((db + dc) / 2 - de)) / gap
        error = standard_error(psi - psi.mean(), None)
        if error > 1e-9 and value < 1:
            return smooth_limits(
                value,
                error,
                level=level,
                scale="logit",
                bounds=(-0.5, 1.0),
                method="delta (logit scale)",
                rows=i.size,
                estimand="adjusted_rand",
            )
    # No row differs: as many as Wilson's interval allows might have been placed at random.
    u = share_limits(0.0, n, level=level, method="wilson", rows=0, estimand="").upper
    lower = float(_mixed(i, j, cells, cell, rows, columns, u))
    level = fraction(level, "level")
    lower, upper = max(-0.5, min(lower, value)), 1.0
    return Interval(value, lower, upper, level, "Wilson (no spread)", i.size, "adjusted_rand")


def _mixed(i: Array, j: Array, cells: Array, cell: Array, rows: Array, columns: Array, u: float) -> float:
    """The index when a share u of the rows is placed at random: cells (1-u) n_ij + u r_i c_j / n."""
    n = rows.sum()
    where = np.unique(cell, return_index=True)[1]
    at_random = u * rows[i[where]] * columns[j[where]] / n
    filled = (1 - u) * cells + at_random
    # sum over all cells of x(x-1)/2: the empty ones hold u r_i c_j / n each, and margins stay as they are.
    squares = float((filled**2).sum()) + (u / n) ** 2 * float((rows**2).sum() * (columns**2).sum())
    squares -= float((at_random**2).sum())
    a = (squares - n) / 2
    every = n * (n - 1) / 2
    b, c = (float((part * (part - 1) / 2).sum()) for part in (rows, columns))
    expected = b * c / every
    top = (b + c) / 2
    return 1.0 if top == expected else (a - expected) / (top - expected)


@metric(
    "adjusted_rand",
    better="greater",
    range=(-0.5, 1.0),
    needs="labels",
    rules={"delta": _rand_limits},
    weighted=False,
)
def adjusted_rand(y_true: Any, y_pred: Any) -> float:
    """Agreement of two partitions over pairs of rows, 0 for chance and 1 for identity, whatever the names.

    >>> adjusted_rand([0, 0, 1, 1], ["b", "b", "a", "c"]).__round__(4)
    0.5714
    """
    _, _, _, cells, rows, columns = _contingency(y_true, y_pred)
    return float(_rand(cells, rows, columns))


def rand_between(partitions: Any, *, level: float = 0.95) -> Interval:
    """Mean adjusted Rand index over all pairs of partitions of the same rows: how stable clusters are under resampling.

    | parameter  | default | range                 | meaning                                                     |
    |------------|---------|-----------------------|-------------------------------------------------------------|
    | partitions |         | one row per partition | cluster numbers; negative: that row has no part in it       |
    | level      | 0.95    | (0, 1)                | confidence level, over resamples of the table that is given |

    A pair is compared on the rows that both have. The interval is Student's, with the jackknife's standard error over
    the partitions: it is about the resampling, not about another table.

    >>> found = rand_between([[0, 0, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 1, 1]])
    >>> round(found.estimate, 3)
    0.444
    """
    level = fraction(level, "level")
    codes = np.asarray(partitions)
    if codes.ndim != 2 or codes.dtype.kind not in "iu":
        what = f"partitions have the shape {codes.shape} and the type {codes.dtype}"
        raise DataError(what, remedy="pass whole numbers, one row per partition and one column per table row")
    if len(codes) < 3:
        raise DataError(f"there are {len(codes)} partitions", remedy="an interval needs at least 3")
    values = _all_pairs(codes.astype(np.int64))
    count = len(values)
    total = values.sum() / 2
    mean = float(total / (count * (count - 1) / 2))
    left_out = (total - values.sum(axis=1)) / ((count - 1) * (count - 2) / 2)
    error = float(np.sqrt((count - 1) / count * ((left_out - left_out.mean()) ** 2).sum()))
    return smooth_limits(
        mean,
        error,
        level=level,
        scale="plain",
        bounds=(-0.5, 1.0),
        method="jackknife t",
        rows=count,
        estimand="adjusted_rand between resamples",
        df=count - 1.0,
    )


def _all_pairs(codes: Array) -> Array:
    """Adjusted Rand index of every pair, zeros on the diagonal; one matrix product gives all contingency tables."""
    count, n = codes.shape
    k = int(codes.max()) + 1
    member = np.zeros((count * k, n), dtype=np.float32)
    which, row = np.nonzero(codes >= 0)
    member[which * k + codes[which, row], row] = 1.0
    out = np.zeros((count, count))
    for i in range(count - 1):
        tables = (member[i * k : (i + 1) * k] @ member[(i + 1) * k :].T).astype(np.float64)
        for step, table in enumerate(np.split(tables, count - 1 - i, axis=1)):
            out[i, i + 1 + step] = _rand(table, table.sum(axis=1), table.sum(axis=0))
    return out + out.T


def _distances_to_mean(X: Any, labels: Any, sample_weight: Any) -> tuple[Array, Array | None]:
    """Squared distances of rows to the mean of their cluster, and the weights."""
    given, codes, _ = _clusters(X, labels)
    weights = row_weights(sample_weight, codes.size)
    rows, exponent = _scaled(given)
    mass = np.ones(codes.size) if weights is None else weights
    total = np.bincount(codes, weights=mass)
    total = np.where(total > 0, total, 1.0)
    out = np.zeros(codes.size)
    for column in rows.T:
        means = np.bincount(codes, weights=mass * column) / total
        means += np.bincount(codes, weights=mass * (column - means[codes])) / total
        out += (column - means[codes]) ** 2
    with np.errstate(over="ignore"):
        out = np.ldexp(out, 2 * exponent)
    if not np.isfinite(out).all():
        raise DataError("squared distances overflow", remedy="rescale X")
    return out, weights


def _sum_limits(X: Any, labels: Any, *, sample_weight: Any, level: float, factor: float, name: str) -> Interval:
    squares, weights = _distances_to_mean(X, labels, sample_weight)
    total = float(squares.size if weights is None else weights.sum())
    found = loss_limits(squares, weights, level=level, estimand=name, bounds=(0.0, np.inf))
    value, lower, upper = (factor * total * part for part in (found.estimate, found.lower, found.upper))
    return Interval(value, lower, upper, found.level, "t", found.n, name)


def _inertia_limits(X: Any, labels: Any, *, sample_weight: Any, level: float) -> Interval:
    return _sum_limits(X, labels, sample_weight=sample_weight, level=level, factor=1.0, name="inertia")


def _variation_limits(X: Any, labels: Any, *, sample_weight: Any, level: float) -> Interval:
    return _sum_limits(X, labels, sample_weight=sample_weight, level=level, factor=2.0, name="within_cluster_variation")


@metric(
    "inertia",
    better="smaller",
    range=(0.0, np.inf),
    needs="labels",
    rules={"t": _inertia_limits},
    first="X",
)
def inertia(X: Any, labels: Any, *, sample_weight: Any = None) -> float:
    """Sum of squared distances to the means of the clusters; half the within-cluster variation.

    >>> inertia([[0.0], [2.0], [9.0], [11.0]], [0, 0, 1, 1])
    4.0
    """
    squares, weights = _distances_to_mean(X, labels, sample_weight)
    return float(squares.sum() if weights is None else squares @ weights)


@metric(
    "within_cluster_variation",
    better="smaller",
    range=(0.0, np.inf),
    needs="labels",
    rules={"t": _variation_limits},
    first="X",
)
def within_cluster_variation(X: Any, labels: Any, *, sample_weight: Any = None) -> float:
    """Sum over clusters of the mean-over-members sum of squared distances between all ordered pairs: twice the inertia.

        sum_k (1/n_k) sum_{i, j in k} |x_i - x_j|^2 = 2 sum_k sum_{i in k} |x_i - mean_k|^2

    >>> within_cluster_variation([[0.0], [2.0], [9.0], [11.0]], [0, 0, 1, 1])
    8.0
    """
    return 2.0 * float(inertia(X, labels, sample_weight=sample_weight))
