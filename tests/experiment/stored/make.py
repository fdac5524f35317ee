"""Write the stored model files: `python -m tests.experiment.stored.make v2` for the present version of the format.

One small model for each way a fitted model is built, with what it predicts for `ROWS` in `expected.json`. The files
of a version are written once, with the code of that version, and never again: a later assay must still read them.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.pipeline import Pipeline

from assay.calibration import CalibratedClassifier
from assay.evaluation import Ensemble, SearchCV, ThresholdClassifier, conformal
from assay.experiment.calibrated import CalibratedIfBetter
from assay.experiment.columns import Columns
from assay.experiment.model_file import save_model
from assay.generative import LinearDiscriminantAnalysis, MixedNB, QuadraticDiscriminantAnalysis
from assay.linear import LassoCV, LinearRegression, LocalRegression, LogisticRegression, Ridge, SplineBasis, Stepwise
from assay.margin import SVC, SVR
from assay.neighbors import KNeighborsClassifier, KNeighborsRegressor
from assay.trees import (
    BaggingRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    PrunedTreeClassifier,
    PrunedTreeRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

FOLDER = Path(__file__).parent
KINDS = {"size": "number", "age": "number", "colour": "category", "day": "date"}
ROWS = 12
"""So many rows of the table have their predictions in `expected.json`."""


def table(n: int = 60) -> tuple[pd.DataFrame, pd.Series, np.ndarray]:
    """Two columns of numbers, one with missing values, a category and a date; a target and three classes of it."""
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"size": rng.normal(size=n).round(2), "age": rng.normal(size=n).round(2)})
    frame["colour"] = pd.Series(rng.choice(["blue", "grün", "red"], n), dtype=object)
    frame["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    frame.loc[::7, "age"] = np.nan
    y = frame["size"] + 0.5 * (frame["colour"] == "red") + 0.2 * rng.normal(size=n)
    return frame, y, np.array(["high", "low", "mid"], dtype=object)[np.digitize(y, [-0.3, 0.4])]


def piped(*steps: Any, encode: str = "treatment") -> Pipeline:
    """The steps behind the preprocessing."""
    columns = Columns(KINDS, encode=encode, impute=encode != "native")
    return Pipeline([("columns", columns), *((f"step{at}", step) for at, step in enumerate(steps))])


def models() -> Iterator[tuple[str, dict[str, Any]]]:
    """The parts of each model file, by name."""
    frame, y, labels = table()
    seed = {"random_state": 0}
    regressors = {
        "baseline": piped(DummyRegressor()),
        "least_squares": piped(LinearRegression()),
        "lasso": piped(LassoCV(cv=3, alphas=8)),
        "search": SearchCV(piped(Ridge()), {"step0__alpha": [0.1, 1.0]}, cv=3),
        "stepwise": piped(Stepwise()),
        "splines": piped(SplineBasis(), Ridge()),
        "local": piped(LocalRegression(tau=2.0)),
        "neighbours": piped(KNeighborsRegressor(n_neighbors="loo")),
        "tree": piped(PrunedTreeRegressor(min_samples_leaf=5, cv=3, **seed), encode="native"),
        "forest": piped(RandomForestRegressor(n_estimators=4, min_samples_leaf=5, **seed), encode="native"),
        "bagging": piped(BaggingRegressor(n_estimators=3, **seed)),
        "boosting": piped(GradientBoostingRegressor(n_estimators=4, max_leaf_nodes=5, **seed), encode="native"),
        "support_vectors": piped(SVR()),
        "ensemble": Ensemble(
            [piped(Ridge()), piped(GradientBoostingRegressor(n_estimators=3, **seed), encode="native")], cv=3, **seed
        ),
    }
    members = [
        piped(LogisticRegression(penalty="l2", inference=False)),
        piped(GradientBoostingClassifier(n_estimators=2, max_leaf_nodes=4, **seed), encode="native"),
    ]
    two_classes = {
        "threshold": ThresholdClassifier(members[0], cost={"missed": 4, "false": 1}, cv=3),
        "threshold_ensemble": ThresholdClassifier(
            CalibratedIfBetter(Ensemble(members, cv=3, **seed), cv=3), cost={"missed": 4, "false": 1}, cv=3
        ),
    }
    classifiers = {
        "baseline_classes": piped(DummyClassifier(strategy="prior")),
        "logistic": piped(LogisticRegression(penalty="l2", inference=False)),
        "logistic_inference": piped(LogisticRegression()),
        "discriminant": piped(LinearDiscriminantAnalysis(shrinkage="auto")),
        "quadratic": piped(QuadraticDiscriminantAnalysis(shrinkage="auto", pooling=0.1)),
        "naive_bayes": piped(MixedNB(), encode="native"),
        "neighbours_classes": piped(KNeighborsClassifier()),
        "tree_classes": piped(PrunedTreeClassifier(min_samples_leaf=5, cv=3, **seed), encode="native"),
        "forest_classes": piped(RandomForestClassifier(n_estimators=4, min_samples_leaf=5, **seed), encode="native"),
        "boosting_classes": piped(
            GradientBoostingClassifier(n_estimators=2, max_leaf_nodes=4, **seed), encode="native"
        ),
        "support_vectors_classes": piped(SVC(probability=True, **seed)),
        "ensemble_classes": Ensemble(members, cv=3, **seed),
        "calibrated": CalibratedClassifier(piped(LogisticRegression(penalty="l2")), method="isotonic", cv=3),
    }
    schema = {"features": list(KINDS)}
    for name, model in regressors.items():
        parts = {"pipeline": model.fit(frame, y), "task": "regression", "target": "y", "kinds": KINDS}
        parts |= {"schema": schema, "residuals": y - model.predict(frame), "metadata": {"study": name}}
        if name == "search":
            parts["conformal"] = conformal(piped(Ridge()), frame, y, cv=3)
        yield name, parts
    two = np.where(labels == "high", "high", "low")
    for name, model in {**classifiers, **two_classes}.items():
        classes = two if name in two_classes else labels
        parts = {"pipeline": model.fit(frame, classes), "task": "classification", "target": "y", "kinds": KINDS}
        codes = np.searchsorted(model.classes_, classes).tolist()
        parts |= {"classes": model.classes_, "probabilities": model.predict_proba(frame)}
        yield name, {**parts, "schema": {**schema, "codes": codes}, "metadata": {"study": name}}


def write(folder: Path) -> None:
    """All files of one version."""
    folder.mkdir()
    expected = {}
    for name, parts in models():
        save_model(folder / f"{name}.assay", parts)
        rows = table()[0].head(ROWS)
        model = parts["pipeline"]
        expected[name] = (model.predict if parts["task"] == "regression" else model.predict_proba)(rows).tolist()
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write(FOLDER / sys.argv[1])
