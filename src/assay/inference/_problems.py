"""Statistics with a quick way to their replicates and their jackknife.

    SumsProblem          functions of sums (mean, variance, std): rows are drawn and added up in a kernel
    CorrelationProblem   the same for pairs
    OrderProblem         quantiles of unstratified samples: order statistics drawn directly, O(1) per resample

The influence of row i is U_i = (n - 1)(mean of the leave-one-out values - value without row i), within its sample or
stratum: a closed form for sums, O(n) for quantiles (leaving out a row moves one order statistic by one place).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from assay.checks import describe
from assay.errors import DataError
from assay.inference._bootstrap import chunks, resample_products, resample_sums
from assay.numerics.threads import parallel

__all__ = [
    "BootstrapProblem",
    "CorrelationProblem",
    "Mean",
    "OrderProblem",
    "Replicates",
    "Std",
    "SumsProblem",
    "Variance",
    "describe_plan",
    "joined",
]

Array = np.ndarray
Replicates = tuple[Array, Array | None]
TINY = 64 * np.finfo(float).eps


class BootstrapProblem:
    """A statistic with its data; kinds differ in how replicates are made."""

    n: Any
    estimand: str
    words: str

    def estimate(self) -> float:
        """The statistic of the data themselves."""
        raise NotImplementedError

    def error(self) -> float:
        """Its standard error by the same rule as that of a resample."""
        raise NotImplementedError

    def replicates(self, seeds: np.random.SeedSequence, n_resamples: int, n_jobs: int | None) -> Replicates:
        """The statistic of each resample, NaN where it is not defined, and its standard error if that is needed."""
        raise NotImplementedError

    def influence(self) -> list[Array]:
        """Jackknife influence of every row, one array per sample or stratum."""
        if any(not np.isfinite(u).all() for u in self._influence):
            what = f"the {self.estimand} is not defined when one row is left out, as the BCa interval needs"
            raise DataError(what, remedy='pass more rows, or use method="percentile"')
        return self._influence

    @cached_property
    def _influence(self) -> list[Array]:
        return [_centred(part) for part in self.left_out()]

    def left_out(self) -> list[Array]:
        """The statistic without each row in turn, one array per sample or stratum."""
        raise NotImplementedError


def _centred(values: Array) -> Array:
    return np.zeros(1) if values.size == 1 else (values.size - 1) * (values.mean() - values)


# ------------------------------------------------------------------------------------------ functions of sums


class Mean:
    """The mean; works on values z that were centred and scaled."""

    words = "mean"
    power = 1  # how the statistic grows with the unit

    @staticmethod
    def features(z: Array, with_error: bool) -> Array:
        """Rows whose sums determine the statistic (and its standard error)."""
        return np.vstack([z, z * z]) if with_error else z[None, :].copy()

    @staticmethod
    def value(m: Array, n: int) -> Array:
        """The statistic from the means of the features."""
        return m[:, 0]

    @staticmethod
    def error(m: Array, n: int) -> Array:
        """s / sqrt(n)."""
        return np.sqrt(Variance.value(m, n) / n)

    @staticmethod
    def left_out(z: Array) -> Array:
        """The mean without each row."""
        return (z.sum() - z) / (z.size - 1)


class Variance:
    """The variance with divisor n - 1."""

    words = "variance"
    power = 2

    @staticmethod
    def features(z: Array, with_error: bool) -> Array:
        """Powers of z."""
        return np.vstack([z**k for k in range(1, 5 if with_error else 3)])

    @staticmethod
    def value(m: Array, n: int) -> Array:
        """(m2 - m1^2) n / (n - 1); what is only rounding is zero."""
        centred = m[:, 1] - m[:, 0] ** 2
        return np.where(centred > TINY * m[:, 1], centred, 0.0) * (n / (n - 1))

    @staticmethod
    def error(m: Array, n: int) -> Array:
        """sqrt((mu4 - mu2^2) / n) with the central moments of the resample."""
        a, b, c, d = m.T
        mu2 = b - a * a
        mu4 = d - 4 * a * c + 6 * a * a * b - 3 * a**4
        return np.sqrt(np.maximum(0.0, np.where(mu2 > TINY * b, mu4 - mu2**2, 0.0)) / n)

    @staticmethod
    def left_out(z: Array) -> Array:
        """The variance without each row: the sum of squares falls by d^2 n / (n - 1)."""
        n = z.size
        d = z - z.mean()
        if n < 3:
            return np.full(n, np.nan)
        return np.maximum(0.0, d @ d - d * d * (n / (n - 1))) / (n - 2)


class Std:
    """The standard deviation, root of the variance with divisor n - 1."""

    words = "standard deviation"
    power = 1
    features = staticmethod(Variance.features)

    @staticmethod
    def value(m: Array, n: int) -> Array:
        """Root of the variance."""
        return np.sqrt(Variance.value(m, n))

    @staticmethod
    def error(m: Array, n: int) -> Array:
        """The error of the variance over 2 s."""
        s = Std.value(m, n)
        return np.where(s > 0, Variance.error(m, n) / np.where(s > 0, 2 * s, 1.0), 0.0)

    @staticmethod
    def left_out(z: Array) -> Array:
        """The standard deviation without each row."""
        return np.sqrt(Variance.left_out(z))


class SumsProblem(BootstrapProblem):
    """Mean, variance or standard deviation of one sample, or the difference of two."""

    def __init__(self, kind: Any, samples: Sequence[Array], edges: Array | None, paired: bool, errors: bool) -> None:
        self.kind, self.errors, self.paired = kind, errors, paired or len(samples) == 1
        self.n = samples[0].size if self.paired else tuple(x.size for x in samples)
        self.estimand = kind.words if len(samples) == 1 else f"difference of {kind.words}s"
        self.words = describe_plan(self.paired and len(samples) > 1, len(samples), edges)
        if kind is Mean and self.paired and len(samples) == 2:
            samples = (samples[0] - samples[1],)  # the same number, and its standard error knows the pairs
        self.edges = [np.array([0, x.size]) if edges is None else edges for x in samples]
        self.centre, self.scale, self.z = [], [], []
        for x in samples:
            mean, spread = describe(x[:, None])
            unit = np.ldexp(1.0, int(np.frexp(spread[0])[1])) if spread[0] > 0 else 1.0
            self.centre.append(float(mean[0]) if kind is Mean else 0.0)
            self.scale.append(_unit_power(unit, kind))
            self.z.append((x - mean[0]) / unit)

    def _value(self, j: int, means: Array) -> Array:
        return self.centre[j] + self.scale[j] * self.kind.value(means, self.z[j].size)

    def _own(self, j: int) -> Array:
        return self.kind.features(self.z[j], self.errors).mean(axis=1)[None, :]

    def estimate(self) -> float:
        """Of two samples, the first minus the second."""
        values = [float(self._value(j, self._own(j))[0]) for j in range(len(self.z))]
        return values[0] - values[1] if len(values) == 2 else values[0]

    def error(self) -> float:
        """The plug-in standard error."""
        return float(self._error([self._own(j) for j in range(len(self.z))])[0])

    def _error(self, means: list[Array]) -> Array:
        parts = [self.scale[j] * self.kind.error(m, self.z[j].size) for j, m in enumerate(means)]
        return parts[0] if len(parts) == 1 else np.hypot(parts[0], parts[1])

    def replicates(self, seeds: np.random.SeedSequence, n_resamples: int, n_jobs: int | None) -> Replicates:
        """Draw and add up; paired samples share their draws."""
        features = [np.ascontiguousarray(self.kind.features(z, self.errors)) for z in self.z]
        if self.paired:
            units = [(np.ascontiguousarray(np.vstack(features)), self.edges[0])]
        else:
            units = list(zip(features, self.edges, strict=True))
        q = features[0].shape[0]
        rows = sum(unit.shape[1] for unit, _ in units)

        def run(chunk: tuple[int, int, Array]) -> Replicates:
            start, stop, state = chunk
            means = []
            for unit, edges in units:
                out = np.empty((stop - start, unit.shape[0]))
                resample_sums(state, edges, unit, np.empty((1, unit.shape[1]), dtype=np.uint32), out)
                out /= unit.shape[1]
                means += [out[:, at : at + q] for at in range(0, unit.shape[0], q)]
            values = [self._value(j, m) for j, m in enumerate(means)]
            value = values[0] if len(values) == 1 else values[0] - values[1]
            return value, self._error(means) if self.errors else None

        return joined(parallel(run, chunks(seeds, n_resamples, rows), n_jobs=n_jobs, work=float(rows) * n_resamples))

    def left_out(self) -> list[Array]:
        """Leave-one-out values in the data's own units, the centre apart."""
        parts = [self.scale[j] * self.kind.left_out(z) for j, z in enumerate(self.z)]
        if len(parts) == 2 and self.paired:
            parts = [parts[0] - parts[1]]
        elif len(parts) == 2:
            return [parts[0], -parts[1]]
        return np.split(parts[0], self.edges[0][1:-1])


