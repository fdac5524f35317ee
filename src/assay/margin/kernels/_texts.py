"""Kernels of strings: shared substrings, and the edit distance.

    spectrum  k(s, t) = sum over all substrings u of length k of (times u occurs in s) (times u occurs in t)
    edit      k(s, t) = exp(-scale d(s, t)),  d = fewest insertions, deletions and replacements (Levenshtein)

Leslie, Eskin, Noble (2002), Pacific Symposium on Biocomputing 7, 566-575.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from assay.constraints import integer, real
from assay.errors import DataError, DataTypeError, ParameterError
from assay.margin.kernels._kernel import Kernel, View, is_sparse
from assay.margin.kernels._tiles import edit_distances

__all__ = ["EditDistance", "StringSpectrum"]

Array = np.ndarray


def read_texts(X: Any) -> list[str]:
    """Rows that are strings: a list, a vector, a Series, or a table with one column."""
    if isinstance(X, str) or is_sparse(X):
        raise DataTypeError("this kernel needs a list of strings", remedy="pass one string per row")
    if isinstance(X, pd.DataFrame | np.ndarray) and X.ndim == 2:
        if X.shape[1] != 1:
            what = f"this kernel needs one column of strings, got {X.shape[1]} columns"
            raise DataError(what, remedy="choose one with .on([column])")
        X = X.iloc[:, 0] if isinstance(X, pd.DataFrame) else X[:, 0]
    texts = [one[0] if isinstance(one, list | tuple | np.ndarray) and len(one) == 1 else one for one in X]
    for row, one in enumerate(texts):
        if not isinstance(one, str):
            what = f"this kernel needs strings, got {one!r} in row {row}"
            raise DataTypeError(what, remedy="pass one string per row, or convert with str()")
    return [str(one) for one in texts]


class _Counts(View):
    """How often each known substring occurs (CSR), and k(s, s) with the unknown ones."""

    def __init__(self, X: Any, squares: Array, known: dict[str, int]) -> None:
        self.X, self.squares, self.known, self.n = X, squares, known, X.shape[0]

    def take(self, rows: Any) -> _Counts:
        return _Counts(self.X[rows], self.squares[rows], self.known)


class StringSpectrum(Kernel):
    """The number of pairs of equal substrings of length `k` in two strings: an inner product of counts, so valid.

    >>> StringSpectrum(k=2)(["banana", "bandana"]).tolist()
    [[9.0, 7.0], [7.0, 8.0]]
    """

    @property
    def numeric(self) -> bool:
        """It reads strings."""
        return False

    def __init__(self, k: int = 3) -> None:
        if not integer(1).accepts(k):
            raise ParameterError(f"k = {k!r}", remedy="it must be a whole number of at least 1")
        self.k = k

    def _hold(self, X: Any, like: Any = None) -> _Counts:
        known: dict[str, int] = {} if like is None else like.known
        columns: list[int] = []
        times: list[int] = []
        ends = [0]
        for s in read_texts(X):
            counted = Counter([s[at : at + self.k] for at in range(len(s) - self.k + 1)])
            if like is None:
                columns += [known.setdefault(piece, len(known)) for piece in counted]
            else:
                columns += [known.get(piece, -1) for piece in counted]
            times += counted.values()
            ends.append(len(times))
        place, count = np.array(columns, dtype=np.int64), np.array(times, dtype=np.float64)
        row = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        squares = np.bincount(row, count * count, minlength=len(ends) - 1).astype(np.float64)
        seen = place >= 0
        shape = (len(ends) - 1, max(1, len(known)))
        table = sparse.csr_array((count[seen], (row[seen], place[seen])), shape=shape)
        return _Counts(table, squares, known)

    def _tile(self, a: _Counts, b: _Counts, out: Array) -> None:
        (a.X @ b.X.T).toarray(out=out)

    def _diagonal(self, a: _Counts) -> Array:
        return a.squares

    def _formula(self) -> str:
        return f"#(common substrings of length {self.k})"


class _Strings(View):
    """Strings as numbers of their characters."""

    def __init__(self, texts: list[Array]) -> None:
        self.texts, self.n = texts, len(texts)

    def take(self, rows: Any) -> _Strings:
        if isinstance(rows, slice):
            return _Strings(self.texts[rows])
        return _Strings([self.texts[i] for i in np.arange(self.n)[rows]])

    def flat(self) -> tuple[Array, Array]:
        """All characters in a row, and where each string starts."""
        starts = np.zeros(self.n + 1, dtype=np.int64)
        np.cumsum([one.size for one in self.texts], out=starts[1:])
        return np.concatenate([*self.texts, np.empty(0, dtype=np.int32)]).astype(np.int32), starts


class EditDistance(Kernel):
    """exp(-scale d(s, t)) of the edit distance d: flagged, because it is not a kernel for all strings.

    With scale = 1 the Gram matrix of all strings over {a, b} up to length 4 has the eigenvalue -0.043.

    >>> EditDistance(scale=1.0)(["kitten"], ["sitting"]).round(4).tolist()
    [[0.0498]]
    """

    @property
    def valid(self) -> bool:
        """Not by construction."""
        return False

    @property
    def numeric(self) -> bool:
        """It reads strings."""
        return False

    def __init__(self, scale: float = 1.0) -> None:
        if not real(0, open_low=True).accepts(scale):
            raise ParameterError(f"scale = {scale!r}", remedy="it must be a positive number")
        self.scale = scale

    def _hold(self, X: Any, like: Any = None) -> _Strings:
        del like
        return _Strings([np.frombuffer(s.encode("utf-32-le", "surrogatepass"), dtype=np.int32) for s in read_texts(X)])

    def _tile(self, a: _Strings, b: _Strings, out: Array) -> None:
        edit_distances(*a.flat(), *b.flat(), out)
        out *= -self.scale
        np.exp(out, out=out)

    def _diagonal(self, a: _Strings) -> Array:
        return np.ones(a.n)

    def _formula(self) -> str:
        return f"exp(-{'' if self.scale == 1 else f'{self.scale:g} '}edit(x, x'))"
