"""Single trees: node by node what an exhaustive search finds, and in error what scikit-learn's trees have."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import tree as peer

from assay.errors import AssayError, DataError, ParameterError
from assay.trees._exact import grow_exact, presort
from assay.trees._limits import Limits
from assay.trees._multiway import grow_multiway
from assay.trees._predict import leaf_indices
from assay.trees.cart import DecisionTreeClassifier, DecisionTreeRegressor
from assay.trees.nodes import UNSEEN
from tests.naive import trees as naive

REGRESSION = ("squared_error", "absolute_error", "poisson")
CLASSIFICATION = ("gini", "log_loss", "error")


# Agreement with exhaustive search.


def table(rng, n, kinds):
    """A small table full of ties; kinds: "n" numbers, "g" numbers with gaps, "c" levels, "d" levels with gaps."""
    columns, levels = [], []
    for kind in kinds:
        coded = kind in "cd"
        count = int(rng.integers(2, 8)) if coded else 0
        x = rng.integers(0, count, n) if coded else rng.choice(np.round(rng.normal(size=max(2, n // 2)), 1), n)
        x = x.astype(float)
        if kind in "gd":
            x[rng.random(n) < 0.25] = np.nan
        columns.append(x)
        levels.append(count)
    return np.column_stack(columns), levels


def targets(rng, n, criterion):
    if criterion in CLASSIFICATION:
        classes = int(rng.integers(2, 5))
        y = rng.integers(0, classes, n)
        y[:classes] = np.arange(classes)
        return y.astype(np.int64), classes
    return rng.poisson(1.5, n).astype(float), 0


def assert_same(nodes, t, node, levels):
    """Node t and everything below it is what the oracle found."""
    total = max(1.0, node["loss"])
    assert nodes.rows[t] == node["rows"]
    assert_allclose(nodes.weight[t], node["weight"])
    assert_allclose(nodes.value[t], node["value"], atol=1e-12)
    assert_allclose(nodes.impurity[t] * nodes.weight[t], node["loss"], atol=1e-10 * total)
    if "children" not in node:
        assert nodes.feature[t] == -1
        assert nodes.count[t] == 0
        return
    j = node["feature"]
    assert nodes.feature[t] == j
    assert_allclose(nodes.gain[t], node["gain"], atol=1e-10 * total)
    assert nodes.missing[t] == node["gap"]
    assert nodes.count[t] == len(node["children"])
    if "threshold" in node:
        assert nodes.threshold[t] == node["threshold"]
        assert nodes.offset[t] == -1
    if "levels" in node:
        words = nodes.words[nodes.offset[t] :]
        if len(node["levels"]) > 2:
            expected = np.full(levels[j], UNSEEN)
            expected[node["levels"].astype(int)] = np.arange(len(node["levels"]))
            assert_array_equal(words[: levels[j]], expected)
    for k, child in enumerate(node["children"]):
        assert_same(nodes, nodes.first[t] + k, child, levels)


def assert_levels(nodes, X, levels):
    """Levels that a node has not seen go where its missing values go."""
    seen = [None] * nodes.size
    seen[0] = np.arange(len(X))
    for t in range(nodes.size):
        if nodes.count[t] == 0:
            continue
        x = X[seen[t], nodes.feature[t]]
        if nodes.offset[t] < 0:
            child = np.where(np.isnan(x), nodes.missing[t], x > nodes.threshold[t]).astype(int)
        else:
            bits = nodes.words[nodes.offset[t] :]
            first = np.array([bits[c >> 5] >> (c & 31) & 1 for c in range(levels[nodes.feature[t]])], dtype=bool)
            unseen = np.setdiff1d(np.arange(first.size), x[~np.isnan(x)])
            assert (first[unseen] == (nodes.missing[t] == 0)).all()
            code = np.nan_to_num(x).astype(int)
            child = np.where(np.isnan(x), nodes.missing[t], ~first[code]).astype(int)
        for k in range(2):
            seen[nodes.first[t] + k] = seen[t][child == k]
            assert seen[nodes.first[t] + k].size > 0


LIMITS = (Limits(), Limits(max_depth=3), Limits(min_leaf=3, min_split=6), Limits(min_decrease=1.0))


@pytest.mark.parametrize("criterion", REGRESSION + CLASSIFICATION)
@pytest.mark.parametrize("kinds", ["nn", "ngn", "cc", "ndg", "cn"])
def test_agrees_with_exhaustive_search(criterion, kinds):
    for seed in range(12):
        rng = np.random.default_rng([seed, len(kinds), REGRESSION.count(criterion)])
        n = int(rng.integers(4, 40))
        X, levels = table(rng, n, kinds)
        y, classes = targets(rng, n, criterion)
        w = None if seed % 3 else rng.integers(0, 4, n) / 2.0
        if w is not None:
            w[:4] = 1.0
        limits = LIMITS[seed % 4]
        nodes = grow_exact(
            X, presort(X, levels), levels, y, w, criterion, classes, limits,
            max_features=X.shape[1], monotone=np.zeros(X.shape[1]), seed=0,
        )  # fmt: skip
        on = np.ones(n, dtype=bool) if w is None else w > 0
        weights = np.ones(n) if w is None else w
        expected = naive.grow(X[on], y[on], weights[on], levels, criterion, classes, limits)
        assert_same(nodes, 0, expected, levels)
        assert_levels(nodes, X[on], levels)
        assert_array_equal(
            np.bincount(leaf_indices(nodes, X[on])[:, 0], minlength=nodes.size)[nodes.count == 0],
            nodes.rows[nodes.count == 0],
        )


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, 2.0, np.nan]), st.sampled_from([0.0, 0.5, np.nan]), st.integers(0, 3)),
        min_size=2,
        max_size=12,
    ),
    st.sampled_from(REGRESSION + CLASSIFICATION),
)
def test_agrees_on_whatever_is_thrown_at_it(rows, criterion):
    X = np.array([row[:2] for row in rows])
    y = np.array([row[2] for row in rows], dtype=float)
    classes = 4 if criterion in CLASSIFICATION else 0
    y = y.astype(np.int64) if classes else y
    nodes = grow_exact(
        X, presort(X, [0, 0]), [0, 0], y, None, criterion, classes, Limits(),
        max_features=2, monotone=np.zeros(2), seed=0,
    )  # fmt: skip
    assert_same(nodes, 0, naive.grow(X, y, np.ones(y.size), [0, 0], criterion, classes, Limits()), [0, 0])


@pytest.mark.parametrize("criterion", [*REGRESSION, "gini", "log_loss"])
def test_monotone_search_agrees(criterion):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, levels = table(rng, 30, "ngn")
        y = rng.integers(0, 2, 30) if criterion in CLASSIFICATION else rng.poisson(2.0, 30).astype(float)
        classes = 2 if criterion in CLASSIFICATION else 0
        signs = np.array([1, -1, 0])
        nodes = grow_exact(
            X, presort(X, levels), levels, y, None, criterion, classes, Limits(),
            max_features=3, monotone=signs, seed=0,
        )  # fmt: skip
        expected = naive.grow(X, y, np.ones(30), levels, criterion, classes, Limits(), monotone=signs)
        assert_same(nodes, 0, expected, levels)


@pytest.mark.parametrize("criterion", REGRESSION + CLASSIFICATION)
def test_multiway_agrees_with_its_definition(criterion):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n = 30
        X, levels = table(rng, n, "cdng")
        y, classes = targets(rng, n, criterion)
        limits = (Limits(), Limits(min_leaf=3, min_split=6))[seed % 2]
        nodes = grow_multiway(
            X, presort(X, levels), levels, y, None, criterion, classes, limits, max_features=4, seed=0
        )
        expected = naive.grow_multiway(X, y, np.ones(n), levels, criterion, classes, limits)
        assert_same(nodes, 0, expected, levels)


@pytest.mark.parametrize("criterion", ["squared_error", "poisson", "gini", "log_loss", "error"])
def test_ordered_levels_are_the_best_of_all_subsets(criterion):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        n, classes = 60, 2 if criterion in CLASSIFICATION else 0
        x = rng.integers(0, 7, n).astype(float)
        y = rng.integers(0, 2, n) if classes else rng.poisson(2.0, n) + 0.5
        nodes = grow_exact(
            x[:, None], presort(x[:, None], [7]), [7], y, None, criterion, classes, Limits(max_depth=1),
            max_features=1, monotone=[0], seed=0,
        )  # fmt: skip
        assert_allclose(nodes.gain[0], naive.every_subset_gain(x, y, np.ones(n), criterion, classes), rtol=1e-10)


def test_many_levels_and_classes_go_along_the_principal_component():
    rng = np.random.default_rng(3)
    n, levels = 600, [15]
    x = rng.integers(0, 15, n).astype(float)
    y = np.where(rng.random(n) < 0.1 + 0.05 * x, 0, rng.integers(1, 4, n))
    nodes = grow_exact(
        x[:, None], presort(x[:, None], levels), levels, y, None, "gini", 4, Limits(max_depth=1),
        max_features=1, monotone=[0], seed=0,
    )  # fmt: skip
    expected = naive.grow(x[:, None], y, np.ones(n), levels, "gini", 4, Limits(max_depth=1))
    assert_same(nodes, 0, expected, levels)
    bits = {c for c in range(15) if nodes.words[nodes.offset[0]] >> np.uint32(c) & 1}
    assert bits == set(expected["first"])


# What the numbers mean.


def test_losses_weight_leaves_by_size_and_stay_within_their_ranges():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 4, 300)
    for criterion, top in (("gini", 1 - 1 / 4), ("log_loss", 2.0), ("error", 1 - 1 / 4)):
        nodes = DecisionTreeClassifier(criterion=criterion, max_depth=4).fit(X, y).nodes_
        assert (nodes.impurity <= top + 1e-12).all()
        leaf = nodes.count == 0
        total = (nodes.impurity * nodes.weight)[leaf].sum()
        assert_allclose(total, nodes.impurity[0] * nodes.weight[0] - nodes.gain.sum())
    halves = DecisionTreeClassifier(criterion="entropy", max_depth=1).fit([[0], [1], [0], [1]], [0, 1, 1, 0])
    assert halves.nodes_.impurity[0] == 1.0  # one bit, the most two classes can have


def test_the_salary_tree():
    """As in the textbook: first years, then hits among those who have played long."""
    rng = np.random.default_rng(0)
    years, hits = rng.integers(1, 20, 400), rng.integers(20, 220, 400)
    log_salary = np.where(years < 4.5, 5.1, np.where(hits < 117.5, 6.0, 6.74)) + 0.3 * rng.normal(size=400)
    frame = pd.DataFrame({"Years": years, "Hits": hits})
    tree = DecisionTreeRegressor(max_leaf_nodes=3).fit(frame, log_salary)
    nodes = tree.nodes_
    assert tree.export_text().splitlines()[1].startswith("|- Years <= 4.5: 5.")
    assert_array_equal(nodes.feature[nodes.count > 0], [0, 1])
    assert_allclose(nodes.threshold[nodes.count > 0], [4.5, 117.5], atol=1.0)
    assert len(tree.rules()) == 3


def test_quinlans_weather():
    """ID3's own example: outlook first, gaining .247 of .940 bits; then humidity and wind."""
    days = """sunny hot high weak no, sunny hot high strong no, overcast hot high weak yes, rain mild high weak yes,
        rain cool normal weak yes, rain cool normal strong no, overcast cool normal strong yes, sunny mild high weak no,
        sunny cool normal weak yes, rain mild normal weak yes, sunny mild normal strong yes,
        overcast mild high strong yes, overcast hot normal weak yes, rain mild high strong no"""
    X = pd.DataFrame([day.split() for day in days.split(",")])
    X.columns = ["outlook", "temperature", "humidity", "wind", "play"]
    y = X.pop("play")
    tree = DecisionTreeClassifier(multiway=True, criterion="entropy").fit(X, y)
    nodes = tree.nodes_
    assert nodes.count[0] == 3
    assert_allclose(nodes.impurity[0], 0.940286, atol=1e-6)
    assert_allclose(nodes.gain[0] / 14, 0.246750, atol=1e-6)
    assert tree.get_depth() == 2
    assert tree.get_n_leaves() == 5
    assert_array_equal(tree.predict(X), y)
    with_new = X.iloc[[3]].assign(outlook="fog")  # unseen: the heaviest child, and of equal ones the first
    assert tree.apply(with_new)[0] in range(nodes.first[nodes.first[0] + 1], nodes.size)


