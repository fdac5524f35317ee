"""AUC with DeLong's interval beside scikit-learn's AUC alone, on a million scores."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from assay.metrics import auc, average_precision
from benchmarks.case import Case

__all__ = ["CASES"]


def scores(n: int, digits: int | None = None):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    s = rng.normal(size=n) + y
    return y, s if digits is None else np.round(s, digits)


def by_ranks(outcome, data) -> float:
    """The distance from the rank-sum formula."""
    y, s = data
    _, place, size = np.unique(s, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(size) - (size - 1) / 2)[place]
    m, n = int(y.sum()), int((1 - y).sum())
    return abs(outcome - (ranks[y == 1].sum() - m * (m + 1) / 2) / (m * n))


def by_scikit_learn(outcome, data) -> float:
    return abs(outcome - average_precision_score(*data))


def area(name: str, digits: int | None) -> Case:
    return Case(
        name=name,
        data=lambda: scores(1_000_000, digits),
        ours=lambda d: auc.interval(*d).estimate,
        peers={"scikit-learn roc_auc_score (no interval)": lambda d: roc_auc_score(*d)},
        quality=by_ranks,
        quality_name="distance from the rank-sum formula",
        goals={"scikit-learn roc_auc_score (no interval)": 1 / 1.5},
        slack=1e-12,
        repeats=5,
    )


CASES: list[Case] = [
    area("AUC with DeLong's interval, 1,000,000 scores", None),
    area("AUC with DeLong's interval, 1,000,000 scores with ties", 2),
    Case(
        name="average precision with its interval, 1,000,000 scores",
        data=lambda: scores(1_000_000),
        ours=lambda d: average_precision.interval(*d).estimate,
        peers={"scikit-learn average_precision_score (no interval)": lambda d: average_precision_score(*d)},
        quality=by_scikit_learn,
        quality_name="distance from scikit-learn",
        slack=1e-12,
        repeats=5,
        cold=True,
    ),
]
