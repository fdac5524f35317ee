"""What someone who meets the tree family for the first time runs into, and what someone who means it harm tries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from assay.errors import DataError, ParameterError
from assay.trees import (
    BaggingClassifier,
    BaggingRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    GradientBoostingRegressor,
    PrunedTreeClassifier,
    PrunedTreeRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

Array = np.ndarray


class OtherRegressor(DecisionTreeRegressor):
    """The same tree under another name, so that a bag treats it as any learner."""


class OtherClassifier(DecisionTreeClassifier):
    """Likewise for classes."""


def table(n: int = 240) -> tuple[pd.DataFrame, Array, Array]:
    """Text, categories, gaps and numbers; a number and three classes to predict."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "shop": rng.choice(["north", "south", "east", "west"], n),
            "kind": pd.Categorical(rng.choice(["a", "b"], n)),
            "age": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
        }
    )
    y = X["size"].to_numpy() + (X["shop"] == "north") + rng.normal(size=n) / 2
    return X, y, np.array(["low", "mid", "top"])[np.digitize(y, [-0.5, 0.8])]


# Bagged trees read and sort the table once.


@pytest.mark.parametrize("options", [{}, {"bootstrap": False, "max_samples": 0.5}, {"max_features": 0.5}])
@pytest.mark.parametrize("limits", [{}, {"ccp_alpha": 0.01}, {"max_features": 2, "min_samples_leaf": 4}])
def test_bagged_trees_are_those_that_fit_would_grow(options: dict[str, Any], limits: dict[str, Any]) -> None:
    X, y, labels = table()
    w = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    fast, slow = (
        BaggingRegressor(base(**limits), 6, random_state=0, **options).fit(X, y, w)
        for base in (DecisionTreeRegressor, OtherRegressor)
    )
    np.testing.assert_array_equal(fast.predict(X), slow.predict(X))
    np.testing.assert_array_equal(fast.oob_prediction_, slow.oob_prediction_)
    for mine, other in zip(fast.estimators_, slow.estimators_, strict=True):
        assert mine.export_text() == other.export_text()
        assert mine.get_params() == other.get_params()
    for vote in ("majority", "probability"):
        fast, slow = (
            BaggingClassifier(base(**limits), 6, vote=vote, random_state=0, **options).fit(X, labels, w)
            for base in (DecisionTreeClassifier, OtherClassifier)
        )
        np.testing.assert_array_equal(fast.predict_proba(X), slow.predict_proba(X))
        assert fast.oob_error_.estimate == slow.oob_error_.estimate


def test_bagged_trees_answer_rows_as_they_come() -> None:
    X, y, labels = table()
    bag = BaggingRegressor(n_estimators=5, random_state=0).fit(X, y)
    all_rows = bag.predict(X)
    assert bag.predict(X.iloc[[7]])[0] == all_rows[7]
    unseen = X.iloc[[7]].assign(shop="moon")
    assert np.isfinite(bag.predict(unseen)).all()
    one = bag.estimators_[2]
    np.testing.assert_array_equal(one.feature_names_in_, X.columns)
    np.testing.assert_allclose(all_rows, np.mean([tree.predict(X) for tree in bag.estimators_], axis=0), rtol=1e-12)
    assert set(BaggingClassifier(n_estimators=5).fit(X, labels).estimators_[0].classes_) == set(labels)


# Weights have no unit.


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-700, 1e-6, 1 / 240, 1e5, 2.0**700, 2.0**1000])
@pytest.mark.parametrize("which", ["tree", "pruned", "forest", "classes"])
def test_the_unit_of_the_weights_does_not_matter(which: str, scale: float) -> None:
    X, y, labels = table()
    w = np.random.default_rng(1).uniform(0.5, 2, len(X))
    makers = {
        "tree": (DecisionTreeRegressor(), DecisionTreeClassifier()),
        "pruned": (PrunedTreeRegressor(random_state=0), PrunedTreeClassifier(random_state=0)),
        "forest": (RandomForestRegressor(4, random_state=0), RandomForestClassifier(4, random_state=0)),
        "classes": (DecisionTreeRegressor(max_depth=2), DecisionTreeClassifier(class_weight={"low": 2, "mid": 1.5})),
    }
    for model, target in zip(makers[which], (y, labels), strict=True):
        expected = model.fit(X, target, w).export_text() if which != "forest" else model.fit(X, target, w).predict(X)
        model.fit(X, target, w * scale)
        found = model.export_text() if which != "forest" else model.predict(X)
        assert np.array_equal(expected, found)
        assert not isinstance(found, str) or "n = " in found.splitlines()[1]  # it has learnt something


