"""What this family compiles."""

from __future__ import annotations

from functools import partial

from assay.clustering import HierarchicalClustering
from assay.numerics.warmup import Warmup, small_table

__all__ = ["WARMUPS"]


def _link(linkage: str) -> None:
    HierarchicalClustering(linkage=linkage).fit(small_table()[0])


LINKED = tuple(
    Warmup(f"HierarchicalClustering, {linkage}", partial(_link, linkage)) for linkage in ("average", "single", "ward")
)

WARMUPS: tuple[Warmup, ...] = (*LINKED,)
