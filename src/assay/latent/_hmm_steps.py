"""The EM steps of a hidden Markov model, and counting where the states are known.

    E step   gamma_t(k) = P(q_t = k | X),  sum over t of P(q_{t-1} = i, q_t = j | X), by the recursions
    M step   start_k = sum over sequences gamma_1(k) / m,  A_ij = pairs_ij / sum_j pairs_ij,  emissions by their sums

A known state is a likelihood of zero for all others, so that labelled, partly labelled and unlabelled sequences are one
case, and with all states known the E step counts. Pseudo-counts are a Dirichlet prior, and the objective is then the
log posterior density. The sums of sequences add.

Baum, Petrie, Soules, Weiss (1970), Annals of Mathematical Statistics 41, 164-171.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from assay.errors import DataError
from assay.latent._chain import count_path, laws, log_prior
from assay.latent._em import EMModel
from assay.latent._emissions import CountSums, Rates, SymbolCounts, SymbolTable, merged, weighed
from assay.latent._gaussian import Gaussians, Sums
from assay.latent._recursions import expect
from assay.latent._sequences import Sequences
from assay.numbers import fmt
from assay.results import Result
from assay.state import Specs, Stateful, bools, floats, need, part

__all__ = ["ChainRules", "ExpectedCounts", "HMMParams", "Steps"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class HMMParams(Stateful):
    """Start law, transition matrix, what the states emit, and which covariances are held at their floor."""

    start: Array
    transitions: Array
    law: Any
    held: Array
    state: ClassVar[Specs] = {
        "start": floats("k", low=0, high=1 + 1e-9),
        "transitions": floats("k", "k", low=0, high=1 + 1e-9),
        "law": part((Gaussians, SymbolTable, Rates), "k", "p", "M"),
        "held": bools("k"),
    }

    def _check_state(self) -> None:
        sums = np.array([self.start.sum(), *self.transitions.sum(axis=1)])
        need(np.abs(sums - 1.0).max() < 1e-6, "probabilities do not sum to 1")


@dataclass(frozen=True, eq=False, repr=False)
class ExpectedCounts(Result):
    """What sequences say about a hidden Markov model: a summary that adds.

    | field           | meaning                                                                     |
    |-----------------|-----------------------------------------------------------------------------|
    | sequences, steps | how many                                                                   |
    | begun           | (K,): expected number of sequences that begin in each state                 |
    | pairs           | (K, K): expected number of steps from each state to each                    |
    | emitted         | expected sums of what each state emits                                      |
    """

    sequences: float
    steps: float
    begun: Array
    pairs: Array
    emitted: Any
    state: ClassVar[Specs] = {
        "begun": floats("k", low=0),
        "pairs": floats("k", "k", low=0),
        "emitted": part((Sums, SymbolCounts, CountSums), "k", "p", "M"),
    }

    def __add__(self, other: ExpectedCounts) -> ExpectedCounts:
        return ExpectedCounts(
            self.sequences + other.sequences,
            self.steps + other.steps,
            self.begun + other.begun,
            self.pairs + other.pairs,
            merged(self.emitted, other.emitted),
        )

    def __radd__(self, nothing: int) -> ExpectedCounts:
        return self  # sum() begins with 0

    def describes(self, params: HMMParams) -> bool:
        """Whether such parameters can be estimated from these counts: the same states, columns and symbols."""
        law, emitted = params.law, self.emitted
        pairs = ((Gaussians, "means", Sums, "mean"), (SymbolTable, "table", SymbolCounts, "counts"),
                 (Rates, "rates", CountSums, "total"))  # fmt: skip
        return any(
            isinstance(law, a) and isinstance(emitted, b) and getattr(law, name).shape == getattr(emitted, of).shape
            for a, name, b, of in pairs
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per state: sequences that begin there, then steps to each state."""
        columns = [f"to {k}" for k in range(len(self.begun))]
        frame = pd.DataFrame(self.pairs, columns=columns)
        frame.insert(0, "begun", self.begun)
        return frame.rename_axis("state")

    def __str__(self) -> str:
        head = f"Expected counts of {fmt(self.sequences, 6)} sequences, {fmt(self.steps, 6)} steps"
        return f"{head}\n{self.to_frame().to_string(float_format=lambda v: fmt(v, 6))}"

    def __mul__(self, factor: float) -> ExpectedCounts:
        return ExpectedCounts(
            factor * self.sequences,
            factor * self.steps,
            factor * self.begun,
            factor * self.pairs,
            weighed(self.emitted, factor),
        )


@dataclass(frozen=True, eq=False)
class ChainRules:
    """How the parameters are updated: pseudo-count, what may be above zero, and which of s, t, e are updated at all."""

    smoothing: float
    start: Array
    transitions: Array
    params: str = "ste"


