"""Checks of the training rows before anything is learned: what would make the result say more than it may.

Every check has a code, a status ("passed", "found", "not applicable"), a severity and an anchor in docs/checks.md,
where its rule and its thresholds stand. The rules are in `_check_*.py`; those that test correct for the number of
columns (Holm, 0.001), so that a clean table of independent rows seldom raises one: of 2,000 simulated ones none had
anything beyond "info". Nothing here looks at test rows; `compare_parts` in `parts.py` does, after
the seal is open. Cost: a sort or a hash per column; 100,000 x 50 takes two to three seconds.

How many test rows a claim needs, for a margin eps at confidence 1 - delta:

    Hoeffding    n >= log(2 / delta) / (2 eps^2)          any loss in [0, 1], any distribution
    binomial     Wilson's interval at 1/2 is within eps   a share, such as accuracy or coverage

Hoeffding (1963), JASA 58, 13-30; Kaufman et al. (2012), Leakage in data mining, ACM TKDD 6(4); Holm (1979).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from assay.checks import choice, fraction, whole
from assay.errors import DataError
from assay.experiment.checks import cells, leaks
from assay.experiment.checks import rows as about
from assay.experiment.checks import target as counts
from assay.experiment.checks.facts import SEVERITIES, Check, Facts, check_names, idle
from assay.experiment.checks.profile import columns_of, target_of
from assay.experiment.test_set.size import LEAST, Precision
from assay.inference import cohens_h, hoeffding, sample_size
from assay.results import Result

__all__ = ["Check", "Checks", "check_table"]

TASKS = ("regression", "classification")
MARGIN = 0.05
"""The margin that the sample sizes are given for."""
CLOSE = 0.95
"""So large a share of the wanted rows is enough: the margin is the same to two digits."""
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
    cells.sentinel,
    cells.as_text,
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

    def joined(self, check: Check) -> Checks:
        """These checks and one more, in place of an earlier one of its code."""
        return replace(self, entries=(*(one for one in self.entries if one.code != check.code), check))

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
    drop: Sequence[str] = (),
    level: float = 0.95,
    n_test: int | None = None,
    test_groups: int | None = None,
    metric: str | None = None,
    margin: float | None = None,
    left_out: tuple[int, int] = (0, 0),
    reasons: Mapping[str, str] | None = None,
    missing: Mapping[str, Iterable[str]] | None = None,
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
    | drop      | ()      | column names                         | left out; they may still tell of groups and time |
    | level     | 0.95    | (0, 1)                               | confidence of the claim                          |
    | n_test    | None    | whole number >= 0                    | sealed test rows; None: judged by training rows  |
    | test_groups | None  | whole number >= 0                    | groups among them; they are the units with group |
    | metric    | None    | a name                               | what learners are judged by; None: not decided   |
    | margin    | None    | as in `Precision`                    | what figures should be known to; None: by task   |
    | left_out  | (0, 0)  | two whole numbers                    | rows left out for want of a target, of how many  |
    | reasons   | None    | column -> clause, as `Table.reasons` | why columns were taken for what they are         |
    | missing   | None    | column -> texts, as `Table.missing`  | read as missing already; remedies keep them      |

    Kaufman, Rosset, Perlich, Stitelman (2012), Leakage in data mining, ACM TKDD 6(4).

    >>> rng = np.random.default_rng(0)
    >>> size = rng.normal(size=500)
    >>> frame = pd.DataFrame({"size": size, "rate": 2 * size + 1, "price": size + rng.normal(size=500)})
    >>> frame["tax"] = 0.19 * frame["price"]
    >>> found = check_table(frame, dict.fromkeys(frame, "number"), "price", "regression", n_folds=10, n_test=1000)
    >>> print(found)
    Checks of 500 training rows, target 'price': 1 serious, 1 warning
    -----------------------------------------------------------------
    serious  target leakage [leak]
             'tax' alone reaches a rank correlation of 1.0000. Check when each value becomes known; drop
             columns that are recorded after the target.
    warning  duplicate columns [duplicate-columns]
             'size', 'rate' have the same information. Keep one of each: coefficients and importances are
             split among copies.
    passed: groups, time, few-rows, target-values, target-missing, target-tail, sentinel, wide, duplicate-rows,
      contradictions, id, constant, near-constant, sample-size
    not applicable: leak-missing, rare-class, target-balance, as-text, rare-levels, missing-target
    """
    choice(task, "task", TASKS)
    folds = whole(n_folds, "n_folds", 2)
    fraction(level, "level")
    check_names(frame, kinds, [target, *(name for name in (group, time) if name is not None)])
    known = ~np.asarray(frame[target].isna())
    absent = int(frame.shape[0] - known.sum())
    if absent == frame.shape[0]:
        raise DataError(f"the target {target!r} is missing in every row", remedy="choose another target")
    rows = frame if absent == 0 else frame.loc[known]
    if task == "regression" and not pd.api.types.is_numeric_dtype(rows[target].dtype):
        message = f"the target {target!r} is not numeric"
        raise DataError(message, remedy="use task='classification', or convert it")
    leave = frozenset(name for name in (target, group) if name is not None)
    facts = Facts(
        columns=columns_of(rows, {name: kind for name, kind in kinds.items() if name not in set(drop)}, leave),
        dropped=columns_of(rows, {name: kinds[name] for name in drop}, leave),
        target=target_of(rows[target], target, task),
        absent=absent,
        n_folds=folds,
        group=group,
        time=time,
        level=level,
        n_test=None if n_test is None else whole(n_test, "n_test", 0),
        test_groups=None if test_groups is None else whole(test_groups, "test_groups", 0),
        train_groups=None if group is None else int(rows[group].nunique(dropna=False)),
        metric=metric,
        margin=margin,
        left_out=left_out,
        reasons=dict(reasons or {}),
        missing={name: [text for text in texts if text] for name, texts in (missing or {}).items()},
    )
    entries = (*(rule(facts) for rule in RULES), _sample_size(facts))
    return Checks(entries, facts.n, target)


