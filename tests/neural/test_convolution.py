"""Convolution and pooling against loops over pixels, the notes' sizes and examples, and good errors."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from assay.errors import DataError, ParameterError
from assay.neural import Conv2D, Dense, MaxPool, MeanPool, MinPool, Network, convolve, pool
from assay.neural.network import NetworkPlan, Pass
from tests.naive import neural as naive

NOTES = [[1, 2, 5, 3], [3, 0, 1, 2], [2, 1, 3, 4], [1, 1, 2, 0]]


def test_examples_of_the_lecture_notes():
    letters = np.arange(1.0, 13.0).reshape(4, 3)
    a, b, c, d = 2.0, -1.0, 0.5, 3.0
    given = convolve(letters, [[a, b], [c, d]])
    assert given.shape == (3, 2)
    assert given[0, 0] == a * letters[0, 0] + b * letters[0, 1] + c * letters[1, 0] + d * letters[1, 1]  # not flipped
    assert convolve(np.ones((5, 4)), np.ones((2, 2))).shape == (4, 3)
    assert_array_equal(pool(NOTES), [[3, 5], [2, 4]])
    assert_array_equal(pool(NOTES, how="min"), [[0, 1], [1, 0]])
    assert_array_equal(pool(NOTES, how="mean"), [[1.5, 2.75], [1.25, 2.25]])


def test_sizes_that_do_not_divide():
    assert pool(np.ones((5, 4)), 2).shape == (2, 2)
    assert pool(np.ones((5, 7, 3)), (2, 3)).shape == (2, 2, 3)
    assert pool(np.ones((5, 5)), 3, stride=1).shape == (3, 3)
    assert Conv2D(4, 3, stride=2).output_shape((8, 7, 1)) == (3, 3, 4)
    assert Conv2D(4, 3, stride=2, padding="same").output_shape((8, 7, 1)) == (4, 4, 4)


@pytest.mark.parametrize("padding", ["valid", "same"])
def test_convolution_agrees_with_loops(padding):
    rng = np.random.default_rng(0)
    for _ in range(30):
        h, w, c, f = rng.integers(1, 9, 4)
        a, b = (int(rng.integers(1, (9 if padding == "same" else side) + 1)) for side in (h, w))
        stride = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
        layer = Conv2D(int(f), (a, b), stride=stride, padding=padding)
        network = Network([layer], (int(h), int(w), int(c)), dtype="float64", random_state=0).initialize()
        X = rng.normal(size=(3, h, w, c))
        weights, bias = network.arrays().values()
        bias[:] = rng.normal(size=f)
        expected = [naive.convolve(x, weights, stride, padding) + bias for x in X]
        assert_allclose(network.forward(X), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("kind", "how"), [(MaxPool, "max"), (MinPool, "min"), (MeanPool, "mean")])
def test_pooling_agrees_with_loops(kind, how):
    rng = np.random.default_rng(1)
    for _ in range(20):
        h, w = (int(k) for k in rng.integers(3, 9, 2))
        size, stride = tuple(map(int, rng.integers(1, 4, 2))), tuple(map(int, rng.integers(1, 4, 2)))
        X = rng.normal(size=(2, h, w, 3))
        given = Network([kind(size, stride)], (h, w, 3), dtype="float64").forward(X)
        assert_allclose(given, [naive.pool(x, size, stride, how) for x in X], rtol=1e-12)


@pytest.mark.parametrize("activation", ["identity", "relu", "tanh"])
def test_maxima_before_the_activation_are_the_same(activation):
    rng = np.random.default_rng(2)
    layers = [Conv2D(5, 3, activation=activation, padding="same"), MaxPool((2, 3)), Dense(2)]
    network = Network(layers, (7, 11, 2), dtype="float64", random_state=0).initialize()
    network.parameters_[:] = rng.normal(size=network.n_parameters)
    fused = NetworkPlan(layers, (7, 11, 2), fused=True)
    assert len(fused.steps) == 2
    X = rng.normal(size=(40, 7, 11, 2))
    given = Pass(fused, network.parameters_, network.statistics_).forward(X)
    assert_allclose(given, network.forward(X), rtol=1e-12, atol=1e-12)


def test_errors_name_the_layer_and_both_shapes():
    with pytest.raises(
        ParameterError, match=r"layer 1 \(Conv2D\) with input of shape \(64,\): expected images.*image_shape"
    ):
        Network([Conv2D(2, 3)], (64,)).summary()
    with pytest.raises(ParameterError, match=r"layer 2 \(MaxPool\).*2 x 2 do not fit into images of shape \(1, 1, 2\)"):
        Network([Conv2D(2, 3), MaxPool(2)], (3, 3, 1)).summary()
    with pytest.raises(ParameterError, match=r"activation = 'swish' is out of range; it must be .*'relu'"):
        Dense(3, "swish")
    with pytest.raises(ParameterError, match="kernel = 0"):
        Conv2D(3, 0)
    with pytest.raises(ParameterError, match="numbers per image"):
        Network([Conv2D(1, 2000, padding="same")], (4000, 4000, 1)).summary()
    with pytest.raises(ParameterError, match=r"layer 1 makes the network too large: 2,000,000 parameters"):
        Network([Conv2D(1_000_000, 1)], (1000, 1000, 1)).summary()
    with pytest.raises(DataError, match="image has 1 channels, but the filter has 2"):
        convolve(np.ones((3, 3)), np.ones((2, 2, 2)))
    with pytest.raises(DataError, match="NaN or inf at"):
        convolve([[1.0, np.nan]], [[1.0]])
    with pytest.raises(DataError, match="rows of equal length"):
        pool([[1.0], [1.0, 2.0]])
    with pytest.raises(ParameterError, match="how = 'median'"):
        pool(NOTES, how="median")
