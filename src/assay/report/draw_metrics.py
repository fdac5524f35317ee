"""How the results of metrics are drawn: confusion tables, ROC, precision-recall and calibration curves, thresholds."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from assay.metrics.confusion import Confusion
from assay.metrics.curve_results import CalibrationCurve, PrecisionRecallCurve, RocCurve, ThresholdTable
from assay.numbers import fmt
from assay.report.picture import ACCENT, INK, MUTED, WARM, canvas, draw

__all__: list[str] = []

SHOWN = 2_000
"""How many points of a long curve are drawn; the eye sees no more."""
NAMED = 15
"""Up to this many classes the cells of a confusion table carry their counts."""


@draw.register
def _confusion(result: Confusion, ax: Axes | None = None) -> Axes:
    """Shares of each true class as shades, counts as text."""
    k = len(result.labels)
    side = float(np.clip(1.8 + 0.62 * k, 3.6, 9.0))
    shares = result.normalized()
    with canvas(ax, (side + 0.6, side)) as axes:
        axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
        if k <= NAMED:
            for (i, j), count in np.ndenumerate(result.counts):
                text = fmt(count)
                axes.text(j, i, text, ha="center", va="center", color="white" if shares[i, j] > 0.5 else INK)
            names = [str(label) for label in result.labels]
            crowded = max(len(name) for name in names) > 6
            axes.set_xticks(range(k), names, rotation=45 if crowded else 0, ha="right" if crowded else "center")
            axes.set_yticks(range(k), names)
        axes.grid(visible=False)
        axes.set(xlabel="assigned class", ylabel="true class", title=f"Error rate {fmt(result.error, 3)}")
        return axes


def _thin(size: int) -> np.ndarray:
    return np.unique(np.linspace(0, size - 1, min(size, SHOWN)).astype(int))


def _unit_square(axes: Axes) -> None:
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))


@draw.register
def _roc(result: RocCurve, ax: Axes | None = None) -> Axes:
    """The curve over its band, beside the diagonal of guessing."""
    at = _thin(result.tpr.size)
    text = f"{100 * result.level:g}% {result.band} band"
    with canvas(ax, (5.2, 4.8)) as axes:
        if result.band == "pointwise":
            axes.fill_between(
                result.fpr[at], result.tpr_lower[at], result.tpr_upper[at], color=ACCENT, alpha=0.18, lw=0, label=text
            )
        else:
            # Every point may move both ways: the band lies between its upper left and its lower right corners.
            x = np.concatenate([[0.0], result.fpr_lower[at], [1.0], result.fpr_upper[at][::-1], [0.0]])
            y = np.concatenate([[0.0], result.tpr_upper[at], [1.0], result.tpr_lower[at][::-1], [0.0]])
            axes.fill(x, y, color=ACCENT, alpha=0.18, linewidth=0, label=text)
        area = result.auc
        label = f"AUC {area.estimate:.3f} [{area.lower:.3f}, {area.upper:.3f}]"
        axes.plot(result.fpr[at], result.tpr[at], color=ACCENT, linewidth=1.6, label=label)
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle="--", label="guessing")
        _unit_square(axes)
        axes.set(xlabel="false positive rate", ylabel="true positive rate", title="ROC curve")
        axes.legend(loc="lower right")
        return axes


@draw.register
def _precision_recall(result: PrecisionRecallCurve, ax: Axes | None = None) -> Axes:
    """Steps of precision over recall, beside the share of positives that guessing reaches."""
    at = _thin(result.recall.size)
    with canvas(ax, (5.2, 4.8)) as axes:
        x = result.recall[at]
        text = f"{100 * result.level:g}% {result.band} band"
        low, high = result.precision_lower[at], result.precision_upper[at]
        axes.fill_between(x, low, high, color=ACCENT, alpha=0.18, linewidth=0, label=text)
        area = result.average_precision
        label = f"AP {area.estimate:.3f} [{area.lower:.3f}, {area.upper:.3f}]"
        axes.step(x, result.precision[at], where="post", color=ACCENT, linewidth=1.6, label=label)
        guess = f"share of positives {fmt(result.prevalence, 3)}"
        axes.axhline(result.prevalence, color=MUTED, linewidth=1, linestyle="--", label=guess)
        _unit_square(axes)
        axes.set(xlabel="recall", ylabel="precision", title="Precision-recall curve")
        axes.legend(loc="best")
        return axes


@draw.register
def _calibration(result: CalibrationCurve, ax: Axes | None = None) -> Axes:
    """Observed shares with their intervals over predicted ones, beside the diagonal of calibration."""
    with canvas(ax, (5.2, 4.8)) as axes:
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle="--", label="calibrated")
        text = f"{100 * result.level:g}% {result.band} intervals"
        axes.vlines(result.prob_pred, result.lower, result.upper, color=ACCENT, linewidth=2, alpha=0.6, label=text)
        axes.plot(result.prob_pred, result.prob_true, "o-", color=ACCENT, markersize=5, linewidth=1.2)
        for x, y, rows in zip(result.prob_pred, result.lower, result.rows, strict=True):
            axes.annotate(f"{rows}", (x, y), (0, -3), textcoords="offset points", ha="center", va="top", fontsize=8)
        error = result.error
        title = f"Calibration error {error.estimate:.3f} [{error.lower:.3f}, {error.upper:.3f}]"
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.08, 1.02))
        axes.set(xlabel="predicted probability (rows below each bin)", ylabel="observed share", title=title)
        axes.legend(loc="upper left")
        return axes


@draw.register
def _thresholds(result: ThresholdTable, ax: Axes | None = None) -> Axes:
    """Sensitivity, specificity and precision against the threshold, each with its band."""
    with canvas(ax) as axes:
        for name, colour in (("sensitivity", ACCENT), ("specificity", WARM), ("precision", INK)):
            lower, upper = result.limits[name]
            shown = ~np.isnan(getattr(result, name))
            x = result.thresholds[shown]
            axes.fill_between(x, lower[shown], upper[shown], color=colour, alpha=0.12, linewidth=0)
            axes.plot(x, getattr(result, name)[shown], color=colour, linewidth=1.5, label=name)
        axes.axvline(
            result.best, color=MUTED, linewidth=1, linestyle=":", label=f"best by Youden: {fmt(result.best, 3)}"
        )
        title = f"Thresholds, {100 * result.level:g}% {result.band} bands"
        axes.set(xlabel="threshold", ylabel="share", ylim=(-0.01, 1.01), title=title)
        axes.legend(loc="best")
        return axes
