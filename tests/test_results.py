"""Results are frozen, printable in a terminal and as HTML, and turn into tables."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pandas as pd
import pytest

from assay.inference import adjust_pvalues, hoeffding
from assay.results import Curve, Diagnostics, Interval, Path, Result, Summary, TestResult, Trace, format_p

x = np.array([0.1, 1.0, 10.0])
EXAMPLES = [
    Interval(0.5, 0.4, 0.6, level=0.95, method="Wilson", n=100, estimand="accuracy"),
    TestResult(2.33, 0.0198, (1.0, 30.0), "F test"),
    Curve(x, x**2, "alpha", "error", std_error=x / 10, marks={"min": 0.1}, rule=1.0, log_x=True),
    Path(x, np.array([[0.0, 1.0, 2.0], [0.0, 0.0, 3.0]]), np.ones(3), ["age", "bmi"]),
    Trace(np.array([3.0, 2.0, 1.5]), True, "the gradient is below tol"),
    Diagnostics(x, x, np.array([0.1, 0.2, 0.7]), x, x, np.array([0.0, 0.1, 2.0])),
    adjust_pvalues([0.01, 0.02, 0.5]),
    hoeffding(n=100, delta=0.05),
    Summary(
        "Least squares",
        pd.DataFrame({"estimate": [1.5, 2.0], "p_value": [1e-20, np.nan]}, index=["age", "bmi"]),
        {"rows": 100, "R2": 0.51234567, "adjusted R2": np.nan},
        ["column 'c' repeats 'b'"],
    ),
]


@pytest.mark.parametrize("result", EXAMPLES, ids=lambda result: type(result).__name__)
class TestEveryResult:
    def test_is_frozen(self, result):
        for entry in fields(result):
            with pytest.raises(FrozenInstanceError):
                setattr(result, entry.name, None)

    def test_prints(self, result):
        assert str(result)
        assert "object at 0x" not in str(result)
        assert "<table" in result._repr_html_()

    def test_has_a_table(self, result):
        frame = result.to_frame()
        assert isinstance(frame, pd.DataFrame)
        assert len(frame) > 0

    def test_survives_pickling(self, result):
        back = pickle.loads(pickle.dumps(result))
        assert str(back) == str(result)
        pd.testing.assert_frame_equal(back.to_frame(), result.to_frame())


def test_every_kind_of_result_is_tried():
    here = {kind for kind in Result.__subclasses__() if kind.__module__ == "assay.results"}
    assert {type(example) for example in EXAMPLES} == here


def test_interval_holds_what_lies_between_its_limits():
    interval = EXAMPLES[0]
    assert 0.4 in interval
    assert 0.6 in interval
    assert 0.61 not in interval


def test_the_table_of_a_summary_is_a_copy():
    summary = EXAMPLES[-1]
    frame = summary.to_frame()
    frame.loc["age", "estimate"] = 0.0
    assert summary.table.loc["age", "estimate"] == 1.5


def test_summary_says_facts_p_values_and_notes():
    text = str(EXAMPLES[-1])
    for said in ("Least squares", "rows", "100", "0.512346", "<2e-16", "1.5", "column 'c' repeats 'b'"):
        assert said in text
    assert "nan" not in text.lower()


def test_summary_prints_every_column_of_p_values_as_such():
    table = pd.DataFrame({"statistic": [1e-20], "p_value": [0.0123456], "lr_p_value": [1e-20]}, index=["age"])
    assert str(Summary("Logistic regression", table, {"rows": 100})).splitlines()[-2].split() == [
        "age",
        "1e-20",
        "0.0123",
        "<2e-16",
    ]


def test_html_escapes_names_from_the_data():
    evil = "<script>alert(1)</script>"
    table = pd.DataFrame({"estimate": [1.0]}, index=[evil])
    html = Summary(evil, table, {evil: evil}, [f"column {evil!r} is aliased"])._repr_html_()
    assert "<script>" not in html


def test_a_path_may_hold_columns_named_like_its_own():
    path = Path(x, np.zeros((2, 3)), np.ones(3), ["intercept", "alpha"])
    assert list(path.to_frame().columns) == ["alpha", "intercept", "intercept", "alpha"]


def test_trace_of_nothing_prints():
    trace = Trace(np.empty(0), False, "max_iter is zero")
    assert trace.n_iter == 0
    assert "not converged after 0 iterations" in str(trace)


def test_diagnostics_of_a_saturated_fit_print():
    nan = np.full(3, np.nan)
    assert "3 rows" in str(Diagnostics(x, 0 * x, np.ones(3), nan, nan, nan))


@pytest.mark.parametrize(("p", "said"), [(0.5, "0.5"), (0.03127, "0.0313"), (1e-17, "<2e-16"), (np.nan, "-")])
def test_p_values(p, said):
    assert format_p(p) == said
