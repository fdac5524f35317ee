"""How good are the picks: the learner that `assay run` selects beside six plain peers, on the same rows of real tables.

`python -m benchmarks picks --data DIR` (DIR holds the ISLP tables as CSV files). Every table is split five times into
at most 500 training and 1,000 test rows. The loss is the root mean squared error, the error rate, or 1 - AUC where the
rarer class has less than a fifth of the rows. Peers run with their defaults and with a random search of 20 candidates
in 3 folds.

    oracle    the peer with the least mean loss over all splits of a table
    ratio     a contestant's loss over the oracle's, on the same split; the median over splits, then over tables
    random    the mean of that ratio over the peers: what somebody gets who picks one of them blindly
    closed    (random - ours) / (random - 1): the share of that gap that the pick closes

Defaults of the panel are set on the tables marked "set" and shown on those marked "shown". Finished runs are kept in
`docs/picks.jsonl`, so that the command goes on where it was stopped; delete our runs there after a change of the panel.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["PEERS", "TABLES", "main"]

os.environ.setdefault("OMP_NUM_THREADS", "1")  # searches run two workers; threads of OpenMP inside them would spin
HERE = Path(__file__).resolve().parent.parent
KEPT = HERE / "docs" / "picks.jsonl"
DOCUMENT = HERE / "docs" / "picks.md"
SPLITS, LARGEST, TESTED, SEARCHED, SEARCH_FOLDS = 5, 500, 1000, 20, 3
RARE = 0.2
NOTHING = 1e-3
"""Added to both losses of a ratio."""


# The tables.


@dataclass(frozen=True)
class Problem:
    """A table with its target; `role` says whether defaults may be set on it."""

    name: str
    role: str
    load: Callable[[Path], pd.DataFrame]
    target: str


def _csv(name: str, drop: Sequence[str] = ()) -> Callable[[Path], pd.DataFrame]:
    return lambda folder: pd.read_csv(folder / f"{name}.csv").drop(columns=list(drop)).dropna(ignore_index=True)


def _sklearn(name: str) -> Callable[[Path], pd.DataFrame]:
    def load(_: Path) -> pd.DataFrame:
        import sklearn.datasets

        made = getattr(sklearn.datasets, f"load_{name}")(as_frame=True)
        return made.data.assign(target=[str(made.target_names[c]) for c in made.target])

    return load


def _diabetes(_: Path) -> pd.DataFrame:
    from sklearn.datasets import load_diabetes

    return load_diabetes(as_frame=True).frame


def _digits(_: Path) -> pd.DataFrame:
    from sklearn.datasets import load_digits

    made = load_digits(as_frame=True)
    return made.data.assign(target=[f"d{digit}" for digit in made.target])


def _statsmodels(name: str, target: str, make: Callable[[pd.DataFrame], Any]) -> Callable[[Path], pd.DataFrame]:
    def load(_: Path) -> pd.DataFrame:
        import statsmodels.api as sm

        frame = getattr(sm.datasets, name).load_pandas().data.dropna(ignore_index=True)
        return frame.drop(columns=[target]).assign(target=make(frame[target]))

    return load


TABLES = (
    Problem("Auto", "set", _csv("Auto", ["name"]), "mpg"),
    Problem("Boston", "shown", _csv("Boston"), "medv"),
    Problem("Carseats", "set", _csv("Carseats"), "Sales"),
    Problem("College", "shown", _csv("College"), "Grad.Rate"),
    Problem("Credit", "set", _csv("Credit", ["ID"]), "Balance"),
    Problem("Hitters", "shown", _csv("Hitters"), "Salary"),
    Problem("Wage", "set", _csv("Wage", ["logwage"]), "wage"),
    Problem("Bikeshare", "shown", _csv("Bikeshare", ["casual", "registered"]), "bikers"),
    Problem("diabetes", "shown", _diabetes, "target"),
    Problem("breast cancer", "set", _sklearn("breast_cancer"), "target"),
    Problem("wine", "shown", _sklearn("wine"), "target"),
    Problem("digits", "set", _digits, "target"),
    Problem("OJ", "shown", _csv("OJ"), "Purchase"),
    Problem("Default", "set", _csv("Default"), "default"),
    Problem("Caravan", "shown", _csv("Caravan"), "Purchase"),
    Problem("affairs", "set", _statsmodels("fair", "affairs", lambda y: np.where(y > 0, "yes", "no")), "target"),
    Problem("votes", "shown", _statsmodels("anes96", "vote", lambda y: np.where(y > 0, "Dole", "Clinton")), "target"),
    Problem("doctor visits", "set", _statsmodels("randhie", "mdvis", lambda y: np.minimum(y, 20.0)), "target"),
)


def split(problem: Problem, folder: Path, k: int) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Training and test rows of the k-th split, and the metric; at most `LARGEST` and `TESTED` rows."""
    from sklearn.model_selection import train_test_split

    frame = problem.load(folder)
    frame = frame.loc[:, [c for c in frame if not str(c).startswith("Unnamed")]]
    y = frame[problem.target]
    numeric = y.dtype.kind in "if"
    size = min(LARGEST, int(0.7 * len(frame)))
    train, test = train_test_split(frame, train_size=size, random_state=k, stratify=None if numeric else y)
    test = test.iloc[:TESTED]
    metric = "rmse" if numeric else "error"
    if not numeric and y.nunique() == 2 and y.value_counts(normalize=True).min() < RARE:
        metric = "auc"
    return train.reset_index(drop=True), test.reset_index(drop=True), metric


