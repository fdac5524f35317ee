"""Limits of beta laws, a million at a time: quantiles of both tails and shortest intervals.

The tail P(x) = I_x(a, b) left of the mean is x^a y^b / B(a, b) over a continued fraction that settles in a few dozen
terms; its inverse is found in t = log x, where log P is nearly straight, by Halley's steps

    g = log P - log p,   g' = f x / P,   g'' = g' (a - (b - 1) x / y - g'),

from an approximation by the normal law; two or three steps reach the last digits. Upper limits are lower limits of the
mirrored law (y for x), so nothing near 1 is rounded away. Shortest intervals: Newton's method for f(l) = f(u) with both
tails adding up to 1 - L (see `_shortest`), in log l and log(1 - u). What lies outside the kernel's range (very small
or very large parameters), or does not settle, goes to scipy's inverse and to bisection.
Didonato and Morris (1992), ACM TOMS 18, 360-373 (the fraction); Abramowitz and Stegun 26.5.22 (the start).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from assay.numerics.jit import kernel

__all__ = ["beta_limits", "beta_quantile"]

Array = np.ndarray
SMALLEST, LARGEST = 0.05, 2e5
"""Below the one a start is hard to find; with a + b above the other the fraction takes too many terms."""


@kernel
def _constant(a: float, b: float) -> float:
    """log of x^a y^b / B(a, b) at x = a / (a + b)."""
    s = a + b
    return 0.5 * math.log(a * b / s) - 0.9189385332046727 - _remainder(a) - _remainder(b) + _remainder(s)


@kernel
def _remainder(a: float) -> float:
    """What Stirling's formula leaves of log Gamma(a + 1)."""
    if a < 15.0:
        return math.lgamma(a + 1.0) - 0.5 * math.log(a) - 0.9189385332046727 - a * math.log(a) + a
    r = 1.0 / (a * a)
    return (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r / 1188)))) / a


@kernel
def _deviance(u: float, v: float) -> float:
    """u log(u / v) + v - u."""
    gap = u - v
    w = gap / (u + v)
    r = w * w
    if r > 0.01:
        return u * math.log(u / v) - gap
    series = r * (1 / 3 + r * (1 / 5 + r * (1 / 7 + r * (1 / 9 + r * (1 / 11 + r * (1 / 13 + r * (1 / 15 + r / 17)))))))
    return gap * w + 2.0 * u * w * series


@kernel
def _weight(a: float, b: float, x: float, y: float, constant: float) -> float:
    """log of x^a y^b / B(a, b)."""
    s = a + b
    return constant - _deviance(a, s * x) - _deviance(b, s * y)


@kernel
def _tail(a: float, b: float, x: float, y: float, weight: float) -> float:
    """I_x(a, b) from its weight x^a y^b / B(a, b); NaN where the fraction does not settle."""
    if x * (a + b) > a:
        return 1.0 - _fraction(b, a, y, x, weight)
    return _fraction(a, b, x, y, weight)


@kernel
def _fraction(a: float, b: float, x: float, y: float, weight: float) -> float:
    """The same for x <= a / (a + b), by the forward recurrence of the fraction, rescaled at every term."""
    c = 1.0 + a - (a + b) * x
    c0, c1 = b / a, 1.0 + 1.0 / a
    yp1 = y + 1.0
    p, s = 1.0, a + 1.0
    an, bn, anp1, bnp1 = 0.0, 1.0, 1.0, c / c1
    r = c1 / c
    for n in range(1, 2000):
        t = n / a
        w = n * (b - n) * x
        e = a / s
        alpha = p * (p + c0) * e * e * (w * x)
        e = (t + 1.0) / (c1 + t + t)
        beta = n + w / s + e * (c + n * yp1)
        p = t + 1.0
        s += 2.0
        t = alpha * an + beta * anp1
        an, anp1 = anp1, t
        t = alpha * bn + beta * bnp1
        bn, bnp1 = bnp1, t
        before = r
        r = anp1 / bnp1
        if abs(r - before) <= 1e-15 * r:
            return weight * r
        an /= bnp1
        bn /= bnp1
        anp1, bnp1 = r, 1.0
    return math.nan


@kernel
def _start(a: float, b: float, p: float, z: float, constant: float) -> float:
    """log of a first guess at the lower p-quantile; z is the normal one, positive for p below one half."""
    s = a + b
    if a > 1.0 and b > 1.0:
        ra, rb = 1.0 / (2.0 * a - 1.0), 1.0 / (2.0 * b - 1.0)
        al, h = (z * z - 3.0) / 6.0, 2.0 / (ra + rb)
        w = z * math.sqrt(max(al + h, 1e-3)) / h - (rb - ra) * (al + 5.0 / 6.0 - 2.0 / (3.0 * h))
        return -math.log1p(b / a * math.exp(min(2.0 * w, 600.0)))
    # x^a y^b / B at the mean, from which the leading power is split off: P ~ x^a / (a B).
    log_b = a * math.log(a / s) + b * math.log(b / s) - constant
    t = (math.log(p * a) + log_b) / a
    limit = math.log(a / s)
    return t if t < limit else limit


@kernel
def _quantile(a: float, b: float, p: float, z: float, constant: float) -> float:
    """log of the lower p-quantile of Beta(a, b); NaN where it was not found."""
    t = _start(a, b, p, z, constant)
    log_p = math.log(p)
    for _ in range(30):
        x, y = math.exp(t), -math.expm1(t)
        if not (x > 1e-290 and y > 1e-290):
            return math.nan
        weight = math.exp(_weight(a, b, x, y, constant))
        tail = _tail(a, b, x, y, weight)
        if not tail > 0.0:
            return math.nan
        g, g1 = math.log(tail) - log_p, weight / (y * tail)
        curve = a - (b - 1.0) * x / y - g1
        newton = g / g1
        bend = 1.0 - 0.5 * newton * curve
        step = newton / (bend if bend > 0.5 else 0.5)
        step = min(max(step, -2.0), 2.0)
        new = t - step
        t = new if new < 0.0 else 0.5 * t
        # Each step cubes the error.
        if abs(step) < 1e-5 * min(1.0, -t) and abs(newton * curve) < 1e-4:
            return t
    return math.nan


