"""The curvature of the softmax loss, beside the Hessian written out row by row."""

import numpy as np
import pytest
from scipy import sparse

from assay.linear._logistic_path_columns import DenseColumns, SparseColumns
from assay.linear._logistic_path_curvature import between, free_curvature, with_free


def problem(K, p, nu, kind, n=60, seed=0):
    rng = np.random.default_rng(seed)
    w = rng.uniform(0.5, 1.5, size=n)
    w /= w.sum()
    X = rng.normal(size=(n, p)) * (rng.uniform(size=(n, p)) < 0.5)
    table = DenseColumns(X, w, True) if kind == "dense" else SparseColumns(sparse.csc_array(X), w, True)
    P = rng.dirichlet(np.ones(K), size=n).T.copy()
    U = np.concatenate([np.ones((1, n)), rng.normal(size=(nu - 1, n))]) if nu else np.empty((0, n))
    return table, P, w, U


def hessian(A, B, P, w):
    """A'HB for rows A (a, n) and B (b, n) of columns, class by class: the definition."""
    K, n = P.shape
    out = np.zeros((K * len(A), K * len(B)))
    for i in range(n):
        H = w[i] * (np.diag(P[:, i]) - np.outer(P[:, i], P[:, i]))
        out += np.kron(H, np.outer(A[:, i], B[:, i]))
    return out


@pytest.mark.parametrize("precise", [True, False])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize(("K", "p"), [(3, 4), (7, 2)])
def test_products_of_classes_are_those_of_the_hessian(K, p, kind, precise):
    table, P, w, U = problem(K, p, 2, kind)
    Z = table.rows(np.arange(p))
    every = np.random.default_rng(1).permutation(K * p)[: K * p - 2]
    expected, tol = hessian(Z, Z, P, w), 1e-12 if precise else 1e-5
    whole = between(table, P, w, every, every, precise)
    np.testing.assert_allclose(whole, expected[np.ix_(every, every)], atol=tol)
    new = every[-3:]
    np.testing.assert_allclose(between(table, P, w, new, every, precise), expected[np.ix_(new, every)], atol=tol)
    np.testing.assert_allclose(with_free(table, P, w, U, new), hessian(U, Z, P, w)[:, new], atol=1e-12)


@pytest.mark.parametrize("nu", [0, 1, 3])
def test_the_free_part_is_that_of_the_hessian_and_singular_over_the_classes(nu):
    _, P, w, U = problem(5, 2, nu, "dense")
    S = free_curvature(P, w, U)
    np.testing.assert_allclose(S, hessian(U, U, P, w), atol=1e-13)
    np.testing.assert_allclose(S.reshape(5, nu, 5 * nu).sum(axis=0), 0.0, atol=1e-15)
