"""Quick compilation makes the code that plain compilation makes, the same each time, and leaves no trace in Numba."""

from __future__ import annotations

import gc
import os
import platform
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core import codegen
from numba.core.errors import TypingError
from numba.core.registry import cpu_target
from numba.core.types.functions import BaseFunction

from assay.numerics import quick
from assay.numerics.jit import SAFE_FASTMATH, kernel
from assay.numerics.quick import possible, quickly

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
    """How often each instruction occurs."""
    (text,) = dispatcher.inspect_asm().values()
    lines = [line for line in text.splitlines() if line.startswith("\t") and not line.startswith("\t.")]
    return Counter(line.split()[0] for line in lines)


def arithmetic(instructions):
    """Those of them that compute with real numbers."""
    computes = re.compile(r"v?f?(n?m?(add|sub|mul|div)|sqrt|max|min)")
    return {name: count for name, count in instructions.items() if computes.match(name) and name[-2] in "ps"}


@known
def test_the_machine_code_computes_the_same():
    one, two = made(), made()
    first, second = arguments(), arguments()
    answer = one(*first)
    with quickly():
        assert two(*second) == answer
    assert first[2].tobytes() == second[2].tobytes()
    assert arithmetic(code(one)) == arithmetic(code(two))
    assert 200 < code(two).total() < code(one).total()
    if platform.machine() == "x86_64":
        assert sum(arithmetic(code(one)).values()) > 20
        assert code(one)["lock"] > code(two)["lock"]  # references to arguments are not counted


class Held(NamedTuple):
    """A bundle of arrays, as kernels pass them about."""

    cells: np.ndarray
    marks: np.ndarray
    scale: float


def indices(cells):
    total = cells[-1, 0] + cells[np.uint8(1), -2]
    for row in cells:
        for value in row[::-1]:
            total = 0.5 * total + value
    cells[-1] = cells[0, 1]
    cells[1:, 0] += cells[:-1, 2]
    return total, cells[1, ...].copy(), cells.T[2], len(cells), cells.size


def shapes(cells):
    flat = cells.reshape(-1)
    square = flat[:9].reshape((3, 3))
    view = flat.view(np.int64)
    if flat[0] > 0.0:
        flat = flat[2:]
    else:
        square = square.T.copy()
    return (
        flat.sum() + square[2, 0],
        view[3],
        np.ravel(square)[-1],
        cells.shape,
        cells.strides,
        cells.T.flags.f_contiguous,
    )


def loops(cells):
    best, at, seen = -np.inf, (-1, -1), 0
    for i in range(cells.shape[0]):
        low = np.inf
        for j in range(cells.shape[1]):
            value = cells[i, j]
            if np.isnan(value):
                continue
            seen += 1
            if value > best:
                best, at = value, (i, j)
            low = min(low, value)
        while low < 0.0:
            low += 1.0
        cells[i, 0] = low
    return best, at, seen


def arrays_in_tuples(cells):
    held = Held(np.ascontiguousarray(cells), np.zeros(cells.shape[0], dtype=np.int32), 2.0)
    for _ in range(3):
        other = Held(np.ascontiguousarray(held.cells + 1.0), held.marks, held.scale)
        if other.cells[0, 0] > 2.0:
            held = other
        held.marks[0] += 1
    pair = (held.cells, cells)
    lists = [held.cells[0].copy(), cells[1].copy()]
    lists.append(pair[1][2].copy())
    return pair[0][0, 0] * held.scale, held.marks, lists[2][1], sum([row.sum() for row in lists])


def searched(cells):
    order = np.argsort(cells[:, 0])
    ranked = cells[order, 0]
    out = np.empty_like(cells)
    for i, row in enumerate(order):
        out[i] = cells[row]
    at = np.searchsorted(ranked, cells[1, 0])
    return ranked, out, at, np.where(cells > 0.0, cells, 0.0), cells[cells[:, 1] > 0.0].sum()


def refused(cells):
    try:
        if cells[0, 0] < 9.0:
            raise ValueError("too small")
    except Exception:
        return -1.0
    return cells[0, 0]


LAYOUTS = {
    "C": lambda cells: cells,
    "F": np.asfortranarray,
    "A": lambda cells: np.repeat(cells, 2, axis=0)[::2],
}


@known
@pytest.mark.parametrize(
    ("function", "layout"),
    [
        (shapes, "C"),  # Numba reshapes no others
        *(
            (function, layout)
            for function in (indices, loops, arrays_in_tuples, searched, refused)
            for layout in LAYOUTS
        ),
    ],
)
def test_kernels_of_all_kinds_do_what_they_did(function, layout):
    cells = np.random.default_rng(8).normal(size=(4, 5))
    first, second = LAYOUTS[layout](cells.copy()), LAYOUTS[layout](cells.copy())
    one, two = plain(function), plain(function)
    expected = one(first)
    with quickly():
        found = two(second)
    assert repr(found) == repr(expected)
    assert first.tobytes() == second.tobytes()
    assert code(two).total() < 1.005 * code(one).total()  # fewer in most cases
    assert arithmetic(code(two)) == arithmetic(code(one))


def astray(x):
    y = x + 1
    for i in range(3):
        y = y.nowhere(i)
    return y


@known
def test_a_refusal_says_what_it_said():
    def words(kind):
        with pytest.raises(TypingError) as caught:
            plain(astray)(kind)
        return str(caught.value).split()  # Numba indents a failure more each time that it happens

    for kind in (1.0, np.ones(2), "text"):
        expected = words(kind)
        with quickly():
            assert words(kind) == expected
        assert "astray(x):" in expected


