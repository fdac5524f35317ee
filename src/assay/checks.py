"""The one place that validates what users pass: samples, weights, penalty factors and probabilities.

Each function returns a clean array of numbers or raises an error that says in one sentence what is wrong, where, and
what to do; behind it everything is trusted. A sample is one column of numbers or several; a table's names travel along.
Tables that estimators take as X are validated in `assay.base`, which needs scikit-learn for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from assay.errors import AssayError, DataError, DataTypeError, ParameterError
from assay.numbers import fmt

__all__ = [
    "ALTERNATIVES",
    "SUM_TOLERANCE",
    "choice",
    "counts",
    "describe",
    "fraction",
    "freeze",
    "from_lists",
    "is_real",
    "listed",
    "name_columns",
    "non_negative",
    "number",
    "numbers",
    "penalty_factors",
    "probabilities",
    "refuse_improbable",
    "refuse_vector",
    "row_weights",
    "sample",
    "squeeze",
    "whole",
    "with_shape",
]

Array = np.ndarray
ALTERNATIVES = ("two-sided", "less", "greater")
FILL = "drop or fill it first"
SUM_TOLERANCE = 1e-6
"""How far a row of probabilities may be from one: single precision over a thousand classes stays within it."""


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
            raise DataError(f"{name} is a single number, not a sample", remedy=f"pass {name} as a list or an array")
        if values.ndim > 2:
            raise DataError(f"{name} has {values.ndim} dimensions", remedy="pass one column, or a table of columns")
        names = () if values.ndim == 1 else tuple(str(j) for j in range(values.shape[1]))
        values = values.reshape(values.shape[0], -1) if values.size else values.reshape(0, 1)
    if values.size == 0:
        raise DataError(f"{name} is empty", remedy="pass at least one value")
    if finite:
        refuse_non_finite(values, names, name)
    if values.shape[0] < least:
        rows = f"{values.shape[0]} row{'s' if values.shape[0] > 1 else ''}"
        raise DataError(f"{name} has {rows}", remedy=f"this method needs at least {least}")
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
        raise DataTypeError(f"{name} contains {kind}, not numbers", remedy="convert it to numbers first")
    try:
        # A None or pandas NA in an object column is a gap and is reported as one, with its row.
        return raw.astype(np.float64, copy=False) if raw.dtype.kind != "O" else _objects(raw)
    except (TypeError, ValueError) as error:
        raise DataTypeError(f"{name} contains objects that are not numbers", remedy="convert it first") from error


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
    raise DataError(f"{where} contains {what} in row {row}", remedy=FILL)


def from_lists(rows: Any) -> Array | None:
    """Nested lists as an array, None where they are ragged; numbers beside text stay numbers, in an array of objects.

    >>> from_lists([[1, "red"], [2, "blue"]]).tolist(), from_lists([[1], [2, 3]])
    ([[1, 'red'], [2, 'blue']], None)
    """
    try:
        array = np.asarray(rows)
    except ValueError:
        return None
    return np.asarray(rows, dtype=object) if array.dtype.kind in "US" else array


def with_shape(X: Any) -> Any:
    """X as something that has rows: lists become an array, whatever has a shape stays as it is."""
    if isinstance(X, list | tuple):
        array = from_lists(X)
        if array is None:
            raise DataError("X has rows of different lengths", remedy="pass a table of rows and columns")
        X = array
    if not hasattr(X, "shape") or len(X.shape) < 1:
        raise DataTypeError(f"X is a {type(X).__name__}, not a table", remedy="pass an array or a data frame")
    return X


def refuse_vector(X: Any) -> None:
    """Refuse one row or one column on its own: nobody can know which it is."""
    if isinstance(X, list | tuple):
        depth = 1 if len(X) > 0 and all(value is None or np.isscalar(value) for value in X) else 2
    else:
        depth = 0 if np.isscalar(X) else getattr(X, "ndim", 2)
    if depth == 2:
        return
    what, remedy = f"Expected 2D array, got {depth}D array instead", "Reshape your data to a table"
    if depth == 1 and isinstance(X, pd.Series):
        what += f": a Series of {len(X)} values"
        remedy += ": one row of a DataFrame is df.iloc[[k]], one column df[['name']]"
    elif depth == 1:
        what += f": {X.shape[0] if hasattr(X, 'shape') else len(X)} values"
        remedy += ": [x] is one row, [[value] for value in x] one column"
    raise DataError(what, remedy=remedy)


# Weights, penalty factors, probabilities.


def row_weights(weights: Any, rows: int, name: str = "sample_weight", *, all_zero: bool = False) -> Array | None:
    """Finite weights of zero or more, one per row, as float64; a single number is every row's weight, None stays None.

    >>> row_weights([2, 0, 1], 3).tolist(), row_weights(None, 3)
    ([2.0, 0.0, 1.0], None)
    """
    if weights is None:
        return None
    each = "pass one number per row"
    w = _weight_column(weights, name, each)
    if w.ndim == 0:
        w = np.full(rows, w)
    if w.ndim != 1:
        what = f"{name} has {w.ndim} dimensions: Sample weights must be 1D array or scalar"
        raise DataError(what, remedy=each)
    if w.size != rows:
        raise DataError(f"{name} has shape {w.shape}, expected {(rows,)}", remedy=each)
    # Both ends are right or one of them is NaN, infinite or negative: nothing is allocated for clean weights.
    if rows and not (w.min() >= 0 and w.max() < np.inf):
        row = int(np.argmax(~(np.isfinite(w) & (w >= 0))))
        value = "NaN" if np.isnan(w[row]) else f"{w[row]:g}"
        raise DataError(f"{name} contains {value} in row {row}", remedy="give each row a finite weight of zero or more")
    with np.errstate(over="ignore"):
        total = w.sum()
    if not np.isfinite(total):
        raise DataError(f"the sum of {name} overflows", remedy="divide the weights by their largest")
    if total == 0 and not all_zero and not w.any():
        every = "every sample weight" if name == "sample_weight" else f"every entry of {name}"
        raise DataError(f"{every} is zero", remedy="give at least one row a positive weight")
    return w


def _weight_column(weights: Any, name: str, remedy: str) -> Array:
    if isinstance(weights, pd.DataFrame) and weights.shape[1] == 1:
        weights = weights.iloc[:, 0]
    try:
        array = np.asarray(weights)
    except ValueError as error:
        raise DataError(f"{name} contains a list, which is not a number", remedy=remedy) from error
    kind = array.dtype.kind
    if kind in "biuf":
        return np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape)
    if kind not in "OUS":
        raise DataError(f"{name} has dtype {array.dtype}, which is not a number per row", remedy=remedy)
    for at, value in enumerate(array.flat):
        try:
            right = not isinstance(value, str | bytes) and np.isfinite(float(value))
        except (TypeError, ValueError):
            right = False
        if not right:
            where, shown = f" in row {at}" if array.ndim else "", repr(value)
            shown = shown if len(shown) < 40 and "\n" not in shown else f"a {type(value).__name__}"
            raise DataError(f"{name} contains {shown}{where}, which is not a number", remedy=remedy)
    return np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape)


def non_negative(values: Any, name: str, size: int | None, per: str) -> Array:
    """A parameter of finite numbers of zero or more: `size` of them, one per `per`, or a list of any length.

    >>> non_negative([1, 0.5], "alphas", None, "alpha")
    array([1. , 0.5])
    """
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{name} contains a non-numeric value", remedy=f"pass one number per {per}") from error
    if array.ndim != 1 or (size is not None and array.size != size):
        wanted = "a plain list" if size is None else f"{size} numbers, one per {per}"
        raise ParameterError(f"{name} has shape {array.shape}", remedy=f"pass {wanted}")
    bad = ~np.isfinite(array) | (array < 0)
    if bad.any():
        at = int(np.argmax(bad))
        what = f"{name}[{at}] = {array[at]:g} is out of range"
        raise ParameterError(what, remedy="it must be a finite number of at least 0")
    return array


def penalty_factors(factors: Any, columns: int) -> Array:
    """What each column's penalty is multiplied by: one number of at least 0 per column, 1 by default."""
    return np.ones(columns) if factors is None else non_negative(factors, "penalty_factors", columns, "column")


