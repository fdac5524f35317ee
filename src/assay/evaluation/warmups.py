"""What evaluation compiles: the quantiles behind conformal intervals of several models."""

from __future__ import annotations

import numpy as np

from assay.evaluation._conformal import select
from assay.numerics.warmup import Warmup

__all__ = ["WARMUPS"]


def _select() -> None:
    centre, spread, scores = np.zeros((3, 2)), np.ones((3, 2)), np.arange(6.0)
    select(centre, spread, scores, np.array([0, 3, 6]), 2, np.empty(3))


WARMUPS = (Warmup("conformal quantiles", _select),)
