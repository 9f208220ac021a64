"""What is said of a belief holds as often as it says: trust follows what predictions have missed."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, t

from pied import CUQB, Choice, Problem, Study
from pied.bounds import Believer, Trust, Widened, predicted, telling
from pied.bounds.prediction import deviation_of_noise
from pied.bounds.trust import LEAST, OWN_LEARNED, OWN_STATED, VERDICT_EXACT, VERDICT_NOISY, first, widened
from pied.gp import GP, Model
from pied.records import Dataset, Why
from pied.rng import Stream
from pied.study import gaps
from tiny import parabola, waves

LEVEL = 0.95


def record(problem, scores, *, first=8, moved=(), told=()):
    """Data whose proposals were expected at 0 within one unit, and measured at these scores; `told`: how telling."""
    scores = np.asarray(scores, dtype=float).reshape(-1, problem.m)
    rows = first + len(scores)
    ends = tuple((-1.0, 0.0, 1.0) for _ in range(problem.m))
    whys = (Why("initial"),) * first + (Why("explore", expected=ends, telling=told),) * len(scores)
    Y = np.concatenate([np.zeros((first, problem.m)), scores])
    U = Stream(0).uniform(rows, problem.d)
    return Dataset(tuple(range(1, rows + 1)), U, Y, U[:0], whys=whys, moved=moved)


def stated(problem, data, level):
    """The factor of what is said beside what was measured."""
    return Trust(problem, data, level).stated


def away(problem, data, level):
    """The factor of what may be where nothing was measured."""
    return Trust(problem, data, level).away


def test_what_is_said_begins_wide_and_is_narrower_with_more_points_and_with_noise() -> None:
    exact, noisy = parabola(), parabola(noise=0.1)
    few, many = (stated(exact, record(exact, [], first=n), LEVEL) for n in (5, 50))
    assert (few > 2 * many).all()
    assert (many > 1).all()
    assert (stated(noisy, record(noisy, [], first=5), LEVEL) < few).all()


def test_a_repetition_before_predictions_is_no_further_point() -> None:
    problem = parabola(noise=0.1)
    with_it = record(problem, [], first=9)
    with_it = replace(with_it, whys=(*with_it.whys[:-1], Why("compare", repeats=1)))
    for told in (stated, away):
        assert told(problem, with_it, LEVEL) == pytest.approx(told(problem, record(problem, []), LEVEL))
        assert (told(problem, with_it, LEVEL) > told(problem, record(problem, [], first=9), LEVEL)).all()


@pytest.mark.parametrize(("moved", "repeats"), [((9,), 1), ((), 77)], ids=["run elsewhere", "of a withdrawn trial"])
def test_a_repetition_elsewhere_or_of_nothing_is_a_point(moved, repeats) -> None:
    problem = parabola(noise=0.1)
    other = record(problem, [], first=9, moved=moved)
    other = replace(other, whys=(*other.whys[:-1], Why("compare", repeats=repeats)))
    assert stated(problem, other, LEVEL) == pytest.approx(stated(problem, record(problem, [], first=9), LEVEL))


def test_measurements_within_what_was_said_lower_it_and_others_raise_it() -> None:
    problem = parabola()
    start = stated(problem, record(problem, []), LEVEL)
    inside = stated(problem, record(problem, [[0.5] * problem.m] * 3), LEVEL)
    outside = stated(problem, record(problem, [[2.0] * problem.m]), LEVEL)
    assert (inside < start).all()
    assert (outside > start).all()
    assert (stated(problem, record(problem, [[0.5] * problem.m] * 200), LEVEL) == LEAST).all()


def test_it_is_learned_mostly_from_the_output_itself() -> None:
    problem = waves()
    one = stated(problem, record(problem, [[2.0, 0.0, 0.0]] * 3), LEVEL)
    assert one[0] > one[1]
    assert one[1] == pytest.approx(one[2])


def test_trials_that_were_run_elsewhere_or_not_measured_teach_nothing() -> None:
    problem = parabola()
    start = stated(problem, record(problem, []), LEVEL)
    assert stated(problem, record(problem, [[2.0] * problem.m], moved=(9,)), LEVEL) == pytest.approx(
        stated(problem, record(problem, [], first=9), LEVEL)
    )
    assert stated(problem, record(problem, [[np.nan] * problem.m]), LEVEL) == pytest.approx(start)


def test_in_the_long_run_as_many_lie_outside_as_was_said_whatever_the_belief_is() -> None:
    """Errors with heavy tails that are four times what the belief says: bounds hold nine times of ten all the same."""
    problem = parabola()
    z = np.abs(Stream(3).normal(400) / np.maximum(np.abs(Stream(4).normal(400)), 0.3)) * 4.0
    data, hits = record(problem, []), []
    for score in z:
        factor = stated(problem, data, LEVEL)
        ends = tuple((-each, 0.0, each) for each in (1.645 * factor).tolist())
        hits.append(score <= 1.645 * factor[0])
        row = np.full((1, problem.m), score)
        data = replace(
            data,
            numbers=(*data.numbers, len(data.numbers) + 1),
            U=np.concatenate([data.U, data.U[:1]]),
            Y=np.concatenate([data.Y, row]),
            whys=(*data.whys, Why("explore", expected=ends)),
        )
    assert 0.85 < np.mean(hits[20:]) < 0.95


def test_measurements_that_are_all_noise_do_not_raise_the_trust_in_what_was_not_measured() -> None:
    noisy = parabola(noise=0.1)
    start = away(noisy, record(noisy, []), LEVEL)
    near = record(noisy, [[0.1] * noisy.m] * 20, told=(0.05,) * noisy.m)
    far = record(noisy, [[0.1] * noisy.m] * 20, told=(1.0,) * noisy.m)
    assert (stated(noisy, near, LEVEL) == Trust(noisy, near, LEVEL).least).all()
    assert (away(noisy, near, LEVEL) > 0.9 * start).all()
    assert (away(noisy, far, LEVEL) < 0.6 * start).all()
    assert (start >= stated(noisy, record(noisy, []), LEVEL)).all()


def test_a_belief_is_not_trusted_more_than_a_first_one_from_as_many_points() -> None:
    """However well all of them were predicted: 8 points and 24 more leave the factor that 32 points begin with."""
    problem = parabola()
    right = record(problem, [[0.1] * problem.m] * 24, told=(1.0,) * problem.m)
    assert (stated(problem, right, LEVEL) == LEAST).all()
    assert away(problem, right, LEVEL) == pytest.approx(stated(problem, record(problem, [], first=32), LEVEL))
    less = record(problem, [[0.1] * problem.m] * 96, told=(0.5,) * problem.m)  # a quarter of a point each
    assert away(problem, less, LEVEL) == pytest.approx(stated(problem, record(problem, [], first=32), LEVEL))


def test_points_that_nobody_predicted_count_as_well() -> None:
    problem = parabola()
    data = record(problem, [[0.1] * problem.m] * 4, told=(1.0,) * problem.m)
    U, Y = np.tile(data.U[:1], (300, 1)), np.tile(data.Y[:1], (300, 1))
    more = replace(
        data,
        numbers=tuple(range(1, len(data.U) + 301)),
        U=np.concatenate([data.U, U]),
        Y=np.concatenate([data.Y, Y]),
        whys=(*data.whys, *[Why("added")] * 300),
    )
    assert (away(problem, more, LEVEL) < away(problem, data, LEVEL)).all()


def test_only_noise_carries_what_is_expected_out_of_a_range() -> None:
    """A logarithm that nobody measured beyond the range: no output is a thousand where it is 1 at most."""
    U = np.linspace(0.0, 0.4, 9)[:, None]
    problem = parabola(noise=None).revised(ranges={"y": (0.0, 1.0)})
    data = Dataset(tuple(range(9)), U, np.minimum(1e-6 * np.exp(30.0 * U), 1.0), U[:0])
    belief = Believer().fit(problem, data)
    low, middle, high = (each.item() for each in predicted(problem, belief, np.array([[1.0]]), LEVEL, 5.0))
    assert 0.0 <= middle <= 1.0
    assert -0.5 < low <= middle <= high < 1.5


def test_noise_may_carry_a_measurement_out_of_the_range_of_its_output() -> None:
    U = np.linspace(0.0, 1.0, 8)[:, None]
    data = Dataset(tuple(range(8)), U, np.maximum(0.1 - U, 0.0), U[:0])
    low = {}
    for noise in (0.0, 0.3):
        problem = parabola(noise=noise).revised(ranges={"y": (0.0, None)})
        belief = Believer().fit(problem, data)
        low[noise] = predicted(problem, belief, np.array([[0.9]]), LEVEL)[0].item()
    assert low[0.0] >= 0.0
    assert low[0.3] < -0.3


def test_away_from_measurements_exact_outputs_are_trusted_as_beside_them() -> None:
    exact = waves()
    data = record(exact, [[2.0, 0.0, 0.5]] * 3)
    assert away(exact, data, LEVEL) == pytest.approx(stated(exact, data, LEVEL))


def test_measurements_are_telling_away_from_those_that_were_made() -> None:
    problem = parabola(noise=0.3)
    U = np.linspace(0.0, 0.3, 12)[:, None]
    data = Dataset(tuple(range(12)), U, np.sin(5 * U) + 0.3 * Stream(1).normal(12, 1), U[:0])
    belief = Believer().fit(problem, data)
    near, far = telling(problem, belief, np.array([[0.15], [1.0]]), U)[:, 0]
    assert 0 < near < far <= 1
    low, _, high = predicted(problem, belief, np.array([[0.15]]), LEVEL)
    deviation = belief.moments(np.array([[0.15]]))[1]
    assert near == pytest.approx(2 * 1.644854 * deviation.item() / (high - low).item(), rel=1e-5)


def test_a_factor_for_each_output_widens_moments_and_their_slopes_alike() -> None:
    problem = waves()
    U = Stream(1).uniform(9, 2)
    truth = np.stack([np.sin(3 * U[:, 0]), np.cos(2 * U[:, 1]), U[:, 0] * U[:, 1]], 1)
    belief = Believer().fit(problem, Dataset(tuple(range(9)), U, truth, U[:0]))
    factor = np.array([1.0, 2.0, 3.0])
    new = Stream(2).uniform(4, 2)
    plain, wide = belief.moments_and_slopes(new), Widened(belief, factor).moments_and_slopes(new)
    np.testing.assert_allclose(wide[1], plain[1] * factor)
    np.testing.assert_allclose(wide[3], plain[3] * factor[:, None])
    np.testing.assert_allclose(wide[0], plain[0])


@pytest.mark.parametrize("stated", [True, False])
def test_the_factor_is_about_what_lies_between_measurements(stated: bool) -> None:
    """Far from all of them deviations grow by it; at one, measured n times, to its noise over root n at most."""
    own = {True: OWN_STATED, False: OWN_LEARNED}[stated]
    problem = parabola(noise=0.2 if stated else None)
    x = [0.05, 0.1, 0.2, 0.2, 0.2, 0.2, 0.3, 0.35, 0.4]
    U = np.array(x)[:, None]
    data = Dataset(tuple(range(9)), U, np.sin(9 * U) + 0.2 * Stream(3).normal(9, 1), U[:0])
    belief = Believer().fit(problem, data)
    far, measured = np.array([[1.0]]), U[3:4]
    wide = widened(problem, belief, np.array([10.0]))
    assert wide.moments(far)[1] > 5.0 * belief.moments(far)[1]
    noise = own * deviation_of_noise(problem, belief, measured) / 2.0
    assert belief.moments(measured)[1] < wide.moments(measured)[1] <= noise * (1 + 1e-9)
    little = widened(problem, belief, np.array([1.4]))
    np.testing.assert_allclose(little.moments(U)[0], belief.moments(U)[0], rtol=1e-9)
    np.testing.assert_allclose(little.moments(U)[1], 1.4 * belief.moments(U)[1], rtol=1e-9)


def test_noise_of_a_wider_belief_is_wider_by_its_own_factor() -> None:
    U = Stream(1).uniform(12, 2)
    Y = np.stack([np.sin(3 * U[:, 0]), np.cos(2 * U[:, 1])], 1) + 0.1 * Stream(2).normal(12, 2)
    belief = GP.fit(U, Y, noise=(None, None))
    wide = belief.widened(np.array([6.0, 3.0]), np.array([2.0, 3.0]))
    np.testing.assert_allclose(wide.noise_deviation(U), belief.noise_deviation(U) * [2.0, 3.0])


def test_a_wider_belief_that_imagines_a_point_has_its_own_covariance() -> None:
    U = Stream(1).uniform(12, 2)
    belief, V = GP.fit(U, np.sin(3 * U[:, :1])), Stream(2).uniform(3, 2)
    wide = belief.widened(np.array([4.0]), np.array([4.0]))
    assert wide.imagine(V).moments(V + 0.05)[1] == pytest.approx(4.0 * belief.imagine(V).moments(V + 0.05)[1], rel=1e-6)


def test_a_wider_belief_is_wider_also_where_noise_is_next_to_nothing() -> None:
    """Below the nugget of an exact output, rounding errors would make it narrower."""
    U = Stream(1).uniform(60, 1)
    belief = GP.fit(U, np.sin(5 * U), noise=(None,))
    wide = belief.widened(np.array([100.0]), np.array([2.0]))
    V = np.linspace(0.0, 1.0, 101)[:, None]
    assert (wide.moments(V)[1] > 1.5 * belief.moments(V)[1]).all()


def test_outputs_that_share_a_model_share_how_far_their_noise_is_trusted() -> None:
    U = Stream(1).uniform(12, 2)
    Y = np.stack([np.sin(3 * U[:, 0]), np.cos(2 * U[:, 1])], 1) + 0.1 * Stream(2).normal(12, 2)
    belief = GP.fit(U, Y, noise=(None, None), model=Model(shared=2))
    assert [len(group) for block in belief.blocks for group in block.groups] == [2]
    wide = belief.widened(np.array([6.0, 3.0]), np.array([2.0, 2.0]))
    assert (wide.moments(U)[1] >= belief.moments(U)[1]).all()
    np.testing.assert_allclose(wide.noise_deviation(U), belief.noise_deviation(U) * [4.0, 2.0])


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("is_cautious", [True, False])
def test_a_verdict_is_never_less_careful_than_what_is_said(noise: float, is_cautious: bool) -> None:
    problem = parabola(noise=noise)
    f, scales = np.zeros((60, problem.k)), np.ones(problem.k)
    for scores in ([], [[2.0] * problem.m] * 6, [[0.1] * problem.m] * 50):
        trust = Trust(problem, record(problem, scores), LEVEL, is_cautious)
        factor = trust.for_verdict(40, f[: len(trust.data.U)], scales)
        assert (factor >= np.maximum(trust.stated, VERDICT_NOISY if noise else VERDICT_EXACT)).all()
        assert (trust.for_verdict(2, f[: len(trust.data.U)], scales) >= factor).all()  # from few points nothing follows


def test_with_many_labels_every_point_tells_less() -> None:
    """Each label is an input of its own: ten labels beside a number ask for more points than two."""
    factors = []
    for count in (2, 10):
        choice = Choice(*(f"label {place}" for place in range(count)))
        problem = Problem({"x": (0.0, 1.0), "kind": choice}, ["y"], maximize="y", noise=None)
        factors.append(Trust(problem, record(problem, []), LEVEL).stated)
    assert (factors[1] > 1.5 * factors[0]).all()


def test_a_part_of_the_points_is_trusted_less_than_all() -> None:
    problem = parabola(noise=0.1)
    data = record(problem, [[0.1] * problem.m] * 50)
    trust = Trust(problem, data, LEVEL)
    assert (trust.stated == trust.least).all()
    assert trust.of_part(4) == pytest.approx(first(4, is_exact=problem.exact))
    assert (trust.of_part(4) > trust.of_part(1000)).all()
    assert (Trust(problem, data, LEVEL, is_cautious=False).of_part(4) == 1.0).all()


@pytest.mark.slow
def test_a_study_says_what_it_expects_and_points_do_not_depend_on_trust() -> None:
    bold, careful = (Study(waves(), seed=2, solver=CUQB(believer=Believer(cautious=each))) for each in (False, True))
    for study in (bold, careful):
        study.run(8)
    assert [tuple(trial.x.array) for trial in bold.trials] == [tuple(trial.x.array) for trial in careful.trials]
    last, plain = careful.trials[-1].why, bold.trials[-1].why
    assert len(last.expected) == 3
    assert last.widened > plain.widened == 1.0
    assert all(low <= middle <= high for low, middle, high in last.expected)
    width, narrow = (np.subtract(each.upper, each.lower) for each in (last, plain))
    assert (width >= narrow * (1 - 1e-9)).all()
    gap, old = careful.gap()[0], bold.gap()[0]
    assert gap is None or old is None or gap >= old * (1 - 1e-9)


def test_a_gap_far_beyond_everything_told_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem({"x": (0.0, 1.0)}, ["y"], maximize="exp(y)")
    study = Study(problem, seed=0)
    for _ in range(6):
        trial = study.ask()
        study.tell(trial, {"y": 10.0 * np.sin(17.0 * trial.x["x"] ** 2)})
    assert study.gap() == (np.inf, np.inf)
    assert "still possible" not in str(study.result())
    monkeypatch.setattr(gaps, "WIDEST", np.inf)
    told = study.data.functions(problem)[:, 0]
    assert study.gap()[0] > 10.0 * np.ptp(told)


def test_a_gap_is_infinite_where_no_objective_was_told() -> None:
    problem = Problem({"x": (0.0, 1.0)}, ["y"], maximize="y", noise=0)
    study = Study(problem, seed=0, initial=3)
    for _ in range(5):
        trial = study.ask()
        study.tell(trial, {"y": trial.x["x"]})
    study.revise(outputs=["y", "z"], maximize="z")
    for _ in range(3):
        study.ask(again=False)
    assert study.gap()[0] in (None, np.inf)


def test_a_measurement_with_an_unusually_large_error_is_no_surprise() -> None:
    problem = Problem({"x": (0.0, 1.0)}, ["y"], maximize="y")
    U, Y = np.linspace(0, 1, 9)[:, None], np.zeros((9, 1))
    Y[-1] = 1.0
    whys = (*(Why("initial"),) * 5, *(Why("explore", expected=((-0.1, 0.0, 0.1),)),) * 4)
    errors = np.full((9, 1), 0.05)
    usual, sharp = (
        Trust(problem, Dataset(tuple(range(9)), U, Y, U[:0], whys=whys, errors=each), 0.95)
        for each in (np.where(Y > 0, 1.0, errors), errors)
    )
    assert usual.stated < sharp.stated
    np.testing.assert_allclose(usual.misses[:-1], sharp.misses[:-1])


def test_few_rows_widen_as_student_does_and_with_fewer_than_parameters_nothing_is_said() -> None:
    """Of one setting: a mean, a variance, a noise, and how much the setting matters."""
    noisy, known, exact = parabola(noise=None), parabola(noise=0.1), parabola()
    trusts = [Trust(noisy, record(noisy, [], first=count), LEVEL) for count in range(1, 40)]
    assert [trust.is_too_few for trust in trusts] == [True] * 3 + [False] * 36
    assert trusts[5].least == pytest.approx(t.ppf(LEVEL, 3) / norm.ppf(LEVEL))  # six rows for four parameters
    assert all((trust.stated >= trust.least).all() for trust in trusts)
    assert trusts[-1].least == pytest.approx(1.0, abs=0.05)
    assert not Trust(known, record(known, [], first=3), LEVEL).is_too_few
    assert not Trust(exact, record(exact, [], first=1), LEVEL).is_too_few
    for words in ({"is_cautious": False}, {"is_stated": True}):
        assert not Trust(noisy, record(noisy, [], first=1), LEVEL, **words).is_too_few


def test_a_noise_from_few_rows_is_widened_as_well() -> None:
    problem = parabola(noise=None)
    data = record(problem, [], first=5)
    data = replace(data, Y=Stream(1).normal(5, problem.m))
    belief, trust = Believer().fit(problem, data, imagine=False), Trust(problem, data, LEVEL)
    assert trust.least[0] > OWN_LEARNED / 2
    said = widened(problem, belief, np.full(problem.m, 9.0), np.full(problem.m, 3.0))
    assert said.nugget_deviation == pytest.approx(3.0 * belief.nugget_deviation)