class CorrelationProblem(BootstrapProblem):
    """Pearson's correlation of pairs."""

    def __init__(self, samples: Sequence[Array], edges: Array | None) -> None:
        n = samples[0].size
        self.n, self.estimand, self.words = n, "correlation", describe_plan(True, 2, edges)
        self.edges = np.array([0, n]) if edges is None else edges
        pair = np.empty((2, n))
        for j, x in enumerate(samples):
            mean, spread = describe(x[:, None])
            if spread[0] == 0:
                what = f"the {('first', 'second')[j]} column is constant, so the correlation is not defined"
                raise DataError(what, remedy="pass columns that vary")
            pair[j] = (x - mean[0]) / spread[0]
        self.pair = pair

    @staticmethod
    def value(m: Array) -> Array:
        """From the means of x, y, x^2, y^2, xy; NaN where a column does not vary."""
        x, y, xx, yy, xy = m.T
        vx, vy = xx - x * x, yy - y * y
        good = (vx > TINY * xx) & (vy > TINY * yy)
        root = np.sqrt(np.where(good, vx, 1.0)) * np.sqrt(np.where(good, vy, 1.0))
        return np.where(good, np.clip((xy - x * y) / root, -1.0, 1.0), np.nan)

    def estimate(self) -> float:
        """Pearson's r."""
        x, y = self.pair
        return float(self.value(np.array([[x.mean(), y.mean(), x @ x / x.size, y @ y / x.size, x @ y / x.size]]))[0])

    def replicates(self, seeds: np.random.SeedSequence, n_resamples: int, n_jobs: int | None) -> Replicates:
        """Draw pairs and add up five products."""
        n = self.pair.shape[1]

        def run(chunk: tuple[int, int, Array]) -> Replicates:
            start, stop, state = chunk
            out = np.empty((stop - start, 5))
            resample_products(state, self.edges, self.pair, np.empty((1, n), dtype=np.uint32), out)
            return self.value(out / n), None

        return joined(parallel(run, chunks(seeds, n_resamples, n), n_jobs=n_jobs, work=float(n) * n_resamples))

    def left_out(self) -> list[Array]:
        """Each sum of products falls by d d' n / (n - 1)."""
        n = self.pair.shape[1]
        dx, dy = self.pair - self.pair.mean(axis=1, keepdims=True)
        grow = n / (n - 1)
        xx, yy, xy = dx @ dx - dx * dx * grow, dy @ dy - dy * dy * grow, dx @ dy - dx * dy * grow
        good = (xx > TINY * (dx @ dx)) & (yy > TINY * (dy @ dy))
        root = np.sqrt(np.where(good, xx, 1.0)) * np.sqrt(np.where(good, yy, 1.0))
        return np.split(np.where(good, xy / root, np.nan), self.edges[1:-1])


