"""What the classifier and the regressor share: their rows, the search, and neighbourhoods of a given weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, Estimator, array_like, instance_of, integer, jobs, none, one_of, real
from assay.errors import DataError, ParameterError
from assay.neighbors._distances import METRICS, make_space
from assay.neighbors._loo import LeaveOneOutCurve, blocks, summarise
from assay.neighbors._search import Index
from assay.neighbors._votes import KERNELS, Neighbourhood, crop
from assay.state import Specs, floats, left_out, need, optional, part, size

__all__ = ["Neighbours"]

Array = np.ndarray


class Neighbours(Estimator):
    """The rows of a training table and the search among them; what their votes mean is up to the children."""

    constraints: ClassVar[dict[str, Constraint]] = {
        "n_neighbors": integer(1) | one_of("loo"),
        "weights": one_of("uniform", "distance", "kernel") | Constraint(callable, "a function of distances"),
        "algorithm": one_of("auto", "brute", "kd_tree"),
        "leaf_size": integer(1),
        "p": real(1) | one_of(np.inf),
        "metric": one_of(*METRICS),
        "metric_params": none | instance_of(dict, "a dict"),
        "n_jobs": jobs,
        "kernel": one_of(*KERNELS),
        "candidates": integer(1) | array_like,
        "rule": one_of("min", "1se"),
    }

    state: ClassVar[Specs] = {
        "_X": floats("n", "p"),
        "_mass": none | floats("n", low=0),
        "n_samples_fit_": size("n"),
        "n_neighbors_": integer(1),
        "algorithm_": one_of("brute", "kd_tree"),
        "loo_": optional(part(LeaveOneOutCurve)),
        "_index": left_out(),
    }

    def _check_state(self) -> None:
        need(self._mass is None or (self._mass > 0).all(), "weights must be positive")
        need(self.n_neighbors_ <= (len(self._X) if self._mass is None else self._mass.sum() * (1.0 + 1e-12)))
        need(not callable(self.weights) and not (self.metric == "hamming" and self.algorithm == "kd_tree"))

    def _restore(self) -> None:
        self.__dict__.pop("_index", None)
        self._index_of_rows()

    # Declared for the type checker; every child's __init__ stores them.
    n_neighbors: int | str
    weights: Any
    algorithm: str
    leaf_size: int
    p: float
    metric: str
    metric_params: dict[str, Any] | None
    n_jobs: int | None
    kernel: str
    candidates: Any
    rule: str
    n_neighbors_: int

    def _keep(self, X: Array, w: Array | None) -> None:
        """Keep the rows (a copy: the caller's table may change) and build the index."""
        if self.metric == "hamming" and self.algorithm == "kd_tree":
            raise ParameterError(
                'algorithm = "kd_tree" does not support metric = "hamming"', remedy='use algorithm="brute" or "auto"'
            )
        self._X = np.array(X, dtype=np.float64, order="C")
        self._mass = None if w is None or (w == 1.0).all() else w
        self.n_samples_fit_ = self._X.shape[0]
        if self.n_neighbors != "loo":
            self._refuse_too_heavy(int(self.n_neighbors))
        for name in ("_index", "loo_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self.algorithm_ = self._index_of_rows().algorithm

    def _index_of_rows(self) -> Index:
        """The index; built again where the estimator comes out of a file, which holds the rows only."""
        if not hasattr(self, "_index"):
            space = make_space(self.metric, float(self.p), self.metric_params, self._X)
            self._index = Index(self._X, space, self.algorithm, int(self.leaf_size))
        return self._index

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_index", None)
        return state

    def _refuse_too_many(self, k: int, *, left_out: int = 0) -> None:
        """k against the number of training rows, all of them or all but the query."""
        n = self._X.shape[0]
        if k > n - left_out:
            less = " without the row itself" if left_out else ""
            what = f"n_neighbors = {k} exceeds the number of training rows{less}, n_samples = {n}"
            raise DataError(what, remedy="lower n_neighbors or pass more rows")

    def _refuse_too_heavy(self, k: int) -> None:
        """k against the weight of the training rows."""
        if self._mass is None:
            self._refuse_too_many(k)
        elif k > float(self._mass.sum()) * (1.0 + 1e-12):
            what = f"n_neighbors = {k} exceeds the total weight of the training rows, {self._mass.sum():.6g}"
            raise DataError(what, remedy="lower n_neighbors, or give weights that count rows")

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> tuple[Array, Array] | Array:
        """Distances and row numbers of the nearest training rows, nearest first; of equally near rows the first.

        | parameter       | default | range     | meaning                                                             |
        |-----------------|---------|-----------|---------------------------------------------------------------------|
        | X               | None    | rows      | the queries; None: the training rows, each without itself           |
        | n_neighbors     | None    | from 1 on | how many rows, whatever they weigh; None: as for predictions       |
        | return_distance | True    | bool      | False: row numbers only                                             |

        Row numbers count the rows of `fit` that have weight.
        """
        check_is_fitted(self)
        queries = None if X is None else self._validate(X, reset=False)
        k = self.n_neighbors_ if n_neighbors is None else n_neighbors
        if not integer(1).accepts(k):
            what = f"n_neighbors = {k!r} is out of range"
            raise ParameterError(what, remedy="it must be a whole number of at least 1")
        self._refuse_too_many(int(k), left_out=int(X is None))
        distance, found = self._find(queries, int(k))
        return (distance, found) if return_distance else found

    def _find(self, Q: Array | None, k: int, own: Array | None = None) -> tuple[Array, Array]:
        index = self._index_of_rows()
        if Q is None:
            own = np.arange(self._X.shape[0]) if own is None else own
            return index.search(self._X[own], k, own, self.n_jobs)
        return index.search(Q, k, None, self.n_jobs)

    def _near(self, Q: Array) -> Neighbourhood:
        """The neighbourhood of weight k of each query."""
        k = self.n_neighbors_
        return crop(*self._long_enough(Q, None, k), k)

    def _long_enough(self, Q: Array | None, own: Array | None, k: int) -> tuple[Array, Array, Array | None]:
        """Distances, rows and weights of as many nearest rows as hold weight k, and one more if a kernel asks for it.

        Among the training rows a row is left out once: what its weight has beyond 1 stays, as would its other copies.
        """
        most = self._X.shape[0] - (Q is None)
        if self._mass is None:
            distance, rows = self._find(Q, min(k + (self.weights == "kernel"), most), own)
            return distance, rows, None
        size = min(int((k + 1) / min(self._mass.mean(), 1.0)) + 1, most)
        while True:
            distance, rows = self._find(Q, size, own)
            mass = self._mass[rows]
            if size == most or (mass.sum(axis=1) > k * (1.0 + 1e-12)).all():
                break
            size = min(2 * size, most)
        if own is not None:
            distance = np.column_stack([np.zeros(len(own)), distance])
            rows = np.column_stack([own, rows])
            mass = np.column_stack([np.maximum(self._mass[own] - 1.0, 0.0), mass])
        return distance, rows, mass

    def _candidates(self) -> Array:
        """The numbers of neighbours to try: up to 50 by default, never more than the other rows weigh."""
        total = self._X.shape[0] if self._mass is None else int(float(self._mass.sum()) * (1.0 + 1e-12))
        most = total - 1
        if most < 1:
            what = f"leave-one-out needs a total weight of at least 2, n_samples = {total}"
            raise DataError(what, remedy="pass more rows, or give weights that count rows")
        if isinstance(self.candidates, int | np.integer):
            return np.arange(1, min(int(self.candidates), most) + 1)
        tried = np.unique(np.asarray(self.candidates))
        if tried.size == 0 or tried.dtype.kind not in "iu" or tried[0] < 1:
            what = f"candidates = {self.candidates!r} is out of range"
            raise ParameterError(what, remedy="give whole numbers of at least 1")
        if tried[-1] > most:
            what = f"candidates reach {tried[-1]}, but leaving one out leaves {most} rows, n_samples = {total}"
            raise DataError(what, remedy="give smaller numbers of neighbours")
        return tried.astype(np.int64)

    def _leave_one_out(
        self,
        y_name: str,
        running: Callable[[Array, Array, Array, Array], Array] | None,
        loss_at: Callable[[Neighbourhood, Array, int], Array],
    ) -> LeaveOneOutCurve:
        """The curve over `candidates`: by running sums where they are given, else k by k."""
        tried = self._candidates()
        last = int(tried[-1])

        def block(own: Array) -> Array:
            distance, rows, mass = self._long_enough(None, own, last)
            if running is not None and mass is None:
                return running(distance[:, :last], rows, own, tried)
            found = [loss_at(crop(distance, rows, mass, int(k)), own, int(k)) for k in tried]
            return np.column_stack(found)

        return summarise(blocks(self._X.shape[0], block, self._mass), tried, self.rule, y_name)
