"""Discriminant analysis against its definition (scipy's normal densities), scikit-learn, and refits."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats
from sklearn import discriminant_analysis as peer
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import KFold, LeaveOneOut, RepeatedStratifiedKFold, ShuffleSplit, StratifiedKFold

from assay.errors import AssayWarning, CollinearityWarning, DataError, ParameterError
from assay.generative import _gaussian_summary as summary
from assay.generative._discriminant import _ledoit_wolf
from assay.generative.discriminant import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from assay.numerics import threads
from assay.resampling import AllButOne

LDA, QDA = LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis


def clouds(n=120, p=4, K=3, seed=0, apart=1.5):
    """Classes with means and covariance matrices of their own, columns of different scales far from zero."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(K), -(-n // K))[:n]
    rng.shuffle(y)
    turns = [np.eye(p) + 0.4 * rng.normal(size=(p, p)) for _ in range(K)]
    means = apart * rng.normal(size=(K, p))
    X = np.array([means[k] + rng.normal(size=p) @ turns[k] for k in y])
    return X * rng.uniform(0.2, 8, p) + 10 * rng.normal(size=p), y


def log_posterior(X, y, Z, *, common, unbiased=True, priors=None, w=None, diagonal=False):
    """The definition: normal densities by scipy, priors, Bayes' rule."""
    w = np.ones(len(y)) if w is None else w
    X, y, w = X[w > 0], y[w > 0], w[w > 0]
    classes = np.unique(y)
    n = np.array([w[y == k].sum() for k in classes])
    means = [np.average(X[y == k], axis=0, weights=w[y == k]) for k in classes]
    scatters = [((X[y == k] - m).T * w[y == k]) @ (X[y == k] - m) for k, m in zip(classes, means, strict=True)]
    if common:
        covariances = [sum(scatters) / (n.sum() - len(classes) * unbiased)] * len(classes)
    else:
        covariances = [S / (size - unbiased) for S, size in zip(scatters, n, strict=True)]
    if diagonal:
        covariances = [np.diag(np.diag(S)) for S in covariances]
    priors = n / n.sum() if priors is None else np.array(priors)
    joint = np.column_stack(
        [
            np.log(prior) + stats.multivariate_normal(m, S).logpdf(Z)
            for prior, m, S in zip(priors, means, covariances, strict=True)
        ]
    )
    return joint - special.logsumexp(joint, axis=1, keepdims=True)


# The definition.

SETTINGS = [
    {},
    {"unbiased": False},
    {"priors": [0.2, 0.5, 0.3]},
    {"diagonal": True},
    {"diagonal": True, "unbiased": False, "priors": [0.1, 0.1, 0.8]},
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("kind", [LDA, QDA])
@pytest.mark.parametrize("weighted", [False, True])
def test_posteriors_are_those_of_the_definition(kind, setting, weighted):
    X, y = clouds()
    w = np.random.default_rng(1).integers(0, 4, len(y)).astype(float) if weighted else None
    model = kind(estimate="unbiased" if setting.get("unbiased", True) else "ml", priors=setting.get("priors"))
    if setting.get("diagonal"):
        model.set_params(covariance="diagonal")
    model.fit(X, y, sample_weight=w)
    expected = log_posterior(X, y, X, common=kind is LDA, w=w, **setting)
    assert_allclose(model.predict_log_proba(X), expected, rtol=1e-9, atol=1e-9)
    assert_allclose(model.predict_proba(X), np.exp(expected), rtol=1e-8, atol=1e-12)
    assert_array_equal(model.predict(X), np.argmax(expected, axis=1))
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, atol=1e-14)


