"""Corrections of ten million p-values beside statsmodels; nine in ten hypotheses are true."""

from __future__ import annotations

import numpy as np
from scipy import special
from statsmodels.stats.multitest import multipletests

from assay.inference import adjust_pvalues
from benchmarks.case import Case

__all__ = ["CASES"]


def p_values(m: int, signals: float):
    rng = np.random.default_rng(0)
    p = rng.random(m)
    hits = int(signals * m)
    p[:hits] = special.ndtr(-np.abs(rng.normal(3.0, 1.0, hits)))
    rng.shuffle(p)
    return p


def disagreement(outcome, p) -> float:
    """The largest breach of the definition: adjusted values against m p / rank, sorted, running minimum."""
    order = np.argsort(p, kind="stable")
    expected = np.minimum(1.0, np.minimum.accumulate((p[order] * p.size / np.arange(1, p.size + 1))[::-1])[::-1])
    return float(np.abs(np.asarray(outcome)[order] - expected).max())


def case(m: int, signals: float, goal: float) -> Case:
    return Case(
        name=f"Benjamini-Hochberg, {m:,} p-values, {100 * signals:g}% signals",
        data=lambda: p_values(m, signals),
        ours=lambda p: adjust_pvalues(p, method="bh").adjusted,
        peers={"statsmodels": lambda p: multipletests(p, method="fdr_bh")[1]},
        quality=disagreement,
        quality_name="largest error of an adjusted p-value",
        goals={"statsmodels": goal},
        slack=1e-12,
        repeats=3,
    )


CASES: list[Case] = [case(10_000_000, 0.1, 2.0), case(1_000_000, 0.0, 2.0)]
