"""How many clusters: a test of one cloud against several, gap statistic, silhouette, and stability under resampling.

    test         T = max_k (mean_b log W_k^b - log W_k) / sd_b log W_k^b, tables b drawn from one cloud like this table
                 p = (1 + #{T^b >= T}) / (B + 1): the null is a single unimodal cloud with the table's covariance
    gap          gap(k) = mean_b log W_k^b - log W_k, tables b uniform over the box along the principal axes; the
                 first k with gap(k) >= gap(k + 1) - s_{k+1},  s_k = sd_b sqrt(1 + 1/B)
    silhouette   the k with the largest mean silhouette
    stability    halves of the rows are clustered and label all rows: mean adjusted Rand index of pairs of halves, and
                 the share of halves in which gap and silhouette choose each k

W_k is the inertia of the best of several starts. Any table can be cut into k clusters, and one elongated cloud is cut
into the same halves again and again: stability is no evidence of clusters. So the number is 1 unless the test says that
no single cloud would do, and only then do the other figures choose among the rest.

The cloud (see `_cloud`) keeps correlations, skewness, tails and mixed types of columns. Two forms of it are tried,
along the columns and along the principal axes, and both must be refused; with columns of few levels there is only the
first, with very many columns only the second. Small and close clusters may go unseen: the test holds its level on all
tables in docs/simulations/clustering.md, and its power is given there. A single cloud that is curved, or whose spread
in one column depends on another, is not among the clouds of the null, and is often taken for several.
Cost: about 2 K (B + B' + R) fits of at most `max_rows` rows.

Tibshirani, Walther, Hastie (2001), JRSS B 63, 411-423; Rousseeuw (1987); Liu et al. (2008), JASA 103, 1281-1293;
Ben-Hur, Elisseeff, Guyon (2002), Pacific Symposium on Biocomputing 7, 6-17.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist, pdist, squareform

from assay.base import refuse_not_finite
from assay.checks import choice, fraction, freeze, sample, whole
from assay.clustering._cloud import Cloud, few_levels, principal_scores, straighten
from assay.clustering._lloyd import Run, lloyd
from assay.clustering._rows import make_rows
from assay.clustering._starts import plus_plus
from assay.errors import DataError, ParameterError
from assay.metrics import rand_between, silhouette
from assay.numbers import fmt
from assay.numerics.scale import power_of_two
from assay.numerics.seeds import seed_sequence
from assay.numerics.threads import parallel
from assay.results import Result, format_p
from assay.state import Specs, floats, ints

__all__ = ["KChoice", "choose_k"]

Array = np.ndarray
Statistic = Callable[[Array, np.random.Generator], Array]

TEST_ROWS = 1000
"""Rows that the test looks at, at most: its power is not limited by more."""
TEST_K = 6
"""The largest number of clusters that the test looks for: whoever has more of them shows with fewer."""
WIDE = 50
"""Beyond so many columns, or half as many columns as rows, only principal axes are simulated, at most so many."""


@dataclass(frozen=True, eq=False, repr=False)
class KChoice(Result):
    """How many clusters, and what speaks for each number.

    | field                             | meaning                                                                  |
    |-----------------------------------|--------------------------------------------------------------------------|
    | chosen                            | the number: 1 unless one cloud is refused, else what `rule` says           |
    | choices                           | what each rule would say: gap, silhouette, stability                      |
    | ks, inertia                       | numbers tried, and the inertia reached with each                          |
    | p_value, statistic, alpha         | the test of one cloud against several, and its level                      |
    | gap, gap_error                    | gap statistic, and its s_k                                                |
    | silhouette, ..._lower, ..._upper  | mean silhouette with its 95% interval; NaN for k = 1                      |
    | agreement, ..._lower, ..._upper   | mean adjusted Rand index between halves, 95% interval over resamples      |
    | share_gap, share_silhouette       | the share of halves in which the rule chooses each k                      |
    | n, rows, n_columns                | rows of the table, rows that were used, columns                           |
    """

    ks: Array
    chosen: int
    rule: str
    choices: Mapping[str, int]
    p_value: float
    statistic: float
    alpha: float
    inertia: Array
    gap: Array
    gap_error: Array
    silhouette: Array
    silhouette_lower: Array
    silhouette_upper: Array
    agreement: Array
    agreement_lower: Array
    agreement_upper: Array
    share_gap: Array
    share_silhouette: Array
    n: int
    rows: int
    n_columns: int
    n_bootstrap: int
    n_references: int
    n_resamples: int

    state: ClassVar[Specs] = {
        "ks": ints("k", low=1),
        **dict.fromkeys(
            ("inertia", "gap", "gap_error", "silhouette", "silhouette_lower", "silhouette_upper", "agreement",
             "agreement_lower", "agreement_upper", "share_gap", "share_silhouette"),
            floats("k", finite=False),
        ),
    }  # fmt: skip

    @property
    def several(self) -> bool:
        """Whether one cloud is refused."""
        return self.p_value <= self.alpha

    def to_frame(self) -> pd.DataFrame:
        """One row per number of clusters."""
        names = ("inertia", "gap", "gap_error", "silhouette", "silhouette_lower", "silhouette_upper", "agreement",
                 "agreement_lower", "agreement_upper", "share_gap", "share_silhouette")  # fmt: skip
        return pd.DataFrame({name: getattr(self, name) for name in names}, index=pd.Index(self.ks, name="k"))

    def __str__(self) -> str:
        used = "" if self.rows == self.n else f", of which {self.rows:,} drawn at random were used"
        title = f"Number of clusters in {self.n:,} rows and {self.n_columns} columns{used}"
        verdict = "rejected" if self.several else "not rejected"
        test = (
            f"one normal cluster with the covariance of the data: {verdict}, p = {format_p(self.p_value)} "
            f"({self.n_bootstrap} simulated tables)"
        )
        votes = ", ".join(f"{name} {k}" for name, k in self.choices.items())
        last = f"chosen  k = {self.chosen} (rule {self.rule!r}; {votes})"
        if not self.several:
            last = f"chosen  k = 1: no evidence of more clusters at level {self.alpha:g} (among two or more: {votes})"
        frame = pd.DataFrame(index=pd.Index(self.ks, name="k"))
        frame["inertia"] = [fmt(value, 5) for value in self.inertia]
        frame["gap"] = [f"{g:.3f} ({s:.3f})" for g, s in zip(self.gap, self.gap_error, strict=True)]
        for name in ("silhouette", "agreement"):
            parts = (getattr(self, f"{name}{end}") for end in ("", "_lower", "_upper"))
            frame[name] = [_limits(*three) for three in zip(*parts, strict=True)]
        for name in ("share_gap", "share_silhouette"):
            frame[name] = [f"{value:.2f}" for value in getattr(self, name)]
        table = frame.to_string().splitlines()
        rule = "-" * max(len(line) for line in table)
        notes = [
            "Stability is no evidence of clusters: a single elongated cluster is cut in the same place every time."
        ]
        if self.several and self.chosen == self.ks[-1]:
            notes.append(f"k = {self.chosen} is the largest number tried: pass a larger k to see beyond it.")
        return "\n".join([title, rule, test, last, rule, *(line.rstrip() for line in table), rule, *notes])


def _limits(value: float, low: float, high: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f} [{low:.2f}, {high:.2f}]"


def choose_k(
    X: Any,
    k: int | Sequence[int] = 8,
    *,
    rule: str = "gap",
    alpha: float = 0.05,
    n_bootstrap: int = 99,
    n_references: int = 20,
    n_resamples: int = 40,
    n_init: int = 3,
    max_rows: int = 2000,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> KChoice:
    """How many k-means clusters a table has: 1 unless one cloud is refused, then what the rule says.

    | parameter    | default | range                             | meaning                                                 |
    |--------------|---------|-----------------------------------|---------------------------------------------------------|
    | k            | 8       | from 2 on, or several numbers     | the largest number tried, or the numbers                |
    | rule         | "gap"   | "silhouette", "stability"         | who chooses among two or more clusters                  |
    | alpha        | 0.05    | (0, 1)                            | chance of claiming several clusters where there is one  |
    | n_bootstrap  | 99      | from 19 on                        | clouds drawn for the test                               |
    | n_references | 20      | from 5 on                         | uniform tables of the gap statistic                     |
    | n_resamples  | 40      | from 3 on                         | halves of the rows                                      |
    | n_init       | 3       | from 1 on                         | starts of each fit                                      |
    | max_rows     | 2000    | from 20 on                        | rows used, drawn at random where there are more         |
    | random_state | None    | seed                              | of everything drawn                                     |
    | n_jobs       | None    | threads                           | never changes a result                                  |

    X holds numbers; encode categories as dummy columns, which are recognised as one factor. Columns should be in
    comparable units, as for `KMeans`. At most `alpha` of tables from one cloud, be it correlated, skewed,
    heavy-tailed or of mixed types, are said to hold more than one cluster (docs/simulations/clustering.md); a cloud
    that is curved, or wider at one end, is none of these and may be: look at the plane before you believe it.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(90, 2)) + np.repeat([[0, 0], [6, 0], [0, 6]], 30, axis=0)
    >>> found = choose_k(X, 5, n_bootstrap=39, n_resamples=10, random_state=0)
    >>> found.chosen, found.several, dict(found.choices)
    (3, True, {'gap': 3, 'silhouette': 3, 'stability': 3})
    """  # noqa: E501  (a table)
    rule = choice(rule, "rule", ("gap", "silhouette", "stability"))
    alpha = fraction(alpha, "alpha")
    n_bootstrap, n_references = whole(n_bootstrap, "n_bootstrap", 19), whole(n_references, "n_references", 5)
    n_resamples, n_init = whole(n_resamples, "n_resamples", 3), whole(n_init, "n_init", 1)
    if n_bootstrap + 1 < 1 / alpha:
        what = f"n_bootstrap = {n_bootstrap} simulated tables cannot give a p-value of {alpha:g}"
        raise ParameterError(what, remedy=f"use n_bootstrap={int(np.ceil(1 / alpha)) - 1} or more")
    values, names = sample(X, "X", least=4)
    refuse_not_finite(values, names or None)
    table = np.ascontiguousarray(values)
    draws = [np.random.default_rng(one) for one in seed_sequence(random_state).spawn(5)]
    rows = _some_rows(table, whole(max_rows, "max_rows", 20), draws[0])
    ks = _numbers(k, rows)
    unit = float(power_of_two(np.abs(rows - rows.mean(axis=0)).max()))
    rows = rows / unit

    p_value, statistic = _one_cloud(rows, ks, n_bootstrap, draws[1], n_jobs)
    runs = [_fit(rows, j, n_init, draws[2]) for j in ks]
    gap, gap_error = _gap(rows, ks, np.array([run.total for run in runs]), n_references, n_init, draws[3], n_jobs)
    widths = [silhouette.interval(rows, run.labels) if len(set(run.labels)) > 1 else None for run in runs]
    halves = _halves(rows, ks, n_resamples, n_references, n_init, draws[4], n_jobs)
    limits = np.array([[np.nan] * 3 if w is None else [w.estimate, w.lower, w.upper] for w in widths]).T
    agreement, share_gap, share_silhouette = halves
    tried = ks > 1
    choices = {
        "gap": int(ks[_first_gap(gap, gap_error, tried)]),
        "silhouette": int(ks[np.nanargmax(limits[0])]),
        "stability": int(ks[tried][np.argmax(agreement[0][tried])]),
    }
    return KChoice(
        ks=freeze(ks),
        chosen=choices[rule] if p_value <= alpha else 1,
        rule=rule,
        choices=choices,
        p_value=p_value,
        statistic=statistic,
        alpha=alpha,
        inertia=np.array([run.total for run in runs]) * unit * unit,
        gap=gap,
        gap_error=gap_error,
        silhouette=limits[0],
        silhouette_lower=limits[1],
        silhouette_upper=limits[2],
        agreement=agreement[0],
        agreement_lower=agreement[1],
        agreement_upper=agreement[2],
        share_gap=share_gap,
        share_silhouette=share_silhouette,
        n=len(table),
        rows=len(rows),
        n_columns=rows.shape[1],
        n_bootstrap=n_bootstrap,
        n_references=n_references,
        n_resamples=n_resamples,
    )


def _some_rows(table: Array, most: int, rng: np.random.Generator) -> Array:
    chosen = np.sort(rng.choice(len(table), most, replace=False)) if len(table) > most else slice(None)
    return np.ascontiguousarray(table[chosen])


def _numbers(k: Any, rows: Array) -> Array:
    """The numbers of clusters to try, 1 among them."""
    given = np.arange(1, whole(k, "k", 2) + 1) if np.ndim(k) == 0 else np.unique([1, *(whole(j, "k", 1) for j in k)])
    distinct = len(np.unique(rows, axis=0))
    if len(given) < 2:
        raise ParameterError("k has no number above 1", remedy="pass the largest number to try, for instance k=8")
    most = min(distinct - 1, len(rows) // 2)
    if distinct < 3:
        what = f"X has only {distinct} distinct row{'s' if distinct > 1 else ''}"
        raise DataError(what, remedy="there is nothing to choose: every distinct row is a cluster")
    if given[-1] > most:
        why = "half the number of rows" if most == len(rows) // 2 else "the number of distinct rows less one"
        raise ParameterError(f"k = {given[-1]} exceeds {why}, {most}", remedy=f"use k={most} or less")
    return given.astype(np.int64)


def _fit(X: Array, k: int, n_init: int, rng: np.random.Generator) -> Run:
    rows = make_rows(X, None, None)
    tol = 1e-4 * rows.variance()
    runs = [lloyd(rows, plus_plus(rows, int(k), rng), 300, tol, "none") for _ in range(1 if k == 1 else n_init)]
    return min(runs, key=lambda run: run.total)


def _log_inertia(X: Array, ks: Array, n_init: int, rng: np.random.Generator) -> Array:
    """log W_k for each k, 1 among them."""
    return _logs([_fit(X, k, n_init, rng).total for k in ks])


def _logs(inertia: Any) -> Array:
    """log W_k of the W_k of a table; with no more distinct rows than clusters it is that of next to nothing."""
    return np.log(np.maximum(inertia, 1e-12 * np.max(inertia) + 1e-300))


def _one_cloud(X: Array, ks: Array, n: int, rng: np.random.Generator, n_jobs: int | None) -> tuple[float, float]:
    """The p-value of the test against one cloud: the larger of those along the columns and along principal axes."""
    X = _some_rows(X, TEST_ROWS, rng)
    X = X[:, X.std(axis=0) > 0]
    if X.shape[1] == 0:  # what varies is so rare that these rows do not show it
        return 1.0, 0.0
    tried = ks[(ks > 1) & (ks <= max(TEST_K, ks[ks > 1].min()))]

    def statistic(Z: Array, rng: np.random.Generator) -> Array:
        straight = straighten(Z, rng)
        whole = ((straight - straight.mean(axis=0)) ** 2).sum()
        logs = _logs([whole, *(_fit(straight, k, 2, rng).total for k in tried)])
        return np.asarray(logs[0] - logs[1:])

    levels = any(few_levels(column) for column in X.T)
    wide = not levels and (X.shape[1] > WIDE or 2 * X.shape[1] > len(X))
    along: list[Callable[[Array], Array]] = [] if wide else [np.ascontiguousarray]
    if not levels and X.shape[1] > 1:
        along.append(lambda Z: np.ascontiguousarray(principal_scores(Z, WIDE)))
    found = [_bootstrap(X, turn, statistic, n, rng, n_jobs) for turn in along]
    return max(found)


def _bootstrap(
    X: Array, turn: Callable[[Array], Array], statistic: Statistic, n: int, rng: np.random.Generator, n_jobs: int | None
) -> tuple[float, float]:
    turned = turn(X)
    cloud, observed = Cloud(turned, rng), statistic(turned, rng)

    def one(source: np.random.SeedSequence) -> Array:
        mine = np.random.default_rng(source)
        return statistic(turn(cloud.draw(mine)), mine)

    drawn = np.array(parallel(one, seed_sequence(rng).spawn(n), n_jobs=n_jobs))
    centre, spread = drawn.mean(axis=0), np.maximum(drawn.std(axis=0, ddof=1), 1e-12)
    largest = ((drawn - centre) / spread).max(axis=1)
    found = float(((observed - centre) / spread).max())
    return float((1 + (largest >= found).sum()) / (n + 1)), found


def _reference(X: Array, ks: Array, n: int, n_init: int, size: int, rng: Any, n_jobs: int | None) -> Array:
    """log W_k of tables uniform over the box along the principal axes of X, one row per table."""
    scores = principal_scores(X, min(X.shape))
    low, high = scores.min(axis=0), scores.max(axis=0)

    def one(source: np.random.SeedSequence) -> Array:
        mine = np.random.default_rng(source)
        return _log_inertia(mine.uniform(low, high, (size, len(low))), ks, n_init, mine)

    return np.array(parallel(one, seed_sequence(rng).spawn(n), n_jobs=n_jobs))


def _gap(
    X: Array, ks: Array, inertia: Array, n: int, n_init: int, rng: np.random.Generator, n_jobs: int | None
) -> tuple[Array, Array]:
    logs = _reference(X, ks, n, n_init, len(X), rng, n_jobs)
    gap = logs.mean(axis=0) - _logs(inertia)
    return gap, logs.std(axis=0) * np.sqrt(1 + 1 / n)


def _first_gap(gap: Array, error: Array, among: Array) -> int:
    """The first k, of those allowed, whose gap is within one standard error of the next one's; the last if none is."""
    for i in range(len(gap) - 1):
        if among[i] and gap[i] >= gap[i + 1] - error[i + 1]:
            return i
    return len(gap) - 1


