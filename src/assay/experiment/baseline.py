"""The baseline: what can be said of a row without looking at it, said as well as the main metric allows.

    regression        the mean or, where that has the better figure on the training rows, the median
    classification    the class frequencies as probabilities, and as label one class: the one with the best figure, the
                      most frequent of several

It must be the best of the guesses, or noise beats it. F1 is 0 for the guess "no" and 2/3 for the guess "yes" where half
of the rows say yes; in absolute error the median beats the mean. The guess is made once, from all training rows, not
from those of a fold, which lack the rows that it is judged on: where rows of equally large classes are left out one by
one, the majority of the others is wrong every time, their two most frequent classes of three are never the right one,
and the median of a target with two heaps lies in the other heap. The mean of a fold is that of its training rows, as R2
takes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyRegressor
from sklearn.utils.validation import check_is_fitted

from assay.errors import AssayError
from assay.metrics.scorer import class_options
from assay.state import Specs, Stateful, classes, floats, need

if TYPE_CHECKING:
    from assay.evaluation.learner import Rows
    from assay.experiment.panel import Learner
    from assay.metrics.definition import Metric

__all__ = ["BaselineClassifier", "best_baseline"]

Array = np.ndarray


class BaselineClassifier(ClassifierMixin, Stateful, BaseEstimator):
    """The class frequencies as probabilities, and one class as label.

    | parameter | default | range                    | meaning                                      |
    |-----------|---------|--------------------------|----------------------------------------------|
    | label     | None    | a class, None            | said of every row; None: the most frequent   |
    | shares    | None    | class -> frequency, None | said of every row; None: those of the target |

    Fitted: `classes_`, `shares_`.

    >>> model = BaselineClassifier().fit([[0], [0], [0]], ["no", "yes", "no"])
    >>> model.predict([[1]]).tolist(), model.predict_proba([[1]]).round(2).tolist()
    (['no'], [[0.67, 0.33]])
    """

    state: ClassVar[Specs] = {"classes_": classes("k"), "shares_": floats("k", low=0, high=1)}

    def __init__(self, label: Any = None, shares: Mapping[Any, float] | None = None) -> None:
        self.label = label
        self.shares = shares

    def _check_state(self) -> None:
        need(bool(np.isclose(self.shares_.sum(), 1.0)), "its shares do not sum to 1")
        need(self.label is None or self.label in self.classes_.tolist(), "its label is not one of its classes")

    def fit(self, X: Any, y: Any) -> Self:
        """Count the classes, unless their shares are given."""
        if self.shares is None:
            self.classes_, counts = np.unique(np.asarray(y), return_counts=True)
            self.shares_ = counts / counts.sum()
        else:
            self.classes_ = np.array(list(self.shares))
            self.shares_ = np.array(list(self.shares.values()), dtype=float)
        return self

    def predict_proba(self, X: Any) -> Array:
        """The class frequencies, for every row."""
        check_is_fitted(self)
        return np.tile(self.shares_, (np.shape(X)[0], 1))

    def predict(self, X: Any) -> Array:
        """The label, for every row."""
        check_is_fitted(self)
        label = self.classes_[[self.shares_.argmax()]] if self.label is None else np.array([self.label])
        return np.repeat(label, np.shape(X)[0])


def best_baseline(learner: Learner, metric: Metric, rows: Rows) -> Learner:
    """The baseline with the guess that has the best main figure on these rows, the first of several."""
    if rows.classes is None:
        guess = _best(metric, rows.y, {"mean": rows.y.mean(), "median": np.median(rows.y)})
        about = learner.about.replace("mean", guess)
        if guess == "mean":
            return replace(learner, about=about)
        value = float(np.median(rows.y))
        return replace(learner, about=about, make=lambda seed: DummyRegressor(strategy="constant", constant=value))
    counts = np.bincount(np.searchsorted(rows.classes, rows.y), minlength=rows.classes.size)
    order = np.argsort(-counts, kind="stable")
    common = rows.classes[order].tolist()
    label = common[0]
    if metric.needs == "labels":
        options = {"sample_weight": counts[order].astype(float), **class_options(metric, rows.classes)}
        label = _best(metric, rows.classes[order], {one: one for one in common}, **options)
    shares = dict(zip(rows.classes.tolist(), (counts / counts.sum()).tolist(), strict=True))
    return replace(learner, make=lambda seed: BaselineClassifier(label, shares))


def _best(metric: Metric, y: Array, guesses: Mapping[Any, Any], **options: Any) -> Any:
    """The name of the guess with the best figure; one that the metric refuses has none."""
    best, found = next(iter(guesses)), -np.inf
    for name, guess in guesses.items():
        try:
            value = float(metric(y, np.full(y.size, guess), **options))
        except AssayError:
            continue
        value = value if metric.greater_is_better else -value
        if value > found:
            best, found = name, value
    return best
