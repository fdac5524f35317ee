from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from assay.numerics.moments import all_but_one
from assay.numerics.triangle import error_norms, merge, solve, summarize


def table(n=300, p=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * 10.0 ** rng.integers(-3, 4, p) + rng.normal(size=p)
    return X, X @ rng.normal(size=p) + rng.normal(size=n), rng.uniform(0.1, 3.0, n)


def gram(triangle):
    return triangle.factor.T @ triangle.factor


@pytest.mark.parametrize("weighted", [False, True])
def test_factor_squares_to_the_cross_products(weighted):
    X, y, w = table()
    A = np.column_stack([np.ones(len(y)), X, y])
    s = summarize(X, y, w if weighted else None)
    np.testing.assert_allclose(gram(s), (A * (w if weighted else np.ones(len(y)))[:, None]).T @ A, rtol=1e-12)
    assert np.array_equal(s.factor, np.triu(s.factor))


def test_trailing_block_is_the_factor_of_the_centred_rows():
    X, y, _ = table()
    C = np.column_stack([X - X.mean(axis=0), y - y.mean()])
    T = summarize(X, y).factor[1:, 1:]
    np.testing.assert_allclose(T.T @ T, C.T @ C, rtol=1e-10, atol=1e-10)


def test_merging_blocks_is_summarizing_all_rows():
    X, y, w = table()
    cuts = [slice(0, 3), slice(3, 100), slice(100, 101), slice(101, 300)]
    parts = [summarize(X[c], y[c], w[c]) for c in cuts]
    whole = summarize(X, y, w)
    merged = merge(merge(parts[0], parts[1]), merge(parts[2], parts[3]))
    np.testing.assert_allclose(gram(merged), gram(whole), rtol=1e-12)
    assert (merged.n, merged.weight) == pytest.approx((whole.n, whole.weight))
    assert merged.log_weight == pytest.approx(whole.log_weight)
    for left_out, rest in zip(cuts, all_but_one(parts, merge), strict=True):
        kept = np.ones(len(y), dtype=bool)
        kept[left_out] = False
        np.testing.assert_allclose(solve(rest).coef, solve(summarize(X[kept], y[kept], w[kept])).coef, rtol=1e-9)


def test_several_blocks_agree_with_one_and_repeat_to_the_bit():
    X, y, _ = table(20_000, 30)
    s = summarize(X, y)
    np.testing.assert_allclose(solve(s).coef[:, 0], np.linalg.lstsq(X - X.mean(0), y - y.mean(), rcond=None)[0])
    assert np.array_equal(s.factor, summarize(X, y).factor)


def test_csr_rows_equal_dense_rows():
    X, y, w = table()
    X[np.abs(X) < 0.5] = 0.0
    np.testing.assert_array_equal(summarize(sparse.csr_array(X), y, w).factor, summarize(X, y, w).factor)


def test_weights_are_repetition():
    X, y, _ = table()
    w = np.random.default_rng(1).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), w)
    weighted, repeated = summarize(X, y, w.astype(float)), summarize(X[rows], y[rows])
    np.testing.assert_allclose(solve(weighted).coef, solve(repeated).coef, rtol=1e-9)
    assert weighted.n == np.count_nonzero(w)
    assert weighted.weight == repeated.weight


def test_error_comes_from_the_factor_alone():
    X, y, w = table()
    b, a = np.arange(6.0)[:, None], np.array([3.0])
    direct = np.sqrt(w @ np.square(y - 3.0 - X @ b[:, 0]))
    np.testing.assert_allclose(error_norms(summarize(X, y, w), b, a), direct)
    direct = np.sqrt(np.square(y - X @ b[:, 0]).sum())
    np.testing.assert_allclose(error_norms(summarize(X, y, intercept=False), b, a), direct)


@pytest.mark.parametrize("shape", [(40, 10), (12, 30), (5, 5)])
def test_least_norm_where_the_rank_is_short(shape):
    rng = np.random.default_rng(2)
    X = rng.normal(size=shape) @ np.diag(rng.uniform(0.5, 2.0, shape[1])) + 5.0
    X[:, -1] = X[:, 0] - 2 * X[:, 1]
    X[:, -2] = 7.0
    Y = rng.normal(size=(shape[0], 2))
    fit = solve(summarize(X, Y))
    C = X - X.mean(axis=0)
    truth, _, rank, _ = np.linalg.lstsq(C, Y - Y.mean(axis=0), rcond=1e-12)
    np.testing.assert_allclose(fit.coef, truth, atol=1e-11)
    assert fit.rank == rank
    assert np.isinf(fit.condition)
    # `null` really is free: moving along it changes no fitted value.
    np.testing.assert_allclose(C / fit.scale[1:] @ fit.null, 0.0, atol=1e-12)


