"""Bootstrap bands: their definitions, their coverage of a known line, and what they draw."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation.bands import bootstrap_band
from tests.naive.evaluation import sup_t_band

GRID = np.linspace(-1, 1, 7)


class Line(RegressorMixin, BaseEstimator):
    """A straight line, quick enough for simulations."""

    def fit(self, X, y):
        x = X[:, 0]
        self.slope_ = np.cov(x, y)[0, 1] / np.var(x, ddof=1)
        self.level_ = y.mean() - self.slope_ * x.mean()
        return self

    def predict(self, X):
        return self.level_ + self.slope_ * X[:, 0]


def line(rng, n=60):
    x = rng.uniform(-1, 1, n)
    return x[:, None], 1 + 2 * x + rng.normal(0, 0.5, n)


def test_limits_are_their_definitions():
    X, y = line(np.random.default_rng(0))
    band = bootstrap_band(Line(), X, y, GRID, n_resamples=99, level=0.9)
    curves = band.replicates
    assert_allclose((band.lower, band.upper), np.quantile(curves, [0.05, 0.95], axis=0))
    low, high = band.limits(method="basic")
    assert_allclose((low, high), (2 * band.estimate - band.upper, 2 * band.estimate - band.lower))
    low, high = band.limits(method="normal", level=0.5)
    assert_allclose(high - low, 2 * stats.norm.ppf(0.75) * curves.std(axis=0, ddof=1))
    assert_allclose((band.band_lower, band.band_upper), sup_t_band(band.estimate, curves, 0.9))
    assert_allclose(band.limits("simultaneous"), (band.band_lower, band.band_upper))


@pytest.mark.slow
@pytest.mark.parametrize("resample", ["pairs", "residuals"])
def test_bands_cover_a_known_line(resample):
    # 150 tables at nominal 95%. Bounds by the binomial at a false-alarm rate of 1e-4 around .93, what the percentile
    # band reaches at n = 60; on the whole line the pointwise band promises nothing and covers less.
    truth, runs = 1 + 2 * GRID, 150
    inside, whole, all_pointwise = np.zeros(GRID.size), 0, 0
    for seed in range(runs):
        X, y = line(np.random.default_rng(seed))
        band = bootstrap_band(Line(), X, y, GRID, n_resamples=99, resample=resample, random_state=seed)
        here = (band.lower <= truth) & (truth <= band.upper)
        inside += here
        all_pointwise += here.all()
        whole += ((band.band_lower <= truth) & (truth <= band.band_upper)).all()
    least = stats.binom.ppf(1e-4, runs, 0.93)
    assert (inside >= least).all()
    assert inside.mean() <= stats.binom.ppf(1 - 1e-4, runs, 0.96)
    assert least <= whole
    assert all_pointwise < whole


def test_standard_errors_agree_with_least_squares():
    X, y = line(np.random.default_rng(1), 400)
    band = bootstrap_band(LinearRegression(), X, y, GRID, n_resamples=300)
    x = X[:, 0]
    s = np.sqrt(np.sum((y - LinearRegression().fit(X, y).predict(X)) ** 2) / 398)
    exact = s * np.sqrt(1 / 400 + (GRID - x.mean()) ** 2 / np.sum((x - x.mean()) ** 2))
    assert_allclose(band.std_error, exact, rtol=0.25)


def test_weights_and_repeated_rows_are_the_same_resample():
    X, y = line(np.random.default_rng(2))
    by_weights = bootstrap_band(LinearRegression(), X, y, GRID, n_resamples=40)
    by_rows = bootstrap_band(LinearRegression(), X, y, GRID, n_resamples=40, weights=False)
    assert_allclose(by_weights.replicates, by_rows.replicates, rtol=1e-9)


def test_a_pipeline_is_resampled_by_rows():
    X, y = line(np.random.default_rng(3))
    pipeline = make_pipeline(StandardScaler(), LinearRegression())
    plain = bootstrap_band(LinearRegression(), X, y, GRID, n_resamples=20)
    assert_allclose(bootstrap_band(pipeline, X, y, GRID, n_resamples=20).replicates, plain.replicates, rtol=1e-9)
    with pytest.raises(DataTypeError, match="does not support sample_weight"):
        bootstrap_band(pipeline, X, y, GRID, weights=True)


def test_probabilities_stay_between_zero_and_one():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 1))
    y = np.where(rng.random(80) < 1 / (1 + np.exp(-4 * X[:, 0])), "yes", "no")
    band = bootstrap_band(LogisticRegression(), X, y, n_resamples=40, method="normal")
    assert band.y_name == "probability of yes"
    assert band.band_lower.min() >= 0
    assert band.band_upper.max() <= 1
    other = bootstrap_band(LogisticRegression(), X, y, n_resamples=40, label="no")
    assert_allclose(other.estimate, 1 - band.estimate)
    band.plot()


def test_frames_rows_of_several_columns_and_pictures():
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40)})
    y = table["a"] - table["b"] + rng.normal(size=40)
    band = bootstrap_band(LinearRegression(), table, y, table.iloc[:3], n_resamples=30)
    assert list(band.to_frame().columns[:3]) == ["a", "b", "estimate"]
    band.plot()
    one = bootstrap_band(LinearRegression(), table[["a"]], y, n_resamples=30)
    assert one.x_name == "a"
    assert one.x.size == 100
    axes = one.plot()
    assert axes.get_xlabel() == "a"
    assert "simultaneous band (sup-t)" in str(one)


def test_jobs_change_nothing():
    X, y = line(np.random.default_rng(6))
    with parallel_config(backend="threading"):
        runs = [bootstrap_band(Line(), X, y, GRID, n_resamples=50, n_jobs=jobs).replicates for jobs in (None, 2)]
    assert (runs[0] == runs[1]).all()


def test_a_constant_curve_has_a_band_of_no_width():
    X, _ = line(np.random.default_rng(7))
    band = bootstrap_band(Line(), X, np.full(60, 3.0), GRID, n_resamples=20)
    assert band.critical == 0.0
    assert_allclose(band.band_upper, 3.0)


def test_bad_input_says_what_to_do():
    X, y = line(np.random.default_rng(0))
    wide = np.column_stack([X, X**2])
    with pytest.raises(ParameterError, match="pass rows like those of X"):
        bootstrap_band(LinearRegression(), wide, y)
    with pytest.raises(DataError, match="but X has 2 columns"):
        bootstrap_band(LinearRegression(), wide, y, X)
    with pytest.raises(ParameterError, match="classifiers have no residuals"):
        bootstrap_band(LogisticRegression(), X, y > 1, resample="residuals")
    with pytest.raises(ParameterError, match="pass label, one of"):
        bootstrap_band(LogisticRegression(), X, np.digitize(y, [0, 2]))
    with pytest.raises(ParameterError, match="'pairs', 'residuals'"):
        bootstrap_band(Line(), X, y, resample="rows")
