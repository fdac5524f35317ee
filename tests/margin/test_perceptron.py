"""The perceptron: the rule itself, the bound on its mistakes, what the variants answer, and what is proved."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import Perceptron as Peer

from assay.errors import ConvergenceWarning, DataError, ParameterError
from assay.margin import Perceptron
from assay.margin.kernels import RBF, Linear, Polynomial, Precomputed, StringSpectrum, normalize
from assay.state import from_state, to_state
from tests.naive import margin_units as naive


def table(seed: int, n: int = 40, p: int = 3, noise: float = 0.0, gap: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Rows on both sides of a plane, at least `gap` from it; `noise` mixes them."""
    rng = np.random.default_rng(seed)
    X, u = rng.normal(size=(n, p)), rng.normal(size=p)
    score = X @ u / np.sqrt(u @ u) - 0.2 + noise * rng.normal(size=n)
    X += np.outer(gap * np.sign(score), u / np.sqrt(u @ u))
    return X, (score > 0).astype(int)


def refuse(value: object) -> None:
    raise AssertionError(type(value))


def both_classes(y: np.ndarray) -> bool:
    return np.unique(y).size == 2


# The rule.


@given(st.integers(0, 10_000), st.sampled_from([0.5, 0.1, 3.0]), st.sampled_from([0.0, 1.0]), st.booleans())
def test_the_rule_is_the_textbook_one(seed, eta, margin, intercept):
    X, y = table(seed, n=15, noise=0.3)
    if not both_classes(y):
        return
    A = naive.augmented(X) if intercept else X
    after, mistakes = naive.perceptron(A, np.where(y == 1, 1, -1), eta, 4, margin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        settings = {"learning_rate": eta, "margin": margin, "fit_intercept": intercept, "max_iter": 4}
        last = Perceptron(**settings).fit(X, y)
        mean = Perceptron("averaged", **settings).fit(X, y)
    weights = [np.append(m.coef_[0], m.intercept_[0] if intercept else []) for m in (last, mean)]
    np.testing.assert_allclose(weights[0], after[-1], atol=1e-10)
    np.testing.assert_allclose(weights[1], np.mean(after, axis=0), atol=1e-10)
    assert last.mistakes_.tolist() == [len(mistakes)]


@given(st.integers(0, 10_000), st.sampled_from([0.0, 1.0]))
def test_steps_are_subgradient_steps_on_the_hinge(seed, corner):
    """On max(0, -y f) those of the perceptron, on max(0, 1 - y f) those of the margin perceptron."""
    X, y = table(seed, n=12, noise=0.5)
    if not both_classes(y):
        return
    A, signs = naive.augmented(X), np.where(y == 1, 1, -1)
    after = naive.subgradient(A, signs, 0.2, 3, corner)
    model = Perceptron(learning_rate=0.1, margin=corner)
    for _ in range(3):
        model.partial_fit(X, y, classes=[0, 1])
    np.testing.assert_allclose(np.append(model.coef_[0], model.intercept_), after[-1], atol=1e-10)


def test_scikit_learn_makes_the_same_steps():
    X, y = load_iris(return_X_y=True)
    keep = y != 2
    ours = Perceptron(max_iter=5).fit(X[keep], y[keep])
    peer = Peer(shuffle=False, max_iter=5, tol=None, eta0=1.0).fit(X[keep], y[keep])
    np.testing.assert_allclose(ours.coef_, peer.coef_)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_)


def test_a_row_on_the_line_can_count_as_negative():
    """o = -1 for w'x = 0: from zero the first negative rows are no mistakes."""
    X, y = [[1.0], [2.0], [5.0]], [0, 0, 1]
    assert Perceptron(max_iter=100).fit(X, y).trace_.mistakes[0, 0] > 0
    strict = Perceptron(on_line="negative", max_iter=1000).fit(X, y)
    loose = Perceptron(max_iter=1000).fit(X, y)
    assert strict.predict(X).tolist() == loose.predict(X).tolist() == y
    assert Perceptron(on_line="negative").partial_fit(X[:2], y[:2], classes=[0, 1]).mistakes_.tolist() == [0]
    assert Perceptron().partial_fit(X[:2], y[:2], classes=[0, 1]).mistakes_.tolist() == [1]


