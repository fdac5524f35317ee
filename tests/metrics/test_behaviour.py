"""Metrics as objects: bad input in one sentence, scorers, pickling, custom losses, costs, clusters, worked counts."""

import copy
import inspect
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import assay.metrics as am
from assay.errors import AssayError, DataError, DataTypeError, ParameterError
from tests.naive.metrics import confusion_by_counting, within_cluster_variation_by_pairs

LABELS = (am.accuracy, am.error, am.precision, am.f1, am.mcc, am.balanced_accuracy, am.risk, am.adjusted_rand)
VALUES = (am.mse, am.rmse, am.mae, am.median_absolute_error, am.r2, am.quantile_loss, am.deviance)
SCORES = (am.auc, am.average_precision, am.precision_at_k)
CURVES = (am.roc_curve, am.precision_recall_curve, am.threshold_table)
PROBABILITIES = (am.log_loss, am.brier, am.expected_calibration_error, am.calibration_curve)


@pytest.mark.parametrize("metric", [*LABELS, *VALUES, *SCORES, *PROBABILITIES, *CURVES])
def test_empty_and_unequal_columns(metric):
    with pytest.raises(AssayError, match=r"empty|one"):
        metric([], [])
    with pytest.raises(DataError, match=r"3 rows but .* 2"):
        metric([0, 1, 1], [0, 1])


@pytest.mark.parametrize("metric", [*VALUES, *SCORES, *PROBABILITIES, *CURVES])
def test_nan_is_named_with_its_row(metric):
    with pytest.raises(DataError, match=r"NaN in row 2; "):
        metric([0, 1, 1], [0.1, 0.4, np.nan])
    with pytest.raises(DataTypeError, match="text"):
        metric([0, 1, 1], ["a", "b", "c"])


@pytest.mark.parametrize("metric", LABELS)
def test_bad_labels(metric):
    with pytest.raises(AssayError, match=r"row 1"):
        metric([0, 1, 1], [0.0, 0.4, 1.0])
    with pytest.raises(AssayError, match=r"row 1"):
        metric([0.0, np.nan, 1.0], [0, 1, 1])
    with pytest.raises(AssayError, match=r"row 2"):
        metric(["a", "b", None], ["a", "b", "a"])
    with pytest.raises(DataError, match="2 dimensions"):
        metric([[0, 1], [1, 0]], [[0, 1], [1, 0]])
    if metric is not am.adjusted_rand:
        with pytest.raises(DataTypeError, match="text but"):
            metric(["a", "b", "a"], [0, 1, 1])


@pytest.mark.parametrize("metric", PROBABILITIES)
def test_bad_probabilities(metric):
    with pytest.raises(DataError, match=r"1.5 in row 1"):
        metric([0, 1, 1], [0.1, 1.5, 0.2])
    with pytest.raises(DataError, match=r"-0.2 in row 2"):
        metric([0, 1, 1], [0.1, 0.5, -0.2])
    with pytest.raises(DataError, match=r"row 1 of y_pred sums to 0.8"):
        metric([0, 1, 1], [[0.5, 0.5], [0.3, 0.5], [0.1, 0.9]])
    with pytest.raises(DataError, match="pos_label"):
        metric(["a", "a"], [0.1, 0.2])
    if metric is not am.calibration_curve:
        with pytest.raises(DataError, match=r"3 columns but there are 2 classes; name"):
            metric([0, 1], [[0.2, 0.3, 0.5]] * 2)
        with pytest.raises(DataError, match=r"'c' in row 1"):
            metric(["a", "c"], [0.2, 0.3], labels=["a", "b"])


@pytest.mark.parametrize("metric", [am.auc, *CURVES])
def test_one_class_has_no_order(metric):
    with pytest.raises(DataError, match="no row of y_true is negative; "):
        metric([1, 1, 1], [0.1, 0.2, 0.3])
    with pytest.raises(DataError, match="no row of y_true is positive; "):
        metric([0, 0], [0.1, 0.2])
    with pytest.raises(DataError, match="no row of y_true is positive; "):
        metric([0, 1], [0.1, 0.2], sample_weight=[1.0, 0.0])
    with pytest.raises(DataError, match="3 classes"):
        metric([0, 1, 2], [0.1, 0.2, 0.3])


