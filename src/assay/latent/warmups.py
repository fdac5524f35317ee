"""What this family compiles."""

from __future__ import annotations

from assay.latent import GaussianMixture
from assay.numerics.warmup import Warmup, small_table

__all__ = ["WARMUPS"]


def _mixtures() -> None:
    X, _ = small_table()
    for kind in ("full", "diag"):
        GaussianMixture(2, covariance_type=kind, random_state=0).fit(X).predict(X)


WARMUPS: tuple[Warmup, ...] = (Warmup("GaussianMixture", _mixtures),)
