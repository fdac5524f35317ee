"""Type-I error of the tests, coverage of the intervals, and the error rates of the corrections."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy import stats

from assay.inference import (
    adjust_pvalues,
    binomial_test,
    chernoff_interval,
    empirical_bernstein_interval,
    hoeffding_interval,
    mean_interval,
    proportion_interval,
    t_test,
    variance_interval,
    z_test,
)

__all__ = ["SIMULATIONS"]

RUNS = 10_000
FALSE_ALARM = 1e-6


def _verdict(count: int, runs: int, rate: float) -> str:
    low, high = stats.binom.interval(1 - FALSE_ALARM, runs, rate)
    return "below" if count < low else "above" if count > high else "as claimed"


def _draws(rng: np.random.Generator, shape: str, size: tuple[int, int]) -> tuple[np.ndarray, float]:
    """Samples and their true mean."""
    if shape == "normal":
        return rng.normal(0.0, 1.0, size), 0.0
    if shape == "uniform":
        return rng.random(size), 0.5
    if shape == "exponential":
        return rng.exponential(1.0, size), 1.0
    return rng.lognormal(0.0, 1.0, size), float(np.exp(0.5))


def type_one_error() -> pd.DataFrame:
    """Over 10,000 true nulls each test rejects at its level when the data are normal (exactly for t and known
    sigma, about for Welch; the binomial test never more often, its counts being whole). Skew, and the z-test with the
    sample's own spread at small n, break it: those rows show by how much. "as claimed": binomially consistent
    with the level, false alarm one in a million.
    """
    rng = np.random.default_rng(0)
    rows = []

    def record(test: str, data: str, n: str, p: np.ndarray) -> None:
        for alpha in (0.05, 0.01):
            count = int(np.sum(p <= alpha))
            rows.append((test, data, n, alpha, count / p.size, _verdict(count, p.size, alpha)))

    for n in (5, 20, 100):
        for shape in ("normal", "exponential", "lognormal"):
            x, mean = _draws(rng, shape, (n, RUNS))
            y, _ = _draws(rng, shape, (n, RUNS))
            record("t, one sample", shape, f"{n}", t_test(x, popmean=mean).p_value)
            record("t, paired", shape, f"{n}", t_test(x, y, paired=True).p_value)
            record("t, pooled", shape, f"{n} + {n}", t_test(x, y, equal_var=True).p_value)
            record("z, sample's spread", shape, f"{n}", z_test(x, popmean=mean).p_value)
    for n1, n2, ratio in ((10, 10, 1.0), (10, 40, 3.0), (40, 10, 3.0)):
        x, y = rng.normal(0, ratio, (n1, RUNS)), rng.normal(0, 1, (n2, RUNS))
        words = f"normal, sd ratio {ratio:g}"
        record("t, Welch", words, f"{n1} + {n2}", t_test(x, y).p_value)
        record("t, pooled", words, f"{n1} + {n2}", t_test(x, y, equal_var=True).p_value)
    record("z, known sigma", "normal", "5", z_test(rng.normal(0, 2, (5, RUNS)), sigma=2.0).p_value)
    for n, p in ((10, 0.5), (30, 0.1), (200, 0.3)):
        record("binomial", f"p = {p:g}", f"{n}", binomial_test(rng.binomial(n, p, RUNS), n, p).p_value)
    return pd.DataFrame(rows, columns=["test", "data", "n", "level", "rejected", "verdict"])


def coverage_of_means() -> pd.DataFrame:
    """The t interval covers at its level for normal data at every n, nearly so for uniform, and falls short under skew
    until n is large; the variance's interval leans on normality at every n. 10,000 samples per row.
    """
    rng = np.random.default_rng(1)
    rows = []
    variances = {"normal": 1.0, "uniform": 1 / 12, "exponential": 1.0, "lognormal": (np.e - 1) * np.e}
    for shape in variances:
        for n in (5, 20, 100):
            x, mean = _draws(rng, shape, (n, RUNS))
            for level in (0.9, 0.95):
                for name, interval, truth in (
                    ("mean, t", mean_interval(x, level=level), mean),
                    ("variance, chi-square", variance_interval(x, level=level), variances[shape]),
                ):
                    inside = int(np.sum((interval.lower <= truth) & (truth <= interval.upper)))
                    rows.append((name, shape, n, level, inside / RUNS, _verdict(inside, RUNS, level)))
    return pd.DataFrame(rows, columns=["interval", "data", "n", "level", "covered", "verdict"])


def coverage_of_proportions() -> pd.DataFrame:
    """Exact coverage (a sum over all counts, nothing is simulated) of nominal 95% intervals for a proportion: exact,
    Chernoff's and Hoeffding's never fall below it, Wilson's and Agresti-Coull's stay near it, Wald's does not.
    """
    rows = []
    makers: dict[str, Callable] = {
        name: (lambda k, n, name=name: proportion_interval(k, n, method=name))
        for name in ("exact", "wilson", "agresti_coull", "wald", "hoeffding")
    }
    makers["chernoff"] = chernoff_interval
    for n in (10, 30, 100, 1000):
        k = np.arange(n + 1)
        grid = np.linspace(0.01, 0.99, 197)
        for name, make in makers.items():
            interval = make(k, n)
            mass = stats.binom.pmf(k[:, None], n, grid)
            inside = (interval.lower[:, None] <= grid) & (grid <= interval.upper[:, None])
            covered = (mass * inside).sum(axis=0)
            width = float(((interval.upper - interval.lower)[:, None] * mass).sum(axis=0).mean())
            at_nine = float(covered[np.argmin(np.abs(grid - 0.9))])
            rows.append((name, n, at_nine, float(covered.min()), float(covered.mean()), width))
    columns = ["interval", "n", "covers p = .9", "least", "mean over p", "mean length"]
    return pd.DataFrame(rows, columns=columns)


def coverage_of_bounds() -> pd.DataFrame:
    """Intervals from tail bounds cover at least their level at any n and for any values in [0, 1]; the empirical
    Bernstein interval is the shorter one when the values vary little. 10,000 samples per row.
    """
    rng = np.random.default_rng(2)
    rows = []
    for shape, (a, b) in {"uniform": (1, 1), "calm": (50, 50), "rare": (0.02, 1.98), "skewed": (0.2, 5)}.items():
        for n in (10, 100, 1000):
            x = rng.beta(a, b, (n, RUNS // 5 if n == 1000 else RUNS))
            for name, make in (
                ("Hoeffding", hoeffding_interval),
                ("empirical Bernstein", empirical_bernstein_interval),
            ):
                interval = make(x, 0, 1, 0.95)
                inside = (interval.lower <= a / (a + b)) & (a / (a + b) <= interval.upper)
                rows.append((name, shape, n, float(inside.mean()), float((interval.upper - interval.lower).mean())))
    return pd.DataFrame(rows, columns=["interval", "data", "n", "covered (nominal .95)", "mean length"])


def error_rates_of_corrections() -> pd.DataFrame:
    """100 tests, 20 of them of a true effect, at alpha = .05: family-wise error and false discovery rate stay below
    .05 where the correction claims it, under independence, positive (one shared factor) and negative dependence
    (opposite pairs). 2,000 families per row.
    """
    rng = np.random.default_rng(3)
    m, signals, families = 100, 20, 2_000
    effect = np.zeros(m)
    effect[rng.choice(m, signals, replace=False)] = 3.0
    null = effect == 0
    rows = []
    for dependence in ("independent", "positive", "negative"):
        noise = rng.normal(size=(families, m))
        if dependence == "positive":
            noise = np.sqrt(0.5) * noise + np.sqrt(0.5) * rng.normal(size=(families, 1))
        elif dependence == "negative":
            noise[:, 1::2] = -noise[:, ::2]
        p = stats.norm.sf(noise + effect)
        for method in ("bonferroni", "sidak", "holm", "hochberg", "bh", "by"):
            rejected = np.array([adjust_pvalues(row, method=method).rejected for row in p])
            false = (rejected & null).sum(axis=1)
            found = rejected.sum(axis=1)
            rates = (float((false > 0).mean()), float((false / np.maximum(1, found)).mean()))
            rows.append((method, dependence, *rates, float((rejected & ~null).sum(axis=1).mean() / signals)))
    columns = ["correction", "dependence", "family-wise error", "false discovery rate", "power"]
    return pd.DataFrame(rows, columns=columns)


SIMULATIONS: dict[str, Callable[[], pd.DataFrame]] = {
    "Type-I error of the tests": type_one_error,
    "Coverage of intervals for means and variances": coverage_of_means,
    "Exact coverage of intervals for proportions": coverage_of_proportions,
    "Coverage of intervals from tail bounds": coverage_of_bounds,
    "Error rates of multiple-testing corrections": error_rates_of_corrections,
}
