"""Predictions of a batch: notes on levels, ranges and drift at their stated rate, the top rows, reasons, Excel."""

from __future__ import annotations

import gzip
import json
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from assay.cli import app
from assay.errors import DataError, ParameterError, StoreError
from assay.evaluation import shapley_values
from assay.experiment import Study, load_model
from assay.experiment.model_file.background import background_rows
from assay.experiment.model_file.predict import predict_rows
from assay.experiment.model_file.training_rows import ALARM, alerts_of, check_training, training_counts
from assay.experiment.table import read_table
from assay.experiment.table.excel import excel_bytes
from assay.state import StateError
from tests.tiers import slow

KINDS = {"x": "number", "count": "number", "colour": "category", "when": "date"}


def rows(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_t(3, n)
    return pd.DataFrame(
        {
            "x": np.where(rng.random(n) < 0.1, np.nan, x),
            "count": rng.poisson(2, n),
            "colour": rng.choice(["red", "blue", "green", None], n, p=[0.6, 0.25, 0.05, 0.1]),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, n), "D"),
        }
    )


@pytest.mark.parametrize(
    ("n", "m"),
    [(400, 60), slow(2000, 300), slow(150, 2000)],
)
def test_batches_that_have_not_drifted_are_named_at_the_stated_rate(n, m):
    """False alarms: 10 or more of 300 batches, each named with probability `ALARM`: 0.12%."""
    repeats, named = 300, 0
    for seed in range(repeats):
        training = training_counts(rows(n, 2 * seed), KINDS)
        named += any(alert.kind == "drift" for alert in alerts_of(training, rows(m, 2 * seed + 1)))
    assert named <= repeats * ALARM + 3.5 * np.sqrt(repeats * ALARM)


def test_single_columns_reject_at_their_level():
    """A share of 0.05 of 900 tests is exceeded by three and a half standard errors with probability below 0.001."""
    from assay.experiment.model_file import training_rows

    p_values = []
    for seed in range(300):
        training, batch = training_counts(rows(500, 2 * seed), KINDS), rows(200, 2 * seed + 1)
        for name in ("x", "count", "colour"):
            counts = training["columns"][name]
            cells = training_rows._cells(counts, batch[name])
            p_values.append(training_rows._chi_squared(*cells, ordered="edges" in counts))
    share = np.mean(np.array(p_values) < 0.05)
    assert abs(share - 0.05) < 3.5 * np.sqrt(0.05 * 0.95 / len(p_values))


def test_drift_is_named_with_what_changed():
    training = training_counts(rows(1000, 0), KINDS)
    moved = rows(200, 1)
    moved["x"] += 1.5
    moved["colour"] = "green"
    moved.loc[:100, "count"] = np.nan
    found = {alert.column: alert for alert in alerts_of(training, moved) if alert.kind == "drift"}
    assert set(found) == {"x", "colour", "count"}
    assert "mean" in found["x"].words
    assert "of 'green' there, 100% here" in found["colour"].words
    assert "missing" in found["count"].words
    assert "corrected for 4 columns" in found["x"].words


def test_values_outside_the_training_range():
    training = training_counts(rows(300, 0), KINDS)
    batch = rows(5, 1)
    batch.loc[0, "count"] = 99
    batch.loc[1:2, "when"] = pd.Timestamp("2020-05-05")
    found = [alert for alert in alerts_of(training, batch) if alert.kind == "outside-range"]
    said = {alert.column: (alert.rows, alert.words) for alert in found}
    assert said["count"][0] == 1
    assert "above the largest training value" in said["count"][1]
    assert "up to 99" in said["count"][1]
    assert said["when"][0] == 2
    assert "down to 2020-05-05" in said["when"][1]
    assert ":" not in said["when"][1]  # no hours where days were given
    assert not any(alert.kind == "drift" for alert in alerts_of(training, batch))  # too few rows to say


