"""Figures for assigned labels: error rate, risk, sensitivity, specificity, precision, recall, type I and II errors.

With TP, FP, FN, TN the counts of one class against the rest:

    sensitivity = recall = TP / (TP + FN)         specificity = TN / (TN + FP)         precision = TP / (TP + FP)
    type I error = FP / (FP + TN)                 type II error = FN / (FN + TP)
    error rate = (FP + FN) / (TP + TN + FP + FN)  risk = mean_i cost[true class, assigned class]

Intervals: Wilson's (or another binomial one) for a share of rows, Student's t for the risk, the delta method on the
logit scale for averages over classes. Figures of a confusion table depend on it only through right (TP), true and
assigned totals per class, so their influence on every row comes from 3K derivatives, each exact to rounding (a complex
step). Where every row is right (or the table leaves no spread), the limits are the figures of the tables in which as
many right rows turn wrong, or wrong ones right, as Wilson's interval allows.

Two classes: the positive one is `pos_label`, or the greater of the two (text: the later in the alphabet). A ratio
without a denominator is `zero_division`, 0 by default as in scikit-learn. Cost: O(n + K^2).
Wilson (1927), JASA 22, 209-212; Squire & Trapp (1998), SIAM Review 40, 110-112 (complex steps).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.checks import fraction, freeze, row_weights, sample
from assay.errors import DataError
from assay.inference.intervals import PROPORTION_METHODS
from assay.metrics._counts import Counts, averaged, counted, delta_limits, per_class, with_positive
from assay.metrics.definition import Metric, Rule, metric
from assay.metrics.inputs import encode_pair
from assay.metrics.limits import average as weighted_mean
from assay.metrics.limits import effective, loss_limits, share_limits
from assay.results import Interval

__all__ = [
    "accuracy",
    "error",
    "precision",
    "recall",
    "risk",
    "sensitivity",
    "specificity",
    "type_one_error",
    "type_two_error",
]

Array = np.ndarray
UNIT = (0.0, 1.0)
# Wilson first: it is near its level on average, where the exact interval is wider than it need be.
ORDER = ("wilson", "exact", *(name for name in PROPORTION_METHODS if name not in ("wilson", "exact")))


def _share_rules(name: str, hits: Any) -> dict[str, Rule]:
    """One rule per binomial method for the share of rows where `hits` is true."""

    def make(method: str) -> Rule:
        def rule(y_true: Any, y_pred: Any, *, sample_weight: Any, level: float) -> Interval:
            success = hits(y_true, y_pred)
            weights = row_weights(sample_weight, success.size)
            share = weighted_mean(success, weights)
            rows = success.size if weights is None else int(np.count_nonzero(weights))
            trials = effective(weights, success.size)
            return share_limits(share, trials, level=level, method=method, rows=rows, estimand=name)

        return rule

    return {method: make(method) for method in ORDER}


def _right(y_true: Any, y_pred: Any) -> Array:
    truth, predicted, _ = encode_pair(y_true, y_pred)
    return (truth == predicted).astype(float)


def _wrong(y_true: Any, y_pred: Any) -> Array:
    return 1.0 - _right(y_true, y_pred)


@metric(
    "accuracy",
    better="greater",
    range=UNIT,
    needs="labels",
    rules=_share_rules("accuracy", _right),
    losses=_right,
)
def accuracy(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Share of rows assigned to their own class, with Wilson's interval (also "exact" and other binomial ones).

    >>> print(accuracy.interval([0, 1, 1, 0, 1], [0, 1, 0, 0, 1], method="exact"))
    accuracy 0.80 [0.28, 0.99] (95% Clopper-Pearson interval, n = 5)
    """
    right = _right(y_true, y_pred)
    return weighted_mean(right, row_weights(sample_weight, right.size))


