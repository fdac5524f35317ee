"""The options that commands share, and what their words mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from assay.errors import ParameterError

__all__ = [
    "JUDGING",
    "OUTPUT",
    "QUESTION",
    "TEST",
    "Budget",
    "Despite",
    "Explain",
    "Id",
    "Jobs",
    "Json",
    "Out",
    "Reason",
    "Trust",
    "among",
    "duration",
    "kinds",
    "learner_names",
    "metric_names",
    "option",
    "share",
    "study_names",
]

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def among(*words: str) -> Callable[[], list[str]]:
    """Words that the shell may complete."""
    return lambda: list(words)


def learner_names() -> list[str]:
    """The learners of both tasks, for the shell's completion."""
    from assay.experiment.panel import learners

    return list(dict.fromkeys(learner.name for learner in learners()))


def metric_names(ctx: typer.Context) -> list[str]:
    """The metrics of the task, or of both, for the shell's completion."""
    from assay.experiment.panel import TASKS
    from assay.experiment.plan import usable_metrics

    task = ctx.params.get("task")
    return [name for one in TASKS if task in (one, None, "auto") for name in usable_metrics(one)]


def study_names() -> list[str]:
    """The studies of this home, for the shell's completion."""
    from assay.experiment.storage import home

    return sorted(folder.name for folder in (home() / "studies").glob("*") if folder.is_dir())


QUESTION, JUDGING, TEST, OUTPUT = "The question", "Judging learners", "The test set", "Running and output"


def option(panel: str, name: str, help: str, metavar: str | None = None, **more: Any) -> Any:
    """An option under the heading `panel`; other names of it follow after a slash."""
    return typer.Option(*name.split("/"), help=help, metavar=metavar, rich_help_panel=panel, **more)


Out = Annotated[str | None, option(OUTPUT, "--out", "Directory of report and model; else out/ID.", "DIR")]
Trust = Annotated[
    list[str] | None,
    option(OUTPUT, "--trust", "A class of another package, as module.Class, that the model may hold.", "CLASS"),
]
Json = Annotated[bool, option(OUTPUT, "--json", "Print one JSON document and nothing else.")]
Explain = Annotated[bool, option(OUTPUT, "--explain", "Add the reasoning and references of each step.")]
Jobs = Annotated[int | None, option(OUTPUT, "--n-jobs", "Workers, else all cores; no figure changes.", "N")]
Budget = Annotated[
    str | None, option(OUTPUT, "--time-budget", "Such as 90s, 10m or 1h30m; the rest is reported unfinished.", "TIME")
]
Reason = Annotated[
    str | None, option(TEST, "--reason", "Why a look beyond the plan is needed; it is recorded.", "TEXT")
]
Despite = Annotated[
    list[str] | None,
    option(TEST, "--despite", "Open although this check is serious; it is recorded. Repeatable.", "CODE"),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="The study; its first letters do.", autocompletion=study_names)]


def share(words: str) -> float | str:
    """The share of test rows, or "auto"."""
    if words == "auto":
        return words
    try:
        return float(words)
    except ValueError:
        raise ParameterError(
            f"--test-size {words!r} is no number", remedy="pass a share such as 0.25, or auto"
        ) from None


def duration(words: str | None) -> float | None:
    """Seconds of 90, 90s, 10m or 1h30m.

    >>> duration("10m"), duration("1h30m"), duration("45")
    (600.0, 5400.0, 45.0)
    """
    if words is None:
        return None
    text = words.strip().lower()
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text or not all(u for _, u in parts[:-1]):
        raise ParameterError(f"--time-budget {words!r} is no time", remedy="write it as 90s, 10m or 1h30m")
    return sum(float(number) * UNITS[unit or "s"] for number, unit in parts)


def kinds(told: Sequence[str]) -> dict[str, str] | None:
    """COL=KIND pairs; a column's name may hold = itself.

    >>> kinds(["zip=category", "a=b=number"])
    {'zip': 'category', 'a=b': 'number'}
    """
    found = {}
    for words in told:
        name, sign, kind = words.rpartition("=")
        if not sign or not name:
            raise ParameterError(f"--kind {words!r} is not COL=KIND", remedy="write it as --kind zip=category")
        found[name] = kind
    return found or None
