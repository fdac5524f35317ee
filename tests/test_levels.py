"""One column at a time: numbers with gaps, levels and the places among them."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from assay.errors import DataError, DataTypeError, ParameterError
from assay.levels import as_frame, as_numbers, as_places, column_index, refuse_objects, sorted_levels


@pytest.mark.parametrize("kind", [object, "float64", "Float64", "float64[pyarrow]"])
def test_numbers_are_the_same_however_they_are_kept(kind):
    assert_array_equal(as_numbers(pd.Series([0.1, None, 1e300], dtype=kind), "column 'a'"), [0.1, np.nan, 1e300])


def test_whatever_float_takes_is_a_number():
    column = pd.Series([True, np.int8(3), decimal.Decimal("0.1"), pd.NA], dtype=object, index=[9, 7, 5, 3])
    assert_array_equal(as_numbers(column, "column 'a'"), [1.0, 3.0, 0.1, np.nan])


@pytest.mark.parametrize(
    ("cells", "kind", "error", "words"),
    [
        ([1.5, None, "x"], object, DataError, "column 'a' contains the text 'x' in row 2, expected a number"),
        ([1.5, [2]], object, DataTypeError, "column 'a' contains a list in row 1: .* convert the column to numbers"),
        (["2020-01-01"], "datetime64[ns]", DataTypeError, "column 'a' contains dates or times; convert it to numbers"),
        ([datetime.timedelta(1)], "duration[us][pyarrow]", DataTypeError, "column 'a' contains dates or times"),
        ([1j], complex, DataError, "column 'a' contains complex numbers; pass real and imaginary parts"),
    ],
)
def test_what_is_no_number_is_told_by_row(cells, kind, error, words):
    with pytest.raises(error, match=words):
        as_numbers(pd.Series(cells, dtype=kind), "column 'a'")


def test_levels_are_sorted_and_mixed_ones_by_type():
    assert sorted_levels(pd.Series(["b", None, "a", "b"], dtype="string")).tolist() == ["a", "b"]
    assert sorted_levels(pd.Series([2.5, np.nan, -1.0])).tolist() == [-1.0, 2.5]
    assert sorted_levels(pd.Series(["b", 2, "a", 1], dtype=object)).tolist() == [1, 2, "a", "b"]


def test_a_level_is_text_a_number_or_a_truth_value():
    refuse_objects(pd.Series(["a", b"b", 1, 2.5, np.True_, None], dtype=object), "column 'a'")
    with pytest.raises(
        DataTypeError, match="column 'a' contains a set in row 2: argument must be a string or a number"
    ):
        refuse_objects(pd.Series(["a", None, {1}, [2]], dtype=object), "column 'a'")


@pytest.mark.parametrize("kind", [object, "string", "category"])
def test_places_are_found_whatever_the_text_is_kept_in(kind):
    levels = sorted_levels(pd.Series(["red", "blue", "green"], dtype=object))
    column = pd.Series(["green", None, "violet", "blue"], dtype=kind)
    assert_array_equal(as_places(column, levels, "column 'c'"), [1.0, np.nan, np.nan, 0.0])


def test_a_number_where_text_was_is_told():
    words = "column 'c' contains the number 3 in row 0, but text in training; pass it as text"
    with pytest.raises(DataError, match=words):
        as_places(pd.Series([3, 4]), np.array(["a", "b"], dtype=object), "column 'c'")
    assert np.isnan(as_places(pd.Series([np.nan]), np.array(["a"], dtype=object), "column 'c'")).all()


def test_a_column_is_named_or_numbered():
    names = [f"x{j}" for j in range(8)]
    assert [column_index(key, names, "kinds") for key in ("x3", np.int64(3), -5)] == [3, 3, 3]
    for key in ("y", 8, -9, True, 1.0):
        with pytest.raises(ParameterError, match=r"kinds names the unknown column .*; the columns are .* \.\.\."):
            column_index(key, names, "kinds")


def test_tables_of_plain_numbers_are_left_to_numeric_validation():
    truths = pd.DataFrame({"a": [True, False]})
    assert as_frame(truths, plain="biuf") is None
    assert as_frame(truths, plain="iuf") is truths
    assert as_frame(np.ones((2, 2)), plain="iuf") is None
    assert as_frame([[1, 2], [3, 4]], plain="iuf") is None
    assert as_frame([[1, "a"], [2]], plain="iuf") is None
    assert [kind.kind for kind in as_frame([[1, "a"], [2, "b"]], plain="iuf").dtypes] == ["i", "O"]
