"""Support vector machines: optimality on random problems, equivalences, hard margin, budget, words of errors."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse, stats
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import pairwise_kernels
from sklearn.model_selection import cross_val_score

from assay.errors import AssayWarning, ConvergenceWarning, DataError, ParameterError
from assay.margin import SVC, SVCCV, SVR, LinearSVC, LinearSVR, OneClassSVM, SolverComparison, svm_scalings
from assay.margin._dual import Dual, bias_and_gap, solve
from assay.margin._finish import _thin, finish
from assay.margin._gram import Gram
from assay.margin.kernels import RBF, Linear, Precomputed, StringSpectrum
from tests.naive.margin_svm import primal_classes, quadratic_programme


class Given:
    """A Gram matrix as prepared rows."""

    def __init__(self, K):
        self.K, self.n, self.diagonal = K, len(K), np.diag(K).copy()

    def block(self, rows, columns=None, out=None):
        out[:] = self.K[rows] if columns is None else self.K[np.ix_(rows, columns)]
        return out


@st.composite
def duals(draw):
    """Classes, numbers or one class; few digits, so that rows coincide and problems degenerate."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, p = draw(st.integers(4, 20)), draw(st.integers(1, 3))
    X = np.round(rng.normal(size=(n, p)), draw(st.integers(0, 2)))
    K = X @ X.T if draw(st.booleans()) else np.exp(-((X[:, None] - X[None]) ** 2).sum(2))
    C = 10.0 ** draw(st.floats(-2, 2)) * rng.integers(1, 3, n)
    kind, coupled = draw(st.sampled_from(["classes", "numbers", "one class"])), draw(st.booleans())
    if kind == "classes":
        y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        y[:2] = 1.0, -1.0
        return K, Dual(y, 0.0, np.where(y > 0, 0.0, -C), np.where(y > 0, C, 0.0), coupled)
    if kind == "numbers":
        return K, Dual(rng.normal(size=n), draw(st.sampled_from([0.0, 0.1])), -C, C, coupled)
    return K, Dual(np.zeros(n), 0.0, np.zeros(n), np.ones(n), True, 0.3 * n)


@given(duals())
@settings(max_examples=1000 if settings().max_examples >= 500 else 50)  # a thousand problems in `make test-all`
def test_every_solver_reaches_the_optimum(problem):
    K, dual = problem
    best, _ = quadratic_programme(K, dual.c, dual.eps, dual.lo, dual.hi, coupled=dual.coupled, total=dual.total)
    size = 1.0 + abs(best)
    solvers = [("smo", "epochs")] if dual.coupled else [("dual_ascent", "epochs"), ("dual_ascent", "uniform")]
    for solver, order in (*solvers, ("working_set", "epochs")):
        for megabytes in (100.0, 6 * 4 * len(K) / 2**20):  # all rows of K, and only six of them at a time
            found = solve(dual, Gram(Given(K), megabytes), solver=solver, tol=1e-4, order=order)
            assert found.converged, solver
            assert found.violation <= 1.1e-4
            # No row gains more than the violation per unit, nor can it move further than between its bounds.
            assert -1e-6 * size <= found.gap <= found.violation * (dual.hi - dual.lo).sum() + 1e-5 * size
            assert np.all((found.beta >= dual.lo) & (found.beta <= dual.hi))
            if dual.coupled:
                assert found.beta.sum() == pytest.approx(dual.total, abs=1e-9 * (1 + np.abs(found.beta).sum()))
            rise = np.diff([row[1] for row in found.records.rows])
            assert np.all(rise >= -1e-6 * size), "the objective never falls"
            beta, e = finish(K, dual, found.beta)
            _, gap, left = bias_and_gap(dual, beta, e)
            assert abs(gap) <= 1e-8 * size
            assert left <= 1e-8 * size
            assert dual.objective(beta, e) >= best - 1e-6 * size


def test_the_active_set_ends_where_free_rows_are_nothing_to_the_kernel():
    """A singular system of zeros alone: its right-hand side is the bias, and must not become a direction."""
    x, y = np.array([1.0, 0, 1, 1, 1, 2, 0, 0, 0, 1, 0, 0]), np.array([1.0, -1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1])
    top = np.array([1.0, 2, 2, 2, 2, 2, 2, 2, 1, 2, 1, 2])
    dual = Dual(y, 0.0, np.where(y > 0, 0.0, -top), np.where(y > 0, top, 0.0), True)
    start = np.array([1.0, 0, -2, -2, 2, 0, 0, -1, 1, 2, -0.6, -0.4])
    beta, e = finish(np.outer(x, x), dual, start)
    _, gap, left = bias_and_gap(dual, beta, e)
    assert (abs(gap) <= 1e-12, left <= 1e-12) == (True, True)


