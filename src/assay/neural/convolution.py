"""Convolution and pooling of images with channels (rows, columns, channels last).

    y[r, c, f] = b_f + sum_{a, b, ch} W[a, b, ch, f] x[r s + a, c s + b, ch]

The filter is not flipped, as in the lecture notes and every network library (a correlation, strictly). Sizes:

    valid   floor((h - k) / s) + 1     only positions inside the image
    same    ceil(h / s)                zeros around it, one more below and to the right where the number is odd
    pool    floor((h - k) / s) + 1     rows and columns that do not fill a window are left out

Patches under the filter become rows of a matrix, a few images at a time so that they stay in the cache, and the
convolution is a matrix product; where they are many the backward pass makes them again. Maxima are taken before
bias and activation are applied, which gives the same numbers (both are increasing) for a quarter of the work.

Cost: n h w k^2 c f multiply-adds forward, twice that backward. LeCun, Bottou, Bengio, Haffner (1998), Proc. IEEE 86.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from assay.constraints import Constraint, boolean, integer, none, one_of
from assay.errors import DataError, ParameterError
from assay.neural._kernels import ACTIVATIONS, col2im, give_largest, im2col, keep_largest, pool_back, pool_forward
from assay.neural.layers import EMPTY, LARGEST, Layer, Parameter, Shape, Workspace, run, undo
from assay.neural.penalties import Penalty
from assay.state import Specs, part

__all__ = ["Conv2D", "GlobalMeanPool", "MaxPool", "MeanPool", "MinPool", "convolve", "pool"]

Array = np.ndarray
PATCHES = 1 << 17
"""Numbers in the patches that are made at a time; half a megabyte in single precision."""
KEPT = 1 << 20
"""Numbers in the patches of a shard up to which they are kept for the backward pass."""
MOST = 1 << 28
"""Numbers in the patches of one image at most."""
SIGNS = {"max": 1.0, "min": -1.0, "mean": 0.0}


def _is_size(value: Any) -> bool:
    pair = value if isinstance(value, tuple | list) else (value, value)
    return len(pair) == 2 and all(integer(1, 65_535).accepts(k) for k in pair)


sizes = Constraint(_is_size, "a whole number from 1 to 65,535, or a pair of them (rows, columns)")


def pair_of(value: Any) -> tuple[int, int]:
    """Rows and columns."""
    rows, columns = value if isinstance(value, tuple | list) else (value, value)
    return int(rows), int(columns)


def check_image(shape: Shape) -> None:
    """Refuse what is no image with channels."""
    if len(shape) != 3 or min(shape) < 1:
        hint = "pass images as (n, rows, columns, channels): X[..., None] adds the channel"
        if len(shape) == 1:
            hint = "pass image_shape=(rows, columns, channels), or images as (n, rows, columns, channels)"
        raise ParameterError(f"expected images of shape (rows, columns, channels), got {shape}", remedy=hint)


def windows(shape: Shape, size: tuple[int, int], stride: tuple[int, int]) -> tuple[int, int]:
    """How many windows fit, in each direction; at least one."""
    if shape[0] < size[0] or shape[1] < size[1]:
        what = f"windows of {size[0]} x {size[1]} do not fit into images of shape {shape}"
        raise ParameterError(what, remedy='make the window smaller, or leave the layer out (padding="same" for Conv2D)')
    return (shape[0] - size[0]) // stride[0] + 1, (shape[1] - size[1]) // stride[1] + 1


@dataclass(frozen=True)
class _Pool(Layer):
    """Windows of an image summed up by one number for each channel."""

    size: Any = 2
    stride: Any = None

    how: ClassVar[str] = "max"
    state: ClassVar[Specs] = {"size": sizes, "stride": none | sizes}

    def __post_init__(self) -> None:
        super().__post_init__()
        rows, columns = pair_of(self.size)
        if rows * columns > 65_535:
            what = f"{type(self).__name__}: a window of {rows} x {columns} is too large"
            raise ParameterError(what, remedy="use at most 65,535 pixels in a window, or GlobalMeanPool()")

    def steps(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Window and stride; windows stand side by side unless a stride is given."""
        return pair_of(self.size), pair_of(self.size if self.stride is None else self.stride)

    def output_shape(self, shape: Shape) -> Shape:
        """Fewer rows and columns, the same channels."""
        check_image(shape)
        return (*windows(shape, *self.steps()), shape[2])

    def forward(self, x: Array, values: Sequence[Array], work: Workspace) -> Array:
        """One number for each window."""
        x = np.ascontiguousarray(x)
        shape = (len(x), *self.output_shape(x.shape[1:]))
        out, place = work.array("out", shape, x.dtype), work.array("place", shape, np.int32)
        pool_forward(x, *self.steps(), SIGNS[self.how], out, place)
        work.kept = x.shape, place
        return out

    def backward(self, dy: Array, values: Sequence[Array], gradients: Sequence[Array], work: Workspace) -> Array:
        """To the pixel that was kept, or to all of them."""
        shape, place = work.kept
        dx = work.array("dx", shape, dy.dtype)
        dx[:] = 0
        pool_back(dy, place, *self.steps(), self.how == "mean", dx)
        return dx

    @classmethod
    def examples(cls) -> list[tuple[Layer, Shape]]:
        """Windows that fill the image, that leave a rest, and that overlap."""
        return [(cls(2), (4, 4, 2)), (cls((2, 3)), (5, 7, 1)), (cls(3, stride=1), (4, 5, 2))]


