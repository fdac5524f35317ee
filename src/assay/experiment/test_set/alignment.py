"""Are some rows of one table those of another, whose values were changed? A test, and the rows.

A pair of rows (i, r) gets for each column j in common the share p_j of the axis (`axes.py`) that lies as near to cell
(i, j) as (r, j) does, and Fisher's combination over columns,

    s(i, r) = - sum_j log p_j(i, r),      m(i, T) = max over the rows r of T of s(i, r)

is large where i is r again, however many columns were changed beyond recognition. How large it is by chance, with
columns that depend on each other, ties and duplicates, row i says itself: the other rows of its own table are decoys.
If table B is another sample of what table A is one of, then for equal numbers of rows

    d(i) = m(i, B) - m(i, A without i)    is as often above t as below -t,  for each t,

and the tables are linked if for some t the d(i) above t are more than 20 times those below -t and P(so many) < 1e-7
(binomial, 1/2: 24 rows at least); each table asks the other. Where rows cannot be told apart (few levels), decoys do as
well as the row itself, and nothing is linked. Once two tables are linked, new rows are recognised as long as about 2%
of them are expected to be wrong, by the distribution of m among old rows.

Best rows are sought among all of them, in large tables among the neighbours in four sorted orders; beyond 20,000 rows
the test looks at a stretch of one axis. Cost: O(n log n) per order, and rows x neighbours x columns.
Fisher (1932), Statistical Methods for Research Workers, section 21.1; agreement weights: Fellegi & Sunter (1969), JASA
64, 1183-1210; competition with decoys: Elias & Gygi (2007), Nature Methods 4, 207-214.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from assay.experiment.test_set.axes import Axis, Pair, pair_up

__all__ = ["align"]

Array = np.ndarray
SAMPLE = 1_000
"""Rows of each table that ask."""
BRUTE = 600
"""Rows up to which every one is compared."""
STRETCH = 20_000
BLOCKS = 16
ORDERS = 4
WORK = 8_000_000
"""Row pairs that are scored at most when all rows are assigned."""
SURE = 1e-7
TIMES = 20
WRONG = 0.02
"""Share of wrong rows among the recognised ones that is aimed at."""
EQUAL = 1e-3
RANKS = 4
"""Nearer than so many ranks counts as equal where only ranks are compared: within a table they are evenly spaced."""


@dataclass(frozen=True, eq=False)
class Places:
    """Rows as intervals on axes, arrays of shape (columns, rows).

    For each axis: whether it has an order, the least share, and the share of one row among those of its own table.
    """

    lower: Array
    upper: Array
    ranked: Array
    least: Array
    own: Array

    def take(self, rows: Array) -> Places:
        """Some of the rows."""
        return replace(self, lower=self.lower[:, rows], upper=self.upper[:, rows])

    @property
    def n(self) -> int:
        """How many rows."""
        return int(self.lower.shape[1])


def align(old: Sequence[Axis], new: Sequence[Axis]) -> Array | None:
    """For each new row the old row it is, -1 where none is recognised; None if the tables are not linked.

    >>> import pandas as pd
    >>> from assay.experiment.test_set.axes import axes
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame(rng.normal(size=(40, 4)), columns=list("abcd"))
    >>> changed = (2.54 * frame.iloc[::-1]).rename(columns=str.upper)
    >>> align(axes(frame), axes(changed))[:4].tolist()
    [39, 38, 37, 36]
    >>> align(axes(frame), axes(pd.DataFrame(rng.normal(size=(40, 4))))) is None
    True
    """
    pairs = pair_up(old, new)
    # Columns that were changed beyond recognition are noise: without them, those with the same values may say more.
    same = [pair for pair in pairs if pair.same and pair.old.counts.size > 2]
    found = []
    for used in [part for part in (pairs, same) if part][: 1 if len(same) == len(pairs) else 2]:
        mine, theirs = _places(used)
        if _linked(theirs, mine) or _linked(mine, theirs):
            found.append(_assign(mine, theirs))
            if (found[-1] >= 0).mean() > 0.9:
                break
    return max(found, key=lambda at: int((at >= 0).sum()), default=None)


def _places(pairs: list[Pair]) -> tuple[Places, Places]:
    """Old and new rows on the axes of the pairs."""
    rng = np.random.default_rng(0)
    sides = []
    for side in (0, 1):
        placed = np.array([_filled(pair.place()[side], rng) for pair in pairs], dtype=np.float32)
        sizes = [[int(axis.counts.sum()) for axis in (pair.old, pair.new)] for pair in pairs]
        least = [1 / sum(n) if pair.same else RANKS / min(n) for pair, n in zip(pairs, sizes, strict=True)]
        own = [0 if pair.same else 1 / n[side] for pair, n in zip(pairs, sizes, strict=True)]
        of_axes = np.array([least, own], dtype=np.float32)
        sides.append(Places(placed[:, 0], placed[:, 1], np.array([pair.ranked for pair in pairs]), *of_axes))
    return sides[0], sides[1]


def _filled(places: Array, rng: np.random.Generator) -> Array:
    """Missing cells somewhere at random, as rows that have nothing to do with each other are."""
    missing = np.isnan(places[0])
    if missing.any():
        places[:, missing] = rng.choice(places[:, ~missing], int(missing.sum()), axis=1)
    return places


def _linked(asking: Places, other: Places) -> bool:
    """Whether rows of the asking table find nearer ones in the other table than among their own."""
    if max(asking.n, other.n) > STRETCH:
        asking, other = _stretch(asking, other)
    size = min(asking.n, other.n)
    if size < 2:
        return False
    rng = np.random.default_rng(0)
    rows, decoys = _some(asking.n, SAMPLE, rng), _some(asking.n, size, rng)
    near, _ = _best(asking.take(decoys), asking.take(rows), names=(decoys, rows))
    blocks = rng.permutation(other.n)[: other.n // size * size].reshape(-1, size)[:BLOCKS]
    ahead = np.concatenate([_best(other.take(block), asking.take(rows))[0][2] - near[2] for block in blocks])
    size_of = np.abs(ahead)
    for limit in np.unique(np.quantile(size_of, [0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99])) + EQUAL:
        won, lost = int(np.count_nonzero(ahead > limit)), int(np.count_nonzero(ahead < -limit))
        if won > TIMES * (lost + 1) and stats.binom.sf(won - 1, won + lost, 0.5) < SURE:
            return True
    return False


def _stretch(one: Places, two: Places) -> tuple[Places, Places]:
    """The rows of both tables on the same stretch of the first axis, as many as can be compared."""
    half = STRETCH / max(one.n, two.n) / 2
    middle = [(places.lower[0] + places.upper[0]) / 2 for places in (one, two)]
    first, second = (np.flatnonzero(np.abs(at - 0.5) <= half)[: 2 * STRETCH] for at in middle)
    return one.take(first), two.take(second)


def _some(n: int, size: int, rng: np.random.Generator) -> Array:
    return np.arange(n) if n <= size else np.sort(rng.choice(n, size, replace=False))


def _assign(mine: Places, theirs: Places) -> Array:
    """The old row of each new row, by the statistic that recognises most."""
    rng = np.random.default_rng(0)
    rows, asked = _some(mine.n, SAMPLE, rng), _some(theirs.n, SAMPLE, rng)
    every = np.arange(mine.n)
    chances, _ = _best(mine, mine.take(rows), names=(every, rows))
    scores, _ = _best(mine, theirs.take(asked))
    limits = [_lenient(chance, score) for chance, score in zip(chances[:2], scores[:2], strict=True)]
    kind = int(np.argmax([np.mean(score > limit) for score, limit in zip(scores[:2], limits, strict=True)]))
    wide = int(np.clip(WORK // (2 * ORDERS * theirs.n), 8, _window(mine.n)))
    found, at = _best(mine, theirs, wide=wide)
    return np.where(found[kind] > limits[kind], at, -1)


def _lenient(chance: Array, score: Array) -> float:
    """The lowest limit with few wrong rows above it: where most rows are old ones, a row is believed sooner."""
    middle = np.median(chance)
    new = min(1.0, float(np.mean(score <= middle) / np.mean(chance <= middle)))
    for limit in [-np.inf, *np.quantile(chance, [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99]) + EQUAL]:
        if new * np.mean(chance > limit) <= WRONG * np.mean(score > limit):
            return float(limit)
    return float(chance.max() + EQUAL)


def _window(n: int) -> int:
    return max(32, int(1.5 * np.sqrt(n)))


def _best(
    table: Places, asked: Places, *, names: tuple[Array, Array] | None = None, wide: int | None = None
) -> tuple[Array, Array]:
    """For each row asked about the row of the table with the largest score m, and three figures: how far m falls short
    of a row equal in every column, how far it is above the next one, and m itself.

    `names`: those of the table and of the rows asked about; a row never meets itself.
    """
    near = None if table.n <= BRUTE else _Neighbours(table, asked, wide or _window(table.n))
    every = np.arange(table.n)[None, :]
    block = max(1, 2_000_000 // (table.n if near is None else near.width))
    found, at = np.empty((3, asked.n), dtype=np.float32), np.empty(asked.n, dtype=np.intp)
    for start in range(0, asked.n, block):
        part = np.arange(start, min(asked.n, start + block))
        rows = every if near is None else near.of(part)
        itself = None if names is None else names[0][rows] == names[1][part][:, None]
        score, perfect = _score(table, asked.take(part), rows, itself)
        each, first = np.arange(part.size), np.argmax(score, axis=1)
        at[part] = np.broadcast_to(rows, score.shape)[each, first]
        top = score[each, first]
        score[score > top[:, None] - EQUAL] = 0  # equal rows are one
        found[:, part] = top - perfect, top - score.max(axis=1), top
    return found, at


def _score(table: Places, asked: Places, rows: Array, itself: Array | None) -> tuple[Array, Array]:
    """Scores of row pairs, and for each row asked about the sum of the largest parts."""
    total = np.zeros((asked.n, rows.shape[1]), dtype=np.float32)
    perfect = np.zeros(asked.n, dtype=np.float32)
    for j, least in enumerate(asked.least):
        low, high = asked.lower[j][:, None], asked.upper[j][:, None]
        lower, upper = table.lower[j][rows], table.upper[j][rows]
        if asked.ranked[j]:
            away = np.maximum(np.maximum(lower - high, low - upper), 0)
            share = np.maximum(upper, np.minimum(high + away, 1)) - np.minimum(lower, np.maximum(low - away, 0))
        else:
            share = np.where(lower == low, upper - lower, 1)
        if itself is not None:
            share -= asked.own[j]
            share[itself] = 1
        share = np.maximum(share, least)
        total -= np.log(share)
        perfect -= np.log(share.min(axis=1))
    return total, perfect


class _Neighbours:
    """Rows of a table next to those asked about, in the orders of the columns with most levels."""

    def __init__(self, table: Places, asked: Places, wide: int) -> None:
        n, columns = table.n, len(table.lower)
        keys = [np.append(table.lower[j] + table.upper[j], asked.lower[j] + asked.upper[j]) for j in range(columns)]
        levels = np.log([np.unique(table.lower[j]).size for j in range(columns)])
        self._orders = []
        for j in range(min(ORDERS, columns)):
            used = np.array([j, *(other for other in range(columns) if other != j)])
            # Few columns tell most rows apart; the rest would only be sorted.
            enough = 1 + int(np.searchsorted(np.cumsum(levels[used]), np.log(50.0 * n)))
            order = np.lexsort([keys[other] for other in used[:enough]][::-1])
            theirs = order >= n
            place = np.empty(asked.n, dtype=np.intp)
            place[order[theirs] - n] = np.flatnonzero(theirs) - np.arange(asked.n)
            self._orders.append((order[~theirs], place))
        self._around, self._last = np.arange(-wide, wide)[None, :], n - 1
        self.width = 2 * wide * len(self._orders)

    def of(self, part: Array) -> Array:
        """The neighbours of some of the rows."""
        around = [order[np.clip(place[part][:, None] + self._around, 0, self._last)] for order, place in self._orders]
        return np.concatenate(around, axis=1)
