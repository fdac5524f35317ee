"""The loop itself, with models that do as they are told."""

from __future__ import annotations

import numpy as np
import pytest

from assay.errors import ConvergenceWarning, DivergenceError
from assay.latent._em import EMModel, EMTrace, best_of, climb, warn_of
from assay.progress import listen


class Told(EMModel[int, int]):
    """Parameters count the iterations; the objective at each is given."""

    def __init__(self, values, rescued=()):
        self.values, self.rescued = values, rescued

    def e_step(self, params):
        return self.values[params], params

    def m_step(self, summary):
        return summary + 1

    def rescue(self, params, times):
        return params if params in self.rescued else None

    def describe(self, params):
        return {"step": np.array(params)}


OPTIONS = {"size": 1.0, "tol": 1e-3, "max_iter": 10}


def test_it_stops_at_the_tolerance():
    fit = climb(Told([-5.0, -3.0, -2.0, -1.9999, 9.0]), 0, keep=True, **OPTIONS)
    assert fit.trace.converged
    assert (fit.params, fit.objective, fit.trace.n_iter, fit.trace.initial) == (3, -1.9999, 3, -5.0)
    assert [int(one["step"]) for one in fit.trace.parameters] == [0, 1, 2, 3]
    assert fit.trace.to_frame()["step"].tolist() == [0, 1, 2, 3]


def test_the_tolerance_is_per_row():
    assert climb(Told([0.0, 1.0, 2.0]), 0, size=1e4, tol=1e-3, max_iter=2).trace.n_iter == 1


def test_it_warns_at_the_last_iteration_and_names_the_knob():
    fit = climb(Told([0.0, 1.0, 2.0]), 0, size=1.0, tol=0.0, max_iter=2)
    assert not fit.trace.converged
    with pytest.warns(ConvergenceWarning, match=r"max_iter = 2 reached .*gained 1 per row.*; raise max_iter"):
        warn_of(fit.trace)


def test_a_fall_is_told_and_undone():
    fit = climb(Told([0.0, 1.0, 0.5, 7.0]), 0, **OPTIONS)
    assert (fit.params, fit.objective, fit.trace.fell) == (1, 1.0, True)
    with pytest.warns(ConvergenceWarning, match="fell by 0.5 per row in iteration 2; the parameters before"):
        warn_of(fit.trace)


def test_rounding_is_no_fall():
    fit = climb(Told([0.0, 1.0, 1.0 - 1e-13]), 0, **OPTIONS)
    assert fit.trace.converged


def test_after_a_rescue_it_may_fall():
    fit = climb(Told([0.0, 1.0, 0.5, 0.7, 0.7], rescued=(2,)), 0, **OPTIONS)
    assert fit.trace.converged
    assert fit.trace.restarted == (2,)


def test_no_number_is_an_error():
    with pytest.raises(DivergenceError, match="nan in iteration 1"):
        climb(Told([0.0, np.nan]), 0, **OPTIONS)


def test_the_best_start_wins_and_the_first_of_equals():
    values = [0.0, 1.0, 1.0, 0.0, 2.0, 2.0, 0.0, 2.0, 2.0]
    seen = []
    with listen(lambda label, done, total: seen.append((label, done, total))):
        fit = best_of(Told(values), [lambda: 0, lambda: 3, lambda: 6], **OPTIONS)
    assert fit.objectives == (1.0, 2.0, 2.0)
    assert fit.params == 5
    assert ("EM, starts", 3, 3) in seen


def test_a_start_that_is_not_sound_loses():
    class Fussy(Told):
        def sound(self, params):
            return params < 3

    assert best_of(Fussy([0.0, 1.0, 1.0, 0.0, 2.0, 2.0]), [lambda: 0, lambda: 3], **OPTIONS).params == 2


def test_no_sentence_decides_what_a_warning_says():
    trace = EMTrace(np.array([-2.0]), False, "the log-likelihood fell asleep", initial=-3.0)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        warn_of(trace)
    trace = EMTrace(np.array([-2.0]), False, "down it went", initial=-3.0, fell=True)
    with pytest.warns(ConvergenceWarning, match="down it went; the parameters before"):
        warn_of(trace)


def test_a_trace_prints():
    trace = EMTrace(np.array([-2.0]), False, "max_iter = 1 reached", initial=-3.0)
    assert str(trace) == "not converged after 1 iterations, objective -2: max_iter = 1 reached"
    assert trace.to_frame()["objective"].tolist() == [-3.0, -2.0]
