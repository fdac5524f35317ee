"""Where a model does worse: its figure in the subgroups of a column, and the worst slices of a table.

With L_i the loss of row i, g a slice of n_g rows, m_g the mean loss in it and m_r that of the n_r other rows,

    d_g = m_g - m_r,    e_g^2 = max(s_g^2, s^2) / n_g + s_r^2 / n_r,    t_g = d_g / e_g,

where s^2 is the variance of all losses: a slice whose few losses are alike by chance must not look certain. Many
slices are searched, so one must stand out from the worst that chance alone finds. If the losses have nothing to do
with the columns, every permutation of them over the rows is as likely as the one seen; with M the greatest |t_g| of all
slices in a permutation and c the quantile of M at the level,

    adjusted p_g = (1 + #{M >= |t_g|}) / (1 + B),    limits d_g -+ c e_g.

A slice is called worse where its lower limit is above 0: where no slice is, that happens in at most 1 - level of all
tables, however many slices are searched. The limits hold for all slices together.

Rows that come in groups cannot be permuted one by one. There groups are drawn again with replacement, and each resample
is studentised by its own error,

    t*_g = (d*_g - d_g) / e*_g,    e_g^2 = G / (G - 1) sum over groups of (sum of their influences on d_g)^2,

which makes up for few groups, of which one may hold much of a slice. So that a slice of few groups does not widen the
limits of all others, |t*_g| is turned into the p-value of Student's t with the degrees of freedom that the sizes of
groups leave to the slice, and the least p-value of a resample takes the place of M. Groups of large loss may not be
among those seen: where losses are at least 0, the arms of d_g are no shorter than what follows, for the difference
(MOVER), from limits of both means that allow for a long tail of group sums (`assay.inference.heavy_tails`). What was
measured stands in docs/simulations/subgroups.md.

Cost: B (n m) multiply-adds twice, for m slices; of groups, B (G m) ten times, and two tails per slice. Westfall & Young
(1993), Resampling-Based Multiple Testing; Cameron, Gelbach, Miller (2008), Review of Economics and Statistics 90,
414-427; Zou & Donner (2008), Statistics in Medicine 27, 1693-1702.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from assay.checks import fraction, freeze, whole
from assay.errors import DataError, DataTypeError
from assay.evaluation._workbench import as_table, column_values, names_of
from assay.inference.heavy_tails import mean_limits
from assay.numbers import figure, fmt
from assay.numbers import limits as limits_of
from assay.numerics.seeds import seed_sequence
from assay.results import Interval, Result

__all__ = ["Slices", "Subgroups", "slices", "subgroups"]

Array = np.ndarray
FEW = 6
"""A column of numbers with so few values is taken by its values, any other by its quartiles."""
LEVELS = 40
"""A column with more levels has no subgroups."""
LEAST_GROUPS = 10
"""Fewer groups of rows say nothing about others like them."""
FIGURES = ("mean", "rest", "difference", "lower", "upper", "p_value")
MOST_GROUPS = 400
"""More groups are dealt to so many blocks, which are then the groups: their sums have the same errors."""
BLOCK = 250
"""Permutations or resamples held at a time."""


@dataclass(frozen=True, eq=False, repr=False)
class Slices(Result):
    """Every slice that was searched, the worst first, with limits that hold for all of them together.

    | field                    | meaning                                                               |
    |--------------------------|-----------------------------------------------------------------------|
    | names, columns           | the conditions in words, and the column of each                       |
    | n                        | rows of each slice                                                    |
    | mean, rest               | the mean loss in the slice, and in all other rows                     |
    | difference, lower, upper | mean minus rest, and its simultaneous limits                          |
    | p_value                  | adjusted for all slices that were searched                            |
    | overall, rows            | the mean loss of all rows, and how many there are                     |
    | level, loss, method      | of the limits, what the loss is called, and how the search is allowed |
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    n: Array
    mean: Array
    rest: Array
    difference: Array
    lower: Array
    upper: Array
    p_value: Array
    overall: float
    rows: int
    level: float
    loss: str
    method: str

    def __len__(self) -> int:
        return len(self.names)

    @property
    def worse(self) -> Array:
        """Positions of the slices shown to be worse than the other rows."""
        return np.flatnonzero(self.lower > 0)

    def to_frame(self) -> pd.DataFrame:
        """One row per slice, the worst first."""
        names = ("n", "mean", "rest", "difference", "lower", "upper", "p_value")
        figures = {name: getattr(self, name) for name in names}
        return pd.DataFrame(figures, index=pd.Index(self.names, name="slice"))

    def __str__(self) -> str:
        title = f"{len(self)} slices of {self.rows:,} rows searched, {len(self.worse)} shown to be worse"
        body = self.to_frame().head(10).to_string(float_format=fmt, index_names=False)
        note = (
            f"{100 * self.level:g}% limits of all slices together ({self.method}); mean {self.loss} {fmt(self.overall)}"
        )
        return "\n".join([title, body, note])


