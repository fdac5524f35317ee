"""Separating margins: kernels, the perceptron and single units, support vector machines (rows B2, B7, B8)."""

__all__: list[str] = []
