"""What each check looks for and why it matters, as printed in the report."""

from __future__ import annotations

__all__ = ["ABOUT"]

ABOUT = {
    "error-tail": (
        "Where a few rows make up most of the error, the figure describes these rows more than the others, and its "
        "interval may be too short. Whether to use a metric that depends less on them must be decided on training "
        "rows, before the test set is opened; afterwards the result would make the choice."
    ),
    "leak": (
        "A column that predicts the target almost perfectly is more often a copy of the target, or recorded after it, "
        "than a discovery. A model that uses it looks excellent here and fails where the target is not known yet."
    ),
    "leak-missing": (
        "Values that are missing for one outcome and present for the other leak the target. When the model is used, "
        "values will be missing for other reasons."
    ),
    "missing-target": (
        "Missing values that are associated with the target carry information, which the models see through an "
        "indicator column. Whether that holds for new rows depends on how the data are collected."
    ),
    "id": ("A column with a different value in nearly every row identifies the row. A model can only memorise it."),
    "sentinel": (
        "A learner takes a -999 that stands for a missing value for a very small measurement, and one such target "
        "outweighs all other errors."
    ),
    "as-text": (
        "Numbers and dates that are read as words become a category for each value: their order is lost, and most "
        "values are too rare to learn from."
    ),
    "constant": ("A column that never varies says nothing about the target."),
    "near-constant": (
        "A column with one value nearly everywhere can matter for a handful of rows only, and its effect is estimated "
        "from those few."
    ),
    "duplicate-columns": (
        "Columns with the same information split coefficients and importances arbitrarily among them; each looks less "
        "important than it is."
    ),
    "duplicate-rows": (
        "Equal rows on both sides of a split let a model be tested on rows it has memorised. The seal keeps equal rows "
        "on one side; the folds of the cross-validation may still separate them."
    ),
    "contradictions": (
        "Rows with equal features but different targets limit how well any model can do with these columns."
    ),
    "groups": (
        "Rows from one source (a person, a machine, a place) are alike. If they are on both sides of a split, scores "
        "are too optimistic and intervals too narrow for a new source. Declare the column with --group."
    ),
    "time": (
        "If rows are ordered in time and neighbours are alike, random folds let a model look into the future. Declare "
        "the column with --time, and the model is tested on later rows."
    ),
    "rare-class": (
        "A class with fewer rows than folds is missing from some folds, and its scores rest on almost no data."
    ),
    "rare-levels": ("Rare levels are pooled, since nothing reliable can be learned about each of them."),
    "wide": (
        "With more columns than rows many models fit the training rows perfectly by chance; only penalised or very "
        "simple ones can be trusted."
    ),
    "unfinished": (
        "Learners that the time limit left unfinished might have been better, and a look cannot be taken back. "
        "assay resume finishes them."
    ),
    "few-rows": ("With few rows every estimate is uncertain, and folds are too small to distinguish learners."),
    "target-values": (
        "A target with few distinct values, or with as many classes as rows, may have been given the wrong task "
        "(regression or classification)."
    ),
    "target-missing": (
        "Rows without a target cannot be used. If targets are missing for a reason, the remaining rows are not "
        "representative."
    ),
    "target-tail": (
        "With a heavy-tailed target a few rows dominate every squared error. Consider its logarithm, or the mean "
        "absolute error."
    ),
    "target-balance": (
        "Where one class is rare, always predicting the other is right most of the time, so the error rate says "
        "little. The area under the ROC curve and the precision-recall curve say more."
    ),
    "sample-size": (
        "How many rows an estimate needs, or groups where rows come in groups: 5 points of a rate, or a tenth of the "
        "figure of a regression, as where the size of the test set is chosen; and Hoeffding's bound for the mean of "
        "any loss between 0 and 1."
    ),
    "missing-differs": (
        "If missing values are more frequent on one side, the two parts were not collected in the same way, and the "
        "test score may reflect that."
    ),
    "parts-differ": (
        "If columns are distributed differently in the training and the test rows, the test score is for rows like "
        "the test rows. Expected when splitting by time, suspicious otherwise."
    ),
}
"""Code -> why it matters; a code that is not here is explained by its title."""
