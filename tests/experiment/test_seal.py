"""Seals: the same rows fall on the same side whoever asks; vaults keep them; the ledger knows every seal."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import DataError, DataTypeError, ParameterError, SealError
from assay.experiment.storage import Ledger
from assay.experiment.test_set.changing import record_scored
from assay.experiment.test_set.digests import canonical, labels, uniform
from assay.experiment.test_set.looks import record_look
from assay.experiment.test_set.seal import NONE, Seal, known_seals, make_seal, row_digests, seal_rows, side
from assay.experiment.test_set.size import SMALL, Precision, choose_size
from assay.experiment.test_set.vault import Vault
from tests.naive.experiment import cell_content, stratum_threshold_counts


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "float": rng.standard_normal(n),
            "short": np.round(rng.random(n) * 100, 2),
            "gaps": np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 9, n)),
            "whole": rng.integers(-50, 50, n),
            "large": rng.integers(-(2**62), 2**62, n),
            "flag": rng.random(n) < 0.5,
            "narrow": rng.random(n).astype(np.float32),
            "zip": [f"{code:05d}" for code in rng.integers(0, 99_999, n)],
            "word": rng.choice(["red", "größe", "x,y", "NA", "Inf", "1e999", "-"], n),
            "date": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 10**6, n), unit="s"),
            "y": rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1]),
        }
    )


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.db")


# Digests.


def readers():
    frame = table()
    text = frame.to_csv(index=False)
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    fixed = frame.assign(word=frame["word"].where(frame["word"] != "NA"))
    return {
        "csv, pandas": pd.read_csv(io.StringIO(text)),
        "csv, all text": pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False),
        "csv, nullable": pd.read_csv(io.StringIO(text), dtype_backend="numpy_nullable"),
        "csv, arrow types": pd.read_csv(io.StringIO(text), dtype_backend="pyarrow"),
        "csv, arrow": pyarrow.csv.read_csv(io.BytesIO(text.encode())),
        "csv, arrow to pandas": pyarrow.csv.read_csv(io.BytesIO(text.encode())).to_pandas(),
        "parquet": pd.read_parquet(io.BytesIO(buffer.getvalue())),
        "arrow": pa.Table.from_pandas(frame),
        "objects": frame.astype(object),
        "categories": frame.astype(dict.fromkeys(("whole", "zip", "word", "date", "flag", "gaps"), "category")),
        "nullable": frame.convert_dtypes(),
        "missing as None": fixed.astype(object).where(fixed.notna(), None),
        "narrow": frame.astype({"whole": np.int8, "gaps": np.float32, "large": "Int64"}),
        "wide": frame.astype({"whole": float, "narrow": np.float64, "flag": int}),
        "seconds": frame.assign(date=frame["date"].astype("datetime64[s]")),
        "zone": frame.assign(date=frame["date"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")),
        "columns turned": frame[frame.columns[::-1]],
        "strings": frame.astype({"zip": "string", "word": "str"}),
    }


@pytest.mark.parametrize("name", readers())
def test_digests_do_not_know_where_the_table_came_from(name):
    assert np.array_equal(row_digests(readers()[name]), row_digests(table()))


def test_digests_of_polars_frames():
    import polars

    frame, wanted = table(), row_digests(table())
    text = frame.to_csv(index=False).encode()
    assert np.array_equal(row_digests(polars.from_pandas(frame)), wanted)
    assert np.array_equal(row_digests(polars.read_csv(text)), wanted)
    assert np.array_equal(row_digests(polars.read_csv(text, try_parse_dates=True)), wanted)
    assert np.array_equal(
        row_digests(polars.from_pandas(frame).with_columns(polars.col("y").cast(polars.Categorical))), wanted
    )


def test_digests_follow_their_rows_and_see_every_column():
    frame, rng = table(), np.random.default_rng(1)
    digests, order = row_digests(frame), rng.permutation(300)
    assert np.array_equal(row_digests(frame.iloc[order]), digests[order])
    assert np.unique(digests).size == 300
    for name in frame:
        other = frame.assign(**{name: frame[name].iloc[::-1].to_numpy()})
        same = [
            cell_content(a) == cell_content(b) for a, b in zip(frame[name].tolist(), other[name].tolist(), strict=True)
        ]
        assert np.array_equal(row_digests(other) == digests, same)
    assert not (row_digests(frame, salt="1") == digests).any()
    assert not (row_digests(frame.rename(columns={"y": "z"})) == digests).any()


def test_digests_are_the_same_everywhere():
    """Fixed numbers: another machine, version or seed must give them too."""
    frame = pd.DataFrame({"b": ["x", None, "ü"], "a": [1, 2.5, np.nan]})
    assert [f"{digest:016x}" for digest in row_digests(frame)] == FIXED
    code = "import pandas as pd; from assay.experiment.test_set.seal import row_digests; "
    code += "print(row_digests(pd.DataFrame({'a': ['1', '2.5', ''], 'b': ['x', '', 'u\\u0308']})).tolist())"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=600)
    assert done.stdout.strip() == str(row_digests(frame).tolist())


FIXED = ["73d39a9321aaf775", "e78ba81e2baf6084", "c49f5dd6601b59cf"]

CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(2**53 - 2, 2**53 + 4),
    st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, -(2**63), -(2**53) - 1, 10**30, 10**30 + 1]),
    st.sampled_from([0.0, -0.0, 0.5, 1.0, float("nan"), float("inf"), -float("inf"), 2.0**60, 0.1, 1e300, 5e-324]),
    st.sampled_from(
        ["", "NA", "1", "1.0", "01", "-0", "0.1", ".5", "true", "FALSE", "a", "é", "e\u0301", "1e999", "2e999"]
    ),
    st.sampled_from(["9007199254740993", "9007199254740992", " 1", "1 ", "nan", "\u0661", "2020-13-01", "x\0", "x"]),
)


@given(st.lists(CELLS, min_size=2, max_size=12))
def test_cells_are_equal_exactly_when_their_content_is(cells):
    column = pd.Series(cells, dtype=object)
    bits, tags = canonical(column, "x")
    for i in range(len(cells)):
        for j in range(i):
            equal = bits[i] == bits[j] and tags[i] == tags[j]
            assert equal == (cell_content(cells[i]) == cell_content(cells[j])), (cells[i], cells[j])


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_whole_numbers_in_arrays_and_in_objects_are_the_same(values):
    array = canonical(pd.Series(values, dtype=np.int64), "x")
    for other in (pd.Series(values, dtype=object), pd.Series([str(v) for v in values]), pa.array(values)):
        assert all(np.array_equal(a, b) for a, b in zip(array, canonical(other, "x"), strict=True))


def test_what_has_no_content_is_refused():
    with pytest.raises(DataTypeError, match="column 'x' contains a list"):
        row_digests(pd.DataFrame({"x": [[1], [2]]}))
    with pytest.raises(DataTypeError, match="column 'x' contains a object"):
        row_digests(pd.DataFrame({"x": [object()]}))
    with pytest.raises(DataError, match="column 'z' is missing; choose from 'x'"):
        row_digests(pd.DataFrame({"x": [1]}), ["z"])
    with pytest.raises(DataError, match="no content"):
        row_digests(pd.DataFrame(index=[0, 1]))
    with pytest.raises(DataTypeError, match="not a table"):
        row_digests(type("Odd", (), {"columns": ["x"]})())


def test_an_empty_table_has_no_digests():
    assert row_digests(pd.DataFrame({"x": []})).size == 0


def test_every_one_of_many_columns_counts():
    wide = pd.DataFrame(np.zeros((3, 5000)), columns=[f"c{j}" for j in range(5000)])
    wide.loc[2, "c4999"] = 1.0
    first, same, other = row_digests(wide)
    assert first == same != other


def test_odd_cells_have_content():
    import datetime
    import decimal
    import uuid

    cells = [b"a", decimal.Decimal("1.50"), datetime.date(2020, 1, 31), datetime.time(3), uuid.UUID(int=5)]
    cells += [datetime.datetime(2020, 1, 31, tzinfo=datetime.UTC), np.datetime64("2020-01-31"), pd.Timedelta("1s")]
    cells += [datetime.timedelta(seconds=1), pd.Period("2020-01"), "a", 1.5, "2020-01-31", "2020-01-31T00:00:00Z"]
    pairs = list(zip(*canonical(pd.Series(cells, dtype=object), "x"), strict=True))
    assert pairs[0] == pairs[10]
    assert pairs[1] == pairs[11]
    assert pairs[2] == pairs[5] == pairs[6] == pairs[12] == pairs[13]
    assert pairs[7] == pairs[8]
    assert len(set(pairs)) == 7


def test_far_dates_and_labels():
    far = pd.Series(np.array(["3000-01-01", "0001-01-01", "NaT"], dtype="datetime64[s]"))
    bits, tags = canonical(far, "x")
    again = canonical(pd.Series(np.array(["3000-01-01", "0001-01-01", "NaT"], dtype="datetime64[ms]")), "x")
    assert np.array_equal(bits, again[0])
    assert len(set(bits.tolist())) == 3
    assert tags[2] == 0
    assert labels(pd.Series([1, 1.0, "b", None, "e\u0301", "é", True], dtype=object), "y").tolist() == [
        "1", "1", "b", "", "é", "é", "1"
    ]  # fmt: skip


# Sides.


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 0.77])
def test_each_class_has_its_share(share):
    frame = table(1000)
    seal, train, test = make_seal(frame, "y", "classification", share=share)
    assert sorted([*train, *test]) == list(range(1000))
    assert len(test) == seal.n_test == round(share * 1000)
    for name, rows in frame.groupby("y").groups.items():
        assert abs(np.isin(rows, test).sum() - share * len(rows)) <= 1, name
    assert np.array_equal(np.flatnonzero(side(seal, frame)), test)


def test_a_regression_has_one_stratum():
    seal, _, test = make_seal(table(999).drop(columns="y"), "short", "regression", share=0.3)
    assert list(seal.thresholds) == ["*"]
    assert len(test) == 300
    assert abs(seal.thresholds["*"] - 0.3) < 0.05


@given(
    st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.8, 0.95]), min_size=2, max_size=14),
    st.sampled_from([0.1, 0.5, 0.9]),
)
def test_the_threshold_is_the_nearest_that_twins_allow(numbers, share):
    from assay.experiment.test_set.cut import threshold

    wanted = round(share * len(numbers))
    limit = threshold(np.array(numbers), wanted, share, False)
    reached = np.count_nonzero(np.array(numbers) < limit)
    assert abs(reached - wanted) == pytest.approx(stratum_threshold_counts(numbers, wanted / len(numbers)))


def test_the_size_follows_from_the_precision_asked_for():
    for n, margin, wanted in (
        (100, None, 0),
        (149, None, 0),
        (150, None, 37),
        (400, None, 100),
        (5000, None, 481),
        (5000, 0.2, 121),
        (5000, 0.9, 30),
    ):
        frame = pd.DataFrame({"y": np.arange(n)})
        assert make_seal(frame, "y", "regression", precision=Precision(margin))[0].n_test == wanted
    assert make_seal(table(8000), "y", "classification")[0].n_test == 381


@given(
    st.integers(2, 20_000),
    st.floats(0.01, 0.9),
    st.floats(0.002, 0.5),
    st.sampled_from(
        [("regression", None), ("classification", "error"), ("classification", "auc"), ("classification", "risk")]
    ),
)
def test_the_size_is_at_most_a_quarter_and_enough_unless_it_says_otherwise(n, margin, rare, question):
    task, metric = question
    y = np.arange(n) < max(1, round(rare * n))
    size = choose_size(y, task, Precision(margin, metric=metric))
    taken = round(size.share * n)
    assert 0 <= taken <= n // 4
    smallest = 30 if metric not in ("auc", "risk") else max(30, int(np.ceil(15 * n / min(y.sum(), n - y.sum() or n))))
    assert (taken > 0) == (n >= SMALL and smallest <= n // 4)
    assert ("there is no test set" in size.why) == (taken == 0)
    if taken:
        assert taken >= smallest
        assert taken == min(n // 4, max(smallest, Precision(margin).units(task)))


def test_groups_count_once_however_many_rows_they_have():
    who = np.repeat(np.arange(400), np.tile([1, 9], 200))
    frame = pd.DataFrame({"who": who, "x": np.arange(who.size), "y": np.arange(who.size)})
    seal, _, test = make_seal(frame, "y", "regression", group="who")
    assert np.unique(who[test]).size == 100
    longer = pd.concat([frame, frame.assign(who=frame["who"] + 400, x=-1.0)], ignore_index=True)
    assert np.array_equal(np.flatnonzero(side(seal, longer)[: who.size]), test)
    giant = pd.DataFrame({"who": np.r_[np.zeros(1000), np.arange(200)], "y": np.arange(1200)})
    assert len(make_seal(giant, "y", "regression", group="who")[2]) <= 600


def test_the_reason_for_the_size_is_recorded(ledger):
    first = seal_rows(ledger, table(), "y", "classification")
    assert first.why.startswith("a quarter of 300 rows is the most that is set aside, and gives a rate to")
    assert seal_rows(ledger, table(), "y", "classification").why == first.why
    assert seal_rows(ledger, table(seed=9), "y", "classification", share=0.3).why == ""


def test_twins_stay_together_and_order_dtype_and_index_do_not_matter():
    frame = pd.concat([table(200), table(200).sample(100, random_state=0)], ignore_index=True)
    seal, _, test = make_seal(frame, "y", "classification")
    chosen = np.isin(np.arange(300), test)
    digests = row_digests(frame)
    for digest in np.unique(digests):
        assert np.unique(chosen[digests == digest]).size == 1
    turned = frame.sample(frac=1, random_state=1)
    again, _, rows = make_seal(turned.astype(object), "y", "classification")
    assert again.id == seal.id
    assert np.array_equal(np.sort(turned.index[rows]), test)


def test_appended_rows_change_no_side_and_are_split_alike():
    old, new = table(1000), table(3000, seed=5)
    seal, _, test = make_seal(old, "y", "classification", share=0.2)
    both = side(seal, pd.concat([old, new]))
    assert np.array_equal(np.flatnonzero(both[:1000]), test)
    assert 0.15 < both[1000:].mean() < 0.25
    unseen = new.assign(y="new class")
    assert 0.15 < side(seal, unseen).mean() < 0.25


def test_added_columns_do_not_matter_to_a_seal():
    frame = table()
    seal, _, test = make_seal(frame, "y", "classification")
    assert np.array_equal(np.flatnonzero(side(seal, frame.assign(more=1)[["more", *frame.columns]])), test)
    with pytest.raises(DataError, match="column 'zip' is missing"):
        side(seal, frame.drop(columns="zip"))


def test_groups_stay_whole():
    frame = table(1000).assign(g=np.random.default_rng(3).integers(0, 60, 1000))
    seal, train, test = make_seal(frame, "y", "classification", share=0.3, group="g")
    assert not set(frame["g"].iloc[train]) & set(frame["g"].iloc[test])
    assert 250 < len(test) < 350
    later = frame.assign(float=0.0)
    assert np.array_equal(np.flatnonzero(side(seal, later)), test)  # only the group decides
    with pytest.raises(SealError, match="one group"):
        make_seal(frame.assign(g=1), "y", "classification", group="g")
    with pytest.raises(SealError, match="one group"):
        make_seal(frame.assign(g=1), "y", "classification", share=0.3, group="g")


@pytest.mark.parametrize("kind", ["date", "text", "number", "large"])
def test_the_latest_rows_are_sealed_and_ties_whole(kind):
    frame = table(400)
    days = np.random.default_rng(2).integers(0, 30, 400)
    moments = pd.Series(pd.Timestamp("2021-01-01") + pd.to_timedelta(days, unit="D"))
    frame["t"] = {
        "date": moments,
        "text": moments.dt.strftime("%Y-%m-%d"),
        "number": pd.Series(days) - 0.5,
        "large": moments.astype("datetime64[ns]").astype("int64") + 1,
    }[kind]
    seal, train, test = make_seal(frame, "y", "classification", share=0.25, time="t")
    assert days[train].max() < days[test].min()
    assert abs(len(test) - 100) < 15
    back = Seal.from_state(seal.state(), seal.digests)
    assert np.array_equal(np.flatnonzero(side(back, frame)), test)


def test_by_time_the_share_is_exact_without_ties():
    frame = pd.DataFrame({"t": [3, 0, 7, 1, 6, 2, 5, 4], "y": range(8)})
    seal, _, test = make_seal(frame, "y", "regression", share=0.25, time="t")
    assert frame["t"][test].tolist() == [7, 6]
    assert seal.cut == 5


def test_times_that_cannot_be_ordered():
    frame = table(20)
    with pytest.raises(DataError, match="'t' is missing in row 3"):
        make_seal(frame.assign(t=[1.0, 2, 3, None, *range(16)]), "y", "classification", time="t")
    with pytest.raises(DataError, match="cannot be sorted"):
        make_seal(frame, "y", "classification", time="y")
    with pytest.raises(SealError, match="every row has the same 't'"):
        make_seal(frame.assign(t=1), "y", "classification", time="t")


def test_a_test_file_is_a_seal_made_by_someone_else():
    frame, other = table(100), pd.concat([table(60, seed=9), table(100).iloc[:7]])
    seal, train, test = make_seal(frame.assign(more=0), "y", "classification", test=other)
    assert (seal.by, seal.n_test) == ("file", 67)
    assert train.tolist() == list(range(7, 100))  # rows found in both are not trained on
    assert test.tolist() == list(range(67))
    assert side(seal, other).all()
    assert side(seal, frame).sum() == 7
    with pytest.raises(SealError, match="share no column"):
        make_seal(frame, "y", "classification", test=pd.DataFrame({"q": [1]}))
    with pytest.raises(SealError, match="has no rows"):
        make_seal(frame, "y", "classification", test=other.iloc[:0])
    with pytest.raises(SealError, match="every row of the table"):
        make_seal(frame, "y", "classification", test=frame)


def test_id_columns_do_not_part_twins():
    class Named:
        frame = pd.concat([table(50), table(50)], ignore_index=True).assign(row=np.arange(100))
        kinds = {"row": "id"}

    seal, _, test = make_seal(Named(), "y", "classification", share=0.25)
    assert "row" not in seal.columns
    chosen = np.isin(np.arange(100), test)
    assert np.array_equal(chosen[:50], chosen[50:])


def test_tables_that_cannot_be_parted():
    frame = table(10)
    for bad in (frame.iloc[:0], frame.iloc[:1]):
        with pytest.raises(SealError, match="cannot be split"):
            make_seal(bad, "y", "classification")
    with pytest.raises(SealError, match="cannot be split"):
        make_seal(pd.DataFrame({"y": [1] * 9}), "y", "regression", share=0.5)
    with pytest.raises(SealError, match="single rows of a class"):
        make_seal(pd.DataFrame({"y": list("abcd")}), "y", "classification", share=0.5)
    with pytest.raises(DataError, match="column 'nope' is missing"):
        make_seal(frame, "nope", "classification")
    with pytest.raises(ParameterError, match="task"):
        make_seal(frame, "y", "clustering")
    with pytest.raises(SealError, match="pass one of them"):
        make_seal(frame, "y", "classification", group="zip", test=frame)
    assert len(make_seal(frame.iloc[:2], "short", "regression", share=0.01)[2]) == 1


def test_every_class_leaves_a_row_to_train_on():
    frame = pd.DataFrame({"x": range(12), "y": list("aaaaaaaabbcd")})
    _, train, _ = make_seal(frame, "y", "classification", share=0.9)
    assert set(frame["y"].iloc[train]) == set("abcd")


# The ledger knows.


def test_a_rerun_shares_the_seal(ledger):
    frame = table()
    first = seal_rows(ledger, frame, "y", "classification", study="one")
    again = seal_rows(ledger, frame.sample(frac=1, random_state=0).astype(object).assign(more=1), "y", "classification")
    other_target = seal_rows(ledger, frame, "short", "regression")
    assert not first.shared
    assert again.shared
    assert other_target.shared
    assert first.seal.id == again.seal.id == other_target.seal.id
    assert len(again.test) == len(first.test)
    assert len(ledger.entries("seal")) == 1
    assert "shared since" in str(again)
    assert first.to_frame().loc[first.seal.id, "n_test"] == len(first.test)


def test_appended_rows_keep_the_seal(ledger):
    frame = table()
    first = seal_rows(ledger, frame, "y", "classification")
    longer = seal_rows(ledger, pd.concat([frame, table(100, seed=4)]), "y", "classification")
    assert longer.shared
    assert np.array_equal(longer.test[longer.test < 300], first.test)
    assert (longer.test >= 300).any()


def test_another_seal_over_the_same_rows_needs_a_reason(ledger):
    frame = table()
    first = scored(seal_rows(ledger, frame, "y", "classification", share=0.5), ledger)
    assert seal_rows(ledger, frame, "y", "classification", share=0.5).shared
    for other in ({"share": 0.7}, {"test": frame.iloc[:100]}):
        with pytest.raises(SealError, match=r"sealed as test rows on .* pass reseal with the reason"):
            seal_rows(ledger, frame.iloc[100:] if "test" in other else frame, "y", "classification", **other)
    second = seal_rows(ledger, frame, "y", "classification", reason="the first was made with the wrong target")
    assert (second.seal.salt, second.shared) == ("1", False)
    assert 20 < np.isin(second.test, first.test).sum() < 130
    third = seal_rows(ledger, frame, "y", "classification", reason="again")
    assert third.seal.salt == "2"
    assert ledger.entries("seal")[1].body["reason"] == "the first was made with the wrong target"
    assert ledger.entries("seal")[1].body["after"] == [first.seal.id]
    assert seal_rows(ledger, frame, "y", "classification").seal.id == third.seal.id
    assert [shared for _, _, shared in known_seals(ledger, frame)] == [150, 75, 75]


def test_a_test_file_is_recognised(ledger):
    frame, other = table(100), table(60, seed=9)
    first = scored(seal_rows(ledger, frame, "y", "classification", test=other), ledger)
    again = seal_rows(ledger, frame.iloc[:50], "y", "classification", test=other.iloc[::-1])
    assert again.shared
    assert again.seal.id == first.seal.id
    assert len(again.test) == 60
    with pytest.raises(SealError, match="a different way"):
        seal_rows(ledger, frame, "y", "classification", test=other.iloc[:40])


def test_other_tables_share_nothing(ledger):
    seal_rows(ledger, table(), "y", "classification")
    assert not seal_rows(ledger, table(seed=7), "y", "classification").shared
    assert not seal_rows(ledger, pd.DataFrame({"y": np.arange(40)}), "y", "regression").shared
    sealed = table().iloc[make_seal(table(), "y", "classification")[2]]
    with pytest.raises(SealError, match="no training row is left"):
        seal_rows(ledger, sealed, "y", "classification")


def test_a_group_may_be_declared_until_somebody_looks(ledger):
    frame = table().assign(who=np.arange(300) // 3)
    first = scored(seal_rows(ledger, frame, "y", "classification"), ledger)
    grouped = seal_rows(ledger, frame, "y", "classification", group="who", share=0.25)
    assert (grouped.shared, grouped.seal.by) == (False, "group")
    assert grouped.entry.body["reason"] == "'who' was declared as group before any look"
    known = np.count_nonzero(np.isin(grouped.test, first.train))
    assert known == grouped.entry.body["scored"] > 0
    assert grouped.notes[0].startswith(f"{known} of the {len(grouped.test)} test rows were training rows before")
    assert seal_rows(ledger, frame, "y", "classification", group="who").shared
    other = table(seed=5).assign(who=np.arange(300) // 3)
    opened = seal_rows(ledger, other, "y", "classification")
    record_look(ledger, opened.seal, other.iloc[opened.test], np.zeros(len(opened.test)))
    with pytest.raises(SealError, match="pass reseal with the reason"):
        seal_rows(ledger, other, "y", "classification", group="who", share=0.25)


def test_a_seal_survives_the_ledger(ledger):
    made = seal_rows(ledger, table(), "y", "classification")
    (back, entry, shared), *_ = known_seals(ledger, table())
    assert back.state() == made.seal.state()
    assert np.array_equal(back.digests, made.seal.digests)
    assert shared == len(made.test)
    assert entry.digest == made.entry.digest
    assert "75 of 300 rows sealed by a hash" in str(back)
    with pytest.raises(ValueError, match="read-only"):
        back.digests[0] = 0


def test_hash_numbers_are_uniform():
    """Kolmogorov-Smirnov over 20,000 rows; false-alarm rate 1e-6."""
    from scipy import stats

    numbers = uniform(row_digests(pd.DataFrame({"x": np.arange(20_000)})))
    assert stats.kstest(numbers, "uniform").pvalue > 1e-6
    assert numbers.min() >= 0
    assert numbers.max() < 1


# Vaults.


def test_a_vault_gives_back_what_was_put_in(tmp_path):
    frame = table().assign(text=table()["word"].astype(object).where(table()["flag"], None))
    frame = frame.astype({"word": object, "zip": object, "y": object}).iloc[5:50:3]
    vault = Vault("a1", tmp_path / "deep")
    digest = vault.write(frame)
    assert vault.path.stat().st_mode & 0o777 == 0o600
    back = vault.read(digest)
    pd.testing.assert_frame_equal(back, frame)
    assert back["text"].isna().any()
    assert next(value for value in back["text"] if not isinstance(value, str)) is None
    assert len({id(value) for value in back["word"]}) == back["word"].nunique()  # not an object per cell
    assert [path.name for path in vault.path.parent.iterdir()] == ["a1.arrow"]
    assert np.array_equal(row_digests(back), row_digests(frame))
    vault.remove()
    with pytest.raises(SealError, match="the file of the test rows is missing"):
        vault.read(digest)


def test_a_vault_lies_in_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    assert Vault("a1").path == tmp_path / "home" / "vaults" / "a1.arrow"
    for name in ("", "../a", "a/b", ".hidden"):
        with pytest.raises(SealError, match="is not a valid vault name"):
            Vault(name)


def test_a_vault_that_was_changed_is_refused(tmp_path):
    vault = Vault("a1", tmp_path)
    digest = vault.write(table(10))
    vault.write(table(11))
    with pytest.raises(SealError, match="not the ones that were sealed"):
        vault.read(digest)


def test_a_write_that_fails_leaves_the_old_vault(tmp_path, monkeypatch):
    vault = Vault("a1", tmp_path)
    digest = vault.write(table(10))

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SealError, match=r"\(no space left on device\); free some disk space"):
        vault.write(table(20))
    assert len(vault.read(digest)) == 10
    assert [path.name for path in tmp_path.iterdir()] == ["a1.arrow"]


def test_what_arrow_cannot_hold_is_said(tmp_path):
    with pytest.raises(DataTypeError, match="cannot be stored"):
        Vault("a1", tmp_path).write(pd.DataFrame({"x": [1, "a"]}, dtype=object))


# Changing a seal.


def people(groups=60, each=3):
    rng = np.random.default_rng(7)
    who = np.repeat(np.arange(groups), each)
    return pd.DataFrame(
        {"who": [f"p{one}" for one in who], "x": rng.normal(size=who.size), "y": rng.normal(size=who.size)}
    )


def scored(sealed, ledger, study="s"):
    record_scored(ledger, sealed.seal.id, study)
    return sealed


def test_before_a_fold_is_scored_a_seal_changes_freely(ledger):
    frame = people()
    seal_rows(ledger, frame, "y", "regression", share=0.2)
    larger = seal_rows(ledger, frame, "y", "regression", share=0.4)
    assert (larger.shared, larger.entry.body["reason"]) == (False, "no fold had been scored")
    assert "scored" not in larger.entry.body
    assert seal_rows(ledger, frame, "y", "regression", share=NONE).seal.by == "none"


def test_a_smaller_test_set_is_a_part_of_the_larger_and_needs_no_reason(ledger):
    frame = people()
    first = scored(seal_rows(ledger, frame, "y", "regression", share=0.4), ledger)
    smaller = scored(seal_rows(ledger, frame, "y", "regression", share=0.2), ledger, "another")
    assert set(smaller.test) < set(first.test)
    assert smaller.entry.body["reason"] == "no test row had been scored"
    with pytest.raises(SealError, match="in a different way"):
        seal_rows(ledger, frame, "y", "regression", share=0.5)
    forced = seal_rows(ledger, frame, "y", "regression", share=0.5, reason="a slip")
    assert forced.entry.body["scored"] == len(set(forced.test) - set(first.test)) + len(
        (set(forced.test) & set(first.test)) - set(smaller.test)
    )


def test_a_time_may_be_declared_beside_the_group_while_no_seal_is_opened(ledger):
    frame = people().assign(when=np.arange(180), other=np.arange(180) // 6)
    scored(seal_rows(ledger, frame, "y", "regression", share=0.2, group="who"), ledger)
    for options in ({"time": "when"}, {"time": "when", "group": "other"}):
        with pytest.raises(SealError, match="in a different way"):
            seal_rows(ledger, frame, "y", "regression", share=0.2, **options)
    both = seal_rows(ledger, frame, "y", "regression", share=0.2, time="when", group="who")
    assert both.entry.body["reason"] == "'when' was declared as time before any look"
    assert both.entry.body["scored"] > 0


def test_a_shared_seal_says_why_for_the_question_that_is_asked(ledger):
    frame = people(200, 1).assign(kind=lambda frame: np.where(frame["y"] > 0, "a", "b"))
    first = seal_rows(ledger, frame, "y", "regression")
    again = seal_rows(ledger, frame, "y", "regression", precision=Precision(level=0.99))
    assert again.shared
    assert (first.why, again.why) == tuple(
        f"a quarter of 200 rows is the most that is set aside, and gives a figure to about +-{reached}% of its value"
        for reached in (31, 41)
    )
    classes = seal_rows(ledger, frame, "kind", "classification")
    assert "percentage points" in classes.why
    assert seal_rows(ledger, frame, "y", "regression", share=0.25).why == ""


def test_a_margin_that_changes_nothing_is_said(ledger):
    frame = people(1000, 1)
    first = seal_rows(ledger, frame, "y", "regression", precision=Precision(0.15))
    assert first.notes == ()
    same = seal_rows(ledger, frame, "y", "regression", precision=Precision(0.15))
    assert (same.shared, same.notes) == (True, ())
    finer = seal_rows(ledger, frame, "y", "regression", precision=Precision(0.13))
    assert finer.shared
    (note,) = finer.notes
    assert "the requested margin of 0.13 changes nothing" in note
    assert finer.why == ""
    quarters = [seal_rows(ledger, people(500, 1), "y", "regression", precision=Precision(m)) for m in (None, 0.05)]
    assert [one.notes for one in quarters] == [(), ()]  # a quarter is the most with either


def test_groups_that_were_never_scored_are_test_groups_first(ledger):
    frame = people(each=2)
    first = scored(seal_rows(ledger, frame, "y", "regression", share=0.4), ledger)
    tested = np.isin(np.arange(len(frame)), first.test)
    whole = frame["who"].map(pd.Series(tested).groupby(frame["who"]).mean()) == 1
    grouped = seal_rows(ledger, frame, "y", "regression", share=0.2, group="who")
    assert whole.any()
    assert set(np.flatnonzero(whole)) <= set(grouped.test) or len(grouped.test) < whole.sum()
    naive = make_seal(frame, "y", "regression", share=0.2, group="who", salt="1")[2]
    count = grouped.entry.body.get("scored", 0)
    assert count == np.count_nonzero(~tested[grouped.test])
    assert count < np.count_nonzero(~tested[naive])
    assert frame["who"][grouped.test].nunique() == frame["who"][naive].nunique()
    again = seal_rows(ledger, frame.iloc[::-1], "y", "regression", share=0.2, group="who")
    assert again.shared
    assert (side(again.seal, frame) == np.isin(np.arange(len(frame)), grouped.test)).all()


def test_an_opened_seal_needs_a_reason_even_to_drop_the_test_set(ledger):
    frame = people()
    first = scored(seal_rows(ledger, frame, "y", "regression", share=0.2), ledger)
    record_look(ledger, first.seal, frame.iloc[first.test], np.zeros(len(first.test)))
    with pytest.raises(SealError, match="in a different way"):
        seal_rows(ledger, frame, "y", "regression", share=NONE)
    assert seal_rows(ledger, frame, "y", "regression", share=NONE, reason="few rows").seal.n_test == 0


def test_rows_without_a_test_set_are_not_test_rows_later(ledger):
    frame = people(40, 2)
    first = scored(seal_rows(ledger, frame, "y", "regression"), ledger)
    assert first.seal.by == "none"
    assert seal_rows(ledger, frame.iloc[::-1], "y", "regression").shared
    with pytest.raises(SealError, match="sealed as training rows"):
        seal_rows(ledger, frame, "y", "regression", share=0.25)
    rng = np.random.default_rng(8)
    more = pd.DataFrame({"who": "new", "x": rng.normal(size=320), "y": rng.normal(size=320)})
    few = seal_rows(ledger, pd.concat([people(40, 2), more[:20]], ignore_index=True), "y", "regression")
    assert few.seal.by == "none"
    grown = seal_rows(ledger, pd.concat([frame, more], ignore_index=True), "y", "regression")
    assert len(grown.test) == 100
    assert grown.test.min() >= len(frame)
    assert "scored" not in grown.entry.body
