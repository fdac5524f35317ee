"""The candidates of a search: every point of a grid or random draws, what to call them, and which is simpler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid, ParameterSampler

from assay.checks import choice, whole
from assay.errors import DataTypeError, ParameterError
from assay.evaluation.learner import label_of
from assay.evaluation.select import ranks_of
from assay.numbers import fmt
from assay.numerics.seeds import seed_sequence

__all__ = ["DRAWS", "METHODS", "candidates", "labels", "order", "sampler_seed"]

Array = np.ndarray
Params = dict[str, Any]
METHODS = ("grid", "random")
DRAWS = 20
"""How many candidates a random search draws unless told."""
ONE_PER_PARAMETER = "pass a dict with a list of values for each parameter"


def candidates(estimator: Any, space: Any, method: str, n_candidates: int | None, seed: int) -> list[Params]:
    """Every setting to be tried, in the order of scikit-learn's ParameterGrid or ParameterSampler."""
    choice(method, "method", METHODS)
    if method == "grid" and n_candidates is not None:
        message = f"n_candidates = {n_candidates!r} does not apply to a grid"
        raise ParameterError(message, remedy="leave it out, or choose method='random'")
    parts = _parts(estimator, space, method)
    if method == "grid":
        return list(ParameterGrid(parts))
    n = DRAWS if n_candidates is None else whole(n_candidates, "n_candidates")
    listed = all(not hasattr(values, "rvs") for part in parts for values in part.values())
    if listed and len(ParameterGrid(parts)) <= n:
        return list(ParameterGrid(parts))  # fewer points than draws: each of them once
    return list(ParameterSampler(parts, n, random_state=seed))


def _parts(estimator: Any, space: Any, method: str) -> list[dict[str, Any]]:
    """The space as a list of dicts whose values are lists, or distributions in a random search."""
    if not hasattr(estimator, "get_params") or not hasattr(estimator, "set_params"):
        message = f"{label_of(estimator)} has no get_params and set_params, so its parameters cannot be set"
        raise DataTypeError(message, remedy="derive it from sklearn.base.BaseEstimator")
    parts = [space] if isinstance(space, Mapping) else list(space) if isinstance(space, list | tuple) else []
    if not parts or not all(isinstance(part, Mapping) for part in parts):
        raise ParameterError(f"space = {_say(space)} is not a dict or a list of dicts", remedy=ONE_PER_PARAMETER)
    own = {name.partition("__")[0] for name in estimator.get_params()}
    for part in parts:
        for name, values in part.items():
            if not isinstance(name, str) or name.partition("__")[0] not in own:
                near = get_close_matches(str(name), sorted(estimator.get_params()), n=1)
                guess = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(sorted(own))}"
                raise ParameterError(f"{label_of(estimator)} has no parameter {name!r}", remedy=guess)
            _check_values(name, values, method)
    return [{name: _listed(values) for name, values in part.items()} for part in parts]


def _check_values(name: str, values: Any, method: str) -> None:
    if hasattr(values, "rvs"):
        if method == "grid":
            message = f"{name!r} is a distribution, which a grid search cannot enumerate"
            raise ParameterError(message, remedy="list its values, or use method='random'")
        return
    several = isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping)
    if not several or getattr(values, "ndim", 1) != 1:
        also = " (or a scipy.stats distribution)" if method == "random" else ""
        message = f"expected a list of values for {name!r}{also}, got {_say(values)}"
        raise ParameterError(message, remedy=ONE_PER_PARAMETER)
    if len(_listed(values)) == 0:
        raise ParameterError(f"the list of values for {name!r} is empty", remedy=ONE_PER_PARAMETER)


def _listed(values: Any) -> Any:
    # Plain Python numbers: they print as what was typed, and an estimator meets what a user would pass.
    return values if hasattr(values, "rvs") else values.tolist() if isinstance(values, np.ndarray) else list(values)


def sampler_seed(random_state: Any) -> int:
    """A whole number to seed scikit-learn's sampler and the folds with; one that is given is used as it is."""
    whole_number = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if whole_number and 0 <= random_state < 2**32:
        return int(random_state)
    return int(seed_sequence(random_state).generate_state(1)[0])


def labels(settings: Sequence[Params]) -> list[str]:
    """A name for each candidate, "alpha=0.1, l1_ratio=1", no two alike."""
    names = [", ".join(f"{name}={_say(value)}" for name, value in params.items()) or "as given" for params in settings]
    seen: dict[str, int] = {}
    for at, name in enumerate(names):
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            names[at] = f"{name} ({seen[name]})"
    return names


def _say(value: Any) -> str:
    if isinstance(value, Real) and not isinstance(value, bool | Integral):
        return fmt(float(value))
    if hasattr(value, "get_params"):
        return label_of(value)
    text = " ".join(repr(value).split())
    return text if len(text) <= 40 else f"{text[:37]}..."


def order(simplicity: Any, settings: Sequence[Params], estimator: Any, rule: str) -> tuple[Array, str]:
    """Ranks of simplicity from 1 for each candidate, and in words where they come from."""
    if simplicity is None:
        if rule != "best":
            message = f"rule = {rule!r} needs to know which candidates are simpler"
            raise ParameterError(message, remedy="pass for instance simplicity=('max_depth', 'low'), or a function")
        return np.ones(len(settings), dtype=int), ""
    if callable(simplicity):
        return ranks_of([simplicity(dict(params)) for params in settings]), "the key given"
    pairs = [simplicity] if _is_pair(simplicity) else list(simplicity) if isinstance(simplicity, list | tuple) else []
    if not pairs or not all(_is_pair(pair) for pair in pairs):
        remedy = "pass (parameter, 'low' or 'high'), several of these in a list, or a function of the parameters"
        raise ParameterError(f"simplicity = {simplicity!r} is not a valid order", remedy=remedy)
    keys = [_key_of(name, direction, settings, estimator) for name, direction in pairs]
    text = ", then ".join(f"{direction} {name}" for name, direction in pairs)
    return ranks_of(list(zip(*keys, strict=True))), f"{text} first"


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and isinstance(value[0], str)
        and isinstance(value[1], str)
        and value[1] in ("low", "high")
    )


def _key_of(name: str, direction: str, settings: Sequence[Params], estimator: Any) -> list[float]:
    """Numbers that grow with complexity; None (no limit) is the most complex there is."""
    held = estimator.get_params()
    if name not in held and not any(name in params for params in settings):
        message = f"simplicity names {name!r}, which is not a parameter of {label_of(estimator)}"
        raise ParameterError(message, remedy="use one of the searched parameters")
    keys = []
    for params in settings:
        value = params.get(name, held.get(name))
        if value is not None and not isinstance(value, Real):
            message = f"{name} = {value!r} cannot be ordered"
            raise ParameterError(
                message, remedy="pass simplicity as a function of the parameters that returns a number"
            )
        keys.append(np.inf if value is None else float(value) if direction == "low" else -float(value))
    return keys