def test_the_learning_rate_scales_the_weights_and_decides_nothing():
    X, y = table(1, gap=0.3)
    one, other = Perceptron().fit(X, y), Perceptron(learning_rate=0.05).fit(X, y)
    np.testing.assert_allclose(other.coef_, one.coef_ / 10)
    assert one.mistakes_ == other.mistakes_


# The bound.


@given(
    st.integers(0, 100_000),
    st.integers(2, 60),
    st.integers(1, 5),
    st.sampled_from([0.0, 0.05, 1.0]),
    st.booleans(),
    st.sampled_from([0.0, 0.5]),
)
def test_mistakes_never_exceed_the_bound_on_separable_rows(seed, n, p, gap, shuffle, margin):
    X, y = table(seed, n, p, gap=gap)
    if not both_classes(y):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a thin margin may take more passes
        model = Perceptron(shuffle=shuffle, random_state=seed, margin=margin, max_iter=200).fit(X, y)
    trace = model.trace_
    assert trace.separable.tolist() == [1]
    assert model.mistakes_[0] <= trace.bound[0]
    assert trace.radius == pytest.approx(np.sqrt((naive.augmented(X) ** 2).sum(axis=1).max()))


@given(st.integers(0, 10_000), st.booleans())
def test_gamma_is_the_half_width_of_the_widest_slab(seed, intercept):
    X, y = table(seed, 20, 2, gap=0.4)
    y = y if intercept else (X @ [1.0, -0.5] > 0).astype(int)
    if not both_classes(y):
        return
    A, signs = (naive.augmented(X) if intercept else X), np.where(y == 1, 1.0, -1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trace = Perceptron(fit_intercept=intercept, max_iter=3).fit(X, y).trace_
    # min |w|^2 subject to y w'a >= 1 has |w| = 1 / gamma.
    best = minimize(
        lambda w: w @ w,
        np.ones(A.shape[1]),
        jac=lambda w: 2 * w,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
        constraints={"type": "ineq", "fun": lambda w: signs * (A @ w) - 1, "jac": lambda w: signs[:, None] * A},
    )
    if best.success:
        assert trace.margin[0] == pytest.approx(1 / np.sqrt(best.fun), rel=1e-4)


def test_the_bound_is_the_one_of_a_hand_computed_table():
    """Two rows at x = -1 and 1: augmented (-1, 1), (1, 1), R^2 = 2, the widest slab is x = 0 with half-width 1."""
    trace = Perceptron().fit([[-1.0], [1.0]], ["no", "yes"]).trace_
    assert trace.radius**2 == pytest.approx(2)
    assert trace.margin[0] == pytest.approx(1)
    assert trace.bound[0] == pytest.approx(2)
    assert str(trace).startswith("yes: ")


# What is proved.


def test_cycling_is_noticed_and_that_no_line_separates_is_proved():
    X, y = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), [0, 0, 1, 1]
    with pytest.warns(ConvergenceWarning, match=r"no line separates the classes: rows .*variant='pocket'"):
        model = Perceptron().fit(X, y)
    trace = model.trace_
    assert trace.cycle[0] > 0
    assert trace.separable[0] == 0
    proof = trace.certificates[0]
    sides = [proof.weights[proof.sides == side] @ X[proof.rows[proof.sides == side]] for side in (1, -1)]
    np.testing.assert_allclose(sides[0], sides[1], atol=1e-9)
    assert np.isnan(trace.bound[0])
    assert "cycle" in str(trace)


def test_duplicate_rows_with_opposite_classes():
    with pytest.warns(ConvergenceWarning, match="rows 0 and 2 are equal, their classes are not"):
        Perceptron().fit([[1.0, 2.0], [3.0, 1.0], [1.0, 2.0]], [0, 1, 1])


def test_few_passes_are_told_from_no_line():
    X, y = table(3, n=200, gap=0.001)
    with pytest.warns(ConvergenceWarning, match="although a line separates the classes.*raise max_iter"):
        model = Perceptron(max_iter=2).fit(X, y)
    assert model.trace_.separable.tolist() == [1]


