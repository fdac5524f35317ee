"""Metrics that a constant prediction brings to their best: found by asking, and refused as what decides a study."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from assay.errors import ParameterError
from assay.experiment import Study
from assay.experiment.plan import metrics_for, usable_metrics
from assay.metrics import METRICS
from assay.metrics.constant import constant_wins

WON = {"sensitivity": 1, "recall": 1, "specificity": 0, "type_one_error": 0, "type_two_error": 1}


def test_which_metrics_a_constant_wins():
    """By name, for two classes and for three; everything else must stay free."""
    both = {"expected_calibration_error": "their shares"}
    two = {name: constant_wins(metric, [0, 1]) for name, metric in METRICS.items()}
    assert {name: win for name, win in two.items() if win is not None} == {
        **WON, **both, "top_k_accuracy": "their shares",
    }  # fmt: skip
    three = {name: constant_wins(metric, ["a", "b", "c"]) for name, metric in METRICS.items()}
    assert {name: win for name, win in three.items() if win is not None} == both


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_the_property_holds_on_any_table(share):
    """The definition on small tables: among all predictions of labels none beats the constant, and for the metrics
    that were left free some prediction does."""
    y = np.r_[np.zeros(5, int), np.ones(5, int)] if share == 0.5 else np.r_[np.zeros(9, int), np.ones(1, int)]
    guesses = np.array(list(product([0, 1], repeat=10)))
    for name in ("sensitivity", "specificity", "type_one_error", "type_two_error", "f1", "balanced_accuracy", "error"):
        metric = METRICS[name]
        sign = 1 if metric.greater_is_better else -1
        best = max(sign * metric(y, guess) for guess in guesses)
        constant = max(sign * metric(y, np.full(10, label)) for label in (0, 1))
        assert (constant == best) == (name in WON), name


def test_such_a_metric_does_not_decide_a_study():
    y = ["yes", "no"] * 30
    for name in usable_metrics("classification", y):
        if constant_wins(METRICS[name], ["no", "yes"]) is None:
            assert metrics_for("classification", y, name)[0] == name
            continue
        with pytest.raises(ParameterError, match="cannot be the main metric") as caught:
            metrics_for("classification", y, name)
        better = caught.value.option[1]
        assert f'metric="{better}"' in caught.value.remedy
        assert metrics_for("classification", y, better)[0] == better
    with pytest.raises(ParameterError, match="predicting 'yes' for every row reaches its best value, 1"):
        metrics_for("classification", y, "recall_score")
    frame = pd.DataFrame({"x": np.arange(60.0), "y": y})
    with pytest.raises(ParameterError, match="sensitivity cannot be the main metric"):
        Study(frame, "y", metric="sensitivity").run()
