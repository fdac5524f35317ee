"""Predictions from fold summaries against fits of every training set."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge as PeerRidge
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
    cross_val_predict,
)

from assay.errors import CollinearityWarning, DataError, ParameterError
from assay.linear import ElasticNet, Lasso, LassoCV, LinearRegression, Ridge, RidgeCV
from assay.linear import _fold_products as products_module
from assay.numerics import threads
from assay.resampling import partitions_of
from tests.naive.linear import predictions_by_refitting


def problem(n=150, p=6, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) @ (np.eye(p) + 0.4 * rng.normal(size=(p, p))) * rng.uniform(0.1, 9, p)
    X += rng.normal(size=p) * 5
    return X, (X - X.mean(0)) @ rng.normal(size=p) + noise * rng.normal(size=n) + 7.0


def agree(model, X, y, splits, w=None, within=1e-11):
    found = model.predict_folds(X, y, splits, sample_weight=w)
    assert found is not None
    wanted = predictions_by_refitting(model, X, y, splits, w)
    assert [len(a) for a in found] == [len(b) for b in wanted]
    size = max(np.abs(y).max(), max(np.abs(b).max() for b in wanted))
    worst = max(np.abs(a - b).max() for a, b in zip(found, wanted, strict=True))
    assert worst <= within * size, worst / size
    return found


def mixed(n):
    """Two repeats of different numbers of folds, the rows of one in no order."""
    rng = np.random.default_rng(3)
    order = rng.permutation(n)
    first = [(np.setdiff1d(order, part)[::-1], part) for part in np.array_split(order, 4)]
    return first + list(KFold(7).split(np.zeros(n)))


MODELS = {
    "least squares": LinearRegression(),
    "through the origin": LinearRegression(fit_intercept=False),
    "ridge": Ridge(3.0),
    "ridge through the origin": Ridge(0.3, fit_intercept=False),
    "ridge with factors": Ridge(2.0, penalty_factors=[0, 1, 2, 0.5, 1, 0]),
    "least norm": Ridge(0.0),
    "nonnegative": Ridge(1.0, positive=True),
    "nonnegative without penalty": Ridge(0.0, positive=True),
    "ridge budget": Ridge(budget=0.7),
    "lasso": Lasso(0.3),
    "lasso through the origin": Lasso(0.3, fit_intercept=False),
    "lasso with factors": Lasso(0.2, penalty_factors=[0, 1, 2, 0.5, 1, 0], selection="greedy"),
    "nonnegative lasso": Lasso(0.1, positive=True),
    "lasso budget": Lasso(budget=1.5),
    "elastic net": ElasticNet(0.2, l1_ratio=0.4),
}
SCHEMES = {
    "folds": lambda n: list(KFold(10, shuffle=True, random_state=0).split(np.zeros(n))),
    "in order": lambda n: list(KFold(3).split(np.zeros(n))),
    "repeats": lambda n: list(RepeatedKFold(n_splits=5, n_repeats=4, random_state=1).split(np.zeros(n))),
    "mixed": mixed,
    "leave one out": lambda n: list(LeaveOneOut().split(np.zeros(n))),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_those_of_fits(name, scheme, weighted):
    X, y = problem(n=60)
    w = np.random.default_rng(5).choice([0.0, 0.5, 1.0, 3.0], 60) if weighted else None
    # The budget of a lasso is met to eleven digits, and so are its fits.
    agree(MODELS[name], X, y, SCHEMES[scheme](60), w, within=1e-9 if "budget" in name else 1e-11)


def test_crossed_repeats_give_the_same_as_single_ones(monkeypatch):
    X, y = problem(n=700)
    splits = [pair for seed in range(5) for pair in KFold(2, shuffle=True, random_state=seed).split(X)]
    partitions = partitions_of(splits, 700)
    for fewest, sizes in ((40, [4, 1]), (10**9, [1] * 5)):
        monkeypatch.setattr(products_module, "FEWEST_IN_CELL", fewest)
        assert [len(group) for group in products_module.groups_of(partitions, 700, 8)] == sizes
        agree(Ridge(1.0), X, y, splits, within=1e-13)


def test_long_folds_are_read_in_chunks():
    X, y = problem(n=30_000)  # folds of 10,000 rows in chunks of 4,096
    agree(LinearRegression(), X, y, list(KFold(3).split(X)), within=1e-12)


def test_threads_change_no_bit(monkeypatch):
    X, y = problem(n=9000, p=9)
    splits = list(RepeatedKFold(n_splits=5, n_repeats=3, random_state=0).split(X))
    together = Ridge(1.0).predict_folds(X, y, splits)
    monkeypatch.setattr(threads, "workers", lambda n_jobs: 1)
    alone = Ridge(1.0).predict_folds(X, y, splits)
    assert all((a == b).all() for a, b in zip(together, alone, strict=True))


def test_agrees_with_scikit_learn():
    X, y = load_diabetes(return_X_y=True)
    cv = KFold(10, shuffle=True, random_state=2)
    splits = list(cv.split(X))
    found = np.empty_like(y)
    for (_, test), values in zip(splits, Ridge(0.1).predict_folds(X, y, splits), strict=True):
        found[test] = values
    wanted = cross_val_predict(PeerRidge(0.1, solver="svd"), X, y, cv=cv)
    np.testing.assert_allclose(found, wanted, rtol=1e-11)


def test_leave_one_out_is_the_closed_form_of_loo_error():
    X, y = load_diabetes(return_X_y=True)
    splits = list(LeaveOneOut().split(X))
    for model in (LinearRegression(), Ridge(0.5)):
        found = np.concatenate(model.predict_folds(X, y, splits))
        assert np.mean((y - found) ** 2) == pytest.approx(clone(model).fit(X, y).loo_error_, rel=1e-11)


@pytest.mark.parametrize("model", [LinearRegression(), Ridge(1.0), Lasso(0.1)], ids=lambda m: type(m).__name__)
def test_input_of_every_kind(model):
    X, y = problem(n=80)
    splits = list(KFold(4, shuffle=True, random_state=0).split(X))
    wanted = model.predict_folds(X, y, splits)
    wide = np.zeros((80, 12))
    wide[:, ::2] = X
    frozen = X.copy()
    frozen.flags.writeable = False
    frame = pd.DataFrame(X, columns=list("abcdef"), index=np.arange(80)[::-1])
    lists = [(train.tolist(), test.tolist()) for train, test in splits]
    for other in (np.asfortranarray(X), wide[:, ::2], frozen, frame, X.tolist()):
        found = model.predict_folds(other, y, splits)
        assert all(np.allclose(a, b, rtol=1e-13, atol=0) for a, b in zip(found, wanted, strict=True))
    masks = [tuple(np.isin(np.arange(80), part) for part in pair) for pair in splits]
    for others in (lists, masks, [(a.astype(np.int32), b.astype(np.uint16)) for a, b in splits]):
        found = model.predict_folds(X, pd.Series(y), others)
        assert all((a == b).all() for a, b in zip(found, wanted, strict=True))
    single = X.astype(np.float32)
    agree(model, single, y, splits)
    whole = np.round(X * 10).astype(int)
    agree(model, whole, np.round(y).astype(int), splits)


def test_the_model_stays_as_it_is():
    X, y = problem(n=40)
    for model in MODELS.values():
        before = dict(vars(model))
        model.predict_folds(X, y, list(KFold(4).split(X)))
        assert vars(model) == before


def refuse(splits, n):
    X, y = problem(n=n)
    return all(m.predict_folds(X, y, splits) is None for m in (LinearRegression(), Ridge(), Lasso()))


def test_splits_that_are_no_partitions_are_left_to_fits():
    X = np.zeros((40, 1))
    assert refuse(list(ShuffleSplit(5, random_state=0).split(X)), 40)
    assert refuse(list(TimeSeriesSplit(4).split(X)), 40)
    assert refuse([], 40)
    good = list(KFold(4).split(X))
    assert not refuse(good, 40)
    assert refuse(good[:3], 40)
    assert refuse([*good, good[0]], 40)
    twice = [(np.concatenate([train[:-1], train[:1]]), test) for train, test in good]
    assert refuse(twice, 40)
    leaky = [(np.concatenate([train[:-1], test[:1]]), test) for train, test in good]
    assert refuse(leaky, 40)
    assert refuse([(train, test - 10) for train, test in good], 40)
    assert refuse([(train + 1, test) for train, test in good], 40)
    assert refuse([(np.arange(40), np.arange(0)), *good], 40)
    assert refuse([(np.arange(0), np.arange(40))], 40)


def test_groups_of_unequal_size():
    X, y = problem(n=90)
    groups = np.random.default_rng(0).integers(0, 9, 90) ** 2 // 9
    agree(Ridge(1.0), X, y, list(GroupKFold(4).split(X, y, groups)))


class OwnFit(Ridge):
    """A subclass that fits otherwise."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, np.asarray(y) ** 2, sample_weight)


