"""What each check looks for and why it matters, in words that stand in the report itself."""

from __future__ import annotations

__all__ = ["ABOUT"]

ABOUT = {
    "leak": (
        "A column that predicts the target almost perfectly is more often a copy of the answer, or written down after "
        "it, than a discovery. A model that uses it looks excellent here and fails where the answer is not known yet."
    ),
    "leak-missing": (
        "Cells that are empty for one outcome and filled for the other give the target away by their gaps. Where "
        "predictions are wanted, the gaps will fall differently."
    ),
    "missing-target": (
        "Gaps that go along with the target carry information. The models see it through an indicator of missing "
        "cells; whether it will be there later is a question about how the table is made."
    ),
    "id": (
        "A column with a value of its own in nearly every row numbers the rows. A model can only learn it by heart."
    ),
    "constant": ("A column that never changes says nothing about the target."),
    "near-constant": (
        "A column with one value nearly everywhere can matter in a handful of rows only, and what it says of them "
        "rests on as few."
    ),
    "duplicate-columns": (
        "Columns that hold the same information share coefficients and importances arbitrarily between them; each "
        "alone looks less important than it is."
    ),
    "duplicate-rows": (
        "Equal rows on both sides of a split let a model be tested on what it has learned by heart. Here equal rows "
        "are kept on one side of the seal; in the folds they may still meet."
    ),
    "contradictions": (
        "Rows with the same columns and different targets set a limit to what any model can reach with these columns."
    ),
    "groups": (
        "Rows from one source (a person, a machine, a place) resemble each other. If they are dealt to both sides of "
        "a split, the figures are too good and the intervals too narrow for a new source. Name the column as the "
        "group."
    ),
    "time": (
        "If rows follow an order in time and neighbours resemble each other, random folds let a model look into the "
        "future. Name the column as the time, and it is tested on what comes later."
    ),
    "rare-class": (
        "A class with fewer rows than folds is missing from some of them, and figures about it rest on almost nothing."
    ),
    "rare-levels": ("Levels that few rows have are pooled, since nothing reliable can be learned about each of them."),
    "wide": (
        "With more columns than rows many models fit the training rows perfectly by chance; only penalised or very "
        "simple ones can be trusted."
    ),
    "few-rows": ("With few rows every figure is uncertain, and folds hold too few rows to tell learners apart."),
    "target-values": (
        "A target with few different values, or text that looks like numbers, may have been taken for the wrong kind "
        "of question."
    ),
    "target-missing": (
        "Rows without a target cannot be learned from or judged. If they are missing for a reason, the rest is not "
        "like them."
    ),
    "target-tail": (
        "A target with a long tail lets a few rows decide every squared figure. Consider its logarithm, or the mean "
        "absolute error."
    ),
    "target-balance": (
        "Where one class is rare, always saying the other is right most of the time, and the error rate says little. "
        "The area under the ROC curve and the precision-recall curve say more."
    ),
    "sample-size": (
        "How many rows a claim needs: the binomial interval for a share, and Hoeffding's bound for the mean of any "
        "loss between 0 and 1."
    ),
    "missing-differs": (
        "If gaps are more frequent on one side, the two parts were not made alike, and the test figure may be about "
        "the gaps."
    ),
    "parts-differ": (
        "If columns are distributed differently in the training and the test rows, the test figure is about rows like "
        "the test rows. Expected when splitting by time, suspicious otherwise."
    ),
}
"""Code -> why it matters; a code that is not here is explained by its title."""
