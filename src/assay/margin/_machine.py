"""What machines with kernels share: reading rows, one dual after another, and scores of new rows.

Training rows are held twice: in single precision for the rows of the Gram matrix that a solver asks for, and in double
precision for the end of small problems and for all predictions, so that neither depends on how rows are batched.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils import Tags

from assay.base import Constraint, Estimator, boolean, instance_of, integer, none, one_of, real
from assay.errors import AssayWarning, ConvergenceWarning, DataError, ParameterError
from assay.margin._dual import Dual, Solution, bias_and_gap, gap_at, solve
from assay.margin._finish import finish
from assay.margin._gram import Gram
from assay.margin._separable import warn_of_indefinite
from assay.margin._trace import SolverTrace, trace_of
from assay.margin.kernels import RBF, Kernel, Laplacian, Precomputed, Wrapped, named
from assay.margin.kernels import Linear as LinearKernel
from assay.numerics.seeds import generator
from assay.resampling import take
from assay.state import Specs, anything, floats, left_out, need, part

__all__ = [
    "EXACT",
    "KernelMachine",
    "Machine",
    "Source",
    "is_sparse",
    "refuse_huge",
    "scale_rate",
    "unit_of",
    "wide_columns",
]

Array = np.ndarray
EXACT = 1000
"""Up to this many rows a dual is ended exactly."""
FEW = 2000
"""Up to this many rows the whole Gram matrix is made at once."""
UNEVEN = 1e4
"""A column that varies this many times as much as another one hides it from the kernel."""
RATED = ("rbf", "poly", "polynomial", "sigmoid", "laplacian")
"""Kernels with a rate gamma; with gamma = "scale" a common factor of all cells changes nothing."""
NAMES = ("linear", *RATED, "cosine", "chi2", "additive_chi2", "precomputed")
"""Kernels that can be asked for by name."""
HUGE = 1e50
"""Cells beyond this are refused where they cannot be rescaled."""
SINGLE = 1e15
"""Cells beyond this, or tables all below its inverse, are not turned into float32."""
POSITIVE = Constraint(
    lambda v: real(0, open_low=True).accepts(v) or (isinstance(v, float) and v == np.inf),
    "a number above 0, or inf for a hard margin",
)


def is_sparse(X: Any) -> bool:
    """Whether X is sparse; unlike SciPy's, it tells type checkers nothing, whose idea of sparse has no methods."""
    return bool(sparse.issparse(X))


