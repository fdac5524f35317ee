"""Commands that compute: `run`, `resume`, `open`, `demo`, `predict`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from assay.cli import live, out
from assay.cli.options import (
    JUDGING,
    OUTPUT,
    QUESTION,
    TEST,
    Budget,
    Despite,
    Explain,
    Id,
    Jobs,
    Json,
    Out,
    Reason,
    Trust,
    among,
    duration,
    kinds,
    learner_names,
    metric_names,
    option,
    share,
)
from assay.cli.session import finish, load, refuse_unwritable, session, whole
from assay.errors import DataError, ParameterError

__all__ = ["convert", "demo", "open_", "predict", "resume", "run"]


def run(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="CSV, TSV, Parquet or Arrow file, also compressed.")],
    target: Annotated[str, option(QUESTION, "--target/-t", "The column to predict.", "COL")],
    task: Annotated[
        str,
        option(
            QUESTION,
            "--task",
            "auto, regression or classification.",
            "TASK",
            autocompletion=among("auto", "regression", "classification"),
        ),
    ] = "auto",
    kind: Annotated[
        list[str] | None,
        option(QUESTION, "--kind", "A column's kind: number, category, date, text, id. Repeatable.", "COL=KIND"),
    ] = None,
    panel: Annotated[
        str,
        option(
            JUDGING,
            "--panel",
            "quick, standard or thorough.",
            "PANEL",
            autocompletion=among("quick", "standard", "thorough"),
        ),
    ] = "quick",
    learner: Annotated[
        list[str] | None,
        option(
            JUDGING,
            "--learner",
            "This one instead of a panel; module:Class for your own. Repeatable.",
            "NAME",
            autocompletion=learner_names,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        option(
            JUDGING,
            "--metric",
            "What decides, such as mae or log_loss; else rmse, error or auc.",
            "METRIC",
            autocompletion=metric_names,
        ),
    ] = None,
    cv: Annotated[int, option(JUDGING, "--cv", "Folds.", "K")] = 10,
    repeats: Annotated[int, option(JUDGING, "--repeats", "How often the folds are dealt.", "R")] = 1,
    group: Annotated[str | None, option(JUDGING, "--group", "Rows with one value here stay together.", "COL")] = None,
    time: Annotated[
        str | None, option(JUDGING, "--time", "Learn from earlier rows, judge by later ones.", "COL")
    ] = None,
    select: Annotated[
        str,
        option(
            JUDGING,
            "--select",
            "one-se (the simplest near the best) or best.",
            "RULE",
            autocompletion=among("one-se", "best"),
        ),
    ] = "one-se",
    level: Annotated[float, option(JUDGING, "--level", "Confidence of intervals and verdicts.", "LEVEL")] = 0.95,
    correction: Annotated[
        str,
        option(
            JUDGING,
            "--correction",
            "For many pairs: holm, bonferroni, sidak, hochberg, bh, by.",
            "NAME",
            autocompletion=among("holm", "bonferroni", "sidak", "hochberg", "bh", "by"),
        ),
    ] = "holm",
    test_size: Annotated[str, option(TEST, "--test-size", "Share of test rows, or auto.", "SHARE")] = "auto",
    test: Annotated[str | None, option(TEST, "--test", "Test rows that somebody else kept apart.", "FILE")] = None,
    looks: Annotated[int, option(TEST, "--looks", "How often you plan to look; more looks, wider intervals.", "K")] = 1,
    no_open: Annotated[bool, option(TEST, "--no-open", "Leave the test set sealed for now.")] = False,
    reason: Reason = None,
    despite: Despite = None,
    reseal: Annotated[
        str | None, option(TEST, "--reseal", "Why these rows need a new seal; it is recorded.", "WHY")
    ] = None,
    seed: Annotated[int, option(OUTPUT, "--seed", "Of folds and learners; the seal does not move.", "N")] = 0,
    n_jobs: Jobs = None,
    time_budget: Budget = None,
    out_: Out = None,
    trust: Trust = None,
    json_: Json = False,
    explain: Explain = False,
) -> None:
    """From a table to a result you can defend: seal, judge, compare, select, open once.

    Example: assay run houses.csv --target price --panel standard
    """
    options = {
        "task": task,
        "panel": panel,
        "learners": tuple(learner or ()),
        "metric": metric,
        "cv": cv,
        "repeats": repeats,
        "group": group,
        "time": time,
        "test_size": share(test_size),
        "test": test,
        "looks": looks,
        "select": select,
        "level": level,
        "correction": correction,
        "seed": seed,
        "n_jobs": n_jobs,
        "time_budget": duration(time_budget),
        "kinds": kinds(kind or ()),
        "reason": reason,
        "reseal": reseal,
        "despite": tuple(despite or ()),
    }
    refuse_unwritable(out_)
    with session(json_) as shown:
        whole(shown, table, target, options, out_, json_, explain, open_test=not no_open, trust=tuple(trust or ()))


def resume(
    name: Id,
    no_open: Annotated[bool, option(TEST, "--no-open", "Leave the test set sealed for now.")] = False,
    reason: Reason = None,
    despite: Despite = None,
    n_jobs: Jobs = None,
    time_budget: Budget = None,
    out_: Out = None,
    trust: Trust = None,
    json_: Json = False,
    explain: Explain = False,
) -> None:
    """Go on with a study that was stopped; finished folds are not computed again.

    A study begun with --no-open stays sealed; `assay open` opens it.
    """
    budget = duration(time_budget)
    with session(json_) as shown:
        study, told = load(name, shown, n_jobs)
        study.time_budget = budget
        study.despite = tuple(despite or told.get("despite", ()))
        open_test = not no_open and told.get("open", True)
        trusted = tuple(trust or told.get("trust", ()))
        finish(study, shown, out_ or told.get("out"), json_, explain, open_test=open_test, reason=reason, trust=trusted)


def open_(
    name: Id,
    reason: Reason = None,
    despite: Despite = None,
    n_jobs: Jobs = None,
    out_: Out = None,
    trust: Trust = None,
    json_: Json = False,
    explain: Explain = False,
) -> None:
    """Open the test set of a study that was left sealed; the ledger records the look first."""
    with session(json_) as shown:
        study, told = load(name, shown, n_jobs)
        study.despite = tuple(despite or ())
        trusted = tuple(trust or told.get("trust", ()))
        finish(study, shown, out_ or told.get("out"), json_, explain, open_test=True, reason=reason, trust=trusted)


def demo(
    out_: Annotated[str, option(OUTPUT, "--out", "Directory of table, report and model.", "DIR")] = "out/demo",
    panel: Annotated[str, option(JUDGING, "--panel", "quick, standard or thorough.", "PANEL")] = "quick",
    n_jobs: Jobs = None,
    json_: Json = False,
    explain: Explain = False,
) -> None:
    """A whole study of real data: which of 569 tumours are malignant?

    30 measurements of cell nuclei (Street, Wolberg, Mangasarian 1993; the data ship with scikit-learn). The demo keeps
    a ledger of its own, which is thrown away, so that it can be repeated.
    """
    from sklearn.datasets import load_breast_cancer

    refuse_unwritable(out_)
    bunch = load_breast_cancer(as_frame=True)
    frame = bunch.data.assign(diagnosis=[str(bunch.target_names[code]) for code in bunch.target])
    path = Path(out_) / "breast_cancer.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(path, index=False)
    before = os.environ.get("ASSAY_HOME")
    with tempfile.TemporaryDirectory(prefix="assay-demo-") as home, session(json_) as shown:
        os.environ["ASSAY_HOME"] = home
        try:
            options = {"panel": panel, "n_jobs": n_jobs}
            whole(shown, str(path), "diagnosis", options, out_, json_, explain, again="assay demo")
        finally:
            os.environ.pop("ASSAY_HOME") if before is None else os.environ.update(ASSAY_HOME=before)


def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model file that a study left.")],
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The rows; the target need not be there.")],
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="OUT", help="A .csv, .tsv or .parquet file; else printed.")
    ] = None,
    level: Annotated[float, typer.Option("--level", metavar="LEVEL", help="Coverage of limits and sets.")] = 0.9,
    trust: Trust = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Predict the rows of a table, with probabilities and limits of stated coverage.

    In CSV and TSV, text that a spreadsheet would run as a formula gets an apostrophe in front; Parquet keeps it.
    """
    if not Path(model).is_file():
        raise DataError(f"there is no model file {model!r}", remedy="name the model.assay that a study left")
    if output is not None and Path(output).suffix not in (".csv", ".tsv", ".parquet"):
        raise ParameterError(f"{output!r} ends in no known way", remedy="use .csv, .tsv or .parquet")
    from assay.experiment.model_file.predict import predict_rows
    from assay.experiment.table.spreadsheet import inert_frame

    with live.heard(json_):
        made = predict_rows(model, table, level=level, trust=tuple(trust or ()))
    found = made.frame
    if output is not None:
        _write_table(found, Path(output))
    if json_:
        told = {"model": model, "table": table, "n": len(found), "level": level, "output": output}
        told |= {"coverage": made.coverage, "notes": list(made.notes)}
        out.document({**told, "rows": json.loads(found.to_json(orient="records"))})
        return
    if output is None:
        inert_frame(found).to_csv(sys.stdout, index=False)
    else:
        rows = f"{out.count(len(found), 'prediction')} in {output}"
        out.lines([f"{rows}; the column row counts the rows of {table} from 1."], indent=0)
    said = ["No limits: the study kept no out-of-fold predictions." if made.coverage is None else f"{made.coverage}."]
    for words in [*said, *(f"note: {note}." for note in made.notes)]:  # beside the table, not in it
        out.notices().print(out.clean(words[0].upper() + words[1:], 2 * out.LONGEST), soft_wrap=True)


def convert(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A model file, of this version or an earlier one.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Where to write it in the present version.")],
    trust: Trust = None,
) -> None:
    """Write a model file anew, in the present version of the format."""
    from assay.experiment.model_file import load_model, save_model

    trusted = tuple(trust or ())
    parts = load_model(old, trust=trusted)
    parts.pop("checksum")
    checksum = save_model(new, parts, trust=trusted)
    out.lines([f"{new} written; its SHA-256 is {checksum}"], indent=0)


def _write_table(frame: Any, path: Path) -> None:
    from assay.experiment.keeping import write_beside

    if path.suffix == ".parquet":
        write_beside(path, frame.to_parquet(index=False))
    else:
        from assay.experiment.table.spreadsheet import inert_frame

        separator = "\t" if path.suffix == ".tsv" else ","
        write_beside(path, inert_frame(frame).to_csv(index=False, sep=separator).encode())
