"""Slow obvious oracles for numerics: exact fractions, rounded once at the end."""

from __future__ import annotations

import numpy as np


def centred_moments(X, Y, w=None):
    """Means and centred cross-products, in exact rational arithmetic, rounded once at the end."""
    from fractions import Fraction

    X, Y = [[[Fraction(float(v)) for v in row] for row in table] for table in (X, Y)]
    w = [Fraction(1)] * len(X) if w is None else [Fraction(float(v)) for v in w]

    def mean(table):
        return [sum(wi * row[j] for wi, row in zip(w, table, strict=True)) / sum(w) for j in range(len(table[0]))]

    def cross(a, ma, b, mb):
        rows = list(zip(w, a, b, strict=True))
        return [
            [sum(wi * (r[i] - ma[i]) * (s[j] - mb[j]) for wi, r, s in rows) for j in range(len(mb))]
            for i in range(len(ma))
        ]

    mx, my = mean(X), mean(Y)
    xx, xy, yy = cross(X, mx, X, mx), cross(X, mx, Y, my), cross(Y, my, Y, my)
    exact = (mx, my, xx, xy, [yy[k][k] for k in range(len(my))])
    return tuple(np.array(part, dtype=float) for part in exact)


def exact_least_squares(X, y, w=None, intercept=True):
    """Coefficients (intercept first), their squared standard errors and the residual sum of squares, as fractions."""
    from fractions import Fraction

    w = [Fraction(1)] * len(y) if w is None else [Fraction(float(v)) for v in w]
    A = [[Fraction(1)] * intercept + [Fraction(float(v)) for v in row] for row in X]
    b = [Fraction(float(v)) for v in y]
    m = len(A[0])
    # Gauss-Jordan on [A'WA | A'Wb | I]: the solution and the inverse at once.
    M = [
        [sum(v * r[i] * r[j] for v, r in zip(w, A, strict=True)) for j in range(m)]
        + [sum(v * r[i] * t for v, r, t in zip(w, A, b, strict=True))]
        + [Fraction(int(i == j)) for j in range(m)]
        for i in range(m)
    ]
    for i in range(m):
        pivot = next(k for k in range(i, m) if M[k][i] != 0)
        M[i], M[pivot] = M[pivot], M[i]
        M[i] = [v / M[i][i] for v in M[i]]
        for k in range(m):
            if k != i and M[k][i] != 0:
                M[k] = [v - M[k][i] * u for v, u in zip(M[k], M[i], strict=True)]
    beta = [M[i][m] for i in range(m)]
    errors = [t - sum(u * v for u, v in zip(r, beta, strict=True)) for r, t in zip(A, b, strict=True)]
    rss = sum(v * e * e for v, e in zip(w, errors, strict=True))
    df = sum(v != 0 for v in w) - m
    return beta, [rss / df * M[i][m + 1 + i] for i in range(m)], rss
