"""Layers of a network: each maps rows to rows, and gradients of its output to gradients of its input and parameters.

    forward    y = h(x; theta)
    backward   dL/dx = (dy/dx)' dL/dy,    dL/dtheta = (dy/dtheta)' dL/dy

A layer is a frozen description: it holds settings, never numbers that are learned. Its parameters are views of the one
parameter vector of a `Network`, its scratch arrays belong to a `Workspace`, so several threads may run one layer at the
same time. A new layer is a small class with four methods; `examples` gives it the tests that all layers pass.

Cost of `Dense`: 2 n p k multiply-adds forward, twice that backward, all in matrix products.

Goodfellow, Bengio, Courville (2016), Deep Learning, chapters 6 to 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from assay.constraints import boolean, integer, none, one_of, real
from assay.errors import ParameterError
from assay.neural._declared import Declared
from assay.neural._kernels import ACTIVATIONS, activate, differentiate, drop, moments_of, softmax
from assay.neural.penalties import Penalty
from assay.state import Specs, need, part, several

__all__ = [
    "Activation",
    "BatchNormalization",
    "Dense",
    "Dropout",
    "Flatten",
    "Layer",
    "Parameter",
    "Residual",
    "Workspace",
]

Array = np.ndarray
Shape = tuple[int, ...]
NAMES = (*ACTIVATIONS, "softmax")
EMPTY: dict[str, Array] = {name: np.empty(0, dtype=name) for name in ("float32", "float64")}
LARGEST = 2**31
"""No layer may have more units, filters or pixels."""


@dataclass(frozen=True)
class Parameter:
    """An array that a layer learns: `kind` is "weights", "bias" or "scale"; the fans scale its random start.

    Weights start at random (He's rule before a ReLU), everything else at `start`.
    """

    name: str
    shape: Shape
    kind: str
    fan_in: int = 1
    fan_out: int = 1
    start: float = 0.0
    relu: bool = False


class Workspace:
    """Scratch arrays of one layer in one thread, what its forward pass keeps, and where random numbers come from.

    | field      | meaning                                                      |
    |------------|--------------------------------------------------------------|
    | training   | whether dropout drops and batch normalisation uses the batch |
    | first      | whether nobody asks for the gradient of the input            |
    | statistics | running values of the layer, one vector                      |
    | inner      | the workspaces of the layers inside                          |
    """

    def __init__(self, rng: np.random.Generator | None = None, *, training: bool = False, first: bool = False) -> None:
        self.rng, self.training, self.first = rng, training, first
        self.statistics: Array = EMPTY["float64"]
        self.inner: list[Workspace] = []
        self.kept: Any = None
        self._arrays: dict[Any, Array] = {}

    def array(self, name: str, shape: Shape, dtype: Any) -> Array:
        """A scratch array that is made once for each shape; what it holds is whatever was left there."""
        found = self._arrays.get((name, shape))
        if found is None:
            found = self._arrays[name, shape] = np.empty(shape, dtype=dtype)
        return found

    def ones(self, n: int, dtype: Any) -> Array:
        """A vector of ones."""
        found = self._arrays.get(n)
        if found is None:
            found = self._arrays[n] = np.ones(n, dtype=dtype)
        return found


class Layer(Declared):
    """What every layer is: settings, an output shape, parameters, a forward and a backward pass.

    | method                                | meaning                                                           |
    |---------------------------------------|-------------------------------------------------------------------|
    | output_shape(shape)                   | shape of one row of output for one of input, or `ParameterError`  |
    | parameters(shape)                     | what it learns, a tuple of `Parameter`                            |
    | forward(x, values, work)              | output for a batch; keeps in `work` what `backward` needs         |
    | backward(dy, values, gradients, work) | fills `gradients`, returns the input's gradient; may overwrite dy |
    """

    penalty: Any = None

    def output_shape(self, shape: Shape) -> Shape:
        """The shape of one row of output."""
        return shape

    def parameters(self, shape: Shape) -> tuple[Parameter, ...]:
        """What the layer learns."""
        return ()

    def penalties(self, shape: Shape) -> tuple[Penalty | None, ...]:
        """The penalty that belongs to the layer, for each of its parameters."""
        return (self.penalty,) * len(self.parameters(shape))

    def n_statistics(self, shape: Shape) -> int:
        """How many running values it keeps beside its parameters."""
        return 0

    def work(self, shape: Shape) -> int:
        """Multiply-adds of one row's forward pass, roughly."""
        return sum(prod(one.shape) for one in self.parameters(shape))

    def forward(self, x: Array, values: Sequence[Array], work: Workspace) -> Array:
        """Output of a batch."""
        raise NotImplementedError(f"{type(self).__name__}.forward is missing")

    def backward(self, dy: Array, values: Sequence[Array], gradients: Sequence[Array], work: Workspace) -> Array:
        """Gradient of the input."""
        raise NotImplementedError(f"{type(self).__name__}.backward is missing")

    def absorb(self, following: Layer) -> Layer | None:
        """One layer that does the work of this one and the following, where that is quicker."""
        return None

    @classmethod
    def examples(cls) -> list[tuple[Layer, Shape]]:
        """Layers of this class with input shapes, on which the tests of all layers run."""
        return [(cls(), (4,))]


def check_rows(layer: Layer, shape: Shape) -> None:
    """Refuse an empty shape."""
    if not shape or min(shape) < 1:
        raise ParameterError(f"an input of shape {shape} is empty", remedy="pass at least one number per row")


@dataclass(frozen=True)
class Activation(Layer):
    """A function of each unit: g(z) = z, max(0, z), 1 / (1 + exp(-z)), tanh(z), or exp(z) over its sum in a row.

    | parameter | default | range                                            | meaning   |
    |-----------|---------|--------------------------------------------------|-----------|
    | function  | "relu"  | "identity", "relu", "sigmoid", "tanh", "softmax" | which one |

    >>> from assay.neural import Network
    >>> Network([Activation("relu")], (3,)).forward([[-1.0, 0.0, 2.0]]).tolist()
    [[0.0, 0.0, 2.0]]
    """

    function: str = "relu"

    state: ClassVar[Specs] = {"function": one_of(*NAMES)}

    def forward(self, x: Array, values: Sequence[Array], work: Workspace) -> Array:
        """g(x)."""
        out = work.array("out", x.shape, x.dtype)
        np.copyto(out, x)
        run(self.function, out, EMPTY[x.dtype.name])
        work.kept = out
        return out

    def backward(self, dy: Array, values: Sequence[Array], gradients: Sequence[Array], work: Workspace) -> Array:
        """dy g'(x)."""
        undo(self.function, dy, work.kept, EMPTY[dy.dtype.name], work)
        return dy

    @classmethod
    def examples(cls) -> list[tuple[Layer, Shape]]:
        """One of each, and images."""
        return [*((cls(name), (4,)) for name in NAMES), (cls("tanh"), (2, 3, 2))]


def run(name: str, z: Array, bias: Array) -> None:
    """z <- g(z + bias) along the last axis."""
    rows = z.reshape(-1, z.shape[-1])
    activate(rows, bias, ACTIVATIONS.get(name, 0))
    if name == "softmax":
        softmax(rows)


def undo(name: str, dy: Array, y: Array, bias: Array, work: Workspace) -> None:
    """dy <- dy g'(z); its sums over the rows are the bias's gradient, where there is one."""
    if name == "softmax":
        dy -= (dy * y).sum(axis=-1, keepdims=True)
        dy *= y
    elif name != "identity":
        differentiate(dy.reshape(-1), y.reshape(-1), ACTIVATIONS[name])
    if bias.size:
        rows = dy.reshape(-1, dy.shape[-1])
        np.dot(work.ones(len(rows), dy.dtype), rows, out=bias)


@dataclass(frozen=True)
class Dense(Layer):
    """Every unit from every input: y = g(x W + b), with (p + 1) k parameters; images are taken as one long row.

    | parameter  | default    | range                                | meaning                             |
    |------------|------------|--------------------------------------|-------------------------------------|
    | units      |            | from 1 on                            | k                                   |
    | activation | "identity" | "relu", "sigmoid", "tanh", "softmax" | g                                   |
    | bias       | True       | True, False                          | whether there is a b                |
    | penalty    | None       | `Penalty`                            | of this layer, beside the network's |

    >>> from assay.neural import Network
    >>> Network([Dense(3, "relu"), Dense(1)], (4,)).n_parameters
    19
    """

    units: int
    activation: str = "identity"
    bias: bool = True
    penalty: Penalty | None = None

    state: ClassVar[Specs] = {
        "units": integer(1, LARGEST),
        "activation": one_of(*NAMES),
        "bias": boolean,
        "penalty": part(Penalty) | none,
    }

    def output_shape(self, shape: Shape) -> Shape:
        """(k,)."""
        check_rows(self, shape)
        return (self.units,)

    def parameters(self, shape: Shape) -> tuple[Parameter, ...]:
        """W and b."""
        p = prod(shape)
        weights = Parameter("weights", (p, self.units), "weights", p, self.units, relu=self.activation == "relu")
        return (weights, Parameter("bias", (self.units,), "bias")) if self.bias else (weights,)

    def forward(self, x: Array, values: Sequence[Array], work: Workspace) -> Array:
        """g(x W + b)."""
        rows = x if x.ndim == 2 else x.reshape(len(x), -1)
        out = work.array("out", (len(x), self.units), x.dtype)
        np.dot(rows, values[0], out=out)
        bias = values[1] if self.bias else EMPTY[x.dtype.name]
        activate(out, bias, ACTIVATIONS.get(self.activation, 0))
        if self.activation == "softmax":
            softmax(out)
        work.kept = rows, out, x.shape
        return out

    def backward(self, dy: Array, values: Sequence[Array], gradients: Sequence[Array], work: Workspace) -> Array:
        """dW = x' dz, db = sum dz, dx = dz W'."""
        x, out, shape = work.kept
        bias = gradients[1] if self.bias else EMPTY[dy.dtype.name]
        undo(self.activation, dy, out, bias, work)
        np.dot(x.T, dy, out=gradients[0])
        if work.first:
            return dy
        dx = work.array("dx", x.shape, x.dtype)
        np.dot(dy, values[0].T, out=dx)
        return dx.reshape(shape)

    @classmethod
    def examples(cls) -> list[tuple[Layer, Shape]]:
        """With and without bias, on rows and on images."""
        some = [cls(3, name) for name in NAMES]
        return [*((layer, (4,)) for layer in some), (cls(2, "tanh", bias=False), (4,)), (cls(2), (2, 3, 2))]


@dataclass(frozen=True)
class Flatten(Layer):
    """Images as rows of numbers: rows, columns, channels in this order.

    >>> Flatten().output_shape((5, 4, 3))
    (60,)
    """

    def output_shape(self, shape: Shape) -> Shape:
        """The product of all sizes."""
        check_rows(self, shape)
        return (prod(shape),)

    def forward(self, x: Array, values: Sequence[Array], work: Workspace) -> Array:
        """The same numbers."""
        work.kept = x.shape
        return x.reshape(len(x), -1)

    def backward(self, dy: Array, values: Sequence[Array], gradients: Sequence[Array], work: Workspace) -> Array:
        """The same numbers."""
        return dy.reshape(work.kept)

    @classmethod
    def examples(cls) -> list[tuple[Layer, Shape]]:
        """Images."""
        return [(cls(), (2, 3, 2))]


@dataclass(frozen=True)
class Dropout(Layer):
    """In training each number is 0 with probability `rate`, else divided by 1 - rate; its mean is what it was.

    | parameter | default | range  | meaning                                                         |
    |-----------|---------|--------|-----------------------------------------------------------------|
    | rate      | 0.5     | [0, 1) | probability to be dropped; on inputs when it is the first layer |

    Srivastava et al. (2014), JMLR 15, 1929-1958.

    >>> Dropout(0.2).output_shape((5,))
    (5,)
    """

    rate: float = 0.5

    state: ClassVar[Specs] = {"rate": real(0, 1, open_high=True)}

    def forward(self, x: Array, values: Sequence[Array], work: Workspace) -> Array:
        """x in prediction, a random part of it in training."""
        work.kept = None
        if not work.training or self.rate == 0 or work.rng is None:
            return x
        x = np.ascontiguousarray(x)
        chance = work.array("chance", (x.size,), np.float32)
        work.rng.random(out=chance, dtype=np.float32)
        out = work.array("out", x.shape, x.dtype)
        drop(x.reshape(-1), chance, self.rate, out.reshape(-1))
        work.kept = chance
        return out

    def backward(self, dy: Array, values: Sequence[Array], gradients: Sequence[Array], work: Workspace) -> Array:
        """The same part."""
        if work.kept is not None:
            drop(dy.reshape(-1), work.kept, self.rate, dy.reshape(-1))
        return dy


@dataclass(frozen=True)
class BatchNormalization(Layer):
    """Each unit (each channel of images) to mean 0 and variance 1 over the batch, then scaled and moved as learned.

        y = gamma (x - m) / sqrt(v + epsilon) + beta

    In prediction m and v are running means of those seen in training. A batch is then worked on in one piece, on one
    thread, since every row depends on all others; weights of rows do not enter m and v.

    | parameter | default | range   | meaning                                  |
    |-----------|---------|---------|------------------------------------------|
    | momentum  | 0.9     | [0, 1)  | share of the running values that is kept |
    | epsilon   | 1e-5    | above 0 | added to the variance                    |

    Ioffe, Szegedy (2015), ICML.

    >>> from assay.neural import Network
    >>> Network([BatchNormalization()], (8, 8, 3)).n_parameters
    6
    """

    momentum: float = 0.9
    epsilon: float = 1e-5

    state: ClassVar[Specs] = {"momentum": real(0, 1, open_high=True), "epsilon": real(0, 1, open_low=True)}

    def output_shape(self, shape: Shape) -> Shape:
        """As it was."""
        check_rows(self, shape)
        return shape

    def parameters(self, shape: Shape) -> tuple[Parameter, ...]:
        """gamma and beta."""
        k = shape[-1]
        return Parameter("gamma", (k,), "scale", start=1.0), Parameter("beta", (k,), "bias")

    def n_statistics(self, shape: Shape) -> int:
        """Running means, and running variances less one, so that both begin at 0."""
        return 2 * shape[-1]

    def forward(self, x: Array, values: Sequence[Array], work: Workspace) -> Array:
        """Normalised."""
        k = x.shape[-1]
        running = work.statistics.reshape(2, k)
        if work.training:
            mean, variance = work.array("mean", (k,), np.float64), work.array("variance", (k,), np.float64)
            moments_of(np.ascontiguousarray(x).reshape(-1, k), mean, variance)
            running *= self.momentum
            running[0] += (1 - self.momentum) * mean
            running[1] += (1 - self.momentum) * (variance - 1)
        else:
            mean, variance = running[0], running[1] + 1
        scale = (1 / np.sqrt(variance + self.epsilon)).astype(x.dtype)
        normal = work.array("normal", x.shape, x.dtype)
        np.subtract(x, mean.astype(x.dtype), out=normal)
        normal *= scale
        out = work.array("out", x.shape, x.dtype)
        np.multiply(normal, values[0], out=out)
        out += values[1]
        work.kept = normal, scale
        return out

    def backward(self, dy: Array, values: Sequence[Array], gradients: Sequence[Array], work: Workspace) -> Array:
        """dx = gamma scale (dy - mean(dy) - x mean(dy x)) with x normalised."""
        normal, scale = work.kept
        axes = tuple(range(dy.ndim - 1))
        gradients[0][:] = (dy * normal).sum(axis=axes)
        gradients[1][:] = dy.sum(axis=axes)
        if work.training:
            n = dy.size // dy.shape[-1]
            dy = dy - gradients[1] / n - normal * (gradients[0] / n)
        return np.ascontiguousarray(dy * (values[0] * scale))

    @classmethod
    def examples(cls) -> list[tuple[Layer, Shape]]:
        """Units and channels."""
        return [(cls(), (3,)), (cls(momentum=0.5), (2, 3, 2))]


@dataclass(frozen=True)
class Residual(Layer):
    """A way around some layers: y = x + h(x), so that gradients reach what stands before.

    | parameter | default | range                                               | meaning |
    |-----------|---------|-----------------------------------------------------|---------|
    | layers    |         | list of layers whose output is of the input's shape | h       |

    He, Zhang, Ren, Sun (2016), CVPR.

    >>> from assay.neural import Network
    >>> Network([Residual([Dense(4, "relu"), Dense(4)])], (4,)).n_parameters
    40
    """

    layers: Any

    state: ClassVar[Specs] = {"layers": several(part(Layer), kind=tuple)}

    def __post_init__(self) -> None:
        if isinstance(self.layers, list | tuple):
            object.__setattr__(self, "layers", tuple(self.layers))
        good = isinstance(self.layers, tuple) and self.layers and all(isinstance(one, Layer) for one in self.layers)
        if not good:
            what = f"Residual: layers = {self.layers!r} is out of range"
            raise ParameterError(what, remedy="it must be a list of at least one layer")

    def _check_state(self) -> None:
        need(isinstance(self.layers, tuple) and self.layers and all(isinstance(one, Layer) for one in self.layers))

    def _shapes(self, shape: Shape) -> list[Shape]:
        shapes = [shape]
        for layer in self.layers:
            shapes.append(layer.output_shape(shapes[-1]))
        return shapes

    def output_shape(self, shape: Shape) -> Shape:
        """That of the input."""
        out = self._shapes(shape)[-1]
        if out != shape:
            what = f"its layers change the shape {shape} to {out}, so the two cannot be added"
            raise ParameterError(what, remedy='keep the shape, with padding="same" or as many units as inputs')
        return shape

    def parameters(self, shape: Shape) -> tuple[Parameter, ...]:
        """Those of its layers, one after another."""
        pairs = zip(self.layers, self._shapes(shape), strict=False)
        return tuple(one for layer, at in pairs for one in layer.parameters(at))

    def penalties(self, shape: Shape) -> tuple[Penalty | None, ...]:
        """Those of its layers, one after another."""
        pairs = zip(self.layers, self._shapes(shape), strict=False)
        return tuple(one for layer, at in pairs for one in layer.penalties(at))

    def n_statistics(self, shape: Shape) -> int:
        """Those of its layers."""
        return sum(layer.n_statistics(at) for layer, at in zip(self.layers, self._shapes(shape), strict=False))

    def work(self, shape: Shape) -> int:
        """Those of its layers."""
        return sum(layer.work(at) for layer, at in zip(self.layers, self._shapes(shape), strict=False))

    def _split(self, arrays: Sequence[Array], shape: Shape) -> list[Sequence[Array]]:
        parts, at = [], 0
        for layer, before in zip(self.layers, self._shapes(shape), strict=False):
            count = len(layer.parameters(before))
            parts.append(arrays[at : at + count])
            at += count
        return parts

    def _prepare(self, work: Workspace, shape: Shape) -> None:
        """Workspaces for the layers inside; their running values are parts of ours."""
        at = 0
        for layer, before in zip(self.layers, self._shapes(shape), strict=False):
            inner = Workspace(work.rng, training=work.training)
            count = layer.n_statistics(before)
            inner.statistics = work.statistics[at : at + count]
            at += count
            work.inner.append(inner)

    def forward(self, x: Array, values: Sequence[Array], work: Workspace) -> Array:
        """x + h(x)."""
        shape = x.shape[1:]
        if not work.inner:
            self._prepare(work, shape)
        work.kept = self._split(values, shape)
        y = x
        for layer, own, inner in zip(self.layers, work.kept, work.inner, strict=True):
            y = layer.forward(y, own, inner)
        out = work.array("out", x.shape, x.dtype)
        return np.add(x, y, out=out)

    def backward(self, dy: Array, values: Sequence[Array], gradients: Sequence[Array], work: Workspace) -> Array:
        """dy and what comes back through h."""
        kept = work.array("dy", dy.shape, dy.dtype)
        np.copyto(kept, dy)
        steps = list(zip(self.layers, work.kept, self._split(gradients, dy.shape[1:]), work.inner, strict=True))
        for layer, own, slopes, inner in reversed(steps):
            dy = layer.backward(dy, own, slopes, inner)
        kept += dy.reshape(kept.shape)
        return kept

    @classmethod
    def examples(cls) -> list[tuple[Layer, Shape]]:
        """Units, and what keeps running values."""
        return [(cls([Dense(5, "tanh"), Dense(3)]), (3,)), (cls([BatchNormalization(), Activation("sigmoid")]), (3,))]
