"""An output with a plateau is a smooth one that is cut off there, where it leads up to the plateau."""

import dataclasses
import json

import numpy as np
import pytest
from scipy.special import log_ndtr

from pied import CUQB, Problem, Study
from pied.gp import GP, Coding, Labels, Model, ModelChoice, Paths, misfits
from pied.gp.parts import plateaus
from pied.rng import Stream

D = 2
U, V = Stream(1).sobol(40, D), Stream(2).sobol(512, D)


def excess(U):
    """Beyond 0, a bed is spent."""
    return np.sin(1.5 * U[:, 0]) + U[:, 1] ** 2 - 0.7


def slip(U):
    return np.maximum(20.0 * excess(U), 0.0)


def dropping(U):
    """The same with a cliff."""
    return np.where(excess(U) > 0, 15.0 + 20.0 * excess(U), 0.0)


def saturating(U):
    """It begins at a plateau and nears another value without reaching it."""
    return np.maximum(60.0 * (1.0 - np.exp(-6.0 * excess(U))), 0.0)


def words(m=1, noise=0.0, **model):
    return {
        "active": np.ones((m, D), dtype=bool),
        "ratios": np.ones(D),
        "noise": [noise] * m,
        "model": Model(**model),
    }


def belief(*outputs, U=U, **given):
    return GP.fit(U, np.stack([np.asarray(each, dtype=float) for each in outputs], 1), **words(len(outputs), **given))


def predicted(gp, U, z=0.0):
    mean, deviation = gp.moments(U)
    return gp.unwarp(mean + z * deviation)[:, 0]


# --- What is known beyond a plateau -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_numbers_that_are_all_positive_are_as_drawn_and_rejected(seed):
    q, stream = 4, Stream(seed)
    A = stream.at("root").normal(q, q)
    C, mean = A @ A.T + 0.1 * np.eye(q), stream.at("mean").normal(q)
    value, spread, evidence = plateaus.beyond(mean, C)
    drawn = mean + stream.at("drawn").normal(400_000, q) @ np.linalg.cholesky(C).T
    kept = drawn[(drawn > 0).all(1)]
    precision = np.linalg.inv(C) + np.diag(1.0 / spread)
    found = np.linalg.solve(precision, np.linalg.solve(C, mean) + value / spread)
    deviation = kept.std(0)
    # expectation propagation of a cut-off normal distribution is nearly, not wholly, exact
    assert np.exp(evidence) == pytest.approx(len(kept) / len(drawn), rel=0.1, abs=1e-3)
    assert np.abs(found - kept.mean(0)).max() < 0.1 * deviation.max()
    assert np.sqrt(np.diagonal(np.linalg.inv(precision))) == pytest.approx(deviation, rel=0.15)


def test_of_independent_numbers_nothing_is_approximate():
    mean, deviation = np.array([0.3, -1.0, 2.0]), np.array([1.0, 2.0, 0.5])
    _, _, evidence = plateaus.beyond(mean, np.diag(deviation**2))
    assert evidence == pytest.approx(log_ndtr(mean / deviation).sum(), rel=1e-4)  # plateaus begin within 1e-3


def test_what_is_certainly_beyond_says_nothing():
    _, spread, evidence = plateaus.beyond(np.full(3, 50.0), np.eye(3))
    assert spread.min() > 1e5
    assert evidence == pytest.approx(0.0, abs=1e-9)


def test_what_cannot_be_beyond_has_no_probability():
    assert plateaus.beyond(np.full(3, -1e4), np.eye(3))[2] < -1e6


def test_a_number_that_contradicts_the_others_is_at_the_edge():
    """Cut-off normal distributions far out: rounding errors would leave nothing of their moments."""
    mean, C = np.array([-900.0, 0.2]), np.diag([1.0, 1e-4])
    value, spread, _ = plateaus.beyond(mean, C)
    found = np.linalg.solve(np.linalg.inv(C) + np.diag(1.0 / spread), np.linalg.solve(C, mean) + value / spread)
    assert found == pytest.approx([0.0, 0.2], abs=0.01)


