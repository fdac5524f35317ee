"""Choosing among learners and settings: the rules by their definitions, the search by loops and by scikit-learn."""

from __future__ import annotations

import pickle
import warnings
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import loguniform, randint
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier, is_regressor
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestRegressor as PeerForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as PeerRidge
from sklearn.metrics import log_loss, mean_absolute_error, mean_squared_error, roc_auc_score, zero_one_loss
from sklearn.model_selection import GridSearchCV, KFold, ParameterSampler, RandomizedSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation import cross_validate
from assay.evaluation._trials import Trials
from assay.evaluation.learner import rows_of
from assay.evaluation.search import Search, SearchCV, search
from assay.evaluation.select import Selection, select
from assay.linear import Ridge
from assay.metrics import get_metric
from assay.progress import listen
from assay.resampling import Folds, LeaveOneOut, scheme_of
from assay.trees import RandomForestClassifier
from tests.naive.evaluation import grid_search_by_loops, one_standard_error_by_definition

mpl.use("Agg")
import matplotlib.pyplot as plt

X, Y = (part[:120] for part in load_diabetes(return_X_y=True))
XC, YC = (part[::4] for part in load_breast_cancer(return_X_y=True))
ALPHAS = [0.01, 0.1, 1.0, 10.0]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def result(name, scores, metric="mse", splits=None, losses=None, weights=None):
    """What `select` needs of a validation, with the scores written by hand on folds of ten rows."""
    n = 10 * len(scores)
    splits = splits or [(np.delete(np.arange(n), test), test) for test in np.split(np.arange(n), len(scores))]
    return SimpleNamespace(
        name=name,
        metric=get_metric(metric),
        scheme=scheme_of(splits, n),
        splits=splits,
        y=np.zeros(n),
        weights=weights,
        value=float(np.mean(scores)),
        fold_scores=np.array(scores, dtype=float),
        pseudo_values=np.array(scores, dtype=float),
        fold_losses=losses,
    )


# Errors that fall and rise with complexity, as along a path of subset sizes.
PATH = {
    "size 1": [5.0, 6.0, 5.5, 6.5],
    "size 2": [4.1, 4.6, 4.3, 4.6],
    "size 3": [4.0, 4.4, 4.2, 4.4],
    "size 4": [3.9, 4.5, 4.1, 4.4],
    "size 5": [4.4, 4.6, 4.2, 4.9],
}
TABLE = [result(name, scores) for name, scores in PATH.items()]


# The rules.


def test_best_takes_the_smallest_loss_and_the_greatest_gain():
    assert select(TABLE, rule="best").name == "size 4"
    gains = [result(name, [1 - e / 10 for e in scores], "accuracy") for name, scores in PATH.items()]
    assert select(gains, rule="best").name == "size 4"
    assert select(gains).name == select(TABLE).name


def test_paired_rule_by_hand():
    """size 3 - size 4: differences .1, -.1, .1, 0: mean .025, variance .00917, c = 1/4 + 1/3: error .0731."""
    chosen = select(TABLE)
    assert (chosen.name, chosen.best, chosen.rule) == ("size 3", "size 4", "one_se")
    row = chosen.table.loc["size 3"]
    assert_allclose([row["estimate"], row["difference"]], [4.25, 0.025], rtol=1e-12)
    assert_allclose(row["allowed"], np.sqrt((1 / 4 + 1 / 3) * np.var([0.1, -0.1, 0.1, 0.0], ddof=1)), rtol=1e-12)
    assert not chosen.table.loc["size 2", "within"]  # worse by .175 on average, and steadily


def test_classic_rule_by_hand():
    """The best has s = .275, so one standard error is .1377: 4.4 is too far from 4.225, 4.25 is not."""
    chosen = select(TABLE, paired=False)
    assert chosen.name == "size 3"
    assert_allclose(chosen.table["allowed"], np.std(PATH["size 4"], ddof=1) / 2, rtol=1e-12)


def test_within_percent_counts_from_the_best_in_either_direction():
    assert select(TABLE, rule="within", percent=0.5).name == "size 4"
    assert select(TABLE, rule="within", percent=1).name == "size 3"
    assert select(TABLE, rule="within", percent=5).name == "size 2"
    gains = [result("a", [0.90, 0.90], "r2"), result("b", [1.0, 1.0], "r2")]
    assert select(gains, rule="within", percent=10).name == "a"
    assert select(gains, rule="within", percent=9.9).name == "b"
    below_zero = [result("a", [-1.1, -1.1], "r2"), result("b", [-1.0, -1.0], "r2")]
    assert select(below_zero, rule="within", percent=10).name == "a"
    assert select(below_zero, rule="within", percent=9.9).name == "b"


def test_simplicity_is_the_order_given_a_list_or_a_key():
    names = list(PATH)
    assert select(TABLE, simplicity=names[::-1]).name == "size 4"
    assert select(TABLE, simplicity=lambda found: -int(found.name[-1])).name == "size 4"
    assert select(TABLE[::-1], simplicity=names).name == "size 3"
    assert "the order in which" in select(TABLE).why
    assert_array_equal(select(TABLE[::-1], simplicity=names).table["order"], [1, 2, 3, 4, 5])


