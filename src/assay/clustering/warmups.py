"""What this family compiles."""

from __future__ import annotations

from functools import partial

import numpy as np

from assay.clustering import HierarchicalClustering, KMeans, choose_k
from assay.clustering._linkage import ward_chain
from assay.numerics.warmup import Warmup, small_table

__all__ = ["WARMUPS"]


def _kmeans(algorithm: str) -> None:
    """A table that is just too large for the kernel of small ones."""
    X = np.random.default_rng(0).normal(size=(3000, 8))
    KMeans(6, algorithm=algorithm, random_state=0).fit(X).predict(X)


def _choose_k() -> None:
    X, _ = small_table()
    choose_k(X, 2, n_bootstrap=19, n_references=5, n_resamples=3, n_init=1, random_state=0)


def _link(linkage: str) -> None:
    HierarchicalClustering(linkage=linkage).fit(small_table()[0])


def _many_rows() -> None:
    """Ward from centres, which only large tables reach."""
    ward_chain(np.ones((1, 3)), np.ones(3), np.empty((2, 2), dtype=np.int64), np.empty(2))


LINKED = (
    Warmup("HierarchicalClustering", partial(_link, "average")),
    Warmup("HierarchicalClustering, single", partial(_link, "single")),
    Warmup("HierarchicalClustering, many rows", _many_rows),
)

WARMUPS: tuple[Warmup, ...] = (
    Warmup("KMeans", lambda: _kmeans("hamerly")),
    Warmup("KMeans, yinyang", lambda: _kmeans("yinyang")),
    Warmup("choose_k", _choose_k),
    *LINKED,
)
