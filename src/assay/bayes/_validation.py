"""What the conjugate models take: parameters, observations, weights, groups and counts, checked once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from assay.checks import freeze, row_weights, sample, whole
from assay.errors import DataError, ParameterError

__all__ = ["Grouped", "align", "count_up", "counted", "draws", "grouped", "labels_of", "parameter", "plain", "share"]

Array = np.ndarray
Names = tuple[str, ...]


def plain(values: Any) -> Any:
    """A float for one number, a read-only array otherwise."""
    array = np.asarray(values)
    return float(array) if array.ndim == 0 else freeze(np.array(array))


@lru_cache(maxsize=4)
def count_up(size: int) -> Names:
    """Names of groups that have none: 0, 1, 2, ..."""
    return tuple(map(str, range(size)))


def draws(size: Any) -> tuple[int, ...]:
    """The leading shape of a set of draws."""
    if size is None:
        return ()
    parts = size if isinstance(size, tuple) else (size,)
    return tuple(whole(part, "size", 0) for part in parts)


def labels_of(value: Any) -> Names:
    """The index of a Series as names; nothing else carries any."""
    return tuple(map(str, value.index)) if isinstance(value, pd.Series) else ()


def parameter(value: Any, name: str, *, positive: bool = True) -> Array:
    """A finite number, or one per group; positive unless told otherwise."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        what = f"{name} = {value!r} is not a number"
        raise ParameterError(what, remedy="pass a number, or an array with one per group") from error
    if array.ndim > 1 or array.size == 0:
        raise ParameterError(f"{name} has shape {array.shape}", remedy="pass a number, or one per group")
    bad = ~np.isfinite(array) | ((array <= 0) if positive else False)
    if bad.any():
        at = int(np.argmax(bad))
        where = f" in position {at}" if array.ndim else ""
        shown = float(array.reshape(-1)[at])
        why = f"{name} = {shown:g}{where} gives the prior no mass" if shown == 0 else f"{name} = {shown:g}{where}"
        words = "a finite number above 0" if positive else "a finite number"
        raise ParameterError(why if shown == 0 else f"{why} is out of range", remedy=f"it must be {words}")
    return array


def share(shapes: dict[str, Array], names: Names) -> tuple[int, ...]:
    """The common shape of parameters that may be numbers or have one entry per group, as many as there are names."""
    try:
        shape = np.broadcast_shapes(*(np.shape(value) for value in shapes.values()))
    except ValueError as error:
        sizes = ", ".join(f"{name} {np.size(value)}" for name, value in shapes.items())
        raise ParameterError(f"the parameters have different lengths ({sizes})", remedy="pass one per group") from error
    if names and shape != (len(names),):
        what = f"there are {len(names)} names for parameters of shape {shape}"
        raise ParameterError(what, remedy="pass one name per group, or none")
    return shape


def counted(value: Any, name: str, *, least: float | None = 0.0, dims: int = 1) -> Array:
    """Finite numbers (of at least `least`), a single one or an array of up to `dims` dimensions."""
    if isinstance(value, pd.DataFrame | pd.Series):
        value = value.to_numpy(dtype=np.float64, na_value=np.nan)
    try:
        raw = np.asarray(value)
        array = raw.astype(np.float64) if raw.dtype.kind in "biufO" else None
    except (TypeError, ValueError):
        array = None
    if array is None:
        raise DataError(f"{name} contains a non-numeric value", remedy="pass numbers")
    if array.ndim > dims or array.size == 0:
        raise DataError(f"{name} has shape {array.shape}", remedy="pass a number, or an array with one entry per group")
    # Both ends are right or one of them is NaN, infinite or too small: nothing is allocated for clean counts.
    floor = -np.inf if least is None else least
    if not (array.min() >= floor and -np.inf < array.min() and array.max() < np.inf):
        bad = ~np.isfinite(array) | (array < floor)
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f" in position {at[0] if len(at) == 1 else at}" if at else ""
        shown = float(array[at])
        remedy = "drop it or fill it first" if not np.isfinite(shown) else f"pass numbers of at least {least:g}"
        said = "NaN" if np.isnan(shown) else f"{shown:g}"
        raise DataError(f"{name} contains {said}{where}", remedy=remedy)
    return array


class Grouped:
    """Observations by group: `sum(values)` adds up, weighted, the rows of each group (or column)."""

    def __init__(self, values: Array, weights: Array, codes: Array | None, names: Names, size: int | None) -> None:
        self.values, self.weights, self.codes, self.names, self.size = values, weights, codes, names, size

    def sum(self, values: Array) -> Array:
        """Sums of one column over groups (size,), of several over rows (columns,), or of one over rows ()."""
        if self.codes is not None:
            return np.bincount(self.codes, weights=self.weights * values[:, 0], minlength=self.size or 0)
        total = self.weights @ values
        return total if self.size is not None else total[0]

    @property
    def n(self) -> Array:
        """Total weight."""
        return self.sum(np.ones(self.values.shape))

    def spread(self, totals: Array) -> Array:
        """Each row's own group's (or column's) entry of `totals`, in the shape of the values."""
        return np.asarray(totals)[self.codes][:, None] if self.codes is not None else np.asarray(totals).reshape(1, -1)


def grouped(data: Any, weights: Any, groups: Any, name: str = "data") -> Grouped:
    """Observations (one column, or one column per group), their weights and groups, checked.

    `groups` gives each row of a single column the label of its group; the groups are sorted.
    """
    if np.ndim(data) == 0 and not hasattr(data, "__iter__"):
        data = [data]
    values, columns = sample(data, name)
    w = row_weights(1.0 if weights is None else weights, len(values), "weights", all_zero=True)
    assert w is not None
    if groups is None:
        named = columns if isinstance(data, pd.DataFrame) else ()
        return Grouped(values, w, None, named, values.shape[1] if columns else None)
    if values.shape[1] != 1:
        raise DataError(f"{name} has {values.shape[1]} columns and groups besides", remedy="pass one column")
    labels = pd.Series(np.asarray(groups) if not isinstance(groups, pd.Series) else groups.to_numpy())
    if len(labels) != len(values):
        what = f"groups has {len(labels)} entries for {len(values)} observations"
        raise DataError(what, remedy="pass one label per observation")
    codes, found = pd.factorize(labels, sort=True)
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise DataError(f"groups contains NaN in row {row}", remedy="drop that row or name its group")
    return Grouped(values, w, codes, tuple(map(str, found)), len(found))


def align(mine: Names, theirs: Names, statistics: tuple[Array, ...]) -> tuple[Names, tuple[Array, ...]]:
    """Statistics of named groups in the order of names already known; groups that are not there add nothing."""
    if not mine or not theirs or mine == theirs:
        return mine or theirs, statistics
    place = {name: i for i, name in enumerate(mine)}
    unknown = [name for name in theirs if name not in place]
    if unknown:
        what = f"group {unknown[0]!r} has no prior here"
        raise DataError(what, remedy=f"the groups are {', '.join(mine[:5])}{', ...' if len(mine) > 5 else ''}")
    at = np.array([place[name] for name in theirs])
    full = []
    for part in statistics:
        whole_ = np.zeros((len(mine), *np.shape(part)[1:]))
        whole_[at] = part
        full.append(whole_)
    return mine, tuple(full)
