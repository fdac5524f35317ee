"""Where k-means starts: k-means++, rows at random, or the means of clusters drawn at random.

k-means++ draws each next centre from the rows with probability w_i D_i^2 / sum, D_i the distance to the nearest centre
so far; the greedy form draws several candidates and takes the one that leaves the least sum. Draws go through the
cumulative weights, so a row of weight 2 is drawn like two rows.

Arthur, Vassilvitskii (2007), SODA, 1027-1035; Grunau et al. (2023), SODA, for the greedy form.
"""

from __future__ import annotations

import numpy as np

from assay.clustering._rows import DenseRows, SparseRows

__all__ = ["START_METHODS", "plus_plus", "random_partition", "random_rows"]

Array = np.ndarray
KMeansRows = DenseRows | SparseRows


def _draw(mass: Array, rng: np.random.Generator, size: int) -> Array:
    """Row numbers drawn with probabilities in proportion to `mass`."""
    running = np.cumsum(mass)
    places = np.searchsorted(running, rng.random(size) * running[-1], side="right")
    return np.minimum(places, np.flatnonzero(mass)[-1])


def plus_plus(rows: KMeansRows, k: int, rng: np.random.Generator, trials: int | None = None) -> Array:
    """Centres by (greedy) k-means++; `trials` candidates each, by default 2 + log k."""
    trials = 2 + int(np.log(k)) if trials is None else trials
    chosen = [int(_draw(rows.w, rng, 1)[0])]
    closest = rows.squared(rows.take(chosen))[0]
    for _ in range(1, k):
        mass = rows.w * closest
        if not mass.sum() > 0:  # every row is a centre already
            chosen.append(int(_draw(rows.w, rng, 1)[0]))
            continue
        candidates = _draw(mass, rng, trials)
        left = np.minimum(rows.squared(rows.take(candidates)), closest)
        best = int(np.argmin(left @ rows.w))
        chosen.append(int(candidates[best]))
        closest = left[best]
    return rows.take(chosen)


def random_rows(rows: KMeansRows, k: int, rng: np.random.Generator) -> Array:
    """k different rows, drawn by their weights."""
    return rows.take(rng.choice(rows.shape[0], size=k, replace=False, p=rows.w / rows.w.sum()))


def random_partition(rows: KMeansRows, k: int, rng: np.random.Generator) -> Array:
    """Every row gets a cluster at random, and the centres are their means: the start of most textbooks."""
    labels = rng.integers(0, k, rows.shape[0])
    labels[rng.choice(rows.shape[0], size=k, replace=False)] = np.arange(k)  # none is empty
    C = np.empty((k, rows.shape[1]))
    for j in range(k):
        C[j] = (rows.w * (labels == j)) @ rows.X / rows.w[labels == j].sum()
    return C


START_METHODS = {"k-means++": plus_plus, "random": random_rows, "random_partition": random_partition}
