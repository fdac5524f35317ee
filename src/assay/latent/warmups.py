"""What this family compiles."""

from __future__ import annotations

from assay.latent import CategoricalHMM, GaussianHMM, GaussianMixture, PoissonHMM
from assay.numerics.warmup import Warmup, small_table

__all__ = ["WARMUPS"]


def _mixtures() -> None:
    X, _ = small_table()
    for kind in ("full", "diag"):
        GaussianMixture(2, covariance_type=kind, random_state=0).fit(X).predict(X)


def _hidden_states() -> None:
    X, _ = small_table()
    letters = CategoricalHMM(2, random_state=0).fit("abbabcabbbaaabcbab")
    letters.predict("abba")
    letters.sample(2)
    for kind in ("full", "diag"):
        GaussianHMM(2, covariance_type=kind, random_state=0).fit(X).predict(X)
    PoissonHMM(2, random_state=0).fit(abs(X).round()).predict_proba(abs(X).round())


WARMUPS: tuple[Warmup, ...] = (
    Warmup("hidden Markov models", _hidden_states),
    Warmup("GaussianMixture", _mixtures),
)
