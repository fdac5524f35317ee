"""Deep trees on bins, node by node against a slow search that tries everything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from assay.numerics.threads import parallel
from assay.trees._binning import Codes, bin_table
from assay.trees._grow import grow_binned
from assay.trees._limits import Limits
from assay.trees._predict import leaf_indices
from assay.trees.nodes import Nodes

Array = np.ndarray
CLASSES = ("gini", "log_loss", "error")
NUMBERS = ("squared_error", "poisson", "absolute_error")


# The definition, no cleverness.


def median(y: Array, w: Array) -> float:
    order = np.argsort(y, kind="stable")
    y, below = y[order], np.cumsum(w[order])
    i = int(np.argmax(below >= below[-1] / 2 - 1e-12 * below[-1]))
    half = abs(below[i] - below[-1] / 2) <= 1e-12 * below[-1] and i + 1 < y.size
    return float((y[i] + y[i + 1]) / 2 if half else y[i])


def value_of(y: Array, w: Array, criterion: str, classes: int) -> Array:
    if classes:
        return np.bincount(y, w, classes) / w.sum()
    return np.array([median(y, w) if criterion == "absolute_error" else np.average(y, weights=w)])


def loss_of(y: Array, w: Array, criterion: str, classes: int) -> float:
    value, total = value_of(y, w, criterion, classes), w.sum()
    if criterion == "gini":
        return float(total * (1 - (value**2).sum()))
    if criterion == "log_loss":
        return float(-total * (value[value > 0] * np.log2(value[value > 0])).sum())
    if criterion == "error":
        return float(total * (1 - value.max()))
    if criterion == "squared_error":
        return float((w * (y - value[0]) ** 2).sum())
    if criterion == "absolute_error":
        return float((w * np.abs(y - value[0])).sum())
    up = y > 0
    return float((w[up] * y[up] * np.log(y[up] / value[0])).sum())


def divisions(b: Array, gone: int, category: bool, y: Array, w: Array, criterion: str, classes: int) -> Any:
    """All first children of a column as (rows, bins in it, bins after), in the order in which ties are settled."""
    present = np.unique(b[b != gone])
    missing = b == gone
    if category and classes > 2 and 1 < present.size <= 10:
        rest = present[1:]
        sets = [
            [present[0], *(level for i, level in enumerate(rest) if number >> i & 1)] for number in range(2**rest.size)
        ]
    else:
        if category:
            present = present[np.argsort(level_keys(b, present, y, w, classes), kind="stable")]
        sets = [list(present[: i + 1]) for i in range(present.size)]
    for chosen in sets:
        inside = np.isin(b, chosen)
        if missing.any() and len(chosen) < present.size:
            yield inside | missing, chosen
        yield inside, chosen


def level_keys(b: Array, present: Array, y: Array, w: Array, classes: int) -> Array:
    if classes <= 2:
        return np.array([np.average(y[b == level], weights=w[b == level]) for level in present])
    share = np.array([value_of(y[b == level], w[b == level], "gini", classes) for level in present])
    mass = np.array([w[b == level].sum() for level in present])
    share = share - np.average(share, axis=0, weights=mass)
    direction = np.linalg.eigh((share * mass[:, None]).T @ share)[1][:, -1]
    top = int(np.argmax(np.abs(direction) >= np.abs(direction).max() * (1 - 1e-9)))
    return share @ (direction * np.sign(direction[top]))


def naive_split(
    codes: Codes,
    y: Array,
    w: Array,
    counts: Array,
    criterion: str,
    classes: int,
    limits: Limits,
    signs: Array,
    low: float,
    high: float,
) -> tuple[int, Array, float] | None:
    loss = loss_of(y, w, criterion, classes)
    best: tuple[int, Array, float] | None = None
    for j in range(codes.values.shape[1]):
        b, gone = codes.values[:, j].astype(int), int(codes.bins.n_bins[j])
        for inside, _ in divisions(b, gone, bool(codes.bins.categorical[j]), y, w, criterion, classes):
            sides = inside, ~inside
            if not all(
                side.any()
                and counts[side].sum() >= limits.min_leaf
                and w[side].sum() >= limits.min_weight * (1 - 1e-12)
                for side in sides
            ):
                continue
            if criterion == "poisson" and any(y[side].sum() <= 0 for side in sides):
                continue
            if signs.any():
                a, c = (value_of(y[side], w[side], criterion, classes)[-1] for side in sides)
                if min(a, c) < low or max(a, c) > high or (c - a) * signs[j] < 0:
                    continue
            gain = loss - sum(loss_of(y[side], w[side], criterion, classes) for side in sides)
            if best is None or gain > best[2] + 1e-12 * loss + 1e-14:
                best = j, inside, gain
    return best


def check_node_by_node(
    tree: Nodes,
    codes: Codes,
    X: Array,
    y: Array,
    w: Array | None,
    criterion: str,
    classes: int,
    limits: Limits,
    signs: Array | None = None,
    counts: Array | None = None,
) -> None:
    """Every node holds the rows it says, its value and loss are right, and no split would have been better."""
    n, p = codes.values.shape
    w = np.ones(n) if w is None else w
    counts = (w > 0).astype(int) if counts is None else counts
    signs = np.zeros(p) if signs is None else signs
    root = loss_of(y[w > 0], w[w > 0], criterion, classes)
    stack = [(0, np.flatnonzero(w > 0), 0, -np.inf, np.inf)]
    seen = 0
    while stack:
        t, rows, depth, low, high = stack.pop()
        seen += 1
        loss = loss_of(y[rows], w[rows], criterion, classes)
        value = value_of(y[rows], w[rows], criterion, classes)
        assert tree.rows[t] == counts[rows].sum()
        np.testing.assert_allclose(tree.weight[t], w[rows].sum(), rtol=1e-12)
        np.testing.assert_allclose(tree.value[t], value, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(tree.impurity[t] * tree.weight[t], loss, rtol=1e-8, atol=1e-12 * root)
        part = Codes(codes.values[rows], codes.bins)
        found = None
        if depth < limits.max_depth and counts[rows].sum() >= limits.min_split and loss > 1e-13 * root:
            found = naive_split(part, y[rows], w[rows], counts[rows], criterion, classes, limits, signs, low, high)
        if found is not None and found[2] < limits.min_decrease - 1e-12 * loss:
            found = None
        if tree.feature[t] < 0:
            assert tree.count[t] == 0
            assert tree.gain[t] == 0
            assert limits.max_leaves or found is None
            continue
        assert found is not None
        j, inside, gain = found
        assert tree.feature[t] == j
        np.testing.assert_allclose(tree.gain[t], gain, rtol=1e-7, atol=1e-11 * root)
        went = goes_first(tree, t, X[rows, j])
        np.testing.assert_array_equal(went, inside)
        b = part.values[:, j]
        if (b != codes.bins.n_bins[j]).all():
            first = w[rows][inside].sum()
            assert tree.missing[t] == (2 * first < w[rows].sum() * (1 - 1e-12))
        check_rule(tree, t, codes, j, b)
        bounds = [(low, high), (low, high)]
        if signs[j]:
            a, c = (value_of(y[rows[side]], w[rows[side]], criterion, classes)[-1] for side in (inside, ~inside))
            mid = (a + c) / 2
            bounds = [(low, mid), (mid, high)] if signs[j] > 0 else [(mid, high), (low, mid)]
        for child, side in enumerate((inside, ~inside)):
            stack.append((int(tree.first[t]) + child, rows[side], depth + 1, *bounds[child]))
    assert seen == tree.size


def goes_first(tree: Nodes, t: int, x: Array) -> Array:
    if tree.offset[t] < 0:
        first = x <= tree.threshold[t]
    else:
        level = np.where(np.isnan(x), 0, x).astype(int)
        first = (tree.words[tree.offset[t] + level // 32] >> (level % 32).astype(np.uint32) & 1).astype(bool)
    return np.where(np.isnan(x), tree.missing[t] == 0, first)


def check_rule(tree: Nodes, t: int, codes: Codes, j: int, b: Array) -> None:
    """A threshold is a cut of the bins; absent categories go with the missing values."""
    bins = codes.bins
    if bins.categorical[j]:
        absent = np.setdiff1d(np.arange(bins.n_bins[j]), b)
        assert (goes_first(tree, t, absent.astype(float)) == (tree.missing[t] == 0)).all()
    else:
        cuts = bins.cuts[bins.starts[j] : bins.starts[j + 1]]
        assert tree.threshold[t] in cuts or tree.threshold[t] == np.inf


def problem(
    seed: int, n: int, criterion: str, classes: int, *, gaps: bool, levels: bool, weights: bool
) -> tuple[Array, list[int], Array, Array | None]:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 9, size=(n, 4)) / 2.0
    counts = [0, 0, 0, 0]
    if levels:
        X[:, 1] = rng.integers(0, 6, size=n)
        X[:, 2] = rng.integers(0, 14, size=n)
        counts = [0, 6, 14, 0]
    signal = X[:, 0] + (X[:, 1] % 3) - (X[:, 2] % 4) * (X[:, 0] > 2)
    if classes:
        y: Array = (np.floor(signal + rng.normal(size=n)).astype(int)) % classes
        y[:classes] = np.arange(classes)
    elif criterion == "poisson":
        y = rng.poisson(np.exp(signal / 4 - 0.5)).astype(float)
    else:
        y = np.round(signal + rng.normal(size=n), 2)
    if gaps:
        X[rng.random(X.shape) < 0.15] = np.nan
    w = rng.choice([0.0, 0.5, 1.0, 1.7, 3.0], size=n) if weights else None
    return X, counts, y, w


def grow(codes: Codes, y: Array, w: Array | None, criterion: str, classes: int, limits: Limits, **more: Any) -> Nodes:
    given: dict[str, Any] = {"max_features": codes.values.shape[1], "monotone": None, "seed": 0, **more}
    return grow_binned(codes, y, w, criterion, classes, limits, **given)


CASES = [(criterion, 0) for criterion in NUMBERS] + [(criterion, K) for criterion in CLASSES for K in (2, 3)]


@pytest.mark.parametrize(("criterion", "classes"), CASES)
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("levels", [False, True])
@pytest.mark.parametrize("weights", [False, True])
def test_every_node_is_the_naive_best(criterion: str, classes: int, gaps: bool, levels: bool, weights: bool) -> None:
    for seed, n in ((0, 12), (1, 70)):
        X, counts, y, w = problem(seed, n, criterion, classes, gaps=gaps, levels=levels, weights=weights)
        codes = bin_table(X, counts)
        for limits in (Limits(max_depth=4), Limits(min_leaf=4, min_split=9, max_depth=5)):
            tree = grow(codes, y, w, criterion, classes, limits)
            check_node_by_node(tree, codes, X, y, w, criterion, classes, limits)


@pytest.mark.parametrize(("criterion", "classes"), [("squared_error", 0), ("gini", 2), ("gini", 4), ("log_loss", 3)])
def test_large_nodes_are_the_naive_best(criterion: str, classes: int) -> None:
    """More rows than are ranked one by one, and more than there are bins."""
    for n, gaps in ((150, False), (600, True), (600, False)):
        X, counts, y, w = problem(n, n, criterion, classes, gaps=gaps, levels=False, weights=True)
        X[:, 3] = np.random.default_rng(n).normal(size=n)
        codes = bin_table(X, counts)
        tree = grow(codes, y, w, criterion, classes, Limits(max_depth=2, min_leaf=1))
        check_node_by_node(tree, codes, X, y, w, criterion, classes, Limits(max_depth=2))


@pytest.mark.parametrize(("criterion", "classes"), [*((c, 0) for c in NUMBERS), *((c, 2) for c in CLASSES)])
def test_monotone_constraints(criterion: str, classes: int) -> None:
    X, counts, y, w = problem(3, 90, criterion, classes, gaps=True, levels=False, weights=True)
    codes, signs = bin_table(X, counts), np.array([1, -1, 0, 0])
    limits = Limits(max_depth=5, min_leaf=2)
    tree = grow(codes, y, w, criterion, classes, limits, monotone=signs)
    check_node_by_node(tree, codes, X, y, w, criterion, classes, limits, signs)
    for j, sign in ((0, 1), (1, -1)):
        line = np.repeat(X[:20], 9, axis=0)
        line[:, j] = np.tile(np.arange(9) / 2, 20)
        value = tree.value[leaf_indices(tree, line)[:, 0], -1].reshape(20, 9)
        assert (sign * np.diff(value, axis=1) >= 0).all()


@pytest.mark.parametrize(("criterion", "classes"), CASES)
def test_counts_and_weights_are_repetition(criterion: str, classes: int) -> None:
    X, levels, y, _ = problem(4, 60, criterion, classes, gaps=True, levels=True, weights=False)
    times = np.random.default_rng(0).integers(0, 4, size=60)
    codes = bin_table(X, levels)
    twice = Codes(np.repeat(codes.values, times, axis=0), codes.bins)
    for limits in (Limits(min_leaf=3, min_split=7), Limits(max_leaves=6)):
        one = grow(codes, y, times.astype(float), criterion, classes, limits, counts=times)
        two = grow(twice, np.repeat(y, times), None, criterion, classes, limits)
        assert_same(one, two)
        # Weights apart from counts: limits look at the counts.
        three = grow(codes, y, 0.5 * times, criterion, classes, limits, counts=times)
        assert_same(replace(three, weight=2 * three.weight, gain=2 * three.gain), one)


def assert_same(one: Nodes, two: Nodes) -> None:
    for name in ("feature", "first", "missing", "offset", "words", "rows", "threshold"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)
    for name in ("value", "weight", "impurity", "gain"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_best_first_splits_where_most_is_saved(classes: int) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 3))
    w = rng.uniform(0.5, 2.0, size=300)  # gains without ties
    y = rng.integers(0, classes, size=300) if classes else rng.normal(size=300)
    criterion, codes = "gini" if classes else "squared_error", bin_table(X, [0, 0, 0])
    whole = grow(codes, y, w, criterion, classes, Limits(min_leaf=3))
    for most in (2, 7, 30):
        tree = grow(codes, y, w, criterion, classes, Limits(min_leaf=3, max_leaves=most))
        frontier, leaves = [0], 1
        while leaves < most:
            t = max((t for t in frontier if whole.count[t]), key=lambda t: whole.gain[t])
            frontier.remove(t)
            frontier += [int(whole.first[t]), int(whole.first[t]) + 1]
            leaves += 1
        assert tree.leaves == most
        kept = tree.impurity[tree.count == 0], whole.impurity[frontier]
        np.testing.assert_allclose(np.sort(kept[0]), np.sort(kept[1]), rtol=1e-12)


def test_limits_are_obeyed() -> None:
    X, levels, y, w = problem(6, 400, "squared_error", 0, gaps=True, levels=True, weights=True)
    codes = bin_table(X, levels)
    tree = grow(codes, y, w, "squared_error", 0, Limits(min_leaf=7, min_split=30, min_weight=12.5, min_decrease=3.0))
    inner = tree.count > 0
    assert inner.any()
    assert tree.rows[~inner].min() >= 7
    assert tree.weight[~inner].min() >= 12.5
    assert tree.rows[inner].min() >= 30
    assert tree.gain[inner].min() >= 3.0
    assert grow(codes, y, w, "squared_error", 0, Limits(max_depth=3)).depth().max() == 3


def test_columns_are_drawn_uniformly() -> None:
    """Chi-square over the first column of 3,000 stumps; a right generator fails once in a million runs."""
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(40, 7)), rng.normal(size=40)
    X[:, 2] = 1.0  # constant: never drawn
    codes = bin_table(X, [0] * 7)
    drawn = [
        int(grow(codes, y, None, "squared_error", 0, Limits(max_depth=1), max_features=1, seed=s).feature[0])
        for s in range(3000)
    ]
    seen = np.bincount(drawn, minlength=7)
    assert seen[2] == 0
    assert stats.chisquare(np.delete(seen, 2)).pvalue > 1e-6


def test_drawn_columns_hold_the_best_split_with_the_chance_of_being_drawn() -> None:
    """With m of p columns the best one is found with probability m / p (binomial test, false alarms 1e-6)."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(50, 6))
    y = X[:, 4] + 0.01 * rng.normal(size=50)
    codes = bin_table(X, [0] * 6)
    for m in (2, 4, 6):
        hits = sum(
            grow(codes, y, None, "squared_error", 0, Limits(max_depth=1), max_features=m, seed=s).feature[0] == 4
            for s in range(600)
        )
        assert stats.binomtest(int(hits), 600, m / 6).pvalue > 1e-6


