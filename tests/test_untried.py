"""No verdict passes over what was never tried: labels, levels, plateaus, places behind failures."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy import ndarray

from pied import CUQB, Choice, Integer, Levels, Problem, Status, Study
from pied.bounds import Believer
from pied.errors import EvaluationError
from pied.records import Dataset
from pied.rng import Stream
from pied.solvers.untried import BEHIND, FAR, Untried
from tiny import few, unchecked

SOLVENTS = ("MeCN", "DMF", "EtOH", "THF", "DMSO", "NMP")


def seen(problem: Problem, U: ndarray, Y: ndarray, failed: ndarray | None = None) -> Untried:
    """What was never tried after some measurements and failures."""
    failed = np.zeros((0, problem.d)) if failed is None else failed
    away = tuple(range(len(failed)))
    data = Dataset(tuple(range(len(U))), U, Y, failed, failures=away, away=away)
    believer = Believer()
    return Untried(problem, believer, data, believer.fit(problem, data, imagine=False))


def one(variables: Any, noise: float | None = 0) -> Problem:
    return Problem(variables, ["y"], maximize="y", subject_to=["y >= 0.5"], noise=noise)


def levels(count: int, chosen: list[int], u: ndarray) -> ndarray:
    """Points whose first coordinate is a level, whose second is a number."""
    return np.stack([np.array(chosen) / (count - 1), u], 1)


def is_open(untried: Untried, *points: list[float]) -> list[bool]:
    U = np.array(points)
    return untried.undecided(U, np.full((len(U), untried.problem.k), -1.0))[0].tolist()


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "good"), [(0, SOLVENTS[5]), (0, ""), (None, SOLVENTS[5]), (None, "")])
@unchecked()
def test_a_screen_in_which_most_solvents_fail_alike_tries_each_of_them(noise: float | None, good: str) -> None:
    """The sixth works, and the verdict falls only where none does."""
    errors = Stream(3).normal(60)
    problem = one({"solvent": Choice(*SOLVENTS), "T": (50.0, 90.0)}, noise)
    study = Study(problem, seed=1)
    while study.used < 30 and study.status is Status.RUNNING:
        trial = study.ask()
        y = 0.7 if trial.x["solvent"] == good else 0.1 + 2e-4 * (trial.x["T"] - 50)
        study.tell(trial, y + (0.0 if noise == 0 else 0.002 * errors[trial.number]))
        if trial.x["solvent"] == good and study.result().is_feasible:
            break
    assert {str(trial.x["solvent"]) for trial in study.trials} == set(SOLVENTS) or good
    assert study.status is (Status.RUNNING if good else Status.INFEASIBLE)


def test_labels_that_do_the_same_say_nothing_of_one_that_was_never_tried() -> None:
    problem = one({"solvent": Choice(*SOLVENTS), "T": (50.0, 90.0)})
    U = levels(6, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4], np.linspace(0.0, 1.0, 10))
    untried = seen(problem, U, 0.1 + 0.01 * U[:, [1]])
    assert is_open(untried, [1.0, 0.3], [0.2, 0.3]) == [True, False]
    assert untried.phrases() == ("solvent NMP",)


def test_labels_too_many_to_try_may_be_foretold_by_what_is_known_of_them() -> None:
    """With 12 labels, each is tried anyway: one of them may be special."""
    for count, is_told in ((12, False), (100, True)):
        known = {"polarity": list(np.linspace(0.0, 1.0, count))}
        problem = one({"solvent": Choice(*(f"s{i}" for i in range(count)), properties=known), "T": (50.0, 90.0)})
        chosen = [0, 1, 3, 4, 5, 7, 8, 9, 10, 11] * 2
        U = levels(count, chosen, np.tile(np.linspace(0.0, 1.0, 5), 4))
        explained = seen(problem, U, 0.3 * U[:, [0]] + 0.1 * U[:, [1]])
        alike = seen(problem, U, 0.1 * U[:, [1]])
        assert is_open(explained, [2 / (count - 1), 0.3], [6 / (count - 1), 0.8]) == [not is_told] * 2
        assert is_open(alike, [2 / (count - 1), 0.3]) == [True]


@pytest.mark.parametrize("variable", [Integer(1, 12), Levels(*range(1, 13))])
def test_every_level_of_a_short_count_is_tried(variable: Any) -> None:
    """However smooth the output is along those that were tried."""
    problem = one({"n": variable, "a": (0.0, 1.0)})
    chosen = [0, 1, 2, 4, 5, 6, 8, 9, 10, 11] * 2
    U = levels(12, chosen, np.tile(np.linspace(0.0, 1.0, 5), 4))
    untried = seen(problem, U, 0.3 * U[:, [0]] ** 2 + 0.1 * U[:, [1]])
    assert is_open(untried, [3 / 11, 0.4], [7 / 11, 0.4], [8 / 11, 0.4]) == [True, True, False]
    assert untried.phrases() == ("n 4, 8",)


def test_a_long_count_is_a_quantity() -> None:
    problem = one({"n": Integer(1, 500), "a": (0.0, 1.0)})
    U = Stream(0).sobol(8, 2)
    assert is_open(seen(problem, U, U[:, :1]), [0.7, 0.4]) == [False]


def test_a_pair_of_labels_is_tried_unless_pairs_are_many_and_effects_add_up() -> None:
    for size, is_told in ((3, False), (9, True)):
        labels = (Choice(*(f"{name}{i}" for i in range(size))) for name in "ab")
        problem = one({"acid": next(labels), "base": next(labels), "T": (50.0, 90.0)})
        pairs = [(i, j) for i in range(size) for j in range(size) if (i + j) % 3 or not i or not j]
        pairs = [pair for pair in pairs if pair != (size - 1, size - 1)]
        U = np.array(
            [[i / (size - 1), j / (size - 1), t] for (i, j), t in zip(pairs, Stream(0).uniform(99), strict=False)]
        )
        alike = seen(problem, U, 0.1 + 0.01 * U[:, [2]])
        adding = seen(problem, U, 0.2 * U[:, [0]] + 0.3 * np.sin(9.0 * U[:, [1]]) + 0.01 * U[:, [2]])
        assert is_open(alike, [1.0, 1.0, 0.5], [1.0, 0.0, 0.5]) == [True, False]
        assert is_open(adding, [1.0, 1.0, 0.5]) == [not is_told]
        assert alike.phrases() == ("some combinations of acid and base",)


def test_an_output_that_never_varied_says_nothing_of_places_away_from_all_tried_ones() -> None:
    problem = one({"a": (0.0, 1.0), "b": (0.0, 1.0)})
    U = Stream(0).sobol(8, 2)
    constant = seen(problem, U, np.full((8, 1), 0.2))
    yes_or_no = seen(problem, U, np.where(U[:, :1] > 0.9, 0.4, 0.2))
    varied = seen(problem, U, 0.2 + 0.01 * U[:, :1])
    near, far = (U[0] + 0.5 * FAR * np.sign(0.5 - U[0])).tolist(), [0.999, 0.999]
    assert is_open(constant, near, far) == is_open(yes_or_no, near, far) == [False, True]
    assert is_open(varied, near, far) == [False, False]
    assert "y differs from what it was" in constant.phrases()[0]


def test_an_output_that_is_nothing_but_noise_has_not_varied() -> None:
    problem = one({"a": (0.0, 1.0), "b": (0.0, 1.0)}, noise=None)
    U = Stream(0).sobol(16, 2)
    errors = 0.01 * Stream(1).normal(16, 1)
    assert is_open(seen(problem, U, 0.2 + errors), [0.999, 0.999]) == [True]
    assert is_open(seen(problem, U, U[:, :1] + U[:, 1:] - 3.0 + errors), [0.999, 0.999]) == [False]


def test_one_value_that_differs_does_not_explain_an_output_that_is_otherwise_noise() -> None:
    """It is the only trace of where the output varies: a belief that calls it an accident has explained nothing."""
    U = Stream(2).sobol(24, 2)
    Y = 150.0 + 0.2 * Stream(1).normal(24, 1)
    Y[13] = 147.0
    problem = Problem({"a": (0, 1), "b": (0, 1)}, ["y"], maximize="a", subject_to=["y <= 145"])
    (limit,) = seen(problem, U, Y).limits.values()
    assert limit.never_varied == (0,)


def test_what_failed_is_not_tried_again_beside_it_and_elsewhere_a_label_may_work() -> None:
    problem = one({"solvent": Choice(*SOLVENTS), "T": (50.0, 90.0)})
    U = levels(6, [0, 1, 2, 3, 5], np.array([0.1, 0.4, 0.6, 0.9, 0.2]))
    failed = seen(problem, U, np.full((5, 1), 0.1), levels(6, [4, 4, 4], np.array([0.1, 0.5, 0.9])))
    assert is_open(failed, [0.8, 0.5 + 0.5 * FAR], [0.8, 0.3]) == [False, True]
    assert failed.phrases()[0] == "solvent DMSO (failed)"


def test_what_lies_behind_failures_is_open_until_it_was_tried_beside_them() -> None:
    """However well an output is foretold where evaluations succeed; and what it does not depend on does not matter."""
    for needs, is_told in ((["a", "b"], False), (["b"], True)):
        problem = Problem(
            {"a": (0.0, 1.0), "b": (0.0, 1.0)}, ["y"], inputs=needs, maximize="y", subject_to=["y >= 2"], noise=0
        )
        U = np.array([[a, b] for a in (0.1, 0.5) for b in (0.1, 0.5, 0.9)])
        edge = np.array([[0.8, b] for b in (0.1, 0.5, 0.9)])
        untried = seen(problem, U, U[:, 1:], edge)
        assert is_open(untried, [0.95, 0.5], [0.6, 0.5], [0.8 + 0.5 * FAR, 0.1]) == [not is_told, False, False]
        assert untried.phrases() == (() if is_told else (BEHIND,))


@pytest.mark.slow
@unchecked()
def test_a_batch_of_tests_confirms_at_different_places() -> None:
    box = {"a": (0.0, 1.0), "b": (0.0, 1.0)}
    study = Study(Problem(box, ["y"], minimize="a + b", subject_to=["y <= 3"], noise=0), seed=2)
    tested = []
    while study.used < 9:
        batch = [study.ask() for _ in range(4)]
        tested = [list(trial.x.values()) for trial in batch if trial.why.margin is not None]
        for trial in batch:
            study.tell(trial, 5.0 + 0.02 * trial.x["a"])
    apart = np.abs(np.array(tested)[:, None] - np.array(tested)).max(2)
    assert len(tested) > 2
    assert apart[np.triu_indices(len(tested), 1)].min() > FAR


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(2), 1))
@unchecked()
def test_a_tank_that_is_full_wherever_it_was_looked_at_is_no_verdict(seed: int) -> None:
    """Where it would not be full, some evaluations fail."""

    def level(x: Any) -> float:
        if x.a + x.b < 0.8 and x.a < 0.35:
            raise EvaluationError("warning")
        return min(150.0, 100.0 + 100.0 * (x.a + x.b))

    box = {"a": (0.0, 1.0), "b": (0.0, 1.0)}
    problem = Problem(box, ["level"], blackbox=level, minimize="a + b**2", subject_to=["level <= 145"], noise=0)
    result = Study(problem, seed=seed).run(20)
    assert result.status is not Status.INFEASIBLE
    assert result.is_feasible or ("never tried" in result.message and result.chance is None)


@pytest.mark.slow
@unchecked()
def test_a_batch_tries_several_labels_that_were_never_tried() -> None:
    problem = one({"solvent": Choice(*(f"s{i}" for i in range(20))), "T": (50.0, 90.0)})
    study = Study(problem, seed=0)
    while not any(trial.why.margin == 0.0 for trial in study.trials):
        trial = study.ask()
        study.tell(trial, 0.1 + 2e-4 * (trial.x["T"] - 50))
    batch = [study.ask() for _ in range(4)]
    tried = {str(trial.x["solvent"]) for trial in study.trials[: -len(batch)]}
    assert len({str(trial.x["solvent"]) for trial in batch} - tried) == 4


def test_the_benchmark_draws_problems_that_can_be_met_and_twins_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "benchmarks"))
    kinds = importlib.import_module("untried")
    for kind in kinds.KINDS:
        for twin in (False, True):
            made = kinds.drawn(kinds.Task(kind, 0, twin))
            problem = Problem(made.variables, list(made.outputs), noise=0, **made.words)
            U = Stream(0).sobol(512 if twin else 4096, problem.d)
            U = U if problem.grid is None else problem.grid.snapped(U)
            assert any(is_met(kinds, made, problem, u) for u in U) is not twin, kind


@unchecked()
def test_between_two_counts_there_is_nothing_to_try() -> None:
    """The bounds come nearest to the limit between two counts, where nothing can be set or measured."""
    problem = Problem({"n": Integer(1, 4), "a": (0.0, 1.0)}, ["y"], maximize="a", subject_to={"low": "y <= 1"}, noise=0)
    study = Study(problem, seed=0)
    while study.used < 20 and study.status is Status.RUNNING:
        trial = study.ask()
        study.tell(trial, 3 + 0.3 * (trial.x["n"] - 2.4) ** 2 + trial.x["a"] * (1 - trial.x["a"]))
    assert study.status is Status.INFEASIBLE


def test_the_papers_test_is_the_papers() -> None:
    """One limit at a time, by the bounds alone."""
    assert CUQB.paper().verdict == "single"


def is_met(kinds: Any, made: Any, problem: Problem, u: np.ndarray) -> bool:
    """Whether the limits are met at a point, by the truth."""
    x = problem.named_x(problem.natural(u))
    try:
        return bool(kinds.meets(problem, x, np.array(made.truth(x))))
    except EvaluationError:
        return False
