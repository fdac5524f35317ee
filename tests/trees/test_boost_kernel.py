"""Boosted trees against a slow search that tries every split of every node, written from the formulas."""

from __future__ import annotations

import numpy as np
import pytest

from assay.numerics.threads import parallel
from assay.trees._binning import bin_table
from assay.trees._boost import SHARED_CELLS, BoostLimits, Workspace, grow_boosted
from assay.trees._predict import leaf_indices

Array = np.ndarray


def grown(work, g, h, limits, **options):
    """A tree on one score's gradients, with leaves that no other tree writes over."""
    nodes, leaf = grow_boosted(work, g[None], None if h is None else h[None], limits, **options)
    return nodes, leaf.copy()


class Oracle:
    """The tree of the definition: for every node every column, cut and side for missing values is tried."""

    def __init__(self, codes, levels, g, h, limits, rows=None, columns=None, monotone=None):
        self.values, self.bins = codes.values.astype(int), codes.bins
        n, self.p = self.values.shape
        self.g, self.h = g, np.ones(n) if h is None else h
        self.limits = limits
        self.columns = np.ones(self.p, bool) if columns is None else columns
        self.sign = np.zeros(self.p, int) if monotone is None else monotone
        start = np.arange(n) if rows is None else rows
        self.nodes = [{"rows": start, "depth": 0, "low": -np.inf, "high": np.inf}]
        self.splits = 0
        waiting = [0]
        for t in waiting:
            self.find(self.nodes[t])
        leaves = 1
        while limits.max_leaves == 0 or leaves < limits.max_leaves:
            waiting = [t for t in waiting if self.nodes[t]["split"] is not None]
            if not waiting:
                break
            if limits.growth == "depth":
                key = [(self.nodes[t]["depth"], -self.nodes[t]["gain"], t) for t in waiting]
            else:
                key = [(-self.nodes[t]["gain"], t) for t in waiting]
            t = waiting.pop(min(range(len(key)), key=key.__getitem__))
            waiting += self.divide(self.nodes[t])
            leaves += 1
        del levels

    def step(self, rows, node):
        weight = self.h[rows].sum() + self.limits.l2
        return np.clip(-self.g[rows].sum() / weight, node["low"], node["high"])

    def loss(self, rows, node):
        v = self.step(rows, node)
        return self.g[rows].sum() * v + 0.5 * (self.h[rows].sum() + self.limits.l2) * v * v

    def sides(self, j, rows):
        """Every way to divide the rows by column j, in the order that breaks ties: (lefts, cut, missing child)."""
        code, gone = self.values[rows, j], self.bins.n_bins[j]
        if self.bins.categorical[j]:
            here = [c for c in np.unique(code) if c < gone]
            g, h = self.g[rows], self.h[rows]
            key = [g[code == c].sum() / (h[code == c].sum() + self.limits.smoothing) for c in here]
            ranked = [here[k] for k in np.lexsort((here, key))]
            cuts = [ranked[: k + 1] for k in range(len(ranked))]
        else:
            cuts = [list(range(k + 1)) for k in range(gone)]
        for cut in cuts:
            for missing in (0, 1) if (code == gone).any() else (None,):
                left = np.isin(code, cut) | ((code == gone) & (missing == 0))
                yield left, cut, missing

    def find(self, node):
        limits, rows = self.limits, node["rows"]
        node["split"], node["gain"] = None, 0.0
        if node["depth"] >= limits.max_depth:
            return
        own = self.loss(rows, node)
        bar = max(limits.min_gain, 1e-12 * abs(own))
        for j in np.flatnonzero(self.columns):
            for left, cut, missing in self.sides(j, rows):
                a, b = rows[left], rows[~left]
                if min(a.size, b.size) < limits.min_leaf:
                    continue
                if min(self.h[a].sum(), self.h[b].sum()) < limits.min_hessian:
                    continue
                if self.sign[j] * (self.step(b, node) - self.step(a, node)) < 0:
                    continue
                gain = own - self.loss(a, node) - self.loss(b, node)
                if gain > bar:
                    node["split"], node["gain"] = (j, cut, missing, left), gain
                    bar = gain + 1e-11 * (abs(own) + gain)

    def divide(self, node):
        j, _, _, left = node["split"]
        children = [{"rows": node["rows"][side], "depth": node["depth"] + 1} for side in (left, ~left)]
        middle = np.mean([self.step(child["rows"], node) for child in children])
        for k, child in enumerate(children):
            child["low"], child["high"] = node["low"], node["high"]
            if self.sign[j]:
                child["high" if (k == 0) == (self.sign[j] > 0) else "low"] = middle
            self.find(child)
        node["children"] = [len(self.nodes), len(self.nodes) + 1]
        self.nodes += children
        return node["children"]


