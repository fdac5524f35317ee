"""Bins against their definition, written out with whole-array operations and a plain search."""

from __future__ import annotations

import numpy as np
import pytest

from assay.trees._binning import Bins, bin_table


def definition(x, w, max_bins, tails=0.0):
    """Cuts of one column: between all values, or where the bin of a value's middle changes."""
    keep = ~np.isnan(x)
    x, w = x[keep], np.ones(keep.sum()) if w is None else w[keep]
    x, w = x[w > 0], w[w > 0]
    values = np.unique(x)
    if values.size < 2:
        return np.empty(0)
    total = np.cumsum([w[x == value].sum() for value in values])
    middle = (np.concatenate([[0.0], total[:-1]]) + total) / 2
    u = middle / total[-1]
    ends = 0.5 + 0.5 * np.log((u + 1e-5) / (1 - u + 1e-5)) / np.log(1e5 + 1)
    number = np.floor(((1 - tails) * u + tails * ends) * max_bins)
    last = np.flatnonzero(number[1:] != number[:-1]) if values.size > max_bins else np.arange(values.size - 1)
    low, high = values[last], values[last + 1]
    cut = low + (high - low) / 2
    return np.where((cut >= low) & (cut < high), cut, low)


def columns(n, seed):
    rng = np.random.default_rng(seed)
    heavy = np.where(rng.random(n) < 0.6, 0.0, rng.normal(size=n))
    holes = np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n))
    nearby = 1.0 + np.spacing(1.0) * rng.integers(0, 5, n)
    return np.column_stack(
        [
            rng.normal(size=n), rng.integers(0, 7, n), heavy, holes, nearby, np.full(n, 3.0), np.full(n, np.nan),
            np.exp(8 * rng.normal(size=n)), rng.normal(size=n) * 1e-310, rng.integers(0, 5, n),
            -rng.exponential(size=n),
        ]
    )  # fmt: skip


@pytest.mark.parametrize("max_bins", [2, 3, 16, 255])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tails", [0.0, 1 / 3, 1.0])
def test_cuts_and_codes_are_those_of_the_definition(max_bins, weighted, tails):
    X = columns(700, 1)
    w = np.random.default_rng(2).integers(0, 4, len(X)).astype(float) if weighted else None
    levels = [0] * 9 + [5, 0]
    codes = bin_table(X, levels, w, max_bins=max_bins, tails=tails)
    bins = codes.bins
    for j in range(X.shape[1]):
        cuts = bins.cuts[bins.starts[j] : bins.starts[j + 1]]
        if levels[j]:
            assert cuts.size == 0
            np.testing.assert_array_equal(codes.values[:, j], X[:, j])
            continue
        np.testing.assert_array_equal(cuts, definition(X[:, j], w, max_bins, tails))
        assert bins.n_bins[j] == cuts.size + 1 <= max_bins
        place = np.searchsorted(cuts, X[:, j], side="left")
        np.testing.assert_array_equal(codes.values[:, j], np.where(np.isnan(X[:, j]), cuts.size + 1, place))


def test_code_and_cut_agree_everywhere():
    X = columns(500, 3)
    codes = bin_table(X, [0] * X.shape[1], max_bins=20)
    for j in range(X.shape[1]):
        cuts = codes.bins.cuts[codes.bins.starts[j] : codes.bins.starts[j + 1]]
        x = X[~np.isnan(X[:, j]), j]
        code = codes.values[~np.isnan(X[:, j]), j]
        for k, cut in enumerate(cuts):
            np.testing.assert_array_equal(code <= k, x <= cut)
        assert len(np.unique(code)) == (cuts.size + 1 if x.size else 0)  # no bin is empty


@pytest.mark.parametrize("tails", [0.0, 1 / 3])
def test_weights_equal_repetition(tails):
    X = columns(400, 4)
    times = np.random.default_rng(5).integers(0, 4, len(X))
    one = bin_table(X, [0] * X.shape[1], times.astype(float), max_bins=31, tails=tails).bins
    two = bin_table(np.repeat(X, times, axis=0), [0] * X.shape[1], max_bins=31, tails=tails).bins
    np.testing.assert_array_equal(one.cuts, two.cuts)
    np.testing.assert_array_equal(one.n_bins, two.n_bins)


def test_bins_grow_from_the_ends_of_a_column_in_proportion_to_the_rows_beyond_them():
    codes = bin_table(np.random.default_rng(6).normal(size=(20_000, 1)), [0], max_bins=255, tails=1 / 3)
    rows = np.bincount(codes.values[:, 0])
    assert rows.size <= 255
    for side in (rows, rows[::-1]):
        assert side[0] == 1
        beyond = np.cumsum(side) - side
        near = beyond < 300  # further in, all bins are of about the same size
        assert (side[near] <= 2 + 0.4 * beyond[near]).all()
    assert rows.max() < 1.6 * 20_000 / 255


def test_values_equal_to_a_cut_and_signed_zeros():
    bins = Bins(np.array([-1.0, 0.0, 2.0]), np.array([0, 3]), np.array([4], dtype=np.int32), np.array([0]))
    x = np.array([[-1.0], [-0.0], [0.0], [2.0], [np.nextafter(2.0, 3.0)], [-1e308], [1e308], [5e-324], [np.nan]])
    np.testing.assert_array_equal(bins.encode(x)[:, 0], [0, 1, 1, 2, 3, 0, 3, 2, 4])


def test_many_categories_take_two_bytes_and_the_last_share_a_bin():
    X = np.array([[0.0], [299.0], [301.0], [np.nan]])
    codes = bin_table(X, [302])
    assert codes.values.dtype == np.uint16
    np.testing.assert_array_equal(codes.values[:, 0], [0, 299, 301, 302])
    X = np.array([[0.0], [65_534.0], [65_536.0], [np.nan]])
    np.testing.assert_array_equal(bin_table(X, [65_537]).values[:, 0], [0, 65_534, 65_534, 65_535])


def test_a_sample_stands_for_large_tables_and_threads_change_nothing():
    X = columns(400_000, 6)
    one = bin_table(X, [0] * X.shape[1], max_bins=64, seed=1)
    two = bin_table(X, [0] * X.shape[1], max_bins=64, seed=1, n_jobs=2)
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.bins.cuts, two.bins.cuts)
    share = np.bincount(one.values[:, 0], minlength=64)[:64] / len(X)
    assert share.sum() == 1  # quantiles of 200,000 of 400,000 rows: each bin contains 1/64, give or take 6 deviations
    assert 0 < np.abs(share - 1 / 64).max() < 6 * np.sqrt(2 / 64 / 200_000)


def test_strided_and_read_only_tables():
    X = columns(300, 7)
    fortran = np.asfortranarray(X)
    fortran.flags.writeable = False
    one, two = bin_table(X, [0] * X.shape[1]), bin_table(fortran, [0] * X.shape[1])
    np.testing.assert_array_equal(one.values, two.values)


@pytest.mark.parametrize("n", [0, 1])
def test_no_rows_or_one(n):
    codes = bin_table(columns(5, 8)[:n], [0] * 11)
    assert codes.values.shape == (n, 11)
    assert (codes.bins.n_bins == 1).all()
