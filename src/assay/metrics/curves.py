"""ROC, precision-recall and calibration curves and the threshold table, each with a band.

A row is called positive where its score is at least the threshold. With m positive and n negative rows,

    pointwise     Wilson's interval of each share, at `level` for one threshold fixed beforehand
    simultaneous  for all thresholds at once: sup |TPR_hat - TPR| <= sqrt(log(2/d) / 2m) with probability at least 1 - d
                  (Dvoretzky, Kiefer, Wolfowitz; Massart's constant), the same for the FPR with n; 1 - d = sqrt(level)
                  for each, as the classes are independent. Precision then follows from both and from the share of
                  positives (three parts at level^(1/3)). Calibration bins: Wilson at level^(1/bins)

Under weights the numbers of rows are the effective ones. Cost: one sort, O(N log N).
Massart (1990), Annals of Probability 18, 1269-1283; Campbell (1994), Statistics in Medicine 13, 499-508.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from assay.checks import choice, fraction, freeze, row_weights
from assay.errors import DataError
from assay.metrics.curve_results import CalibrationCurve, PrecisionRecallCurve, RocCurve, ThresholdTable
from assay.metrics.inputs import binary_truth, probabilities, same_rows, value_column
from assay.metrics.limits import effective, share_limits
from assay.metrics.probabilistic import binned, expected_calibration_error
from assay.metrics.ranking import auc
from assay.metrics.retrieval import average_precision, cumulative

__all__ = [
    "CalibrationCurve",
    "PrecisionRecallCurve",
    "RocCurve",
    "ThresholdTable",
    "calibration_curve",
    "precision_recall_curve",
    "roc_curve",
    "threshold_table",
]

Array = np.ndarray
BANDS = ("pointwise", "simultaneous")


@dataclass(frozen=True, eq=False)
class _Sample:
    """Checked rows: which are positive, their scores and weights; rows of weight zero are gone."""

    positive: Array
    scores: Array
    weights: Array | None

    def size(self, positive: bool) -> int:
        """How many rows the class has."""
        return int((self.positive == positive).sum())

    def trials(self, positive: bool) -> float:
        """The effective number of rows of the class."""
        rows = self.positive == positive
        return effective(None if self.weights is None else self.weights[rows], int(rows.sum()))


def _sample(y_true: Any, y_score: Any, pos_label: Any, sample_weight: Any) -> _Sample:
    scores = value_column(_one_column(y_score), "y_score")
    positive = binary_truth(y_true, pos_label, both=False)
    same_rows(positive, scores, "y_score")
    weights = row_weights(sample_weight, scores.size)
    if weights is not None:
        kept = weights > 0
        positive, scores, weights = positive[kept], scores[kept], weights[kept]
    if positive.all() or not positive.any():
        missing = "negative" if positive.all() else "positive"
        raise DataError(f"no row of y_true is {missing}", remedy="the curve compares two classes; pass rows of both")
    return _Sample(positive, scores, weights)


def _one_column(scores: Any) -> Any:
    """The positive class's column of a table with two."""
    if getattr(scores, "ndim", 1) == 2 and scores.shape[1] == 2:
        return scores.iloc[:, 1] if isinstance(scores, pd.DataFrame) else scores[:, 1]
    return scores


def _shares(share: Array, trials: Any, level: float) -> tuple[Array, Array]:
    """Wilson's limits of many shares; 0 and 1 where there are no trials."""
    trials = np.broadcast_to(np.asarray(trials, dtype=float), share.shape)
    known = trials > 0
    lower, upper = np.zeros(share.size), np.ones(share.size)
    if known.any():
        names = ("",) * int(known.sum())
        found = share_limits(
            np.clip(share[known], 0, 1), trials[known], level=level, method="wilson", rows=0, estimand="", names=names
        )
        lower[known], upper[known] = found.lower, found.upper
    return lower, upper


def _reach(trials: float, level: float) -> float:
    """Half the width of the DKW-Massart band."""
    return float(np.sqrt(np.log(2 / (1 - level)) / (2 * trials)))


