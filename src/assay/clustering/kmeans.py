"""k-means: k centres and the rows nearest to each, with the least squared distance within clusters (row E1).

    inertia                    sum_k sum_{i in k} w_i |x_i - c_k|^2,                c_k the mean of cluster k
    within-cluster variation   sum_k (1/n_k) sum_{i, j in k} |x_i - x_j|^2          = 2 inertia (all ordered pairs)

Both names are in use, and textbooks that speak of the second print twice the number that software reports; the same
clusters minimise both. Finding the least is hard, so Lloyd's iteration is run from several starts and the best of the
local optima is kept; `starts_` lists them all, and several starts that end apart are a warning in themselves.

An iteration costs O(n k d), by matrix products in float32 that are made exact in float64 where they are too close to
call, less with bounds: Hamerly's keep two numbers per row and skip the rows that cannot change. Every algorithm gives
the labels of plain Lloyd iterations from the same start. Columns should be in comparable units: standardise them.

Lloyd (1982), IEEE Trans. Inform. Theory 28, 129-137; Arthur, Vassilvitskii (2007), SODA; Hamerly (2010), SDM;
Ding et al. (2015), ICML (Yinyang); Sculley (2010), WWW (mini-batches).
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils import Tags

from assay.base import (
    Constraint,
    Estimator,
    array_like,
    instance_of,
    integer,
    jobs,
    none,
    one_of,
    real,
    seed,
    unchanged_on_error,
)
from assay.callbacks import fit_task, side_by_side
from assay.clustering._lloyd import SMALL, Run, batch_step, lloyd, mini_batches
from assay.clustering._results import ClusterVariation, Starts
from assay.clustering._rows import DenseRows, SparseRows, is_sparse, make_rows
from assay.clustering._starts import START_METHODS, plus_plus
from assay.clustering.describe import (
    ClusterPlane,
    ClusterProfile,
    Silhouettes,
    cluster_plane,
    describe_clusters,
    silhouettes,
)
from assay.errors import AssayWarning, ConvergenceWarning, DataError, DataTypeError, ParameterError
from assay.numerics.scale import power_of_two
from assay.numerics.seeds import seed_sequence
from assay.numerics.threads import parallel
from assay.results import Trace
from assay.state import Specs, array, floats, optional, part

__all__ = ["KMeans"]

Array = np.ndarray
KMeansRows = DenseRows | SparseRows
CHEAP, DEAR = 100, 200_000
"""Products per row below which no bound is worth its cost, and from which on a bound per group of centres is."""


class KMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, Estimator):
    """k clusters with the least sum of squared distances of rows to the mean of their cluster.

        min over labels and centres of  sum_i w_i |x_i - c_{label_i}|^2

    | parameter          | default     | range                                | meaning                                    |
    |--------------------|-------------|--------------------------------------|--------------------------------------------|
    | n_clusters         | 8           | from 1 on                            | k                                          |
    | init               | "k-means++" | "random", "random_partition", array, function | rows drawn far apart; rows at random; means of clusters drawn at random (the textbooks' start); k centres; or a function of X, k, random_state |
    | n_init             | "auto"      | from 1 on                            | starts, of which the best is kept; "auto": 1 for k-means++ or given centres, else 10 |
    | max_iter           | 300         | from 1 on                            | most iterations of a start; of mini-batches: passes over the rows |
    | tol                | 1e-4        | from 0 on                            | ends when the centres move by less, squared and summed, in units of the mean variance; no part of mini-batches |
    | n_local_trials     | None        | from 1 on                            | candidates for each centre of k-means++; None: 2 + log k (greedy); 1: plain k-means++ |
    | algorithm          | "auto"      | "lloyd", "hamerly", "yinyang", "minibatch" | how; only "minibatch" changes the result |
    | batch_size         | 1024        | from 1 on                            | rows of a mini-batch                       |
    | max_no_improvement | 10          | from 1 on, None                      | mini-batches without a lower smoothed inertia before it ends; None: never |
    | random_state       | None        | seed                                 | of the starts and mini-batches             |
    | n_jobs             | None        | threads                              | never changes a result                     |

    Fitted: `cluster_centers_`, `labels_`, `inertia_`, `n_iter_`, `trace_` (a `Trace`: the inertia after each
    assignment), `starts_` (a `Starts`: every local optimum), `variation_` (a `ClusterVariation`: both definitions per
    cluster), `algorithm_`, `n_features_in_`, `feature_names_in_`; after `partial_fit` also `counts_`, the weight that
    each centre has seen. `describe(X)` says what the clusters are like, `plane(X)` and `silhouettes(X)` are to be drawn.

    A row of weight w counts as w rows. Sparse X stays sparse. Of equally near centres the first is taken. Unlike
    scikit-learn's, a fit that stops at `max_iter` warns.

    Lloyd (1982), Least squares quantization in PCM, IEEE Trans. Inform. Theory 28, 129-137.

    >>> X = [[1.0, 1.0], [1.0, 2.0], [9.0, 9.0], [9.0, 8.0]]
    >>> model = KMeans(n_clusters=2, random_state=0).fit(X)
    >>> sorted(model.cluster_centers_.tolist()), model.inertia_
    ([[1.0, 1.5], [9.0, 8.5]], 1.0)
    >>> int(model.predict([[8.0, 8.0]])[0]) == int(model.labels_[2])
    True
    >>> print(model.variation_)
    Within-cluster variation of 2 clusters, 4 rows
    -----------------------------------------------
             rows  inertia  over_pairs  mean_square
    cluster
    0           2      0.5           1         0.25
    1           2      0.5           1         0.25
    -----------------------------------------------
    inertia 1 (squared distances to the means); over pairs 2 (1/n_k sum of |x_i - x_j|^2, twice the inertia)
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        "n_clusters": integer(1, 2**31 - 1),
        "init": one_of(*START_METHODS)
        | array_like
        | instance_of(pd.DataFrame, "a DataFrame")
        | Constraint(callable, "a function of X, k and random_state"),
        "n_init": one_of("auto") | integer(1),
        "max_iter": integer(1),
        "tol": real(0),
        "n_local_trials": none | integer(1),
        "algorithm": one_of("auto", "lloyd", "hamerly", "yinyang", "minibatch"),
        "batch_size": integer(1),
        "max_no_improvement": none | integer(1),
        "random_state": seed,
        "n_jobs": jobs,
    }
    fit_steps = "start"
    state: ClassVar[Specs] = {
        "cluster_centers_": floats("k", "p") | array(np.float32, "k", "p"),
        "labels_": array(np.int32, "n", low=0, below="k"),
        "inertia_": real(0),
        "n_iter_": integer(1),
        "trace_": optional(part(Trace)),
        "starts_": optional(part(Starts)),
        "variation_": optional(part(ClusterVariation)),
        "algorithm_": one_of("lloyd", "hamerly", "yinyang", "minibatch"),
        "counts_": optional(floats("k", low=0)),
    }

    cluster_centers_: Array
    counts_: Array
    labels_: Array

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int | str = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        n_local_trials: int | None = None,
        algorithm: str = "auto",
        batch_size: int = 1024,
        max_no_improvement: int | None = 10,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.n_local_trials = n_local_trials
        self.algorithm = algorithm
        self.batch_size = batch_size
        self.max_no_improvement = max_no_improvement
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the clusters; rows of weight 0 get a label and have no other part in it."""
        del y
        with unchanged_on_error(self):
            best, rows = self._fit(X, sample_weight)
        self._warn(best, rows)
        return self

    def _fit(self, X: Any, sample_weight: Any) -> tuple[Run, KMeansRows]:
        table = self._table(X, reset=True)
        w = self._weights(sample_weight, table.shape[0])
        used = None if w is None or (w > 0).all() else w > 0
        kept = table if used is None else table[used]
        self._refuse_too_many(kept.shape[0])
        kept, unit = _in_units(kept)
        rows = make_rows(kept, w if used is None or w is None else w[used], self.n_jobs)
        self.algorithm_ = self._chosen(rows)
        runs = self._runs(rows, unit)
        best = runs[int(np.argmin([run.total for run in runs]))]
        self._keep(best, runs, unit, table.dtype)
        if used is not None:
            labels = np.empty(table.shape[0], dtype=np.int32)
            labels[used] = self.labels_
            labels[~used] = self._nearest(table[~used])
            self.labels_ = labels
        return best, rows

    def _table(self, X: Any, *, reset: bool) -> Any:
        table: Any = self._validate(X, reset=reset, sparse="csr", dtype=[np.float64, np.float32], order="C")
        if is_sparse(table) and not table.has_canonical_format:
            table = table.copy()
            table.sum_duplicates()
        return table

    def _refuse_too_many(self, n: int) -> None:
        if self.n_clusters > n:
            what = f"n_clusters = {self.n_clusters} exceeds the number of rows, n_samples = {n}"
            raise DataError(what, remedy="lower n_clusters or pass more rows")

    def _chosen(self, rows: KMeansRows) -> str:
        """The algorithm of "auto": bounds where a row has many centres to be compared with, more of them if dear."""
        if self.algorithm != "auto":
            return self.algorithm
        work = self.n_clusters * rows.shape[1]
        if isinstance(rows, SparseRows) or work < CHEAP:
            return "lloyd"
        return "yinyang" if work >= DEAR else "hamerly"

    def _runs(self, rows: KMeansRows, unit: float) -> list[Run]:
        """One run per start."""
        given = not isinstance(self.init, str) and not callable(self.init)
        fixed = given or (isinstance(self.init, str) and self.init == "k-means++")
        starts = (1 if fixed else 10) if self.n_init == "auto" else int(self.n_init)
        starts = 1 if given else starts  # the same start would lead to the same place
        tol = self.tol * rows.variance()

        sources = seed_sequence(self.random_state).spawn(starts)

        def run(k: int) -> Run:
            rng = np.random.default_rng(sources[k])
            C = self._start(rows, unit, rng)
            if self.algorithm_ == "minibatch":
                return mini_batches(rows, C, self.batch_size, self.max_iter, self.max_no_improvement, rng)
            return lloyd(rows, C, self.max_iter, tol, "none" if self.algorithm_ == "lloyd" else self.algorithm_)

        if isinstance(rows, DenseRows) and rows.X.size * self.n_clusters > SMALL:
            rows.sieve()  # made once, not by every start
        wide = isinstance(rows, DenseRows) and len(rows.blocks(self.n_clusters)) >= 4
        task = fit_task(self, starts, sequential=False)
        counted = side_by_side(run, starts, "starts", task=task, step=self.fit_steps)
        return [counted(k) for k in range(starts)] if wide else parallel(counted, range(starts), n_jobs=self.n_jobs)

    def _start(self, rows: KMeansRows, unit: float, rng: np.random.Generator) -> Array:
        """The first centres."""
        k = self.n_clusters
        if isinstance(self.init, str) and self.init == "k-means++":
            return plus_plus(rows, k, rng, self.n_local_trials)
        if isinstance(self.init, str):
            return START_METHODS[self.init](rows, k, rng)
        if callable(self.init):
            drawn = np.random.RandomState(int(rng.integers(0, 2**31)))
            table = rows.X if unit == 1.0 else rows.X * unit
            return self._given(self.init(table, k, random_state=drawn), rows.shape[1]) / unit
        return self._given(self.init, rows.shape[1]) / unit

    def _given(self, C: Any, columns: int) -> Array:
        """Centres that somebody else has chosen."""
        try:
            centres = np.array(C, dtype=np.float64, order="C")
        except (TypeError, ValueError) as error:
            what = "init is not an array of numbers"
            raise DataTypeError(what, remedy="give one row of numbers per centre") from error
        if centres.shape != (self.n_clusters, columns):
            what = f"init has the shape {centres.shape}, expected {(self.n_clusters, columns)}"
            raise ParameterError(what, remedy="pass one row per centre and one column per column of X")
        if not np.isfinite(centres).all():
            row, column = (int(i) for i in np.argwhere(~np.isfinite(centres))[0])
            raise ParameterError(
                f"init contains NaN or inf in row {row}, column {column}", remedy="pass finite centres"
            )
        return centres

    def _keep(self, best: Run, runs: list[Run], unit: float, dtype: Any) -> None:
        """Fitted attributes, in the units of the table."""
        square = unit * unit
        with np.errstate(over="ignore"):
            inertia, objective = best.inertia * square, best.objective * square
            totals = np.array([run.total for run in runs]) * square
        if not np.isfinite(objective).all() or not np.isfinite(totals).all():
            raise DataError("squared distances overflow", remedy="rescale X")
        self.cluster_centers_ = (best.centres * unit).astype(dtype)
        self.labels_ = best.labels
        self.inertia_ = float(inertia.sum())
        self.n_iter_ = best.n_iter
        sizes = np.bincount(best.labels, minlength=len(best.centres))
        self.variation_ = ClusterVariation(sizes, best.weight, inertia)
        self.starts_ = Starts(totals, np.array([r.n_iter for r in runs]), np.array([r.converged for r in runs]))
        why = "no label changed, or the centres moved by less than tol"
        if self.algorithm_ == "minibatch":
            why = f"{self.max_no_improvement} mini-batches in a row did not lower the smoothed inertia"
        why = why if best.converged else f"max_iter = {self.max_iter} was reached"
        self.trace_ = Trace(objective, best.converged, why)
        self.__dict__.pop("counts_", None)

    def _warn(self, best: Run, rows: KMeansRows) -> None:
        """Say that clusters are empty, and why, or that it stopped early."""
        batches = self.algorithm_ == "minibatch"
        stopped = f"KMeans stopped after max_iter = {self.max_iter} iterations"
        empty = int(np.count_nonzero(best.weight == 0))
        if empty:
            some, distinct = f"{empty} of {self.n_clusters} clusters are empty", rows.distinct()
            if distinct < self.n_clusters:
                what = f"X has only {distinct} distinct row{'s' if distinct > 1 else ''}, so {some}"
                warnings.warn(AssayWarning(f"{what}; use n_clusters={distinct}"), stacklevel=3)
            elif batches:
                warnings.warn(AssayWarning(f"{some}; use fewer clusters, or algorithm='auto'"), stacklevel=3)
            else:
                warnings.warn(ConvergenceWarning(f"{stopped}, and {some}; raise max_iter"), stacklevel=3)
        elif not best.converged and not batches:
            warnings.warn(ConvergenceWarning(f"{stopped}; raise max_iter or tol"), stacklevel=3)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Move the centres by one mini-batch; they go on from `fit`, or start with the batch, which has k rows then."""
        del y
        with unchanged_on_error(self):
            self._partial_fit(X, sample_weight)
        return self

    def _partial_fit(self, X: Any, sample_weight: Any) -> None:
        first = not hasattr(self, "cluster_centers_")
        table = self._table(X, reset=first)
        w = self._weights(sample_weight, table.shape[0])
        used = np.ones(table.shape[0], dtype=bool) if w is None else w > 0
        kept = table if used.all() else table[used]
        if first:
            self._refuse_too_many(kept.shape[0])
            unit = _unit_of(_largest(table))
        else:
            self._check_parameters()
            if self.n_clusters != len(self.cluster_centers_):
                what = f"n_clusters = {self.n_clusters}, but the centres so far are {len(self.cluster_centers_)}"
                raise ParameterError(what, remedy="start anew, clone(model).partial_fit(X)")
            unit = _unit_of(max(_largest(table), float(np.abs(self.cluster_centers_).max())))
        rows = make_rows(kept if unit == 1.0 else kept / unit, None if w is None else w[used], self.n_jobs)
        if first:
            rng = np.random.default_rng(seed_sequence(self.random_state))
            C, counts = self._start(rows, unit, rng), np.zeros(self.n_clusters)
        else:
            C = np.array(self.cluster_centers_, dtype=np.float64) / unit
            counts = self.counts_ if hasattr(self, "counts_") else self.variation_.weight
        C, self.counts_, _ = batch_step(rows, C, counts)
        self.cluster_centers_ = (C * unit).astype(table.dtype)
        self.inertia_ = float(rows.one_pass(C, rows.start()).inertia.sum()) * unit * unit
        self.labels_ = self._nearest(table)
        self.n_iter_ = 1 if first else self.n_iter_ + 1
        self.algorithm_ = "minibatch"
        for name in ("trace_", "starts_", "variation_"):
            self.__dict__.pop(name, None)

    def describe(self, X: Any, left_out: Any = None, *, alpha: float = 0.05) -> ClusterProfile:
        """The clusters of these rows in words of the table (`describe_clusters`); columns left out are tested.

        X has the units of `fit`. Of a table that was standardised first, `describe_clusters(table, labels_)` describes
        the columns in their own units.
        """
        return describe_clusters(X, self.predict(X), left_out=left_out, alpha=alpha)

    def silhouettes(self, X: Any) -> Silhouettes:
        """The silhouettes of these rows, to print and to draw."""
        return silhouettes(X, self.predict(X))

    def plane(self, X: Any) -> ClusterPlane:
        """These rows and the centres in the plane of two columns or of the first two principal axes, to be drawn."""
        table = self._table(X, reset=False)
        if is_sparse(table):
            raise DataTypeError("X is sparse", remedy="pass X.toarray(), or a part of its rows and columns")
        return cluster_plane(table, self._nearest(table), self.cluster_centers_, self._feature_names())

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def _nearest(self, table: Any) -> Array:
        rows, C, _ = self._scaled(table)
        known = rows.start()
        rows.one_pass(C, known)
        return known.labels

    def _scaled(self, table: Any, w: Array | None = None) -> tuple[KMeansRows, Array, float]:
        """Rows and centres in a unit in which their squares neither overflow nor vanish, and the unit."""
        C = np.array(self.cluster_centers_, dtype=np.float64)
        unit = _unit_of(max(_largest(table), float(np.abs(C).max())))
        return make_rows(table / unit if unit != 1.0 else table, w, self.n_jobs), C / unit, unit

    def predict(self, X: Any) -> Array:
        """The cluster with the nearest centre, of several the first."""
        return self._nearest(self._table(X, reset=False))

    def transform(self, X: Any) -> Array:
        """Distances of the rows to all centres, one column per cluster."""
        table = self._table(X, reset=False)
        rows, C, unit = self._scaled(table)
        return (rows.distances(C) * unit).astype(table.dtype, copy=False)

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, then distances of the same rows."""
        return self.fit(X, y, sample_weight).transform(X)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, then the labels of the same rows."""
        return self.fit(X, y, sample_weight).labels_

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the inertia of the rows: greater is better."""
        del y
        table = self._table(X, reset=False)
        rows, C, unit = self._scaled(table, self._weights(sample_weight, table.shape[0]))
        return -float(rows.one_pass(C, rows.start()).inertia.sum()) * unit * unit


def _largest(table: Any) -> float:
    values: Array = table.data if is_sparse(table) else table
    return float(max(values.max(initial=0.0), -values.min(initial=0.0)))


def _unit_of(largest: float) -> float:
    """One at any usual scale; otherwise the power of two next above."""
    return 1.0 if largest == 0.0 or 1e-60 < largest < 1e60 else float(power_of_two(largest))


def _in_units(table: Any) -> tuple[Any, float]:
    unit = _unit_of(_largest(table))
    return (table if unit == 1.0 else table / unit), unit
