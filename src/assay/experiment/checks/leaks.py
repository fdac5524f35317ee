"""Columns that leak the target, and missing values associated with it.

Thresholds are constants with their reason beside them. What is tested is corrected for the number of columns (Holm),
and must also show an effect of some size, so that large tables do not raise alarms about nothing.
"""

from __future__ import annotations

import numpy as np
from scipy.special import chdtrc, ndtr

from assay.experiment.checks.facts import Check, Facts, idle, passed
from assay.experiment.checks.profile import Column, Target, auc, ranks, rule_r2, rule_skill, spearman
from assay.inference import adjust_pvalues
from assay.words import listed, plural

__all__ = ["leak", "leak_missing", "missing_target"]

Array = np.ndarray
RHO, R2, AUC, SKILL = 0.99, 0.98, 0.995, 0.98
"""A single column this good is more often a copy of the answer than a discovery."""
SEEN, RAREST = 30, 8
"""Rows, and rows of the rarer class, below which near-perfect power happens by chance."""
ALPHA = 0.001
"""Family-wise error rate of the rules that test: one clean table in a thousand raises a false alarm."""
EFFECT = 0.1
"""Cramer's V or rank correlation below which an association is not mentioned."""


def leak(facts: Facts) -> Check:
    """Columns that predict the target almost perfectly."""
    code, title = "leak", "target leakage"
    if len(facts.target.labels) < 2:
        return idle(code, title, "serious", "the target does not vary")
    found = {column.name: words for column in facts.used if (words := _leakage(column, facts.target))}
    together = _identity(facts) if not found else ()
    if together:
        text = f"{listed(together)} together determine the target exactly, as a weighted sum"
        remedy = "the target is computed from these columns; drop those that are not known before the target"
        return Check(code, title, "found", "serious", text, together, remedy, ("drop", together))
    if not found:
        best = "rank correlation 0.99 or R2 0.98" if facts.target.task == "regression" else "AUC 0.995 or skill 0.98"
        return passed(code, title, "serious", f"no column alone reaches {best}")
    text = "; ".join(f"{name!r} alone reaches {words}" for name, words in list(found.items())[:5])
    remedy = "check when each value becomes known; drop columns that are recorded after the target"
    return Check(code, title, "found", "serious", text, tuple(found), remedy, ("drop", tuple(found)))


def _leakage(column: Column, target: Target) -> str:
    seen = ~column.gaps
    n = int(seen.sum())
    if n < max(SEEN, 0.1 * target.n):
        return ""
    codes, levels = column.bands
    if target.task == "regression":
        assert target.values is not None
        if column.ordered:
            whole = column.missing == 0
            rho = spearman(column.rank, target.rank) if whole else spearman(column.rank[seen], ranks(target.rank[seen]))
            if abs(rho) >= RHO:
                return f"a rank correlation of {rho:.4f}"
        r2 = rule_r2(codes[seen], levels, target.values[seen])
        return f"an R2 of {r2:.3f} on unseen rows" if r2 >= R2 else ""
    y = target.codes[seen]
    counts = np.bincount(y, minlength=len(target.labels))
    if np.sort(counts)[-2] < RAREST:
        return ""
    if column.ordered and np.count_nonzero(counts) == 2:
        area = auc(column.rank[seen], y == np.flatnonzero(counts)[0])
        if max(area, 1 - area) >= AUC:
            return f"an AUC of {max(area, 1 - area):.4f}"
    skill = rule_skill(codes[seen], levels, y, len(target.labels))
    return f"{skill:.1%} skill (0: majority class, 1: perfect) on unseen rows" if skill >= SKILL else ""


