"""Separating margins: kernels, the perceptron and single units, support vector machines (rows B2, B7, B8)."""

from assay.margin import kernels
from assay.margin._margins import MarginRegions, Margins
from assay.margin._trace import SolverComparison, SolverTrace
from assay.margin.linear_svm import LinearSVC, LinearSVR
from assay.margin.scalings import Scalings, svm_scalings
from assay.margin.svc import SVC
from assay.margin.svc_cv import SVCCV, CGammaMap
from assay.margin.svr import SVR, OneClassSVM

__all__ = [
    "SVC",
    "SVCCV",
    "SVR",
    "CGammaMap",
    "LinearSVC",
    "LinearSVR",
    "MarginRegions",
    "Margins",
    "OneClassSVM",
    "Scalings",
    "SolverComparison",
    "SolverTrace",
    "kernels",
    "svm_scalings",
]
