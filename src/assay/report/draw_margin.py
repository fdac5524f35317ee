"""Pictures of kernels, the perceptron and single units: spectra, mistakes, errors, and lines with their margin."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from assay.errors import DataError, ParameterError
from assay.labels import class_labels
from assay.margin.kernels import Validity
from assay.margin.perceptron import MistakeTrace
from assay.margin.units import UnitTrace
from assay.numbers import fmt
from assay.report.draw_regions import COLOURS, _axis_names, _legend, _rows
from assay.report.picture import ACCENT, INK, MUTED, STYLE, WARM, canvas, draw

__all__ = ["draw_line"]

SHOWN = 8
"""How many weights or classes get a line of their own."""


@draw.register
def _validity(result: Validity, ax: Axes | None = None) -> Axes:
    """The spectrum from the largest eigenvalue to the smallest, those below zero in another colour."""
    with canvas(ax) as axes:
        values = result.eigenvalues[::-1]
        at = np.arange(1, values.size + 1)
        below = values < -result.tolerance
        for chosen, colour, label in ((~below, ACCENT, None), (below, WARM, f"{below.sum()} below zero")):
            if chosen.any():
                axes.vlines(at[chosen], 0.0, values[chosen], color=colour, linewidth=1.2)
                axes.plot(at[chosen], values[chosen], "o", color=colour, markersize=3.5, label=label)
        axes.axhline(0.0, color=INK, linewidth=0.8)
        least = np.abs(values[below]).min() if below.any() else np.abs(values).max(initial=1.0)
        if below.any() and np.abs(values).max() > 30 * least:
            axes.set_yscale("symlog", linthresh=float(least))
            axes.yaxis.set_minor_locator(plt.NullLocator())
            axes.set_ylim(2.0 * float(values.min()), 2.0 * float(values.max()))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        verdict = "valid by construction" if result.by_construction else "not refuted by these rows"
        if not result.valid:
            verdict = "not a kernel"
        axes.set(xlabel="eigenvalue, from the largest", ylabel="value", title=f"{result.formula}: {verdict}")
        if below.any():
            axes.legend(loc="best")
        return axes


@draw.register
def _mistakes(result: MistakeTrace, ax: Axes | None = None) -> Axes:
    """All mistakes up to each pass, one line per class, and the bound (dashed) where there is one."""
    with canvas(ax) as axes:
        for k, name in enumerate(result.names[:SHOWN]):
            passes = int(result.passes[k])
            total = np.cumsum(result.mistakes[k][:passes])
            colour = COLOURS[k % len(COLOURS)]
            at = np.arange(1, total.size + 1)
            bounded = bool(np.isfinite(result.bound[k]))
            label = f"{name}: at most R²/γ² = {fmt(np.floor(result.bound[k]), 4)}" if bounded else name
            axes.plot(at, total, color=colour, marker="o" if passes <= 30 else None, markersize=4, label=label)
            if bounded:
                axes.axhline(result.bound[k], color=colour, linewidth=1, linestyle="--")
        known = result.bound[np.isfinite(result.bound)]
        if known.size and known.max() > 20 * result.total.max():
            axes.set_yscale("log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        finished = "finished" if result.converged.all() else "not finished"
        if (result.separable == 0).any():
            finished = "no line separates the classes"
        if len(result.names) > SHOWN:
            finished += f" (the first {SHOWN} of {len(result.names)} classes)"
        axes.set(xlabel="passes over the rows", ylabel="mistakes so far", title=f"Perceptron: {finished}")
        few = len(result.names) <= 3  # a longer list would hide lines
        axes.legend(loc="best" if few else "upper left", bbox_to_anchor=None if few else (1.0, 1.0))
        return axes


@draw.register
def _unit(result: UnitTrace, ax: Axes | None = None) -> Any:
    """The error after each step; in a figure of its own also the weights on their way."""
    with plt.rc_context(STYLE):
        if ax is not None or len(result.weights) < 2:
            with canvas(ax) as axes:
                _error(axes, result)
                return axes
        _, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
        _error(left, result)
        steps = np.arange(len(result.weights))
        for j, name in enumerate(result.names[:SHOWN]):
            right.plot(steps, result.weights[:, j], color=COLOURS[j % len(COLOURS)], linewidth=1.4, label=name)
        if len(steps) > 200:
            right.set_xscale("symlog", linthresh=1.0)
            left.set_xscale("symlog", linthresh=1.0)
        more = len(result.names) - SHOWN
        title = "Weights" if more <= 0 else f"Weights, the first {SHOWN} of {len(result.names)}"
        right.set(xlabel=result.per, ylabel="weight", title=title)
        right.legend(loc="best")
        return left


def _error(axes: Axes, result: UnitTrace) -> None:
    errors = np.array([result.start, *result.objective])
    axes.plot(np.arange(errors.size), errors, color=ACCENT, marker="o" if errors.size <= 30 else None, markersize=3)
    if (errors > 0).all() and errors.max() > 30 * errors.min():
        axes.set_yscale("log")
    title = f"Step {fmt(result.step, 3)}, below {fmt(result.largest_step, 3)} converges"
    axes.set(xlabel=result.per, ylabel="½ Σ (t - o)²", title=title)


def draw_line(model: Any, X: Any, y: Any, *, ax: Axes | None = None) -> Axes:
    """The line of a linear classifier of two columns and two classes, with its rows and its margin.

    The slab reaches to the nearest row on either side; where a row is on the wrong side, there is none.

    | parameter | default | range           | meaning                                           |
    |-----------|---------|-----------------|---------------------------------------------------|
    | model     |         | a classifier    | fitted to the two columns, with `coef_`           |
    | X, y      |         | (n, 2) and (n,) | rows to draw, and their classes                   |
    | ax        | None    | axes            | where to draw; None: a new figure                 |

    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from assay.margin import Perceptron
    >>> X, y = np.array([[2.0, 1.0], [1.0, 3.0], [-1.0, -1.0], [-2.0, 1.0]]), [1, 1, 0, 0]
    >>> draw_line(Perceptron().fit(X, y), X, y).get_title(loc="left")
    'Perceptron: half-width 0.8944'
    """
    points = np.asarray(X, dtype=np.float64)
    if not hasattr(model, "coef_") or np.shape(model.coef_) != (1, 2):
        message = f"{type(model).__name__} has no line in a plane"
        raise ParameterError(
            message, remedy="fit a linear classifier to two columns and two classes, or use draw_regions"
        )
    if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
        raise DataError(f"X has shape {points.shape}", remedy="pass the two columns the model was fitted to")
    labels, classes = class_labels(y, len(points)), np.asarray(model.classes_)
    w, b = np.asarray(model.coef_[0], dtype=np.float64), float(np.ravel(model.intercept_)[0])
    size = float(np.sqrt(w @ w))
    if size == 0.0:
        raise DataError("the weights are zero, so there is no line", remedy="fit the model to rows of both classes")
    distance = np.where(labels == classes[1], 1.0, -1.0) * (points @ w + b) / size
    low, high = points.min(axis=0), points.max(axis=0)
    room = np.where(high > low, 0.1 * (high - low), 0.5)
    with canvas(ax, (6.2, 5.0)) as axes:
        far = 2.0 * float(np.abs(high - low + 2 * room).sum()) + 1.0
        centre = 0.5 * (low + high)
        foot = centre - w * (centre @ w + b) / size**2
        along = np.array([-w[1], w[0]]) / size
        for shift, style, wide in ((0.0, "-", 1.6), (distance.min(), "--", 0.9), (-distance.min(), "--", 0.9)):
            if shift == 0.0 or distance.min() > 0:
                ends = np.array([foot - far * along, foot + far * along]) + shift * w / size
                axes.plot(ends[:, 0], ends[:, 1], color=INK, linestyle=style, linewidth=wide, zorder=1)
        _rows(axes, model, points, labels, classes)
        if distance.min() > 0:
            near = points[distance <= distance.min() * (1 + 1e-9)]
            axes.scatter(near[:, 0], near[:, 1], s=90, facecolors="none", edgecolors=INK, linewidths=1.0, zorder=4)
        arrow = {"arrowstyle": "->", "color": MUTED, "linewidth": 1.4}
        reach = 0.12 * float(np.sqrt(((high - low) ** 2).sum()))
        axes.annotate("", foot + reach * w / size, foot, arrowprops=arrow, zorder=3)
        axes.set(xlim=(low[0] - room[0], high[0] + room[0]), ylim=(low[1] - room[1], high[1] + room[1]))
        axes.set_aspect("equal", adjustable="box")  # a margin is a distance
        wrong = int((distance <= 0).sum())
        text = (
            f"half-width {fmt(distance.min(), 4)}" if wrong == 0 else f"{wrong} of {len(points)} rows on the wrong side"
        )
        names = _axis_names(X, None)
        axes.set(xlabel=names[0], ylabel=names[1], title=f"{type(model).__name__}: {text}")
        axes.legend(handles=_legend(classes)[: 2 if wrong == 0 else 3], loc="best")
        return axes
