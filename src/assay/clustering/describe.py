"""What clusters are like: means, shares and effect sizes of their columns, silhouettes, and a picture of the plane.

    numbers      d_k = (mean of cluster k - mean of the other rows) / pooled standard deviation          (Cohen's d)
                 eta^2 = variance between the clusters / variance
    categories   h_k = 2 asin sqrt(share in k) - 2 asin sqrt(share in the other rows), level by level     (Cohen's h)
                 Cramér's V = sqrt(chi^2 / (n (min(levels, clusters) - 1)))

Columns that made the clusters differ between them by construction: k-means cuts where it separates most, also through
a single cloud, so a test of those columns rejects whatever the truth is (double dipping), and an interval would be as
wrong. They are described and not tested. Columns that had no part in it may be tested: Welch's analysis of variance for
numbers (eta^2 by permutation where a column does not vary in some cluster), chi-square for categories (by permutation
where cells are few), corrected for their number by Holm's method.

Kriegeskorte et al. (2009), Nature Neuroscience 12, 535-540; Cohen (1988); Welch (1951), Biometrika 38, 330-336.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import sparse, stats

from assay.checks import fraction, sample
from assay.errors import DataError, DataTypeError
from assay.inference import adjust_pvalues
from assay.levels import refuse_kind
from assay.metrics import silhouette, silhouette_samples
from assay.numbers import fmt
from assay.results import Interval, Result, format_p
from assay.state import Specs, array, bools, floats, ints

__all__ = ["ClusterPlane", "ClusterProfile", "Silhouettes", "cluster_plane", "describe_clusters", "silhouettes"]

Array = np.ndarray
SHOWN = 5000
"""Rows drawn in a picture, at most."""
PRINTED, LEVELS = 20, 5
"""Entries printed of each kind of columns, and levels of one column among them, at most."""
DRAWS, CELLS = 1999, 1 << 20
"""Permutations of a test without a formula, and cells of their tables held at a time."""
DOUBLE_DIPPING = (
    "Columns used for the clustering are described without tests or intervals: clusters are cut where these columns "
    "separate most, so a test would reject even for a single cluster (double dipping)."
)


@dataclass(frozen=True, eq=False, repr=False)
class ClusterProfile(Result):
    """Clusters in the words of the table: one entry per column, or per level of a column of categories.

    | field                       | meaning                                                                        |
    |-----------------------------|--------------------------------------------------------------------------------|
    | sizes                       | rows of each cluster                                                           |
    | columns, levels             | column, and level ("" for a column of numbers)                                 |
    | overall, values             | mean or share, over all rows and per cluster (NaN for a cluster without rows)  |
    | effects                     | Cohen's d or h of each cluster against the other rows                          |
    | strength                    | eta^2 or Cramér's V of the column                                              |
    | left_out                    | whether the column had no part in making the clusters                          |
    | p_value, adjusted           | of columns left out, plain and after Holm's correction; NaN for the others     |
    """

    sizes: Array
    columns: tuple[str, ...]
    levels: tuple[str, ...]
    overall: Array
    values: Array
    effects: Array
    strength: Array
    left_out: Array
    p_value: Array
    adjusted: Array

    state: ClassVar[Specs] = {
        "sizes": ints("k"),
        "overall": floats("m"),
        "values": floats("m", "k", finite=False),
        "effects": floats("m", "k", finite=False),
        "strength": floats("m", finite=False),
        "left_out": bools("m"),
        "p_value": floats("m", finite=False),
        "adjusted": floats("m", finite=False),
    }

    def to_frame(self) -> pd.DataFrame:
        """One row per column or level: mean or share overall and per cluster, effect sizes, strength, p-values."""
        index = pd.MultiIndex.from_arrays([list(self.columns), list(self.levels)], names=["column", "level"])
        frame = pd.DataFrame({"overall": self.overall, "strength": self.strength}, index=index)
        for k in range(len(self.sizes)):
            frame[f"cluster {k}"] = self.values[:, k]
        for k in range(len(self.sizes)):
            frame[f"effect {k}"] = self.effects[:, k]
        if self.left_out.any():
            frame["left_out"], frame["p_value"], frame["adjusted"] = self.left_out, self.p_value, self.adjusted
        return frame

    def names(self) -> list[str]:
        """Columns, with their levels where they have some."""
        return [f"{c} = {v}" if v else c for c, v in zip(self.columns, self.levels, strict=True)]

    def strongest(self, most: int, *, left_out: bool = False) -> list[int]:
        """At most so many entries of the columns that made the clusters, or were left out, to be printed or drawn.

        The strongest columns come first, and of each at most five levels, those with the largest effects.
        """
        largest = np.max(np.nan_to_num(np.abs(self.effects)), axis=1)
        rows = np.flatnonzero(self.left_out == left_out).tolist()
        rows = sorted(rows, key=lambda i: (-self.strength[i], self.columns[i], -largest[i]))
        names = [self.columns[i] for i in rows]
        return [i for at, i in enumerate(rows) if names[:at].count(names[at]) < LEVELS][:most]

    def __str__(self) -> str:
        k = len(self.sizes)
        title = f"{k} cluster{'s' if k > 1 else ''} of {', '.join(f'{size:,}' for size in self.sizes)} rows"
        lines = [title]
        for name, out in (
            ("columns used for the clustering", False),
            ("other columns, tested", True),
        ):
            shown = self.strongest(PRINTED, left_out=out)
            if not shown:
                continue
            left = int(np.count_nonzero(self.left_out == out)) - len(shown)
            more = [f"... and {left} more columns or levels: to_frame() has all"] if left else []
            frame = pd.DataFrame({"column": [self.names()[i] for i in shown]})
            frame["overall"] = [fmt(self.overall[i], 3) for i in shown]
            for j in range(k):
                frame[f"cluster {j}"] = [_value(self.values[i, j], self.effects[i, j]) for i in shown]
            frame["strength"] = [f"{self.strength[i]:.2f}" for i in shown]
            if out:
                frame["adjusted p"] = [format_p(self.adjusted[i]) for i in shown]
            table = frame.to_string(index=False).splitlines()
            lines += ["-" * max(len(line) for line in table), name, *table, *more]
        lines += ["Means or shares (effect: Cohen's d or h against the other rows); strength: eta^2 or Cramér's V."]
        if (~self.left_out).any():
            lines.append(DOUBLE_DIPPING)
        return "\n".join(lines)


def _value(value: float, effect: float) -> str:
    """A mean or share and its effect size, where there are such."""
    if np.isnan(value):
        return "-"
    return fmt(value, 3) if np.isnan(effect) else f"{fmt(value, 3)} ({effect:+.2f})"


def describe_clusters(X: Any, labels: Any, *, left_out: Any = None, alpha: float = 0.05) -> ClusterProfile:
    """Describe clusters by the columns that made them and, with tests, by columns that had no part in it.

    | parameter | default | range                    | meaning                                                     |
    |-----------|---------|--------------------------|-------------------------------------------------------------|
    | labels    |         | one whole number per row | the clusters, from 0 on                                     |
    | left_out  | None    | table of the same rows   | columns that were not used for clustering; these are tested |
    | alpha     | 0.05    | (0, 1)                   | level of Holm's correction over the columns left out        |

    Tables may hold numbers and categories (text, booleans, categoricals); missing values are left out column by column.

    >>> import pandas as pd
    >>> X = pd.DataFrame({"height": [1.0, 1.2, 3.0, 3.2], "colour": ["red", "red", "blue", "red"]})
    >>> found = describe_clusters(X, [0, 0, 1, 1])
    >>> found.to_frame()["cluster 1"].round(2).to_dict()
    {('height', ''): 3.1, ('colour', 'blue'): 0.5, ('colour', 'red'): 0.5}
    >>> bool(np.isnan(found.p_value).all())
    True
    """
    alpha = fraction(alpha, "alpha")
    codes = np.asarray(labels)
    if codes.ndim != 1 or codes.dtype.kind not in "iu" or not codes.size or codes.min() < 0:
        what = "labels must be cluster numbers, one per row"
        raise DataError(what, remedy="pass whole numbers from 0 on, as labels_ of a clustering has them")
    if codes.max() > codes.size:
        what = f"labels reach {codes.max()}, but there are {codes.size} rows"
        raise DataError(what, remedy="number them anew: labels = np.unique(labels, return_inverse=True)[1]")
    used = _entries(_frame(X, "X", len(codes)), codes, test=False)
    others = [] if left_out is None else _entries(_frame(left_out, "left_out", len(codes)), codes, test=True)
    entries = used + others
    if not entries:
        raise DataError("X has no column that can be described", remedy="pass numbers or categories")
    p = np.array([entry.p_value for entry in entries])
    adjusted = np.full(len(p), np.nan)
    tested = np.isfinite(p)
    firsts = np.array([entry.first for entry in entries]) & tested
    if firsts.any():
        holm = adjust_pvalues(p[firsts], method="holm", alpha=alpha).adjusted
        adjusted[tested] = holm[np.cumsum(firsts)[tested] - 1]  # the levels of a column share its p-value
    return ClusterProfile(
        sizes=np.bincount(codes),
        columns=tuple(entry.column for entry in entries),
        levels=tuple(entry.level for entry in entries),
        overall=np.array([entry.overall for entry in entries]),
        values=np.array([entry.values for entry in entries]),
        effects=np.array([entry.effects for entry in entries]),
        strength=np.array([entry.strength for entry in entries]),
        left_out=np.arange(len(entries)) >= len(used),
        p_value=p,
        adjusted=adjusted,
    )


@dataclass
class _Entry:
    column: str
    level: str
    overall: float
    values: Array
    effects: Array
    strength: float
    p_value: float = np.nan
    first: bool = True


def _frame(X: Any, name: str, n: int) -> pd.DataFrame:
    if sparse.issparse(X):
        raise DataTypeError(f"{name} is sparse", remedy=f"pass {name}.toarray(), or a part of its rows and columns")
    frame = X.to_frame() if isinstance(X, pd.Series) else X if isinstance(X, pd.DataFrame) else pd.DataFrame(X)
    frame = frame.infer_objects()  # columns of an array of numbers beside text
    if len(frame) != n:
        raise DataError(f"{name} has {len(frame)} rows, but there are {n} labels", remedy="pass one label per row")
    if not isinstance(X, pd.DataFrame | pd.Series):
        frame.columns = [f"x{j}" for j in range(frame.shape[1])]
    return frame


def _entries(frame: pd.DataFrame, codes: Array, *, test: bool) -> list[_Entry]:
    out: list[_Entry] = []
    for at, name in enumerate(frame.columns):
        column = frame.iloc[:, at]
        there = ~np.asarray(pd.isna(column))
        if not there.any():
            continue
        kept, own = column[there], codes[there]
        refuse_kind(column.dtype.kind, f"column {str(name)!r}")
        numeric = pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)
        k = int(codes.max()) + 1
        make = _numbers if numeric else _categories
        out += make(str(name), kept, own, k, test=test)
    return out


def _numbers(name: str, column: pd.Series, codes: Array, k: int, *, test: bool) -> list[_Entry]:
    x = column.to_numpy(dtype=np.float64)
    if not np.isfinite(x).all():
        what = f"column {name!r} contains inf in row {column.index[int(np.argmin(np.isfinite(x)))]}"
        raise DataError(what, remedy="replace it by a finite number, or by NaN to leave it out")
    sizes = np.bincount(codes, minlength=k)
    overall, total = float(x.mean()), float(((x - x.mean()) ** 2).sum())
    means = np.bincount(codes, x, minlength=k) / np.maximum(sizes, 1)
    inner = np.bincount(codes, (x - means[codes]) ** 2, minlength=k)
    effects = np.empty(k)
    for j in range(k):
        rest = codes != j
        others = x[rest]
        mean = others.mean() if others.size else np.nan
        spread = inner[j] + (((others - mean) ** 2).sum() if others.size else 0.0)
        pooled = np.sqrt(spread / max(x.size - 2, 1))
        effects[j] = (means[j] - mean) / pooled if pooled > 0 and sizes[j] else np.nan
    strength = max(0.0, 1.0 - float(inner.sum()) / total) if total > 0 else 0.0
    p = _equal_means(x, codes) if test and total > 0 else np.nan
    return [_Entry(name, "", overall, np.where(sizes > 0, means, np.nan), effects, strength, p)]


def _equal_means(x: Array, codes: Array) -> float:
    """The p-value of equal means in all clusters: Welch's, or by permutation where a cluster is constant."""
    codes = np.unique(codes, return_inverse=True)[1]
    groups = [x[codes == j] for j in range(int(codes.max()) + 1)]
    if len(groups) < 2:
        return np.nan
    wide = [group for group in groups if group.size > 1]
    if len(wide) > 1 and all(np.ptp(group) > 0 for group in wide):
        return float(stats.f_oneway(*wide, equal_var=False).pvalue)
    sizes, centred, rng = np.bincount(codes), x - x.mean(), np.random.default_rng(0)
    between = [(np.bincount(codes, rng.permutation(centred)) ** 2 / sizes).sum() for _ in range(DRAWS)]
    observed = float((np.bincount(codes, centred) ** 2 / sizes).sum())
    return float((1 + np.count_nonzero(np.array(between) >= observed * (1 - 1e-9))) / (DRAWS + 1))