def test_the_threshold_in_one_dimension():
    """Equal spreads: x* = (mu0 + mu1)/2 + sigma^2 log(pi0/pi1) / (mu1 - mu0)."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [60, 20])
    x = rng.normal(size=80) + 2.0 * y
    model = LDA().fit(x[:, None], y)
    m0, m1 = x[y == 0].mean(), x[y == 1].mean()
    s2 = (((x[y == 0] - m0) ** 2).sum() + ((x[y == 1] - m1) ** 2).sum()) / 78
    cut = (m0 + m1) / 2 + s2 * np.log(60 / 20) / (m1 - m0)
    assert_allclose(-model.intercept_[0] / model.coef_[0, 0], cut, rtol=1e-12)
    assert_array_equal(model.predict([[cut - 1e-9], [cut + 1e-9]]), [0, 1])


def test_error_on_new_rows_is_the_bayes_error():
    """Two normal classes at Mahalanobis distance 2: the best rule errs with probability Phi(-1)."""
    rng = np.random.default_rng(3)
    turn = np.eye(3) + 0.3 * rng.normal(size=(3, 3))
    step = np.array([2.0, 0.0, 0.0]) @ turn

    def draw(n):
        y = rng.integers(0, 2, n)
        return rng.normal(size=(n, 3)) @ turn + np.outer(y, step), y

    model, (X, y) = LDA().fit(*draw(20_000)), draw(100_000)
    # Five standard errors: a false alarm in two million runs; estimating the rule costs far less than one.
    assert abs(np.mean(model.predict(X) != y) - stats.norm.cdf(-1)) < 5 * np.sqrt(0.16 * 0.84 / 1e5)


# scikit-learn.

TABLES = {"iris": load_iris, "wine": load_wine}


def same_up_to_sign(a, b, rtol=1e-8):
    signs = np.sign((a * b).sum(axis=0))
    assert_allclose(a, b * signs, rtol=rtol, atol=1e-10)


@pytest.mark.parametrize("table", TABLES)
def test_linear_agrees_with_scikit_learn(table):
    X, y = TABLES[table](return_X_y=True)
    ours, theirs = LDA(estimate="ml").fit(X, y), peer.LinearDiscriminantAnalysis(store_covariance=True).fit(X, y)
    for name in ("coef_", "intercept_", "means_", "xbar_", "covariance_", "explained_variance_ratio_", "priors_"):
        assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-8, err_msg=name)
    same_up_to_sign(ours.scalings_, theirs.scalings_)
    same_up_to_sign(ours.transform(X), theirs.transform(X))
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-8, atol=1e-14)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("shrinkage", [0.3, "auto"])
def test_shrunk_linear_agrees_with_scikit_learn(table, shrinkage):
    X, y = TABLES[table](return_X_y=True)
    ours = LDA(estimate="ml", shrinkage=shrinkage).fit(X, y)
    theirs = peer.LinearDiscriminantAnalysis(solver="eigen", shrinkage=shrinkage).fit(X, y)
    assert_allclose(ours.covariance_, theirs.covariance_, rtol=1e-10, atol=1e-12)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "setting", [{}, {"reg_param": 0.2}, {"shrinkage": 0.3, "solver": "eigen"}, {"shrinkage": "auto", "solver": "eigen"}]
)
def test_quadratic_agrees_with_scikit_learn(table, setting):
    X, y = TABLES[table](return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)  # their tolerance is absolute
    ours = QDA(estimate="ml", **{key: value for key, value in setting.items() if key != "solver"}).fit(X, y)
    theirs = peer.QuadraticDiscriminantAnalysis(store_covariance=True, **setting).fit(X, y)
    assert_allclose(ours.covariance_, np.array(theirs.covariance_), rtol=1e-8, atol=1e-10)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), rtol=1e-8, atol=1e-8)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-7, atol=1e-12)


def test_two_classes_have_the_shapes_of_scikit_learn():
    X, y = clouds(K=2)
    ours, theirs = LDA(estimate="ml").fit(X, y), peer.LinearDiscriminantAnalysis().fit(X, y)
    assert ours.coef_.shape == theirs.coef_.shape == (1, 4)
    assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)
    assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-8)
    for model in (ours, QDA().fit(X, y)):
        log_odds = np.diff(model.predict_log_proba(X), axis=1)[:, 0]
        assert_allclose(model.decision_function(X), log_odds, rtol=1e-9, atol=1e-9)
    quadratic = peer.QuadraticDiscriminantAnalysis(tol=1e-12).fit(X, y)
    assert_allclose(QDA(estimate="ml").fit(X, y).decision_function(X), quadratic.decision_function(X), rtol=1e-8)


def test_ledoit_wolf_is_the_published_formula():
    X, _ = clouds(40, 7)
    Z = (X - X.mean(0)) / X.std(0)
    m = summary.summarize(Z, np.zeros(len(Z), int), 1, summary.frame_of(Z), kind="full", fourth=True)
    unit = m.frame.unit
    nothing = np.zeros(7)
    shrunk = _ledoit_wolf(m.weight[0], m.scatter[0], m.fourth[0], nothing, nothing) / len(Z) * unit[:, None] * unit
    assert_allclose(shrunk, ledoit_wolf(Z)[0], rtol=1e-10)


def test_canonical_coordinates_have_unit_variance_within_and_are_ordered():
    X, y = clouds(200, 5, 4)
    model = LDA(n_components=2).fit(X, y)
    Z = model.transform(X)
    assert Z.shape == (200, 2)
    within = sum((Z[y == k] - Z[y == k].mean(0)).T @ (Z[y == k] - Z[y == k].mean(0)) for k in range(4)) / 196
    assert_allclose(within, np.eye(2), atol=1e-10)
    assert_allclose(model.scalings_.T @ model.covariance_ @ model.scalings_, np.eye(3), atol=1e-10)
    full = LDA().fit(X, y).explained_variance_ratio_
    assert_allclose(full.sum(), 1.0)
    assert (np.diff(full) < 0).all()
    assert model.get_feature_names_out().tolist() == ["lineardiscriminantanalysis0", "lineardiscriminantanalysis1"]
    with pytest.raises(ParameterError, match="n_components = 9 cannot be larger"):
        LDA(n_components=9).fit(X, y)


# Between the two.


def test_full_pooling_is_linear():
    X, y = clouds()
    for estimate in ("unbiased", "ml"):
        pooled = QDA(pooling=1.0, estimate=estimate).fit(X, y)
        linear = LDA(estimate=estimate).fit(X, y)
        assert_allclose(pooled.predict_log_proba(X), linear.predict_log_proba(X), rtol=1e-9, atol=1e-9)


def test_friedmans_covariances():
    X, y = clouds()
    c, s = 0.3, 0.2
    model = QDA(pooling=c, shrinkage=s).fit(X, y)
    scatters = [(len(X[y == k]) - 1) * np.cov(X[y == k].T) for k in range(3)]
    sizes = [(y == k).sum() - 1 for k in range(3)]
    for k in range(3):
        mixed = ((1 - c) * scatters[k] + c * sum(scatters)) / ((1 - c) * sizes[k] + c * sum(sizes))
        expected = (1 - s) * mixed + s * np.trace(mixed) / 4 * np.eye(4)
        assert_allclose(model.covariance_[k], expected, rtol=1e-10)


def test_the_implied_logistic_form():
    X, y = clouds()
    labels = np.array(["red", "green", "blue"])[y]
    model = LDA(priors=[0.5, 0.2, 0.3]).fit(pd.DataFrame(X, columns=list("abcd")), labels)
    table = pd.DataFrame(X, columns=list("abcd"))
    log = pd.DataFrame(model.predict_log_proba(table), columns=model.classes_)
    for reference in ("blue", "red"):
        form = model.logistic_form(reference)
        assert list(form.index) == ["intercept", "a", "b", "c", "d"]
        assert reference not in form.columns
        for label in form.columns:
            implied = form[label]["intercept"] + X @ form[label].iloc[1:].to_numpy()
            assert_allclose(implied, log[label] - log[reference], rtol=1e-8, atol=1e-8)
    assert model.logistic_form().equals(model.logistic_form("blue"))
    with pytest.raises(ParameterError, match="not one of the classes"):
        model.logistic_form("pink")
    zero = LDA(priors=[0.0, 0.5, 0.5]).fit(X, y)
    assert (zero.logistic_form(1).loc["intercept", 0]) == -np.inf
    with pytest.raises(ParameterError, match="prior 0"):
        zero.logistic_form()


# Moments.


@pytest.mark.parametrize("small", [True, False], ids=["blocks of all classes", "one class at a time"])
def test_moments_and_their_merges(monkeypatch, small):
    monkeypatch.setattr(summary, "BLOCK_CELLS", 40)
    monkeypatch.setattr(summary, "SMALL_SCATTERS", 1 << 15 if small else 0)
    X, y = clouds(150, 3, 4)
    w = np.random.default_rng(2).uniform(0, 2, 150) * (np.arange(150) % 7 > 0)
    frame = summary.frame_of(X, w)
    Z = (X - frame.centre) / frame.unit
    m = summary.summarize(X, y, 4, frame, w, kind="full", fourth=True)
    for k in range(4):
        rows, v = Z[y == k], w[y == k]
        mean = np.average(rows, axis=0, weights=v)
        U = rows - mean
        assert m.rows[k] == (v > 0).sum()
        assert_allclose(m.weight[k], v.sum(), rtol=1e-13)
        assert_allclose(m.mean[k], mean, rtol=1e-12)
        assert_allclose(m.scatter[k], (U.T * v) @ U, rtol=1e-12, atol=1e-13)
        assert_allclose(m.third[k], (U.T**2 * v) @ U, rtol=1e-10, atol=1e-12)
        assert_allclose(m.fourth[k], (U.T**2 * v) @ U**2, rtol=1e-11)
    pooled = summary.summarize(X, y, 4, frame, w, kind="pooled")
    assert_allclose(pooled.scatter, m.scatter.sum(axis=0), rtol=1e-12, atol=1e-13)
    diagonal = summary.summarize(X, y, 4, frame, w, kind="diagonal")
    assert_allclose(diagonal.scatter, np.einsum("kii->ki", m.scatter), rtol=1e-12)
    rows = np.flatnonzero(np.arange(150) % 3 > 0)
    parts = [
        summary.summarize(X, y, 4, frame, w, kind="full", fourth=True, rows=part)
        for part in (rows, np.setdiff1d(np.arange(150), rows), np.empty(0, dtype=np.int64))
    ]
    both = summary.merge(summary.merge(parts[0], parts[1]), parts[2])
    for name in ("weight", "mean", "scatter", "third", "fourth"):
        assert_allclose(getattr(both, name), getattr(m, name), rtol=1e-10, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("model", [LDA(), QDA(), LDA(shrinkage="auto"), QDA(covariance="diagonal")], ids=str)
def test_a_mean_of_1e8_costs_no_digit(model):
    """Numbers that a shift by 2^27 leaves exact: the answer must not notice it."""
    X, y = clouds(200, 4, 3)
    X = np.round((X - X.mean(0)) / X.std(0) * 1024) / 1024
    near, far = clone(model).fit(X, y), clone(model).fit(X + 2.0**27, y)
    assert_allclose(far.predict_log_proba(X + 2.0**27), near.predict_log_proba(X), rtol=1e-11, atol=1e-11)
    assert_allclose(far.covariance_, near.covariance_, rtol=1e-12, atol=1e-14)
    assert_allclose(far.means_ - 2.0**27, near.means_, atol=2e-8)


def test_classes_a_million_deviations_apart_keep_their_scatter():
    rng = np.random.default_rng(0)
    U, y = np.round(rng.normal(size=(300, 3)) * 1024) / 1024, np.arange(300) % 3
    X = U + 2.0**20 * y[:, None]
    for kind in (LDA, QDA):
        assert_allclose(kind().fit(X, y).covariance_, kind().fit(U, y).covariance_, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("factor", [2.0**480, 2.0**-480, 1e-290])
def test_scales_do_not_matter(factor):
    X, y = clouds()
    scale = np.array([1.0, factor, 1.0, 1.0])
    for model in (LDA(), QDA(), LDA(shrinkage="auto"), QDA(covariance="diagonal")):
        expected = clone(model).fit(X, y).predict_log_proba(X)
        assert_allclose(clone(model).fit(X * scale, y).predict_log_proba(X * scale), expected, rtol=1e-8, atol=1e-8)


def test_a_thousand_columns_do_not_underflow():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 1000)) + 0.5 * rng.normal(size=(3, 1000))[y]
    model = QDA(covariance="diagonal").fit(X, y)
    log = model.predict_log_proba(X)
    assert_allclose(log, log_posterior_diagonal(X, y), rtol=1e-9, atol=1e-9)
    assert log.min() < -300
    assert np.isfinite(log).all()


def log_posterior_diagonal(X, y):
    joint = np.column_stack(
        [stats.norm(X[y == k].mean(0), X[y == k].std(0, ddof=1)).logpdf(X).sum(axis=1) for k in np.unique(y)]
    )
    return joint - special.logsumexp(joint, axis=1, keepdims=True)


@pytest.mark.parametrize("model", [LDA(), QDA(), QDA(covariance="diagonal")], ids=str)
def test_rows_so_far_away_that_squares_overflow(model):
    X, y = clouds(120, 2, 3)
    tiny = clone(model).set_params(priors=[0.5, 0.5, 0.0]).fit(X * 1e-150, y)
    step = np.array([[3.0, -1.0], [-2.0, 5.0]])
    proba = tiny.predict_proba(1e150 * step)
    assert np.isfinite(proba).all()
    assert_allclose(proba.sum(axis=1), 1.0)
    near = clone(tiny).fit(X * 1e-150, y).predict(1e-130 * step)
    assert_array_equal(tiny.predict(1e150 * step), near)
    assert np.isneginf(tiny.predict_log_proba(1e150 * step)[:, 2]).all()


# Weights, batches, threads.


@pytest.mark.parametrize("model", [LDA(), QDA(), LDA(shrinkage="auto"), QDA(shrinkage="auto", pooling=0.2)], ids=str)
def test_weights_are_repetitions(model):
    X, y = clouds(90, 3)
    counts = np.random.default_rng(0).integers(0, 4, 90)
    X[counts == 0] = 1e9  # whatever stands in such a row
    weighted = clone(model).fit(X, y, sample_weight=counts)
    repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    Z = X[counts > 0]
    assert_allclose(weighted.predict_log_proba(Z), repeated.predict_log_proba(Z), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "model", [LDA(), QDA(), LDA(shrinkage="auto"), QDA(shrinkage="auto"), LDA(covariance="diagonal")], ids=str
)
def test_batches_are_one_fit(model):
    X, y = clouds(150, 3)
    labels, w = np.array(["a", "b", "c"])[y], np.random.default_rng(0).uniform(0.5, 2, 150)
    order = np.argsort(y, kind="stable")  # the first batches do not know every class
    batches = clone(model)
    for part in np.array_split(order, 7):
        batches.partial_fit(X[part], labels[part], classes=["a", "b", "c"], sample_weight=w[part])
    once = clone(model).fit(X[order], labels[order], sample_weight=w[order])
    assert_allclose(batches.predict_log_proba(X), once.predict_log_proba(X), rtol=1e-9, atol=1e-9)
    assert_allclose(batches.covariance_, once.covariance_, rtol=1e-10, atol=1e-12)
    more = clone(once).fit(X[:100], labels[:100]).partial_fit(X[100:], labels[100:])
    assert_allclose(more.means_, clone(model).fit(X, labels).means_, rtol=1e-12)


def test_a_class_without_rows_so_far_is_never_predicted():
    X, y = clouds(80, 2, 2)
    model = LDA().partial_fit(X, y, classes=[0, 1, 2])
    assert model.priors_[2] == 0
    assert_allclose(model.predict_proba(X)[:, :2], LDA().fit(X, y).predict_proba(X), rtol=1e-9)
    assert np.isnan(model.means_[2]).all()
    early = QDA().partial_fit(X[:2], y[:2], classes=[0, 1])
    with pytest.raises(DataError, match="so far"):
        early.predict(X)
    assert_allclose(early.partial_fit(X[2:], y[2:]).predict_proba(X), QDA().fit(X, y).predict_proba(X), rtol=1e-8)


def test_what_partial_fit_refuses():
    X, y = clouds(60, 2)
    with pytest.raises(DataError, match="classes must be passed on the first call"):
        LDA().partial_fit(X, y)
    model = LDA().partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(DataError, match="not those of the first call"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(DataError, match=r"y contains 7 in row 0, which is not one of the classes"):
        model.partial_fit(X, np.full(60, 7))
    with pytest.raises(ParameterError, match="start a new model"):
        model.set_params(shrinkage="auto").partial_fit(X, y)
    with pytest.raises(DataError, match="only one class"):
        LDA().partial_fit(X, np.zeros(60), classes=[0])


@pytest.mark.parametrize(
    "model", [LDA(), QDA(), LDA(shrinkage="auto"), QDA(pooling=0.3), LDA(covariance="diagonal")], ids=str
)
def test_n_jobs_never_changes_a_bit(model, monkeypatch):
    monkeypatch.setattr(threads, "SMALL_WORK", 0)
    monkeypatch.setattr(summary, "BLOCK_CELLS", 64)
    X, y = clouds(400, 5)
    one, two = (clone(model).set_params(n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    assert_array_equal(one.covariance_, two.covariance_)
    assert_array_equal(one.predict_proba(X), two.predict_proba(X))


# Folds.

FOLDED = [
    LDA(),
    LDA(shrinkage="auto"),
    LDA(shrinkage=0.4, priors=[0.2, 0.3, 0.5]),
    LDA(covariance="diagonal"),
    QDA(),
    QDA(pooling=0.3, shrinkage=0.1),
    QDA(shrinkage="auto"),
    QDA(covariance="diagonal", estimate="ml"),
]


def refits(model, X, y, splits, w, method):
    return [
        getattr(clone(model).fit(X[a], y[a], sample_weight=None if w is None else w[a]), method)(X[b])
        for a, b in splits
    ]


@pytest.mark.parametrize("model", FOLDED, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_folds_are_refits(model, weighted):
    X, y = clouds(150, 3)
    labels = np.array(["a", "b", "c"])[y]
    w = np.random.default_rng(0).integers(0, 3, 150).astype(float) if weighted else None
    for cv in (
        KFold(5),
        StratifiedKFold(4, shuffle=True, random_state=0),
        RepeatedStratifiedKFold(n_splits=3, n_repeats=2),
    ):
        splits = list(cv.split(X, y))
        for method in ("predict", "predict_proba"):
            found = model.predict_folds(X, labels, splits, sample_weight=w, method=method)
            wanted = refits(model, X, labels, splits, w, method)
            for one, other in zip(found, wanted, strict=True):
                if method == "predict":
                    assert_array_equal(one, other)
                else:
                    assert_allclose(one, other, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("model", [LDA(), QDA()], ids=str)
def test_leave_one_out(model):
    X, y = clouds(60, 2)
    splits = list(LeaveOneOut().split(X))
    wanted = np.concatenate(refits(model, X, y, splits, None, "predict_proba"))
    for given in (splits, AllButOne(60)):
        found = model.predict_folds(X, y, given, method="predict_proba")
        assert_allclose(np.concatenate(found), wanted, rtol=1e-8, atol=1e-12)


def test_folds_that_need_fits_of_their_own():
    X, y = clouds(60, 3)
    assert LDA().predict_folds(X, y, list(ShuffleSplit(3).split(X))) is None
    halves = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    assert LDA().predict_folds(X, np.sort(y), halves) is None  # the last class has no training row
    assert LDA().predict_folds(np.column_stack([X, X[:, 0]]), y, halves) is None  # a warning is due
    assert QDA().predict_folds(np.column_stack([X, X[:, 0]]), y, halves) is None  # an error is due
    twice = [(np.r_[np.arange(29), 0], np.arange(30, 60)), halves[1]]
    assert LDA().predict_folds(X, y, twice) is None
    masks = [(np.arange(60) < 30, np.arange(60) >= 30), (np.arange(60) >= 30, np.arange(60) < 30)]
    for one, other in zip(LDA().predict_folds(X, y, masks), LDA().predict_folds(X, y, halves), strict=True):
        assert_array_equal(one, other)
    with pytest.raises(ParameterError, match="method"):
        LDA().predict_folds(X, y, halves, method="score")

    class Other(LinearDiscriminantAnalysis):
        def predict(self, X):
            return super().predict(X)[::-1]

    assert Other().predict_folds(X, y, halves) is None


# Bad input.


def frame(X):
    return pd.DataFrame(X, columns=[f"col_{chr(97 + j)}" for j in range(X.shape[1])])


def test_linear_leaves_out_what_does_not_vary_and_says_so():
    X, y = clouds(100, 3)
    plain = LDA().fit(X, y).predict_log_proba(X)
    more = {
        "col_d": X[:, 0] - 2 * X[:, 1],
        "col_e": np.full(100, 3.0),
        "col_f": X[:, 2] * 5,
    }
    table = frame(X).assign(**more)
    with pytest.warns(CollinearityWarning) as told:
        model = LDA().fit(table, y)
    assert len(told) == 1
    said = str(told[0].message)
    assert "column 'col_e' does not vary within the classes" in said
    assert "columns 'col_d', 'col_f' repeat other columns within the classes" in said
    assert "shrinkage" in said
    assert model.rank_ == 3
    assert_allclose(model.predict_log_proba(table), plain, rtol=1e-6, atol=1e-6)
    with pytest.warns(CollinearityWarning, match="'col_d' alone separates the classes"):
        LDA().fit(frame(X).assign(col_d=y.astype(float)), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LDA(shrinkage=0.1).fit(table, y)


def test_more_columns_than_rows_is_the_rule_of_scikit_learn():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(15, 30)), np.arange(15) % 3
    with pytest.warns(CollinearityWarning, match="15 rows of 3 classes are too few for the covariance of 30 columns"):
        ours = LDA(estimate="ml").fit(X, y)
    theirs = peer.LinearDiscriminantAnalysis().fit(X, y)
    assert ours.rank_ == 12
    w = np.where(np.arange(20) < 15, 1.0, 0.0)
    with pytest.warns(CollinearityWarning, match="15 rows"):
        same = LDA(estimate="ml").fit(np.vstack([X, X[:5] * 9]), np.append(y, y[:5]), sample_weight=w)
    assert_allclose(same.predict_log_proba(X), ours.predict_log_proba(X), rtol=1e-8, atol=1e-8)
    batches = LDA(estimate="ml").partial_fit(X[:8], y[:8], classes=[0, 1, 2]).partial_fit(X[8:], y[8:])
    assert_allclose(batches.predict_log_proba(X), ours.predict_log_proba(X), rtol=1e-6, atol=1e-6)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), rtol=1e-6, atol=1e-6)


def test_nothing_varies():
    y = np.arange(20) % 2
    with pytest.warns(CollinearityWarning, match="do not vary"):
        model = LDA().fit(np.full((20, 2), 3.0), y)
    assert_allclose(model.predict_proba([[0.0, 1.0]]), [[0.5, 0.5]])
    assert model.transform([[0.0, 1.0]]).shape == (1, 0)


def test_quadratic_names_the_class_and_the_columns():
    X, y = clouds(100, 3)
    labels = np.array(["a", "b", "c"])[y]
    X[y == 1, 2] = 4.0
    with pytest.raises(DataError, match=r"column 'col_c' does not vary within class 'b'; set pooling or shrinkage"):
        QDA().fit(frame(X), labels)
    X, y = clouds(100, 3)
    X[y == 2, 1] = X[y == 2, 0] * 3 - 1
    with pytest.raises(DataError, match=r"within class 'c' column 'col_b' repeats the other columns"):
        QDA().fit(frame(X), labels)
    flat = X.copy()
    flat[y == 1, 2] = 4.0
    lent = QDA(shrinkage="auto").fit(flat, labels)  # a column without spread borrows the scale of all classes
    wide = QDA(shrinkage="auto").fit(flat * [1.0, 1.0, 1e6], labels)
    assert lent.covariance_[1, 2, 2] > 0
    assert_allclose(wide.predict_log_proba(flat * [1.0, 1.0, 1e6]), lent.predict_log_proba(flat), rtol=1e-8, atol=1e-8)
    still = np.where((y == 1)[:, None], X[y == 1][0], X)
    with pytest.raises(DataError, match=r"rows of class 'b' are equal, so it has no variance; set pooling"):
        QDA().fit(still, labels)
    for remedy in ({"pooling": 0.1}, {"shrinkage": 0.1}, {"covariance": "diagonal"}, {"reg_param": 0.1}):
        assert np.isfinite(QDA(**remedy).fit(X, y).predict_proba(X)).all()


def test_quadratic_leaves_out_what_varies_in_no_class():
    X, y = clouds(100, 3)
    plain = QDA().fit(X, y).predict_log_proba(X)
    table = frame(X).assign(col_d=2.5, col_e=X[:, 0] - 3 * X[:, 2])
    with pytest.warns(CollinearityWarning, match="'col_d' does not vary within the classes and column 'col_e' repeats"):
        model = QDA().fit(table, y)
    assert_allclose(model.predict_log_proba(table), plain, rtol=1e-6, atol=1e-6)
    with pytest.warns(CollinearityWarning, match="column 'col_d' does not vary"):
        diagonal = QDA(covariance="diagonal").fit(table.iloc[:, :4], y)
    expected = QDA(covariance="diagonal").fit(X, y).predict_log_proba(X)
    assert_allclose(diagonal.predict_log_proba(table.iloc[:, :4]), expected, rtol=1e-9, atol=1e-9)
    X[y == 0, 1] = 1.0
    with pytest.raises(DataError, match="column 'col_b' does not vary within class 0"):
        QDA().fit(frame(X).assign(col_d=2.5), y)
    with pytest.raises(DataError, match="column 'col_b' does not vary within class 0"):
        QDA(covariance="diagonal").fit(frame(X).assign(col_d=2.5), y)


def test_small_classes():
    X, y = clouds(60, 3, 2)
    X, y = np.vstack([X, [[50.0, 50.0, 50.0]]]), np.append(y, 2)
    assert_allclose(LDA().fit(X, y).predict_log_proba(X), log_posterior_with_single(X, y), rtol=1e-8, atol=1e-8)
    with pytest.raises(DataError, match=r"class 2 has 1 row and therefore no variance; set pooling"):
        QDA().fit(X, y)
    lent = QDA(pooling=0.5).fit(X, y)
    assert_allclose(lent.covariance_[2], LDA().fit(X, y).covariance_, rtol=1e-10)
    few = np.isin(np.arange(61), [*np.flatnonzero(y == 0)[:3], *np.flatnonzero(y == 1)])
    with pytest.raises(DataError, match=r"class 0 has 3 rows, but the covariance matrix of 3 columns needs 4 or more"):
        QDA().fit(X[few], y[few])
    for model in (LDA(), LDA(estimate="ml"), QDA(pooling=1.0)):
        with pytest.raises(DataError, match="every class has only one row"):
            model.fit([[0.0], [1.0]], [0, 1])


def log_posterior_with_single(X, y):
    means = np.array([X[y == k].mean(0) for k in range(3)])
    U = X - means[y]
    S = U.T @ U / (len(y) - 3)
    joint = np.column_stack([stats.multivariate_normal(m, S).logpdf(X) for m in means]) + np.log(
        np.bincount(y) / len(y)
    )
    return joint - special.logsumexp(joint, axis=1, keepdims=True)


@pytest.mark.parametrize("kind", [LDA, QDA])
def test_a_prior_of_zero(kind):
    X, y = clouds()
    model = kind(priors=[0.5, 0.0, 0.5]).fit(X, y)
    assert np.isneginf(model.predict_log_proba(X)[:, 1]).all()
    assert (model.predict_proba(X)[:, 1] == 0).all()
    assert 1 not in model.predict(X)
    two = kind(priors=[0.0, 1.0]).fit(X[y < 2], y[y < 2])
    assert np.isposinf(two.decision_function(X)).all()
    assert (two.predict(X) == 1).all()
    y[y == 1][1:] = 0
    single = np.r_[np.flatnonzero(y != 1), np.flatnonzero(y == 1)[:1]]
    assert np.isfinite(kind(priors=[0.5, 0.0, 0.5]).fit(X[single], y[single]).predict_proba(X)).all()


@pytest.mark.parametrize("kind", [LDA, QDA])
def test_what_parameters_may_not_be(kind):
    X, y = clouds()
    for priors, words in (
        ([0.5, 0.5], r"expected \(3,\)"),
        ([0.5, 0.7, -0.2], "which is not a probability"),
        ([0.5, 0.2, 0.2], "sums to 0.9"),
        (["a", "b", "c"], "non-numeric value"),
    ):
        with pytest.raises(ParameterError, match=words):
            kind(priors=priors).fit(X, y)
    with pytest.raises(ParameterError, match="shrinks correlations"):
        kind(covariance="diagonal", shrinkage="auto").fit(X, y)
    with pytest.raises(DataError, match="sample weights count repetitions, but they sum to"):
        kind().fit(X, y, sample_weight=np.full(len(y), 1e-5))
    assert np.isfinite(kind(estimate="ml").fit(X, y, sample_weight=np.full(len(y), 1e-5)).predict_proba(X)).all()
    with pytest.raises(DataError, match="only one class"):
        kind().fit(X, np.zeros(len(y)))


def test_nothing_but_our_own_warnings():
    X, y = clouds()
    for model in (LDA(), QDA()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", AssayWarning)
            model.fit(X, y).predict_proba(X)
