"""Pictures of networks: how training went, which step size to take, what filters have learned, and the layers."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import MaxNLocator

from assay.neural import FeatureMaps, Filters, GradientCheck, NetworkSummary, StepSizes, TrainingTrace
from assay.report.picture import ACCENT, INK, MUTED, STYLE, WARM, canvas, draw

__all__: list[str] = []

MOST = 36
"""Filters or maps that are drawn; more could not be told apart."""


@draw.register
def _trace(result: TrainingTrace, ax: Axes | None = None) -> Axes:
    with canvas(ax) as axes:
        epochs = np.arange(1, result.n_epochs + 1)
        few = "o" if result.n_epochs <= 30 else None
        axes.plot(epochs, result.loss, color=ACCENT, marker=few, markersize=3, label="training")
        curves = [result.loss]
        if result.held_out is not None:
            axes.plot(epochs, result.held_out, color=WARM, marker=few, markersize=3, label="held out")
            best = result.held_out[result.best_epoch - 1]
            axes.plot([result.best_epoch], [best], "o", color=INK, markersize=7, fillstyle="none", label="weights kept")
            curves.append(result.held_out)
            axes.legend(loc="best")
        everything = np.concatenate(curves)
        if everything.min() > 0 and everything.max() > 20 * everything.min():
            axes.set_yscale("log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        per = f"{result.updates_per_epoch:,} update{'s' if result.updates_per_epoch != 1 else ''}"
        axes.set(xlabel=f"epoch of {per}", ylabel="loss", title=f"Training, {result.n_epochs} epochs")
        return axes


@draw.register
def _step_sizes(result: StepSizes, ax: Axes | None = None) -> Axes:
    with canvas(ax) as axes:
        axes.plot(result.learning_rate, result.loss, color=ACCENT)
        axes.axvline(result.suggestion, color=WARM, linestyle="--", linewidth=1.2, label=f"try {result.suggestion:.2g}")
        axes.set_xscale("log")
        axes.legend(loc="best")
        axes.set(xlabel="learning rate of the update", ylabel="loss of the batch, smoothed", title="Step sizes")
        return axes


def _images(images: list[tuple[np.ndarray, str, dict[str, Any]]], title: str, ax: Any) -> np.ndarray:
    """Small pictures in a grid, in one figure or inside the given axes."""
    columns = min(len(images), max(4, int(np.ceil(np.sqrt(len(images))))))
    rows = -(-len(images) // columns)
    with plt.rc_context({**STYLE, "axes.grid": False}):
        if ax is None:
            size = (1.1 * columns + 0.3, 1.25 * rows + 0.5)
            figure, grid = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
            figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
            cells = list(grid.ravel())
        else:
            ax.set_axis_off()
            ax.set_title(title)
            gap = 0.12
            wide, high = 1 / columns, 1 / rows
            cells = [
                ax.inset_axes((c * wide, 1 - (r + 1) * high, wide * (1 - gap), high * (1 - 2 * gap)))
                for r in range(rows)
                for c in range(columns)
            ]
        for cell in cells:
            cell.set_axis_off()
        for cell, (image, name, options) in zip(cells, images, strict=False):
            cell.imshow(image, interpolation="nearest", **options)
            cell.set_title(name, fontsize=8, fontweight="normal", loc="center", pad=2, color=INK)
        return np.array(cells[: len(images)], dtype=object)


@draw.register
def _filters(result: Filters, ax: Any = None) -> np.ndarray:
    """Each filter in blue (negative) and red (positive) on one scale, or in colours where it has three channels."""
    weights = result.weights[:MOST]
    coloured = weights.shape[-1] == 3
    pictures = weights if coloured else weights.mean(axis=-1)
    largest = float(np.abs(pictures).max()) or 1.0
    options: dict[str, Any] = {} if coloured else {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest}
    pictures = pictures / (2 * largest) + 0.5 if coloured else pictures
    images = [(one, str(k + 1), options) for k, one in enumerate(pictures)]
    more = "" if weights.shape[-1] in (1, 3) else ", mean over channels"
    some = "" if len(result.weights) <= MOST else f", the first {MOST} of {len(result.weights)}"
    return _images(images, f"Filters of layer {result.layer}{more}{some}", ax)


@draw.register
def _feature_maps(result: FeatureMaps, ax: Any = None) -> np.ndarray:
    """The image, and each map on a scale of its own."""
    image = result.image[..., 0] if result.image.shape[-1] != 3 else result.image
    if image.ndim == 3:
        low, high = float(image.min()), float(image.max())
        image = (image - low) / (high - low or 1.0)
    count = min(MOST - 1, result.maps.shape[-1])
    maps = [(result.maps[..., k], f"map {k + 1}", {"cmap": "viridis"}) for k in range(count)]
    some = "" if count == result.maps.shape[-1] else f", the first {count} of {result.maps.shape[-1]}"
    return _images([(image, "image", {"cmap": "gray_r"}), *maps], f"Feature maps of layer {result.layer}{some}", ax)


@draw.register
def _summary(result: NetworkSummary, ax: Axes | None = None) -> Axes:
    """Layers from top to bottom, each a box as wide as its share of the parameters is dark."""
    rows = [("input", result.input_shape, 0)]
    rows += list(zip(result.layers, result.output_shapes, result.counts, strict=True))
    with canvas(ax, (5.6, 0.9 + 0.52 * len(rows))) as axes:
        most = max(1, *(count for _, _, count in rows))
        for k, (name, shape, count) in enumerate(rows):
            tint = 0.06 + 0.5 * count / most
            box = FancyBboxPatch((0.02, -k - 0.34), 0.96, 0.68, boxstyle="round,pad=0,rounding_size=0.05")
            box.set(facecolor=(*to_rgb(ACCENT), tint), edgecolor=MUTED, linewidth=0.8)
            axes.add_patch(box)
            axes.text(0.05, -k, name, va="center", color=INK)
            axes.text(0.60, -k, " x ".join(map(str, shape)), va="center", ha="center", color=INK)
            axes.text(0.95, -k, f"{count:,}" if k else "", va="center", ha="right", color=INK)
        axes.text(0.60, 0.52, "output", ha="center", va="bottom", fontsize=9, color=INK)
        axes.text(0.95, 0.52, "parameters", ha="right", va="bottom", fontsize=9, color=INK)
        axes.set_xlim(0, 1)
        axes.set_ylim(-len(rows) + 0.4, 1.0)
        axes.set_axis_off()
        axes.set_title(f"Network of {result.n_parameters:,} parameters")
        return axes


@draw.register
def _check(result: GradientCheck, ax: Axes | None = None) -> Axes:
    with canvas(ax, (7.0, 1.2 + 0.34 * len(result.layers))) as axes:
        at = np.arange(len(result.layers))[::-1]
        errors = np.maximum(result.errors, 1e-16)
        axes.plot(errors, at, "o", color=ACCENT)
        axes.axvline(1e-5, color=WARM, linestyle="--", linewidth=1, label="suspicious beyond")
        axes.set_xscale("log")
        axes.set_yticks(at, list(result.layers))
        axes.set_ylim(-0.6, len(result.layers) - 0.4)
        axes.legend(loc="best")
        axes.set(xlabel="relative difference to central differences", title="Gradient check")
        return axes