def test_seed_and_threads_decide_nothing_else() -> None:
    rng = np.random.default_rng(9)
    X, y = rng.normal(size=(500, 8)), rng.integers(0, 3, size=500)
    codes = bin_table(X, [0] * 8)

    def one(seed: int) -> Nodes:
        return grow(codes, y, None, "gini", 3, Limits(), max_features=2, seed=seed)

    for a, b in zip(parallel(one, range(6), n_jobs=2), [one(s) for s in range(6)], strict=True):
        assert_same(a, b)
    assert not np.array_equal(one(0).feature[:5], one(1).feature[:5])


@pytest.mark.parametrize(("criterion", "classes"), CASES)
@pytest.mark.parametrize("signs", [None, [1, 0, 0, -1]])
def test_a_tree_grown_in_parts_is_the_same_tree(criterion: str, classes: int, signs: list[int] | None) -> None:
    """Branches with their categories, gaps, weights, bounds and depth, joined; every array is equal to the bit."""
    n = 24_000  # enough to be grown in parts, and an eighth of them is more than a branch must have
    X, counts, y, w = problem(8, n, criterion, classes, gaps=True, levels=True, weights=True)
    codes, monotone = bin_table(X, counts), None if signs is None or classes > 2 else np.array(signs)
    for limits in (Limits(), Limits(max_depth=7, min_leaf=5)):
        one = grow(codes, y, w, criterion, classes, limits, monotone=monotone)
        two = grow(codes, y, w, criterion, classes, limits, monotone=monotone, n_jobs=2)
        for name, part in vars(one).items():
            np.testing.assert_array_equal(getattr(two, name), part, err_msg=name)


