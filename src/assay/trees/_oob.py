"""Which rows a tree was grown on, and what the trees say about the rows they have never seen.

A bootstrap sample of n rows leaves each row out with probability (1 - 1/n)^n, about .368. Row i is judged by the trees
for which it was left out (out of bag),

    f_oob(x_i) = mean of f_t(x_i) over the trees t that did not see row i,       error = mean of L(y_i, f_oob(x_i)),

an estimate of the error on new rows that costs no rows. After t trees it uses the first t of them: one pass gives the
whole curve of the error against the number of trees. More trees lower the variance of the ensemble, never raise it; the
curve falls and then stays. The interval treats the rows' losses as independent; the trees share rows, so they are so
only nearly. A bootstrap draws rows with probability proportional to their weights, so that weights equal repetition in
distribution: whole-number weights mean as many draws as their sum (up to ten times the rows), others as many as rows.
Without replacement rows of positive weight are equally likely, and their weights are kept.

Cost: one walk down each tree for the rows it did not see, and O(n) per tree for the curve.
Breiman (1996), Out-of-bag estimation, technical report, Berkeley; Breiman (2001), Machine Learning 45, 5-32.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import special

from assay.base import Constraint, integer, none, one_of, real
from assay.checks import freeze
from assay.errors import AssayWarning, ParameterError
from assay.metrics.limits import effective, loss_limits, share_limits
from assay.numerics.jit import kernel
from assay.numerics.scale import power_of_two
from assay.numerics.seeds import seed_sequence
from assay.results import Curve, Interval
from assay.state import Specs, Stateful, facts, floats, ints, need, part
from assay.trees._predict import _any, _number, _routes, child_of
from assay.trees._sparse import SparseTable, dense_blocks
from assay.trees.nodes import Nodes

__all__ = [
    "OOB_SCORE",
    "SAMPLES",
    "DrawsRows",
    "OutOfBag",
    "Sampler",
    "child_of",
    "entropy_of",
    "leaves_of",
    "sampler",
    "tree_seeds",
    "unit_of",
]

Array = np.ndarray
LEVEL = 0.95
MOST = 10
"""Whole-number weights count as repetitions up to so many per row on average."""
SHARED = "the trees share rows, so the losses are only approximately independent"

OOB_SCORE: Constraint = one_of("auto", True, False)
"""Range of `oob_score`: "auto" (wherever rows are left out), True (an error where none are) or False."""
SAMPLES: Constraint = none | integer(1) | real(0, 1, open_low=True)
"""Range of `max_samples`: None for as many as there are rows, a number of rows, or a share of them."""


@dataclass(frozen=True, eq=False)
class Sampler(Stateful):
    """How each tree's rows are drawn.

    | field     | meaning                                                                |
    |-----------|------------------------------------------------------------------------|
    | n         | rows of the table                                                      |
    | pool      | rows with positive weight; None where all have                         |
    | size      | how many rows are drawn                                                |
    | bootstrap | with replacement; otherwise without, and all of them if `size` says so |
    | below     | running sums of the weights by which the pool is drawn; None: alike     |
    """

    n: int
    pool: Array | None
    size: int
    bootstrap: bool
    below: Array | None = None

    state: ClassVar[Specs] = {
        "n": integer(1),
        "size": integer(1),
        "pool": ints("pool") | none,
        "below": floats("pool", low=0, rising=True) | none,
    }

    def _check_state(self) -> None:
        need(self.pool is None or (self.pool.size > 0 and (self.pool < self.n).all()))
        need(self.below is None or self.pool is None or self.below.size == self.pool.size)
        need(self.bootstrap or self.size <= self.available)

    @property
    def available(self) -> int:
        """How many rows can be drawn."""
        return self.n if self.pool is None else int(self.pool.size)

    @property
    def leaves_out(self) -> bool:
        """Whether a sample can leave a row out."""
        return self.bootstrap or self.size < self.available

    def counts(self, seed: int) -> Array | None:
        """How often each row is drawn; None: every row once."""
        if not self.leaves_out:
            if self.pool is None:
                return None
            drawn = self.pool
        else:
            rng, most = np.random.default_rng(seed), self.available
            if self.below is not None:
                found = np.searchsorted(self.below, rng.random(self.size) * self.below[-1], side="right")
                drawn = np.minimum(found, most - 1)  # the last product may round up
            elif self.bootstrap:
                drawn = rng.integers(0, most, self.size)
            else:
                drawn = rng.choice(most, self.size, replace=False)
            drawn = drawn if self.pool is None else self.pool[drawn]
        return np.bincount(drawn, minlength=self.n)

    def weights(self, counts: Array | None, w: Array | None) -> Array | None:
        """What drawn rows weigh: how often they were drawn, times their weights unless the draw has used these up."""
        if counts is None:
            return w
        return counts.astype(np.float64) if w is None or self.below is not None else w * counts

    def left_out(self, seed: int) -> Array:
        """The rows that were not drawn, ascending."""
        counts = self.counts(seed)
        return np.empty(0, dtype=np.int64) if counts is None else np.flatnonzero(counts == 0)


def sampler(n: int, w: Array | None, *, bootstrap: bool, max_samples: Any, oob_score: Any) -> Sampler:
    """What `bootstrap` and `max_samples` mean for a table of n rows with weights w."""
    pool = None if w is None or w.all() else np.flatnonzero(w)
    available = n if pool is None else int(pool.size)
    below = None
    if w is not None and bootstrap:
        kept = w if pool is None else w[pool]
        below = np.cumsum(kept / kept.max()) if kept.min() < kept.max() else None
    if max_samples is None or isinstance(max_samples, float | np.floating):
        many = _repetitions(w, available) if bootstrap else available
        size = many if max_samples is None else max(1, round(float(max_samples) * many))
    else:
        size = int(max_samples)
        if size > available and not bootstrap:
            what = f"max_samples = {size} rows cannot be drawn without replacement from {available}"
            raise ParameterError(what, remedy=f"use at most {available}, or bootstrap=True")
    made = Sampler(n, pool, size, bool(bootstrap), below)
    if oob_score is True and not made.leaves_out:
        what = "oob_score=True, but every tree is fitted to every row: out-of-bag estimates need rows left out"
        raise ParameterError(what, remedy="use bootstrap=True, or max_samples below the number of rows")
    return made


def _repetitions(w: Array | None, rows: int) -> int:
    """How many rows the weights stand for: their sum if they are whole numbers, else as many as there are."""
    if w is None or (w != np.rint(w)).any() or w.sum() > MOST * rows:
        return rows
    return int(w.sum())


def tree_seeds(entropy: Any, trees: int) -> Array:
    """One seed per tree; the first ones stay the same when there are more trees."""
    root = np.random.SeedSequence(entropy)
    return np.array([child.generate_state(1)[0] for child in root.spawn(trees)], dtype=np.int64)


def entropy_of(random_state: Any) -> Any:
    """Where the seeds of all trees come from, kept so that trees can be added later."""
    return seed_sequence(random_state).entropy


def unit_of(target: Array, classes: int) -> float:
    """A power of two in which squared losses stay in range."""
    if classes:
        return 1.0
    top = float(np.abs(target).max(initial=0.0))
    return 1.0 if 1e-100 < top < 1e100 or top == 0 else float(power_of_two(np.array([top]))[0])


DRAWN: Specs = {
    "seeds_": ints("trees"),
    "_sampler": part(Sampler),
    **facts("oob_votes_", "oob_prediction_", "oob_decision_function_", "oob_error_", "oob_score_", "oob_curve_"),
}
"""The state of an ensemble whose trees draw their rows."""


@dataclass(frozen=True, eq=False)
class OutOfBagFigures:
    """What rows out of bag say about an ensemble: predictions (NaN for rows that every member saw), error and score."""

    votes: Array
    answers: Array
    error: Interval
    score: float
    curve: Curve
    what: str

    def warn_of_rows_seen_by_all(self, stacklevel: int) -> None:
        """Say how many rows have no out-of-bag prediction."""
        never = int(np.count_nonzero(self.votes == 0))
        if never:
            rows = f"{never} of {self.votes.size} rows were drawn for every {self.what}"
            text = f"{rows}, so they have no out-of-bag prediction and are left out of the error; raise n_estimators"
            warnings.warn(text, AssayWarning, stacklevel=stacklevel)


class DrawsRows:
    """Mixin of ensembles whose members draw their rows: out-of-bag attributes are set and dropped together."""

    bootstrap: bool
    max_samples: Any
    oob_score: Any

    def _row_sampler(self, n: int, w: Array | None) -> Sampler:
        return sampler(n, w, bootstrap=self.bootstrap, max_samples=self.max_samples, oob_score=self.oob_score)

    def _forget_out_of_bag(self) -> None:
        """Drop the figures of an earlier fit."""
        for name in [name for name in vars(self) if name.startswith("oob_") and name.endswith("_")]:
            delattr(self, name)

    def _set_out_of_bag(self, found: OutOfBagFigures) -> None:
        """Predictions, error with its interval, curve, and scikit-learn's score."""
        self.oob_votes_ = found.votes
        if found.answers.ndim == 2:
            self.oob_decision_function_ = found.answers
        else:
            self.oob_prediction_ = found.answers
        self.oob_error_, self.oob_score_, self.oob_curve_ = found.error, found.score, found.curve
        if self.oob_score is True:
            found.warn_of_rows_seen_by_all(stacklevel=4)


