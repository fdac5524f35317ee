"""Clustering beside its peers."""
