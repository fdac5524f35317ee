"""What training promises: batches, stopping, penalties, dropout, checkpoints, and the same numbers for a seed."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from assay import neural
from assay.errors import DataError, DivergenceError, ParameterError, StoreError
from assay.neural import (
    SGD,
    Adam,
    AdamW,
    Augmentation,
    BatchNormalization,
    Conv2D,
    Cosine,
    Decay,
    Dense,
    Dropout,
    GradientDescent,
    MaxPool,
    Network,
    NeuralNetworkClassifier,
    NeuralNetworkRegressor,
    Penalty,
    ReduceOnPlateau,
    Residual,
)
from assay.neural import training as engine
from assay.neural.layers import Workspace
from assay.neural.losses import LOSSES
from assay.neural.training import Recipe, Trainer, TrainingRows
from assay.numerics import threads
from assay.progress import listen


def waves(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


def trainer(n, batch, **more):
    network = Network([Dense(1)], (1,), random_state=0).initialize()
    rows = TrainingRows(np.arange(n, dtype=np.float32)[:, None], np.zeros((n, 1), np.float32), np.empty(0, np.float32))
    recipe = Recipe(LOSSES["squared"], SGD(0.0), neural.Constant(), 1e-12, batch, 1, **more)
    return Trainer(network, rows, recipe, np.random.SeedSequence(0))


# Batches.


@pytest.mark.parametrize(
    ("n", "batch", "updates"), [(48_000, 128, 375), (100, 10, 10), (10, 3, 4), (10, 10, 1), (10, 1, 10), (3, 8, 1)]
)
def test_updates_of_an_epoch(n, batch, updates):
    run = trainer(n, batch)
    assert run.updates == updates
    run.epoch(1e-12)
    assert run.count == updates


def test_an_epoch_visits_every_row_once():
    run = trainer(10, 3)
    first, second = run.order(), run.order()
    assert sorted(first) == list(range(10))
    assert list(first) != list(second)
    assert list(trainer(10, 10).order()) == list(range(10))


def test_draws_with_replacement():
    drawn = trainer(1000, 10, replace=True).order()
    # A row is left out with probability about exp(-1); 632 +- 6 standard deviations (15) of a thousand are seen.
    assert 540 < len(np.unique(drawn)) < 725


def test_the_trace_reports_the_updates():
    X, y = waves(100)
    trace = NeuralNetworkRegressor(hidden=(3,), batch_size=32, max_epochs=3).fit(X, y).trace_
    assert (trace.updates_per_epoch, trace.n_epochs) == (4, 3)
    assert "3 epochs of 4 updates each: max_epochs=3 reached" in str(trace)
    assert list(trace.to_frame()) == ["epoch", "loss", "learning_rate"]


# The same numbers whatever the number of threads.


@pytest.mark.parametrize("layers", [[Dense(8, "relu"), Dropout(0.3)], [Conv2D(4, 3, activation="relu"), MaxPool(2)]])
def test_shards_and_threads(layers, monkeypatch):
    monkeypatch.setattr(engine, "WORTH", 0)
    monkeypatch.setattr(threads, "SMALL_WORK", 0)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 8, 8, 1)), rng.integers(0, 3, 50)
    augment = Augmentation(shift=1, noise=0.1)
    found = [
        NeuralNetworkClassifier(
            layers=layers, batch_size=15, max_epochs=3, augment=augment, random_state=0, n_jobs=jobs
        ).fit(X, y)
        for jobs in (None, 1, 2, 5)
    ]
    for other in found[1:]:
        assert_array_equal(other.network_.parameters_, found[0].network_.parameters_)
        assert_array_equal(other.predict_proba(X), found[0].predict_proba(X))


def test_two_shards_give_the_gradient_of_the_batch(monkeypatch):
    X, y = waves(33)
    layers = [Dense(5, "tanh"), Dense(1)]
    found = []
    for worth in (0, np.inf):
        monkeypatch.setattr(engine, "WORTH", worth)
        network = Network(layers, (2,), dtype="float64", random_state=0).initialize()
        recipe = Recipe(LOSSES["squared"], SGD(), neural.Constant(), 0.1, 33, 1)
        run = Trainer(network, TrainingRows(X, y[:, None], np.empty(0)), recipe, np.random.SeedSequence(0))
        assert run.shards == (2 if worth == 0 else 1)
        value = run.gradient(np.arange(33))
        found.append((value, run.gradients.sum(axis=0)))
    assert_allclose(found[0][0], found[1][0])
    assert_allclose(found[0][1], found[1][1], rtol=1e-10, atol=1e-14)


def test_a_whole_batch_where_rows_depend_on_each_other(monkeypatch):
    monkeypatch.setattr(engine, "WORTH", 0)
    X, y = waves(20)
    network = Network([BatchNormalization(), Dense(1)], (2,), random_state=0).initialize()
    recipe = Recipe(LOSSES["squared"], SGD(), neural.Constant(), 0.1, 20, 1)
    rows = TrainingRows(X.astype(np.float32), y[:, None].astype(np.float32), np.empty(0, np.float32))
    assert Trainer(network, rows, recipe, np.random.SeedSequence(0)).shards == 1


# Optimizers and schedules.


def by_hand(kind, gradients, rate):
    """Steps of one parameter that starts at 1, from the formulas."""
    theta, m, v = 1.0, 0.0, 0.0
    for t, g in enumerate(gradients, start=1):
        if isinstance(kind, Adam):
            m, v = kind.beta_1 * m + (1 - kind.beta_1) * g, kind.beta_2 * v + (1 - kind.beta_2) * g * g
            theta *= 1 - rate * kind.decay
            theta -= rate * (m / (1 - kind.beta_1**t)) / (np.sqrt(v / (1 - kind.beta_2**t)) + kind.epsilon)
        else:
            m = getattr(kind, "momentum", 0.0) * m + g
            theta -= rate * (g + kind.momentum * m if getattr(kind, "nesterov", False) else m)
    return theta


@pytest.mark.parametrize("kind", [GradientDescent(), SGD(), SGD(0.5, nesterov=True), Adam(), AdamW(weight_decay=0.2)])
def test_optimizers_by_their_formulas(kind):
    gradients = [0.5, -1.0, 2.0, 0.1]
    theta, memory = np.ones(1), np.zeros((kind.slots, 1))
    blocks = neural.optimizers.Blocks(np.array([0, 1]), np.zeros(1), np.zeros(1))
    for t, g in enumerate(gradients, start=1):
        kind.step(theta, np.array([[g / 2], [g / 2]]), memory, blocks, 0.1, 1.0, t)
    assert_allclose(theta[0], by_hand(kind, gradients, 0.1), rtol=1e-9)


def test_schedules():
    assert [Cosine(0.1).factor(t, 3, []) for t in range(3)] == pytest.approx([1.0, 0.55, 0.1])
    assert Decay(0.5).factor(2, 9, []) == 0.5
    plateau = ReduceOnPlateau(by=0.1, patience=2)
    assert plateau.factor(0, 9, [1.0, 0.9, 0.8]) == 1.0
    assert plateau.factor(0, 9, [1.0, 1.0, 1.0, 1.0, 1.0]) == pytest.approx(0.01)
    X, y = waves()
    trace = NeuralNetworkRegressor(hidden=(3,), schedule="cosine", max_epochs=5).fit(X, y).trace_
    assert_allclose(trace.learning_rate[[0, -1]], [1e-3, 0.0], atol=1e-12)


def test_clipping_bounds_the_step():
    X, y = waves()
    model = NeuralNetworkRegressor(hidden=(3,), optimizer=SGD(0.0), clip=0.01, learning_rate=1.0, max_epochs=1)
    model.set_params(random_state=0, dtype="float64", alpha=0.0).fit(X, y)
    free = NeuralNetworkRegressor(**{**model.get_params(), "clip": None, "learning_rate": 1e-12}).fit(X, y)
    assert_allclose(np.linalg.norm(model.network_.parameters_ - free.network_.parameters_), 0.01, rtol=1e-6)


def test_gradient_descent_until_the_objective_fails_to_decrease():
    X, y = waves()
    setting = {
        "hidden": (4,),
        "activation": "tanh",
        "optimizer": "gradient_descent",
        "dtype": "float64",
        "random_state": 0,
    }
    steady = NeuralNetworkRegressor(**setting, learning_rate=0.05, max_epochs=200).fit(X, y)
    assert (np.diff(steady.trace_.loss) < 0).all()
    wild = NeuralNetworkRegressor(**setting, learning_rate=5.0, max_epochs=200).fit(X, y)
    trace = wild.trace_
    assert trace.converged
    assert "failed to decrease" in trace.message
    # The weights given back are those of the least objective.
    z = (wild.predict(X) - y.mean()) / y.std()
    weights = sum(float((a**2).sum()) for name, a in wild.network_.arrays().items() if "weights" in name)
    objective = np.mean((z - (y - y.mean()) / y.std()) ** 2) / 2 + 0.5e-4 * weights
    assert_allclose(objective, trace.loss.min(), rtol=1e-8)
    with pytest.raises(ParameterError, match="needs all rows in every step"):
        wild.set_params(batch_size=10).fit(X, y)


def test_the_lasso_leaves_exact_zeros():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    y = 2 * X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=200)
    for optimizer in ("adam", "sgd"):
        setting = {"optimizer": optimizer, "learning_rate": 0.01, "alpha": 0.0, "max_epochs": 300, "random_state": 0}
        model = NeuralNetworkRegressor(hidden=(), penalty=Penalty(lasso=0.1), **setting).fit(X, y)
        weights = model.network_.arrays()["1 Dense weights"][:, 0]
        assert (weights[2:] == 0).all()
        assert (weights[:2] != 0).all()


# Optima that are known.


@pytest.mark.parametrize("classes", [2, 3])
def test_without_a_hidden_layer_it_is_logistic_regression(classes):
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    y = np.digitize(X[:, 0] + rng.normal(size=90), np.linspace(-0.5, 0.5, classes - 1))
    alpha = 0.05
    setting = {"hidden": (), "optimizer": SGD(0.9), "learning_rate": 0.5, "alpha": alpha, "dtype": "float64"}
    model = NeuralNetworkClassifier(
        **setting, batch_size="full", max_epochs=1500, tol=0.0, patience=1500, random_state=0
    )
    model.set_params(standardize=False).fit(X, y)
    peer = LogisticRegression(C=1 / (90 * alpha), tol=1e-10, max_iter=1000).fit(X, y)
    assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-6)


def test_without_a_hidden_layer_it_is_ridge_regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=50)
    z, t = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    exact = np.linalg.solve(z.T @ z / 50 + 0.1 * np.eye(3), z.T @ t / 50)
    setting = {"optimizer": SGD(0.9), "learning_rate": 0.1, "alpha": 0.1, "dtype": "float64", "max_epochs": 800}
    model = NeuralNetworkRegressor(hidden=(), **setting, tol=0.0, patience=800, random_state=0).fit(X, y)
    assert_allclose(model.network_.arrays()["1 Dense weights"][:, 0], exact, atol=1e-8)
    assert_allclose(model.predict(X), y.mean() + y.std() * z @ exact, atol=1e-6)


def test_the_expectation_of_dropout_is_what_was_there():
    """Mean of 4,000 draws of 50 units within 6 standard errors; false alarm rate below 1e-6."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 50)).astype(np.float32)
    for rate in (0.2, 0.5):
        work = Workspace(np.random.default_rng(1), training=True)
        drawn = np.array([Dropout(rate).forward(x, (), work).copy()[0] for _ in range(4000)], dtype=np.float64)
        error = np.abs(x[0]) * np.sqrt(rate / (1 - rate) / 4000)
        assert (np.abs(drawn.mean(axis=0) - x[0]) <= 6 * error).all()
        kept = drawn[drawn != 0] * (1 - rate)
        assert_allclose(np.unique(np.abs(kept).round(5)).size, np.unique(np.abs(x).round(5)).size)
        assert_array_equal(Dropout(rate).forward(x, (), Workspace()), x)


