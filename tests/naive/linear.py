"""Slow obvious oracles for linear models: refitting, enumeration, and objectives as they are written."""

from __future__ import annotations

import numpy as np


def local_weights(X, x0, h, kernel):
    """Kernel weights of locally weighted regression, by their formulas."""
    d = np.sqrt(((np.asarray(X, float) - x0) ** 2).sum(axis=1)) / h
    return np.exp(-(d**2) / 2) if kernel == "gaussian" else np.where(d < 1, (1 - np.minimum(d, 1) ** 3) ** 3, 0.0)


def local_smoother_row(X, x0, h, kernel, degree, s=None):
    """The row l(x0) of the smoother matrix: weighted least squares on products of steps from x0, by pinv."""
    from itertools import combinations_with_replacement

    steps = np.asarray(X, float) - x0
    design = [np.ones(len(steps))]
    for size in range(1, degree + 1):
        for term in combinations_with_replacement(range(steps.shape[1]), size):
            design.append(np.prod(steps[:, list(term)], axis=1))
    root = np.sqrt(local_weights(X, x0, h, kernel) * (1.0 if s is None else s))
    return np.linalg.pinv(root[:, None] * np.column_stack(design), rcond=1e-13)[0] * root


def kth_nearest_distance(X, x0, k):
    """The distance from x0 to its k-th nearest row."""
    return np.sort(np.sqrt(((np.asarray(X, float) - x0) ** 2).sum(axis=1)))[k - 1]


def bspline_value(j, degree, knots, x):
    """The j-th B-spline at x by its definition, half-open on the right."""
    if degree == 0:
        return float(knots[j] <= x < knots[j + 1])
    left = (x - knots[j]) / (knots[j + degree] - knots[j])
    right = (knots[j + degree + 1] - x) / (knots[j + degree + 1] - knots[j + 1])
    return left * bspline_value(j, degree - 1, knots, x) + right * bspline_value(j + 1, degree - 1, knots, x)


def ridge_coefficients(X, y, alpha, factors=None, w=None, intercept=True):
    """(b0, b) by least squares on the rows with the penalty written as p more rows; least norm where free."""
    n, p = X.shape
    w = np.ones(n) if w is None else w
    factors = np.ones(p) if factors is None else factors
    root = np.sqrt(w)[:, None]
    mx = w @ X / w.sum() if intercept else np.zeros(p)
    my = w @ y / w.sum() if intercept else 0.0
    A = np.vstack([root * (X - mx), np.diag(np.sqrt(alpha * factors))])
    b = np.linalg.lstsq(A, np.concatenate([root[:, 0] * (y - my), np.zeros(p)]), rcond=None)[0]
    return my - mx @ b, b


def ridge_leave_one_out(X, y, alpha, factors=None, w=None, intercept=True):
    """Squared error of every row under the fit without it."""
    errors = []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        b0, b = ridge_coefficients(X[rest], y[rest], alpha, factors, None if w is None else w[rest], intercept)
        errors.append((y[i] - b0 - X[i] @ b) ** 2)
    return np.array(errors)


def ridge_hat_matrix(X, alpha, factors=None, w=None, intercept=True):
    """H column by column: the fitted values of every unit vector."""
    columns = []
    for unit in np.eye(len(X)):
        b0, b = ridge_coefficients(X, unit, alpha, factors, w, intercept)
        columns.append(b0 + X @ b)
    return np.array(columns).T


def nonnegative_ridge(X, y, alpha):
    """Best over all subsets of columns whose own ridge fit is nonnegative."""
    best, value = None, np.inf
    for mask in range(2 ** X.shape[1]):
        chosen = [j for j in range(X.shape[1]) if mask >> j & 1]
        b = np.zeros(X.shape[1])
        b0 = y.mean()
        if chosen:
            b0, b[chosen] = ridge_coefficients(X[:, chosen], y, alpha)
        objective = ((y - b0 - X @ b) ** 2).sum() + alpha * (b**2).sum()
        if (b >= 0).all() and objective < value:
            best, value = b, objective
    return best


