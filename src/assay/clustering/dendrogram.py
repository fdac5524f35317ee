"""The tree of a hierarchical clustering: merges in the order they were made, and what can be read off them.

Merge t = 0, 1, ... of n rows joins two clusters at a height and makes cluster n + t; rows are the clusters 0 .. n - 1.

    cut(k)             undo the last k - 1 merges: always k clusters
    cut(height=h)      keep merges up to h whose inner merges are all up to h: clusters at one height are nested in those higher up
    merge_height(i, j) height of the first cluster that holds both: the cophenetic distance c_ij
    correlation        of c_ij with the distances d_ij over all pairs (Sokal, Rohlf 1962)

Centroid and median linkage can merge below an earlier merge (an inversion). A cut by k follows the order of merges and a cut
by height the largest height inside each cluster, so both are well defined there too.
"""  # noqa: E501  (a table)

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import cophenet, leaves_list
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from assay.checks import listed, number, whole
from assay.constraints import text
from assay.errors import DataError, ParameterError
from assay.numbers import fmt
from assay.results import Result
from assay.state import Specs, floats, need, several

__all__ = ["Dendrogram", "check_linkage", "flat_clusters", "inner_heights"]

Array = np.ndarray


def check_linkage(Z: Any) -> Array:
    """A linkage matrix in scipy's format as clean numbers, or one sentence that says in which merge it is none."""
    try:
        Z = np.array(Z, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise DataError("the linkage matrix contains a non-numeric value", remedy="pass scipy's Z") from error
    if Z.ndim != 2 or Z.shape[1] != 4:
        remedy = "pass one row per merge: two clusters, the height, the number of rows"
        raise DataError(f"a linkage matrix has 4 columns, got shape {Z.shape}", remedy=remedy)
    n = len(Z) + 1
    sizes = [1.0] * n
    used = np.zeros(2 * n - 1, dtype=bool)
    for t, (a, b, height, size) in enumerate(Z.tolist()):
        wrong = ""
        if not (np.isfinite(height) and height >= 0):
            wrong = f"has the height {height:g}"
        elif not (0 <= a < n + t and 0 <= b < n + t and a == int(a) and b == int(b)):
            wrong = f"joins {a:g} and {b:g}, but the clusters so far are 0 to {n + t - 1}"
        elif a == b or used[int(a)] or used[int(b)]:
            wrong = f"joins {a:g} and {b:g}, one of which is already part of another cluster"
        elif sizes[int(a)] + sizes[int(b)] != size:
            wrong = f"has {size:g} rows, but its parts have {sizes[int(a)] + sizes[int(b)]:g}"
        if wrong:
            raise DataError(f"merge {t} {wrong}", remedy="pass a matrix as returned by scipy.cluster.hierarchy.linkage")
        used[int(a)] = used[int(b)] = True
        sizes.append(size)
    return Z


def inner_heights(Z: Array) -> Array:
    """The largest height inside each cluster, its own included: the heights themselves unless there are inversions."""
    heights = Z[:, 2]
    if not (np.diff(heights) < 0).any():
        return heights
    n, largest = len(Z) + 1, heights.tolist()
    for t, (a, b) in enumerate(Z[:, :2].astype(int).tolist()):
        largest[t] = max(largest[t], *(largest[c - n] if c >= n else 0.0 for c in (a, b)))
    return np.array(largest)


def flat_clusters(Z: Array, kept: Array) -> Array:
    """Labels 0, 1, ... in the order of the clusters' first rows, after the merges marked in `kept`."""
    n = len(Z) + 1
    at = np.flatnonzero(kept)
    parents, children = np.repeat(n + at, 2), Z[at, :2].astype(np.int64).ravel()
    graph = coo_array((np.ones(children.size), (parents, children)), shape=(2 * n - 1, 2 * n - 1))
    found = connected_components(graph, directed=False)[1][:n]
    _, first, codes = np.unique(found, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes.ravel()].astype(np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class Dendrogram(Result):
    """The merges of a hierarchical clustering in scipy's format, with names for the rows.

    `linkage` has one row per merge: two clusters, the height, the number of rows; `names` may be empty. `coloured` is
    the number of clusters that the picture shows in colours.

    >>> tree = Dendrogram(np.array([[3, 4, 1.0, 2], [0, 2, 1.2, 2], [1, 6, 2.0, 3], [5, 7, 3.0, 5]]), list("ABCDE"))
    >>> tree.merge_height("B", ["A", "C"]), tree.cut(height=1.5).tolist(), tree.cut(k=2).tolist()
    (2.0, [0, 1, 0, 2, 2], [0, 0, 0, 1, 1])
    >>> print(tree)
    Dendrogram of 5 rows
    --------------------
    heights  1 to 3
    last merges (height: rows + rows)
      3: 2 + 3
      2: 1 + 2
      1.2: 1 + 1
      1: 1 + 1
    """

    linkage: Array
    names: Sequence[str] = ()
    method: str = ""
    coloured: int = 1

    state: ClassVar[Specs] = {
        "linkage": floats("m", 4, low=0),
        "names": several(text, kind=list) | several(text, kind=tuple),
    }

    def _check_state(self) -> None:
        try:
            check_linkage(self.linkage)
        except DataError as error:
            need(False, str(error))
        need(len(self.names) in (0, self.n))

    @property
    def n(self) -> int:
        """How many rows there are."""
        return len(self.linkage) + 1

    @property
    def heights(self) -> Array:
        """The heights of the merges, in their order."""
        return self.linkage[:, 2]

    @property
    def inversions(self) -> int:
        """How many clusters merge below one of their own parts."""
        return int((inner_heights(self.linkage) > self.heights).sum())

    @cached_property
    def _parents(self) -> Array:
        parents = np.full(2 * self.n - 1, -1)
        for side in (0, 1):
            parents[self.linkage[:, side].astype(np.int64)] = self.n + np.arange(self.n - 1)
        return parents

    def cut(self, k: int | None = None, *, height: float | None = None) -> Array:
        """Cluster labels of the rows, in the order of the clusters' first rows: k clusters, or those up to a height."""
        if (k is None) == (height is None):
            raise ParameterError("a cut needs k or height, not both", remedy="pass k=3, or height=1.5")
        if k is None:
            return flat_clusters(self.linkage, inner_heights(self.linkage) <= number(height, "height"))
        if whole(k, "k") > self.n:
            raise ParameterError(f"k = {k} clusters of {self.n} rows", remedy=f"pass k from 1 to {self.n}")
        return flat_clusters(self.linkage, np.arange(self.n - 1) < self.n - k)

    def merge_height(self, one: Any, other: Any) -> float:
        """The height of the first cluster that holds both: rows, or groups of rows, by number or by name."""
        nodes = sorted({*self._rows(one), *self._rows(other)})
        if len(nodes) == 1:
            return 0.0
        while len(nodes) > 1:  # children stand before their parents, so the lowest can always be replaced
            parent = int(self._parents[heapq.heappop(nodes)])
            if parent not in nodes:
                heapq.heappush(nodes, parent)
        return float(self.linkage[nodes[0] - self.n, 2])

    def _rows(self, key: Any) -> list[int]:
        if isinstance(key, list | tuple | set | np.ndarray | pd.Index | pd.Series):
            if not len(key):
                raise ParameterError("the group has no rows", remedy="pass at least one row")
            return [row for one in key for row in self._rows(one)]
        if isinstance(key, str):
            places = [row for row, name in enumerate(self.names) if name == key]
            if len(places) == 1:
                return places
            what = f"{len(places)} rows are named {key!r}" if places else f"no row is named {key!r}"
            known = f"the names are {listed(list(self.names))}" if self.names and not places else "pass its number"
            raise ParameterError(what, remedy=known)
        if isinstance(key, Integral) and not isinstance(key, bool) and -self.n <= int(key) < self.n:
            return [int(key) % self.n]
        raise ParameterError(f"unknown row {key!r}", remedy=f"rows are numbered from 0 to {self.n - 1}")

    def cophenetic_distances(self) -> Array:
        """The height at which each pair of rows merges, as scipy's condensed vector: (0, 1), (0, 2), ..."""
        return cophenet(self.linkage) if self.n > 1 else np.empty(0)

    def leaf_order(self) -> Array:
        """The rows from left to right, so that no two lines of the picture cross."""
        return leaves_list(self.linkage).astype(np.int64) if self.n > 1 else np.zeros(1, dtype=np.int64)

    def to_frame(self) -> pd.DataFrame:
        """One row per merge: its two clusters (rows by their names, merges by their number), height, size."""
        labels = [*(self.names or map(str, range(self.n))), *(f"merge {t}" for t in range(self.n - 1))]
        sides = {side: [labels[int(c)] for c in self.linkage[:, i]] for i, side in enumerate(("left", "right"))}
        return pd.DataFrame({**sides, "height": self.heights, "size": self.linkage[:, 3].astype(int)})

    def __str__(self) -> str:
        lines = [f"Dendrogram of {self.n:,} rows{f', {self.method} linkage' if self.method else ''}"]
        if self.n > 1:
            lines.append(f"heights  {fmt(self.heights.min())} to {fmt(self.heights.max())}")
        if self.n > 1 and self.inversions:
            lines.append(f"{self.inversions} merges are lower than one of their parts (inversions)")
        lines.append("last merges (height: rows + rows)")
        sizes = np.r_[np.ones(self.n), self.linkage[:, 3]].astype(int)
        for a, b, height, _ in self.linkage[:-6:-1]:
            parts = sorted((sizes[int(a)], sizes[int(b)]))
            lines.append(f"  {fmt(height)}: {parts[0]:,} + {parts[1]:,}")
        rule = "-" * max(len(line) for line in lines[:1])
        return "\n".join([lines[0], rule, *lines[1 : None if self.n > 1 else 1]])