@metric(
    "error",
    better="smaller",
    range=UNIT,
    needs="labels",
    rules=_share_rules("error", _wrong),
    losses=_wrong,
)
def error(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Share of rows assigned to a wrong class, (FP + FN) / (TP + TN + FP + FN), with Wilson's interval.

    No error in n rows is no proof of perfection: the upper limit is z^2 / (n + z^2).

    >>> print(error.interval(["a"] * 50, ["a"] * 50))
    error 0.000 [0.000, 0.071] (95% Wilson interval, n = 50)
    """
    wrong = _wrong(y_true, y_pred)
    return weighted_mean(wrong, row_weights(sample_weight, wrong.size))


def _costs(y_true: Any, y_pred: Any, cost: Any, labels: Any) -> tuple[Array, Array]:
    """The cost of each row and the table."""
    truth, predicted, classes = encode_pair(y_true, y_pred, labels)
    if cost is None:
        table = 1.0 - np.eye(classes.size)
    else:
        table = np.asarray(sample(np.atleast_2d(np.asarray(cost)), "cost")[0])
    if table.shape != (classes.size, classes.size):
        what = f"cost has shape {table.shape} but there are {classes.size} classes: {classes.tolist()}"
        raise DataError(what, remedy="pass one row and one column per class, and name the classes in labels=")
    return table[truth, predicted], table


def _risk_limits(
    y_true: Any, y_pred: Any, *, sample_weight: Any, level: float, cost: Any = None, labels: Any = None
) -> Interval:
    costs, table = _costs(y_true, y_pred, cost, labels)
    weights = row_weights(sample_weight, costs.size)
    kept = costs if weights is None else costs[weights > 0]
    bounds = (float(table.min()), float(table.max()))
    if kept.min() < kept.max():
        return loss_limits(costs, weights, level=level, estimand="risk", bounds=bounds)
    # No spread: as large a share of rows as Wilson's interval allows may have cost something else.
    level, value = fraction(level, "level"), float(kept[0])
    unseen = share_limits(
        0.0, effective(weights, costs.size), level=level, method="wilson", rows=kept.size, estimand=""
    ).upper
    lower, upper = value - unseen * (value - bounds[0]), value + unseen * (bounds[1] - value)
    return Interval(value, lower, upper, level, "Wilson (no spread)", kept.size, "risk")


def _row_costs(y_true: Any, y_pred: Any, *, cost: Any = None, labels: Any = None) -> Array:
    return _costs(y_true, y_pred, cost, labels)[0]


@metric(
    "risk",
    better="smaller",
    range=(-np.inf, np.inf),
    needs="labels",
    rules={"t": _risk_limits},
    losses=_row_costs,
)
def risk(y_true: Any, y_pred: Any, *, cost: Any = None, labels: Any = None, sample_weight: Any = None) -> float:
    """Mean cost of the assignments, mean_i cost[true, assigned], with a t interval on the costs of the rows.

    | parameter | default | range         | meaning                                                                   |
    |-----------|---------|---------------|---------------------------------------------------------------------------|
    | cost      | None    | K x K numbers | entry (i, j): the cost of assigning class i to j; None: 1 for every error |
    | labels    | None    | the K classes | the order of rows and columns of `cost`; None: sorted                     |

    >>> risk(["ill", "ill", "well", "well"], ["ill", "well", "well", "ill"], cost=[[0, 10], [1, 0]])
    2.75
    """
    costs, _ = _costs(y_true, y_pred, cost, labels)
    return weighted_mean(costs, row_weights(sample_weight, costs.size))


def _ratio_metric(name: str, kind: str, better: str, words: str) -> Metric:
    """A share of the rows of a class (or of those assigned to it), of the positive class or averaged over classes."""

    def value(
        y_true: Any,
        y_pred: Any,
        *,
        labels: Any = None,
        pos_label: Any = None,
        average: str | None = "binary",
        sample_weight: Any = None,
        zero_division: float = 0.0,
    ) -> Any:
        counts = counted(y_true, y_pred, sample_weight, labels)
        return averaged(counts, kind, average, pos_label, zero_division)

    def make(method: str) -> Rule:
        def rule(
            y_true: Any,
            y_pred: Any,
            *,
            sample_weight: Any,
            level: float,
            labels: Any = None,
            pos_label: Any = None,
            average: str | None = "binary",
            zero_division: float = 0.0,
        ) -> Interval:
            counts = counted(y_true, y_pred, sample_weight, labels)
            if average in ("binary", None):
                return _shares(counts, kind, average, pos_label, level, method, name)
            return delta_limits(
                counts, lambda c: averaged(c, kind, average, pos_label, zero_division), level, UNIT, name
            )

        return rule

    value.__doc__ = words
    value.__name__ = value.__qualname__ = name
    made: Metric = metric(
        name,
        better=better,
        range=UNIT,
        needs="labels",
        rules={method: make(method) for method in ORDER},
    )(value)
    return made


def _shares(
    counts: Counts, kind: str, average: str | None, pos_label: Any, level: float, method: str, name: str
) -> Interval:
    """Binomial intervals of a ratio: of the positive class, or of every class."""
    counts = with_positive(counts, pos_label) if average == "binary" else counts
    above, below = per_class(counts, kind)
    if (below == 0).any():
        label = counts.chosen_labels()[int(np.argmax(below == 0))]
        base = "assigned to it" if kind == "precision" else "that it could be a share of"
        raise DataError(f"the {name} of class {label!r} has no row {base}", remedy="pass more rows, or leave it out")
    trials = counts.rows_behind(kind)
    names = () if average == "binary" else tuple(str(label) for label in counts.chosen_labels())
    sizes, rows = (np.array(part) for part in zip(*trials, strict=True))
    size = freeze(rows) if names else int(rows[0])
    return share_limits(above / below, sizes, level=level, method=method, rows=size, estimand=name, names=names)


_PARAMETERS = """

    | parameter     | default  | range                                        | meaning                             |
    |---------------|----------|----------------------------------------------|-------------------------------------|
    | average       | "binary" | "binary", "macro", "micro", "weighted", None | over classes; None: one per class   |
    | pos_label     | None     | a class                                      | the positive one; None: the greater |
    | labels        | None     | classes                                      | those averaged over; None: all seen |
    | zero_division | 0.0      | a number or NaN                              | the value of a ratio without rows   |
"""

sensitivity = _ratio_metric(
    "sensitivity",
    "recall",
    "greater",
    "Share of the positive rows that are found, TP / (TP + FN), with Wilson's interval; recall by another name."
    + _PARAMETERS
    + """
    >>> print(sensitivity.interval([1, 1, 1, 0, 0], [1, 1, 0, 0, 1]))
    sensitivity 0.67 [0.21, 0.94] (95% Wilson interval, n = 3)
    """,
)
recall = _ratio_metric(
    "recall",
    "recall",
    "greater",
    "Share of the rows of a class that are assigned to it, TP / (TP + FN), with Wilson's interval."
    + _PARAMETERS
    + """
    >>> recall([0, 1, 2, 0, 1, 2], [0, 2, 1, 0, 0, 1], average="macro").__round__(4)
    0.3333
    """,
)
specificity = _ratio_metric(
    "specificity",
    "specificity",
    "greater",
    "Share of the negative rows that are left alone, TN / (TN + FP), with Wilson's interval."
    + _PARAMETERS
    + """
    >>> specificity([1, 1, 1, 0, 0], [1, 1, 0, 0, 1])
    0.5
    """,
)
precision = _ratio_metric(
    "precision",
    "precision",
    "greater",
    "Share of the rows assigned to a class that belong to it, TP / (TP + FP), with Wilson's interval."
    + _PARAMETERS
    + """
    >>> precision(["spam", "ham", "spam"], ["spam", "spam", "ham"], pos_label="spam")
    0.5
    """,
)
type_one_error = _ratio_metric(
    "type_one_error",
    "type_one",
    "smaller",
    "Share of the negative rows called positive, FP / (FP + TN): a true null rejected. Wilson's interval."
    + _PARAMETERS
    + """
    >>> type_one_error([1, 1, 1, 0, 0], [1, 1, 0, 0, 1])
    0.5
    """,
)
type_two_error = _ratio_metric(
    "type_two_error",
    "type_two",
    "smaller",
    "Share of the positive rows missed, FN / (FN + TP): a false null kept. Wilson's interval."
    + _PARAMETERS
    + """
    >>> type_two_error([1, 1, 1, 1, 0], [1, 1, 1, 0, 1])
    0.25
    """,
)
