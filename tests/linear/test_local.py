"""Locally weighted regression: against its definition, against lowess, and against its own mathematics."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.base import clone
from statsmodels.datasets import co2
from statsmodels.nonparametric.smoothers_lowess import lowess

from assay.errors import DataError, ParameterError
from assay.linear import LocalRegression
from assay.linear._local import CHUNK
from assay.progress import listen
from tests.naive.linear import kth_nearest_distance, local_smoother_row

KERNELS = ("gaussian", "tricube")


def wave(n=60, p=1, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 5, size=(n, p))
    return X, np.sin(X).sum(axis=1) + noise * rng.normal(size=n)


def smoother(X, positions, h, kernel, degree, s=None):
    h = np.broadcast_to(h, len(positions))
    return np.array([local_smoother_row(X, x0, hi, kernel, degree, s) for x0, hi in zip(positions, h, strict=True)])


# The definition.


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("degree", [0, 1, 2])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_fit_and_inference_agree_with_the_smoother_matrix(kernel, degree, p):
    X, y = wave(90, p)
    tau = {"gaussian": 0.6, "tricube": 2.5}[kernel] * p**0.5
    model = LocalRegression(tau, kernel=kernel, degree=degree).fit(X, y)
    L = smoother(X, X, tau, kernel, degree)
    np.testing.assert_allclose(model.fitted_values_, L @ y, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(model.leverage_, np.diag(L), rtol=1e-8, atol=1e-10)
    assert model.effective_df_ == pytest.approx(np.trace(L), rel=1e-9)
    df = len(y) - 2 * np.trace(L) + np.trace(L @ L.T)
    assert model.df_residual_ == pytest.approx(df, rel=1e-8)
    assert model.sigma_ == pytest.approx(np.sqrt(((y - L @ y) ** 2).sum() / df), rel=1e-8)
    new = np.random.default_rng(1).uniform(0.5, 4.5, size=(20, p))
    rows = smoother(X, new, tau, kernel, degree)
    mean, std = model.predict(new, return_std=True)
    np.testing.assert_allclose(mean, rows @ y, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(std, model.sigma_ * np.linalg.norm(rows, axis=1), rtol=1e-7)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("p", [1, 3])
def test_fraction_sets_the_unit_of_tau_by_the_kth_nearest_row(kernel, p):
    X, y = wave(80, p, seed=2)
    X[:20] = np.round(X[:20])  # ties in distance
    new = np.vstack([X[:10], np.random.default_rng(3).uniform(-2, 7, size=(15, p))])
    model = LocalRegression(0.8, kernel=kernel, fraction=0.45, degree=1).fit(X, y)
    h = [0.8 * kth_nearest_distance(X, x0, 36) for x0 in new]
    np.testing.assert_allclose(model.predict(new), smoother(X, new, h, kernel, 1) @ y, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("degree", [1, 2])
def test_windows_longer_than_a_chunk(degree):
    X, y = wave(2 * CHUNK + 100, seed=4)
    new = np.array([[-0.5], [0.0], [2.5], [5.0]])
    model = LocalRegression(1.5, degree=degree).fit(X, y)
    np.testing.assert_allclose(model.predict(new), smoother(X, new, 1.5, "gaussian", degree) @ y, rtol=1e-9)


@pytest.mark.parametrize(
    "setting", [{"kernel": "tricube", "fraction": 0.4}, {"tau": 1.5}, {"tau": 4, "kernel": "tricube"}]
)
@pytest.mark.parametrize("degree", [0, 1, 2])
@pytest.mark.parametrize("sample", ["even", "skewed"])
def test_bundles_of_rows_act_like_the_rows(setting, degree, sample):
    rng = np.random.default_rng(4)
    x = rng.uniform(0, 5, 3000) if sample == "even" else rng.exponential(size=3000) ** 1.5
    y = np.sin(x) + rng.normal(size=3000)
    model = LocalRegression(degree=degree, **setting).fit(x[:, None], y)
    assert model._final[-1][-1] > 0  # bundles are in use
    new = np.quantile(x, np.linspace(0, 0.97, 40))
    new = np.concatenate([new, 0.5 * (new[1:] + new[:-1])])[:, None]
    kernel = setting.get("kernel", "gaussian")
    h = [kth_nearest_distance(x[:, None], x0, 1200) if "fraction" in setting else setting["tau"] for x0 in new]
    rows = smoother(x[:, None], new, h, kernel, degree)
    mean, std = model.predict(new, return_std=True)
    np.testing.assert_allclose(mean, rows @ y, rtol=0, atol=1e-10)
    np.testing.assert_allclose(std, model.sigma_ * np.linalg.norm(rows, axis=1), rtol=1e-7)


def test_a_far_cluster_of_many_rows_does_not_outweigh_a_near_one():
    # 20,000 rows nine bandwidths away: the cut may not be felt.
    x = np.concatenate([np.linspace(-0.5, 0.5, 40), np.linspace(8.9, 9.3, 20_000)])
    y = np.concatenate([np.zeros(40), np.full(20_000, 1e3)])
    model = LocalRegression(1.0, degree=0).fit(x[:, None], y)
    weights = np.exp(-(x**2) / 2)
    assert model.predict([[0.0]])[0] == pytest.approx(weights @ y / weights.sum(), rel=1e-6, abs=1e-11)


# Peers.


@pytest.mark.parametrize("fraction", [0.1, 0.3, 2 / 3, 1.0])
def test_values_of_lowess(fraction):
    rng = np.random.default_rng(5)
    x = rng.normal(size=400)
    y = np.exp(-x) + rng.normal(size=400)
    ours = LocalRegression(kernel="tricube", fraction=fraction).fit(x[:, None], y)
    theirs = lowess(y, x, frac=fraction, it=0, delta=0.0, return_sorted=False)
    np.testing.assert_allclose(ours.fitted_values_, theirs, rtol=0, atol=1e-9)
    np.testing.assert_allclose(ours.predict(x[:, None]), theirs, rtol=0, atol=1e-9)


def test_values_of_lowess_on_real_data():
    series = co2.load_pandas().data["co2"].dropna()
    x = np.arange(len(series), dtype=float)
    ours = LocalRegression(kernel="tricube", fraction=0.2).fit(x[:, None], series.to_numpy())
    theirs = lowess(series.to_numpy(), x, frac=0.2, it=0, delta=0.0, return_sorted=False)
    np.testing.assert_allclose(ours.fitted_values_, theirs, rtol=0, atol=1e-8)


# What must hold.


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("degree", [0, 1, 2])
def test_polynomials_of_the_same_degree_are_reproduced(kernel, p, degree):
    X, _ = wave(80, p, seed=6)
    y = 3.0 + (degree > 0) * (2.0 * X[:, 0] - X[:, -1]) + (degree > 1) * X[:, 0] * X[:, -1]
    new = np.random.default_rng(7).uniform(-1, 6, size=(30, p))
    true = 3.0 + (degree > 0) * (2.0 * new[:, 0] - new[:, -1]) + (degree > 1) * new[:, 0] * new[:, -1]
    model = LocalRegression(1.0, kernel=kernel, fraction=0.5, degree=degree).fit(X, y)
    np.testing.assert_allclose(model.fitted_values_, y, atol=1e-9)
    np.testing.assert_allclose(model.predict(new), true, atol=1e-6)


def test_wide_bandwidth_is_the_global_polynomial():
    X, y = wave(50, seed=8)
    for degree in (0, 1, 2):
        model = LocalRegression(1e6, degree=degree).fit(X, y)
        np.testing.assert_allclose(model.fitted_values_, np.polyval(np.polyfit(X[:, 0], y, degree), X[:, 0]), rtol=1e-7)
        assert model.effective_df_ == pytest.approx(degree + 1, rel=1e-9)


def test_shift_and_scale_of_x_and_y():
    X, y = wave(50, 2, seed=9)
    base = LocalRegression(0.7).fit(X, y).predict(X[:9])
    for a in (1e-150, 1e-3, 1e150):
        np.testing.assert_allclose(LocalRegression(0.7 * a).fit(a * X, y).predict(a * X[:9]), base, rtol=1e-9)
        np.testing.assert_allclose(LocalRegression(0.7).fit(X, a * y).predict(X[:9]), a * base, rtol=1e-9)
    np.testing.assert_allclose(LocalRegression(0.7).fit(X + 1e4, y + 1e4).predict(X[:9] + 1e4), base + 1e4, rtol=1e-10)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("setting", [{}, {"tau": "loo"}, {"kernel": "tricube", "fraction": 0.55, "degree": 2}])
def test_whole_weights_equal_repetition(p, setting):
    X, y = wave(40, p, seed=10)
    w = np.random.default_rng(11).integers(0, 4, size=40)
    weighted = LocalRegression(**setting).fit(X, y, sample_weight=w)
    repeated = LocalRegression(**setting).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert weighted.tau_ == pytest.approx(repeated.tau_, rel=1e-9)
    assert weighted.effective_df_ == pytest.approx(repeated.effective_df_, rel=1e-8)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-8)
    # Degrees of freedom count rows, so only sigma differs between the standard errors.
    errors = [model.predict(X, return_std=True)[1] / model.sigma_ for model in (weighted, repeated)]
    np.testing.assert_allclose(*errors, rtol=1e-8)
    dropped = LocalRegression(**setting).fit(X[w > 0], y[w > 0], sample_weight=w[w > 0])
    assert weighted.sigma_ == pytest.approx(dropped.sigma_, rel=1e-12)
    np.testing.assert_array_equal(weighted.predict(X), dropped.predict(X))
    np.testing.assert_array_equal(weighted.fitted_values_, weighted.predict(X))


def test_weights_are_precisions():
    X, y = wave(60, seed=12)
    s = np.random.default_rng(13).uniform(0.2, 3.0, size=60)
    L = smoother(X, X, 0.5, "gaussian", 1, s)
    models = [LocalRegression(0.5).fit(X, y, sample_weight=c * s) for c in (1.0, 1e-5, 1e200, 1e-300)]
    df = 60 - 2 * np.trace(L) + (s[:, None] * L**2 / s).sum()
    sigma = np.sqrt((s * (y - L @ y) ** 2).sum() / df)
    for model, c in zip(models, (1.0, 1e-5, 1e200, 1e-300), strict=True):
        assert model.df_residual_ == pytest.approx(df, rel=1e-8)
        assert model.sigma_ == pytest.approx(sigma * np.sqrt(c), rel=1e-8)
        std = model.predict(X, return_std=True)[1]
        np.testing.assert_allclose(std, sigma * np.sqrt((L**2 / s).sum(axis=1)), rtol=1e-7)


# Leave-one-out.


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("degree", [0, 1, 2])
def test_closed_form_equals_refitting_without_each_row(kernel, p, degree):
    X, y = wave(30, p, seed=14)
    model = LocalRegression("loo", kernel=kernel, degree=degree).fit(X, y)
    curve = model.loo_curve_
    assert curve.marks["min"] == model.tau_ == curve.x[np.argmin(curve.estimate)]
    for at in (0, 8, 20, len(curve.x) - 1):  # the first ones hold rows that alone decide their own fit
        keep = [np.arange(30) != i for i in range(30)]
        fits = [LocalRegression(curve.x[at], kernel=kernel, degree=degree).fit(X[k], y[k]) for k in keep]
        errors = [(y[i] - fit.predict(X[[i]])[0]) ** 2 for i, fit in enumerate(fits)]
        assert curve.estimate[at] == pytest.approx(np.mean(errors), rel=1e-6)
        assert curve.std_error[at] == pytest.approx(np.std(errors) / 30**0.5, rel=1e-5)


def test_loo_finds_the_scale_of_the_signal():
    rng = np.random.default_rng(15)
    x = rng.uniform(0, 10, 400)
    rough = LocalRegression("loo").fit(x[:, None], np.sin(6 * x) + 0.2 * rng.normal(size=400))
    smooth = LocalRegression("loo").fit(x[:, None], np.sin(0.6 * x) + 0.2 * rng.normal(size=400))
    assert rough.tau_ < 0.25 * smooth.tau_
    line = LocalRegression("loo").fit(x[:, None], 2 * x + rng.normal(size=400))
    assert line.effective_df_ < 6


def test_loo_with_fraction_and_its_progress():
    X, y = wave(60, seed=16)
    seen = []
    with listen(lambda label, done, total: seen.append((label, done, total))):
        model = LocalRegression("loo", kernel="tricube", fraction=0.5).fit(X, y)
    assert seen[-1] == ("bandwidths", 30, 30)
    at = model.loo_curve_.x.tolist().index(model.tau_)
    fixed = LocalRegression(model.tau_, kernel="tricube", fraction=0.5).fit(X, y)
    residual = (y - fixed.fitted_values_) / (1 - fixed.leverage_)
    assert model.loo_curve_.estimate[at] == pytest.approx(np.mean(residual**2), rel=1e-9)


def test_loo_on_ties_and_constants():
    X, y = np.repeat(np.arange(5.0), 8)[:, None], wave(40)[1]
    assert np.isfinite(LocalRegression("loo", degree=2).fit(X, y).loo_curve_.estimate).all()
    flat = LocalRegression("loo").fit(np.ones((6, 1)), np.arange(6.0))
    assert flat.predict([[7.0]])[0] == pytest.approx(2.5)
    assert flat.loo_curve_.estimate[0] == pytest.approx(np.mean((np.arange(6) - 2.5) ** 2) * (6 / 5) ** 2)


# Windows that do not determine the polynomial.


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("degree", [0, 1, 2])
@pytest.mark.parametrize("fraction", [None, 0.01, 0.5])
@pytest.mark.parametrize("p", [1, 2])
def test_prediction_is_never_nan(kernel, degree, fraction, p):
    rng = np.random.default_rng(17)
    tables = [
        np.ones((1, p)),
        np.ones((12, p)),
        rng.integers(0, 2, size=(12, p)).astype(float),
        np.concatenate([np.zeros((6, p)), np.full((6, p), 1e9)]),
        rng.normal(size=(12, 1)) * np.ones((1, p)),  # duplicate columns
        rng.normal(size=(3, p)) * 1e-200,
        rng.normal(size=(3, p)) * 1e150,
    ]
    for X in tables:
        y = rng.normal(size=len(X))
        for tau in (1e-320, 1e-9, 1.0, 1e300):
            model = LocalRegression(tau, kernel=kernel, degree=degree, fraction=fraction).fit(X, y)
            new = np.concatenate([X, X + 1.0, X * 1.5, np.full((1, p), 1e152), np.full((1, p), -1e152)])
            assert np.isfinite(model.predict(new)).all()
            assert 0 <= model.effective_df_ <= len(X) * (1 + 1e-6)


def test_far_beyond_the_data_the_nearest_row_decides():
    X, y = wave(30, seed=18)
    ends = y[[int(np.argmin(X)), int(np.argmax(X))]]
    for kernel in KERNELS:
        model = LocalRegression(0.01, kernel=kernel, degree=0).fit(X, y)
        np.testing.assert_allclose(model.predict([[-500.0], [500.0]]), ends, rtol=1e-12)


def test_degree_falls_with_the_rank():
    x = np.array([0.0, 0.0, 1.0, 1.0])
    y = np.array([0.0, 2.0, 3.0, 5.0])
    line = LocalRegression(1.0, degree=2).fit(x[:, None], y)  # two distinct values: a line through the two means
    np.testing.assert_allclose(line.predict([[0.0], [0.5], [1.0], [2.0]]), [1.0, 2.5, 4.0, 7.0], rtol=1e-9)
    point = LocalRegression(1.0, degree=1).fit(np.full((4, 1), 3.0), y)
    assert point.predict([[9.0]])[0] == pytest.approx(2.5)


def test_two_equal_columns_are_one():
    X, y = wave(40, seed=19)
    both = LocalRegression(0.5 * 2**0.5).fit(np.hstack([X, X]), y)
    np.testing.assert_allclose(both.fitted_values_, LocalRegression(0.5).fit(X, y).fitted_values_, rtol=1e-9)


def test_no_degrees_of_freedom_says_what_to_do():
    model = LocalRegression(1e-6).fit([[0.0], [1.0], [2.0]], [1.0, 5.0, 2.0])
    assert np.isnan(model.sigma_)
    np.testing.assert_allclose(model.predict([[0.0], [1.0], [2.0]]), [1.0, 5.0, 2.0])
    with pytest.raises(DataError, match="widen tau"):
        model.predict([[1.0]], return_std=True)
    assert model.curve().lower is None


# Inference.


def test_intervals_cover_at_their_level():
    # The truth is a line and the local fit is linear, so there is no bias and only the variance is on trial.
    rng = np.random.default_rng(20)
    x = np.sort(rng.uniform(0, 5, 50))[:, None]
    at = np.array([[0.0], [1.3], [2.5], [4.9]])
    truth = 1.0 + 2.0 * at[:, 0]
    runs = 600
    hits, new_hits = np.zeros(4, dtype=int), np.zeros(4, dtype=int)
    for _ in range(runs):
        model = LocalRegression(0.6).fit(x, 1.0 + 2.0 * x[:, 0] + rng.normal(size=50))
        _, lower, upper = model.predict(at, interval="confidence").to_numpy().T
        hits += (lower <= truth) & (truth <= upper)
        _, lower, upper = model.predict(at, interval="prediction").to_numpy().T
        drawn = truth + rng.normal(size=4)
        new_hits += (lower <= drawn) & (drawn <= upper)
    # Two-sided binomial bounds around 95% at false-alarm rate 1e-6 each; the t reference is an approximation whose
    # error is far below their width.
    low, high = binom.ppf(5e-7, runs, 0.95), binom.ppf(1 - 5e-7, runs, 0.95)
    assert ((low <= hits) & (hits <= high)).all()
    assert ((low <= new_hits) & (new_hits <= high)).all()


def test_sigma_is_unbiased_where_the_fit_is():
    rng = np.random.default_rng(21)
    x = rng.uniform(0, 5, 40)[:, None]
    variances = [LocalRegression(0.5).fit(x, 3 * x[:, 0] + 2 * rng.normal(size=40)).sigma_ ** 2 for _ in range(600)]
    standard_error = np.std(variances) / 600**0.5
    assert abs(np.mean(variances) - 4) < 5 * standard_error  # false-alarm rate 6e-7


def test_level_widens_the_interval():
    X, y = wave(40, seed=22)
    narrow, wide = (
        LocalRegression(0.5, level=level).fit(X, y).predict(X, interval="confidence") for level in (0.5, 0.99)
    )
    assert (wide.upper > narrow.upper).all()
    assert (wide.lower < narrow.lower).all()


# Pictures and words.


def test_curve_carries_band_points_and_name():
    X, y = wave(40, seed=23)
    model = LocalRegression(0.5).fit(pd.DataFrame(X, columns=["age"]), y)
    curve = model.curve()
    assert curve.x.size == 200
    assert curve.x_name == "age"
    assert curve.level == 0.95
    assert ((curve.lower < curve.estimate) & (curve.estimate < curve.upper)).all()
    np.testing.assert_array_equal(curve.points[1], y)
    grid = [0.5, 1.0, 9.0]
    mean, std = model.predict(pd.DataFrame({"age": grid}), return_std=True)
    np.testing.assert_array_equal(model.curve(grid).estimate, mean)
    np.testing.assert_array_equal(model.curve(grid).std_error, std)


def test_curve_of_two_columns_says_what_to_do():
    X, y = wave(20, 2)
    with pytest.raises(DataError, match="one column"):
        LocalRegression().fit(X, y).curve()


def test_summary_prints_the_facts():
    X, y = wave(40, seed=24)
    text = str(LocalRegression("loo").fit(X, y).summary())
    assert "effective df" in text
    assert "leave-one-out" in text


# Housekeeping.


@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("setting", [{}, {"kernel": "tricube", "fraction": 0.3}, {"tau": "loo", "degree": 2}])
def test_n_jobs_never_changes_a_bit(p, setting):
    X, y = wave(600, p, seed=25)
    one, two = (LocalRegression(**setting, n_jobs=n).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.fitted_values_, two.fitted_values_)
    for a, b in zip(one.predict(X, return_std=True), two.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.predict(X)[::7], one.predict(X[::7]))


@pytest.mark.parametrize("p", [1, 2])
def test_pickle_clone_and_untouched_input(p):
    X, y = wave(30, p, seed=26)
    X.flags.writeable = y.flags.writeable = False
    before = X.copy()
    model = LocalRegression("loo").fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    np.testing.assert_array_equal(clone(model).fit(np.asfortranarray(X), y).predict(X[::-1])[::-1], model.predict(X))
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("name", ["tau", "kernel", "fraction", "degree", "level", "n_jobs"])
@pytest.mark.parametrize("value", [object(), "nonsense", -1.5])
def test_nonsense_is_refused(name, value):
    with pytest.raises(ParameterError, match=name):
        LocalRegression(**{name: value}).fit([[0.0], [1.0]], [0.0, 1.0])


def test_interval_must_be_known():
    X, y = wave()
    with pytest.raises(ParameterError, match="interval"):
        LocalRegression().fit(X, y).predict(X, interval="bayes")


def test_one_row_cannot_be_left_out():
    with pytest.raises(DataError, match="more rows"):
        LocalRegression("loo").fit([[1.0]], [2.0])
