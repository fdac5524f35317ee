"""Figures over folds against the truth: bias, coverage and the size of comparisons, for every supervised metric.

The truth is the expected figure of models trained on as many rows as a training fold has: the mean over fresh training
sets, each judged on 20,000 new rows. Two learners of equal truth are the same learner on two sets of columns that are
exchangeable. Learners are closed forms (ridge, a few Newton steps of logistic ridge), so thousands of tables are cheap.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.dummy import DummyClassifier, DummyRegressor

from assay.errors import AssayWarning
from assay.evaluation import Validation, compare, cross_validate
from assay.metrics import get_metric
from assay.metrics.definition import Metric
from assay.numerics.threads import one_blas_thread
from assay.resampling import Folds, TimeFolds

__all__ = ["SIMULATIONS", "Design", "designs", "simulate"]

Array = np.ndarray
RUNS, HARD_RUNS, FAMILY_RUNS = 500, 200, 300
TRUTHS, TEST_ROWS = 200, 20_000
FALSE_ALARM = 1e-6
P = 4
"""Columns of each of the two exchangeable sets."""
NUMBERS = ("mse", "rmse", "mae", "quantile_loss", "median_absolute_error", "r2")
POSITIVE = ("poisson_deviance", "gamma_deviance")
CLASSES = (
    "error",
    "balanced_accuracy",
    "recall",
    "specificity",
    "precision",
    "f1",
    "mcc",
    "log_loss",
    "brier",
    "expected_calibration_error",
    "auc",
    "average_precision",
    "precision_at_k",
)
SAME = {
    "mse": "mse, deviance",
    "error": "error, accuracy, risk, top_k_accuracy",
    "recall": "recall, sensitivity, type II error",
    "specificity": "specificity, type I error",
    "f1": "f1, f_beta",
}
"""Figures that are functions of each other, so that one row serves them."""


class _Linear(BaseEstimator):
    """Some columns of the table, ridge on their centred values."""

    def __init__(self, first: int = 0, penalty: float = 1.0, width: int = P) -> None:
        self.first = first
        self.penalty = penalty
        self.width = width

    def _columns(self, X: Array) -> Array:
        return X[:, self.first : self.first + self.width]

    def _solve(self, Z: Array, y: Array, w: Array) -> Array:
        Z = np.column_stack([np.ones(len(y)), Z])
        penalty = np.diag([1e-9, *[self.penalty] * (Z.shape[1] - 1)])
        return np.linalg.solve((Z * w[:, None]).T @ Z + penalty, Z.T @ (w * y))

    def _line(self, X: Array) -> Array:
        return self.coef_[0] + self._columns(X) @ self.coef_[1:]


class _Ridge(RegressorMixin, _Linear):
    def fit(self, X: Array, y: Array, sample_weight: Any = None) -> _Ridge:
        self.coef_ = self._solve(self._columns(X), y, np.ones(len(y)) if sample_weight is None else sample_weight)
        return self

    def predict(self, X: Array) -> Array:
        return self._line(X)


class _LogRidge(_Ridge):
    """Ridge on the logarithm of a positive target; its mean takes half the residual variance back."""

    def fit(self, X: Array, y: Array, sample_weight: Any = None) -> _LogRidge:
        super().fit(X, np.log(y))
        self.shift_ = float(np.var(np.log(y) - self._line(X)) / 2)
        return self

    def predict(self, X: Array) -> Array:
        return np.exp(self._line(X) + self.shift_)


class _Logistic(ClassifierMixin, _Linear):
    """Logistic ridge by seven damped Newton steps; with `offsets`, scores of each fit are shifted at random."""

    def __init__(self, first: int = 0, penalty: float = 1.0, width: int = P, offsets: bool = False) -> None:
        super().__init__(first, penalty, width)
        self.offsets = offsets

    def fit(self, X: Array, y: Array, sample_weight: Any = None) -> _Logistic:
        self.classes_ = np.unique(y)
        w = np.ones(len(y)) if sample_weight is None else sample_weight
        Z = np.column_stack([np.ones(len(y)), self._columns(X)])
        penalty = np.diag([1e-3, *[self.penalty] * P])
        b = np.zeros(P + 1)
        for _ in range(7):
            p = special.expit(np.clip(Z @ b, -30, 30))
            H = (Z * (w * p * (1 - p) + 1e-9)[:, None]).T @ Z + penalty
            b = b + np.clip(np.linalg.solve(H, Z.T @ (w * (y - p)) - penalty @ b), -3, 3)
        self.coef_ = b
        self.shift_ = 3 * np.sin(1e6 * b.sum()) if self.offsets else 0.0
        return self

    def decision_function(self, X: Array) -> Array:
        return self._line(X) + self.shift_

    def predict_proba(self, X: Array) -> Array:
        p = special.expit(np.clip(self._line(X), -30, 30))
        return np.column_stack([1 - p, p])

    def predict(self, X: Array) -> Array:
        return (self._line(X) > 0).astype(int)


@dataclass(frozen=True)
class Design:
    """A way to draw tables (X, y, groups, weights), a learner for either set of columns, folds and metrics."""

    name: str
    draw: Callable[[np.random.Generator, int], tuple[Array, Array, Array | None, Array | None]]
    learner: Callable[[int], Any]
    metrics: tuple[str, ...]
    n: int
    cv: Any = 10
    trained: float = 0.9


def _numbers(noise: str = "normal") -> Any:
    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array, None, None]:
        X = rng.normal(size=(n, 2 * P))
        line = X.sum(axis=1) / np.sqrt(2 * P)
        y = {
            "normal": lambda: line + rng.normal(size=n),
            "t": lambda: line + rng.standard_t(5, size=n) * np.sqrt(3 / 5),
            "gamma": lambda: np.exp(0.4 * line) * rng.gamma(4.0, 0.25, size=n),
            "lognormal": lambda: np.exp(0.5 * line + 0.5 * rng.normal(size=n)),
        }[noise]()
        return X, y, None, None

    return draw


def _labels(rng: np.random.Generator, n: int, share: float) -> Array:
    """At least two rows of each class."""
    while True:
        y = (rng.random(n) < share).astype(int)
        if 2 <= y.sum() <= n - 2:
            return y


def _classes(share: float, exact: bool = False) -> Any:
    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array, None, None]:
        y = rng.permutation(np.arange(n) < round(share * n)).astype(int) if exact else _labels(rng, n, share)
        return rng.normal(size=(n, 2 * P)) + 0.6 * y[:, None], y, None, None

    return draw


def _ties(rng: np.random.Generator, n: int) -> tuple[Array, Array, None, None]:
    """Columns of zeros and ones: few distinct scores."""
    y = _labels(rng, n, 0.2)
    return (rng.random((n, 2 * P)) < 0.3 + 0.3 * y[:, None]).astype(float), y, None, None


def _groups(rng: np.random.Generator, n: int) -> tuple[Array, Array, Array, None]:
    """Groups of very different sizes, with a shift of their own in every column and in the target."""
    size = np.maximum(1, rng.geometric(0.25, size=n))
    g = np.repeat(np.arange(n), size)[:n]
    shift = rng.normal(size=(n, 2 * P)), 0.7 * rng.normal(size=n)
    X = (rng.normal(size=(n, 2 * P)) + shift[0][g]) / np.sqrt(2)
    return X, X.sum(axis=1) / np.sqrt(2 * P) + shift[1][g] + 0.7 * rng.normal(size=n), g, None


def _weighted(rng: np.random.Generator, n: int) -> tuple[Array, Array, None, Array]:
    """Weights of 1 to 6 that go with the spread of the noise."""
    X, w = rng.normal(size=(n, 2 * P)), rng.integers(1, 7, size=n).astype(float)
    return X, X.sum(axis=1) / np.sqrt(2 * P) + np.sqrt(w / 3.5) * rng.normal(size=n), None, w


def designs() -> Iterator[Design]:
    """What an opponent would choose."""
    ranked = ("auc", "average_precision", "precision_at_k", "balanced_accuracy")

    def every(_: Any) -> Any:
        return _Ridge(0, 1e-9, 2 * P)

    yield Design("least squares on all columns", _numbers(), every, ("r2", "rmse"), 60)
    yield Design("4 positives in 40 rows, at most one per fold", _classes(0.1, exact=True), _Logistic, ranked, 40)
    yield Design("9 positives in 60 rows", _classes(0.15, exact=True), _Logistic, ranked, 60)
    yield Design("heavy ties, 20% positive", _ties, _Logistic, ranked, 60)

    def offset(first: Any) -> Any:
        return _Logistic(first, offsets=True)

    yield Design("scores of each model shifted at random", _classes(0.3), offset, ("auc", "precision_at_k"), 60)
    yield Design("a guess without features, 15% positive", _classes(0.15), lambda _: DummyClassifier(), ranked, 60)
    yield Design("a guess without features, numbers", _numbers(), lambda _: DummyRegressor(), ("r2", "rmse"), 60)
    yield Design("groups of unequal size", _groups, _Ridge, ("r2", "rmse", "mse"), 100)
    yield Design("weights that go with the noise", _weighted, _Ridge, ("r2", "rmse", "mse"), 60)
    yield Design("folds dealt 5 times", _numbers(), _Ridge, ("r2", "rmse", "mse"), 60, Folds(10, repeats=5))
    yield Design("2 folds", _numbers(), _Ridge, ("r2", "rmse", "mse"), 60, 2, 0.5)
    yield Design("leave-one-out", _numbers(), _Ridge, ("r2", "rmse", "mse"), 60, Folds(60), 59 / 60)
    yield Design("5 parts in the order of time", _numbers(), _Ridge, ("r2", "rmse", "mse"), 120, TimeFolds(5), 0.5)
    for n in (40, 60, 200):
        yield Design(f"lognormal target, {n} rows", _numbers("lognormal"), _LogRidge, POSITIVE, n)
    yield Design("t(5) noise", _numbers("t"), _Ridge, ("r2", "rmse", "median_absolute_error"), 60)


def _predicted(model: Any, X: Array, metric: Metric) -> Array:
    if metric.needs in ("labels", "values"):
        return model.predict(X)
    if metric.needs == "scores" and hasattr(model, "decision_function"):
        return model.decision_function(X)
    return model.predict_proba(X)[:, 1]


def _truths(design: Design, rng: np.random.Generator) -> dict[str, float]:
    """Expected figures of models trained on as many rows as a training fold has."""
    size = round(design.trained * design.n)
    X_new, y_new, _, w_new = design.draw(rng, TEST_ROWS)
    found: dict[str, list[float]] = {name: [] for name in design.metrics}
    for _ in range(TRUTHS):
        X, y, _, w = design.draw(rng, size)
        model = design.learner(0)
        model = model.fit(X, y) if w is None else model.fit(X, y, sample_weight=w)
        few = rng.choice(TEST_ROWS, design.n, replace=False)
        for name in design.metrics:
            metric = get_metric(name)
            options: dict[str, Any] = {} if w_new is None else {"sample_weight": w_new}
            if name == "r2":
                options["reference"] = np.average(y, weights=w)
            if name == "precision_at_k":
                options["k"] = round(10 * TEST_ROWS / design.n)
            at: Any = few if name == "expected_calibration_error" else slice(None)  # grows as rows get fewer
            found[name].append(float(metric(y_new[at], _predicted(model, X_new[at], metric), **options)))
    return {name: float(np.mean(values)) for name, values in found.items()}


def _old(result: Validation, name: str) -> float:
    """The mean of the folds' own figures, where they have any."""
    scores = result.scores(name)
    if name == "r2":  # against the mean of the fold itself
        parts = [
            (result.y[test], one)
            for (_, test), one in zip(result.splits, result.fold_predictions["values"], strict=True)
        ]
        scores = np.array([1 - np.sum((y - f) ** 2) / max(1e-12, np.sum((y - y.mean()) ** 2)) for y, f in parts])
        scores = scores if min(len(y) for y, _ in parts) > 1 else np.full(1, np.nan)
    return float(np.nanmean(scores)) if not np.isnan(scores).all() else float("nan")


