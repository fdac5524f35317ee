"""Images: changed a little in training, and what a network has learned from them (filters, feature maps)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from assay.constraints import boolean, integer, real
from assay.errors import ParameterError
from assay.neural._declared import Declared
from assay.neural._kernels import shift_images
from assay.neural.convolution import Conv2D
from assay.neural.layers import Dense, Workspace
from assay.neural.network import Network
from assay.neural.results import FeatureMaps, Filters
from assay.state import Specs

__all__ = ["Augmentation", "filters_of", "maps_of"]

Array = np.ndarray


@dataclass(frozen=True)
class Augmentation(Declared):
    """Images changed a little each time they are seen in training.

    | parameter | default | range       | meaning                                                                 |
    |-----------|---------|-------------|-------------------------------------------------------------------------|
    | shift     | 0       | from 0 on   | moved by up to so many pixels in each direction, the border is repeated |
    | flip      | False   | True, False | mirrored left to right, every second one at random                      |
    | noise     | 0.0     | from 0 on   | standard deviation of normal noise, after standardisation               |

    >>> Augmentation(shift=1, noise=0.1).shift
    1
    """

    shift: int = 0
    flip: bool = False
    noise: float = 0.0

    state: ClassVar[Specs] = {"shift": integer(0, 65_535), "flip": boolean, "noise": real(0)}

    def apply(self, x: Array, rng: np.random.Generator, work: Workspace) -> Array:
        """A changed copy of a batch."""
        out = work.array("changed", x.shape, x.dtype)
        np.copyto(out, x)
        if x.ndim == 4 and (self.shift or self.flip):
            down, right = rng.integers(-self.shift, self.shift + 1, (2, len(x)))
            flip = rng.random(len(x)) < (0.5 if self.flip else 0.0)
            shift_images(x, down, right, flip, out)
        if self.noise:
            out += np.float32(self.noise) * rng.standard_normal(x.shape, dtype=np.float32)
        return out


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
