"""Do the intervals of evaluation cover what they say?"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import linalg, special, stats

from assay.evaluation import bootstrap_band, bootstrap_error, conformal, cross_validate, permutation_importance
from assay.resampling import Folds

__all__ = ["SIMULATIONS"]

RUNS = 400
FALSE_ALARM = 1e-6
METHODS = ("naive", "corrected_t", "nested")


class _LeastSquares:
    """Least squares and nothing else: a quick learner for hundreds of thousands of fits."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> _LeastSquares:
        centre, mean = X.mean(axis=0), y.mean()
        Z = X - centre
        self.coef_ = linalg.solve(Z.T @ Z, Z.T @ (y - mean), assume_a="pos", check_finite=False)
        self.intercept_ = float(mean - centre @ self.coef_)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X @ self.coef_ + self.intercept_


class _Sign(_LeastSquares):
    """Class 1 where a least-squares fit to -1 and 1 lies above zero."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> _Sign:
        super().fit(X, 2.0 * y - 1.0)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return (super().predict(X) > 0).astype(int)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """What makes it a classifier."""
        p = special.expit(super().predict(X))
        return np.column_stack([1 - p, p])


def _verdict(count: int, runs: int, rate: float) -> str:
    low, high = stats.binom.interval(1 - FALSE_ALARM, runs, rate)
    return "below" if count < low else "above" if count > high else "as claimed"


def _linear(rng: np.random.Generator, n: int, p: int, skew: bool) -> tuple[np.ndarray, np.ndarray, float]:
    """X, y and the variance of the noise; y depends on all columns alike."""
    X = rng.normal(size=(n, p))
    noise = rng.exponential(1.0, n) - 1.0 if skew else rng.normal(size=n)
    return X, X.sum(axis=1) / np.sqrt(p) + noise, 1.0


def _truth(model: _LeastSquares, p: int) -> float:
    """Expected squared error of a fitted linear model on new rows: noise + |b - beta|^2 + intercept^2."""
    away = model.coef_ - 1.0 / np.sqrt(p)
    return 1.0 + float(away @ away) + model.intercept_**2


def coverage_of_validation_intervals() -> pd.DataFrame:
    """Nominal .90 and .95 intervals of the mean squared error of least squares from 10 folds (nested: 10 partitions),
    400 tables per row. "this model" is the error of the model fitted to all rows, "average" the mean error over
    training sets of that size.
    """
    rows = []
    for n, p, skew in (
        (40, 10, False),
        (40, 20, False),
        (100, 20, False),
        (100, 50, False),
        (100, 5, True),
        (400, 20, False),
    ):
        rng = np.random.default_rng(n + p)
        hits = {(m, level, what): 0 for m in METHODS for level in (0.9, 0.95) for what in ("this model", "average")}
        width = dict.fromkeys(METHODS, 0.0)
        average = 1.0 + _excess(n, p)
        for run in range(RUNS):
            X, y, _ = _linear(rng, n, p, skew)
            found = cross_validate(_LeastSquares(), X, y, cv=10, interval="nested", random_state=run)
            truth = {"this model": _truth(_LeastSquares().fit(X, y), p), "average": average}
            for m in METHODS:
                for level in (0.9, 0.95):
                    interval = found.interval(level, m)
                    for what, value in truth.items():
                        hits[m, level, what] += interval.lower <= value <= interval.upper
                width[m] += (found.interval(0.9, m).upper - found.interval(0.9, m).lower) / RUNS
        data = f"n = {n}, p = {p}" + (", skewed noise" if skew else "")
        for m in METHODS:
            shares = [hits[m, level, what] for what in ("this model", "average") for level in (0.9, 0.95)]
            ratio = width[m] / width["naive"]
            rows.append((data, m, *(share / RUNS for share in shares), ratio, _verdict(shares[0], RUNS, 0.9)))
    columns = ["data", "interval", "this model .90", "this model .95", "average .90", "average .95"]
    return pd.DataFrame(rows, columns=[*columns, "width / naive", "verdict (this model, .90)"])


def _excess(n: int, p: int) -> float:
    """Mean of |b - beta|^2 + intercept^2 of least squares on normal columns: p/(n-p-2) and its intercept's share."""
    return p / (n - p - 2) + (1 + p / (n - p - 2)) / n


