"""Support vector classification: the widest margin between two classes, in the features of a kernel (row B7).

    min  |w|^2 / 2 + sum_i C_i max(0, 1 - y_i (<w, phi(x_i)> + b)),      w = sum_i beta_i phi(x_i)

Two classes are y = -1 and 1; beta_i = alpha_i y_i of the dual (see `_dual` for it, its solvers and how the bias is
recovered). Rows beyond the margin have beta = 0, rows on it 0 < |beta| < C_i, rows inside it or on the wrong side
|beta| = C_i; those with beta other than 0 are the support vectors, and the model is made of them alone. 1/|w| is the
half-width of the margin. C = inf is the hard margin: no row inside, or a proof that there is no such margin. More
classes vote one against one. The slack of a row is xi_i = max(0, 1 - y_i f(x_i)).

Cost: a few rows of the Gram matrix for each support vector, n p multiply-adds each, and O(n) for a step; memory within
`cache_size`. Prediction: one matrix product of the new rows with the support vectors.

Cortes, Vapnik (1995), Machine Learning 20, 273-297; Fan, Chen, Lin (2005), JMLR 6, 1889-1918.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if

from assay.base import Constraint, boolean, instance_of, jobs, none, one_of, real, seed
from assay.calibration.maps import LogisticMap, apply_maps, fit_maps, score_table
from assay.errors import DataError, ParameterError
from assay.labels import class_codes, class_factors
from assay.margin._dual import Dual
from assay.margin._machine import POSITIVE, KernelMachine, Machine, Source
from assay.margin._margins import MarginRegions, Margins, margins_of, regions_of
from assay.margin._separable import refuse_indefinite, refuse_inseparable
from assay.margin._trace import SolverTrace
from assay.margin.kernels import Linear as LinearKernel
from assay.margin.scalings import c_for_budget
from assay.numerics.separation import Overlap, Separation, separate
from assay.numerics.threads import parallel, workers
from assay.resampling import group_codes, splits_of, take, whole_groups
from assay.state import Specs, anything, classes, floats, ints, left_out, need, optional, part, several

__all__ = ["SVC", "class_scores", "has_probabilities"]

Array = np.ndarray
CROSS_FIT = 5
"""Folds whose scores the probabilities are calibrated to."""


def has_probabilities(model: Any) -> bool:
    """Whether `probability` was asked for."""
    if not model.probability:
        raise AttributeError("predict_proba needs probability=True")
    return True


class SVC(ClassifierMixin, KernelMachine):
    """The widest margin between two classes in the features of a kernel; more classes vote one against one.

        min |w|^2 / 2 + sum_i C_i max(0, 1 - y_i f(x_i)),    f(x) = sum_i beta_i k(x_i, x) + b

    As scikit-learn's, with these differences: `cache_size` is 1000 MB, `max_iter` = -1 caps the steps at a million (or
    a hundred per row) and says what gap is left, probabilities are cross-fitted and `predict` agrees with them, and up to
    1,000 rows the optimum is exact.

    | parameter       | default       | range                               | meaning                                    |
    |-----------------|---------------|-------------------------------------|--------------------------------------------|
    | C               | 1.0           | above 0, inf                        | price of slack; inf: hard margin           |
    | kernel          | "rbf"         | "linear", "poly", "sigmoid", "laplacian", "cosine", "chi2", "additive_chi2", "precomputed", Kernel, function | k |
    | degree          | 3             | from 1 on                           | of "poly"                                  |
    | gamma           | "scale"       | above 0, "auto"                     | rate of the kernel; 1/(p var X), or 1/p; "chi2": 1 |
    | coef0           | 0.0           | finite                              | of "poly" and "sigmoid"                    |
    | shrinking       | True          | True, False                         | leave rows out that cannot move            |
    | probability     | False         | True, False                         | calibrate scores of 5 folds                |
    | tol             | 1e-3          | above 0                             | KKT violation at which to stop             |
    | cache_size      | 1000          | above 0                             | MB of kernel rows kept                     |
    | class_weight    | None          | "balanced", dict                    | factors of C by class                      |
    | max_iter        | -1            | from -1 on                          | steps; -1: as above                        |
    | decision_function_shape | "ovr" | "ovo"                               | scores by class, or by pair of classes     |
    | break_ties      | False         | True, False                         | tied votes by the scores of "ovr"          |
    | random_state    | None          | seed                                | order of "dual_ascent"                     |
    | solver          | "auto"        | "smo", "working_set", "dual_ascent" | auto: pairs up to 2,000 rows, then sets    |
    | order           | "epochs"      | "uniform"                           | rows of "dual_ascent": permuted or drawn   |
    | bias            | "unpenalised" | "augmented", "none"                 | b free, as a column of ones (k + 1), or 0  |
    | slack_budget    | None          | from 0 on                           | total slack allowed; C follows from it     |
    | n_jobs          | None          | threads                             | pairs at a time; never changes a result    |

    Fitted: `classes_`, `support_`, `support_vectors_`, `n_support_`, `dual_coef_`, `intercept_`, `coef_` (linear
    kernel), `kernel_`, `C_`, `margin_` (half-widths 1/|w|), `dual_gap_`, `violation_`, `n_iter_`, `trace_` (of the pair
    with the most steps), `n_features_in_`, `feature_names_in_`. `margins(X, y)` gives slacks and distances,
    `regions(X, y)` a picture of two columns.

    A row of weight w has w C in the place of C, as if it were there w times.

    Cortes, Vapnik (1995), Support-vector networks, Machine Learning 20, 273-297.

    >>> X, y = [[0.0, 0.0], [1.0, 1.0], [3.0, 3.0], [4.0, 4.0]], ["a", "a", "b", "b"]
    >>> model = SVC(kernel="linear", C=float("inf")).fit(X, y)
    >>> model.predict([[1.5, 1.0], [3.0, 2.0]]).tolist(), model.support_.tolist()
    (['a', 'b'], [1, 2])
    >>> model.margin_.round(4).tolist(), model.coef_.round(4).tolist(), model.intercept_.round(4).tolist()
    ([1.4142], [[0.5, 0.5]], [-2.0])
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        **KernelMachine.constraints,
        "C": POSITIVE,
        "probability": boolean,
        "class_weight": none | one_of("balanced") | instance_of(dict, "a dict of weights by class"),
        "decision_function_shape": one_of("ovr", "ovo"),
        "break_ties": boolean,
        "random_state": seed,
        "order": one_of("epochs", "uniform"),
        "slack_budget": none | real(0),
        "n_jobs": jobs,
    }
    state: ClassVar[Specs] = {
        "classes_": classes("k"),
        "support_": ints("m"),
        "n_support_": ints("k"),
        "dual_coef_": floats("k1", "m"),
        "intercept_": floats("machines"),
        "margin_": floats("machines", low=0, finite=False),
        "C_": anything,
        "trace_": part(SolverTrace),
        "coef_": optional(floats("machines", "p")),
        "calibrators_": optional(several(part(LogisticMap), kind=tuple)),
        "_pairs": left_out(),
    }

    def _check_state(self) -> None:
        super()._check_state()
        k = self.classes_.size
        need(self.intercept_.size == k * (k - 1) // 2 and self.dual_coef_.shape[0] == k - 1)
        need(int(self.n_support_.sum()) == self.support_.size)

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: bool = False,
        tol: float = 1e-3,
        cache_size: float = 1000,
        class_weight: Any = None,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        solver: str = "auto",
        order: str = "epochs",
        bias: str = "unpenalised",
        slack_budget: float | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.solver = solver
        self.order = order
        self.bias = bias
        self.slack_budget = slack_budget
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Solve one dual for each pair of classes; rows of weight 0 are as if they were not there.

        Rows of a group stay in one fold where probabilities are calibrated.
        """
        rows = self._read(X)
        n = rows.shape[0]
        w = self._weights(sample_weight, n)
        self.classes_, codes = class_codes(y, n, w)
        price = class_factors(self.class_weight, self.classes_, codes, w)[codes] * (1.0 if w is None else w)
        source = self._source(rows, w)
        machines, members = self._fit_pairs(rows, source, codes, price)
        self._report(machines)
        self._keep(rows, codes, machines, members)
        if self.probability:
            self._calibrate(rows, codes, w, price, group_codes(groups, n))
        return self

    # Fitting.

    def _fit_pairs(self, X: Any, source: Source, codes: Array, price: Array) -> tuple[list[Machine], list[Array]]:
        """The machine of each pair of classes, and its rows."""
        K = self.classes_.size
        pairs = list(combinations(range(K), 2))
        if self.slack_budget is not None and K > 2:
            raise ParameterError(f"slack_budget is for two classes, y has {K}", remedy="pass C instead")
        counted = price > 0
        members = [np.flatnonzero(counted & ((codes == a) | (codes == b))) for a, b in pairs]
        for (a, b), rows in zip(pairs, members, strict=True):
            for k in (a, b):
                if not (codes[rows] == k).any():
                    what = f"class {self.classes_.tolist()[k]!r} has no row with a weight above 0"
                    raise DataError(what, remedy="give it a positive class_weight, or drop its rows")
        threads = min(workers(self.n_jobs), len(pairs))

        def fit(task: int) -> Machine:
            (_, b), rows = pairs[task], members[task]
            # With two classes the second is positive, with more the first of each pair, as in scikit-learn.
            y = np.where((codes[rows] == b) == (K == 2), 1.0, -1.0)
            inner = source if rows.size == source.n else source.take(rows)
            names = [self.classes_.tolist()[k] for k in pairs[task]]
            return self._fit_one(inner, y, price[rows], rows, threads, names, lambda: self._overlap(X, rows, y))

        if K == 2:  # not as a task, so that matrix products may use all cores
            return [fit(0)], members
        return parallel(fit, range(len(pairs)), n_jobs=self.n_jobs), members

    def _overlap(self, X: Any, rows: Array, y: Array) -> Separation | Overlap | None:
        """A line that separates the classes, or the rows that prove that none does; of the linear kernel only."""
        if not isinstance(self.kernel_, LinearKernel):
            return None
        found = separate(take(X, rows), y > 0, intercept=self.bias != "none")
        return replace(found, rows=rows[found.rows]) if isinstance(found, Overlap) else found

    def _fit_one(
        self, source: Source, y: Array, price: Array, rows: Array, share: int, names: list[Any], proof: Any
    ) -> Machine:
        def at(C: float, start: Any = None) -> Machine:
            bound = C * price if np.isfinite(C) else np.full(y.size, np.inf)
            dual = Dual(y, 0.0, np.where(y > 0, 0.0, -bound), np.where(y > 0, bound, 0.0), self.bias == "unpenalised")
            if np.inf == C:
                refuse_indefinite(source, self.kernel_)
            made = self._solve(source, dual, share=share, start=start)
            if np.inf == C:
                refuse_inseparable(source, y, rows, made, names, proof)
            return made

        if self.slack_budget is None:
            self.C_ = float(self.C)
            return at(self.C_)
        self.C_, made = c_for_budget(at, y, price, float(self.slack_budget))
        return made

    def _keep(self, X: Any, codes: Array, machines: list[Machine], members: list[Array]) -> None:
        """Support vectors of all pairs, by class; coefficients in scikit-learn's layout."""
        n, K = codes.size, self.classes_.size
        full = np.zeros((len(machines), n))
        for m, (machine, rows) in enumerate(zip(machines, members, strict=True)):
            full[m, rows] = machine.beta
        used = np.flatnonzero(np.any(full != 0, axis=0))
        order = used[np.argsort(codes[used], kind="stable")]
        self.support_ = order.astype(np.int64)
        self.n_support_ = np.bincount(codes[order], minlength=K).astype(np.int64)
        self.dual_coef_ = np.zeros((K - 1, order.size))
        at = {pair: m for m, pair in enumerate(combinations(range(K), 2))}
        for k in range(K):
            mine = np.flatnonzero(codes[order] == k)
            for line, other in enumerate(j for j in range(K) if j != k):
                self.dual_coef_[line, mine] = full[at[min(k, other), max(k, other)], order[mine]]
        self.intercept_ = np.array([machine.bias for machine in machines])
        with np.errstate(divide="ignore"):
            self.margin_ = 1.0 / np.sqrt([machine.norm for machine in machines])
        self.trace_ = max(machines, key=lambda machine: machine.trace.n_iter).trace
        self._hold(X, self.support_)
        if isinstance(self.kernel_, LinearKernel):
            self._add_weights()

    def _add_weights(self) -> None:
        """The weights of a linear kernel, and the bias for rows that are not centred."""
        vectors = self.support_vectors_
        mean = self._centre()
        self.coef_ = np.asarray(vectors.T @ self._pairs).T.reshape(self.intercept_.size, -1)
        if mean is not None:
            self.coef_ = ((vectors - mean).T @ self._pairs).T
            self.intercept_ = self.intercept_ - self.coef_ @ mean

    def _restore(self) -> None:
        super()._restore()
        K = self.classes_.size
        starts = np.concatenate([[0], np.cumsum(self.n_support_)])
        self._pairs = np.zeros((self.support_.size, self.intercept_.size))
        for m, (a, b) in enumerate(combinations(range(K), 2)):
            for k, other in ((a, b), (b, a)):
                mine = slice(starts[k], starts[k + 1])
                self._pairs[mine, m] = self.dual_coef_[other - (other > k), mine]

    # Probabilities.

    def _calibrate(self, X: Any, codes: Array, w: Array | None, price: Array, groups: Array | None) -> None:
        """Maps from scores to probabilities, fitted to the scores of rows that were left out."""
        if self._pairwise():
            what = "probability = True needs to leave rows out, which a precomputed Gram matrix does not allow here"
            raise ParameterError(what, remedy="pass a kernel, or wrap the model in CalibratedClassifier")
        if w is not None and not w.all():
            kept = np.flatnonzero(w)
            X, codes, w, price = take(X, kept), codes[kept], w[kept], price[kept]
            groups = None if groups is None else groups[kept]
        splits = splits_of(whole_groups(CROSS_FIT, groups, stratify=True), X, codes, groups=groups, classes=True)
        base = clone(self).set_params(probability=False, decision_function_shape="ovr", class_weight=None)

        def held_out(task: int) -> Array:
            train, test = splits[task]
            if np.unique(codes[train]).size < self.classes_.size:
                what = f"probability = True needs each class in every training fold, and fold {task} lacks one"
                raise DataError(what, remedy="pass more rows of each class, or probability=False")
            model = clone(base).fit(take(X, train), codes[train], price[train])
            return score_table(model.decision_function(take(X, test)), self.classes_.size, "the score")

        tables = parallel(held_out, range(len(splits)), n_jobs=self.n_jobs)
        tests = np.concatenate([test for _, test in splits])
        part = None if w is None and self.class_weight is None else price[tests]
        self.calibrators_ = fit_maps(np.concatenate(tables), codes[tests], self.classes_, part, "logistic")

    @available_if(has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Calibrated probabilities in the order of `classes_`; with `probability=True` only."""
        return self._probabilities(self._pair_scores(X))

    def _probabilities(self, pairs: Array) -> Array:
        scores = self._class_scores(pairs)
        return apply_maps(self.calibrators_, scores.reshape(len(scores), -1))

    @available_if(has_probabilities)
    def predict_log_proba(self, X: Any) -> Array:
        """Their logarithms."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    # Prediction.

    def _pair_scores(self, X: Any) -> Array:
        """f(x) of each pair of classes."""
        rows = self._read(X, reset=False)
        if hasattr(self, "coef_"):
            return np.asarray(rows @ self.coef_.T) + self.intercept_
        return self._scores(rows, self._pairs, self.intercept_)

    def _class_scores(self, pairs: Array) -> Array:
        """Scores by class: the second of two, else votes with the sum of confidences to break ties."""
        K = self.classes_.size
        return pairs[:, 0] if K == 2 else class_scores(pairs, K, ties=True)

    def decision_function(self, X: Any) -> Array:
        """Signed scores: for two classes f(x), else votes of each class ("ovr") or f of each pair ("ovo")."""
        pairs = self._pair_scores(X)
        if self.classes_.size == 2:
            return pairs[:, 0]
        return pairs if self.decision_function_shape == "ovo" else self._class_scores(pairs)

    def predict(self, X: Any) -> Array:
        """The class with most votes, of several the first (of two: the sign of f); with `probability` the likeliest."""
        pairs = self._pair_scores(X)
        if self.probability:
            codes = np.argmax(self._probabilities(pairs), axis=1)
        elif self.classes_.size == 2:
            codes = (pairs[:, 0] > 0).astype(np.int64)
        elif self.break_ties:
            codes = np.argmax(self._class_scores(pairs), axis=1)
        else:
            codes = np.argmax(class_scores(pairs, self.classes_.size), axis=1)
        return self.classes_[codes]

    def margins(self, X: Any, y: Any) -> Margins:
        """Slacks, signed distances and where each row lies: beyond the margin, on it, inside, or on the wrong side."""
        return margins_of(self, self._pair_scores(X), y)

    def regions(self, X: Any, y: Any) -> MarginRegions:
        """A picture of two columns: regions, margins and support vectors; call `.plot()` on it."""
        return regions_of(self, X, y)


def class_scores(pairs: Array, K: int, *, ties: bool = False) -> Array:
    """Votes of each class by the scores of all pairs; with `ties` the sum of confidences breaks ties."""
    votes, sums = np.zeros((len(pairs), K)), np.zeros((len(pairs), K))
    if K == 2:  # the second class is the positive one
        votes[:, 1] = pairs[:, 0] > 0
        votes[:, 0] = 1 - votes[:, 1]
        return votes
    for m, (a, b) in enumerate(combinations(range(K), 2)):
        votes[:, a] += pairs[:, m] > 0
        votes[:, b] += pairs[:, m] <= 0
        sums[:, a] += pairs[:, m]
        sums[:, b] -= pairs[:, m]
    return votes + sums / (3.0 * (np.abs(sums) + 1.0)) if ties else votes
