"""Calibration beside its peers."""