def subset_rss(X, y, columns, w=None, intercept=True):
    """Weighted residual sum of squares of least squares on some columns."""
    root = np.sqrt(np.ones(len(y)) if w is None else w)
    design = np.column_stack([np.ones((len(y), int(intercept))), X[:, list(columns)]])
    if design.size == 0:
        return float(np.sum((root * y) ** 2))
    A, b = design * root[:, None], y * root
    length = np.sqrt((A**2).sum(axis=0))
    A = A / np.where(length > 0, length, 1)
    return float(np.sum((b - A @ np.linalg.lstsq(A, b, rcond=1e-10)[0]) ** 2))


def best_subsets_by_enumeration(X, y, w=None, intercept=True):
    """Least RSS of every size, over all 2^p subsets."""
    from itertools import combinations

    p = X.shape[1]
    return np.array([min(subset_rss(X, y, s, w, intercept) for s in combinations(range(p), k)) for k in range(p + 1)])


def forward_stepwise_by_refitting(X, y, size):
    """Columns in the order of entry, every candidate refitted."""
    chosen = []
    for _ in range(size):
        rest = [j for j in range(X.shape[1]) if j not in chosen]
        chosen.append(min(rest, key=lambda j: subset_rss(X, y, [*chosen, j])))
    return chosen


def backward_stepwise_by_refitting(X, y):
    """Models from all columns to none, every candidate refitted, and how many models that took."""
    current = list(range(X.shape[1]))
    models, count = [tuple(current)], 1
    while current:
        out = min(current, key=lambda j: subset_rss(X, y, [k for k in current if k != j]))
        count += len(current)
        current = [k for k in current if k != out]
        models.append(tuple(current))
    return models, count


def step_both_by_refitting(X, y, value):
    """R's step: from nothing, the single addition or deletion that lowers value(rss, k) most, while one does."""
    current = []
    best = value(subset_rss(X, y, current), 0)
    while True:
        moves = [[*current, j] for j in range(X.shape[1]) if j not in current]
        moves += [[k for k in current if k != j] for j in current]
        values = [value(subset_rss(X, y, m), len(m)) for m in moves]
        at = int(np.argmin(values))
        if values[at] >= best - 1e-9 * abs(best):
            return sorted(current)
        best, current = values[at], moves[at]


def stagewise_by_rows(X, y, step, moves):
    """Unit-scale coefficients after so many moves, the residual recomputed from the rows each time; step None: c_j."""
    Z = X - X.mean(axis=0)
    Z = Z / np.sqrt((Z**2).sum(axis=0))
    t = y - y.mean()
    t = t / np.sqrt(t @ t)
    b = np.zeros(X.shape[1])
    for _ in range(moves):
        c = Z.T @ (t - Z @ b)
        j = int(np.argmax(np.abs(c)))
        b[j] += c[j] if step is None else step * np.sign(c[j])
    return b


def correlation_with(X, y, w=None):
    """|corr(x_j, y)| of each column, weighted, in exact rational arithmetic up to the last root; 0 for constants."""
    from fractions import Fraction

    w = [Fraction(1)] * len(y) if w is None else [Fraction(float(v)) for v in w]
    total = sum(w)

    def centred(column):
        values = [Fraction(float(v)) for v in column]
        mean = sum(a * b for a, b in zip(w, values, strict=True)) / total
        return [v - mean for v in values]

    def product(a, b):
        return sum(c * d * e for c, d, e in zip(w, a, b, strict=True))

    t = centred(y)
    scores = []
    for column in np.asarray(X).T:
        x = centred(column)
        square = product(x, x) * product(t, t)
        scores.append(float(product(x, t) ** 2 / square) ** 0.5 if square else 0.0)
    return np.array(scores)


def partial_correlation_with(X, y, selected):
    """|corr| of the residuals of x_j and y after least squares on the selected columns and a constant."""
    A = np.column_stack([np.ones(len(y)), X[:, selected]])

    def residual(v):
        return v - A @ np.linalg.lstsq(A, v, rcond=None)[0]

    e = residual(y)
    scores = np.zeros(X.shape[1])
    for j in set(range(X.shape[1])) - set(selected):
        r = residual(X[:, j])
        scores[j] = abs(r @ e) / np.sqrt((r @ r) * (e @ e))
    return scores