@dataclass(frozen=True)
class MaxPool(_Pool):
    """The largest number of each window.

    | parameter | default | range                | meaning                                                 |
    |-----------|---------|----------------------|---------------------------------------------------------|
    | size      | 2       | from 1 on, or a pair | rows and columns of a window                            |
    | stride    | None    | from 1 on, or a pair | from one window to the next; None: its size, no overlap |

    >>> MaxPool(2).output_shape((5, 4, 3))
    (2, 2, 3)
    """


@dataclass(frozen=True)
class MinPool(_Pool):
    """The smallest number of each window; `size` and `stride` as in `MaxPool`.

    >>> MinPool(2).output_shape((4, 4, 1))
    (2, 2, 1)
    """

    how: ClassVar[str] = "min"


@dataclass(frozen=True)
class MeanPool(_Pool):
    """The mean of each window; `size` and `stride` as in `MaxPool`.

    >>> MeanPool((2, 1)).output_shape((4, 4, 1))
    (2, 4, 1)
    """

    how: ClassVar[str] = "mean"


@dataclass(frozen=True)
class GlobalMeanPool(Layer):
    """The mean of each channel over the whole image.

    >>> GlobalMeanPool().output_shape((7, 7, 32))
    (32,)
    """

    def output_shape(self, shape: Shape) -> Shape:
        """(channels,)."""
        check_image(shape)
        return (shape[2],)

    def forward(self, x: Array, values: Sequence[Array], work: Workspace) -> Array:
        """Means."""
        work.kept = x.shape
        return x.mean(axis=(1, 2))

    def backward(self, dy: Array, values: Sequence[Array], gradients: Sequence[Array], work: Workspace) -> Array:
        """Equal shares."""
        shape = work.kept
        dx = work.array("dx", shape, dy.dtype)
        dx[:] = (dy / (shape[1] * shape[2]))[:, None, None, :]
        return dx

    @classmethod
    def examples(cls) -> list[tuple[Layer, Shape]]:
        """Images."""
        return [(cls(), (3, 4, 2))]