def test_rounding_breaks_no_tie():
    noisy = [0.3 * (1 + 2e-15), 0.4, 0.6]
    for values in ([0.3, 0.4, 0.6], noisy):
        chosen = select([result("first", [0.3, 0.4, 0.6]), result("second", values)], rule="best")
        assert chosen.name == "first"
        assert chosen.table["difference"].tolist() == [0, 0]
    assert select([result("first", noisy), result("second", [0.3, 0.4, 0.6])], rule="best").name == "first"


def test_ties_go_to_the_simpler_then_to_the_first():
    same = [result(name, [1.0, 2.0]) for name in "abc"]
    assert select(same, rule="best").name == "a"
    assert select(same, rule="best", simplicity=["c", "a", "b"]).name == "c"
    assert select(same, rule="best", simplicity=lambda found: 0).name == "a"
    assert select(same, simplicity=lambda found: 0).name == "a"


def test_equally_simple_learners_are_told_apart_by_their_figures():
    apart = [result("a", [1.1, 2.2]), result("b", [1.0, 2.3]), result("c", [1.0, 2.2])]
    assert select(apart, simplicity=lambda found: 0).name == "c"


def test_every_row_counts_the_same_whatever_the_size_of_its_fold():
    splits = [(np.arange(30, 120), np.arange(30)), (np.arange(30), np.arange(30, 120))]
    found = [cross_validate(PeerRidge(alpha), X, Y, cv=splits, name=f"{alpha}") for alpha in (1.0, 2.0)]
    table = select(found, rule="best").table
    for one in found:
        assert_allclose(table.loc[one.name, "estimate"], np.concatenate(one.fold_losses).mean(), rtol=1e-12)


def test_one_validation_set_uses_its_rows():
    rng = np.random.default_rng(0)
    test = np.arange(10)
    splits = [(np.arange(10, 30), test)]
    near, far = rng.normal(1.0, 0.1, size=(2, 10))
    far = near + 0.01 + 0.05 * (far - far.mean())
    found = select(
        [
            result("a", [far.mean()], splits=splits, losses=(far,)),
            result("b", [near.mean()], splits=splits, losses=(near,)),
        ]
    )
    assert_allclose(found.table.loc["a", "allowed"], np.std(far - near, ddof=1) / np.sqrt(10), rtol=1e-9)
    assert found.errors == "over rows"
    without = select([result("a", [0.5], "auc", splits=splits), result("b", [0.6], "auc", splits=splits)])
    assert without.name == "b"
    assert "no standard error" in without.why


def test_folds_without_spread_leave_only_equals_within():
    flat = [result("a", [1.0, 1.0, 1.0]), result("b", [0.5, 0.5, 0.5]), result("c", [0.5, 0.5, 0.5])]
    assert select(flat).name == "b"
    assert select(flat, paired=False).name == "b"


tables = st.integers(2, 6).flatmap(
    lambda folds: st.lists(
        st.lists(st.floats(-100, 100).map(lambda v: round(v, 3)), min_size=folds, max_size=folds),
        min_size=1,
        max_size=6,
    )
)


@given(tables, st.randoms(), st.booleans(), st.booleans())
def test_one_se_is_never_more_complex_than_best_and_agrees_with_its_definition(scores, shuffler, paired, gain):
    order = list(range(len(scores)))
    shuffler.shuffle(order)
    sign = -1 if gain else 1
    found = [result(str(j), [sign * v for v in row], "r2" if gain else "mse") for j, row in enumerate(scores)]
    chosen = select(found, paired=paired, simplicity=lambda r: order[int(r.name)])
    best = select(found, rule="best", simplicity=lambda r: order[int(r.name)])
    assert order[int(chosen.name)] <= order[int(best.name)]
    assert chosen.best == best.name
    K = len(scores[0])
    naive = one_standard_error_by_definition(scores, order, 1 / K + 1 / (K - 1) if paired else None)
    margin = np.abs(chosen.table["difference"] - chosen.table["allowed"])
    if (margin > 1e-9).sum() >= len(scores) - 1:  # where rounding cannot decide
        assert chosen.name == str(naive)


def test_real_validations_give_the_same_figures():
    tried = [cross_validate(KNeighborsRegressor(k), X, Y, cv=5, name=f"k = {k}") for k in (40, 20, 10, 5)]
    chosen = select(tried)
    for one in tried:
        assert_allclose(chosen.table.loc[one.name, ["estimate", "std_error"]].tolist(), [one.estimate, one.std_error])
    held = [cross_validate(KNeighborsRegressor(k), X, Y, cv=LeaveOneOut(), name=f"k = {k}") for k in (40, 20)]
    chosen = select(held)
    for one in held:
        assert_allclose(chosen.table.loc[one.name, ["estimate", "std_error"]].tolist(), [one.estimate, one.std_error])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: select([]), "nothing to select"),
        (lambda: select(3), "not a list of results"),
        (lambda: select([3]), "not a result of cross_validate"),
        (lambda: select([TABLE[0], TABLE[0]]), "two results are named 'size 1'"),
        (lambda: select([TABLE[0], result("b", [1.0, 2.0])]), "different targets"),
        (lambda: select([TABLE[0], result("b", [1.0] * 4, "mae")]), "scored by mse"),
        (lambda: select([result("a", [1.0, np.inf])]), "a has no finite mse"),
        (lambda: select([result("a", [np.nan, np.nan])]), "a has no finite mse"),
        (lambda: select(TABLE, rule="two_se"), "rule = 'two_se'"),
        (lambda: select(TABLE, rule="within", percent=-1), "percent"),
        (lambda: select(TABLE, simplicity=["size 1"]), "'size 2' is missing"),
        (lambda: select(TABLE, simplicity=[*PATH, "size 9"]), "'size 9' is unknown"),
        (lambda: select(TABLE, simplicity=[*PATH, "size 1"]), "'size 1' occurs twice"),
        (lambda: select(TABLE, simplicity="size 1"), "is not a valid order"),
        (lambda: select(TABLE, simplicity=lambda r: np.nan), "one of them is NaN"),
        (lambda: select(TABLE, simplicity=lambda r: 1 if r.name == "size 1" else "x"), "cannot be put in order"),
    ],
)
def test_bad_choices_are_refused_in_one_sentence(call, says):
    with pytest.raises((ParameterError, DataError, DataTypeError), match=says):
        call()