class Steps(EMModel[HMMParams, tuple[HMMParams, ExpectedCounts]]):
    """Sequences, what they show, known states (-1: unknown), and the steps over them; sums come with parameters."""

    def __init__(
        self, emissions: Any, sequences: Sequences, rules: ChainRules, known: Array | None, n_jobs: int | None
    ) -> None:
        self.emissions, self.sequences, self.rules, self.n_jobs = emissions, sequences, rules, n_jobs
        self.constant = float(np.sum(emissions.constant)) if np.ndim(emissions.constant) else 0.0
        self.known = known
        self.at = None if known is None else np.flatnonzero(known >= 0)

    @property
    def size(self) -> float:
        """Steps of all sequences."""
        return float(self.sequences.n)

    def likelihoods(self, params: HMMParams) -> Array:
        """P(x_t, what is known of q_t | q_t = k), or its logarithm."""
        L = self.emissions.likelihoods(params.law, self.n_jobs)
        if self.at is not None and self.at.size and self.known is not None:
            own = L[self.at, self.known[self.at]]
            L[self.at] = 0.0 if self.emissions.plain else -np.inf
            L[self.at, self.known[self.at]] = own
        return L

    def e_step(self, params: HMMParams) -> tuple[float, tuple[HMMParams, ExpectedCounts]]:
        """The log-likelihood, with the log prior, and the expected counts."""
        first, plain = self.sequences.first, self.emissions.plain
        found = expect(
            self.likelihoods(params), first, params.start, params.transitions, plain=plain, n_jobs=self.n_jobs
        )
        impossible = np.isneginf(found.log_likelihood)
        if impossible.any():
            refuse_impossible(int(np.argmax(impossible)), self.at is not None)
        emitted = self.emissions.sums(params.law, found.gamma, self.n_jobs)
        sums = ExpectedCounts(float(len(self.sequences)), self.size, found.begun, found.pairs, emitted)
        return float(found.log_likelihood.sum()) + self.constant + self.log_prior(params), (params, sums)

    def log_prior(self, params: HMMParams) -> float:
        """Of the pseudo-counts, for what is updated."""
        rules = self.rules
        parts = {
            "s": lambda: log_prior(params.start, rules.smoothing, rules.start),
            "t": lambda: log_prior(params.transitions, rules.smoothing, rules.transitions),
            "e": lambda: self.emissions.log_prior(params.law),
        }
        return sum(parts[letter]() for letter in "ste" if letter in rules.params)

    def m_step(self, summary: tuple[HMMParams, ExpectedCounts]) -> HMMParams:
        """Shares of the expected counts; what was never seen, or is not to be updated, stays."""
        before, sums = summary
        rules = self.rules
        start, transitions, law, held = before.start, before.transitions, before.law, before.held
        if "s" in rules.params:
            start = laws(sums.begun, rules.smoothing, rules.start, start)
        if "t" in rules.params:
            transitions = laws(sums.pairs, rules.smoothing, rules.transitions, transitions)
        if "e" in rules.params:
            law, held = self.emissions.estimate(sums.emitted, law)
        return HMMParams(start, transitions, law, held)

    def sound(self, params: HMMParams) -> bool:
        """No covariance is held at its floor."""
        return not params.held.any()

    def describe(self, params: HMMParams) -> Mapping[str, Array]:
        """The parameters by the names of the fitted attributes, in the units of the data."""
        emitted = self.emissions.describe(params.law)
        return {"startprob": params.start, "transmat": params.transitions, **emitted}

    # States that are known.

    def counted(self, start: HMMParams) -> tuple[HMMParams, ExpectedCounts]:
        """Parameters and counts where every state is known; `start` is for what was never seen."""
        assert self.known is not None
        K = len(start.start)
        begun, pairs = count_path(self.known, self.sequences.first, K)
        self._refuse_forbidden(begun, pairs)
        gamma = np.zeros((self.sequences.n, K))
        gamma[np.arange(len(gamma)), self.known] = 1.0
        emitted = self.emissions.sums(start.law, gamma, self.n_jobs)
        sums = ExpectedCounts(float(len(self.sequences)), self.size, begun, pairs, emitted)
        return self.m_step((start, sums)), sums

    def _refuse_forbidden(self, begun: Array, pairs: Array) -> None:
        if (begun[~self.rules.start] > 0).any() or (pairs[~self.rules.transitions] > 0).any():
            what = "startprob_init or transmat_init gives the known states probability zero"
            raise DataError(what, remedy="remove those zeros, or correct the states")

    def shares(self, K: int, seed: Any) -> Array:
        """A guess at the states for a start: one where it is known, and random shares of small weight elsewhere."""
        assert self.known is not None
        gamma = 0.1 * np.random.default_rng(seed).dirichlet(np.ones(K), size=self.sequences.n)
        if self.at is not None:
            gamma[self.at] = 0.0
            gamma[self.at, self.known[self.at]] = 1.0
        return gamma


def refuse_impossible(s: int, labelled: bool) -> None:
    """A sequence that no path can make."""
    what = f"sequence {s} has probability zero: no path of states can produce it"
    if labelled:
        what += " with its known states"
    remedy = "check the zeros of startprob_init, transmat_init and the emissions, or set smoothing above 0"
    raise DataError(what, remedy=remedy)