def loss(metric: str, y: Any, predicted: Any, classes: Any = None) -> float:
    """The loss of test predictions: values, labels, or the probability of the second class."""
    from assay.metrics import get_metric

    if metric == "auc":
        return 1 - float(get_metric("auc")(np.asarray(y) == classes[1], predicted))
    return float(get_metric(metric)(np.asarray(y), np.asarray(predicted)))


# The contestants.


def _peer(name: str, task: str, seed: int) -> tuple[Any, dict[str, Any]]:
    """A peer with its defaults, and the space of its random search."""
    from lightgbm import LGBMClassifier, LGBMRegressor
    from scipy.stats import loguniform, randint, uniform
    from sklearn.ensemble import HistGradientBoostingClassifier as HistC
    from sklearn.ensemble import HistGradientBoostingRegressor as HistR
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.svm import SVC, SVR
    from xgboost import XGBClassifier, XGBRegressor

    r = task == "regression"
    boosted = {"learning_rate": loguniform(0.02, 0.3), "max_depth": randint(2, 7)}
    if name == "LightGBM":
        kind = LGBMRegressor if r else LGBMClassifier
        more = {"n_estimators": randint(30, 200), "num_leaves": randint(4, 32), "min_child_samples": randint(5, 50)}
        return kind(random_state=seed, n_jobs=1, verbosity=-1), {"learning_rate": loguniform(0.02, 0.3), **more}
    if name == "XGBoost":
        kind = XGBRegressor if r else XGBClassifier
        more = {"n_estimators": randint(30, 200), "subsample": uniform(0.5, 0.5), "min_child_weight": randint(1, 10)}
        return kind(random_state=seed, n_jobs=1, verbosity=0), {**boosted, **more}
    if name == "HistGradientBoosting":
        more = {"max_iter": randint(30, 200), "l2_regularization": loguniform(1e-3, 10)}
        return (HistR if r else HistC)(random_state=seed), {**boosted, **more}
    if name == "RandomForest":
        kind = RandomForestRegressor if r else RandomForestClassifier
        more = {"max_features": uniform(0.1, 0.9), "min_samples_leaf": randint(1, 10)}
        return kind(random_state=seed, n_jobs=1), more
    if name == "SVM":
        model = SVR() if r else SVC(random_state=seed)
        return model, {"C": loguniform(0.1, 1000), "gamma": loguniform(1e-4, 1)}
    if r:
        return Ridge(), {"alpha": loguniform(1e-3, 1e4)}
    return LogisticRegression(max_iter=2000), {"C": loguniform(1e-4, 1e3)}


PEERS = ("LightGBM", "XGBoost", "HistGradientBoosting", "RandomForest", "SVM", "linear")


