"""Slow obvious oracles for metrics: pairs, counts and bins, one at a time."""

from __future__ import annotations

import numpy as np


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
