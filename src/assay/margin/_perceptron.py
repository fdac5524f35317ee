"""Passes of the perceptron over rows, and the loop around them: mistakes, cycles, proofs.

With w the weights of the augmented row a = (x, 1), s = 2 eta (so that eta (t - o) = s y for a mistake), one pass does

    for each row:   f = w'a;   if y f <= margin:  w += s y a,  a mistake;   else the weights survive one row more.

The mean of the weights over all rows seen is w - total / seen with total = sum over mistakes of (rows seen before)
s y a, so averaging costs one more addition per mistake. A pass over n rows costs n p multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.numerics.jit import kernel
from assay.numerics.separation import Overlap, Separation

__all__ = ["Dense", "Gram", "Rule", "Run", "Sparse", "run"]

Array = np.ndarray

SEEN, SURVIVED, LONGEST = range(3)
ASK = 50
"""After so many passes with mistakes it is asked whether any line separates the classes."""
SAME = 1e-10
"""Weights that come back up to this, relative to the longest row, will go round forever."""
CACHE_CELLS = 1 << 26
"""Rows of a Gram matrix are kept up to half a GiB of float64."""


@kernel(inline=True)
def is_mistake(f: float, y: float, margin: float, strict: float) -> bool:
    """Whether a row is not on its side; on the line it is on neither, or with `strict` on the negative one."""
    if strict > 0.0 and y < 0.0:
        return f > -margin
    return y * f <= margin


@kernel
def dense_pass(
    X: Array, y: Array, order: Array, w: Array, total: Array, kept: Array, counts: Array, path: Array, rule: Array
) -> int:
    """One pass over dense rows; `path` gets (row, rows seen before) of each mistake. How many there were."""
    step, margin, intercept, strict = rule[0], rule[1], rule[2], rule[3]
    p, mistakes = X.shape[1], 0
    for i in order:
        f = intercept * w[p]
        for j in range(p):
            f += w[j] * X[i, j]
        if is_mistake(f, y[i], margin, strict):
            if counts[SURVIVED] > counts[LONGEST]:
                counts[LONGEST] = counts[SURVIVED]
                for j in range(p + 1):  # a slice would take longer to compile than all the rest
                    kept[j] = w[j]
            change = step * y[i]
            late = change * counts[SEEN]
            for j in range(p):
                w[j] += change * X[i, j]
                total[j] += late * X[i, j]
            w[p] += change * intercept
            total[p] += late * intercept
            path[mistakes, 0], path[mistakes, 1] = i, counts[SEEN]
            mistakes += 1
            counts[SURVIVED] = 0
        else:
            counts[SURVIVED] += 1
        counts[SEEN] += 1
    return mistakes


@kernel
def sparse_pass(
    data: Array,
    indices: Array,
    starts: Array,
    y: Array,
    order: Array,
    w: Array,
    total: Array,
    kept: Array,
    counts: Array,
    path: Array,
    rule: Array,
) -> int:
    """The same over CSR rows."""
    step, margin, intercept, strict = rule[0], rule[1], rule[2], rule[3]
    p, mistakes = w.size - 1, 0
    for i in order:
        f = intercept * w[p]
        for at in range(starts[i], starts[i + 1]):
            f += w[indices[at]] * data[at]
        if is_mistake(f, y[i], margin, strict):
            if counts[SURVIVED] > counts[LONGEST]:
                counts[LONGEST] = counts[SURVIVED]
                for j in range(p + 1):  # a slice would take longer to compile than all the rest
                    kept[j] = w[j]
            change = step * y[i]
            late = change * counts[SEEN]
            for at in range(starts[i], starts[i + 1]):
                w[indices[at]] += change * data[at]
                total[indices[at]] += late * data[at]
            w[p] += change * intercept
            total[p] += late * intercept
            path[mistakes, 0], path[mistakes, 1] = i, counts[SEEN]
            mistakes += 1
            counts[SURVIVED] = 0
        else:
            counts[SURVIVED] += 1
        counts[SEEN] += 1
    return mistakes


@kernel
def next_mistake(f: Array, y: Array, order: Array, at: int, rule: Array) -> int:
    """The place in the order of the next row that is not on its side; the end if there is none."""
    for place in range(at, order.size):
        i = order[place]
        if is_mistake(f[i], y[i], rule[1], rule[3]):
            return place
    return order.size


@dataclass(frozen=True)
class Rule:
    """How the weights move: by s y a where y f <= margin; `strict` puts rows on the line on the negative side."""

    step: float
    margin: float
    intercept: bool
    strict: bool

    def array(self) -> Array:
        """For the compiled passes."""
        return np.array([self.step, self.margin, float(self.intercept), float(self.strict)])


class _Explicit:
    """Weights of the columns, the intercept last; `mean` of all weights so far, `kept` those that survived longest."""

    def __init__(self, n: int, rule: Rule, w: Array, total: Array, seen: int) -> None:
        self.rule, self.n = rule, n
        self.w, self.total, self.kept = w, total, w.copy()
        self.counts = np.array([seen, 0, 0], dtype=np.int64)
        self.path = np.empty((n, 2), dtype=np.int64)

    def mean(self) -> Array:
        """The mean of the weights over all rows seen."""
        return self.w - self.total / max(1, int(self.counts[SEEN]))

    def scores(self, w: Array) -> Array:
        """w'a of all rows."""
        raise NotImplementedError

    def forget_longest(self) -> None:
        """Let a new pass find weights of its own that survive long."""
        self.counts[LONGEST] = 0


