"""The two things preprocessing learns: medians, centres and spreads of numbers, and the levels of categories.

    number    x -> (x - mean) / sd, a gap being the training median; beside it 1 where x was missing, if it ever was
    category  the most frequent levels have a place of their own, rare ones share "other", and so do levels never seen

Both learn from training rows only, do not depend on the order of rows, and are nothing but names and arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from assay.checks import describe
from assay.errors import DataError
from assay.experiment.table.kinds import canonical
from assay.state import Specs, Stateful, floats, ints, need

__all__ = ["Levels", "Numbers", "level_codes"]

Array = np.ndarray
OTHER = -2
CELLS = 1 << 21
REACH = 1e150
GAP = -1


@dataclass(frozen=True, eq=False)
class Numbers(Stateful):
    """Which columns vary, their medians, centres and spreads, and which of them tell that something is missing."""

    kept: Array
    flagged: Array
    median: Array
    centre: Array
    spread: Array
    impute: bool
    scale: bool

    state: ClassVar[Specs] = {
        "kept": ints("k", rising=True),
        "flagged": ints("f", rising=True),
        "median": floats("k"),
        "centre": floats("k"),
        "spread": floats("k"),
    }

    def _check_state(self) -> None:
        need((self.spread > 0).all() and len(set(self.kept)) == len(self.kept), "spreads must be positive")

    @classmethod
    def learn(cls, X: Array, names: Sequence[str], *, impute: bool, scale: bool) -> Numbers:
        """Learn from a matrix of float64 in column order, with NaN where a cell is missing."""
        gap = np.isnan(X)
        gaps = gap.sum(axis=0)
        low, high, median = _ends_and_median(X, gap, gaps)
        kept = np.flatnonzero(low < high)
        flagged = _patterns(gap, gaps) if impute else np.empty(0, dtype=np.int64)
        centre, spread = np.zeros(kept.size), np.ones(kept.size)
        if scale:
            _describe(X, gap, gaps, kept, median if impute else None, names, centre, spread)
        return cls(kept, flagged, median[kept], centre, spread, impute, scale)

    def transform(self, X: Array) -> Array:
        """The columns that vary, filled, centred and scaled, and then one column per kind of gap."""
        out = X[:, self.kept]
        if self.impute:
            gap = np.isnan(out)
            if gap.any():
                out = np.where(gap, self.median, out)
        if self.scale:
            with np.errstate(over="ignore"):
                out = (out - self.centre) / self.spread
            # A cell 1e150 spreads away is no better than one further out, and its square can still be taken.
            np.clip(out, -REACH, REACH, out=out)
        return np.hstack([out, np.isnan(X[:, self.flagged]).astype(np.float64)]) if self.flagged.size else out


def _ends_and_median(X: Array, gap: Array, gaps: Array) -> tuple[Array, Array, Array]:
    """The least, the largest and the median of the cells that are there; 0 where none is."""
    low, high, median = np.zeros((3, X.shape[1]))
    full = np.flatnonzero(gaps == 0)
    for part in _blocks(full, X.shape[0]):
        rows = X.T[part]
        low[part], high[part], median[part] = rows.min(axis=1), rows.max(axis=1), _median(rows)
    for j in np.flatnonzero((gaps > 0) & (gaps < X.shape[0])):
        seen = X[~gap[:, j], j]
        low[j], high[j], median[j] = seen.min(), seen.max(), _median(seen[None])[0]
    return low, high, median


def _median(rows: Array) -> Array:
    """The median of each row, halved before it is added so that nothing overflows."""
    half = rows.shape[1] // 2
    if rows.shape[1] % 2:
        return np.asarray(np.partition(rows, half, axis=1)[:, half])
    middle = np.partition(rows, (half - 1, half), axis=1)
    return np.asarray(middle[:, half - 1] / 2 + middle[:, half] / 2)


def _describe(
    X: Array, gap: Array, gaps: Array, kept: Array, fill: Array | None, names: Sequence[str], mean: Array, sd: Array
) -> None:
    """Fill in the means and standard deviations (divisor n) of the kept columns, gaps filled or left aside."""
    n = X.shape[0]
    whole = np.flatnonzero((gaps[kept] == 0) | (fill is not None))
    try:
        for part in _blocks(whole, n):
            columns = kept[part]
            rows = X.T[columns] if fill is None else np.where(gap.T[columns], fill[columns, None], X.T[columns])
            mean[part], sd[part] = describe(rows.T)
            sd[part] *= np.sqrt((n - 1) / n)
        for k in np.setdiff1d(np.arange(kept.size), whole):
            part, columns = np.array([k]), kept[[k]]
            seen = X[~gap[:, kept[k]], kept[k]]
            mean[part], sd[part] = describe(seen[:, None])
            sd[part] *= np.sqrt((seen.size - 1) / seen.size)
    except DataError as error:
        wide = max(columns.tolist(), key=lambda j: float(np.nanmax(np.abs(X[:, j]))))
        raise DataError(f"column {names[wide]!r}: {error.what}", remedy=error.remedy) from error
    # Neighbouring numbers differ by less than their squares can tell; they are left as they are.
    sd[sd == 0] = 1.0


def _blocks(columns: Array, rows: int) -> list[Array]:
    """Columns in groups of a few million cells, so that what is worked out beside them stays small."""
    step = max(1, CELLS // max(1, rows))
    return [columns[k : k + step] for k in range(0, columns.size, step)]


def _patterns(gap: Array, gaps: Array) -> Array:
    """Columns with gaps, one for each set of rows that is missing together: twins would only be collinear."""
    some = np.flatnonzero((gaps > 0) & (gaps < gap.shape[0]))
    first: dict[bytes, int] = {}
    for j in some:
        first.setdefault(np.packbits(gap[:, j]).tobytes(), int(j))
    return np.array(sorted(first.values()), dtype=np.int64)


def level_codes(column: Any) -> tuple[Array, list[str]]:
    """The place of each cell's level in a list of level names, -1 where the cell is missing.

    >>> level_codes(pd.Series([3.0, None, "3", "a"], dtype=object))
    (array([ 0, -1,  0,  1]), ['3', 'a'])
    """
    codes, values = pd.factorize(np.asarray(column, dtype=object) if column.dtype == object else column)
    names = [canonical(value) for value in values]
    place: dict[str, int] = {}
    for name in names:
        place.setdefault(name, len(place))
    if len(place) == len(names):
        return np.asarray(codes), names
    together = np.array([*(place[name] for name in names), GAP])
    return together[codes], list(place)


@dataclass(frozen=True, eq=False)
class Levels(Stateful):
    """The levels that have a place of their own, whether others share one, and how often each level was seen.

    >>> codes, names = level_codes(pd.Series(["a"] * 5 + ["b"] * 4 + ["c", None]))
    >>> levels = Levels.learn(codes, names, size=10)
    >>> levels.names, levels.other, levels.gaps
    (('a', 'b'), True, True)
    >>> levels.place(*level_codes(pd.Series(["b", "new", None]))).tolist()
    [1, -2, -1]
    """

    names: tuple[str, ...]
    other: bool
    gaps: bool
    known: tuple[str, ...]
    share: Array

    state: ClassVar[Specs] = {"share": floats("known", low=0, high=1)}

    def _check_state(self) -> None:
        need(len(self.share) == len(self.known) and len({*self.names}) == len(self.names), "its levels repeat")

    @classmethod
    def learn(cls, codes: Array, names: list[str], size: int) -> Levels:
        """Keep the `size` most frequent levels that at least two rows and one in a thousand have; pool the others."""
        counts = np.bincount(codes[codes >= 0], minlength=len(names))
        seen = [(int(count), name) for count, name in zip(counts, names, strict=True) if count > 0]
        least = max(2.0, codes.size / 1000) if len(seen) > 2 else 1.0
        ranked = sorted(seen, key=lambda pair: (-pair[0], pair[1]))
        kept = [name for count, name in ranked[:size] if count >= least]
        pooled = len(kept) < len(seen)
        crowded = len(seen) > size
        known = sorted(ranked, key=lambda pair: pair[1]) if crowded else []
        share = np.array([count / max(1, codes.size) for count, _ in known])
        missing = bool((codes == GAP).any())
        return cls(tuple(sorted(kept, key=_natural)), pooled, missing, tuple(name for _, name in known), share)

    @property
    def places(self) -> int:
        """How many different things a cell can be: its own level or one of the others."""
        return len(self.names) + self.other

    def place(self, codes: Array, names: list[str]) -> Array:
        """The place of each cell: 0, 1, ... for a level of its own, -2 for any other, -1 where missing."""
        own = {name: j for j, name in enumerate(self.names)}
        table = np.array([*(own.get(name, OTHER) for name in names), GAP], dtype=np.int64)
        return np.asarray(table[codes])

    def frequency(self, codes: Array, names: list[str]) -> Array:
        """How common each cell's level was in training, as a share of rows; 0 for one never seen and for a gap."""
        known = dict(zip(self.known, self.share, strict=True))
        return np.asarray(np.array([*(known.get(name, 0.0) for name in names), 0.0])[codes])


def _natural(name: str) -> tuple[int, float, str]:
    """Numbers by size and before words, so that the level 10 comes after 9."""
    try:
        value = float(name)
    except ValueError:
        return 1, 0.0, name
    return (0, value, name) if np.isfinite(value) else (1, 0.0, name)