def squares(values):
    for value in values:
        yield value * value


@known
def test_generators_know_their_variables():
    values = np.arange(5.0)
    expected = list(plain(squares)(values))
    with quickly():
        assert list(plain(squares)(values)) == expected == [0.0, 1.0, 4.0, 9.0, 16.0]


@known
def test_numba_is_as_before_afterwards():
    def state():
        return [*(getattr(owner, name) for owner, name, _ in quick._replacements), gc.isenabled()]

    before = state()
    own = [name in vars(owner) for owner, name, _ in quick._replacements]
    with quickly():
        assert all(now is not then for now, then in zip(state(), before, strict=True))
        with quickly():  # kernels compile the kernels they call
            pass
        assert all(now is not then for now, then in zip(state(), before, strict=True))
    assert state() == before
    with pytest.raises(RuntimeError, match="in between"), quickly():
        raise RuntimeError("in between")
    assert state() == before
    assert own == [name in vars(owner) for owner, name, _ in quick._replacements]


@known
def test_frozen_objects_stay_frozen():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with quickly():
            pass
        assert gc.get_freeze_count() >= frozen > 0
    finally:
        gc.unfreeze()


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


# Inner kernels are parts: whoever calls them makes the machine code.


@kernel(inner=True)
def weigh(values, i):
    if values[i] < 0.0:
        raise ValueError("negative", i)
    return np.sqrt(values[i]) / 3.0 + np.ones(2).sum()


@kernel(inner=True)
def weigh_twice(values, i):
    return weigh(values, i) + weigh(values, values.size - 1 - i)


@kernel
def weights(values):
    total = 0.0
    for i in range(values.size):
        total += weigh_twice(values, i)
    return total


ONE = (numba.float64[::1], numba.int64)


@known
def test_an_inner_kernel_has_no_machine_code_of_its_own():
    values = np.arange(10.0)
    assert weights(values) == pytest.approx(2 * np.sum(np.sqrt(values) / 3 + 2), rel=1e-14)
    weigh.compile(ONE)  # it may not have been needed: the caller was cached
    result = weigh.overloads[ONE]
    assert isinstance(result.library, quick._quick_back.Part)
    assert result.library.serialize_using_object_code()[1] == "bitcode"


@known
def test_a_part_can_be_linked_and_read_without_haste():
    weigh.compile(ONE)
    linked = numba.njit(lambda values, i: weigh_twice(values, i))
    assert linked(np.arange(2.0), 1) == pytest.approx(1 / 3 + 4, rel=1e-14)
    with pytest.raises(ValueError, match="negative") as caught:
        linked(-np.ones(3), 2)
    assert caught.value.args == ("negative", 2)
    result = weigh.overloads[ONE]
    read = cpu_target.target_context.codegen().unserialize_library(result.library.serialize_using_object_code())
    assert type(read) is codegen.JITCodeLibrary
    assert read.get_pointer_to_function(result.fndesc.llvm_func_name)


def test_an_error_in_a_part_says_what_it_should():
    with pytest.raises(ValueError, match="negative") as caught:
        weights(np.array([1.0, -1.0]))
    assert caught.value.args == ("negative", 1)


RECURSIVE = """
@kernel(inner=True)
def factorial(n):
    if n <= 1:
        return 1
    return n * factorial(n - 1)


@kernel
def seven(n):
    return factorial(n) + factorial(n - 1)
"""


def test_a_part_may_call_itself():
    names = {"kernel": kernel}  # typed at a prompt, for Numba cannot cache what calls itself
    exec(RECURSIVE, names)
    assert names["seven"](7) == 5040 + 720


PARTS = """
import numpy as np
from assay.numerics.jit import kernel


@kernel(inner=True)
def squash(values, i):
    if i < 0:
        raise IndexError("before the first", i)
    return np.exp(-values[i] * values[i]) * (0.1 + values[i])


@kernel(inner=True)
def both(values, i, j):
    return squash(values, i) + squash(values, j) / 3.0


@kernel
def one(values, low):
    total = 0.0
    for i in range(low, values.size):
        total += both(values, i, values.size - 1 - i)
    return total


@kernel
def two(values, low):
    total = 0.0
    for i in range(low, values.size):
        total -= both(values, i, i) * 0.3
    return total
"""

USE = """
import sys
import numpy as np
import parts

values = np.random.default_rng(3).normal(size=1001)
for name in sys.argv[1:]:
    run = getattr(parts, name)
    print(name, run(values, 0).hex())
    try:
        run(values, -1)
    except IndexError as error:
        print(name, error.args)
hits = sum(sum(run.stats.cache_hits.values()) for run in (parts.one, parts.two, parts.both))
print("hits", hits, file=sys.stderr)
"""


@known
def test_cold_warm_and_half_warm_caches_give_the_same_bits(tmp_path):
    (tmp_path / "parts.py").write_text(PARTS)

    def run(cache, *names):
        path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
        done = subprocess.run(
            [sys.executable, "-c", USE, *names],
            env={**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(tmp_path / cache)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines(), int(done.stderr.split()[-1])

    cold, hits = run("a", "one", "two")
    assert hits == 0
    assert cold[1].startswith("one ('before the first', -1")
    assert run("a", "one", "two") == (cold, 2)
    assert run("b", "one") == (cold[:2], 0)
    assert run("b", "two") == (cold[2:], 1)  # made of parts that another process had compiled
    assert run("b", "two", "one") == (cold[2:] + cold[:2], 2)
