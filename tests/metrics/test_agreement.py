"""Every figure that scikit-learn has too agrees with it to 1e-12: weights, ties, several classes, missing classes."""

import warnings

import numpy as np
import pytest
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve as sk_calibration_curve

import assay.metrics as am

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def weights_for(rng, n, kind):
    if kind == "none":
        return None
    if kind == "whole":
        return rng.integers(0, 4, n).astype(float)
    return rng.exponential(1.0, n)


@pytest.fixture(params=["none", "whole", "any"])
def rows(request):
    rng = np.random.default_rng(7)
    n = 200
    return rng, n, weights_for(rng, n, request.param)


def test_regression(rows):
    rng, n, w = rows
    y = rng.gamma(2.0, 2.0, n)
    f = y * rng.gamma(20.0, 0.05, n)
    for ours, theirs in (
        (am.mse, sk.mean_squared_error),
        (am.rmse, sk.root_mean_squared_error),
        (am.mae, sk.mean_absolute_error),
        (am.median_absolute_error, sk.median_absolute_error),
        (am.r2, sk.r2_score),
        (am.poisson_deviance, sk.mean_poisson_deviance),
        (am.gamma_deviance, sk.mean_gamma_deviance),
        (am.deviance, sk.mean_squared_error),
    ):
        np.testing.assert_allclose(ours(y, f, sample_weight=w), theirs(y, f, sample_weight=w), **CLOSE)
    ours = am.quantile_loss(y, f, q=0.2, sample_weight=w)
    np.testing.assert_allclose(ours, sk.mean_pinball_loss(y, f, alpha=0.2, sample_weight=w), **CLOSE)


