"""Whether there are enough rows of every class and level, and whether the target looks unusual."""

from __future__ import annotations

import numpy as np
from scipy.stats import kurtosis, skew

from assay.experiment.checks.facts import Check, Facts, idle, passed, verb
from assay.words import listed, plural

__all__ = [
    "few_rows",
    "rare_class",
    "rare_levels",
    "target_balance",
    "target_missing",
    "target_tail",
    "target_values",
    "wide",
]

SQUARED = ("rmse", "mse", "r2")
"""Metrics that a few rows far out can dominate; studies judged by others have nothing to change."""


# Counts.


def rare_class(facts: Facts) -> Check:
    """Classes too rare for the folds."""
    code, title = "rare-class", "classes too rare for the folds"
    if facts.target.task == "regression":
        return idle(code, title, "serious", "the target is numeric")
    counts, labels = facts.target.counts, [str(label) for label in facts.target.labels]
    few = [(int(c), label) for c, label in zip(counts, labels, strict=True) if c < 2 * facts.n_folds]
    if not few:
        return passed(code, title, "serious", f"the rarest class has {int(counts.min()):,} rows")
    few.sort()
    rarest, label = few[0]
    text = f"{listed(name for _, name in few)}: {plural(rarest, 'row')} of {label!r} for {facts.n_folds} folds"
    serious = rarest < facts.n_folds
    option = ("cv", (str(rarest),)) if serious and rarest > 1 else None
    remedy = "merge rare classes, collect more rows" + (", or use fewer folds" if rarest > 1 else "")
    return Check(code, title, "found", "serious" if serious else "warning", text, (facts.target.name,), remedy, option)


def rare_levels(facts: Facts) -> Check:
    """Categories with many rare levels."""
    code, title = "rare-levels", "categories with many rare levels"
    categories = [column for column in facts.used if column.kind == "category"]
    if not categories:
        return idle(code, title, "info", "no categorical columns")
    found = [c.name for c in categories if c.counts[c.counts < 5].sum() > 0.05 * (c.n - c.missing)]
    if not found:
        return passed(code, title, "info", f"{plural(len(categories), 'categorical column')} checked")
    text = f"more than 5% of the rows have a level of {listed(found)} that occurs fewer than five times"
    return Check(code, title, "found", "info", text, tuple(found), "rare levels are pooled; merge them by meaning")


def wide(facts: Facts) -> Check:
    """More columns than rows."""
    code, title = "wide", "more columns than rows"
    p = len(facts.used)
    if p < facts.n:
        return passed(code, title, "warning", f"{plural(p, 'column')} for {plural(facts.n, 'row')}")
    text = f"{plural(p, 'column')} that vary, but only {plural(facts.n, 'row')}"
    remedy = "use penalised learners (lasso, ridge), and rely on cross-validated scores rather than coefficients"
    return Check(code, title, "found", "warning", text, (), remedy)


def few_rows(facts: Facts) -> Check:
    """Fewer than two rows per fold."""
    code, title = "few-rows", "too few rows for the folds"
    need = 2 * facts.n_folds
    if facts.n >= need:
        return passed(code, title, "serious", f"{plural(facts.n, 'row')} for {facts.n_folds} folds")
    text = f"{plural(facts.n, 'row')} for {facts.n_folds} folds"
    return Check(code, title, "found", "serious", text, (), "use fewer folds or more rows")


# The target.


def target_missing(facts: Facts) -> Check:
    """Rows without a target."""
    code, title = "target-missing", "rows without a target"
    absent, total = facts.left_out if facts.left_out[0] else (facts.absent, facts.absent + facts.n)
    if absent == 0:
        return passed(code, title, "warning", "every row has a target")
    have = verb(absent, "has no target and is", "have no target and are")
    text = f"{plural(absent, 'row')} of {total:,} ({absent / total:.1%}) {have} left out"
    remedy = "check why they are missing: the results hold only for rows whose target is known"
    severity = "warning" if absent >= 0.05 * total else "info"
    return Check(code, title, "found", severity, text, (facts.target.name,), remedy)


def target_values(facts: Facts) -> Check:
    """A target with too few or too many distinct values."""
    code, title = "target-values", "suspicious number of target values"
    target, kinds = facts.target, len(facts.target.labels)
    if kinds < 2:
        remedy = "nothing can be learned; check the target, or the selection of rows"
        return Check(code, title, "found", "serious", "the target is the same in every row", (target.name,), remedy)
    if target.task == "classification":
        if kinds > 0.5 * target.n or (kinds > 100 and target.n / kinds < 10):
            text = f"{kinds:,} classes in {plural(target.n, 'row')}"
            remedy = (
                "for a numeric target use --task regression; free text and identifiers cannot be predicted as classes"
            )
            return Check(code, title, "found", "serious", text, (target.name,), remedy)
        return passed(code, title, "warning", f"{kinds} classes")
    assert target.values is not None
    if kinds <= 10 and target.n >= 50 and (target.values == np.round(target.values)).all():
        text = f"only {kinds} distinct whole numbers"
        remedy = "if they are labels or grades, predict classes"
        return Check(code, title, "found", "warning", text, (target.name,), remedy, ("task", ("classification",)))
    return passed(code, title, "warning", f"{kinds:,} distinct values")


def target_tail(facts: Facts) -> Check:
    """A heavy-tailed target."""
    code, title = "target-tail", "heavy-tailed target"
    if facts.target.task != "regression" or facts.n < 30 or len(facts.target.labels) <= 10:
        return idle(code, title, "info", "not a numeric target with enough distinct values")
    values = np.asarray(facts.target.values)
    unit = np.abs(values).max()
    tilt, heavy = float(skew(values / unit)), float(kurtosis(values / unit))
    if abs(tilt) <= 2 and heavy <= 10:
        return passed(code, title, "info", f"skewness {tilt:.2f}, excess kurtosis {heavy:.2f}")
    text = f"skewness {tilt:.2f}, excess kurtosis {heavy:.2f}: a few rows dominate every squared error"
    if facts.metric is not None and facts.metric not in SQUARED:
        return passed(code, title, "info", f"{text}; this study is judged by {facts.metric}")
    remedy = "consider the logarithm of a positive target, or --metric mae"
    return Check(code, title, "found", "info", text, (facts.target.name,), remedy, ("metric", ("mae",)))


def target_balance(facts: Facts) -> Check:
    """One class with nearly all rows."""
    code, title = "target-balance", "imbalanced classes"
    if facts.target.task == "regression":
        return idle(code, title, "warning", "the target is numeric")
    share = float(facts.target.counts.max() / facts.n)
    label = str(facts.target.labels[int(facts.target.counts.argmax())])
    if share < 0.9 or len(facts.target.labels) < 2:
        return passed(code, title, "warning", f"the largest class, {label[:40]!r}, has {share:.0%} of the rows")
    text = f"{share:.1%} of the rows are {label[:40]!r}, so always predicting it is right that often"
    if facts.metric is not None and facts.metric not in ("error", "accuracy"):
        return passed(code, title, "warning", f"{text}; this study is judged by {facts.metric}")
    remedy = "judge by --metric balanced_accuracy or, of two classes, --metric auc, not by the error rate"
    return Check(code, title, "found", "warning", text, (facts.target.name,), remedy)