# Agreement with scikit-learn's trees.


def noisy(seed, n=2000, p=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    f = 2 * X[:, 0] + 2 * np.sin(3 * X[:, 1]) + X[:, 2] * X[:, 3]
    return X, f + rng.normal(size=n), f


@pytest.mark.parametrize("options", [{}, {"max_depth": 5}, {"max_leaf_nodes": 30}, {"min_samples_leaf": 10}])
def test_same_error_as_scikit_learn(options):
    X, y, _ = noisy(0, 3000)
    train, test = slice(0, 2000), slice(2000, None)
    ours = DecisionTreeRegressor(**options).fit(X[train], y[train])
    theirs = peer.DecisionTreeRegressor(random_state=0, **options).fit(X[train], y[train])
    assert_allclose(ours.score(X[train], y[train]), theirs.score(X[train], y[train]), atol=1e-9)
    assert_allclose(ours.score(X[test], y[test]), theirs.score(X[test], y[test]), atol=0.02)
    if options:
        assert_allclose(ours.predict(X[test]), theirs.predict(X[test]))
        assert_allclose(ours.feature_importances_, theirs.feature_importances_)
    labels = np.digitize(y, [-2, 0, 2])
    for criterion in ("gini", "entropy"):
        ours = DecisionTreeClassifier(criterion=criterion, **options).fit(X[train], labels[train])
        theirs = peer.DecisionTreeClassifier(criterion=criterion, random_state=0, **options)
        theirs.fit(X[train], labels[train])
        assert_allclose(ours.score(X[train], labels[train]), theirs.score(X[train], labels[train]), atol=0.01)
        assert_allclose(ours.score(X[test], labels[test]), theirs.score(X[test], labels[test]), atol=0.04)


def test_pruning_parameter_means_what_scikit_learns_does():
    X, y, _ = noisy(1)
    for alpha in (0.02, 0.1):
        ours = DecisionTreeRegressor(ccp_alpha=alpha).fit(X, y)
        theirs = peer.DecisionTreeRegressor(ccp_alpha=alpha, random_state=0).fit(X, y)
        assert ours.get_n_leaves() == theirs.get_n_leaves()
        assert_allclose(ours.predict(X), theirs.predict(X))


def test_decision_path_marks_the_way_to_the_leaf():
    X, y, _ = noisy(2, 300)
    ours = DecisionTreeRegressor(max_depth=4).fit(X, y)
    theirs = peer.DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, y)
    path = ours.decision_path(X)
    assert path.shape == (300, ours.nodes_.size)
    assert_array_equal(path.sum(axis=1), theirs.decision_path(X).sum(axis=1))
    assert_array_equal(np.sort(path.sum(axis=0)), np.sort(theirs.decision_path(X).sum(axis=0)))
    assert all(path[i, leaf] == 1 for i, leaf in enumerate(ours.apply(X)))


