"""What the curves give back: frozen, printable, `to_frame()`, `plot()`; they unpack as scikit-learn's tuples do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from assay.numbers import fmt
from assay.results import Interval, Result

__all__ = ["CalibrationCurve", "PrecisionRecallCurve", "RocCurve", "ThresholdTable"]

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class RocCurve(Result):
    """True against false positive rate over all thresholds; unpacks as `fpr, tpr, thresholds`."""

    fpr: Array
    tpr: Array
    thresholds: Array
    fpr_lower: Array
    fpr_upper: Array
    tpr_lower: Array
    tpr_upper: Array
    level: float
    band: str
    auc: Interval
    n_positive: int
    n_negative: int

    def __iter__(self) -> Iterator[Array]:
        return iter((self.fpr, self.tpr, self.thresholds))

    def to_frame(self) -> pd.DataFrame:
        """One row per threshold: both rates and their limits."""
        names = ("thresholds", "fpr", "fpr_lower", "fpr_upper", "tpr", "tpr_lower", "tpr_upper")
        return pd.DataFrame({name.replace("thresholds", "threshold"): getattr(self, name) for name in names})

    def __str__(self) -> str:
        size = f"{self.n_positive} positive and {self.n_negative} negative rows"
        return f"ROC curve of {size}, {self.tpr.size} points, {100 * self.level:g}% {self.band} band\n{self.auc}"


@dataclass(frozen=True, eq=False, repr=False)
class PrecisionRecallCurve(Result):
    """Precision against recall over all thresholds; unpacks as `precision, recall, thresholds`.

    As in scikit-learn thresholds rise, and a last point (precision 1, recall 0) without a threshold ends the curve.
    """

    precision: Array
    recall: Array
    thresholds: Array
    precision_lower: Array
    precision_upper: Array
    recall_lower: Array
    recall_upper: Array
    level: float
    band: str
    average_precision: Interval
    prevalence: float
    n_positive: int
    n_negative: int

    def __iter__(self) -> Iterator[Array]:
        return iter((self.precision, self.recall, self.thresholds))

    def to_frame(self) -> pd.DataFrame:
        """One row per point: precision, recall and their limits; the last point has no threshold."""
        columns = {"threshold": np.append(self.thresholds, np.inf)}
        for name in ("precision", "recall"):
            columns |= {part: getattr(self, part) for part in (name, f"{name}_lower", f"{name}_upper")}
        return pd.DataFrame(columns)

    def __str__(self) -> str:
        size = f"{self.n_positive} positive and {self.n_negative} negative rows"
        words = f"{self.precision.size} points, {100 * self.level:g}% {self.band} band"
        return f"Precision-recall curve of {size}, {words}\n{self.average_precision}"


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationCurve(Result):
    """Observed share of positives against mean predicted probability in bins; unpacks as `prob_true, prob_pred`."""

    prob_true: Array
    prob_pred: Array
    lower: Array
    upper: Array
    rows: Array
    lower_edge: Array
    upper_edge: Array
    level: float
    band: str
    error: Interval

    def __iter__(self) -> Iterator[Array]:
        return iter((self.prob_true, self.prob_pred))

    def to_frame(self) -> pd.DataFrame:
        """One row per bin that holds rows."""
        names = ("lower_edge", "upper_edge", "rows", "prob_pred", "prob_true", "lower", "upper")
        return pd.DataFrame({name: getattr(self, name) for name in names})

    def __str__(self) -> str:
        words = f"{self.rows.size} bins, {100 * self.level:g}% {self.band} Wilson intervals"
        return f"Calibration of {int(self.rows.sum())} rows in {words}\n{self.error}"


@dataclass(frozen=True, eq=False, repr=False)
class ThresholdTable(Result):
    """What each threshold buys: sensitivity, specificity and precision, with limits.

    `best` is the threshold with the greatest sensitivity + specificity (Youden); chosen on these rows, its figures
    are optimistic unless the band is simultaneous.
    """

    thresholds: Array
    called: Array
    sensitivity: Array
    specificity: Array
    precision: Array
    limits: dict[str, tuple[Array, Array]]
    level: float
    band: str
    best: float
    n_positive: int
    n_negative: int

    def to_frame(self) -> pd.DataFrame:
        """One row per threshold; precision is NaN where no row is called positive."""
        columns: dict[str, Array] = {"threshold": self.thresholds, "called": self.called}
        for name, (lower, upper) in self.limits.items():
            columns |= {name: getattr(self, name), f"{name}_lower": lower, f"{name}_upper": upper}
        return pd.DataFrame(columns)

    def __str__(self) -> str:
        size = f"{self.n_positive} positive and {self.n_negative} negative rows"
        head = f"Thresholds on {size}, {100 * self.level:g}% {self.band} limits; best by Youden: {fmt(self.best, 5)}"
        shown = pd.DataFrame({"threshold": [fmt(t, 5) for t in self.thresholds]})
        shown["called"] = [f"{100 * share:.3g}%" for share in self.called]
        for name, (lower, upper) in self.limits.items():
            parts = zip(getattr(self, name), lower, upper, strict=True)
            shown[name] = ["-" if np.isnan(p) else f"{p:.3f} [{low:.3f}, {high:.3f}]" for p, low, high in parts]
        return f"{head}\n{shown.to_string(index=False)}"
