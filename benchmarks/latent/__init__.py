"""Mixtures and hidden Markov models beside their peers."""
