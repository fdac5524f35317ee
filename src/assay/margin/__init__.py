"""Separating margins: kernels, the perceptron and single units, support vector machines (rows B2, B7, B8)."""

from assay.margin import kernels
from assay.margin.perceptron import MistakeTrace, Perceptron
from assay.margin.units import DeltaRule, SigmoidUnit, UnitTrace

__all__ = ["DeltaRule", "MistakeTrace", "Perceptron", "SigmoidUnit", "UnitTrace", "kernels"]