def test_dropout_on_inputs_and_hidden_units():
    model = NeuralNetworkRegressor(hidden=(5, 4), dropout=0.3, input_dropout=0.1, max_epochs=2).fit(*waves())
    assert [type(layer).__name__ for layer in model.network_.layers] == [
        "Dropout", "Dense", "Dropout", "Dense", "Dropout", "Dense",
    ]  # fmt: skip
    assert model.network_.layers[0].rate == 0.1


# Stopping.


@pytest.mark.parametrize("seed", range(5))
def test_early_stopping_gives_back_the_best_held_out_loss(seed):
    X, y = waves(80, seed)
    setting = {"hidden": (20,), "learning_rate": 0.05, "early_stopping": True, "validation_fraction": 0.25}
    model = NeuralNetworkRegressor(**setting, patience=5, max_epochs=60, random_state=seed)
    seen = {}
    run = Trainer.run

    def watch(self, *options):
        seen["trainer"] = self
        return run(self, *options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "run", watch)
        model.fit(X, y)
    trace = model.trace_
    assert trace.held_out[trace.best_epoch - 1] == trace.held_out.min()
    assert seen["trainer"].held_loss() == trace.held_out.min()
    assert model.starts_ == [trace.held_out.min()]


def test_training_stops_when_nothing_improves():
    X, y = waves()
    trace = NeuralNetworkRegressor(hidden=(3,), tol=10.0, patience=4, random_state=0).fit(X, y).trace_
    assert trace.converged
    assert trace.n_epochs == 5
    assert "has not improved by 10 for 4 epochs" in str(trace)