@dataclass(frozen=True)
class Conv2D(Layer):
    """Filters moved over an image: each gives one channel of the output, g(sum of products + bias).

    | parameter  | default    | range                                | meaning                                |
    |------------|------------|--------------------------------------|----------------------------------------|
    | filters    |            | from 1 on                            | how many                               |
    | kernel     | 3          | from 1 on, or a pair                 | rows and columns of a filter           |
    | stride     | 1          | from 1 on, or a pair                 | from one position to the next          |
    | padding    | "valid"    | "valid", "same"                      | inside the image only, or zeros around |
    | activation | "identity" | "relu", "sigmoid", "tanh", "softmax" | g; softmax is over the channels        |
    | bias       | True       | True, False                          | whether there is one                   |
    | penalty    | None       | `Penalty`                            | of this layer, beside the network's    |

    >>> Conv2D(16, 3).output_shape((28, 28, 1)), Conv2D(16, 3, padding="same").output_shape((28, 28, 1))
    ((26, 26, 16), (28, 28, 16))
    """

    filters: int
    kernel: Any = 3
    stride: Any = 1
    padding: str = "valid"
    activation: str = "identity"
    bias: bool = True
    penalty: Penalty | None = None

    state: ClassVar[Specs] = {
        "filters": integer(1, LARGEST),
        "kernel": sizes,
        "stride": sizes,
        "padding": one_of("valid", "same"),
        "activation": one_of(*ACTIVATIONS, "softmax"),
        "bias": boolean,
        "penalty": part(Penalty) | none,
    }

    def geometry(self, shape: Shape) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Filter, stride, zeros before the first row and column, and how many positions there are."""
        check_image(shape)
        size, stride = pair_of(self.kernel), pair_of(self.stride)
        if self.padding == "valid":
            return size, stride, (0, 0), windows(shape, size, stride)
        positions = (-(-shape[0] // stride[0]), -(-shape[1] // stride[1]))
        missing = [max(0, (positions[i] - 1) * stride[i] + size[i] - shape[i]) for i in (0, 1)]
        return size, stride, (missing[0] // 2, missing[1] // 2), positions

    def output_shape(self, shape: Shape) -> Shape:
        """Positions and filters."""
        size, _, _, positions = self.geometry(shape)
        if prod(size) * shape[2] * prod(positions) > MOST:
            what = f"filters of {size[0]} x {size[1]} on images of shape {shape} need over {MOST:,} numbers per image"
            raise ParameterError(what, remedy="use smaller filters, a larger stride, or pool first")
        return (*positions, self.filters)

    def parameters(self, shape: Shape) -> tuple[Parameter, ...]:
        """W (rows, columns, channels, filters) and b."""
        size = pair_of(self.kernel)
        seen, full = prod(size) * shape[2], (*size, shape[2], self.filters)
        relu = self.activation == "relu"
        weights = Parameter("weights", full, "weights", seen, prod(size) * self.filters, relu=relu)
        return (weights, Parameter("bias", (self.filters,), "bias")) if self.bias else (weights,)

    def work(self, shape: Shape) -> int:
        """Each filter at each position."""
        return prod(self.output_shape(shape)) * prod(pair_of(self.kernel)) * shape[2]

    def forward(self, x: Array, values: Sequence[Array], work: Workspace) -> Array:
        """A channel for each filter."""
        return _forward(self, (1, 1), x, values, work)

    def backward(self, dy: Array, values: Sequence[Array], gradients: Sequence[Array], work: Workspace) -> Array:
        """Through the patches."""
        return _backward(self, dy, values, gradients, work)

    def absorb(self, following: Layer) -> Layer | None:
        """Maxima first, then bias and activation, with the same result."""
        apart = isinstance(following, MaxPool) and following.steps()[0] == following.steps()[1]
        return _Pooled(self, following) if apart and self.activation != "softmax" else None

    @classmethod
    def examples(cls) -> list[tuple[Layer, Shape]]:
        """Strides, padding, filters that are not square, several channels."""
        return [
            (cls(2, 3, activation="tanh"), (5, 4, 2)),
            (cls(2, (2, 3), padding="same", activation="sigmoid"), (4, 5, 1)),
            (cls(3, 2, stride=2, bias=False), (5, 5, 2)),
            (cls(2, 3, stride=(2, 1), padding="same", activation="softmax"), (4, 3, 1)),
            (cls(2, 3, activation="tanh").absorb(MaxPool(2)) or cls(1), (6, 7, 2)),
            (cls(2, 2, padding="same", activation="sigmoid").absorb(MaxPool((1, 3))) or cls(1), (4, 4, 1)),
        ]


@dataclass(frozen=True)
class _Pooled(Layer):
    """A convolution and the maxima of its output in one, so that the full output is never stored."""

    conv: Any
    pool: Any

    def output_shape(self, shape: Shape) -> Shape:
        return self.pool.output_shape(self.conv.output_shape(shape))

    def parameters(self, shape: Shape) -> tuple[Parameter, ...]:
        return self.conv.parameters(shape)

    def penalties(self, shape: Shape) -> tuple[Penalty | None, ...]:
        return self.conv.penalties(shape)

    def work(self, shape: Shape) -> int:
        return self.conv.work(shape)

    def forward(self, x: Array, values: Sequence[Array], work: Workspace) -> Array:
        return _forward(self.conv, pair_of(self.pool.size), x, values, work)

    def backward(self, dy: Array, values: Sequence[Array], gradients: Sequence[Array], work: Workspace) -> Array:
        return _backward(self.conv, dy, values, gradients, work)


@dataclass(frozen=True)
class _Patches:
    """Where the filter stands: pixels of pooling windows first (one without pooling), then images and positions.

    Sorting positions by their place in a window makes pooling a comparison of whole matrices.
    """

    conv: Conv2D
    shape: Shape
    window: tuple[int, int]

    @property
    def positions(self) -> tuple[int, int]:
        """Windows in each direction."""
        rows, columns = self.conv.geometry(self.shape)[3]
        return rows // self.window[0], columns // self.window[1]

    @property
    def width(self) -> int:
        """Numbers under the filter."""
        return prod(pair_of(self.conv.kernel)) * self.shape[2]

    @property
    def size(self) -> int:
        """Numbers in the patches of one image."""
        return prod(self.window) * prod(self.positions) * self.width

    def are_kept(self, n: int) -> bool:
        """Whether the patches of n images are still there in the backward pass."""
        return n * self.size <= KEPT

    def blocks(self, work: Workspace, n: int, dtype: Any) -> Any:
        """A few images at a time: the first, the one after the last, and room for their patches."""
        count = max(1, PATCHES // self.size)
        kept = work.training and self.are_kept(n)
        for first in range(0, n, count):
            last = min(n, first + count)
            shape = (prod(self.window), last - first, *self.positions, self.width)
            yield slice(first, last), work.array(f"patches {first if kept else 0}", shape, dtype)

    def each(self, run: Any, images: Array, patches: Array) -> None:
        """im2col or its adjoint, for the windows' pixels one by one."""
        size, stride, pad, _ = self.conv.geometry(self.shape)
        far = (stride[0] * self.window[0], stride[1] * self.window[1])
        for q in range(len(patches)):
            a, b = divmod(q, self.window[1])
            run_at = (pad[0] - a * stride[0], pad[1] - b * stride[1])
            if run is im2col:
                im2col(images, size, far, run_at, patches[q])
            else:
                col2im(patches[q], size, far, run_at, images)


