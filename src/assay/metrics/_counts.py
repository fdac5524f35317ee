"""Right, true and assigned totals per class: all that the usual figures of a confusion table depend on.

A figure f(tp, row, col) has the influence psi_i = d/dtp[a] 1(a = b) + d/drow[a] + d/dcol[b], less its mean, on a row
of class a assigned to b. The derivatives are complex steps, Im f(x + ih)/h, exact to rounding for any h this small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assay.checks import row_weights
from assay.errors import ParameterError
from assay.metrics.inputs import class_list, encode_pair, positive_class
from assay.metrics.limits import average as weighted_mean
from assay.metrics.limits import effective, share_limits, smooth_limits, standard_error
from assay.results import Interval

__all__ = ["Counts", "averaged", "counted", "delta_limits", "f_score", "per_class", "with_positive"]

Array = np.ndarray
AVERAGES = ("binary", "macro", "micro", "weighted", None)
STEP = 1e-100


@dataclass(frozen=True, eq=False)
class Counts:
    """Totals per class, the rows they came from, and which classes a figure is about."""

    tp: Array
    row: Array
    col: Array
    truth: Array
    predicted: Array
    weights: Array | None
    classes: Array
    chosen: Array

    @property
    def n_rows(self) -> int:
        """How many rows have a positive weight."""
        return self.truth.size if self.weights is None else int(np.count_nonzero(self.weights))

    def chosen_labels(self) -> list[Any]:
        """The labels of the classes the figure is about."""
        known: list[Any] = self.classes.tolist()
        return [known[k] for k in self.chosen]

    def misses(self, k: Array) -> Array:
        """Rows of the class assigned elsewhere plus rows of others assigned to it."""
        return self.row[k] + self.col[k] - 2 * self.tp[k]

    def rows_of(self, k: int, kind: str = "recall") -> tuple[float, int]:
        """The effective and the actual number of rows below the ratio's line."""
        if kind in ("recall", "type_two"):
            mask = self.truth == k
        else:
            mask = self.predicted == k if kind == "precision" else self.truth != k
        weights = None if self.weights is None else self.weights[mask]
        size = int(mask.sum())
        return effective(weights, size), size if weights is None else int(np.count_nonzero(weights))

    def rows_behind(self, kind: str) -> list[tuple[float, int]]:
        """`rows_of` for every class the figure is about."""
        return [self.rows_of(int(k), kind) for k in self.chosen]


def counted(y_true: Any, y_pred: Any, sample_weight: Any, labels: Any) -> Counts:
    """Count; `labels` chooses (and orders) the classes a figure is about and may name unseen ones."""
    truth, predicted, classes = encode_pair(y_true, y_pred)
    weights = row_weights(sample_weight, truth.size)
    chosen = np.arange(classes.size)
    if labels is not None:
        known = {label: position for position, label in enumerate(classes.tolist())}
        asked = class_list(labels)
        extra = [label for label in asked.tolist() if label not in known]
        known.update({label: classes.size + position for position, label in enumerate(extra)})
        if extra:
            classes = np.array([*classes.tolist(), *extra], dtype=object)
        chosen = np.array([known[label] for label in asked.tolist()])
    k = classes.size
    row = np.bincount(truth, weights=weights, minlength=k).astype(float)
    col = np.bincount(predicted, weights=weights, minlength=k).astype(float)
    right = truth == predicted
    held = None if weights is None else weights[right]
    tp = np.bincount(truth[right], weights=held, minlength=k).astype(float)
    return Counts(tp, row, col, truth, predicted, weights, classes, chosen)


def with_positive(counts: Counts, pos_label: Any) -> Counts:
    """The same counts, about the positive class alone."""
    known = counts.classes.tolist()
    seen = np.flatnonzero(sum(np.bincount(codes, minlength=len(known)) for codes in (counts.truth, counts.predicted)))
    present = np.array([known[k] for k in seen], dtype=counts.classes.dtype)
    positive = positive_class(present, pos_label)
    if positive in known:
        return replace(counts, chosen=np.array([known.index(positive)]))
    zero = [0.0]
    return replace(
        counts,
        tp=np.append(counts.tp, zero),
        row=np.append(counts.row, zero),
        col=np.append(counts.col, zero),
        classes=np.array([*known, positive], dtype=object),
        chosen=np.array([len(known)]),
    )


def per_class(counts: Counts, kind: str) -> tuple[Array, Array]:
    """Above and below the line of a ratio, for each chosen class."""
    k = counts.chosen
    tp, row, col = counts.tp[k], counts.row[k], counts.col[k]
    others = counts.row.sum() - row
    return {
        "recall": (tp, row),
        "type_two": (row - tp, row),
        "precision": (tp, col),
        "specificity": (others - (col - tp), others),
        "type_one": (col - tp, others),
    }[kind]


