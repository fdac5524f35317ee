"""Sure independence screening: from a million columns to a few dozen, then a model of those.

    SIS        keep the q columns with the largest |corr(x_j, y)|,    q = floor(n / log n)
    ISIS       keep floor(2q/3), let a sparse model select S among them; then repeat: rank the others by
               |corr(x_j, y given S)|, add the best until there are q, select again; stop when S no longer changes

Marginal correlation may overlook a column that matters only together with others; the iterations bring
it back, since what the selected columns explain is projected out of it and of the target first. Cost:
one pass over the data for SIS (n p multiply-adds, X neither copied nor converted, memory maps welcome);
k + 2 of them per iteration of ISIS with k columns selected. Fan and Lv (2008), JRSS B 70, 849-911;
Fan, Samworth and Wu (2009), JMLR 10, 2013-2038.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import RegressorMixin, clone
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import RegressorTags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from assay.base import Constraint, Estimator, integer, jobs, none, one_of
from assay.errors import AssayWarning, ConvergenceWarning, DataError, ParameterError
from assay.linear._screen import Target, default_keep, marginal, partial, top
from assay.linear.criteria import warn_of_light_weights
from assay.linear.lars import Lars
from assay.state import Specs, Stateful, anything, bools, facts, floats, ints, names, need, optional, part, several

__all__ = ["SIS", "IterativeSIS", "Round"]

_regressor = Constraint(
    lambda v: hasattr(v, "fit") and hasattr(v, "predict") and not isinstance(v, type), "a regressor, such as Lasso()"
)


class _Screen(SelectorMixin, Estimator):
    """What both screens share: validation, the survivors as a table, and the model of the survivors."""

    state: ClassVar[Specs] = {
        "n_keep_": integer(1),
        "scores_": floats("p", finite=False),
        "support_": bools("p"),
        "selected_": names(None),
        "survivors_": optional(ints(None, below="p")),
        "estimator_": optional(anything),
        **facts("coef_", "intercept_"),
    }

    def _check_state(self) -> None:
        if hasattr(self, "estimator_"):
            need(hasattr(self.estimator_, "predict") and hasattr(self, "survivors_"))
            need(getattr(self.estimator_, "n_features_in_", self.survivors_.size) == self.survivors_.size)

    estimator_: Any
    support_: np.ndarray

    def transform(self, X: Any) -> Any:
        """The columns of X that survived."""
        X = self._validate(X, reset=False, sparse=("csr", "csc"), dtype=[np.float64, np.float32])
        return X[:, np.flatnonzero(self.support_)]

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return self.support_

    def _enter(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, np.ndarray, np.ndarray | None, int]:
        """Clean X (not yet searched for NaN), y and weights, and how many columns to keep."""
        X, y = self._validate(X, y, sparse=("csr", "csc"), dtype=[np.float64, np.float32], finite=False, min_samples=2)
        weight = self._weights(sample_weight, len(y))
        if not isinstance(X, np.ndarray) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        warn_of_light_weights(weight)
        n = len(y) if weight is None else weight.sum()
        keep = default_keep(n) if self.n_keep is None else int(self.n_keep)
        return X, np.asarray(y, dtype=np.float64), weight, min(keep, X.shape[1])

    def _target(self, y: np.ndarray, weight: np.ndarray | None) -> Target:
        target = Target(y, weight)
        if target.constant:
            warnings.warn(
                "y is constant, so no column correlates with it and the leftmost columns are kept; "
                "screen with a target that varies",
                AssayWarning,
                stacklevel=3,
            )
        return target

    def _columns(self, X: Any, at: np.ndarray, model: Any) -> Any:
        """A few columns in double precision, with their names where X had names; dense if the model needs it."""
        cells = X[:, at].astype(np.float64)
        if not isinstance(cells, np.ndarray) and not get_tags(model).input_tags.sparse:
            cells = cells.toarray()
        if hasattr(self, "feature_names_in_") and isinstance(cells, np.ndarray):
            return pd.DataFrame(cells, columns=self.feature_names_in_[at])
        return cells

    def _fit_model(self, model: Any, X: Any, at: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Any:
        """A clone of the model, fitted to the columns `at`."""
        fitted = clone(model)
        options: dict[str, Any] = {}
        if weight is not None:
            if not has_fit_parameter(fitted, "sample_weight"):
                raise ParameterError(
                    f"{type(self).__name__}: {type(fitted).__name__} takes no sample_weight",
                    remedy="fit without weights or choose an estimator that takes them",
                )
            options["sample_weight"] = weight
        return fitted.fit(self._columns(X, at, fitted), y, **options)

    def _names_of(self, at: np.ndarray) -> np.ndarray:
        """The names of a few columns; naming a million would take longer than screening them."""
        if hasattr(self, "feature_names_in_"):
            return np.asarray(self.feature_names_in_, dtype=object)[at]
        return np.array([f"x{j}" for j in at], dtype=object)

    def _adopt(self, fitted: Any, at: np.ndarray) -> None:
        """Keep the model of the survivors; where it is linear, spell it out over all columns."""
        self.estimator_ = fitted
        self.survivors_ = at
        if hasattr(fitted, "coef_"):
            self.coef_ = np.zeros(self.n_features_in_)
            self.coef_[at] = np.ravel(fitted.coef_)
            self.intercept_ = float(np.ravel(fitted.intercept_)[0])

    def _predict(self, X: Any) -> np.ndarray:
        X = self._validate(X, reset=False, sparse=("csr", "csc"), dtype=[np.float64, np.float32])
        return np.ravel(self.estimator_.predict(self._columns(X, self.survivors_, self.estimator_)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _models(screen: SIS) -> bool:
    if screen.estimator is None:
        raise AttributeError("SIS without an estimator only selects columns; pass estimator=, such as Lasso()")
    return True


class SIS(_Screen):
    r"""Sure independence screening: keep the columns that correlate most with y, and model them if asked.

    $\{j : |r_j| \text{ among the } q \text{ largest}\},\ r_j = \widehat{corr}(x_j, y)$. Without `estimator` this is a
    selector for pipelines; with one it is a regressor as well: `SIS(estimator=Lasso(alpha=0.1))` is SIS-lasso,
    `SIS(estimator=Lars(criterion="bic"))` SIS-LARS. X may be dense (either order, float32 stays float32, a memory map
    is read once) or sparse; NaN and infinities are found in the same pass. Rows count by weight: n is the total of
    `sample_weight`.

    | parameter | default | range              | meaning                                                     |
    |-----------|---------|--------------------|-------------------------------------------------------------|
    | n_keep    | None    | None, 1, 2, ...    | columns to keep; None: floor(n / log n), at most all         |
    | estimator | None    | None or regressor  | fitted to the survivors; gives `predict`, `coef_`, `score`   |
    | n_jobs    | None    | None or non-zero   | threads; never changes the result                           |

    Attributes: `scores_` (|r_j| of every column, 0 for a constant one), `support_`, `selected_` (names), `n_keep_`;
    with an estimator `estimator_`, `survivors_` (the columns it saw) and, if it is linear, `coef_` over all columns and
    `intercept_`. A cross-validation inside the estimator sees columns that all rows have chosen, and is too hopeful;
    cross-validate the SIS as a whole instead.

    Fan and Lv (2008), JRSS B 70, 849-911.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 5000))
    >>> y = 3 * X[:, 10] - 2 * X[:, 4000] + 0.1 * rng.standard_normal(100)
    >>> screen = SIS().fit(X, y)
    >>> int(screen.support_.sum()), bool(screen.support_[10] and screen.support_[4000])
    (21, True)
    """

    constraints = {"n_keep": none | integer(1), "estimator": none | _regressor, "n_jobs": jobs}

    def __init__(self, *, n_keep: int | None = None, estimator: Any = None, n_jobs: int | None = None) -> None:
        self.n_keep = n_keep
        self.estimator = estimator
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Score every column, keep the best, and fit the estimator to them if there is one."""
        X, y, weight, self.n_keep_ = self._enter(X, y, sample_weight)
        names = getattr(self, "feature_names_in_", None)
        self.scores_ = np.abs(marginal(X, self._target(y, weight), names, self.n_jobs))
        kept = top(self.scores_, self.n_keep_)
        self.support_ = np.zeros(X.shape[1], dtype=bool)
        self.support_[kept] = True
        self.selected_ = self._names_of(kept)
        if self.estimator is not None:
            self._adopt(self._fit_model(self.estimator, X, kept, y, weight), kept)
        return self

    @available_if(_models)
    def predict(self, X: Any) -> np.ndarray:
        """What the model of the survivors says at each row of X."""
        return self._predict(X)

    @available_if(_models)
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R2 of the predictions."""
        return float(RegressorMixin.score(self, X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None:
            tags.estimator_type = "regressor"
            tags.regressor_tags = RegressorTags()
        return tags


@dataclass(frozen=True, eq=False)
class Round(Stateful):
    """One iteration of `IterativeSIS`: the columns it added, and those that the model then kept."""

    added: np.ndarray
    kept: np.ndarray

    def __str__(self) -> str:
        return f"{self.added.size} added, {self.kept.size} kept"


class IterativeSIS(RegressorMixin, _Screen):
    r"""Iterative sure independence screening: screen, select, then screen again given what is selected.

    $r_{j|S} = \widehat{corr}(x_j - P_S x_j,\; y - P_S y)$ ranks the columns outside the selected set S, so one that is
    uncorrelated with y but matters beside others is found. The model of the last round selects the columns and
    predicts. The aim is to lose no column that matters: the columns added are the best of very many, a criterion that
    does not know it (BIC, cross-validation) keeps noise among them, and the set often fills up to `n_keep`.

    | parameter | default   | range             | meaning                                                        |
    |-----------|-----------|-------------------|----------------------------------------------------------------|
    | n_keep    | None      | None, 1, 2, ...   | columns a round may hold; None: floor(n / log n), at most all  |
    | estimator | None      | None or regressor | selects by non-zero `coef_`; None: the lasso path with BIC      |
    | ranking   | "partial" | partial, residual | take S out of x_j and y, or (Fan and Lv's first form) of y only |
    | max_iter  | 10        | 1, 2, ...         | rounds at most                                                 |
    | n_jobs    | None      | None or non-zero  | threads; never changes the result                              |

    Attributes: `selected_` (names), `support_`, `scores_` (|correlation| in the last round that ranked the
    column), `history_` (a `Round` per iteration), `n_iter_`, `n_keep_`, `estimator_`, `coef_`, `intercept_`.

    Fan and Lv (2008), JRSS B 70, 849-911; Fan, Samworth and Wu (2009), JMLR 10, 2013-2038.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 1000))
    >>> y = 3 * X[:, 10] - 2 * X[:, 400] + 0.1 * rng.standard_normal(100)
    >>> screen = IterativeSIS().fit(X, y)
    >>> screen.history_[0].kept, bool(screen.support_[10] and screen.support_[400])
    (array([ 10, 400]), True)
    """

    state: ClassVar[Specs] = {
        "history_": several(part(Round), kind=tuple),
        "n_iter_": integer(1),
    }

    constraints = {
        "n_keep": none | integer(1),
        "estimator": none | _regressor,
        "ranking": one_of("partial", "residual"),
        "max_iter": integer(1),
        "n_jobs": jobs,
    }

    def __init__(
        self,
        *,
        n_keep: int | None = None,
        estimator: Any = None,
        ranking: str = "partial",
        max_iter: int = 10,
        n_jobs: int | None = None,
    ) -> None:
        self.n_keep = n_keep
        self.estimator = estimator
        self.ranking = ranking
        self.max_iter = max_iter
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Screen and select in turn until the selected set repeats itself or is full."""
        X, y, weight, self.n_keep_ = self._enter(X, y, sample_weight)
        names = getattr(self, "feature_names_in_", None)
        target = self._target(y, weight)
        model = self._selector()
        self.scores_ = np.abs(marginal(X, target, names, self.n_jobs))
        chosen = np.arange(0)
        added = top(self.scores_, max(1, 2 * self.n_keep_ // 3))
        history: list[Round] = []
        for _ in range(self.max_iter):
            candidates = np.sort(np.concatenate([chosen, added]))
            fitted = self._fit_model(model, X, candidates, y, weight)
            chosen = candidates[_nonzero(fitted)]
            history.append(Round(added, chosen))
            if _settled(history, self.n_keep_):
                break
            added = self._rank(X, target, chosen, names)
            if added.size == 0:
                break
        else:
            warnings.warn(
                f"the selected columns still change after {self.max_iter} rounds; raise max_iter",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.history_ = tuple(history)
        self.n_iter_ = len(history)
        self.support_ = np.zeros(X.shape[1], dtype=bool)
        self.support_[chosen] = True
        self.selected_ = self._names_of(chosen)
        self._adopt(fitted, candidates)
        return self

    def _selector(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        return Lars(method="lasso", criterion="bic")

    def _rank(self, X: Any, target: Target, chosen: np.ndarray, names: Any) -> np.ndarray:
        """The best columns outside the selected set, as many as fill it up; updates `scores_`."""
        full = self.ranking == "partial"
        scores = np.abs(partial(X, target, chosen, names, self.n_jobs, full=full))
        scores[chosen] = self.scores_[chosen]
        self.scores_ = scores
        rank = scores.copy()
        rank[chosen] = -1.0
        best = top(rank, min(self.n_keep_ - chosen.size, rank.size - chosen.size))
        return best[rank[best] > 0.0]

    def predict(self, X: Any) -> np.ndarray:
        """What the model of the last round says at each row of X."""
        return self._predict(X)


def _settled(history: list[Round], keep: int) -> bool:
    """Whether the set is full or has been seen before: the next round would repeat an earlier one."""
    last = history[-1].kept
    return last.size >= keep or any(np.array_equal(last, past.kept) for past in history[:-1])


def _nonzero(fitted: Any) -> np.ndarray:
    """Which of its columns a fitted model uses."""
    if not hasattr(fitted, "coef_"):
        raise ParameterError(
            f"IterativeSIS: {type(fitted).__name__} has no coef_ to show which columns it selects",
            remedy="use a sparse linear model such as LassoCV() or Lars(criterion='bic')",
        )
    coef = np.ravel(fitted.coef_)
    if not np.isfinite(coef).all():
        raise DataError("the inner model's coefficients are not finite", remedy="rescale the columns of X")
    return np.flatnonzero(coef)
