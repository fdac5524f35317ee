"""Prediction against a walk down the tree written from the layout's description."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from assay.trees import _predict
from assay.trees._predict import leaf_indices, sum_values
from assay.trees.nodes import UNSEEN, Nodes, concatenate


def walk(nodes, x, t):
    """The definition, one node at a time."""
    while nodes.feature[t] >= 0:
        value = x[nodes.feature[t]]
        if np.isnan(value):
            child = nodes.missing[t]
        elif nodes.offset[t] < 0:
            child = int(value > nodes.threshold[t])
        elif nodes.count[t] == 2:
            child = 1 - (int(nodes.words[nodes.offset[t] + int(value) // 32]) >> (int(value) % 32) & 1)
        else:
            word = nodes.words[nodes.offset[t] + int(value)]
            child = nodes.missing[t] if word == UNSEEN else int(word)
        t = nodes.first[t] + child
    return t


def random_tree(rng, levels, splits, K):
    """A tree of random tests: columns with levels are categories, binary or multiway."""
    columns = {name: [] for name in ("feature", "threshold", "first", "count", "missing", "offset")}

    def leaf():
        for name, value in zip(columns, (-1, 0.0, 0, 0, 0, -1), strict=True):
            columns[name].append(value)

    leaf()
    words: list[int] = []
    for _ in range(splits):
        t = int(rng.choice([k for k, f in enumerate(columns["feature"]) if f == -1]))
        j = int(rng.integers(len(levels)))
        count, offset = 2, -1
        if levels[j]:
            offset = len(words)
            if rng.random() < 0.5:
                words += [int(word) for word in rng.integers(0, 2**32, (levels[j] + 31) // 32)]
            else:
                count = int(rng.integers(3, 6))
                words += [int(UNSEEN) if rng.random() < 0.2 else int(rng.integers(count)) for _ in range(levels[j])]
        at_infinity = rng.random() < 0.05
        new = (j, np.inf if at_infinity else rng.normal(), len(columns["feature"]), count, rng.integers(count), offset)
        for name, value in zip(columns, new, strict=True):
            columns[name][t] = value
        for _ in range(count):
            leaf()
    size = len(columns["feature"])
    kinds = {"threshold": np.float64, "offset": np.int64}
    return Nodes(
        starts=np.array([0, size]),
        **{name: np.array(value, dtype=kinds.get(name, np.int32)) for name, value in columns.items()},
        words=np.array(words, dtype=np.uint32),
        value=rng.normal(size=(size, K)),
        rows=np.ones(size, dtype=np.int64),
        weight=np.ones(size),
        impurity=np.zeros(size),
        gain=np.zeros(size),
    )


def some_rows(rng, n, levels):
    X = np.column_stack([rng.integers(0, c, n) if c else np.round(rng.normal(size=n), 1) for c in levels]).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


@pytest.mark.parametrize("levels", [(0, 0, 0), (0, 5, 0, 70), (3, 40)], ids=["numbers", "mixed", "categories"])
@pytest.mark.parametrize("n", [1, 7, 8, 203])
def test_leaves_and_sums_are_those_of_the_walk(levels, n):
    rng = np.random.default_rng(n)
    nodes = concatenate([random_tree(rng, levels, splits, 3) for splits in (0, 1, 6, 40, 200)])
    X = some_rows(rng, n, levels)
    expected = np.array([[walk(nodes, x, root) for root in nodes.starts[:-1]] for x in X])
    for jobs in (1, 2):
        np.testing.assert_array_equal(leaf_indices(nodes, X, n_jobs=jobs), expected)
    sums = np.ones((n, 3))
    assert sum_values(nodes, X, sums) is sums
    total = np.ones((n, 3))
    for t in range(5):
        total += nodes.value[expected[:, t]]
    np.testing.assert_array_equal(sums, total)


def test_groups_of_trees_add_to_their_column():
    rng = np.random.default_rng(1)
    nodes = concatenate([random_tree(rng, (0, 4), 9, 1) for _ in range(6)])
    X = some_rows(rng, 50, (0, 4))
    leaves = leaf_indices(nodes, X)
    total = np.zeros((50, 3))
    for t in range(6):
        total[:, t % 3] += nodes.value[leaves[:, t], 0]
    np.testing.assert_array_equal(sum_values(nodes, X, np.zeros((50, 3)), groups=3), total)


def test_threads_and_blocks_never_change_a_bit(monkeypatch):
    rng = np.random.default_rng(2)
    nodes = concatenate([random_tree(rng, (0, 0, 0), 30, 1) for _ in range(40)])
    X = some_rows(rng, 5000, (0, 0, 0))
    one = sum_values(nodes, X, np.zeros((5000, 1)), n_jobs=1)
    np.testing.assert_array_equal(one, sum_values(nodes, X, np.zeros((5000, 1)), n_jobs=2))
    rows = np.vstack([sum_values(nodes, X[i : i + 1], np.zeros((1, 1))) for i in range(20)])
    np.testing.assert_array_equal(one[:20], rows)


def test_a_chain_deeper_than_any_block():
    rng = np.random.default_rng(3)
    nodes = random_tree(rng, (0,), 0, 1)
    size = 2 * 300 + 1
    feature, first, threshold = np.full(size, -1, np.int32), np.zeros(size, np.int32), np.zeros(size)
    for k in range(300):
        t = 0 if k == 0 else 2 * k
        feature[t], first[t], threshold[t] = 0, 2 * k + 1, k
    chain = Nodes(
        starts=np.array([0, size]), feature=feature, threshold=threshold, first=first,
        count=np.where(feature >= 0, 2, 0).astype(np.int32), missing=np.zeros(size, np.int32),
        offset=np.full(size, -1), words=nodes.words, value=np.zeros((size, 1)), rows=np.ones(size, np.int64),
        weight=np.ones(size), impurity=np.zeros(size), gain=np.zeros(size),
    )  # fmt: skip
    X = np.append(np.arange(-2.0, 310.0, 0.7), np.nan)[:, None]
    np.testing.assert_array_equal(leaf_indices(chain, X)[:, 0], [walk(chain, x, 0) for x in X])


def test_packed_steps_are_made_once_and_die_with_their_nodes():
    rng = np.random.default_rng(4)
    nodes = random_tree(rng, (0, 0), 5, 1)
    X = some_rows(rng, 10, (0, 0))
    leaf_indices(nodes, X)
    kept = _predict._routes(nodes)
    leaf_indices(nodes, X)
    assert _predict._routes(nodes) is kept
    before = len(_predict._kept)
    del nodes
    gc.collect()
    assert len(_predict._kept) < before


def test_strided_and_read_only_rows():
    rng = np.random.default_rng(5)
    nodes = random_tree(rng, (0, 6), 20, 1)
    X = some_rows(rng, 60, (0, 6))
    other = np.asfortranarray(X)
    other.flags.writeable = False
    np.testing.assert_array_equal(leaf_indices(nodes, X), leaf_indices(nodes, other))