# Weights, seeds, threads, constraints.


@pytest.mark.parametrize("criterion", REGRESSION + CLASSIFICATION)
@pytest.mark.parametrize("multiway", [False, True])
def test_weights_equal_repetition(criterion, multiway):
    rng = np.random.default_rng(5)
    X, _ = table(rng, 80, "ngc")
    y, _ = targets(rng, 80, criterion)
    w = rng.integers(0, 4, 80)
    kind = DecisionTreeClassifier if criterion in CLASSIFICATION else DecisionTreeRegressor
    model = kind(criterion=criterion, multiway=multiway, categorical_features=[2])
    a = model.fit(X, y, sample_weight=w).nodes_
    b = kind(**model.get_params()).fit(np.repeat(X, w, axis=0), np.repeat(y, w)).nodes_
    assert_array_equal(a.feature, b.feature)
    assert_array_equal(a.threshold, b.threshold)
    assert_array_equal(a.missing, b.missing)
    assert_allclose(a.value, b.value, atol=1e-12)


def test_class_weights_are_sample_weights():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), np.array(["a", "b", "c"])[(rng.random(200) ** 2 * 3).astype(int)]
    count = {c: (y == c).sum() for c in "abc"}
    by_hand = np.array([200 / (3 * count[c]) for c in y])
    balanced = DecisionTreeClassifier(max_depth=3, class_weight="balanced").fit(X, y)
    assert_array_equal(
        balanced.predict_proba(X), DecisionTreeClassifier(max_depth=3).fit(X, y, by_hand).predict_proba(X)
    )
    theirs = peer.DecisionTreeClassifier(max_depth=3, class_weight="balanced", random_state=0).fit(X, y)
    assert_allclose(balanced.predict_proba(X), theirs.predict_proba(X))
    told = DecisionTreeClassifier(max_depth=3, class_weight={"a": 5.0}).fit(X, y)
    assert_array_equal(
        told.nodes_.value, DecisionTreeClassifier(max_depth=3).fit(X, y, 1 + 4.0 * (y == "a")).nodes_.value
    )


