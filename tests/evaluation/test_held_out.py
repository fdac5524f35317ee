"""Settings found once, and predictions of rows left out that are used for more than one choice."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from assay.errors import DataError, ParameterError
from assay.evaluation import Ensemble, SearchCV, ThresholdClassifier
from assay.evaluation.held_out import held_out_probabilities, settled
from assay.evaluation.learner import rows_of
from assay.evaluation.threshold import choose_threshold
from assay.experiment.calibrated import CalibratedIfBetter
from assay.margin import SVC, SVCCV
from assay.resampling import splits_of
from assay.trees import GradientBoostingClassifier, RandomForestClassifier

X, Y = make_classification(300, 8, n_informative=4, flip_y=0.2, weights=[0.7], random_state=0)
SPACE = {"C": [0.01, 1.0, 100.0]}


def test_a_search_settles_on_its_best_candidate_and_a_pipeline_on_that_of_its_last_step():
    tuned = SearchCV(LogisticRegression(), SPACE).fit(X, Y)
    assert tuned.best_params_ == {"C": settled(tuned).C}
    pipe = make_pipeline(StandardScaler(), SearchCV(LogisticRegression(), SPACE)).fit(X, Y)
    left = settled(pipe)
    assert isinstance(left.steps[-1][1], LogisticRegression)
    assert not hasattr(left, "n_features_in_")
    assert_array_equal(left.fit(X, Y).predict_proba(X), pipe.predict_proba(X))


@pytest.mark.parametrize("stopping", [True, "cv"])
def test_boosting_settles_on_its_number_of_trees(stopping):
    model = GradientBoostingClassifier(early_stopping=stopping, n_estimators=80, random_state=0).fit(X, Y)
    again = settled(model)
    assert (again.early_stopping, again.n_estimators) == (False, model.n_estimators_)
    if stopping == "cv":
        assert_array_equal(again.fit(X, Y).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("scale", [1.0, 1e6])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly"])
def test_a_machine_settles_on_its_grid_cell(scale, kernel):
    found = SVCCV(Cs=[0.1, 1.0], kernel=kernel, tol=1e-6).fit(X * scale, Y)
    again = settled(found)
    assert isinstance(again, SVC)
    scores = again.fit(X * scale, Y).decision_function(X * scale)
    assert_allclose(scores, found.decision_function(X * scale), rtol=1e-3, atol=1e-4)


def test_a_threshold_tuned_once_uses_the_settings_of_all_rows():
    tuned = SearchCV(LogisticRegression(), SPACE)
    cost = {"missed": 4, "false": 1}
    found = ThresholdClassifier(tuned, cost=cost, tuning="once").fit(X, Y)
    C = tuned.fit(X, Y).best_params_["C"]
    p = np.empty(Y.size)
    for train, test in splits_of(5, X, Y, classes=True, random_state=0):
        p[test] = LogisticRegression(C=C).fit(X[train], Y[train]).predict_proba(X[test])[:, 1]
    assert found.threshold_ == choose_threshold(Y == 1, p, cost)
    assert_array_equal(found.predict_proba(X), tuned.predict_proba(X))
    with pytest.raises(ParameterError, match="tuning"):
        ThresholdClassifier(tuned, tuning="twice").fit(X, Y)


@pytest.mark.parametrize("weights", ["stacked", "equal", [1.0, 3.0]])
def test_the_probabilities_of_an_ensemble_are_the_mixture_of_its_inner_fits(weights):
    parts = [("line", LogisticRegression()), ("bayes", GaussianNB())]
    model = Ensemble(parts, weights=weights, tuning="once")
    held = held_out_probabilities(model, rows_of(model, X, Y), cv=3, random_state=1, tuning="once")
    assert_allclose(held.model.weights_, Ensemble(parts, weights=weights).fit(X, Y).weights_, rtol=1e-9)
    for (train, test), rows, p in zip(
        splits_of(5, X, Y, classes=True, random_state=0), held.tests, held.probabilities, strict=True
    ):
        assert_array_equal(rows, test)
        each = [one.fit(X[train], Y[train]).predict_proba(X[test])[:, 1] for _, one in parts]
        assert_allclose(p, held.model.weights_ @ each, rtol=1e-9)


def test_members_search_once():
    fits = []

    class Counted(SearchCV):
        def fit(self, X, y, sample_weight=None, groups=None):
            fits.append(len(y))
            return super().fit(X, y, sample_weight=sample_weight, groups=groups)

    parts = [("tuned", Counted(LogisticRegression(), SPACE)), ("bayes", GaussianNB())]
    once = ThresholdClassifier(CalibratedIfBetter(Ensemble(parts, tuning="once")), tuning="once").fit(X, Y)
    assert fits == [300]
    assert 0 < once.threshold_ < 1
    fits.clear()
    ThresholdClassifier(Ensemble(parts)).fit(X, Y)
    assert len(fits) == 36


def test_a_calibrated_fold_is_mapped_by_the_others():
    model = CalibratedIfBetter(GaussianNB())
    held = held_out_probabilities(model, rows_of(model, X, Y), cv=5, random_state=0, tuning="once")
    plain = held_out_probabilities(GaussianNB(), rows_of(model, X, Y), cv=5, random_state=0, tuning="once")

    def loss(found):
        y, p = Y[np.concatenate(found.tests)], np.concatenate(found.probabilities)
        return -np.mean(np.log(np.where(y == 1, p, 1 - p)))

    assert loss(plain) - loss(held) == pytest.approx(held.model.gain_, rel=1e-6)


def test_a_member_that_cannot_be_fitted_is_left_out_with_a_warning_or_refused_where_its_weight_is_given():
    class Broken(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            raise DataError("bad rows", remedy="none")

    parts = [("broken", Broken()), ("bayes", GaussianNB())]
    with pytest.warns(UserWarning, match="broken in the fit to all rows: bad rows; the ensemble goes on without it"):
        assert Ensemble(parts, tuning="once").fit(X, Y).names_ == ["bayes"]
    model = Ensemble(parts, weights="equal", tuning="once")
    with pytest.raises(DataError, match="bad rows"):
        held_out_probabilities(model, rows_of(model, X, Y), cv=5, random_state=0, tuning="once")


@pytest.mark.parametrize("stopping", [True, "cv"])
@pytest.mark.parametrize("metric", ["log_loss", "error", "auc"])
def test_a_search_by_the_rows_that_early_stopping_holds_out(stopping, metric):
    options = {"n_estimators": 500, "validation_fraction": 0.3, "random_state": 0}
    model = GradientBoostingClassifier(early_stopping=stopping, **options)
    found = SearchCV(model, {"max_leaf_nodes": [2, 15]}, cv="own", metric=metric).fit(X, Y)
    fits = [GradientBoostingClassifier(**model.get_params() | {"max_leaf_nodes": m}).fit(X, Y) for m in (2, 15)]
    if metric == "log_loss":
        least = [min(f.cv_curve_.estimate) if stopping == "cv" else f.validation_score_.min() for f in fits]
        assert_allclose(found.result_.table["estimate"], least, rtol=1e-9)
    better = max if metric == "auc" else min
    assert found.best_score_ == better(found.result_.table["estimate"])
    assert_array_equal(found.predict_proba(X), fits[found.best_index_].predict_proba(X))
    assert "held out by the learner" in str(found.result_)


def test_a_search_by_held_out_rows_needs_some_and_the_same_ones():
    space = {"max_leaf_nodes": [2, 15]}
    with pytest.raises(DataError, match="no predictions of rows that it held out"):
        SearchCV(RandomForestClassifier(n_estimators=3, random_state=0), space, cv="own").fit(X, Y)
    model = GradientBoostingClassifier(early_stopping=True)  # other rows each time
    found = SearchCV(model, space, cv="own").fit(X, Y)
    assert found.best_params_ == {"max_leaf_nodes": 2}
    assert "other rows" in found.result_.table["failed"].iloc[1]