def _forward(conv: Conv2D, window: tuple[int, int], x: Array, values: Sequence[Array], work: Workspace) -> Array:
    x = np.ascontiguousarray(x)
    where = _Patches(conv, x.shape[1:], window)
    weights = values[0].reshape(-1, conv.filters)
    out = work.array("out", (len(x), *where.positions, conv.filters), x.dtype)
    pooled = window != (1, 1)
    place = work.array("place", out.shape if pooled else (0,), np.int32)
    for some, patches in where.blocks(work, len(x), x.dtype):
        where.each(im2col, x[some], patches)
        rows = patches.reshape(-1, where.width)
        if not pooled:
            np.dot(rows, weights, out=out[some].reshape(-1, conv.filters))
            continue
        full = work.array("full", (len(rows), conv.filters), x.dtype)
        np.dot(rows, weights, out=full)
        keep_largest(full.reshape(len(patches), -1), out[some].reshape(-1), place[some].reshape(-1))
    run(conv.activation, out, values[1] if conv.bias else EMPTY[x.dtype.name])
    work.kept = x, out, place, where
    return out


def _backward(conv: Conv2D, dy: Array, values: Sequence[Array], gradients: Sequence[Array], work: Workspace) -> Array:
    x, out, place, where = work.kept
    weights, slopes = (one[0].reshape(-1, conv.filters) for one in (values, gradients))
    dy = np.ascontiguousarray(dy).reshape(out.shape)
    undo(conv.activation, dy, out, gradients[1] if conv.bias else EMPTY[dy.dtype.name], work)
    share = work.array("share", slopes.shape, x.dtype)
    slopes[:] = 0
    dx = work.array("dx", x.shape, x.dtype)
    if not work.first:
        dx[:] = 0
    for some, patches in where.blocks(work, len(x), x.dtype):
        rows = dy[some].reshape(-1, conv.filters)
        if place.size:
            rows = work.array("full", (prod(patches.shape[:-1]), conv.filters), x.dtype)
            give_largest(dy[some].reshape(-1), place[some].reshape(-1), rows.reshape(len(patches), -1))
        if not (work.training and where.are_kept(len(x))):
            where.each(im2col, x[some], patches)
        flat = patches.reshape(-1, where.width)
        np.dot(flat.T, rows, out=share)
        slopes += share
        if not work.first:
            np.dot(rows, weights.T, out=flat)
            where.each(col2im, dx[some], patches)
    return dx


