"""Markov chains: the next state depends on the present one alone (row E4).

    P(q_1 .. q_T) = start(q_1) A(q_1, q_2) ... A(q_{T-1}, q_T)

Both are estimated by counting: the start law by the shares of the *sequences* that begin in each state, A_ij by the
share of the departures from i that go to j. Counts add, so that sequences may come in any number of parts. Cost: one
look at each step.

Anderson, Goodman (1957), Annals of Mathematical Statistics 28, 89-110, for estimates and tests.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy.special import chdtrc, xlogy
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, Estimator, array_like, none, real
from assay.checks import listed, whole
from assay.errors import AssayWarning, DataError, ParameterError
from assay.inference import proportion_interval
from assay.latent._chain import check_law, count_path, laws, log_path, stationary_laws
from assay.latent._chain_results import StateDiagram, StationaryLaws, TransitionIntervals
from assay.latent._hmm_kernels import walk
from assay.latent._sequences import Sequences, encode, known_labels, look_up, symbol_sequences
from assay.numerics.seeds import generator
from assay.results import TestResult
from assay.state import Specs, floats, labels, need

__all__ = ["MarkovChain"]

Array = np.ndarray


class MarkovChain(Estimator):
    """A Markov chain of order one, fitted by counting.

        start_j = (n_j + alpha) / (m + K alpha),     A_ij = (n_ij + alpha) / (n_i + K alpha)

    with m sequences, n_j of which begin in j, and n_i departures from i, n_ij of them to j.

    | parameter   | default | range               | meaning                                                           |
    |-------------|---------|---------------------|-------------------------------------------------------------------|
    | smoothing   | 0.0     | from 0 on           | alpha, a pseudo-count on every start and transition; 1 is Laplace's rule |
    | state_names | None    | list of names       | the states and their order; None: those that occur, sorted        |

    Fitted: `states_`, `startprob_`, `transmat_`, `start_counts_`, `transition_counts_`. `from_parameters` makes a chain
    without data.

    A sequence is a text (one state per character), a list or vector of states, or a table of one column; many are a list of
    such, or one with `lengths`. A flat list of texts is one sequence of these texts: pass `[list(word) for word in words]`.
    A missing state (None, NaN) is in no pair. A state that is only seen at the end of
    sequences has no estimate without smoothing: its row is uniform, and a warning says so.

    scikit-learn's checks of tables of numbers do not apply to sequences of states (the tag `two_d_array` is off).

    Anderson, Goodman (1957), Statistical inference about Markov chains, Annals of Mathematical Statistics 28, 89-110.

    >>> weather = MarkovChain.from_parameters([0.8, 0.2], [[0.6, 0.4], [0.5, 0.5]], state_names=["H", "C"])
    >>> round(weather.probability("HHC"), 3)
    0.192
    >>> print(weather.stationary())
    Stationary distribution
           period      H      C
    class
    1           1 0.5556 0.4444
    >>> chain = MarkovChain(smoothing=1.0).fit([list("HHC"), list("CHHH"), list("HCC")])
    >>> chain.states_.tolist(), chain.startprob_.round(3).tolist(), chain.transmat_.round(3).tolist()
    (['C', 'H'], [0.4, 0.6], [[0.5, 0.5], [0.429, 0.571]])
    """  # noqa: E501  (a table, and pandas pads its columns)

    constraints: ClassVar[dict[str, Constraint]] = {"smoothing": real(0), "state_names": none | array_like}
    state: ClassVar[Specs] = {
        "n_features_in_": None,
        "feature_names_in_": None,
        "states_": labels("k"),
        "startprob_": floats("k", low=0, high=1 + 1e-9),
        "transmat_": floats("k", "k", low=0, high=1 + 1e-9),
        "start_counts_": floats("k", low=0),
        "transition_counts_": floats("k", "k", low=0),
    }

    def _check_state(self) -> None:
        sums = [self.startprob_.sum(), *self.transmat_.sum(axis=1)]
        need(np.abs(np.array(sums) - 1.0).max() < 1e-6, "probabilities do not sum to 1")

    def __init__(self, smoothing: float = 0.0, *, state_names: Any = None) -> None:
        self.smoothing = smoothing
        self.state_names = state_names

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags

    @classmethod
    def from_parameters(cls, startprob: Any, transmat: Any, *, state_names: Any = None, smoothing: float = 0.0) -> Self:
        """A chain with a given start law and transition matrix; `partial_fit` goes on from nothing counted."""
        chain = cls(smoothing, state_names=state_names)
        chain._check_parameters()
        k = len(np.atleast_1d(np.asarray(startprob, dtype=object)))
        names = np.arange(k) if state_names is None else known_labels(state_names, "state_names")
        if len(names) != k:
            what = f"state_names has {len(names)} names, startprob has {k} probabilities"
            raise ParameterError(what, remedy="pass one name per state")
        chain.states_ = names
        chain.startprob_ = check_law(startprob, (k,), "startprob")
        chain.transmat_ = check_law(transmat, (k, k), "transmat")
        chain.start_counts_, chain.transition_counts_ = np.zeros(k), np.zeros((k, k))
        return chain

    # Fitting.

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None) -> Self:
        """Count first states and transitions; y is ignored."""
        self._check_parameters()
        symbols, sequences = symbol_sequences(X, lengths)
        if self.state_names is None:
            names, codes = encode(symbols)
        else:
            names = known_labels(self.state_names, "state_names")
            codes = self._codes(symbols, sequences, names)
        if names.size == 0:
            raise DataError("every state of X is missing", remedy="pass at least one sequence with a known state")
        self.states_ = names
        self._count(codes, sequences, np.zeros(names.size), np.zeros((names.size, names.size)))
        return self

    def partial_fit(self, X: Any, y: Any = None, *, lengths: Any = None) -> Self:
        """Add the counts of more sequences; the states are those of the first call (or `state_names`)."""
        if not hasattr(self, "states_"):
            return self.fit(X, lengths=lengths)
        self._check_parameters()
        symbols, sequences = symbol_sequences(X, lengths)
        self._count(self._codes(symbols, sequences), sequences, self.start_counts_, self.transition_counts_)
        return self

    def _count(self, codes: Array, sequences: Sequences, begun: Array, pairs: Array) -> None:
        k = len(self.states_)
        more = count_path(codes, sequences.first, k)
        self.start_counts_, self.transition_counts_ = begun + more[0], pairs + more[1]
        every, even = np.ones((k, k), dtype=bool), np.full((k, k), 1.0 / k)
        self.startprob_ = laws(self.start_counts_, self.smoothing, every[0], even[0])
        self.transmat_ = laws(self.transition_counts_, self.smoothing, every, even)
        stuck = self.transition_counts_.sum(axis=1) == 0
        if self.smoothing == 0 and stuck.any():
            who = listed([str(name) for name in self.states_[stuck]])
            warnings.warn(
                f"no sequence continues after {who}, so all transitions from there are taken as equally likely; "
                "set smoothing above 0 to silence this warning",
                AssayWarning,
                stacklevel=3,
            )

    def _codes(self, symbols: Array, sequences: Sequences, names: Array | None = None) -> Array:
        names = self.states_ if names is None else names
        remedy = "name all states in state_names, with smoothing above 0, or put None in its place"
        return look_up(symbols, names, sequences, what="state", remedy=remedy)

    def _path(self, X: Any, lengths: Any) -> tuple[Array, Sequences]:
        """The places of the states of complete sequences."""
        check_is_fitted(self)
        symbols, sequences = symbol_sequences(X, lengths)
        codes = self._codes(symbols, sequences)
        if (codes < 0).any():
            where = sequences.place(int(np.argmin(codes)))
            raise DataError(f"the state at {where} is missing", remedy="cut the sequence there, or fill the state in")
        return codes, sequences

    # Probabilities.

    def log_probability(self, X: Any, *, lengths: Any = None) -> Any:
        """log P(q_1 .. q_T) of each sequence: an array for several, a number for one."""
        codes, sequences = self._path(X, lengths)
        found = log_path(codes, sequences.first, self.startprob_, self.transmat_)
        return found if sequences.in_list or lengths is not None else float(found[0])

    def probability(self, X: Any, *, lengths: Any = None) -> Any:
        """P(q_1 .. q_T) of each sequence; 0 where it is too small to be written."""
        found = np.exp(self.log_probability(X, lengths=lengths))
        return found if np.ndim(found) else float(found)

    def score(self, X: Any, y: Any = None, *, lengths: Any = None) -> float:
        """The log-likelihood of all sequences together."""
        return float(np.sum(self.log_probability(X, lengths=lengths)))

    def distribution(self, steps: int, start: Any = None) -> Array:
        """The law of the state after so many steps from the start law, or from a given law or state."""
        check_is_fitted(self)
        steps = whole(steps, "steps", 0)
        law = self.startprob_ if start is None else self._law(start)
        return law @ np.linalg.matrix_power(self.transmat_, steps)

    def _law(self, start: Any) -> Array:
        if np.ndim(start) == 0:
            one = Sequences(np.array([0, 1]))
            symbol = np.empty(1, dtype=object)
            symbol[0] = start
            return np.eye(len(self.states_))[self._codes(symbol, one)[0]]
        return check_law(start, (len(self.states_),), "start")

    def predict_proba(self, X: Any, *, lengths: Any = None, steps: int = 1) -> Array:
        """The law of the state `steps` after the end of each sequence, one row per sequence."""
        codes, sequences = self._path(X, lengths)
        ahead = np.linalg.matrix_power(self.transmat_, whole(steps, "steps"))
        return ahead[codes[sequences.ends]]

    def predict(self, X: Any, *, lengths: Any = None, steps: int = 1) -> Array:
        """The most probable state `steps` after the end of each sequence."""
        return self.states_[np.argmax(self.predict_proba(X, lengths=lengths, steps=steps), axis=1)]

    def sample(self, length: int = 10, n_sequences: int | None = None, *, random_state: Any = None) -> Any:
        """A simulated sequence of states, or a list of `n_sequences` of them."""
        check_is_fitted(self)
        length, many = whole(length, "length"), 1 if n_sequences is None else whole(n_sequences, "n_sequences")
        first = np.arange(many + 1, dtype=np.int64) * length
        path = np.empty(first[-1], dtype=np.int64)
        walk(generator(random_state).random(path.size), first, self.startprob_, self.transmat_, path)
        states = self.states_[path]
        return states if n_sequences is None else np.split(states, first[1:-1])

    # What it says.

    def stationary(self) -> StationaryLaws:
        """All stationary laws: one for each closed class of states."""
        check_is_fitted(self)
        found = stationary_laws(self.transmat_)
        return StationaryLaws(self.states_, found.laws, found.periods, found.transient)

    def intervals(self, level: float = 0.95, *, method: str = "exact") -> TransitionIntervals:
        """Limits of every transition probability: of a proportion, by any method of `inference.proportion_interval`."""
        check_is_fitted(self)
        n = self.transition_counts_.sum(axis=1)
        rows = np.flatnonzero(n > 0)
        if rows.size == 0:
            raise DataError("no transition was counted", remedy="fit the chain to sequences of two or more steps")
        k = len(self.states_)
        count, trials = self.transition_counts_[rows].ravel().astype(int), np.repeat(n[rows], k).astype(int)
        found = proportion_interval(count, trials, level=level, method=method)
        share = count / trials
        table = pd.DataFrame(
            {
                "from": np.repeat(self.states_[rows], k),
                "to": np.tile(self.states_, rows.size),
                "count": count,
                "n": trials,
                "estimate": share,
                "std_error": np.sqrt(share * (1 - share) / trials),
                "lower": np.atleast_1d(found.lower),
                "upper": np.atleast_1d(found.upper),
            }
        )
        return TransitionIntervals(table, float(level), found.method)

    def independence_test(self) -> TestResult:
        """The likelihood-ratio test of independent states against a chain of order one.

        G = 2 sum n_ij log(n_ij n / (n_i n_j)),   chi-square with (r - 1)(c - 1) degrees of freedom
        """
        check_is_fitted(self)
        N = self.transition_counts_
        rows, columns = N.sum(axis=1), N.sum(axis=0)
        df = (np.count_nonzero(rows) - 1) * (np.count_nonzero(columns) - 1)
        if df < 1 or not N.any():
            what = "transitions between fewer than two states leave nothing to test"
            raise DataError(what, remedy="fit the chain to sequences in which several states follow each other")
        terms = xlogy(N, N).sum() - xlogy(rows, rows).sum() - xlogy(columns, columns).sum() + xlogy(N.sum(), N.sum())
        G = max(0.0, 2 * float(terms))
        return TestResult(
            statistic=G,
            p_value=float(chdtrc(df, G)),
            df=int(df),
            method="likelihood-ratio test of independence",
            n=int(N.sum()),
            assumptions=("transitions enough for the chi-square approximation: expected counts of about 5",),
        )

    def diagram(self) -> StateDiagram:
        """The states and the ways between them, to be drawn; shares of time are those of the departures counted."""
        check_is_fitted(self)
        counted = self.transition_counts_.sum(axis=1)
        share = counted / counted.sum() if counted.any() else stationary_laws(self.transmat_).laws.mean(axis=0)
        return StateDiagram(self.states_, self.startprob_, self.transmat_, share)

    def plot(self, ax: Any = None) -> Any:
        """Draw the diagram."""
        return self.diagram().plot(ax=ax)
