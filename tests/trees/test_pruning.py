"""Pruning against exhaustive search over all subtrees, scikit-learn's path, and a loop over folds and prices."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold, LeaveOneOut
from sklearn.tree import DecisionTreeClassifier as PeerClassifier
from sklearn.tree import DecisionTreeRegressor as PeerRegressor

from assay.errors import AssayWarning, DataError, ParameterError
from assay.trees._cp_table import PruningProblem, cross_validated
from assay.trees._predict import leaf_indices
from assay.trees.nodes import Nodes, concatenate
from assay.trees.pruning import (
    CPTable,
    PrunedTreeClassifier,
    PrunedTreeRegressor,
    cost_complexity_path,
    pruned,
    pruned_to,
)

Array = np.ndarray


# Trees to prune: scikit-learn's, renumbered so that children stand side by side, and random ones with many children.


def nodes_of(tree: Any) -> Nodes:
    """A fitted tree of scikit-learn in our layout, level by level."""
    order, first = [0], {}
    for k in order:
        if tree.children_left[k] >= 0:
            first[k] = len(order)
            order += [tree.children_left[k], tree.children_right[k]]
    at = np.array(order)
    inner = tree.children_left[at] >= 0
    return Nodes(
        starts=np.array([0, at.size]),
        feature=np.where(inner, tree.feature[at], -1).astype(np.int32),
        threshold=np.where(inner, tree.threshold[at], 0.0),
        first=np.array([first.get(k, 0) for k in order], dtype=np.int32),
        count=np.where(inner, 2, 0).astype(np.int32),
        missing=np.zeros(at.size, dtype=np.int32),
        offset=np.full(at.size, -1, dtype=np.int64),
        words=np.empty(0, dtype=np.uint32),
        value=tree.value[at][:, 0, :].astype(np.float64),
        rows=tree.n_node_samples[at].astype(np.int64),
        weight=tree.weighted_n_node_samples[at].astype(np.float64),
        impurity=tree.impurity[at].astype(np.float64),
        gain=np.where(inner, 1.0, 0.0),
    )


def random_nodes(rng: np.random.Generator, inner: int, *, children: int = 2, whole: bool = False) -> Nodes:
    """A random tree of three classes; with whole numbers of rows many prices tie. Every node tests categories."""
    counts: list[Array] = [np.zeros(3)]
    first, count, open_nodes = [0], [0], [0]
    for _ in range(inner):
        t = open_nodes.pop(int(rng.integers(len(open_nodes))))
        kids = int(rng.integers(2, children + 1))
        first[t], count[t] = len(first), kids
        open_nodes += range(len(first), len(first) + kids)
        first += [0] * kids
        count += [0] * kids
        counts += [np.zeros(3)] * kids
    size = len(first)
    for t in reversed(range(size)):
        if count[t] == 0:
            counts[t] = rng.integers(1, 5, 3).astype(float) if whole else rng.random(3)
        else:
            counts[t] = np.sum(counts[first[t] : first[t] + count[t]], axis=0)
    n = np.array(counts)
    weight = n.sum(axis=1)
    share = n / weight[:, None]
    branch = np.array(count) > 0
    length = np.where(branch, np.where(np.array(count) == 2, 1, 4), 0)
    return Nodes(
        starts=np.array([0, size]),
        feature=np.where(branch, 0, -1).astype(np.int32),
        threshold=np.zeros(size),
        first=np.array(first, dtype=np.int32),
        count=np.array(count, dtype=np.int32),
        missing=np.zeros(size, dtype=np.int32),
        offset=np.where(branch, np.cumsum(length) - length, -1).astype(np.int64),
        words=np.arange(length.sum(), dtype=np.uint32),
        value=share,
        rows=np.maximum(weight, 1).astype(np.int64),
        weight=weight,
        impurity=1 - (share**2).sum(axis=1),
        gain=branch.astype(float),
    )


def subtrees(nodes: Nodes, t: int = 0) -> list[frozenset[int]]:
    """The leaves of every pruned subtree of node t: the definition."""
    own = [frozenset([t])]
    if nodes.count[t] == 0:
        return own
    below = [subtrees(nodes, c) for c in range(nodes.first[t], nodes.first[t] + nodes.count[t])]
    return own + [frozenset().union(*parts) for parts in product(*below)]


def risks_of(nodes: Nodes, risk: str) -> Array:
    return nodes.weight * (nodes.impurity if risk == "criterion" else 1 - nodes.value.max(axis=1))


def leaves_of(nodes: Nodes, small: Nodes) -> frozenset[int]:
    """Which nodes of the full tree are leaves of the pruned one, told by walking both."""
    found, pairs = set(), [(0, 0)]
    for big, little in pairs:
        np.testing.assert_array_equal(nodes.value[big], small.value[little])
        assert nodes.rows[big] == small.rows[little]
        assert nodes.weight[big] == small.weight[little]
        if small.count[little] == 0:
            found.add(big)
            continue
        assert small.count[little] == nodes.count[big]
        assert small.feature[little] == nodes.feature[big]
        pairs += [(nodes.first[big] + k, small.first[little] + k) for k in range(nodes.count[big])]
    assert len(pairs) == small.size  # nothing that was dropped is still there
    return frozenset(found)


# The definition.


@pytest.mark.parametrize("risk", ["criterion", "error"])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("children", [2, 4])
def test_equals_exhaustive_search_over_subtrees(risk: str, whole: bool, children: int) -> None:
    rng = np.random.default_rng(7)
    for _ in range(25):
        nodes = random_nodes(rng, int(rng.integers(1, 7 if children == 2 else 5)), children=children, whole=whole)
        every, of_node = subtrees(nodes), risks_of(nodes, risk)
        totals = np.array([sum(of_node[list(leaves)]) for leaves in every])
        sizes = np.array([len(leaves) for leaves in every])
        path = cost_complexity_path(nodes, risk)
        between = np.sqrt(path.alpha[1:] * np.append(path.alpha[2:], 4.0))
        for alpha in [0.0, *path.alpha, *between, *(rng.random(5) * 0.3)]:
            costs = totals + alpha * of_node[0] * sizes
            optimal = costs <= costs.min() + 1e-10 * of_node[0]
            smallest = np.flatnonzero(optimal & (sizes == sizes[optimal].min()))
            assert len(smallest) == 1  # the smallest optimal subtree is unique
            assert leaves_of(nodes, pruned(nodes, alpha, risk=risk)) == every[smallest[0]]


@pytest.mark.parametrize("risk", ["criterion", "error"])
def test_the_sequence_is_nested_and_says_its_risk_and_size(risk: str) -> None:
    rng = np.random.default_rng(3)
    nodes = random_nodes(rng, 60, children=3, whole=True)
    path = cost_complexity_path(nodes, risk)
    assert path.alpha[0] == 0
    assert np.all(np.diff(path.alpha) > 0)
    assert np.all(np.diff(path.leaves) < 0)
    assert path.leaves[-1] == 1
    assert path.splits[-1] == 0
    assert path.risk[-1] == pytest.approx(path.root_risk)
    above: frozenset[int] = frozenset(range(nodes.size))
    up = nodes.parent()
    for k, alpha in enumerate(path.alpha):
        small = pruned(nodes, alpha, risk=risk)
        assert small.leaves == path.leaves[k]
        assert small.size - small.leaves == path.splits[k]
        assert small.weight[0] * path.risk[k] == pytest.approx(risks_of(small, risk)[small.count == 0].sum())
        leaves = leaves_of(nodes, small)
        standing = set(leaves)
        for t in leaves:
            while up[t] >= 0:
                t = int(up[t])
                standing.add(t)
        assert standing <= above
        above = frozenset(standing)


def test_raw_prices_are_per_unit_of_weight() -> None:
    nodes = random_nodes(np.random.default_rng(5), 12)
    path = cost_complexity_path(nodes)
    np.testing.assert_allclose(path.ccp_alpha, path.alpha * path.root_risk, rtol=1e-14)
    for k, price in enumerate(path.ccp_alpha):
        assert pruned(nodes, price, raw=True).leaves == path.leaves[k]
    assert pruned(nodes, np.inf).leaves == 1


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("peer", [PeerRegressor, PeerClassifier])
def test_agrees_with_scikit_learn(peer: Any, weighted: bool) -> None:
    rng = np.random.default_rng(11)
    X = rng.normal(size=(600, 5))
    y = X[:, 0] * X[:, 1] + rng.normal(size=600)
    # Gini of unweighted rows ties, and scikit-learn lists tied collapses one by one.
    w = rng.random(600) + 0.1 if weighted or peer is PeerClassifier else None
    model = peer(random_state=0).fit(X, y if peer is PeerRegressor else (y > 0) + (y > 1), w)
    theirs = model.cost_complexity_pruning_path(X, y if peer is PeerRegressor else (y > 0) + (y > 1), w)
    nodes = nodes_of(model.tree_)
    ours = cost_complexity_path(nodes)
    np.testing.assert_allclose(ours.ccp_alpha, theirs.ccp_alphas, rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.risk, theirs.impurities, rtol=0, atol=1e-12)


def test_leaves_are_at_most_what_was_asked_for() -> None:
    nodes = random_nodes(np.random.default_rng(2), 30, whole=True)
    path = cost_complexity_path(nodes, "error")
    for leaves in path.leaves:
        assert pruned_to(nodes, int(leaves), risk="error").leaves == leaves
    gap = next(q for q in range(1, int(path.leaves[0])) if q not in path.leaves)
    taken = max(q for q in path.leaves if q < gap)
    with pytest.warns(AssayWarning, match=f"has {gap} leaves: the one with {taken} is used"):
        assert pruned_to(nodes, gap, risk="error").leaves == taken
    with pytest.warns(AssayWarning, match="is used"):
        assert pruned_to(nodes, 10_000, risk="error").leaves == path.leaves[0]


def test_pruned_nodes_keep_their_words_and_predict_the_node_that_is_left() -> None:
    rng = np.random.default_rng(8)
    nodes = random_nodes(rng, 40, children=4)
    X = rng.integers(0, 4, (200, 1)).astype(float)
    nodes.words[nodes.words.size // 2 :] = 0
    multi = np.flatnonzero(nodes.count > 2)
    for t in multi:  # each category goes to some child
        nodes.words[nodes.offset[t] : nodes.offset[t] + 4] = rng.integers(0, nodes.count[t], 4)
    full = leaf_indices(nodes, X)[:, 0]
    up, path = nodes.parent(), cost_complexity_path(nodes)
    for k in (1, path.alpha.size // 2, path.alpha.size - 2):
        small = pruned(nodes, path.alpha[k])
        assert small.words.size < nodes.words.size
        standing = leaves_of(nodes, small)
        expected = []
        for t in full:
            while t not in standing:
                t = up[t]
            expected.append(nodes.value[t])
        np.testing.assert_array_equal(small.value[leaf_indices(small, X)[:, 0]], expected)


def test_deep_and_wide_trees_cost_little() -> None:
    """A chain of 60,000 splits would take minutes if every collapse went up to the root."""
    depth = 60_000
    nodes = random_nodes(np.random.default_rng(1), 1)
    size = 2 * depth + 1
    inner = (np.arange(size) % 2 == 0) & (np.arange(size) < size - 1)
    first = np.where(inner, np.arange(size) + 1, 0).astype(np.int32)
    risk = np.where(np.arange(size) % 2 == 1, 0.0, np.linspace(1, 0, size) ** 2)
    chain = Nodes(
        starts=np.array([0, size]), feature=np.where(inner, 0, -1).astype(np.int32), threshold=np.zeros(size),
        first=first, count=np.where(inner, 2, 0).astype(np.int32), missing=np.zeros(size, np.int32),
        offset=np.full(size, -1), words=nodes.words[:0], value=np.zeros((size, 1)), rows=np.ones(size, np.int64),
        weight=np.ones(size), impurity=risk, gain=np.zeros(size),
    )  # fmt: skip
    path = cost_complexity_path(chain)
    assert path.leaves[-1] == 1
    assert path.leaves[0] == depth + 1
    # The risk saved per leaf falls with depth, so the chain is unravelled from its end, one leaf at a time.
    np.testing.assert_array_equal(path.leaves, np.arange(depth + 1, 0, -1))


def test_one_leaf_and_bad_input() -> None:
    leaf = pruned(random_nodes(np.random.default_rng(0), 3), np.inf)
    path = cost_complexity_path(leaf)
    assert path.alpha.tolist() == [0.0]
    assert path.leaves.tolist() == [1]
    assert "1 nested" in str(path)
    assert pruned(leaf, 0.1).size == 1
    assert pruned_to(leaf, 1).size == 1
    with pytest.raises(DataError, match="one tree"):
        cost_complexity_path(concatenate([leaf, leaf]))
    with pytest.raises(ParameterError, match="alpha"):
        pruned(leaf, -0.1)
    with pytest.raises(ParameterError, match="leaves"):
        pruned_to(leaf, 0)
    with pytest.raises(ParameterError, match="risk"):
        pruned(leaf, 0.1, risk="gini")
    regression = nodes_of(PeerRegressor().fit([[0], [1]], [0, 1]).tree_)
    with pytest.raises(ParameterError, match="regression tree"):
        cost_complexity_path(regression, "error")


def test_the_root_without_risk_has_relative_risk_nothing() -> None:
    nodes = nodes_of(PeerRegressor().fit([[0], [1]], [2, 2]).tree_)
    path = cost_complexity_path(nodes)
    assert path.relative_risk.tolist() == [0.0]
    assert path.alpha.tolist() == [0.0]


def test_path_prints_and_tabulates() -> None:
    path = cost_complexity_path(random_nodes(np.random.default_rng(4), 60))
    assert list(path.to_frame()) == ["alpha", "ccp_alpha", "leaves", "splits", "risk", "relative_risk"]
    assert "more, all in to_frame()" in str(path)
    assert len(str(path).splitlines()) < 25


# Cross-validation against the loop that everyone would write.


def problem_of(kind: str, *, risk: str = "criterion", criterion: str = "", weighted: bool = False) -> PruningProblem:
    """A small table, grown by scikit-learn's tree."""
    rng = np.random.default_rng(21)
    n = 240
    X = np.ascontiguousarray(rng.normal(size=(n, 4)).astype(np.float32).astype(np.float64))
    signal = X[:, 0] + (X[:, 1] > 0) + 0.7 * rng.normal(size=n)
    if kind == "classes":
        y = np.digitize(signal, [0.0, 1.0])
    else:
        y = rng.poisson(np.exp(0.5 * signal)).astype(float) if criterion == "poisson" else signal
    criterion = criterion or ("gini" if kind == "classes" else "squared_error")
    w = rng.integers(0, 4, n).astype(float) if weighted else np.ones(n)
    peer: Any = PeerClassifier if kind == "classes" else PeerRegressor

    def grow(weights: Array, counts: Array | None, seed: int) -> Nodes:
        del counts
        rows = weights > 0
        # A class that a fold has not seen must keep its column, so every class comes with a weight of nothing.
        model = peer(criterion=criterion, min_samples_leaf=3, random_state=seed)
        return nodes_of(model.fit(X[rows], y[rows], weights[rows]).tree_)

    return PruningProblem(X, y, w, grow, criterion, risk, [0] * 20)


