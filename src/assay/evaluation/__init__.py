"""Judging learners (rows H2, H4-H6, G6): anything with fit and predict, figures with intervals, tests that fit."""

from __future__ import annotations

from assay.evaluation.assess import Assessment, assess
from assay.evaluation.bands import BootstrapBand, bootstrap_band
from assay.evaluation.bias_variance import BiasVariance, bias_variance
from assay.evaluation.compare import Comparison, compare
from assay.evaluation.conformal import Conformal, conformal
from assay.evaluation.conformal_results import Coverage, PredictionIntervals, PredictionSets
from assay.evaluation.curves import learning_curve, validation_curve
from assay.evaluation.dependence import Dependence, partial_dependence
from assay.evaluation.ensemble import Ensemble
from assay.evaluation.importance import Importance, permutation_importance, pool_importance
from assay.evaluation.optimism import BootstrapError, bootstrap_error
from assay.evaluation.score_curves import LearningCurve, ValidationCurve
from assay.evaluation.search import Search, SearchCV, search
from assay.evaluation.select import Selection, select
from assay.evaluation.shapley import ShapleyValues, shapley_values
from assay.evaluation.subgroups import Slices, Subgroups, slices, subgroups
from assay.evaluation.threshold import ThresholdClassifier
from assay.evaluation.validate import Validation, cross_validate

__all__ = [
    "Assessment",
    "BiasVariance",
    "BootstrapBand",
    "BootstrapError",
    "Comparison",
    "Conformal",
    "Coverage",
    "Dependence",
    "Ensemble",
    "Importance",
    "LearningCurve",
    "PredictionIntervals",
    "PredictionSets",
    "Search",
    "SearchCV",
    "Selection",
    "ShapleyValues",
    "Slices",
    "Subgroups",
    "ThresholdClassifier",
    "Validation",
    "ValidationCurve",
    "assess",
    "bias_variance",
    "bootstrap_band",
    "bootstrap_error",
    "compare",
    "conformal",
    "cross_validate",
    "learning_curve",
    "partial_dependence",
    "permutation_importance",
    "pool_importance",
    "search",
    "select",
    "shapley_values",
    "slices",
    "subgroups",
    "validation_curve",
]