@dataclass(frozen=True, eq=False, repr=False)
class Subgroups(Result):
    """A figure in each subgroup of a column, with its interval, and how its losses differ from those of other rows.

    | field      | meaning                                                                             |
    |------------|-------------------------------------------------------------------------------------|
    | column     | whose values make the subgroups                                                     |
    | intervals  | the figure in each subgroup, by its name; each interval holds for itself            |
    | slices     | the mean losses compared with the other rows, with limits that hold together        |
    """

    column: str
    intervals: Mapping[str, Interval]
    slices: Slices

    def to_frame(self) -> pd.DataFrame:
        """One row per subgroup: rows, the figure and its limits, the difference of the mean loss and its limits."""
        rows = [(one.estimate, one.lower, one.upper) for one in self.intervals.values()]
        index = pd.Index(list(self.intervals), name=self.column)
        frame = pd.DataFrame(rows, index=index, columns=["estimate", "lower", "upper"])
        other = self.slices.to_frame().rename(columns={"lower": "difference_lower", "upper": "difference_upper"})
        return frame.join(other[["n", "difference", "difference_lower", "difference_upper", "p_value"]])

    def __str__(self) -> str:
        first = next(iter(self.intervals.values()))
        width = max(len(name) for name in self.intervals)
        lines = [f"{first.estimand} by {self.column}, {100 * first.level:g}% intervals ({first.method})"]
        for name, one in self.intervals.items():
            shown = f"{figure(one.estimate, one.lower, one.upper)} {limits_of(one.lower, one.upper)}"
            lines.append(f"{name:<{width}}  {shown}  n = {one.n:,}")
        return "\n".join(lines)


def slices(
    losses: Any,
    frame: Any,
    *,
    groups: Any = None,
    loss: str = "loss",
    least: int = 20,
    level: float = 0.95,
    n_permutations: int = 999,
    random_state: Any = 0,
) -> Slices:
    """Search the slices of a table for rows with greater losses, corrected for the search.

        d_g = mean loss in the slice - mean loss of all other rows,    limits d_g -+ c e_g  for all slices together

    | parameter      | default | range              | meaning                                                     |
    |----------------|---------|--------------------|-------------------------------------------------------------|
    | losses         |         | one per row        | of predictions by models that had not seen the row          |
    | frame          |         | a table            | numbers are sliced at their quartiles, others by their levels |
    | groups         | None    | one per row        | rows that belong together: whole groups are then the units  |
    | loss           | "loss"  | text               | what the loss is called                                     |
    | least          | 20      | 2 or more          | rows that a slice must have, and leave                      |
    | level          | 0.95    | (0, 1)             | of the limits; 1 - level is the chance of a false claim     |
    | n_permutations | 999     | 19 or more         | permutations, or resamples of groups                        |
    | random_state   | 0       | seed               | of them                                                     |

    Westfall & Young (1993), Resampling-Based Multiple Testing.

    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"age": rng.uniform(20, 80, 400), "town": rng.choice(["Ulm", "Bonn"], 400)})
    >>> found = slices(rng.exponential(1.0 + (frame["town"] == "Ulm")), frame)
    >>> [found.names[k] for k in found.worse]
    ['town = Ulm']
    """
    level, least = fraction(level, "level"), whole(least, "least", 2)
    draws = whole(n_permutations, "n_permutations", 19)
    L = np.asarray(losses, dtype=float)
    frame = _frame(frame)
    if L.ndim != 1 or L.size != len(frame) or not np.isfinite(L).all():
        message = f"losses of shape {L.shape} do not fit a table of {len(frame):,} rows, or are not finite"
        raise DataError(message, remedy="pass one finite loss per row")
    codes = None if groups is None else pd.factorize(np.asarray(groups), use_na_sentinel=False)[0]
    if codes is not None and codes.size != len(frame):
        raise DataError(f"groups has {codes.size} entries for {len(frame):,} rows", remedy="pass one group per row")
    found = [cut for name in frame.columns for cut in conditions(frame[name], str(name))]
    found = _distinct([cut for cut in found if _large(cut[2], least, codes)])
    rng = np.random.default_rng(seed_sequence(random_state))
    return _searched(L, found, codes, loss, level, draws, rng)


