"""Metrics beside their peers."""
