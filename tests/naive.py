"""Slow, obvious versions of everything fast: the definitions, no cleverness."""

from __future__ import annotations

import numpy as np


def centred_moments(X, Y, w=None):
    """Means and centred cross-products, in exact rational arithmetic, rounded once at the end."""
    from fractions import Fraction

    X, Y = [[[Fraction(float(v)) for v in row] for row in table] for table in (X, Y)]
    w = [Fraction(1)] * len(X) if w is None else [Fraction(float(v)) for v in w]

    def mean(table):
        return [sum(wi * row[j] for wi, row in zip(w, table, strict=True)) / sum(w) for j in range(len(table[0]))]

    def cross(a, ma, b, mb):
        rows = list(zip(w, a, b, strict=True))
        return [
            [sum(wi * (r[i] - ma[i]) * (s[j] - mb[j]) for wi, r, s in rows) for j in range(len(mb))]
            for i in range(len(ma))
        ]

    mx, my = mean(X), mean(Y)
    xx, xy, yy = cross(X, mx, X, mx), cross(X, mx, Y, my), cross(Y, my, Y, my)
    exact = (mx, my, xx, xy, [yy[k][k] for k in range(len(my))])
    return tuple(np.array(part, dtype=float) for part in exact)


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


def exact_least_squares(X, y, w=None, intercept=True):
    """Coefficients (intercept first), their squared standard errors and the residual sum of squares, as fractions."""
    from fractions import Fraction

    w = [Fraction(1)] * len(y) if w is None else [Fraction(float(v)) for v in w]
    A = [[Fraction(1)] * intercept + [Fraction(float(v)) for v in row] for row in X]
    b = [Fraction(float(v)) for v in y]
    m = len(A[0])
    # Gauss-Jordan on [A'WA | A'Wb | I]: the solution and the inverse at once.
    M = [
        [sum(v * r[i] * r[j] for v, r in zip(w, A, strict=True)) for j in range(m)]
        + [sum(v * r[i] * t for v, r, t in zip(w, A, b, strict=True))]
        + [Fraction(int(i == j)) for j in range(m)]
        for i in range(m)
    ]
    for i in range(m):
        pivot = next(k for k in range(i, m) if M[k][i] != 0)
        M[i], M[pivot] = M[pivot], M[i]
        M[i] = [v / M[i][i] for v in M[i]]
        for k in range(m):
            if k != i and M[k][i] != 0:
                M[k] = [v - M[k][i] * u for v, u in zip(M[k], M[i], strict=True)]
    beta = [M[i][m] for i in range(m)]
    errors = [t - sum(u * v for u, v in zip(r, beta, strict=True)) for r, t in zip(A, b, strict=True)]
    rss = sum(v * e * e for v, e in zip(w, errors, strict=True))
    df = sum(v != 0 for v in w) - m
    return beta, [rss / df * M[i][m + 1 + i] for i in range(m)], rss


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


def adjusted_p_by_definition(p, method):
    """Adjusted p-values from their formulas, one rank at a time."""
    m = len(p)
    order = sorted(range(m), key=lambda i: p[i])
    ranked = [p[i] for i in order]
    c = sum(1 / j for j in range(1, m + 1))
    factor = {
        "bonferroni": lambda j: m,
        "holm": lambda j: m - j + 1,
        "hochberg": lambda j: m - j + 1,
        "bh": lambda j: m / j,
        "by": lambda j: c * m / j,
    }
    out = np.empty(m)
    for i in range(1, m + 1):
        if method == "sidak":
            value = 1 - (1 - ranked[i - 1]) ** m
        elif method == "bonferroni":
            value = m * ranked[i - 1]
        else:
            span = range(1, i + 1) if method == "holm" else range(i, m + 1)
            ratios = [ranked[j - 1] * factor[method](j) for j in span]
            value = max(ratios) if method == "holm" else min(ratios)
        out[order[i - 1]] = min(1.0, value)
    return out


def binomial_two_sided_by_definition(k, n, p):
    """The sum of P(i) over every i no more likely than k, in exact fractions."""
    from fractions import Fraction
    from math import comb

    q = Fraction(p)
    chance = [comb(n, i) * q**i * (1 - q) ** (n - i) for i in range(n + 1)]
    return float(sum(c for c in chance if c <= chance[k]))


def binomial_power_by_definition(n, p0, p1, alpha, p_value):
    """The chance under p1 of every count whose p-value is at most alpha."""
    from math import comb

    return sum(comb(n, k) * p1**k * (1 - p1) ** (n - k) for k in range(n + 1) if p_value(k) <= alpha)


