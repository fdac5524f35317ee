"""The gate of every function that takes samples: a clean array of numbers, or one sentence saying why not.

Behind it everything is trusted. A sample is one column of numbers or several; a table's names travel along.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from assay.errors import DataError, DataTypeError, ParameterError

__all__ = [
    "ALTERNATIVES",
    "choice",
    "counts",
    "describe",
    "fraction",
    "freeze",
    "is_real",
    "listed",
    "name_columns",
    "number",
    "numbers",
    "sample",
    "squeeze",
    "whole",
]

Array = np.ndarray
ALTERNATIVES = ("two-sided", "less", "greater")
FILL = "drop or fill it first"


def sample(x: Any, name: str, *, least: int = 1, finite: bool = True) -> tuple[Array, tuple[str, ...]]:
    """`x` as a float64 array of shape (rows, columns) and the columns' names, empty for a plain column.

    >>> sample([1, 2, 3], "x")[0].shape
    (3, 1)
    """
    if sparse.issparse(x):
        raise DataTypeError(f"{name} is sparse", remedy=f"pass {name}.toarray()")
    if isinstance(x, pd.DataFrame):
        names = tuple(str(column) for column in x.columns)
        parts = [_floats(x.iloc[:, j], f"column {names[j]!r} of {name}") for j in range(x.shape[1])]
        values = np.column_stack(parts) if parts else np.empty((len(x), 0))
    else:
        values = _floats(x, name)
        if values.ndim == 0:
            raise DataError(f"{name} is one number, not a sample", remedy=f"pass {name} as a list or an array")
        if values.ndim > 2:
            raise DataError(f"{name} has {values.ndim} dimensions", remedy="pass one column, or a table of columns")
        names = () if values.ndim == 1 else tuple(str(j) for j in range(values.shape[1]))
        values = values.reshape(values.shape[0], -1) if values.size else values.reshape(0, 1)
    if values.size == 0:
        raise DataError(f"{name} is empty", remedy="pass at least one value")
    if finite:
        refuse_non_finite(values, names, name)
    if values.shape[0] < least:
        raise DataError(f"{name} holds {values.shape[0]} row", remedy=f"this method needs at least {least}")
    # Whole columns in a row: sums are then pairwise, and the same whatever the layout of the input.
    return np.asfortranarray(values), names


def _floats(x: Any, name: str) -> Array:
    if isinstance(x, np.ma.MaskedArray):
        x = np.ma.filled(x.astype(float), np.nan)  # a hidden value must not come back as a number
    extension = isinstance(x, pd.Series) and pd.api.types.is_extension_array_dtype(x.dtype)
    if extension and pd.api.types.is_numeric_dtype(x.dtype):
        return np.asarray(x.to_numpy(dtype=float, na_value=np.nan))
    try:
        raw = np.asarray(x)
    except ValueError as error:
        raise DataError(f"{name} has rows of different lengths", remedy="pass one value per row") from error
    text = raw.dtype.kind == "O" and any(isinstance(value, str | bytes) for value in raw.flat)
    if raw.dtype.kind not in "biufO" or text:
        kind = "text" if text or raw.dtype.kind in "US" else str(raw.dtype)
        raise DataTypeError(f"{name} holds {kind}, not numbers", remedy="convert it to numbers first")
    try:
        # A None or pandas NA in an object column is a gap and is reported as one, with its row.
        return raw.astype(np.float64, copy=False) if raw.dtype.kind != "O" else _objects(raw)
    except (TypeError, ValueError) as error:
        raise DataTypeError(f"{name} holds objects that are not numbers", remedy="convert it first") from error


def _objects(raw: Array) -> Array:
    return np.where(pd.isna(raw), np.nan, raw).astype(np.float64)


def refuse_non_finite(values: Array, names: tuple[str, ...], name: str) -> None:
    """Name the first row that is NaN or infinite."""
    finite = np.isfinite(values)
    if finite.all():
        return
    row, column = (int(part) for part in np.argwhere(~finite)[0])
    what = "NaN" if np.isnan(values[row, column]) else "infinity"
    where = f"column {names[column]!r} of {name}" if names else name
    raise DataError(f"{where} holds {what} in row {row}", remedy=FILL)


def describe(values: Array) -> tuple[Array, Array]:
    """Mean and standard deviation (divisor n - 1) of each column; both are safe at any scale.

    Columns are first divided by a power of two, which changes no digit and keeps squares in range;
    the mean is corrected once by the mean of the residuals. A constant column has spread exactly zero.
    """
    low, high = values.min(axis=0), values.max(axis=0)
    exponent = np.frexp(np.maximum(np.abs(low), np.abs(high)))[1]
    scaled = np.ldexp(values, -exponent)
    mean = scaled.mean(axis=0)
    mean += (scaled - mean).mean(axis=0)
    squares = ((scaled - mean) ** 2).sum(axis=0)
    spread = np.sqrt(squares / max(1, values.shape[0] - 1))
    constant = low == high
    with np.errstate(over="ignore"):
        mean, spread = np.ldexp(mean, exponent), np.ldexp(spread, exponent)
    if np.isinf(spread).any():
        raise DataError("the values spread further than floating point reaches", remedy="change their unit")
    return np.where(constant, low, mean), np.where(constant, 0.0, spread)


def counts(k: Any, n: Any) -> tuple[Array, Array, tuple[str, ...]]:
    """Successes and trials as whole numbers of one shape, and names where `k` is a labelled or long array."""
    labels = tuple(str(label) for label in k.index) if isinstance(k, pd.Series) else ()
    successes, trials = (np.asarray(_floats(value, name)) for value, name in ((k, "k"), (n, "n")))
    if successes.ndim > 1 or trials.ndim > 1 or successes.size == 0 or trials.size == 0:
        raise DataError("k and n must be numbers or non-empty lists of numbers", remedy="pass one pair per test")
    try:
        successes, trials = np.broadcast_arrays(successes, trials)
    except ValueError as error:
        remedy = "pass one n for all, or one per k"
        raise DataError(f"k has {successes.size} entries but n has {trials.size}", remedy=remedy) from error
    names = labels or (tuple(str(j) for j in range(successes.size)) if successes.ndim else ())
    successes, trials = np.atleast_1d(successes), np.atleast_1d(trials)
    whole_numbers = (successes == np.round(successes)) & (trials == np.round(trials))
    right = np.isfinite(successes) & np.isfinite(trials) & whole_numbers
    right &= (successes >= 0) & (trials >= 1) & (successes <= trials)
    if not right.all():
        at = int(np.flatnonzero(~right)[0])
        where = f" in position {at}" if names else ""
        what = f"k = {successes[at]:g} successes in n = {trials[at]:g} trials{where} is impossible"
        raise DataError(what, remedy="pass whole numbers with 0 <= k <= n and n >= 1")
    return successes, trials, names


def fraction(value: Any, name: str, *, closed: bool = False) -> float:
    """A number between 0 and 1; the ends belong to it only when `closed`."""
    good = is_real(value) and (0 <= value <= 1 if closed else 0 < value < 1)
    if not good:
        words = "[0, 1]" if closed else "(0, 1)"
        raise ParameterError(f"{name} = {value!r} is not a number in {words}", remedy=f"pass {name} as a fraction")
    return float(value)


def number(value: Any, name: str, low: float = -np.inf, *, strict: bool = False) -> float:
    """A finite number of at least `low`, or above it when `strict`."""
    if not is_real(value) or not np.isfinite(float(value)) or (value <= low if strict else value < low):
        words = "a finite number" if low == -np.inf else f"a number {'above' if strict else 'of at least'} {low:g}"
        raise ParameterError(f"{name} = {value!r} is not {words}", remedy=f"correct {name}")
    return float(value)


def numbers(value: Any, name: str, columns: int) -> Array:
    """One finite number, or one per column."""
    array = _floats(value, name)
    if array.ndim > 1 or array.size not in (1, columns) or not np.isfinite(array).all():
        raise ParameterError(f"{name} must be one finite number or one per column ({columns})")
    return np.broadcast_to(array, (columns,))


def whole(value: Any, name: str, low: int = 1) -> int:
    """A whole number of at least `low`."""
    integral = isinstance(value, Integral) or (is_real(value) and float(value).is_integer())
    if isinstance(value, bool | np.bool_) or not integral or value < low:
        raise ParameterError(f"{name} = {value!r} is not a whole number of at least {low}", remedy=f"correct {name}")
    return int(value)


def choice(value: Any, name: str, options: tuple[str, ...]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in options:
        known = ", ".join(repr(option) for option in options)
        raise ParameterError(f"{name} = {value!r} is unknown", remedy=f"choose one of {known}")
    return value


def squeeze(values: Array, names: tuple[str, ...]) -> Any:
    """A float for a plain column, a read-only array with one entry per name otherwise."""
    return freeze(np.array(values)) if names else float(values[0])


def freeze(values: Array) -> Array:
    """The same array, closed to writing: results do not change after the fact."""
    values.flags.writeable = False
    return values


def is_real(value: Any) -> bool:
    """A real number, which True and False are not."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def listed(names: Sequence[Any], most: int = 6) -> str:
    """The first few of what there is to choose from.

    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b', ..."
    """
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")


def name_columns(names: Sequence[Any], most: int = 6) -> str:
    """Columns by name, the first few where there are many.

    >>> name_columns(["a"]), name_columns(["a", "b", "c"], most=2)
    ("column 'a'", "columns 'a', 'b' and 1 more")
    """
    said = ", ".join(map(repr, names[:most]))
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"column{'' if len(names) == 1 else 's'} {said}{more}"
