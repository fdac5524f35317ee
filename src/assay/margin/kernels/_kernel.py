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
from functools import cached_property, reduce
from html import escape
from importlib import import_module
from typing import Any, Self

import numpy as np
from scipy import sparse

from assay.base import refuse_not_finite
from assay.errors import DataError, DataTypeError, ParameterError
from assay.margin.kernels._tiles import mirror
from assay.numerics.threads import parallel
from assay.state import Stateful

__all__ = ["Kernel", "Prepared", "View", "is_sparse", "read_numbers"]

Array = np.ndarray

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
    whose Gram matrices have no negative eigenvalue, are closed under `k + h`, `k * h`, `k ** 2`, `2 * k`, `k + 1`,
    `exp(k)`, `normalize(k)` and `k.on(columns)`; `k.valid` says whether a kernel is valid by construction. Kernels are
    values: equal if they are built alike, never changed. float32 rows give a float32 Gram matrix, all others float64.

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

    @property
    def numeric(self) -> bool:
        """Whether rows of numbers are all that it reads; otherwise strings, or columns of several kinds."""
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

    def by_position(self, names: Sequence[str]) -> Kernel:
        """The same kernel for rows whose columns have lost their `names`; only `on(columns)` knows any."""
        del names
        return self

    def on(self, columns: Any) -> Kernel:
        """The kernel of some columns: positions, or names where the rows are a DataFrame.

        >>> from assay.margin.kernels import Linear
        >>> Linear().on([1])([[1.0, 2.0], [1.0, 3.0]]).tolist()
        [[4.0, 6.0], [6.0, 9.0]]
        """
        return _algebra().On(self, columns)

    def __add__(self, other: Any) -> Kernel:
        return _algebra().add(self, other)

    def __mul__(self, other: Any) -> Kernel:
        return _algebra().multiply(self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, degree: int) -> Kernel:
        if isinstance(degree, bool) or not isinstance(degree, int | np.integer) or degree < 1:
            raise ParameterError(f"a kernel to the power of {degree!r}", remedy="use a whole number of at least 1")
        return reduce(lambda made, _: made * self, range(int(degree) - 1), self)

    def __sub__(self, other: Any) -> Kernel:
        what = "the difference of two kernels is not a kernel in general"
        raise ParameterError(what, remedy="use is_valid(lambda A, B: k(A, B) - h(A, B), X) to check it on X")

    def __neg__(self) -> Kernel:
        return self.__sub__(self)

    __rsub__ = __sub__

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
        self._exact_diagonal(out, rows, columns)
        return out

    def _exact_diagonal(self, out: Array, rows: Any, columns: Any) -> None:
        """Put k(x, x) where a row meets itself, instead of what rounding leaves of a distance of zero."""
        every = np.arange(self.n)
        own = every if rows is None else every[rows]
        place = every
        if columns is not None:
            place = np.full(self.n, -1)
            place[columns] = np.arange(out.shape[1])
        met = np.flatnonzero(place[own] >= 0)
        out[met, place[own[met]]] = self.diagonal[own[met]]

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
        raise DataTypeError(f"this kernel needs numbers, got {array.dtype}", remedy="pass real numbers")
    try:
        return np.ascontiguousarray(array, dtype=np.float32 if array.dtype == np.float32 else np.float64)
    except (TypeError, ValueError) as error:
        what = f"this kernel needs numbers, but the rows cannot be converted: {error}"
        raise DataTypeError(what, remedy="select the numeric columns with .on(columns)") from error


def _algebra() -> Any:
    """The kernels made of others, which are kernels themselves and stand in a file that needs this one."""
    return import_module("assay.margin.kernels._algebra")
