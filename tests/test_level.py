"""The level of bounds: one number or the schedule of Lemma 1, and what samples cannot resolve."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pied import CUQB, Problem, SettingError, Study
from pied.bounds import Believer, Estimator
from pied.bounds.quantile import Confidence, Steps, confidence, normal
from pied.solvers import make
from tiny import fast, hill, parabola, points, unchecked, waves

SCHEDULE = confidence(delta=0.1, size=1000, functions=1)


def test_a_schedule_gives_the_level_of_each_ask_and_of_what_is_said() -> None:
    study = Study(parabola(), seed=1, solver=fast(level=SCHEDULE, verify_every=None))
    study.run(5)
    told = len(study.data.U)
    trial = study.ask()
    assert study.result().level == pytest.approx(SCHEDULE(told), abs=1e-15)
    belief = study.snapshot.settings.believer.of_told(study.problem, study.data, study.snapshot.belief)
    _, deviation = belief.moments(study.problem.to_unit(np.array(points([trial]))))
    caution = study.snapshot.settings.believer.trust(study.problem, study.data, SCHEDULE(told)).stated
    half = normal(SCHEDULE(told)) * caution[0] * deviation[0, 0]
    assert 0.5 * (trial.why.upper[0] - trial.why.lower[0]) == pytest.approx(half, rel=1e-3)


def test_a_schedule_is_stored_and_restored_like_any_setting(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'lab.db'}"
    solver = fast(level=SCHEDULE)
    with Study(parabola(), name="a", store=address, seed=1, solver=solver) as study:
        study.run(2)
    with Study(parabola(), name="a", store=address) as study:
        assert study.solver == solver
        study.run(2)
    other = fast(level=confidence(delta=0.2, size=1000, functions=1))
    with pytest.raises(SettingError, match=r"level.delta is 0.1, 0.2 is given"):
        Study(parabola(), name="a", store=address, solver=other)


@pytest.mark.parametrize("level", [lambda t: 0.9, "0.9", True, None, (), (0.9, "0.9"), ((0.9,), 0.9)])
@unchecked()
def test_what_is_neither_number_nor_schedule_is_refused(level: object) -> None:
    with pytest.raises(
        SettingError, match=r"level is a number between 0.5 and 1, a schedule, confidence\(delta, size, functions\)"
    ):
        CUQB(level=level)  # type: ignore[arg-type]


@unchecked()
def test_a_rival_has_one_level() -> None:
    for name in ("eic", "epbo"):
        for level in (SCHEDULE, (0.9, 0.95)):
            with pytest.raises(SettingError, match=f"level of solver '{name}' is one number"):
                make(name, level=level)


def test_each_function_is_sought_at_its_own_level_of_each_time(tmp_path: Path) -> None:
    """The maximum of Algorithm 1 with levels of its own for every function and step, against bounds in closed form."""
    limits = {"first": "y <= 0.6", "second": "x * y <= 0.5"}
    problem = Problem({"x": (0.0, 1.0)}, ["y"], maximize="y", subject_to=limits, noise=0)
    grid, address = np.linspace(0.0, 1.0, 4001), f"sqlite:///{tmp_path / 'lab.db'}"
    solver = replace(
        CUQB(level=(0.9, Steps((0.6, 0.7, 0.99)), 0.8), believer=Believer(mixture=False)),
        moves=("explore",),
        verify_every=None,
        compare=False,
    )
    with Study(problem, name="a", store=address, seed=1, initial=3, solver=solver) as study:
        for _ in range(3):
            trial = study.ask()
            study.tell(trial, {"y": np.sin(2.5 * trial.x["x"])})
    with Study(problem, name="a", store=address) as study:
        assert study.solver == solver
        trial = study.ask()
        mean, deviation = (each[:, 0] for each in study.snapshot.belief.moments(grid[:, None]))
    upper = mean + normal(0.9) * deviation
    least = mean - normal(0.99) * deviation, grid * (mean - normal(0.8) * deviation)
    possible = (least[0] <= 0.6) & (least[1] <= 0.5)
    at = np.interp(trial.x["x"], grid, upper)
    assert at >= upper[possible].max() - 1e-3 * np.ptp(upper)
    assert np.interp(trial.x["x"], grid, least[0]) <= 0.6 + 1e-3
    assert np.interp(trial.x["x"], grid, least[1]) <= 0.5 + 1e-3


def test_levels_by_function_are_one_for_each_and_of_one_objective() -> None:
    with pytest.raises(SettingError, match=r"level has 2 entries for 3 functions: state one, or one for each of"):
        Study(
            Problem({"x": (0.0, 1.0)}, ["y"], maximize="y", subject_to=["y <= 1", "y >= 0"]),
            solver=CUQB(level=(0.9, 0.9)),
        )
    front = Problem({"x": (0.0, 1.0)}, ["y"], maximize={"a": "y", "b": "x - y"})
    with pytest.raises(SettingError, match="with several objectives all functions have one level"):
        Study(front, solver=CUQB(level=(0.9, 0.9)))
    with pytest.raises(SettingError, match=r"between 0.5 and 1, got 1\.5"):
        Steps((0.9, 1.5))


def test_a_level_stays_below_one_however_late() -> None:
    late = confidence(delta=1e-6, size=10**9, functions=10)
    assert 0.5 < late(0) <= late(10**6) < 1.0
    assert 0.5 + 0.5 * late(10**6) < 1.0


def test_a_schedule_is_refused_before_anything_is_evaluated_where_a_function_must_be_sampled() -> None:
    with pytest.raises(SettingError, match=r"schedule soon become too extreme for samples, and 'p\*q \+ r' must be"):
        Study(waves(), solver=CUQB(level=SCHEDULE))
    with pytest.raises(
        SettingError, match=r"state one level, such as level=0.95, or an estimator with closed_forms=True"
    ):
        Study(parabola(), solver=replace(CUQB.paper(), level=SCHEDULE))
    Study(hill(), solver=CUQB(level=Confidence(0.1, 100, 3)))


@pytest.mark.parametrize(("kind", "level"), [("order", 0.99), ("soft", 0.981), ("harrell-davis", 0.9999)])
def test_a_level_that_the_largest_sample_would_answer_is_refused_with_what_to_do(kind: str, level: float) -> None:
    believer = Believer(estimator=Estimator(kind=kind, samples=50, screening=50))
    with pytest.raises(SettingError, match=r"is too extreme for .* samples, and 'p\*q \+ r' must be sampled.*at most"):
        Study(waves(), solver=CUQB(level=level, believer=believer))
    Study(hill(), solver=CUQB(level=level, believer=believer))  # closed forms
    if kind != "harrell-davis":
        Study(waves(), solver=CUQB(level=0.98, believer=believer))
        with pytest.raises(SettingError, match=r"at least (100|53) samples"):
            Study(waves(), solver=CUQB(level=level, believer=believer))


def test_a_level_that_is_not_stated_gets_the_samples_that_it_needs() -> None:
    few = Estimator(kind="order", samples=10, screening=10)
    assert few.needed(0.8, 10) == 10
    assert few.needed(0.99, 10) == 160


@pytest.mark.slow
def test_a_verdict_of_one_limit_at_a_time_names_the_one_that_cannot_be_met() -> None:
    """Neither limit excludes the other; one of them alone asks for more than there is."""
    problem = Problem({"x": (0.0, 1.0)}, ["y"], maximize="y", noise=0, blackbox=lambda x: x["x"],
                      subject_to={"low": "y <= 0.9", "high": "y >= 3"})  # fmt: skip
    study = Study(problem, seed=1, solver=CUQB.paper())
    study.run(12)
    message = study.result().message
    assert "'high' cannot be met (one at a time" in message, message
    assert "together" not in message
