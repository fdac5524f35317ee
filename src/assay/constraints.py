"""Ranges of values, each with a test and the words for it: parameters of estimators and parts of their fitted state."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd

__all__ = [
    "Constraint",
    "any_number",
    "array_like",
    "boolean",
    "instance_of",
    "integer",
    "jobs",
    "none",
    "one_of",
    "real",
    "seed",
    "text",
]


class Constraint:
    """The range of a parameter: a test and the words for it. `a | b` accepts what either accepts.

    >>> level = real(0, 1, open_low=True, open_high=True)
    >>> level.accepts(0.95), level.accepts(1), level.words
    (True, False, 'a number in (0, 1)')
    """

    def __init__(self, accepts: Callable[[Any], bool], words: str) -> None:
        self.accepts = accepts
        self.words = words

    def fits(self, value: Any, sizes: dict[str, int]) -> bool:
        """Whether a fitted attribute is in range, given the sizes that its object's other arrays agree on."""
        del sizes  # only arrays have one
        return self.accepts(value)

    def __or__(self, other: Constraint) -> Constraint:
        return _Either(self, other)


class _Either(Constraint):
    """What one of two constraints accepts."""

    def __init__(self, one: Constraint, other: Constraint) -> None:
        super().__init__(lambda v: one.accepts(v) or other.accepts(v), f"{one.words} or {other.words}")
        self.options = (one, other)

    def fits(self, value: Any, sizes: dict[str, int]) -> bool:
        """Sizes bound by an option that does not fit in the end are forgotten."""
        for option in self.options:
            trial = dict(sizes)
            if option.fits(value, trial):
                sizes.update(trial)
                return True
        return False


def real(low: float = -np.inf, high: float = np.inf, *, open_low: bool = False, open_high: bool = False) -> Constraint:
    """A finite number between two limits, which belong to the range unless they are open."""

    def accepts(value: Any) -> bool:
        if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
            return False
        value = float(value)
        if not np.isfinite(value):
            return False
        above = value > low if open_low else value >= low
        return bool(above and (value < high if open_high else value <= high))

    left = "(" if open_low or low == -np.inf else "["
    right = ")" if open_high or high == np.inf else "]"
    return Constraint(accepts, f"a number in {left}{low:g}, {high:g}{right}")


def integer(low: float = -np.inf, high: float = np.inf) -> Constraint:
    """A whole number between two limits, both included."""

    def accepts(value: Any) -> bool:
        return isinstance(value, Integral) and not isinstance(value, bool) and low <= int(value) <= high

    if low == -np.inf and high == np.inf:
        return Constraint(accepts, "a whole number")
    most = f"{high:,.0f}" if high > 99_999 else f"{high:g}"
    words = f"a whole number of at least {low:g}" if high == np.inf else f"a whole number from {low:g} to {most}"
    return Constraint(accepts, words)


def one_of(*options: Any) -> Constraint:
    """One of a few values, by equality and type."""

    def accepts(value: Any) -> bool:
        return any(type(value) is type(option) and value == option for option in options)

    return Constraint(accepts, " or ".join(repr(option) for option in options))


def instance_of(kind: type | tuple[type, ...], words: str) -> Constraint:
    """An object of the given class."""
    return Constraint(lambda value: isinstance(value, kind), words)


def _is_array(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray | pd.Series | pd.Index)


boolean = instance_of((bool, np.bool_), "True or False")
none = one_of(None)
array_like = Constraint(_is_array, "an array")
seed = none | integer(0, 2**32 - 1) | instance_of((np.random.RandomState, np.random.Generator), "a random generator")
jobs = none | Constraint(
    lambda v: isinstance(v, Integral) and not isinstance(v, bool) and v != 0, "a non-zero whole number"
)
any_number = Constraint(
    lambda v: isinstance(v, Real) and not isinstance(v, bool | np.bool_), "a number, NaN or infinity"
)
text = instance_of(str, "text")
