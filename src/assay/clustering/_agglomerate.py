"""The linkage matrix from points or distances: which kernel does it, in which units and with which arrays."""

from __future__ import annotations

import numpy as np

from assay.clustering._linkage import LINKAGES, SQUARED, closest_pairs, euclidean, label, spanning_tree, ward_chain
from assay.numerics.scale import power_of_two
from assay.numerics.threads import parallel

__all__ = ["LARGE", "from_distances", "from_points"]

Array = np.ndarray

LARGE = 16_384
"""Up to so many rows (1 GiB) Ward works from distances, and ties under single linkage are resolved by them."""
BLOCK = 128
ROWS = 64


def from_points(X: Array, linkage: str, sizes: Array, n_jobs: int | None) -> Array:
    """Scipy's linkage matrix of rows under the Euclidean distance; each row stands for a cluster of its size."""
    unit = float(power_of_two(np.abs(X).max()))
    X = X / unit
    sizes, root = _near_one(sizes)
    if linkage == "ward":
        unit *= root  # the only distance that grows with the sizes
    n = len(X)
    if n > 1 and linkage == "single":
        Z, clear = _single(X)
        if clear or n > LARGE:
            return _scaled(Z, unit)
    if n > LARGE and linkage == "ward":
        return _scaled(_ward(X, sizes), unit)
    columns, out = np.ascontiguousarray(X.T), np.empty(n * (n - 1) // 2)
    squared, ward = linkage in SQUARED, linkage == "ward"
    edges = np.linspace(0, n * n, max(1, n // ROWS) + 1) ** 0.5  # as many distances each
    bounds = np.r_[0, edges[1:-1].astype(np.int64), n]

    def fill(part: int) -> None:
        start, stop = bounds[part], bounds[part + 1]
        held = out[start * (start - 1) // 2 : stop * (stop - 1) // 2]
        euclidean(columns, sizes, start, stop, squared, ward, held)

    parallel(fill, range(len(bounds) - 1), n_jobs=n_jobs, work=n * X.size)
    return _scaled(_agglomerate(out, linkage, sizes), unit)


def from_distances(D: Array, linkage: str, sizes: Array) -> Array:
    """Scipy's linkage matrix from a square array of distances."""
    unit = float(power_of_two(D.max(initial=0.0)))
    sizes = _near_one(sizes)[0]
    triangle = np.concatenate([np.empty(0), *(D[i, :i] for i in range(1, len(D)))]) / unit
    return _scaled(_agglomerate(triangle**2 if linkage in SQUARED else triangle, linkage, sizes), unit)


def _near_one(sizes: Array) -> tuple[Array, float]:
    """Sizes divided by a power of four near the largest, so that no product overflows, and its root."""
    root = float(power_of_two(np.sqrt(sizes.max(initial=0.0))))
    return sizes / root / root, root


def _agglomerate(triangle: Array, linkage: str, sizes: Array) -> Array:
    merges, heights = np.empty((len(sizes) - 1, 2), dtype=np.int64), np.empty(len(sizes) - 1)
    if heights.size:
        closest_pairs(triangle, sizes.copy(), LINKAGES.index(linkage), merges, heights)
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


def _ward(X: Array, sizes: Array) -> Array:
    merges, heights = np.empty((len(X) - 1, 2), dtype=np.int64), np.empty(len(X) - 1)
    ward_chain(np.array(X.T, order="C"), sizes.copy(), merges, heights)
    return _in_order(merges, heights)[0]


def _in_order(merges: Array, squares: Array) -> tuple[Array, bool]:
    """Merges that were found in any order, by height; of equal ones that found first comes first."""
    order = np.argsort(squares, kind="stable")
    return _labelled(merges[order], np.sqrt(squares[order]))
