"""Kernels of vectors: linear, polynomial, Gaussian, Laplacian, sigmoid, cosine.

Squared distances come from one matrix product, |x - x'|^2 = |x|^2 + |x'|^2 - 2 <x, x'>, of rows centred by the mean of
the training rows (a shift moves no distance, but a large mean would cost digits). Cost: n m p multiply-adds in BLAS and
one pass over the n m entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import manhattan_distances

from assay.constraints import integer, one_of, real
from assay.errors import DataError, ParameterError
from assay.margin.kernels._algebra import Normalized
from assay.margin.kernels._kernel import Kernel, View, is_sparse, read_numbers
from assay.margin.kernels._tiles import LOG2_E, exp_single, exp_tile, manhattan

__all__ = ["RBF", "Cosine", "Laplacian", "Linear", "Polynomial", "Sigmoid", "Vectors"]

Array = np.ndarray

GAMMA = real(0, open_low=True) | one_of("scale", "auto")
LARGEST_GAMMA = 1e307
"""Of columns that hardly vary; 1 / (p var) itself would overflow."""


class Vectors(View):
    """Rows of numbers, their squared lengths, and the mean that was subtracted (None: none)."""

    def __init__(self, X: Any, squares: Array, mean: Array | None = None) -> None:
        self.X, self.squares, self.mean = X, squares, mean
        self.n, self.dtype = X.shape[0], X.dtype

    def take(self, rows: Any) -> Vectors:
        """The same for some rows."""
        return Vectors(self.X[rows], self.squares[rows], self.mean)


def hold(X: Any, like: Vectors | None = None, *, centred: bool = False) -> Vectors:
    """Read rows; new ones are centred as the training rows were, and sparse if those are."""
    rows = read_numbers(X, None if like is None else like.X.shape[1])
    if like is not None and is_sparse(like.X) != is_sparse(rows):
        rows = sparse.csr_array(rows) if is_sparse(like.X) else np.ascontiguousarray(rows.toarray())
    mean = None if like is None else like.mean
    if centred and like is None and not is_sparse(rows):
        mean = rows.mean(axis=0, dtype=np.float64) if rows.size else np.zeros(rows.shape[1])
    if mean is not None:
        rows = np.subtract(rows, mean, dtype=np.float64).astype(rows.dtype, copy=False)
    return Vectors(rows, squared_lengths(rows), mean)


def squared_lengths(rows: Any) -> Array:
    """|x|^2 of dense or sparse rows."""
    with np.errstate(over="ignore"):
        if is_sparse(rows):
            squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel().astype(rows.dtype)
        else:
            squares = np.einsum("ij,ij->i", rows, rows)
    if not np.isfinite(squares).all():
        row = int(np.argmin(np.isfinite(squares)))
        raise DataError(f"the squared length of row {row} overflows", remedy="scale the columns first")
    return squares


def inner_products(a: Vectors, b: Vectors, out: Array) -> None:
    """<x, x'>, by one matrix product."""
    if is_sparse(a.X):
        (a.X @ b.X.T).toarray(out=out)
    else:
        np.matmul(a.X, b.X.T, out=out)


def exponential(out: Array, a: Array, b: Array, factor: float, rate: float) -> None:
    """out <- exp(-rate (a + b' + factor out)), at most 1, in one pass."""
    base = max(-rate * LOG2_E, float(-np.finfo(out.dtype).max))
    if out.dtype == np.float32:
        exp_single(out, a, b, np.float32(factor), np.float32(base))
    else:
        exp_tile(out, a, b, factor, base)


class Linear(Kernel):
    """<x, x'>: the columns themselves are the features.

    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]]).tolist()
    [[11.0]]
    """

    def _hold(self, X: Any, like: Any = None) -> Vectors:
        return hold(X, like)

    def _tile(self, a: Vectors, b: Vectors, out: Array) -> None:
        inner_products(a, b, out)

    def _diagonal(self, a: Vectors) -> Array:
        return a.squares

    def _formula(self) -> str:
        return "<x, x'>"


