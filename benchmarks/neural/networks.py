"""Networks of the same architecture, batch, epochs and data beside scikit-learn's and PyTorch's.

PyTorch runs as its tutorials have it (tensors in memory, batches by a random permutation), on both cores; its images
also with channels last, where that is quicker for it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.neural_network import MLPClassifier, MLPRegressor

from assay.neural import SGD, Conv2D, Dense, MaxPool, NeuralNetworkClassifier, NeuralNetworkRegressor
from benchmarks.case import Case

__all__ = ["CASES"]

JOBS = 2
CONVOLUTIONS = [
    Conv2D(16, 3, activation="relu"),
    MaxPool(2),
    Conv2D(32, 3, activation="relu"),
    MaxPool(2),
    Dense(64, "relu"),
]
SAME: dict[str, Any] = {"alpha": 0.0, "tol": 0.0, "patience": 10_000, "random_state": 0, "n_jobs": JOBS}


def pictures(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten blurred shapes in noise, 28 x 28, single precision, mean 0 and variance about 1."""
    rng = np.random.default_rng(0)
    shapes = rng.standard_normal((10, 7, 7)).repeat(4, axis=1).repeat(4, axis=2)
    y = rng.integers(0, 10, n)
    X = 0.5 * shapes[y] + rng.standard_normal((n, 28, 28))
    return X.astype(np.float32)[..., None], y


