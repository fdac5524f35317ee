"""Hidden variables: Gaussian mixtures, Markov chains and hidden Markov models (rows E3, E4)."""

__all__: list[str] = []