def classes(n=120, p=3, seed=0, flip=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = np.where((X[:, 0] + 0.5 * X[:, 1] > 0) ^ (rng.random(n) < flip), "b", "a")
    return X, y


@pytest.mark.parametrize("bias", ["unpenalised", "augmented", "none"])
def test_kkt_conditions_of_svc(bias):
    X, y = classes()
    model = SVC(C=2.0, bias=bias).fit(X, y)
    f = model.decision_function(X)
    own = np.where(y == "b", f, -f)
    alpha = np.zeros(len(y))
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    assert np.all(own[alpha == 0] >= 1 - 1e-8)
    assert np.all(own[alpha == 2.0] <= 1 + 1e-8)
    assert_allclose(own[(alpha > 0) & (alpha < 2.0)], 1.0, atol=1e-8)
    if bias == "unpenalised":
        assert model.dual_coef_.sum() == pytest.approx(0, abs=1e-10)
        K = RBF(model.kernel_.gamma)(X)
        signs = np.where(y == "b", 1.0, -1.0)
        primal = primal_classes(K, signs, 2.0, f - model.intercept_[0], model.intercept_[0])
        assert primal == pytest.approx(np.abs(model.dual_coef_).sum() - 0.5 / model.margin_[0] ** 2, rel=1e-6)


def test_solvers_agree_to_the_last_digits():
    X, y = classes()
    free = [SVC(solver=s).fit(X, y).decision_function(X) for s in ("smo", "working_set")]
    assert_allclose(free[1], free[0], atol=1e-9)
    tied = [
        SVC(solver=s, bias="augmented", order=o, random_state=1).fit(X, y).decision_function(X)
        for s, o in (("dual_ascent", "epochs"), ("dual_ascent", "uniform"), ("working_set", "epochs"))
    ]
    assert_allclose(tied[1], tied[0], atol=1e-9)
    assert_allclose(tied[2], tied[0], atol=1e-9)


def test_augmentation_is_the_kernel_plus_one():
    X, y = classes()
    augmented = SVC(bias="augmented", gamma=0.5).fit(X, y)
    plus_one = SVC(bias="none", kernel=RBF(0.5) + 1).fit(X, y)
    assert_allclose(augmented.decision_function(X), plus_one.decision_function(X), atol=1e-10)
    column = np.column_stack([X, np.ones(len(X))])
    linear = SVC(kernel="linear", bias="none").fit(column, y)
    further = LinearSVC(loss="hinge").fit(X, y)
    assert_allclose(SVC(kernel="linear", bias="augmented").fit(X, y).coef_[0], linear.coef_[0, :-1], atol=1e-8)
    assert_allclose(further.coef_[0], linear.coef_[0, :-1], atol=1e-8)
    assert further.intercept_[0] == pytest.approx(linear.coef_[0, -1], abs=1e-8)


def test_free_bias_of_linear_machines_is_that_of_svc():
    X, y = classes()
    dual = SVC(kernel="linear").fit(X, y)
    for solver in ("dual_ascent", "interior_point"):
        model = LinearSVC(loss="hinge", bias="unpenalised", solver=solver, random_state=0).fit(X, y)
        assert_allclose(model.coef_, dual.coef_, atol=1e-7)
        assert_allclose(model.intercept_, dual.intercept_, atol=1e-7)


@pytest.mark.parametrize("make", [lambda **k: SVC(C=2.0, **k), lambda **k: LinearSVC(**k)])
def test_weights_are_repetitions_and_prices(make):
    X, y = classes()
    w = np.random.default_rng(1).integers(0, 4, len(y))
    weighted = make().fit(X, y, sample_weight=w)
    repeated = make().fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-8)
    balanced = make(class_weight={"a": 3.0}).fit(X, y)
    assert_allclose(
        balanced.decision_function(X),
        make().fit(X, y, sample_weight=np.where(y == "a", 3.0, 1.0)).decision_function(X)
        if isinstance(balanced, LinearSVC)
        else make(gamma=balanced.kernel_.gamma)
        .fit(X, y, sample_weight=np.where(y == "a", 3.0, 1.0))
        .decision_function(X),
        atol=1e-8,
    )


