"""Tables with a held-out part: Friedman's surface with noise, as numbers or cut into classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Table", "error_rate", "rmse", "table"]


class Table(NamedTuple):
    """Training rows, and rows that nobody fits."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def table(n: int, p: int, *, classes: int = 0, n_test: int = 20_000, seed: int = 0) -> Table:
    """y = 10 sin(pi x0 x1) + 20 (x2 - 1/2)^2 + 10 x3 + 5 x4 + noise; with classes, cut at its quantiles."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n + n_test, p))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    y += 2.0 * rng.normal(size=y.size)
    if classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    return Table(X[:n], y[:n], X[n:], y[n:])


def rmse(model: Any, data: Table) -> float:
    """Held-out root mean squared error."""
    return float(np.sqrt(np.mean((model.predict(data.X_test) - data.y_test) ** 2)))


def error_rate(model: Any, data: Table) -> float:
    """Held-out share of wrong classes."""
    return float(np.mean(model.predict(data.X_test) != data.y_test))