def loss_of(criterion: str, risk: str, nodes: Nodes, leaf: Array, y: Array) -> Array:
    value, w = nodes.value[leaf], nodes.weight[leaf]
    if risk == "error":
        return (np.argmax(value, axis=1) != y).astype(float)
    if criterion == "gini":
        return ((np.eye(value.shape[1])[y] - value) ** 2).sum(axis=1)
    if criterion == "log_loss":
        return -np.log2((w * value[np.arange(y.size), y] + 0.5) / (w + 0.5 * value.shape[1]))
    v = value[:, 0]
    if criterion == "absolute_error":
        return np.abs(y - v)
    if criterion == "poisson":
        return v - y + np.where(y > 0, y * np.log(np.where(y > 0, y, 1) / v), 0)
    return (y - v) ** 2


CASES = [
    ("numbers", "squared_error", "criterion"),
    ("numbers", "absolute_error", "criterion"),
    ("numbers", "poisson", "criterion"),
    ("classes", "gini", "error"),
    ("classes", "gini", "criterion"),
    ("classes", "log_loss", "criterion"),
]


@pytest.mark.parametrize("select", ["alpha", "leaves"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("kind", "criterion", "risk"), CASES)
def test_errors_equal_a_loop_over_folds_and_prices(
    kind: str, criterion: str, risk: str, weighted: bool, select: str
) -> None:
    problem = problem_of(kind, risk=risk, criterion=criterion, weighted=weighted)
    fold = np.random.default_rng(1).permutation(problem.y.size) % 5
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
    _, _, path, table = cross_validated(problem, splits, rule="1se", select=select, n_jobs=None)

    losses = np.empty((problem.y.size, path.alpha.size))
    for k, (_, test) in enumerate(splits):
        tree = problem.grow(np.where(fold != k, problem.w, 0.0), None, 0)
        own = cost_complexity_path(tree, risk)
        for j in range(path.alpha.size):
            if select == "leaves":
                price = own.ccp_alpha[own.leaves <= path.leaves[j]].min()
            elif j + 1 == path.alpha.size:
                price = np.inf
            else:
                price = float(np.sqrt(path.ccp_alpha[j] * path.ccp_alpha[j + 1]))
            small = pruned(tree, price, risk=risk, raw=True)
            leaf = leaf_indices(small, problem.X[test])[:, 0]
            losses[test, j] = loss_of(criterion, risk, small, leaf, problem.y[test])

    w = problem.w[:, None]
    root = path.root_risk * problem.w.sum()  # rpart's xerror and xstd, rows from the root alone on
    xerror = (w * losses).sum(axis=0) / root
    xstd = np.sqrt((w * losses**2).sum(axis=0) - (w * losses).sum(axis=0) ** 2 / w.sum()) / root
    np.testing.assert_allclose(table.xerror, xerror[::-1], rtol=1e-10)
    np.testing.assert_allclose(table.xstd, xstd[::-1], rtol=1e-10)
    np.testing.assert_array_equal(table.leaves, path.leaves[::-1])
    np.testing.assert_array_equal(table.cp, path.alpha[::-1])

    best = min(range(table.cp.size), key=lambda k: (round(table.xerror[k], 10), k))
    within = table.xerror <= table.xerror[best] + table.xstd[best] + 1e-12
    assert table.best == best
    assert table.chosen == table.one_se == int(np.argmax(within))
    assert cross_validated(problem, splits, rule="min", select=select, n_jobs=2)[3].chosen == best


def test_rows_tested_twice_count_once_in_the_standard_error() -> None:
    problem = problem_of("numbers")
    fold = np.random.default_rng(1).permutation(problem.y.size) % 4
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(4)]
    once = cross_validated(problem, splits, rule="1se", select="alpha", n_jobs=None)[3]
    twice = cross_validated(problem, splits * 2, rule="1se", select="alpha", n_jobs=None)[3]
    np.testing.assert_allclose(once.xerror, twice.xerror, rtol=1e-12)
    np.testing.assert_allclose(once.xstd, twice.xstd, rtol=1e-9)