def test_linear_solvers_reach_one_optimum():
    X, y = classes(400, 5)
    for loss, solvers in (("hinge", ("dual_ascent", "interior_point")), ("squared_hinge", ("dual_ascent", "newton"))):
        for order in ("epochs", "uniform"):
            made = [LinearSVC(loss=loss, solver=s, order=order, random_state=0).fit(X, y) for s in solvers]
            assert_allclose(made[1].coef_, made[0].coef_, atol=1e-7)
            assert all(model.dual_gap_[0] < 1e-8 for model in made)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        sgd = LinearSVC(loss="hinge", solver="sgd", max_iter=2000, random_state=0).fit(X, y)
    exact = LinearSVC(loss="hinge").fit(X, y)
    primal, best = -sgd.trace_.objective[-1], exact.trace_.objective[-1]
    assert best - 1e-6 <= primal <= 1.002 * best
    assert sgd.dual_gap_[0] >= primal - best - 1e-6


def test_large_linear_machines_prove_their_gap():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    y = X @ [1.0, -1.0, 0.5, 0.0] + rng.standard_t(2, 3000)
    for model in (
        LinearSVR(epsilon=0.1),
        LinearSVR(epsilon=0.1, bias="unpenalised"),
        LinearSVR(loss="squared_epsilon_insensitive"),
        LinearSVC(loss="hinge"),
        LinearSVC(loss="squared_hinge", bias="unpenalised"),
    ):
        fitted = model.fit(X, y > 0 if isinstance(model, LinearSVC) else y)
        assert np.max(fitted.dual_gap_) <= 2e-6 * (1 + np.abs(fitted.trace_.objective[-1]))


def test_sparse_is_dense():
    X, y = classes(200, 6)
    X[np.abs(X) < 0.5] = 0.0
    S = sparse.csr_array(X)
    for model in (
        SVC(),
        SVC(kernel="linear"),
        LinearSVC(),
        LinearSVC(loss="hinge", solver="dual_ascent", random_state=0),
    ):
        assert_allclose(model.fit(S, y).decision_function(S), model.fit(X, y).decision_function(X), atol=1e-7)


def test_hard_margin():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [4.0, 1.0]])
    y = [0, 0, 1, 1]
    model = SVC(kernel="linear", C=np.inf).fit(X, y)
    assert model.margin_[0] == pytest.approx(1.0)
    assert_allclose(model.coef_, [[1.0, 0.0]], atol=1e-9)
    assert_allclose(model.dual_gap_, 0.0, atol=1e-9)
    rows = model.margins(X, y)
    assert rows.to_frame()["place"].tolist() == ["beyond", "on", "on", "beyond"]
    assert_allclose(rows.distance, [2.0, 1.0, 1.0, 2.0], atol=1e-9)
    soft = SVC(kernel="linear", C=1e5).fit(X, y)
    assert_allclose(soft.coef_, model.coef_, atol=1e-9)


def test_hard_margin_says_why_there_is_none():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(
        DataError, match=r"no line separates the classes: rows .* surround the same point; pass a finite C"
    ):
        SVC(kernel="linear", C=np.inf).fit(X[50:], y[50:])
    with pytest.raises(DataError, match=r"no margin between 0 and 1 is wider than .*weighted means.*finite C"):
        SVC(kernel="poly", degree=2, gamma=1.0, C=np.inf).fit([[0.0], [1.0], [2.0], [-3.0]], [0, 1, 0, 1])
    twins = np.array([[0.0], [1.0], [1.0], [2.0]])
    with pytest.raises(DataError, match="two rows with these labels are identical under the kernel"):
        SVC(C=np.inf).fit(twins, [0, 0, 1, 1])
    assert SVC(C=10.0).fit(twins, [0, 0, 1, 1]).predict(twins).shape == (4,)


def test_slack_budget_and_scalings():
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], y[50:]
    totals = []
    for budget in (5.0, 20.0, 60.0):
        model = SVC(slack_budget=budget).fit(X, y)
        assert model.margins(X, y).total_slack == pytest.approx(budget, rel=1e-4)
        assert SVC(C=model.C_).fit(X, y).margins(X, y).total_slack == pytest.approx(budget, rel=1e-4)
        totals.append(model.C_)
    assert totals == sorted(totals, reverse=True)
    for budget in (96.0, 99.0):  # near that of w = 0, which is 100: far smaller C
        model = SVC(slack_budget=budget).fit(X, y)
        assert model.margins(X, y).total_slack == pytest.approx(budget, rel=1e-4)
        assert totals[-1] > model.C_
        totals.append(model.C_)
    assert SVC(slack_budget=1000.0).fit(X, y).C_ < 1e-8
    with pytest.raises(DataError, match=r"no fit .* total slack of 0\.001; the smallest found"):
        SVC(kernel="linear", slack_budget=0.001).fit(X, y)
    s = svm_scalings(50, lambda_mean=0.01)
    assert (s.C, s.lambda_) == (2.0, 0.25)
    with pytest.raises(ParameterError, match="one scaling"):
        svm_scalings(50)


