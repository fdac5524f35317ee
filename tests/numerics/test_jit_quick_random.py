"""Kernels made up at random do the same whether they are compiled quickly or as Numba likes, and lose no memory."""

from __future__ import annotations

import random
import sys
import weakref

import numba
import numpy as np
import pytest

from assay.numerics.quick import possible, quickly

known = pytest.mark.skipif(not possible(), reason="a version of Numba that was not tried")


class Writer:
    """Writes a kernel of nested loops and branches over two numbers, two whole numbers, a row and a table."""

    def __init__(self, seed):
        self.draw, self.lines, self.made = random.Random(seed), [], 0

    def kernel(self):
        self.block(1, ["a", "b"], ["n", "m"], ["x"])
        return "\n".join(["def run(a, b, n, m, x, t):", *self.lines, "    return a + b, n + m, x[0] + t[0, 0]"])

    def say(self, depth, line):
        self.lines.append("    " * depth + line)

    def new(self):
        self.made += 1
        return f"v{self.made}"

    def index(self, wholes, size):
        return self.draw.choice([f"abs({self.draw.choice(wholes)}) % {size}", str(self.draw.randrange(size))])

    def real(self, reals, wholes, rows):
        one, other, whole = self.draw.choice(reals), self.draw.choice(reals), self.draw.choice(wholes)
        return self.draw.choice(
            [
                f"{self.draw.uniform(-2, 2):.3f}",
                f"({one} {self.draw.choice('+-*')} {other})",
                f"{self.draw.choice(rows)}[{self.index(wholes, 4)}]",
                f"t[{self.index(wholes, 5)}, {self.index(wholes, 4)}]",
                f"t[-1, {self.index(wholes, 4)}]",
                f"min({one}, {other})",
                f"float({whole})",
                f"({one} if {whole} % 2 else {other})",
            ]
        )

    def test(self, reals, wholes):
        one, other, whole = self.draw.choice(reals), self.draw.choice(reals), self.draw.choice(wholes)
        return self.draw.choice([f"{one} < {other}", f"{whole} % 3 == 1", f"{one} > 0.0 and {whole} > 1"])

    def row(self, wholes):
        return self.draw.choice([f"t[{self.index(wholes, 5)}]", "x[2:]", "t[1:, 3]", "t[:, 1].copy()", "x.copy()"])

    def block(self, depth, reals, wholes, rows):
        reals, wholes, rows = list(reals), list(wholes), list(rows)
        for _ in range(self.draw.randrange(2, 6)):
            kind = self.draw.choice(
                ["new", "two", "again", "whole", "row", "cell", "table"]
                + ["if", "for", "while", "return"] * (depth < 4)
            )
            value = self.real(reals, wholes, rows)
            if kind == "new":
                self.say(depth, f"{self.new()} = {value}")
                reals.append(f"v{self.made}")
            elif kind == "two":
                self.say(depth, f"{self.new()}, {self.new()} = {value}, {self.real(reals, wholes, rows)}")
                reals += [f"v{self.made - 1}", f"v{self.made}"]
            elif kind == "again":
                self.say(depth, f"{self.draw.choice(reals)} = 0.5 * {value}")
            elif kind == "whole":
                self.say(depth, f"{self.draw.choice(['n', 'm'])} = ({self.draw.choice(wholes)} + 3) % 7")
            elif kind == "row":
                self.say(depth, f"{self.new()} = {self.row(wholes)}")
                rows.append(f"v{self.made}")
            elif kind == "cell":
                self.say(depth, f"{self.draw.choice(rows)}[{self.index(wholes, 4)}] += {value}")
            elif kind == "table":
                self.say(depth, f"t[{self.index(wholes, 5)}, {self.index(wholes, 4)}] = {value}")
            elif kind == "return" and depth > 1:
                self.say(depth, f"if {self.test(reals, wholes)}:")
                self.say(depth + 1, f"return {self.draw.choice(reals)}, {self.draw.choice(wholes)}, {value}")
            elif kind == "if":
                self.say(depth, f"if {self.test(reals, wholes)}:")
                self.block(depth + 1, reals, wholes, rows)
                if self.draw.random() < 0.5:
                    self.say(depth, "else:")
                    self.block(depth + 1, reals, wholes, rows)
            elif kind == "for":
                self.loop(depth, reals, wholes, rows)
            elif kind == "while":
                step = self.new()
                self.say(depth, f"{step} = 0")
                self.say(depth, f"while {step} < 3 and not ({self.test(reals, wholes)}):")
                self.say(depth + 1, f"{step} += 1")
                self.block(depth + 1, reals, wholes, rows)

    def loop(self, depth, reals, wholes, rows):
        at, value, whole = self.new(), self.new(), self.draw.choice(wholes)
        steps = [f"range({whole} % 5)", f"range(1, {whole} % 6)", "range(6, 0, -2)", f"range(0, 6, 1 + {whole} % 2)"]
        kind = self.draw.choice(["range", "range", "enumerate", "row"])
        if kind == "range":
            self.say(depth, f"for {at} in {self.draw.choice(steps)}:")
        elif kind == "enumerate":
            self.say(depth, f"for {at}, {value} in enumerate({self.draw.choice(rows)}):")
        else:
            self.say(depth, f"for {value} in {self.draw.choice(rows)}:")
        inner = reals + [value] * (kind != "range")
        counted = wholes + [at] * (kind != "row")
        if self.draw.random() < 0.3:
            self.say(depth + 1, f"if {self.test(inner, counted)}:")
            self.say(depth + 2, self.draw.choice(["break", "continue"]))
        self.block(depth + 1, inner, counted, rows)


