"""Penalised logistic regression for a whole grid of penalties, two classes or many, each answer certified.

    minimise  1/(sum w) sum_i w_i loss_i + alpha sum_j f_j [ l1_ratio |b_j| + (1 - l1_ratio)/2 b_j^2 ],

loss_i = log(1 + exp(eta_i)) - y_i eta_i for two classes and log sum_k exp(eta_ik) - eta_i,y_i for K > 2, with
eta = offset + b0 + x'b (one such row per class when K > 2: the symmetric softmax, every coefficient with its own l1
penalty, glmnet's "ungrouped"). The intercept and columns of factor f_j = 0 are not penalised.

Method: proximal Newton with a line search. The model of the loss lives on a working set of coefficients and keeps
its curvature matrix along the path (`_logistic_path_model`); coefficients join when their gradient, followed along
its secant, will reach its threshold, and all others must prove in the end that they may stay at zero. The
unpenalised part is brought to its exact optimum after each step, so that the residuals, scaled until
|x_j' w r| <= alpha l1_ratio f_j, are a feasible dual point; the duality gap bounds how far the objective is from its
minimum and ends the work at each alpha: gap <= tol * (loss of the intercept alone).

Cost per alpha: a few passes over the working set's columns, one over all columns, and now and then n m^2 for m
coefficients in the working set.

Friedman, Hastie and Tibshirani (2010), J. Stat. Software 33(1); Lee, Sun and Saunders (2014), SIAM J. Optim. 24,
1420-1443 (proximal Newton); Tibshirani et al. (2012), JRSS B 74, 245-266 (strong rules); Ndiaye, Fercoq, Gramfort and
Salmon (2017), JMLR 18(128) (duality gaps).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.errors import ParameterError
from assay.linear._logistic_path_columns import columns_of
from assay.linear._logistic_path_curvature import free_curvature, pseudo_inverse
from assay.linear._logistic_path_loss import Loss, penalty_along, violation
from assay.linear._logistic_path_model import ColumnModel, Model
from assay.numerics.threads import one_blas_thread
from assay.resampling import take

__all__ = ["LogisticProblem", "Solutions", "fit_penalized"]

Array = np.ndarray

MARGIN = 0.97
"""A coefficient joins when its predicted gradient reaches this share of its threshold."""

STAY = 0.8
"""When the curvature is taken anew, a zero coefficient stays in the working set from this share of its threshold on."""

SLOW = 0.25
"""A step that leaves more than this share of the gap has an old curvature matrix to blame."""

CHEAP = 8
"""The curvature is taken anew at every step while m^2 is at most so many times the number of coefficients."""

STRIDE = 0.5
"""The next penalty on the way is at least this share of the last; those in between are solved roughly."""

ROUGH = 1e-3
"""Relative gap of the penalties in between."""

MOST_MEMBERS = 2_000
"""A working set beyond this size does without the matrix of its curvature."""

FREE_TOL = 1e-12
"""Gradient of the unpenalised columns (of unit length) that counts as zero, as a share of the sum of |residuals|."""

TINY = 1e-300

IDLE, MOST_IDLE = 1e-13, 4
"""So many steps in a row, with a new curvature matrix, that lower the objective by less than this share: rounding."""

ENOUGH_DEVIANCE, LEAST_GAIN = 0.999, 1e-5
"""Where glmnet stops a path: share of the deviance explained, and least gain of it from one alpha to the next."""


@dataclass(frozen=True, eq=False)
class Solutions:
    """A path: coefficients (alphas, rows, p) in the units of the data, intercepts (alphas, rows), and its proof."""

    alphas: Array
    coefs: Array
    intercepts: Array
    gaps: Array
    iterations: Array
    deviance_ratio: Array
    converged: Array


class LogisticProblem:
    """The data of one problem and the point where its solver stands: b (scaled, flat by class), free part, eta.

    `codes` are 0..K-1, `offset` (n,) for two classes and (n, K) for more; rows without weight are left out.
    """

    def __init__(
        self, X: Any, codes: Array, K: int, w: Array | None, offset: Array | None, factors: Array, fit_intercept: bool
    ) -> None:
        n = X.shape[0]
        weights = np.ones(n) if w is None else np.asarray(w, dtype=np.float64)
        if not weights.all():
            rows = np.flatnonzero(weights)
            X = take(X, rows)
            codes, weights, offset = codes[rows], weights[rows], None if offset is None else offset[rows]
        weights = weights / weights.max()
        weights = weights / weights.sum()
        shift = None if offset is None else np.ascontiguousarray(np.asarray(offset, float).reshape(len(weights), -1).T)
        self.fit_intercept, self.factors = fit_intercept, np.asarray(factors, dtype=np.float64)
        self.table = columns_of(X, weights, fit_intercept)
        self.loss = Loss(codes, K, weights, shift)
        self.free = np.flatnonzero((self.factors == 0) & self.table.alive)
        self.penalised = np.tile((self.factors > 0) & self.table.alive, self.loss.rows)
        ones = np.ones((int(fit_intercept), weights.size))
        self.U = np.concatenate([ones, self.table.rows(self.free)])
        self.u = np.zeros((self.loss.rows, len(self.U)))
        self.b = np.zeros(self.loss.rows * self.table.p)
        if fit_intercept and self.free.size:
            self._settle(self.U[:1])
        elif fit_intercept:
            self._settle(self.U)
        self.null = self.loss.value
        self._settle(self.U)
        self.q = self._gradient()
        self.start_q = self.q

    def _gradient(self) -> Array:
        """Minus the gradient of all coefficients, zero for those that are free or constant."""
        return np.where(self.penalised, self.table.all_dots(self.loss.residual).ravel(), 0.0)

    def _free_gradient(self, U: Array) -> Array:
        """Minus the gradient of the unpenalised part, class by class."""
        if len(U) == self.fit_intercept:
            return self.loss.residual.sum(axis=1)[: self.loss.rows * len(U)]
        return (self.loss.residual @ U.T).ravel()

    def _settle(self, U: Array) -> float:
        """Newton steps on the unpenalised part until its gradient vanishes; returns what is left of it."""
        rows, nu = self.loss.rows, len(U)
        if rows == nu == self.fit_intercept:
            moved, left = self.loss.settle_level(FREE_TOL)
            self.u[0, 0] += moved
            return left
        left = np.inf
        for _ in range(50):
            g = self._free_gradient(U)
            before, left = left, float(np.max(np.abs(g), initial=0.0)) / max(float(self.loss.w @ self.loss.wrong), TINY)
            if left <= FREE_TOL or (left < 100 * FREE_TOL and left > 0.5 * before):
                break
            step = (pseudo_inverse(free_curvature(self.loss.shape, self.loss.w, U)) @ g).reshape(rows, nu)
            if not self._line_search(step @ U, -float(g @ step.ravel()), None):
                break
            self.u[:, :nu] += self.length * step
        return left

    def _line_search(self, direction: Array, slope: float, penalty: Any) -> bool:
        """Go along `direction` as far as the objective falls; sets `length`. False where it never does."""
        start, eta = self.loss.value, self.loss.eta.copy()
        first = 0.0 if penalty is None else penalty(0.0)
        # Near the end the fall is smaller than the rounding of the sum, and the model knows better than the sum.
        rounding = 1e-13 * (abs(start) + first)
        t = 1.0
        for _ in range(40):
            np.multiply(direction, t, out=self.loss.eta)
            self.loss.eta += eta
            value = self.loss.update() + (0.0 if penalty is None else penalty(t))
            if value <= start + first + 1e-4 * t * slope + rounding:
                self.length = t
                return True
            t *= 0.5
        self.loss.eta[:] = eta
        self.loss.update()
        return False

    def thresholds(self, alpha: float, l1_ratio: float) -> tuple[Array, Array]:
        """The l1 and l2 penalties of the scaled coefficients."""
        s = self.table.scale
        with np.errstate(over="ignore", under="ignore"):
            lam, d = alpha * l1_ratio * self.factors / s, alpha * (1 - l1_ratio) * self.factors / s / s
        rows = self.loss.rows
        return np.tile(np.minimum(lam, 1e150), rows), np.tile(np.minimum(d, 1e150), rows)

    def alpha_max(self, l1_ratio: float) -> float:
        """The smallest alpha at which every penalised coefficient is zero."""
        if l1_ratio == 0:
            return 0.0
        inside = np.flatnonzero(self.penalised)
        column = inside % self.table.p
        # Not by way of the thresholds, whose ends are cut off.
        size = np.abs(self.start_q[inside]) * self.table.scale[column] / self.factors[column]
        return float(np.max(size, initial=0.0)) / l1_ratio

    def gap(self, q: Array, b: Array, lam: Array, d: Array) -> float:
        """The duality gap of the present point for the coefficients given (all, or a working set)."""
        ridge = 0.5 * float(d @ (b * b))
        primal = self.loss.value + float(lam @ np.abs(b)) + ridge
        best = -np.inf
        if (lam > 0).all():
            worst = float(np.max(np.abs(q - d * b) / lam, initial=0.0))
            t = 1.0 if worst <= 1.0 else 1.0 / worst
            best = self.loss.dual(t) - t * t * ridge
        if (d > 0).all():
            excess = np.maximum(np.abs(q) - lam, 0.0)
            best = max(best, self.loss.dual(1.0) - 0.5 * float(excess @ (excess / d)))
        return max(primal - best, 0.0)

    def begin(self, coefs: Array) -> None:
        """Stand at the coefficients given (rows, p), in the units of the data; the free part follows."""
        scaled = np.asarray(coefs, dtype=np.float64).reshape(self.loss.rows, -1) * self.table.scale
        first = int(self.fit_intercept)
        self.u[:, first:] = scaled[:, self.free]
        self.b[:] = np.where(self.penalised, scaled.ravel(), 0.0)
        self.loss.eta[:] = self.u @ self.U + (0.0 if self.loss.offset is None else self.loss.offset)
        for k, row in enumerate(self.b.reshape(self.loss.rows, -1)):
            members = np.flatnonzero(row)
            self.table.combine(members, row[members], self.loss.eta[k])
        self.loss.update()
        self._settle(self.U)
        self.q = self._gradient()

    def coefficients(self) -> tuple[Array, Array]:
        """Coefficients (rows, p) and intercepts (rows,) in the units of the data."""
        rows, first = self.loss.rows, int(self.fit_intercept)
        scaled = self.b.reshape(rows, -1).copy()
        u = self.u - self.u.mean(axis=0) if rows > 1 else self.u
        scaled[:, self.free] = u[:, first:]
        coefs = scaled / self.table.scale
        intercepts = u[:, 0] - coefs @ self.table.mean if first else np.zeros(rows)
        return coefs, intercepts - intercepts.mean() if rows > 1 else intercepts

    def solve(
        self, alphas: Array, l1_ratio: float, tol: float, max_iter: int, early_stop: bool = False, warm: bool = False
    ) -> Solutions:
        """The solutions for decreasing alphas, each from the last; `warm` starts from the present point."""
        walk = _Walk(self, l1_ratio, max(tol, 1e-13) * self.null, max_iter)
        last = np.inf if warm or l1_ratio == 0 else self.alpha_max(l1_ratio)
        A, (rows, p) = alphas.size, (self.loss.rows, self.table.p)
        coefs, intercepts = np.zeros((A, rows, p)), np.zeros((A, rows))
        gaps, iterations, ratio = np.zeros(A), np.zeros(A, dtype=np.int64), np.zeros(A)
        done = 0
        for a, alpha in enumerate(alphas):
            with one_blas_thread():  # many small products and passes over memory: threads would wait for each other
                while alpha < STRIDE * last < np.inf:
                    last *= STRIDE
                    iterations[a] += walk.to(last, ROUGH * self.null)[1]
                gaps[a], count = walk.to(float(alpha), walk.tol)
            iterations[a] += count
            coefs[a], intercepts[a] = self.coefficients()
            ratio[a] = 1 - self.loss.value / self.null if self.null > 0 else 0.0
            last, done = min(last, alpha), a + 1
            gain = ratio[a] - ratio[a - 1] if a else np.inf
            if early_stop and a >= 4 and (ratio[a] > ENOUGH_DEVIANCE or gain < LEAST_GAIN * ratio[a]):
                break
        return Solutions(
            alphas[:done], coefs[:done], intercepts[:done], gaps[:done], iterations[:done], ratio[:done],
            gaps[:done] <= walk.tol,
        )  # fmt: skip


class _Walk:
    """One penalty after another: the working set, and the gradients at the last two penalties."""

    def __init__(self, problem: LogisticProblem, l1_ratio: float, tol: float, max_iter: int) -> None:
        self.at, self.l1_ratio, self.tol, self.max_iter = problem, l1_ratio, tol, max_iter
        self.model: Model | ColumnModel = Model(problem.table, problem.loss, problem.U)
        # The gap is quadratic in the KKT violation where there is a ridge part, so both have to be small: the violation
        # as a share of the largest gradient of the null model, the gap as a share of its loss.
        self.slope = float(np.max(np.abs(problem.start_q), initial=0.0)) / max(problem.null, TINY)
        self.now: tuple[float, Array] = (np.inf, problem.q)
        self.old = self.now
        self._add(np.flatnonzero(problem.b))

    def to(self, alpha: float, tol: float) -> tuple[float, int]:
        """Solve for alpha from where the problem stands; returns the duality gap and the number of steps."""
        at = self.at
        lam, d = at.thresholds(alpha, self.l1_ratio)
        self._add(self._expected(alpha, lam))
        q, complete, whole = at.q, True, at.penalised
        previous, gap, steps, idle, new = np.inf, np.inf, 0, 0, False
        while True:
            model, members = self.model, self.model.members
            near = at.gap(q[members], at.b[members], lam[members], d[members])
            off = violation(q[members], at.b[members], lam[members], d[members])
            over = steps >= self.max_iter or idle >= MOST_IDLE
            if (near <= tol and off <= tol * self.slope) or over:
                if not complete:
                    q, complete = at._gradient(), True
                gap = at.gap(q[whole], at.b[whole], lam[whole], d[whole])
                if over or (gap <= tol and violation(q, at.b, lam, d) <= tol * self.slope):
                    break
                late = np.flatnonzero((np.abs(q) > lam) & whole & ~model.inside)
                if late.size:
                    self._add(late)
                    previous = np.inf
                    continue
            slow = near > SLOW * previous
            cheap = steps > 0 and members.size**2 <= CHEAP * at.b.size
            if slow:
                model.precise = model.precise or new
                self._prune(q, lam)
            elif cheap:
                model.refresh()
            members = model.members
            previous, new = near, slow or cheap
            fall = self._step(q[members], lam[members], d[members])
            idle = idle + 1 if new and fall <= IDLE * at.null else 0
            steps += 1
            q, complete = self._partial(q)
        at.q = q
        if self.now[0] != alpha:
            self.old, self.now = self.now, (alpha, q)
        return gap, steps

    def _add(self, new: Array) -> None:
        at, model = self.at, self.model
        if model.members.size + new.size > MOST_MEMBERS and isinstance(model, Model):
            model = self.model = ColumnModel(at.table, at.loss, at.U, at.fit_intercept, model.members)
        model.add(new)

    def _partial(self, q: Array) -> tuple[Array, bool]:
        """The gradient afresh, of all coefficients where the working set holds most of them."""
        at, members, p = self.at, self.model.members, self.at.table.p
        if members.size > 0.5 * at.b.size:
            return at._gradient(), True
        q = q.copy()
        for k in range(at.loss.rows):
            mine = members[members // p == k]
            q[mine] = at.table.dots(at.loss.residual[k : k + 1], mine - k * p)[0]
        return q, False

    def _prune(self, q: Array, lam: Array) -> None:
        """Take the curvature anew, for those members that are not zero or not far from their threshold."""
        members = self.model.members
        self.model.refresh((self.at.b[members] != 0) | (np.abs(q[members]) >= STAY * lam[members]))

    def _step(self, q: Array, lam: Array, d: Array) -> float:
        """Minimise the model, go there as far as the objective falls, settle the free part; returns the fall."""
        at, members = self.at, self.model.members
        b = at.b[members]
        g_free = at._free_gradient(at.U)
        tol = max(1e-3 * violation(q, b, lam, d), 1e-14 * float(np.max(lam, initial=0.0)), TINY)
        best, free, direction = self.model.minimise(b, q, g_free, lam, d, tol)
        change = best - b

        def penalty(t: float) -> float:
            return float(penalty_along(b, change, t, lam, d))

        slope = penalty(1.0) - penalty(0.0) - float(q @ change) - float(g_free @ free.ravel())
        before = at.loss.value
        if not at._line_search(direction, min(slope, 0.0), penalty):
            return 0.0
        at.b[members] = best if at.length == 1.0 else b + at.length * change
        at.u += at.length * free
        at._settle(at.U)
        return before + penalty(0.0) - at.loss.value - penalty(at.length)

    def _expected(self, alpha: float, lam: Array) -> Array:
        """Coefficients whose gradient, followed along its secant, reaches the threshold at alpha."""
        (a_now, q), (a_old, q_old) = self.now, self.old
        if np.isfinite(a_old) and a_old != a_now:
            q = q + (q - q_old) * ((alpha - a_now) / (a_now - a_old))
        return np.flatnonzero((np.abs(q) >= MARGIN * lam) & self.at.penalised & ~self.model.inside)


def fit_penalized(
    X: Any,
    codes: Array,
    K: int,
    w: Array | None,
    offset: Array | None,
    alphas: Array,
    l1_ratio: float,
    penalty_factors: Array | None,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
    start: Array | None = None,
    *,
    early_stop: bool = False,
) -> tuple[Array, Array, Array, Array]:
    """Coefficients (A, 1 or K, p), intercepts (A, 1 or K), duality gaps (A,) and steps (A,), in the order of `alphas`.

    `codes` are 0..K-1, all of them present; K = 2 has one row, that of class 1; `offset` is (n,) for K = 2 and (n, K)
    for more. The gap is in the units of the objective and has converged at <= tol times the loss of the intercept
    alone. `start` (1 or K, p) are coefficients to begin with. With `early_stop` a path ends where glmnet ends it (99.9%
    of the deviance, or a gain of less than 1e-5 of it) and the arrays are shorter.
    """
    grid = np.asarray(alphas, dtype=np.float64).ravel()
    if not grid.size or not np.isfinite(grid).all() or (grid <= 0).any():
        raise ParameterError("alphas must be finite and above zero", remedy="fit without penalty for alpha = 0")
    factors = np.ones(X.shape[1]) if penalty_factors is None else np.asarray(penalty_factors, dtype=np.float64)
    problem = LogisticProblem(X, np.asarray(codes), K, w, offset, factors, fit_intercept)
    if start is not None:
        problem.begin(np.asarray(start))
    order = np.argsort(-grid, kind="stable")
    found = problem.solve(grid[order], float(l1_ratio), tol, max_iter, early_stop, start is not None)
    back = np.argsort(order[: found.alphas.size], kind="stable")
    return found.coefs[back], found.intercepts[back], found.gaps[back], found.iterations[back]
