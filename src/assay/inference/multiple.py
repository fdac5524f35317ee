"""Many tests at once: adjusted p-values, rejections and how many of them may be false.

With p_(1) <= ... <= p_(m) the adjusted p-value of p_(i) is, capped at 1,

    bonferroni  m p_(i)                                  family-wise error, any dependence
    sidak       1 - (1 - p_(i))^m                        family-wise error, independent tests
    holm        max_{j <= i} (m - j + 1) p_(j)           family-wise error, any dependence
    hochberg    min_{j >= i} (m - j + 1) p_(j)           family-wise error, independent or positively dependent
    bh          min_{j >= i} (m / j) p_(j)               false discovery rate, independent or positively dependent
    by          min_{j >= i} c (m / j) p_(j)             false discovery rate, any dependence; c = 1 + 1/2 + ... + 1/m

Cost: one sort; millions of p-values take the quick road of `_many`.

Holm (1979), Scand. J. Statistics 6, 65-70; Hochberg (1988), Biometrika 75, 800-802; Benjamini &
Hochberg (1995), JRSS B 57, 289-300; Benjamini & Yekutieli (2001), Annals of Statistics 29, 1165-1188.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from assay.checks import choice, fraction, freeze, sample
from assay.errors import DataError
from assay.results import Adjustment

__all__ = ["adjust_pvalues", "family_wise_error_rate"]

Array = np.ndarray
METHODS = ("holm", "bonferroni", "sidak", "hochberg", "bh", "by")
TITLES = {
    "holm": "Holm",
    "bonferroni": "Bonferroni",
    "sidak": "Šidák",
    "hochberg": "Hochberg",
    "bh": "Benjamini-Hochberg",
    "by": "Benjamini-Yekutieli",
}
ANY = "each p-value is valid on its own; they may depend on each other in any way"
POSITIVE = "the p-values are independent or positively dependent (PRDS)"
ASSUMES = {"holm": ANY, "bonferroni": ANY, "sidak": "the p-values are independent", "by": ANY}
FEW = 20_000
"""Below this many p-values a plain sort is as quick, and nothing has to be compiled."""


def adjust_pvalues(p: Any, method: str = "holm", alpha: float = 0.05) -> Adjustment:
    """Correct p-values for their number and say which hypotheses to reject.

        reject hypothesis i  <=>  adjusted_i <= alpha

    | parameter | default | range                                                      | meaning                    |
    |-----------|---------|------------------------------------------------------------|----------------------------|
    | p         |         | numbers in [0, 1]                                          | the p-values, in any order |
    | method    | "holm"  | "holm", "bonferroni", "sidak", "hochberg", "bh", "by"      | see the module             |
    | alpha     | 0.05    | (0, 1)                                                     | the error rate to hold     |

    The result's `estimated_fdp`, m t / R for R rejections with largest p-value t, estimates the share of
    false ones among them without an estimate of how many hypotheses are true.

    Holm (1979); Benjamini & Hochberg (1995).

    >>> result = adjust_pvalues([0.01, 0.02, 0.03, 0.5], method="holm")
    >>> result.adjusted.tolist(), result.rejected.tolist()
    ([0.04, 0.06, 0.06, 0.5], [True, False, False, False])
    """
    method = choice(method, "method", METHODS)
    alpha = fraction(alpha, "alpha")
    values, names = _p_values(p)
    adjusted = _adjusted(values, method)
    rejected = adjusted <= alpha
    found = int(np.count_nonzero(rejected))
    threshold = float(values[rejected].max()) if found else 0.0
    return Adjustment(
        p_values=freeze(values),
        adjusted=freeze(adjusted),
        rejected=freeze(rejected),
        method=TITLES[method],
        alpha=alpha,
        threshold=threshold,
        estimated_fdp=min(1.0, values.size * threshold / found) if found else 0.0,
        controls="false discovery rate" if method in ("bh", "by") else "family-wise error rate",
        assumptions=(ASSUMES.get(method, POSITIVE),),
        names=names,
    )


def family_wise_error_rate(alpha: Any, m: Any, *, independent: bool = True) -> Any:
    """The chance of at least one false rejection among m true hypotheses, each tested at alpha.

        1 - (1 - alpha)^m  for independent tests;    at most min(1, m alpha)  for any

    | parameter   | default | range                     | meaning                                        |
    |-------------|---------|---------------------------|------------------------------------------------|
    | alpha       |         | [0, 1], one or an array   | the level of each test                         |
    | m           |         | whole, >= 0, or an array  | how many true hypotheses are tested            |
    | independent | True    | bool                      | False: the bound that holds for any dependence |

    >>> round(family_wise_error_rate(0.05, 20), 4), family_wise_error_rate(0.05, 30, independent=False)
    (0.6415, 1.0)
    """
    level, number = np.asarray(alpha, dtype=float), np.asarray(m, dtype=float)
    if not np.all((level >= 0) & (level <= 1)):
        raise DataError("alpha has a value outside [0, 1]", remedy="pass probabilities")
    if not np.all((number >= 0) & (number == np.floor(number))) or np.isinf(number).any():
        raise DataError("m must contain whole numbers of at least 0", remedy="pass numbers of tests")
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = -np.expm1(number * np.log1p(-level)) if independent else np.minimum(1.0, number * level)
    rate = np.where(number == 0, 0.0, rate)
    return rate if rate.ndim else float(rate)


def _p_values(p: Any) -> tuple[Array, tuple[str, ...]]:
    labelled = isinstance(p, pd.Series) and not isinstance(p.index, pd.RangeIndex)
    labels = tuple(str(label) for label in p.index) if labelled else ()
    plain = isinstance(p, np.ndarray) and p.dtype == np.float64 and p.ndim == 1 and p.size > 0
    values = np.array(p if plain else _column(p), order="C")  # a copy: the result must not change with the input
    inside = (values >= 0) & (values <= 1)
    if not inside.all():
        at = int(np.argmin(inside))
        what = "NaN" if np.isnan(values[at]) else f"{values[at]:g}, outside [0, 1],"
        raise DataError(f"p contains {what} in position {at}", remedy="drop it or run that test again")
    return values, labels


def _column(p: Any) -> Array:
    values, names = sample(p, "p", finite=False)
    if names:
        raise DataError(f"p is a table of {values.shape[1]} columns", remedy="pass one column of p-values")
    return values[:, 0]


def _adjusted(p: Array, method: str) -> Array:
    m = p.size
    if method == "bonferroni":
        return np.minimum(1.0, m * p)
    if method == "sidak":
        with np.errstate(divide="ignore"):
            return -np.expm1(m * np.log1p(-p))
    constant = float(np.sum(1.0 / np.arange(1, m + 1))) if method == "by" else 1.0
    if m < FEW:
        return _by_definition(p, method, constant)
    from assay.inference import _many  # brings the compiler along, which few p-values do not need

    return _many.adjusted(p, method, constant)


def _by_definition(p: Array, method: str, constant: float) -> Array:
    m = p.size
    order = np.argsort(p)
    rank = np.arange(1, m + 1)
    # Multiplying before dividing keeps round decimals round: .03 x 5 / 3 is .05 and meets alpha = .05.
    ratio = p[order] * (constant * m) / rank if method in ("bh", "by") else p[order] * (m - rank + 1)
    running = np.maximum.accumulate(ratio) if method == "holm" else np.minimum.accumulate(ratio[::-1])[::-1]
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(1.0, running)
    return adjusted
