"""Metrics that know their direction, range, needs and interval, and the curves behind them (row H3); arrays only."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "definition": ("METRICS", "Metric", "loss_metric"),
    "regression": (
        "deviance",
        "gamma_deviance",
        "mae",
        "median_absolute_error",
        "mse",
        "p90_absolute_error",
        "poisson_deviance",
        "quantile_absolute_error",
        "quantile_loss",
        "r2",
        "rmse",
    ),
    "classification": (
        "accuracy",
        "error",
        "precision",
        "recall",
        "risk",
        "sensitivity",
        "specificity",
        "type_one_error",
        "type_two_error",
    ),
    "composite": ("balanced_accuracy", "f1", "f_beta", "mcc"),
    "confusion": ("Confusion", "confusion_matrix"),
    "probabilistic": ("brier", "expected_calibration_error", "log_loss", "top_k_accuracy"),
    "ranking": ("auc",),
    "retrieval": ("average_precision", "precision_at_k"),
    "clustering": (
        "adjusted_rand",
        "davies_bouldin",
        "inertia",
        "rand_between",
        "silhouette",
        "silhouette_samples",
        "within_cluster_variation",
    ),
    "curves": (
        "CalibrationCurve",
        "PrecisionRecallCurve",
        "RocCurve",
        "ThresholdTable",
        "calibration_curve",
        "precision_recall_curve",
        "roc_curve",
        "threshold_table",
    ),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
# scikit-learn's names for the same figures, so that swapping the import is enough.
SAME = {
    "accuracy_score": "accuracy",
    "adjusted_rand_score": "adjusted_rand",
    "average_precision_score": "average_precision",
    "balanced_accuracy_score": "balanced_accuracy",
    "brier_score_loss": "brier",
    "davies_bouldin_score": "davies_bouldin",
    "f1_score": "f1",
    "fbeta_score": "f_beta",
    "matthews_corrcoef": "mcc",
    "mean_absolute_error": "mae",
    "mean_gamma_deviance": "gamma_deviance",
    "mean_poisson_deviance": "poisson_deviance",
    "mean_squared_error": "mse",
    "precision_score": "precision",
    "r2_score": "r2",
    "recall_score": "recall",
    "roc_auc_score": "auc",
    "root_mean_squared_error": "rmse",
    "silhouette_score": "silhouette",
    "top_k_accuracy_score": "top_k_accuracy",
    "zero_one_loss": "error",
}

__all__ = sorted([*_HOME, *SAME, "get_metric"])


def load_all() -> None:
    """Import every family, so that the registry is full."""
    for module in _HOMES:
        import_module(f"assay.metrics.{module}")


def __getattr__(name: str) -> Any:
    if name == "get_metric":
        return import_module("assay.metrics.definition").find
    if name == "METRICS":
        load_all()
    name = SAME.get(name, name)
    if name in _HOME:
        return getattr(import_module(f"assay.metrics.{_HOME[name]}"), name)
    raise AttributeError(f"module 'assay.metrics' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
