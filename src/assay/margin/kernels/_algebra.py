"""Kernels made of kernels: sums, products, positive multiples and shifts, exponentials, normalization, some columns.

Each keeps valid kernels valid, because it does something to their features: puts them side by side (+), multiplies each
of one with each of the other (*), scales them, adds a constant one, or takes all their powers (exp).

Schoelkopf, Smola (2002), Learning with Kernels, MIT Press, chapter 13.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from numbers import Real
from typing import Any, cast

import numpy as np
import pandas as pd

from assay.errors import DataError, DataTypeError, ParameterError
from assay.margin.kernels._kernel import Kernel, View

__all__ = ["Exp", "Normalized", "On", "Scaled", "Shifted", "Sum", "Times", "add", "exp", "multiply", "normalize"]

Array = np.ndarray


def add(kernel: Kernel, other: Any) -> Any:
    """k + h, or k + c; k + 0 is k, with which sum() starts."""
    if isinstance(other, Kernel):
        return Sum(kernel, other)
    if isinstance(other, int) and other == 0:
        return kernel
    return Shifted(kernel, _positive(other, "added to")) if isinstance(other, Real) else NotImplemented


def multiply(kernel: Kernel, other: Any) -> Any:
    """k h, or c k."""
    if isinstance(other, Kernel):
        return Times(kernel, other)
    return Scaled(kernel, _positive(other, "multiplied with")) if isinstance(other, Real) else NotImplemented


class _Both(View):
    """The views of two kernels of the same rows."""

    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right
        self.n, self.dtype = left.n, np.result_type(left.dtype, right.dtype)

    def take(self, rows: Any) -> _Both:
        return _Both(self.left.take(rows), self.right.take(rows))


class _Pair(Kernel):
    """Two kernels of the same rows, joined entry by entry."""

    _sign, _ufunc = "", cast(Any, np.add)

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left, self.right = _kernel(left), _kernel(right)

    @property
    def valid(self) -> bool:
        """Whether both are."""
        return self.left.valid and self.right.valid

    @property
    def symmetric(self) -> bool:
        """Whether both are."""
        return self.left.symmetric and self.right.symmetric

    @property
    def numeric(self) -> bool:
        """Whether both are."""
        return self.left.numeric and self.right.numeric

    def resolve(self, X: Any) -> Kernel:
        """Both, resolved."""
        return type(self)(self.left.resolve(X), self.right.resolve(X))

    def by_position(self, names: Sequence[str]) -> Kernel:
        """Both, by position."""
        return type(self)(self.left.by_position(names), self.right.by_position(names))

    def _hold(self, X: Any, like: Any = None) -> _Both:
        left = self.left._hold(X, None if like is None else like.left)
        right = self.right._hold(X, None if like is None else like.right)
        if left.n != right.n:
            raise DataError(f"one kernel got {left.n} rows and the other {right.n}", remedy="pass one table")
        return _Both(left, right)

    def _tile(self, a: _Both, b: _Both, out: Array) -> None:
        left = _filled(self.left, a.left, b.left, out)
        self._ufunc(left, _filled(self.right, a.right, b.right), out=out)

    def _diagonal(self, a: _Both) -> Array:
        return self._ufunc(self.left._diagonal(a.left), self.right._diagonal(a.right))

    def _formula(self) -> str:
        return f"{self.left._inside(self._order)}{self._sign}{self.right._inside(self._order)}"


class Sum(_Pair):
    """k(x, x') + h(x, x'): the features of both, side by side."""

    _sign, _ufunc, _order = " + ", np.add, 1

    def __repr__(self) -> str:
        return f"{self.left!r} + {self.right!r}"


class Times(_Pair):
    """k(x, x') h(x, x'): all products of a feature of k and one of h (Schur 1911)."""

    _sign, _ufunc, _order = " * ", np.multiply, 2

    def __repr__(self) -> str:
        return f"{_bracketed(self.left)} * {_bracketed(self.right)}"


class _Around(Kernel):
    """A kernel made of another one, entry by entry; reads rows as that does."""

    kernel: Kernel

    @property
    def valid(self) -> bool:
        """Whether the inner one is."""
        return self.kernel.valid

    @property
    def symmetric(self) -> bool:
        """Whether the inner one is."""
        return self.kernel.symmetric

    @property
    def numeric(self) -> bool:
        """Whether the inner one is."""
        return self.kernel.numeric

    def resolve(self, X: Any) -> Kernel:
        """The inner kernel, resolved."""
        return self._of(self.kernel.resolve(X))

    def by_position(self, names: Sequence[str]) -> Kernel:
        """The inner kernel, by position."""
        return self._of(self.kernel.by_position(names))

    def _of(self, inner: Kernel) -> Kernel:
        """The same made of another kernel."""
        if inner is self.kernel:
            return self
        made: Any = type(self)
        others = list(inspect.signature(made).parameters)[1:]
        return cast(Kernel, made(inner, *(getattr(self, name) for name in others)))

    def _hold(self, X: Any, like: Any = None) -> Any:
        return self.kernel._hold(X, like)


class Scaled(_Around):
    """c k(x, x') with c > 0: the features times the square root of c."""

    _order = 2

    def __init__(self, kernel: Kernel, factor: float) -> None:
        self.kernel = _kernel(kernel)
        self.factor = _positive(factor, "multiplied with")

    def _tile(self, a: Any, b: Any, out: Array) -> None:
        self.kernel._tile(a, b, out)
        out *= out.dtype.type(self.factor)

    def _diagonal(self, a: Any) -> Array:
        return a.dtype.type(self.factor) * self.kernel._diagonal(a)

    def _formula(self) -> str:
        inner = self.kernel._inside(2)
        return f"{self.factor:g}{' * ' if inner[0].isdigit() else ' '}{inner}"

    def __repr__(self) -> str:
        return f"{self.factor!r} * {_bracketed(self.kernel)}"


class Shifted(_Around):
    """k(x, x') + c with c > 0: one more feature, sqrt(c); `k + 1` is what a column of ones adds to the features."""

    _order = 1

    def __init__(self, kernel: Kernel, value: float) -> None:
        self.kernel = _kernel(kernel)
        self.value = _positive(value, "added to")

    def _tile(self, a: Any, b: Any, out: Array) -> None:
        self.kernel._tile(a, b, out)
        out += out.dtype.type(self.value)

    def _diagonal(self, a: Any) -> Array:
        return self.kernel._diagonal(a) + a.dtype.type(self.value)

    def _formula(self) -> str:
        return f"{self.kernel} + {self.value:g}"

    def __repr__(self) -> str:
        return f"{self.kernel!r} + {self.value!r}"


class Exp(_Around):
    """e^k(x, x'): the sum of all powers k^d / d!."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = _kernel(kernel)

    def _hold(self, X: Any, like: Any = None) -> Any:
        view = self.kernel._hold(X, like)
        largest = float(np.max(self.kernel._diagonal(view), initial=0.0))
        if largest > np.log(np.finfo(view.dtype).max):
            raise self._overflow(largest)
        return view

    def _overflow(self, largest: float) -> DataError:
        what = f"exp({self.kernel}) overflows: the kernel reaches {largest:.4g} on these rows"
        return DataError(what, remedy="scale the rows, multiply the kernel with a small number or normalize it")

    def _tile(self, a: Any, b: Any, out: Array) -> None:
        self.kernel._tile(a, b, out)
        if not self.kernel.valid and out.max(initial=0.0) > np.log(np.finfo(out.dtype).max):
            raise self._overflow(float(out.max()))  # of a valid one the diagonal is the largest
        np.exp(out, out=out)

    def _diagonal(self, a: Any) -> Array:
        return np.exp(self.kernel._diagonal(a))

    def _formula(self) -> str:
        return f"exp({self.kernel})"

    def __repr__(self) -> str:
        return f"exp({self.kernel!r})"


class _Lengths(View):
    """A view and 1/sqrt(k(x, x)) of its rows; 0 for a row of length 0."""

    def __init__(self, inner: Any, inverse: Array) -> None:
        self.inner, self.inverse = inner, inverse
        self.n, self.dtype = inner.n, inner.dtype

    def take(self, rows: Any) -> _Lengths:
        return _Lengths(self.inner.take(rows), self.inverse[rows])


class Normalized(_Around):
    """k(x, x') / sqrt(k(x, x) k(x', x')): the cosine of the angle between features; 0 with a row of length 0."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = _kernel(kernel)

    def _hold(self, X: Any, like: Any = None) -> _Lengths:
        inner = self.kernel._hold(X, None if like is None else like.inner)
        squares = np.asarray(self.kernel._diagonal(inner), dtype=np.float64)
        if (squares < 0).any():
            row = int(np.argmax(squares < 0))
            what = f"{self.kernel} is {squares[row]:.4g} for row {row} with itself, so it cannot be normalized"
            raise DataError(what, remedy="normalize a valid kernel")
        inverse = np.divide(1.0, np.sqrt(squares), out=np.zeros(inner.n), where=squares > 0)
        return _Lengths(inner, inverse.astype(inner.dtype))

    def _tile(self, a: _Lengths, b: _Lengths, out: Array) -> None:
        self.kernel._tile(a.inner, b.inner, out)
        out *= a.inverse[:, None]
        out *= b.inverse

    def _diagonal(self, a: _Lengths) -> Array:
        return (a.inverse > 0).astype(a.dtype)

    def _formula(self) -> str:
        return f"normalize({self.kernel})"

    def __repr__(self) -> str:
        return f"normalize({self.kernel!r})"


class On(_Around):
    """A kernel of some columns only."""

    def __init__(self, kernel: Kernel, columns: Any) -> None:
        self.kernel = _kernel(kernel)
        self.columns = _column_key(columns)

    def resolve(self, X: Any) -> Kernel:
        """The inner kernel, resolved on its columns."""
        return On(self.kernel.resolve(self._part(X)), self.columns)

    def by_position(self, names: Sequence[str]) -> Kernel:
        """The positions of its columns among `names`."""
        part = self._part(pd.DataFrame(np.arange(len(names))[None, :], columns=list(names)))
        return On(self.kernel.by_position(list(part.columns)), part.to_numpy()[0])

    def _part(self, X: Any) -> Any:
        wanted = list(self.columns)
        if isinstance(X, pd.DataFrame):
            named = isinstance(wanted[0], str)
            missing = [name for name in wanted if name not in X.columns] if named else []
            if missing:
                what = f"the kernel uses the column {missing[0]!r}, which is not in the table"
                raise DataError(what, remedy="pass a table with the columns " + ", ".join(map(repr, wanted)))
            return X[wanted] if named else X.iloc[:, _within(wanted, X.shape[1])]
        if isinstance(wanted[0], str):
            what = "the kernel uses columns by name, but the rows have no column names"
            raise DataTypeError(what, remedy="pass a DataFrame, or pass positions to on()")
        X = X if hasattr(X, "shape") and X.ndim == 2 else np.asarray(X, dtype=None if _is_plain(X) else object)
        if X.ndim != 2:
            raise DataError(f"expected a table with columns, got {X.ndim} dimension(s)", remedy="pass a 2-d array")
        return X[:, _within(wanted, X.shape[1])]

    def _hold(self, X: Any, like: Any = None) -> Any:
        return self.kernel._hold(self._part(X), like)

    def _tile(self, a: Any, b: Any, out: Array) -> None:
        self.kernel._tile(a, b, out)

    def _diagonal(self, a: Any) -> Array:
        return self.kernel._diagonal(a)

    def _formula(self) -> str:
        return f"{self.kernel._inside(3)} on {list(self.columns)}"

    def __repr__(self) -> str:
        return f"{_bracketed(self.kernel, 3)}.on({list(self.columns)!r})"


def exp(kernel: Kernel) -> Exp:
    """The exponential of a `kernel`, entry by entry; valid if the kernel is.

    >>> from assay.margin.kernels import Linear
    >>> exp(Linear())([[0.0], [1.0]]).round(3).tolist()
    [[1.0, 1.0], [1.0, 2.718]]
    """
    return Exp(kernel)


def normalize(kernel: Kernel) -> Normalized:
    """A `kernel` divided by the lengths of its features, so that k(x, x) = 1 (0 for a row of length 0).

    >>> from assay.margin.kernels import Polynomial
    >>> normalize(Polynomial(degree=2, gamma=1.0))([[1.0, 0.0], [3.0, 3.0]]).round(3).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    return Normalized(kernel)


def _filled(kernel: Kernel, a: Any, b: Any, out: Array | None = None) -> Array:
    """A tile of a part, in `out` where the type is its own."""
    dtype = np.result_type(a.dtype, b.dtype)
    if out is None or out.dtype != dtype:
        out = np.empty((a.n, b.n), dtype=dtype)
    kernel._tile(a, b, out)
    return out


def _kernel(value: Any) -> Kernel:
    if not isinstance(value, Kernel):
        what = f"expected a kernel, got {value!r}"
        raise ParameterError(what, remedy="use one of assay.margin.kernels, or wrap(f) for a function f")
    return value


def _bracketed(kernel: Kernel, order: int = 2) -> str:
    """A kernel's expression as a factor (2), or with a method called on it (3)."""
    return f"({kernel!r})" if kernel._order < order else repr(kernel)


def _positive(value: Any, verb: str) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real) or not 0 < float(value) < np.inf:
        what = f"a kernel can only be {verb} a positive finite number, got {value!r}"
        raise ParameterError(what, remedy="use a number above 0: other numbers make valid kernels invalid")
    return float(value)


def _column_key(columns: Any) -> tuple[int | str, ...]:
    given: list[Any] = [columns] if isinstance(columns, str | int | np.integer) else list(columns)
    if all(isinstance(one, str) for one in given) and given:
        return tuple(given)
    if given and all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in given):
        return tuple(int(one) for one in given)
    raise ParameterError(f"columns = {columns!r}", remedy="pass one or more positions, or names")


def _within(columns: Sequence[Any], p: int) -> list[int]:
    for column in columns:
        if not -p <= column < p:
            raise DataError(
                f"the kernel uses column {column}, but there are {p} columns", remedy="give positions that exist"
            )
    return list(columns)


def _is_plain(X: Any) -> bool:
    """Whether nested lists hold numbers alone; numpy would turn those beside text into text."""
    return np.asarray(X).dtype.kind in "biuf"
