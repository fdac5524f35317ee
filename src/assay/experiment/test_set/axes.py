"""Columns as levels on an axis of shares, and which column of one table is which of another.

The cells of a column fall on levels: equal values, or values so near that noise of the last digits parts them. An
ordered column puts level l on the interval [F(l-), F(l)] of its empirical distribution, which no unit and no increasing
map changes; a column of text puts its levels there by frequency, whatever they are called. Two columns are alike by

    values    |A and B| / min(|A|, |B|),  A and B their distinct values to six digits        (same content)
    quantiles rms distance of their standardised quantiles                                    (other units)
    ties      overlap of their level frequencies                                              (any increasing map)

and by the name, as a hint among equals; the pairing is the assignment that makes the sum largest. Cells of a pair are
compared on one axis: that of both columns pooled where their values agree, otherwise each on its own shares.
Cost: a sort per column, and p^2 comparisons of 32 numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array

from assay.experiment.test_set.digests import DATE, MISSING, NEGATIVE, NUMBER, WHOLE, canonical, column_of, names_of

__all__ = ["Axis", "Pair", "axes", "pair_up"]

Array = np.ndarray
NEAR = 1e-6
"""Values nearer than this share of the column's spread are one level."""
QUANTILES = np.linspace(0.02, 0.98, 25)
TIES = 32
DISTINCT = 512
"""Distinct values of a column that are compared: those with the smallest keys, so the same ones in both tables."""
FEW = 50
MOST = 64
"""Columns of the narrower table that are paired."""
SAME = 0.5
"""Share of distinct values in common from which cells are compared by value."""


@dataclass(frozen=True, eq=False)
class Axis:
    """One column: its levels in order, how many rows each has, and the level of each row (-1: missing)."""

    name: str
    ordered: bool
    values: Array
    keys: Array
    counts: Array
    codes: Array

    @property
    def edges(self) -> Array:
        """Where the levels lie on [0, 1]."""
        return np.concatenate([[0.0], np.cumsum(self.counts)]) / max(1, self.counts.sum())


@dataclass(frozen=True, eq=False)
class Pair:
    """A column of the new table with that of the old one it is taken for; `same`: their values agree."""

    old: Axis
    new: Axis
    same: bool

    @property
    def ranked(self) -> bool:
        """Whether both have an order."""
        return self.old.ordered and self.new.ordered

    def place(self) -> tuple[Array, Array]:
        """The intervals of the old rows and of the new rows, each (lower, upper), on an axis in common."""
        if self.same:
            old, new = self._pooled()
        elif self.ranked:
            old, new = (np.array([axis.edges[:-1], axis.edges[1:]]) for axis in (self.old, self.new))
            new = 1 - new[::-1] if _falling(self.old, self.new) else new
        else:
            old, new = self._by_frequency()
        return _of_rows(old, self.old.codes), _of_rows(new, self.new.codes)

    def _pooled(self) -> tuple[Array, Array]:
        """Levels of both columns together, those with the same value as one."""
        values = np.concatenate([self.old.values, self.new.values])
        order = np.argsort(values, kind="stable")
        limit = NEAR * _width(self.old) if self.ranked else 0
        level = np.empty(values.size, dtype=np.intp)
        level[order] = np.concatenate([[0], np.cumsum(np.diff(values[order]) > limit)])
        counts = np.bincount(level, weights=np.concatenate([self.old.counts, self.new.counts]))
        edges = np.concatenate([[0.0], np.cumsum(counts)]) / counts.sum()
        both = np.array([edges[level], edges[level + 1]])
        return both[:, : self.old.values.size], both[:, self.old.values.size :]

    def _by_frequency(self) -> tuple[Array, Array]:
        """The most frequent level of one column is that of the other, and so on."""
        order, theirs = np.argsort(-self.old.counts, kind="stable"), np.argsort(-self.new.counts, kind="stable")
        old, both = np.array([self.old.edges[:-1], self.old.edges[1:]]), min(order.size, theirs.size)
        new = np.full((2, theirs.size), np.nan)
        new[:, theirs[:both]] = old[:, order[:both]]
        return old, new


