"""Probes: points off the box bounds that the best point lies on, and in the settings beside its own."""

from typing import Any

import numpy as np
import pytest

from pied import Choice, Integer, Problem, Status, Study, Trial, solve
from pied.bounds.believer import Believer, White
from pied.bounds.success import SuccessModel
from pied.gp.choices import Model
from pied.search.mixed import Mixed
from pied.search.multistart import Search
from pied.solvers.moves.probe import NEAR_BEST, PROBE_STEP, off_bounds
from tiny import fast, points, without

STRAIGHT = Believer(Model(kernels=("squared exponential",), trends=("linear",), warps=("none",)))
ALL = np.array([True, True, True])


def test_each_bound_without_a_point_off_it_gets_its_own_probe():
    u = np.array([0.0, 0.4, 1.0])
    expected = np.array([[PROBE_STEP, 0.4, 1.0], [0.0, 0.4, 1.0 - PROBE_STEP]])
    assert np.array_equal(off_bounds(u, u[None], ALL), expected)


def test_a_near_told_point_serves_as_the_probe_and_a_distant_one_does_not():
    u = np.array([0.0, 0.4, 1.0])
    near = u + np.array([PROBE_STEP, -NEAR_BEST, 0.0])
    far = u + np.array([0.0, 2 * NEAR_BEST, -PROBE_STEP])
    left = off_bounds(u, np.stack([u, near, far]), ALL)
    assert np.array_equal(left, np.array([[0.0, 0.4, 1.0 - PROBE_STEP]]))


def test_a_variable_that_no_output_depends_on_is_not_probed():
    u = np.array([0.0, 0.4, 1.0])
    assert not len(off_bounds(u, u[None], np.array([False, True, False])))


def _corner(**words: Any) -> Problem:
    """Three variables, one output that sees two of them: the best is at (2, 1, 0)."""
    stated: dict[str, Any] = {
        "variables": {"a": (0.0, 2.0), "b": (0.0, 1.0), "c": (0.0, 1.0)},
        "outputs": ["y"],
        "inputs": {"y": ["a", "b"]},
        "blackbox": lambda x: 3 * x.a + 2 * x.b,
        "maximize": "y - c",
        "noise": 0,
    }
    return Problem(**(stated | words))


def _probes(problem: Problem, **words: Any) -> list[Trial]:
    trials = solve(problem, 14, solver=fast(believer=STRAIGHT, **words), seed=0).trials
    return [trial for trial in trials if trial.why.aim == "probe"]


def _left(probes: list[Trial], corner: tuple[float, ...] = (2.0, 1.0, 0.0)) -> list[str]:
    """Return along which variable each probe leaves a corner, by a step; along the others it stays there, exactly."""
    names = []
    for probe in probes:
        (name,) = (each for each, place in zip(probe.x, corner, strict=True) if probe.x[each] != place)
        width = 2.0 if name == "a" else 1.0
        assert abs(probe.x[name] - dict(zip(probe.x, corner, strict=True))[name]) == pytest.approx(PROBE_STEP * width)
        names.append(name)
    return names


@pytest.mark.slow
def test_the_best_corner_is_left_along_each_variable_of_an_output():
    assert sorted(_left(_probes(_corner()))) == ["a", "b"]


@pytest.mark.slow
def test_what_is_hoped_for_counts_once_it_was_put_to_the_test():
    assert all(probe.why.optimistic is None for probe in _probes(_corner()))
    result = solve(_corner(), 30, solver=fast(believer=STRAIGHT), seed=0, stop_at_gap=1e-6)
    assert result.status is Status.GAP_REACHED
    assert set(_left([trial for trial in result.trials if trial.why.aim == "probe"])) == {"a", "b"}


