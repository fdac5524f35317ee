"""A metric as a scikit-learn scorer: `scorer(estimator, X, y)`, where greater is always better.

It asks the estimator for what the metric needs (predict, predict_proba, or decision_function where there is one) and
tells the metric the estimator's classes, so that a fold in which a class is missing is still scored rightly.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from assay.errors import DataTypeError

if TYPE_CHECKING:
    from assay.metrics.definition import Metric

__all__ = ["Scorer", "class_options", "respond"]

WAYS = {
    "labels": ("predict", "fit_predict"),
    "values": ("predict",),
    "probabilities": ("predict_proba",),
    "scores": ("decision_function", "predict_proba", "predict"),
}
"""Which method of an estimator gives what a metric needs, the first that there is."""


def respond(estimator: Any, X: Any, metric: Metric) -> Any:
    """The predictions that the metric needs, from the first method of the estimator that gives them.

    Margins of several classes cannot be compared between rows: there the scores are probabilities where there are any.
    """
    ways = WAYS[metric.needs]
    classes = getattr(estimator, "classes_", None)
    if metric.needs == "scores" and classes is not None and len(classes) > 2:
        ways = ("predict_proba", "decision_function", "predict")
    for name in ways:
        if hasattr(estimator, name):
            return getattr(estimator, name)(X)
    what = f"{type(estimator).__name__} has no {' or '.join(ways)}, which {metric.name} needs"
    raise DataTypeError(what, remedy="choose a metric that needs less, or another estimator")


def class_options(metric: Metric, classes: Any) -> dict[str, Any]:
    """The classes as the estimator knows them (an array, or None), for the metrics that ask."""
    known = inspect.signature(metric).parameters
    if classes is None or isinstance(classes, list) or metric.first == "X":
        return {}
    if metric.needs in ("probabilities", "scores"):
        return {"labels": classes} if "labels" in known and len(classes) > 1 else {}
    if metric.options.get("pos_label") is not None:
        return {}  # the user has said which class is positive
    if "pos_label" in known and len(classes) == 2 and _average(metric) == "binary":
        return {"pos_label": classes.tolist()[1]}
    return {}


def _average(metric: Metric) -> Any:
    default = inspect.signature(metric).parameters.get("average")
    return metric.options.get("average", "binary" if default is None else default.default)


class Scorer:
    """Scores a fitted estimator by a metric; losses change their sign.

    >>> from assay.metrics import mse
    >>> from sklearn.dummy import DummyRegressor
    >>> X, y = [[0], [1]], [1.0, 3.0]
    >>> mse.scorer()(DummyRegressor().fit(X, y), X, y)
    -1.0
    """

    def __init__(self, metric: Metric, options: Mapping[str, Any] | None = None) -> None:
        self.metric = metric
        self.options = dict(options or {})
        self._weight_request: bool | str | None = None

    def __call__(self, estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The figure of a fitted estimator, greater is better."""
        classes = getattr(estimator, "classes_", None)
        options = {**class_options(self.metric.bind(**self.options), classes), **self.options}
        if sample_weight is not None:
            options["sample_weight"] = sample_weight
        first = X if self.metric.first == "X" else y
        value = float(self.metric(first, respond(estimator, X, self.metric), **options))
        return value if self.metric.greater_is_better else -value

    def set_score_request(self, *, sample_weight: bool | str | None) -> Scorer:
        """Ask for weights in scikit-learn's metadata routing."""
        self._weight_request = sample_weight
        return self

    def get_metadata_routing(self) -> Any:
        """What this scorer asks of scikit-learn's metadata routing."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=self)
        request.score.add_request(param="sample_weight", alias=self._weight_request)
        return request

    def __repr__(self) -> str:
        sign = "" if self.metric.greater_is_better else "-"
        return f"<scorer {sign}{self.metric.name}>"
