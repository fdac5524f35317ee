"""How reliability before and after calibration is drawn: two curves with their intervals beside the diagonal."""

from __future__ import annotations

from matplotlib.axes import Axes

from assay.calibration import Reliability
from assay.report.picture import ACCENT, MUTED, WARM, canvas, draw

__all__: list[str] = []

LARGEST_DOT = 90.0
"""Area of the dot of a bin that holds all rows, in points squared."""


@draw.register
def _reliability(result: Reliability, ax: Axes | None = None) -> Axes:
    """Observed shares over predicted ones; the dots grow with the rows of their bin."""
    with canvas(ax, (5.6, 5.4)) as axes:
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle="--", label="calibrated")
        losses = result.figures["log_loss"]
        for curve, colour, word, loss in (
            (result.before, WARM, "before", losses[0]),
            (result.after, ACCENT, "after", losses[1]),
        ):
            axes.vlines(curve.prob_pred, curve.lower, curve.upper, color=colour, linewidth=1.8, alpha=0.45)
            label = f"{word}: calibration error {curve.error.estimate:.3f}, log loss {loss.estimate:.3f}"
            axes.plot(curve.prob_pred, curve.prob_true, color=colour, linewidth=1.3, label=label)
            size = 14 + LARGEST_DOT * curve.rows / curve.rows.sum()
            axes.scatter(curve.prob_pred, curve.prob_true, s=size, color=colour, zorder=3)
        text = f"{100 * result.before.level:g}% Wilson intervals, dots grow with their rows (n = {result.n})"
        axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.22))
        axes.set(xlabel=f"predicted probability\n{text}", ylabel="observed share")
        axes.set_title(f"{result.subject}, {result.method} calibration")
        axes.legend(loc="upper left")
        return axes