def test_nothing_is_proved_wrongly():
    """Whatever is said about a random table of small whole numbers agrees with the whole linear programme."""
    from tests.numerics.test_separation import largest_margin

    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = np.round(1.5 * rng.normal(size=(14, 2)))
        y = (X @ [1.0, 0.7] + 0.8 * rng.normal(size=14) > 0).astype(int)
        if not both_classes(y):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            trace = Perceptron(max_iter=100).fit(X, y).trace_
        assert trace.separable[0] == int(largest_margin(X, y == 1, True) > 1e-9)


# Variants.


def test_pocket_keeps_the_fewest_errors():
    X, y = table(5, n=300, noise=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        last = Perceptron(max_iter=30).fit(X, y)
    pocket = Perceptron("pocket", max_iter=30).fit(X, y)
    averaged = Perceptron("averaged", max_iter=30).fit(X, y)
    assert pocket.score(X, y) >= last.score(X, y)
    assert pocket.score(X, y) > 0.8
    assert averaged.score(X, y) > 0.8
    separable = table(5, gap=0.3)
    assert Perceptron("pocket").fit(*separable).score(*separable) == 1


def test_votes_are_those_of_all_weights():
    X, y = table(7, n=30, noise=0.4)
    A, signs = naive.augmented(X), np.where(y == 1, 1, -1)
    after, _ = naive.perceptron(A, signs, 0.5, 3)
    wanted = np.mean([np.where(A @ w > 0, 1, -1) for w in after], axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = Perceptron("voted", max_iter=3).fit(X, y)
        same = Perceptron("voted", max_iter=3, kernel=Linear()).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), wanted, atol=1e-12)
    np.testing.assert_allclose(same.decision_function(X), wanted, atol=1e-12)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("variant", ["last", "averaged", "voted", "pocket"])
def test_the_linear_kernel_is_no_kernel(variant):
    for noise in (0.0, 0.5):
        X, y = table(2, n=60, noise=noise)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            plain = Perceptron(variant, max_iter=20).fit(X, y)
            dual = Perceptron(variant, max_iter=20, kernel="linear").fit(X, y)
        np.testing.assert_allclose(dual.decision_function(X), plain.decision_function(X), atol=1e-8)
        assert dual.mistakes_ == plain.mistakes_
        np.testing.assert_allclose(dual.trace_.bound, plain.trace_.bound, rtol=1e-3)


def test_a_kernel_separates_what_no_line_does():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.where((X**2).sum(axis=1) < 1, "in", "out")
    model = Perceptron(kernel=Polynomial(2, 1.0, 1.0)).fit(X, y)
    assert model.trace_.converged.all()
    assert model.mistakes_[0] <= model.trace_.bound[0]
    assert model.score(X, y) == 1
    assert Perceptron(kernel=RBF(2.0)).fit(X, y).score(X, y) == 1
    gram = Polynomial(2, 1.0, 1.0)(X)
    other = Perceptron(kernel=Precomputed()).fit(gram, y)
    np.testing.assert_allclose(other.decision_function(gram), model.decision_function(X), rtol=1e-8)
    with pytest.warns(ConvergenceWarning, match="no line separates"):
        Perceptron(kernel="linear", max_iter=60).fit(X, y)


def test_strings_through_their_gram_matrix():
    names = ["anna", "hannah", "joanna", "susanna", "otto", "lotte", "charlotte", "scott"]
    k = normalize(StringSpectrum(2) + StringSpectrum(1))
    model = Perceptron(kernel=Precomputed()).fit(k(names), [0, 0, 0, 0, 1, 1, 1, 1])
    assert model.trace_.converged.all()
    assert model.predict(k(["joan", "pott"], names)).tolist() == [0, 1]
    with pytest.raises(ParameterError, match=r"needs strings.*kernel=Precomputed\(\)"):
        Perceptron(kernel=k).fit(names, [0, 0, 0, 0, 1, 1, 1, 1])


# As an estimator.


def test_three_classes_one_against_the_rest():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="for the class 'versicolor'"):
        model = Perceptron().fit(X, np.array(["setosa", "versicolor", "virginica"])[y])
    assert model.trace_.separable.tolist()[:2] == [1, 0]
    assert model.coef_.shape == (3, 4)
    assert list(model.trace_.to_frame().index) == ["setosa", "versicolor", "virginica"]
    assert Perceptron("averaged", max_iter=200, shuffle=True, random_state=0).fit(X, y).score(X, y) > 0.85


