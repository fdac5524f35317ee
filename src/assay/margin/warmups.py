"""What this family compiles."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from assay.margin.kernels import RBF, EditDistance, Laplacian
from assay.margin.perceptron import Perceptron
from assay.margin.units import DeltaRule, SigmoidUnit
from assay.numerics.warmup import Warmup, fits, small_table

__all__ = ["WARMUPS"]


def _gram() -> None:
    """Both precisions, and more rows than one tile so that tiles are mirrored."""
    X, _ = small_table()
    for dtype in (np.float32, np.float64):
        wide = np.tile(X, (10, 1)).astype(dtype)
        RBF(0.1)(wide)
        Laplacian(0.1)(wide[:4])


def _perceptron() -> None:
    X, y = small_table(2)
    for table in (X, csr_array(X)):
        Perceptron("pocket", max_iter=3).fit(table, y).predict(table)
    Perceptron("pocket", kernel="linear", max_iter=3).fit(X, y).predict(X)


WARMUPS: tuple[Warmup, ...] = (
    Warmup("Gram matrices", _gram),
    Warmup("edit distances", lambda: EditDistance()(["a", "b"])),
    Warmup("Perceptron", _perceptron),
    *fits(DeltaRule, max_iter=2, tol=0),
    Warmup("DeltaRule, rows", lambda: DeltaRule(solver="sgd", max_iter=2).fit(*small_table())),
    *fits(SigmoidUnit, max_iter=2, tol=0),
)