# ------------------------------------------------------------------------------------------ quantiles


class OrderProblem(BootstrapProblem):
    """A quantile (interpolated as numpy's default) of one sample, or the difference of two independent samples."""

    def __init__(self, q: float, name: str, samples: Sequence[Array]) -> None:
        self.q = q
        self.n = samples[0].size if len(samples) == 1 else tuple(x.size for x in samples)
        self.estimand = name if len(samples) == 1 else f"difference of {name}s"
        self.words = describe_plan(False, len(samples), None)
        self.ordered = [np.sort(x) for x in samples]

    def estimate(self) -> float:
        """Of two samples, the first minus the second."""
        values = [float(_between(x, *_place(x.size, self.q), None)) for x in self.ordered]
        return values[0] - values[1] if len(values) == 2 else values[0]

    def replicates(self, seeds: np.random.SeedSequence, n_resamples: int, n_jobs: int | None) -> Replicates:
        """Rows of the two order statistics that a quantile lies between: U_(k) is Beta, U_(k+1) follows it."""
        rng = np.random.default_rng(seeds)
        values = []
        for x in self.ordered:
            n = x.size
            k, share = _place(n, self.q)
            lower = rng.beta(k + 1, n - k, n_resamples)
            at = np.minimum((lower * n).astype(np.int64), n - 1)
            value = x[at]
            if share > 0:
                # The next of the n - k - 1 uniforms above: the smallest of as many on (U_(k), 1).
                upper = lower - (1 - lower) * np.expm1(np.log1p(-rng.random(n_resamples)) / (n - k - 1))
                value = value + share * (x[np.minimum((upper * n).astype(np.int64), n - 1)] - value)
            values.append(value)
        return (values[0] if len(values) == 1 else values[0] - values[1]), None

    def left_out(self) -> list[Array]:
        """Without row i every order statistic from i on moves up one place."""
        parts = []
        for x in self.ordered:
            k, share = _place(x.size - 1, self.q)
            parts.append(_between(x, k, share, np.arange(x.size)))
        return parts if len(parts) == 1 else [parts[0], -parts[1]]


