"""Davies-Bouldin and the Rand index between resamples: influence by its definition, coverage, pairs one by one."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from assay import metrics as am
from assay.errors import DataError

CENTRES = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 7.0]])


def draw(n, rng):
    group = rng.integers(0, 3, n)
    return rng.normal(size=(n, 2)) * np.array([1.0, 1.5, 2.0])[group][:, None] + CENTRES[group], group


def test_the_error_of_davies_bouldin_is_the_jackknifes():
    X, labels = draw(400, np.random.default_rng(0))
    left_out = [am.davies_bouldin(np.delete(X, i, 0), np.delete(labels, i)) for i in range(400)]
    jackknife = np.sqrt(399 / 400 * ((left_out - np.mean(left_out)) ** 2).sum())
    found = am.davies_bouldin.interval(X, labels)
    assert_allclose(np.log(found.upper / found.estimate) * found.estimate / stats.norm.isf(0.025), jackknife, rtol=0.03)


def test_davies_bouldin_covers():
    """200 tables: at least 178 intervals of 95% hold the value of half a million rows; false-alarm rate below 1e-4."""
    rng = np.random.default_rng(1)
    truth = am.davies_bouldin(*draw(500_000, rng))
    assert sum(truth in am.davies_bouldin.interval(*draw(300, rng)) for _ in range(200)) >= 178


def test_clusters_with_one_mean_are_refused():
    with pytest.raises(DataError, match="clusters number 0 and 1 have the same mean; merge them"):
        am.davies_bouldin([[-1.0], [1.0], [-2.0], [2.0]], [0, 0, 1, 1])
    with pytest.raises(DataError, match="1 cluster; the Davies-Bouldin index needs at least 2 clusters"):
        am.davies_bouldin([[-1.0], [1.0]], [0, 0])


def test_between_resamples_is_the_mean_over_pairs():
    rng = np.random.default_rng(0)
    parts = rng.integers(0, 3, (6, 80))
    parts[:, :50] = rng.integers(0, 3, 50)
    found = am.rand_between(parts)
    values = {pair: am.adjusted_rand(parts[pair[0]], parts[pair[1]]) for pair in combinations(range(6), 2)}
    assert_allclose(found.estimate, np.mean(list(values.values())))
    left_out = [np.mean([v for pair, v in values.items() if i not in pair]) for i in range(6)]
    error = np.sqrt(5 / 6 * ((left_out - np.mean(left_out)) ** 2).sum())
    assert_allclose(found.upper - found.estimate, stats.t.isf(0.025, 5) * error)


def test_rows_without_a_part_are_left_out_pair_by_pair():
    rng = np.random.default_rng(1)
    parts = rng.integers(0, 3, (3, 40))
    parts[0, :20], parts[1, 10:30] = -1, -1
    values = []
    for i, j in combinations(range(3), 2):
        both = (parts[i] >= 0) & (parts[j] >= 0)
        values.append(am.adjusted_rand(parts[i][both], parts[j][both]))
    assert_allclose(am.rand_between(parts).estimate, np.mean(values))


def test_what_is_no_set_of_partitions_is_refused():
    with pytest.raises(DataError, match="there are 2 partitions; an interval needs at least 3"):
        am.rand_between(np.zeros((2, 5), dtype=int))
    with pytest.raises(DataError, match="pass whole numbers, one row per partition"):
        am.rand_between([0, 1, 1])
