"""Several learners as one: the weighted mean of their predictions, the weights fitted to rows they have not seen.

    f(x) = sum_m w_m f_m(x),     w_m >= 0,  sum_m w_m = 1
    stacked:  w minimises  sum_i L(y_i, sum_m w_m f_m^(-k(i))(x_i)),   k(i) the inner fold of row i

L is the squared error of numbers and the log loss of probabilities; both are convex in w, so the weights come with a
proof: the loss exceeds its least value by at most  gap = g'w - min_m g_m,  g its gradient (Frank and Wolfe 1956). The
inner folds are part of `fit`, so a validation of the ensemble on outer folds is honest. Cost: (folds + 1) fits of each
member, its own search among them each time or once (`held_out`).

Wolpert (1992), Neural Networks 5, 241-259; Breiman (1996), Machine Learning 24, 49-64; van der Laan, Polley & Hubbard
(2007), Stat. Appl. Genet. Mol. Biol. 6.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize
from sklearn.base import is_classifier
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from assay.checks import choice, numbers
from assay.errors import AssayError, AssayWarning, DataError, DataTypeError, ParameterError
from assay.evaluation.held_out import TUNING, HeldOut, settled
from assay.evaluation.learner import Rows, blame, fit_fold, fit_rows, label_of, run
from assay.evaluation.wrapper import Wrapper, check_inside
from assay.metrics.definition import find
from assay.resampling import splits_of
from assay.shapley import ShapleyPart, ShapleyTask, weighted_sum
from assay.state import Specs, anything, classes, floats, need, optional, several

__all__ = ["Ensemble", "simplex_weights"]

Array = np.ndarray
TINY = 1e-12
"""The least probability that the log loss is taken of."""
NEGLIGIBLE = 1e-3
"""A member with less weight than this is left out: it would be fitted and asked for nothing that shows."""


class Ensemble(Wrapper):
    """Several learners as one: the mean of their predictions, weighted by what each adds on rows it has not seen.

        f(x) = sum_m w_m f_m(x),  w >= 0,  sum w = 1,  stacked: least loss of out-of-fold predictions

    It is a classifier (averaging probabilities, which every member must give) or a regressor, as its members are, and
    takes what they take. `fit` also takes `groups`, rows that stay together in the inner folds.

    | parameter    | default   | range                           | meaning                                            |
    |--------------|-----------|---------------------------------|----------------------------------------------------|
    | estimators   |           | learners, or (name, learner)    | the members; cloned, never changed                 |
    | weights      | "stacked" | "stacked", "equal", numbers >= 0 | fitted on inner folds, alike, or given            |
    | cv           | 5         | number, splitter, pairs         | the inner folds                                    |
    | tuning       | "folds"   | "folds", "once"                 | a member that tunes itself does so in every inner  |
    |              |           |                                 | fold, or once, on all rows                         |
    | random_state | 0         | seed                            | for `cv` given as a number                         |
    | n_jobs       | None      | None or non-zero                | workers; no result depends on it                   |

    Fitted: `weights_` (one per member), `gap_` (how far above its least value the loss may be; 0 unless stacked),
    `estimators_` (those with weight, fitted to all rows), `names_`, `classes_` of a classifier. A member that cannot
    be fitted is left out with a warning; a member with less than a thousandth of the weight is not fitted again.

    Breiman (1996), Machine Learning 24, 49-64.

    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import RidgeCV
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = Ensemble([("ridge", RidgeCV()), ("neighbours", KNeighborsRegressor(20))]).fit(X, y)
    >>> dict(zip(model.names_, model.weights_.round(2).tolist()))
    {'ridge': 0.89, 'neighbours': 0.11}
    """

    state: ClassVar[Specs] = {
        "weights_": floats("members", low=0.0, high=1.0),
        "names_": several(anything, "members"),
        "estimators_": several(anything),
        "gap_": optional(anything),
        "classes_": optional(classes("k")),
    }

    def __init__(
        self,
        estimators: Any,
        *,
        weights: Any = "stacked",
        cv: Any = 5,
        tuning: str = "folds",
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.estimators = estimators
        self.weights = weights
        self.cv = cv
        self.tuning = tuning
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_state(self) -> None:
        need(len(self.estimators_) == np.count_nonzero(self.weights_) > 0, "as many models as weights are needed")
        need(abs(self.weights_.sum() - 1.0) < 1e-9, "the weights do not sum to 1")
        need(is_classifier(self) == hasattr(self, "classes_"), "classes and members contradict each other")
        for model in self.estimators_:
            check_inside(model, getattr(self, "classes_", None))
        need(len({getattr(model, "n_features_in_", None) for model in self.estimators_}) == 1, "columns differ")

    def _inner(self) -> Any:
        return self._members()[0][1]

    def _members(self) -> list[tuple[str, Any]]:
        """The members with names of their own."""
        given = self.estimators
        if not isinstance(given, list | tuple) or not given:
            raise DataTypeError("estimators is empty", remedy="pass a list such as [Ridge(), SVR()]")
        pairs = [one if isinstance(one, tuple) else (label_of(one), one) for one in given]
        names = [str(name) for name, _ in pairs]
        shown = [name if names.count(name) == 1 else f"{name} {at + 1}" for at, name in enumerate(names)]
        return [(name, one) for name, (_, one) in zip(shown, pairs, strict=True)]

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the weights on inner folds, and every member that has one on all rows."""
        self._fit(self._validated(X, y, sample_weight, groups))
        return self

    def fit_held_out(self, rows: Rows) -> HeldOut:
        """Fit to rows of two classes, and give the probabilities that the members' inner fits mix to."""
        inner = self._fit(rows, held=True)
        assert inner is not None
        own = np.split(inner.predicted @ self.weights_, np.cumsum([test.size for test in inner.tests])[:-1])
        codes = np.searchsorted(self.classes_, rows.y)
        second = [np.where(codes[test] == 1, p, 1 - p) for test, p in zip(inner.tests, own, strict=True)]
        return HeldOut(self, inner.tests, second)

    def _fit(self, rows: Rows, held: bool = False) -> _Inner | None:
        """Weights and members; the inner fits, where the weights or the caller need them."""
        members = self._members()
        choice(self.tuning, "tuning", TUNING)
        if rows.classes is not None and rows.classes.size < 2:
            raise DataError("y has only one class", remedy="pass rows of at least two classes")
        fixed, gap, inner = self._fixed(len(members)), 0.0, None
        if fixed is None or held:
            inner = self._inner_fits(members, rows, complete=fixed is not None)
            members = inner.members
        if fixed is not None:
            weights = fixed
        else:
            assert inner is not None
            weights, gap = inner.stacked(rows)
        there: Sequence[Any] = [None] * len(members) if inner is None else inner.models
        kept = [(one, model) for one, model, w in zip(members, there, weights, strict=True) if w > 0]
        fitted = list(run(partial(_refit, rows), kept, label="ensemble", n_jobs=self.n_jobs))
        # The one change of this object, made when nothing can fail any more.
        self.names_, self.weights_, self.gap_ = [name for name, _ in members], weights, gap
        self.estimators_ = fitted
        self.__dict__.pop("classes_", None)
        if rows.classes is not None:
            self.classes_ = rows.classes
        return inner

    def _fixed(self, count: int) -> Array | None:
        """The weights that need no folds; None where they are stacked."""
        if isinstance(self.weights, str) and self.weights not in ("stacked", "equal"):
            message = f"unknown weights = {self.weights!r}"
            raise ParameterError(message, remedy='use "stacked", "equal", or one number per learner')
        if isinstance(self.weights, str):
            return np.full(count, 1 / count) if self.weights == "equal" or count == 1 else None
        fixed = numbers(self.weights, "weights", count)
        if (fixed < 0).any() or not fixed.any():
            raise ParameterError("weights do not fit", remedy=f"pass {count} numbers of zero or more, not all zero")
        return fixed / fixed.sum()

    def _inner_fits(self, members: list[tuple[str, Any]], rows: Rows, complete: bool) -> _Inner:
        """Predictions of rows left out by every member that can be fitted; with `complete` all must be."""
        splits = splits_of(
            self.cv,
            rows.X,
            rows.y,
            groups=rows.groups,
            classes=rows.classes is not None,
            random_state=self.random_state,
        )
        models: list[Any] = [None] * len(members)
        if self.tuning == "once":
            models = list(run(partial(_or_reason, rows), members, label="ensemble", n_jobs=self.n_jobs))
        inner = [
            one if made is None else _settled_or_reason(made) for (_, one), made in zip(members, models, strict=True)
        ]
        tasks = [(name, one, k) for (name, _), one in zip(members, inner, strict=True) for k in range(len(splits))]
        found: list[Any] = list(run(partial(_out_of_fold, rows, splits), tasks, label="ensemble", n_jobs=self.n_jobs))
        parts = [found[at : at + len(splits)] for at in range(0, len(found), len(splits))]
        failed = [next((one for one in some if isinstance(one, AssayError)), None) for some in parts]
        good = [at for at, why in enumerate(failed) if why is None]
        if not good:
            fit_rows(members[0][1], rows)  # as a rule it refuses all rows as well, in its own words
        reasons = [why for why in failed if why is not None]
        if reasons and (complete or not good):
            raise reasons[0]
        for why in reasons:
            warnings.warn(f"{why.what}; the ensemble goes on without it", AssayWarning, stacklevel=4)
        predicted = np.column_stack([np.concatenate(parts[at]) for at in good])
        return _Inner(
            [members[at] for at in good], [models[at] for at in good], predicted, [test for _, test in splits]
        )

    def _combined(self, answers: Sequence[Array]) -> Array:
        weights = self.weights_[self.weights_ > 0]
        return np.asarray(sum(w * answer for w, answer in zip(weights, answers, strict=True)))

    def predict(self, X: Any) -> Array:
        """The weighted mean; for classes the one with the greatest mean probability."""
        check_is_fitted(self)
        if hasattr(self, "classes_"):
            return self.classes_[self.predict_proba(X).argmax(axis=1)]
        return self._combined([model.predict(X) for model in self.estimators_])

    @available_if(lambda self: _with_probabilities(self))
    def predict_proba(self, X: Any) -> Array:
        """The weighted mean of the members' probabilities."""
        check_is_fitted(self)
        return self._combined([_aligned(model, X, self.classes_) for model in self.estimators_])

    def __shapley__(self, task: ShapleyTask) -> ShapleyPart | None:
        """The weighted sum of the members' Shapley values; None where a member has not seen every class."""
        known = getattr(self, "classes_", ())
        if not all(np.array_equal(getattr(model, "classes_", ()), known) for model in self.estimators_):
            return None
        parts = [task.member(k).explain(model) for k, model in enumerate(self.estimators_)]
        return weighted_sum(parts, self.weights_[self.weights_ > 0].tolist())

    @property
    def n_features_in_(self) -> int:
        """How many columns there were in `fit`."""
        check_is_fitted(self)
        return self.estimators_[0].n_features_in_

    @property
    def feature_names_in_(self) -> Array:
        """The names of the columns in `fit`, where they had any."""
        check_is_fitted(self)
        return self.estimators_[0].feature_names_in_

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of a classifier, R2 of a regressor."""
        metric = find("accuracy" if hasattr(self, "classes_") else "r2")
        return float(metric(y, self.predict(X), sample_weight=sample_weight))


def _with_probabilities(ensemble: Ensemble) -> bool:
    """Whether there are probabilities: once fitted, of every classifier; before, if the first member has them."""
    if hasattr(ensemble, "weights_"):
        return hasattr(ensemble, "classes_")
    return hasattr(ensemble._inner(), "predict_proba")


@dataclass(frozen=True, eq=False)
class _Inner:
    """The inner fits: members, their models of all rows (None: not fitted yet), predictions of the rows left out."""

    members: list[tuple[str, Any]]
    models: list[Any]
    predicted: Array
    tests: list[Array]

    def stacked(self, rows: Rows) -> tuple[Array, float]:
        """The weights of least loss, and their gap."""
        if len(self.members) == 1:
            return np.ones(1), 0.0
        tests = np.concatenate(self.tests)
        given = None if rows.weights is None else rows.weights[tests]
        if rows.classes is None:
            weights, gap = _least_squares(rows.y[tests], self.predicted, given)
        else:
            weights, gap = _log_loss(self.predicted, given)
        return _without_negligible(weights), gap


def _refit(rows: Rows, member: tuple[tuple[str, Any], Any]) -> Any:
    (_, estimator), model = member
    return fit_rows(estimator, rows) if model is None else model


def _or_reason(rows: Rows, member: tuple[str, Any]) -> Any:
    """A member fitted to all rows, or why it cannot be."""
    name, estimator = member
    try:
        return fit_rows(estimator, rows)
    except Exception as error:
        return blame(error, name, "the fit to all rows")


def _settled_or_reason(made: Any) -> Any:
    return made if isinstance(made, AssayError) else settled(made)


def _aligned(model: Any, X: Any, classes: Array) -> Array:
    """A member's probabilities, a column per class of the ensemble, also for those that the member never saw."""
    found = np.asarray(model.predict_proba(X))
    own = np.asarray(model.classes_)
    if own.shape == classes.shape and (own == classes).all():
        return found
    aligned = np.zeros((found.shape[0], classes.size))
    aligned[:, np.searchsorted(classes, own)] = found
    return aligned


