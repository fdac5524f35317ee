"""Whether a few rows dominate a figure: the tail of the row losses behind a metric, where those have no upper end.

rmse and r2 are functions of the mean squared error and are judged by it. Cost: that of `diagnose_tail`, O(n log n).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.checks import row_weights
from assay.inference.heavy_tails import TailDiagnosis, diagnose_tail
from assay.metrics.definition import Metric, find

__all__ = ["MILDER", "loss_behind", "loss_words", "mean_behind", "tail_of"]

BEHIND = {"rmse": "mse", "r2": "mse"}
WORDS = {"mse": "squared error", "mae": "absolute error"}
MILDER = {"rmse": "mae", "mse": "mae", "r2": "mae", "mae": "median_absolute_error"}
"""The metric that leans less on the largest errors."""


def loss_behind(metric: Metric) -> Metric | None:
    """The metric whose row losses, in [0, inf), decide the figure; None where they are bounded or there are none.

    >>> loss_behind(find("rmse")).name, loss_behind(find("error"))
    ('mse', None)
    """
    behind = mean_behind(metric)
    return None if behind is None or behind.range != (0.0, np.inf) or behind.greater_is_better else behind


def mean_behind(metric: Metric) -> Metric | None:
    """The mean over rows that orders learners as the metric does: itself, or that of which it is a function; or None.

    >>> mean_behind(find("r2")).name, mean_behind(find("error")).name, mean_behind(find("auc"))
    ('mse', 'error', None)
    """
    behind = find(BEHIND[metric.name]) if metric.name in BEHIND else metric
    return None if behind.losses is None else behind


def loss_words(metric: Metric) -> str:
    """What the rows' losses are called in a sentence.

    >>> loss_words(find("rmse")), loss_words(find("log_loss"))
    ('squared error', 'log loss')
    """
    name = BEHIND.get(metric.name, metric.name)
    return WORDS.get(name, name.replace("_", " "))


def tail_of(
    metric: Metric, y_true: Any, y_pred: Any, *, sample_weight: Any = None, **options: Any
) -> TailDiagnosis | None:
    """The tail of the losses behind a figure, or None where a loss cannot grow without end or there are too few rows.

    >>> print(tail_of(find("rmse"), [0.0] * 40, [0.1] * 39 + [5.0]))
    1 of 40 rows makes up 98% of the loss; no tail to fit: the interval of the mean may be too short
    """
    behind = loss_behind(metric)
    if behind is None or len(y_true) < 2:
        return None
    losses = behind.per_row(y_true, y_pred, **options)
    assert losses is not None
    return diagnose_tail(losses, row_weights(sample_weight, losses.size))