def test_bad_weights_and_parameters():
    y, f = [0, 1, 1, 0], [0, 1, 0, 0]
    for weights, words in (([1, 1], "expected .4,."), ([1, 1, -1, 1], "contains -1 in row 2"), ([0] * 4, "zero")):
        with pytest.raises(DataError, match=words):
            am.accuracy(y, f, sample_weight=weights)
    with pytest.raises(ParameterError, match="no weighted form"):
        am.adjusted_rand(y, f, sample_weight=[1, 1, 1, 1])
    for call in (
        lambda: am.f_beta(y, f, beta=-1),
        lambda: am.f_beta(y, f, average="mean"),
        lambda: am.accuracy.interval(y, f, level=1.0),
        lambda: am.accuracy.interval(y, f, method="delong"),
        lambda: am.quantile_loss(y, f, q=1.5),
        lambda: am.deviance(y, f, family="cauchy"),
        lambda: am.precision_at_k(y, f, k=9),
        lambda: am.precision_at_k(y, f, k=0),
        lambda: am.roc_curve(y, f, band="both"),
        lambda: am.calibration_curve(y, f, strategy="equal"),
        lambda: am.auc([0, 1, 2, 0], np.ones((4, 3)) / 3, multi_class="raise"),
        lambda: am.get_metric("nonsense"),
        lambda: am.get_metric(3),
        lambda: am.loss_metric(None),
        lambda: am.auc.interval(y, f, method="bootstrap", n_resamples=3),
    ):
        with pytest.raises(ParameterError):
            call()
    with pytest.raises(DataError, match="row 1"):
        am.poisson_deviance([1, -1], [1.0, 1.0])
    with pytest.raises(DataError, match="row 0"):
        am.gamma_deviance([1, 1], [0.0, 1.0])
    with pytest.raises(DataError, match="does not vary"):
        am.r2([1, 1], [1.0, 2.0])
    with pytest.raises(DataError, match=r"error of row 1 overflows because y is 1e[+]200; rescale y"):
        am.mse([1, 1e200], [1.0, -1e200])
    with pytest.raises(
        DataError, match=r"error of row 1 overflows because the prediction is -1e[+]160; check the learner"
    ):
        am.r2([1, 2, 3], [1.0, -1e160, 3.0])
    with pytest.raises(DataError, match="has the class 2; "):
        am.auc([0, 1, 1], np.ones((3, 3)) / 3, labels=[0, 1, 2])
    with pytest.raises(DataError, match="only one class"):
        am.mcc.interval([1, 1], [0, 1])
    assert am.mcc([0, 1], [1, 1]) == 0.0


def test_tiny_random_samples_give_an_interval_around_the_estimate_or_a_sentence():
    rng = np.random.default_rng(0)
    answered, refusals = 0, []
    for _ in range(150):
        n, k = int(rng.integers(1, 9)), int(rng.integers(1, 4))
        y, f = rng.integers(0, k, n), rng.integers(0, k, n)
        s = np.round(rng.normal(size=n), int(rng.integers(0, 3)))
        p = np.round(rng.random(n), 1)
        w = None if rng.random() < 0.5 else rng.integers(0, 3, n).astype(float)
        inputs = {"labels": (y, f), "values": (s, p), "scores": (y > 0, s), "probabilities": (y > 0, p)}
        for metric in am.METRICS.values():
            a, b = (np.column_stack([s, p]), f) if metric.first == "X" else inputs[metric.needs]
            options = {"sample_weight": w} if metric.weighted else {}
            average = "average" in inspect.signature(metric).parameters and metric.needs == "labels"
            options |= {"average": str(rng.choice(["macro", "weighted", "micro", "binary"]))} if average else {}
            try:
                interval = metric.interval(a, b, **options)
            except AssayError as error:
                refusals.append(error)
                continue
            answered += 1
            slack = 1e-9 * (1 + abs(interval.estimate))
            assert interval.lower - slack <= interval.estimate <= interval.upper + slack, (metric, a, b, options)
            assert interval.estimate == pytest.approx(metric(a, b, **options), rel=1e-9, abs=1e-9)
            low, high = metric.range
            assert low - slack <= interval.lower
            assert interval.upper <= high + slack
    assert all(error.remedy and "\n" not in str(error) for error in refusals)
    assert answered == 3940  # of these samples; the others have one class, no weight, too few rows