def test_the_later_copy_is_named():
    X, y, _ = table(50, 5)
    A = np.column_stack([X[:, 0], np.full(50, 1 / 3), X[:, 1], 3 * X[:, 0] + 1, X[:, 2], X[:, 0] - X[:, 1] * 1e-3])
    fit = solve(summarize(A, y))
    assert fit.aliased.tolist() == [1, 3, 5]
    assert fit.constant.tolist() == [1]
    assert fit.coef[1, 0] == 0.0


def test_dummies_of_all_levels_are_found_in_many_rows():
    rng = np.random.default_rng(3)
    D = np.eye(12)[rng.integers(0, 12, 30_000)]
    X = np.column_stack([rng.normal(size=30_000), D])
    fit = solve(summarize(X, rng.normal(size=30_000)))
    assert fit.rank == 12
    assert fit.aliased.tolist() == [12]


@pytest.mark.parametrize("degree", [5, 10, 12])
def test_raw_polynomials_keep_their_columns(degree):
    x = np.linspace(-9, -3, 82)
    fit = solve(summarize(x[:, None] ** np.arange(1, degree + 1), np.sin(x)))
    assert fit.rank == degree
    assert np.isfinite(fit.condition)


def test_condition_number_is_that_of_unit_columns():
    X, y, _ = table()
    A = np.column_stack([np.ones(len(y)), X])
    assert solve(summarize(X, y)).condition == pytest.approx(np.linalg.cond(A / np.linalg.norm(A, axis=0)))
    assert solve(summarize(X, y, intercept=False)).condition == pytest.approx(
        np.linalg.cond(X / np.linalg.norm(X, axis=0))
    )


def test_basis_is_orthonormal_and_spans_the_design():
    X, y, w = table()
    fit = solve(summarize(X, y, w))
    Z = np.column_stack([np.ones(len(y)), X]) / fit.scale @ fit.basis
    np.testing.assert_allclose(Z.T @ (w[:, None] * Z), np.eye(7), atol=1e-12)
    np.testing.assert_allclose(fit.basis @ fit.coordinates / fit.scale[:, None], np.vstack([fit.intercept, fit.coef]))


@pytest.mark.parametrize("scales", [[1e150, 1e-150, 1.0], [1e-150] * 3, [1e150] * 3])
def test_any_scale_gives_the_same_fit(scales):
    X, y, _ = table(30, 3)
    plain, scaled = solve(summarize(X, y)), solve(summarize(X * scales, y))
    np.testing.assert_allclose(scaled.coef[:, 0] * scales, plain.coef[:, 0], rtol=1e-9)
    assert scaled.condition == pytest.approx(plain.condition)


def test_copies_at_distant_scales_leave_the_fit_alone():
    X, y, _ = table(30, 3)
    scales = np.array([1e150, 1e-150, 1.0, 1e-100])
    plain, copied = solve(summarize(X, y)), solve(summarize(np.column_stack([X, X[:, 0]]) * scales, y))
    np.testing.assert_allclose(copied.coef[:, 0] * scales, [*plain.coef[:, 0], 0.0], rtol=1e-9, atol=1e-12)


def test_rare_levels_beside_large_means_are_still_named_last():
    """Dropping exactly the named columns must leave a table of full rank, whatever the rounding noise."""
    rng = np.random.default_rng(4)
    n = 2_000
    levels = [
        np.eye(k)[rng.choice(k, n, p=share)] for k, share in ((4, [0.9, 0.08, 0.018, 0.002]), (3, [0.6, 0.3, 0.1]))
    ]
    year = 2003.0 + rng.integers(0, 7, n)
    X = np.column_stack([year, rng.normal(45, 12, n), *levels, 1e7 + rng.normal(size=n)])
    fit = solve(summarize(X, rng.normal(size=n)))
    assert fit.aliased.tolist() == [5, 8]
    assert solve(summarize(np.delete(X, fit.aliased, axis=1), year)).rank == fit.rank == 8


def test_condition_number_of_many_columns():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(700, 400)) * 10.0 ** rng.integers(-3, 4, 400) + 1
    X[:, 7] = X[:, 3] + 1e-4 * X[:, 7]
    A = np.column_stack([np.ones(700), X])
    fit = solve(summarize(X, X[:, 0]))
    assert fit.condition == pytest.approx(np.linalg.cond(A / np.linalg.norm(A, axis=0)), rel=1e-5)
    np.testing.assert_allclose(fit.coef[:, 0], np.eye(400)[0], atol=1e-5)
