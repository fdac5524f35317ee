"""Permutation tests: how extreme is the statistic among all rearrangements that the null calls equally likely?

    groups     which rows are x and which are y           C(n1 + n2, n1) arrangements   (samples from one distribution)
    signs      which of each pair is x and which is y     2^n                           (differences symmetric about 0)
    pairings   which y belongs to which x                 n!                            (x and y independent)

With few arrangements all of them are gone through and p = #{as extreme} / #{all} is exact. Otherwise B random ones give
p = (b + 1) / (B + 1), which never rejects more often than its level (Phipson & Smyth 2010, SAGMB 9, 39), and a
Clopper-Pearson interval says how far it may lie from the exact one. What is as extreme on two sides is a convention:

    "doubled"     p = 2 min(P(T <= t), P(T >= t))     twice the smaller tail (the default, and scipy's)
    "deviation"   p = P(|T - c| >= |t - c|)           as far from the centre c of the null distribution (R's coin)

They agree where that distribution is symmetric about c, 0 for means, sign changes and correlations, otherwise the
distribution's own mean (that of the draws and the data). Groups of different sizes make it skewed, and then they
differ. Both hold their level; which one is meant must be chosen before the data are seen.
Values equal up to rounding count as equal. Means, medians and correlations run in kernels: a partial shuffle of the
smaller group, 64 signs to a random word. Cost: B min(n1, n2), B n and B n steps; memory O(n + B).
Good (2005), Permutation, Parametric and Bootstrap Tests of Hypotheses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, islice, permutations, product
from math import comb, factorial
from typing import Any

import numpy as np

from assay.checks import ALTERNATIVES, choice, describe, freeze, sample, whole
from assay.errors import DataError, ParameterError
from assay.inference._bootstrap import (
    CHUNK_CELLS,
    chunks,
    shuffle_products,
    sign_medians,
    sign_sums,
    split_medians,
    split_sums,
)
from assay.inference._statistics import Evaluate, caller
from assay.inference.bootstrap import check_switches
from assay.inference.intervals import proportion_interval
from assay.numbers import fmt
from assay.numerics.seeds import seed_sequence
from assay.numerics.threads import parallel
from assay.results import Interval, TestResult, format_p

__all__ = ["PermutationTest", "permutation_test"]

Array = np.ndarray
STATISTICS = ("mean", "median", "correlation")
KINDS = ("groups", "signs", "pairings")
CONVENTIONS = {"doubled": "twice the smaller tail", "deviation": "as far from the centre of the null distribution"}
EXACT = 100_000
"""A named statistic goes through this many arrangements rather than draw; that takes a fraction of a second."""
ROUNDING = 64 * np.finfo(float).eps
NULLS = {
    "groups": "under the null both samples come from one distribution",
    "signs": "under the null the differences are symmetric about 0",
    "pairings": "under the null x and y are independent",
}
ROWS = "the rows are independent of each other"


@dataclass(frozen=True, eq=False, repr=False)
class PermutationTest(TestResult):
    """A permutation test: a `TestResult` with the null distribution it was read off.

    | field             | meaning                                                                  |
    |-------------------|--------------------------------------------------------------------------|
    | exact             | whether every arrangement was gone through                               |
    | p_interval        | where the exact p-value lies (95% Clopper-Pearson); a point when `exact` |
    | two_sided         | the convention of `p_value`: "doubled" or "deviation"; "" if one-sided   |
    | p_values          | the two-sided p-value by each convention; empty if one-sided             |
    | null_distribution | the statistic of every arrangement gone through or drawn                 |
    | n_resamples       | how many they are                                                        |
    """

    exact: bool = False
    p_interval: Interval | None = None
    null_distribution: Array = field(default_factory=lambda: np.empty(0), repr=False)
    n_resamples: int = 0
    two_sided: str = ""
    p_values: Mapping[str, float] = field(default_factory=dict)

    def interval(self, level: float = 0.95) -> Interval:
        """A permutation test gives none; the bootstrap of the same statistic does."""
        raise AttributeError("a permutation test has no interval for its statistic; use assay.inference.bootstrap")

    def __str__(self) -> str:
        how = f"all {self.n_resamples} arrangements" if self.exact else f"{self.n_resamples} random arrangements"
        assert self.p_interval is not None  # every result that `permutation_test` makes has one
        sure = (
            "" if self.exact else f", 95% interval [{fmt(self.p_interval.lower, 3)}, {fmt(self.p_interval.upper, 3)}]"
        )
        text = super().__str__().splitlines()
        sides = [f"two-sided p-value, {CONVENTIONS[name]}: {format_p(p)}" for name, p in self.p_values.items()]
        return "\n".join([*text[:-2], f"p-value from {how}{sure}", *sides, *text[-2:]])


def permutation_test(
    x: Any,
    y: Any = None,
    *,
    statistic: Any = "mean",
    paired: bool = False,
    permute: str | None = None,
    alternative: str = "two-sided",
    two_sided: str = "doubled",
    n_resamples: int = 9999,
    vectorised: bool | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> PermutationTest:
    """Test by rearranging the data as the null hypothesis allows.

    | parameter    | default     | range                          | meaning                                            |
    |--------------|-------------|--------------------------------|----------------------------------------------------|
    | x, y         | y=None      | samples; x alone: differences  | two samples, pairs, or one sample against 0        |
    | statistic    | "mean"      | "mean", "median",              | difference of means or medians (of pairs: mean or  |
    |              |             | "correlation", a function      | median difference), correlation, or f(x, y)        |
    | paired       | False       | bool                           | row i of x belongs to row i of y                   |
    | permute      | None        | "groups", "signs", "pairings"  | what is rearranged; None: signs of pairs, pairings |
    |              |             | or None                        | for a correlation, groups otherwise                |
    | alternative  | "two-sided" | "two-sided", "less", "greater" | which tail of the statistic counts                 |
    | two_sided    | "doubled"   | "doubled", "deviation"         | two tails: twice the smaller one, or all that is   |
    |              |             |                                | as far from the centre; `p_values` has both        |
    | n_resamples  | 9999        | whole, at least 1              | B; up to so many arrangements (100,000 for a named |
    |              |             |                                | statistic) all are gone through                    |
    | vectorised   | None        | bool or None                   | it takes `axis=-1`; None: has it `axis`?           |
    | random_state | None        | seed, Generator or None        | makes the draws repeatable                         |
    | n_jobs       | None        | whole or None                  | threads; never changes the result                  |

    Phipson & Smyth (2010), Statistical Applications in Genetics and Molecular Biology 9, 39.

    >>> result = permutation_test([5.1, 4.9, 6.2, 5.7], [4.1, 4.4, 5.0, 3.9, 4.6])
    >>> result.exact, result.n_resamples, round(result.p_value * 126)
    (True, 126, 4)
    >>> {name: round(p * 126) for name, p in result.p_values.items()}
    {'doubled': 4, 'deviation': 3}
    """
    alternative = choice(alternative, "alternative", ALTERNATIVES)
    choice(two_sided, "two_sided", tuple(CONVENTIONS))
    n_resamples = whole(n_resamples, "n_resamples")
    check_switches(paired, vectorised, n_jobs)
    seeds = seed_sequence(random_state)
    task = _task(x, y, statistic, paired, permute, vectorised)
    exact = task.arrangements <= max(n_resamples, EXACT if task.named else 0)
    with np.errstate(over="ignore") if task.named else nullcontext():
        if exact:
            null = np.concatenate([task.evaluate(block) for block in _blocks(task)])
        else:
            null = task.draw(seeds, n_resamples, n_jobs)
    if not np.isfinite([null.min(), null.max(), task.estimate]).all():
        if task.named:
            raise _overflow(task.estimand)
        what = f"the {task.estimand} is not defined on every arrangement of the rows"
        raise DataError(what, remedy="pass a statistic that is finite on all of them")
    ways = tuple(CONVENTIONS) if alternative == "two-sided" else (alternative,)
    found = {way: _p_value(null, task, way, exact) for way in ways}
    p_value, limits = found[two_sided if alternative == "two-sided" else alternative]
    return PermutationTest(
        statistic=task.estimate,
        p_value=p_value,
        df=None,
        method=task.title,
        estimate=task.estimate,
        n=task.n,
        alternative=alternative,
        null=0.0,
        estimand=task.estimand,
        assumptions=(ROWS, NULLS[task.kind]),
        exact=exact,
        p_interval=limits,
        null_distribution=freeze(null),
        n_resamples=int(null.size),
        two_sided=two_sided if alternative == "two-sided" else "",
        p_values={way: p for way, (p, _) in found.items()} if alternative == "two-sided" else {},
    )


def _p_value(null: Array, task: _Task, way: str, exact: bool) -> tuple[float, Interval]:
    """The share of arrangements as extreme as the one seen, one-sided or by a convention, with its interval."""
    size = _power(
        max(float(np.abs(null).max()), abs(task.estimate))
    )  # sums and distances of the largest numbers are finite
    null, seen, slack, total = null / size, task.estimate / size, task.rounding / size, null.size
    if way == "deviation":
        # The data are one of the arrangements: without them the centre of the draws would not treat all alike.
        centre = 0.0 if task.centred else float(np.mean(null) if exact else (null.sum() + seen) / (total + 1))
        slack += ROUNDING * abs(centre)
        hits = int(np.sum(np.abs(null - centre) >= abs(seen - centre) - slack))
    else:
        above, below = int(np.sum(null >= seen - slack)), int(np.sum(null <= seen + slack))
        hits = {"greater": above, "less": below, "doubled": min(above, below)}[way]
    factor = 2.0 if way == "doubled" else 1.0
    if exact:
        p = min(1.0, factor * hits / total)
        return p, Interval(p, p, p, 0.95, "exact", total, "p-value")
    share = proportion_interval(hits, total, method="exact")
    p = min(1.0, factor * (hits + 1) / (total + 1))
    lower, upper = (min(1.0, factor * float(end)) for end in (share.lower, share.upper))
    return p, Interval(p, lower, upper, 0.95, "Clopper-Pearson", total, "exact p-value")


@dataclass(frozen=True)
class _Task:
    """A statistic, what is rearranged, and the two ways through the arrangements."""

    kind: str
    title: str
    estimand: str
    estimate: float
    arrangements: int
    n: Any
    rows: int
    chosen: int
    rounding: float
    named: bool
    centred: bool
    evaluate: Callable[[Array], Array]
    draw: Callable[[np.random.SeedSequence, int, int | None], Array]


def _task(x: Any, y: Any, statistic: Any, paired: bool, permute: Any, vectorised: bool | None) -> _Task:
    named = isinstance(statistic, str)
    if named:
        choice(statistic, "statistic", STATISTICS)
    elif not callable(statistic):
        raise ParameterError(f"unknown statistic = {statistic!r}", remedy=f"choose one of {STATISTICS} or a function")
    first = _column(x, "x")
    second = None if y is None else _column(y, "y")
    kind = _kind(statistic, second, paired, permute)
    if second is not None and kind != "groups" and first.size != second.size:
        what = f"x has {first.size} rows and y has {second.size}, but they belong together in pairs"
        raise DataError(what, remedy="pass samples of one length")
    if not named:
        return _any(caller(statistic, vectorised, "statistic"), first, second, kind)
    if kind == "groups":
        assert second is not None
        with np.errstate(over="ignore"):
            return _groups(first, second, statistic)
    if kind == "signs":
        with np.errstate(over="ignore"):
            return _signs(first if second is None else first - second, statistic)
    assert second is not None
    return _pairings(first, second)


def _kind(statistic: Any, y: Array | None, paired: bool, permute: Any) -> str:
    natural = "signs" if paired or y is None else "groups"
    natural = "pairings" if statistic == "correlation" else natural
    kind = natural if permute is None else choice(permute, "permute", KINDS)
    if isinstance(statistic, str) and kind != natural:
        what = f"permute = {kind!r} does not apply to the {statistic}"
        raise ParameterError(what, remedy=f"use permute={natural!r}, or pass a function")
    if y is None and kind != "signs":
        raise ParameterError(f"rearranging {kind} needs two samples, but y is missing", remedy="pass y")
    return kind


def _overflow(name: str) -> DataError:
    return DataError(f"the {name} overflows floating point", remedy="rescale the data, for instance divide by 1e10")


def _column(values: Any, name: str) -> Array:
    array, names = sample(values, name)
    if len(names) > 1:
        raise DataError(f"{name} has {len(names)} columns", remedy="pass one column")
    return np.ascontiguousarray(array[:, 0])


def _standard(values: Array) -> tuple[Array, float, float]:
    """Values centred and scaled by a power of two, the centre and the scale."""
    mean, spread = describe(values[:, None])
    scale = _power(float(spread[0]))
    return values / scale - mean[0] / scale, float(mean[0]), scale


def _power(size: float) -> float:
    """The power of two up to a size, which is finite for any size; 1 for 0."""
    return float(np.ldexp(1.0, int(np.frexp(size)[1]) - 1)) if size > 0 else 1.0


def _groups(x: Array, y: Array, statistic: str) -> _Task:
    n1, n = x.size, x.size + y.size
    z, _, scale = _standard(np.concatenate([x, y]))
    k = min(n1, n - n1)
    sign = 1.0 if k == n1 else -1.0
    total = float(z.sum())
    if statistic == "mean":

        def finish(sums: Array) -> Array:
            return sign * scale * (sums / k - (total - sums) / (n - k))

        evaluate = partial(_group_means, z, finish)
        draw = partial(_run, lambda state, out: split_sums(state, z.copy(), k, out), finish, k)
    else:
        order = np.argsort(z, kind="stable")
        ordered = z[order]
        rank = np.argsort(order).astype(np.int64)
        evaluate = partial(_group_medians, z, sign * scale)
        draw = partial(
            _run, lambda state, out: split_medians(state, ordered, rank.copy(), k, out), lambda m: sign * scale * m, n
        )
    own = np.arange(k) if k == n1 else np.arange(n1, n)
    slack = ROUNDING * scale * float(np.abs(z).sum()) / k
    title = f"Permutation test of two {statistic}s"
    words = f"difference of {statistic}s"
    seen = float(evaluate(own[None, :])[0])
    return _Task(
        "groups", title, words, seen, comb(n, k), (n1, n - n1), n, k, slack, True, statistic == "mean", evaluate, draw
    )


def _group_means(z: Array, finish: Callable[[Array], Array], block: Array) -> Array:
    return finish(z[block].sum(axis=1))


def _group_medians(z: Array, scale: float, block: Array) -> Array:
    rest = np.ones((len(block), z.size), dtype=bool)
    np.put_along_axis(rest, block, False, axis=1)
    others = np.broadcast_to(z, rest.shape)[rest].reshape(len(block), -1)
    return scale * (np.median(z[block], axis=1) - np.median(others, axis=1))


def _signs(d: Array, statistic: str) -> _Task:
    top = float(np.abs(d).max())
    if not np.isfinite(top):
        raise _overflow(f"{statistic} difference")
    scale = _power(top)
    z = d / scale
    if statistic == "mean":
        evaluate = partial(_sign_means, z, scale)
        draw = partial(_run, lambda state, out: sign_sums(state, z, out), lambda s: scale * (s / z.size), z.size)
    else:
        size = np.sort(np.abs(z))
        evaluate = partial(_sign_medians, z, scale)
        draw = partial(_run, lambda state, out: sign_medians(state, size, out), lambda m: scale * m, z.size)
    seen = float(evaluate(np.ones((1, z.size)))[0])
    slack = ROUNDING * scale * float(np.abs(z).mean())
    title = f"Permutation test of a {statistic} difference (signs)"
    words = f"{statistic} difference"
    return _Task("signs", title, words, seen, 2**z.size, z.size, z.size, 0, slack, True, True, evaluate, draw)


def _sign_means(z: Array, scale: float, block: Array) -> Array:
    return scale * (block @ z / z.size)


def _sign_medians(z: Array, scale: float, block: Array) -> Array:
    return scale * np.median(block * z, axis=1)


def _pairings(x: Array, y: Array) -> _Task:
    columns = []
    for values, name in ((x, "x"), (y, "y")):
        z, _, _ = _standard(values)
        norm = float(np.sqrt(z @ z))
        if norm == 0:
            raise DataError(f"{name} is constant, so the correlation is not defined", remedy="pass columns that vary")
        columns.append(z / norm)
    u, v = columns
    draw = partial(_run, lambda state, out: shuffle_products(state, u, v.copy(), out), lambda r: r, u.size)
    evaluate = partial(_pair_products, u, v)
    seen = float(np.clip(evaluate(np.arange(u.size)[None, :])[0], -1.0, 1.0))
    slack = ROUNDING * float(np.abs(u) @ np.abs(v) + 1)
    title = "Permutation test of a correlation"
    count = factorial(u.size) if u.size < 30 else 1 << 200
    return _Task("pairings", title, "correlation", seen, count, u.size, u.size, 0, slack, True, True, evaluate, draw)


def _pair_products(u: Array, v: Array, block: Array) -> Array:
    return v[block] @ u


def _run(
    fill: Callable[[Array, Array], None],
    finish: Callable[[Array], Array],
    cost: int,
    seeds: np.random.SeedSequence,
    n_resamples: int,
    n_jobs: int | None,
) -> Array:
    """Random arrangements of a named statistic, chunk by chunk in its kernel."""

    def run(chunk: tuple[int, int, Array]) -> Array:
        start, stop, state = chunk
        out = np.empty(stop - start)
        fill(state, out)
        return out

    parts = parallel(run, chunks(seeds, n_resamples, cost), n_jobs=n_jobs, work=float(cost) * n_resamples)
    return finish(np.concatenate(parts))


def _any(evaluate: Evaluate, x: Array, y: Array | None, kind: str) -> _Task:
    """Any function of the two rearranged samples (of one sample, if y is missing)."""
    n1 = x.size
    if kind == "groups":
        assert y is not None
        pool = np.concatenate([x, y])
        rows, count = pool.size, comb(pool.size, n1)
        at: Callable[[Array], Array] = partial(_called_groups, evaluate, pool)
    elif kind == "signs":
        rows, count = n1, 2**n1
        at = partial(_called_signs, evaluate, x, y)
    else:
        assert y is not None
        rows, count = n1, factorial(n1) if n1 < 30 else 1 << 200
        at = partial(_called_pairings, evaluate, x, y)
    own: Array = np.ones(n1) if kind == "signs" else np.arange(n1)
    n = (n1, rows - n1) if kind == "groups" else n1
    seen = float(at(own[None, :])[0])
    if not np.isfinite(seen):
        raise DataError(f"the statistic of the data is {seen}", remedy="check the statistic and the data")
    draw = partial(_run_any, at, kind, rows, n1)
    slack = ROUNDING * abs(seen)
    title = f"Permutation test of a statistic ({kind})"
    return _Task(kind, title, "statistic", seen, count, n, rows, n1, slack, False, False, at, draw)


def _called_groups(evaluate: Evaluate, pool: Array, block: Array) -> Array:
    rest = np.ones((len(block), pool.size), dtype=bool)
    np.put_along_axis(rest, block, False, axis=1)
    others = np.broadcast_to(pool, rest.shape)[rest].reshape(len(block), -1)
    return evaluate([pool[block], others])


def _called_signs(evaluate: Evaluate, x: Array, y: Array | None, block: Array) -> Array:
    if y is None:
        return evaluate([block * x])
    kept = block > 0
    return evaluate([np.where(kept, x, y), np.where(kept, y, x)])


def _called_pairings(evaluate: Evaluate, x: Array, y: Array, block: Array) -> Array:
    return evaluate([np.array(np.broadcast_to(x, block.shape)), y[block]])


def _run_any(
    at: Callable[[Array], Array],
    kind: str,
    rows: int,
    chosen: int,
    seeds: np.random.SeedSequence,
    n_resamples: int,
    n_jobs: int | None,
) -> Array:
    def run(chunk: tuple[int, int, Array]) -> Array:
        start, stop, state = chunk
        rng = np.random.default_rng(state)
        if kind == "signs":
            return at(1.0 - 2.0 * rng.integers(0, 2, (stop - start, rows)))
        shuffled = rng.permuted(np.broadcast_to(np.arange(rows), (stop - start, rows)), axis=1)
        return at(shuffled[:, :chosen])

    return np.concatenate(parallel(run, chunks(seeds, n_resamples, rows), n_jobs=n_jobs))


def _blocks(task: _Task) -> Iterator[Array]:
    """Every arrangement, in blocks of bounded size."""
    size = max(1, CHUNK_CELLS // max(1, task.rows))
    every: Iterator[Any]
    if task.kind == "groups":
        every = combinations(range(task.rows), task.chosen)
    elif task.kind == "signs":
        every = product((1.0, -1.0), repeat=task.rows)
    else:
        every = permutations(range(task.rows))
    while block := list(islice(every, size)):
        yield np.array(block)
