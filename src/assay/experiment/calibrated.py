"""Probabilities of a rare class, calibrated only where that lowers their log loss on rows that were not fitted to.

    P(rare | x) = g(log odds of p(x)),   g(s) = 1 / (1 + exp(-(a s + b)))

g is fitted to out-of-fold probabilities. Whether it helps is decided on the same folds: g fitted to all but one of them
and judged on that one, against the probabilities as they are. So what is decided is part of the fit, and outer folds
judge it honestly. Cost: (folds + 1) fits, a search among them once (`evaluation.held_out`).

Platt (1999), Advances in Large Margin Classifiers, 61-74.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from assay.calibration import LogisticMap
from assay.evaluation.held_out import HeldOut, held_out_probabilities
from assay.evaluation.learner import Rows, rows_of
from assay.evaluation.wrapper import check_inside
from assay.shapley import LOG_ODDS, ShapleyPart, ShapleyTask
from assay.state import Specs, Stateful, anything, classes, need

__all__ = ["CalibratedIfBetter"]

Array = np.ndarray
TINY = 1e-6
"""The least probability whose log odds are taken."""


class CalibratedIfBetter(ClassifierMixin, Stateful, BaseEstimator):
    """A classifier of two classes, its probabilities passed through a sigmoid where that lowers the log loss.

    | parameter    | default | range                           | meaning                              |
    |--------------|---------|---------------------------------|--------------------------------------|
    | estimator    |         | a classifier with predict_proba | cloned, never changed                |
    | cv           | 5       | number, splitter, pairs         | inner folds                          |
    | random_state | 0       | seed                            | for `cv` given as a number           |

    `fit` also takes `groups`. Fitted: `estimator_`, `map_` (None where it does not help), `classes_`, `gain_` (how much
    lower the log loss of the folds is with it).

    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(400, n_redundant=10, weights=[0.9], random_state=0)
    >>> CalibratedIfBetter(GaussianNB()).fit(X, y).gain_ > 0
    True
    """

    state: ClassVar[Specs] = {"classes_": classes("k"), "estimator_": anything, "map_": anything, "gain_": anything}

    def __init__(self, estimator: Any, *, cv: Any = 5, random_state: Any = 0) -> None:
        self.estimator = estimator
        self.cv = cv
        self.random_state = random_state

    def _check_state(self) -> None:
        check_inside(self.estimator_, self.classes_)
        need(self.classes_.size == 2 == self.estimator_.classes_.size, "two classes are needed")
        need(self.map_ is None or isinstance(self.map_, LogisticMap), "the map is of another kind")

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit the classifier to all rows, and the map to the probabilities of rows left out, if it helps."""
        self.fit_held_out(rows_of(self.estimator, X, y, None, groups))
        return self

    def fit_held_out(self, rows: Rows) -> HeldOut:
        """Fit, and give the probabilities of rows left out, each fold's by a map of the others if maps help."""
        assert rows.classes is not None
        held = held_out_probabilities(self.estimator, rows, cv=self.cv, random_state=self.random_state, tuning="once")
        scores = [_log_odds(one) for one in held.probabilities]
        events = [(rows.y[test] == rows.classes[1]).astype(float) for test in held.tests]
        map_, gain, mapped = _if_better(scores, events)
        # The one change of this object, made when nothing can fail any more.
        self.classes_, self.estimator_, self.map_, self.gain_ = rows.classes, held.model, map_, gain
        return HeldOut(self, held.tests, held.probabilities if map_ is None else mapped)

    def predict_proba(self, X: Any) -> Array:
        """The probabilities, calibrated where that helps."""
        check_is_fitted(self)
        found = np.asarray(self.estimator_.predict_proba(X), dtype=float)
        if self.map_ is None:
            return found
        second = self.map_.predict(_log_odds(found[:, 1]))
        return np.column_stack([1 - second, second])

    def __shapley__(self, task: ShapleyTask) -> ShapleyPart | None:
        """The Shapley values of the classifier, in calibrated log-odds where its own are log-odds; else None."""
        if self.map_ is None:
            return task.explain(self.estimator_)
        part = None if task.response else task.explain(self.estimator_)
        if part is None or part.scale != LOG_ODDS:
            return None
        return part.affine(float(self.map_.slope_), float(self.map_.intercept_))

    def predict(self, X: Any) -> Array:
        """The more probable class."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def _log_odds(p: Array) -> Array:
    p = np.clip(p, TINY, 1 - TINY)
    return np.log(p) - np.log1p(-p)


def _if_better(scores: list[Array], events: list[Array]) -> tuple[LogisticMap | None, float, list[Array]]:
    """The map of all scores (None where it does not help), how much it lowers the log loss, and each fold mapped."""
    before = after = 0.0
    folds: list[Array] = []
    for k, (s, y) in enumerate(zip(scores, events, strict=True)):
        rest_s = np.concatenate([one for at, one in enumerate(scores) if at != k] or [s])
        rest_y = np.concatenate([one for at, one in enumerate(events) if at != k] or [y])
        if np.unique(rest_y).size < 2:
            return None, 0.0, []
        before += float(np.logaddexp(0.0, np.where(y == 1, -s, s)).sum())
        folds.append(LogisticMap().fit(rest_s, rest_y).predict(s))
        mapped = _log_odds(folds[-1])
        after += float(np.logaddexp(0.0, np.where(y == 1, -mapped, mapped)).sum())
    found = LogisticMap().fit(np.concatenate(scores), np.concatenate(events))
    n = sum(one.size for one in scores)
    gain = (before - after) / n
    return (found, gain, folds) if gain > 0 and found.slope_ > 0 else (None, 0.0, [])
