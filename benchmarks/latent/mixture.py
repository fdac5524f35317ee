"""Gaussian mixtures beside scikit-learn: thirty iterations from the same start values, and whole fits from k-means."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.case import Case

__all__ = ["CASES"]

Data = tuple[np.ndarray, dict[str, Any]]


def populations(n: int = 100_000, p: int = 10, K: int = 8, kind: str = "full") -> Data:
    """Populations that overlap, and start values some way off."""
    rng = np.random.default_rng(0)
    centres = 1.5 * rng.normal(size=(K, p))
    mixing = np.eye(p) + 0.4 * rng.normal(size=(K, p, p))
    label = rng.integers(0, K, n)
    X = np.einsum("ij,ijk->ik", rng.normal(size=(n, p)), mixing[label]) + centres[label]
    identity = {"full": np.repeat(np.eye(p)[None], K, axis=0), "diag": np.ones((K, p)), "tied": np.eye(p)}[kind]
    start = {
        "weights_init": np.full(K, 1 / K),
        "means_init": centres + 0.5 * rng.normal(size=(K, p)),
        "precisions_init": identity,
    }
    return X, {"n_components": K, "covariance_type": kind, **start}


def from_k_means(data: Data) -> Data:
    """The same without start values."""
    X, settings = data
    return X, {name: value for name, value in settings.items() if not name.endswith("_init")}


def ours(data: Data, **more: Any) -> Any:
    from assay.latent import GaussianMixture

    return fitted(GaussianMixture(random_state=0, n_jobs=-1, **data[1], **more), data[0])


def scikit_learn(data: Data, **more: Any) -> Any:
    from sklearn.mixture import GaussianMixture

    return fitted(GaussianMixture(random_state=0, **data[1], **more), data[0])


def fitted(model: Any, X: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # thirty iterations do not converge
        return model.fit(X)


def loss(model: Any, data: Data) -> float:
    """Minus the mean log-likelihood."""
    return -float(model.score(data[0]))


def thirty(name: str, goal: float, cold: bool = False, **size: Any) -> Case:
    return Case(
        f"GaussianMixture, {name}, 30 iterations",
        data=lambda: populations(**size),
        ours=lambda data: ours(data, max_iter=30, tol=0.0),
        peers={"scikit-learn": lambda data: scikit_learn(data, max_iter=30, tol=0.0, reg_covar=0.0)},
        quality=loss,
        quality_name="minus mean log-likelihood",
        goals={"scikit-learn": goal},
        slack=1e-8,
        repeats=3,
        cold=cold,
    )


CASES = [
    thirty("100,000 x 10, 8 full components", 4.0, cold=True),
    thirty("100,000 x 10, 8 diagonal components", 3.0, kind="diag"),
    thirty("50,000 x 40, 8 full components", 2.0, n=50_000, p=40),
    Case(
        "GaussianMixture, 100,000 x 10, 8 full components, k-means start to tol = 1e-4",
        data=lambda: from_k_means(populations()),
        ours=lambda data: ours(data, tol=1e-4),
        peers={"scikit-learn": lambda data: scikit_learn(data, tol=1e-4, max_iter=1000)},
        quality=loss,
        quality_name="minus mean log-likelihood",
        goals={"scikit-learn": 4.0},
        slack=0.01,
        repeats=2,
    ),
]