def test_a_selection_prints_pickles_and_is_drawn():
    chosen = select(TABLE)
    assert isinstance(chosen, Selection)
    said = str(chosen)
    assert "Chosen: size 3. It is the simplest of 2 within one standard error of the best, size 4" in said
    assert "(mse 4.22): the paired difference is 0.025, its standard error 0.073. Simplicity: the order in" in said
    assert "smaller is better" in said
    assert "the difference is 0.03, one standard error 0.14." in select(TABLE, paired=False).why
    assert "the difference is 0.025, 1% of the best is 0.042." in select(TABLE, rule="within", percent=1).why
    assert select(TABLE, rule="best").why == "It has the smallest mse, 4.22, of 5."
    assert str(pickle.loads(pickle.dumps(chosen))) == said
    assert chosen.to_frame() is not chosen.table
    axes = chosen.plot()
    assert axes.get_title(loc="left") == "Chosen: size 3"
    assert [label.get_text() for label in axes.get_yticklabels()] == list(PATH)[::1]
    for options in ({"rule": "best"}, {"rule": "within", "percent": 3}, {"paired": False}):
        assert str(select(TABLE, **options))
        select(TABLE, **options).plot()
    many = [result(f"learner {j}", [j, j + 1.0]) for j in range(60)]
    assert "... and 40 more" in str(select(many))
    assert select([TABLE[0]]).why == "It is the only one."


# The search.


def test_scores_agree_with_scikit_learn_and_with_loops():
    splits = list(KFold(5, shuffle=True, random_state=1).split(X))
    space = {"max_depth": [1, 2, 4], "min_samples_leaf": [1, 5]}
    tree = DecisionTreeRegressor(random_state=0)
    found = search(tree, X, Y, space, cv=splits)
    peer = GridSearchCV(tree, space, cv=splits, scoring="neg_mean_squared_error").fit(X, Y)
    ours = found.table[[f"fold {k}" for k in range(5)]].to_numpy()
    theirs = -np.array([peer.cv_results_[f"split{k}_test_score"] for k in range(5)]).T
    assert_allclose(ours, theirs, rtol=1e-12)
    assert_allclose(found.table["estimate"], -peer.cv_results_["mean_test_score"], rtol=1e-12)
    assert found.best == peer.best_params_
    assert_array_equal(found.predict(X), peer.predict(X))
    loops = grid_search_by_loops(tree, space, X, Y, splits, lambda y, f: np.mean((y - f) ** 2))
    assert_allclose(ours, loops, rtol=1e-12)
    assert [dict(params) for params in found.candidates] == peer.cv_results_["params"]


@pytest.mark.parametrize(("metric", "scoring"), [("auc", "roc_auc"), ("log_loss", "neg_log_loss"), (None, "accuracy")])
def test_every_kind_of_prediction_agrees_with_scikit_learn(metric, scoring):
    model = make_pipeline(StandardScaler(), LogisticRegression())
    splits = list(Folds(4).split(XC[:, :5], YC))
    space = {"logisticregression__C": [0.01, 1.0]}
    found = search(model, XC[:, :5], YC, space, cv=splits, metric=metric)
    peer = GridSearchCV(model, space, cv=splits, scoring=scoring).fit(XC[:, :5], YC)
    theirs = np.array([peer.cv_results_[f"split{k}_test_score"] for k in range(4)]).T
    theirs = {"auc": theirs, "log_loss": -theirs, None: 1 - theirs}[metric]
    assert_allclose(found.table[[f"fold {k}" for k in range(4)]].to_numpy(), theirs, rtol=1e-12, atol=1e-14)


def test_weights_reach_the_fits_and_the_figures():
    weights = np.random.default_rng(0).integers(1, 4, size=len(Y)).astype(float)
    splits = list(KFold(3).split(X))
    found = search(PeerRidge(), X, Y, {"alpha": ALPHAS}, cv=splits, sample_weight=weights)
    for at, alpha in enumerate(ALPHAS):
        for k, (train, test) in enumerate(splits):
            model = PeerRidge(alpha).fit(X[train], Y[train], weights[train])
            expected = np.average((Y[test] - model.predict(X[test])) ** 2, weights=weights[test])
            assert_allclose(found.table[f"fold {k}"].iloc[at], expected, rtol=1e-12)
    whole = PeerRidge(found.best["alpha"]).fit(X, Y, weights)
    assert_allclose(found.model.coef_, whole.coef_, rtol=1e-12)


def test_the_fast_path_gives_the_scores_of_the_fits():
    fast = search(Ridge(), X, Y, {"alpha": ALPHAS}, cv=5)

    class Plain(Ridge):
        predict_folds = None  # hasattr is not enough to be asked

    Plain.predict_folds = property(lambda self: (_ for _ in ()).throw(AttributeError))
    slow = search(Plain(), X, Y, {"alpha": ALPHAS}, cv=5)
    folds = [f"fold {k}" for k in range(5)]
    assert_allclose(fast.table[folds], slow.table[folds], rtol=1e-8)
    assert fast.best == slow.best