def check_pure(tree: Nodes, codes: Codes, X: Array) -> None:
    """Leaves have no loss, or rows that no split can tell apart."""
    at = leaf_indices(tree, X)[:, 0]
    for leaf in np.unique(at):
        assert tree.impurity[leaf] == 0 or len(np.unique(codes.values[at == leaf], axis=0)) == 1


def test_a_branch_remembers_constants_without_losing_columns() -> None:
    """Each leaf to purity although most columns are constant in most branches."""
    rng = np.random.default_rng(10)
    X = (rng.integers(0, 12, size=(2000, 1)) == np.arange(12)).astype(float)
    X = np.column_stack([X, rng.normal(size=2000)])
    y = rng.normal(size=2000)
    for m in (1, 5, 13):
        tree = grow(bin_table(X, [0] * 13, max_bins=255), y, None, "squared_error", 0, Limits(), max_features=m)
        check_pure(tree, bin_table(X, [0] * 13), X)


@pytest.mark.parametrize(
    ("criterion", "classes"), [("squared_error", 0), ("gini", 2), ("gini", 3), ("absolute_error", 0)]
)
def test_degenerate_tables(criterion: str, classes: int) -> None:
    def check(X: list[list[float]], y: list[float], size: int) -> Nodes:
        table = np.array(X)
        target = np.array(y, dtype=np.int64 if classes else np.float64)
        tree = grow(bin_table(table, [0] * table.shape[1]), target, None, criterion, classes, Limits())
        assert tree.size == size
        assert np.isfinite(tree.value).all()
        return tree

    nan = np.nan
    check([[1.0]], [1], 1)  # one row
    check([[1.0], [1.0]], [0, 1], 1)  # constant column
    check([[nan], [nan]], [0, 1], 1)  # nothing there
    check([[1.0], [2.0]], [1, 1], 1)  # constant response
    alone = check([[5.0, nan], [5.0, 3.0]], [0, 1], 3)  # missing against not missing
    assert (alone.feature[0], alone.threshold[0], alone.missing[0]) == (1, np.inf, 1)
    tied = check([[nan, 0.0], [1.0, 1.0]], [0, 1], 3)  # a tie: the first column
    assert tied.feature[0] == 0


