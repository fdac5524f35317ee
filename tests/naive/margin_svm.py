"""The definitions of support vector machines, solved by general means: slow, obvious, for small problems."""

from __future__ import annotations

import numpy as np
from scipy.optimize import LinearConstraint, minimize


def primal_classes(K, y, C, f, b):
    """|w|^2 / 2 + sum C_i max(0, 1 - y_i (f_i + b)) with f = K beta."""
    beta = np.linalg.lstsq(K, f, rcond=None)[0]
    return 0.5 * beta @ f + np.sum(C * np.maximum(0.0, 1.0 - y * (f + b)))


def quadratic_programme(K, c, eps, lo, hi, *, coupled=True, total=0.0):
    """max c'beta - eps |beta|_1 - beta'K beta / 2 in the box (and with a given sum): the value of the maximum.

    Beta is split into its positive and its negative part, which makes the problem smooth.
    """
    n = len(c)
    top, bottom = np.maximum(hi, 0.0), np.maximum(-lo, 0.0)

    def value(z):
        beta = z[:n] - z[n:]
        return -(c @ beta - eps * z.sum() - 0.5 * beta @ K @ beta)

    def slope(z):
        g = K @ (z[:n] - z[n:]) - c
        return np.concatenate([g, -g]) + eps

    ends = np.concatenate([top, bottom])
    start = np.zeros(2 * n)
    left = total
    for t in range(n):  # a feasible start
        start[t] = min(left, top[t])
        left -= start[t]
    sums = [LinearConstraint(np.concatenate([np.ones(n), -np.ones(n)]), total, total)] if coupled else []
    found = minimize(
        value, start, jac=slope, bounds=list(zip(np.zeros(2 * n), ends, strict=True)), constraints=sums,
        method="SLSQP", options={"maxiter": 2000, "ftol": 1e-15},
    )  # fmt: skip
    z = np.clip(found.x, 0.0, ends)
    return -value(z), z[:n] - z[n:]
