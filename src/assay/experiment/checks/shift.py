"""Covariate shift between training and test rows, after the seal is open: missing values and distributions by column.

All p-values of a table are corrected together (Holm), so that 1 - level is the chance of any false alarm. Cost: a sort
per column. Smirnov (1948), Annals of Mathematical Statistics 19, 279-281; Holm (1979).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import chdtrc
from scipy.stats import fisher_exact, ks_2samp

from assay.checks import fraction, freeze
from assay.experiment.checks.facts import Check, check_names
from assay.experiment.checks.profile import Column, columns_of
from assay.inference import adjust_pvalues
from assay.numbers import fmt
from assay.results import Result, format_p
from assay.words import listed

__all__ = ["PartDifferences", "compare_parts"]

Array = np.ndarray
MATTERS = 0.1
"""A shift between parts (in a distribution function, or in shares) below which it is mentioned but no warning."""


@dataclass(frozen=True, eq=False, repr=False)
class PartDifferences(Result):
    """How far the test rows differ from the training rows, column by column, corrected for all of them together.

    | field             | meaning                                                                                |
    |-------------------|----------------------------------------------------------------------------------------|
    | table             | per column: gaps in both parts, what was compared, distance, p_value, adjusted          |
    | n_train, n_test   | rows of each part                                                                       |
    | level             | 1 - level is the chance of any false alarm over the whole table                         |
    | entries           | two checks, `missing-differs` and `parts-differ`, to stand beside those of `check_table` |
    """

    table: pd.DataFrame
    n_train: int
    n_test: int
    level: float
    entries: tuple[Check, ...]

    @property
    def found(self) -> tuple[Check, ...]:
        """What differs."""
        return tuple(check for check in self.entries if check.status == "found")

    def to_frame(self) -> pd.DataFrame:
        """One row per comparison: column, what, train, test, distance, p_value, adjusted, differs."""
        return self.table.copy()

    def __str__(self) -> str:
        lines = [f"{self.n_train:,} training rows and {self.n_test:,} test rows, Holm at {fmt(1 - self.level)}"]
        lines.append("-" * len(lines[0]))
        lines += [f"{check.status:<15} {check.title}: {check.detail}" for check in self.entries]
        hits = self.table[self.table["differs"]]
        if len(hits):
            shown = hits.head(20).drop(columns="differs")
            shown = shown.assign(p_value=shown["p_value"].map(format_p), adjusted=shown["adjusted"].map(format_p))
            lines += shown.to_string(index=False, float_format=lambda value: fmt(value, 3)).splitlines()
        return "\n".join(lines)


def compare_parts(
    train: pd.DataFrame, test: pd.DataFrame, kinds: Mapping[str, str], *, level: float = 0.95
) -> PartDifferences:
    """Compare training and test rows after the seal is open: gaps, and the distribution of every column.

    Gaps are compared by Fisher's exact test, numbers and dates by the Kolmogorov-Smirnov test, categories by the
    chi-squared test with levels expected fewer than five times pooled; all p-values are corrected together by Holm.
    The distance is the largest difference of the distribution functions, or half the sum of the differences of shares.

    | parameter   | default | range                            | meaning                                       |
    |-------------|---------|----------------------------------|-----------------------------------------------|
    | train, test |         | frames with the columns of kinds | the two parts                                 |
    | kinds       |         | column -> kind                   | what each column holds; ids are left out      |
    | level       | 0.95    | (0, 1)                           | 1 - level: chance of any false alarm          |

    Smirnov (1948), Annals of Mathematical Statistics 19, 279-281; Holm (1979).

    >>> rng = np.random.default_rng(0)
    >>> old = pd.DataFrame({"x": rng.normal(size=300), "z": rng.normal(size=300)})
    >>> new = pd.DataFrame({"x": rng.normal(size=200), "z": rng.normal(1, 1, size=200)})
    >>> [check.columns for check in compare_parts(old, new, {"x": "number", "z": "number"}).found]
    [('z',)]
    """
    fraction(level, "level")
    for part in (train, test):
        check_names(part, kinds, [])
    n, m = len(train), len(test)
    both = pd.concat([train[list(kinds)], test[list(kinds)]], ignore_index=True)
    rows: list[dict[str, Any]] = []
    for column in columns_of(both, kinds, frozenset()):
        if column.kind == "id" or column.levels == 0:
            continue
        rows += _compare_gaps(column, n)
        rows += _compare_values(column, n)
    names = ["column", "what", "train", "test", "distance", "p_value"]
    table = pd.DataFrame(rows, columns=names)
    holm = adjust_pvalues(table["p_value"].to_numpy(), "holm", 1 - level) if len(table) else None
    table["adjusted"] = freeze(np.array(holm.adjusted)) if holm else np.empty(0)
    table["differs"] = holm.rejected if holm else np.empty(0, dtype=bool)
    return PartDifferences(table, n, m, level, tuple(_part_check(table, what) for what in ("gaps", "values")))


def _compare_gaps(column: Column, n: int) -> list[dict[str, Any]]:
    if column.missing == 0:
        return []
    old, new = int(column.gaps[:n].sum()), int(column.gaps[n:].sum())
    m = column.n - n
    p = float(fisher_exact(np.array([[old, n - old], [new, m - new]])).pvalue)
    row = {"column": column.name, "what": "gaps", "train": old / n, "test": new / m}
    return [{**row, "distance": abs(old / n - new / m), "p_value": min(p, 1.0)}]


def _compare_values(column: Column, n: int) -> list[dict[str, Any]]:
    old, new = (part[part >= 0] for part in (column.codes[:n], column.codes[n:]))
    if old.size < 5 or new.size < 5 or column.levels < 2 or column.kind == "text":
        return []
    row: dict[str, Any] = {"column": column.name, "what": "values"}
    if column.ordered:
        values = np.asarray(column.values)
        # The exact law is for numbers without ties, and for ties it can fail.
        distinct = np.unique(np.concatenate([old, new])).size == old.size + new.size
        test = ks_2samp(old, new, method="exact" if distinct and old.size * new.size <= 10_000 else "asymp")
        middle = {k: float(np.nanmedian(part)) for k, part in (("train", values[:n]), ("test", values[n:]))}
        return [{**row, **middle, "distance": float(test.statistic), "p_value": min(1.0, float(test.pvalue))}]
    counts = np.stack([np.bincount(part, minlength=column.levels) for part in (old, new)]).astype(float)
    share = counts / counts.sum(axis=1, keepdims=True)
    top = int(counts.sum(axis=0).argmax())
    distance = 0.5 * float(np.abs(share[0] - share[1]).sum())
    row |= {"train": float(share[0, top]), "test": float(share[1, top]), "distance": distance}
    return [{**row, "p_value": _chi_squared(counts)}]


def _chi_squared(counts: Array) -> float:
    """Of a 2 x k table, levels expected fewer than five times in a part taken together."""
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    rare = (expected < 5).any(axis=0)
    parts = [counts[:, ~rare], counts[:, rare].sum(axis=1, keepdims=True)] if rare.any() else [counts]
    table = np.hstack(parts)
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2:
        return 1.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    return float(chdtrc(table.shape[1] - 1, ((table - expected) ** 2 / expected).sum()))


def _part_check(table: pd.DataFrame, what: str) -> Check:
    code, title = {
        "gaps": ("missing-differs", "missing rates that differ between training and test rows"),
        "values": ("parts-differ", "covariate shift between training and test rows"),
    }[what]
    rows = table[table["what"] == what]
    if rows.empty:
        return Check(code, title, "not applicable", "warning", "nothing to compare")
    hits = rows[rows["differs"]].sort_values("distance", ascending=False)
    if hits.empty:
        return Check(
            code, title, "passed", "warning", f"{len(rows)} columns compared, no corrected p-value is small enough"
        )
    names = tuple(str(name) for name in hits["column"])
    largest = float(hits["distance"].iloc[0])
    severity = "warning" if largest >= MATTERS else "info"
    text = f"{listed(names)} (largest distance {largest:.2f})"
    remedy = (
        "the test score is for rows like the test rows; check what changed, and which of the two new rows will resemble"
    )
    return Check(code, title, "found", severity, text, names, remedy)
