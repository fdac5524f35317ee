from __future__ import annotations

import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression as Peer
from sklearn.model_selection import KFold, ShuffleSplit, cross_val_score
from sklearn.utils.estimator_checks import estimator_checks_generator

from assay.errors import CollinearityWarning, DataError, ParameterError
from assay.linear import LinearRegression
from tests.naive.numerics import exact_least_squares

AIC = "AIC, sigma not counted"
KINDS = ["classical", "HC0", "HC1", "HC2", "HC3"]


def uneven_rows(n=120, seed=1):
    """Columns of different scales and means, noise that grows with the first of them, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) * [1, 10, 0.1, 100, 1] + [0, 5, 1, 100, 3]
    return X, X @ rng.normal(size=5) + rng.normal(size=n) * (1 + abs(X[:, 0])), rng.uniform(0.2, 3, n)


X, Y, W = uneven_rows()


# --- agreement with statsmodels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_summary_agrees_with_statsmodels(kind, intercept, weighted):
    w = W if weighted else None
    A = sm.add_constant(X) if intercept else X
    model = sm.WLS(Y, A, weights=w) if weighted else sm.OLS(Y, A)
    peer = model.fit() if kind == "classical" else model.fit(cov_type=kind, use_t=True)
    ours = LinearRegression(covariance=kind, fit_intercept=intercept).fit(X, Y, w)
    summary = ours.summary(0.9)
    table, facts = summary.to_frame(), summary.facts
    columns = {
        "estimate": peer.params,
        "std_error": peer.bse,
        "statistic": peer.tvalues,
        "p_value": peer.pvalues,
        "lower": peer.conf_int(0.1)[:, 0],
        "upper": peer.conf_int(0.1)[:, 1],
    }
    for name, values in columns.items():
        np.testing.assert_allclose(table[name], values, rtol=1e-9, atol=1e-12, err_msg=name)
    assert list(table.index) == ["intercept"] * intercept + ["x0", "x1", "x2", "x3", "x4"]
    numbers = {
        "n": peer.nobs,
        "df": peer.df_resid,
        "R2": peer.rsquared,
        "adjusted R2": peer.rsquared_adj,
        "sigma": np.sqrt(peer.scale),
        "F": peer.fvalue,
        "F p-value": peer.f_pvalue,
        "log-likelihood": peer.llf,
        "AIC, sigma not counted": peer.aic,
        "BIC, sigma not counted": peer.bic,
    }
    for name, value in numbers.items():
        assert facts[name] == pytest.approx(value, rel=1e-9), name
    np.testing.assert_allclose(ours.covariance_, peer.cov_params(), rtol=1e-8, atol=1e-15)


def test_diagnostics_agree_with_statsmodels():
    ours = LinearRegression().fit(X, Y)
    peer = sm.OLS(Y, sm.add_constant(X)).fit()
    influence = peer.get_influence()
    d = ours.diagnostics()
    np.testing.assert_allclose(d.leverage, influence.hat_matrix_diag)
    np.testing.assert_allclose(d.residuals, peer.resid, atol=1e-10)
    np.testing.assert_allclose(d.fitted, peer.fittedvalues)
    np.testing.assert_allclose(d.standardized, influence.resid_studentized_internal, rtol=1e-9)
    np.testing.assert_allclose(d.studentized, influence.resid_studentized_external, rtol=1e-9)
    np.testing.assert_allclose(d.cooks_distance, influence.cooks_distance[0], rtol=1e-9)
    assert ours.leverage_.sum() == pytest.approx(6)


@pytest.mark.parametrize("kind", ["classical", "HC3"])
def test_bands_agree_with_statsmodels(kind):
    model = sm.OLS(Y, sm.add_constant(X))
    peer = model.fit() if kind == "classical" else model.fit(cov_type=kind, use_t=True)
    frame = peer.get_prediction(sm.add_constant(X)).summary_frame(0.2)
    ours = LinearRegression(covariance=kind).fit(X, Y)
    mean = ours.predict(X, interval="confidence", level=0.8)
    np.testing.assert_allclose(mean[["lower", "upper"]], frame[["mean_ci_lower", "mean_ci_upper"]], rtol=1e-9)
    np.testing.assert_array_equal(mean["estimate"], ours.predict(X))
    if kind == "classical":
        new = ours.predict(X, interval="prediction", level=0.8)
        np.testing.assert_allclose(new[["lower", "upper"]], frame[["obs_ci_lower", "obs_ci_upper"]], rtol=1e-9)


def test_bands_keep_the_index_of_the_rows():
    table = pd.DataFrame(X, columns=list("abcde"), index=[f"row{i}" for i in range(len(X))])
    band = LinearRegression().fit(table, Y).predict(table[:4], interval="confidence")
    assert list(band.index) == ["row0", "row1", "row2", "row3"]


# --- hard data, against exact rational arithmetic ---------------------------------------------------------------------


def filip_like():
    rng = np.random.default_rng(0)
    x = np.round(np.sort(rng.uniform(-8.8, -3.1, 82)), 9)
    return x[:, None] ** np.arange(1, 11), np.round(0.8 + 0.05 * np.sin(3 * x) + 0.003 * rng.normal(size=82), 4)


def longley():
    data = sm.datasets.longley.load_pandas()
    return data.exog.to_numpy(float), data.endog.to_numpy(float)


def wampler_like():
    x = np.arange(21.0)
    V = x[:, None] ** np.arange(1, 6)
    return V, 1 + V.sum(axis=1) + 2e5 * np.cos(np.pi * x)


def shifted_parabola():
    x = 1e6 + np.arange(30.0)
    return np.column_stack([x, x**2]), np.sin(x)


def digits(values, truth):
    """The number of correct decimal digits of the worst value."""
    errors = [abs(Fraction(float(v)) - t) / abs(t) for v, t in zip(values, truth, strict=True)]
    return min(16.0, -float(np.log10(max(float(max(errors)), 1e-16))))


@pytest.mark.parametrize("data", [filip_like, longley, wampler_like, shifted_parabola])
@pytest.mark.parametrize("weighted", [False, True])
def test_hard_data_keep_all_digits(data, weighted):
    A, y = data()
    w = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else None
    beta, variance, rss = exact_least_squares(A, y, w)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LinearRegression().fit(A, y, w)
    assert model.rank_ == A.shape[1]
    assert digits([model.intercept_, *model.coef_], beta) >= 14
    assert digits(model.std_errors_**2, variance) >= 13.5
    w = np.ones(len(y)) if w is None else w
    assert digits([w @ model.residuals_**2], [rss]) >= 14


def test_hard_data_have_exact_leverage_and_robust_errors():
    """The exact hat matrix, column by column: what least squares makes of a target that is one in one row."""
    x = np.linspace(5.0, 6.0, 14)
    A, y = x[:, None] ** np.arange(1, 7), np.round(np.exp(np.sin(9 * x)), 6)
    effect = np.array([[float(v) for v in exact_least_squares(A, row)[0]] for row in np.eye(14)]).T
    exact_effect = [exact_least_squares(A, row)[0] for row in np.eye(14)]
    beta = exact_least_squares(A, y)[0]
    rows = [[Fraction(1), *(Fraction(float(v)) for v in row)] for row in A]
    leverage = [sum(u * v for u, v in zip(r, b, strict=True)) for r, b in zip(rows, exact_effect, strict=True)]
    errors = [
        Fraction(float(t)) - sum(u * v for u, v in zip(r, beta, strict=True)) for r, t in zip(rows, y, strict=True)
    ]
    loo = np.array([float(e / (1 - h)) for e, h in zip(errors, leverage, strict=True)])
    model = LinearRegression(covariance="HC3").fit(A, y)
    assert model.condition_number_ > 1e9
    np.testing.assert_allclose(model.leverage_, [float(h) for h in leverage], rtol=1e-12)
    np.testing.assert_allclose(model.std_errors_, np.sqrt(np.square(effect * loo).sum(axis=1)), rtol=1e-11)
    assert model.loo_error_ == pytest.approx(np.mean(loo**2), rel=1e-12)


# --- cross-validation without refits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cv", [5, KFold(7, shuffle=True, random_state=0), ShuffleSplit(6, random_state=0)])
@pytest.mark.parametrize("intercept", [True, False])
def test_fold_error_equals_refitting(cv, intercept):
    model = LinearRegression(fit_intercept=intercept)
    refits = -cross_val_score(Peer(fit_intercept=intercept), X, Y, cv=cv, scoring="neg_mean_squared_error")
    sizes = [len(test) for _, test in (KFold(cv) if isinstance(cv, int) else cv).split(X)]
    result = model.cv_error(X, Y, cv=cv)
    assert result.estimate == pytest.approx(np.average(refits, weights=sizes))
    if len(set(sizes)) == 1:
        half = stats.t.ppf(0.975, len(refits) - 1) * refits.std(ddof=1) / np.sqrt(len(refits))
        assert (result.upper - result.lower) / 2 == pytest.approx(half)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_equals_refitting(weighted):
    w = W if weighted else np.ones(len(Y))
    errors = np.empty(len(Y))
    for i in range(len(Y)):
        rest = np.arange(len(Y)) != i
        errors[i] = Y[i] - Peer().fit(X[rest], Y[rest], w[rest]).predict(X[[i]])[0]
    model = LinearRegression().fit(X, Y, w if weighted else None)
    assert model.loo_error_ == pytest.approx(np.average(errors**2, weights=w))
    if not weighted:
        assert LinearRegression().cv_error(X, Y, cv=len(Y)).estimate == pytest.approx(model.loo_error_)


# --- summaries that add -----------------------------------------------------------------------------------------------


def test_partial_fit_equals_fit_on_all_rows():
    whole = LinearRegression().fit(X, Y, W)
    model = LinearRegression()
    for rows in (slice(0, 2), slice(2, 50), slice(50, 120)):
        model.partial_fit(X[rows], Y[rows], W[rows])
    pd.testing.assert_frame_equal(model.summary().table, whole.summary().table, rtol=1e-9)
    assert model.sigma_ == pytest.approx(whole.sigma_)
    assert model.summary().facts[AIC] == pytest.approx(whole.summary().facts[AIC])
    continued = LinearRegression().fit(X[:60], Y[:60], W[:60]).partial_fit(X[60:], Y[60:], W[60:])
    np.testing.assert_allclose(continued.coef_, whole.coef_)
    assert not hasattr(continued, "leverage_")
    with pytest.raises(DataError, match="use fit"):
        model.diagnostics()
    with pytest.raises(DataError, match="same targets"):
        model.partial_fit(X, np.column_stack([Y, Y]))
    for options in ({"solver": "sgd"}, {"covariance": "HC1"}):
        assert not hasattr(LinearRegression(**options), "partial_fit")


def test_weights_are_repetition_and_zero_drops_the_row():
    w = np.random.default_rng(0).integers(0, 4, len(Y)).astype(float)
    rows = np.repeat(np.arange(len(Y)), w.astype(int))
    weighted, repeated = LinearRegression().fit(X, Y, w), LinearRegression().fit(X[rows], Y[rows])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-9)
    kept = w > 0
    a, b = (LinearRegression(covariance="HC3").fit(*args) for args in ((X, Y, w), (X[kept], Y[kept], w[kept])))
    pd.testing.assert_frame_equal(a.summary().table, b.summary().table, rtol=1e-9)
    assert a.df_residual_ == b.df_residual_ == kept.sum() - 6
    assert a.loo_error_ == pytest.approx(b.loo_error_)
    for scale in (1e-200, 1e200):
        c = LinearRegression(covariance="HC3").fit(X, Y, w * scale)
        np.testing.assert_allclose(c.summary().table["statistic"], a.summary().table["statistic"], rtol=1e-8)


# --- collinear, wide and odd data -------------------------------------------------------------------------------------


def test_copies_and_constants_are_named_and_the_rest_keeps_its_inference():
    table = pd.DataFrame(X, columns=["a", "b", "c", "d", "é"])
    table["copy of a"], table["one"] = table["a"], 1.0
    with pytest.warns(CollinearityWarning, match="'copy of a', 'one' repeat"):
        model = LinearRegression().fit(table, Y)
    plain = LinearRegression().fit(X, Y)
    np.testing.assert_allclose(model.predict(table), plain.predict(X))
    assert model.rank_ == 5
    assert model.coef_[0] == pytest.approx(plain.coef_[0] / 2)
    assert model.coef_[0] == pytest.approx(model.coef_[5])
    summary = model.summary()
    ours, theirs = summary.table["std_error"], plain.summary().table["std_error"]
    assert ours[["a", "copy of a", "one"]].isna().all()
    np.testing.assert_allclose(ours[["intercept", "b", "c", "d", "é"]], theirs.iloc[[0, 2, 3, 4, 5]])
    assert "a, copy of a, one" in "\n".join(summary.notes)
    for name in ("R2", "F", AIC, "df"):
        assert summary.facts[name] == pytest.approx(plain.summary().facts[name])
    band = model.predict(table, interval="confidence")
    np.testing.assert_allclose(band, plain.predict(X, interval="confidence"))
    apart = table.assign(**{"copy of a": 0.0})
    assert model.predict(apart, interval="confidence")["lower"].isna().all()


def test_affine_copies_leave_the_intercept_open():
    with pytest.warns(CollinearityWarning, match="'x5'"):
        model = LinearRegression().fit(np.column_stack([X, 3 * X[:, 0] + 1]), Y)
    assert np.isnan(model.std_errors_[[0, 1, 6]]).all()
    assert np.isfinite(model.std_errors_[2:6]).all()


@pytest.mark.parametrize("shape", [(10, 30), (5, 5), (1, 3), (2, 1)])
def test_too_few_rows_interpolate_with_least_norm(shape):
    rng = np.random.default_rng(0)
    A, y = rng.normal(size=shape), rng.normal(size=shape[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollinearityWarning)
        model = LinearRegression().fit(A, y)
    np.testing.assert_allclose(model.predict(A), y, atol=1e-10)
    truth = np.linalg.lstsq(A - A.mean(axis=0), y - y.mean(), rcond=None)[0]
    np.testing.assert_allclose(model.coef_, truth, atol=1e-10)
    summary = model.summary()
    assert summary.table["std_error"].isna().all()
    assert np.isnan(model.sigma_)
    assert "No residual degrees of freedom" in str(summary)
    assert "no residual degrees" in str(model.diagnostics())


@pytest.mark.parametrize("scales", [[1e150] * 5, [1e-150] * 5, [1e150, 1e-150, 1, 1e75, 1e-75]])
@pytest.mark.parametrize("kind", ["classical", "HC3"])
def test_scales_of_columns_and_target_change_nothing(scales, kind):
    plain = LinearRegression(covariance=kind).fit(X, Y)
    for size in (1.0, 1e140, 1e-140):
        model = LinearRegression(covariance=kind).fit(X * scales, Y * size)
        np.testing.assert_allclose(model.predict(X * scales) / size, plain.predict(X), rtol=1e-9)
        for name in ("statistic", "p_value"):
            np.testing.assert_allclose(model.summary().table[name], plain.summary().table[name], rtol=1e-7)
        assert model.sigma_ / size == pytest.approx(plain.sigma_)
        log = len(Y) * np.log(size)
        assert model.summary().facts["log-likelihood"] + log == pytest.approx(plain.summary().facts["log-likelihood"])


def test_perfect_fits_and_constant_targets_say_so():
    exact = LinearRegression().fit(X, X @ np.arange(5.0))
    assert "perfect up to rounding" in str(exact.summary())
    constant = LinearRegression().fit(X, np.full(len(Y), 0.1)).summary()
    assert np.isnan(constant.facts["R2"])
    assert np.isnan(constant.facts["F"])


def test_a_row_of_leverage_one_leaves_robust_errors_undefined():
    A = np.column_stack([X, np.eye(len(Y))[0]])
    for kind, defined in [("classical", True), ("HC1", True), ("HC3", False)]:
        model = LinearRegression(covariance=kind).fit(A, Y)
        assert model.leverage_[0] == pytest.approx(1.0)
        assert np.isfinite(model.std_errors_).all() == defined
    assert "leverage 1" in str(model.summary())
    assert np.isnan(model.loo_error_)


# --- kinds of input ---------------------------------------------------------------------------------------------------


def as_read_only(A):
    A = A.copy()
    A.setflags(write=False)
    return A


@pytest.mark.parametrize(
    "convert",
    [
        as_read_only,
        np.asfortranarray,
        lambda A: np.repeat(A, 2, axis=1)[:, ::2],
        lambda A: A.astype(object),
        lambda A: A.tolist(),
        sparse.csr_array,
        sparse.csc_matrix,
        sparse.coo_array,
    ],
)
def test_any_layout_gives_the_same_answer(convert):
    plain = LinearRegression().fit(X, Y)
    A = convert(X)
    model = LinearRegression().fit(A, Y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    np.testing.assert_allclose(model.predict(A), plain.predict(X), rtol=1e-14)
    np.testing.assert_allclose(model.predict(A, interval="prediction"), plain.predict(X, interval="prediction"))


def test_float32_and_whole_numbers():
    Z = np.random.default_rng(0).integers(-5, 5, (50, 3))
    t = Z @ [1, 2, 3] + np.arange(50) % 7
    plain = LinearRegression().fit(Z.astype(float), t.astype(float))
    for kind in (np.int64, np.int8, np.float32):
        np.testing.assert_array_equal(LinearRegression().fit(Z.astype(kind), t).coef_, plain.coef_)


def test_several_targets_have_one_answer_each():
    targets = np.column_stack([Y, X[:, 0] ** 2, -Y])
    model = LinearRegression(covariance="HC2").fit(X, targets, W)
    assert model.coef_.shape == (3, 5)
    assert model.std_errors_.shape == (3, 6)
    for j in range(3):
        one = LinearRegression(covariance="HC2").fit(X, targets[:, j], W)
        pd.testing.assert_frame_equal(model.summary(target=j).table, one.summary().table, rtol=1e-9)
        np.testing.assert_allclose(model.diagnostics(target=j).cooks_distance, one.diagnostics().cooks_distance)
        assert model.loo_error_[j] == pytest.approx(one.loo_error_)
        np.testing.assert_allclose(model.predict(X)[:, j], one.predict(X))
    for call in (model.summary, model.diagnostics, lambda: model.predict(X, interval="confidence")):
        with pytest.raises(ParameterError, match="3 targets"):
            call()
    with pytest.raises(ParameterError, match="target = 3"):
        model.summary(target=3)


def test_large_tables_agree_with_small_ones_and_repeat_to_the_bit():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(20_000, 20)) + 3
    y = A @ rng.normal(size=20) + rng.normal(size=20_000)
    a, b = LinearRegression(covariance="HC3").fit(A, y), LinearRegression(covariance="HC3").fit(A, y)
    assert np.array_equal(a.std_errors_, b.std_errors_)
    assert np.array_equal(a.leverage_, b.leverage_)
    np.testing.assert_allclose(a.coef_, Peer().fit(A, y).coef_, rtol=1e-9)
    np.testing.assert_allclose(a.leverage_, np.square(np.linalg.qr(np.c_[np.ones(20_000), A])[0]).sum(axis=1))


def test_copies_pickle_and_survive_changes_to_the_input():
    y, w = Y.copy(), W.copy()
    model = LinearRegression().fit(X, y, w)
    before = model.diagnostics().to_frame()
    y[:], w[:] = 0.0, 1.0
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(model)).diagnostics().to_frame(), before)
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("name", sorted(LinearRegression.constraints))
@pytest.mark.parametrize("value", [object(), "nonsense", -1])
def test_nonsense_parameters_are_refused(name, value):
    with pytest.raises(ParameterError, match=name):
        LinearRegression(**{name: value}).fit(X, Y)


def test_nonsense_arguments_are_refused():
    model = LinearRegression().fit(X, Y)
    for call in (
        lambda: model.summary(level=1.0),
        lambda: model.predict(X, interval="both"),
        lambda: model.predict(X, interval="confidence", level=0),
        lambda: model.cv_error(X, Y, cv=1),
        lambda: model.cv_error(X, Y, level=95),
    ):
        with pytest.raises(ParameterError, match="out of range"):
            call()
    with pytest.raises(DataError, match="features"):
        model.predict(X[:, :3], interval="confidence")
    with pytest.raises(DataError, match="one target"):
        model.cv_error(X, np.column_stack([Y, Y]))


@pytest.mark.parametrize("options", [{}, {"covariance": "HC3"}, {"solver": "gradient"}])
def test_passes_every_check_of_scikit_learn(options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollinearityWarning)  # some checks have more columns than rows
        for estimator, check in estimator_checks_generator(LinearRegression(**options)):
            if "array_api" not in str(check):
                check(estimator)


# --- the promises of the inference, simulated -------------------------------------------------------------------------


def within(hits, level, false_alarm=1e-6):
    """Whether the number of hits is what a binomial variable of this level gives."""
    low, high = stats.binom.ppf([false_alarm / 2, 1 - false_alarm / 2], hits.size, level)
    return low <= hits.sum() <= high


def test_nominal_intervals_cover_what_they_say():
    """2,000 targets on one design: coefficients, means and new observations, each at 90%."""
    rng = np.random.default_rng(7)
    A, runs = rng.normal(size=(15, 3)), 2_000
    beta, new = np.array([1.0, -2.0, 0.5]), np.array([[1.0, 1.0, 2.0]])
    targets = (A @ beta)[:, None] + rng.standard_normal((15, runs))
    model = LinearRegression().fit(A, targets)
    t = stats.t.ppf(0.95, 11)
    errors = np.abs(model.coef_ - beta)
    assert within(errors[:, 1] <= t * model.std_errors_[:, 2], 0.9)
    hits = np.zeros((2, runs), dtype=bool)
    draws = (new @ beta)[0] + rng.standard_normal(runs)
    fitted = model.predict(new)[0]
    for j in range(runs):
        for i, (kind, truth) in enumerate([("confidence", (new @ beta)[0]), ("prediction", draws[j])]):
            _, low, high = model._inference.band(new, fitted[[j]], j, kind, 0.9)[0]
            hits[i, j] = low <= truth <= high
    assert within(hits[0], 0.9)
    assert within(hits[1], 0.9)


def test_robust_errors_cover_where_classical_ones_do_not():
    rng = np.random.default_rng(8)
    x = rng.normal(size=(200, 1))
    targets = rng.standard_normal((200, 1_000)) * np.abs(x) ** 1.5
    t = stats.t.ppf(0.975, 198)
    cover = {}
    for kind in ("classical", "HC3"):
        model = LinearRegression(covariance=kind).fit(x, targets)
        cover[kind] = np.mean(np.abs(model.coef_[:, 0]) <= t * model.std_errors_[:, 1])
    assert cover["classical"] < 0.8
    assert 0.92 < cover["HC3"] < 0.97


def test_f_and_t_reject_at_their_level_under_the_null():
    rng = np.random.default_rng(9)
    A = rng.normal(size=(20, 4))
    model = LinearRegression().fit(A, rng.standard_normal((20, 2_000)))
    p = np.array([model._inference.f_test(j)[1] for j in range(2_000)])
    assert within(p <= 0.05, 0.05)
    assert stats.kstest(p, "uniform").pvalue > 1e-6


def test_a_real_table_reads_well():
    data = load_diabetes(as_frame=True, scaled=False)
    text = str(LinearRegression().fit(data.data, data.target).summary())
    for word in ("intercept", "bmi", "std_error", "adjusted R2", "condition number", "p_value"):
        assert word in text


def test_diagnostics_keep_the_labels_of_the_table():
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.standard_normal((30, 2)), columns=["a", "b"], index=[f"r{i}" for i in range(30)])
    y = X["a"] + rng.standard_normal(30)
    y.iloc[7] += 20
    found = LinearRegression().fit(X, y).diagnostics()
    assert found.to_frame().index.tolist() == X.index.tolist()
    assert "row r7 " in str(found)
    assert any("r7" in {text.get_text() for text in panel.texts} for panel in found.plot())
    with pytest.raises(ParameterError, match="four panels"):
        found.plot(ax=found.plot()[0])


def test_a_saturated_fit_has_no_likelihood():
    rng = np.random.default_rng(3)
    with pytest.warns(CollinearityWarning):
        facts = LinearRegression().fit(rng.standard_normal((5, 6)), rng.standard_normal(5)).summary().facts
    assert np.isnan([value for name, value in facts.items() if name[:3] in ("AIC", "BIC", "log")]).all()