def test_folds_without_weight_are_refused() -> None:
    problem = problem_of("numbers", weighted=True)
    empty = np.flatnonzero(problem.w == 0)
    other = np.flatnonzero(problem.w > 0)
    with pytest.raises(DataError, match="no training row of fold 0"):
        cross_validated(problem, [(empty, other)], rule="1se", select="alpha", n_jobs=None)
    with pytest.raises(DataError, match="no held-out row"):
        cross_validated(problem, [(other, empty)], rule="1se", select="alpha", n_jobs=None)


def test_the_table_prints_like_printcp() -> None:
    problem = problem_of("classes", risk="error")
    fold = np.arange(problem.y.size) % 5
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
    table = cross_validated(problem, splits, rule="1se", select="alpha", n_jobs=None)[3]
    lines = str(table).splitlines()
    assert isinstance(table, CPTable)
    assert "Root node error: " in lines[2]
    assert lines[4].split() == ["CP", "nsplit", "leaves", "rel_error", "xerror", "xstd"]
    marked = [line for line in lines if "<- chosen" in line]
    assert len(marked) == 1
    assert marked[0].split()[0] == str(table.chosen + 1)
    assert table.to_frame().shape == (table.cp.size, 7)
    assert table.rel_error[0] == 1
    assert 0.9 < table.xerror[0] < 1.1


