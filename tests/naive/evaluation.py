"""Slow obvious oracles for evaluation: loops over folds, rows, pairs of models and classes."""

from __future__ import annotations

import numpy as np


def cross_validation_by_loop(estimator, X, y, splits, loss):
    """Losses of every tested row, fold by fold, from a clone fitted to the fold's training rows."""
    from sklearn.base import clone

    return [loss(y[test], clone(estimator).fit(X[train], y[train]).predict(X[test])) for train, test in splits]


def nested_cross_validation(estimator, X, y, tests, loss):
    """Bates, Hastie and Tibshirani's algorithm for one partition, by its definition: (a, b) terms, inside, outside."""
    from sklearn.base import clone

    n, K = len(y), len(tests)
    a_terms, b_terms, inside, outside = [], [], [], []
    for k in range(K):
        outer = np.setdiff1d(np.arange(n), tests[k])
        e_in = []
        for j in range(K):
            if j != k:
                inner = np.setdiff1d(outer, tests[j])
                e_in.extend(loss(y[tests[j]], clone(estimator).fit(X[inner], y[inner]).predict(X[tests[j]])))
        e_out = loss(y[tests[k]], clone(estimator).fit(X[outer], y[outer]).predict(X[tests[k]]))
        a_terms.append((np.mean(e_in) - np.mean(e_out)) ** 2)
        b_terms.append(np.var(e_out, ddof=1) / len(e_out))
        inside.append(np.mean(e_in))
        outside.append(np.mean(e_out))
    return np.array(a_terms), np.array(b_terms), np.mean(inside), np.mean(outside)


def grid_search_by_loops(estimator, space, X, y, splits, loss):
    """One list of fold losses per point of the grid, the last parameter in the alphabet turning fastest."""
    from itertools import product

    from sklearn.base import clone

    names = sorted(space)
    table = []
    for values in product(*(space[name] for name in names)):
        row = []
        for train, test in splits:
            model = clone(estimator).set_params(**dict(zip(names, values, strict=True)))
            row.append(loss(y[test], model.fit(X[train], y[train]).predict(X[test])))
        table.append(row)
    return table


def one_standard_error_by_definition(losses, order, factor=None):
    """The simplest row whose mean loss is within one standard error of the least; the classic rule without a factor."""
    mean = [sum(row) / len(row) for row in losses]
    best = min(range(len(losses)), key=lambda j: (mean[j], order[j], j))

    def error(values, c):
        centre = sum(values) / len(values)
        return (c * sum((v - centre) ** 2 for v in values) / (len(values) - 1)) ** 0.5

    def near(j):
        if factor is None:
            return mean[j] - mean[best] <= error(losses[best], 1 / len(losses[best]))
        apart = [a - b for a, b in zip(losses[j], losses[best], strict=True)]
        return sum(apart) / len(apart) <= error(apart, factor)

    return min((j for j in range(len(losses)) if j == best or near(j)), key=lambda j: (order[j], mean[j], j))


def shuffled_importance(predict, X, y, loss, column, orders, weights=None):
    """Importance of a column and its standard error, row by row; each once receives and once gives per repeat."""
    n, repeats = len(y), len(orders)
    w = np.ones(n) if weights is None else np.asarray(weights, float) * n / np.sum(weights)
    before = [loss(y[i], predict(X[i : i + 1])[0]) for i in range(n)]
    rise, received, given = [], {k: [] for k in range(n)}, {k: [] for k in range(n)}
    for order in orders:
        for i in range(n):
            row = X[i : i + 1].copy()
            row[0, column] = X[order[i], column]
            d = loss(y[i], predict(row)[0]) - before[i]
            rise.append(w[i] * d)
            received[i].append((w[i], d))
            given[int(order[i])].append((w[i], d))
    mean = sum(rise) / (n * repeats)
    psi = [
        sum(v * (d - mean) for v, d in received[k]) / repeats + sum(v * (d - mean) for v, d in given[k]) / repeats
        for k in range(n)
    ]
    spread = sum((v * (d - mean)) ** 2 for pairs in received.values() for v, d in pairs) / (n * repeats)
    return mean, np.sqrt((sum(p**2 for p in psi) / (n - 1) - spread / repeats) / n)


