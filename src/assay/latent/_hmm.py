"""What hidden Markov models share, whatever their states emit: fitting, probabilities, paths, simulation, criteria."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, Estimator, array_like, boolean, integer, jobs, none, real, seed, unchanged_on_error
from assay.callbacks import fit_task
from assay.checks import choice, listed, whole
from assay.errors import AssayWarning, DataError, ParameterError
from assay.latent._chain import check_law, log_path, stationary_laws
from assay.latent._chain_results import HiddenPath, NextStep, StateChoice, StateDiagram, StationaryLaws, select_states
from assay.latent._em import EMFit, EMTrace, best_of, warn_of
from assay.latent._emissions import SymbolTable
from assay.latent._hmm_kernels import walk
from assay.latent._hmm_steps import ChainRules, ExpectedCounts, HMMParams, Steps
from assay.latent._recursions import best_paths, expect, log_likelihoods
from assay.latent._sequences import Sequences, encode, known_labels, look_up, symbol_sequences
from assay.numerics.seeds import generator, seed_sequence
from assay.state import Specs, facts, labels, optional, part

__all__ = ["HiddenMarkov", "shape_of"]

Array = np.ndarray

IDLE = 0.1
"""A state with a smaller expected number of steps, in all sequences together, explains nothing."""

UPDATES = Constraint(
    lambda v: isinstance(v, str) and 0 < len(v) == len(set(v)) and set(v) <= set("ste"),
    "some of the letters s (start), t (transitions) and e (emissions), as in 'te'",
)


class HiddenMarkov(Estimator):
    """A hidden Markov model; subclasses say what is observed (`_observe`) and how emissions begin and are shown."""

    constraints: ClassVar[dict[str, Constraint]] = {
        "n_components": none | integer(1),
        "state_names": none | array_like,
        "startprob_init": none | array_like,
        "transmat_init": none | array_like,
        "smoothing": real(0),
        "params": UPDATES,
        "n_init": integer(1),
        "max_iter": integer(1),
        "tol": real(0),
        "keep_params": boolean,
        "random_state": seed,
        "n_jobs": jobs,
    }
    state: ClassVar[Specs] = {
        "states_": labels("k"),
        "_params": part(HMMParams, "k", "p", "M"),
        "_sums": optional(part(ExpectedCounts, "k", "p", "M")),
        "_batches": optional(integer(1)),
        "trace_": optional(part(EMTrace)),
        **facts("starts_"),
    }

    fit_steps = "EM iteration"
    _params: HMMParams
    n_components: int | None
    state_names: Any
    startprob_init: Any
    transmat_init: Any
    smoothing: float
    params: str
    n_init: int
    max_iter: int
    tol: float
    keep_params: bool
    random_state: Any
    n_jobs: int | None

    # What subclasses supply.

    def _observe(self, X: Any, lengths: Any, *, reset: bool) -> tuple[Any, Sequences]:
        """What the sequences show, and where each begins."""
        raise NotImplementedError

    def _start_law(self, observed: Any, K: int, seed: Any) -> Any:
        """Emissions to begin with: given ones, or from a random start."""
        raise NotImplementedError

    def _rule(self) -> Any:
        """What is observed, without any of it: how emissions are estimated from sums."""
        raise NotImplementedError

    def _emission_parameters(self) -> int:
        """How many numbers of the emissions are free."""
        raise NotImplementedError

    def _emit(self, path: Array, rng: np.random.Generator) -> Any:
        """Observations drawn for a path of states."""
        raise NotImplementedError

    def _ahead(self, states: Array) -> tuple[tuple[str, ...], Array, Array | None]:
        """Names, law or mean, and standard deviation of an observation, given the law of its state."""
        raise NotImplementedError

    def _describe_states(self) -> tuple[str, ...]:
        """What each state emits, in a few words."""
        raise NotImplementedError

    # Fitting.

    def _fit(self, X: Any, lengths: Any, states: Any) -> Self:
        with unchanged_on_error(self):
            stopped = self._learn(X, lengths, states)
        if not stopped:
            warn_of(self.trace_, stacklevel=4)
        self._warn_of_collapse()
        self._warn_of_idle_states()
        return self

    def _learn(self, X: Any, lengths: Any, states: Any) -> bool:
        """Set the fitted attributes; returns whether a callback stopped the fit."""
        observed, sequences = self._observe(X, lengths, reset=True)
        names, known = self._known(states, sequences)
        K = len(names)
        rules, chain = self._rules(K)
        steps = Steps(observed, sequences, rules, known, self.n_jobs)
        self.states_ = names
        self.__dict__.pop("_batches", None)
        options = {"size": steps.size, "tol": self.tol, "max_iter": self.max_iter, "keep": self.keep_params}
        if known is not None and (known >= 0).all():
            begin = HMMParams(*chain, self._labelled_law(steps, K), np.zeros(K, dtype=bool))
            params, sums = steps.counted(begin)
            if observed.exact:
                value = self._log_joint(steps, params, known).sum() / steps.size
                trace = EMTrace(np.array([value]), True, "counted: every state is known", value)
                self.__dict__.update(_params=params, _sums=sums, trace_=trace, starts_=[value * steps.size])
                return False
            starts = [lambda: params]
        else:
            seeds = seed_sequence(self.random_state).spawn(self.n_init)
            starts = [partial(self._begin, steps, K, chain, n, one) for n, one in enumerate(seeds)]

        def attributes(fit: EMFit[Any, Any]) -> dict[str, Any]:
            starts = list(fit.objectives or (fit.objective,))
            return {"_params": fit.params, "_sums": fit.summary[1], "trace_": fit.trace, "starts_": starts}

        task = fit_task(self, len(starts) if len(starts) > 1 else self.max_iter, attributes)
        fit = best_of(steps, starts, label=f"EM for {K} hidden states", task=task, **options)
        self.__dict__.update(attributes(fit))
        return fit.stopped

    def _known(self, states: Any, sequences: Sequences) -> tuple[Array, Array | None]:
        """The names of the states, and the place of each known one among them (-1: unknown); None if none is given."""
        names = None if self.state_names is None else known_labels(self.state_names, "state_names")
        known = None
        if states is not None:
            given = self._given_states(states, sequences)
            if names is None:
                names, known = encode(given)
            else:
                known = look_up(given, names, sequences, what="state", remedy="name all states in state_names")
        K = self.n_components or (len(names) if names is not None and len(names) else self._rows_given() or 2)
        count = 0 if names is None else len(names)
        K = max(K, self._rows_given()) if self.n_components is None else K
        if count > K or (self.state_names is not None and count != K):
            what = (
                f"n_components = {K}, but {count} states are named: {listed([] if names is None else names.tolist())}"
            )
            raise ParameterError(what, remedy=f"set n_components to {count}, or leave it out")
        if names is None or count < K:
            names = _more_names(np.arange(0) if names is None else names, K)
        return names, known

    def _rows_given(self) -> int:
        """How many states start values were given for; 0 for none."""
        named = ("startprob_init", "transmat_init", "emissionprob_init", "means_init", "rates_init")
        given = [getattr(self, name, None) for name in named]
        return next((len(value) for value in given if value is not None), 0)

    def _named(self, K: int) -> Array:
        """The names of K states that were given with their parameters."""
        names = np.arange(K) if self.state_names is None else known_labels(self.state_names, "state_names")
        if len(names) != K or self.n_components not in (None, K):
            what = f"there are parameters of {K} states, but {len(names)} names, and n_components = {self.n_components}"
            raise ParameterError(what, remedy="pass one name per state, and leave n_components out")
        return names

    def _given_states(self, states: Any, sequences: Sequences) -> Array:
        """Known states, one per step; None, NaN and, among whole numbers, -1 stand for unknown ones."""
        given, cut = symbol_sequences(states, name="states")
        if given.size != sequences.n or (cut.in_list and not np.array_equal(cut.first, sequences.first)):
            steps = (
                f"{sequences.n} steps in {len(sequences)} sequences" if len(sequences) > 1 else f"{sequences.n} steps"
            )
            what = f"states has {given.size} entries, X has {steps}"
            if given.size == sequences.n:
                what = "the sequences in states differ in length from those in X"
            raise DataError(what, remedy="pass one state per step, None where it is unknown")
        if given.dtype.kind in "iu" and (given == -1).any():
            return np.where(given == -1, np.nan, given)
        return given

    def _rules(self, K: int) -> tuple[ChainRules, tuple[Array, Array]]:
        """What may be above zero, and the start values."""
        start = (
            np.full(K, 1.0 / K)
            if self.startprob_init is None
            else check_law(self.startprob_init, (K,), "startprob_init")
        )
        A = (
            np.full((K, K), 1.0 / K)
            if self.transmat_init is None
            else check_law(self.transmat_init, (K, K), "transmat_init")
        )
        return ChainRules(float(self.smoothing), start > 0, A > 0, self.params), (start, A)

    def _labelled_law(self, steps: Steps, K: int) -> Any:
        gamma = np.zeros((steps.sequences.n, K))
        known = steps.known
        assert known is not None
        gamma[np.arange(len(gamma)), known] = 1.0
        return steps.emissions.from_shares(gamma)

    def _begin(
        self, steps: Steps, K: int, chain: tuple[Array, Array], n: int, one: np.random.SeedSequence
    ) -> HMMParams:
        """Parameters to start from; further starts draw transitions too, where none are given."""
        start, A = chain
        first, second = one.spawn(2)
        if n > 0 and self.transmat_init is None:
            A = np.random.default_rng(second).dirichlet(np.ones(K), size=K)
        if steps.at is not None and steps.at.size and self._law_is_free():
            law = steps.emissions.from_shares(steps.shares(K, first))
        else:
            law = self._start_law(steps.emissions, K, first)
        return HMMParams(start, A, law, np.zeros(K, dtype=bool))

    def _law_is_free(self) -> bool:
        """Whether no emissions were given to start from."""
        return True

    def _warn_of_collapse(self) -> None:
        """States whose rows do not vary enough for a covariance of their own."""
        held = self._params.held
        if held.any():
            remedy = "use fewer states or covariance_type='tied', drop columns that repeat others, or raise reg_covar"
            warnings.warn(
                f"{self._states(held)} collapsed onto rows that do not vary in every direction: variances are held at "
                f"reg_covar = {getattr(self, 'reg_covar', 0.0):g} of the columns'; {remedy}",
                AssayWarning,
                stacklevel=4,
            )

    def _warn_of_idle_states(self) -> None:
        """States that explain no step, and states that are never left where nobody said what follows them."""
        sums = self._sums
        visits, left = sums.begun + sums.pairs.sum(axis=0), sums.pairs.sum(axis=1)
        idle, on_purpose = visits < IDLE, self.smoothing > 0
        if idle.any() and not (on_purpose and isinstance(self._params.law, SymbolTable)):
            warnings.warn(
                f"{self._states(idle)} explained no step of the training sequences and learned nothing from them; use "
                "fewer states, more starts (n_init) or other start values",
                AssayWarning,
                stacklevel=4,
            )
        stuck = ~idle & (left == 0)
        if stuck.any() and not on_purpose and self.transmat_init is None and "t" in self.params and len(stuck) > 1:
            warnings.warn(
                f"no sequence goes on from {self._states(stuck)}, so that all transitions from there are taken as "
                "equally likely; pass transmat_init, or set smoothing above 0 to say so on purpose",
                AssayWarning,
                stacklevel=4,
            )

    def _states(self, which: Array) -> str:
        """Some states by name, for a sentence."""
        names = self.states_[which].tolist()
        return f"state{'s' if len(names) > 1 else ''} {listed(names)}"

    def _partial_fit(self, X: Any, lengths: Any, states: Any, forgetting: float) -> Self:
        if not (isinstance(forgetting, float | int) and 0.5 < forgetting <= 1):
            raise ParameterError(f"forgetting = {forgetting!r} is out of range", remedy="it must be in (0.5, 1]")
        if not self.__sklearn_is_fitted__():
            return self._fit(X, lengths, states)
        self._check_parameters()
        self._refuse_other_shape()
        steps = self._steps(X, lengths, states)
        labelled = steps.known is not None and bool((steps.known >= 0).all())
        new = steps.counted(self._params)[1] if labelled and steps.emissions.exact else steps.e_step(self._params)[1][1]
        before, t = getattr(self, "_sums", None), getattr(self, "_batches", 1)
        if before is not None:
            total = before.steps + new.steps
            share = new.steps / total if labelled else (t + 1.0) ** -float(forgetting)
            new = before * ((1.0 - share) * total / before.steps) + new * (share * total / new.steps)
        self._params, self._sums, self._batches = steps.m_step((self._params, new)), new, t + 1
        return self

    def _refuse_other_shape(self) -> None:
        """To go on from earlier parameters, they must be of the kind that is asked for."""
        K, kind = len(self.states_), getattr(self._params.law, "kind", None)
        if self.n_components not in (None, K) or getattr(self, "covariance_type", kind) != kind:
            what = f"the last fit had {K} states" + ("" if kind is None else f", covariance_type = {kind!r}")
            raise ParameterError(what, remedy="start from a new model, clone(model).fit(X), after changing parameters")

    def _steps(self, X: Any, lengths: Any, states: Any = None) -> Steps:
        """The steps over new sequences, for a fitted model."""
        observed, sequences = self._observe(X, lengths, reset=False)
        known = None if states is None else self._places(states, sequences)
        rules, _ = self._rules(len(self.states_))
        return Steps(observed, sequences, rules, known, self.n_jobs)

    def _places(self, states: Any, sequences: Sequences) -> Array:
        given = self._given_states(states, sequences)
        return look_up(given, self.states_, sequences, what="state", remedy="use the names in states_")

    def summarize(self, X: Any, *, lengths: Any = None, states: Any = None) -> ExpectedCounts:
        """The expected counts of sequences under the present parameters: an E step. Summaries of batches add."""
        return self._steps(X, lengths, states).e_step(self._params)[1][1]

    def update(self, counts: ExpectedCounts) -> Self:
        """The parameters that maximise the expected likelihood of `counts`: an M step.

        With `summarize` this is EM over any stream of sequences; one iteration is
        `model.update(sum(model.summarize(one) for one in stream))`.
        """
        check_is_fitted(self)
        self._refuse_other_shape()
        K = len(self.states_)
        if not (isinstance(counts, ExpectedCounts) and counts.describes(self._params)):
            what = f"counts are not expected counts of {K} states of a {type(self).__name__} with these emissions"
            raise DataError(what, remedy="pass the output of summarize of this model, or a sum of several")
        rules, _ = self._rules(K)
        steps = Steps(self._rule(), Sequences(np.array([0, 0])), rules, None, self.n_jobs)
        self._params, self._sums = steps.m_step((self._params, counts)), counts
        return self

    # Fitted attributes that follow from the parameters.

    @property
    def startprob_(self) -> Array:
        """The law of the first state."""
        return self._fitted().start

    @property
    def transmat_(self) -> Array:
        """Row i is the law of the state that follows state i."""
        return self._fitted().transitions

    @property
    def n_iter_(self) -> int:
        """Iterations of the best start."""
        self._fitted()
        return self.trace_.n_iter

    @property
    def converged_(self) -> bool:
        """Whether the tolerance was reached."""
        self._fitted()
        return self.trace_.converged

    def _fitted(self) -> HMMParams:
        check_is_fitted(self)
        return self._params

    def __sklearn_is_fitted__(self) -> bool:
        return "_params" in vars(self)

    # Probabilities.

    def log_likelihood(self, X: Any, *, lengths: Any = None) -> Any:
        """log P(X) of each sequence, minus infinity where it cannot occur: an array for several, a number for one."""
        steps = self._steps(X, lengths)
        found, _ = self._forward(steps)
        return _one_or_many(found, steps.sequences, lengths)

    def _forward(self, steps: Steps) -> tuple[Array, Array]:
        params = self._params
        found, filtered = log_likelihoods(
            steps.likelihoods(params), steps.sequences.first, params.start, params.transitions,
            plain=steps.emissions.plain, n_jobs=self.n_jobs,
        )  # fmt: skip
        return found + _per_sequence(steps.emissions.constant, steps.sequences), filtered

    def score(self, X: Any, y: Any = None, *, lengths: Any = None) -> float:
        """log P(X) of all sequences together."""
        return float(np.sum(self.log_likelihood(X, lengths=lengths)))

    def log_joint(self, X: Any, states: Any, *, lengths: Any = None) -> Any:
        """log P(X, Q) of sequences and their paths: log P(X given Q) + log P(Q)."""
        steps, path = self._with_path(X, states, lengths)
        return _one_or_many(self._log_joint(steps, self._params, path), steps.sequences, lengths)

    def log_conditional(self, X: Any, states: Any, *, lengths: Any = None) -> Any:
        """log P(X given Q) of sequences, given their paths."""
        steps, path = self._with_path(X, states, lengths)
        return _one_or_many(self._log_conditional(steps, self._params, path), steps.sequences, lengths)

    def log_prior(self, states: Any, *, lengths: Any = None) -> Any:
        """log P(Q) of paths."""
        check_is_fitted(self)
        given, sequences = symbol_sequences(states, lengths, "states")
        path = look_up(given, self.states_, sequences, what="state", remedy="use the names in states_")
        _refuse_unknown(path, sequences)
        return _one_or_many(log_path(path, sequences.first, self.startprob_, self.transmat_), sequences, lengths)

    def _with_path(self, X: Any, states: Any, lengths: Any) -> tuple[Steps, Array]:
        steps = self._steps(X, lengths)
        path = self._places(states, steps.sequences)
        _refuse_unknown(path, steps.sequences)
        return steps, path

    def _log_conditional(self, steps: Steps, params: HMMParams, path: Array) -> Array:
        L = steps.emissions.log_likelihoods(params.law, self.n_jobs)
        return np.add.reduceat(L[np.arange(len(L)), path] + steps.emissions.constant, steps.sequences.first[:-1])

    def _log_joint(self, steps: Steps, params: HMMParams, path: Array) -> Array:
        own = log_path(path, steps.sequences.first, params.start, params.transitions)
        return self._log_conditional(steps, params, path) + own

    # Hidden states.

    def predict(self, X: Any, *, lengths: Any = None) -> Any:
        """The most probable path (Viterbi), in the form in which the sequences came."""
        steps = self._steps(X, lengths)
        return steps.sequences.split(np.take(self.states_, self._viterbi(steps)[0]))

    def _viterbi(self, steps: Steps) -> tuple[Array, Array]:
        params, first = self._params, steps.sequences.first
        L = steps.emissions.log_likelihoods(params.law, self.n_jobs)
        path, joint = best_paths(L, first, params.start, params.transitions, n_jobs=self.n_jobs)
        _refuse_never(joint)
        return path, joint + _per_sequence(steps.emissions.constant, steps.sequences)

    def predict_proba(self, X: Any, *, lengths: Any = None) -> Any:
        """P(q_t = k given X) of each step, columns in the order of `states_`."""
        steps = self._steps(X, lengths)
        return steps.sequences.split(self._posterior(steps)[0])

    def _posterior(self, steps: Steps) -> tuple[Array, Array]:
        params = self._params
        found = expect(
            steps.likelihoods(params), steps.sequences.first, params.start, params.transitions,
            plain=steps.emissions.plain, n_jobs=self.n_jobs,
        )  # fmt: skip
        _refuse_never(found.log_likelihood)
        gamma = found.gamma / found.gamma.sum(axis=1, keepdims=True)
        return gamma, found.log_likelihood + _per_sequence(steps.emissions.constant, steps.sequences)

    def decode(self, X: Any, *, lengths: Any = None, method: str = "viterbi") -> HiddenPath:
        """Path and posterior probabilities together, to read and to draw.

        "viterbi" takes the most probable path as a whole, "posterior" the most probable state of each step, which errs
        in the fewest steps but may be a path that cannot occur.
        """
        choice(method, "method", ("viterbi", "posterior"))
        steps = self._steps(X, lengths)
        gamma, likelihood = self._posterior(steps)
        if method == "viterbi":
            codes, joint = self._viterbi(steps)
        else:
            codes = gamma.argmax(axis=1).astype(np.int64)
            joint = self._log_joint(steps, self._params, codes)
        return HiddenPath(self.states_, codes, gamma, steps.sequences.first, joint, likelihood, method)

    def predict_next(self, X: Any, *, lengths: Any = None, steps: int = 1) -> NextStep:
        """The law of state and observation `steps` after the end of each sequence."""
        made = self._steps(X, lengths)
        likelihood, filtered = self._forward(made)
        _refuse_never(likelihood)
        ahead = np.linalg.matrix_power(self.transmat_, whole(steps, "steps"))
        states = filtered[made.sequences.ends] @ ahead
        names, law, spread = self._ahead(states)
        return NextStep(int(steps), self.states_, states, names, law, spread)

    def sample(
        self, n_samples: int = 1, n_sequences: int | None = None, *, random_state: Any = None
    ) -> tuple[Any, Any]:
        """Observations and states of a simulated sequence of `n_samples` steps, or lists of `n_sequences` of each."""
        params = self._fitted()
        length, many = whole(n_samples, "n_samples"), 1 if n_sequences is None else whole(n_sequences, "n_sequences")
        rng = generator(self.random_state if random_state is None else random_state)
        first = np.arange(many + 1, dtype=np.int64) * length
        path = np.empty(first[-1], dtype=np.int64)
        walk(rng.random(path.size), first, params.start, params.transitions, path)
        X, states = self._emit(path, rng), self.states_[path]
        return (X, states) if n_sequences is None else (np.split(X, first[1:-1]), np.split(states, first[1:-1]))

    # Criteria: lower is better.

    def n_parameters(self) -> int:
        """How many numbers are free; zeros of the given start values, and what `params` leaves out, are not."""
        self._fitted()
        rules, _ = self._rules(len(self.states_))
        start = np.count_nonzero(rules.start) - 1
        transitions = (np.count_nonzero(rules.transitions, axis=1) - 1).sum()
        free = {"s": start, "t": transitions, "e": self._emission_parameters()}
        return int(sum(free[letter] for letter in self.params))

    def aic(self, X: Any, *, lengths: Any = None) -> float:
        """-2 log P(X) + 2 (free parameters)."""
        return -2.0 * self.score(X, lengths=lengths) + 2.0 * self.n_parameters()

    def bic(self, X: Any, *, lengths: Any = None) -> float:
        """-2 log P(X) + (free parameters) log n, with n the steps of all sequences."""
        steps = self._steps(X, lengths)
        fit = -2.0 * float(self._forward(steps)[0].sum())
        return fit + self.n_parameters() * float(np.log(steps.size))

    def select(
        self, X: Any, n_components: Any = range(1, 7), *, lengths: Any = None, criterion: str = "bic"
    ) -> StateChoice:
        """Fit every number of states, and compare them by BIC or AIC; all other settings are those of this model.

        The likelihood is not regular where a state is superfluous, so that both are rules of thumb; BIC does not miss
        states for long sequences and seldom finds too many.
        """
        return select_states(self, X, n_components, lengths, criterion)

    # Pictures.

    def stationary(self) -> StationaryLaws:
        """All stationary laws of the hidden states."""
        found = stationary_laws(self._fitted().transitions)
        return StationaryLaws(self.states_, found.laws, found.periods, found.transient)

    def diagram(self) -> StateDiagram:
        """States, the ways between them and what they emit, to be drawn; shares of time are those in training."""
        params = self._fitted()
        sums = getattr(self, "_sums", None)
        time = (
            stationary_laws(params.transitions).laws.mean(axis=0)
            if sums is None
            else sums.pairs.sum(axis=0) + sums.begun
        )
        return StateDiagram(self.states_, params.start, params.transitions, time / time.sum(), self._describe_states())

    def plot(self, ax: Any = None) -> Any:
        """Draw the diagram."""
        return self.diagram().plot(ax=ax)


def _more_names(names: Array, K: int) -> Array:
    """Names for states that nobody named: the next whole numbers, or "state 2" beside text."""
    missing = K - len(names)
    if names.dtype.kind in "iu" or not len(names):
        free = [n for n in range(K + len(names)) if n not in set(names.tolist())][:missing]
        return np.concatenate([names, np.array(free, dtype=np.int64)]).astype(np.int64)
    texts = (f"state {k}" for k in range(len(names), K + len(names)))
    more = [text for text in texts if text not in set(names.tolist())][:missing]
    return np.array([*names.tolist(), *more], dtype=None if names.dtype.kind == "U" else object)


def _per_sequence(constant: Any, sequences: Sequences) -> Any:
    return np.add.reduceat(constant, sequences.first[:-1]) if np.ndim(constant) else 0.0


def _one_or_many(found: Array, sequences: Sequences, lengths: Any) -> Any:
    return found if sequences.in_list or lengths is not None else float(found[0])


def _refuse_unknown(path: Array, sequences: Sequences) -> None:
    if (path < 0).any():
        where = sequences.place(int(np.argmin(path)))
        raise DataError(f"the state at {where} is missing", remedy="give every state of the path")


def _refuse_never(likelihood: Array) -> None:
    if np.isneginf(likelihood).any():
        s = int(np.argmax(np.isneginf(likelihood)))
        what = f"sequence {s} has probability zero under this model, so it has no path"
        raise DataError(what, remedy="fit with smoothing above 0, or check the zeros of transmat_ and the emissions")


def shape_of(given: Any, name: str) -> tuple[int, int]:
    """The shape of given emissions, one row per state."""
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.ndim != 2 or not found.size:
        raise ParameterError(f"{name} must have one row per state", remedy=f"pass {name} as a list of rows")
    return found.shape[0], found.shape[1]
