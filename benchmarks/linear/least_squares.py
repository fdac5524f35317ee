"""Least squares with the full table of inference, beside statsmodels (with it) and scikit-learn (without)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.case import Case

__all__ = ["CASES"]

Data = tuple[np.ndarray, np.ndarray]


def tall_table(n: int = 200_000, p: int = 50) -> Data:
    """Correlated columns with different means and scales, and a noisy linear target."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p)) + 0.5 * rng.normal(size=(n, 1))
    X = X * rng.uniform(0.1, 10.0, p) + rng.uniform(-5.0, 5.0, p)
    return X, X @ rng.normal(size=p) + 3.0 * rng.normal(size=n)


def hard_polynomial() -> Data:
    """A raw polynomial of degree ten on [-9, -3], 82 points: the shape of NIST's Filip problem."""
    rng = np.random.default_rng(0)
    x = np.round(np.sort(rng.uniform(-8.8, -3.1, 82)), 9)
    y = np.round(0.8 + 0.05 * np.sin(3 * x) + 0.003 * rng.normal(size=82), 4)
    return x[:, None] ** np.arange(1, 11), y


def ours(data: Data) -> np.ndarray:
    from assay.linear import LinearRegression

    model = LinearRegression().fit(*data)
    model.summary()
    return np.r_[model.intercept_, model.coef_]


def statsmodels(data: Data) -> np.ndarray:
    import statsmodels.api as sm

    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it gives up on the hard polynomial, and says so
        fit = sm.OLS(y, sm.add_constant(X)).fit()
    _ = fit.bse, fit.pvalues, fit.conf_int(), fit.rsquared_adj, fit.f_pvalue, fit.aic
    return fit.params


def scikit_learn(data: Data) -> np.ndarray:
    from sklearn.linear_model import LinearRegression

    model = LinearRegression().fit(*data)
    return np.r_[model.intercept_, model.coef_]


def rss_per_row(coef: np.ndarray, data: Data) -> float:
    X, y = data
    return float(np.square(y - coef[0] - X @ coef[1:]).mean())


def relative_error(coef: np.ndarray, data: Data) -> float:
    """Largest relative error of a coefficient, against exact rational arithmetic."""
    from tests.naive.numerics import exact_least_squares

    truth = np.array([float(v) for v in exact_least_squares(*data)[0]])
    return float(np.max(np.abs(coef / truth - 1.0)))


def ten_fold_ours(data: Data) -> float:
    from assay.linear import LinearRegression

    return LinearRegression().cv_error(*data, cv=10).estimate


def ten_fold_scikit_learn(data: Data) -> float:
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import cross_val_score

    return float(-cross_val_score(LinearRegression(), *data, cv=10, scoring="neg_mean_squared_error").mean())


def same_number(outcome: float, data: Any) -> float:
    return outcome


CASES = [
    Case(
        "OLS with full summary, 200,000 x 50",
        data=tall_table,
        ours=ours,
        peers={"statsmodels OLS + inference": statsmodels, "scikit-learn (no inference)": scikit_learn},
        quality=rss_per_row,
        quality_name="RSS/n",
        goals={"statsmodels OLS + inference": 3.0, "scikit-learn (no inference)": 1.0},
        slack=1e-9,
        cold=True,
    ),
    Case(
        "OLS, 10-fold CV error, 50,000 x 50",
        data=lambda: tall_table(50_000),
        ours=ten_fold_ours,
        peers={"scikit-learn cross_val_score": ten_fold_scikit_learn},
        quality=same_number,
        quality_name="CV MSE",
        slack=1e-8,
        repeats=3,
    ),
    Case(
        "OLS, polynomial of degree 10 (Filip-like)",
        data=hard_polynomial,
        ours=ours,
        peers={"statsmodels OLS + inference": statsmodels, "scikit-learn (no inference)": scikit_learn},
        quality=relative_error,
        quality_name="largest relative error of a coefficient",
    ),
]
