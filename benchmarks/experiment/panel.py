"""A whole study beside the same learners, folds and test set in a script of scikit-learn's.

The script seals nothing, checks nothing, compares nothing, writes no report and keeps no record: the ratio says what
those cost. Both sides grow the panel's own learners, whoever made them, so it says nothing about the learners' speed.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, make_regression
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import assay
from assay.experiment.panel import panel
from benchmarks.case import Case

__all__ = ["CASES"]

LINES = ("least squares", "lasso", "ridge", "elastic net")


def cancer() -> pd.DataFrame:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X.assign(target=np.where(y == 1, "benign", "malignant"))


def numbers() -> pd.DataFrame:
    X, y = make_regression(10_000, 20, n_informative=10, noise=50.0, random_state=0)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(20)]).assign(target=y)


def ours(**options: Any):
    def work(frame: pd.DataFrame) -> float:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["ASSAY_HOME"] = str(Path(folder) / "home")
            study = assay.run(frame, "target", out=Path(folder) / "out", **options)
            return min(result.estimate for result in study.leaderboard.results.values())

    return work


def script(task: str, name: str = "quick", chosen: tuple[str, ...] = ()):
    def work(frame: pd.DataFrame) -> float:
        X, y = frame.drop(columns="target"), frame["target"].to_numpy()
        classes = task == "classification"
        share = 0.5 if len(y) < 1_000 else 0.2
        parts = train_test_split(X, y, test_size=share, random_state=0, stratify=y if classes else None)
        train, test, target, _ = parts
        folds = (StratifiedKFold if classes else KFold)(10, shuffle=True, random_state=0)
        scores = {}
        for learner in panel(task, name, chosen):
            model = make_pipeline(StandardScaler(), learner.make(0))
            said = cross_val_predict(model, train, target, cv=folds)
            scores[learner.name] = np.mean(said != target) if classes else np.sqrt(np.mean((said - target) ** 2))
        best = min(scores, key=scores.__getitem__)
        final = next(one for one in panel(task, name, chosen) if one.name == best)
        make_pipeline(StandardScaler(), final.make(0)).fit(train, target).predict(test)
        return float(scores[best])

    return work


CASES: list[Case] = [
    Case(
        name="a whole quick study with report and ledger, breast cancer 569 x 30",
        data=cancer,
        ours=ours(),
        peers={"the same learners and folds, scikit-learn script": script("classification")},
        quality=lambda outcome, data: outcome,
        quality_name="cross-validated error of the best",
        slack=0.02,
        repeats=3,
        cold=True,
    ),
    Case(
        name="a whole study of linear models with report and ledger, 10,000 x 20",
        data=numbers,
        ours=ours(learners=LINES),
        peers={"the same learners and folds, scikit-learn script": script("regression", "quick", LINES)},
        quality=lambda outcome, data: outcome,
        quality_name="cross-validated rmse of the best",
        slack=2.0,
        repeats=3,
    ),
]
