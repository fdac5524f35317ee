"""What single units share: rows as they are, a constant step, and the trace of how it went."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from assay.base import Constraint, Estimator, boolean, integer, none, one_of, real, seed
from assay.constraints import text
from assay.errors import ConvergenceWarning, DivergenceError
from assay.numbers import fmt
from assay.numerics.scale import norms
from assay.numerics.seeds import generator
from assay.numerics.units import LINEAR, augmented, batch_steps, downhill, largest_step, row_steps, triangle_of
from assay.results import Trace
from assay.state import Specs, several, values

__all__ = ["Unit", "UnitTrace"]

Array = np.ndarray

RUNAWAY = 1e6
"""An error this many times that at the start is lost."""
PATH_CELLS = 1 << 16
"""So many weights are kept for the picture of the way."""


@dataclass(frozen=True, eq=False, repr=False)
class UnitTrace(Trace):
    """How a unit learnt: the error 1/2 sum (t - o)^2 after each step or pass, the first weights, and steps that hold.

    `weights` are those before each of the first steps (or passes), the intercept last; `step` was used, steps below
    `largest_step` hold: for the linear unit and all rows at once exactly those converge.
    """

    start: float
    step: float
    largest_step: float
    weights: Array
    names: tuple[str, ...]
    per: str

    state: ClassVar[Specs] = {
        "objective": values("n"),
        "weights": values(None, "m"),
        "names": several(text, "m", kind=tuple),
    }

    def to_frame(self) -> pd.DataFrame:
        """One line per step: the error before it and, as far as they were kept, the weights."""
        frame = pd.DataFrame({self.per: np.arange(self.n_iter + 1), "error": [self.start, *self.objective]})
        kept = pd.DataFrame(self.weights, columns=[f"w[{name}]" for name in self.names])
        return frame.join(kept)

    def __str__(self) -> str:
        last = self.objective[-1] if self.n_iter else self.start
        made = f"{self.n_iter:,} {self.per}{'' if self.n_iter == 1 else 'es' if self.per == 'pass' else 's'}"
        steps = f"step {fmt(self.step, 4)} (below {fmt(self.largest_step, 4)} converges)"
        return f"{made}, {steps}, error {fmt(self.start, 5)} to {fmt(last, 5)}: {self.message}"


class Unit(Estimator):
    """A single unit with squared error on rows as they are."""

    kind: ClassVar[int] = LINEAR
    most: ClassVar[dict[str, int]] = {"gradient": 100_000, "sgd": 100}
    constraints: ClassVar[dict[str, Constraint]] = {
        "solver": one_of("gradient", "sgd"),
        "reduction": one_of("sum", "mean"),
        "learning_rate": none | real(0, open_low=True),
        "order": one_of("given", "shuffled", "replacement"),
        "fit_intercept": boolean,
        "max_iter": none | integer(1),
        "tol": real(0),
        "warm_start": boolean,
        "random_state": seed,
    }

    def __init__(
        self,
        solver: str,
        reduction: str,
        learning_rate: float | None,
        order: str,
        fit_intercept: bool,
        max_iter: int | None,
        tol: float,
        warm_start: bool,
        random_state: Any,
    ) -> None:
        self.solver = solver
        self.reduction = reduction
        self.learning_rate = learning_rate
        self.order = order
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state

    def _learn(self, X: Array, y: Array, v: Array, start: Array | None) -> tuple[Array, UnitTrace]:
        """Weights (intercept last) and trace of one unit."""
        A = augmented(X, self.fit_intercept)
        w = np.zeros(A.shape[1]) if start is None else start[: A.shape[1]].copy()
        passes = self.most[self.solver] if self.max_iter is None else self.max_iter
        keep = min(passes, max(1, PATH_CELLS // w.size)) + 1
        if self.solver == "gradient":
            return self._descend(A, y, v, w, passes, np.empty((keep, w.size)))
        return self._wander(A, y, v, w, passes, np.empty((keep, w.size)))

    def _descend(self, A: Array, y: Array, v: Array, w: Array, passes: int, path: Array) -> tuple[Array, UnitTrace]:
        mean = float(v.sum()) if self.reduction == "mean" else 1.0
        if self.kind == LINEAR:  # the same error and gradient from at most p + 2 rows
            T, c = triangle_of(A, y, v)
            rows: tuple[Array, Array, Array] = (T, c, np.ones(len(T)))
        else:
            rows = (A, y, v)
        largest = mean * largest_step(rows[0], rows[2], self.kind)
        step = 0.5 * largest if self.learning_rate is None else float(self.learning_rate)
        errors = np.empty(passes)
        g = np.empty(w.size)
        before = float(downhill(*rows, w, self.kind, g))
        # Of the correlation of a column with what is left to explain, whatever its units.
        limit = self.tol * np.sqrt(2.0 * before) * norms(rows[0] * np.sqrt(rows[2])[:, None])
        made = int(batch_steps(*rows, w, step / mean, self.kind, limit, RUNAWAY, errors, path))
        lost, made = made < 0 or not np.isfinite(w).all(), abs(made)
        downhill(*rows, w, self.kind, g)
        converged = not lost and bool((np.abs(g) <= limit).all())
        if self.kind == LINEAR and (lost or (not converged and step > largest and errors[made - 1] > before)):
            raise self._diverged(step, largest)
        if made < len(path):
            path[made] = w
        message = self._message(converged, made, step, largest, errors[:made], before)
        return w, self._trace(errors[:made], converged, message, before, step, largest, path[: made + 1], "step")

    def _wander(self, A: Array, y: Array, v: Array, w: Array, passes: int, path: Array) -> tuple[Array, UnitTrace]:
        largest = largest_step(A, v, self.kind, single=True)
        step = 0.5 * largest if self.learning_rate is None else float(self.learning_rate)
        random, n = generator(self.random_state), len(A)
        orders = {
            "given": lambda: np.arange(n),
            "shuffled": lambda: random.permutation(n),
            "replacement": lambda: random.integers(0, n, n),
        }
        before = float(downhill(A, y, v, w, self.kind, np.empty(w.size)))
        errors, g, converged = [], np.empty(w.size), False
        for number in range(passes):
            if number < len(path):
                path[number] = w
            old = w.copy()
            row_steps(A, y, v, orders[self.order](), w, step, self.kind)
            errors.append(float(downhill(A, y, v, w, self.kind, g)))
            if not errors[-1] <= RUNAWAY * max(before, np.finfo(float).tiny):
                raise self._diverged(step, largest)
            if self.order == "given" and np.abs(w - old).max() <= self.tol * np.abs(w).max():
                converged = True
                break
        if len(errors) < len(path):
            path[len(errors)] = w
        message = f"one row at a time with a constant step oscillates around the solution (order={self.order!r})"
        if converged:
            message = f"a pass changes no weight by more than tol = {self.tol:g} of the largest"
        kept = path[: len(errors) + 1]
        return w, self._trace(np.array(errors), converged, message, before, step, largest, kept, "pass")

    def _message(self, converged: bool, made: int, step: float, largest: float, errors: Array, before: float) -> str:
        rose = step > largest and bool((np.diff(errors, prepend=before) > 0).any())
        if converged and not rose:
            return f"the residuals are not correlated with any column by more than tol = {self.tol:g}"
        message = f"{type(self).__name__} made {made:,} steps and some gradient is still above tol = {self.tol:g}"
        remedy = "raise max_iter or tol, or standardise the columns"
        if rose:
            message = f"{type(self).__name__} made {made:,} steps with learning_rate = {step:g} and the error rose"
            remedy = f"steps below {fmt(largest, 4)} make it fall each time"
        if self.max_iter is not None and self.tol == 0:
            return f"made all {made:,} steps" + (f"; the error rose, {remedy}" if rose else "")
        warnings.warn(f"{message}; {remedy}", ConvergenceWarning, stacklevel=5)
        return f"{message}; {remedy}"

    def _shares(self, sample_weight: Any, n: int) -> Array:
        v = self._weights(sample_weight, n)
        return np.ones(n) if v is None else v

    def _pass(self, X: Array, y: Array, v: Array, w: Array, last: UnitTrace | None) -> tuple[Array, UnitTrace]:
        """One step for each row in the order given; without a `last` trace the step is chosen by these rows."""
        A = augmented(X, self.fit_intercept)
        w = np.ascontiguousarray(w[: A.shape[1]])
        known = last is not None and last.per == "pass"  # steps over all rows at once have another limit
        largest = float(largest_step(A, v, self.kind, single=True))
        if last is not None and known:  # longer rows than those before need a shorter step
            largest = min(largest, last.largest_step)
        step = 0.5 * largest if self.learning_rate is None else float(self.learning_rate)
        g = np.empty(w.size)
        before = float(downhill(A, y, v, w, self.kind, g))
        row_steps(A, y, v, np.arange(len(A)), w, step, self.kind)
        after = float(downhill(A, y, v, w, self.kind, g))
        if not np.isfinite(after):
            raise self._diverged(step, largest_step(A, v, self.kind, single=True))
        message, path = "one pass over the rows of the last call", np.empty((0, w.size))
        return w, self._trace(np.array([after]), False, message, before, step, largest, path, "pass")

    def _trace(
        self,
        errors: Array,
        converged: bool,
        message: str,
        before: float,
        step: float,
        largest: float,
        path: Array,
        per: str,
    ) -> UnitTrace:
        names = (*self._feature_names(), *(["intercept"] if self.fit_intercept else []))
        return UnitTrace(errors.copy(), converged, message, before, step, largest, path.copy(), names, per)

    def _diverged(self, step: float, largest: float) -> DivergenceError:
        what = f"{type(self).__name__} diverged with learning_rate = {step:g}"
        scope = "converge" if self.solver == "gradient" else "hold"
        remedy = f"on these columns steps below {largest:.4g} {scope}; None uses half of that"
        return DivergenceError(what, remedy=remedy)
