"""What calibration compiles: both maps from scores to probabilities."""

from __future__ import annotations

import numpy as np

from assay.calibration import IsotonicMap, LogisticMap
from assay.numerics.warmup import Warmup

__all__ = ["WARMUPS"]


def _maps() -> None:
    scores = np.linspace(-1.0, 1.0, 40)
    y = (scores + np.sin(9.0 * scores) > 0).astype(np.int64)
    for kind in (IsotonicMap, LogisticMap):
        kind().fit(scores, y).predict(scores)


WARMUPS = (Warmup("maps", _maps),)