# --- Beliefs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "clipped"),
    [
        (slip, (-1,)),
        (lambda U: -slip(U), (1,)),
        (lambda U: np.minimum(slip(U), 8.0), (-1, 1)),
        (saturating, (-1,)),
    ],
    ids=["the least value", "the largest", "both", "a front"],
)
def test_an_output_that_leads_up_to_plateaus_is_cut_off_there(output, clipped):
    gp, plain, y = belief(output(U)), belief(output(U), plateaus=False), output(V)
    assert (gp.choices[0].clipped, plain.choices[0].clipped) == (clipped, ())
    assert np.abs(predicted(gp, V) - y).mean() < 0.5 * np.abs(predicted(plain, V) - y).mean()
    low, high = predicted(gp, V, -1.645), predicted(gp, V, 1.645)
    slack = 1e-9 * np.ptp(y)
    assert low.min() >= output(U).min() or -1 not in clipped
    assert high.max() <= output(U).max() or 1 not in clipped
    assert ((y >= low - slack) & (y <= high + slack)).mean() > 0.8


def test_told_values_are_reproduced():
    gp = belief(np.minimum(slip(U), 8.0))
    assert predicted(gp, U) == pytest.approx(np.minimum(slip(U), 8.0), abs=1e-4)


@pytest.mark.parametrize(
    "y",
    [
        dropping(U),
        np.ones(len(U)),
        excess(U),
        np.where(excess(U) > 0.9, slip(U), 0.0),
        np.floor(6.0 * excess(U)),
        np.where(np.arange(len(U)) < 2, 0.0, 1.0 + U[:, 0]),
    ],
    ids=["a cliff", "one value", "no plateau", "few values beside it", "a count", "twice the same value"],
)
def test_other_outputs_are_modelled_as_they_are(y):
    with_plateaus, without = belief(y), belief(y, plateaus=False)
    assert with_plateaus.choices[0].clipped == ()
    assert np.array_equal(predicted(with_plateaus, V), predicted(without, V))


def test_few_values_at_the_other_end_do_not_matter():
    """Two points at a second plateau are too few for one, and no steps of a count either."""
    few = np.sort(slip(U))[-2]
    assert belief(np.minimum(slip(U), few)).choices[0].clipped == (-1,)


def test_a_steep_rise_beside_a_plateau_has_a_belief():
    """On a logarithmic scale, the continuation reaches values that no number in natural units can tell apart."""
    W = np.concatenate([np.linspace(0, 1, 15), np.linspace(0.94, 1, 15)])[:, None]
    y = np.maximum(np.exp(100 * (W - 0.95)) - 1, 0.0)
    given = {"active": np.ones((1, 1), dtype=bool), "ratios": np.ones(1), "noise": [0.0], "model": Model()}
    gp = GP.fit(W, y, **given)
    assert np.isfinite(gp.moments(np.linspace(0, 1, 101)[:, None])).all()


@pytest.mark.parametrize("count", [31, 70])
def test_a_value_that_contradicts_a_plateau_is_believed(count):
    W = Stream(1).sobol(count, D)
    order = np.argsort(slip(W))
    y = slip(W)[order]
    y[-1] = 0.0  # far from the others
    before = GP.fit(W[order][:-1], y[:-1, None], **words())
    after = GP.fit(W[order], y[:, None], previous=before.choices, **words())
    assert before.choices[0].clipped == (-1,)
    assert predicted(after, W[order][-1:]) == pytest.approx(0.0, abs=0.1)


def test_a_gross_error_on_a_plateau_is_noticed():
    row = int(np.argsort(slip(U))[-10])
    W, y = np.vstack([U, U[[row]]]), np.append(slip(U), 0.0)[:, None]
    gp = GP.fit(W, y, previous=belief(slip(U)).choices, **words())
    found = misfits(W, y, gp.choices, **words())
    assert {row, len(U)} & {each.row for each in found}


def test_noise_of_another_output_is_learned_as_without_plateaus():
    noisy = 20.0 + 20.0 * excess(U) + (0.2 + 2.0 * U[:, 0] ** 2) * Stream(7).normal(len(U))
    Y = np.stack([slip(U), noisy], 1)
    given, alone = words(2) | {"noise": [0.0, None]}, words(1, noise=None)
    first, single = GP.fit(U, Y, **given), GP.fit(U, Y[:, 1:], **alone)
    again = GP.fit(U, Y, previous=first.choices, **given)
    separate = GP.fit(U, Y[:, 1:], previous=single.choices, **alone)
    assert again.choices[0].clipped == (-1,)
    assert again.choices[1].theta == pytest.approx(separate.choices[0].theta, rel=1e-3, abs=1e-3)


