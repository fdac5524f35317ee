"""Two classes: a rule that is right on every row, or the proof that there is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

from assay.numerics.separation import Overlap, Separation, separate


def largest_margin(X, upper, intercept):
    """Of all directions in a box, by the whole linear programme at once."""
    A = np.column_stack([np.ones(len(X)), X]) if intercept else X
    M = np.where(upper, 1.0, -1.0)[:, None] * A
    p = A.shape[1]
    table = np.column_stack([-M, np.ones(len(M))])
    best = linprog(np.r_[np.zeros(p), -1.0], A_ub=table, b_ub=np.zeros(len(M)), bounds=[(-1, 1)] * p + [(None, 1)])
    return -best.fun


def check(answer, X, upper, intercept):
    """Either certificate, on every row."""
    if isinstance(answer, Separation):
        eta = X @ answer.direction[0] + answer.intercept[0]
        assert (np.where(upper, eta, -eta) > 0).all()
        return
    assert isinstance(answer, Overlap)
    assert (answer.weights > 0).all()
    assert answer.residual < 1e-8
    assert answer.rows.size <= X.shape[1] + 2
    assert (np.where(upper[answer.rows], 1, -1) == answer.sides).all()
    sums = [answer.weights[answer.sides == side] @ X[answer.rows[answer.sides == side]] for side in (1, -1)]
    np.testing.assert_allclose(sums[0], sums[1], atol=1e-8 * np.abs(X).max(initial=1.0))
    if intercept:
        assert answer.weights[answer.sides == 1].sum() == pytest.approx(1)
        assert answer.weights[answer.sides == -1].sum() == pytest.approx(1)
    else:
        assert answer.weights.sum() == pytest.approx(1)


@given(st.integers(0, 100_000), st.integers(2, 30), st.integers(1, 4), st.booleans())
def test_exactly_one_certificate_exists(seed, n, p, intercept):
    rng = np.random.default_rng(seed)
    X = np.round(2 * rng.normal(size=(n, p)))  # ties and duplicates
    upper = X @ rng.normal(size=p) + rng.choice([0.0, 0.5, 2.0]) * rng.normal(size=n) > 0
    if upper.all() or not upper.any():
        return
    answer = separate(X, upper, intercept=intercept)
    check(answer, X, upper, intercept)
    assert isinstance(answer, Separation) == (largest_margin(X, upper, intercept) > 1e-9)


def test_many_rows_of_which_few_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 5))
    score = X @ rng.normal(size=5) - 0.3
    upper = score > 0
    for table in (X, sparse.csr_array(X)):
        check(separate(table, upper), X, upper, True)
    upper[np.argsort(np.abs(score))[3000:3003]] ^= True
    answer = separate(X, upper, start=np.where(upper, score, -score))
    assert isinstance(answer, Overlap)
    check(answer, X, upper, True)


def test_duplicate_rows_with_opposite_classes_are_named():
    X = np.array([[1.0, 5.0], [2.0, 3.0], [1.0, 5.0]])
    answer = separate(X, np.array([True, False, False]))
    assert str(answer) == "no line separates the classes: rows 0 and 2 are equal, their classes are not"
    np.testing.assert_allclose(answer.to_frame()["weight"], [1.0, 1.0])


def test_through_zero_is_harder():
    X = np.array([[1.0], [2.0]])
    assert isinstance(separate(X, np.array([False, True])), Separation)
    answer = separate(X, np.array([False, True]), intercept=False)
    check(answer, X, np.array([False, True]), False)
    assert "through zero" in str(answer)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_units_do_not_matter(scale):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3)) * [scale, 1.0, 1.0]
    for noise in (0.0, 2.0):
        upper = X[:, 0] / scale + noise * rng.normal(size=40) > 0
        answer = separate(X, upper)
        assert isinstance(answer, Overlap if noise else Separation)


@pytest.mark.parametrize("origin", [0.0, 1e6, 1.7e9, -1e12])
def test_columns_far_from_zero_are_told_apart(origin):
    X = origin + np.array([[1.0, 5.0], [2.0, 4.0], [4.0, 3.0], [5.0, 1.0]])
    upper = np.array([False, False, True, True])
    answer = separate(X, upper)
    assert isinstance(answer, Separation)
    check(answer, X, upper, True)
    middle = origin + np.array([[0.0], [1.0], [2.0]])
    proof = separate(middle, np.array([False, True, False]))
    assert isinstance(proof, Overlap)
    np.testing.assert_allclose(proof.point, origin + 1.0)


@pytest.mark.parametrize("eps", [1e-6, 1e-8, 1e-10, 1e-12])
def test_nearly_touching_classes_are_never_declared_to_overlap(eps):
    X = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5 + eps], [3.0, 3.0 + 4 * eps]])
    answer = separate(X, np.array([False, False, True, True]))
    assert not isinstance(answer, Overlap)
    pair = separate(np.array([[1.0], [1.0 + eps]]), np.array([False, True]))
    assert isinstance(pair, Separation)


def test_a_row_of_zeros_lies_on_every_line_through_zero():
    answer = separate(np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([True, False]), intercept=False)
    assert str(answer).endswith("row 0 is all zeros")