def _identity(facts: Facts) -> tuple[str, ...]:
    """Columns whose weighted sum is the target, to rounding: fitted to half of some rows, exact on the other half."""
    whole = [column for column in facts.used if column.kind == "number" and column.ordered and column.missing == 0]
    rows = min(facts.n, 4_000)
    if facts.target.task != "regression" or not 2 <= len(whole) <= min(500, rows // 10):
        return ()
    some = np.linspace(0, facts.n - 1, rows).astype(np.int64)
    X = np.column_stack([_standard(np.asarray(column.values)[some]) for column in whole])
    y = _standard(np.asarray(facts.target.values)[some])
    X = np.column_stack([X, np.ones(rows)])
    weights = np.linalg.lstsq(X[::2], y[::2], rcond=None)[0]
    if np.abs(y[1::2] - X[1::2] @ weights).max() > 1e-7 * np.abs(y).max():
        return ()
    return tuple(column.name for column, weight in zip(whole, weights, strict=False) if abs(weight) > 1e-6)


def _standard(values: Array) -> Array:
    centred = values - values.mean()
    spread = float(np.abs(centred).max())
    return centred / spread if spread > 0 else centred


def leak_missing(facts: Facts) -> Check:
    """Missing values that leak the target."""
    code, title = "leak-missing", "missing values that leak the target"
    gappy = _gappy(facts)
    if not gappy or len(facts.target.labels) < 2:
        return idle(code, title, "serious", "no column has enough missing values")
    found = {column.name: size for column in gappy if (size := _missing_power(column, facts.target)) >= 0.9}
    if not found:
        return passed(code, title, "serious", f"{plural(len(gappy), 'column')} with missing values checked")
    text = "; ".join(
        f"missing values of {name!r} explain {size:.0%} of the target" for name, size in list(found.items())[:5]
    )
    remedy = "a value that is recorded only after the outcome is known leaks it; drop the column"
    return Check(code, title, "found", "serious", text, tuple(found), remedy, ("drop", tuple(found)))


def _missing_power(column: Column, target: Target) -> float:
    """The largest difference in missing rates between classes; or the squared correlation with a numeric target."""
    gaps = column.gaps
    if target.task == "regression":
        return spearman(gaps.astype(float), target.rank) ** 2 / 0.75  # 0.75: the most that two values can reach
    inside = np.bincount(target.codes, weights=gaps, minlength=len(target.labels))
    enough = (target.counts >= RAREST) & (target.n - target.counts >= RAREST)
    if not enough.any():
        return 0.0
    share = inside / np.maximum(target.counts, 1)
    rest = (gaps.sum() - inside) / np.maximum(target.n - target.counts, 1)
    return float(np.abs(share - rest)[enough].max())


def _gappy(facts: Facts) -> list[Column]:
    return [c for c in facts.columns if c.kind != "id" and c.missing >= 5 and c.n - c.missing >= 5]


def missing_target(facts: Facts) -> Check:
    """Missing values associated with the target."""
    code, title = "missing-target", "missing values associated with the target"
    gappy = _gappy(facts)
    if not gappy or len(facts.target.labels) < 2:
        return idle(code, title, "info", "no column has enough missing values")
    tested = [_association(column.gaps, facts.target) for column in gappy]
    holm = adjust_pvalues([p for _, p in tested], "holm", ALPHA)
    found = [c.name for c, (v, _), hit in zip(gappy, tested, holm.rejected, strict=True) if hit and v >= EFFECT]
    if not found:
        return passed(
            code, title, "info", f"{plural(len(gappy), 'column')} with missing values tested, Holm at {ALPHA:g}"
        )
    text = f"missing values are associated with the target in {listed(found)} (Holm-corrected p <= {ALPHA:g})"
    remedy = "learners get a missing-value indicator; check that new rows will have missing values for the same reasons"
    return Check(code, title, "found", "info", text, tuple(found), remedy)


def _association(flag: Array, target: Target) -> tuple[float, float]:
    """Effect and p-value of a yes-or-no column: chi-squared with V for classes, rank-sum with r for numbers."""
    n, m = flag.size, int(flag.sum())
    if target.task == "regression":
        r = spearman(flag.astype(float), target.rank)
        return abs(r), float(2 * ndtr(-abs(r) * np.sqrt(n - 1)))
    table = np.stack([np.bincount(target.codes, weights=w, minlength=len(target.labels)) for w in (flag, ~flag)])
    expected = np.outer([m, n - m], table.sum(axis=0)) / n
    kept = (expected >= 1).all(axis=0)
    if kept.sum() < 2:
        return 0.0, 1.0
    chi2 = float(((table - expected) ** 2 / np.maximum(expected, 1e-300))[:, kept].sum())
    return np.sqrt(chi2 / n), float(chdtrc(kept.sum() - 1, chi2))