def _out_of_fold(rows: Rows, splits: Any, task: tuple[str, Any, int]) -> Array | AssayError:
    """A member's predictions of one fold's rows: numbers, or the probability of each row's own class; or why not."""
    name, estimator, k = task
    if isinstance(estimator, AssayError):
        return estimator
    train, test = splits[k]
    metric = find("mse" if rows.classes is None else "log_loss")
    try:
        predicted, _ = fit_fold(
            estimator, rows, train, test, {metric.needs: metric}, label=name, where=f"inner fold {k}"
        )
    except AssayError as error:
        return error
    found = predicted[metric.needs]
    if rows.classes is None:
        return found
    codes = np.searchsorted(rows.classes, rows.y[test])
    if found.ndim == 1:
        return np.where(codes == 1, found, 1 - found)
    return found[np.arange(codes.size), codes]


def _least_squares(y: Array, predicted: Array, sample_weight: Array | None) -> tuple[Array, float]:
    """Weights of the least squared error; in units of the members' mean error, so that the scale does not matter."""
    u = np.full(y.size, 1 / y.size) if sample_weight is None else sample_weight / sample_weight.sum()
    errors = predicted - y[:, None]
    scale = float(np.sqrt((u[:, None] * errors**2).sum(axis=0).mean()))
    if scale == 0:  # every member is exact
        return np.full(predicted.shape[1], 1 / predicted.shape[1]), 0.0
    errors /= scale
    gram = errors.T @ (u[:, None] * errors)
    return simplex_weights(lambda w: (float(w @ gram @ w), 2 * gram @ w), predicted.shape[1])