def test_where_summaries_do_not_apply():
    X, y = problem(n=40)
    splits = list(KFold(4).split(X))
    assert LinearRegression(solver="gradient").predict_folds(X, y, splits) is None
    assert LinearRegression(solver="sgd").predict_folds(X, y, splits) is None
    assert Lasso(0.0).predict_folds(X, y, splits) is None
    assert Lasso(selection="random", random_state=0).predict_folds(X, y, splits) is None
    assert OwnFit().predict_folds(X, y, splits) is None
    assert Ridge(budget=1.0, positive=True).predict_folds(X, y, splits) is None
    for model in (LinearRegression(), Ridge(), Lasso()):
        assert model.predict_folds(sparse.csr_array(X), y, splits) is None
        assert model.predict_folds(X, np.column_stack([y, y]), splits) is None
        assert model.predict_folds(np.hstack([X] * 6), y, splits) is None
    for model in (LassoCV(), RidgeCV()):
        assert not hasattr(model, "predict_folds")


def test_memory_is_bounded():
    X = np.random.default_rng(0).normal(size=(1200, 1050))  # three cross-products per fold, 2^25 cells at most
    assert Ridge().predict_folds(X, X[:, 0], list(KFold(11).split(X))) is None
    agree(Ridge(), X[:, :30], X[:, 0], list(KFold(11).split(X)))
    rows = X[:, :300]
    assert Ridge().predict_folds(rows, X[:, 0], list(KFold(400).split(X))) is None
    assert len(Ridge().predict_folds(rows, X[:, 0], list(LeaveOneOut().split(X)))) == 1200  # needs no such products


