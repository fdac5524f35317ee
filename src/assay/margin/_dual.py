"""The dual of every support vector machine, and its solvers: pairs, working sets, single coordinates.

    max  D(beta) = c'beta - eps |beta|_1 - beta'K beta / 2,    lo <= beta <= hi,    sum beta = const with a bias

| machine    | c  | eps     | lo, hi                               | sum beta |
|------------|----|---------|--------------------------------------|----------|
| classes    | y  | 0       | 0, C_i for y = 1; -C_i, 0 for y = -1 | 0        |
| numbers    | y  | epsilon | -C_i, C_i                            | 0        |
| one class  | 0  | 0       | 0, w_i                               | nu n     |

The bias b is the multiplier of the sum. With e = c - K beta every free row (strictly between its bounds, and not zero)
has e_i - eps sign(beta_i) = b, so b is their mean; without a free row it is the middle of the interval that the rows at
their bounds leave open. At b the primal objective is

    P = beta'K beta / 2 + sum_i max(0, hi_i (e_i - b - eps), lo_i (e_i - b + eps)) + b sum beta

and P - D, the duality gap, bounds how far D is from its maximum. Sums are in double precision throughout; kernel values
are in single precision while a solver runs, and in double precision where `_finish` ends a problem.

| solver        | step                                                        | cost of a step |
|---------------|-------------------------------------------------------------|----------------------------------------|
| "smo"         | a pair in closed form, second-order choice                  | O(n), and a row of K the first time |
| "working_set" | up to `SET` rows solved among themselves, half of them kept | up to `SET`/2 rows of K in one product |
| "dual_ascent" | one row in closed form, no bias                             | O(n), and a row of K the first time |

Cortes, Vapnik (1995); Osuna, Freund, Girosi (1997); Platt (1998); Fan, Chen, Lin (2005), JMLR 6, 1889-1918.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from assay.margin._ascent import coordinate_ascent, gather, pair_ascent
from assay.margin._gram import Gram
from assay.numerics.threads import halted

__all__ = ["Dual", "Records", "Solution", "bias_and_gap", "gap_at", "solve"]

Array = np.ndarray
SET = 1024
"""Rows of a working set."""
BATCH = 32
"""Rows made at once when one is missing."""
SHRINK = 1000
"""Steps between two looks at which rows can still move."""
CAP = 1_000_000
"""Steps that max_iter = -1 allows, or a hundred for each row."""


@dataclass(frozen=True, eq=False)
class Dual:
    """One dual problem; `coupled` says whether a bias fixes the sum of beta."""

    c: Array
    eps: float
    lo: Array
    hi: Array
    coupled: bool = True
    total: float = 0.0

    def objective(self, beta: Array, e: Array) -> float:
        """D at beta, given e = c - K beta."""
        return float(0.5 * beta @ (self.c + e) - self.eps * np.abs(beta).sum())

    def rates(self, beta: Array, e: Array) -> tuple[Array, Array]:
        """Gain per unit of moving each row up, and loss per unit of moving it down; infinite where it cannot move."""
        up = np.where(beta < self.hi, np.where(beta >= 0, e - self.eps, e + self.eps), -np.inf)
        down = np.where(beta > self.lo, np.where(beta > 0, e - self.eps, e + self.eps), np.inf)
        return up, down

    def scaled(self, factor: float) -> Dual:
        """The same problem for K / factor, whose solution is beta factor."""
        return replace(self, lo=self.lo * factor, hi=self.hi * factor, total=self.total * factor)


class Records:
    """What a solver notes on its way."""

    def __init__(self, objective: float, n: int) -> None:
        self.started = perf_counter()
        self.rows: list[tuple[int, float, float, int, int, float]] = [(0, objective, np.nan, n, 0, 0.0)]

    def note(self, steps: int, gained: float, violation: float, working: int, evaluations: int) -> None:
        """One more look: steps made since the last and their gain; violation, rows at work, kernel values so far."""
        steps, objective = self.rows[-1][0] + steps, self.rows[-1][1] + gained
        self.rows.append((steps, objective, violation, working, evaluations, perf_counter() - self.started))

    @property
    def steps(self) -> int:
        """Steps so far."""
        return self.rows[-1][0]


@dataclass(frozen=True, eq=False)
class Solution:
    """Beta, e = c - K beta, the bias, and how good it is."""

    beta: Array
    e: Array
    bias: float
    objective: float
    gap: float
    violation: float
    converged: bool
    records: Records


def solve(
    dual: Dual,
    gram: Gram,
    *,
    solver: str,
    tol: float = 1e-3,
    max_iter: int = -1,
    start: tuple[Array, Array] | None = None,
    order: str = "epochs",
    rng: np.random.Generator | None = None,
    shrinking: bool = True,
) -> Solution:
    """Solve a dual, from beta = 0 or from a feasible (beta, e).

    The result holds for K itself, whatever the scale that `gram` divides it by.
    """
    inner = dual if gram.scale == 1.0 else dual.scaled(gram.scale)
    beta, e = _start(inner, gram, start)
    cap = max_iter if max_iter >= 0 else max(CAP, 100 * beta.size)
    records = Records(inner.objective(beta, e), beta.size)
    if solver == "dual_ascent":
        steps = _coordinates(inner, gram, beta, e, tol, cap, records, order, rng or np.random.default_rng(0))
    elif solver == "working_set":
        steps = _working_sets(inner, gram, beta, e, tol, cap, records)
    else:
        steps = _pairs(inner, gram, beta, e, tol, cap, records, shrinking)
    for _ in steps:
        if halted():
            break
    return _finished(dual, inner, gram.scale, beta, e, tol, records)


def _start(dual: Dual, gram: Gram, start: tuple[Array, Array] | None) -> tuple[Array, Array]:
    if start is not None:
        return start[0] * gram.scale, start[1].copy()
    beta, e = np.zeros(dual.c.size), dual.c.copy()
    if dual.total:  # fill the first rows up to their bounds, as LIBSVM does
        room = np.cumsum(dual.hi)
        beta = np.clip(dual.total - (room - dual.hi), 0.0, dual.hi)
        used = np.flatnonzero(beta)
        for at in range(0, used.size, gram.capacity):
            some = used[at : at + gram.capacity]
            gram.fetch(some)
            gram.subtract(some, beta[some], e)
    return beta, e


def _finished(dual: Dual, inner: Dual, scale: float, beta: Array, e: Array, tol: float, records: Records) -> Solution:
    beta = beta / scale
    bias, gap, left = bias_and_gap(dual, beta, e)
    if scale != 1.0:
        records.rows = [(row[0], row[1] / scale, *row[2:]) for row in records.rows]
    return Solution(beta, e, bias, dual.objective(beta, e), gap, left, left <= tol * 1.0001, records)


def bias_and_gap(dual: Dual, beta: Array, e: Array) -> tuple[float, float, float]:
    """The bias, the duality gap at it, and the KKT violation."""
    up, down = dual.rates(beta, e)
    top, bottom = float(up.max(initial=-np.inf)), float(down.min(initial=np.inf))
    if dual.coupled:
        free = (beta > dual.lo) & (beta < dual.hi) & (beta != 0)
        if free.any():
            bias = float(np.mean(e[free] - dual.eps * np.sign(beta[free])))
        else:
            ends = [end for end in (top, bottom) if np.isfinite(end)]
            bias = float(np.mean(ends)) if ends else 0.0
        left = max(0.0, top - bottom)
    else:
        bias, left = 0.0, max(0.0, top, -bottom)
    return bias, gap_at(dual, beta, e, bias), left


def gap_at(dual: Dual, beta: Array, e: Array, bias: float) -> float:
    """The duality gap at a bias."""
    f, r = dual.c - e, e - bias
    norm = float(beta @ f)
    with np.errstate(invalid="ignore"):
        above = np.where(r > dual.eps, dual.hi * (r - dual.eps), 0.0)
        below = np.where(r < -dual.eps, dual.lo * (r + dual.eps), 0.0)
    loss = float(np.maximum(above, below).sum())
    if not np.isfinite(loss):  # a hard margin: shrink the margin until every row is outside it
        least = float(np.min(dual.c * (f + bias)))
        return np.inf if least <= 0 else 0.5 * norm / least**2 - dual.objective(beta, e)
    return 0.5 * norm + loss + bias * float(beta.sum()) - dual.objective(beta, e)


def _movable(dual: Dual, beta: Array, e: Array) -> tuple[Array, float]:
    """Rows that break the optimality conditions against some other row, and the violation."""
    up, down = dual.rates(beta, e)
    if not dual.coupled:
        return np.flatnonzero((up > 0) | (down < 0)), max(0.0, up.max(), -down.min())
    top, bottom = up.max(), down.min()
    return np.flatnonzero((up > bottom) | (down < top)), max(0.0, top - bottom)


def _pairs(
    dual: Dual, gram: Gram, beta: Array, e: Array, tol: float, cap: int, records: Records, shrinking: bool
) -> Iterator[None]:
    """Sequential minimal optimisation among the rows that can still move."""
    everyone = np.flatnonzero(dual.lo < dual.hi)
    active, up, down = everyone, np.empty(beta.size), np.empty(beta.size)
    while records.steps < cap:
        made, gained, left, missing = pair_ascent(
            gram.K, gram.slot, gram.stamp, gram.diagonal, e, beta, dual.lo, dual.hi, dual.eps, tol,
            min(SHRINK, cap - records.steps), active, up, down,
        )  # fmt: skip
        records.note(made, gained, left if np.isfinite(left) else np.nan, active.size, gram.evaluations)
        if missing >= 0:
            gram.fetch(_neighbours(dual, gram, beta, e, missing))
        elif left <= tol and active.size == everyone.size:
            return
        else:
            movable, left = _movable(dual, beta, e)
            if left <= tol:
                return
            active = movable if shrinking else everyone
        yield


def _neighbours(dual: Dual, gram: Gram, beta: Array, e: Array, missing: int) -> Array:
    """The missing row and those that will be asked for soon: the worst violators not at hand."""
    up, down = dual.rates(beta, e)
    count = min(BATCH, gram.capacity // 2)
    absent = gram.slot < 0
    absent[missing] = False
    worst = [np.flatnonzero(absent & (up > down.min())), np.flatnonzero(absent & (down < up.max()))]
    best = [_largest(up, worst[0], count // 2), _largest(-down, worst[1], count // 2)]
    return np.concatenate([[missing], np.setdiff1d(np.unique(np.concatenate(best)), [missing])]).astype(np.int64)


def _largest(values: Array, among: Array, count: int) -> Array:
    if among.size <= count:
        return among
    return among[np.argpartition(values[among], among.size - count)[among.size - count :]] if count else among[:0]


def _working_sets(
    dual: Dual, gram: Gram, beta: Array, e: Array, tol: float, cap: int, records: Records
) -> Iterator[None]:
    """Solve the dual on a bounded set of rows, the others fixed; exchange half of the set; until none violates."""
    size = min(SET, gram.capacity, beta.size)
    chosen, K = np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=np.float32)
    while records.steps < cap:
        up, down = dual.rates(beta, e)
        top, bottom = (up.max(), down.min()) if dual.coupled else (0.0, 0.0)
        left = float(max(0.0, top - bottom) if dual.coupled else max(0.0, up.max(), -down.min()))
        if left <= tol:
            return
        goes_up, goes_down = up > bottom, down < top
        many = np.count_nonzero(goes_up | goes_down) > size // 2 and size > 3
        kept = chosen[-(size // 2) :] if many else chosen[:0]
        goes_up[kept] = goes_down[kept] = False
        half = (size - kept.size) // 2
        new = np.zeros(beta.size, dtype=bool)
        new[_largest(up, np.flatnonzero(goes_up), half)] = True
        new[_largest(-down, np.flatnonzero(goes_down), half)] = True
        chosen = np.concatenate([kept, np.flatnonzero(new)])
        gram.fetch(chosen)
        K = _among(gram, chosen, kept.size, K)
        enough = max(tol, 0.1 * left) if left > 10 * tol else 0.5 * tol
        made, gained = _inside(dual, gram, beta, e, chosen, K, enough, cap)
        records.note(max(made, 1), gained, left, chosen.size, gram.evaluations)
        yield


def _among(gram: Gram, chosen: Array, kept: int, before: Array) -> Array:
    """The Gram matrix of the chosen rows; that of the `kept` ones, which stand first, is the end of the last one."""
    K = np.empty((chosen.size, chosen.size), dtype=np.float32)
    K[:kept, :kept] = before[before.shape[0] - kept :, before.shape[0] - kept :]
    gather(gram.K, gram.slot[chosen[kept:]], chosen, K[kept:])
    K[:kept, kept:] = K[kept:, :kept].T
    return K


def _inside(
    dual: Dual, gram: Gram, beta: Array, e: Array, chosen: Array, K: Array, tol: float, cap: int
) -> tuple[int, float]:
    """Solve the dual among the chosen rows, whose Gram matrix is K, then bring e of all rows up to date."""
    m = chosen.size
    local, errors, before = beta[chosen], e[chosen], beta[chosen]
    lo, hi, diag, slot = dual.lo[chosen], dual.hi[chosen], gram.diagonal[chosen], np.arange(m)
    steps = min(cap, 50 * m)
    if dual.coupled:
        up, down, stamp = np.empty(m), np.empty(m), np.zeros(m, dtype=np.int64)
        made, gained, _, _ = pair_ascent(
            K, slot, stamp, diag, errors, local, lo, hi, dual.eps, tol, steps, slot, up, down
        )
    else:
        made, gained = 0, 0.0
        for _ in range(50):
            moved, more, met = coordinate_ascent(K, slot, diag, errors, local, lo, hi, dual.eps, slot)
            made, gained = made + moved, gained + more
            if met <= tol:
                break
    moved = np.flatnonzero(local != before)
    gram.subtract(chosen[moved], (local - before)[moved], e)
    beta[chosen] = local
    return made, gained


def _coordinates(
    dual: Dual, gram: Gram, beta: Array, e: Array, tol: float, cap: int, records: Records, order: str,
    rng: np.random.Generator,
) -> Iterator[None]:  # fmt: skip
    """Stochastic dual coordinate ascent: rows in epochs, those that cannot move left out, or drawn uniformly."""
    everyone = np.flatnonzero(dual.lo < dual.hi)
    batch = max(1, min(SET, gram.capacity))
    while records.steps < cap:
        movable, left = _movable(dual, beta, e)
        if left <= tol:
            return
        rows = rng.choice(everyone, everyone.size) if order == "uniform" else rng.permutation(movable)
        for at in range(0, rows.size, batch):
            some = rows[at : at + batch]
            gram.fetch(np.unique(some))
            made, gained, _ = coordinate_ascent(
                gram.K, gram.slot, gram.diagonal, e, beta, dual.lo, dual.hi, dual.eps, some
            )
            records.note(max(made, 1), gained, left, rows.size, gram.evaluations)
        yield
