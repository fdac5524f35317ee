"""Figures that weigh several errors against each other: F, balanced accuracy, Matthews correlation.

With TP, FP, FN the counts of one class against the rest, c the rows that are right, s all rows, t_k the rows of class k
and p_k those assigned to it:

    F_beta = (1 + beta^2) TP / ((1 + beta^2) TP + beta^2 FN + FP)
    balanced accuracy = mean over classes of recall
    MCC = (c s - sum_k t_k p_k) / sqrt((s^2 - sum p_k^2)(s^2 - sum t_k^2))

Intervals: for F1 the Wilson interval of J = TP / (TP + FP + FN), of which F1 = 2J / (1 + J) is a monotone function; for
balanced accuracy and the MCC of two classes the classes' Wilson intervals combined (MOVER); the delta method on the
logit scale of the range for the rest, with the fallback of `assay.metrics.classification` where the table leaves no
spread. Cost: O(n + K^2).
Zou & Donner (2008), Statistics in Medicine 27, 1693-1702; Gorodkin (2004), Computational Biology and Chemistry 28,
367-374.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from assay.checks import fraction, number
from assay.errors import DataError, ParameterError
from assay.metrics._counts import Counts, counted, delta_limits, f_score, with_positive
from assay.metrics.classification import UNIT
from assay.metrics.definition import Metric, metric, register
from assay.metrics.limits import effective, share_limits
from assay.results import Interval

__all__ = ["balanced_accuracy", "f1", "f_beta", "mcc"]

Array = np.ndarray


def _f_limits(
    y_true: Any,
    y_pred: Any,
    *,
    sample_weight: Any,
    level: float,
    beta: float = 1.0,
    labels: Any = None,
    pos_label: Any = None,
    average: str | None = "binary",
    zero_division: float = 0.0,
) -> Interval:
    beta = number(beta, "beta", 0, strict=True)
    counts = counted(y_true, y_pred, sample_weight, labels)
    if average is None:
        raise ParameterError("the interval of F is for a single value", remedy="choose an average other than None")
    if average == "binary":
        counts = with_positive(counts, pos_label)
        right, others = float(counts.tp[counts.chosen][0]), float(counts.misses(counts.chosen)[0])
        if right + others == 0:
            raise DataError(
                "no row is positive or predicted positive, so F is not defined", remedy="pass rows of that class"
            )
        if beta == 1.0 or right == 0 or others == 0:
            return _f_by_jaccard(counts, beta, level)
        average = "macro"  # over the one class chosen
    return delta_limits(counts, lambda c: f_score(c, beta, average, pos_label, zero_division), level, UNIT, "f_beta")


def _f_by_jaccard(counts: Counts, beta: float, level: float) -> Interval:
    """Wilson's interval of J among the rows that are or were called positive, carried over to F."""
    k = int(counts.chosen[0])
    relevant = (counts.truth == k) | (counts.predicted == k)
    weights = None if counts.weights is None else counts.weights[relevant]
    right, missed = float(counts.tp[k]), float(counts.row[k] - counts.tp[k])
    wrong = float(counts.col[k] - counts.tp[k])
    rows = int(relevant.sum() if weights is None else np.count_nonzero(weights))
    found = share_limits(
        right / (right + missed + wrong),
        effective(weights, int(relevant.sum())),
        level=level,
        method="wilson",
        rows=rows,
        estimand="f_beta",
    )
    b2 = beta**2
    # Without an error to show how errors split into misses and false alarms, take the split that costs more.
    split = max(b2, 1.0) if missed + wrong == 0 else (b2 * missed + wrong) / (missed + wrong)

    def f(j: float) -> float:
        return (1 + b2) * j / ((1 + b2) * j + split * (1 - j)) if j > 0 else 0.0

    return Interval(f(found.estimate), f(found.lower), f(found.upper), found.level, "Wilson (Jaccard)", rows, "f_beta")


@metric("f_beta", better="greater", range=UNIT, needs="labels", rules={"delta": _f_limits})
def f_beta(
    y_true: Any,
    y_pred: Any,
    *,
    beta: float = 1.0,
    labels: Any = None,
    pos_label: Any = None,
    average: str | None = "binary",
    sample_weight: Any = None,
    zero_division: float = 0.0,
) -> Any:
    """F measure, the harmonic mean of precision and recall with recall counted beta^2 times.

    | parameter     | default  | range                                        | meaning                             |
    |---------------|----------|----------------------------------------------|-------------------------------------|
    | beta          | 1.0      | above 0                                      | above 1 recall counts more          |
    | average       | "binary" | "binary", "macro", "micro", "weighted", None | over classes; None: one per class   |
    | pos_label     | None     | a class                                      | the positive one; None: the greater |
    | labels        | None     | classes                                      | those averaged over; None: all seen |
    | zero_division | 0.0      | a number or NaN                              | the value of a ratio without rows   |

    >>> print(f_beta.interval([1, 1, 1, 0, 0], [1, 1, 0, 0, 1]))
    f_beta 0.67 [0.26, 0.92] (95% Wilson (Jaccard) interval, n = 4)
    """
    counts = counted(y_true, y_pred, sample_weight, labels)
    return f_score(counts, number(beta, "beta", 0, strict=True), average, pos_label, zero_division)


