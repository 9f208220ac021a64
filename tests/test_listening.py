"""The last words of a simulator are kept with its trial, and failures are counted by reason without them."""

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from pied import Problem, Result, Study
from pied.evaluation import Command

LOG = logging.getLogger("a simulator")


def diverging(u: float) -> float:
    """Print and log on the way to a failure; at the top, so that other processes can load it."""
    print(f"iteration 1, residual {u}")
    LOG.warning("stage %d is dry", 4)
    raise RuntimeError(f"diverged at {u}")


def run(blackbox: Any, **words: Any) -> Result:
    problem = Problem({"u": (0.0, 1.0)}, ["y"], blackbox=blackbox, maximize="y", noise=0)
    with Study(problem, solver="random", seed=0) as study:
        return study.run(2, progress=False, **words)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "is_printed"),
    [({}, True), ({"retries": 1}, True), ({"timeout": 60.0}, False), ({"executor": "processes"}, True)],
)
def test_what_was_logged_before_a_failure_stays_with_the_trial(words: dict[str, Any], is_printed: bool) -> None:
    """Threads share one standard output, so of those only the log is kept."""
    result = run(diverging, **words)
    for trial in result.trials:
        why, _, last = trial.reason.partition("\nIts last words: ")
        assert why.startswith("The black box raised RuntimeError: diverged at ")
        assert why.endswith("(2 attempts)") == ("retries" in words)
        assert "stage 4 is dry" in last
        assert ("iteration 1, residual" in last) == is_printed
    assert list(result.failures.values()) == [2]
    assert "dry" not in next(iter(result.failures))


def test_what_is_printed_is_still_seen_and_a_success_keeps_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def talking(u: float) -> float:
        print("converged")
        print("with a warning", file=sys.stderr)
        return u

    result = run(talking)
    seen = capsys.readouterr()
    assert seen.out.count("converged\n") == 2
    assert seen.err.count("with a warning\n") == 2
    assert all(trial.reason == "" for trial in result.trials)


def test_a_long_log_is_cut_and_nothing_is_left_behind() -> None:
    def long(u: float) -> float:
        print("x" * 10_000)
        raise RuntimeError("no convergence")

    before, handlers = (sys.stdout, sys.stderr), list(logging.getLogger().handlers)
    reason = run(long).trials[0].reason
    assert reason.endswith("x" * 400)
    assert len(reason) < 500
    assert (sys.stdout, sys.stderr) == before
    assert logging.getLogger().handlers == handlers


def test_programs_with_long_logs_fail_for_the_reason_on_their_last_line(tmp_path: Path) -> None:
    """Where the log is cut differs from run to run, and so do the numbers in it."""
    (tmp_path / "simulator.py").write_text(
        "import json, sys\nu = json.load(sys.stdin)['u']\n"
        "sys.exit('step ' * int(100 + 100 * u) + f'\\nresidual {u}\\nstage 4 is dry')\n"
    )
    result = run(Command((sys.executable, str(tmp_path / "simulator.py")), ("u",)))
    ((reason, count),) = result.failures.items()
    assert count == 2
    assert reason.endswith("ended with exit code 1; it said: stage 4 is dry")
    assert all("residual" in trial.reason for trial in result.trials)
