"""Hidden Markov models of tables: states that emit normal rows or counts; `hmm` says what all of them share (row E4).

    normal     b_k(x) = N(x; mu_k, Sigma_k)
    counts     b_k(x) = prod_j rate_kj^x_j exp(-rate_kj) / x_j!

Rows are steps in time; NaN is integrated out. Cost of an iteration of EM: T K^2 for the recursions, T K p^2 for full
covariances, T K p for the others and for counts.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import Tags

from assay.base import Constraint, array_like, none, one_of, real
from assay.checks import name_columns
from assay.errors import DataError, ParameterError
from assay.latent._emissions import Counts, Normals, Rates
from assay.latent._gaussian import KINDS, Frame, expand, n_covariance_parameters
from assay.latent._hmm import HiddenMarkov, shape_of
from assay.latent._hmm_steps import HMMParams
from assay.latent._mixture_start import Given, Starts, given_start
from assay.latent._mixture_steps import to_units
from assay.latent._sequences import Sequences, as_tables, offsets
from assay.latent._table import Gapped
from assay.numbers import fmt
from assay.state import Specs, floats, need, part

__all__ = ["GaussianHMM", "PoissonHMM"]

Array = np.ndarray

STARTS = one_of("kmeans", "k-means++", "random", "random_from_data")


class _TableHMM(HiddenMarkov, Gapped):
    """Models whose observations are rows of a table."""

    def _rows(self, X: Any, lengths: Any, *, reset: bool) -> tuple[Array, Sequences]:
        table, sequences = as_tables(X, lengths)
        values = self._table(table, reset=reset)
        if reset and np.isnan(values).all(axis=0).any():
            names = self._feature_names()
            gone = [names[j] for j in np.flatnonzero(np.isnan(values).all(axis=0))]
            raise DataError(f"{name_columns(gone)} has no value in any row", remedy="drop it before the fit")
        return values, Sequences(offsets(lengths, len(values))) if sequences is None else sequences

    def _columns(self) -> tuple[str, ...]:
        return tuple(self._feature_names())


class GaussianHMM(_TableHMM):
    """A hidden Markov model whose states emit normal rows.

        b_k(x) = N(x; mu_k, Sigma_k)

    Variances are bounded from below, relative to those of the columns, instead of being added to: the fit is the maximum
    of the likelihood unless a state would collapse onto few rows.

    | parameter        | default  | range               | meaning                                                      |
    |------------------|----------|---------------------|--------------------------------------------------------------|
    | n_components     | None     | from 1 on           | K; None: as many as are named, known or given, otherwise 2   |
    | covariance_type  | "full"   | "tied", "diag", "spherical", "shared" | own matrices; one for all; own diagonals; own v_k I; one v I for all |
    | state_names      | None     | list of names       | the states and their order; None: the known ones, sorted, otherwise 0, 1, ... |
    | startprob_init   | None     | (K,)                | start values; zeros stay zero                                |
    | transmat_init    | None     | (K, K)              | start values; zeros stay zero                                |
    | means_init       | None     | (K, p)              | start values                                                 |
    | covariances_init | None     | as `covariances_`   | start values                                                 |
    | smoothing        | 0.0      | from 0 on           | alpha, a pseudo-count on every start and transition that may occur |
    | reg_covar        | 1e-6     | from 0 to 1         | least variance in any direction, in units of the columns' variances |
    | params           | "ste"    | some of its letters | what is estimated: start law, transitions, emissions         |
    | init_params      | "kmeans" | "k-means++", "random_from_data", "random" | how rows are grouped for a start, as in `GaussianMixture` |
    | n_init           | 1        | from 1 on           | random starts; the best is kept                              |
    | max_iter         | 500      | from 1 on           | iterations of EM at most                                     |
    | tol              | 1e-6     | from 0 on           | stop when the log-likelihood per step rises by less          |
    | keep_params      | False    |                     | `trace_` holds the parameters of each iteration              |
    | random_state     | None     | seed                | for starts and `sample`                                      |
    | n_jobs           | None     | threads             | never changes a result                                       |

    Fitted: `states_`, `startprob_`, `transmat_`, `means_` (K, p), `covariances_` ((K, p, p), (p, p), (K, p), (K,) or (1,)),
    `trace_` (an `EMTrace`), `starts_`, `n_iter_`, `converged_`, `n_features_in_`, `feature_names_in_`.

    X is one table with the `lengths` of its sequences (one, where they are left out), or a list of tables; a vector in such
    a list is a sequence of one column. A missing cell (NaN) is integrated out, and a row without any says nothing. Rows
    are steps in time: unlike in a mixture, an answer depends on the rows before and after.

    Rabiner (1989), A tutorial on hidden Markov models, Proc. IEEE 77, 257-286.

    >>> X = np.array([[0.1], [-0.2], [0.0], [5.1], [4.8], [5.0], [0.2], [-0.1]])
    >>> model = GaussianHMM(2, covariance_type="tied", random_state=0).fit(X)
    >>> np.sort(model.means_.ravel()).round(3).tolist()
    [0.0, 4.967]
    >>> path = model.predict(X)
    >>> (path == path[0]).astype(int).tolist()
    [1, 1, 1, 0, 0, 0, 1, 1]
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        **HiddenMarkov.constraints,
        "covariance_type": one_of(*KINDS),
        "means_init": none | array_like,
        "covariances_init": none | array_like | real(0, open_low=True),
        "reg_covar": real(0, 1),
        "init_params": STARTS,
    }
    state: ClassVar[Specs] = {"_frame": part(Frame, "p"), "_floor": floats("p", low=0)}

    def _check_state(self) -> None:
        law = self._params.law
        need(getattr(law, "kind", None) == self.covariance_type)

    _frame: Frame
    _floor: Array

    def __init__(
        self,
        n_components: int | None = None,
        *,
        covariance_type: str = "full",
        state_names: Any = None,
        startprob_init: Any = None,
        transmat_init: Any = None,
        means_init: Any = None,
        covariances_init: Any = None,
        smoothing: float = 0.0,
        reg_covar: float = 1e-6,
        params: str = "ste",
        init_params: str = "kmeans",
        n_init: int = 1,
        max_iter: int = 500,
        tol: float = 1e-6,
        keep_params: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.state_names = state_names
        self.startprob_init = startprob_init
        self.transmat_init = transmat_init
        self.means_init = means_init
        self.covariances_init = covariances_init
        self.smoothing = smoothing
        self.reg_covar = reg_covar
        self.params = params
        self.init_params = init_params
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.keep_params = keep_params
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def from_parameters(cls, startprob: Any, transmat: Any, means: Any, covariances: Any, **settings: Any) -> Self:
        """A model with given parameters; `fit` starts from them. Settings are those of the class."""
        given = {"means_init": means, "covariances_init": covariances}
        model = cls(startprob_init=startprob, transmat_init=transmat, **given, **settings)
        model._check_parameters()
        K, p = shape_of(means, "means")
        model.states_, model.n_features_in_ = model._named(K), p
        model._frame = Frame(np.zeros(p), np.ones(p))
        values = Given(np.full(K, 1.0 / K), means, covariances)
        made = given_start(values, model.covariance_type, K, model._frame, None, None)
        model._floor = model.reg_covar * np.einsum("kii->i", expand(made.law)) / K
        _, chain = model._rules(K)
        model._params = HMMParams(*chain, made.law, np.zeros(K, dtype=bool))
        return model

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None, states: Any = None) -> Self:
        """Count where all `states` are known, otherwise fit by EM; None, NaN or -1 is an unknown one. y is ignored."""
        return self._fit(X, lengths, states)

    def partial_fit(
        self, X: Any, y: Any = None, *, lengths: Any = None, states: Any = None, forgetting: float = 0.7
    ) -> Self:
        """More sequences: exact counting where their states are known, otherwise a step of online EM.

        The first call fits. After that, sums of labelled sequences are added up, and a batch t = 1, 2, ... of others
        counts with the share (t + 1)^-forgetting, 0.5 < forgetting <= 1 (Cappé, Moulines 2009). Scales and the bound on
        variances stay those of the first batch.
        """
        return self._partial_fit(X, lengths, states, forgetting)

    @property
    def means_(self) -> Array:
        """Means of the states."""
        return to_units(self._fitted().law, self._frame)[0]

    @property
    def covariances_(self) -> Array:
        """Covariances, in the shape of `covariance_type`."""
        return to_units(self._fitted().law, self._frame)[1]

    def _observe(self, X: Any, lengths: Any, *, reset: bool) -> tuple[Normals, Sequences]:
        values, sequences = self._rows(X, lengths, reset=reset)
        if not reset:
            return Normals(values, self.covariance_type, self._frame, self._floor, self.reg_covar), sequences
        observed = Normals(values, self.covariance_type, None, None, self.reg_covar)
        self._frame, self._floor = observed.frame, observed.floor
        return observed, sequences

    def _rule(self) -> Normals:
        return Normals(
            np.zeros((1, self.n_features_in_)), self.covariance_type, self._frame, self._floor, self.reg_covar
        )

    def _start_law(self, observed: Normals, K: int, seed: Any) -> Any:
        given = Given(None if self._law_is_free() else np.full(K, 1.0 / K), self.means_init, self.covariances_init)
        if given.nothing:
            return observed.start(K, self.init_params, seed)
        kind = self.covariance_type
        if given.everything:
            return given_start(given, kind, K, observed.frame, None, None).law
        starts = Starts(observed.mixture(), K)
        return given_start(given, kind, K, observed.frame, starts, lambda: starts.make(self.init_params, seed)).law

    def _law_is_free(self) -> bool:
        return self.means_init is None and self.covariances_init is None

    def _emission_parameters(self) -> int:
        K, p = self._fitted().law.means.shape
        return K * p + n_covariance_parameters(self.covariance_type, K, p)

    def _emit(self, path: Array, rng: np.random.Generator) -> Array:
        law = self._params.law
        factors = np.linalg.cholesky(expand(law))
        noise = rng.standard_normal((path.size, law.means.shape[1]))
        Z = law.means[path] + np.einsum("tij,tj->ti", factors[path], noise)
        return self._frame.centre + Z * self._frame.unit

    def _ahead(self, states: Array) -> tuple[tuple[str, ...], Array, Array | None]:
        law = self._params.law
        variance = np.einsum("kii->ki", expand(law))
        mean = states @ law.means
        spread = np.sqrt(np.maximum(states @ (variance + law.means**2) - mean**2, 0.0))
        return self._columns(), self._frame.centre + mean * self._frame.unit, spread * self._frame.unit

    def _describe_states(self) -> tuple[str, ...]:
        spread = np.sqrt(np.einsum("kii->ki", expand(self._params.law))) * self._frame.unit
        return tuple(_numbers(self._columns(), mean, sd) for mean, sd in zip(self.means_, spread, strict=True))