def subgroups(
    by: Any,
    interval: Callable[[Array], Interval],
    losses: Any,
    *,
    groups: Any = None,
    loss: str = "loss",
    least: int = 20,
    level: float = 0.95,
    random_state: Any = 0,
) -> Subgroups:
    """A figure in each subgroup of one column: its values, or quartiles of numbers.

    | parameter    | default | range                     | meaning                                                  |
    |--------------|---------|---------------------------|----------------------------------------------------------|
    | by           |         | a column                  | one value per row                                        |
    | interval     |         | rows -> `Interval`        | the figure of the rows at these positions                |
    | losses       |         | one per row               | to compare each subgroup with all other rows (`slices`)  |
    | groups       | None    | one per row               | rows that belong together                                |
    | loss         | "loss"  | text                      | what the loss is called                                  |
    | least        | 20      | 2 or more                 | rows of a subgroup; smaller ones are left out            |
    | level        | 0.95    | (0, 1)                    | of the limits of differences                             |
    | random_state | 0       | seed                      | of the permutations                                      |

    >>> from assay.metrics import mae
    >>> y, x = np.arange(80.0), np.arange(80.0) + np.tile([1.0, -3.0], 40)
    >>> town = pd.Series(np.tile(["Ulm", "Bonn"], 40), name="town")
    >>> found = subgroups(town, lambda rows: mae.interval(y[rows], x[rows]), np.abs(y - x))
    >>> found.to_frame()["estimate"].to_dict()
    {'town = Bonn': 3.0, 'town = Ulm': 1.0}
    """
    if np.ndim(by) != 1:
        raise DataError(f"by has {np.ndim(by)} dimensions", remedy="pass one column, such as table['town']")
    by = by if isinstance(by, pd.Series) else pd.Series(np.asarray(by), name=getattr(by, "name", None))
    name = "subgroup" if by.name is None else str(by.name)
    compared = slices(
        losses, by.to_frame(name), groups=groups, loss=loss, least=least, level=level, random_state=random_state
    )
    if not len(compared):
        raise DataError(
            f"column {name!r} has no two subgroups of at least {least} rows",
            remedy="choose a column with fewer and larger groups",
        )
    masks = {label: rows for label, _, rows in conditions(by, name)}
    return Subgroups(
        name,
        {label: interval(np.flatnonzero(rows)) for label, rows in masks.items() if label in compared.names},
        compared,
    )


# The slices of a column.


def _frame(table: Any) -> pd.DataFrame:
    """The table as a data frame; arrays have columns x0, x1, ..."""
    if isinstance(table, pd.DataFrame):
        if not table.columns.is_unique:
            name = str(table.columns[table.columns.duplicated()][0])
            raise DataError(f"the table has two columns {name!r}", remedy="rename one of them, or leave it out")
        return table
    if hasattr(table, "to_pandas"):
        return pd.DataFrame(table.to_pandas())
    X = as_table(table)
    return pd.DataFrame({name: column_values(X, j) for j, name in enumerate(names_of(X))}).infer_objects()