def table(n, p, seed, *, gaps=0.0, levels=()):
    """Numbers with few and many values, categories, and holes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    X[:, 1] = np.round(X[:, 1])
    counts = [0] * p
    for j, count in levels:
        X[:, j], counts[j] = rng.integers(0, count, n), count
    y = np.where(np.nan_to_num(X[:, 0]) > 0.3, 2.0, -1.0) + X[:, 1] - 0.5 * (X[:, 2] % 3) + rng.normal(size=n)
    X[rng.random((n, p)) < gaps] = np.nan
    return X, y, counts


def same(nodes, oracle, X_codes):
    """The grown tree and the oracle's, node by node; both number children in the order of splitting."""
    limits, bins = oracle.limits, X_codes.bins
    assert nodes.size == len(oracle.nodes)
    for t, node in enumerate(oracle.nodes):
        rows = node["rows"]
        assert nodes.rows[t] == rows.size
        assert nodes.weight[t] == pytest.approx(oracle.h[rows].sum(), rel=1e-9)
        assert nodes.value[t, 0] == pytest.approx(oracle.step(rows, node), rel=1e-8, abs=1e-10)
        if "children" not in node:
            assert nodes.feature[t] == -1
            assert nodes.gain[t] == 0
            continue
        j, cut, missing, left = node["split"]
        assert nodes.feature[t] == j
        assert nodes.first[t] == node["children"][0]
        assert nodes.gain[t] == pytest.approx(node["gain"], rel=1e-7)
        if bins.categorical[j]:
            word = nodes.words[nodes.offset[t] :]
            inside = {c for c in range(bins.n_bins[j]) if word[c >> 5] >> (c & 31) & 1}
            present = set(np.unique(oracle.values[rows, j])) - {bins.n_bins[j]}
            assert inside & present == set(cut)
            assert inside - present == (set(range(bins.n_bins[j])) - present if nodes.missing[t] == 0 else set())
        elif len(cut) == bins.n_bins[j]:
            assert nodes.threshold[t] == np.inf
        else:
            assert nodes.threshold[t] == bins.cuts[bins.starts[j] + len(cut) - 1]
        heavier = oracle.h[rows[left]].sum() >= oracle.h[rows[~left]].sum() - 1e-9
        assert nodes.missing[t] == (missing if missing is not None else 1 - heavier)
    assert limits.max_leaves == 0 or nodes.leaves <= limits.max_leaves


CASES = {
    "plain": ({}, {"max_leaves": 12, "min_leaf": 5}),
    "level by level": ({}, {"max_leaves": 11, "min_leaf": 5, "growth": "depth", "max_depth": 4}),
    "no limit": ({}, {"max_leaves": 0, "max_depth": 4, "min_leaf": 3}),
    "penalty": ({}, {"max_leaves": 9, "min_leaf": 1, "l2": 3.0, "min_gain": 2.0}),
    "gaps": ({"gaps": 0.2}, {"max_leaves": 10, "min_leaf": 4}),
    "categories": ({"levels": ((2, 12), (3, 40))}, {"max_leaves": 10, "min_leaf": 4}),
    "unsmoothed": ({"levels": ((2, 12),), "gaps": 0.1}, {"max_leaves": 8, "min_leaf": 4, "smoothing": 0.0}),
    "all kinds": ({"levels": ((2, 12), (3, 300)), "gaps": 0.15}, {"max_leaves": 12, "min_leaf": 3, "l2": 1.0}),
}