def test_the_best_of_several_starts():
    X, y = waves()
    model = NeuralNetworkRegressor(hidden=(3,), n_starts=4, max_epochs=30, learning_rate=0.02, random_state=0).fit(X, y)
    assert len(model.starts_) == 4
    assert len(set(model.starts_)) == 4
    assert model.trace_.loss[-1] == min(model.starts_)
    assert str(model.set_params(max_epochs=1).fit(X, y).trace_).startswith("1 epoch of")


def test_starts_of_gradient_descent_are_compared_by_the_weights_that_are_kept():
    """Not by the objective of the step that failed and was taken back."""
    X, y = waves()
    setting = {"hidden": (4,), "optimizer": "gradient_descent", "learning_rate": 2.0, "max_epochs": 200}
    for seed in range(5):
        model = NeuralNetworkRegressor(**setting, n_starts=4, random_state=seed).fit(X, y)
        assert model.trace_.converged
        assert model.trace_.loss.min() == min(model.starts_)


# Divergence.


@pytest.mark.parametrize("rate", [1e6, 1e30])
def test_a_step_that_is_too_large(rate):
    X, y = waves()
    model = NeuralNetworkRegressor(hidden=(8,), optimizer=SGD(0.9), learning_rate=rate, max_epochs=500, random_state=0)
    with pytest.raises(
        DivergenceError, match=r"epoch \d+ \(update \d+\): layer \d \(Dense\) overflows.*learning_rate=.*clip=1.0"
    ):
        model.fit(X, y)
    with pytest.raises(DivergenceError, match=r"learning_rate=[0-9.e+-]+$"):  # clipping is no remedy where it is on
        model.set_params(clip=1.0, learning_rate=1e30).fit(X, y)


