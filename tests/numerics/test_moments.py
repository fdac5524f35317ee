"""Centred moments: right for any offset, and merging is adding."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from assay.errors import DataError
from assay.numerics.moments import Moments, all_but_one, merge, summarize
from tests.naive.numerics import centred_moments

FIELDS = ("weight", "n", "mx", "my", "xx", "xy", "yy")


def assert_same(a: Moments, b: Moments, rtol: float = 1e-10) -> None:
    for name in FIELDS:
        left, right = np.asarray(getattr(a, name)), np.asarray(getattr(b, name))
        assert left.shape == right.shape
        assert_allclose(left, right, rtol=rtol, atol=rtol * max(1.0, np.abs(right).max(initial=0)), err_msg=name)


def table(n=200, p=4, k=1, offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) + offset
    return X, (X[:, :1] - offset) + rng.normal(size=(n, k)) - offset


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [1, 3])
def test_agrees_with_exact_rational_arithmetic(offset, weighted, k):
    X, Y = table(60, 3, k, offset)
    w = np.random.default_rng(1).uniform(0, 3, len(X)) if weighted else None
    mx, my, xx, xy, yy = centred_moments(X, Y, w)
    s = summarize(X, Y if k > 1 else Y[:, 0], w)
    assert_allclose(s.mx, mx, rtol=1e-14)
    assert_allclose(s.my, my, rtol=1e-14)
    # Raw X'X minus n times the squared means would have no digit left at an offset of 1e8.
    assert_allclose(s.xx, xx, rtol=1e-10, atol=1e-10 * len(X))
    assert_allclose(s.xy, xy, rtol=1e-10, atol=1e-10 * len(X))
    assert_allclose(s.yy, yy, rtol=1e-10)
    assert s.n == len(X)


def test_blocks_do_not_show():
    X, Y = table(1000, 5, 2, offset=1e6)
    w = np.random.default_rng(2).uniform(0, 2, len(X))
    whole = summarize(X, Y, w)
    assert_same(summarize(X, Y, w, block_cells=50), whole)
    assert_same(summarize(X, Y, block_cells=50), summarize(X, Y, np.ones(len(X)), block_cells=50))


def test_weights_equal_repetition():
    X, Y = table(50, 3, 2, offset=100.0)
    counts = np.random.default_rng(3).integers(0, 4, len(X))
    weighted = summarize(X, Y, counts.astype(float))
    repeated = summarize(np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0))
    for name in ("weight", "mx", "my", "xx", "xy", "yy"):
        assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-12, err_msg=name)


def test_rows_without_weight_count_for_nothing():
    X, Y = table(40, 2)
    w = np.r_[np.zeros(20), np.ones(20)]
    s, kept = summarize(X, Y, w, block_cells=30), summarize(X[20:], Y[20:])  # the first blocks weigh nothing at all
    for name in ("weight", "mx", "my", "xx", "xy", "yy"):
        assert_allclose(getattr(s, name), getattr(kept, name), rtol=1e-12, err_msg=name)
    assert merge(summarize(X, Y, np.zeros(40)), summarize(X, Y, np.zeros(40))).n == 80


def test_inputs_keep_their_values_and_any_layout_will_do():
    X, Y = table(30, 3)
    before = X.copy()
    assert_same(summarize(np.asfortranarray(X), Y), summarize(X, Y), rtol=1e-13)
    assert_same(summarize(np.repeat(X, 2, axis=0)[::2], Y), summarize(X, Y), rtol=1e-13)
    assert_same(summarize(X.astype(np.float32), Y), summarize(X.astype(np.float32).astype(float), Y), rtol=1e-13)
    assert (before == X).all()


numbers = st.floats(-1e6, 1e6, allow_nan=False, width=32)
tables = st.lists(st.tuples(numbers, numbers, numbers, st.floats(0, 100, width=32)), min_size=1, max_size=8)


def from_rows(rows) -> Moments:
    a = np.array(rows, dtype=float)
    return summarize(a[:, :2], a[:, 2], a[:, 3])


def assert_close(a: Moments, b: Moments) -> None:
    """Equal up to rounding, measured against the largest number that took part."""
    for name in FIELDS:
        left, right = np.asarray(getattr(a, name)), np.asarray(getattr(b, name))
        scale = 1e6 if name in ("mx", "my") else 1e12 * max(1.0, b.weight)
        assert_allclose(left, right, rtol=0, atol=1e-13 * scale, err_msg=name)


@given(tables, tables, tables)
def test_merging_is_associative_and_is_the_summary_of_all_rows(a, b, c):
    left = merge(merge(from_rows(a), from_rows(b)), from_rows(c))
    right = merge(from_rows(a), merge(from_rows(b), from_rows(c)))
    if left.weight > 0:
        assert_close(left, right)
        assert_close(left, from_rows(a + b + c))


@given(tables, tables)
def test_merging_commutes(a, b):
    left, right = merge(from_rows(a), from_rows(b)), merge(from_rows(b), from_rows(a))
    if left.weight > 0:
        assert_close(left, right)


@pytest.mark.parametrize("K", [2, 3, 4, 10])
def test_all_but_one_is_the_summary_of_the_other_parts(K):
    X, Y = table(20 * K, 3, offset=10.0)
    parts = [summarize(x, y) for x, y in zip(np.split(X, K), np.split(Y, K), strict=True)]
    others = all_but_one(parts, merge)
    assert len(others) == K
    for k in range(K):
        assert_same(others[k], reduce(merge, parts[:k] + parts[k + 1 :]), rtol=1e-13)


def test_one_outlier_does_not_ruin_the_parts_it_is_not_in():
    """Subtracting a fold from the total would leave nothing of the other folds' digits."""
    X, Y = table(100, 3)
    X[0], Y[0] = 1e12, -1e12
    parts = [summarize(x, y) for x, y in zip(np.split(X, 5), np.split(Y, 5), strict=True)]
    assert_same(all_but_one(parts, merge)[0], summarize(X[20:], Y[20:]), rtol=1e-13)


@given(st.lists(st.text(min_size=1, max_size=2), min_size=2, max_size=12))
def test_all_but_one_keeps_the_order_of_merging(parts):
    expected = ["".join(parts[:k] + parts[k + 1 :]) for k in range(len(parts))]
    assert all_but_one(parts, str.__add__) == expected


@pytest.mark.parametrize("parts", [[], ["a"]])
def test_nothing_is_left_of_fewer_than_two_parts(parts):
    with pytest.raises(DataError, match="at least two parts"):
        all_but_one(parts, str.__add__)
