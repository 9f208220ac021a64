"""What is said comes from a mixture of the best few models of each output."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pied import CUQB, Study
from pied.bounds import Believer
from pied.bounds.trust import widened
from pied.gp import GP, ModelChoice
from pied.gp.choices import Other
from pied.gp.mixture import MOST_POINTS, TEMPERATURE, Mixture, weighted
from pied.records import Dataset
from pied.rng import Stream
from tiny import parabola, waves


def told(problem, count=12, noise=0.02):
    """Data at random points."""
    U = Stream(3).uniform(count, problem.d)
    Y = np.stack([problem.evaluate(problem.named_x(x)) for x in problem.from_unit(U)])
    Y = Y + noise * Stream(4).normal(*Y.shape)
    return Dataset(tuple(range(1, count + 1)), U, Y, U[:0])


def said(problem, data):
    return Believer().fit(problem, data, imagine=False)


def test_weights_fall_with_the_score_and_a_model_without_one_has_none() -> None:
    weights = weighted(np.array([[0.0, -np.inf], [-TEMPERATURE, np.nan], [-np.inf, -np.inf]]))
    assert weights[:, 0] == pytest.approx(np.array([1.0, np.exp(-1.0), 0.0]) / (1.0 + np.exp(-1.0)))
    assert weights[:, 1] == pytest.approx([1.0, 0.0, 0.0])


def test_moments_are_those_of_draws_from_the_models() -> None:
    belief = said(problem := waves(noise=None), told(problem))
    mixture, U = belief.mixture, Stream(5).uniform(3, problem.d)
    assert mixture is not None
    stream, count = Stream(6), 60_000
    which = (stream.at("which").uniform(count, 1, problem.m) > mixture.weights.cumsum(0)[:, None, None]).sum(0)
    moments = [part.moments(U) for part in mixture.parts]
    mean, deviation = (np.take_along_axis(np.stack(each), which, 0) for each in zip(*moments, strict=True))
    drawn = mean + deviation * stream.at("normal").normal(count, len(U), problem.m)
    few = 4.0 * belief.deviation / count**0.5  # four standard errors
    assert belief.moments(U)[0] == pytest.approx(drawn.mean(0), abs=few.max())
    assert belief.moments(U)[1] == pytest.approx(drawn.std(0), rel=0.1)


def test_slopes_are_those_of_the_moments() -> None:
    problem = waves()
    belief = widened(problem, said(problem, told(problem)), np.full(problem.m, 2.0))
    U, step = Stream(7).uniform(4, problem.d), 1e-5
    mean, deviation, by_mean, by_deviation = belief.moments_and_slopes(U)
    assert mean == pytest.approx(belief.moments(U)[0])
    for j, way in enumerate(np.eye(problem.d)):
        up, down = belief.moments(U + step * way), belief.moments(U - step * way)
        assert by_mean[..., j] == pytest.approx((up[0] - down[0]) / (2 * step), rel=1e-4, abs=1e-4)
        assert by_deviation[..., j] == pytest.approx((up[1] - down[1]) / (2 * step), rel=1e-3, abs=1e-3)
    assert (deviation > 0).all()


def test_a_told_exact_value_is_exact_however_many_models_there_are() -> None:
    data = told(problem := waves(), noise=0.0)
    belief = said(problem, data)
    assert belief.mixture is not None
    mean, deviation = widened(problem, belief, np.full(problem.m, 6.0)).moments(data.U)
    assert mean == pytest.approx(data.Y, abs=1e-4 * belief.deviation.max())
    assert (deviation < 1e-4 * belief.deviation).all()


def test_where_models_differ_the_range_is_wider_by_as_much_as_trust_says() -> None:
    belief = said(problem := waves(), told(problem))
    one, U = replace(belief, mixture=None), Stream(8).uniform(200, problem.d)
    assert np.median(belief.moments(U)[1] / one.moments(U)[1]) > 1.0
    factor = np.full(problem.m, 3.0)
    assert belief.widened(factor, factor).moments(U)[1] == pytest.approx(3.0 * belief.moments(U)[1], rel=1e-6)
    assert belief.widened(factor, factor).moments(U)[0] == pytest.approx(belief.moments(U)[0], rel=1e-6)


def test_noise_is_mixed_as_well() -> None:
    belief = said(problem := waves(noise=None), told(problem, noise=0.1))
    own = [part.nugget_deviation for part in belief.mixture.parts]
    assert (np.min(own, 0) <= belief.nugget_deviation).all()
    assert (belief.nugget_deviation <= np.max(own, 0)).all()


def test_the_same_is_said_from_what_was_stored_and_a_search_does_not_mix() -> None:
    data, believer = told(problem := waves()), Believer()
    belief = believer.fit(problem, data)
    assert belief.mixture is None
    stored = [ModelChoice.from_dict(json.loads(json.dumps(each.to_dict()))) for each in belief.choices]
    assert stored == list(belief.choices)
    assert all(isinstance(each, Other) for each in stored[0].others)
    again = believer.mixed(problem, data, believer.conditioned(problem, data, stored))
    U = Stream(9).uniform(5, problem.d)
    for found, wanted in zip(again.moments(U), said(problem, data).moments(U), strict=True):
        assert found == pytest.approx(wanted, rel=1e-6)


def test_a_store_without_other_models_is_read() -> None:
    data = said(problem := waves(), told(problem)).choices[0].to_dict()
    del data["others"]
    assert ModelChoice.from_dict(data).others == ()


def test_it_can_be_left_out_and_the_paper_has_none() -> None:
    data = told(problem := parabola())
    assert Believer(mixture=False).fit(problem, data, imagine=False).mixture is None
    assert CUQB.paper().believer.fit(problem, data, imagine=False).mixture is None


def test_of_many_points_the_best_model_speaks_alone() -> None:
    problem = parabola()
    data, rest = told(problem, MOST_POINTS), told(problem, MOST_POINTS + 1)
    few = GP.fit(data.U, data.Y)
    words = {"active": problem.active, "ratios": np.ones(problem.d), "noise": (0.0,), "model": Believer().model}
    assert isinstance(few.among(data.U, data.Y, **words).mixture, Mixture)
    assert few.among(rest.U, rest.Y, **words).mixture is None


def test_proposals_do_not_depend_on_it() -> None:
    """As long as nothing was missed: what is said steers no search."""
    points = []
    for believer in (Believer(), Believer(mixture=False)):
        with Study(problem := parabola(), solver=CUQB(believer=believer), seed=1) as study:
            for _ in range(problem.d * 2 + 3):
                trial = study.ask()
                study.tell(trial, problem.named_y(problem.evaluate(trial.x)))
            points.append([dict(trial.x) for trial in study.trials])
    assert points[0] == points[1]