def test_adam_with_a_huge_step_gives_an_answer():
    X, y = waves()
    fitted = NeuralNetworkRegressor(hidden=(8,), learning_rate=1e5, max_epochs=50, random_state=0).fit(X, y)
    assert np.isfinite(fitted.predict(X)).all()


def test_step_sizes():
    X, y = waves(400)
    model = NeuralNetworkRegressor(hidden=(16,), random_state=0)
    found = model.find_learning_rate(X, y, steps=60)
    assert 1e-5 < found.suggestion < 1
    assert "try learning_rate=" in str(found)
    assert not hasattr(model, "network_")
    assert found.to_frame().shape == (found.loss.size, 2)


# Checkpoints.


class Killed(BaseException):
    pass


def kill_after(epochs):
    def listener(label, done, total):
        if label.startswith("epochs") and done == epochs:
            raise Killed

    return listen(listener)


SETTINGS = [
    {"hidden": (6,), "dropout": 0.2, "schedule": "plateau"},
    {"layers": [Dense(5, "relu"), BatchNormalization()], "early_stopping": True, "optimizer": "sgd"},
]


@pytest.mark.parametrize("setting", SETTINGS, ids=["dropout", "early stopping"])
@pytest.mark.parametrize("seed", [3, None])
def test_a_killed_fit_goes_on_to_the_same_numbers(setting, seed, tmp_path):
    X, y = waves()
    path = tmp_path / "fit.npz"
    common = {**setting, "batch_size": 32, "max_epochs": 12, "n_starts": 2}
    model = NeuralNetworkRegressor(**common, random_state=seed, checkpoint=path)
    for epochs in (5, 3):  # killed twice
        with pytest.raises(Killed), kill_after(epochs):
            model.fit(X, y)
        assert path.exists()
    resumed = model.fit(X, y)
    assert not path.exists()
    assert resumed.trace_.n_epochs == len(resumed.trace_.loss)
    if seed is not None:
        plain = NeuralNetworkRegressor(**common, random_state=seed).fit(X, y)
        assert_array_equal(resumed.network_.parameters_, plain.network_.parameters_)
        assert_array_equal(resumed.network_.statistics_, plain.network_.statistics_)
        assert_array_equal(resumed.trace_.loss, plain.trace_.loss)
        assert resumed.starts_ == plain.starts_


