"""A network: layers one after another, all parameters in one vector, and the gradient of a loss by back-propagation.

    f(x) = h_L(... h_2(h_1(x; theta_1); theta_2) ...; theta_L)

The forward pass keeps each layer's output; the backward pass carries dL/dz from the last layer to the first and leaves
each layer's share of dL/dtheta in one vector (the chain rule, read from the outside in). For one hidden layer and
squared error these are the lecture notes': dL/dbeta_m = -(y - f) g(z_m), dL/dw_mj = -(y - f) beta_m g'(z_m) x_j.

A dense network of p inputs, hidden layers of K1 and K2 units and O outputs has (p + 1) K1 + (K1 + 1) K2 + (K2 + 1) O
parameters. Weights start from Glorot's or He's distribution, biases at zero. Cost: about three forward passes for a
gradient, whatever the number of parameters.

Rumelhart, Hinton, Williams (1986), Nature 323; Glorot, Bengio (2010), AISTATS; He et al. (2015), ICCV.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from assay.constraints import none, one_of, seed
from assay.errors import DataError, ParameterError
from assay.neural.layers import Layer, Parameter, Shape, Workspace
from assay.neural.losses import LOSSES, Loss
from assay.neural.results import GradientCheck, NetworkSummary
from assay.numerics.seeds import generator
from assay.state import Specs, Stateful, array, need

__all__ = ["Network", "NetworkPlan", "Pass", "Step", "loss_named"]

Array = np.ndarray
LARGEST = 2**40
"""No network may have more parameters."""
WIDEST = 2**28
"""No layer may give more numbers for one row: a gigabyte in single precision."""


def loss_named(loss: Any) -> Loss:
    """A loss by its name, or as it is."""
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str) or loss not in LOSSES:
        raise ParameterError(f"unknown loss = {loss!r}", remedy=f"use one of {', '.join(map(repr, LOSSES))}")
    return LOSSES[loss]


# What is computed, in which order, and where each layer's numbers stand.


@dataclass(frozen=True)
class Step:
    """A layer (or two in one) at its place: its shapes, and its parts of the parameter vector and running values."""

    layer: Layer
    at: int
    input_shape: Shape
    output_shape: Shape
    parameters: tuple[Parameter, ...]
    starts: tuple[int, ...]
    statistics: slice

    @property
    def n_parameters(self) -> int:
        """How many numbers it learns."""
        return sum(prod(one.shape) for one in self.parameters)

    def views(self, vector: Array) -> tuple[Array, ...]:
        """Its arrays inside a vector of all parameters."""
        pairs = zip(self.parameters, self.starts, strict=True)
        return tuple(vector[start : start + prod(one.shape)].reshape(one.shape) for one, start in pairs)


class NetworkPlan:
    """The steps of a network; `fused` joins layers that are quicker together."""

    def __init__(self, layers: Sequence[Layer], input_shape: Shape, *, fused: bool = False) -> None:
        self.steps: list[Step] = []
        shape, at, seen, position = tuple(input_shape), 0, 0, 0
        while position < len(layers):
            layer, width = layers[position], 1
            joined = layer.absorb(layers[position + 1]) if fused and position + 1 < len(layers) else None
            if joined is not None:
                layer, width = joined, 2
            out, parameters, running = _shapes(layer, position, shape)
            sizes = [prod(one.shape) for one in parameters]
            starts = tuple(at + sum(sizes[:k]) for k in range(len(sizes)))
            self.steps.append(Step(layer, position, shape, out, parameters, starts, slice(seen, seen + running)))
            shape, at, seen, position = out, at + sum(sizes), seen + running, position + width
            if at > LARGEST or prod(shape) > WIDEST:
                what = f"layer {position} makes the network too large: {at:,} parameters, output of shape {shape}"
                raise ParameterError(what, remedy="use fewer units or filters, or pool first")
        self.output_shape, self.n_parameters, self.n_statistics = shape, at, seen

    def arrays(self) -> Iterator[tuple[Step, Parameter, int]]:
        """Every array that is learned, with its step and where it begins."""
        for step in self.steps:
            yield from ((step, one, start) for one, start in zip(step.parameters, step.starts, strict=True))

    @property
    def whole_batches(self) -> bool:
        """Whether rows of a batch depend on each other."""
        return self.n_statistics > 0

    @property
    def work(self) -> int:
        """Multiply-adds of one row's forward pass, roughly."""
        return sum(step.layer.work(step.input_shape) for step in self.steps)

    @property
    def widest(self) -> int:
        """Numbers of one row in the widest place."""
        return max([prod(self.output_shape), *(prod(step.input_shape) for step in self.steps)])