def test_ties_go_to_the_first_column_and_the_lowest_threshold() -> None:
    x = np.arange(8.0)
    X = np.column_stack([np.full(8, 3.0), x, x, -x])
    y = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    codes = bin_table(X, [0] * 4)
    for criterion, classes in (("squared_error", 0), ("gini", 2), ("log_loss", 2), ("error", 2)):
        target = y.astype(int) if classes else y
        tree = grow(codes, target, None, criterion, classes, Limits(max_depth=1))
        assert tree.feature[0] == 1
        check_node_by_node(tree, codes, X, target, None, criterion, classes, Limits(max_depth=1))


@pytest.mark.parametrize(("criterion", "classes"), [("squared_error", 0), ("gini", 2), ("gini", 4)])
def test_many_categories(criterion: str, classes: int) -> None:
    """More levels than a byte can count."""
    rng = np.random.default_rng(11)
    X = np.column_stack([rng.integers(0, 700, size=900), rng.normal(size=900)]).astype(float)
    X[rng.random(900) < 0.1, 0] = np.nan
    y = X[:, 1] + np.nan_to_num(np.sin(X[:, 0])) + rng.normal(size=900)
    y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes)) if classes else y
    codes = bin_table(X, [700, 0])
    assert codes.values.dtype == np.uint16
    limits = Limits(max_depth=2)
    check_node_by_node(grow(codes, y, None, criterion, classes, limits), codes, X, y, None, criterion, classes, limits)
    check_pure(grow(codes, y, None, criterion, classes, Limits()), codes, X)


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_agrees_with_scikit_learn_where_every_value_has_a_bin(classes: int) -> None:
    rng = np.random.default_rng(12)
    X = rng.integers(0, 200, size=(3000, 5)).astype(float)
    signal = np.sin(X[:, 0] / 30) + (X[:, 1] > 90) * X[:, 2] / 100 + rng.normal(size=3000)
    w = rng.uniform(0.5, 2.0, size=3000)
    y = np.digitize(signal, np.quantile(signal, np.arange(1, classes) / classes)) if classes else signal
    tree = grow(bin_table(X, [0] * 5), y, w, "gini" if classes else "squared_error", classes, Limits(max_depth=7))
    peer = (DecisionTreeClassifier if classes else DecisionTreeRegressor)(max_depth=7).fit(X, y, sample_weight=w)
    leaf, theirs = tree.count == 0, peer.tree_.children_left < 0
    np.testing.assert_allclose(
        (tree.weight * tree.impurity)[leaf].sum(),
        (peer.tree_.weighted_n_node_samples * peer.tree_.impurity)[theirs].sum(),
        rtol=1e-9,
    )