def test_a_kill_in_the_second_start(tmp_path):
    X, y = waves()
    setting = {"hidden": (4,), "max_epochs": 6, "n_starts": 3, "random_state": 0}
    calls = []

    def listener(label, done, total):
        calls.append(done)
        if sum(one == total for one in calls) == 1 and done == 3:
            raise Killed

    model = NeuralNetworkRegressor(**setting, checkpoint=str(tmp_path / "fit.npz"))
    with pytest.raises(Killed), listen(listener):
        model.fit(X, y)
    resumed, plain = model.fit(X, y), NeuralNetworkRegressor(**setting).fit(X, y)
    assert_array_equal(resumed.network_.parameters_, plain.network_.parameters_)
    assert resumed.starts_ == plain.starts_


def test_checkpoints_of_others_and_damaged_ones_are_refused(tmp_path):
    X, y = waves()
    path = tmp_path / "fit.npz"
    model = NeuralNetworkRegressor(hidden=(4,), max_epochs=5, random_state=0, checkpoint=path)
    with pytest.raises(Killed), kill_after(2):
        model.fit(X, y)
    with pytest.raises(StoreError, match="belongs to a fit with other data or settings; delete that file"):
        model.fit(X, y + 1e-3 * X[:, 0])
    with pytest.raises(StoreError, match="belongs to a fit with other data or settings"):
        clone(model).set_params(random_state=1).fit(X, y)
    list_of_facts = io.BytesIO()
    np.savez(list_of_facts, **{"facts.json": np.frombuffer(b"[1]", np.uint8)})
    plain_array = io.BytesIO()
    np.save(plain_array, np.ones(3))
    for damaged in (path.read_bytes()[:100], b"", b"text", list_of_facts.getvalue(), plain_array.getvalue()):
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match="cannot be read"):
            model.fit(X, y)
    with pytest.raises(StoreError, match="cannot be written"):
        model.set_params(checkpoint=tmp_path / "missing" / "fit.npz").fit(X, y)
    with pytest.raises(StoreError, match="is a directory; pass the path of a file in it"):
        model.set_params(checkpoint=tmp_path).fit(X, y)
    assert json.dumps(sorted(p.name for p in tmp_path.iterdir())) == '["fit.npz"]'