def _shapes(layer: Layer, position: int, shape: Shape) -> tuple[Shape, tuple[Parameter, ...], int]:
    try:
        return layer.output_shape(shape), layer.parameters(shape), layer.n_statistics(shape)
    except ParameterError as error:
        name = type(layer).__name__.lstrip("_")
        what = f"layer {position + 1} ({name}) with input of shape {shape}: {error.what}"
        raise ParameterError(what, remedy=error.remedy) from error


class Pass:
    """One thread's way through a network, forward and back, with scratch arrays of its own.

    | parameter  | default | meaning                                     |
    |------------|---------|---------------------------------------------|
    | plan       |         | the steps                                   |
    | theta      |         | all parameters                              |
    | statistics |         | running values; renewed in training         |
    | gradient   | None    | a vector like theta that `backward` fills   |
    | rng        | None    | for dropout; None drops nothing             |
    | training   | False   | whether this is a pass of training          |
    | inputs     | False   | whether the gradient of the input is wanted |
    """

    def __init__(
        self,
        plan: NetworkPlan,
        theta: Array,
        statistics: Array,
        *,
        gradient: Array | None = None,
        rng: np.random.Generator | None = None,
        training: bool = False,
        inputs: bool = False,
    ) -> None:
        self.steps: list[tuple[Layer, tuple[Array, ...], tuple[Array, ...], Workspace]] = []
        learned = inputs
        for step in plan.steps:
            work = Workspace(rng, training=training, first=not learned)
            work.statistics = statistics[step.statistics]
            slopes = () if gradient is None else step.views(gradient)
            self.steps.append((step.layer, step.views(theta), slopes, work))
            learned = learned or bool(step.parameters)
        self._back = [step for step in reversed(self.steps) if inputs or step[1] or not step[3].first]
        self._scratch = Workspace()

    def forward(self, x: Array) -> Array:
        """The output, in an array that the next call overwrites."""
        for layer, values, _, work in self.steps:
            x = layer.forward(x, values, work)
        return x

    def backward(self, dz: Array) -> Array:
        """Fill the gradient from that of the output; return that of the input, if asked for."""
        for layer, values, slopes, work in self._back:
            dz = layer.backward(dz, values, slopes, work)
        return dz

    def value(self, x: Array, y: Array, w: Array, unit: float, loss: Loss) -> float:
        """Loss of a batch; its gradient is left in the vector."""
        z = self.forward(x)
        dz = self._scratch.array("dz", z.shape, z.dtype)
        total = loss.value(z, y, w, unit, dz)
        self.backward(dz)
        return total

    def outputs(self, x: Array) -> Iterator[Array]:
        """The output of each step in turn."""
        for layer, values, _, work in self.steps:
            x = layer.forward(x, values, work)
            yield x