def test_margins_of_several_classes():
    X, y = load_iris(return_X_y=True)
    model = SVC(decision_function_shape="ovo").fit(X, y)
    table = model.margins(X, y).to_frame()
    assert len(table) == 300
    first = table[table["pair"] == "0 | 1"]
    f = model.decision_function(X)[first["row"], 0]
    assert_allclose(first["score"], np.where(y[first["row"]] == 0, f, -f))
    assert_allclose(table["slack"], np.maximum(0, 1 - table["score"]))


def test_predictions_and_layout_are_scikit_learns():
    from sklearn import svm

    X, y = load_digits(n_class=5, return_X_y=True)
    X, y = X[:300], y[:300]
    for kernel in ("rbf", "linear", "poly"):
        ours, theirs = SVC(kernel=kernel).fit(X, y), svm.SVC(kernel=kernel, tol=1e-8).fit(X, y)
        assert np.array_equal(ours.support_, theirs.support_)
        assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-4 * np.abs(theirs.dual_coef_).max())
        assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
        assert np.array_equal(ours.predict(X), theirs.predict(X))
    numbers = y.astype(float) * 10
    assert_allclose(
        SVR(C=5.0).fit(X, numbers).predict(X), svm.SVR(C=5.0, tol=1e-8).fit(X, numbers).predict(X), atol=1e-5
    )
    one, other = OneClassSVM(nu=0.2).fit(X), svm.OneClassSVM(nu=0.2, tol=1e-9).fit(X)
    assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-5)


def test_one_class_bounds_and_p_values():
    """P(p <= alpha) <= alpha for held-out calibration: 400 sets of 50 new rows each; false-alarm rate below 1e-5."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    model = OneClassSVM(nu=0.15).fit(X)
    assert np.mean(model.decision_function(X) < -1e-9) <= 0.15 <= model.support_.size / 300
    p = np.concatenate([model.p_values(rng.normal(size=(50, 2)), rng.normal(size=(39, 2))) for _ in range(400)])
    for alpha in (0.025, 0.1, 0.5):
        # Rows of a set share their held-out rows: as if there were two rows a set at least.
        limit = alpha + 4.3 * np.sqrt(alpha * (1 - alpha) / 800)
        assert np.mean(p <= alpha) <= limit
    assert np.mean(p <= 0.5) == pytest.approx(0.5, abs=0.08)
    assert model.p_values([[9.0, 9.0]], X[:39])[0] == 1 / 40


def test_probabilities_are_calibrated():
    """A share p of the rows that are said to be positive with probability p are; false-alarm rate about 1e-6."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    truth = 1 / (1 + np.exp(-2 * X[:, 0]))
    y = (rng.random(1500) < truth).astype(int)
    model = SVC(probability=True).fit(X[:900], y[:900])
    p = model.predict_proba(X[900:])[:, 1]
    z = (y[900:].sum() - p.sum()) / np.sqrt((p * (1 - p)).sum())
    assert abs(z) < 5
    assert stats.spearmanr(p, model.decision_function(X[900:]))[0] > 0.999
    assert np.array_equal(model.predict(X[900:]), (p > 0.5).astype(int))
    assert not hasattr(SVC(), "predict_proba")


def test_memory_is_bounded_and_changes_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2600, 4))
    y = (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=2600) > 0).astype(int)
    roomy = SVC(C=3.0, tol=1e-4).fit(X, y)
    for solver in ("smo", "working_set"):
        tight = SVC(C=3.0, tol=1e-4, cache_size=2.0, solver=solver).fit(X, y)  # 200 of 2,600 rows
        assert tight.violation_[0] <= 1.01e-4
        assert_allclose(tight.decision_function(X), roomy.decision_function(X), atol=2e-3)


def test_cap_reports_the_gap():
    X, y = classes(300, 3, flip=0.3)
    with pytest.warns(ConvergenceWarning, match=r"stopped after 20 steps with a KKT violation of .* duality gap of"):
        model = SVC(C=100.0, max_iter=20).fit(X, y)
    assert model.n_iter_[0] == 20
    assert model.dual_gap_[0] > 1


