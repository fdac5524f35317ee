"""Kernels, units and support vector machines beside their peers."""