def _log_loss(predicted: Array, sample_weight: Array | None) -> tuple[Array, float]:
    """Weights of the least log loss of a mixture, given each member's probability of each row's own class."""
    u = np.full(len(predicted), 1 / len(predicted)) if sample_weight is None else sample_weight / sample_weight.sum()
    p = np.maximum(predicted, TINY)

    def loss(w: Array) -> tuple[float, Array]:
        mixed = np.maximum(p @ w, TINY)
        return float(-(u * np.log(mixed)).sum()), -(p.T @ (u / mixed))

    return simplex_weights(loss, p.shape[1])


def simplex_weights(loss: Callable[[Array], tuple[float, Array]], size: int) -> tuple[Array, float]:
    """Non-negative weights that sum to 1 and minimise a convex loss (which gives value and gradient), and their gap.

    The loss of the weights exceeds its least value by at most the gap.

    >>> weights, gap = simplex_weights(lambda w: (float((w - [0.9, 0.3]) @ (w - [0.9, 0.3])), 2 * (w - [0.9, 0.3])), 2)
    >>> weights.round(6).tolist(), gap < 1e-6
    ([0.8, 0.2], True)
    """
    start: Any = np.full(size, 1 / size)
    constraint: Any = {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like}
    found = minimize(
        loss,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * size,
        constraints=[constraint],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    weights = np.maximum(found.x, 0.0)
    weights /= weights.sum()
    gradient = loss(weights)[1]
    return weights, max(0.0, float(gradient @ weights - gradient.min()))


def _without_negligible(weights: Array) -> Array:
    kept = np.where(weights < NEGLIGIBLE, 0.0, weights)
    return kept / kept.sum()
