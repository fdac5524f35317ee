"""When is a test set worse than none? The model that is delivered, and the interval of its figure, both ways."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy import stats
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from assay.evaluation import compare
from assay.evaluation.learner import Rows
from assay.evaluation.validation import validation_of
from assay.metrics import get_metric
from assay.resampling import Folds

__all__ = ["SIMULATIONS"]

SIZES, RUNS, NOISE_RUNS, STUDIES = (60, 100, 150, 200, 300), 200, 600, 100
COLUMNS, FRESH, OUTER, INNER = 8, 4000, 10, 5
QUARTER = 0.25
PANELS: dict[str, list[Any]] = {
    "regression": [DummyRegressor(), LinearRegression(), Ridge(alpha=10.0), DecisionTreeRegressor(max_depth=3)],
    "classification": [
        DummyClassifier(),
        LogisticRegression(),
        LinearDiscriminantAnalysis(),
        DecisionTreeClassifier(max_depth=3),
    ],
}
METRICS = {"regression": "rmse", "classification": "error"}
SIGNALS = {"none": 0.0, "weak": 0.5, "strong": 1.5}


def _draw(task: str, signal: float, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Three of eight columns matter, one of them not along a line."""
    X = rng.normal(size=(n, COLUMNS))
    centre = signal * (X[:, 0] + 0.5 * X[:, 1] + 0.5 * (X[:, 2] ** 2 - 1))
    if task == "regression":
        return X, centre + rng.normal(size=n)
    return X, (rng.random(n) < 1 / (1 + np.exp(-1.5 * centre))).astype(int)


def _procedure(task: str, X: np.ndarray, y: np.ndarray) -> Any:
    """The learner with the best cross-validated figure, fitted to all rows."""
    panel = PANELS[task]
    losses = np.zeros(len(panel))
    for train, test in Folds(INNER, stratify=task == "classification").split(X, y):
        for j, model in enumerate(panel):
            losses[j] += _losses(task, y[test], clone(model).fit(X[train], y[train]).predict(X[test])).sum()
    return clone(panel[int(losses.argmin())]).fit(X, y)


