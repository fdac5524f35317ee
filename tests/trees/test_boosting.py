"""Gradient boosting: the taught algorithm, the losses, and everything around the loop."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss, mean_pinball_loss, mean_poisson_deviance
from sklearn.model_selection import KFold, StratifiedKFold

from assay.errors import DataError, ParameterError
from assay.evaluation import partial_dependence
from assay.numerics import threads
from assay.trees import _loss_steps, _stages
from assay.trees._loss_steps import huber_centres
from assay.trees._losses import (
    Absolute,
    Binary,
    Exponential,
    Huber,
    Multinomial,
    Pinball,
    Poisson,
    Squared,
    quantile_of,
)
from assay.trees.boosting import GradientBoostingClassifier, GradientBoostingRegressor

LOSSES = ("squared_error", "absolute_error", "huber", "quantile", "poisson")
NONE = np.empty(0)
FEW_TREES = pytest.mark.filterwarnings("ignore:the .* is least at the last:assay.errors.ConvergenceWarning")


def numbers(n=400, p=4, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, p))
    return X, X[:, 0] ** 2 + X[:, 1] * (X[:, 2] > 0) + noise * rng.normal(size=n)


def target(loss, n=400, seed=0):
    X, y = numbers(n, seed=seed)
    return X, np.random.default_rng(seed).poisson(np.exp(y / 3)).astype(float) if loss == "poisson" else y


def classes(k, n=400, seed=0):
    X, y = numbers(n, seed=seed)
    return X, np.digitize(y, np.quantile(y, np.arange(1, k) / k))


# The algorithm as it is taught.


def taught_tree(X, r, splits):
    """A regression tree by repeated search for the split that lowers the residual sum of squares most."""
    leaves, made = [np.arange(len(r))], []
    for _ in range(splits):
        best = (0.0, None)
        for at, rows in enumerate(leaves):
            for j in range(X.shape[1]):
                values = np.unique(X[rows, j])
                for cut in (values[1:] + values[:-1]) / 2:
                    left, right = rows[X[rows, j] <= cut], rows[X[rows, j] > cut]
                    saved = len(left) * r[left].mean() ** 2 + len(right) * r[right].mean() ** 2
                    saved -= len(rows) * r[rows].mean() ** 2
                    if saved > best[0] * (1 + 1e-12):
                        best = (saved, (at, left, right))
        if best[1] is None:
            break
        at, left, right = best[1]
        leaves[at : at + 1] = [left, right]
        made.append(best[0])
    fitted = np.empty(len(r))
    for rows in leaves:
        fitted[rows] = r[rows].mean()
    return fitted


@pytest.mark.parametrize("d", [1, 3])
def test_squared_error_is_boosting_as_it_is_taught(d):
    X, y = numbers(70, 3)
    B, shrinkage = 12, 0.3
    f, r = np.zeros(len(y)), y.copy()
    for _ in range(B):
        tree = taught_tree(X, r, d)
        f += shrinkage * tree
        r -= shrinkage * tree
    model = GradientBoostingRegressor(
        n_estimators=B, learning_rate=shrinkage, max_leaf_nodes=d + 1, min_samples_leaf=1, init="zero"
    ).fit(X, y)
    assert_allclose(model.predict(X), f, rtol=1e-9, atol=1e-12)
    assert_allclose(model.train_score_[-1], np.mean(r**2), rtol=1e-9)


def test_larger_steps_more_trees_and_more_splits_lower_the_training_error():
    X, y = numbers()
    base = {"n_estimators": 40, "learning_rate": 0.05, "max_leaf_nodes": 4}
    plain = GradientBoostingRegressor(**base).fit(X, y).train_score_[-1]
    for more in ({"n_estimators": 80}, {"learning_rate": 0.1}, {"max_leaf_nodes": 8}):
        assert GradientBoostingRegressor(**{**base, **more}).fit(X, y).train_score_[-1] < plain


# Losses.


def made_losses():
    huber = Huber(0.8)
    huber.width = huber.reference = 0.7
    return [Squared(), Absolute(), Pinball(0.3), huber, Poisson(), Binary(), Exponential(), Multinomial(4)]


def total_loss(loss, y, w, raw):
    K, n = raw.shape
    g, h = np.empty((K, n)), np.empty((K, 0 if loss.flat else n))
    return loss.scale * (loss.fill(y, w, raw, g, h, 0, n) + loss.constant(y, w)), g, h


def some_targets(loss, n=60):
    rng = np.random.default_rng(1)
    if isinstance(loss, Binary | Exponential):
        return rng.integers(0, 2, n).astype(float)
    if isinstance(loss, Multinomial):
        return rng.integers(0, loss.outputs, n).astype(float)
    return rng.poisson(2.0, n).astype(float) if isinstance(loss, Poisson) else rng.normal(size=n)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", made_losses(), ids=lambda loss: type(loss).__name__)
def test_gradients_and_curvatures_are_derivatives(loss, weighted):
    y, rng = some_targets(loss), np.random.default_rng(2)
    w = rng.uniform(0.5, 2, y.size) if weighted else NONE
    raw = rng.normal(size=(loss.outputs, y.size))
    _, g, h = total_loss(loss, y, w, raw)
    unit = {Squared: 2.0, Poisson: 2.0}.get(type(loss), 1.0)  # these are reported as twice what is minimised
    eps = 1e-4
    for k, i in itertools.product(range(loss.outputs), range(0, y.size, 7)):
        up, down = raw.copy(), raw.copy()
        up[k, i] += eps
        down[k, i] -= eps
        (high, gu, _), (low, gd, _) = total_loss(loss, y, w, up), total_loss(loss, y, w, down)
        assert_allclose((high - low) / (2 * eps) / unit, g[k, i], rtol=1e-5, atol=1e-6)
        if not loss.flat:
            assert_allclose((gu[k, i] - gd[k, i]) / (2 * eps), h[k, i], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("loss", made_losses(), ids=lambda loss: type(loss).__name__)
def test_the_start_is_the_best_constant(loss):
    y = some_targets(loss, 61)
    w = np.random.default_rng(3).uniform(0.5, 2, y.size)
    start = loss.initial(y, w)
    if isinstance(loss, Huber):
        return  # the median: its residuals set the width
    best = total_loss(loss, y, w, np.repeat(start[:, None], y.size, axis=1))[0]
    for k in range(loss.outputs):
        for shift in (-1e-3, 1e-3):
            moved = start.copy()
            moved[k] += shift
            assert total_loss(loss, y, w, np.repeat(moved[:, None], y.size, axis=1))[0] >= best


def test_extreme_scores_have_finite_losses_and_gradients():
    raw = np.array([[-800.0, 800.0, -40.0, 0.0]])
    y = np.array([1.0, 0.0, 1.0, 0.0])
    total, g, h = total_loss(Binary(), y, NONE, raw)
    assert_allclose(total, 800 + 800 + 40 + np.log(2))
    assert_allclose(total_loss(Binary(), y, np.full(4, 2.0), raw)[0], 2 * total)
    assert np.isfinite(g).all()
    assert (h >= 0).all()
    assert np.isfinite(total_loss(Poisson(), y, NONE, raw)[0])
    assert np.isfinite(total_loss(Exponential(), y, NONE, raw)[0])
    assert_allclose(total_loss(Multinomial(2), y, NONE, np.vstack([np.zeros(4), raw]))[0], total)


def test_weighted_quantiles_minimise_the_pinball_loss_and_equal_repetition():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(1, 12))
        v, q = rng.integers(0, 6, n).astype(float), float(rng.choice([0.1, 0.25, 0.5, 2 / 3, 0.9]))
        count = rng.integers(1, 4, n)
        found = quantile_of(v, count.astype(float), q)
        long = np.repeat(v, count)
        assert found == quantile_of(long, NONE, q)
        losses = [np.maximum(q * (long - c), (q - 1) * (long - c)).sum() for c in (*v, found)]
        assert losses[-1] <= min(losses) + 1e-9
        assert quantile_of(v, NONE, 0.5) == np.median(v)


def test_huber_centres_minimise_their_loss():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n, width = int(rng.integers(1, 40)), float(rng.uniform(0.01, 2))
        v, w = rng.standard_t(1.5, n) + 3, rng.uniform(0.1, 2, n)
        out = np.zeros(1)
        huber_centres(np.array([0, n]), v, w, 0, 1, width, out)
        push = (w * np.clip(v - out[0], -width, width)).sum()
        assert abs(push) <= 1e-9 * width * w.sum() + 1e-12 * abs(out[0]) * w.sum()


@pytest.mark.parametrize("loss", ["absolute_error", "quantile", "huber"])
def test_renewed_leaves_are_the_best_constants_of_their_rows(loss):
    X, y = numbers()
    w = np.random.default_rng(4).uniform(0.5, 2, len(y))
    model = GradientBoostingRegressor(loss, n_estimators=1, learning_rate=1.0, quantile=0.8).fit(X, y, w)
    width = quantile_of(np.abs(y - model.initial_[0]), w, 0.9)

    def cost(c, rows):
        r = y[rows] - c
        if loss == "huber":
            a = np.abs(r)
            return (w[rows] * np.where(a <= width, a * a / 2, width * (a - width / 2))).sum()
        q = 0.8 if loss == "quantile" else 0.5
        return (w[rows] * np.maximum(q * r, (q - 1) * r)).sum()

    leaves = model.apply(X)[:, 0]
    for leaf in np.unique(leaves):
        rows = leaves == leaf
        here = model.predict(X[rows][:1])[0]
        best = optimize.minimize_scalar(cost, bounds=(y[rows].min(), y[rows].max()), args=(rows,), method="bounded")
        assert cost(here, rows) <= best.fun + 1e-9


@pytest.mark.parametrize("loss", LOSSES)
def test_training_loss_never_rises_for_regression(loss):
    X, y = target(loss)
    for settings in ({}, {"quantile": 0.9, "alpha": 0.7, "max_leaf_nodes": 4, "min_samples_leaf": 2}):
        model = GradientBoostingRegressor(loss, n_estimators=200, learning_rate=0.1, **settings).fit(X, y)
        assert (np.diff(model.train_score_) <= 1e-12).all()


@pytest.mark.parametrize(("k", "loss"), [(2, "log_loss"), (2, "exponential"), (4, "log_loss")])
def test_training_loss_never_rises_for_classification(k, loss):
    X, y = classes(k)
    model = GradientBoostingClassifier(loss, n_estimators=100, learning_rate=0.1).fit(X, y)
    assert (np.diff(model.train_score_) <= 1e-12).all()


def test_reported_losses_are_those_of_the_predictions():
    X, y = target("poisson")
    model = GradientBoostingRegressor("poisson").fit(X, y)
    assert_allclose(model.train_score_[-1], mean_poisson_deviance(y, model.predict(X)))
    staged = [mean_poisson_deviance(y, f) for f in model.staged_predict(X)]
    assert_allclose(model.train_score_, staged)
    X, y = numbers()
    model = GradientBoostingRegressor("quantile", quantile=0.2).fit(X, y)
    assert_allclose(model.train_score_[-1], mean_pinball_loss(y, model.predict(X), alpha=0.2))
    for k in (2, 3):
        X, y = classes(k)
        w = np.random.default_rng(0).uniform(0, 2, len(y))
        model = GradientBoostingClassifier(n_estimators=20).fit(X, y, w)
        assert_allclose(model.train_score_[-1], log_loss(y, model.predict_proba(X), sample_weight=w))


def test_quantiles_cover_their_share():
    X, y = numbers(4000)
    model = GradientBoostingRegressor("quantile", quantile=0.9, max_leaf_nodes=4, min_samples_leaf=100)
    model.fit(X[:2000], y[:2000])
    # 2000 Bernoulli draws have a standard error of 0.0067; overfitting costs a few points on top.
    assert 0.86 < np.mean(y[2000:] <= model.predict(X[2000:])) < 0.93


# Against peers.


def test_held_out_error_is_that_of_scikit_learn():
    X, y = numbers(4000)
    ours = GradientBoostingRegressor().fit(X[:2000], y[:2000])
    peer = HistGradientBoostingRegressor(early_stopping=False)
    with threads.one_openmp_thread():
        peer.fit(X[:2000], y[:2000])
    gap = (ours.predict(X[2000:]) - y[2000:]) ** 2 - (peer.predict(X[2000:]) - y[2000:]) ** 2
    # Paired differences of 2000 rows: four standard errors, a false alarm rate below 1e-4.
    assert abs(gap.mean()) <= 4 * gap.std() / np.sqrt(gap.size) + 1e-3
    for k in (2, 4):
        X, c = classes(k, 4000)
        ours = GradientBoostingClassifier(n_estimators=30).fit(X[:2000], c[:2000])
        peer = HistGradientBoostingClassifier(max_iter=30, early_stopping=False)
        with threads.one_openmp_thread():
            peer.fit(X[:2000], c[:2000])
        rows = np.arange(2000)
        gap = np.log(peer.predict_proba(X[2000:])[rows, c[2000:]] / ours.predict_proba(X[2000:])[rows, c[2000:]])
        assert abs(gap.mean()) <= 4 * gap.std() / np.sqrt(gap.size) + 1e-3


# Weights, threads, random numbers.


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_equal_repetition(loss):
    X, y = target(loss, 150)
    count = np.random.default_rng(0).integers(0, 4, len(y))
    model = GradientBoostingRegressor(loss, n_estimators=20, min_samples_leaf=15)
    weighted = clone(model).fit(X, y, count)
    repeated = clone(model).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-7, atol=1e-9)
    assert_allclose(weighted.train_score_, repeated.train_score_, rtol=1e-7)


@pytest.mark.parametrize("k", [2, 3])
def test_weights_equal_repetition_for_classes(k):
    X, y = classes(k, 150)
    count = np.random.default_rng(0).integers(0, 4, len(y))
    for leaf in (1, 15):
        model = GradientBoostingClassifier(n_estimators=20, min_samples_leaf=leaf)
        weighted = clone(model).fit(X, y, count)
        repeated = clone(model).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
        assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", [*LOSSES, "log_loss"])
def test_only_ratios_of_weights_count(loss):
    """The unit of weights changes nothing, nor does a number that is not quite whole; with limits that bind."""
    X, y = classes(2, 150) if loss == "log_loss" else target(loss, 150)
    X = np.column_stack([X, np.random.default_rng(1).integers(0, 6, len(y))])  # a column of categories
    kind = GradientBoostingClassifier if loss == "log_loss" else GradientBoostingRegressor
    settings = {"min_samples_leaf": 5, "min_child_weight": 3.0, "l2_regularization": 0.5, "categorical_features": [4]}
    model = kind(loss, n_estimators=20, **settings)
    count = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)

    def answer(w):
        fit = clone(model).fit(X, y, w)
        return fit.predict_proba(X)[:, 1] if loss == "log_loss" else fit.predict(X)

    plain = answer(count)
    assert_array_equal(answer(2.0**-40 * count), plain)
    for factor in (7.3, 1e-6, 1e200, 1e-200):
        assert_allclose(answer(factor * count), plain, rtol=1e-9, atol=1e-11)
    if loss in ("squared_error", "poisson", "log_loss"):  # a weighted median jumps where just half the weight is below
        assert_allclose(answer(np.where(count == 3, 3.0000001, count)), plain, rtol=1e-5, atol=1e-6)
    assert_array_equal(answer(np.full(len(y), 3.0)), answer(None))
    assert_array_equal(answer(np.full(len(y), 3.0000001)), answer(None))


@pytest.mark.parametrize("kind", [GradientBoostingRegressor, GradientBoostingClassifier])
def test_the_unit_of_weights_changes_nothing_where_words_are_short(kind):
    X, y = numbers(34_000) if kind is GradientBoostingRegressor else classes(2, 34_000)
    count = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    plain, other, near = (
        kind(n_estimators=4, max_leaf_nodes=8).fit(X, y, w) for w in (count, 7.3 * count, count + 1e-9 * (count == 3))
    )
    for model in (other, near):
        assert_array_equal(model.nodes_.feature, plain.nodes_.feature)
        assert_array_equal(model.nodes_.threshold, plain.nodes_.threshold)
        assert_allclose(model.nodes_.value, plain.nodes_.value, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", [GradientBoostingRegressor, GradientBoostingClassifier])
def test_leaves_hold_the_rows_and_the_weight_asked_for(kind):
    X, y = numbers(200) if kind is GradientBoostingRegressor else classes(2, 200)
    w = np.random.default_rng(0).uniform(1, 3, 200)
    for unit in (1.0, 1e-6):
        model = kind(n_estimators=5, min_samples_leaf=12).fit(X, y, unit * w)
        for leaf in model.apply(X).T:
            assert min(w[leaf == k].sum() for k in np.unique(leaf)) >= 12 * w.min() - 0.5
        if kind is GradientBoostingRegressor:  # 30 rows of mean weight
            heavy = kind(n_estimators=5, min_samples_leaf=1, min_child_weight=30.0).fit(X, y, unit * w)
            for leaf in heavy.apply(X).T:
                assert min(w[leaf == k].sum() for k in np.unique(leaf)) >= 30 * w.mean() * (1 - 1e-8)
    # Weights far apart do not switch the limit off: a row of mean weight counts as four.
    w = np.random.default_rng(0).exponential(size=200) ** 3
    model = kind(n_estimators=5, min_samples_leaf=12).fit(X, y, w)
    for leaf in model.apply(X).T:
        assert min(w[leaf == k].sum() for k in np.unique(leaf)) >= 0.9 * 12 * w.mean() / 4


@FEW_TREES
def test_weights_equal_repetition_in_cross_validation():
    X, y = classes(2, 150)
    count = np.random.default_rng(0).integers(0, 4, len(y))
    groups = np.arange(len(y)) % 3
    long = np.repeat(groups, count)
    model = GradientBoostingClassifier(n_estimators=20, early_stopping="cv")
    pairs = [[(np.flatnonzero(g != k), np.flatnonzero(g == k)) for k in range(3)] for g in (groups, long)]
    weighted = clone(model).set_params(cv=pairs[0]).fit(X, y, count)
    repeated = clone(model).set_params(cv=pairs[1]).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    assert_allclose(weighted.cv_curve_.estimate, repeated.cv_curve_.estimate)
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-6, atol=1e-8)


def test_class_weights_are_weights():
    X, y = classes(3)
    mass = np.bincount(y) / len(y)
    balanced = GradientBoostingClassifier(n_estimators=10, class_weight="balanced").fit(X, y)
    by_hand = GradientBoostingClassifier(n_estimators=10).fit(X, y, (1 / (3 * mass))[y])
    assert_allclose(balanced.predict_proba(X), by_hand.predict_proba(X))
    doubled = GradientBoostingClassifier(n_estimators=10, class_weight={2: 2.5}).fit(X, y)
    by_hand = GradientBoostingClassifier(n_estimators=10).fit(X, y, np.where(y == 2, 2.5, 1.0))
    assert_allclose(doubled.predict_proba(X), by_hand.predict_proba(X))


SETTINGS = [
    (GradientBoostingRegressor, {"subsample": 0.7, "max_features": 0.5}),
    (GradientBoostingRegressor, {"loss": "absolute_error"}),
    (GradientBoostingRegressor, {"loss": "huber", "monotonic_cst": [0, 1, 0, 0]}),
    (GradientBoostingRegressor, {"early_stopping": "cv", "cv": 3}),
    (GradientBoostingClassifier, {"early_stopping": True}),
]


@FEW_TREES
@pytest.mark.parametrize(("kind", "settings"), SETTINGS, ids=str)
def test_n_jobs_never_changes_a_bit(kind, settings):
    n = 66_000  # three blocks of rows, and cells enough for several threads
    X, y = numbers(n) if kind is GradientBoostingRegressor else classes(3, n)
    seen = []
    for n_jobs in (None, 2, 3):
        model = kind(n_estimators=15, random_state=0, n_jobs=n_jobs, **settings).fit(X, y)
        fields = [model.nodes_.value, model.nodes_.threshold, model.nodes_.feature, model.train_score_]
        seen.append([f.tobytes() for f in (*fields, model.predict(X))])
    assert seen[0] == seen[1] == seen[2]


def test_blocks_of_rows_give_the_same_gradients(monkeypatch):
    X, y = classes(3)
    whole = GradientBoostingClassifier(n_estimators=5).fit(X, y)
    monkeypatch.setattr(_stages, "BLOCK", 64)
    assert_array_equal(whole.predict_proba(X), GradientBoostingClassifier(n_estimators=5).fit(X, y).predict_proba(X))


def test_sampling_draws_every_set_with_the_same_chance():
    counts = dict.fromkeys(itertools.combinations(range(5), 2), 0)
    rng = np.random.default_rng(0)
    for _ in range(5000):
        chosen = np.empty(2, dtype=np.int32)
        _stages._choose(rng.random(5), chosen)
        counts[tuple(chosen.tolist())] += 1
    seen = np.array(list(counts.values()))
    # Chi-square with 9 degrees of freedom: beyond 37.3 once in 4e4.
    assert ((seen - 500) ** 2 / 500).sum() < 37.3


def test_subsampling_depends_on_the_seed_alone_and_helps_no_training_row_twice():
    X, y = numbers()
    fit = {s: GradientBoostingRegressor(subsample=0.5, max_features=2, random_state=s).fit(X, y) for s in (0, 1)}
    again = GradientBoostingRegressor(subsample=0.5, max_features=2, random_state=0).fit(X, y)
    assert_array_equal(fit[0].predict(X), again.predict(X))
    assert (fit[0].predict(X) != fit[1].predict(X)).any()
    root = fit[0].nodes_.rows[fit[0].nodes_.starts[:-1]]
    assert (root == 200).all()
    for k in range(20):
        used = fit[0].nodes_.tree(k).feature
        assert np.unique(used[used >= 0]).size <= 2


def test_warm_start_goes_on_as_if_it_had_never_stopped():
    for kind, (X, y) in ((GradientBoostingRegressor, numbers()), (GradientBoostingClassifier, classes(3))):
        settings = {"subsample": 0.6, "random_state": 3}
        once = kind(n_estimators=12, **settings).fit(X, y)
        twice = kind(n_estimators=5, warm_start=True, **settings).fit(X, y).set_params(n_estimators=12).fit(X, y)
        assert_array_equal(once.predict(X), twice.predict(X))
        assert_allclose(once.train_score_, twice.train_score_)
        with pytest.raises(ParameterError, match="less than the 12 trees"):
            twice.set_params(n_estimators=3).fit(X, y)
        with pytest.raises(ParameterError, match="cannot continue"):
            twice.set_params(n_estimators=30, early_stopping="cv").fit(X, y)


# The number of trees.


def test_early_stopping_stops_and_keeps_the_best():
    X, y = numbers(300, noise=2.0)
    model = GradientBoostingRegressor(n_estimators=500, early_stopping=True, random_state=0).fit(X, y)
    assert model.n_estimators_ < 100
    assert model.n_estimators_ == np.argmin(model.validation_score_) + 1 == model.validation_score_.size
    assert model.train_score_.size == model.n_estimators_ == model.nodes_.trees
    held = model._rows_to_hold_out(np.arange(300), None, None)
    assert held.sum() == 30
    assert_allclose(model.validation_score_[-1], np.mean((y[held] - model.predict(X[held])) ** 2))
    assert_array_equal(
        model.predict(X),
        GradientBoostingRegressor(n_estimators=model.n_estimators_).fit(X[~held], y[~held]).predict(X),
    )


def test_held_out_classes_keep_their_shares():
    y = np.repeat([0, 1, 2], [200, 80, 20])
    chosen = _stages.share_of(300, 0.1, y, np.random.default_rng(0))
    assert_array_equal(np.bincount(y[chosen]), [20, 8, 2])


@pytest.mark.parametrize("rule", ["min", "1se"])
def test_the_number_of_trees_by_cross_validation_equals_separate_fits(rule):
    X, y = numbers(200, noise=1.0)
    folds = KFold(4, shuffle=True, random_state=0)
    model = GradientBoostingRegressor(n_estimators=25, learning_rate=0.2, early_stopping="cv", cv=folds, rule=rule)
    model.fit(X, y)
    errors = np.empty((4, 25))
    for k, (train, test) in enumerate(folds.split(X)):
        for B in range(1, 26):
            fit = GradientBoostingRegressor(n_estimators=B, learning_rate=0.2).fit(X[train], y[train])
            errors[k, B - 1] = np.mean((y[test] - fit.predict(X[test])) ** 2)
    mean, error = errors.mean(axis=0), errors.std(axis=0, ddof=1) / 2
    assert_allclose(model.cv_curve_.estimate, mean)
    assert_allclose(model.cv_curve_.std_error, error)
    best = int(np.argmin(mean))
    chosen = best if rule == "min" else int(np.argmax(mean <= mean[best] + error[best]))
    assert model.n_estimators_ == chosen + 1
    again = GradientBoostingRegressor(n_estimators=chosen + 1, learning_rate=0.2).fit(X, y)
    assert_array_equal(model.predict(X), again.predict(X))
    assert "1se at" in str(model.cv_curve_)


@pytest.mark.parametrize("patience", [1, 5, 30])
def test_folds_stop_together_when_their_mean_stalls(patience):
    X, y = numbers(200, noise=1.0)
    folds = KFold(4, shuffle=True, random_state=0)
    options = {"n_estimators": 150, "learning_rate": 0.2, "early_stopping": "cv", "cv": folds}
    whole = GradientBoostingRegressor(n_iter_no_change=None, **options).fit(X, y)
    model = GradientBoostingRegressor(n_iter_no_change=patience, n_jobs=2, **options).fit(X, y)
    mean = whole.cv_curve_.estimate
    assert mean.size == 150
    best = np.minimum.accumulate(mean)
    stop = next(t for t in range(patience + 1, 151) if mean[t - patience : t].min() > best[t - patience - 1] - 1e-7)
    assert_allclose(model.cv_curve_.estimate, mean[:stop])
    assert model.n_estimators_ == np.argmin(mean[:stop]) + 1


@pytest.mark.parametrize("stopping", ["cv", True])
def test_held_out_rows_are_predicted_by_trees_that_have_not_seen_them(stopping):
    X, y = classes(3, 200)
    folds = StratifiedKFold(4)
    model = GradientBoostingClassifier(n_estimators=60, early_stopping=stopping, cv=folds, random_state=0).fit(X, y)
    rows, found = model.held_out_rows_, model.held_out_prediction_
    if stopping == "cv":
        for train, test in folds.split(X, y):
            fit = GradientBoostingClassifier(n_estimators=model.n_estimators_).fit(X[train], y[train])
            assert_allclose(found[np.isin(rows, test)], fit.predict_proba(X[test]), rtol=1e-9)
    else:
        assert rows.size == 20
        assert_allclose(found, model.predict_proba(X[rows]), rtol=1e-12)
    with pytest.raises(AttributeError, match="no row was held out"):
        _ = GradientBoostingClassifier(n_estimators=2).fit(X, y).held_out_rows_


@FEW_TREES
def test_folds_by_number_are_stratified_for_classes():
    X, y = classes(3, 150)
    order = np.argsort(y, kind="stable")
    model = GradientBoostingClassifier(n_estimators=5, early_stopping="cv", cv=5).fit(X[order], y[order])
    assert model.cv_curve_.estimate[-1] < np.log(3)


# Constraints.


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("growth", ["leaf", "depth"])
def test_constrained_predictions_are_monotone(loss, growth):
    X, y = target(loss)
    model = GradientBoostingRegressor(
        loss, n_estimators=60, min_samples_leaf=3, growth=growth, monotonic_cst={0: 1, 1: -1}
    ).fit(X, y)
    grid = np.linspace(-2, 2, 80)
    for row in X[:25]:
        for j, sign in ((0, 1), (1, -1)):
            path = np.tile(row, (80, 1))
            path[:, j] = grid
            assert (sign * np.diff(model.predict(path)) >= -1e-12).all()


def test_constrained_probabilities_are_monotone():
    X, y = classes(2)
    model = GradientBoostingClassifier(min_samples_leaf=3, monotonic_cst=[1, 0, 0, 0]).fit(X, y)
    path = np.tile(X[:20], (80, 1))
    path[:, 0] = np.repeat(np.linspace(-2, 2, 80), 20)
    steps = np.diff(model.predict_proba(path)[:, 1].reshape(80, 20), axis=0)
    assert (steps >= -1e-12).all()


def test_growth_limits_hold():
    X, y = numbers()
    for growth in ("leaf", "depth"):
        model = GradientBoostingRegressor(
            n_estimators=5, growth=growth, max_leaf_nodes=6, max_depth=3, min_samples_leaf=7
        ).fit(X, y)
        for k in range(5):
            tree = model.nodes_.tree(k)
            assert tree.leaves <= 6
            assert tree.depth().max() <= 3
            assert tree.rows[tree.feature < 0].min() >= 7
    heavy = GradientBoostingRegressor(n_estimators=5, min_child_weight=60.0, min_samples_leaf=1).fit(X, y)
    assert heavy.nodes_.rows[heavy.nodes_.feature < 0].min() >= 60
    free = GradientBoostingRegressor(n_estimators=1, max_leaf_nodes=None, min_samples_leaf=1, learning_rate=1.0)
    assert_allclose(free.fit(X, y).predict(X), y)
    shrunk = GradientBoostingRegressor(n_estimators=1, l2_regularization=1e6).fit(X, y)
    assert np.ptp(shrunk.predict(X)) < 1e-3


# Answers.


@pytest.mark.parametrize("k", [2, 4])
def test_probabilities_scores_and_stages_agree(k):
    X, y = classes(k)
    names = np.array(list("abcd"))[:k]
    model = GradientBoostingClassifier(n_estimators=10).fit(X, names[y])
    p, score = model.predict_proba(X), model.decision_function(X)
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert_allclose(np.exp(model.predict_log_proba(X)), p)
    assert_array_equal(model.predict(X), names[p.argmax(axis=1)])
    if k == 2:
        assert_allclose(p[:, 1], 1 / (1 + np.exp(-score)))
    else:
        assert_allclose(p, np.exp(score) / np.exp(score).sum(axis=1, keepdims=True))
    assert_array_equal(list(model.staged_predict_proba(X))[-1], p)
    assert_array_equal(list(model.staged_decision_function(X))[-1], score)
    assert_array_equal(list(model.staged_predict(X))[-1], model.predict(X))
    stages = list(model.staged_predict_proba(X))
    assert len(stages) == 10
    assert_allclose(log_loss(y, stages[3]), model.train_score_[3])


def test_leaves_add_up_to_the_prediction():
    X, y = numbers()
    model = GradientBoostingRegressor(n_estimators=7).fit(X, y)
    leaves = model.apply(X)
    assert leaves.shape == (400, 7)
    parts = [model.nodes_.tree(k).value[leaves[:, k], 0] for k in range(7)]
    assert_allclose(model.initial_[0] + np.sum(parts, axis=0), model.predict(X))
    X, c = classes(3)
    assert GradientBoostingClassifier(n_estimators=4).fit(X, c).apply(X).shape == (400, 4, 3)


def test_exponential_probabilities_are_calibrated_like_log_odds():
    X, y = classes(2)
    model = GradientBoostingClassifier("exponential", n_estimators=20).fit(X, y)
    assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-2 * model.decision_function(X))))
    assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


def test_relative_influence_names_the_columns_that_matter():
    X, y = numbers()
    table = pd.DataFrame(X, columns=["square", "product", "switch", "noise"])
    model = GradientBoostingRegressor(n_estimators=30).fit(table, y)
    found = model.relative_influence()
    assert_allclose(found.influence.sum(), 100)
    assert found.to_frame().index[0] == "square"
    assert found.to_frame().index[-1] == "noise"
    assert_allclose(model.feature_importances_, found.influence / 100)
    assert "square" in str(found)
    assert found.splits.sum() == (model.nodes_.feature >= 0).sum()
    flat = GradientBoostingRegressor(n_estimators=2).fit(X[:30], y[:30])
    assert_array_equal(flat.feature_importances_, 0)
    assert_array_equal(flat.relative_influence().influence, 0)


def test_partial_dependence_of_one_and_two_columns():
    X, y = numbers(600)
    model = GradientBoostingRegressor().fit(X, y)
    one = partial_dependence(model, X, 0, grid=[-1.5, 0.0, 1.5])
    assert_allclose(np.diff(one.average[0]), [-2.25, 2.25], atol=0.4)
    two = partial_dependence(model, X, [0, 1], grid=5)
    assert two.average.shape == (1, 5, 5)
    X, c = classes(3)
    shares = partial_dependence(GradientBoostingClassifier(n_estimators=10).fit(X, c), X, 0, grid=4)
    assert_allclose(shares.average.sum(axis=0), 1.0)


# Tables as they come.


def test_text_categories_and_gaps_need_no_preparation():
    rng = np.random.default_rng(0)
    n = 600
    table = pd.DataFrame(
        {
            "town": rng.choice(["Oslo", "Bergen", "Trondheim", None], n),
            "size": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "grade": pd.Categorical(rng.choice(["low", "mid", "high"], n), ["low", "mid", "high"], ordered=True),
        }
    )
    effect = table["town"].map({"Oslo": 2.0, "Bergen": -1.0, "Trondheim": 0.5}).fillna(-3.0)
    y = effect + table["size"].fillna(4.0) + table["grade"].cat.codes + rng.normal(0, 0.1, n)
    model = GradientBoostingRegressor(monotonic_cst={"grade": 1}).fit(table, y)
    assert model.score(table, y) > 0.98
    strange = table.head(3).assign(town="Narvik")
    missing = table.head(3).assign(town=None)
    assert_array_equal(model.predict(strange), model.predict(missing))
    c = np.where(y > y.median(), "much", "little")
    assert GradientBoostingClassifier().fit(table, c).score(table, c) > 0.95


def test_more_bins_than_values_and_columns_without_any_difference():
    X = np.repeat([[0.0, 5.0], [1.0, 5.0]], 30, axis=0)
    y = np.repeat([1.0, 3.0], 30)
    model = GradientBoostingRegressor(max_bins=255, n_estimators=200).fit(X, y)
    assert_allclose(model.predict([[0.0, 5.0], [1.0, 7.0]]), [1, 3], atol=1e-6)
    flat = GradientBoostingRegressor().fit(np.ones((50, 2)), np.arange(50.0))
    assert_allclose(flat.predict([[1.0, 1.0]]), 24.5)
    constant = GradientBoostingRegressor("huber").fit(X, np.ones(60))
    assert_allclose(constant.predict(X), 1.0)


def test_an_outlier_moves_robust_losses_little():
    X, y = numbers(500)
    spoiled = y.copy()
    spoiled[::50] += 1e4
    clean = np.random.default_rng(9).uniform(-2, 2, size=(500, 4))
    truth = clean[:, 0] ** 2 + clean[:, 1] * (clean[:, 2] > 0)
    for loss in ("absolute_error", "huber"):
        model = GradientBoostingRegressor(loss).fit(X, spoiled)
        assert np.mean(np.abs(model.predict(clean) - truth)) < 0.5


# Bad input.


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"monotonic_cst": [1, 2, 0, 0]}, "use 1 for rising"),
        ({"monotonic_cst": [1, 0]}, "2 entries for 4 columns"),
        ({"monotonic_cst": {"nowhere": 1}}, "unknown column"),
        ({"max_features": 9}, "more than the 4 columns"),
        ({"max_bins": 1}, "max_bins"),
        ({"loss": "deviance"}, "loss"),
        ({"quantile": 1.0}, "quantile"),
        ({"n_estimators": 0}, "n_estimators"),
    ],
    ids=str,
)
def test_impossible_parameters_are_refused(settings, words):
    X, y = numbers(60)
    with pytest.raises(ParameterError, match=words):
        GradientBoostingRegressor(**settings).fit(X, y)


def test_impossible_data_are_refused():
    X, y = numbers(60)
    holes = y.copy()
    holes[7] = np.nan
    for kind in (GradientBoostingRegressor, GradientBoostingClassifier):
        with pytest.raises(DataError, match="NaN in row 7"):
            kind().fit(X, holes)
        with pytest.raises(DataError, match="sample_weight contains -1 in row 3"):
            kind().fit(X, np.arange(60) % 2, np.where(np.arange(60) == 3, -1.0, 1.0))
    with pytest.raises(DataError, match="negative value -2 in row 5"):
        GradientBoostingRegressor("poisson").fit(X, np.where(np.arange(60) == 5, -2.0, 1.0))
    with pytest.raises(DataError, match="every y is 0"):
        GradientBoostingRegressor("poisson").fit(X, np.zeros(60))
    with pytest.raises(DataError, match="only one class"):
        GradientBoostingClassifier().fit(X, np.ones(60))
    with pytest.raises(DataError, match="two classes"):
        GradientBoostingClassifier("exponential").fit(X, np.arange(60) % 3)
    with pytest.raises(ParameterError, match="needs two classes"):
        GradientBoostingClassifier(monotonic_cst=[1, 0, 0, 0]).fit(X, np.arange(60) % 3)
    with pytest.raises(ParameterError, match="not a class"):
        GradientBoostingClassifier(class_weight={7: 1.0}).fit(X, np.arange(60) % 3)
    with pytest.raises(DataError, match="leaves one part empty"):
        GradientBoostingRegressor(early_stopping=True).fit(X[:5], y[:5])
    with pytest.raises(DataError, match="5 folds"):
        GradientBoostingRegressor(early_stopping="cv").fit(X[:3], y[:3])
    one = GradientBoostingRegressor().fit(X[:1], y[:1])
    assert_allclose(one.predict(X), y[0])


@pytest.mark.parametrize("weighted", [False, True])
def test_a_loss_does_not_depend_on_where_its_rows_lie_in_memory(weighted):
    steps = {
        "squared": lambda y, w, raw, g, h: _loss_steps.squared_step(y, w, raw, g),
        "pinball": lambda y, w, raw, g, h: _loss_steps.pinball_step(y, w, raw, g, 0.3, 1.0),
        "huber": lambda y, w, raw, g, h: _loss_steps.huber_step(y, w, raw, g, 0.7, 0.9),
        "poisson": lambda y, w, raw, g, h: _loss_steps.poisson_step(y, w, raw, g, h),
        "binary": lambda y, w, raw, g, h: _loss_steps.binary_step(y, w, raw, g, h),
        "exponential": lambda y, w, raw, g, h: _loss_steps.exponential_step(y, w, g, h),
    }
    rng, room = np.random.default_rng(0), np.empty(1_000)
    for n in (11, 20, 36, 61):
        values = [(rng.random(n) < 0.5).astype(float), rng.random(n), rng.normal(size=n), rng.random(n)]
        for name, step in steps.items():
            totals = set()
            for order in itertools.permutations(range(5)):
                y, w, raw, h, g = (room[k * n : (k + 1) * n] for k in order)
                for place, given in zip((y, w, raw, h), values, strict=True):
                    place[:] = given
                totals.add(step(y, w if weighted else NONE, raw, g, h))
            assert len(totals) == 1, (name, n)
