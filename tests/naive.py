"""Slow, obvious versions of everything fast: the definitions, no cleverness."""

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


def auc_by_pairs(positive, scores):
    """The share of (positive, negative) pairs in the right order, a tie counting one half."""
    above = [s for s, p in zip(scores, positive, strict=True) if p]
    below = [s for s, p in zip(scores, positive, strict=True) if not p]
    pairs = [(a, b) for a in above for b in below]
    return sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)


def delong_variance_by_definition(positive, scores):
    """DeLong's variance from the m x n table of comparisons."""
    above = [s for s, p in zip(scores, positive, strict=True) if p]
    below = [s for s, p in zip(scores, positive, strict=True) if not p]
    table = np.array([[1.0 if a > b else 0.5 if a == b else 0.0 for b in below] for a in above])
    return table.mean(axis=1).var(ddof=1) / len(above) + table.mean(axis=0).var(ddof=1) / len(below)


def confusion_by_counting(y_true, y_pred, labels):
    """Entry (i, j): rows of class i assigned to j."""
    return [[sum(t == a and p == b for t, p in zip(y_true, y_pred, strict=True)) for b in labels] for a in labels]


def within_cluster_variation_by_pairs(X, labels):
    """The sum over clusters of (1/n_k) times the squared distances of all ordered pairs of members."""
    total = 0.0
    for k in set(labels):
        members = [x for x, c in zip(X, labels, strict=True) if c == k]
        total += sum(float(np.sum((a - b) ** 2)) for a in members for b in members) / len(members)
    return total


def infinitesimal_jackknife(figure, n, step=1e-6):
    """The influence of each row by definition: the slope of figure(weights) in that row's weight, times n."""
    base = np.ones(n)
    out = np.empty(n)
    for i in range(n):
        up, down = base.copy(), base.copy()
        up[i] += step
        down[i] -= step
        out[i] = n * (figure(up) - figure(down)) / (2 * step)
    return out


def calibration_error_by_bins(event, p, n_bins):
    """Mean |share - mean probability| over bins (low, high], weighted by their rows."""
    total = 0.0
    for b in range(n_bins):
        low, high = b / n_bins, (b + 1) / n_bins
        rows = [i for i, v in enumerate(p) if (low < v <= high) or (b == 0 and v == 0)]
        if rows:
            total += abs(sum(event[i] for i in rows) - sum(p[i] for i in rows)) / len(p)
    return total


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
