"""The recursions over hidden paths, for many sequences that lie one behind the other.

Sequence s is the steps first[s] .. first[s + 1] - 1; B holds likelihoods divided by the largest of their step (`peak`
is its logarithm), so that nothing leaves the range of floating point.

    forward    pred_t(j) = sum_i alpha_{t-1}(i) A_ij,  alpha_t = pred_t b_t / c_t,  c_t = P(x_t | x_1 .. x_{t-1})
    backward   w_t = b_t beta_t / c_t,  beta_{t-1} = A w_t,  gamma_t = alpha_t beta_t
    pairs      sum_t P(q_{t-1} = i, q_t = j | X) = A_ij sum_t alpha_{t-1}(i) w_t(j),   added up on the way back
    Viterbi    delta_t(j) = max_i [delta_{t-1}(i) + log A_ij] + log b_t(j)

With many states the way back of Viterbi finds the best predecessor of one state per step again instead of storing those
of all. Cost: T K^2 for each; memory T K, never T K^2. Up to four states have loops of constant length, for speed.

Rabiner (1989), Proc. IEEE 77, 257-286.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.numerics.jit import kernel

__all__ = [
    "FEW",
    "NONE",
    "add_symbols",
    "backward",
    "far_apart",
    "forward",
    "log_backward",
    "log_forward",
    "shifted",
    "viterbi",
    "walk",
]

Array = np.ndarray

SMALL = 1e-200
"""A step of lower scaled probability is done again, divided by the largest likelihood among the states it can be in."""
FAR = 230.0
"""Likelihoods further apart than this (in logarithms) may be lost where they are only scaled; see `_recursions`."""
FEW = 4
"""Up to so many states have kernels of their own."""
NONE = 1e-290
"""Predicted probabilities below this count as zero: their inverse must stay in range on the way back."""


@kernel
def shifted(L: Array, out: Array, peak: Array) -> None:
    """Log-likelihoods less the largest of their step, which `peak` keeps; 0 for a step that no state can make."""
    for t in range(L.shape[0]):
        top = L[t, 0]
        for j in range(1, L.shape[1]):
            top = L[t, j] if L[t, j] > top else top
        top = top if top > -np.inf else 0.0
        peak[t] = top
        for j in range(L.shape[1]):
            out[t, j] = L[t, j] - top


@kernel
def _again(t: int, begins: bool, B: Array, L: Array, peak: Array, start: Array, A: Array, alpha: Array) -> float:
    """One step of very small probability: predict anew, scale by the states that can be reached; 0: there is none."""
    k = A.shape[0]
    top = -np.inf
    for j in range(k):
        p = 0.0
        if begins:
            p = start[j]
        else:
            for i in range(k):
                p += alpha[t - 1, i] * A[i, j]
        alpha[t, j] = p if p > NONE else 0.0
        own = L[t, j] if L.shape[0] > 0 else np.log(B[t, j])
        if alpha[t, j] > 0.0 and own > top:
            top = own
    if top == -np.inf:
        return 0.0
    peak[t] = top
    c = 0.0
    for j in range(k):
        own = L[t, j] if L.shape[0] > 0 else np.log(B[t, j])
        B[t, j] = np.exp(own - top) if alpha[t, j] > 0.0 else 0.0
        alpha[t, j] *= B[t, j]
        c += alpha[t, j]
    return c


@kernel(inline=True)
def _forward(
    B: Array,
    L: Array,
    peak: Array,
    first: Array,
    start: Array,
    A: Array,
    k: int,
    alpha: Array,
    inverse: Array,
    out: Array,
) -> None:
    for s in range(first.size - 1):
        total, product = 0.0, 1.0
        for t in range(first[s], first[s + 1]):
            if t == first[s]:
                for j in range(k):
                    alpha[t, j] = start[j]
            else:
                for j in range(k):
                    alpha[t, j] = 0.0
                for i in range(k):
                    a = alpha[t - 1, i]
                    for j in range(k):
                        alpha[t, j] += a * A[i, j]
            c = 0.0
            for j in range(k):
                p = alpha[t, j]
                alpha[t, j] = (p if p > NONE else 0.0) * B[t, j]
                c += alpha[t, j]
            if c < SMALL:
                c = _again(t, t == first[s], B, L, peak, start, A, alpha)
                total += np.log(c)
                if c == 0.0:
                    break
            else:
                product *= c
                if product < SMALL / NONE:  # one logarithm for many steps
                    total += np.log(product)
                    product = 1.0
            total += peak[t]
            inverse[t] = 1.0 / c
            for j in range(k):
                alpha[t, j] *= inverse[t]
        out[s] = total + np.log(product)


@kernel
def forward(
    B: Array, L: Array, peak: Array, first: Array, start: Array, A: Array, alpha: Array, inverse: Array, out: Array
) -> None:
    """Fill alpha (T, K), 1 / c (T,) and log P(X) of each sequence, minus infinity where it cannot occur.

    L are the log-likelihoods behind B, or of no rows where B holds plain probabilities, whose logarithms will do.
    """
    k = A.shape[0]
    if k == 2:
        _forward(B, L, peak, first, start, A, 2, alpha, inverse, out)
    elif k == 3:
        _forward(B, L, peak, first, start, A, 3, alpha, inverse, out)
    elif k == 4:
        _forward(B, L, peak, first, start, A, 4, alpha, inverse, out)
    else:
        _forward(B, L, peak, first, start, A, k, alpha, inverse, out)


@kernel(inline=True)
def _backward(B: Array, first: Array, At: Array, k: int, alpha: Array, inverse: Array, out: Array, work: Any) -> None:
    w, beta, begun, pairs = work
    for s in range(first.size - 1):
        if out[s] == -np.inf:
            continue
        for j in range(k):
            beta[j] = 1.0
        for t in range(first[s + 1] - 1, first[s], -1):
            for j in range(k):
                w[j] = B[t, j] * beta[j] * inverse[t] if alpha[t, j] > 0.0 else 0.0
                alpha[t, j] *= beta[j]
                beta[j] = 0.0
            for j in range(k):
                for i in range(k):
                    beta[i] += At[j, i] * w[j]
            for i in range(k):
                a = alpha[t - 1, i]
                for j in range(k):
                    pairs[i, j] += a * w[j]
        for j in range(k):
            alpha[first[s], j] *= beta[j]
            begun[j] += alpha[first[s], j]


@kernel
def backward(B: Array, first: Array, At: Array, alpha: Array, inverse: Array, out: Array, work: Any) -> None:
    """Turn alpha into gamma and add up first states and pairs (still to be multiplied by A); At is A transposed.

    `work` holds two vectors to work in and what is added to: first states (K,) and pairs (K, K). Sequences that cannot
    occur are passed over.
    """
    k = At.shape[0]
    if k == 2:
        _backward(B, first, At, 2, alpha, inverse, out, work)
    elif k == 3:
        _backward(B, first, At, 3, alpha, inverse, out, work)
    elif k == 4:
        _backward(B, first, At, 4, alpha, inverse, out, work)
    else:
        _backward(B, first, At, k, alpha, inverse, out, work)


@kernel
def far_apart(L: Array, first: Array, plain: bool, out: Array) -> None:
    """Whether a sequence has a step at which a possible state is `FAR` times less likely than the best one."""
    for s in range(first.size - 1):
        out[s] = False
        for t in range(first[s], first[s + 1]):
            top = L[t].max()
            for j in range(L.shape[1]):
                gap = np.log(top / L[t, j]) if plain else top - L[t, j]
                if FAR < gap < np.inf:
                    out[s] = True


@kernel
def log_forward(L: Array, start: Array, A: Array, alpha: Array) -> float:
    """Fill log P(x_1 .. x_t, q_t) of one sequence from logarithms; log P(X)."""
    T, k = L.shape
    for t in range(T):
        for j in range(k):
            own = start[j]
            if t > 0:
                own = -np.inf
                for i in range(k):
                    own = max(own, alpha[t - 1, i] + A[i, j])
                if own > -np.inf:
                    total = 0.0
                    for i in range(k):
                        total += np.exp(alpha[t - 1, i] + A[i, j] - own)
                    own += np.log(total)
            alpha[t, j] = own + L[t, j]
    top = alpha[T - 1].max()
    return top + np.log(np.exp(alpha[T - 1] - top).sum()) if top > -np.inf else -np.inf


@kernel
def log_backward(L: Array, A: Array, alpha: Array, total: float, work: Any) -> None:
    """Turn log alpha of one sequence into gamma and add up first states and pairs; `work` as in `backward`."""
    T, k = L.shape
    w, beta, begun, pairs = work
    beta[:] = 0.0
    for t in range(T - 1, -1, -1):
        for j in range(k):
            w[j] = L[t, j] + beta[j]
            alpha[t, j] = np.exp(alpha[t, j] + beta[j] - total)
        if t == 0:
            begun += alpha[0]
            break
        for i in range(k):
            top = -np.inf
            for j in range(k):
                top = max(top, A[i, j] + w[j])
            beta[i] = top
            if top > -np.inf:
                sum_ = 0.0
                for j in range(k):
                    sum_ += np.exp(A[i, j] + w[j] - top)
                    pairs[i, j] += np.exp(alpha[t - 1, i] + A[i, j] + w[j] - total)
                beta[i] = top + np.log(sum_)


@kernel(inline=True)
def _viterbi_few(
    L: Array, first: Array, start: Array, At: Array, k: int, delta: Array, come: Array, path: Array, out: Array
) -> None:
    """With predecessors stored: for few states they cost less than to be found again. delta is (2, K)."""
    for s in range(first.size - 1):
        now = 0
        for j in range(k):
            delta[now, j] = start[j] + L[first[s], j]
        for t in range(first[s] + 1, first[s + 1]):
            for j in range(k):
                best, at = delta[now, 0] + At[j, 0], 0
                for i in range(1, k):
                    x = delta[now, i] + At[j, i]
                    at = i if x > best else at
                    best = x if x > best else best
                delta[1 - now, j] = best + L[t, j]
                come[t, j] = at
            now = 1 - now
        q = 0
        for j in range(1, k):
            q = j if delta[now, j] > delta[now, q] else q
        out[s] = delta[now, q]
        path[first[s + 1] - 1] = q
        for t in range(first[s + 1] - 1, first[s], -1):
            q = come[t, q]
            path[t - 1] = q


@kernel
def _viterbi_many(
    L: Array, first: Array, start: Array, A: Array, At: Array, delta: Array, path: Array, out: Array
) -> None:
    """Four predecessors at a time, which saves most of the loads and stores; the best of one state is found again."""
    k = A.shape[0]
    for s in range(first.size - 1):
        for j in range(k):
            delta[first[s], j] = start[j] + L[first[s], j]
        for t in range(first[s] + 1, first[s + 1]):
            i = k % 4 if k % 4 > 0 else 1
            for j in range(k):
                top = delta[t - 1, 0] + A[0, j]
                for h in range(1, i):
                    x = delta[t - 1, h] + A[h, j]
                    top = x if x > top else top
                delta[t, j] = top
            while i + 3 < k:
                d0, d1, d2, d3 = delta[t - 1, i], delta[t - 1, i + 1], delta[t - 1, i + 2], delta[t - 1, i + 3]
                for j in range(k):
                    x, y = d0 + A[i, j], d1 + A[i + 1, j]
                    u, v = d2 + A[i + 2, j], d3 + A[i + 3, j]
                    x = x if x > y else y
                    u = u if u > v else v
                    x = x if x > u else u
                    y = delta[t, j]
                    delta[t, j] = x if x > y else y
                i += 4
            while i < k:
                for j in range(k):
                    x, y = delta[t - 1, i] + A[i, j], delta[t, j]
                    delta[t, j] = x if x > y else y
                i += 1
            for j in range(k):
                delta[t, j] += L[t, j]
        q: int = int(np.argmax(delta[first[s + 1] - 1]))
        out[s] = delta[first[s + 1] - 1, q]
        path[first[s + 1] - 1] = q
        for t in range(first[s + 1] - 2, first[s] - 1, -1):
            best, at = delta[t, 0] + At[q, 0], 0
            for i in range(1, k):
                x = delta[t, i] + At[q, i]
                at = i if x > best else at
                best = x if x > best else best
            q = at
            path[t] = q


@kernel
def viterbi(
    L: Array, first: Array, start: Array, A: Array, At: Array, delta: Array, come: Array, path: Array, out: Array
) -> None:
    """The path of largest joint probability, and its logarithm; start, A and its transpose At are logarithms.

    Of several such paths the one with the lowest states, from the end on. Up to `FEW` states delta is (2, K) and come
    (T, K), beyond delta is (T, K) and come is not used.
    """
    k = A.shape[0]
    if k == 2:
        _viterbi_few(L, first, start, At, 2, delta, come, path, out)
    elif k == 3:
        _viterbi_few(L, first, start, At, 3, delta, come, path, out)
    elif k == 4:
        _viterbi_few(L, first, start, At, 4, delta, come, path, out)
    elif k == 1:
        _viterbi_few(L, first, start, At, 1, delta, come, path, out)
    else:
        _viterbi_many(L, first, start, A, At, delta, path, out)


@kernel
def add_symbols(codes: Array, shares: Array, counts: Array) -> None:
    """Add each step's shares (T, K) to its symbol's row of counts (M, K); a step of code -1 misses its symbol."""
    for t in range(codes.size):
        m = codes[t]
        if m >= 0:
            for j in range(shares.shape[1]):
                counts[m, j] += shares[t, j]


@kernel
def walk(draws: Array, first: Array, start: Array, A: Array, path: Array) -> None:
    """States by inversion of one uniform number each; rounding never leads into a state of probability zero."""
    for s in range(first.size - 1):
        for t in range(first[s], first[s + 1]):
            total, q = 0.0, 0
            for j in range(A.shape[0]):
                p = start[j] if t == first[s] else A[path[t - 1], j]
                if p > 0.0:
                    q = j
                    total += p
                    if draws[t] < total:
                        break
            path[t] = q
