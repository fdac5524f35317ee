"""Expected counts and best paths of many sequences, shared out over threads in blocks that never depend on them.

Scaling keeps the sum over all paths in range, but a path that is 10^-300 times as likely as another at some step is
lost. Where every transition has a fair probability that costs nothing: all its continuations are open to the better
path. Where some have none (left-right models), the better path may end in a blind alley, and the lost one would have
been right. Sequences with likelihoods that far apart are done in logarithms there, at some ten times the cost.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from assay.latent._hmm_kernels import (
    FEW,
    backward,
    far_apart,
    forward,
    log_backward,
    log_forward,
    shifted,
    viterbi,
)
from assay.numerics.threads import parallel

__all__ = ["Expected", "best_paths", "expect", "log_likelihoods"]

Array = np.ndarray

FAIR = 1e-80
"""Where all transitions are at least this probable, no path that matters can be lost."""
STEPS = 8192
"""Steps of a block at least; a sequence is never cut."""


@dataclass(frozen=True, eq=False)
class Expected:
    """What the sequences say about the hidden path: log P(X) of each, P(q_t | X), first states and pairs summed up."""

    log_likelihood: Array
    gamma: Array
    begun: Array
    pairs: Array


def blocks(first: Array) -> list[slice]:
    """Runs of whole sequences with `STEPS` steps or more.

    >>> blocks(np.array([0, 5000, 9000, 9010]))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    cuts, at = [0], 0
    for s in np.flatnonzero(np.diff(first // STEPS)):  # a block ends where a multiple of STEPS is passed
        if first[s + 1] - first[at] >= STEPS:
            cuts.append(int(s) + 1)
            at = int(s) + 1
    cuts += [len(first) - 1] if cuts[-1] < len(first) - 1 else []
    return [slice(a, b) for a, b in itertools.pairwise(cuts)]


class _Pass:
    """The forward pass over all sequences, and what it leaves behind."""

    def __init__(self, L: Array, first: Array, start: Array, A: Array, plain: bool, n_jobs: int | None) -> None:
        self.L, self.first, self.start, self.A, self.plain = L, first, start, np.ascontiguousarray(A), plain
        self.n_jobs, self.work = n_jobs, float(L.size) * len(A)
        self.B = np.array(L) if plain else np.empty_like(L)
        self.alpha, self.inverse, self.out = np.empty_like(L), np.empty(len(L)), np.empty(len(first) - 1)
        self.peak = np.zeros(len(L))
        self.far = np.zeros(len(self.out), dtype=bool)
        with np.errstate(divide="ignore"):
            self.logs = np.log(start), np.log(self.A)
        self.blocks = blocks(first)
        parallel(self._forward, self.blocks, n_jobs=n_jobs, work=self.work)

    def _rows(self, block: slice) -> tuple[slice, Array]:
        first = self.first[block.start : block.stop + 1]
        return slice(int(first[0]), int(first[-1])), first - first[0]

    def _forward(self, block: slice) -> None:
        rows, first = self._rows(block)
        B, L, peak = self.B[rows], self.L[rows], self.peak[rows]
        if self.plain:
            L = L[:0]
        else:
            shifted(L, B, peak)
            np.exp(B, out=B)
        alpha, inverse, out = self.alpha[rows], self.inverse[rows], self.out[block]
        forward(B, L, peak, first, self.start, self.A, alpha, inverse, out)
        if self.A.min() < FAIR:
            far_apart(self.L[rows], first, self.plain, self.far[block])
            for s in block.start + np.flatnonzero(self.far[block]):
                own = slice(int(self.first[s]), int(self.first[s + 1]))
                self.out[s] = log_forward(self._logarithms(own), *self.logs, self.alpha[own])

    def _logarithms(self, rows: slice) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(self.L[rows]) if self.plain else self.L[rows]

    def filtered(self) -> Array:
        """P(q_t | x_1 .. x_t)."""
        for s in np.flatnonzero(self.far & (self.out > -np.inf)):
            own = self.alpha[self.first[s] : self.first[s + 1]]
            np.exp(own - own.max(axis=1, keepdims=True), out=own)
            own /= own.sum(axis=1, keepdims=True)
        return self.alpha

    def back(self) -> tuple[Array, Array]:
        """Turn alpha into gamma; first states and pairs."""
        At = np.ascontiguousarray(self.A.T)
        parts = parallel(lambda block: self._backward(block, At), self.blocks, n_jobs=self.n_jobs, work=self.work)
        begun, pairs = (np.add.reduce(one) for one in zip(*parts, strict=True))
        return begun, pairs

    def _backward(self, block: slice, At: Array) -> tuple[Array, Array]:
        rows, first = self._rows(block)
        k = len(At)
        begun, pairs = np.zeros(k), np.zeros((k, k))
        work = (np.empty(k), np.empty(k), begun, pairs)
        scaled = np.where(self.far[block], -np.inf, self.out[block])
        backward(self.B[rows], first, At, self.alpha[rows], self.inverse[rows], scaled, work)
        pairs *= self.A
        for s in block.start + np.flatnonzero(self.far[block] & (self.out[block] > -np.inf)):
            own = slice(int(self.first[s]), int(self.first[s + 1]))
            log_backward(self._logarithms(own), self.logs[1], self.alpha[own], self.out[s], work)
        return begun, pairs


def expect(
    L: Array, first: Array, start: Array, A: Array, *, plain: bool = False, n_jobs: int | None = None
) -> Expected:
    """Posterior probabilities of all states, and their sums; rows of `gamma` of impossible sequences mean nothing.

    | parameter | default | meaning                                                                                |
    |-----------|---------|----------------------------------------------------------------------------------------|
    | L         |         | log-likelihoods (T, K), or likelihoods if `plain`                                      |
    | first     |         | where each sequence begins, and T                                                      |
    | start, A  |         | law of the first state, transition matrix                                              |
    | n_jobs    | None    | threads                                                                                |

    >>> found = expect(np.array([[0.5, 0.1], [0.5, 0.1]]), np.array([0, 2]), np.full(2, 0.5), np.eye(2), plain=True)
    >>> np.exp(found.log_likelihood).round(3).tolist(), found.gamma[0].round(3).tolist()
    ([0.13], [0.962, 0.038])
    """
    made = _Pass(L, first, start, A, plain, n_jobs)
    begun, pairs = made.back()
    return Expected(made.out, made.alpha, begun, pairs)


def log_likelihoods(
    L: Array, first: Array, start: Array, A: Array, *, plain: bool = False, n_jobs: int | None = None
) -> tuple[Array, Array]:
    """log P(X) of each sequence and P(q_t | x_1 .. x_t) (T, K): the forward pass alone."""
    made = _Pass(L, first, start, A, plain, n_jobs)
    return made.out, made.filtered()


def best_paths(L: Array, first: Array, start: Array, A: Array, *, n_jobs: int | None = None) -> tuple[Array, Array]:
    """The path of largest joint probability of each sequence, one behind the other, and log P(X, path)."""
    with np.errstate(divide="ignore"):
        log_start, log_A = np.log(start), np.log(np.ascontiguousarray(A))
    log_At = np.ascontiguousarray(log_A.T)
    path, out, few = np.empty(len(L), dtype=np.int64), np.empty(len(first) - 1), len(A) <= FEW

    def run(block: slice) -> None:
        own = first[block.start : block.stop + 1]
        rows = slice(int(own[0]), int(own[-1]))
        n, k = L[rows].shape
        delta = np.empty((2 if few else n, k))
        come = np.empty((n if few else 0, k), dtype=np.uint8)
        viterbi(L[rows], own - own[0], log_start, log_A, log_At, delta, come, path[rows], out[block])

    parallel(run, blocks(first), n_jobs=n_jobs, work=float(L.size) * len(A))
    return path, out