def auc_by_pairs(positive, scores):
    """The share of (positive, negative) pairs in the right order, a tie counting one half."""
    above = [s for s, p in zip(scores, positive, strict=True) if p]
    below = [s for s, p in zip(scores, positive, strict=True) if not p]
    pairs = [(a, b) for a in above for b in below]
    return sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)


def delong_variance_by_definition(positive, scores):
    """DeLong's variance from the m x n table of comparisons."""
    above = [s for s, p in zip(scores, positive, strict=True) if p]
    below = [s for s, p in zip(scores, positive, strict=True) if not p]
    table = np.array([[1.0 if a > b else 0.5 if a == b else 0.0 for b in below] for a in above])
    return table.mean(axis=1).var(ddof=1) / len(above) + table.mean(axis=0).var(ddof=1) / len(below)


def confusion_by_counting(y_true, y_pred, labels):
    """Entry (i, j): rows of class i assigned to j."""
    return [[sum(t == a and p == b for t, p in zip(y_true, y_pred, strict=True)) for b in labels] for a in labels]


def within_cluster_variation_by_pairs(X, labels):
    """The sum over clusters of (1/n_k) times the squared distances of all ordered pairs of members."""
    total = 0.0
    for k in set(labels):
        members = [x for x, c in zip(X, labels, strict=True) if c == k]
        total += sum(float(np.sum((a - b) ** 2)) for a in members for b in members) / len(members)
    return total


def infinitesimal_jackknife(figure, n, step=1e-6):
    """The influence of each row by definition: the slope of figure(weights) in that row's weight, times n."""
    base = np.ones(n)
    out = np.empty(n)
    for i in range(n):
        up, down = base.copy(), base.copy()
        up[i] += step
        down[i] -= step
        out[i] = n * (figure(up) - figure(down)) / (2 * step)
    return out


def calibration_error_by_bins(event, p, n_bins):
    """Mean |share - mean probability| over bins (low, high], weighted by their rows."""
    total = 0.0
    for b in range(n_bins):
        low, high = b / n_bins, (b + 1) / n_bins
        rows = [i for i, v in enumerate(p) if (low < v <= high) or (b == 0 and v == 0)]
        if rows:
            total += abs(sum(event[i] for i in rows) - sum(p[i] for i in rows)) / len(p)
    return total


def bca_by_definition(values, statistic, replicates, level):
    """Efron's BCa limits with the jackknife done row by row."""
    from scipy import stats

    estimate = statistic(values)
    n = len(values)
    left_out = np.array([statistic(np.delete(values, i)) for i in range(n)])
    d = left_out.mean() - left_out
    a = np.sum(d**3) / (6 * np.sum(d**2) ** 1.5)
    z0 = stats.norm.ppf(np.mean(replicates < estimate) + 0.5 * np.mean(replicates == estimate))
    ends = []
    for tail in ((1 - level) / 2, (1 + level) / 2):
        z = z0 + stats.norm.ppf(tail)
        ends.append(np.quantile(replicates, stats.norm.cdf(z0 + z / (1 - a * z))))
    return a, ends[0], ends[1]


def permutation_p_by_definition(x, y, statistic, kind):
    """P-values (less, greater) over every arrangement, listed one by one."""
    from itertools import combinations, permutations, product

    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    pool = np.concatenate([x, y])
    values = []
    if kind == "groups":
        for chosen in combinations(range(pool.size), x.size):
            rest = [i for i in range(pool.size) if i not in chosen]
            values.append(statistic(pool[list(chosen)], pool[rest]))
    elif kind == "signs":
        for kept in product([True, False], repeat=x.size):
            values.append(statistic(np.where(kept, x, y), np.where(kept, y, x)))
    else:
        values = [statistic(x, y[list(order)]) for order in permutations(range(y.size))]
    seen = statistic(x, y)
    values = np.array(values)
    return np.mean(values <= seen + 1e-12), np.mean(values >= seen - 1e-12)


def betting_interval_by_definition(x, level, grid):
    """Means on a grid whose hedged capital never reached 1/alpha: Waudby-Smith & Ramdas, capital by capital."""
    alpha = 1 - level
    kept = []
    for m in grid:
        up = down = 1.0
        rejected = False
        mean, variance, total, squares = 0.5, 0.25, 0.5, 0.25
        for i, value in enumerate(x, start=1):
            bet = np.sqrt(2 * np.log(2 / alpha) / (variance * i * np.log(1 + i)))
            up *= 1 + min(bet, 0.5 / m) * (value - m)
            down *= 1 - min(bet, 0.5 / (1 - m)) * (value - m)
            rejected |= max(up, down) / 2 >= 1 / alpha
            total += value
            mean = total / (i + 1)
            squares += (value - mean) ** 2
            variance = squares / (i + 1)
        if not rejected:
            kept.append(m)
    return min(kept), max(kept)


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