class Dense(_Explicit):
    """Dense rows."""

    def __init__(self, X: Array, rule: Rule, w: Array, total: Array, seen: int) -> None:
        super().__init__(X.shape[0], rule, w, total, seen)
        self.X = X

    def sweep(self, y: Array, order: Array) -> int:
        """One pass; how many mistakes."""
        made = dense_pass(self.X, y, order, self.w, self.total, self.kept, self.counts, self.path, self.rule.array())
        return int(made)

    def scores(self, w: Array) -> Array:
        """w'a of all rows."""
        return self.X @ w[:-1] + self.rule.intercept * w[-1]


class Sparse(_Explicit):
    """CSR rows."""

    def __init__(self, X: Any, rule: Rule, w: Array, total: Array, seen: int) -> None:
        super().__init__(X.shape[0], rule, w, total, seen)
        self.X = X
        # Unsigned: a compiled loop need not ask whether an index counts from the end.
        self.parts = (X.data, X.indices.astype(np.uint32, copy=False), X.indptr.astype(np.int64))

    def sweep(self, y: Array, order: Array) -> int:
        """One pass; how many mistakes."""
        state = (self.w, self.total, self.kept, self.counts, self.path)
        return int(sparse_pass(*self.parts, y, order, *state, self.rule.array()))

    def scores(self, w: Array) -> Array:
        """w'a of all rows."""
        return np.asarray(self.X @ w[:-1]).ravel() + self.rule.intercept * w[-1]


