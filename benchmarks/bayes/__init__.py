"""Bayesian models beside their peers."""