def peer(name: str, tuned: bool, train: pd.DataFrame, test: pd.DataFrame, target: str, metric: str, seed: int) -> float:
    """A peer in a pipeline that an expert would write: levels as indicators, numbers standardised, gaps filled."""
    from sklearn.compose import make_column_transformer
    from sklearn.model_selection import RandomizedSearchCV
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    X, y = train.drop(columns=target), train[target].to_numpy()
    numbers = [c for c in X if X[c].dtype.kind in "biuf"]
    rest = [c for c in X if c not in numbers]
    columns = make_column_transformer(
        (StandardScaler(), numbers), (OneHotEncoder(handle_unknown="ignore", sparse_output=False), rest)
    )
    classes, codes = (None, y) if metric == "rmse" else np.unique(y, return_inverse=True)
    task = "regression" if classes is None else "classification"
    model, space = _peer(name, task, seed)
    made: Any = Pipeline([("columns", columns), ("model", model)])
    if tuned:
        scoring = {"rmse": "neg_root_mean_squared_error", "error": "accuracy", "auc": "roc_auc"}[metric]
        named = {f"model__{key}": value for key, value in space.items()}
        made = RandomizedSearchCV(made, named, n_iter=SEARCHED, cv=SEARCH_FOLDS, scoring=scoring, random_state=seed)
    made.fit(X, codes)
    T = test.drop(columns=target)
    if metric == "auc":
        scores = made.decision_function(T) if name == "SVM" else made.predict_proba(T)[:, 1]
        return loss(metric, test[target], scores, classes)
    predicted = made.predict(T)
    return loss(metric, test[target], predicted if classes is None else classes[np.asarray(predicted, dtype=int)])


def ours(panel: str, train: pd.DataFrame, test: pd.DataFrame, target: str, metric: str, seed: int) -> dict[str, Any]:
    """The pick of a study on the training rows; the test rows are given, and used here alone."""
    from assay.experiment import Study

    with tempfile.TemporaryDirectory() as home:
        os.environ["ASSAY_HOME"] = home
        task = "regression" if metric == "rmse" else "classification"
        study = Study(
            train, target, test=test, task=task, panel=panel, metric=metric, seed=seed, open_test=False, n_jobs=1
        )
        chosen, board = study.select().name, study.leaderboard
        best = board.order[0]
        T = test.drop(columns=target)
        model = study.model
        if metric == "auc":
            found = loss(metric, test[target], model.predict_proba(T)[:, 1], model.classes_)
        else:
            found = loss(metric, test[target], model.predict(T))
    return {"loss": found, "picked": chosen, "best": best, "failed": dict(board.failed)}


def contestants() -> dict[str, Callable[..., Any]]:
    """By name; each is called with training rows, test rows, target, metric and seed."""
    found: dict[str, Callable[..., Any]] = {f"assay {panel}": partial(ours, panel) for panel in ("quick", "standard")}
    for tuned in (False, True):
        found |= {f"{name}{', tuned' if tuned else ''}": partial(peer, name, tuned) for name in PEERS}
    return found


# Running.


def run_all(folder: Path, chosen: Sequence[Problem], names: Sequence[str], splits: int) -> None:
    """Every contestant on every split that is not done yet."""
    KEPT.parent.mkdir(exist_ok=True)
    done = {(row["table"], row["split"], row["who"]) for row in kept()}
    every = contestants()
    start = time.perf_counter()
    for k in range(splits):
        for problem in chosen:
            missing = [name for name in names if (problem.name, k, name) not in done]
            if not missing:
                continue
            train, test, metric = split(problem, folder, k)
            for name in missing:
                began = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # peers warn of what an expert would wave through
                    found = every[name](train, test, problem.target, metric, k)
                row = {"table": problem.name, "split": k, "who": name, "metric": metric}
                row |= {"rows": len(train), "tested": len(test)}
                row |= found if isinstance(found, dict) else {"loss": found}
                row["seconds"] = round(time.perf_counter() - began, 2)
                with KEPT.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                said = f"{problem.name} {k} {name}: {row['loss']:.4g} {row.get('picked', '')} ({row['seconds']} s)"
                print(f"[{time.perf_counter() - start:7.1f} s] {said}", file=sys.stderr, flush=True)


