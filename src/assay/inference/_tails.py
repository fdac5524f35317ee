"""The tail bounds as functions of the deviation, and the solver that turns any of them round.

Each `*_tail(eps, n=...)` is the bound on the probability, cut at one; it falls with eps and with n.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from assay.checks import fraction, number, whole
from assay.errors import ParameterError
from assay.numbers import fmt
from assay.results import Bound

__all__ = [
    "bernstein_half",
    "bernstein_tail",
    "chebyshev_tail",
    "chernoff_tail",
    "hoeffding_tail",
    "kl",
    "left_out",
    "make_bound",
    "markov_tail",
    "solve",
]

MOST = 2**62


def kl(q: Any, p: Any) -> Any:
    """The divergence between two coins."""
    return special.rel_entr(q, p) + special.rel_entr(1 - q, 1 - p)


def markov_tail(threshold: Any, *, mean: float | None) -> Any:
    """P(X >= threshold)."""
    return np.minimum(1.0, mean / np.asarray(threshold, dtype=float))


def chebyshev_tail(eps: Any, *, n: Any, variance: float, sides: int) -> Any:
    """Chebyshev for both sides, Cantelli for one."""
    # One ratio of squares: eps may be so small that its square vanishes.
    ratio = np.square(np.sqrt(variance / n) / eps)
    return np.minimum(1.0, ratio if sides == 2 else ratio / (1 + ratio))


def hoeffding_tail(eps: Any, *, n: Any, width: float, sides: int) -> Any:
    """One or two sides of Hoeffding's bound."""
    return np.minimum(1.0, sides * np.exp(-2 * n * np.square(np.asarray(eps) / width)))


def bernstein_half(spread: Any, n: Any, width: float, log_term: float) -> Any:
    """The half-width of Maurer and Pontil's interval."""
    return spread * np.sqrt(2 * log_term / n) + 7 * width * log_term / (3 * (n - 1))


def bernstein_tail(eps: Any, *, n: Any, variance: float, width: float, sides: int) -> Any:
    """The delta at which the half-width is eps: a L + b sqrt(L) = eps is a quadratic in sqrt(L)."""
    a, b = 7 * width / (3 * (n - 1)), np.sqrt(2 * variance / n)
    root = 2 * np.asarray(eps) / (b + np.sqrt(b**2 + 4 * a * eps))
    return np.minimum(1.0, 2 * sides * np.exp(-(root**2)))


def chernoff_tail(eps: Any, *, n: Any, p: float, tail: str, form: str) -> Any:
    """The sum over the tails asked for; a deviation past the end of [0, 1] has probability zero."""
    eps = np.asarray(eps, dtype=float)
    total = np.zeros(np.broadcast(eps, n).shape)
    for side, sign, room in (("upper", 1.0, 1 - p), ("lower", -1.0, p)):
        if tail in ("both", side):
            possible = eps <= room
            safe = np.where(possible, eps, 0.0)
            if form == "kl":
                exponent = kl(np.clip(p + sign * safe, 0.0, 1.0), p)
            else:
                r = sign * safe / p
                exponent = p * (special.xlog1py(1 + r, r) - r)
            total = total + np.where(possible, np.exp(-n * exponent), 0.0)
    return np.minimum(1.0, total)


def solve(
    method: str,
    asked: tuple[Any, Any, Any],
    tail: Callable[..., Any],
    deviation: Callable[[int, float], float],
    fixed: Mapping[str, float],
    sides: int,
    assumptions: tuple[str, ...],
    *,
    words: tuple[str, str] = ("mean", "mu"),
    least: int = 1,
) -> Bound:
    """Find whichever of n, eps and delta is None from `tail(eps, n=n)` and its inverse in eps."""
    n, eps, delta = asked
    solved = left_out(n=n, eps=eps, delta=delta)
    if n is not None:
        n = whole(n, "n", least)
    if eps is not None:
        eps = number(eps, "eps", 0, strict=True)
    if delta is not None:
        delta = fraction(delta, "delta")
    if delta is None:
        delta = float(tail(eps, n=n))
    elif eps is None:
        eps = deviation(n, delta)
    else:
        n = _smallest(tail, eps, delta, least)
    inside = {2: f"|{words[0]} - {words[1]}|", 1: f"{words[0]} - {words[1]}", -1: f"{words[1]} - {words[0]}"}[sides]
    statement = f"P({inside} >= {fmt(eps, 6)}) <= {fmt(delta, 6)}"
    quantities = {"n": n, "eps": eps, "delta": delta, **fixed}
    return make_bound(method, solved, quantities, statement, assumptions, partial(tail, n=n))


def _smallest(tail: Callable[..., Any], eps: float, delta: float, least: int) -> int:
    """The smallest n that brings the bound to delta, allowing for the last digits of both."""
    goal = delta * (1 + 1e-12)
    low, high = least - 1, least
    while not tail(eps, n=high) <= goal:
        low, high = high, 2 * high
        if high > MOST:
            raise ParameterError(f"eps = {eps:g} needs more than {MOST} values", remedy="allow a larger deviation")
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(eps, n=middle) <= goal else (middle, high)
    return high


def left_out(**quantities: Any) -> str:
    """The name of the one quantity that is None."""
    missing = [name for name, value in quantities.items() if value is None]
    if len(missing) != 1:
        names = ", ".join(quantities)
        words = "none is" if not missing else f"{' and '.join(missing)} are"
        what = f"of {names}, {words} left out"
        raise ParameterError(what, remedy="leave out exactly one; it is computed from the others")
    return missing[0]


def make_bound(
    method: str,
    solved: str,
    quantities: Mapping[str, Any],
    statement: str,
    assumptions: tuple[str, ...],
    tail: Callable[[Any], Any],
    deviation: str = "eps",
) -> Bound:
    """The frozen result."""
    return Bound(method, solved, quantities[solved], dict(quantities), statement, assumptions, deviation, tail)
