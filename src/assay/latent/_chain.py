"""Markov chains as arrays: counting, probabilities of paths, stationary laws.

    start_j = n_j / m over m sequences,   A_ij = n_ij / n_i over the pairs of neighbouring steps that begin in i

With a pseudo-count alpha on every allowed place, (n + alpha) / sum (n + alpha): the posterior mode under a Dirichlet
prior with parameters 1 + alpha. Zeros of a given pattern stay zero, and a row that was never left has no
estimate: it keeps its old one.

A stationary law solves pi = pi A. There is one for each closed class of states (no way leads out of it), and mixtures
of them are all there are; each is found by the elimination of Grassmann, Taksar and Heyman (1985, Oper. Res. 33,
1107-1116), which never subtracts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, connected_components

from assay.checks import probabilities
from assay.latent._hmm_kernels import NONE

__all__ = ["check_law", "count_path", "laws", "log_path", "log_prior", "stationary_laws"]

Array = np.ndarray


def check_law(given: Any, shape: tuple[int, ...], name: str) -> Array:
    """Probabilities of the right shape whose rows add up to one; a `ParameterError` otherwise.

    >>> check_law([0.25, 0.75], (2,), "startprob")
    array([0.25, 0.75])
    """
    law = probabilities(given, name, shape)
    return np.ascontiguousarray(law / law.sum(axis=-1, keepdims=True))


def laws(counts: Array, smoothing: float, allowed: Array, previous: Array) -> Array:
    """Rows of probabilities from rows of counts; where there is nothing to count, those of `previous`.

    >>> laws(np.array([[3.0, 1.0], [0.0, 0.0]]), 0.0, np.ones((2, 2), dtype=bool), np.full((2, 2), 0.5)).tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    """
    raised = np.where(allowed, counts + smoothing, 0.0)
    total = raised.sum(axis=-1, keepdims=True)
    found = raised / np.where(total > 0, total, 1.0)
    found[found < NONE] = 0.0  # on its way to zero: numbers without their full digits are slow and help nobody
    return np.ascontiguousarray(np.where(total > 0, found, previous))


def log_prior(law: Array, smoothing: float, allowed: Array) -> float:
    """The log density of the Dirichlet prior behind `smoothing`, up to a constant."""
    return 0.0 if smoothing == 0 else float(smoothing * np.log(law[allowed]).sum())


def count_path(codes: Array, first: Array, k: int) -> tuple[Array, Array]:
    """First states and pairs of neighbours; a missing state (-1) is no part of a pair.

    >>> begun, pairs = count_path(np.array([0, 0, 1, 1]), np.array([0, 3, 4]), 2)
    >>> begun.tolist(), pairs.tolist()
    ([1.0, 1.0], [[1.0, 1.0], [0.0, 0.0]])
    """
    begin = codes[first[:-1]]
    inner = np.ones(codes.size, dtype=bool)
    inner[first[:-1]] = False
    to = np.flatnonzero(inner)
    to = to[(codes[to] >= 0) & (codes[to - 1] >= 0)]
    pairs = np.bincount(codes[to - 1] * k + codes[to], minlength=k * k).reshape(k, k)
    return np.bincount(begin[begin >= 0], minlength=k).astype(np.float64), pairs.astype(np.float64)


def log_path(codes: Array, first: Array, start: Array, A: Array) -> Array:
    """log P(q) of each sequence of states."""
    with np.errstate(divide="ignore"):
        step = np.log(A)[codes[np.arange(codes.size) - 1], codes]
        step[first[:-1]] = np.log(start)[codes[first[:-1]]]
    return np.add.reduceat(step, first[:-1])


@dataclass(frozen=True, eq=False)
class ClosedClasses:
    """The stationary law of each closed class (r, K), their periods, and which states are transient."""

    laws: Array
    periods: tuple[int, ...]
    transient: Array


def stationary_laws(A: Array) -> ClosedClasses:
    """Every extreme solution of pi = pi A.

    >>> stationary_laws(np.array([[0.6, 0.4], [0.5, 0.5]])).laws.round(4).tolist()
    [[0.5556, 0.4444]]
    """
    n, label = connected_components(A > 0, directed=True, connection="strong")
    found, periods, transient = [], [], np.ones(len(A), dtype=bool)
    groups = sorted((np.flatnonzero(label == c) for c in range(n)), key=lambda group: int(group[0]))
    for group in groups:
        outside = np.ones(len(A), dtype=bool)
        outside[group] = False
        if (A[np.ix_(group, np.flatnonzero(outside))] > 0).any():
            continue
        law = np.zeros(len(A))
        law[group] = _eliminate(A[np.ix_(group, group)])
        found.append(law)
        periods.append(_period(A[np.ix_(group, group)] > 0))
        transient[group] = False
    return ClosedClasses(np.array(found), tuple(periods), transient)


def _eliminate(A: Array) -> Array:
    """The stationary law of an irreducible chain: states are taken out one by one, then come back."""
    P = np.array(A, dtype=np.float64)
    n = len(P)
    for s in range(n - 1, 0, -1):
        P[:s, s] /= P[s, :s].sum()
        P[:s, :s] += np.outer(P[:s, s], P[s, :s])
    law = np.ones(n)
    for s in range(1, n):
        law[s] = law[:s] @ P[:s, s]
    return law / law.sum()


def _period(leads: Array) -> int:
    """The greatest common divisor of the lengths of all cycles of an irreducible chain."""
    order, parent = breadth_first_order(leads, 0, directed=True)
    level = np.zeros(len(leads), dtype=np.int64)
    for node in order[1:]:
        level[node] = level[parent[node]] + 1
    i, j = np.nonzero(leads)
    return gcd(*(abs(int(step)) for step in level[i] + 1 - level[j]))