def test_traces():
    X, y = classes(400)
    traces = {s: SVC(solver=s).fit(X, y).trace_ for s in ("smo", "working_set")}
    traces["dual_ascent"] = SVC(solver="dual_ascent", bias="none").fit(X, y).trace_
    table = SolverComparison(traces).to_frame()
    assert set(table["solver"]) == set(traces)
    for trace in traces.values():
        assert np.all(np.diff(trace.objective) >= -1e-7)
        assert np.all(np.diff(trace.evaluations) >= 0)
        assert np.all(np.diff(trace.seconds) >= 0)
        assert "converged after" in str(trace)


def test_grid_is_the_loop_over_fits():
    X, y = load_iris(return_X_y=True)
    Cs, gammas = [0.1, 1.0, 10.0], [0.05, 0.5]
    model = SVCCV(Cs=Cs, gammas=gammas, cv=4, tol=1e-5).fit(X, y)
    from assay.resampling import splits_of

    splits = splits_of(4, X, y, classes=True, random_state=0)
    for g, gamma in enumerate(gammas):
        for c, C in enumerate(Cs):
            wrong = [np.mean(SVC(C=C, gamma=gamma).fit(X[a], y[a]).predict(X[b]) != y[b]) * len(b) for a, b in splits]
            assert model.cv_map_.error[g, c] == pytest.approx(sum(wrong) / len(y), abs=1e-9)
    g, c = model.cv_map_.best
    assert model.cv_map_.error.min() == model.cv_map_.error[g, c]
    assert (model.C_, model.gamma_) == (Cs[c], gammas[g])
    simple = SVCCV(Cs=Cs, gammas=gammas, cv=4, rule="1se").fit(X, y)
    assert simple.C_ <= model.C_
    assert len(model.cv_map_.to_frame()) == 6


def test_texts_and_columns_by_name():
    words, y = ["banana", "bandana", "cabana", "river", "rover", "liver"], [0, 0, 0, 1, 1, 1]
    model = SVC(kernel=StringSpectrum(2), C=10.0).fit(words, y)
    assert model.predict(["savanna", "driver"]).tolist() == [0, 1]
    X, labels = classes()
    part = SVC(kernel=Linear().on([0])).fit(X, labels)
    assert_allclose(
        part.decision_function(X), SVC(kernel="linear").fit(X[:, :1], labels).decision_function(X[:, :1]), atol=1e-8
    )


def test_precomputed_and_functions():
    X, y = classes()
    K = RBF(0.3)(X)
    given, direct = SVC(kernel="precomputed").fit(K, y), SVC(gamma=0.3).fit(X, y)
    assert_allclose(given.decision_function(K), direct.decision_function(X), atol=1e-9)
    function = SVC(kernel=lambda A, B: A @ B.T).fit(X, y)
    assert_allclose(function.decision_function(X), SVC(kernel="linear").fit(X, y).decision_function(X), atol=1e-7)
    with pytest.raises(DataError, match=r"not symmetric: K\[.*\(K \+ K.T\) / 2"):
        SVC(kernel="precomputed").fit(K + np.triu(np.ones_like(K)), y)
    with pytest.warns(AssayWarning, match="not positive semi-definite"):
        SVC(kernel="precomputed").fit(K - 0.5 * np.eye(len(K)), y)


@pytest.mark.parametrize(
    ("model", "X", "y", "words"),
    [
        (SVC(), [[0.0], [1.0]], ["a", "a"], "only one class, 'a'"),
        (SVC(C=0.0), [[0.0], [1.0]], [0, 1], "C = 0.0 is out of range; it must be a number above 0, or inf"),
        (SVC(), [["x"], ["y"]], [0, 1], "column 0 contains the text 'x' in row 0"),
        (SVC(solver="dual_ascent"), [[0.0], [1.0]], [0, 1], "bias='augmented'"),
        (SVC(solver="smo", bias="none"), [[0.0], [1.0]], [0, 1], "solver='dual_ascent'"),
        (SVC(slack_budget=1.0), [[0.0], [1.0], [2.0]], [0, 1, 2], "slack_budget is for two classes"),
        (SVC(class_weight={0: 0.0}), [[0.0], [1.0]], [0, 1], "class_weight leaves fewer than two classes"),
        (LinearSVC(solver="newton", loss="hinge"), [[0.0], [1.0]], [0, 1], "loss='squared_hinge'"),
        (LinearSVC(solver="sgd"), [[0.0], [1.0]], [0, 1], "solver='newton'"),
        (SVR(kernel="poly", gamma=1.0), [[1e60], [1.0]], [0.0, 1.0], "column 0 reaches 1e\\+60"),
        (SVCCV(Cs=[0.0, 1.0]), [[0.0], [1.0]], [0, 1], "Cs = .* finite numbers above 0"),
    ],
)
def test_bad_input_is_one_clear_sentence(model, X, y, words):
    with pytest.raises((DataError, ParameterError), match=words):
        model.fit(X, y)