def test_collinear_and_constant_columns_are_left_to_fits():
    X, y = problem(n=60)
    splits = list(KFold(5, shuffle=True, random_state=0).split(X))
    twin, flat = np.column_stack([X, X[:, 0]]), np.column_stack([X, np.full(60, 3.3)])
    assert LinearRegression().predict_folds(twin, y, splits) is None
    assert LinearRegression().predict_folds(flat, y, splits) is None
    close = np.column_stack([X, X[:, 0] * (1 + 1e-4 * X[:, 1])])
    assert LinearRegression().predict_folds(close, y, splits) is None
    assert Ridge(0.0).predict_folds(twin, y, splits) is None
    agree(Ridge(1.0), twin, y, splits)
    agree(Ridge(1.0), flat, y, splits)
    agree(Ridge(0.0), flat, y, splits)


@pytest.mark.parametrize("model", [LinearRegression(), Ridge(1e-3), Lasso(0.01)], ids=lambda m: type(m).__name__)
def test_wild_values_and_large_means_cost_no_digits(model):
    X, y = problem(n=120, noise=0.1)
    splits = list(KFold(6).split(X))
    ordered = np.argsort(X[:, 0])
    agree(model, X[ordered], y[ordered], splits)
    # The fits themselves round x'b to 1e6 times eps here.
    agree(model, X + 1e6, y, splits, within=1e-9)
    wild = X.copy()
    wild[7, 2] = 1e9  # a mean of 1e7 would take seven digits from the products of all folds without that row
    found = model.predict_folds(wild, y, splits)
    wanted = predictions_by_refitting(model, wild, y, splits)
    assert np.abs(found[0][:7] - wanted[0][:7]).max() <= 1e-11 * np.abs(y).max()


def test_a_column_seen_in_one_row_is_fitted_again():
    X, y = problem(n=50)
    X[:, 0] = 0.0
    X[11, 0] = 1.0
    splits = list(LeaveOneOut().split(X))
    agree(Ridge(1.0), X, y, splits)
    with pytest.warns(CollinearityWarning, match="'x0'"):
        found = LinearRegression().predict_folds(X, y, splits)
    with pytest.warns(CollinearityWarning):
        wanted = predictions_by_refitting(LinearRegression(), X, y, splits)
    np.testing.assert_allclose(np.concatenate(found), np.concatenate(wanted), rtol=1e-11)
    with pytest.warns(CollinearityWarning, match="'rare'"):
        LinearRegression().predict_folds(pd.DataFrame(X, columns=["rare", *"bcdef"]), y, splits)


def test_extreme_scales_are_left_to_fits():
    X, y = problem(n=40)
    splits = list(KFold(4).split(X))
    for factor in (1e-120, 1e120, 1e-180):
        scaled = X.copy()
        scaled[:, 1] *= factor
        assert Ridge(1.0).predict_folds(scaled, y, splits) is None
        assert LinearRegression().predict_folds(scaled, y, splits) is None
    assert Ridge(1.0).predict_folds(X, y * 1e-120, splits) is None
    agree(Ridge(1.0), X, y * 1e-180, splits)


def test_a_constant_target():
    X, _ = problem(n=40)
    splits = list(KFold(4).split(X))
    for model in (LinearRegression(), Ridge(1.0)):
        found = model.predict_folds(X, np.full(40, 0.1), splits)
        np.testing.assert_allclose(np.concatenate(found), 0.1, rtol=1e-13)


def test_fits_that_do_not_converge_are_left_to_warn_themselves():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 1)) + 0.1 * rng.normal(size=(80, 30))
    y = X @ rng.normal(size=30) + rng.normal(size=80)
    splits = list(KFold(2).split(X))
    assert Lasso(1e-3, max_iter=1).predict_folds(X, y, splits) is None
    agree(Lasso(1e-3), X, y, splits)


def test_bad_input_gets_the_sentence_of_fit():
    X, y = problem(n=40)
    splits = list(KFold(4).split(X))
    X[3, 2] = np.nan
    for model in (LinearRegression(), Ridge(), Lasso()):
        with pytest.raises(DataError, match="NaN in column 2, row 3"):
            model.predict_folds(X, y, splits)
        with pytest.raises(DataError, match="sample_weight"):
            model.predict_folds(X[4:], y[4:], splits, sample_weight=np.ones(3))
    with pytest.raises(ParameterError, match="alpha"):
        Ridge(-1.0).predict_folds(X[4:], y[4:], splits)
    # Without weight to train on the fit has to say what is wrong.
    X, y = problem(n=40)
    w = np.zeros(40)
    w[:10] = 1.0
    assert Ridge().predict_folds(X, y, splits, sample_weight=w) is None
