"""What a convolutional network has learned, as pictures: its filters, and what they make of an image."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pandas as pd

from assay.errors import ParameterError
from assay.neural.convolution import Conv2D
from assay.neural.layers import Dense
from assay.neural.network import Network
from assay.results import Result

__all__ = ["FeatureMaps", "Filters", "filters_of", "maps_of"]

Array = np.ndarray


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


def _layer_at(network: Network, layer: int | None, kinds: tuple[type, ...]) -> int:
    """The asked layer, or the first of the given kinds."""
    layers = list(network.layers)
    if layer is None:
        found = next((k for k, one in enumerate(layers) if isinstance(one, kinds)), None)
        if found is None:
            raise ParameterError("the network has no convolution", remedy="fit one with layers=[Conv2D(8, 3), ...]")
        return found
    if not isinstance(layer, int) or not -len(layers) <= layer < len(layers):
        raise ParameterError(f"layer = {layer!r} is out of range", remedy=f"choose from 0 to {len(layers) - 1}")
    return layer % len(layers)


def _word(network: Network, at: int) -> str:
    return f"{at + 1} ({type(network.layers[at]).__name__})"


def filters_of(network: Network, layer: int | None) -> Filters:
    """The weights of a convolution, or of a dense layer that stands on images."""
    at = _layer_at(network, layer, (Conv2D,))
    step = network.plan.steps[at]
    if not isinstance(step.layer, Conv2D | Dense) or len(step.input_shape) != 3:
        what = f"layer {_word(network, at)} has no filters on images"
        raise ParameterError(what, remedy="choose a Conv2D layer, or leave layer out")
    weights = step.views(network.parameters_)[0]
    if isinstance(step.layer, Dense):
        weights = weights.reshape(*step.input_shape, step.layer.units)
    return Filters(np.ascontiguousarray(np.moveaxis(weights, -1, 0)), _word(network, at))


def maps_of(network: Network, image: Array, x: Array, layer: int | None) -> FeatureMaps:
    """One image and the output of a layer for it."""
    at = _layer_at(network, layer, (Conv2D,))
    step = network.plan.steps[at]
    if len(step.output_shape) != 3:
        what = f"layer {_word(network, at)} gives {prod(step.output_shape)} numbers, not images"
        raise ParameterError(what, remedy="choose a layer before the images are flattened")
    maps: Any = network.feature_maps(x, at)[0]
    return FeatureMaps(np.asarray(image, dtype=np.float64), maps, _word(network, at))
