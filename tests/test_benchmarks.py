"""The harness itself, on toy cases: it compares answers, takes turns, and says what went wrong."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from benchmarks import __main__ as command
from benchmarks import compile as compilation
from benchmarks import machine, runner, table
from benchmarks.case import Case
from benchmarks.runner import Cold, Contest, Contestant, run


def case(name="toy", ours=lambda data: 1.0, peers=None, **options) -> Case:
    options = {"data": lambda: 0, "quality": lambda outcome, data: outcome, "quality_name": "error", **options}
    return Case(name=name, ours=ours, peers=peers or {}, **options)


class Clock:
    """Time that passes only when a toy says so: a busy machine changes nothing."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def sleeper(self, seconds: float):
        def call(data):
            self.now += seconds
            return 1.0

        return call


@pytest.fixture(autouse=True)
def _small_heap():
    """The runner collects garbage before each call, which takes seconds amid all that other tests have left."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(runner, "time", clock)
    return clock


def fine(data):
    return 1.0


# Answers.


@pytest.mark.parametrize(
    ("ours", "slack", "failed"), [(1.0, 0, False), (0.5, 0, False), (1.1, 0, True), (1.1, 0.2, False)]
)
def test_our_answer_must_be_as_good(ours, slack, failed):
    contest = run(case(ours=lambda data: ours, peers={"peer": lambda data: 1.0}, slack=slack), repeats=1)
    assert contest.failed == failed
    assert ("FAILED" in table.as_text([contest])) == failed
    assert (contest.ours.quality, contest.peers[0].quality) == (ours, 1.0)


@pytest.mark.parametrize("quality", [math.nan, math.inf])
def test_an_answer_that_cannot_be_scored_fails(quality):
    assert run(case(ours=lambda data: quality, peers={"peer": lambda data: 1.0}), repeats=1).failed
    assert not run(case(peers={"peer": lambda data: quality}), repeats=1).failed


def broken(data):
    raise ZeroDivisionError("no\nluck")


def missing(data):
    raise ModuleNotFoundError("No module named 'peer'", name="peer")


def test_a_crash_of_ours_fails_and_is_told():
    for call in (broken, missing):
        contest = run(case(ours=call, peers={"peer": fine}), repeats=2)
        assert contest.failed
        assert not contest.ours.times
        assert "FAILED" in table.as_text([contest])
        assert "\nluck" not in table.as_text([contest])


def test_a_peer_that_is_missing_or_crashes_is_a_line_in_the_table():
    contest = run(case(peers={"absent": missing, "broken": broken, "fine": fine}, goals={"absent": 2.0}), repeats=2)
    assert not contest.failed
    assert [peer.problem for peer in contest.peers] == ["not installed", "ZeroDivisionError: no luck", None]
    text = table.as_text([contest])
    assert "not installed" in text
    assert "≥ 2: not run" in text
    assert len(contest.peers[2].times) == 2


# Turns and times.


def test_everybody_warms_up_once_and_then_takes_turns():
    log = []

    def noting(name):
        return lambda data: log.append(name) or 1.0

    contest = run(
        case(ours=noting("assay"), peers={"a": noting("a"), "b": noting("b")}, floor=noting("floor"), repeats=7)
    )
    assert log[:4] == ["assay", "a", "b", "floor"]
    rounds = [log[i : i + 4] for i in range(4, len(log), 4)]
    assert len(rounds) == 7
    assert all(sorted(turn) == ["a", "assay", "b", "floor"] for turn in rounds)
    assert len({tuple(turn) for turn in rounds}) > 1, "the order changes from round to round"
    assert len(contest.ours.times) == 7


def test_ratio_is_peer_over_ours_and_goals_are_judged_by_its_median(clock):
    contest = run(
        case(
            ours=clock.sleeper(0.01),
            peers={"slow": clock.sleeper(0.05), "fast": clock.sleeper(0.002)},
            goals={"slow": 2.0, "fast": 1.0},
            floor=clock.sleeper(0.005),
            floor_goal=1.5,
        ),
        repeats=3,
    )
    slow, fast = contest.peers
    assert slow.ratios(contest.ours) == pytest.approx([5.0] * 3)
    assert fast.ratios(contest.ours) == pytest.approx([0.2] * 3)
    by_name = {row[1]: row for row in table.rows(contest)}
    assert by_name["slow"][2:6] == ("10 ms", "50 ms", "5.00 [5.00, 5.00]", "≥ 2: reached")
    assert by_name["fast"][5] == "≥ 1: MISSED"
    assert by_name["floor"][4:6] == ("2.00 [2.00, 2.00]", "≤ 1.5: MISSED")
    assert not contest.failed, "a missed goal is told, not punished: machines differ"


def test_a_slow_peer_sits_out_once_its_budget_is_used(clock):
    peers = {"slow": clock.sleeper(50.0), "slower": clock.sleeper(200.0)}
    contest = run(case(ours=clock.sleeper(1.0), peers=peers), repeats=10, budget=120.0)
    slow, slower = contest.peers
    assert len(contest.ours.times) == 10
    assert len(slow.times) == 2  # and the warm-up
    assert not slower.times
    assert slower.time == slower.warm_up == 200.0
    assert slower.ratios(contest.ours) == [200.0]


def test_garbage_is_not_collected_while_the_clock_runs():
    seen = []
    run(case(ours=lambda data: seen.append(gc.isenabled()) or 1.0), repeats=1)
    assert seen == [False, False]
    assert gc.isenabled()


def test_only_peers_are_kept_from_warning():
    def noisy(data):
        warnings.warn("noise", UserWarning, stacklevel=1)
        return 1.0

    run(case(peers={"peer": noisy}), repeats=1)
    with pytest.warns(UserWarning, match="noise"):
        run(case(ours=noisy), repeats=1)


# Finding cases, and the cold start in its own process.


@pytest.fixture
def toybench(tmp_path, monkeypatch):
    package = tmp_path / "toybench"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_shared.py").write_text("raise AssertionError('private modules are not cases')")
    (package / "one.py").write_text(
        "import os, types\nfrom benchmarks import runner\nfrom benchmarks.case import Case\n"
        "now = [0.0]\n"
        "runner.time = types.SimpleNamespace(perf_counter=lambda: now[0])\n"
        "def ours(data):\n"
        "    marker = os.path.join(os.environ['NUMBA_CACHE_DIR'], 'compiled')\n"
        "    if not os.path.exists(marker):\n"
        "        now[0] += 1.0\n"
        "        open(marker, 'w').close()\n"
        "    return 1.0\n"
        "quality = lambda outcome, data: outcome\n"
        "CASES = [Case('compiled', lambda: 0, ours, {}, quality, 'error', cold=True)]"
    )
    (package / "two.py").write_text("CASES = []")
    monkeypatch.setattr(runner, "time", runner.time)  # put back what the case replaces
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield package
    for name in [name for name in sys.modules if name.split(".")[0] == "toybench"]:
        del sys.modules[name]


@pytest.mark.usefixtures("toybench")
def test_cases_are_collected_from_all_modules_of_a_package():
    assert [case.name for case in runner.cases("toybench")] == ["compiled"]


def test_two_cases_may_not_share_a_name(toybench):
    (toybench / "two.py").write_text("from toybench.one import CASES")
    with pytest.raises(ValueError, match="share a name"):
        runner.cases("toybench")


def test_a_goal_needs_its_peer(toybench):
    (toybench / "two.py").write_text(
        "import dataclasses\nfrom toybench.one import CASES as c\n"
        "CASES = [dataclasses.replace(c[0], name='x', goals={'nobody': 1.0})]"
    )
    with pytest.raises(ValueError, match="nobody"):
        runner.cases("toybench")


@pytest.mark.usefixtures("toybench")
def test_cold_start_meets_an_empty_cache_first_and_a_filled_one_then():
    cold = runner.cold_start("toybench", "compiled")
    assert (cold.empty, cold.filled) == (1.0, 0.0)
    assert cold.imports >= 0


def test_a_failing_cold_start_says_why(toybench):
    (toybench / "one.py").write_text("raise RuntimeError('out of order')")
    with pytest.raises(RuntimeError, match="out of order"):
        runner.cold_start("toybench", "compiled")
    (contest,) = runner.run_all("toybench", [case("compiled", cold=True)], repeats=1)
    assert contest.failed
    assert contest.cold is None
    assert "out of order" in table.as_text([contest])


# The document.


def finished(name="toy", **options) -> Contest:
    ours = Contestant("assay", lambda data: 1.0, quality=1.0, warm_up=1.0, times={0: 0.5, 1: 0.4})
    peer = Contestant("peer", lambda data: 1.0, quality=2.0, warm_up=1.0, times={0: 1.0, 1: 1.2})
    return Contest(case(name, peers={"peer": peer.call}, goals={"peer": 2.5}), ours, [peer], **options)


def test_markdown_holds_the_command_the_machine_and_the_ratios():
    text = table.as_markdown("linear", [finished(cold=Cold(0.5, 6.0, 0.2))])
    assert text.startswith("## linear\n")
    for said in ("python -m benchmarks linear", machine.processor(), "cores", "numpy", "assay"):
        assert said in text
    assert "| toy | peer | 450 ms | 1.10 s | 2.50 [2.00, 3.00] | ≥ 2.5: reached | error: 1 / 2 |" in text
    assert "6.00 s with no kernel cache, 200 ms with one" in text
    assert "imports 500 ms" in text
    widths = {line.count(" | ") for line in text.splitlines() if line.startswith("|")}
    assert len(widths) == 1


def test_only_the_families_that_ran_are_replaced(tmp_path):
    path = tmp_path / "docs" / "benchmarks.md"
    table.write(path, {"trees": "## trees\n\nold trees\n", "linear": "## linear\n\nold linear\n"})
    first = path.read_text()
    assert first.startswith("# Benchmarks\n")
    assert first.index("old linear") < first.index("old trees")
    table.write(path, {"linear": "## linear\n\nnew linear\n"})
    second = path.read_text()
    assert second == first.replace("old linear", "new linear")
    assert [file.name for file in path.parent.iterdir()] == ["benchmarks.md"]


@pytest.fixture
def toy_command(monkeypatch, tmp_path):
    toys = [case("quick toy", peers={"peer": fine}), case("bad toy", lambda data: 9.0, {"peer": fine})]
    monkeypatch.setattr(runner, "families", lambda: ["toys"])
    monkeypatch.setattr(runner, "cases", lambda package: toys)
    monkeypatch.setattr(table, "DOCUMENT", tmp_path / "benchmarks.md")
    return tmp_path / "benchmarks.md"


def test_the_command_runs_prints_and_writes(toy_command, capsys):
    assert command.main(["toys", "--repeats", "2"]) == 1, "one toy is worse than its peer"
    out, err = capsys.readouterr()
    assert "quick toy" in out
    assert "FAILED" in out
    assert "round 2 of 2" in err
    assert "bad toy" in toy_command.read_text()


def test_compilation_of_each_family_is_written_beside_the_other_tables(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(table, "DOCUMENT", tmp_path / "benchmarks.md")
    monkeypatch.setattr(compilation, "measure", lambda family: [float(len(family)), 2.0, 3.0, 4.0])
    table.write(table.DOCUMENT, {"trees": "## trees\n\nkept\n"})
    assert compilation.main([]) == 0
    text = table.DOCUMENT.read_text()
    assert "| linear | 6.0 s | 2.0 s | 3.0 s | 4.0 s |" in text
    assert "| trees | 5.0 s | 2.0 s | 3.0 s | 4.0 s |" in text
    assert "## trees\n\nkept" in text
    assert "6.0 s" in capsys.readouterr().out
    assert compilation.main(["linear"]) == 0  # a part of the families replaces no table
    assert table.DOCUMENT.read_text() == text


def test_some_cases_are_renewed_and_the_others_stay(toy_command):
    command.main(["toys", "--repeats", "1"])
    before = toy_command.read_text()
    command.main(["toys", "--only", "bad", "--repeats", "1", "--renew"])
    after = toy_command.read_text()
    assert "Renewed" in after
    assert "Renewed" not in before
    kept = [line for line in before.splitlines() if line.startswith("| quick toy")]
    assert kept
    assert all(line in after.splitlines() for line in kept)
    assert after.count("| bad toy |") == before.count("| bad toy |") == 1
    assert after.index("| quick toy") < after.index("| bad toy")
    command.main(["toys", "--only", "quick", "--repeats", "1", "--renew"])
    command.main(["toys", "--only", "quick", "--repeats", "1", "--renew"])
    (said,) = [line for line in toy_command.read_text().splitlines() if line.startswith("Renewed")]
    assert said.count("bad toy") == said.count("quick toy") == 1
    toy_command.write_text(toy_command.read_text().replace(said, "Renewed 2001-02-03: bad toy; quick toy."))
    command.main(["toys", "--only", "quick", "--repeats", "1", "--renew"])
    old, new = [line for line in toy_command.read_text().splitlines() if line.startswith("Renewed")]
    assert old == "Renewed 2001-02-03: bad toy."
    assert new.endswith(": quick toy.")


def test_the_command_does_less_when_asked(toy_command, capsys):
    assert command.main(["all", "--only", "QUICK", "--repeats", "1"]) == 0
    assert "bad toy" not in capsys.readouterr().out
    assert command.main(["all", "--no-write", "--repeats", "1"]) == 1
    assert not toy_command.exists()
    assert command.main(["all", "--only", "nothing is called so"]) == 0
    with pytest.raises(SystemExit):
        command.main(["no such family"])


# The real cases can be declared without running any.


@pytest.mark.parametrize("family", runner.families())
def test_real_cases_are_well_formed(family):
    found = runner.cases(f"benchmarks.{family}")
    assert found
    for one in found:
        assert one.quality_name
        assert one.repeats >= 1
    assert any(one.cold for one in found), "one case per family is timed cold"


def test_the_runner_loads_nothing_that_a_cold_start_should_time():
    code = "import sys, benchmarks.runner; print({'numpy', 'assay', 'numba'} & set(sys.modules))"
    root = Path(runner.HERE).parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
