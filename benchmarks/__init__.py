"""Assay beside its peers: `python -m benchmarks [family]`."""
