"""Cross-validation of all pruned subtrees at once, and the table that shows it.

The nested subtrees of the full tree are best for prices per leaf in [cp_k, cp_k+1). Each fold grows a tree of its own
on its training rows (same sort or same bins, held-out rows with weight nothing) and is asked for its subtree at the
typical price of each interval,

    beta_k = sqrt(cp_k cp_k+1),     xerror_k = sum_i w_i L(y_i, fold's T(beta_k) at x_i) / R(root),
    xstd_k = sqrt(sum_i w_i L_i^2 - (sum_i w_i L_i)^2 / sum_i w_i) / R(root)

for weights that are whole numbers, which are repetitions. Other weights have no unit (they may add up to 1 as well as
to the households of a country), so there the mean of squared deviations is divided by Kish's effective number of rows
(sum w)^2 / sum w^2 instead of by sum w: multiplying all weights by a constant changes no figure.

A held-out row goes down the fold's tree once. The node that answers for a price is the first on its way that has
collapsed by then, so one row serves all prices in O(depth): cross-validation costs K fits, however many prices
there are. Prices are per unit of weight, so they mean the same in every fold.

Breiman, Friedman, Olshen and Stone (1984), Classification and Regression Trees, chapter 3; Therneau and Atkinson,
An Introduction to Recursive Partitioning Using the RPART Routines (xerror, xstd and the geometric means).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from assay.errors import DataError
from assay.metrics.limits import effective
from assay.numbers import fmt
from assay.numerics.threads import parallel
from assay.results import Result
from assay.trees._predict import leaf_indices
from assay.trees._prune import TIE, Collapse, PruningPath, collapse, held_out_sums, path_of
from assay.trees.nodes import Nodes

__all__ = ["CPTable", "PruningProblem", "cross_validated"]

Array = np.ndarray
WHOLE = 2.0**53
"""Beyond it every float is a whole number, and being one says nothing."""


@dataclass(frozen=True, eq=False, repr=False)
class CPTable(Result):
    """Cross-validated error along the pruning sequence, from the root alone to the largest tree, as rpart prints it.

    | field                 | meaning                                                                         |
    |-----------------------|---------------------------------------------------------------------------------|
    | cp                    | price per leaf from which on the row's tree is best, in units of the root's risk |
    | ccp_alpha             | the same price per unit of weight, as scikit-learn's ccp_alpha                  |
    | leaves, splits        | leaves and inner nodes of the row's tree                                        |
    | rel_error             | its risk in training, the root's being 1                                        |
    | xerror, xstd          | its cross-validated risk in the same units, and the standard error of that      |
    | best, one_se, chosen  | rows: least xerror; simplest within one xstd of it; the one taken               |
    | rule, select          | "1se" or "min"; whether alpha or the number of leaves was cross-validated       |
    | root_risk, weight     | risk of the root per unit of weight, and the total weight                       |
    | folds, loss           | how many folds, and what was measured on held-out rows                          |
    """

    cp: Array
    ccp_alpha: Array
    leaves: Array
    splits: Array
    rel_error: Array
    xerror: Array
    xstd: Array
    best: int
    one_se: int
    chosen: int
    rule: str
    select: str
    root_risk: float
    weight: float
    folds: int
    loss: str

    @property
    def threshold(self) -> float:
        """Least cross-validated error plus its standard error: the line of the one-standard-error rule."""
        return float(self.xerror[self.best] + self.xstd[self.best])

    def to_frame(self) -> pd.DataFrame:
        """One row per subtree: CP, nsplit, leaves, rel_error, xerror, xstd, ccp_alpha."""
        columns = {
            "CP": self.cp,
            "nsplit": self.splits,
            "leaves": self.leaves,
            "rel_error": self.rel_error,
            "xerror": self.xerror,
            "xstd": self.xstd,
            "ccp_alpha": self.ccp_alpha,
        }
        return pd.DataFrame(columns, index=np.arange(1, self.cp.size + 1))

    def __str__(self) -> str:
        frame = self.to_frame().drop(columns="ccp_alpha")
        rows = self._shown()
        body = frame.iloc[rows].to_string(
            formatters={
                "CP": lambda v: f"{v:.6f}" if v >= 1e-4 or v == 0 else f"{v:.2e}",
                **{name: lambda v: f"{v:.5f}" for name in ("rel_error", "xerror", "xstd")},
            }
        )
        head, *lines = body.splitlines()
        lines = [line + self._mark(k) for line, k in zip(lines, rows, strict=True)]
        for place in reversed(np.flatnonzero(np.diff(rows) > 1)):
            lines.insert(place + 1, f"... {rows[place + 1] - rows[place] - 1} more")
        title = f"Subtrees by {self.folds}-fold cross-validation ({self.loss}), {self.select} chosen by "
        title += "the one-standard-error rule" if self.rule == "1se" else "the least error"
        total = self.root_risk * self.weight
        root = f"Root node error: {fmt(total, 6)}/{fmt(self.weight, 6)} = {fmt(self.root_risk, 5)}"
        rule = "-" * max(len(line) for line in [title, root, head, *lines])
        return "\n".join([title, rule, root, "", head, *lines])

    def _mark(self, row: int) -> str:
        words = [word for word, at in (("min", self.best), ("1se", self.one_se)) if at == row]
        if row == self.chosen:
            return f"  <- chosen ({', '.join(words)})" if words else "  <- chosen"
        return f"  {', '.join(words)}" if words else ""

    def _shown(self) -> Array:
        """The rows to print: all of a short table; of a long one the simplest trees and those around the best."""
        size = self.cp.size
        if size <= 30:
            return np.arange(size)
        near = [np.arange(at - 2, at + 3) for at in (self.best, self.one_se, self.chosen)]
        rows = np.unique(np.concatenate([np.arange(12), *near, [size - 1]]))
        return rows[(rows >= 0) & (rows < size)]


@dataclass(frozen=True)
class PruningProblem:
    """What cross-validation needs to know: rows, target, weights, and how to grow a tree from weights.

    `grow(w, counts, seed)` grows one tree on all rows with weights w (0: left out), `counts` telling how often a row
    was drawn where some were drawn twice; `seeds` has one entry for the full tree and one per fold.
    """

    X: Array
    y: Array
    w: Array
    grow: Callable[[Array, Array | None, int], Nodes]
    criterion: str
    risk: str
    seeds: Sequence[int]


def cross_validated(
    problem: PruningProblem, splits: Sequence[Any], *, rule: str, select: str, n_jobs: int | None
) -> tuple[Nodes, Collapse, PruningPath, CPTable]:
    """Grow the full tree and one per fold, and score every subtree of the sequence on the held-out rows."""
    full = problem.grow(problem.w, None, problem.seeds[0])
    fate = collapse(full, problem.risk)
    path = path_of(full, fate, problem.risk)
    loss = _loss(problem.criterion, problem.risk)
    # Losses are measured in units of the root's risk, so that their squares stay within range.
    root = path.root_risk if path.root_risk > 0 else 1.0
    inside = {"squared": root**-0.5, "table": 1.0}.get(loss.unit, 1.0 / root)

    def score(k: int) -> tuple[Array, Array]:
        train, test = splits[k]
        nodes = problem.grow(*_training_weights(problem.w, train, k), problem.seeds[k + 1])
        ends = collapse(nodes, problem.risk)
        prices = _typical(path) if select == "alpha" else _for_leaves(path_of(nodes, ends, problem.risk), path.leaves)
        leaf = leaf_indices(nodes, problem.X[test])[:, 0]
        y = problem.y[test].astype(np.float64)
        return held_out_sums(nodes, ends, prices, leaf, y, problem.w[test], loss.kind, loss.table(nodes), inside)

    sums = parallel(score, range(len(splits)), n_jobs=n_jobs, work=20.0 * problem.X.size * len(splits))
    tested = np.concatenate([test for _, test in splits])
    total = float(problem.w[tested].sum())
    once = _rows_behind(problem.w[np.unique(tested)])
    if total == 0:
        raise DataError("no held-out row has weight", remedy="pass another cv")
    scale = 1.0 if loss.unit != "table" else 1.0 / root
    mean = np.sum([first for first, _ in sums], axis=0) / total
    square = np.sum([second for _, second in sums], axis=0) / total
    # A row held out several times is still one row; tested once each, this is rpart's formula to the letter.
    spread = np.sqrt(np.maximum(square - mean**2, 0.0) / once)
    return full, fate, path, _table(path, full, scale * mean, scale * spread, rule, select, len(splits), loss.words)


def _table(
    path: PruningPath, full: Nodes, xerror: Array, xstd: Array, rule: str, select: str, folds: int, loss: str
) -> CPTable:
    """The rows from the simplest tree on, and the one that the rule takes."""
    xerror, xstd = xerror[::-1], xstd[::-1]
    # Equal errors may differ in their last digits; among equals the simplest is best.
    best = int(np.argmax(xerror <= xerror.min() * (1.0 + TIE)))
    one_se = int(np.argmax(xerror <= (xerror[best] + xstd[best]) * (1.0 + TIE)))
    return CPTable(
        cp=path.alpha[::-1],
        ccp_alpha=path.ccp_alpha[::-1],
        leaves=path.leaves[::-1],
        splits=path.splits[::-1],
        rel_error=path.relative_risk[::-1],
        xerror=xerror,
        xstd=xstd,
        best=best,
        one_se=one_se,
        chosen=one_se if rule == "1se" else best,
        rule=rule,
        select=select,
        root_risk=path.root_risk,
        weight=float(full.weight[0]),
        folds=folds,
        loss=loss,
    )


def _rows_behind(w: Array) -> float:
    """How many rows the weights stand for: their sum if they are whole numbers, else Kish's effective number.

    >>> _rows_behind(np.array([1.0, 3.0])), _rows_behind(np.array([0.1, 0.1])), _rows_behind(np.array([0.5, 0.0]))
    (4.0, 2.0, 1.0)
    """
    there = w[w > 0]
    total = float(there.sum())
    if total <= WHOLE and (there == np.floor(there)).all():
        return total
    return effective(there, there.size)


def _training_weights(w: Array, train: Array, k: int) -> tuple[Array, Array | None]:
    """The weights of a fold's training rows, and how often each was drawn where some were drawn twice."""
    drawn = np.bincount(np.arange(w.size)[train], minlength=w.size)
    weights = w * drawn
    if not weights.any():
        raise DataError(f"no training row of fold {k} has weight", remedy="pass another cv")
    return weights, drawn * (w > 0) if drawn.max() > 1 else None


