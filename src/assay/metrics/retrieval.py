"""Figures of retrieval: average precision, and precision of the K most confident.

    AP = sum over thresholds of (gain in recall) x precision
    precision at K = share of positives among the K greatest scores, ties at the border shared out

AP has a delta-method interval on the logit scale by its influence function, with Student's t for as many rows as the
smaller class has (nothing is averaged over more: normal limits cover .80 of 60 rows with 10% positive); at AP = 1,
where no spread is left, the exact limit of AUC = 1 serves as a rule of thumb. Precision at K has Wilson's. Cost: one
sort, O(N log N).
Over folds, each fold retrieves its own share of the K rows, so that only rows scored by the same model compete. AP is
pooled: of folds with one or two positives each it is far too high (.42 where .10 is true, 60 rows, 10% positive), since
the first of six rows is not the first of many, whereas scores of models that share most of their rows are nearly on
one scale (.13; docs/simulations/figures.md).
Boyd, Eng & Page (2013), ECML PKDD.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.checks import choice, row_weights, whole
from assay.errors import DataError, ParameterError
from assay.metrics.classification import ORDER, UNIT
from assay.metrics.definition import Rule, metric
from assay.metrics.inputs import score_matrix
from assay.metrics.limits import average as weighted_mean
from assay.metrics.limits import effective, share_limits, smooth_limits, standard_error
from assay.metrics.ranking import fold_codes, over_classes, scored, trivial, without_spread
from assay.results import Interval

__all__ = ["average_precision", "cumulative", "precision_at_k"]

Array = np.ndarray


def cumulative(positive: Array, scores: Array, weights: Array | None) -> tuple[Array, Array, Array, Array]:
    """Distinct scores downwards, the weight of positives and of negatives at or above each, and the rows' order."""
    order = np.argsort(scores)[::-1]
    ranked = scores[order]
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), ranked.size - 1)
    hits = positive[order].astype(float) if weights is None else weights[order] * positive[order]
    true = np.cumsum(hits)[ends]
    both = ends + 1.0 if weights is None else np.cumsum(weights[order])[ends]
    return ranked[ends], true, both - true, order


def _ap_influence(
    positive: Array, scores: Array, weights: Array | None, fold: Array | None = None
) -> tuple[float, Array]:
    """Average precision and the influence of every row.

        psi = y/pi (precision(s) - AP) + 1/pi sum over positives x <= s of (y - precision(x)) / B(x)

    with pi the share of positives and B(x) the share of scores at or above x.
    """
    value, gain, precision, reached, ranked, order = _ap_parts(positive, scores, weights)
    # Sums over positives at or below a score run from the lowest threshold up.
    one = np.cumsum((gain / reached)[::-1])[::-1]
    two = np.cumsum((gain * precision / reached)[::-1])[::-1]
    at = np.empty(scores.size, dtype=np.intp)
    at[order] = np.concatenate([[0], np.cumsum(ranked[1:] != ranked[:-1])])
    psi = positive * (precision + one - value)[at] - two[at]
    psi *= reached[-1] / gain.sum()
    return value, psi


def _ap_parts(positive: Array, scores: Array, weights: Array | None) -> tuple[float, Array, Array, Array, Array, Array]:
    """AP; per threshold the gain in positives, precision and weight called; the scores downwards and their order."""
    if not (positive if weights is None else weights * positive).any():
        raise DataError("no row of y_true is positive", remedy="this metric needs rows of the positive class")
    _, true, false, order = cumulative(positive, scores, weights)
    reached = true + false
    gain = np.diff(true, prepend=0.0)
    reached[reached == 0] = reached[-1]  # thresholds before the first row of positive weight gain nothing
    precision = true / reached
    return float(gain @ precision / true[-1]), gain, precision, reached, scores[order], order


def _ap_limits(
    y_true: Any,
    y_pred: Any,
    *,
    sample_weight: Any,
    level: float,
    pos_label: Any = None,
    labels: Any = None,
    average: str = "macro",
) -> Interval:
    codes, scores, classes, weights = scored(y_true, y_pred, labels, pos_label, sample_weight)
    kept = codes if weights is None else codes[weights > 0]
    if classes is None:
        value, psi = _ap_influence(codes == 1, scores, weights)
        disjoint = min(int((kept == 1).sum()), int((kept == 0).sum()))
    else:
        average = choice(average, "average", ("macro", "weighted"))
        value, psi = over_classes(codes, scores, weights, None, average, _ap_influence)
        disjoint = int(np.bincount(kept).min())
    if disjoint < 2:
        return trivial(value, level, kept.size, "average_precision")
    error = standard_error(psi - weighted_mean(psi, weights), weights)
    if error <= 1e-12 or value >= 1:
        return without_spread(1.0 if value >= 1 else value, disjoint, level, kept.size, "average_precision")
    return smooth_limits(
        value,
        error,
        level=level,
        scale="logit",
        bounds=UNIT,
        method="delta (logit scale, t)",
        rows=kept.size,
        estimand="average_precision",
        df=disjoint - 1.0,
    )