def _of_rows(levels: Array, codes: Array) -> Array:
    """What levels have, for each row; nan for missing cells."""
    return np.column_stack([levels, [np.nan, np.nan]])[:, codes]


def axes(frame: Any) -> list[Axis]:
    """Every column of a table on its axis, without those that hold one value."""
    made = [_axis(name, *canonical(column_of(frame, name), name)) for name in names_of(frame)]
    return [axis for axis in made if axis.counts.size > 1]


def _counts(axis: Axis) -> bool:
    """Whether a column is a running number or a calendar: the same in tables that share no row."""
    if not axis.ordered or axis.counts.max() > 1:
        return False
    steps = np.diff(axis.values) / np.diff(axis.values).min()
    return bool(steps.sum() < 3 * axis.values.size and np.allclose(steps, np.rint(steps), rtol=0, atol=1e-3))


def _axis(name: str, bits: Array, tags: Array) -> Axis:
    there = tags != MISSING
    codes = np.full(tags.size, -1, dtype=np.intp)
    kinds = np.unique(tags[there])
    ordered = bool(np.isin(kinds, (NUMBER, WHOLE, NEGATIVE)).all() or (kinds == DATE).all())
    values, inverse = np.unique(_reals(bits[there], tags[there]) if ordered else bits[there], return_inverse=True)
    if ordered and values.size:
        spread = np.quantile(values, [0.05, 0.95]) if values.size > 20 else values[[0, -1]]
        limit = min(NEAR, 0.01 / values.size) * float(spread[1] - spread[0])
        level = np.concatenate([[0], np.cumsum(np.diff(values) > limit)])
        values, inverse = values[np.unique(level, return_index=True)[1]], level[inverse.ravel()]
    codes[there] = inverse.ravel()
    counts = np.bincount(codes[there], minlength=values.size)
    keys = _keys(values) if ordered else values
    return Axis(name, ordered, values, keys, counts, codes)


def _reals(bits: Array, tags: Array) -> Array:
    size = bits.astype(np.float64) * np.where(tags == NEGATIVE, -1.0, 1.0)
    reals = np.where(tags == NUMBER, bits.view(np.float64), np.where(tags == DATE, bits.view(np.int64), size))
    return np.nan_to_num(np.clip(reals, -1e300, 1e300))


def _keys(values: Array) -> Array:
    """Numbers to six digits, as 64 bits that are spread evenly."""
    part, power = np.frexp(values)
    near = np.ldexp(np.rint(part * 2.0**20), power) + 0.0
    mixed = near.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> np.uint64(29))


def _width(axis: Axis) -> float:
    low, high = np.quantile(axis.values, [0.05, 0.95])
    return float(high - low) or float(axis.values[-1] - axis.values[0])


def pair_up(old: Sequence[Axis], new: Sequence[Axis]) -> list[Pair]:
    """Which column of the new table is which of the old one."""
    if not old or not new:
        return []
    chosen_old, chosen_new = list(old), list(new)
    if min(len(old), len(new)) > MOST:
        # The columns with most levels say most about a row; those of the narrower table must be found in the other.
        narrow = chosen_old if len(old) <= len(new) else chosen_new
        narrow.sort(key=lambda axis: -axis.counts.size)
        del narrow[MOST:]
    values = _common(chosen_old, chosen_new)
    alike = 3 * values + _ties(chosen_old, chosen_new) + _quantiles(chosen_old, chosen_new)
    alike += 0.3 * np.array([[a.name == b.name for b in chosen_new] for a in chosen_old])
    rows, columns = linear_sum_assignment(-alike)
    pairs = [
        Pair(
            chosen_old[i], chosen_new[j], bool(values[i, j] >= SAME and chosen_old[i].ordered == chosen_new[j].ordered)
        )
        for i, j in zip(rows, columns, strict=True)
        if not (_counts(chosen_old[i]) and _counts(chosen_new[j]))
    ]
    return sorted(pairs, key=lambda pair: -min(pair.old.counts.size, pair.new.counts.size))[:MOST]


