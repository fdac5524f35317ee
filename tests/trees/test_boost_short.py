"""Short words that hold gradient, hessian and count, and gradients that are worked out with the tree."""

from __future__ import annotations

import numpy as np
import pytest

from assay.numerics.jit import kernel
from assay.trees import GradientBoostingClassifier, GradientBoostingRegressor, _boost, _losses
from assay.trees._binning import bin_table
from assay.trees._boost import BoostLimits, Workspace, grow_boosted
from assay.trees._boost_grow import SHORT_SUM_ROWS
from assay.trees._boost_scan import COUNT_BITS, HESSIAN_BITS, SHORT_BITS, sum_up, unload
from assay.trees._boost_words import EVEN
from assay.trees._loss_steps import _exp_minus_size

FIELDS = ("feature", "threshold", "first", "missing", "value", "rows", "weight", "gain")


def grown(X, g, h, *, short, jobs=1, limits=None, **options):
    levels = [0] * X.shape[1]
    work = Workspace(
        bin_table(X, levels), levels, jobs, shared_work=1, shared_cells=0, short_rows=1 if short else 1 << 40
    )
    nodes, leaf = grow_boosted(work, g[None], h[None], limits or BoostLimits(), **options)
    return nodes, leaf.copy()


def whole_numbers(n, p, seed):
    """A table whose gradients and hessians are whole numbers of a short word's unit, so that nothing is rounded."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)).round(2)
    X[rng.random((n, p)) < 0.05] = np.nan
    most = 1 << SHORT_BITS
    g = np.clip(
        np.rint(600 * (np.nan_to_num(X[:, 0]) * np.nan_to_num(X[:, 1]) + rng.normal(size=n))), 1 - most, most - 1
    )
    h = rng.integers(most // 4, most, size=n).astype(float)
    g[0], h[0] = most - 1, most - 1
    return X, g, h


@pytest.mark.parametrize("jobs", [1, 2, 3])
@pytest.mark.parametrize("n", [300, 20_000])
@pytest.mark.parametrize("sampled", [False, True])
def test_short_words_of_whole_numbers_give_the_same_tree(n, jobs, sampled):
    X, g, h = whole_numbers(n, 6, n)
    options = {"limits": BoostLimits(max_leaves=31, min_leaf=5)}
    if sampled:
        options["rows"] = np.flatnonzero(np.arange(n) % 3 != 1).astype(np.int32)
        options["columns"] = np.array([True, True, False, True, True, True])
    one, leaf = grown(X, g, h, short=True, jobs=jobs, **options)
    two, other = grown(X, g, h, short=False, jobs=1, **options)
    assert one.size > 20
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(one, field), getattr(two, field), field)
    np.testing.assert_array_equal(leaf, other)


@kernel
def _sums(cells, offsets, active, order, packed, short, sums):
    for begin in range(0, order.size, SHORT_SUM_ROWS):
        sum_up(cells, offsets, active, order, begin, min(begin + SHORT_SUM_ROWS, order.size), packed, 1, short)
        unload(short, offsets, active, 20, sums)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("alike", [True, False])
def test_the_largest_words_do_not_spill_over(sign, alike):
    # As many rows as are ever added up at once, all in one bin, with the largest gradient and hessian there can be.
    n, p, top = SHORT_SUM_ROWS + 700, 2, 1 << SHORT_BITS
    assert SHORT_SUM_ROWS < 1 << COUNT_BITS
    rng = np.random.default_rng(0)
    cells = np.zeros((n, p), dtype=np.uint8) if alike else rng.integers(0, 4, size=(n, p)).astype(np.uint8)
    g, h = np.full(n, sign * top), np.full(n, top)
    packed = (((g << HESSIAN_BITS) + h) << COUNT_BITS) + 1
    offsets, active = np.array([0, 4, 8]), np.ones(p, dtype=np.uint8)
    short, sums = np.zeros(8, dtype=np.int64), np.zeros(16, dtype=np.int64)
    _sums(cells.ravel(), offsets, active, np.arange(n, dtype=np.int32), packed, short, sums)
    for j in range(p):
        count = np.bincount(cells[:, j], minlength=4)
        np.testing.assert_array_equal(sums[8 * j : 8 * j + 8 : 2], sign * top * count)
        np.testing.assert_array_equal(sums[8 * j + 1 : 8 * j + 8 : 2], ((top * count) << 20) + count)
    assert not short.any()


def test_splits_by_short_words_are_as_good_to_three_digits():
    # Each word is rounded by at most 2^-13 of the largest; here a tree's summed gain is compared, node for node it may
    # take another of two splits that are as good.
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40_000, 8))
    p = 1 / (1 + np.exp(-X[:, 0] * X[:, 1] - np.sin(3 * X[:, 2])))
    g = p - (rng.random(40_000) < p)
    one, _ = grown(X, g, p * (1 - p), short=True)
    two, _ = grown(X, g, p * (1 - p), short=False)
    assert one.gain[0] == pytest.approx(two.gain[0], rel=1e-3)
    assert one.gain.sum() == pytest.approx(two.gain.sum(), rel=1e-3)


@pytest.mark.parametrize("which", ["gradient", "hessian"])
def test_uneven_rows_keep_long_words(which):
    X, g, h = whole_numbers(5_000, 4, 1)
    (g if which == "gradient" else h)[7] *= 100 * EVEN
    one, _ = grown(X, g, h, short=True)
    two, _ = grown(X, g, h, short=False)
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(one, field), getattr(two, field), field)


@pytest.mark.parametrize("classes", [2, 4])
def test_threads_never_change_a_bit(classes):
    rng = np.random.default_rng(classes)
    X = rng.normal(size=(_boost.SHORT_ROWS + 1_000, 5))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=len(X)), np.linspace(-1, 1, classes - 1))
    models = [GradientBoostingClassifier(n_estimators=6, n_jobs=jobs).fit(X, y) for jobs in (1, 2, 4)]
    expected = models[0].predict_proba(X[:2_000])
    for model in models[1:]:
        np.testing.assert_array_equal(model.predict_proba(X[:2_000]), expected)
        np.testing.assert_array_equal(model.train_score_, models[0].train_score_)


# Gradients worked out with the tree.

LOSSES = {
    "squared": (GradientBoostingRegressor, _losses.Squared, lambda s: s),
    "binary": (GradientBoostingClassifier, _losses.Binary, lambda s: s > 0.3),
    "classes": (GradientBoostingClassifier, _losses.Multinomial, lambda s: np.digitize(s, [-1.0, 0.0, 1.0])),
}


@pytest.mark.parametrize("n", [37, 1_700])
@pytest.mark.parametrize("subsample", [1.0, 0.6])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_worked_out_with_the_tree_are_the_same(name, subsample, n, monkeypatch):
    kind, loss, target = LOSSES[name]
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 4))
    y = target(X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=n))
    model = kind(n_estimators=12, subsample=subsample, min_samples_leaf=3, random_state=0)
    one = model.fit(X, y)
    fused, scores = one.predict_proba(X) if name != "squared" else one.predict(X), one.train_score_
    monkeypatch.setattr(loss, "fused", 0)
    two = model.fit(X, y)
    np.testing.assert_allclose(fused, two.predict_proba(X) if name != "squared" else two.predict(X), rtol=1e-9)
    np.testing.assert_allclose(scores, two.train_score_, rtol=1e-12)


@kernel
def _exponential(x, out):
    _exp_minus_size(x, out)


def test_exponential():
    x = np.concatenate(
        [np.linspace(-707, 707, 100_001), np.random.default_rng(0).normal(size=1_000), [0.0, -0.0, 1e-300]]
    )
    found = np.empty_like(x)
    _exponential(x, found)
    right = np.exp(-np.abs(x))
    assert (np.abs(found - right) <= (4 + np.abs(x) / 5) * 2.0**-52 * right).all()
    edge = np.array([np.nan, np.inf, -np.inf, 800.0])
    found = np.empty(4)
    _exponential(edge, found)
    assert np.isnan(found[0])
    assert (found[1:] == 0).all()
