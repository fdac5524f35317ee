"""Reliability before and after calibration: curves, calibration error, Brier score, log loss, and what changed.

    change = mean_i (loss after - loss before)_i,  with a t interval: the rows are the same, so they are paired

The calibration error adds absolute values over bins and has no such difference; its two intervals stand side by side.
Cost: O(n K). DeGroot & Fienberg (1983), The Statistician 32, 12-22.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from assay.calibration.maps import METHODS, IsotonicMap, LogisticMap, Maps, apply_maps, fit_maps, map_of, score_table
from assay.checks import choice, fraction, freeze, row_weights
from assay.errors import DataError
from assay.metrics import brier, calibration_curve, log_loss
from assay.metrics.curve_results import CalibrationCurve
from assay.metrics.inputs import encode, label_column, same_rows
from assay.metrics.limits import loss_limits
from assay.resampling import splits_of
from assay.results import Interval, Result

__all__ = ["CalibratedScores", "Reliability", "as_probabilities", "calibrate", "compare", "method_name"]

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Reliability(Result):
    """How well probabilities keep their word before and after calibration, on the same rows.

    | field           | meaning                                                                                       |
    |-----------------|-----------------------------------------------------------------------------------------------|
    | before, after   | calibration curves with Wilson's intervals (and the calibration error as their `error`)       |
    | figures         | {"expected_calibration_error" / "brier" / "log_loss": (before, after)}, each an `Interval`    |
    | changes         | {"brier" / "log_loss": `Interval` of after - before}, paired by row                           |
    | subject, method | what was calibrated, and how                                                                  |
    | event           | what is predicted: "y = 'spam'", or with more classes that the most probable one is right     |
    | reading         | where the probabilities before come from                                                      |
    """

    before: CalibrationCurve
    after: CalibrationCurve
    figures: dict[str, tuple[Interval, Interval]]
    changes: dict[str, Interval]
    subject: str
    method: str
    event: str
    reading: str

    @property
    def n(self) -> int:
        """How many rows were used."""
        return int(self.before.rows.sum())

    def to_frame(self) -> pd.DataFrame:
        """One row per figure and stage (before, after, change): estimate, limits, level, method, n."""
        parts = {}
        for name, (before, after) in self.figures.items():
            parts[name, "before"], parts[name, "after"] = before, after
            if name in self.changes:
                parts[name, "change"] = self.changes[name]
        table = pd.concat([part.to_frame() for part in parts.values()])
        table.index = pd.MultiIndex.from_tuples(parts, names=["figure", "stage"])
        return table

    def __str__(self) -> str:
        title = f"Reliability of {self.subject} before and after {self.method} calibration"
        about = f"{self.event}, n = {self.n}; before: {self.reading}"
        width = max(len(name) for name in self.figures)
        head = f"{'':<{width}}  {'before':<26}  {'after':<26}  change"
        lines = []
        for name, (before, after) in self.figures.items():
            change = _short(self.changes[name]) if name in self.changes else ""
            lines.append(f"{name:<{width}}  {_short(before):<26}  {_short(after):<26}  {change}".rstrip())
        level = (
            f"{100 * self.before.level:g}% intervals: Wilson over all bins for the calibration error, t for the rest"
        )
        rule = "-" * max(len(line) for line in [title, about, head, *lines, level])
        return "\n".join([title, about, rule, head, *lines, rule, level])


def _short(interval: Interval) -> str:
    return f"{interval.estimate:.4f} [{interval.lower:.4f}, {interval.upper:.4f}]"


def as_probabilities(scores: Array) -> tuple[Array, str]:
    """Probabilities that the scores stand for, and how they were read.

    Scores that are probabilities stay as they are; others are log odds: the sigmoid of one column (two classes), the
    softmax of several.
    """
    if scores.shape[1] == 1:
        known = scores.min() >= 0 and scores.max() <= 1
        p = scores[:, 0] if known else special.expit(scores[:, 0])
        return np.column_stack([1 - p, p]), "the scores as probabilities" if known else "the sigmoid of the scores"
    if scores.min() >= 0 and np.allclose(scores.sum(axis=1), 1.0, atol=1e-6):
        return scores, "the scores as probabilities"
    return np.asarray(special.softmax(scores, axis=1)), "the softmax of the scores"


def compare(
    codes: Array,
    classes: Array,
    before: Array,
    after: Array,
    weights: Array | None,
    words: dict[str, str],
    *,
    n_bins: int,
    strategy: str,
    level: float,
    pos_label: Any = None,
) -> Reliability:
    """The figures and curves of two tables of probabilities for the same rows."""
    level = fraction(level, "level")
    options = {"sample_weight": weights, "level": level}
    if classes.size == 2 or pos_label is not None:
        position = 1 if pos_label is None else _position(pos_label, classes)
        truth, tables = codes == position, (before[:, position], after[:, position])
        event = f"event: y = {classes.tolist()[position]!r}"
        pairs = [(truth, p) for p in tables]
    else:
        truth, tables = codes, (before, after)
        event = "event: the most probable class is right"
        pairs = [(table.argmax(axis=1) == codes, table.max(axis=1)) for table in tables]
    curves = [
        calibration_curve(hit, p, pos_label=True, n_bins=n_bins, strategy=strategy, **options) for hit, p in pairs
    ]
    labels = np.arange(classes.size) if tables[0].ndim == 2 else np.array([False, True])
    figures = {"expected_calibration_error": (curves[0].error, curves[1].error)}
    changes = {}
    for metric in (brier, log_loss):
        one, two = (metric.interval(truth, table, labels=labels, **options) for table in tables)
        figures[metric.name] = (one, two)
        rows = [metric.per_row(truth, table, labels=labels) for table in tables]
        changes[metric.name] = loss_limits(
            rows[1] - rows[0], weights, level=level, estimand=f"change in {metric.name}", bounds=(-np.inf, np.inf)
        )
    return Reliability(curves[0], curves[1], figures, changes, event=event, **words)


def _position(label: Any, classes: Array) -> int:
    known = classes.tolist()
    if label not in known:
        raise DataError(f"pos_label = {label!r} is not one of {known}", remedy="pass one of the classes")
    return known.index(label)


@dataclass(frozen=True, eq=False, repr=False)
class CalibratedScores(Result):
    """Cross-fitted probabilities of scores, the map for new ones, and what calibration did.

    | field         | meaning                                                                                    |
    |---------------|--------------------------------------------------------------------------------------------|
    | probabilities | one per row (of the second class), or one column per class; each from maps of other folds  |
    | maps          | the map fitted to all rows, one per class (a single one for two classes)                   |
    | classes       | the sorted classes                                                                         |
    | reliability   | the `Reliability` of the scores before and after                                           |
    """

    probabilities: Array
    maps: Maps
    classes: Array
    reliability: Reliability

    def predict(self, scores: Any) -> Array:
        """Probabilities of new scores, by the map fitted to all rows."""
        table = apply_maps(self.maps, score_table(scores, self.classes.size, "scores"))
        return table[:, 1] if self.classes.size == 2 else table

    def to_frame(self) -> pd.DataFrame:
        """The figures before and after, as `reliability.to_frame()`."""
        return self.reliability.to_frame()

    def plot(self, ax: Any = None) -> Any:
        """The reliability before and after."""
        return self.reliability.plot(ax)

    def __str__(self) -> str:
        return str(self.reliability)


def calibrate(
    scores: Any,
    y: Any,
    *,
    method: Any = "logistic",
    cv: Any = 5,
    sample_weight: Any = None,
    n_bins: int = 10,
    strategy: str = "uniform",
    level: float = 0.95,
) -> CalibratedScores:
    """Calibrated probabilities of scores that are already out of sample, each from a map that did not see its row.

        p_i = g_{-k(i)}(s_i),    g_{-k} fitted to the pairs (s, y) outside fold k

    For scores from a validation set, from `cross_val_predict`, or from a model in another language. Where you have the
    classifier itself, `CalibratedClassifier` does all of it.

    | parameter     | default    | range                                     | meaning                               |
    |---------------|------------|-------------------------------------------|---------------------------------------|
    | scores        |            | one per row, or one column per class      | greater: more like the (second) class |
    | y             |            | two classes or more                       | what the rows are                     |
    | method        | "logistic" | "isotonic", "logistic", a map             | the kind of map, or one with settings |
    | cv            | 5          | a number, a splitter, (train, test) pairs | folds that test every row once        |
    | sample_weight | None       | n numbers >= 0                            | how much each row counts              |
    | n_bins        | 10         | at least 1                                | bins of the reliability curves        |
    | strategy      | "uniform"  | "uniform", "quantile"                     | of equal width, or equally filled     |
    | level         | 0.95       | (0, 1)                                    | confidence of their intervals         |

    The figures "before" read scores outside [0, 1] as log odds (the sigmoid, or the softmax of several columns).

    Zadrozny & Elkan (2002), KDD.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 500)
    >>> found = calibrate(5 * (rng.normal(size=500) + y - 0.5), y)
    >>> round(found.maps[0].slope_, 2), found.probabilities[:3].round(2).tolist()
    (0.17, [0.7, 0.57, 0.95])
    """
    if not isinstance(method, IsotonicMap | LogisticMap):
        method = choice(method, "method", tuple(METHODS))
    codes, classes = encode(label_column(y, "y"), "y")
    if classes.size < 2:
        raise DataError(f"y has only one class, {classes.tolist()[0]!r}", remedy="pass rows of at least two classes")
    table = score_table(scores, classes.size, "scores")
    same_rows(codes, table, "scores", "y")
    w = row_weights(sample_weight, codes.size)
    kept = np.ones(codes.size, dtype=bool) if w is None else w > 0
    splits = splits_of(cv, table, codes, classes=True)
    tested = np.bincount(np.concatenate([test for _, test in splits]), minlength=codes.size)
    if not np.all(tested == 1):
        row = int(np.argmax(tested != 1))
        what = f"cv tests row {row} {int(tested[row])} times, but each row needs one cross-fitted probability"
        raise DataError(what, remedy="pass folds that test each row once, such as cv=5")
    after = np.empty((codes.size, classes.size))
    for k, (train, test) in enumerate(splits):
        rows = train[kept[train]]
        part = None if w is None else w[rows]
        maps = fit_maps(table[rows], codes[rows], classes, part, method, f" outside fold {k}")
        after[test] = apply_maps(maps, table[test])
    before, reading = as_probabilities(table)
    words = {"subject": "scores", "method": method_name(method), "reading": reading}
    found = compare(codes, classes, before, after, w, words, n_bins=n_bins, strategy=strategy, level=level)
    final = fit_maps(table[kept], codes[kept], classes, None if w is None else w[kept], method)
    return CalibratedScores(freeze(after[:, 1].copy() if classes.size == 2 else after), final, classes, found)


def method_name(method: Any) -> str:
    """The kind of map."""
    return "isotonic" if isinstance(map_of(method), IsotonicMap) else "logistic"
