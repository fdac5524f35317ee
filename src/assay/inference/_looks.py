"""The chance that a drifting sum crosses a boundary at one of several looks, by recursive integration.

S(t) is Brownian motion with drift, seen at t_1 < ... < t_K. The density of S(t_k) on the event "not crossed yet" is

    f_k(s) = int_{inside k-1} f_{k-1}(u) phi((s - u - drift dt) / sqrt(dt)) / sqrt(dt) du,

integrated by Gauss-Legendre quadrature, whose nodes lie close enough for the narrowest kernel to be smooth between
them; the error is then at rounding level. Cost: the sum of products of neighbouring numbers of nodes.
Armitage, McPherson & Rowe (1969), JRSS A 132, 235-244; Lan & DeMets (1983), Biometrika 70, 659-663.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import special

__all__ = ["Walk"]

Array = np.ndarray
FAR = 9.0
"""Standard deviations beyond which a normal tail is below 1e-18: an open end of a region is cut there."""


class Walk:
    """A Brownian motion that has not crossed yet, advanced from look to look."""

    def __init__(self, drift: float = 0.0) -> None:
        self.drift, self.time = drift, 0.0
        self.nodes, self.mass = np.zeros(1), np.ones(1)  # before the first look it stands at zero

    def leaves(self, time: float, lower: float, upper: float) -> tuple[float, float]:
        """The chance to lie below `lower` and above `upper` at the next look."""
        step = time - self.time
        centre, root = self.nodes + self.drift * step, np.sqrt(step)
        down = float(self.mass @ special.ndtr((lower - centre) / root)) if np.isfinite(lower) else 0.0
        up = float(self.mass @ special.ndtr((centre - upper) / root)) if np.isfinite(upper) else 0.0
        return down, up

    def advance(self, time: float, lower: float, upper: float, next_step: float) -> None:
        """Stay inside (lower, upper) at this look; `next_step` is the time to the one after."""
        step = time - self.time
        centre, root = self.nodes + self.drift * step, np.sqrt(step)
        low = max(lower, float(centre.min()) - FAR * root)
        high = min(upper, float(centre.max()) + FAR * root)
        if not high > low:
            self.time, self.nodes, self.mass = time, np.array([0.5 * (low + high)]), np.zeros(1)
            return
        finest = np.sqrt(min(step, next_step))
        x, w = _rule(int(np.ceil(3.0 * (high - low) / finest)) + 24)
        nodes = 0.5 * (low + high) + 0.5 * (high - low) * x
        z = (nodes[:, None] - centre[None, :]) / root
        density = np.exp(-0.5 * z * z) @ self.mass / (root * np.sqrt(2 * np.pi))
        self.time, self.nodes, self.mass = time, nodes, density * w * (0.5 * (high - low))


@lru_cache(maxsize=64)
def _rule(size: int) -> tuple[Array, Array]:
    x, w = special.roots_legendre(size) if size < 150 else _panels(size)
    return x, w


def _panels(size: int) -> tuple[Array, Array]:
    """Many nodes: panels of 40, since the rule of high order is slow to build and no better."""
    panels = -(-size // 40)
    x, w = special.roots_legendre(40)
    edges = np.linspace(-1.0, 1.0, panels + 1)
    half = 0.5 * np.diff(edges)
    middle = 0.5 * (edges[1:] + edges[:-1])
    return (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()