def test_a_fast_path_that_declines_is_left():
    class Shy(PeerRidge):
        def predict_folds(self, X, y, splits, sample_weight=None):
            return None

    shy, plain = (search(kind(), X, Y, {"alpha": ALPHAS}) for kind in (Shy, PeerRidge))
    assert_allclose(shy.table["estimate"], plain.table["estimate"], rtol=1e-14)


def test_random_search_draws_as_scikit_learn_does():
    space = {"n_neighbors": randint(1, 30), "weights": ["uniform", "distance"]}
    found = search(KNeighborsRegressor(), X, Y, space, method="random", n_candidates=7, random_state=3, cv=3)
    assert list(found.candidates) == list(ParameterSampler(space, 7, random_state=3))
    peer = RandomizedSearchCV(
        KNeighborsRegressor(), space, n_iter=7, random_state=3, cv=found.splits, scoring="neg_mean_squared_error"
    ).fit(X, Y)
    assert_allclose(found.table["estimate"], -peer.cv_results_["mean_test_score"], rtol=1e-12)
    assert len(search(Ridge(), X, Y, {"alpha": loguniform(1e-3, 1)}, method="random").candidates) == 20
    few = search(Ridge(), X, Y, {"alpha": ALPHAS}, method="random")
    assert [params["alpha"] for params in few.candidates] == ALPHAS


def test_generators_and_fresh_seeds_are_taken():
    space = {"alpha": loguniform(1e-3, 1)}
    one, two = (
        search(Ridge(), X, Y, space, method="random", n_candidates=3, random_state=np.random.default_rng(5))
        for _ in range(2)
    )
    pd.testing.assert_frame_equal(one.table.drop(columns="seconds"), two.table.drop(columns="seconds"))
    assert search(Ridge(), X, Y, space, method="random", n_candidates=3, random_state=None).best


def test_n_jobs_changes_nothing():
    tree = DecisionTreeRegressor(random_state=0)
    space = {"max_depth": [1, 2, -1, 3]}
    options = {"rule": "one_se", "simplicity": ("max_depth", "low")}
    one = search(tree, X, Y, space, nested=3, **options)
    with parallel_config("threading"):
        two = search(tree, X, Y, space, n_jobs=2, nested=3, **options)
    tables = (found.table.drop(columns="seconds") for found in (one, two))
    pd.testing.assert_frame_equal(*tables, check_exact=True)
    assert_array_equal(one.predict(X), two.predict(X))
    assert_array_equal(one.nested.fold_scores, two.nested.fold_scores)


def test_the_work_can_be_sent_to_other_processes():
    rows = rows_of(PeerRidge(), X, Y)
    trials = Trials(PeerRidge(), [{"alpha": 1.0}, {"alpha": 2.0}], rows, list(KFold(3).split(X)), get_metric("mse"))
    here = [trials((candidate, (fold,))).predicted[0].tolist() for fold in range(3) for candidate in range(2)]
    sent = pickle.loads(pickle.dumps(trials))
    assert sent._held is None  # rows of the last fold stay behind
    assert [sent((candidate, (fold,))).predicted[0].tolist() for fold in range(3) for candidate in range(2)] == here


def test_a_candidate_that_fails_is_named_and_stops_nothing():
    found = search(DecisionTreeRegressor(random_state=0), X, Y, {"max_depth": [2, -3, 1]})
    assert "fold 0" in found.table.loc["max_depth=-3", "failed"]
    assert "max_depth" in found.table.loc["max_depth=-3", "failed"]
    assert found.table["failed"].tolist().count("") == 2
    assert found.table["rank"].isna().tolist() == [False, True, False]
    assert found.table.loc["max_depth=-3"].filter(like="fold ").isna().all()
    assert "Failed: max_depth=-3" in str(found)
    assert list(found.selection.table.index) == ["max_depth=2", "max_depth=1"]
    found.plot()
    with pytest.raises(DataError, match="no candidate could be fitted: max_depth=-3 failed in fold 0"):
        search(DecisionTreeRegressor(), X, Y, {"max_depth": [-3, -4]})


def test_a_candidate_that_fails_in_one_fold_is_out_and_a_figure_that_is_no_number_too():
    class Touchy(RegressorMixin, BaseEstimator):
        def __init__(self, limit=0.0):
            self.limit = limit

        def fit(self, X, y):
            if y[0] < self.limit:
                raise RuntimeError("too small.")
            return self

        def predict(self, X):
            return np.full(X.shape[0], np.nan if self.limit == -1 else 0.0)

    y = np.arange(1.0, 11.0)
    found = search(Touchy(), np.zeros((10, 1)), y, {"limit": [0.0, 2.0, -1]}, cv=KFold(5))
    assert "RuntimeError: too small" in found.table.loc["limit=2", "failed"]
    assert "fold 1" in found.table.loc["limit=2", "failed"]
    assert found.table.loc["limit=-1", "failed"]
    assert found.best == {"limit": 0.0}


