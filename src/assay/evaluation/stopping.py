"""Learners that cannot win any more: decided after the first folds, from paired row losses, without a clock.

With l_ij the loss of learner j on row i of the first folds, b the learner with the least mean, and d_i = l_ij - l_ib,

    stop j  where  mean(d) > t_(m - 1, 1 - ALPHA) s(d) / sqrt(m)      no chance of the rows (or groups, by their sums)
                   mean(d_k) > FOLDS s(d_k) / sqrt(FIRST)             nor of the folds, whose means are d_k
                   mean(d) > MARGIN mean(l_b)                         and large enough to matter
                   every d_k > 0, also without its largest row        no single fold and no single row makes it

When the others have finished it is decided again, with their winner in the place of b: a stopped learner goes on if it
is not behind that winner in the same way, or if its mean over the first folds is below the winner's over all of them.
So a leader that only began well takes no other with it. The same rows give the same decisions in whatever order, and
however often interrupted, the folds are computed. How often the learner that would have won is stopped is simulated
(`python -m simulations stopping`): at most 1%.

Cost: O(learners x rows).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from assay.errors import DataError

__all__ = ["ALPHA", "FIRST", "FOLDS", "LEAST", "MARGIN", "Behind", "settle"]

Array = np.ndarray
FIRST = 3
"""Folds after which it is decided."""
ALPHA = 0.001
"""One-sided level of the paired test."""
FOLDS = 3.0
"""How many standard errors of the folds' means the gap must have."""
MARGIN = 0.05
"""A learner whose mean loss is at most this share above the least is never stopped."""
LEAST = 20
"""Units (rows or groups) below which no learner is stopped."""


@dataclass(frozen=True)
class Behind:
    """A learner that cannot win: `loss` is its mean over the first folds, `least` that of the `leader` there."""

    leader: str
    loss: float
    least: float


def settle(
    losses: Mapping[str, Sequence[Array]],
    total: int,
    groups: Sequence[Array] | None = None,
    spared: Sequence[str] = (),
) -> tuple[dict[str, Behind], list[str]]:
    """The learners that are stopped, and those that must run on before more can be said; the second is empty at last.

    | parameter | default | range                        | meaning                                                   |
    |-----------|---------|------------------------------|-----------------------------------------------------------|
    | losses    |         | learner -> an array per fold | row losses (smaller is better) of the folds that are done |
    | total     |         | from FIRST on                | folds of a learner that runs to the end                   |
    | groups    | None    | an array per fold            | rows that belong together                                 |
    | spared    | ()      | learners                     | never stopped                                             |

    >>> rng = np.random.default_rng(0)
    >>> folds = [rng.normal(size=40) ** 2 for _ in range(5)]
    >>> begun = {"good": folds[:3], "poor": [fold + 1 for fold in folds[:3]], "close": [1.01 * x for x in folds[:3]]}
    >>> stopped, needed = settle(begun, 5)
    >>> list(stopped), needed
    (['poor'], ['good', 'close'])
    >>> settle(begun | {"good": folds, "close": [1.01 * x for x in folds]}, 5)[1]
    []
    """
    _refuse_other_rows(losses)
    first = {name: list(parts[:FIRST]) for name, parts in losses.items()}
    groups = None if groups is None else list(groups[:FIRST])
    leader = _least(first)
    behind = {name: _behind(first, name, leader, groups) for name in losses if name not in spared}
    stopped = {name: one for name, one in behind.items() if one is not None}
    while True:
        needed = [name for name in losses if name not in stopped and len(losses[name]) < total]
        if needed:
            return stopped, needed
        winner = _least({name: parts for name, parts in losses.items() if name not in stopped})
        whole = _mean(losses[winner])
        again = {name: _behind(first, name, winner, groups) for name in stopped}
        left = {name: one for name, one in again.items() if one is not None and one.loss > whole}
        if len(left) == len(stopped):
            return left, []
        stopped = left


def _refuse_other_rows(losses: Mapping[str, Sequence[Array]]) -> None:
    if len(losses) == 0:
        raise DataError("there are no losses", remedy="pass those of at least one learner")
    sizes = {tuple(len(part) for part in parts[:FIRST]) for parts in losses.values()}
    if len(sizes) > 1 or len(next(iter(sizes))) < FIRST:
        message = f"the learners do not have the same first {FIRST} folds"
        raise DataError(message, remedy="pass losses of the same rows for every learner")


def _mean(parts: Sequence[Array]) -> float:
    return float(np.concatenate(list(parts)).mean())


def _least(losses: Mapping[str, Sequence[Array]]) -> str:
    return min(losses, key=lambda name: _mean(losses[name]))


def _behind(
    first: Mapping[str, Sequence[Array]], name: str, leader: str, groups: Sequence[Array] | None
) -> Behind | None:
    """How far a learner is behind the leader in the first folds; None where it may still win."""
    gaps = [np.asarray(one, dtype=float) - other for one, other in zip(first[name], first[leader], strict=True)]
    least = _mean(first[leader])
    far = name != leader and _mean(gaps) > MARGIN * abs(least)
    return Behind(leader, _mean(first[name]), least) if far and _beyond_chance(gaps, groups) else None


def _beyond_chance(gaps: Sequence[Array], groups: Sequence[Array] | None) -> bool:
    units = [gap if groups is None else _sums(gap, group) for gap, group in zip(gaps, groups or gaps, strict=True)]
    every = np.concatenate(units)
    m = every.size
    if m < LEAST or any(part.sum() - max(part.max(), 0.0) <= 0 for part in units):
        return False
    means = np.array([gap.mean() for gap in gaps])
    of_folds = FOLDS * means.std(ddof=1) / np.sqrt(means.size)
    of_rows = special.stdtrit(m - 1, 1 - ALPHA) * every.std(ddof=1) / np.sqrt(m)
    return bool(means.mean() > of_folds and every.mean() > of_rows)


def _sums(gap: Array, group: Array) -> Array:
    """The sum of each group's rows."""
    _, at = np.unique(group, return_inverse=True)
    return np.bincount(at.ravel(), weights=gap)
