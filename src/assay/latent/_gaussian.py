"""Gaussian components: log densities, expected sums of rows, and the covariances that maximise the likelihood.

    log N(x; mu_k, Sigma_k) = -(p log 2 pi + log det Sigma_k + (x - mu_k)' Sigma_k^-1 (x - mu_k)) / 2
    N_k = sum_i r_ik,   m_k = sum_i r_ik x_i / N_k,   S_k = sum_i r_ik (x_i - m_k)(x_i - m_k)'

| kind        | Sigma_k                 | maximum of the likelihood       | numbers         | `covariances` |
|-------------|-------------------------|---------------------------------|-----------------|---------------|
| "full"      | one for each component  | S_k / N_k                       | K p(p + 1)/2    | (K, p, p)     |
| "tied"      | one for all             | sum_k S_k / sum_k N_k           | p(p + 1)/2      | (p, p)        |
| "diag"      | diagonal, each its own  | diag(S_k) / N_k                 | K p             | (K, p)        |
| "spherical" | v_k I                   | trace(S_k) / (p N_k)            | K               | (K,)          |
| "shared"    | v I for all             | sum_k trace(S_k) / (p sum N_k)  | 1               | (1,)          |

Sums are taken about the means of the E step, so nothing is squared that was not centred, and stored about their own
means: they merge by Chan, Golub and LeVeque's update. A covariance is held above diag(floor) in every direction: its
eigenvalues below the floor are raised to it, which is the maximum under that bound, so EM stays monotone.

A missing cell (NaN) is integrated out. The density is that of the observed cells, and the sums hold the conditional
mean A_k (x_o - mu_o) of the others, A_k = Sigma_mo Sigma_oo^-1, and their covariance Sigma_mm - A_k Sigma_om. Rows
that miss the same cells are done together.

Cost: n K p^2 multiply-adds for each of densities and sums (n K p for the last three kinds).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from assay.constraints import one_of
from assay.errors import DataError
from assay.latent._gaussian_kernels import add_products, add_squares, scaled_distances, whitened_distances
from assay.numerics.scale import power_of_two
from assay.numerics.threads import parallel
from assay.state import Specs, Stateful, floats, need

__all__ = [
    "KINDS",
    "SPAN",
    "Frame",
    "Gaussians",
    "Pattern",
    "Seen",
    "Sums",
    "Tally",
    "estimate",
    "expand",
    "fill_densities",
    "frame_of",
    "gaussians",
    "log_densities",
    "merge",
    "n_covariance_parameters",
    "patterns_of",
    "scaled",
    "see",
    "weighted_sums",
]

Array = np.ndarray

KINDS = ("full", "tied", "diag", "spherical", "shared")
WITH_PRODUCTS = ("full", "tied")

SPAN = 16_384
"""Rows of a task; the cut is fixed, so that the number of threads changes no result."""
TOGETHER = 2048
"""Rows with the same missing cells that are done at once."""


# Where rows are read from.


@dataclass(frozen=True, eq=False)
class Frame(Stateful):
    """z = (x - centre) / unit, both (p,); units are powers of two, so that neither scale nor offset costs a digit."""

    centre: Array
    unit: Array
    state: ClassVar[Specs] = {"centre": floats("p"), "unit": floats("p")}

    def _check_state(self) -> None:
        need((self.unit > 0).all(), "units must be positive")

    def into(self, X: Array) -> Array:
        """Rows as the steps read them, C-ordered."""
        return np.ascontiguousarray((X - self.centre) / self.unit)

    @property
    def log_volume(self) -> float:
        """What the log density of a row loses for being read in these units."""
        return float(np.log(self.unit).sum())


def frame_of(X: Array, kind: str) -> Frame:
    """The middle of each column's range, and the power of two above half of it; NaN is passed over.

    Kinds with equal variances need one unit for all columns.

    >>> frame = frame_of(np.array([[0.0, 5.0], [6.0, np.nan]]), "full")
    >>> frame.centre.tolist(), frame.unit.tolist()
    ([3.0, 5.0], [4.0, 1.0])
    """
    low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    half = high / 2 - low / 2
    unit = power_of_two(half)
    if kind in ("spherical", "shared"):
        unit = np.full_like(unit, power_of_two(half.max()))
    return Frame(low + half, unit)


# Components.


@dataclass(frozen=True, eq=False)
class Gaussians(Stateful):
    """K components: means (K, p), covariances as `kind` has them, and what their densities are computed from.

    `whiten` is the inverse of the Cholesky factor, lower triangular, (K, p, p) or (1, p, p), or 1 / standard deviation,
    (K, p); `log_norm` (K,) is the log density at the mean.
    """

    kind: str
    means: Array
    covariances: Array
    whiten: Array
    log_norm: Array
    state: ClassVar[Specs] = {
        "kind": one_of(*KINDS),
        "means": floats("k", "p"),
        "covariances": floats("k", "p", "p") | floats("p", "p") | floats("k", "p") | floats("k") | floats(1),
        "whiten": floats("k", "p", "p") | floats(1, "p", "p") | floats("k", "p"),
        "log_norm": floats("k"),
    }

    def _check_state(self) -> None:
        K, p = self.means.shape
        shape = {"full": (K, p, p), "tied": (p, p), "diag": (K, p), "spherical": (K,), "shared": (1,)}[self.kind]
        wide = {"full": (K, p, p), "tied": (1, p, p)}.get(self.kind, (K, p))
        need(self.covariances.shape == shape and self.whiten.shape == wide)


def gaussians(kind: str, means: Array, covariances: Array) -> Gaussians:
    """Components from means and covariances; a `DataError` names a covariance that is not positive definite.

    >>> one = gaussians("full", np.zeros((1, 2)), np.eye(2)[None])
    >>> one.log_norm.round(4).tolist()
    [-1.8379]
    """
    K, p = means.shape
    if kind in WITH_PRODUCTS:
        whiten = _inverse_factors(covariances.reshape(-1, p, p))
        log_det = np.log(np.einsum("kii->ki", whiten)).sum(axis=1)
    else:
        variances = covariances if kind == "diag" else np.broadcast_to(covariances.reshape(-1, 1), (K, p))
        if not (variances > 0).all():
            _refuse_singular(int(np.argmin(variances.min(axis=1))))
        whiten = np.ascontiguousarray(1.0 / np.sqrt(variances))
        log_det = np.log(whiten).sum(axis=1)
    log_norm = np.full(K, -0.5 * p * np.log(2 * np.pi)) + log_det
    return Gaussians(kind, np.ascontiguousarray(means), covariances, whiten, log_norm)


def _inverse_factors(covariances: Array) -> Array:
    try:
        factors = np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        factors = np.full_like(covariances, np.nan)
        worst = int(np.argmin(np.linalg.eigvalsh(covariances)[:, 0]))
    if np.isnan(factors).any():
        _refuse_singular(worst)
    return np.ascontiguousarray(np.tril(np.linalg.inv(factors)))


def _refuse_singular(k: int) -> None:
    what = f"the covariance of component {k} is singular"
    raise DataError(what, remedy="set reg_covar above 0, use fewer components, or drop redundant columns")


def expand(law: Gaussians) -> Array:
    """Covariances as (K, p, p), whatever the kind.

    >>> expand(gaussians("shared", np.zeros((2, 1)), np.array([4.0]))).ravel().tolist()
    [4.0, 4.0]
    """
    K, p = law.means.shape
    if law.kind in WITH_PRODUCTS:
        return np.broadcast_to(law.covariances, (K, p, p)).copy()
    variances = law.covariances if law.kind == "diag" else law.covariances.reshape(-1, 1)
    return np.broadcast_to(variances, (K, p))[:, :, None] * np.eye(p)


def n_covariance_parameters(kind: str, K: int, p: int) -> int:
    """How many numbers are free in the covariances.

    >>> [n_covariance_parameters(kind, 3, 4) for kind in KINDS]
    [30, 10, 12, 3, 1]
    """
    one = p * (p + 1) // 2
    return {"full": K * one, "tied": one, "diag": K * p, "spherical": K, "shared": 1}[kind]


# Missing cells.


@dataclass(frozen=True, eq=False)
class Pattern:
    """Some rows that observe the same columns."""

    observed: Array
    missing: Array
    rows: Array


def patterns_of(X: Array) -> tuple[Pattern, ...]:
    """The rows with missing cells (NaN), grouped by which; empty for a complete table.

    >>> [p.observed.tolist() for p in patterns_of(np.array([[1.0, np.nan], [1.0, 2.0], [np.nan, 1.0]]))]
    [[0], [1]]
    """
    mask = np.isnan(X)
    some = np.flatnonzero(mask.any(axis=1))
    if not some.size:
        return ()
    kinds, which = np.unique(mask[some], axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    bounds = np.cumsum(np.bincount(which.ravel(), minlength=len(kinds)))[:-1]
    return tuple(
        Pattern(np.flatnonzero(~kind), np.flatnonzero(kind), part)
        for kind, rows in zip(kinds, np.split(some[order], bounds), strict=True)
        for part in np.split(rows, range(TOGETHER, len(rows), TOGETHER))
    )


@dataclass(frozen=True, eq=False)
class Seen:
    """Components as rows with one pattern see them."""

    pattern: Pattern
    law: Gaussians
    slope: Array
    left: Array
    """A_k (K, m, o), and the covariance of the missing cells given the observed ones, (K, m, m) or (K, m)."""


def see(law: Gaussians, pattern: Pattern) -> Seen:
    """Components as rows with one pattern see them."""
    K, p = law.means.shape
    o, m = pattern.observed, pattern.missing
    means = law.means[:, o]
    if law.kind not in WITH_PRODUCTS:
        whiten = law.whiten[:, o]
        part = Gaussians("diag", means, 1 / whiten**2, whiten, _log_norm(whiten))
        return Seen(pattern, part, np.zeros((K, m.size, o.size)), 1 / law.whiten[:, m] ** 2)
    full = law.covariances.reshape(-1, p, p)
    whiten = _inverse_factors(full[:, o[:, None], o]) if o.size else np.zeros((len(full), 0, 0))
    between = full[:, m[:, None], o]
    slope = between @ whiten.transpose(0, 2, 1) @ whiten
    left = full[:, m[:, None], m] - slope @ between.transpose(0, 2, 1)
    log_norm = np.broadcast_to(_log_norm(np.einsum("kii->ki", whiten)), (K,)).copy()
    part = Gaussians(law.kind, np.ascontiguousarray(means), full, whiten, log_norm)
    slope, left = (np.broadcast_to(one, (K, *one.shape[1:])) for one in (slope, left))
    return Seen(pattern, part, slope, left)


def _log_norm(diagonal: Array) -> Array:
    return np.asarray(np.log(diagonal).sum(axis=1) - 0.5 * diagonal.shape[1] * np.log(2 * np.pi))


# Densities.


def log_densities(Z: Array, law: Gaussians, patterns: Sequence[Pattern] = (), *, n_jobs: int | None = None) -> Array:
    """log N(z_i; mu_k, Sigma_k), (n, K); NaN is integrated out where `patterns_of(Z)` is passed.

    >>> law = gaussians("diag", np.zeros((1, 2)), np.ones((1, 2)))
    >>> Z = np.array([[0.0, 0.0], [0.0, np.nan]])
    >>> log_densities(Z, law, patterns_of(Z)).round(4).tolist()
    [[-1.8379], [-0.9189]]
    """
    out = np.empty((len(Z), len(law.means)))

    def span(start: int) -> None:
        fill_densities(Z[start : start + SPAN], law, out[start : start + SPAN])

    parallel(span, range(0, len(Z), SPAN), n_jobs=n_jobs, work=float(Z.size) * len(law.means))
    for pattern in patterns:
        some = np.empty((pattern.rows.size, len(law.means)))
        seen = np.ascontiguousarray(Z[pattern.rows[:, None], pattern.observed])
        fill_densities(seen, see(law, pattern).law, some)
        out[pattern.rows] = some
    return out


def fill_densities(Z: Array, law: Gaussians, out: Array) -> None:
    """The same for complete C-ordered rows, into `out`."""
    fill = whitened_distances if law.kind in WITH_PRODUCTS else scaled_distances
    fill(Z, law.means, law.whiten, law.log_norm, out)


# Sums.


@dataclass(frozen=True, eq=False)
class Sums(Stateful):
    """What each component explains: weight (K,), mean (K, p) and scatter about it, (K, p, p) or its diagonal (K, p)."""

    weight: Array
    mean: Array
    scatter: Array
    state: ClassVar[Specs] = {
        "weight": floats("k", low=0),
        "mean": floats("k", "p"),
        "scatter": floats("k", "p", "p") | floats("k", "p"),
    }


def merge(a: Sums, b: Sums) -> Sums:
    """The sums of both sets of rows.

    >>> a = Sums(np.array([1.0]), np.array([[0.0]]), np.array([[0.0]]))
    >>> b = Sums(np.array([1.0]), np.array([[2.0]]), np.array([[0.0]]))
    >>> merge(a, b).mean.tolist(), merge(a, b).scatter.tolist()
    ([[1.0]], [[2.0]])
    """
    weight = a.weight + b.weight
    share = np.divide(b.weight, weight, out=np.zeros_like(weight), where=weight > 0)[:, None]
    gap = b.mean - a.mean
    between = a.weight[:, None] * share * gap
    cross = between[:, :, None] * gap[:, None, :] if a.scatter.ndim == 3 else between * gap
    return Sums(weight, a.mean + share * gap, a.scatter + b.scatter + cross)


def scaled(sums: Sums, factor: float) -> Sums:
    """The sums with every row's weight multiplied."""
    return Sums(factor * sums.weight, sums.mean, factor * sums.scatter)