# The estimators.


def both(n: int = 300, seed: int = 4) -> list[tuple[Any, Any, Array]]:
    """A regression and a classification problem on a table with text and gaps."""
    rng = np.random.default_rng(seed)
    shelf = rng.choice(["bad", "good", "medium"], n).astype(object)
    price, age = rng.normal(size=n), rng.normal(size=n)
    signal = 2.0 * (shelf == "good") - price + 0.8 * rng.normal(size=n)
    price[rng.random(n) < 0.1] = np.nan
    shelf[rng.random(n) < 0.05] = None
    X = pd.DataFrame({"shelf": shelf, "price": price, "age": age})
    return [
        (PrunedTreeRegressor(random_state=0), X, signal),
        (PrunedTreeClassifier(random_state=0), X, np.where(signal > 0.5, "high", "low")),
    ]


@pytest.mark.parametrize("case", [0, 1])
@pytest.mark.parametrize("options", [{}, {"splitter": "hist"}, {"multiway": True}, {"select": "leaves", "rule": "min"}])
def test_any_number_of_threads_gives_the_same_tree(case: int, options: dict[str, Any]) -> None:
    estimator, X, y = both()[case]
    estimator.set_params(max_features=2, **options)
    one, two = clone(estimator).fit(X, y), clone(estimator).set_params(n_jobs=3).fit(X, y)
    np.testing.assert_array_equal(one.cp_table_.xerror, two.cp_table_.xerror)
    np.testing.assert_array_equal(one.cp_table_.xstd, two.cp_table_.xstd)
    np.testing.assert_array_equal(one.nodes_.value, two.nodes_.value)