def test_rules_and_simplicity_in_a_search():
    space = {"max_depth": [None, 6, 4, 3, 2, 1]}
    tree = DecisionTreeRegressor(random_state=0)
    low = search(tree, X, Y, space, rule="one_se", simplicity=("max_depth", "low"))
    assert low.selection.table.index[-1] == "max_depth=None"  # no limit is the most complex
    depths = {params["max_depth"]: at for at, params in enumerate(low.candidates)}
    scores = low.table.filter(like="fold ").to_numpy()
    order = [np.inf if d is None else d for d in depths]
    assert low.index == one_standard_error_by_definition(scores.tolist(), order, 1 / 5 + 1 / 4)
    key = search(tree, X, Y, space, rule="one_se", simplicity=lambda params: params["max_depth"] or 99)
    assert key.best == low.best
    several = search(
        tree,
        X,
        Y,
        {"max_depth": [1, 2], "min_samples_leaf": [1, 40]},
        rule="within",
        percent=1000,
        simplicity=[("max_depth", "low"), ("min_samples_leaf", "high")],
    )
    assert several.best == {"max_depth": 1, "min_samples_leaf": 40}
    lists = search(
        tree,
        X,
        Y,
        [{"max_depth": [1, 2]}, {"min_samples_leaf": [30]}],
        rule="within",
        percent=1000,
        simplicity=("max_depth", "high"),
    )
    assert lists.best == {"max_depth": 2}
    assert lists.table["max_depth"].tolist() == [1, 2, None]


def test_rank_breaks_ties_by_simplicity_then_position():
    space = {"max_depth": [90, 80, 70]}  # all deeper than the tree grows
    found = search(DecisionTreeRegressor(random_state=0), X, Y, space, simplicity=("max_depth", "low"))
    assert found.best == {"max_depth": 70}
    assert found.table["rank"].tolist() == [3, 2, 1]
    assert search(DecisionTreeRegressor(random_state=0), X, Y, space).table["rank"].tolist() == [1, 2, 3]


def test_groups_stay_whole_inside_and_outside():
    groups = np.repeat(np.arange(30), 4)
    seen = []

    class Watch(PeerRidge):
        def fit(self, X, y):
            seen.append(np.asarray(X[:, 0], dtype=int))
            return super().fit(X, y)

    rows = np.column_stack([np.arange(120.0), X])
    found = search(Watch(), rows, Y, {"alpha": [0.1, 1.0]}, cv=3, nested=3, groups=groups, metric="mae")
    for chosen in seen:
        assert np.all(np.bincount(groups[chosen], minlength=30) % 4 == 0)
    assert isinstance(found.nested.estimator, SearchCV)
    for _, test in found.nested.splits:
        assert np.all(np.bincount(groups[test], minlength=30) % 4 == 0)
    tree, pairs = DecisionTreeClassifier(random_state=0), np.arange(len(YC)) // 2
    classes = search(tree, XC, YC, {"max_depth": [1, 2]}, nested=3, groups=pairs, metric="auc")
    assert 0.5 < classes.nested.estimate <= 1


def test_nested_is_cross_validation_of_the_whole_procedure():
    tree = DecisionTreeRegressor(random_state=0)
    space = {"max_depth": [1, 2, 3]}
    found = search(tree, X, Y, space, cv=4, nested=5)
    tuned = SearchCV(tree, space, cv=4)
    again = cross_validate(tuned, X, Y, cv=5)
    assert_array_equal(found.nested.fold_scores, again.fold_scores)
    splits = [(train, test) for train, test in found.nested.splits]
    peer = -cross_val_score(
        GridSearchCV(tree, space, cv=Folds(4, stratify=False), scoring="neg_mean_squared_error"),
        X,
        Y,
        cv=splits,
        scoring="neg_mean_squared_error",
    )
    assert_allclose(found.nested.fold_scores, peer, rtol=1e-12)
    assert_allclose(found.optimism, found.nested.estimate - found.estimate, rtol=1e-12)
    assert "optimism" in str(found)
    gain = search(tree, X, Y, space, cv=4, nested=5, metric="r2")
    assert_allclose(gain.optimism, gain.estimate - gain.nested.estimate, rtol=1e-12)


def test_the_best_of_many_random_guessers_is_optimistic_and_nesting_sees_it():
    """Forty learners that guess 200 labels: the best looks better than 1/2, nested it does not.

    Chances of a false alarm: that none of forty errs less than half of the time, 1e-10; that the nested error is off
    by .18, five standard deviations, 1e-6; that the optimism is negative, about .02 (the seed is fixed).
    """

    class Guess(ClassifierMixin, BaseEstimator):
        def __init__(self, seed=0):
            self.seed = seed

        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def predict(self, X):
            coins = np.random.default_rng(self.seed).integers(0, 2, size=200)
            return self.classes_[coins[X[:, 0].astype(int)]]

    rng = np.random.default_rng(1)
    rows, y = np.arange(200.0)[:, None], rng.permutation(np.repeat([0, 1], 100))
    found = search(Guess(), rows, y, {"seed": list(range(40))}, nested=5)
    assert found.estimate < 0.5
    assert abs(found.nested.estimate - 0.5) < 0.18
    assert found.optimism > 0


