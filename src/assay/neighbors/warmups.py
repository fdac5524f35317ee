"""What nearest neighbours compile: few columns, many columns, and the choice of k by leaving rows out."""

from __future__ import annotations

from assay.neighbors import KNeighborsClassifier, KNeighborsRegressor
from assay.numerics.warmup import fits

__all__ = ["WARMUPS"]

WARMUPS = (
    *fits(KNeighborsRegressor, n_neighbors="loo"),
    *fits(KNeighborsClassifier, n_neighbors="loo"),
)
