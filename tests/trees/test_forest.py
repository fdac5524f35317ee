"""Random forests: out-of-bag figures and importances against brute force, noise, weights, and what never changes."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier as PeerClassifier
from sklearn.ensemble import RandomForestRegressor as PeerRegressor

from assay.errors import AssayError, AssayWarning, DataError, ParameterError
from assay.progress import listen
from assay.trees.forest import RandomForestClassifier, RandomForestRegressor
from assay.trees.nodes import UNSEEN

FALSE_ALARM = 1e-6

# Data and oracles.


def numbers(n=120, p=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, 2 * X[:, 0] + X[:, 1] ** 2 + rng.normal(size=n)


def classes(n=120, p=5, seed=0):
    X, y = numbers(n, p, seed)
    return X, np.array(["low", "mid", "high"])[np.digitize(y, [0.0, 2.0])]


def mixed(n=150, seed=0):
    """Numbers with gaps beside text, and a target that needs both."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=n), rng.choice(["red", "green", "blue", "grey"], n)
    y = a + np.where(b == "red", 2.0, 0.0) + np.where(b == "blue", -1.0, 0.0) + 0.3 * rng.normal(size=n)
    a[rng.uniform(size=n) < 0.1] = np.nan
    return pd.DataFrame({"a": a, "b": pd.Series(b, dtype=object), "c": rng.normal(size=n)}), y