def dependence_lines(predict, X, column, grid):
    """One line per row: its prediction with the column set to each value of the grid."""
    lines = np.empty((len(X), len(grid)))
    for i in range(len(X)):
        for k, value in enumerate(grid):
            row = X[i : i + 1].copy()
            row[0, column] = value
            lines[i, k] = predict(row)[0]
    return lines


def conformal_quantile(scores, level):
    """The smallest score that at least level (n + 1) of the scores do not exceed, exactly; infinite if none."""
    from fractions import Fraction

    need = Fraction(str(level)) * (len(scores) + 1)
    for k, score in enumerate(sorted(scores), start=1):
        if k >= need:
            return score
    return np.inf


def cv_plus_interval(centres, residuals, level):
    """CV+ limits at one point: `centres[i]` is the prediction there by the model that did not see row i."""
    upper = conformal_quantile([c + r for c, r in zip(centres, residuals, strict=True)], level)
    lower = -conformal_quantile([-(c - r) for c, r in zip(centres, residuals, strict=True)], level)
    return lower, upper


def cv_plus_set(new_scores, old_scores, level):
    """Whether each class belongs: `new_scores[i][c]` is its score by the model that did not see row i."""
    from fractions import Fraction

    need = Fraction(str(level)) * (len(old_scores) + 1)
    classes = range(len(new_scores[0]))
    return [sum(old < new[c] for old, new in zip(old_scores, new_scores, strict=True)) < need for c in classes]


def adaptive_score(p, c, u):
    """The probability of the classes likelier than c, and the share u of its own."""
    return sum(p[k] for k in range(len(p)) if p[k] > p[c]) + u * p[c]


def squared_decomposition(F, t):
    """Squared bias and variance at each row by loops over pairs of models: F is (models, rows), t the targets."""
    B, m = F.shape
    bias2, variance = np.zeros(m), np.zeros(m)
    for i in range(m):
        for b in range(B):
            for c in range(B):
                if b != c:
                    bias2[i] += (t[i] - F[b, i]) * (t[i] - F[c, i]) / (B * (B - 1))
                    variance[i] += (F[b, i] - F[c, i]) ** 2 / 2 / (B * (B - 1))
    return bias2, variance


def domingos_decomposition(F, y, best):
    """Domingos' components for 0-1 loss from label predictions (models, rows), observed and best labels."""
    from collections import Counter

    names = ("noise", "bias", "variance", "unbiased_variance", "biased_variance", "noise_effect", "total")
    out = dict.fromkeys(names, 0.0)
    m = F.shape[1]
    for i in range(m):
        count = Counter(F[:, i].tolist())
        main = min(count, key=lambda label: (-count[label], label))
        wrong = np.mean(F[:, i] != best[i])
        total = np.mean(F[:, i] != y[i])
        out["noise"] += (y[i] != best[i]) / m
        out["bias"] += (main != best[i]) / m
        out["variance"] += np.mean(F[:, i] != main) / m
        out["unbiased_variance"] += (main == best[i]) * np.mean(F[:, i] != main) / m
        out["biased_variance"] += (main != best[i]) * np.mean(F[:, i] == best[i]) / m
        out["noise_effect"] += (total - wrong) / m
        out["total"] += total / m
    return out


def kohavi_wolpert_decomposition(F, y, classes):
    """Bias^2 (with noise) and variance of Kohavi and Wolpert, over pairs of models, y the observed labels."""
    bias2 = variance = 0.0
    B, m = F.shape
    for i in range(m):
        for b in range(B):
            for c in range(B):
                if b != c:
                    for k in classes:
                        gap_b, gap_c = (y[i] == k) - float(F[b, i] == k), (y[i] == k) - float(F[c, i] == k)
                        bias2 += 0.5 * gap_b * gap_c / (B * (B - 1) * m)
                        variance += 0.25 * (gap_b - gap_c) ** 2 / (B * (B - 1) * m)
    return bias2, variance