# The lecture notes' examples, on plain matrices.


def convolve(image: Any, filter: Any, *, stride: Any = 1, padding: str = "valid") -> Array:
    """Sums of products of a filter with every patch of an image; the filter is not flipped.

    | parameter | default | range                                        | meaning                                   |
    |-----------|---------|----------------------------------------------|-------------------------------------------|
    | image     |         | (rows, columns) or (rows, columns, channels) | numbers                                   |
    | filter    |         | a matrix, with channels where the image has  | a x b of r x c: (r - a + 1) x (c - b + 1) |
    | stride    | 1       | from 1 on, or a pair                         | from one position to the next             |
    | padding   | "valid" | "valid", "same"                              | inside only, or zeros around the image    |

    >>> convolve([[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]], [[1, 0], [0, 1]]).tolist()
    [[6.0, 8.0], [12.0, 14.0], [18.0, 20.0]]
    """
    x, w = _numbers(image, "image"), _numbers(filter, "filter")
    if x.shape[2] != w.shape[2]:
        what = f"the image has {x.shape[2]} channels, but the filter has {w.shape[2]}"
        raise DataError(what, remedy="give both the same number of channels")
    layer = Conv2D(1, (w.shape[0], w.shape[1]), stride=stride, padding=padding, bias=False)
    layer.output_shape(x.shape)
    return layer.forward(x[None], (w[..., None],), Workspace())[0, :, :, 0]


def pool(image: Any, size: Any = 2, how: str = "max", *, stride: Any = None) -> Array:
    """The largest, smallest or mean number of each window, channel by channel.

    Rows and columns at the end that do not fill a window are left out: 2 x 2 windows of a 5 x 4 image give 2 x 2.

    | parameter | default | range                                        | meaning                                     |
    |-----------|---------|----------------------------------------------|---------------------------------------------|
    | image     |         | (rows, columns) or (rows, columns, channels) | numbers                                     |
    | size      | 2       | from 1 on, or a pair                         | rows and columns of a window                |
    | how       | "max"   | "max", "min", "mean"                         | what is kept of a window                    |
    | stride    | None    | from 1 on, or a pair                         | from one window to the next; None: its size |

    >>> pool([[1, 2, 5, 3], [3, 0, 1, 2], [2, 1, 3, 4], [1, 1, 2, 0]]).tolist()
    [[3.0, 5.0], [2.0, 4.0]]
    """
    kinds = {"max": MaxPool, "min": MinPool, "mean": MeanPool}
    if how not in kinds:
        raise ParameterError(f"unknown how = {how!r}", remedy='use "max", "min" or "mean"')
    x = _numbers(image, "image")
    layer = kinds[how](size, stride)
    layer.output_shape(x.shape)
    out = layer.forward(x[None], (), Workspace())[0].copy()
    return out[:, :, 0] if np.ndim(image) == 2 else out


def _numbers(given: Any, name: str) -> Array:
    """A matrix, or an image with channels, as float64 with channels."""
    try:
        array = np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} is not a matrix of numbers", remedy="give rows of equal length") from error
    if array.ndim not in (2, 3) or array.size == 0:
        what = f"{name} has the shape {array.shape}"
        raise DataError(what, remedy="give (rows, columns) or (rows, columns, channels)")
    if not np.isfinite(array).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise DataError(f"{name} contains NaN or inf at {at}", remedy="replace it with a finite number")
    return array[..., None] if array.ndim == 2 else array
