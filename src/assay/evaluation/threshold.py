"""Decisions from probabilities: a threshold for two classes, least expected cost for several, chosen on unseen rows.

    two classes:  positive where P(positive | x) >= t
    cost          t minimises  missed * #(positives below t) + false * #(negatives at or above t)
    rate          t is the greatest (least) threshold at which a stated rate still holds
    more classes  argmin_j sum_i P(i | x) cost[i, j]

The probabilities that choose t come from inner folds, so they are those of rows their model has not seen, and a model
whose probabilities are off still gets the threshold that costs least. For honest probabilities and costs it is
false / (missed + false). Cost: (folds + 1) fits and one sort; see `held_out` for what a search among them costs.

Elkan (2001), IJCAI, 973-978; Provost & Fawcett (2001), Machine Learning 42, 203-231.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from assay.checks import choice, fraction, number
from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation.held_out import TUNING, held_out_probabilities
from assay.evaluation.learner import Rows, fit_rows, label_of
from assay.evaluation.wrapper import Wrapper, check_inside
from assay.metrics.definition import find
from assay.metrics.inputs import positive_class
from assay.shapley import ShapleyPart, ShapleyTask
from assay.state import Specs, anything, classes, floats, need, optional

__all__ = ["ThresholdClassifier", "choose_threshold"]

Array = np.ndarray
RATES = ("sensitivity", "specificity", "precision", "positive")


class ThresholdClassifier(Wrapper):
    """Any classifier with probabilities, deciding by a cost, a stated rate or a threshold instead of by one half.

        predict(x) = positive  where  P(positive | x) >= threshold_

    | parameter    | default | range                            | meaning                                              |
    |--------------|---------|----------------------------------|------------------------------------------------------|
    | estimator    |         | a classifier with predict_proba  | what gives the probabilities; cloned, never changed  |
    | cost         | None    | {"missed": a, "false": b}, K x K | what a missed positive and a false alarm cost, or    |
    |              |         |                                  | entry (i, j): assigning class i to j, classes sorted |
    | rate         | None    | (name, share)                    | ("sensitivity", 0.9): at least that, with the fewest |
    |              |         |                                  | false alarms; also "specificity", "precision", and   |
    |              |         |                                  | "positive", the share that may be called positive    |
    | threshold    | None    | [0, 1]                           | this one                                             |
    | pos_label    | None    | a class                          | the positive one; None: the greater                  |
    | cv           | 5       | number, splitter, pairs          | inner folds that choose the threshold                |
    | tuning       | "folds" | "folds", "once"                  | a classifier that tunes itself does so in every      |
    |              |         |                                  | inner fold, or once, on all rows                     |
    | random_state | 0       | seed                             | for `cv` given as a number                           |
    | n_jobs       | None    | None or non-zero                 | workers; no result depends on it                     |

    At most one of cost, rate and threshold; with none of them every error costs the same. With more than two classes
    only costs are possible, and no folds are needed. `fit` also takes `groups`, rows that stay together.
    Fitted: `threshold_` (None for several classes), `cost_` (the table; None with a rate or a threshold),
    `estimator_`, `classes_`, `positive_`.

    Elkan (2001), IJCAI, 973-978.

    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(400, weights=[0.9], random_state=0)
    >>> plain = LogisticRegression().fit(X, y)
    >>> wary = ThresholdClassifier(LogisticRegression(), cost={"missed": 10, "false": 1}).fit(X, y)
    >>> int(plain.predict(X).sum()), int(wary.predict(X).sum()), bool(wary.threshold_ < 0.5)
    (24, 68, True)
    """

    state: ClassVar[Specs] = {
        "classes_": classes("k"),
        "estimator_": anything,
        "threshold_": anything,
        "cost_": optional(floats("k", "k")),
        "positive_": anything,
    }

    def __init__(
        self,
        estimator: Any,
        *,
        cost: Any = None,
        rate: Any = None,
        threshold: float | None = None,
        pos_label: Any = None,
        cv: Any = 5,
        tuning: str = "folds",
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.cost = cost
        self.rate = rate
        self.threshold = threshold
        self.pos_label = pos_label
        self.cv = cv
        self.tuning = tuning
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_state(self) -> None:
        check_inside(self.estimator_, self.classes_)
        need(np.array_equal(self.estimator_.classes_, self.classes_), "its classes differ")
        two = self.classes_.size == 2
        threshold: Any = self.threshold_
        need(two == isinstance(threshold, float) and (not two or 0.0 <= threshold < 1.5), "no threshold")
        need(self.positive_ is None or isinstance(self.positive_, str | int | float), "no positive class")
        need(two or hasattr(self, "cost_"), "several classes need costs")
        need(self.positive_ in self.classes_.tolist() or not two, "no positive class")

    def _inner(self) -> Any:
        return self.estimator

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose the threshold on inner folds and fit the classifier to all rows."""
        if hasattr(self.estimator, "__sklearn_tags__") and not is_classifier(self.estimator):
            message = f"{label_of(self.estimator)} is not a classifier"
            raise DataTypeError(message, remedy="pass a classifier with predict_proba, such as LogisticRegression()")
        if not hasattr(self.estimator, "predict_proba"):
            message = f"{label_of(self.estimator)} has no predict_proba, which a threshold needs"
            raise DataTypeError(message, remedy="calibrate it first, with assay.calibration.CalibratedClassifier")
        rows = self._validated(X, y, sample_weight, groups)
        assert rows.classes is not None
        if rows.classes.size < 2:
            raise DataError(f"y has only one class, {rows.classes.tolist()[0]!r}", remedy="pass rows of two classes")
        table, positive = self._costs(rows.classes), None
        if rows.classes.size == 2:
            positive = self._positive(rows.classes)
        choice(self.tuning, "tuning", TUNING)
        if positive is None:
            threshold, fitted = None, fit_rows(self.estimator, rows)
        elif self.threshold is not None:
            threshold = fraction(self.threshold, "threshold", closed=True)
            fitted = fit_rows(self.estimator, rows)
        else:
            threshold, fitted = self._threshold(rows, positive, self._rule(positive, table))
        # The one change of this object, made when nothing can fail any more.
        self.classes_, self.estimator_, self.threshold_ = rows.classes, fitted, threshold
        self.positive_ = None if positive is None else rows.classes.tolist()[positive]
        if table is not None:
            self.cost_ = table
        elif hasattr(self, "cost_"):
            del self.cost_
        return self

    def _positive(self, known: Array) -> int:
        """The position of the positive one of two classes."""
        return int(known.tolist().index(positive_class(known, self.pos_label)))

    def _costs(self, known: Array) -> Array | None:
        """The table of costs; None where a rate or a threshold decides."""
        asked = [name for name in ("cost", "rate", "threshold") if getattr(self, name) is not None]
        if len(asked) > 1:
            raise ParameterError(f"both {asked[0]} and {asked[1]} are given", remedy="pass one of them")
        if known.size > 2 and asked and asked != ["cost"]:
            message = f"a threshold needs two classes, but there are {known.size}"
            raise ParameterError(message, remedy=f"pass cost as a table of {known.size} x {known.size} numbers")
        if asked and asked != ["cost"]:
            return None
        cost = 1.0 - np.eye(known.size) if self.cost is None else self.cost
        if isinstance(cost, Mapping):
            if set(cost) != {"missed", "false"} or known.size > 2:
                remedy = 'pass {"missed": 10, "false": 1} for two classes, or a table of costs'
                raise ParameterError(f"cost = {dict(cost)} does not fit", remedy=remedy)
            missed, false = (number(cost[name], name, 0, strict=True) for name in ("missed", "false"))
            table = np.array([[0.0, false], [missed, 0.0]])
            return table if self._positive(known) == 1 else table[::-1, ::-1].copy()
        table = np.asarray(cost, dtype=float)
        if table.shape != (known.size, known.size) or not np.isfinite(table).all():
            message = f"cost has shape {table.shape} but there are {known.size} classes: {known.tolist()}"
            raise ParameterError(message, remedy="pass a finite number for each pair of classes")
        return table

    def _rule(self, positive: int, table: Array | None) -> Any:
        """What chooses the threshold: the rate, or what the two errors cost more than right answers."""
        if table is None:
            return self.rate
        missed = table[positive, 1 - positive] - table[positive, positive]
        false = table[1 - positive, positive] - table[1 - positive, 1 - positive]
        if missed <= 0 or false <= 0:
            raise ParameterError("an error costs no more than a correct prediction", remedy="correct cost")
        return {"missed": missed, "false": false}

    def _threshold(self, rows: Rows, positive: int, rule: Any) -> tuple[float, Any]:
        """The threshold of two classes, chosen on rows held out, and the classifier fitted to all rows."""
        held = held_out_probabilities(
            self.estimator, rows, cv=self.cv, random_state=self.random_state, tuning=self.tuning, n_jobs=self.n_jobs
        )
        tests, second = np.concatenate(held.tests), np.concatenate(held.probabilities)
        assert rows.classes is not None
        threshold = choose_threshold(
            rows.y[tests] == rows.classes[positive],
            second if positive == 1 else 1 - second,
            rule,
            None if rows.weights is None else rows.weights[tests],
        )
        return threshold, held.model

    def predict(self, X: Any) -> Array:
        """The class that the threshold, or the least expected cost, decides for."""
        shares = self.predict_proba(X)
        if self.threshold_ is None:
            return self.classes_[np.argmin(shares @ self.cost_, axis=1)]
        positive = self.classes_.tolist().index(self.positive_)
        called = shares[:, positive] >= self.threshold_
        return self.classes_[np.where(called, positive, 1 - positive)]

    def predict_proba(self, X: Any) -> Array:
        """The probabilities of the classifier, which the threshold does not change."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X))

    def __shapley__(self, task: ShapleyTask) -> ShapleyPart:
        """The Shapley values of the classifier, which the threshold does not change."""
        return task.explain(self.estimator_)

    @property
    def n_features_in_(self) -> int:
        """How many columns there were in `fit`."""
        check_is_fitted(self)
        return self.estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> Array:
        """The names of the columns in `fit`, where they had any."""
        check_is_fitted(self)
        return self.estimator_.feature_names_in_

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of right answers."""
        return float(find("accuracy")(y, self.predict(X), sample_weight=sample_weight))