def probabilities(
    given: Any, name: str, shape: tuple[int, ...], *, labels: Sequence[Any] = (), tolerance: float = SUM_TOLERANCE
) -> Array:
    """A parameter of probabilities, of this shape, whose rows add up to 1 within the tolerance; not rescaled.

    `labels` name the entries of a single row.

    >>> probabilities([0.25, 0.75], "priors", (2,))
    array([0.25, 0.75])
    """
    try:
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{name} contains a non-numeric value", remedy=f"pass numbers of shape {shape}") from error
    if values.shape != shape:
        known = f" in the order {listed(labels)}" if labels else ""
        what = f"{name} has shape {values.shape}, expected {shape}"
        raise ParameterError(what, remedy=f"pass probabilities of that shape{known}")
    most = 1.0 + tolerance
    refuse_improbable(values, name, most=most, tolerance=tolerance, labels=labels, error=ParameterError)
    return values


def refuse_improbable(
    p: Array,
    name: str,
    *,
    least: float = 0.0,
    most: float = 1.0,
    tolerance: float | None = SUM_TOLERANCE,
    labels: Sequence[Any] = (),
    error: type[AssayError] = DataError,
    remedy: str = "pass probabilities in [0, 1]",
) -> None:
    """Raise if an entry is not a probability or, unless the tolerance is None, a row (the last axis) not 1 in total."""
    bad = ~((p >= least) & (p <= most))
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        if p.ndim == 1:
            what = f"{name} of class {labels[at[0]]!r} is {p[at]:g}" if labels else f"{name}[{at[0]}] = {p[at]:g}"
        else:
            column = f" (column {at[-1]})" if p.shape[-1] > 1 else ""
            what = f"{name} contains {p[at]:g} in row {at[0]}{column}"
        raise error(f"{what}, which is not a probability", remedy=remedy)
    if tolerance is None:
        return
    total = np.asarray(p.sum(axis=-1))
    away = np.abs(total - 1.0) > tolerance
    if away.any():
        row = int(np.argmax(away))
        where = name if p.ndim == 1 else f"row {row} of {name}"
        what = f"{where} sums to {fmt(float(total.flat[row]), 6)} instead of 1"
        raise error(what, remedy=f"divide {'it' if p.ndim == 1 else 'each row'} by its sum")


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
        raise DataError("the range of the values overflows floating point", remedy="rescale them")
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
        raise ParameterError(f"unknown {name} = {value!r}", remedy=f"choose one of {known}")
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