def test_more_categories_than_codes() -> None:
    """Of 70,000 levels the last 4,466 share a bin, and go the same way when asked again."""
    levels = 70_000
    X = np.arange(float(levels))[:, None]
    y = (np.arange(levels) % 7 == 0).astype(float)
    y[65_534:] = 1.0
    tree = grow(bin_table(X, [levels]), y, None, "squared_error", 0, Limits(max_depth=1))
    assert tree.words.size == (levels + 31) // 32
    np.testing.assert_array_equal(tree.value[leaf_indices(tree, X)[:, 0], 0], y)


def test_a_far_away_origin_changes_nothing() -> None:
    rng = np.random.default_rng(13)
    X, y = rng.normal(size=(400, 4)), np.round(rng.normal(size=400) * 1024) / 1024
    codes = bin_table(X, [0] * 4)
    one = grow(codes, y, None, "squared_error", 0, Limits())
    two = grow(codes, y + 2.0**20, None, "squared_error", 0, Limits())
    np.testing.assert_array_equal(one.feature, two.feature)
    np.testing.assert_allclose(one.gain, two.gain, rtol=1e-6, atol=1e-9)


def test_children_stand_side_by_side_after_their_parent() -> None:
    X, levels, y, w = problem(14, 300, "squared_error", 0, gaps=True, levels=True, weights=True)
    tree = grow(bin_table(X, levels), y, w, "squared_error", 0, Limits(), max_features=2)
    inner = np.flatnonzero(tree.count)
    assert (tree.first[inner] > inner).all()
    children = np.concatenate([tree.first[inner], tree.first[inner] + 1])
    np.testing.assert_array_equal(np.sort(children), np.arange(1, tree.size))
    loss = tree.weight * tree.impurity
    left, right = tree.first[inner], tree.first[inner] + 1
    np.testing.assert_allclose(tree.gain[inner], loss[inner] - loss[left] - loss[right], atol=1e-9 * loss[0])
    np.testing.assert_array_equal(tree.rows[inner], tree.rows[left] + tree.rows[right])
