"""Penalised logistic paths: optimality proven by KKT conditions, duality gaps, a proximal-gradient oracle, peers."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from assay.errors import ParameterError
from assay.linear import _logistic_path as module
from assay.linear._logistic_path import LogisticProblem, fit_penalized


def probabilities(eta):
    if eta.shape[1] == 1:
        return 1 / (1 + np.exp(-eta))
    e = np.exp(eta - eta.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def targets(codes, K):
    return (codes == 1).astype(float)[:, None] if K == 2 else np.eye(K)[codes]


def gradient(X, codes, K, w, offset, coef, intercept):
    """Minus the gradients of coefficients (rows, p) and intercepts (rows,)."""
    w = np.ones(len(codes)) if w is None else w
    added = 0.0 if offset is None else offset.reshape(len(codes), -1)
    r = (targets(codes, K) - probabilities(X @ coef.T + intercept + added)) * (w / w.sum())[:, None]
    return r.T @ X, r.sum(axis=0)


def objective(X, codes, K, w, offset, coef, intercept, alpha, l1_ratio, factors):
    w = np.ones(len(codes)) if w is None else w
    added = 0.0 if offset is None else offset.reshape(len(codes), -1)
    eta = X @ coef.T + intercept + added
    eta = np.hstack([np.zeros_like(eta), eta]) if K == 2 else eta
    top = eta.max(axis=1)
    loss = np.log(np.exp(eta - top[:, None]).sum(axis=1)) + top - eta[np.arange(len(codes)), codes]
    penalty = factors * (l1_ratio * np.abs(coef) + (1 - l1_ratio) / 2 * coef**2)
    return w @ loss / w.sum() + alpha * penalty.sum()


def violation(X, codes, K, w, offset, coef, intercept, alpha, l1_ratio, factors, fit_intercept):
    g, g0 = gradient(X, codes, K, w, offset, coef, intercept)
    lam, d = alpha * l1_ratio * factors, alpha * (1 - l1_ratio) * factors
    over = np.where(coef != 0, np.abs(g - d * coef - lam * np.sign(coef)), np.maximum(np.abs(g) - lam, 0))
    return max(over.max(), np.abs(g0).max() if fit_intercept else 0.0)


def by_proximal_gradient(X, codes, K, w, offset, alpha, l1_ratio, factors, fit_intercept, rounds=60_000):
    """Accelerated proximal gradient with restarts, the definition and nothing else."""
    rows, p = (1 if K == 2 else K), X.shape[1]
    share = np.ones(len(codes)) / len(codes) if w is None else w / w.sum()
    Xi = np.column_stack([X, np.ones(len(codes))])
    step = 1 / (np.linalg.norm(Xi * np.sqrt(share)[:, None], 2) ** 2 / (4 if K == 2 else 2))
    theta = np.zeros((rows, p + 1))
    ahead, t = theta.copy(), 1.0
    for _ in range(rounds):
        g, g0 = gradient(X, codes, K, w, offset, ahead[:, :p], ahead[:, p])
        new = ahead + step * np.column_stack([g, g0 if fit_intercept else 0 * g0])
        lam, d = step * alpha * l1_ratio * factors, step * alpha * (1 - l1_ratio) * factors
        new[:, :p] = np.sign(new[:, :p]) * np.maximum(np.abs(new[:, :p]) - lam, 0) / (1 + d)
        if np.vdot(ahead - new, new - theta) > 0:
            t = 1.0
        grown = (1 + np.sqrt(1 + 4 * t * t)) / 2
        moved = np.abs(new - theta).max()
        ahead, theta, t = new + (t - 1) / grown * (new - theta), new, grown
        if moved < 1e-15:
            break
    return theta[:, :p], theta[:, p]


def problem(seed, n=None, p=None, K=None, spread=True):
    rng = np.random.default_rng(seed)
    n, p = n or int(rng.integers(30, 150)), p or int(rng.integers(2, 40))
    K = K or int(rng.choice([2, 2, 3, 4]))
    X = rng.standard_normal((n, p))
    if spread:
        X = X * rng.choice([0.1, 1, 10], p) + rng.choice([0, 3], p)
    B = rng.standard_normal((p, K)) * (rng.random((p, K)) < 0.4) / X.std(axis=0)[:, None]
    codes = np.argmax((X - X.mean(axis=0)) @ B + rng.gumbel(size=(n, K)), axis=1)
    codes[:K] = np.arange(K)
    return X, codes, K, rng


@pytest.mark.parametrize("seed", range(40))
def test_kkt_conditions_hold(seed):
    X, codes, K, rng = problem(seed)
    n, p = X.shape
    w = None if seed % 3 else rng.integers(0, 4, n) + 1.0 * (np.arange(n) < K)
    factors = np.ones(p) if seed % 4 else rng.choice([0.5, 1.0, 2.0], p)
    if seed % 8 == 0:
        factors[0] = 0.0
    offset = None if seed % 5 else 0.5 * rng.standard_normal(n if K == 2 else (n, K))
    l1_ratio = float(rng.choice([1.0, 0.5, 0.1]))
    fit_intercept = bool(seed % 6)
    table = sparse.csr_array(X) if seed % 7 == 0 else X
    alphas = np.geomspace(0.2, 0.005, 6)
    coefs, intercepts, gaps, steps = fit_penalized(
        table, codes, K, w, offset, alphas, l1_ratio, factors, fit_intercept, 1e-12, 200
    )
    assert coefs.shape == (6, 1 if K == 2 else K, p)
    assert intercepts.shape == (6, 1 if K == 2 else K)
    assert (gaps >= 0).all()
    assert gaps.max() < 2e-12
    assert (steps >= 0).all()
    for a, alpha in enumerate(alphas):
        over = violation(
            X, codes, K, w, offset, coefs[a], intercepts[a], alpha, l1_ratio, factors, fit_intercept
        ) / max(1.0, np.abs(X).max())
        assert over < 1e-9


@pytest.mark.parametrize(("K", "l1_ratio"), [(2, 1.0), (2, 0.4), (2, 0.0), (3, 1.0), (3, 0.5), (3, 0.0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_proximal_gradient(K, l1_ratio, weighted):
    X, codes, K, rng = problem(5, n=80, p=6, K=K, spread=False)
    w = rng.random(80) + 0.1 if weighted else None
    offset = 0.3 * rng.standard_normal(80 if K == 2 else (80, K)) if weighted else None
    factors = np.array([1.0, 2.0, 0.5, 1.0, 0.0, 1.0]) if weighted else np.ones(6)
    if l1_ratio == 0.0:
        factors[4] = 1.0
    alpha = 0.03
    coefs, intercepts, _, _ = fit_penalized(X, codes, K, w, offset, [alpha], l1_ratio, factors, True, 1e-13, 100)
    b, b0 = by_proximal_gradient(X, codes, K, w, offset, alpha, l1_ratio, factors, True)
    if K > 2:  # the unpenalised part is determined up to a constant over the classes
        b0 = b0 - b0.mean()
        b[:, factors == 0] -= b[:, factors == 0].mean(axis=0)
    np.testing.assert_allclose(coefs[0], b, atol=2e-7)
    np.testing.assert_allclose(intercepts[0], b0, atol=2e-7)


@pytest.mark.parametrize("K", [2, 3])
def test_the_objective_is_not_above_scikit_learns(K):
    from sklearn.linear_model import LogisticRegression as Peer

    X, codes, K, _ = problem(11, n=150, p=12, K=K, spread=False)
    n = len(codes)
    alphas = np.geomspace(0.1, 0.002, 5)
    coefs, intercepts, gaps, _ = fit_penalized(X, codes, K, None, None, alphas, 1.0, None, True, 1e-9, 100)
    for a, alpha in enumerate(alphas):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer = Peer(l1_ratio=1.0, C=1 / (n * alpha), solver="saga", tol=1e-10, max_iter=20_000).fit(X, codes)
        args = X, codes, K, None, None
        ours = objective(*args, coefs[a], intercepts[a], alpha, 1.0, np.ones(12))
        theirs = objective(*args, peer.coef_, peer.intercept_, alpha, 1.0, np.ones(12))
        assert ours <= theirs + 1e-12
        assert theirs - ours <= gaps[a] + 1e-6


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("K", [2, 3])
def test_the_gap_bounds_the_distance_to_the_minimum(K, l1_ratio):
    X, codes, K, _ = problem(3, n=100, p=10, K=K, spread=False)
    factors = np.ones(10)
    best = fit_penalized(X, codes, K, None, None, [0.02], l1_ratio, None, True, 1e-13, 100)
    least = objective(X, codes, K, None, None, best[0][0], best[1][0], 0.02, l1_ratio, factors)
    for tol in (1e-1, 1e-3, 1e-5):
        coefs, intercepts, gaps, _ = fit_penalized(X, codes, K, None, None, [0.02], l1_ratio, None, True, tol, 100)
        excess = objective(X, codes, K, None, None, coefs[0], intercepts[0], 0.02, l1_ratio, factors) - least
        assert excess <= gaps[0] + 1e-13
        assert gaps[0] <= tol * np.log(K)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_alpha_max_is_where_the_first_coefficient_enters(K, fit_intercept):
    X, codes, K, rng = problem(8, n=90, p=15, K=K)
    factors = rng.choice([0.5, 1.0, 3.0], 15)
    factors[2] = 0.0
    whole = LogisticProblem(X, codes, K, None, None, factors, fit_intercept)
    top = whole.alpha_max(0.7)
    penalised = factors > 0
    above = fit_penalized(X, codes, K, None, None, [1.0001 * top], 0.7, factors, fit_intercept, 1e-10, 100)[0]
    below = fit_penalized(X, codes, K, None, None, [0.999 * top], 0.7, factors, fit_intercept, 1e-10, 100)[0]
    assert not above[0][:, penalised].any()
    assert below[0][:, penalised].any()


@pytest.mark.parametrize("K", [2, 3])
def test_weights_equal_repetition(K):
    X, codes, K, rng = problem(21, n=60, p=8, K=K)
    w = rng.integers(0, 4, 60)
    w[:K] = 1
    alphas = [0.1, 0.01]
    one = fit_penalized(X, codes, K, w.astype(float), None, alphas, 1.0, None, True, 1e-12, 100)
    many = fit_penalized(
        np.repeat(X, w, axis=0), np.repeat(codes, w), K, None, None, alphas, 1.0, None, True, 1e-12, 100
    )
    np.testing.assert_allclose(one[0], many[0], atol=1e-8)
    np.testing.assert_allclose(one[1], many[1], atol=1e-8)


@pytest.mark.parametrize("K", [2, 3])
def test_sparse_and_dense_agree(K, monkeypatch):
    monkeypatch.setattr("assay.linear._logistic_path_columns.SMALL_CELLS", 0)
    rng = np.random.default_rng(0)
    X = sparse.random_array((200, 60), density=0.1, rng=rng, format="csr")
    codes = np.argmax(X @ rng.standard_normal((60, K)) * 3 + rng.gumbel(size=(200, K)), axis=1)
    w = rng.random(200)
    alphas = np.geomspace(0.02, 0.0005, 5)
    thin = fit_penalized(X, codes, K, w, None, alphas, 0.9, None, True, 1e-12, 100)
    full = fit_penalized(X.toarray(), codes, K, w, None, alphas, 0.9, None, True, 1e-12, 100)
    np.testing.assert_allclose(thin[0], full[0], atol=1e-5)
    assert max(thin[2].max(), full[2].max()) < 1e-11


def test_more_columns_than_rows_and_single_precision_curvature(monkeypatch):
    monkeypatch.setattr("assay.linear._logistic_path_model.SINGLE", 1)
    X, codes, K, _ = problem(2, n=60, p=300, K=2, spread=False)
    factors = np.ones(300)
    alphas = np.geomspace(0.2, 0.01, 20)
    coefs, intercepts, gaps, _ = fit_penalized(X, codes, K, None, None, alphas, 1.0, None, True, 1e-11, 100)
    assert gaps.max() < 1e-11
    for a, alpha in enumerate(alphas):
        assert violation(X, codes, K, None, None, coefs[a], intercepts[a], alpha, 1.0, factors, True) < 1e-9


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize(("K", "l1_ratio"), [(2, 1.0), (2, 0.0), (3, 1.0), (3, 0.3)])
def test_a_working_set_too_large_for_a_matrix(K, l1_ratio, kind, monkeypatch):
    monkeypatch.setattr(module, "MOST_MEMBERS", 2)
    monkeypatch.setattr("assay.linear._logistic_path_columns.SMALL_CELLS", 0)
    X, codes, K, _ = problem(4, n=120, p=10, K=K, spread=False)
    table = X if kind == "dense" else sparse.csr_array(X)
    coefs, intercepts, gaps, _ = fit_penalized(
        table, codes, K, None, None, [0.05, 0.01], l1_ratio, None, True, 1e-9, 500
    )
    assert gaps.max() < 2e-9
    for a, alpha in enumerate([0.05, 0.01]):
        assert violation(X, codes, K, None, None, coefs[a], intercepts[a], alpha, l1_ratio, np.ones(10), True) < 1e-4


def test_separable_rows_keep_the_path_finite():
    X = np.linspace(-1, 1, 40)[:, None] * [1.0, -2.0, 0.0]
    codes = (X[:, 0] > 0).astype(int)
    coefs, intercepts, gaps, _ = fit_penalized(X, codes, 2, None, None, [1e-1, 1e-3, 1e-6], 1.0, None, True, 1e-7, 200)
    assert np.isfinite(coefs).all()
    assert np.isfinite(intercepts).all()
    assert gaps.max() < 1e-7
    assert (np.diff(np.abs(coefs[:, 0, 1])) > 0).all()


def test_constant_and_duplicate_columns():
    X, codes, K, _ = problem(6, n=100, p=5, K=2, spread=False)
    table = np.column_stack([X, np.full(100, 7.0), X[:, 0], -X[:, 1], np.zeros(100)])
    wide = fit_penalized(table, codes, K, None, None, [0.05, 0.005], 1.0, None, True, 1e-11, 100)
    plain = fit_penalized(X, codes, K, None, None, [0.05, 0.005], 1.0, None, True, 1e-11, 100)
    assert not wide[0][:, 0, [5, 8]].any()
    together = wide[0][:, 0, :5].copy()
    together[:, 0] += wide[0][:, 0, 6]
    together[:, 1] -= wide[0][:, 0, 7]
    np.testing.assert_allclose(together, plain[0][:, 0], atol=1e-6)


@pytest.mark.parametrize("scale", [1e-120, 1e-8, 1e8, 1e120])
def test_units_of_the_columns_only_change_the_penalty(scale):
    X, codes, K, _ = problem(9, n=80, p=4, K=2, spread=False)
    base = fit_penalized(X, codes, K, None, None, [0.02], 1.0, np.ones(4), True, 1e-12, 100)
    other = fit_penalized(X * scale, codes, K, None, None, [0.02 * scale], 1.0, np.ones(4), True, 1e-12, 100)
    np.testing.assert_allclose(other[0] * scale, base[0], rtol=1e-7, atol=1e-9)


def test_order_of_alphas_and_a_start_do_not_matter():
    X, codes, K, _ = problem(13, n=100, p=20, K=3)
    down = fit_penalized(X, codes, K, None, None, [0.1, 0.03, 0.01], 1.0, None, True, 1e-12, 100)
    mixed = fit_penalized(X, codes, K, None, None, [0.03, 0.01, 0.1], 1.0, None, True, 1e-12, 100)
    np.testing.assert_array_equal(down[0][[1, 2, 0]], mixed[0])
    warm = fit_penalized(X, codes, K, None, None, [0.01], 1.0, None, True, 1e-12, 100, start=down[0][1])
    np.testing.assert_allclose(warm[0][0], down[0][2], atol=1e-6)


def test_early_stop_shortens_a_path_that_has_explained_everything():
    X = np.linspace(-1, 1, 40)[:, None]
    codes = (X[:, 0] > 0).astype(int)
    alphas = np.geomspace(0.4, 1e-8, 60)
    short = fit_penalized(X, codes, 2, None, None, alphas, 1.0, None, True, 1e-6, 200, early_stop=True)
    assert 5 <= len(short[0]) < 60
    full = fit_penalized(X, codes, 2, None, None, alphas, 1.0, None, True, 1e-6, 200)
    np.testing.assert_array_equal(short[0], full[0][: len(short[0])])


@pytest.mark.parametrize("alphas", [[], [0.0], [-1.0], [np.nan], [np.inf]])
def test_alphas_that_mean_nothing_are_refused(alphas):
    with pytest.raises(ParameterError, match="alphas"):
        fit_penalized(np.eye(3), np.array([0, 1, 0]), 2, None, None, alphas, 1.0, None, True, 1e-6, 100)
