"""Hierarchical clustering: merge the two closest clusters until one is left (row E2).

Every row starts as a cluster of its own. What "closest" means for clusters A and B is the linkage:

    single    min d(a, b)                           average   mean of d(a, b) over all pairs
    complete  max d(a, b)                           weighted  mean of the two parts that merged last, whatever their sizes
    centroid  |mean(A) - mean(B)|                   median    |m_A - m_B|, m the midpoint of the two parts' midpoints
    ward      sqrt(2 |A| |B| / (|A| + |B|)) |mean(A) - mean(B)|, the growth of the within-cluster sum of squares

Of several closest pairs the one whose clusters have the smallest first rows merges, so ties have one answer too. Single
linkage follows chains, complete linkage makes balls of like diameter, Ward balls of like size; centroid and median may
merge below an earlier merge (an inversion).

Cost: O(n^2) time and 4 n^2 bytes as a rule. Single linkage on points walks a minimum spanning tree over blocks
of neighbours; beyond 16,384 rows Ward follows a chain of nearest centres: O(n p) memory.

Lance, Williams (1967), Computer J. 9, 373-380; Ward (1963), JASA 58, 236-244; Müllner (2011), arXiv:1109.2378.
"""  # noqa: E501  (a table)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy.spatial.distance import squareform
from sklearn.base import ClusterMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, Estimator, integer, jobs, none, one_of, real
from assay.checks import row_weights
from assay.clustering._agglomerate import from_distances, from_points
from assay.clustering._dissimilarity import DIRECTIONS, METRICS, by_function, by_name, given, gower
from assay.clustering._linkage import LINKAGES, SQUARED
from assay.clustering.dendrogram import Dendrogram, check_linkage, flat_clusters, inner_heights
from assay.constraints import text
from assay.errors import DataError, ParameterError
from assay.state import Specs, floats, ints, need, optional, several, size

__all__ = ["HierarchicalClustering"]

Array = np.ndarray
NAMES = (*METRICS, *DIRECTIONS, "gower", "precomputed")
WIDEST = 1e100
"""The largest ratio of two `members`."""


