"""Neural networks as estimators: tables or images in, classes or numbers out (rows D1 to D4).

    classes   P(y = k | x) = exp(z_k(x)) / sum_l exp(z_l(x));  with one unit for two classes 1 / (1 + exp(-z(x)))
    numbers   f(x) = m + s z(x), with mean m and standard deviation s of the target

z is the output of a feed-forward network (`assay.neural.network`), trained by back-propagation on mini-batches
(`assay.neural.training`). A network without hidden layers is logistic, softmax or linear regression. Inputs are
standardised by column, images by channel.

Cost: about 6 n (number of weights) multiply-adds an epoch for dense layers, in matrix products of single precision.
Memory: the rows once in single precision, and a few times the parameters.

Bishop (2006), chapter 5; Goodfellow, Bengio, Courville (2016).
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags

from assay.base import Constraint, boolean, instance_of, none, one_of
from assay.errors import DataError, ParameterError
from assay.labels import class_codes, class_factors, class_labels
from assay.neural._fitting import NeuralNetwork, center_and_scale
from assay.neural.images import Augmentation
from assay.neural.layers import Layer
from assay.neural.losses import LOSSES, BinaryCrossEntropy, Loss, SoftmaxCrossEntropy, SquaredError
from assay.neural.penalties import Penalty
from assay.neural.results import StepSizes
from assay.state import Specs, classes, floats, need

__all__ = ["NeuralNetworkClassifier", "NeuralNetworkRegressor"]

Array = np.ndarray


class NeuralNetworkClassifier(ClassifierMixin, NeuralNetwork):
    """Feed-forward or convolutional network with a probability for each class.

    `alpha` stands beside the mean loss whatever the batch; scikit-learn's MLP divides it by the rows of the batch, so its
    alpha is ours times that number.

    | parameter           | default         | range                                           | meaning                                                                                 |
    |---------------------|-----------------|-------------------------------------------------|-----------------------------------------------------------------------------------------|
    | hidden              | (64, 32)        | tuple                                           | units of each hidden layer; () for none                                                 |
    | layers              | None            | list of layers                                  | instead of `hidden`; an output layer of the right size is added unless it ends with one |
    | activation          | "relu"          | "tanh", "sigmoid", "identity"                   | of the hidden units                                                                     |
    | image_shape         | None            | (rows, columns, channels)                       | of flat rows that are images                                                            |
    | loss                | "cross_entropy" | "squared"                                       | squared: of sigmoid or softmax outputs and indicators of the classes                    |
    | binary_units        | 1               | 1, 2                                            | output units for two classes: a sigmoid, or two of a softmax                            |
    | class_weight        | None            | "balanced", dict                                | factors of the weights of each class                                                    |
    | alpha               | 1e-4            | from 0 on                                       | ridge: alpha / 2 times the sum of squared weights, beside the mean loss                 |
    | penalty             | None            | `Penalty`                                       | another penalty beside it: lasso, all parameters, on sums                               |
    | dropout             | 0.0             | [0, 1)                                          | of hidden units                                                                         |
    | input_dropout       | 0.0             | [0, 1)                                          | of inputs                                                                               |
    | optimizer           | "adam"          | "adamw", "sgd", "gradient_descent", `Optimizer` | how gradients become steps                                                              |
    | learning_rate       | 1e-3            | above 0                                         | step size; `find_learning_rate` suggests one                                            |
    | schedule            | "constant"      | "decay", "cosine", "plateau", `Schedule`        | step size by epoch                                                                      |
    | clip                | None            | above 0                                         | longest gradient; longer ones are shortened                                             |
    | batch_size          | "auto"          | from 1 on, "full"                               | rows per update; "auto": all up to 128, then about n / 64, from 32 to 256               |
    | sampling            | "epoch"         | "replacement"                                   | each row once an epoch, or draws with replacement                                       |
    | max_epochs          | "auto"          | from 1 on                                       | "auto": for 3,000 updates, at least 50                                                  |
    | tol                 | 1e-4            | from 0 on                                       | what counts as an improvement of the loss                                               |
    | patience            | 10              | from 1 on                                       | epochs without one before training stops                                                |
    | early_stopping      | False           | True, False                                     | hold rows out, and keep the weights best on them                                        |
    | validation_fraction | 0.1             | (0, 1)                                          | share of rows held out                                                                  |
    | n_starts            | 1               | from 1 on                                       | initial weights tried; the best by (held-out) loss is kept                              |
    | standardize         | True            | True, False                                     | inputs to mean 0 and standard deviation 1, images by channel                            |
    | augment             | None            | `Augmentation`                                  | images changed a little in training                                                     |
    | initialisation      | "auto"          | "glorot", "he"                                  | of the weights; "auto": He's before ReLU, else Glorot's                                 |
    | dtype               | "float32"       | "float64"                                       | precision of training                                                                   |
    | warm_start          | False           | True, False                                     | `fit` goes on from the weights it has, if columns, classes and layers are the same      |
    | checkpoint          | None            | path                                            | a file renewed after every epoch; the same `fit` goes on from it after a kill           |
    | random_state        | None            | seed                                            | of weights, batches, dropout and the held-out part                                      |
    | n_jobs              | None            | threads                                         | never changes a result                                                                  |

    Fitted: `classes_`, `network_` (a `Network`: `summary()`), `trace_` (a `TrainingTrace`: `plot()`), `starts_` (loss of
    each start), `n_iter_` (epochs), `n_features_in_`, `feature_names_in_`. `filters()` and `feature_maps(X)` show what was
    learned. X is a table, or images of shape (n, rows, columns, channels).

    Rumelhart, Hinton, Williams (1986), Nature 323, 533-536; LeCun et al. (1998), Proc. IEEE 86, 2278-2324.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NeuralNetworkClassifier(hidden=(8,), learning_rate=0.01, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95, model.network_.n_parameters
    (True, 67)
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        **NeuralNetwork.constraints,
        "loss": one_of("cross_entropy", "squared"),
        "binary_units": one_of(1, 2),
        "class_weight": none | one_of("balanced") | instance_of(dict, "a dict of factors by class"),
    }
    state: ClassVar[Specs] = {"classes_": classes("k")}

    def __init__(
        self,
        hidden: Any = (64, 32),
        *,
        layers: Any = None,
        activation: str = "relu",
        image_shape: Any = None,
        loss: Any = "cross_entropy",
        binary_units: int = 1,
        class_weight: Any = None,
        alpha: float = 1e-4,
        penalty: Penalty | None = None,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        optimizer: Any = "adam",
        learning_rate: float = 1e-3,
        schedule: Any = "constant",
        clip: float | None = None,
        batch_size: Any = "auto",
        sampling: str = "epoch",
        max_epochs: Any = "auto",
        tol: float = 1e-4,
        patience: int = 10,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_starts: int = 1,
        standardize: bool = True,
        augment: Augmentation | None = None,
        initialisation: str = "auto",
        dtype: str = "float32",
        warm_start: bool = False,
        checkpoint: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.hidden = hidden
        self.layers = layers
        self.activation = activation
        self.image_shape = image_shape
        self.loss = loss
        self.binary_units = binary_units
        self.class_weight = class_weight
        self.alpha = alpha
        self.penalty = penalty
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.clip = clip
        self.batch_size = batch_size
        self.sampling = sampling
        self.max_epochs = max_epochs
        self.tol = tol
        self.patience = patience
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_starts = n_starts
        self.standardize = standardize
        self.augment = augment
        self.initialisation = initialisation
        self.dtype = dtype
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_state(self) -> None:
        super()._check_state()
        need(self.network_.output_shape == (self._units(),), "the network has the wrong number of outputs")

    def _units(self) -> int:
        return int(self.binary_units) if self.classes_.size == 2 else int(self.classes_.size)

    def _loss(self) -> Loss:
        if self.loss == "squared":
            return SquaredError()
        return BinaryCrossEntropy() if self._units() == 1 else SoftmaxCrossEntropy()

    def _design(self) -> tuple[list[Layer], Loss]:
        loss = self._loss()
        return self._layers(self._units(), loss, "sigmoid" if self._units() == 1 else "softmax"), loss

    def _target(self, codes: Array) -> Array:
        """Class numbers, a column of 0 and 1, or indicators, as the loss takes them."""
        if self.loss == "squared" and self._units() > 1:
            return np.eye(self.classes_.size)[codes]
        return codes[:, None].astype(np.float64)

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Any, Array, Array | None]:
        """Rows, their shape, class numbers and weights; rows without weight are left out."""
        flat, images = self._flat(X, reset=True)
        rows = self._validate(flat, dtype=[np.float64, np.float32])
        w = self._weights(sample_weight, len(rows))
        self.classes_, codes = class_codes(y, len(rows), w)
        if self.class_weight is not None:
            factors = class_factors(self.class_weight, self.classes_, codes, w)
            w = factors[codes] if w is None else w * factors[codes]
        if w is not None and not w.all():
            rows, codes, w = rows[w > 0], codes[w > 0], w[w > 0]
        return rows, self._shape_of(images, rows.shape[1]), codes, w

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the network; rows of weight 0 are as if they were not there."""
        known = self.classes_ if self.warm_start and hasattr(self, "network_") else None
        rows, shape, codes, w = self._prepare(X, y, sample_weight)
        goes_on = known is not None and np.array_equal(known, self.classes_) and self._mean.size == rows.shape[1]
        if not goes_on:
            self._standardize(rows, shape)
        layers, loss = self._design()
        self._train(rows, shape, self._target(codes), w, layers, loss, codes, goes_on)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One epoch on these rows; the first call fixes classes (all of them, in `classes`) and standardisation."""
        first = not hasattr(self, "network_")
        flat, images = self._flat(X, reset=first)
        rows = self._validate(flat, reset=first, dtype=[np.float64, np.float32])
        w = self._weights(sample_weight, len(rows))
        labels = class_labels(y, len(rows))
        if first:
            self.classes_ = np.unique(labels if classes is None else np.asarray(classes))
            if self.classes_.size < 2:
                what = f"there is only one class, {self.classes_.tolist()[0]!r}"
                raise DataError(what, remedy="pass all classes in the first call: partial_fit(X, y, classes=[...])")
            self._standardize(rows, self._shape_of(images, rows.shape[1]))
        strange = np.setdiff1d(labels, self.classes_)
        if strange.size:
            what = f"y contains the class {strange.tolist()[0]!r}, which was not passed in the first call"
            raise DataError(what, remedy="pass all classes in the first call: partial_fit(X, y, classes=[...])")
        codes = np.searchsorted(self.classes_, labels)
        if self.class_weight is not None:
            if self.class_weight == "balanced":
                raise ParameterError("'balanced' needs all rows at once", remedy="pass class_weight as a dict")
            factors = class_factors(self.class_weight, self.classes_, codes)
            w = factors[codes] if w is None else w * factors[codes]
        layers, loss = self._design()
        self._one_epoch(rows, images, self._target(codes), w, layers, loss)
        return self

    def find_learning_rate(
        self, X: Any, y: Any, sample_weight: Any = None, *, low: float = 1e-6, high: float = 10.0, steps: int = 100
    ) -> StepSizes:
        """Losses of `steps` updates with step sizes from `low` to `high`; nothing of the estimator is changed."""
        twin = type(self)(**self.get_params())
        rows, shape, codes, w = twin._prepare(X, y, sample_weight)
        twin._standardize(rows, shape)
        layers, loss = twin._design()
        return twin._find(rows, twin._target(codes), w, layers, loss, (low, high, steps, shape))

    def predict(self, X: Any) -> Array:
        """The class with the largest probability."""
        shares = self.predict_proba(X)
        return self.classes_[np.argmax(shares, axis=1)]

    def predict_proba(self, X: Any) -> Array:
        """A probability for each class, in the order of `classes_`."""
        z = self._outputs(X)
        p = self._loss().predict(z)
        if p.shape[1] == 1:
            return np.hstack([1.0 - p, p])
        total = p.sum(axis=1, keepdims=True)
        return np.divide(p, total, out=np.full_like(p, 1.0 / p.shape[1]), where=total > 0)

    def predict_log_proba(self, X: Any) -> Array:
        """Their logarithms."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class NeuralNetworkRegressor(RegressorMixin, NeuralNetwork):
    """Feed-forward or convolutional network with one output for each column of the target.

    `alpha` stands beside the mean loss whatever the batch; scikit-learn's MLP divides it by the rows of the batch, so its
    alpha is ours times that number.

    | parameter           | default    | range                                           | meaning                                                                                 |
    |---------------------|------------|-------------------------------------------------|-----------------------------------------------------------------------------------------|
    | hidden              | (64, 32)   | tuple                                           | units of each hidden layer; () for none                                                 |
    | layers              | None       | list of layers                                  | instead of `hidden`; an output layer of the right size is added unless it ends with one |
    | activation          | "relu"     | "tanh", "sigmoid", "identity"                   | of the hidden units                                                                     |
    | image_shape         | None       | (rows, columns, channels)                       | of flat rows that are images                                                            |
    | loss                | "squared"  | "absolute", "huber", `Loss`                     | in standard deviations of the target                                                    |
    | alpha               | 1e-4       | from 0 on                                       | ridge: alpha / 2 times the sum of squared weights, beside the mean loss                 |
    | penalty             | None       | `Penalty`                                       | another penalty beside it: lasso, all parameters, on sums                               |
    | dropout             | 0.0        | [0, 1)                                          | of hidden units                                                                         |
    | input_dropout       | 0.0        | [0, 1)                                          | of inputs                                                                               |
    | optimizer           | "adam"     | "adamw", "sgd", "gradient_descent", `Optimizer` | how gradients become steps                                                              |
    | learning_rate       | 1e-3       | above 0                                         | step size; `find_learning_rate` suggests one                                            |
    | schedule            | "constant" | "decay", "cosine", "plateau", `Schedule`        | step size by epoch                                                                      |
    | clip                | None       | above 0                                         | longest gradient; longer ones are shortened                                             |
    | batch_size          | "auto"     | from 1 on, "full"                               | rows per update; "auto": all up to 128, then about n / 64, from 32 to 256               |
    | sampling            | "epoch"    | "replacement"                                   | each row once an epoch, or draws with replacement                                       |
    | max_epochs          | "auto"     | from 1 on                                       | "auto": for 3,000 updates, at least 50                                                  |
    | tol                 | 1e-4       | from 0 on                                       | what counts as an improvement of the loss                                               |
    | patience            | 10         | from 1 on                                       | epochs without one before training stops                                                |
    | early_stopping      | False      | True, False                                     | hold rows out, and keep the weights best on them                                        |
    | validation_fraction | 0.1        | (0, 1)                                          | share of rows held out                                                                  |
    | n_starts            | 1          | from 1 on                                       | initial weights tried; the best by (held-out) loss is kept                              |
    | standardize         | True       | True, False                                     | inputs and target to mean 0 and standard deviation 1, images by channel                 |
    | augment             | None       | `Augmentation`                                  | images changed a little in training                                                     |
    | initialisation      | "auto"     | "glorot", "he"                                  | of the weights; "auto": He's before ReLU, else Glorot's                                 |
    | dtype               | "float32"  | "float64"                                       | precision of training                                                                   |
    | warm_start          | False      | True, False                                     | `fit` goes on from the weights it has, if columns, classes and layers are the same      |
    | checkpoint          | None       | path                                            | a file renewed after every epoch; the same `fit` goes on from it after a kill           |
    | random_state        | None       | seed                                            | of weights, batches, dropout and the held-out part                                      |
    | n_jobs              | None       | threads                                         | never changes a result                                                                  |

    Fitted: `network_` (a `Network`: `summary()`), `trace_` (a `TrainingTrace`: `plot()`), `starts_` (loss of each start), `n_iter_`
    (epochs), `n_features_in_`, `feature_names_in_`. Losses are those of the standardised target. Columns of y share the
    hidden units. X is a table, or images of shape (n, rows, columns, channels).

    Rumelhart, Hinton, Williams (1986), Nature 323, 533-536.

    >>> X = np.linspace(-3, 3, 100)[:, None]
    >>> model = NeuralNetworkRegressor(hidden=(32,), learning_rate=0.01, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> model.score(X, np.sin(X[:, 0])) > 0.99
    True
    >>> model.trace_.updates_per_epoch
    1
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        **NeuralNetwork.constraints,
        "loss": one_of("squared", "absolute", "huber") | instance_of(Loss, "a loss"),
    }
    state: ClassVar[Specs] = {"_target_mean": floats("t"), "_target_scale": floats("t", low=0), "_one_column": boolean}

    def __init__(
        self,
        hidden: Any = (64, 32),
        *,
        layers: Any = None,
        activation: str = "relu",
        image_shape: Any = None,
        loss: Any = "squared",
        alpha: float = 1e-4,
        penalty: Penalty | None = None,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        optimizer: Any = "adam",
        learning_rate: float = 1e-3,
        schedule: Any = "constant",
        clip: float | None = None,
        batch_size: Any = "auto",
        sampling: str = "epoch",
        max_epochs: Any = "auto",
        tol: float = 1e-4,
        patience: int = 10,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_starts: int = 1,
        standardize: bool = True,
        augment: Augmentation | None = None,
        initialisation: str = "auto",
        dtype: str = "float32",
        warm_start: bool = False,
        checkpoint: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.hidden = hidden
        self.layers = layers
        self.activation = activation
        self.image_shape = image_shape
        self.loss = loss
        self.alpha = alpha
        self.penalty = penalty
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.clip = clip
        self.batch_size = batch_size
        self.sampling = sampling
        self.max_epochs = max_epochs
        self.tol = tol
        self.patience = patience
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_starts = n_starts
        self.standardize = standardize
        self.augment = augment
        self.initialisation = initialisation
        self.dtype = dtype
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_state(self) -> None:
        super()._check_state()
        columns = self._target_mean.size
        need(self.network_.output_shape == (columns,), "the network has the wrong number of outputs")
        need(columns == 1 or not self._one_column)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _design(self) -> tuple[list[Layer], Loss]:
        loss = LOSSES[self.loss] if isinstance(self.loss, str) else self.loss
        if loss.fused != "identity":
            raise ParameterError(f"loss = {loss!r} is for classes", remedy='use "squared", "absolute" or "huber"')
        return self._layers(self._target_mean.size, loss, "identity"), loss

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any, reset: bool = True
    ) -> tuple[Array, Any, Array, Array | None]:
        """Rows, the shape of images, the target as columns, and weights; rows without weight are left out."""
        flat, images = self._flat(X, reset=reset)
        rows, target = self._validate(flat, y, reset=reset, dtype=[np.float64, np.float32], multi_output=True)
        w = self._weights(sample_weight, len(rows))
        self._one_column = target.ndim == 1
        target = target.reshape(len(rows), -1)
        if w is not None and not w.all():
            rows, target, w = rows[w > 0], target[w > 0], w[w > 0]
        return rows, images, target, w

    def _standardize_target(self, target: Array) -> None:
        """The target's mean and standard deviation; a constant target is predicted by its mean alone."""
        columns = target.shape[1]
        self._target_mean, self._target_scale = np.zeros(columns), np.ones(columns)
        if self.standardize:
            self._target_mean, self._target_scale = center_and_scale(target)

    def _standardized(self, target: Array) -> Array:
        return (target - self._target_mean) / np.where(self._target_scale > 0, self._target_scale, 1.0)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the network; rows of weight 0 are as if they were not there."""
        known = self._mean.size if self.warm_start and hasattr(self, "network_") else None
        rows, images, target, w = self._prepare(X, y, sample_weight)
        shape = self._shape_of(images, rows.shape[1])
        goes_on = known == rows.shape[1] and self._target_mean.size == target.shape[1]
        if not goes_on:
            self._standardize(rows, shape)
            self._standardize_target(target)
        layers, loss = self._design()
        strata = np.zeros(len(rows), dtype=np.int64)
        self._train(rows, shape, self._standardized(target), w, layers, loss, strata, goes_on)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One epoch on these rows; the first call fixes the standardisation, so let it see rows like the rest."""
        first = not hasattr(self, "network_")
        rows, images, target, w = self._prepare(X, y, sample_weight, reset=first)
        if first:
            self._standardize(rows, self._shape_of(images, rows.shape[1]))
            self._standardize_target(target)
        if target.shape[1] != self._target_mean.size:
            what = f"y has {target.shape[1]} columns, but the first call had {self._target_mean.size}"
            raise DataError(what, remedy="pass the same columns")
        layers, loss = self._design()
        self._one_epoch(rows, images, self._standardized(target), w, layers, loss)
        return self

    def find_learning_rate(
        self, X: Any, y: Any, sample_weight: Any = None, *, low: float = 1e-6, high: float = 10.0, steps: int = 100
    ) -> StepSizes:
        """Losses of `steps` updates with step sizes from `low` to `high`; nothing of the estimator is changed."""
        twin = type(self)(**self.get_params())
        rows, images, target, w = twin._prepare(X, y, sample_weight)
        shape = twin._shape_of(images, rows.shape[1])
        twin._standardize(rows, shape)
        twin._standardize_target(target)
        layers, loss = twin._design()
        return twin._find(rows, twin._standardized(target), w, layers, loss, (low, high, steps, shape))

    def predict(self, X: Any) -> Array:
        """f(x), one number for each column of the target."""
        z = self._outputs(X)
        with np.errstate(over="ignore"):
            out = self._target_mean + self._target_scale * z
        return out[:, 0] if self._one_column else out