@pytest.mark.parametrize("curved", [False, True], ids=["unit hessian", "own hessian"])
@pytest.mark.parametrize("case", CASES)
def test_every_node_is_the_best_split(case, curved):
    kind, limits = CASES[case]
    X, y, levels = table(220, 4, 1, **kind)
    codes = bin_table(X, levels, max_bins=40)
    h = np.random.default_rng(2).uniform(0.05, 0.25, y.size) if curved else None
    g = -(y - y.mean())
    oracle = Oracle(codes, levels, g, h, BoostLimits(**limits))
    nodes, leaf = grown(Workspace(codes, levels), g, h, BoostLimits(**limits))
    if limits["max_leaves"] == 0:  # another order of splitting, the same leaves
        assert nodes.leaves == sum("children" not in node for node in oracle.nodes)
        mine = np.sort(nodes.value[nodes.feature < 0, 0])
        theirs = np.sort([oracle.step(node["rows"], node) for node in oracle.nodes if "children" not in node])
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)
    else:
        same(nodes, oracle, codes)
    np.testing.assert_array_equal(leaf, leaf_indices(nodes, X)[:, 0])


@pytest.mark.parametrize("signs", [(1, 0, 0, 0), (-1, 1, 0, 0), (1, 1, -1, 1)])
@pytest.mark.parametrize("curved", [False, True])
def test_monotone_constraints(signs, curved):
    X, y, levels = table(200, 4, 3)
    y = y - 2 * np.sin(2 * X[:, 0])
    codes = bin_table(X, levels, max_bins=30)
    h = np.random.default_rng(4).uniform(0.05, 0.25, y.size) if curved else None
    limits = BoostLimits(max_leaves=14, min_leaf=4, l2=0.5)
    oracle = Oracle(codes, levels, -y, h, limits, monotone=np.array(signs))
    nodes, _ = grown(Workspace(codes, levels), -y, h, limits, monotone=np.array(signs))
    same(nodes, oracle, codes)
    for j, sign in enumerate(signs):  # along each constrained column the steps never turn
        rows = np.repeat(X[:20], 60, axis=0)
        rows[:, j] = np.tile(np.linspace(-3, 3, 60), 20)
        steps = nodes.value[leaf_indices(nodes, rows)[:, 0], 0].reshape(20, 60)
        assert (sign * np.diff(steps, axis=1) >= 0).all()


@pytest.mark.parametrize("curved", [False, True])
def test_samples_of_rows_and_columns(curved):
    X, y, levels = table(400, 5, 5, gaps=0.1, levels=((2, 9),))
    codes = bin_table(X, levels, max_bins=30)
    rng = np.random.default_rng(6)
    rows = np.sort(rng.choice(400, 180, replace=False)).astype(np.int32)
    columns = np.array([True, False, True, False, True])
    h = rng.uniform(0.05, 0.25, y.size) if curved else None
    limits = BoostLimits(max_leaves=10, min_leaf=4)
    oracle = Oracle(codes, levels, -y, h, limits, rows=rows, columns=columns)
    nodes, leaf = grown(Workspace(codes, levels), -y, h, limits, rows=rows, columns=columns)
    same(nodes, oracle, codes)
    np.testing.assert_array_equal(leaf, leaf_indices(nodes, X)[:, 0])  # rows outside the sample too
    assert set(nodes.feature) <= {-1, 0, 2, 4}


def test_weights_equal_repetition():
    X, y, levels = table(300, 4, 7)
    times = np.random.default_rng(8).integers(1, 5, y.size)
    codes = bin_table(X, levels, times.astype(float), max_bins=255)
    again = bin_table(np.repeat(X, times, axis=0), levels, max_bins=255)
    limits = BoostLimits(max_leaves=15, min_leaf=1, l2=0.3)
    one, leaf = grown(Workspace(codes, levels), -y * times, times.astype(float), limits)
    two, copies = grown(Workspace(again, levels), np.repeat(-y, times), None, limits)
    np.testing.assert_array_equal(one.feature, two.feature)
    np.testing.assert_array_equal(one.threshold, two.threshold)
    np.testing.assert_allclose(one.value, two.value, rtol=1e-12)
    np.testing.assert_allclose(one.gain, two.gain, rtol=1e-10)
    np.testing.assert_array_equal(np.repeat(leaf, times), copies)