def test_leave_one_out_and_holdout_are_searched():
    space, ridge = {"alpha": [0.1, 1.0]}, PeerRidge()
    found = search(ridge, X, Y, space, cv=LeaveOneOut(), rule="one_se", simplicity=("alpha", "high"))
    one = cross_validate(PeerRidge(0.1), X, Y, cv=LeaveOneOut())
    assert_allclose(found.table.loc["alpha=0.1", ["estimate", "std_error"]].tolist(), [one.estimate, one.std_error])
    held = search(ridge, X, Y, space, cv=[(np.arange(60), np.arange(60, 120))])
    assert held.selection.errors == "over rows"
    assert np.isfinite(held.std_error)
    alone = search(ridge, X, Y, space, cv=LeaveOneOut(), metric="r2")
    assert_allclose(alone.estimate, cross_validate(PeerRidge(0.1), X, Y, cv=LeaveOneOut(), metric="r2").estimate)
    with pytest.raises(DataError, match="auc has no value on the folds of the search: no fold has rows of both"):
        search(KNeighborsClassifier(), XC, YC, {"n_neighbors": [3, 5]}, cv=LeaveOneOut(), metric="auc")


@pytest.mark.parametrize(("metric", "figure"), [("mse", mean_squared_error), ("mae", mean_absolute_error)])
def test_out_of_bag_numbers_are_those_of_a_fit_to_all_rows(metric, figure):
    forest = PeerForestRegressor(40, oob_score=True, random_state=0)
    found = SearchCV(forest, {"min_samples_leaf": [1, 5, 30]}, cv="oob", metric=metric).fit(X, Y)
    models = [clone(forest).set_params(min_samples_leaf=leaf).fit(X, Y) for leaf in (1, 5, 30)]
    assert_allclose(found.result_.table["estimate"], [figure(Y, model.oob_prediction_) for model in models])
    assert found.best_index_ == int(np.argmin(found.result_.table["estimate"]))
    # The chosen one was fitted to all rows already, and is not fitted again.
    assert_array_equal(found.predict(X), models[found.best_index_].predict(X))
    apart = [np.abs(Y - model.oob_prediction_) ** (2 if metric == "mse" else 1) for model in models]
    assert_allclose(found.result_.table["std_error"], [np.std(loss, ddof=1) / np.sqrt(Y.size) for loss in apart])
    assert "out-of-bag predictions of 120 rows" in str(found.result_)


@pytest.mark.parametrize(
    ("metric", "figure"), [("error", zero_one_loss), ("log_loss", log_loss), ("auc", roc_auc_score)]
)
def test_out_of_bag_classes_in_a_pipeline_with_text_labels_and_weights(metric, figure):
    labels = np.array(["no", "yes"])[YC]
    w = None if metric == "auc" else np.linspace(0.5, 2.0, YC.size)
    pipe = make_pipeline(StandardScaler(), RandomForestClassifier(n_estimators=60, random_state=0))
    space = {"randomforestclassifier__min_samples_leaf": [5, 15]}
    found = SearchCV(pipe, space, cv="oob", metric=metric).fit(XC, labels, sample_weight=w)
    for leaf, estimate in zip((5, 15), found.result_.table["estimate"], strict=True):
        model = RandomForestClassifier(n_estimators=60, min_samples_leaf=leaf, random_state=0)
        shares = model.fit(StandardScaler().fit_transform(XC), labels, w).oob_decision_function_
        said = np.array(["no", "yes"])[shares.argmax(axis=1)]
        options = {} if w is None else {"sample_weight": w}
        assert estimate == pytest.approx(figure(labels, said if metric == "error" else shares[:, 1], **options))