class _WithGamma(Kernel):
    """A kernel with a rate that may be learnt from the training rows."""

    gamma: float | str

    def _set_gamma(self, gamma: float | str) -> None:
        if not GAMMA.accepts(gamma):
            raise ParameterError(f"gamma = {gamma!r} is out of range", remedy=f"it must be {GAMMA.words}")
        self.gamma = gamma

    def _options(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name in ("degree", "coef0")}

    def resolve(self, X: Any) -> Kernel:
        """The same kernel with gamma as a number."""
        if not isinstance(self.gamma, str):
            return self
        made: Any = type(self)
        return made(gamma=_rate(self.gamma, read_numbers(X)), **self._options())

    def _number(self) -> float:
        assert not isinstance(self.gamma, str)  # resolved before rows are held
        return float(self.gamma)

    def _hold(self, X: Any, like: Any = None) -> Vectors:
        return hold(X, like)

    def _say(self) -> str:
        """Gamma in a formula, as a factor."""
        return "gamma " if isinstance(self.gamma, str) else "" if self.gamma == 1 else f"{self.gamma:g} "


def _rate(asked: str, X: Any) -> float:
    if asked == "auto" or X.shape[0] == 0:
        return 1.0 / X.shape[1]
    if is_sparse(X):
        mean = float(X.sum(dtype=np.float64)) / (X.shape[0] * X.shape[1])
        squares = float((X.data.astype(np.float64) ** 2).sum()) / (X.shape[0] * X.shape[1])
        variance = max(squares - mean**2, 0.0)
    else:
        variance = float(X.var(dtype=np.float64))
    return min(1.0 / (X.shape[1] * variance), LARGEST_GAMMA) if variance > 1.0 / LARGEST_GAMMA else 1.0


class _OfProduct(_WithGamma):
    """A function of gamma <x, x'> + coef0."""

    coef0: float

    def _map(self, out: Array) -> None:
        """Apply the function, in place."""
        raise NotImplementedError

    def _inner(self, out: Array) -> None:
        out *= out.dtype.type(self._number())
        out += out.dtype.type(self.coef0)
        self._map(out)

    def _tile(self, a: Vectors, b: Vectors, out: Array) -> None:
        inner_products(a, b, out)
        self._inner(out)

    def _diagonal(self, a: Vectors) -> Array:
        out = a.squares.copy()
        self._inner(out)
        return out

    def _argument(self) -> str:
        shift = "" if self.coef0 == 0 else f" {'+' if self.coef0 > 0 else '-'} {abs(self.coef0):g}"
        return f"{self._say()}<x, x'>{shift}"


class Polynomial(_OfProduct):
    """(gamma <x, x'> + coef0)^degree: all products of up to `degree` columns; valid unless coef0 is negative.

    | parameter | default | range                     | meaning                                                        |
    |-----------|---------|---------------------------|----------------------------------------------------------------|
    | degree    | 3       | from 1 on                 | the power                                                      |
    | gamma     | "scale" | above 0, "scale", "auto"  | "scale": 1 / (p var X) of the training rows, "auto": 1 / p     |
    | coef0     | 0.0     | finite                    | above 0 lower powers enter as well                             |

    >>> Polynomial(degree=2, gamma=1.0, coef0=1.0)([[1.0, 2.0]], [[3.0, 4.0]]).tolist()
    [[144.0]]
    """

    def __init__(self, degree: int = 3, gamma: float | str = "scale", coef0: float = 0.0) -> None:
        if not integer(1, 1000).accepts(degree):
            raise ParameterError(f"degree = {degree!r}", remedy="it must be a whole number of at least 1")
        _check_finite("coef0", coef0)
        self._set_gamma(gamma)
        self.degree, self.coef0 = degree, coef0

    @property
    def valid(self) -> bool:
        """Whether no power of an inner product has a negative coefficient."""
        return self.coef0 >= 0

    def _hold(self, X: Any, like: Any = None) -> Vectors:
        view = hold(X, like)
        with np.errstate(over="ignore"):
            largest = self._diagonal(view)
        if not np.isfinite(largest).all():
            what = f"{self} overflows for row {int(np.argmin(np.isfinite(largest)))}"
            raise DataError(what, remedy="scale the rows, or choose a smaller degree or gamma")
        return view

    def _map(self, out: Array) -> None:
        """Horner over the bits of the degree: few products, which cost less than a power."""
        bits = f"{self.degree:b}"[1:]
        base = out.copy() if "1" in bits else out
        for bit in bits:
            np.multiply(out, out, out=out)
            if bit == "1":
                np.multiply(out, base, out=out)

    def _formula(self) -> str:
        return f"({self._argument()})^{self.degree}"


