"""Hidden Markov models by their definition: the sum, or the largest, over all K^T paths."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np

__all__ = ["chain_probability", "paths"]


def chain_probability(q: Any, start: Any, A: Any) -> float:
    """P(q_1) P(q_2 | q_1) ... P(q_T | q_{T-1})."""
    p = start[q[0]]
    for i, j in pairwise(q):
        p *= A[i][j]
    return float(p)


def paths(B: np.ndarray, start: Any, A: Any) -> dict[str, Any]:
    """All that can be asked of one sequence; B (T, K) holds P(x_t | state).

    `total` is P(X), `gamma` (T, K) and `pairs` (K, K) are posterior probabilities and their sum over neighbours,
    `best` is the largest joint probability and `path` the first path that has it.
    """
    T, K = B.shape
    total, best, path = 0.0, -1.0, ()
    gamma, pairs = np.zeros((T, K)), np.zeros((K, K))
    for q in product(range(K), repeat=T):
        joint = chain_probability(q, start, A) * float(np.prod(B[np.arange(T), q]))
        total += joint
        gamma[np.arange(T), q] += joint
        for i, j in pairwise(q):
            pairs[i, j] += joint
        if joint > best:
            best, path = joint, q
    if total > 0:
        gamma, pairs = gamma / total, pairs / total
    return {"total": total, "gamma": gamma, "pairs": pairs, "best": best, "path": path}
