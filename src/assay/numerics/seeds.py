"""Where random numbers come from: one seed at the top, spawned before the work is shared out."""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.errors import ParameterError

__all__ = ["generator", "seed_sequence"]


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """Where all seeds come from: a whole number, None for a fresh one, or drawn from a generator."""
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(0, 1 << 32, size=4).tolist())
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(random_state.randint(0, 1 << 32, size=4, dtype=np.uint64).tolist())
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if random_state is None or (whole and random_state >= 0):
        return np.random.SeedSequence(None if random_state is None else int(random_state))
    what = f"random_state = {random_state!r} is not a valid seed"
    raise ParameterError(what, remedy="pass a whole number of at least 0, a numpy Generator or None")


def generator(random_state: Any) -> np.random.Generator:
    """A numpy generator; one that is passed in is used as it is."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(seed_sequence(random_state))