@pytest.mark.parametrize("variant", ["last", "averaged", "pocket"])
def test_sparse_rows_are_the_same_rows(variant):
    X, y = table(4, n=80, noise=0.2)
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        dense = Perceptron(variant, max_iter=30).fit(X, y)
        thin = Perceptron(variant, max_iter=30).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.coef_, dense.coef_, atol=1e-10)
    np.testing.assert_allclose(thin.decision_function(sparse.csr_array(X)), dense.decision_function(X), atol=1e-10)


def test_threads_and_blocks_of_rows_change_nothing():
    X, y = load_digits(return_X_y=True)
    one = Perceptron("averaged", max_iter=5, shuffle=True, random_state=0).fit(X, y)
    two = Perceptron("averaged", max_iter=5, shuffle=True, random_state=0, n_jobs=2).fit(X, y)
    assert np.array_equal(one.coef_, two.coef_)
    assert one.score(X, y) > 0.95
    pieces = Perceptron("averaged")
    whole = Perceptron("averaged").partial_fit(X, y)
    for part in np.array_split(np.arange(len(X)), 4):
        pieces.partial_fit(X[part], y[part], classes=np.arange(10))
    np.testing.assert_allclose(pieces.coef_, whole.coef_)
    assert np.array_equal(pieces.mistakes_, whole.mistakes_)


