"""How Shapley values are drawn: one row as steps from the base to its prediction, several as mean contributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from assay.evaluation.shapley import ShapleyValues
from assay.numbers import fmt
from assay.report._bars import BARS, bars
from assay.report.picture import ACCENT, INK, MUTED, WARM, draw

__all__ = ["cell_text", "steps"]

STEPS = 10
"""How many columns of a row have a step of their own; the rest is one step."""


@draw.register
def _shapley(result: ShapleyValues, ax: Axes | None = None) -> Axes:
    return steps(result, ax) if result.values.shape[0] == 1 else _means(result, ax)


def _means(result: ShapleyValues, ax: Axes | None) -> Axes:
    size = result.importance
    top = np.argsort(-size, kind="stable")[:BARS][::-1]
    with bars(ax, [result.names[j] for j in top]) as axes:
        axes.barh(np.arange(top.size), size[top], color=ACCENT, height=0.7)
        axes.set(xlabel=f"mean absolute contribution ({result.scale})")
        axes.set_title(f"Shapley values of {result.values.shape[0]} rows\n{result.model}")
        return axes


def steps(result: ShapleyValues, ax: Axes | None = None, most: int = STEPS) -> Axes:
    """One row from the base at the bottom to its prediction at the top, the largest step last.

    | parameter | default | range           | meaning                                                        |
    |-----------|---------|-----------------|----------------------------------------------------------------|
    | result    |         | of one row      | its Shapley values                                             |
    | ax        | None    | axes            | drawn on; None: new ones                                       |
    | most      | 10      | 1, 2, 3, ...    | columns with a step of their own; all others are one           |
    """
    several = result.values.ndim == 3
    output = int(np.argmax(result.prediction[0])) if several else 0
    values = result.values[0, :, output] if several else result.values[0]
    base = float(np.ravel(result.base)[output])
    order = np.argsort(-np.abs(values), kind="stable")
    moved = max(1, int(np.count_nonzero(values)))
    shown = moved if moved <= most + 1 else most  # one that is left would take as much room as its name
    own, rest = order[:shown], order[shown:moved]
    names = [f"{result.names[j]} = {cell_text(result.cells[0, j])}" for j in own][::-1]
    moves = values[own][::-1]
    if rest.size:
        names = [f"{rest.size} other columns", *names]
        moves = np.concatenate([[values[rest].sum()], moves])
    ends = base + np.cumsum(moves)
    with bars(ax, names) as axes:
        at = np.arange(moves.size)
        axes.barh(at, moves, left=ends - moves, color=np.where(moves >= 0, ACCENT, WARM), height=0.7)
        if result.std_error is not None:
            error = result.std_error[0, :, output] if several else result.std_error[0]
            own_at = at[-own.size :]
            axes.hlines(own_at, ends[own_at] - 2 * error[own][::-1], ends[own_at] + 2 * error[own][::-1], color=INK)
        axes.use_sticky_edges = False
        axes.margins(x=0.04)
        axes.axvline(base, color=MUTED, linewidth=0.8)
        axes.axvline(ends[-1] if moves.size else base, color=INK, linewidth=0.8)
        of = f" of {result.outputs[output]}" if result.outputs[output] else ""
        axes.set_xlabel(f"{result.scale}{of}", parse_math=False)
        last = float(np.ravel(result.prediction[0])[output])
        title = f"From {fmt(base)} (mean of the background) to {fmt(last)}"
        axes.set_title(f"{title}\nrow {result.index[0]}, {result.model}", parse_math=False)
        return axes


def cell_text(value: Any) -> str:
    """What a column held, in brief; without thousands set apart, since it may be a year.

    >>> cell_text(1938.0), cell_text(None), cell_text("red")
    ('1938', 'missing', 'red')
    """
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return "missing"
    if isinstance(value, pd.Timestamp):
        return str(value)[:10]
    return fmt(float(value), 4, group=False) if isinstance(value, float | np.floating) else str(value)
