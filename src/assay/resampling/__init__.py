"""Splitting rows into training and test parts, and choosing along a cross-validated curve (rows H1, H2).

Our splitters work in scikit-learn and scikit-learn's work here: whoever asks for `cv` takes either, a number of
folds, or (train, test) pairs.
"""

from __future__ import annotations

from assay.resampling.folds import (
    cv_mean_and_error,
    folds,
    folds_constraint,
    is_partition,
    one_standard_error,
    take,
)
from assay.resampling.partitions import Partition, Splits, partitions_of, row_numbers
from assay.resampling.scheme import (
    AllButOne,
    Scheme,
    corrected_variance_factor,
    group_codes,
    nested,
    scheme_of,
    splits_of,
    whole_groups,
)
from assay.resampling.splitters import Bootstrap, FiveByTwo, Folds, Holdout, LeaveOneOut, Splitter, TimeFolds

__all__ = [
    "AllButOne",
    "Bootstrap",
    "FiveByTwo",
    "Folds",
    "Holdout",
    "LeaveOneOut",
    "Partition",
    "Scheme",
    "Splits",
    "Splitter",
    "TimeFolds",
    "corrected_variance_factor",
    "cv_mean_and_error",
    "folds",
    "folds_constraint",
    "group_codes",
    "is_partition",
    "nested",
    "one_standard_error",
    "partitions_of",
    "row_numbers",
    "scheme_of",
    "splits_of",
    "take",
    "whole_groups",
]
