"""Preprocessing: peers and definitions agree, nothing leaks, everything a new table may bring is answered for."""

from __future__ import annotations

import json
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from assay.errors import AssayError, DataError, DataTypeError, ParameterError
from assay.evaluation import cross_validate
from assay.experiment.columns.dates import PARTS, date_parts
from assay.experiment.columns.transformer import ENCODINGS, Columns
from assay.experiment.study import run as experiment_run
from assay.experiment.table import read_table
from assay.experiment.warned import with_names
from assay.linear import Ridge
from assay.state import StateError, from_state, to_state
from tests.naive.experiment import dummies_by_definition, standardised_by_definition

N = 200
rng = np.random.default_rng(9)


def some(values, share=0.2):
    """The same values with gaps."""
    out = np.array(values, dtype=object)
    out[rng.random(len(out)) < share] = None
    return out


FRAME = pd.DataFrame(
    {
        "id": np.arange(N),
        "a": rng.normal(5, 3, N),
        "b": np.where(rng.random(N) < 0.3, np.nan, rng.exponential(size=N)),
        "c": rng.integers(0, 3, N),
        "colour": pd.Series(some(rng.choice(["red", "green", "blue"], N)), dtype=object),
        "yes": pd.Series(rng.choice(["no", "yes"], N), dtype=object),
        "town": pd.Series([f"t{k}" for k in rng.zipf(1.4, N) % 90], dtype=object),
        "day": pd.Series(pd.date_range("2020-01-01", periods=N, freq="31h")).where(rng.random(N) > 0.1),
        "note": pd.Series(
            some([" ".join(rng.choice(["warm", "cold", "very", "Rain,", "sun"], 3)) for _ in range(N)]), dtype=object
        ),
        "same": 3.0,
        "empty": np.nan,
    }
)
KINDS = {
    **{"id": "id", "a": "number", "b": "number", "c": "number", "colour": "category", "yes": "category"},
    **{"town": "category", "day": "date", "note": "text", "same": "number", "empty": "number"},
}
Y = (FRAME["a"] + (FRAME["yes"] == "yes") * 2).to_numpy()
every_encoding = pytest.mark.parametrize("encode", ENCODINGS)


def only(name, kind, values, **options):
    frame = pd.DataFrame({name: pd.Series(values, dtype=None if kind != "category" else object)})
    return Columns({name: kind}, **options), frame


# Numbers.


def test_numbers_are_those_of_scikit_learn():
    kinds = dict.fromkeys("abc", "number")
    ours = Columns(kinds).fit(FRAME)
    peer = make_pipeline(SimpleImputer(strategy="median"), StandardScaler()).fit(FRAME[list("abc")])
    found = pd.DataFrame(ours.transform(FRAME), columns=ours.get_feature_names_out())
    assert list(found) == ["a", "b", "b missing", "c"]
    assert_allclose(found[["a", "b", "c"]], peer.transform(FRAME[list("abc")]), rtol=1e-12, atol=1e-12)
    assert_array_equal(found["b missing"], FRAME["b"].isna())


@given(
    st.lists(st.none() | st.integers(-(10**9), 10**9).map(lambda v: v / 1000), min_size=2, max_size=40),
    st.booleans(),
)
def test_numbers_agree_with_the_definition(cells, impute):
    values = np.array([np.nan if cell is None else cell for cell in cells])
    model, frame = only("x", "number", values, impute=impute)
    expected = standardised_by_definition(cells, impute=impute)
    if expected is None:
        with pytest.raises(DataError, match="no column varies"):
            model.fit(frame)
        return
    assert_allclose(model.fit_transform(frame), expected, rtol=1e-7, atol=1e-9)


def test_extreme_scales_stay_finite():
    for values, same in (([1e308, -1e308, 1e307], [10.0, -10.0, 1.0]), ([1e-320, 3e-320, 5e-320], [1.0, 3.0, 5.0])):
        extreme, plain = only("x", "number", values), only("x", "number", same)
        assert_allclose(extreme[0].fit_transform(extreme[1]), plain[0].fit_transform(plain[1]), atol=1e-3)
    model, frame = only("x", "number", [1e9, 1e9 + 1e-6, 1e9])
    assert_array_equal(np.sign(model.fit_transform(frame)[:, 0]), [-1, 1, -1])
    model, frame = only("x", "number", [1.0, 2.0, 3.0])
    far = model.fit(frame).transform(pd.DataFrame({"x": [1e308, np.inf, -np.inf]}))
    assert np.isfinite(far).all()
    assert_array_equal(far[1:, 0], 0.0)  # infinity is a gap, and a gap is the median