def flat(n: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = pictures(n)
    return X.reshape(n, -1), y


def table() -> tuple[np.ndarray, np.ndarray]:
    """20 columns, three of them in a smooth function."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10_000, 20)).astype(np.float32)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(10_000)
    return X, (y / y.std()).astype(np.float32)


# Ours and scikit-learn's.


def dense(epochs: int) -> Callable[[Any], Any]:
    def run(data: Any) -> Any:
        setting = {"hidden": (256, 128), "batch_size": 128, "max_epochs": epochs, "standardize": False}
        return NeuralNetworkClassifier(**setting, **SAME).fit(*data).predict_proba

    return run


def dense_sklearn(epochs: int) -> Callable[[Any], Any]:
    def run(data: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            setting = {"batch_size": 128, "max_iter": epochs, "alpha": 0.0, "tol": 0.0, "n_iter_no_change": 10_000}
            return MLPClassifier((256, 128), random_state=0, **setting).fit(*data).predict_proba

    return run


def small(epochs: int) -> Callable[[Any], Any]:
    def run(data: Any) -> Any:
        setting = {"hidden": (32,), "batch_size": 32, "max_epochs": epochs, "standardize": False}
        return NeuralNetworkRegressor(**setting, **SAME).fit(*data).predict

    return run


def small_sklearn(epochs: int) -> Callable[[Any], Any]:
    def run(data: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            setting = {"batch_size": 32, "max_iter": epochs, "alpha": 0.0, "tol": 0.0, "n_iter_no_change": 10_000}
            return MLPRegressor(hidden_layer_sizes=(32,), random_state=0, **setting).fit(*data).predict

    return run


def convolutional(epochs: int) -> Callable[[Any], Any]:
    def run(data: Any) -> Any:
        setting = {"layers": CONVOLUTIONS, "batch_size": 128, "max_epochs": epochs, "standardize": False}
        setting |= {"optimizer": SGD(0.9), "learning_rate": 0.01}
        return NeuralNetworkClassifier(**setting, **SAME).fit(*data).predict_proba

    return run


# PyTorch's.


def torch_network(kind: str) -> Any:
    from torch import nn

    if kind == "small":
        return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 1))
    if kind == "dense":
        return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(800, 64), nn.ReLU(), nn.Linear(64, 10)),
    )


def torch_inputs(kind: str, X: np.ndarray, last: bool) -> Any:
    import torch

    if kind != "images":
        return torch.from_numpy(X)
    images = torch.from_numpy(np.ascontiguousarray(X.transpose(0, 3, 1, 2)))
    return images.to(memory_format=torch.channels_last) if last else images


def torch_run(kind: str, epochs: int, batch: int, last: bool = False) -> Callable[[Any], Any]:
    """Train as PyTorch's tutorials do; returns its predictions as a function of the rows.

    Weights start from the distributions that ours start from, so that losses can be compared.
    """

    def run(data: Any) -> Any:
        import torch
        from torch import nn, optim

        torch.set_num_threads(JOBS)
        torch.manual_seed(0)
        X, y = data
        network = torch_network(kind)
        layers = [one for one in network if hasattr(one, "weight")]
        for one in layers:
            nn.init.zeros_(one.bias)
            nn.init.kaiming_normal_(one.weight) if one is not layers[-1] else nn.init.xavier_uniform_(one.weight)
        if last:
            network = network.to(memory_format=torch.channels_last)
        inputs, target = torch_inputs(kind, X, last), torch.from_numpy(y)
        loss: Any = nn.CrossEntropyLoss()
        if kind == "small":
            target, loss = target[:, None], nn.MSELoss()
        if kind == "images":
            steps: Any = optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
        else:
            steps = optim.Adam(network.parameters(), lr=1e-3)
        for _ in range(epochs):
            order = torch.randperm(len(X))
            for first in range(0, len(X), batch):
                rows = order[first : first + batch]
                steps.zero_grad()
                loss(network(inputs[rows]), target[rows]).backward()
                steps.step()

        def predict(X: np.ndarray) -> np.ndarray:
            given = torch_inputs(kind, X, last)
            with torch.no_grad():
                out = torch.cat([network(given[k : k + 1024]) for k in range(0, len(X), 1024)])
                return (out[:, 0] if kind == "small" else torch.softmax(out, 1)).numpy()

        return predict

    return run


# Quality: loss on the training data, as trained.


def log_loss(predict: Any, data: Any) -> float:
    X, y = data
    p = np.asarray(predict(X), dtype=np.float64)[np.arange(len(y)), y]
    return float(-np.log(np.maximum(p, 1e-12)).mean())


def squared_loss(predict: Any, data: Any) -> float:
    X, y = data
    return float(np.mean((np.asarray(predict(X)).ravel() - y) ** 2))


# Prediction alone: both sides are trained once, beforehand.


def trained() -> dict[str, Any]:
    X, y = pictures(5_000)
    peers = {False: None, True: None}
    if find_spec("torch"):
        peers = {last: torch_run("images", 1, 128, last)((X, y)) for last in peers}
    return {"X": X, "y": y, "ours": convolutional(1)((X, y)), "torch": peers}


def torch_predictions(last: bool) -> Callable[[Any], Any]:
    def run(data: dict[str, Any]) -> np.ndarray:
        import torch  # noqa: F401  (says that it is not installed)

        return data["torch"][last](data["X"])

    return run


def predicted_loss(p: np.ndarray, data: dict[str, Any]) -> float:
    return log_loss(lambda _: p, (data["X"], data["y"]))


CASES = [
    Case(
        "network 784-256-128-10, 20,000 rows, batch 128, Adam, 5 epochs",
        data=lambda: flat(20_000),
        ours=dense(5),
        peers={"scikit-learn": dense_sklearn(5), "PyTorch": torch_run("dense", 5, 128)},
        quality=log_loss,
        quality_name="training log loss",
        goals={"scikit-learn": 2.0, "PyTorch": 1.2},
        slack=2e-3,
        repeats=3,
        cold=True,
    ),
    Case(
        "network 20-32-1, 10,000 rows, batch 32, Adam, 10 epochs",
        data=table,
        ours=small(10),
        peers={"scikit-learn": small_sklearn(10), "PyTorch": torch_run("small", 10, 32)},
        quality=squared_loss,
        quality_name="training mean squared error",
        goals={"scikit-learn": 3.0, "PyTorch": 3.0},
        slack=0.02,
        repeats=3,
    ),
    Case(
        "convolutional network, 28 x 28 images, 10,000 rows, batch 128, SGD, 2 epochs",
        data=lambda: pictures(10_000),
        ours=convolutional(2),
        peers={
            "PyTorch": torch_run("images", 2, 128),
            "PyTorch, channels last": torch_run("images", 2, 128, last=True),
        },
        quality=log_loss,
        quality_name="training log loss",
        goals={"PyTorch": 1.1},
        slack=0.02,
        repeats=3,
        cold=True,
    ),
    Case(
        "convolutional network, prediction of 5,000 images",
        data=trained,
        ours=lambda data: data["ours"](data["X"]),
        peers={"PyTorch": torch_predictions(False), "PyTorch, channels last": torch_predictions(True)},
        quality=predicted_loss,
        quality_name="log loss",
        goals={"PyTorch": 1.0},
        slack=0.05,
        repeats=5,
    ),
]