class OutOfBag:
    """Gathers the trees' answers about rows they did not see, tree by tree in their order.

    `target` is the number, or the place of the class, of each row (float64), `w` its weight, `classes` their number (0:
    regression). `unit` is a power of two in which numbers are counted so that squares stay in range.
    """

    def __init__(self, target: Array, w: Array | None, classes: int, unit: float = 1.0) -> None:
        n = target.size
        self.target, self.w, self.classes, self.unit = target, w, classes, unit
        self.sums = np.zeros((n, max(1, classes)))
        self.votes = np.zeros(n, dtype=np.int64)
        self.loss = np.zeros(n)
        self._weights = np.ones(n) if w is None else w / w.max()
        self._moments: list[Array] = []

    def add(self, rows: Array, answers: Array) -> None:
        """One tree's answers (rows x K) for the rows it did not see."""
        moments = np.zeros(6)
        _absorb(rows, answers, self.target, self._weights, self.classes, self.unit, self.sums, self.votes, self.loss)
        _moments(self._weights, self.votes, self.loss, moments)
        self._moments.append(moments)

    def figures(self, what: str) -> OutOfBagFigures:
        """All that these answers say about the ensemble; `what` is the word for one of its members."""
        answers = np.full(self.sums.shape, np.nan)
        np.divide(self.sums, self.votes[:, None], out=answers, where=(self.votes > 0)[:, None])
        error = self.error(what)
        found = freeze(answers if self.classes else answers[:, 0])
        return OutOfBagFigures(freeze(self.votes), found, error, self._score(error), self.curve(what), what)

    def error(self, what: str) -> Interval:
        """The error of the whole ensemble with its interval."""
        counted = (self.votes > 0) & (self._weights > 0)
        rows, all_rows = int(np.count_nonzero(counted)), int(np.count_nonzero(self._weights > 0))
        figure = "error rate" if self.classes else "mean squared error"
        never = "" if rows == all_rows else f"{all_rows - rows} of {all_rows} rows were drawn for every {what}; "
        estimand = f"{figure} on new rows, out of bag ({never}{SHARED})"
        loss, w = self.loss[counted], None if self.w is None else self._weights[counted]
        if rows < 2:
            mean = float(loss[0]) * self.unit**2 if rows else np.nan
            return Interval(mean, 0.0, 1.0 if self.classes else np.inf, LEVEL, "no", rows, estimand)
        if self.classes:
            share = float(np.average(loss, weights=w))
            return share_limits(share, effective(w, rows), level=LEVEL, method="wilson", rows=rows, estimand=estimand)
        made = loss_limits(loss, w, level=LEVEL, estimand=estimand, bounds=(0.0, np.inf))
        square = self.unit**2
        return replace(made, estimate=made.estimate * square, lower=made.lower * square, upper=made.upper * square)

    def _score(self, error: Interval) -> float:
        """scikit-learn's figure: R2 (the share of the squares about the mean that is explained) or accuracy."""
        if self.classes:
            return 1.0 - float(error.estimate)
        counted = self.votes > 0
        w = self._weights[counted]
        if not w.any():
            return float("nan")
        y = self.target[counted] / self.unit
        mean = np.average(y, weights=w)
        total = np.average((y - mean) ** 2, weights=w)
        wrong = np.average(self.loss[counted], weights=w)
        return float(1.0 - wrong / total) if total > 0 else float(wrong == 0)

    def curve(self, what: str) -> Curve:
        """The error against the number of trees, with the pointwise band of the same interval."""
        rows, total, squares, first, mixed, second = np.array(self._moments).T
        x, seen = np.arange(1, rows.size + 1), total > 0
        mean = np.full(rows.size, np.nan)
        np.divide(first, total, out=mean, where=seen)
        if self.classes:
            lower, upper = np.zeros(rows.size), np.ones(rows.size)
            trials = np.square(total[seen]) / squares[seen]
            names = tuple(str(k) for k in x[seen])
            if names:
                band = share_limits(mean[seen], trials, level=LEVEL, method="wilson", rows=0, estimand="", names=names)
                lower[seen], upper[seen] = band.lower, band.upper
        else:
            many = rows > 1
            spread, lower, upper = np.full(rows.size, np.inf), np.zeros(rows.size), np.full(rows.size, np.inf)
            variance = np.maximum(0.0, second[many] - 2 * mean[many] * mixed[many] + mean[many] ** 2 * squares[many])
            n = rows[many]
            spread[many] = np.sqrt(variance * n / (n - 1)) / total[many] * special.stdtrit(n - 1, (1 + LEVEL) / 2)
            lower, upper = np.maximum(0.0, mean - spread), mean + spread
            mean, lower, upper = (part * self.unit**2 for part in (mean, lower, upper))
        name = "error rate" if self.classes else "mean squared error"
        return Curve(
            x.astype(np.float64),
            freeze(mean),
            x_name=f"{what}s",
            y_name=f"out-of-bag {name}",
            lower=freeze(lower),
            upper=freeze(upper),
            level=LEVEL,
            title=f"Out-of-bag error of {x.size} {what}s",
        )


