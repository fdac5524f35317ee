"""The classifier and the regressor on real data and with what users bring: images, weights, streams, odd settings."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from assay.errors import DataError, DivergenceError, ParameterError
from assay.experiment import load_model, save_model
from assay.neural import (
    SGD,
    Activation,
    Augmentation,
    BinaryCrossEntropy,
    Conv2D,
    Dense,
    Dropout,
    GradientDescent,
    Huber,
    MaxPool,
    NeuralNetworkClassifier,
    NeuralNetworkRegressor,
    Penalty,
    Residual,
)
from assay.neural._kernels import drop

CONVOLUTIONS = [
    Conv2D(16, 3, padding="same", activation="relu"),
    Conv2D(32, 3, activation="relu"),
    MaxPool(2),
    Dropout(0.25),
    Dense(64, "relu"),
    Dropout(0.3),
]


def digits(seed):
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, test_size=0.25, stratify=y, random_state=seed)


def convolutional(seed, **more):
    setting = {"layers": CONVOLUTIONS, "image_shape": (8, 8, 1), "learning_rate": 2e-3, "batch_size": 64}
    return NeuralNetworkClassifier(**setting, schedule="cosine", random_state=seed, **more)


def test_digits_in_few_epochs():
    train, test, y, truth = digits(0)
    model = convolutional(0, max_epochs=6).fit(train, y)
    assert model.score(test, truth) > 0.96


@pytest.mark.slow
def test_digits_with_a_small_convolutional_network():
    """At least 98% of the test rows, mean of five splits, and better than the dense network."""
    scores = {"conv": [], "dense": []}
    for seed in range(5):
        train, test, y, truth = digits(seed)
        model = convolutional(seed, max_epochs=30).fit(train, y)
        scores["conv"].append(model.score(test, truth))
        dense = NeuralNetworkClassifier(hidden=(64, 32), random_state=seed).fit(train, y)
        scores["dense"].append(dense.score(test, truth))
    assert np.mean(scores["conv"]) >= 0.98
    assert np.mean(scores["conv"]) > np.mean(scores["dense"])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_as_good_as_scikit_learn_on_breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    train, test, a, b = train_test_split(X, y, random_state=0, stratify=y)
    mean, scale = train.mean(axis=0), train.std(axis=0)
    ours = NeuralNetworkClassifier(hidden=(30,), random_state=0).fit(train, a).score(test, b)
    theirs = MLPClassifier((30,), random_state=0).fit((train - mean) / scale, a).score((test - mean) / scale, b)
    assert ours >= theirs - 0.01
    assert ours > 0.95


# Outputs and losses.


@pytest.mark.parametrize("loss", ["cross_entropy", "squared"])
@pytest.mark.parametrize("units", [1, 2])
def test_one_or_two_units_for_two_classes(loss, units):
    X, y = load_breast_cancer(return_X_y=True)
    names = np.array(["malignant", "benign"])[y]
    model = NeuralNetworkClassifier(hidden=(8,), loss=loss, binary_units=units, max_epochs=60, random_state=0)
    p = model.fit(X[:, :5], names).predict_proba(X[:, :5])
    assert model.network_.output_shape == (units,)
    assert_allclose(p.sum(axis=1), 1.0)
    assert model.score(X[:, :5], names) > 0.88
    assert_allclose(model.predict_log_proba(X[:, :5]), np.log(p))


def test_an_output_layer_is_added_unless_there_is_one():
    X, y = load_iris(return_X_y=True)
    for layers in ([Dense(5, "tanh")], [Dense(5, "tanh"), Dense(3)], [Dense(5, "tanh"), Dense(3, "softmax")]):
        model = NeuralNetworkClassifier(layers=layers, max_epochs=2, random_state=0).fit(X, y)
        assert model.network_.n_parameters == 5 * 5 + 6 * 3
    found = [NeuralNetworkClassifier(layers=[Dense(5, "tanh"), last], random_state=0).fit(X, y).predict_proba(X)
             for last in (Dense(3), Dense(3, "softmax"))]  # fmt: skip
    assert_array_equal(*found)


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", Huber(0.5)])
def test_losses_of_numbers(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    clean = X[:, 0] - X[:, 1] ** 2
    y = clean + np.where(rng.random(300) < 0.05, 30.0, 0.0)
    model = NeuralNetworkRegressor(hidden=(32,), loss=loss, learning_rate=0.01, max_epochs=60, random_state=0).fit(X, y)
    robust = loss != "squared"
    assert (r2_score(clean, model.predict(X)) > 0.8) == robust
    with pytest.raises(ParameterError, match="is for classes"):
        NeuralNetworkRegressor(loss=BinaryCrossEntropy()).fit(X, y)


def test_several_targets_share_the_hidden_units():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    Y = np.column_stack([X[:, 0] + X[:, 1], 1000 * X[:, 2], np.full(200, 7.0)])
    model = NeuralNetworkRegressor(hidden=(20,), learning_rate=0.01, random_state=0).fit(X, Y)
    given = model.predict(X)
    assert given.shape == (200, 3)
    assert_array_equal(given[:, 2], 7.0)
    assert r2_score(Y[:, :2], given[:, :2]) > 0.98


# Images.


def test_images_flat_or_not_are_the_same():
    X, y = load_digits(return_X_y=True)
    X, y = X[:200], y[:200]
    flat = convolutional(0, max_epochs=2).fit(X, y)
    images = X.reshape(-1, 8, 8, 1)
    folded = convolutional(0, max_epochs=2).set_params(image_shape=None).fit(images, y)
    assert_array_equal(flat.network_.parameters_, folded.network_.parameters_)
    assert_array_equal(flat.predict(X), folded.predict(images))
    assert folded.n_features_in_ == 64
    with pytest.raises(DataError, match=r"images of shape \(4, 4, 1\), but fit saw \(8, 8, 1\)"):
        folded.predict(images[:, :4, :4])
    with pytest.raises(DataError, match=r"shape \(200, 8, 8\).*expected images with channels; .*X\[..., None\]"):
        folded.fit(X.reshape(-1, 8, 8), y)
    with pytest.raises(ParameterError, match=r"layer 1 \(Conv2D\) with input of shape \(64,\).*image_shape"):
        folded.fit(X, y)
    with pytest.raises(DataError, match=r"image_shape = \(8, 9, 1\) has 72 numbers, but rows of X have 64"):
        flat.set_params(image_shape=(8, 9, 1)).fit(X, y)


def test_filters_and_feature_maps():
    X, y = load_digits(return_X_y=True)
    model = convolutional(0, max_epochs=1).fit(X[:300], y[:300])
    filters = model.filters()
    assert filters.weights.shape == (16, 3, 3, 1)
    assert str(filters) == "16 filters of 3 x 3 x 1 in layer 1 (Conv2D)"
    assert model.filters(1).weights.shape == (32, 3, 3, 16)
    maps = model.feature_maps(X[:5], layer=1)
    assert maps.maps.shape == (6, 6, 32)
    assert_array_equal(maps.image[:, :, 0], X[0].reshape(8, 8))
    assert maps.to_frame()["active"].between(0, 1).all()
    with pytest.raises(ParameterError, match=r"layer 3 \(MaxPool\) has no filters"):
        model.filters(2)
    with pytest.raises(ParameterError, match="not images"):
        model.feature_maps(X[:1], layer=4)
    with pytest.raises(ParameterError, match="has no convolution"):
        NeuralNetworkClassifier(max_epochs=1).fit(X[:99], y[:99]).filters()


# Weights.


def test_weights_equal_repetition_in_full_batches():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, len(y))
    setting = {"hidden": (5,), "batch_size": "full", "max_epochs": 100, "standardize": False, "dtype": "float64"}
    model = NeuralNetworkClassifier(**setting, learning_rate=0.01, random_state=0)
    weighted = clone(model).fit(X, y, sample_weight=counts)
    repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)


def test_class_weights_are_sample_weights():
    X, y = load_iris(return_X_y=True)
    model = NeuralNetworkClassifier(hidden=(5,), max_epochs=20, random_state=0)
    one = clone(model).set_params(class_weight={0: 2.0, 1: 0.5}).fit(X, y)
    other = clone(model).fit(X, y, sample_weight=np.array([2.0, 0.5, 1.0])[y])
    assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)
    few, labels = X[:120], y[:120]
    balanced = clone(model).set_params(class_weight="balanced").fit(few, labels).predict_proba(few)
    assert balanced[:, 2].mean() > clone(model).fit(few, labels).predict_proba(few)[:, 2].mean()


# Streams and second fits.


def test_partial_fit_learns_from_parts():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    model = NeuralNetworkClassifier(hidden=(8,), learning_rate=0.02, batch_size=10, random_state=0)
    model.partial_fit(X[order[:75]], y[order[:75]], classes=[0, 1, 2])
    for _ in range(30):
        for part in np.array_split(order, 3):
            model.partial_fit(X[part], y[part])
    assert model.score(X, y) > 0.93
    assert model.trace_.n_epochs == model.n_iter_ == 91
    with pytest.raises(DataError, match="the class 7, which was not passed in the first call"):
        model.partial_fit(X, np.full(150, 7))
    with pytest.raises(DataError, match="only one class"):
        NeuralNetworkClassifier().partial_fit(X[:10], y[:10])


def test_partial_fit_of_numbers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.column_stack([X[:, 0], X[:, 1] ** 2])
    model = NeuralNetworkRegressor(hidden=(16,), learning_rate=0.01, random_state=0)
    for _ in range(40):
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.9
    with pytest.raises(DataError, match="y has 1 columns"):
        model.partial_fit(X, y[:, 0])


def test_a_warm_start_goes_on():
    X, y = load_iris(return_X_y=True)
    model = NeuralNetworkClassifier(hidden=(8,), max_epochs=15, warm_start=True, random_state=0).fit(X, y)
    first = model.trace_.loss
    second = model.fit(X, y).trace_.loss
    assert second[0] < first[0]
    assert second[-1] < first[-1]
    model.set_params(hidden=(9,)).fit(X, y)  # another shape begins anew
    assert model.network_.n_parameters == 5 * 9 + 10 * 3


# Odd settings.


def test_settings_that_contradict_each_other():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ParameterError, match="dropout cannot be combined with layers; put Dropout"):
        NeuralNetworkClassifier(layers=[Dense(3)], dropout=0.2).fit(X, y)
    with pytest.raises(ParameterError, match="without early_stopping"):
        NeuralNetworkClassifier(optimizer="gradient_descent", early_stopping=True).fit(X, y)
    with pytest.raises(ParameterError, match="'balanced' needs all rows at once"):
        NeuralNetworkClassifier(class_weight="balanced").partial_fit(X, y)
    with pytest.raises(DataError, match="only one class"):
        NeuralNetworkClassifier().fit(X[:20], y[:20])
    with pytest.raises(DataError, match="too few"):
        NeuralNetworkRegressor(early_stopping=True).fit(X[:1], [1.0])


def test_wild_cells_at_prediction_stay_finite():
    X, y = load_iris(return_X_y=True)
    model = NeuralNetworkClassifier(hidden=(8, 8), max_epochs=20, random_state=0).fit(X, y)
    wild = X[:2].copy()
    wild[:, 1] = [1e150, -1e150]
    assert np.isfinite(model.predict_proba(wild)).all()


def test_parameters_survive_clone_and_printing():
    layers = [Conv2D(2, 3, penalty=Penalty(lasso=0.1)), MaxPool(2)]
    model = NeuralNetworkClassifier(layers=layers, optimizer=SGD(0.5), penalty=Penalty(ridge=1.0, on="all"))
    twin = clone(model)
    assert twin.layers == model.layers
    assert twin.layers is not model.layers
    assert "SGD(momentum=0.5, nesterov=False)" in repr(twin)


def test_partial_fit_drops_other_units_in_every_call(monkeypatch):
    masks = []

    def spy(x, chance, rate, out):
        masks.append(chance.copy())
        drop(x, chance, rate, out)

    monkeypatch.setattr("assay.neural.layers.drop", spy)
    X, y = load_iris(return_X_y=True)
    model = NeuralNetworkClassifier(hidden=(8,), dropout=0.5, batch_size="full", random_state=0)
    for _ in range(4):
        model.partial_fit(X, y)
    forward = masks[::2]
    assert len({mask.tobytes() for mask in forward}) == len(forward) == 4


@pytest.mark.parametrize(("before", "after"), [("sgd", "adam"), (GradientDescent(False), "adam"), ("adam", "sgd")])
def test_partial_fit_with_another_optimizer_begins_its_memory_anew(before, after):
    X, y = load_iris(return_X_y=True)
    model = NeuralNetworkClassifier(hidden=(8,), optimizer=before, random_state=0).partial_fit(X, y)
    old = model.network_.parameters_.copy()
    model.set_params(optimizer=after, dtype="float64").partial_fit(X, y)
    kept, memory = model._memory[1], model._memory[2]
    assert memory.shape == (kept.slots, old.size)
    assert np.abs(model.network_.parameters_ - old).max() < 0.1


def test_partial_fit_that_diverges_leaves_the_weights():
    X, y = load_iris(return_X_y=True)
    model = NeuralNetworkRegressor(optimizer="sgd", random_state=0).partial_fit(X, y)
    old, epochs = model.predict(X), model.n_iter_
    with pytest.raises(DivergenceError):
        model.set_params(learning_rate=1e20).partial_fit(X, y)
    assert_array_equal(model.predict(X), old)
    assert model.set_params(learning_rate=1e-3).partial_fit(X, y).n_iter_ == epochs + 1


def test_a_warm_start_begins_anew_after_a_failure_or_with_other_classes():
    X, y = load_breast_cancer(return_X_y=True)
    model = NeuralNetworkClassifier(warm_start=True, max_epochs=2, random_state=0, augment=Augmentation(shift=1))
    with pytest.raises(ParameterError, match="X is a table"):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    first = model.set_params(augment=None).fit(X, y).trace_.loss
    names = np.where(y == 0, "yes", "no")
    fresh = clone(model).fit(X, names).trace_.loss
    assert_array_equal(model.fit(X, names).trace_.loss, fresh)
    assert model.fit(X, names).trace_.loss[0] < first[0]


def test_predictions_do_not_depend_on_settings_changed_after_fit():
    X, y = load_breast_cancer(return_X_y=True)
    model = NeuralNetworkClassifier(max_epochs=2, random_state=0).fit(X, y)
    before = model.predict_proba(X)
    assert_array_equal(model.set_params(standardize=False).predict_proba(X), before)


def test_a_softmax_at_the_end_is_the_output_or_is_refused():
    X, y = load_iris(return_X_y=True)
    apart = NeuralNetworkClassifier(layers=[Dense(5), Dense(3), Activation("softmax")], max_epochs=2, random_state=0)
    joined = clone(apart).set_params(layers=[Dense(5), Dense(3, "softmax")])
    assert_array_equal(apart.fit(X, y).predict_proba(X), joined.fit(X, y).predict_proba(X))
    for wrong in ([Dense(4, "softmax")], [Dense(4), Activation("softmax")]):
        with pytest.raises(ParameterError, match=r"the output layer is Dense\(3, 'softmax'\); leave the softmax out"):
            clone(apart).set_params(layers=wrong).fit(X, y)
    two = clone(apart).set_params(layers=[Dense(2, "softmax")])
    with pytest.raises(ParameterError, match="or pass binary_units=2"):
        two.fit(X, y == 0)
    assert two.set_params(binary_units=2).fit(X, y == 0).network_.n_parameters == 10


@pytest.mark.parametrize("wrong", [{"low": 0.0}, {"low": 1.0, "high": 0.1}, {"steps": 0}, {"steps": "many"}])
def test_step_sizes_to_try_are_checked(wrong):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ParameterError, match="use 0 < low < high and at least 2 steps"):
        NeuralNetworkClassifier(random_state=0).find_learning_rate(X, y, **wrong)


def test_sizes_may_be_numbers_of_numpy():
    two, three = np.int64(2), np.int32(3)
    assert Conv2D(three, three, stride=two).output_shape((7, 7, 1)) == (3, 3, 3)
    assert MaxPool(two, stride=(two, three)).output_shape((7, 7, 1)) == (3, 2, 1)


def test_a_model_file_holds_layers_and_a_checkpoint_path(tmp_path):
    X, y = load_digits(return_X_y=True)
    inner = Residual([Conv2D(np.int64(4), 3, padding="same", activation="relu")])
    layers = [Conv2D(4, np.int64(3), activation="relu"), MaxPool(2), inner, Dense(8, penalty=Penalty(lasso=1e-3))]
    model = NeuralNetworkClassifier(layers=layers, image_shape=(8, 8, 1), max_epochs=2, random_state=0)
    model.set_params(checkpoint=tmp_path / "fit.npz").fit(X, y)
    save_model(tmp_path / "m.assay", {"pipeline": model, "task": "classification", "target": "y", "classes": range(10)})
    loaded = load_model(tmp_path / "m.assay")["pipeline"]
    assert loaded.checkpoint == str(tmp_path / "fit.npz")
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    loaded.partial_fit(X, y)