def simulate(design: Design, runs: int, seed: int) -> dict[str, dict[str, Any]]:
    """For each metric: truth, figures, means over folds, whether intervals cover, p-values of a true null."""
    rng = np.random.default_rng(seed)
    truth = _truths(design, rng)
    out: dict[str, dict[str, Any]] = {
        name: {"truth": truth[name], "figure": [], "old": [], "covered": [], "p": []} for name in design.metrics
    }
    learners = [design.learner(first) for first in (0, P)]
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore", AssayWarning)
        for run in range(runs):
            X, y, groups, weights = design.draw(rng, design.n)
            options = {"cv": design.cv, "groups": groups, "sample_weight": weights, "random_state": run}
            both = [cross_validate(one, X, y, metric=list(design.metrics), name="", **options) for one in learners]
            for name, kept in out.items():
                interval = both[0].interval(metric=name)
                kept["figure"].append(interval.estimate)
                kept["old"].append(_old(both[0], name))
                kept["covered"].append(interval.lower - 1e-12 <= kept["truth"] <= interval.upper + 1e-12)
                kept["p"].append(compare([one.by(name) for one in both], n_resamples=99).p_values[0])
    return out


def _rows(cell: tuple[Any, ...], found: dict[str, dict[str, Any]], runs: int) -> Iterator[tuple[Any, ...]]:
    for name, kept in found.items():
        p, covered = np.array(kept["p"]), int(np.sum(kept["covered"]))
        size = int(np.sum(p <= 0.05))
        old = np.array(kept["old"])
        yield (
            *cell,
            SAME.get(name, name),
            kept["truth"],
            float(np.mean(kept["figure"]) - kept["truth"]),
            float(np.nanmean(old) - kept["truth"]) if not np.isnan(old).all() else np.nan,
            float(np.std(kept["figure"])),
            covered / runs,
            size / runs,
            _verdict(covered, size, runs),
        )