# Progress.


def test_progress_with_the_live_loss():
    seen = []
    with listen(lambda label, done, total: seen.append((label, done, total))):
        NeuralNetworkRegressor(hidden=(3,), max_epochs=3, random_state=0).fit(*waves())
    assert [done for _, done, _ in seen] == [0, 1, 2, 3]
    assert seen[0][0] == "epochs"
    assert seen[-1][0].startswith("epochs, loss 0.")


# Layers together.


def test_networks_of_all_layers_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6, 6, 1)).astype(np.float32)
    y = (X[:, :3].mean(axis=(1, 2, 3)) > X[:, 3:].mean(axis=(1, 2, 3))).astype(int)
    layers = [
        Conv2D(6, 3, padding="same", activation="relu"),
        Residual([Conv2D(6, 3, padding="same"), neural.Activation("tanh")]),
        neural.MeanPool(2),
        BatchNormalization(),
        neural.Flatten(),
        Dense(8, "relu"),
    ]
    model = NeuralNetworkClassifier(layers=layers, learning_rate=0.01, max_epochs=25, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95
    assert model.network_.statistics_.any()


def test_augmentation_moves_mirrors_and_adds_noise():
    x = np.arange(9, dtype=np.float32).reshape(1, 3, 3, 1)
    rng, work = np.random.default_rng(0), Workspace()
    flips = {tuple(Augmentation(flip=True).apply(x, rng, work)[0, 0, :, 0]) for _ in range(20)}
    assert flips == {(0.0, 1.0, 2.0), (2.0, 1.0, 0.0)}
    shifts = {tuple(Augmentation(shift=1).apply(x, rng, work)[0, 1, :, 0]) for _ in range(200)}
    assert (3.0, 4.0, 5.0) in shifts
    assert (0.0, 0.0, 1.0) in shifts  # one down, one right: the border is repeated
    assert len(shifts) == 9
    noise = Augmentation(noise=0.5).apply(np.zeros((50, 4, 4, 1), np.float32), rng, Workspace())
    assert 0.4 < noise.std() < 0.6
    with pytest.raises(ParameterError, match="X is a table"):
        NeuralNetworkRegressor(augment=Augmentation(shift=1)).fit(*waves())


def test_given_parameters_and_their_shapes():
    network = Network([Dense(2)], (3,), dtype="float64")
    with pytest.raises(ParameterError, match=r"weights of layer 1 \(Dense\) has the shape \(3, 2\), but \(2, 3\)"):
        network.initialize([np.ones((2, 3)), np.zeros(2)])
    assert_allclose(network.initialize([np.ones((3, 2)), [1.0, 2.0]]).forward(np.ones((1, 3))), [[4.0, 5.0]])
    with pytest.raises(DataError, match=r"takes rows of shape \(3,\), but X has the shape \(1, 4\)"):
        network.forward(np.ones((1, 4)))
    with pytest.raises(DataError, match="the batch is empty"):
        network.forward(np.ones((0, 3)))


@pytest.mark.parametrize(("scheme", "deviation"), [("glorot", np.sqrt(2 / 700)), ("he", np.sqrt(2 / 400))])
def test_initial_weights(scheme, deviation):
    weights = Network([Dense(300)], (400,), initialisation=scheme, random_state=0).arrays()["1 Dense weights"]
    # The standard deviation of 120,000 draws is known to 0.3%; six times that.
    assert_allclose(weights.std(), deviation, rtol=0.02)
    assert abs(weights.mean()) < 6 * deviation / np.sqrt(weights.size)


def test_a_network_prints_its_layers_and_takes_numbers_only():
    network = Network([Dense(2)], (3,))
    assert repr(network).startswith("Network([Dense(units=2")
    assert repr(network).endswith("input_shape=(3,))")
    with pytest.raises(DataError, match="X is not an array of numbers"):
        network.forward([["a", "b", "c"]])