def least_angle_steps(X, y):
    """LAR by its definition: move towards least squares on the active columns until another covariance catches up."""
    Z, r = X - X.mean(axis=0), y - y.mean()
    n, p = Z.shape
    b, active, alphas, coefs = np.zeros(p), [], [], []
    for _ in range(min(n - 1, p)):
        c = Z.T @ r
        C = np.max(np.abs(c))
        alphas.append(C / n)
        coefs.append(b.copy())
        new = [j for j in range(p) if j not in active]
        active.append(max(new, key=lambda j: abs(c[j])))
        move = np.zeros(p)
        move[active] = np.linalg.lstsq(Z[:, active], r, rcond=None)[0]
        fall = Z.T @ (Z @ move)
        steps = [1.0]
        for j in set(range(p)) - set(active):
            steps += [g for s in (1, -1) if (g := (C - s * c[j]) / (C - s * fall[j])) > 1e-12]
        b = b + min(steps) * move
        r = y - y.mean() - Z @ b
    return np.array([*alphas, 0.0]), np.array([*coefs, b])


def elastic_net_by_descent(X, y, alpha, l1_ratio=1.0, w=None, factors=None, positive=False, fit_intercept=True):
    """Cyclic coordinate descent with soft thresholding from the definition, until nothing moves."""
    n, p = X.shape
    v = np.full(n, 1 / n) if w is None else w / w.sum()
    f = np.ones(p) if factors is None else np.asarray(factors)
    b, b0 = np.zeros(p), 0.0
    for _ in range(200_000):
        before = np.append(b, b0)
        for j in range(p):
            partial = y - b0 - X @ b + X[:, j] * b[j]
            z = (v * X[:, j]) @ partial
            curvature = (v * X[:, j]) @ X[:, j] + alpha * (1 - l1_ratio) * f[j]
            shrunk = np.sign(z) * max(abs(z) - alpha * l1_ratio * f[j], 0.0)
            if positive and f[j] > 0:
                shrunk = max(shrunk, 0.0)
            b[j] = shrunk / curvature if curvature > 0 else 0.0
        if fit_intercept:
            b0 = v @ (y - X @ b)
        if np.abs(np.append(b, b0) - before).max() <= 1e-13 * max(1.0, np.abs(b).max()):
            break
    return b, b0


def elastic_net_kkt_violation(X, y, b, b0, alpha, l1_ratio=1.0, w=None, factors=None, positive=False):
    """The largest violation of the optimality conditions of the elastic net (0 at the optimum)."""
    n, p = X.shape
    v = np.full(n, 1 / n) if w is None else w / w.sum()
    f = np.ones(p) if factors is None else np.asarray(factors)
    gradient = X.T @ (v * (y - b0 - X @ b)) - alpha * (1 - l1_ratio) * f * b
    worst = 0.0
    for j in range(p):
        bound = alpha * l1_ratio * f[j]
        if b[j] != 0:
            worst = max(worst, abs(gradient[j] - bound * np.sign(b[j])))
        else:
            worst = max(worst, (gradient[j] if positive else abs(gradient[j])) - bound)
    return worst


def elastic_net_gap(X, y, b, b0, alpha, l1_ratio=1.0):
    """Duality gap of the unweighted problem with intercept, from its definition."""
    n = len(y)
    Xc, yc = X - X.mean(axis=0), y - y.mean()
    r = yc - Xc @ b
    quad = alpha * (1 - l1_ratio) * (b @ b)
    primal = r @ r / (2 * n) + alpha * l1_ratio * np.abs(b).sum() + quad / 2
    slack = np.abs(Xc.T @ r / n - alpha * (1 - l1_ratio) * b).max()
    scale = min(1.0, alpha * l1_ratio / slack) if slack > 0 else 1.0
    dual = scale * (r @ yc) / n - scale**2 / 2 * (r @ r / n + quad)
    return primal - dual


def predictions_by_refitting(estimator, X, y, splits, w=None):
    """What a clone fitted to the training rows says of the test rows, split by split."""
    from sklearn.base import clone

    found = []
    for train, test in splits:
        model = clone(estimator).fit(X[train], y[train], sample_weight=None if w is None else w[train])
        found.append(model.predict(X[test]))
    return found
