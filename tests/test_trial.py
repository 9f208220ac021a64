"""The record of a study and its arrays."""

import math

import numpy as np
import pytest

from pied import Problem, Variable
from pied.problem.named import Named
from pied.records.trial import Dataset, State, Trial, Why, feasible, spread, tolerances
from tiny import hill, parabola, waves


def trial(problem: Problem, number: int, x: list[float], y: list[float] | None, state: State, **words: object) -> Trial:
    told = Named(problem.outputs, tuple(y)) if y is not None else None
    return Trial(number, Named(tuple(problem.variables), tuple(x)), state, y=told, **words)  # type: ignore[arg-type]


def record(problem: Problem) -> list[Trial]:
    """Told, partial, failed, asked and added, in this order."""
    return [
        trial(problem, 1, [0.0, 0.25], [1.0, 2.0, 3.0], State.TOLD, why=Why("initial")),
        trial(problem, 2, [0.5, 0.25], [4.0, math.nan, 6.0], State.PARTIAL, why=Why("explore", margin=-1.0)),
        trial(problem, 3, [0.75, 0.5], None, State.FAILED, reason="broke", why=Why("verify")),
        trial(problem, 4, [1.0, 1.0], None, State.ASKED, why=Why("explore")),
        trial(problem, 5, [0.125, 0.5], [7.0, 8.0, 9.0], State.TOLD, is_added=True),
    ]


def test_told_and_partial_rows_are_data_and_the_rest_is_imagined() -> None:
    problem = waves()
    data = Dataset.of(problem, record(problem))
    assert data.numbers == (1, 2, 5)
    assert data.U.tolist() == [[0.0, 0.25], [0.5, 0.25], [0.125, 0.5]]
    assert data.Y[0].tolist() == [1.0, 2.0, 3.0]
    assert np.isnan(data.Y[1]).tolist() == [False, True, False]
    assert data.imagined.tolist() == [[0.75, 0.5], [1.0, 1.0]]
    assert data.complete.tolist() == [True, False, True]


def test_the_last_reason_is_that_of_the_last_asked_trial_not_of_added_data() -> None:
    problem = waves()
    whole = record(problem)
    assert Dataset.of(problem, whole).last is whole[3].why
    assert Dataset.of(problem, whole[4:]).last is None


def test_an_empty_record_gives_empty_arrays() -> None:
    data = Dataset.of(waves(), [])
    assert data.U.shape == (0, 2)
    assert data.Y.shape == (0, 3)
    assert data.imagined.shape == (0, 2)
    assert data.functions(waves()).shape == (0, 3)
    assert data.complete.shape == (0,)


def test_points_are_mapped_to_the_unit_cube_on_their_own_scale() -> None:
    problem = parabola(variables={"x": Variable(1.0, 100.0, log=True)}, maximize="y")
    data = Dataset.of(problem, [trial(problem, 1, [10.0], [0.0], State.TOLD)])
    assert data.U[0, 0] == pytest.approx(0.5, abs=1e-12)


def test_a_point_outside_by_rounding_is_inside_the_cube() -> None:
    problem = parabola()
    data = Dataset.of(problem, [trial(problem, 1, [3.0 + 1e-12], [0.0], State.TOLD)])
    assert data.U[0, 0] == 1.0


def test_functions_are_missing_only_where_an_output_they_need_is() -> None:
    problem = waves(subject_to={"first": "p >= 0", "white": "s <= 0.4"})
    f = Dataset.of(problem, record(problem)[:2]).functions(problem)
    assert f[0].tolist() == [1.0 * 2.0 + 3.0, 1.0, 0.4]
    assert math.isnan(f[1, 0])
    assert f[1, 1:].tolist() == pytest.approx([4.0, -0.1])


def test_functions_are_in_the_papers_form() -> None:
    problem = hill()
    f = Dataset.of(problem, [trial(problem, 1, [1.0, 1.0], [5.0], State.TOLD)]).functions(problem)
    assert f.tolist() == [[-5.0, 4.0, 1.0]]


def test_the_first_rows_forget_what_is_pending() -> None:
    problem = waves()
    data = Dataset.of(problem, record(problem)).first(2)
    assert data.numbers == (1, 2)
    assert len(data.imagined) == 0


def test_the_spread_is_the_interquartile_range() -> None:
    values = np.arange(101.0)[:, None] * np.array([1.0, -2.0])
    assert spread(values).tolist() == [50.0, 100.0]


def test_the_spread_of_a_constant_is_its_size_and_of_zero_is_one() -> None:
    values = np.array([[3.0, 0.0, -4.0]] * 5)
    assert spread(values).tolist() == [3.0, 1.0, 4.0]


def test_the_spread_of_nothing_is_one() -> None:
    assert spread(np.zeros((0, 2))).tolist() == [1.0, 1.0]


def test_the_spread_of_a_spike_is_its_height() -> None:
    values = np.zeros((20, 1))
    values[3] = -7.0
    assert spread(values).tolist() == [7.0]


def test_the_tolerance_is_as_stated_or_a_millionth_of_the_observed_spread() -> None:
    problem = hill(tolerance={"line": 0.25})
    f = np.array([[0.0, each, 0.0] for each in (1.0, 2.0, 3.0, 4.0, 5.0)])
    assert tolerances(problem, f).tolist() == pytest.approx([2e-6, 0.25])


def test_one_observation_has_no_spread_and_no_tolerance() -> None:
    assert tolerances(hill(), np.array([[0.0, 5.0, 1.0]])).tolist() == [0.0, 0.0]


def test_feasible_means_every_constraint_met_within_tolerance_and_known() -> None:
    rows = [[1.0, 0.5, 0.5], [1.0, -0.5e-6, 0.1], [1.0, -0.1, 0.1], [math.nan, 1.0, 1.0], [1.0, math.nan, 1.0]]
    f = np.array(rows)
    problem = hill(tolerance=1e-6)
    assert feasible(problem, f).tolist() == [True, True, False, False, False]


def test_without_constraints_every_known_point_is_feasible() -> None:
    assert feasible(parabola(), np.array([[1.0], [math.nan]])).tolist() == [True, False]


def test_a_trial_prints_its_point_and_what_is_expected() -> None:
    asked = trial(hill(), 3, [1.5, 0.25], None, State.ASKED, summary="explore; y expected within 1 .. 2")
    assert str(asked) == "trial 3: a = 1.5  b = 0.25   (explore; y expected within 1 .. 2)"


def test_a_told_trial_prints_its_outputs_and_marks_what_is_missing() -> None:
    told = trial(waves(), 2, [0.5, 0.25], [4.0, math.nan, 6.0], State.PARTIAL, summary="explore")
    assert str(told) == "trial 2: s = 0.5  t = 0.25  ->  p = 4  q = ?  r = 6"


def test_a_failed_trial_prints_its_reason() -> None:
    failed = trial(hill(), 2, [1.5, 0.25], None, State.FAILED, reason="pump tripped", summary="explore")
    assert str(failed) == "trial 2: a = 1.5  b = 0.25   (failed: pump tripped)"
