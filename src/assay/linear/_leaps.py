"""Branch and bound over all subsets: the best of every size at once, and a proof.

A node is a set S of columns of which F are settled and U = S \\ F may still be dropped. With H the inverse of the
Gram matrix of S and b = H X'y its coefficients, everything a node needs is H and b over U:

    delta_v = b_v^2 / H_vv                                what dropping v adds to the RSS, exactly
    drop v:   H <- H - H_v H_v' / H_vv,   b <- b - H_v b_v / H_vv,   RSS <- RSS + delta_v

U is sorted by falling delta. Child i drops U_i and settles U_1 .. U_{i-1}, so that every subset is reached once
(Furnival and Wilson 1974, with the columns reordered at every node as in Gatu and Kontoghiorghes 2006). A
set that arises by dropping d columns D of U costs at least

    RSS(S) + max( d-th smallest delta,  sum of the d smallest g_v b_v^2 ),

the first because more columns dropped never cost less, the second for every diagonal g >= 0 with G - diag(g)
positive semidefinite: the cost is min over beta_D = 0 of (beta - b)'G(beta - b) >= sum over D of g_v b_v^2. One g,
found once from the whole Gram matrix, holds for all its principal submatrices. The second bound is what makes
it quick: it grows with every column dropped, where RSS(S) alone stands still. A child is cut
when the bound of every size below it is no better than the incumbent of that size.

Cost: |U|^2 per node that survives and |U| per child that does not. The stack holds p^3 / 3 numbers.

Furnival, Wilson (1974), Technometrics 16, 499-511; Gatu, Kontoghiorghes (2006), J. Comput. Graph. Stat. 15, 139-156.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from assay.numerics.jit import kernel
from assay.numerics.threads import parallel

__all__ = ["Leaps", "leaps"]

Array = np.ndarray

DEPENDENT = 1e-9
"""A column whose share of variance not explained by those before it is below this counts as collinear."""

MOST_ROOTS = 200
"""Collinear columns are resolved by cases; more cases than this and the search is refused."""

TIE = 1e-11
"""Sums of squares closer than this share of the total are one and the same to the search."""

FIRST_ROUND = 2048


@kernel
def _look(
    i: Any,
    u: Any,
    s: Any,
    rss: Any,
    H: Any,
    at: Any,
    b: Any,
    g: Any,
    delta: Any,
    best: Any,
    tie: Any,
    b2: Any,
    d2: Any,
    key: Any,
    order: Any,
    bound: Any,
) -> Any:
    """Weigh child i of a node: fill its b, delta and order over the columns still free; is it worth a visit?

    `bound` is lowered to the child's bound of every size it could reach.
    """
    m = u - 1 - i
    r = rss + delta[i]
    h = H[at + i * u + i]
    factor = b[i] / h
    for a in range(m):
        v = i + 1 + a
        c = H[at + i * u + v]
        bv = b[v] - c * factor
        b2[a] = bv
        hv = H[at + v * u + v] - c * c / h
        d2[a] = bv * bv / hv if hv > 0 else 0.0
    # Falling delta: the parent's order is nearly right, so insertion is quick.
    for a in range(m):
        x = d2[a]
        q = a - 1
        while q >= 0 and d2[order[q]] < x:
            order[q + 1] = order[q]
            q -= 1
        order[q + 1] = a
    for a in range(m):
        v = order[m - 1 - a]
        x = g[i + 1 + v] * b2[v] * b2[v]
        q = a - 1
        while q >= 0 and key[q] > x:
            key[q + 1] = key[q]
            q -= 1
        key[q + 1] = x
    worth = False
    total = 0.0
    for d in range(1, m + 1):
        total += key[d - 1]
        j = s - 1 - d
        low = r + max(total, d2[order[m - d]])
        if low < bound[j]:
            bound[j] = low
        if low < best[j] - tie:
            worth = True
    return worth


@kernel
def _explore(
    H: Any,
    b: Any,
    g: Any,
    delta: Any,
    ids: Any,
    meta: Any,
    rss: Any,
    best: Any,
    sets: Any,
    inside: Any,
    tie: Any,
    budget: Any,
    work: Any,
    order: Any,
    waste: Any,
) -> Any:
    """Depth-first search from the node on top of the stack until it is empty or `budget` nodes are spent.

    meta[l] = (offset of H, free columns, size of S, next child, last child, dropped column); meta[-1, 0] is the level.
    """
    nodes = 0
    level = meta[-1, 0]
    while level >= 0 and nodes < budget:
        at, u, s = meta[level, 0], meta[level, 1], meta[level, 2]
        i = meta[level, 3]
        if i >= meta[level, 4]:
            if level > 0:
                inside[meta[level, 5]] = 1
            level -= 1
            continue
        meta[level, 3] = i + 1
        if rss[level] + delta[level, i] >= best[s - u + i] - tie:
            continue
        if not _look(
            i,
            u,
            s,
            rss[level],
            H,
            at,
            b[level],
            g[level],
            delta[level],
            best,
            tie,
            work[0],
            work[1],
            work[2],
            order,
            waste,
        ):
            continue
        nodes += 1
        m = u - 1 - i
        c = level + 1
        to = at + u * u
        h = H[at + i * u + i]
        for a in range(m):
            v = i + 1 + order[a]
            b[c, a] = work[0, order[a]]
            delta[c, a] = work[1, order[a]]
            g[c, a] = g[level, v]
            ids[c, a] = ids[level, v]
            x = H[at + i * u + v] / h
            for q in range(m):
                w = i + 1 + order[q]
                H[to + a * m + q] = H[at + v * u + w] - x * H[at + i * u + w]
        meta[c, 0], meta[c, 1], meta[c, 2], meta[c, 3], meta[c, 4] = to, m, s - 1, 0, m - 1
        meta[c, 5] = ids[level, i]
        inside[ids[level, i]] = 0
        rss[c] = rss[level] + delta[level, i]
        level = c
        # The best child of the new node drops its least column; no other set of that size below it is better.
        r = rss[c] + delta[c, m - 1]
        if r < best[s - 2] - tie:
            best[s - 2] = r
            sets[s - 2, :] = inside
            sets[s - 2, ids[c, m - 1]] = 0
    meta[-1, 0] = level
    return nodes


@kernel
def _open_bounds(
    H: Any, b: Any, g: Any, delta: Any, meta: Any, rss: Any, best: Any, tie: Any, work: Any, order: Any, bound: Any
) -> Any:
    """Lower `bound` to what the children not yet visited could still reach."""
    for level in range(meta[-1, 0] + 1):
        at, u, s = meta[level, 0], meta[level, 1], meta[level, 2]
        for i in range(meta[level, 3], meta[level, 4]):
            _look(
                i,
                u,
                s,
                rss[level],
                H,
                at,
                b[level],
                g[level],
                delta[level],
                best,
                tie,
                work[0],
                work[1],
                work[2],
                order,
                bound,
            )


@dataclass(frozen=True, eq=False)
class Leaps:
    """The best set of every size 0 .. len(rss) - 1, and how sure that is.

    `sets[k]` marks the columns, `bound[k]` is a lower bound on the RSS of any set of that size, equal to `rss[k]`
    where it is proven to be the least.
    """

    rss: Array
    sets: Array
    bound: Array
    proven: Array
    n_nodes: int


@dataclass
class _Task:
    """One branch below a root: its own stack, so that branches run side by side and can be resumed."""

    H: Array
    b: Array
    g: Array
    delta: Array
    ids: Array
    meta: Array
    rss: Array
    inside: Array
    work: Array
    order: Array
    nodes: int = 0
    best: Array = field(default_factory=lambda: np.empty(0))
    sets: Array = field(default_factory=lambda: np.empty(0))

    def explore(self, best: Array, sets: Array, tie: float, budget: int) -> None:
        self.best, self.sets = best.copy(), sets.copy()
        waste = np.full(best.size, np.inf)
        self.nodes = _explore(
            self.H, self.b, self.g, self.delta, self.ids, self.meta, self.rss, self.best, self.sets, self.inside, tie,
            budget, self.work, self.order, waste,
        )  # fmt: skip

    def lower(self, bound: Array, best: Array, tie: float) -> None:
        _open_bounds(
            self.H, self.b, self.g, self.delta, self.meta, self.rss, best, tie, self.work, self.order, bound
        )  # fmt: skip

    @property
    def open(self) -> bool:
        return bool(self.meta[-1, 0] >= 0)


def leaps(G: Array, c: Array, rss: Array, sets: Array, max_nodes: int, n_jobs: int | None = None) -> Leaps:
    """Improve the incumbents `rss` and `sets` (one per size, 0 first) to the best subsets of each size.

    G is the Gram matrix of columns of unit length (or zero) and c their products with a y of
    unit length. The branches are the same whatever n_jobs, and learn of each other's finds only
    between rounds, so the answer and the number of nodes are the same too.
    """
    p = len(c)
    best = np.full(p + 1, -np.inf)
    best[: len(rss)] = rss
    found = np.zeros((p + 1, p), dtype=np.uint8)
    found[: len(sets)] = sets
    tasks: list[_Task] = []
    for kept, settled in _roots(G):
        tasks += _plant(G, c, kept, settled, best, found)
    n_nodes, budget = 0, FIRST_ROUND
    tasks = [task for task in tasks if task.open]
    while tasks and n_nodes < max_nodes:
        share = min(budget, max(1, (max_nodes - n_nodes) // len(tasks)))
        start, start_sets = best.copy(), found.copy()
        explore = partial(_Task.explore, best=start, sets=start_sets, tie=TIE, budget=share)
        parallel(explore, tasks, n_jobs=n_jobs, work=len(tasks) * p**3)
        for task in tasks:
            n_nodes += task.nodes
            better = task.best < best
            best[better], found[better] = task.best[better], task.sets[better]
        tasks = [task for task in tasks if task.open]
        budget *= 4
    bound = np.full(p + 1, np.inf)
    for task in tasks:
        task.lower(bound, best, TIE)
    m = len(rss)
    proven = bound[:m] >= best[:m] - TIE
    return Leaps(best[:m], found[:m].astype(bool), np.where(proven, best[:m], bound[:m]), proven, n_nodes)


def _plant(G: Array, c: Array, kept: list[int], settled: list[int], best: Array, sets: Array) -> list[_Task]:
    """The branches of one root, its own models already taken into account."""
    free = np.array([v for v in kept if v not in set(settled)], dtype=np.int64)
    s, u = len(kept), len(free)
    inside = np.zeros(len(c), dtype=np.uint8)
    inside[kept] = 1
    H = np.linalg.inv(G[np.ix_(kept, kept)])
    b = H @ c[kept]
    r = float(1.0 - c[kept] @ b)
    where = np.searchsorted(kept, free)
    H, b = H[np.ix_(where, where)], b[where]
    order = np.argsort(-(b**2) / np.diag(H), kind="stable")
    H, b, free = np.ascontiguousarray(H[np.ix_(order, order)]), b[order], free[order]
    delta = b**2 / np.diag(H)
    for size, value, gone in ((s, r, []), (s - 1, r + (delta[-1] if u else np.inf), free[-1:])):
        if size >= 0 and value < best[size] - TIE:
            best[size] = value
            sets[size] = inside
            sets[size, gone] = 0
    g = _diagonal(H) if u else delta
    node = (H, b, g, delta, free, inside, r, s)
    return [_branch(*node, i) for i in range(u - 1)]


def _diagonal(H: Array) -> Array:
    """A diagonal g with inv(H) - diag(g) positive semidefinite, in the scale of inv(H)'s own conditional variances."""
    scale = np.sqrt(np.diag(H))
    return (1 - 1e-9) / (np.diag(H) * np.linalg.eigvalsh(H / np.outer(scale, scale))[-1])