def test_gaps_that_occur_together_are_flagged_once():
    gap = np.arange(20) % 4 == 0
    frame = pd.DataFrame({name: np.where(gap, np.nan, rng.normal(size=20)) for name in "abc"})
    frame["d"] = np.where(np.arange(20) < 3, np.nan, 1.0)
    found = Columns(dict.fromkeys("abcd", "number")).fit(frame).get_feature_names_out()
    assert list(found) == ["a", "a missing", "b", "c", "d missing"]


def test_without_imputing_gaps_stay():
    model = Columns({"b": "number"}, impute=False, scale=False).fit(FRAME)
    assert_array_equal(model.transform(FRAME)[:, 0], FRAME["b"])
    assert list(model.get_feature_names_out()) == ["b"]


# Categories.


@given(
    st.lists(st.sampled_from(["a", "b", "c", "d", "10", "9", None]), min_size=2, max_size=60),
    st.integers(1, 5),
    st.sampled_from(["onehot", "treatment"]),
)
def test_dummies_agree_with_the_definition(cells, size, encode):
    model, frame = only("x", "category", cells, max_levels=size, encode=encode)
    fresh = pd.DataFrame({"x": pd.Series([*cells, "new", None], dtype=object)})
    names, expected = dummies_by_definition(cells, list(fresh["x"]), size, encode)
    if not names:
        with pytest.raises(DataError, match="no column varies"):
            model.fit(frame)
        return
    found = model.fit(frame).transform(fresh)
    shown = [j for j, name in enumerate(model.get_feature_names_out()) if "frequency" not in name]
    assert [model.get_feature_names_out()[j] for j in shown] == [f"x{name}" for name in names]
    assert_array_equal(found[:, shown], expected)


def test_one_hot_is_that_of_scikit_learn():
    cells = rng.choice(["a", "b", "c"], 50)
    model, frame = only("x", "category", cells)
    peer = OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(frame)
    fresh = pd.DataFrame({"x": pd.Series(["c", "b", "never seen", "a"], dtype=object)})
    assert_array_equal(model.fit(frame).transform(fresh), peer.transform(fresh))


def test_crowded_categories_keep_their_frequency():
    cells = ["big"] * 40 + ["mid"] * 20 + [f"r{i // 2}" for i in range(40)]
    model, frame = only("x", "category", cells, max_levels=2, scale=False)
    out = model.fit_transform(frame)
    assert list(model.get_feature_names_out()) == ["x frequency", "x=big", "x=mid", "x=other"]
    assert_allclose(out[[0, 40, 60]], [[0.4, 1, 0, 0], [0.2, 0, 1, 0], [0.02, 0, 0, 1]])
    assert_allclose(model.transform(pd.DataFrame({"x": ["unheard"]})), [[0, 0, 0, 1]])


def test_levels_are_the_same_whatever_their_type():
    model = Columns({"x": "category"}).fit(pd.DataFrame({"x": ["1", "2", "3"] * 5}))
    expected = model.transform(pd.DataFrame({"x": ["1", "3"]}))
    types = ("int8", float, "category", "Int64", object, str)
    for values in (pd.Series([1, 3]).astype(dtype) for dtype in types):
        assert_array_equal(model.transform(pd.DataFrame({"x": values})), expected)
    model = Columns({"x": "category"}).fit(pd.DataFrame({"x": ["True", "False"] * 5}))
    assert_array_equal(model.transform(pd.DataFrame({"x": [True, False]})), [[1], [0]])


def test_ordinal_follows_the_order_of_names():
    model, frame = only("x", "category", ["10", "9", "2"] * 4, encode="ordinal", scale=False)
    fresh = pd.DataFrame({"x": pd.Series(["2", "9", "10", "new", None], dtype=object)})
    assert_array_equal(model.fit(frame).transform(fresh)[:, 0], [0, 1, 2, 1, 1])  # what is unknown is the median
    assert not model.categorical_.any()