class PoissonHMM(_TableHMM):
    """A hidden Markov model whose states emit counts, Poisson with a rate of their own in each column.

        b_k(x) = prod_j rate_kj^x_j exp(-rate_kj) / x_j!

    | parameter      | default  | range               | meaning                                                        |
    |----------------|----------|---------------------|----------------------------------------------------------------|
    | n_components   | None     | from 1 on           | K; None: as many as are named, known or given, otherwise 2     |
    | state_names    | None     | list of names       | the states and their order; None: the known ones, sorted, otherwise 0, 1, ... |
    | startprob_init | None     | (K,)                | start values; zeros stay zero                                  |
    | transmat_init  | None     | (K, K)              | start values; zeros stay zero                                  |
    | rates_init     | None     | (K, p)              | start values                                                   |
    | smoothing      | 0.0      | from 0 on           | alpha, a pseudo-count on every start and transition that may occur |
    | params         | "ste"    | some of its letters | what is estimated: start law, transitions, emissions           |
    | init_params    | "kmeans" | "k-means++", "random_from_data", "random" | how rows are grouped for a start, by their roots |
    | n_init         | 1        | from 1 on           | random starts; the best is kept                                |
    | max_iter       | 500      | from 1 on           | iterations of EM at most                                       |
    | tol            | 1e-6     | from 0 on           | stop when the log-likelihood per step rises by less            |
    | keep_params    | False    |                     | `trace_` holds the parameters of each iteration                |
    | random_state   | None     | seed                | for starts and `sample`                                        |
    | n_jobs         | None     | threads             | over sequences; never changes a result                         |

    Fitted: `states_`, `startprob_`, `transmat_`, `rates_` (K, p), `trace_` (an `EMTrace`), `starts_`, `n_iter_`,
    `converged_`, `n_features_in_`, `feature_names_in_`.

    X is one table of counts with the `lengths` of its sequences (one, where they are left out), or a list of tables; a vector
    in such a list is a sequence of one column. A missing cell (NaN) says nothing. Numbers that are not whole are taken as
    they are, with the gamma function in the place of factorials.

    Zucchini, MacDonald, Langrock (2016), Hidden Markov Models for Time Series, 2nd ed., CRC.

    >>> X = [[1], [0], [2], [9], [11], [10], [1], [1], [0], [12]]
    >>> model = PoissonHMM(2, random_state=0).fit(X)
    >>> np.sort(model.rates_.ravel()).round(2).tolist()
    [0.83, 10.48]
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        **HiddenMarkov.constraints,
        "rates_init": none | array_like,
        "init_params": STARTS,
    }

    def _check_state(self) -> None:
        need(isinstance(self._params.law, Rates))

    def __init__(
        self,
        n_components: int | None = None,
        *,
        state_names: Any = None,
        startprob_init: Any = None,
        transmat_init: Any = None,
        rates_init: Any = None,
        smoothing: float = 0.0,
        params: str = "ste",
        init_params: str = "kmeans",
        n_init: int = 1,
        max_iter: int = 500,
        tol: float = 1e-6,
        keep_params: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.state_names = state_names
        self.startprob_init = startprob_init
        self.transmat_init = transmat_init
        self.rates_init = rates_init
        self.smoothing = smoothing
        self.params = params
        self.init_params = init_params
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.keep_params = keep_params
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    @classmethod
    def from_parameters(cls, startprob: Any, transmat: Any, rates: Any, **settings: Any) -> Self:
        """A model with given parameters; `fit` starts from them. Settings are those of the class."""
        model = cls(startprob_init=startprob, transmat_init=transmat, rates_init=rates, **settings)
        model._check_parameters()
        K, p = shape_of(rates, "rates")
        model.states_, model.n_features_in_ = model._named(K), p
        _, chain = model._rules(K)
        model._params = HMMParams(*chain, _rates(rates, (K, p)), np.zeros(K, dtype=bool))
        return model

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None, states: Any = None) -> Self:
        """Count where all `states` are known, otherwise fit by EM; None, NaN or -1 is an unknown one. y is ignored."""
        return self._fit(X, lengths, states)

    def partial_fit(
        self, X: Any, y: Any = None, *, lengths: Any = None, states: Any = None, forgetting: float = 0.7
    ) -> Self:
        """More sequences: exact counting where their states are known, otherwise a step of online EM.

        The first call fits. After that, sums of labelled sequences are added up, and a batch t = 1, 2, ... of others
        counts with the share (t + 1)^-forgetting, 0.5 < forgetting <= 1 (Cappé, Moulines 2009).
        """
        return self._partial_fit(X, lengths, states, forgetting)

    @property
    def rates_(self) -> Array:
        """Mean counts of the states, one row each."""
        return self._fitted().law.rates

    def _observe(self, X: Any, lengths: Any, *, reset: bool) -> tuple[Counts, Sequences]:
        values, sequences = self._rows(X, lengths, reset=reset)
        below = values < 0
        if below.any():
            row, j = (int(at) for at in np.unravel_index(int(np.argmax(below)), values.shape))
            what = f"Negative values in data: {self._column(j)} contains {values[row, j]:.4g} in row {row}"
            raise DataError(what, remedy="pass counts of 0 or more")
        return Counts(values), sequences

    def _rule(self) -> Counts:
        return Counts(np.zeros((1, self.n_features_in_)))

    def _start_law(self, observed: Counts, K: int, seed: Any) -> Rates:
        if self.rates_init is None:
            return observed.start(K, self.init_params, seed)
        return _rates(self.rates_init, (K, observed.X.shape[1]))

    def _law_is_free(self) -> bool:
        return self.rates_init is None

    def _emission_parameters(self) -> int:
        return int(self.rates_.size)

    def _emit(self, path: Array, rng: np.random.Generator) -> Array:
        return rng.poisson(self.rates_[path])

    def _ahead(self, states: Array) -> tuple[tuple[str, ...], Array, Array | None]:
        mean = states @ self.rates_
        spread = np.sqrt(np.maximum(states @ (self.rates_ + self.rates_**2) - mean**2, 0.0))
        return self._columns(), mean, spread

    def _describe_states(self) -> tuple[str, ...]:
        return tuple(_numbers(self._columns(), rates, None) for rates in self.rates_)


def _rates(given: Any, shape: tuple[int, int]) -> Rates:
    found = np.asarray(given, dtype=np.float64) if shape_of(given, "rates") == shape else np.empty(0)
    if found.shape != shape or not np.isfinite(found).all() or (found <= 0).any():
        what = f"rates must be {shape[0]} rows of {shape[1]} positive numbers"
        raise ParameterError(what, remedy="pass one row per state, one positive rate per column")
    return Rates(np.ascontiguousarray(found))


def _numbers(columns: tuple[str, ...], mean: Array, spread: Array | None) -> str:
    """A few columns with mean and standard deviation."""
    shown = [
        f"{name} {fmt(mean[j], 3)}" + ("" if spread is None else f" ± {fmt(spread[j], 2)}")
        for j, name in enumerate(columns[:3])
    ]
    return ", ".join(shown) + (", ..." if len(columns) > 3 else "")
