"""A study in a terminal: run or resumed, printed step by step, its files written, and found again by its name."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from assay import interrupts
from assay.cli import live, out
from assay.cli.options import study_names
from assay.errors import DataError, ParameterError, SealError, StoreError

__all__ = ["finish", "full_name", "load", "recall", "refuse_unwritable", "session", "whole"]

OTHER = "choose another directory"


@contextmanager
def session(quiet: bool) -> Iterator[live.Live]:
    """Live progress and collected warnings around a command that computes."""
    shown = live.Live(quiet)
    with live.heard(quiet), live.compiling(shown.console, quiet):
        yield shown


def whole(
    shown: live.Live,
    table: str,
    target: str,
    options: dict[str, Any],
    quiet: bool,
    explain: bool,
    *,
    again: str | None = None,
) -> None:
    """Run a study from its table on, and print each step."""
    if options.get("out") is not None:
        options = {**options, "out": str(Path(options["out"]).absolute())}  # it may be resumed from elsewhere
    with shown:
        from assay.cli import tell
        from assay.experiment.study import Study

        study = Study(table, target, listener=shown.hears, **options)
    if study.compiling is not None and study.compiling.busy:
        live.announce_compiling(shown.console, quiet)
    if not quiet:
        tell.columns(study.table, study.plan, explain)
    with shown:
        try:
            study.seal()
        except SealError as error:  # these rows cannot be split as asked: the table or the options are at fault
            raise DataError(error.what, remedy=error.remedy, option=error.option) from error
    finish(study, shown, quiet, explain, again=again)


def finish(study: Any, shown: live.Live, quiet: bool, explain: bool, *, again: str | None = None) -> None:
    """Run and print the remaining steps of a sealed study, and write its files."""
    from assay.cli import tell
    from assay.experiment.steps import STEPS

    folder = study.wishes.out or Path("out") / study.name
    refuse_unwritable(str(folder))  # a look whose report could not be written would be wasted
    interrupts.resume_with(again or f"assay resume {study.name}")
    shown.expect(study)
    for step in STEPS:
        with shown:
            if step == "publish":
                _publish(study, folder, lost=again is not None)
            else:
                _reach(study, step)
        if not quiet and step in tell.AFTER:
            tell.AFTER[step](study, explain)
    if quiet:
        out.document(study.summary())
    else:
        tell.verdict(study)
        tell.files(study)
    left = study.unanswered() if study.wishes.open_test else ()
    if left:
        _say_stopped(study.name, left)


def _say_stopped(name: str, left: Any) -> None:
    """Print why the test set was not opened and how to continue; the exit code is 1, although the study is saved."""
    first = left[0]
    codes = " ".join(f"--despite {check.code}" for check in left)
    more = f" and {len(left) - 1} more" if len(left) > 1 else ""
    what = f"the test set stays sealed because of a serious check: {first.title} [{first.code}]{more}"
    out.complain(f"{what}; {first.remedy}, or open it anyway with: assay open {name} {codes}")
    raise typer.Exit(1)


def _publish(study: Any, folder: Any, *, lost: bool) -> None:
    """The files; if they cannot be written, the study is kept and only they have to be made again."""
    try:
        study.publish(folder)
    except (DataError, StoreError) as error:
        if lost:
            raise
        remedy = f"the study is saved; write its files elsewhere with: assay report {study.name} --out DIR"
        raise type(error)(error.what, remedy=remedy) from error


def _reach(study: Any, step: str) -> None:
    try:
        study.reach(step)
    except SealError as error:
        if error.option is None or error.option[0] != "reason":
            raise
        codes = "".join(f" --despite {code}" for code in study.wishes.despite)
        remedy = f"leave it sealed, and write its files with: assay report {study.name}; or give a reason with: "
        remedy += f'assay open {study.name}{codes} --reason "why"'
        raise SealError(error.what, remedy=remedy) from error


def load(name: str, shown: live.Live, *, hold: bool = False, **options: Any) -> Any:
    """A study by the first letters of its name."""
    with shown:
        from assay.experiment.study import Study

        return Study.load(full_name(name), listener=shown.hears, hold=hold, **options)


def full_name(name: str) -> str:
    """The study whose name begins with `name`."""
    known = study_names()
    if name in known:
        return name
    found = [one for one in known if one.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ParameterError(f"{name!r} matches {len(found)} studies: {', '.join(found)}", remedy="type more letters")
    raise ParameterError(f"unknown study {name!r}", remedy="list the studies with: assay history")


def recall(name: str, shown: live.Live, **options: Any) -> Any:
    """A finished study as it stands; its test set is scored again only if it was opened, which costs no look."""
    study = load(name, shown, hold=True, **options)
    looked = any(study.ledger.entries(kind, study.name) for kind in ("look", "replay"))
    with shown:
        shown.expect(study)
        study.finish(open_test=looked)
    return study


# Files.


def _writable() -> str:
    """A directory that can be made, to be suggested: here, at home, or among temporary files."""
    places = (Path(), Path.home(), Path(tempfile.gettempdir()))
    return str(next((one for one in places if os.access(one, os.W_OK | os.X_OK)), places[-1]) / "results")


def refuse_unwritable(folder: str | None) -> None:
    """Fail before the work, not after it, where its results could not be written."""
    path = Path("out" if folder is None else folder).absolute()
    there = next(one for one in (path, *path.parents) if one.exists())
    blocked = next((one for one in (path / "model.assay", path / "report.html") if one.is_dir()), None)
    if blocked is not None:
        raise DataError(f"{blocked} is a directory, not a file", remedy=OTHER, option=("out", _writable()))
    if not there.is_dir():
        raise DataError(f"{there} is a file, not a directory", remedy=OTHER, option=("out", _writable()))
    if not os.access(there, os.W_OK | os.X_OK):
        raise DataError(f"{there} is not writable", remedy=OTHER, option=("out", _writable()))