def _categories(name: str, column: pd.Series, codes: Array, k: int, *, test: bool) -> list[_Entry]:
    text = column.astype(str).to_numpy()
    levels, at = np.unique(text, return_inverse=True)
    counts = np.zeros((len(levels), k))
    np.add.at(counts, (at, codes), 1.0)
    sizes = counts.sum(axis=0)
    n = sizes.sum()
    expected = np.outer(counts.sum(axis=1), sizes) / n
    held = expected[:, sizes > 0]
    chi2 = float(((counts[:, sizes > 0] - held) ** 2 / held).sum())
    ways = min(len(levels), int((sizes > 0).sum())) - 1
    strength = float(np.sqrt(chi2 / (n * ways))) if ways > 0 else 0.0
    p = _chi_square(counts[:, sizes > 0], held) if test and ways > 0 else np.nan
    inside = np.where(sizes > 0, counts / np.maximum(sizes, 1), np.nan)
    outside = (counts.sum(axis=1)[:, None] - counts) / np.maximum(n - sizes, 1)
    effects = 2 * np.arcsin(np.sqrt(inside)) - 2 * np.arcsin(np.sqrt(outside))
    effects[:, (sizes == 0) | (sizes == n)] = np.nan
    overall = counts.sum(axis=1) / n
    return [
        _Entry(name, str(level), float(overall[i]), inside[i], effects[i], strength, p, first=i == 0)
        for i, level in enumerate(levels)
    ]