def leaf(nodes, tree, x):
    """Down one tree, by the definition of the node layout."""
    t = int(nodes.starts[tree])
    while nodes.feature[t] >= 0:
        value, child = x[nodes.feature[t]], 0
        if np.isnan(value):
            child = nodes.missing[t]
        elif nodes.offset[t] < 0:
            child = int(value > nodes.threshold[t])
        elif nodes.count[t] == 2:
            word = int(nodes.words[nodes.offset[t] + int(value) // 32])
            child = 1 - ((word >> (int(value) % 32)) & 1)
        else:
            found = nodes.words[nodes.offset[t] + int(value)]
            child = nodes.missing[t] if found == UNSEEN else int(found)
        t = int(nodes.first[t]) + int(child)
    return t


def out_of_bag(forest, n):
    return [np.setdiff1d(np.arange(n), rows) for rows in forest.estimators_samples_]


def brute_force(forest, table, majority=False):
    """Sums of the trees' answers about rows they have not seen, tree by tree, and how many there are."""
    n, K = len(table), forest.nodes_.value.shape[1]
    sums, votes, after = np.zeros((n, K)), np.zeros(n), []
    for tree, rows in enumerate(out_of_bag(forest, n)):
        for i in rows:
            value = forest.nodes_.value[leaf(forest.nodes_, tree, table[i])]
            sums[i] += np.eye(K)[np.argmax(value)] if majority else value
            votes[i] += 1
        after.append((sums.copy(), votes.copy()))
    return after


# Out of bag.


def test_a_bootstrap_sample_leaves_out_about_37_rows_in_100():
    X, y = numbers(2000)
    forest = RandomForestRegressor(5, max_depth=2, random_state=0).fit(X, y)
    for rows, out in zip(forest.estimators_samples_, out_of_bag(forest, 2000), strict=True):
        assert rows.size == 2000
        assert abs(out.size / 2000 - (1 - 1 / 2000) ** 2000) < 5.2 * np.sqrt(0.1 / 2000)


@pytest.mark.parametrize("weighted", [False, True])
def test_regression_out_of_bag_is_brute_force(weighted):
    frame, y = mixed()
    w = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else None
    forest = RandomForestRegressor(25, min_samples_leaf=2, random_state=3).fit(frame, y, sample_weight=w)
    after = brute_force(forest, forest._table(frame, reset=False))
    sums, votes = after[-1]
    assert_array_equal(forest.oob_votes_, votes)
    assert_allclose(forest.oob_prediction_, sums[:, 0] / votes, rtol=1e-12)
    for t, (sums, votes) in enumerate(after):
        seen = votes > 0
        loss = (sums[seen, 0] / votes[seen] - y[seen]) ** 2
        weights = np.ones(len(y))[seen] if w is None else w[seen]
        assert_allclose(forest.oob_curve_.estimate[t], np.average(loss, weights=weights), rtol=1e-10)
    assert_allclose(forest.oob_error_.estimate, forest.oob_curve_.estimate[-1])
    if not weighted:
        t = stats.t.ppf(0.975, loss.size - 1) * loss.std(ddof=1) / np.sqrt(loss.size)
        assert_allclose([forest.oob_error_.lower, forest.oob_error_.upper], [loss.mean() - t, loss.mean() + t])
        assert_allclose(forest.oob_score_, 1 - loss.mean() / y.var())
    assert_allclose(forest.oob_curve_.upper[-1], forest.oob_error_.upper, rtol=1e-9)
    assert_allclose(forest.oob_curve_.lower[-1], forest.oob_error_.lower, rtol=1e-9)


@pytest.mark.parametrize("vote", ["probability", "majority"])
def test_classification_out_of_bag_is_brute_force(vote):
    X, y = classes()
    forest = RandomForestClassifier(25, vote=vote, random_state=3).fit(X, y)
    codes = np.searchsorted(forest.classes_, y)
    after = brute_force(forest, X, vote == "majority")
    sums, votes = after[-1]
    assert_allclose(forest.oob_decision_function_, sums / votes[:, None], rtol=1e-12)
    for t, (sums, votes) in enumerate(after):
        wrong = (np.argmax(sums, axis=1) != codes)[votes > 0]
        assert_allclose(forest.oob_curve_.estimate[t], wrong.mean())
    assert forest.oob_error_.method == "Wilson"
    assert_allclose(forest.oob_error_.estimate, wrong.mean())
    assert_allclose(forest.oob_score_, 1 - wrong.mean())
    assert_allclose(forest.oob_curve_.upper[-1], forest.oob_error_.upper)


def test_the_error_says_what_it_estimates_and_what_it_assumes():
    X, y = numbers()
    error = RandomForestRegressor(30, random_state=0).fit(X, y).oob_error_
    assert error.n == 120
    assert error.level == 0.95
    assert "mean squared error on new rows, out of bag" in str(error)
    assert "the trees share rows" in str(error)


def test_the_error_out_of_bag_is_that_on_new_rows():
    """Held-out mean squared error lies within five standard errors (both) of the out-of-bag one, over five samples."""
    for seed in range(5):
        X, y = numbers(800, seed=seed)
        new, target = numbers(4000, seed=100 + seed)
        forest = RandomForestRegressor(60, random_state=seed).fit(X, y)
        loss = (forest.predict(new) - target) ** 2
        spread = np.hypot((forest.oob_error_.upper - forest.oob_error_.estimate) / 1.96, loss.std() / np.sqrt(4000))
        assert abs(loss.mean() - forest.oob_error_.estimate) < 5 * spread


def test_rows_that_every_tree_has_seen_are_named():
    X, y = numbers(40)
    with pytest.warns(AssayWarning, match=r"\d+ of 40 rows were drawn for every tree.*raise n_estimators"):
        forest = RandomForestRegressor(3, oob_score=True, random_state=0).fit(X, y)
    never = forest.oob_votes_ == 0
    assert never.any()
    assert np.isnan(forest.oob_prediction_[never]).all()
    assert forest.oob_error_.n == 40 - never.sum()
    assert f"{never.sum()} of 40 rows were drawn for every tree" in forest.oob_error_.estimand
    RandomForestRegressor(3, random_state=0).fit(X, y)  # "auto" says so in the interval alone


def test_no_row_out_of_bag():
    X, y = numbers(40)
    forest = RandomForestRegressor(5, bootstrap=False).fit(X, y)
    assert not hasattr(forest, "oob_error_")
    with pytest.raises(ParameterError, match=r"every tree is fitted to every row.*bootstrap=True"):
        RandomForestRegressor(5, bootstrap=False, oob_score=True).fit(X, y)
    with pytest.raises(DataError, match="no row is out of bag"):
        forest.permutation_importance(X, y)
    part = RandomForestRegressor(20, bootstrap=False, max_samples=0.5, random_state=0).fit(X, y)
    assert all(np.unique(rows).size == rows.size == 20 for rows in part.estimators_samples_)
    assert part.oob_error_.n == 40
    off = part.set_params(oob_score=False).fit(X, y)
    assert not hasattr(off, "oob_error_")


def test_the_curve_is_drawn():
    X, y = numbers()
    forest = RandomForestRegressor(30, random_state=0).fit(X, y)
    axes = forest.oob_curve_.plot()
    assert axes.get_xlabel() == "trees"
    assert "out-of-bag mean squared error" in axes.get_ylabel()
    assert forest.oob_curve_.to_frame().shape == (30, 4)


# Importance.


def shuffled_by_hand(forest, table, target, w, columns, classification):
    """Every tree's rise of the loss, column by column, with whole rows walked again."""
    nodes, rises = forest.nodes_, []
    answer = np.argmax(nodes.value, axis=1) if classification else nodes.value[:, 0]
    for tree, rows in enumerate(out_of_bag(forest, len(table))):
        donors = rows[np.random.default_rng((int(forest.seeds_[tree]), 1)).permutation(rows.size)]

        def loss(part, tree=tree, rows=rows):
            said = np.array([answer[leaf(nodes, tree, x)] for x in part])
            each = said != target[rows] if classification else (said - target[rows]) ** 2
            return np.average(each, weights=w[rows])

        base, rise = loss(table[rows]), []
        for j in range(columns):
            part = table[rows].copy()
            part[:, j] = table[donors, j]
            rise.append(loss(part) - base)
        rises.append(rise)
    return np.array(rises)


def test_permutation_importance_is_brute_force():
    frame, y = mixed()
    w = np.random.default_rng(1).uniform(0.5, 2, len(y))
    forest = RandomForestRegressor(12, random_state=3).fit(frame, y, sample_weight=w)
    found = forest.permutation_importance(frame, y, w)
    rises = shuffled_by_hand(forest, forest._table(frame, reset=False), y, w, 3, classification=False)
    assert_allclose(found.draws, rises.T, rtol=1e-9, atol=1e-12)
    assert_allclose(found.importance, rises.mean(axis=0), rtol=1e-9)
    assert_allclose(found.tree_error, rises.std(axis=0, ddof=1) / np.sqrt(12), rtol=1e-9)
    assert_allclose(found.scaled, found.importance / found.tree_error)
    assert found.names == ("a", "b", "c")
    assert (found.std_error >= found.tree_error).all()


def test_permutation_importance_of_classes_is_brute_force():
    X, y = classes()
    forest = RandomForestClassifier(12, random_state=3).fit(X, y)
    found = forest.permutation_importance(X, y)
    codes = np.searchsorted(forest.classes_, y)
    rises = shuffled_by_hand(forest, X, codes, np.ones(len(y)), 5, classification=True)
    assert_allclose(found.draws, rises.T, atol=1e-12)
    assert found.metric == "error rate"
    sizes = np.array([[np.sum(codes[rows] == k) for k in range(3)] for rows in out_of_bag(forest, len(y))]).sum(axis=0)
    pooled = (rises * [[rows.size] for rows in out_of_bag(forest, len(y))]).sum(axis=0)
    assert_allclose(found.by_class @ sizes, pooled, atol=1e-9)
    assert list(found.to_frame().columns[-3:]) == ["class high", "class low", "class mid"]


def test_a_column_that_no_tree_uses_is_exactly_zero():
    X, y = numbers()
    X = np.column_stack([X, np.full(len(X), 7.0)])
    found = RandomForestRegressor(10, random_state=0).fit(X, y).permutation_importance(X, y)
    assert found.importance[-1] == found.std_error[-1] == found.lower[-1] == found.upper[-1] == 0.0
    assert found.scaled[-1] == 0.0


def test_repeats_lower_the_spread_over_trees_and_keep_the_mean():
    X, y = numbers(200)
    forest = RandomForestRegressor(40, random_state=0).fit(X, y)
    one, many = (forest.permutation_importance(X, y, n_repeats=k) for k in (1, 20))
    assert many.tree_error[2:].mean() < one.tree_error[2:].mean()
    assert (np.abs(one.importance - many.importance) < 6 * one.tree_error).all()


def test_impurity_importance_adds_up_gains():
    X, y = numbers()
    forest = RandomForestRegressor(7, random_state=0).fit(X, y)
    shares = []
    for k in range(7):
        tree = forest.nodes_.tree(k)
        gain = np.array([tree.gain[tree.feature == j].sum() for j in range(5)])
        shares.append(gain / gain.sum())
    assert_allclose(forest.feature_importances_, np.mean(shares, axis=0), rtol=1e-9)
    found = forest.impurity_importance()
    assert_allclose(found.sd, np.std(shares, axis=0, ddof=1), rtol=1e-9)
    assert found.order[0] == 0
    assert "Impurity importance of 5 columns" in str(found)


def test_importance_prints_and_has_an_interval():
    X, y = numbers()
    found = RandomForestRegressor(30, random_state=0).fit(X, y).permutation_importance(X, y)
    assert found.to_frame().index[0] == "x0"
    assert "Permutation importance of 5 columns for RandomForestRegressor, 30 trees" in str(found)
    assert found.interval.names == found.names
    assert found.lower[0] > 0


def test_importance_needs_the_rows_of_fit():
    X, y = numbers()
    forest = RandomForestRegressor(5, random_state=0).fit(X, y)
    forest.permutation_importance(X.copy(), y.tolist())
    for wrong in ((X[::-1], y), (X, y[::-1]), (X + 1, y), (X[:50], y[:50])):
        with pytest.raises(DataError, match="differ from those of fit"):
            forest.permutation_importance(*wrong)
    with pytest.raises(DataError, match="differ from those of fit"):
        forest.permutation_importance(X, y, np.ones(len(y)))
    with pytest.raises(ParameterError, match="level"):
        forest.permutation_importance(X, y, level=2)


# Noise.


def test_on_noise_intervals_of_importance_cover_zero():
    """Nominal 95% intervals for noise in 40 samples.

    A sample counts as a miss when the first column's interval misses zero. Even if the true rate were 10%, double the
    nominal, the bound fails with probability below 1e-6; intervals over trees alone miss far more often.
    """
    missed = alone = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(120, 5)), rng.normal(size=120)
        found = RandomForestRegressor(100, random_state=seed).fit(X, y).permutation_importance(X, y)
        missed += not found.lower[0] <= 0 <= found.upper[0]
        alone += abs(found.scaled[0]) > 1.98
    assert missed <= stats.binom.isf(FALSE_ALARM, 40, 0.10)
    assert missed <= alone


def test_on_noise_the_error_out_of_bag_is_that_of_guessing():
    """Fair coins: the error is near a half. Each row's vote depends on others, so the bound takes n / 2 rows."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 5)), rng.integers(0, 2, 1000)
    error = RandomForestClassifier(100, random_state=0).fit(X, y).oob_error_.estimate
    assert abs(error - 0.5) < stats.norm.isf(FALSE_ALARM / 2) * 0.5 / np.sqrt(500)
    y = rng.normal(size=1000)
    forest = RandomForestRegressor(100, random_state=0).fit(X, y)
    assert 0.95 * y.var() < forest.oob_error_.estimate < 1.25 * y.var()


# What never changes an answer.


@pytest.mark.parametrize("kind", [RandomForestRegressor, RandomForestClassifier])
def test_jobs_never_change_a_result(kind):
    X, y = numbers(400) if kind is RandomForestRegressor else classes(400)
    one, two = (kind(20, random_state=5, n_jobs=jobs).fit(X, y) for jobs in (1, 3))
    for name, value in vars(one.nodes_).items():
        assert_array_equal(value, getattr(two.nodes_, name), err_msg=name)
    assert one.oob_error_ == two.oob_error_
    assert_array_equal(one.oob_curve_.lower, two.oob_curve_.lower)
    assert_array_equal(one.predict(X), two.predict(X))
    a, b = one.permutation_importance(X, y), two.permutation_importance(X, y)
    assert_array_equal(a.upper, b.upper)


def test_trees_can_be_added():
    X, y = classes()
    whole = RandomForestClassifier(12, random_state=5).fit(X, y)
    grown = RandomForestClassifier(4, random_state=5, warm_start=True).fit(X, y)
    grown.set_params(n_estimators=12).fit(X, y)
    for name, value in vars(whole.nodes_).items():
        assert_array_equal(value, getattr(grown.nodes_, name), err_msg=name)
    assert_array_equal(whole.oob_decision_function_, grown.oob_decision_function_)
    with pytest.raises(ParameterError, match="n_estimators = 3, but warm_start keeps the 12 trees"):
        grown.set_params(n_estimators=3).fit(X, y)
    with pytest.raises(DataError, match="already fitted have"):
        grown.set_params(n_estimators=14).fit(X, np.where(y == "mid", "low", y))
    other = grown.fit(X[:100], y[:100])
    assert not hasattr(other, "oob_error_")
    with pytest.raises(DataError, match="differ from those of fit"):
        other.permutation_importance(X[:100], y[:100])


def test_pickles_answer_alike():
    X, y = classes()
    forest = RandomForestClassifier(5, vote="majority", random_state=0).fit(X, y)
    assert_array_equal(pickle.loads(pickle.dumps(forest)).predict_proba(X), forest.predict_proba(X))


# Weights.


@pytest.mark.parametrize("kind", [RandomForestRegressor, RandomForestClassifier])
def test_without_draws_weights_equal_repetition(kind):
    X, y = numbers(60) if kind is RandomForestRegressor else classes(60)
    counts = np.random.default_rng(0).integers(0, 4, 60)
    setting = {"bootstrap": False, "max_features": None, "random_state": 0}
    weighted = kind(2, **setting).fit(X, y, sample_weight=counts)
    repeated = kind(2, **setting).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    ask = "predict" if kind is RandomForestRegressor else "predict_proba"
    assert_allclose(getattr(weighted, ask)(X), getattr(repeated, ask)(X), rtol=1e-9)


def test_a_bootstrap_draws_rows_by_their_weights():
    """Mean counts over 4,000 draws are weights, within six standard errors (false alarm below 1e-6 for 20 rows)."""
    w = np.r_[np.zeros(5), np.arange(1.0, 16.0)]
    for scale, size in ((1.0, 120), (0.5, 15)):  # whole numbers stand for rows, others do not
        rows = RandomForestRegressor()._row_sampler(20, w * scale)
        assert rows.size == size
        counts = np.array([rows.counts(seed) for seed in range(4_000)])
        share = w / w.sum()
        spread = np.sqrt(size * share * (1 - share) / 4_000)
        assert (np.abs(counts.mean(axis=0) - size * share) <= 6 * spread).all()


def test_a_row_without_weight_is_a_row_that_is_not_there():
    X, y = numbers(80)
    w = np.ones(80)
    w[::4] = 0.0
    wild = X.copy()
    wild[::4] *= 50
    a = RandomForestRegressor(10, random_state=0).fit(wild, y, sample_weight=w)
    b = RandomForestRegressor(10, random_state=0).fit(X[w > 0], y[w > 0])
    assert_allclose(a.predict(X), b.predict(X), rtol=1e-12)
    assert_allclose(a.oob_error_.estimate, b.oob_error_.estimate)
    assert a.oob_error_.n == b.oob_error_.n == 60


def test_class_weights():
    X, y = classes(200)
    sizes = {label: np.sum(y == label) for label in np.unique(y)}
    balanced = {label: 200 / (3 * size) for label, size in sizes.items()}
    by_name = RandomForestClassifier(10, class_weight="balanced", random_state=0).fit(X, y)
    by_dict = RandomForestClassifier(10, class_weight=balanced, random_state=0).fit(X, y)
    assert_allclose(by_name.predict_proba(X), by_dict.predict_proba(X), atol=1e-12)
    few = {"bootstrap": False, "max_depth": 3, "random_state": 0}
    by_name = RandomForestClassifier(10, class_weight="balanced", **few).fit(X, y)
    by_rows = RandomForestClassifier(10, **few).fit(X, y, sample_weight=[balanced[label] for label in y])
    assert_allclose(by_name.predict_proba(X), by_rows.predict_proba(X), atol=1e-12)
    forest = RandomForestClassifier(10, class_weight="balanced_subsample", max_depth=1, random_state=0).fit(X, y)
    assert_allclose(forest.nodes_.value[forest.nodes_.starts[:-1]], 1 / 3, atol=1e-9)
    for wrong, words in (
        ({"none": 1.0}, "not a class of y"),
        ({"low": -1}, "zero or more"),
        ({"low": 0, "mid": 0}, "two"),
    ):
        with pytest.raises(ParameterError, match=words):
            RandomForestClassifier(2, class_weight=wrong).fit(X, y)


# Settings.


def test_votes_are_counted():
    X, y = classes()
    forest = RandomForestClassifier(9, vote="majority", min_samples_leaf=5, random_state=0).fit(X, y)
    said = np.argmax(forest.nodes_.value[forest.apply(X) + forest.nodes_.starts[:-1]], axis=2)
    shares = np.stack([(said == k).mean(axis=1) for k in range(3)], axis=1)
    assert_allclose(forest.predict_proba(X), shares, atol=1e-12)
    averaged = clone(forest).set_params(vote="probability").fit(X, y)
    values = forest.nodes_.value[forest.apply(X) + forest.nodes_.starts[:-1]]
    assert_allclose(averaged.predict_proba(X), values.mean(axis=1), atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "asked", "m"),
    [
        (RandomForestRegressor, "auto", 4),
        (RandomForestClassifier, "auto", 3),
        (RandomForestRegressor, "sqrt", 3),
        (RandomForestRegressor, "log2", 3),
        (RandomForestRegressor, None, 12),
        (RandomForestRegressor, 1.0, 12),
        (RandomForestRegressor, 0.5, 6),
        (RandomForestRegressor, 7, 7),
    ],
)
def test_columns_tried_per_node(kind, asked, m):
    X, y = numbers(30, 12) if kind is RandomForestRegressor else classes(30, 12)
    assert kind(2, max_features=asked).fit(X, y).max_features_ == m


def test_all_columns_and_all_rows_make_equal_trees_but_for_ties():
    X, y = numbers(60)
    forest = RandomForestRegressor(3, bootstrap=False, max_features=None, random_state=0).fit(X, y)
    assert_allclose(forest.predict(X), y, rtol=1e-9)
    for options in ({"min_samples_leaf": 6}, {"min_samples_leaf": 6, "splitter": "exact"}):  # no two columns tie
        forest.set_params(**options).fit(X, y)
        for k in (1, 2):
            assert_array_equal(forest.nodes_.tree(k).threshold, forest.nodes_.tree(0).threshold)
            assert_array_equal(forest.nodes_.tree(k).feature, forest.nodes_.tree(0).feature)


@pytest.mark.parametrize("splitter", ["hist", "exact"])
def test_of_equal_columns_each_tree_takes_its_own(splitter):
    X, y = numbers(60)
    same = np.repeat(X[:, :1], 3, axis=1)
    forest = RandomForestRegressor(20, max_features=None, splitter=splitter, random_state=0).fit(same, y)
    assert {int(forest.nodes_.feature[start]) for start in forest.nodes_.starts[:-1]} == {0, 1, 2}
    mixed = np.column_stack([same, X[:, 1], np.arange(60) % 4])
    signs = {"max_features": None, "monotonic_cst": [1, 1, 1, 0, 0], "categorical_features": [4]}
    constrained = RandomForestRegressor(20, random_state=0, splitter=splitter, **signs).fit(mixed, y)
    steps = constrained.predict(np.column_stack([np.linspace(-3, 3, 50).repeat(3).reshape(50, 3), np.zeros((50, 2))]))
    assert (np.diff(steps) >= -1e-12).all()  # constraints and categories stay with their columns
    assert set(np.unique(constrained.nodes_.feature)) == {-1, 0, 1, 2, 3, 4}
    assert (constrained.nodes_.offset[constrained.nodes_.feature == 4] >= 0).all()
    assert (constrained.nodes_.offset[constrained.nodes_.feature != 4] < 0).all()


def test_limits_hold():
    X, y = numbers(300)
    forest = RandomForestRegressor(5, max_depth=3, min_samples_leaf=10, random_state=0).fit(X, y)
    assert forest.nodes_.depth().max() <= 3
    assert forest.nodes_.rows[forest.nodes_.feature < 0].min() >= 10
    few = RandomForestRegressor(5, max_leaf_nodes=7, random_state=0).fit(X, y)
    assert all(few.nodes_.tree(k).leaves == 7 for k in range(5))
    rising = RandomForestRegressor(20, monotonic_cst={0: 1}, random_state=0).fit(X, y)
    line = np.zeros((50, 5))
    line[:, 0] = np.linspace(-3, 3, 50)
    assert (np.diff(rising.predict(line)) >= -1e-12).all()


@pytest.mark.parametrize("splitter", ["hist", "exact"])
def test_tables_as_they_come(splitter):
    frame, y = mixed(300)
    forest = RandomForestRegressor(30, splitter=splitter, random_state=0).fit(frame[:200], y[:200])
    assert forest.score(frame[200:], y[200:]) > 0.6
    unseen = frame[200:].assign(b="violet")
    assert np.isfinite(forest.predict(unseen)).all()
    assert forest.permutation_importance(frame[:200], y[:200]).order[2] == 2


@pytest.mark.parametrize("splitter", ["hist", "exact"])
def test_as_good_as_scikit_learn(splitter):
    """Held-out accuracy over three seeds; a difference of three standard errors of the paired rows is allowed."""
    X, y = make_classification(3000, 12, n_informative=6, flip_y=0.05, random_state=0)
    ours, theirs = [], []
    for seed in range(3):
        ours.append(
            RandomForestClassifier(40, splitter=splitter, random_state=seed).fit(X[:1500], y[:1500]).predict(X[1500:])
            == y[1500:]
        )
        theirs.append(PeerClassifier(40, random_state=seed).fit(X[:1500], y[:1500]).predict(X[1500:]) == y[1500:])
    gap = np.mean(ours, axis=0) - np.mean(theirs, axis=0)
    assert gap.mean() > -3 * gap.std() / np.sqrt(gap.size)
    X, y = numbers(2000)
    a = RandomForestRegressor(40, splitter=splitter, random_state=0).fit(X[:1000], y[:1000]).predict(X[1000:])
    b = PeerRegressor(40, max_features=1, random_state=0).fit(X[:1000], y[:1000]).predict(X[1000:])
    gap = (a - y[1000:]) ** 2 - (b - y[1000:]) ** 2
    assert gap.mean() < 3 * gap.std() / np.sqrt(gap.size)


def test_progress_is_told():
    X, y = numbers(30)
    seen = []
    with listen(lambda label, done, total: seen.append((label, done, total))):
        RandomForestRegressor(4, n_jobs=2).fit(X, y)
    assert seen == [("trees", k, 4) for k in range(5)]


# Bad input.


def test_bad_input_gets_one_sentence():
    X, y = numbers(30)
    one = RandomForestClassifier(2)
    with pytest.raises(DataError, match="only one class"):
        one.fit(X, np.zeros(30))
    gap = y.copy()
    gap[7] = np.nan
    with pytest.raises(DataError, match="y contains NaN in row 7"):
        RandomForestRegressor(2).fit(X, gap)
    with pytest.raises(DataError, match="sample_weight contains -1 in row 3"):
        RandomForestRegressor(2).fit(X, y, sample_weight=np.where(np.arange(30) == 3, -1.0, 1.0))
    with pytest.raises(ParameterError, match="max_features = 6, but X has 5 columns"):
        RandomForestRegressor(2, max_features=6).fit(X, y)
    with pytest.raises(ParameterError, match="max_samples = 31 rows cannot be drawn without replacement from 30"):
        RandomForestRegressor(2, bootstrap=False, max_samples=31).fit(X, y)
    with pytest.raises(DataError, match="not negative"):
        RandomForestRegressor(2, criterion="poisson").fit(X, y)
    with pytest.raises(ParameterError, match="two classes"):
        RandomForestClassifier(2, monotonic_cst={0: 1}).fit(*classes())
    for forest in (RandomForestRegressor(), one):
        with pytest.raises(Exception, match="not fitted"):
            forest.predict(X)


def test_one_row():
    forest = RandomForestRegressor(3).fit([[1.0, 2.0]], [5.0])
    assert_array_equal(forest.predict([[0.0, 0.0]]), [5.0])
    assert forest.oob_error_.n == 0
    assert np.isnan(forest.oob_error_.estimate)
    assert np.isnan(forest.oob_curve_.estimate).all()
    with pytest.raises(AssayError):
        RandomForestClassifier(3).fit([[1.0, 2.0]], ["a"])


@pytest.mark.parametrize("size", [2.0**500, 2.0**-500])
def test_size_of_the_target_does_not_matter(size):
    X, y = numbers(60)
    plain = RandomForestRegressor(5, random_state=0).fit(X, y)
    scaled = RandomForestRegressor(5, random_state=0).fit(X, y * size)
    assert_allclose(scaled.predict(X) / size, plain.predict(X), rtol=1e-9)
    assert_allclose(scaled.feature_importances_, plain.feature_importances_, rtol=1e-9)
    assert_allclose(scaled.oob_score_, plain.oob_score_, rtol=1e-9)
