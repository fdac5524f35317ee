"""Slow obvious oracles for calibration: the maps from their definitions."""

from __future__ import annotations

import numpy as np


def isotonic_by_min_max(scores, y, w):
    """Values at the rows: the largest over lower ends a of the smallest over upper ends b of the mean from a to b."""
    scores, y, w = (np.asarray(part, dtype=float) for part in (scores, y, w))
    levels = np.unique(scores)

    def mean(a, b):
        inside = (scores >= a) & (scores <= b)
        return np.sum(w[inside] * y[inside]) / np.sum(w[inside])

    at = {s: max(min(mean(a, b) for b in levels if b >= s) for a in levels if a <= s) for s in levels}
    return np.array([at[s] for s in scores])


def platt_by_optimiser(scores, y, w):
    """Slope and intercept of Platt's sigmoid from its objective as written, by a general optimiser."""
    from scipy import optimize

    scores, y, w = (np.asarray(part, dtype=float) for part in (scores, y, w))
    positives, negatives = np.sum(w * y), np.sum(w * (1 - y))
    t = np.where(y == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))

    def loss(at):
        z = at[0] * scores + at[1]
        return np.sum(w * (t * np.logaddexp(0, -z) + (1 - t) * np.logaddexp(0, z)))

    return optimize.minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14}).x
