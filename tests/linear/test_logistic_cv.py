"""Cross-validated penalised logistic regression: the curve by its definition, the rules, the estimator's manners."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression as Peer
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold

from assay.errors import ConvergenceWarning, DataError, ParameterError
from assay.linear._logistic_path import fit_penalized
from assay.linear.logistic_cv import LogisticPath, LogisticRegressionCV, logistic_path


def rows(n=200, p=8, K=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    B = np.zeros((p, K))
    B[:3] = rng.standard_normal((3, K)) * 1.5
    labels = np.array(["ant", "bee", "cat", "dog"])[:K]
    return X, labels[np.argmax(X @ B + rng.gumbel(size=(n, K)), axis=1)]


@pytest.mark.parametrize("metric", ["deviance", "error", "auc"])
@pytest.mark.parametrize("K", [2, 3])
def test_the_curve_is_its_definition(metric, K):
    if metric == "auc" and K == 3:
        pytest.skip("two classes only")
    X, y = rows(K=K)
    w = np.random.default_rng(1).random(200) + 0.5
    splits = list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, y))
    alphas = np.array([0.1, 0.03, 0.01])
    model = LogisticRegressionCV(alphas=alphas, cv=splits, metric=metric, tol=1e-9).fit(X, y, sample_weight=w)
    _, codes = np.unique(y, return_inverse=True)
    scores = np.empty((4, 3))
    for k, (train, test) in enumerate(splits):
        coefs, intercepts, _, _ = fit_penalized(
            X[train], codes[train], K, w[train], None, alphas, 1.0, None, True, 1e-9, 100
        )
        for a in range(3):
            eta = X[test] @ coefs[a].T + intercepts[a]
            eta = np.hstack([0 * eta, eta]) if K == 2 else eta
            P = np.exp(eta - eta.max(axis=1, keepdims=True))
            P /= P.sum(axis=1, keepdims=True)
            if metric == "deviance":
                scores[k, a] = 2 * log_loss(codes[test], P, sample_weight=w[test], labels=range(K))
            elif metric == "error":
                scores[k, a] = np.average(P.argmax(axis=1) != codes[test], weights=w[test])
            else:
                scores[k, a] = roc_auc_score(codes[test], P[:, 1], sample_weight=w[test])
    np.testing.assert_allclose(model.score_path_, scores.T, atol=1e-8)
    size = np.array([w[test].sum() for _, test in splits])
    mean = size @ scores / size.sum()
    error = np.sqrt(size @ (scores - mean) ** 2 / size.sum() / 3)
    np.testing.assert_allclose(model.cv_curve_.estimate, mean, atol=1e-8)
    np.testing.assert_allclose(model.cv_curve_.std_error, error, atol=1e-8)
    sign = -1 if metric == "auc" else 1
    best = np.argmin(sign * mean)
    assert model.alpha_min_ == alphas[best]
    assert model.alpha_1se_ == alphas[np.argmax(sign * mean <= sign * mean[best] + error[best])]


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("rule", ["min", "1se"])
def test_rules_and_the_fit_at_the_chosen_alpha(rule, K):
    X, y = rows(K=K)
    model = LogisticRegressionCV(rule=rule, cv=5, alphas=30).fit(X, y)
    assert model.alpha_1se_ >= model.alpha_min_
    assert model.alpha_ == (model.alpha_min_ if rule == "min" else model.alpha_1se_)
    at = int(np.flatnonzero(model.alphas_ == model.alpha_)[0])
    np.testing.assert_array_equal(model.coef_, model.path_.coefs[at])
    peer = Peer(l1_ratio=1.0, C=model.C_, solver="saga", tol=1e-9, max_iter=50_000).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=5e-3)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=2e-3)


@pytest.mark.parametrize("K", [2, 3])
def test_n_jobs_never_changes_a_bit(K):
    X, y = rows(n=300, K=K)
    one, two = (LogisticRegressionCV(n_jobs=jobs, cv=4, alphas=20).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.score_path_, two.score_path_)
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_weights_equal_repetition_on_given_folds():
    X, y = rows(n=120)
    w = np.random.default_rng(0).integers(0, 3, 120)
    fold = np.arange(120) % 4
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(4)]
    many = np.repeat(np.arange(120), w)
    repeated = [(np.flatnonzero(fold[many] != k), np.flatnonzero(fold[many] == k)) for k in range(4)]
    options = {"alphas": [0.1, 0.03, 0.01], "tol": 1e-10}
    one = LogisticRegressionCV(cv=splits, **options).fit(X, y, sample_weight=w)
    two = LogisticRegressionCV(cv=repeated, **options).fit(X[many], y[many])
    np.testing.assert_allclose(one.score_path_, two.score_path_, atol=1e-7)
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-7)


@pytest.mark.parametrize("K", [2, 3])
def test_predictions_hang_together(K):
    X, y = rows(K=K)
    model = LogisticRegressionCV(cv=3, alphas=15).fit(X, y)
    P, eta = model.predict_proba(X), model.decision_function(X)
    assert P.shape == (200, K)
    assert eta.shape == ((200,) if K == 2 else (200, K))
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-14)
    np.testing.assert_allclose(np.log(P), model.predict_log_proba(X), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[P.argmax(axis=1)])
    np.testing.assert_array_equal(
        model.predict(sparse.csr_array(X)), model.predict(X)
    )  # and the far tail stays finite in logarithms
    assert np.isfinite(model.predict_log_proba(1e6 * X)).all()


def test_class_weight_is_a_weight_of_rows():
    X, y = rows(n=240)
    y[:160] = "ant"
    w = np.where(y == "ant", 240 / 2 / (y == "ant").sum(), 240 / 2 / (y == "bee").sum())
    options = {"cv": 3, "alphas": [0.1, 0.02]}
    balanced = LogisticRegressionCV(class_weight="balanced", **options).fit(X, y)
    by_hand = LogisticRegressionCV(class_weight={"ant": w[0], "bee": w[y == "bee"][0]}, **options).fit(X, y)
    weighted = LogisticRegressionCV(**options).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(balanced.coef_, weighted.coef_, atol=1e-12)
    np.testing.assert_allclose(balanced.coef_, by_hand.coef_, atol=1e-12)


def test_an_offset_takes_part_in_fit_folds_and_predictions():
    X, y = rows(n=300)
    offset = 2.0 * X[:, 0]
    options = {"cv": 4, "alphas": [0.05, 0.005], "tol": 1e-10}
    free = np.array([1.0] * 8)
    with_offset = LogisticRegressionCV(penalty_factors=free, **options).fit(X, y, offset=offset)
    without = LogisticRegressionCV(penalty_factors=free, **options).fit(X, y)
    assert not np.allclose(with_offset.coef_, without.coef_)
    np.testing.assert_allclose(
        with_offset.decision_function(X, offset), with_offset.decision_function(X) + offset, atol=1e-12
    )


def test_an_unpenalised_column_is_never_zero():
    X, y = rows()
    factors = np.ones(8)
    factors[7] = 0.0
    path = logistic_path(X, y, penalty_factors=factors, alphas=20)
    assert (path.coefficients[7] != 0).all()
    assert path.df[0] == 1


@pytest.mark.parametrize("K", [2, 3])
def test_the_path_is_a_result(K):
    X, y = rows(K=K)
    path = logistic_path(X, y, alphas=25)
    assert isinstance(path, LogisticPath)
    assert path.df[0] == 0
    assert (np.diff(path.x) < 0).all()
    assert (np.diff(path.deviance_ratio) > 0).all()
    assert ((path.deviance_ratio >= 0) & (path.deviance_ratio < 1)).all()
    frame = path.to_frame()
    assert len(frame) == path.x.size
    assert frame.shape[1] == 4 + (1 if K == 2 else K) + 8 * (1 if K == 2 else K)
    assert "deviance_ratio" in str(path)
    assert "Logistic regression path" in str(path)
    null = -2 * np.sum([np.mean(y == c) * np.log(np.mean(y == c)) for c in np.unique(y)])
    eta = X @ path.coefs[-1].T + path.intercepts.reshape(path.x.size, -1)[-1]
    eta = np.hstack([0 * eta, eta]) if K == 2 else eta
    log_p = eta - np.log(np.exp(eta).sum(axis=1, keepdims=True))
    deviance = -2 * np.mean(log_p[np.arange(200), np.unique(y, return_inverse=True)[1]])
    assert path.deviance_ratio[-1] == pytest.approx(1 - deviance / null, abs=1e-9)


def test_the_grid_ends_where_glmnet_ends_it():
    X = np.linspace(-1, 1, 60)[:, None] + [[0.0, 0.5]]
    y = X[:, 0] > 0
    path = logistic_path(X, y, eps=1e-7)
    assert path.x.size < 100
    assert path.deviance_ratio[-2] < 0.999 < path.deviance_ratio[-1]
    assert logistic_path(X, y, alphas=path.x[-1] * np.array([1.0, 0.5, 0.1])).x.size == 3


def test_ridge_has_a_grid_too():
    X, y = rows()
    model = LogisticRegressionCV(l1_ratio=0.0, cv=3, alphas=20, eps=1e-6).fit(X, y)
    assert np.abs(model.path_.coefs[0]).max() < 0.05
    assert (model.coef_ != 0).all()


@pytest.mark.filterwarnings("ignore::assay.errors.AssayWarning")
def test_pictures():
    X, y = rows(K=3)
    model = LogisticRegressionCV(cv=3, alphas=15).fit(X, y)
    axes = model.cv_curve_.plot()
    assert [text.get_text() for text in axes.texts] == ["min", "1se"]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), model.cv_curve_.estimate)
    drawn = {tuple(np.round(line.get_ydata(), 12)) for line in model.path_.plot().lines}
    moved = model.path_.coefficients[(model.path_.coefficients != 0).any(axis=1)]
    assert {tuple(np.round(coefficient, 12)) for coefficient in moved} <= drawn


def test_bad_input_gets_a_sentence():
    X, y = rows()
    with pytest.raises(ParameterError, match="two classes"):
        LogisticRegressionCV(metric="auc").fit(*rows(K=3))
    with pytest.raises(ParameterError, match="class_weight"):
        LogisticRegressionCV(class_weight={"elk": 2.0}).fit(X, y)
    with pytest.raises(ParameterError, match="penalty_factors"):
        LogisticRegressionCV(penalty_factors=[1.0]).fit(X, y)
    with pytest.raises(ParameterError, match="alphas"):
        LogisticRegressionCV(alphas=[0.0]).fit(X, y)
    with pytest.raises(DataError, match="offset"):
        logistic_path(X, y, offset=np.ones(3))
    y = y.copy()
    y[:] = "ant"
    y[3] = "bee"
    with pytest.raises(DataError, match="rare class"):
        LogisticRegressionCV().fit(X, y)
    with pytest.raises(ParameterError, match="early_stop"):
        logistic_path(*rows(), early_stop="yes")


def test_a_path_that_stops_short_says_which_knob_to_turn():
    X, y = rows()
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        logistic_path(X, y, alphas=[1e-4], max_iter=1, tol=1e-12)
