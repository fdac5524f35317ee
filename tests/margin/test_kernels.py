"""Kernels: their definition, the algebra, what is valid and what is not, blocks of prepared rows, state and print."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process import kernels as gaussian_process
from sklearn.metrics import pairwise

from assay.errors import DataError, DataTypeError, ParameterError
from assay.margin.kernels import (
    RBF,
    Cosine,
    EditDistance,
    FeatureMap,
    Kernel,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    Product,
    Sigmoid,
    StringSpectrum,
    Wrapped,
    exp,
    is_valid,
    named,
    normalize,
    wrap,
)
from assay.state import from_state, to_state
from tests.naive import margin_kernels as naive

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(30, 4)), RNG.normal(size=(20, 4))
WORDS = ["banana", "bandana", "", "ab", "Größe", "ananas", "nab", "bababab"]

DEFINITIONS: list[tuple[Kernel, Any]] = [
    (Linear(), lambda x, z: x @ z),
    (Polynomial(5, 0.3, 0.7), lambda x, z: (0.3 * (x @ z) + 0.7) ** 5),
    (Polynomial(1, 2.0), lambda x, z: 2 * (x @ z)),
    (RBF(0.2), lambda x, z: np.exp(-0.2 * np.sum((x - z) ** 2))),
    (Laplacian(0.2), lambda x, z: np.exp(-0.2 * np.abs(x - z).sum())),
    (Sigmoid(0.2, -0.5), lambda x, z: np.tanh(0.2 * (x @ z) - 0.5)),
    (Cosine(), lambda x, z: x @ z / np.sqrt((x @ x) * (z @ z))),
    (RBF(0.2) + Linear(), lambda x, z: np.exp(-0.2 * np.sum((x - z) ** 2)) + x @ z),
    (2 * Linear() * RBF(0.1) + 3, lambda x, z: 2 * (x @ z) * np.exp(-0.1 * np.sum((x - z) ** 2)) + 3),
    ((Linear() + 1) ** 3, lambda x, z: (x @ z + 1) ** 3),
    (exp(0.5 * Linear()), lambda x, z: np.exp(0.5 * (x @ z))),
    (normalize(Linear() + 1), lambda x, z: (x @ z + 1) / np.sqrt((x @ x + 1) * (z @ z + 1))),
    (RBF(1.0).on([1, 3]), lambda x, z: np.exp(-np.sum((x[[1, 3]] - z[[1, 3]]) ** 2))),
    (FeatureMap(lambda X: X[:, :2] ** 2), lambda x, z: x[:2] ** 2 @ z[:2] ** 2),
    (FeatureMap(lambda x: x[:2] ** 2, rowwise=True), lambda x, z: x[:2] ** 2 @ z[:2] ** 2),
    (Product(lambda X: X.sum(axis=1)), lambda x, z: x.sum() * z.sum()),
    (Product(np.sum, rowwise=True), lambda x, z: x.sum() * z.sum()),
    (wrap(lambda X, Z: X @ Z.T), lambda x, z: x @ z),
    (wrap(lambda x, z: x @ z, pairs=True), lambda x, z: x @ z),
]
LABELS = [str(kernel) for kernel, _ in DEFINITIONS]


@pytest.mark.parametrize(("kernel", "definition"), DEFINITIONS, ids=LABELS)
def test_agrees_with_definition(kernel, definition):
    wanted = naive.gram(definition, A, B)
    np.testing.assert_allclose(kernel(A, B), wanted, rtol=1e-12, atol=1e-12)
    own = naive.gram(definition, A, A)
    np.testing.assert_allclose(kernel(A), own, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(A), np.diag(own), rtol=1e-12)
    held = kernel.prepare(A)
    rows, columns = [3, 0, 29], [5, 3]
    np.testing.assert_allclose(held.block(rows), own[rows], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(held.block(rows, columns), own[np.ix_(rows, columns)], rtol=1e-12, atol=1e-12)
    part = held.take(rows)
    np.testing.assert_allclose(part.block(), own[np.ix_(rows, rows)], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(part.cross(B), naive.gram(definition, B, A[rows]), rtol=1e-12, atol=1e-12)


VECTORS = [
    Linear(),
    Polynomial(3, 0.3, 1.0),
    RBF(0.2),
    Laplacian(0.2),
    Sigmoid(0.1),
    Cosine(),
    2 * RBF(0.3) + Linear() * Linear(),
]


@pytest.mark.parametrize("kernel", VECTORS, ids=str)
def test_sparse_rows_are_the_same_rows(kernel):
    X, Z = np.where(A > 0.3, A, 0.0), np.where(B > 0.3, B, 0.0)
    dense = kernel(X, Z)
    for make in (sparse.csr_array, sparse.csc_matrix):
        np.testing.assert_allclose(kernel(make(X), make(Z)), dense, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel(sparse.csr_array(X), Z), dense, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel(X, sparse.csr_array(Z)), dense, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernel", VECTORS, ids=str)
def test_single_precision_stays_and_is_close(kernel):
    small = kernel(A.astype(np.float32), B.astype(np.float32))
    assert small.dtype == np.float32
    np.testing.assert_allclose(small, kernel(A, B), rtol=2e-4, atol=2e-5)
    assert kernel(A.astype(np.float32), B).dtype == np.float64
    assert kernel(A.astype(int)).dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_join_to_the_whole(dtype):
    """More rows than a tile, with a rest: each way to a Gram matrix gives the same one, exactly symmetric."""
    X = RNG.normal(size=(1100, 3)).astype(dtype)
    wanted = pairwise.rbf_kernel(X.astype(np.float64), gamma=0.5)
    held = RBF(0.5).prepare(X)
    close = {"rtol": 1e-4, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-11, "atol": 1e-14}
    whole = held.block()
    np.testing.assert_allclose(whole, wanted, **close)
    assert np.array_equal(whole, whole.T)
    assert (whole.diagonal() == 1).all()
    rows = RNG.permutation(1100)[:400]
    np.testing.assert_allclose(held.block(rows), wanted[rows], **close)
    assert (held.block(rows)[np.arange(400), rows] == 1).all()
    part = held.block(rows[:5], rows[3:9])
    assert part[3, 0] == part[4, 1] == 1
    np.testing.assert_allclose(part, wanted[np.ix_(rows[:5], rows[3:9])], **close)
    mask = np.zeros(1100, dtype=bool)
    mask[rows] = True
    np.testing.assert_allclose(held.block(mask, mask), wanted[np.ix_(mask, mask)], **close)
    np.testing.assert_allclose(held.block(None, mask), wanted[:, mask], **close)
    np.testing.assert_allclose(held.cross(X), wanted, **close)
    out = np.empty((1100, 1100), dtype=dtype)
    assert held.block(out=out) is out
    assert np.array_equal(out, whole)
    with pytest.raises(DataError, match="out is a"):
        held.block(rows, out=out)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponential_is_accurate_over_its_whole_range(dtype):
    x = np.concatenate([np.linspace(0, 9.2, 4001), np.linspace(9.2, 30, 500)])[:, None].astype(dtype)
    zero = np.zeros((1, 1), dtype=dtype)
    held = Laplacian(1.0).prepare(zero)
    found = held.cross(x).ravel()
    wanted = np.exp(-x.astype(np.float64)).ravel()
    eps = np.finfo(dtype).eps
    assert (np.abs(found - wanted) <= 4 * eps * (1 + x.ravel()) * wanted + np.finfo(dtype).tiny).all()
    far = np.array([[1e4], [1e15 if dtype == np.float32 else 1e150]], dtype=dtype)
    assert held.cross(far).ravel().tolist() == [0.0, 0.0]


def test_a_large_mean_costs_no_digits():
    X = RNG.normal(size=(50, 3))
    np.testing.assert_allclose(RBF(1.0)(X + 1e6), RBF(1.0)(X), rtol=1e-8)


def test_scale_and_auto_are_learnt_from_the_training_rows():
    held = RBF().prepare(A)
    assert held.kernel == RBF(1 / (4 * A.var()))
    np.testing.assert_allclose(held.cross(B), pairwise.rbf_kernel(B, A, gamma=1 / (4 * A.var())), rtol=1e-12)
    assert Polynomial(2, "auto").resolve(A) == Polynomial(2, 0.25)
    assert RBF().resolve(np.ones((5, 2))) == RBF(1.0)
    dense = np.where(A > 0, A, 0)
    assert RBF().resolve(sparse.csr_array(dense)).gamma == pytest.approx(1 / (4 * dense.var()))
    assert (2 * RBF().on([0]) + Linear()).resolve(A) == 2 * RBF(1 / A[:, 0].var()).on([0]) + Linear()


# Strings.


def test_strings_agree_with_their_definition():
    for k in (1, 2, 3):
        wanted = naive.gram(lambda s, t, k=k: naive.spectrum(s, t, k), WORDS, WORDS)
        assert np.array_equal(StringSpectrum(k)(WORDS), wanted)
        assert np.array_equal(StringSpectrum(k)(WORDS, WORDS[:2]), wanted[:, :2])
        assert np.array_equal(StringSpectrum(k).diagonal(np.array(WORDS)), np.diag(wanted))
    wanted = np.exp(-0.5 * naive.gram(naive.edit, WORDS[:6], WORDS[:6]))
    np.testing.assert_allclose(EditDistance(0.5)(WORDS[:6]), wanted, rtol=1e-14)
    np.testing.assert_allclose(EditDistance(0.5)(pd.Series(WORDS[:6]), WORDS[:3]), wanted[:, :3], rtol=1e-14)


def test_normalized_spectrum_of_new_strings_counts_what_training_strings_lack():
    k = normalize(StringSpectrum(2))
    assert k(["abxy"], ["ab", "cd"]).tolist() == [[pytest.approx(1 / np.sqrt(3)), 0.0]]


def test_strings_beside_vectors():
    table = pd.DataFrame({"name": WORDS, "size": np.arange(8.0), "age": np.ones(8)})
    k = RBF(0.1).on(["size", "age"]) * StringSpectrum(2).on("name") + 1
    wanted = pairwise.rbf_kernel(np.arange(8.0)[:, None], gamma=0.1) * StringSpectrum(2)(WORDS) + 1
    np.testing.assert_allclose(k(table), wanted, rtol=1e-12)
    places = RBF(0.1).on([1, 2]) * StringSpectrum(2).on(0) + 1
    np.testing.assert_allclose(places(table.to_numpy()), wanted, rtol=1e-12)
    np.testing.assert_allclose(places(table.values.tolist()), wanted, rtol=1e-12)
    assert is_valid(k, table)


# Validity.


def test_doubtful_candidates_are_not_kernels():
    """tanh(1 + <x, x'>), exp(-edit distance) and 1 - |x - x'|^2, each with a counter-example that holds."""
    strings = ["".join(letters) for length in range(5) for letters in product("ab", repeat=length)]
    assert len(strings) == 31
    candidates = [
        (Sigmoid(gamma=1.0, coef0=1.0), np.array([[1.0], [2.0]]), -0.01325),
        (EditDistance(scale=1.0), strings, -0.043),
        (wrap(lambda X, Z: 1 - (X - Z.T) ** 2), np.array([[0.0], [2.0]]), -2.0),
    ]
    for k, X, least in candidates:
        answer = is_valid(k, X)
        assert not answer
        assert not k.valid
        assert answer.smallest_eigenvalue == pytest.approx(least, rel=0.02)
        rows = [X[i] for i in answer.rows]
        K = k(rows if isinstance(X, list) else np.array(rows))
        assert answer.c @ K @ answer.c == pytest.approx(answer.value)
        assert answer.value < 0
        assert "is not a kernel" in str(answer)
        assert len(answer.to_frame()) == len(rows)
    few = is_valid(candidates[1][0], strings)
    assert few.rows.size < 31


def numeric_kernels() -> Any:
    numbers = st.floats(0.05, 3.0)
    leaves = st.one_of(
        st.just(Linear()),
        st.just(Cosine()),
        st.builds(RBF, numbers),
        st.builds(Laplacian, numbers),
        st.builds(Polynomial, st.integers(1, 3), numbers, st.sampled_from([0.0, 1.0])),
        st.just(FeatureMap(np.abs)),
        st.just(Product(lambda X: X[:, 0])),
        st.just(Linear().on([1])),
    )

    def more(inner: Any) -> Any:
        return st.one_of(
            st.builds(lambda a, b: a + b, inner, inner),
            st.builds(lambda a, b: a * b, inner, inner),
            st.builds(lambda a, c: c * a, inner, numbers),
            st.builds(lambda a, c: a + c, inner, numbers),
            st.builds(normalize, inner),
            st.builds(lambda a: exp(normalize(a)), inner),
        )

    return st.recursive(leaves, more, max_leaves=6)


@given(numeric_kernels(), st.integers(0, 10_000))
def test_a_kernel_built_from_valid_ones_has_a_non_negative_spectrum(kernel, seed):
    X = np.random.default_rng(seed).normal(size=(12, 3))
    answer = is_valid(kernel, X)
    assert kernel.valid
    assert answer, str(answer)
    assert answer.by_construction


def test_what_is_not_valid_by_construction_is_flagged():
    flagged = [Sigmoid(), EditDistance(), Polynomial(2, 1.0, -1.0), Precomputed(), wrap("chi2")]
    for k in flagged:
        assert not k.valid
        assert not (k + RBF()).valid
        assert not normalize(2 * k * Linear()).valid
    assert (RBF() + 2 * Linear() * StringSpectrum(2)).valid


def test_asymmetry_is_no_kernel():
    answer = is_valid(lambda X, Z: X[:, :1] + 2 * Z[:, 0], A)
    assert not answer
    assert "differ by" in str(answer)


def test_rounding_is_no_counter_example():
    """A Gram matrix of rank one has eigenvalues of either sign at the level of rounding."""
    for scale in (1e-8, 1.0, 1e8):
        assert is_valid(Linear(), scale * np.arange(200.0)[:, None])
        assert is_valid(Linear(), (scale * np.arange(200.0)[:, None]).astype(np.float32))


# Values: equal, hashable, cloned, stored, printed.

PLAIN = [
    *VECTORS,
    RBF(),
    StringSpectrum(2),
    EditDistance(0.5),
    Precomputed(),
    normalize(exp(Linear())) + 1,
    RBF(1.0).on([0, 2]) * StringSpectrum().on(["name"]),
    Wrapped("chi2", options={"gamma": 0.5}),
]


class Holder(BaseEstimator):
    def __init__(self, kernel: Any = None) -> None:
        self.kernel = kernel


def refuse(value: Any) -> Any:
    raise DataTypeError(f"{type(value).__name__} cannot be stored")


@pytest.mark.parametrize("kernel", PLAIN, ids=str)
def test_kernels_are_values(kernel):
    twin = clone(Holder(kernel)).kernel
    assert twin == kernel
    assert hash(twin) == hash(kernel)
    tree, arrays = to_state(kernel, refuse)
    again = from_state(json.loads(json.dumps(tree)), arrays, refuse)
    assert again == kernel
    assert (again.valid, again.symmetric) == (kernel.valid, kernel.symmetric)
    rebuilt = eval(repr(kernel), {**globals(), "Wrapped": Wrapped})
    assert rebuilt == kernel
    assert "sup" in kernel._repr_html_() or "^" not in str(kernel)


def test_kernels_that_differ_are_not_equal():
    assert len(set(PLAIN)) == len(PLAIN)
    assert RBF(1.0) != Laplacian(1.0)
    assert RBF(1.0) != "RBF"


def test_a_function_is_not_stored():
    with pytest.raises(DataTypeError, match="function"):
        to_state(Product(lambda X: X[:, 0]), refuse)


def test_formulas():
    shown = {
        "exp(-0.5 |x - x'|^2)": RBF(0.5),
        "exp(-gamma |x - x'|^2)": RBF(),
        "(<x, x'> - 2)^3": Polynomial(3, 1.0, -2.0),
        "2 (<x, x'> + exp(-|x - x'|_1)) * tanh(3 <x, x'>)": 2 * (Linear() + Laplacian(1.0)) * Sigmoid(3.0),
        "exp(normalize(<x, x'> + 1))": exp(normalize(Linear() + 1)),
        "<phi(x), phi(x')>": FeatureMap(lambda X: X),
        "absolute(x) absolute(x')": Product(np.abs),
        "chi2(x, x')": wrap("chi2"),
        "(<x, x'> + K) on [0]": (Linear() + Precomputed()).on(0),
    }
    assert {str(k) for k in shown.values()} == set(shown)
    assert RBF(0.5)._repr_html_() == "<p>k(x, x&prime;) = exp(-0.5 |x - x&prime;|<sup>2</sup>)</p>"


# Wrapped functions and names.


def test_wrapped_functions_and_names():
    positive = np.abs(A)
    np.testing.assert_allclose(wrap("chi2", gamma=0.5)(positive), pairwise.chi2_kernel(positive, gamma=0.5))
    np.testing.assert_allclose(wrap(pairwise.laplacian_kernel, gamma=0.5)(A, B), Laplacian(0.5)(A, B))
    np.testing.assert_allclose(wrap(gaussian_process.RBF(1.0))(A, B), RBF(0.5)(A, B))
    assert wrap(RBF()) == RBF()
    assert named("rbf", gamma=2.0) == RBF(2.0)
    assert named("poly", degree=2, gamma="auto", coef0=1.0) == Polynomial(2, "auto", 1.0)
    assert [named(k) for k in ("linear", "cosine", "precomputed")] == [Linear(), Cosine(), Precomputed()]
    assert named("chi2") == Wrapped("chi2")
    with pytest.raises(ParameterError, match="unknown kernel 'rbff'"):
        named("rbff")


def test_precomputed_is_the_matrix_itself():
    K = RBF(0.3)(A)
    held = Precomputed().prepare(K)
    assert np.array_equal(held.block(), K)
    new = RBF(0.3)(B, A)
    assert np.array_equal(held.take([1, 5]).cross(new), new[:, [1, 5]])
    with pytest.raises(DataError, match="square"):
        Precomputed().prepare(K[:5])


# Bad input: one clear sentence.

BAD = [
    (lambda: RBF(0.0), ParameterError, "gamma = 0.0"),
    (lambda: RBF("large"), ParameterError, "gamma = 'large'"),
    (lambda: Polynomial(0), ParameterError, "degree = 0"),
    (lambda: StringSpectrum(0), ParameterError, "k = 0"),
    (lambda: -1 * Linear(), ParameterError, "positive"),
    (lambda: Linear() + (-1), ParameterError, "positive"),
    (lambda: Linear() * True, ParameterError, "positive"),
    (lambda: Linear() - RBF(), ParameterError, "the difference of two kernels"),
    (lambda: 1 - RBF(), ParameterError, "the difference of two kernels"),
    (lambda: -RBF(), ParameterError, "the difference of two kernels"),
    (lambda: RBF() ** 0.5, ParameterError, "to the power of 0.5"),
    (lambda: normalize("rbf"), ParameterError, "expected a kernel"),
    (lambda: FeatureMap(3), ParameterError, "not a function"),
    (lambda: Linear().on([]), ParameterError, "columns"),
    (lambda: Linear()([1.0, 2.0]), DataError, "two dimensions"),
    (lambda: Linear()([["a"], ["b"]]), DataTypeError, "needs numbers"),
    (lambda: Linear()([[np.nan]]), DataError, "NaN"),
    (lambda: Linear()(A, B[:, :2]), DataError, "columns"),
    (lambda: Linear().on([7])(A), DataError, "column 7"),
    (lambda: Linear().on("a")(A), DataTypeError, "by name"),
    (lambda: StringSpectrum()(A), DataError, "one column"),
    (lambda: StringSpectrum()(["a", 3]), DataTypeError, "row 1"),
    (lambda: StringSpectrum()("abc"), DataTypeError, "list of strings"),
    (lambda: exp(Linear())([[100.0]]), DataError, "overflows"),
    (lambda: normalize(Sigmoid(1.0, -9.0))(A), DataError, "cannot be normalized"),
    (lambda: wrap(lambda X, Z: X)(A), DataError, "shape"),
    (lambda: wrap(lambda X, Z: X @ Z.T / 0)(np.zeros((2, 2))), DataError, "NaN or inf"),
    (lambda: wrap(lambda X, Z: X @ Z.T * 1j)(np.ones((2, 2))), DataError, "values of type complex128; return real"),
    (lambda: wrap(lambda X, Z: [["x", "y"]] * 2)(np.ones((2, 2))), DataError, "return real numbers"),
    (lambda: FeatureMap(lambda x: [x[0]])(A), DataError, "rowwise=True"),
    (lambda: normalize(Precomputed())(np.eye(2)[:1], np.eye(2)), DataError, "new rows"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_bad_input_is_one_clear_sentence():
    for make, error, words in BAD:
        with pytest.raises(error, match=words) as caught:
            make()
        assert caught.value.remedy
        assert "\n" not in str(caught.value)


def test_rows_of_zeros_are_like_nothing():
    X = np.array([[0.0, 0.0], [1.0, 1.0]])
    assert Cosine()(X).tolist() == [[0.0, 0.0], [0.0, pytest.approx(1.0)]]
    assert Cosine()(X, X)[0].tolist() == [0.0, 0.0]


def test_overflow_is_an_error_that_names_the_row():
    with pytest.raises(DataError, match="overflows for row 1"):
        Polynomial(degree=200, gamma=1.0)([[1.0], [1e3]])
    with pytest.raises(DataError, match="reaches 1000"):
        exp(wrap(lambda A, B: 1000.0 * (1.0 - np.eye(len(A), len(B)))))([[1.0], [2.0]])


def test_sums_of_lists_and_repeated_factors_print_as_formulas():
    assert sum([Linear(), RBF(gamma=1.0)]) == Linear() + RBF(gamma=1.0)
    assert str(2 * (3 * Linear())) == "2 * 3 <x, x'>"
