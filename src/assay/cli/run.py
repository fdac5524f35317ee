"""Commands that compute: `run`, `resume`, `open`, `finalize`, `demo`, `predict`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from assay.cli import live, out
from assay.cli.options import Config, Explain, Id, Json, Trust, needed, options_of, takes
from assay.cli.session import finish, load, recall, refuse_unwritable, session, whole
from assay.errors import DataError, ParameterError
from assay.experiment.options import QUESTION, read_config

__all__ = ["convert", "demo", "finalize", "open_", "predict", "resume", "run"]

OUTPUTS = (".csv", ".tsv", ".xlsx", ".parquet")
"""Files that predictions are written to."""
REASONS = 3
"""Contributions that each row is explained by."""


@takes()
def run(
    ctx: typer.Context,
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="CSV, TSV, Excel, Parquet or Arrow file; may be compressed.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", "-t", help="The column to predict.", metavar="COL", rich_help_panel=QUESTION),
    ] = None,
    *,
    config: Config = None,
    json_: Json = False,
    explain: Explain = False,
    **given: Any,
) -> None:
    """From a table to a result you can defend: seal, evaluate, compare, select, open once.

    Example: assay run houses.csv --target price --panel standard
    """
    options = {**({} if config is None else read_config(config)), **options_of(ctx, given)}
    written = options.pop("table", None), options.pop("target", None)
    table, target = table or written[0], target or written[1]
    refuse_unwritable(options.get("out"))
    with session(json_) as shown:
        whole(shown, needed(table, "TABLE"), needed(target, "--target"), options, json_, explain)


@takes("open_test", "reason", "despite", "n_jobs", "minutes", "out", "trust", "background")
def resume(ctx: typer.Context, name: Id, *, json_: Json = False, explain: Explain = False, **given: Any) -> None:
    """Continue a study that was stopped; finished folds are not computed again.

    A study begun with --no-open stays sealed; `assay open` opens it.
    """
    with session(json_) as shown:
        finish(load(name, shown, **options_of(ctx, given)), shown, json_, explain)


@takes("reason", "despite", "n_jobs", "out", "trust", "background")
def open_(ctx: typer.Context, name: Id, *, json_: Json = False, explain: Explain = False, **given: Any) -> None:
    """Open the test set of a study that was left sealed; the ledger records the look first."""
    with session(json_) as shown:
        asked = {"despite": (), **options_of(ctx, given), "open_test": True}
        study = load(name, shown, hold=True, **asked)
        if not study.has_test_set:
            study.open()  # says that there is nothing to open
        finish(study, shown, json_, explain)


@takes("n_jobs", "out", "trust", "background")
def finalize(ctx: typer.Context, name: Id, *, json_: Json = False, **given: Any) -> None:
    """Fit the selected recipe to all rows, test rows included, for use; only after the test set was opened.

    The search runs again and may choose other settings. The figure of the test set remains that of the recipe fitted to
    the training rows, and none of these rows is ever a test row again.
    """
    options = options_of(ctx, given)
    refuse_unwritable(options.get("out"))
    with session(json_) as shown:
        study = load(name, shown, **options)
        if study.has_test_set:
            study = recall(name, shown, **options)
        folder = options.get("out") or study.wishes.out or Path("out") / study.name
        with shown:
            made = study.finalize(folder, trust=options.get("trust", ()))
        if json_:
            from assay.experiment.record import final_summary

            out.document(final_summary(made))
        else:
            from assay.cli import tell

            tell.final(made, options.get("trust") or study.wishes.trust)


@takes("panel", "n_jobs", "out")
def demo(ctx: typer.Context, *, json_: Json = False, explain: Explain = False, **given: Any) -> None:
    """Run a complete study on real data: which of 569 tumours are malignant?

    30 measurements of cell nuclei (Street, Wolberg, Mangasarian 1993; the data ship with scikit-learn). The demo uses
    a temporary ledger, so it can be run again and again.
    """
    from sklearn.datasets import load_breast_cancer

    from assay.experiment.table.spreadsheet import csv_text

    options = {"out": "out/demo", **options_of(ctx, given)}
    refuse_unwritable(options["out"])
    bunch = load_breast_cancer(as_frame=True)
    frame = bunch.data.assign(diagnosis=[str(bunch.target_names[code]) for code in bunch.target])
    path = Path(options["out"]) / "breast_cancer.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(csv_text(frame))
    before = os.environ.get("ASSAY_HOME")
    with tempfile.TemporaryDirectory(prefix="assay-demo-") as home, session(json_) as shown:
        os.environ["ASSAY_HOME"] = home
        try:
            whole(shown, str(path), "diagnosis", options, json_, explain, again="assay demo")
        finally:
            os.environ.pop("ASSAY_HOME") if before is None else os.environ.update(ASSAY_HOME=before)


def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model file of a study.")],
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="The rows to predict; the target column may be absent.")
    ],
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="OUT", help="A .csv, .tsv, .xlsx or .parquet file (default: print)."),
    ] = None,
    level: Annotated[
        float, typer.Option("--level", metavar="LEVEL", help="Coverage of prediction intervals and sets.")
    ] = 0.9,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", help="Only the N rows with the highest prediction or probability."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Add each row's three leading contributions, as reason_1 to reason_3.")
    ] = False,
    trust: Trust = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Predict the rows of a table, with probabilities and prediction intervals of stated coverage.

    Notes name levels and values that the training rows did not have, and columns that are distributed otherwise. In
    CSV, TSV and Excel, text that a spreadsheet would run as a formula is prefixed with an apostrophe; Parquet is
    unchanged.
    """
    if not Path(model).is_file():
        raise DataError(f"no such model file: {model!r}", remedy="pass the model.assay of a study")
    if output is not None and Path(output).suffix not in OUTPUTS:
        remedy = f"use {', '.join(OUTPUTS[:-1])} or {OUTPUTS[-1]}"
        raise ParameterError(f"unknown output format {Path(output).suffix!r}", remedy=remedy)
    from assay.experiment.model_file.predict import predict_rows
    from assay.experiment.table.spreadsheet import csv_text

    with live.heard(json_):
        reasons = REASONS if explain else 0
        made = predict_rows(model, table, level=level, trust=tuple(trust or ()), explain=reasons, top=top)
    frame = made.frame
    if output is not None:
        _write_table(frame, Path(output))
    if json_:
        summary = {"model": model, "table": table, "n": len(frame), "level": level, "output": output}
        summary |= {"coverage": made.coverage, "notes": list(made.notes), "threshold": made.threshold}
        summary |= {"alerts": [asdict(alert) for alert in made.alerts]}
        out.document({**summary, "rows": json.loads(frame.to_json(orient="records"))})
        return
    if output is None:
        sys.stdout.write(csv_text(frame))
    else:
        rows = f"{out.count(len(frame), 'prediction')} in {output}"
        out.lines([f"{rows}; the column 'row' is the row number in {table}, from 1."], indent=0)
    notes = [
        "No prediction intervals: the model file has no out-of-fold predictions."
        if made.coverage is None
        else f"{made.coverage}."
    ]
    for words in [*notes, *(f"note: {note}." for note in made.notes)]:  # beside the table, not in it
        out.notices().print(out.clean(words[0].upper() + words[1:], 2 * out.LONGEST), soft_wrap=True)


def convert(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A model file of any version up to the current one.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Where to write it in the current version.")],
    trust: Trust = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="BYTES", help="Unpacked bytes at most, whatever the file's size.")
    ] = None,
) -> None:
    """Rewrite a model file in the current version of the format."""
    from assay.experiment.model_file import load_model, save_model

    trusted = tuple(trust or ())
    parts = load_model(old, trust=trusted, limit=limit)
    parts.pop("checksum")
    checksum = save_model(new, parts, trust=trusted)
    out.lines([f"wrote {new} (SHA-256 {checksum})"], indent=0)


def _write_table(frame: Any, path: Path) -> None:
    from assay.experiment.storage.files import write_beside

    if path.suffix == ".parquet":
        write_beside(path, frame.to_parquet(index=False))
    elif path.suffix == ".xlsx":
        from assay.experiment.table.excel import excel_bytes

        write_beside(path, excel_bytes(frame))
    else:
        from assay.experiment.table.spreadsheet import csv_text

        write_beside(path, csv_text(frame, "\t" if path.suffix == ".tsv" else ",").encode())
