"""Pictures of mixtures: densities with their components, the criteria over their number, and how EM climbed."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse
from matplotlib.ticker import FuncFormatter, MaxNLocator

from assay.latent import EMTrace, MixtureDensity, MixtureSelection
from assay.numbers import fmt
from assay.report.picture import ACCENT, INK, MUTED, WARM, canvas, draw

__all__: list[str] = []

POINTS = 500
GRID = 120
NAMED = 10
"""More components than this are drawn and not named."""
BESIDE: Any = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}


@draw.register
def _density(result: MixtureDensity, ax: Axes | None = None) -> Axes:
    """One column: the density and its components; two: ellipses; more: the plane that shows them farthest apart."""
    if len(result.columns) == 1:
        return _curve(result, ax)
    return _plane(result if len(result.columns) == 2 else result.plane(), ax, projected=len(result.columns) > 2)


def _colours(K: int) -> list[Any]:
    table = plt.get_cmap("tab10" if K <= 10 else "tab20")
    return [table(k % table.N) for k in range(K)]


def _title(result: MixtureDensity) -> str:
    K = len(result.weights)
    return f"{K} component{'s' if K > 1 else ''} ({result.covariance_type}), n = {fmt(result.size, 6)}"


def _curve(result: MixtureDensity, ax: Axes | None) -> Axes:
    with canvas(ax) as axes:
        mean, sd = result.means[:, 0], np.sqrt(result.covariances[:, 0, 0])
        low, high = (mean - 4 * sd).min(), (mean + 4 * sd).max()
        if result.points is not None:
            values = result.points[:, 0]
            low, high = min(low, values.min()), max(high, values.max())
            bins = int(np.clip(2 * len(values) ** (1 / 2), 8, 60))
            axes.hist(values, bins=bins, density=True, color=MUTED, alpha=0.35, label="rows")
        # A narrow component needs points of its own.
        x = np.unique(
            np.concatenate([np.linspace(low, high, POINTS), (mean + sd * np.linspace(-4, 4, 81)[:, None]).ravel()])
        )
        parts = result.component_pdf(x) * result.weights
        for k, colour in enumerate(_colours(len(mean))):
            label = f"{k}: {fmt(100 * result.weights[k], 3)}%, mean {fmt(mean[k], 3)}" if len(mean) <= NAMED else None
            axes.plot(x, parts[:, k], color=colour, linewidth=1.3, linestyle="--", label=label)
        axes.plot(x, parts.sum(axis=1), color=INK, linewidth=2, label="mixture")
        axes.set(xlabel=str(result.columns[0]), ylabel="density", title=_title(result))
        axes.set_ylim(bottom=0)
        axes.legend(loc="best")
        return axes


def _plane(result: MixtureDensity, ax: Axes | None, *, projected: bool) -> Axes:
    with canvas(ax, (6.6, 5.2)) as axes:
        K = len(result.weights)
        colours = _colours(K)
        if result.points is not None and result.labels is not None:
            size = float(np.clip(3000 / len(result.points), 3, 22))
            shade = [colours[k] for k in result.labels]
            axes.scatter(result.points[:, 0], result.points[:, 1], s=size, c=shade, alpha=0.5, linewidths=0, zorder=1)
        for k in range(K):
            _ellipses(axes, result.means[k], result.covariances[k], colours[k])
            label = f"{k}: {fmt(100 * result.weights[k], 3)}%" if K <= NAMED else None
            axes.plot(
                *result.means[k], "o", color=colours[k], markersize=7, markeredgecolor="white", label=label, zorder=4
            )
        axes.autoscale_view()
        _contours(axes, result)
        axes.set(xlabel=str(result.columns[0]), ylabel=str(result.columns[1]), title=_title(result))
        if projected:
            axes.set_xlabel(f"{result.columns[0]} of the plane that separates the components best")
        if K <= NAMED:  # beside the axes: the components may fill every corner
            axes.legend(title="50% and 95%", title_fontsize=9, **BESIDE)
        return axes


def _ellipses(axes: Axes, mean: np.ndarray, covariance: np.ndarray, colour: Any) -> None:
    """Where half and 95% of a component's rows lie: radius^2 = -2 log(1 - share)."""
    value, vector = np.linalg.eigh(covariance)
    angle = float(np.degrees(np.arctan2(vector[1, 1], vector[0, 1])))
    for share, style in ((0.5, "-"), (0.95, "--")):
        width, height = 2 * np.sqrt(-2 * np.log(1 - share) * np.maximum(value[::-1], 0.0))
        looks: Any = {"fill": False, "edgecolor": colour, "linestyle": style, "linewidth": 1.6, "zorder": 3}
        axes.add_patch(Ellipse((mean[0], mean[1]), width, height, angle=angle, **looks))


