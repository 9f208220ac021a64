"""Where people set them and outputs have noise, settings have the fewest digits that lose nothing."""

import numpy as np
import pytest

import pied
from pied import Problem, Study, Variable
from pied.rng import Stream
from pied.solvers.digits import written
from pied.solvers.initial import initial_design, initial_point
from shells import pied_

CHANCE = np.random.default_rng(3)


def brew(**more: object) -> Problem:
    words: dict[str, object] = {
        "maximize": "20*y - 0.4*time", "subject_to": {"pure": "z <= 0.08", "energy": "T*time <= 240"},
    }  # fmt: skip
    return Problem(
        {"T": Variable(60, 100), "time": (0.5, 6), "c": Variable(1e-3, 1, log=True)}, ["y", "z"], **(words | more)
    )  # type: ignore[arg-type]


def measured(x: pied.Named) -> dict[str, float]:
    y = 1 - ((x.T - 81) / 30) ** 2 - ((x.time - 3) / 4) ** 2 - 0.1 * (np.log10(x.c) + 2) ** 2
    return dict(zip(("y", "z"), ([y, 0.001 * (x.T - 20)] + [0.01, 0.001] * CHANCE.standard_normal(2)), strict=True))


def digits(value: float) -> int:
    return len(f"{abs(value):.15g}".replace(".", "").lstrip("0").rstrip("0").partition("e")[0])


def test_people_are_asked_to_set_numbers_that_they_can_read() -> None:
    study = Study(brew(), seed=2)
    for _ in range(9):
        trial = study.ask()
        assert all(digits(each) <= 5 for each in trial.x.values()), trial
        assert all(repr(each) == f"{each:.9g}" or each.is_integer() for each in trial.x.values()), trial
        assert trial.x.T * trial.x.time <= 240
        study.tell(trial, measured(trial.x))
    assert max(map(digits, study.trials[0].x.values())) <= 3


def test_no_number_with_fewer_digits_loses_nothing() -> None:
    problem, x = brew(), np.array([81.4871234, 2.9468751, 0.0123456])
    u, room = problem.to_unit(x), np.array([0.012, 0.04, 0.0002])

    def fine(U: np.ndarray) -> np.ndarray:
        X = problem.from_unit(U)
        return np.asarray((np.abs(X - x) <= room).all(1) & (X[:, 0] * X[:, 1] <= 240.2))

    made = problem.natural(written(problem, u, fine)).tolist()
    assert made == pytest.approx([81.48, 2.94, 0.0125], abs=0.02)
    assert bool(fine(problem.to_unit(np.array([made])))[0])
    for place, width in ((0, 40.0), (1, 5.5)):
        coarser = -int(np.floor(np.log10(width))) + digits(made[place]) - 2
        other = np.array(made)
        other[place] = round(made[place], coarser - 1)
        assert digits(other[place]) == digits(made[place]) or not fine(problem.to_unit(other[None]))[0]
    assert np.array_equal(written(problem, u, lambda U: np.zeros(len(U), dtype=bool)), u)


@pytest.mark.parametrize("more", [{"noise": 0}, {"blackbox": measured}], ids=["exact", "program"])
def test_a_program_and_exact_outputs_keep_all_digits(more: dict[str, object]) -> None:
    problem, stream = brew(**more), Stream(1)
    u = initial_point(problem, stream, 0, Study(problem, seed=1).snapshot.record)
    assert np.array_equal(u, initial_design(problem, stream)[0])


def test_shares_of_a_mixture_have_few_digits_and_add_up() -> None:
    problem = Problem(
        {"a": (0, 1), "b": (0, 1), "c": (0, 0.6)}, ["y"], maximize="y", subject_to={"whole": "a + b + c == 1"}
    )
    study = Study(problem, seed=1)
    for _ in range(8):
        x = study.ask().x
        assert abs(x.a + x.b + x.c - 1) <= 1e-12
        assert 0 <= x.c <= 0.6
        assert all(digits(each) <= 5 for each in x.values()), x
        study.tell(len(study.trials), [x.a * x.b + 0.01 * CHANCE.standard_normal()])


def test_a_number_that_rounding_changed_is_the_one_that_was_meant() -> None:
    problem = Problem({"a": (0.3, 8.7), "b": Variable(1e-3, 10, log=True)}, ["y"], maximize="y", noise=0)
    for a, b in ((8.7, 0.1), (1.1, 0.007), (0.3, 10.0), (3.3333333333333335, 0.12345678901234567)):
        made = problem.natural(problem.to_unit(np.array([a, b])))
        assert made.tolist() == pytest.approx([a, b], rel=1e-14)
        assert [repr(each) for each in made.tolist()][: 2 * (digits(a) < 9)] == [repr(a), repr(b)][
            : 2 * (digits(a) < 9)
        ]


def test_the_first_trial_alone_says_how_steps_are_stated(lab: object) -> None:
    assert pied_("ask", "lab.toml").output.count("round = 1") == 1
    pied_("tell", "lab.toml", "1", "product=0.5", "impurity=0.02")
    assert "round = 1" not in pied_("ask", "lab.toml").output