@pytest.mark.parametrize("case", [0, 1])
@pytest.mark.parametrize("splitter", ["exact", "hist"])
def test_folds_are_those_of_trees_grown_on_the_training_rows_alone(case: int, splitter: str) -> None:
    estimator, X, y = both(150)[case]
    splits = list(KFold(4, shuffle=True, random_state=1).split(X))
    model = estimator.set_params(cv=splits, splitter=splitter, max_bins=255).fit(X, y)
    path, table = model.path_, model.cp_table_
    risk = "error" if case else "criterion"
    losses = np.zeros((len(X), path.alpha.size))
    levels = list(X["shelf"].dropna().unique())
    fixed = X.assign(shelf=pd.Categorical(X["shelf"], categories=sorted(levels)))
    for train, test in splits:
        # The same levels in every fold; with at most 255 values a column's bins lose nothing.
        kind = type(estimator).__mro__[2]
        tree = kind(random_state=0).fit(fixed.iloc[train], y[train])
        for j in range(path.alpha.size):
            price = np.inf
            if j + 1 < path.alpha.size:
                price = float(np.sqrt(path.ccp_alpha[j]) * np.sqrt(path.ccp_alpha[j + 1]))
            answer = tree._with(pruned(tree.nodes_, price, risk=risk, raw=True)).predict(fixed.iloc[test])
            losses[test, j] = answer != y[test] if case else (y[test] - answer) ** 2
    if splitter == "exact":
        np.testing.assert_allclose(table.xerror[::-1], losses.mean(axis=0) / path.root_risk, rtol=1e-9)
        expected = losses.std(axis=0) / np.sqrt(len(X)) / path.root_risk
        np.testing.assert_allclose(table.xstd[::-1], expected, rtol=1e-9)
    assert model.n_leaves_ == table.leaves[table.chosen] == model.nodes_.leaves == model.get_n_leaves()
    assert model.alpha_ == table.cp[table.chosen]


