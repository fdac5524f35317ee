"""Numbers as people write them: 26,625 and not 2.663e+04, 4.9% and not 0.0487, 0.914 and not 0.91385.

One rule for every figure that is printed. Where a figure has an interval, two significant digits of the interval's
half-width decide the decimals of the estimate and of both limits, since further digits are noise; digits before the
decimal point are never rounded away. A figure without an interval has `digits` significant digits and no trailing
zeros. Thousands are grouped. Scientific notation is for numbers below 1e-4 or from 1e15 on alone.
"""

from __future__ import annotations

import math
from typing import Any

__all__ = ["decimals", "figure", "fmt", "limits", "with_limits"]

SMALL, LARGE = 1e-4, 1e15
"""Numbers outside are written with an exponent."""
MOST = 10
"""Decimals at most; a half-width that asks for more is rounding error."""
DIGITS = 4


def fmt(value: Any, digits: int = DIGITS, *, group: bool = True) -> str:
    """A number without an interval: so many significant digits; `group=False` writes cells of a table as they stand.

    >>> fmt(26625.4), fmt(0.91384), fmt(3.0), fmt(0.00012346), fmt(1.5e-7), fmt(12345.6, 6)
    ('26,625', '0.9138', '3', '0.0001235', '1.5e-07', '12,345.6')
    >>> fmt(float("nan")), fmt(float("-inf")), fmt(1987, group=False)
    ('-', '-inf', '1987')
    """
    value = float(value)
    if math.isnan(value):
        return "-"
    if value == 0:
        return "0"
    if not SMALL <= abs(value) < LARGE:
        return f"{value:.{digits}g}"
    return _trimmed(_fixed(value, max(0, digits - 1 - _order(value, digits)), group))


def decimals(lower: Any, upper: Any, estimate: Any = None) -> int | None:
    """How many decimals the interval's half-width leaves; None where it has none to go by.

    >>> decimals(0.871, 0.957), decimals(24100, 29150), decimals(2.0, 2.0)
    (3, 0, None)
    """
    lower, upper = float(lower), float(upper)
    if math.isinf(lower) != math.isinf(upper) and estimate is not None:  # one-sided: the distance to its one limit
        half = abs(float(estimate) - (upper if math.isinf(lower) else lower))
    else:
        half = (upper - lower) / 2
    if not (math.isfinite(half) and half > 0):
        return None
    places = max(0, 1 - _order(half, 2))
    return places if places <= MOST else None


def figure(value: Any, lower: Any = math.nan, upper: Any = math.nan, *, percent: bool = False) -> str:
    """An estimate to the precision of its interval.

    >>> figure(0.91385, 0.871, 0.957), figure(26625.4, 24100, 29150), figure(0.0487, 0.031, 0.07, percent=True)
    ('0.914', '26,625', '4.9%')
    """
    return with_limits(value, lower, upper, percent=percent)[0]


def limits(lower: Any, upper: Any, estimate: Any = None, *, percent: bool = False) -> str:
    """An interval in brackets, to its own precision; an infinite end is open.

    >>> limits(0.871, 0.957), limits(0.031, 0.07, percent=True), limits(float("-inf"), 12.25, 10.0)
    ('[0.871, 0.957]', '[3.1%, 7.0%]', '(-inf, 12.2]')
    """
    _, low, high = with_limits(math.nan if estimate is None else estimate, lower, upper, percent=percent)
    return f"{'(' if math.isinf(lower) else '['}{low}, {high}{')' if math.isinf(upper) else ']'}"


def with_limits(value: Any, lower: Any, upper: Any, *, percent: bool = False) -> tuple[str, str, str]:
    """The estimate and both limits, alike in their decimals; a limit beyond 0 is not rounded to 0.

    >>> with_limits(258.04, 90.4, 425.7), with_limits(0.31, 0.0004, 0.62)
    (('258', '90', '426'), ('0.31', '0.0004', '0.62'))
    >>> with_limits(8.4852e-7, 6.1883e-7, 1.5731e-6), with_limits(-0.00007, 0.817, 0.947)
    (('8.5e-07', '6.2e-07', '1.57e-06'), ('0.000', '0.817', '0.947'))
    """
    scale, mark = (100.0, "%") if percent else (1.0, "")
    three = [scale * float(x) for x in (value, lower, upper)]
    places = decimals(three[1], three[2], three[0])
    plain = SMALL <= max((abs(x) for x in three if math.isfinite(x)), default=0.0) < LARGE
    half = (three[2] - three[1]) / 2
    if not plain and 0 < half < SMALL:
        said = [fmt(x, max(1, 2 + _order(x, 2) - _order(half, 2))) if math.isfinite(x) else fmt(x) for x in three]
    else:
        said = [_fixed(x, places, True) if plain and places is not None and math.isfinite(x) else fmt(x) for x in three]
    if three[1] * three[2] > 0 or math.isinf(three[1]) != math.isinf(three[2]):
        said = [
            fmt(x, 1) if x != 0 and not one.strip("0.") and three[1] <= x <= three[2] else one
            for one, x in zip(said, three, strict=True)
        ]
    first, low, high = (one + mark if math.isfinite(x) else one for one, x in zip(said, three, strict=True))
    return first, low, high


def _order(value: float, digits: int) -> int:
    """The power of ten of the first digit, after rounding to so many digits: 0.0996 to two digits begins at 0.1."""
    return int(f"{value:.{digits - 1}e}".partition("e")[2])


def _fixed(value: float, places: int, group: bool) -> str:
    said = f"{value:{',' if group else ''}.{places}f}"
    return said.lstrip("-") if float(said.replace(",", "")) == 0 else said


def _trimmed(said: str) -> str:
    return said.rstrip("0").rstrip(".") if "." in said else said