@pytest.mark.parametrize("model", [RandomForestRegressor(4, random_state=0), RandomForestClassifier(4, random_state=0)])
def test_a_forest_learns_from_equal_weights_of_any_size(model: Any) -> None:
    X, y, labels = table()
    target = labels if hasattr(model, "vote") else y
    expected = model.fit(X, target, np.full(len(X), 0.5)).predict(X)
    for weight in (2.0**-1000, 2.0**700):
        np.testing.assert_array_equal(model.fit(X, target, np.full(len(X), weight)).predict(X), expected)


def test_standard_errors_of_pruning_count_rows_not_units_of_weight() -> None:
    X, y, _ = table()
    plain = PrunedTreeRegressor(random_state=0).fit(X, y).cp_table_
    shares = PrunedTreeRegressor(random_state=0).fit(X, y, np.full(len(X), 1 / len(X))).cp_table_
    np.testing.assert_allclose(shares.xstd, plain.xstd, rtol=1e-9)
    assert shares.chosen == plain.chosen
    # Whole numbers are repetitions: each row twice is as if there were twice the rows.
    double = PrunedTreeRegressor(random_state=0).fit(X, y, np.full(len(X), 2)).cp_table_
    np.testing.assert_allclose(double.xstd, plain.xstd / np.sqrt(2), rtol=1e-9)


# Ctrl-C.


@pytest.mark.parametrize("model", [DecisionTreeRegressor(), PrunedTreeRegressor(), BaggingRegressor(n_estimators=2)])
def test_an_interrupt_in_a_kernel_is_an_interrupt(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr("assay.trees._tree.grow_exact", interrupted)
    X, y, _ = table()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)


def test_other_errors_of_a_kernel_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise SystemError("something else")

    monkeypatch.setattr("assay.trees._forest.grow_binned", broken)
    X, y, _ = table()
    with pytest.raises(SystemError, match="something else"):
        RandomForestRegressor(2).fit(X, y)


# Names and prices.


def test_the_quantile_is_not_called_alpha() -> None:
    X, y, _ = table()
    with pytest.raises(ParameterError, match=r"pass quantile=0.95"):
        GradientBoostingRegressor(loss="quantile", alpha=0.95).fit(X, y)
    high = GradientBoostingRegressor(loss="quantile", quantile=0.95, alpha=0.95, n_estimators=20).fit(X, y)
    assert np.mean(y <= high.predict(X)) > 0.8


@pytest.mark.parametrize("risk", [None, "criterion"])
def test_a_pruned_copy_knows_its_price(risk: str | None) -> None:
    X, _, labels = table()
    tree = PrunedTreeClassifier(random_state=0).fit(X, labels)
    path = tree.cost_complexity_path(risk)
    for k in (0, path.alpha.size // 2, path.alpha.size - 1):
        for other in (tree.prune(path.alpha[k], risk), tree.prune_leaves(int(path.leaves[k]), risk)):
            assert other.n_leaves_ == path.leaves[k]
            assert other.alpha_ == path.alpha[k]
            assert other.ccp_alpha_ == path.ccp_alpha[k]
    assert tree.alpha_ == tree.cp_table_.cp[tree.cp_table_.chosen]


@pytest.mark.parametrize("name", ["export_text", "rules", "plot"])
def test_help_lists_the_options(name: str) -> None:
    text = getattr(DecisionTreeRegressor, name).__doc__ or ""
    assert "| decimals" in text
    assert "assay.trees.export_text" not in text


@pytest.mark.parametrize("model", [DecisionTreeRegressor(), RandomForestRegressor(2), GradientBoostingRegressor()])
def test_other_columns_than_in_fit_are_named_in_one_sentence(model: Any) -> None:
    X, y, _ = table()
    model.fit(X, y)
    for other, said in ((X[X.columns[::-1]], "same order"), (X.drop(columns="age"), "- age"), (X.assign(z=1), "- z")):
        with pytest.raises(DataError, match=f"{said}.*; pass the columns of fit, in the same order") as caught:
            model.predict(other)
        assert "\n" not in str(caught.value)