def test_extreme_scales():
    y, f = np.array([1.0, 2.0, 4.0]), np.array([1.5, 2.0, 3.0])
    for scale in (1e-150, 1e150):
        assert am.rmse(y * scale, f * scale) == pytest.approx(am.rmse(y, f) * scale)
        assert am.r2(y * scale, f * scale) == pytest.approx(am.r2(y, f))
        assert am.rmse.interval(y * scale, f * scale).upper == pytest.approx(am.rmse.interval(y, f).upper * scale)
    X = np.random.default_rng(0).normal(size=(20, 2))
    labels = np.arange(20) % 3
    for scale in (1e-150, 1e150, 5e307):
        assert am.silhouette(X * scale, labels) == pytest.approx(am.silhouette(X, labels))
    assert am.silhouette(np.ones((4, 1)), [0, 0, 1, 1]) == 0.0
    assert am.auc([0, 1, 0, 1], [1e300, -1e300, 1e-300, 2e300]) == 0.5


def test_any_layout_gives_the_same_and_nothing_is_written():
    rng = np.random.default_rng(0)
    y, s = rng.integers(0, 2, 50), rng.normal(size=50)
    expected = am.auc(y, s)
    wide = np.zeros((50, 4))
    wide[:, 2] = s
    strided = wide[:, 2]
    frozen_y, frozen_s = y.copy(), s.copy()
    frozen_y.flags.writeable = frozen_s.flags.writeable = False
    for a, b in (
        (frozen_y, frozen_s),
        (y.tolist(), s.tolist()),
        (pd.Series(y, index=range(50, 100)), pd.Series(s)),
        (y.astype(object), s.astype(object)),
        (y[:, None], s[:, None]),
        (y.astype(bool), strided),
        (np.where(y, "yes", "no"), s),
        (pd.Series(np.where(y, "yes", "no"), dtype="category"), s),
        (y, np.column_stack([-s, s])),
    ):
        assert am.auc(a, b) == expected
        assert am.auc.interval(a, b) == am.auc.interval(y, s)
    assert am.auc(y, s.astype(np.float32)) == pytest.approx(expected, abs=1e-3)


def test_unsorted_classes_follow_their_columns():
    y = ["b", "a", "c", "b"]
    p = np.array([[0.2, 0.7, 0.1], [0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.3, 0.6, 0.1]])
    order = [2, 0, 1]
    labels = np.array(["a", "b", "c"])[order]
    for metric in (
        am.log_loss,
        am.brier,
        am.auc,
        am.average_precision,
        am.top_k_accuracy,
        am.expected_calibration_error,
    ):
        assert metric(y, p[:, order], labels=labels) == pytest.approx(metric(y, p), rel=1e-14)
    assert am.log_loss(["x", "y"], [0.9, 0.2], labels=["y", "x"]) == pytest.approx(-np.log([0.9, 0.8]).mean())


def test_which_class_is_positive():
    assert am.precision(["no", "yes", "yes"], ["yes", "yes", "no"]) == 0.5
    assert am.recall([1, 1], [1, 0]) == 0.5
    assert am.recall([0, 0], [0, 0]) == 0.0
    assert np.isnan(am.recall([0, 0], [0, 0], zero_division=np.nan))
    assert am.recall([-1, -1, 1], [-1, 1, 1]) == 1.0
    with pytest.raises(DataError, match="pos_label"):
        am.recall(["a", "a"], ["a", "a"])
    with pytest.raises(DataError, match="3 classes"):
        am.recall([0, 1, 2], [0, 1, 2])
    with pytest.raises(DataError, match="not one of"):
        am.recall([0, 1], [0, 1], pos_label=5)
    with pytest.raises(DataError, match="no row"):
        am.sensitivity.interval([0, 0], [0, 1])