@kernel
def _shorten(a: float, b: float, left: float, right: float, miss: float, constant: float, out: Array) -> bool:
    """Newton's method from tails of equal size: log l and log(1 - u) into `out`; False where it did not settle."""
    top, flip = math.log((a - 1.0) / (a + b - 2.0)), math.log((b - 1.0) / (a + b - 2.0))
    left, right = min(left, top - 0.1), min(right, flip - 0.1)
    for _ in range(40):
        x, y = math.exp(left), -math.expm1(left)
        v, u = math.exp(right), -math.expm1(right)  # u is the upper end, v = 1 - u
        if not (x > 1e-290 and y > 0.0 and v > 1e-290 and u > 0.0):
            return False
        log_l, log_u = _weight(a, b, x, y, constant), _weight(a, b, u, v, constant)
        w_l, w_u = math.exp(log_l), math.exp(log_u)
        excess = miss - _tail(a, b, x, y, w_l) - _tail(b, a, v, u, w_u)
        gap = log_l - log_u - left - math.log(y) + right + math.log(u)
        p, q = w_l / y, w_u / u
        rise, fall = (a - 1.0) - (b - 1.0) * x / y, (b - 1.0) - (a - 1.0) * v / u
        det = p * fall + q * rise
        if not det > 0.0:
            return False
        dl, du = (excess * fall - q * gap) / det, (p * gap + rise * excess) / det
        if not (math.isfinite(dl) and math.isfinite(du)):
            return False
        dl, du = min(max(dl, -2.0), 0.5 * (top - left)), min(max(du, -2.0), 0.5 * (flip - right))
        left += dl
        right += du
        if abs(dl) < 1e-9 * min(1.0, -left) and abs(du) < 1e-9 * min(1.0, -right):
            out[0], out[1] = left, right
            return True
    return False


@kernel
def _limits(
    A: Array, B: Array, level: float, z_both: float, z_one: float, short: bool, low: Array, high: Array
) -> None:
    """Fill `low` and `high`; NaN in `low` marks what has to be done another way."""
    ends = np.empty(2)
    miss = 1.0 - level
    for i in range(A.size):
        a, b = A[i], B[i]
        low[i], high[i] = math.nan, math.nan
        if not (min(a, b) >= SMALLEST and a + b <= LARGEST):
            continue
        constant = _constant(a, b)
        if short and (a <= 1.0 or b <= 1.0) and not (a == 1.0 and b == 1.0):
            falls = -math.expm1(_quantile(b, a, miss, z_one, constant)) if a <= 1.0 else math.nan
            rises = math.exp(_quantile(a, b, miss, z_one, constant)) if b <= 1.0 else math.nan
            if a > 1.0 or (b <= 1.0 and 1.0 - rises < falls):
                low[i], high[i] = rises, 1.0
            elif b > 1.0 or falls <= 1.0 - rises:
                low[i], high[i] = 0.0, falls
            continue
        left, right = _quantile(a, b, 0.5 * miss, z_both, constant), _quantile(b, a, 0.5 * miss, z_both, constant)
        if short and not (a == 1.0 and b == 1.0):
            if not _shorten(a, b, left, right, miss, constant, ends):
                continue
            left, right = ends[0], ends[1]
        low[i], high[i] = math.exp(left), -math.expm1(right)


def beta_limits(a: Array, b: Array, level: float, short: bool) -> tuple[Array, Array]:
    """Lower and upper limits of Beta(a, b), equal-tailed or shortest; with two peaks, the shortest at one end."""
    low, high = np.empty(a.size), np.empty(a.size)
    z_both, z_one = -special.ndtri(0.5 * (1.0 - level)), -special.ndtri(1.0 - level)
    _limits(a, b, level, z_both, z_one, short, low, high)
    rest = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high)))
    if rest.size:
        low[rest], high[rest] = _by_scipy(a[rest], b[rest], level, short)
    return low, high


def beta_quantile(a: Array, b: Array, p: Any) -> Array:
    """The p-quantile of Beta(a, b); 0 where it lies below the smallest float, which scipy gives in its place."""
    q = special.betaincinv(a, b, p)
    return np.where(q <= np.finfo(float).tiny, 0.0, q)


def _by_scipy(a: Array, b: Array, level: float, short: bool) -> tuple[Array, Array]:
    tail = 0.5 * (1.0 - level)
    low, high = beta_quantile(a, b, tail), special.betainccinv(a, b, tail)
    if not short:
        return low, high
    flat = (a == 1) & (b == 1)
    falls, rises = special.betaincinv(a, b, level), beta_quantile(a, b, 1.0 - level)
    at_zero = (a <= 1) & ((b > 1) | (falls <= 1.0 - rises)) & ~flat
    at_one = (b <= 1) & ~at_zero & ~flat
    low, high = np.where(at_zero, 0.0, low), np.where(at_zero, falls, high)
    low, high = np.where(at_one, rises, low), np.where(at_one, 1.0, high)
    inner = np.flatnonzero((a > 1) & (b > 1))
    if inner.size:
        from assay.bayes._shortest import by_halving
        from assay.bayes.laws import Beta

        low[inner], high[inner] = by_halving(Beta(a[inner], b[inner]), level)
    return low, high
