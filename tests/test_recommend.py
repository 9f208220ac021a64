"""The four rules of recommendation, what they certify, and what would make an infeasible problem plausible."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy import ndarray
from scipy.stats import norm

from oracles import Normals
from pied import Problem, SettingError
from pied.bounds.believer import Believer
from pied.bounds.composite import Composite
from pied.gp.choices import Model
from pied.records.trial import Dataset, Why
from pied.rng import Stream
from pied.study.recommendation import RULES, Inputs, Recommendation, default_rule, recommend
from pied.study.relaxation import relax, white_conflict
from tiny import hill, parabola, waves

Z3 = float(norm.cdf(3.0))


def data_of(problem: Problem, x: Sequence[Sequence[float]], y: Sequence[Sequence[float]]) -> Dataset:
    X, Y = (np.array(each, dtype=np.float64) for each in (x, y))
    return Dataset(tuple(range(1, len(X) + 1)), problem.to_unit(X), Y, np.zeros((0, problem.d)))


def bounds_of(problem: Problem, data: Dataset, U: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    believer = Believer()
    return believer.said(problem, data, believer.fit(problem, data, imagine=False), Stream(0), 0.95).bounds(U, 0.95)


def found(problem: Problem, data: Dataset, rule: str | None = None, **words: object) -> Recommendation:
    answer = recommend(problem, data, rule, **words)  # type: ignore[arg-type]
    assert answer is not None
    return answer


# a record of `hill`: y = (a - 3)^2 + (b - 2)^2 >= 1 is to be small, a + b <= 3; the best feasible row is the third
HILL = [[0.0, 0.0], [3.0, 2.0], [1.5, 1.5], [4.0, 4.0], [0.0, 3.0], [2.0, 0.0], [1.0, 0.5]]


def hill_data(problem: Problem | None = None) -> Dataset:
    return data_of(problem or hill(), HILL, [[(a - 3) ** 2 + (b - 2) ** 2] for a, b in HILL])


def test_observed_is_the_best_feasible_told_point_with_its_observed_value() -> None:
    best = found(hill(), hill_data(), "observed")
    assert best.row == 2
    assert best.value.tolist() == [-2.5, 1.5, 0.0]  # the paper's form: the objective is maximized
    assert best.is_feasible
    assert best.certified == -2.5
    assert np.array_equal(best.u, hill_data().U[2])


def test_bounds_contain_what_was_observed_where_a_belief_smooths_over_it() -> None:
    smooth = Believer(Model(trends=("constant",), warps=("none",), nugget=(0.3, 0.3)))
    best = found(hill(), hill_data(), "observed", believer=smooth, level=0.6)
    composite = smooth.bound(hill(), hill_data(), smooth.fit(hill(), hill_data()), Stream(0))
    lower, _, upper = (each[0] for each in composite.bounds(best.u[None], 0.6))
    assert not bool(((lower <= best.value) & (best.value <= upper)).all())
    assert bool(((best.lower <= best.value) & (best.value <= best.upper)).all())


def test_nothing_is_certain_of_a_point_that_was_measured_to_be_infeasible() -> None:
    best = found(hill(), hill_data(), "observed")
    assert replace(best, is_feasible=False, certified=1.0).with_told(best.value).certified is None


def test_observed_without_a_feasible_point_is_the_least_scaled_violation() -> None:
    """'tight' is violated by less in its own units, but its units are large: scaled, the other point is nearer."""
    problem = hill(subject_to={"tight": "1000*y <= 3000", "line": "a + b <= 3"})
    data = data_of(problem, [[4.0, 2.0], [0.0, 2.0], [4.0, 4.0]], [[3.5], [9.0], [5.0]])
    best = found(problem, data, "observed")
    # scaled by the interquartile ranges 2750 and 2: violations 0.18 + 1.5, 2.2 + 0, 0.73 + 2.5
    assert best.row == 0
    assert not best.is_feasible
    assert best.certified is None


def test_observed_ignores_rows_that_are_not_complete() -> None:
    problem = waves(subject_to=None)
    rows = [[1.0, 1.0, 1.0], [9.0, math.nan, 9.0], [2.0, 1.0, 1.0]]
    best = found(problem, data_of(problem, [[0.1, 0.1], [0.5, 0.5], [0.9, 0.2]], rows), "observed")
    assert best.row == 2


@pytest.mark.parametrize("rule", RULES)
def test_nothing_is_recommended_while_nothing_is_complete(rule: str) -> None:
    problem = waves()
    assert recommend(problem, data_of(problem, [[0.5, 0.5]], [[1.0, math.nan, 2.0]]), rule) is None


@pytest.mark.parametrize("rule", RULES)
def test_one_told_point_is_enough(rule: str) -> None:
    problem = parabola()
    best = found(problem, data_of(problem, [[1.0]], [[0.91]]), rule)
    assert best.u.min() >= 0
    assert best.u.max() <= 1
    assert np.isfinite(best.value).all()


def lucky() -> tuple[Problem, Dataset]:
    """One point was measured once and luckily, another eight times and reliably a little lower."""
    problem = parabola(noise=0.3, maximize="y")
    x = [[0.6]] * 8 + [[2.4], [0.0], [1.5], [3.0]]
    y = [[1.0]] * 8 + [[1.15], [0.0], [0.1], [-0.1]]
    return problem, data_of(problem, x, y)


def test_lower_prefers_the_reliable_point_to_the_lucky_one() -> None:
    problem, data = lucky()
    assert found(problem, data, "observed").row == 8
    best = found(problem, data, "lower")
    assert best.row is not None
    assert float(data.U[best.row, 0]) == pytest.approx(0.2)
    assert best.certified == pytest.approx(float(best.lower[0]))


def test_lower_is_the_largest_penalized_lower_bound_of_the_current_belief() -> None:
    problem = hill(noise=0.2)
    data = hill_data(problem)
    lower, median, upper = bounds_of(problem, data, data.U)
    score = lower[:, 0] - 1e5 * np.maximum(-lower[:, 1:], 0).sum(1)
    best = found(problem, data, "lower")
    assert best.row == int(score.argmax())
    np.testing.assert_allclose(best.lower, lower[best.row])
    np.testing.assert_allclose(best.value, median[best.row])
    np.testing.assert_allclose(best.upper, upper[best.row])


def test_asked_scores_points_by_their_bounds_as_they_stood() -> None:
    """Equation (14): the fourth point promised the most when it was asked, whatever was found there later."""
    problem = parabola(subject_to={"floor": "y >= -1"}, maximize="y")
    data = data_of(problem, [[0.1], [0.5], [2.9], [2.0], [1.2]], [[-0.4], [0.3], [-1.5], [0.51], [0.99]])
    asked = [None, None, None, Why("explore", lower=(5.0, 0.1)), Why("explore", lower=(5.1, -1e-3))]
    best = found(problem, data, "asked", asked=asked)
    assert best.row == 3
    assert best.is_feasible
    assert best.value[0] == pytest.approx(0.51, abs=1e-3)  # but it is described by what is known now


def test_asked_scores_initial_points_by_the_first_belief() -> None:
    problem = parabola(maximize="y")
    data = data_of(problem, [[0.1], [0.5], [2.9], [2.0]], [[-0.44], [0.36], [-1.56], [0.51]])
    first = data.first(3)
    score = bounds_of(problem, first, data.U[:3])[0][:, 0]
    assert int(score.argmax()) == 1
    below, above = float(score[1]) - 1e-6, float(score[1]) + 1e-6
    initial: list[Why | None] = [None, None, None]
    assert found(problem, data, "asked", asked=[*initial, Why("explore", lower=(below,))]).row == 1
    assert found(problem, data, "asked", asked=[*initial, Why("explore", lower=(above,))]).row == 3


def test_asked_without_any_asked_point_scores_all_by_the_belief_in_all() -> None:
    problem = parabola(maximize="y")
    data = data_of(problem, [[0.1], [0.5], [2.9]], [[-0.44], [0.36], [-1.56]])
    assert found(problem, data, "asked").row == 1


def test_anywhere_leaves_the_told_points() -> None:
    """A parabola told at seven points is known everywhere: the recommendation is its top, at x = 1.25."""
    problem = parabola()
    x = [[0.0], [0.7], [1.1], [1.5], [2.2], [2.6], [3.0]]
    best = found(problem, data_of(problem, x, [[1 - (each[0] - 1.3) ** 2] for each in x]), "anywhere")
    assert best.row is None
    assert best.rule == "anywhere"
    assert float(problem.from_unit(best.u)[0]) == pytest.approx(1.25, abs=1e-4)
    assert best.is_feasible


def test_anywhere_holds_the_lower_bounds_and_beats_every_told_point_that_does() -> None:
    problem = hill(noise=0.05)
    data = hill_data(problem)
    best = found(problem, data, "anywhere")
    lower, _, _ = bounds_of(problem, data, data.U)
    certain = (lower[:, 1:] >= 0).all(1)
    assert (best.lower[1:] >= -1e-6).all()
    assert not certain.any() or float(best.lower[0]) >= float(lower[certain, 0].max()) - 1e-6


def test_a_place_of_which_little_is_known_is_not_recommended_for_what_it_may_be() -> None:
    """A line that rises out of the told points: far beyond them it may be far better, or not."""
    problem = parabola(maximize="y", noise=0.1)
    x = np.linspace(0.0, 1.0, 8)
    data = data_of(problem, x[:, None].tolist(), (np.sin(3 * x) + 0.05 * Stream(1).normal(8))[:, None].tolist())
    best = found(problem, data, "anywhere")
    grid = np.linspace(0.0, 1.0, 301)[:, None]
    lower, _, upper = (each[:, 0] for each in bounds_of(problem, data, grid))
    assert float(best.lower[0]) >= lower.max() - 1e-6
    assert upper.max() > best.upper[0]


def test_anywhere_falls_back_to_lower_and_says_so_when_nothing_is_certain() -> None:
    problem = hill(subject_to={"impossible": "y <= -5"})
    data = hill_data(problem)
    best = found(problem, data, "anywhere")
    assert best.rule == "lower"
    assert best.row == found(problem, data, "lower").row
    assert not best.is_feasible
    assert best.certified is None


def test_where_nothing_is_certain_settings_that_probably_meet_all_limits_go_before_surely_worse_ones() -> None:
    """One limit is known well and broken at the best point, one is lost in noise everywhere."""
    problem = waves(
        noise={"p": 0.01, "q": 2.0, "r": 0.01}, maximize="r", subject_to={"known": "p <= 0.5", "noisy": "q <= 0.6"}
    )
    draw = Stream(5).uniform(9, 2)
    truth = np.stack([draw[:, 0], 0.5 * np.cos(40 * draw[:, 1]), draw[:, 0]], 1)
    data = data_of(problem, draw.tolist(), truth.tolist())
    best = found(problem, data, "anywhere")
    assert best.rule == "lower"
    assert best.row is not None
    assert best.joint >= 0.5
    assert truth[best.row, 0] <= 0.5 + 0.03


def test_probabilities_are_those_of_the_belief() -> None:
    """Of one output, a normal; of two, independent, their product. 4096 quasi-random samples: to 2e-3."""
    problem = waves(noise=0.3, maximize="p", subject_to={"one": "p >= 0.6", "two": "q >= 0.3", "white": "s <= 2"})
    draw = Stream(5).uniform(8, 2)
    truth = np.stack([np.sin(3 * draw[:, 0]), np.cos(2 * draw[:, 1]), draw[:, 0] * draw[:, 1]], 1)
    data = data_of(problem, draw.tolist(), truth.tolist())
    best = found(problem, data, "lower")
    belief = Believer().careful(problem, data, Believer().fit(problem, data, imagine=False), 0.95)
    mean, scale = (each[0] for each in belief.moments(best.u[None]))
    one, two = (float(norm.cdf((mean[j] - limit) / scale[j])) for j, limit in ((0, 0.6), (1, 0.3)))
    assert best.probability.tolist() == pytest.approx([one, two, 1.0], abs=2e-3)
    assert best.joint == pytest.approx(one * two, abs=2e-3)


def test_what_is_pending_failed_or_missing_is_not_imagined() -> None:
    """A belief from values that nobody measured would be sure of them."""
    problem, far = parabola(noise=0.1), np.array([[0.95]])
    told = data_of(problem, [[0.1], [0.3], [0.5], [0.7]], [[0.5], [0.9], [1.2], [0.8]])
    alone = bounds_of_study(problem, told, far)
    pending = replace(told, imagined=far)
    failed = replace(pending, failures=(0,))
    for each in (pending, failed):
        np.testing.assert_allclose(bounds_of_study(problem, each, far), alone)
    believer = Believer()
    missing = replace(
        told, U=np.concatenate([told.U, far]), Y=np.concatenate([told.Y, [[np.nan]]]), numbers=(1, 2, 3, 4, 5)
    )
    narrow, wide = (believer.fit(problem, missing, imagine=each).moments(far)[1] for each in (True, False))
    assert narrow < 0.5 * wide


def bounds_of_study(problem: Problem, data: Dataset, U: ndarray) -> list[ndarray]:
    """The bounds that a recommendation rests on."""
    given = Inputs(problem, data, 0.95, Believer(), None, [None] * len(data.U), Stream(0), None, None, None, None)
    return list(given.composite.bounds(U, 0.95))


def test_without_constraints_feasibility_is_certain() -> None:
    best = found(parabola(), data_of(parabola(), [[0.5], [2.0]], [[0.36], [0.51]]), "observed")
    assert best.probability.shape == (0,)
    assert best.joint == 1.0


def test_a_noisy_point_is_certified_by_its_lower_bound_only_where_all_lower_bounds_hold() -> None:
    problem, data = lucky()
    sure = found(problem, data, "observed")
    assert sure.certified == pytest.approx(float(sure.lower[0]))
    limited = problem.revised(subject_to={"limit": "y >= 1.1"})
    unsure = found(limited, data, "observed")
    assert unsure.is_feasible  # as observed
    assert unsure.certified is None  # but not for sure


def test_told_values_without_a_function_value_do_not_stop_a_recommendation() -> None:
    problem = parabola(maximize="log(y)", ranges={"y": (0.0, None)})
    best = found(problem, data_of(problem, [[0.5], [2.0]], [[-1.0], [-2.0]]), "observed")
    assert not best.is_feasible


def test_exact_black_boxes_default_to_observed_noisy_ones_to_anywhere() -> None:
    assert default_rule(parabola()) == "observed"
    assert default_rule(parabola(noise=None)) == "anywhere"
    assert default_rule(waves(noise={"p": 0.0, "q": 0.0, "r": 0.1})) == "anywhere"


def test_an_unknown_rule_is_refused_with_the_one_probably_meant() -> None:
    with pytest.raises(SettingError, match=r"unknown rule 'observd'\. Did you mean 'observed'\?"):
        recommend(parabola(), data_of(parabola(), [[0.5]], [[0.3]]), "observd")


# ------------------------------------------------------------------------------------------------------ relaxations


def line(std: float = 1e-9, **constraints: str) -> Composite:
    """One variable x in (0, 1), known outputs y = x and w = x^2 with one standard deviation."""
    problem = Problem({"x": (0.0, 1.0)}, ["y", "w"], maximize="y", subject_to=constraints)
    belief = Normals(lambda u: np.concatenate([u, u**2]), lambda u: np.full(2, std))
    return Composite(problem, belief, Stream(0))


def relaxed(composite: Composite, level: float = Z3):
    return relax(composite, level, Stream(0), np.array([0.5]))


@pytest.mark.slow
def test_two_constraints_that_exclude_each_other_can_each_be_relaxed_alone() -> None:
    answer = relaxed(line(high="y >= 0.8", low="y <= 0.4", idle="w <= 3"))
    assert answer.alone["high"] == pytest.approx(0.4, abs=1e-6)
    assert answer.alone["low"] == pytest.approx(0.4, abs=1e-6)
    assert answer.alone["idle"] is None
    assert answer.conflict == ("high", "low")


def test_relaxing_all_by_the_same_number_of_scales_shares_the_burden() -> None:
    """Both constraints have the scale 1/2 (interquartile range of x), the compromise is x = 0.6, 0.2 short of both."""
    answer = relaxed(line(high="y >= 0.8", low="y <= 0.4"))
    assert answer.together["high"] == pytest.approx(0.2, abs=2e-3)  # quartiles of a pool, not of the interval
    assert answer.together["low"] == pytest.approx(0.2, abs=2e-3)


def test_a_constraint_that_is_impossible_by_itself_is_the_conflict() -> None:
    """y >= 1.3 cannot hold anywhere, so relaxing 'low' cannot help, and relaxing 'beyond' must also respect 'low'."""
    answer = relaxed(line(beyond="y >= 1.3", low="y <= 0.4"))
    assert answer.alone["beyond"] == pytest.approx(0.9, abs=1e-6)
    assert answer.alone["low"] is None
    assert answer.conflict == ("beyond",)


@pytest.mark.slow
def test_two_impossible_constraints_are_in_conflict_where_no_single_relaxation_helps() -> None:
    """Scales 1/2 and about 1/2: the most violated one at the compromise x = 1 is w >= 5."""
    answer = relaxed(line(beyond="y >= 1.3", far="w >= 5"))
    assert answer.alone == {"beyond": None, "far": None}
    assert answer.conflict == ("far",)


def test_the_relaxation_grants_three_standard_deviations() -> None:
    answer = relaxed(line(std=0.02, beyond="y >= 1.3"))
    assert answer.alone["beyond"] == pytest.approx(0.3 - 3 * 0.02, abs=1e-6)


def test_relaxations_are_in_natural_units() -> None:
    answer = relaxed(line(beyond="1000*y >= 1300"))
    assert answer.alone["beyond"] == pytest.approx(300.0, abs=1e-3)


# ------------------------------------------------------------------------------------------- white constraints alone


def white(**constraints: str) -> Problem:
    return Problem({"a": (0.0, 4.0), "b": (0.0, 4.0)}, ["y"], maximize="log(y)", subject_to=constraints)


def test_white_constraints_that_can_be_met_are_no_conflict() -> None:
    assert white_conflict(white(one="a + b <= 3", two="a >= 2.9")) is None
    assert white_conflict(white(one="a + b <= 3", black="y <= -1")) is None
    assert white_conflict(parabola()) is None


@pytest.mark.slow
def test_white_constraints_that_exclude_each_other_are_named_with_their_relaxation() -> None:
    answer = white_conflict(white(one="a + b <= 3", two="a >= 3.5", three="b <= 3"))
    assert answer is not None
    assert answer.conflict == ("one", "two")
    assert answer.alone["one"] == pytest.approx(0.5, abs=1e-6)
    assert answer.alone["two"] == pytest.approx(0.5, abs=1e-6)
    assert answer.alone["three"] is None


def test_one_white_constraint_that_the_box_excludes_is_named_alone() -> None:
    answer = white_conflict(white(one="a + b >= 9", two="a >= 1"))
    assert answer is not None
    assert answer.conflict == ("one",)
    assert answer.alone["one"] == pytest.approx(1.0, abs=1e-6)


def test_white_constraints_on_a_set_without_volume_are_no_conflict() -> None:
    assert white_conflict(white(one="a + b <= 3", two="a + b >= 3", three="(a - b)**2 <= 0")) is None


def test_white_constraints_without_a_value_in_most_of_the_box_are_no_conflict() -> None:
    assert white_conflict(white(one="sqrt(a - 3.99) <= 1e-3")) is None


def test_looking_at_white_constraints_does_not_complain_about_the_other_functions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The objective log(y) has no value while nothing is known of y; that is nobody's fault yet."""
    white_conflict(white(one="a + b <= 3"))
    assert not caplog.records
