"""Figures and their names in words that need no statistics: shares as percentages, metrics by what they tell."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["MEANING", "apart", "called", "figure", "limits", "roughly"]

CALLED = {
    "rmse": "typical error (rmse)",
    "mae": "average error (mae)",
    "mse": "mean squared error (mse)",
    "r2": "share of the variation explained (r2)",
    "error": "error rate",
    "accuracy": "share of right answers (accuracy)",
    "balanced_accuracy": "balanced accuracy",
    "auc": "quality of ranking (auc)",
    "log_loss": "log loss",
    "brier": "brier score",
}
MEANING = {
    "rmse": "how far predictions typically miss, in the target's own unit, large misses counting more",
    "mae": "how far predictions miss on average, in the target's own unit",
    "mse": "the mean of the squared misses",
    "r2": "how much of the target's variation the predictions account for; 0% is a plain guess of the mean",
    "error": "the share of wrong answers",
    "accuracy": "the share of right answers",
    "balanced_accuracy": "the share of right answers, each class counting alike however rare it is",
    "auc": "how often a row of the class is ranked above one that is not of it; 0.5 is a guess, 1 is perfect",
    "log_loss": "how surprised the predicted probabilities are by the truth; 0 is certainty that was right",
    "brier": "the squared miss of the predicted probabilities; 0 is certainty that was right",
}
"""What a metric tells, for `--explain`."""
SHARES = frozenset(["error", "accuracy", "balanced_accuracy", "r2"])
"""Metrics that are shares, and read best as percentages."""


def called(metric: str, short: bool = False) -> str:
    """What a metric is called in a sentence; `short` leaves out what stands in brackets.

    >>> called("rmse"), called("auc", short=True), called("pinball")
    ('typical error (rmse)', 'auc', 'pinball')
    """
    plain = "error rate" if metric == "error" else metric.replace("_", " ")
    return plain if short else CALLED.get(metric, plain)


def figure(metric: str, value: Any) -> str:
    """A figure of a metric: a percentage where it is a share, four digits otherwise.

    >>> figure("error", 0.0421), figure("rmse", 316.72), figure("error", None)
    ('4.2%', '316.7', '')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if metric in SHARES and math.isfinite(value):
        shown = 100 * float(value)
        digits = 1 if 1 <= abs(shown) < 99 or shown in (0, 100) else 2
        return f"{shown:.{digits}f}%"
    return f"{value:.4g}"


def limits(metric: str, low: Any, high: Any) -> str:
    """An interval in words.

    >>> limits("error", 0.02, 0.085), limits("rmse", 253.8, 395.1)
    ('2.0% to 8.5%', '253.8 to 395.1')
    """
    return "" if low is None or high is None else f"{figure(metric, low)} to {figure(metric, high)}"


def apart(metric: str, value: float) -> str:
    """A difference of two figures: in percentage points where they are shares.

    >>> apart("error", -0.042), apart("rmse", -41.93)
    ('-4.2 points', '-41.9')
    """
    return f"{100 * value:.2g} points" if metric in SHARES else f"{value:.3g}"


def roughly(release: Any) -> str:
    """What may be said of a look beyond the plan, as a clause.

    >>> from assay.experiment.ladder import Release
    >>> roughly(Release(0.125, True, 0.0125, 80, "error"))
    'the error rate is about 12.5%, the best so far (told in steps of 1.2%, without an interval)'
    """
    name = called(release.loss, short=True)
    value, step = figure(release.loss, release.value), figure(release.loss, release.step)
    told = f"told in steps of {step}, without an interval"
    if not release.improved:
        return f"the model is not clearly better than the best so far, whose {name} is about {value} ({told})"
    return f"the {name} is about {value}, the best so far ({told})"
