"""Names of metrics and numbers for readers who know no statistics: shares as percentages, metrics by meaning."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from typing import Any

from assay import numbers
from assay.metrics.definition import PERCENT
from assay.metrics.tails import loss_words

__all__ = [
    "FEW_ROWS",
    "MEANING",
    "amount",
    "apart",
    "called",
    "decision",
    "figure",
    "limits",
    "missing_cells",
    "released",
    "roughly",
    "tail_notes",
    "threshold",
    "with_unit",
]

CALLED = {
    "rmse": "typical error (rmse)",
    "mae": "average error (mae)",
    "mse": "mean squared error (mse)",
    "median_absolute_error": "median error",
    "p90_absolute_error": "error not exceeded by 90% of rows (p90)",
    "r2": "share of variance explained (r2)",
    "error": "error rate",
    "risk": "mean cost of a decision (risk)",
    "accuracy": "share of correct predictions (accuracy)",
    "balanced_accuracy": "balanced accuracy",
    "auc": "ranking quality (auc)",
    "log_loss": "log loss",
    "brier": "Brier score",
}
MEANING = {
    "rmse": "typical size of the error, in the unit of the target; large errors count more",
    "mae": "average size of the error, in the unit of the target",
    "mse": "the mean of the squared errors",
    "median_absolute_error": "half of the errors are smaller; its interval holds for any distribution of errors",
    "p90_absolute_error": "90% of the errors are smaller; its interval holds for any distribution of errors",
    "r2": "share of the target's variance that the predictions explain; 0 is as good as the mean, 1 is perfect",
    "error": "the share of wrong predictions",
    "risk": "what the decisions cost on average, by the costs of the plan",
    "accuracy": "the share of correct predictions",
    "balanced_accuracy": "the share of correct predictions, every class counting the same however rare it is",
    "auc": "how often a row of the class is ranked above a row of another class; 0.5 is chance, 1 is perfect",
    "log_loss": "mean negative log probability of the true class; 0 is perfect",
    "brier": "mean squared error of the predicted probabilities; 0 is perfect",
}
"""What a metric measures, for `--explain`."""


def called(metric: str, short: bool = False) -> str:
    """What a metric is called in a sentence; `short` leaves out what stands in brackets.

    >>> called("rmse"), called("auc", short=True), called("pinball")
    ('typical error (rmse)', 'auc', 'pinball')
    """
    plain = "error rate" if metric == "error" else metric.replace("_", " ")
    return plain if short else CALLED.get(metric, plain)


def threshold(model: Any, plan: Any) -> str:
    """Where a study's classifier decides, in a sentence; empty where it decides by the greatest probability.

    >>> threshold(None, None)
    ''
    """
    rule = decision(model)
    if not rule:
        return ""
    why = (
        f"missing one costs {plan.cost['missed']:g}, a false alarm {plan.cost['false']:g}"
        if plan.cost
        else f"for a {plan.rate[0]} of {plan.rate[1]:g}"
    )
    return f"A {rule}, a threshold chosen on inner folds ({why})."


def decision(model: Any) -> str:
    """From which probability a model predicts its positive class; empty where it decides by the greatest one.

    >>> decision(None)
    ''
    """
    at = getattr(model, "threshold_", None)
    return "" if at is None else f"row is predicted as {model.positive_!r} if its probability is at least {at:.3g}"


def figure(metric: str, value: Any, lower: Any = math.nan, upper: Any = math.nan) -> str:
    """A figure of a metric to the precision of its interval, a percentage where people read it so.

    >>> figure("error", 0.0421, 0.02, 0.085), figure("rmse", 316.72, 253.8, 395.1), figure("error", None)
    ('4.2%', '317', '')
    """
    if _absent(value):
        return ""
    return numbers.figure(value, lower, upper, percent=metric in PERCENT)


IN_UNITS = frozenset(["rmse", "mae", "median_absolute_error", "p90_absolute_error"])
"""Metrics whose figures have the unit of the target."""


def with_unit(text: str, unit: str | None) -> str:
    """A number in print with its unit: a sign of a currency in front, anything else behind.

    >>> with_unit("2,900", "$"), with_unit("-3", "€"), with_unit("12.5", "kg"), with_unit("7", None)
    ('$2,900', '-€3', '12.5 kg', '7')
    """
    if not unit or not text:
        return text
    if len(unit) == 1 and unicodedata.category(unit) == "Sc":
        return f"-{unit}{text[1:]}" if text.startswith("-") else f"{unit}{text}"
    return f"{text}{'' if unit == '%' else ' '}{unit}"


def amount(
    metric: str, value: Any, lower: Any = math.nan, upper: Any = math.nan, unit: str | None = None
) -> tuple[str, str]:
    """A figure and its interval in words, with the unit where the metric has that of the target.

    >>> amount("rmse", 316.72, 253.8, 395.1, "$"), amount("error", 0.0421, 0.02, 0.085, "$")
    (('$317', '$254 to $395'), ('4.2%', '2.0% to 8.5%'))
    """
    unit = unit if metric in IN_UNITS else None
    ends = limits(metric, lower, upper).split(" to ")
    between = " to ".join(with_unit(one, unit) for one in ends) if len(ends) == 2 else ""
    return with_unit(figure(metric, value, lower, upper), unit), between


def limits(metric: str, low: Any, high: Any) -> str:
    """An interval in words.

    >>> limits("error", 0.02, 0.085), limits("rmse", 253.8, 395.1), limits("auc", 0.871, 0.957)
    ('2.0% to 8.5%', '254 to 395', '0.871 to 0.957')
    """
    if _absent(low) or _absent(high):
        return ""
    return " to ".join(numbers.with_limits(math.nan, low, high, percent=metric in PERCENT)[1:])


def missing_cells(missing: Mapping[str, Mapping[str, int]], name: str) -> str:
    """How many cells of a column are missing and, where they are not all empty, what they hold.

    >>> missing_cells({"age": {"": 2, "NA": 3}, "sex": {"": 1}}, "age"), missing_cells({"sex": {"": 1}}, "sex")
    ("5 (3 'NA')", '1')
    """
    texts = missing.get(name, {})
    held = ", ".join(f"{count:,} {text!r}" for text, count in texts.items() if text)
    total = sum(texts.values())
    return "" if not total else f"{total:,}" + (f" ({held})" if held else "")


def apart(metric: str, value: float, low: float, high: float) -> tuple[str, str]:
    """A difference of two figures and its interval: in percentage points where they are percentages.

    >>> apart("error", -0.042, -0.06, -0.02), apart("rmse", -4193.4, -7000.0, -1400.0)
    (('-4.2 points', '-6.0 to -2.0 points'), ('-4,193', '-7,000 to -1,400'))
    >>> apart("rmse", -2.1, -4.2, -0.01)
    ('-2.1', '-4.2 to -0.01')
    >>> apart("auc", 0.5, float("nan"), float("nan"))
    ('0.5', '')
    """
    scale, unit = (100.0, " points") if metric in PERCENT else (1.0, "")
    if math.isnan(low) and math.isnan(high):  # no test could judge it
        return numbers.fmt(scale * value) + unit, ""
    middle, least, most = numbers.with_limits(scale * value, scale * low, scale * high)
    # A limit beyond 0 must not be printed as 0: what is said of the difference follows what is printed.
    least = numbers.fmt(scale * low, 1) if low > 0 and float(least.replace(",", "")) == 0 else least
    most = numbers.fmt(scale * high, 1) if high < 0 and float(most.replace(",", "")) == 0 else most
    return middle + unit, f"{least} to {most}{unit}"


def roughly(release: Any) -> str:
    """The answer to a look beyond the plan, as a clause.

    >>> from assay.experiment.test_set.ladder import Release
    >>> roughly(Release(0.125, True, 0.0125, 80, "error"))
    'the error rate is about 12.5%, the best so far (reported in steps of 1.2%, without an interval)'
    """
    name = called(release.loss, short=True)
    value, step = released(release)
    how = f"reported in steps of {step}, without an interval"
    if not release.improved:
        return f"the model is not clearly better than the best so far, whose {name} is about {value} ({how})"
    return f"the {name} is about {value}, the best so far ({how})"


FEW_ROWS = 100
"""Fewer test rows do not show the tail of the errors, whatever they look like (docs/simulations/tails.md)."""


def tail_notes(metric: Any, tail: Any) -> list[str]:
    """What limits the interval of a mean of unbounded losses: a few dominant rows, if any, and unseen larger errors.

    >>> from assay.inference import TailDiagnosis
    >>> from assay.metrics import rmse
    >>> first, second = tail_notes(rmse, TailDiagnosis(120, 4, 0.38, 0.81, True))
    >>> print(first.split(";")[0])
    4 of 120 rows make up 38% of the squared error, so the upper limit of the rmse may be too low
    >>> print(second)
    larger errors than those seen, if fewer than 1 row in 40 has them, may be missing from these 120 rows
    >>> tail_notes(rmse, TailDiagnosis(60, 6, 0.34, 0.2, False))[0].split(":")[0]
    '60 rows are too few to show the tail of the errors'
    """
    end, too = ("lower", "high") if metric.greater_is_better else ("upper", "low")
    limit = f"the {end} limit of the {called(metric.name, short=True)}"
    rare = f"if fewer than 1 row in {tail.unseen:,} has them, may be missing"
    notes = []
    if tail.heavy:
        hold = "; those of the median and the 90% error hold for any distribution" if metric.needs == "values" else ""
        notes.append(f"{tail.carried(loss_words(metric))}, so {limit} may be too {too}{hold}")
    elif tail.n < FEW_ROWS:
        few = f"{tail.n:,} rows are too few to show the tail of the errors"
        return [f"{few}: larger ones than those seen, {rare}, and {limit} may be too {too}"]
    return [*notes, f"larger errors than those seen, {rare} from these {tail.n:,} rows"]


def released(release: Any) -> tuple[str, str]:
    """The value released by the Ladder, to the precision of its step, and the step."""
    value, step, percent = release.value, release.step, release.loss in PERCENT
    exact = f"{numbers.fmt(100 * step, 2)}%" if percent else numbers.fmt(step, 2)
    return numbers.figure(value, value - step, value + step, percent=percent), exact


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