@pytest.mark.slow
def test_a_best_point_that_breaks_a_white_constraint_by_rounding_is_left_too():
    """0.1 + 0.2 is more than 0.3, and no other point of that edge is better."""
    edge = {
        "variables": {"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (0.0, 1.0)},
        "inputs": {"y": ["c"]},
        "blackbox": lambda x: 3 * x.c,
        "maximize": "y + a + b",
        "subject_to": ["a + b <= 0.3"],
    }
    study = Study(_corner(**edge), solver=fast(believer=STRAIGHT), seed=0)
    study.add({"a": 0.1, "b": 0.2, "c": 1.0}, 3.0)
    probes = [trial for trial in study.run(14).trials if trial.why.aim == "probe"]
    assert probes
    for probe in points(probes):
        assert probe == pytest.approx((0.1, 0.2, 1.0 - PROBE_STEP), abs=1e-9)


@pytest.mark.slow
def test_probes_can_be_turned_off_and_noise_needs_none():
    assert not _probes(_corner(), **without("probe"))
    assert not _probes(_corner(noise=0.1))


@pytest.mark.slow
def test_a_probe_breaks_no_white_constraint():
    assert set(_left(_probes(_corner(subject_to=["a >= 1.99"])))) == {"b"}


@pytest.mark.slow
@pytest.mark.parametrize("fails_elsewhere", [False, True])
def test_a_probe_stays_where_success_is_likely(monkeypatch, fails_elsewhere):
    """One evaluation failed; where the others may succeed is said here."""
    if fails_elsewhere:
        monkeypatch.setattr(SuccessModel, "is_likely", lambda self, U: U[:, 0] > 1.0 - PROBE_STEP / 2)
    study = Study(_corner(), solver=fast(believer=STRAIGHT), seed=0)
    study.fail(study.ask(), "it did not converge")
    probes = [trial for trial in study.run(15).trials if trial.why.aim == "probe"]
    assert set(_left(probes)) == ({"b"} if fails_elsewhere else {"a", "b"})


def _counted(**words: Any) -> Problem:
    """Rises to 4 and a = 1 as a plane and falls behind 4, but for a bonus at 5 that no other count tells of."""
    stated: dict[str, Any] = {
        "variables": {"count": Integer(0, 12), "a": (0.0, 1.0)},
        "outputs": ["y"],
        "blackbox": lambda x: -0.01 * (x.count - 4) ** 2 + 0.1 * x.a + 0.5 * (x.count == 5),
        "maximize": "y",
        "noise": 0,
    }
    return Problem(**(stated | words))


def _told_but_beside(problem: Problem, counts: tuple[int, ...], **words: Any) -> Study:
    """A study that was told the values of some counts, so that the belief is certain of the others."""
    study = Study(problem, solver=fast(believer=STRAIGHT, **words), seed=0, patience=None)
    for count in counts:
        for a in (0.0, 0.3, 0.7, 1.0):
            study.add({"count": count, "a": a}, problem.evaluate({"count": count, "a": a}))
    return study


@pytest.mark.slow
def test_settings_beside_the_best_are_told_even_where_the_belief_is_certain():
    study = _told_but_beside(_counted(), (0, 2, 4, 7, 10, 12))
    result = study.run(8)
    assert {3, 5} <= {trial.x["count"] for trial in result.trials if trial.why.aim == "probe"}
    assert result.x["count"] == 5


@pytest.mark.slow
def test_settings_beside_the_best_are_left_out_where_they_break_a_white_constraint_or_probes_are_off():
    for words, settings in (({"subject_to": ["count <= 4.5"]}, {}), ({}, without("probe"))):
        trials = _told_but_beside(_counted(**words), (0, 2, 3, 4, 7, 10, 12), **settings).run(4).trials
        assert not [trial for trial in trials if trial.why.aim == "probe" and trial.x["count"] != 4]


@pytest.mark.parametrize("is_seen", [True, False])
def test_the_settings_beside_a_point_are_the_other_labels_and_the_next_counts(is_seen):
    """One after the other, until something was told in each; those of variables that no output sees are left out."""
    variables = {"solvent": Choice("A", "B", "C"), "count": Integer(0, 12), "a": (0.0, 1.0)}
    problem = _counted(variables=variables, subject_to=["a + count <= 20"])
    assert problem.grid is not None
    best = problem.to_unit(np.array([[1.0, 12.0, 0.3]]))
    told, near = best, White(problem, problem.white, near=best[0])
    search = Mixed(Search(pool=64, generations=0, starts=2), problem.grid, best[:0])
    seen = np.array([is_seen, True, True])
    while (found := search.beside(near, np.ones(2), best[0], told, seen)) is not None:
        told = np.concatenate([told, found.u[None]])
    settings = {tuple(x) for x in problem.from_unit(told)[1:].round(9)}
    assert len(settings) == len(told) - 1
    assert settings == {(1.0, 11.0, 0.3)} | ({(0.0, 12.0, 0.3), (2.0, 12.0, 0.3)} if is_seen else set())