def coverage_of_classification_intervals() -> pd.DataFrame:
    """Nominal .90 intervals of the error rate of a least-squares rule for two normal classes, 400 tables per row: the
    share that covers the error of the rule fitted to all rows.
    """
    rows = []
    for n, p in ((60, 20), (100, 20), (200, 10)):
        rng = np.random.default_rng(n)
        hits = dict.fromkeys(METHODS, 0)
        for run in range(RUNS):
            X, y = _classes(rng, n, p)
            found = cross_validate(_Sign(), X, y, cv=10, metric="error", interval="nested", random_state=run)
            truth = _error_of_sign(_Sign().fit(X, y), p)
            for m in METHODS:
                interval = found.interval(0.9, m)
                hits[m] += interval.lower <= truth <= interval.upper
        rows += [(f"n = {n}, p = {p}", m, k / RUNS, _verdict(k, RUNS, 0.9)) for m, k in hits.items()]
    return pd.DataFrame(rows, columns=["data", "interval", "covered (nominal .90)", "verdict"])


def repeats_and_width() -> pd.DataFrame:
    """The corrected t interval of 10 folds, dealt 1, 3 or 10 times (n = 100, p = 20, 400 tables): coverage of the
    average error and mean width. Repeats narrow it, down to the part that overlapping training sets leave.
    """
    rows = []
    for repeats in (1, 3, 10):
        rng = np.random.default_rng(7)
        average, hits, width = 1.0 + _excess(90, 20), 0, 0.0
        for run in range(RUNS):
            X, y, _ = _linear(rng, 100, 20, skew=False)
            interval = cross_validate(_LeastSquares(), X, y, cv=Folds(10, repeats=repeats, random_state=run)).interval(
                0.95
            )
            hits += interval.lower <= average <= interval.upper
            width += (interval.upper - interval.lower) / RUNS
        rows.append((repeats, hits / RUNS, width))
    return pd.DataFrame(rows, columns=["repeats", "covered (nominal .95)", "mean width"])


def coverage_of_bootstrap_error() -> pd.DataFrame:
    """Nominal .90 and .95 intervals of the expected squared error of least squares and of the error rate of a linear
    rule (truth: the mean over 4,000 training sets), 400 tables of 100 resamples per row.
    """
    rows = []
    for learner, n, p in ((_LeastSquares, 30, 3), (_LeastSquares, 100, 20), (_Sign, 40, 5), (_Sign, 100, 20)):
        rng = np.random.default_rng(n + p)
        truth = 1.0 + _excess(n, p) if learner is _LeastSquares else _mean_error_of_sign(rng, n, p)
        hits = {(method, level): 0 for method in ("632+", "632", "oob") for level in (0.9, 0.95)}
        for run in range(RUNS):
            X, y = _linear(rng, n, p, skew=False)[:2] if learner is _LeastSquares else _classes(rng, n, p)
            for method in ("632+", "632", "oob"):
                found = bootstrap_error(learner(), X, y, method=method, n_resamples=100, random_state=run)
                for level in (0.9, 0.95):
                    hits[method, level] += truth in found.interval(level)
        what = "squared error" if learner is _LeastSquares else "error rate"
        for method in ("632+", "632", "oob"):
            shares = [hits[method, level] / RUNS for level in (0.9, 0.95)]
            rows.append((f"{what}, n = {n}, p = {p}", method, *shares, _verdict(hits[method, 0.9], RUNS, 0.9)))
    return pd.DataFrame(rows, columns=["data", "method", "covered .90", "covered .95", "verdict (.90)"])