@pytest.mark.parametrize("scale", [1e-120, 1e-9, 1.0, 1e9, 1e120])
def test_scale_of_the_gradient_changes_nothing(scale):
    X, y, levels = table(300, 4, 9)
    work = Workspace(bin_table(X, levels), levels)
    one, leaf = grown(work, y, None, BoostLimits(max_leaves=8, min_leaf=5))
    two, there = grown(work, y * scale, None, BoostLimits(max_leaves=8, min_leaf=5))
    np.testing.assert_array_equal(leaf, there)
    np.testing.assert_allclose(two.value, one.value * scale, rtol=1e-12)


def test_one_huge_gradient_does_not_drown_the_others():
    X, y, levels = table(2000, 4, 10)
    y[17] = 1e9
    rows = np.setdiff1d(np.arange(2000), [17]).astype(np.int32)
    work = Workspace(bin_table(X, levels), levels)
    nodes, leaf = grown(work, -y, None, BoostLimits(max_leaves=31, min_leaf=1))
    for t in np.unique(leaf[rows]):
        inside = np.flatnonzero(leaf == t)
        assert nodes.value[t, 0] == pytest.approx(y[inside].mean(), rel=1e-9)


@pytest.mark.parametrize(
    "gradient", [np.zeros(50), np.full(50, 3.0), np.full(50, -1e-300)], ids=["zero", "constant", "tiny"]
)
def test_nothing_to_split(gradient):
    X, _, levels = table(50, 3, 11)
    work = Workspace(bin_table(X, levels), levels)
    nodes, leaf = grown(work, gradient, None, BoostLimits(min_leaf=1))
    assert nodes.size == 1
    assert nodes.value[0, 0] == pytest.approx(-gradient.mean())
    assert (leaf == 0).all()


def test_constant_and_empty_columns_and_few_rows():
    X = np.column_stack([np.ones(6), np.full(6, np.nan), np.arange(6.0)])
    y = np.array([0, 0, 0, 1, 1, 1.0])
    work = Workspace(bin_table(X, [0, 0, 0]), [0, 0, 0])
    nodes, leaf = grown(work, -y, None, BoostLimits(min_leaf=1, max_leaves=2))
    assert nodes.feature[0] == 2
    np.testing.assert_allclose(nodes.value[leaf, 0], y)
    one, _ = grown(Workspace(bin_table(X[:1], [0, 0, 0]), [0, 0, 0]), -y[:1], None, BoostLimits())
    assert one.size == 1


def test_missing_against_all_others():
    X = np.array([[1.0], [1.0], [np.nan], [np.nan]])
    y = np.array([0.0, 0.0, 1.0, 1.0])
    nodes, leaf = grown(Workspace(bin_table(X, [0]), [0]), -y, None, BoostLimits(min_leaf=1))
    assert nodes.threshold[0] == np.inf
    assert nodes.missing[0] == 1
    np.testing.assert_array_equal(leaf_indices(nodes, X)[:, 0], leaf)
    np.testing.assert_allclose(nodes.value[leaf, 0], y)