def _branch(
    H: Array, b: Array, g: Array, delta: Array, free: Array, inside: Array, rss: float, s: int, i: int
) -> _Task:
    u = len(b)
    # np.empty touches no page, so a branch that is cut at once costs next to nothing.
    stack = np.empty(sum(k * k for k in range(u + 1)))
    stack[: u * u] = H.ravel()
    rows = [np.empty((u, u)) for _ in range(3)]
    for row, values in zip(rows, (b, g, delta), strict=True):
        row[0] = values
    ids = np.empty((u, u), dtype=np.int64)
    ids[0] = free
    meta = np.zeros((u + 1, 6), dtype=np.int64)
    meta[0, 1:5] = u, s, i, i + 1
    levels = np.empty(u)
    levels[0] = rss
    return _Task(
        stack, rows[0], rows[1], rows[2], ids, meta, levels, inside.copy(), np.empty((3, u)), np.empty(u, np.int64)
    )


def _roots(G: Array) -> list[tuple[list[int], list[int]]]:
    """Sets of independent columns whose subsets cover all independent sets: (columns, those settled).

    Columns that depend on each other cannot all be in a model of full rank, so one of them is absent: the cases
    are "the first is", "the first is in and the second absent", and so on.
    """
    done: list[tuple[list[int], list[int]]] = []
    todo: list[tuple[list[int], list[int]]] = [(list(range(len(G))), [])]
    while todo:
        kept, settled = todo.pop()
        circuit = _dependent(G, settled + [v for v in kept if v not in set(settled)])
        if circuit is None:
            done.append((kept, settled))
            if len(done) + len(todo) > MOST_ROOTS:
                raise TooDependentError
            continue
        loose = [v for v in circuit if v not in set(settled)]
        for t, v in enumerate(loose):
            todo.append(([k for k in kept if k != v], settled + loose[:t]))
    return done


class TooDependentError(Exception):
    """The columns depend on each other in too many ways for an exact search."""


def _dependent(G: Array, order: list[int]) -> list[int] | None:
    """The first column that depends on those before it together with the ones it depends on, or None."""
    p = len(order)
    L = np.zeros((p, p))
    for k, v in enumerate(order):
        row = G[v, order[:k]]
        coordinates = _forward_substitution(L[:k, :k], row)
        pivot = G[v, v] - coordinates @ coordinates
        if pivot <= DEPENDENT:
            weights = _back_substitution(L[:k, :k], coordinates)
            return [*(order[q] for q in np.flatnonzero(np.abs(weights) > DEPENDENT**0.5)), v]
        L[k, :k], L[k, k] = coordinates, np.sqrt(pivot)
    return None


def _forward_substitution(L: Array, x: Array) -> Array:
    return solve_triangular(L, x, lower=True, check_finite=False) if x.size else x


def _back_substitution(L: Array, x: Array) -> Array:
    return solve_triangular(L, x, lower=True, trans=1, check_finite=False) if x.size else x