f1: Metric = register(f_beta.bind("f1", beta=1.0))


def _seen_recalls(counts: Counts) -> tuple[Array, Array]:
    seen = np.flatnonzero(counts.row > 0)
    return seen, counts.tp[seen] / counts.row[seen]


def _adjust(value: float, classes: int, adjusted: bool) -> float:
    if not adjusted:
        return value
    if classes < 2:
        raise DataError("one class has no chance level to adjust for", remedy="pass rows of another class")
    return (value - 1 / classes) / (1 - 1 / classes)


def _balanced_limits(y_true: Any, y_pred: Any, *, sample_weight: Any, level: float, adjusted: bool = False) -> Interval:
    counts = counted(y_true, y_pred, sample_weight, None)
    seen, recalls = _seen_recalls(counts)
    trials = np.array([counts.rows_of(k)[0] for k in seen])
    parts = share_limits(
        recalls, trials, level=level, method="wilson", rows=0, estimand="", names=tuple(map(str, seen))
    )
    k = seen.size
    centre = float(recalls.mean())
    lower = centre - float(np.sqrt(((recalls - parts.lower) ** 2).sum())) / k
    upper = centre + float(np.sqrt(((parts.upper - recalls) ** 2).sum())) / k
    value, low, high = (_adjust(part, k, adjusted) for part in (centre, max(0.0, lower), min(1.0, upper)))
    return Interval(value, low, high, fraction(level, "level"), "Wilson (MOVER)", counts.n_rows, "balanced_accuracy")


@metric(
    "balanced_accuracy",
    better="greater",
    range=UNIT,
    needs="labels",
    rules={"mover": _balanced_limits},
)
def balanced_accuracy(y_true: Any, y_pred: Any, *, adjusted: bool = False, sample_weight: Any = None) -> float:
    """Mean recall over the classes that y_true holds, so that every class counts the same.

    | parameter | default | range       | meaning                                          |
    |-----------|---------|-------------|--------------------------------------------------|
    | adjusted  | False   | True, False | rescale so that chance scores 0 and perfection 1 |

    >>> print(balanced_accuracy.interval([1] * 10 + [0] * 90, [1] * 8 + [0] * 92))
    balanced_accuracy 0.90 [0.74, 0.97] (95% Wilson (MOVER) interval, n = 100)
    """
    seen, recalls = _seen_recalls(counted(y_true, y_pred, sample_weight, None))
    return _adjust(float(recalls.mean()), seen.size, adjusted)


def _mcc(counts: Counts) -> Any:
    tp, row, col = counts.tp, counts.row, counts.col
    total = row.sum()
    t, p, c = row / total, col / total, tp.sum() / total
    product = (1 - (p * p).sum()) * (1 - (t * t).sum())
    return (c - (t * p).sum()) / np.sqrt(product) if abs(product) > 1e-14 else 0.0 * c


def _mcc_limits(y_true: Any, y_pred: Any, *, sample_weight: Any, level: float) -> Interval:
    counts = counted(y_true, y_pred, sample_weight, None)
    if np.count_nonzero(counts.row) < 2:
        raise DataError("y_true has only one class, so MCC is not defined", remedy="pass rows of two classes")
    if counts.row.size == 2:
        return _mcc_by_recalls(counts, level)
    if np.count_nonzero(counts.col) < 2:
        raise DataError("y_pred has only one class, so MCC is not defined", remedy="pass rows of two classes")
    return delta_limits(counts, _mcc, level, (-1.0, 1.0), "mcc")


def _mcc_by_recalls(counts: Counts, level: float) -> Interval:
    """Of two classes: how far MCC moves when either class's recall goes to its Wilson limit, combined (MOVER).

    MCC grows with both recalls at given class sizes, and stays defined where nothing was assigned to a class.
    """
    _, recalls = _seen_recalls(counts)
    trials = np.array([counts.rows_of(k)[0] for k in (0, 1)])
    parts = share_limits(recalls, trials, level=level, method="wilson", rows=0, estimand="", names=("0", "1"))
    value = float(np.real(_mcc(counts)))

    def moved(limits: Array) -> float:
        """The root of summed squares of the two moves."""
        ends = []
        for k in (0, 1):
            tp = counts.tp.copy()
            tp[k] = limits[k] * counts.row[k]
            col = tp + (counts.row - tp)[::-1]
            ends.append(float(np.real(_mcc(replace(counts, tp=tp, col=col)))) - value)
        return float(np.hypot(ends[0], ends[1]))

    lower, upper = max(-1.0, value - moved(parts.lower)), min(1.0, value + moved(parts.upper))
    return Interval(value, lower, upper, fraction(level, "level"), "Wilson (MOVER)", counts.n_rows, "mcc")


@metric(
    "mcc",
    better="greater",
    range=(-1.0, 1.0),
    needs="labels",
    rules={"delta": _mcc_limits},
)
def mcc(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Matthews correlation of true and assigned classes, with an interval from the Wilson limits of two recalls.

    More than two classes have the delta method on Fisher's scale. 0 where y_true or y_pred holds one class only; the
    interval is refused where y_true does.

    >>> mcc([1, 1, 1, 0], [1, 0, 1, 1]).__round__(4)
    -0.3333
    """
    return float(np.real(_mcc(counted(y_true, y_pred, sample_weight, None))))