@pytest.mark.parametrize("curved", [False, True])
@pytest.mark.parametrize("growth", ["leaf", "depth"])
def test_threads_never_change_a_bit(curved, growth):
    X, y, levels = table(36_000, 7, 12, gaps=0.05, levels=((2, 30),))
    codes = bin_table(X, levels)
    h = np.random.default_rng(13).uniform(0.05, 0.25, y.size) if curved else None
    limits = BoostLimits(max_leaves=31, growth=growth)
    one, leaf = grown(Workspace(codes, levels, 1), -y, h, limits)
    for jobs, cells in ((2, SHARED_CELLS), (3, 0), (7, 0)):
        work = Workspace(codes, levels, jobs, shared_cells=cells)
        assert work.threads == jobs
        gradient, hessian = np.stack([y, -y]), None if h is None else np.stack([h, h])
        for _ in range(3):  # in the same room
            two, there = grow_boosted(work, gradient, hessian, limits, score=1)
            np.testing.assert_array_equal(leaf, there)
            for name in ("feature", "threshold", "value", "gain", "weight", "missing", "words"):
                np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def several(codes, levels, y, limits, rate, *, keep, jobs=1, monotone=None):
    """Trees of squared error one after another, and how many of them had their root from the leaves before."""
    work, g, trees, carried = (
        Workspace(codes, levels, jobs, shared_work=0, shared_cells=0, kept=0),
        -y[None].copy(),
        [],
        0,
    )
    for _ in range(20):
        carried += work.carried > 0
        nodes, leaf = grow_boosted(work, g, None, limits, keep=keep, monotone=monotone)
        value = rate * nodes.value[:, 0]
        g[0] += value[leaf]
        work.move(value)
        trees.append(nodes)
    return trees, carried


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize(
    ("limits", "rate", "noise", "signs"),
    [
        ({"max_leaves": 31}, 0.1, 1.0, None),
        ({"max_leaves": 31, "growth": "depth", "l2": 2.0}, 0.3, 1.0, None),
        ({"max_leaves": 0, "max_depth": 1}, 0.5, 1.0, None),
        ({"max_leaves": 0, "max_depth": 4, "min_leaf": 200}, 0.1, 1.0, [1, 0, 0, -1, 0, 0, 0]),
        ({"max_leaves": 8}, 2.1, 1.0, None),  # gradients that grow until the unit no longer fits
        ({"max_leaves": 400, "min_leaf": 2}, 0.9, 0.0, None),  # and such that vanish
    ],
)
def test_the_next_root_follows_from_the_leaves(jobs, limits, rate, noise, signs):
    X, y, levels = table(8000, 7, 15, gaps=0.05, levels=((2, 30),))
    y = noise * y + np.nan_to_num(X[:, 0]) * np.nan_to_num(X[:, 3])
    codes, monotone = bin_table(X, levels), None if signs is None else np.array(signs)
    plain, none = several(codes, levels, y, BoostLimits(**limits), rate, keep=False, monotone=monotone)
    kept, some = several(codes, levels, y, BoostLimits(**limits), rate, keep=True, jobs=jobs, monotone=monotone)
    assert none == 0
    assert some > 5
    for one, two in zip(plain, kept, strict=True):
        for name in ("feature", "threshold", "weight", "missing", "words"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        # Leaves are summed in floating point; bounds and inner nodes follow from whole numbers of the unit.
        np.testing.assert_allclose(one.value, two.value, rtol=1e-7, atol=1e-9)


def test_sums_that_cannot_be_kept_are_made_again():
    X, y, levels = table(3000, 5, 14, levels=((2, 30),))
    codes = bin_table(X, levels)
    limits = BoostLimits(max_leaves=40, min_leaf=5)
    one, leaf = grown(Workspace(codes, levels), -y, None, limits)
    two, there = grown(Workspace(codes, levels, pool_bytes=100_000), -y, None, limits)
    np.testing.assert_array_equal(leaf, there)
    np.testing.assert_array_equal(one.value, two.value)


def test_fits_inside_tasks_give_the_same_trees():
    X, y, levels = table(2000, 6, 15)
    codes = bin_table(X, levels)

    def fit(k):
        return grown(Workspace(codes, levels, 2, shared_work=0, shared_cells=0), -y, None, BoostLimits())[0].value

    first, *others = parallel(fit, range(6), n_jobs=2)
    for value in others:
        np.testing.assert_array_equal(first, value)


def test_many_levels_share_the_last_bin():
    rng = np.random.default_rng(16)
    X = rng.integers(65_500, 65_590, (3000, 1)).astype(float)  # 65,535 bins are the most
    y = (X[:, 0] % 3 == 0) + 0.1 * rng.normal(size=3000)
    nodes, leaf = grown(Workspace(bin_table(X, [65_590]), [65_590]), -y, None, BoostLimits(min_leaf=1))
    np.testing.assert_array_equal(leaf_indices(nodes, X)[:, 0], leaf)
