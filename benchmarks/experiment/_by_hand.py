"""What `assay run` does on a table of two classes, as a bare scikit-learn script: `python _by_hand.py TABLE TARGET`.

A guess, a discriminant, a tuned logistic regression, a pruned tree, a forest, tuned support vectors and boosting that
stops early, each on the same ten folds of three quarters of the rows; the best is refitted and scored once on the
others. No seal, checks, comparisons, report or ledger.
"""

from __future__ import annotations

import sys
import warnings

import pandas as pd
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

__all__: list[str] = []


def scaled(model, space):
    """A model on standardised columns, its settings by five folds."""
    name = type(model).__name__.lower()
    grid = {f"{name}__{key}": values for key, values in space.items()}
    return GridSearchCV(make_pipeline(StandardScaler(), model), grid, cv=5)


def main(path: str, target: str) -> None:
    """Ten folds of every learner, and one look at the test rows."""
    table = pd.read_csv(path)
    X, y = table.drop(columns=target).to_numpy(), table[target].to_numpy()
    X, Z, y, z = train_test_split(X, y, test_size=0.25, stratify=y, random_state=0)
    gammas = [factor / X.shape[1] for factor in (0.01, 0.1, 0.3162, 1.0, 3.162, 10.0)]
    prune = {"ccp_alpha": [0.0, 0.002, 0.005, 0.01, 0.02, 0.05]}
    learners = {
        "baseline": DummyClassifier(),
        "discriminant": LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
        "logistic": scaled(LogisticRegression(max_iter=1000), {"C": [0.001, 0.01, 0.1, 1, 10, 100]}),
        "tree": GridSearchCV(DecisionTreeClassifier(min_samples_leaf=5, random_state=0), prune, cv=10),
        "random forest": RandomForestClassifier(200, oob_score=True, random_state=0, n_jobs=-1),
        "support vectors": scaled(SVC(), {"C": [0.1, 1, 10, 100], "gamma": gammas}),
        "boosting": HistGradientBoostingClassifier(early_stopping=True, max_iter=1000, random_state=0),
    }
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    errors = {name: 1 - cross_validate(one, X, y, cv=folds)["test_score"].mean() for name, one in learners.items()}
    best = min(errors, key=errors.__getitem__)
    model = learners[best].fit(X, y)
    print(errors[best], best, 1 - model.score(Z, z))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:3])
