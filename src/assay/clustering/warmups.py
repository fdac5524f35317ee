"""What this family compiles."""

from __future__ import annotations

from functools import partial

import numpy as np

from assay.clustering import HierarchicalClustering, KMeans
from assay.clustering._linkage import ward_chain
from assay.numerics.warmup import Warmup, small_table

__all__ = ["WARMUPS"]


def _kmeans() -> None:
    X, _ = small_table()
    KMeans(5, algorithm="hamerly", random_state=0).fit(X).predict(X)


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

WARMUPS: tuple[Warmup, ...] = (Warmup("KMeans", _kmeans), *LINKED)
