"""One tree: grown to purity exactly and on bins, and pruned by cross-validation."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import tree as peer
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

from assay.trees import DecisionTreeClassifier, DecisionTreeRegressor, PrunedTreeClassifier, PrunedTreeRegressor
from benchmarks.case import Case
from benchmarks.trees._data import Table, error_rate, rmse, table

__all__ = ["CASES"]

SKLEARN = "scikit-learn"
ALPHAS = 10
"""Of the thousands of alphas on a path, this many are tried by the loop; ours tries them all."""


def to_purity(splitter: str, classes: int, goal: float) -> Case:
    ours = DecisionTreeClassifier if classes else DecisionTreeRegressor
    theirs = peer.DecisionTreeClassifier if classes else peer.DecisionTreeRegressor
    return Case(
        name=f"{'classification' if classes else 'regression'} tree to purity, {splitter}, 100,000 x 20",
        data=lambda: table(100_000, 20, classes=classes),
        ours=lambda d: ours(splitter=splitter, n_jobs=2).fit(d.X, d.y),
        peers={SKLEARN: lambda d: theirs(random_state=0).fit(d.X, d.y)},
        quality=error_rate if classes else rmse,
        quality_name="held-out error" if classes else "held-out rmse",
        goals={SKLEARN: goal},
        slack=0.005 if classes else 0.02,
        repeats=3,
        cold=True,
    )


def by_path(classes: int) -> Any:
    """scikit-learn's way: the path of all rows, then ten folds over (thinned) alphas."""

    def work(d: Table) -> Any:
        kind = peer.DecisionTreeClassifier if classes else peer.DecisionTreeRegressor
        alphas = kind(random_state=0).cost_complexity_pruning_path(d.X, d.y).ccp_alphas
        kept = np.unique(alphas[np.linspace(0, alphas.size - 1, ALPHAS).astype(int)])
        folds = (StratifiedKFold if classes else KFold)(10, shuffle=True, random_state=0)
        return GridSearchCV(kind(random_state=0), {"ccp_alpha": kept}, cv=folds, n_jobs=2).fit(d.X, d.y)

    return work


def pruned(classes: int) -> Case:
    ours = PrunedTreeClassifier if classes else PrunedTreeRegressor
    name = f"scikit-learn's path, 10 folds x {ALPHAS} alphas"
    return Case(
        name=f"{'classification' if classes else 'regression'} tree pruned by 10 folds, 20,000 x 20",
        data=lambda: table(20_000, 20, classes=classes),
        ours=lambda d: ours(rule="min", random_state=0, n_jobs=2).fit(d.X, d.y),
        peers={name: by_path(classes)},
        quality=error_rate if classes else rmse,
        quality_name="held-out error" if classes else "held-out rmse",
        goals={name: 10.0},
        slack=0.005 if classes else 0.02,
        repeats=2,
        cold=True,
    )


CASES: list[Case] = [
    to_purity("exact", 0, 3.0),
    to_purity("exact", 2, 3.0),
    to_purity("hist", 0, 10.0),
    to_purity("hist", 2, 10.0),
    pruned(0),
    pruned(2),
]