@kernel
def _absorb(
    rows: Array,
    answers: Array,
    target: Array,
    w: Array,
    classes: int,
    unit: float,
    sums: Array,
    votes: Array,
    loss: Array,
) -> None:
    K = sums.shape[1]
    for r in range(rows.size):
        i = rows[r]
        votes[i] += 1
        best = 0
        for k in range(K):
            sums[i, k] += answers[r, k]
            if sums[i, k] > sums[i, best]:
                best = k
        if classes:
            loss[i] = 0.0 if best == target[i] else 1.0
        else:
            gap = (sums[i, 0] / votes[i] - target[i]) / unit
            loss[i] = gap * gap


@kernel
def _moments(w: Array, votes: Array, loss: Array, out: Array) -> None:
    """Rows, sum w, sum w^2, sum w l, sum w^2 l, sum w^2 l^2 over the rows that have an answer."""
    rows = total = squares = first = mixed = second = 0.0
    for i in range(w.size):
        if votes[i] > 0 and w[i] > 0:
            a = w[i]
            rows += 1.0
            total += a
            squares += a * a
            first += a * loss[i]
            mixed += a * a * loss[i]
            second += a * a * loss[i] * loss[i]
    # Stored at the end: a loop that also stores may add in one order or another, by where the arrays lie.
    out[0], out[1], out[2], out[3], out[4], out[5] = rows, total, squares, first, mixed, second


