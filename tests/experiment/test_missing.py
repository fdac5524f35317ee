"""What is read as missing: listed by text, a level where it looks like one, and as the user says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay.cli import live, tell
from assay.errors import DataError
from assay.experiment.model_file.predict import predict_rows
from assay.experiment.options import texts_of
from assay.experiment.plan import Plan
from assay.experiment.table import read_table
from assay.experiment.table.levels import MISSING


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def written(**columns):
    pd.DataFrame(columns).to_csv("table.csv", index=False)
    return "table.csv"


def test_new_rows_need_no_identifier_that_the_model_ignores(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": [f"c{at}" for at in range(80)], "x": rng.normal(size=80), "y": rng.normal(size=80)})
    study = assay.run(frame, "y", learners=["least squares"], cv=4, out=tmp_path / "out")
    assert study.plan.kinds["id"] == "id"
    model = tmp_path / "out" / "model.assay"
    known, without = (predict_rows(model, table, explain=1).frame for table in (frame, frame.drop(columns="id")))
    assert known["id"].tolist() == frame["id"].tolist()
    pd.testing.assert_frame_equal(known.drop(columns="id"), without)
    with pytest.raises(DataError, match="column 'x' is missing"):
        predict_rows(model, frame[["y"]])


def test_rows_left_out_for_want_of_a_target_are_a_finding():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=300), "y": rng.normal(size=300)})
    frame.loc[:89, "y"] = np.nan
    study = assay.Study(frame, "y", learners=["least squares"], test_size=0.2)
    check = study.checks["target-missing"]
    assert (check.status, check.severity) == ("found", "warning")
    assert check.detail == "90 rows of 300 (30.0%) have no target and are left out"


def test_missing_texts_are_listed_for_every_column():
    path = written(age=["1.5", "NA", "?", "", "4", "NA"], sex=["f", "m", "-", "f", "", "m"], y=list("abcabc"))
    table = read_table(path)
    assert table.missing == {"age": {"": 1, "?": 1, "NA": 2}, "sex": {"": 1, "-": 1}}
    assert table.frame["age"].isna().sum() == 4
    frame = pd.DataFrame({"x": [1.0, np.nan, np.inf]})
    assert read_table(frame).missing == {"x": {"": 1, "infinity": 1}}


@pytest.mark.parametrize(
    ("cells", "missing"),
    [
        (["None", "Partial", "Full"], {}),
        (["none", "mild", "severe"], {}),
        (["None", "red", "blue"], {"None": 1}),
        (["NA", "EU", "AS", "SA"], {}),
        (["NA", "Gd", "Ex", "Po"], {"NA": 1}),
        (["None", "1", "2"], {"None": 1}),
        (["None", "2020-01-01", "2020-01-02"], {"None": 1}),
        (["?", "Partial", "Full"], {"?": 1}),
    ],
)
def test_a_token_is_a_level_where_the_others_make_that_plausible(cells, missing):
    table = read_table(written(x=cells))
    assert table.missing.get("x", {}) == missing
    assert ("taken for a level" in table.reasons["x"]) == (not missing)
    assert ("x" in table.gaps) == (not missing)


def test_the_user_says_what_is_missing():
    path = written(wall=["None", "Brick", "Stone", "-"], roof=["None", "-", "Flat", "Hip"])
    assert read_table(path, missing={"*": ["None"]}).missing == {"wall": {"None": 1}, "roof": {"None": 1}}
    table = read_table(path, missing={"wall": [], "roof": ["None"]})
    assert table.missing == {"roof": {"None": 1}}
    assert "-" in set(table.frame["wall"])
    with pytest.raises(DataError, match="did you mean 'roof'"):
        read_table(path, missing={"roofs": []})


@pytest.mark.parametrize("source", ["file", "comma", "frame"])
def test_a_number_can_stand_for_a_missing_value(source, tmp_path):
    frame = pd.DataFrame({"bp": [120, -99, 130, -99], "crp": [0.5, -99.0, 3.25, 9.0]})
    if source != "frame":
        form = {"sep": ";", "decimal": ","} if source == "comma" else {}
        frame.to_csv("table.csv", index=False, **form)
    table = read_table(frame if source == "frame" else "table.csv", missing={"*": ["-99"]})
    assert table.missing == {"bp": {"-99": 2}, "crp": {"-99": 1}}
    assert table.kinds == {"bp": "number", "crp": "number"}
    assert np.array_equal(table.frame["bp"], [120, np.nan, 130, np.nan], equal_nan=True)
    assert np.array_equal(table.frame["crp"], [0.5, np.nan, 3.25, 9.0], equal_nan=True)


def test_numbers_with_different_units_are_no_classes():
    prices = [f"{'$€'[i % 2]}{1000 + 37 * i:,}" for i in range(60)]
    path = written(area=np.arange(60) % 7 + 0.5, price=prices)
    with pytest.raises(
        DataError, match=r"'price' contains numbers with units or separators, such as '\$1,000'"
    ) as error:
        assay.Study(path, "price")
    assert error.value.option == ("task", "classification")
    assert assay.Study(path, "price", task="classification").plan.task == "classification"
    assert assay.Study(written(area=np.arange(60) % 7 + 0.5, size=["5+", "10+", "20+"] * 20), "size").plan.task


@pytest.mark.parametrize(
    ("cells", "numbers", "unit"),
    [
        (["$1,100", "-$20.50", "NA", "$7"], [1100, -20.5, np.nan, 7], "$"),
        (["1,100 USD", "900 USD"], [1100, 900], "USD"),
        (["12%", "3 %", ""], [12, 3, np.nan], "%"),
        (["3.5 kg", "1.2e3 kg", "80kg"], [3.5, 1200, 80], "kg"),
        (["1 year", "12 years"], [1, 12], "year"),
        (["1.100,50 €", "7 €"], [1100.5, 7], "€"),
        (["1 100 €", "12 900 €"], [1100, 12900], "€"),
        (["1'100.50 CHF", "900 CHF"], [1100.5, 900], "CHF"),
        (["7 m²", "8,25 m²"], [7, 8.25], "m²"),
        (["0,123 €", "1 €"], [0.123, 1], "€"),
        (["0.125 g", "1.250 g"], [0.125, 1.25], "g"),
    ],
)
def test_numbers_with_the_same_unit_are_numbers(cells, numbers, unit):
    table = read_table(written(x=cells, y=range(len(cells))))
    assert table.kinds["x"] == "number"
    np.testing.assert_array_equal(table.frame["x"], numbers)
    assert table.units == {"x": unit}
    assert f"each with {unit!r}" in table.reasons["x"]


@pytest.mark.parametrize(
    "cells",
    [
        ["3 kg", "500 g"],  # two units
        ["5 m", "5 ms"],
        ["$5", "5"],  # a unit in some cells only
        ["1,100 kg", "2,250 kg"],  # a ton, or a bag
        ["1.100 €", "950 €"],  # thousands, or decimals that only some cells have
        ["$1.100", "$9.500"],
        ["12a", "14a"],  # house numbers
        ["01 kg", "02 kg"],  # codes
        ["1,100", "900"],  # the unit of nobody
        ["5-7 kg", "8-9 kg"],
        ["$1,10,0", "$5"],
    ],
)
def test_numbers_in_doubt_stay_words(cells):
    table = read_table(written(x=cells, y=[1, 2]))
    assert table.kinds["x"] == "category"
    assert list(table.frame["x"]) == cells


def test_commas_between_thousands_are_read_where_somebody_says_number():
    path = written(x=["1,100", "900", "2.5"], z=["1,100 kg", "2,250 kg", "1,000 kg"])
    table = read_table(path, kinds={"x": "number", "z": "number"})
    assert list(table.frame["x"]) == [1100, 900, 2.5]
    assert list(table.frame["z"]) == [1100, 2250, 1000]
    assert "separators between thousands" in table.reasons["x"]
    with pytest.raises(DataError, match="cannot be a number"):
        read_table(written(x=["1,100", "9,5", "2.5"]), kinds={"x": "number"})


def test_a_column_in_another_unit_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    price = rng.uniform(100, 3000, 160).round(2)
    study = assay.run(
        written(price=[f"${one:,}" for one in price], y=price + rng.normal(size=160)),
        "y",
        learners=["least squares"],
        cv=5,
        out=tmp_path / "out",
    )
    assert study.plan.units == Plan.from_state(study.plan.state()).units == {"price": "$"}
    same = [predict_rows("out/model.assay", written(price=cells)).frame for cells in (["$1,100"], ["1100"])]
    assert same[0].equals(same[1])
    with pytest.raises(DataError, match=r"'price' of table.csv has the unit '€', but was '\$' in the training rows"):
        predict_rows("out/model.assay", written(price=["€1,100"]))


def test_units_of_new_rows(tmp_path):
    rng = np.random.default_rng(0)
    stars, rate = rng.integers(1, 6, size=160), rng.random(160).round(2)
    text = ["2 stars", *(f"{one} star{'s' if one > 1 else ''}" for one in stars[1:])]
    study = assay.run(
        written(stars=text, rate=rate, size=["5 m", "7 m"] * 80, old=["1 kg", "2 kg"] * 80, y=stars + 3 * rate),
        "y",
        learners=["least squares"],
        cv=5,
        drop=["old"],
        kinds={"size": "category"},
        out=tmp_path / "out",
    )
    assert study.plan.units == {"stars": "stars", "old": "kg"}
    new = {"stars": ["1 star"], "rate": [0.5], "size": ["5 ft"], "old": ["9 lb"]}
    assert len(predict_rows("out/model.assay", written(**new)).frame) == 1
    with pytest.raises(DataError, match=r"'rate' of table.csv has the unit '%', but had none in the training rows"):
        predict_rows("out/model.assay", written(**{**new, "rate": ["50 %"]}))


def test_separators_of_new_rows_are_those_of_the_training_rows(tmp_path):
    rng = np.random.default_rng(0)
    price = rng.uniform(100, 3000, 160).round(2)
    cells = [f"{one:,.2f} €".translate(str.maketrans(",.", ".,")) for one in price]
    assay.run(
        written(price=cells, y=price + rng.normal(size=160)),
        "y",
        learners=["least squares"],
        cv=5,
        out=tmp_path / "out",
    )

    def predicted(*cells):
        return predict_rows("out/model.assay", written(price=cells)).frame["prediction"].tolist()

    assert predicted("1.100 €", "2.000 €") == predicted("1100 €", "2000 €")
    assert predicted("950 €", "1,500 €") == predicted("950", "1.5")
    with pytest.raises(DataError, match=r"'price' of table.csv cannot be a number: '1,100.00 €'"):
        predicted("1,100.00 €")
    with pytest.raises(DataError, match=r"'price' of table.csv has '1.100', which may be 1.1 or 1100; write the unit"):
        predicted("1.100", "950")


def test_a_sheet_is_read_cell_by_cell_as_a_text_file_is(tmp_path):
    pytest.importorskip("openpyxl")
    cells = {"x": [1.5, "n/a", 3], "size": [4, "-", 6], "price": ["$1,100", "$7", "$8"], "zip": ["01", "02", "03"]}
    pd.DataFrame(cells).to_excel("table.xlsx")  # with its index, which has no name
    table = read_table("table.xlsx")
    assert list(table.kinds.values()) == ["number", "number", "number", "number", "category"]
    assert next(iter(table.kinds)) == "column_1"
    np.testing.assert_array_equal(table.frame["x"], [1.5, np.nan, 3])
    assert table.missing == {"x": {"n/a": 1}, "size": {"-": 1}}


def test_a_column_of_lists_can_be_left_out(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=160)
    frame = pd.DataFrame({"x": x, "tags": [["a", "b"]] * 160, "y": 2 * x + rng.normal(size=160)})
    frame.to_parquet("table.parquet")
    with pytest.raises(assay.errors.DataTypeError, match=r"'tags' of table.parquet contains list") as error:
        assay.Study("table.parquet", "y")
    assert error.value.option == ("drop", "tags")
    assay.run("table.parquet", "y", learners=["least squares"], cv=5, drop=["tags"], out=tmp_path / "out")
    assert len(predict_rows("out/model.assay", "table.parquet").frame) == 160


def test_points_between_thousands_before_a_decimal_comma():
    cells = ["1.867,39", "999,5", "12.001.867,25"]
    pd.DataFrame({"x": cells}).assign(y=[1, 2, 3]).to_csv("table.csv", sep=";", index=False)
    table = read_table("table.csv")
    assert list(table.frame["x"]) == [1867.39, 999.5, 12001867.25]


def test_a_text_among_numbers_has_a_remedy_that_works():
    path = written(crp=["1.5", "<0.5", "", "4", "<0.5"])
    with pytest.raises(DataError, match="read it as missing") as error:
        read_table(path, kinds={"crp": "number"})
    assert error.value.option == ("missing", "crp=<0.5")
    table = read_table(path, kinds={"crp": "number"}, missing={"crp": ["<0.5"]})
    assert table.missing == {"crp": {"": 1, "<0.5": 2}}


@given(st.lists(st.sampled_from([*MISSING, "a", "b", "Full", "7", "x y"]), min_size=1, max_size=30))
def test_every_missing_cell_is_counted_once(cells):
    frame = pd.DataFrame({"x": pd.Series(cells, dtype=object)})
    table = read_table(frame)
    assert sum(table.missing.get("x", {}).values()) == int(table.frame["x"].isna().sum())
    for text, count in table.missing.get("x", {}).items():
        assert text == "" or count == cells.count(text)


def test_new_rows_are_read_as_the_training_rows_were(tmp_path):
    rng = np.random.default_rng(0)
    cover = rng.choice(["None", "Partial", "Full"], 160)
    y = np.where(cover == "None", 5.0, 0.0) + rng.normal(size=160)
    study = assay.run(written(cover=cover, x=rng.normal(size=160), y=y), "y", learners=["least squares"], cv=5)
    assert "None" not in study.plan.gaps["cover"]
    assert Plan.from_state(study.plan.state()) == study.plan
    assert assay.Study.load(study.name).missing == study.missing == {}
    assert "missing={'cover': [" in study.code()
    study.save("model.assay")
    alone = predict_rows("model.assay", pd.DataFrame({"cover": ["None", "None"], "x": [0.0, 1.0]}))
    assert (alone.frame["prediction"] > 3).all()
    told = assay.run("table.csv", "y", learners=["least squares"], cv=5, missing={"cover": ["None"]}, open_test=False)
    assert told.summary()["missing"] == {"cover": {"None": int((cover == "None").sum())}}


def test_the_remedy_of_a_level_read_as_missing_is_printed_to_be_pasted(capsys):
    path = written(region=["EU", "APAC", "NA", "?"] * 20, staff=["1-2", "3-9", "None", ""] * 20, y=np.arange(80.0) ** 2)
    live.begin(["run", str(path), "-t", "y"])
    study = assay.Study(path, "y")
    tell.columns(study.table, study.plan)
    printed = capsys.readouterr().out
    assert "Read as missing: 'NA' in region; 'None' in staff." in printed
    assert f"assay run {path} -t y --missing 'region=?' --missing staff=" in printed
    rules = texts_of(["region=?", "staff="])
    study = assay.Study(path, "y", missing=rules)
    assert study.missing == {"region": {"?": 20}, "staff": {"": 20}}
    tell.columns(study.table, study.plan)
    assert "Read as missing" not in capsys.readouterr().out