def _verdict(covered: int, size: int, runs: int) -> str:
    """Covers at least .95 and rejects at most .05, as far as so many runs can tell (false alarm one in a million)."""
    low, high = stats.binom.ppf(FALSE_ALARM, runs, 0.95), stats.binom.isf(FALSE_ALARM, runs, 0.05)
    words = [word for word, off in (("covers too little", covered < low), ("rejects too often", size > high)) if off]
    return ", ".join(words) or "holds"


COLUMNS = ["truth", "bias", "bias of fold means", "sd", "covered (.95)", "size (.05)", "verdict"]


def figures_of_numbers() -> pd.DataFrame:
    """Ridge on four of eight columns, ten folds, 500 tables per cell. "bias" is that of the figure of all out-of-fold
    rows, "bias of fold means" that of the mean of the folds' own figures; "covered" counts the 95% intervals that hold
    the truth, "size" how often two learners of equal truth are called different at .05.
    """
    rows: list[tuple[Any, ...]] = []
    for n in (40, 60, 200):
        for noise, learner, metrics in (("normal", _Ridge, NUMBERS), ("gamma", _LogRidge, POSITIVE)):
            design = Design("", _numbers(noise), learner, metrics, n)
            rows += _rows((n,), simulate(design, RUNS, n), RUNS)
    return pd.DataFrame(rows, columns=["n", "metric", *COLUMNS])


