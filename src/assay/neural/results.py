"""What networks report: how training went, step sizes, layers, gradient checks, filters and feature maps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from assay.constraints import none
from assay.numbers import fmt
from assay.results import Result
from assay.state import Specs, values

__all__ = ["FeatureMaps", "Filters", "GradientCheck", "NetworkSummary", "StepSizes", "TrainingTrace"]

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class TrainingTrace(Result):
    """How training went: loss (and held-out loss) and step size of every epoch, and why it stopped."""

    loss: Array
    held_out: Array | None
    learning_rate: Array
    updates_per_epoch: int
    best_epoch: int
    converged: bool
    message: str

    state: ClassVar[Specs] = {
        "loss": values("e"),
        "held_out": values("e") | none,
        "learning_rate": values("e"),
    }

    @property
    def n_epochs(self) -> int:
        """How many epochs were made."""
        return int(self.loss.size)

    def to_frame(self) -> pd.DataFrame:
        """One row per epoch."""
        columns = {"epoch": np.arange(1, self.n_epochs + 1), "loss": self.loss}
        if self.held_out is not None:
            columns["held_out"] = self.held_out
        return pd.DataFrame({**columns, "learning_rate": self.learning_rate})

    def __str__(self) -> str:
        curve = self.loss if self.held_out is None else self.held_out
        word = "loss" if self.held_out is None else "held-out loss"
        at = min(max(self.best_epoch, 1), max(self.n_epochs, 1)) - 1
        best = f"; weights of epoch {self.best_epoch}, {word} {fmt(float(curve[at]), 5)}" if self.n_epochs else ""
        epochs = f"{self.n_epochs} epoch{'s' if self.n_epochs != 1 else ''}"
        per = f"{self.updates_per_epoch:,} update{'s' if self.updates_per_epoch != 1 else ''}"
        return f"{epochs} of {per} each: {self.message}{best}"


@dataclass(frozen=True, eq=False, repr=False)
class StepSizes(Result):
    """Loss of a few updates with ever larger steps, and the step size that this suggests: a tenth of the best."""

    learning_rate: Array
    loss: Array
    suggestion: float

    state: ClassVar[Specs] = {"learning_rate": values("e"), "loss": values("e")}

    def to_frame(self) -> pd.DataFrame:
        """One row per update."""
        return pd.DataFrame({"learning_rate": self.learning_rate, "loss": self.loss})

    def __str__(self) -> str:
        low, high = fmt(float(self.learning_rate[0]), 3), fmt(float(self.learning_rate[-1]), 3)
        return f"{self.loss.size} updates with steps from {low} to {high}; try learning_rate={self.suggestion:.2g}"


@dataclass(frozen=True, eq=False, repr=False)
class NetworkSummary(Result):
    """Layers of a network with output shapes and numbers of parameters."""

    input_shape: Any
    layers: tuple[str, ...]
    output_shapes: Any
    counts: tuple[int, ...]
    dtype: str

    def to_frame(self) -> pd.DataFrame:
        """One row per layer."""
        columns = {
            "layer": self.layers,
            "output": [str(shape) for shape in self.output_shapes],
            "parameters": self.counts,
        }
        return pd.DataFrame(columns, index=range(1, len(self.layers) + 1))

    @property
    def n_parameters(self) -> int:
        """All parameters."""
        return sum(self.counts)

    def __str__(self) -> str:
        rows = [(f"{k} {name}", str(shape), f"{count:,}") for k, (name, shape, count) in enumerate(self._rows(), 1)]
        rows.insert(0, ("layer", "output", "parameters"))
        widths = [max(len(row[k]) for row in rows) for k in range(3)]
        lines = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
        head = f"Network of {len(self.layers)} layers, input {self.input_shape}"
        foot = f"{self.n_parameters:,} parameters ({self.n_parameters * np.dtype(self.dtype).itemsize:,} bytes)"
        rule = "-" * max(map(len, [head, foot, *lines]))
        return "\n".join([head, rule, *lines, rule, foot])

    def _rows(self) -> Iterator[tuple[str, Any, int]]:
        return zip(self.layers, self.output_shapes, self.counts, strict=True)


@dataclass(frozen=True, eq=False, repr=False)
class GradientCheck(Result):
    """Largest difference of gradient and central differences in each layer, relative to the layer's largest slope."""

    layers: tuple[str, ...]
    errors: tuple[float, ...]
    counts: tuple[int, ...]

    @property
    def worst(self) -> float:
        """The largest of all."""
        return max(self.errors, default=0.0)

    def to_frame(self) -> pd.DataFrame:
        """One row per layer that learns."""
        return pd.DataFrame({"relative_error": self.errors, "checked": self.counts}, index=list(self.layers))

    def __str__(self) -> str:
        width = max(map(len, self.layers), default=0)
        lines = [
            f"{name:<{width}}  {fmt(error, 3)} ({count} parameters)"
            for name, error, count in zip(self.layers, self.errors, self.counts, strict=True)
        ]
        head = "Largest relative difference of back-propagation and central differences"
        return "\n".join([head, "-" * len(head), *lines])


@dataclass(frozen=True, eq=False, repr=False)
class Filters(Result):
    """Learned weights as images: one per filter or unit and channel, `weights[filter, row, column, channel]`."""

    weights: Array
    layer: str

    def to_frame(self) -> pd.DataFrame:
        """One row per filter: smallest, largest and mean weight, and its length."""
        flat = self.weights.reshape(len(self.weights), -1)
        columns = {"min": flat.min(axis=1), "max": flat.max(axis=1), "mean": flat.mean(axis=1)}
        return pd.DataFrame({**columns, "norm": np.linalg.norm(flat, axis=1)})

    def __str__(self) -> str:
        count, rows, columns, channels = self.weights.shape
        return f"{count} filters of {rows} x {columns} x {channels} in layer {self.layer}"


@dataclass(frozen=True, eq=False, repr=False)
class FeatureMaps(Result):
    """An image and what each filter of a layer makes of it, `maps[row, column, filter]`."""

    image: Array
    maps: Array
    layer: str

    def to_frame(self) -> pd.DataFrame:
        """One row per map: mean, largest value, and the share of pixels above zero."""
        flat = self.maps.reshape(-1, self.maps.shape[-1])
        return pd.DataFrame({"mean": flat.mean(axis=0), "max": flat.max(axis=0), "active": (flat > 0).mean(axis=0)})

    def __str__(self) -> str:
        rows, columns, count = self.maps.shape
        return f"{count} feature maps of {rows} x {columns} from layer {self.layer}"
