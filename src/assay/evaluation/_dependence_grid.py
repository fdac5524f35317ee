"""Where partial dependence is asked for: a grid for each column, and which of its points lie where there are rows.

Numbers get quantiles and are supported inside the range of the rows (two numbers: inside their convex hull); categories
get all their levels and are supported where they occur (together).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial import ConvexHull, QhullError

from assay.checks import freeze, whole
from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation._workbench import column_values

__all__ = ["grids_of", "support_of"]

Array = np.ndarray


def grids_of(X: Any, at: tuple[int, ...], names: tuple[str, ...], grid: Any) -> list[tuple[Array, Array, bool]]:
    """The values to set each column to, its deciles (or shares of its categories), and whether it is categorical."""
    if isinstance(grid, int | np.integer) and not isinstance(grid, bool):
        given: list[Any] = [whole(grid, "grid", 2)] * len(at)
    elif len(at) == 1:
        given = [grid]
    else:
        given = list(grid)
        if len(given) != 2:
            raise ParameterError("two columns need two grids", remedy="pass a number, or a list of two arrays")
    return [_grid(column_values(X, j), one, names[j]) for j, one in zip(at, given, strict=True)]


def _grid(values: Any, grid: Any, name: str) -> tuple[Array, Array, bool]:
    column = pd.Series(values)
    numeric = pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)
    column = column.dropna()
    if column.empty:
        raise DataError(f"column {name!r} is empty", remedy="pass another column")
    if not numeric:
        try:
            ordered = (
                column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else sorted(column.unique())
            )
            levels = np.array([level for level in ordered if (column == level).any()], dtype=object)
            if isinstance(grid, int) and pd.api.types.is_datetime64_any_dtype(column.dtype) and len(levels) > grid:
                levels = levels[np.unique(np.linspace(0, len(levels) - 1, grid).round().astype(int))]
        except TypeError as error:
            raise DataTypeError(f"column {name!r} mixes types", remedy="convert it to one type first") from error
        shares = np.array([float((column == level).mean()) for level in levels])
        chosen = levels if isinstance(grid, int) else np.asarray(list(grid), dtype=object)
        if not isinstance(grid, int):
            shares = np.array([float((column == level).mean()) for level in chosen])
        return freeze(chosen), freeze(shares), True
    numbers = column.to_numpy(dtype=float)
    deciles = freeze(np.quantile(numbers, np.linspace(0.1, 0.9, 9)))
    if isinstance(grid, int):
        points = np.unique(numbers)
        if points.size > grid:
            points = np.unique(np.quantile(numbers, np.linspace(0.0, 1.0, grid)))
    else:
        points = np.asarray(grid, dtype=float).ravel()
    if points.size == 0 or not np.isfinite(points).all():
        raise ParameterError(f"the grid of column {name!r} is empty or not finite", remedy="pass finite numbers")
    return freeze(points), deciles, False


def support_of(columns: list[Any], grids: tuple[Array, ...], categorical: tuple[bool, ...]) -> Array:
    """Where the rows have something to say: inside their range, their convex hull, or among their combinations."""
    series = [pd.Series(values) for values in columns]
    if len(grids) == 1:
        if categorical[0]:
            return _among(grids[0], series[0].dropna())
        low, high = float(series[0].min()), float(series[0].max())
        return (grids[0] >= low) & (grids[0] <= high)
    known = series[0].notna() & series[1].notna()
    first, second = (one[known] for one in series)
    if not any(categorical):
        pair = np.column_stack([first.to_numpy(dtype=float), second.to_numpy(dtype=float)])
        return _in_hull(pair, *grids)
    if categorical[0]:
        return _by_category(first, second, *grids, both=categorical[1])
    return _by_category(second, first, grids[1], grids[0], both=False).T


def _by_category(first: Any, second: Any, levels: Array, grid: Array, *, both: bool) -> Array:
    """For each category, which values of the other column lie among (or between) those of its rows."""
    inside = np.zeros((levels.size, grid.size), dtype=bool)
    for k, level in enumerate(levels):
        here = second[(first == level).to_numpy()]
        if len(here) and both:
            inside[k] = _among(grid, here)
        elif len(here):
            inside[k] = (grid >= float(here.min())) & (grid <= float(here.max()))
    return inside


def _among(grid: Array, column: Any) -> Array:
    """Which levels of a grid occur in a column, whatever each of them prints dates and numbers as."""
    return np.array([bool((column == level).any()) for level in grid], dtype=bool)


def _in_hull(points: Array, x: Array, y: Array) -> Array:
    """Which points of the grid lie in the convex hull; rows on one line have their bounding box."""
    scale = np.ptp(points, axis=0)
    low = points.min(axis=0)
    span = np.where(scale > 0, scale, 1.0)
    mesh = np.stack(np.meshgrid((x - low[0]) / span[0], (y - low[1]) / span[1], indexing="ij"), axis=-1)
    try:
        if not (scale > 0).all():
            raise QhullError
        equations = ConvexHull((points - low) / span).equations
    except QhullError:
        reach = np.where(scale > 0, 1.0, 0.0)
        return np.asarray(((mesh >= -1e-9) & (mesh <= reach + 1e-9)).all(axis=-1))
    return np.asarray((mesh @ equations[:, :2].T + equations[:, 2] <= 1e-9).all(axis=-1))
