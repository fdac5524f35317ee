"""What tests and intervals compile: the bootstrap and the permutation tests."""

from __future__ import annotations

import numpy as np

from assay.inference import bootstrap, permutation_test
from assay.numerics.warmup import Warmup, small_table

__all__ = ["WARMUPS"]


def _bootstrap() -> None:
    _, y = small_table()
    bootstrap(np.mean, y, random_state=0)


def _permutation() -> None:
    _, y = small_table()
    permutation_test(y[:30], y[30:], random_state=0)


WARMUPS = (Warmup("bootstrap", _bootstrap), Warmup("permutation test", _permutation))