def test_costs_follow_the_order_of_labels():
    y, f = ["ill", "ill", "well", "well"], ["ill", "well", "well", "ill"]
    assert am.risk(y, f) == 0.5
    assert am.risk(y, f, cost=[[0, 1], [10, 0]], labels=["well", "ill"]) == 2.75
    with pytest.raises(DataError, match=r"shape \(3, 3\)"):
        am.risk(y, f, cost=np.zeros((3, 3)))
    with pytest.raises(DataError, match="'ill' in row 0"):
        am.risk(y, f, labels=["well", "sick"])
    assert am.risk.interval(y, f, cost=[[0, 10], [1, 0]]).upper <= 10


def test_confusion_counts_true_down_and_assigned_across():
    rng = np.random.default_rng(1)
    names = np.array(["a", "b", "c"])
    y, f = names[rng.integers(0, 3, 60)], names[rng.integers(0, 3, 60)]
    table = am.confusion_matrix(y, f)
    assert table.counts.tolist() == confusion_by_counting(y, f, names.tolist())
    assert table[0, 1] == sum((y == "a") & (f == "b"))
    assert table.error == pytest.approx(am.error(y, f))
    frame = table.to_frame()
    assert (frame.index.name, frame.columns.name) == ("true", "assigned")
    np.testing.assert_allclose(table.per_class()["sensitivity"], am.recall(y, f, average=None))
    np.testing.assert_allclose(table.normalized().sum(axis=1), 1)
    assert "error rate" in str(table)
    assert not table.counts.flags.writeable
    with pytest.raises(DataError, match="'c' in row"):
        am.confusion_matrix(y, f, labels=["a", "b"])


def test_variation_over_pairs_is_twice_the_inertia():
    rng = np.random.default_rng(2)
    X, labels = rng.normal(size=(40, 3)), rng.integers(0, 4, 40)
    assert am.within_cluster_variation(X, labels) == pytest.approx(within_cluster_variation_by_pairs(X, labels))
    assert am.within_cluster_variation(X, labels) == 2 * am.inertia(X, labels)
    model = KMeans(3, n_init=3, random_state=0).fit(X)
    assert am.inertia(X, model.labels_) == pytest.approx(model.inertia_, rel=1e-6)
    whole = rng.integers(0, 3, 40)
    repeated = am.inertia(np.repeat(X, whole, axis=0), np.repeat(labels, whole))
    assert am.inertia(X, labels, sample_weight=whole) == pytest.approx(repeated)
    interval = am.inertia.interval(X, labels)
    assert interval.estimate == pytest.approx(am.inertia(X, labels))
    assert interval.lower < interval.estimate < interval.upper
    with pytest.raises(DataError, match="fewer clusters than rows"):
        am.silhouette(X, np.arange(40))
    with pytest.raises(DataError, match="1 cluster"):
        am.silhouette(X, np.zeros(40, dtype=int))


def test_ties_at_the_border_share_the_places():
    y, s = [1, 0, 1, 0, 0], [0.9, 0.5, 0.5, 0.5, 0.1]
    assert am.precision_at_k(y, s, k=2) == pytest.approx((1 + 1 / 3) / 2)
    assert am.precision_at_k(y, s, k=4) == 0.5
    assert am.precision_at_k(y, s) == 0.4


def test_any_loss():
    huber = am.loss_metric(lambda y, f: np.minimum(np.abs(y - f), 1.0), "clipped", range=(0, 1))
    assert huber([0.0, 0.0], [0.5, 7.0]) == 0.75
    assert huber.interval([0.0, 0.0], [0.5, 7.0]).upper == 1.0
    assert huber([0.0, 0.0], [0.5, 7.0], sample_weight=[1, 0]) == 0.5
    zero_one = am.loss_metric(np.not_equal, needs="labels")
    assert zero_one(["a", "b"], ["a", "a"]) == 0.5
    with pytest.raises(DataError, match="one number per row"):
        am.loss_metric(lambda y, f: 1.0)([1.0], [2.0])
    with pytest.raises(DataError, match="row 1"):
        am.loss_metric(lambda y, f: np.where(y > 0, np.nan, f), "odd")([0.0, 1.0], [1.0, 1.0])


