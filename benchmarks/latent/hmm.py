"""Hidden Markov models beside hmmlearn: EM from the same start for the same number of iterations, and Viterbi.

hmmlearn's default works in logarithms; its "scaling" implementation is quicker and loses digits where likelihoods are
small. Its priors on covariances are switched off, so that both maximise the same likelihood.
"""

from __future__ import annotations

import logging
import warnings
from functools import partial
from typing import Any

import numpy as np

from assay.errors import AssayWarning
from assay.latent import CategoricalHMM, GaussianHMM
from benchmarks.case import Case

__all__ = ["CASES"]

JOBS = 2
logging.getLogger("hmmlearn").setLevel(logging.ERROR)


def chain(K: int, stay: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    """States that last for some steps."""
    A = np.full((K, K), (1 - stay) / (K - 1))
    np.fill_diagonal(A, stay)
    return np.full(K, 1.0 / K), A


def rows(K: int, T: int, many: int | None = None) -> dict[str, Any]:
    """Three columns, states one and a half standard deviations apart, and a start that is off."""
    start, A = chain(K)
    means = 1.5 * np.arange(K)[:, None] * np.ones((1, 3))
    truth = GaussianHMM.from_parameters(start, A, means, np.ones((K, 3)), covariance_type="diag")
    X, _ = truth.sample(T, many, random_state=0)
    lengths = None if many is None else [T] * many
    begin = {
        "start": start,
        "A": chain(K, 0.6)[1],
        "means": means + 0.3,
        "covariances": np.repeat(2 * np.eye(3)[None], K, 0),
    }
    return {"X": X if many is None else np.concatenate(X), "lengths": lengths, "kind": "normal", **begin}


def symbols(K: int, T: int, many: int | None = None, M: int = 10) -> dict[str, Any]:
    """Symbols 0, 1, ..., M - 1; each state prefers some."""
    rng = np.random.default_rng(1)
    start, A = chain(K)
    table = rng.dirichlet(np.full(M, 0.5), size=K)
    X, _ = CategoricalHMM.from_parameters(start, A, table).sample(T, many, random_state=0)
    lengths = None if many is None else [T] * many
    begin = {"start": start, "A": chain(K, 0.6)[1], "table": 0.5 * table + 0.5 * rng.dirichlet(np.ones(M), size=K)}
    X = (X if many is None else np.concatenate(X))[:, None]
    return {"X": X, "lengths": lengths, "kind": "symbols", **begin}


def our_model(data: Any, iterations: int = 1) -> Any:
    common = {"max_iter": iterations, "tol": 0.0, "n_jobs": JOBS}
    if data["kind"] == "normal":
        given = (data["start"], data["A"], data["means"], data["covariances"])
        return GaussianHMM.from_parameters(*given, reg_covar=0.0, **common)
    return CategoricalHMM.from_parameters(data["start"], data["A"], data["table"], **common)


def their_model(data: Any, implementation: str, iterations: int = 1) -> Any:
    from hmmlearn import hmm as peer

    K = len(data["start"])
    common = {"n_iter": iterations, "tol": -np.inf, "init_params": "", "implementation": implementation}
    if data["kind"] == "normal":
        model = peer.GaussianHMM(K, covariance_type="full", min_covar=0.0, covars_prior=0.0, **common)
        model.means_, model.covars_ = data["means"], data["covariances"]
    else:
        model = peer.CategoricalHMM(K, **common)
        model.emissionprob_, model.n_features = data["table"], data["table"].shape[1]
    model.startprob_, model.transmat_ = data["start"], data["A"]
    return model


def our_fit(data: Any, iterations: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssayWarning)  # so many iterations and no more
        return our_model(data, iterations).fit(data["X"], lengths=data["lengths"])


def their_fit(data: Any, iterations: int, implementation: str) -> Any:
    return their_model(data, implementation, iterations).fit(data["X"], data["lengths"])


def loss(model: Any, data: Any) -> float:
    """-log P(X) of the training sequences per step, by the model's own parameters."""
    given = [model.startprob_, model.transmat_]
    if data["kind"] == "normal":
        covariances = model.covariances_ if isinstance(model, GaussianHMM) else model.covars_
        judge: Any = GaussianHMM.from_parameters(*given, model.means_, covariances)
    else:
        judge = CategoricalHMM.from_parameters(*given, model.emissionprob_)
    return -judge.score(data["X"], lengths=data["lengths"]) / len(data["X"])


def ready(data: Any) -> Any:
    """The same, with a model of each side that waits to be asked."""
    return {**data, "ours": our_model(data), "theirs": their_model(data, "log")}


def our_path(data: Any) -> np.ndarray:
    return data["ours"].predict(data["X"], lengths=data["lengths"])


def their_path(data: Any) -> np.ndarray:
    return data["theirs"].predict(data["X"], data["lengths"])


def unlikely(path: np.ndarray, data: Any) -> float:
    """-log P(X, path) per step: no path can have a smaller one."""
    joint = data["ours"].log_joint(data["X"], path, lengths=data["lengths"])
    return -float(np.sum(joint)) / len(data["X"])


def em(name: str, data: Any, iterations: int, goal: float, **more: Any) -> Case:
    peers = {
        "hmmlearn": partial(their_fit, iterations=iterations, implementation="log"),
        "hmmlearn, scaling": partial(their_fit, iterations=iterations, implementation="scaling"),
    }
    return Case(
        name,
        data=data,
        ours=partial(our_fit, iterations=iterations),
        peers=peers,
        quality=loss,
        quality_name="-log-likelihood per step",
        goals={"hmmlearn": goal},
        slack=1e-9,
        repeats=3,
        **more,
    )


def viterbi(name: str, data: Any) -> Case:
    return Case(
        name,
        data=lambda: ready(data()),
        ours=our_path,
        peers={"hmmlearn": their_path},
        quality=unlikely,
        quality_name="-log P(X, path) per step",
        goals={"hmmlearn": 5.0},
        slack=1e-9,
        repeats=5,
    )


CASES = [
    em("GaussianHMM, 4 states, one sequence of 20,000 x 3, 20 iterations", lambda: rows(4, 20_000), 20, 8.0, cold=True),
    em("CategoricalHMM, 4 states, one sequence of 20,000, 20 iterations", lambda: symbols(4, 20_000), 20, 8.0),
    em("GaussianHMM, 4 states, 1,000 sequences of 30 x 3, 3 iterations", lambda: rows(4, 30, 1000), 3, 8.0),
    em("CategoricalHMM, 4 states, 1,000 sequences of 30, 10 iterations", lambda: symbols(4, 30, 1000), 10, 8.0),
    em("CategoricalHMM, 50 states, one sequence of 10,000, 3 iterations", lambda: symbols(50, 10_000, M=60), 3, 3.0),
    em("GaussianHMM, 50 states, one sequence of 5,000 x 3, 3 iterations", lambda: rows(50, 5_000), 3, 3.0),
    viterbi("Viterbi, GaussianHMM, 4 states, 20,000 x 3", lambda: rows(4, 20_000)),
    viterbi("Viterbi, CategoricalHMM, 4 states, 20,000", lambda: symbols(4, 20_000)),
    viterbi("Viterbi, CategoricalHMM, 50 states, 20,000", lambda: symbols(50, 20_000, M=60)),
]
