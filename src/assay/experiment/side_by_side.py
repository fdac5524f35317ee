"""Studies side by side, from what the ledger holds of them: plans, picks, figures of the test sets, and whether figures
may be compared at all.

Two test figures are comparable only if they are of the same metric, target and rows; otherwise a difference may come
from the rows and not from the learners, and `warnings` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from assay.errors import DataError, ParameterError
from assay.experiment.wording import called, figure
from assay.results import Result
from assay.words import listed

__all__ = ["SideBySide", "side_by_side"]

COMPARABLE = {"rows": "rows", "target": "targets", "metric": "metrics", "test rows": "test rows"}
"""What must agree for figures to be compared, and its plural."""


@dataclass(frozen=True, eq=False, repr=False)
class SideBySide(Result):
    """Studies beside each other.

    | field       | meaning                                                                                  |
    |-------------|------------------------------------------------------------------------------------------|
    | studies     | their names                                                                              |
    | facts       | fact -> its value in each study: task, target, metric, rows, looks, selected             |
    | figures     | metric -> (estimate, lower, upper) of each study's test set, None where there is none    |
    | outer       | the same of the outer folds of studies without a test set                                |
    | differences | entry of the plan -> its values, where they are not the same                             |
    | warnings    | codes of what keeps figures from being compared: "rows", "target", "metric", "test rows" |
    """

    studies: tuple[str, ...]
    facts: dict[str, tuple[Any, ...]]
    figures: dict[str, tuple[tuple[float, float | None, float | None] | None, ...]]
    outer: dict[str, tuple[tuple[float, float | None, float | None] | None, ...]]
    differences: dict[str, tuple[Any, ...]]
    warnings: tuple[str, ...]

    def to_frame(self) -> pd.DataFrame:
        """One column per study; facts, figures with their limits, and what differs in the plans."""
        rows: dict[str, list[Any]] = {name: list(values) for name, values in self.facts.items()}
        for part, figures in (("test", self.figures), ("outer folds", self.outer)):
            for metric, values in figures.items():
                rows[f"{part} {called(metric, short=True)}"] = [_figure(metric, value) for value in values]
        rows |= {f"plan: {name}": list(values) for name, values in self.differences.items()}
        return pd.DataFrame.from_dict(rows, orient="index", columns=list(self.studies), dtype=object)

    def caution(self) -> str | None:
        """Why figures must not be compared; None where they may be."""
        if not self.warnings:
            return None
        differ = listed([COMPARABLE[code] for code in self.warnings], len(self.warnings))
        return f"the figures are not comparable, because the studies have different {differ}".replace("'", "")

    def __str__(self) -> str:
        caution = self.caution()
        return "\n".join([self.to_frame().to_string(), *([] if caution is None else [f"Warning: {caution}"])])


def _figure(metric: str, value: tuple[float, float | None, float | None] | None) -> str:
    if value is None:
        return ""
    estimate, lower, upper = value
    if lower is None or upper is None:
        return figure(metric, estimate)
    ends = (figure(metric, end, lower, upper) for end in (lower, upper))
    return f"{figure(metric, estimate, lower, upper)} [{', '.join(ends)}]"


def side_by_side(ledger: Any, names: Sequence[str]) -> SideBySide:
    """The studies with these names beside each other.

    | parameter | range                    | meaning                             |
    |-----------|--------------------------|-------------------------------------|
    | ledger    | a Ledger                 | where they are recorded             |
    | names     | two or more, all different | the studies                       |
    """
    if len(names) < 2 or len(set(names)) < len(names):
        raise ParameterError("expected two or more different studies", remedy="list them with: assay history")
    bodies, results, looks = [], [], []
    for name in names:
        begun = ledger.entries("study", name)
        if not begun:
            raise DataError(f"unknown study {name!r}", remedy="list the studies with: assay history")
        bodies.append(begun[0].body)
        found = ledger.entries("result", name)
        results.append(found[-1].body if found else {})
        looks.append(len(ledger.entries("look", name)))
    plans = [body["plan"] for body in bodies]
    facts: dict[str, tuple[Any, ...]] = {
        "task": tuple(plan.get("task") for plan in plans),
        "target": tuple(plan.get("target") for plan in plans),
        "metric": tuple(plan.get("metric") for plan in plans),
        "training rows": tuple(body["n_train"] for body in bodies),
        "test rows": tuple(body["n_test"] for body in bodies),
        "looks": tuple(
            count or ("sealed" if body["n_test"] else "none") for count, body in zip(looks, bodies, strict=True)
        ),
        "selected": tuple(result.get("selected") or "unfinished" for result in results),
        "version": tuple(body.get("version") for body in bodies),
    }
    test, outer = (_figures(plans, results, part) for part in ("test", "outer"))
    return SideBySide(tuple(names), facts, test, outer, _differences(plans), _warnings(bodies))


def _figures(plans: list[Any], results: list[Any], part: str) -> dict[str, Any]:
    """Figures of every metric that any study has, the metrics that studies were planned by first."""
    metrics = dict.fromkeys(plan["metric"] for plan in plans)
    metrics |= dict.fromkeys(metric for result in results for metric in result.get(part) or {})
    figures = {metric: tuple(_limits(result, metric, part) for result in results) for metric in metrics}
    return {metric: values for metric, values in figures.items() if any(values)}


def _limits(result: Any, metric: str, part: str) -> tuple[float, float | None, float | None] | None:
    """A figure with its limits; studies of earlier versions recorded none, and a Ladder's answer has no figure."""
    estimate = (result.get(part) or {}).get(metric)
    if estimate is None:
        return None
    lower, upper = (result.get("limits") or {}).get(metric) or (None, None)
    return estimate, lower, upper


def _differences(plans: list[Any]) -> dict[str, tuple[Any, ...]]:
    """Entries of the plans that are not the same; an entry that an earlier version did not have is None."""
    names = [name for plan in plans for name in plan if name not in ("source", "target", "task", "metric")]
    found = {name: tuple(plan.get(name) for plan in plans) for name in dict.fromkeys(names)}
    return {name: values for name, values in found.items() if any(value != values[0] for value in values)}


def _warnings(bodies: list[Any]) -> tuple[str, ...]:
    keys = {
        "rows": [body["rows"] for body in bodies],
        "target": [body["plan"]["target"] for body in bodies],
        "metric": [body["plan"]["metric"] for body in bodies],
        "test rows": [body["vault"] for body in bodies],
    }
    differing = [code for code, values in keys.items() if len(set(values)) > 1]
    return tuple(code for code in differing if code != "test rows" or "rows" not in differing)
