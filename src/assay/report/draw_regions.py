"""Decision regions: where in a plane each class is predicted, for one classifier or several side by side.

A picture of two columns: the predicted class of every point of a grid as a pale ground, the boundaries as lines, and
the rows on top, by class and whether they are classified right. Colours are those of Okabe and Ito, which people who do
not see red or green can tell apart; each class also has a mark of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from assay.errors import DataError, ParameterError
from assay.labels import class_labels
from assay.numbers import fmt
from assay.report.picture import INK, STYLE

__all__ = ["draw_regions"]

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#666666")
MARKS = ("o", "^", "s", "D", "v", "P", "X", "*")
GRID = 320
"""Points of the grid along each side."""
SHOWN = 1_500
"""How many rows are drawn; the eye sees no more."""
PALE = 0.72
"""How much white the ground of a region has."""
ACROSS = 3
"""Pictures in a line."""


def draw_regions(models: Any, X: Any, y: Any, *, columns: Sequence[str] | None = None) -> Figure:
    """The decision regions of fitted classifiers of two columns, side by side, with the rows and the error on them.

    | parameter | default | range                                 | meaning                                         |
    |-----------|---------|---------------------------------------|-------------------------------------------------|
    | models    |         | a classifier, a list, a dict by title | fitted to the two columns of X                  |
    | X, y      |         | (n, 2) and (n,)                       | rows to draw, and their classes                 |
    | columns   | None    | two names                             | labels of the axes; None: those of X, or x0, x1 |

    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = np.array([[0.0, 0.0], [1.0, 0.5], [2.0, 2.0], [3.0, 2.5]]), ["a", "a", "b", "b"]
    >>> figure = draw_regions({"logistic": LogisticRegression().fit(X, y)}, X, y)
    >>> figure.axes[0].get_title(loc="left")
    'logistic: error 0'
    """
    named = _named(models)
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
        message = f"decision regions are drawn over two columns of finite numbers, but X has shape {points.shape}"
        raise DataError(message, remedy="fit the classifiers to two columns, and pass these")
    labels = class_labels(y, len(points))
    classes = np.unique(np.concatenate([labels, *(np.asarray(model.classes_) for model in named.values())]))
    if len(classes) > len(COLOURS):
        message = f"there are {len(classes)} classes, but only {len(COLOURS)} distinguishable colours"
        raise DataError(message, remedy="draw fewer classes at a time")
    names = _axis_names(X, columns)
    width = 2 if len(named) == 4 else min(len(named), ACROSS)
    lines = -(-len(named) // width)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            lines,
            width,
            figsize=(1.0 + 3.9 * width, 0.8 + 3.7 * lines),
            sharex=True,
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        flat = list(axes.ravel())
        for ax, (title, model) in zip(flat, named.items(), strict=False):
            _regions(ax, model, points, classes)
            error = _rows(ax, model, points, labels, classes)
            ax.set_title(f"{title}: error {fmt(error, 3)}")
        for ax in flat[len(named) :]:
            ax.set_visible(False)
        for row in axes:
            row[0].set_ylabel(names[1])
        for ax in flat[max(0, len(named) - width) : len(named)]:
            ax.set_xlabel(names[0])
            ax.tick_params(labelbottom=True)
        figure.legend(handles=_legend(classes), loc="outside lower center", ncols=min(len(classes) + 1, 9))
    return figure


def _named(models: Any) -> dict[str, Any]:
    """Classifiers by the title of their picture."""
    if isinstance(models, Mapping):
        named = {str(title): model for title, model in models.items()}
    else:
        many = list(models) if isinstance(models, list | tuple) else [models]
        kinds = [type(model).__name__ for model in many]
        titles = [kind if kinds.count(kind) == 1 else f"{kind} {i + 1}" for i, kind in enumerate(kinds)]
        named = dict(zip(titles, many, strict=True))
    if not named:
        raise ParameterError("no classifier was given", remedy="pass at least one")
    for title, model in named.items():
        if not hasattr(model, "predict") or not hasattr(model, "classes_"):
            raise ParameterError(f"{title!r} is not a fitted classifier", remedy="fit it to two columns first")
        if getattr(model, "n_features_in_", 2) != 2:
            message = f"{title!r} was fitted to {model.n_features_in_} columns"
            raise ParameterError(message, remedy="fit it to the two columns that are drawn")
    return named


def _axis_names(X: Any, columns: Sequence[str] | None) -> list[str]:
    if columns is not None:
        if len(columns) != 2:
            raise ParameterError(f"expected two column names, got {len(columns)}", remedy="pass two names")
        return [str(name) for name in columns]
    return [str(name) for name in X.columns] if isinstance(X, pd.DataFrame) else ["x0", "x1"]


def _predict(model: Any, points: np.ndarray) -> np.ndarray:
    """Predicted classes, asked for by name where the model was fitted by name."""
    names = getattr(model, "feature_names_in_", None)
    return np.asarray(model.predict(points if names is None else pd.DataFrame(points, columns=names)))


def _regions(ax: Axes, model: Any, points: np.ndarray, classes: np.ndarray) -> None:
    """The predicted class of every point of a grid, and lines where it changes."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = np.where(high > low, 0.06 * (high - low), 0.5)
    low, high = low - margin, high + margin
    x, y = (np.linspace(low[j], high[j], GRID) for j in range(2))
    grid = np.column_stack([part.ravel() for part in np.meshgrid(x, y)])
    codes = np.searchsorted(classes, _predict(model, grid)).reshape(GRID, GRID)
    pale = [PALE + (1 - PALE) * np.array(to_rgb(colour)) for colour in COLOURS[: len(classes)]]
    ax.imshow(
        codes,
        extent=(low[0], high[0], low[1], high[1]),
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        cmap=ListedColormap(pale),
        vmin=-0.5,
        vmax=len(classes) - 0.5,
        zorder=0,
    )
    for k in np.unique(codes)[1:]:
        ax.contour(x, y, (codes >= k).astype(float), levels=[0.5], colors=INK, linewidths=0.8, zorder=1)
    ax.grid(visible=False)


def _rows(ax: Axes, model: Any, points: np.ndarray, labels: np.ndarray, classes: np.ndarray) -> float:
    """The rows by class, those classified wrongly as hollow marks; returns the share of these."""
    wrong = _predict(model, points) != labels
    shown = np.arange(len(points))
    if len(points) > SHOWN:
        shown = np.sort(np.random.default_rng(0).choice(len(points), SHOWN, replace=False))
    for k, label in enumerate(classes):
        for missed in (False, True):
            rows = shown[(labels[shown] == label) & (wrong[shown] == missed)]
            fill: Any = "none" if missed else COLOURS[k]
            edge = COLOURS[k] if missed else "white"
            width = 1.1 if missed else 0.4
            ax.scatter(
                points[rows, 0], points[rows, 1], s=22, marker=MARKS[k], facecolors=fill, edgecolors=edge,
                linewidths=width, zorder=2 + missed,
            )  # fmt: skip
    return float(wrong.mean())


def _legend(classes: np.ndarray) -> list[Line2D]:
    """A mark for each class, and a hollow one for rows on the wrong side."""
    marks = [
        Line2D([], [], linestyle="", marker=MARKS[k], color=COLOURS[k], markersize=6, label=str(label))
        for k, label in enumerate(classes.tolist())
    ]
    hollow = Line2D([], [], linestyle="", marker="o", markerfacecolor="none", markeredgecolor=INK, markersize=6)
    hollow.set_label("hollow: classified wrongly")
    return [*marks, hollow]