def _typical(path: PruningPath) -> Array:
    """The price at which each subtree of the path stands for its whole interval of prices."""
    return np.append(np.sqrt(path.ccp_alpha[:-1]) * np.sqrt(path.ccp_alpha[1:]), np.inf)


def _for_leaves(path: PruningPath, leaves: Array) -> Array:
    """The least price at which a fold's subtree has at most so many leaves, for falling numbers of them."""
    return path.ccp_alpha[np.searchsorted(-path.leaves, -leaves, side="left")]


@dataclass(frozen=True)
class _Loss:
    """How a held-out row is judged: the number of the kernel's formula, its unit, its name, each node's answer."""

    kind: int
    unit: str
    words: str
    table: Callable[[Nodes], Array]


def _loss(criterion: str, risk: str) -> _Loss:
    """The loss on held-out rows whose mean over training rows is the risk that is pruned by."""
    if risk == "error" or criterion == "error":
        return _Loss(3, "table", "misclassification", _wrong)
    if criterion == "gini":
        return _Loss(3, "table", "squared error of the class shares", _brier)
    if criterion in ("log_loss", "entropy"):
        return _Loss(3, "table", "deviance in bits", _bits)
    if criterion == "poisson":
        return _Loss(2, "linear", "half the Poisson deviance", _rates)
    if criterion == "absolute_error":
        return _Loss(1, "linear", "absolute error", lambda nodes: nodes.value)
    return _Loss(0, "squared", "squared error", lambda nodes: nodes.value)


def _wrong(nodes: Nodes) -> Array:
    """1 for every class but the one predicted."""
    table = np.ones_like(nodes.value)
    table[np.arange(nodes.size), np.argmax(nodes.value, axis=1)] = 0.0
    return table


def _brier(nodes: Nodes) -> Array:
    """sum_k (1{k = y} - p_k)^2, whose mean over the node's own rows is its Gini index."""
    p = nodes.value
    return 1.0 - 2.0 * p + (p * p).sum(axis=1, keepdims=True)


def _bits(nodes: Nodes) -> Array:
    """-log2 of the class's share; half a row of each class is added, or a class never seen would cost the earth."""
    w = nodes.weight[:, None]
    share = (w * nodes.value + 0.5) / (w + 0.5 * nodes.value.shape[1])
    return -np.log2(share)


def _rates(nodes: Nodes) -> Array:
    """The mean; in a node without events rpart's shrunken rate, 1 / (weight + 1 / rate of the root)."""
    rate = nodes.value[0, 0] if nodes.value[0, 0] > 0 else 1.0
    empty = 1.0 / (nodes.weight + 1.0 / rate)
    return np.where(nodes.value[:, 0] > 0, nodes.value[:, 0], empty)[:, None]