def isotonic_by_min_max(scores, y, w):
    """Values at the rows: the largest over lower ends a of the smallest over upper ends b of the mean from a to b."""
    scores, y, w = (np.asarray(part, dtype=float) for part in (scores, y, w))
    levels = np.unique(scores)

    def mean(a, b):
        inside = (scores >= a) & (scores <= b)
        return np.sum(w[inside] * y[inside]) / np.sum(w[inside])

    at = {s: max(min(mean(a, b) for b in levels if b >= s) for a in levels if a <= s) for s in levels}
    return np.array([at[s] for s in scores])


def platt_by_optimiser(scores, y, w):
    """Slope and intercept of Platt's sigmoid from its objective as written, by a general optimiser."""
    from scipy import optimize

    scores, y, w = (np.asarray(part, dtype=float) for part in (scores, y, w))
    positives, negatives = np.sum(w * y), np.sum(w * (1 - y))
    t = np.where(y == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))

    def loss(at):
        z = at[0] * scores + at[1]
        return np.sum(w * (t * np.logaddexp(0, -z) + (1 - t) * np.logaddexp(0, z)))

    return optimize.minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14}).x


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


def mcnemar_by_enumeration(b, c, alternative):
    """Sum of P(B = i) over all outcomes at least as far out, B ~ Binomial(b + c, 1/2); exact in fractions."""
    from fractions import Fraction
    from math import comb

    m = b + c
    mass = [Fraction(comb(m, i), 2**m) for i in range(m + 1)]
    low, high = sum(mass[: b + 1]), sum(mass[b:])
    return float({"less": low, "greater": high, "two-sided": min(Fraction(1), 2 * min(low, high))}[alternative])


def tango_statistic(d, b, c, n):
    """Score statistic of a paired difference d: the likelihood is maximised over the other parameter by a grid."""
    lo, hi = max(0.0, -d), (1 - d) / 2
    for _ in range(40):
        q = np.linspace(lo, hi, 41)[1:-1]
        rest = 1 - 2 * q - d
        like = b * np.log(q + d) + (c * np.log(q) if c else 0.0) + (n - b - c) * np.log(np.maximum(rest, 1e-300))
        best = q[np.argmax(like)]
        width = (hi - lo) / 20
        lo, hi = max(lo, best - width), min(hi, best + width)
    return (b - c - n * d) / np.sqrt(n * (2 * best + d * (1 - d)))


def corrected_t_by_definition(differences, ratio):
    """Nadeau and Bengio's t statistic, term by term."""
    j = len(differences)
    mean = sum(differences) / j
    variance = sum((d - mean) ** 2 for d in differences) / (j - 1)
    return mean / (variance * (1 / j + ratio)) ** 0.5


def five_by_two_by_definition(differences):
    """Dietterich's t (numerator: the first difference only) and Alpaydin's F, term by term."""
    spreads = []
    for first, second in differences:
        mean = (first + second) / 2
        spreads.append((first - mean) ** 2 + (second - mean) ** 2)
    t = differences[0][0] / (sum(spreads) / 5) ** 0.5
    f = sum(d * d for pair in differences for d in pair) / (2 * sum(spreads))
    return t, f


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


def predictions_by_refitting(estimator, X, y, splits, w=None):
    """What a clone fitted to the training rows says of the test rows, split by split."""
    from sklearn.base import clone

    found = []
    for train, test in splits:
        model = clone(estimator).fit(X[train], y[train], sample_weight=None if w is None else w[train])
        found.append(model.predict(X[test]))
    return found


# The experiment room: the ledger's chain, what a cell is, the Ladder.