def test_many_points_are_judged_by_some_of_them():
    W = Stream(4).sobol(160, D)
    gp = belief(saturating(W), U=W)
    assert gp.choices[0].clipped == (-1,)
    assert np.abs(predicted(gp, V) - saturating(V)).mean() < 0.02 * np.ptp(saturating(V))


def test_the_same_value_along_a_variable_without_influence_is_no_plateau():
    W = U.copy()
    W[:5, 0] = 0.0  # the least value five times, whatever the second variable is
    assert belief(np.exp(W[:, 0]), U=W).choices[0].clipped == ()


@pytest.mark.parametrize(("labels", "properties"), [(2, 0), (3, 0), (3, 1)])
def test_an_output_that_depends_on_a_label_may_have_a_plateau(labels, properties):
    coding = Coding(D + 1, (Labels(1, labels, np.linspace(0, 1, labels)[:, None][:, :properties]),))
    codes = np.arange(len(W := Stream(4).sobol(60, D))) % labels
    cube = np.insert(W, 1, codes / (labels - 1), 1)
    given = {**words(), "active": np.ones((1, D + 1), dtype=bool), "ratios": np.ones(D + 1), "coding": coding}
    y = np.maximum(20.0 * (excess(W) + 0.1 * codes), 0.0)
    assert GP.fit(cube, y[:, None], **given).choices[0].clipped == (-1,)
    counts = np.floor(3.0 * W[:, 0] + 3.0 * W[:, 1]) + codes
    assert GP.fit(cube, counts[:, None], **given).choices[0].clipped == ()


def test_what_is_doubted_is_not_cut_off():
    gp = belief(-slip(U))
    assert gp.choices[0].clipped == (1,)
    assert predicted(gp, U, 9.0).max() == 0.0
    assert predicted(gp.beyond_plateaus, U, 9.0).max() > 0.0
    assert predicted(gp.beyond_plateaus, V[slip(V) > 1]) == pytest.approx(predicted(gp, V[slip(V) > 1]))


@pytest.mark.slow
def test_a_solver_without_samples_models_no_plateaus():
    from pied.bounds import Believer
    from pied.rivals.improvement import EIC

    study = Study(stated(), seed=0, solver=EIC(believer=Believer()))
    study.run(budget=14)
    made = [each for trial in study.trials for each in trial.why.memory.get("folded", {}).get("choices", [])]
    assert made
    assert not any(each["clipped"] for each in made)


def test_values_with_noise_have_no_plateau():
    assert belief(slip(U), noise=0.1).choices[0].clipped == ()
    assert belief(slip(U), noise=None).choices[0].clipped == ()


@pytest.mark.filterwarnings("error")
def test_outputs_are_judged_one_by_one():
    gp = belief(slip(U), excess(U), dropping(U), np.full(len(U), np.nan))
    assert [choice.clipped for choice in gp.choices] == [(-1,), (), (), ()]
    alone = belief(slip(U))
    assert predicted(gp, V) == pytest.approx(predicted(alone, V), rel=1e-6, abs=1e-6)


def test_units_do_not_matter():
    gp, other = belief(slip(U)), belief(1024.0 * slip(U) + 2048.0)
    assert other.choices[0].clipped == (-1,)
    assert predicted(other, V) == pytest.approx(1024.0 * predicted(gp, V) + 2048.0, rel=1e-6)


def test_a_choice_is_plain_data_from_which_the_belief_is_made_again():
    Y = saturating(U)[:, None]
    gp = GP.fit(U, Y, **words())
    stored = [ModelChoice.from_dict(json.loads(json.dumps(choice.to_dict()))) for choice in gp.choices]
    again = GP.at_choices(U, Y, stored, **words())
    assert (predicted(again, V), predicted(again, V, 2.0)) == (
        pytest.approx(predicted(gp, V)),
        pytest.approx(predicted(gp, V, 2.0)),
    )