def _place(n: int, q: float) -> tuple[int, float]:
    """The order statistic (from 0) that the q-quantile of n values starts at, and the share of the next one."""
    at = q * (n - 1)
    k = min(int(at), n - 1)
    return k, at - k


def _between(x: Array, k: int, share: float, left_out: Any) -> Any:
    """x_(k) + share (x_(k+1) - x_(k)): of the whole sample for `left_out=None`, else without each of those rows."""
    if left_out is None:
        low = x[k]
        return low if share == 0 else low + share * (x[k + 1] - low)
    low = np.where(left_out > k, x[k], x[k + 1])
    if share == 0:
        return low
    high = np.where(left_out > k + 1, x[k + 1], x[min(k + 2, x.size - 1)])
    return low + share * (high - low)


def joined(parts: list[Replicates]) -> Replicates:
    """The chunks one after another."""
    values = np.concatenate([part[0] for part in parts])
    errors = [part[1] for part in parts if part[1] is not None]
    return values, np.concatenate(errors) if errors else None


def _unit_power(unit: float, kind: Any) -> float:
    power = unit**kind.power if 1e-150 < unit < 1e150 or kind.power == 1 else 0.0
    if power == 0:
        raise DataError(f"the {kind.words} is beyond the range of floating point", remedy="rescale the data")
    return float(power)


def describe_plan(paired: bool, samples: int, edges: Array | None) -> str:
    """What is resampled, in words."""
    words = "pairs resampled together" if paired else "rows resampled"
    if samples > 1 and not paired:
        words = "each sample resampled"
    return words if edges is None else f"{words} within {edges.size - 1} strata"
