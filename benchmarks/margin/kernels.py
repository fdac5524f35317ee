"""Gram matrices beside scikit-learn's and the bare matrix product inside them, and the perceptron beside its peer."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Perceptron as Peer
from sklearn.metrics import pairwise

from assay.errors import AssayWarning
from assay.margin import Perceptron
from assay.margin.kernels import RBF, Laplacian, StringSpectrum
from benchmarks.case import Case

__all__ = ["CASES"]

PASSES = 20


def rows(n: int, p: int, dtype: Any = np.float32) -> np.ndarray:
    """Independent columns of order one."""
    return np.random.default_rng(0).standard_normal((n, p)).astype(dtype)


def product(X: np.ndarray) -> np.ndarray:
    """The matrix product that any Gram matrix of all pairs contains."""
    return X @ X.copy().T


def gram_error(K: np.ndarray, X: np.ndarray) -> float:
    """The largest error of the first 200 lines, against differences in float64."""
    part = X[:200].astype(np.float64)
    wanted = pairwise.rbf_kernel(part, X.astype(np.float64), gamma=0.01)
    return float(np.abs(K[:200] - wanted).max())


def laplacian_error(K: np.ndarray, X: np.ndarray) -> float:
    return float(np.abs(K[:50] - pairwise.laplacian_kernel(X[:50], X, gamma=0.01)).max())


def two_classes(n: int, p: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows around a plane; with noise no plane separates them."""
    rng = np.random.default_rng(1)
    X, u = rng.standard_normal((n, p)), rng.standard_normal(p)
    score = X @ u / np.sqrt(u @ u)
    X += 0.1 * np.outer(np.sign(score), u / np.sqrt(u @ u)) * (noise == 0)
    return X, (score + noise * rng.standard_normal(n) > 0).astype(int)


def texts(n: int, p: int) -> tuple[Any, np.ndarray]:
    """Rows with about a hundred entries, as texts have them."""
    rng = np.random.default_rng(2)
    X = sparse.random_array((n, p), density=100 / p, format="csr", rng=rng)
    u = rng.standard_normal(p)
    return X, (X @ u > 0).astype(int)


def ours(data: Any) -> Any:
    """Without an intercept on sparse rows: there scikit-learn moves it by a hundredth of the step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssayWarning)
        return Perceptron(max_iter=PASSES, fit_intercept=not sparse.issparse(data[0])).fit(*data)


def theirs(data: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        intercept = not sparse.issparse(data[0])
        return Peer(max_iter=PASSES, tol=None, shuffle=False, fit_intercept=intercept).fit(*data)


def training_error(model: Any, data: Any) -> float:
    return 1.0 - float(model.score(*data))


def words(n: int) -> list[str]:
    """Strings of 200 letters."""
    rng = np.random.default_rng(3)
    return ["".join(rng.choice(list("acgt"), 200)) for _ in range(n)]


def counted(strings: list[str]) -> np.ndarray:
    """By scikit-learn's counts of substrings."""
    from sklearn.feature_extraction.text import CountVectorizer

    counts = CountVectorizer(analyzer="char", ngram_range=(5, 5), dtype=np.float64).fit_transform(strings)
    return (counts @ counts.T).toarray()


CASES = [
    Case(
        "RBF Gram matrix of 10,000 x 100, float32",
        data=lambda: rows(10_000, 100),
        ours=lambda X: RBF(0.01)(X),
        peers={"scikit-learn rbf_kernel": lambda X: pairwise.rbf_kernel(X, gamma=0.01)},
        quality=gram_error,
        quality_name="largest error",
        slack=1e-6,
        repeats=5,
        cold=True,
        floor=product,
        floor_goal=2.0,
    ),
    Case(
        "RBF Gram matrix of 10,000 x 100, float64",
        data=lambda: rows(10_000, 100, np.float64),
        ours=lambda X: RBF(0.01)(X),
        peers={"scikit-learn rbf_kernel": lambda X: pairwise.rbf_kernel(X, gamma=0.01)},
        quality=gram_error,
        quality_name="largest error",
        slack=1e-12,
        repeats=3,
        floor=product,
        floor_goal=2.0,
    ),
    Case(
        "Laplacian Gram matrix of 3,000 x 50",
        data=lambda: rows(3_000, 50, np.float64),
        ours=lambda X: Laplacian(0.01)(X),
        peers={"scikit-learn laplacian_kernel": lambda X: pairwise.laplacian_kernel(X, gamma=0.01)},
        quality=laplacian_error,
        quality_name="largest error",
        slack=1e-12,
        repeats=3,
    ),
    Case(
        "spectrum kernel (k = 5) of 1,000 strings of 200 letters",
        data=lambda: words(1_000),
        ours=lambda strings: StringSpectrum(5)(strings),
        peers={"scikit-learn, counts and a product": counted},
        quality=lambda K, strings: float(np.abs(K[:5, :5] - counted(strings[:5])).max()),
        quality_name="largest error",
        repeats=3,
    ),
    Case(
        f"perceptron, {PASSES} passes over 100,000 x 50 that no plane separates, and the proof of it",
        data=lambda: two_classes(100_000, 50, 0.5),
        ours=ours,
        peers={"scikit-learn": theirs},
        quality=training_error,
        quality_name="training error",
        slack=1e-9,
        repeats=3,
        cold=True,
    ),
    Case(
        f"perceptron, {PASSES} passes over 100,000 x 50 that a plane separates, and the bound",
        data=lambda: two_classes(100_000, 50, 0.0),
        ours=ours,
        peers={"scikit-learn": theirs},
        quality=training_error,
        quality_name="training error",
        slack=1e-9,
        repeats=3,
    ),
    Case(
        f"perceptron, {PASSES} passes over sparse 20,000 x 100,000",
        data=lambda: texts(20_000, 100_000),
        ours=ours,
        peers={"scikit-learn": theirs},
        quality=training_error,
        quality_name="training error",
        slack=1e-9,
        repeats=3,
    ),
]
