"""Which metrics say nothing on their own: those that a constant prediction, whatever the row, brings to their best.

    sensitivity = 1 where every row is called positive,    type-I error = 0 where none is

A learner can only tie with such a constant, never beat it, so a comparison by that metric alone finds no difference
and a search by it finds the constant. The property is checked, not declared: the metric is asked about each class said
of every row, and about the classes' shares given as the probabilities of every row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from assay.errors import AssayError
from assay.metrics.scorer import class_options

if TYPE_CHECKING:
    from assay.metrics.definition import Metric

__all__ = ["constant_wins"]

EACH = 4
"""Rows of each class in the table that a metric is asked about."""


def constant_wins(metric: Metric, classes: Any) -> Any | None:
    """The constant prediction that reaches the metric's best value on a table of these classes; None: there is none.

    A class for a metric of labels, "their shares" for one of probabilities or scores.

    >>> from assay.metrics import METRICS
    >>> wins = {name: constant_wins(METRICS[name], ["no", "yes"]) for name in ("sensitivity", "type_one_error", "f1")}
    >>> wins
    {'sensitivity': 'yes', 'type_one_error': 'no', 'f1': None}
    """
    if metric.first != "y_true" or metric.needs == "values":
        return None
    labels = np.asarray(classes)
    truth = np.repeat(labels, EACH)
    shares = np.full((truth.size, labels.size), 1.0 / labels.size)
    guesses: dict[Any, Any] = {"their shares": shares[:, 1] if labels.size == 2 else shares}
    if metric.needs == "labels":
        guesses = {label: np.repeat(labels[[k]], truth.size) for k, label in enumerate(labels.tolist())}
    best = metric.range[1] if metric.greater_is_better else metric.range[0]
    for name, guess in guesses.items():
        try:
            reached = metric(truth, guess, **class_options(metric, labels))
        except AssayError:  # a figure that constants do not have
            continue
        if np.ndim(reached) == 0 and abs(float(reached) - best) < 1e-12:
            return name
    return None
