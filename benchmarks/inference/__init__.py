"""Benchmarks of the inference room."""