def no_information_rate(loss, y, predicted):
    """The mean loss over all pairs of a target and a prediction."""
    return np.mean([[loss(a, b) for b in predicted] for a in y])


def bootstrap_632_plus(apparent, left_out, gamma):
    """Efron and Tibshirani's (1997) formulas (27) to (32): relative overfitting rate and the .632+ estimate."""
    capped = min(left_out, gamma)
    R = (capped - apparent) / (gamma - apparent) if left_out > apparent and gamma > apparent else 0.0
    plain = 0.368 * apparent + 0.632 * left_out
    return R, plain + (capped - apparent) * 0.368 * 0.632 * R / (1 - 0.368 * R)


def efron_tibshirani_influence(losses, counts):
    """The D_i of Efron and Tibshirani (1997), section 5: delta-method standard error of the leave-one-out bootstrap."""
    B, n = losses.shape
    out = counts == 0
    E = np.array([losses[out[:, i], i].mean() for i in range(n)])
    q = np.array([(losses[b] * out[b]).sum() / n for b in range(B)])
    e_n = (1 - 1 / n) ** -n
    return np.array(
        [
            (2 + 1 / (n - 1)) * (E[i] - E.mean()) / n
            + e_n * np.mean((counts[:, i] - counts[:, i].mean()) * (q - q.mean()))
            for i in range(n)
        ]
    )


def sup_t_band(estimate, curves, level):
    """The simultaneous band of curves: the quantile over curves of the largest studentised deviation."""
    se = np.array([np.std(curves[:, g], ddof=1) for g in range(curves.shape[1])])
    most = [max(abs(curve[g] - estimate[g]) / se[g] for g in range(len(estimate))) for curve in curves]
    c = np.quantile(most, level)
    return estimate - c * se, estimate + c * se


def auc_within_folds(y, scores, folds, weights):
    """Concordant pairs over pairs, by a loop over all pairs of rows of the same fold; ties count one half."""
    right = pairs = 0.0
    for i in range(len(y)):
        for j in range(len(y)):
            if y[i] == 1 and y[j] == 0 and folds[i] == folds[j]:
                pairs += weights[i] * weights[j]
                right += weights[i] * weights[j] * ((scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]))
    return right / pairs


def pseudo_values_by_definition(figure, fold):
    """theta and theta + (K - 1)(mean_j theta_(-j) - theta_(-k)), from a figure of a mask of rows."""
    folds = sorted(set(fold.tolist()))
    theta = figure(np.ones(fold.size, dtype=bool))
    without = np.array([figure(fold != k) for k in folds])
    return theta, theta + (len(folds) - 1) * (without.mean() - without)


def greatest_t_by_brute_force(gaps, draws, rng):
    """The greatest |t| of each draw: as many normal rows with the covariance of the gaps, a t-test per column."""
    J = gaps.shape[0]
    root = (gaps - gaps.mean(axis=0)) / np.sqrt(J - 1)
    out = np.empty(draws)
    for k in range(draws):
        rows = rng.standard_normal((J, J)) @ root
        out[k] = np.abs(rows.mean(axis=0) / (rows.std(axis=0, ddof=1) / np.sqrt(J))).max()
    return out


def shapley_by_subsets(predict, x, background, groups=None):
    """Interventional Shapley values by their definition: every coalition of columns (or of groups of them)."""
    from itertools import combinations
    from math import factorial

    groups = [[j] for j in range(len(x))] if groups is None else groups

    def worth(coalition):
        mixed = background.copy()
        for player in coalition:
            mixed[:, groups[player]] = x[groups[player]]
        return np.asarray(predict(mixed)).mean(axis=0)

    p, values = len(groups), []
    for j in range(p):
        others = [k for k in range(p) if k != j]
        total = 0.0
        for size in range(p):
            weight = factorial(size) * factorial(p - size - 1) / factorial(p)
            for coalition in combinations(others, size):
                total = total + weight * (worth((*coalition, j)) - worth(coalition))
        values.append(total)
    return np.array(values)