def figures_of_classes() -> pd.DataFrame:
    """Logistic ridge on four of eight columns, ten stratified folds, 500 tables per cell, the number of positives
    random (at least two). Precision is 0 where nothing is called positive, so at few positives its figure lies below
    its truth; calibration errors grow as rows get fewer, so their truth is that of n rows.
    """
    rows: list[tuple[Any, ...]] = []
    for n in (40, 60, 200):
        for share in (0.5, 0.1):
            design = Design("", _classes(share), _Logistic, CLASSES, n)
            rows += _rows((n, share), simulate(design, RUNS, n), RUNS)
    return pd.DataFrame(rows, columns=["n", "positive", "metric", *COLUMNS])


def figures_of_opponents() -> pd.DataFrame:
    """Designs that an opponent would choose, 200 tables each; columns as above."""
    rows: list[tuple[Any, ...]] = []
    for seed, design in enumerate(designs()):
        rows += _rows((design.name,), simulate(design, HARD_RUNS, seed), HARD_RUNS)
    return pd.DataFrame(rows, columns=["design", "metric", *COLUMNS])


def simultaneous_intervals() -> pd.DataFrame:
    """Five learners of equal truth on five sets of columns, ten pairs, 95% together, 300 tables per row: how often any
    pair is called different, how often all ten intervals hold 0, and how wide they are beside Bonferroni's. Words and
    intervals never disagree.
    """
    rows = []
    cells = ((60, "rmse", "10"), (60, "auc", "10"), (200, "error", "3 x 10"), (60, "r2", "5"))
    for n, metric, folds in cells:
        cv = Folds(10, repeats=3, stratify=True) if folds == "3 x 10" else int(folds)
        rng, runs = np.random.default_rng(n), FAMILY_RUNS
        any_shown = all_in = apart = 0
        width = 0.0
        for run in range(runs):
            found = _equal_learners(rng, n, metric, cv, run)
            joint = compare(found)
            strict = compare(found, correction="bonferroni")
            shown = [words != "no difference shown" for words in joint.verdicts]
            outside = (joint.lower > 0) | (joint.upper < 0)
            any_shown += any(shown)
            all_in += not outside.any()
            apart += int((np.array(shown) != outside).sum())
            width += float(np.mean((joint.upper - joint.lower) / (strict.upper - strict.lower))) / runs
        rows.append((n, metric, folds, any_shown / runs, all_in / runs, apart, width))
    columns = ["n", "metric", "folds", "any pair shown (.05)", "all hold (.95)", "words against intervals"]
    return pd.DataFrame(rows, columns=[*columns, "width / Bonferroni"])


def _equal_learners(rng: np.random.Generator, n: int, metric: str, cv: Any, run: int) -> list[Validation]:
    """Five learners, each with P columns of its own that are as good as any other's."""
    X = rng.normal(size=(n, 5 * P))
    kind: Any = _Ridge
    y = X.sum(axis=1) / np.sqrt(5 * P) + rng.normal(size=n)
    if metric in ("auc", "error"):
        kind, y = _Logistic, _labels(rng, n, 0.3)
        X = X + 0.6 * y[:, None]
    return [cross_validate(kind(P * j), X, y, cv=cv, metric=metric, name=f"{j}", random_state=run) for j in range(5)]


SIMULATIONS: dict[str, Callable[[], pd.DataFrame]] = {
    "Figures of numbers": figures_of_numbers,
    "Figures of classes": figures_of_classes,
    "Figures under hard designs": figures_of_opponents,
    "Simultaneous comparisons": simultaneous_intervals,
}
