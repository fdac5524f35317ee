"""The perceptron: walk past the rows and move the line with each mistake (row B2).

    o = sign(w'x + b),     w <- w + eta (t - o) x,     b <- b + eta (t - o),       t, o in {-1, +1}

Nothing is optimised, and yet: if a line separates the classes at all, the number of mistakes is at most R^2 / gamma^2,
whatever the order of the rows and however many there are (`assay.margin.MistakeTrace` says what R and gamma are). If
none does, the weights go round forever; that none does is proved by a point in the hulls of both classes
(`numerics.separation`). Each step is a stochastic subgradient step on max(0, -y f), the hinge without margin; with
`margin` it is one on the hinge. Cost of a pass: n p multiply-adds.

Rosenblatt (1958), Psychological Review 65, 386-408; Freund, Schapire (1999), Machine Learning 37, 277-296 (averaged,
voted, kernels); Gallant (1990), IEEE Trans. Neural Networks 1, 179-191 (pocket).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if

from assay.base import Constraint, Estimator, boolean, instance_of, integer, jobs, none, one_of, real, seed
from assay.errors import ConvergenceWarning, ParameterError
from assay.labels import class_codes
from assay.margin._mistakes import MistakeTrace, longest, margin_of, signs_of, space_of
from assay.margin._online import online_codes
from assay.margin._perceptron import Dense, Gram, Rule, Run, Sparse, run
from assay.margin._votes import Votes
from assay.margin.kernels import Kernel, Linear, Precomputed, named
from assay.numerics.seeds import seed_sequence
from assay.numerics.separation import Overlap, Separation, separate
from assay.numerics.threads import parallel
from assay.state import Specs, classes, contrasts, floats, ints, need, optional, part

__all__ = ["MistakeTrace", "Perceptron"]

Array = np.ndarray
LINEAR, DUAL = ("coef_", "intercept_", "_last", "_total", "_seen"), ("support_", "dual_coef_", "kernel_", "_rows")
FORMS = (*LINEAR, *DUAL, "votes_")


def _is_online(estimator: Perceptron) -> bool:
    if estimator.kernel is not None or estimator.variant not in ("last", "averaged"):
        raise AttributeError(
            "partial_fit keeps no rows: it needs kernel=None and variant='last' or 'averaged' "
            "(pocket and voted weights are judged by all rows at once)"
        )
    return True


class Perceptron(ClassifierMixin, Estimator):
    """A line (or, with a kernel, a surface) moved by its mistakes, with the proof where none can be found.

    Unlike scikit-learn's, rows are visited in the order given, and there is no penalty and no tolerance: training ends
    with a pass without mistakes, with a cycle, or with the proof that no line separates the classes. A row on the line
    is a mistake for either class. Several classes are told from the rest one by one, and the largest score wins.

    | parameter     | default   | range                       | meaning                                                |
    |---------------|-----------|-----------------------------|--------------------------------------------------------|
    | variant       | "last"    | "averaged", "voted", "pocket" | which weights answer: the last, the mean of all, all by the rows they survived, those with fewest errors |
    | kernel        | None      | Kernel, name, function      | None: the columns themselves                           |
    | learning_rate | 0.5       | above 0                     | eta; 0.5 gives w + y x. From zero it scales w and decides nothing, unless there is a margin |
    | margin        | 0.0       | from 0 on                   | y f <= margin counts as a mistake (the hinge instead of max(0, -y f), for margin = 1) |
    | fit_intercept | True      | bool                        | whether rows get a column of ones                      |
    | max_iter      | 1000      | from 1 on                   | most passes over the rows                              |
    | shuffle       | False     | bool                        | another order in each pass                             |
    | on_line       | "mistake" | "negative"                  | a row on the line is a mistake, or counts as negative (o = -1 for w'x = 0) |
    | warm_start    | False     | bool                        | start from the last weights                            |
    | n_jobs        | None      | threads                     | over classes; never changes a result                   |
    | random_state  | None      | seed                        | for `shuffle`                                          |

    Fitted: `coef_`, `intercept_` (linear; not for "voted"), `support_`, `dual_coef_`, `kernel_` (kernel or voted),
    `mistakes_`, `trace_` (a `MistakeTrace`: mistakes per pass, R, gamma, the bound, proofs), `classes_`, `n_iter_`,
    `n_features_in_`, `feature_names_in_`.

    There are no sample weights: the rule looks at one row at a time, and a row seen twice is not a row of weight two.

    Novikoff (1962), Symposium on the Mathematical Theory of Automata 12, 615-622.

    >>> X, y = [[2.0, 1.0], [1.0, 3.0], [-1.0, -1.0], [-2.0, 1.0]], [1, 1, 0, 0]
    >>> model = Perceptron().fit(X, y)
    >>> model.coef_.tolist(), model.intercept_.tolist(), model.mistakes_.tolist()
    ([[2.0, 1.0]], [1.0], [1])
    >>> print(model.trace_)
    1: 1 mistake in 2 passes (at most 4: R = 3.317, gamma = 1.633), none in the last
    >>> print(Perceptron("pocket").fit([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [0, 0, 1, 1]).trace_)
    1: 7 mistakes in 2 passes, in a cycle of 1; no line separates the classes: rows 0, 1, 2, 3 of both classes surround the same point
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        "variant": one_of("last", "averaged", "voted", "pocket"),
        "kernel": none | instance_of((Kernel, str), "a kernel or its name") | Constraint(callable, "a function"),
        "learning_rate": real(0, open_low=True),
        "margin": real(0),
        "fit_intercept": boolean,
        "max_iter": integer(1),
        "shuffle": boolean,
        "on_line": one_of("mistake", "negative"),
        "warm_start": boolean,
        "n_jobs": jobs,
        "random_state": seed,
    }
    state: ClassVar[Specs] = {
        "classes_": classes("k"),
        "coef_": optional(floats(contrasts, "p")),
        "intercept_": optional(floats(contrasts)),
        "support_": optional(ints("s")),
        "dual_coef_": optional(floats(contrasts, "s")),
        "kernel_": optional(part(Kernel)),
        "_rows": optional(floats("s", None)),
        "votes_": optional(part(Votes, c=contrasts)),
        "mistakes_": ints(contrasts),
        "trace_": part(MistakeTrace),
        "n_iter_": integer(1),
        "_last": optional(floats(contrasts, "p+1")),
        "_total": optional(floats(contrasts, "p+1")),
        "_seen": optional(ints(contrasts)),
    }

    def __init__(
        self,
        variant: str = "last",
        *,
        kernel: Any = None,
        learning_rate: float = 0.5,
        margin: float = 0.0,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        shuffle: bool = False,
        on_line: str = "mistake",
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.variant = variant
        self.kernel = kernel
        self.learning_rate = learning_rate
        self.margin = margin
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.on_line = on_line
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_state(self) -> None:
        linear, dual = ([hasattr(self, name) for name in names] for names in (LINEAR, DUAL))
        need(all(linear) == any(linear) != any(dual) == all(dual))
        need(hasattr(self, "votes_") == (self.variant == "voted"))
        need(self.variant != "voted" or self.votes_.rows.max(initial=-1) < self.support_.size)
        if all(dual) and not self._pairwise():
            need(self._rows.shape[1] == self.n_features_in_)
        if all(dual) and self._pairwise():
            need(self.support_.size == 0 or self.support_.max() < self.n_features_in_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._is_linear()
        tags.input_tags.pairwise = self._pairwise()
        return tags

    def _is_linear(self) -> bool:
        return self.kernel is None and self.variant != "voted"

    def _pairwise(self) -> bool:
        return self.kernel == "precomputed" or isinstance(self.kernel, Precomputed)

    def _rule(self) -> Rule:
        # eta (t - o) is 2 eta y for a mistake.
        return Rule(2.0 * self.learning_rate, self.margin, self.fit_intercept, self.on_line == "negative")

    def fit(self, X: Any, y: Any) -> Self:
        """Pass over the rows until none is a mistake, or none of the ways to go on makes sense."""
        if isinstance(self.kernel, Kernel) and not self.kernel.numeric:
            what = f"the kernel {self.kernel} needs strings, but Perceptron takes rows of numbers"
            raise ParameterError(what, remedy="pass kernel=Precomputed() and the Gram matrix k(texts) as X")
        last: Array | None = getattr(self, "_last", None) if self.warm_start and self._is_linear() else None
        before = None if last is None else self._start(last)
        X = self._validate(X, sparse=["csr"] if self._is_linear() else False, order="C")
        self._forget()
        self.classes_, codes = class_codes(y, X.shape[0])
        signs = signs_of(codes, self.classes_.size)
        if before is not None and before.shape != (len(signs), X.shape[1] + 1):
            before = None
        seeds = seed_sequence(self.random_state).spawn(len(signs))
        held = None if self.kernel is None else self._placed().prepare(X)
        space = space_of(held, X)
        radius = longest(X, self.fit_intercept)
        if held is not None:
            radius = float(np.sqrt(max(held.diagonal.max(), 0.0) + self.fit_intercept))

        def one(k: int) -> tuple[Any, Run, float]:
            table = self._table(X, held, None if before is None else before[k])
            made = self._run(table, space, signs[k], np.random.default_rng(seeds[k]), radius, k)
            return table, made, margin_of(table, made, space, signs[k], radius, self.fit_intercept)

        work = 20.0 * X.shape[0] * X.shape[1] if held is None else np.inf
        tables, runs, margins = zip(*parallel(one, range(len(signs)), n_jobs=self.n_jobs, work=work), strict=True)
        self._keep(X, signs, tables, runs, held)
        self._report(runs, np.array(margins), radius, before is None)
        return self

    @available_if(_is_online)
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """One pass over rows, in the order given, from the weights so far; `classes` names all on the first call."""
        before: Any = getattr(self, "trace_", None)
        first = before is None or not hasattr(self, "_last")  # kernels and votes leave no weights to go on from
        X = self._validate(X, sparse=["csr"], order="C", reset=first)
        self.classes_, codes = online_codes(None if first else self.classes_, y, classes, X.shape[0])
        if first:
            self._forget()
            shape = (1 if self.classes_.size == 2 else self.classes_.size, X.shape[1] + 1)
            self._last, self._total = np.zeros(shape), np.zeros(shape)
            self._seen, self.mistakes_ = np.zeros(shape[0], dtype=np.int64), np.zeros(shape[0], dtype=np.int64)
            self.n_iter_ = 0
        self._last, self._total = self._start(self._last), self._start(self._total)  # the pass writes into them
        made = []
        for k, sign in enumerate(signs_of(codes, self.classes_.size)):
            table = _linear_table(X, self._rule(), self._last[k], self._total[k], int(self._seen[k]))
            made.append(table.sweep(sign, np.arange(X.shape[0])))
        self._seen = self._seen + X.shape[0]
        self.n_iter_ += 1
        self.mistakes_ = self.mistakes_ + np.array(made, dtype=np.int64)
        weights: Array = self._last - (self._total / self._seen[:, None] if self.variant == "averaged" else 0.0)
        self.coef_, self.intercept_ = weights[:, :-1].copy(), weights[:, -1].copy()
        c = len(made)
        unknown = np.full(c, np.nan)
        old: Array = np.zeros((len(made), 0), dtype=np.int64) if first else before.mistakes
        self.trace_ = MistakeTrace(
            self._names(), np.column_stack([old, made]), np.full(c, self.n_iter_), float("nan"), unknown, unknown,
            np.array(made) == 0, np.full(c, -1), np.zeros(c, dtype=np.int64), (None,) * c,
        )  # fmt: skip
        return self

    def _placed(self) -> Kernel:
        """The kernel of rows whose columns have no names any more."""
        kernel = named(self.kernel)
        return kernel.by_position(self.feature_names_in_) if hasattr(self, "feature_names_in_") else kernel

    def _forget(self) -> None:
        """Drop what another form left behind."""
        for name in FORMS:
            self.__dict__.pop(name, None)

    def _start(self, weights: Array) -> Array:
        """A copy of earlier weights, whose last is the intercept's."""
        out: Array = weights.copy()
        out[:, -1] *= self.fit_intercept
        return out

    def _table(self, X: Any, held: Any, before: Array | None) -> Any:
        if held is not None:
            return Gram(held, self._rule())
        w = np.zeros(X.shape[1] + 1) if before is None else before.copy()
        return _linear_table(X, self._rule(), w, np.zeros(X.shape[1] + 1), 0)

    def _run(self, table: Any, space: Any, signs: Array, random: np.random.Generator, radius: float, k: int) -> Run:
        given = np.arange(signs.size)

        def prove(margins: Array) -> Separation | Overlap | None:
            if space is None:
                return None
            names = () if isinstance(table, Gram) else self._feature_names()
            labels, bias = self._pair(k), self.fit_intercept
            return separate(space, signs > 0, intercept=bias, names=names, labels=labels, start=margins)

        order = (lambda: random.permutation(given)) if self.shuffle else (lambda: given)
        size = 1.0 if isinstance(table, Gram) else radius
        return run(table, signs, order, self.max_iter, self.variant, prove, fixed=not self.shuffle, longest=size)

    def _pair(self, k: int) -> tuple[str, str]:
        names = [str(name) for name in self.classes_.tolist()]
        return (names[0], names[1]) if len(names) == 2 else ("the rest", names[k])

    def _names(self) -> tuple[str, ...]:
        named = [str(one) for one in self.classes_.tolist()]
        return tuple(named[1:] if len(named) == 2 else named)

    def _chosen(self, table: Any, made: Run) -> Array:
        """The weights that answer."""
        if self.variant == "averaged":
            return np.asarray(table.mean())
        return made.best if self.variant == "pocket" and made.best is not None else table.w

    def _keep(self, X: Any, signs: Array, tables: Sequence[Any], runs: Sequence[Run], held: Any) -> None:
        """What predictions need."""
        weights = np.array([self._chosen(table, made) for table, made in zip(tables, runs, strict=True)])
        if self._is_linear():
            self.coef_, self.intercept_ = weights[:, :-1].copy(), weights[:, -1].copy()
            self._last = np.array([table.w for table in tables])
            self._total = np.array([table.total for table in tables])
            self._seen = np.array([table.counts[0] for table in tables], dtype=np.int64)
            return
        if self.variant == "voted":
            paths, seen = [np.concatenate(made.path) for made in runs], [int(table.counts[0]) for table in tables]
            self.votes_, used = Votes.of(paths, signs, self._rule().step, seen)
            self.dual_coef_ = self.votes_.last(used.size)
        else:
            used = np.flatnonzero(weights.any(axis=0))
            self.dual_coef_ = np.ascontiguousarray(weights[:, used])
        self.support_ = used.astype(np.int64)
        self.kernel_ = Linear() if held is None else held.kernel
        self._rows = np.zeros((used.size, 0)) if self._pairwise() else np.ascontiguousarray(X[used])

    def _report(self, runs: Sequence[Run], gamma: Array, radius: float, from_zero: bool) -> None:
        passes = np.array([len(made.mistakes) for made in runs])
        most = int(passes.max())
        mistakes = np.array([[*made.mistakes, *[0] * (most - len(made.mistakes))] for made in runs], dtype=np.int64)
        self.mistakes_, self.n_iter_ = mistakes.sum(axis=1), most
        proofs = tuple(made.answer if isinstance(made.answer, Overlap) else None for made in runs)
        separable = np.where(gamma > 0, 1, [-1 if proof is None else 0 for proof in proofs])
        margin = np.where(gamma > 0, gamma, np.nan)
        rule = self._rule()
        with np.errstate(divide="ignore", over="ignore"):  # inf in tiny units
            bound = (radius**2 + 2.0 * rule.margin / rule.step) / margin**2
        bound = bound if from_zero else np.full(gamma.size, np.nan)
        converged, cycle = np.array([made.converged for made in runs]), np.array([made.cycle for made in runs])
        self.trace_ = MistakeTrace(
            self._names(), mistakes, passes, radius, margin, bound, converged, separable, cycle, proofs
        )
        self._warn(most)

    def _warn(self, passes: int) -> None:
        """The last weights of an unfinished walk are those of no answer; the other variants have one."""
        trace = self.trace_
        stuck = np.flatnonzero(~trace.converged)
        if stuck.size == 0 or self.variant != "last":
            return
        proved = [k for k in stuck if trace.certificates[k] is not None]
        whom = "" if len(trace.names) == 1 else f" for the class {trace.names[(proved or stuck)[0]]!r}"
        if proved:
            what = f"the perceptron cannot converge{whom}: {trace.certificates[proved[0]]}"
            remedy = "use variant='pocket' or 'averaged'"
        else:
            known = "although a line separates the classes, " if trace.separable[stuck[0]] == 1 else ""
            what = f"{known}the perceptron made mistakes{whom} in all of {passes} passes"
            remedy = "raise max_iter, scale the columns, or use variant='averaged'"
        warnings.warn(f"{what}; {remedy}", ConvergenceWarning, stacklevel=4)

    def decision_function(self, X: Any) -> Array:
        """w'x + b of each row, one column per class for more than two; "voted": the balance of votes, -1 to 1."""
        X = self._validate(X, reset=False, sparse=["csr"] if self._is_linear() else False)
        if hasattr(self, "coef_"):
            scores = np.asarray(X @ self.coef_.T) + self.intercept_
        else:
            gram = X[:, self.support_] if self._pairwise() else self.kernel_.prepare(self._rows).cross(X)
            gram = gram.astype(np.float64) + float(self.fit_intercept)
            scores = self.votes_.balance(gram) if self.variant == "voted" else gram @ self.dual_coef_.T
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Array:
        """The class on whose side a row lies; of several the one with the largest score."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.int64) if scores.ndim == 1 else np.argmax(scores, axis=1)
        return self.classes_[codes]


def _linear_table(X: Any, rule: Rule, w: Array, total: Array, seen: int) -> Any:
    return (Sparse if sparse.issparse(X) else Dense)(X, rule, w, total, seen)
