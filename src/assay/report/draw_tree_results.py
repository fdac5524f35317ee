"""How the results of trees, forests and boosting are drawn: pruning, rules, importance, relative influence.

Curves of error against the number of trees are `Curve`s and drawn as such.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator, PercentFormatter

from assay.numbers import fmt
from assay.report._bars import BARS, bars, importance_bars
from assay.report._tree_plan import plain
from assay.report.picture import ACCENT, INK, MUTED, WARM, canvas, draw
from assay.trees.importance import ForestImportance
from assay.trees.influence import RelativeInfluence
from assay.trees.pruning import CPTable, PruningPath
from assay.trees.rules import Rules

__all__: list[str] = []

APART = 25
"""Up to this many subtrees stand side by side; more are placed by their number of leaves."""


@draw.register
def _cp_table(result: CPTable, ax: Axes | None = None) -> Axes:
    """Cross-validated error of each subtree with its standard error, the one-standard-error line, and the choice."""
    few = result.cp.size <= APART
    x = np.arange(result.cp.size) if few else result.leaves
    with canvas(ax, (7.4, 4.6)) as axes:
        axes.plot(x, result.rel_error, color=MUTED, linewidth=1.2, linestyle="-.", label="in training")
        text = "cross-validated, one standard error"
        if few:
            bars: dict[str, Any] = {"ecolor": MUTED, "elinewidth": 1.0, "capsize": 2.5}
            axes.errorbar(x, result.xerror, result.xstd, fmt="o-", markersize=4, color=ACCENT, label=text, **bars)
        else:
            low, high = result.xerror - result.xstd, result.xerror + result.xstd
            axes.fill_between(x, low, high, color=ACCENT, alpha=0.18, linewidth=0)
            axes.plot(x, result.xerror, color=ACCENT, linewidth=1.6, label=text)
            axes.set_xscale("log")
        axes.axhline(result.threshold, color=WARM, linewidth=1, linestyle="--", label="one-standard-error line")
        chosen = result.chosen
        leaves = result.leaves[chosen]
        name = f"chosen: {leaves} {'leaf' if leaves == 1 else 'leaves'}"
        ring: dict[str, Any] = {
            "markersize": 11,
            "markerfacecolor": "none",
            "markeredgecolor": WARM,
            "markeredgewidth": 1.6,
        }
        axes.plot([x[chosen]], [result.xerror[chosen]], "o", label=name, zorder=4, **ring)
        if result.best != chosen:
            least = f"least error: {result.leaves[result.best]} leaves"
            axes.plot(
                [x[result.best]], [result.xerror[result.best]], "o", color=INK, markersize=5, label=least, zorder=4
            )
        _subtree_ticks(axes, result, x, few)
        axes.set(xlabel="leaves", ylabel="error relative to the root")
        axes.set_ylim(bottom=0.0)
        axes.set_title(f"Cost-complexity pruning, {result.folds} folds\n{result.loss}")
        axes.legend(loc="best")
        return axes


def _subtree_ticks(axes: Axes, result: CPTable, x: np.ndarray, few: bool) -> None:
    """Leaves below, the price of a leaf above; where there are many only some of them."""
    size = result.cp.size
    told = np.arange(size) if size <= 12 else np.unique(np.linspace(0, size - 1, 9 if few else 7).astype(int))
    if not few:  # evenly spread on the logarithmic axis
        spots = np.geomspace(result.leaves[0], result.leaves[-1], 7)
        told = np.unique([int(np.argmin(np.abs(result.leaves - spot))) for spot in spots])
    axes.set_xticks(x[told], [str(k) for k in result.leaves[told]])
    axes.xaxis.set_minor_locator(NullLocator())
    above = axes.secondary_xaxis("top")
    above.set_xticks(x[told], [fmt(cp, 2) for cp in result.cp[told]])
    above.xaxis.set_minor_locator(NullLocator())
    above.set_xlabel("price of a leaf (cp)")
    above.spines["top"].set_visible(False)


@draw.register
def _pruning_path(result: PruningPath, ax: Axes | None = None) -> Axes:
    """What each subtree leaves of the root's risk, and its leaves, over the range of prices for which it is best."""
    alpha = result.alpha.astype(float).copy()
    with canvas(ax, (7.4, 4.4)) as axes:
        if alpha.size > 2 and alpha[1] > 0:
            # Zero has no logarithm: the largest tree's range of prices begins a little before it ends.
            alpha[0] = max(alpha[0], alpha[1] / 2)
            axes.set_xscale("log")
        ends = np.append(alpha, alpha[-1] * 1.5 if alpha[-1] > 0 else 1.0)
        risk = np.append(result.relative_risk, result.relative_risk[-1])
        axes.step(ends, risk, where="post", color=ACCENT, linewidth=1.6, label="risk relative to the root")
        axes.set(xlabel="price of a leaf, in units of the root's risk", ylabel="risk relative to the root")
        axes.yaxis.label.set_color(ACCENT)
        other: Any = axes.twinx()
        leaves = np.append(result.leaves, result.leaves[-1])
        other.step(ends, leaves, where="post", color=WARM, linewidth=1.4)
        if leaves[0] > 30:
            other.set_yscale("log")
            other.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        else:
            other.yaxis.set_major_locator(MaxNLocator(integer=True))
        other.set_ylabel("leaves", color=WARM)
        other.grid(visible=False)
        axes.set_title(f"Pruning path of {alpha.size} nested subtrees")
        return axes


