"""What is resampled: a statistic with its data, by the quickest way there is.

Names go to the problems of `_problems` that draw sums or order statistics; any other function, and a quantile of pairs
or strata, is called on chunks of resamples of bounded size (`CallProblem`), and its jackknife costs one call per row.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from assay.checks import fraction, whole
from assay.errors import DataError, ParameterError
from assay.inference._bootstrap import CHUNK_CELLS, chunks, draw_indices
from assay.inference._problems import (
    BootstrapProblem,
    CorrelationProblem,
    Mean,
    OrderProblem,
    Replicates,
    Std,
    SumsProblem,
    Variance,
    describe_plan,
    joined,
)
from assay.numerics.threads import parallel

__all__ = ["CallProblem", "Evaluate", "caller", "make_problem"]

Array = np.ndarray
NAMES = ("mean", "median", "variance", "std", "correlation", "quantile")


Evaluate = Callable[[Sequence[Array]], Array]


class CallProblem(BootstrapProblem):
    """Any function of the resampled samples (or of the resampled table)."""

    def __init__(
        self,
        evaluate: Evaluate,
        name: str,
        samples: Sequence[Array],
        edges: Array | None,
        paired: bool,
        error: Evaluate | int | None,
    ) -> None:
        self.evaluate, self.samples, self.error_rule = evaluate, tuple(samples), error
        self.paired = paired or len(samples) == 1
        self.n = len(samples[0]) if self.paired else tuple(len(x) for x in samples)
        self.estimand = name
        self.words = describe_plan(self.paired and len(samples) > 1, len(samples), edges)
        self.edges = [np.array([0, len(x)]) if edges is None else edges for x in samples]
        self.cells = sum(x.size for x in samples)

    def estimate(self) -> float:
        """The function of the data themselves."""
        value = float(self.evaluate(self._copies())[0])
        if not np.isfinite(value):
            raise DataError(f"the {self.estimand} of the data is {value}", remedy="check the statistic and the data")
        return value

    def error(self) -> float:
        """The rule applied to the data; inner resamples have a fixed seed here."""
        state = np.random.SeedSequence(0).generate_state(1, np.uint64)
        return float(self._errors(self._copies(), state)[0])

    def _copies(self) -> list[Array]:
        """The data as one resample; a function that sorts in place must not reach the caller's array."""
        return [x[None].copy() for x in self.samples]

    def _draw(self, state: Array, size: int) -> list[Array]:
        """Row numbers of `size` resamples, one array per sample; paired samples share theirs."""
        drawn: list[Array] = []
        for x, edges in zip(self.samples, self.edges, strict=True):
            if drawn and self.paired:
                drawn.append(drawn[0])
                continue
            rows = np.empty((size, len(x)), dtype=np.uint32)
            draw_indices(state, edges, rows)
            drawn.append(rows)
        return drawn

    def replicates(self, seeds: np.random.SeedSequence, n_resamples: int, n_jobs: int | None) -> Replicates:
        """Chunk by chunk: draw, gather, call."""

        def run(chunk: tuple[int, int, Array]) -> Replicates:
            start, stop, state = chunk
            resamples = [x[rows] for x, rows in zip(self.samples, self._draw(state, stop - start), strict=True)]
            errors = None if self.error_rule is None else self._errors(resamples, state)
            return self.evaluate(resamples), errors

        return joined(parallel(run, chunks(seeds, n_resamples, self.cells), n_jobs=n_jobs))

    def _errors(self, resamples: list[Array], state: Array) -> Array:
        if callable(self.error_rule):
            return self.error_rule(resamples)
        inner = int(self.error_rule or 0)
        size = max(1, CHUNK_CELLS // self.cells)
        errors = np.empty(len(resamples[0]))
        for b in range(errors.size):
            values = []
            for start in range(0, inner, size):
                drawn = self._draw(state, min(size, inner - start))
                values.append(self.evaluate([x[b][rows] for x, rows in zip(resamples, drawn, strict=True)]))
            errors[b] = np.std(np.concatenate(values), ddof=1)
        return errors

    def left_out(self) -> list[Array]:
        """One call per row (in blocks, where the function takes them)."""
        if self.paired:
            return np.split(self._without(range(len(self.samples))), self.edges[0][1:-1])
        return [self._without([j]) for j in range(len(self.samples))]

    def _without(self, which: Sequence[int]) -> Array:
        n = len(self.samples[which[0]])
        size = max(1, CHUNK_CELLS // self.cells)
        values = []
        for start in range(0, n, size):
            gone = np.arange(start, min(n, start + size))[:, None]
            rows = np.arange(n - 1)[None, :]
            rows = rows + (rows >= gone)
            parts = [
                x[rows] if j in which else np.array(np.broadcast_to(x, (gone.size, *x.shape)))
                for j, x in enumerate(self.samples)
            ]
            values.append(self.evaluate(parts))
        return np.concatenate(values)


def caller(function: Callable[..., Any], vectorised: bool | None, name: str) -> Evaluate:
    """The function on a stack of resamples: at once along the last axis, or one after another."""
    at_once = _takes_axis(function) if vectorised is None else bool(vectorised)
    return partial(_call, function, at_once, name)


def _call(function: Callable[..., Any], at_once: bool, name: str, parts: Sequence[Array]) -> Array:
    size = len(parts[0])
    # A table has no last axis to run along: its resamples are handed over one by one.
    if at_once and parts[0].ndim == 2:
        values = np.asarray(function(*parts, axis=-1), dtype=float)
        if values.shape != (size,):
            what = f"the {name} gave shape {values.shape} for {size} resamples"
            raise ParameterError(what, remedy="reduce the last axis to one number, or pass vectorised=False")
        return values
    out = np.empty(size)
    for b in range(size):
        value = np.asarray(function(*(part[b] for part in parts)))
        if value.size != 1 or value.dtype.kind not in "biuf":
            what = f"the {name} gave {value.dtype} of shape {value.shape}"
            raise ParameterError(what, remedy="return one number per resample")
        out[b] = value.item()
    return out


def _takes_axis(function: Callable[..., Any]) -> bool:
    try:
        return "axis" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


# ------------------------------------------------------------------------------------------ the right kind


_KINDS: dict[str, Any] = {"mean": Mean, "variance": Variance, "std": Std}
_PLAIN: dict[str, Callable[..., Any]] = {
    "mean": np.mean,
    "median": np.median,
    "variance": partial(np.var, ddof=1),
    "std": partial(np.std, ddof=1),
}


class _Difference:
    """A named statistic of one sample, or of the first minus the second; a class so that it pickles."""

    words: ClassVar[dict[str, str]] = {"std": "standard deviation"}

    def __init__(self, name: str, q: float) -> None:
        self.name, self.q = name, q

    def __call__(self, *parts: Array, axis: int = -1) -> Array:
        values = [self._one(part, axis) for part in parts]
        return values[0] - values[1] if len(values) == 2 else values[0]

    def _one(self, part: Array, axis: int) -> Any:
        return np.quantile(part, self.q, axis=axis) if self.name == "quantile" else _PLAIN[self.name](part, axis=axis)


def _correlation(x: Array, y: Array, axis: int = -1) -> Array:
    dx, dy = x - x.mean(axis=axis, keepdims=True), y - y.mean(axis=axis, keepdims=True)
    root = np.sqrt((dx * dx).sum(axis=axis) * (dy * dy).sum(axis=axis))
    return np.where(root > 0, (dx * dy).sum(axis=axis) / np.where(root > 0, root, 1.0), np.nan)


def make_problem(
    statistic: Any,
    samples: tuple[Array, ...],
    paired: bool,
    strata: Any,
    vectorised: bool | None,
    std_error: Any,
    studentised: bool,
) -> BootstrapProblem:
    """Check what belongs together and choose the quickest kind."""
    name, q = _parse(statistic)
    if name is not None:
        samples = _columns(name, samples)
        paired = paired or name == "correlation"
    if paired and len({len(x) for x in samples}) > 1:
        sizes = " and ".join(str(len(x)) for x in samples)
        raise DataError(f"paired samples have {sizes} rows", remedy="pass samples of one length, or paired=False")
    edges, samples = _stratified(strata, samples, paired)
    rule = _error_rule(std_error, vectorised, name, studentised, paired and len(samples) == 2)
    if name is None:
        words = "statistic" if not hasattr(statistic, "__name__") else str(statistic.__name__)
        words = "statistic" if words == "<lambda>" else words
        return CallProblem(caller(statistic, vectorised, "statistic"), words, samples, edges, paired, rule)
    if rule is None and name in _KINDS:
        return SumsProblem(_KINDS[name], samples, edges, paired, studentised)
    if rule is None and name == "correlation":
        return CorrelationProblem(samples, edges)
    if rule is None and edges is None and (len(samples) == 1 or not paired):
        return OrderProblem(q, name if name == "median" else f"{q:g} quantile", samples)
    function: Callable[..., Any] = _correlation if name == "correlation" else _Difference(name, q)
    words = f"{q:g} quantile" if name == "quantile" else _Difference.words.get(name, name)
    words = f"difference of {words}s" if len(samples) == 2 and name != "correlation" else words
    return CallProblem(caller(function, True, name), words, samples, edges, paired, rule)


def _parse(statistic: Any) -> tuple[str | None, float]:
    if isinstance(statistic, tuple) and len(statistic) == 2 and statistic[0] == "quantile":
        return "quantile", fraction(statistic[1], "the quantile", closed=True)
    if callable(statistic):
        return None, 0.5
    if isinstance(statistic, str) and statistic in NAMES and statistic != "quantile":
        return statistic, 0.5
    known = ", ".join(repr(name) for name in NAMES[:-1])
    what = f"unknown statistic = {statistic!r}"
    raise ParameterError(what, remedy=f'choose one of {known}, ("quantile", q), or pass a function')


def _columns(name: str, samples: tuple[Array, ...]) -> tuple[Array, ...]:
    """A table's columns as samples; the number of them that a name can take."""
    if samples[0].ndim == 2:
        samples = tuple(np.ascontiguousarray(column) for column in samples[0].T)
        if len(samples) > 1 and name != "correlation":
            what = f"the {name} is of one column, but the table has {len(samples)}"
            raise DataError(what, remedy="pass one column, or a tuple of two samples for their difference")
    least, most = (2, 2) if name == "correlation" else (1, 2)
    if not least <= len(samples) <= most:
        words = "two columns" if name == "correlation" else "one sample or two"
        raise DataError(f"the {name} takes {words}, not {len(samples)}", remedy="pass a function for anything else")
    if name == "correlation" and len(samples[0]) < 3:
        raise DataError("a correlation of two rows is always 1, -1 or undefined", remedy="pass at least 3 rows")
    return samples


def _stratified(strata: Any, samples: tuple[Array, ...], paired: bool) -> tuple[Array | None, tuple[Array, ...]]:
    """Rows in the order of their strata, and where each stratum begins."""
    if strata is None:
        return None, samples
    if len(samples) > 1 and not paired:
        raise ParameterError(
            "strata apply to the rows of a single sample or of pairs", remedy="pass one sample, or paired=True"
        )
    labels = np.asarray(strata)
    if labels.shape != (len(samples[0]),):
        what = f"strata has shape {labels.shape} but there are {len(samples[0])} rows"
        raise DataError(what, remedy="pass one label per row")
    codes = np.unique(labels.astype(str) if labels.dtype.kind == "O" else labels, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    edges = np.concatenate([[0], np.cumsum(np.bincount(codes))]).astype(np.int64)
    return edges, tuple(np.ascontiguousarray(x[order]) for x in samples)


def _error_rule(std_error: Any, vectorised: bool | None, name: str | None, studentised: bool, paired: bool) -> Any:
    """None where a formula serves (or nothing is asked), a function of stacked resamples, or a number of inner ones."""
    if not studentised:
        if std_error is not None:
            raise ParameterError(
                "std_error is used only for the studentised interval", remedy='pass method="studentised"'
            )
        return None
    if callable(std_error):
        return caller(std_error, vectorised if name is None else None, "std_error")
    if std_error is not None:
        return whole(std_error, "std_error", 2)
    if name in _KINDS and (name == "mean" or not paired):
        return None
    what = (
        "the studentised interval needs the standard error of every resample, and this statistic has no formula for it"
    )
    raise ParameterError(what, remedy="pass std_error as a function, or as a number of inner resamples such as 50")
