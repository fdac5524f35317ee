from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.numerics.double_double import add, div, mul, refine, root, two_prod, two_sum
from tests.naive.numerics import exact_least_squares

numbers = st.floats(-1e100, 1e100).filter(lambda v: v == 0 or abs(v) > 1e-100)


def exact(hi, lo):
    return Fraction(float(hi)) + Fraction(float(lo))


@settings(deadline=None, max_examples=300)
@given(numbers, numbers)
def test_sum_and_product_lose_nothing(a, b):
    assert exact(*two_sum(a, b)) == Fraction(a) + Fraction(b)
    assert exact(*two_prod(a, b)) == Fraction(a) * Fraction(b)


@pytest.mark.parametrize("seed", range(20))
def test_arithmetic_keeps_thirty_digits(seed):
    rng = np.random.default_rng(seed)
    ah, bh = rng.normal(size=2) * 10.0 ** rng.integers(-5, 5, 2)
    al, bl = rng.uniform(-0.5, 0.5, 2) * np.spacing([ah, bh])
    A, B = exact(ah, al), exact(bh, bl)
    tiny = Fraction(1, 10**30)
    assert abs(exact(*add(ah, al, bh, bl)) - (A + B)) <= tiny * (abs(A) + abs(B))
    assert abs(exact(*mul(ah, al, bh, bl)) / (A * B) - 1) <= tiny
    assert abs(exact(*div(ah, al, bh, bl)) * B / A - 1) <= tiny
    if ah > 0:
        assert abs(exact(*root(ah, al)) ** 2 / A - 1) <= tiny


@pytest.mark.parametrize("weighted", [False, True])
def test_refined_least_squares_is_exact_to_the_last_digits(weighted):
    rng = np.random.default_rng(0)
    x = np.linspace(-1.0, -0.3, 60)
    A = np.ascontiguousarray(x[:, None] ** np.arange(10.0))
    y = np.sin(5 * x)[:, None] + 0.1 * rng.normal(size=(60, 1))
    w = rng.uniform(0.5, 1.0, 60) if weighted else np.ones(60)
    R = np.linalg.qr(np.sqrt(w)[:, None] * A, mode="r")
    fit = refine(lambda rows: (A[rows], y[rows], w[rows]), [slice(0, 25), slice(25, 60)], R, 1)
    beta, variance, rss = exact_least_squares(A, y[:, 0], w, intercept=False)
    assert np.linalg.cond(A) > 1e8
    np.testing.assert_allclose(fit.coef[:, 0], np.array([float(v) for v in beta]), rtol=4e-16)
    assert w @ np.square(fit.residuals[:, 0]) == pytest.approx(float(rss), rel=1e-14)
    error = np.sqrt(float(rss) / 50) * np.linalg.norm(fit.basis, axis=1)
    np.testing.assert_allclose(error, np.sqrt([float(v) for v in variance]), rtol=1e-14)
    np.testing.assert_allclose(fit.Z.T @ (w[:, None] * fit.Z), np.eye(10), atol=1e-14)


def test_a_hopeless_factor_is_refused():
    A = np.ones((5, 2))
    assert refine(lambda rows: (A[rows], A[rows, :1], np.ones(5)), [slice(0, 5)], np.eye(2), 1) is None
