"""Errors say what and what to do, are the built-ins scikit-learn expects, and cross process borders."""

from __future__ import annotations

import pickle

import pytest

import assay.errors
from assay.errors import (
    AssayError,
    AssayWarning,
    DataError,
    DataTypeError,
    DivergenceError,
    ParameterError,
)

ERRORS = [DataError, DataTypeError, DivergenceError, ParameterError]


@pytest.mark.parametrize("kind", ERRORS)
def test_message_is_what_and_remedy(kind):
    error = kind("row 3 is odd", remedy="drop it")
    assert str(error) == "row 3 is odd; drop it"
    assert (error.what, error.remedy) == ("row 3 is odd", "drop it")
    assert str(kind("row 3 is odd")) == "row 3 is odd"
    assert kind("row 3 is odd").remedy is None


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_survive_pickling(kind):
    back = pickle.loads(pickle.dumps(kind("what", remedy="remedy")))
    assert type(back) is kind
    assert (str(back), back.what, back.remedy) == ("what; remedy", "what", "remedy")


def test_one_tree_under_the_built_ins():
    for name in assay.errors.__all__:
        kind = getattr(assay.errors, name)
        assert issubclass(kind, AssayError | AssayWarning)
        if issubclass(kind, AssayError) and kind is not AssayError:
            assert issubclass(kind, ValueError | TypeError | RuntimeError)
    assert issubclass(DataTypeError, TypeError)
    assert issubclass(AssayWarning, UserWarning)
