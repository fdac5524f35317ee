"""Kernels, the perceptron and support vector machines beside their peers."""
