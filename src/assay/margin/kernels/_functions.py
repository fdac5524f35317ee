"""Kernels from functions: of a feature map, f(x) f(x'), a Gram matrix worked out elsewhere, and wrapped functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels

from assay.errors import DataError, ParameterError
from assay.margin.kernels._kernel import Kernel, View, is_sparse, read_numbers
from assay.margin.kernels._vectors import RBF, Cosine, Laplacian, Linear, Polynomial, Sigmoid, Vectors, inner_products
from assay.margin.kernels._vectors import hold as hold_vectors

__all__ = ["FeatureMap", "Precomputed", "Product", "Wrapped", "named", "wrap"]

Array = np.ndarray


class FeatureMap(Kernel):
    """<phi(x), phi(x')> of a feature map: valid whatever phi is.

    | parameter | default | range    | meaning                                                                       |
    |-----------|---------|----------|-------------------------------------------------------------------------------|
    | phi       |         | function | a table of n rows to n rows of features                                       |
    | rowwise   | False   | bool     | phi takes one row to one vector of features (slower)                          |

    >>> k = FeatureMap(lambda X: np.column_stack([X, X**2]))
    >>> k(np.array([[1.0], [2.0]])).tolist()
    [[2.0, 6.0], [6.0, 20.0]]
    """

    def __init__(self, phi: Callable[[Any], Any], rowwise: bool = False) -> None:
        self.phi, self.rowwise = _function(phi, "phi"), bool(rowwise)

    def _hold(self, X: Any, like: Any = None) -> Vectors:
        return hold_vectors(_apply(self.phi, X, self.rowwise, "phi", 2), like)

    def _tile(self, a: Vectors, b: Vectors, out: Array) -> None:
        inner_products(a, b, out)

    def _diagonal(self, a: Vectors) -> Array:
        return a.squares

    def _formula(self) -> str:
        name = _called(self.phi, "phi")
        return f"<{name}(x), {name}(x')>"


class _Values(View):
    """One number per row."""

    def __init__(self, values: Array) -> None:
        self.values, self.n = values, values.size

    def take(self, rows: Any) -> _Values:
        return _Values(self.values[rows])


class Product(Kernel):
    """f(x) f(x') of a function of one row: a single feature, so valid.

    | parameter | default | range    | meaning                                                                       |
    |-----------|---------|----------|-------------------------------------------------------------------------------|
    | f         |         | function | a table of n rows to n numbers                                                |
    | rowwise   | False   | bool     | f takes one row to one number (slower)                                        |

    >>> Product(lambda X: X[:, 0])(np.array([[2.0], [3.0]])).tolist()
    [[4.0, 6.0], [6.0, 9.0]]
    """

    def __init__(self, f: Callable[[Any], Any], rowwise: bool = False) -> None:
        self.f, self.rowwise = _function(f, "f"), bool(rowwise)

    def _hold(self, X: Any, like: Any = None) -> _Values:
        del like
        values = read_numbers(np.reshape(_apply(self.f, X, self.rowwise, "f", 1), (-1, 1)))
        return _Values(values.ravel().astype(np.float64))

    def _tile(self, a: _Values, b: _Values, out: Array) -> None:
        np.multiply.outer(a.values, b.values, out=out)

    def _diagonal(self, a: _Values) -> Array:
        return a.values**2

    def _formula(self) -> str:
        name = _called(self.f, "f")
        return f"{name}(x) {name}(x')"


class _Gram(View):
    """Rows of a Gram matrix, and which of its columns they are (None: none, they are new)."""

    def __init__(self, X: Array, own: Array | None) -> None:
        self.X, self.own, self.n, self.dtype = X, own, X.shape[0], X.dtype

    def take(self, rows: Any) -> _Gram:
        return _Gram(self.X[rows], None if self.own is None else self.own[rows])


class Precomputed(Kernel):
    """A Gram matrix worked out elsewhere: X is (n, n) of the training rows, (m, n) of new rows with them.

    Not known to be valid; `is_valid` looks.

    >>> held = Precomputed().prepare([[2.0, 1.0], [1.0, 3.0]])
    >>> held.block([1]).tolist(), held.cross([[0.5, 0.7]]).tolist()
    ([[1.0, 3.0]], [[0.5, 0.7]])
    """

    @property
    def valid(self) -> bool:
        """Not by construction."""
        return False

    @property
    def symmetric(self) -> bool:
        """Not by construction."""
        return False

    def _hold(self, X: Any, like: Any = None) -> _Gram:
        rows = read_numbers(X.toarray() if is_sparse(X) else X, None if like is None else like.X.shape[1])
        if like is None and rows.shape[0] != rows.shape[1]:
            what = f"Precomputed metric requires shape (n_queries, n_indexed): X is {rows.shape}, not a square matrix"
            raise DataError(what, remedy="pass the Gram matrix of the training rows with themselves")
        return _Gram(rows, np.arange(rows.shape[0]) if like is None else None)

    def _tile(self, a: _Gram, b: _Gram, out: Array) -> None:
        assert b.own is not None  # training rows
        np.take(a.X, b.own, axis=1, out=out)

    def _diagonal(self, a: _Gram) -> Array:
        if a.own is None:
            what = "a precomputed Gram matrix has no diagonal for new rows"
            raise DataError(what, remedy="normalize the matrix before it is passed")
        return a.X[np.arange(a.n), a.own]

    def _formula(self) -> str:
        return "K"


class _Table(View):
    """Rows as they came."""

    def __init__(self, X: Any) -> None:
        self.X, self.n = X, X.shape[0]

    def take(self, rows: Any) -> _Table:
        return _Table(self.X.iloc[rows] if isinstance(self.X, pd.DataFrame) else self.X[rows])


class Wrapped(Kernel):
    """A function of the user's or of scikit-learn's as a kernel; flagged, since nothing is known about it.

    | parameter | default | range          | meaning                                                                 |
    |-----------|---------|----------------|-------------------------------------------------------------------------|
    | function  |         | function, name | of two tables to their Gram matrix, or scikit-learn's name for one |
    | pairs     | False   | bool           | the function takes two rows to one number (slower)                      |
    | options   | None    | dict           | further arguments                                                       |

    >>> k = Wrapped("chi2", options={"gamma": 0.5})
    >>> k([[1.0, 0.0]], [[0.0, 1.0]]).round(4).tolist(), k.valid
    ([[0.3679]], False)
    """

    @property
    def valid(self) -> bool:
        """Not by construction."""
        return False

    @property
    def symmetric(self) -> bool:
        """Not by construction."""
        return False

    def __init__(
        self, function: Callable[..., Any] | str, pairs: bool = False, options: dict[str, Any] | None = None
    ) -> None:
        self.function = function if isinstance(function, str) else _function(function, "function")
        self.pairs, self.options = bool(pairs), options
        if isinstance(function, str) and function not in PAIRWISE:
            what = f"unknown kernel {function!r}"
            raise ParameterError(what, remedy=f"use one of {', '.join(PAIRWISE)}, or pass a function")

    def _values(self) -> tuple[Any, ...]:
        return self.function, self.pairs, repr(self.options)

    def _hold(self, X: Any, like: Any = None) -> _Table:
        if isinstance(self.function, str):
            return _Table(read_numbers(X, None if like is None else like.X.shape[1]))
        return _Table(X if hasattr(X, "shape") else _rows(X))

    def _tile(self, a: _Table, b: _Table, out: Array) -> None:
        options = self.options or {}
        if isinstance(self.function, str):
            given: Any = self._of_name(_matrix(a.X), _matrix(b.X), options)
        elif self.pairs:
            given = [[self.function(x, z, **options) for z in _each(b.X)] for x in _each(a.X)]
        else:
            given = self.function(a.X, b.X, **options)
        given = np.asarray(given.toarray() if is_sparse(given) else given)
        if given.dtype.kind in "cUSmM":
            raise DataError(f"the kernel {self} returned values of type {given.dtype}", remedy="return real numbers")
        given = given.astype(np.float64)
        if given.shape != out.shape:
            what = f"the kernel {self} returned an array of shape {given.shape} for {a.n} and {b.n} rows"
            raise DataError(
                what, remedy="return one row per row of the first table; for a function of two rows pass pairs=True"
            )
        if not np.isfinite(given).all():
            raise DataError(f"the kernel {self} returned NaN or inf", remedy="return finite numbers")
        out[:] = given

    def _of_name(self, A: Any, B: Any, options: dict[str, Any]) -> Any:
        """One of scikit-learn's, which refuses rows that it is not defined for."""
        try:
            return pairwise_kernels(A, B, metric=self.function, **options)
        except (TypeError, ValueError) as error:
            what = f"the kernel {self} cannot be computed: {' '.join(str(error).split()).rstrip('.')}"
            raise DataError(what, remedy="pass rows that it is defined for, or use another kernel") from error

    def _diagonal(self, a: _Table) -> Array:
        out = np.empty(a.n)
        for start in range(0, a.n, 64):
            part = a.take(slice(start, start + 64))
            block = np.empty((part.n, part.n))
            self._tile(part, part, block)
            out[start : start + 64] = block.diagonal()
        return out

    def _formula(self) -> str:
        return f"{_called(self.function, 'k')}(x, x')"


PAIRWISE = (
    "additive_chi2", "chi2", "cosine", "laplacian", "linear", "poly", "polynomial", "rbf", "sigmoid",
)  # fmt: skip


def wrap(function: Any, *, pairs: bool = False, **options: Any) -> Kernel:
    """A kernel from a function, from a name of scikit-learn's pairwise kernels, or a kernel as it is.

    | parameter | default | range                  | meaning                                                          |
    |-----------|---------|------------------------|------------------------------------------------------------------|
    | function  |         | function, name, Kernel | of two tables to their Gram matrix, or of two rows to a number   |
    | pairs     | False   | bool                   | the function takes two rows                                      |
    | options   |         |                        | further arguments of the function                                |

    >>> k = wrap(lambda x, z: 1 - (x - z) @ (x - z), pairs=True)
    >>> k([[0.0], [2.0]]).tolist()
    [[1.0, -3.0], [-3.0, 1.0]]
    """
    if isinstance(function, Kernel):
        return function
    return Wrapped(function, pairs, options or None)


def named(kernel: Any, *, gamma: float | str = "scale", degree: int = 3, coef0: float = 0.0, **options: Any) -> Kernel:
    """What an estimator's parameter `kernel` means: a kernel, a function of two tables, or scikit-learn's name for one.

    `gamma`, `degree`, `coef0` belong to the names that have them ("chi2" takes a number as gamma, otherwise 1), further
    `options` to wrapped functions.

    >>> print(named("poly", gamma=1.0, degree=2, coef0=1.0), "|", named("precomputed"))
    (<x, x'> + 1)^2 | K
    """
    if isinstance(kernel, str):
        made: dict[str, Callable[[], Kernel]] = {
            "linear": Linear,
            "poly": lambda: Polynomial(degree, gamma, coef0),
            "polynomial": lambda: Polynomial(degree, gamma, coef0),
            "rbf": lambda: RBF(gamma),
            "laplacian": lambda: Laplacian(gamma),
            "sigmoid": lambda: Sigmoid(gamma, coef0),
            "cosine": Cosine,
            "chi2": lambda: wrap("chi2", **({} if isinstance(gamma, str) else {"gamma": gamma}) | options),
            "precomputed": Precomputed,
        }
        if kernel in made:
            return made[kernel]()
        if kernel not in PAIRWISE:
            what = f"unknown kernel {kernel!r}"
            raise ParameterError(what, remedy=f"use one of {', '.join(made)}, a kernel of assay.margin or a function")
    return wrap(kernel, **options)


def _function(value: Any, name: str) -> Any:
    if not callable(value) or isinstance(value, Kernel):
        raise ParameterError(f"{name} = {value!r} is not a function", remedy="pass a function")
    return value


def _called(function: Any, otherwise: str) -> str:
    name = function if isinstance(function, str) else getattr(function, "__name__", "<lambda>")
    return otherwise if name == "<lambda>" else name


def _rows(X: Any) -> Array:
    """Lists as an array; strings and ragged rows as objects."""
    try:
        array = np.asarray(X)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.dtype.kind in "biuf" or (array.ndim == 1 and array.dtype.kind in "US"):
        return array
    out = np.empty(len(X), dtype=object)
    out[:] = list(X)
    return out


def _each(X: Any) -> Any:
    """One row after another."""
    if isinstance(X, pd.DataFrame):
        return [X.iloc[i] for i in range(len(X))]
    return X.toarray() if is_sparse(X) else X


def _matrix(X: Any) -> Any:
    return sparse.csr_matrix(X) if is_sparse(X) else X


def _apply(function: Any, X: Any, rowwise: bool, name: str, ndim: int) -> Any:
    """What the function makes of the rows, one row each."""
    table = X if hasattr(X, "shape") else _rows(X)
    n = table.shape[0]
    made = np.array([np.asarray(function(row)) for row in _each(table)]) if rowwise else function(table)
    made = made if is_sparse(made) else np.asarray(made)
    if made.ndim == 1 and ndim == 2:
        made = made[:, None]
    good = made.shape[0] == n and (ndim == 2 or made.size == n)
    if made.ndim < 1 or not good or made.ndim > 2:
        what = f"{name} returned an array of shape {made.shape} for a table of {n} rows"
        raise DataError(what, remedy="return one row per row; for a function of a single row pass rowwise=True")
    return made
