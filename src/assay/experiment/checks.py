"""Checks of the training rows before anything is learned: what would make the result say more than it may.

Every check has a code, a status ("passed", "found", "not applicable"), a severity and an anchor in docs/checks.md,
where its rule and its thresholds stand. The rules are in `_check_*.py`; those that test correct for the number of
columns (Holm, 0.001), so that a clean table of independent rows seldom raises one: of 2,000 simulated ones none had
anything beyond "info". Nothing here looks at test rows; `compare_parts` does, after the seal
is open. Cost: a sort or a hash per column; 100,000 x 50 takes two to three seconds.

How many test rows a claim needs, for a margin eps at confidence 1 - delta:

    Hoeffding    n >= log(2 / delta) / (2 eps^2)          any loss in [0, 1], any distribution
    binomial     Wilson's interval at 1/2 is within eps   a share, such as accuracy or coverage

Hoeffding (1963), JASA 58, 13-30; Kaufman et al. (2012), Leakage in data mining, ACM TKDD 6(4); Holm (1979).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import chdtrc
from scipy.stats import fisher_exact, ks_2samp

from assay.checks import choice, fraction, freeze, whole
from assay.errors import DataError
from assay.experiment import _check_leaks as leaks
from assay.experiment import _check_rows as about
from assay.experiment import _check_target as counts
from assay.experiment._check_facts import SEVERITIES, Check, Facts, listed
from assay.experiment._profile import Column, columns_of, target_of
from assay.inference import adjust_pvalues, cohens_h, hoeffding, proportion_interval, sample_size
from assay.results import Result, format_p

__all__ = ["Check", "Checks", "PartDifferences", "check_table", "compare_parts"]

Array = np.ndarray
TASKS = ("regression", "classification")
MARGIN = 0.05
"""The margin that the sample sizes are given for."""
MATTERS = 0.1
"""A shift between parts (in a distribution function, or in shares) below which it is mentioned but no warning."""


TOLD_BY_THE_INTERVAL = ("sample-size",)
"""Serious, but no reason to keep a test set sealed: few test rows make a wide interval, and that is what it says."""

RULES: tuple[Callable[[Facts], Check], ...] = (
    leaks.leak,
    leaks.leak_missing,
    about.groups,
    about.time_order,
    counts.rare_class,
    counts.few_rows,
    counts.target_values,
    counts.target_missing,
    counts.target_balance,
    counts.target_tail,
    counts.wide,
    about.duplicate_rows,
    about.contradictions,
    about.duplicate_columns,
    about.ids,
    about.constant,
    about.near_constant,
    counts.rare_levels,
    leaks.missing_target,
)


@dataclass(frozen=True, eq=False, repr=False)
class Checks(Result):
    """All checks of a table, the most pressing first when printed.

    | field   | meaning                                          |
    |---------|--------------------------------------------------|
    | entries | the checks, in a fixed order                     |
    | n       | training rows with a target                      |
    | target  | the name of the target                           |
    """

    entries: tuple[Check, ...]
    n: int
    target: str

    def __iter__(self) -> Iterator[Check]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, code: str) -> Check:
        """The check with a code."""
        for check in self.entries:
            if check.code == code:
                return check
        raise KeyError(code)

    @property
    def found(self) -> tuple[Check, ...]:
        """What was found, the most severe first."""
        hits = [check for check in self.entries if check.status == "found"]
        return tuple(sorted(hits, key=lambda check: -SEVERITIES.index(check.severity)))

    @property
    def serious(self) -> tuple[Check, ...]:
        """What was found and may spoil the result."""
        return tuple(check for check in self.found if check.severity == "serious")

    @property
    def stops(self) -> tuple[Check, ...]:
        """What must be answered for before the test set is opened: serious, and not told by the interval itself."""
        return tuple(check for check in self.serious if check.code not in TOLD_BY_THE_INTERVAL)

    def to_frame(self) -> pd.DataFrame:
        """One row per check: title, status, severity, detail, columns, remedy and anchor."""
        names = ("title", "status", "severity", "detail", "columns", "remedy", "anchor")
        rows = [{name: getattr(check, name) for name in names} for check in self.entries]
        table = pd.DataFrame(rows, index=pd.Index([check.code for check in self.entries], name="code"))
        return table.assign(columns=[", ".join(check.columns) for check in self.entries])

    def __str__(self) -> str:
        tally = {kind: sum(check.severity == kind for check in self.found) for kind in reversed(SEVERITIES)}
        plural = {"warning": "warnings"}
        words = [f"{k} {plural.get(kind, kind) if k > 1 else kind}" for kind, k in tally.items() if k]
        said = ", ".join(words) or "nothing found"
        lines = [f"Checks of {self.n:,} training rows, target {self.target[:40]!r}: {said}"]
        lines.append("-" * len(lines[0]))
        for check in self.found:
            lines.append(f"{check.severity:<8} {check.title} [{check.code}]")
            text = check.detail + (f". {check.remedy[0].upper()}{check.remedy[1:]}." if check.remedy else ".")
            lines += [" " * 9 + line for line in textwrap.wrap(text, 91, break_on_hyphens=False)]
        for status in ("passed", "not applicable"):
            codes = ", ".join(check.code for check in self.entries if check.status == status)
            if codes:
                lines += textwrap.wrap(f"{status}: {codes}", 109, subsequent_indent="  ", break_on_hyphens=False)
        return "\n".join(lines)


def check_table(
    frame: pd.DataFrame,
    kinds: Mapping[str, str],
    target: str,
    task: str,
    *,
    n_folds: int,
    group: str | None = None,
    time: str | None = None,
    level: float = 0.95,
    n_test: int | None = None,
    reasons: Mapping[str, str] | None = None,
) -> Checks:
    """Look at the training rows for what would spoil a claim made from them.

    | parameter | default | range                                | meaning                                          |
    |-----------|---------|--------------------------------------|--------------------------------------------------|
    | frame     |         | a table, as `Table.frame`            | the training rows, never the test rows           |
    | kinds     |         | column -> kind, as `Table.kinds`     | what each column holds                           |
    | target    |         | a column name                        | what is predicted                                |
    | task      |         | "regression" or "classification"     | how                                              |
    | n_folds   |         | whole number >= 2                    | folds of the cross-validation to come            |
    | group     | None    | a column name                        | the column that keeps rows together, if any      |
    | time      | None    | a column name                        | the column that orders rows, if any              |
    | level     | 0.95    | (0, 1)                               | confidence of the claim                          |
    | n_test    | None    | whole number >= 0                    | sealed test rows; None: judged by training rows  |
    | reasons   | None    | column -> clause, as `Table.reasons` | why columns were taken for what they are         |

    Kaufman, Rosset, Perlich, Stitelman (2012), Leakage in data mining, ACM TKDD 6(4).

    >>> rng = np.random.default_rng(0)
    >>> size = rng.normal(size=500)
    >>> frame = pd.DataFrame({"size": size, "rate": 2 * size + 1, "price": size + rng.normal(size=500)})
    >>> frame["tax"] = 0.19 * frame["price"]
    >>> found = check_table(frame, dict.fromkeys(frame, "number"), "price", "regression", n_folds=10, n_test=1000)
    >>> print(found)
    Checks of 500 training rows, target 'price': 1 serious, 1 warning
    -----------------------------------------------------------------
    serious  a column that gives the target away [leak]
             'tax' alone reaches a rank correlation of 1.0000. Ask when each value becomes known; drop
             columns that are written down after the target.
    warning  columns that say the same [duplicate-columns]
             'size', 'rate' hold the same information. Keep one of each: coefficients and importances are
             shared out among copies.
    passed: groups, time, few-rows, target-values, target-missing, target-tail, wide, duplicate-rows,
      contradictions, id, constant, near-constant, sample-size
    not applicable: leak-missing, rare-class, target-balance, rare-levels, missing-target
    """
    choice(task, "task", TASKS)
    folds = whole(n_folds, "n_folds", 2)
    fraction(level, "level")
    _check_names(frame, kinds, [target, *(name for name in (group, time) if name is not None)])
    known = ~np.asarray(frame[target].isna())
    absent = int(frame.shape[0] - known.sum())
    if absent == frame.shape[0]:
        raise DataError(f"the target {target!r} is missing in every row", remedy="name a column that holds it")
    rows = frame if absent == 0 else frame.loc[known]
    if task == "regression" and not pd.api.types.is_numeric_dtype(rows[target].dtype):
        what = f"the target {target!r} does not hold numbers"
        raise DataError(what, remedy="use task='classification', or convert it")
    leave = frozenset(name for name in (target, group) if name is not None)
    facts = Facts(
        columns=columns_of(rows, kinds, leave),
        target=target_of(rows[target], target, task),
        absent=absent,
        n_folds=folds,
        group=group,
        time=time,
        level=level,
        n_test=None if n_test is None else whole(n_test, "n_test", 0),
        reasons=dict(reasons or {}),
    )
    entries = (*(rule(facts) for rule in RULES), _sample_size(facts))
    return Checks(entries, facts.n, target)


def _check_names(frame: Any, kinds: Mapping[str, str], wanted: list[str]) -> None:
    if not isinstance(frame, pd.DataFrame):
        raise DataError("the training rows are not a frame", remedy="pass the frame of read_table(...)")
    if len(frame) == 0:
        raise DataError("there are no training rows", remedy="pass at least one row")
    for name in [*wanted, *kinds]:
        if name not in frame.columns:
            raise DataError(f"the table has no column {name!r}", remedy="check the name, and that kinds fit the table")


def _sample_size(facts: Facts) -> Check:
    """The rows that a claim of +-0.05 needs, and the margin that the rows at hand allow."""
    code, title = "sample-size", "too few rows for the claim wanted"
    delta = 1 - facts.level
    sure = int(np.ceil(float(hoeffding(eps=MARGIN, delta=delta))))
    share = _wilson_size(facts.level)
    detect = sample_size("binomial", effect_size=cohens_h(0.5 + MARGIN, 0.5), alpha=delta, null=0.5)
    example = "accuracy" if facts.target.task == "classification" else "the coverage of intervals"
    n, which = (facts.n, "training") if facts.n_test is None else (facts.n_test, "test")
    needs = (
        f"+-{100 * MARGIN:g} points at {100 * facts.level:.4g}% confidence takes {share:,} rows (binomial), or "
        f"{sure:,} for any loss between 0 and 1 (Hoeffding), and {detect:,} to tell 55% from 50% with power 0.8"
    )
    if n >= share:
        return Check(code, title, "passed", "warning", f"{n:,} {which} rows; {needs}")
    if n == 0:
        return Check(code, title, "not applicable", "warning", f"no {which} rows; {needs}")
    half = proportion_interval(n // 2, n, level=facts.level, method="wilson")
    margin = float(half.upper - half.lower) / 2
    bound = float(hoeffding(n=n, delta=delta))
    plain = (
        f"with {n:,} {which} rows a share such as {example} is known to about +-{100 * margin:.2g} percentage points"
    )
    said = f"{plain} (any loss between 0 and 1 to +-{min(1.0, bound):.2g}, by Hoeffding's bound); {needs}"
    severity = "serious" if n < 30 else "warning"
    return Check(code, title, "found", severity, said, (), "claim no more than the margin, or collect more rows")


def _wilson_size(level: float) -> int:
    """The least even number of rows whose Wilson interval at one half reaches no further than the margin."""
    low, high = 1, 2
    while _reach(high, level) > MARGIN:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _reach(middle, level) <= MARGIN else (middle, high)
    return 2 * high


def _reach(pairs: int, level: float) -> float:
    return float(proportion_interval(pairs, 2 * pairs, level=level, method="wilson").upper) - 0.5


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
        lines = [f"{self.n_train:,} training rows beside {self.n_test:,} test rows, Holm at {1 - self.level:.4g}"]
        lines.append("-" * len(lines[0]))
        lines += [f"{check.status:<15} {check.title}: {check.detail}" for check in self.entries]
        hits = self.table[self.table["differs"]]
        if len(hits):
            shown = hits.head(20).drop(columns="differs")
            shown = shown.assign(p_value=shown["p_value"].map(format_p), adjusted=shown["adjusted"].map(format_p))
            lines += shown.to_string(index=False, float_format=lambda value: f"{value:.3g}").splitlines()
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
        _check_names(part, kinds, [])
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
        "gaps": ("missing-differs", "gaps that differ between training and test rows"),
        "values": ("parts-differ", "columns that differ between training and test rows"),
    }[what]
    rows = table[table["what"] == what]
    if rows.empty:
        return Check(code, title, "not applicable", "warning", "nothing to compare")
    hits = rows[rows["differs"]].sort_values("distance", ascending=False)
    if hits.empty:
        return Check(code, title, "passed", "warning", f"{len(rows)} compared, no corrected p-value is small enough")
    names = tuple(str(name) for name in hits["column"])
    largest = float(hits["distance"].iloc[0])
    severity = "warning" if largest >= MATTERS else "info"
    said = f"{listed(names)} (largest distance {largest:.2f})"
    remedy = (
        "the test score is for rows like the test rows; ask what changed between the two, and which new rows resemble"
    )
    return Check(code, title, "found", severity, said, names, remedy)
