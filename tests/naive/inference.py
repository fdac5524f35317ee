"""Slow obvious oracles for inference: p-values and limits by enumeration, term by term."""

from __future__ import annotations

import numpy as np


def adjusted_p_by_definition(p, method):
    """Adjusted p-values from their formulas, one rank at a time."""
    m = len(p)
    order = sorted(range(m), key=lambda i: p[i])
    ranked = [p[i] for i in order]
    c = sum(1 / j for j in range(1, m + 1))
    factor = {
        "bonferroni": lambda j: m,
        "holm": lambda j: m - j + 1,
        "hochberg": lambda j: m - j + 1,
        "bh": lambda j: m / j,
        "by": lambda j: c * m / j,
    }
    out = np.empty(m)
    for i in range(1, m + 1):
        if method == "sidak":
            value = 1 - (1 - ranked[i - 1]) ** m
        elif method == "bonferroni":
            value = m * ranked[i - 1]
        else:
            span = range(1, i + 1) if method == "holm" else range(i, m + 1)
            ratios = [ranked[j - 1] * factor[method](j) for j in span]
            value = max(ratios) if method == "holm" else min(ratios)
        out[order[i - 1]] = min(1.0, value)
    return out


def binomial_two_sided_by_definition(k, n, p):
    """The sum of P(i) over every i no more likely than k, in exact fractions."""
    from fractions import Fraction
    from math import comb

    q = Fraction(p)
    chance = [comb(n, i) * q**i * (1 - q) ** (n - i) for i in range(n + 1)]
    return float(sum(c for c in chance if c <= chance[k]))


def binomial_power_by_definition(n, p0, p1, alpha, p_value):
    """The chance under p1 of every count whose p-value is at most alpha."""
    from math import comb

    return sum(comb(n, k) * p1**k * (1 - p1) ** (n - k) for k in range(n + 1) if p_value(k) <= alpha)


def bca_by_definition(values, statistic, replicates, level):
    """Efron's BCa limits with the jackknife done row by row."""
    from scipy import stats

    estimate = statistic(values)
    n = len(values)
    left_out = np.array([statistic(np.delete(values, i)) for i in range(n)])
    d = left_out.mean() - left_out
    a = np.sum(d**3) / (6 * np.sum(d**2) ** 1.5)
    z0 = stats.norm.ppf(np.mean(replicates < estimate) + 0.5 * np.mean(replicates == estimate))
    ends = []
    for tail in ((1 - level) / 2, (1 + level) / 2):
        z = z0 + stats.norm.ppf(tail)
        ends.append(np.quantile(replicates, stats.norm.cdf(z0 + z / (1 - a * z))))
    return a, ends[0], ends[1]


def permutation_p_by_definition(x, y, statistic, kind):
    """P-values (less, greater) over every arrangement, listed one by one."""
    from itertools import combinations, permutations, product

    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    pool = np.concatenate([x, y])
    values = []
    if kind == "groups":
        for chosen in combinations(range(pool.size), x.size):
            rest = [i for i in range(pool.size) if i not in chosen]
            values.append(statistic(pool[list(chosen)], pool[rest]))
    elif kind == "signs":
        for kept in product([True, False], repeat=x.size):
            values.append(statistic(np.where(kept, x, y), np.where(kept, y, x)))
    else:
        values = [statistic(x, y[list(order)]) for order in permutations(range(y.size))]
    seen = statistic(x, y)
    values = np.array(values)
    return np.mean(values <= seen + 1e-12), np.mean(values >= seen - 1e-12)


def betting_interval_by_definition(x, level, grid):
    """Means on a grid whose hedged capital never reached 1/alpha: Waudby-Smith & Ramdas, capital by capital."""
    alpha = 1 - level
    kept = []
    for m in grid:
        up = down = 1.0
        rejected = False
        mean, variance, total, squares = 0.5, 0.25, 0.5, 0.25
        for i, value in enumerate(x, start=1):
            bet = np.sqrt(2 * np.log(2 / alpha) / (variance * i * np.log(1 + i)))
            up *= 1 + min(bet, 0.5 / m) * (value - m)
            down *= 1 - min(bet, 0.5 / (1 - m)) * (value - m)
            rejected |= max(up, down) / 2 >= 1 / alpha
            total += value
            mean = total / (i + 1)
            squares += (value - mean) ** 2
            variance = squares / (i + 1)
        if not rejected:
            kept.append(m)
    return min(kept), max(kept)


def mcnemar_by_enumeration(b, c, alternative):
    """Sum of P(B = i) over all outcomes at least as far out, B ~ Binomial(b + c, 1/2); exact in fractions."""
    from fractions import Fraction
    from math import comb

    m = b + c
    mass = [Fraction(comb(m, i), 2**m) for i in range(m + 1)]
    low, high = sum(mass[: b + 1]), sum(mass[b:])
    return float({"less": low, "greater": high, "two-sided": min(Fraction(1), 2 * min(low, high))}[alternative])


def tango_statistic(d, b, c, n):
    """Score statistic of a paired difference d: the likelihood is maximised over the other parameter by a grid."""
    lo, hi = max(0.0, -d), (1 - d) / 2
    for _ in range(40):
        q = np.linspace(lo, hi, 41)[1:-1]
        rest = 1 - 2 * q - d
        like = b * np.log(q + d) + (c * np.log(q) if c else 0.0) + (n - b - c) * np.log(np.maximum(rest, 1e-300))
        best = q[np.argmax(like)]
        width = (hi - lo) / 20
        lo, hi = max(lo, best - width), min(hi, best + width)
    return (b - c - n * d) / np.sqrt(n * (2 * best + d * (1 - d)))


def corrected_t_by_definition(differences, ratio):
    """Nadeau and Bengio's t statistic, term by term."""
    j = len(differences)
    mean = sum(differences) / j
    variance = sum((d - mean) ** 2 for d in differences) / (j - 1)
    return mean / (variance * (1 / j + ratio)) ** 0.5


def five_by_two_by_definition(differences):
    """Dietterich's t (numerator: the first difference only) and Alpaydin's F, term by term."""
    spreads = []
    for first, second in differences:
        mean = (first + second) / 2
        spreads.append((first - mean) ** 2 + (second - mean) ** 2)
    t = differences[0][0] / (sum(spreads) / 5) ** 0.5
    f = sum(d * d for pair in differences for d in pair) / (2 * sum(spreads))
    return t, f