class Tally:
    """Sums about the means of the components that explain the rows, while rows are still being added."""

    def __init__(self, law: Gaussians) -> None:
        K, p = law.means.shape
        self.law = law
        self.weight, self.first = np.zeros(K), np.zeros((K, p))
        self.second = np.zeros((K, p, p) if law.kind in WITH_PRODUCTS else (K, p))

    def add(self, Z: Array, shares: Array) -> None:
        """Complete C-ordered rows with the weight that each component has in them."""
        add = add_products if self.second.ndim == 3 else add_squares
        add(Z, shares, self.law.means, self.weight, self.first, self.second)

    def add_incomplete(self, observed: Array, shares: Array, seen: Seen) -> None:
        """Observed cells of rows of one pattern; the missing ones by their conditional mean and covariance."""
        o, m = seen.pattern.observed, seen.pattern.missing
        total = shares.sum(axis=0)
        self.weight += total
        D = observed - seen.law.means[:, None, :]
        filled = np.zeros((len(total), len(observed), self.law.means.shape[1]))
        filled[:, :, o] = D
        filled[:, :, m] = D @ seen.slope.transpose(0, 2, 1)
        carried = shares.T[:, :, None] * filled
        self.first += carried.sum(axis=1)
        if self.second.ndim == 3:
            self.second += carried.transpose(0, 2, 1) @ filled
            self.second[:, m[:, None], m] += total[:, None, None] * seen.left
        else:
            self.second += (carried * filled).sum(axis=1)
            self.second[:, m] += total[:, None] * seen.left

    def __add__(self, other: Tally) -> Tally:
        both = Tally(self.law)
        both.weight, both.first = self.weight + other.weight, self.first + other.first
        both.second = self.second + other.second
        return both

    def sums(self) -> Sums:
        """About the means of what was added."""
        N = self.weight[:, None]
        shift = np.divide(self.first, N, out=np.zeros_like(self.first), where=N > 0)
        if self.second.ndim == 2:
            scatter = np.maximum(self.second - shift * self.first, 0.0)
        else:
            lower = np.tril(self.second)  # the kernel fills this half only
            scatter = lower + np.tril(lower, -1).transpose(0, 2, 1) - self.first[:, :, None] * shift[:, None, :]
        return Sums(self.weight, self.law.means + shift, scatter)