class Network(Stateful):
    """Layers, an input shape, and the parameters in one vector.

    | parameter      | default   | range                             | meaning                                 |
    |----------------|-----------|-----------------------------------|-----------------------------------------|
    | layers         |           | list of layers                    | from the input to the output            |
    | input_shape    |           | (p,) or (rows, columns, channels) | shape of one row                        |
    | initialisation | "auto"    | "auto", "glorot", "he"            | "auto": He's before ReLU, else Glorot's |
    | dtype          | "float32" | "float32", "float64"              | of parameters and arithmetic            |
    | random_state   | None      | seed                              | of the initial weights                  |

    Attributes: `parameters_` (all of them in one vector), `statistics_` (running values of batch normalisation),
    `n_parameters`, `output_shape`. Both vectors are made when they are first needed and may be written into;
    `arrays()` gives them by layer and name.

    >>> from assay.neural import Dense
    >>> network = Network([Dense(5, "sigmoid"), Dense(3, "relu"), Dense(2)], input_shape=(4,), random_state=0)
    >>> network.n_parameters == (4 + 1) * 5 + (5 + 1) * 3 + (3 + 1) * 2
    True
    >>> print(network.summary())
    Network of 3 layers, input (4,)
    -----------------------------------
    layer            output  parameters
    1 Dense sigmoid  (5,)            25
    2 Dense relu     (3,)            18
    3 Dense          (2,)             8
    -----------------------------------
    51 parameters (204 bytes)
    """

    state: ClassVar[Specs] = {
        "parameters_": array(np.float32, "m") | array(np.float64, "m"),
        "statistics_": array(np.float64, "s"),
    }

    def __init__(
        self,
        layers: Sequence[Layer],
        input_shape: Sequence[int],
        *,
        initialisation: str = "auto",
        dtype: str = "float32",
        random_state: Any = None,
    ) -> None:
        # A model file calls this with anything, so nothing is made before it has been checked.
        self.layers = layers
        self.input_shape = input_shape
        self.initialisation = initialisation
        self.dtype = dtype
        self.random_state = random_state

    def _check_parameters(self) -> None:
        ranges = {
            "initialisation": one_of("auto", "glorot", "he"),
            "dtype": one_of("float32", "float64"),
            "random_state": seed | none,
        }
        for name, constraint in ranges.items():
            if not constraint.accepts(getattr(self, name)):
                what = f"Network: {name} = {getattr(self, name)!r} is out of range"
                raise ParameterError(what, remedy=f"it must be {constraint.words}")
        if not isinstance(self.layers, list | tuple) or not all(isinstance(one, Layer) for one in self.layers):
            raise ParameterError(
                "layers is not a list of layers", remedy="pass for instance [Dense(3, 'relu'), Dense(1)]"
            )
        shape = self.input_shape
        whole = isinstance(shape, list | tuple) and shape and all(isinstance(k, int | np.integer) for k in shape)
        if not whole or not all(1 <= k < 2**31 for k in shape):
            what = f"input_shape = {shape!r} is not a shape"
            raise ParameterError(what, remedy="pass (columns,) or (rows, columns, channels)")

    def _check_state(self) -> None:
        need(self.parameters_.size == self.n_parameters, "its layers have the wrong number of parameters")
        need(self.statistics_.size == self.plan.n_statistics, "its layers have the wrong number of running values")
        need(self.parameters_.dtype == self.dtype, "its parameters have the wrong dtype")

    def __repr__(self) -> str:
        return f"Network({self.layers!r}, input_shape={self.input_shape!r})"

    @property
    def plan(self) -> NetworkPlan:
        """The steps, layer by layer."""
        self._check_parameters()
        return NetworkPlan(list(self.layers), tuple(int(k) for k in self.input_shape))

    @property
    def n_parameters(self) -> int:
        """How many numbers are learned."""
        return self.plan.n_parameters

    @property
    def output_shape(self) -> Shape:
        """Shape of one row of output."""
        return self.plan.output_shape

    # Parameters.

    def initialize(self, given: Sequence[Any] | None = None, random_state: Any = None) -> Network:
        """Draw initial weights, or take `given` arrays (weights, bias, weights, bias, ... in the layers' order)."""
        rng = generator(self.random_state if random_state is None else random_state)
        theta = np.empty(self.n_parameters, dtype=self.dtype)
        arrays = list(self.plan.arrays())
        if given is not None and len(given) != len(arrays):
            what = f"the network has {len(arrays)} arrays of parameters, but {len(given)} are given"
            raise ParameterError(what, remedy="pass one array for each entry of network.arrays()")
        for k, (step, one, start) in enumerate(arrays):
            view = theta[start : start + prod(one.shape)].reshape(one.shape)
            if given is None:
                view[...] = self._draw(one, rng)
            elif np.shape(given[k]) != one.shape:
                where = f"{one.name} of layer {step.at + 1} ({type(step.layer).__name__})"
                what = f"{where} has the shape {one.shape}, but {np.shape(given[k])} was given"
                raise ParameterError(what, remedy="give every array its shape in network.arrays()")
            else:
                view[...] = given[k]
        self.parameters_, self.statistics_ = theta, np.zeros(self.plan.n_statistics)
        return self

    def _draw(self, one: Parameter, rng: np.random.Generator) -> Any:
        if one.kind != "weights":
            return one.start
        he = self.initialisation == "he" or (self.initialisation == "auto" and one.relu)
        if he:
            return rng.standard_normal(one.shape) * np.sqrt(2.0 / one.fan_in)
        limit = np.sqrt(6.0 / (one.fan_in + one.fan_out))
        return rng.uniform(-limit, limit, one.shape)

    def _ready(self) -> None:
        if not hasattr(self, "parameters_"):
            self.initialize()

    def arrays(self) -> dict[str, Array]:
        """Every learned array by layer and name, as views of the parameter vector."""
        self._ready()
        views = {}
        for step, one, start in self.plan.arrays():
            name = f"{step.at + 1} {type(step.layer).__name__} {one.name}"
            while name in views:
                name += "'"  # a residual layer holds several of one name
            views[name] = self.parameters_[start : start + prod(one.shape)].reshape(one.shape)
        return views

    # Passes.

    def rows(self, X: Any) -> Array:
        """Rows as an array of the network's type and input shape; flat rows are folded into images."""
        try:
            x = np.asarray(X, dtype=self.dtype)
        except (TypeError, ValueError) as error:
            raise DataError("X is not an array of numbers", remedy="encode text, and give equal lengths") from error
        shape = tuple(self.input_shape)
        if x.ndim >= 1 and x.shape[1:] != shape and x.size == len(x) * prod(shape):
            x = x.reshape(len(x), *shape)
        if x.shape[1:] != shape or x.ndim < 2:
            what = f"the network takes rows of shape {shape}, but X has the shape {x.shape}"
            raise DataError(what, remedy="reshape X, or build the network for this input_shape")
        if len(x) == 0:
            raise DataError("the batch is empty", remedy="pass at least one row")
        return np.ascontiguousarray(x)

    def forward(self, X: Any) -> Array:
        """Outputs of the last layer in prediction: nothing is dropped, batch normalisation uses its running values."""
        self._ready()
        return Pass(self.plan, self.parameters_, self.statistics_).forward(self.rows(X)).copy()

    def backward(self, X: Any, output_gradient: Any) -> tuple[Array, Array]:
        """Gradients of all parameters (one vector) and of X, given that of the output; nothing is dropped."""
        self._ready()
        slope = np.zeros_like(self.parameters_)
        run = Pass(self.plan, self.parameters_, self.statistics_.copy(), gradient=slope, training=True, inputs=True)
        z = run.forward(self.rows(X))
        dz = np.array(output_gradient, dtype=self.dtype, order="C")
        if dz.shape != z.shape:
            what = f"the output has the shape {z.shape}, but its gradient {dz.shape}"
            raise DataError(what, remedy="pass one number for each output")
        dx = run.backward(dz)
        return slope, np.array(dx).reshape(-1, *self.input_shape)

    def loss(self, X: Any, y: Any, loss: Any = "squared") -> float:
        """Mean loss of rows, as in training but without dropout."""
        return self.loss_and_gradient(X, y, loss)[0]

    def loss_and_gradient(self, X: Any, y: Any, loss: Any = "squared") -> tuple[float, Array]:
        """Mean loss of rows and its gradient, one number for each parameter."""
        self._ready()
        loss, x = loss_named(loss), self.rows(X)
        slope = np.zeros_like(self.parameters_)
        run = Pass(self.plan, self.parameters_, self.statistics_.copy(), gradient=slope, training=True)
        target = _targets(y, len(x), self.output_shape, loss, self.dtype)
        return run.value(x, target, np.empty(0, self.dtype), 1.0 / len(x), loss), slope

    def feature_maps(self, X: Any, layer: int = 0) -> Array:
        """Output of one layer (counted from 0) for rows of X."""
        self._ready()
        if not -len(self.layers) <= layer < len(self.layers):
            what = f"layer = {layer} is out of range"
            raise ParameterError(what, remedy=f"the network has layers 0 to {len(self.layers) - 1}")
        run = Pass(self.plan, self.parameters_, self.statistics_)
        wanted = layer % len(self.layers)
        return next(out.copy() for k, out in enumerate(run.outputs(self.rows(X))) if k == wanted)

    def summary(self) -> NetworkSummary:
        """Layers with their output shapes and numbers of parameters."""
        words = tuple(_words(step.layer) for step in self.plan.steps)
        shapes = tuple(step.output_shape for step in self.plan.steps)
        counts = tuple(step.n_parameters for step in self.plan.steps)
        return NetworkSummary(tuple(int(k) for k in self.input_shape), words, shapes, counts, self.dtype)

    def gradient_check(
        self, X: Any, y: Any, loss: Any = "squared", *, step: float = 1e-5, n_checked: int = 200
    ) -> GradientCheck:
        """Back-propagation against central differences, in double precision.

        | parameter | default   | meaning                                                                       |
        |-----------|-----------|-------------------------------------------------------------------------------|
        | X, y      |           | a few rows                                                                    |
        | loss      | "squared" | name or `Loss`                                                                |
        | step      | 1e-5      | half the distance of the two losses                                           |
        | n_checked | 200       | parameters of each layer that are tried, at random; all where there are fewer |
        """
        self._ready()
        twin = Network(self.layers, self.input_shape, dtype="float64")
        twin.parameters_ = self.parameters_.astype(np.float64)
        twin.statistics_ = self.statistics_.copy()
        gradient = twin.loss_and_gradient(X, y, loss)[1]
        rng, names, errors, counts = np.random.default_rng(0), [], [], []
        for part in twin.plan.steps:
            if not part.parameters:
                continue
            every = np.arange(part.starts[0], part.starts[0] + part.n_parameters)
            tried = every if every.size <= n_checked else rng.choice(every, n_checked, replace=False)
            slopes = np.array([_difference(twin, X, y, loss, int(i), step) for i in tried])
            size = max(float(np.abs(slopes).max()), float(np.abs(gradient[tried]).max()), 1e-8)
            names.append(f"{part.at + 1} {_words(part.layer)}")
            errors.append(float(np.abs(slopes - gradient[tried]).max()) / size)
            counts.append(len(tried))
        return GradientCheck(tuple(names), tuple(errors), tuple(counts))


