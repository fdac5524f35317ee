"""Kernels as an algebra: inner products of features that are never written down (row B8).

    k(x, x') = <phi(x), phi(x')>       valid exactly when no Gram matrix K_ij = k(x_i, x_j) has a negative eigenvalue

Leaves read vectors, strings, or whatever a function reads; `+`, `*`, positive factors and shifts, `exp`, `normalize`
and `.on(columns)` combine them and keep them valid. What is not valid by construction (`k.valid`) is checked on rows:
`is_valid(k, X)` returns the spectrum and, where it is negative, a counter-example. A Gram matrix of n x m rows with p
columns costs n m p multiply-adds in BLAS and one pass over its entries.

Schoelkopf, Smola (2002), Learning with Kernels, MIT Press.

>>> from assay.margin.kernels import RBF, Linear, StringSpectrum
>>> k = RBF(gamma=1.0).on([0]) * StringSpectrum(2).on([1]) + 1
>>> print(k)
exp(-|x - x'|^2) on [0] * #(common substrings of length 2) on [1] + 1
>>> k([[0.0, "abab"], [1.0, "aba"]]).round(3).tolist()
[[6.0, 2.104], [2.104, 3.0]]
"""

from assay.margin.kernels._functions import FeatureMap, Precomputed, Product, Wrapped, named, wrap
from assay.margin.kernels._kernel import (
    Exp,
    Kernel,
    Normalized,
    On,
    Prepared,
    Scaled,
    Shifted,
    Sum,
    Times,
    exp,
    normalize,
)
from assay.margin.kernels._texts import EditDistance, StringSpectrum
from assay.margin.kernels._validity import Validity, is_valid
from assay.margin.kernels._vectors import RBF, Cosine, Laplacian, Linear, Polynomial, Sigmoid

__all__ = [
    "RBF",
    "Cosine",
    "EditDistance",
    "Exp",
    "FeatureMap",
    "Kernel",
    "Laplacian",
    "Linear",
    "Normalized",
    "On",
    "Polynomial",
    "Precomputed",
    "Prepared",
    "Product",
    "Scaled",
    "Shifted",
    "Sigmoid",
    "StringSpectrum",
    "Sum",
    "Times",
    "Validity",
    "Wrapped",
    "exp",
    "is_valid",
    "named",
    "normalize",
    "wrap",
]
