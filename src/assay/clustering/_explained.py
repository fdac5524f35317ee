"""What principal components explain, with limits; their loadings; rows and columns in one picture.

Bootstrap limits of an explained share t, on the scale of its log odds L = log(t / (1 - t)), with replicates L* of resampled rows:

    L - bias -+ (z sd(L*) + |bias|),     bias = mean(L*) - L

The variances of neighbouring components push each other apart in a sample, and again in a resample: quantiles of t*
then miss the share of the population altogether, and correcting for the bias is what helps (docs/simulations).
Components whose variances are equal have directions that the rows do not determine, and their own shares are
covered less often than the level says (the sum of their shares is); `separated` marks those that stand apart.

Parallel analysis: the variances of tables whose columns are shuffled one by one, so that no two are related. Horn (1965),
Psychometrika 30, 179-185. Efron, Tibshirani (1993), ch. 7, 14.
"""  # noqa: E501  (a formula)

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import special, stats

from assay.clustering._spectrum import divisor
from assay.numbers import figure, fmt, limits
from assay.numerics.seeds import seed_sequence
from assay.numerics.threads import parallel
from assay.results import Result
from assay.state import Specs, floats

__all__ = ["Biplot", "ExplainedVariance", "Loadings", "resample"]

Array = np.ndarray

TINY = 1e-12
SHOWN = 12
"""How many components or columns are printed; tables hold all."""


@dataclass(frozen=True, eq=False, repr=False)
class ExplainedVariance(Result):
    """The share of the variance that each component explains, alone and with those before it, with bootstrap limits.

    `independent` is the `level` quantile of each variance when the columns are shuffled one by one (NaN without
    shuffles) and `n_above` how many leading components have more. `separated` says whether the limits of a component's
    share meet neither those of the one before nor of the next: if they do, these rows do not determine its direction.
    """

    variance: Array
    share: Array
    lower: Array
    upper: Array
    cumulative: Array
    cumulative_lower: Array
    cumulative_upper: Array
    independent: Array
    separated: Array
    level: float
    n: int
    n_resamples: int

    state: ClassVar[Specs] = dict.fromkeys(
        ("variance", "share", "lower", "upper", "cumulative", "cumulative_lower", "cumulative_upper"),
        floats("k", low=0),
    )

    @property
    def n_above(self) -> int:
        """How many leading components explain more than those of unrelated columns."""
        below = ~(self.variance > self.independent)
        return int(np.argmax(below)) if below.any() else self.variance.size

    def to_frame(self) -> pd.DataFrame:
        """One row per component."""
        names = ("variance", "share", "lower", "upper", "cumulative", "cumulative_lower", "cumulative_upper")
        columns = {name: getattr(self, name) for name in (*names, "independent", "separated")}
        return pd.DataFrame(columns, index=[f"pc{j + 1}" for j in range(self.share.size)])

    def __str__(self) -> str:
        head = f"Variance explained by {self.share.size} components, {self.n:,} rows"
        rows = []
        for j in range(min(self.share.size, SHOWN)):
            low, high, sums = self.lower[j], self.upper[j], (self.cumulative_lower[j], self.cumulative_upper[j])
            own = f"{figure(self.share[j], low, high, percent=True)} {limits(low, high, percent=True)}"
            both = f"{figure(self.cumulative[j], *sums, percent=True)} {limits(*sums, percent=True)}"
            rows.append((f"pc{j + 1}", fmt(self.variance[j]), own, both, "yes" if self.separated[j] else "no"))
        table = pd.DataFrame(rows, columns=["", "variance", "share", "with those before", "separated"])
        lines = [head, *table.to_string(index=False).splitlines()]
        if self.share.size > SHOWN:
            lines.append(f"... and {self.share.size - SHOWN} more")
        notes = [f"Limits: {100 * self.level:g}% bootstrap, {self.n_resamples:,} resamples, corrected for bias."]
        if not np.isnan(self.independent).all():
            few = f"{self.n_above} component{'s' if self.n_above != 1 else ''}"
            notes.append(f"Parallel analysis: {few} above the {100 * self.level:g}% limit of unrelated columns.")
        if not self.separated[: SHOWN - 1].all():
            notes.append("Not separated: a neighbour may be as large, so the rows do not determine the direction.")
        rule = "-" * max(map(len, lines))
        return "\n".join([head, rule, *lines[1:], rule, *notes])


@dataclass(frozen=True, eq=False, repr=False)
class Loadings(Result):
    """How each column goes along with each component: v sqrt(variance), the correlation if columns were scaled."""

    loadings: Array
    variance: Array
    share: Array
    names: tuple[str, ...]
    n: int
    scaled: bool

    state: ClassVar[Specs] = {
        "loadings": floats("p", "k"),
        "variance": floats("k", low=0),
        "share": floats("k", low=0),
    }

    def to_frame(self) -> pd.DataFrame:
        """One row per column of the table, one column per component."""
        return pd.DataFrame(self.loadings, index=list(self.names), columns=_names(self.share.size))

    def __str__(self) -> str:
        k = min(self.share.size, 8)
        unit = "correlations with the columns" if self.scaled else "in the units of the columns"
        title = f"Principal components of {self.n:,} rows and {len(self.names):,} columns: loadings, {unit}"
        shares = np.vstack([self.share, np.cumsum(self.share)])[:, :k]
        order = np.argsort(-np.abs(self.loadings[:, :k]).max(axis=1), kind="stable")[: 2 * SHOWN]
        rows = np.sort(order)
        body = pd.DataFrame(self.loadings[rows, :k], index=[self.names[j] for j in rows], columns=_names(k))
        said = pd.concat([body.map(lambda v: fmt(v, 3)), _percent(shares, k)])
        lines = said.to_string(justify="right").splitlines()
        lines.insert(len(body) + 1, "-" * len(lines[0]))
        more = (
            [f"... and {len(self.names) - len(rows)} columns with smaller loadings"]
            if len(self.names) > len(rows)
            else []
        )
        rule = "-" * max(len(title), *map(len, lines))
        return "\n".join([title, rule, *lines, rule, *more]).rstrip("\n")


