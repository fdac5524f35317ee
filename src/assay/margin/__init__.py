"""Separating margins: kernels, the perceptron and single units, support vector machines (rows B2, B7, B8)."""

from assay.margin import kernels

__all__ = ["kernels"]
