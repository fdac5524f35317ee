"""A whole study beside scripts of scikit-learn's that seal, check, compare, report and record nothing.

Two questions. What do seal, checks, comparisons, report and ledger cost? There the script runs the panel's own
learners. What does a user of scikit-learn wait for the same protocol? There every learner of the standard panel has
its nearest relative of scikit-learn's (`RELATIVES`), with the same folds, the same inner folds and the same space.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_breast_cancer, make_classification, make_friedman1, make_regression
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import (
    ElasticNetCV,
    LassoCV,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    RidgeCV,
)
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_predict, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import assay
from assay.experiment.panel import panel
from benchmarks.case import Case

__all__ = ["CASES"]

LINES = ("least squares", "lasso", "ridge", "elastic net")
ALPHAS = 10
"""Alphas of a pruning path that the script tries; ours tries them all."""


class PathTree(BaseEstimator):
    """scikit-learn's tree, its ccp_alpha by ten folds over a thinned pruning path."""

    def __init__(self, tree: Any = None) -> None:
        self.tree = tree

    def fit(self, X: Any, y: Any) -> PathTree:
        alphas = clone(self.tree).cost_complexity_pruning_path(X, y).ccp_alphas
        kept = np.unique(np.maximum(alphas[np.linspace(0, alphas.size - 1, ALPHAS).astype(int)], 0.0))
        self.search_ = GridSearchCV(self.tree, {"ccp_alpha": kept}, cv=10).fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        return self.search_.predict(X)


RELATIVES = {
    "regression": {
        "baseline": DummyRegressor(),
        "least squares": LinearRegression(),
        "lasso": LassoCV(cv=10),
        "ridge": RidgeCV(alphas=np.logspace(-3, 4, 100)),
        "elastic net": ElasticNetCV(l1_ratio=[0.1, 0.5, 0.9], cv=10),
        "tree": PathTree(DecisionTreeRegressor(min_samples_leaf=5, random_state=0)),
        "nearest neighbours": KNeighborsRegressor(),
        "random forest": RandomForestRegressor(200, max_features=1 / 3, random_state=0),
        "boosting": HistGradientBoostingRegressor(early_stopping=False, random_state=0),
    },
    "classification": {
        "baseline": DummyClassifier(),
        "naive Bayes": GaussianNB(),
        "discriminant": LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
        "logistic": LogisticRegression(max_iter=2_000),
        "sparse logistic": LogisticRegressionCV(
            Cs=np.logspace(-3, 2, 20),
            l1_ratios=(1.0,),
            solver="liblinear",
            cv=10,
            scoring="neg_log_loss",
            use_legacy_attributes=False,
        ),
        "tree": PathTree(DecisionTreeClassifier(min_samples_leaf=5, random_state=0)),
        "nearest neighbours": KNeighborsClassifier(),
        "random forest": RandomForestClassifier(200, random_state=0),
        "boosting": HistGradientBoostingClassifier(early_stopping=False, random_state=0),
    },
}
"""scikit-learn's nearest relative of every learner of the standard panel."""
SPACES = {
    "nearest neighbours": {"n_neighbors": [3, 7, 15, 31, 63]},
    "random forest": {"min_samples_leaf": [1, 5]},
    "boosting": {"learning_rate": [0.05, 0.1], "max_leaf_nodes": [7, 31]},
    "logistic": {"C": [0.001, 0.01, 0.1, 1.0, 10.0, 100.0]},
}


def cancer() -> pd.DataFrame:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X.assign(target=np.where(y == 1, "benign", "malignant"))


def numbers() -> pd.DataFrame:
    X, y = make_regression(10_000, 20, n_informative=10, noise=50.0, random_state=0)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(20)]).assign(target=y)


def curved() -> pd.DataFrame:
    X, y = make_friedman1(2_000, 20, noise=1.0, random_state=0)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(20)]).assign(target=y)


def classes() -> pd.DataFrame:
    X, y = make_classification(2_000, 20, n_informative=8, n_redundant=4, flip_y=0.1, random_state=0)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(20)]).assign(target=np.array(["no", "yes"])[y])


def ours(**options: Any):
    def work(frame: pd.DataFrame) -> float:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["ASSAY_HOME"] = str(Path(folder) / "home")
            study = assay.run(frame, "target", out=Path(folder) / "out", **options)
            return min(result.estimate for result in study.leaderboard.results.values())

    return work


def script(task: str, models: Any, *, n_jobs: int | None = None):
    """Ten folds over `models()`, name to estimator; the best is refitted on all training rows for the test rows."""

    def work(frame: pd.DataFrame) -> float:
        X, y = frame.drop(columns="target"), frame["target"].to_numpy()
        labels = task == "classification"
        share = 0.5 if len(y) < 1_000 else 0.2
        parts = train_test_split(X, y, test_size=share, random_state=0, stratify=y if labels else None)
        train, test, target, _ = parts
        folds = (StratifiedKFold if labels else KFold)(10, shuffle=True, random_state=0)
        pipes = {name: make_pipeline(StandardScaler(), model) for name, model in models().items()}
        scores = {}
        for name, pipe in pipes.items():
            said = cross_val_predict(pipe, train, target, cv=folds, n_jobs=n_jobs)
            scores[name] = np.mean(said != target) if labels else np.sqrt(np.mean((said - target) ** 2))
        best = min(scores, key=scores.__getitem__)
        pipes[best].fit(train, target).predict(test)
        return float(scores[best])

    return work


def own(task: str, chosen: tuple[str, ...] = ()):
    """The quick panel's learners, or the chosen ones, as they are."""
    return lambda: {learner.name: learner.make(0) for learner in panel(task, "quick", chosen)}


def relatives(task: str):
    """scikit-learn's relatives of the standard panel, searched over the same spaces on five inner folds."""
    return lambda: {
        learner.name: GridSearchCV(RELATIVES[task][learner.name], SPACES[learner.name], cv=5)
        if learner.name in SPACES
        else RELATIVES[task][learner.name]
        for learner in panel(task, "standard")
    }


CASES: list[Case] = [
    Case(
        name="a whole quick study with report and ledger, breast cancer 569 x 30",
        data=cancer,
        ours=ours(),
        peers={"the same learners and folds, scikit-learn script": script("classification", own("classification"))},
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
        peers={"the same learners and folds, scikit-learn script": script("regression", own("regression", LINES))},
        quality=lambda outcome, data: outcome,
        quality_name="cross-validated rmse of the best",
        slack=2.0,
        repeats=3,
    ),
    *(
        Case(
            name=f"a whole standard study, {task}, 2,000 x 20",
            data=data,
            ours=ours(panel="standard", n_jobs=2),
            peers={"the same protocol, scikit-learn's estimators": script(task, relatives(task), n_jobs=2)},
            quality=lambda outcome, data: outcome,
            quality_name=f"cross-validated {'error' if task == 'classification' else 'rmse'} of the best",
            goals={"the same protocol, scikit-learn's estimators": 3.0},
            slack=0.03,
            repeats=2,
        )
        for task, data in (("regression", curved), ("classification", classes))
    ),
]
