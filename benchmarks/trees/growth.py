"""How cost grows: each case doubles or halves one thing of a base case. There are no peers here."""

from __future__ import annotations

import math
from typing import Any

from assay.trees import DecisionTreeRegressor, GradientBoostingClassifier, RandomForestClassifier
from benchmarks.case import Case
from benchmarks.trees._data import error_rate, rmse, table

__all__ = ["CASES"]

BASE = {"n": 25_000, "p": 20, "trees": 50, "classes": 2, "threads": 1}
STEPS = ({}, {"n": 50_000}, {"n": 100_000}, {"p": 40}, {"trees": 100}, {"classes": 4}, {"threads": 2})


def _case(kind: str, make: Any, changed: dict[str, int], *, classes: bool = True) -> Case:
    setting = {**BASE, **changed}
    words = ", ".join(f"{name} = {value:,}" for name, value in changed.items())
    return Case(
        name=f"growth of cost, {kind}: " + (words or ", ".join(f"{k} = {v:,}" for k, v in BASE.items())),
        data=lambda: table(setting["n"], setting["p"], classes=setting["classes"] if classes else 0),
        ours=lambda d: make(setting).fit(d.X, d.y),
        peers={},
        quality=error_rate if classes else rmse,
        quality_name="held-out error" if classes else "held-out rmse",
        slack=math.inf,
        repeats=3,
    )


def forest(s: dict[str, int]) -> Any:
    return RandomForestClassifier(n_estimators=s["trees"], random_state=0, n_jobs=s["threads"])


def boosting(s: dict[str, int]) -> Any:
    return GradientBoostingClassifier(n_estimators=s["trees"], random_state=0, n_jobs=s["threads"])


def tree(s: dict[str, int]) -> Any:
    return DecisionTreeRegressor(n_jobs=s["threads"])


CASES: list[Case] = [
    *[_case("random forest", forest, step) for step in STEPS],
    *[_case("boosting", boosting, step) for step in STEPS],
    *[
        _case("exact regression tree", tree, step, classes=False)
        for step in STEPS
        if not {"trees", "classes"} & set(step)
    ],
]