@draw.register
def _importance(result: ForestImportance, ax: Axes | None = None) -> Axes:
    shuffled = result.kind == "permutation"
    axis = f"increase of {result.metric} when shuffled" if shuffled else "share of loss saved"
    rows = f", n = {result.n} rows out of bag" if shuffled else ""
    return importance_bars(result, ax, title=f"{result.kind.capitalize()} importance", axis=axis, rows=rows)


@draw.register
def _influence(result: RelativeInfluence, ax: Axes | None = None) -> Axes:
    """The most influential columns on top; all of them add up to 100%."""
    top = result.order[:BARS][::-1]
    with bars(ax, [result.names[j] for j in top]) as axes:
        at = np.arange(top.size)
        axes.barh(at, result.influence[top], color=ACCENT, alpha=0.65, height=0.7)
        for y, value in zip(at, result.influence[top], strict=True):
            axes.annotate(fmt(value, 3), (value, y), (4, 0), textcoords="offset points", va="center", fontsize=8.5)
        axes.set_xlim(0.0, 1.1 * max(float(result.influence.max(initial=0.0)), 1e-12))
        axes.xaxis.set_major_formatter(PercentFormatter(decimals=0))
        shown = "" if top.size == len(result.names) else f" ({top.size} of {len(result.names)})"
        axes.set(xlabel="share of the training loss saved by splits")
        axes.set_title(f"Relative influence{shown}\n{result.model}, {result.trees} trees")
        return axes


@draw.register
def _rules(result: Rules, ax: Axes | None = None) -> Axes:
    """What each rule predicts and for how many rows: numbers from the mean of all rows on, classes by their share."""
    most = np.sort(np.argsort([-rule.rows for rule in result], kind="stable")[:BARS])[::-1]
    chosen = [result[int(k)] for k in most]
    numbers = chosen[0].share is None
    weights = np.array([rule.weight for rule in result])
    every = np.array([rule.value if numbers else rule.share for rule in result], dtype=float)
    values, area = every[most], 20 + 160 * weights[most] / max(weights.max(), 1e-300)
    base = float(np.average(every, weights=weights if weights.any() else None)) if numbers else 0.0
    with bars(ax, [rule.premise or "always" for rule in chosen], letters=110) as axes:
        at = np.arange(len(chosen))
        axes.axvline(base, color=MUTED, linewidth=1, linestyle="--" if numbers else "-")
        axes.hlines(at, base, values, color=ACCENT, alpha=0.4)
        axes.scatter(values, at, s=area, color=ACCENT, zorder=3)
        for y, value, rule in zip(at, values, chosen, strict=True):
            text = f"{plain(rule.conclusion)} (n = {rule.rows})"
            near: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8.5}
            axes.annotate(text, (value, y), (10, 0), parse_math=False, zorder=4, **near)
        low, high = min(base, float(values.min())), max(base, float(values.max()))
        span = (high - low) or 1.0
        axes.set_xlim(low - 0.05 * span, high + 0.45 * span)
        words = "predicted value (dashed: mean of all rows)" if numbers else "share of the predicted class"
        axes.set(xlabel=words)
        shown = "" if len(chosen) == len(result) else f" ({len(chosen)} of {len(result)}, those with most rows)"
        axes.set_title(f"Rules{shown}")
        return axes