def weighted_sums(
    Z: Array, shares: Array, law: Gaussians, patterns: Sequence[Pattern] = (), *, n_jobs: int | None = None
) -> Sums:
    """Sums of the rows with `shares` (n, K) of the components `law`, which also says how missing cells are filled.

    >>> Z, law = np.array([[1.0], [3.0]]), gaussians("diag", np.zeros((1, 1)), np.ones((1, 1)))
    >>> weighted_sums(Z, np.ones((2, 1)), law).scatter.tolist()
    [[2.0]]
    """
    incomplete = np.concatenate([pattern.rows for pattern in patterns]) if patterns else np.empty(0, dtype=np.int64)
    if incomplete.size:
        whole = np.ones(len(Z), dtype=bool)
        whole[incomplete] = False
        rows, own = np.ascontiguousarray(Z[whole]), np.ascontiguousarray(shares[whole])
    else:
        rows, own = Z, np.ascontiguousarray(shares)

    def span(start: int) -> Tally:
        tally = Tally(law)
        tally.add(rows[start : start + SPAN], own[start : start + SPAN])
        return tally

    starts = range(0, max(1, len(rows)), SPAN)
    total = reduce(Tally.__add__, parallel(span, starts, n_jobs=n_jobs, work=float(Z.size) * len(law.means)))
    for pattern in patterns:
        total.add_incomplete(Z[pattern.rows[:, None], pattern.observed], shares[pattern.rows], see(law, pattern))
    return total.sums()