def test_native_categories_feed_a_learner_that_splits_them():
    frame, kinds = FRAME.drop(columns="id"), {k: v for k, v in KINDS.items() if k != "id"}
    model = Columns(kinds, encode="native", impute=False, scale=False).fit(frame)
    out = model.transform(frame)
    assert list(out.columns) == list(model.get_feature_names_out())
    assert list(out.columns[model.categorical_]) == ["colour", "yes", "town"]
    assert_array_equal(out["colour"].isna(), frame["colour"].isna())
    assert_array_equal(out["colour"].dropna().astype(str), frame["colour"].dropna())
    fresh = model.transform(frame.assign(colour="never", town="never"))
    assert fresh["colour"].isna().all()
    assert (fresh["town"] == "other").all()
    pd.testing.assert_frame_equal(Columns(**model.get_params()).fit_transform(frame), out)
    learner = HistGradientBoostingClassifier(max_iter=5).fit(out, np.median(Y) < Y)
    assert learner.score(out, np.median(Y) < Y) > 0.8


# Dates and words.


def test_date_parts_are_those_of_pandas():
    dates = pd.Series(
        ["1969-07-20T20:17:40", "2000-02-29", "2024-12-31T23:59:59.5", None, "1700-03-01"], dtype="datetime64[ns]"
    )
    found = pd.DataFrame(date_parts(dates.to_numpy("datetime64[ns]")), columns=PARTS)
    assert_array_equal(found["year"], dates.dt.year)
    assert_array_equal(found["month"], dates.dt.month)
    assert_array_equal(found["weekday"], dates.dt.day_of_week)
    days = (dates - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    assert_allclose(found["days"], days, rtol=1e-14)
    turn = 2 * np.pi * (dates.dt.day_of_year - 1) / np.where(dates.dt.is_leap_year, 366, 365)
    assert_allclose(found["year sin"], np.sin(turn), atol=1e-12)
    assert_allclose(found["year cos"], np.cos(turn), atol=1e-12)
    assert found.loc[3].isna().all()


def test_dates_may_come_in_any_form():
    days = pd.Series(pd.date_range("2020-01-30", periods=40))
    model = Columns({"d": "date"}).fit(pd.DataFrame({"d": days}))
    assert list(model.get_feature_names_out()) == [f"d {part}" for part in PARTS[:1] + PARTS[2:6]]  # one year, no hours
    expected = model.transform(pd.DataFrame({"d": days}))
    for other in (days.dt.strftime("%Y-%m-%d"), days.astype("datetime64[s]"), days.dt.tz_localize("UTC"), days.dt.date):
        assert_array_equal(model.transform(pd.DataFrame({"d": other})), expected)


def test_words_are_weighed_as_scikit_learn_does():
    cells = ["the warm room", "a cold, cold room", "warm sun", None, "the sun and the room"]
    model, frame = only("x", "text", cells, text_features=3, scale=False)
    out = model.fit_transform(frame)
    assert list(model.get_feature_names_out()) == ["x words", "x missing", "x: room", "x: sun", "x: the"]
    words = [cell or "" for cell in cells]
    peer = TfidfVectorizer(vocabulary=["room", "sun", "the"]).fit(words)
    assert_allclose(out[:, 2:], peer.transform(words).toarray(), rtol=1e-12)


# As a step of a pipeline.


def matrix(model, frame) -> np.ndarray:
    """What comes out as plain numbers, categories by their codes."""
    out = model.transform(frame)
    if not isinstance(out, pd.DataFrame):
        return out
    codes = [
        out[name].cat.codes if is_code else out[name] for name, is_code in zip(out, model.categorical_, strict=True)
    ]
    return np.column_stack(codes).astype(float)


@every_encoding
def test_state_gives_the_same_object_back(encode):
    model = Columns(KINDS, encode=encode, max_levels=10, text_features=4).fit(FRAME)
    tree, arrays = to_state(model, None)
    again = from_state(json.loads(json.dumps(tree)), arrays, None)
    assert_array_equal(matrix(again, FRAME), matrix(model, FRAME))
    assert list(again.get_feature_names_out()) == list(model.get_feature_names_out())
    assert again.get_params() == model.get_params()
    assert again.dropped_ == model.dropped_
    assert_array_equal(again.categorical_, model.categorical_)
    assert to_state(again, None)[0] == tree
    assert_array_equal(matrix(pickle.loads(pickle.dumps(model)), FRAME), matrix(model, FRAME))


def test_damaged_states_are_refused():
    tree, arrays = to_state(Columns(KINDS).fit(FRAME), None)
    numbers, parameters = tree["state"]["numbers_"]["state"], tree["parameters"]
    place = {name: numbers[name]["array"] for name in ("median", "kept", "flagged")}

    def with_array(name, change):
        return [change(one) if at == place[name] else one for at, one in enumerate(arrays)]

    worse = [
        ({**tree, "version": 99}, arrays),
        ({}, arrays),
        (tree, []),
        ({**tree, "parameters": {**parameters, "kinds": 3}}, arrays),
        ({**tree, "parameters": {**parameters, "encode": "other"}}, arrays),
        ({**tree, "parameters": {**parameters, "scale": False}}, arrays),
        (tree, with_array("median", lambda one: one[:-1])),
        (tree, with_array("kept", lambda one: one + 10_000)),
        (tree, with_array("flagged", lambda one: one - 10_000)),
    ]
    for bad in worse:
        with pytest.raises((AssayError, StateError)):
            from_state(*bad, None)


@every_encoding
def test_rows_stand_for_themselves(encode):
    """What a row becomes depends on no other row, and the order of rows does not change what is learned."""
    model = Columns(KINDS, encode=encode).fit(FRAME)
    out, order = matrix(model, FRAME), rng.permutation(N)
    assert_array_equal(matrix(model, FRAME.iloc[order]), out[order])
    assert_array_equal(matrix(model, FRAME.iloc[[17]]), out[[17]])
    shuffled = Columns(KINDS, encode=encode).fit(FRAME.iloc[order])
    assert list(shuffled.get_feature_names_out()) == list(model.get_feature_names_out())
    assert_allclose(matrix(shuffled, FRAME), out, rtol=1e-9, atol=1e-9)


@every_encoding
def test_columns_may_come_in_any_order_with_extra_ones(encode):
    model = Columns(KINDS, encode=encode).fit(FRAME)
    out = matrix(model, FRAME)
    other = FRAME[list(FRAME)[::-1]].assign(extra="?")
    assert_array_equal(matrix(model, other), out)
    assert_array_equal(matrix(model, FRAME.drop(columns=["id", "same", "empty"])), out)
    for name in ("a", "colour", "day", "note"):
        with pytest.raises(DataError, match=f"the table has no column '{name}'; add it"):
            model.transform(FRAME.drop(columns=name))
        with pytest.raises(DataError, match=f"the table has no column '{name}'; add it"):
            Columns(KINDS).fit(FRAME.drop(columns=name))


@every_encoding
def test_everything_unknown_at_once_still_gives_numbers(encode):
    model = Columns(KINDS, encode=encode).fit(FRAME)
    empty = pd.DataFrame({name: pd.Series([None, None], dtype=object) for name in KINDS})
    out = matrix(model, empty)
    assert out.shape == (2, model.get_feature_names_out().size)
    assert np.isfinite(out[:, ~model.categorical_]).all()
    assert matrix(model, FRAME.iloc[:0]).shape == (0, out.shape[1])


def test_what_says_nothing_is_dropped_and_named():
    model = Columns(KINDS).fit(FRAME)
    assert model.dropped_ == {
        "id": "an identifier",
        "same": "constant in the training rows",
        "empty": "missing in every training row",
    }
    with pytest.raises(DataError, match="no column varies"):
        Columns({"same": "number", "id": "id"}).fit(FRAME)


def test_names_are_unique():
    frame = pd.DataFrame({"x": [1.0, np.nan, 2.0, 4.0], "x missing": [1.0, 2.0, 3.0, 5.0], "x (2)": [0.0, 1, 1, 0]})
    names = Columns(dict.fromkeys(frame, "number")).fit(frame).get_feature_names_out()
    assert list(names) == ["x", "x missing", "x missing (2)", "x (2)"]


def test_it_works_in_scikit_learn():
    y = np.where(np.median(Y) < Y, "high", "low")
    model = make_pipeline(Columns(KINDS), LogisticRegression(max_iter=500))
    clone(model)
    search = GridSearchCV(model, {"columns__max_levels": [3, 30], "columns__encode": ["onehot", "ordinal"]}, cv=3)
    assert search.fit(FRAME, y).best_score_ > 0.85
    named = Columns(KINDS).set_output(transform="pandas").fit_transform(FRAME)
    assert list(named) == list(model.fit(FRAME, y)[0].get_feature_names_out())
    with pytest.raises(NotFittedError):
        Columns(KINDS).transform(FRAME)


def test_it_is_fitted_inside_each_fold():
    """Fold by fold by hand gives the same predictions, so no row of a test fold was looked at."""
    model = make_pipeline(Columns(KINDS, max_levels=5), Ridge(1.0))
    found = cross_validate(model, FRAME, Y, cv=4)
    for (train, test), predicted in zip(found.splits, found.fold_predictions["values"], strict=True):
        columns = Columns(KINDS, max_levels=5).fit(FRAME.iloc[train])
        ridge = Ridge(1.0).fit(columns.transform(FRAME.iloc[train]), Y[train])
        assert_allclose(predicted, ridge.predict(columns.transform(FRAME.iloc[test])), rtol=1e-9)


def test_a_read_table_goes_straight_in(tmp_path):
    path = tmp_path / "t.csv"
    FRAME.to_csv(path, index=False)
    table = read_table(path)
    assert table.kinds == KINDS | {"note": table.kinds["note"]}
    assert_allclose(
        Columns(KINDS).fit_transform(table.frame), Columns(KINDS).fit_transform(FRAME), rtol=1e-9, atol=1e-9
    )


def test_polars_and_arrays_are_taken():
    import polars

    kinds = {"a": "number", "b": "number", "colour": "category"}
    model = Columns(kinds).fit(FRAME)
    frame = FRAME[list(kinds)]
    assert_array_equal(model.transform(polars.from_pandas(frame)), model.transform(FRAME))
    assert_array_equal(model.transform(frame.to_numpy(dtype=object)), model.transform(FRAME))
    with pytest.raises(DataTypeError, match="pass a data frame, or an array of 3 columns"):
        model.transform(np.eye(2))


def test_bad_cells_and_parameters_get_one_sentence():
    model = Columns({"a": "number", "day": "date"}).fit(FRAME)
    with pytest.raises(DataError, match="column 'a' of the table cannot be a number: 'tall' in row 1"):
        model.transform(FRAME.head(2).assign(a=["1.5", "tall"]))
    with pytest.raises(DataError, match="column 'day' of the table cannot be a date: 'soon' in row 0"):
        model.transform(FRAME.head(1).assign(day="soon"))
    with pytest.raises(DataError, match="two columns named 'a'"):
        model.transform(pd.concat([FRAME, FRAME[["a"]]], axis=1))
    with pytest.raises(DataError, match="no rows"):
        Columns({"a": "number"}).fit(FRAME.iloc[:0])
    for kinds, options in (
        ({"a": "float"}, {}),
        ({}, {}),
        (None, {}),
        *(
            ({"a": "number"}, bad)
            for bad in ({"encode": "hash"}, {"max_levels": 0}, {"scale": 1}, {"text_features": -1})
        ),
    ):
        with pytest.raises(ParameterError):
            Columns(kinds, **options).fit(FRAME)


def test_messages_of_learners_name_the_columns(tmp_path, monkeypatch):
    """A learner behind the encoder knows numbers alone; its warnings and errors reach the reader with names."""
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=80), "town": rng.choice(["Ulm", "Bonn", "Kiel"], 80)})
    frame = frame.assign(copy=2 * frame["size"], y=rng.normal(size=80))
    told = experiment_run(frame, "y", learners=["least squares"], open_test=False).leaderboard.warnings
    (words,) = told["least squares"]
    assert "'copy' repeats" in words
    assert not re.search(r"\bx\d|column \d", words)
    Columns({"town": "category"}).fit(frame[["town"]])
    with pytest.raises(DataError, match="column 'town=Kiel' is odd"), with_names():
        raise DataError("column 1 is odd")
    Columns({"town": "category"}, encode="native").fit(frame[["town"]])
    with pytest.raises(DataError, match="column 1 is odd"), with_names():  # such a learner sees names itself
        raise DataError("column 1 is odd")