def _classes(rng: np.random.Generator, n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(n) % 2
    return rng.normal(size=(n, p)) + (y[:, None] - 0.5) * 1.5 / np.sqrt(p), y


def _error_of_sign(rule: _Sign, p: int) -> float:
    length, shift = float(np.linalg.norm(rule.coef_)), 0.75 / np.sqrt(p) * float(rule.coef_.sum())
    return float(special.ndtr((np.array([-1, 1]) * rule.intercept_ - shift) / length).mean())


def _mean_error_of_sign(rng: np.random.Generator, n: int, p: int) -> float:
    return float(np.mean([_error_of_sign(_Sign().fit(*_classes(rng, n, p)), p) for _ in range(4_000)]))


def coverage_of_bands() -> pd.DataFrame:
    """Bootstrap bands of a straight line at 5 points, 400 tables of 199 resamples per row: the mean share of points
    covered (pointwise band) and the share of tables with all of them covered (simultaneous band).
    """
    rows = []
    grid = np.linspace(0, 1, 5)[:, None]
    for n, noise in ((20, "normal"), (100, "normal"), (100, "exponential")):
        for resample in ("pairs", "residuals"):
            rng = np.random.default_rng(n)
            hits = {(kind, level): 0.0 for kind in ("pointwise", "simultaneous") for level in (0.9, 0.95)}
            for run in range(RUNS):
                x = rng.random((n, 1))
                e = rng.normal(size=n) if noise == "normal" else rng.exponential(1.0, n) - 1
                band = bootstrap_band(
                    _LeastSquares(), x, 2 * x[:, 0] + e, grid, n_resamples=199, resample=resample, random_state=run
                )
                for kind, level in hits:
                    low, high = band.limits(kind, level)
                    inside = (low <= 2 * grid[:, 0]) & (2 * grid[:, 0] <= high)
                    hits[kind, level] += inside.mean() if kind == "pointwise" else inside.all()
            rows.append((f"n = {n}, {noise} noise", resample, *(count / RUNS for count in hits.values())))
    columns = ["data", "resampled", "pointwise .90", "pointwise .95", "simultaneous .90", "simultaneous .95"]
    return pd.DataFrame(rows, columns=columns)


def coverage_of_conformal_prediction() -> pd.DataFrame:
    """Mean coverage of 200 new rows per table by prediction intervals of least squares, 400 tables per row; "split"
    and "cv+" carry a proof (at least the level, and at least twice the level minus one); "cv" has none.
    """
    rows = []
    for n, p, skew in ((40, 5, False), (40, 15, False), (200, 5, True)):
        for method in ("split", "cv+", "cv"):
            rng = np.random.default_rng(n + p)
            shares = {0.9: 0.0, 0.8: 0.0}
            for run in range(RUNS):
                X, y, _ = _linear(rng, n + 200, p, skew)
                made = conformal(_LeastSquares(), X[:n], y[:n], method=method, random_state=run)
                for level in shares:
                    found = made.interval(X[n:], level)
                    shares[level] += float(np.mean((found.lower <= y[n:]) & (y[n:] <= found.upper))) / RUNS
            rows.append((f"n = {n}, p = {p}" + (", skewed noise" if skew else ""), method, shares[0.8], shares[0.9]))
    return pd.DataFrame(rows, columns=["data", "method", "covered (level .80)", "covered (level .90)"])


def coverage_of_importance() -> pd.DataFrame:
    """Nominal .90 and .95 intervals of permutation importance (squared error, 10 repeats) of a fixed linear model. The
    truth is 2 b_j beta_j for independent columns, 400 tables per row; the last column is of no use.
    """
    rows = []
    beta, b = np.array([2.0, 1.0, 0.3, 0.0]), np.array([1.8, 1.1, 0.3, 0.1])
    for n in (50, 200):
        rng = np.random.default_rng(n)
        hits = {level: np.zeros(4) for level in (0.9, 0.95)}
        for run in range(RUNS):
            X = rng.normal(size=(n, 4))
            y = X @ beta + rng.normal(size=n)
            model = _LeastSquares()
            model.coef_, model.intercept_ = b, 0.0
            for level in hits:
                found = permutation_importance(model, X, y, level=level, random_state=run)
                table = found.to_frame().loc[[f"x{j}" for j in range(4)]]
                hits[level] += ((table["lower"] <= 2 * b * beta) & (2 * b * beta <= table["upper"])).to_numpy()
        rows += [(n, f"2 x {b[j]:g} x {beta[j]:g}", hits[0.9][j] / RUNS, hits[0.95][j] / RUNS) for j in range(4)]
    return pd.DataFrame(rows, columns=["n", "importance", "covered .90", "covered .95"])


SIMULATIONS = {
    "Coverage of cross-validation intervals": coverage_of_validation_intervals,
    "Coverage for classification": coverage_of_classification_intervals,
    "Repeats": repeats_and_width,
    "Coverage of bootstrap error estimates": coverage_of_bootstrap_error,
    "Coverage of bootstrap bands": coverage_of_bands,
    "Coverage of conformal prediction": coverage_of_conformal_prediction,
    "Coverage of permutation importance": coverage_of_importance,
}
