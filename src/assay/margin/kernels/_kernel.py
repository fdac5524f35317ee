"""What all kernels share: rows are prepared once, Gram matrices are filled tile by tile, sums and products of kernels.

A Gram matrix is cut into tiles that stay in the cache. Each is a task of its own: one product of matrices (BLAS, one
thread) and one pass over its entries. The cut depends on the sizes alone, so the number of cores never changes a bit.
Of a symmetric matrix only the tiles on and above the diagonal are worked out.

Schoelkopf, Smola (2002), Learning with Kernels, MIT Press, chapter 13.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Sequence
from functools import cached_property
from html import escape
from numbers import Real
from typing import Any, Self, cast

import numpy as np
import pandas as pd
from scipy import sparse

from assay.base import refuse_not_finite
from assay.errors import DataError, DataTypeError, ParameterError
from assay.margin.kernels._tiles import mirror
from assay.numerics.threads import parallel
from assay.state import Stateful

__all__ = [
    "Exp",
    "Kernel",
    "Normalized",
    "On",
    "Prepared",
    "Scaled",
    "Shifted",
    "Sum",
    "Times",
    "View",
    "exp",
    "is_sparse",
    "normalize",
    "read_numbers",
]

Array = np.ndarray
Columns = Any

TILE_ROWS, TILE_CELLS, TILE_WIDTH, SQUARE = 256, 1 << 18, 1 << 14, 512
"""A tile has as many cells as stay in the cache; few rows make a wide one."""


class View:
    """Rows as a kernel wants them: whatever it derives from each row once. A subclass says what `take` copies."""

    n: int
    dtype: Any = np.dtype(np.float64)

    def take(self, rows: Any) -> Self:
        """The same for some rows: a slice or indices."""
        raise NotImplementedError


class Kernel(Stateful):
    """A symmetric function k(x, x') of two rows, to be used as an inner product.

    `k(A, B)` is the Gram matrix, `k(A)` that of rows with themselves, `k.diagonal(A)` its diagonal. Valid kernels,
    whose Gram matrices have no negative eigenvalue, are closed under `k + k`, `k * k`, `2 * k`, `k + 1`, `exp(k)`,
    `normalize(k)` and `k.on(columns)`; `k.valid` says whether a kernel is valid by construction. Kernels are values:
    equal if they are built alike, never changed. float32 rows give a float32 Gram matrix, all others float64.

    >>> from assay.margin.kernels import RBF, Linear
    >>> k = RBF(gamma=0.5) + 2 * Linear()
    >>> print(k)
    exp(-0.5 |x - x'|^2) + 2 <x, x'>
    >>> k([[0.0], [1.0]]).round(4).tolist(), k.valid
    ([[1.0, 0.6065], [0.6065, 3.0]], True)
    """

    @property
    def valid(self) -> bool:
        """Whether every Gram matrix is positive semi-definite by construction."""
        return True

    @property
    def symmetric(self) -> bool:
        """Whether k(x, x') = k(x', x) by construction, to the last bit."""
        return True

    # What a kernel defines.

    def _hold(self, X: Any, like: View | None = None) -> Any:
        """The view of rows; `like` is the view of the training rows they will meet."""
        raise NotImplementedError

    def _tile(self, a: Any, b: Any, out: Array) -> None:
        """Fill `out` (contiguous) with the Gram matrix of two views, in this thread."""
        raise NotImplementedError

    def _diagonal(self, a: Any) -> Array:
        """k(x, x) of the rows of a view."""
        raise NotImplementedError

    def _formula(self) -> str:
        """The kernel as mathematicians write it."""
        raise NotImplementedError

    _order = 3
    """How tightly the formula binds: 1 for a sum, 2 for a product, 3 for an atom."""

    # What follows.

    def __call__(self, A: Any, B: Any = None) -> Array:
        """The Gram matrix of A and B, or of A with itself."""
        held = self.prepare(A if B is None else B)
        return held.block() if B is None else held.cross(A)

    def diagonal(self, A: Any) -> Array:
        """k(x, x) of each row."""
        return self.prepare(A).diagonal

    def prepare(self, X: Any) -> Prepared:
        """Read the training rows once; blocks of their Gram matrix follow at the price of a matrix product each."""
        kernel = self.resolve(X)
        return Prepared(kernel, kernel._hold(X))

    def resolve(self, X: Any) -> Kernel:
        """The same kernel with the parameters that depend on the training rows (`gamma="scale"`) as numbers."""
        del X  # most have none
        return self

    def on(self, columns: Columns) -> On:
        """The kernel of some columns: positions, or names where the rows are a DataFrame.

        >>> from assay.margin.kernels import Linear
        >>> Linear().on([1])([[1.0, 2.0], [1.0, 3.0]]).tolist()
        [[4.0, 6.0], [6.0, 9.0]]
        """
        return On(self, columns)

    def __add__(self, other: Any) -> Kernel:
        if isinstance(other, Kernel):
            return Sum(self, other)
        return Shifted(self, _positive(other, "added to")) if isinstance(other, Real) else NotImplemented

    def __mul__(self, other: Any) -> Kernel:
        if isinstance(other, Kernel):
            return Times(self, other)
        return Scaled(self, _positive(other, "multiplied with")) if isinstance(other, Real) else NotImplemented

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in inspect.signature(type(self)).parameters)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={getattr(self, name)!r}" for name in inspect.signature(type(self)).parameters)
        return f"{type(self).__name__}({given})"

    def __str__(self) -> str:
        return self._formula()

    def _repr_html_(self) -> str:
        shown = escape(f"k(x, x') = {self._formula()}", quote=False).replace("'", "&prime;")
        return "<p>" + re.sub(r"\^([\w.]+)", r"<sup>\1</sup>", shown) + "</p>"

    def _inside(self, order: int) -> str:
        """The formula as a part of another one."""
        return f"({self._formula()})" if self._order < order else self._formula()


class Prepared:
    """Training rows as a kernel has read them: blocks of their Gram matrix, and that of new rows with them.

    | attribute  | meaning                                             |
    |------------|-----------------------------------------------------|
    | `kernel`   | with the parameters learnt from the rows as numbers |
    | `n`        | the number of rows                                  |
    | `dtype`    | of all Gram matrices                                |
    | `diagonal` | k(x, x) of each row                                 |

    >>> from assay.margin.kernels import RBF
    >>> held = RBF(gamma=1.0).prepare([[0.0], [1.0], [2.0]])
    >>> held.block([1]).round(3).tolist(), held.cross([[3.0]]).round(3).tolist()
    ([[0.368, 1.0, 0.368]], [[0.0, 0.018, 0.368]])
    """

    def __init__(self, kernel: Kernel, view: Any) -> None:
        self.kernel, self.view = kernel, view
        self.n: int = view.n
        self.dtype: np.dtype = view.dtype

    @cached_property
    def diagonal(self) -> Array:
        """k(x, x) of each row."""
        return np.ascontiguousarray(self.kernel._diagonal(self.view), dtype=self.dtype)

    def block(self, rows: Any = None, columns: Any = None, out: Array | None = None) -> Array:
        """The Gram matrix of some training rows with some (or all) of them; `out` is contiguous, of the same dtype."""
        if rows is None and columns is None:
            return self._whole(out)
        a = self.view if rows is None else self.view.take(rows)
        out = _fill(self.kernel, a, self.view if columns is None else self.view.take(columns), out)
        if columns is None:  # what rounding leaves of a distance of zero
            at = np.arange(self.n)[rows]
            out[np.arange(a.n), at] = self.diagonal[at]
        return out

    def _whole(self, out: Array | None) -> Array:
        out = _fill(self.kernel, self.view, self.view, out, symmetric=self.kernel.symmetric)
        np.fill_diagonal(out, self.diagonal)
        return out

    def cross(self, A: Any, out: Array | None = None) -> Array:
        """The Gram matrix of new rows with the training rows."""
        new = self.kernel._hold(A, self.view)
        return _fill(self.kernel, new, self.view, out)

    def take(self, rows: Any) -> Prepared:
        """The same of some training rows, for folds and pairs of classes."""
        return Prepared(self.kernel, self.view.take(rows))


def _fill(kernel: Kernel, a: Any, b: Any, out: Array | None, *, symmetric: bool = False) -> Array:
    """The Gram matrix of two views, tile by tile; of a symmetric one the square tiles on and above the diagonal."""
    dtype = np.result_type(a.dtype, b.dtype)
    if out is None:
        out = np.empty((a.n, b.n), dtype=dtype)
    elif out.shape != (a.n, b.n) or out.dtype != dtype or not out.flags.c_contiguous:
        what = f"out is a {out.dtype} array of shape {out.shape}"
        raise DataError(what, remedy=f"pass a contiguous {dtype} array of shape {(a.n, b.n)}, or None")
    if out.size == 0:
        return out
    height = min(a.n, SQUARE if symmetric else TILE_ROWS)
    width = height if symmetric else max(1, min(b.n, TILE_WIDTH, TILE_CELLS // height))
    scratch = threading.local()

    def fill(tile: tuple[int, int]) -> None:
        row, column = tile
        part_a, part_b = a.take(slice(row, row + height)), b.take(slice(column, column + width))
        if not hasattr(scratch, "cells"):
            scratch.cells = np.empty(height * width, dtype=dtype)
        cells = scratch.cells[: part_a.n * part_b.n].reshape(part_a.n, part_b.n)
        kernel._tile(part_a, part_b, cells)
        if symmetric and row == column:
            cells = np.triu(cells)
            cells += np.triu(cells, 1).T
        elif symmetric:
            mirror(cells, out, row, column)
        out[row : row + part_a.n, column : column + part_b.n] = cells

    tiles = [(r, c) for r in range(0, a.n, height) for c in range(r if symmetric else 0, b.n, width)]
    # A function of the user's, which is not known to be symmetric, need not be safe in threads either.
    parallel(fill, tiles, n_jobs=-1 if kernel.symmetric else 1, work=out.size * 8.0)
    return out


# The algebra.


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

    def resolve(self, X: Any) -> Kernel:
        """Both, resolved."""
        return type(self)(self.left.resolve(X), self.right.resolve(X))

    def _hold(self, X: Any, like: Any = None) -> _Both:
        left = self.left._hold(X, None if like is None else like.left)
        right = self.right._hold(X, None if like is None else like.right)
        if left.n != right.n:
            raise DataError(f"one kernel reads {left.n} rows and the other {right.n}", remedy="pass one table")
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

    def resolve(self, X: Any) -> Kernel:
        """The inner kernel, resolved."""
        made: Any = type(self)
        others = list(inspect.signature(made).parameters)[1:]
        return cast(Kernel, made(self.kernel.resolve(X), *(getattr(self, name) for name in others)))

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
        return f"{self.factor:g} {self.kernel._inside(2)}"

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
            what = f"exp({self.kernel}) overflows: the kernel reaches {largest:.4g} on these rows"
            raise DataError(what, remedy="scale the rows, multiply the kernel with a small number or normalize it")
        return view

    def _tile(self, a: Any, b: Any, out: Array) -> None:
        self.kernel._tile(a, b, out)
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
            what = f"{self.kernel} is {squares[row]:.4g} for row {row} with itself, so it has no length"
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

    def __init__(self, kernel: Kernel, columns: Columns) -> None:
        self.kernel = _kernel(kernel)
        self.columns = _column_key(columns)

    def resolve(self, X: Any) -> Kernel:
        """The inner kernel, resolved on its columns."""
        return On(self.kernel.resolve(self._part(X)), self.columns)

    def _part(self, X: Any) -> Any:
        wanted = list(self.columns)
        if isinstance(X, pd.DataFrame):
            named = isinstance(wanted[0], str)
            missing = [name for name in wanted if name not in X.columns] if named else []
            if missing:
                what = f"the kernel reads the column {missing[0]!r}, which the table does not have"
                raise DataError(what, remedy="pass a table with the columns " + ", ".join(map(repr, wanted)))
            return X[wanted] if named else X.iloc[:, _within(wanted, X.shape[1])]
        if isinstance(wanted[0], str):
            what = "the kernel reads columns by name, but the rows have none"
            raise DataTypeError(what, remedy="pass a DataFrame, or give positions to on()")
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


# What kernels read.


def is_sparse(X: Any) -> bool:
    """Whether rows are sparse; unlike SciPy's, it tells type checkers nothing, whose idea of sparse has no methods."""
    return bool(sparse.issparse(X))


def read_numbers(X: Any, columns: int | None = None) -> Any:
    """Rows of numbers: a contiguous array or a CSR array, float32 where it was, else float64."""
    if is_sparse(X):
        rows: Any = sparse.csr_array(X)
        rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
    else:
        array = np.asarray(X)
        if array.ndim != 2:
            what = f"expected rows of numbers in two dimensions, got {array.ndim}"
            raise DataError(what, remedy="use X.reshape(-1, 1) for a single column")
        rows = _as_floats(array)
    if columns is not None and rows.shape[1] != columns:
        what = f"the rows have {rows.shape[1]} columns, but the training rows have {columns}"
        raise DataError(what, remedy=f"pass rows with {columns} columns")
    refuse_not_finite(rows)
    return rows


def _as_floats(array: Array) -> Array:
    if array.dtype.kind in "cMm":
        raise DataTypeError(f"this kernel reads numbers, got {array.dtype}", remedy="pass real numbers")
    try:
        return np.ascontiguousarray(array, dtype=np.float32 if array.dtype == np.float32 else np.float64)
    except (TypeError, ValueError) as error:
        what = f"this kernel reads numbers, but the rows cannot be read as such: {error}"
        raise DataTypeError(what, remedy="use .on(columns) for the columns that are numbers") from error


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
        raise ParameterError(what, remedy="use one of assay.margin.kernels; wrap(f) makes one of a function")
    return value


def _bracketed(kernel: Kernel, order: int = 2) -> str:
    """A kernel's expression as a factor (2), or with a method called on it (3)."""
    return f"({kernel!r})" if kernel._order < order else repr(kernel)


def _positive(value: Any, verb: str) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real) or not 0 < float(value) < np.inf:
        what = f"a kernel can only be {verb} a positive finite number, got {value!r}"
        raise ParameterError(what, remedy="a negative multiple of a kernel is not a kernel")
    return float(value)


def _column_key(columns: Any) -> tuple[int | str, ...]:
    given: list[Any] = [columns] if isinstance(columns, str | int | np.integer) else list(columns)
    if all(isinstance(one, str) for one in given) and given:
        return tuple(given)
    if given and all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in given):
        return tuple(int(one) for one in given)
    raise ParameterError(f"columns = {columns!r}", remedy="give one or more positions, or names")


def _within(columns: Sequence[Any], p: int) -> list[int]:
    for column in columns:
        if not -p <= column < p:
            raise DataError(f"the kernel reads column {column}, but there are {p}", remedy="give positions that exist")
    return list(columns)


def _is_plain(X: Any) -> bool:
    """Whether nested lists hold numbers alone; numpy would turn those beside text into text."""
    return np.asarray(X).dtype.kind in "biuf"