def kept() -> list[dict[str, Any]]:
    """The runs that are done."""
    return [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.exists() else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and write the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks picks", description="How good are the picks.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the ISLP tables as CSV files")
    parser.add_argument("--table", action="append", default=[], help="only this one; can be repeated")
    parser.add_argument("--who", action="append", default=[], help="only this contestant; can be repeated")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--show", action="store_true", help="run nothing; write the page from the runs that are kept")
    asked = parser.parse_args(arguments)
    chosen = [one for one in TABLES if not asked.table or one.name in asked.table]
    names = [name for name in contestants() if not asked.who or name in asked.who]
    if not asked.show:
        run_all(asked.data, chosen, names, asked.splits)
    frame = pd.DataFrame(kept())
    print(summary(frame))
    if not asked.table and not asked.who:
        DOCUMENT.write_text(document(frame))
    return 0


# The tables that are shown.


def ratios(frame: pd.DataFrame, tuned: bool) -> pd.DataFrame:
    """The median over splits of each contestant's loss over the oracle's, a row per table."""
    peers = [f"{name}{', tuned' if tuned else ''}" for name in PEERS]
    wide = frame.pivot_table(index=["table", "split"], columns="who", values="loss")
    wide = wide.dropna(subset=peers)
    oracle = wide[peers].groupby("table").mean().idxmin(axis=1)
    found = {}
    for table, part in wide.groupby("table"):
        least = part[oracle[table]]
        # A perfect oracle has no ratio; half a wrong row, or a small loss, in its place keeps one.
        some = frame[frame["table"] == table].iloc[0]
        least_loss = 0.5 / float(some["tested"]) if some["metric"] == "error" else NOTHING
        found[table] = ((part.T + least_loss) / (least + least_loss)).T.median()
    made = pd.DataFrame(found).T.reindex([one.name for one in TABLES if one.name in found])
    made["random peer"] = made[peers].mean(axis=1)
    made.insert(0, "oracle", oracle)
    return made


def summary(frame: pd.DataFrame) -> str:
    """The tables as text."""
    lines = [_counts(frame)]
    roles = {one.name: one.role for one in TABLES}
    for tuned in (False, True):
        peers = [f"{name}{', tuned' if tuned else ''}" for name in PEERS]
        if not set(peers) <= set(frame["who"]):
            continue
        found = ratios(frame, tuned)
        own = [name for name in found if str(name).startswith("assay")]
        shown = found[["oracle", *own, "random peer"]].assign(role=[roles[str(t)] for t in found.index])
        lines.append(f"\nratio to the best peer per table, peers {'tuned' if tuned else 'with defaults'}")
        lines.append(shown.to_string(float_format=lambda value: f"{value:.3f}"))
        for role in ("set", "shown"):
            part = found[[roles[str(t)] == role for t in found.index]]
            for name in own:
                lines += _judged(role, name, part.dropna(subset=[name]), peers)
    return "\n".join(lines)


def _counts(frame: pd.DataFrame) -> str:
    """How many splits each contestant has been run on, where that is not the same for all."""
    counts = frame.groupby("who").size()
    few = counts[counts < counts.max()]
    told = ", ".join(f"{name} {number}" for name, number in few.items())
    return f"runs: {counts.max()} of each contestant" + (f", but {told}" if told else "")


def _judged(role: str, name: str, part: pd.DataFrame, peers: Sequence[str]) -> list[str]:
    """The share of the gap that our pick closes on these tables, and its ratio to each single peer."""
    if len(part) == 0:
        return []
    random, ours = part["random peer"], part[name]
    closed = {"mean": (random.mean() - ours.mean()) / (random.mean() - 1)}
    closed["median"] = (random.median() - ours.median()) / (random.median() - 1)
    each = ", ".join(f"{p} {float((ours / part[p]).median()):.3f}" for p in peers)
    ratio = f"{name} {ours.mean():.3f} (median {ours.median():.3f})"
    return [
        f"{role}, {len(part)} tables: {ratio}, random peer {random.mean():.3f} (median {random.median():.3f}); "
        f"share of the gap closed {closed['mean']:.2f} (of medians {closed['median']:.2f})",
        f"  median ratio to each: {each}",
    ]


def document(frame: pd.DataFrame) -> str:
    """The tables as a page."""
    head = __doc__.strip() if __doc__ else ""
    return f"# Picks\n\n{head}\n\n```\n{summary(frame).strip()}\n```\n"


if __name__ == "__main__":
    sys.exit(main())
