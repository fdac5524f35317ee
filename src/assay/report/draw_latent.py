"""Pictures of mixtures and hidden Markov models."""