@pytest.mark.parametrize(
    "names", [np.array([0, 1, 2, 3]), np.array(["d", "a", "cc", "b"]), np.array([-1.0, 5.0, 2.0, 9.0])]
)
def test_labels_of_several_classes(rows, names):
    rng, n, w = rows
    truth = rng.integers(0, 3, n)  # the last class is never true
    predicted = np.where(rng.random(n) < 0.6, truth, rng.integers(0, 4, n))
    y, f = names[truth], names[predicted]
    kinds = [(am.precision, sk.precision_score), (am.recall, sk.recall_score), (am.sensitivity, sk.recall_score)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for average in ("macro", "micro", "weighted", None):
            for labels in (None, names[:2]):
                options = {"average": average, "labels": labels, "sample_weight": w}
                for ours, theirs in kinds:
                    np.testing.assert_allclose(ours(y, f, **options), theirs(y, f, **options), **CLOSE)
                for beta in (0.5, 1.0, 2.0):
                    theirs = sk.fbeta_score(y, f, beta=beta, **options)
                    np.testing.assert_allclose(am.f_beta(y, f, beta=beta, **options), theirs, **CLOSE)
        for ours, theirs in (
            (am.accuracy, sk.accuracy_score),
            (am.error, sk.zero_one_loss),
            (am.balanced_accuracy, sk.balanced_accuracy_score),
            (am.mcc, sk.matthews_corrcoef),
        ):
            np.testing.assert_allclose(ours(y, f, sample_weight=w), theirs(y, f, sample_weight=w), **CLOSE)
        ours = am.balanced_accuracy(y, f, sample_weight=w, adjusted=True)
        theirs = sk.balanced_accuracy_score(y, f, sample_weight=w, adjusted=True)
        np.testing.assert_allclose(ours, theirs, **CLOSE)
    table = am.confusion_matrix(y, f, sample_weight=w)
    np.testing.assert_allclose(np.asarray(table), sk.confusion_matrix(y, f, sample_weight=w), **CLOSE)
    order = names[[2, 0, 3, 1]]
    ours = am.confusion_matrix(y, f, labels=order, sample_weight=w)
    np.testing.assert_allclose(ours.counts, sk.confusion_matrix(y, f, labels=order, sample_weight=w), **CLOSE)


def test_two_classes(rows):
    rng, n, w = rows
    y = rng.integers(0, 2, n)
    f = np.where(rng.random(n) < 0.7, y, 1 - y)
    for pos in (0, 1):
        options = {"pos_label": pos, "sample_weight": w}
        for ours, theirs in (
            (am.precision, sk.precision_score),
            (am.recall, sk.recall_score),
            (am.f1, sk.f1_score),
        ):
            np.testing.assert_allclose(ours(y, f, **options), theirs(y, f, **options), **CLOSE)
        other = {"pos_label": 1 - pos, "sample_weight": w}
        np.testing.assert_allclose(am.specificity(y, f, **options), sk.recall_score(y, f, **other), **CLOSE)
        np.testing.assert_allclose(am.type_one_error(y, f, **options), 1 - sk.recall_score(y, f, **other), **CLOSE)
        np.testing.assert_allclose(am.type_two_error(y, f, **options), 1 - sk.recall_score(y, f, **options), **CLOSE)


def test_probabilities(rows):
    rng, n, w = rows
    y = rng.integers(0, 3, n)
    p = rng.dirichlet([1, 1, 1], n)
    p[0] = np.eye(3)[(y[0] + 1) % 3]  # certain and wrong
    names = np.array(["x", "y", "z"])
    for truth in (y, names[y]):
        np.testing.assert_allclose(
            am.log_loss(truth, p, sample_weight=w), sk.log_loss(truth, p, sample_weight=w), **CLOSE
        )
        theirs = sk.brier_score_loss(truth, p, sample_weight=w)
        np.testing.assert_allclose(am.brier(truth, p, sample_weight=w), theirs, **CLOSE)
    ties = np.round(p, 1)
    for k in (1, 2):
        theirs = sk.top_k_accuracy_score(y, ties, k=k, sample_weight=w)
        np.testing.assert_allclose(am.top_k_accuracy(y, ties, k=k, sample_weight=w), theirs, **CLOSE)
    few = np.minimum(y, 1)  # the third class is missing
    for ours, theirs in (
        (am.log_loss, sk.log_loss),
        (am.brier, sk.brier_score_loss),
        (am.top_k_accuracy, sk.top_k_accuracy_score),
    ):
        labels = {"labels": [0, 1, 2], "sample_weight": w}
        np.testing.assert_allclose(ours(few, p, **labels), theirs(few, p, **labels), **CLOSE)
    binary, q = (y > 0).astype(int), p[:, 1] + p[:, 2]
    q = np.clip(q, 0, 1)
    np.testing.assert_allclose(
        am.log_loss(binary, q, sample_weight=w), sk.log_loss(binary, q, sample_weight=w), **CLOSE
    )
    np.testing.assert_allclose(
        am.brier(binary, q, sample_weight=w), sk.brier_score_loss(binary, q, sample_weight=w), **CLOSE
    )
    scores = q - 0.4
    theirs = sk.top_k_accuracy_score(binary, scores, k=1, sample_weight=w)
    np.testing.assert_allclose(am.top_k_accuracy(binary, scores, k=1, sample_weight=w), theirs, **CLOSE)


@pytest.mark.parametrize("digits", [None, 1])
def test_scores(rows, digits):
    rng, n, w = rows
    y = rng.integers(0, 2, n)
    s = rng.normal(size=n) + y
    s = s if digits is None else np.round(s, digits)
    np.testing.assert_allclose(am.auc(y, s, sample_weight=w), sk.roc_auc_score(y, s, sample_weight=w), **CLOSE)
    np.testing.assert_allclose(am.auc.interval(y, s, sample_weight=w).estimate, am.auc(y, s, sample_weight=w), **CLOSE)
    theirs = sk.average_precision_score(y, s, sample_weight=w)
    np.testing.assert_allclose(am.average_precision(y, s, sample_weight=w), theirs, **CLOSE)
    for drop in (False, True):
        kept = slice(None) if w is None else w > 0
        theirs = sk.roc_curve(y[kept], s[kept], sample_weight=None if w is None else w[kept], drop_intermediate=drop)
        for ours, other in zip(am.roc_curve(y, s, sample_weight=w, drop_intermediate=drop), theirs, strict=True):
            np.testing.assert_allclose(ours, other, **CLOSE)
        theirs = sk.precision_recall_curve(
            y[kept], s[kept], sample_weight=None if w is None else w[kept], drop_intermediate=drop
        )
        curve = am.precision_recall_curve(y, s, sample_weight=w, drop_intermediate=drop)
        for ours, other in zip(curve, theirs, strict=True):
            np.testing.assert_allclose(ours, other, **CLOSE)


@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_scores_of_several_classes(rows, average):
    rng, n, w = rows
    y = rng.integers(0, 3, n)
    p = rng.dirichlet([1, 1, 1], n) + 0.3 * np.eye(3)[y]
    p /= p.sum(axis=1, keepdims=True)
    ours = am.auc(y, p, average=average, multi_class="ovr", sample_weight=w)
    theirs = sk.roc_auc_score(y, p, average=average, multi_class="ovr", sample_weight=w)
    np.testing.assert_allclose(ours, theirs, **CLOSE)
    ours = am.average_precision(y, p, average=average, sample_weight=w)
    np.testing.assert_allclose(ours, sk.average_precision_score(y, p, average=average, sample_weight=w), **CLOSE)
    if w is None:
        ours = am.auc(y, p, average=average, multi_class="ovo")
        np.testing.assert_allclose(ours, sk.roc_auc_score(y, p, average=average, multi_class="ovo"), **CLOSE)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_calibration_curve(strategy):
    rng = np.random.default_rng(3)
    p = np.round(rng.random(300), 2)
    y = (rng.random(300) < p).astype(int)
    ours = am.calibration_curve(y, p, n_bins=10, strategy=strategy)
    for a, b in zip(ours, sk_calibration_curve(y, p, n_bins=10, strategy=strategy), strict=True):
        np.testing.assert_allclose(a, b, **CLOSE)


def test_clusters():
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 5, 300)
    X = rng.normal(size=(300, 4)) + 2 * labels[:, None]
    labels[0] = 17  # a cluster of one
    np.testing.assert_allclose(am.silhouette_samples(X, labels), sk.silhouette_samples(X, labels), **CLOSE)
    np.testing.assert_allclose(am.silhouette(X + 1e6, labels), sk.silhouette_score(X, labels), rtol=1e-8)
    other = rng.integers(0, 4, 300)
    np.testing.assert_allclose(am.adjusted_rand(labels, other), sk.adjusted_rand_score(labels, other), **CLOSE)
    np.testing.assert_allclose(am.davies_bouldin(X, labels), sk.davies_bouldin_score(X, labels), **CLOSE)
    for a, b in (([0, 0, 0], [1, 1, 1]), ([0, 1, 2], [5, 4, 3]), ([0, 0, 1, 1], [0, 1, 0, 1])):
        np.testing.assert_allclose(am.adjusted_rand(a, b), sk.adjusted_rand_score(a, b), **CLOSE)


def test_names_of_scikit_learn_lead_here():
    assert am.roc_auc_score is am.auc
    assert am.get_metric("mean_squared_error") is am.mse
    assert am.get_metric(am.mse) is am.mse
    assert set(am.METRICS) >= {"mse", "auc", "f1", "silhouette", "risk"}
    assert all(name in dir(am) for name in ("auc", "roc_auc_score", "get_metric"))
    for name, metric in am.METRICS.items():
        assert metric.name == name
        assert metric.needs in ("labels", "probabilities", "scores", "values")
        assert metric.range[0] < metric.range[1]
        assert metric.methods
        assert metric.__doc__