def test_damaged_counts_are_refused():
    good = training_counts(rows(50, 0), KINDS)
    check_training(json.loads(json.dumps(good)), KINDS)
    for damage in (
        {"n": -1},
        {"columns": {"other": good["columns"]["x"]}},
        {"columns": {"x": {**good["columns"]["x"], "edges": [2.0, 1.0]}}},
        {"columns": {"x": {**good["columns"]["x"], "counts": [1]}}},
        {"columns": {"colour": {"levels": {"red": "many"}, "others": 0, "missing": 0}}},
    ):
        with pytest.raises(StateError):
            check_training({**good, **damage}, KINDS)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study of two classes, its files in `out`, and a copy whose model file has background rows."""
    root = tmp_path_factory.mktemp("batches")
    patch = pytest.MonkeyPatch()
    patch.setenv("ASSAY_HOME", str(root / "home"))
    frame = table(300, 0)
    frame.to_csv(root / "rows.csv", index=False)
    made = Study(str(root / "rows.csv"), "bought", learners=["logistic", "boosting"], cv=3, background=30)
    made.publish(root / "with")
    other = Study.load(made.name, background=0)
    other.publish(root / "without")
    yield root
    patch.undo()


def table(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.integers(20, 80, n), "town": rng.choice(["Ulm", "Bonn"], n)})
    frame["income"] = rng.normal(50, 10, n).round(2)
    frame["since"] = (pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, n), "D")).astype(str)
    p = 1 / (1 + np.exp(-(frame["age"] - 50) / 8 - 2 * (frame["town"] == "Bonn") + 1))
    frame["bought"] = np.where(rng.random(n) < p, "yes", "no")
    return frame


def test_the_top_rows_and_their_threshold(study):
    batch = table(100, 1).drop(columns="bought")
    every = predict_rows(study / "with" / "model.assay", batch)
    found = predict_rows(study / "with" / "model.assay", batch, top=7)
    shares = every.frame["probability of yes"]
    assert found.frame["row"].tolist() == (shares.sort_values(ascending=False, kind="stable").index[:7] + 1).tolist()
    assert found.threshold == found.frame["probability of yes"].min()
    assert (shares >= found.threshold).sum() == 7
    assert "the 7 rows of 100 with the highest probability of yes" in found.notes[0]
    twice = pd.concat([batch, batch])
    assert (
        "1 further row with exactly this value is left out"
        in predict_rows(study / "with" / "model.assay", twice, top=7).notes[0]
    )
    with pytest.raises(ParameterError, match="top"):
        predict_rows(study / "with" / "model.assay", batch, top=0)


def test_reasons_are_the_leading_shapley_values(study):
    batch = table(40, 1).drop(columns="bought")
    path = study / "with" / "model.assay"
    found = predict_rows(path, batch, explain=2)
    parts = load_model(path)
    features = parts["schema"]["features"]
    background = background_rows(parts, features)
    assert len(background) == 30
    frame = read_table(batch, kinds=dict(parts["kinds"])).frame[features]
    values = shapley_values(parts["pipeline"], frame, background)
    np.testing.assert_allclose(found.explained.values, values.values)
    name, _, value = values.leading(0, 1)[0]
    assert found.frame["reason_1"][0].startswith(f"{name} = ")
    assert found.frame["reason_1"][0].endswith(f"({value:+.3g})")
    assert "log-odds of yes" in found.notes[0]
    assert "over 30 training rows" in found.notes[0]


def test_the_background_is_in_the_file_or_with_the_study(study, monkeypatch):
    batch = table(5, 1).drop(columns="bought")
    path = study / "without" / "model.assay"
    assert "background" not in load_model(path)["schema"]
    assert "over 100 training rows" in predict_rows(path, batch, explain=1).notes[0]
    monkeypatch.setenv("ASSAY_HOME", str(study / "elsewhere"))
    with pytest.raises(StoreError, match=r"assay report .* --background 100"):
        predict_rows(path, batch, explain=1)
    parts = load_model(path)
    parts["metadata"] = parts["metadata"] | {"fitted_to": "training and test rows"}  # as in model-final.assay
    with pytest.raises(StoreError, match=r"assay finalize .* --background 100"):
        background_rows(parts, list(parts["schema"]["features"]))
    assert predict_rows(study / "with" / "model.assay", batch, explain=1).explained is not None


def test_the_order_of_rows_does_not_choose_the_background(study):
    frame = load_model(study / "with" / "model.assay")["schema"]["background"]
    without = background_rows(load_model(study / "without" / "model.assay"), list(frame))
    assert without["income"].tolist()[:30] == frame["income"]


def call(*args):
    return CliRunner().invoke(app, list(map(str, args)))


def test_excel_in_and_out(study):
    batch = table(60, 2)
    batch["town"] = batch["town"].replace("Ulm", "=1+1")
    (study / "batch.xlsx").write_bytes(excel_bytes(batch))
    made = call(
        "predict", study / "with" / "model.assay", study / "batch.xlsx", "--top", 3, "--explain", "-o", study / "o.xlsx"
    )
    assert made.exit_code == 0, made.output
    found = pd.read_excel(study / "o.xlsx")
    assert len(found) == 3
    assert found["reason_3"].notna().all()
    cells = pd.read_excel(study / "batch.xlsx")
    assert set(cells["town"]) == {"Bonn", "'=1+1"}  # no formula
    said = json.loads(call("predict", study / "with" / "model.assay", study / "batch.xlsx", "--json").stdout)
    assert {alert["kind"] for alert in said["alerts"]} >= {"unseen-level", "drift"}
    assert said["threshold"] is None


def test_a_column_of_a_sheet_needs_a_name(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a", None], [1, 2], [None, None], [3, 4]):
        book.active.append(row)
    book.create_sheet("notes")
    book.save(tmp_path / "nameless.xlsx")
    with pytest.raises(DataError, match=r"column 2 of the sheet 'Sheet' of nameless.xlsx has no name"):
        read_table(tmp_path / "nameless.xlsx")
    book.active["B1"] = "b"
    book.save(tmp_path / "named.xlsx")
    found = read_table(tmp_path / "named.xlsx")
    (tmp_path / "named.xlsx.gz").write_bytes(gzip.compress((tmp_path / "named.xlsx").read_bytes()))
    pd.testing.assert_frame_equal(read_table(tmp_path / "named.xlsx.gz").frame, found.frame)
    assert len(found.frame) == 2
    assert "1 other sheet ignored" in found.notes[0]


def test_excel_needs_its_package(study, monkeypatch):
    (study / "small.xlsx").write_bytes(excel_bytes(table(5, 0)))
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(DataError, match=r"pip install 'assay\[excel\]'"):
        read_table(study / "small.xlsx")
    with pytest.raises(DataError, match=r"pip install 'assay\[excel\]'"):
        excel_bytes(table(5, 0))


def test_cells_of_a_workbook_keep_their_types(tmp_path):
    frame = pd.DataFrame(
        {"n": [1.5, None, 3.0], "d": pd.to_datetime(["2024-01-01", "2024-02-01", None]), "t": ["a", None, "b"]}
    )
    path = tmp_path / "t.xlsx"
    path.write_bytes(excel_bytes(frame))
    found = read_table(path)
    assert found.name == "t.xlsx"
    assert found.frame["n"].tolist()[::2] == [1.5, 3.0]
    assert found.kinds["d"] == "date"
    damaged = tmp_path / "damaged.xlsx"
    damaged.write_bytes(path.read_bytes().replace(b"xl/worksheets/sheet1", b"xl/worksheets/sheet9"))
    with pytest.raises(DataError, match="not a valid Excel workbook"):
        read_table(damaged)


def test_a_study_predicts_and_displays_itself(study):
    name = next(path.name for path in (study / "home" / "studies").iterdir())
    loaded = Study.load(name)
    assert "nothing is selected yet" in loaded._repr_html_()
    batch = table(40, 1).drop(columns="bought")
    found = loaded.predict(batch, explain=1, top=5)
    filed = predict_rows(study / "without" / "model.assay", batch, explain=1, top=5)
    pd.testing.assert_frame_equal(found.frame, filed.frame)
    assert found.notes == filed.notes
    shown = loaded._repr_html_()
    assert "<table" in shown
    assert "logistic" in shown


def test_studies_side_by_side(study):
    first = next(path.name for path in (study / "home" / "studies").iterdir())
    other = Study(str(study / "rows.csv"), "bought", learners=["logistic"], cv=3, metric="log_loss", open_test=False)
    other.finish(open_test=False)
    made = call("compare", first, other.name, "--json")
    assert made.exit_code == 0, made.output
    said = json.loads(made.stdout)
    assert said["warnings"] == ["metric"]
    assert said["facts"]["metric"] == ["error", "log_loss"]
    assert said["facts"]["looks"] == [1, "sealed"]
    assert said["differences"]["learners"][1] == ["baseline", "logistic"]
    estimate, lower, upper = said["figures"]["error"][0]
    assert lower < estimate < upper
    assert said["figures"]["error"][1] is None
    assert "not comparable" in call("compare", first, other.name).output
    assert call("compare", first).exit_code == 2
    assert call("compare", first, first).exit_code == 2
