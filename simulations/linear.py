"""What the linear family promises, measured."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from assay.linear import SIS, IterativeSIS, LassoCV, LinearRegression, LocalRegression

__all__ = ["SIMULATIONS"]

RUNS = 2_000


def _share(hits: list[bool]) -> dict[str, float]:
    """The share of hits and the half-width of its 99.9% binomial range."""
    rate = float(np.mean(hits))
    return {"measured": rate, "plus_minus": 3.29 * float(np.sqrt(max(rate * (1 - rate), 1e-4) / len(hits)))}


def least_squares_coverage() -> pd.DataFrame:
    """A nominal 95% interval for a slope covers it in 95% of samples; under unequal variances only HC3 comes near."""
    rng = np.random.default_rng(20)
    rows = []
    for n in (20, 50, 200):
        for noise in ("equal", "grows with x"):
            for kind in ("classical", "HC0", "HC3"):
                hits = []
                for _ in range(RUNS):
                    X = rng.standard_normal((n, 3))
                    scale = 1.0 if noise == "equal" else np.exp(0.7 * X[:, 0])
                    y = 1.0 + X @ [1.0, 0.5, 0.0] + scale * rng.standard_normal(n)
                    table = LinearRegression(covariance=kind).fit(X, y).summary().table
                    hits.append(bool(table.loc["x0", "lower"] <= 1.0 <= table.loc["x0", "upper"]))
                rows.append({"n": n, "noise": noise, "covariance": kind, "claimed": 0.95, **_share(hits)})
    return pd.DataFrame(rows)


def prediction_coverage() -> pd.DataFrame:
    """A 90% prediction interval covers a new observation in 90% of cases, a confidence interval the mean at x."""
    rng = np.random.default_rng(21)
    rows = []
    for n in (15, 60):
        new, mean = [], []
        for _ in range(RUNS):
            X, x = rng.standard_normal((n, 4)), rng.standard_normal((1, 4))
            beta = np.array([1.0, -1.0, 0.5, 0.0])
            model = LinearRegression().fit(X, X @ beta + rng.standard_normal(n))
            truth = float((x @ beta)[0])
            for hits, kind, value in (
                (new, "prediction", truth + rng.standard_normal()),
                (mean, "confidence", truth),
            ):
                limits = model.predict(x, interval=kind, level=0.9)
                hits.append(bool(limits["lower"].iloc[0] <= value <= limits["upper"].iloc[0]))
        rows.append({"n": n, "interval": "prediction", "claimed": 0.9, **_share(new)})
        rows.append({"n": n, "interval": "confidence", "claimed": 0.9, **_share(mean)})
    return pd.DataFrame(rows)


def cv_interval_coverage() -> pd.DataFrame:
    """How often the naive t interval over ten folds covers the expected error of a fit on these rows: below its 95%."""
    rng = np.random.default_rng(22)
    rows = []
    for n, p in ((50, 5), (100, 20), (500, 20)):
        hits = []
        for _ in range(RUNS // 2):
            X = rng.standard_normal((n, p))
            beta = np.r_[np.ones(3), np.zeros(p - 3)]
            y = X @ beta + rng.standard_normal(n)
            model = LinearRegression().fit(X, y)
            # For standard normal x the error of this fit has a closed form: 1 + |b - beta|^2 + (intercept)^2.
            truth = 1.0 + float(np.sum((model.coef_ - beta) ** 2) + model.intercept_**2)
            hits.append(truth in model.cv_error(X, y, cv=10))
        rows.append({"n": n, "p": p, "claimed": 0.95, **_share(hits)})
    return pd.DataFrame(rows)


def local_band_coverage() -> pd.DataFrame:
    """The pointwise 95% band of a local regression covers the curve where its bias is small, and less at a peak."""
    rng = np.random.default_rng(23)
    at = np.array([[0.25], [0.5], [0.75]])
    truth = np.sin(2 * np.pi * at[:, 0])
    rows = []
    for tau in (0.03, 0.06, 0.12):
        hits: list[list[bool]] = [[], [], []]
        for _ in range(RUNS // 2):
            x = rng.uniform(size=(200, 1))
            y = np.sin(2 * np.pi * x[:, 0]) + 0.3 * rng.standard_normal(200)
            band = LocalRegression(tau=tau).fit(x, y).predict(at, interval="confidence")
            for j in range(3):
                hits[j].append(bool(band["lower"].iloc[j] <= truth[j] <= band["upper"].iloc[j]))
        for j, place in enumerate(("peak", "straight part", "trough")):
            rows.append({"tau": tau, "place": place, "claimed": 0.95, **_share(hits[j])})
    return pd.DataFrame(rows)


def one_se_against_min() -> pd.DataFrame:
    """The one-standard-error rule keeps fewer columns than the minimum, more of them true, at little cost in error."""
    rng = np.random.default_rng(24)
    rows = []
    for rule in ("min", "1se"):
        sizes, true, errors = [], [], []
        for _ in range(200):
            X = rng.standard_normal((150, 50))
            y = X[:, :5] @ np.full(5, 0.5) + rng.standard_normal(150)
            model = LassoCV(cv=10, rule=rule).fit(X, y)
            kept = np.flatnonzero(model.coef_)
            sizes.append(kept.size)
            true.append(float((kept < 5).mean()) if kept.size else 1.0)
            beta = np.r_[np.full(5, 0.5), np.zeros(45)]
            errors.append(1.0 + float(np.sum((model.coef_ - beta) ** 2) + model.intercept_**2))
        row = {"rule": rule, "columns kept": float(np.mean(sizes)), "share of them true": float(np.mean(true))}
        rows.append({**row, "expected squared error": float(np.mean(errors))})
    return pd.DataFrame(rows)


def sure_screening() -> pd.DataFrame:
    """Screening keeps every true column more often as n grows; iterating helps when one of them is hidden."""
    rng = np.random.default_rng(25)
    rows = []
    for n in (50, 100, 200):
        for design in ("independent", "one hidden"):
            found: dict[str, list[bool]] = {"SIS": [], "IterativeSIS": []}
            for _ in range(50):
                X = rng.standard_normal((n, 1_000))
                beta = np.zeros(1_000)
                beta[:3] = 2.0
                if design == "one hidden":
                    # Fan and Lv's example: x3 is correlated with the others so that its own correlation with y is nil.
                    X = np.sqrt(0.5) * X + np.sqrt(0.5) * rng.standard_normal((n, 1))
                    X[:, 3] = X[:, :3].sum(axis=1) / 3 + 0.5 * rng.standard_normal(n)
                    beta[3] = -2.0 * np.cov(X[:, 3], X[:, :3].sum(axis=1))[0, 1] / X[:, 3].var()
                y = X @ beta + rng.standard_normal(n)
                true = set(np.flatnonzero(beta).tolist())
                found["SIS"].append(true <= set(np.flatnonzero(SIS().fit(X, y).support_).tolist()))
                found["IterativeSIS"].append(true <= set(np.flatnonzero(IterativeSIS().fit(X, y).support_).tolist()))
            for method, hits in found.items():
                rows.append({"n": n, "design": design, "method": method, "all true kept": float(np.mean(hits))})
    return pd.DataFrame(rows)


SIMULATIONS: dict[str, Callable[[], pd.DataFrame]] = {
    "Coverage of least-squares intervals": least_squares_coverage,
    "Coverage of prediction and confidence intervals": prediction_coverage,
    "Coverage of the naive cross-validation interval": cv_interval_coverage,
    "Coverage of the local regression band": local_band_coverage,
    "One standard error against the minimum": one_se_against_min,
    "Sure screening": sure_screening,
}