def leaves_of(nodes: Nodes, tree: int, X: Array | SparseTable, rows: Array) -> Array:
    """The leaf (absolute index) of one tree that each of some rows reaches."""
    alone = nodes.tree(tree)
    steps, numbers, depths = _routes(alone)
    out = np.empty(rows.size, dtype=np.int64)
    route = (X.shape[1], int(depths[0]), steps, numbers, nodes.words)
    if isinstance(X, SparseTable):
        for at, block in dense_blocks(X[rows], 0, rows.size):
            _walk(block.reshape(-1), np.arange(len(block)), *route, out[at : at + len(block)])
    else:
        _walk(X.reshape(-1), rows, *route, out)
    out += nodes.starts[tree]
    return out


@kernel
def _walk(X: Array, rows: Array, p: int, depth: int, steps: Array, numbers: Array, words: Array, out: Array) -> None:
    """Leaves of some rows, eight side by side where the tree tests numbers only (depth is -1 otherwise)."""
    n = rows.size
    done = 0
    root: Any = np.int64(0)  # a literal would be another type, for which `_any` would be compiled anew
    if depth >= 0:
        at, base = np.empty(8, dtype=np.int64), np.empty(8, dtype=np.int64)
        while done + 8 <= n:
            for k in range(8):
                at[k] = 0
                base[k] = rows[done + k] * p
            for _ in range(depth):
                moved = 0
                for k in range(8):
                    child = _number(steps, numbers, X, base[k], at[k])
                    moved += child - at[k]
                    at[k] = child
                # Children stand after their parents, so the sum grows until all have arrived.
                if moved == 0:
                    break
            for k in range(8):
                out[done + k] = at[k]
            done += 8
    for r in range(done, n):
        out[r] = _any(steps, numbers, words, X, rows[r] * p, root)