@pytest.mark.parametrize("case", [0, 1])
def test_weights_equal_repetition_and_rows_without_weight_are_not_there(case: int) -> None:
    estimator, X, y = both(160)[case]
    rng = np.random.default_rng(6)
    w, fold = rng.integers(0, 4, 160), rng.permutation(160) % 4
    rows = np.repeat(np.arange(160), w)
    pairs = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(4)]
    again = [(np.flatnonzero(fold[rows] != k), np.flatnonzero(fold[rows] == k)) for k in range(4)]
    weighted = clone(estimator).set_params(cv=pairs).fit(X, y, w)
    repeated = clone(estimator).set_params(cv=again).fit(X.iloc[rows], y[rows])
    np.testing.assert_allclose(weighted.cp_table_.xerror, repeated.cp_table_.xerror, rtol=1e-9)
    np.testing.assert_allclose(weighted.cp_table_.xstd, repeated.cp_table_.xstd, rtol=1e-7)
    assert weighted.nodes_.size == repeated.nodes_.size
    if case:
        np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    else:
        np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-12)
    kept = w > 0
    without = clone(estimator).fit(X[kept], y[kept], w[kept])
    np.testing.assert_allclose(clone(estimator).fit(X, y, w).cp_table_.xerror, without.cp_table_.xerror, rtol=1e-12)