class HierarchicalClustering(ClusterMixin, Estimator):
    """Merge the closest clusters until one is left, and cut the tree at a number of clusters or at a height.

        d(A u B, C) from d(A, C), d(B, C), d(A, B) and the sizes, by linkage (Lance, Williams 1967)

    | parameter          | default     | range                                     | meaning                                  |
    |--------------------|-------------|-------------------------------------------|------------------------------------------|
    | n_clusters         | 2           | from 1 on, None                           | clusters in `labels_`; None: by `distance_threshold` |
    | metric             | "euclidean" | "manhattan", "chebyshev", "cosine", "correlation", "gower", "precomputed", "l1", "l2", function | distance of two rows; a function takes two rows; "gower" takes numbers, text, categories and missing cells; "precomputed" a square array or scipy's condensed vector |
    | linkage            | "ward"      | "single", "complete", "average", "weighted", "centroid", "median" | distance of two clusters |
    | distance_threshold | None        | from 0 on                                 | merges at or above it are undone in `labels_`; needs `n_clusters=None` |
    | n_jobs             | None        | threads                                   | for the distances; never changes a result |

    Fitted: `linkage_` (scipy's format: two clusters, height, rows; one line per merge), `labels_` and `n_clusters_`
    (clusters numbered by their first rows), `leaf_names_` (the index of a data frame, if it has names), and as in
    scikit-learn `children_`, `distances_`, `n_leaves_`, `n_features_in_`, `feature_names_in_`.

    `cut(k=)` and `cut(height=)` give other labels, `merge_height` reads the tree, `dendrogram()` is the tree as a result
    with a picture, `from_linkage` takes a tree from elsewhere. `fit(X, members=)` says for how many rows each row
    stands, as R's hclust does: centres of a first clustering can be merged on as the clusters that they are.

    Ties: of several closest pairs that with the smallest first rows merges. Beyond 16,384 rows single and Ward linkage on
    points take ties as they come, the same in each run; under single linkage the clusters at a height do not depend on it.
    Ward, centroid and median need Euclidean distances, so they take no other metric by name; distances that are
    precomputed or come from a function are taken to be Euclidean.

    Ward (1963), JASA 58, 236-244; Müllner (2011), arXiv:1109.2378.

    >>> X = [[0.0], [1.0], [5.0], [6.5], [20.0]]
    >>> model = HierarchicalClustering(3, linkage="average").fit(X)
    >>> model.labels_.tolist(), model.distances_.tolist()
    ([0, 0, 1, 1, 2], [1.0, 1.5, 5.25, 16.875])
    >>> model.cut(height=6.0).tolist(), model.merge_height(0, [2, 3])
    ([0, 0, 0, 0, 1], 5.25)
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        "n_clusters": integer(1) | none,
        "metric": one_of(*NAMES) | Constraint(callable, "a function of two rows"),
        "linkage": one_of(*LINKAGES),
        "distance_threshold": real(0) | none,
        "n_jobs": jobs,
    }
    state: ClassVar[Specs] = {
        "n_features_in_": optional(size("p")),
        "linkage_": floats("m", 4, low=0),
        "n_clusters_": size("k"),
        "labels_": ints("n", below="k"),
        "leaf_names_": several(text, "n") | none,
    }

    def __init__(
        self,
        n_clusters: int | None = 2,
        *,
        metric: Any = "euclidean",
        linkage: str = "ward",
        distance_threshold: float | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.linkage = linkage
        self.distance_threshold = distance_threshold
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.metric, str) and self.metric == "precomputed"
        tags.input_tags.allow_nan = tags.input_tags.string = isinstance(self.metric, str) and self.metric == "gower"
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if (self.n_clusters is None) == (self.distance_threshold is None):
            what = f"n_clusters = {self.n_clusters!r} and distance_threshold = {self.distance_threshold!r} together"
            raise ParameterError(what, remedy="set one of n_clusters and distance_threshold, and the other to None")
        named = isinstance(self.metric, str) and self.metric not in ("euclidean", "l2", "precomputed")
        if named and self.linkage in SQUARED:
            what = f'{self.linkage} linkage needs Euclidean distances, but metric = "{self.metric}"'
            raise ParameterError(what, remedy='use linkage="average", or metric="euclidean"')

    def _check_state(self) -> None:
        need(len(self.labels_) == len(self.linkage_) + 1)
        need(len(np.unique(self.labels_)) == self.n_clusters_)
        try:
            check_linkage(self.linkage_)
        except DataError as error:
            need(False, str(error))

    # Fitting.

    def fit(self, X: Any, y: Any = None, members: Any = None) -> Self:
        """Build the tree of the rows, and cut it; `members` are the numbers of rows that they stand for."""
        del y
        names = _names(X)
        if self._is("euclidean", "l2"):
            points = self._validate(X)
            self._enough(len(points))
            Z = from_points(points, self.linkage, self._members(members, len(points)), self.n_jobs)
        else:
            D = self._distances(X, reset=True)
            self._enough(len(D))
            Z = from_distances(D, self.linkage, self._members(members, len(D)))
        return self._keep(Z, names)

    def _is(self, *metrics: str) -> bool:
        return isinstance(self.metric, str) and self.metric in metrics

    def _enough(self, n: int) -> None:
        if self.n_clusters is not None and self.n_clusters > n:
            what = f"n_clusters = {self.n_clusters} but X has {n} sample(s)"
            raise DataError(what, remedy="pass more rows, or ask for fewer clusters")

    def _members(self, members: Any, n: int) -> Array:
        if members is None:
            return np.ones(n)
        w = row_weights(members, n, "members")
        assert w is not None
        if (w == 0).any():
            row = int(np.argmin(w))
            raise DataError(f"members is 0 in row {row}", remedy="drop those rows: X[members > 0]")
        if w.max() / WIDEST > w.min():
            what = f"members ranges from {w.min():.3g} to {w.max():.3g}, more than a factor of {WIDEST:g}"
            raise DataError(what, remedy="drop the rows that stand for next to nothing")
        return w

    def _distances(self, X: Any, *, reset: bool) -> Array:
        """The square array of distances."""
        if self._is("precomputed"):
            if reset:
                self._check_parameters()
            if np.ndim(X) == 1:
                X = given(X)
            return given(self._validate(X, reset=reset, finite=False))
        if self._is("gower"):
            return gower(self._validate_frame(X, reset=reset), self.n_jobs)
        points = self._validate(X, reset=reset)
        return by_function(points, self.metric) if callable(self.metric) else by_name(points, self.metric)

    def _keep(self, Z: Array, names: list[str] | None) -> Self:
        self.linkage_, self.leaf_names_ = Z, names
        if self.n_clusters is not None:
            kept = np.arange(len(Z)) < len(Z) + 1 - self.n_clusters
        else:
            kept = inner_heights(Z) < self.distance_threshold
        self.labels_ = flat_clusters(Z, kept)
        self.n_clusters_ = int(self.labels_.max()) + 1
        return self

    def fit_predict(self, X: Any, y: Any = None, members: Any = None) -> Array:
        """Build and cut the tree, and give the labels."""
        return self.fit(X, y, members).labels_

    @classmethod
    def from_linkage(
        cls, Z: Any, n_clusters: int = 2, *, linkage: str = "average", names: Sequence[str] | None = None
    ) -> Self:
        """A fitted clustering from a linkage matrix in scipy's format; `linkage` says how it was made.

        >>> HierarchicalClustering.from_linkage([[0, 1, 1.0, 2], [2, 3, 2.5, 3]]).labels_.tolist()
        [0, 0, 1]
        """
        Z = check_linkage(Z)
        model = cls(n_clusters, linkage=linkage)
        model._check_parameters()
        model._enough(len(Z) + 1)
        return model._keep(Z, _as_names(names, len(Z) + 1))

    # Reading the tree.

    @property
    def children_(self) -> Array:
        """The two clusters of each merge: rows below n, and n + t for that of merge t."""
        return self.linkage_[:, :2].astype(np.int64)

    @property
    def distances_(self) -> Array:
        """The heights of the merges."""
        return self.linkage_[:, 2]

    @property
    def n_leaves_(self) -> int:
        """The number of rows."""
        return len(self.linkage_) + 1

    def dendrogram(self, names: Sequence[str] | None = None) -> Dendrogram:
        """The tree as a result that prints, draws and can be cut; `names` are those of the rows."""
        check_is_fitted(self)
        chosen = _as_names(names, self.n_leaves_) or self.leaf_names_ or ()
        return Dendrogram(self.linkage_.copy(), tuple(chosen), self.linkage, self.n_clusters_)

    def cut(self, k: int | None = None, *, height: float | None = None) -> Array:
        """Labels of exactly k clusters, or of those that merge up to a height; numbered by their first rows."""
        return self.dendrogram().cut(k, height=height)

    def merge_height(self, one: Any, other: Any) -> float:
        """The height of the first cluster that holds both: rows, or groups of rows, by number or by name."""
        return self.dendrogram().merge_height(one, other)

    def leaf_order(self) -> Array:
        """The rows from left to right, so that no two lines of the dendrogram cross."""
        return self.dendrogram().leaf_order()

    def cophenetic_distances(self) -> Array:
        """The height at which each pair of rows merges, as scipy's condensed vector: (0, 1), (0, 2), ..."""
        return self.dendrogram().cophenetic_distances()

    def cophenetic_correlation(self, X: Any) -> float:
        """Correlation of the merge heights with the distances in X, which must be that of `fit`.

        >>> round(HierarchicalClustering().fit([[0.0], [1.0], [5.0]]).cophenetic_correlation([[0.0], [1.0], [5.0]]), 3)
        0.971
        """
        check_is_fitted(self)
        D = self._distances(X, reset=False)
        if len(D) != self.n_leaves_:
            what = f"X has {len(D)} rows, but the tree has {self.n_leaves_}"
            raise DataError(what, remedy="pass the rows of fit")
        np.fill_diagonal(D, 0.0)
        pairs, heights = squareform(D, checks=False), self.cophenetic_distances()
        if pairs.size < 2 or np.ptp(pairs) == 0 or np.ptp(heights) == 0:
            what = "the distances or the merge heights are all equal, so they have no correlation"
            raise DataError(what, remedy="pass three or more rows at different distances")
        return float(np.corrcoef(pairs / pairs.max(), heights / heights.max())[0, 1])


def _names(X: Any) -> list[str] | None:
    """The index of a data frame, where it is more than numbers."""
    if not isinstance(X, pd.DataFrame) or pd.api.types.is_integer_dtype(X.index.dtype):
        return None
    return [str(name) for name in X.index]


def _as_names(names: Sequence[str] | None, n: int) -> list[str] | None:
    if names is None:
        return None
    if isinstance(names, str) or len(names) != n:
        what = f"names has {1 if isinstance(names, str) else len(names)} entries for {n} rows"
        raise ParameterError(what, remedy="pass one name per row")
    return [str(name) for name in names]
