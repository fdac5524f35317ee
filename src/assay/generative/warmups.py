"""What models of densities compile: each estimator on a small table of numbers."""

from __future__ import annotations

from assay.generative import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixedNB,
    PlugInClassifier,
    QuadraticDiscriminantAnalysis,
)
from assay.numerics.warmup import fits

__all__ = ["WARMUPS"]

WARMUPS = (
    *fits(LinearDiscriminantAnalysis, shrinkage="auto"),
    *fits(QuadraticDiscriminantAnalysis, shrinkage="auto", pooling=0.1),
    *fits(MixedNB, native=True),
    *fits(GaussianNB),
    *fits(PlugInClassifier),
)