def _halves(
    X: Array, ks: Array, n: int, n_references: int, n_init: int, rng: np.random.Generator, n_jobs: int | None
) -> tuple[Array, Array, Array]:
    """Agreement of clusters found in halves of the rows, with limits, and the shares chosen by gap and silhouette."""
    size = len(X) // 2
    logs = _reference(X, ks, n_references, n_init, size, rng, n_jobs)
    error = logs.std(axis=0) * np.sqrt(1 + 1 / n_references)

    def one(source: np.random.SeedSequence) -> tuple[Array, int, int]:
        mine = np.random.default_rng(source)
        rows = np.sort(mine.choice(len(X), size, replace=False))
        half = np.ascontiguousarray(X[rows])
        runs = [_fit(half, k, n_init, mine) for k in ks]
        gap = logs.mean(axis=0) - _logs([run.total for run in runs])
        distances = squareform(pdist(half))
        widths = [_mean_silhouette(distances, run.labels) for run in runs]
        labels = np.array([cdist(X, run.centres, "sqeuclidean").argmin(axis=1) for run in runs])
        return labels, _first_gap(gap, error, np.ones(len(ks), dtype=bool)), int(np.argmax(widths))

    found = parallel(one, seed_sequence(rng).spawn(n), n_jobs=n_jobs)
    limits = [rand_between(np.array([labels[i] for labels, _, _ in found])) for i in range(len(ks))]
    agreement = np.array([[one.estimate, one.lower, one.upper] for one in limits]).T
    agreement[:, ks == 1] = np.nan
    by_gap = np.bincount([gap for _, gap, _ in found], minlength=len(ks)) / n
    return agreement, by_gap, np.bincount([width for _, _, width in found], minlength=len(ks)) / n


def _mean_silhouette(distances: Array, labels: Array) -> float:
    """Mean silhouette from distances; -1 for a single cluster."""
    sizes = np.bincount(labels)
    labels = np.unique(labels, return_inverse=True)[1]
    sizes = sizes[sizes > 0]
    if len(sizes) < 2:
        return -1.0
    member = np.zeros((len(labels), len(sizes)))
    at = np.arange(len(labels))
    member[at, labels] = 1.0
    sums = distances @ member
    inner = sums[at, labels] / np.maximum(sizes[labels] - 1, 1)
    sums /= sizes
    sums[at, labels] = np.inf
    outer = sums.min(axis=1)
    top = np.maximum(inner, outer)
    return float(np.mean(np.where((sizes[labels] > 1) & (top > 0), (outer - inner) / np.where(top > 0, top, 1.0), 0.0)))