def _rate_limits(sample: _Sample, tpr: Array, fpr: Array, level: float, band: str) -> tuple[Array, Array, Array, Array]:
    """Limits of the true and of the false positive rates."""
    if band == "pointwise":
        return (*_shares(tpr, sample.trials(True), level), *_shares(fpr, sample.trials(False), level))
    each = np.sqrt(level)
    up, across = _reach(sample.trials(True), each), _reach(sample.trials(False), each)
    parts = (tpr - up, tpr + up, fpr - across, fpr + across)
    lower, upper, left, right = (np.clip(part, 0.0, 1.0) for part in parts)
    return lower, upper, left, right


def _precision_limits(sample: _Sample, true: Array, false: Array, level: float, band: str) -> tuple[Array, Array]:
    """Limits of precision where `true` and `false` weights of rows are called positive."""
    called = true + false
    precision = true / np.where(called > 0, called, 1)
    m, n = sample.trials(True), sample.trials(False)
    total = effective(sample.weights, sample.scores.size)
    positive, negative = _masses(sample)
    if band == "pointwise":
        return _shares(precision, called * (total / (positive + negative)), level)
    each = level ** (1 / 3)
    tpr, fpr = true / positive, false / negative
    up, across = _reach(m, each), _reach(n, each)
    low, high = _shares(np.array([positive / (positive + negative)]), total, each)
    # Precision rises with the TPR and the prevalence and falls with the FPR.
    least = _mix(np.maximum(tpr - up, 0), np.minimum(fpr + across, 1), float(low[0]))
    most = _mix(np.minimum(tpr + up, 1), np.maximum(fpr - across, 0), float(high[0]))
    return least, most


def _mix(tpr: Array, fpr: Array, prevalence: float) -> Array:
    hit, alarm = prevalence * tpr, (1 - prevalence) * fpr
    both = hit + alarm
    return np.where(both > 0, hit / np.where(both > 0, both, 1), 0.0)


def _masses(sample: _Sample) -> tuple[float, float]:
    if sample.weights is None:
        return float(sample.size(True)), float(sample.size(False))
    return float(sample.weights[sample.positive].sum()), float(sample.weights[~sample.positive].sum())


def _options(level: float, band: str) -> tuple[float, str]:
    return fraction(level, "level"), choice(band, "band", BANDS)


def roc_curve(
    y_true: Any,
    y_score: Any,
    *,
    pos_label: Any = None,
    sample_weight: Any = None,
    drop_intermediate: bool = True,
    level: float = 0.95,
    band: str = "pointwise",
) -> RocCurve:
    """The ROC curve with a band around it and DeLong's interval of the area under it.

    | parameter         | default     | range                       | meaning                                     |
    |-------------------|-------------|-----------------------------|---------------------------------------------|
    | y_true            |             | two classes                 | what the rows are                           |
    | y_score           |             | finite numbers              | greater means more surely positive          |
    | pos_label         | None        | a class                     | the positive one; None: the greater of two  |
    | drop_intermediate | True        | True, False                 | leave out points on straight stretches      |
    | level             | 0.95        | (0, 1)                      | confidence of the band                      |
    | band              | "pointwise" | "pointwise", "simultaneous" | for one threshold, or for all at once (DKW) |

    >>> curve = roc_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> curve.fpr.tolist(), curve.tpr.tolist()
    ([0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0])
    """
    level, band = _options(level, band)
    sample = _sample(y_true, y_score, pos_label, sample_weight)
    thresholds, true, false, _ = cumulative(sample.positive, sample.scores, sample.weights)
    if drop_intermediate and true.size > 2:
        bend = np.diff(false, 2).astype(bool) | np.diff(true, 2).astype(bool)
        kept = np.concatenate([[True], bend, [True]])
        thresholds, true, false = thresholds[kept], true[kept], false[kept]
    tpr, fpr = (np.concatenate([[0.0], part / part[-1]]) for part in (true, false))
    low, high, left, right = _rate_limits(sample, tpr, fpr, level, band)
    area = auc.interval(sample.positive, sample.scores, sample_weight=sample.weights, level=level)
    return RocCurve(
        fpr=freeze(fpr),
        tpr=freeze(tpr),
        thresholds=freeze(np.concatenate([[np.inf], thresholds])),
        fpr_lower=freeze(left),
        fpr_upper=freeze(right),
        tpr_lower=freeze(low),
        tpr_upper=freeze(high),
        level=level,
        band=band,
        auc=area,
        n_positive=sample.size(True),
        n_negative=sample.size(False),
    )


