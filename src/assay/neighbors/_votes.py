"""What the neighbours of a query count for.

    uniform    1
    distance   1 / d; where rows are at distance 0 they alone count
    kernel     K(d / d_(k+1)), d_(k+1) the distance of the next row, so that votes fade out towards the edge:
               epanechnikov 1 - u^2, tricube (1 - u^3)^3, gaussian exp(-u^2 / 2)

Only ratios of votes matter. Rows with weights count as that many equal rows: the neighbourhood is as many of the
nearest rows as together weigh k, and the last of them counts for what is missing to k.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.errors import ParameterError
from assay.numerics.jit import kernel

__all__ = ["KERNELS", "Neighbourhood", "average", "count", "crop", "votes"]

Array = np.ndarray

KERNELS: dict[str, Callable[[Array], Array]] = {
    "epanechnikov": lambda u: np.maximum(1.0 - u * u, 0.0),
    "tricube": lambda u: np.maximum(1.0 - u**3, 0.0) ** 3,
    "gaussian": lambda u: np.exp(-0.5 * u * u),
}


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """The rows near each query: distances, row numbers, what of each row's weight belongs to it (None: all rows count
    one), and the distance of the next row beyond it.
    """

    distance: Array
    rows: Array
    mass: Array | None
    next: Array


def crop(distance: Array, rows: Array, mass: Array | None, k: int) -> Neighbourhood:
    """The neighbourhoods of weight k out of longer ones; where nothing is beyond, the last row is the next one too."""
    if mass is None:
        beyond = distance[:, min(k, distance.shape[1] - 1)]
        return Neighbourhood(_first(distance, k), _first(rows, k), None, beyond)
    total = np.cumsum(mass, axis=1)
    # Sums of weights such as 0.1 reach k only up to rounding.
    past = total > k * (1.0 + 1e-12)
    following = np.where(past[:, -1], np.argmax(past, axis=1), mass.shape[1] - 1)
    inside = np.clip(k - (total - mass), 0.0, mass)
    longest = int(np.count_nonzero(inside > 0.0, axis=1).max(initial=1)) if mass.all() else mass.shape[1]
    beyond = np.take_along_axis(distance, following[:, None], axis=1)[:, 0]
    return Neighbourhood(_first(distance, longest), _first(rows, longest), _first(inside, longest), beyond)


def _first(table: Array, columns: int) -> Array:
    return np.ascontiguousarray(table[:, :columns])


def votes(near: Neighbourhood, weights: Any, shape: str) -> Array:
    """One number per neighbour, at least one of each query above zero."""
    d, mass = near.distance, near.mass
    if isinstance(weights, str) and weights == "uniform":
        return np.ones(d.shape) if mass is None else mass
    if callable(weights):
        found = _asked(weights, d)
    else:
        there = d if mass is None else np.where(mass > 0.0, d, np.inf)
        found = _inverse(there) if weights == "distance" else _faded(there, near.next, shape)
    voting = found if mass is None else found * mass
    silent = ~voting.any(axis=1)
    if silent.any():  # every neighbour is as far as the next row: none is nearer than another
        voting[silent] = 1.0 if mass is None else mass[silent]
    return voting


def _inverse(d: Array) -> Array:
    """1 / d in units of the nearest row, which nothing can overflow."""
    nearest = d.min(axis=1, keepdims=True)
    at = nearest == 0.0
    return np.where(at, d == 0.0, np.where(at, 1.0, nearest) / np.where(d == 0.0, 1.0, d))


def _faded(d: Array, beyond: Array, shape: str) -> Array:
    edge = beyond[:, None]
    u = np.where(edge > 0.0, np.minimum(d, edge) / np.where(edge > 0.0, edge, 1.0), 0.0)
    return np.where(np.isfinite(d), KERNELS[shape](u), 0.0)


def _asked(weights: Callable[[Array], Any], d: Array) -> Array:
    found = np.array(weights(d.copy()), dtype=np.float64)
    if found.shape != d.shape:
        what = f"weights returned an array of shape {found.shape} for distances of shape {d.shape}"
        raise ParameterError(what, remedy="return one weight per distance")
    if not np.isfinite(found).all() or (found < 0.0).any():
        row = int(np.argmax(~(np.isfinite(found) & (found >= 0.0)).all(axis=1)))
        what = f"weights returned a negative or infinite weight, or NaN, for the distances {d[row].tolist()[:5]} ..."
        raise ParameterError(what, remedy="return finite weights of zero or more")
    return found


@kernel(exact=True)
def count(rows: Array, voting: Array, codes: Array, out: Array) -> None:
    """Fill out with the shares of the votes that each class gets."""
    for i in range(rows.shape[0]):
        total = 0.0
        for c in range(out.shape[1]):
            out[i, c] = 0.0
        for t in range(rows.shape[1]):
            out[i, codes[rows[i, t]]] += voting[i, t]
            total += voting[i, t]
        for c in range(out.shape[1]):
            out[i, c] /= total


@kernel(exact=True)
def average(rows: Array, voting: Array, y: Array, out: Array) -> None:
    """Fill out with the means of the targets, by votes."""
    for i in range(rows.shape[0]):
        total = 0.0
        for c in range(out.shape[1]):
            out[i, c] = 0.0
        for t in range(rows.shape[1]):
            total += voting[i, t]
            for c in range(out.shape[1]):
                out[i, c] += voting[i, t] * y[rows[i, t], c]
        for c in range(out.shape[1]):
            out[i, c] /= total
