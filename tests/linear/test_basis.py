"""Basis expansions: against their definitions, scikit-learn and patsy, and what each basis must satisfy."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import patsy
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer

from assay.errors import DataError, ParameterError
from assay.linear import PolynomialBasis, RadialBasis, SplineBasis
from tests.naive.linear import bspline_value

ALL = [
    PolynomialBasis(degree=3),
    PolynomialBasis(degree=3, orthogonal=True),
    SplineBasis(),
    SplineBasis(natural=True),
    SplineBasis(extrapolation="periodic"),
    RadialBasis(),
    RadialBasis(centers="random", random_state=0),
]


def table(n=50, p=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, p))


# Polynomials.


@pytest.mark.parametrize("degree", [1, 2, 4])
@pytest.mark.parametrize("interaction_only", [False, True])
@pytest.mark.parametrize("include_bias", [False, True])
def test_powers_are_those_of_scikit_learn(degree, interaction_only, include_bias):
    X = table(30, 3)
    options = {"degree": degree, "interaction_only": interaction_only, "include_bias": include_bias}
    ours, theirs = PolynomialBasis(**options).fit(X), PolynomialFeatures(**options).fit(X)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), rtol=1e-14)
    np.testing.assert_array_equal(ours.powers_, theirs.powers_)
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()


def test_orthogonal_polynomials_are_powers_made_orthonormal():
    # What R's poly computes: the QR factor of 1, x, x^2, x^3, with positive leading coefficients.
    x = np.array([1.0, 2.0, 4.0, 7.0, 11.0])
    powers = x[:, None] ** np.arange(4)
    Q, R = np.linalg.qr(powers)
    np.testing.assert_allclose(
        PolynomialBasis(3, orthogonal=True).fit_transform(x[:, None]), (Q * np.sign(np.diag(R)))[:, 1:], atol=1e-13
    )
    # ten equally spaced points: the tabulated coefficients -9 .. 9 and 6, 2, -1, -3, -4, ... of Fisher and Yates
    P = PolynomialBasis(2, orthogonal=True).fit_transform(np.arange(1.0, 11.0)[:, None])
    linear, square = np.arange(-9, 10, 2), np.array([6, 2, -1, -3, -4, -4, -3, -1, 2, 6])
    np.testing.assert_allclose(P[:, 0], linear / np.sqrt(330), atol=1e-14)
    np.testing.assert_allclose(P[:, 1], square / np.sqrt(132), atol=1e-14)


@pytest.mark.parametrize("sample", ["normal", "uniform", "grid", "skewed"])
def test_orthonormal_at_degree_20(sample):
    rng = np.random.default_rng(1)
    x = {
        "normal": rng.normal(size=300),
        "uniform": rng.uniform(1e6, 1e6 + 1, size=300),
        "grid": np.arange(300.0),
        "skewed": np.exp(rng.normal(size=300)),
    }[sample]
    P = PolynomialBasis(20, orthogonal=True).fit_transform(x[:, None])
    gram = P.T @ P
    np.testing.assert_allclose(gram, np.eye(20), atol=1e-12)
    assert np.abs(P.sum(axis=0)).max() < 1e-12
    assert np.linalg.cond(np.vander(x / np.abs(x).max(), 21)) > 1e7  # what powers would have been


def test_new_rows_follow_the_same_polynomial():
    rng = np.random.default_rng(2)
    x, new = rng.normal(size=80), rng.normal(size=20)
    basis = PolynomialBasis(6, orthogonal=True).fit(x[:, None])
    P = basis.transform(x[:, None])
    for k in range(6):
        exact = np.polynomial.Polynomial.fit(x, P[:, k], k + 1)
        np.testing.assert_allclose(basis.transform(new[:, None])[:, k], exact(new), atol=1e-8)


def test_high_degree_fits_where_powers_cannot():
    x = np.linspace(1000, 1001, 200)[:, None]
    y = np.cos(12 * x[:, 0])
    model = make_pipeline(PolynomialBasis(20, orthogonal=True), LinearRegression()).fit(x, y)
    assert np.abs(model.predict(x) - y).max() < 1e-6


def test_orthogonal_products_multiply_the_columns():
    X = table(40, 2, seed=3)
    basis = PolynomialBasis(2, orthogonal=True, include_bias=True).fit(X)
    one, two = (PolynomialBasis(2, orthogonal=True).fit_transform(X[:, [c]]) for c in (0, 1))
    expected = np.column_stack([np.ones(40), one[:, 0], two[:, 0], one[:, 1], one[:, 0] * two[:, 0], two[:, 1]])
    np.testing.assert_allclose(basis.transform(X), expected, rtol=1e-12, atol=1e-14)
    assert basis.get_feature_names_out().tolist() == ["1", "P1(x0)", "P1(x1)", "P2(x0)", "P1(x0) P1(x1)", "P2(x1)"]


def test_orthogonal_under_weights():
    X, w = table(40, 1, seed=4), np.random.default_rng(5).integers(0, 4, size=40)
    P = PolynomialBasis(5, orthogonal=True).fit(X, sample_weight=w).transform(X)
    np.testing.assert_allclose((P * w[:, None]).T @ P, np.eye(5), atol=1e-12)
    repeated = PolynomialBasis(5, orthogonal=True).fit(np.repeat(X, w, axis=0)).transform(X)
    np.testing.assert_allclose(P, repeated, atol=1e-11)


def test_degrees_the_data_do_not_determine_are_zero():
    x = np.repeat([1.0, 2.0, 5.0], 4)[:, None]
    P = PolynomialBasis(5, orthogonal=True).fit_transform(x)
    np.testing.assert_allclose(P.T @ P, np.diag([1.0, 1.0, 0, 0, 0]), atol=1e-12)
    assert not PolynomialBasis(3, orthogonal=True).fit_transform(np.full((4, 1), 7.0)).any()
    assert not PolynomialBasis(2, orthogonal=True).fit_transform([[3.0]]).any()


def test_too_large_to_square_says_where():
    X = pd.DataFrame({"small": [1.0, 2.0], "huge": [1.0, 1e120]})
    with pytest.raises(DataError, match="'huge' is too large to expand in row 1"):
        PolynomialBasis(3).fit(X).transform(X)
    P = PolynomialBasis(3, orthogonal=True).fit_transform(np.arange(9.0)[:, None] * 1e150)
    np.testing.assert_allclose(P.T @ P, np.eye(3), atol=1e-12)


# Splines.


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("knots", ["quantile", "uniform"])
@pytest.mark.parametrize("extrapolation", ["constant", "linear", "continue", "periodic"])
@pytest.mark.parametrize("include_bias", [False, True])
def test_splines_are_those_of_scikit_learn(degree, knots, extrapolation, include_bias):
    if extrapolation != "periodic" and degree == 0:
        pytest.skip("scikit-learn 1.9 cannot extrapolate steps; ours keeps the outer ones")
    # scikit-learn 1.9 raises the degree of every column after the first one for tangents of degree one
    p = 1 if extrapolation == "linear" and degree == 1 else 2
    X, new = table(60, p, seed=6), 2 * table(40, p, seed=7)
    options = {"n_knots": 7, "degree": degree, "extrapolation": extrapolation, "include_bias": include_bias}
    ours, theirs = SplineBasis(knots=knots, **options).fit(X), SplineTransformer(knots=knots, **options).fit(X)
    np.testing.assert_allclose(ours.transform(new), theirs.transform(new), rtol=1e-9, atol=1e-9)
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()


def test_steps():
    basis = SplineBasis(3, 0, knots=[0.0, 1.0, 2.0, 4.0], include_bias=True).fit([[0.0]])
    expected = [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]]
    np.testing.assert_array_equal(basis.transform([[-1.0], [0.0], [1.0], [2.0], [4.0], [9.0]]), expected)


def test_splines_by_their_definition():
    x = np.sort(table(40, 1, seed=8), axis=0)
    basis = SplineBasis(6, 3, include_bias=True).fit(x)
    base = basis.knots_[0]
    knots = np.concatenate(
        [base[0] + (base[1] - base[0]) * np.arange(-3, 0), base, base[-1] + (base[-1] - base[-2]) * np.arange(1, 4)]
    )
    expected = [[bspline_value(j, 3, knots, v) for j in range(8)] for v in x[:-1, 0]]
    np.testing.assert_allclose(basis.transform(x[:-1]), expected, atol=1e-14)


@pytest.mark.parametrize("setting", [{}, {"degree": 1}, {"natural": True}, {"extrapolation": "periodic"}])
def test_partition_of_unity(setting):
    X = 3 * table(200, 1, seed=9)
    basis = SplineBasis(8, include_bias=True, **setting).fit(table(50, 1, seed=10))
    B = basis.transform(X)
    np.testing.assert_allclose(B.sum(axis=1), 1, atol=1e-11)
    inside = B[(X[:, 0] > basis.knots_[0][0]) & (X[:, 0] < basis.knots_[0][-1])]
    if "natural" not in setting:
        assert (inside >= 0).all()
        assert ((inside > 0).sum(axis=1) <= setting.get("degree", 3) + 1).all()


def test_natural_splines_are_those_of_patsy():
    x = np.sort(np.random.default_rng(11).uniform(0, 10, 60))
    new = np.linspace(-3, 14, 50)
    basis = SplineBasis(6, natural=True, include_bias=True).fit(x[:, None])
    knots = basis.knots_[0]
    inner = ", ".join(repr(float(k)) for k in knots[1:-1])
    formula = f"cr(x, knots=[{inner}], lower_bound={float(knots[0])!r}, upper_bound={float(knots[-1])!r}) - 1"
    np.testing.assert_allclose(basis.transform(new[:, None]), patsy.dmatrix(formula, {"x": new}), atol=1e-10)


def test_natural_splines_have_no_curvature_at_the_ends_and_beyond():
    x = np.linspace(0, 1, 40)[:, None]
    basis = SplineBasis(6, natural=True, include_bias=True).fit(x)
    step = 1e-3

    def curvature(at):
        return (basis.transform([[at - step]]) - 2 * basis.transform([[at]]) + basis.transform([[at + step]])) / step**2

    for at in (-5.0, -0.5, 1.5, 7.0):
        np.testing.assert_allclose(curvature(at), 0, atol=1e-6)
    assert np.abs(curvature(0.5)).max() > 1
    inside = np.array([curvature(c).ravel() for c in (0.002, 0.004, 0.008)])  # vanishes in proportion to the distance
    np.testing.assert_allclose(inside[1] / inside[0], 2, rtol=1e-4)
    np.testing.assert_allclose(inside[2] / inside[0], 4, rtol=1e-4)


def test_natural_coefficients_are_heights_at_the_knots():
    rng = np.random.default_rng(12)
    x = rng.uniform(0, 6, 300)[:, None]
    basis = SplineBasis(7, natural=True, include_bias=True).fit(x)
    fit = LinearRegression(fit_intercept=False).fit(basis.transform(x), np.sin(x[:, 0]))
    np.testing.assert_allclose(fit.predict(basis.transform(basis.knots_[0][:, None])), fit.coef_, atol=1e-10)
    np.testing.assert_allclose(fit.coef_, np.sin(basis.knots_[0]), atol=0.02)


@pytest.mark.parametrize("natural", [False, True])
def test_tied_data_merge_knots_and_constants_give_one_column(natural):
    x = np.repeat([0.0, 0.0, 0.0, 1.0, 2.0], 10)[:, None]
    X = np.hstack([x, np.full_like(x, 4.0)])
    basis = SplineBasis(9, natural=natural).fit(X)
    out = basis.transform(X)
    assert basis.knots_[0].size < 9
    assert np.isfinite(out).all()
    assert not out[:, -1].any()
    assert (SplineBasis(9, natural=natural, include_bias=True).fit_transform(X)[:, -1] == 1).all()
    assert out.shape[1] == len(set(basis.get_feature_names_out()))
    assert SplineBasis(natural=natural).fit_transform([[1.0]]).shape == (1, 1)


@pytest.mark.parametrize("knots", ["quantile", "uniform"])
def test_whole_weights_equal_repetition_in_the_knots(knots):
    X, w = table(40, 2, seed=13), np.random.default_rng(14).integers(0, 4, size=40)
    weighted = SplineBasis(6, knots=knots).fit(X, sample_weight=w)
    repeated = SplineBasis(6, knots=knots).fit(np.repeat(X, w, axis=0))
    np.testing.assert_allclose(weighted.knots_, repeated.knots_, rtol=1e-13)
    other = SplineBasis(6, knots=knots).fit(X, sample_weight=w * 0.37)
    assert np.abs(np.array(other.knots_) - weighted.knots_).max() < 0.3


def test_given_knots():
    X = table(30, 2, seed=15)
    shared = SplineBasis(knots=[-1.0, 0.0, 1.0]).fit(X)
    each = SplineBasis(knots=np.array([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]])).fit(X)
    np.testing.assert_array_equal(shared.transform(X), each.transform(X))
    for bad in ([1.0], [1.0, 0.0], [0.0, 0.0], [[1.0, 2.0, 3.0]], ["a", "b"], [0.0, np.nan]):
        with pytest.raises(ParameterError, match="knots"):
            SplineBasis(knots=bad).fit(X)


def test_error_extrapolation_names_column_and_row():
    train = pd.DataFrame({"age": [1.0, 2.0, 3.0]})
    basis = SplineBasis(extrapolation="error").fit(train)
    basis.transform(train)
    with pytest.raises(DataError, match=r"'age' is 9 in row 1"):
        basis.transform(pd.DataFrame({"age": [2.0, 9.0]}))


def test_natural_needs_degree_three():
    for setting in ({"degree": 2}, {"extrapolation": "periodic"}):
        with pytest.raises(ParameterError, match="natural"):
            SplineBasis(natural=True, **setting).fit([[1.0], [2.0]])


@pytest.mark.parametrize("natural", [False, True])
@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150])
def test_splines_know_no_scale(natural, scale):
    x = table(30, 1, seed=16)
    base = SplineBasis(natural=natural).fit(x).transform(1.5 * x)
    np.testing.assert_allclose(SplineBasis(natural=natural).fit(scale * x).transform(1.5 * scale * x), base, atol=1e-9)


# Radial functions.


def test_bumps_by_their_definition():
    X = table(40, 3, seed=17)
    basis = RadialBasis(6, scale=0.7).fit(X)
    squares = ((X[:, None, :] - basis.centers_[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(basis.transform(X), np.exp(-squares / (2 * 0.7**2)), rtol=1e-12)
    assert basis.get_feature_names_out().tolist() == [f"rbf{j}(x0, x1, x2)" for j in range(6)]


def test_default_scale_is_the_mean_gap_between_neighbouring_centres():
    X = table(40, 2, seed=18)
    basis = RadialBasis(7).fit(X)
    gaps = [min(np.linalg.norm(a - b) for b in basis.centers_ if (a != b).any()) for a in basis.centers_]
    assert basis.scale_ == pytest.approx(np.mean(gaps))


def test_farthest_centres_are_rows_and_spread():
    X = table(200, 2, seed=19)
    spread = RadialBasis(12).fit(X)
    assert all((c == X).all(axis=1).any() for c in spread.centers_)
    random = RadialBasis(12, centers="random", random_state=0).fit(X)
    assert all((c == X).all(axis=1).any() for c in random.centers_)
    assert spread.scale_ > random.scale_
    again = RadialBasis(12, centers="random", random_state=0).fit(X)
    np.testing.assert_array_equal(random.centers_, again.centers_)
    drawn = RadialBasis(12, centers="random", random_state=np.random.default_rng(0)).fit(X)
    assert drawn.centers_.shape == (12, 2)


def test_quantile_centres_and_given_centres():
    x = np.arange(101.0)[:, None]
    np.testing.assert_allclose(RadialBasis(5, centers="quantile").fit(x).centers_.ravel(), [10, 30, 50, 70, 90])
    assert RadialBasis(centers=[[1.0], [2.0]]).fit(x).transform(x).shape == (101, 2)
    with pytest.raises(ParameterError, match="one column"):
        RadialBasis(centers="quantile").fit(table())
    for bad in ([[1.0, 2.0]], [1.0, 2.0], [["a"]], [[np.inf]]):
        with pytest.raises(ParameterError, match="centers"):
            RadialBasis(centers=bad).fit(x)


def test_few_distinct_rows_give_as_many_bumps():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 5, axis=0)
    for centers in ("farthest", "random"):
        assert RadialBasis(10, centers=centers, random_state=0).fit(X).transform(X).shape == (10, 2)
    assert RadialBasis().fit([[3.0]]).transform([[3.0]])[0, 0] == 1.0


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_bumps_know_no_scale(scale):
    X = table(30, 2, seed=20)
    base = RadialBasis().fit(X).transform(X)
    np.testing.assert_allclose(RadialBasis().fit(scale * X).transform(scale * X), base, rtol=1e-9)
    assert (RadialBasis().fit(X).transform(np.full((1, 2), 1e150)) == 0).all()


# What all of them share.


@pytest.mark.parametrize("basis", ALL, ids=str)
def test_float32_stays_and_agrees(basis):
    X = table(60, 2, seed=21)
    wide = clone(basis).fit(X.astype(np.float32).astype(float)).transform(X)
    narrow = clone(basis).fit(X.astype(np.float32)).transform(X.astype(np.float32))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, wide, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("basis", ALL, ids=str)
def test_layout_pickle_pandas_and_subsets(basis):
    X = table(40, 2, seed=22)
    X.flags.writeable = False
    fitted = clone(basis).fit(X)
    out = fitted.transform(X)
    np.testing.assert_array_equal(fitted.transform(np.asfortranarray(X)), out)
    np.testing.assert_array_equal(fitted.transform(X[::3]), out[::3])
    np.testing.assert_array_equal(fitted.transform(X.astype(object)), out)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), out)
    frame = pd.DataFrame(X, columns=["größe", "b"])
    made = clone(basis).set_output(transform="pandas").fit_transform(frame)
    np.testing.assert_array_equal(made.to_numpy(), out)
    assert made.columns.is_unique
    assert any("größe" in name for name in made.columns)
    with pytest.raises(ValueError, match="columns of fit"):
        clone(basis).fit(frame).transform(frame[["b", "größe"]])


@pytest.mark.parametrize("basis", ALL, ids=str)
def test_every_parameter_refuses_nonsense(basis):
    for name in basis.get_params():
        with pytest.raises(ParameterError, match=name):
            clone(basis).set_params(**{name: object()}).fit(table())


def test_a_spline_follows_what_a_line_cannot():
    X, y = load_diabetes(return_X_y=True)
    bmi = X[:, [2]]
    line = LinearRegression().fit(bmi, y).score(bmi, y)
    for basis in (SplineBasis(), SplineBasis(natural=True), PolynomialBasis(3, orthogonal=True), RadialBasis(6)):
        assert make_pipeline(basis, LinearRegression()).fit(bmi, y).score(bmi, y) > line
