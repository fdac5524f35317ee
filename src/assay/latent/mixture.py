"""Gaussian mixtures by EM: rows from a few normal populations, and nobody wrote down which (row E3).

    p(x) = sum_k pi_k N(x; mu_k, Sigma_k)
    E      r_ik = pi_k N(x_i; mu_k, Sigma_k) / p(x_i)
    M      pi_k = N_k / n,  mu_k = sum_i r_ik x_i / N_k,  Sigma_k = sum_i r_ik (x_i - mu_k)(x_i - mu_k)' / N_k

with N_k = sum_i r_ik. Covariances may be tied to each other or to the axes; `covariance_type="shared"` with two
components in one dimension is the textbook's case of two means and one variance.

The likelihood has no maximum: a component that shrinks onto one row sends it to infinity. Each covariance is therefore
held above `reg_covar` times the variances of the columns, in every direction, and the M step is the exact maximum
under that bound, so the likelihood never falls; for data that do not touch the bound the fit is the maximum of the
likelihood itself, with nothing added. A component that collapses is started anew from half of a sound one, three
times at most; among several starts those without a collapsed component come first; a warning says what is left.

Cost of an iteration: 2 n K p^2 multiply-adds and n K exponentials, in one pass over blocks of rows in the cache.

Dempster, Laird, Rubin (1977), J. R. Statist. Soc. B 39, 1-38; Fraley, Raftery (2002), JASA 97, 611-631;
Hathaway (1985), Annals of Statistics 13, 795-800; Ghahramani, Jordan (1994), NIPS 6, for missing cells.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, unchanged_on_error
from assay.callbacks import fit_task
from assay.checks import name_columns
from assay.constraints import array_like, boolean, integer, jobs, none, one_of, real, seed
from assay.errors import AssayWarning, CollinearityWarning, DataError, ParameterError
from assay.latent._em import EMFit, EMTrace, best_of, warn_of
from assay.latent._gaussian import KINDS, Frame, Sums, frame_of, n_covariance_parameters
from assay.latent._mixture_inference import summarize
from assay.latent._mixture_results import MixtureDensity, MixtureSelection, density_of, select
from assay.latent._mixture_start import Given, Starts, column_moments, given_start
from assay.latent._mixture_steps import (
    Mixture,
    MixtureParams,
    flat_columns,
    online_step,
    posterior,
    table_is_singular,
    to_units,
)
from assay.latent._table import Gapped
from assay.numerics.seeds import generator, seed_sequence
from assay.results import Summary
from assay.state import Specs, facts, floats, optional, part

__all__ = ["GaussianMixture"]

Array = np.ndarray


class GaussianMixture(DensityMixin, Gapped):
    """A mixture of normal populations fitted by EM, with scikit-learn's interface.

    The tolerance is tighter than scikit-learn's by default, and `reg_covar` bounds variances from
    below, relative to those of the columns, instead of being added to them: the fit is the maximum of the likelihood
    unless a component would collapse.

    | parameter        | default  | range                           | meaning                                        |
    |------------------|----------|---------------------------------|------------------------------------------------|
    | n_components     | 1        | from 1 on                       | K                                              |
    | covariance_type  | "full"   | "tied", "diag", "spherical", "shared" | own matrices; one for all; own diagonals; own v_k I; one v I for all |
    | tol              | 1e-6     | from 0 on                       | stop when the mean log-likelihood rises by less; 0 runs `max_iter` iterations |
    | reg_covar        | 1e-6     | from 0 on                       | least variance in any direction, in units of the columns' variances |
    | max_iter         | 1000     | from 1 on                       | iterations at most                             |
    | n_init           | 1        | from 1 on                       | random starts; the best is kept                |
    | init_params      | "kmeans" | "k-means++", "random_from_data", "random" | rows grouped by k-means, by the nearest of K rows (spread out, or at random), or shared out at random |
    | weights_init     | None     | (K,)                            | start values: shares                           |
    | means_init       | None     | (K, p)                          | start values: means                            |
    | precisions_init  | None     | as `precisions_`                | start values: inverse covariances              |
    | covariances_init | None     | as `covariances_`               | start values: covariances, instead of precisions |
    | random_state     | None     | seed                            | for starts and `sample`                        |
    | warm_start       | False    |                                 | a further `fit` begins where the last one ended |
    | keep_params      | False    |                                 | `trace_` holds the parameters of each iteration |
    | n_jobs           | None     | threads                         | never changes a result                         |

    Fitted: `weights_` (K,), `means_` (K, p), `covariances_` ((K, p, p), (p, p), (K, p), (K,) or (1,)), `precisions_`,
    `precisions_cholesky_`, `lower_bound_` (mean log-likelihood), `log_likelihood_`, `lower_bounds_`, `converged_`,
    `n_iter_`, `trace_` (an `EMTrace`), `starts_` (log-likelihood that each start led to), `n_features_in_`,
    `feature_names_in_`.

    A row of weight w counts as w rows. A missing cell (NaN) is integrated out: rows are judged by what they show.

    Dempster, Laird, Rubin (1977), Maximum likelihood from incomplete data via the EM algorithm, JRSS B 39, 1-38.

    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]])
    >>> model = GaussianMixture(2, covariance_type="shared", random_state=0).fit(X)
    >>> np.sort(model.means_.ravel()).round(3).tolist(), model.covariances_.round(3).tolist()
    ([1.0, 11.0], [0.667])
    >>> model.predict_proba([[6.0], [np.nan]]).round(2).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    >>> print(model.density())
    Mixture of 2 normal components (shared), n = 6
    ----------------------------------------------
            component 0 component 1
    weight          50%         50%
    x0       11 (0.816)   1 (0.816)
    ----------------------------------------------
    mean (standard deviation) of each column
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        "n_components": integer(1),
        "covariance_type": one_of(*KINDS),
        "tol": real(0),
        "reg_covar": real(0, 1),
        "max_iter": integer(1),
        "n_init": integer(1),
        "init_params": one_of("kmeans", "k-means++", "random", "random_from_data"),
        "weights_init": none | array_like,
        "means_init": none | array_like,
        "precisions_init": none | array_like | real(0, open_low=True),
        "covariances_init": none | array_like | real(0, open_low=True),
        "random_state": seed,
        "warm_start": boolean,
        "keep_params": boolean,
        "n_jobs": jobs,
    }
    state: ClassVar[Specs] = {
        "_params": part(MixtureParams, "k", "p"),
        "_frame": part(Frame, "p"),
        "_floor": floats("p", low=0),
        "_size": real(0, open_low=True),
        "_fit_size": real(0, open_low=True),
        "_online": optional(part(Sums, "k", "p")),
        "_batches": optional(integer(1)),
        "trace_": optional(part(EMTrace)),
        **facts("starts_"),
    }

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: str = "full",
        tol: float = 1e-6,
        reg_covar: float = 1e-6,
        max_iter: int = 1000,
        n_init: int = 1,
        init_params: str = "kmeans",
        weights_init: Any = None,
        means_init: Any = None,
        precisions_init: Any = None,
        covariances_init: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        keep_params: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.covariances_init = covariances_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.keep_params = keep_params
        self.n_jobs = n_jobs

    fit_steps = "EM iteration"
    _params: MixtureParams
    _frame: Frame

    # Fitting.

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit by EM, from each start; y is ignored."""
        del y
        self._fit(X, sample_weight)
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, and the component that each row most probably belongs to."""
        del y
        self._fit(X, sample_weight)
        return self.predict(X)

    def _fit(self, X: Any, sample_weight: Any) -> None:
        with unchanged_on_error(self):
            stopped = self._learn(X, sample_weight)
        if not stopped:
            warn_of(self.trace_, stacklevel=4)
        self._warn_of_collapse(stacklevel=4)

    def _learn(self, X: Any, sample_weight: Any) -> bool:
        """Set the fitted attributes; returns whether a callback stopped the fit."""
        X, w = self._rows(X, sample_weight, reset=True)
        before = getattr(self, "_params", None) if self.warm_start else None
        frame: Frame = frame_of(X, self.covariance_type) if before is None else self._frame
        if before is not None:
            self._refuse_other_shape(before, X.shape[1])
        model = self._model(X, w, frame)
        starts = [lambda: before] if before is not None else self._starts(model)
        for name in ("_online", "_batches"):
            self.__dict__.pop(name, None)
        self._frame, self._floor, self._size = frame, model.floor, model.size
        self._fit_size = float(len(X)) if w is None else float(w.sum())

        def attributes(fit: EMFit[Any, Any]) -> dict[str, Any]:
            starts = [one / model.size * self._fit_size for one in fit.objectives or (fit.objective,)]
            return {"_params": fit.params, "trace_": fit.trace, "starts_": starts}

        fit = best_of(
            model, starts, size=model.size, tol=self.tol, max_iter=self.max_iter, keep=self.keep_params,
            label="EM for a Gaussian mixture",
            task=fit_task(self, len(starts) if len(starts) > 1 else self.max_iter, attributes),
        )  # fmt: skip
        self.__dict__.update(attributes(fit))
        return fit.stopped

    def _refuse_other_shape(self, params: MixtureParams, p: int) -> None:
        """To go on from earlier parameters, they must be of the kind that is asked for."""
        K, columns = params.law.means.shape
        if (K, columns, params.law.kind) != (self.n_components, p, self.covariance_type):
            what = f"the last fit had {K} components of {columns} columns, covariance_type = {params.law.kind!r}"
            raise ParameterError(what, remedy="start from a new model, clone(model).fit(X), after changing parameters")

    def _rows(self, X: Any, sample_weight: Any, *, reset: bool) -> tuple[Array, Array | None]:
        """Rows that say something: with weight, and with a cell that is not missing."""
        X = self._table(X, reset=reset)
        w = self._weights(sample_weight, len(X))
        there = ~np.isnan(X)
        some = there.any(axis=1) if w is None else there.any(axis=1) & (w > 0)
        if not some.all():
            X, w, there = X[some], None if w is None else w[some], there[some]
        if not there.any(axis=0).all():
            names = self._feature_names()
            gone = [names[j] for j in np.flatnonzero(~there.any(axis=0))]
            raise DataError(f"{name_columns(gone)} has no value in any row", remedy="drop it before the fit")
        return X, w

    def _model(self, X: Array, w: Array | None, frame: Frame, floor: Array | None = None) -> Mixture:
        Z = frame.into(X)
        if w is not None:
            w = w / w.max() if w.max() < 1e-50 or w.max() > 1e50 else w  # sums of tiny weights lose their digits
        if floor is None:
            variance = column_moments(Z, np.empty(0) if w is None else w)[1]
            floor = self.reg_covar * np.where(variance > 0, variance, 1.0)
        return Mixture(Z, w, self.covariance_type, floor, frame, n_jobs=self.n_jobs)

    def _starts(self, model: Mixture) -> Sequence[Any]:
        given = Given(self.weights_init, self.means_init, self.covariances_init, self.precisions_init)
        kind, K = self.covariance_type, self.n_components
        if given.everything:
            return [partial(given_start, given, kind, K, model.frame)]
        starts = Starts(model, K)
        seeds = seed_sequence(self.random_state).spawn(self.n_init)
        drawn = [partial(starts.make, self.init_params, one) for one in seeds]
        if self.n_components == 1 or given.means is not None:
            drawn = drawn[:1]  # all starts are the same
        if given.nothing:
            return drawn
        return [partial(given_start, given, kind, K, model.frame, starts, one) for one in drawn]

    def _warn_of_collapse(self, stacklevel: int) -> None:
        """Say which components `reg_covar` holds, or that the table itself is singular, or what was started anew."""
        params, restarted = self._params, self.trace_.restarted
        held = np.flatnonzero(params.held)
        if not held.size:
            if restarted:
                at = ", ".join(map(str, restarted))
                what = f"a component became empty or collapsed and was restarted from half of another (iteration {at})"
                warnings.warn(f"{what}; use fewer components to avoid this", AssayWarning, stacklevel=stacklevel)
            return
        bound = f"variances are held at reg_covar = {self.reg_covar:g} of the columns'"
        names = self._feature_names()
        if table_is_singular(params, self._floor):
            why = "the rows do not vary in every direction (a column is constant or repeats others, or rows are few)"
            remedy = "drop columns, or use covariance_type='diag'" if self.covariance_type == "full" else "drop columns"
            warnings.warn(f"{why}: {bound}; {remedy}", CollinearityWarning, stacklevel=stacklevel)
            return
        who = ", ".join(f"{k} (weight {params.weights[k] * self._size:.3g})" for k in held[:5])
        flat = [names[j] for j in flat_columns(params, self._floor)]
        where = f"do not vary in {name_columns(flat)}" if flat else "do not vary in every direction"
        what = f"component{'s' if held.size > 1 else ''} {who} collapsed onto rows that {where}"
        remedy = "use fewer components or covariance_type='tied', drop columns with few values, or raise reg_covar"
        warnings.warn(f"{what}: {bound}; {remedy}", AssayWarning, stacklevel=stacklevel)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, forgetting: float = 0.7) -> Self:
        """One step of online EM: statistics of the batch are averaged into those of all batches before.

        Batch t = 0, 1, ... counts with the share (t + 2)^-forgetting, 0.5 < forgetting <= 1 (Cappé, Moulines 2009). The
        first batch is fitted as `fit` would; after a `fit` the batches go on from there. Scales and the bound on
        variances stay those of the first batch.
        """
        del y
        if not (isinstance(forgetting, float | int) and 0.5 < forgetting <= 1):
            raise ParameterError(f"forgetting = {forgetting!r} is out of range", remedy="it must be in (0.5, 1]")
        first = not hasattr(self, "_params")
        if first:
            self._fit(X, sample_weight)
            model = self._model(*self._rows(X, sample_weight, reset=False), self._frame, self._floor)
            self._online, self._batches = model.e_step(self._params)[1], 1
            return self
        self._check_parameters()
        self._refuse_other_shape(self._params, self.n_features_in_)
        model = self._model(*self._rows(X, sample_weight, reset=False), self._frame, self._floor)
        before = getattr(self, "_online", None)
        t = getattr(self, "_batches", 1)
        step = (t + 1.0) ** -float(forgetting)
        self._params, self._online = online_step(model, self._params, before, self._size, step)
        self._batches = t + 1
        self._size += model.size
        return self

    # Fitted attributes that follow from the parameters.

    @property
    def weights_(self) -> Array:
        """Shares of the components."""
        return self._fitted().weights

    @property
    def means_(self) -> Array:
        """Means of the components."""
        return to_units(self._fitted().law, self._frame)[0]

    @property
    def covariances_(self) -> Array:
        """Covariances, in the shape of `covariance_type`."""
        return to_units(self._fitted().law, self._frame)[1]

    @property
    def precisions_cholesky_(self) -> Array:
        """Upper triangular U with Sigma^-1 = U U', or 1 / standard deviation."""
        law, unit = self._fitted().law, self._frame.unit
        if law.kind in ("full", "tied"):
            upper = law.whiten.transpose(0, 2, 1) / unit[:, None]
            return upper if law.kind == "full" else upper[0]
        scale = law.whiten / unit
        return {"diag": scale, "spherical": scale[:, 0], "shared": scale[:1, 0]}[law.kind]

    @property
    def precisions_(self) -> Array:
        """Inverse covariances."""
        root = self.precisions_cholesky_
        return root @ np.swapaxes(root, -1, -2) if self._fitted().law.kind in ("full", "tied") else root**2

    @property
    def lower_bound_(self) -> float:
        """Mean log-likelihood of the rows of the last `fit`; batches of `partial_fit` leave it as it is."""
        self._fitted()
        return float(self.trace_.objective[-1]) if self.trace_.n_iter else self.trace_.initial

    @property
    def log_likelihood_(self) -> float:
        """Log-likelihood of the rows of the last `fit`, by weight."""
        return self.lower_bound_ * self._fit_size

    @property
    def lower_bounds_(self) -> list[float]:
        """Mean log-likelihood after each iteration."""
        self._fitted()
        return [float(value) for value in self.trace_.objective]

    @property
    def converged_(self) -> bool:
        """Whether the tolerance was reached."""
        self._fitted()
        return self.trace_.converged

    @property
    def n_iter_(self) -> int:
        """Iterations of the best start."""
        self._fitted()
        return self.trace_.n_iter

    def _fitted(self) -> MixtureParams:
        check_is_fitted(self)
        return self._params

    def __sklearn_is_fitted__(self) -> bool:
        return "_params" in vars(self)

    # Answers.

    def _posterior(self, X: Any) -> tuple[Array, Array]:
        X = self._table(X, reset=False)
        there = ~np.isnan(X)
        shares, rows = posterior(self._frame.into(X), self._params, n_jobs=self.n_jobs)
        return shares, rows - (self._frame.log_volume if there.all() else there @ np.log(self._frame.unit))

    def score_samples(self, X: Any) -> Array:
        """log p(x) of each row."""
        return self._posterior(X)[1]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log density of the rows."""
        del y
        rows = self.score_samples(X)
        return float(np.average(rows, weights=self._weights(sample_weight, len(rows))))

    def predict_proba(self, X: Any) -> Array:
        """Posterior probabilities of the components, (n, K)."""
        return self._posterior(X)[0]

    def predict(self, X: Any) -> Array:
        """The component with the largest posterior probability; ties go to the first."""
        return self._posterior(X)[0].argmax(axis=1)

    def sample(self, n_samples: int = 1) -> tuple[Array, Array]:
        """Rows drawn from the mixture, in random order, and the components they come from."""
        params = self._fitted()
        if not (isinstance(n_samples, int | np.integer) and n_samples >= 1):
            raise ParameterError(f"n_samples = {n_samples!r} is out of range", remedy="it must be at least 1")
        rng = generator(self.random_state)
        component = rng.choice(len(params.weights), int(n_samples), p=params.weights)
        noise = rng.standard_normal((int(n_samples), self.n_features_in_))
        law = params.law
        Z = np.empty_like(noise)
        for k in range(len(params.weights)):
            own = component == k
            if law.kind in ("full", "tied"):
                factor = np.linalg.inv(law.whiten[min(k, len(law.whiten) - 1)])
                Z[own] = noise[own] @ factor.T + law.means[k]
            else:
                Z[own] = noise[own] / law.whiten[k] + law.means[k]
        return self._frame.centre + Z * self._frame.unit, component

    # Criteria: lower is better.

    def n_parameters(self) -> int:
        """How many numbers are free: shares, means and covariances."""
        K, p = self._fitted().law.means.shape
        return K - 1 + K * p + n_covariance_parameters(self._params.law.kind, K, p)

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """-2 log-likelihood + (free parameters) log n."""
        return self._criteria(X, sample_weight)[0]

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """-2 log-likelihood + 2 (free parameters)."""
        return self._criteria(X, sample_weight)[1]

    def icl(self, X: Any, sample_weight: Any = None) -> float:
        """BIC - 2 sum_i log max_k r_ik, which also asks for components that are told apart (as in mclust)."""
        return self._criteria(X, sample_weight)[2]

    def _criteria(self, X: Any, sample_weight: Any) -> tuple[float, float, float]:
        shares, rows = self._posterior(X)
        w = self._weights(sample_weight, len(rows))
        w = np.ones(len(rows)) if w is None else w
        fit, free = -2.0 * float(w @ rows), self.n_parameters()
        bic = fit + free * float(np.log(w.sum()))
        return bic, fit + 2.0 * free, bic - 2.0 * float(w @ np.log(shares.max(axis=1)))

    # Results.

    def summary(self, X: Any, sample_weight: Any = None, *, level: float = 0.95) -> Summary:
        """Shares and means of the components with standard errors and limits, from the training rows.

        | parameter     | default | range    | meaning                                                               |
        |---------------|---------|----------|-----------------------------------------------------------------------|
        | X             |         |          | the rows of the fit                                                   |
        | sample_weight | None    |          | their weights                                                         |
        | level         | 0.95    | in (0, 1) | confidence level of the Wald limits                                  |

        >>> X = np.random.default_rng(0).normal(size=(400, 1))
        >>> GaussianMixture().fit(X).summary(X).table.round(2).to_numpy().tolist()
        [[-0.04, 0.05, -0.13, 0.06]]
        """
        return summarize(self, X, sample_weight, level)

    def select(
        self,
        X: Any,
        n_components: Any = range(1, 10),
        covariance_type: Any = KINDS,
        *,
        criterion: str = "bic",
        sample_weight: Any = None,
    ) -> MixtureSelection:
        """Fit every number of components with every covariance type, and compare them by BIC, ICL or AIC.

        | parameter       | default     | meaning                                                                    |
        |-----------------|-------------|----------------------------------------------------------------------------|
        | n_components    | 1, ..., 9   | numbers to try                                                             |
        | covariance_type | all         | types to try                                                               |
        | criterion       | "bic"       | "icl" or "aic"; the lowest wins, among fits without a collapsed component  |

        All other settings are those of this model, which stays as it is; `best_model` of the result is fitted.

        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(0, 1, (100, 2)), rng.normal(6, 1, (100, 2))])
        >>> found = GaussianMixture(random_state=0).select(X, range(1, 4), ["full", "shared"])
        >>> found.n_components, found.covariance_type
        (2, 'shared')
        """
        return select(self, X, n_components, covariance_type, criterion, sample_weight)

    def density(self, columns: Any = None, X: Any = None) -> MixtureDensity:
        """The mixture of some columns, which is a mixture again: a table of its components, and a picture.

        | parameter | default | meaning                                                                           |
        |-----------|---------|-----------------------------------------------------------------------------------|
        | columns   | None    | one or more columns, by name or position; None: all                               |
        | X         | None    | rows to draw behind the density                                                   |
        """
        return density_of(self, columns, X)
