"""Neural networks: layers, convolution, back-propagation, penalties, early stopping and dropout (rows D1 to D4)."""

from assay.neural.convolution import Conv2D, GlobalMeanPool, MaxPool, MeanPool, MinPool, convolve, pool
from assay.neural.estimators import NeuralNetworkClassifier, NeuralNetworkRegressor
from assay.neural.images import Augmentation
from assay.neural.layers import Activation, BatchNormalization, Dense, Dropout, Flatten, Layer, Parameter, Residual
from assay.neural.losses import AbsoluteError, BinaryCrossEntropy, Huber, Loss, SoftmaxCrossEntropy, SquaredError
from assay.neural.network import Network
from assay.neural.optimizers import (
    SGD,
    Adam,
    AdamW,
    Constant,
    Cosine,
    Decay,
    GradientDescent,
    Optimizer,
    ReduceOnPlateau,
    Schedule,
)
from assay.neural.penalties import Penalty
from assay.neural.results import FeatureMaps, Filters, GradientCheck, NetworkSummary, StepSizes, TrainingTrace

__all__ = [
    "SGD",
    "AbsoluteError",
    "Activation",
    "Adam",
    "AdamW",
    "Augmentation",
    "BatchNormalization",
    "BinaryCrossEntropy",
    "Constant",
    "Conv2D",
    "Cosine",
    "Decay",
    "Dense",
    "Dropout",
    "FeatureMaps",
    "Filters",
    "Flatten",
    "GlobalMeanPool",
    "GradientCheck",
    "GradientDescent",
    "Huber",
    "Layer",
    "Loss",
    "MaxPool",
    "MeanPool",
    "MinPool",
    "Network",
    "NetworkSummary",
    "NeuralNetworkClassifier",
    "NeuralNetworkRegressor",
    "Optimizer",
    "Parameter",
    "Penalty",
    "ReduceOnPlateau",
    "Residual",
    "Schedule",
    "SoftmaxCrossEntropy",
    "SquaredError",
    "StepSizes",
    "TrainingTrace",
    "convolve",
    "pool",
]