@pytest.mark.parametrize("splitter", ["exact", "hist"])
def test_threads_never_change_a_tree(splitter):
    X, y, _ = noisy(3, 6000, 12)
    trees = [
        DecisionTreeRegressor(max_features=4, random_state=1, splitter=splitter, n_jobs=k).fit(X, y) for k in (None, 2)
    ]
    assert_array_equal(trees[0].nodes_.threshold, trees[1].nodes_.threshold)
    assert_array_equal(trees[0].predict(X), trees[1].predict(X))
    other = DecisionTreeRegressor(max_features=4, random_state=2, splitter=splitter).fit(X, y)
    assert not np.array_equal(other.nodes_.feature[:50], trees[0].nodes_.feature[:50])


def test_columns_are_drawn_evenly():
    """Pure noise: each of 5 columns is on top 1/5 of the time; chi-square with 4 df, false alarm 1e-6."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 5)), rng.normal(size=20)
    X[:, 1:] = X[:, :1]  # equal columns: the first drawn wins by being drawn alone
    top = [
        DecisionTreeRegressor(max_depth=1, max_features=1, random_state=s).fit(X, y).nodes_.feature[0]
        for s in range(1000)
    ]
    counts = np.bincount(top, minlength=5)
    assert ((counts - 200) ** 2 / 200).sum() < 33.4


def test_constant_columns_do_not_count_as_drawn():
    rng = np.random.default_rng(0)
    X = np.zeros((50, 6))
    X[:, 4] = rng.normal(size=50)
    tree = DecisionTreeRegressor(max_features=1, random_state=0).fit(X, X[:, 4])
    assert tree.get_n_leaves() == 50


@pytest.mark.parametrize("criterion", REGRESSION)
def test_monotone_predictions(criterion):
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(400, 2))
    y = rng.poisson(np.exp(1 + X[:, 0] - X[:, 1] + np.sin(20 * X[:, 0]))).astype(float)
    tree = DecisionTreeRegressor(criterion=criterion, monotonic_cst={"x0": 1, 1: -1}).fit(X, y)
    grid = np.linspace(0, 1, 60)
    for fixed in (0.1, 0.5, 0.9):
        assert (np.diff(tree.predict(np.column_stack([grid, np.full(60, fixed)]))) >= 0).all()
        assert (np.diff(tree.predict(np.column_stack([np.full(60, fixed), grid]))) <= 0).all()
    if criterion == "squared_error":
        theirs = peer.DecisionTreeRegressor(monotonic_cst=[1, -1], random_state=0).fit(X, y)
        assert_allclose(tree.score(X, y), theirs.score(X, y), atol=0.01)


def test_monotone_probability():
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(300, 1))
    y = rng.random(300) < 0.5 + 0.3 * np.sin(9 * X[:, 0])
    for criterion in CLASSIFICATION:
        tree = DecisionTreeClassifier(criterion=criterion, monotonic_cst=[1]).fit(X, y)
        assert (np.diff(tree.predict_proba(np.linspace(0, 1, 50)[:, None])[:, 1]) >= 0).all()


def test_best_first_takes_the_largest_gains():
    X, y, _ = noisy(4, 500)
    nodes = DecisionTreeRegressor(max_leaf_nodes=40).fit(X, y).nodes_
    assert nodes.leaves == 40
    inner = np.flatnonzero(nodes.count)
    waiting = {0}
    for t in inner[np.argsort(nodes.first[inner])]:  # in the order in which they were split
        assert nodes.gain[t] == max(nodes.gain[list(waiting)])
        waiting -= {t}
        waiting |= {nodes.first[t], nodes.first[t] + 1}
    small = DecisionTreeRegressor(max_leaf_nodes=12).fit(X, y).nodes_
    assert_array_equal(nodes.weight[: small.size], small.weight)


# Tables as they come, and bad input.


def mixed(rng, n=200):
    frame = pd.DataFrame(
        {
            "größe": rng.normal(size=n),
            "shelf": rng.choice(["Bad", "Good", "Medium"], n),
            "grade": pd.Categorical(rng.choice(["low", "mid", "high"], n), ["low", "mid", "high"], ordered=True),
        }
    )
    y = frame["größe"] + 2.0 * (frame["shelf"] == "Good") + 0.1 * rng.normal(size=n)
    frame.loc[::9, "größe"] = np.nan
    frame.loc[::11, "shelf"] = None
    return frame, y


@pytest.mark.parametrize("options", [{}, {"multiway": True}, {"splitter": "hist"}])
def test_text_gaps_and_new_levels_without_preparation(options):
    frame, y = mixed(np.random.default_rng(0))
    tree = DecisionTreeRegressor(max_depth=4, **options).fit(frame, y)
    assert tree.score(frame, y) > 0.7
    new = frame.head(3).assign(shelf=["new", None, "Bad"])
    assert np.isfinite(tree.predict(new)).all()
    assert_array_equal(tree.predict(new.iloc[[0]].assign(shelf=None)), tree.predict(new.iloc[[0]]))
    labels = np.where(y > y.median(), "high", "low")
    model = DecisionTreeClassifier(max_depth=3, **options).fit(frame, labels)
    assert model.score(frame, labels) > 0.8
    assert_allclose(model.predict_proba(frame).sum(axis=1), 1.0)
    assert "shelf" in model.export_text()


def test_values_on_one_side_missing_on_the_other():
    X = np.array([[1.0], [1.0], [1.0], [np.nan], [np.nan]])
    tree = DecisionTreeRegressor().fit(X, [0, 0, 0, 5, 5])
    assert tree.nodes_.threshold[0] == np.inf
    assert_array_equal(tree.predict([[7.0], [np.nan]]), [0, 5])


def test_ties_go_to_the_first_class():
    tree = DecisionTreeClassifier().fit([[0], [0]], ["b", "a"])
    assert tree.predict([[0]])[0] == "a"
    assert_array_equal(tree.predict_log_proba([[0]]), np.log([[0.5, 0.5]]))


def test_edge_cases_have_right_answers():
    assert DecisionTreeRegressor().fit([[1.0, 2.0]], [3.0]).predict([[5.0, 5.0]])[0] == 3.0
    constant = DecisionTreeRegressor().fit(np.ones((10, 2)), np.arange(10.0))
    assert constant.get_n_leaves() == 1
    assert constant.predict([[1, 1]])[0] == 4.5
    assert_array_equal(constant.feature_importances_, [0, 0])
    flat = DecisionTreeRegressor().fit(np.arange(10.0)[:, None], np.full(10, 0.1))
    assert flat.get_n_leaves() == 1
    assert flat.predict([[3]])[0] == 0.1
    close = np.array([[1.0], [np.nextafter(1.0, 2.0)]])
    assert_array_equal(DecisionTreeRegressor().fit(close, [0, 1]).predict(close), [0, 1])
    far = np.array([[-1.7e308], [1.7e308]])
    assert_array_equal(DecisionTreeRegressor().fit(far, [0, 1]).predict(far), [0, 1])
    shifted = 1e9 + np.array([0.0, 0.0, 1.0, 1.0, 0.0])
    tree = DecisionTreeRegressor(max_depth=1).fit(np.arange(5.0)[:, None], shifted)
    assert tree.nodes_.threshold[0] == 1.5  # a large mean hides no split


@pytest.mark.parametrize(
    ("model", "X", "y", "words"),
    [
        (DecisionTreeRegressor(), [[1.0], [2.0]], [1.0, np.nan], "y contains NaN in row 1"),
        (DecisionTreeRegressor(), [[1.0], [np.inf]], [1.0, 2.0], "inf in column 0, row 1"),
        (DecisionTreeRegressor(), [[1.0], [2.0]], [[1.0, 2.0], [3.0, 4.0]], "y should be a 1d array"),
        (DecisionTreeRegressor(criterion="poisson"), [[1.0], [2.0]], [1.0, -2.0], "negative targets"),
        (DecisionTreeRegressor(criterion="poisson"), [[1.0], [2.0]], [0.0, 0.0], "zero in every row"),
        (DecisionTreeRegressor(monotonic_cst=[1, 1]), [[1.0], [2.0]], [0.0, 1.0], "2 entries for 1 columns"),
        (DecisionTreeRegressor(monotonic_cst=[2]), [[1.0], [2.0]], [0.0, 1.0], "monotonic_cst"),
        (DecisionTreeRegressor(monotonic_cst=[1]), [["a"], ["b"]], [0.0, 1.0], "categories without an order"),
        (DecisionTreeRegressor(multiway=True, monotonic_cst=[1]), [[1.0], [2.0]], [0.0, 1.0], "exclude each other"),
        (DecisionTreeRegressor(multiway=True, splitter="hist"), [[1.0], [2.0]], [0.0, 1.0], "exact"),
        (DecisionTreeRegressor(multiway=True, max_leaf_nodes=3), [[1.0], [2.0]], [0.0, 1.0], "max_leaf_nodes"),
        (DecisionTreeRegressor(criterion="gini"), [[1.0], [2.0]], [0.0, 1.0], "criterion"),
        (DecisionTreeClassifier(), [[1.0], [2.0]], [1, 1], "only one class"),
        (DecisionTreeClassifier(class_weight={0: -1.0}), [[1.0], [2.0]], [0, 1], "class_weight"),
        (DecisionTreeClassifier(class_weight={0: 0, 1: 0}), [[1.0], [2.0]], [0, 1], "fewer than two classes"),
        (DecisionTreeClassifier(monotonic_cst=[1]), [[1.0], [2.0], [3.0]], [0, 1, 2], "3 classes"),
    ],
)
def test_bad_input_gets_one_sentence(model, X, y, words):
    with pytest.raises(AssayError, match=words) as caught:
        model.fit(X, y)
    assert "\n" not in str(caught.value)


def test_bad_weights_and_parameters():
    with pytest.raises(DataError, match="sample_weight contains -1 in row 1"):
        DecisionTreeRegressor().fit([[1.0], [2.0]], [1.0, 2.0], sample_weight=[1.0, -1.0])
    for bad in ({"max_depth": 0}, {"min_samples_leaf": 0}, {"max_bins": 1}, {"max_features": "all"}, {"ccp_alpha": -1}):
        with pytest.raises(ParameterError):
            DecisionTreeRegressor(**bad).fit([[1.0], [2.0]], [1.0, 2.0])


def test_early_stopping_by_threshold():
    X, y, _ = noisy(6, 500)
    tree = DecisionTreeRegressor(min_impurity_decrease=0.05).fit(X, y)
    theirs = peer.DecisionTreeRegressor(min_impurity_decrease=0.05, random_state=0).fit(X, y)
    assert tree.get_n_leaves() == theirs.get_n_leaves()
    assert (tree.nodes_.gain[tree.nodes_.count > 0] >= 0.05 * 500).all()


def test_pruning_and_words_are_there():
    X, y, _ = noisy(7, 300)
    tree = DecisionTreeRegressor().fit(X, y)
    path = tree.cost_complexity_path()
    theirs = peer.DecisionTreeRegressor(random_state=0).cost_complexity_pruning_path(X, y)
    assert_allclose(path.ccp_alpha[-5:], theirs.ccp_alphas[-5:])
    small = tree.prune(0.02)
    assert small.get_n_leaves() < tree.get_n_leaves() == 300
    assert tree.prune_leaves(int(path.leaves[-4])).get_n_leaves() == path.leaves[-4]
    assert len(small.rules()) == small.get_n_leaves()
    assert small.plot().get_title(loc="left") == f"Regression tree: {small.get_n_leaves()} leaves, 300 rows"
