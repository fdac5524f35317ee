"""What the classifier and the regressor share: settings, standardised rows, layers, and the way to a fitted network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from assay.base import (
    Constraint,
    Estimator,
    boolean,
    from_lists,
    instance_of,
    integer,
    jobs,
    none,
    one_of,
    real,
    seed,
)
from assay.callbacks import fit_task
from assay.errors import DataError, ParameterError
from assay.neural.checkpoints import Checkpoint, digest
from assay.neural.convolution import Conv2D
from assay.neural.images import Augmentation, filters_of, maps_of
from assay.neural.layers import NAMES, Activation, Dense, Dropout, Layer, Residual
from assay.neural.losses import Loss
from assay.neural.network import Network, NetworkPlan
from assay.neural.optimizers import OPTIMIZERS, SCHEDULES, Optimizer, Schedule
from assay.neural.penalties import Penalty
from assay.neural.results import FeatureMaps, Filters, StepSizes, TrainingTrace
from assay.neural.training import Recipe, Trainer, TrainingRows, forward_rows, train
from assay.numerics.scale import power_of_two
from assay.numerics.seeds import seed_sequence
from assay.state import Specs, floats, left_out, need, part, several, size

__all__ = ["NeuralNetwork", "center_and_scale"]

Array = np.ndarray
FARTHEST = 1e12
"""Standardised inputs beyond this are taken as this: single precision ends at 3e38."""
UPDATES, EPOCHS = 3000, 50
"""What max_epochs="auto" aims at: so many updates, in no fewer epochs."""
ROWS = 512
"""Rows that are standardised at a time."""


def _is_hidden(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(integer(1, 2**24).accepts(one) for one in value)


def _is_layers(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) > 0 and all(isinstance(one, Layer) for one in value)


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 3 and all(integer(1, 2**24).accepts(one) for one in value)


def _is_path(value: Any) -> bool:
    return isinstance(value, os.PathLike) or (isinstance(value, str) and value != "")


class NeuralNetwork(Estimator):
    """Root of the classifier and the regressor."""

    constraints: ClassVar[dict[str, Constraint]] = {
        "hidden": Constraint(_is_hidden, "a tuple of numbers of units, such as (64, 32)"),
        "layers": none | Constraint(_is_layers, "a list of layers"),
        "activation": one_of(*[name for name in NAMES if name != "softmax"]),
        "image_shape": none | Constraint(_is_shape, "(rows, columns, channels)"),
        "alpha": real(0),
        "penalty": none | instance_of(Penalty, "a Penalty"),
        "dropout": real(0, 1, open_high=True),
        "input_dropout": real(0, 1, open_high=True),
        "optimizer": one_of(*OPTIMIZERS) | instance_of(Optimizer, "an optimizer"),
        "learning_rate": real(0, open_low=True),
        "schedule": one_of(*SCHEDULES) | instance_of(Schedule, "a schedule"),
        "clip": none | real(0, open_low=True),
        "batch_size": one_of("auto", "full") | integer(1),
        "sampling": one_of("epoch", "replacement"),
        "max_epochs": one_of("auto") | integer(1),
        "tol": real(0),
        "patience": integer(1),
        "early_stopping": boolean,
        "validation_fraction": real(0, 1, open_low=True, open_high=True),
        "n_starts": integer(1),
        "standardize": boolean,
        "augment": none | instance_of(Augmentation, "an Augmentation"),
        "initialisation": one_of("auto", "glorot", "he"),
        "dtype": one_of("float32", "float64"),
        "warm_start": boolean,
        "checkpoint": none | Constraint(_is_path, "the path of a file"),
        "random_state": seed,
        "n_jobs": jobs,
    }
    state: ClassVar[Specs] = {
        "network_": part(Network),
        "trace_": part(TrainingTrace),
        "starts_": several(real()),
        "n_iter_": size(None),
        "_mean": floats("p"),
        "_scale": floats("p", low=0),
        "_memory": left_out(),
    }
    fit_steps = "epoch"
    hidden: Any
    layers: Any
    activation: str
    image_shape: Any
    alpha: float
    penalty: Penalty | None
    dropout: float
    input_dropout: float
    optimizer: Any
    learning_rate: float
    schedule: Any
    clip: float | None
    batch_size: Any
    sampling: str
    max_epochs: Any
    tol: float
    patience: int
    early_stopping: bool
    validation_fraction: float
    n_starts: int
    standardize: bool
    augment: Augmentation | None
    initialisation: str
    dtype: str
    warm_start: bool
    checkpoint: Any
    random_state: Any
    n_jobs: int | None
    network_: Network
    _memory: Any

    def _check_state(self) -> None:
        need(prod(self.network_.input_shape) == self.n_features_in_, "the network takes rows of another length")
        need(hasattr(self.network_, "parameters_"), "the network has no parameters")

    # Rows in, rows out.

    def _flat(self, X: Any, *, reset: bool) -> tuple[Any, tuple[int, ...] | None]:
        """Images as flat rows, and their shape; a table as it is, and None."""
        array = X if hasattr(X, "ndim") and hasattr(X, "reshape") else None
        if array is None and isinstance(X, list | tuple):
            array = from_lists(X)
        if array is None or array.ndim <= 2:
            return X, None
        if array.ndim != 4:
            what = f"X has the shape {array.shape}: Found array with dim {array.ndim}, expected images with channels"
            raise DataError(
                what, remedy="pass (n, rows, columns, channels); X[..., None] adds a channel, X[None] a single image"
            )
        shape = tuple(int(k) for k in array.shape[1:])
        if not reset and shape != tuple(self.network_.input_shape):
            what = f"X contains images of shape {shape}, but fit saw {tuple(self.network_.input_shape)}"
            raise DataError(what, remedy="pass images of the same shape as in fit")
        return array.reshape(len(array), -1), shape

    def _shape_of(self, images: tuple[int, ...] | None, p: int) -> tuple[int, ...]:
        """Shape of one row of input: that of the images, `image_shape`, or (p,)."""
        given = None if self.image_shape is None else tuple(int(k) for k in self.image_shape)
        if images is not None and given is not None and images != given:
            what = f"image_shape = {given}, but X contains images of shape {images}"
            raise DataError(what, remedy="leave image_shape out")
        if given is not None and prod(given) != p:
            what = f"image_shape = {given} has {prod(given)} numbers, but rows of X have {p}"
            raise DataError(what, remedy="pass (rows, columns, channels) of the flattened images")
        shape = images or given or (p,)
        if self.augment is not None and len(shape) != 3 and (self.augment.shift or self.augment.flip):
            raise ParameterError("augment shifts or flips images, but X is a table", remedy="pass image_shape=...")
        return shape

    def _standardize(self, X: Array, shape: tuple[int, ...]) -> None:
        """Mean and standard deviation of each column; of each channel of images."""
        self._mean, self._scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if self.standardize:
            grouped = X.reshape(-1, shape[-1]) if len(shape) == 3 else X
            times = X.shape[1] // grouped.shape[1]
            mean, scale = center_and_scale(grouped)
            self._mean, self._scale = np.tile(mean, times), np.tile(np.where(scale > 0, scale, 1.0), times)

    def _inputs(self, X: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        """Standardised rows in the shape and type that the network takes."""
        out = np.empty(X.shape, dtype=dtype)
        moved = self._mean.any() or (self._scale != 1).any()
        with np.errstate(over="ignore"):
            for first in range(0, len(X), ROWS):
                rows = X[first : first + ROWS]
                if moved:
                    rows = (rows - self._mean) / self._scale
                np.clip(rows, -FARTHEST, FARTHEST, out=out[first : first + ROWS], casting="unsafe")
        return out.reshape(len(X), *shape)

    def _outputs(self, X: Any) -> Array:
        """What the last layer gives for rows, float64.

        Tables are predicted in double precision, so that only the last digits (about 1e-15) depend on which rows are
        asked together; images in the precision of the network.
        """
        check_is_fitted(self, "network_")
        flat, _ = self._flat(X, reset=False)
        rows = self._validate(flat, reset=False, dtype=[np.float64, np.float32])
        network = self.network_
        shape = tuple(network.input_shape)
        theta = network.parameters_ if _convolves(network.layers) else network.parameters_.astype(np.float64)
        plan = NetworkPlan(list(network.layers), shape, fused=True)
        count = max(ROWS, 2**24 // prod(shape))
        parts = [
            forward_rows(plan, theta, network.statistics_, self._inputs(some, shape, theta.dtype), self.n_jobs)
            for some in (rows[first : first + count] for first in range(0, len(rows), count))
        ]
        with np.errstate(over="ignore"):
            return np.concatenate(parts).astype(np.float64)

    # The network and how to train it.

    def _layers(self, units: int, loss: Loss, activation: str) -> list[Layer]:
        """Hidden layers and the output layer; the loss itself applies the activation that belongs to it."""
        output = Dense(units, "identity" if activation == loss.fused else activation)
        if self.layers is not None:
            for name in ("dropout", "input_dropout"):
                if getattr(self, name):
                    raise ParameterError(
                        f"{name} cannot be combined with layers", remedy="put Dropout(...) into layers"
                    )
            return self._given(list(self.layers), output, activation)
        made: list[Layer] = [Dropout(self.input_dropout)] if self.input_dropout else []
        for k in self.hidden:
            made.append(Dense(int(k), self.activation))
            if self.dropout:
                made.append(Dropout(self.dropout))
        return [*made, output]

    def _given(self, given: list[Layer], output: Dense, activation: str) -> list[Layer]:
        """The user's layers, with the output layer they end with or one added."""
        before = given[-2] if len(given) > 1 else None
        if given[-1] == Activation(activation) and type(before) is Dense and before.activation == "identity":
            given[-2:] = [replace(before, activation=activation)]
        last = given[-1]
        if type(last) is Dense and last.units == output.units and last.activation in ("identity", activation):
            return [*given[:-1], replace(last, activation=output.activation)]
        if activation != "identity" and "softmax" in (getattr(last, "activation", ""), getattr(last, "function", "")):
            what = f"layers end with a softmax, but the output layer is Dense({output.units}, {activation!r})"
            two = "" if output.units > 1 else ", or pass binary_units=2"
            raise ParameterError(what, remedy=f"leave the softmax out, the output layer is added{two}")
        return [*given, output]

    def _recipe(self, n: int, loss: Loss, held: bool = False) -> Recipe:
        optimizer = OPTIMIZERS[self.optimizer] if isinstance(self.optimizer, str) else self.optimizer
        schedule = SCHEDULES[self.schedule] if isinstance(self.schedule, str) else self.schedule
        batch = self._batch(n, optimizer.monotone)
        if optimizer.monotone and (batch < n or self.sampling == "replacement" or held):
            what = "GradientDescent stops when the objective fails to decrease, which needs all rows in every step"
            raise ParameterError(what, remedy="use batch_size='full' without early_stopping, or GradientDescent(False)")
        updates = -(-n // batch)
        epochs = max(EPOCHS, -(-UPDATES // updates)) if self.max_epochs == "auto" else int(self.max_epochs)
        penalties = [Penalty(ridge=self.alpha / 2)] if self.alpha else []
        return Recipe(
            loss=loss,
            optimizer=optimizer,
            schedule=schedule,
            learning_rate=float(self.learning_rate),
            batch_size=batch,
            max_epochs=epochs,
            replace=self.sampling == "replacement",
            penalties=(*penalties, *([] if self.penalty is None else [self.penalty])),
            clip=None if self.clip is None else float(self.clip),
            patience=int(self.patience),
            tol=float(self.tol),
            augmentation=self.augment,
            n_jobs=self.n_jobs,
        )

    def _batch(self, n: int, monotone: bool) -> int:
        """Rows of a batch; "auto": all up to 128, else a power of two near n / 64 from 32 to 256."""
        if self.batch_size == "full" or (self.batch_size == "auto" and (n <= 128 or monotone)):
            return n
        if self.batch_size == "auto":
            return int(2 ** np.clip(np.round(np.log2(n / 64)), 5, 8))
        return min(int(self.batch_size), n)

    def _train(
        self,
        X: Array,
        shape: tuple[int, ...],
        y: Array,
        w: Array | None,
        layers: list[Layer],
        loss: Loss,
        strata: Any,
        goes_on: bool,
    ) -> None:
        """Rows to a fitted network: the held-out part, several starts, the best of them."""
        checkpoint = None if self.checkpoint is None else Checkpoint(self.checkpoint)
        drawn = not isinstance(
            self.random_state, int | np.integer
        )  # another seed each time, so that of the file counts
        entropy = checkpoint.stored_entropy() if checkpoint is not None and drawn else None
        seeds = seed_sequence(self.random_state) if entropy is None else np.random.SeedSequence(entropy)
        split, start, training = seeds.spawn(3)
        w = np.empty(0) if w is None else w / w.mean()
        rows = TrainingRows(self._inputs(X, shape, self.dtype), y.astype(self.dtype), w.astype(self.dtype))
        held = None
        if self.early_stopping:
            rows, held = _split(rows, strata, self.validation_fraction, np.random.default_rng(split))
        recipe = self._recipe(rows.n, loss, held is not None)
        before = self.network_ if goes_on else None
        firsts = start.spawn(self.n_starts)

        def make(k: int) -> Network:
            network = Network(layers, shape, initialisation=self.initialisation, dtype=self.dtype)
            if before is not None and k == 0 and _same_arrays(network, before):
                network.parameters_, network.statistics_ = before.parameters_.copy(), before.statistics_.copy()
                return network
            return network.initialize(random_state=np.random.default_rng(firsts[k]))

        if checkpoint is not None:
            parts = [rows.X, rows.y, rows.w, *([] if held is None else [held.X, held.y, held.w])]
            words = f"{recipe} {layers} {shape} {self.initialisation} {self.n_starts} {seeds.entropy}"
            checkpoint.belongs = digest(words, *parts, *([] if before is None else [before.parameters_]))
            checkpoint.entropy = int(seeds.entropy) if isinstance(seeds.entropy, int) else list(seeds.entropy or [])
        steps = self.n_starts if self.n_starts > 1 else recipe.max_epochs
        network, trace, starts, _ = train(
            make, rows, recipe, training, held=held, starts=self.n_starts, checkpoint=checkpoint,
            task=fit_task(self, steps, _attributes),
        )  # fmt: skip
        self.network_, self.trace_, self.starts_ = network, trace, [float(one) for one in starts]
        self.n_iter_ = trace.n_epochs
        self._memory = None

    def _one_epoch(self, X: Array, images: Any, y: Array, w: Array | None, layers: list[Layer], loss: Loss) -> None:
        """One more epoch on new rows, with the optimizer's memory of those before; a failure leaves the old weights."""
        if w is not None and not w.any():
            raise DataError("every row of this batch has weight 0", remedy="leave it out")
        # Seeds go on from call to call, so that each draws its own order and drops its own units.
        seeds, *before = getattr(self, "_memory", None) or (seed_sequence(self.random_state),)
        if hasattr(self, "network_"):
            network = _copy(self.network_)
        else:
            shape = self._shape_of(images, X.shape[1])
            network = Network(layers, shape, initialisation=self.initialisation, dtype=self.dtype)
            network.initialize(random_state=np.random.default_rng(seeds.spawn(1)[0]))
        shape, dtype = tuple(network.input_shape), network.dtype
        weights = np.empty(0, dtype) if w is None else (w / w.mean()).astype(dtype)
        rows = TrainingRows(self._inputs(X, shape, dtype), y.astype(dtype), weights)
        recipe = replace(self._recipe(rows.n, loss), max_epochs=10**9, patience=10**9)
        trainer = Trainer(network, rows, recipe, seeds)
        if before and before[0] == recipe.optimizer:
            trainer.memory, trainer.count = before[1].copy(), before[2]
        if hasattr(self, "trace_"):
            trainer.losses, trainer.rates = self.trace_.loss.tolist(), self.trace_.learning_rate.tolist()
        with trainer.at_work():
            trainer.advance()
        trainer.finished = "" if recipe.optimizer.monotone else trainer.finished
        trace = replace(trainer.trace(), held_out=None, message="partial_fit")
        self.network_, self.trace_, self.n_iter_ = network, trace, trace.n_epochs
        self._memory = (seeds, recipe.optimizer, trainer.memory, trainer.count)
        self.starts_ = [trace.loss[-1].item()]

    def _find(self, X: Array, y: Array, w: Array | None, layers: list[Layer], loss: Loss, sizes: Any) -> StepSizes:
        low, high, steps, shape = sizes
        fit = all(real(0, open_low=True).accepts(one) for one in (low, high)) and low < high
        if not fit or not integer(2).accepts(steps):
            what = f"low = {low!r}, high = {high!r}, steps = {steps!r} are not a valid range of step sizes"
            raise ParameterError(what, remedy="use 0 < low < high and at least 2 steps, such as low=1e-6, high=10.0")
        weights = np.empty(0, self.dtype) if w is None else (w / w.mean()).astype(self.dtype)
        rows = TrainingRows(self._inputs(X, shape, self.dtype), y.astype(self.dtype), weights)
        first, second = seed_sequence(self.random_state).spawn(2)
        network = Network(layers, shape, initialisation=self.initialisation, dtype=self.dtype)
        network.initialize(random_state=np.random.default_rng(first))
        return Trainer(network, rows, self._recipe(rows.n, loss), second).step_sizes(low, high, steps)

    # What was learned.

    def filters(self, layer: int | None = None) -> Filters:
        """Learned filters of a convolution, or weights of a dense layer on images.

        `layer` counts from 0, as in `network_.layers`, and is the first convolution where it is None; what is printed
        counts from 1, as `network_.summary()` does.
        """
        check_is_fitted(self, "network_")
        return filters_of(self.network_, layer)

    def feature_maps(self, X: Any, layer: int | None = None) -> FeatureMaps:
        """What a convolution makes of the first image of X: one map for each filter; `layer` as in `filters`."""
        check_is_fitted(self, "network_")
        flat, _ = self._flat(X, reset=False)
        rows = self._validate(flat, reset=False)[:1]
        shape = tuple(self.network_.input_shape)
        return maps_of(self.network_, rows.reshape(shape), self._inputs(rows, shape, self.dtype), layer)


def center_and_scale(X: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of each column in float64, safe at any scale; 0 for a column that is constant.

    >>> mean, scale = center_and_scale(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> mean.tolist(), scale.tolist()
    ([2.0, 5.0], [1.0, 0.0])
    """
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    unit = power_of_two(np.maximum(np.abs(low), np.abs(high)))
    total = np.zeros(X.shape[1])
    for first in range(0, len(X), ROWS):
        total += (X[first : first + ROWS] / unit).sum(axis=0)
    mean = total / len(X) * unit
    spread = power_of_two(np.maximum(high - mean, mean - low))
    squares = np.zeros(X.shape[1])
    for first in range(0, len(X), ROWS):
        squares += np.square((X[first : first + ROWS] - mean) / spread).sum(axis=0)
    scale = np.sqrt(squares / len(X)) * spread
    flat = (low == high) | (scale <= 1e-14 * np.abs(mean)) | (scale < 1e-290)
    return np.where(low == high, low, mean), np.where(flat, 0.0, scale)


def _convolves(layers: Sequence[Layer]) -> bool:
    return any(isinstance(one, Conv2D) or (isinstance(one, Residual) and _convolves(one.layers)) for one in layers)


def _attributes(now: Trainer) -> dict[str, Any]:
    """The fitted attributes if the training of a start ended now."""
    network, trace = _copy(now.network), now.trace()
    network.parameters_, network.statistics_ = (one.copy() for one in now.weights())
    return {"network_": network, "trace_": trace, "starts_": [float(now.score)], "n_iter_": trace.n_epochs}


def _copy(network: Network) -> Network:
    made = Network(network.layers, network.input_shape, initialisation=network.initialisation, dtype=network.dtype)
    made.parameters_, made.statistics_ = network.parameters_.copy(), network.statistics_.copy()
    return made


def _same_arrays(one: Network, other: Network) -> bool:
    shapes = [[part.shape for _, part, _ in each.plan.arrays()] for each in (one, other)]
    return shapes[0] == shapes[1] and one.dtype == other.dtype


def _split(
    rows: TrainingRows, strata: Any, share: float, rng: np.random.Generator
) -> tuple[TrainingRows, TrainingRows]:
    """A random part held out, in equal shares of each stratum."""
    order = rng.permutation(rows.n)
    held = []
    for code in np.unique(strata):
        mine = order[strata[order] == code]
        held.append(mine[: min(round(share * mine.size), mine.size - 1)])
    chosen = np.concatenate(held)
    if chosen.size == 0:
        chosen = order[:1]
    left = np.setdiff1d(np.arange(rows.n), chosen)
    if left.size == 0 or (chosen.size == 1 and np.unique(strata).size >= rows.n):
        what = f"early_stopping holds out some rows, and n_samples = {rows.n} is too few for that"
        raise DataError(what, remedy="pass more rows, or early_stopping=False")
    return _some(rows, left), _some(rows, np.sort(chosen))


def _some(rows: TrainingRows, at: Array) -> TrainingRows:
    return TrainingRows(rows.X[at], rows.y[at], rows.w[at] if rows.w.size else rows.w)
