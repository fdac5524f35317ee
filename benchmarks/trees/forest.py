"""Random forests: growing, permutation importance, prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import ensemble as peer
from sklearn.inspection import permutation_importance

from assay.trees import RandomForestClassifier, RandomForestRegressor
from benchmarks.case import Case
from benchmarks.trees._data import Table, error_rate, rmse, table

__all__ = ["CASES"]

SKLEARN = "scikit-learn"
n, p = 50_000, 30


def ours(classes: int) -> Any:
    kind = RandomForestClassifier if classes else RandomForestRegressor
    return kind(n_estimators=100, random_state=0, n_jobs=2)


def theirs(classes: int) -> Any:
    if classes:
        return peer.RandomForestClassifier(n_estimators=100, random_state=0, n_jobs=2)
    return peer.RandomForestRegressor(n_estimators=100, max_features=1 / 3, random_state=0, n_jobs=2)


def grown(classes: int) -> Case:
    return Case(
        name=f"random forest, {f'{classes} classes' if classes else 'regression'}, 100 trees, 50,000 x 30",
        data=lambda: table(n, p, classes=classes),
        ours=lambda d: ours(classes).fit(d.X, d.y),
        peers={SKLEARN: lambda d: theirs(classes).fit(d.X, d.y)},
        quality=error_rate if classes else rmse,
        quality_name="held-out error" if classes else "held-out rmse",
        goals={SKLEARN: 4.0},
        slack=0.003 if classes else 0.01,
        repeats=3,
        cold=True,
    )


def fitted(classes: int) -> tuple[Table, Any, Any]:
    d = table(n, p, classes=classes, n_test=100_000)
    return d, ours(classes).fit(d.X, d.y), theirs(classes).fit(d.X, d.y)


def leading(outcome: Any, data: Any) -> float:
    """How many of the five columns that matter are not among the five most important."""
    return 5.0 - len(set(np.argsort(-np.asarray(outcome))[:5]) & set(range(5)))


CASES: list[Case] = [
    grown(0),
    grown(2),
    grown(5),
    Case(
        name="permutation importance of that forest (ours on out-of-bag rows)",
        data=lambda: fitted(2),
        ours=lambda d: d[1].permutation_importance(d[0].X, d[0].y).importance,
        peers={
            "scikit-learn permutation_importance, 5 repeats": lambda d: (
                permutation_importance(d[2], d[0].X, d[0].y, n_repeats=5, random_state=0, n_jobs=2).importances_mean
            )
        },
        quality=leading,
        quality_name="missed columns",
        goals={"scikit-learn permutation_importance, 5 repeats": 10.0},
        repeats=1,
    ),
    *[
        Case(
            name=f"prediction of 100,000 rows by the forest, {'2 classes' if classes else 'regression'}",
            data=lambda classes=classes: fitted(classes),
            ours=lambda d: d[1].predict(d[0].X_test),
            peers={SKLEARN: lambda d: d[2].predict(d[0].X_test)},
            quality=lambda said, d, classes=classes: float(
                np.mean(said != d[0].y_test) if classes else np.sqrt(np.mean((said - d[0].y_test) ** 2))
            ),
            quality_name="held-out error" if classes else "held-out rmse",
            goals={SKLEARN: 1.0},
            slack=0.003 if classes else 0.01,
            repeats=5,
        )
        for classes in (0, 2)
    ],
]