def test_a_warm_start_goes_on():
    X, y = table(6, n=100, gap=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = Perceptron(max_iter=1, warm_start=True)
        first = model.fit(X, y).coef_
        for _ in range(400):
            if model.fit(X, y).trace_.converged.all():
                break
    straight = Perceptron().fit(X, y)
    assert not np.array_equal(first, model.coef_)
    np.testing.assert_allclose(model.coef_, straight.coef_, atol=1e-9)
    assert np.isnan(model.trace_.bound).all()  # it holds from zero only


@pytest.mark.parametrize("settings", [{}, {"kernel": RBF(0.5)}, {"variant": "voted"}, {"kernel": Precomputed()}])
def test_every_form_comes_back_from_its_state(settings):
    X, y = table(8, n=30, noise=0.3)
    X = RBF(0.5)(X) if "kernel" in settings and isinstance(settings["kernel"], Precomputed) else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = Perceptron(**settings, max_iter=60).fit(X, y)
    tree, arrays = to_state(model, refuse)
    again = from_state(json.loads(json.dumps(tree)), arrays, refuse)
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert str(again.trace_) == str(model.trace_)


def test_bad_input():
    X, y = table(0)
    with pytest.raises(DataError, match="only one class"):
        Perceptron().fit(X, np.zeros(len(X)))
    with pytest.raises(ParameterError, match="learning_rate"):
        Perceptron(learning_rate=0.0).fit(X, y)
    with pytest.raises(ParameterError, match="unknown kernel 'rbff'"):
        Perceptron(kernel="rbff").fit(X, y)
    with pytest.raises(DataError, match="which was not passed in the first call"):
        Perceptron().partial_fit(X, y, classes=[0, 1]).partial_fit(X, y + 1)
    with pytest.raises(AttributeError, match="partial_fit"):
        _ = Perceptron("pocket").partial_fit


def test_augmentation_is_the_kernel_plus_one():
    X, y = table(9, n=40, noise=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with_ones = Perceptron(kernel=RBF(0.5), max_iter=30).fit(X, y)
        plus_one = Perceptron(kernel=RBF(0.5) + 1, fit_intercept=False, max_iter=30).fit(X, y)
    np.testing.assert_allclose(plus_one.decision_function(X), with_ones.decision_function(X), rtol=1e-9)
    assert plus_one.mistakes_ == with_ones.mistakes_


def test_pieces_go_on_after_a_fit():
    """Each class has seen its own number of rows: one that is done early stops early."""
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    model = Perceptron("averaged", max_iter=6).fit(X, y)
    passes = (model.trace_.mistakes > 0).sum(axis=1) + model.trace_.converged
    assert len(set(passes)) > 1
    model.partial_fit(X[:40], y[:40])
    for k in range(3):
        A, signs = naive.augmented(X), np.where(y == k, 1, -1)
        w, total, seen = np.zeros(5), np.zeros(5), 0
        for a, t in [*zip(A, signs, strict=True)] * int(passes[k]) + [*zip(A[:40], signs[:40], strict=True)]:
            w = w + t * a if t * (w @ a) <= 0 else w
            total, seen = total + w, seen + 1
        np.testing.assert_allclose(np.append(model.coef_[k], model.intercept_[k]), total / seen, rtol=1e-9, atol=1e-12)


# Kernels that are none, units that are tiny, and changes of mind.


def test_nothing_is_proved_with_a_gram_matrix_that_is_not_positive():
    rng = np.random.default_rng(0)
    for _ in range(20):
        K = rng.normal(size=(8, 8))
        K, y = K + K.T, rng.permutation([0, 1] * 4)  # with K + 1 invertible some weights are right on every row
        trace = Perceptron("pocket", kernel="precomputed", max_iter=60).fit(K, y).trace_
        assert trace.separable[0] == -1
        assert np.isnan(trace.bound[0])
    assert np.isfinite(Perceptron("pocket", kernel="precomputed").fit(-3 * np.eye(3), [0, 1, 0]).trace_.radius)


@pytest.mark.parametrize("gamma", [1e-4, 1e-6, 1e-8, 1e-12])
def test_a_flat_gaussian_kernel_is_not_declared_unable_to_separate(gamma):
    X, y = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [0, 0, 1, 1]
    assert Perceptron("averaged", kernel=RBF(gamma)).fit(X, y).trace_.separable[0] != 0


@pytest.mark.parametrize("kernel", [None, Linear()])
def test_rows_on_the_line_as_negative_leave_the_margin_as_it_is(kernel):
    X, y = table(3, gap=0.3)
    model = Perceptron(kernel=kernel, margin=5.0, on_line="negative").fit(X, y)
    assert model.trace_.converged.all()
    assert (np.where(y == 1, 1, -1) * model.decision_function(X)).min() >= 5.0


def test_columns_in_tiny_units_have_a_margin():
    X, y = table(0, gap=0.5)
    trace = Perceptron("averaged", max_iter=60).fit(1e-200 * X, y).trace_
    assert trace.separable[0] == 1
    assert np.isinf(trace.bound[0])


def test_kernels_read_columns_by_name():
    X, y = table(1)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    kernel = RBF(gamma=0.5).on(["c", "a"]) + Linear().on("b")
    named = Perceptron("averaged", kernel=kernel).fit(frame, y)
    placed = Perceptron("averaged", kernel=RBF(gamma=0.5).on([2, 0]) + Linear().on([1])).fit(X, y)
    np.testing.assert_array_equal(named.decision_function(frame), placed.decision_function(X))
    assert named.kernel_ == placed.kernel_
    with pytest.raises(DataError, match="column 'd'"):
        Perceptron(kernel=Linear().on("d")).fit(frame, y)


def test_without_an_intercept_a_warm_start_drops_it():
    X, y = table(2, gap=0.5)
    model = Perceptron(warm_start=True).fit(X + 1, y).set_params(fit_intercept=False)
    assert model.fit(X, y).intercept_.tolist() == [0.0]
    assert model.set_params(fit_intercept=True).fit(X + 1, y).intercept_[0] != 0
    assert model.set_params(fit_intercept=False).partial_fit(X, y).intercept_.tolist() == [0.0]


def test_partial_fit_counts_all_passes_and_follows_other_forms():
    X, y = table(2, gap=0.5)
    model = Perceptron().fit(X, y)
    for _ in range(3):
        model.partial_fit(X, y)
    assert model.trace_.passes.tolist() == [model.n_iter_]
    assert f"in {model.n_iter_} passes" in str(model.trace_)
    other = Perceptron(kernel="rbf").fit(X, y).set_params(kernel=None).partial_fit(X, y)
    assert other.n_iter_ == 1
    np.testing.assert_array_equal(other.coef_, Perceptron().partial_fit(X, y).coef_)
    assert from_state(*to_state(other, refuse), refuse).predict(X).shape == y.shape
