"""What networks compile: dense layers with each loss, and convolutions."""

from __future__ import annotations

import numpy as np

from assay.neural import Conv2D, MaxPool, NeuralNetworkClassifier, NeuralNetworkRegressor
from assay.numerics.warmup import Warmup, fits

__all__ = ["WARMUPS"]


def _images() -> None:
    X, y = np.random.default_rng(0).normal(size=(20, 6, 6, 1)), np.arange(20) % 3
    NeuralNetworkClassifier(layers=[Conv2D(2, 3, activation="relu"), MaxPool(2)], max_epochs=1).fit(X, y).predict(X)


WARMUPS = (
    *fits(NeuralNetworkRegressor, hidden=(2,), max_epochs=1),
    *fits(NeuralNetworkClassifier, hidden=(2,), max_epochs=1),
    Warmup("convolution", _images),
)
