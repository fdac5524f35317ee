"""Gradients of every layer, loss and penalty against central differences; a new layer is tested by existing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from assay import neural
from assay.neural import Conv2D, Dense, Layer, Loss, MaxPool, Network, Penalty, Residual
from assay.neural.losses import LOSSES
from assay.neural.network import NetworkPlan, Pass
from assay.neural.training import Recipe, Trainer, TrainingRows
from tests.naive import neural as naive

KINDS = [
    kind for kind in vars(neural).values() if isinstance(kind, type) and issubclass(kind, Layer) and kind is not Layer
]
CASES = [(layer, shape) for kind in KINDS for layer, shape in kind.examples()]


def test_every_public_layer_has_examples():
    assert {type(layer) for layer, _ in CASES} >= set(KINDS)


@pytest.mark.parametrize(("layer", "shape"), CASES, ids=lambda value: str(value)[:60])
def test_layers(layer, shape):
    rng = np.random.default_rng(0)
    plan = NetworkPlan([layer], shape)
    theta = rng.normal(size=plan.n_parameters)
    X = rng.normal(size=(4, *shape))
    weight = rng.normal(size=(4, *plan.output_shape))

    def total(x, parameters):
        run = Pass(plan, parameters, np.zeros(plan.n_statistics), training=True)
        return float((run.forward(x.copy()) * weight).sum())

    slope = np.zeros_like(theta)
    run = Pass(plan, theta, np.zeros(plan.n_statistics), gradient=slope, training=True, inputs=True)
    run.forward(X.copy())
    dx = np.array(run.backward(weight.copy())).reshape(X.shape)
    assert_allclose(dx, differences(lambda x: total(x, theta), X), rtol=1e-5, atol=1e-7)
    assert_allclose(slope, differences(lambda parameters: total(X, parameters), theta), rtol=1e-5, atol=1e-7)


def differences(function, at, step=1e-6):
    out = np.zeros_like(at)
    for i in np.ndindex(at.shape):
        moved = at.copy()
        moved[i] += step
        above = function(moved)
        moved[i] -= 2 * step
        out[i] = (above - function(moved)) / (2 * step)
    return out


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_losses(name, weighted):
    rng = np.random.default_rng(1)
    loss: Loss = LOSSES[name]
    z = rng.normal(scale=2.0, size=(6, 3))
    y = rng.normal(size=(6, 3))
    if name == "cross_entropy":
        y = rng.integers(0, 3, (6, 1)).astype(float)
    if name == "binary_cross_entropy":
        y = rng.integers(0, 2, (6, 3)).astype(float)
    w = rng.uniform(0.5, 2.0, 6) if weighted else np.empty(0)
    dz = np.empty_like(z)
    loss.value(z, y, w, 0.3, dz)
    assert_allclose(dz, differences(lambda at: loss.value(at, y, w, 0.3, np.empty_like(at)), z), rtol=1e-5, atol=1e-8)


def test_losses_by_their_definitions():
    z, y = np.array([[0.5, -2.0]]), np.array([[2.0, 1.0]])
    none, dz = np.empty(0), np.empty((1, 2))
    assert_allclose(LOSSES["squared"].value(z, y, none, 1.0, dz), (1.5**2 + 3.0**2) / 2)
    assert_allclose(LOSSES["absolute"].value(z, y, none, 1.0, dz), 4.5)
    assert_allclose(LOSSES["huber"].value(z, y, none, 1.0, dz), 1.35 * (1.5 + 3.0) - 1.35**2)
    p = np.exp(z) / np.exp(z).sum()
    assert_allclose(LOSSES["cross_entropy"].value(z, np.array([[1.0]]), none, 1.0, dz), -np.log(p[0, 1]))
    q = 1 / (1 + np.exp(-0.5))
    one = np.array([[0.5]])
    assert_allclose(LOSSES["binary_cross_entropy"].value(one, np.array([[0.0]]), none, 1.0, dz[:, :1]), -np.log(1 - q))
    far = np.array([[800.0, -800.0]])
    assert LOSSES["cross_entropy"].value(far, np.array([[1.0]]), none, 1.0, dz) == 1600.0
    assert np.isfinite(dz).all()


@pytest.mark.parametrize("on", ["weights", "all"])
@pytest.mark.parametrize("scale", ["mean", "sum"])
@pytest.mark.parametrize("per_layer", [False, True])
def test_penalties(on, scale, per_layer):
    """Loss and penalty as the trainer adds them up, against the sum written out; and the ridge's gradient."""
    rng = np.random.default_rng(2)
    penalty = Penalty(ridge=0.3, lasso=0.2, on=on, scale=scale)
    layers = [Dense(3, "tanh", penalty=penalty if per_layer else None), Dense(1)]
    network = Network(layers, (2,), dtype="float64", random_state=0).initialize()
    network.parameters_[:] = rng.normal(size=network.n_parameters)
    rows = TrainingRows(rng.normal(size=(5, 2)), rng.normal(size=(5, 1)), np.empty(0))
    recipe = Recipe(
        LOSSES["squared"], neural.SGD(0.0), neural.Constant(), 0.1, 5, 1, penalties=() if per_layer else (penalty,)
    )
    trainer = Trainer(network, rows, recipe, np.random.SeedSequence(0))
    chosen = [
        array for name, array in network.arrays().items()
        if (on == "all" or "weights" in name) and (not per_layer or name.startswith("1 "))
    ]  # fmt: skip
    unit = 1.0 if scale == "mean" else 1 / 5
    expected = unit * sum(0.3 * np.sum(a**2) + 0.2 * np.sum(np.abs(a)) for a in chosen)
    assert_allclose(trainer.penalty(), expected)

    before, gradient = network.parameters_.copy(), network.loss_and_gradient(rows.X, rows.y)[1]
    chosen_at = np.zeros(network.n_parameters, dtype=bool)
    for array in chosen:
        start = (array.__array_interface__["data"][0] - network.parameters_.__array_interface__["data"][0]) // 8
        chosen_at[start : start + array.size] = True
    trainer.epoch(0.1)
    moved = before - 0.1 * (gradient + unit * 0.6 * before * chosen_at)
    cut = 0.1 * unit * 0.2 * chosen_at
    assert_allclose(network.parameters_, np.sign(moved) * np.maximum(np.abs(moved) - cut, 0), rtol=1e-10, atol=1e-12)