class RBF(_WithGamma):
    """exp(-gamma |x - x'|^2): the Gaussian kernel; near rows are alike, all powers of the columns are features.

    | parameter | default | range                     | meaning                                                        |
    |-----------|---------|---------------------------|----------------------------------------------------------------|
    | gamma     | "scale" | above 0, "scale", "auto"  | "scale": 1 / (p var X) of the training rows, "auto": 1 / p     |

    >>> RBF(gamma=1.0)([[0.0], [1.0]], [[2.0]]).round(4).tolist()
    [[0.0183], [0.3679]]
    """

    def __init__(self, gamma: float | str = "scale") -> None:
        self._set_gamma(gamma)

    def _hold(self, X: Any, like: Any = None) -> Vectors:
        return hold(X, like, centred=True)

    def _tile(self, a: Vectors, b: Vectors, out: Array) -> None:
        inner_products(a, b, out)
        exponential(out, a.squares, b.squares, -2.0, self._number())

    def _diagonal(self, a: Vectors) -> Array:
        return np.ones(a.n, dtype=a.dtype)

    def _formula(self) -> str:
        return f"exp(-{self._say()}|x - x'|^2)"


class Laplacian(_WithGamma):
    """exp(-gamma sum_j |x_j - x'_j|): rougher than the Gaussian; no matrix product helps, so it costs more.

    | parameter | default | range                     | meaning                                                        |
    |-----------|---------|---------------------------|----------------------------------------------------------------|
    | gamma     | "scale" | above 0, "scale", "auto"  | "scale": 1 / (p var X) of the training rows, "auto": 1 / p     |

    >>> Laplacian(gamma=1.0)([[0.0, 0.0]], [[1.0, 1.0]]).round(4).tolist()
    [[0.1353]]
    """

    def __init__(self, gamma: float | str = "scale") -> None:
        self._set_gamma(gamma)

    def _tile(self, a: Vectors, b: Vectors, out: Array) -> None:
        if is_sparse(a.X):
            out[:] = manhattan_distances(sparse.csr_matrix(a.X), sparse.csr_matrix(b.X))
        else:
            manhattan(a.X, b.X, out)
        exponential(out, np.zeros(a.n, a.dtype), np.zeros(b.n, b.dtype), 1.0, self._number())

    def _diagonal(self, a: Vectors) -> Array:
        return np.ones(a.n, dtype=a.dtype)

    def _formula(self) -> str:
        return f"exp(-{self._say()}|x - x'|_1)"


class Sigmoid(_OfProduct):
    """tanh(gamma <x, x'> + coef0): flagged, because it is not a kernel for most rows and parameters.

    | parameter | default | range                     | meaning                                                        |
    |-----------|---------|---------------------------|----------------------------------------------------------------|
    | gamma     | "scale" | above 0, "scale", "auto"  | "scale": 1 / (p var X) of the training rows, "auto": 1 / p     |
    | coef0     | 0.0     | finite                    | shift                                                          |

    >>> k = Sigmoid(gamma=1.0, coef0=1.0)
    >>> k.valid, k([[1.0], [2.0]]).round(4).tolist()
    (False, [[0.964, 0.9951], [0.9951, 0.9999]])
    """

    @property
    def valid(self) -> bool:
        """Not by construction."""
        return False

    def __init__(self, gamma: float | str = "scale", coef0: float = 0.0) -> None:
        self._set_gamma(gamma)
        _check_finite("coef0", coef0)
        self.coef0 = coef0

    def _map(self, out: Array) -> None:
        np.tanh(out, out=out)

    def _formula(self) -> str:
        return f"tanh({self._argument()})"


class Cosine(Normalized):
    """<x, x'> / (|x| |x'|): the cosine of the angle between two rows; 0 with a row of zeros.

    >>> Cosine()([[1.0, 0.0], [2.0, 2.0]]).round(4).tolist()
    [[1.0, 0.7071], [0.7071, 1.0]]
    """

    kernel = Linear()

    def __init__(self) -> None:
        """Nothing to choose."""

    def _formula(self) -> str:
        return "<x, x'> / (|x| |x'|)"

    def __repr__(self) -> str:
        return "Cosine()"


def _check_finite(name: str, value: Any) -> None:
    if not real().accepts(value):
        raise ParameterError(f"{name} = {value!r}", remedy="it must be a finite number")
