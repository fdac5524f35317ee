"""Separating margins: kernels, the perceptron and single units, support vector machines (rows B2, B7, B8)."""

from assay.margin import kernels
from assay.margin._margins import MarginRegions, Margins
from assay.margin._trace import SolverComparison, SolverTrace
from assay.margin.linear_svm import LinearSVC, LinearSVR
from assay.margin.perceptron import MistakeTrace, Perceptron
from assay.margin.scalings import Scalings, svm_scalings
from assay.margin.svc import SVC
from assay.margin.svc_cv import SVCCV, CGammaMap
from assay.margin.svr import SVR, OneClassSVM
from assay.margin.units import DeltaRule, SigmoidUnit, UnitTrace

__all__ = [
    "SVC",
    "SVCCV",
    "SVR",
    "CGammaMap",
    "DeltaRule",
    "LinearSVC",
    "LinearSVR",
    "MarginRegions",
    "Margins",
    "MistakeTrace",
    "OneClassSVM",
    "Perceptron",
    "Scalings",
    "SigmoidUnit",
    "SolverComparison",
    "SolverTrace",
    "UnitTrace",
    "kernels",
    "svm_scalings",
]