def test_uneven_columns_get_a_hint():
    X, y = classes()
    for model in (SVC(), LinearSVC(), SVR(), OneClassSVM()):
        with pytest.warns(AssayWarning, match="column 1 varies more than 10,000 times as much as column"):
            model.fit(X * [1.0, 1e6, 1.0], (y == "b").astype(float))


def test_zero_rows_of_the_kernel():
    X = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [2.0, 1.0]])
    y = [0, 1, 0, 1]
    for model in (SVC(kernel="linear"), SVC(kernel="linear", bias="none"), LinearSVC(loss="hinge")):
        assert np.isfinite(model.fit(X, y).decision_function(X)).all()
    free = SVC(kernel="linear", bias="none", C=3.0).fit(X, y)
    at = dict(zip(free.support_.tolist(), free.dual_coef_[0].tolist(), strict=True))
    assert at[0] == -3.0  # where k(x, x) = 0 the optimum is alpha = C
    assert at[1] == 3.0


def test_many_rows_choose_by_a_sample(monkeypatch):
    monkeypatch.setattr("assay.margin.svc_cv.LARGEST", 60)
    X, y = load_iris(return_X_y=True)
    model = SVCCV(Cs=[1.0, 10.0], gammas=[0.1]).fit(X, y, sample_weight=np.ones(len(y)))
    assert model.machine_.support_.max() > 60  # the last fit is to all rows
    assert model.score(X, y) > 0.9
    with pytest.raises(DataError, match="pass a number of folds as cv"):
        SVCCV(Cs=[1.0], gammas=[0.1], cv=[(np.arange(0, 150, 2), np.arange(1, 150, 2))]).fit(X, y)


def test_pictures():
    import matplotlib.pyplot as plt

    X, y = classes(80, 2)
    model = SVC().fit(X, y)
    linear = LinearSVC(loss="hinge").fit(X, y)
    grid = SVCCV(Cs=[0.1, 1.0], gammas=[0.1, 1.0], rule="1se").fit(X, y)
    both = SolverComparison({"smo": model.trace_, "interior_point": linear.trace_})
    made = (model.regions(X, y), linear.regions(X, y), model.margins(X, y), model.trace_, both, grid.cv_map_)
    for result in made:
        axes = result.plot()
        assert axes.get_title(loc="left")
        assert str(result)
        assert len(result.to_frame())
        plt.close(axes.figure)


@pytest.mark.parametrize("gap", [1e-3, 1e-5, 1e-6])
def test_thin_margins_are_found_and_not_denied(gap):
    model = SVC(kernel="linear", C=np.inf).fit([[-1.0], [0.0], [gap], [1.0]], [0, 0, 1, 1])
    assert model.margin_[0] == pytest.approx(gap / 2, rel=1e-6)


def test_a_solver_that_was_stopped_proves_nothing():
    X = np.random.default_rng(0).normal(size=(200, 3))
    with pytest.warns(ConvergenceWarning, match="stopped after 5 steps"):
        SVC(kernel="linear", C=np.inf, max_iter=5).fit(X, X @ [1.0, 2.0, 3.0] > 0.1)


def test_precomputed_as_a_kernel_is_precomputed_by_name():
    X = np.random.default_rng(0).normal(size=(60, 2))
    K, y = RBF(1.0)(X), X.sum(axis=1) > 0
    scores = [cross_val_score(SVC(kernel=kernel), K, y, cv=3) for kernel in ("precomputed", Precomputed())]
    np.testing.assert_array_equal(*scores)
    with pytest.raises(DataError, match="not symmetric"):
        SVC(kernel=Precomputed()).fit(np.triu(K), y)


def test_a_budget_that_cannot_be_met_names_one_that_nearly_can():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(150, 1)), 1)  # many equal rows of both classes
    y = rng.integers(0, 2, 150)
    with pytest.raises(DataError, match="the smallest found is ") as caught:
        SVC(slack_budget=1.0).fit(X, y)
    least = float(str(caught.value).split("the smallest found is ")[1].split(";")[0])
    assert least <= SVC(C=1.0).fit(X, y).margins(X, y).total_slack
    model = SVC(slack_budget=1.05 * least).fit(X, y)
    assert model.margins(X, y).total_slack == pytest.approx(1.05 * least, rel=1e-3)