def _losses(task: str, y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    return (y - predicted) ** 2 if task == "regression" else (y != predicted).astype(float)


def _figure(task: str, y: np.ndarray, predicted: np.ndarray) -> float:
    mean = float(_losses(task, y, predicted).mean())
    return float(np.sqrt(mean)) if task == "regression" else mean


def _outer(task: str, X: np.ndarray, y: np.ndarray) -> tuple[Any, bool]:
    """The interval of the whole procedure on outer folds, and whether it is claimed to beat the baseline."""
    metric = get_metric(METRICS[task])
    splits = list(Folds(OUTER, stratify=task == "classification").split(X, y))
    rows = Rows(X, y, None, None if task == "regression" else np.unique(y))
    found = {}
    for name, fit in (("procedure", lambda A, b: _procedure(task, A, b)), ("baseline", PANELS[task][0].fit)):
        kept = {metric.needs: tuple(fit(X[train], y[train]).predict(X[test]) for train, test in splits)}
        found[name] = validation_of(
            name, PANELS[task][0], rows, splits, (metric,), kept, np.zeros(len(splits)), level=0.95
        )
    gap = compare(found, correction=None)
    return found["procedure"].interval(0.95), gap.is_better("procedure", "baseline")


def _run(task: str, signal: float, n: int, run: int) -> dict[str, float]:
    """One table, judged both ways: true losses of the models delivered, widths, and whether the truth is covered."""
    rng = np.random.default_rng([run, n, int(10 * signal), len(task)])
    X, y = _draw(task, signal, n, rng)
    fresh = _draw(task, signal, FRESH, rng)
    held = int(n * QUARTER)
    part, model = _procedure(task, X[held:], y[held:]), _procedure(task, X, y)
    truth = {"quarter": _figure(task, fresh[1], part.predict(fresh[0]))}
    truth["none"] = _figure(task, fresh[1], model.predict(fresh[0]))
    intervals = {"quarter": get_metric(METRICS[task]).interval(y[:held], part.predict(X[:held]), level=0.95)}
    intervals["none"], claimed = _outer(task, X, y)
    told: dict[str, float] = {"claimed": float(claimed)}
    for name, one in intervals.items():
        told |= {f"loss {name}": truth[name], f"width {name}": float(one.upper - one.lower)}
        told[f"covered {name}"] = float(one.lower <= truth[name] <= one.upper)
    return told


def a_quarter_or_none() -> pd.DataFrame:
    """200 tables a row: a quarter held out as a test set, against no test set and ten outer folds that repeat the whole
    procedure (three learners and a baseline, five inner folds, the best is refitted). `cost` is how much greater the
    true loss (rmse, error rate; on 4,000 fresh rows) of the model fitted to three quarters is than that of the model
    fitted to all rows; `width` is the mean width of the 95% interval; `covered` how often it holds the true loss of the
    model that is delivered, to be .95. Below about 150 rows a test set costs 2% to 5% of the loss and its interval is
    up to twice as wide; from there on the cost is about 1% and a test set, which is looked at once whatever is tried
    before, is worth it. Hence `SMALL = 150` in `assay.experiment.test_set.size`.
    """
    rows = []
    for task in PANELS:
        for label in ("weak", "strong"):
            for n in SIZES:
                every = Parallel(n_jobs=2)(delayed(_run)(task, SIGNALS[label], n, run) for run in range(RUNS))
                mean = pd.DataFrame(every).mean()
                row: dict[str, Any] = {"task": task, "signal": label, "n": n}
                row |= {f"loss, {name}": mean[f"loss {name}"] for name in ("quarter", "none")}
                row["cost"] = f"{100 * (mean['loss quarter'] / mean['loss none'] - 1):.1f}%"
                row |= {
                    f"{what}, {name}": mean[f"{what} {name}"]
                    for what in ("width", "covered")
                    for name in ("quarter", "none")
                }
                rows.append(row)
    return pd.DataFrame(rows)


def _share(what: str, n: int, claimed: list[bool]) -> tuple[Any, ...]:
    low, high = stats.binomtest(sum(claimed), len(claimed)).proportion_ci(0.95, "exact")
    return what, n, len(claimed), float(np.mean(claimed)), low, high


def _claims(task: str, n: int, run: int) -> bool:
    rng = np.random.default_rng([run, n, len(task)])
    return _outer(task, *_draw(task, 0.0, n, rng))[1]


def _study(run: int, n: int) -> bool:
    """One study without a test set of a target that has nothing to do with its columns: a false verdict?"""
    import assay

    rng = np.random.default_rng([run, n])
    frame = pd.DataFrame(rng.normal(size=(n, 5)), columns=list("abcde"))
    classes = run % 2 == 0
    frame["y"] = rng.integers(0, 2, n) if classes else rng.normal(size=n)
    learners = ["discriminant", "tree"] if classes else ["least squares", "tree"]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ASSAY_HOME"] = folder
        study = assay.run(frame, "y", learners=learners, cv=5, n_jobs=1, metric="error" if classes else "mse")
        assert not study.has_test_set
        return bool(study.summary()["finding"] == "outer-better")


def claims_in_noise() -> pd.DataFrame:
    """How often a target that is pure noise is said to be predicted better than by the baseline, without a test set: by
    the procedure above (600 tables a row), and as the verdict of whole studies with `assay.run` (100 a row, two
    learners and a baseline, coin tosses and normal numbers by turns). At most .05 are allowed; of a two-sided test at
    95%, .025 are expected.
    """
    rows = []
    for n in (60, 120):
        for task in PANELS:
            claimed = Parallel(n_jobs=2)(delayed(_claims)(task, n, run) for run in range(NOISE_RUNS))
            rows.append(_share(f"{task}, outer folds", n, claimed))
        claimed = Parallel(n_jobs=2)(delayed(_study)(run, n) for run in range(STUDIES))
        rows.append(_share("verdict of studies", n, claimed))
    return pd.DataFrame(rows, columns=["what", "n", "runs", "share", "lower", "upper"])


SIMULATIONS = {"A quarter of the rows, or no test set": a_quarter_or_none, "Claims in pure noise": claims_in_noise}