def _chi_square(counts: Array, expected: Array) -> float:
    if expected.min() >= 5:
        return float(stats.chi2_contingency(counts, correction=False).pvalue)
    law, rng = stats.random_table(counts.sum(axis=1), counts.sum(axis=0)), np.random.default_rng(0)
    observed, hits, block = (counts**2 / expected).sum() * (1 - 1e-12), 0, max(1, CELLS // counts.size)
    for first in range(0, DRAWS, block):
        tables = law.rvs(min(block, DRAWS - first), random_state=rng)
        hits += int(np.count_nonzero((tables**2 / expected).sum(axis=(1, 2)) >= observed))
    return float((1 + hits) / (DRAWS + 1))


@dataclass(frozen=True, eq=False, repr=False)
class Silhouettes(Result):
    """The silhouette of every row, its cluster, and the mean with its interval."""

    values: Array
    labels: Array
    mean: Interval

    state: ClassVar[Specs] = {"values": floats("n", low=-1, high=1), "labels": ints("n")}

    def to_frame(self) -> pd.DataFrame:
        """One row per row of the table."""
        return pd.DataFrame({"cluster": self.labels, "silhouette": self.values})

    def __str__(self) -> str:
        parts = self.to_frame().groupby("cluster")["silhouette"]
        table = pd.DataFrame(
            {"rows": parts.size(), "mean": parts.mean(), "share below 0": parts.agg(lambda v: (v < 0).mean())}
        )
        lines = table.to_string(float_format=lambda value: f"{value:.2f}").splitlines()
        return "\n".join([str(self.mean), *(line.rstrip() for line in lines)])


def silhouettes(X: Any, labels: Any) -> Silhouettes:
    """The silhouettes of all rows under clusters, to print and to draw.

    | parameter | range                    | meaning      |
    |-----------|--------------------------|--------------|
    | labels    | one whole number per row | the clusters |

    >>> print(silhouettes([[0.0], [1.0], [9.0], [10.0]], [0, 0, 1, 1]).mean)
    silhouette 0.8885 [0.8815, 0.8956] (95% delta interval, n = 4)
    """
    return Silhouettes(
        silhouette_samples(X, labels), np.asarray(labels).astype(np.int64), silhouette.interval(X, labels)
    )


@dataclass(frozen=True, eq=False, repr=False)
class ClusterPlane(Result):
    """Rows and centres in a plane: two columns, or the first two principal axes with their shares of the variance."""

    points: Array
    labels: Array
    centres: Array
    axes: tuple[str, ...]

    state: ClassVar[Specs] = {
        "points": floats("n", 2),
        "labels": array(np.int64, "n", low=0),
        "centres": floats("k", 2),
    }

    def to_frame(self) -> pd.DataFrame:
        """One row per row drawn."""
        frame = pd.DataFrame(self.points, columns=list(self.axes))
        return frame.assign(cluster=self.labels)

    def __str__(self) -> str:
        return f"{len(self.points):,} rows and {len(self.centres)} centres along {self.axes[0]} and {self.axes[1]}"


def cluster_plane(X: Any, labels: Any, centres: Any, names: Any = None) -> ClusterPlane:
    """Where rows and centres lie in the plane, to be drawn; at most 5,000 rows are kept, evenly spaced.

    | parameter | default | range                          | meaning                          |
    |-----------|---------|--------------------------------|----------------------------------|
    | labels    |         | one whole number per row       | the clusters                     |
    | centres   |         | one row per cluster            | their centres                    |
    | names     | None    | one text per column            | names of the columns             |

    >>> cluster_plane([[0.0, 1.0], [2.0, 3.0]], [0, 1], [[0.0, 1.0], [2.0, 3.0]])
    2 rows and 2 centres along x0 and x1
    """
    (rows, known), (C, _), codes = sample(X, "X"), sample(centres, "centres"), np.asarray(labels)
    if C.shape[1] != rows.shape[1] or codes.shape != (len(rows),):
        what = f"X has {len(rows)} rows and {rows.shape[1]} columns, centres {C.shape[1]} columns, labels {codes.shape}"
        raise DataError(what, remedy="pass one label per row, and centres of the same columns")
    names = names if names is not None else known if isinstance(X, pd.DataFrame) else range(rows.shape[1])
    names = [name if isinstance(name, str) else f"x{name}" for name in names]
    if rows.shape[1] == 1:
        rows, C = np.column_stack([rows, np.zeros(len(rows))]), np.column_stack([C, np.zeros(len(C))])
        names = [names[0], ""]
    elif rows.shape[1] > 2:
        middle = rows.mean(axis=0)
        _, s, V = np.linalg.svd(rows - middle, full_matrices=False)
        V = V * np.where(V[np.arange(len(V)), np.abs(V).argmax(axis=1)] < 0, -1.0, 1.0)[:, None]
        share = s**2 / max(float((s**2).sum()), 1e-300)
        rows, C = (rows - middle) @ V[:2].T, (C - middle) @ V[:2].T
        names = [f"principal axis {a + 1} ({share[a]:.0%} of the variance)" for a in range(2)]
    step = max(1, -(-len(rows) // SHOWN))
    return ClusterPlane(np.array(rows[::step]), codes.astype(np.int64)[::step], np.array(C), (names[0], names[1]))