def choose_threshold(positive: Array, probability: Array, rule: Any, sample_weight: Array | None = None) -> float:
    """The threshold that a rule chooses on rows with known classes; halfway between the probabilities beside it.

    | parameter     | range                                    | meaning                                             |
    |---------------|------------------------------------------|-----------------------------------------------------|
    | positive      | True, False per row                      | whether the row is positive                         |
    | probability   | [0, 1] per row                           | of being positive                                   |
    | rule          | {"missed": a, "false": b}, (name, share) | costs, or a rate as in `ThresholdClassifier`        |
    | sample_weight | zero or more per row                     | None: alike                                         |

    >>> choose_threshold(np.array([0, 0, 1, 0, 1]) == 1, np.array([0.1, 0.2, 0.4, 0.6, 0.9]), {"missed": 5, "false": 1})
    0.30000000000000004
    """
    w = np.ones(positive.size) if sample_weight is None else sample_weight
    order = np.argsort(-probability, kind="stable")
    p, hit, w = probability[order], positive[order], w[order]
    last = np.append(np.flatnonzero(np.diff(p)), p.size - 1)  # a threshold cannot divide equal probabilities
    found = np.concatenate([[0.0], np.cumsum(w * hit)[last]])
    alarms = np.concatenate([[0.0], np.cumsum(w * ~hit)[last]])
    inside = p[last]
    above = np.concatenate([[max(1.0, inside[0])], inside])
    # Between the last row called positive and the next; above all rows, or at 0.
    cut = (above + np.append(inside, 0.0)) / 2
    cut[0] = np.nextafter(1.0, 2.0) if inside[0] >= 1.0 else (1.0 + inside[0]) / 2
    cut[-1] = inside[-1] / 2
    if isinstance(rule, Mapping):
        cost = rule["missed"] * (found[-1] - found) + rule["false"] * alarms
        least = np.flatnonzero(cost <= cost.min() * (1 + 1e-12))
        fair = rule["false"] / (rule["missed"] + rule["false"])
        return float(cut[least[np.argmin(np.abs(cut[least] - fair))]])
    return float(cut[_at_rate(rule, found, alarms)])


def _at_rate(rule: Any, found: Array, alarms: Array) -> int:
    """How many of the distinct probabilities, from above, are called positive so that the stated rate holds."""
    if not isinstance(rule, tuple | list) or len(rule) != 2:
        raise ParameterError(f"rate = {rule!r} is not a name and a share", remedy='write it as ("sensitivity", 0.9)')
    name, share = choice(rule[0], "rate", RATES), fraction(rule[1], "rate")
    total = found + alarms
    if name == "sensitivity":
        return int(np.argmax(found >= share * found[-1] * (1 - 1e-12)))
    if name == "specificity":
        holds = alarms <= (1 - share) * alarms[-1] * (1 + 1e-12)
    elif name == "positive":
        holds = total <= share * total[-1] * (1 + 1e-12)
    else:
        holds = np.append(False, found[1:] >= share * total[1:] * (1 - 1e-12))
        if not holds.any():
            best = float((found[1:] / total[1:]).max())
            message = f"no threshold reaches a precision of {share:g}; the best is {best:.3g}"
            raise DataError(message, remedy=f"ask for a precision of at most {np.floor(100 * best) / 100:g}")
    return int(np.flatnonzero(holds)[-1])
