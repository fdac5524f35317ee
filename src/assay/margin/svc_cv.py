"""The whole grid of C and gamma with cross-validation in one call (row B7).

For each gamma there is one Gram matrix of all rows, in single precision, shared by all C, folds and pairs of classes. A
fold trains with the coefficients of its held-out rows fixed at zero, so the scores of these rows are kept up to date
like all others and cost nothing. Along C each solution starts from the last one. Cost: one Gram matrix for each gamma,
and O(n) for a step; folds and pairs run in parallel threads.

Hsu, Chang, Lin (2003), A practical guide to support vector classification; Breiman et al. (1984) for the rule of one
standard error.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, Estimator, array_like, boolean, instance_of, integer, jobs, none, one_of, real, seed
from assay.errors import ConvergenceWarning, DataError, ParameterError
from assay.labels import class_codes, class_factors
from assay.margin._dual import Dual, solve
from assay.margin._machine import KernelMachine, scale_rate, unit_of, wide_columns
from assay.margin._margins import MarginRegions, Margins, margins_of, regions_of
from assay.margin.kernels import named
from assay.margin.svc import SVC, class_scores, has_probabilities
from assay.numbers import fmt
from assay.numerics.threads import parallel
from assay.resampling import (
    Holdout,
    cv_mean_and_error,
    folds_constraint,
    group_codes,
    one_standard_error,
    splits_of,
    whole_groups,
)
from assay.results import Result
from assay.state import Specs, anything, classes, part, values

__all__ = ["SVCCV", "CGammaMap"]

Array = np.ndarray
LARGEST = 12_000
"""Rows up to which all choose C and gamma; of more, so many are drawn (a Gram matrix of 576 MB)."""
CS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
FACTORS = (0.01, 0.1, 0.3162, 1.0, 3.162, 10.0)
"""The default grid; gammas are these times 1 / (p var X)."""


@dataclass(frozen=True, eq=False, repr=False)
class CGammaMap(Result):
    """Cross-validated error rate by gamma (rows) and C (columns), its standard error, and what was chosen.

    `best` and `one_se` are places (gamma, C) of the least error and of the simplest machine within one standard error
    of it: the smallest C, then the smallest gamma.
    """

    Cs: Array
    gammas: Array
    error: Array
    std_error: Array
    best: tuple[int, int]
    one_se: tuple[int, int]
    rule: str
    n_folds: int

    state: ClassVar[Specs] = {
        "Cs": values("c"),
        "gammas": values("g"),
        "error": values("g", "c"),
        "std_error": values("g", "c"),
    }

    @property
    def chosen(self) -> tuple[int, int]:
        """The place that the rule asks for."""
        return self.best if self.rule == "min" else self.one_se

    def to_frame(self) -> pd.DataFrame:
        """One row for each cell of the grid: C, gamma, error, std_error."""
        gamma, C = np.meshgrid(self.gammas, self.Cs, indexing="ij")
        columns = {"C": C.ravel(), "gamma": gamma.ravel(), "error": self.error.ravel()}
        return pd.DataFrame({**columns, "std_error": self.std_error.ravel()})

    def __str__(self) -> str:
        lines = [f"Error rate in {self.n_folds} folds, {self.Cs.size} values of C and {self.gammas.size} of gamma"]
        for name, (g, c) in (("least", self.best), ("one-SE", self.one_se)):
            where = f"C = {fmt(self.Cs[c], 4)}, gamma = {fmt(self.gammas[g], 4)}"
            lines.append(f"{name:<7} {self.error[g, c]:.4f} (standard error {self.std_error[g, c]:.4f}) at {where}")
        g, c = self.chosen
        lines.append(f'chosen  C = {fmt(self.Cs[c], 4)}, gamma = {fmt(self.gammas[g], 4)} (rule "{self.rule}")')
        lines.insert(1, "-" * max(map(len, lines)))
        return "\n".join(lines)


class _Shared:
    """A whole Gram matrix as one solver sees it; several may read it at once."""

    def __init__(self, K: Array, diagonal: Array) -> None:
        self.K, self.diagonal, self.n, self.capacity = K, diagonal, len(K), len(K)
        self.slot, self.stamp = np.arange(len(K)), np.zeros(len(K), dtype=np.int64)
        self.scale, self.evaluations, self.whole = 1.0, 0, True

    def fetch(self, rows: Array) -> None:
        """All rows are at hand."""


class SVCCV(ClassifierMixin, Estimator):
    """Support vector classification with C and gamma chosen by cross-validation over a grid, all folds in one call.

        error(C, gamma) = mean over the folds of the share of held-out rows that are misclassified

    | parameter    | default | range                                   | meaning                                           |
    |--------------|---------|-----------------------------------------|---------------------------------------------------|
    | Cs           | None    | numbers above 0                         | None: 0.01, 0.1, ..., 1000                        |
    | gammas       | None    | numbers above 0                         | None: 1/(p var X) times 0.01, 0.1, .3, 1, 3, 10   |
    | kernel       | "rbf"   | "linear", "poly", "sigmoid", "laplacian" | k; "linear" has no gamma                         |
    | degree       | 3       | from 1 on                               | of "poly"                                         |
    | coef0        | 0.0     | finite                                  | of "poly" and "sigmoid"                           |
    | cv           | 5       | from 2 on, a splitter, pairs            | folds; a number means shuffled, stratified ones   |
    | rule         | "min"   | "1se"                                   | least error, or the simplest within one standard error |
    | class_weight | None    | "balanced", dict                        | factors of C by class                             |
    | tol          | 1e-3    | above 0                                 | KKT violation at which to stop                    |
    | max_iter     | -1      | from -1 on                              | steps of a fit; -1: a million, or a hundred per row |
    | cache_size   | 1000    | above 0                                 | MB of kernel rows kept in the last fit            |
    | probability  | False   | True, False                             | calibrated probabilities of the chosen machine    |
    | random_state | 0       | seed                                    | of the folds                                      |
    | n_jobs       | None    | threads                                 | folds at a time; never changes a result           |

    Fitted: `C_`, `gamma_`, `cv_map_` (a `CGammaMap`: table, picture), `machine_` (the `SVC` of all rows), `classes_`,
    `n_features_in_`, `feature_names_in_`. A row of weight w counts w times, in the fits and in the error. Of more than
    12,000 rows so many, drawn by class, choose C and gamma; the last fit is to all.

    Hsu, Chang, Lin (2003), A practical guide to support vector classification.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVCCV(Cs=[0.1, 1.0, 10.0], gammas=[0.01, 0.1]).fit(X, y)
    >>> print(model.cv_map_)
    Error rate in 5 folds, 3 values of C and 2 of gamma
    --------------------------------------------------------------
    least   0.0200 (standard error 0.0082) at C = 10, gamma = 0.01
    one-SE  0.0200 (standard error 0.0082) at C = 10, gamma = 0.01
    chosen  C = 10, gamma = 0.01 (rule "min")
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        "Cs": none | array_like,
        "gammas": none | array_like,
        "kernel": one_of("rbf", "linear", "poly", "sigmoid", "laplacian"),
        **{name: KernelMachine.constraints[name] for name in ("degree", "coef0", "tol", "cache_size")},
        "cv": folds_constraint,
        "rule": one_of("min", "1se"),
        "class_weight": none | one_of("balanced") | instance_of(dict, "a dict of weights by class"),
        "max_iter": integer(-1),
        "probability": boolean,
        "random_state": seed,
        "n_jobs": jobs,
    }
    state: ClassVar[Specs] = {
        "classes_": classes("k"),
        "C_": anything,
        "gamma_": anything,
        "cv_map_": part(CGammaMap),
        "machine_": part(SVC, "k", "p"),
        "n_iter_": anything,
        "_unit": real(0, open_low=True),
    }

    def __init__(
        self,
        *,
        Cs: Any = None,
        gammas: Any = None,
        kernel: str = "rbf",
        degree: int = 3,
        coef0: float = 0.0,
        cv: Any = 5,
        rule: str = "min",
        class_weight: Any = None,
        tol: float = 1e-3,
        max_iter: int = -1,
        cache_size: float = 1000,
        probability: bool = False,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.Cs = Cs
        self.gammas = gammas
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.cv = cv
        self.rule = rule
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.probability = probability
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit every cell of the grid in every fold, choose, and fit all rows; rows of a group stay in one fold."""
        rows = self._validate(X, sparse="csr", order="C")
        n = rows.shape[0]
        w = self._weights(sample_weight, n)
        self.classes_, codes = class_codes(y, n, w)
        if isinstance(rows, np.ndarray):
            wide_columns(self, rows)
        self._unit = unit_of(rows) if self.gammas is None and self.kernel != "linear" else 1.0
        rows = rows if self._unit == 1.0 else rows * self._unit
        Cs, gammas = self._grid(rows, w)
        weight = np.ones(n) if w is None else w
        price = class_factors(self.class_weight, self.classes_, codes, w)[codes] * weight
        together = group_codes(groups, n)
        drawn = self._drawn(codes)
        chosen = slice(None) if drawn is None else drawn
        part_w = None if w is None else w[chosen]
        table, labels = (rows, codes) if drawn is None else (rows[drawn], codes[drawn])
        splits = self._splits(table, labels, part_w, together if together is None else together[chosen])
        errors, weights = self._errors(table, labels, price[chosen], weight[chosen], splits, Cs, gammas)
        self.cv_map_ = self._choose(errors, weights, Cs, gammas)
        g, c = self.cv_map_.chosen
        self.C_, self.gamma_ = float(Cs[c]), float(gammas[g])  # of the table times the unit, a power of two
        weights_by_code = dict(enumerate(class_factors(self.class_weight, self.classes_, codes, w).tolist()))
        self.machine_ = SVC(
            C=self.C_, gamma=self.gamma_, kernel=self.kernel, degree=self.degree, coef0=self.coef0, tol=self.tol,
            class_weight=weights_by_code, cache_size=self.cache_size, max_iter=self.max_iter, n_jobs=self.n_jobs,
            probability=self.probability,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*varies more than.*")  # said above
            self.machine_.fit(rows, codes if w is None else np.where(w > 0, codes, codes[np.argmax(w)]), w, together)
        self.machine_.classes_ = self.classes_
        self.machine_.n_jobs = None  # how it was fitted is no part of the model
        self.n_iter_ = int(self.machine_.n_iter_.max())
        return self

    def settled(self) -> SVCCV | SVC:
        """An unfitted machine with the chosen C and gamma; of extreme units, this grid with C alone chosen."""
        check_is_fitted(self)
        power = {"linear": 0, "laplacian": 1}.get(self.kernel, 2)
        gamma = self.gamma_ * self._unit**power  # of the table as it is given
        if not 1e-300 < gamma < 1e300:
            return clone(self).set_params(Cs=[self.C_])
        return SVC(
            C=self.C_, gamma=gamma, kernel=self.kernel, degree=self.degree, coef0=self.coef0, tol=self.tol,
            class_weight=self.class_weight, cache_size=self.cache_size, max_iter=self.max_iter, n_jobs=self.n_jobs,
            probability=self.probability,
        )  # fmt: skip

    def _grid(self, X: Any, w: Array | None) -> tuple[Array, Array]:
        Cs = _values(CS if self.Cs is None else self.Cs, "Cs")
        if self.kernel == "linear":
            return Cs, np.ones(1)
        if self.gammas is not None:
            return Cs, _values(self.gammas, "gammas")
        return Cs, np.minimum(np.array(FACTORS) * scale_rate(X, w), 1e300)

    def _drawn(self, codes: Array) -> Array | None:
        """The rows that choose C and gamma: all, or so many that a Gram matrix fits, by class."""
        if codes.size <= LARGEST:
            return None
        if not isinstance(self.cv, int | np.integer):
            what = (
                f"cv lists row numbers, but only {LARGEST:,} of the {codes.size:,} rows are used to choose C and gamma"
            )
            raise DataError(what, remedy="pass a number of folds as cv")
        splitter = Holdout(LARGEST / codes.size, stratify=True, random_state=self.random_state)
        return np.sort(next(iter(splitter.split(codes[:, None], codes)))[1])

    def _splits(self, X: Any, codes: Array, w: Array | None, groups: Array | None) -> Any:
        """The folds; a number of them splits the rows that have weight."""
        if w is None or w.all() or not isinstance(self.cv, int | np.integer):
            cv = whole_groups(self.cv, groups, stratify=True, random_state=self.random_state)
            return splits_of(cv, X, codes, groups=groups, classes=True, random_state=self.random_state)
        kept = np.flatnonzero(w)
        part = None if groups is None else groups[kept]
        cv = whole_groups(self.cv, part, stratify=True, random_state=self.random_state)
        inside = splits_of(cv, X[kept], codes[kept], groups=part, classes=True, random_state=self.random_state)
        return [(kept[train], kept[test]) for train, test in inside]

    def _errors(
        self, X: Any, codes: Array, price: Array, weight: Array, splits: Any, Cs: Array, gammas: Array
    ) -> tuple[Array, Array]:
        """Error rates (folds, gammas, Cs) and the weight of each fold."""
        K = self.classes_.size
        pairs = list(combinations(range(K), 2))
        for k, (train, test) in enumerate(splits):
            if np.unique(codes[train][price[train] > 0]).size < K:
                what = f"the training rows of fold {k} lack a class"
                raise DataError(what, remedy="use fewer folds (cv), or pass more rows of each class")
            if not weight[test].any():
                raise DataError(f"the test rows of fold {k} have no weight", remedy="pass other folds as cv")
        tasks = [(fold, pair) for fold in range(len(splits)) for pair in range(len(pairs))]
        errors = np.empty((len(splits), gammas.size, Cs.size))
        capped = 0
        for g, gamma in enumerate(gammas):
            gram = self._gram(X, float(gamma))

            def path(task: tuple[int, int], gram: _Shared = gram) -> tuple[Array, int]:
                fold, pair = task
                train, test = splits[fold]
                return _along(gram, codes, price, train, test, pairs[pair], K, Cs, self.tol, self.max_iter)

            made = parallel(path, tasks, n_jobs=self.n_jobs)
            capped += sum(stopped for _, stopped in made)
            for fold, (_, test) in enumerate(splits):
                scores = np.stack([made[fold * len(pairs) + pair][0] for pair in range(len(pairs))], axis=2)
                for c in range(Cs.size):
                    wrong = np.argmax(class_scores(scores[c], K), axis=1) != codes[test]
                    errors[fold, g, c] = np.average(wrong, weights=weight[test])
        if capped:
            what = f"{capped} fits of the grid stopped at max_iter steps; raise max_iter, or leave the largest C out"
            warnings.warn(what, ConvergenceWarning, stacklevel=4)
        return errors, np.array([weight[test].sum() for _, test in splits])

    def _gram(self, X: Any, gamma: float) -> _Shared:
        kernel = named(self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0)
        top = float(np.abs(X.data if not isinstance(X, np.ndarray) else X).max(initial=0.0))
        single = 1e-15 < top < 1e15
        if isinstance(X, np.ndarray) and self.kernel in ("rbf", "laplacian", "linear"):
            X = X - X.mean(axis=0)
        held = kernel.prepare(X.astype(np.float32) if single else X)
        K = held.block()
        diagonal = np.asarray(held.diagonal, dtype=np.float64)
        if K.dtype == np.float32:
            return _Shared(K, diagonal)
        scale = max(float(np.abs(diagonal).max()), 1e-300)
        shared = _Shared((K / scale).astype(np.float32), diagonal / scale)
        shared.scale = scale
        return shared

    def _choose(self, errors: Array, weights: Array, Cs: Array, gammas: Array) -> CGammaMap:
        mean, error = cv_mean_and_error(errors, weights)
        simple = np.lexsort([np.repeat(gammas, Cs.size), np.tile(Cs, gammas.size)])  # by C, then by gamma
        best, one_se = (simple[at] for at in one_standard_error(mean.ravel()[simple], error.ravel()[simple]))
        places = [tuple(int(i) for i in np.unravel_index(at, mean.shape)) for at in (best, one_se)]
        return CGammaMap(Cs, gammas, mean, error, places[0], places[1], self.rule, len(errors))  # type: ignore[arg-type]

    def _rows(self, X: Any) -> Any:
        rows = self._validate(X, reset=False, sparse="csr", order="C")
        return rows if self._unit == 1.0 else rows * self._unit

    def decision_function(self, X: Any) -> Array:
        """Scores of the chosen machine."""
        rows = self._rows(X)
        return self.machine_.decision_function(rows)

    def predict(self, X: Any) -> Array:
        """Classes of the chosen machine."""
        rows = self._rows(X)
        return self.machine_.predict(rows)

    @available_if(has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Calibrated probabilities of the chosen machine; with `probability=True` only."""
        rows = self._rows(X)
        return self.machine_.predict_proba(rows)

    def margins(self, X: Any, y: Any) -> Margins:
        """Slacks and distances of the chosen machine."""
        return margins_of(self, self._pair_scores(X), y)

    def regions(self, X: Any, y: Any) -> MarginRegions:
        """A picture of two columns of the chosen machine."""
        return regions_of(self, X, y)

    @property
    def margin_(self) -> Array:
        """Half-widths of the chosen machine's margins."""
        return self.machine_.margin_

    def _pair_scores(self, X: Any) -> Array:
        return self.machine_._pair_scores(self._rows(X))


def _values(given: Any, name: str) -> Array:
    try:
        made = np.unique(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError):
        made = np.empty(0)
    if not made.size or not real(0, open_low=True).accepts(float(made[0])) or not np.isfinite(made).all():
        raise ParameterError(
            f"{name} = {given!r} is out of range", remedy="it must be a list of finite numbers above 0"
        )
    return made


def _along(
    gram: _Shared, codes: Array, price: Array, train: Array, test: Array, pair: tuple[int, int], K: int, Cs: Array,
    tol: float, max_iter: int,
) -> tuple[Array, int]:  # fmt: skip
    """Scores of the test rows for each C, and how many fits were capped."""
    view = _Shared(gram.K, gram.diagonal)
    view.scale = gram.scale
    a, b = pair
    y = np.zeros(codes.size)
    rows = train[((codes[train] == a) | (codes[train] == b)) & (price[train] > 0)]
    y[rows] = np.where((codes[rows] == b) == (K == 2), 1.0, -1.0)
    scores = np.empty((Cs.size, test.size))
    start, capped = None, 0
    for c, C in enumerate(Cs):
        bound = C * price
        dual = Dual(y, 0.0, np.where(y < 0, -bound, 0.0), np.where(y > 0, bound, 0.0))
        found = solve(dual, view, solver="smo", tol=tol, max_iter=max_iter, start=start)  # type: ignore[arg-type]
        capped += not found.converged
        scores[c] = found.bias - found.e[test]  # y = 0 there, so e = -f
        if c + 1 < Cs.size:
            # Where most coefficients are at C, the next ones will be at the next C; otherwise they hardly change.
            bounded = np.count_nonzero((found.beta != 0) & (np.abs(found.beta) >= bound))
            grow = Cs[c + 1] / C if 2 * bounded > np.count_nonzero(found.beta) else 1.0
            start = (found.beta * grow, y - grow * (y - found.e))
    return scores, capped