def test_a_choice_for_data_that_lost_their_plateau_is_one_without():
    gp = belief(saturating(U))
    flat = saturating(U) == 0
    kept = GP.at_choices(U[~flat], saturating(U)[~flat][:, None], gp.choices, **words())
    assert kept.choices[0].clipped == ()
    assert np.isfinite(predicted(kept, V)).all()
    refitted = GP.fit(U[~flat], saturating(U)[~flat][:, None], previous=gp.choices, **words())
    assert refitted.choices[0].clipped == ()


def test_what_was_found_stays_while_values_are_added():
    few = GP.fit(U[:30], slip(U[:30])[:, None], **words())
    more = GP.fit(U[:31], slip(U[:31])[:, None], previous=few.choices, **words())
    assert (few.choices[0].clipped, more.choices[0].clipped) == ((-1,), (-1,))
    assert more.choices[0].selected == few.choices[0].selected


def test_slopes_end_at_plateaus():
    gp, step = belief(slip(U)), 1e-6
    mean, _, by_mean, _ = gp.moments_and_slopes(V)
    slopes = gp.unwarp_slopes(gp.unwarp(mean))[..., None] * by_mean
    for k in range(D):
        shift = step * np.eye(D)[k]
        differences = (predicted(gp, V + shift) - predicted(gp, V - shift)) / (2 * step)
        near = np.abs(mean[:, 0]) < 1e-3  # differences across the edge
        assert slopes[~near, 0, k] == pytest.approx(differences[~near], rel=1e-3, abs=1e-3)


def test_an_output_that_leads_up_to_its_plateau_is_explained():
    assert belief(slip(U)).density[0] > belief(slip(U), plateaus=False).density[0] + len(U)


def test_wider_and_imagined_beliefs_keep_their_plateaus():
    gp = belief(slip(U))
    wide, imagined = gp.widened(np.array([3.0]), np.array([3.0])), gp.imagine(V[:5])
    assert wide.moments(V)[1] == pytest.approx(3.0 * gp.moments(V)[1], rel=1e-6)
    assert predicted(imagined, V) == pytest.approx(predicted(gp, V), rel=1e-3, abs=1e-3)
    assert imagined.moments(V[:5])[1].max() < 1e-3 * gp.deviation[0]
    assert predicted(imagined, V, -3.0).min() >= 0.0


def test_functions_that_are_drawn_are_beyond_a_plateau_where_it_was_told():
    gp, on = belief(slip(U)), U[slip(U) == 0]
    paths = Paths.of(gp, 64, Stream(5))
    rows = np.tile(on, (64, 1))
    values, _ = paths.values_and_slopes(rows, np.repeat(np.arange(64), len(on)))
    assert (values[:, 0] <= 0.05 * np.ptp(slip(U))).mean() > 0.97


# --- Runs -------------------------------------------------------------------------------------------------------------


def spent(x):
    """A slip that begins when a bed is spent."""
    return {"slip": max(60.0 * (x["hours"] * x["flow"] / x["bed"] - 1.0), 0.0)}


def stated():
    variables = {"hours": (0.5, 3.0), "flow": (0.2, 2.0), "bed": (0.4, 3.0)}
    given = {"maximize": "2*hours*flow/(hours + 1) - 0.5*bed", "subject_to": ["slip <= 1"]}
    return Problem(variables, ["slip"], blackbox=spent, noise=0, **given)


def shortfall(study):
    """By how much the result is worse than the optimum, which is on the line where the slip is 1."""
    flow, bed = np.meshgrid(np.linspace(0.2, 2.0, 1500), np.linspace(0.4, 3.0, 1500))
    hours = (1.0 + 1.0 / 60.0) * bed / flow
    values = np.where((hours >= 0.5) & (hours <= 3.0), 2 * hours * flow / (hours + 1) - 0.5 * bed, -np.inf)
    return values.max() - study.result().value


@pytest.mark.slow
def test_a_limit_beyond_a_plateau_is_found():
    short, found = [], []
    for seed in range(3):
        study = Study(stated(), seed=seed)
        study.run(budget=32)
        short.append(shortfall(study))
        found += [each["clipped"] for trial in study.trials for each in trial.why.memory.get("choices", [])]
    assert any(found)
    assert np.median(short) < 1e-3


def test_the_paper_knows_of_no_plateaus():
    assert not CUQB.paper().believer.model.plateaus
    assert "plateaus" in {field.name for field in dataclasses.fields(Model)}