def _contours(axes: Axes, result: MixtureDensity) -> None:
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    x, y = np.linspace(x0, x1, GRID), np.linspace(y0, y1, GRID)
    grid = np.stack(np.meshgrid(x, y), axis=-1)
    density = result.pdf(grid.reshape(-1, 2)).reshape(GRID, GRID)
    if density.max() > 0:
        levels = density.max() * np.array([0.01, 0.05, 0.15, 0.35, 0.65])
        axes.contour(x, y, density, levels=levels, colors=MUTED, linewidths=0.8, zorder=2)


@draw.register
def _selection(result: MixtureSelection, ax: Axes | None = None) -> Axes:
    """The criterion over the number of components, one line per covariance type; hollow where a component collapsed."""
    with canvas(ax, (7.4, 4.4)) as axes:
        name = result.criterion
        table = result.table.assign(above=result.table[name] - result.lowest)
        kinds = list(dict.fromkeys(table["covariance_type"]))
        for kind, colour in zip(kinds, _colours(len(kinds)), strict=True):
            own = table[table["covariance_type"] == kind].sort_values("n_components")
            axes.plot(own["n_components"], own["above"], color=colour, linewidth=1.6, label=kind)
            for fallen, fill in ((False, colour), (True, "white")):
                some = own[own["collapsed"] == fallen]
                axes.plot(some["n_components"], some["above"], "o", color=colour, markerfacecolor=fill, markersize=5.5)
        if table["collapsed"].any():
            axes.plot([], [], "o", color=INK, markerfacecolor="white", label="collapsed")
        same = (table["covariance_type"] == result.covariance_type) & (table["n_components"] == result.n_components)
        won = table[same]
        ring: Any = {"markersize": 13, "markerfacecolor": "none", "color": WARM, "markeredgewidth": 1.8}
        axes.plot(won["n_components"], won["above"], "o", label="chosen", **ring)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_yscale("symlog", linthresh=10.0, linscale=0.6)  # beyond 10 the evidence is very strong
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: fmt(value)))
        best = f"{result.n_components} component{'s' if result.n_components > 1 else ''}, {result.covariance_type}"
        axes.set_title(f"{best}: {name.upper()} = {fmt(result.lowest, 6)}, n = {fmt(result.size, 6)}")
        axes.set(xlabel="number of components", ylabel=f"{name.upper()} above the chosen one's")
        axes.legend(**BESIDE)
        return axes


@draw.register
def _trace(result: EMTrace, ax: Axes | None = None) -> Axes:
    """The mean log-likelihood from the start values on, with a mark where a component was started anew."""
    with canvas(ax) as axes:
        path = np.array([result.initial, *result.objective])
        axes.plot(np.arange(path.size), path, color=ACCENT, marker="o" if path.size <= 50 else None, markersize=4)
        for n, at in enumerate(result.restarted):
            axes.axvline(at, color=WARM, linewidth=1, linestyle=":", label=None if n else "component restarted")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.ticklabel_format(axis="y", useOffset=False)
        word = "converged" if result.converged else "not converged"
        title = f"EM {word} after {result.n_iter} iteration{'s' if result.n_iter != 1 else ''}"
        axes.set(xlabel="iteration", ylabel="mean log-likelihood", title=title)
        if result.restarted:
            axes.legend(loc="best")
        return axes