def precision_recall_curve(
    y_true: Any,
    y_score: Any,
    *,
    pos_label: Any = None,
    sample_weight: Any = None,
    drop_intermediate: bool = False,
    level: float = 0.95,
    band: str = "pointwise",
) -> PrecisionRecallCurve:
    """Precision against recall with a band and the interval of the average precision.

    | parameter         | default     | range                       | meaning                                       |
    |-------------------|-------------|-----------------------------|-----------------------------------------------|
    | y_true            |             | two classes                 | what the rows are                             |
    | y_score           |             | finite numbers              | greater means more surely positive            |
    | pos_label         | None        | a class                     | the positive one; None: the greater of two    |
    | drop_intermediate | False       | True, False                 | leave out points where recall does not change |
    | level             | 0.95        | (0, 1)                      | confidence of the band                        |
    | band              | "pointwise" | "pointwise", "simultaneous" | for one threshold, or for all at once         |

    >>> precision, recall, thresholds = precision_recall_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> precision.round(3).tolist(), recall.tolist()
    ([0.5, 0.667, 0.5, 1.0, 1.0], [1.0, 1.0, 0.5, 0.5, 0.0])
    """
    level, band = _options(level, band)
    sample = _sample(y_true, y_score, pos_label, sample_weight)
    thresholds, true, false, _ = cumulative(sample.positive, sample.scores, sample.weights)
    if drop_intermediate and true.size > 1:
        move = np.diff(true).astype(bool)
        kept = np.concatenate([[True], move]) | np.concatenate([move, [True]])
        thresholds, true, false = thresholds[kept], true[kept], false[kept]
    positive, negative = _masses(sample)
    called = true + false
    precision, recall = true / np.where(called > 0, called, 1), true / true[-1]
    p_low, p_high = _precision_limits(sample, true, false, level, band)
    r_low, r_high = _rate_limits(sample, recall, false / negative, level, band)[:2]
    r_zero = _rate_limits(sample, np.zeros(1), np.zeros(1), level, band)[1][0]
    ends = ((precision, 1.0), (recall, 0.0), (p_low, 0.0), (p_high, 1.0), (r_low, 0.0), (r_high, r_zero))
    parts = [freeze(np.append(part[::-1], end)) for part, end in ends]
    area = average_precision.interval(sample.positive, sample.scores, sample_weight=sample.weights, level=level)
    share = positive / (positive + negative)
    return PrecisionRecallCurve(
        precision=parts[0],
        recall=parts[1],
        thresholds=freeze(thresholds[::-1].copy()),
        precision_lower=parts[2],
        precision_upper=parts[3],
        recall_lower=parts[4],
        recall_upper=parts[5],
        level=level,
        band=band,
        average_precision=area,
        prevalence=share,
        n_positive=sample.size(True),
        n_negative=sample.size(False),
    )


