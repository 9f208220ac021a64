"""Failing in a part of the box is normal; only a black box that cannot work ends a run at its start."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from pied import Problem, Result, State, Status, Study
from pied.errors import is_everywhere
from pied.problem.named import Named
from pied.records import Dataset
from pied.rng import Stream
from pied.solvers.initial import initial_design, initial_point
from tiny import parabola


def plane(blackbox: Any) -> Problem:
    """Two variables, an initial design of five."""
    return Problem({"a": (0.0, 1.0), "b": (0.0, 1.0)}, ["y", "z"], blackbox=blackbox, maximize="y + z", noise=0)


def run(blackbox: Any, budget: int = 8, **words: Any) -> Result:
    with Study(plane(blackbox), solver="random", seed=0) as study:
        return study.run(budget, **words)


def raising(error: Exception) -> Callable[[Named], Any]:
    def blackbox(x: Named) -> Any:
        raise error

    return blackbox


def undefined(x: Named) -> Any:
    return nothing_of_that_name(x)  # type: ignore[name-defined]


def misspelled(x: Named) -> Any:
    return x.aa, x.b


def absent(x: Named) -> Any:
    import re

    return re.nothing_of_that_name  # type: ignore[attr-defined]


def uninstalled(x: Named) -> Any:
    import nothing_of_that_name  # noqa: F401


def wrong_type(x: Named) -> Any:
    text: Any = "five"
    return text + x.a


EVERYWHERE = [
    (undefined, "NameError"),
    (misspelled, "UnknownName"),
    (absent, "AttributeError"),
    (uninstalled, "ModuleNotFoundError"),
    (wrong_type, "TypeError"),
    (lambda x: {"y": 1.0, "zz": 1.0}, "'zz' is not an output"),
    (lambda x: [1.0, 2.0, 3.0], "2 outputs are expected"),
    (lambda x: 1.0, "2 outputs are expected"),
    (lambda x: None, "is a 'return' missing"),
]


@pytest.mark.parametrize(("blackbox", "says"), EVERYWHERE)
def test_a_mistake_in_the_code_stops_after_three_evaluations(blackbox: Any, says: str) -> None:
    result = run(blackbox)
    assert result.status is Status.BROKEN
    assert len(result.trials) == 3
    assert re.search(rf"3 of 3 failed\. Reasons: 3 x .*{re.escape(says)}", result.message)
    assert "cannot depend on the settings" in result.message


def local(x: Named) -> Any:
    if x.a > 2.0:
        value = 1.0
    return value, value


def without_result(x: Named) -> Any:
    found: Any = None
    return found.x


@pytest.mark.parametrize(
    "blackbox",
    [
        raising(RuntimeError("did not converge")), raising(ValueError("too hot")), raising(ZeroDivisionError("zero")),
        raising(KeyError("flow")), raising(FileNotFoundError("no such file")), local, without_result,
        lambda x: (float("nan"), float("nan")), lambda x: ("hot", 1.0),
    ],
)  # fmt: skip
def test_what_may_depend_on_the_point_is_tried_at_the_whole_initial_design(blackbox: Any) -> None:
    result = run(blackbox)
    assert result.status is Status.BROKEN
    assert len(result.trials) == 5
    assert "5 of 5 failed. Reasons: 5 x " in result.message
    assert "add settings where it works" in result.message


@pytest.mark.parametrize("kind", [RuntimeError, TypeError, NameError])
def test_a_black_box_that_fails_in_a_part_of_the_box_is_run_on(kind: type[Exception]) -> None:
    """Three points fail, then one succeeds: for a reason that may depend on the point, the run goes on."""
    calls = []

    def blackbox(x: Named) -> Any:
        calls.append(x)
        if len(calls) <= 3 or len(calls) % 2:
            raise kind("no steady state")
        return x.a, x.b

    result = run(blackbox)
    if kind is RuntimeError:
        assert result.status is Status.FINISHED
        assert len(result.trials) == 8
        assert sum(trial.state is State.TOLD for trial in result.trials) == 3
    else:
        assert result.status is Status.BROKEN


def test_one_other_failure_among_the_first_is_enough_to_go_on() -> None:
    errors = iter([TypeError("a"), RuntimeError("b"), TypeError("c"), TypeError("d")])

    def blackbox(x: Named) -> Any:
        for error in errors:
            raise error
        return x.a, x.b

    assert run(blackbox).status is Status.FINISHED


def test_reasons_are_counted_the_most_frequent_first() -> None:
    reasons = iter("abbcd")

    def blackbox(x: Named) -> Any:
        raise RuntimeError(next(reasons))

    message = run(blackbox).message
    assert re.search(r"5 of 5 failed\. Reasons: 2 x .*: b \| 1 x .*: a \| 1 x .*: c \| 1 x other reasons", message)


def test_what_was_raised_is_known_from_other_threads_and_executors() -> None:
    for words in ({"workers": 2}, {"executor": ThreadPoolExecutor(1)}):
        result = run(undefined, **words)
        assert result.status is Status.BROKEN
        assert all(is_everywhere(trial.reason) for trial in result.trials)
        assert len(result.trials) <= 4


@pytest.mark.slow  # starts a process
def test_what_was_raised_in_a_process_is_known() -> None:
    result = run(undefined, executor="processes", workers=1)
    assert result.status is Status.BROKEN
    assert len(result.trials) == 3
    assert "NameError" in result.message


def test_a_kept_study_is_still_broken_and_a_mended_black_box_brings_it_back(tmp_path: Path) -> None:
    place: dict[str, Any] = {"name": "a", "store": tmp_path / "a.db", "seed": 0}
    with Study(parabola(blackbox=undefined), solver="random", **place) as study:
        assert study.run(9).status is Status.BROKEN
        assert study.used == 3
    with Study(parabola(blackbox=undefined), **place) as study:
        assert study.status is Status.BROKEN
        assert study.run(9).status is Status.BROKEN
        assert study.used == 4
    with Study(parabola(), **place) as study:
        assert study.run(3).status is Status.FINISHED
        assert study.used == 7


def test_a_point_that_works_keeps_a_failing_start_going() -> None:
    with Study(plane(raising(RuntimeError("no"))), solver="random", seed=0) as study:
        assert study.run(9).status is Status.BROKEN
        study.add({"a": 0.5, "b": 0.5}, {"y": 1.0, "z": 1.0})
        assert study.status is Status.RUNNING


@pytest.mark.parametrize("blackbox", [lambda x: (1.0, float("nan")), lambda x: {"y": 1.0}, lambda x: (1.0, None)])
def test_an_output_that_never_comes_stops_after_the_initial_design(blackbox: Any) -> None:
    result = run(blackbox)
    assert result.status is Status.BROKEN
    assert len(result.trials) == 5
    assert "never gave 'z' in 5 evaluations" in result.message


def half(u: np.ndarray) -> bool:
    """Half of the box succeeds; the edge is oblique."""
    return bool(u[0] + 0.5 * u[1] <= 0.75)


def corner(u: np.ndarray) -> bool:
    """A sixteenth of the box succeeds."""
    return bool(u[0] <= 0.25 and u[1] <= 0.25)


def designed(
    succeeds: Callable[[np.ndarray], bool], *, seed: int, count: int = 12, d: int = 2, **words: Any
) -> Dataset:
    """The initial design of a black box that succeeds only somewhere."""
    problem = Problem({f"u{i}": (0.0, 1.0) for i in range(d)}, ["y"], maximize="y", noise=0, **words)
    told, failed = np.empty((0, d)), np.empty((0, d))
    for index in range(count):
        data = Dataset(tuple(range(len(told))), told, told[:, :1], failed, failures=tuple(range(len(failed))))
        u = initial_point(problem, Stream(seed), index, data)
        if succeeds(u):
            told = np.concatenate([told, u[None]])
        else:
            failed = np.concatenate([failed, u[None]])
    return Dataset(tuple(range(len(told))), told, told[:, :1], failed, failures=tuple(range(len(failed))))


@pytest.mark.parametrize("d", [2, 4])
def test_the_initial_design_keeps_away_from_failures(d: int) -> None:
    """By chance half of it would fail; the median of some seeds is clearly better, and no point comes twice."""
    found = [designed(half, seed=seed, d=d) for seed in range(9)]
    assert median(len(data.U) for data in found) >= 8
    assert all(len(np.unique(np.concatenate([data.U, data.failed]), axis=0)) == 12 for data in found)


def test_without_failures_the_design_is_the_one_of_the_seed() -> None:
    problem = Problem({"u0": (0.0, 1.0), "u1": (0.0, 1.0)}, ["y"], maximize="y", noise=0)
    assert (initial_design(problem, Stream(1))[:12] == designed(lambda u: True, seed=1).U).all()


def test_an_adapting_design_meets_what_is_known() -> None:
    data = designed(half, seed=3, subject_to={"known": "u0 + u1 <= 1.2"})
    assert len(data.failed)
    assert (np.concatenate([data.U, data.failed]).sum(1) <= 1.2).all()


def test_an_adapting_design_repeats_no_candidate_of_a_list() -> None:
    rows = [{"u0": a / 4, "u1": b / 4} for a in range(5) for b in range(5)]
    data = designed(half, seed=0, count=25, candidates=rows)
    assert len(np.unique(np.concatenate([data.U, data.failed]), axis=0)) == 25


def test_while_everything_has_failed_the_design_goes_far_from_the_failures() -> None:
    """Uniform points take 16 evaluations on average, and 11 in the median, until one is in the corner."""
    assert sum(len(designed(corner, seed=seed, count=9).U) > 0 for seed in range(15)) >= 9