def test_penalties_of_layers_inside_others_count():
    penalty = Penalty(ridge=0.5, lasso=0.25)
    inside = [Residual([Dense(3, penalty=penalty), Dense(2)])], (2,)
    pooled = [Conv2D(2, 2, penalty=penalty), MaxPool(2), Dense(1)], (5, 5, 1)
    for layers, shape in (inside, pooled):
        network = Network(layers, shape, dtype="float64", random_state=0).initialize()
        rows = TrainingRows(np.zeros((1, *shape)), np.zeros((1, *network.output_shape)), np.empty(0))
        recipe = Recipe(LOSSES["squared"], neural.SGD(0.0), neural.Constant(), 0.1, 1, 1)
        weights = next(array for name, array in network.arrays().items() if name.endswith("weights"))
        expected = 0.5 * np.sum(weights**2) + 0.25 * np.sum(np.abs(weights))
        assert_allclose(Trainer(network, rows, recipe, np.random.SeedSequence(0)).penalty(), expected)


def test_gradient_check_finds_a_wrong_gradient():
    class Wrong(Dense):
        def backward(self, dy, values, gradients, work):
            out = super().backward(dy, values, gradients, work)
            gradients[0][0, 0] *= 1.5
            return out

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5, 3)), rng.normal(size=(5, 1))
    assert Network([Dense(4, "tanh"), Dense(1)], (3,), random_state=0).gradient_check(X, y).worst < 1e-7
    check = Network([Wrong(4, "tanh"), Dense(1)], (3,), random_state=0).gradient_check(X, y)
    assert check.errors[0] > 1e-3 > check.errors[1]
    assert "1 Wrong tanh" in str(check)


def test_back_propagation_of_the_lecture_notes_step_by_step():
    rng = np.random.default_rng(3)
    w, beta = rng.normal(size=(3, 3)), rng.normal(size=4)
    network = Network([Dense(3, "sigmoid"), Dense(1)], (2,), dtype="float64")
    network.initialize([w[:, 1:].T, w[:, 0], beta[1:, None], beta[:1]])
    for _ in range(20):
        x, y = rng.normal(size=2), rng.normal()
        f, d_w, d_beta = naive.one_hidden_layer(x, y, w, beta)
        assert_allclose(network.forward(x[None])[0, 0], f)
        loss, slope = network.loss_and_gradient(x[None], [[y]])
        assert_allclose(loss, (y - f) ** 2 / 2)
        w, beta = w - 0.1 * d_w, beta - 0.1 * d_beta
        network.parameters_ -= 0.1 * slope
        arrays = list(network.arrays().values())
        for mine, theirs in zip(arrays, (w[:, 1:].T, w[:, 0], beta[1:, None], beta[:1]), strict=True):
            assert_allclose(mine, theirs, rtol=1e-10)


def test_the_stochastic_gradient_has_the_mean_of_the_batch_gradient():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(7, 2)), rng.normal(size=(7, 1))
    network = Network([Dense(3, "tanh"), Dense(1)], (2,), dtype="float64", random_state=0)
    each = [network.loss_and_gradient(X[[i]], y[[i]])[1] for i in range(7)]
    assert_allclose(np.mean(each, axis=0), network.loss_and_gradient(X, y)[1], rtol=1e-12, atol=1e-14)