class Source:
    """Training rows prepared for one kernel, in both precisions; of few rows the whole Gram matrix, made once."""

    def __init__(self, exact: Any, single: Any, K: Array | None = None, diagonal: Array | None = None) -> None:
        self.exact, self.single, self.K = exact, single, K
        self.n: int = exact.n if K is None else len(K)
        given = diagonal if diagonal is not None else exact.diagonal if K is None else np.diag(K)
        self.diagonal = np.array(given, dtype=np.float64)

    @classmethod
    def of(cls, kernel: Kernel, X: Any, *, centred: bool) -> Source:
        """Read rows; `centred` says that a shift of the rows changes nothing."""
        exact = kernel.prepare(X)
        if exact.n <= FEW:
            return cls(None, None, np.asarray(exact.block(), dtype=np.float64))
        dense = isinstance(X, np.ndarray) and X.dtype == np.float64
        if not (dense or is_sparse(X)) or isinstance(exact.kernel, Wrapped | Precomputed):
            return cls(exact, None)
        largest = float(np.abs(X.data if is_sparse(X) else X).max(initial=0.0))
        if not 1 / SINGLE < largest < SINGLE:
            return cls(exact, None)
        rows = X - X.mean(axis=0) if dense and centred else X
        return cls(exact, exact.kernel.prepare(rows.astype(np.float32)))

    def take(self, rows: Array) -> Source:
        """The same for some rows."""
        if self.K is not None:
            return Source(None, None, self.K[np.ix_(rows, rows)])
        single = None if self.single is None else self.single.take(rows)
        return Source(self.exact.take(rows), single, None, self.diagonal[rows])

    def block(self, rows: Any, columns: Any = None, out: Any = None) -> Array:
        """A block of the Gram matrix in the precision of `out`."""
        if self.K is not None:
            out[:] = self.K[rows] if columns is None else self.K[np.ix_(rows, columns)]
        elif out.dtype == np.float32 and self.single is not None:
            self.single.block(rows, columns, out=out)
        else:
            out[:] = self.exact.block(rows, columns)
        return np.asarray(out)

    def whole(self) -> Array:
        """The Gram matrix in double precision."""
        return self.K if self.K is not None else np.asarray(self.exact.block(), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Machine:
    """One solved dual: beta, bias, |w|^2, and its trace."""

    beta: Array
    bias: float
    norm: float
    violation: float
    trace: SolverTrace
    e: Array


class KernelMachine(Estimator):
    """Parameters and steps that all machines with kernels share."""

    constraints: ClassVar[dict[str, Constraint]] = {
        "kernel": one_of(*NAMES)
        | instance_of(Kernel, "a kernel of assay.margin.kernels")
        | Constraint(callable, "a function of two tables"),
        "degree": integer(1),
        "gamma": one_of("scale", "auto") | real(0, open_low=True),
        "coef0": real(),
        "tol": real(0, open_low=True),
        "cache_size": real(0, open_low=True),
        "max_iter": integer(-1),
        "bias": one_of("unpenalised", "augmented", "none"),
        "solver": one_of("auto", "smo", "working_set", "dual_ascent"),
        "shrinking": boolean,
    }
    state: ClassVar[Specs] = {
        "kernel_": part(Kernel),
        "support_vectors_": anything,
        "n_iter_": anything,
        "dual_gap_": floats("machines", finite=False),
        "violation_": floats("machines", low=0),
        "_mean": none | floats("p"),
        "_unit": real(0, open_low=True),
        "_held": left_out(),
    }

    def _check_state(self) -> None:
        vectors = self.support_vectors_
        need(hasattr(vectors, "shape") and vectors.shape[0] == self.support_.size, "it has no support vectors")
        if isinstance(vectors, np.ndarray) and vectors.ndim == 2 and vectors.dtype.kind == "f":
            need(
                vectors.shape[1] == self.n_features_in_ and np.isfinite(vectors).all(), "support vectors are not finite"
            )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._pairwise()
        tags.input_tags.pairwise = self._pairwise()
        return tags

    def _reads_numbers(self) -> bool:
        return not isinstance(self.kernel, Kernel) or self.kernel.numeric

    def _pairwise(self) -> bool:
        return self.kernel == "precomputed" or isinstance(self.kernel, Precomputed)

    # Rows.

    def _read(self, X: Any, *, reset: bool = True) -> Any:
        """Rows as the kernel reads them: clean numbers, or as they come where it reads texts."""
        if self._reads_numbers():
            sparse_too = False if self._pairwise() else "csr"
            rows = self._validate(X, reset=reset, sparse=sparse_too, order="C")
            if self._pairwise() and reset:
                _check_gram(rows)
            if reset:
                invariant = isinstance(self.kernel, str) and self.kernel in RATED and self.gamma == "scale"
                self._unit = unit_of(rows) if invariant else 1.0
                if not invariant:
                    refuse_huge(self, rows)
            return rows if self._unit == 1.0 else rows * self._unit
        if reset:
            self._check_parameters()
            self._unit = 1.0
            if not len(X):
                raise DataError("Found array with 0 sample(s)", remedy="pass more rows")
            self.n_features_in_ = int(np.shape(X)[1]) if np.ndim(X) == 2 else 1
        return X if hasattr(X, "shape") else np.array(X, dtype=None if isinstance(X[0], str) else object)

    def _kernel(self, X: Any, w: Array | None) -> Kernel:
        """The kernel with the parameters that depend on the rows (and their weights) as numbers."""
        gamma = self.gamma
        if isinstance(self.kernel, str) and gamma == "scale" and self.kernel in RATED:
            gamma = scale_rate(X, w)
        made = named(self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0)
        if self._reads_numbers() and hasattr(self, "feature_names_in_"):
            made = made.by_position(self.feature_names_in_)  # rows of clean numbers have no names
        return made.resolve(X if w is None or w.all() else take(X, np.flatnonzero(w)))

    def _source(self, X: Any, w: Array | None) -> Source:
        """The training rows, prepared; the kernel is kept as `kernel_`."""
        self.kernel_ = self._kernel(X, w)
        still = isinstance(self.kernel_, RBF | Laplacian)
        if isinstance(X, np.ndarray) and X.dtype.kind == "f" and not self._pairwise():
            wide_columns(self, X)
        self._mean = None
        if isinstance(self.kernel_, LinearKernel) and self.bias == "unpenalised" and isinstance(X, np.ndarray):
            self._mean = X.mean(axis=0)  # the sum of beta is fixed, so a shift moves the bias alone
            return Source.of(self.kernel_, np.ascontiguousarray(X - self._mean), centred=False)
        source = Source.of(self.kernel_, X, centred=still)
        if not self._pairwise() and getattr(self, "C", 1.0) != np.inf:
            warn_of_indefinite(source, self.kernel_, coupled=self.bias == "unpenalised")
        return source

    # Duals.

    def _chosen(self, n: int) -> str:
        """The solver of a dual with n rows."""
        coupled = self.bias == "unpenalised"
        if self.solver == "auto":
            return ("smo" if n <= FEW else "working_set") if coupled else "dual_ascent"
        if self.solver == "dual_ascent" and coupled:
            what = (
                "solver = 'dual_ascent' updates one coefficient at a time, which does not work with an unpenalised bias"
            )
            raise ParameterError(what, remedy="pass bias='augmented' or bias='none', or solver='smo'")
        if self.solver == "smo" and not coupled:
            what = f"solver = 'smo' updates pairs of coefficients, which bias = {self.bias!r} does not need"
            raise ParameterError(what, remedy="pass solver='dual_ascent' or solver='working_set'")
        return str(self.solver)

    def _solve(self, source: Source, dual: Dual, *, share: int = 1, start: Any = None) -> Machine:
        """Solve one dual on prepared rows, within a share of the memory."""
        shift = 1.0 if self.bias == "augmented" else 0.0
        gram = Gram(source, self.cache_size / share, shift)
        solver = self._chosen(source.n)
        if source.n <= FEW and gram.whole:
            gram.fetch(np.arange(source.n))
        small = source.n <= EXACT
        tol = min(self.tol, 1e-5) if small and np.isfinite(dual.hi).all() else self.tol
        order = getattr(self, "order", "epochs")
        rng = generator(getattr(self, "random_state", 0))
        found = solve(
            dual, gram, solver=solver, tol=tol, max_iter=self.max_iter, start=start, order=order, rng=rng,
            shrinking=self.shrinking,
        )  # fmt: skip
        if small and self.max_iter == -1:
            found = _ended(source, dual, found, shift)
        found = _no_worse_than_nothing(dual, found)
        if self.bias == "augmented":
            bias = float(found.beta.sum())
            norm = float(found.beta @ (dual.c - found.e))
        else:
            bias, norm = found.bias, float(found.beta @ (dual.c - found.e))
        converged = found.converged or found.violation <= self.tol * 1.0001
        trace = trace_of(solver, found.records, found.gap, converged)
        return Machine(found.beta, bias, max(norm, 0.0), found.violation, trace, found.e)

    def _report(self, machines: Sequence[Machine]) -> None:
        """What is kept of the solutions, and a warning where a cap came first."""
        self.n_iter_ = np.array([machine.trace.n_iter for machine in machines])
        self.dual_gap_ = np.array([machine.trace.gap for machine in machines], dtype=np.float64)
        self.violation_ = np.array([machine.violation for machine in machines], dtype=np.float64)
        worst = max(machines, key=lambda machine: machine.violation)
        if not worst.trace.converged:
            what = (
                f"{type(self).__name__} stopped after {worst.trace.n_iter:,} steps with a KKT violation of "
                f"{worst.violation:.3g} (tol = {self.tol:g}) and a duality gap of {worst.trace.gap:.3g}; "
                "standardise the columns, lower C, or raise max_iter or tol"
            )
            warnings.warn(what, ConvergenceWarning, stacklevel=3)

    # Scores.

    def _hold(self, X: Any, rows: Array) -> None:
        """Keep the support vectors."""
        if is_sparse(X):
            X = X.tocsr()
        vectors = take(X, rows)
        self.support_vectors_ = vectors if self._unit == 1.0 else vectors / self._unit
        self._restore()

    def _restore(self) -> None:
        if isinstance(self.kernel_, Precomputed):
            self._held = None
            return
        vectors = self.support_vectors_
        if vectors.shape[0] == 0:
            self._held = None
            return
        if self._unit != 1.0:
            vectors = vectors * self._unit
        if self._centre() is not None:
            vectors = vectors - self._mean
        self._held = self.kernel_.prepare(vectors)

    def _centre(self) -> Array | None:
        return getattr(self, "_mean", None)

    def _scores(self, X: Any, coef: Array, bias: Array) -> Array:
        """K(new, support) coef + bias, by blocks of new rows."""
        n = X.shape[0]
        out = np.tile(np.asarray(bias, dtype=np.float64), (n, 1))
        if not coef.shape[0]:
            return out
        if self._held is None:
            return out + X[:, self.support_] @ coef
        if isinstance(self.kernel_, LinearKernel):
            return out + self._linear_scores(X, coef)
        height = max(64, (1 << 22) // coef.shape[0])
        for at in range(0, n, height):
            rows = X.iloc[at : at + height] if hasattr(X, "iloc") else X[at : at + height]
            out[at : at + height] += self._held.cross(rows) @ coef
        return out

    def _linear_scores(self, X: Any, coef: Array) -> Array:
        """Through the weights, which are far fewer than the support vectors."""
        vectors, mean = self.support_vectors_, self._centre()
        if mean is not None:
            weights = (vectors - mean).T @ coef
            return np.asarray(X @ weights) - mean @ weights
        return np.asarray(X @ (vectors.T @ coef))


def _ended(source: Source, dual: Dual, found: Solution, shift: float) -> Solution:
    """The active-set end of a small dual, in double precision; the solver's own where it does not get there."""
    K = source.whole() + shift if shift else source.whole()
    if not np.isfinite(K).all():
        return found
    exact = finish(K, dual, found.beta)
    beta, e = (found.beta, dual.c - K @ found.beta) if exact is None else exact
    bias, gap, left = bias_and_gap(dual, beta, e)
    return Solution(beta, e, bias, dual.objective(beta, e), gap, left, found.converged, found.records)


def _no_worse_than_nothing(dual: Dual, found: Solution) -> Solution:
    """A solution that was not reached gives way to beta = 0, where that has the lower primal objective.

    Steps in columns of wildly different sizes lose themselves in rounding; the warning says that they did.
    """
    if found.converged or dual.total or not np.isfinite(dual.hi).all():
        return found
    beta = np.zeros(dual.c.size)
    bias, _, left = bias_and_gap(dual, beta, dual.c)
    tried = (bias, *np.quantile(dual.c, [0.0, 0.5, 1.0])) if dual.coupled else (bias,)
    gap, bias = min((gap_at(dual, beta, dual.c, float(b)), float(b)) for b in tried)
    if found.gap + found.objective <= gap * (1.0 + 1e-9):  # the gap is P - D, and D is 0 at beta = 0
        return found
    return Solution(beta, dual.c.copy(), bias, 0.0, gap, left, False, found.records)


def _check_gram(K: Array) -> None:
    """A Gram matrix must be square, symmetric, and should have no negative eigenvalue."""
    if K.shape[0] != K.shape[1]:
        what = f"Precomputed matrix must be a square matrix. Input is a {K.shape[0]}x{K.shape[1]} matrix"
        raise DataError(what, remedy="pass the Gram matrix of the training rows with themselves")
    top = float(np.abs(K).max(initial=0.0))
    if np.abs(K - K.T).max(initial=0.0) > 1e-6 * top:
        i, j = np.unravel_index(int(np.argmax(np.abs(K - K.T))), K.shape)
        what = f"the Gram matrix is not symmetric: K[{i}, {j}] = {K[i, j]:.4g} but K[{j}, {i}] = {K[j, i]:.4g}"
        raise DataError(what, remedy="pass (K + K.T) / 2 if that is what you mean")
    d = np.diag(K)
    bad = bool((d < -1e-9 * top).any()) or bool(((1 + 1e-6) * np.outer(d, d) + 1e-12 * top**2 < K**2).any())
    if not bad and K.shape[0] <= EXACT:
        least = float(np.linalg.eigvalsh(K)[0])
        bad = least < -1e-7 * top * K.shape[0]
    if bad:
        what = (
            "the Gram matrix is not positive semi-definite, so the dual may have several optima and the duality gap "
            "is no certificate; clip its negative eigenvalues, or use a valid kernel"
        )
        warnings.warn(what, AssayWarning, stacklevel=5)


def refuse_huge(estimator: Estimator, X: Any) -> None:
    """Beside a column of such numbers the others would be nothing but rounding, and products overflow."""
    if float(np.abs(X.data if is_sparse(X) else X).max(initial=0.0)) <= HUGE:
        return
    tops: Any = abs(X).max(axis=0)
    tops = np.asarray(tops.todense() if is_sparse(tops) else tops).ravel()
    j = int(np.argmax(tops))
    what = f"{estimator._column(j)} reaches {tops[j]:.3g}, too large for a support vector machine"
    raise DataError(what, remedy="standardise the columns first, for instance with StandardScaler")


def wide_columns(estimator: Estimator, X: Array) -> None:
    """A hint to standardise where one column varies so much more than another that it hides it."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = X.std(axis=0)
    moving = np.flatnonzero(spread > 0)
    if moving.size < 2:
        return
    widest, narrowest = moving[np.argmax(spread[moving])], moving[np.argmin(spread[moving])]
    if spread[widest] > UNEVEN * spread[narrowest]:
        what = (
            f"{estimator._column(int(widest))} varies more than {UNEVEN:,.0f} times as much as "
            f"{estimator._column(int(narrowest))}, which then has almost no effect; standardise the columns first, for "
            "instance with sklearn.preprocessing.StandardScaler"
        )
        warnings.warn(what, AssayWarning, stacklevel=4)


def scale_rate(X: Any, w: Array | None) -> float:
    """gamma = "scale": 1 / (p var X), the variance of all cells, by the weights of their rows."""
    if w is None or is_sparse(X):
        kept = X if w is None else X[w > 0]
        if w is None or (w[w > 0] == w.max()).all():
            resolved: Any = RBF("scale").resolve(kept)
            return float(resolved.gamma)
    rows, p = X, X.shape[1]
    share = w / w.sum() / p
    top = float(abs(rows).max()) or 1.0
    scaled = rows / top
    mean = float(share @ np.asarray(scaled.sum(axis=1)).ravel())
    if is_sparse(rows):
        squares = np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel()
        variance = float(share @ squares) - mean**2
    else:
        variance = float(share @ ((scaled - mean) ** 2).sum(axis=1))
    if not variance * top**2 > 1e-300:
        return 1.0
    return min(1.0 / (p * variance) / top / top, 1e300)


def unit_of(X: Any) -> float:
    """A power of two that brings wild tables near 1; 1 for all others."""
    top = float(np.abs(X.data if is_sparse(X) else X).max(initial=0.0))
    if not top or 1 / SINGLE < top < SINGLE:
        return 1.0
    return float(2.0 ** -np.round(np.clip(np.log2(top), -1000, 1000)))