def chain_digest(previous, seq, kind, study, body, created, blob):
    """The link of a ledger entry, from the definition; `body` is the stored text, `blob` the hex digest or None."""
    import hashlib
    import json

    told = json.dumps([seq, kind, study, body, created, blob], separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256((previous + "|" + told).encode()).hexdigest()


def cell_content(value):
    """What a cell says, whoever read it: a number, a date, text, or nothing."""
    import datetime
    import re
    import unicodedata
    from fractions import Fraction

    if value is None or value != value:
        return None
    if isinstance(value, datetime.datetime):
        return ("date", value)
    if isinstance(value, bool | int | float):
        return float(value) if value in (float("inf"), -float("inf")) else Fraction(value)
    if value in ("", "NA", "nan"):
        return None
    if value.lower() in ("true", "false"):
        return Fraction(value.lower() == "true")
    if re.fullmatch(r"[+-]?[0-9]+", value):
        return Fraction(int(value))
    if re.fullmatch(r"[+-]?[0-9]*\.[0-9]+", value):
        return Fraction(float(value))
    return ("text", unicodedata.normalize("NFC", value))


def ladder_answers(losses, step=None):
    """Blum and Hardt's algorithm over the rows of `losses`, answers rounded to the step."""
    n = losses.shape[1]
    best, answer, answers = np.zeros(n), np.inf, []
    for mine in losses:
        width = step
        if width is None:
            width = max(np.std(mine - best, ddof=1) / np.sqrt(n), max(abs(mine).max(), abs(best).max()) / n)
        if np.mean(mine) < answer - width:
            answer, best = round(np.mean(mine) / width) * width, mine
        answers.append(answer)
    return answers


def stratum_threshold_counts(numbers, share):
    """All counts of rows below some threshold that equal numbers allow, and the best distance to the share."""
    counts = sorted({sum(other < limit for other in numbers) for limit in [*numbers, 2.0]})
    return min(abs(count - share * len(numbers)) for count in counts)


def standardised_by_definition(cells, *, impute):
    """A column with gaps (None): filled with the median and flagged, or left, and standardised; None if constant."""
    seen = sorted(cell for cell in cells if cell is not None)
    if not seen or seen[0] == seen[-1]:
        flags = [[float(cell is None)] for cell in cells]
        return flags if impute and seen and len(seen) < len(cells) else None
    half = len(seen) // 2
    median = seen[half] if len(seen) % 2 else (seen[half - 1] + seen[half]) / 2
    filled = [median if cell is None and impute else cell for cell in cells]
    known = [cell for cell in filled if cell is not None]
    mean = np.sum(known) / len(known)
    sd = np.sqrt(np.sum([(value - mean) ** 2 for value in known]) / len(known))
    rows = [[np.nan if value is None else (value - mean) / sd] for value in filled]
    if impute and len(seen) < len(cells):
        rows = [[*row, float(cell is None)] for row, cell in zip(rows, cells, strict=True)]
    return rows


def dummies_by_definition(cells, fresh, size, encode):
    """Names and 0/1 columns of a category learned from `cells` and applied to `fresh`, cell by cell."""
    seen = sorted({cell for cell in cells if cell is not None}, key=lambda level: (-cells.count(level), level))
    least = 2 if len(seen) > 2 else 1
    kept = [level for level in seen[:size] if cells.count(level) >= least]
    kept.sort(key=lambda level: (0, int(level), "") if level.isdigit() else (1, 0, level))
    states = [f"={level}" for level in kept]
    states += ["=other"] if len(kept) < len(seen) else []
    states += [" missing"] if None in cells else []
    if len(states) < 2:
        return [], [[] for _ in fresh]
    shown = states[1:] if len(states) == 2 or encode == "treatment" else states
    rows = []
    for cell in fresh:
        state = " missing" if cell is None else f"={cell}" if cell in kept else "=other"
        rows.append([float(state == name) for name in shown])
    return shown, rows


def guarded_ladder_answers(losses):
    """The Ladder whose step is at least the standard error of the loss; one step up to rounding is not enough."""
    n = losses.shape[1]
    best, answer, answers = np.zeros(n), np.inf, []
    for mine in losses:
        width = max(np.std(mine - best, ddof=1), np.std(mine, ddof=1)) / np.sqrt(n)
        width = max(width, max(abs(mine).max(), abs(best).max()) / n) or 1 / n
        if answer - np.mean(mine) > width * (1 + 1e-9):
            answer, best = round(np.mean(mine) / width) * width, mine
        answers.append(answer)
    return answers


def one_rule_r2(codes, y):
    """R2 of the mean of a row's level among the rows at positions of the other parity; unseen levels: overall mean."""
    loss = 0.0
    for i, (level, value) in enumerate(zip(codes, y, strict=True)):
        others = [j for j in range(len(y)) if j % 2 != i % 2]
        same = [y[j] for j in others if codes[j] == level] or [y[j] for j in others]
        loss += (value - np.mean(same)) ** 2
    return 1 - loss / np.sum((y - np.mean(y)) ** 2)


def one_rule_skill(codes, labels):
    """Skill of the most frequent class (the first of equals) of a row's level among rows of the other parity."""
    right = 0
    for i, (level, label) in enumerate(zip(codes, labels, strict=True)):
        others = [j for j in range(len(labels)) if j % 2 != i % 2]
        same = [int(labels[j]) for j in others if codes[j] == level] or [int(labels[j]) for j in others]
        right += max(sorted(set(same)), key=same.count) == label
    share = max(np.bincount(labels)) / len(labels)
    return (right / len(labels) - share) / (1 - share)