def test_rules_and_other_subtrees_after_the_fit() -> None:
    estimator, X, y = both()[1]
    simple, best = clone(estimator).fit(X, y), clone(estimator).set_params(rule="min").fit(X, y)
    np.testing.assert_array_equal(simple.cp_table_.xerror, best.cp_table_.xerror)
    table = simple.cp_table_
    assert simple.n_leaves_ <= best.n_leaves_
    assert best.n_leaves_ == table.leaves[table.best]
    assert table.xerror[table.chosen] <= table.threshold
    assert np.all(table.xerror[: table.chosen] > table.threshold)
    assert simple.prune(table.cp[table.best]).n_leaves_ == best.n_leaves_
    np.testing.assert_array_equal(simple.prune(table.cp[table.best]).predict(X), best.predict(X))
    assert simple.prune_leaves(int(table.leaves[2])).n_leaves_ == table.leaves[2]
    np.testing.assert_array_equal(simple.cost_complexity_path().alpha, table.cp[::-1])
    assert simple.cost_complexity_path("criterion").kind == "criterion"


def test_noise_is_pruned_to_the_root() -> None:
    """With nothing to learn the one-standard-error rule takes the root, unless luck exceeds a standard error.

    That happened for 0.65% of 2,000 other seeds; at that rate more than 6 of 40 have a chance below 1e-8.
    """
    larger = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        model = PrunedTreeRegressor(random_state=seed, min_samples_leaf=5, cv=5)
        larger += model.fit(rng.normal(size=(80, 3)), rng.normal(size=80)).n_leaves_ > 1
    assert larger <= 6


def test_class_weights_move_the_root_and_the_errors() -> None:
    rng = np.random.default_rng(9)
    X = rng.normal(size=(400, 2))
    y = (X[:, 0] + 0.5 * rng.normal(size=400) > 1.5).astype(int)
    plain = PrunedTreeClassifier(random_state=0).fit(X, y)
    even = PrunedTreeClassifier(random_state=0, class_weight="balanced").fit(X, y)
    assert plain.cp_table_.root_risk == pytest.approx(y.mean())
    assert even.cp_table_.root_risk == pytest.approx(0.5)
    assert (even.predict(X) == 1).sum() > (plain.predict(X) == 1).sum()


@pytest.mark.parametrize("scale", [1e-120, 1e120])
def test_the_scale_of_the_target_changes_nothing(scale: float) -> None:
    estimator, X, y = both(120)[0]
    plain, scaled = clone(estimator).fit(X, y), clone(estimator).fit(X, y * scale)
    assert plain.n_leaves_ == scaled.n_leaves_
    k = plain.cp_table_.chosen + 3
    np.testing.assert_allclose(plain.cp_table_.xstd[:k], scaled.cp_table_.xstd[:k], rtol=1e-6)


def test_other_folds_few_rows_and_bad_parameters() -> None:
    estimator, X, y = both(30)[0]
    assert clone(estimator).set_params(cv=LeaveOneOut()).fit(X, y).cp_table_.folds == 30
    assert clone(estimator).set_params(cv=KFold(3)).fit(X, y).cp_table_.folds == 3
    with pytest.raises(DataError, match="n_samples = 1"):
        PrunedTreeRegressor().fit([[1.0]], [1.0])
    with pytest.raises(DataError, match="10 rows with weight, but n_samples = 4"):
        estimator.fit(X, y, np.arange(30) < 4)
    with pytest.raises(ParameterError, match="rule"):
        PrunedTreeRegressor(rule="best").fit(X, y)
    with pytest.raises(ParameterError, match="risk"):
        PrunedTreeClassifier(risk="gini").fit(X, y > 0)
    constant = PrunedTreeRegressor().fit(X, np.full(30, 3.0))
    assert constant.n_leaves_ == 1
    assert constant.cp_table_.xerror.tolist() == [0.0]
    assert "<- chosen" in str(constant.cp_table_)
    np.testing.assert_array_equal(constant.predict(X), 3.0)
