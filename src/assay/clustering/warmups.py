"""What this family compiles."""

from __future__ import annotations

import numpy as np

from assay.clustering import KMeans, choose_k
from assay.numerics.warmup import Warmup, small_table

__all__ = ["WARMUPS"]


def _kmeans(algorithm: str) -> None:
    """A table that is just too large for the kernel of small ones."""
    X = np.random.default_rng(0).normal(size=(3000, 8))
    KMeans(6, algorithm=algorithm, random_state=0).fit(X).predict(X)


def _choose_k() -> None:
    X, _ = small_table()
    choose_k(X, 2, n_bootstrap=19, n_references=5, n_resamples=3, n_init=1, random_state=0)


WARMUPS: tuple[Warmup, ...] = (
    Warmup("KMeans", lambda: _kmeans("hamerly")),
    Warmup("KMeans, yinyang", lambda: _kmeans("yinyang")),
    Warmup("choose_k", _choose_k),
)
