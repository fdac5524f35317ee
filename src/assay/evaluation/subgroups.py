"""Where a model does worse: its figure in the subgroups of a column, and the worst slices of a table.

With L_i the loss of row i, g a slice of n_g rows, m_g the mean loss in it and m_r that of the n_r other rows,

    d_g = m_g - m_r,    e_g^2 = max(s_g^2, s^2) / n_g + s_r^2 / n_r,    t_g = d_g / e_g,

where s^2 is the variance of all losses: a slice whose few losses are alike by chance must not look certain. Many
slices are searched, so one must stand out from the worst that chance alone finds. If the losses have nothing to do
with the columns, every permutation of them over the rows is as likely as the one seen; with M the greatest |t_g| of all
slices in a permutation and c the quantile of M at the level,

    adjusted p_g = (1 + #{M >= |t_g|}) / (1 + B),    limits d_g -+ c e_g.

A slice is called worse where its lower limit is above 0: where no slice is, that happens in at most 1 - level of all
tables, however many slices are searched. The limits hold for all slices together. Rows that come in groups cannot be
permuted one by one: there the sums of influences over groups get random signs, and e_g is made of these sums (the
greater of those around both means and around the common one).

Cost: B (n m) multiply-adds twice, for m slices. Westfall & Young (1993), Resampling-Based Multiple Testing; wild
bootstrap of clusters: Cameron, Gelbach, Miller (2008), Review of Economics and Statistics 90, 414-427.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from assay.checks import fraction, freeze, whole
from assay.errors import DataError
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
BLOCK = 250
"""Permutations held at a time."""


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
    frame: pd.DataFrame,
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
    | frame          |         | one row per loss   | numbers are sliced at their quartiles, others by their levels |
    | groups         | None    | one per row        | rows that belong together: whole groups are then the units  |
    | loss           | "loss"  | text               | what the loss is called                                     |
    | least          | 20      | 2 or more          | rows that a slice must have, and leave                      |
    | level          | 0.95    | (0, 1)             | of the limits; 1 - level is the chance of a false claim     |
    | n_permutations | 999     | 19 or more         | permutations, or random signs of groups                     |
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
    if L.ndim != 1 or L.size != len(frame) or not np.isfinite(L).all():
        message = f"losses of shape {L.shape} do not fit a table of {len(frame):,} rows, or are not finite"
        raise DataError(message, remedy="pass one finite loss per row")
    codes = None if groups is None else pd.factorize(np.asarray(groups), use_na_sentinel=False)[0]
    found = [cut for name in frame.columns for cut in conditions(frame[name], str(name))]
    found = _distinct([cut for cut in found if _large(cut[2], least, codes)])
    rng = np.random.default_rng(seed_sequence(random_state))
    return _searched(L, found, codes, loss, level, draws, rng)


def subgroups(
    by: pd.Series,
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
    name = str(by.name)
    compared = slices(
        losses, by.to_frame(), groups=groups, loss=loss, least=least, level=level, random_state=random_state
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


def conditions(column: pd.Series, name: str) -> Iterator[tuple[str, str, Array]]:
    """The slices of a column: the condition in words, the column's name, and whether each row fulfils it."""
    missing = column.isna().to_numpy()
    number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    date = pd.api.types.is_datetime64_any_dtype(column)
    if (number or date) and column.nunique() > FEW:
        yield from _quartiles(column, name, missing, _day if date else _number)
    else:
        codes, levels = pd.factorize(column)
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
    if groups is None:
        greatest = _permuted(z, inside, draws, rng)
        method = f"greatest of {len(found)} slices in {draws} permutations"
    else:
        error, greatest = _signed(z, inside, groups, draws, rng)
        method = f"greatest of {len(found)} slices in {draws} random signs of {groups.max() + 1} groups"
    mean, other, error = means[0], rest[0], error[0]
    d = mean - other
    t = np.abs(d) / np.where(error > 0, error, np.inf)
    greatest = np.sort(greatest)
    p = (1 + draws - np.searchsorted(greatest, t, side="left")) / (1 + draws)
    few = int(np.floor((1 - level) * (draws + 1) * (1 + 1e-12)))
    half = (float(greatest[draws - few]) if few else np.inf) * error  # reached by so few draws that p <= 1 - level
    order = np.argsort(-d / np.where(error > 0, error, np.inf), kind="stable")
    figures = (overall + scale * mean, overall + scale * other, scale * d, scale * (d - half), scale * (d + half), p)
    ordered: dict[str, Any] = {name: freeze(one[order]) for name, one in zip(FIGURES, figures, strict=True)}
    return Slices(
        names=tuple(names[k] for k in order),
        columns=tuple(columns[k] for k in order),
        n=freeze(inside.sum(axis=0).astype(int)[order]),
        **ordered,
        **common,
        method=method,
    )


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


def _signed(z: Array, inside: Array, groups: Array, draws: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Errors from sums of influences over groups, and the greatest |t| when each group's sum gets a random sign."""
    n, size, count = z.size, inside.sum(axis=0), int(groups.max()) + 1
    first = z @ inside
    mean, rest = first / size, (z.sum() - first) / (n - size)
    weight = inside / size - (1 - inside) / (n - size)
    # Around the means of both sides, and around that of all rows: as above, the greater error counts.
    own = _sums(weight * (z[:, None] - np.where(inside > 0, mean, rest)), groups, count)
    null = _sums(weight * z[:, None], groups, count)
    errors = [np.sqrt((sums**2).sum(axis=0) * count / (count - 1)) for sums in (own, null)]
    signs = rng.choice([-1.0, 1.0], size=(draws, count))
    t = np.abs(signs @ null) / np.where(errors[1] > 0, errors[1], np.inf)
    # Signs alone are too even where groups are few: the t distribution with their degrees of freedom is the wider one.
    t *= np.sqrt((count - 1) / rng.chisquare(count - 1, (draws, 1)))
    return np.maximum(*errors)[None, :], t.max(axis=1)


def _sums(values: Array, groups: Array, count: int) -> Array:
    sums = np.zeros((count, values.shape[1]))
    np.add.at(sums, groups, values)
    return sums