def test_pickles_copies_and_binds():
    two = am.f_beta.bind("f2", beta=2.0)
    own = am.loss_metric(np.hypot, "own")
    for metric in (*am.METRICS.values(), two, own):
        for other in (pickle.loads(pickle.dumps(metric)), copy.deepcopy(metric)):
            assert other.name == metric.name
            assert dict(other.options) == dict(metric.options)
        pickle.loads(pickle.dumps(metric.scorer()))
    assert pickle.loads(pickle.dumps(am.auc)) is am.auc
    assert two([1, 1, 0], [1, 0, 0]) == am.f_beta([1, 1, 0], [1, 0, 0], beta=2.0)
    assert two.interval([1, 1, 0], [1, 0, 0]).estimand == "f2"
    assert own([3.0], [4.0]) == 5.0
    with pytest.raises(AttributeError):
        am.auc.name = "other"


def test_scorers_agree_with_scikit_learn():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:120, :3], y[:120]
    names = np.where(y, "good", "bad")
    model = make_pipeline(StandardScaler(), LogisticRegression())
    for metric, name in (
        (am.auc, "roc_auc"),
        (am.accuracy, "accuracy"),
        (am.f1, "f1"),
        (am.log_loss, "neg_log_loss"),
        (am.brier, "neg_brier_score"),
        (am.average_precision, "average_precision"),
        (am.balanced_accuracy, "balanced_accuracy"),
    ):
        ours = cross_val_score(model, X, y, cv=3, scoring=metric.scorer(), error_score="raise")
        np.testing.assert_allclose(ours, cross_val_score(model, X, y, cv=3, scoring=name), rtol=1e-12)
        if metric not in (am.auc, am.f1, am.log_loss):
            continue
        text = cross_val_score(model, X, names, cv=3, scoring=metric.scorer(), error_score="raise")
        np.testing.assert_allclose(text, ours, rtol=1e-12)
    line = cross_val_score(LinearRegression(), X[:, 1:], X[:, 0], cv=3, scoring=am.mse.scorer())
    theirs = cross_val_score(LinearRegression(), X[:, 1:], X[:, 0], cv=3, scoring="neg_mean_squared_error")
    np.testing.assert_allclose(line, theirs, rtol=1e-12)
    found = GridSearchCV(model, {"logisticregression__C": [0.1, 1.0]}, scoring=am.log_loss.scorer(), cv=3).fit(X, y)
    assert found.best_score_ < 0
    several = cross_validate(model, X, y, cv=3, scoring={"a": am.auc.scorer(), "e": am.error.scorer()})
    assert (several["test_e"] <= 0).all()


def test_scorer_of_a_fold_without_a_class_and_of_clusters():
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=1000).fit(X, y)
    few = y < 2
    score = am.log_loss.scorer()(model, X[few], y[few])
    assert score == -am.log_loss(y[few], model.predict_proba(X[few]), labels=[0, 1, 2])
    groups = KMeans(3, n_init=1, random_state=0).fit(X)
    assert am.silhouette.scorer()(groups, X) == am.silhouette(X, groups.labels_)
    assert am.f_beta.scorer(average="macro", beta=2.0)(model, X, y) > 0.9
    with pytest.raises(DataTypeError, match="predict_proba"):
        am.log_loss.scorer()(LinearRegression().fit(X, y), X, y)


def test_scorer_takes_weights_by_routing():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = StandardScaler().fit_transform(X[:120, :3]), y[:120]
    w = np.random.default_rng(0).random(120)
    with sklearn.config_context(enable_metadata_routing=True):
        model = LogisticRegression().set_fit_request(sample_weight=False)
        scorer = am.accuracy.scorer().set_score_request(sample_weight=True)
        ours = cross_val_score(model, X, y, cv=3, scoring=scorer, params={"sample_weight": w})
        theirs = sklearn.metrics.make_scorer(sklearn.metrics.accuracy_score).set_score_request(sample_weight=True)
        np.testing.assert_allclose(
            ours, cross_val_score(model, X, y, cv=3, scoring=theirs, params={"sample_weight": w})
        )
