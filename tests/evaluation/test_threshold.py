"""Thresholds: least cost of all thresholds, stated rates that hold, costs of several classes, what is stored."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.svm import LinearSVC

from assay.errors import AssayError, DataTypeError
from assay.evaluation import ThresholdClassifier, cross_validate
from assay.evaluation.threshold import choose_threshold
from assay.generative import LinearDiscriminantAnalysis
from assay.linear import LogisticRegression
from assay.state import from_state, to_state
from tests.naive.decision import cost_at, least_cost

SEEDS = st.integers(0, 2**32 - 1)


def refuse(_):
    raise AssertionError("nothing foreign is inside")


def _rows(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    probability = rng.choice([0.0, 0.1, 0.25, 0.5, 0.7, 1.0], n) if rng.random() < 0.5 else rng.random(n)
    positive = rng.random(n) < probability
    positive[:2] = [True, False]
    return positive, probability, rng


@given(SEEDS)
def test_the_cost_is_the_least_of_all_thresholds(seed):
    positive, probability, rng = _rows(seed)
    missed, false, weights = *rng.uniform(0.1, 10, 2), rng.uniform(0, 2, positive.size)
    found = choose_threshold(positive, probability, {"missed": missed, "false": false}, weights)
    got = cost_at(positive, probability, found, missed, false, weights)
    assert got == pytest.approx(least_cost(positive, probability, missed, false, weights))


@given(SEEDS, st.floats(0.05, 0.95))
def test_stated_rates_hold_and_one_step_further_they_do_not(seed, share):
    positive, probability, _ = _rows(seed)
    levels = np.unique(probability)

    def rates(t):
        called = probability >= t
        sensitivity, alarms = called[positive].mean(), called[~positive].mean()
        return sensitivity, 1 - alarms, called.mean()

    t = choose_threshold(positive, probability, ("sensitivity", share))
    assert rates(t)[0] >= share - 1e-9
    assert (
        not (levels >= t).any()
        or not (levels > levels[levels >= t][0]).any()
        or (rates(levels[levels > levels[levels >= t][0]][0])[0] < share)
    )
    for at, name in [(1, "specificity"), (2, "positive")]:
        t = choose_threshold(positive, probability, (name, share))

        def holds(r, at=at):
            return r[1] >= share - 1e-9 if at == 1 else r[2] <= share + 1e-9

        assert holds(rates(t))
        lower = levels[levels < t]
        assert lower.size == 0 or not holds(rates(lower[-1]))


def test_precision_that_cannot_be_reached_is_refused_with_one_that_can():
    positive = np.array([True, False, False, True])
    with pytest.raises(AssayError, match=r"no threshold reaches a precision of 0.9; the best is 0.5.*0.5"):
        choose_threshold(positive, np.array([0.5, 0.9, 0.6, 0.7]), ("precision", 0.9))


def test_a_missed_positive_that_costs_more_lowers_cost_on_unseen_rows():
    X, y = load_breast_cancer(return_X_y=True)
    from assay.metrics import risk

    cost = risk.bind(cost=[[0, 1], [20, 0]])
    plain = cross_validate(LinearDiscriminantAnalysis(), X[:, :8], y, metric=cost)
    wary = cross_validate(
        ThresholdClassifier(LinearDiscriminantAnalysis(), cost={"missed": 20, "false": 1}), X[:, :8], y, metric=cost
    )
    assert wary.estimate < 0.8 * plain.estimate


def test_costs_follow_the_positive_class():
    X, y = load_breast_cancer(return_X_y=True)
    names = np.where(y == 1, "well", "ill")
    by_name = ThresholdClassifier(LinearDiscriminantAnalysis(), cost={"missed": 20, "false": 1}, pos_label="ill").fit(
        X, names
    )
    by_table = ThresholdClassifier(LinearDiscriminantAnalysis(), cost=[[0, 20], [1, 0]], pos_label="ill").fit(X, names)
    assert by_name.positive_ == "ill"
    assert by_name.threshold_ == by_table.threshold_ < 0.5
    other = ThresholdClassifier(LinearDiscriminantAnalysis(), cost=[[0, 20], [1, 0]]).fit(X, names)
    assert np.array_equal(other.predict(X), by_table.predict(X))


def test_several_classes_take_the_least_expected_cost():
    X, y = load_iris(return_X_y=True)
    cost = np.array([[0, 1, 1], [1, 0, 1], [1, 9, 0]])
    model = ThresholdClassifier(LinearDiscriminantAnalysis(), cost=cost).fit(X, y)
    shares = LinearDiscriminantAnalysis().fit(X, y).predict_proba(X)
    assert np.array_equal(model.predict(X), np.argmin(shares @ cost, axis=1))
    assert model.threshold_ is None
    plain = ThresholdClassifier(LinearDiscriminantAnalysis()).fit(X, y)
    assert np.array_equal(plain.predict(X), shares.argmax(axis=1))


def test_it_can_be_stored():
    X, y = load_breast_cancer(return_X_y=True)
    for model in [
        ThresholdClassifier(LinearDiscriminantAnalysis(), rate=("sensitivity", 0.99)),
        ThresholdClassifier(LinearDiscriminantAnalysis(), threshold=0.2),
    ]:
        model.fit(X, y)
        again = from_state(*to_state(model, refuse), refuse)
        assert np.array_equal(again.predict(X), model.predict(X))
        assert again.threshold_ == model.threshold_


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"cost": {"missed": 1}}, "does not fit"),
        ({"cost": [[0, 1]]}, "shape"),
        ({"cost": [[0, -1], [1, 0]]}, "no more than a correct prediction"),
        ({"rate": ("recall", 0.5)}, "unknown"),
        ({"rate": 0.5}, "name and a share"),
        ({"rate": ("sensitivity", 0.5), "threshold": 0.5}, "both rate and threshold"),
        ({"threshold": 1.5}, "not a number in"),
        ({"pos_label": 7}, "not one of"),
    ],
)
def test_bad_input_gets_one_sentence(options, what):
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(AssayError, match=what):
        ThresholdClassifier(LogisticRegression(penalty="l2"), **options).fit(X[:100, :4], y[:100])


def test_a_classifier_without_probabilities_is_refused_by_name():
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(DataTypeError, match="LinearSVC has no predict_proba, which a threshold needs; calibrate it"):
        ThresholdClassifier(LinearSVC()).fit(X, y)