def conditions(column: pd.Series, name: str) -> Iterator[tuple[str, str, Array]]:
    """The slices of a column: the condition in words, the column's name, and whether each row fulfils it."""
    missing = column.isna().to_numpy()
    number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    date = pd.api.types.is_datetime64_any_dtype(column)
    if (number or date) and column.nunique() > FEW:
        yield from _quartiles(column, name, missing, _day if date else _number)
    else:
        try:
            codes, levels = pd.factorize(column)
        except TypeError as error:
            what = f"column {name!r} contains {type(column[~missing].iloc[0]).__name__} values"
            raise DataTypeError(what, remedy="leave it out, or convert it to text") from error
        if len(levels) <= LEVELS:
            shown = [_number(one) if number else str(one) for one in levels]
            for k in sorted(range(len(levels)), key=lambda k: levels[k] if number else shown[k]):
                yield f"{name} = {shown[k]}", name, codes == k
    if missing.any():
        yield f"{name} is missing", name, missing


def _quartiles(
    column: pd.Series, name: str, missing: Array, say: Callable[[Any], str]
) -> Iterator[tuple[str, str, Array]]:
    """Four slices of about equal size, or fewer where values are tied."""
    known = column[~missing]
    cuts = list(dict.fromkeys(known.quantile([0.25, 0.5, 0.75], interpolation="lower")))
    there = ~missing
    for low, high in zip([None, *cuts], [*cuts, None], strict=True):
        rows = there.copy()
        rows[there] &= True if low is None else np.asarray(known > low)
        rows[there] &= True if high is None else np.asarray(known <= high)
        if high is None:
            yield f"{name} > {say(low)}", name, rows
        else:
            first = "" if low is None else f"{say(low)} < "
            yield f"{first}{name} ≤ {say(high)}", name, rows


def _number(value: Any) -> str:
    return fmt(value, 4, group=False)


def _day(value: Any) -> str:
    return str(value)[:10]


def _large(rows: Array, least: int, groups: Array | None) -> bool:
    """Whether a slice and what it leaves have enough rows, and enough groups of them."""
    inside = int(rows.sum())
    if min(inside, rows.size - inside) < least:
        return False
    return groups is None or min(np.unique(groups[part]).size for part in (rows, ~rows)) >= LEAST_GROUPS


def _distinct(found: list[tuple[str, str, Array]]) -> list[tuple[str, str, Array]]:
    """Without slices of the same rows as an earlier one, or of exactly the others: both say the same."""
    seen: dict[bytes, tuple[str, str, Array]] = {}
    for one in found:
        key = np.packbits(one[2]).tobytes()
        other = np.packbits(~one[2]).tobytes()
        # Of two levels both are kept: which of them is the worse one is what the reader asks.
        if key not in seen and (other not in seen or seen[other][1] == one[1]):
            seen[key] = one
    return list(seen.values())


# The search.


def _searched(
    L: Array,
    found: list[tuple[str, str, Array]],
    groups: Array | None,
    loss: str,
    level: float,
    draws: int,
    rng: np.random.Generator,
) -> Slices:
    overall, names, columns = float(L.mean()), [one[0] for one in found], [one[1] for one in found]
    common: dict[str, Any] = {"overall": overall, "rows": L.size, "level": level, "loss": loss}
    if not found:
        nothing: dict[str, Any] = dict.fromkeys(FIGURES, np.empty(0))
        return Slices(names=(), columns=(), n=np.empty(0, dtype=int), **nothing, **common, method="no slice")
    inside = np.array([one[2] for one in found], dtype=float).T
    scale = float(np.abs(L - overall).max()) or 1.0
    z = (L - overall) / scale  # squares stay in range
    means, rest, error = _compared(z[None, :], inside)
    mean, other = means[0], rest[0]
    d = mean - other
    if groups is None:
        p, half = _by_rows(z, inside, d, error[0], level, draws, rng)
        arms = np.array([half, half])
        method = f"greatest of {len(found)} slices in {draws} permutations"
    else:
        least = -overall / scale if L.min() >= 0 else None
        p, arms, error = _by_groups(z, inside, groups, d, level, draws, least, rng)
        method = f"greatest of {len(found)} slices in {draws} resamples of {groups.max() + 1} groups"
        method += f" in {MOST_GROUPS} blocks" if groups.max() >= MOST_GROUPS else ""
        error = error[None, :]
    order = np.argsort(-d / np.where(error[0] > 0, error[0], np.inf), kind="stable")
    lower, upper = scale * (d - arms[0]), scale * (d + arms[1])
    figures = (overall + scale * mean, overall + scale * other, scale * d, lower, upper, p)
    ordered: dict[str, Any] = {name: freeze(one[order]) for name, one in zip(FIGURES, figures, strict=True)}
    return Slices(
        names=tuple(names[k] for k in order),
        columns=tuple(columns[k] for k in order),
        n=freeze(inside.sum(axis=0).astype(int)[order]),
        **ordered,
        **common,
        method=method,
    )