def made(text):
    names = {}
    exec(text, names)
    return numba.njit(nogil=True, error_model="numpy")(names["run"])


def arguments(seed):
    draw = np.random.default_rng(seed)
    return draw.normal(), draw.normal(), 3, 5, draw.normal(size=8), draw.normal(size=(5, 4))


@known
@pytest.mark.parametrize("seed", [1, 5, 8, 13, 21, 34, 55, 89])
def test_random_kernels(seed):
    text = Writer(seed).kernel()
    one, two = made(text), made(text)
    first, second = arguments(seed), arguments(seed)
    expected = one(*first)
    with quickly():
        found = two(*second)
    assert repr(found) == repr(expected), text
    assert [array.tobytes() for array in second[4:]] == [array.tobytes() for array in first[4:]], text
    before = [sys.getrefcount(array) for array in second[4:]]
    two(*second)
    assert [sys.getrefcount(array) for array in second[4:]] == before, text


def keep_one(first, second, which):
    held = first
    for i in range(3):
        if which > i:
            held = second[i:]
        elif which == i - 1:
            held = first.copy()
    if held.size > 6:
        return held, first
    return first[1:], held


def refuse_one(first, second, which):
    other = second[1:]
    if which > 1:
        raise ValueError("no")
    return other, first


@known
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("function", [keep_one, refuse_one])
def test_arguments_live_as_long_as_what_is_returned(function, which):
    with quickly():
        run = numba.njit(function)
        run(np.ones(8), np.ones(8), 0)
    first, second = np.arange(8.0), np.arange(8.0, 16.0)
    if function is refuse_one and which > 1:
        with pytest.raises(ValueError, match="no"):
            run(first, second, which)
        held = ()
    else:
        held = run(first, second, which)
        expected = function(first, second, which)
        assert [array.tolist() for array in held] == [array.tolist() for array in expected]
        del expected
    ends = weakref.ref(first), weakref.ref(second)
    del first, second
    texts = [array.tolist() for array in held]
    np.ones(8)  # would be written where a freed array was
    assert [array.tolist() for array in held] == texts
    del held
    assert [end() for end in ends] == [None, None]
