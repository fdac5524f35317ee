"""How a validation is drawn: the metric on each fold, and that of all out-of-fold rows with its interval."""

from __future__ import annotations

from textwrap import fill

import numpy as np
from matplotlib.axes import Axes

from assay.evaluation.validate import Validation
from assay.numbers import fmt
from assay.report.picture import ACCENT, INK, MUTED, canvas, draw

__all__: list[str] = []

SHOWN = 400
"""More folds than this are drawn as a sample of them."""


@draw.register
def _validation(result: Validation, ax: Axes | None = None) -> Axes:
    """Folds as points, the figure of all rows as a line within its interval."""
    found = result.interval()
    scores = result.fold_scores[np.isfinite(result.fold_scores)]
    with canvas(ax, (7.0, 2.6)) as axes:
        text = f"{100 * found.level:g}% interval ({found.method})"
        axes.axvspan(found.lower, found.upper, color=ACCENT, alpha=0.18, linewidth=0, label=text)
        axes.axvline(found.estimate, color=ACCENT, linewidth=1.6, label=f"all rows {fmt(found.estimate)}")
        if scores.size > 1 and result.scheme.kind != "leave-one-out":
            shown = scores[np.unique(np.linspace(0, scores.size - 1, min(SHOWN, scores.size)).astype(int))]
            # A fixed wobble keeps equal folds apart without a random picture.
            height = (np.arange(shown.size) * 0.618) % 1.0
            axes.scatter(shown, height, s=22, color=MUTED, edgecolors=INK, linewidths=0.5, label="folds", zorder=3)
        axes.set(
            xlabel=result.metric.name, title=fill(f"{result.name}: {result.scheme}", 70), ylim=(-0.15, 1.15), yticks=[]
        )
        axes.margins(x=0.08)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=3)
        return axes