def calibration_curve(
    y_true: Any,
    y_prob: Any,
    *,
    pos_label: Any = None,
    n_bins: int = 5,
    strategy: str = "uniform",
    sample_weight: Any = None,
    level: float = 0.95,
    band: str = "pointwise",
) -> CalibrationCurve:
    """How often the event happens where the model says p, in bins of p, with Wilson's intervals (a reliability curve).

    | parameter | default     | range                       | meaning                                    |
    |-----------|-------------|-----------------------------|--------------------------------------------|
    | y_true    |             | two classes                 | what the rows are                          |
    | y_prob    |             | [0, 1]                      | probabilities of the positive class        |
    | pos_label | None        | a class                     | the positive one; None: the greater of two |
    | n_bins    | 5           | at least 1                  | how many bins                              |
    | strategy  | "uniform"   | "uniform", "quantile"       | of equal width, or equally filled          |
    | level     | 0.95        | (0, 1)                      | confidence                                 |
    | band      | "pointwise" | "pointwise", "simultaneous" | for one bin, or for all at once            |

    >>> curve = calibration_curve([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9], n_bins=2)
    >>> curve.prob_true.tolist(), curve.prob_pred.tolist()
    ([0.0, 1.0], [0.2, 0.75])
    """
    level, band = _options(level, band)
    codes, table, classes = probabilities(y_true, y_prob, None, pos_label)
    if classes is not None:
        raise DataError(
            f"y_prob has {classes.size} columns", remedy="pass the probabilities of one class, and pos_label="
        )
    weights = row_weights(sample_weight, codes.size)
    bins = binned((codes == 1).astype(float), table[:, 1], weights, n_bins, strategy)
    each = level if band == "pointwise" else level ** (1 / bins.rows.size)
    lower, upper = _shares(bins.observed, bins.trials, each)
    error = expected_calibration_error.interval(
        codes == 1,
        table[:, 1],
        sample_weight=sample_weight,
        level=level,
        n_bins=n_bins,
        strategy=strategy,
        pos_label=True,
    )
    return CalibrationCurve(
        prob_true=freeze(bins.observed),
        prob_pred=freeze(bins.predicted),
        lower=freeze(lower),
        upper=freeze(upper),
        rows=freeze(bins.rows),
        lower_edge=freeze(bins.lower_edge),
        upper_edge=freeze(bins.upper_edge),
        level=level,
        band=band,
        error=error,
    )


def threshold_table(
    y_true: Any,
    y_score: Any,
    *,
    thresholds: Any = None,
    pos_label: Any = None,
    sample_weight: Any = None,
    level: float = 0.95,
    band: str = "pointwise",
) -> ThresholdTable:
    """Sensitivity, specificity and precision at each threshold, with limits: the trade-off to choose from.

    | parameter  | default     | range                       | meaning                                    |
    |------------|-------------|-----------------------------|--------------------------------------------|
    | y_true     |             | two classes                 | what the rows are                          |
    | y_score    |             | finite numbers              | called positive where score >= threshold   |
    | thresholds | None        | numbers                     | None: .05, .10, ..., .95, or ventiles      |
    | pos_label  | None        | a class                     | the positive one; None: the greater of two |
    | level      | 0.95        | (0, 1)                      | confidence                                 |
    | band       | "pointwise" | "pointwise", "simultaneous" | for one threshold, or for all at once      |

    >>> print(threshold_table([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], thresholds=[0.3, 0.5]))
    Thresholds on 2 positive and 2 negative rows, 95% pointwise limits; best by Youden: 0.3
    threshold called          sensitivity          specificity            precision
          0.3    75% 1.000 [0.342, 1.000] 0.500 [0.095, 0.905] 0.667 [0.208, 0.939]
          0.5    25% 0.500 [0.095, 0.905] 1.000 [0.342, 1.000] 1.000 [0.207, 1.000]
    """
    level, band = _options(level, band)
    sample = _sample(y_true, y_score, pos_label, sample_weight)
    steps = np.arange(1, 20) / 20
    if thresholds is not None:
        cuts = np.unique(value_column(thresholds, "thresholds"))
    elif sample.scores.min() >= 0 and sample.scores.max() <= 1:
        cuts = steps
    else:
        cuts = np.unique(np.quantile(sample.scores, steps))
    values, true, false, _ = cumulative(sample.positive, sample.scores, sample.weights)
    at = np.searchsorted(-values, -cuts, side="right")
    true, false = (np.concatenate([[0.0], part])[at] for part in (true, false))
    positive, negative = _masses(sample)
    tpr, fpr, called = true / positive, false / negative, true + false
    with_calls = called > 0
    precision = np.where(with_calls, true / np.where(with_calls, called, 1), np.nan)
    low, high, left, right = _rate_limits(sample, tpr, fpr, level, band)
    p_low, p_high = _precision_limits(sample, true, false, level, band)
    limits = {"sensitivity": (low, high), "specificity": (1 - right, 1 - left)}
    limits["precision"] = (np.where(with_calls, p_low, 0.0), np.where(with_calls, p_high, 1.0))
    return ThresholdTable(
        freeze(cuts),
        freeze(called / (positive + negative)),
        freeze(tpr),
        freeze(1 - fpr),
        freeze(precision),
        limits,
        level,
        band,
        float(cuts[int(np.argmax(tpr - fpr))]),
        sample.size(True),
        sample.size(False),
    )