def _common(old: Sequence[Axis], new: Sequence[Axis]) -> Array:
    """The share of distinct values that two columns have in common, of those of the poorer one.

    A few values may be among many others by chance (squares among ages); there it is the smaller share of rows.
    """
    kept = [np.unique(axis.keys, return_index=True) for axis in (*old, *new)]
    keys = [part[:DISTINCT] for part, _ in kept]
    names, where = np.unique(np.concatenate(keys), return_inverse=True)
    starts = np.cumsum([0, *(part.size for part in keys)])
    weights = [axis.counts[at[:DISTINCT]] / axis.counts.sum() for axis, (_, at) in zip((*old, *new), kept, strict=True)]
    there, rows = (
        csr_array((data, where.ravel(), starts), shape=(len(keys), names.size))
        for data in (np.ones(where.size), np.concatenate(weights))
    )
    n, sizes = len(old), np.array([part.size for part, _ in kept])
    shared = (there[:n] @ there[n:].T).toarray()
    few = np.minimum((rows[:n] @ there[n:].T).toarray(), (there[:n] @ rows[n:].T).toarray())
    # Beyond its last kept key a column says nothing, so two are compared below the smaller of their last keys.
    last = [part[-1] if part.size == DISTINCT else np.uint64(2**64 - 1) for part in keys]
    below = [[_below(keys[i], keys[n + j], min(last[i], last[n + j])) for j in range(len(new))] for i in range(n)]
    return np.where(np.minimum.outer(sizes[:n], sizes[n:]) < FEW, few, shared / np.maximum(1, below))


def _below(mine: Array, theirs: Array, limit: np.uint64) -> int:
    return int(min(np.searchsorted(mine, limit, "right"), np.searchsorted(theirs, limit, "right")))


def _ties(old: Sequence[Axis], new: Sequence[Axis]) -> Array:
    """The overlap of the level frequencies, the most frequent first."""
    mine, theirs = (np.array([_frequencies(axis) for axis in part]) for part in (old, new))
    return np.asarray(1 - np.abs(mine[:, None, :] - theirs[None, :, :]).sum(axis=2) / 2)


def _frequencies(axis: Axis) -> Array:
    shares = np.zeros(TIES + 1)
    top = np.sort(axis.counts)[::-1][:TIES] / axis.counts.sum()
    shares[: top.size], shares[-1] = top, 1 - top.sum()
    return shares


def _quantiles(old: Sequence[Axis], new: Sequence[Axis]) -> Array:
    """1 for the same standardised quantiles, up or down; 0 where one column has no order."""
    mine, theirs = (np.array([_standard(axis) for axis in part]) for part in (old, new))
    up = np.sqrt(((mine[:, None, :] - theirs[None, :, :]) ** 2).mean(axis=2))
    down = np.sqrt(((mine[:, None, :] + theirs[None, :, ::-1]) ** 2).mean(axis=2))
    ordered = np.outer([axis.ordered for axis in old], [axis.ordered for axis in new])
    return np.asarray(np.where(ordered, 1 / (1 + 20 * np.minimum(up, down)), 0.0))


def _standard(axis: Axis) -> Array:
    if not axis.ordered:
        return np.zeros(QUANTILES.size)
    ends = (np.searchsorted(axis.edges[1:], QUANTILES + shift) for shift in (-1e-9, 1e-9))
    # The same from either end.
    values = np.mean([axis.values[np.minimum(at, axis.values.size - 1)] for at in ends], axis=0)
    spread = float(values.std())
    return np.asarray((values - values.mean()) / spread if spread > 0 else np.zeros(QUANTILES.size))


def _falling(old: Axis, new: Axis) -> bool:
    """Whether the new column is the old one turned around: only where its quantiles say so without doubt."""
    mine, theirs = _standard(old), _standard(new)
    up = float(np.sqrt(((mine - theirs) ** 2).mean()))
    down = float(np.sqrt(((mine + theirs[::-1]) ** 2).mean()))
    return 3 * down < up and down < 0.1