def _percent(shares: Array, k: int) -> pd.DataFrame:
    said = [[f"{100 * value:.1f}%" for value in row] for row in shares]
    return pd.DataFrame(said, index=["share of variance", "with those before"], columns=_names(k))


def _names(k: int) -> list[str]:
    return [f"pc{j + 1}" for j in range(k)]


@dataclass(frozen=True, eq=False, repr=False)
class Biplot(Result):
    """Rows as points and columns as arrows along two components: arrows point where their column grows."""

    scores: Array
    loadings: Array
    names: tuple[str, ...]
    rows: tuple[str, ...]
    groups: tuple[str, ...]
    share: Array
    axes: tuple[int, int]

    state: ClassVar[Specs] = {"scores": floats("n", 2), "loadings": floats("p", 2), "share": floats(2, low=0)}

    def to_frame(self) -> pd.DataFrame:
        """One row per row of the table: its scores, and its group where there are groups."""
        names = [f"pc{a + 1}" for a in self.axes]
        frame = pd.DataFrame(self.scores, columns=names, index=list(self.rows) or None)
        return frame.assign(group=list(self.groups)) if self.groups else frame

    def __str__(self) -> str:
        one, two = (f"pc{a + 1} ({100 * s:.1f}%)" for a, s in zip(self.axes, self.share, strict=True))
        return f"Biplot of {len(self.scores):,} rows and {len(self.names):,} columns along {one} and {two}"


# Resampling.


def resample(
    X: Array,
    w: Array,
    k: int,
    scaled: bool,
    level: float,
    n_resamples: int,
    n_permutations: int,
    random_state: Any,
    n_jobs: int | None,
) -> ExplainedVariance:
    """The explained shares of the first k components with bootstrap limits and those of unrelated columns."""
    unit = np.abs(X - X.mean(axis=0)).max() or 1.0
    X = (X - np.average(X, axis=0, weights=w)) / unit
    seeds = seed_sequence(random_state).spawn(n_resamples + n_permutations)
    n = len(X)

    def drawn(seed: np.random.SeedSequence) -> Array:
        counts = np.bincount(np.random.default_rng(seed).integers(0, n, n), minlength=n)
        return _variances(X, w * counts, scaled)

    def shuffled(seed: np.random.SeedSequence) -> Array:
        return _variances(np.random.default_rng(seed).permuted(X, axis=0), w, scaled)

    work = n_resamples * X.size * min(X.shape)
    replicates = np.array(parallel(drawn, seeds[:n_resamples], n_jobs=n_jobs, work=work))
    unrelated = np.array(parallel(shuffled, seeds[n_resamples:], n_jobs=n_jobs, work=work))
    variances = _variances(X, w, scaled)
    share, lower, upper = _limits(variances, replicates, level)
    sums, sums_lower, sums_upper = _limits(variances, replicates, level, np.cumsum)
    independent = np.quantile(unrelated, level, axis=0) if n_permutations else np.full(variances.size, np.nan)
    factor = 1.0 if scaled else unit * unit
    gaps = lower[:-1] > upper[1:]
    apart = np.r_[gaps, True] & np.r_[True, gaps]
    own: dict[str, Any] = {"variance": variances * factor, "share": share, "lower": lower, "upper": upper}
    own |= {"cumulative": sums, "cumulative_lower": sums_lower, "cumulative_upper": sums_upper}
    own |= {"independent": independent * factor, "separated": apart}
    own = {name: values[:k] for name, values in own.items()}
    return ExplainedVariance(**own, level=level, n=n, n_resamples=n_resamples)


def _variances(X: Array, w: Array, scaled: bool) -> Array:
    """All component variances, from the side with fewer rows or columns."""
    weight = float(w.sum())
    there = w > 0
    Z = (X[there] - w @ X / weight) * np.sqrt(w[there])[:, None]
    if scaled:
        spread = np.sqrt(np.einsum("ij,ij->j", Z, Z) / divisor(weight))
        Z = Z / np.where(spread > 1e-14 * spread.max(initial=0.0), spread, 1.0)
    G = Z.T @ Z if Z.shape[0] >= Z.shape[1] else Z @ Z.T
    values = np.maximum(np.linalg.eigvalsh(G)[::-1], 0.0) / divisor(weight)
    out = np.zeros(min(X.shape))
    out[: values.size] = values[: out.size]
    return out


def _limits(variances: Array, replicates: Array, level: float, add: Any = np.asarray) -> tuple[Array, Array, Array]:
    """Shares, or their sums, with limits by log odds that are corrected for bias and widened by it."""

    def odds(values: Array) -> tuple[Array, Array]:
        total = np.maximum(values.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
        share = np.apply_along_axis(add, -1, values / total)
        return np.clip(share, 0.0, 1.0), special.logit(np.clip(share, TINY, 1 - TINY))

    (share, own), (_, drawn) = odds(variances), odds(replicates)
    bias, error = drawn.mean(axis=0) - own, drawn.std(axis=0, ddof=1)
    reach = stats.norm.ppf((1 + level) / 2) * error + np.abs(bias)
    lower, upper = special.expit(own - bias - reach), special.expit(own - bias + reach)
    certain = share >= 1 - TINY
    return share, np.where(certain, share, np.minimum(lower, share)), np.where(certain, 1.0, np.maximum(upper, share))
