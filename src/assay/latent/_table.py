"""The gate of a table whose missing cells (NaN, None, pd.NA) are part of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from assay.base import ENCODE, Estimator, refuse_not_finite
from assay.levels import as_frame, as_numbers

__all__ = ["Gapped"]

Array = np.ndarray


class Gapped(Estimator):
    """An estimator that takes missing cells as they come."""

    def _table(self, X: Any, *, reset: bool) -> Array:
        """X as float64, NaN where a cell is missing; infinities and text are refused."""
        if reset:
            self._check_parameters()
        else:
            check_is_fitted(self)
        if hasattr(X, "to_pandas"):  # polars, pyarrow
            X = X.to_pandas()
        frame = as_frame(X, plain="biuf")
        if frame is None:
            values = self._validate(X, reset=reset, finite=False)
        else:
            self._match_columns(X if isinstance(X, pd.DataFrame) else frame.to_numpy(), reset=reset)
            if frame.shape[1] == 0 or len(frame) == 0:
                self._validate(np.empty(frame.shape), reset=reset)  # which says what is missing
            named = [f"column {name!r}" for name in frame.columns]  # a number without names
            values = np.column_stack(
                [as_numbers(frame.iloc[:, j], where, remedy=ENCODE) for j, where in enumerate(named)]
            )
        missing = np.isnan(values)
        names = list(getattr(self, "feature_names_in_", ())) or None
        refuse_not_finite(np.where(missing, 0.0, values) if missing.any() else values, names)
        return values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
