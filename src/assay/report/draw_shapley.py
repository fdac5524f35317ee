"""How Shapley values are drawn: one row as steps from the base to its prediction, several as mean contributions."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from assay.evaluation.shapley import ShapleyValues
from assay.numbers import fmt
from assay.report._bars import BARS, bars
from assay.report.picture import ACCENT, INK, MUTED, WARM, draw

__all__: list[str] = []

STEPS = 10
"""How many columns of a row have a step of their own; the rest is one step."""


@draw.register
def _shapley(result: ShapleyValues, ax: Axes | None = None) -> Axes:
    return _steps(result, ax) if result.values.shape[0] == 1 else _means(result, ax)


def _means(result: ShapleyValues, ax: Axes | None) -> Axes:
    size = result.importance
    top = np.argsort(-size, kind="stable")[:BARS][::-1]
    with bars(ax, [result.names[j] for j in top]) as axes:
        axes.barh(np.arange(top.size), size[top], color=ACCENT, height=0.7)
        axes.set(xlabel=f"mean absolute contribution ({result.scale})")
        axes.set_title(f"Shapley values of {result.values.shape[0]} rows\n{result.model}")
        return axes


def _steps(result: ShapleyValues, ax: Axes | None) -> Axes:
    """From the base at the bottom to the prediction at the top, the largest step last."""
    several = result.values.ndim == 3
    output = int(np.argmax(result.prediction[0])) if several else 0
    values = result.values[0, :, output] if several else result.values[0]
    base = float(np.ravel(result.base)[output])
    order = np.argsort(-np.abs(values), kind="stable")
    own, rest = order[:STEPS], order[STEPS:]
    names = [f"{result.names[j]} = {_cell(result.cells[0, j])}" for j in own][::-1]
    steps = values[own][::-1]
    if rest.size:
        names = [f"{rest.size} other columns", *names]
        steps = np.concatenate([[values[rest].sum()], steps])
    ends = base + np.cumsum(steps)
    with bars(ax, names) as axes:
        at = np.arange(steps.size)
        axes.barh(at, steps, left=ends - steps, color=np.where(steps >= 0, ACCENT, WARM), height=0.7)
        if result.std_error is not None:
            error = result.std_error[0, :, output] if several else result.std_error[0]
            own_at = at[-own.size :]
            axes.hlines(own_at, ends[own_at] - 2 * error[own][::-1], ends[own_at] + 2 * error[own][::-1], color=INK)
        axes.axvline(base, color=MUTED, linewidth=0.8)
        axes.axvline(ends[-1] if steps.size else base, color=INK, linewidth=0.8)
        of = f" of {result.outputs[output]}" if result.outputs[output] else ""
        axes.set(xlabel=f"{result.scale}{of}")
        last = float(np.ravel(result.prediction[0])[output])
        title = f"From {fmt(base)} (mean of the background) to {fmt(last)}"
        axes.set_title(f"{title}\nrow {result.index[0]}, {result.model}", parse_math=False)
        return axes


def _cell(value: object) -> str:
    return fmt(float(value), 4) if isinstance(value, float | np.floating) else str(value)