def averaged(counts: Counts, kind: str, average: str | None, pos_label: Any, zero_division: float) -> Any:
    """The ratio of the positive class, averaged over classes, or of every class (average=None)."""
    if average == "binary":
        counts = with_positive(counts, pos_label)
    above, below = per_class(counts, kind)
    return _combine(above, below, counts.row[counts.chosen], average, zero_division)


def f_score(counts: Counts, beta: float, average: str | None, pos_label: Any, zero_division: float) -> Any:
    """F_beta = (1 + beta^2) TP / (beta^2 true + assigned)."""
    if average == "binary":
        counts = with_positive(counts, pos_label)
    k = counts.chosen
    above = (1 + beta**2) * counts.tp[k]
    below = beta**2 * counts.row[k] + counts.col[k]
    return _combine(above, below, counts.row[k], average, zero_division)


def _combine(above: Array, below: Array, support: Array, average: str | None, zero_division: float) -> Any:
    if average not in AVERAGES:
        words = ", ".join(repr(option) for option in AVERAGES)
        raise ParameterError(f"unknown average = {average!r}", remedy=f"choose one of {words}")
    if average == "micro":
        above, below = above.sum(keepdims=True), below.sum(keepdims=True)
    empty = below == 0
    ratio = np.where(empty, zero_division, above / np.where(empty, 1, below))
    if average is None:
        return ratio
    if average == "weighted" and support.sum() == 0:
        return float(zero_division)
    known = ~np.isnan(ratio)
    if not known.any():
        return float("nan")
    mass = support if average == "weighted" else np.ones(ratio.size)
    mass, ratio = mass[known], ratio[known]
    value = (ratio * mass).sum() / mass.sum() if mass.sum() != 0 else np.nan
    return value if np.iscomplexobj(value) else float(value)


def delta_limits(
    counts: Counts, figure: Callable[[Counts], Any], level: float, bounds: tuple[float, float], name: str
) -> Interval:
    """The delta method on the logit scale of the range; with no spread, the tables Wilson's interval allows."""
    estimate = float(np.real(figure(counts)))
    if not np.isfinite(estimate):
        raise ParameterError(f"{name} is not defined for these rows", remedy="pass zero_division=0 or other rows")
    influence = _influence(counts, figure)
    error = standard_error(influence, counts.weights)
    if error > 1e-12 and bounds[0] < estimate < bounds[1]:
        return smooth_limits(
            estimate,
            error,
            level=level,
            scale="logit",
            bounds=bounds,
            method="delta (logit scale)",
            rows=counts.n_rows,
            estimand=name,
        )
    lower, upper = _unseen(counts, figure, level)
    lower, upper = max(min(lower, estimate), bounds[0]), min(max(upper, estimate), bounds[1])
    return Interval(estimate, lower, upper, float(level), "Wilson (no spread)", counts.n_rows, name)


def _influence(counts: Counts, figure: Callable[[Counts], Any]) -> Array:
    total = counts.row.sum()
    parts = {}
    for name in ("tp", "row", "col"):
        base = getattr(counts, name)
        slope = np.zeros(base.size)
        for k in np.flatnonzero((counts.row > 0) | (counts.col > 0)):
            moved = base.astype(complex)
            moved[k] += 1j * STEP
            slope[k] = np.imag(figure(replace(counts, **{name: moved}))) / STEP
        parts[name] = slope * total
    truth, predicted = counts.truth, counts.predicted
    psi = parts["tp"][truth] * (truth == predicted) + parts["row"][truth] + parts["col"][predicted]
    return psi - weighted_mean(psi, counts.weights)


def _unseen(counts: Counts, figure: Callable[[Counts], Any], level: float) -> tuple[float, float]:
    """The figure when a share u of the right rows turns wrong, and when a share u of the wrong rows turns right.

    u is Wilson's upper limit after no such row in n; rows that turn wrong spread over the other classes by their size.
    """
    trials = effective(counts.weights, counts.truth.size)
    u = share_limits(0.0, trials, level=level, method="wilson", rows=0, estimand="").upper
    tp, row, col = counts.tp, counts.row, counts.col
    share = row / row.sum()
    away = np.where(share < 1, u * tp / np.where(share < 1, 1 - share, 1), 0.0)
    landed = share * (away.sum() - away)
    worse = replace(counts, tp=(1 - u) * tp, col=col - u * tp + landed)
    better = replace(counts, tp=tp + u * (row - tp), col=col - u * (col - tp) + u * (row - tp))
    return float(np.real(figure(worse))), float(np.real(figure(better)))
