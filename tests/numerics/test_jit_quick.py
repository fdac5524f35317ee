"""Quick compilation makes the code that plain compilation makes, and leaves no trace in Numba."""

from __future__ import annotations

import gc
import re
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
from numba.core import base, codegen, ir
from numba.core.errors import TypingError
from numba.core.types.functions import BaseFunction

from assay.numerics import jit
from assay.numerics.jit import SAFE_FASTMATH, kernel, possible, quickly

known = pytest.mark.skipif(not possible(), reason="a version of Numba that was not tried")


def plain(function, **options):
    """What `kernel` makes, without its cache and its haste."""
    return numba.njit(nogil=True, fastmath=set(SAFE_FASTMATH), no_cfunc_wrapper=True, **options)(function)


def part(values, rows, low, high):
    total, weight = 0.0, 0
    for i in range(low, high):
        value = values[rows[i], 0]
        if not np.isnan(value):
            total += value * 2.0 + i
            weight += 1
    return total, weight


def whole(inner):
    def run(values, rows, out):
        scratch = np.empty(values.shape[1])
        half = max(1, rows.size // 2)
        for j in range(values.shape[1]):
            scratch[j] = min(values[0, j], 3.0) ** 2
        left, n_left = inner(values, rows, 0, half)
        right, n_right = inner(values, rows, half, rows.size)
        if n_left + n_right == 0:
            raise ValueError("no values")
        out[:] = scratch.sum()
        out[0] = left / max(n_left, 1)
        out[-1] = np.sqrt(abs(right)) + np.exp(-left)
        return left > right, n_left - n_right

    return run


def made():
    return plain(whole(plain(part, no_cpython_wrapper=True)))


def arguments():
    values = np.random.default_rng(5).normal(size=(101, 3))
    values[7, 0] = np.nan
    return values, np.arange(0, 101, 2, dtype=np.int32), np.zeros(4)


def code(dispatcher):
    """The instructions, line by line; Numba numbers what it compiles, so names lose their numbers."""
    (text,) = dispatcher.inspect_asm().values()
    lines = [line for line in text.splitlines() if line.startswith("\t") and not line.startswith("\t.")]
    return [re.sub(r"_Z\w+(\$\w+)*", "name", line) for line in lines]


@known
def test_the_machine_code_is_the_same():
    one, two = made(), made()
    first, second = arguments(), arguments()
    answer = one(*first)
    with quickly():
        assert two(*second) == answer
    assert first[2].tobytes() == second[2].tobytes()
    assert code(one) == code(two)
    assert len(code(one)) > 200


@known
def test_numba_is_as_before_afterwards():
    def state():
        library = jit._codegen()._library_class
        return (
            BaseFunction.get_call_type,
            base.BaseContext.get_function,
            ir.Inst._rec_list_vars,
            library,
            gc.isenabled(),
        )

    before = state()
    assert before[3] is codegen.JITCodeLibrary
    with quickly():
        assert all(now != then for now, then in zip(state(), before, strict=True))
        with quickly():  # kernels compile the kernels they call
            pass
        assert all(now != then for now, then in zip(state(), before, strict=True))
    assert state() == before
    with pytest.raises(RuntimeError, match="in between"), quickly():
        raise RuntimeError("in between")
    assert state() == before
    assert "_library_class" not in vars(jit._codegen())


@known
def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with quickly():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("way", ["version", "environment"])
def test_the_plain_way(monkeypatch, way):
    if way == "version":
        monkeypatch.setattr(numba, "__version__", "99.1.0")
    else:
        monkeypatch.setenv("ASSAY_PLAIN_COMPILE", "1")
    assert not possible()
    before = BaseFunction.get_call_type
    with quickly():
        assert BaseFunction.get_call_type is before
        assert gc.isenabled()
        assert made()(*arguments()) is not None


def test_what_is_no_kernel_is_refused_as_before():
    @kernel
    def add(x, y):
        return x + y

    for _ in range(2):  # nothing wrong is remembered
        with pytest.raises(TypingError):
            add(1.0, "one")
    assert add(1.0, 2.0) == 3.0
    assert add(1, 2) == 3


def test_each_type_gets_its_own_answer():
    @kernel
    def half(x, i):
        return x[i] // 2

    for dtype in (np.int8, np.int32, np.uint8, np.float32, np.float64):
        x = np.array([5, 7], dtype=dtype)
        assert half(x, 1) == 3
        assert isinstance(half(x, 0), float) is np.issubdtype(dtype, np.floating)


def test_two_threads_may_compile_at_once():
    def shift(by):
        @kernel
        def run(x):
            for i in range(x.size):
                x[i] += by
            return x.sum()

        return run(np.zeros(10, dtype=np.float32 if by % 2 else np.float64))

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(shift, [1, 2, 3, 4])) == [10.0, 20.0, 30.0, 40.0]