def test_kernels_on_named_columns_read_clean_tables():
    X = np.random.default_rng(0).normal(size=(60, 3))
    y, frame = X[:, 0] > X[:, 2], pd.DataFrame(X, columns=["a", "b", "c"])
    named = SVC(kernel=RBF(0.5).on(["c"]) + Linear().on("a")).fit(frame, y)
    placed = SVC(kernel=RBF(0.5).on([2]) + Linear().on([0])).fit(X, y)
    np.testing.assert_array_equal(named.decision_function(frame), placed.decision_function(X))
    with pytest.raises(ValueError, match="feature names"):
        named.predict(frame[["c", "b", "a"]])
    with pytest.raises(DataError, match="3 features"):
        placed.predict(X[:, :1])


@pytest.mark.parametrize("scale", [[1e-8, 1e8], [1.0, 1e8], [1.0, 1e10], [1e-4, 1e8]])
@pytest.mark.parametrize("bias", ["augmented", "unpenalised"])
def test_wild_columns_never_end_worse_than_no_weights_and_say_so(scale, bias):
    X = np.random.default_rng(3).normal(size=(50, 2))
    y = X[:, 0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LinearSVR(bias=bias).fit(X * scale, y)
    assert np.abs(y - model.predict(X * scale)).sum() <= np.abs(y).sum() * (1 + 1e-6)
    said = any(issubclass(one.category, ConvergenceWarning) for one in caught)
    assert said == (not model.trace_.converged)
    assert said or model.dual_gap_ <= 1e-3 * np.abs(y).sum()


def test_equal_rows_are_named_by_their_place_in_the_table():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(DataError, match=r"no hyperplane separates 1 from 2.*\(rows (60 and 150|150 and 60)\)"):
        SVC(C=np.inf).fit(np.vstack([X, X[60:61]]), np.append(y, 2))


def test_a_hard_margin_needs_a_kernel():
    X = np.random.default_rng(3).normal(size=(50, 2))
    with pytest.raises(DataError, match=r"C = inf needs a valid kernel, but tanh\(.*\) has the eigenvalue -"):
        SVC(kernel="sigmoid", coef0=-1.0, gamma=2.0, C=np.inf).fit(X, X[:, 0] > 0)
    assert SVC(kernel="precomputed", C=np.inf).fit(RBF(1.0)(X), X[:, 0] > 0).margin_[0] > 0


@pytest.mark.parametrize("scale", [[1.0, 1e8], [1e-8, 1e8], [1e-4, 1e4]])
@pytest.mark.parametrize("n", [50, 1100])
@pytest.mark.parametrize("bias", ["augmented", "unpenalised"])
def test_wild_columns_never_end_worse_than_no_weights_with_kernels(scale, n, bias):
    """The steps lose themselves in rounding; the warning says so, with the remedy."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 2))
    signs, y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0), X[:, 0]
    X = X * scale
    options = {"kernel": "linear", "bias": bias, "max_iter": 3000}
    with pytest.warns(AssayWarning, match="standardise the columns") as caught:
        made = SVC(**options).fit(X, signs)
    hinge = np.maximum(0, 1 - signs * made.decision_function(X)).sum() + 0.5 * (made.coef_**2).sum()
    least = min(np.maximum(0, 1 - signs * b).sum() for b in ((-1, 0, 1) if bias == "unpenalised" else (0,)))
    assert hinge <= least * (1 + 1e-6)
    assert any(issubclass(one.category, ConvergenceWarning) for one in caught) != bool(
        made.dual_gap_[0] <= 1e-3 * least
    )
    with pytest.warns(AssayWarning, match="standardise the columns"):
        line = SVR(**options).fit(X, y)
    loss = np.maximum(0, np.abs(y - line.predict(X)) - 0.1).sum() + 0.5 * (line.coef_**2).sum()
    middle = np.median(y) if bias == "unpenalised" else 0.0
    assert loss <= np.maximum(0, np.abs(y - middle) - 0.1).sum() * (1 + 1e-6)


def test_a_kernel_that_is_none_on_the_rows_is_named():
    X = np.random.default_rng(3).normal(size=(50, 2))
    with pytest.warns(
        AssayWarning, match=r"tanh\(.*\) is not a valid kernel: its centred Gram matrix has the eigenvalue -"
    ):
        SVC(kernel="sigmoid", coef0=-1.0, gamma=2.0).fit(X, X[:, 0] > 0)
    with pytest.warns(AssayWarning, match=r"is not a valid kernel: its Gram matrix"):
        SVR(kernel="sigmoid", coef0=-1.0, gamma=2.0, bias="none").fit(X, X[:, 0])
    counts = np.random.default_rng(0).poisson(3.0, (60, 4)) + 1.0
    for name in ("chi2", "additive_chi2"):  # the second is one as far as sums of beta are zero
        SVC(kernel=name).fit(counts, counts[:, 0] > 4)


@pytest.mark.parametrize("gamma", ["scale", 0.5])
def test_kernels_of_scikit_learn_by_name(gamma):
    rng = np.random.default_rng(0)
    X = rng.poisson(4.0, (80, 5)).astype(float)
    y = X[:, 0] > X[:, 1]
    K = pairwise_kernels(X, metric="chi2", gamma=1.0 if gamma == "scale" else gamma)
    ours, peer = SVC(kernel="chi2", gamma=gamma).fit(X, y), SVC(kernel="precomputed").fit(K, y)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(K), atol=1e-6)
    with pytest.raises(DataError, match=r"the kernel chi2\(x, x'\) cannot be computed: .*negative values"):
        SVC(kernel="chi2").fit(-X, y)
    with pytest.raises(DataError, match=r"the kernel chi2\(x, x'\) cannot be computed"):
        SVC(kernel="chi2").fit(sparse.csr_array(X), y)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_columns_far_from_zero_end_in_a_warning_and_never_in_a_false_claim(loss):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + X[:, 1] > 0
    free = LinearSVC(loss=loss, bias="unpenalised").fit(X + 1e6, y)  # a free bias takes the offset
    assert free.score(X + 1e6, y) > 0.9
    with pytest.warns(ConvergenceWarning, match="standardise the columns"):
        model = LinearSVC(loss=loss).fit(X + 1e9, y)  # the Hessian is singular up to rounding
    assert not model.trace_.converged
    with pytest.warns(ConvergenceWarning, match="standardise the columns"):
        LinearSVR().fit(X + 1e9, X[:, 0])


def test_weights_of_very_different_sizes_are_factored():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    y, w = X[:, 0] + X[:, 1] > 0, np.repeat([1e-12, 1e12], 30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert LinearSVC(loss="hinge").fit(X, y, sample_weight=w).score(X[30:], y[30:]) == 1.0


def test_regions_of_a_grid_are_those_of_its_units():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = X[:, 0] + X[:, 1] ** 2 > 0.5
    plain, tiny = (SVCCV(Cs=[1.0]).fit(X * unit, y).regions(X * unit, y) for unit in (1.0, 2.0**-70))
    assert np.array_equal(plain.code, tiny.code)
    assert np.array_equal(plain.support, tiny.support)
    table = pd.DataFrame(X, columns=["a", "b"])
    model = SVCCV(Cs=[1.0]).fit(table, y)
    assert np.array_equal(model.regions(table, y).code, plain.code)  # no warning of names either
    assert model.margins(table, y).total_slack == pytest.approx(
        SVC(gamma=model.gamma_).fit(X, y).margins(X, y).total_slack
    )


def test_one_number_per_machine_counts_its_support_vectors():
    from sklearn import svm

    X = np.random.default_rng(0).normal(size=(50, 2))
    for ours, theirs in ((SVR(), svm.SVR()), (OneClassSVM(), svm.OneClassSVM())):
        assert ours.fit(X, X[:, 0]).n_support_.tolist() == [ours.support_.size]
        assert ours.n_support_.shape == theirs.fit(X, X[:, 0]).n_support_.shape


def test_many_dependent_free_rows_leave_in_one_go():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    K, y = X @ X.T, np.where(X[:, 0] + rng.normal(size=400) > 0, 1.0, -1.0)
    bound = np.full(400, 10.0)
    for coupled in (True, False):
        dual = Dual(y, 0.0, np.where(y > 0, 0.0, -bound), np.where(y > 0, bound, 0.0), coupled)
        start = 5.0 * y  # all rows are free, of a matrix of rank 3
        start[y > 0] *= np.sum(y < 0) / np.sum(y > 0) if coupled else 1.0
        beta, e, free = start.copy(), y - K @ start, np.ones(400, dtype=bool)
        _thin(K, dual, beta, e, free, np.sign(beta))
        assert free.sum() <= 3 + coupled  # each other one would have cost a round, and a round their eigenvectors
        assert_allclose(K @ beta, K @ start, atol=1e-8 * np.abs(K @ start).max())
        assert not coupled or abs(beta.sum() - start.sum()) < 1e-8 * np.abs(start).sum()
        assert np.all((beta >= dual.lo) & (beta <= dual.hi))
        before = dual.objective(start, e)
        assert dual.objective(beta, y - K @ beta) >= before - 1e-9 * abs(before)
