"""Stepwise and stagewise selection: one variable, or a little of one variable, at a time.

Forward: from the empty model add the variable that lowers the RSS most, up to n - 2 variables (also with p > n).
Backward: from the model of all variables drop the one that raises it least; 1 + p(p + 1)/2 models, and n > p + 1 is
needed. Both: from the empty model add or drop whatever lowers the criterion most, until nothing does, as R's `step`.
Sizes are then compared by a criterion. A step updates all candidates at once in O(p k) (`_splicing`), so that none
of those models is fitted on its own.

Stagewise: with unit columns and residual r, find the column with the largest |c_j|, c_j = x_j'r, and move it:

    b_j <- b_j + step sign(c_j),       or, with step="matching",       b_j <- b_j + c_j.

Small steps trace the least angle and lasso paths; the full step c_j is matching pursuit, which equals forward stepwise
only for orthonormal columns. The RSS falls with every step while |c_j| > step / 2; then it stops.

Efroymson (1960), Mathematical Methods for Digital Computers, 191-203; Hastie, Tibshirani, Friedman, The Elements of
Statistical Learning, sections 3.3 and 3.8.1; Mallat, Zhang (1993), IEEE Trans. Signal Process. 41, 3397-3415.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from assay.base import Constraint, integer, one_of, real
from assay.errors import ConvergenceWarning, DataError, ParameterError
from assay.linear._selector import Family, Selector, SubsetProblem, selector_constraints
from assay.linear._splicing import ActiveSet, backward_path, forward_path, independent
from assay.linear.criteria import Models, criterion_values
from assay.numerics.jit import kernel
from assay.results import Path, Trace
from assay.state import Specs, facts

__all__ = ["Stagewise", "Stepwise"]

Array = np.ndarray

POSITIONS = 500
"""A stagewise path keeps at most this many positions, evenly spaced over its steps."""


class Stepwise(Selector):
    """Least squares on variables added or dropped one at a time, with the size chosen by a criterion.

    Each step takes argmax over j of RSS(A) - RSS(A + j), or argmin of RSS(A - j) - RSS(A), as if every candidate were
    refitted.

    | parameter           | default      | range              | meaning                                                |
    |---------------------|--------------|--------------------|--------------------------------------------------------|
    | direction           | "forward"    | "backward", "both" | which way to step                                      |
    | max_size            | None         | >= 0               | largest size; None: p, or n / log n if p >= n - 1      |
    | criterion           | "bic"        | see below          | what chooses the size                                  |
    | form                | "likelihood" | or "sigma"         | which aic and bic                                      |
    | cv                  | 10           | folds, splits      | for criterion="cv"; each fold repeats the search       |
    | rule                | "min"        | "min", "1se"       | cv, validation: least error, or simplest within one SE |
    | validation_fraction | 0.2          | in (0, 1)          | share of rows held out for criterion="validation"      |
    | random_state        | None         | seed               | draws the rows held out                                |
    | fit_intercept       | True         | True, False        | whether the model has an intercept                     |
    | n_jobs              | None         | non-zero           | threads; never changes the result                      |

    The criterion is "cp", "aic", "bic", "adjusted_r2", "cv" or "validation" (formulas in `assay.linear.criteria`);
    direction="both" takes the first four.

    Weights count as repetitions of a row. Fitted: `coef_` (zero for the columns left out), `intercept_`, `support_`,
    `selected_` (names), `table_` (a row per size, or per step of "both"), `criterion_curve_`, `n_models_` (how
    many models the search compared).

    Hastie, Tibshirani, Friedman, The Elements of Statistical Learning, section 3.3.2.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> Stepwise(direction="backward", criterion="bic").fit(X, y).selected_.tolist()
    ['sex', 'bmi', 'bp', 's1', 's2', 's5']
    >>> Stepwise(direction="backward").fit(X, y).n_models_
    56
    """

    state: ClassVar[Specs] = {
        **facts("n_models_"),
    }

    constraints: ClassVar[dict[str, Constraint]] = selector_constraints | {
        "direction": one_of("forward", "backward", "both")
    }

    def __init__(
        self,
        *,
        direction: str = "forward",
        max_size: int | None = None,
        criterion: str = "bic",
        form: str = "likelihood",
        cv: Any = 10,
        rule: str = "min",
        validation_fraction: float = 0.2,
        random_state: Any = None,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.direction = direction
        self.max_size = max_size
        self.criterion = criterion
        self.form = form
        self.cv = cv
        self.rule = rule
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.fit_intercept = fit_intercept
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Stepwise:
        """Step through the models, choose one, and fit it by least squares."""
        if self.direction == "both" and self.criterion in ("cv", "validation"):
            raise ParameterError(
                f'Stepwise: direction="both" follows its criterion step by step, and {self.criterion!r} has no value '
                "for a single step",
                remedy='use criterion="bic" (or "cp", "aic", "adjusted_r2"), or direction="forward" or "backward"',
            )
        _, _, family, _ = self._fit(X, y, sample_weight)
        self.n_models_ = family.n_nodes
        return self

    def _search(self, problem: SubsetProblem, most: int, like: Family | None = None) -> Family:
        p = len(problem.c)
        if most == 0:
            return Family.empty()
        if self.direction == "backward":
            return _backward(problem, most)
        if self.direction == "both":
            return _both(problem, most, self.criterion, self.form)
        sets = forward_path(problem.active(most), most)
        return Family(sets, n_nodes=1 + sum(p - k for k in range(len(sets) - 1)))


def _backward(problem: SubsetProblem, most: int) -> Family:
    p = len(problem.c)
    n = max(problem.n, problem.rows)
    if problem.gram is None or n - p - problem.intercept < 1:
        raise DataError(
            f'direction="backward" starts from the model of all {p} columns, which {n:g} rows cannot carry',
            remedy='use direction="forward", or pass more rows than columns',
        )
    ids = independent(problem.gram)
    out, _ = backward_path(problem.gram, problem.c, ids)
    sets = [np.ascontiguousarray(out[out.size - k :]) for k in range(min(most, ids.size) + 1)]
    return Family(sets, n_nodes=1 + ids.size * (ids.size + 1) // 2)


def _both(problem: SubsetProblem, most: int, criterion: str, form: str) -> Family:
    """Add or drop one column while the criterion falls; the visited models, the last of them the best."""
    p = len(problem.c)
    active = problem.active(min(most + 1, p))
    sets, n_models = [active.columns()], 1
    value = _values(problem, criterion, form, [0], [1.0])[0]
    while True:
        n_models += p
        rss, k = active.rss(), active.k
        losses = active.b[:k] ** 2 / np.diag(active.H)[:k]
        gain = active.best_gain() if k < most else 0.0
        up, down = _values(
            problem, criterion, form, [k + 1, k - 1], [rss - gain, rss + (losses.min() if k else np.inf)]
        )
        if k == most or gain == 0.0:
            up = np.inf
        if min(up, down) >= value - 1e-10 * (abs(value) + 1e-300) or np.isnan(min(up, down)):
            return Family(sets, n_nodes=n_models)
        if up <= down:
            active.grow(k + 1)
        else:
            active.drop(int(np.argmin(losses)))
        value = min(up, down)
        sets.append(active.columns())


def _values(problem: SubsetProblem, criterion: str, form: str, sizes: list[int], rss: list[float]) -> Array:
    """Criterion values of models with these sizes and shares of the total RSS; smaller is better."""
    models = Models(
        np.array(sizes),
        np.array(rss) * problem.tss,
        [()] * len(sizes),
        problem.n,
        problem.tss,
        problem.intercept,
        problem.sigma2,
    )
    values = criterion_values(models, criterion, form)
    return -values if criterion == "adjusted_r2" else values


@kernel
def _walk(
    step: Any,
    done: Any,
    most: Any,
    tol: Any,
    c: Any,
    b: Any,
    rss: Any,
    G: Any,
    slot: Any,
    moved: Any,
    moves: Any,
    sums: Any,
    state: Any,
) -> Any:
    """Stagewise moves from number `done` on.

    state = (RSS, why it stopped: 0 moves used up, 1 converged, 2 Gram row missing, the column it belongs to).
    """
    while done < most:
        j = 0
        for q in range(c.size):
            if abs(c[q]) > abs(c[j]):
                j = q
        size = abs(c[j])
        if size <= tol or (step > 0 and size <= 0.5 * step):
            state[0], state[1] = rss, 1.0
            return done
        if slot[j] < 0:
            state[0], state[1], state[2] = rss, 2.0, float(j)
            return done
        length = step if step > 0 else size
        move = length if c[j] > 0 else -length
        rss -= length * (2.0 * size - length)
        b[j] += move
        row = slot[j]
        for q in range(c.size):
            c[q] -= move * G[row, q]
        moved[done], moves[done], sums[done] = j, move, rss
        done += 1
    state[0], state[1] = rss, 0.0
    return done


class Stagewise(Selector):
    """A linear model grown by many small moves of one coefficient, with the place to stop chosen by a criterion.

    With unit columns and unit y: j = argmax |c_j|, c = X'r, then b_j <- b_j + step sign(c_j), or + c_j.

    | parameter           | default      | range           | meaning                                                |
    |---------------------|--------------|-----------------|--------------------------------------------------------|
    | step                | 0.01         | > 0, "matching" | length of a move; "matching" or None: c_j              |
    | max_iter            | 10,000       | >= 1            | moves at most                                          |
    | tol                 | 1e-4         | >= 0            | stop when no |c_j| exceeds this or step / 2            |
    | criterion           | "bic"        | see below       | what chooses the place on the path                     |
    | form                | "likelihood" | or "sigma"      | which aic and bic                                      |
    | cv                  | 10           | folds, splits   | for criterion="cv"; each fold repeats the search       |
    | rule                | "min"        | "min", "1se"    | cv, validation: least error, or simplest within one SE |
    | validation_fraction | 0.2          | in (0, 1)       | share of rows held out for criterion="validation"      |
    | random_state        | None         | seed            | draws the rows held out                                |
    | fit_intercept       | True         | True, False     | whether the model has an intercept                     |
    | n_jobs              | None         | non-zero        | threads; never changes the result                      |

    The criterion is "cp", "aic", "bic", "adjusted_r2", "cv" or "validation" (formulas in `assay.linear.criteria`),
    with the number of non-zero coefficients for the degrees of freedom.

    Weights count as repetitions of a row. Fitted: `coef_`, `intercept_`, `support_`, `selected_`, `path_` (coefficients
    against the summed length of all moves, at most 500 places), `table_` and `criterion_curve_` (the same places, as
    far as they have fewer variables than rows, or n / log n if p >= n - 1), `trace_` (RSS after each move), `n_iter_`.

    Hastie, Tibshirani, Friedman, The Elements of Statistical Learning, section 3.8.1.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = Stagewise(step=0.01).fit(X, y)
    >>> model.selected_.tolist()
    ['sex', 'bmi', 'bp', 's1', 's3', 's5', 's6']
    >>> print(model.path_)
    Stagewise path of 10 coefficients over 148 values of arc length, at most 9 of them non-zero
    """

    state: ClassVar[Specs] = {
        **facts("trace_", "n_iter_", "path_"),
    }

    constraints: ClassVar[dict[str, Constraint]] = {
        name: constraint for name, constraint in selector_constraints.items() if name != "max_size"
    } | {
        "step": one_of("matching", None) | real(0, open_low=True),
        "max_iter": integer(1),
        "tol": real(0),
    }
    curve_over: ClassVar[str] = "arc length"

    def __init__(
        self,
        *,
        step: float | str | None = 0.01,
        max_iter: int = 10_000,
        tol: float = 1e-4,
        criterion: str = "bic",
        form: str = "likelihood",
        cv: Any = 10,
        rule: str = "min",
        validation_fraction: float = 0.2,
        random_state: Any = None,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.step = step
        self.max_iter = max_iter
        self.tol = tol
        self.criterion = criterion
        self.form = form
        self.cv = cv
        self.rule = rule
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.fit_intercept = fit_intercept
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Stagewise:
        """Walk the path to its end and choose a place on it."""
        sample, problem, family, choice = self._fit(X, y, sample_weight)
        assert isinstance(family, _Walk)
        self.trace_ = family.trace
        self.n_iter_ = max(1, family.trace.n_iter)
        coef, intercepts = problem.unscale(family.whole)
        self.path_ = Path(
            x=family.arcs,
            coefficients=np.ascontiguousarray(self._in_units(coef, sample).T),
            intercepts=intercepts * sample.target_unit,
            names=self._feature_names(),
            x_name="arc length",
            log_x=False,
            marks={"chosen": float(family.arcs[choice.index])},
            title="Stagewise path",
        )
        largest = float(np.abs(problem.c).max(initial=0.0))
        if family.trace.n_iter == 0 and problem.tss > 0 and largest > self.tol:
            warnings.warn(
                f"step = {self.step} is at least twice the largest product with y, {largest:.3g}, so nothing moved; "
                "lower step",
                ConvergenceWarning,
                stacklevel=2,
            )
        if not self.trace_.converged:
            warnings.warn(
                f"Stagewise made max_iter = {self.max_iter} moves and had not converged; raise max_iter or step",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _search(self, problem: SubsetProblem, most: int, like: Family | None = None) -> Family:
        step = self.step if isinstance(self.step, int | float) else -1.0
        longest = self.max_iter if not isinstance(like, _Walk) else int(like.places[-1])
        moved, moves, sums, converged = _moves(problem, float(step), longest, float(self.tol))
        places = _places(moved.size) if not isinstance(like, _Walk) else like.places[like.places < moved.size]
        if places.size == 0 or places[-1] != moved.size:
            places = np.append(places, moved.size)
        whole = np.zeros((places.size, len(problem.c)))
        for row, (start, stop) in enumerate(zip(np.append(0, places[:-1]), places, strict=True)):
            whole[row] = whole[row - 1] if row else 0.0
            np.add.at(whole[row], moved[start:stop], moves[start:stop])
        arcs = np.append(0.0, np.cumsum(np.abs(moves)))[places]
        sizes = np.count_nonzero(whole, axis=1)
        within = places.size if (sizes <= most).all() else max(1, int(np.argmax(sizes > most)))
        message = "no column has a product above the tolerance" if converged else "all moves were made"
        return _Walk(
            sets=[np.flatnonzero(row) for row in whole[:within]],
            unit=whole[:within],
            rss=np.append(1.0, sums)[places][:within],
            places=places,
            whole=whole,
            arcs=arcs,
            trace=Trace(sums * problem.tss, converged, message),
        )

    def _positions(self, family: Family) -> Array:
        assert isinstance(family, _Walk)
        return family.arcs[: len(family.sets)]


@dataclass(eq=False)
class _Walk(Family):
    """A stagewise path: after how many moves (`places`), how long they were (`arcs`) and where that led (`whole`)."""

    places: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    whole: Array = field(default_factory=lambda: np.zeros((0, 0)))
    arcs: Array = field(default_factory=lambda: np.zeros(0))
    trace: Trace = field(default_factory=lambda: Trace(np.zeros(0), True, ""))


def _places(moves: int) -> Array:
    """Up to `POSITIONS` numbers of moves from none to all of them."""
    return np.unique(np.linspace(0, moves, min(moves + 1, POSITIONS)).round().astype(np.int64))


def _moves(problem: SubsetProblem, step: float, most: int, tol: float) -> tuple[Array, Array, Array, bool]:
    """Which column moved, by how much, the RSS after it, and whether nothing was left to do."""
    active: ActiveSet = problem.active(1)
    b = np.zeros(len(problem.c))
    moved, moves, sums, state = np.empty(most, np.int64), np.empty(most), np.empty(most), np.zeros(3)
    done, rss = 0, 1.0
    if problem.tss == 0:
        return moved[:0], moves[:0], sums[:0], True
    while True:
        done = _walk(step, done, most, tol, active.g, b, rss, active.G, active.slot, moved, moves, sums, state)
        rss = float(state[0])
        if state[1] != 2.0:
            break
        active.fetch(int(state[2]))
    return moved[:done], moves[:done], np.maximum(sums[:done], 0.0), bool(state[1] == 1.0)