def _by_rows(
    z: Array, inside: Array, d: Array, error: Array, level: float, draws: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Adjusted p-values and the arms of the limits, by permutations of rows."""
    greatest = np.sort(_permuted(z, inside, draws, rng))
    t = np.abs(d) / np.where(error > 0, error, np.inf)
    p = (1 + draws - np.searchsorted(greatest, t, side="left")) / (1 + draws)
    few = _few(level, draws)  # so few draws reach the limit that p <= 1 - level
    return p, (float(greatest[draws - few]) if few else np.inf) * error


def _few(level: float, draws: int) -> int:
    return int(np.floor((1 - level) * (draws + 1) * (1 + 1e-12)))


def _compared(z: Array, inside: Array) -> tuple[Array, Array, Array]:
    """Means in and outside each slice and the error of their difference, for each row of losses."""
    n, size = z.shape[1], inside.sum(axis=0)
    total, squares = z.sum(axis=1, keepdims=True), (z**2).sum(axis=1, keepdims=True)
    first, second = z @ inside, (z**2) @ inside
    mean, rest = first / size, (total - first) / (n - size)
    own = np.maximum(second / size - mean**2, 0.0) * size / (size - 1)
    others = np.maximum((squares - second) / (n - size) - rest**2, 0.0) * (n - size) / (n - size - 1)
    every = np.maximum(squares / n - (total / n) ** 2, 0.0) * n / (n - 1)
    return mean, rest, np.sqrt(np.maximum(own, every) / size + others / (n - size))


def _permuted(z: Array, inside: Array, draws: int, rng: np.random.Generator) -> Array:
    """The greatest |t| of all slices, for losses dealt anew to the rows."""
    found = []
    for start in range(0, draws, BLOCK):
        block = rng.permuted(np.tile(z, (min(BLOCK, draws - start), 1)), axis=1)
        mean, rest, error = _compared(block, inside)
        found.append(np.max(np.abs(mean - rest) / np.where(error > 0, error, np.inf), axis=1))
    return np.concatenate(found)


# The search among rows that come in groups.


@dataclass(frozen=True, eq=False)
class _Sides:
    """Sums of losses and numbers of rows of each group in and outside each slice, arrays of (groups, slices)."""

    inside: Array
    n_inside: Array
    outside: Array
    n_outside: Array

    def compared(self, weights: Array) -> tuple[Array, Array]:
        """Differences of means and their errors, for each row of weights of the groups."""
        S, n, C, m = self.inside, self.n_inside, self.outside, self.n_outside
        rows, others = weights @ n, weights @ m
        mean, rest = weights @ S / rows, weights @ C / others
        own = weights @ (S * S) - 2 * mean * (weights @ (S * n)) + mean**2 * (weights @ (n * n))
        other = weights @ (C * C) - 2 * rest * (weights @ (C * m)) + rest**2 * (weights @ (m * m))
        both = weights @ (S * C) - rest * (weights @ (S * m)) - mean * (weights @ (n * C))
        both += mean * rest * (weights @ (n * m))
        G = len(S)
        square = own / rows**2 + other / others**2 - 2 * both / (rows * others)
        return mean - rest, np.sqrt(np.maximum(square, 0.0) * G / (G - 1))


def _by_groups(
    z: Array,
    inside: Array,
    groups: Array,
    d: Array,
    level: float,
    draws: int,
    least: float | None,
    rng: np.random.Generator,
) -> tuple[Array, Array, Array]:
    """Adjusted p-values, the lower and upper arms of the limits, and errors, by resampling of groups.

    `least` is the loss of 0 among the z; None if losses are less.
    """
    groups = groups % MOST_GROUPS
    G = int(groups.max()) + 1
    parts = (inside * z[:, None], inside, (1 - inside) * z[:, None], 1 - inside)
    sides = _Sides(*(_sums(part, groups, G) for part in parts))
    n, m = sides.n_inside.sum(axis=0), sides.n_outside.sum(axis=0)
    influence = (sides.inside - z @ inside / n * sides.n_inside) / n
    influence_outside = (sides.outside - z @ (1 - inside) / m * sides.n_outside) / m
    # Around the means of both sides, and around that of all rows: as for rows, the greater error counts.
    null = sides.inside / n - sides.outside / m
    squares = [((influence - influence_outside) ** 2).sum(axis=0), (null**2).sum(axis=0)]
    error = np.sqrt(np.maximum(*squares) * G / (G - 1))
    shares = (sides.n_inside / n) ** 2 + (sides.n_outside / m) ** 2
    df = np.maximum(shares.sum(axis=0) ** 2 / (shares**2).sum(axis=0) - 1, 1.0)
    smallest = np.sort(_resampled(sides, d, df, draws, rng))
    few = _few(level, draws)
    limit = float(smallest[few - 1]) if few else 0.0
    critical = -special.stdtrit(df, limit / 2)
    if not np.isfinite(critical).all():
        return np.ones(d.size), np.full((2, d.size), np.inf), error
    arms = np.array([critical, critical]) * error
    if least is not None:
        single = max(0.0, 2 * level - 1)  # of each mean: one-sided limits at the level
        arms = np.maximum(arms, _tail_arms(sides, influence, influence_outside, least, single))
    # An arm that allows for the tail is that of a greater error, by which p-values go too.
    reach = arms[(d < 0).astype(int), np.arange(d.size)] / critical
    t = np.abs(d) / np.where(reach > 0, reach, np.inf)
    reached = np.searchsorted(smallest, 2 * special.stdtr(df, -t), side="right")
    return (1 + reached) / (1 + draws), arms, error


def _resampled(sides: _Sides, d: Array, df: Array, draws: int, rng: np.random.Generator) -> Array:
    """The least p-value of all slices in each resample of the groups; 0 where a slice is lost or has no error."""
    G, found = len(sides.inside), []
    for start in range(0, draws, BLOCK):
        weights = rng.multinomial(G, np.full(G, 1 / G), min(BLOCK, draws - start)).astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            there, error = sides.compared(weights)
            t = np.abs(there - d) / error
        found.append((2 * special.stdtr(df, -np.where(np.isnan(t), np.inf, t))).min(axis=1))
    return np.concatenate(found)


def _tail_arms(sides: _Sides, influence: Array, other: Array, least: float, level: float) -> Array:
    """How far a difference of means may be below and above, by the limits of each mean (MOVER)."""
    arms = np.empty((2, influence.shape[1]))
    for k in range(influence.shape[1]):
        (low, high), (low_rest, high_rest) = (
            _tail_limits(sums[:, k], rows[:, k], parts[:, k], least, level)
            for sums, rows, parts in (
                (sides.inside, sides.n_inside, influence),
                (sides.outside, sides.n_outside, other),
            )
        )
        size = np.sqrt((influence[:, k] @ influence[:, k]) * (other[:, k] @ other[:, k]))
        shared = influence[:, k] @ other[:, k] / size if size > 0 else 0.0
        for side, (one, two) in enumerate(((low, high_rest), (high, low_rest))):
            arms[side, k] = np.sqrt(max(one**2 + two**2 - 2 * shared * one * two, 0.0))
    return arms


def _tail_limits(sums: Array, rows: Array, influence: Array, least: float, level: float) -> tuple[float, float]:
    """How far the mean of one side may be below and above, its groups being the units."""
    there = rows > 0
    mean = float(sums.sum() / rows.sum()) - least
    lower, upper = mean_limits(mean + np.count_nonzero(there) * influence[there], level=level)
    return mean - lower, upper - mean


def _sums(values: Array, groups: Array, count: int) -> Array:
    sums = np.zeros((count, values.shape[1]))
    np.add.at(sums, groups, values)
    return sums
