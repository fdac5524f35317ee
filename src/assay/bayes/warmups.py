"""What posteriors compile: limits of beta laws and tails of beta-binomial ones."""

from __future__ import annotations

import numpy as np

from assay.bayes._beta_limits import beta_limits
from assay.bayes.conjugate import BetaBinomial
from assay.numerics.warmup import Warmup

__all__ = ["WARMUPS"]


def _beta() -> None:
    a, b = np.array([2.0, 3.0]), np.array([4.0, 5.0])
    for short in (False, True):
        beta_limits(a, b, 0.95, short)


WARMUPS = (
    Warmup("beta laws", _beta),
    Warmup("beta-binomial laws", lambda: BetaBinomial(2.0, 3.0).predictive(10).cdf(4)),
)
