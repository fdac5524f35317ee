"""What this family compiles."""

from __future__ import annotations

from assay.clustering import KMeans
from assay.numerics.warmup import Warmup, small_table

__all__ = ["WARMUPS"]


def _kmeans() -> None:
    X, _ = small_table()
    KMeans(5, algorithm="hamerly", random_state=0).fit(X).predict(X)


WARMUPS: tuple[Warmup, ...] = (Warmup("KMeans", _kmeans),)
