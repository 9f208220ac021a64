"""Where a study stands: the line of a run, and what a study prints."""

import io
import re
import sys
from typing import Any

import numpy as np
import pytest

from pied import Problem, Study
from pied.study.progress import best
from tiny import hill, parabola


class Terminal(io.StringIO):
    """A terminal that keeps what it shows."""

    def isatty(self) -> bool:
        return True


def watched(patch: pytest.MonkeyPatch) -> Terminal:
    """Put a terminal in the place of standard error; in the test itself, because pytest replaces it before."""
    made = Terminal()
    patch.setattr(sys, "stderr", made)
    patch.delenv("CI", raising=False)
    patch.setenv("COLUMNS", "200")
    return made


def test_a_run_on_a_terminal_shows_one_line_with_count_best_gap_and_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    with Study(parabola(name="profit", unit="EUR/h"), seed=0) as study:
        result = study.run(5)
    shown = terminal.getvalue()
    assert shown.endswith("\n")
    assert shown.count("\n") == 1
    lines = shown.rstrip("\n").split("\r")[1:]
    assert [line.split("  |  ")[0].strip() for line in lines] == [f"{count} of 5" for count in (0, 1, 2, 3, 4, 5, 5)]
    assert f"best profit {result.value:.6g} EUR/h" in lines[-1]
    assert re.search(r"at most about [\d.e-]+ EUR/h better is still possible  \|  \d+ s", lines[-2])


def test_the_last_line_says_what_the_result_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(3):
        terminal = watched(monkeypatch)
        with Study(rough(), seed=seed) as study:
            said = study.run(11).still
        last = terminal.getvalue().rstrip("\n").split("\r")[-1]
        assert ("better is still possible" in last) == said.startswith("at most")
        assert not said.startswith("at most") or said in last


def rough() -> Problem:
    """An exact problem of which the search's own bounds are doubted."""

    def h(a: float, b: float) -> dict[str, float]:
        return {"y": float(np.sin(3 * a) + b - 0.5 * b**2), "w": a * a + 0.8 * b}

    return Problem(
        {"a": (0, 1), "b": (0, 1)}, ["y", "w"], blackbox=h, maximize="y", subject_to={"l": "w <= 0.8"}, noise=0
    )


@pytest.mark.parametrize("words", [{"progress": False}, {}])
def test_nothing_is_shown_when_turned_off_or_in_a_log(monkeypatch: pytest.MonkeyPatch, words: dict[str, Any]) -> None:
    terminal = watched(monkeypatch)
    if not words:
        monkeypatch.setenv("CI", "true")
    with Study(parabola(), solver="random", seed=0) as study:
        study.run(2, **words)
    assert terminal.getvalue() == ""


def test_a_file_shows_progress_only_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with Study(parabola(), solver="random", seed=0) as study:
        study.run(1)
        assert log.getvalue() == ""
        study.run(1, progress=True)
        assert "1 of 1" in log.getvalue()


def test_the_line_counts_failures_and_says_when_no_limit_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)

    def sometimes(x: Any) -> Any:
        if x.a < 2.0:
            raise RuntimeError("no convergence")
        return 0.0

    with Study(hill(blackbox=sometimes), solver="random", seed=0) as study:
        study.run(6)
        lost = sum(trial.y is None for trial in study.trials)
    assert f"no settings are known to meet all limits  |  {lost} failed" in terminal.getvalue()


def test_a_terminal_that_goes_away_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = watched(monkeypatch)
    with Study(parabola(), solver="random", seed=0) as study:
        assert study.run(3, on_tell=lambda *_: gone.close()).evaluations == 3


def test_a_study_prints_where_it_stands() -> None:
    with Study(hill(name="cost", unit="EUR"), seed=0) as study:
        assert "Nothing has been evaluated yet." in str(study)
        study.add({"a": 2.0, "b": 1.0}, {"y": 2.0})
        study.fail(study.ask(), "pump tripped")
        study.ask()
        lines = str(study).splitlines()
    assert lines[0].startswith("The study is under way.")
    assert "  best so far, trial 1: cost 2 EUR" in lines
    assert "    a = 2" in lines
    assert any(re.fullmatch(r"  a \+ b = 3.*: met", line) for line in lines)
    assert "  2 proposed (1 open, 1 failed), 1 older; seed 0" in lines
    assert lines[-1] == "    1 failed: pump tripped"


def test_a_noisy_study_prints_what_was_measured_without_a_belief() -> None:
    with Study(parabola(noise=None), seed=0) as study:
        study.add([1.0], [0.5])
        assert "measured" in str(study)
        assert "better is still possible" not in str(study)


def test_nothing_better_is_expected_where_every_setting_is_known() -> None:
    """Also if the last belief was far off: the last candidate has been measured since."""
    x = np.arange(7.0)[:, None]
    problem = Problem(["x"], ["y"], candidates=x, maximize="y", noise=0)
    study = Study(problem, seed=0)
    for _ in range(7):
        trial = study.ask()
        study.tell(trial, {"y": float((7 * trial.x["x"] ** 3) % 5)})
    assert best(study._snapshot()).gap == 0.0
    assert "nothing better is expected" in str(study)