# Estimates.


def estimate(kind: str, sums: Sums, floor: Array, previous: Gaussians | None = None) -> tuple[Gaussians, Array]:
    """The components that maximise the likelihood under Sigma_k >= diag(floor), and which of them the floor holds (K,).

    | parameter | default | meaning                                                                                   |
    |-----------|---------|-------------------------------------------------------------------------------------------|
    | kind      |         | one of `KINDS`                                                                            |
    | sums      |         | of the rows                                                                               |
    | floor     |         | (p,): least variance along each column; the mean of it where variances are equal          |
    | previous  | None    | components that explain nothing stay as they were here; None: all must have weight        |

    >>> sums = Sums(np.array([2.0]), np.array([[2.0]]), np.array([[2.0]]))
    >>> law, held = estimate("diag", sums, np.array([1e-6]))
    >>> law.covariances.tolist(), held.tolist()
    ([[1.0]], [False])
    """
    K, p = sums.mean.shape
    N, total = np.where(sums.weight > 0, sums.weight, 1.0), sums.weight.sum()
    if kind == "full":
        covariances, held = _hold(sums.scatter / N[:, None, None], floor)
    elif kind == "tied":
        covariances, held = _hold(sums.scatter.sum(axis=0, keepdims=True) / total, floor)
        covariances = covariances[0]
    elif kind == "diag":
        raw = sums.scatter / N[:, None]
        covariances, held = np.maximum(raw, floor), np.asarray((raw < floor).any(axis=1))
    else:
        spread = sums.scatter.sum(axis=1) / p
        raw = spread / N if kind == "spherical" else np.array([spread.sum() / total])
        covariances, held = np.maximum(raw, floor.mean()), np.asarray(raw < floor.mean())
    means = sums.mean
    empty = sums.weight <= 0
    if previous is not None and empty.any():
        means = np.where(empty[:, None], previous.means, means)
        if kind in ("full", "diag", "spherical"):
            covariances[empty] = previous.covariances[empty]
    return gaussians(kind, means, covariances), np.broadcast_to(held, (K,)) & ~empty


def _hold(covariances: Array, floor: Array) -> tuple[Array, Array]:
    """Covariances (K, p, p) with all variances of at least diag(floor), and which of them were below."""
    held = np.zeros(len(covariances), dtype=bool)
    if not (floor > 0).all():
        return covariances, held
    root = np.sqrt(floor)
    inside = covariances / np.outer(root, root)
    try:
        np.linalg.cholesky(inside - np.eye(len(root)))
        return covariances, held
    except np.linalg.LinAlgError:
        value, vector = np.linalg.eigh(inside)
    held = np.asarray(value[:, 0] < 1.0)
    raised = (vector * np.maximum(value, 1.0)[:, None, :]) @ vector.transpose(0, 2, 1)
    raised = np.outer(root, root) * (raised + raised.transpose(0, 2, 1)) / 2
    return np.where(held[:, None, None], raised, covariances), held
