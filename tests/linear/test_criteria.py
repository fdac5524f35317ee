"""The selection criteria against their definitions and statsmodels."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.model_selection import KFold, ShuffleSplit

from assay.errors import AssayWarning, DataError, ParameterError
from assay.linear import SIS, BestSubset, Lars
from assay.linear.criteria import (
    CRITERIA,
    Models,
    criterion_values,
    cv_errors,
    full_model_variance,
    select,
    selection_table,
    validation_errors,
)
from assay.numerics.moments import Moments, about_zero, summarize
from tests.naive.linear import subset_rss


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 5)) + 10
    return X, X[:, 0] - 2 * X[:, 3] + rng.standard_normal(60)


def nested(X, y, intercept=True):
    p = X.shape[1]
    m = summarize(X, y)
    m = m if intercept else about_zero(m)
    rss = np.array([subset_rss(X, y, range(k), intercept=intercept) for k in range(p + 1)])
    variables = [tuple(f"x{j}" for j in range(k)) for k in range(p + 1)]
    return Models(
        np.arange(p + 1), rss, variables, m.weight, float(m.yy[0]), intercept, full_model_variance(m, intercept)
    )


@pytest.mark.parametrize("intercept", [True, False])
def test_likelihood_forms_and_r2_are_those_of_statsmodels(data, intercept):
    X, y = data
    table = selection_table(nested(X, y, intercept))
    for k in range(1, 6):
        A = sm.add_constant(X[:, :k]) if intercept else X[:, :k]
        fit = sm.OLS(y, A).fit()
        row = table.iloc[k]
        assert row["aic"] == pytest.approx(fit.aic, rel=1e-12)
        assert row["bic"] == pytest.approx(fit.bic, rel=1e-12)
        assert row["r2"] == pytest.approx(fit.rsquared, rel=1e-10)
        assert row["adjusted_r2"] == pytest.approx(fit.rsquared_adj, rel=1e-10)


def test_sigma_forms_are_the_notes(data):
    X, y = data
    models = nested(X, y)
    s2 = sm.OLS(y, sm.add_constant(X)).fit().mse_resid
    assert models.sigma2 == pytest.approx(s2, rel=1e-10)
    n, k, rss = 60, models.sizes, models.rss
    np.testing.assert_allclose(criterion_values(models, "cp"), (rss + 2 * k * s2) / n)
    np.testing.assert_allclose(criterion_values(models, "aic", "sigma"), (rss + 2 * k * s2) / n)
    np.testing.assert_allclose(criterion_values(models, "bic", "sigma"), (rss + np.log(n) * k * s2) / n)


@pytest.mark.parametrize("form", ["sigma", "likelihood"])
def test_bic_is_heavier_than_aic_from_eight_rows_on(form):
    for n, heavier in ((7, False), (8, True)):
        models = Models(np.array([0, 1]), np.array([2.0, 1.0]), [(), ("x0",)], n, 2.0, True, 0.1)
        steps = [np.diff(criterion_values(models, name, form))[0] for name in ("aic", "bic")]
        assert (steps[1] > steps[0]) == heavier


def test_full_model_variance_counts_the_rank(data):
    X, y = data
    doubled = np.column_stack([X, X[:, 0], np.ones(60)])
    assert full_model_variance(summarize(doubled, y)) == pytest.approx(full_model_variance(summarize(X, y)), rel=1e-9)
    assert np.isnan(full_model_variance(summarize(X[:6], y[:6])))


def test_no_full_model_no_sigma_form():
    models = Models(np.array([0, 1]), np.array([2.0, 1.0]), [(), ("x0",)], 10, 2.0, True)
    for criterion, form in (("cp", "likelihood"), ("aic", "sigma"), ("bic", "sigma")):
        with pytest.raises(DataError, match='form="likelihood"'):
            select(models, criterion, form=form)
    assert select(models, "bic").index in (0, 1)


def test_exact_fits_are_ranked_by_size():
    rss = np.array([5.0, 1e-30, 3e-31, 0.0])
    models = Models(np.arange(4), rss, [()] * 4, 20, 5.0, True, 0.0)
    for criterion in CRITERIA[:3]:
        assert select(models, criterion).index == 1


def test_cv_from_moments_equals_refitting(data):
    X, y = data
    w = np.random.default_rng(0).integers(0, 3, 60).astype(float)

    def fit(train):
        if isinstance(train, Moments):
            coef = np.linalg.solve(train.xx, train.xy[:, 0])
            return coef[None], np.array([train.my[0] - train.mx @ coef])
        A, t, v = train
        b = sm.WLS(t, sm.add_constant(A), weights=v).fit().params
        return b[None, 1:], b[:1]

    for cv in (KFold(5, shuffle=True, random_state=1), ShuffleSplit(4, random_state=2)):
        a = cv_errors(X, y, w, cv, fit, count=1, from_moments=True)
        b = cv_errors(X, y, w, cv, fit, count=1, from_moments=False, n_jobs=2)
        np.testing.assert_allclose(a, b, rtol=1e-9)
        errors, weights = [], []
        for train, test in cv.split(X):
            model = sm.WLS(y[train], sm.add_constant(X[train]), weights=w[train]).fit()
            squares = (y[test] - model.predict(sm.add_constant(X[test]))) ** 2
            errors.append(np.average(squares, weights=w[test]))
            weights.append(w[test].sum())
        assert a[0][0] == pytest.approx(np.average(errors, weights=weights), rel=1e-9)


def test_one_standard_error_takes_the_simpler_model():
    models = Models(np.arange(4), np.array([9.0, 5.0, 4.0, 3.9]), [()] * 4, 30, 9.0, True, 1.0)
    errors = (np.array([9.0, 4.3, 4.0, 4.1]), np.array([1.0, 0.5, 0.4, 0.4]))
    least, simple = (select(models, "cv", rule=rule, errors=errors) for rule in ("min", "1se"))
    assert (least.index, simple.index) == (2, 1)
    assert simple.curve.marks == {"min": 2.0, "1se": 1.0, "chosen": 1.0}
    assert simple.curve.rule == pytest.approx(4.4)
    assert {"cv", "cv_std_error"} <= set(simple.table.columns)


def test_held_out_rows_need_to_exist(data):
    X, y = data
    with pytest.raises(DataError, match="validation_fraction"):
        validation_errors(X[:1], y[:1], None, lambda t: t, count=1, fraction=0.5, random_state=0, from_moments=True)


def test_folds_without_weight_are_left_out(data):
    X, y = data
    w = np.zeros(60)
    w[:12] = 1.0
    with pytest.raises(DataError, match="fewer than two folds"):
        cv_errors(X, y, w, 5, lambda t: t, count=1, from_moments=True)


def test_one_standard_error_needs_standard_errors():
    X, y = np.random.default_rng(0).standard_normal((40, 3)), np.arange(40.0)
    for model in (BestSubset(criterion="bic", rule="1se"), Lars(criterion="aic", rule="1se")):
        with pytest.raises(ParameterError, match="1se"):
            model.fit(X, y)


def test_weights_that_sum_to_one_are_questioned():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 3))
    y = X[:, 0] + rng.standard_normal(40)
    for model in (BestSubset(), Lars(criterion="bic"), SIS(n_keep=2)):
        with pytest.warns(AssayWarning, match="sums to 1 over 40 rows"):
            model.fit(X, y, sample_weight=np.full(40, 1 / 40))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(X, y, sample_weight=np.full(40, 2.0))