def _difference(network: Network, X: Any, y: Any, loss: Any, i: int, step: float) -> float:
    theta, kept = network.parameters_, network.parameters_[i]
    sides = []
    for way in (step, -step):
        theta[i] = kept + way
        sides.append(network.loss(X, y, loss))
    theta[i] = kept
    return (sides[0] - sides[1]) / (2 * step)


def _targets(y: Any, n: int, shape: Shape, loss: Loss, dtype: str) -> Array:
    target = np.asarray(y, dtype=dtype).reshape(n, -1) if np.size(y) and len(np.atleast_1d(y)) == n else None
    width = 1 if loss.fused == "softmax" else prod(shape)
    if target is None or target.shape[1] != width or len(shape) != 1:
        what = f"the loss compares outputs of shape {(n, *shape)} with a target of shape {np.shape(y)}"
        raise DataError(what, remedy=f"give {n} rows of {width} numbers each, and end the network with Dense")
    if loss.fused == "softmax" and (target.min() < 0 or target.max() >= shape[0] or (target % 1).any()):
        raise DataError(
            f"class codes are not from 0 to {shape[0] - 1}", remedy="pass np.unique(y, return_inverse=True)[1]"
        )
    return np.ascontiguousarray(target)


def _words(layer: Layer) -> str:
    """A layer in a few words: its class and its activation."""
    name = getattr(layer, "activation", getattr(layer, "function", "identity"))
    return type(layer).__name__ + ("" if name == "identity" else f" {name}")
