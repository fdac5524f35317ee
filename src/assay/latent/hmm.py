"""Hidden Markov models: a Markov chain that nobody sees, and at each step an observation that depends on it (row E4).

    P(Q)         = start(q_1) A(q_1, q_2) ... A(q_{T-1}, q_T)
    P(X given Q) = b(q_1, x_1) ... b(q_T, x_T),     P(X) = sum over all paths of P(X given Q) P(Q)

All quantities come from recursions of cost T K^2 (`_hmm_kernels`): P(X), the posterior law of each state, the most
probable path (Viterbi), the law of what comes next. Parameters are counted where the states are known, the start law by
the number of *sequences*, and found by EM where they are not, or where only some of them are; zeros of given start
values stay zero, so left-right models are a matrix with zeros. A state that explains nothing keeps its parameters: no
row of zeros, no NaN. The likelihood never falls from one iteration to the next.

The likelihood has several maxima: use `n_init`.

Baum, Petrie, Soules, Weiss (1970), Ann. Math. Statist. 41, 164-171; Rabiner (1989), Proc. IEEE 77, 257-286;
Jurafsky, Martin, Speech and Language Processing, appendix A, for the example of the ice creams.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, array_like, none
from assay.checks import listed
from assay.errors import DataError, ParameterError
from assay.latent._chain import check_law
from assay.latent._emissions import Symbols, SymbolTable
from assay.latent._hmm import HiddenMarkov, shape_of
from assay.latent._hmm_steps import HMMParams
from assay.latent._sequences import Sequences, encode, known_labels, look_up, symbol_sequences
from assay.numbers import fmt
from assay.state import Specs, labels, need

__all__ = ["CategoricalHMM"]

Array = np.ndarray


class CategoricalHMM(HiddenMarkov):
    """A hidden Markov model whose states emit symbols.

        b_k(m) = P(symbol m | state k) = (n_km + alpha) / sum_m (n_km + alpha)

    | parameter         | default | range               | meaning                                                     |
    |-------------------|---------|---------------------|-------------------------------------------------------------|
    | n_components      | None    | from 1 on           | K; None: as many as are named, known or given, otherwise 2  |
    | state_names       | None    | list of names       | the states and their order; None: the known ones, sorted, otherwise 0, 1, ... |
    | symbols           | None    | list of symbols     | the alphabet; None: 0, 1, ... for given emissions, otherwise the symbols that occur, sorted |
    | startprob_init    | None    | (K,)                | start values; zeros stay zero                               |
    | transmat_init     | None    | (K, K)              | start values; zeros stay zero                               |
    | emissionprob_init | None    | (K, M)              | start values; zeros stay zero                               |
    | smoothing         | 0.0     | from 0 on           | alpha, a pseudo-count on every start, transition and symbol that may occur |
    | params            | "ste"   | some of its letters | what is estimated: start law, transitions, emissions        |
    | n_init            | 1       | from 1 on           | random starts; the best is kept                             |
    | max_iter          | 500     | from 1 on           | iterations of EM at most                                    |
    | tol               | 1e-6    | from 0 on           | stop when the log-likelihood per step rises by less         |
    | keep_params       | False   |                     | `trace_` holds the parameters of each iteration             |
    | random_state      | None    | seed                | for starts and `sample`                                     |
    | n_jobs            | None    | threads             | over sequences; never changes a result                      |

    Fitted: `states_`, `symbols_`, `startprob_`, `transmat_`, `emissionprob_`, `trace_` (an `EMTrace`), `starts_`,
    `n_iter_`, `converged_`. `from_parameters` makes a model without data.

    A sequence is a text (one symbol per character), a list or vector of symbols, or a table of one column; many are a list of
    such, or one with `lengths`. A flat list of texts is one sequence of these texts: pass `[list(word) for word in words]`. A missing symbol (None, NaN) says nothing. A symbol that is not in `symbols_` is refused
    by name; name the alphabet in `symbols` and set `smoothing` to allow for symbols that training did not show.
    scikit-learn's checks of tables of numbers do not apply to sequences of symbols (the tag `two_d_array` is off).

    Rabiner (1989), A tutorial on hidden Markov models, Proc. IEEE 77, 257-286.

    >>> ice = CategoricalHMM.from_parameters(
    ...     [0.8, 0.2], [[0.6, 0.4], [0.5, 0.5]], [[0.2, 0.4, 0.4], [0.5, 0.4, 0.1]], state_names="HC", symbols=[1, 2, 3]
    ... )
    >>> round(float(np.exp(ice.log_likelihood([3, 1, 3]))), 6), ice.predict([3, 1, 3]).tolist()
    (0.028562, ['H', 'C', 'H'])
    >>> round(float(np.exp(ice.log_prior("HHC"))), 3), round(float(np.exp(ice.log_conditional([3, 1, 3], "HHC"))), 4)
    (0.192, 0.008)
    >>> labelled = CategoricalHMM().fit([[3, 3, 2], [1, 1, 2], [1, 2, 3]], states=[list("HHC"), list("CCC"), list("CHH")])
    >>> labelled.states_.tolist(), labelled.startprob_.round(3).tolist(), labelled.transmat_.round(3).tolist()
    (['C', 'H'], [0.667, 0.333], [[0.667, 0.333], [0.333, 0.667]])
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        **HiddenMarkov.constraints,
        "state_names": none | array_like | Constraint(lambda v: isinstance(v, str) and len(v) > 0, "a text"),
        "symbols": none | array_like | Constraint(lambda v: isinstance(v, str) and len(v) > 0, "a text"),
        "emissionprob_init": none | array_like,
    }
    state: ClassVar[Specs] = {"n_features_in_": None, "feature_names_in_": None, "symbols_": labels("M")}

    symbols_: Array

    def _check_state(self) -> None:
        need(isinstance(self._params.law, SymbolTable))

    def __init__(
        self,
        n_components: int | None = None,
        *,
        state_names: Any = None,
        symbols: Any = None,
        startprob_init: Any = None,
        transmat_init: Any = None,
        emissionprob_init: Any = None,
        smoothing: float = 0.0,
        params: str = "ste",
        n_init: int = 1,
        max_iter: int = 500,
        tol: float = 1e-6,
        keep_params: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.state_names = state_names
        self.symbols = symbols
        self.startprob_init = startprob_init
        self.transmat_init = transmat_init
        self.emissionprob_init = emissionprob_init
        self.smoothing = smoothing
        self.params = params
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.keep_params = keep_params
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags

    @classmethod
    def from_parameters(cls, startprob: Any, transmat: Any, emissionprob: Any, **settings: Any) -> Self:
        """A model with given probabilities; `fit` starts from them. Settings are those of the class."""
        model = cls(startprob_init=startprob, transmat_init=transmat, emissionprob_init=emissionprob, **settings)
        model._check_parameters()
        K, M = shape_of(emissionprob, "emissionprob")
        model.states_ = model._named(K)
        model.symbols_ = np.arange(M) if model.symbols is None else known_labels(model.symbols, "symbols")
        _, chain = model._rules(K)
        table = check_law(emissionprob, (K, len(model.symbols_)), "emissionprob")
        model._params = HMMParams(*chain, SymbolTable(table), np.zeros(K, dtype=bool))
        return model

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None, states: Any = None) -> Self:
        """Count where all `states` are known, otherwise fit by EM; None, NaN or -1 is an unknown one. y is ignored."""
        return self._fit(X, lengths, states)

    def partial_fit(
        self, X: Any, y: Any = None, *, lengths: Any = None, states: Any = None, forgetting: float = 0.7
    ) -> Self:
        """More sequences: exact counting where their states are known, otherwise a step of online EM.

        The first call fits. After that, counts of labelled sequences are added up, and a batch t = 1, 2, ... of others
        counts with the share (t + 1)^-forgetting, 0.5 < forgetting <= 1 (Cappé, Moulines 2009).
        """
        return self._partial_fit(X, lengths, states, forgetting)

    @property
    def emissionprob_(self) -> Array:
        """P(symbol | state), one row per state."""
        return self._fitted().law.table

    def _observe(self, X: Any, lengths: Any, *, reset: bool) -> tuple[Symbols, Sequences]:
        if reset:
            self._check_parameters()
        else:
            check_is_fitted(self)
        given, sequences = symbol_sequences(X, lengths)
        if reset and self.symbols is None:
            symbols, codes = encode(given)
            if symbols.size == 0:
                raise DataError("every symbol of X is missing", remedy="pass at least one known symbol")
            symbols, codes = self._columns_of(symbols, codes)
        else:
            symbols = known_labels(self.symbols, "symbols") if reset else self.symbols_
            remedy = "name all symbols in `symbols` and set smoothing above 0 before the fit, or put None in its place"
            codes = look_up(given, symbols, sequences, what="symbol", remedy=remedy)
        if reset:
            self.symbols_ = symbols
        return Symbols(codes, len(symbols), float(self.smoothing), self._allowed()), sequences

    def _columns_of(self, symbols: Array, codes: Array) -> tuple[Array, Array]:
        """Symbols and codes by the columns of given emissions: numbers below M are columns, others stand in order."""
        if self.emissionprob_init is None:
            return symbols, codes
        _, M = shape_of(self.emissionprob_init, "emissionprob_init")
        if symbols.dtype.kind == "i" and symbols.min() >= 0 and symbols.max() < M:
            return np.arange(M), np.where(codes < 0, -1, symbols[codes])
        if symbols.size != M:
            what = f"emissionprob_init has {M} columns, but {symbols.size} symbols occur: {listed(symbols.tolist())}"
            raise ParameterError(what, remedy="name the symbol of each column in `symbols`")
        return symbols, codes

    def _allowed(self) -> Array | None:
        if self.emissionprob_init is None:
            return None
        K, _ = shape_of(self.emissionprob_init, "emissionprob_init")
        return check_law(self.emissionprob_init, (K, len(self.symbols_)), "emissionprob_init") > 0

    def _rule(self) -> Symbols:
        return Symbols(np.empty(0, dtype=np.int64), len(self.symbols_), float(self.smoothing), self._allowed())

    def _start_law(self, observed: Symbols, K: int, seed: Any) -> SymbolTable:
        if self.emissionprob_init is None:
            return observed.start(K, "random", seed)
        return SymbolTable(check_law(self.emissionprob_init, (K, observed.M), "emissionprob_init"))

    def _law_is_free(self) -> bool:
        return self.emissionprob_init is None

    def _emission_parameters(self) -> int:
        allowed = self._allowed()
        K, M = self.emissionprob_.shape
        return K * (M - 1) if allowed is None else int((np.count_nonzero(allowed, axis=1) - 1).sum())

    def _emit(self, path: Array, rng: np.random.Generator) -> Array:
        reach = np.cumsum(self.emissionprob_, axis=1)
        last = self.emissionprob_.shape[1] - 1 - np.argmax(self.emissionprob_[:, ::-1] > 0, axis=1)
        drawn = (rng.random(path.size)[:, None] >= reach[path]).sum(axis=1)
        return self.symbols_[np.minimum(drawn, last[path])]

    def _ahead(self, states: Array) -> tuple[tuple[str, ...], Array, Array | None]:
        return tuple(str(symbol) for symbol in self.symbols_), states @ self.emissionprob_, None

    def _describe_states(self) -> tuple[str, ...]:
        top = np.argsort(-self.emissionprob_, axis=1, kind="stable")[:, :4]
        names = [str(one) if str(one).strip() else repr(str(one)) for one in self.symbols_]  # a space can be seen
        return tuple(
            ", ".join(f"{names[m]}: {fmt(self.emissionprob_[k, m], 2)}" for m in row if self.emissionprob_[k, m] > 0)
            for k, row in enumerate(top)
        )