def _sample_size(facts: Facts) -> Check:
    """The rows, or groups, that a figure of the wanted precision needs, as where the size of a test set is chosen."""
    noun = "rows" if facts.group is None else "groups"
    code, title = "sample-size", f"too few {noun} for a precise estimate"
    delta = 1 - facts.level
    sure = int(np.ceil(float(hoeffding(eps=MARGIN, delta=delta))))
    precision, task = Precision(facts.margin, facts.level), facts.target.task
    wanted = precision.units(task)
    detect = sample_size("binomial", effect_size=cohens_h(0.5 + MARGIN, 0.5), alpha=delta, null=0.5)
    which = "training" if facts.n_test is None else "test"
    rows, groups = (facts.n, facts.train_groups) if facts.n_test is None else (facts.n_test, facts.test_groups)
    n = rows if facts.group is None else groups
    if n is None:
        return idle(code, title, "warning", f"the number of {which} groups is not known")
    figure = "a rate" if task == "classification" else "a figure"
    known = f"to know {figure} to about {precision.reached(task, wanted)} takes {wanted:,} {which} {noun}"
    needs = (
        f"{known} at {100 * facts.level:.4g}% confidence; the mean of any loss between 0 and 1 to +-{MARGIN:g} takes "
        f"{sure:,} (Hoeffding), telling 55% from 50% with power 0.8 {detect:,}"
    )
    if n >= CLOSE * wanted:
        return Check(code, title, "passed", "warning", f"{n:,} {which} {noun}; {needs}")
    if n == 0:
        return Check(code, title, "not applicable", "warning", f"no {which} {noun}; {needs}")
    severity = "serious" if n < LEAST else "warning"
    remedy = f"quote every figure with its interval, or collect more {noun}"
    return Check(code, title, "found", severity, f"{known}; there are {n:,}", (), remedy)
