"""The classes of scikit-learn that a study of our own learners leaves in its model file, declared as ours are."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.pipeline import Pipeline

from assay.constraints import Constraint, boolean, none, one_of, real, seed
from assay.state import floats, labels, names, need, register, size

__all__: list[str] = []


def _are_steps(value: Any) -> bool:
    pairs = isinstance(value, list) and value and all(isinstance(one, tuple) and len(one) == 2 for one in value)
    return bool(pairs) and all(isinstance(name, str) for name, _ in value)


def _check_pipeline(model: Any) -> None:
    """Steps of different names that transform, and an estimator behind them."""
    learners = [step for _, step in model.steps]
    need(len({name for name, _ in model.steps}) == len(learners), "two steps have the same name")
    need(all(callable(getattr(step, "transform", None)) for step in learners[:-1]), "a step has no transform")
    need(callable(getattr(learners[-1], "fit", None)), "the last step is not an estimator")


_STATE = {"n_features_in_": size("p"), "feature_names_in_": names("p", optional=True), "n_outputs_": one_of(1)}
register(
    Pipeline,
    "sklearn.Pipeline",
    {"steps": Constraint(_are_steps, "a list of steps"), "transform_input": none, "memory": none, "verbose": boolean},
    {},
    _check_pipeline,
)
register(
    DummyRegressor,
    "sklearn.DummyRegressor",
    {"strategy": one_of("mean", "constant"), "constant": none | real(), "quantile": none},
    {**_STATE, "constant_": floats(1, 1)},
    lambda _: None,
)
register(
    DummyClassifier,
    "sklearn.DummyClassifier",
    {"strategy": one_of("prior"), "constant": none, "random_state": seed},
    {
        **_STATE,
        "classes_": labels("k"),
        "n_classes_": size("k"),
        "class_prior_": floats("k", low=0, high=1),
        "sparse_output_": one_of(False),
        "_strategy": one_of("prior"),
    },
    lambda model: need(np.isclose(model.class_prior_.sum(), 1.0), "its shares do not sum to 1"),
)
