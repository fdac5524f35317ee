"""The linkage matrix from points or distances: which kernel does it, in which units and with which arrays."""

from __future__ import annotations

import numpy as np

from assay.clustering._linkage import LINKAGES, SQUARED, closest_pairs, euclidean, label, spanning_tree, ward_chain
from assay.numerics.scale import power_of_two
from assay.numerics.threads import parallel

__all__ = ["LARGE", "from_distances", "from_points", "square_of_points"]

Array = np.ndarray

LARGE = 11_585
"""Up to so many rows (1 GiB of distances) ties under single and Ward linkage are resolved in a square array."""
WIDE = 32
"""From so many columns on Ward's distances come from an array rather than from centres, while that fits."""
BLOCK = 128
ROWS = 256


def from_points(X: Array, linkage: str, sizes: Array, n_jobs: int | None) -> Array:
    """Scipy's linkage matrix of rows under the Euclidean distance; each row stands for a cluster of its size."""
    unit = float(power_of_two(np.abs(X).max()))
    X = X / unit
    lean = linkage == "single" or (linkage == "ward" and (X.shape[1] <= WIDE or len(X) > LARGE))
    if lean and len(X) > 1:
        Z, clear = _single(X) if linkage == "single" else _ward(X, sizes)
        if clear or len(X) > LARGE:
            return _scaled(Z, unit)
    D = square_of_points(X, n_jobs, squared=linkage in SQUARED, sizes=sizes if linkage == "ward" else None)
    return _scaled(_agglomerate(D, linkage, sizes), unit)


def from_distances(D: Array, linkage: str, sizes: Array) -> Array:
    """Scipy's linkage matrix from a square array of distances, which is destroyed."""
    unit = float(power_of_two(D.max(initial=0.0)))
    D /= unit
    if linkage in SQUARED:
        np.square(D, out=D)
    return _scaled(_agglomerate(D, linkage, sizes), unit)


def square_of_points(X: Array, n_jobs: int | None, *, squared: bool = False, sizes: Array | None = None) -> Array:
    """Euclidean distances, squared or not; Ward's between clusters of given sizes. Threads share the rows."""
    n = len(X)
    columns, out = np.ascontiguousarray(X.T), np.empty((n, n))
    held = np.ones(n) if sizes is None else sizes

    def fill(start: int) -> None:
        euclidean(columns, held, start, squared, sizes is not None, out[start : start + ROWS])

    parallel(fill, range(0, n, ROWS), n_jobs=n_jobs, work=n * X.size)
    return out


def _agglomerate(D: Array, linkage: str, sizes: Array) -> Array:
    n = len(D)
    merges, heights = np.empty((n - 1, 2), dtype=np.int64), np.empty(n - 1)
    np.fill_diagonal(D, np.inf)
    if n > 1:
        closest_pairs(D, sizes.copy(), LINKAGES.index(linkage), merges, heights)
    if linkage in SQUARED:
        # A merge at d leaves no square below 3/4 d^2, as all other pairs are at least as far: all stay positive.
        heights = np.sqrt(heights)
    return _labelled(merges, heights)[0]


def _labelled(merges: Array, heights: Array) -> tuple[Array, bool]:
    Z = np.empty((len(heights), 4))
    clear = label(merges, heights, Z)
    return Z, clear


def _scaled(Z: Array, unit: float) -> Array:
    Z[:, 2] *= unit
    return Z


def _single(X: Array) -> tuple[Array, bool]:
    """The sorted edges of a minimum spanning tree, and whether no two of them are equally long."""
    blocks = [np.arange(len(X))]
    while len(blocks[0]) > BLOCK:
        blocks = [half for rows in blocks for half in _halves(X, rows)]
    counts = np.array([len(rows) for rows in blocks])
    points = np.zeros((len(blocks), X.shape[1], counts.max()))
    places = np.zeros((len(blocks), counts.max()), dtype=np.int64)
    for b, rows in enumerate(blocks):
        points[b, :, : len(rows)], places[b, : len(rows)] = X[rows].T, rows
    merges, heights = np.empty((len(X) - 1, 2), dtype=np.int64), np.empty(len(X) - 1)
    spanning_tree(points, places, counts, merges, heights)
    return _in_order(merges, heights)


def _halves(X: Array, rows: Array) -> tuple[Array, Array]:
    """Two halves of the rows on both sides of a median, along the column that spreads most."""
    inside = X[rows]
    widest = int(np.argmax(inside.max(axis=0) - inside.min(axis=0)))
    order = np.argpartition(inside[:, widest], len(rows) // 2)
    return rows[order[: len(rows) // 2]], rows[order[len(rows) // 2 :]]


def _ward(X: Array, sizes: Array) -> tuple[Array, bool]:
    merges, heights = np.empty((len(X) - 1, 2), dtype=np.int64), np.empty(len(X) - 1)
    untied = ward_chain(np.array(X.T, order="C"), sizes.copy(), merges, heights)
    Z, clear = _in_order(merges, heights)
    return Z, clear and untied


def _in_order(merges: Array, squares: Array) -> tuple[Array, bool]:
    """Merges that were found in any order, by height; of equal ones that found first comes first."""
    order = np.argsort(squares, kind="stable")
    return _labelled(merges[order], np.sqrt(squares[order]))