@metric(
    "average_precision",
    better="greater",
    range=UNIT,
    needs="scores",
    rules={"delta": _ap_limits},
)
def average_precision(
    y_true: Any,
    y_pred: Any,
    *,
    pos_label: Any = None,
    labels: Any = None,
    average: str = "macro",
    sample_weight: Any = None,
) -> float:
    """Precision averaged over the recall gained at each threshold, with a delta-method interval on the logit scale.

    | parameter | default | range               | meaning                                               |
    |-----------|---------|---------------------|-------------------------------------------------------|
    | y_pred    |         | numbers             | scores of the positive class, or one column per class |
    | pos_label | None    | a class             | the positive one; None: the greater of two            |
    | labels    | None    | classes             | the classes of the columns, in their order            |
    | average   | "macro" | "macro", "weighted" | more than two classes: equally, or by their size      |

    >>> average_precision([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).__round__(4)
    0.8333
    """
    codes, scores, classes, weights = scored(y_true, y_pred, labels, pos_label, sample_weight)
    if classes is None:
        return _ap_parts(codes == 1, scores, weights)[0]
    average = choice(average, "average", ("macro", "weighted"))
    return over_classes(codes, scores, weights, None, average, _ap_influence)[0]


def _top_share(
    y_true: Any, y_score: Any, k: int | None, labels: Any, pos_label: Any, folds: Any, sample_weight: Any
) -> tuple[float, float, int]:
    """Precision among the k rows with the greatest scores, its effective number of rows, and k."""
    codes, scores, classes = score_matrix(y_true, y_score, labels, pos_label)
    if classes is not None:
        raise DataError(f"there are {classes.size} classes", remedy="pass the scores of one class and pos_label=")
    weights = row_weights(sample_weight, codes.size)
    rows = np.arange(codes.size) if weights is None else np.flatnonzero(weights)
    size = min(10, rows.size) if k is None else whole(k, "k")
    if size > rows.size:
        raise ParameterError(f"k = {size} is more than the {rows.size} rows", remedy=f"choose k up to {rows.size}")
    fold = fold_codes(folds, codes.size)
    fold = np.zeros(rows.size, dtype=np.intp) if fold is None else fold[rows]
    held = np.zeros(rows.size)
    for one in np.unique(fold):
        at = np.flatnonzero(fold == one)
        held[at] = _places(scores[rows[at]], size * at.size / rows.size)
    mass = np.ones(rows.size) if weights is None else weights[rows]
    chosen = held > 0
    share = weighted_mean((codes[rows] == 1)[chosen].astype(float), (held * mass)[chosen])
    trials = float(size) if weights is None else effective(mass[chosen], int(chosen.sum())) * size / chosen.sum()
    return share, trials, size


def _places(scores: Array, size: float) -> Array:
    """How much of each row is among the first `size`, which need not be whole; rows tied at the border share."""
    last = scores.size - min(scores.size, int(np.ceil(size - 1e-9)))
    border = np.partition(scores, last)[last]
    sure, tied = scores > border, scores == border
    return np.where(sure, 1.0, np.where(tied, (size - sure.sum()) / tied.sum(), 0.0))


def _top_rule(method: str) -> Rule:
    def rule(
        y_true: Any,
        y_pred: Any,
        *,
        sample_weight: Any,
        level: float,
        k: int | None = None,
        labels: Any = None,
        pos_label: Any = None,
        folds: Any = None,
    ) -> Interval:
        share, trials, size = _top_share(y_true, y_pred, k, labels, pos_label, folds, sample_weight)
        return share_limits(share, trials, level=level, method=method, rows=size, estimand=f"precision_at_{size}")

    return rule


@metric(
    "precision_at_k",
    better="greater",
    range=UNIT,
    needs="scores",
    rules={method: _top_rule(method) for method in ORDER},
    over_folds="folds",
)
def precision_at_k(
    y_true: Any,
    y_pred: Any,
    *,
    k: int | None = None,
    labels: Any = None,
    pos_label: Any = None,
    folds: Any = None,
    sample_weight: Any = None,
) -> float:
    """Share of positives among the K rows with the greatest scores (retrieval of the K most confident).

    The interval is Wilson's with K trials: it is about the precision above the score that this sample's K-th row has.

    | parameter | default | range       | meaning                                                |
    |-----------|---------|-------------|--------------------------------------------------------|
    | k         | None    | 1 to n      | how many rows are retrieved; None: 10, or all if fewer |
    | pos_label | None    | a class     | the positive one; None: the greater of two             |
    | labels    | None    | two classes | the negative and the positive class                    |
    | folds     | None    | one per row | each fold gives the first K n_fold / n of its own rows |

    >>> print(precision_at_k.interval([1, 0, 1, 1, 0, 0], [0.9, 0.8, 0.7, 0.6, 0.2, 0.1], k=3))
    precision_at_3 0.67 [0.21, 0.94] (95% Wilson interval, n = 3)
    """
    return _top_share(y_true, y_pred, k, labels, pos_label, folds, sample_weight)[0]