class Gram(_Explicit):
    """Weights of the rows: w = sum_i w_i a_i in the space of a kernel, of which rows of the Gram matrix are asked for.

    f of all rows is kept up to date, so that a row without a mistake costs nothing but a look.
    """

    def __init__(self, held: Any, rule: Rule) -> None:
        super().__init__(held.n, rule, np.zeros(held.n), np.zeros(held.n), 0)
        self.held, self.f = held, np.zeros(held.n)
        self.cache: dict[int, Array] = {}
        self.most = max(64, CACHE_CELLS // max(1, held.n))

    def sweep(self, y: Array, order: Array) -> int:
        """One pass; how many mistakes."""
        flags, mistakes, at = self.rule.array(), 0, 0
        first = int(self.counts[SEEN])
        begun = first - int(self.counts[SURVIVED])
        while True:
            place = int(next_mistake(self.f, y, order, at, flags))
            if place == order.size:
                break
            i, seen = int(order[place]), first + place
            if seen - begun > self.counts[LONGEST]:
                self.counts[LONGEST] = seen - begun
                self.kept[:] = self.w
            change = self.rule.step * y[i]
            self.f += change * self._row(i, y, order[place:])
            self.w[i] += change
            self.total[i] += change * seen
            self.path[mistakes] = i, seen
            mistakes, at, begun = mistakes + 1, place + 1, seen + 1
        self.counts[SEEN] = first + order.size
        self.counts[SURVIVED] = self.counts[SEEN] - begun
        return mistakes

    def _row(self, i: int, y: Array, ahead: Array) -> Array:
        """A row of the Gram matrix; with one that is missing the next rows that look mistaken are fetched as well."""
        if i not in self.cache:
            wrong = ahead[(y[ahead] * self.f[ahead] <= self.rule.margin)][:64]
            missing = [i, *(int(j) for j in wrong if int(j) not in self.cache and j != i)]
            while self.cache and len(self.cache) + len(missing) > self.most:
                self.cache.pop(next(iter(self.cache)))
            block = self.held.block(missing).astype(np.float64) + float(self.rule.intercept)
            self.cache.update(zip(missing, block, strict=True))
        return self.cache[i]

    def scores(self, w: Array) -> Array:
        """f of all rows."""
        if w is self.w:
            return self.f
        used = np.flatnonzero(w)
        out = np.full(self.n, float(self.rule.intercept) * w.sum())
        for start in range(0, used.size, 512):
            part = used[start : start + 512]
            out += w[part] @ self.held.block(part)
        return out


@dataclass(eq=False)
class Run:
    """How training went: mistakes per pass, and what is known about the classes."""

    mistakes: list[int] = field(default_factory=list)
    converged: bool = False
    cycle: int = 0
    answer: Separation | Overlap | None = None
    best: Array | None = None
    best_errors: int = -1
    path: list[Array] = field(default_factory=list)


def run(
    table: Any,
    y: Array,
    orders: Callable[[], Array],
    passes: int,
    variant: str,
    prove: Callable[[Array], Separation | Overlap | None],
    *,
    fixed: bool,
    longest: float,
) -> Run:
    """Pass over the rows until there is no mistake, a cycle, the proof that no line separates them, or the last pass.

    `prove` takes signed margins and returns a certificate; `fixed` says that all orders are the same, so that weights
    that come back go round forever; `longest` is the size of a row. With the proof at hand only the variants that can
    gain from more passes go on.
    """
    done = Run()
    saved, saved_at = table.w.copy(), 0
    for number in range(1, passes + 1):
        table.forget_longest()
        made = table.sweep(y, orders())
        done.mistakes.append(made)
        if variant == "voted":
            done.path.append(table.path[:made].copy())
        if variant == "pocket":
            _into_pocket(done, table, y)
        if made == 0:
            done.converged = True
            return done
        if fixed and np.abs(table.w - saved).max() <= SAME * table.rule.step * longest:
            done.answer = done.answer or prove(y * table.scores(table.w))
            if not isinstance(done.answer, Separation):
                done.cycle = number - saved_at
                return done
        if number & (number - 1) == 0:  # Brent: the weights of the last pass that is a power of two
            saved, saved_at = table.w.copy(), number
        if number == ASK and done.answer is None:
            done.answer = prove(y * table.scores(table.w))
            if isinstance(done.answer, Overlap) and variant in ("last", "voted"):
                return done
    done.answer = done.answer or prove(y * table.scores(table.w))
    return done


def _into_pocket(done: Run, table: Any, y: Array) -> None:
    """Keep the weights with the fewest errors among those that survived longest in their pass."""
    for w in (table.kept, table.w):
        errors = int(np.count_nonzero(y * table.scores(w) <= 0))
        if done.best is None or errors < done.best_errors:
            done.best, done.best_errors = w.copy(), errors
