"""What a study leaves in words and JSON: its verdict, its numbers, how they were made, and a script to repeat it."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assay import __version__
from assay.experiment.panel import BASELINE
from assay.experiment.wording import called, roughly
from assay.metrics.definition import PERCENT
from assay.numbers import with_limits
from assay.numerics.threads import cores

if TYPE_CHECKING:
    from assay.experiment.study import Study

__all__ = ["code", "manifest", "summary", "verdict"]

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas", "pyarrow")


def verdict(study: Study) -> str:
    """What was found, in words that need no statistics to read; what the checks found serious comes first."""
    found, opened, chosen = _finding(study), study.opened, study.select().name
    serious = study.checks.serious
    words = f"Beware: {serious[0].title}{_where(serious[0].columns)}, so the figures may not hold. " if serious else ""
    if opened is None:
        return f"{words}{found}; the test set is still sealed."
    if opened.release is not None:
        told = f"this look at the test set was not planned, so only this is told: {roughly(opened.release)}"
        return f"{words}{found}; {told}."
    test = opened.intervals[opened.primary]
    name = called(opened.primary, short=True)
    apart = f"{study.n_test:,} rows" + ("" if study.plan.group is None else f" of {test.n:,} groups")
    shown = with_limits(test.estimate, test.lower, test.upper, percent=opened.primary in PERCENT)
    return (
        f"{words}{found}; on {apart} kept apart the {name} of {chosen} is {shown[0]}, and "
        f"with {100 * test.level:g}% confidence between {shown[1]} and {shown[2]} on rows like these."
    )


def _where(columns: tuple[str, ...]) -> str:
    return f" ({', '.join(columns[:5])}{' and others' if len(columns) > 5 else ''})" if columns else ""


def _finding(study: Study) -> str:
    """Which learner, and whether it beats a guess."""
    chosen, target, results = study.select().name, study.plan.target, study.leaderboard.results
    if not any(study.beats_baseline(name) for name in results):
        rows = len(study.rows)
        return f"For {target}, no learner was shown to beat a guess without features on these {rows:,} training rows"
    if not study.beats_baseline(chosen):
        return f"For {target}, {chosen} was chosen for its simplicity, but was not shown to beat a plain guess"
    if len([name for name in results if name != BASELINE]) == 1:
        return f"For {target}, {chosen} predicts better than a plain guess"
    left = " that finished" if study.leaderboard.failed or study.leaderboard.unfinished else ""
    return f"For {target}, {chosen} is the simplest learner{left} as good as the best, and better than a plain guess"


def summary(study: Study) -> dict[str, Any]:
    """The study in JSON types."""
    plan = study.plan
    chosen = study.select()
    board = study.leaderboard.to_frame().reset_index()
    pairs = study.comparisons
    opened = study.opened
    return {
        "study": study.name,
        "task": plan.task,
        "target": plan.target,
        "n_train": len(study.rows),
        "n_test": study.n_test,
        "selected": chosen.name,
        "why": chosen.why,
        "better_than_baseline": study.beats_baseline(chosen.name),
        "verdict": verdict(study),
        "leaderboard": [_row(row) for row in board.to_dict("records")],
        "warnings": _warnings(study),
        "comparisons": [] if pairs is None else [_row(row) for row in pairs.to_frame().to_dict("records")],
        "test": None if opened is None else _test(opened),
        "look": None if opened is None else _look(opened),
        "stopped_by": [check.code for check in study.unanswered()],
        "checks": [_row(row) for row in study.checks.to_frame().reset_index().to_dict("records")],
        "notes": [*study.notes, *([] if study.unwritten is None else [" ".join(study.unwritten)])],
        "manifest": manifest(study),
        "report": study.files.get("report"),
        "model": study.files.get("model"),
    }


def _warnings(study: Study) -> dict[str, list[dict[str, Any]]]:
    """What each learner warned of in the folds, and the selected one in its last fit."""
    told = {
        name: [{"words": words, "folds": folds} for words, folds in kinds.items()]
        for name, kinds in study.leaderboard.warnings.items()
    }
    last = [{"words": words, "fit": "all training rows"} for words in study.warned]
    return told | ({study.select().name: [*told.get(study.select().name, []), *last]} if last else {})


def _row(row: dict[Any, Any]) -> dict[str, Any]:
    return {str(key): _plain(value) for key, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return list(value) if isinstance(value, tuple) else value


def _test(opened: Any) -> dict[str, Any]:
    frame = opened.to_frame() if opened.intervals else None
    if frame is None:
        told = opened.release
        return {told.loss: {"estimate": told.value, "step": told.step, "method": told.method, "n": told.n}}
    rows = {}
    for name, found in opened.intervals.items():
        rows[name] = _row(frame.loc[name].to_dict()) | {"estimand": found.estimand}
    return rows


def _look(opened: Any) -> dict[str, Any]:
    look = opened.look
    told = {name: getattr(look, name) for name in ("number", "planned", "level", "replay", "reason")}
    return {**told, "notes": list(opened.notes)}


def manifest(study: Study) -> dict[str, Any]:
    """Versions, seed, machine, command and hashes: what somebody else needs to get the same numbers."""
    assert study.sealed is not None
    versions = {"assay": __version__, "python": platform.python_version()}
    versions |= {name: metadata.version(name) for name in PACKAGES}
    return {
        "versions": versions,
        "seed": study.plan.seed,
        "machine": f"{platform.system()} {platform.machine()}, {cores()} cores",
        "command": _command(),
        "seal": study.sealed.seal.id,
        "hashes": study.hashes,
        "ledger_head": study.ledger.head(),
        "seconds": round(study.seconds, 3),
        "plan": study.plan.state(),
    }


def _command() -> str:
    """What was typed, with the program by its name."""
    program = Path(sys.argv[0])
    return " ".join(["assay" if program.name == "__main__.py" else program.name, *sys.argv[1:]])


def code(study: Study) -> str:
    """A plain script that repeats the study."""
    plan = study.plan
    shown = {
        "task": plan.task,
        "panel": plan.panel,
        "learners": list(plan.learners),
        "metric": plan.metric,
        "cv": plan.cv,
        "repeats": plan.repeats,
        "group": plan.group,
        "time": plan.time,
        "looks": plan.looks,
        "select": plan.select,
        "level": plan.level,
        "correction": plan.correction,
        "seed": plan.seed,
        "kinds": dict(plan.kinds),
    }
    lines = [f"    {name}={value!r}," for name, value in shown.items() if value is not None]
    return "\n".join(
        [
            f'"""Repeats study {study.name}: the same rows, the same seal, the same predictions, no new look."""',
            "",
            "import assay",
            "",
            *([] if plan.source != "frame" else ["frame = ...  # the data frame that the study was run on", ""]),
            "study = assay.run(",
            "    frame," if plan.source == "frame" else f"    {plan.source!r},",
            f"    {plan.target!r},",
            *lines,
            ")",
            "print(study)",
            "",
        ]
    )
