"""Gradient boosting: 100 trees of 31 leaves on 255 bins, learning rate 0.1, the same for everybody."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import ensemble as peer
from threadpoolctl import threadpool_limits

from assay.trees import GradientBoostingClassifier, GradientBoostingRegressor
from benchmarks.case import Case
from benchmarks.trees._data import Table, error_rate, rmse, table

__all__ = ["CASES"]

SETTING = {"learning_rate": 0.1, "max_leaf_nodes": 31, "min_samples_leaf": 20}


def ours(classes: int, threads: int) -> Any:
    kind = GradientBoostingClassifier if classes else GradientBoostingRegressor
    return kind(n_estimators=100, **SETTING, random_state=0, n_jobs=threads)


def lightgbm(classes: int, threads: int) -> Any:
    import lightgbm

    kind = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
    return kind(
        n_estimators=100,
        learning_rate=0.1,
        num_leaves=31,
        min_child_samples=20,
        max_bin=255,
        n_jobs=threads,
        verbose=-1,
        force_row_wise=True,  # else it times both ways first
    )


def xgboost(classes: int, threads: int) -> Any:
    import xgboost

    kind = xgboost.XGBClassifier if classes else xgboost.XGBRegressor
    return kind(
        n_estimators=100,
        learning_rate=0.1,
        max_leaves=31,
        max_depth=0,
        grow_policy="lossguide",
        tree_method="hist",
        max_bin=256,
        min_child_weight=20 if not classes else 1,
        n_jobs=threads,
    )


def sklearn(classes: int) -> Any:
    kind = peer.HistGradientBoostingClassifier if classes else peer.HistGradientBoostingRegressor
    return kind(max_iter=100, **SETTING, early_stopping=False)


def fit_sklearn(classes: int, threads: int) -> Any:
    def work(d: Table) -> Any:
        with threadpool_limits(threads, user_api="openmp"):
            return sklearn(classes).fit(d.X, d.y)

    return work


def boosted(n: int, p: int, classes: int, threads: int, *, repeats: int, small: bool = False) -> Case:
    names = {
        "LightGBM": lambda d: lightgbm(classes, threads).fit(d.X, d.y),
        "XGBoost hist": lambda d: xgboost(classes, threads).fit(d.X, d.y),
        "scikit-learn HistGradientBoosting": fit_sklearn(classes, threads),
    }
    aims = (1.0, 1.0, 1.0) if small else (1.1 if threads == 2 else 1.3, 1.2, 2.0)
    kind = f"{classes} classes" if classes else "regression"
    return Case(
        name=f"boosting, {kind}, {n:,} x {p}, {threads} thread{'s' if threads > 1 else ''}",
        data=lambda: table(n, p, classes=classes),
        ours=lambda d: ours(classes, threads).fit(d.X, d.y),
        peers=names,
        quality=error_rate if classes else rmse,
        quality_name="held-out error" if classes else "held-out rmse",
        goals=dict(zip(names, aims, strict=True)),
        slack=0.003 if classes else 0.03 if small else 0.01,
        repeats=repeats,
        cold=small or n == 80_000,
    )


def fitted() -> tuple[Table, dict[str, Any]]:
    d = table(80_000, 30, n_test=100_000)
    models = {"assay": ours(0, 2), "LightGBM": lightgbm(0, 2), "scikit-learn HistGradientBoosting": sklearn(0)}
    return d, {name: model.fit(d.X, d.y) for name, model in models.items()}


def one_by_one(name: str) -> Any:
    def work(data: tuple[Table, dict[str, Any]]) -> np.ndarray:
        d, models = data
        return np.concatenate([models[name].predict(d.X_test[i : i + 1]) for i in range(1_000)])

    return work


def all_at_once(name: str) -> Any:
    return lambda data: data[1][name].predict(data[0].X_test)


def off(said: np.ndarray, data: tuple[Table, dict[str, Any]]) -> float:
    return float(np.sqrt(np.mean((said - data[0].y_test[: said.size]) ** 2)))


PEERS = ("LightGBM", "scikit-learn HistGradientBoosting")

CASES: list[Case] = [
    boosted(1_000, 10, 0, 2, repeats=9, small=True),
    boosted(80_000, 30, 0, 1, repeats=5),
    boosted(80_000, 30, 0, 2, repeats=5),
    boosted(80_000, 30, 2, 2, repeats=5),
    boosted(80_000, 30, 5, 2, repeats=3),
    boosted(1_000_000, 28, 2, 1, repeats=2),
    boosted(1_000_000, 28, 2, 2, repeats=3),
    boosted(1_000_000, 28, 0, 2, repeats=3),
    Case(
        name="prediction of 100,000 rows by 100 boosted trees",
        data=fitted,
        ours=all_at_once("assay"),
        peers={name: all_at_once(name) for name in PEERS},
        quality=off,
        quality_name="held-out rmse",
        goals=dict.fromkeys(PEERS, 1.0),
        slack=0.01,
        repeats=7,
    ),
    Case(
        name="prediction of 1,000 rows one at a time by 100 boosted trees",
        data=fitted,
        ours=one_by_one("assay"),
        peers={name: one_by_one(name) for name in PEERS},
        quality=off,
        quality_name="held-out rmse",
        goals=dict.fromkeys(PEERS, 1.0),
        slack=0.03,
        repeats=3,
    ),
]
