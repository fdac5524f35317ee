"""Reading: every format gives the same table, only numbers become numbers, and malformed files give one sentence."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from assay.errors import AssayError, DataError, DataTypeError, ParameterError
from assay.experiment.columns import Columns
from assay.experiment.study import run
from assay.experiment.table import reading as _reading
from assay.experiment.table.table import KINDS, Table, read_table
from tests.experiment.malformed import tables

N = 60
rng = np.random.default_rng(4)
FRAME = pd.DataFrame(
    {
        "number": rng.normal(size=N).round(6),
        "count": rng.integers(0, 9, N),
        "gaps": np.where(np.arange(N) % 7 == 0, np.nan, rng.normal(size=N).round(6)),
        "colour": rng.choice(["red", "green", "blue"], N),
        "day": pd.date_range("2021-03-01", periods=N, freq="36h"),
        "remark": [f"the {a} room number {i}" for i, a in enumerate(rng.choice(["warm", "cold", "big"], N))],
        "code": [f"K{i * 7919 % 1000:03d}x" for i in range(N)],
        "row": np.arange(100, 100 + N),
    }
)
EXPECTED = ["number", "number", "number", "category", "date", "text", "id", "id"]
NOTHING_VARIES = ("one cell", "one row", "one column", "constant columns")
MALFORMED = tables(wide=50_000)


def csv(tmp_path, text, name="t.csv", **options):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(path, **options)


def column(tmp_path, cells, **options):
    """The one odd column of a small file."""
    cells = [str(cell) for cell in cells]
    lines = [f'{i % 7},"{cell}"' for i, cell in enumerate(cells)]
    return csv(tmp_path, "\n".join(["x,odd", *lines]), **options)


def check_form(table: Table) -> None:
    """What every table promises, whatever it came from."""
    frame = table.frame
    assert list(frame.columns) == list(table.kinds) == list(table.reasons)
    assert frame.columns.is_unique
    assert all(type(name) is str for name in frame.columns)
    for j, (name, kind) in enumerate(list(table.kinds.items())[:300]):
        values, dtype = frame.iloc[:, j].to_numpy(), frame.dtypes.iloc[j]
        assert kind in KINDS
        assert table.reasons[name]
        if kind == "number":
            assert dtype in (np.float64, np.int64)
            assert not np.isinf(values).any()
        elif kind == "date":
            assert dtype == np.dtype("datetime64[ns]")
        elif kind == "id":
            assert dtype in (np.int64, np.float64, object)
        else:
            assert dtype == np.dtype(object)
            assert all(value is None or type(value) is str for value in values)


# Formats.


def write(frame, path):
    ending = "".join(path.suffixes)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if ending.startswith((".csv", ".tsv", ".txt")):
        sep = "\t" if ending.startswith(".tsv") else ","
        content = frame.to_csv(index=False, sep=sep).encode()
        squeeze = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}
        path.write_bytes(squeeze.get(path.suffix, bytes)(content))
    elif ending == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("inside.csv", frame.to_csv(index=False))
    elif ending == ".parquet":
        parquet.write_table(table, path)
    elif ending == ".feather":
        feather.write_feather(table, path, compression="lz4")
    elif ending == ".arrow":
        with ipc.new_file(path, table.schema) as sink:
            sink.write_table(table)
    else:
        with ipc.new_stream(path, table.schema) as sink:
            sink.write_table(table)
    return path


def zstd(content):
    return pa.compress(content, "zstd", asbytes=True)


@pytest.mark.parametrize(
    "ending",
    [
        *(".csv", ".txt", ".tsv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zst", ".tsv.gz", ".zip"),
        *(".parquet", ".feather", ".arrow", ".ipc"),
    ],
)
def test_every_format_gives_the_same_table(ending, tmp_path):
    table = read_table(write(FRAME, tmp_path / f"t{ending}"))
    check_form(table)
    assert list(table.kinds.values()) == EXPECTED
    assert table.name == f"t{ending}"
    assert table.notes == ()
    for name in FRAME:
        ours, theirs = table.frame[name].to_numpy(), FRAME[name].to_numpy()
        assert_array_equal(ours, theirs)


def test_frames_of_every_make_give_the_same_table():
    import polars

    arrow = pa.Table.from_pandas(FRAME, preserve_index=False)
    expected = read_table(FRAME)
    check_form(expected)
    makes = [arrow, arrow.to_batches()[0], polars.from_arrow(arrow), polars.from_arrow(arrow).lazy()]
    makes += [FRAME.convert_dtypes(), FRAME.astype({"colour": "category"}), FRAME.astype(object), FRAME[::-1][::-1]]
    for make in makes:
        table = read_table(make)
        check_form(table)
        assert table.kinds == expected.kinds
        pd.testing.assert_frame_equal(table.frame, expected.frame)


def test_what_is_no_table_is_refused_in_a_sentence(tmp_path):
    for source in (np.eye(3), [[1, 2]], 5, None, {"a": [1]}):
        with pytest.raises(DataTypeError, match="expected a table"):
            read_table(source)
    with pytest.raises(DataError, match="no such file"):
        read_table(tmp_path / "nowhere.csv")
    with pytest.raises(DataError, match="directory"):
        read_table(tmp_path)
    with pytest.raises(DataError, match="no columns"):
        read_table(pd.DataFrame(index=[0, 1]))
    with pytest.raises(DataError, match="no rows"):
        read_table(pd.DataFrame({"a": []}))
    with pytest.raises(DataTypeError, match="'z' contains complex"):
        read_table(pd.DataFrame({"z": [1j, 2]}))
    with pytest.raises(DataTypeError, match="'l' contains a set in row 1"):
        read_table(pd.DataFrame({"l": [1, {2}]}))


def test_a_target_apart_from_its_table_is_refused():
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0]})
    for target in (frame["y"], frame["y"].to_numpy(), ["y"], 1):
        with pytest.raises(DataTypeError, match="expected the name of a column as target"):
            run(frame[["x"]], target)


def test_one_row_as_a_series_is_refused_with_the_way_to_make_a_table_of_it():
    with pytest.raises(DataTypeError, match=r"expected a table, got a Series; pass one row as frame.iloc\[\[0\]\]"):
        read_table(pd.DataFrame({"x": [1.0], "y": ["a"]}).iloc[0])


# Malformed files.


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_tables_give_a_result_or_one_sentence(name, tmp_path):
    case = MALFORMED[name]
    try:
        table = read_table(case.write(tmp_path), target="y")
    except AssayError as error:
        message = str(error)
        assert not case.reads, message
        assert "\n" not in message
        assert 10 < len(message) < 500
        return
    assert case.reads
    check_form(table)
    assert all(line.isprintable() for line in str(table).split("\n"))
    kinds = {key: kind for key, kind in table.kinds.items() if key != "y"}
    if name in NOTHING_VARIES:
        with pytest.raises(AssayError, match=r"no column|kinds must be"):
            Columns(kinds).fit(table.frame)
    else:
        assert np.isfinite(Columns(kinds).fit_transform(table.frame)).all()


def test_a_packed_file_may_not_unfold_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(_reading, "ROOM", 1 << 16)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"x,y\n" + b"1,2\n" * (1 << 20)))
    with pytest.raises(DataError, match="decompresses to more than"):
        read_table(path)


def test_errors_name_the_line(tmp_path):
    with pytest.raises(DataError, match=r"2 fields in line 5 but 3 column names"):
        csv(tmp_path, 'a,b,c\n1,"two\nlines",3\n4,5,6\n7,8\n')
    with pytest.raises(DataError, match="1 field in line 3"):
        csv(tmp_path, "a,b\n1,2\nx\n3,4\n")
    with pytest.raises(DataError, match="NUL byte in line 3"):
        csv(tmp_path, "a,b\n1,2\n\x00,2\n")
    with pytest.raises(DataError, match="never closed"):
        csv(tmp_path, 'a,b\n1,2\n"3,4\n5,6\n')


# Encodings and separators.


@pytest.mark.parametrize(
    ("encoding", "note"),
    [
        ("utf-8", ""),
        ("utf-8-sig", ""),
        ("utf-16", "UTF-16"),
        ("latin-1", "line 1 is not UTF-8"),
        ("cp1252", "latin-1"),
    ],
)
def test_encodings(encoding, note, tmp_path):
    table = csv(tmp_path, "größe,ort\n1,Köln\n2,Zürich\n".encode(encoding))
    assert list(table.frame) == ["größe", "ort"]
    assert list(table.frame["ort"]) == ["Köln", "Zürich"]
    assert len(table.notes) == bool(note)
    assert note in "".join(table.notes)


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
def test_separators_are_found(sep, tmp_path):
    text = "\n".join(sep.join(row) for row in [["a", "b", "c"], ["1", '"x, y; z|t"', "3.5"], ["2", "w", "4.5"]])
    table = csv(tmp_path, text)
    assert list(table.frame["a"]) == [1, 2]
    assert list(table.frame["c"]) == [3.5, 4.5]
    assert list(table.frame["b"]) == ["x, y; z|t", "w"]


def test_decimal_commas_are_numbers_where_no_doubt_is_left(tmp_path):
    table = csv(tmp_path, "a;b;c\n1,5;2,250;x\n-0,25;1,125;y\n3;4;z\n")
    assert_array_equal(table.frame["a"], [1.5, -0.25, 3])
    assert_array_equal(table.frame["b"], [2.25, 1.125, 4])
    assert "decimal comma" in table.notes[0]
    doubtful = csv(tmp_path, "a;b\n1,500;x\n2,250;y\n")
    assert doubtful.kinds["a"] == "category"


# Numbers.


@pytest.mark.parametrize(
    "word", ["inf", "-inf", "Infinity", "1e999", "4e492493924924", "1_000", "0x1F", "1,000", "\uff11\uff12", "1e5x"]
)
def test_words_that_look_like_numbers_stay_words(word, tmp_path):
    for cells in ([word] * 3 + ["1.5"] * 30, [word] * 33):
        table = column(tmp_path, cells)
        assert table.kinds["odd"] == "category"
        assert table.frame["odd"].iloc[0] == word
    mixed = column(tmp_path, ["2.5"] * 30 + [word])
    assert f"first {word!r} in line 32" in mixed.reasons["odd"]
    if word == "1,000":  # beside 2.5 the comma can only stand between thousands, if somebody says that it is a number
        assert column(tmp_path, ["2.5"] * 30 + [word], kinds={"odd": "number"}).frame["odd"].iloc[-1] == 1000
        return
    with pytest.raises(DataError, match=r"'odd' of t.csv cannot be a number: .* in line 32 is not a finite number"):
        column(tmp_path, ["2.5"] * 30 + [word], kinds={"odd": "number"})


def test_words_for_missing_are_listed_and_reported(tmp_path):
    cells = ["1.5", "", "NA", "N/A", "null", "NaN", "?", "-", " 2 ", "NA"]
    table = column(tmp_path, cells)
    assert table.kinds["odd"] == "number"
    assert_array_equal(table.frame["odd"], [1.5, *[np.nan] * 7, 2, np.nan])
    assert "'-', '?', 'N/A', 'NA', 'NaN', 'null' read as missing in 7 cells" in table.reasons["odd"]
    words = column(tmp_path, ["red", "NA", "blue", "?"])
    assert list(words.frame["odd"]) == ["red", None, "blue", None]
    assert "'?', 'NA' read as missing in 2 cells" in words.reasons["odd"]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.none(), min_size=2, max_size=30))
def test_finite_numbers_survive_the_file(tmp_path_factory, cells):
    text = "x,odd\n" + "".join(f"{i},{'' if cell is None else repr(cell)}\n" for i, cell in enumerate(cells))
    table = csv(tmp_path_factory.mktemp("t"), text, target="odd") if any(c is not None for c in cells) else None
    if table is not None and table.kinds["odd"] == "number":
        assert_array_equal(table.frame["odd"].to_numpy(float), [np.nan if c is None else c for c in cells])
    elif table is not None:  # only whole numbers too long to be exact may stay words, and repr writes none
        raise AssertionError(table.reasons["odd"])


def test_codes_are_not_numbers(tmp_path):
    zeros = column(tmp_path, ["01234", "10115", "01234"])
    assert zeros.kinds["odd"] == "category"
    assert list(zeros.frame["odd"]) == ["01234", "10115", "01234"]
    assert "leading zeros" in zeros.reasons["odd"]
    long = column(tmp_path, ["12345678901234567890", "12345678901234567891"] * 3)
    assert long.kinds["odd"] == "category"
    assert long.frame["odd"].nunique() == 2
    assert column(tmp_path, ["0", "10", "0.5"]).kinds["odd"] == "number"


def test_infinities_of_a_frame_are_gaps_and_said_so():
    table = read_table(pd.DataFrame({"x": [1.0, np.inf, -np.inf, 2.0]}))
    assert_array_equal(table.frame["x"], [1, np.nan, np.nan, 2])
    assert "infinity read as missing in 2 cells" in table.reasons["x"]


# Kinds.


def test_small_whole_numbers_stay_numbers(tmp_path):
    table = csv(tmp_path, "a,b\n" + "".join(f"{i % 2},{i % 3}\n" for i in range(50)))
    assert set(table.kinds.values()) == {"number"}
    assert table.frame.dtypes.tolist() == [np.int64] * 2


def test_booleans_are_categories():
    table = read_table(pd.DataFrame({"b": [True, False, True], "c": pd.array([True, None, False], dtype="boolean")}))
    assert set(table.kinds.values()) == {"category"}
    assert list(table.frame["b"]) == ["True", "False", "True"]
    assert list(table.frame["c"]) == ["True", None, "False"]


def test_ids():
    n = 50
    shuffled = np.random.default_rng(0).permutation(n) * 17
    frame = pd.DataFrame(
        {
            "row": np.arange(n),
            "year": np.arange(1950, 1950 + n),
            "patient_id": shuffled,
            "paid": shuffled,
            "StoreID": np.arange(n) % 5,
            "uid": [f"u{i}" for i in range(n)],
            "price": shuffled + 0.5,
        }
    )
    expected = ["id", "number", "id", "number", "category", "id", "number"]
    assert list(read_table(frame).kinds.values()) == expected
    assert read_table(frame, target="row").kinds["row"] == "number"
    assert read_table(frame, target="uid").kinds["uid"] == "category"


def test_dates(tmp_path):
    def kind(cells):
        table = column(tmp_path, cells)
        return table.kinds["odd"], table.frame["odd"]

    assert kind(["2020-01-05", "", "2021-12-31"])[0] == "date"
    found = kind(["2020-01-05T10:00:00+02:00", "2020-01-05T10:00:00Z"])
    assert found[0] == "date"
    assert list(found[1]) == [pd.Timestamp("2020-01-05 08:00"), pd.Timestamp("2020-01-05 10:00")]
    assert kind(["13/02/2020", "01/02/2020"])[1].iloc[1] == pd.Timestamp("2020-02-01")
    assert kind(["02/13/2020", "01/02/2020"])[1].iloc[1] == pd.Timestamp("2020-01-02")
    assert kind(["01/02/2020", "03/04/2020"])[0] == "category"
    assert kind(["2020-02-30", "2020-01-01"])[0] == "category"
    assert kind(["2020-01-05", "soon"])[0] == "category"
    far = column(tmp_path, ["2020-01-05", "9999-12-31"])
    assert far.kinds["odd"] == "date"
    assert far.frame["odd"].isna().tolist() == [False, True]
    assert "after 2261" in far.reasons["odd"]


def test_overrides_and_what_they_refuse(tmp_path):
    text = "a,b,c,d\n1,x,2020-01-01,07\n2,y,2020-01-02,08\n"
    table = csv(tmp_path, text, kinds={"a": "category", "b": "text", "c": "category", "d": "number"})
    assert list(table.frame["a"]) == ["1", "2"]
    assert list(table.frame["c"]) == ["2020-01-01", "2020-01-02"]
    assert list(table.frame["d"]) == [7, 8]
    assert table.reasons["a"] == "as specified"
    for kinds, words in (
        ({"b": "number"}, r"column 'b' of t.csv cannot be a number: 'x' in line 2"),
        ({"b": "date"}, r"column 'b' of t.csv cannot be a date: 'x' in line 2"),
        ({"a": "date"}, r"column 'a' of t.csv contains numbers"),
        ({"c": "number"}, r"column 'c' of t.csv contains dates"),
        ({"bb": "number"}, r"no column 'bb'; did you mean 'b'"),
    ):
        with pytest.raises(DataError, match=words):
            csv(tmp_path, text, kinds=kinds)
    with pytest.raises(ParameterError, match="unknown kind 'float' for column 'a'; choose one of number"):
        csv(tmp_path, text, kinds={"a": "float"})


def test_words_of_a_typed_table_stay_words_unless_asked():
    frame = pd.DataFrame({"x": ["1", "2", "3"] * 10})
    assert read_table(frame).kinds == {"x": "category"}
    assert read_table(frame, kinds={"x": "number"}).frame["x"].sum() == 60


def test_numbers_as_categories_have_one_name_whatever_their_type(tmp_path):
    asked = {"x": "category"}
    typed = [
        pd.Series([1, 2, 10]),
        pd.Series([1.0, 2, 10]),
        pd.Series(["1", "2", "10"]),
        pd.Series([1, 2, 10]).astype("category"),
    ]
    tables_ = [read_table(pd.DataFrame({"x": values}), kinds=asked) for values in typed]
    tables_.append(csv(tmp_path, "x\n1\n2\n10\n", kinds=asked))
    assert all(list(table.frame["x"]) == ["1", "2", "10"] for table in tables_)


def test_names_are_made_unique_and_noted(tmp_path):
    table = csv(tmp_path, 'x,x,x_2,, y ,"a\nb"\n1,2,3,4,5,6\n')
    assert list(table.frame) == ["x", "x_2_", "x_2", "column_4", "y", "a b"]
    assert [note.split(":")[0] for note in table.notes] == [
        "whitespace in column names was removed",
        "columns without a name were named",
        "duplicate column names were renamed",
    ]


def test_target_is_looked_for_and_its_gaps_counted(tmp_path):
    with pytest.raises(DataError, match="no column 'Price'; did you mean 'price'"):
        csv(tmp_path, "size,price\n1,2\n", target="Price")
    with pytest.raises(DataError, match="missing in every row"):
        csv(tmp_path, "size,price\n1,\n2,NA\n", target="price")
    assert "missing in 1 of 2 rows" in csv(tmp_path, "size,price\n1,\n2,3\n", target="price").notes[0]


def test_the_source_is_not_touched_and_the_table_prints():
    before = FRAME.copy()
    table = read_table(FRAME)
    table.frame["number"] = 0.0
    pd.testing.assert_frame_equal(FRAME, before)
    assert "remark  text" in str(table)
    assert repr(table) == str(table)
    assert "<table" in table._repr_html_()
    facts = table.to_frame()
    assert facts.loc["gaps", "missing"] == FRAME["gaps"].isna().sum()
    assert list(facts) == ["kind", "missing", "reason"]