def test_out_of_bag_needs_rows_out_of_bag_that_stand_for_themselves():
    space = {"min_samples_leaf": [1, 5]}
    with pytest.raises(DataError, match="has no out-of-bag predictions; set bootstrap=True"):
        SearchCV(PeerForestRegressor(5, random_state=0), space, cv="oob").fit(X, Y)
    one = RandomForestClassifier(n_estimators=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the forest says itself that some rows are never out of bag
        with pytest.raises(DataError, match=r"is in the sample of every member of the ensemble.*raise n_estimators"):
            SearchCV(one, space, cv="oob").fit(XC, YC)
    with pytest.raises(ParameterError, match="do not keep groups together"):
        SearchCV(RandomForestClassifier(), space, cv="oob").fit(XC, YC, groups=np.arange(YC.size) // 2)
    with pytest.raises(ParameterError, match="unknown cv = 'bag'"):
        SearchCV(RandomForestClassifier(), space, cv="bag").fit(XC, YC)


def test_frames_sparse_tables_text_labels_and_lists():
    frame = pd.DataFrame(XC[:, :4], columns=list("abcd"))
    labels = np.where(YC == 1, "benign", "malign")
    found = search(KNeighborsClassifier(), frame, pd.Series(labels), {"n_neighbors": [1, 5]})
    assert set(found.predict(frame)) == {"benign", "malign"}
    same = search(KNeighborsClassifier(), sparse.csr_matrix(XC[:, :4]), labels, {"n_neighbors": [1, 5]})
    assert_allclose(found.table["estimate"], same.table["estimate"])
    assert search(PeerRidge(), X.tolist(), Y.tolist(), {"alpha": [1.0]}).best == {"alpha": 1.0}


def test_steps_of_a_pipeline_can_be_exchanged():
    scaler = StandardScaler()
    model = make_pipeline(scaler, PeerRidge())
    tree = DecisionTreeRegressor(max_depth=2, random_state=0)
    found = search(model, X, Y, {"ridge": [PeerRidge(), tree]})
    assert list(found.table.index) == ["ridge=Ridge", "ridge=DecisionTreeRegressor"]
    assert not hasattr(tree, "tree_")
    assert not hasattr(scaler, "mean_")
    assert np.isfinite(found.table["estimate"]).all()


def test_parameters_named_like_figures_are_kept_apart():
    class Odd(PeerRidge):
        def __init__(self, rank=1.0):
            super().__init__(alpha=rank)
            self.rank = rank

        def fit(self, X, y):
            self.alpha = self.rank
            return super().fit(X, y)

    found = search(Odd(), X, Y, {"rank": [1.0, 2.0]})
    assert found.table["param_rank"].tolist() == [1.0, 2.0]
    assert sorted(found.table["rank"].tolist()) == [1, 2]


@pytest.mark.parametrize(
    ("space", "options", "says"),
    [
        ({"alpa": [1]}, {}, "no parameter 'alpa'; did you mean 'alpha'"),
        ({"alpha": 3.0}, {}, "expected a list of values for 'alpha'.*, got 3"),
        ({"alpha": "ab"}, {}, "expected a list of values"),
        ({"alpha": []}, {}, "values for 'alpha' is empty"),
        ({"alpha": np.ones((2, 2))}, {}, "expected a list of values"),
        ({"alpha": loguniform(1, 2)}, {}, "is a distribution"),
        ([], {}, "not a dict or a list of dicts"),
        ("alpha", {}, "not a dict or a list of dicts"),
        ({"alpha": [1]}, {"method": "bayes"}, "method = 'bayes'"),
        ({"alpha": [1]}, {"n_candidates": 3}, "does not apply to a grid"),
        ({"alpha": [1]}, {"n_candidates": 0, "method": "random"}, "n_candidates = 0"),
        ({"alpha": [1]}, {"rule": "one_se"}, "which candidates are simpler"),
        ({"alpha": [1]}, {"rule": "one_se", "simplicity": ("alpha", "up")}, "is not a valid order"),
        ({"alpha": [1]}, {"rule": "one_se", "simplicity": ("beta", "low")}, "not a parameter of Ridge"),
        ({"alpha": [1]}, {"rule": "one_se", "simplicity": ("solver", "low")}, "cannot be ordered"),
        ({"alpha": [1]}, {"metric": "auc"}, "auc needs classes"),
        ({"alpha": [1]}, {"cv": 500}, "500"),
        ({"alpha": [1]}, {"nested": 3, "refit": False}, "needs refit=True"),
        ({"alpha": [1]}, {"n_jobs": 0}, "n_jobs = 0"),
        ({"alpha": [1]}, {"random_state": -1}, "random_state = -1"),
        ({"alpha": [1]}, {"sample_weight": np.ones(3)}, "sample_weight"),
        ({"alpha": [1]}, {"groups": np.ones(3)}, "groups"),
    ],
)
def test_bad_searches_are_refused_in_one_sentence(space, options, says):
    with pytest.raises((ParameterError, DataError, DataTypeError), match=says) as caught:
        search(PeerRidge(), X, Y, space, **options)
    assert "\n" not in str(caught.value)


def test_learners_that_cannot_be_set_are_refused():
    class Bare:
        def fit(self, X, y):
            return self

        def predict(self, X):
            return X[:, 0]

    with pytest.raises(DataTypeError, match="no get_params"):
        search(Bare(), X, Y, {"a": [1]})
    with pytest.raises(DataTypeError, match="expected an estimator"):
        search(3, X, Y, {"a": [1]})


def test_what_is_passed_in_stays_as_it_was():
    tree, space, folds = DecisionTreeRegressor(random_state=0), {"max_depth": [1, 2]}, KFold(3)
    before = tree.get_params()
    data, target = X.copy(), Y.copy()
    search(tree, data, target, space, cv=folds, nested=3)
    assert tree.get_params() == before
    assert not hasattr(tree, "tree_")
    assert space == {"max_depth": [1, 2]}
    assert_array_equal(data, X)
    assert_array_equal(target, Y)


def test_progress_is_told_and_an_interrupt_leaves_nothing_half_done():
    told = []
    with listen(lambda label, done, total: told.append((label, done, total))):
        search(PeerRidge(), X, Y, {"alpha": ALPHAS}, cv=3)
    assert told[0] == ("search", 0, 12)
    assert told[-1] == ("search", 12, 12)

    class Stop(PeerRidge):
        def fit(self, X, y):
            if self.alpha == 1.0:
                raise KeyboardInterrupt
            return super().fit(X, y)

    tuned = SearchCV(PeerRidge(), {"alpha": [5.0]}).fit(X, Y)
    kept = tuned.result_
    tuned.set_params(estimator=Stop(), space={"alpha": ALPHAS})
    with pytest.raises(KeyboardInterrupt):
        tuned.fit(X, Y)
    assert tuned.result_ is kept
    assert tuned.best_params_ == {"alpha": 5.0}


def test_a_search_prints_pickles_and_is_frozen():
    found = search(PeerRidge(), X, Y, {"alpha": ALPHAS}, nested=3)
    said = str(found)
    assert said.startswith("Grid search of 4 candidates for Ridge")
    assert "Nested: mse of searched Ridge" in said
    assert str(pickle.loads(pickle.dumps(found))) == said
    assert found._repr_html_().startswith("<table")
    with pytest.raises(AttributeError):
        found.best = {}
    assert "optimistic" in str(search(PeerRidge(), X, Y, {"alpha": ALPHAS}))
    plain = search(PeerRidge(), X, Y, {"alpha": ALPHAS}, refit=False)
    assert plain.model is None
    assert plain.optimism is None
    with pytest.raises(ParameterError, match="without refit"):
        plain.predict(X)


# Pictures.


def marks(axes):
    return {text.get_text() for text in axes.texts}


def test_one_number_is_a_curve_with_its_marks():
    found = search(PeerRidge(), X, Y, {"alpha": np.geomspace(1e-3, 1, 13)}, rule="one_se", simplicity=("alpha", "high"))
    axes = found.plot()
    assert axes.get_xscale() == "log"
    assert found.selection.name != found.selection.best
    assert {"best", "chosen"} <= marks(axes)
    assert "± one standard error" in axes.get_ylabel()
    assert "5-fold" in axes.get_xlabel()


def test_two_numbers_are_a_map_and_draws_are_points():
    tree = DecisionTreeRegressor(random_state=0)
    space = {"max_depth": [1, 2, 3], "min_samples_leaf": [1, 10]}
    axes = search(tree, X, Y, space, rule="within", simplicity=("max_depth", "low")).plot()
    assert axes.images
    assert len(axes.texts) == 6
    space = {"max_depth": randint(1, 9), "min_samples_leaf": randint(1, 50)}
    axes = search(tree, X, Y, space, method="random", n_candidates=12, metric="r2").plot()
    assert axes.collections
    assert not axes.images


def test_anything_else_is_a_ranking():
    space = {"n_neighbors": [3, 5], "weights": ["uniform", "distance"], "p": [1, 2]}
    found = search(KNeighborsRegressor(), X, Y, space)
    names = [label.get_text() for label in found.plot().get_yticklabels()]
    assert names == found.table.sort_values("rank").index.tolist()
    search(KNeighborsRegressor(), X, Y, {"weights": ["uniform", "distance"]}).plot(ax=plt.subplots()[1])
    many = search(
        Ridge(), X, Y, [{"alpha": list(np.linspace(1, 2, 40)), "fit_intercept": [True]}, {"positive": [True]}]
    )
    assert "not shown" in many.plot().get_xlabel()


# The estimator.


def test_tags_follow_the_inner_estimator():
    assert is_regressor(SearchCV(PeerRidge(), {}))
    assert is_classifier(SearchCV(LogisticRegression(), {}))
    assert SearchCV(PeerRidge(), {}).__sklearn_tags__().input_tags.sparse
    assert not SearchCV(KNeighborsRegressor(), {}).__sklearn_tags__().input_tags.allow_nan
    assert hasattr(SearchCV(LogisticRegression(), {}), "predict_proba")
    assert not hasattr(SearchCV(PeerRidge(), {}), "predict_proba")


def test_the_estimator_offers_what_its_model_does():
    tuned = SearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, metric="auc").fit(XC[:, :3], YC)
    assert_array_equal(tuned.predict_proba(XC[:, :3]), tuned.best_estimator_.predict_proba(XC[:, :3]))
    assert_array_equal(tuned.predict_log_proba(XC[:, :3]), tuned.best_estimator_.predict_log_proba(XC[:, :3]))
    assert_array_equal(tuned.decision_function(XC[:, :3]), tuned.best_estimator_.decision_function(XC[:, :3]))
    assert_array_equal(tuned.classes_, [0, 1])
    assert tuned.score(XC[:, :3], YC) == get_metric("auc").scorer()(tuned.best_estimator_, XC[:, :3], YC)
    assert tuned.best_score_ == tuned.result_.estimate
    assert tuned.best_index_ == tuned.result_.index
    assert isinstance(tuned.result_, Search)
    assert tuned.selection_.name == tuned.result_.table.index[tuned.best_index_]
    again = pickle.loads(pickle.dumps(tuned))
    assert_array_equal(again.predict(XC[:, :3]), tuned.predict(XC[:, :3]))
    assert clone(tuned).get_params()["space"] == tuned.space
    plain = SearchCV(LogisticRegression(), {"C": [0.1]}, refit=False).fit(XC[:, :3], YC)
    with pytest.raises(AttributeError, match="refit=False"):
        plain.predict(XC)


def test_a_tuned_learner_takes_its_place_among_others():
    tuned = SearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 3]}, cv=3)
    panel = [
        cross_validate(tuned, XC, YC, cv=4, name="tuned tree"),
        cross_validate(KNeighborsClassifier(), XC, YC, cv=4, name="neighbours"),
    ]
    assert select(panel).name in {"tuned tree", "neighbours"}
    within = make_pipeline(StandardScaler(), tuned)
    assert cross_validate(within, XC, YC, cv=3).estimate < 0.5


def test_no_warning_of_numpy_gets_out():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flat = search(
            KNeighborsRegressor(),
            np.ones((20, 1)),
            np.ones(20),
            {"n_neighbors": [1, 3]},
            rule="one_se",
            simplicity=("n_neighbors", "high"),
        )
        assert flat.best == {"n_neighbors": 3}
        huge = search(PeerRidge(), X, Y * 1e140, {"alpha": [0.1, 1.0]}, rule="one_se", simplicity=("alpha", "high"))
        assert np.isfinite(huge.std_error)


def test_a_search_in_which_nothing_works_keeps_the_remedy_of_the_first_failure():
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(
        DataTypeError, match="fold 0: LinearSVC has no predict_proba, which log_loss needs; choose a"
    ) as e:
        SearchCV(LinearSVC(), {"C": [1, 2]}, metric="log_loss").fit(X, y)
    assert str(e.value).count(";") == 1
