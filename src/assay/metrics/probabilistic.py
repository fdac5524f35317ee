"""Figures for predicted probabilities: log loss, Brier score, top-k accuracy, expected calibration error.

    log loss = -mean log p_i[y_i]          Brier = mean sum_k (p_ik - 1[y_i = k])^2   (halved for two classes)
    top-k accuracy = share of rows whose class is among the k most probable
    expected calibration error = sum_b (n_b / n) |share of events in bin b - mean probability in bin b|

Log loss and Brier are means of row losses (t interval), top-k accuracy a share of rows (Wilson). The calibration error
adds absolute values, so it is never below zero even for a perfectly calibrated model and no symmetric interval is
honest: its limits add up those of the bins, Wilson intervals that hold for all bins at once (level^(1/bins) each), so
it covers at least its level. Cost: O(n K). Brier (1950), Monthly Weather Review 78, 1-3; Guo et al. (2017), ICML.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.checks import choice, fraction, row_weights, whole
from assay.metrics.classification import ORDER, UNIT
from assay.metrics.definition import Rule, metric, row_metric
from assay.metrics.inputs import probabilities, score_matrix
from assay.metrics.limits import average as weighted_mean
from assay.metrics.limits import effective, share_limits
from assay.results import Interval

__all__ = ["Bins", "binned", "brier", "expected_calibration_error", "log_loss", "top_k_accuracy"]

Array = np.ndarray


@row_metric("log_loss", needs="probabilities")
def log_loss(y_true: Any, y_pred: Any, *, labels: Any = None, pos_label: Any = None) -> Array:
    """Mean of -log(probability given to the true class), with a t interval.

    | parameter | default | range   | meaning                                                                   |
    |-----------|---------|---------|---------------------------------------------------------------------------|
    | y_pred    |         | [0, 1]  | probabilities of the positive class, or one column per class              |
    | labels    | None    | classes | the classes of the columns, in their order; None: those of y_true, sorted |
    | pos_label | None    | a class | the class of a single column; None: the greater of two                    |

    Probabilities of zero count as the precision of floating point, as in scikit-learn (2.2e-16, so at most 36.04).

    >>> log_loss(["ham", "spam", "spam"], [0.1, 0.9, 0.8]).__round__(4)
    0.1446
    """
    codes, table, _ = probabilities(y_true, y_pred, labels, pos_label)
    kind = getattr(y_pred, "dtype", None)
    eps = float(np.finfo(kind).eps) if kind in (np.float32, np.float16) else float(np.finfo(float).eps)
    return -np.log(np.clip(table[np.arange(codes.size), codes], eps, 1 - eps))


@row_metric("brier", needs="probabilities", range=(0.0, 2.0))
def brier(y_true: Any, y_pred: Any, *, labels: Any = None, pos_label: Any = None) -> Array:
    """Mean squared distance of the probabilities from what happened, with a t interval.

    Two classes: mean (p - 1[positive])^2, in [0, 1]. More: the sum over classes, in [0, 2].

    | parameter | default | range   | meaning                                                                   |
    |-----------|---------|---------|---------------------------------------------------------------------------|
    | y_pred    |         | [0, 1]  | probabilities of the positive class, or one column per class              |
    | labels    | None    | classes | the classes of the columns, in their order; None: those of y_true, sorted |
    | pos_label | None    | a class | the class of a single column; None: the greater of two                    |

    >>> brier([0, 1, 1], [0.1, 0.9, 0.8]).__round__(4)
    0.02
    """
    codes, table, _ = probabilities(y_true, y_pred, labels, pos_label)
    away = table.copy()
    away[np.arange(codes.size), codes] -= 1.0
    return (away**2).sum(axis=1) / (2 if table.shape[1] == 2 else 1)


def _in_top(y_true: Any, y_score: Any, k: int = 2, labels: Any = None) -> Array:
    k = whole(k, "k")
    codes, scores, classes = score_matrix(y_true, y_score, labels)
    if classes is None:
        if k >= 2:
            return np.ones(codes.size)
        cut = 0.5 if scores.min() >= 0 and scores.max() <= 1 else 0.0
        return ((scores > cut) == (codes == 1)).astype(float)
    own = scores[np.arange(codes.size), codes][:, None]
    # Of equal scores the later column goes first, as in scikit-learn.
    later = np.arange(classes.size)[None, :] > codes[:, None]
    ahead = (scores > own).sum(axis=1) + ((scores == own) & later).sum(axis=1)
    return (ahead < k).astype(float)


def _top_rule(method: str) -> Rule:
    def rule(y_true: Any, y_pred: Any, *, sample_weight: Any, level: float, k: int = 2, labels: Any = None) -> Interval:
        hits = _in_top(y_true, y_pred, k, labels)
        weights = row_weights(sample_weight, hits.size)
        rows = hits.size if weights is None else int(np.count_nonzero(weights))
        return share_limits(
            weighted_mean(hits, weights),
            effective(weights, hits.size),
            level=level,
            method=method,
            rows=rows,
            estimand="top_k_accuracy",
        )

    return rule


@metric(
    "top_k_accuracy",
    better="greater",
    range=UNIT,
    needs="scores",
    rules={method: _top_rule(method) for method in ORDER},
    losses=_in_top,
)
def top_k_accuracy(y_true: Any, y_pred: Any, *, k: int = 2, labels: Any = None, sample_weight: Any = None) -> float:
    """Share of rows whose class has one of the k greatest scores, with Wilson's interval.

    | parameter | default | range      | meaning                                                                   |
    |-----------|---------|------------|---------------------------------------------------------------------------|
    | k         | 2       | at least 1 | how many guesses each row has                                             |
    | labels    | None    | classes    | the classes of the columns, in their order; None: those of y_true, sorted |

    >>> top_k_accuracy([0, 1, 2], [[0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0.6, 0.3, 0.1]], k=2).__round__(4)
    0.6667
    """
    hits = _in_top(y_true, y_pred, k, labels)
    return weighted_mean(hits, row_weights(sample_weight, hits.size))


@dataclass(frozen=True, eq=False)
class Bins:
    """Predicted and observed shares of an event in bins of its predicted probability; empty bins are left out."""

    predicted: Array
    observed: Array
    weight: Array
    rows: Array
    trials: Array
    lower_edge: Array
    upper_edge: Array


def binned(event: Array, p: Array, weights: Array | None, n_bins: int, strategy: str) -> Bins:
    """Put rows into bins of p, of equal width or equally filled; an edge belongs to the bin below it."""
    n_bins = whole(n_bins, "n_bins")
    strategy = choice(strategy, "strategy", ("uniform", "quantile"))
    if weights is not None:
        event, p, weights = (part[weights > 0] for part in (event, p, weights))
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    if strategy == "quantile":
        edges = np.percentile(p, edges * 100)
    at = np.searchsorted(edges[1:-1], p)
    mass = np.ones(p.size) if weights is None else weights / weights.max()
    weight, squares, predicted, observed = (
        np.bincount(at, weights=part, minlength=n_bins) for part in (mass, mass**2, mass * p, mass * event)
    )
    used = weight > 0
    weight = weight[used]
    return Bins(
        predicted[used] / weight,
        observed[used] / weight,
        weight,
        np.bincount(at, minlength=n_bins)[used],
        weight**2 / squares[used],
        edges[:-1][used],
        edges[1:][used],
    )


def _events(y_true: Any, y_proba: Any, labels: Any, pos_label: Any) -> tuple[Array, Array]:
    """The event and its probability: the positive class, or with more classes that the most probable one is right."""
    codes, table, classes = probabilities(y_true, y_proba, labels, pos_label)
    if classes is None:
        return (codes == 1).astype(float), table[:, 1]
    top = table.argmax(axis=1)
    return (top == codes).astype(float), table[np.arange(codes.size), top]


def _calibration_limits(
    y_true: Any,
    y_pred: Any,
    *,
    sample_weight: Any,
    level: float,
    n_bins: int = 10,
    strategy: str = "uniform",
    labels: Any = None,
    pos_label: Any = None,
) -> Interval:
    level = fraction(level, "level")
    event, p = _events(y_true, y_pred, labels, pos_label)
    weights = row_weights(sample_weight, event.size)
    bins = binned(event, p, weights, n_bins, strategy)
    found = share_limits(
        bins.observed,
        bins.trials,
        level=level ** (1 / bins.rows.size),
        method="wilson",
        rows=0,
        estimand="",
        names=tuple(map(str, bins.rows)),
    )
    low, high = found.lower - bins.predicted, found.upper - bins.predicted
    least = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    most = np.maximum(np.abs(low), np.abs(high))
    share = bins.weight / bins.weight.sum()
    estimate = float(share @ np.abs(bins.observed - bins.predicted))
    lower, upper, n = float(share @ least), min(1.0, float(share @ most)), int(bins.rows.sum())
    return Interval(estimate, lower, upper, level, "Wilson, all bins", n, "expected_calibration_error")


@metric(
    "expected_calibration_error",
    better="smaller",
    range=UNIT,
    needs="probabilities",
    rules={"bins": _calibration_limits},
)
def expected_calibration_error(
    y_true: Any,
    y_pred: Any,
    *,
    n_bins: int = 10,
    strategy: str = "uniform",
    labels: Any = None,
    pos_label: Any = None,
    sample_weight: Any = None,
) -> float:
    """Mean distance between predicted probability and observed share, over bins of the probability.

    Two classes: the probability of the positive one. More: that of the most probable class, and whether it is right.
    The figure is biased upwards, by about sqrt(bins / n) for a calibrated model; its interval is conservative.

    | parameter | default   | range                 | meaning                                                |
    |-----------|-----------|-----------------------|--------------------------------------------------------|
    | n_bins    | 10        | at least 1            | how many bins                                          |
    | strategy  | "uniform" | "uniform", "quantile" | bins of equal width, or equally filled                 |
    | labels    | None      | classes               | the classes of the columns, in their order             |
    | pos_label | None      | a class               | the class of a single column; None: the greater of two |

    >>> print(expected_calibration_error.interval([0, 0, 1, 1] * 25, [0.2, 0.3, 0.7, 0.9] * 25))
    expected_calibration_error 0.225 [0.051, 0.225] (95% Wilson, all bins interval, n = 100)
    """
    event, p = _events(y_true, y_pred, labels, pos_label)
    bins = binned(event, p, row_weights(sample_weight, event.size), n_bins, strategy)
    return float(bins.weight @ np.abs(bins.observed - bins.predicted) / bins.weight.sum())
